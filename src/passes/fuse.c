/* fuse.c -- the passes that the room `fuse` implements, as rows of passes.def. */
#include "passes/passes_priv.h"

td_status passes_fuse(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return fuse_groups(graph, &setting->fuse, changes, err);
}

td_status passes_chain(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return fuse_chains(graph, &setting->fuse, changes, err);
}
