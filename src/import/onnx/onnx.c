/* onnx.c -- the ONNX front end: bytes, records, what each node becomes, the graph. */
#include "import/onnx/state_priv.h"

bool import_onnx_sniff(const void *bytes, size_t size);
td_status import_onnx_load(const import_source *source, const ir_opset *ops, const td_allocator *a, ir_graph **graph,
                           td_error *err);

/* Wire types of ModelProto's fields + 1, so that 0 is "no such field". */
static const uint8_t model_fields[] = {
    [1] = 1, [2] = 3, [3] = 3, [4] = 3, [5] = 1, [6] = 3, [7] = 3, [8] = 3, [14] = 3, [20] = 3, [25] = 3, [26] = 3};

bool import_onnx_sniff(const void *bytes, size_t size) {
  fmt_wire w = fmt_wire_of(bytes, size);
  fmt_field f;
  if (!fmt_wire_more(&w)) return false;
  td_status status = fmt_wire_next(&w, &f, NULL);
  /* The first field may claim more bytes than there are: a truncated model is still one. */
  if (status != TD_OK && f.type != FMT_BYTES) return false;
  return f.number < sizeof model_fields && model_fields[f.number] == (uint8_t)f.type + 1;
}

/* Some exporters go on listing every weight; tools that come behind them add constants, which are not listed. Inputs to
 * choose are few, and stand beside weights that are no inputs. */
static bool lists_weights(const onnx_scope *scope, const onnx_graph *graph) {
  enum { MANY = 4 };
  uint32_t listed = 0;
  for (uint32_t i = 0; i < graph->inputs.count; i++)
    listed += base_map_get(&scope->names, graph->inputs.at[i].name) != NULL;
  return listed >= MANY && listed > graph->initializers.count / 2;
}

/* Is the input `name`, which has a value, never anything else? Before IR version 4 every weight had to be listed as an
 * input. Since then the value is what holds when the caller gives none; but who names the inputs gives no others.
 * `weights`: most weights are listed. */
static bool is_constant(const onnx_import *im, base_str name, bool weights) {
  bool others = weights || im->model.ir_version < 4;
  for (size_t i = 0; i < im->source->input_count; i++) {
    if (!im->source->inputs[i].name) continue;
    if (base_str_is(name, im->source->inputs[i].name)) return false;
    others = true;
  }
  return others;
}

/* An input of the model's graph; passes may use what is constant. */
static td_status add_input(onnx_scope *scope, const onnx_value_info *input, bool weights, base_map *seen) {
  onnx_import *im = scope->im;
  bool existed;
  ir_type type;
  ir_value value, fallback = IR_NO_VALUE;
  if (!base_map_put(seen, im->arena, input->name, 0, &existed)) return base_no_memory(im->err, "an input");
  if (existed) return base_fail(im->err, TD_BAD_FILE, NULL, -1, "two inputs have this name");
  const uint32_t *initializer = base_map_get(&scope->names, input->name);
  if (initializer && is_constant(im, input->name, weights)) return TD_OK;
  TRY(onnx_read_type(im, input->type, input->name, &type));
  if (initializer) fallback.id = *initializer;
  const char *name = base_arena_slice(im->graph->arena, input->name.at, input->name.length);
  if (!name) return base_no_memory(im->err, "an input");
  if (initializer) ir_value_of(im->graph, fallback)->name = NULL; /* the input has it */
  TRY(ir_add_input(im->graph, &type, name, fallback, &value, im->err));
  bool put = base_map_put(&im->value_names, im->arena, base_str_of(name), 0, NULL) &&
             base_map_put(&scope->names, im->arena, input->name, value.id, NULL);
  return put ? TD_OK : base_no_memory(im->err, "an input");
}

static td_status add_inputs(onnx_scope *scope, const onnx_graph *graph) {
  const bool weights = lists_weights(scope, graph); /* names become those of inputs: before there are any */
  base_map seen = {0};
  for (uint32_t i = 0; i < graph->inputs.count; i++) {
    base_str name = graph->inputs.at[i].name;
    td_status status = add_input(scope, &graph->inputs.at[i], weights, &seen);
    if (status != TD_OK) return base_error_name(scope->im->err, status, "input %.*s", (int)name.length, name.at);
  }
  return TD_OK;
}

/* An optional that the model declares as what it holds: the element, or an error when there is none. */
static td_status open_optional(onnx_import *im, const onnx_value_info *output, ir_value *value) {
  ir_type declared;
  if (ir_type_of(im->graph, *value)->kind != IR_OPTIONAL || !fmt_wire_more(&output->type)) return TD_OK;
  TRY(onnx_read_type(im, output->type, output->name, &declared));
  if (declared.kind == IR_OPTIONAL) return TD_OK;
  const char *origin = base_arena_format(im->arena, "%.*s (output)", (int)output->name.length, output->name.at);
  ir_new_node spec = {
      .op = ir_opset_find(im->graph->ops, "td::optional_get"), .in = value, .in_count = 1, .origins = {&origin, 1}};
  if (!origin) return base_no_memory(im->err, "a name");
  if (!spec.op) return base_fail(im->err, TD_UNSUPPORTED, NULL, -1, "optionals are not supported");
  ir_value element;
  TRY(ir_add_node(im->graph, im->graph->top, &spec, NULL, &element, im->err));
  *value = element;
  return TD_OK;
}

static td_status add_output(const onnx_scope *scope, const onnx_value_info *output, base_map *seen) {
  onnx_import *im = scope->im;
  const uint32_t *id = onnx_lookup(scope, output->name);
  bool existed;
  const char *name = onnx_cstr(im, output->name);
  if (!name || !base_map_put(seen, im->arena, output->name, 0, &existed)) return base_no_memory(im->err, "an output");
  if (existed) return base_fail(im->err, TD_BAD_FILE, NULL, -1, "two outputs have this name");
  if (!id || *id == ONNX_ABSENT)
    return base_fail(im->err, TD_BAD_FILE, NULL, -1, "no node, input or initializer defines the output");
  if (*id == ONNX_NOT_MADE)
    return base_fail(im->err, TD_UNSUPPORTED, NULL, -1, "it is an optional output that is not supported");
  ir_value value = {*id};
  TRY(open_optional(im, output, &value));
  return ir_add_output(im->graph, value, name, im->err);
}

static td_status add_outputs(const onnx_scope *scope, const onnx_graph *graph) {
  base_map seen = {0};
  for (uint32_t i = 0; i < graph->outputs.count; i++) {
    const onnx_value_info *output = &graph->outputs.at[i];
    td_status status = add_output(scope, output, &seen);
    if (status != TD_OK)
      return base_error_name(scope->im->err, status, "output %.*s", (int)output->name.length, output->name.at);
  }
  return TD_OK;
}

static td_status lower_model(onnx_import *im) {
  onnx_scope scope = {.im = im, .block = im->graph->top, .prefix = "", .path = ""};
  onnx_graph *graph = im->model.graph;
  TRY(onnx_define_initializers(&scope, graph));
  TRY(add_inputs(&scope, graph));
  TRY(onnx_lower_graph(&scope, graph));
  TRY(onnx_report_missing(im));
  return add_outputs(&scope, graph);
}

static size_t memory_limit(size_t file_bytes) {
  size_t limit;
  if (__builtin_mul_overflow(file_bytes, (size_t)IMPORT_MEMORY_FACTOR, &limit)) limit = SIZE_MAX / 2;
  return limit > SIZE_MAX / 2 ? SIZE_MAX / 2 : limit + IMPORT_MEMORY_FLOOR;
}

static td_status load(onnx_import *im) {
  const import_source *source = im->source;
  ir_segment *segment = base_vec_push(im->graph->arena, &im->graph->segments);
  const char *file = base_arena_text(im->graph->arena, source->file);
  if (!segment || !file) return base_no_memory(im->err, "a graph");
  *segment = (ir_segment){.name = file, .base = source->bytes, .bytes = source->size};
  TRY(onnx_read_model(im->arena, source->bytes, source->size, source->file, &im->model, im->err));
  TRY(onnx_resolve(im));
  TRY(lower_model(im));
  return ir_verify(im->graph, im->err);
}

td_status import_onnx_load(const import_source *source, const ir_opset *ops, const td_allocator *a, ir_graph **graph,
                           td_error *err) {
  td_error own = {0}; /* also where the caller wants none: refusals are collected from it */
  *graph = NULL;
  onnx_import im = {.source = source,
                    .graph = ir_graph_new(a, ops),
                    .arena = base_arena_new_brief(a),
                    .memory_limit = memory_limit(source->size),
                    .err = &own};
  td_status status = im.graph && im.arena ? load(&im) : base_no_memory(&own, "a graph");
  base_arena_free(im.arena);
  if (status == TD_OK) *graph = im.graph;
  else ir_graph_free(im.graph);
  if (status != TD_OK && err) *err = own;
  return status;
}
