/* tasks.c -- cuts that come out even on many workers. */
#include "kernels/tasks_priv.h"

enum { ROUNDS = 4, GAIN = 16 /* one part of so many is not worth another cut */ };

/* Of the worker who has most, in tiles without rows. */
static int64_t longest(const kern_cuts *c, int64_t cuts, uint32_t workers) {
  const int64_t rows = base_ceil_div(c->size, cuts), tasks = base_ceil_div(c->maps * cuts, workers);
  return tasks * (rows * c->row + base_ceil_div(rows, c->tile));
}

int64_t kern_even_cuts(const kern_cuts *c, uint32_t workers) {
  if (workers <= KERN_FEW_WORKERS || c->maps < 1 || c->maps * c->cuts > ROUNDS * (int64_t)workers) return c->cuts;
  int64_t best = c->cuts, least = longest(c, best, workers);
  least -= least / GAIN;
  for (int64_t round = 1; round <= ROUNDS; round++) {
    const int64_t cuts = base_min_i64(base_max_i64(round * workers / c->maps, c->least), c->most);
    const int64_t length = longest(c, cuts, workers);
    if (length >= least) continue;
    best = cuts;
    least = length;
  }
  return best;
}
