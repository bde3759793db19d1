/* compile.c -- from the graph of a model to its plan, or to that of a variant. */
#include "api/api_priv.h"

td_status api_compile(td_model *m, api_variant *variant, ir_graph *graph, plan_exe **plan, td_error *err) {
  compile_setting setting = api_setting(m);
  api_dump *dump = m->options.dump ? api_dump_new(m, variant, err) : NULL;
  if (m->options.dump && !dump) return base_no_memory(err, "what a model becomes");
  if (variant) {
    setting.general = m->plan;
    setting.options.edited = NULL; /* files of the general plan's code */
  }
  if (dump) {
    setting.seen = api_dump_graph;
    setting.coded = api_dump_code;
    setting.seen_user = dump;
  }
  td_status status = dump ? api_dump_graph(dump, "import", graph, err) : TD_OK;
  uint32_t *changes = variant ? variant->changes : m->changes;
  if (status == TD_OK) status = compile_graph(graph, &setting, &m->allocator, changes, plan, err);
  if (status == TD_OK && dump) status = api_dump_plan(dump, *plan);
  api_dump_free(dump);
  return status;
}

td_status api_rewrite(const td_model *m, const api_variant *variant, ir_graph **graph, td_error *err) {
  const compile_setting setting = api_setting(m);
  TRY(api_prepare((td_model *)(uintptr_t)m, variant, false, graph, err));
  const td_status status = compile_rewrite(*graph, &setting, err);
  if (status != TD_OK) ir_graph_free(*graph);
  return status;
}
