/* builtin.c -- models that are built in C: which, and how a build begins and ends. */
#include "import/builtin/builtin_priv.h"

#include <string.h>

typedef struct builtin_row {
  const char *name;
  void (*build)(builtin_net *n);
} builtin_row;

#define BUILTIN(name) {#name, builtin_##name},
static const builtin_row builtins[] = {
#include "import/builtin/builtin.def"
};
#undef BUILTIN

enum { BUILTIN_COUNT = sizeof builtins / sizeof *builtins };

const char *import_builtin_name(size_t index) { return index < BUILTIN_COUNT ? builtins[index].name : NULL; }

/* What stands before the description of a layer. */
static const char layer_prefix[] = "layer:";

/* NULL in *found: a description. */
static td_status find(const char *name, const builtin_row **found, td_error *err) {
  char names[512] = "";
  *found = NULL;
  if (base_str_starts(base_str_of(name), layer_prefix)) return TD_OK;
  for (size_t i = 0; i < BUILTIN_COUNT; i++) {
    *found = &builtins[i];
    if (strcmp(name, builtins[i].name) == 0) return TD_OK;
    strncat(names, i ? ", " : "", sizeof names - strlen(names) - 1);
    strncat(names, builtins[i].name, sizeof names - strlen(names) - 1);
  }
  return base_fail(err, TD_BAD_ARGUMENT, name, -1, "there is no built-in model of this name; there are: %s, layer:TEXT",
                   names);
}

static td_status open_weights(builtin_net *n, const td_allocator *a, fmt_state_dict **weights) {
  const import_builtin_source *s = n->source;
  base_arena *arena = n->b.graph->arena;
  ir_segment *segment = base_vec_push(arena, &n->b.graph->segments);
  const char *file = base_arena_text(arena, s->file);
  if (!segment || !file) return base_no_memory(n->b.err, "a graph");
  *segment = (ir_segment){.name = file, .base = s->weights, .bytes = s->size};
  td_status status = fmt_weights_open(a, s->weights, s->size, weights, n->b.err);
  if (status != TD_OK) return base_error_name(n->b.err, status, "%s", s->file);
  n->weights = *weights;
  n->used = base_new(arena, bool, n->weights->entries.count + 1u);
  return n->used ? TD_OK : base_no_memory(n->b.err, "a graph");
}

static td_status build(builtin_net *n, const builtin_row *row) {
  if (row) row->build(n);
  else builtin_single_layer(n, n->source->name + sizeof layer_prefix - 1);
  TRY(n->b.status);
  TRY(builtin_check_keys(n));
  return ir_verify(n->b.graph, n->b.err);
}

td_status import_builtin(const import_builtin_source *source, const ir_opset *ops, const td_allocator *a,
                         ir_graph **graph, td_error *err) {
  const builtin_row *row;
  fmt_state_dict *weights = NULL;
  *graph = NULL;
  TRY(find(source->name, &row, err));
  td_error own; /* where the caller wants none */
  ir_graph *g = ir_graph_new(a, ops);
  if (!g) return base_no_memory(err, "a graph");
  builtin_net n = {.b = ir_build_of(g, err ? err : &own), .source = source};
  n.missing.text.allocator = n.misshaped.text.allocator = a;
  td_status status = source->weights ? open_weights(&n, a, &weights) : TD_OK;
  if (status == TD_OK) status = build(&n, row);
  base_text_free(&n.missing.text);
  base_text_free(&n.misshaped.text);
  fmt_state_dict_free(weights);
  if (status == TD_OK) *graph = g;
  else ir_graph_free(g);
  return status;
}
