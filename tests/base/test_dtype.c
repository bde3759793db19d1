/* Element types, against arithmetic written down independently: a narrow float is the list of its values, and the right
 * code for x is the nearest of them, the even code on a tie. */
#include "test.h"

#include <math.h>

#include "base/base.h"

/* The IEEE reading of `bits` with the given field widths; infinities and NaN are the caller's business. */
static double decode(unsigned bits, int exponent_bits, int mantissa_bits, int bias) {
  unsigned mantissa = bits & ((1u << mantissa_bits) - 1),
           exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1);
  double value = (double)mantissa / (double)(1u << mantissa_bits) + (exponent ? 1 : 0);
  int power = (exponent ? (int)exponent : 1) - bias;
  for (; power > 0; power--) value *= 2;
  for (; power < 0; power++) value /= 2;
  return bits >> (mantissa_bits + exponent_bits) & 1 ? -value : value;
}

static uint32_t f32_bits(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits;
}

static float f32_of(uint32_t bits) {
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static void f16_decodes(void **state) {
  (void)state;
  for (unsigned bits = 0; bits < 0x10000; bits++) {
    float got = base_f16_to_f32((uint16_t)bits);
    if ((bits & 0x7c00) != 0x7c00) {
      assert_true((double)got == decode(bits, 5, 10, 15));
      assert_int_equal(signbit(got) != 0, bits >> 15);
    } else if (bits & 0x3ff) assert_true(isnan(got));
    else assert_true(isinf(got) && (signbit(got) != 0) == bits >> 15);
  }
}

static void f16_comes_back(void **state) {
  (void)state;
  for (unsigned bits = 0; bits < 0x10000; bits++) {
    float value = base_f16_to_f32((uint16_t)bits);
    uint16_t back = base_f32_to_f16(value);
    if (isnan(value)) assert_true((back & 0x7c00) == 0x7c00 && (back & 0x3ff) != 0);
    else assert_int_equal(back, bits);
  }
}

/* Every value, every midpoint between neighbours, and the doubles next to it. 65520 is the midpoint to infinity. */
static void f16_rounds_to_even(void **state) {
  (void)state;
  for (unsigned bits = 0; bits < 0x7c00; bits++) {
    double low = decode(bits, 5, 10, 15), high = decode(bits + 1, 5, 10, 15), middle = (low + high) / 2;
    unsigned even = bits & 1 ? bits + 1 : bits;
    assert_int_equal(base_f64_to_f16(middle), even);
    assert_int_equal(base_f32_to_f16((float)middle), even);
    assert_int_equal(base_f64_to_f16(nextafter(middle, 0)), bits);
    assert_int_equal(base_f64_to_f16(nextafter(middle, INFINITY)), bits + 1);
    assert_int_equal(base_f32_to_f16(nextafterf((float)middle, 0)), bits);
    assert_int_equal(base_f32_to_f16(nextafterf(-(float)middle, -INFINITY)), (bits + 1) | 0x8000);
    assert_int_equal(base_f64_to_f16(-middle), even | 0x8000);
  }
  assert_int_equal(base_f64_to_f16(1e300), 0x7c00);
  assert_int_equal(base_f64_to_f16((double)-INFINITY), 0xfc00);
  assert_int_equal(base_f64_to_f16(5e-324), 0);
  assert_int_equal(base_f64_to_f16(-0.0), 0x8000);
}

static void bf16_comes_back(void **state) {
  (void)state;
  for (unsigned bits = 0; bits < 0x10000; bits++) {
    float value = base_bf16_to_f32((uint16_t)bits);
    assert_int_equal(f32_bits(value), bits << 16);
    uint16_t back = base_f32_to_bf16(value), back_from_f64 = base_f64_to_bf16((double)value);
    if (isnan(value)) {
      assert_true(isnan(base_bf16_to_f32(back)) && isnan(base_bf16_to_f32(back_from_f64)));
    } else {
      assert_int_equal(back, bits);
      assert_int_equal(back_from_f64, bits);
    }
  }
  assert_true(isnan(base_bf16_to_f32(base_f32_to_bf16(f32_of(0x7f800001))))); /* a NaN that only low bits tell */
}

static void bf16_rounds_to_even(void **state) {
  (void)state;
  for (unsigned bits = 0; bits < 0x7f80; bits++) {
    float middle = f32_of(bits << 16 | 0x8000);
    unsigned even = bits & 1 ? bits + 1 : bits;
    assert_int_equal(base_f32_to_bf16(middle), even);
    assert_int_equal(base_f32_to_bf16(f32_of(f32_bits(middle) - 1)), bits);
    assert_int_equal(base_f32_to_bf16(f32_of(f32_bits(middle) + 1)), bits + 1);
    assert_int_equal(base_f64_to_bf16((double)middle), even);
    /* a first rounding to f32 would land on the tie */
    assert_int_equal(base_f64_to_bf16(nextafter((double)middle, 0)), bits);
    assert_int_equal(base_f64_to_bf16(nextafter((double)middle, INFINITY)), bits + 1);
    assert_int_equal(base_f64_to_bf16(-nextafter((double)middle, INFINITY)), (bits + 1) | 0x8000);
  }
  assert_int_equal(base_f64_to_bf16(1e300), 0x7f80);
}

typedef struct small_case {
  td_dtype dtype;
  int exponent_bits, mantissa_bits, bias;
  unsigned largest; /* code of the largest finite value */
  double value;     /* and that value, from the definition of the format */
  bool has_infinity, zero_is_unsigned, has_nan;
} small_case;

static const small_case small_cases[] = {
    {TD_F8E4M3FN, 4, 3, 7, 0x7e, 448, false, false, true}, {TD_F8E4M3FNUZ, 4, 3, 8, 0x7f, 240, false, true, true},
    {TD_F8E5M2, 5, 2, 15, 0x7b, 57344, true, false, true}, {TD_F8E5M2FNUZ, 5, 2, 16, 0x7f, 57344, false, true, true},
    {TD_F4E2M1, 2, 1, 1, 0x7, 6, false, false, false},
};
enum { SMALL_CASES = sizeof small_cases / sizeof *small_cases };

static void small_floats_decode_and_come_back(void **state) {
  (void)state;
  for (int k = 0; k < SMALL_CASES; k++) {
    const small_case *c = &small_cases[k];
    unsigned sign = 1u << (c->exponent_bits + c->mantissa_bits);
    assert_true(base_small_to_f64(c->dtype, (uint8_t)c->largest) == c->value);
    for (unsigned bits = 0; bits < 2 * sign; bits++) {
      double got = base_small_to_f64(c->dtype, (uint8_t)bits);
      unsigned magnitude = bits & (sign - 1);
      bool finite = magnitude <= c->largest && !(c->zero_is_unsigned && bits == sign);
      if (finite) {
        assert_true(got == decode(bits, c->exponent_bits, c->mantissa_bits, c->bias));
        assert_int_equal(base_f64_to_small(c->dtype, got, false), bits);
        assert_int_equal(base_f64_to_small(c->dtype, got, true), bits);
      } else if (c->has_infinity && magnitude == c->largest + 1) {
        assert_true(isinf(got) && (got < 0) == (bits != magnitude));
        assert_int_equal(base_f64_to_small(c->dtype, got, false), bits);
      } else {
        assert_true(isnan(got));
        assert_true(isnan(base_small_to_f64(c->dtype, base_f64_to_small(c->dtype, got, true))));
      }
    }
  }
}

static void small_floats_round_to_even(void **state) {
  (void)state;
  for (int k = 0; k < SMALL_CASES; k++) {
    const small_case *c = &small_cases[k];
    unsigned sign = 1u << (c->exponent_bits + c->mantissa_bits);
    for (unsigned bits = 0; bits < c->largest; bits++) {
      double low = decode(bits, c->exponent_bits, c->mantissa_bits, c->bias);
      double middle = (low + decode(bits + 1, c->exponent_bits, c->mantissa_bits, c->bias)) / 2;
      unsigned even = bits & 1 ? bits + 1 : bits;
      assert_int_equal(base_f64_to_small(c->dtype, middle, true), even);
      assert_int_equal(base_f64_to_small(c->dtype, nextafter(middle, 0), true), bits);
      assert_int_equal(base_f64_to_small(c->dtype, nextafter(middle, INFINITY), true), bits + 1);
      unsigned negative = even == 0 && c->zero_is_unsigned ? 0 : even | sign;
      assert_int_equal(base_f64_to_small(c->dtype, -middle, true), negative);
    }
  }
}

/* ONNX Cast-19: saturating gives the largest value; without, infinity where there is one, else NaN. */
static void small_floats_overflow(void **state) {
  (void)state;
  const double beyond[] = {1e6, 1e300, (double)INFINITY};
  for (int k = 0; k < SMALL_CASES; k++) {
    const small_case *c = &small_cases[k];
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
      for (int negative = 0; negative < 2; negative++) {
        double x = negative ? -beyond[i] : beyond[i], largest = negative ? -c->value : c->value;
        assert_true(base_small_to_f64(c->dtype, base_f64_to_small(c->dtype, x, true)) == largest);
        double kept = base_small_to_f64(c->dtype, base_f64_to_small(c->dtype, x, false));
        if (c->has_infinity) assert_true(isinf(kept) && (kept < 0) == negative);
        else if (c->has_nan) assert_true(isnan(kept));
        else assert_true(kept == largest);
      }
    }
  }
  assert_int_equal(base_f64_to_small(TD_F8E4M3FNUZ, -0.0, true), 0);
  assert_int_equal(base_f64_to_small(TD_F8E4M3FN, -0.0, true), 0x80);
}

static void e8m0_is_powers_of_two(void **state) {
  (void)state;
  for (unsigned bits = 0; bits < 255; bits++) {
    double value = base_small_to_f64(TD_F8E8M0, (uint8_t)bits);
    assert_true(value == exp2((int)bits - 127));
    assert_int_equal(base_f64_to_small(TD_F8E8M0, value, true), bits);
    if (bits < 254) {
      assert_int_equal(base_f64_to_small(TD_F8E8M0, 1.49 * value, true), bits);
      assert_int_equal(base_f64_to_small(TD_F8E8M0, 1.51 * value, true), bits + 1);
    }
  }
  assert_true(isnan(base_small_to_f64(TD_F8E8M0, 0xff)));
  assert_int_equal(base_f64_to_small(TD_F8E8M0, (double)NAN, true), 0xff);
  assert_int_equal(base_f64_to_small(TD_F8E8M0, 1e300, true), 0xfe);
  assert_int_equal(base_f64_to_small(TD_F8E8M0, 1e300, false), 0xff);
}

static void packed_elements_keep_neighbours(void **state) {
  (void)state;
  const struct {
    td_dtype dtype;
    int64_t lowest, highest;
  } types[] = {{TD_I4, -8, 7}, {TD_U4, 0, 15}, {TD_I2, -2, 1}, {TD_U2, 0, 3}};
  for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
    for (int64_t value = types[k].lowest; value <= types[k].highest; value++) {
      for (int64_t at = 0; at < 7; at++) {
        unsigned char bytes[4] = {0x5a, 0xa5, 0x3c, 0xc3};
        int64_t before[7];
        for (int64_t i = 0; i < 7; i++) before[i] = base_load_i64(types[k].dtype, bytes, i);
        base_store_i64(types[k].dtype, bytes, at, value);
        for (int64_t i = 0; i < 7; i++)
          assert_int_equal(base_load_i64(types[k].dtype, bytes, i), i == at ? value : before[i]);
        assert_true(base_load_f64(types[k].dtype, bytes, at) == (double)value);
      }
    }
  }
  unsigned char low_first = 0;
  base_store_i64(TD_U4, &low_first, 0, 0x3);
  base_store_i64(TD_U4, &low_first, 1, 0xc);
  assert_int_equal(low_first, 0xc3);
}

static void sizes_of_elements(void **state) {
  (void)state;
  const struct {
    td_dtype dtype;
    int64_t count;
    size_t bytes;
  } cases[] = {{TD_F64, 3, 24}, {TD_F16, 3, 6}, {TD_BOOL, 3, 3},   {TD_I4, 3, 2},
               {TD_U2, 5, 2},   {TD_U2, 4, 1},  {TD_F4E2M1, 0, 0}, {TD_STRING, 2, 2 * sizeof(td_string)}};
  size_t bytes;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_true(base_dtype_bytes(cases[i].dtype, cases[i].count, &bytes));
    assert_int_equal(bytes, cases[i].bytes);
  }
  assert_false(base_dtype_bytes(TD_F64, INT64_MAX, &bytes));
  assert_false(base_dtype_bytes(TD_F32, -1, &bytes));
  assert_false(base_dtype_bytes(TD_INVALID, 1, &bytes));
  assert_true(base_dtype_bytes(TD_I4, INT64_MAX, &bytes));
  assert_int_equal(bytes, (size_t)INT64_MAX / 2 + 1);
}

static void names_are_found(void **state) {
  (void)state;
  for (int d = 1; d < TD_DTYPE_COUNT; d++) {
    assert_int_equal(base_dtype_from_name(base_str_of(td_dtype_name((td_dtype)d))), d);
    assert_int_equal(base_is_float((td_dtype)d) && base_is_int((td_dtype)d), 0);
  }
  assert_int_equal(base_dtype_from_name(BASE_STR("float32")), TD_F32);
  assert_int_equal(base_dtype_from_name(BASE_STR("f33")), TD_INVALID);
  assert_string_equal(td_dtype_name((td_dtype)1000), "invalid");
  assert_string_equal(td_dtype_name((td_dtype)-1), "invalid");
}

static void convert_one(td_dtype to_type, void *to, td_dtype from_type, const void *from) {
  base_convert(to_type, to, from_type, from, 1, true);
}

static void floats_become_integers(void **state) {
  (void)state;
  const struct {
    double from;
    td_dtype to;
    int64_t want;
  } cases[] = {{1.9, TD_I32, 1},
               {-1.9, TD_I32, -1},
               {1e10, TD_I32, INT32_MAX},
               {-1e10, TD_I32, INT32_MIN},
               {300, TD_U8, 255},
               {-3, TD_U8, 0},
               {-0.9, TD_U8, 0},
               {127.5, TD_I8, 127},
               {-129, TD_I8, -128},
               {1e300, TD_I64, INT64_MAX},
               {-1e300, TD_I64, INT64_MIN},
               {-9, TD_I4, -8},
               {99, TD_U4, 15},
               {70000, TD_U16, 65535},
               {-1, TD_U32, 0},
               {5e9, TD_U32, UINT32_MAX},
               {(double)NAN, TD_I32, 0},
               {(double)NAN, TD_U64, 0},
               {(double)NAN, TD_BOOL, 1},
               {0.3, TD_BOOL, 1},
               {-0.0, TD_BOOL, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint64_t to = 0;
    convert_one(cases[i].to, &to, TD_F64, &cases[i].from);
    assert_int_equal(base_load_i64(cases[i].to, &to, 0), cases[i].want);
  }
  uint64_t large = 0;
  double past = 1e30;
  convert_one(TD_U64, &large, TD_F64, &past);
  assert_true(large == UINT64_MAX);
  past = -5;
  convert_one(TD_U64, &large, TD_F64, &past);
  assert_true(large == 0);
}

/* Numbers that a detour over f64 would round twice. */
static void wide_integers_round_once(void **state) {
  (void)state;
  int64_t number = (INT64_C(1) << 60) + (INT64_C(1) << 36) + 1; /* just above the tie between two floats */
  float f;
  convert_one(TD_F32, &f, TD_I64, &number);
  assert_true(f == 0x1.000002p60f);
  number = -number;
  convert_one(TD_F32, &f, TD_I64, &number);
  assert_true(f == -0x1.000002p60f);
  number = (INT64_C(1) << 60) + (INT64_C(1) << 52) + 1; /* the same for bf16 */
  uint16_t half;
  convert_one(TD_BF16, &half, TD_I64, &number);
  assert_true(base_bf16_to_f32(half) == 0x1.02p60f);
  base_store_i64(TD_BF16, &half, 0, -number);
  assert_true(base_bf16_to_f32(half) == -0x1.02p60f);
  uint64_t large = (UINT64_C(1) << 63) + (UINT64_C(1) << 39) + 1;
  convert_one(TD_F32, &f, TD_U64, &large);
  assert_true(f == 0x1.000002p63f);
  double d;
  large = UINT64_MAX;
  convert_one(TD_F64, &d, TD_U64, &large);
  assert_true(d == 0x1p64);
  number = INT64_MIN;
  convert_one(TD_F32, &f, TD_I64, &number);
  assert_true(f == -0x1p63f);
}

static void integers_wrap(void **state) {
  (void)state;
  const struct {
    int64_t from;
    td_dtype to;
    int64_t want;
  } cases[] = {{300, TD_U8, 44}, {-1, TD_U8, 255}, {200, TD_I8, -56},
               {17, TD_U4, 1},   {9, TD_I4, -7},   {256, TD_BOOL, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint64_t to = 0;
    convert_one(cases[i].to, &to, TD_I64, &cases[i].from);
    assert_int_equal(base_load_i64(cases[i].to, &to, 0), cases[i].want);
  }
}

static void unaligned_data_is_read(void **state) {
  (void)state;
  unsigned char bytes[1 + 3 * sizeof(double)];
  for (int d = TD_F64; d <= TD_BOOL; d++) {
    for (int64_t i = 0; i < 3; i++) base_store_f64((td_dtype)d, bytes + 1, i, (double)(i % 2));
    for (int64_t i = 0; i < 3; i++) assert_true(base_load_f64((td_dtype)d, bytes + 1, i) == (double)(i % 2));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(f16_decodes),
      cmocka_unit_test(f16_comes_back),
      cmocka_unit_test(f16_rounds_to_even),
      cmocka_unit_test(bf16_comes_back),
      cmocka_unit_test(bf16_rounds_to_even),
      cmocka_unit_test(small_floats_decode_and_come_back),
      cmocka_unit_test(small_floats_round_to_even),
      cmocka_unit_test(small_floats_overflow),
      cmocka_unit_test(e8m0_is_powers_of_two),
      cmocka_unit_test(packed_elements_keep_neighbours),
      cmocka_unit_test(sizes_of_elements),
      cmocka_unit_test(names_are_found),
      cmocka_unit_test(floats_become_integers),
      cmocka_unit_test(wide_integers_round_once),
      cmocka_unit_test(integers_wrap),
      cmocka_unit_test(unaligned_data_is_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
