/* Tensors: walks, copies between strided views and packing, each against index arithmetic written out; calls. */
#include "test.h"

#include "base/base.h"

/* Element offset of the flat row-major index `flat`. */
static int64_t offset_of(const base_tensor *t, int64_t flat) {
  int64_t offset = 0;
  for (int32_t d = t->rank; d-- > 0;) {
    offset += flat % t->dims[d] * t->strides[d];
    flat /= t->dims[d];
  }
  return offset;
}

static base_tensor strided(void *data, td_dtype dtype, int32_t rank, const int64_t *dims, const int64_t *strides) {
  base_tensor t = base_tensor_of(data, dtype, rank, dims);
  for (int32_t d = 0; d < rank; d++) t.strides[d] = strides[d];
  return t;
}

static void strides_and_sizes(void **state) {
  (void)state;
  const int64_t dims[] = {2, 3, 4}, empty[] = {2, 0, 4};
  base_tensor t = base_tensor_of(NULL, TD_F16, 3, dims);
  const int64_t want[] = {12, 4, 1};
  assert_memory_equal(t.strides, want, sizeof want);
  assert_int_equal(base_tensor_numel(&t), 24);
  assert_int_equal(base_tensor_bytes(&t), 48);
  assert_true(base_tensor_contiguous(&t));
  t.strides[1] = 8;
  assert_false(base_tensor_contiguous(&t));
  base_tensor none = base_tensor_of(NULL, TD_F32, 3, empty), scalar = base_tensor_of(NULL, TD_F32, 0, NULL);
  assert_int_equal(base_tensor_numel(&none), 0);
  assert_true(base_tensor_contiguous(&none));
  assert_int_equal(base_tensor_numel(&scalar), 1);
  assert_true(base_tensor_contiguous(&scalar));
  const int64_t ones[] = {1, 5, 1}, odd_strides[] = {77, 1, 99};
  base_tensor one = strided(NULL, TD_F32, 3, ones, odd_strides); /* strides of dims of 1 say nothing */
  assert_true(base_tensor_contiguous(&one));
}

static void checked_counts(void **state) {
  (void)state;
  int64_t n;
  assert_true(base_numel(2, (const int64_t[]){3, 4}, &n) && n == 12);
  assert_true(base_numel(0, NULL, &n) && n == 1);
  assert_true(base_numel(2, (const int64_t[]){0, INT64_MAX}, &n) && n == 0);
  assert_false(base_numel(2, (const int64_t[]){2, INT64_MAX}, &n));
  assert_false(base_numel(2, (const int64_t[]){0, -1}, &n));
  assert_true(base_in_range(10, 5, 15) && base_in_range(15, 0, 15));
  assert_false(base_in_range(10, 6, 15) || base_in_range(16, 0, 15) || base_in_range(1, UINT64_MAX, 15));
}

static void walks_in_row_major_order(void **state) {
  (void)state;
  const int64_t dims[] = {3, 1, 4, 2};
  const int64_t transposed[] = {1, 0, 3, 12}, reversed[] = {-8, 0, 0, 1};
  base_tensor a = base_tensor_of(NULL, TD_F32, 4, dims), b = strided(NULL, TD_F32, 4, dims, transposed),
              c = strided(NULL, TD_F32, 4, dims, reversed);
  const int64_t *strides[] = {a.strides, b.strides, c.strides};
  base_walk w;
  base_walk_start(&w, 4, dims, 3, strides);
  assert_int_equal(w.count, 24);
  int64_t flat = 0;
  do {
    assert_int_equal(w.offset[0], flat);
    assert_int_equal(w.offset[1], offset_of(&b, flat));
    assert_int_equal(w.offset[2], offset_of(&c, flat));
    flat++;
  } while (base_walk_next(&w));
  assert_int_equal(flat, 24);
}

static void walks_rows(void **state) {
  (void)state;
  const int64_t dims[] = {2, 3, 5}, other[] = {1, 2, 6};
  const int64_t own[] = {15, 5, 1};
  const int64_t *strides[] = {own, other};
  base_walk w;
  int64_t length, step[2], rows = 0;
  base_walk_rows(&w, 3, dims, 2, strides, &length, step);
  assert_true(length == 5 && step[0] == 1 && step[1] == 6 && w.count == 6);
  do {
    assert_int_equal(w.offset[0], rows * 5);
    assert_int_equal(w.offset[1], rows / 3 + rows % 3 * 2);
    rows++;
  } while (base_walk_next(&w));
  assert_int_equal(rows, 6);
}

static void walks_of_nothing_and_of_scalars(void **state) {
  (void)state;
  const int64_t empty[] = {2, 0}, unit[] = {1, 1};
  const int64_t *strides[] = {unit};
  base_walk w;
  int64_t length, step[1];
  base_walk_start(&w, 2, empty, 1, strides);
  assert_int_equal(w.count, 0);
  base_walk_rows(&w, 2, empty, 1, strides, &length, step);
  assert_int_equal(w.count, 0);
  base_walk_start(&w, 0, NULL, 1, strides);
  assert_true(w.count == 1 && w.offset[0] == 0);
  assert_false(base_walk_next(&w));
  base_walk_rows(&w, 0, NULL, 1, strides, &length, step);
  assert_true(w.count == 1 && length == 1);
}

/* Every element size, from a permuted, a reversed and a broadcast view, into a dense and into a strided tensor. */
static void copies_between_views(void **state) {
  (void)state;
  const td_dtype dtypes[] = {TD_U8, TD_F16, TD_F32, TD_F64, TD_STRING};
  const int64_t dims[] = {3, 4, 5};
  const struct {
    int64_t strides[3], start;
  } views[] = {{{1, 3, 12}, 0}, {{20, 5, -1}, 4}, {{20, 0, 1}, 0}, {{20, 5, 1}, 0}};
  const int64_t wide[] = {40, 10, 2}; /* the destination: every second element */
  enum { SOURCE = 60, TARGET = 120 };
  static unsigned char source[SOURCE * sizeof(td_string)], dense[SOURCE * sizeof(td_string)],
      spread[TARGET * sizeof(td_string)];
  for (size_t i = 0; i < sizeof source; i++) source[i] = (unsigned char)(i * 31 + i / 256);
  for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
    size_t size = base_dtype(dtypes[k])->bits / 8;
    for (size_t v = 0; v < sizeof views / sizeof *views; v++) {
      base_tensor from = strided(source + (size_t)views[v].start * size, dtypes[k], 3, dims, views[v].strides);
      base_tensor to = strided(spread, dtypes[k], 3, dims, wide);
      memset(spread, 0xee, sizeof spread);
      base_tensor_pack(dense, &from);
      base_tensor_copy(&to, &from);
      for (int64_t flat = 0; flat < SOURCE; flat++) {
        const unsigned char *want = (const unsigned char *)from.data + offset_of(&from, flat) * (int64_t)size;
        assert_memory_equal(dense + flat * (int64_t)size, want, size);
        assert_memory_equal(base_at(&to, offset_of(&to, flat)), want, size);
        assert_int_equal(*((unsigned char *)base_at(&to, offset_of(&to, flat)) + size), 0xee);
      }
    }
  }
}

static void packed_types_copy_whole(void **state) {
  (void)state;
  const int64_t dims[] = {5};
  unsigned char from[3] = {0x21, 0x43, 0x05}, to[4] = {0, 0, 0, 0xee};
  base_tensor t = base_tensor_of(from, TD_U4, 1, dims);
  base_tensor_pack(to, &t);
  assert_memory_equal(to, from, 3);
  assert_int_equal(to[3], 0xee);
  const int64_t none[] = {0, 3};
  base_tensor empty = base_tensor_of(NULL, TD_F32, 2, none);
  base_tensor_pack(NULL, &empty);
}

static void describes_itself(void **state) {
  (void)state;
  const int64_t dims[] = {1, 3, 224, 224};
  char text[64], small[8];
  base_tensor t = base_tensor_of(NULL, TD_F32, 4, dims), scalar = base_tensor_of(NULL, TD_I64, 0, NULL);
  assert_string_equal(base_tensor_describe(&t, text, sizeof text), "f32[1,3,224,224]");
  assert_string_equal(base_tensor_describe(&scalar, text, sizeof text), "i64[]");
  assert_string_equal(base_tensor_describe(&t, small, sizeof small), "f32[1,3");
}

static void *keep_from_arena(void *memory, size_t bytes) { return base_arena_alloc(memory, bytes); }

static void outputs_are_defined_and_checked(void **state) {
  (void)state;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  base_value value = {0}, *outs[] = {&value, NULL};
  td_error err;
  base_call call = {
      .out = outs, .out_count = 2, .err = &err, .memory = arena, .keep = keep_from_arena, .scratch = keep_from_arena};
  const int64_t dims[] = {2, 3}, huge[] = {INT64_MAX, 3};
  assert_int_equal(base_call_define(&call, 0, TD_F32, 2, dims), TD_OK);
  assert_true(base_out(&call, 0) == &value.tensor && value.kind == BASE_TENSOR && value.tensor.data);
  assert_int_equal(base_call_define(&call, 1, TD_F32, 2, dims), TD_OK); /* nobody wants it */
  assert_int_equal(base_call_define(&call, 0, TD_F32, 2, huge), TD_BAD_ARGUMENT);
  assert_int_equal(base_call_define(&call, 0, TD_F32, BASE_MAX_RANK + 1, dims), TD_UNSUPPORTED);
  assert_non_null(base_call_scratch(&call, 0, 4));
  assert_null(base_call_scratch(&call, SIZE_MAX, 4));
  assert_null(base_in(&call, 0));
  base_arena_free(arena);
}

/* No elements, however large the other dimensions are: no product may overflow. */
static void huge_dimensions_of_nothing(void **state) {
  (void)state;
  static const int64_t huge = (int64_t)1 << 40;
  for (int32_t zero = 0; zero < 4; zero++) {
    int64_t dims[] = {huge, huge, huge, huge};
    dims[zero] = 0;
    base_tensor t = base_tensor_of(dims, TD_F32, 4, dims);
    assert_int_equal(base_tensor_numel(&t), 0);
    assert_true(base_tensor_contiguous(&t));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(strides_and_sizes),
      cmocka_unit_test(checked_counts),
      cmocka_unit_test(huge_dimensions_of_nothing),
      cmocka_unit_test(walks_in_row_major_order),
      cmocka_unit_test(walks_rows),
      cmocka_unit_test(walks_of_nothing_and_of_scalars),
      cmocka_unit_test(copies_between_views),
      cmocka_unit_test(packed_types_copy_whole),
      cmocka_unit_test(describes_itself),
      cmocka_unit_test(outputs_are_defined_and_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
