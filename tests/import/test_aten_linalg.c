/* test_aten_linalg.c -- what is lowered to solutions with triangles, by numbers that are whole. What must not be read,
 * the other half of a factor, is there and is not zero. */
#include "test.h"

#include "import/world.h"

#include <math.h>
static aten_value matrix(world *w, const float *data, int64_t rows, int64_t columns) {
  base_tensor t = base_tensor_of((void *)(uintptr_t)data, TD_F32, 2, (int64_t[]){rows, columns});
  return aten_of(w->a, ir_build_constant(&w->build, &t), true);
}

static void expect(world *w, const aten_value *v, const float *wanted, int64_t count) {
  base_tensor t;
  if (w->build.status != TD_OK) fail_msg("%s: %s", w->err.name, w->err.text);
  assert_true(aten_evaluate(w->a, aten_read(w->a, v), &t));
  assert_int_equal(base_tensor_numel(&t), count);
  for (int64_t i = 0; i < count; i++)
    if (!(fabs(base_load_f64(t.dtype, t.data, i) - (double)wanted[i]) <= 1e-5))
      fail_msg("element %d is %g, not %g", (int)i, base_load_f64(t.dtype, t.data, i), (double)wanted[i]);
}

static const float lower[] = {2, 5, 7, 1, 3, 11, -1, 2, 4}, upper[] = {2, 1, -1, 5, 3, 2, 7, 11, 4};
/* L L^T = [[4, 2, -2], [2, 10, 5], [-2, 5, 21]], and what it gives of these two columns */
static const float solution[] = {1, -2, 2, 0, 3, 1}, sides[] = {2, -10, 37, 1, 71, 25};

static void a_factor_solves_by_its_own_half(void **state) {
  (void)state;
  for (int is_upper = 0; is_upper < 2; is_upper++) {
    world w;
    assert_true(world_open(&w, &base_libc_allocator));
    const aten_value args[] = {matrix(&w, sides, 3, 2), matrix(&w, is_upper ? upper : lower, 3, 3),
                               aten_bool(is_upper)};
    aten_value x = aten_call(w.a, "aten::cholesky_solve", NULL, args, 3, NULL, 0);
    expect(&w, &x, solution, 6);
    aten_value inverse = aten_call(w.a, "aten::cholesky_inverse", NULL, args + 1, 2, NULL, 0);
    const aten_value factors[] = {inverse, args[0]};
    x = aten_call(w.a, "aten::matmul", NULL, factors, 2, NULL, 0);
    expect(&w, &x, solution, 6);
    world_close(&w);
  }
}

/* triangular_solve(b, A, upper, transpose, unitriangular), of whose results the first is X: A X = b by hand. */
static void a_triangle_solves_in_each_of_its_forms(void **state) {
  (void)state;
  static const float b[] = {4, 10, 32};
  static const float wanted[2][2][2][3] = {/* [upper][transpose][unit], A = `lower` */
                                           {{{2, 8.0f / 3, 7.1666667f}, {4, 6, 24}}, {{7, -2, 8}, {90, -54, 32}}},
                                           {{{39, -26, 8}, {1490, -342, 32}}, {{2, 0, 4.5f}, {4, -10, 114}}}};
  for (int i = 0; i < 8; i++) {
    world w;
    assert_true(world_open(&w, &base_libc_allocator));
    const int is_upper = i >> 2, transposed = i >> 1 & 1, unit = i & 1;
    const aten_value args[] = {matrix(&w, b, 3, 1), matrix(&w, lower, 3, 3), aten_bool(is_upper), aten_bool(transposed),
                               aten_bool(unit)};
    aten_value both = aten_call(w.a, "aten::triangular_solve", NULL, args, 5, NULL, 0);
    const aten_value which[] = {both, aten_int(0)};
    aten_value x = aten_call(w.a, "aten::__getitem__", NULL, which, 2, NULL, 0);
    expect(&w, &x, wanted[is_upper][transposed][unit], 3);
    world_close(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_factor_solves_by_its_own_half),
                                     cmocka_unit_test(a_triangle_solves_in_each_of_its_forms)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
