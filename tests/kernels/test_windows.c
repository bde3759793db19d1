/* ctest: threads */
/* KERN_MAX_POOL and KERN_AVG_POOL against plain loops: channels of less than a vector and of several, windows beside
 * each other and at an image's edges. Neither the batch nor the number of workers changes a bit. */
#include "kernels/run_kernel.h"

#include "kernels/rows/rows.h"

#include <math.h>

typedef struct problem {
  int64_t batch, height, width, channels, kernel, stride, begin, end, dilation;
} problem;

static const problem problems[] = {
    {2, 12, 13, 8, 2, 2, 0, 0, 1},  {1, 11, 24, 10, 3, 2, 1, 1, 1},  {3, 9, 40, 16, 3, 1, 1, 1, 1},
    {1, 8, 17, 1, 2, 2, 0, 1, 1},   {2, 7, 9, 63, 3, 2, 0, 1, 1},    {1, 6, 10, 64, 2, 2, 0, 0, 1},
    {1, 5, 11, 300, 3, 3, 1, 0, 1}, {2, 10, 30, 20, 2, 1, 0, 0, 3},  {1, 6, 2, 12, 5, 1, 2, 2, 1},
    {1, 3, 3, 24, 3, 1, 0, 0, 1},   {1, 20, 35, 17, 3, 4, 2, 2, 2},  {40, 4, 70, 5, 3, 1, 2, 0, 1},
    {1, 30, 30, 33, 1, 2, 0, 0, 1}, {1, 16, 16, 3, 16, 16, 0, 0, 1},
};
enum { PROBLEMS = sizeof problems / sizeof *problems };

static int64_t out_size(const problem *p, int64_t in) {
  return (in + p->begin + p->end - (p->kernel - 1) * p->dilation - 1) / p->stride + 1;
}

/* Element `at` of the result; `padded`: zeros around the image count. */
static double plain(const problem *p, const float *x, const int64_t *dims, int64_t at, bool mean, bool padded) {
  const int64_t c = at % dims[3], column = at / dims[3] % dims[2], row = at / dims[3] / dims[2] % dims[1];
  const int64_t n = at / dims[3] / dims[2] / dims[1];
  double sum = 0, best = -INFINITY, inside = 0, count = 0;
  for (int64_t i = 0; i < p->kernel; i++)
    for (int64_t j = 0; j < p->kernel; j++) {
      const int64_t y = row * p->stride - p->begin + i * p->dilation,
                    v = column * p->stride - p->begin + j * p->dilation;
      count += y < p->height + p->end && v < p->width + p->end;
      if (y < 0 || y >= p->height || v < 0 || v >= p->width) continue;
      const double value = (double)x[((n * p->height + y) * p->width + v) * p->channels + c];
      inside++;
      sum += value;
      best = fmax(best, value);
    }
  return mean ? sum / (padded ? count : inside) : best;
}

static void expect_plain(const run_kernel *k, const problem *p, bool mean, bool padded) {
  const float *y = k->out.data;
  for (int64_t at = 0; at < base_tensor_numel(&k->out); at++) {
    const double wanted = plain(p, k->in[0].data, k->out.dims, at, mean, padded);
    if (!(fabs((double)y[at] - wanted) <= (mean ? 1e-5 : 0)))
      fail_msg("%s, problem %d, element %lld: %g for %g", k->row->name, (int)(p - problems), (long long)at,
               (double)y[at], wanted);
  }
}

static void expect_pool(const kern_row *row, const problem *p, bool mean, bool padded) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  const int64_t size[] = {p->kernel, p->kernel}, stride[] = {p->stride, p->stride};
  const int64_t padding[] = {p->begin, p->begin, p->end, p->end}, dilation[] = {p->dilation, p->dilation};
  const base_arg args[] = {ARG_INTS("stride", stride, 2),         ARG_INTS("padding", padding, 4),
                           ARG_INTS("dilation", dilation, 2),     ARG_STR("auto_pad", ""),
                           ARG_INTS("kernel_size", size, 2),      ARG_BOOL("ceil_mode", 0),
                           ARG_BOOL("count_include_pad", padded), ARG_BOOL("channels_last", 1)};
  const int64_t in[] = {p->batch, p->height, p->width, p->channels};
  const int64_t out[] = {p->batch, out_size(p, p->height), out_size(p, p->width), p->channels};
  float *x = run_floats(in[0] * in[1] * in[2] * in[3], 1), *y = run_floats(out[0] * out[1] * out[2] * out[3], 2);
  run_kernel k = {.row = row, .attrs = base_attrs_make(arena, args, 8), .out = base_tensor_of(y, TD_F32, 4, out)};
  k.in[0] = base_tensor_of(x, TD_F32, 4, in);
  run_kernel_on(&k, 1);
  expect_plain(&k, p, mean, padded);
  run_expect_any_workers(&k);
  free(x);
  free(y);
  base_arena_free(arena);
}

/* ---- bytes ---- */

/* Of x and of the result no byte behind the last is touched. */
static void expect_bytes(const kern_row *row, const problem *p, td_dtype dtype) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  const int64_t size[] = {p->kernel, p->kernel}, stride[] = {p->stride, p->stride};
  const int64_t padding[] = {p->begin, p->begin, p->end, p->end}, dilation[] = {p->dilation, p->dilation};
  const base_arg args[] = {ARG_INTS("stride", stride, 2),     ARG_INTS("padding", padding, 4),
                           ARG_INTS("dilation", dilation, 2), ARG_STR("auto_pad", ""),
                           ARG_INTS("kernel_size", size, 2),  ARG_BOOL("ceil_mode", 0),
                           ARG_BOOL("channels_last", 1)};
  const int64_t in[] = {p->batch, p->height, p->width, p->channels};
  const int64_t out[] = {p->batch, out_size(p, p->height), out_size(p, p->width), p->channels};
  const int64_t elements = in[0] * in[1] * in[2] * in[3], results = out[0] * out[1] * out[2] * out[3];
  uint8_t *x = run_at_the_end((size_t)elements), *y = run_at_the_end((size_t)results);
  float *numbers = malloc((size_t)elements * sizeof *numbers);
  assert_non_null(numbers);
  for (int64_t i = 0; i < elements; i++) {
    x[i] = (uint8_t)(i * 89 % 251);
    numbers[i] = dtype == TD_I8 ? (float)(int8_t)x[i] : (float)x[i];
  }
  run_kernel k = {.row = row, .attrs = base_attrs_make(arena, args, 7), .out = base_tensor_of(y, dtype, 4, out)};
  k.in[0] = base_tensor_of(x, dtype, 4, in);
  for (uint32_t workers = 1; workers <= 3; workers += 2) {
    memset(y, 0, (size_t)results);
    run_kernel_on(&k, workers);
    for (int64_t at = 0; at < results; at++) {
      const double wanted = plain(p, numbers, out, at, false, false);
      if ((dtype == TD_I8 ? (double)(int8_t)y[at] : (double)y[at]) != wanted)
        fail_msg("%s, problem %d, element %lld: not %g", row->name, (int)(p - problems), (long long)at, wanted);
    }
  }
  free(numbers);
  base_arena_free(arena);
}

static void windows_of_bytes_are_those_of_plain_loops_on_any_workers(void **state) {
  (void)state;
  uint32_t levels;
  sys_machine machine;
  sys_machine_read(&machine);
  const kern_level *all = kern_levels(&levels);
  for (uint32_t i = 0; i < levels * PROBLEMS; i++) {
    if (base_isa_lacks(machine.isa, all[i / PROBLEMS].isa)) continue;
    for (int sign = 0; sign < 2; sign++) {
      const td_dtype dtype = sign ? TD_I8 : TD_U8;
      const kern_row *row = kern_select(KERN_MAX_POOL, dtype, all[i / PROBLEMS].isa);
      if (row) expect_bytes(row, &problems[i % PROBLEMS], dtype);
    }
  }
}

static void windows_are_those_of_plain_loops_on_any_workers(void **state) {
  (void)state;
  uint32_t levels;
  kern_levels(&levels);
  for (uint32_t i = 0; i < levels * PROBLEMS; i++) {
    const problem *p = &problems[i % PROBLEMS];
    const kern_row *max = run_row(KERN_MAX_POOL, i / PROBLEMS), *mean = run_row(KERN_AVG_POOL, i / PROBLEMS);
    if (max) expect_pool(max, p, false, false);
    if (mean) expect_pool(mean, p, true, false);
    if (mean) expect_pool(mean, p, true, true);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(windows_are_those_of_plain_loops_on_any_workers),
                                     cmocka_unit_test(windows_of_bytes_are_those_of_plain_loops_on_any_workers)};
  run_only_workers_under_tsan();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
