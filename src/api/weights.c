/* weights.c -- looks at a model's weights, and copies of them. */
#include <treadle/experimental.h>

#include "api/api_priv.h"

#include <math.h>
#include <stdio.h>

static bool holds_nan(const base_tensor *t) {
  base_walk w;
  const int64_t *strides[] = {t->strides};
  if (!base_is_float(t->dtype)) return false;
  base_walk_start(&w, t->rank, t->dims, 1, strides);
  for (int64_t i = 0; i < w.count; i++, base_walk_next(&w))
    if (isnan(base_load_f64(t->dtype, t->data, w.offset[0]))) return true;
  return false;
}

/* A constant without a name is known by the first node that reads it. */
static const char *name_of(const ir_graph *g, uint32_t value) {
  if (g->values.at[value].name) return g->values.at[value].name;
  for (uint32_t n = 1; n < g->nodes.count; n++)
    for (uint32_t i = 0; g->nodes.at[n].op && i < g->nodes.at[n].in_count; i++)
      if (g->nodes.at[n].in[i].id == value) return ir_node_name(&g->nodes.at[n]);
  return "";
}

td_status td_model_nan_weight(const td_model *model, char *name, size_t size, td_error *err) {
  ir_graph *graph = NULL;
  if (!model || !name || !size)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_model_nan_weight needs a model and room for a name");
  if (api_is_saved(model))
    return base_fail(err, TD_BAD_ARGUMENT, model->path, -1,
                     "a saved plan has no graph; look at the model it was compiled from");
  TRY(api_import((td_model *)(uintptr_t)model, &graph, err));
  td_status status = TD_ANSWER_NO;
  for (uint32_t v = 1; v < graph->values.count && status == TD_ANSWER_NO; v++) {
    const base_tensor *t = graph->values.at[v].info.constant;
    if (!t || !t->data || !holds_nan(t)) continue;
    snprintf(name, size, "%s", name_of(graph, v));
    status = TD_OK;
  }
  ir_graph_free(graph);
  return status;
}

/* A model that is to be saved, or for another CPU, has no sessions that could read them. */
td_status api_copy_to_nodes(td_model *m, td_error *err) {
  if (!m->options.node_copies || m->options.for_file || m->lacks) return TD_OK;
  TRY(run_copies_new(m->plan, m->options.node_copies, &m->allocator, &m->copies, err));
  m->plan->here.copies = m->copies;
  m->stats.memory_nodes = run_copies_nodes(m->copies);
  m->stats.node_bytes = run_copies_bytes(m->copies);
  return TD_OK;
}
