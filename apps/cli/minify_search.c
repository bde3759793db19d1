/* minify_search.c -- the smallest part of a graph that still fails the same way.
 *
 * A candidate is a set of nodes of the graph the round began with, and what becomes of sizes and types: what the nodes
 * read and no node of the set makes is an input with the value that the reference gave it. So every set is a candidate,
 * and delta debugging (Zeller, Hildebrandt 2002) needs no luck to find one that runs. */
#include <string.h>

#include "base/digest.h"
#include "graph_file.h"
#include "minify.h"
#include "sys/sys.h"

enum { MOST_SEEN = 4096, SMALL_SIZES = 4 };

typedef struct search {
  minify *m;
  const minify_model *base; /* what candidates are parts of */
  td_model *loaded;         /* it */
  td_cut cut;               /* of the smallest candidate so far */
  uint8_t *keep;            /* its nodes */
  size_t count;             /* nodes of the base */
  minify_verdict verdict;   /* its */
  struct {
    uint8_t digest[BASE_DIGEST_BYTES];
    bool same;
  } seen[MOST_SEEN];
  uint32_t seen_count;
  td_error *err;
} search;

static size_t kept(const uint8_t *keep, size_t count) {
  size_t n = 0;
  for (size_t i = 0; i < count; i++) n += keep[i] != 0;
  return n;
}

static void say(const search *s, const char *strategy, size_t granularity, size_t before, size_t after) {
  char text[700];
  fprintf(s->m->tell, "%-24s granularity %-5zu %5zu -> %-5zu nodes  %s\n", strategy, granularity, before, after,
          minify_describe(&s->verdict, text, sizeof text));
  fflush(s->m->tell);
}

/* ---- one candidate ---- */

/* Was a file of this text judged before? NULL: there is no place for its answer. */
static bool *known_answer(search *s, const char *path, bool *fresh) {
  uint8_t digest[BASE_DIGEST_BYTES];
  sys_mapping file;
  td_error unused;
  *fresh = true;
  if (s->seen_count == MOST_SEEN || sys_file_map(path, &file, &unused) != TD_OK) return NULL;
  base_digest(file.bytes, file.size, digest);
  sys_unmap(&file);
  for (uint32_t i = 0; i < s->seen_count; i++)
    if (memcmp(s->seen[i].digest, digest, sizeof digest) == 0) return *fresh = false, &s->seen[i].same;
  memcpy(s->seen[s->seen_count].digest, digest, sizeof digest);
  return &s->seen[s->seen_count++].same;
}

/* Values as the cut has them: other sizes, other types. */
static td_status cut_values(search *s, const td_cut *cut, minify_model *to) {
  base_arena *arena = s->m->args->arena;
  if (!cut->size_from && !cut->dtype_from) return TD_OK;
  cli_named_vec from = to->values;
  to->values = (cli_named_vec){0};
  for (uint32_t i = 0; i < from.count; i++) {
    cli_named *made = base_vec_push(arena, &to->values);
    if (!made) return base_no_memory(s->err, "inputs");
    *made = from.at[i];
    if (made->value.kind != BASE_TENSOR) continue;
    base_tensor *t = &made->value.tensor, dense;
    for (int32_t d = 0; d < t->rank; d++)
      if (t->dims[d] == cut->size_from) t->dims[d] = cut->size_to;
    if (t->dtype == cut->dtype_from) {
      dense = base_tensor_of(NULL, cut->dtype_to, t->rank, t->dims);
      dense.data = base_arena_alloc_aligned(arena, base_tensor_bytes(&dense) + 1, 64);
      if (!dense.data) return base_no_memory(s->err, "inputs");
      base_walk w;
      const int64_t *strides[] = {t->strides};
      base_walk_start(&w, t->rank, t->dims, 1, strides);
      for (int64_t k = 0; k < w.count; k++, base_walk_next(&w))
        base_store_f64(dense.dtype, dense.data, k, base_load_f64(t->dtype, t->data, w.offset[0]));
      *t = dense;
    }
  }
  return TD_OK;
}

/* Does the part fail the same way? Then it is the smallest so far. */
static td_status try_cut(search *s, const td_cut *cut, const uint8_t *keep, bool *same) {
  minify *m = s->m;
  td_cut wished = *cut;
  minify_model part = {.path = m->candidate, .values = s->base->values};
  minify_verdict verdict;
  td_error refused;
  *same = false;
  wished.keep = base_arena_copy(m->args->arena, keep, s->count + 1);
  if (!wished.keep) return base_no_memory(s->err, "a candidate");
  wished.keep_count = s->count;
  if (cli_save_graph(s->loaded, "imported", &wished, part.path, m->args->arena, &refused) != TD_OK) return TD_OK;
  bool fresh, *answer = known_answer(s, part.path, &fresh);
  if (!fresh && !*answer) return m->known++, TD_OK;
  TRY(cut_values(s, &wished, &part));
  m->nodes = kept(wished.keep, s->count);
  TRY(minify_judge(m, &part, &verdict, s->err));
  *same = minify_same_way(&verdict, &m->wanted);
  if (answer) *answer = *same;
  m->otherwise += !*same && verdict.kind != MINIFY_PASSES && verdict.kind != MINIFY_INVALID;
  if (!*same) return TD_OK;
  s->verdict = verdict;
  s->cut = wished;
  memcpy(s->keep, wished.keep, s->count);
  return TD_OK;
}

/* ---- fewer nodes ---- */

/* The shortest beginning that fails: halves, as if what fails went on failing with more nodes behind it. */
static td_status truncate_suffix(search *s) {
  size_t low = 0, high = s->count; /* [0, high) fails */
  uint8_t *keep = base_new(s->m->args->arena, uint8_t, s->count + 1);
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
  if (!s->verdict.output[0] || cut.output) return TD_OK; /* a crash says none */
  cut.output = base_arena_text(s->m->args->arena, s->verdict.output);
  if (!cut.output) return base_no_memory(s->err, "a name");
  TRY(try_cut(s, &cut, s->keep, &same));
  if (same) say(s, "dead code elimination", before, before, kept(s->keep, s->count));
  s->cut.output = NULL; /* windows may take the output's own node */
  return TD_OK;
}

/* Windows of `size` nodes that stay, one after the other, without those. */
static td_status drop_windows(search *s, size_t size, bool *any) {
  uint8_t *keep = base_new(s->m->args->arena, uint8_t, s->count + 1);
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
  const cli_named_vec *values = &s->base->values;
  td_value_info *infos = base_new(s->m->args->arena, td_value_info, (size_t)values->count + 1);
  td_cut cut = s->cut;
  bool same;
  if (!infos) return base_no_memory(s->err, "inputs");
  for (uint32_t i = 0; i < values->count; i++) {
    const base_tensor *t = &values->at[i].value.tensor;
    if (values->at[i].value.kind != BASE_TENSOR) continue;
    td_value_info *info = &infos[cut.input_count++];
    *info = (td_value_info){.name = values->at[i].name, .kind = "tensor", .dtype = t->dtype, .rank = t->rank};
    memcpy(info->dims, t->dims, sizeof info->dims);
  }
  cut.inputs = infos;
  return try_change(s, &cut, "sizes to numbers", &same);
}

/* ---- rounds ---- */

static td_status begin(search *s, minify *m, const minify_model *base, td_error *err) {
  cli_args args = m->quiet;
  td_load_options options;
  s->m = m;
  s->base = base;
  s->err = err;
  s->verdict = m->wanted;
  s->cut = (td_cut){.size = sizeof(td_cut)};
  args.operands = (const char *[]){base->path};
  TRY(cli_load_options(&args, &options, err));
  options.backend = "eager";
  options.inject = NULL;
  TRY(td_model_load(base->path, &options, &s->loaded, err));
  td_cut whole = {.size = sizeof whole};
  TRY(cli_save_graph(s->loaded, "imported", &whole, m->candidate, m->args->arena, err));
  s->count = whole.node_count;
  s->keep = base_new(m->args->arena, uint8_t, s->count + 1);
  if (!s->keep) return base_no_memory(err, "nodes");
  memset(s->keep, 1, s->count);
  return TD_OK;
}

/* The smallest candidate becomes the model. */
static td_status settle(search *s, minify_model *to) {
  base_arena *arena = s->m->args->arena;
  minify_model made = {.path = base_arena_format(arena, "%s/work/base%u.tdir", s->m->folder, ++s->m->step),
                       .values = s->base->values};
  td_cut cut = s->cut;
  if (!made.path) return base_no_memory(s->err, "a path");
  cut.keep = s->keep;
  cut.keep_count = s->count;
  TRY(cli_save_graph(s->loaded, "imported", &cut, made.path, arena, s->err));
  TRY(cut_values(s, &cut, &made));
  *to = made;
  return TD_OK;
}

typedef td_status (*strategy)(search *s);

/* One strategy on `model`, which it may make smaller. */
static td_status apply(minify *m, minify_model *model, strategy run, size_t *nodes, td_error *err) {
  search *s = base_new(m->args->arena, search, 1);
  if (!s) return base_no_memory(err, "a search");
  const minify_model base = *model;
  td_status status = begin(s, m, &base, err);
  if (status == TD_OK) status = run(s);
  if (status == TD_OK) status = settle(s, model);
  if (s->keep) *nodes = kept(s->keep, s->count);
  td_model_free(s->loaded);
  return status;
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
    for (uint32_t k = 0; k < s->base->values.count; k++)
      used |= s->base->values.at[k].value.kind == BASE_TENSOR && s->base->values.at[k].value.tensor.dtype == wide[i];
    cut.dtype_from = wide[i];
    cut.dtype_to = TD_F32;
    if (used) TRY(try_change(s, &cut, "simpler types", &same));
    if (used && same) return TD_OK; /* one a round */
  }
  return TD_OK;
}

/* One size of an input, made as small as it can be; none: nothing was done. */
static td_status shrink_one(search *s) {
  cli_feed feed;
  TRY(minify_feed(s->m, s->base, &feed, s->err));
  for (size_t i = 0; i < feed.count; i++)
    for (int32_t d = 0; d < feed.infos[i].rank; d++) {
      const int64_t size = feed.infos[i].dims[d], to[SMALL_SIZES] = {1, 2, size / 8, size / 2};
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
static td_status shrink(minify *m, minify_model *model, size_t *nodes, bool *any, td_error *err) {
  enum { MOST_SIZES = 40 };
  *any = false;
  for (int i = 0; i < MOST_SIZES; i++) {
    minify_model smaller = *model;
    TRY(apply(m, &smaller, shrink_one, nodes, err));
    if (smaller.values.at == model->values.at) return TD_OK;
    *model = smaller;
    *any = true;
  }
  return TD_OK;
}

td_status minify_search(minify *m, minify_model *model, size_t *nodes, td_error *err) {
  TRY(apply(m, model, fix_sizes, nodes, err));
  TRY(apply(m, model, fewer_nodes, nodes, err));
  TRY(apply(m, model, simplify_types, nodes, err));
  minify_model freed = *model;
  TRY(apply(m, &freed, free_constants, nodes, err));
  bool any;
  TRY(shrink(m, &freed, nodes, &any, err));
  if (!any) return TD_OK; /* constants stay what they were */
  *model = freed;
  return apply(m, model, bind_defaults, nodes, err); /* the smaller ones come back */
}
