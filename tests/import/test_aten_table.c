/* test_aten_table.c -- the table of schemas: rows can be read, rows of a name stand together, none stands twice. */
#include "test.h"

#include "import/aten/aten_priv.h"

static base_arena *held;
static const char *const *lines;

static void test_rows_parse(void **state) {
  (void)state;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  for (uint32_t i = 0; i < aten_row_count; i++) {
    aten_schema schema;
    if (!aten_parse_schema(arena, lines[i], &schema)) fail_msg("cannot read %s", lines[i]);
    assert_true(!(aten_forms[i] & ATEN_TURNS) || aten_written_param(&schema) == 0);
  }
  base_arena_free(arena);
}

static void test_names_stand_together(void **state) {
  (void)state;
  for (uint32_t i = 1; i < aten_row_count; i++) {
    base_str name = aten_schema_name(lines[i]);
    if (base_str_equal(name, aten_schema_name(lines[i - 1]))) continue;
    for (uint32_t k = 0; k + 1 < i; k++)
      if (base_str_equal(name, aten_schema_name(lines[k])))
        fail_msg("rows of %.*s stand apart", (int)name.length, name.at);
  }
}

/* The text that is packed is that of the table. */
static void test_every_line_is_there(void **state) {
  (void)state;
  static const char *const schemas[] = {
#define ATEN_ROW(schema, lower, forms, data) schema,
#define ATEN_NONE_YET(schema) schema,
#include "import/aten/schemas.def"
#undef ATEN_ROW
#undef ATEN_NONE_YET
  };
  for (uint32_t i = 0; i < aten_row_count; i++) assert_string_equal(lines[i], schemas[i]);
}

static void test_no_row_twice(void **state) {
  (void)state;
  for (uint32_t i = 0; i < aten_row_count; i++)
    for (uint32_t k = 0; k < i; k++) {
      size_t head = strcspn(lines[i], "(");
      if (head == strcspn(lines[k], "(") && memcmp(lines[i], lines[k], head) == 0)
        fail_msg("%s stands twice", lines[i]);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows_parse), cmocka_unit_test(test_names_stand_together),
                                     cmocka_unit_test(test_no_row_twice), cmocka_unit_test(test_every_line_is_there)};
  td_error err = {0};
  held = base_arena_new(&base_libc_allocator);
  lines = aten_unpack_lines(held, &err);
  int failed = lines ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
  base_arena_free(held);
  return failed;
}
