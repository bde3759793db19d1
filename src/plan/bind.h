/* bind.h -- numbers for the sizes of a plan: what a combination of input shapes evaluates to, where values lie, which
 * steps run on parts of a batch. */
#ifndef PLAN_BIND_H
#define PLAN_BIND_H
#include "plan/plan.h"

/* ---- memory ---- */

/* A block of memory that is needed from step `first` to step `last`, both included. */
typedef struct plan_interval {
  uint32_t first, last;
  size_t bytes;
  size_t offset; /* out: a multiple of 64 */
} plan_interval;
/* Gives every interval an offset such that those alive at the same step do not overlap. Of two ways the one that takes
 * less: in the order of births, each as low as it goes, or largest first, each into the smallest gap. *total: bytes of
 * the arena; *lower: the most bytes alive at one step, which no plan can beat. False: out of memory (scratch from
 * `arena`) or overflow. */
bool plan_memory(base_arena *arena, plan_interval *intervals, uint32_t count, size_t *total, size_t *lower);

/* ---- parts of a batch ---- */

/* What a step of a batch has to do, in bytes. */
typedef struct plan_load {
  double inner;  /* per sample: operands and results that live among the steps alone */
  double outer;  /* per sample: others */
  double shared; /* read again by every part: weights */
  double passed; /* per sample: what lives here and in the step before, among the steps alone */
} plan_load;
/* How many of `samples` each of `count` steps had best take at a time, where a cache keeps `cache` bytes: *part of
 * each, `samples` for all at once. False: out of memory (scratch from `arena`). */
bool plan_choose_parts(base_arena *arena, const base_speed *speed, const plan_load *loads, uint32_t count,
                       int64_t samples, double cache, int64_t *part);
/* How many of `samples` each of `threads` threads should take through all steps on its own; shares are even. 0: it does
 * not pay: the threads should share each step. */
int64_t plan_choose_share(const plan_load *loads, uint32_t count, int64_t samples, uint32_t threads);

/* ---- binding ---- */

/* What the memory of a slot holds while steps run in parts. */
typedef enum plan_extent {
  PLAN_ONE_PART,
  PLAN_ONE_SHARE, /* the samples of a share, of which the part's are to be found */
  PLAN_ALL        /* all samples, likewise */
} plan_extent;

/* A slot of steps that run in parts: while they do, it is `part` samples. */
typedef struct plan_slice {
  uint32_t slot;
  uint32_t extent; /* plan_extent */
  int64_t rows;    /* of dimension 0 that each sample has */
  bool own;        /* its memory is each thread's own */
} plan_slice;

/* Steps [first, end) run on `part` of `samples` samples at a time, the last time on those that are left. */
typedef struct plan_parts {
  uint32_t first, end;
  int64_t samples, part;
  const plan_slice *slices;
  uint32_t slice_count;
} plan_parts;

/* Runs of parts [first, end), in order, that threads execute independently: each takes `share` samples at a time, the
 * last one the remainder, through all of their steps, in its own memory. */
typedef struct plan_shares {
  uint32_t first, end; /* into parts */
  int64_t samples, share;
  size_t own_offset, own_bytes; /* of the first thread; the others' follow */
} plan_shares;

/* A plan with numbers for its sizes: what one combination of input shapes evaluates to. */
typedef struct plan_binding {
  base_tensor *tensors; /* per slot; data is NULL, or for ARENA slots an offset (see offsets) */
  size_t *offsets;      /* per slot: into the arena, of ARENA slots */
  size_t arena_bytes, arena_lower;
  BASE_VEC(plan_parts) parts;   /* in the order of their steps */
  uint32_t *parts_of;           /* per step, and one behind the last: into parts, or PLAN_NONE */
  BASE_VEC(plan_shares) shares; /* in the order of their steps */
} plan_binding;

/* What sessions count on. */
typedef struct plan_means {
  size_t cache;     /* bytes that one keeps from one step to the next, 0 when unknown: then batches run whole */
  uint32_t threads; /* at least 1 */
} plan_means;
/* Evaluates every size for `given` (a value per input, then per state; dtype and rank checked before; only dims of
 * tensors are read).
 * Allocates the binding in `arena`. Errors name the input or the step whose sizes do not fit. Thread-safe for one plan,
 * many arenas. */
td_status plan_bind(const plan_exe *plan, const base_value *given, plan_means means, base_arena *arena,
                    plan_binding *binding, td_error *err);
/* Which of the plan and its variants is for the sizes of `given`: the first that is, *number as of plan_at. Scratch is
 * of `arena`. Errors are those of plan_bind. */
td_status plan_choose_variant(const plan_exe *plan, const base_value *given, base_arena *arena, uint32_t *number,
                              td_error *err);
/* For people: which steps run in parts. */
void plan_print_parts(const plan_binding *binding, base_text *text);
#endif
