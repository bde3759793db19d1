/* world.h -- a graph that is being built from PyTorch's operators, for the tests of import/aten. */
#ifndef TESTS_IMPORT_WORLD_H
#define TESTS_IMPORT_WORLD_H
#include "import/aten/aten_priv.h"
#include "ops/ops.h"

typedef struct world {
  base_arena *arena;
  ir_graph *graph;
  ir_build build;
  td_error err;
  aten *a;
} world;

/* False: out of memory. It is to be closed all the same. */
static bool world_open(world *w, const td_allocator *allocator) {
  *w = (world){.arena = base_arena_new(allocator)};
  const ir_opset *ops = w->arena ? ops_set(w->arena) : NULL;
  w->graph = ops ? ir_graph_new(allocator, ops) : NULL;
  if (!w->graph) return false;
  w->build = ir_build_of(w->graph, &w->err);
  w->a = aten_new(&(aten_options){.build = &w->build, .arena = w->arena});
  return w->a != NULL;
}

static void world_close(world *w) {
  ir_graph_free(w->graph);
  base_arena_free(w->arena);
}
#endif
