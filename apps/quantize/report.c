/* report.c -- how far outputs are from those of f32, and which layers cost most: as a table, or as JSON. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "job.h"

static double percent(const quant_error *e) { return 100.0 * (double)e->agree / (double)e->rows; }

static uint32_t told_of(const job *j) {
  return j->layers_told < j->layers.count ? (uint32_t)j->layers_told : j->layers.count;
}

/* ---- as text ---- */

static void print_outputs(const job *j, const quant_error *errors) {
  fprintf(j->to, "%-32s %14s %14s %14s\n", "output", "relative error", "largest", "top-1 agrees");
  for (uint32_t i = 0; i < j->outputs.count; i++) {
    const quant_error *e = &errors[i];
    if (!e->rows) fprintf(j->to, "%-32s %14s\n", j->outputs.at[i], "no f32");
    else fprintf(j->to, "%-32s %14.6f %14.6g %13.2f%%\n", j->outputs.at[i], quant_relative(e), e->most, percent(e));
  }
}

static void print_layers(const job *j, const uint32_t *order) {
  const uint32_t count = told_of(j);
  if (!count) return;
  if (j->precision) fprintf(j->to, "layer, alone in %-44s %14s\n", j->precision, "relative error");
  else fprintf(j->to, "%-60s %14s\n", "layer, alone in 8 or 4 bits", "relative error");
  for (uint32_t k = 0; k < count; k++) {
    const quant_layer *layer = &j->layers.at[order[k]];
    fprintf(j->to, "%-60s %14.6f%s\n", layer->label, layer->alone, layer->kept ? "  kept in f32" : "");
  }
}

static void print_end(const job *j, const char *kept) {
  const uint32_t all = j->layers.count;
  fprintf(j->to, "%u of %u layers narrow, on %u samples%s%s\n", all - quant_kept(j), all, j->judged.count,
          j->out_path ? ": " : "", j->out_path ? j->out_path : "");
  if (j->smooth_text && j->alpha < 0) fprintf(j->to, "not smoothed: no alpha made the error smaller\n");
  else if (j->smooth_text)
    fprintf(j->to, "smoothed with alpha %.2f: %u operands by what made them, %u by a Mul\n", j->alpha,
            j->smoothing.folded, j->smoothing.at.count - j->smoothing.folded);
  if (j->precision) fprintf(j->to, "--precision %s", j->precision);
  if (j->precision && *kept) fprintf(j->to, " --keep-f32 '%s'", kept);
  if (j->precision) fprintf(j->to, "\n");
}

/* ---- as JSON ---- */

/* JSON has no infinity: null. */
static json_t *number_of(double x) { return isfinite(x) ? json_real(x) : json_null(); }

static json_t *outputs_of(const job *j, const quant_error *errors) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < j->outputs.count; i++) {
    const quant_error *e = &errors[i];
    json_t *one = json_object();
    json_object_set_new(one, "name", json_string_nocheck(j->outputs.at[i]));
    if (e->rows) {
      json_object_set_new(one, "relative_error", number_of(quant_relative(e)));
      json_object_set_new(one, "largest", number_of(e->most));
      json_object_set_new(one, "top1_percent", json_real(percent(e)));
    }
    json_array_append_new(list, one);
  }
  return list;
}

static json_t *layers_of(const job *j, const uint32_t *order) {
  json_t *list = json_array();
  for (uint32_t k = 0; k < told_of(j); k++) {
    const quant_layer *layer = &j->layers.at[order[k]];
    json_t *one = json_object();
    json_object_set_new(one, "name", json_string_nocheck(layer->label));
    json_object_set_new(one, "relative_error", number_of(layer->alone));
    json_object_set_new(one, "kept", json_boolean(layer->kept));
    json_array_append_new(list, one);
  }
  return list;
}

static td_status print_json(const job *j, const quant_error *errors, const uint32_t *order, const char *kept,
                            td_error *err) {
  json_t *root = json_object(), *names = json_array();
  for (uint32_t i = 0; i < j->layers.count; i++)
    if (j->layers.at[i].kept) json_array_append_new(names, json_string_nocheck(j->layers.at[i].label));
  json_object_set_new(root, "model", json_string_nocheck(j->model_path));
  json_object_set_new(root, "mode", json_string(j->mode_name ? j->mode_name : "static"));
  json_object_set_new(root, "samples", json_integer(j->judged.count));
  json_object_set_new(root, "layers", json_integer(j->layers.count));
  if (j->smooth_text)
    json_object_set_new(root, "smoothed",
                        j->alpha < 0 ? json_null()
                                     : json_pack("{s:f,s:i,s:i}", "alpha", j->alpha, "folded", (int)j->smoothing.folded,
                                                 "by_mul", (int)(j->smoothing.at.count - j->smoothing.folded)));
  json_object_set_new(root, "outputs", outputs_of(j, errors));
  json_object_set_new(root, "costliest", layers_of(j, order));
  json_object_set_new(root, "kept", names);
  if (j->precision) json_object_set_new(root, "keep_f32", json_string_nocheck(kept));
  char *text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
  json_decref(root);
  if (!text) return base_no_memory(err, "a report");
  fprintf(j->to, "%s\n", text);
  free(text);
  return TD_OK;
}

td_status quant_report(const job *j, const quant_error *errors, td_error *err) {
  const uint32_t *order = quant_by_cost(j);
  const char *kept = quant_kept_names(j);
  if (!order || !kept) return base_no_memory(err, "a report");
  if (j->json) return print_json(j, errors, order, kept, err);
  print_outputs(j, errors);
  print_layers(j, order);
  print_end(j, kept);
  return TD_OK;
}
