/* share.c -- constants that a variant of a plan has in common with it. Most weights are packed alike for all sizes:
 * there is one copy of them, found by its bytes. */
#include "compile/compile_priv.h"

/* Where the bytes lie in a plan; NULL: nowhere. */
static const void *find_in(const plan_exe *plan, const void *bytes, uint64_t count) {
  for (uint32_t i = 0; i < plan->segments.count; i++)
    if (plan->segments.at[i] == count && memcmp(plan->here.bases.at[i], bytes, count) == 0)
      return plan->here.bases.at[i];
  return NULL;
}

td_status compile_share_constants(plan_exe *variant, const plan_exe *general, const base_arena *own, td_error *err) {
  for (uint32_t i = 0; i < variant->segments.count; i++) {
    const void *bytes = variant->here.bases.at[i], *found = NULL;
    const uint64_t count = variant->segments.at[i];
    if (!base_arena_holds(own, bytes)) continue;
    for (uint32_t k = 0; k < plan_count(general) && !found; k++) found = find_in(plan_at(general, k), bytes, count);
    if (!found) {
      void *copy = base_arena_alloc_uncleared(variant->arena, count ? count : 1, 64);
      if (!copy) return base_no_memory(err, "a constant");
      found = memcpy(copy, bytes, count);
    }
    variant->here.bases.at[i] = found;
  }
  return TD_OK;
}
