/* Attribute blocks: every kind comes back, by position, from a block that can be copied as bytes. */
#include "test.h"

#include "base/base.h"

static void every_kind_comes_back(void **state) {
  (void)state;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  const int64_t ints[] = {3, -1, INT64_MAX};
  const double floats[] = {0.5, -2};
  const base_arg args[] = {ARG_INT("axis", -2),
                           ARG_FLOAT("alpha", 0.25),
                           ARG_BOOL("keep", true),
                           ARG_DTYPE("to", TD_BF16),
                           ARG_STR("mode", "linear"),
                           ARG_INTS("pads", ints, 3),
                           ARG_FLOATS("scales", floats, 2),
                           {.name = "absent", .kind = BASE_ATTR_NONE},
                           ARG_STR("empty", ""),
                           ARG_INTS("none", NULL, 0)};
  uint32_t given = sizeof args / sizeof *args;
  base_attrs *made = base_attrs_make(arena, args, given);
  assert_non_null(made);
  base_attrs *block = base_arena_copy(arena, made, made->bytes);
  memset(made, 0xff, made->bytes); /* nothing may point back */
  assert_int_equal(block->count, given);
  assert_int_equal(base_attr_int(block, 0), -2);
  assert_true(base_attr_float(block, 1) == 0.25);
  assert_int_equal(base_attr_int(block, 2), 1);
  assert_int_equal(base_attr_int(block, 3), TD_BF16);
  assert_string_equal(base_attr_str(block, 4), "linear");
  uint32_t count;
  const int64_t *got_ints = base_attr_ints(block, 5, &count);
  assert_int_equal(count, 3);
  assert_memory_equal(got_ints, ints, sizeof ints);
  const double *got_floats = base_attr_floats(block, 6, &count);
  assert_int_equal(count, 2);
  assert_memory_equal(got_floats, floats, sizeof floats);
  assert_int_equal((uintptr_t)got_ints % 8, 0);
  assert_false(base_attr_has(block, 7));
  assert_true(base_attr_has(block, 8));
  assert_string_equal(base_attr_str(block, 8), "");
  base_attr_ints(block, 9, &count);
  assert_int_equal(count, 0);
  assert_int_equal(base_attrs_make(arena, NULL, 0)->count, 0);
  base_arena_free(arena);
}

#ifndef TREADLE_ASSERT /* where it is asserted, test_assert.c holds that it ends the process */
static void another_kind_reads_as_nothing(void **state) {
  (void)state;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  const base_arg args[] = {ARG_STR("mode", "x"), ARG_INT("axis", 4)};
  base_attrs *block = base_attrs_make(arena, args, 2);
  uint32_t count = 9;
  assert_int_equal(base_attr_int(block, 0), 0);
  assert_true(base_attr_float(block, 1) == 0);
  assert_string_equal(base_attr_str(block, 1), "");
  assert_null(base_attr_ints(block, 1, &count));
  assert_int_equal(count, 0);
  assert_null(base_attr_floats(block, 0, &count));
  base_arena_free(arena);
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_kind_comes_back),
#ifndef TREADLE_ASSERT
      cmocka_unit_test(another_kind_reads_as_nothing),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
