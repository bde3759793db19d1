/* KERN_GRID_SAMPLE over operands of other strides: the bits are those of dense ones; and at positions of f64. That
 * dense ones give what the reference gives, tests/ops/test_operators.c sees. */
#include "kernels/run_kernel.h"

#include "ops/ops.h"

#include <math.h>

enum { SAMPLES = 2, CHANNELS = 37, HEIGHT = 5, WIDTH = 6, OUT_HEIGHT = 7, OUT_WIDTH = 3 };

typedef struct fixture {
  base_arena *arena;
  const ir_op *op;
} fixture;

static const base_attrs *attrs_of(const fixture *f, const char *mode, const char *padding) {
  const base_arg args[] = {ARG_STR("mode", mode), ARG_STR("padding", padding)};
  const base_attrs *attrs;
  td_error err;
  assert_int_equal(ir_make_attrs(f->arena, f->op, args, 2, &attrs, &err), TD_OK);
  return attrs;
}

/* The elements of `t` as they lie after a permutation: order[i] is the dimension that comes i-th in memory. */
static base_tensor permuted(const fixture *f, const base_tensor *t, const int32_t *order) {
  base_tensor made = *t;
  made.data = base_arena_alloc_aligned(f->arena, base_tensor_bytes(t), 64);
  assert_non_null(made.data);
  int64_t step = 1;
  for (int32_t i = t->rank; i-- > 0; step *= t->dims[order[i]]) made.strides[order[i]] = step;
  base_tensor_copy(&made, t);
  return made;
}

/* The same image from its last row to its first. */
static base_tensor turned_over(const fixture *f, const base_tensor *t) {
  base_tensor made =
      base_tensor_of(base_arena_alloc_aligned(f->arena, base_tensor_bytes(t), 64), t->dtype, t->rank, t->dims);
  assert_non_null(made.data);
  made.data = base_at(&made, (HEIGHT - 1) * made.strides[2]);
  made.strides[2] = -made.strides[2];
  base_tensor_copy(&made, t);
  return made;
}

static void strides_change_no_bit(void **state) {
  const fixture *f = *state;
  static const char *const modes[] = {"nearest", "linear", "cubic"}, *const paddings[] = {"zeros", "border",
                                                                                          "reflection"};
  static const int32_t last[] = {0, 2, 3, 1}, coordinates_first[] = {3, 0, 2, 1};
  const int64_t image[] = {SAMPLES, CHANNELS, HEIGHT, WIDTH}, places[] = {SAMPLES, OUT_HEIGHT, OUT_WIDTH, 2},
                result[] = {SAMPLES, CHANNELS, OUT_HEIGHT, OUT_WIDTH};
  float *x = run_floats(SAMPLES * CHANNELS * HEIGHT * WIDTH, 1),
        *grid = run_floats(SAMPLES * OUT_HEIGHT * OUT_WIDTH * 2, 2);
  float *want = run_floats(SAMPLES * CHANNELS * OUT_HEIGHT * OUT_WIDTH, 3),
        *got = run_floats(SAMPLES * CHANNELS * OUT_HEIGHT * OUT_WIDTH, 4);
  const base_tensor dense = base_tensor_of(x, TD_F32, 4, image), dense_grid = base_tensor_of(grid, TD_F32, 4, places);
  const base_tensor images[] = {permuted(f, &dense, last), turned_over(f, &dense)},
                    grids[] = {permuted(f, &dense_grid, coordinates_first), dense_grid};
  for (int i = 0; i < SAMPLES * OUT_HEIGHT * OUT_WIDTH * 2; i++) grid[i] *= 1.5f; /* some lie outside */
  base_tensor_copy(&grids[0], &dense_grid);
  for (int m = 0; m < 9; m++) {
    run_kernel k = {.row = kern_select(KERN_GRID_SAMPLE, TD_F32, 0),
                    .attrs = attrs_of(f, modes[m % 3], paddings[m / 3]),
                    .in = {dense, dense_grid},
                    .out = base_tensor_of(want, TD_F32, 4, result)};
    run_kernel_on(&k, 1);
    for (int i = 0; i < 2; i++) {
      k.in[0] = images[i];
      k.in[1] = grids[i];
      k.out.data = got;
      run_kernel_on(&k, 1);
      assert_memory_equal(got, want, base_tensor_bytes(&k.out));
    }
  }
  free(x), free(grid), free(want), free(got);
}

/* On a line of 0, 1, 2 ... the value is the position; a position cut to f32 is 1e-5 off. */
static void positions_of_f64(void **state) {
  const fixture *f = *state;
  enum { LENGTH = 1001 };
  double line[LENGTH], at[] = {1.0 / 3, 0}, y = 0;
  for (int i = 0; i < LENGTH; i++) line[i] = i;
  run_kernel k = {.row = kern_select(KERN_GRID_SAMPLE, TD_F64, 0),
                  .attrs = attrs_of(f, "linear", "zeros"),
                  .in = {base_tensor_of(line, TD_F64, 4, (int64_t[]){1, 1, 1, LENGTH}),
                         base_tensor_of(at, TD_F64, 4, (int64_t[]){1, 1, 1, 2})},
                  .out = base_tensor_of(&y, TD_F64, 4, (int64_t[]){1, 1, 1, 1})};
  run_kernel_on(&k, 1);
  assert_true(fabs(y - ((at[0] + 1) * LENGTH - 1) / 2) < 1e-9);
}

static int setup(void **state) {
  static fixture f;
  f.arena = base_arena_new(&base_libc_allocator);
  f.op = ir_opset_find(ops_set(f.arena), "td::grid_sample");
  assert_non_null(f.op);
  *state = &f;
  return 0;
}

static int teardown(void **state) {
  base_arena_free(((fixture *)*state)->arena);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(strides_change_no_bit), cmocka_unit_test(positions_of_f64)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
