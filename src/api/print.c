/* print.c -- a model as text. Graphs are made anew from the file: a model keeps none, and any thread may be using it.
 */
#include "api/api_priv.h"

#include <string.h>

static td_status plan_text(const td_model *model, ir_graph *graph, base_text *text) {
  (void)graph;
  TRY(plan_print(model->plan, text));
  run_print_parts(model->plan, &model->allocator, text);
  return text->failed ? TD_NO_RESOURCE : TD_OK;
}

static td_status plan_json(const td_model *model, ir_graph *graph, base_text *text) {
  (void)graph;
  return plan_print_json(model->plan, text);
}

static td_status plan_dot(const td_model *model, ir_graph *graph, base_text *text) {
  (void)graph;
  return plan_print_dot(model->plan, text);
}

static td_status graph_text(const td_model *model, ir_graph *graph, base_text *text) {
  (void)model;
  return ir_print_brief(graph, text);
}

/* The graph, and before it what each pass did: one that found nothing where it should is to be seen. */
static td_status passes_text(const td_model *model, ir_graph *graph, base_text *text) {
  uint32_t count;
  const passes_row *rows = passes_list(&count);
  for (uint32_t i = 0; i < count && model->backend->passes; i++)
    if (model->backend->kernels || !rows[i].kernels)
      base_text_print(text, "# pass    %s: %u change%s\n", rows[i].name, model->changes[i],
                      model->changes[i] == 1 ? "" : "s");
  return ir_print_brief(graph, text);
}

static td_status explain(const td_model *model, ir_graph *graph, bool why, base_text *text) {
  td_error unused;
  const compile_setting setting = api_setting(model);
  return compile_explain_loops(graph, &setting, why, &model->allocator, text, &unused);
}

/* What runs as one loop. */
static td_status loops_text(const td_model *model, ir_graph *graph, base_text *text) {
  return explain(model, graph, false, text);
}

/* And what could and does not. */
static td_status why_text(const td_model *model, ir_graph *graph, base_text *text) {
  return explain(model, graph, true, text);
}

static td_status graph_dot(const td_model *model, ir_graph *graph, base_text *text) {
  (void)model;
  ir_print_dot(graph, text);
  return text->failed ? TD_NO_RESOURCE : TD_OK;
}

static td_status graph_json(const td_model *model, ir_graph *graph, base_text *text) {
  (void)model;
  ir_print_json(graph, text);
  return text->failed ? TD_NO_RESOURCE : TD_OK;
}

typedef struct view {
  const char *stage, *format;
  td_status (*graph)(const td_model *model, ir_graph **graph, td_error *err); /* it prints, and may change; or NULL */
  td_status (*print)(const td_model *model, ir_graph *graph, base_text *text);
} view;

static td_status as_imported(const td_model *model, ir_graph **graph, td_error *err) {
  return api_import((td_model *)(uintptr_t)model, graph, err);
}

static td_status as_prepared(const td_model *model, ir_graph **graph, td_error *err) {
  return api_prepare((td_model *)(uintptr_t)model, graph, err);
}

static const view views[] = {
    {"imported", "text", as_imported, graph_text},
    {"imported", "dot", as_imported, graph_dot},
    {"imported", "json", as_imported, graph_json},
    {"passes", "text", api_rewrite, passes_text},
    {"passes", "dot", api_rewrite, graph_dot},
    {"passes", "json", api_rewrite, graph_json},
    {"loops", "text", as_prepared, loops_text},
    {"why", "text", as_prepared, why_text},
    {"plan", "text", NULL, plan_text},
    {"plan", "dot", NULL, plan_dot},
    {"plan", "json", NULL, plan_json},
};

static const view *find_view(const char *stage, const char *format) {
  for (size_t i = 0; i < sizeof views / sizeof *views; i++)
    if (strcmp(views[i].stage, stage) == 0 && strcmp(views[i].format, format) == 0) return &views[i];
  return NULL;
}

td_status td_model_print(const td_model *model, const char *stage, const char *format, char **text, td_error *err) {
  if (!model || !stage || !format || !text)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                     "td_model_print needs a model, a stage, a format and a place for the text");
  const view *v = find_view(stage, format);
  if (!v)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                     "nothing prints stage %s as %s: stages are imported, passes, loops and why (text) and plan, "
                     "formats text, dot and json",
                     stage, format);
  if (api_is_saved(model) && strcmp(stage, "plan") != 0)
    return base_fail(
        err, TD_BAD_ARGUMENT, model->path, -1,
        "a saved plan has no graph: of it there is the stage plan; look at the model it was compiled from");
  ir_graph *graph = NULL;
  if (v->graph) TRY(v->graph(model, &graph, err));
  base_text out = {.allocator = &model->allocator};
  td_status status = v->print(model, graph, &out);
  ir_graph_free(graph);
  /* td_text_free knows no length: hand over a block that starts with it. */
  size_t *block =
      status == TD_OK && !out.failed ? base_alloc(&model->allocator, sizeof(size_t) + out.length + 1) : NULL;
  if (block) {
    *block = sizeof(size_t) + out.length + 1;
    memcpy(block + 1, out.at ? out.at : "", out.length + 1);
    *text = (char *)(block + 1);
  }
  base_text_free(&out);
  return block ? TD_OK : base_no_memory(err, "the text of a model");
}

void td_text_free(const td_model *model, char *text) {
  if (!model || !text) return;
  size_t *block = (size_t *)(void *)text - 1;
  base_free(&model->allocator, block, *block);
}
