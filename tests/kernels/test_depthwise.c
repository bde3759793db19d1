/* ctest: threads slow */
/* KERN_DEPTHWISE: neither the batch nor the number of workers changes a bit, in strips of any width and in the general
 * form, down the rows of an image and along them. What it computes is compared with the reference by tests/ops, and
 * here with plain loops. */
#include "kernels/run_kernel.h"

#include "kernels/products/conv.h"

#include <math.h>
#include <string.h>

typedef struct problem {
  int64_t batch, channels, in, kernel, stride, dilation;
  const char *act;
} problem;

static const problem problems[] = {
    {3, 200, 15, 3, 1, 1, "relu"}, {2, 96, 16, 3, 2, 1, "silu"},  {3, 70, 7, 5, 1, 1, "none"},
    {2, 144, 28, 5, 2, 1, "relu"}, {2, 80, 14, 7, 1, 1, "none"},  {2, 37, 19, 3, 1, 2, "hardswish"},
    {2, 12, 21, 5, 1, 2, "relu"},  {3, 40, 15, 9, 2, 1, "none"},  {2, 20, 40, 33, 1, 1, "none"},
    {2, 45, 33, 9, 1, 1, "relu"},  {1, 32, 120, 3, 1, 1, "relu"}, {2, 16, 135, 3, 2, 1, "none"},
    {1, 20, 118, 5, 1, 1, "silu"}, {2, 8, 75, 3, 1, 1, "relu"},   {1, 5, 121, 3, 1, 1, "none"},
};
enum { PROBLEMS = sizeof problems / sizeof *problems };

typedef struct layer {
  run_kernel k;
  base_arena *arena;
  float *x, *w, *bias, *y;
  int64_t in, out; /* elements of a sample */
} layer;

static layer make_layer(const kern_row *row, const problem *p) {
  layer l = {.arena = base_arena_new(&base_libc_allocator)};
  const int64_t reach = (p->kernel - 1) * p->dilation, pad = reach / 2,
                side = (p->in + 2 * pad - reach - 1) / p->stride + 1;
  const int64_t kernel[] = {p->kernel, p->kernel}, stride[] = {p->stride, p->stride};
  const int64_t padding[] = {pad, pad, pad, pad}, dilation[] = {p->dilation, p->dilation};
  const base_arg args[] = {ARG_INTS("kernel", kernel, 2),
                           ARG_INTS("stride", stride, 2),
                           ARG_INTS("padding", padding, 4),
                           ARG_INTS("dilation", dilation, 2),
                           ARG_INT("groups", p->channels),
                           ARG_INT("channels", p->channels),
                           ARG_INT("panel", 1),
                           ARG_BOOL("channels_first", 0),
                           ARG_STR("act", p->act),
                           ARG_FLOAT("act_a", 0),
                           ARG_FLOAT("act_b", 0),
                           ARG_BOOL("act_late", 0),
                           {.name = "result"},
                           ARG_BOOL("in_front", 0),
                           ARG_INTS("chain", NULL, 0)};
  const int64_t x[] = {p->batch, p->in, p->in, p->channels}, y[] = {p->batch, side, side, p->channels};
  const int64_t w[] = {p->kernel * p->kernel, p->channels};
  l.in = p->in * p->in * p->channels;
  l.out = side * side * p->channels;
  l.x = run_floats(p->batch * l.in, 1);
  l.w = run_floats(w[0] * w[1], 2);
  l.bias = run_floats(p->channels, 3);
  l.y = run_floats(p->batch * l.out, 4);
  l.k = (run_kernel){.row = row, .attrs = base_attrs_make(l.arena, args, 15), .out = base_tensor_of(l.y, TD_F32, 4, y)};
  l.k.in[0] = base_tensor_of(l.x, TD_F32, 4, x);
  l.k.in[1] = base_tensor_of(l.w, TD_F32, 2, w);
  l.k.in[KERN_IN_BIAS] = base_tensor_of(l.bias, TD_F32, 1, &p->channels);
  return l;
}

static void free_layer(layer *l) {
  base_arena_free(l->arena);
  float *const owned[] = {l->x, l->w, l->bias, l->y};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
}

static void expect_same_bits(layer *l, int64_t batch) {
  run_kernel other = l->k;
  float *y = run_floats(l->out, 5);
  run_expect_any_workers(&l->k);
  other.out.data = y;
  other.in[0].dims[0] = other.out.dims[0] = 1;
  for (int64_t n = 0; n < batch; n++) {
    other.in[0].data = l->x + n * l->in;
    run_kernel_on(&other, 1);
    assert_memory_equal(y, l->y + n * l->out, (size_t)l->out * sizeof *y);
  }
  free(y);
}

static void batch_and_workers_change_nothing(void **state) {
  (void)state;
  uint32_t levels;
  kern_levels(&levels);
  for (uint32_t i = 0; i < levels * PROBLEMS; i++) {
    const kern_row *row = run_row(KERN_DEPTHWISE, i / PROBLEMS);
    if (!row) continue;
    layer l = make_layer(row, &problems[i % PROBLEMS]);
    run_kernel_on(&l.k, 1);
    expect_same_bits(&l, problems[i % PROBLEMS].batch);
    free_layer(&l);
  }
}

/* The taps of an output pixel's channel inside the image, added up. */
static double plain_sum(const layer *l, const problem *p, int64_t n, int64_t y, int64_t x, int64_t c) {
  const int64_t pad = (p->kernel - 1) * p->dilation / 2;
  double sum = (double)l->bias[c];
  for (int64_t i = 0; i < p->kernel; i++)
    for (int64_t j = 0; j < p->kernel; j++) {
      const int64_t row = y * p->stride - pad + i * p->dilation, column = x * p->stride - pad + j * p->dilation;
      if (row < 0 || row >= p->in || column < 0 || column >= p->in) continue;
      sum += (double)l->x[((n * p->in + row) * p->in + column) * p->channels + c] *
             (double)l->w[(i * p->kernel + j) * p->channels + c];
    }
  return sum;
}

static void expect_plain_sums(const layer *l, const problem *p) {
  const int64_t *dims = l->k.out.dims;
  const bool cut = strcmp(p->act, "relu") == 0;
  for (int64_t at = 0; at < base_tensor_numel(&l->k.out); at++) {
    const int64_t c = at % dims[3], pixel = at / dims[3];
    const double sum = plain_sum(l, p, pixel / dims[2] / dims[1], pixel / dims[2] % dims[1], pixel % dims[2], c);
    const double wanted = cut && sum < 0 ? 0 : sum;
    if (!(fabs((double)l->y[at] - wanted) <= 1e-4))
      fail_msg("%s, %lld channels of %lld: element %lld", l->k.row->name, (long long)p->channels, (long long)p->in,
               (long long)at);
  }
}
static void sums_are_those_of_plain_loops(void **state) {
  (void)state;
  uint32_t levels;
  kern_levels(&levels);
  for (uint32_t i = 0; i < levels * PROBLEMS; i++) {
    const problem *p = &problems[i % PROBLEMS];
    const kern_row *row = run_row(KERN_DEPTHWISE, i / PROBLEMS);
    if (!row || (strcmp(p->act, "none") != 0 && strcmp(p->act, "relu") != 0)) continue;
    layer l = make_layer(row, p);
    run_kernel_on(&l.k, 1);
    expect_plain_sums(&l, p);
    free_layer(&l);
  }
}

/* Pixels that stand apart, as parts of a joined tensor do, are read and written where they are. */
static void pixels_may_stand_apart(void **state) {
  (void)state;
  enum { APART = 5, MARK = 77 };
  uint32_t levels;
  kern_levels(&levels);
  for (uint32_t i = 0; i < levels * PROBLEMS; i++) {
    const kern_row *row = run_row(KERN_DEPTHWISE, i / PROBLEMS);
    if (!row) continue;
    layer l = make_layer(row, &problems[i % PROBLEMS]);
    run_kernel_on(&l.k, 1);
    base_tensor *const tensors[] = {&l.k.in[0], &l.k.out};
    const base_tensor dense[] = {l.k.in[0], l.k.out};
    float *apart[2];
    for (int t = 0; t < 2; t++) {
      const int64_t channels = dense[t].dims[3], pitch = channels + APART,
                    pixels = base_tensor_numel(&dense[t]) / channels;
      apart[t] = malloc((size_t)(pixels * pitch) * sizeof(float));
      assert_non_null(apart[t]);
      for (int64_t k = 0; k < pixels * pitch; k++) apart[t][k] = MARK;
      tensors[t]->data = apart[t];
      for (int d = 0; d < 3; d++) tensors[t]->strides[d] = tensors[t]->strides[d] / channels * pitch;
    }
    base_tensor_copy(&l.k.in[0], &dense[0]);
    run_kernel_on(&l.k, 1);
    const int64_t channels = dense[1].dims[3], pixels = base_tensor_numel(&dense[1]) / channels;
    for (int64_t p = 0; p < pixels; p++) {
      const float *pixel = apart[1] + p * (channels + APART);
      assert_memory_equal(pixel, l.y + p * channels, (size_t)channels * sizeof *pixel);
      for (int k = 0; k < APART; k++) assert_true(pixel[channels + k] == MARK);
    }
    free(apart[0]);
    free(apart[1]);
    free_layer(&l);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(batch_and_workers_change_nothing),
                                     cmocka_unit_test(sums_are_those_of_plain_loops),
                                     cmocka_unit_test(pixels_may_stand_apart)};
  run_only_workers_under_tsan();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
