/* job.h -- one call of `treadle-quantize`: its words, the model's layers, and what these cost. */
#ifndef QUANTIZE_JOB_H
#define QUANTIZE_JOB_H
#include <stdio.h>

#include "measure.h"
#include "smooth.h"
#include "sys/sys.h"

/* A layer that may be narrow. */
typedef struct quant_layer {
  const char *label;
  quant_node *node; /* NULL in a mode of 16 bits, whose layers are known by name alone */
  double alone;     /* the loss where it alone is narrow */
  bool kept;        /* in f32 */
} quant_layer;

typedef struct job {
  const char *model_path, *out_path, *data_path, *test_path, *max_loss_text, *weights, *smooth_text, *fit_text;
  const char *mode_name, *observer_name, *block_text, *layers_text;
  BASE_VEC(const char *) keep;
  quant_engine engine;
  FILE *to;              /* the report */
  double max_loss;       /* < 0: none */
  double alpha;          /* of smoothing, given or found; < 0: none was better */
  int64_t layers_told;   /* of the report */
  const char *precision; /* "bf16", "f16": no file is written anew; NULL: one is */
  bool json;
  bool fitted; /* weights and biases, to samples */
  sys_mapping map;
  base_text exported, folded_file, smoothed_file; /* `m` may be of any */
  base_arena *arena;
  quant_model m;
  quant_smoothing smoothing;
  quant_ranges ranges;
  quant_data data, judged; /* what is measured and chosen by; what the report is about */
  quant_recipe recipe;
  quant_observer observer;
  quant_runner f32;
  BASE_VEC(const char *) outputs;
  BASE_VEC(quant_layer) layers;
} job;

/* ---- products of 8 and 4 bits (prepare.c) ---- */

/* Finds the layers of j->m and, for static ones, the ranges between them. */
td_status quant_prepare(job *j, td_error *err);
/* Replaces j->m by its smoothed form, with the alpha that was given or does best on some samples. */
td_status quant_smooth(job *j, td_error *err);

/* ---- losses (loss.c) ---- */

enum { QUANT_ALL = -1 };
/* Of each output, with all layers narrow that are not kept, or `alone` and no other. */
td_status quant_loss(const job *j, int64_t alone, const quant_data *data, uint32_t samples, quant_error *errors,
                     double *loss, td_error *err);
td_status quant_loss_alone(job *j, quant_error *errors, td_error *err);
/* Keeps layers until the loss is at most j->max_loss: of those that cost most alone as few as do, and then none
 * without which the others do. */
td_status quant_keep_costly(job *j, quant_error *errors, double *loss, td_error *err);
void quant_keep(quant_layer *layer, bool kept);
uint32_t quant_kept(const job *j);
/* Layer numbers, the costliest first. NULL: out of memory. */
uint32_t *quant_by_cost(const job *j);

/* ---- weights of 16 bits (half.c) ---- */

/* Finds the layers whose weights or operands j->precision changes, and opens the model of f32. */
td_status quant_find_halves(job *j, td_error *err);
td_status quant_open_halves(const job *j, int64_t alone, quant_runner *r, td_error *err);
/* "A,B": the layers that are kept, as td_load_options.keep_f32 takes them. NULL: out of memory. */
const char *quant_kept_names(const job *j);

/* ---- the report (report.c) ---- */

td_status quant_report(const job *j, const quant_error *errors, td_error *err);

/* The whole program, but for what it says when it fails. */
td_status quant_run(int count, char **words, const td_allocator *allocator, FILE *to, td_error *err);
#endif
