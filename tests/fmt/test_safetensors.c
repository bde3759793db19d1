/* safetensors: the rules of the header and of the ranges. */
#include "fmt/check.h"

static base_text file_of(const char *header, size_t data_bytes) {
  base_text t = new_text();
  size_t n = strlen(header);
  char length[8] = {(char)n, (char)(n >> 8)};
  base_text_add(&t, length, 8);
  base_text_add(&t, header, n);
  for (size_t i = 0; i < data_bytes; i++) base_text_add(&t, i % 4 == 3 ? "\x3f" : "\1", 1);
  return t;
}

static td_status open_one(const td_allocator *allocator, const uint8_t *bytes, size_t size, td_error *err) {
  fmt_state_dict *dict = NULL;
  td_status status = fmt_safetensors_open(allocator, bytes, size, &dict, err);
  if (status == TD_OK) fmt_state_dict_free(dict);
  return status;
}

static const char good[] =
    "{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]},"
    "\"a\":{\"dtype\":\"BF16\",\"shape\":[1,2],\"data_offsets\":[0,4]},"
    "\"none\":{\"dtype\":\"I64\",\"shape\":[0,3],\"data_offsets\":[12,12]},"
    "\"flag\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[12,13]}}   ";

static void tensors_are_views(void **state) {
  (void)state;
  base_text t = file_of(good, 13);
  fmt_state_dict *dict;
  assert_int_equal(fmt_weights_open(&base_libc_allocator, t.at, t.length, &dict, NULL), TD_OK);
  assert_int_equal(dict->entries.count, 4);
  assert_true(base_str_is(dict->entries.at[0].name, "b"));
  const base_tensor *b = &fmt_state_dict_find(dict, BASE_STR("b"))->tensor;
  const base_tensor *a = &fmt_state_dict_find(dict, BASE_STR("a"))->tensor;
  assert_int_equal(b->dtype, TD_F32);
  assert_ptr_equal(b->data, t.at + t.length - 9);
  assert_int_equal(a->dtype, TD_BF16);
  assert_int_equal(a->rank, 2);
  assert_ptr_equal(a->data, t.at + t.length - 13);
  assert_int_equal(fmt_state_dict_find(dict, BASE_STR("flag"))->tensor.rank, 0);
  fmt_state_dict_free(dict);
  base_text_free(&t);
}

static void damaged_files(void **state) {
  (void)state;
  base_text t = file_of(good, 13);
  read_damaged(open_one, t.at, t.length);
  read_without_memory(open_one, t.at, t.length);
  for (size_t n = 0; n < t.length; n++) assert_int_equal(read_exact(open_one, t.at, n), TD_BAD_FILE);
  base_text_free(&t);
}

static void refuses(td_status want, const char *text, const char *header, size_t data_bytes) {
  td_error err = {0};
  base_text t = file_of(header, data_bytes);
  td_status status = open_one(&base_libc_allocator, (const uint8_t *)t.at, t.length, &err);
  if (status != want || !strstr(err.text, text)) fail_msg("%s: status %d, says \"%s\"", header, (int)status, err.text);
  base_text_free(&t);
}

#define INFO(dtype, shape, offsets) "{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" offsets "]}"

static void refused_headers(void **state) {
  (void)state;
  refuses(TD_BAD_FILE, "same name", "{\"a\":" INFO("U8", "1", "0,1") ",\"a\":" INFO("U8", "1", "1,2") "}", 2);
  refuses(TD_BAD_FILE, "hole or overlap", "{\"a\":" INFO("U8", "1", "1,2") "}", 2);
  refuses(TD_BAD_FILE, "hole or overlap", "{\"a\":" INFO("U8", "2", "0,2") ",\"b\":" INFO("U8", "2", "1,3") "}", 3);
  refuses(TD_BAD_FILE, "of the 3", "{\"a\":" INFO("U8", "2", "0,2") "}", 3);
  refuses(TD_BAD_FILE, "beyond the end", "{\"a\":" INFO("U8", "2", "0,2") "}", 1);
  refuses(TD_BAD_FILE, "do not fit", "{\"a\":" INFO("F32", "2", "0,7") "}", 7);
  refuses(TD_BAD_FILE, "do not fit", "{\"a\":" INFO("F32", "4611686018427387904,4", "0,0") "}", 0);
  refuses(TD_BAD_FILE, "no range", "{\"a\":" INFO("U8", "1", "2,1") "}", 1);
  refuses(TD_BAD_FILE, "no range", "{\"a\":" INFO("U8", "1", "0,1,2") "}", 1);
  refuses(TD_BAD_FILE, "no range", "{\"a\":" INFO("U8", "1", "-1,0") "}", 1);
  refuses(TD_BAD_FILE, "no size", "{\"a\":" INFO("U8", "-1", "0,1") "}", 1);
  refuses(TD_BAD_FILE, "no size", "{\"a\":" INFO("U8", "1.0", "0,1") "}", 1);
  refuses(TD_BAD_FILE, "no dtype", "{\"a\":3}", 0);
  refuses(TD_BAD_FILE, "no shape", "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,0]}}", 0);
  refuses(TD_UNSUPPORTED, "C64", "{\"a\":" INFO("C64", "1", "0,8") "}", 8);
  refuses(TD_UNSUPPORTED, "9 dimensions", "{\"a\":" INFO("U8", "1,1,1,1,1,1,1,1,1", "0,1") "}", 1);
  refuses(TD_BAD_FILE, "is no JSON", "{\"a\":", 0);
  refuses(TD_BAD_FILE, "is no JSON", "{} x", 0);
  refuses(TD_BAD_FILE, "cut off", "[]", 0);
}

static void hostile_lengths(void **state) {
  (void)state;
  static const char lengths[][9] = {"\xff\xff\xff\xff\xff\xff\xff\xff", "\0\0\0\0\0\0\0\x80", "\3\0\0\0\0\0\0\0"};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    char file[10];
    memcpy(file, lengths[i], 8);
    memcpy(file + 8, "{}", 2);
    assert_int_equal(read_exact(open_one, file, sizeof file), TD_BAD_FILE);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tensors_are_views),
      cmocka_unit_test(damaged_files),
      cmocka_unit_test(refused_headers),
      cmocka_unit_test(hostile_lengths),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
