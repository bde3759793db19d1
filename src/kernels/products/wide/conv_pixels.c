/* conv_pixels.c -- KERN_CONV of few weights, as products of runs of pixels with panels (pixel_tiles_priv.h). For a
 * first layer a run is a row of the output, and a task a band of rows of one sample; for a 1x1 convolution a task is a
 * run of pixels of the batch. */
#include "kernels/products/conv_image_priv.h"
#include "kernels/products/conv_pixels_priv.h"
#include "kernels/products/epilogue_priv.h"
#include "kernels/products/gemm_tile_priv.h"
#include "kernels/products/pixel_tiles_priv.h"
#include "kernels/tasks_priv.h"

/* Of a tile: three take fewer loads per multiply-add than two, which AVX2 runs short of. */
enum { MOST_PANELS = V_REGISTERS > 16 ? 2 : PIXEL_MAX_PANELS };
/* Elements of a window over an image: AVX2 gains from longer ones, too, as these tiles take fewer loads. */
enum { IMAGE_DEPTH = V_REGISTERS > 16 ? 32 : INT32_MAX };
enum { LEAST_PIXELS = 64 }; /* of a sample of a 1x1 convolution: they fill tiles */
enum { PIXELS = 96 };       /* of a run, with what is done to them afterwards: they are in L1 then */

typedef struct layer {
  kern_conv conv;
  kern_epilogue rest; /* of the epilogue: what tiles do not do */
  bool has_rest;
  pixel_tiles tiles; /* of the first panels and no pixel */
  const float *bias; /* of all panels */
  float *out;
  int64_t out_pitch, panels;
} layer;

/* Pixels [from, from + count) of the run that begins at `tiles`. */
static void run_pixels(const layer *l, const pixel_tiles *tiles, int64_t from, int64_t count, float *to) {
  int64_t parts = (l->panels + MOST_PANELS - 1) / MOST_PANELS;
  pixel_tiles p = *tiles;
  if (p.taps) p.skipped = from * p.x_pitch;
  else p.x += from * p.x_pitch;
  p.pixels = count;
  for (int64_t i = 0; i < parts; i++) {
    int64_t panel = gemm_split(l->panels, parts, i), next = gemm_split(l->panels, parts, i + 1);
    p.w = p.ahead = tiles->w + panel * p.depth * V_LANES;
    p.bias = l->bias + panel * V_LANES;
    p.to = to + panel * V_LANES;
    p.last = next < l->panels ? V_LANES : l->conv.group_out - (l->panels - 1) * V_LANES;
    KERN_NAME(pixel_tiles)(&p, next - panel);
  }
}

/* `width` pixels, of which the first one is `pixel` of the output. */
static void run_row(const layer *l, const pixel_tiles *tiles, int64_t pixel, int64_t width) {
  for (int64_t from = 0, count; from < width; from += count) {
    count = width - from < 2 * PIXELS ? width - from : PIXELS;
    float *to = l->out + (pixel + from) * l->out_pitch;
    run_pixels(l, tiles, from, count, to);
    if (!l->has_rest) continue;
    const kern_epilogue rest = kern_epilogue_at(&l->rest, pixel + from, 0);
    KERN_NAME(epilogue_rows)(&rest, to, l->out_pitch, count, l->conv.group_out);
  }
}

static td_status describe(const base_call *call, const kern_conv *conv, const float *weights, layer *l) {
  const base_tensor *y = base_out(call, 0);
  float limits[2] = {-INFINITY, INFINITY};
  *l = (layer){.conv = *conv, .out = y->data, .out_pitch = kern_pitch(y)};
  TRY(KERN_NAME(epilogue_of)(call, &l->rest));
  l->panels = base_ceil_div(conv->group_out, V_LANES);
  float *bias = base_call_scratch(call, (size_t)l->panels, V_LANES * sizeof *bias);
  if (!bias) return base_no_memory(call->err, "scratch");
  memset(bias, 0, (size_t)l->panels * V_LANES * sizeof *bias);
  if (l->rest.bias) memcpy(bias, l->rest.bias, (size_t)conv->group_out * sizeof *bias);
  l->bias = bias;
  l->rest.bias = NULL;
  l->has_rest =
      !kern_epilogue_cheap(&l->rest, limits) || l->rest.residual || l->rest.scale || l->rest.shift || l->rest.chain;
  l->tiles = (pixel_tiles){.depth = conv->taps * conv->group_in,
                           .w = weights,
                           .low = l->has_rest ? -INFINITY : limits[0],
                           .high = l->has_rest ? INFINITY : limits[1],
                           .to_pitch = l->out_pitch};
  return TD_OK;
}

/* Tasks that rows of so many pixels make, of each of `batch`. */
static int64_t bands(const layer *l, int64_t rows, int64_t width, int64_t batch, uint32_t workers) {
  double work = (double)l->tiles.depth * (double)l->panels * (double)width;
  double paying = ceil((double)rows * work / (double)kern_task_size(KERN_TASK_WORK, workers));
  double most = fmin(ceil((double)kern_tasks_wanted(workers) / (double)batch), paying);
  return (int64_t)fmax(fmin(most, (double)rows), 1);
}

static bool is_pointwise(const kern_conv *c) {
  bool is = !c->channels_first && c->taps == 1 && c->groups == 1;
  for (int32_t i = 0; i < KERN_CONV_AXES; i++) {
    const kern_conv_axis *a = &c->axis[i];
    is = is && a->stride == 1 && a->begin == 0 && a->in == a->out;
  }
  return is;
}

/* A panel of fewer columns than this costs more than sums of its products (dot_tile_priv.h). */
enum { LEAST_COLUMNS = V_LANES / 4 };

bool KERN_NAME(conv_pixels_fit)(const kern_conv *c) {
  const int64_t over = c->group_out % V_LANES;
  if (over > 0 && over < LEAST_COLUMNS) return false;
  if (is_pointwise(c))
    return c->out_size >= LEAST_PIXELS && (double)c->group_in * (double)c->group_out <= KERN_CONV_FEW_WEIGHTS;
  return kern_conv_image_fits(c) && c->taps * c->group_in <= IMAGE_DEPTH;
}

static td_status run_image(const base_call *call, layer *l) {
  const kern_conv *c = &l->conv;
  kern_conv_image image;
  TRY(kern_conv_image_of(call, c, &image));
  l->tiles.taps = image.row;
  l->tiles.x_pitch = c->axis[2].stride;
  int64_t height = c->axis[1].out, width = c->axis[2].out, parts = bands(l, height, width, c->batch, call->workers);
  int64_t total = c->batch * parts;
  if (total > INT32_MAX)
    return base_fail(call->err, TD_UNSUPPORTED, NULL, -1, "a convolution of %lld parts", (long long)total);
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total)) {
    int64_t sample = task / parts, band = task % parts, end = gemm_split(height, parts, band + 1);
    for (int64_t row = gemm_split(height, parts, band); row < end; row++) {
      kern_conv_image_row(&image, sample, row);
      run_row(l, &l->tiles, (sample * height + row) * width, width);
    }
  }
  return TD_OK;
}

static void run_pointwise(const base_call *call, layer *l) {
  const base_tensor *x = base_in(call, 0);
  l->tiles.x_pitch = kern_pitch(x);
  int64_t pixels = l->conv.batch * l->conv.out_size, total = bands(l, pixels, 1, 1, call->workers);
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total)) {
    int64_t pixel = gemm_split(pixels, total, task);
    pixel_tiles tiles = l->tiles;
    tiles.x = (const float *)x->data + pixel * tiles.x_pitch;
    run_row(l, &tiles, pixel, gemm_split(pixels, total, task + 1) - pixel);
  }
}

td_status KERN_NAME(conv_pixels)(const base_call *call, const kern_conv *conv, const float *weights) {
  layer l;
  TRY(describe(call, conv, weights, &l));
  if (conv->channels_first) return run_image(call, &l);
  run_pointwise(call, &l);
  return TD_OK;
}
