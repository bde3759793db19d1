/* test_aten_numbers.c -- functions of two numbers that are put together from other operators, against libm. */
#include "test.h"

#include "import/world.h"

#include <math.h>

static double xlogy(double x, double y) { return isnan(y) ? y : x == 0 ? 0 : x * log(y); }
static double xlog1py(double x, double y) { return isnan(y) ? y : x == 0 ? 0 : x * log1p(y); }
static double heaviside(double x, double y) { return x == 0 ? y : x > 0; }
static double logaddexp(double x, double y) { return x == y && isinf(x) ? x : fmax(x, y) + log1p(exp(-fabs(x - y))); }
static double logaddexp2(double x, double y) {
  return x == y && isinf(x) ? x : fmax(x, y) + log2(1 + exp2(-fabs(x - y)));
}

/* Of all pairs of numbers that such a form may miss. */
static void functions_of_two_numbers(void **state) {
  (void)state;
  static const struct {
    const char *name;
    double (*truth)(double, double);
    bool takes_nan; /* else pairs with a NaN are left out: the truth above has other rules for them */
  } rows[] = {{"aten::copysign", copysign, false},
              {"aten::fmax", fmax, true},
              {"aten::fmin", fmin, true},
              {"aten::hypot", hypot, false},
              {"aten::xlogy", xlogy, true},
              {"aten::special_xlog1py", xlog1py, true},
              {"aten::heaviside", heaviside, false},
              {"aten::logaddexp", logaddexp, false},
              {"aten::logaddexp2", logaddexp2, false}};
  static const double numbers[] = {0, -0.0, 1, -1, 2.5, -0.75, (double)INFINITY, -(double)INFINITY, (double)NAN};
  enum { COUNT = sizeof numbers / sizeof *numbers };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    world w;
    assert_true(world_open(&w, &base_libc_allocator));
    base_tensor all = base_tensor_of((void *)(uintptr_t)numbers, TD_F64, 1, (int64_t[]){COUNT}), z;
    const aten_value y = aten_of(w.a, ir_build_constant(&w.build, &all), true);
    for (int k = 0; k < COUNT * COUNT; k++) {
      const double a = numbers[k / COUNT], b = numbers[k % COUNT];
      const aten_value x = aten_of(w.a, ir_build_scalar(&w.build, TD_F64, a), true);
      const aten_value made = aten_call(w.a, rows[i].name, NULL, (aten_value[]){x, y}, 2, NULL, 0);
      if (!aten_evaluate(w.a, aten_read(w.a, &made), &z)) fail_msg("%s: %s", rows[i].name, w.err.text);
      const double got = base_load_f64(z.dtype, z.data, k % COUNT), want = rows[i].truth(a, b);
      const bool left_out = (isnan(a) || isnan(b)) && !rows[i].takes_nan;
      if (rows[i].truth == copysign && !isnan(b) && !signbit(got) != !signbit(want))
        fail_msg("the sign of (%g, %g)", a, b);
      if (left_out || (isnan(got) && isnan(want)) || got == want || fabs(got - want) <= 1e-12 * fabs(want)) continue;
      fail_msg("%s(%g, %g) is %g, not %g", rows[i].name, a, b, got, want);
    }
    world_close(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(functions_of_two_numbers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
