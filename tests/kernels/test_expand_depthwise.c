/* ctest: threads slow */
/* KERN_EXPAND_DEPTHWISE gives the bits of KERN_CONV and KERN_DEPTHWISE in turn, in chunks and bands of rows and blocks
 * of channels of any size, whatever the batch and the number of workers. What it computes is compared with the
 * reference by tests/ops. */
#include "kernels/run_kernel.h"

#include "kernels/products/expand.h"
#include "kernels/products/pack_conv.h"

typedef struct problem {
  int64_t batch, height, width, depth, channels, kernel, stride;
  const char *expand_act, *act;
  int64_t first, first_stride; /* a first layer's kernel, of planes; 0: 1x1 */
} problem;

static const problem problems[] = {
    {2, 33, 56, 24, 144, 3, 1, "clamp", "clamp", 0, 0},  {1, 41, 112, 16, 96, 3, 2, "clamp", "none", 0, 0},
    {2, 14, 14, 33, 200, 5, 1, "silu", "silu", 0, 0},    {3, 15, 14, 40, 72, 5, 2, "hardswish", "hardswish", 0, 0},
    {3, 7, 7, 96, 120, 3, 1, "relu", "relu", 0, 0},      {2, 3, 90, 7, 17, 5, 1, "none", "gelu", 0, 0},
    {2, 90, 71, 3, 32, 3, 1, "clamp", "clamp", 3, 2},    {2, 30, 200, 3, 96, 3, 2, "silu", "silu", 3, 1},
    {1, 47, 40, 4, 24, 5, 1, "hardswish", "none", 5, 1}, {2, 21, 130, 16, 16, 3, 1, "none", "relu", 0, 0},
    {2, 30, 140, 24, 32, 3, 1, "silu", "none", 0, 0},    {1, 40, 150, 3, 16, 3, 2, "relu", "clamp", 3, 1},
    {2, 9, 75, 5, 8, 3, 1, "silu", "relu", 0, 0},        {1, 12, 37, 9, 4, 5, 2, "relu", "none", 0, 0},
    {1, 70, 60, 66, 48, 3, 1, "none", "relu", 0, 0},
};
enum { PROBLEMS = sizeof problems / sizeof *problems };

/* One layer in both forms. */
typedef struct layer {
  base_arena *arena;
  run_kernel expand, window, both;
  int64_t in, out; /* elements of a sample */
  float *owned[8];
  uint32_t owned_count;
} layer;

static base_tensor floats(layer *l, int32_t rank, const int64_t *dims) {
  int64_t count;
  assert_true(base_numel(rank, dims, &count));
  float *x = run_floats(count, l->owned_count + 1);
  l->owned[l->owned_count++] = x;
  return base_tensor_of(x, TD_F32, rank, dims);
}

#define WINDOW_ARGS(size, step, pad, group_count, panel_width, planes)                                 \
  ARG_INTS("kernel", size, 2), ARG_INTS("stride", step, 2), ARG_INTS("padding", pad, 4),               \
      ARG_INTS("dilation", ones, 2), ARG_INT("groups", group_count), ARG_INT("channels", p->channels), \
      ARG_INT("panel", panel_width), ARG_BOOL("channels_first", planes)
#define ACT_ARGS(name) ARG_STR("act", name), ARG_FLOAT("act_a", 0), ARG_FLOAT("act_b", 0.5)
#define EPILOGUE_ARGS(act) \
  ACT_ARGS(act), ARG_BOOL("act_late", 0), {.name = "result"}, ARG_BOOL("in_front", 0), ARG_INTS("chain", NULL, 0)

static void set_attributes(layer *l, const problem *p, int64_t panel) {
  const int64_t ones[] = {1, 1}, none[] = {0, 0, 0, 0}, size[] = {p->kernel, p->kernel};
  const int64_t step[] = {p->stride, p->stride}, half = p->kernel / 2, pad[] = {half, half, half, half};
  const int64_t first[] = {p->first, p->first}, first_step[] = {p->first_stride, p->first_stride};
  const int64_t first_half = p->first / 2, first_pad[] = {first_half, first_half, first_half, first_half};
  const base_arg point[] = {WINDOW_ARGS(ones, ones, none, 1, panel, 0), EPILOGUE_ARGS(p->expand_act)};
  const base_arg planes[] = {WINDOW_ARGS(first, first_step, first_pad, 1, panel, 1), EPILOGUE_ARGS(p->expand_act)};
  const base_arg window[] = {WINDOW_ARGS(size, step, pad, p->channels, 1, 0), EPILOGUE_ARGS(p->act)};
  const base_arg both[] = {WINDOW_ARGS(size, step, pad, 1, panel, 0),
                           ACT_ARGS(p->expand_act),
                           ARG_INTS("expand_kernel", first, p->first ? 2 : 0),
                           ARG_INTS("expand_stride", first_step, p->first ? 2 : 0),
                           ARG_INTS("expand_padding", first_pad, p->first ? 4 : 0),
                           EPILOGUE_ARGS(p->act)};
  l->expand.attrs = base_attrs_make(l->arena, p->first ? planes : point, 15);
  l->window.attrs = base_attrs_make(l->arena, window, 15);
  l->both.attrs = base_attrs_make(l->arena, both, 21);
}

static int64_t expanded_size(const problem *p, int64_t in) {
  return p->first ? (in + p->first / 2 * 2 - p->first) / p->first_stride + 1 : in;
}

static void make_layer(layer *l, uint32_t level, const problem *p) {
  *l = (layer){.arena = base_arena_new(&base_libc_allocator)};
  l->expand.row = run_row(KERN_CONV, level);
  l->window.row = run_row(KERN_DEPTHWISE, level);
  l->both.row = run_row(KERN_EXPAND_DEPTHWISE, level);
  int64_t panel = l->both.row->lanes, pad = p->kernel / 2 * 2 - p->kernel;
  const int64_t last[] = {p->batch, p->height, p->width, p->depth},
                planes[] = {p->batch, p->depth, p->height, p->width};
  const int64_t height = expanded_size(p, p->height), width = expanded_size(p, p->width);
  const int64_t expanded[] = {p->batch, height, width, p->channels};
  const int64_t y[] = {p->batch, (height + pad) / p->stride + 1, (width + pad) / p->stride + 1, p->channels};
  const int64_t w[] = {p->kernel * p->kernel, p->channels};
  int64_t expand_w;
  assert_true(
      kern_conv_packed_size(false, 1, p->channels, p->first ? p->first * p->first : 1, p->depth, panel, &expand_w));
  l->in = p->height * p->width * p->depth;
  l->out = y[1] * y[2] * y[3];
  set_attributes(l, p, panel);
  l->expand.in[0] = l->both.in[0] = floats(l, 4, p->first ? planes : last);
  l->expand.in[1] = l->both.in[KERN_IN_EXPAND_W] = floats(l, 1, &expand_w);
  l->expand.in[KERN_IN_BIAS] = l->both.in[KERN_IN_EXPAND_BIAS] = floats(l, 1, &p->channels);
  l->expand.out = l->window.in[0] = floats(l, 4, expanded);
  l->window.in[1] = l->both.in[1] = floats(l, 2, w);
  l->window.in[KERN_IN_BIAS] = l->both.in[KERN_IN_BIAS] = floats(l, 1, &p->channels);
  l->window.out = floats(l, 4, y);
  l->both.out = floats(l, 4, y);
}

static void free_layer(layer *l) {
  for (uint32_t i = 0; i < l->owned_count; i++) free(l->owned[i]);
  base_arena_free(l->arena);
}

static void expect_same_bits(layer *l) {
  int64_t batch = l->both.out.dims[0];
  size_t bytes = (size_t)l->out * sizeof(float);
  for (uint32_t workers = 1; workers <= 3; workers++) {
    memset(l->both.out.data, 0xee, (size_t)batch * bytes);
    run_kernel_on(&l->both, workers);
    assert_memory_equal(l->both.out.data, l->window.out.data, (size_t)batch * bytes);
  }
  float *x = l->both.in[0].data, *y = l->window.out.data;
  l->both.in[0].dims[0] = l->both.out.dims[0] = 1;
  for (int64_t n = 0; n < batch; n++) {
    l->both.in[0].data = x + n * l->in;
    run_kernel_on(&l->both, 1);
    assert_memory_equal(l->both.out.data, y + n * l->out, bytes);
  }
}

static void one_step_gives_the_bits_of_two(void **state) {
  (void)state;
  uint32_t levels;
  kern_levels(&levels);
  for (uint32_t i = 0; i < levels * PROBLEMS; i++) {
    const problem *p = &problems[i % PROBLEMS];
    const kern_row *row = run_row(KERN_EXPAND_DEPTHWISE, i / PROBLEMS);
    if (!row || !kern_expand_has(p->kernel, p->stride, 1, p->channels, row->lanes)) continue;
    layer l;
    make_layer(&l, i / PROBLEMS, p);
    run_kernel_on(&l.expand, 1);
    run_kernel_on(&l.window, 1);
    expect_same_bits(&l);
    free_layer(&l);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_step_gives_the_bits_of_two)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
