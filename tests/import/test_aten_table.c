/* test_aten_table.c -- the table of schemas: rows can be read, rows of a name stand together, none stands twice. */
#include "import/aten/aten_priv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_rows_parse(void **state) {
  (void)state;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  for (uint32_t i = 0; i < aten_row_count; i++) {
    aten_schema schema;
    if (!aten_parse_schema(arena, aten_rows[i].schema, &schema)) fail_msg("cannot read %s", aten_rows[i].schema);
    bool forms_fit = !(aten_rows[i].forms & ATEN_IN_PLACE) || !aten_rows[i].lower || schema.count > 0;
    assert_true(forms_fit);
  }
  base_arena_free(arena);
}

static void test_names_stand_together(void **state) {
  (void)state;
  for (uint32_t i = 1; i < aten_row_count; i++) {
    base_str name = aten_schema_name(aten_rows[i].schema);
    if (base_str_equal(name, aten_schema_name(aten_rows[i - 1].schema))) continue;
    for (uint32_t k = 0; k + 1 < i; k++)
      if (base_str_equal(name, aten_schema_name(aten_rows[k].schema)))
        fail_msg("rows of %.*s stand apart", (int)name.length, name.at);
  }
}

static void test_no_row_twice(void **state) {
  (void)state;
  for (uint32_t i = 0; i < aten_row_count; i++)
    for (uint32_t k = 0; k < i; k++) {
      size_t head = strcspn(aten_rows[i].schema, "(");
      if (head == strcspn(aten_rows[k].schema, "(") && memcmp(aten_rows[i].schema, aten_rows[k].schema, head) == 0)
        fail_msg("%s stands twice", aten_rows[i].schema);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows_parse), cmocka_unit_test(test_names_stand_together),
                                     cmocka_unit_test(test_no_row_twice)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
