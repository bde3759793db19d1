/* test_functions.c -- functions that only loops have, against libm in double over the range of f32: interpreted and
 * compiled, on each level that the machine has. */
#include <math.h>

#include "codegen/chains.h"
#include "kernels/kernels.h"

enum { SAMPLES = 1 << 16, SETS = 4 };

static const struct {
  const char *name;
  double (*truth)(double);
  double ulps;
} functions[] = {{"sin", sin, 1.5},   {"cos", cos, 1.5},   {"expm1", expm1, 2},
                 {"log1p", log1p, 2}, {"log2", log2, 2.5}, {"log10", log10, 2.5}};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* One unit in the last place of the f32 nearest to x. */
static double ulp_of(double x) {
  int e;
  (void)frexp(x, &e);
  return fabs(x) < 0x1p-126 ? 0x1p-149 : ldexp(1, e - 24);
}

/* Every 2^16th float; from -20 to 20; from -9000 to 9000; and the floats nearest to multiples of pi/2. */
static void fill(float *x, int set) {
  for (uint32_t i = 0; i < SAMPLES; i++) {
    const uint32_t bits = (i << 16) + i % 65521 * 7 % 65536;
    const double at = i - SAMPLES / 2.0;
    if (set == 0) memcpy(&x[i], &bits, sizeof bits);
    else if (set < 3) x[i] = (float)(at * ((set == 1 ? 40.0 : 18000.0) / SAMPLES));
    else x[i] = (float)(at * 1.57079632679489661923);
  }
}

static void expect_close(size_t f, const char *how, const float *x, const float *y) {
  for (int64_t i = 0; i < SAMPLES; i++) {
    const double truth = functions[f].truth((double)x[i]);
    if (isnan(truth)          ? isnan(y[i])
        : isinf((float)truth) ? y[i] == (float)truth
                              : fabs((double)y[i] - truth) <= functions[f].ulps * ulp_of(truth))
      continue;
    fail_msg("%s, %s(%.9g) = %.9g; %.9g is right", how, functions[f].name, (double)x[i], (double)y[i], truth);
  }
}

static void expect_functions(const compile_setting *setting, const char *how) {
  static const char text[] =
      "input %0 \"x\": f32[n]\n%1 = aten::sin(%0)\n%2 = aten::cos(%0)\n%3 = aten::expm1(%0)\n"
      "%4 = aten::log1p(%0)\n%5 = aten::log2(%0)\n%6 = aten::log10(%0)\noutput \"a\" %1\noutput \"b\" %2\n"
      "output \"c\" %3\noutput \"d\" %4\noutput \"e\" %5\noutput \"f\" %6\n";
  static float x[SAMPLES];
  const int64_t count = SAMPLES;
  rig r;
  rig_open_as(&r, text, NULL, setting);
  assert_int_equal(r.plan->steps.count, 1);
  for (int set = 0; set < SETS; set++) {
    fill(x, set);
    const base_value value = {.kind = BASE_TENSOR, .tensor = base_tensor_of(x, TD_F32, 1, &count)};
    assert_int_equal(run_set_input(r.session, 0, &value, &r.err), TD_OK);
    rig_run(&r);
    for (uint32_t f = 0; f < FUNCTIONS; f++) expect_close(f, how, x, rig_output(&r, f)->data);
  }
  rig_close(&r);
}

static void functions_keep_their_bounds(void **state) {
  (void)state;
  sys_machine machine;
  uint32_t count;
  sys_cpu_read(&machine);
  char *cache = chains_cache();
  const kern_level *levels = kern_levels(&count);
  for (uint32_t i = 0; i < count; i++) {
    if (base_isa_lacks(machine.isa, levels[i].isa)) continue;
    compile_setting setting = {.backend = compile_find_backend("interp"), .isa = levels[i].isa};
    expect_functions(&setting, levels[i].name);
    setting.backend = compile_find_backend("native");
    setting.cc = chains_compiler();
    setting.cache = cache;
    setting.strict = true;
    char how[64];
    snprintf(how, sizeof how, "%s, compiled", levels[i].name);
    if (setting.cc) expect_functions(&setting, how);
  }
  chains_remove(cache);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(functions_keep_their_bounds)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
