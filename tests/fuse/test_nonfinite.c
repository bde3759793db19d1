/* Loops of every operator of one operand, and of two, with what reduces along rows: NaN and infinities are where plain
 * loops have them, on every rung. */
#include "passes/numbers.h"

#include <stdio.h>

static const char *const unary[] = {
    "abs",   "ceil",  "cos",      "elu",  "erf",        "exp",         "expm1", "floor", "gelu",  "hardswish", "log",
    "log1p", "log2",  "log10",    "mish", "neg",        "reciprocal",  "relu",  "round", "rsqrt", "sigmoid",   "sign",
    "silu",  "sin",   "softplus", "sqrt", "tanh",       "trunc",       "atan",  "asin",  "acos",  "sinh",      "cosh",
    "asinh", "acosh", "atanh",    "tan",  "leaky_relu", "logical_not", "isnan", "isinf"};
static const char *const binary[] = {"add",     "sub", "mul",   "div",  "maximum",
                                     "minimum", "pow", "atan2", "fmod", "remainder"};
static const char *const rows[] = {"sum", "mean", "amax", "amin", "prod"};
static const char *const scans[] = {"_softmax", "_log_softmax", "logcumsumexp"};

static void expect_loop(const char *steps) {
  char text[512];
  snprintf(text, sizeof text, "input %%0 \"x\": f32[3, 19]\ninput %%1 \"y\": f32[3, 19]\n%soutput \"z\" %%9\n", steps);
  expect_same_numbers(text);
}

static bool gives_truth(const char *op) { return strncmp(op, "is", 2) == 0 || strncmp(op, "logical", 7) == 0; }

static void one_operand(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof unary / sizeof *unary; i++) {
    char steps[256];
    const bool truth = gives_truth(unary[i]);
    snprintf(steps, sizeof steps, "%%2 = aten::%s(%%0)\n%%9 = %s\n", unary[i],
             truth ? "aten::where(%2, %0, %1)" : "aten::add(%2, %1)");
    expect_loop(steps);
  }
}

static void two_operands(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof binary / sizeof *binary; i++) {
    char steps[256];
    snprintf(steps, sizeof steps, "%%2 = aten::%s(%%0, %%1)\n%%9 = aten::abs(%%2)\n", binary[i]);
    expect_loop(steps);
  }
}

static void along_rows(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char steps[256];
    snprintf(steps, sizeof steps,
             "const %%2: i64[1] = {1}\n%%3 = aten::mul(%%0, %%1)\n%%4 = aten::%s(%%3, %%2) {keepdim = true}\n"
             "%%9 = aten::sub(%%3, %%4)\n",
             rows[i]);
    expect_loop(steps);
  }
  for (size_t i = 0; i < sizeof scans / sizeof *scans; i++) {
    char steps[256];
    snprintf(steps, sizeof steps,
             "%%3 = aten::add(%%0, %%1)\n%%4 = aten::%s(%%3) {dim = 1}\n%%9 = aten::mul(%%4, %%0)\n", scans[i]);
    expect_loop(steps);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_operand), cmocka_unit_test(two_operands),
                                     cmocka_unit_test(along_rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
