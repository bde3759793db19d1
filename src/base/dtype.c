/* dtype.c -- element types. Small floats (8 bits and fewer) go through one table of formats: a value is decoded by
 * formula and encoded by exact scaling and round-half-even on the mantissa, so that every narrow type shares one
 * rounding. */
#include "base/dtype.h"

#include <math.h>
#include <string.h>

static const base_dtype_info dtypes[TD_DTYPE_COUNT] = {
    [TD_INVALID] = {"invalid", 0, false, false, false, false},
    [TD_F64] = {"f64", 64, true, false, true, false},
    [TD_F32] = {"f32", 32, true, false, true, false},
    [TD_F16] = {"f16", 16, true, false, true, false},
    [TD_BF16] = {"bf16", 16, true, false, true, false},
    [TD_I64] = {"i64", 64, false, true, true, false},
    [TD_I32] = {"i32", 32, false, true, true, false},
    [TD_I16] = {"i16", 16, false, true, true, false},
    [TD_I8] = {"i8", 8, false, true, true, false},
    [TD_U64] = {"u64", 64, false, true, false, false},
    [TD_U32] = {"u32", 32, false, true, false, false},
    [TD_U16] = {"u16", 16, false, true, false, false},
    [TD_U8] = {"u8", 8, false, true, false, false},
    [TD_BOOL] = {"bool", 8, false, false, false, false},
    [TD_STRING] = {"string", 8 * sizeof(td_string), false, false, false, false},
    [TD_F8E4M3FN] = {"f8e4m3fn", 8, true, false, true, true},
    [TD_F8E4M3FNUZ] = {"f8e4m3fnuz", 8, true, false, true, true},
    [TD_F8E5M2] = {"f8e5m2", 8, true, false, true, true},
    [TD_F8E5M2FNUZ] = {"f8e5m2fnuz", 8, true, false, true, true},
    [TD_F8E8M0] = {"f8e8m0", 8, true, false, false, true},
    [TD_F4E2M1] = {"f4e2m1", 4, true, false, true, true},
    [TD_I4] = {"i4", 4, false, true, true, true},
    [TD_U4] = {"u4", 4, false, true, false, true},
    [TD_I2] = {"i2", 2, false, true, true, true},
    [TD_U2] = {"u2", 2, false, true, false, true},
};

const base_dtype_info *base_dtype(td_dtype dtype) {
  return &dtypes[(unsigned)dtype < TD_DTYPE_COUNT ? dtype : TD_INVALID];
}

const char *td_dtype_name(td_dtype dtype) { return base_dtype(dtype)->name; }

td_dtype base_dtype_from_name(base_str name) {
  static const struct {
    const char *name;
    td_dtype dtype;
  } more[] = {{"float64", TD_F64}, {"double", TD_F64},    {"float32", TD_F32}, {"float", TD_F32},  {"float16", TD_F16},
              {"half", TD_F16},    {"bfloat16", TD_BF16}, {"int64", TD_I64},   {"int32", TD_I32},  {"int16", TD_I16},
              {"int8", TD_I8},     {"uint64", TD_U64},    {"uint32", TD_U32},  {"uint16", TD_U16}, {"uint8", TD_U8}};
  for (int i = 1; i < TD_DTYPE_COUNT; i++)
    if (base_str_is(name, dtypes[i].name)) return (td_dtype)i;
  for (size_t i = 0; i < sizeof more / sizeof *more; i++)
    if (base_str_is(name, more[i].name)) return more[i].dtype;
  return TD_INVALID;
}

bool base_dtype_bytes(td_dtype dtype, int64_t count, size_t *bytes) {
  size_t bits = base_dtype(dtype)->bits;
  if (count < 0 || bits == 0) return false;
  if (bits >= 8) return !__builtin_mul_overflow((size_t)count, bits / 8, bytes);
  size_t per_byte = 8 / bits;
  *bytes = ((size_t)count + per_byte - 1) / per_byte;
  return true;
}

/* ---- 16-bit floats ---- */

static uint32_t f32_bits(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

static float f32_of(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

float base_f16_to_f32(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u, mantissa = bits & 0x3ffu;
  if (exponent == 31) return f32_of(sign | 0x7f800000u | mantissa << 13);
  if (exponent) return f32_of(sign | (exponent + 112u) << 23 | mantissa << 13);
  float magnitude = (float)mantissa * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}

uint16_t base_f64_to_f16(double value) {
  uint16_t sign = signbit(value) ? 0x8000u : 0;
  double a = fabs(value);
  if (isnan(value)) return (uint16_t)(sign | 0x7e00u);
  if (a >= 65520.0) return (uint16_t)(sign | 0x7c00u);
  if (a < 0x1p-14)
    return (uint16_t)(sign | (uint16_t)nearbyint(a * 0x1p24)); /* may round up into the normals: same bits */
  int exponent;
  double fraction = frexp(a, &exponent);                      /* a = fraction * 2^exponent, fraction in [0.5, 1) */
  uint32_t mantissa = (uint32_t)nearbyint(fraction * 0x1p11); /* 1024..2048 */
  return (uint16_t)(sign |
                    (((uint32_t)(exponent + 13) << 10) + mantissa)); /* exponent field e+14, less the implied 1 */
}

/* Weights by the million: what is a normal number in f16 takes a few integer operations. */
uint16_t base_f32_to_f16(float value) {
  const uint32_t u = f32_bits(value), size = u & 0x7fffffffu, least = 0x38800000u /* 2^-14 */, most = 0x477ff000u;
  if (size < least || size >= most) return base_f64_to_f16((double)value); /* 65,520 and more are infinite */
  const uint32_t rounded = size + 0xfffu + (size >> 13 & 1u);
  return (uint16_t)((u >> 16 & 0x8000u) | ((rounded >> 13) - (112u << 10)));
}

uint16_t base_f32_to_bf16(float value) {
  uint32_t u = f32_bits(value);
  if (value != value) return (uint16_t)((u >> 16) | 0x40u);
  return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

/* Rounds to odd in f32 first, so that the second rounding sees every lost bit. */
uint16_t base_f64_to_bf16(double value) {
  float f = (float)value;
  if (isnan(value) || isinf(value) || (double)f == value) return base_f32_to_bf16(f);
  uint32_t u = f32_bits(f);
  bool rounded_away = fabs((double)f) > fabs(value);
  if (rounded_away) u--;
  return base_f32_to_bf16(f32_of(u | 1u));
}

/* ---- floats of 8 bits and fewer ---- */

typedef struct small_float {
  int mantissa_bits, bias;
  uint8_t sign_bit;   /* 0: unsigned */
  uint8_t largest;    /* bits of the largest finite value */
  uint8_t infinity;   /* bits, or 0: none */
  uint8_t nan;        /* bits, or 0: none */
  bool unsigned_zero; /* negative zero's pattern is NaN */
} small_float;

static const small_float *small_format(td_dtype dtype) {
  static const small_float formats[] = {
      [0] = /* TD_F8E4M3FN */ {3, 7, 0x80, 0x7e, 0, 0x7f, false},
      [TD_F8E4M3FNUZ - TD_F8E4M3FN] = {3, 8, 0x80, 0x7f, 0, 0x80, true},
      [TD_F8E5M2 - TD_F8E4M3FN] = {2, 15, 0x80, 0x7b, 0x7c, 0x7f, false},
      [TD_F8E5M2FNUZ - TD_F8E4M3FN] = {2, 16, 0x80, 0x7f, 0, 0x80, true},
      [TD_F8E8M0 - TD_F8E4M3FN] = {0, 127, 0, 0xfe, 0, 0xff, false},
      [TD_F4E2M1 - TD_F8E4M3FN] = {1, 1, 0x8, 0x7, 0, 0, false},
  };
  return &formats[dtype - TD_F8E4M3FN];
}

double base_small_to_f64(td_dtype dtype, uint8_t bits) {
  const small_float *f = small_format(dtype);
  if (dtype == TD_F8E8M0) return bits == f->nan ? (double)NAN : ldexp(1.0, bits - f->bias);
  uint8_t magnitude = (uint8_t)(bits & (f->sign_bit - 1));
  bool negative = bits & f->sign_bit;
  if (f->unsigned_zero ? bits == f->nan : f->nan && magnitude > (f->infinity ? f->infinity : f->largest))
    return (double)NAN;
  if (f->infinity && magnitude == f->infinity) return negative ? -(double)INFINITY : (double)INFINITY;
  int exponent = magnitude >> f->mantissa_bits, mantissa = magnitude & ((1 << f->mantissa_bits) - 1);
  double value = exponent ? ldexp((1 << f->mantissa_bits) + mantissa, exponent - f->bias - f->mantissa_bits)
                          : ldexp(mantissa, 1 - f->bias - f->mantissa_bits);
  return negative ? -value : value;
}

static uint8_t e8m0_encode(double value, bool saturate) {
  if (isnan(value)) return 0xff;
  double a = fabs(value);
  if (isinf(a)) return saturate ? 0xfe : 0xff;
  if (a == 0) return 0;
  int exponent;
  double fraction = frexp(a, &exponent); /* [0.5, 1): the power below is exponent - 1 */
  int code = exponent - 1 + 127 + (fraction >= 0.75);
  if (code < 0) return 0;
  return (uint8_t)(code > 0xfe ? (saturate ? 0xfe : 0xff) : code);
}

uint8_t base_f64_to_small(td_dtype dtype, double value, bool saturate) {
  const small_float *f = small_format(dtype);
  if (dtype == TD_F8E8M0) return e8m0_encode(value, saturate);
  uint8_t sign = signbit(value) ? f->sign_bit : 0;
  if (isnan(value)) return f->nan ? (uint8_t)(f->unsigned_zero ? f->nan : (sign | f->nan)) : f->largest;
  double a = fabs(value);
  uint32_t code = UINT32_MAX;
  if (!isinf(a)) {
    int exponent = 0;
    frexp(a, &exponent);
    int power =
        exponent - 1 < 1 - f->bias ? 1 - f->bias : exponent - 1; /* of the leading bit; subnormals share the least */
    double scaled = nearbyint(ldexp(a, f->mantissa_bits - power));
    if (power + f->bias < 64) code = ((uint32_t)(power + f->bias - 1) << f->mantissa_bits) + (uint32_t)scaled;
    if (a == 0) code = 0;
  }
  if (code > f->largest) {
    if (saturate || !f->nan) code = f->largest;
    else return f->unsigned_zero ? f->nan : (uint8_t)(sign | (f->infinity ? f->infinity : f->nan));
  }
  if (code == 0 && f->unsigned_zero) sign = 0;
  return (uint8_t)(sign | code);
}

/* ---- single elements ---- */

static uint8_t packed_get(const void *data, int64_t index, unsigned bits) {
  unsigned per_byte = 8 / bits;
  uint8_t byte = ((const uint8_t *)data)[index / per_byte];
  return (uint8_t)((unsigned)byte >> ((unsigned)(index % per_byte) * bits) & ((1u << bits) - 1));
}

static void packed_set(void *data, int64_t index, unsigned bits, uint8_t value) {
  unsigned per_byte = 8 / bits, shift = (unsigned)(index % per_byte) * bits, mask = ((1u << bits) - 1) << shift;
  uint8_t *byte = &((uint8_t *)data)[index / per_byte];
  *byte = (uint8_t)((*byte & ~mask) | ((unsigned)value << shift & mask));
}

static int64_t sign_extend(uint8_t value, unsigned bits) {
  return (int64_t)((value ^ (1u << (bits - 1)))) - (1 << (bits - 1));
}

static int64_t f64_to_i64(double v) {
  if (isnan(v)) return 0;
  if (v >= 0x1p63) return INT64_MAX;
  return v <= -0x1p63 ? INT64_MIN : (int64_t)v;
}

static uint64_t f64_to_u64(double v) {
  if (!(v > -1)) return v < 0 ? (uint64_t)f64_to_i64(v) : 0;
  return v >= 0x1p64 ? UINT64_MAX : (uint64_t)v;
}

/* A double that every type narrower than f64 rounds to as it would round `magnitude` itself: above 2^53 the low bits
 * are folded into one that only says whether anything was there. */
static double f64_for_rounding(uint64_t magnitude) {
  if (magnitude >> 53 == 0) return (double)magnitude;
  return (double)((magnitude & ~UINT64_C(0xfff)) | (magnitude & 0xfff ? 0x800 : 0));
}

static double signed_for_rounding(int64_t v) {
  return v < 0 ? -f64_for_rounding(-(uint64_t)v) : f64_for_rounding((uint64_t)v);
}

/* One row per type: how an element is read and written as f64 and as i64. */
typedef struct element {
  double (*get_f)(const void *, int64_t);
  int64_t (*get_i)(const void *, int64_t);
  void (*set_f)(void *, int64_t, double);
  void (*set_i)(void *, int64_t, int64_t);
} element;

#define PLAIN(NAME, T, TO_I, FROM_F)                                                         \
  static double get_f_##NAME(const void *d, int64_t i) { return (double)((const T *)d)[i]; } \
  static int64_t get_i_##NAME(const void *d, int64_t i) { return TO_I(((const T *)d)[i]); }  \
  static void set_f_##NAME(void *d, int64_t i, double v) { ((T *)d)[i] = (T)FROM_F(v); }     \
  static void set_i_##NAME(void *d, int64_t i, int64_t v) { ((T *)d)[i] = (T)v; }
#define AS_I64(v) ((int64_t)(v))
#define SAME(v) (v)
PLAIN(f64, base_f64, f64_to_i64, SAME)
PLAIN(f32, base_f32, f64_to_i64, SAME)
PLAIN(i64, base_i64, AS_I64, f64_to_i64)
PLAIN(i32, base_i32, AS_I64, f64_to_i64)
PLAIN(i16, base_i16, AS_I64, f64_to_i64)
PLAIN(i8, int8_t, AS_I64, f64_to_i64)
PLAIN(u64, base_u64, AS_I64, f64_to_u64)
PLAIN(u32, base_u32, AS_I64, f64_to_i64)
PLAIN(u16, base_u16, AS_I64, f64_to_i64)
PLAIN(u8, uint8_t, AS_I64, f64_to_i64)
#undef PLAIN

#define CODED(NAME, GET, SET)                                                                      \
  static double get_f_##NAME(const void *d, int64_t i) { return GET; }                             \
  static int64_t get_i_##NAME(const void *d, int64_t i) { return f64_to_i64(get_f_##NAME(d, i)); } \
  static void set_f_##NAME(void *d, int64_t i, double v) { SET; }                                  \
  static void set_i_##NAME(void *d, int64_t i, int64_t v) { set_f_##NAME(d, i, signed_for_rounding(v)); }
CODED(f16, (double)base_f16_to_f32(((const base_u16 *)d)[i]), ((base_u16 *)d)[i] = base_f64_to_f16(v))
CODED(bf16, (double)base_bf16_to_f32(((const base_u16 *)d)[i]), ((base_u16 *)d)[i] = base_f64_to_bf16(v))
#define SMALL(NAME, TYPE) \
  CODED(NAME, base_small_to_f64(TYPE, ((const uint8_t *)d)[i]), ((uint8_t *)d)[i] = base_f64_to_small(TYPE, v, false))
SMALL(e4m3fn, TD_F8E4M3FN)
SMALL(e4m3fnuz, TD_F8E4M3FNUZ)
SMALL(e5m2, TD_F8E5M2)
SMALL(e5m2fnuz, TD_F8E5M2FNUZ)
SMALL(e8m0, TD_F8E8M0)
#undef SMALL
CODED(e2m1, base_small_to_f64(TD_F4E2M1, packed_get(d, i, 4)),
      packed_set(d, i, 4, base_f64_to_small(TD_F4E2M1, v, true)))
#undef CODED

#define PACKED(NAME, GET, BITS)                                                                   \
  static int64_t get_i_##NAME(const void *d, int64_t i) { return GET; }                           \
  static double get_f_##NAME(const void *d, int64_t i) { return (double)get_i_##NAME(d, i); }     \
  static void set_i_##NAME(void *d, int64_t i, int64_t v) { packed_set(d, i, BITS, (uint8_t)v); } \
  static void set_f_##NAME(void *d, int64_t i, double v) { set_i_##NAME(d, i, f64_to_i64(v)); }
PACKED(i4, sign_extend(packed_get(d, i, 4), 4), 4)
PACKED(u4, packed_get(d, i, 4), 4)
PACKED(i2, sign_extend(packed_get(d, i, 2), 2), 2)
PACKED(u2, packed_get(d, i, 2), 2)
#undef PACKED

static double get_f_bool(const void *d, int64_t i) { return ((const uint8_t *)d)[i] != 0; }
static int64_t get_i_bool(const void *d, int64_t i) { return ((const uint8_t *)d)[i] != 0; }
static void set_f_bool(void *d, int64_t i, double v) { ((uint8_t *)d)[i] = v != 0; }
static void set_i_bool(void *d, int64_t i, int64_t v) { ((uint8_t *)d)[i] = v != 0; }

#define ROW(NAME) \
  { get_f_##NAME, get_i_##NAME, set_f_##NAME, set_i_##NAME }
static const element elements[TD_DTYPE_COUNT] = {[TD_F64] = ROW(f64),
                                                 [TD_F32] = ROW(f32),
                                                 [TD_F16] = ROW(f16),
                                                 [TD_BF16] = ROW(bf16),
                                                 [TD_I64] = ROW(i64),
                                                 [TD_I32] = ROW(i32),
                                                 [TD_I16] = ROW(i16),
                                                 [TD_I8] = ROW(i8),
                                                 [TD_U64] = ROW(u64),
                                                 [TD_U32] = ROW(u32),
                                                 [TD_U16] = ROW(u16),
                                                 [TD_U8] = ROW(u8),
                                                 [TD_BOOL] = ROW(bool),
                                                 [TD_F8E4M3FN] = ROW(e4m3fn),
                                                 [TD_F8E4M3FNUZ] = ROW(e4m3fnuz),
                                                 [TD_F8E5M2] = ROW(e5m2),
                                                 [TD_F8E5M2FNUZ] = ROW(e5m2fnuz),
                                                 [TD_F8E8M0] = ROW(e8m0),
                                                 [TD_F4E2M1] = ROW(e2m1),
                                                 [TD_I4] = ROW(i4),
                                                 [TD_U4] = ROW(u4),
                                                 [TD_I2] = ROW(i2),
                                                 [TD_U2] = ROW(u2)};
#undef ROW

double base_load_f64(td_dtype dtype, const void *data, int64_t index) { return elements[dtype].get_f(data, index); }
int64_t base_load_i64(td_dtype dtype, const void *data, int64_t index) { return elements[dtype].get_i(data, index); }
void base_store_f64(td_dtype dtype, void *data, int64_t index, double value) {
  elements[dtype].set_f(data, index, value);
}
void base_store_i64(td_dtype dtype, void *data, int64_t index, int64_t value) {
  elements[dtype].set_i(data, index, value);
}

/* Truncated, and limited to what the type holds. */
static void store_saturated(td_dtype dtype, void *data, int64_t index, double value) {
  const base_dtype_info *info = base_dtype(dtype);
  if (info->bits == 64) {
    elements[dtype].set_f(data, index, info->is_signed || value > 0 ? value : 0);
    return;
  }
  int64_t highest = (INT64_C(1) << (info->bits - info->is_signed)) - 1, lowest = info->is_signed ? -highest - 1 : 0;
  int64_t number = f64_to_i64(value);
  elements[dtype].set_i(data, index, number < lowest ? lowest : number > highest ? highest : number);
}

/* Between f32 and 16 bits, as weights are by the million: without the way over f64. */
#define DIRECT(NAME, TO, FROM)                                           \
  static void direct_##NAME(void *to, const void *from, int64_t count) { \
    TO *t = to;                                                          \
    const FROM *f = from;                                                \
    for (int64_t i = 0; i < count; i++) t[i] = base_##NAME(f[i]);        \
  }
DIRECT(f16_to_f32, base_f32, base_u16)
DIRECT(bf16_to_f32, base_f32, base_u16)
DIRECT(f32_to_f16, base_u16, base_f32)
DIRECT(f32_to_bf16, base_u16, base_f32)
#undef DIRECT

static const struct {
  td_dtype from, to;
  void (*run)(void *to, const void *from, int64_t count);
} direct[] = {{TD_F16, TD_F32, direct_f16_to_f32},
              {TD_BF16, TD_F32, direct_bf16_to_f32},
              {TD_F32, TD_F16, direct_f32_to_f16},
              {TD_F32, TD_BF16, direct_f32_to_bf16}};

void base_convert(td_dtype to_type, void *to, td_dtype from_type, const void *from, int64_t count, bool saturate) {
  const base_dtype_info *to_info = base_dtype(to_type), *from_info = base_dtype(from_type);
  if (to_type == from_type && to_info->bits >= 8) {
    if (count) memcpy(to, from, (size_t)count * (to_info->bits / 8));
    return;
  }
  for (size_t i = 0; i < sizeof direct / sizeof *direct; i++)
    if (direct[i].from == from_type && direct[i].to == to_type) {
      direct[i].run(to, from, count);
      return;
    }
  const element *get = &elements[from_type], *set = &elements[to_type];
  bool small = to_type >= TD_F8E4M3FN && to_type <= TD_F8E8M0;
  if (small)
    for (int64_t i = 0; i < count; i++) ((uint8_t *)to)[i] = base_f64_to_small(to_type, get->get_f(from, i), saturate);
  else if (from_info->is_float && to_info->is_int)
    for (int64_t i = 0; i < count; i++) store_saturated(to_type, to, i, get->get_f(from, i));
  else if (from_info->is_float || to_type == TD_BOOL || (from_type == TD_U64 && to_type == TD_F64))
    for (int64_t i = 0; i < count; i++) set->set_f(to, i, get->get_f(from, i));
  else if (from_type == TD_U64 && to_info->is_float)
    for (int64_t i = 0; i < count; i++) set->set_f(to, i, f64_for_rounding((uint64_t)get->get_i(from, i)));
  else
    for (int64_t i = 0; i < count; i++) set->set_i(to, i, get->get_i(from, i));
}
