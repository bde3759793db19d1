/* sort_priv.h -- the one sort of the references: positions by a comparison of what stands there. Stable. */
#ifndef OPS_SORT_PRIV_H
#define OPS_SORT_PRIV_H
#include "ops/common/ops_priv.h"

/* Below 0, 0 or above 0 as what `user` has at position a comes before, equals or comes after that at b. A total order.
 */
typedef int (*ops_compare)(const void *user, int64_t a, int64_t b);
/* Sorts `count` positions in `order`, bottom-up merging; `spare` has the same room. */
void ops_sort_positions(int64_t *order, int64_t *spare, int64_t count, ops_compare compare, const void *user);
#endif
