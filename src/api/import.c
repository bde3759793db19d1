/* import.c -- the graph of a model, imported as often as somebody wants to see it, with what the options ask for before
 * the passes. */
#include "api/api_priv.h"

#include <string.h>

sys_mapping *api_add_file(td_model *m, const char *location) {
  api_file *file = base_vec_push(m->arena, &m->files);
  if (!file) return NULL;
  *file = (api_file){.location = location};
  return &file->mapping;
}

static const sys_mapping *find_file(const td_model *m, const char *location) {
  for (uint32_t i = 0; i < m->files.count; i++)
    if (m->files.at[i].location && strcmp(m->files.at[i].location, location) == 0) return &m->files.at[i].mapping;
  return NULL;
}

/* External data: beneath the model's folder, mapped for the life of the model. Importing the model once more finds all
 * of it here and writes nothing: other threads may use the model then. */
static td_status open_beside(void *user, const char *location, const void **bytes, size_t *size, td_error *err) {
  td_model *model = user;
  const sys_mapping *found = find_file(model, location);
  if (!found) {
    const char *slash = strrchr(model->path, '/');
    char *folder = slash ? base_arena_slice(model->arena, model->path, (size_t)(slash - model->path) + 1)
                         : base_arena_text(model->arena, ".");
    char *kept = folder ? base_arena_text(model->arena, location) : NULL;
    sys_mapping *fresh = kept ? api_add_file(model, kept) : NULL;
    if (!fresh) return base_no_memory(err, location);
    TRY(sys_map_beneath(folder, location, fresh, err));
    found = fresh;
  }
  *bytes = found->bytes;
  *size = found->size;
  return TD_OK;
}

static td_status import_builtin_model(const td_model *model, ir_graph **graph, td_error *err) {
  import_builtin_source source = {.name = model->builtin,
                                  .weights = model->bytes,
                                  .size = model->size,
                                  .file = model->options.weights,
                                  .seed = model->options.seed};
  return import_builtin(&source, model->ops, &model->allocator, graph, err);
}

import_source api_source(const td_model *model) {
  return (import_source){.bytes = model->bytes,
                         .size = model->size,
                         .file = model->path,
                         .format = model->options.format,
                         .open = model->path ? open_beside : NULL,
                         .user = (td_model *)(uintptr_t)model,
                         .inputs = model->options.inputs,
                         .input_count = model->options.input_count,
                         .method = model->options.method,
                         .weights = model->given,
                         .weight_count = model->given_count};
}

static td_status import(td_model *model, bool brief, ir_graph **graph, td_error *err) {
  import_source source = api_source(model);
  source.brief = brief;
  TRY(model->builtin ? import_builtin_model(model, graph, err)
                     : import_model(&source, model->ops, &model->allocator, graph, err));
  const td_status status = model->options.state ? import_keep_state(*graph, model->options.state, err) : TD_OK;
  if (status == TD_OK) return TD_OK;
  ir_graph_free(*graph);
  *graph = NULL;
  return status;
}

td_status api_import(td_model *model, ir_graph **graph, td_error *err) { return import(model, false, graph, err); }

/* Computes with f64 what the model computes with other floating-point numbers. */
static td_status widen(ir_graph *graph, td_error *err) {
  static const td_dtype narrow[] = {TD_F32, TD_F16, TD_BF16};
  for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++) TRY(debug_retype(graph, narrow[i], TD_F64, err));
  return TD_OK;
}

td_status api_prepare(td_model *m, const api_variant *variant, bool brief, ir_graph **graph, td_error *err) {
  TRY(import(m, brief, graph, err));
  td_status status = variant ? ir_fix_sizes(*graph, variant->sizes, variant->count, err) : TD_OK;
  if (status == TD_OK && m->options.float64) status = widen(*graph, err);
  if (status == TD_OK) status = debug_add_taps(*graph, m->options.taps, err);
  if (status == TD_OK && m->options.tapped_inputs) status = debug_feed_taps(*graph, err);
  if (status != TD_OK) ir_graph_free(*graph);
  return status;
}
