/* node.c -- what lowerings see of a node. Every function does nothing once the node has failed. */
#include "import/onnx/state_priv.h"

ir_build *onnx_build(onnx_node *n) { return &n->b; }
void onnx_take(onnx_node *n, td_status status) { ir_build_take(&n->b, status); }
bool onnx_failed(const onnx_node *n) { return ir_build_failed(&n->b); }

ir_value onnx_constant_in_place(onnx_node *n, const base_tensor *tensor) {
  ir_value value = IR_NO_VALUE;
  if (!onnx_failed(n)) onnx_take(n, ir_add_constant(n->im->graph, tensor, NULL, &value, n->im->err));
  return value;
}

/* ---- the node ---- */

int64_t onnx_opset(const onnx_node *n) { return n->record->impl.version; }
const char *onnx_op_type(const onnx_node *n) { return n->op_type; }
uint32_t onnx_in_count(const onnx_node *n) { return n->in_count; }
uint32_t onnx_out_count(const onnx_node *n) { return n->out_count; }
bool onnx_wants(const onnx_node *n, uint32_t i) { return i < n->out_count && n->record->out.at[i].length; }

bool onnx_has(const onnx_node *n, uint32_t i) {
  if (i >= n->in_count) return false;
  n->in_read[i] = true;
  return n->in[i].id;
}

ir_value onnx_in(onnx_node *n, uint32_t i) { return onnx_has(n, i) && !onnx_failed(n) ? n->in[i] : IR_NO_VALUE; }

const ir_value *onnx_all_in(onnx_node *n) {
  for (uint32_t i = 0; i < n->in_count; i++) n->in_read[i] = true;
  return n->in;
}

void onnx_out(onnx_node *n, uint32_t i, ir_value value) {
  if (onnx_failed(n) || i >= n->out_count) return;
  n->out[i] = value;
  n->made[i] = true;
}

td_dtype onnx_dtype(onnx_node *n, int64_t element_type) {
  td_dtype dtype = onnx_failed(n) ? TD_INVALID : fmt_onnx_dtype(element_type);
  if (dtype == TD_INVALID)
    onnx_fail(n, TD_UNSUPPORTED, "the element type %lld is not supported", (long long)element_type);
  return dtype;
}
