/* test_rounds.c -- loops of f16 and bf16 round where operators do: between two of them a value has the digits of its
 * type, so that each rung gives the bits of `eager`. Functions that are within some ULP of f32 may, once in many
 * elements, fall on the other side of a tie. What cannot overflow keeps its f32 digits instead (passes/widen.c), all of
 * bf16 too: that is within a unit. */
#include "passes/change.h"

#include <stdio.h>

static const char *const exact_unary[] = {"abs",  "ceil", "floor",      "neg",   "relu",  "round",
                                          "sign", "sqrt", "reciprocal", "trunc", "square"};
static const char *const near_unary[] = {"elu",  "exp",      "expm1", "log",  "log1p", "log2",      "log10",
                                         "mish", "softplus", "rsqrt", "atan", "asin",  "acos",      "sinh",
                                         "cosh", "asinh",    "acosh", "tan",  "atanh", "leaky_relu"};
static const char *const bounded_unary[] = {"cos", "erf", "gelu", "hardswish", "sigmoid", "silu", "sin", "tanh"};
static const char *const exact_binary[] = {"add", "sub", "mul", "div", "maximum", "minimum"};
static const char *const near_binary[] = {"pow", "atan2", "fmod", "remainder"};
static const char *const rungs[] = {"aot_eager", "interp", "native"};
static const char *const types[] = {"f16", "bf16"};
enum { RUNGS = 3, TYPES = 2, ALL = 3 * 67 };
#define COUNT(list) (sizeof(list) / sizeof *(list))

static bool same_bits(double x, double y) { return (isnan(x) && isnan(y)) || (x == y && !signbit(x) == !signbit(y)); }

/* Is it a number that the type has? */
static bool has_digits(const char *type, double x) {
  const bool bf16 = type[0] == 'b';
  return isnan(x) || x == (bf16 ? base_bf16_to_f32(base_f64_to_bf16(x)) : base_f16_to_f32(base_f64_to_f16(x)));
}

/* `many`: elements that may differ, by one unit of the type. */
static void expect_bits(const base_tensor *want, const base_tensor *got, const char *type, int64_t many,
                        const char *what) {
  const bool bf16 = type[0] == 'b';
  const double unit = bf16 ? 0x1p-7 : 0x1p-10, least = bf16 ? 1 : 0x1p-14; /* numbers near 1 are subtracted */
  int64_t differ = 0;
  for (int64_t i = 0; i < base_tensor_numel(want); i++) {
    const double x = base_load_f64(want->dtype, want->data, i), y = base_load_f64(got->dtype, got->data, i);
    if (!has_digits(type, y)) fail_msg("element %lld: %.9g has more digits than %s:\n%s", (long long)i, y, type, what);
    if (same_bits(x, y)) continue;
    differ++;
    if (many && fabs(x - y) <= unit * fmax(fabs(x), least)) continue;
    fail_msg("element %lld: %.9g, not %.9g:\n%s", (long long)i, y, x, what);
  }
  if (differ > many) fail_msg("%lld elements differ:\n%s", (long long)differ, what);
}

/* `steps` on x and y of a short type make %9 of it. */
static void expect_rounded(const char *steps, const char *type, int64_t many) {
  char text[1024], what[1200];
  rig plain, fast;
  const int n = snprintf(text, sizeof text,
                         "input %%0 \"x\": %s[3, 67]\ninput %%1 \"y\": %s[3, 67]\n%s"
                         "output \"z\" %%9\n",
                         type, type, steps);
  assert_true(n > 0 && (size_t)n < sizeof text);
  rig_open(&plain, text, "eager");
  if (!try_numbers(&plain, NULL)) fail_msg("%s:\n%s", plain.err.text, text);
  for (size_t i = 0; i < RUNGS; i++) {
    rig_open(&fast, text, rungs[i]);
    if (!try_numbers(&fast, NULL)) fail_msg("%s:\n%s", fast.err.text, text);
    (void)snprintf(what, sizeof what, "%s:\n%s", rungs[i], text);
    expect_bits(rig_output(&plain, 0), rig_output(&fast, 0), type, many, what);
    rig_close(&fast);
  }
  rig_close(&plain);
}

static void expect_all(const char *steps, int64_t many) {
  expect_rounded(steps, "f16", many);
  expect_rounded(steps, "bf16", ALL);
}

/* A number by a tensor, as PyTorch computes it: the reciprocal is rounded, then the product. */
static void number_by_tensor(void **state) {
  (void)state;
  for (size_t t = 0; t < TYPES; t++) {
    char steps[512];
    (void)snprintf(steps, sizeof steps,
                   "const %%2: f32[] = {3.2999999523162842}\n%%3 = aten::reciprocal(%%0)\n"
                   "%%4 = aten::_to_copy(%%3) {dtype = f32}\n%%5 = aten::mul(%%4, %%2)\n"
                   "%%9 = aten::_to_copy(%%5) {dtype = %s}\n",
                   types[t]);
    expect_rounded(steps, types[t], t ? ALL : 0);
  }
}

/* x log(y), 0 where x is 0. */
static void product_of_logarithm(void **state) {
  (void)state;
  expect_all("%2 = aten::log(%1)\n%3 = aten::mul(%0, %2)\n%4 = aten::isnan(%1)\n%9 = aten::where(%4, %0, %3)\n", 2);
}

static void one_operand(const char *const *names, size_t count, int64_t many) {
  for (size_t i = 0; i < count; i++) {
    char steps[256];
    (void)snprintf(steps, sizeof steps, "%%9 = aten::%s(%%0)\n", names[i]);
    expect_all(steps, many);
    (void)snprintf(steps, sizeof steps, "%%3 = aten::%s(%%0)\n%%9 = aten::mul(%%3, %%1)\n", names[i]);
    expect_all(steps, many);
  }
}

static void unary(void **state) {
  (void)state;
  one_operand(exact_unary, COUNT(exact_unary), 0);
  one_operand(near_unary, COUNT(near_unary), 4);
  one_operand(bounded_unary, COUNT(bounded_unary), ALL);
}

static void two_operands(const char *const *names, size_t count, int64_t many) {
  for (size_t i = 0; i < count; i++) {
    char steps[256];
    (void)snprintf(steps, sizeof steps, "%%3 = aten::%s(%%0, %%1)\n%%9 = aten::abs(%%3)\n", names[i]);
    expect_all(steps, many);
    (void)snprintf(steps, sizeof steps, "%%3 = aten::%s(%%0, %%1)\n%%9 = aten::sub(%%3, %%0)\n", names[i]);
    expect_all(steps, many);
  }
}

static void binary(void **state) {
  (void)state;
  two_operands(exact_binary, COUNT(exact_binary), 0);
  two_operands(near_binary, COUNT(near_binary), 4);
}

/* What is reduced, and what is made of that, is rounded, too; the order of sums may move a digit. */
static void along_rows(void **state) {
  (void)state;
  static const char *const rows[] = {"sum", "mean", "amax", "amin"};
  for (size_t i = 0; i < COUNT(rows); i++) {
    char steps[256];
    (void)snprintf(steps, sizeof steps,
                   "const %%2: i64[1] = {1}\n%%3 = aten::mul(%%0, %%1)\n%%4 = aten::%s(%%3, %%2) {keepdim = true}\n"
                   "%%9 = aten::maximum(%%3, %%4)\n",
                   rows[i]);
    expect_all(steps, i < 2 ? ALL : 0);
  }
  expect_all("%3 = aten::add(%0, %1)\n%9 = aten::_softmax(%3) {dim = 1}\n", 8);
}

/* A cast is a rounding wherever it stands. */
static void casts(void **state) {
  (void)state;
  for (size_t t = 0; t < TYPES; t++) {
    char steps[512];
    (void)snprintf(steps, sizeof steps,
                   "%%2 = aten::_to_copy(%%0) {dtype = f32}\n%%3 = aten::_to_copy(%%1) {dtype = f32}\n"
                   "%%4 = aten::mul(%%2, %%3)\n%%5 = aten::_to_copy(%%4) {dtype = %s}\n"
                   "%%6 = aten::_to_copy(%%5) {dtype = f32}\n%%7 = aten::sub(%%6, %%4)\n"
                   "%%8 = aten::add(%%7, %%6)\n%%9 = aten::_to_copy(%%8) {dtype = %s}\n",
                   types[t], types[t]);
    expect_rounded(steps, types[t], 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(number_by_tensor), cmocka_unit_test(product_of_logarithm), cmocka_unit_test(unary),
      cmocka_unit_test(binary),           cmocka_unit_test(along_rows),           cmocka_unit_test(casts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
