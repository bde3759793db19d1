/* order.h -- what the server and the processes beside it say to each other: one message for each order and answer. */
#ifndef SERVE_ORDER_H
#define SERVE_ORDER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "spawner.h"

enum {
  ORDER_DESCRIPTOR = 3, /* where orders come from, in the processes beside the server */
  ORDER_WORDS = 256,
  ORDER_BYTES = 1 << 16,
  ORDER_THREADS = 4096 /* the most that a worker is told of */
};

typedef struct order {
  uint32_t program, threads; /* spawner_program */
  char words[ORDER_BYTES];   /* each with its 0 */
} order;

typedef struct answer {
  pid_t pid;
  int32_t error; /* as errno has it; 0: it runs. EPERM: it is nothing that may be started */
} answer;

/* A message with up to two descriptors. */
bool order_put(int to, const void *bytes, size_t count, const int *fds, size_t fd_count);
/* Its bytes; 0: the other side has ended; -1: errno says why, EBADMSG that it did not come whole. fds: -1 for those
 * that did not come. */
ssize_t order_take(int from, void *to, size_t size, int fds[2]);
void order_close(const int fds[2]);

/* The words of an order, of which `text` has `bytes`; false: they do not all end, or are too many. */
bool order_split(const char *text, size_t bytes, const char *words[ORDER_WORDS], size_t *count);

/* May the words be started? Those of a compiler are what the code generator writes for a file in the cache, those of a
 * worker its script, in a folder that the server has made, and the model's name. */
bool order_is_allowed(const spawner_plan *plan, const char *const *words, size_t count, spawner_program program);

/* In a process of its own: leaves it no descriptors but `own`, as ORDER_DESCRIPTOR, standard error, and nowhere as 0
 * and 1. False: that cannot be had. */
bool order_descriptors(int own);
/* Takes orders until the other side of `orders` has ended; then what it has started goes, and the process. */
_Noreturn void spawner_serve(const spawner_plan *plan, int orders);
#endif
