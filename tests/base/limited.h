/* limited.h -- memory up to a limit, as an administrator would set one. */
#ifndef TESTS_BASE_LIMITED_H
#define TESTS_BASE_LIMITED_H
#include "base/base.h"

typedef struct limited {
  base_counting counting;
  uint64_t most; /* bytes at one time */
} limited;

static inline void *limited_alloc(void *user, size_t bytes, size_t align) {
  limited *l = user;
  if (bytes > l->most || l->counting.live_bytes + bytes > l->most) return NULL;
  const td_allocator inner = base_counting_allocator(&l->counting);
  return inner.alloc(inner.user, bytes, align);
}

static inline void limited_free(void *user, void *memory, size_t bytes) {
  const td_allocator inner = base_counting_allocator(&((limited *)user)->counting);
  inner.free(inner.user, memory, bytes);
}

/* `l` is made {.counting = {.inner = ...}, .most = ...} before, and outlives the allocator. */
static inline td_allocator limited_allocator(limited *l) { return (td_allocator){l, limited_alloc, limited_free}; }
#endif
