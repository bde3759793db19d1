/* conv_image.c -- first layers: KERN_CONV of an image that stands channels first (conv_image.h), row by row of the
 * output, as products of a row's windows with panels (pixel_tiles_priv.h). A task is a band of rows of one sample. */
#include "kernels/conv_image_priv.h"
#include "kernels/epilogue_priv.h"
#include "kernels/gemm_tile_priv.h"
#include "kernels/pixel_tiles_priv.h"

enum { TASKS = 24, TASK_WORK = 16384 }; /* tasks wanted, and vector multiply-adds that are worth one */
/* Of a tile: three take fewer loads per multiply-add than two, which AVX2 runs short of. */
enum { MOST_PANELS = V_REGISTERS > 16 ? 2 : PIXEL_MAX_PANELS };
enum { PIXELS = 96 }; /* of a row, with what is done to them afterwards: they are in L1 then */

typedef struct layer {
  kern_conv conv;
  kern_conv_image image;
  kern_epilogue rest; /* of the epilogue: what tiles do not do */
  bool has_rest;
  pixel_tiles tiles; /* of the first panels and no pixel */
  const float *bias; /* of all channels */
  float *out;
  int64_t out_pitch, panels, bands;
} layer;

/* Pixels [from, from + count) of the row that the image's pointers are of. */
static void run_pixels(const layer *l, int64_t from, int64_t count, float *to) {
  int64_t parts = (l->panels + MOST_PANELS - 1) / MOST_PANELS;
  pixel_tiles p = l->tiles;
  p.skipped = from * p.x_pitch;
  p.pixels = count;
  for (int64_t i = 0; i < parts; i++) {
    int64_t panel = gemm_split(l->panels, parts, i), next = gemm_split(l->panels, parts, i + 1);
    p.w = l->tiles.w + panel * p.depth * V_LANES;
    p.bias = l->bias + panel * V_LANES;
    p.to = to + panel * V_LANES;
    KERN_NAME(pixel_tiles)(&p, next - panel);
  }
}

static void run_row(const layer *l, int64_t first_pixel) {
  int64_t width = l->conv.axis[2].out;
  for (int64_t from = 0, count; from < width; from += count) {
    count = width - from < 2 * PIXELS ? width - from : PIXELS;
    float *to = l->out + (first_pixel + from) * l->out_pitch;
    run_pixels(l, from, count, to);
    if (!l->has_rest) continue;
    const kern_epilogue rest = kern_epilogue_at(&l->rest, first_pixel + from, 0);
    KERN_NAME(epilogue_rows)(&rest, to, l->out_pitch, count, l->conv.group_out);
  }
}

static td_status describe(const base_call *call, const kern_conv *conv, const float *weights, layer *l) {
  const base_tensor *y = base_out(call, 0);
  float limits[2] = {-INFINITY, INFINITY};
  *l = (layer){.conv = *conv, .rest = kern_epilogue_of(call), .out = y->data, .out_pitch = kern_pitch(y)};
  TRY(kern_conv_image_of(call, conv, &l->image));
  float *zeros = base_call_scratch(call, (size_t)conv->group_out, sizeof *zeros);
  if (!zeros) return base_no_memory(call->err, "scratch");
  memset(zeros, 0, (size_t)conv->group_out * sizeof *zeros);
  l->bias = l->rest.bias ? l->rest.bias : zeros;
  l->rest.bias = NULL;
  l->has_rest = !kern_epilogue_cheap(&l->rest, limits) || l->rest.residual || l->rest.scale || l->rest.shift;
  l->tiles = (pixel_tiles){.taps = l->image.row,
                           .x_pitch = conv->axis[2].stride,
                           .depth = conv->taps * conv->group_in,
                           .w = weights,
                           .low = l->has_rest ? -INFINITY : limits[0],
                           .high = l->has_rest ? INFINITY : limits[1],
                           .to_pitch = l->out_pitch};
  l->panels = conv->group_out / V_LANES;
  double work = (double)l->tiles.depth * (double)l->panels * (double)conv->axis[2].out,
         rows = (double)conv->axis[1].out;
  double most = fmin(ceil(TASKS / (double)conv->batch), ceil(rows * work / TASK_WORK));
  l->bands = (int64_t)fmax(fmin(most, rows), 1);
  return TD_OK;
}

td_status KERN_NAME(conv_image)(const base_call *call, const kern_conv *conv, const float *weights) {
  layer l;
  TRY(describe(call, conv, weights, &l));
  int64_t height = conv->axis[1].out, total = conv->batch * l.bands;
  if (total > INT32_MAX)
    return base_fail(call->err, TD_UNSUPPORTED, NULL, -1, "a convolution of %lld parts", (long long)total);
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total)) {
    int64_t sample = task / l.bands, band = task % l.bands, end = gemm_split(height, l.bands, band + 1);
    for (int64_t row = gemm_split(height, l.bands, band); row < end; row++) {
      kern_conv_image_row(&l.image, sample, row);
      run_row(&l, (sample * height + row) * conv->axis[2].out);
    }
  }
  return TD_OK;
}
