/* known.c -- numbers that a program computes from constants alone by way of tensors ("float(torch.tensor(x).log2())"):
 * references of the operators say what they are while the program is imported. */
#include "import/aten/aten_priv.h"

#include "ir/eval.h"

enum { MAX_NODES = 64, MAX_OPERANDS = 8, MAX_ELEMENTS = 16 };

static bool few(const base_tensor *t) { return base_tensor_numel(t) <= MAX_ELEMENTS; }

static bool evaluable(const ir_node_def *node) {
  const uint32_t never = IR_OP_REGION | IR_OP_RANDOM | IR_OP_HOST | IR_OP_EFFECT | IR_OP_DEFINES;
  return node->op && !(node->op->flags & never) && node->op->reference && node->out_count == 1 &&
         node->in_count <= MAX_OPERANDS;
}

/* What `v` holds; false: more than constants decide it, or it takes more than *left nodes. */
static bool evaluate(aten *a, ir_value v, uint32_t *left, base_value *out) {
  const ir_value_def *def = ir_value_of(a->b->graph, v);
  if (def->info.constant) {
    *out = (base_value){.kind = BASE_TENSOR, .tensor = *def->info.constant};
    return few(def->info.constant);
  }
  const ir_node_def *node = def->node.id ? ir_node_of(a->b->graph, def->node) : NULL;
  const int64_t count = ir_known_count(&def->info.type);
  if (!node || !evaluable(node) || *left == 0 || count < 0 || count > MAX_ELEMENTS) return false;
  --*left;
  base_value in[MAX_OPERANDS];
  const base_value *at[MAX_OPERANDS];
  for (uint32_t i = 0; i < node->in_count; i++) {
    at[i] = node->in[i].id ? &in[i] : NULL;
    if (at[i] && !evaluate(a, node->in[i], left, &in[i])) return false;
  }
  td_error err;
  const td_status status = ir_evaluate(node->op, node->attrs, at, node->in_count, a->arena, out, 1, &err);
  if (status == TD_NO_RESOURCE) ir_build_take(a->b, base_no_memory(a->b->err, "a number"));
  return status == TD_OK && out->kind == BASE_TENSOR && few(&out->tensor);
}

bool aten_evaluate(aten *a, ir_value v, base_tensor *tensor) {
  uint32_t left = MAX_NODES;
  base_value value;
  if (ir_build_failed(a->b) || !evaluate(a, v, &left, &value)) return false;
  *tensor = value.tensor;
  return true;
}
