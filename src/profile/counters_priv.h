/* counters_priv.h -- groups of counters, and what they say of threads and of classes of work. */
#ifndef PROFILE_COUNTERS_PRIV_H
#define PROFILE_COUNTERS_PRIV_H
#include "profile/counters.h"
#include "profile/profile_priv.h"

/* A count that had to share its counter for longer says nothing. */
#define COUNTERS_LEAST_SHARE 0.9

typedef struct counter_group {
  const sys_event *events[PROF_GROUP_EVENTS];
  int handles[PROF_GROUP_EVENTS];
  uint32_t count, open;
} counter_group;

/* On the calling thread. 0, or the error number; g->events[g->open] is the event then, and nothing is open. */
int prof_counters_open(const sys_counters *c, counter_group *g);
void prof_counters_close(const sys_counters *c, counter_group *g);

/* Counts of one kind of part, by the numbers that the events have. */
typedef struct counter_sums {
  double at[PROF_MOST_EVENTS];
} counter_sums;

typedef void (*counter_row_fn)(const prof_counting *p, const char *name, const counter_sums *sums, prof_out *out);
/* What is counted by part, and how it is written: groups list numbers of events. */
typedef struct counter_table {
  const sys_event *events;
  const prof_group *groups;
  uint32_t group_count;
  const char *head;
  counter_row_fn put_row;
} counter_table;

/* Counts each group of the table over runs of its own, between the begin and the end of every thread's part of every
 * step, and writes a row for each thread and each class of work by `put_row`. */
td_status prof_counters_by_part(const prof_counting *p, const counter_table *table, const td_allocator *allocator,
                                prof_out *out, td_error *err);
#endif
