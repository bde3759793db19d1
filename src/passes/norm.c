/* norm.c -- normalisations that exporters spell out become one operator:
 *
 *     d / sqrt(mean(d^2) + eps), d = x - mean(x)    -> native_layer_norm(x)
 *     x / sqrt(mean(x^2) + eps)                     -> rms_norm(x)
 *     native_layer_norm(x) * w + b, rms_norm(x) * w -> with weight and bias
 *     exp(x - max(x)) / sum(exp(x - max(x)))        -> _softmax(x)
 *     _softmax(x - max(x)), _log_softmax(..)        -> _softmax(x)      which subtracts it first thing: equal bits
 *
 * over the last axis; squares as powers or products, quotients as products with rsqrt or reciprocal.
 * Requires: a verified graph; f32; weights constant vectors. Keeps: types. Breaks: bit equality. */
#include "passes/passes_priv.h"

#include <string.h>

static bool is_f32(const passes_edit *e, ir_value v) {
  const ir_type *t = ir_type_of(e->graph, v);
  return t->kind == IR_TENSOR && t->dtype == TD_F32 && t->rank > 0;
}

/* The one axis of a reduction: an attribute, or a constant operand. False: there are more, or it is open. */
static bool one_axis(passes_edit *e, const ir_node_def *node, int64_t *axis) {
  double number;
  uint32_t count;
  const int64_t *dims = passes_ints(node, "dim", &count);
  if (node->in_count < 2 || !node->in[1].id) return count == 1 && (*axis = dims[0], true);
  if (!passes_number(e, node->in[1], &number)) return false;
  *axis = (int64_t)number;
  return true;
}

/* The operand of `op`, a reduction over the last axis that keeps it; none: `v` is no such thing. */
static ir_value reduced(passes_edit *e, ir_value v, ir_op_id op) {
  int64_t axis;
  const ir_node_def *node = passes_producer(e, v, op);
  if (!node || !passes_int(node, "keepdim") || !is_f32(e, node->in[0]) || !one_axis(e, node, &axis)) return IR_NO_VALUE;
  return axis == -1 || axis == ir_type_of(e->graph, node->in[0])->rank - 1 ? node->in[0] : IR_NO_VALUE;
}

/* The operand of a square; none. */
static ir_value squared(passes_edit *e, ir_value v) {
  double power;
  const ir_node_def *node = passes_producer(e, v, OP_aten_square);
  if (node) return node->in[0];
  node = passes_producer(e, v, OP_aten_mul);
  if (node) return node->in[0].id == node->in[1].id ? node->in[0] : IR_NO_VALUE;
  node = passes_producer(e, v, OP_aten_pow);
  return node && passes_number(e, node->in[1], &power) && power == 2 ? node->in[0] : IR_NO_VALUE;
}

/* What is centred and squared under sqrt(mean(v^2) + eps); none. */
static ir_value deviation(passes_edit *e, ir_value sum, double *eps) {
  const ir_node_def *node = passes_producer(e, sum, OP_aten_add);
  if (!node) return IR_NO_VALUE;
  uint32_t number = passes_number(e, node->in[0], eps) ? 0 : 1;
  if (!passes_number(e, node->in[number], eps) || *eps < 0) return IR_NO_VALUE;
  ir_value square = reduced(e, node->in[1 - number], OP_aten_mean);
  return square.id ? squared(e, square) : IR_NO_VALUE;
}

/* x of x - mean(x); none. */
static ir_value centred(passes_edit *e, ir_value v) {
  const ir_node_def *node = passes_producer(e, v, OP_aten_sub);
  if (!node) return IR_NO_VALUE;
  ir_value x = node->in[0], mean = reduced(e, node->in[1], OP_aten_mean);
  return mean.id && mean.id == x.id ? x : IR_NO_VALUE;
}

static td_status put(passes_edit *e, ir_node at, ir_op_id op, const ir_value *in, uint32_t in_count,
                     const base_arg *args, uint32_t arg_count, const ir_node_def *also) {
  ir_value made, old = ir_node_of(e->graph, at)->out[0];
  const ir_new_node spec = {.in = in, .in_count = in_count, .args = args, .arg_count = arg_count};
  TRY(passes_add(e, at, op, spec, also, &made));
  bool same = ir_type_equal(ir_type_of(e->graph, made), ir_type_of(e->graph, old));
  return same ? passes_take_place(e, at, made) : TD_OK;
}

/* above / sqrt(sum), sum = mean(square) + eps. */
static td_status normalised(passes_edit *e, ir_node id, ir_value above, ir_value sum) {
  double eps = 0;
  ir_value d = deviation(e, sum, &eps), x = d.id ? centred(e, d) : IR_NO_VALUE;
  if (!d.id || !is_f32(e, d)) return TD_OK;
  const base_arg args[] = {ARG_INT("axis", -1), ARG_FLOAT("eps", eps)};
  ir_value above_x = centred(e, above); /* may be a node of its own */
  if (x.id && above_x.id == x.id) return put(e, id, OP_aten_native_layer_norm, &x, 1, args, 2, NULL);
  return above.id == d.id ? put(e, id, OP_aten_rms_norm, &d, 1, args, 2, NULL) : TD_OK;
}

/* The operand of op(inner(v)), or of `both`; none. */
static ir_value under(passes_edit *e, ir_value v, ir_op_id op, ir_op_id inner, ir_op_id both) {
  const ir_node_def *node = both ? passes_producer(e, v, both) : NULL;
  if (node) return node->in[0];
  node = op ? passes_producer(e, v, op) : NULL;
  if (op && !node) return IR_NO_VALUE;
  node = passes_producer(e, op ? node->in[0] : v, inner);
  return node ? node->in[0] : IR_NO_VALUE;
}

/* A constant that is one vector of n along the last axis, as a value of rank 1; none. */
static td_status vector_of(passes_edit *e, ir_value v, int64_t n, ir_value *vector) {
  const base_tensor *t = passes_constant_value(e, v);
  *vector = IR_NO_VALUE;
  if (!t || t->dtype != TD_F32 || t->rank < 1 || base_tensor_numel(t) != n || t->dims[t->rank - 1] != n) return TD_OK;
  if (t->rank == 1) return *vector = v, TD_OK;
  base_tensor row = *t;
  row.rank = 1;
  row.dims[0] = n;
  row.strides[0] = t->strides[t->rank - 1];
  return ir_add_constant(e->graph, &row, NULL, vector, e->err);
}

/* Operand `operand` of a norm that lacks it and what comes after it becomes the other operand of `node`. */
static td_status give_vector(passes_edit *e, ir_node id, const ir_node_def *node, ir_op_id op, uint32_t operand) {
  for (uint32_t side = 0; side < 2; side++) {
    const ir_node_def *found = passes_only_producer(e, node->in[side], op);
    if (!found) continue;
    const ir_node_def norm = *found;
    const ir_type *t = ir_type_of(e->graph, norm.in[0]);
    int64_t axis = passes_int(&norm, "axis");
    bool last = t->rank > 0 && (axis == -1 || axis == t->rank - 1) && base_dim_known(t->dims[t->rank - 1]);
    for (uint32_t i = operand; i < norm.in_count; i++) last = last && !norm.in[i].id;
    for (uint32_t i = 1; i < norm.out_count; i++) last = last && !passes_uses(e, norm.out[i]);
    ir_value in[3] = {norm.in[0], norm.in_count > 1 ? norm.in[1] : IR_NO_VALUE}, vector;
    if (!last || t->dtype != TD_F32) continue;
    TRY(vector_of(e, node->in[1 - side], t->dims[t->rank - 1], &vector));
    if (!vector.id) continue;
    base_arg args[IR_NODE_ARGS];
    in[operand] = vector;
    return put(e, id, op, in, operand + 1, args, ir_node_args(&norm, args), &norm);
  }
  return TD_OK;
}

static td_status visit_mul(passes_edit *e, ir_node id, const ir_node_def *node) {
  for (uint32_t side = 0; side < 2; side++) {
    ir_value above = node->in[side], factor = node->in[1 - side];
    ir_value sum = under(e, factor, OP_aten_reciprocal, OP_aten_sqrt, OP_aten_rsqrt);
    if (sum.id) return normalised(e, id, above, sum);
  }
  TRY(give_vector(e, id, node, OP_aten_native_layer_norm, 1));
  node = ir_node_of(e->graph, id);
  return node->op ? give_vector(e, id, node, OP_aten_rms_norm, 1) : TD_OK;
}

static td_status visit_add(passes_edit *e, ir_node id, const ir_node_def *node) {
  return give_vector(e, id, node, OP_aten_native_layer_norm, 2);
}

/* The operand of x - max(x); none. */
static ir_value lowered(passes_edit *e, ir_value v) {
  const ir_node_def *node = passes_producer(e, v, OP_aten_sub);
  const ir_value most = node ? reduced(e, node->in[1], OP_aten_amax) : IR_NO_VALUE;
  return node && most.id == node->in[0].id ? most : IR_NO_VALUE;
}

static td_status visit_div(passes_edit *e, ir_node id, const ir_node_def *node) {
  ir_value above = node->in[0], below = node->in[1];
  if (*passes_str(node, "rounding_mode")) return TD_OK;
  ir_value sum = under(e, below, OP_NONE, OP_aten_sqrt, OP_NONE);
  if (sum.id) return normalised(e, id, above, sum);
  ir_value power = reduced(e, below, OP_aten_sum);
  const ir_node_def *raised = power.id == above.id ? passes_producer(e, above, OP_aten_exp) : NULL;
  const ir_value x = raised ? lowered(e, raised->in[0]) : IR_NO_VALUE;
  if (!x.id) return TD_OK;
  return put(e, id, OP_aten__softmax, &x, 1, (base_arg[]){ARG_INT("dim", -1)}, 1, NULL);
}

static td_status visit_softmax(passes_edit *e, ir_node id, const ir_node_def *softmax) {
  const ir_node_def node = *softmax;
  const int64_t dim = passes_int(&node, "dim");
  const ir_value x = lowered(e, node.in[0]);
  base_arg args[IR_NODE_ARGS];
  if (!x.id || passes_int(&node, "flatten") || (dim != -1 && dim != ir_type_of(e->graph, x)->rank - 1)) return TD_OK;
  return put(e, id, node.op->id, &x, 1, args, ir_node_args(&node, args), NULL);
}

static td_status visit(passes_edit *e, ir_node id) {
  static const passes_rule rules[] = {{OP_aten_mul, visit_mul},
                                      {OP_aten_add, visit_add},
                                      {OP_aten__softmax, visit_softmax},
                                      {OP_aten__log_softmax, visit_softmax},
                                      {OP_aten_div, visit_div}};
  const ir_node_def *node = ir_node_of(e->graph, id);
  if (node->out_count != 1 || !is_f32(e, node->out[0])) return TD_OK;
  return passes_apply(e, id, rules, sizeof rules / sizeof *rules, NULL);
}

td_status passes_norm(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
