/* bisect.c -- which pass, and which kernel, makes a model's outputs wrong.
 *
 * Passes run one after the other: the fault is that of the first one with which the outputs differ while all before it
 * run, and none behind it. Kernels do not depend on one another: the names in use are halved as long as one half is
 * enough to differ, and what is left is the answer. */
#include <string.h>

#include "debug/debug.h"

typedef BASE_VEC(const char *) name_vec;

typedef struct bisection {
  td_bisection *b;
  base_arena *arena;
  td_error *err;
} bisection;

static td_status try_without(bisection *s, const char *passes, const char *kernels, bool *differs) {
  int32_t answer = 1;
  s->b->trials++;
  TRY(s->b->differs(s->b->user, passes, kernels, &answer, s->err));
  *differs = answer != 0;
  return TD_OK;
}

static td_status split(bisection *s, const char *list, name_vec *names) {
  for (const char *at = list ? list : ""; *at;) {
    const size_t length = strcspn(at, ",");
    const char **to = length ? base_vec_push(s->arena, names) : NULL;
    if (to) *to = base_arena_slice(s->arena, at, length);
    if (length && (!to || !*to)) return base_no_memory(s->err, "names");
    at += length + (at[length] == ',');
  }
  return TD_OK;
}

/* `first`, which may be NULL, and names [from, to) of the list, separated by commas; NULL: out of memory. */
static const char *joined(bisection *s, const char *first, const name_vec *names, uint32_t from, uint32_t to) {
  const char *all = first ? first : "";
  for (uint32_t i = from; all && i < to; i++)
    all = *all ? base_arena_format(s->arena, "%s,%s", all, names->at[i]) : names->at[i];
  if (!all) base_no_memory(s->err, "names");
  return all;
}

/* ---- passes ---- */

static td_status without_passes(bisection *s, const name_vec *passes, uint32_t from, bool *differs) {
  const char *off = joined(s, s->b->disabled_passes, passes, from, passes->count);
  return off ? try_without(s, off, s->b->disabled_kernels, differs) : TD_NO_RESOURCE;
}

/* The first pass with which outputs differ; none where they differ without any. */
static td_status find_pass(bisection *s, const name_vec *passes) {
  uint32_t low = 0, high = passes->count; /* with the first `low` passes they agree, with `high` they differ */
  bool differs = true;
  if (passes->count) TRY(without_passes(s, passes, 0, &differs));
  if (differs) return TD_OK;
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    TRY(without_passes(s, passes, middle, &differs));
    *(differs ? &high : &low) = middle;
  }
  strcpy(s->b->pass, passes->at[low]);
  return TD_OK;
}

/* ---- kernels ---- */

/* All but kernels [from, to) disabled. */
static td_status only_kernels(bisection *s, const name_vec *all, uint32_t from, uint32_t to, bool *differs) {
  const char *front = joined(s, s->b->disabled_kernels, all, 0, from);
  const char *off = front ? joined(s, front, all, to, all->count) : NULL;
  return off ? try_without(s, s->b->disabled_passes, off, differs) : TD_NO_RESOURCE;
}

/* Of all kernels, with which the model differs and without which it agrees, those that differ alone. */
static td_status find_kernels(bisection *s, const name_vec *all) {
  uint32_t from = 0, to = all->count;
  bool narrowed = true;
  while (narrowed && to - from > 1) {
    const uint32_t middle = from + (to - from) / 2;
    TRY(only_kernels(s, all, from, middle, &narrowed));
    if (narrowed) {
      to = middle;
      continue;
    }
    TRY(only_kernels(s, all, middle, to, &narrowed));
    if (narrowed) from = middle;
  }
  const char *found = joined(s, NULL, all, from, to);
  if (!found) return TD_NO_RESOURCE;
  strcpy(s->b->culprits, found);
  return TD_OK;
}

static td_status search_kernels(bisection *s, const name_vec *kernels) {
  bool differs = true;
  if (kernels->count) TRY(only_kernels(s, kernels, 0, 0, &differs));
  return differs ? TD_OK : find_kernels(s, kernels);
}

td_status debug_bisect(td_bisection *b, base_arena *arena, td_error *err) {
  bisection s = {b, arena, err};
  name_vec passes = {0}, kernels = {0};
  bool differs;
  b->pass[0] = b->culprits[0] = 0;
  b->trials = 0;
  TRY(split(&s, b->passes, &passes));
  TRY(split(&s, b->kernels, &kernels));
  TRY(try_without(&s, b->disabled_passes, b->disabled_kernels, &differs));
  if (!differs) return TD_ANSWER_NO;
  TRY(find_pass(&s, &passes));
  return search_kernels(&s, &kernels);
}
