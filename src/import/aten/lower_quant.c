/* lower_quant.c -- quantised tensors: cells of integers with a scale and a zero point, and the operators that exported
 * programs write out (quantized_decomposed::). Integer convolutions and products are computed on dequantised values:
 * sums of 8-bit products are exact in f32 up to 2^24, and are rounded once. */
#include "import/aten/aten_priv.h"

#include <string.h>

static ir_value optional(aten_args *c, uint32_t i) { return aten_has(c, i) ? aten_in(c, i) : IR_NO_VALUE; }

/* ---- values ---- */

static ir_value quantise(aten *a, ir_value x, ir_value scale, ir_value zero, int64_t axis, td_dtype d) {
  ir_value in[] = {ir_build_cast(a->b, x, TD_F32), ir_build_cast(a->b, scale, TD_F32), ir_build_cast(a->b, zero, d)};
  return IR_EMIT_ARGS(a->b, "td::quantize_linear", in, 3, ARG_INT("axis", axis), ARG_DTYPE("dtype", d));
}
static ir_value dequantise(aten *a, ir_value x, ir_value scale, ir_value zero, int64_t axis) {
  td_dtype d = aten_value_dtype(a, x);
  ir_value in[] = {x, ir_build_cast(a->b, scale, TD_F32), zero.id ? ir_build_cast(a->b, zero, d) : zero};
  return IR_EMIT_ARGS(a->b, "td::dequantize_linear", in, 3, ARG_INT("axis", axis), ARG_DTYPE("dtype", TD_F32));
}

aten_value aten_of_quantised(aten *a, ir_value value, ir_value scale, ir_value zero, int64_t axis) {
  aten_value v = aten_fresh(a, value, ATEN_UNSURE);
  aten_quant *q = aten_alloc(a, sizeof *q);
  if (v.kind != ATEN_TENSOR || !q) return v;
  *q = (aten_quant){.scale = scale, .zero = zero, .axis = axis};
  v.u.tensor->quant = q;
  return v;
}

static ir_value real_values(aten *a, const aten_value *v) {
  if (v->kind != ATEN_TENSOR || !v->u.tensor->quant) return aten_read(a, v);
  const aten_quant *q = v->u.tensor->quant;
  return dequantise(a, aten_read(a, v), q->scale, q->zero, q->axis < 0 ? 0 : q->axis);
}
static ir_value real_of(aten_args *c, const aten_value *v) { return real_values(c->a, v); }

aten_value aten_dequantised(aten *a, const aten_value *quantised) {
  return aten_fresh(a, real_values(a, quantised), ATEN_UNSURE);
}
aten_value aten_quantised_like(aten *a, ir_value real, const aten_value *like) {
  const aten_quant *q = like->u.tensor->quant;
  td_dtype d = aten_value_dtype(a, aten_read(a, like));
  if (q->axis >= 0) ir_build_fail(a->b, TD_UNSUPPORTED, "the operator takes tensors that are quantised as a whole");
  return aten_of_quantised(a, quantise(a, real, q->scale, q->zero, 0, d), q->scale, q->zero, -1);
}

static aten_value quantised(aten_args *c, ir_value x, ir_value scale, ir_value zero, td_dtype d) {
  return aten_of_quantised(c->a, quantise(c->a, x, scale, zero, 0, d), scale, zero, -1);
}

/* quantize_per_tensor(self, scale, zero_point, dtype): numbers or tensors */
aten_value aten_lower_quantize(aten_args *c) {
  ir_value scale = aten_as(c->a, &c->args[1], TD_F32), zero = aten_as(c->a, &c->args[2], TD_I64);
  scale = ir_build_to_scalar(c->b, scale, TD_F32, "scale");
  zero = ir_build_to_scalar(c->b, zero, TD_I64, "zero point");
  return quantised(c, aten_in(c, 0), scale, zero, aten_get_dtype(c, 3, TD_U8));
}
/* quantize_per_channel(self, scales, zero_points, axis, dtype) */
aten_value aten_lower_quantize_channel(aten_args *c) {
  ir_value scale = aten_in(c, 1), zero = aten_in(c, 2);
  int64_t axis = aten_get_int(c, 3);
  return aten_of_quantised(c->a, quantise(c->a, aten_in(c, 0), scale, zero, axis, aten_get_dtype(c, 4, TD_U8)), scale,
                           zero, axis);
}
aten_value aten_lower_dequantize(aten_args *c) {
  if (c->args[0].kind == ATEN_LIST) aten_refuse(c, "of a list");
  return aten_ret(c, real_of(c, &c->args[0]));
}
aten_value aten_lower_int_repr(aten_args *c) { return aten_ret(c, aten_read(c->a, &c->args[0])); }
aten_value aten_lower_q_scale(aten_args *c) {
  const aten_tensor *t = c->args[0].u.tensor;
  if (!t->quant || t->quant->axis >= 0) aten_refuse(c, "of a tensor that is not quantised as a whole");
  return ir_build_failed(c->b) ? ATEN_NOTHING
                               : aten_number(c->a, ir_build_cast(c->b, c->row->data ? t->quant->zero : t->quant->scale,
                                                                 c->row->data ? TD_I64 : TD_F64));
}

/* ---- quantized:: ---- */

/* Packed parameters are a tuple of what they were made from: (weight, bias?, stride, padding, dilation, groups). */
aten_value aten_lower_q_prepack(aten_args *c) { return aten_tuple_of(c->a, c->args, c->schema->count); }

static const aten_value *packed_items(aten_args *c, const aten_value *v, uint32_t count) {
  if (v->kind == ATEN_TUPLE && v->u.list->items.count >= count) return v->u.list->items.at;
  aten_refuse(c, "packed parameters of an unknown form");
  return NULL;
}
static const aten_value *packed_of(aten_args *c, uint32_t count) { return packed_items(c, &c->args[1], count); }
static ir_value bias_of(aten_args *c, const aten_value *v) {
  return v->kind == ATEN_TENSOR ? aten_read(c->a, v) : IR_NO_VALUE;
}

/* Items 2, 3 and 4 of packed parameters: stride, padding, dilation. */
static bool read_window(aten_args *c, const aten_value *packed, int32_t n, int64_t *window) {
  for (int32_t k = 0; k < 3; k++) {
    const aten_value *v = &packed[2 + k];
    if (!aten_known_list(v) || v->u.list->items.count != (uint32_t)n) {
      aten_refuse(c, "packed parameters of an unknown form");
      return false;
    }
    for (int32_t i = 0; i < n; i++) window[k * n + i] = v->u.list->items.at[i].u.i;
  }
  return true;
}
static ir_value packed_conv(aten_args *c, ir_value x) {
  const aten_value *packed = packed_of(c, 6);
  int32_t n = aten_rank(c->a, x) - 2;
  int64_t window[9], pads[6];
  if (ir_build_failed(c->b) || n < 1 || n > 3 || !read_window(c, packed, n, window)) return IR_NO_VALUE;
  for (int32_t i = 0; i < n; i++) pads[i] = pads[n + i] = window[n + i];
  ir_value w = real_of(c, &packed[0]), bias = bias_of(c, &packed[1]);
  return IR_EMIT_ARGS(c->b, "aten::convolution", ((ir_value[]){x, w, bias}), bias.id ? 3 : 2,
                      ARG_INTS("stride", window, n), ARG_INTS("padding", pads, 2 * n),
                      ARG_INTS("dilation", window + 2 * n, n), ARG_INT("groups", packed[5].u.i));
}
static ir_value packed_linear(aten_args *c, ir_value x) {
  const aten_value *packed = packed_of(c, 2);
  return packed ? aten_linear(c->a, x, real_of(c, &packed[0]), bias_of(c, &packed[1])) : IR_NO_VALUE;
}

/* _make_per_tensor_quantized_tensor(ints, scale, zero_point), _make_per_channel_...(ints, scale, zero_point, axis) */
aten_value aten_lower_make_quantised(aten_args *c) {
  bool channel = c->schema->count > 3;
  ir_value scale = channel ? aten_in(c, 1) : aten_get_number(c, 1, TD_F32),
           zero = channel ? aten_in(c, 2) : aten_get_number(c, 2, TD_I64);
  return aten_of_quantised(c->a, aten_in(c, 0), scale, zero, channel ? aten_get_int(c, 3) : -1);
}

static td_dtype kept_dtype(aten_args *c) { return aten_value_dtype(c->a, aten_read(c->a, &c->args[0])); }
static aten_value requantised(aten_args *c, ir_value y, uint32_t scale) {
  return quantised(c, y, aten_get_number(c, scale, TD_F32), aten_get_number(c, scale + 1, TD_I64), kept_dtype(c));
}
/* conv1d, conv2d ... (qx, packed, output_scale, output_zero_point); data: "r" with relu */
aten_value aten_lower_q_conv(aten_args *c) {
  ir_value y = packed_conv(c, real_of(c, &c->args[0]));
  if (c->row->data) y = IR_EMIT(c->b, "aten::relu", y);
  return requantised(c, y, 2);
}
aten_value aten_lower_q_linear(aten_args *c) {
  ir_value y = packed_linear(c, real_of(c, &c->args[0]));
  if (c->row->data) y = IR_EMIT(c->b, "aten::relu", y);
  return requantised(c, y, 2);
}
ir_value aten_linear_dynamic(aten_args *c, ir_value x, const aten_value *packed, bool reduce_range) {
  ir_value out[3];
  const aten_value *items = packed_items(c, packed, 2);
  if (!items) return IR_NO_VALUE;
  ir_emit_many(c->b, "td::dynamic_quantize_linear", &x, 1, &ARG_BOOL("reduce_range", reduce_range), 1, out, 3);
  return aten_linear(c->a, dequantise(c->a, out[0], out[1], out[2], 0), real_of(c, &items[0]), bias_of(c, &items[1]));
}
/* linear_dynamic(x, packed, reduce_range); data "r" */
aten_value aten_lower_q_linear_dynamic(aten_args *c) {
  ir_value y = aten_linear_dynamic(c, aten_in(c, 0), &c->args[1], aten_get_bool(c, 2));
  return aten_ret(c, c->row->data ? IR_EMIT(c->b, "aten::relu", y) : y);
}
/* The operand of a call that `at` stands for: a digit is that of this call, its real values where it is quantised; `-`
 * is nothing, `z` a zero, `t` and `f` are true and false. */
static aten_value mapped(aten_args *c, char at) {
  if (at == '-') return ATEN_NOTHING;
  if (at == 'z') return aten_float(0);
  if (at == 't' || at == 'f') return aten_bool(at == 't');
  const aten_value *v = &c->args[at - '0'];
  return v->kind == ATEN_TENSOR ? aten_dequantised(c->a, v) : *v;
}
/* hardswish, layer_norm, add and so on (qx, ..., output_scale, output_zero_point); data: the operator of real numbers
 * and its operands, with an `r` at the end where a relu follows. */
aten_value aten_lower_q_map(aten_args *c) {
  enum { MOST_ARGS = 10 };
  aten_value args[MOST_ARGS];
  char name[48];
  uint32_t count = 0;
  const char *at = strchr(c->row->data, ' ');
  const size_t length = (size_t)(at - c->row->data);
  BASE_ASSERT(length < sizeof name && strlen(at) <= 1 + MOST_ARGS + 1);
  memcpy(name, c->row->data, length);
  name[length] = 0;
  for (at++; *at && *at != 'r'; at++) args[count++] = mapped(c, *at);
  aten_value y = aten_call_of(c, name, args, count);
  if (*at) y = aten_call_of(c, "aten::relu", &y, 1);
  const int64_t named = aten_position(c, "output_scale"), scale = named < 0 ? aten_position(c, "scale") : named;
  return ir_build_failed(c->b) || scale < 0 ? ATEN_NOTHING : requantised(c, aten_read(c->a, &y), (uint32_t)scale);
}
/* mul(qa, number): the same integers by another scale, from the other end where it is negative; data: "r" with relu */
aten_value aten_lower_q_mul_number(aten_args *c) {
  const double by = aten_get_float(c, 1);
  const aten_value real = aten_dequantised(c->a, &c->args[0]);
  const aten_quant *q = c->args[0].u.tensor->quant;
  if (!q || q->axis >= 0) aten_refuse(c, "of a tensor that is not quantised as a whole");
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  const td_dtype d = kept_dtype(c);
  const double ends = d == TD_U8 ? UINT8_MAX : -1;
  ir_value y = aten_with_scalar(c->a, "aten::mul", aten_read(c->a, &real), by), zero = q->zero,
           scale = aten_with_scalar(c->a, "aten::mul", ir_build_cast(c->b, q->scale, TD_F32), by < 0 ? -by : by);
  if (by < 0)
    zero = aten_binary(c->a, "aten::sub", ir_build_scalar(c->b, TD_I64, ends), ir_build_cast(c->b, q->zero, TD_I64));
  if (by == 0) scale = ir_build_scalar(c->b, TD_F32, 1), zero = ir_build_scalar(c->b, TD_I64, 0);
  if (c->row->data) y = IR_EMIT(c->b, "aten::relu", y);
  return quantised(c, y, scale, zero, d);
}
/* sigmoid and its kin of a quantised tensor have a scale and zero point of their own: those of [0, 1], or of [-1, 1].
 */
static const struct {
  const char *name;
  double steps, zero; /* of 1; of u8 */
} fixed[] = {{"aten::sigmoid", 256, 0}, {"aten::hardsigmoid", 256, 0}, {"aten::tanh", 128, 128}};

static size_t fixed_of(const aten_args *c) {
  size_t i = 0;
  for (; i < sizeof fixed / sizeof *fixed; i++) {
    const size_t length = strlen(fixed[i].name);
    if (strncmp(c->name, fixed[i].name, length) == 0 && (!c->name[length] || strcmp(c->name + length, "_") == 0)) break;
  }
  return i;
}
bool aten_is_fixed(const aten_args *c) { return fixed_of(c) < sizeof fixed / sizeof *fixed; }

aten_value aten_quantised_fixed(aten_args *c, ir_value y, const aten_value *like) {
  const size_t i = fixed_of(c);
  const td_dtype d = aten_value_dtype(c->a, aten_read(c->a, like));
  return quantised(c, y, ir_build_scalar(c->b, TD_F32, 1 / fixed[i].steps),
                   ir_build_scalar(c->b, TD_I64, fixed[i].zero - (d == TD_U8 ? 0 : 128)), d);
}
/* cat(qx[], dim, scale?, zero_point?) */
aten_value aten_lower_q_cat(aten_args *c) {
  uint32_t count = aten_list_count(c, 0);
  const aten_value *items = aten_items(c, 0);
  ir_value *v = aten_alloc(c->a, ((size_t)count + 1) * sizeof *v);
  if (!v || !count || items[0].kind != ATEN_TENSOR || !items[0].u.tensor->quant) {
    aten_refuse(c, "quantised tensors are needed");
    return ATEN_NOTHING;
  }
  for (uint32_t i = 0; i < count; i++) v[i] = real_of(c, &items[i]);
  const aten_quant *q = items[0].u.tensor->quant;
  ir_value scale = aten_has(c, 2) ? aten_get_number(c, 2, TD_F32) : q->scale,
           zero = aten_has(c, 3) ? aten_get_number(c, 3, TD_I64) : q->zero;
  return quantised(c, aten_cat(c->a, v, count, aten_get_int(c, 1)), scale, zero,
                   aten_value_dtype(c->a, aten_read(c->a, &items[0])));
}

/* ---- quantized_decomposed:: ---- */

/* A dtype narrower in use than in name: q kept within [quant_min, quant_max] where that is not all of it. */
static ir_value bounded(aten_args *c, ir_value q, uint32_t min, td_dtype d) {
  if (c->args[min].kind == ATEN_TENSOR) return q;
  int64_t low = aten_get_int(c, min), high = aten_get_int(c, min + 1), bits = base_dtype(d)->bits;
  bool is_signed = base_dtype(d)->is_signed;
  if (bits > 32) return q;
  int64_t least = is_signed ? -((int64_t)1 << (bits - 1)) : 0,
          most = is_signed ? ((int64_t)1 << (bits - 1)) - 1 : ((int64_t)1 << bits) - 1;
  if (low <= least && high >= most) return q;
  return IR_EMIT(c->b, "aten::clamp", q, ir_build_scalar(c->b, d, (double)low), ir_build_scalar(c->b, d, (double)high));
}
static ir_value one(aten_args *c, uint32_t i, td_dtype d) {
  return ir_build_to_scalar(c->b, aten_as(c->a, &c->args[i], d), d, "scale or zero point");
}
/* (input, scale, zero_point, quant_min, quant_max, dtype) */
aten_value aten_lower_qd_quantize(aten_args *c) {
  td_dtype d = aten_get_dtype(c, 5, TD_I8);
  return aten_ret(c, bounded(c, quantise(c->a, aten_in(c, 0), one(c, 1, TD_F32), one(c, 2, TD_I64), 0, d), 3, d));
}
static ir_value as_float(aten_args *c, ir_value v, const char *name) {
  for (uint32_t i = 0; i < c->schema->count; i++)
    if (base_str_is(c->schema->params[i].name, name)) return ir_build_cast(c->b, v, aten_get_dtype(c, i, TD_F32));
  return v;
}
aten_value aten_lower_qd_dequantize(aten_args *c) {
  return aten_ret(c,
                  as_float(c, dequantise(c->a, aten_in(c, 0), one(c, 1, TD_F32), one(c, 2, TD_I64), 0), "out_dtype"));
}
/* (input, scales, zero_points, axis, quant_min, quant_max, dtype) */
aten_value aten_lower_qd_quantize_channel(aten_args *c) {
  td_dtype d = aten_get_dtype(c, 6, TD_I8);
  ir_value q = quantise(c->a, aten_in(c, 0), aten_in(c, 1), aten_in(c, 2), aten_get_int(c, 3), d);
  return aten_ret(c, bounded(c, q, 4, d));
}
aten_value aten_lower_qd_dequantize_channel(aten_args *c) {
  ir_value x = dequantise(c->a, aten_in(c, 0), aten_in(c, 1), optional(c, 2), aten_get_int(c, 3));
  return aten_ret(c, as_float(c, x, "out_dtype"));
}
static aten_value chosen(aten_args *c, ir_value scale, ir_value point) {
  ir_value out[] = {aten_reshape(c->a, ir_build_cast(c->b, scale, TD_F64), (int64_t[]){1}, 1),
                    aten_reshape(c->a, ir_build_cast(c->b, point, TD_I64), (int64_t[]){1}, 1)};
  return aten_ret_many(c, out, 2);
}
/* choose_qparams(input, quant_min, quant_max, eps, dtype) -> scale, zero_point (f64, i64) */
aten_value aten_lower_qd_choose(aten_args *c) {
  ir_value x = aten_in(c, 0), zero = aten_scalar_like(c->a, x, 0);
  double low = (double)aten_get_int(c, 1), high = (double)aten_get_int(c, 2), eps = aten_get_float(c, 3);
  if (low == 0 && high == UINT8_MAX && aten_value_dtype(c->a, x) == TD_F32) {
    ir_value found[3];
    ir_emit_many(c->b, "td::dynamic_quantize_linear", &x, 1, &ARG_FLOAT("least", eps), 1, found, 3);
    return chosen(c, found[1], found[2]);
  }
  ir_value least =
      aten_binary(c->a, "aten::minimum", IR_EMIT_ARGS(c->b, "aten::amin", &x, 1, ARG_BOOL("keepdim", false)), zero);
  ir_value most =
      aten_binary(c->a, "aten::maximum", IR_EMIT_ARGS(c->b, "aten::amax", &x, 1, ARG_BOOL("keepdim", false)), zero);
  ir_value scale = aten_with_scalar(c->a, "aten::div", aten_binary(c->a, "aten::sub", most, least), high - low);
  scale = aten_binary(c->a, "aten::maximum", scale, aten_scalar_like(c->a, scale, eps));
  ir_value point = aten_binary(c->a, "aten::sub", aten_scalar_like(c->a, x, low),
                               IR_EMIT(c->b, "aten::round", aten_binary(c->a, "aten::div", least, scale)));
  point = IR_EMIT(c->b, "aten::clamp", point, aten_scalar_like(c->a, x, low), aten_scalar_like(c->a, x, high));
  return chosen(c, scale, point);
}
/* fake_quantize_per_tensor_affine(self, scale, zero_point, quant_min, quant_max) */
aten_value aten_lower_fake_quantize(aten_args *c) {
  const td_dtype d = aten_dtype_in(c, 0);
  ir_value x = ir_build_cast(c->b, aten_in(c, 0), TD_F32), scale = one(c, 1, TD_F32),
           zero = ir_build_cast(c->b, one(c, 2, TD_I64), TD_F32);
  ir_value q = aten_binary(
      c->a, "aten::add",
      IR_EMIT(c->b, "aten::round", aten_binary(c->a, "aten::mul", x, IR_EMIT(c->b, "aten::reciprocal", scale))), zero);
  q = IR_EMIT(c->b, "aten::clamp", q, ir_build_scalar(c->b, TD_F32, (double)aten_get_int(c, 3)),
              ir_build_scalar(c->b, TD_F32, (double)aten_get_int(c, 4)));
  q = aten_binary(c->a, "aten::mul", aten_binary(c->a, "aten::sub", q, zero), scale);
  return aten_ret(c, ir_build_cast(c->b, q, d));
}
