/* lower_moe.c -- com.microsoft's mixtures of experts, MoE and QMoE, as rows sorted by expert: each expert multiplies
 * the rows that chose it, which may be none. */
#include "import/onnx/fused_priv.h"

#include <math.h>
#include <string.h>

enum { MAX_EXPERTS = 1024 };
enum { X, ROUTER, LAYERS, ROUTER_WEIGHTS = 14 /* of QMoE */ };

/* Operands of the layers: MoE has weights and bias of each, QMoE weights, scales and bias, and zero points behind. */
typedef struct layer_inputs {
  uint32_t weights, scales, bias, zeros; /* 0: there are none */
  const char *bits;                      /* the attribute that overrides expert_weight_bits */
} layer_inputs;
enum { UP, DOWN, OTHER, LAYER_COUNT };
static const layer_inputs plain_inputs[] = {
    [UP] = {2, 0, 3, 0, ""}, [DOWN] = {4, 0, 5, 0, ""}, [OTHER] = {6, 0, 7, 0, ""}};
static const layer_inputs quantised_inputs[] = {[UP] = {2, 3, 4, 11, "fc1_expert_weight_bits"},
                                                [DOWN] = {5, 6, 7, 12, "fc2_expert_weight_bits"},
                                                [OTHER] = {8, 9, 10, 13, "fc3_expert_weight_bits"}};

typedef struct mixture {
  const layer_inputs *layers;
  int64_t experts, chosen; /* chosen: by a row */
  ir_value rows;           /* [rows * chosen, hidden], expert by expert */
  ir_value ends;           /* [experts]: where the rows of each end */
} mixture;

static ir_value ints(onnx_node *n, int64_t value) { return onnx_ints(n, &value, 1); }

static ir_value view(onnx_node *n, ir_value v, const int64_t *dims, uint32_t rank) {
  return ONNX_EMIT(n, "aten::view", v, onnx_ints(n, dims, rank));
}

static ir_value slice(onnx_node *n, ir_value v, ir_value begin, ir_value end, int64_t axis, int64_t step) {
  return ONNX_EMIT(n, "aten::slice", v, begin, end, ints(n, axis), ints(n, step));
}

static ir_value take(onnx_node *n, ir_value v, ir_value at) {
  return ONNX_EMIT_ARGS(n, "aten::index_select", ((ir_value[]){v, at}), 2, ARG_INT("dim", 0));
}

/* The places of `v` [n] in order; *sorted: what stands there. */
static ir_value order_of(onnx_node *n, ir_value v, ir_value *sorted) {
  ir_value out[2] = {IR_NO_VALUE, IR_NO_VALUE};
  const base_arg args[] = {ARG_INT("dim", 0), ARG_INT("descending", 0)};
  onnx_emit_many(n, "aten::sort", &v, 1, args, 2, out, 2);
  if (sorted) *sorted = out[0];
  return out[1];
}

/* ---- an expert ---- */

/* Operand `i` of expert e: a part of a constant, as `rank` dims. */
static ir_value part_of(onnx_node *n, const mixture *m, uint32_t i, int64_t e, int32_t rank, const int64_t *dims) {
  const base_tensor *all = i && onnx_has(n, i) ? onnx_constant_of(n, onnx_in(n, i)) : NULL;
  if (!i || !onnx_has(n, i)) return IR_NO_VALUE;
  if (!all || !base_tensor_contiguous(all)) {
    onnx_fail(n, TD_UNSUPPORTED, "input %u is not constant", i);
    return IR_NO_VALUE;
  }
  base_tensor part = base_tensor_of(all->data, all->dtype, rank, dims);
  const size_t bytes = base_tensor_bytes(&part);
  if (base_tensor_bytes(all) != bytes * (size_t)m->experts) {
    onnx_fail(n, TD_BAD_FILE, "input %u has %zu bytes where %lld experts of %zu are expected", i,
              base_tensor_bytes(all), (long long)m->experts, bytes);
    return IR_NO_VALUE;
  }
  part.data = (char *)part.data + bytes * (size_t)e;
  return onnx_constant_in_place(n, &part);
}

/* x w^T + bias */
static ir_value plain_product(onnx_node *n, const mixture *m, int layer, int64_t e, ir_value x) {
  const layer_inputs *l = &m->layers[layer];
  const ir_type *w = onnx_type(n, onnx_in(n, l->weights));
  const ir_value in[] = {x, part_of(n, m, l->weights, e, 2, w->dims + 1), part_of(n, m, l->bias, e, 1, w->dims + 1)};
  return ONNX_EMIT_ARGS(n, "td::gemm", in, in[2].id ? 3 : 2, ARG_BOOL("trans_b", true));
}

/* One scale per row of the weights: each of its blocks has that one. */
static ir_value repeat_scales(onnx_node *n, ir_value scales, int64_t columns, int64_t blocks) {
  const base_tensor *t = onnx_constant_of(n, scales);
  float *to = t ? onnx_alloc(n, (size_t)(columns * blocks) * sizeof *to) : NULL;
  if (!to) return IR_NO_VALUE;
  for (int64_t i = 0; i < columns * blocks; i++) to[i] = (float)base_load_f64(t->dtype, t->data, i / blocks);
  const base_tensor all = base_tensor_of(to, TD_F32, 2, (int64_t[]){columns, blocks});
  return onnx_constant_in_place(n, &all);
}

static ir_value quantised_product(onnx_node *n, const mixture *m, int layer, int64_t e, ir_value x) {
  enum { ROW_BLOCK = 32 }; /* where a row has one scale */
  const layer_inputs *l = &m->layers[layer];
  const ir_type *w = onnx_type(n, onnx_in(n, l->weights));
  const int64_t given = onnx_attr_int(n, "block_size", 0), block = given ? given : ROW_BLOCK, columns = w->dims[1];
  const int64_t bits = onnx_attr_int(n, l->bits, onnx_attr_int(n, "expert_weight_bits", 4));
  if ((bits != 2 && bits != 4 && bits != 8) || block < 8 || block > INT32_MAX || w->dims[2] > INT32_MAX ||
      w->dims[2] * (8 / bits) % block != 0) {
    onnx_fail(n, TD_UNSUPPORTED, "weights of %lld bits, in rows of %lld bytes and blocks of %lld", (long long)bits,
              (long long)w->dims[2], (long long)block);
    return IR_NO_VALUE;
  }
  const int64_t k = w->dims[2] * (8 / bits), blocks = k / block;
  const int64_t packed[] = {columns, blocks, block * bits / 8}, per_block[] = {columns, blocks},
                zeros[] = {columns, (blocks * bits + 7) / 8};
  if (!given && onnx_has(n, l->zeros)) onnx_fail(n, TD_UNSUPPORTED, "zero points of whole rows are not supported");
  onnx_nbits p = {.x = x,
                  .weights = part_of(n, m, l->weights, e, 3, packed),
                  .scales = part_of(n, m, l->scales, e, given ? 2 : 1, per_block),
                  .zeros = part_of(n, m, l->zeros, e, 2, zeros),
                  .bias = part_of(n, m, l->bias, e, 1, &columns),
                  .k = k,
                  .n = columns,
                  .bits = bits,
                  .block = block,
                  .accuracy = onnx_attr_int(n, "accuracy_level", 0)};
  if (!given && !onnx_failed(n)) p.scales = repeat_scales(n, p.scales, columns, blocks);
  return onnx_failed(n) ? IR_NO_VALUE : onnx_product_nbits(n, &p);
}

static ir_value product(onnx_node *n, const mixture *m, int layer, int64_t e, ir_value x) {
  return (m->layers[layer].scales ? quantised_product : plain_product)(n, m, layer, e, x);
}

static ir_value bounded(onnx_node *n, ir_value v, double low, double high) {
  const td_dtype dtype = onnx_type_dtype(n, v);
  return ONNX_EMIT(n, "aten::clamp", v, onnx_scalar(n, dtype, low), onnx_scalar(n, dtype, high));
}

/* min(g, limit) sigmoid(alpha min(g, limit)) (clamp(l, -limit, limit) + beta) */
static ir_value swiglu(onnx_node *n, ir_value g, ir_value l) {
  const td_dtype dtype = onnx_type_dtype(n, g);
  const double alpha = onnx_attr_float(n, "activation_alpha", 1), beta = onnx_attr_float(n, "activation_beta", 0);
  if (onnx_attr_has(n, "swiglu_limit")) {
    const double limit = onnx_attr_float(n, "swiglu_limit", 0);
    g = bounded(n, g, -INFINITY, limit);
    l = bounded(n, l, -limit, limit);
  }
  const ir_value steep = alpha == 1 ? g : ONNX_EMIT(n, "aten::mul", g, onnx_scalar(n, dtype, alpha));
  const ir_value gate = ONNX_EMIT(n, "aten::mul", g, ONNX_EMIT(n, "aten::sigmoid", steep));
  return ONNX_EMIT(n, "aten::mul", gate, beta == 0 ? l : ONNX_EMIT(n, "aten::add", l, onnx_scalar(n, dtype, beta)));
}

/* The gate and what it multiplies, out of one product: interleaved, or one behind the other. */
static ir_value fused_swiglu(onnx_node *n, ir_value both, int64_t columns, bool interleaved) {
  const ir_value zero = ints(n, 0), middle = ints(n, interleaved ? 1 : columns / 2), end = ints(n, INT64_MAX);
  const int64_t step = interleaved ? 2 : 1;
  return swiglu(n, slice(n, both, zero, interleaved ? end : middle, 1, step), slice(n, both, middle, end, 1, step));
}

static ir_value activate(onnx_node *n, const char *type, ir_value v) {
  static const struct { const char *type, *op; } rows[] = {{"relu", "aten::relu"}, {"silu", "aten::silu"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].type, type) == 0) return ONNX_EMIT(n, rows[i].op, v);
  if (strcmp(type, "gelu") == 0) return ONNX_EMIT_ARGS(n, "aten::gelu", &v, 1, ARG_STR("approximate", "tanh"));
  if (strcmp(type, "identity") != 0) onnx_fail(n, TD_UNSUPPORTED, "activation_type \"%s\" is not supported", type);
  return v;
}

/* What expert e makes of its rows. */
static ir_value run_expert(onnx_node *n, const mixture *m, int64_t e) {
  const ir_value begin = e ? slice(n, m->ends, ints(n, e - 1), ints(n, e), 0, 1) : ints(n, 0);
  const ir_value end = e + 1 < m->experts ? slice(n, m->ends, ints(n, e), ints(n, e + 1), 0, 1) : ints(n, INT64_MAX);
  const ir_value x = slice(n, m->rows, begin, end, 0, 1), up = product(n, m, UP, e, x);
  const char *type = onnx_attr_str(n, "activation_type", "relu");
  const int64_t fusion = onnx_attr_int(n, "swiglu_fusion", 0);
  const bool other = onnx_has(n, m->layers[OTHER].weights), gated = strcmp(type, "swiglu") == 0;
  if (gated && !fusion && !other) onnx_fail(n, TD_BAD_FILE, "swiglu that is not fused needs a third layer");
  if (onnx_failed(n)) return IR_NO_VALUE;
  ir_value h;
  if (gated && fusion) h = fused_swiglu(n, up, onnx_type(n, onnx_in(n, m->layers[UP].weights))->dims[1], fusion == 1);
  else if (gated) h = swiglu(n, up, product(n, m, OTHER, e, x));
  else h = activate(n, type, up);
  if (other && !gated) h = ONNX_EMIT(n, "aten::mul", h, product(n, m, OTHER, e, x));
  return onnx_failed(n) ? IR_NO_VALUE : product(n, m, DOWN, e, h);
}

/* ---- the mixture ---- */

static void check_mixture(onnx_node *n, mixture *m) {
  for (int l = 0; l < LAYER_COUNT; l++) {
    const uint32_t at = m->layers[l].weights;
    if (l == OTHER && !onnx_has(n, at)) continue;
    const ir_type *w = onnx_type(n, onnx_in(n, at));
    if (w->rank != 3 || !onnx_constant_of(n, onnx_in(n, at)))
      onnx_fail(n, TD_UNSUPPORTED, "weights that are not constant and of rank 3");
    if (onnx_failed(n)) return;
    if (l == UP) m->experts = w->dims[0];
    if (w->dims[0] != m->experts) onnx_fail(n, TD_BAD_FILE, "layers of different numbers of experts");
  }
  m->chosen = onnx_attr_int(n, "k", 1);
  if (m->experts < 1 || m->experts > MAX_EXPERTS || m->chosen < 1 || m->chosen > m->experts)
    onnx_fail(n, TD_UNSUPPORTED, "%lld of %lld experts", (long long)m->chosen, (long long)m->experts);
  if (onnx_attr_int(n, "use_sparse_mixer", 0)) onnx_fail(n, TD_UNSUPPORTED, "use_sparse_mixer is not supported");
  if (onnx_attr_int(n, "swiglu_limit_after_activation", 0))
    onnx_fail(n, TD_UNSUPPORTED, "swiglu_limit_after_activation is not supported");
  if (strcmp(onnx_attr_str(n, "quant_type", "int"), "int") != 0)
    onnx_fail(n, TD_UNSUPPORTED, "quant_type other than int is not supported");
  if (onnx_attr_int(n, "weights_prepacked", -1) > 0)
    onnx_fail(n, TD_UNSUPPORTED, "prepacked weights are not supported");
}

/* The experts that each row chooses, [rows, chosen], and with what weight. ONNX Runtime's QMoE normalises weights that
 * it finds itself whatever the attribute says. */
static void choose(onnx_node *n, const mixture *m, ir_value *experts, ir_value *weights) {
  const ir_value logits = onnx_cast(n, onnx_in(n, ROUTER), TD_F32);
  const ir_value all = ONNX_EMIT_ARGS(n, "aten::_softmax", &logits, 1, ARG_INT("dim", -1));
  const ir_value in[] = {all, ints(n, m->chosen)};
  const base_arg args[] = {ARG_INT("dim", -1), ARG_INT("largest", 1), ARG_INT("sorted", 1)};
  ir_value out[2] = {IR_NO_VALUE, IR_NO_VALUE};
  onnx_emit_many(n, "aten::topk", in, 2, args, 3, out, 2);
  const bool quantised = m->layers[UP].scales, given = quantised && onnx_has(n, ROUTER_WEIGHTS);
  if (given)
    out[0] = ONNX_EMIT_ARGS(n, "aten::gather", ((ir_value[]){onnx_cast(n, onnx_in(n, ROUTER_WEIGHTS), TD_F32), out[1]}),
                            2, ARG_INT("dim", 1));
  if (onnx_attr_int(n, "normalize_routing_weights", 0) || (quantised && !given)) {
    static const int64_t last = -1;
    const base_arg sum[] = {ARG_INTS("dim", &last, 1), ARG_BOOL("keepdim", true)};
    out[0] = ONNX_EMIT(n, "aten::div", out[0], onnx_emit(n, "aten::sum", &out[0], 1, sum, 2));
  }
  *experts = out[1];
  *weights = out[0];
}

static void mix(onnx_node *n, const layer_inputs *layers) {
  mixture m = {.layers = layers};
  ir_value parts[MAX_EXPERTS], experts, weights, sorted;
  check_mixture(n, &m);
  if (onnx_failed(n)) return;
  const ir_value x = onnx_in(n, X), sizes = ONNX_EMIT(n, "td::shape", x);
  const ir_type *t = onnx_type(n, x);
  if (t->rank < 2 || !base_dim_known(t->dims[t->rank - 1])) onnx_fail(n, TD_UNSUPPORTED, "x of an open last size");
  if (onnx_failed(n)) return;
  const int64_t hidden = t->dims[t->rank - 1], flat = -1, last = 1, rows[] = {-1, hidden},
                groups[] = {-1, m.chosen, hidden};
  choose(n, &m, &experts, &weights);
  const ir_value order = order_of(n, view(n, experts, &flat, 1), &sorted), each[] = {order, ints(n, m.chosen)};
  const ir_value token = ONNX_EMIT_ARGS(n, "aten::div", each, 2, ARG_STR("rounding_mode", "floor"));
  int64_t numbers[MAX_EXPERTS];
  for (int64_t e = 0; e < m.experts; e++) numbers[e] = e;
  const ir_value bounds[] = {sorted, onnx_ints(n, numbers, (uint32_t)m.experts)};
  m.rows = take(n, view(n, x, rows, 2), token);
  m.ends = ONNX_EMIT_ARGS(n, "td::search_sorted", bounds, 2, ARG_BOOL("right", true));
  for (int64_t e = 0; e < m.experts && !onnx_failed(n); e++) parts[e] = run_expert(n, &m, e);
  if (onnx_failed(n)) return;
  ir_value y = ONNX_EMIT_ARGS(n, "aten::cat", parts, (uint32_t)m.experts, ARG_INT("dim", 0));
  y = ONNX_EMIT(n, "aten::view", y, ONNX_EMIT(n, "td::shape", m.rows)); /* whose sizes are known again */
  y = view(n, take(n, y, order_of(n, order, NULL)), groups, 3);
  weights = onnx_cast(n, ONNX_EMIT(n, "aten::unsqueeze", weights, ints(n, 2)), t->dtype);
  y = ONNX_EMIT(n, "aten::mul", y, weights);
  y = ONNX_EMIT_ARGS(n, "aten::sum", &y, 1, ARG_INTS("dim", &last, 1));
  onnx_out(n, 0, ONNX_EMIT(n, "aten::view", y, sizes));
}

static void lower_moe(onnx_node *n) { mix(n, plain_inputs); }
static void lower_qmoe(onnx_node *n) { mix(n, quantised_inputs); }

ONNX_DECLARE(moe);
const onnx_lowering onnx_lower_moe[] = {
    {"com.microsoft", "MoE", 1, lower_moe},
    {"com.microsoft", "QMoE", 1, lower_qmoe},
};
ONNX_TABLE(moe);
