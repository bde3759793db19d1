/* build.c -- the builder of front ends: its error, what is known of values, constants, nodes. Every function does
 * nothing once the builder has failed. */
#include "ir/build.h"

#include <string.h>

ir_build ir_build_of(ir_graph *graph, td_error *err) {
  return (ir_build){.graph = graph, .block = graph->top, .err = err};
}

/* ---- failures and origins ---- */

void ir_build_take(ir_build *b, td_status status) {
  if (status == TD_OK || ir_build_failed(b)) return;
  b->status = b->frame ? base_error_name(b->err, status, "node %s", b->frame->name) : status;
}

void ir_build_fail(ir_build *b, td_status code, const char *format, ...) {
  if (ir_build_failed(b)) return;
  va_list args;
  va_start(args, format);
  td_status status = base_vfail(b->err, code, NULL, -1, format, args);
  va_end(args);
  ir_build_take(b, status);
}

void *ir_build_alloc(ir_build *b, size_t bytes) {
  if (ir_build_failed(b)) return NULL;
  void *memory = base_arena_alloc(b->graph->arena, bytes ? bytes : 1);
  if (!memory) ir_build_take(b, base_no_memory(b->err, "a node"));
  return memory;
}

void ir_build_enter(ir_build *b, ir_frame *frame, const char *name) {
  *frame = (ir_frame){.name = name, .outer = b->frame};
  b->frame = frame;
}

void ir_build_leave(ir_build *b) { b->frame = b->frame->outer; }

/* ---- values ---- */

static const ir_info *info(const ir_build *b, ir_value v) { return &ir_value_of(b->graph, v)->info; }

const ir_type *ir_build_type(const ir_build *b, ir_value v) {
  static const ir_type nothing = {.kind = IR_TENSOR, .dtype = TD_INVALID, .rank = IR_UNRANKED};
  return v.id ? &info(b, v)->type : &nothing;
}

int32_t ir_build_rank(ir_build *b, ir_value v) {
  const ir_type *type = ir_build_type(b, v);
  if (ir_build_failed(b)) return 0;
  if (type->kind == IR_TENSOR && type->rank != IR_UNRANKED) return type->rank;
  ir_build_fail(b, TD_UNSUPPORTED,
                "the operator needs an input whose number of dimensions is known before the model runs");
  return 0;
}

int64_t ir_build_axis(ir_build *b, int64_t axis, int32_t rank) {
  if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
  ir_build_fail(b, TD_BAD_FILE, "axis %lld is outside [%d, %d)", (long long)axis, -rank, rank);
  return 0;
}

/* More elements than any attribute-like operand has: their contents are read when the model runs. */
enum { MAX_KNOWN = 4096 };

/* The constant that v is, when it is small; *count gets its elements. */
static const base_tensor *small_constant(const ir_build *b, ir_value v, uint32_t *count) {
  const base_tensor *t = ir_build_failed(b) || !v.id ? NULL : info(b, v)->constant;
  if (!t || t->dtype == TD_STRING || base_tensor_numel(t) > MAX_KNOWN || !base_tensor_contiguous(t)) return NULL;
  *count = (uint32_t)base_tensor_numel(t);
  return t;
}

bool ir_build_known_ints(ir_build *b, ir_value v, const int64_t **ints, uint32_t *count) {
  uint32_t total = 0;
  const base_tensor *t = small_constant(b, v, &total);
  const base_dim *known = t || ir_build_failed(b) || !v.id ? NULL : info(b, v)->ints;
  if (t ? base_is_float(t->dtype) : !known) return false;
  if (!t) total = info(b, v)->int_count;
  for (uint32_t i = 0; known && i < total; i++)
    if (!base_dim_known(known[i])) return false;
  int64_t *to = ir_build_alloc(b, total * sizeof *to);
  for (uint32_t i = 0; to && i < total; i++) to[i] = t ? base_load_i64(t->dtype, t->data, i) : known[i];
  *ints = to;
  *count = total;
  return to != NULL;
}

bool ir_build_known_int(ir_build *b, ir_value v, int64_t *value) {
  const int64_t *ints;
  uint32_t count;
  if (!ir_build_known_ints(b, v, &ints, &count) || count != 1) return false;
  *value = ints[0];
  return true;
}

bool ir_build_known_floats(ir_build *b, ir_value v, const double **floats, uint32_t *count) {
  const base_tensor *t = small_constant(b, v, count);
  double *to = t ? ir_build_alloc(b, *count * sizeof *to) : NULL;
  for (uint32_t i = 0; to && i < *count; i++) to[i] = base_load_f64(t->dtype, t->data, i);
  *floats = to;
  return to != NULL;
}

/* ---- constants ---- */

ir_value ir_build_ints(ir_build *b, const int64_t *ints, uint32_t count) {
  ir_value value = IR_NO_VALUE;
  if (!ir_build_failed(b)) ir_build_take(b, ir_add_ints(b->graph, ints, count, &value, b->err));
  return value;
}

ir_value ir_build_scalar(ir_build *b, td_dtype dtype, double value) {
  ir_value v = IR_NO_VALUE;
  if (dtype == TD_INVALID || dtype == TD_STRING)
    ir_build_fail(b, TD_BAD_FILE, "an input is missing, or is no tensor of numbers");
  if (!ir_build_failed(b)) ir_build_take(b, ir_add_scalar(b->graph, dtype, value, &v, b->err));
  return v;
}

ir_value ir_build_int(ir_build *b, int64_t value) {
  base_tensor t = base_tensor_of(&value, TD_I64, 0, NULL);
  return ir_build_constant(b, &t);
}

ir_value ir_build_constant(ir_build *b, const base_tensor *tensor) {
  ir_value value = IR_NO_VALUE;
  void *data = ir_build_alloc(b, base_tensor_bytes(tensor));
  if (!data) return value;
  base_tensor_pack(data, tensor);
  base_tensor copy = base_tensor_of(data, tensor->dtype, tensor->rank, tensor->dims);
  ir_build_take(b, ir_add_constant(b->graph, &copy, NULL, &value, b->err));
  return value;
}

/* ---- nodes ---- */

static td_status add(ir_build *b, ir_new_node *spec, ir_node *node) {
  if (b->frame) spec->origins = (ir_origins){&b->frame->name, 1};
  return ir_add_node(b->graph, b->block, spec, node, NULL, b->err);
}

static const ir_op *find_op(ir_build *b, const char *op) {
  const ir_op *found = ir_opset_find(b->graph->ops, op);
  if (!found) ir_build_fail(b, TD_UNSUPPORTED, "it needs the operator %s, which is not there", op);
  return found;
}

void ir_emit_many(ir_build *b, const char *op, const ir_value *in, uint32_t in_count, const base_arg *args,
                  uint32_t arg_count, ir_value *outs, uint32_t out_count) {
  if (outs) memset(outs, 0, out_count * sizeof *outs);
  if (ir_build_failed(b)) return;
  ir_new_node spec = {.op = find_op(b, op),
                      .in = in,
                      .in_count = in_count,
                      .out_count = out_count,
                      .args = args,
                      .arg_count = arg_count};
  if (!spec.op) return;
  while (spec.in_count > spec.op->min_in && !in[spec.in_count - 1].id) spec.in_count--;
  ir_node node = {0};
  ir_build_take(b, add(b, &spec, &node));
  if (outs && !ir_build_failed(b)) memcpy(outs, ir_node_of(b->graph, node)->out, out_count * sizeof *outs);
}

ir_value ir_emit(ir_build *b, const char *op, const ir_value *in, uint32_t in_count, const base_arg *args,
                 uint32_t arg_count) {
  ir_value out = IR_NO_VALUE;
  ir_emit_many(b, op, in, in_count, args, arg_count, &out, 1);
  return out;
}

ir_value ir_build_cast(ir_build *b, ir_value v, td_dtype dtype) {
  if (ir_build_failed(b) || ir_build_dtype(b, v) == dtype) return v;
  return IR_EMIT_ARGS(b, "aten::_to_copy", &v, 1, ARG_DTYPE("dtype", dtype));
}

ir_value ir_build_to_scalar(ir_build *b, ir_value v, td_dtype dtype, const char *what) {
  const ir_type *type = ir_build_type(b, v);
  if (ir_build_failed(b) || !v.id) return v;
  if (type->kind != IR_TENSOR || type->dtype != dtype)
    ir_build_fail(b, TD_BAD_FILE, "the %s must be of type %s", what, td_dtype_name(dtype));
  return type->rank == 0 ? v : IR_EMIT(b, "aten::view", v, ir_build_ints(b, NULL, 0));
}

/* ---- blocks and regions ---- */

ir_block ir_build_block(ir_build *b) {
  ir_block block = {0};
  if (!ir_build_failed(b)) ir_build_take(b, ir_add_block(b->graph, (ir_node){0}, &block, b->err));
  return block;
}

ir_value ir_build_param(ir_build *b, ir_block block, const ir_type *type) {
  ir_value value = IR_NO_VALUE;
  if (!ir_build_failed(b)) ir_build_take(b, ir_add_param(b->graph, block, type, NULL, &value, b->err));
  return value;
}

void ir_build_result(ir_build *b, ir_block block, ir_value value) {
  if (!ir_build_failed(b)) ir_build_take(b, ir_add_result(b->graph, block, value, b->err));
}

static void discard(ir_graph *g, ir_block block) {
  ir_block_def *def = ir_block_of(g, block);
  for (uint32_t i = 0; i < def->nodes.count; i++) {
    ir_node_def *node = ir_node_of(g, def->nodes.at[i]);
    for (uint32_t k = 0; k < node->block_count; k++) discard(g, node->blocks[k]);
    node->op = NULL;
  }
  def->nodes.count = def->results.count = def->params.count = 0;
}

void ir_build_discard(ir_build *b, ir_block block) { discard(b->graph, block); }

void ir_build_region(ir_build *b, const char *op, ir_new_node spec, const ir_block *blocks, uint32_t block_count,
                     ir_value *outs) {
  ir_graph *g = b->graph;
  ir_block *owned = ir_build_alloc(b, block_count * sizeof *owned);
  ir_node node = {0};
  if (owned) spec.op = find_op(b, op);
  if (!spec.op) return;
  ir_build_take(b, add(b, &spec, &node));
  if (ir_build_failed(b)) return;
  for (uint32_t i = 0; i < block_count; i++) {
    owned[i] = blocks[i];
    ir_block_of(g, blocks[i])->owner = node;
  }
  ir_node_of(g, node)->blocks = owned;
  ir_node_of(g, node)->block_count = block_count;
  if (spec.out_count) memcpy(outs, ir_node_of(g, node)->out, spec.out_count * sizeof *outs);
}

uint32_t ir_node_args(const ir_node_def *node, base_arg *args) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < node->op->attr_count; i++) {
    const base_attr *from = &node->attrs->at[i];
    if (from->kind == BASE_ATTR_NONE) continue;
    base_arg *to = &args[count++];
    *to = (base_arg){.name = node->op->attrs[i].name, .kind = (base_attr_kind)from->kind, .count = from->count};
    if (to->kind == BASE_ATTR_FLOAT) to->f = from->u.f;
    else if (to->kind == BASE_ATTR_STR) to->str = base_attr_str(node->attrs, i);
    else if (to->kind == BASE_ATTR_INTS) to->ints = base_attr_ints(node->attrs, i, &to->count);
    else if (to->kind == BASE_ATTR_FLOATS) to->floats = base_attr_floats(node->attrs, i, &to->count);
    else to->i = from->u.i;
  }
  return count;
}
