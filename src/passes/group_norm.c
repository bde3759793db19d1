/* group_norm.c -- group norms that exporters spell out become one operator, so that images stay as they lie:
 *
 *     view(native_group_norm(view(x, [n, groups, ...])), shape of x)  -> native_group_norm(x) {num_groups = groups}
 *     native_group_norm(x) * w + b                                    -> with weight and bias
 *
 * The inner one has a group for each of its channels, and no weight and bias but ones and zeros; w and b have one
 * element for each channel.
 *
 * Requires: a verified graph; f32. Keeps: types. Breaks: bit equality. */
#include "passes/passes_priv.h"

static bool is_image(const ir_type *t) {
  return t->kind == IR_TENSOR && t->dtype == TD_F32 && t->rank >= 3 && base_dim_known(t->dims[1]) && t->dims[1] > 0;
}

/* Is operand `i` absent, or a constant of nothing but `value`? */
static bool is_all(passes_edit *e, const ir_node_def *node, uint32_t i, double value) {
  if (node->in_count <= i || !node->in[i].id) return true;
  const base_tensor *t = passes_constant(e, node, i);
  if (!t || !base_tensor_contiguous(t)) return false;
  for (int64_t k = 0; k < base_tensor_numel(t); k++)
    if (base_load_f64(t->dtype, t->data, k) != value) return false;
  return true;
}

static td_status put(passes_edit *e, ir_node at, const ir_value in[3], int64_t groups, double eps,
                     const ir_node_def *also) {
  const base_arg args[] = {ARG_INT("num_groups", groups), ARG_FLOAT("eps", eps)};
  const uint32_t count = in[2].id ? 3 : in[1].id ? 2 : 1;
  const ir_new_node spec = {.in = in, .in_count = count, .args = args, .arg_count = 2};
  ir_value made;
  TRY(passes_add(e, at, OP_aten_native_group_norm, spec, also, &made));
  return passes_take_place(e, at, made);
}

/* A norm of images with channels first, without an activation, that only this operand reads; NULL: another. */
static const ir_node_def *norm_of(passes_edit *e, ir_value v) {
  const ir_node_def *norm = passes_only_producer(e, v, OP_aten_native_group_norm);
  const bool plain = norm && !passes_int(norm, "channels_last") && !base_attr_has(norm->attrs, KERN_GROUP_NORM_ACT);
  return plain && is_image(ir_type_of(e->graph, norm->in[0])) ? norm : NULL;
}

static td_status visit_view(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_node_def *norm = norm_of(e, node->in[0]);
  const ir_node_def *split = norm ? passes_producer(e, norm->in[0], OP_aten_view) : NULL;
  if (!split) return TD_OK;
  const ir_type *x = ir_type_of(e->graph, split->in[0]), *parts = ir_type_of(e->graph, norm->in[0]);
  const int64_t groups = parts->dims[1], given = passes_int(norm, "num_groups");
  const bool fits = is_image(x) && ir_type_equal(x, ir_type_of(e->graph, node->out[0])) &&
                    x->dims[0] == parts->dims[0] && x->dims[1] % groups == 0 && (given == 0 || given == groups);
  if (!fits || !is_all(e, norm, 1, 1) || !is_all(e, norm, 2, 0)) return TD_OK;
  const ir_value in[] = {split->in[0], IR_NO_VALUE, IR_NO_VALUE};
  return put(e, id, in, groups, passes_float(norm, "eps"), norm);
}

/* A constant with one element for each channel of an image of this type, as a value of rank 1; none. */
static td_status vector_of(passes_edit *e, ir_value v, const ir_type *image, ir_value *vector) {
  const base_tensor *t = passes_constant_value(e, v);
  const int32_t axis = t ? t->rank - (image->rank - 1) : -1;
  *vector = IR_NO_VALUE;
  if (axis < 0 || t->dtype != TD_F32 || t->dims[axis] != image->dims[1] || base_tensor_numel(t) != image->dims[1])
    return TD_OK;
  base_tensor row = *t;
  row.rank = 1;
  row.dims[0] = t->dims[axis];
  row.strides[0] = t->strides[axis];
  return ir_add_constant(e->graph, &row, NULL, vector, e->err);
}

/* Operand `operand` of a norm that lacks it, and what comes behind it, becomes the other operand of `node`. */
static td_status give_vector(passes_edit *e, ir_node id, const ir_node_def *node, uint32_t operand) {
  for (uint32_t side = 0; side < 2; side++) {
    const ir_node_def *found = norm_of(e, node->in[side]);
    if (!found) continue;
    const ir_node_def norm = *found; /* the graph's nodes move */
    ir_value in[3] = {norm.in[0], norm.in_count > 1 ? norm.in[1] : IR_NO_VALUE};
    if (norm.in_count > operand) continue;
    TRY(vector_of(e, node->in[1 - side], ir_type_of(e->graph, norm.in[0]), &in[operand]));
    if (in[operand].id) return put(e, id, in, passes_int(&norm, "num_groups"), passes_float(&norm, "eps"), &norm);
  }
  return TD_OK;
}

static td_status visit_mul(passes_edit *e, ir_node id, const ir_node_def *node) { return give_vector(e, id, node, 1); }

static td_status visit_add(passes_edit *e, ir_node id, const ir_node_def *node) { return give_vector(e, id, node, 2); }

static td_status visit(passes_edit *e, ir_node id) {
  static const passes_rule rules[] = {{OP_aten_view, visit_view}, {OP_aten_mul, visit_mul}, {OP_aten_add, visit_add}};
  return passes_apply(e, id, rules, sizeof rules / sizeof *rules, NULL);
}

td_status passes_group_norm(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
