/* test_aten_empty.c -- products, windows and decompositions of operands without elements: the sizes and the numbers
 * that PyTorch gives, which are not always those of the formula. */
#include "test.h"

#include "import/world.h"

static void start(world *w) { assert_true(world_open(w, &base_libc_allocator)); }

/* Ones of the given sizes. */
static aten_value ones(world *w, int32_t rank, const int64_t *dims) {
  float data[512];
  const base_tensor t = base_tensor_of(data, TD_F32, rank, dims);
  assert_true(base_tensor_numel(&t) <= (int64_t)(sizeof data / sizeof *data));
  for (int64_t i = 0; i < base_tensor_numel(&t); i++) data[i] = 1;
  return aten_of(w->a, ir_build_constant(&w->build, &t), true);
}
#define COUNT(...) (sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define ONES(w, ...) ones((w), (int32_t)COUNT(__VA_ARGS__), (int64_t[]){__VA_ARGS__})

#define CALL(w, name, ...)                                     \
  aten_call((w)->a, (name), NULL, (aten_value[]){__VA_ARGS__}, \
            sizeof((aten_value[]){__VA_ARGS__}) / sizeof(aten_value), NULL, 0)

static void expect_sizes(world *w, const aten_value *v, const int64_t *dims, int32_t rank) {
  if (w->build.status != TD_OK) fail_msg("%s: %s", w->err.name, w->err.text);
  const ir_type *type = ir_build_type(&w->build, aten_read(w->a, v));
  assert_int_equal(type->rank, rank);
  for (int32_t i = 0; i < rank; i++) assert_int_equal(type->dims[i], dims[i]);
}
#define SIZES(w, v, ...) expect_sizes((w), (v), (int64_t[]){__VA_ARGS__}, (int32_t)COUNT(__VA_ARGS__))

/* Every element of `v` is `wanted`. */
static void expect_all(world *w, const aten_value *v, double wanted) {
  base_tensor t;
  if (w->build.status != TD_OK) fail_msg("%s: %s", w->err.name, w->err.text);
  assert_true(aten_evaluate(w->a, aten_read(w->a, v), &t));
  for (int64_t i = 0; i < base_tensor_numel(&t); i++) assert_true(base_load_f64(t.dtype, t.data, i) == wanted);
}

/* Without channels there are none behind the convolution; its bias goes nowhere. */
static void convolutions(void **state) {
  (void)state;
  world w;
  start(&w);
  aten_value y = CALL(&w, "aten::conv2d", ONES(&w, 2, 0, 4, 4), ONES(&w, 3, 0, 2, 2), ONES(&w, 3));
  SIZES(&w, &y, 2, 0, 3, 3);
  y = CALL(&w, "aten::conv1d", ONES(&w, 0, 4), ONES(&w, 3, 0, 2), ONES(&w, 3)); /* no batch */
  SIZES(&w, &y, 0, 3);
  y = CALL(&w, "aten::conv2d", ONES(&w, 0, 2, 4, 4), ONES(&w, 3, 2, 2, 2), ONES(&w, 3));
  SIZES(&w, &y, 0, 3, 3, 3);
  world_close(&w);
}

static void pixels(void **state) {
  (void)state;
  world w;
  start(&w);
  aten_value y = CALL(&w, "aten::pixel_unshuffle", ONES(&w, 0, 1, 6, 6), aten_int(3));
  SIZES(&w, &y, 0, 1, 6, 6);
  y = CALL(&w, "aten::pixel_shuffle", ONES(&w, 0, 9, 6, 6), aten_int(3));
  SIZES(&w, &y, 0, 1, 18, 18);
  y = CALL(&w, "aten::pixel_unshuffle", ONES(&w, 1, 1, 6, 6), aten_int(3));
  SIZES(&w, &y, 1, 9, 2, 2);
  world_close(&w);
}

static void matrix_by_vector(void **state) {
  (void)state;
  world w;
  start(&w);
  const aten_value self = ONES(&w, 1);
  aten_value y = CALL(&w, "aten::addmv", self, ONES(&w, 0, 3), ONES(&w, 3));
  SIZES(&w, &y, 1);
  expect_all(&w, &y, 1);
  const aten_value four[] = {self, ONES(&w, 5, 0), ONES(&w, 0)};
  for (int beta = 0; beta < 3; beta += 2) {
    const aten_keyword by = {BASE_STR("beta"), aten_int(beta)};
    y = aten_call(w.a, "aten::addmv", NULL, four, 3, &by, 1);
    SIZES(&w, &y, 1);
    expect_all(&w, &y, beta);
  }
  world_close(&w);
}

/* Matrices without rows or columns count as symmetric, of whatever sizes. */
static void symmetric(void **state) {
  (void)state;
  world w;
  start(&w);
  const aten_keyword hermitian = {BASE_STR("hermitian"), aten_bool(true)};
  aten_value x = ONES(&w, 2, 0, 5), y = aten_call(w.a, "aten::linalg_matrix_rank", NULL, &x, 1, &hermitian, 1);
  SIZES(&w, &y, 2);
  y = aten_call(w.a, "aten::linalg_pinv", NULL, &x, 1, &hermitian, 1);
  SIZES(&w, &y, 2, 5, 0);
  world_close(&w);
}

/* Where nothing is to be solved the rank is 0; without columns residuals are, too, of the driver `gels`. */
static void least_squares(void **state) {
  (void)state;
  static const base_str drivers[] = {BASE_STR("gels"), BASE_STR("gelss")};
  world w;
  start(&w);
  for (int i = 0; i < 2; i++) {
    const aten_keyword driver = {BASE_STR("driver"), aten_str(w.a, drivers[i])};
    const aten_value two[] = {ONES(&w, 3, 0), ONES(&w, 3, 2)};
    aten_value y = aten_call(w.a, "aten::linalg_lstsq", NULL, two, 2, &driver, 1);
    assert_int_equal(w.build.status, TD_OK);
    const aten_value *parts = y.u.list->items.at;
    SIZES(&w, &parts[0], 0, 2);
    SIZES(&w, &parts[1], 2);
    expect_all(&w, &parts[1], i ? 3 : 0);
  }
  aten_value y = CALL(&w, "aten::linalg_lstsq", ONES(&w, 3, 2), ONES(&w, 3, 0));
  assert_int_equal(w.build.status, TD_OK);
  SIZES(&w, &y.u.list->items.at[0], 2, 0);
  expect_all(&w, &y.u.list->items.at[2], 0);
  world_close(&w);
}

/* Values without elements give zeros, whatever their batch; no queries give nothing; of neither anything is dropped. */
static void attention(void **state) {
  (void)state;
  world w;
  start(&w);
  static const char name[] = "aten::scaled_dot_product_attention";
  const aten_value none = {.kind = ATEN_NONE}, half = aten_float(0.5);
  const aten_value q = ONES(&w, 2, 1, 2, 1), k = ONES(&w, 2, 1, 3, 1);
  aten_value y = CALL(&w, name, q, k, ONES(&w, 0, 1, 3, 1));
  SIZES(&w, &y, 2, 1, 2, 1);
  expect_all(&w, &y, 0);
  y = CALL(&w, name, q, k, ONES(&w, 2, 1, 0, 2), none, half);
  SIZES(&w, &y, 2, 1, 2, 2);
  expect_all(&w, &y, 0);
  y = CALL(&w, name, ONES(&w, 2, 1, 0, 1), k, k, none, half);
  SIZES(&w, &y, 2, 1, 0, 1);
  y = CALL(&w, name, q, k, k, none, half); /* what draws at random stays refused */
  assert_int_equal(w.build.status, TD_UNSUPPORTED);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(convolutions),     cmocka_unit_test(pixels),
                                     cmocka_unit_test(matrix_by_vector), cmocka_unit_test(symmetric),
                                     cmocka_unit_test(least_squares),    cmocka_unit_test(attention)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
