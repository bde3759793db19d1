/* epilogue.c -- what is done to the result of a product alone moves into its epilogue (kernels/epilogue.h):
 *
 *     add(linear(x, W), b)             -> linear(x, W, b)           b constant, along the features
 *     add(linear(x, W), r)             -> linear(x, W, -, r)        r of the same shape: a residual
 *     mul(linear(..), s), add(.., t)   -> linear(.., s, t)          after a residual
 *     scale_shift(linear(..), s, t)    -> linear(..) {scale = s, shift = t}
 *     relu(linear(..))                 -> linear(..) {act = relu}
 *     _to_copy(_to_copy(linear(..)) to f16) -> linear(..) {act = clamp_f16}, and relu, clamp or silu of that
 *
 *     relu(native_group_norm(x))       -> native_group_norm(x) {act = relu}
 *
 * and so for convolutions over channels last, pair by pair, in the order that the epilogue has.
 * Requires: a verified graph; the product's result used here alone. Keeps: types. Breaks: bit equality, where two
 * constant vectors become one. */
#include "passes/passes_priv.h"
#include "kernels/products/products.h"
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

/* ---- the product and its epilogue ---- */

typedef struct product {
  ir_node_def node; /* as it was: a copy, for the graph's nodes move */
  ir_value in[KERN_EPILOGUE_END];
  bool late, active;
} product;

static bool find_product(passes_edit *e, ir_value v, product *p) {
  const ir_node_def *node = passes_only_product(e, v);
  if (!node || ir_type_of(e->graph, v)->dtype != TD_F32) return false;
  *p = (product){.node = *node, .late = passes_int(node, "act_late")};
  for (uint32_t i = 0; i < node->in_count; i++) p->in[i] = node->in[i];
  p->active = strcmp(passes_str(node, "act"), "none") != 0;
  return true;
}

static bool is_finished(const product *p) { return p->active && p->late; }
static bool has_affine(const product *p) { return p->in[KERN_IN_SCALE].id || p->in[KERN_IN_SHIFT].id; }

/* The product anew, with p->in and the activation of `act` (NULL: as it was), in place of `at`. */
static td_status rebuild(passes_edit *e, ir_node at, const product *p, const base_arg *act, uint32_t act_count) {
  base_arg args[IR_NODE_ARGS];
  uint32_t count = ir_node_args(&p->node, args), in_count = KERN_EPILOGUE_END;
  for (uint32_t i = 0; i < act_count; i++) *passes_arg(args, count, act[i].name) = act[i];
  while (!p->in[in_count - 1].id) in_count--;
  ir_value made;
  const ir_new_node spec = {.in = p->in, .in_count = in_count, .args = args, .arg_count = count};
  TRY(passes_add(e, at, p->node.op->id, spec, &p->node, &made));
  return passes_take_place(e, at, made);
}

/* ---- vectors along the last dimension ---- */

/* A constant that is one vector of n along the last dimension, or one number: as a dense vector of n floats. */
static const base_tensor *feature_vector(passes_edit *e, ir_value v, int64_t n) {
  const base_tensor *t = passes_constant_value(e, v);
  if (!t || t->dtype != TD_F32) return NULL;
  int64_t count = base_tensor_numel(t);
  return count == 1 || (count == n && t->rank > 0 && t->dims[t->rank - 1] == n) ? t : NULL;
}

static float element(const base_tensor *t, int64_t i) {
  int64_t step = base_tensor_numel(t) == 1 ? 0 : t->strides[t->rank - 1];
  return ((const base_f32 *)t->data)[i * step];
}

static float first_of(float a, float b) { return (void)b, a; }
static float sum_of(float a, float b) { return a + b; }
static float product_of(float a, float b) { return a * b; }

/* A new constant vector: combine(a[i], b[i]). */
static td_status new_vector(passes_edit *e, int64_t n, const base_tensor *a, const base_tensor *b,
                            float (*combine)(float, float), ir_value *v) {
  float *data = base_new(e->graph->arena, float, (size_t)n + 1);
  if (!data) return base_no_memory(e->err, "folded weights");
  for (int64_t i = 0; i < n; i++) data[i] = combine(element(a, i), b ? element(b, i) : 0);
  base_tensor t = base_tensor_of(data, TD_F32, 1, &n);
  return ir_add_constant(e->graph, &t, NULL, v, e->err);
}

/* ---- rules ---- */

static int64_t features(const passes_edit *e, const product *p) {
  const ir_type *t = ir_type_of(e->graph, p->node.out[0]);
  return t->rank > 0 && base_dim_known(t->dims[t->rank - 1]) ? t->dims[t->rank - 1] : -1;
}

/* Adds the vector to the bias, or behind a residual or an activation to the shift. */
static td_status add_vector(passes_edit *e, ir_node at, product *p, const base_tensor *t) {
  bool early = !p->active && !p->in[KERN_IN_RESIDUAL].id && !has_affine(p);
  uint32_t to = early ? KERN_IN_BIAS : KERN_IN_SHIFT;
  const base_tensor *old = passes_constant_value(e, p->in[to]);
  if (p->in[to].id && !old) return TD_OK;
  TRY(new_vector(e, features(e, p), t, old, old ? sum_of : first_of, &p->in[to]));
  return rebuild(e, at, p, NULL, 0);
}

static td_status multiply_vector(passes_edit *e, ir_node at, product *p, const base_tensor *t) {
  const base_tensor *scale = passes_constant_value(e, p->in[KERN_IN_SCALE]);
  const base_tensor *shift = passes_constant_value(e, p->in[KERN_IN_SHIFT]);
  if ((p->in[KERN_IN_SCALE].id && !scale) || (p->in[KERN_IN_SHIFT].id && !shift)) return TD_OK;
  int64_t n = features(e, p);
  if (shift) TRY(new_vector(e, n, t, shift, product_of, &p->in[KERN_IN_SHIFT]));
  TRY(new_vector(e, n, t, scale, scale ? product_of : first_of, &p->in[KERN_IN_SCALE]));
  return rebuild(e, at, p, NULL, 0);
}

/* The operand that is no product: a vector, or a residual of the result's shape. */
static td_status visit_pair(passes_edit *e, ir_node id, const ir_node_def *node, bool multiply) {
  for (uint32_t side = 0; side < 2; side++) {
    product p;
    ir_value other = node->in[1 - side];
    if (!find_product(e, node->in[side], &p) || is_finished(&p) || features(e, &p) < 0) continue;
    if (!ir_type_equal(ir_type_of(e->graph, node->out[0]), ir_type_of(e->graph, node->in[side]))) continue;
    const base_tensor *t = feature_vector(e, other, features(e, &p));
    if (t) return multiply ? multiply_vector(e, id, &p, t) : add_vector(e, id, &p, t);
    bool residual = !multiply && !p.in[KERN_IN_RESIDUAL].id && !has_affine(&p) && !passes_constant_value(e, other) &&
                    ir_type_equal(ir_type_of(e->graph, other), ir_type_of(e->graph, node->in[side]));
    if (!residual) continue;
    p.in[KERN_IN_RESIDUAL] = other;
    return rebuild(e, id, &p, NULL, 0);
  }
  return TD_OK;
}

static td_status visit_add(passes_edit *e, ir_node id, const ir_node_def *node) {
  return visit_pair(e, id, node, false);
}
static td_status visit_mul(passes_edit *e, ir_node id, const ir_node_def *node) {
  return visit_pair(e, id, node, true);
}

/* A scale, a shift, and perhaps an activation at once. */
static td_status visit_scale_shift(passes_edit *e, ir_node id, const ir_node_def *node) {
  product p;
  const base_arg late[] = {ARG_STR("act", "relu"), ARG_BOOL("act_late", true)};
  const bool rectifies = strcmp(passes_str(node, "act"), "relu") == 0;
  if (!find_product(e, node->in[0], &p) || is_finished(&p) || features(e, &p) < 0 || (rectifies && p.active))
    return TD_OK;
  const int64_t n = features(e, &p);
  const base_tensor *s = feature_vector(e, node->in[1], n), *t = feature_vector(e, node->in[2], n);
  const base_tensor *scale = passes_constant_value(e, p.in[KERN_IN_SCALE]);
  const base_tensor *shift = passes_constant_value(e, p.in[KERN_IN_SHIFT]);
  if (!s || !t || (p.in[KERN_IN_SCALE].id && !scale) || (p.in[KERN_IN_SHIFT].id && !shift)) return TD_OK;
  if (shift) {
    TRY(new_vector(e, n, s, shift, product_of, &p.in[KERN_IN_SHIFT]));
    shift = passes_constant_value(e, p.in[KERN_IN_SHIFT]);
  }
  TRY(new_vector(e, n, t, shift, shift ? sum_of : first_of, &p.in[KERN_IN_SHIFT]));
  TRY(new_vector(e, n, s, scale, scale ? product_of : first_of, &p.in[KERN_IN_SCALE]));
  return rebuild(e, id, &p, late, rectifies ? 2 : 0);
}

/* Rows of few elements, and not side by side: what takes many instructions does better in a step of its own. */
static bool has_short_rows(const passes_edit *e, const product *p) {
  const int64_t n = features(e, p);
  return p->node.op->id == OP_td_conv_transpose && n >= 0 && n < KERN_SHORT_ROWS;
}

typedef struct activation {
  kern_act act;
  double a, b;
} activation;

/* Rounds to f16, and no more. */
static const activation rounding = {KERN_ACT_clamp_f16, -INFINITY, INFINITY};

static bool only_rounds(const product *p) {
  return strcmp(passes_str(&p->node, "act"), kern_act_name(rounding.act)) == 0 &&
         passes_float(&p->node, "act_a") == rounding.a && passes_float(&p->node, "act_b") == rounding.b;
}

/* `act` of what is rounded to f16 first, as one. False: there is none. */
static bool behind_rounding(activation *act) {
  if (act->act == KERN_ACT_relu) *act = (activation){KERN_ACT_clamp_f16, 0, INFINITY};
  else if (act->act == KERN_ACT_clamp) act->act = KERN_ACT_clamp_f16;
  else if (act->act == KERN_ACT_silu) act->act = KERN_ACT_silu_f16;
  else return false;
  return true;
}

/* The node with these attributes, in place of `at`. */
static td_status rebuild_with(passes_edit *e, ir_node at, const ir_node_def *node, const base_arg *args,
                              uint32_t count) {
  const ir_node_def from = *node;
  const ir_new_node spec = {.in = from.in, .in_count = from.in_count, .args = args, .arg_count = count};
  ir_value made;
  TRY(passes_add(e, at, from.op->id, spec, &from, &made));
  return passes_take_place(e, at, made);
}

/* Into a norm that a kernel computes. */
static td_status activate_norm(passes_edit *e, ir_node id, const ir_node_def *norm, activation act) {
  base_arg args[IR_NODE_ARGS];
  uint32_t count = ir_node_args(norm, args);
  args[count++] = ARG_STR("act", kern_act_name(act.act));
  args[count++] = ARG_FLOAT("act_a", act.a);
  args[count++] = ARG_FLOAT("act_b", act.b);
  return rebuild_with(e, id, norm, args, count);
}

static bool takes_activation(const passes_edit *e, const ir_node_def *norm) {
  return norm && ir_type_of(e->graph, norm->in[0])->dtype == TD_F32 &&
         !base_attr_has(norm->attrs, KERN_GROUP_NORM_ACT) && kern_select(KERN_GROUP_NORM, TD_F32, e->setting->isa);
}

static td_status put_activation(passes_edit *e, ir_node id, const ir_node_def *node, activation act) {
  product p;
  const ir_node_def *norm = passes_only_producer(e, node->in[0], OP_aten_native_group_norm);
  if (takes_activation(e, norm)) return activate_norm(e, id, norm, act);
  if (!find_product(e, node->in[0], &p) || (p.active && !(only_rounds(&p) && behind_rounding(&act)))) return TD_OK;
  if (act.act != KERN_ACT_relu && act.act != KERN_ACT_clamp && has_short_rows(e, &p)) return TD_OK;
  const bool late = p.in[KERN_IN_RESIDUAL].id || has_affine(&p);
  if (p.active && late != p.late) return TD_OK;
  const base_arg args[] = {ARG_STR("act", kern_act_name(act.act)), ARG_FLOAT("act_a", act.a), ARG_FLOAT("act_b", act.b),
                           ARG_BOOL("act_late", late)};
  return rebuild(e, id, &p, args, 4);
}

static td_status activate(passes_edit *e, ir_node id, const ir_node_def *node, kern_act act, double a, double b) {
  return put_activation(e, id, node, (activation){act, a, b});
}

/* To f16 and back. */
static td_status visit_cast(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_node_def *narrow = passes_only_producer(e, node->in[0], OP_aten__to_copy);
  if (ir_type_of(e->graph, node->out[0])->dtype != TD_F32 || ir_type_of(e->graph, node->in[0])->dtype != TD_F16 ||
      !narrow)
    return TD_OK;
  return put_activation(e, id, narrow, rounding);
}

static td_status visit_relu(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_node_def *scaled = passes_only_producer(e, node->in[0], OP_td_scale_shift);
  const base_arg relu = ARG_STR("act", "relu"); /* its one attribute */
  if (scaled && strcmp(passes_str(scaled, "act"), "none") == 0) return rebuild_with(e, id, scaled, &relu, 1);
  return activate(e, id, node, KERN_ACT_relu, 0, 0);
}
static td_status visit_sigmoid(passes_edit *e, ir_node id, const ir_node_def *node) {
  return activate(e, id, node, KERN_ACT_sigmoid, 0, 0);
}
static td_status visit_tanh(passes_edit *e, ir_node id, const ir_node_def *node) {
  return activate(e, id, node, KERN_ACT_tanh, 0, 0);
}
static td_status visit_silu(passes_edit *e, ir_node id, const ir_node_def *node) {
  return activate(e, id, node, KERN_ACT_silu, 0, 0);
}
static td_status visit_hardswish(passes_edit *e, ir_node id, const ir_node_def *node) {
  return activate(e, id, node, KERN_ACT_hardswish, 0, 0);
}
static td_status visit_hard_sigmoid(passes_edit *e, ir_node id, const ir_node_def *node) {
  return activate(e, id, node, KERN_ACT_hard_sigmoid, passes_float(node, "alpha"), passes_float(node, "beta"));
}
static td_status visit_leaky_relu(passes_edit *e, ir_node id, const ir_node_def *node) {
  return activate(e, id, node, KERN_ACT_leaky_relu, passes_float(node, "negative_slope"), 0);
}
static td_status visit_gelu(passes_edit *e, ir_node id, const ir_node_def *node) {
  bool by_tanh = strcmp(passes_str(node, "approximate"), "tanh") == 0;
  return activate(e, id, node, by_tanh ? KERN_ACT_gelu_tanh : KERN_ACT_gelu, 0, 0);
}

/* An absent bound is infinite. */
static bool bound(const passes_edit *e, const ir_node_def *node, uint32_t i, double absent, double *value) {
  *value = absent;
  if (i >= node->in_count || !node->in[i].id) return true;
  const base_tensor *t = passes_constant(e, node, i);
  if (!t || base_tensor_numel(t) != 1) return false;
  *value = base_load_f64(t->dtype, t->data, 0);
  return true;
}

static td_status visit_clamp(passes_edit *e, ir_node id, const ir_node_def *node) {
  double low, high;
  if (!bound(e, node, 1, -INFINITY, &low) || !bound(e, node, 2, INFINITY, &high) || !(low <= high)) return TD_OK;
  if (low == 0 && high == INFINITY) return visit_relu(e, id, node);
  return activate(e, id, node, KERN_ACT_clamp, low, high);
}

static const passes_rule rules[] = {
    {OP_aten__to_copy, visit_cast},
    {OP_aten_add, visit_add},
    {OP_aten_mul, visit_mul},
    {OP_td_scale_shift, visit_scale_shift},
    {OP_aten_relu, visit_relu},
    {OP_aten_clamp, visit_clamp},
    {OP_aten_gelu, visit_gelu},
    {OP_aten_silu, visit_silu},
    {OP_aten_sigmoid, visit_sigmoid},
    {OP_aten_tanh, visit_tanh},
    {OP_aten_hardswish, visit_hardswish},
    {OP_td_hard_sigmoid, visit_hard_sigmoid},
    {OP_aten_leaky_relu, visit_leaky_relu},
};

static td_status visit(passes_edit *e, ir_node id) {
  return passes_apply(e, id, rules, sizeof rules / sizeof *rules, NULL);
}

td_status passes_epilogue(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
