/* ctest: threads */
/* KERN_WINOGRAD and its weights: the error against a convolution in double, and that neither the batch, nor the number
 * of workers, nor gaps between the rows of operands change a bit. What is not finite stays where it is. */
#include "kernels/run_kernel.h"

#include <math.h>

#include "kernels/products/pack_winograd.h"

typedef struct problem {
  int64_t tile, batch, height, width, in, out;
  bool residual;
  int64_t planes, depth, dilation; /* of a volume; 0: an image */
  int64_t groups;
} problem;

typedef struct layer {
  run_kernel k;
  base_arena *arena;
  float *x, *w, *u, *bias, *residual, *y;
} layer;

/* Elements of the input, or of the output, per channel: both have one size. */
static int64_t pixels_of(const problem *p) { return (p->planes ? p->planes : 1) * p->height * p->width; }

static layer make_layer(const kern_row *row, const problem *p) {
  layer l = {.arena = base_arena_new(&base_libc_allocator)};
  const uint32_t spatial = p->planes ? 3 : 2, skip = 3 - spatial;
  const int64_t in = p->in / p->groups, depth = p->planes ? p->depth : 1;
  const int64_t d = p->planes ? p->dilation : 1, front = depth / 2;
  const int64_t kernel[] = {depth, 3, 3}, ones[] = {1, 1, 1}, dilation[] = {1, d, d};
  const int64_t volume_padding[] = {front, d, d, front, d, d}, image_padding[] = {1, 1, 1, 1};
  const base_arg args[] = {ARG_INTS("kernel", kernel + skip, spatial),
                           ARG_INTS("stride", ones, spatial),
                           ARG_INTS("padding", p->planes ? volume_padding : image_padding, 2 * spatial),
                           ARG_INTS("dilation", dilation + skip, spatial),
                           ARG_INT("groups", p->groups),
                           ARG_INT("channels", p->out),
                           ARG_INT("panel", row->lanes),
                           ARG_BOOL("channels_first", 0),
                           ARG_INT("tile", p->tile),
                           ARG_STR("act", "none"),
                           ARG_FLOAT("act_a", 0),
                           ARG_FLOAT("act_b", 0),
                           ARG_BOOL("act_late", 0),
                           {.name = "result"},
                           ARG_BOOL("in_front", 0),
                           ARG_INTS("chain", NULL, 0)};
  const int64_t pixels = p->batch * pixels_of(p);
  const int64_t flat_x[] = {p->batch, p->height, p->width, p->in}, flat_y[] = {p->batch, p->height, p->width, p->out};
  const int64_t deep_x[] = {p->batch, p->planes, p->height, p->width, p->in};
  const int64_t deep_y[] = {p->batch, p->planes, p->height, p->width, p->out};
  const int64_t *x = p->planes ? deep_x : flat_x, *y = p->planes ? deep_y : flat_y;
  const int64_t flat_w[] = {p->out, in, 3, 3}, deep_w[] = {p->out, in, depth, 3, 3};
  const int32_t rank = (int32_t)spatial + 2;
  int64_t count;
  l.x = run_floats(pixels * p->in, 1);
  l.w = run_floats(p->out * in * depth * 9, 2);
  l.bias = run_floats(p->out, 3);
  l.residual = run_floats(pixels * p->out, 4);
  l.y = run_floats(pixels * p->out, 5);
  assert_true(kern_winograd_packed_size(p->tile, p->groups, p->out / p->groups, depth * in, row->lanes, &count));
  l.u = run_floats(count, 6);
  base_tensor plain = base_tensor_of(l.w, TD_F32, rank, p->planes ? deep_w : flat_w);
  kern_pack_winograd(&plain, NULL, p->groups, p->tile, row->lanes, l.u);
  l.k = (run_kernel){
      .row = row, .attrs = base_attrs_make(l.arena, args, 16), .out = base_tensor_of(l.y, TD_F32, rank, y)};
  l.k.in[0] = base_tensor_of(l.x, TD_F32, rank, x);
  l.k.in[1] = base_tensor_of(l.u, TD_F32, 1, &count);
  l.k.in[KERN_IN_BIAS] = base_tensor_of(l.bias, TD_F32, 1, &p->out);
  if (p->residual) l.k.in[KERN_IN_RESIDUAL] = base_tensor_of(l.residual, TD_F32, rank, y);
  return l;
}

static void free_layer(layer *l) {
  base_arena_free(l->arena);
  float *const owned[] = {l->x, l->w, l->u, l->bias, l->residual, l->y};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
}

static double direct(const layer *l, const problem *p, int64_t row, int64_t column, int64_t m) {
  const int64_t in = p->in / p->groups, first = m / (p->out / p->groups) * in;
  double sum = (double)l->bias[m];
  for (int64_t r = 0; r < 3; r++)
    for (int64_t s = 0; s < 3; s++) {
      int64_t y = row + r - 1, x = column + s - 1;
      if (y < 0 || y >= p->height || x < 0 || x >= p->width) continue;
      for (int64_t k = 0; k < in; k++)
        sum += (double)l->x[(y * p->width + x) * p->in + first + k] * (double)l->w[(m * in + k) * 9 + r * 3 + s];
    }
  return sum;
}

/* Relative to the root mean square of what comes out. Measured: 7e-7 to 2.1e-6 for F(4x4, 3x3), below 1e-6 for
 * F(2x2, 3x3). */
static void the_error_is_small(void **state) {
  (void)state;
  uint32_t levels;
  kern_levels(&levels);
  for (uint32_t level = 0; level < levels; level++)
    for (int64_t tile = 2; tile <= 4; tile += 2)
      for (int64_t in = 64; in <= 512; in *= 2) {
        const kern_row *row = run_row(KERN_WINOGRAD, level);
        if (!row) continue;
        const problem p = {tile, 1, 9, 8, in, 18, false, 0, 0, 0, 1};
        layer l = make_layer(row, &p);
        run_kernel_on(&l.k, 1);
        double error = 0, size = 0;
        for (int64_t i = 0; i < p.height * p.width * p.out; i++) {
          double wanted = direct(&l, &p, i / p.out / p.width, i / p.out % p.width, i % p.out);
          error += ((double)l.y[i] - wanted) * ((double)l.y[i] - wanted);
          size += wanted * wanted;
        }
        double rms = sqrt(error / size);
        print_message("%s, F(%d), %d channels: %.2g\n", row->name, (int)tile, (int)in, rms);
        assert_true(rms <= (tile == 4 ? 4e-6 : 2e-6));
        free_layer(&l);
      }
}

static const problem problems[] = {
    {4, 3, 30, 17, 20, 150, true, 0, 0, 0, 1}, {2, 3, 14, 15, 33, 70, true, 0, 0, 0, 1},
    {4, 5, 7, 7, 64, 130, false, 0, 0, 0, 1},  {4, 2, 9, 8, 20, 70, true, 21, 3, 1, 1},
    {2, 2, 7, 11, 17, 33, true, 3, 2, 2, 1},   {4, 2, 15, 17, 144, 144, true, 0, 0, 0, 9},
    {4, 2, 15, 9, 72, 72, false, 0, 0, 0, 3},  {2, 2, 6, 9, 40, 360, true, 0, 0, 0, 2},
    {4, 2, 7, 6, 60, 60, true, 4, 3, 2, 5},    {4, 2, 17, 13, 160, 160, true, 0, 0, 0, 40},
    {2, 2, 9, 8, 64, 128, true, 3, 2, 2, 32}};
enum { PROBLEMS = sizeof problems / sizeof *problems };

static void neighbours_in_the_batch_change_nothing(void **state) {
  (void)state;
  uint32_t levels;
  kern_levels(&levels);
  for (uint32_t i = 0; i < levels * PROBLEMS; i++) {
    const kern_row *row = run_row(KERN_WINOGRAD, i / PROBLEMS);
    if (!row) continue;
    const problem *p = &problems[i % PROBLEMS];
    layer l = make_layer(row, p);
    run_kernel_on(&l.k, 1);
    int64_t in = pixels_of(p) * p->in, out = pixels_of(p) * p->out;
    float *alone = run_floats(out, 7);
    run_kernel one = l.k;
    one.out.data = alone;
    one.in[0].dims[0] = one.out.dims[0] = one.in[KERN_IN_RESIDUAL].dims[0] = 1;
    for (int64_t n = 0; n < p->batch; n++) {
      one.in[0].data = l.x + n * in;
      if (p->residual) one.in[KERN_IN_RESIDUAL].data = l.residual + n * out;
      run_kernel_on(&one, 1);
      assert_memory_equal(alone, l.y + n * out, (size_t)out * sizeof *alone);
    }
    free(alone);
    free_layer(&l);
  }
}

static void workers_change_nothing(void **state) {
  (void)state;
  uint32_t levels;
  kern_levels(&levels);
  for (uint32_t i = 0; i < levels * PROBLEMS; i++) {
    const kern_row *row = run_row(KERN_WINOGRAD, i / PROBLEMS);
    if (!row) continue;
    const problem *p = &problems[i % PROBLEMS];
    layer l = make_layer(row, p);
    run_kernel_on(&l.k, 1);
    run_expect_any_workers(&l.k);
    free_layer(&l);
  }
}

enum { GAP = 5 }; /* floats behind every pixel */

/* The tensor's rows of channels, GAP apart, in memory of its own. */
static float *spread(base_tensor *t) {
  const int64_t channels = t->dims[t->rank - 1], rows = base_tensor_numel(t) / channels, pitch = channels + GAP;
  float *to = run_floats(rows * pitch, 9);
  for (int64_t i = 0; i < rows; i++)
    memcpy(to + i * pitch, (const float *)t->data + i * channels, (size_t)channels * sizeof *to);
  for (int32_t k = 0; k < t->rank - 1; k++) t->strides[k] = t->strides[k] / channels * pitch;
  t->data = to;
  return to;
}

static void gaps_between_pixels_change_nothing(void **state) {
  (void)state;
  uint32_t levels;
  kern_levels(&levels);
  for (uint32_t i = 0; i < levels * PROBLEMS; i++) {
    const kern_row *row = run_row(KERN_WINOGRAD, i / PROBLEMS);
    if (!row) continue;
    const problem *p = &problems[i % PROBLEMS];
    const int64_t pixels = p->batch * pixels_of(p);
    layer l = make_layer(row, p);
    run_kernel_on(&l.k, 1);
    run_kernel apart = l.k;
    float *const x = spread(&apart.in[0]), *const y = spread(&apart.out), *const before = run_floats(GAP, 10);
    float *const residual = p->residual ? spread(&apart.in[KERN_IN_RESIDUAL]) : NULL;
    for (int64_t m = 0; m < pixels; m++) memcpy(y + m * (p->out + GAP) + p->out, before, GAP * sizeof *y);
    run_kernel_on(&apart, 1);
    for (int64_t m = 0; m < pixels; m++) {
      assert_memory_equal(y + m * (p->out + GAP), l.y + m * p->out, (size_t)p->out * sizeof *y);
      assert_memory_equal(y + m * (p->out + GAP) + p->out, before, GAP * sizeof *y);
    }
    float *const owned[] = {x, y, before, residual};
    for (size_t k = 0; k < sizeof owned / sizeof *owned; k++) free(owned[k]);
    free_layer(&l);
  }
}

/* A channel of a pixel of a sample. */
typedef struct place {
  int64_t plane, row, column, channel;
} place;

static place place_of(const problem *p, int64_t at, int64_t channels) {
  at %= pixels_of(p) * channels;
  const int64_t pixel = at / channels;
  return (place){pixel / p->width / p->height, pixel / p->width % p->height, pixel % p->width, at % channels};
}

/* Is `distance` that of one of a kernel's taps? */
static bool is_tap(int64_t distance, int64_t kernel, int64_t dilation) {
  const int64_t at = distance + kernel / 2 * dilation;
  return at % dilation == 0 && at >= 0 && at / dilation < kernel;
}

/* Does the window of an output, at `to`, see the input at `from`? */
static bool sees(const problem *p, place to, place from) {
  const int64_t d = p->planes ? p->dilation : 1;
  return to.channel / (p->out / p->groups) == from.channel / (p->in / p->groups) &&
         is_tap(from.plane - to.plane, p->planes ? p->depth : 1, 1) && is_tap(from.row - to.row, 3, d) &&
         is_tap(from.column - to.column, 3, d);
}

/* What outputs are where the input `from` of sample 0 is `value` instead of 0, whose outputs are `zero`. */
static void expect_only_seen_nonfinite(const layer *l, const problem *p, const float *zero, int64_t from, float value) {
  const int64_t in = p->in / p->groups, depth = p->planes ? p->depth : 1, d = p->planes ? p->dilation : 1;
  const place at = place_of(p, from, p->in);
  for (int64_t i = 0; i < p->batch * pixels_of(p) * p->out; i++) {
    const place to = place_of(p, i, p->out);
    if (i >= pixels_of(p) * p->out || !sees(p, to, at)) {
      assert_float_equal(l->y[i], zero[i], 1e-6f);
      continue;
    }
    const int64_t z = at.plane - to.plane + depth / 2, r = (at.row - to.row) / d + 1,
                  s = (at.column - to.column) / d + 1;
    const float w = l->w[(((to.channel * in + at.channel % in) * depth + z) * 3 + r) * 3 + s];
    if (isnan(value)) assert_true(isnan(l->y[i]));
    else assert_true(fabsf(w) < 1e-5f ? !isfinite(l->y[i]) : l->y[i] == value * w);
  }
}

static void infinities_and_nan_reach_what_sees_them(void **state) {
  (void)state;
  static const float values[] = {NAN, INFINITY, -INFINITY};
  uint32_t levels;
  kern_levels(&levels);
  for (uint32_t i = 0; i < levels * PROBLEMS; i++) {
    const kern_row *row = run_row(KERN_WINOGRAD, i / PROBLEMS);
    if (!row) continue;
    const problem *p = &problems[i % PROBLEMS];
    layer l = make_layer(row, p);
    const int64_t count = p->batch * pixels_of(p) * p->out, inputs = pixels_of(p) * p->in;
    float *zero = run_floats(count, 7);
    for (int64_t k = 0; k < 6; k++) {
      const int64_t from = k == 0 ? 0 : k == 1 ? inputs - 1 : (k * 2654435761 + i) % inputs;
      const float before = l.x[from];
      l.x[from] = 0;
      run_kernel_on(&l.k, 1);
      memcpy(zero, l.y, (size_t)count * sizeof *zero);
      l.x[from] = values[k % 3];
      run_kernel_on(&l.k, 1);
      expect_only_seen_nonfinite(&l, p, zero, from, values[k % 3]);
      l.x[from] = before;
    }
    free(zero);
    free_layer(&l);
  }
}

/* Layers whose times were measured. */
static void the_faster_form_is_chosen(void **state) {
  (void)state;
  const struct {
    int64_t planes, size, dilation, depth, in, out, tile;
  } layers[] = {{1, 56, 1, 1, 64, 64, 4},   {1, 28, 1, 1, 128, 128, 4},  {1, 14, 1, 1, 256, 256, 4},
                {1, 7, 1, 1, 512, 512, 2},  {1, 56, 1, 1, 128, 32, 4},   {1, 28, 1, 1, 128, 32, 4},
                {1, 14, 1, 1, 128, 32, 4},  {1, 7, 1, 1, 128, 32, 0},    {1, 224, 1, 1, 3, 64, 0},
                {1, 1, 1, 1, 512, 512, 0},  {1, 0, 1, 1, 64, 64, 0},     {1, 56, 1, 1, 64, 1, 0},
                {16, 56, 1, 3, 64, 64, 4},  {8, 28, 1, 3, 128, 128, 4},  {16, 56, 1, 9, 64, 64, 0},
                {1, 65, 2, 1, 256, 256, 4}, {1, 32, 24, 1, 256, 256, 0}, {0, 56, 1, 3, 64, 64, 0}};
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
    for (int64_t panel = 8; panel <= 16; panel *= 2) {
      const kern_winograd_layer l = {.direct_speed = 1,
                                     .direct_bytes = sizeof(float),
                                     .planes = layers[i].planes,
                                     .height = layers[i].size,
                                     .width = layers[i].size,
                                     .dilation = {layers[i].dilation, layers[i].dilation},
                                     .depth = layers[i].depth,
                                     .groups = 1,
                                     .channels_in = layers[i].in,
                                     .channels = layers[i].out};
      assert_int_equal(kern_winograd_tile(&l, panel, 4), layers[i].tile);
    }
}

static kern_winograd_choice choice(int64_t size, int64_t groups, int64_t channels, int64_t widest) {
  const kern_winograd_layer l = {.direct_speed = 1,
                                 .direct_bytes = sizeof(float),
                                 .planes = 1,
                                 .height = size,
                                 .width = size,
                                 .dilation = {1, 1},
                                 .depth = 1,
                                 .groups = groups,
                                 .channels_in = channels,
                                 .channels = channels};
  return (kern_winograd_choice){.layer = l, .panel = 16, .widest = widest};
}

/* The same of groups. */
static void groups_take_the_faster_form(void **state) {
  (void)state;
  const struct {
    int64_t size, groups, channels, tile;
  } layers[] = {{56, 2, 64, 4}, {28, 8, 32, 4}, {28, 12, 16, 4}, {14, 32, 16, 4}, {7, 8, 128, 2},
                {7, 64, 16, 0}, {56, 32, 8, 4}, {7, 128, 8, 0},  {56, 32, 4, 0},  {28, 256, 1, 0}};
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    const kern_winograd_choice c = choice(layers[i].size, layers[i].groups, layers[i].channels, 4);
    assert_int_equal(kern_winograd_tile(&c.layer, c.panel, c.widest), layers[i].tile);
    /* its products are too short where no groups share a panel */
    if (layers[i].channels == 8) assert_int_equal(kern_winograd_tile(&c.layer, 8, c.widest), 0);
  }
}

static void memory_goes_where_it_saves_most(void **state) {
  (void)state;
  enum { LAYERS = 4 };
  const double plain = 256. * 256 * sizeof(float);
  kern_winograd_choice c[LAYERS] = {choice(56, 1, 256, 4), choice(14, 1, 256, 4), choice(56, 1, 256, 2),
                                    choice(1, 1, 256, 4)};
  kern_winograd_choose(c, LAYERS, 1e12);
  for (size_t i = 0; i < LAYERS; i++)
    assert_int_equal(c[i].tile, kern_winograd_tile(&c[i].layer, c[i].panel, c[i].widest));
  kern_winograd_choose(c, LAYERS, 7 * plain - 1);
  for (size_t i = 0; i < LAYERS; i++) assert_int_equal(c[i].tile, 0);
  kern_winograd_choose(c, LAYERS, 14 * plain); /* 7 for tiles of 2, 27 for those of 4 */
  assert_int_equal(c[0].tile, 2);
  assert_int_equal(c[1].tile, 0);
  assert_int_equal(c[2].tile, 2);
  kern_winograd_choose(c, LAYERS, 34 * plain);
  assert_int_equal(c[0].tile, 4);
  assert_int_equal(c[1].tile, 0);
  assert_int_equal(c[2].tile, 2);
  kern_winograd_choose(c, 0, 1e12);
}

/* `taps`: which of the nine are not zero. */
static double error_of(int64_t in, int64_t out, uint32_t taps, int64_t tile) {
  const int64_t dims[] = {out, in, 3, 3};
  float *w = run_floats(in * out * 9, 11);
  for (int64_t i = 0; i < in * out * 9; i++)
    if (!(taps >> i % 9 & 1)) w[i] = 0;
  const base_tensor t = base_tensor_of(w, TD_F32, 4, dims);
  double error = kern_winograd_error(&t, tile);
  free(w);
  return error;
}

static void noise_is_near_and_a_corner_far(void **state) {
  (void)state;
  for (int64_t in = 16; in <= 512; in *= 2) {
    double four = error_of(in, 70, 0x1ff, 4), two = error_of(in, 70, 0x1ff, 2);
    assert_true(four > 1.4 && four < 0.75 * KERN_WINOGRAD_NEAR);
    assert_true(two > 0.2 && two < 1.5);
    assert_true(error_of(in, 5, 0x100, 4) > 1.3 * KERN_WINOGRAD_NEAR);
  }
  assert_true(error_of(32, 8, 0, 4) == 0);
}

static void weights_that_are_not_finite_are_far(void **state) {
  (void)state;
  float w[2 * 9] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NAN};
  const int64_t dims[] = {2, 1, 3, 3};
  const base_tensor t = base_tensor_of(w, TD_F32, 4, dims);
  assert_true(isinf(kern_winograd_error(&t, 4)));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_error_is_small),
      cmocka_unit_test(neighbours_in_the_batch_change_nothing),
      cmocka_unit_test(workers_change_nothing),
      cmocka_unit_test(gaps_between_pixels_change_nothing),
      cmocka_unit_test(infinities_and_nan_reach_what_sees_them),
      cmocka_unit_test(the_faster_form_is_chosen),
      cmocka_unit_test(groups_take_the_faster_form),
      cmocka_unit_test(memory_goes_where_it_saves_most),
      cmocka_unit_test(noise_is_near_and_a_corner_far),
      cmocka_unit_test(weights_that_are_not_finite_are_far),
  };
  run_only_workers_under_tsan();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
