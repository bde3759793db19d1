/* torchscript.c -- the TorchScript front end: an archive, its module, the method that runs, the graph. */
#include <stdio.h>
#include <string.h>

#include "import/torchscript/ts_priv.h"

bool import_torchscript_sniff(const void *bytes, size_t size);
td_status import_torchscript_load(const import_source *source, const ir_opset *ops, const td_allocator *a,
                                  ir_graph **graph, td_error *err);
void import_torchscript_tell(const import_source *source, base_arena *arena, const char **texts, uint32_t count);

bool import_torchscript_sniff(const void *bytes, size_t size) { return ts_archive_sniff(bytes, size); }

/* ---- outputs ----------------------------------------------------------------------------------------------------- */

enum { MAX_OUTPUTS = 65536, MAX_NESTING = 64, MAX_ATTEMPTS = 8 };

static void add_output(ts_import *im, ir_value value, bool is_complex) {
  char name[32];
  snprintf(name, sizeof name, "output_%u", im->graph->output_names.count);
  const char *kept = base_arena_text(im->graph->arena, name);
  if (!ts_ok(im)) return;
  ir_build_take(&im->build,
                kept ? ir_add_output(im->graph, value, kept, im->err) : base_no_memory(im->err, "an output"));
  if (ts_ok(im) && is_complex && ir_holds_pairs(ir_type_of(im->graph, value)))
    ir_build_take(&im->build, ir_mark_complex(im->graph, im->err));
}

/* Tuples, lists, dictionaries and objects are opened in their order; None is left out. */
static void add_outputs(ts_import *im, const aten_value *v, uint32_t depth) {
  if (!ts_ok(im)) return;
  if (depth > MAX_NESTING || im->graph->output_names.count > MAX_OUTPUTS) {
    ir_build_fail(&im->build, TD_UNSUPPORTED, "the result is nested too deep, or has too many parts");
    return;
  }
  if (v->kind == ATEN_NONE) return;
  if (v->kind == ATEN_FUTURE || (v->kind == ATEN_LIST && v->u.list->promise)) {
    ir_build_fail(&im->build, TD_UNSUPPORTED, "the result holds a future: wait for the task before you return it");
    return;
  }
  if (v->kind == ATEN_UNDEFINED || v->kind == ATEN_FUNCTION) {
    ir_build_fail(&im->build, TD_UNSUPPORTED, "a part of the result has no value");
    return;
  }
  bool holds = v->kind == ATEN_TUPLE || (v->kind == ATEN_LIST && v->u.list->graph.id == 0);
  for (uint32_t i = 0; holds && i < v->u.list->items.count; i++) add_outputs(im, &v->u.list->items.at[i], depth + 1);
  for (uint32_t i = 0; v->kind == ATEN_DICT && i < v->u.dict->values.count; i++)
    add_outputs(im, &v->u.dict->values.at[i], depth + 1);
  if (v->kind == ATEN_OBJECT && ts_is_maybe(im, v)) {
    aten_value has = v->u.object->slots[TS_MAYBE_HAS];
    (void)has;
    ir_build_fail(&im->build, TD_UNSUPPORTED, "only running can tell whether a part of the result is None");
    return;
  }
  for (uint32_t i = 0; v->kind == ATEN_OBJECT && i < v->u.object->slot_count; i++)
    add_outputs(im, &v->u.object->slots[i], depth + 1);
  if (holds || v->kind == ATEN_DICT || v->kind == ATEN_OBJECT) return;
  add_output(im, v->kind == ATEN_TENSOR ? aten_read(im->a, v) : aten_graph_value(im->a, v), aten_is_complex(v));
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

aten_value ts_eval_default(ts_import *im, const ts_expr *e) {
  ts_frame top = {.im = im, .source = im->main_source, .path = "", .loop_start = UINT32_MAX};
  return ts_eval(&top, e);
}

static void list_methods(const ts_class *class, char *text, size_t size) {
  size_t used = 0;
  text[0] = 0;
  for (uint32_t i = 0; i < class->def->methods.count && used + 64 < size; i++) {
    base_str name = class->def->methods.at[i]->name;
    used += (size_t)snprintf(text + used, size - used, "%s%.*s", i ? ", " : "",
                             (int)(name.length < 50 ? name.length : 50), name.at);
  }
}

/* ---- hooks of the module that is called; those of modules inside are calls in the program's text ----------------- */

/* Names of methods, in order; NULL: it has none. */
static const ts_expr *hooks_of(const ts_class *class, const char *kind) {
  for (uint32_t i = 0; i < class->def->fields.count; i++) {
    const ts_field *field = &class->def->fields.at[i];
    if (base_str_is(field->name, kind) && field->value && field->value->kind == TS_LIST) return field->value;
  }
  return NULL;
}

/* The hook `index` of `list` over its `count` arguments; NOTHING: it changes nothing. */
static aten_value call_hook(ts_frame *top, ts_callable c, const ts_expr *list, uint32_t index, const aten_value *args,
                            uint32_t count) {
  const base_str name = list->items[index]->text;
  c.function = ts_find_method(c.class, name);
  if (c.function) return ts_call(top, c.function->place, &c, args, count, NULL, 0);
  ts_fail(top, list->place, TD_BAD_FILE, "the hook %.*s is no method", (int)name.length, name.at);
  return ATEN_NOTHING;
}

static aten_value call_with_hooks(ts_frame *top, const ts_callable *c, const aten_value *args, uint32_t count) {
  const ts_expr *before = hooks_of(c->class, "__forward_pre_hooks__");
  const ts_expr *behind = hooks_of(c->class, "__forward_hooks__");
  aten *a = top->im->a;
  aten_value given = aten_tuple_of(a, args, count);
  for (uint32_t i = 0; before && i < before->count && ts_ok(top->im); i++) {
    aten_value changed = call_hook(top, *c, before, i, &given, 1);
    if (changed.kind == ATEN_TUPLE) given = changed;
    else if (changed.kind != ATEN_NONE) given = aten_tuple_of(a, &changed, 1);
  }
  if (!ts_ok(top->im)) return ATEN_NOTHING;
  aten_value result = ts_call(top, c->function->place, c, given.u.list->items.at, given.u.list->items.count, NULL, 0);
  for (uint32_t i = 0; behind && i < behind->count && ts_ok(top->im); i++) {
    const aten_value both[] = {given, result};
    aten_value changed = call_hook(top, *c, behind, i, both, 2);
    if (changed.kind != ATEN_NONE) result = changed;
  }
  return result;
}

static void run_method(ts_import *im, aten_value root) {
  const char *wanted = im->source->method ? im->source->method : "forward";
  ts_object *self = (ts_object *)(void *)root.u.object;
  ts_class *class = ts_class_of(root.u.object);
  ts_function *method = ts_find_method(class, base_str_of(wanted));
  char names[512];
  uint32_t count = 0;
  if (!method) {
    list_methods(class, names, sizeof names);
    ir_build_take(&im->build, base_fail(im->err, TD_BAD_ARGUMENT, im->source->file, -1,
                                        "the module has no method %s; it has: %s", wanted, names));
    return;
  }
  im->main_source = class->source;
  aten_value *args = ts_make_inputs(im, method, &count);
  if (!ts_ok(im)) return;
  ts_callable c = {.function = method, .source = class->source, .class = class, .self = self};
  ts_frame top = {.im = im, .source = class->source, .path = "", .loop_start = UINT32_MAX};
  ts_declare_state(im);
  if (!ts_ok(im)) return;
  aten_mark mark = aten_mark_now(im->a);
  const bool is_call = strcmp(wanted, "forward") == 0;
  aten_value result =
      is_call ? call_with_hooks(&top, &c, args, count) : ts_call(&top, method->place, &c, args, count, NULL, 0);
  aten_report_missing(im->a);
  if (ts_ok(im)) add_outputs(im, &result, 0);
  if (ts_ok(im)) im->again = ts_store_state(im, mark);
}

static td_status start(ts_import *im, const ir_opset *ops, const td_allocator *a) {
  im->arena = base_arena_new_brief(a);
  im->graph = im->arena ? ir_graph_new(a, ops) : NULL;
  ir_segment *segment = im->graph ? base_vec_push(im->graph->arena, &im->graph->segments) : NULL;
  char *file = segment ? base_arena_text(im->graph->arena, im->source->file) : NULL;
  if (!file) return base_no_memory(im->err, im->source->file);
  *segment = (ir_segment){file, im->source->bytes, im->source->size};
  im->memory_limit = IMPORT_MEMORY_FLOOR;
  if (im->source->size < SIZE_MAX / IMPORT_MEMORY_FACTOR - IMPORT_MEMORY_FLOOR)
    im->memory_limit += im->source->size * IMPORT_MEMORY_FACTOR;
  im->build = ir_build_of(im->graph, im->err);
  ts_archive_keep(im->archive, im->graph->arena);
  aten_options options = {
      .build = &im->build, .arena = im->arena, .version = im->archive->version, .squeeze = im->uneven->squeeze};
  im->a = aten_new(&options);
  im->maybe = base_new(im->arena, ts_class, 1);
  if (!im->maybe) return base_no_memory(im->err, im->source->file);
  im->maybe->name = BASE_STR("Optional");
  for (uint32_t i = 0; i < TS_MAYBE_SLOTS; i++)
    if (base_vec_push(im->arena, &im->maybe->names) == NULL) return base_no_memory(im->err, im->source->file);
  return im->build.status;
}

/* One import with the state that is known so far. What it makes lives in im->arena, which the caller frees: shapes of
 * state point into it. */
static td_status attempt(ts_import *im, const ir_opset *ops, const td_allocator *a) {
  TRY(start(im, ops, a));
  aten_value root = ts_load_object(im, im->archive->root, false, "");
  if (ts_ok(im) && root.kind != ATEN_OBJECT)
    ir_build_take(&im->build, base_fail(im->err, TD_BAD_FILE, im->source->file, -1, "data.pkl holds no module"));
  if (ts_ok(im)) run_method(im, root);
  return im->build.status;
}

/* Ranks that only running can tell have been the end of an attempt, perhaps: the next one takes them for known. False:
 * there are none that this one did not. */
static bool take_one_way(ts_import *im) {
  ts_uneven *u = im->uneven;
  const bool squeezes = im->a && aten_has_open_squeeze(im->a);
  if (!squeezes && u->taken == u->found.count) return false;
  if (squeezes) u->squeeze = ATEN_SQUEEZE_GOES;
  u->taken = u->found.count;
  return true;
}

static td_status attempts(ts_archive *ar, const import_source *source, const ir_opset *ops, const td_allocator *a,
                          ir_graph **graph, td_error *err) {
  ts_import ims[MAX_ATTEMPTS];
  ts_states states = {0};
  ts_uneven uneven = {.squeeze = ATEN_SQUEEZE_STAYS};
  td_status status = TD_OK;
  bool again = true;
  int count = 0;
  while (again && status == TD_OK && count < MAX_ATTEMPTS) {
    ts_import *im = &ims[count++];
    *im = (ts_import){.source = source, .archive = ar, .states = &states, .uneven = &uneven, .err = err};
    status = attempt(im, ops, a);
    again = im->again;
    if (status == TD_OK && !again) *graph = im->graph;
    else if (im->graph) ir_graph_free(im->graph);
    if ((status == TD_UNSUPPORTED || im->raised) && count < MAX_ATTEMPTS && take_one_way(im)) {
      again = true;
      status = TD_OK;
    }
  }
  for (int i = 0; i < count; i++)
    if (ims[i].arena) base_arena_free(ims[i].arena);
  if (status == TD_OK && again)
    return base_fail(err, TD_UNSUPPORTED, source->file, -1, "what the method changes keeps changing its kind");
  return status;
}

td_status import_torchscript_load(const import_source *source, const ir_opset *ops, const td_allocator *a,
                                  ir_graph **graph, td_error *err) {
  ts_archive archive;
  td_error own;
  if (!err) err = &own;
  base_arena *arena = base_arena_new_brief(a);
  if (!arena) return base_no_memory(err, source->file);
  *graph = NULL;
  td_status status = ts_archive_open(&archive, arena, source, err);
  if (status == TD_OK) status = attempts(&archive, source, ops, a, graph, err);
  base_arena_free(arena);
  return status;
}

void import_torchscript_tell(const import_source *source, base_arena *arena, const char **texts, uint32_t count) {
  ts_archive archive;
  td_error err;
  base_arena *scratch = base_arena_new(base_arena_allocator(arena));
  if (scratch && ts_archive_open(&archive, scratch, source, &err) == TD_OK)
    for (uint32_t i = 0; i < count; i++) {
      const char *told = ts_tell(&archive, texts[i]);
      char *kept = told == texts[i] ? NULL : base_arena_text(arena, told);
      if (kept) texts[i] = kept;
    }
  base_arena_free(scratch);
}
