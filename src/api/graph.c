/* graph.c -- graphs as files that can be edited and run. */
#include <treadle/experimental.h>

#include "api/api_priv.h"

#include <string.h>

static td_status write_graph(const ir_graph *graph, const char *weights, base_arena *arena, td_write_fn text,
                             td_write_fn bytes, void *user, td_error *err) {
  ir_store store = {.arena = arena};
  base_text head = {.allocator = base_arena_allocator(arena)}, body = head;
  td_status status =
      ir_print_stored(graph, &store, &body) == TD_OK ? TD_OK : base_no_memory(err, "the text of a graph");
  base_text_print(&head, "tdir 1\n");
  if (store.bytes) {
    base_text_print(&head, "weights ");
    base_text_quote(&head, weights, strlen(weights));
    base_text_print(&head, " %zu\n", store.bytes);
  }
  if (status == TD_OK && head.failed) status = base_no_memory(err, "the text of a graph");
  if (status == TD_OK) status = text(user, head.at, head.length);
  if (status == TD_OK && body.length) status = text(user, body.at, body.length);
  if (status == TD_OK) status = ir_store_write(&store, 0, bytes, user, err);
  base_text_free(&head);
  base_text_free(&body);
  return status;
}

static td_status save_rewritten(const td_model *model, const char *weights, td_write_fn text, td_write_fn bytes,
                                void *user, td_error *err) {
  ir_graph *graph = NULL;
  base_arena *arena = base_arena_new(&model->allocator);
  td_status status = arena ? api_rewrite(model, NULL, &graph, err) : base_no_memory(err, "the text of a graph");
  if (status == TD_OK) {
    status = write_graph(graph, weights, arena, text, bytes, user, err);
    ir_graph_free(graph);
  }
  base_arena_free(arena);
  return status;
}

/* The types of inputs as this library has them. */
static td_status read_inputs(td_cut *cut, base_arena *arena, td_error *err) {
  td_value_info *inputs = base_new(arena, td_value_info, cut->input_count + 1);
  if (!inputs) return base_no_memory(err, "the types of inputs");
  for (size_t i = 0; i < cut->input_count; i++)
    TRY(api_read_item(&inputs[i], sizeof *inputs, cut->inputs, cut->input_stride, i, err));
  cut->inputs = inputs;
  return TD_OK;
}

static td_status save_imported(const td_model *model, td_cut *cut, const char *weights, td_write_fn text,
                               td_write_fn bytes, void *user, td_error *err) {
  ir_graph *graph = NULL;
  base_arena *arena = base_arena_new(&model->allocator);
  td_status status = arena ? TD_OK : base_no_memory(err, "the text of a graph");
  if (status == TD_OK) status = api_import((td_model *)(uintptr_t)model, &graph, err);
  if (status == TD_OK && cut) status = read_inputs(cut, arena, err);
  if (status == TD_OK && cut) status = debug_cut(graph, cut, err);
  if (status == TD_OK) status = write_graph(graph, weights, arena, text, bytes, user, err);
  ir_graph_free(graph);
  base_arena_free(arena);
  return status;
}

td_status td_model_save_graph(const td_model *model, const char *stage, td_cut *cut, const char *weights,
                              td_write_fn text, td_write_fn bytes, void *user, td_error *err) {
  if (!model || !stage || !weights || !text || !bytes)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                     "td_model_save_graph needs a model, a stage, a name for the weights and two functions");
  if (api_is_saved(model))
    return base_fail(err, TD_BAD_ARGUMENT, model->path, -1,
                     "a saved plan has no graph; look at the model it was compiled from");
  const bool imported = strcmp(stage, "imported") == 0;
  if (!imported && (strcmp(stage, "passes") != 0 || cut))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                     "stages that can be saved are imported and passes; only the first can be cut");
  td_cut own = {0};
  td_error unused, *problem = err ? err : &unused;
  if (cut) TRY(api_read_options(&own, sizeof own, cut, problem));
  if (own.input_stride && own.input_stride < sizeof(size_t))
    return base_fail(problem, TD_BAD_ARGUMENT, NULL, -1, "td_cut.input_stride is sizeof(td_value_info), or 0");
  if (imported) {
    const td_status status = save_imported(model, cut ? &own : NULL, weights, text, bytes, user, problem);
    if (cut) cut->node_count = own.node_count;
    return status;
  }
  return save_rewritten(model, weights, text, bytes, user, problem);
}

td_status td_model_save_onnx(const td_model *model, td_write_fn write, void *user, td_error *err) {
  if (!model || !write)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                     "td_model_save_onnx needs a model and a function that takes bytes");
  if (api_is_saved(model))
    return base_fail(err, TD_BAD_ARGUMENT, model->path, -1,
                     "a saved plan has no graph; look at the model it was compiled from");
  ir_graph *graph = NULL;
  base_text text = {.allocator = &model->allocator};
  td_status status = api_import((td_model *)(uintptr_t)model, &graph, err);
  if (status == TD_OK) status = export_onnx(graph, &text, err);
  if (status == TD_OK && write(user, text.at, text.length) != TD_OK)
    status = base_fail(err, TD_NO_RESOURCE, NULL, -1, "the ONNX file could not be written");
  base_text_free(&text);
  ir_graph_free(graph);
  return status;
}
