/* memory.c -- lifetimes to offsets. A pure function of integer records, so that it is tested without a model. */
#include "plan/bind.h"
#include "base/size.h"

#include <stdlib.h>

enum { ALIGN = 64, MOST_BY_SIZE = 8192 /* it takes time with the square of the number */ };

static int larger_first(const void *a, const void *b) {
  const plan_interval *x = *(plan_interval *const *)a, *y = *(plan_interval *const *)b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return (x > y) - (x < y);
}

static size_t rounded(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

/* The smallest gap between placed intervals alive with `it`. `placed` is sorted by offset. */
static size_t best_offset(plan_interval *const *placed, uint32_t count, const plan_interval *it) {
  size_t end = 0, best = SIZE_MAX, best_gap = SIZE_MAX, need = rounded(it->bytes);
  for (uint32_t i = 0; i < count; i++) {
    const plan_interval *p = placed[i];
    if (p->last < it->first || p->first > it->last) continue;
    if (p->offset > end && p->offset - end >= need && p->offset - end < best_gap) {
      best = end;
      best_gap = p->offset - end;
    }
    if (p->offset + rounded(p->bytes) > end) end = p->offset + rounded(p->bytes);
  }
  return best == SIZE_MAX ? end : best;
}

static void insert_by_offset(plan_interval **placed, uint32_t count, plan_interval *it) {
  uint32_t i = count;
  for (; i > 0 && placed[i - 1]->offset > it->offset; i--) placed[i] = placed[i - 1];
  placed[i] = it;
}

/* Most bytes alive at one step: a sweep over births and deaths. */
typedef struct event {
  uint64_t at; /* twice the step, odd for the death after it */
  size_t bytes;
} event;

static int by_time(const void *a, const void *b) {
  const event *x = a, *y = b;
  return (x->at > y->at) - (x->at < y->at);
}

static bool lower_bound(base_arena *arena, const plan_interval *intervals, uint32_t count, size_t *lower) {
  event *events = base_new(arena, event, 2 * (size_t)count + 1);
  if (!events) return false;
  for (uint32_t i = 0; i < count; i++) {
    events[2 * i] = (event){2 * (uint64_t)intervals[i].first, rounded(intervals[i].bytes)};
    events[2 * i + 1] = (event){2 * (uint64_t)intervals[i].last + 1, rounded(intervals[i].bytes)};
  }
  qsort(events, 2 * (size_t)count, sizeof *events, by_time);
  size_t now = 0;
  *lower = 0;
  for (size_t i = 0; i < 2 * (size_t)count; i++) {
    if (events[i].at & 1) now -= events[i].bytes;
    else if (__builtin_add_overflow(now, events[i].bytes, &now)) return false;
    if (now > *lower) *lower = now;
  }
  return true;
}

/* ---- two ways to place them ---- */

/* Largest first, each into the smallest gap (greedy by size, Pisarchyk and Lee 2020). */
static size_t place_by_size(plan_interval **order, plan_interval **placed, uint32_t count) {
  size_t total = 0;
  qsort(order, count, sizeof *order, larger_first);
  for (uint32_t i = 0; i < count; i++) {
    order[i]->offset = best_offset(placed, i, order[i]);
    insert_by_offset(placed, i, order[i]);
    total = base_max_size(total, order[i]->offset + rounded(order[i]->bytes));
  }
  return total;
}

static int earlier_first(const void *a, const void *b) {
  const plan_interval *x = *(plan_interval *const *)a, *y = *(plan_interval *const *)b;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return larger_first(a, b);
}

/* In the order of their births, each as low as it goes among those alive: what was freed last is used again while it is
 * in a cache. Time goes with the number alive at once, not with the number of all. */
static size_t place_by_birth(plan_interval **order, plan_interval **alive, uint32_t count) {
  size_t total = 0;
  uint32_t living = 0;
  qsort(order, count, sizeof *order, earlier_first);
  for (uint32_t i = 0; i < count; i++) {
    plan_interval *it = order[i];
    uint32_t kept = 0;
    for (uint32_t k = 0; k < living; k++)
      if (alive[k]->last >= it->first) alive[kept++] = alive[k];
    living = kept;
    it->offset = 0;
    for (uint32_t k = 0; k < living && alive[k]->offset < it->offset + rounded(it->bytes); k++)
      it->offset = base_max_size(it->offset, alive[k]->offset + rounded(alive[k]->bytes));
    insert_by_offset(alive, living++, it);
    total = base_max_size(total, it->offset + rounded(it->bytes));
  }
  return total;
}

bool plan_memory(base_arena *arena, plan_interval *intervals, uint32_t count, size_t *total, size_t *lower) {
  plan_interval **order = base_new(arena, plan_interval *, (size_t)count + 1);
  plan_interval **placed = base_new(arena, plan_interval *, (size_t)count + 1);
  size_t *by_birth = base_new(arena, size_t, (size_t)count + 1);
  if (!order || !placed || !by_birth) return false;
  size_t sum = 0;
  for (uint32_t i = 0; i < count; i++) {
    order[i] = &intervals[i];
    if (intervals[i].bytes > SIZE_MAX / 2 || __builtin_add_overflow(sum, rounded(intervals[i].bytes), &sum))
      return false;
  }
  *total = place_by_birth(order, placed, count);
  if (!lower_bound(arena, intervals, count, lower)) return false;
  if (*total == *lower || count > MOST_BY_SIZE) return true;
  for (uint32_t i = 0; i < count; i++) by_birth[i] = intervals[i].offset;
  size_t by_size = place_by_size(order, placed, count);
  for (uint32_t i = 0; i < count && by_size >= *total; i++) intervals[i].offset = by_birth[i];
  if (by_size < *total) *total = by_size;
  return true;
}
