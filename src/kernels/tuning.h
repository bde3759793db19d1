/* tuning.h -- what differs from core to core, as data: numbers by which kernels choose among forms that give the same
 * bits. Where a choice could change a bit (which algorithm, in which order a sum is made), it is not made here. */
#ifndef KERNELS_TUNING_H
#define KERNELS_TUNING_H
#include "base/base.h"
#include "base/speed.h"

typedef struct kern_tuning {
#define TUNING(name, value, threads, candidates, what) int64_t name;
#include "kernels/tuning.def"
#undef TUNING
} kern_tuning;

typedef struct kern_tuning_row {
  const char *name, *candidates, *what; /* candidates: numbers, separated by blanks */
  size_t at;                            /* of its int64_t in kern_tuning */
  uint32_t threads;                     /* that feel it */
} kern_tuning_row;
/* All numbers; *count of them. */
const kern_tuning_row *kern_tuning_rows(uint32_t *count);

/* What is best on a CPU of that vendor ("GenuineIntel"), family and model, as CPUID says them, as far as it was
 * measured; else the defaults. */
kern_tuning kern_tuning_for(const char *vendor, uint32_t family, uint32_t model);
/* Sets what `text` says, "name=number,name=number", and leaves the rest. TD_BAD_ARGUMENT names what is unknown or not
 * among the candidates. */
td_status kern_tuning_set(kern_tuning *t, const char *text, td_error *err);
/* That of the call; where it has none, the defaults. */
const kern_tuning *kern_tuning_of(const base_call *call);
/* The model of speed of a CPU whose tuning is known: base_speed_default with the numbers that the tuning has. NULL: the
 * default. */
base_speed kern_speed(const kern_tuning *t);
#endif
