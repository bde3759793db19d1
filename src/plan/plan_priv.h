/* plan_priv.h -- what the files of binding share. */
#ifndef PLAN_PLAN_PRIV_H
#define PLAN_PLAN_PRIV_H
#include "plan/bind.h"

/* The step up to which the task of FORK step `fork` may run. */
uint32_t plan_last_of_task(const plan_exe *plan, uint32_t fork);

/* Fills binding->parts, parts_of and shares, these without their memory. `symbols`: a value per symbol; `bytes`: of
 * each slot that the plan places, else 0. */
td_status plan_find_parts(const plan_exe *plan, const int64_t *symbols, const size_t *bytes, plan_means means,
                          base_arena *arena, plan_binding *binding, td_error *err);
#endif
