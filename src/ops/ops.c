#include "ops/ops.h"

#include <stdlib.h>
#include <string.h>

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

static int by_name(const void *a, const void *b) {
  return strcmp((*(const ir_op *const *)a)->name, (*(const ir_op *const *)b)->name);
}

const ir_opset *ops_set(base_arena *arena) {
  uint32_t count = 0;
  for (size_t f = 0; f < sizeof families / sizeof *families; f++) count += *families[f].count;
  ir_opset *set = base_new(arena, ir_opset, 1);
  const ir_op **ops = base_new(arena, const ir_op *, count);
  if (!set || !ops) return NULL;
  uint32_t n = 0;
  for (size_t f = 0; f < sizeof families / sizeof *families; f++)
    for (uint32_t i = 0; i < *families[f].count; i++) ops[n++] = &families[f].ops[i];
  qsort(ops, count, sizeof *ops, by_name);
  *set = (ir_opset){.ops = ops, .count = count};
  return ir_opset_index(set, arena) ? set : NULL;
}
