/* parallel.c -- jobs that a process does once, without a pool: weights that are packed while a model is loaded. */
#include "runtime/parallel_priv.h"
#include "runtime/runtime.h"

#include <stdatomic.h>

enum { MOST_THREADS = 16 }; /* one core packs a good part of what memory gives */

typedef struct share {
  _Atomic uint32_t next;
  uint32_t count;
  void (*task)(void *arg, uint32_t i);
  void *arg;
  char begins, ends; /* for the sanitizer */
} share;

static void take_tasks(void *user, uint32_t thread) {
  share *s = user;
  (void)thread;
  RUN_TAKES(&s->begins);
  for (uint32_t i; (i = atomic_fetch_add(&s->next, 1)) < s->count;) s->task(s->arg, i);
  RUN_GIVES(&s->ends);
}

void run_in_parallel(uint32_t count, void (*task)(void *arg, uint32_t i), void *arg) {
  share s = {.count = count, .task = task, .arg = arg};
  uint32_t threads = run_usable_threads();
  if (threads > MOST_THREADS) threads = MOST_THREADS;
  if (threads > count) threads = count;
  RUN_GIVES(&s.begins);
  if (threads > 1) run_parallel(threads, take_tasks, &s);
  else take_tasks(&s, 0);
  RUN_TAKES(&s.ends);
}
