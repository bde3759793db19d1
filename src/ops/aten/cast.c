/* cast.c -- changing the element type: by value (_to_copy, strings included) or by bits (bit_cast). Floats become text
 * as the shortest decimal that reads back the same, in Python's spelling; text becomes numbers as strtod reads it.
 *
 *     aten::_to_copy  y = x as another type (ONNX Cast 1)
 *     td::bit_cast    y has the bits of x (ONNX BitCast 26) */
#include "ops/common/lower_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DTYPE, SATURATE, ROUND_MODE };
static const ir_attr cast_attrs[] = {ATTR_DTYPE("dtype"), ATTR_BOOL("saturate", 1), ATTR_STR("round_mode", "up")};
static const ir_attr bit_cast_attrs[] = {ATTR_DTYPE("dtype")};

enum { NUMBER_TEXT = 48, TEXT_LIMIT = 256 }; /* bytes: of a printed number, and of one that is read */

/* ---- numbers to text ---- */

/* Fewest digits that read back as the value in its own type. */
static void print_float(td_dtype dtype, double value, char *text) {
  if (isnan(value) || isinf(value)) {
    snprintf(text, NUMBER_TEXT, "%s", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
    return;
  }
  int digits = 1;
  for (;; digits++) {        /* 17 digits distinguish every double */
    uint64_t again[1] = {0}; /* one element of any float type */
    snprintf(text, NUMBER_TEXT, "%.*e", digits - 1, value);
    base_store_f64(dtype, again, 0, strtod(text, NULL));
    if (digits == 17 || base_load_f64(dtype, again, 0) == value) break;
  }
  int exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10); /* of the first digit, as rounded */
  if (value != 0 && (exponent >= 16 || exponent < -4)) return;
  int after = digits - 1 - exponent;
  snprintf(text, NUMBER_TEXT, "%.*f", after < 1 ? 1 : after, value);
}

static void print_number(const base_tensor *t, const void *data, int64_t index, char *text) {
  if (base_is_float(t->dtype)) print_float(t->dtype, base_load_f64(t->dtype, data, index), text);
  else if (t->dtype == TD_BOOL)
    snprintf(text, NUMBER_TEXT, "%s", base_load_i64(TD_BOOL, data, index) ? "True" : "False");
  else if (t->dtype == TD_U64)
    snprintf(text, NUMBER_TEXT, "%llu", (unsigned long long)base_load_i64(TD_U64, data, index));
  else snprintf(text, NUMBER_TEXT, "%lld", (long long)base_load_i64(t->dtype, data, index));
}

static td_status to_strings(const base_call *call, const base_tensor *in, base_str *to) {
  const void *data = ops_dense(call, 0);
  if (!data) return base_no_memory(call->err, "scratch");
  int64_t count = base_tensor_numel(in);
  char text[NUMBER_TEXT];
  for (int64_t k = 0; k < count; k++) {
    print_number(in, data, k, text);
    size_t length = strlen(text);
    char *kept = call->keep(call->memory, length);
    if (!kept) return base_no_memory(call->err, "strings");
    memcpy(kept, text, length);
    to[k] = (base_str){kept, length};
  }
  return TD_OK;
}

/* ---- text to numbers ---- */

static bool read_number(base_str text, td_dtype dtype, void *to, int64_t index) {
  char buffer[TEXT_LIMIT], *end;
  int64_t whole;
  if (text.length == 0 || text.length >= sizeof buffer) return false;
  memcpy(buffer, text.at, text.length);
  buffer[text.length] = '\0';
  if (!base_is_float(dtype) && base_str_int(text, &whole)) {
    base_store_i64(dtype, to, index, whole);
    return true;
  }
  double value = strtod(buffer, &end);
  base_store_f64(dtype, to, index, value);
  return end == buffer + text.length;
}

static td_status from_strings(const base_call *call, const base_tensor *in, const base_tensor *out) {
  const base_str *from = ops_dense(call, 0);
  if (!from) return base_no_memory(call->err, "scratch");
  int64_t count = base_tensor_numel(in);
  for (int64_t k = 0; k < count; k++)
    if (!read_number(from[k], out->dtype, out->data, k))
      return ops_fail(call, "\"%.*s\" is no number", (int)(from[k].length < 40 ? from[k].length : 40),
                      from[k].at ? from[k].at : "");
  return TD_OK;
}

/* ---- numbers to numbers ---- */

/* Powers of two: `mode` is up (away from zero), down (toward it) or nearest (ties up). */
static uint8_t to_e8m0(double value, bool saturate, const char *mode) {
  if (isnan(value)) return 0xff;
  double a = fabs(value);
  if (isinf(a)) return saturate ? 0xfe : 0xff;
  int exponent;
  double fraction = frexp(a, &exponent); /* a = fraction * 2^exponent, fraction in [0.5, 1) */
  double round_from = strcmp(mode, "down") == 0 ? 2 : strcmp(mode, "nearest") == 0 ? 0.75 : 0.5;
  bool up = strcmp(mode, "up") == 0 ? fraction > round_from : fraction >= round_from;
  int code = a == 0 ? 0 : exponent + 126 + up;
  if (code > 0xfe) return saturate ? 0xfe : 0xff;
  return (uint8_t)(code < 0 ? 0 : code);
}

/* Into integers of 4 and 2 bits the whole part wraps, as it does in NumPy's types; NaN becomes -0 in a float without
 * NaN. */
static void to_packed(td_dtype to_type, void *to, td_dtype from_type, const void *from, int64_t count) {
  for (int64_t k = 0; k < count; k++) {
    double value = base_load_f64(from_type, from, k);
    if (base_is_int(to_type)) base_store_i64(to_type, to, k, base_load_i64(from_type, from, k));
    else base_store_f64(to_type, to, k, isnan(value) ? -0.0 : value);
  }
}

static td_status cast_reference(const base_call *call) {
  const base_tensor *in = base_in(call, 0), *out = base_out(call, 0);
  bool saturate = base_attr_int(call->attrs, SATURATE);
  if (in->dtype == TD_STRING && out->dtype != TD_STRING) return from_strings(call, in, out);
  if (out->dtype == TD_STRING && in->dtype != TD_STRING) return to_strings(call, in, out->data);
  const void *data = ops_dense(call, 0);
  if (!data) return base_no_memory(call->err, "scratch");
  int64_t count = base_tensor_numel(in);
  if (out->dtype == TD_F8E8M0 && in->dtype != TD_F8E8M0)
    for (int64_t k = 0; k < count; k++)
      ((uint8_t *)out->data)[k] =
          to_e8m0(base_load_f64(in->dtype, data, k), saturate, base_attr_str(call->attrs, ROUND_MODE));
  else if (in->dtype == out->dtype) {
    size_t bytes = base_tensor_bytes(in);
    if (bytes) memmove(out->data, data, bytes);
  } else if (base_dtype(out->dtype)->bits < 8) {
    to_packed(out->dtype, out->data, in->dtype, data, count);
  } else {
    base_convert(out->dtype, out->data, in->dtype, data, count, saturate);
  }
  return TD_OK;
}

/* A float that is cut to a whole number ends where that number's own type does. */
static bool lower_cast(const ir_kernel_query *query, loop_build *b) {
  const td_dtype to = query->out[0].type.dtype;
  const base_type type = base_type_of(to), from = loop_type_of(b, b->in[0]);
  if (type == BASE_TYPE_COUNT || from == BASE_TYPE_COUNT) return false;
  const bool narrow = !base_type_is_float(type) && base_type_dtype(type) != to;
  uint16_t x = b->in[0];
  if (narrow && base_type_is_float(from)) {
    const base_dtype_info *info = base_dtype(to);
    const double values = (double)((uint64_t)1 << info->bits), least = info->is_signed ? -values / 2 : 0;
    if (info->bits > 16) return false; /* f32 does not have the ends */
    x = loop_scalar(b, BASE_SCALAR_clamp, x, LOOP_NONE, LOOP_NONE, (const double[]){least, least + values - 1}, 2);
  }
  b->out = loop_cast(b, x, type);
  return b->out != LOOP_NONE;
}

static td_status infer_cast(ir_infer *ctx) {
  td_dtype dtype = (td_dtype)base_attr_int(ctx->attrs, DTYPE);
  const char *mode = base_attr_str(ctx->attrs, ROUND_MODE);
  if (strcmp(mode, "up") != 0 && strcmp(mode, "down") != 0 && strcmp(mode, "nearest") != 0)
    return ir_infer_fail(ctx, "round_mode \"%s\" is none of up, down, nearest", mode);
  TRY(ir_out_like(ctx, 0, 0, dtype));
  if (base_is_int(dtype)) ops_ints_same(ctx, 0);
  return TD_OK;
}

/* ---- bits ---- */

static td_status bit_cast_view(const base_call *call) {
  base_tensor *out = base_out(call, 0);
  out->data = base_in(call, 0)->data;
  base_strides(out->rank, out->dims, out->strides);
  return TD_OK;
}

/* Of another size: the last dimension has as many more or fewer elements. */
static td_status infer_bit_cast(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type;
  td_dtype to = (td_dtype)base_attr_int(ctx->attrs, DTYPE), from = x->dtype;
  int64_t new_bits = base_dtype(to)->bits, bits = base_dtype(from)->bits;
  if (to == TD_STRING || from == TD_STRING || ((bits < 8 || new_bits < 8) && bits != new_bits))
    return ir_infer_fail(ctx, "%s cannot be shown as %s", td_dtype_name(from), td_dtype_name(to));
  if (bits == new_bits) return ir_out_like(ctx, 0, 0, to);
  if (x->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, to);
  if (x->rank == 0) return ir_infer_fail(ctx, "%s and %s differ in size", td_dtype_name(from), td_dtype_name(to));
  base_dim dims[BASE_MAX_RANK], *last = &dims[x->rank - 1];
  memcpy(dims, x->dims, sizeof dims);
  if (bits > new_bits) *last = base_dim_mul(ctx->dims, *last, base_dim_number(bits / new_bits));
  else if (!base_dim_known(*last)) *last = base_dim_div(ctx->dims, *last, base_dim_number(new_bits / bits));
  else if (*last % (new_bits / bits) == 0) *last /= new_bits / bits;
  else
    return ir_infer_fail(ctx, "%lld elements of %s in the last dimension are no whole number of %s", (long long)*last,
                         td_dtype_name(from), td_dtype_name(to));
  return ir_out(ctx, 0, to, x->rank, dims);
}

/* ---- cases ---- */

static bool cast_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F16, TD_BF16, TD_F64,      TD_I64, TD_I32,
                                    TD_I8,  TD_U8,  TD_BOOL, TD_F8E4M3FN, TD_I4};
  uint32_t n = OPS_COUNT(dtypes);
  if (number >= n * n) return false;
  ops_case_arg(c, ARG_DTYPE("dtype", dtypes[number % n]));
  return ops_case_in(c, dtypes[number / n], OPS_DIMS(3, 7), OPS_NORMAL, number);
}

static bool bit_cast_cases(ir_case *c, uint32_t number) {
  static const td_dtype pairs[][2] = {{TD_F32, TD_I32}, {TD_U16, TD_BF16}, {TD_F64, TD_U64},
                                      {TD_F64, TD_I16}, {TD_I8, TD_F32},   {TD_I32, TD_U8}};
  if (number >= sizeof pairs / sizeof *pairs) return false;
  ops_case_arg(c, ARG_DTYPE("dtype", pairs[number][1]));
  return ops_case_in(c, pairs[number][0], OPS_DIMS(3, 1, 8), OPS_SPECIAL, number);
}

static const ir_alias bit_cast_aliases[] = {{"onnx", "BitCast", 26, "to=dtype"}};

OPS_DECLARE(cast);
const ir_op ops_cast[] = {
    {.id = OPERATOR(aten, _to_copy),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .strings = 1,
     .flags = IR_OP_ELEMENTWISE,
     .attrs = cast_attrs,
     .attr_count = OPS_COUNT(cast_attrs),
     .infer = infer_cast,
     .reference = cast_reference,
     .lower = lower_cast},
    {.id = OPERATOR(td, bit_cast),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .flags = IR_OP_VIEW_DENSE,
     .attrs = bit_cast_attrs,
     .attr_count = OPS_COUNT(bit_cast_attrs),
     .infer = infer_bit_cast,
     .reference = ops_view_reference,
     .view = bit_cast_view,
     .aliases = bit_cast_aliases,
     .alias_count = OPS_COUNT(bit_cast_aliases)},
};
OPS_TABLE(cast);
OPS_CASES(cast) = {
    {OP_aten__to_copy, cast_cases},
    {OP_td_bit_cast, bit_cast_cases},
    {0},
};
