/* node.c -- what lowerings see of a node and of values, and how they build. Every function does nothing once the node
 * has failed. */
#include "import/onnx/state_priv.h"

#include <stdio.h>
#include <string.h>

/* ---- failures ---- */

void onnx_take(onnx_node *n, td_status status) {
  if (status == TD_OK || n->status != TD_OK) return;
  n->status = base_error_name(n->im->err, status, "node %s", n->origin);
}

void onnx_fail(onnx_node *n, td_status code, const char *format, ...) {
  if (n->status != TD_OK) return;
  va_list args;
  va_start(args, format);
  td_status status = base_vfail(n->im->err, code, NULL, -1, format, args);
  va_end(args);
  onnx_take(n, status);
}

bool onnx_failed(const onnx_node *n) { return n->status != TD_OK; }

void *onnx_alloc(onnx_node *n, size_t bytes) {
  if (onnx_failed(n)) return NULL;
  void *memory = base_arena_alloc(n->im->graph->arena, bytes ? bytes : 1);
  if (!memory) onnx_take(n, base_no_memory(n->im->err, "a node"));
  return memory;
}

/* ---- the node ---- */

int64_t onnx_opset(const onnx_node *n) { return n->record->impl.version; }
const char *onnx_op_type(const onnx_node *n) { return n->op_type; }
uint32_t onnx_in_count(const onnx_node *n) { return n->in_count; }
uint32_t onnx_out_count(const onnx_node *n) { return n->out_count; }
bool onnx_has(const onnx_node *n, uint32_t i) { return i < n->in_count && n->in[i].id; }
bool onnx_wants(const onnx_node *n, uint32_t i) { return i < n->out_count && n->record->out.at[i].length; }
ir_value onnx_in(onnx_node *n, uint32_t i) { return !onnx_failed(n) && i < n->in_count ? n->in[i] : IR_NO_VALUE; }

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

/* ---- values ---- */

static const ir_info *info(const onnx_node *n, ir_value v) { return &ir_value_of(n->im->graph, v)->info; }

const ir_type *onnx_type(onnx_node *n, ir_value v) {
  static const ir_type nothing = {.kind = IR_TENSOR, .dtype = TD_INVALID, .rank = IR_UNRANKED};
  return v.id ? &info(n, v)->type : &nothing;
}

int32_t onnx_rank(onnx_node *n, ir_value v) {
  const ir_type *type = onnx_type(n, v);
  if (onnx_failed(n)) return 0;
  if (type->kind == IR_TENSOR && type->rank != IR_UNRANKED) return type->rank;
  onnx_fail(n, TD_UNSUPPORTED, "the operator needs an input whose number of dimensions is known before the model runs");
  return 0;
}

int64_t onnx_axis(onnx_node *n, int64_t axis, int32_t rank) {
  if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
  onnx_fail(n, TD_BAD_FILE, "axis %lld is outside [%d, %d)", (long long)axis, -rank, rank);
  return 0;
}

/* More elements than any attribute-like operand has: their contents are read when the model runs. */
enum { MAX_KNOWN = 4096 };

/* The constant that v is, when it is small; *count gets its elements. */
static const base_tensor *small_constant(onnx_node *n, ir_value v, uint32_t *count) {
  const base_tensor *t = onnx_failed(n) || !v.id ? NULL : info(n, v)->constant;
  if (!t || t->dtype == TD_STRING || base_tensor_numel(t) > MAX_KNOWN || !base_tensor_contiguous(t)) return NULL;
  *count = (uint32_t)base_tensor_numel(t);
  return t;
}

bool onnx_known_ints(onnx_node *n, ir_value v, const int64_t **ints, uint32_t *count) {
  uint32_t total = 0;
  const base_tensor *t = small_constant(n, v, &total);
  const base_dim *known = t || onnx_failed(n) || !v.id ? NULL : info(n, v)->ints;
  if (t ? base_is_float(t->dtype) : !known) return false;
  if (!t) total = info(n, v)->int_count;
  for (uint32_t i = 0; known && i < total; i++)
    if (!base_dim_known(known[i])) return false;
  int64_t *to = onnx_alloc(n, total * sizeof *to);
  for (uint32_t i = 0; to && i < total; i++) to[i] = t ? base_load_i64(t->dtype, t->data, i) : known[i];
  *ints = to;
  *count = total;
  return to != NULL;
}

bool onnx_known_floats(onnx_node *n, ir_value v, const double **floats, uint32_t *count) {
  const base_tensor *t = small_constant(n, v, count);
  double *to = t ? onnx_alloc(n, *count * sizeof *to) : NULL;
  for (uint32_t i = 0; to && i < *count; i++) to[i] = base_load_f64(t->dtype, t->data, i);
  *floats = to;
  return to != NULL;
}

/* ---- building ---- */

ir_value onnx_ints(onnx_node *n, const int64_t *ints, uint32_t count) {
  ir_value value = IR_NO_VALUE;
  if (!onnx_failed(n)) onnx_take(n, ir_add_ints(n->im->graph, ints, count, &value, n->im->err));
  return value;
}

ir_value onnx_scalar(onnx_node *n, td_dtype dtype, double value) {
  ir_value v = IR_NO_VALUE;
  if (dtype == TD_INVALID || dtype == TD_STRING)
    onnx_fail(n, TD_BAD_FILE, "an input is missing, or is no tensor of numbers");
  if (!onnx_failed(n)) onnx_take(n, ir_add_scalar(n->im->graph, dtype, value, &v, n->im->err));
  return v;
}

ir_value onnx_int(onnx_node *n, int64_t value) {
  base_tensor t = base_tensor_of(&value, TD_I64, 0, NULL);
  return onnx_constant(n, &t);
}

ir_value onnx_constant(onnx_node *n, const base_tensor *tensor) {
  ir_value value = IR_NO_VALUE;
  void *data = onnx_alloc(n, base_tensor_bytes(tensor));
  if (!data) return value;
  base_tensor_pack(data, tensor);
  base_tensor copy = base_tensor_of(data, tensor->dtype, tensor->rank, tensor->dims);
  onnx_take(n, ir_add_constant(n->im->graph, &copy, NULL, &value, n->im->err));
  return value;
}

void onnx_emit_many(onnx_node *n, const char *op, const ir_value *in, uint32_t in_count, const base_arg *args,
                    uint32_t arg_count, ir_value *outs, uint32_t out_count) {
  if (outs) memset(outs, 0, out_count * sizeof *outs);
  if (onnx_failed(n)) return;
  ir_graph *g = n->im->graph;
  ir_new_node spec = {.op = ir_opset_find(g->ops, op),
                      .in = in,
                      .in_count = in_count,
                      .out_count = out_count,
                      .args = args,
                      .arg_count = arg_count,
                      .origins = {&n->origin, 1}};
  if (!spec.op) {
    onnx_fail(n, TD_UNSUPPORTED, "it needs the operator %s, which is not there", op);
    return;
  }
  while (spec.in_count > spec.op->min_in && !in[spec.in_count - 1].id) spec.in_count--;
  ir_node node = {0};
  onnx_take(n, ir_add_node(g, n->scope->block, &spec, &node, NULL, n->im->err));
  if (outs && !onnx_failed(n)) memcpy(outs, ir_node_of(g, node)->out, out_count * sizeof *outs);
}

ir_value onnx_emit(onnx_node *n, const char *op, const ir_value *in, uint32_t in_count, const base_arg *args,
                   uint32_t arg_count) {
  ir_value out = IR_NO_VALUE;
  onnx_emit_many(n, op, in, in_count, args, arg_count, &out, 1);
  return out;
}

ir_value onnx_cast(onnx_node *n, ir_value v, td_dtype dtype) {
  if (onnx_failed(n) || onnx_type_dtype(n, v) == dtype) return v;
  return ONNX_EMIT_ARGS(n, "aten::_to_copy", &v, 1, ARG_DTYPE("dtype", dtype));
}
