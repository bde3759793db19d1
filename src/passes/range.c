/* range.c -- how large the elements of a value can become, by interval arithmetic over what it is made of. */
#include "passes/passes_priv.h"

#include <math.h>

enum { MOST_DEPTH = 12, MOST_ELEMENTS = 1 << 16 };

static double largest(passes_edit *e, ir_value v, uint32_t depth);

/* Of operand `i`. */
static double operand(passes_edit *e, const ir_node_def *node, uint32_t i, uint32_t depth) {
  return i < node->in_count && node->in[i].id ? largest(e, node->in[i], depth + 1) : INFINITY;
}

/* Of all operands from `first` on. */
static double largest_operand(passes_edit *e, const ir_node_def *node, uint32_t first, uint32_t depth) {
  double most = 0;
  for (uint32_t i = first; i < node->in_count; i++) most = fmax(most, operand(e, node, i, depth));
  return most;
}

/* ---- by operator: `depth` is that of its result ---- */

static double one(passes_edit *e, const ir_node_def *node, uint32_t depth) {
  return (void)e, (void)node, (void)depth, 1;
}
/* Gives one of its elements, or nearer to 0. */
static double same(passes_edit *e, const ir_node_def *node, uint32_t depth) { return operand(e, node, 0, depth); }
static double any(passes_edit *e, const ir_node_def *node, uint32_t depth) {
  return largest_operand(e, node, 0, depth);
}
static double chosen(passes_edit *e, const ir_node_def *node, uint32_t depth) {
  return largest_operand(e, node, 1, depth);
}

static double sum(passes_edit *e, const ir_node_def *node, uint32_t depth) {
  return operand(e, node, 0, depth) + operand(e, node, 1, depth);
}

static double product(passes_edit *e, const ir_node_def *node, uint32_t depth) {
  const double a = operand(e, node, 0, depth), b = operand(e, node, 1, depth);
  return a == 0 || b == 0 ? 0 : a * b;
}

static double quotient(passes_edit *e, const ir_node_def *node, uint32_t depth) {
  double by;
  return passes_number(e, node->in[1], &by) && by != 0 ? operand(e, node, 0, depth) / fabs(by) : INFINITY;
}

static double clamped(passes_edit *e, const ir_node_def *node, uint32_t depth) {
  const bool low = node->in_count > 1 && node->in[1].id, high = node->in_count > 2 && node->in[2].id;
  double most = low && high ? 0 : operand(e, node, 0, depth);
  if (low) most = fmax(most, operand(e, node, 1, depth));
  return high ? fmax(most, operand(e, node, 2, depth)) : most;
}

/* n numbers of mean 0 and mean square 1 are at most sqrt(n); then a weight, then a bias. */
static double normed(passes_edit *e, const ir_node_def *node, uint32_t depth) {
  const ir_type *x = ir_type_of(e->graph, node->in[0]);
  int64_t axis = passes_int(node, "axis");
  double count = 1;
  if (x->rank < 0) return INFINITY;
  for (axis += axis < 0 ? x->rank : 0; axis < x->rank; axis++)
    count *= base_dim_known(x->dims[axis]) ? (double)x->dims[axis] : INFINITY;
  const bool weighed = node->in_count > 1 && node->in[1].id, moved = node->in_count > 2 && node->in[2].id;
  return sqrt(count) * (weighed ? operand(e, node, 1, depth) : 1) + (moved ? operand(e, node, 2, depth) : 0);
}

static const struct {
  ir_op_id op;
  double (*bound)(passes_edit *e, const ir_node_def *node, uint32_t depth);
} rows[] = {
    {OP_aten_sigmoid, one},     {OP_aten_tanh, one},       {OP_aten_erf, one},
    {OP_aten__softmax, one},    {OP_td_softsign, one},     {OP_td_hard_sigmoid, one},
    {OP_aten_sin, one},         {OP_aten_cos, one},        {OP_aten_relu, same},
    {OP_aten_abs, same},        {OP_aten_neg, same},       {OP_aten_silu, same},
    {OP_aten_gelu, same},       {OP_aten_hardswish, same}, {OP_td_max_pool, same},
    {OP_td_avg_pool, same},     {OP_aten_mean, same},      {OP_aten_amax, same},
    {OP_aten_amin, same},       {OP_aten_view, same},      {OP_aten_permute, same},
    {OP_aten_expand, same},     {OP_aten_slice, same},     {OP_aten_squeeze, same},
    {OP_aten_unsqueeze, same},  {OP_td_flatten, same},     {OP_aten_cat, any},
    {OP_aten_maximum, any},     {OP_aten_minimum, any},    {OP_aten_where, chosen},
    {OP_aten_add, sum},         {OP_aten_sub, sum},        {OP_aten_mul, product},
    {OP_aten_div, quotient},    {OP_aten_clamp, clamped},  {OP_aten_native_layer_norm, normed},
    {OP_aten_rms_norm, normed},
};

static double of_constant(const base_tensor *t) {
  const int64_t count = base_tensor_numel(t);
  double most = 0;
  if (count > MOST_ELEMENTS || !base_tensor_contiguous(t)) return INFINITY;
  for (int64_t i = 0; i < count; i++) {
    const double x = fabs(base_load_f64(t->dtype, t->data, i));
    most = x <= most ? most : isnan(x) ? INFINITY : x;
  }
  return most;
}

static double largest(passes_edit *e, ir_value v, uint32_t depth) {
  const ir_type *type = ir_type_of(e->graph, v);
  const base_tensor *t = passes_constant_value(e, v);
  if (type->kind != IR_TENSOR || depth > MOST_DEPTH) return INFINITY;
  if (t) return of_constant(t);
  if (type->dtype == TD_BOOL) return 1;
  if (type->dtype == TD_F16) return 65504;
  const ir_node made_by = ir_value_of(e->graph, v)->node;
  const ir_node_def *node = made_by.id ? ir_node_of(e->graph, made_by) : NULL;
  if (!node || !node->op || node->out[0].id != v.id || node->in_count == 0) return INFINITY;
  ir_refresh(e->graph, made_by);
  if (node->op->id == OP_aten__to_copy) return same(e, node, depth);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (node->op->id == rows[i].op) return rows[i].bound(e, node, depth);
  return INFINITY;
}

double passes_largest(passes_edit *e, ir_value v) { return largest(e, v, 0); }
