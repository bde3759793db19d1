/* Protobuf wire: what the writer writes is read back; damaged bytes give an error with their offset. */
#include "fmt/check.h"

static void fields_round_trip(void **state) {
  (void)state;
  base_text t = new_text();
  fmt_put_int(&t, 1, -5);
  fmt_put_float(&t, 2, 1.5f);
  fmt_put_str(&t, 300, "name");
  fmt_put_int(&t, 4, INT64_MAX);
  fmt_wire w = fmt_wire_of(t.at, t.length);
  fmt_field f;
  int64_t i;
  float x;
  base_str s;
  assert_int_equal(fmt_wire_next(&w, &f, NULL), TD_OK);
  assert_int_equal(fmt_field_int(&f, "int", &i, NULL), TD_OK);
  assert_int_equal(i, -5);
  assert_int_equal(fmt_field_float(&f, "int", &x, NULL), TD_BAD_FILE);
  assert_int_equal(fmt_wire_next(&w, &f, NULL), TD_OK);
  assert_int_equal(fmt_field_float(&f, "float", &x, NULL), TD_OK);
  assert_true(x == 1.5f);
  assert_int_equal(fmt_wire_next(&w, &f, NULL), TD_OK);
  assert_int_equal(f.number, 300);
  assert_int_equal(fmt_field_str(&f, "str", &s, NULL), TD_OK);
  assert_true(base_str_is(s, "name"));
  assert_int_equal(fmt_wire_next(&w, &f, NULL), TD_OK);
  assert_int_equal(fmt_field_int(&f, "int", &i, NULL), TD_OK);
  assert_true(i == INT64_MAX);
  assert_false(fmt_wire_more(&w));
  base_text_free(&t);
}

static void scalars_packed_or_not(void **state) {
  (void)state;
  static const uint8_t bytes[] = {0x0a, 4, 1, 0x96, 0x01, 3, 0x08, 7};
  static const uint64_t want[] = {1, 150, 3, 7};
  fmt_wire w = fmt_wire_of(bytes, sizeof bytes), values;
  size_t at = 0;
  while (fmt_wire_more(&w)) {
    fmt_field f;
    assert_int_equal(fmt_wire_next(&w, &f, NULL), TD_OK);
    assert_int_equal(fmt_field_scalars(&f, FMT_VARINT, "dims", &values, NULL), TD_OK);
    assert_int_equal(fmt_wire_count(&values, FMT_VARINT), at ? 1 : 3);
    for (uint64_t bits; fmt_wire_more(&values); at++) {
      assert_int_equal(fmt_wire_scalar(&values, FMT_VARINT, &bits, NULL), TD_OK);
      assert_int_equal(bits, want[at]);
    }
  }
  assert_int_equal(at, 4);
}

static void refuses(const uint8_t *bytes, size_t size, int64_t offset) {
  fmt_wire w = fmt_wire_of(bytes, size);
  td_error err = {0};
  fmt_field f;
  td_status status = TD_OK;
  while (status == TD_OK && fmt_wire_more(&w)) status = fmt_wire_next(&w, &f, &err);
  assert_int_equal(status, TD_BAD_FILE);
  assert_int_equal(err.offset, offset);
}

static void damaged_fields(void **state) {
  (void)state;
  refuses((const uint8_t[]){0x08, 0x80}, 2, 1);                                            /* truncated varint */
  refuses((const uint8_t[]){0x08, 1, 0x0a, 5, 'a'}, 5, 2);                                 /* a length beyond the end */
  refuses((const uint8_t[]){0x0d, 1, 2, 3}, 4, 1);                                         /* truncated fixed32 */
  refuses((const uint8_t[]){0x09, 1, 2, 3, 4, 5, 6, 7}, 8, 1);                             /* truncated fixed64 */
  refuses((const uint8_t[]){0x0b}, 1, 0);                                                  /* a group */
  refuses((const uint8_t[]){0x0f}, 1, 0);                                                  /* wire type 7 */
  refuses((const uint8_t[]){0x00, 0x00}, 2, 0);                                            /* field 0 */
  refuses((const uint8_t[]){0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2}, 11, 1); /* 65 bits */
  refuses((const uint8_t[]){0x0a, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, 11, 0); /* length 2^64 - 1 */
  fmt_wire none = fmt_wire_of(NULL, 10);
  assert_false(fmt_wire_more(&none));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fields_round_trip),
      cmocka_unit_test(scalars_packed_or_not),
      cmocka_unit_test(damaged_fields),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
