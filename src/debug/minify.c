/* minify.c -- the smallest part of a graph that still fails the same way.
 *
 * A candidate is a set of nodes of the graph the round began with, and what becomes of sizes and types: what the nodes
 * read and no node of the set makes is an input with the value that the reference gave it. So every set is a candidate,
 * and delta debugging (Zeller, Hildebrandt 2002) needs no luck to find one that runs. */
#include <stdio.h>
#include <string.h>

#include "debug/debug.h"

enum { SMALL_SIZES = 4 };

typedef struct search {
  td_minification *m;
  base_arena *arena;
  td_minify_graph base; /* what candidates are parts of */
  td_cut cut;           /* of the smallest candidate so far */
  uint8_t *keep;        /* its nodes */
  size_t count;         /* nodes of the base */
  char output[256];     /* its first wrong one */
  td_error *err;
} search;

static size_t kept(const uint8_t *keep, size_t count) {
  size_t n = 0;
  for (size_t i = 0; i < count; i++) n += keep[i] != 0;
  return n;
}

static void say(const search *s, const char *strategy, size_t granularity, size_t before, size_t after) {
  if (s->m->tell) s->m->tell(s->m->user, strategy, granularity, before, after);
}

/* ---- one candidate ---- */

/* Does the part fail the same way? Then it is the smallest so far. */
static td_status try_cut(search *s, const td_cut *cut, const uint8_t *keep, bool *same) {
  td_cut wished = *cut;
  char output[sizeof s->output] = "";
  int32_t fails = 0;
  *same = false;
  wished.keep = base_arena_copy(s->arena, keep, s->count + 1);
  if (!wished.keep) return base_no_memory(s->err, "a candidate");
  wished.keep_count = s->count;
  TRY(s->m->fails(s->m->user, &wished, &fails, output, s->err));
  *same = fails != 0;
  if (!*same) return TD_OK;
  memcpy(s->output, output, sizeof output);
  s->output[sizeof output - 1] = 0;
  s->cut = wished;
  memcpy(s->keep, wished.keep, s->count);
  return TD_OK;
}

/* ---- fewer nodes ---- */

/* The shortest beginning that fails: halves, as if what fails went on failing with more nodes behind it. */
static td_status truncate_suffix(search *s) {
  size_t low = 0, high = s->count; /* [0, high) fails */
  uint8_t *keep = base_new(s->arena, uint8_t, s->count + 1);
  if (!keep) return base_no_memory(s->err, "a candidate");
  while (low + 1 < high) {
    const size_t middle = low + (high - low) / 2, before = kept(s->keep, s->count);
    bool same;
    for (size_t i = 0; i < s->count; i++) keep[i] = i < middle && s->keep[i];
    TRY(try_cut(s, &s->cut, keep, &same));
    if (same) say(s, "truncate suffix", high - middle, before, kept(s->keep, s->count));
    if (same) high = middle;
    else low = middle;
  }
  return TD_OK;
}

/* Only what the first wrong output needs. */
static td_status eliminate_dead(search *s) {
  const size_t before = kept(s->keep, s->count);
  td_cut cut = s->cut;
  bool same;
  if (!s->output[0] || cut.output) return TD_OK; /* a crash says none */
  cut.output = base_arena_text(s->arena, s->output);
  if (!cut.output) return base_no_memory(s->err, "a name");
  TRY(try_cut(s, &cut, s->keep, &same));
  if (same) say(s, "dead code elimination", before, before, kept(s->keep, s->count));
  s->cut.output = NULL; /* windows may take the output's own node */
  return TD_OK;
}

/* Windows of `size` nodes that stay, one after the other, without those. */
static td_status drop_windows(search *s, size_t size, bool *any) {
  uint8_t *keep = base_new(s->arena, uint8_t, s->count + 1);
  if (!keep) return base_no_memory(s->err, "a candidate");
  for (size_t from = 0; from < s->count;) {
    const size_t before = kept(s->keep, s->count);
    size_t end = from, taken = 0;
    bool same = false;
    memcpy(keep, s->keep, s->count);
    for (; end < s->count && taken < size; end++) {
      taken += keep[end] != 0;
      keep[end] = 0;
    }
    if (taken && taken < before) TRY(try_cut(s, &s->cut, keep, &same));
    same &= kept(s->keep, s->count) < before;
    if (same) say(s, "delta debugging", size, before, kept(s->keep, s->count));
    *any |= same;
    from = end;
  }
  return TD_OK;
}

static td_status fewer_nodes(search *s) {
  TRY(truncate_suffix(s));
  TRY(eliminate_dead(s));
  for (size_t size = kept(s->keep, s->count) / 2; size; size /= 2) {
    bool any = false;
    TRY(drop_windows(s, size, &any));
    if (any && size == 1) size = 2; /* once more, node by node */
  }
  return eliminate_dead(s);
}

/* ---- simpler ones ---- */

static td_status try_change(search *s, const td_cut *cut, const char *what, bool *same) {
  const size_t before = kept(s->keep, s->count);
  TRY(try_cut(s, cut, s->keep, same));
  if (*same) say(s, what, 1, before, kept(s->keep, s->count));
  return TD_OK;
}

/* All sizes become the numbers they had. */
static td_status fix_sizes(search *s) {
  td_cut cut = s->cut;
  bool same;
  cut.inputs = s->base.values;
  cut.input_count = s->base.value_count;
  return try_change(s, &cut, "sizes to numbers", &same);
}

/* ---- rounds ---- */

static td_status begin(search *s, uint32_t graph) {
  s->cut = (td_cut){.size = sizeof(td_cut)};
  s->base = (td_minify_graph){.size = sizeof s->base};
  if (s->m->output) snprintf(s->output, sizeof s->output, "%s", s->m->output);
  TRY(s->m->open(s->m->user, graph, &s->base, s->err));
  s->count = s->base.node_count;
  s->keep = base_new(s->arena, uint8_t, s->count + 1);
  if (!s->keep) return base_no_memory(s->err, "nodes");
  memset(s->keep, 1, s->count);
  return TD_OK;
}

typedef td_status (*strategy)(search *s);

/* Rounds on one model. */
typedef struct rounds {
  td_minification *m;
  base_arena *arena;
  uint32_t graphs; /* that were settled */
  td_error *err;
} rounds;

/* One strategy on graph `*id`, which becomes the smallest candidate. `any` (may be NULL): did a size shrink? */
static td_status apply(rounds *r, strategy run, uint32_t *id, bool *any) {
  search s = {.m = r->m, .arena = r->arena, .err = r->err};
  TRY(begin(&s, *id));
  TRY(run(&s));
  td_cut cut = s.cut;
  cut.keep = s.keep;
  cut.keep_count = s.count;
  TRY(r->m->settle(r->m->user, &cut, ++r->graphs, r->err));
  *id = r->graphs;
  r->m->nodes = kept(s.keep, s.count);
  if (any) *any = s.cut.size_from != 0;
  return TD_OK;
}

static td_status free_constants(search *s) {
  td_cut cut = s->cut;
  bool same;
  cut.free_constants = 1;
  return try_change(s, &cut, "constants to inputs", &same);
}

static td_status bind_defaults(search *s) {
  td_cut cut = s->cut;
  bool same;
  cut.free_constants = -1;
  return try_change(s, &cut, "inputs to constants", &same);
}

static td_status simplify_types(search *s) {
  static const td_dtype wide[] = {TD_F64, TD_F16, TD_BF16};
  for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
    td_cut cut = s->cut;
    bool same, used = false;
    for (size_t k = 0; k < s->base.value_count; k++) used |= s->base.values[k].dtype == wide[i];
    cut.dtype_from = wide[i];
    cut.dtype_to = TD_F32;
    if (used) TRY(try_change(s, &cut, "simpler types", &same));
    if (used && same) return TD_OK; /* one a round */
  }
  return TD_OK;
}

/* One size of an input, made as small as it can be; none: nothing was done. */
static td_status shrink_one(search *s) {
  for (size_t i = 0; i < s->base.input_count; i++)
    for (int32_t d = 0; d < s->base.inputs[i].rank; d++) {
      const int64_t size = s->base.inputs[i].dims[d], to[SMALL_SIZES] = {1, 2, size / 8, size / 2};
      for (int k = 0; k < SMALL_SIZES; k++) {
        td_cut cut = s->cut;
        bool same = false;
        if (to[k] < 1 || to[k] >= size) continue;
        cut.size_from = size;
        cut.size_to = to[k];
        TRY(try_change(s, &cut, "smaller sizes", &same));
        if (same) return TD_OK;
      }
    }
  return TD_OK;
}

/* Sizes become smaller, one after the other. *any: some did. */
static td_status shrink(rounds *r, uint32_t *id, bool *any) {
  enum { MOST_SIZES = 40 };
  *any = false;
  for (int i = 0; i < MOST_SIZES; i++) {
    uint32_t smaller = *id;
    bool shrank;
    TRY(apply(r, shrink_one, &smaller, &shrank));
    if (!shrank) return TD_OK;
    *id = smaller;
    *any = true;
  }
  return TD_OK;
}

td_status debug_minify(td_minification *m, base_arena *arena, td_error *err) {
  rounds r = {.m = m, .arena = arena, .err = err};
  uint32_t id = 0;
  bool any;
  TRY(apply(&r, fix_sizes, &id, NULL));
  TRY(apply(&r, fewer_nodes, &id, NULL));
  TRY(apply(&r, simplify_types, &id, NULL));
  uint32_t freed = id;
  TRY(apply(&r, free_constants, &freed, NULL));
  TRY(shrink(&r, &freed, &any));
  if (any) {
    TRY(apply(&r, bind_defaults, &freed, NULL)); /* the smaller ones come back */
    id = freed;                                  /* else constants stay what they were */
  }
  m->graph = id;
  return TD_OK;
}
