/* fit.h -- weights of 8 bits rounded, and biases shifted, so that products come out as in f32 on samples. */
#ifndef QUANTIZE_FIT_H
#define QUANTIZE_FIT_H
#include "measure.h"

enum {
  FIT_BLOCK = 1024,  /* inputs of a product whose rounding errors know of each other */
  FIT_COLUMNS = 8192 /* of a product's operand, over all samples */
};

/* How a product's operand is read: columns of `groups` times `k` numbers. */
typedef struct fit_window {
  int64_t channels, kernel[2]; /* 0 channels: rows of a matrix */
  int64_t strides[2], dilations[2], pads[4];
  bool same, lower; /* padded to ceil(size / stride) results, an odd one in front if `lower` */
} fit_window;

/* A product, and what is known of its operand: means of it as f32 and in steps of its range, second moments of the
 * latter, of each group by blocks of FIT_BLOCK. */
typedef struct fit_layer {
  quant_node *node;
  base_tensor w;
  int32_t axis;
  size_t output; /* of the measured model */
  const quant_range *range;
  fit_window window;
  int64_t groups, k, rows; /* of a group: inputs, results */
  uint64_t columns;
  double *mean, *mean_quantised;
  float *moments;
} fit_layer;

/* Chooses node->rounded and ->shift of all products, from the data. Needs ranges. */
td_status quant_fit(quant_model *m, const quant_ranges *ranges, const quant_data *data, const quant_engine *engine,
                    td_error *err);

/* ---- parts (round.c) ---- */

/* Rows [n, k] of w in units of `scales`, rounded so that sum((w - rounded * scale) x)^2 is small for x of these second
 * moments. `moments` [k, k], upper triangle, is used up; `room`: k. False: the moments are no such. */
bool quant_round_rows(const double *w, int64_t n, int64_t k, const float *scales, double *moments, double *room,
                      int8_t *rounded);
#endif
