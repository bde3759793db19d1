/* JSON: what documents say, what is refused and where, objects of any size. */
#include "fmt/check.h"

static void print(const fmt_json *v, base_text *text) {
  static const char *const words[] = {"null", "false", "true"};
  const char *name;
  const fmt_json *member;
  switch (v->kind) {
    case FMT_JSON_INT: base_text_print(text, "%lld", (long long)v->u.i); return;
    case FMT_JSON_FLOAT: base_text_print(text, "%g", v->u.f); return;
    case FMT_JSON_TEXT: base_text_quote(text, v->u.text, v->count); return;
    case FMT_JSON_ARRAY:
      for (size_t i = 0; i < fmt_json_count(v); i++) {
        base_text_add(text, i ? "," : "[", 1);
        print(fmt_json_at(v, i), text);
      }
      base_text_print(text, fmt_json_count(v) ? "]" : "[]");
      return;
    case FMT_JSON_OBJECT:
      base_text_print(text, "{");
      for (size_t i = 0; (member = fmt_json_member(v, i, &name)); i++) {
        base_text_print(text, i ? ",%s:" : "%s:", name);
        print(member, text);
        assert_ptr_equal(fmt_json_get(v, name), member);
      }
      base_text_print(text, "}");
      return;
    default: base_text_print(text, "%s", words[v->kind]);
  }
}

static void documents(void **state) {
  static const struct {
    const char *text, *says;
  } rows[] = {
      {" null ", "null"},
      {"[true,false , null]", "[true,false,null]"},
      {"[]", "[]"},
      {"{ }", "{}"},
      {"{\"a\" : [1,{\"b\":\"c\"}], \"\":-0}", "{a:[1,{b:\"c\"}],:0}"},
      {"[0,-1,9223372036854775807,-9223372036854775808]", "[0,-1,9223372036854775807,-9223372036854775808]"},
      {"[9223372036854775808,0.5,-1e3,2E-2,1.25e+1]", "[9.22337e+18,0.5,-1000,0.02,12.5]"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    base_arena *arena = base_arena_new(&base_libc_allocator);
    base_text text = new_text();
    const fmt_json *root;
    td_error err = {0};
    if (fmt_json_read(arena, "it", rows[i].text, strlen(rows[i].text), &root, &err) != TD_OK)
      fail_msg("%s: %s", rows[i].text, err.text);
    print(root, &text);
    assert_string_equal(text.at, rows[i].says);
    base_text_free(&text);
    base_arena_free(arena);
  }
}

static void texts(void **state) {
  static const struct {
    const char *text, *says;
  } rows[] = {
      {"\"\"", ""},
      {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
      {"\"a\\u00e9\\u20AC\\ud83d\\uDE00z\"", "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z"},
      {"\"\xc3\xa9\x7f\"", "\xc3\xa9\x7f"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    base_arena *arena = base_arena_new(&base_libc_allocator);
    const fmt_json *root;
    assert_int_equal(fmt_json_read(arena, "it", rows[i].text, strlen(rows[i].text), &root, NULL), TD_OK);
    assert_string_equal(fmt_json_text(root), rows[i].says);
    assert_int_equal(root->count, strlen(rows[i].says));
    base_arena_free(arena);
  }
}

static void refused(void **state) {
  static const struct {
    const char *text, *why;
    int64_t at;
  } rows[] = {
      {"", "a value is expected", 0},
      {"nul", "a value is expected", 0},
      {"[1,]", "a value is expected", 3},
      {"[1 2]", "a comma", 3},
      {"[1", "a comma", 2},
      {"{\"a\"1}", "a colon", 4},
      {"{a:1}", "no name", 1},
      {"{\"a\":1,}", "no name", 7},
      {"{\"a\":1,\n\"a\":2}", "line 2: two members", 14},
      {"1 1", "after its end", 2},
      {"01", "begins with 0", 2},
      {"-", "a digit", 1},
      {"1.", "a digit", 2},
      {"1e+", "a digit", 3},
      {"NaN", "a value is expected", 0},
      {"\"a", "unterminated", 2},
      {"\"a\nb\"", "control character", 2},
      {"\"\\x\"", "no such escape", 3},
      {"\"\\u12g4\"", "no such escape", 3},
      {"\"\\u0000\"", "no such escape", 7},
      {"\"\\ud800\"", "no such escape", 7},
      {"\"\\ude00\"", "no such escape", 7},
      {"\"\\ud800\\u0041\"", "no such escape", 13},
      {"\"\\", "no such escape", 2},
      {"\"\\u", "no such escape", 3},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    base_arena *arena = base_arena_new(&base_libc_allocator);
    const fmt_json *root;
    td_error err = {0};
    assert_int_equal(fmt_json_read(arena, "it", rows[i].text, strlen(rows[i].text), &root, &err), TD_BAD_FILE);
    assert_null(root);
    if (!strstr(err.text, rows[i].why) || err.offset != rows[i].at)
      fail_msg("%s: at %lld: %s", rows[i].text, (long long)err.offset, err.text);
    base_arena_free(arena);
  }
}

static void depth_is_bounded(void **state) {
  (void)state;
  for (int depth = FMT_JSON_DEPTH; depth <= FMT_JSON_DEPTH + 1; depth++) {
    base_arena *arena = base_arena_new(&base_libc_allocator);
    base_text text = new_text();
    const fmt_json *root;
    for (int i = 0; i < depth; i++) base_text_add(&text, i % 2 ? "[" : "{\"\":", i % 2 ? 1 : 4);
    base_text_add(&text, "1", 1);
    for (int i = depth; i-- > 0;) base_text_add(&text, i % 2 ? "]" : "}", 1);
    assert_int_equal(fmt_json_read(arena, "it", text.at, text.length, &root, NULL),
                     depth > FMT_JSON_DEPTH ? TD_BAD_FILE : TD_OK);
    base_text_free(&text);
    base_arena_free(arena);
  }
}

/* Around the size from which members are found by a hash. */
static void objects_of_any_size(void **state) {
  (void)state;
  for (int count = 0; count < 40; count++) {
    base_arena *arena = base_arena_new(&base_libc_allocator);
    base_text text = new_text();
    const fmt_json *root;
    char name[16];
    for (int i = 0; i < count; i++) base_text_print(&text, "%s\"m%d\":%d", i ? "," : "{", i, i);
    base_text_print(&text, count ? "}" : "{}");
    assert_int_equal(fmt_json_read(arena, "it", text.at, text.length, &root, NULL), TD_OK);
    for (int i = 0; i < count; i++) {
      snprintf(name, sizeof name, "m%d", i);
      assert_int_equal(fmt_json_get(root, name)->u.i, i);
    }
    assert_null(fmt_json_get(root, "m"));
    assert_null(fmt_json_get(root, "m40"));
    const char *last;
    assert_null(fmt_json_member(root, (size_t)count, &last));
    text.at[text.length - 1] = ',';
    base_text_print(&text, "\"m%d\":0}", count / 2);
    assert_int_equal(fmt_json_read(arena, "it", text.at, text.length, &root, NULL), TD_BAD_FILE);
    base_text_free(&text);
    base_arena_free(arena);
  }
}

static void nothing_is_found_in_nothing(void **state) {
  const fmt_json number = {.kind = FMT_JSON_INT};
  const char *name;
  (void)state;
  assert_null(fmt_json_get(NULL, "a"));
  assert_null(fmt_json_get(&number, "a"));
  assert_null(fmt_json_at(NULL, 0));
  assert_null(fmt_json_at(&number, 0));
  assert_null(fmt_json_member(NULL, 0, &name));
  assert_null(fmt_json_text(NULL));
  assert_null(fmt_json_text(&number));
  assert_int_equal(fmt_json_count(&number), 0);
}

static td_status read_one(const td_allocator *allocator, const uint8_t *bytes, size_t size, td_error *err) {
  base_arena *arena = base_arena_new(allocator);
  const fmt_json *root;
  if (!arena) return base_no_memory(err, "it");
  const td_status status = fmt_json_read(arena, "it", bytes, size, &root, err);
  base_arena_free(arena);
  return status;
}

static void damaged_documents(void **state) {
  static const char text[] =
      "{\"a\":[1,-2.5e3,true,null,\"\\u00e9\\n\"],\"b\":{\"c0\":0,\"c1\":1,\"c2\":2,\"c3\":3,\"c4\":4,\"c5\":5,\"c6\":"
      "6,"
      "\"c7\":7,\"c8\":8,\"c9\":9,\"ca\":10,\"cb\":11,\"cc\":12,\"cd\":13}}";
  (void)state;
  read_damaged(read_one, text, sizeof text - 1);
  read_without_memory(read_one, text, sizeof text - 1);
  for (size_t n = 0; n + 1 < sizeof text; n++) assert_int_equal(read_exact(read_one, text, n), TD_BAD_FILE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(documents),
      cmocka_unit_test(texts),
      cmocka_unit_test(refused),
      cmocka_unit_test(depth_is_bounded),
      cmocka_unit_test(objects_of_any_size),
      cmocka_unit_test(damaged_documents),
      cmocka_unit_test(nothing_is_found_in_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
