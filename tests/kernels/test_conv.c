/* ctest: threads slow */
/* KERN_CONV and KERN_CONV_TRANSPOSE: against a convolution in double, and that neither the batch, nor the number of
 * workers, nor gaps between the rows of operands change a bit. */
#include "kernels/run_kernel.h"

#include <math.h>

#include "kernels/products/conv.h"
#include "kernels/products/pack_conv.h"

typedef struct problem {
  bool transposed, channels_first;
  int64_t batch, height, width, in, out, groups;
  int64_t kernel[2], stride[2], dilation[2], padding[4];
} problem;

enum { GAP = 5 }; /* floats behind every pixel of a pitched operand */

typedef struct layer {
  problem p;
  run_kernel k;
  base_arena *arena;
  float *x, *w, *packed, *bias, *residual, *y;
  int64_t rows, columns; /* of output */
} layer;

static int64_t out_size(const problem *p, int64_t in, int a) {
  int64_t reach = (p->kernel[a] - 1) * p->dilation[a] + 1, pads = p->padding[a] + p->padding[2 + a];
  return p->transposed ? (in - 1) * p->stride[a] + reach - pads : (in + pads - reach) / p->stride[a] + 1;
}

/* Weights in panels of `panel`; 0: as the model has them. */
static layer make_layer(const kern_row *row, const problem *p, int64_t panel) {
  layer l = {.p = *p, .arena = base_arena_new(&base_libc_allocator)};
  const base_arg args[] = {ARG_INTS("kernel", p->kernel, 2),
                           ARG_INTS("stride", p->stride, 2),
                           ARG_INTS("padding", p->padding, 4),
                           ARG_INTS("dilation", p->dilation, 2),
                           ARG_INT("groups", p->groups),
                           ARG_INT("channels", p->out),
                           ARG_INT("panel", panel),
                           ARG_BOOL("channels_first", p->channels_first),
                           ARG_STR("act", "leaky_relu"),
                           ARG_FLOAT("act_a", 0.25),
                           ARG_FLOAT("act_b", 0),
                           ARG_BOOL("act_late", true),
                           {.name = "result"},
                           ARG_BOOL("in_front", 0),
                           ARG_INTS("chain", NULL, 0)};
  l.rows = out_size(p, p->height, 0);
  l.columns = out_size(p, p->width, 1);
  const int64_t y[] = {p->batch, l.rows, l.columns, p->out}, last[] = {p->batch, p->height, p->width, p->in};
  const int64_t first[] = {p->batch, p->in, p->height, p->width};
  const int64_t w[] = {p->transposed ? p->in : p->out, (p->transposed ? p->out : p->in) / p->groups, p->kernel[0],
                       p->kernel[1]};
  int64_t taps = p->kernel[0] * p->kernel[1], count, results = p->batch * l.rows * l.columns * (p->out + GAP);
  l.x = run_floats(p->batch * p->height * p->width * (p->in + GAP), 1);
  l.w = run_floats(w[0] * w[1] * taps, 2);
  l.bias = run_floats(p->out, 3);
  l.residual = run_floats(results, 4);
  l.y = run_floats(results, 5);
  base_tensor plain = base_tensor_of(l.w, TD_F32, 4, w);
  l.k = (run_kernel){.row = row, .attrs = base_attrs_make(l.arena, args, 15), .out = base_tensor_of(l.y, TD_F32, 4, y)};
  l.k.in[0] = base_tensor_of(l.x, TD_F32, 4, p->channels_first ? first : last);
  l.k.in[1] = plain;
  if (panel) {
    assert_true(
        kern_conv_packed_size(p->transposed, p->groups, p->out / p->groups, taps, p->in / p->groups, panel, &count));
    l.packed = run_floats(count, 6);
    kern_pack_conv(&plain, NULL, p->transposed, p->groups, panel, l.packed);
    l.k.in[1] = base_tensor_of(l.packed, TD_F32, 1, &count);
  }
  l.k.in[KERN_IN_BIAS] = base_tensor_of(l.bias, TD_F32, 1, &p->out);
  l.k.in[KERN_IN_RESIDUAL] = base_tensor_of(l.residual, TD_F32, 4, y);
  return l;
}

static void free_layer(layer *l) {
  base_arena_free(l->arena);
  float *const owned[] = {l->x, l->w, l->packed, l->bias, l->residual, l->y};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
}

/* Input position under tap `k` of output `o` along axis `a`; -1: none. */
static int64_t source(const problem *p, int a, int64_t in, int64_t o, int64_t k) {
  int64_t at =
      p->transposed ? o + p->padding[a] - k * p->dilation[a] : o * p->stride[a] - p->padding[a] + k * p->dilation[a];
  if (p->transposed) at = at % p->stride[a] == 0 ? at / p->stride[a] : -1;
  return at >= 0 && at < in ? at : -1;
}

static double direct(const layer *l, int64_t n, int64_t row, int64_t column, int64_t m) {
  const problem *p = &l->p;
  int64_t group_in = p->in / p->groups, group_out = p->out / p->groups, g = m / group_out;
  double sum = (double)l->bias[m];
  for (int64_t r = 0; r < p->kernel[0]; r++)
    for (int64_t s = 0; s < p->kernel[1]; s++)
      for (int64_t k = 0; k < group_in; k++) {
        int64_t y = source(p, 0, p->height, row, r), x = source(p, 1, p->width, column, s), c = g * group_in + k;
        if (y < 0 || x < 0) continue;
        int64_t at = p->channels_first ? ((n * p->in + c) * p->height + y) * p->width + x
                                       : ((n * p->height + y) * p->width + x) * p->in + c;
        int64_t tap = p->transposed ? c * group_out + m % group_out : m * group_in + k;
        sum += (double)l->x[at] * (double)l->w[(tap * p->kernel[0] + r) * p->kernel[1] + s];
      }
  sum += (double)l->residual[((n * l->rows + row) * l->columns + column) * p->out + m];
  return sum < 0 ? sum * 0.25 : sum;
}

static const problem problems[] = {
    {0, 0, 2, 9, 8, 19, 35, 1, {1, 1}, {1, 1}, {1, 1}, {0}},
    {0, 0, 2, 7, 7, 64, 33, 1, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}},
    {0, 0, 3, 11, 6, 6, 18, 1, {3, 5}, {1, 2}, {1, 1}, {2, 0, 1, 4}},
    {0, 0, 2, 6, 13, 12, 24, 3, {3, 3}, {1, 1}, {2, 1}, {2, 1, 2, 1}},
    {0, 0, 1, 10, 9, 32, 32, 8, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {0, 0, 2, 9, 7, 48, 48, 6, {3, 2}, {2, 1}, {1, 1}, {0, 1, 1, 0}},
    {0, 0, 1, 4, 5, 14, 56, 7, {2, 3}, {1, 1}, {1, 2}, {1, 2, 0, 2}},
    {0, 1, 3, 25, 22, 3, 20, 1, {7, 7}, {2, 2}, {1, 1}, {3, 3, 3, 3}},
    {0, 1, 2, 12, 9, 17, 33, 1, {3, 3}, {2, 2}, {1, 1}, {0}},
    {0, 1, 2, 25, 46, 3, 64, 1, {7, 7}, {2, 2}, {1, 1}, {3, 3, 3, 3}}, /* whole panels: rows of the image as it is */
    {0, 1, 3, 13, 200, 3, 16, 1, {3, 3}, {1, 1}, {1, 1}, {0}},
    {0, 1, 2, 5, 61, 4, 48, 1, {2, 3}, {3, 3}, {1, 1}, {2, -1, 3, 2}},
    {0, 1, 2, 1, 200, 5, 16, 1, {1, 3}, {1, 1}, {1, 2}, {0, 2, 0, 2}},
    {0, 1, 2, 8, 8, 8, 8, 2, {4, 4}, {4, 4}, {1, 1}, {0}},
    {0, 0, 2, 17, 19, 24, 33, 1, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}}, /* columns behind the last panel */
    {0, 1, 3, 10, 9, 17, 35, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 0}},
    {0, 0, 3, 11, 13, 19, 48, 1, {1, 1}, {1, 1}, {1, 1}, {0}}, /* whole panels: pixels at one pitch */
    {0, 0, 2, 33, 31, 32, 16, 1, {1, 1}, {1, 1}, {1, 1}, {0}},
    {0, 0, 2, 8, 9, 70, 2, 1, {1, 1}, {1, 1}, {1, 1}, {0}},
    {0, 0, 2, 33, 31, 40, 72, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}}, /* work enough for many tasks */
    {0, 0, 3, 13, 14, 20, 70, 1, {3, 3}, {1, 1}, {5, 6}, {5, 6, 5, 6}}, /* runs outside for whole tiles are left out */
    {0, 0, 2, 12, 13, 48, 64, 2, {3, 3}, {1, 1}, {12, 13}, {12, 13, 12, 13}},
    {0, 0, 2, 9, 30, 33, 48, 1, {5, 3}, {1, 2}, {4, 1}, {19, 1, 5, 1}},
    {0, 0, 2, 24, 40, 8, 7, 1, {3, 5}, {1, 1}, {1, 1}, {1, 2, 1, 2}}, /* few channels out: lanes are pixels */
    {0, 0, 3, 31, 29, 16, 14, 1, {5, 5}, {2, 2}, {1, 1}, {2, 2, 1, 0}},
    {0, 1, 2, 19, 61, 3, 6, 1, {5, 7}, {1, 3}, {2, 1}, {4, 3, 4, -1}},
    {0, 0, 2, 40, 90, 4, 3, 1, {3, 3}, {1, 1}, {4, 7}, {4, 7, 4, 7}},
    {0, 0, 2, 16, 24, 10, 6, 2, {4, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {0, 0, 2, 1, 3000, 1, 1, 1, {1, 50}, {1, 2}, {1, 1}, {0}},
    {0, 0, 2, 60, 80, 8, 8, 1, {7, 7}, {1, 1}, {1, 1}, {3, 3, 3, 3}}, /* work for many tasks */
    {0, 1, 2, 1, 1700, 1, 33, 1, {1, 400}, {1, 130}, {1, 1}, {0}},    /* long rows of taps, inside */
    {0, 0, 2, 2, 900, 3, 20, 1, {2, 280}, {1, 70}, {1, 1}, {0}},
    {0, 1, 2, 1, 900, 1, 18, 1, {1, 300}, {1, 90}, {1, 1}, {0, 0, 0, 60}}, /* partly outside */
    {0, 1, 1, 96, 96, 3, 32, 1, {7, 7}, {2, 2}, {1, 1}, {3, 3, 3, 3}},     /* work for tasks of many workers */
    {1, 0, 2, 5, 4, 21, 35, 1, {4, 4}, {2, 2}, {1, 1}, {1, 1, 1, 1}},
    {1, 0, 2, 4, 7, 8, 12, 2, {3, 2}, {3, 4}, {2, 1}, {1, 0, 0, 1}},
    {1, 0, 1, 6, 6, 32, 48, 1, {5, 3}, {2, 1}, {1, 2}, {2, 2, 2, 2}},
};
enum { PROBLEMS = sizeof problems / sizeof *problems };

typedef void (*check_fn)(const kern_row *row, const problem *p);

static void on_all(check_fn check) {
  uint32_t levels;
  kern_levels(&levels);
  for (uint32_t level = 0; level < levels; level++)
    for (size_t i = 0; i < PROBLEMS; i++) {
      const kern_row *row = run_row(problems[i].transposed ? KERN_CONV_TRANSPOSE : KERN_CONV, level);
      if (row) check(row, &problems[i]);
    }
}

static void check_direct(const kern_row *row, const problem *p) {
  layer l = make_layer(row, p, row->lanes);
  run_kernel_on(&l.k, 1);
  int64_t i = 0;
  for (int64_t n = 0; n < p->batch; n++)
    for (int64_t r = 0; r < l.rows; r++)
      for (int64_t c = 0; c < l.columns; c++)
        for (int64_t m = 0; m < p->out; m++, i++) {
          double wanted = direct(&l, n, r, c, m);
          if (!(fabs((double)l.y[i] - wanted) <= 2e-5 * (1 + fabs(wanted))))
            fail_msg("%s, problem %td: [%lld, %lld, %lld, %lld] is %g instead of %g", row->name, p - problems,
                     (long long)n, (long long)r, (long long)c, (long long)m, (double)l.y[i], wanted);
        }
  free_layer(&l);
}

static void results_are_those_of_the_definition(void **state) {
  (void)state;
  on_all(check_direct);
}

static void expect_same(const kern_row *row, const problem *p, const float *a, const float *b, int64_t count) {
  if (memcmp(a, b, (size_t)count * sizeof *a) != 0) fail_msg("%s, problem %td: other bits", row->name, p - problems);
}

static void check_batch(const kern_row *row, const problem *p) {
  layer all = make_layer(row, p, row->lanes);
  run_kernel_on(&all.k, 1);
  problem single = *p;
  single.batch = 1;
  int64_t image = p->height * p->width * p->in, result = all.rows * all.columns * p->out;
  for (int64_t n = 0; n < p->batch; n++) {
    layer one = make_layer(row, &single, row->lanes);
    memcpy(one.x, all.x + n * image, (size_t)image * sizeof(float));
    memcpy(one.residual, all.residual + n * result, (size_t)result * sizeof(float));
    run_kernel_on(&one.k, 1);
    expect_same(row, p, all.y + n * result, one.y, result);
    free_layer(&one);
  }
  free_layer(&all);
}

static void neighbours_in_the_batch_do_not_matter(void **state) {
  (void)state;
  on_all(check_batch);
}

static void check_workers(const kern_row *row, const problem *p) {
  layer one = make_layer(row, p, row->lanes);
  run_kernel_on(&one.k, 1);
  for (uint32_t workers = 2; workers <= 3; workers++) {
    layer many = make_layer(row, p, workers == 2 ? row->lanes : 0);
    run_kernel_on(&many.k, workers);
    expect_same(row, p, one.y, many.y, p->batch * one.rows * one.columns * p->out);
    free_layer(&many);
  }
  layer cut = make_layer(row, p, row->lanes);
  cut.k.cut_for = 112;
  run_kernel_on(&cut.k, 1);
  expect_same(row, p, one.y, cut.y, p->batch * one.rows * one.columns * p->out);
  free_layer(&cut);
  free_layer(&one);
}

static void workers_and_packing_do_not_matter(void **state) {
  (void)state;
  on_all(check_workers);
}

/* Moves the rows of a tensor of [..., channels] apart, within memory that has room for it. */
static void spread(base_tensor *t) {
  int64_t channels = t->dims[3], rows = base_tensor_numel(t) / channels, pitch = channels + GAP;
  float *data = t->data;
  for (int64_t i = rows - 1; i >= 0; i--)
    memmove(data + i * pitch, data + i * channels, (size_t)channels * sizeof *data);
  for (int32_t k = 0; k < 3; k++) t->strides[k] = t->strides[k] / channels * pitch;
}

static void check_pitches(const kern_row *row, const problem *p) {
  layer dense = make_layer(row, p, row->lanes), apart = make_layer(row, p, row->lanes);
  run_kernel_on(&dense.k, 1);
  if (!p->channels_first) spread(&apart.k.in[0]);
  spread(&apart.k.in[KERN_IN_RESIDUAL]);
  spread(&apart.k.out);
  int64_t rows = p->batch * dense.rows * dense.columns, pitch = p->out + GAP;
  for (int64_t i = 0; i < rows * pitch; i++) apart.y[i] = 77;
  run_kernel_on(&apart.k, 1);
  for (int64_t i = 0; i < rows; i++) {
    expect_same(row, p, dense.y + i * p->out, apart.y + i * pitch, p->out);
    for (int64_t k = p->out; k < pitch; k++) assert_true(apart.y[i * pitch + k] == 77);
  }
  free_layer(&dense);
  free_layer(&apart);
}

static void gaps_between_rows_do_not_matter(void **state) {
  (void)state;
  on_all(check_pitches);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(results_are_those_of_the_definition),
      cmocka_unit_test(neighbours_in_the_batch_do_not_matter),
      cmocka_unit_test(workers_and_packing_do_not_matter),
      cmocka_unit_test(gaps_between_rows_do_not_matter),
  };
  run_only_workers_under_tsan();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
