/* half.c -- which layers may have weights of 16 bits: no file is written anew, td_load_options.precision and .keep_f32
 * say it to the engine.
 *
 * A layer is a name that `profile` prints, of steps whose weights are stored, or whose numbers are multiplied, in
 * another type if the layer is kept: what a CPU leaves in f32 anyway is none. */
#include "job.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static td_load_options options_of(const job *j, const char *precision, const char *keep) {
  return (td_load_options){.size = sizeof(td_load_options),
                           .isa = j->engine.isa,
                           .allocator = j->engine.allocator,
                           .weights = j->weights,
                           .precision = precision,
                           .keep_f32 = keep};
}

/* All but `alone`, or those that are kept. */
static const char *list_names(const job *j, int64_t alone) {
  base_text list = {.allocator = j->engine.allocator};
  for (uint32_t i = 0; i < j->layers.count; i++) {
    if (alone == QUANT_ALL ? !j->layers.at[i].kept : alone == (int64_t)i) continue;
    if (list.length) base_text_add(&list, ",", 1);
    base_text_add(&list, j->layers.at[i].label, strlen(j->layers.at[i].label));
  }
  const char *names = list.failed ? NULL : base_arena_slice(j->arena, list.at ? list.at : "", list.length);
  base_text_free(&list);
  return names;
}

const char *quant_kept_names(const job *j) { return list_names(j, QUANT_ALL); }

td_status quant_open_halves(const job *j, int64_t alone, quant_runner *r, td_error *err) {
  const char *keep = list_names(j, alone);
  if (!keep) return base_no_memory(err, "names of layers");
  const td_load_options options = options_of(j, j->precision, *keep ? keep : NULL);
  return quant_open_path(r, j->model_path, &options, err);
}

/* ---- which layers there are ---- */

/* What the steps of a name read and multiply. */
typedef struct use {
  double const_bytes;
  uint32_t narrow; /* steps that multiply bf16 */
} use;

/* `name` is empty where the step computes nothing. */
static td_status step_at(const quant_runner *r, size_t i, td_step *step, base_str *name, td_error *err) {
  *step = (td_step){.size = sizeof *step};
  TRY(td_session_get_step(r->session, i, step, err));
  *name = step->origins && *step->op ? base_node_name(step->name) : (base_str){"", 0};
  return TD_OK;
}

static td_status steps_of(const quant_runner *r, uint32_t *count, td_error *err) {
  td_model_stats stats = {.size = sizeof stats};
  TRY(td_model_get_stats(r->model, &stats, err));
  *count = stats.steps;
  return TD_OK;
}

/* Every name of a step that computes something, as a layer. */
static td_status list_steps(job *j, const quant_runner *r, base_map *index, td_error *err) {
  uint32_t count;
  TRY(steps_of(r, &count, err));
  for (uint32_t i = 0; i < count; i++) {
    td_step step;
    base_str name;
    TRY(step_at(r, i, &step, &name, err));
    if (!name.length || base_map_get(index, name)) continue;
    if (memchr(name.at, ',', name.length)) continue; /* no list can name it: it is as the others are not */
    const char *label = base_arena_slice(j->arena, name.at, name.length);
    quant_layer *layer = base_vec_push(j->arena, &j->layers);
    if (!label || !layer || !base_map_put(index, j->arena, base_str_of(label), j->layers.count - 1, NULL))
      return base_no_memory(err, "layers");
    *layer = (quant_layer){.label = label};
  }
  return TD_OK;
}

static td_status add_uses(const quant_runner *r, const base_map *index, use *uses, td_error *err) {
  uint32_t count;
  TRY(steps_of(r, &count, err));
  for (uint32_t i = 0; i < count; i++) {
    td_step step;
    base_str name;
    TRY(step_at(r, i, &step, &name, err));
    const uint32_t *at = name.length ? base_map_get(index, name) : NULL;
    if (!at) continue;
    uses[*at].const_bytes += step.const_bytes;
    uses[*at].narrow += step.multiplied == TD_BF16;
  }
  return TD_OK;
}

/* One run, behind which steps have figures. */
static td_status run_once(const job *j, const quant_runner *r, td_error *err) {
  base_arena *arena = base_arena_new(j->engine.allocator);
  if (!arena) return base_no_memory(err, "a sample");
  td_status status = quant_set_sample(&j->data, 0, r->model, r->session, arena, err);
  if (status == TD_OK) status = td_session_run(r->session, err);
  base_arena_free(arena);
  return status;
}

/* Leaves the layers of which the two models differ. */
static td_status keep_different(job *j, const quant_runner *narrow, const base_map *index, td_error *err) {
  quant_runner kept = {0};
  use *of_narrow = base_new(j->arena, use, (size_t)j->layers.count + 1),
      *of_kept = base_new(j->arena, use, (size_t)j->layers.count + 1);
  if (!of_narrow || !of_kept) return base_no_memory(err, "layers");
  for (uint32_t i = 0; i < j->layers.count; i++) j->layers.at[i].kept = true;
  td_status status = quant_open_halves(j, QUANT_ALL, &kept, err);
  if (status == TD_OK) status = run_once(j, &kept, err);
  if (status == TD_OK) status = add_uses(narrow, index, of_narrow, err);
  if (status == TD_OK) status = add_uses(&kept, index, of_kept, err);
  quant_close(&kept);
  TRY(status);
  uint32_t count = 0;
  for (uint32_t i = 0; i < j->layers.count; i++) {
    if (of_narrow[i].const_bytes == of_kept[i].const_bytes && of_narrow[i].narrow == of_kept[i].narrow) continue;
    j->layers.at[count] = j->layers.at[i];
    j->layers.at[count++].kept = false;
  }
  j->layers.count = count;
  return TD_OK;
}

static td_status list_outputs(job *j, td_error *err) {
  for (size_t i = 0; i < td_model_output_count(j->f32.model); i++) {
    td_value_info info = {.size = sizeof info};
    TRY(td_model_output(j->f32.model, i, &info, err));
    const char **slot = base_vec_push(j->arena, &j->outputs);
    if (!slot) return base_no_memory(err, "outputs");
    *slot = info.name;
  }
  return TD_OK;
}

td_status quant_find_halves(job *j, td_error *err) {
  const td_load_options plain = options_of(j, NULL, NULL);
  quant_runner narrow = {0};
  base_map index = {0};
  TRY(quant_open_path(&j->f32, j->model_path, &plain, err));
  TRY(list_outputs(j, err));
  td_status status = quant_open_halves(j, QUANT_ALL, &narrow, err);
  if (status == TD_OK) status = run_once(j, &narrow, err);
  if (status == TD_OK) status = list_steps(j, &narrow, &index, err);
  if (status == TD_OK) status = keep_different(j, &narrow, &index, err);
  quant_close(&narrow);
  TRY(status);
  if (!j->layers.count)
    return base_fail(err, TD_UNSUPPORTED, j->model_path, -1,
                     "--precision %s changes no layer here: without instructions for it, products of fewer than 2^18 "
                     "weights and convolutions stay f32; --isa LEVEL measures as another level of this CPU computes",
                     j->precision);
  return TD_OK;
}
