/* call.h -- how a step reaches its function: reference, kernel or host function alike. The caller (the executor, or the
 * constant folder) owns the struct; the function reads inputs, fills outputs, and keeps nothing. */
#ifndef BASE_CALL_H
#define BASE_CALL_H
#include "base/attr.h"
#include "base/tensor.h"

#include <stdatomic.h>

/* Piece `piece` of `pieces`, see team.h. */
typedef void (*base_piece_fn)(const void *user, uint32_t piece, uint32_t pieces);

/* How many tasks of a worker's range are taken, and in which job: see base_call_take; the piece of a team's work that
 * the worker has, see team.h. Zeroed at first. */
typedef struct base_lane {
  _Alignas(64) _Atomic uint64_t word;
  _Atomic uint64_t piece;
  base_piece_fn run;
  const void *user;
} base_lane;

typedef struct base_call base_call;
typedef td_status (*base_call_fn)(const base_call *call);

struct base_call {
  const base_attrs *attrs;
  const void *op;                   /* the operator's descriptor, opaque here */
  const struct kern_tuning *tuning; /* by which kernels choose among forms of the same bits, opaque here; or NULL */
  const void *program;              /* that among the attributes, read and verified, opaque here; or NULL */
  const void *code;                 /* machine code for it, opaque here; or NULL */
  const base_value *const *in;      /* in[i] is NULL for an absent optional operand */
  base_value *const *out;           /* out[i] is NULL when nobody wants that output */
  uint32_t in_count, out_count;
  td_error *err;
  /* Memory of the caller. `keep` lives as long as the outputs, scratch until the function returns. NULL: out of memory.
   */
  void *memory;
  void *(*keep)(void *memory, size_t bytes);
  void *(*scratch)(void *memory, size_t bytes);
  /* Does what lies at `data`, elements of an operand, stay as long as what `keep` gives, unchanged? Then an output may
   * hold it, too. NULL: nobody knows. */
  bool (*lasts)(void *memory, const void *data);
  /* What the model prints; the text need not end in 0. NULL: nobody listens. */
  void (*print)(const base_call *call, const char *text, size_t length);
  /* A parallel kernel is called once on each of `workers` threads, with the same operands; each call has its own
   * `worker`, memory and err. The calls share out the work through `lanes`. Anything else sees workers <= 1. */
  uint32_t worker, workers;
  uint32_t job;     /* the same for all of them, below BASE_JOBS; none that the lanes have seen before */
  base_lane *lanes; /* one per worker; NULL: this call takes all */
};

enum { BASE_JOBS = 1 << 24 };

/* Walks the tasks [0, total) of a step, shared out among its workers:
 *
 *     for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total)) ...
 *
 * Each worker has a range of them, as even as can be, and takes tasks of others when it is through with its own. So
 * neighbouring tasks share a core, and what a step has left in a core's caches is found there by the next step. Who
 * takes which task is chance all the same: what a task computes must not depend on it. */
int64_t base_call_take(const base_call *call, int64_t total);
static inline int64_t base_call_first(const base_call *call, int64_t total) {
  return call->lanes ? base_call_take(call, total) : 0;
}
static inline int64_t base_call_next(const base_call *call, int64_t task, int64_t total) {
  return call->lanes ? base_call_take(call, total) : task + 1;
}

/* An output whose sizes were known comes with dtype, dims, strides and data set: fill it. One whose sizes only running
 * can tell comes with data NULL: define it first. Rank and dims are checked; err is filled on failure. */
td_status base_call_define(const base_call *call, uint32_t output, td_dtype dtype, int32_t rank, const int64_t *dims);
/* `count` elements of `each` bytes of 64-byte aligned scratch, not cleared. NULL on overflow or no memory: return
 * base_no_memory(call->err, "scratch"). A count of 0 gives a valid pointer. */
void *base_call_scratch(const base_call *call, size_t count, size_t each);
static inline const base_tensor *base_in(const base_call *call, uint32_t i) {
  return i < call->in_count && call->in[i] && call->in[i]->kind == BASE_TENSOR ? &call->in[i]->tensor : NULL;
}
static inline base_tensor *base_out(const base_call *call, uint32_t i) {
  return i < call->out_count && call->out[i] ? &call->out[i]->tensor : NULL;
}
#endif
