/* parallel_native.c -- threads of our own, for one job each: what is done once needs none that stay. */
#include "runtime/parallel_priv.h"
#include "sys/sys.h"

enum { MOST = 15 }; /* run_in_parallel asks for no more */

typedef struct helper {
  sys_thread thread;
  void (*part)(void *user, uint32_t i);
  void *user;
  uint32_t i;
} helper;

static void work(void *user) {
  const helper *h = user;
  h->part(h->user, h->i);
}

/* A thread that cannot be had is done without. */
void run_parallel(uint32_t parts, void (*part)(void *user, uint32_t i), void *user) {
  helper helpers[MOST];
  uint32_t count = 0;
  for (; count < MOST && count + 1 < parts; count++) {
    helper *h = &helpers[count];
    *h = (helper){.part = part, .user = user, .i = count + 1};
    if (sys_thread_start(&h->thread, work, h, NULL) != TD_OK) break;
  }
  part(user, 0);
  for (uint32_t i = 0; i < count; i++) sys_thread_join(&helpers[i].thread);
}
