/* .npy: what NumPy writes is read, what we write is read back, damaged files are refused. */
#include "fmt/check.h"

static base_arena *arena;

static int setup(void **state) {
  (void)state;
  arena = base_arena_new(&base_libc_allocator);
  return arena ? 0 : -1;
}

static int teardown(void **state) {
  (void)state;
  base_arena_free(arena);
  return 0;
}

/* A file with this header and data, version 1 (or 2: a wider length). */
static base_text file_of(int version, const char *dict, const void *data, size_t bytes) {
  base_text t = new_text();
  size_t n = strlen(dict);
  char prefix[12] = {'\x93', 'N', 'U', 'M', 'P', 'Y', (char)version, 0, (char)n, (char)(n >> 8), 0, 0};
  base_text_add(&t, prefix, version == 1 ? 10 : 12);
  base_text_add(&t, dict, n);
  base_text_add(&t, data, bytes);
  return t;
}

static td_status read_dict(const char *dict, const void *data, size_t bytes, td_dtype raw_as, base_tensor *out,
                           td_error *err) {
  base_text t = file_of(1, dict, data, bytes);
  char *kept = base_arena_copy(arena, t.at, t.length);
  td_status status = fmt_npy_read(arena, kept, t.length, raw_as, out, err);
  base_text_free(&t);
  return status;
}

static void little_endian_is_a_view(void **state) {
  (void)state;
  const float values[] = {1, 2, 3, 4, 5, 6};
  for (int version = 1; version <= 3; version++) {
    base_text t = file_of(version, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n", values, 24);
    base_tensor x;
    size_t before = base_arena_bytes(arena);
    assert_int_equal(fmt_npy_read(arena, t.at, t.length, TD_INVALID, &x, NULL), TD_OK);
    assert_int_equal(base_arena_bytes(arena), before);
    assert_int_equal(x.dtype, TD_F32);
    assert_int_equal(x.rank, 2);
    assert_int_equal(x.dims[1], 3);
    assert_memory_equal(x.data, values, 24);
    base_text_free(&t);
  }
}

static void other_orders_are_converted(void **state) {
  (void)state;
  base_tensor x;
  const uint8_t big[] = {0, 1, 0, 2};
  assert_int_equal(read_dict("{\"shape\": (2,), 'descr':'>i2','fortran_order' : False}", big, 4, 0, &x, NULL), TD_OK);
  assert_memory_equal(x.data, ((const int16_t[]){1, 2}), 4);
  const uint8_t columns[] = {1, 4, 2, 5, 3, 6};
  assert_int_equal(read_dict("{'shape':(2,3,),'descr':'|u1','fortran_order':True,}", columns, 6, 0, &x, NULL), TD_OK);
  assert_memory_equal(x.data, ((const uint8_t[]){1, 2, 3, 4, 5, 6}), 6);
  assert_int_equal(x.strides[0], 3);
}

static void types_without_a_name(void **state) {
  (void)state;
  base_tensor x;
  const char *two = "{'descr': '<V2', 'fortran_order': False, 'shape': (2,), }";
  const char *one = "{'descr': '|V1', 'fortran_order': False, 'shape': (3,), }";
  assert_int_equal(read_dict(two, "abcd", 4, TD_INVALID, &x, NULL), TD_UNSUPPORTED);
  assert_int_equal(read_dict(two, "abcd", 4, TD_F8E5M2, &x, NULL), TD_UNSUPPORTED);
  assert_int_equal(read_dict(two, "abcd", 4, TD_BF16, &x, NULL), TD_OK);
  assert_int_equal(x.dtype, TD_BF16);
  assert_int_equal(read_dict(one, "\x01\xfe\x03", 3, TD_I4, &x, NULL), TD_OK);
  assert_memory_equal(x.data, "\xe1\x03", 2);
}

static void refuses(td_status want, const char *text, const char *dict, size_t bytes) {
  base_tensor x;
  td_error err = {0};
  assert_int_equal(read_dict(dict, "0123456789abcdef", bytes, TD_INVALID, &x, &err), want);
  if (!strstr(err.text, text)) fail_msg("%s: says \"%s\"", dict, err.text);
}

static void refused_headers(void **state) {
  (void)state;
  refuses(TD_UNSUPPORTED, "Python objects", "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", 8);
  refuses(TD_UNSUPPORTED, "structs", "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", 4);
  refuses(TD_UNSUPPORTED, "strings", "{'descr': '<U4', 'fortran_order': False, 'shape': (1,), }", 16);
  refuses(TD_UNSUPPORTED, "complex", "{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", 8);
  refuses(TD_UNSUPPORTED, "not known", "{'descr': '<f3', 'fortran_order': False, 'shape': (1,), }", 3);
  refuses(TD_UNSUPPORTED, "more than 8", "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", 4);
  refuses(TD_BAD_FILE, "ask for 8", "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 9);
  refuses(TD_BAD_FILE, "63 bits", "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 4);
  refuses(TD_BAD_FILE, "63 bits", "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 4);
  refuses(TD_BAD_FILE, "larger than memory",
          "{'descr': '<f4', 'fortran_order': True, 'shape': (0, 9999999999, 9999999999)}", 0);
  refuses(TD_BAD_FILE, "comma", "{'descr': '<f4', 'fortran_order': False, 'shape': (1)}", 4);
  refuses(TD_BAD_FILE, "True or False", "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", 4);
  refuses(TD_BAD_FILE, "repeated", "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", 4);
  refuses(TD_BAD_FILE, "lacks", "{'descr': '<f4', 'shape': (1,)}", 4);
  refuses(TD_BAD_FILE, "end", "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", 4);
}

/* Writes, reads back, compares elements as f64. */
static void round_trips(const base_tensor *t) {
  base_text text = new_text();
  base_tensor back;
  assert_int_equal(fmt_npy_write(&text, t, NULL), TD_OK);
  assert_int_equal(fmt_npy_read(arena, text.at, text.length, t->dtype, &back, NULL), TD_OK);
  assert_int_equal(back.dtype, t->dtype);
  assert_int_equal(back.rank, t->rank);
  assert_memory_equal(back.dims, t->dims, sizeof *t->dims * (size_t)t->rank);
  int64_t count = base_tensor_numel(t);
  size_t data = text.length - (base_dtype(t->dtype)->bits < 8 ? (size_t)count : base_tensor_bytes(t));
  assert_int_equal(data % 64, 0);
  assert_int_equal(text.at[data - 1], '\n');
  if (base_tensor_contiguous(t)) assert_memory_equal(back.data, t->data, base_tensor_bytes(t));
  base_text_free(&text);
}

static void every_dtype_round_trips(void **state) {
  (void)state;
  uint8_t bits[64] = {0};
  for (td_dtype d = TD_F64; d < TD_DTYPE_COUNT; d++) {
    base_tensor t = base_tensor_of(bits, d, 2, (const int64_t[]){2, 2});
    if (d == TD_STRING) {
      base_text text = new_text();
      assert_int_equal(fmt_npy_write(&text, &t, NULL), TD_UNSUPPORTED);
      base_text_free(&text);
      continue;
    }
    for (int i = 0; i < 4; i++) base_store_f64(d, bits, i, i % 2);
    round_trips(&t);
    t = base_tensor_of(bits, d, 0, NULL);
    memset(bits + 1, 0, sizeof bits - 1);
    if (base_dtype(d)->bits < 8) bits[0] = 1;
    round_trips(&t);
    t = base_tensor_of(bits, d, 3, (const int64_t[]){2, 0, 3});
    round_trips(&t);
  }
}

static void strides_are_honoured(void **state) {
  (void)state;
  float values[] = {1, 2, 3, 4, 5, 6};
  base_tensor t = {.data = values, .dtype = TD_F32, .rank = 2, .dims = {3, 2}, .strides = {1, 3}}, back;
  base_text text = new_text();
  assert_int_equal(fmt_npy_write(&text, &t, NULL), TD_OK);
  assert_int_equal(fmt_npy_read(arena, text.at, text.length, TD_INVALID, &back, NULL), TD_OK);
  assert_memory_equal(back.data, ((const float[]){1, 4, 2, 5, 3, 6}), 24);
  base_text_free(&text);
}

static td_status read_npy(const td_allocator *allocator, const uint8_t *bytes, size_t size, td_error *err) {
  base_tensor x;
  base_arena *a = base_arena_new(allocator);
  if (!a) return base_no_memory(err, "arena");
  td_status status = fmt_npy_read(a, bytes, size, TD_BF16, &x, err);
  base_arena_free(a);
  return status;
}

static void damaged_files(void **state) {
  (void)state;
  base_text t =
      file_of(1, "{'descr': '>f4', 'fortran_order': True, 'shape': (2, 3), }   \n", "0123456789abcdefghijklmn", 24);
  read_damaged(read_npy, t.at, t.length);
  read_without_memory(read_npy, t.at, t.length);
  base_text_free(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(little_endian_is_a_view), cmocka_unit_test(other_orders_are_converted),
      cmocka_unit_test(types_without_a_name),    cmocka_unit_test(refused_headers),
      cmocka_unit_test(every_dtype_round_trips), cmocka_unit_test(strides_are_honoured),
      cmocka_unit_test(damaged_files),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
