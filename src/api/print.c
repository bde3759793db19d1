/* print.c -- a model as text. Graphs are made anew from the file: a model keeps none, and any thread may be using it.
 */
#include "api/api_priv.h"

#include <string.h>

static td_status plan_text(const td_model *model, uint32_t number, ir_graph *graph, base_text *text) {
  (void)graph;
  TRY(plan_print(plan_at(api_told_plan(model), number), text));
  run_print_parts(plan_at(model->plan, number), &model->allocator, text);
  return text->failed ? TD_NO_RESOURCE : TD_OK;
}

static td_status plan_json(const td_model *model, uint32_t number, ir_graph *graph, base_text *text) {
  (void)graph;
  return plan_print_json(plan_at(api_told_plan(model), number), text);
}

static td_status plan_dot(const td_model *model, uint32_t number, ir_graph *graph, base_text *text) {
  (void)graph;
  return plan_print_dot(plan_at(api_told_plan(model), number), text);
}

static td_status graph_text(const td_model *model, uint32_t number, ir_graph *graph, base_text *text) {
  (void)model, (void)number;
  return ir_print_brief(graph, text);
}

/* The graph, and before it what each pass did: one that found nothing where it should is to be seen. */
static td_status passes_text(const td_model *model, uint32_t number, ir_graph *graph, base_text *text) {
  uint32_t count;
  const passes_row *rows = passes_list(&count);
  const uint32_t *changes = number ? model->variants.at[number - 1].changes : model->changes;
  const passes_setting setting = {.kernels = model->backend->kernels, .loops = model->backend->fuses};
  for (uint32_t i = 0; i < count && model->backend->passes; i++)
    if (passes_runs(&rows[i], &setting))
      base_text_print(text, "# pass    %s: %u change%s\n", rows[i].name, changes[i], changes[i] == 1 ? "" : "s");
  return ir_print_brief(graph, text);
}

static td_status explain(const td_model *model, ir_graph *graph, bool why, base_text *text) {
  td_error unused;
  const compile_setting setting = api_setting(model);
  return compile_explain_loops(graph, &setting, why, &model->allocator, text, &unused);
}

/* What runs as one loop. */
static td_status loops_text(const td_model *model, uint32_t number, ir_graph *graph, base_text *text) {
  (void)number;
  return explain(model, graph, false, text);
}

/* And what could and does not. */
static td_status why_text(const td_model *model, uint32_t number, ir_graph *graph, base_text *text) {
  (void)number;
  return explain(model, graph, true, text);
}

static td_status graph_dot(const td_model *model, uint32_t number, ir_graph *graph, base_text *text) {
  (void)model, (void)number;
  ir_print_dot(graph, text);
  return text->failed ? TD_NO_RESOURCE : TD_OK;
}

static td_status graph_json(const td_model *model, uint32_t number, ir_graph *graph, base_text *text) {
  (void)model, (void)number;
  ir_print_json(graph, text);
  return text->failed ? TD_NO_RESOURCE : TD_OK;
}

typedef struct view {
  const char *stage, *format;
  /* It prints, and may change, for a variant or (NULL) all sizes; or NULL. */
  td_status (*graph)(const td_model *model, const api_variant *variant, ir_graph **graph, td_error *err);
  td_status (*print)(const td_model *model, uint32_t number, ir_graph *graph, base_text *text);
} view;

static td_status as_imported(const td_model *model, const api_variant *variant, ir_graph **graph, td_error *err) {
  (void)variant;
  return api_import((td_model *)(uintptr_t)model, graph, err);
}

static td_status as_prepared(const td_model *model, const api_variant *variant, ir_graph **graph, td_error *err) {
  return api_prepare((td_model *)(uintptr_t)model, variant, false, graph, err);
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

/* Plan number `number`, as plan_at has it, or its graph. */
static td_status print_one(const td_model *model, const view *v, uint32_t number, base_text *text, td_error *err) {
  ir_graph *graph = NULL;
  const api_variant *variant = v->graph && number ? &model->variants.at[number - 1] : NULL;
  if (v->graph) TRY(v->graph(model, variant, &graph, err));
  if (number) base_text_print(text, "# variant %s\n", plan_at(model->plan, number)->here.label);
  const td_status status = v->print(model, number, graph, text);
  ir_graph_free(graph);
  return status == TD_OK && !text->failed ? TD_OK : base_no_memory(err, "the text of a model");
}

/* Variants follow in text alone: other formats are of one graph. */
static uint32_t how_many(const td_model *model, const view *v) {
  return strcmp(v->format, "text") == 0 && v->graph != as_imported ? plan_count(model->plan) : 1;
}

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
  base_text out = {.allocator = &model->allocator};
  td_status status = TD_OK;
  for (uint32_t i = 0; status == TD_OK && i < how_many(model, v); i++) status = print_one(model, v, i, &out, err);
  /* td_text_free knows no length: hand over a block that starts with it. */
  size_t *block = status == TD_OK ? base_alloc(&model->allocator, sizeof(size_t) + out.length + 1) : NULL;
  if (block) {
    *block = sizeof(size_t) + out.length + 1;
    memcpy(block + 1, out.at ? out.at : "", out.length + 1);
    *text = (char *)(block + 1);
  }
  base_text_free(&out);
  return block || status != TD_OK ? status : base_no_memory(err, "the text of a model");
}

void td_text_free(const td_model *model, char *text) {
  if (!model || !text) return;
  size_t *block = (size_t *)(void *)text - 1;
  base_free(&model->allocator, block, *block);
}
