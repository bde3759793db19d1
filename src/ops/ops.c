#include "ops/ops.h"

#define OPS(file)                  \
  extern const ir_op ops_##file[]; \
  extern const uint32_t ops_##file##_count;
#include "ops/ops.def"
#undef OPS

typedef struct family {
  const ir_op *ops;
  const uint32_t *count;
} family;

static const family families[] = {
#define OPS(file) {ops_##file, &ops_##file##_count},
#include "ops/ops.def"
#undef OPS
};

const ir_opset *ops_set(base_arena *arena) {
  const uint32_t count = OP_COUNT - 1;
  ir_opset *set = base_new(arena, ir_opset, 1);
  const ir_op **ops = base_new(arena, const ir_op *, count);
  if (!set || !ops) return NULL;
  for (size_t f = 0; f < sizeof families / sizeof *families; f++)
    for (uint32_t i = 0; i < *families[f].count; i++) {
      const ir_op *op = &families[f].ops[i];
      BASE_ASSERT(op->id != OP_NONE && op->id < OP_COUNT && !ops[op->id - 1]);
      ops[op->id - 1] = op;
    }
  *set = (ir_opset){.ops = ops, .count = count};
  return ir_opset_index(set, arena) ? set : NULL;
}
