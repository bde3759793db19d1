/* Size expressions: what simplifies, what evaluates, what prints and parses back. */
#include "test.h"

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
  assert_int_equal(base_dim_add(d, base_dim_add(d, bs, bs), bs), base_dim_mul(d, 3, bs));
  assert_int_equal(base_dim_binary(d, BASE_DIM_BROADCAST, b, 1), b);
}

static void extremes_that_are_certain(void **state) {
  base_dims *d = *state;
  base_dim s = base_dim_symbol(d, "seq"), t = base_dim_symbol(d, "past");
  assert_int_equal(base_dim_binary(d, BASE_DIM_MIN, base_dim_add(d, s, -1), s), base_dim_add(d, s, -1));
  assert_int_equal(base_dim_binary(d, BASE_DIM_MAX, s, base_dim_add(d, s, 2)), base_dim_add(d, s, 2));
  assert_int_equal(base_dim_binary(d, BASE_DIM_MAX, base_dim_mul(d, s, t), 0), base_dim_mul(d, s, t));
  base_dim difference = base_dim_sub(d, s, t);
  assert_int_not_equal(base_dim_binary(d, BASE_DIM_MAX, difference, 0), difference);
  assert_int_equal(base_dim_sub(d, 0, base_dim_sub(d, 0, s)), s);
  assert_int_equal(base_dim_sub(d, 0, base_dim_mul(d, -3, s)), base_dim_mul(d, 3, s));
  base_dim both = base_dim_binary(d, BASE_DIM_BROADCAST, s, t);
  assert_int_equal(base_dim_binary(d, BASE_DIM_BROADCAST, both, t), both);
  assert_int_equal(base_dim_binary(d, BASE_DIM_BROADCAST, base_dim_binary(d, BASE_DIM_MIN, s, 64), s), s);
  assert_int_not_equal(base_dim_binary(d, BASE_DIM_BROADCAST, base_dim_binary(d, BASE_DIM_MIN, s, t), s), s);
}

static base_dim halved(base_dims *d, base_dim size, int64_t pad) {
  return base_dim_add(d, base_dim_div(d, base_dim_add(d, size, pad), 2), 1);
}

/* Sizes of windows over images are, whatever the image; what a difference of two sizes is, nobody knows. */
static void signs_that_are_certain(void **state) {
  base_dims *d = *state;
  base_dim h = base_dim_symbol(d, "h"), w = base_dim_symbol(d, "w");
  assert_true(base_dim_not_negative(d, halved(d, halved(d, h, -1), -1)));
  assert_true(base_dim_not_negative(d, base_dim_mul(d, halved(d, h, -2), w)));
  assert_true(base_dim_not_negative(d, base_dim_binary(d, BASE_DIM_MAX, base_dim_sub(d, h, w), 0)));
  assert_true(base_dim_not_negative(d, base_dim_binary(d, BASE_DIM_MOD, base_dim_sub(d, h, w), 3)));
  assert_true(base_dim_not_negative(d, base_dim_binary(d, BASE_DIM_CEILDIV, base_dim_add(d, h, -1), 2)));
  assert_false(base_dim_not_negative(d, base_dim_binary(d, BASE_DIM_CEILDIV, base_dim_add(d, h, -2), 2)));
  assert_false(base_dim_not_negative(d, halved(d, h, -3)));
  assert_false(base_dim_not_negative(d, base_dim_sub(d, h, w)));
  assert_false(base_dim_not_negative(d, base_dim_mul(d, base_dim_add(d, h, -1), base_dim_add(d, w, -1))));
  assert_false(base_dim_not_negative(d, base_dim_div(d, w, base_dim_add(d, h, -1))));
}

/* A window of 5 asks for 5 elements, and what is known then. */
static void bounds_of_windows(void **state) {
  base_dims *d = *state;
  base_dim h = base_dim_symbol(d, "h"), w = base_dim_symbol(d, "w"), u = base_dim_fresh(d);
  base_dim windows = base_dim_add(d, base_dim_div(d, base_dim_add(d, h, -5), 2), 1);
  assert_false(base_dim_not_negative(d, base_dim_add(d, h, -5)));
  assert_true(base_dim_at_least(d, windows, 1));
  assert_true(base_dim_not_negative(d, base_dim_add(d, h, -5)));
  assert_false(base_dim_not_negative(d, base_dim_add(d, h, -6)));
  assert_int_equal(base_dim_binary(d, BASE_DIM_MAX, 0, windows), windows);
  assert_false(base_dim_at_least(d, windows, 1)); /* known */
  assert_true(base_dim_at_least(d, base_dim_binary(d, BASE_DIM_MAX, windows, 3), 4));
  assert_true(base_dim_not_negative(d, base_dim_add(d, h, -11)));
  assert_false(base_dim_not_negative(d, base_dim_add(d, h, -12)));
  assert_false(base_dim_at_least(d, base_dim_add(d, h, w), 9));  /* which one? */
  assert_false(base_dim_at_least(d, base_dim_sub(d, 9, w), 1));  /* it falls */
  assert_false(base_dim_at_least(d, u, 1));                      /* no input tells it */
  assert_false(base_dim_at_least(d, base_dim_div(d, w, -2), 1)); /* never */
  assert_false(base_dim_at_least(d, w, INT64_MAX));
  assert_false(base_dim_at_least(d, 7, 9));
}

static void multiples_are_told(void **state) {
  base_dims *d = *state;
  const base_dim b = base_dim_symbol(d, "b"), h = base_dim_symbol(d, "h");
  int64_t times = 0;
  assert_true(base_dim_times(d, b, b, &times) && times == 1);
  assert_true(base_dim_times(d, base_dim_mul(d, 64, b), b, &times) && times == 64);
  assert_true(base_dim_times(d, base_dim_mul(d, 64, b), base_dim_mul(d, 16, b), &times) && times == 4);
  assert_true(base_dim_times(NULL, 12, 4, &times) && times == 3);
  assert_false(base_dim_times(d, b, base_dim_mul(d, 2, b), &times));
  assert_false(base_dim_times(d, base_dim_mul(d, 6, b), base_dim_mul(d, 4, b), &times));
  assert_false(base_dim_times(d, base_dim_mul(d, h, b), b, &times));
  assert_false(base_dim_times(d, 64, b, &times));
  assert_false(base_dim_times(d, b, 1, &times));
  assert_false(base_dim_times(d, 0, 4, &times));
  assert_false(base_dim_times(d, BASE_DIM_NONE, BASE_DIM_NONE, &times));
}

/* Divisions of divisions are one, and what the number divides is outside. */
static void divisions_by_numbers(void **state) {
  base_dims *d = *state;
  base_dim h = base_dim_symbol(d, "h");
  base_dim by5 = base_dim_div(d, h, 5), by10 = base_dim_div(d, h, 10);
  assert_int_equal(base_dim_div(d, by5, 2), by10);
  assert_int_equal(base_dim_div(d, base_dim_add(d, h, -10), 5), base_dim_add(d, by5, -2));
  assert_int_equal(base_dim_div(d, base_dim_add(d, by5, -4), 2), base_dim_add(d, by10, -2));
  assert_int_equal(base_dim_div(d, base_dim_add(d, by5, 1), 2), base_dim_div(d, base_dim_add(d, h, 5), 10));
  assert_int_equal(base_dim_div(d, base_dim_add(d, base_dim_mul(d, 4, h), 3), 2),
                   base_dim_add(d, base_dim_mul(d, 2, h), 1));
  assert_int_equal(base_dim_add(d, base_dim_mul(d, 4, base_dim_add(d, by5, -1)), 4), base_dim_mul(d, 4, by5));
  assert_int_equal(base_dim_binary(d, BASE_DIM_CEILDIV, base_dim_add(d, h, -2), 2),
                   base_dim_add(d, base_dim_div(d, base_dim_add(d, h, 1), 2), -1));
  for (int64_t size = 0; size < 40; size++)
    for (int64_t c = -9; c < 9; c++) {
      int64_t got;
      const base_dim e = base_dim_div(d, base_dim_add(d, base_dim_div(d, base_dim_add(d, h, c), 3), c), 4);
      const int64_t first = (size + c + 300) / 3 - 100, want = (first + c + 400) / 4 - 100;
      assert_true(base_dim_eval(d, e, &size, &got));
      assert_int_equal(got, want);
    }
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
  base_dim e = base_dim_sub(d, base_dim_mul(d, base_dim_symbol(d, "batch \"size\"\n"), base_dim_fresh(d)),
                            base_dim_symbol(d, "k"));
  base_text text = {.allocator = &base_libc_allocator};
  base_dim_print(d, e, &text);
  const char *at = text.at;
  assert_int_equal(base_dim_parse(d, &at, text.at + text.length), e);
  assert_true(at == text.at + text.length);
  assert_true(base_dim_from_data(d, e));
  base_text_free(&text);
}

/* What is equal prints equally, in whatever order its symbols were made. */
static void order_of_making_does_not_show(void **state) {
  base_dims *d = *state;
  base_dim_symbol(d, "m");
  const char text[] = "bcast(f, m)", *at = text;
  base_dim e = base_dim_parse(d, &at, text + strlen(text));
  base_text first = {.allocator = &base_libc_allocator}, second = first;
  base_dim_print(d, e, &first);
  base_dims other = {.arena = d->arena};
  at = first.at;
  e = base_dim_parse(&other, &at, first.at + first.length);
  base_dim_print(&other, e, &second);
  assert_string_equal(first.at, second.at);
  base_text_free(&first);
  base_text_free(&second);
}

static void numbers_need_no_table(void **state) {
  (void)state;
  assert_int_equal(base_dim_mul(NULL, 6, 7), 42);
  assert_int_equal(base_dim_mul(NULL, INT64_MAX, 2), BASE_DIM_NONE);
  assert_int_equal(base_dim_div(NULL, 1, 0), BASE_DIM_NONE);
  assert_int_equal(base_dim_add(NULL, BASE_DIM_NONE, 2), BASE_DIM_NONE);
}

/* A random expression twice: built with simplification, and as plain numbers along the way. */
static uint32_t next_random(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return *seed >> 8;
}

enum { SYMBOLS = 3, BUILT = 40 };

/* Whatever is simplified, the value stays: sums, products and divisions of everything made so far. Sizes are positive,
 * as those of the tensors are that a division is ever taken of. */
static void simplifying_keeps_the_value(void **state) {
  base_dims *d = *state;
  const int64_t values[SYMBOLS] = {7, 12, 5};
  const char *const names[SYMBOLS] = {"batch", "height", "width"};
  uint32_t seed = 1;
  int compared = 0;
  for (int round = 0; round < 400; round++) {
    base_dim built[BUILT];
    int64_t plain[BUILT];
    int count = 0;
    for (; count < SYMBOLS; count++) {
      built[count] = base_dim_symbol(d, names[count]);
      plain[count] = values[count];
    }
    for (int64_t number = 1; number <= 4; number++, count++) built[count] = plain[count] = number * number;
    while (count < BUILT) {
      base_dim_op op = (base_dim_op)(BASE_DIM_ADD + (int)(next_random(&seed) % (BASE_DIM_OP_COUNT - BASE_DIM_ADD)));
      uint32_t left = next_random(&seed) % (uint32_t)count, right = next_random(&seed) % (uint32_t)count;
      base_dim plain_result = base_dim_binary(NULL, op, plain[left], plain[right]);
      if (plain_result == BASE_DIM_NONE || plain_result <= 0 || plain_result > 1000000) {
        plain_result = plain[left]; /* no size: take a copy */
        built[count] = built[left];
      } else {
        built[count] = base_dim_binary(d, op, built[left], built[right]);
      }
      plain[count] = plain_result;
      int64_t got;
      if (built[count] == BASE_DIM_NONE) break; /* too long */
      if (!base_dim_eval(d, built[count], values, &got) || got != plain_result)
        fail_msg("round %d: %lld instead of %lld", round, (long long)got, (long long)plain_result);
      compared++;
      count++;
    }
  }
  assert_true(compared > 10000);
}

/* A chain of x + x / 2 has few nodes and, read as a tree, more than can ever be walked. */
static void what_is_too_long_becomes_a_symbol(void **state) {
  base_dims *d = *state;
  base_dim x = base_dim_symbol(d, "x"), y = base_dim_symbol(d, "y");
  int steps = 0;
  for (; !base_dim_from_data(d, x) && steps < 64; steps++)
    x = base_dim_binary(d, BASE_DIM_MAX, base_dim_add(d, x, base_dim_div(d, x, 2)), y);
  assert_true(steps > 4 && steps < 64);
}

static void every_operation_prints_and_parses(void **state) {
  base_dims *d = *state;
  base_dim a = base_dim_symbol(d, "a"), b = base_dim_symbol(d, "b");
  base_text text = {.allocator = &base_libc_allocator};
  for (int op = BASE_DIM_ADD; op < BASE_DIM_OP_COUNT; op++) {
    base_dim e = base_dim_binary(d, (base_dim_op)op, a, base_dim_binary(d, BASE_DIM_MAX, b, -3));
    text.length = 0;
    base_dim_print(d, e, &text);
    const char *at = text.at;
    assert_int_equal(base_dim_parse(d, &at, text.at + text.length), e);
  }
  base_text_free(&text);
  const char *const bad[] = {
      "", "add(a", "add(a,)", "add(a b)", "nothing(a, b)", "\"open", "div(a, 0)", "9223372036854775808("};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const char *at = bad[i];
    assert_int_equal(base_dim_parse(d, &at, bad[i] + strlen(bad[i])), BASE_DIM_NONE);
  }
}

static void numbers_divide_downward(void **state) {
  (void)state;
  const struct {
    base_dim_op op;
    int64_t a, b, want;
  } cases[] = {{BASE_DIM_FLOORDIV, 7, 2, 3}, {BASE_DIM_FLOORDIV, -7, 2, -4}, {BASE_DIM_FLOORDIV, 7, -2, -4},
               {BASE_DIM_CEILDIV, 7, 2, 4},  {BASE_DIM_CEILDIV, -7, 2, -3},  {BASE_DIM_MOD, 7, 3, 1},
               {BASE_DIM_MOD, -7, 3, 2},     {BASE_DIM_MOD, 7, -3, -2},      {BASE_DIM_MIN, 3, 5, 3},
               {BASE_DIM_MAX, 3, 5, 5},      {BASE_DIM_BROADCAST, 1, 5, 5},  {BASE_DIM_BROADCAST, 5, 1, 5}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_int_equal(base_dim_binary(NULL, cases[i].op, cases[i].a, cases[i].b), cases[i].want);
  assert_int_equal(base_dim_binary(NULL, BASE_DIM_BROADCAST, 3, 5), BASE_DIM_NONE);
  assert_int_equal(base_dim_binary(NULL, BASE_DIM_MOD, 3, 0), BASE_DIM_NONE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(products_cancel, setup, teardown),
      cmocka_unit_test_setup_teardown(extremes_that_are_certain, setup, teardown),
      cmocka_unit_test_setup_teardown(bounds_of_windows, setup, teardown),
      cmocka_unit_test_setup_teardown(divisions_by_numbers, setup, teardown),
      cmocka_unit_test_setup_teardown(multiples_are_told, setup, teardown),
      cmocka_unit_test_setup_teardown(signs_that_are_certain, setup, teardown),
      cmocka_unit_test_setup_teardown(evaluates_as_built, setup, teardown),
      cmocka_unit_test_setup_teardown(prints_and_parses, setup, teardown),
      cmocka_unit_test_setup_teardown(simplifying_keeps_the_value, setup, teardown),
      cmocka_unit_test_setup_teardown(what_is_too_long_becomes_a_symbol, setup, teardown),
      cmocka_unit_test_setup_teardown(every_operation_prints_and_parses, setup, teardown),
      cmocka_unit_test_setup_teardown(order_of_making_does_not_show, setup, teardown),
      cmocka_unit_test(numbers_need_no_table),
      cmocka_unit_test(numbers_divide_downward),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
