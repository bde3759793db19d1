/* Size expressions: what simplifies, what evaluates, what prints and parses back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"

static int setup(void **state) {
  base_dims *dims = calloc(1, sizeof *dims);
  dims->arena = base_arena_new(&base_libc_allocator);
  *state = dims;
  return 0;
}

static int teardown(void **state) {
  base_dims *dims = *state;
  base_arena_free(dims->arena);
  free(dims);
  return 0;
}

static void products_cancel(void **state) {
  base_dims *d = *state;
  base_dim b = base_dim_symbol(d, "batch"), s = base_dim_symbol(d, "seq");
  base_dim bs = base_dim_mul(d, b, s);
  assert_int_equal(bs, base_dim_mul(d, s, b));
  assert_int_equal(base_dim_div(d, bs, b), s);
  assert_int_equal(base_dim_div(d, base_dim_mul(d, bs, 768), base_dim_mul(d, 64, s)), base_dim_mul(d, 12, b));
  assert_int_equal(base_dim_sub(d, base_dim_add(d, b, 1), 1), b);
  assert_int_equal(base_dim_binary(d, BASE_DIM_BROADCAST, b, 1), b);
}

static void evaluates_as_built(void **state) {
  base_dims *d = *state;
  base_dim b = base_dim_symbol(d, "b");
  base_dim e = base_dim_binary(d, BASE_DIM_CEILDIV, base_dim_sub(d, base_dim_mul(d, 3, b), 2), 2);
  for (int64_t v = 0; v < 9; v++) {
    int64_t got, n = 3 * v - 2, want = n / 2 + (n % 2 > 0);
    assert_true(base_dim_eval(d, e, &v, &got));
    assert_int_equal(got, want);
  }
  int64_t unknown = -1, got;
  assert_false(base_dim_eval(d, e, &unknown, &got));
}

static void prints_and_parses(void **state) {
  base_dims *d = *state;
  base_dim e = base_dim_sub(d, base_dim_mul(d, base_dim_symbol(d, "batch size"), base_dim_fresh(d)), base_dim_symbol(d, "k"));
  base_text text = {.allocator = &base_libc_allocator};
  base_dim_print(d, e, &text);
  const char *at = text.at;
  assert_int_equal(base_dim_parse(d, &at, text.at + text.length), e);
  assert_true(at == text.at + text.length);
  assert_true(base_dim_from_data(d, e));
  base_text_free(&text);
}

static void numbers_need_no_table(void **state) {
  (void)state;
  assert_int_equal(base_dim_mul(NULL, 6, 7), 42);
  assert_int_equal(base_dim_mul(NULL, INT64_MAX, 2), BASE_DIM_NONE);
  assert_int_equal(base_dim_div(NULL, 1, 0), BASE_DIM_NONE);
  assert_int_equal(base_dim_add(NULL, BASE_DIM_NONE, 2), BASE_DIM_NONE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(products_cancel, setup, teardown),
      cmocka_unit_test_setup_teardown(evaluates_as_built, setup, teardown),
      cmocka_unit_test_setup_teardown(prints_and_parses, setup, teardown),
      cmocka_unit_test(numbers_need_no_table),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
