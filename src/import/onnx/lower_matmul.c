/* lower_matmul.c -- ONNX's and com.microsoft's matrix products. */
#include "import/onnx/fused_priv.h"

/* alpha A B + beta C. Before opset 7 C had to be told to broadcast; the rule itself was the same. */
static ir_value gemm(onnx_node *n) {
  ir_value in[] = {onnx_in(n, 0), onnx_in(n, 1), onnx_in(n, 2)};
  base_arg args[] = {
      ARG_FLOAT("alpha", onnx_attr_float(n, "alpha", 1)), ARG_FLOAT("beta", onnx_attr_float(n, "beta", 1)),
      ARG_BOOL("trans_a", onnx_attr_int(n, "transA", 0) != 0), ARG_BOOL("trans_b", onnx_attr_int(n, "transB", 0) != 0)};
  return onnx_emit(n, "td::gemm", in, onnx_has(n, 2) ? 3 : 2, args, 4);
}

static void lower_gemm(onnx_node *n) { onnx_out(n, 0, gemm(n)); }

static void lower_fused_gemm(onnx_node *n) {
  static const char *const names[] = {"activation_alpha", "activation_beta"};
  double params[2];
  uint32_t count = 0;
  while (count < 2 && onnx_attr_has(n, names[count])) {
    params[count] = onnx_attr_float(n, names[count], 0);
    count++;
  }
  onnx_out(n, 0, onnx_activate(n, gemm(n), params, count));
}

/* The last two axes exchanged; `batch`: first, axis 0 moves behind the others but the last. */
static ir_value transpose(onnx_node *n, ir_value v, bool matrix, bool batch) {
  int64_t dims[BASE_MAX_RANK];
  int32_t rank = onnx_rank(n, v);
  if (onnx_failed(n) || rank < 2 || (!matrix && !batch)) return v;
  for (int32_t i = 0; i < rank; i++) dims[i] = i;
  for (int32_t i = 0; batch && i + 1 < rank; i++) dims[i] = i + 2 < rank ? i + 1 : 0;
  if (matrix) {
    int64_t last = dims[rank - 1];
    dims[rank - 1] = dims[rank - 2];
    dims[rank - 2] = last;
  }
  return ONNX_EMIT_ARGS(n, "aten::permute", &v, 1, ARG_INTS("dims", dims, rank));
}

static void lower_fused_matmul(onnx_node *n) {
  ir_value a = transpose(n, onnx_in(n, 0), onnx_attr_int(n, "transA", 0), onnx_attr_int(n, "transBatchA", 0));
  ir_value b = transpose(n, onnx_in(n, 1), onnx_attr_int(n, "transB", 0), onnx_attr_int(n, "transBatchB", 0));
  ir_value product = ONNX_EMIT(n, "aten::matmul", a, b);
  double alpha = onnx_attr_float(n, "alpha", 1);
  if (alpha != 1) product = ONNX_EMIT(n, "aten::mul", product, onnx_scalar(n, onnx_type_dtype(n, product), alpha));
  onnx_out(n, 0, product);
}

/* ---- quantised ---- */

/* A scale per row of A multiplies rows, not columns. */
static ir_value per_row(onnx_node *n, ir_value scale) {
  const ir_type *t = onnx_type(n, scale);
  int64_t last[] = {1};
  return t->rank == 1 && t->dims[0] != 1 ? ONNX_EMIT(n, "aten::unsqueeze", scale, onnx_ints(n, last, 1)) : scale;
}

/* (a - a_zero) (b - b_zero) * scale, in `dtype` of the scale. */
static ir_value scaled_product(onnx_node *n, ir_value a, ir_value b, ir_value a_zero, ir_value b_zero, ir_value scale) {
  ir_value in[] = {a, b, a_zero, b_zero};
  ir_value sums = onnx_emit(n, "td::matmul_integer", in, b_zero.id ? 4 : a_zero.id ? 3 : 2, NULL, 0);
  return ONNX_EMIT(n, "aten::mul", onnx_cast(n, sums, onnx_type_dtype(n, scale)), scale);
}

static ir_value add_bias(onnx_node *n, ir_value v, ir_value bias) {
  return bias.id ? ONNX_EMIT(n, "aten::add", v, bias) : v;
}

/* a, b, a_scale, b_scale, a_zero, b_zero, bias */
static void lower_integer_to_float(onnx_node *n) {
  ir_value scale = ONNX_EMIT(n, "aten::mul", per_row(n, onnx_in(n, 2)), onnx_in(n, 3));
  ir_value product = scaled_product(n, onnx_in(n, 0), onnx_in(n, 1), onnx_in(n, 4), onnx_in(n, 5), scale);
  onnx_out(n, 0, add_bias(n, product, onnx_in(n, 6)));
}

/* a (float), b, b_scale, b_zero, bias */
static void lower_dynamic_matmul(onnx_node *n) {
  ir_value a = onnx_in(n, 0), quantised[3] = {IR_NO_VALUE, IR_NO_VALUE, IR_NO_VALUE};
  onnx_emit_many(n, "td::dynamic_quantize_linear", &a, 1, NULL, 0, quantised, 3);
  ir_value scale = ONNX_EMIT(n, "aten::mul", quantised[1], onnx_in(n, 2));
  ir_value product = scaled_product(n, quantised[0], onnx_in(n, 1), quantised[2], onnx_in(n, 3), scale);
  onnx_out(n, 0, add_bias(n, product, onnx_in(n, 4)));
}

/* A constant transposed now, so that passes find weights; anything else as a step. */
static ir_value transposed_weights(onnx_node *n, ir_value b) {
  const base_tensor *t = onnx_constant_of(n, b);
  if (!t || t->rank != 2) return transpose(n, b, true, false);
  base_tensor rows = *t;
  for (int i = 0; i < 2; i++) rows.dims[i] = t->dims[1 - i], rows.strides[i] = t->strides[1 - i];
  return onnx_constant(n, &rows);
}

/* A product whose result is quantised and whose bias is one of each column. */
static bool is_qlinear(onnx_node *n) {
  const ir_type *c = onnx_has(n, 6) ? onnx_type(n, onnx_in(n, 6)) : NULL;
  return onnx_has(n, 7) && !onnx_attr_int(n, "transA", 0) && onnx_attr_float(n, "alpha", 1) == 1 &&
         (!c || (c->rank == 1 && c->dims[0] != 1 && base_dim_known(c->dims[0])));
}

static void qlinear_gemm(onnx_node *n) {
  const ir_value b = onnx_in(n, 3), in[] = {onnx_in(n, 0), onnx_in(n, 1),
                                            onnx_in(n, 2), onnx_attr_int(n, "transB", 0) ? transposed_weights(n, b) : b,
                                            onnx_in(n, 4), onnx_in(n, 5),
                                            onnx_in(n, 7), onnx_in(n, 8),
                                            onnx_in(n, 6)};
  onnx_out(n, 0, onnx_emit(n, "td::qlinear_matmul", in, in[8].id ? 9 : 8, NULL, 0));
}

/* a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero. c is i32 in units of alpha a_scale b_scale. Without
 * y_scale the result is float. */
static void lower_qgemm(onnx_node *n) {
  if (is_qlinear(n)) {
    qlinear_gemm(n);
    return;
  }
  ir_value a = transpose(n, onnx_in(n, 0), onnx_attr_int(n, "transA", 0), false);
  ir_value b = transpose(n, onnx_in(n, 3), onnx_attr_int(n, "transB", 0), false);
  ir_value in[] = {a, b, onnx_in(n, 2), onnx_in(n, 5)};
  ir_value sums = onnx_emit(n, "td::matmul_integer", in, 4, NULL, 0);
  sums = add_bias(n, sums, onnx_in(n, 6));
  ir_value scale = ONNX_EMIT(n, "aten::mul", onnx_in(n, 1), onnx_in(n, 4));
  double alpha = onnx_attr_float(n, "alpha", 1);
  if (alpha != 1) scale = ONNX_EMIT(n, "aten::mul", scale, onnx_scalar(n, TD_F32, alpha));
  ir_value y = ONNX_EMIT(n, "aten::mul", onnx_cast(n, sums, TD_F32), scale), zero = onnx_in(n, 8);
  if (onnx_has(n, 7))
    y = onnx_quantise(n, y, onnx_in(n, 7), zero,
                      zero.id ? onnx_type_dtype(n, zero) : onnx_type_dtype(n, onnx_in(n, 0)));
  onnx_out(n, 0, y);
}

/* What accuracy_level lets become of a: not said, f32, f16, bf16, 8 bits. 16 bits of a block with a scale are more than
 * either half precision has; bf16 is about what 8 bits of one are. */
static const struct {
  int64_t bits;
  bool bf16;
} accuracies[] = {{16, false}, {32, false}, {16, false}, {16, true}, {8, true}};

ir_value onnx_product_nbits(onnx_node *n, const onnx_nbits *p) {
  const ir_value in[] = {p->x, p->weights, p->scales, p->zeros, p->bias, p->groups};
  const bool known = p->accuracy >= 0 && p->accuracy < (int64_t)(sizeof accuracies / sizeof *accuracies);
  uint32_t count = 6;
  while (count > 3 && !in[count - 1].id) count--;
  const base_arg args[] = {ARG_INT("k", p->k),
                           ARG_INT("n", p->n),
                           ARG_INT("bits", p->bits),
                           ARG_INT("block_size", p->block),
                           ARG_INT("x_bits", known ? accuracies[p->accuracy].bits : 32),
                           ARG_BOOL("bf16", known && accuracies[p->accuracy].bf16)};
  return onnx_emit(n, "td::matmul_nbits", in, count, args, 6);
}

/* a, b, scales, zero points, g_idx, bias. */
static void lower_nbits(onnx_node *n) {
  if (onnx_attr_int(n, "weight_prepacked", 0)) onnx_fail(n, TD_UNSUPPORTED, "prepacked weights are not supported");
  const onnx_nbits p = {.x = onnx_in(n, 0),
                        .weights = onnx_in(n, 1),
                        .scales = onnx_in(n, 2),
                        .zeros = onnx_in(n, 3),
                        .bias = onnx_in(n, 5),
                        .groups = onnx_in(n, 4),
                        .k = onnx_attr_int(n, "K", 0),
                        .n = onnx_attr_int(n, "N", 0),
                        .bits = onnx_attr_int(n, "bits", 4),
                        .block = onnx_attr_int(n, "block_size", 0),
                        .accuracy = onnx_attr_int(n, "accuracy_level", 0)};
  onnx_out(n, 0, onnx_product_nbits(n, &p));
}

static void lower_gather_nbits(onnx_node *n) {
  ir_value in[] = {onnx_in(n, 0), onnx_in(n, 1), onnx_in(n, 2), onnx_in(n, 3)};
  onnx_out(n, 0,
           ONNX_EMIT_ARGS(n, "td::gather_nbits", in, in[3].id ? 4 : 3,
                          ARG_INT("gather_axis", onnx_attr_int(n, "gather_axis", 0)),
                          ARG_INT("quantize_axis", onnx_attr_int(n, "quantize_axis", 1)),
                          ARG_INT("block_size", onnx_attr_int(n, "block_size", 128)),
                          ARG_INT("bits", onnx_attr_int(n, "bits", 4))));
}

/* What 4 bits stand for, times the largest of their block (Dettmers et al. 2023): quantiles of a normal distribution
 * (NF4), and a sign, two bits of exponent and one of mantissa (FP4). */
static const float normal_float[16] = {-1.0f,
                                       -0.6961928009986877f,
                                       -0.5250730514526367f,
                                       -0.39491748809814453f,
                                       -0.28444138169288635f,
                                       -0.18477343022823334f,
                                       -0.09105003625154495f,
                                       0.0f,
                                       0.07958029955625534f,
                                       0.16093020141124725f,
                                       0.24611230194568634f,
                                       0.33791524171829224f,
                                       0.44070982933044434f,
                                       0.5626170039176941f,
                                       0.7229568362236023f,
                                       1.0f};
static const float float_of_4[8] = {0.0f, 5.208333333e-03f, 0.66666667f, 1.0f, 0.33333333f, 0.5f, 0.16666667f, 0.25f};

/* a, b [(n k + 1) / 2], the high half of a byte first; the largest of each block of b as one row. The weights are f32
 * from then on: their values are no multiples of a scale. */
static void lower_bnb4(onnx_node *n) {
  const base_tensor *b = onnx_constant_of(n, onnx_in(n, 1)), *most = onnx_constant_of(n, onnx_in(n, 2));
  const int64_t columns = onnx_attr_int(n, "N", 0), k = onnx_attr_int(n, "K", 0),
                block = onnx_attr_int(n, "block_size", 0);
  const bool normal = onnx_attr_int(n, "quant_type", 1) == 1;
  int64_t count = 0;
  if (!onnx_attr_int(n, "transB", 1)) onnx_fail(n, TD_UNSUPPORTED, "transB = 0 is not supported");
  if (!b || !most) onnx_fail(n, TD_UNSUPPORTED, "weights that are not constant");
  if (onnx_failed(n)) return;
  if (columns < 0 || k < 0 || block < 1 || !base_mul_i64(columns, k, &count) || base_dtype(b->dtype)->bits != 8 ||
      base_tensor_numel(b) != count / 2 + count % 2 || base_tensor_numel(most) != base_ceil_div(count, block))
    onnx_fail(n, TD_BAD_FILE, "weights of %lld bytes for %lld columns of %lld", (long long)base_tensor_numel(b),
              (long long)columns, (long long)k);
  float *to = onnx_failed(n) ? NULL : onnx_alloc(n, (size_t)count * sizeof *to + 1);
  if (!to) return;
  for (int64_t i = 0; i < count; i++) {
    const uint8_t byte = ((const uint8_t *)b->data)[i / 2], bits = i % 2 ? byte & 15 : byte >> 4;
    const float value = normal ? normal_float[bits] : bits & 8 ? -float_of_4[bits & 7] : float_of_4[bits & 7];
    to[i] = value * (float)base_load_f64(most->dtype, most->data, i / block);
  }
  const base_tensor weights = base_tensor_of(to, TD_F32, 2, (int64_t[]){columns, k});
  const ir_value a = onnx_in(n, 0), w = transpose(n, onnx_constant_in_place(n, &weights), true, false);
  const td_dtype dtype = onnx_type_dtype(n, a);
  onnx_out(n, 0, onnx_cast(n, ONNX_EMIT(n, "aten::matmul", onnx_cast(n, a, TD_F32), w), dtype));
}

ONNX_DECLARE(matmul);
const onnx_lowering onnx_lower_matmul[] = {
    {"", "Gemm", 1, lower_gemm},
    {"com.microsoft", "FusedGemm", 1, lower_fused_gemm},
    {"com.microsoft", "FusedMatMul", 1, lower_fused_matmul},
    {"com.microsoft", "TransposeMatMul", 1, lower_fused_matmul},
    {"com.microsoft", "MatMulIntegerToFloat", 1, lower_integer_to_float},
    {"com.microsoft", "DynamicQuantizeMatMul", 1, lower_dynamic_matmul},
    {"com.microsoft", "QGemm", 1, lower_qgemm},
    {"com.microsoft", "MatMulBnb4", 1, lower_bnb4},
    {"com.microsoft", "MatMulNBits", 1, lower_nbits},
    {"com.microsoft", "GatherBlockQuantized", 1, lower_gather_nbits},
};
ONNX_TABLE(matmul);
