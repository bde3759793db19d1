/* Weights files: torch.save in both forms, npz, and the sniffing that tells them apart. */
#include "fmt/emit.h"

static td_status open_any(const td_allocator *allocator, const uint8_t *bytes, size_t size, td_error *err) {
  fmt_state_dict *dict = NULL;
  td_status status = fmt_weights_open(allocator, bytes, size, &dict, err);
  if (status != TD_OK) return status;
  for (uint32_t i = 0; i < dict->entries.count; i++) { /* every element is there to be read */
    const base_tensor *t = &dict->entries.at[i].tensor;
    size_t count = base_tensor_bytes(t);
    char *copy = malloc(count + 1);
    assert_non_null(copy);
    base_tensor_pack(copy, t);
    free(copy);
  }
  fmt_state_dict_free(dict);
  return TD_OK;
}

static const base_tensor *find(const fmt_state_dict *dict, const char *name) {
  const fmt_named *entry = fmt_state_dict_find(dict, base_str_of(name));
  if (!entry) fail_msg("no entry %s", name);
  return &entry->tensor;
}

static void check_dict(const base_text *file) {
  fmt_state_dict *dict;
  td_error err = {0};
  if (fmt_weights_open(&base_libc_allocator, file->at, file->length, &dict, &err) != TD_OK) fail_msg("%s", err.text);
  assert_int_equal(dict->entries.count, 3);
  assert_true(base_str_is(dict->entries.at[0].name, "w"));
  assert_true(base_str_is(dict->entries.at[1].name, "nested.tail"));
  const base_tensor *w = find(dict, "w"), *tail = find(dict, "nested.tail"), *flag = find(dict, "flag");
  float packed[6];
  assert_int_equal(w->strides[0], 1);
  assert_int_equal(w->strides[1], 2);
  assert_true((char *)w->data > file->at && (char *)w->data < file->at + file->length);
  base_tensor_pack(packed, w);
  assert_memory_equal(packed, ((const float[]){1, 3, 5, 2, 4, 6}), sizeof packed);
  assert_ptr_equal(tail->data, (const char *)w->data + 16); /* the storage is shared */
  assert_int_equal(tail->rank, 1);
  assert_int_equal(flag->dtype, TD_BOOL);
  assert_memory_equal(flag->data, "\1\1", 2);
  assert_null(fmt_state_dict_find(dict, BASE_STR("epoch")));
  fmt_state_dict_free(dict);
}

static void both_forms(void **state) {
  (void)state;
  base_text zip = emit_zip_form(&emit_good), chain = emit_chain_form(&emit_good);
  check_dict(&zip);
  check_dict(&chain);
  base_text_free(&zip);
  base_text_free(&chain);
}

static void damaged_files(void **state) {
  (void)state;
  base_text zip = emit_zip_form(&emit_good), chain = emit_chain_form(&emit_good);
  read_damaged(open_any, zip.at, zip.length);
  read_damaged(open_any, chain.at, chain.length);
  read_without_memory(open_any, zip.at, zip.length);
  read_without_memory(open_any, chain.at, chain.length);
  for (size_t n = 0; n < chain.length; n++) assert_int_not_equal(read_exact(open_any, chain.at, n), TD_OK);
  base_text_free(&zip);
  base_text_free(&chain);
}

static void refuses(td_status want, const char *text, stored first) {
  for (int zip = 0; zip < 2; zip++) {
    td_error err = {0};
    base_text t = zip ? emit_zip_form(&first) : emit_chain_form(&first);
    td_status status = open_any(&base_libc_allocator, (const uint8_t *)t.at, t.length, &err);
    if (status != want || !strstr(err.text, text))
      fail_msg("status %d, \"%s\", not \"%s\"", (int)status, err.text, text);
    base_text_free(&t);
  }
}

static void tensors_outside_their_storage(void **state) {
  (void)state;
  const int64_t big = INT64_C(1) << 62;
  refuses(TD_BAD_FILE, "beyond its storage", (stored){"FloatStorage", "0", 6, 1, 2, {2, 3}, {1, 2}});
  refuses(TD_BAD_FILE, "beyond its storage", (stored){"FloatStorage", "0", 6, 0, 2, {2, 3}, {3, 2}});
  refuses(TD_BAD_FILE, "beyond its storage", (stored){"FloatStorage", "0", 6, INT64_MAX, 1, {1}, {1}});
  refuses(TD_BAD_FILE, "strides overflow", (stored){"FloatStorage", "0", 6, 0, 2, {3, 3}, {big, big}});
  refuses(TD_BAD_FILE, "larger than its file", (stored){"FloatStorage", "0", 6, 0, 1, {big}, {0}});
  refuses(TD_BAD_FILE, "larger than its file", (stored){"FloatStorage", "0", 6, 0, 1, {100000}, {0}});
  refuses(TD_BAD_FILE, "larger than its file", (stored){"FloatStorage", "0", 6, 0, 3, {0, big, big}, {1, 1, 1}});
  refuses(TD_BAD_FILE, "no number >= 0", (stored){"FloatStorage", "0", 6, 0, 1, {-1}, {1}});
  refuses(TD_BAD_FILE, "no number >= 0", (stored){"FloatStorage", "0", 6, 0, 1, {1}, {-1}});
  refuses(TD_BAD_FILE, "_rebuild_tensor", (stored){"FloatStorage", "0", 6, -1, 1, {1}, {1}});
  refuses(TD_BAD_FILE, "", (stored){"FloatStorage", "7", 6, 0, 1, {1}, {1}});
  refuses(TD_BAD_FILE, "", (stored){"FloatStorage", "0", 60, 0, 1, {1}, {1}});
  refuses(TD_BAD_FILE, "", (stored){"DoubleStorage", "0", 6, 0, 1, {6}, {1}});
  refuses(TD_BAD_FILE, "not that of a storage", (stored){"FloatStorage", "0", -6, 0, 1, {1}, {1}});
  refuses(TD_UNSUPPORTED, "ComplexHalfStorage", (stored){"ComplexHalfStorage", "0", 3, 0, 1, {1}, {1}});
  refuses(TD_BAD_FILE, "strides overflow", (stored){"ComplexFloatStorage", "0", 3, 0, 1, {1}, {big}});
  refuses(TD_BAD_FILE, "strides overflow", (stored){"ComplexFloatStorage", "0", 3, big, 1, {1}, {1}});
  refuses(TD_BAD_FILE, "beyond its storage", (stored){"ComplexFloatStorage", "0", 3, 1, 1, {3}, {1}});
  refuses(TD_BAD_FILE, "", (stored){"ComplexFloatStorage", "0", big, 0, 1, {1}, {1}});
  refuses(TD_UNSUPPORTED, "has 8 dimensions",
          (stored){"ComplexFloatStorage", "0", 3, 0, 8, {1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1}});
  refuses(TD_UNSUPPORTED, "more than 8",
          (stored){"FloatStorage", "0", 6, 0, 9, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1}});
}

/* Complex numbers are pairs along a last axis of 2. */
static void complex_numbers(void **state) {
  (void)state;
  const stored first = {"ComplexFloatStorage", "0", 3, 1, 1, {2}, {1}};
  base_text file = emit_zip_form(&first);
  fmt_state_dict *dict;
  td_error err = {0};
  if (fmt_weights_open(&base_libc_allocator, file.at, file.length, &dict, &err) != TD_OK) fail_msg("%s", err.text);
  const base_tensor *w = find(dict, "w");
  float packed[4];
  assert_int_equal(w->rank, 2);
  assert_int_equal(w->dims[1], 2);
  base_tensor_pack(packed, w);
  assert_memory_equal(packed, ((const float[]){3, 4, 5, 6}), sizeof packed);
  fmt_state_dict_free(dict);
  base_text_free(&file);
}

static td_status open_pickle(const char *body, size_t length, td_error *err) {
  base_text t = new_text();
  fmt_zip_writer w = {.out = &t, .directory = new_text()};
  assert_int_equal(fmt_zip_add(&w, "a/data.pkl", body, length, NULL), TD_OK);
  assert_int_equal(fmt_zip_add(&w, "a/data/0", emit_values, sizeof emit_values, NULL), TD_OK);
  assert_int_equal(fmt_zip_finish(&w, NULL), TD_OK);
  td_status status = open_any(&base_libc_allocator, (const uint8_t *)t.at, t.length, err);
  base_text_free(&t);
  return status;
}

static void shapes_of_dictionaries(void **state) {
  (void)state;
  static const char loop[] = "\x80\x02}q\0(X\1\0\0\0ah\0u.", empty[] = "\x80\x02}.", list[] = "\x80\x02].";
  td_error err;
  assert_int_equal(open_pickle(loop, sizeof loop - 1, &err), TD_UNSUPPORTED);
  assert_int_equal(open_pickle(empty, sizeof empty - 1, &err), TD_BAD_FILE);
  assert_non_null(strstr(err.text, "state_dict()"));
  assert_int_equal(open_pickle(list, sizeof list - 1, &err), TD_BAD_FILE);
  base_text twice = new_text();
  EMIT(&twice, "\x80\x02}(");
  for (int i = 0; i < 2; i++) {
    emit_str(&twice, "w");
    emit_tensor(&twice, &emit_good);
  }
  EMIT(&twice, "u.");
  assert_int_equal(open_pickle(twice.at, twice.length, &err), TD_BAD_FILE);
  assert_non_null(strstr(err.text, "two tensors"));
  base_text_free(&twice);
}

static void torchscript_is_not_a_state_dict(void **state) {
  (void)state;
  base_text t = new_text();
  td_error err;
  fmt_zip_writer w = {.out = &t, .directory = new_text()};
  assert_int_equal(fmt_zip_add(&w, "a/constants.pkl", "\x80\x02).", 4, NULL), TD_OK);
  assert_int_equal(fmt_zip_finish(&w, NULL), TD_OK);
  assert_int_equal(open_any(&base_libc_allocator, (const uint8_t *)t.at, t.length, &err), TD_UNSUPPORTED);
  assert_non_null(strstr(err.text, "TorchScript"));
  base_text_free(&t);
}

static void npz(void **state) {
  (void)state;
  float values[] = {1, 2, 3};
  base_tensor x = base_tensor_of(values, TD_F32, 1, (const int64_t[]){3});
  base_text t = new_text(), array = new_text();
  fmt_zip_writer w = {.out = &t, .directory = new_text()};
  assert_int_equal(fmt_npy_write(&array, &x, NULL), TD_OK);
  assert_int_equal(fmt_zip_add(&w, "x.npy", array.at, array.length, NULL), TD_OK);
  assert_int_equal(fmt_zip_add(&w, "readme", "hi", 2, NULL), TD_OK);
  assert_int_equal(fmt_zip_finish(&w, NULL), TD_OK);
  fmt_state_dict *dict;
  assert_int_equal(fmt_weights_open(&base_libc_allocator, t.at, t.length, &dict, NULL), TD_OK);
  assert_int_equal(dict->entries.count, 1);
  assert_memory_equal(find(dict, "x")->data, values, sizeof values);
  fmt_state_dict_free(dict);
  read_damaged(open_any, t.at, t.length);
  read_without_memory(open_any, t.at, t.length);
  base_text_free(&t);
  base_text_free(&array);
}

static void other_files(void **state) {
  (void)state;
  assert_int_equal(read_exact(open_any, "", 0), TD_BAD_FILE);
  assert_int_equal(read_exact(open_any, "PK", 2), TD_BAD_FILE);
  assert_int_equal(read_exact(open_any, "GIF89a, a picture", 17), TD_BAD_FILE);
  assert_int_equal(read_exact(open_any, "\x80\x02K\1.", 5), TD_BAD_FILE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(both_forms),
      cmocka_unit_test(damaged_files),
      cmocka_unit_test(tensors_outside_their_storage),
      cmocka_unit_test(complex_numbers),
      cmocka_unit_test(shapes_of_dictionaries),
      cmocka_unit_test(torchscript_is_not_a_state_dict),
      cmocka_unit_test(npz),
      cmocka_unit_test(other_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
