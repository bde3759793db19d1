/* passes_priv.h -- the passes by name. */
#ifndef PASSES_PASSES_PRIV_H
#define PASSES_PASSES_PRIV_H
#include "passes/passes.h"

#define PASS(name, purpose, kernels) \
  td_status passes_##name(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err);
#include "passes/passes.def"
#undef PASS
#endif
