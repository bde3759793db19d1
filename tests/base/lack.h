/* lack.h -- memory that fails: each allocation in turn. Includes cmocka, which wants its headers before it. */
#ifndef TESTS_BASE_LACK_H
#define TESTS_BASE_LACK_H
#include "test.h"

#include "base/base.h"

/* Works with memory of `allocator`, and gives it back. TD_NO_RESOURCE: there was not enough. */
typedef td_status (*lack_fn)(const td_allocator *allocator, void *user);

/* The first allocation and all later ones are refused, then the second and all later ones, and so on, until `work` gets
 * through: it must tell each time, and leave nothing behind. `each`: what arenas are asked for counts as well. Returns
 * how many tries have failed. */
static inline uint64_t fail_each_allocation(lack_fn work, void *user, bool each) {
  for (uint64_t fail_at = 1;; fail_at++) {
    base_counting counting = {.inner = &base_libc_allocator, .fail_at = fail_at, .each = each};
    const td_allocator allocator = base_counting_allocator(&counting);
    const td_status status = work(&allocator, user);
    if (counting.live) fail_msg("allocation %d refused: %d not given back", (int)fail_at, (int)counting.live);
    if (status == TD_OK && counting.made < fail_at) return fail_at - 1;
    if (status != TD_NO_RESOURCE) fail_msg("allocation %d refused: status %d", (int)fail_at, (int)status);
  }
}
#endif
