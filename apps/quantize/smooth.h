/* smooth.h -- SmoothQuant (Xiao et al., arXiv 2211.10438): outliers of activations moved into weights. */
#ifndef QUANTIZE_SMOOTH_H
#define QUANTIZE_SMOOTH_H
#include "measure.h"

/* A tensor that matrix products read, with a factor for each of its channels, by which it is divided and their weights
 * multiplied. */
typedef struct quant_smoothed {
  const char *x;
  const quant_node *behind; /* LayerNormalization or the like: its own weights are divided; NULL: a Mul of our own is */
  const quant_node *shifted; /* a sum with a constant behind `behind`, divided too; or NULL */
  const char *to;            /* result of that Mul */
  int64_t channels;
  float *most, *weight_most; /* magnitudes of x and of the weights, by channel */
  float *by;                 /* the factors */
} quant_smoothed;

typedef struct quant_smoothing {
  BASE_VEC(quant_smoothed) at;
  uint32_t folded; /* of them, those without a Mul */
} quant_smoothing;

/* Needs the products of quant_find. TD_UNSUPPORTED: there are none with constant matrices. */
td_status quant_find_smoothed(quant_model *m, quant_smoothing *s, td_error *err);
/* Channels' magnitudes on the data. */
td_status quant_measure_smoothed(const quant_model *m, const quant_data *data, const quant_engine *engine,
                                 quant_smoothing *s, td_error *err);
/* Appends the model, equal to `m` but for rounding, whose factors are most^alpha / weight_most^(1 - alpha). */
td_status quant_write_smoothed(quant_model *m, quant_smoothing *s, double alpha, base_text *out, td_error *err);
/* The Muls are not to be quantised: in 8 bits what they divide would be lost. */
void quant_keep_smoothed(quant_model *m, const quant_smoothing *s);
#endif
