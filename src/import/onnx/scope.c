/* scope.c -- what names mean. Each graph and each function body has a scope; a subgraph sees the scopes around it, a
 * function body sees none. A name is defined once among the scopes that see each other; but inputs and initializers of
 * a subgraph may be called as something around it, as exporters of loops do that keep their variables' names. */
#include "import/onnx/state_priv.h"

#include <string.h>

const uint32_t *onnx_lookup(const onnx_scope *scope, base_str name) {
  for (const onnx_scope *s = scope; s; s = s->parent) {
    const uint32_t *id = base_map_get(&s->names, name);
    if (id) return id;
  }
  return NULL;
}

/* The next number of a name that is taken, or NULL. */
static const uint32_t *taken(const onnx_import *im, const char *name) {
  const uint32_t *number = base_map_get(&im->value_names, base_str_of(name));
  return number && *number != ONNX_NAME_FREE ? number : NULL;
}

td_status onnx_name_value(onnx_scope *scope, base_str name, ir_value value) {
  onnx_import *im = scope->im;
  if (!value.id || !name.length || ir_value_of(im->graph, value)->name) return TD_OK;
  const char *first = base_arena_format(im->graph->arena, "%s%.*s", scope->prefix, (int)name.length, name.at),
             *own = first;
  if (!first) return base_no_memory(im->err, "a name");
  const uint32_t *next = taken(im, first);
  for (uint32_t number = next ? *next : 0; next; next = taken(im, own)) {
    own = base_arena_format(im->graph->arena, "%s.%u", first, ++number);
    if (!own || !base_map_put(&im->value_names, im->arena, base_str_of(first), number, NULL))
      return base_no_memory(im->err, "a name");
  }
  if (!base_map_put(&im->value_names, im->arena, base_str_of(own), 0, NULL)) return base_no_memory(im->err, "a name");
  ir_value_of(im->graph, value)->name = own;
  return TD_OK;
}

void onnx_forget_names(onnx_import *im, uint32_t first) {
  for (uint32_t i = first; i < im->graph->values.count; i++) {
    ir_value_def *def = &im->graph->values.at[i];
    uint32_t *number = def->name ? base_map_get(&im->value_names, base_str_of(def->name)) : NULL;
    if (number) *number = ONNX_NAME_FREE;
    def->name = NULL;
  }
}

td_status onnx_defined_twice(onnx_import *im, base_str name) {
  return base_fail(im->err, TD_BAD_FILE, NULL, -1, "the name \"%.*s\" is defined twice", (int)name.length, name.at);
}

td_status onnx_define_here(onnx_scope *scope, base_str name, ir_value value) {
  onnx_import *im = scope->im;
  if (base_map_get(&scope->names, name)) return onnx_defined_twice(im, name);
  if (!base_map_put(&scope->names, im->arena, name, value.id, NULL)) return base_no_memory(im->err, "a name");
  return value.id == ONNX_NOT_MADE || value.id == ONNX_LOST ? TD_OK : onnx_name_value(scope, name, value);
}

td_status onnx_define(onnx_scope *scope, base_str name, ir_value value) {
  const bool hides = scope->parent && onnx_lookup(scope->parent, name);
  return hides ? onnx_defined_twice(scope->im, name) : onnx_define_here(scope, name, value);
}

td_status onnx_check_memory(onnx_import *im) {
  if (base_arena_bytes(im->arena) + base_arena_bytes(im->graph->arena) <= im->memory_limit) return TD_OK;
  return base_fail(
      im->err, TD_NO_RESOURCE, NULL, -1,
      "the model asks for more than %zu MiB while it is read, which its size of %zu bytes does not explain",
      im->memory_limit >> 20, im->source->size);
}
