/* prepare.c -- what a model's layers and ranges are before it is written in 8 or 4 bits, and its smoothed form. */
#include <math.h>
#include <string.h>

#include "fit.h"
#include "job.h"

enum { FIT_SAMPLES = 64 };

static td_status keep_nodes(job *j, td_error *err) {
  for (uint32_t k = 0; k < j->keep.count; k++) {
    bool found = false;
    for (uint32_t i = 0; i < j->m.nodes.count; i++) {
      quant_node *n = &j->m.nodes.at[i];
      if (strcmp(n->label, j->keep.at[k]) == 0) found = n->kept = true;
    }
    if (!found)
      return base_fail(err, TD_BAD_ARGUMENT, j->model_path, -1, "--keep: no node is called %s", j->keep.at[k]);
  }
  return TD_OK;
}

static td_status list_products(job *j, td_error *err) {
  for (uint32_t i = 0; i < j->m.outputs.count; i++) {
    const char **slot = base_vec_push(j->arena, &j->outputs);
    if (!slot) return base_no_memory(err, "outputs");
    *slot = j->m.outputs.at[i];
  }
  for (uint32_t i = 0; i < j->m.nodes.count; i++) {
    quant_node *n = &j->m.nodes.at[i];
    if (!n->is_product) continue;
    quant_layer *layer = base_vec_push(j->arena, &j->layers);
    if (!layer) return base_no_memory(err, "layers");
    *layer = (quant_layer){.label = n->label, .node = n, .kept = n->kept};
  }
  if (!j->layers.count)
    return base_fail(err, TD_UNSUPPORTED, j->model_path, -1,
                     "no node is a convolution, MatMul or Gemm with a constant matrix of f32%s",
                     j->recipe.mode == QUANT_STATIC ? "" : " (convolutions are for --mode static)");
  return TD_OK;
}

td_status quant_prepare(job *j, td_error *err) {
  TRY(quant_find(&j->m, j->recipe.mode, &j->ranges, err));
  TRY(keep_nodes(j, err));
  quant_keep_smoothed(&j->m, &j->smoothing);
  TRY(list_products(j, err));
  if (j->recipe.mode != QUANT_STATIC) return TD_OK;
  j->recipe.ranges = &j->ranges;
  TRY(quant_measure(&j->m, &j->data, j->observer, &j->engine, &j->ranges, err));
  if (!j->fitted) return TD_OK;
  quant_data some;
  if (!quant_spread(j->arena, &j->data, FIT_SAMPLES, &some)) return base_no_memory(err, "samples");
  return quant_fit(&j->m, &j->ranges, &some, &j->engine, err);
}

/* ---- smoothing ---- */

enum { SEARCH_SAMPLES = 16 /* by which alphas are compared */ };

/* The loss of the model smoothed with `alpha`, < 0: as it is; all else of the job is as in the end. */
static td_status try_alpha(const job *j, double alpha, double *loss, td_error *err) {
  base_text file = {.allocator = j->engine.allocator};
  job trial = *j;
  trial.arena = base_arena_new(j->engine.allocator);
  if (!trial.arena) return base_no_memory(err, "a trial");
  trial.m.arena = trial.arena;
  memset(&trial.layers, 0, sizeof trial.layers);
  memset(&trial.outputs, 0, sizeof trial.outputs);
  trial.ranges = (quant_ranges){0};
  trial.data.count = j->data.count < SEARCH_SAMPLES ? j->data.count : SEARCH_SAMPLES;
  trial.fitted = false; /* what smoothing does to rounding is seen without, in a part of the time */
  td_status status = TD_OK;
  if (alpha >= 0) status = quant_write_smoothed(&trial.m, &trial.smoothing, alpha, &file, err);
  else quant_write_tapped(&trial.m, NULL, 0, &file);
  if (file.failed) status = base_no_memory(err, "a trial");
  if (status == TD_OK) status = quant_read(trial.arena, file.at, file.length, &trial.m, err);
  if (status == TD_OK) status = quant_prepare(&trial, err);
  quant_error *errors = base_new(trial.arena, quant_error, (size_t)trial.outputs.count + 1);
  if (status == TD_OK && !errors) status = base_no_memory(err, "a trial");
  if (status == TD_OK) status = quant_loss(&trial, QUANT_ALL, &trial.data, trial.data.count, errors, loss, err);
  base_text_free(&file);
  base_arena_free(trial.arena);
  return status;
}

td_status quant_smooth(job *j, td_error *err) {
  static const double alphas[] = {-1, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9};
  const uint32_t count = strcmp(j->smooth_text, "auto") == 0 ? sizeof alphas / sizeof *alphas : 0;
  double least = INFINITY;
  TRY(quant_find(&j->m, QUANT_DYNAMIC, &j->ranges, err));
  TRY(quant_find_smoothed(&j->m, &j->smoothing, err));
  TRY(quant_measure_smoothed(&j->m, &j->data, &j->engine, &j->smoothing, err));
  for (uint32_t i = 0; i < count; i++) {
    double loss;
    TRY(try_alpha(j, alphas[i], &loss, err));
    if (!(loss < least)) continue;
    least = loss;
    j->alpha = alphas[i];
  }
  if (j->alpha < 0) return TD_OK;
  TRY(quant_write_smoothed(&j->m, &j->smoothing, j->alpha, &j->smoothed_file, err));
  return quant_read(j->arena, j->smoothed_file.at, j->smoothed_file.length, &j->m, err);
}
