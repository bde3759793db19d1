/* roi.c -- KERN_ROI_ALIGN: td::roi_align of dense f32, means alone; see data.h. Where samples lie is found once for all
 * channels. */
#include "kernels/data/data.h"
#include "kernels/kernels_priv.h"

#include <math.h>
#include <string.h>

enum { MAX_SAMPLES = 1 << 22 /* per cell: one for each pixel of a 2048 by 2048 box */, AT_ONCE = 64 };

td_status kern_roi_read(const base_call *call, const double *at, kern_roi_box *box) {
  const bool half = base_attr_int(call->attrs, KERN_ROI_HALF_PIXEL);
  const double scale = base_attr_float(call->attrs, KERN_ROI_SPATIAL_SCALE), shift = half ? 0.5 : 0;
  const int64_t height = base_attr_int(call->attrs, KERN_ROI_HEIGHT),
                width = base_attr_int(call->attrs, KERN_ROI_WIDTH),
                ratio = base_min_i64(base_attr_int(call->attrs, KERN_ROI_SAMPLING_RATIO), MAX_SAMPLES);
  box->left = at[0] * scale - shift;
  box->top = at[1] * scale - shift;
  double w = at[2] * scale - shift - box->left, h = at[3] * scale - shift - box->top;
  if (!half) w = fmax(w, 1), h = fmax(h, 1);
  box->cell_height = h / (double)height;
  box->cell_width = w / (double)width;
  if (!(fabs(box->cell_height) < 1e6) || !(fabs(box->cell_width) < 1e6))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "td::roi_align: a box is out of range");
  box->rows = ratio > 0 ? ratio : (int64_t)ceil(box->cell_height);
  box->columns = ratio > 0 ? ratio : (int64_t)ceil(box->cell_width);
  if (box->rows > 0 && box->columns > MAX_SAMPLES / box->rows)
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1,
                     "td::roi_align: a cell of %lld by %lld samples; at most %d are supported", (long long)box->rows,
                     (long long)box->columns, MAX_SAMPLES);
  return TD_OK;
}

kern_roi_sample kern_roi_place(const kern_roi_box *box, int64_t row, int64_t column, int64_t i, int64_t j,
                               int64_t height, int64_t width) {
  kern_roi_sample s = {{0}, {0}};
  double y = box->top + ((double)row + ((double)i + 0.5) / (double)box->rows) * box->cell_height;
  double x = box->left + ((double)column + ((double)j + 0.5) / (double)box->columns) * box->cell_width;
  if (!(y >= -1 && y <= (double)height && x >= -1 && x <= (double)width)) return s;
  y = fmin(fmax(y, 0), (double)(height - 1));
  x = fmin(fmax(x, 0), (double)(width - 1));
  const int64_t top = (int64_t)y, left = (int64_t)x, bottom = base_min_i64(top + 1, height - 1),
                right = base_min_i64(left + 1, width - 1);
  const double v = y - (double)top, h = x - (double)left;
  return (kern_roi_sample){{top * width + left, top * width + right, bottom * width + left, bottom * width + right},
                           {(1 - v) * (1 - h), (1 - v) * h, v * (1 - h), v * h}};
}

td_status kern_roi_check(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *boxes = base_in(call, 1), *images = base_in(call, 2);
  if (boxes->dims[1] != 4 || images->rank > 1 || base_tensor_numel(images) != boxes->dims[0])
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "boxes are not [R, 4] with an image each");
  if (base_tensor_numel(base_out(call, 0)) && base_tensor_numel(x) == 0)
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "the image has no elements");
  for (int64_t r = 0; r < boxes->dims[0]; r++) {
    const int64_t image = base_load_i64(images->dtype, images->data, r * (images->rank ? images->strides[0] : 0));
    if (image < 0 || image >= x->dims[0])
      return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "box %lld is of image %lld", (long long)r,
                       (long long)image);
  }
  return TD_OK;
}

typedef struct sample {
  int64_t at[4];
  float weight[4];
} sample;

/* Adds samples to one cell of every channel. */
static void add_samples(float *to, int64_t cells, const float *planes, int64_t plane, int64_t channels,
                        const sample *samples, int64_t count) {
  for (int64_t c = 0; c < channels; c++) {
    const float *from = planes + c * plane;
    float sum = 0;
    for (int64_t k = 0; k < count; k++) {
      const sample *s = &samples[k];
      sum += s->weight[0] * from[s->at[0]] + s->weight[1] * from[s->at[1]] + s->weight[2] * from[s->at[2]] +
             s->weight[3] * from[s->at[3]];
    }
    to[c * cells] += sum;
  }
}

/* One cell, whose elements of all channels are zero. */
static void align_cell(const kern_roi_box *box, int64_t row, int64_t column, const base_tensor *x, const float *planes,
                       float *to, int64_t cells) {
  const int64_t total = box->rows > 0 && box->columns > 0 ? box->rows * box->columns : 0;
  sample samples[AT_ONCE];
  for (int64_t first = 0; first < total; first += AT_ONCE) {
    const int64_t count = base_min_i64(AT_ONCE, total - first);
    for (int64_t k = 0; k < count; k++) {
      const int64_t i = (first + k) / box->columns, j = (first + k) % box->columns;
      const kern_roi_sample s = kern_roi_place(box, row, column, i, j, x->dims[2], x->dims[3]);
      for (int n = 0; n < 4; n++) {
        samples[k].at[n] = s.at[n];
        samples[k].weight[n] = (float)(s.weight[n] / (double)total);
      }
    }
    add_samples(to, cells, planes, x->dims[2] * x->dims[3], x->dims[1], samples, count);
  }
}

td_status kern_roi_align(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *boxes = base_in(call, 1), *images = base_in(call, 2),
                    *y = base_out(call, 0);
  const int64_t channels = x->dims[1], columns = y->dims[3], cells = y->dims[2] * columns;
  const td_status status = kern_roi_check(call);
  if (status != TD_OK || base_tensor_numel(y) == 0) return status;
  for (int64_t r = base_call_first(call, boxes->dims[0]); r < boxes->dims[0];
       r = base_call_next(call, r, boxes->dims[0])) {
    const float *at = (const float *)boxes->data + r * 4,
                *planes = (const float *)x->data +
                          base_load_i64(images->dtype, images->data, r) * channels * x->dims[2] * x->dims[3];
    float *to = (float *)y->data + r * channels * cells;
    kern_roi_box box;
    const td_status read = kern_roi_read(call, (double[]){at[0], at[1], at[2], at[3]}, &box);
    if (read != TD_OK) return read;
    memset(to, 0, (size_t)(channels * cells) * sizeof *to);
    for (int64_t cell = 0; cell < cells; cell++)
      align_cell(&box, cell / columns, cell % columns, x, planes, to + cell, cells);
  }
  return TD_OK;
}
