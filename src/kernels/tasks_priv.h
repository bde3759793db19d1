/* tasks_priv.h -- how many tasks the work of a step is cut into. */
#ifndef KERNELS_TASKS_PRIV_H
#define KERNELS_TASKS_PRIV_H
#include "base/base.h"

/* Vector multiply-adds of a task, at least, so that handing it out costs little beside it: about 5 us. */
enum { KERN_TASK_WORK = 16384 };
/* What a task of such a size has for so many workers: a quarter where more than two share a step, as most of them would
 * have nothing to do in a short one. For cuts that change no bit. */
static inline int64_t kern_task_size(int64_t size, uint32_t workers) { return workers > 2 ? size / 4 : size; }

/* Tasks that are wanted where there is work for them: three for each worker, so that those come out even that begin
 * late; as many for eight workers and fewer, so that what is cut there is cut alike. For cuts that change no bit. */
enum { KERN_FEW_WORKERS = 8 };
static inline int64_t kern_tasks_wanted(uint32_t workers) {
  enum { EACH = 3 };
  return EACH * base_max_i64(workers, KERN_FEW_WORKERS);
}

/* Into how many pieces, at least `least` and at most `most`, each of `maps` is cut, which have `size` rows and are
 * worked off in tiles of up to `tile` rows: as many as `cuts`, unless many workers are through clearly sooner with
 * others. The worker who has most counts; a row takes `row` times as long as a tile without its rows. For cuts that
 * change no bit. */
typedef struct kern_cuts {
  int64_t maps, size, tile, row, least, most, cuts;
} kern_cuts;
int64_t kern_even_cuts(const kern_cuts *c, uint32_t workers);
#endif
