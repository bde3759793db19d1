/* stack_priv.h -- memory that grows: a reservation used as a stack of bytes (tail.c). */
#ifndef RUNTIME_STACK_PRIV_H
#define RUNTIME_STACK_PRIV_H
#include <stdatomic.h>

#include "base/error.h"

/* A reservation used as a stack of bytes. */
typedef struct run_stack {
  char *base;
  size_t size, used;
  size_t high, warm;   /* most bytes since run_stack_begin; bytes whose pages stay, as the run before needed them */
  _Atomic size_t peak; /* written by the thread that takes, read by any that asks for statistics */
} run_stack;
td_status run_stack_open(run_stack *s, td_error *err);
void run_stack_close(run_stack *s);
void *run_stack_take(run_stack *s, size_t bytes); /* 64-byte aligned, not cleared; NULL when full */
/* Does it lie in the stack, `from` bytes from its start or further? A stack that was not opened holds nothing. */
static inline bool run_stack_holds(const run_stack *s, const void *at, size_t from) {
  return s->base && (const char *)at >= s->base + from && (const char *)at < s->base + s->size;
}
void run_stack_cut(run_stack *s, size_t used); /* drops what was taken since; gives far pages back */
/* Before a run: drops everything. Pages that the last run did not need are given back, those it did stay. */
void run_stack_begin(run_stack *s);
#endif
