/* TensorProto: every way data is stored, agreement of dims and data, sequences and optionals. */
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

/* The start of a message: dims and type. */
static base_text message(int64_t element, int32_t rank, const int64_t *dims) {
  base_text t = new_text();
  for (int32_t i = 0; i < rank; i++) fmt_put_int(&t, 1, dims[i]);
  fmt_put_int(&t, 2, element);
  fmt_put_str(&t, 8, "w");
  return t;
}

/* Reads and frees. Views die with it, so what matters is copied first by the caller's check. */
static td_status finish(base_text *t, fmt_tensor_proto *out, td_error *err) {
  assert_false(t->failed);
  char *kept = base_arena_copy(arena, t->at, t->length);
  fmt_wire w = fmt_wire_of(kept, t->length);
  base_text_free(t);
  return fmt_tensor_proto_read(arena, w, out, err);
}

static void raw_data_is_a_view(void **state) {
  (void)state;
  const float values[] = {1, 2, 3, 4, 5, 6};
  base_text t = message(1, 2, (const int64_t[]){2, 3});
  fmt_put_bytes(&t, 9, values, sizeof values);
  fmt_tensor_proto p;
  size_t before = base_arena_bytes(arena);
  assert_int_equal(fmt_tensor_proto_read(arena, fmt_wire_of(t.at, t.length), &p, NULL), TD_OK);
  assert_int_equal(base_arena_bytes(arena), before);
  assert_true((char *)p.tensor.data > t.at && (char *)p.tensor.data < t.at + t.length);
  assert_true(base_str_is(p.name, "w"));
  assert_int_equal(p.tensor.dtype, TD_F32);
  assert_int_equal(p.tensor.rank, 2);
  assert_int_equal(p.tensor.strides[0], 3);
  assert_memory_equal(p.tensor.data, values, sizeof values);
  base_text_free(&t);
}

/* `values` as varints of `field`, packed or one by one, are read as `dtype` with the bytes `want`. */
static void reads_varints(int64_t element, uint32_t field, int64_t numel, const int64_t *values, size_t count,
                          const void *want, size_t bytes) {
  for (int packed = 0; packed < 2; packed++) {
    base_text t = message(element, 1, &numel), body = new_text();
    for (size_t i = 0; i < count; i++) {
      if (packed) fmt_put_varint(&body, (uint64_t)values[i]);
      else fmt_put_int(&t, field, values[i]);
    }
    if (packed) fmt_put_bytes(&t, field, body.at, body.length);
    base_text_free(&body);
    fmt_tensor_proto p;
    assert_int_equal(finish(&t, &p, NULL), TD_OK);
    assert_int_equal(p.bytes, bytes);
    assert_memory_equal(p.tensor.data, want, bytes);
  }
}

static void typed_fields(void **state) {
  (void)state;
  const int64_t small[] = {-1, 2, 127};
  reads_varints(3, 5, 3, small, 3, (const int8_t[]){-1, 2, 127}, 3);
  reads_varints(6, 5, 3, small, 3, (const int32_t[]){-1, 2, 127}, 12);
  reads_varints(7, 7, 3, small, 3, (const int64_t[]){-1, 2, 127}, 24);
  reads_varints(12, 11, 3, small, 3, (const uint32_t[]){UINT32_MAX, 2, 127}, 12);
  reads_varints(9, 5, 3, small, 3, (const uint8_t[]){1, 1, 1}, 3);
  reads_varints(10, 5, 2, (const int64_t[]){0x3c00, 0xc000}, 2, (const uint16_t[]){0x3c00, 0xc000}, 4);
  reads_varints(22, 5, 3, (const int64_t[]){0x21, 0x0f}, 2, (const uint8_t[]){0x21, 0x0f}, 2);
  reads_varints(25, 5, 5, (const int64_t[]){0xe4, 1}, 2, (const uint8_t[]){0xe4, 1}, 2);
}

static void float_data_in_pieces(void **state) {
  (void)state;
  const float head[] = {1, 2};
  base_text t = message(1, 1, (const int64_t[]){3});
  fmt_put_bytes(&t, 4, head, sizeof head);
  fmt_put_float(&t, 4, 3);
  fmt_tensor_proto p;
  assert_int_equal(finish(&t, &p, NULL), TD_OK);
  assert_memory_equal(p.tensor.data, ((const float[]){1, 2, 3}), 12);
}

static void strings(void **state) {
  (void)state;
  base_text t = message(8, 1, (const int64_t[]){2});
  fmt_put_str(&t, 6, "");
  fmt_put_str(&t, 6, "two");
  fmt_tensor_proto p;
  assert_int_equal(finish(&t, &p, NULL), TD_OK);
  const base_str *s = p.tensor.data;
  assert_int_equal(s[0].length, 0);
  assert_true(base_str_is(s[1], "two"));
}

static void bools_become_0_or_1(void **state) {
  (void)state;
  base_text t = message(9, 1, (const int64_t[]){3});
  fmt_put_bytes(&t, 9, "\0\1\7", 3);
  fmt_tensor_proto p;
  assert_int_equal(finish(&t, &p, NULL), TD_OK);
  assert_memory_equal(p.tensor.data, "\0\1\1", 3);
}

static void external_data_is_named(void **state) {
  (void)state;
  base_text t = message(1, 1, (const int64_t[]){1 << 20});
  const char *const entries[][2] = {{"location", "w.bin"}, {"offset", "4096"}, {"length", "4194304"}};
  for (int i = 0; i < 3; i++) {
    base_text e = new_text();
    fmt_put_str(&e, 1, entries[i][0]);
    fmt_put_str(&e, 2, entries[i][1]);
    fmt_put_bytes(&t, 13, e.at, e.length);
    base_text_free(&e);
  }
  fmt_put_int(&t, 14, 1);
  fmt_tensor_proto p;
  assert_int_equal(finish(&t, &p, NULL), TD_OK);
  assert_true(p.is_external && p.tensor.data == NULL);
  assert_true(base_str_is(p.external.location, "w.bin"));
  assert_int_equal(p.external.offset, 4096);
  assert_int_equal(p.external.length, 4194304);
  assert_int_equal(p.bytes, 4194304);
}

static void refuses(td_status want, const char *text, int64_t element, int32_t rank, const int64_t *dims,
                    size_t raw_bytes) {
  base_text t = message(element, rank, dims);
  if (raw_bytes != SIZE_MAX) fmt_put_bytes(&t, 9, "12345678", raw_bytes);
  fmt_tensor_proto p;
  td_error err = {0};
  assert_int_equal(finish(&t, &p, &err), want);
  assert_non_null(strstr(err.text, text));
  assert_string_equal(err.name, "tensor w");
}

static void refused_claims(void **state) {
  (void)state;
  const int64_t two[] = {2}, none[] = {-1}, huge[] = {INT64_MAX / 4, 8}, gone[] = {0, INT64_MAX, INT64_MAX};
  const int64_t nine[] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, much[] = {INT64_C(1) << 40};
  refuses(TD_BAD_FILE, "ask for 8 bytes", 1, 1, two, 7);
  refuses(TD_BAD_FILE, "there are 0", 1, 1, two, SIZE_MAX);
  refuses(TD_BAD_FILE, "there are 0", 7, 1, much, SIZE_MAX);
  refuses(TD_BAD_FILE, "is -1", 1, 1, none, 8);
  refuses(TD_BAD_FILE, "larger than memory", 1, 2, huge, 8);
  refuses(TD_BAD_FILE, "larger than memory", 1, 3, gone, 0);
  refuses(TD_UNSUPPORTED, "more than 8", 1, 9, nine, 4);
  refuses(TD_UNSUPPORTED, "complex", 14, 1, two, 8);
  refuses(TD_UNSUPPORTED, "element type 99", 99, 1, two, 8);
  refuses(TD_BAD_FILE, "no data type", 0, 1, two, 8);
  refuses(TD_BAD_FILE, "string_data", 8, 1, two, 8);
  base_text t = message(1, 1, two);
  fmt_put_bytes(&t, 3, "", 0);
  fmt_tensor_proto p;
  assert_int_equal(finish(&t, &p, NULL), TD_UNSUPPORTED);
  t = message(1, 1, two);
  fmt_put_bytes(&t, 9, "12345678", 8);
  fmt_put_float(&t, 4, 1);
  assert_int_equal(finish(&t, &p, NULL), TD_BAD_FILE);
}

static void empty_needs_no_data(void **state) {
  (void)state;
  base_text t = message(1, 2, (const int64_t[]){0, 4});
  fmt_tensor_proto p;
  assert_int_equal(finish(&t, &p, NULL), TD_OK);
  assert_non_null(p.tensor.data);
  assert_int_equal(base_tensor_numel(&p.tensor), 0);
}

static void dtypes_map_both_ways(void **state) {
  (void)state;
  for (td_dtype d = TD_F64; d < TD_DTYPE_COUNT; d++) assert_int_equal(fmt_onnx_dtype(fmt_onnx_element(d)), d);
  assert_int_equal(fmt_onnx_dtype(-1), TD_INVALID);
  assert_int_equal(fmt_onnx_dtype(INT64_MAX), TD_INVALID);
  assert_int_equal(fmt_onnx_element(TD_INVALID), 0);
}

/* optional(sequence(transposed f32 [2,3], strings [2])) */
static base_text nested_value(void) {
  static float values[] = {1, 2, 3, 4, 5, 6};
  static base_str words[] = {{"a", 1}, {"bc", 2}};
  base_value items[2] = {{.kind = BASE_TENSOR, .tensor = base_tensor_of(values, TD_F32, 2, (const int64_t[]){2, 3})},
                         {.kind = BASE_TENSOR, .tensor = base_tensor_of(words, TD_STRING, 1, (const int64_t[]){2})}};
  items[0].tensor.dims[0] = 3;
  items[0].tensor.dims[1] = 2;
  items[0].tensor.strides[0] = 1;
  items[0].tensor.strides[1] = 3;
  base_value list = {.kind = BASE_LIST, .list = {.items = items, .count = 2}};
  base_text t = new_text();
  fmt_put_value_proto(&t, "v", FMT_FORM_OPTIONAL, &list);
  return t;
}

static void values_round_trip(void **state) {
  (void)state;
  base_text t = nested_value();
  base_value v, nothing = {.kind = BASE_NOTHING};
  assert_int_equal(fmt_value_proto_read(arena, fmt_wire_of(t.at, t.length), FMT_FORM_OPTIONAL, &v, NULL), TD_OK);
  assert_int_equal(v.kind, BASE_LIST);
  assert_int_equal(v.list.count, 2);
  assert_memory_equal(v.list.items[0].tensor.data, ((const float[]){1, 4, 2, 5, 3, 6}), 24);
  assert_true(base_str_is(((const base_str *)v.list.items[1].tensor.data)[1], "bc"));
  base_text_free(&t);
  fmt_put_value_proto(&t, "v", FMT_FORM_OPTIONAL, &nothing);
  assert_int_equal(fmt_value_proto_read(arena, fmt_wire_of(t.at, t.length), FMT_FORM_OPTIONAL, &v, NULL), TD_OK);
  assert_int_equal(v.kind, BASE_NOTHING);
  base_text_free(&t);
}

static void depth_is_bounded(void **state) {
  (void)state;
  base_text t = new_text();
  for (int i = 0; i < 40; i++) {
    base_text outer = new_text();
    fmt_put_bytes(&outer, 5, t.at, t.length);
    base_text_free(&t);
    t = outer;
  }
  base_value v;
  assert_int_equal(fmt_value_proto_read(arena, fmt_wire_of(t.at, t.length), FMT_FORM_SEQUENCE, &v, NULL),
                   TD_UNSUPPORTED);
  base_text_free(&t);
}

static td_status read_nested(const td_allocator *allocator, const uint8_t *bytes, size_t size, td_error *err) {
  base_value v;
  base_arena *a = base_arena_new(allocator);
  if (!a) return base_no_memory(err, "arena");
  td_status status = fmt_value_proto_read(a, fmt_wire_of(bytes, size), FMT_FORM_OPTIONAL, &v, err);
  base_arena_free(a);
  return status;
}

static void damaged_values(void **state) {
  (void)state;
  base_text t = nested_value();
  read_damaged(read_nested, t.at, t.length);
  read_without_memory(read_nested, t.at, t.length);
  base_text_free(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(raw_data_is_a_view),   cmocka_unit_test(typed_fields),
      cmocka_unit_test(float_data_in_pieces), cmocka_unit_test(strings),
      cmocka_unit_test(bools_become_0_or_1),  cmocka_unit_test(external_data_is_named),
      cmocka_unit_test(refused_claims),       cmocka_unit_test(empty_needs_no_data),
      cmocka_unit_test(dtypes_map_both_ways), cmocka_unit_test(values_round_trip),
      cmocka_unit_test(depth_is_bounded),     cmocka_unit_test(damaged_values),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
