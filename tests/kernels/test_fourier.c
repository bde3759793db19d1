/* Fourier transforms on every level against plain sums in double: lengths by all the ways to do them, axes, strides,
 * rows that fill vectors and do not; errors below the bound of textbooks; rows that do not see each other; tables. */
/* ctest: threads slow */
#include "kernels/run_kernel.h"

#include <math.h>

#include "kernels/rows/rows.h"

enum { LEVELS = 4 };

/* x [outer, n, inner, parts], transformed along n. */
typedef struct shape {
  int64_t outer, n, inner;
  bool inverse, onesided;
  int64_t parts;
} shape;

/* complex; back; real to one side, to both; one side to real; real and back */
static const shape kinds[] = {{1, 0, 1, false, false, 2}, {1, 0, 1, true, false, 2}, {1, 0, 1, false, true, 1},
                              {1, 0, 1, false, false, 1}, {1, 0, 1, true, true, 2},  {1, 0, 1, true, false, 1}};

static shape shape_of(uint32_t kind, int64_t outer, int64_t n, int64_t inner) {
  shape s = kinds[kind];
  s.outer = outer;
  s.n = n;
  s.inner = inner;
  return s;
}

static int64_t in_size(const shape *s) { return s->inverse && s->onesided ? s->n / 2 + 1 : s->n; }
static int64_t out_size(const shape *s) { return !s->inverse && s->onesided ? s->n / 2 + 1 : s->n; }
static int64_t out_parts(const shape *s) { return s->inverse && s->onesided ? 1 : 2; }
static int64_t in_count(const shape *s) { return s->outer * in_size(s) * s->inner * s->parts; }
static int64_t out_count(const shape *s) { return s->outer * out_size(s) * s->inner * out_parts(s); }

/* Element k of row (o, i) of x in double; of half a spectrum also the other half. */
static kern_complex element(const shape *s, const float *x, int64_t o, int64_t i, int64_t k) {
  const bool mirrored = k >= in_size(s);
  const float *at = x + ((o * in_size(s) + (mirrored ? s->n - k : k)) * s->inner + i) * s->parts;
  const double im = s->parts == 2 ? (double)at[1] : 0;
  return (kern_complex){(double)at[0], mirrored ? -im : im};
}

static void plain_row(const shape *s, const float *x, int64_t o, int64_t i, double *y) {
  kern_complex *room = malloc((size_t)s->n * 4 * sizeof *room);
  assert_non_null(room);
  const kern_fourier_plain t = kern_fourier_open(s->n, s->inverse, room);
  for (int64_t k = 0; k < s->n; k++) t.in[k] = element(s, x, o, i, k);
  if (s->n > 64) kern_fourier_run(&t);
  for (int64_t k = 0; s->n <= 64 && k < s->n; k++) {
    t.out[k] = (kern_complex){0, 0};
    for (int64_t j = 0; j < s->n; j++) {
      const kern_complex w = t.turn[j * k % s->n], z = t.in[j];
      t.out[k].re += z.re * w.re - z.im * w.im;
      t.out[k].im += z.re * w.im + z.im * w.re;
    }
  }
  const double scale = s->inverse ? 1 / (double)s->n : 1;
  for (int64_t k = 0; k < out_size(s); k++) {
    double *to = y + ((o * out_size(s) + k) * s->inner + i) * out_parts(s);
    to[0] = t.out[k].re * scale;
    if (out_parts(s) == 2) to[1] = t.out[k].im * scale;
  }
  free(room);
}

static base_arena *arena;

/* A call of the kernel on x and y, dense; with a table or without. */
static run_kernel call_of(const kern_row *row, const shape *s, float *x, float *y, float *table) {
  static int64_t one = 1;
  const base_arg args[] = {ARG_BOOL("inverse", s->inverse), ARG_BOOL("onesided", s->onesided)};
  const int64_t x_dims[] = {s->outer, in_size(s), s->inner, s->parts},
                y_dims[] = {s->outer, out_size(s), s->inner, out_parts(s)};
  int64_t *length = base_new(arena, int64_t, 1);
  assert_non_null(length);
  *length = s->n;
  run_kernel k = {.row = row, .attrs = base_attrs_make(arena, args, 2), .out = base_tensor_of(y, TD_F32, 4, y_dims)};
  assert_non_null(k.attrs);
  k.in[KERN_DFT_X] = base_tensor_of(x, TD_F32, 4, x_dims);
  k.in[KERN_DFT_LENGTH] = base_tensor_of(length, TD_I64, 1, &one);
  k.in[KERN_DFT_AXIS] = base_tensor_of(&one, TD_I64, 1, &one);
  if (table) {
    const kern_fourier f = kern_fourier_of(s->n, kern_fourier_halves(s->n, s->parts, s->inverse, s->onesided));
    k.in[KERN_DFT_TABLE] = base_tensor_of(table, TD_F32, 1, &f.count);
  }
  return k;
}

static float *table_of(const shape *s) {
  const kern_fourier f = kern_fourier_of(s->n, kern_fourier_halves(s->n, s->parts, s->inverse, s->onesided));
  float *table = malloc((size_t)f.count * sizeof *table + 1);
  double *room = malloc((size_t)kern_fourier_room(&f) * sizeof *room + 1);
  assert_non_null(table);
  assert_non_null(room);
  kern_fourier_fill(&f, table, room);
  free(room);
  return table;
}

/* All rows of x, transformed in double. */
static double *plain_rows(const shape *s, const float *x) {
  double *y = malloc((size_t)out_count(s) * sizeof *y + 1);
  assert_non_null(y);
  for (int64_t r = 0; r < s->outer * s->inner; r++) plain_row(s, x, r / s->inner, r % s->inner, y);
  return y;
}

/* The error of y may be that of as many roundings as there are levels of butterflies: 7 u log2 n (Higham, Accuracy and
 * Stability of Numerical Algorithms, theorem 24.2), of a convolution those of two transforms and three products. */
static void expect_near(const shape *s, const double *expected, const float *y, const char *what) {
  const kern_fourier f = kern_fourier_of(s->n, kern_fourier_halves(s->n, s->parts, s->inverse, s->onesided));
  const double levels = (f.chirp ? 2 : 1) * log2((double)f.length) + 1 + f.half + 3 * f.chirp;
  for (int64_t r = 0; r < s->outer * s->inner; r++) {
    double error = 0, size = 0;
    for (int64_t k = 0; k < out_size(s) * out_parts(s); k++) {
      const int64_t at =
          ((r / s->inner * out_size(s) + k / out_parts(s)) * s->inner + r % s->inner) * out_parts(s) + k % out_parts(s);
      error += pow((double)y[at] - expected[at], 2);
      size += pow(expected[at], 2);
    }
    if (!(sqrt(error) <= 7 * 0x1p-24 * levels * sqrt(size)))
      fail_msg("%s: %lld elements, row %lld: off by %g of %g", what, (long long)s->n, (long long)r, sqrt(error),
               sqrt(size));
  }
}

/* On all levels; what they are held against is made once. */
static void check(const shape *s) {
  float *x = run_floats(in_count(s), (uint32_t)s->n), *table = table_of(s);
  double *expected = plain_rows(s, x);
  for (uint32_t level = 0; level < LEVELS; level++) {
    const kern_row *row = run_row(KERN_DFT, level);
    if (!row) continue;
    float *y = run_floats(out_count(s), 3);
    const run_kernel k = call_of(row, s, x, y, table);
    run_kernel_on(&k, 1);
    expect_near(s, expected, y, row->name);
    free(y);
  }
  free(expected);
  free(table);
  free(x);
}

static void test_lengths(void **state) {
  (void)state;
  static const int64_t more[] = {67,  81,  97,  100,  101,  125,  128,  210,  243,  250,  256,  400,  512,  625,
                                 729, 997, 999, 1000, 1001, 1024, 1155, 1331, 2048, 2187, 4096, 4098, 4099, 8190};
  for (int64_t i = 1; i <= 64 + (int64_t)(sizeof more / sizeof *more); i++)
    for (uint32_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
      const shape s = shape_of(kind, 1, i <= 64 ? i : more[i - 65], 1);
      check(&s);
    }
}

static void test_rows(void **state) {
  (void)state;
  static const int64_t lengths[] = {1, 7, 12, 37, 48, 74, 4104},
                       sides[][2] = {{17, 1}, {2, 3}, {1, 16}, {3, 33}, {0, 2}};
  for (uint32_t i = 0; i < 7 * 5 * 6; i++) {
    const shape s = shape_of(i % 6, sides[i / 6 % 5][0], lengths[i / 30], sides[i / 6 % 5][1]);
    check(&s);
  }
}

static void test_rows_do_not_see_each_other(void **state) {
  (void)state;
  static const int64_t lengths[] = {12, 37, 48, 64, 4104};
  for (uint32_t i = 0; i < LEVELS * 6 * 5; i++) {
    const kern_row *row = run_row(KERN_DFT, i % LEVELS);
    if (!row) continue;
    const shape all = shape_of(i / LEVELS % 6, 5, lengths[i / LEVELS / 6], 1),
                one = shape_of(i / LEVELS % 6, 1, all.n, 1);
    float *x = run_floats(in_count(&all), i), *y = run_floats(out_count(&all), 3),
          *alone = run_floats(out_count(&one), 4);
    const int64_t from = in_count(&one), to = out_count(&one);
    for (int64_t k = 0; k < from; k++) x[k] = NAN, x[2 * from + k] = INFINITY, x[3 * from + k] = 0;
    run_kernel k = call_of(row, &all, x, y, NULL);
    run_kernel_on(&k, 1);
    for (int64_t r = 1; r < 5; r += 3) {
      run_kernel single = call_of(row, &one, x + r * from, alone, NULL);
      run_kernel_on(&single, 1);
      assert_memory_equal(alone, y + r * to, (size_t)to * sizeof *y);
    }
    for (int64_t e = 0; e < to; e++) assert_true(y[3 * to + e] == 0);
    free(x);
    free(y);
    free(alone);
  }
}

/* Any strides of the operand, with a table or without: the same bits. */
static void test_strides_and_tables(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 2 * LEVELS * 6 * 3; i++) {
    const kern_row *row = run_row(KERN_DFT, i % LEVELS);
    if (!row) continue;
    const shape s = shape_of(i / LEVELS % 6, 3, (const int64_t[]){30, 37, 8206}[i / LEVELS / 6 % 3], 18);
    float *x = run_floats(in_count(&s), i), *y = run_floats(out_count(&s), 3), *again = run_floats(out_count(&s), 4),
          *turned = run_floats(2 * in_count(&s), 5), *table = table_of(&s);
    run_kernel k = call_of(row, &s, x, y, table);
    run_kernel_on(&k, 1);
    /* dimensions in another order, every other float: columns, and rows whose elements are as far apart as complex ones
     * are, but have their imaginary parts elsewhere */
    base_tensor t = k.in[KERN_DFT_X];
    static const int orders[][4] = {{3, 1, 0, 2}, {2, 0, 3, 1}};
    const int *order = orders[i / LEVELS / 6 / 3];
    for (int64_t step = 2, d = 3; d >= 0; step *= t.dims[order[d--]]) t.strides[order[d]] = step;
    for (int64_t e = 0; e < in_count(&s); e++) {
      int64_t rest = e, at = 0;
      for (int32_t d = 3; d >= 0; rest /= t.dims[d--]) at += rest % t.dims[d] * t.strides[d];
      turned[at] = x[e];
    }
    t.data = turned;
    k.in[KERN_DFT_X] = t;
    k.in[KERN_DFT_TABLE].data = NULL;
    k.out.data = again;
    run_kernel_on(&k, 1);
    assert_memory_equal(again, y, (size_t)out_count(&s) * sizeof *y);
    free(x);
    free(y);
    free(again);
    free(turned);
    free(table);
  }
}

static void test_any_workers(void **state) {
  (void)state;
  static const int64_t lengths[] = {8, 37, 200, 4104};
  for (uint32_t i = 0; i < LEVELS * 4; i++) {
    const kern_row *row = run_row(KERN_DFT, i % LEVELS);
    if (!row) continue;
    const shape s = shape_of(i % 6, 11, lengths[i / LEVELS], 13);
    float *x = run_floats(in_count(&s), i), *y = run_floats(out_count(&s), 3), *table = table_of(&s);
    run_kernel k = call_of(row, &s, x, y, table);
    run_kernel_on(&k, 1);
    run_expect_any_workers(&k);
    free(x);
    free(y);
    free(table);
  }
}

/* A table of another length is not read. */
static void test_wrong_table(void **state) {
  (void)state;
  const shape s = shape_of(0, 1, 48, 1), other = shape_of(0, 1, 47, 1);
  const kern_row *row = NULL;
  for (uint32_t level = 0; level < LEVELS && !row; level++) row = run_row(KERN_DFT, level);
  if (!row) return; /* the machine has no level with one */
  float *x = run_floats(in_count(&s), 1), *y = run_floats(out_count(&s), 3), *table = table_of(&other);
  run_kernel k = call_of(row, &s, x, y, table);
  k.in[KERN_DFT_TABLE].dims[0] = kern_fourier_of(47, false).count;
  base_value in[RUN_OPERANDS], out = {.kind = BASE_TENSOR, .tensor = k.out}, *outs = &out;
  const base_value *ins[RUN_OPERANDS];
  for (int i = 0; i < RUN_OPERANDS; i++) {
    in[i] = (base_value){.kind = BASE_TENSOR, .tensor = k.in[i]};
    ins[i] = k.in[i].data ? &in[i] : NULL;
  }
  td_error err = {0};
  const base_call call = {
      .attrs = k.attrs, .in = ins, .out = &outs, .in_count = RUN_OPERANDS, .out_count = 1, .err = &err};
  assert_int_equal(row->run(&call), TD_BAD_ARGUMENT);
  free(x);
  free(y);
  free(table);
}

static int open_arena(void **state) {
  (void)state;
  arena = base_arena_new(&base_libc_allocator);
  return arena ? 0 : -1;
}

static int close_arena(void **state) {
  (void)state;
  base_arena_free(arena);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lengths),
                                     cmocka_unit_test(test_rows),
                                     cmocka_unit_test(test_rows_do_not_see_each_other),
                                     cmocka_unit_test(test_strides_and_tables),
                                     cmocka_unit_test(test_any_workers),
                                     cmocka_unit_test(test_wrong_table)};
  run_only_workers_under_tsan();
  return cmocka_run_group_tests(tests, open_arena, close_arena);
}
