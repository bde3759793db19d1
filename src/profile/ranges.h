/* ranges.h -- ranges of time for the profilers of others (VTune and whatever else speaks ITT), while they last. */
#ifndef PROFILE_RANGES_H
#define PROFILE_RANGES_H
#include "base/base.h"

typedef struct prof_collector prof_collector;

/* Loads the collector, a shared library. Errors: TD_NO_RESOURCE with the loader's reason, TD_UNSUPPORTED for a library
 * that is none. */
td_status prof_collector_open(const td_allocator *allocator, const char *library, prof_collector **collector,
                              td_error *err);
void prof_collector_close(prof_collector *collector); /* what was watched must run no more; NULL allowed */

/* On the calling thread. NULL collector: nothing. Thread-safe. */
void prof_range_push(const prof_collector *collector, const char *name);
void prof_range_pop(const prof_collector *collector);
void prof_mark(const prof_collector *collector, const char *name);
/* Of the whole process. */
void prof_pause(const prof_collector *collector);
void prof_resume(const prof_collector *collector);

/* An observer that has a range for every part of a step on the thread that computes it, and tells `inner` as well
 * (zeroed: nobody). `names`: of the ranges, per step. It lives until the collector is closed. */
td_status prof_watch(prof_collector *collector, const char *const *names, uint32_t steps, const td_observer *inner,
                     td_observer *observer, td_error *err);
#endif
