/* KERN_GATHER with an index that says once where a whole row is: expanded along the last axis. That others give what
 * the reference gives, tests/ops/test_operators.c sees. */
#include "kernels/run_kernel.h"

enum { SAMPLES = 3, PLACES = 40, PICKED = 5, WIDE = 1100 /* more than a piece */ };

/* x[i][k][c] = 10000 i + 100 k + c / WIDE, whatever its strides. */
static float element(int64_t i, int64_t k, int64_t c) { return (float)(10000 * i + 100 * k) + (float)c / WIDE; }

static void check(const base_attrs *attrs, base_tensor x, int64_t width, uint32_t workers) {
  static float y[SAMPLES * PICKED * WIDE];
  int64_t at[SAMPLES * PICKED];
  const int64_t dims[] = {SAMPLES, PICKED, width};
  base_tensor index = base_tensor_of(at, TD_I64, 3, dims);
  index.strides[0] = PICKED;
  index.strides[1] = 1;
  index.strides[2] = 0;
  for (int64_t i = 0; i < SAMPLES * PICKED; i++) at[i] = i * 7 % PLACES - (i % 2 ? PLACES : 0);
  for (int64_t i = 0; i < SAMPLES; i++)
    for (int64_t k = 0; k < PLACES; k++)
      for (int64_t c = 0; c < width; c++)
        ((float *)x.data)[i * x.strides[0] + k * x.strides[1] + c * x.strides[2]] = element(i, k, c);
  const run_kernel run = {.row = run_row(KERN_GATHER, 0),
                          .attrs = attrs,
                          .in = {x, index},
                          .out = base_tensor_of(y, TD_F32, 3, dims),
                          .in_count = 2};
  run_kernel_on(&run, workers);
  for (int64_t i = 0; i < SAMPLES * PICKED * width; i++) {
    const int64_t told = i / width, place = told * 7 % PLACES;
    assert_true(y[i] == element(told / PICKED, place, i % width));
  }
}

static void rows_that_one_index_tells_are_whole(void **state) {
  (void)state;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  const base_arg args[] = {ARG_INT("dim", 1)};
  const base_attrs *attrs = base_attrs_make(arena, args, 1);
  float *memory = run_floats(SAMPLES * PLACES * WIDE, 1);
  for (int64_t width = 1; width <= WIDE; width += WIDE / 3)
    for (uint32_t workers = 1; workers <= 3; workers++) {
      const int64_t dims[] = {SAMPLES, PLACES, width};
      base_tensor x = base_tensor_of(memory, TD_F32, 3, dims);
      check(attrs, x, width, workers);
      x.strides[2] = SAMPLES * PLACES; /* the last axis is the outermost */
      x.strides[0] = PLACES;
      x.strides[1] = 1;
      check(attrs, x, width, workers);
    }
  free(memory);
  base_arena_free(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_that_one_index_tells_are_whole)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
