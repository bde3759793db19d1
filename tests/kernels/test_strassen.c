/* ctest: threads */
/* KERN_LINEAR by Strassen's recursion: products of small integers are exact, those of floats as near as said in
 * docs/performance.md, and neither the batch, nor a pitch, nor the number of workers changes a bit. */
#include "kernels/run_kernel.h"

#include <math.h>

#include "kernels/epilogue.h"
#include "kernels/products/pack.h"

typedef struct problem {
  int64_t batch, rows, k, n;
} problem;

/* Even and odd rows, two bands, several blocks of k, few and many groups of panels. */
static const problem problems[] = {
    {1, 64, 192, 192}, {2, 67, 224, 256}, {1, 401, 192, 192}, {1, 65, 1664, 192}, {2, 64, 192, 1056}};
enum { PROBLEMS = sizeof problems / sizeof *problems, GAP = 9 };

typedef struct layer {
  run_kernel k;
  base_arena *arena;
  float *x, *w, *packed, *bias, *residual, *y;
} layer;

/* Floats in [-1, 1), or whole numbers in [-4, 4). */
static float *numbers(int64_t count, uint32_t seed, bool whole) {
  float *x = run_floats(count, seed);
  for (int64_t i = 0; whole && i < count; i++) x[i] = floorf(x[i] * 4);
  return x;
}

static layer make_layer(const kern_row *row, const problem *p, bool whole) {
  layer l = {.arena = base_arena_new(&base_libc_allocator)};
  const base_arg args[] = {ARG_BOOL("trans_w", 0),  ARG_INT("n", p->n),        ARG_INT("panel", row->lanes),
                           ARG_BOOL("strassen", 1), ARG_STR("act", "relu"),    ARG_FLOAT("act_a", 0),
                           ARG_FLOAT("act_b", 0),   ARG_BOOL("act_late", 1),   {.name = "result"},
                           ARG_BOOL("in_front", 0), ARG_INTS("chain", NULL, 0)};
  const int64_t x[] = {p->batch, p->rows, p->k}, y[] = {p->batch, p->rows, p->n}, m = p->batch * p->rows;
  size_t count;
  assert_true(kern_pack_count(p->k, p->n, row->lanes, &count));
  const int64_t packed = (int64_t)count;
  l.x = numbers(m * p->k, 1, whole);
  l.w = numbers(p->k * p->n, 2, whole);
  l.bias = numbers(p->n, 3, whole);
  l.residual = numbers(m * p->n, 4, whole);
  l.y = run_floats(m * p->n, 5);
  l.packed = run_floats(packed, 6);
  kern_pack(l.packed, &(kern_matrix){l.w, p->k, p->n, p->n, 1}, NULL, row->lanes, 0,
            (p->n + row->lanes - 1) / row->lanes);
  l.k = (run_kernel){.row = row,
                     .attrs = base_attrs_make(l.arena, args, sizeof args / sizeof *args),
                     .out = base_tensor_of(l.y, TD_F32, 3, y)};
  l.k.in[0] = base_tensor_of(l.x, TD_F32, 3, x);
  l.k.in[1] = base_tensor_of(l.packed, TD_F32, 1, &packed);
  l.k.in[KERN_IN_BIAS] = base_tensor_of(l.bias, TD_F32, 1, &p->n);
  l.k.in[KERN_IN_RESIDUAL] = base_tensor_of(l.residual, TD_F32, 3, y);
  return l;
}

static void free_layer(layer *l) {
  base_arena_free(l->arena);
  float *const owned[] = {l->x, l->w, l->packed, l->bias, l->residual, l->y};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
}

/* Row `row` of the output in double. */
static void plain_row(const layer *l, const problem *p, int64_t row, double *to) {
  for (int64_t j = 0; j < p->n; j++) to[j] = (double)l->bias[j] + (double)l->residual[row * p->n + j];
  for (int64_t k = 0; k < p->k; k++)
    for (int64_t j = 0; j < p->n; j++) to[j] += (double)l->x[row * p->k + k] * (double)l->w[k * p->n + j];
  for (int64_t j = 0; j < p->n; j++) to[j] = to[j] > 0 ? to[j] : 0;
}

/* Root mean square of the error over that of the output. */
static double error_of(const layer *l, const problem *p) {
  double error = 0, size = 0, *row = malloc((size_t)p->n * sizeof *row);
  assert_non_null(row);
  for (int64_t r = 0; r < p->batch * p->rows; r++) {
    plain_row(l, p, r, row);
    for (int64_t j = 0; j < p->n; j++) {
      double d = (double)l->y[r * p->n + j] - row[j];
      error += d * d;
      size += row[j] * row[j];
    }
  }
  free(row);
  return sqrt(error / size);
}

static void for_each(void (*check)(const kern_row *row, const problem *p)) {
  uint32_t levels;
  kern_levels(&levels);
  for (uint32_t i = 0; i < levels * PROBLEMS; i++) {
    const kern_row *row = run_row(KERN_LINEAR, i / PROBLEMS);
    if (row) check(row, &problems[i % PROBLEMS]);
  }
}

static void check_error(const kern_row *row, const problem *p) {
  for (int whole = 0; whole < 2; whole++) {
    layer l = make_layer(row, p, whole);
    run_kernel_on(&l.k, 1);
    double error = error_of(&l, p);
    if (error > (whole ? 0 : 1.2e-6))
      fail_msg("%s: %d x %d x %d: error %g", row->name, (int)p->rows, (int)p->k, (int)p->n, error);
    free_layer(&l);
  }
}

static void check_neighbours(const kern_row *row, const problem *p) {
  layer l = make_layer(row, p, false);
  run_kernel_on(&l.k, 1);
  int64_t last = (p->batch - 1) * p->rows;
  float *alone = run_floats(p->rows * p->n, 7);
  run_kernel one = l.k;
  one.in[0].dims[0] = one.out.dims[0] = one.in[KERN_IN_RESIDUAL].dims[0] = 1;
  one.in[0].data = l.x + last * p->k;
  one.in[KERN_IN_RESIDUAL].data = l.residual + last * p->n;
  one.out.data = alone;
  run_kernel_on(&one, 1);
  assert_memory_equal(alone, l.y + last * p->n, (size_t)(p->rows * p->n) * sizeof *alone);
  free(alone);
  free_layer(&l);
}

static void check_workers(const kern_row *row, const problem *p) {
  layer l = make_layer(row, p, false);
  run_kernel_on(&l.k, 1);
  run_expect_any_workers(&l.k);
  free_layer(&l);
}

/* [batch, rows, columns] with GAP floats behind each row. */
static float *spread(base_tensor *t) {
  int64_t rows = t->dims[0] * t->dims[1], columns = t->dims[2], pitch = columns + GAP;
  float *to = run_floats(rows * pitch, 9);
  for (int64_t r = 0; r < rows; r++)
    memcpy(to + r * pitch, (float *)t->data + r * columns, (size_t)columns * sizeof *to);
  t->data = to;
  t->strides[1] = pitch;
  t->strides[0] = t->dims[1] * pitch;
  return to;
}

static void check_pitch(const kern_row *row, const problem *p) {
  layer l = make_layer(row, p, false);
  run_kernel pitched = l.k;
  float *const spaced[] = {spread(&pitched.in[0]), spread(&pitched.in[KERN_IN_RESIDUAL]), spread(&pitched.out)};
  int64_t rows = p->batch * p->rows, pitch = p->n + GAP;
  float *before = run_floats(rows * pitch, 9);
  run_kernel_on(&l.k, 1);
  run_kernel_on(&pitched, 1);
  for (int64_t r = 0; r < rows; r++) {
    assert_memory_equal(spaced[2] + r * pitch, l.y + r * p->n, (size_t)p->n * sizeof *before);
    assert_memory_equal(spaced[2] + r * pitch + p->n, before + r * pitch + p->n, GAP * sizeof *before);
  }
  for (int i = 0; i < 3; i++) free(spaced[i]);
  free(before);
  free_layer(&l);
}

static void whole_numbers_are_exact_and_floats_near(void **state) { (void)state, for_each(check_error); }
static void samples_do_not_see_their_neighbours(void **state) { (void)state, for_each(check_neighbours); }
static void workers_change_nothing(void **state) { (void)state, for_each(check_workers); }
static void rows_can_have_a_pitch(void **state) { (void)state, for_each(check_pitch); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whole_numbers_are_exact_and_floats_near),
      cmocka_unit_test(samples_do_not_see_their_neighbours),
      cmocka_unit_test(workers_change_nothing),
      cmocka_unit_test(rows_can_have_a_pitch),
  };
  run_only_workers_under_tsan();
  return cmocka_run_group_tests_name("strassen", tests, NULL, NULL);
}
