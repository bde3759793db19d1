/* Kernels: which one is chosen, and that each copy moves exactly its elements. */
#include "test.h"

#include "kernels/kernels.h"
#include "sys/sys.h"

static td_status nothing(const base_call *call) {
  (void)call;
  return TD_OK;
}

static void *scratch_of_arena(void *memory, size_t bytes) { return base_arena_alloc_aligned(memory, bytes, 64); }

static void the_widest_that_fits_is_chosen(void **state) {
  (void)state;
  const uint32_t avx2 = BASE_ISA_AVX2 | BASE_ISA_FMA, avx512 = avx2 | BASE_ISA_AVX512F;
  const kern_row table[] = {{"scalar", nothing, 0, KERN_COPY, 32, KERN_OF_BITS, 0, 1},
                            {"other", nothing, 0, KERN_COPY, 16, KERN_OF_PAIRS, 0, 1},
                            {"bytes", nothing, 0, KERN_COPY, 8, KERN_OF_FOURS, 0, 1},
                            {"avx2", nothing, BASE_ISA_AVX2 | BASE_ISA_FMA, KERN_COPY, 32, KERN_OF_F32, 0, 8},
                            {"avx512", nothing, BASE_ISA_AVX512F, KERN_COPY, 32, KERN_OF_F32, 0, 16}};
  enum { ROWS = sizeof table / sizeof *table };
  const struct {
    td_dtype dtype;
    uint32_t isa;
    const char *name;
  } cases[] = {{TD_F32, 0, "scalar"},
               {TD_F32, BASE_ISA_AVX2, "scalar"}, /* half of what a row needs */
               {TD_F32, avx2, "avx2"},
               {TD_F32, avx512, "avx512"},
               {TD_F32, UINT32_MAX, "avx512"},
               {TD_I32, UINT32_MAX, "scalar"}, /* the one that takes any type of its width */
               {TD_BF16, avx512, "other"},
               {TD_F16, avx512, NULL},
               {TD_U8, 0, "bytes"}, /* of either sign, but nothing else of 8 bits */
               {TD_F8E4M3FN, 0, NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const kern_row *row = kern_select_from(table, ROWS, KERN_COPY, cases[i].dtype, cases[i].isa);
    if (!cases[i].name) assert_null(row);
    else assert_string_equal(row->name, cases[i].name);
  }
  assert_null(kern_select_from(table, 0, KERN_COPY, TD_F32, 0));
  assert_null(kern_select_from(table, ROWS, KERN_FAMILY_COUNT, TD_F32, 0));
}

/* Rows of kernels.def that are RARE. */
static bool is_rare(int family) {
#define KERNEL(...)
#define WIDE(...)
#define VECTORS(...)
#define BYTES(...)
#define BF16(...)
#define TILES(...)
#define RARE(family, flags, function) family,
  static const kern_family rare[] = {
#include "kernels/kernels.def"
  };
#undef KERNEL
#undef WIDE
#undef VECTORS
#undef BYTES
#undef BF16
#undef TILES
#undef RARE
  for (size_t i = 0; i < sizeof rare / sizeof *rare; i++)
    if ((int)rare[i] == family) return true;
  return false;
}

static void every_dtype_can_be_copied_and_f32_has_every_family(void **state) {
  (void)state;
  for (int dtype = TD_INVALID + 1; dtype < TD_DTYPE_COUNT; dtype++)
    assert_non_null(kern_select(KERN_COPY, (td_dtype)dtype, 0));
  for (int family = 0; family < KERN_FAMILY_COUNT; family++) /* on the least of a machine; bytes and some need more */
    assert_true(kern_select((kern_family)family, TD_F32, is_rare(family) ? UINT32_MAX : BASE_ISA_VECTOR) ||
                kern_select((kern_family)family, TD_I8, UINT32_MAX));
  assert_null(kern_select(KERN_COPY, TD_INVALID, UINT32_MAX));
  const kern_row *row;
  for (uint32_t i = 0; (row = kern_row_at(i)); i++) {
    assert_int_equal(row->isa >> BASE_ISA_COUNT, 0);
    const td_dtype x = (td_dtype)kern_signature_of(row)->x;
    if (x == TD_INVALID) continue;
    assert_int_equal(row->bits, base_dtype(x)->bits);
    assert_true(kern_stores(row, x) && kern_stores(row, TD_F32));
    assert_int_equal(kern_stores(row, TD_F64), (row->flags & KERN_OTHER_OUT) != 0);
  }
}

/* Weights of a size that inference lets through are refused before they are read. */
static void norms_refuse_weights_that_do_not_fit(void **state) {
  (void)state;
  static const kern_family families[] = {KERN_LAYER_NORM, KERN_RMS_NORM, KERN_GROUP_NORM};
  const base_arg rows[] = {ARG_INT("axis", -1), ARG_FLOAT("eps", 0)};
  const base_arg groups[] = {ARG_INT("num_groups", 1), ARG_FLOAT("eps", 0),   ARG_BOOL("channels_last", true),
                             ARG_STR("act", "none"),   ARG_FLOAT("act_a", 0), ARG_FLOAT("act_b", 0)};
  float data[6] = {1, 2, 3, 4, 5, 6}, result[6];
  base_arena *arena = base_arena_new(&base_libc_allocator);
  sys_machine machine;
  sys_machine_read(&machine);
  for (int f = 0; f < 3; f++)
    for (int64_t length = 2; length <= 4; length++) {
      const kern_row *row = kern_select(families[f], TD_F32, machine.isa | BASE_ISA_VECTOR);
      td_error err;
      if (!row) continue;
      const base_value in[] = {
          {.kind = BASE_TENSOR, .tensor = base_tensor_of(data, TD_F32, 2, (int64_t[]){2, 3})},
          {.kind = BASE_TENSOR, .tensor = base_tensor_of(data, TD_F32, 1, &length)},
      };
      base_value out = {.kind = BASE_TENSOR, .tensor = base_tensor_of(result, TD_F32, 2, (int64_t[]){2, 3})};
      const base_value *ins[] = {&in[0], &in[1]};
      base_value *outs[] = {&out};
      const base_call call = {.attrs = f < 2 ? base_attrs_make(arena, rows, 2) : base_attrs_make(arena, groups, 6),
                              .in = ins,
                              .out = outs,
                              .in_count = 2,
                              .out_count = 1,
                              .err = &err,
                              .memory = arena,
                              .scratch = scratch_of_arena};
      assert_int_equal(row->run(&call), length == 3 ? TD_OK : TD_BAD_ARGUMENT);
    }
  base_arena_free(arena);
}

/* Runs the chosen kernel on from -> to. */
static void copy(const base_tensor *to, const base_tensor *from) {
  base_value in = {.kind = BASE_TENSOR, .tensor = *from}, out = {.kind = BASE_TENSOR, .tensor = *to};
  const base_value *ins[] = {&in};
  base_value *outs[] = {&out};
  base_call call = {.in = ins, .out = outs, .in_count = 1, .out_count = 1};
  assert_int_equal(kern_select(KERN_COPY, from->dtype, 0)->run(&call), TD_OK);
}

/* Byte `b` of element `i`. */
static uint8_t byte_of(int64_t i, size_t b) { return (uint8_t)(i * 31 + (int64_t)b * 7 + 1); }

enum { ROOM = 24 * 24 * 16 };

/* A view of [5, 3, 4] elements at any address: transposed, reversed, broadcast, with gaps. */
static const struct {
  int64_t strides[3], first;
} views[] = {{{12, 4, 1}, 0}, {{1, 5, 15}, 0}, {{12, -4, 1}, 8}, {{24, 8, 2}, 0},
             {{0, 0, 0}, 3},  {{4, 0, 1}, 0},  {{12, 4, -1}, 3}};

static void elements_move_between_any_strides(void **state) {
  (void)state;
  static const td_dtype dtypes[] = {TD_U8, TD_F16, TD_F32, TD_I64, TD_STRING};
  const int64_t dims[] = {5, 3, 4};
  for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++)
    for (size_t f = 0; f < sizeof views / sizeof *views; f++)
      for (size_t g = 0; g < 4; g++) { /* outputs do not repeat elements */
        static uint8_t from_bytes[ROOM + 1], to_bytes[ROOM + 1], wanted[ROOM + 1];
        size_t size = base_dtype(dtypes[t])->bits / 8u;
        for (int64_t i = 0; i < 24 * 24; i++)
          for (size_t b = 0; b < size; b++) from_bytes[1 + (size_t)i * size + b] = byte_of(i, b);
        memset(to_bytes, 0xee, sizeof to_bytes);
        memset(wanted, 0xee, sizeof wanted);
        base_tensor from = base_tensor_of(from_bytes + 1 + (size_t)views[f].first * size, dtypes[t], 3, dims);
        base_tensor to = base_tensor_of(to_bytes + 1 + (size_t)views[g].first * size, dtypes[t], 3, dims);
        memcpy(from.strides, views[f].strides, sizeof views[f].strides);
        memcpy(to.strides, views[g].strides, sizeof views[g].strides);
        copy(&to, &from);
        for (int64_t i = 0; i < 60; i++) {
          int64_t at[] = {i / 12, i / 4 % 3, i % 4}, a = views[f].first, b = views[g].first;
          for (int d = 0; d < 3; d++) {
            a += at[d] * views[f].strides[d];
            b += at[d] * views[g].strides[d];
          }
          memcpy(wanted + 1 + (size_t)b * size, from_bytes + 1 + (size_t)a * size, size);
        }
        assert_memory_equal(to_bytes, wanted, sizeof wanted);
      }
}

/* Planes of bytes become pixels, of lines with a gap behind them, too; nothing beside the result is written. */
static void planes_become_pixels(void **state) {
  (void)state;
  enum { HEIGHT = 3, MOST_WIDTH = 17, MOST_COLOURS = 5, GAP = 2 };
  static const int64_t widths[] = {0, 1, 2, 3, MOST_WIDTH};
  for (int64_t colours = 1; colours <= MOST_COLOURS; colours++)
    for (size_t i = 0; i < 2 * sizeof widths / sizeof *widths; i++) {
      const int64_t width = widths[i / 2], pitch = width + (int64_t)(i % 2) * GAP, dims[] = {2, HEIGHT, width, colours};
      uint8_t planes[2 * MOST_COLOURS * HEIGHT * (MOST_WIDTH + GAP)];
      uint8_t got[2 * HEIGHT * MOST_WIDTH * MOST_COLOURS + 8], wanted[sizeof got];
      for (size_t k = 0; k < sizeof planes; k++) planes[k] = byte_of((int64_t)k, 0);
      memset(got, 0xee, sizeof got);
      memset(wanted, 0xee, sizeof wanted);
      base_tensor from = base_tensor_of(planes, TD_U8, 4, dims);
      const int64_t strides[] = {colours * HEIGHT * pitch, pitch, 1, HEIGHT * pitch};
      memcpy(from.strides, strides, sizeof strides);
      const base_tensor to = base_tensor_of(got, TD_U8, 4, dims), other = base_tensor_of(wanted, TD_U8, 4, dims);
      copy(&to, &from);
      base_tensor_copy(&other, &from);
      assert_memory_equal(got, wanted, sizeof got);
    }
}

/* Rows and transpositions about the sizes of tiles and blocks, at every level of this machine. */
static void permute_at_every_level(td_dtype type) {
  static const int64_t shapes[][3] = {{3, 37, 70}, {1, 16, 16}, {130, 5, 33}, {2, 600, 17}, {64, 64, 1}, {40, 2, 900}};
  static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  enum { MOST = 72000 };
  static float data[MOST], got[MOST], wanted[MOST];
  uint32_t count;
  sys_machine machine;
  sys_cpu_read(&machine);
  const kern_level *levels = kern_levels(&count);
  for (int i = 0; i < MOST; i++)
    if (type == TD_F32) data[i] = (float)i;
    else ((uint8_t *)data)[i] = (uint8_t)(i ^ i >> 8);
  for (uint32_t l = 0; l < count * 36; l++) {
    const int64_t *dims = shapes[l / 6 % 6];
    const int *order = orders[l % 6];
    base_tensor dense = base_tensor_of(data, type, 3, dims), from = dense;
    for (int i = 0; i < 3; i++) from.dims[i] = dense.dims[order[i]], from.strides[i] = dense.strides[order[i]];
    base_tensor to = base_tensor_of(got, type, 3, from.dims), other = base_tensor_of(wanted, type, 3, from.dims);
    const kern_level *level = &levels[l / 36];
    if (base_isa_lacks(machine.isa, level->isa)) continue;
    base_value in = {.kind = BASE_TENSOR, .tensor = from}, out = {.kind = BASE_TENSOR, .tensor = to};
    const base_value *ins[] = {&in};
    base_value *outs[] = {&out};
    base_call call = {.in = ins, .out = outs, .in_count = 1, .out_count = 1};
    memset(got, 0xee, sizeof got);
    assert_int_equal(kern_select(KERN_COPY, type, level->isa)->run(&call), TD_OK);
    base_tensor_copy(&other, &from);
    assert_memory_equal(got, wanted, base_tensor_bytes(&to));
    int64_t elements = base_tensor_numel(&to);
    out.tensor = base_tensor_of(got, type, 1, &elements);
    memset(got, 0xee, sizeof got);
    const kern_row *reshape = kern_select(KERN_RESHAPE, type, level->isa);
    if (!reshape) continue; /* one lane takes the plain loops */
    assert_int_equal(reshape->run(&call), TD_OK);
    assert_memory_equal(got, wanted, base_tensor_bytes(&to));
  }
}

static void permutations_move_at_every_level(void **state) {
  (void)state;
  permute_at_every_level(TD_F32);
  permute_at_every_level(TD_U8);
}

static void small_shapes_and_packed_types(void **state) {
  (void)state;
  float one = 5, to = 0;
  base_tensor from = base_tensor_of(&one, TD_F32, 0, NULL), into = base_tensor_of(&to, TD_F32, 0, NULL);
  copy(&into, &from);
  assert_true(to == 5);
  const int64_t none[] = {2, 0};
  base_tensor empty = base_tensor_of(NULL, TD_F32, 2, none);
  copy(&empty, &empty);
  base_tensor gaps = empty;
  gaps.strides[0] = 7;
  copy(&empty, &gaps);
  uint8_t nibbles[2] = {0x21, 0x03}, got[2] = {0, 0};
  const int64_t three[] = {3};
  base_tensor packed = base_tensor_of(nibbles, TD_I4, 1, three), copied = base_tensor_of(got, TD_I4, 1, three);
  copy(&copied, &packed);
  assert_memory_equal(got, nibbles, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_widest_that_fits_is_chosen),
      cmocka_unit_test(every_dtype_can_be_copied_and_f32_has_every_family),
      cmocka_unit_test(norms_refuse_weights_that_do_not_fit),
      cmocka_unit_test(elements_move_between_any_strides),
      cmocka_unit_test(planes_become_pixels),
      cmocka_unit_test(permutations_move_at_every_level),
      cmocka_unit_test(small_shapes_and_packed_types),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
