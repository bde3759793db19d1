/* counters_parts.c -- counters by thread and by class of work. Every thread opens its own group when its first part of
 * a step begins, reads it where parts begin and end, and adds the difference to what it has of the step's class:
 * threads share nothing. A read is a system call: user mode alone is counted, but steps of few microseconds are
 * disturbed by it. So these counts are of runs of their own, separate from those of the whole. */
#include <stdio.h>
#include <string.h>

#include "profile/counters_priv.h"

enum { CLASSES = 16, WARM_RUNS = 2 };

/* Of one thread; on its own cache lines. */
typedef struct part_thread {
  counter_group group;
  int error;
  uint64_t start[PROF_GROUP_EVENTS];
  double least_share;
  counter_sums by_class[CLASSES];
  uint64_t padding[8];
} part_thread;

typedef struct parts {
  const prof_counting *p;
  const prof_group *numbers;
  const sys_event *events;
  bool keep; /* false while warm; changes between runs alone */
  uint32_t class_count;
  const char *classes[CLASSES];
  uint8_t *class_of; /* per step */
  part_thread *threads;
} parts;

static bool read_now(const parts *s, part_thread *t, uint64_t *counts) {
  const sys_counters *c = s->p->counters;
  double share;
  if (t->error || !c->read(c->user, t->group.handles[0], counts, t->group.count, &share)) return false;
  if (share < t->least_share) t->least_share = share;
  return true;
}

static void open_here(const parts *s, part_thread *t) {
  const sys_counters *c = s->p->counters;
  t->group = (counter_group){.count = s->numbers->count};
  for (uint32_t i = 0; i < t->group.count; i++) t->group.events[i] = &s->events[s->numbers->events[i]];
  t->error = prof_counters_open(c, &t->group);
  if (!t->error) c->set(c->user, t->group.handles[0], true);
}

static void part_begins(void *user, uint32_t thread, uint32_t step) {
  const parts *s = user;
  if (thread >= s->p->threads || step >= s->p->steps) return;
  part_thread *t = &s->threads[thread];
  if (!t->group.open && !t->error) open_here(s, t);
  if (s->keep && !read_now(s, t, t->start) && !t->error) t->error = -1;
}

static void part_ends(void *user, uint32_t thread, uint32_t step, uint64_t begin_ns, uint64_t end_ns) {
  const parts *s = user;
  uint64_t now[PROF_GROUP_EVENTS];
  (void)begin_ns, (void)end_ns;
  if (thread >= s->p->threads || step >= s->p->steps || !s->keep) return;
  part_thread *t = &s->threads[thread];
  if (!read_now(s, t, now)) return;
  counter_sums *to = &t->by_class[s->class_of[step]];
  for (uint32_t i = 0; i < t->group.count; i++) to->at[s->numbers->events[i]] += (double)(now[i] - t->start[i]);
}

static uint8_t number_of_class(parts *s, const char *name) {
  for (uint32_t i = 0; i < s->class_count; i++)
    if (strcmp(s->classes[i], name) == 0) return (uint8_t)i;
  if (s->class_count < CLASSES) s->classes[s->class_count++] = name; /* there are fewer: see classes.c */
  return (uint8_t)(s->class_count - 1);
}

/* Sums of this group are forgotten first: the last group that has an event holds. */
static void forget(parts *s) {
  for (uint32_t t = 0; t < s->p->threads; t++)
    for (uint32_t c = 0; c < s->class_count; c++)
      for (uint32_t i = 0; i < s->numbers->count; i++) s->threads[t].by_class[c].at[s->numbers->events[i]] = 0;
}

static td_status run_group(parts *s, td_error *err) {
  const prof_counting *p = s->p;
  const td_observer observer = {.size = sizeof observer, .user = s, .enter = part_begins, .part = part_ends};
  td_status status = TD_OK;
  forget(s);
  p->observe(p->user, &observer);
  for (uint32_t i = 0; status == TD_OK && i < p->runs + WARM_RUNS; i++) {
    s->keep = i >= WARM_RUNS;
    status = p->run(p->user, err);
  }
  p->observe(p->user, NULL);
  s->keep = false;
  for (uint32_t t = 0; t < p->threads; t++) prof_counters_close(p->counters, &s->threads[t].group);
  return status;
}

static void add(counter_sums *to, const counter_sums *from) {
  for (int i = 0; i < PROF_MOST_EVENTS; i++) to->at[i] += from->at[i];
}

static void put_rows(const parts *s, const char *head, counter_row_fn put_row, prof_out *out) {
  char name[32];
  prof_print(out, "%-20s %s\n", "thread, class of work", head);
  for (uint32_t t = 0; t < s->p->threads; t++) {
    counter_sums all = {{0}};
    for (uint32_t c = 0; c < s->class_count; c++) add(&all, &s->threads[t].by_class[c]);
    snprintf(name, sizeof name, "thread %u", t);
    if (s->threads[t].error) prof_print(out, "%-20s could not be counted\n", name);
    else if (s->threads[t].least_share < COUNTERS_LEAST_SHARE) prof_print(out, "%-20s shared its counters\n", name);
    else put_row(s->p, name, &all, out);
  }
  for (uint32_t c = 0; c < s->class_count; c++) {
    counter_sums all = {{0}};
    for (uint32_t t = 0; t < s->p->threads; t++) add(&all, &s->threads[t].by_class[c]);
    put_row(s->p, s->classes[c], &all, out);
  }
}

td_status prof_counters_by_part(const prof_counting *p, const counter_table *table, const td_allocator *allocator,
                                prof_out *out, td_error *err) {
  if (!p->observe || !p->threads || !p->steps) return TD_OK;
  base_arena *arena = base_arena_new(allocator);
  parts s = {.p = p, .events = table->events};
  s.class_of = arena ? base_new(arena, uint8_t, p->steps) : NULL;
  s.threads = s.class_of ? base_new(arena, part_thread, p->threads) : NULL;
  td_status status = s.threads ? TD_OK : base_no_memory(err, "counts");
  for (uint32_t i = 0; status == TD_OK && i < p->threads; i++) s.threads[i].least_share = 1;
  for (uint32_t i = 0; status == TD_OK && i < p->steps; i++)
    s.class_of[i] = number_of_class(&s, p->class_of_step(p->user, i));
  for (uint32_t g = 0; status == TD_OK && g < table->group_count; g++) {
    s.numbers = &table->groups[g];
    status = run_group(&s, err);
  }
  if (status == TD_OK) put_rows(&s, table->head, table->put_row, out);
  base_arena_free(arena);
  return status;
}
