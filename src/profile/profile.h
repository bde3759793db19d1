/* profile.h -- recording runs of a session, and writing what was recorded. */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H
#include "base/base.h"

/* ---- limits (limits.c) ---- */

/* See td_limits_of, td_limit_ms and td_beats_limit of the public header. */
td_limits prof_limits_of(const td_roofline *roofline, const char *isa, uint32_t threads);
double prof_limit_ms(const td_limits *limits, const td_work *work);
bool prof_beats_limit(const td_limits *limits, const td_work *work, double ms);

/* ---- recording (record.c) ---- */

typedef struct prof_recorder prof_recorder;

typedef struct prof_options {
  uint32_t steps;   /* of the plan */
  uint32_t threads; /* most that can take part in a run, the caller included */
  uint32_t crew;    /* of these, the last, each of whom runs tasks alone; the others share steps */
  uint32_t records; /* kept per thread, the newest; 0: none */
  /* The schedule, in runs, as td_profile_options has it. */
  uint32_t skip, wait, warmup, active, repeat;
} prof_options;

/* NULL: out of memory. All memory that recording takes is allocated here. */
prof_recorder *prof_recorder_new(const td_allocator *allocator, const prof_options *options);
void prof_recorder_free(prof_recorder *recorder); /* NULL allowed */
/* What the session calls; its `user` is the recorder. */
td_observer prof_observer(prof_recorder *recorder);
/* Discards all records; the schedule starts again. */
void prof_recorder_clear(prof_recorder *recorder);

/* ---- what a form is made of ---- */

/* A place in the arena: bytes [offset, offset + bytes) from step `first` to step `last`, both included. */
typedef struct prof_block {
  uint32_t first, last;
  uint64_t offset, bytes;
} prof_block;

typedef struct prof_source {
  const prof_recorder *recorder;
  const td_step *steps;    /* one per step of the plan; texts outlive the call */
  const td_limits *limits; /* NULL: no limits are known */
  double footprint;        /* bytes of constants and arena */
  const char *model;       /* its name, for titles */
  const char *machine;     /* the CPU's name, or "" */
  /* Of a step's operands in the last run, as JSON; NULL: nothing is known. */
  void (*print_dims)(const void *user, uint32_t step, base_text *text);
  void (*print_types)(const void *user, uint32_t step, base_text *text);
  const prof_block *blocks; /* of the shapes bound last */
  uint32_t block_count;
  uint64_t arena_bytes, arena_lower;
  const char *(*origin)(const void *user, uint32_t step, size_t origin); /* NULL: not known */
  const void *user;
} prof_source;

/* Step `step` of the plan. */
td_profile_step prof_step(const prof_recorder *recorder, uint32_t step);
/* "convolution", "matrix product", ...: what a step of operator `op` does, coarsely (classes.c). */
const char *prof_class_of(const char *op);
/* Sums over what was recorded. */
td_profile_totals prof_totals(const prof_source *source);

/* Writes in the form `view->form`, grouped, sorted and cut as `view` says; forms.def names the forms. Text comes in
 * pieces. Errors: TD_BAD_ARGUMENT naming what there is, TD_NO_RESOURCE, and what `write` returns. */
td_status prof_write(const prof_source *source, const td_profile_view *view, const td_allocator *allocator,
                     td_write_fn write, void *user, td_error *err);
#endif
