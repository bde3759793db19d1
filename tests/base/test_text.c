/* Strings, growing texts, and the error value. */
#include "test.h"

#include "base/base.h"

static void slices_compare(void **state) {
  (void)state;
  assert_true(base_str_equal(BASE_STR("abc"), (base_str){"abcd", 3}));
  assert_false(base_str_equal(BASE_STR("abc"), BASE_STR("abd")));
  assert_false(base_str_equal(BASE_STR("abc"), BASE_STR("ab")));
  assert_true(base_str_equal((base_str){NULL, 0}, BASE_STR("")));
  assert_true(base_str_equal((base_str){"a\0b", 3}, (base_str){"a\0b", 3}));
  assert_false(base_str_equal((base_str){"a\0b", 3}, (base_str){"a\0c", 3}));
  assert_true(base_str_is(BASE_STR("relu"), "relu"));
  assert_false(base_str_is(BASE_STR("relu6"), "relu"));
  assert_int_equal(base_str_of(NULL).length, 0);
  assert_true(base_str_starts(BASE_STR("aten::relu"), "aten::") && base_str_starts(BASE_STR("x"), ""));
  assert_false(base_str_starts(BASE_STR("at"), "aten"));
  assert_true(base_str_ends(BASE_STR("model.onnx"), ".onnx") && base_str_ends(BASE_STR(""), ""));
  assert_false(base_str_ends(BASE_STR("nnx"), ".onnx"));
  base_str rest = BASE_STR("a=b=");
  assert_true(base_str_is(base_str_cut(&rest, '='), "a") && base_str_is(rest, "b="));
  assert_true(base_str_is(base_str_cut(&rest, '='), "b") && rest.length == 0);
  rest = BASE_STR("none");
  assert_true(base_str_is(base_str_cut(&rest, '='), "none") && rest.length == 0);
  assert_true(base_str_cut(&rest, '=').length == 0 && rest.length == 0);
}

static void integers_are_read_whole(void **state) {
  (void)state;
  const struct {
    const char *text;
    int64_t value;
  } good[] = {{"0", 0},
              {"-0", 0},
              {"+7", 7},
              {"007", 7},
              {"-12", -12},
              {"9223372036854775807", INT64_MAX},
              {"-9223372036854775808", INT64_MIN}};
  const char *const bad[] = {
      "", "-", "+", "1 ", " 1", "1.0", "0x1", "--1", "9223372036854775808", "-9223372036854775809", "a"};
  int64_t value;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    assert_true(base_str_int(base_str_of(good[i].text), &value));
    assert_true(value == good[i].value);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(base_str_int(base_str_of(bad[i]), &value));
}

static void text_grows(void **state) {
  (void)state;
  base_text text = {.allocator = &base_libc_allocator};
  for (int i = 0; i < 1000; i++) base_text_print(&text, "%03d ", i);
  base_text_add(&text, "end", 3);
  base_text_add(&text, NULL, 0);
  assert_false(text.failed);
  assert_int_equal(text.length, 4003);
  assert_int_equal(strlen(text.at), 4003);
  assert_memory_equal(text.at + 4 * 517, "517 ", 4);
  base_text_free(&text);
  assert_null(text.at);
  base_text_add(&text, "again", 5); /* usable after it was freed */
  assert_string_equal(text.at, "again");
  base_text_free(&text);
}

static void text_keeps_what_it_has_when_memory_ends(void **state) {
  (void)state;
  base_counting counting = {.inner = &base_libc_allocator, .fail_at = 3};
  td_allocator allocator = base_counting_allocator(&counting);
  base_text text = {.allocator = &allocator};
  for (int i = 0; i < 10000; i++) base_text_add(&text, "0123456789", 10);
  assert_true(text.failed);
  assert_true(text.length > 0 && text.length % 10 == 0 && strlen(text.at) == text.length);
  size_t length = text.length;
  base_text_print(&text, "more");
  assert_int_equal(text.length, length);
  base_text_add(&text, "x", SIZE_MAX - 1);
  base_text_free(&text);
  assert_int_equal(counting.live, 0);
}

static void errors_say_what_and_where(void **state) {
  (void)state;
  td_error err;
  memset(&err, 'x', sizeof err);
  assert_int_equal(base_fail(&err, TD_BAD_FILE, "net.onnx", 12, "bad tag %d", 9), TD_BAD_FILE);
  assert_int_equal(err.code, TD_BAD_FILE);
  assert_int_equal(err.offset, 12);
  assert_string_equal(err.name, "net.onnx");
  assert_string_equal(err.text, "bad tag 9");
  assert_int_equal(base_error_name(&err, TD_BAD_FILE, "node %d", 3), TD_BAD_FILE);
  assert_string_equal(err.name, "net.onnx"); /* the first name stays */
  base_no_memory(&err, "weights");
  assert_int_equal(err.code, TD_NO_RESOURCE);
  assert_string_equal(err.name, "");
  base_error_name(&err, TD_NO_RESOURCE, "node %d", 3);
  assert_string_equal(err.name, "node 3");
  assert_int_equal(base_error_name(NULL, TD_BAD_FILE, "x"), TD_BAD_FILE);
  assert_int_equal(base_fail(NULL, TD_UNSUPPORTED, NULL, -1, "x"), TD_UNSUPPORTED);
}

static void long_errors_are_cut(void **state) {
  (void)state;
  td_error err;
  char name[1000];
  memset(name, 'n', sizeof name - 1);
  name[sizeof name - 1] = 0;
  base_fail(&err, TD_INTERNAL, name, -1, "%s%s%s", name, name, name);
  assert_int_equal(strlen(err.name), sizeof err.name - 1);
  assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

static void statuses_have_names(void **state) {
  (void)state;
  assert_string_equal(td_status_name(TD_OK), "ok");
  assert_string_equal(td_status_name(TD_INTERNAL), "internal error");
  assert_string_equal(td_status_name((td_status)99), "unknown status");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slices_compare),
      cmocka_unit_test(integers_are_read_whole),
      cmocka_unit_test(text_grows),
      cmocka_unit_test(text_keeps_what_it_has_when_memory_ends),
      cmocka_unit_test(errors_say_what_and_where),
      cmocka_unit_test(long_errors_are_cut),
      cmocka_unit_test(statuses_have_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
