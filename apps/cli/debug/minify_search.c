/* minify_search.c -- what td_minify asks for: parts of graphs as files, judged in processes of their own. */
#include <string.h>

#include <treadle/debug.h>

#include "base/digest.h"
#include "cli/engine.h"
#include "graph_file.h"
#include "minify.h"
#include "sys/sys.h"

enum { MOST_SEEN = 4096 };

typedef struct candidates {
  minify *m;
  BASE_VEC(minify_model) graphs; /* by their id */
  minify_model base;             /* the one that candidates are parts of */
  td_model *loaded;              /* it; NULL: none is open */
  minify_verdict verdict;        /* of the smallest candidate so far */
  size_t count;                  /* nodes of the base */
  struct {
    uint8_t digest[BASE_DIGEST_BYTES];
    bool same;
  } seen[MOST_SEEN];
  uint32_t seen_count;
} candidates;

/* ---- one candidate ---- */

/* Was a file of this text judged before? NULL: there is no place for its answer. */
static bool *known_answer(candidates *s, const char *path, bool *fresh) {
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
static td_status cut_values(const minify *m, const td_cut *cut, minify_model *to, td_error *err) {
  base_arena *arena = m->args->arena;
  if (!cut->size_from && !cut->dtype_from) return TD_OK;
  app_named_vec from = to->values;
  to->values = (app_named_vec){0};
  for (uint32_t i = 0; i < from.count; i++) {
    app_named *made = base_vec_push(arena, &to->values);
    if (!made) return base_no_memory(err, "inputs");
    *made = from.at[i];
    if (made->value.kind != BASE_TENSOR) continue;
    td_tensor dense, smaller;
    TRY(app_dense_tensor(&from.at[i].value.tensor, arena, &dense, err));
    TRY(td_cut_value(cut, &dense, NULL, &smaller, err));
    base_tensor *t = &made->value.tensor;
    *t = base_tensor_of(NULL, smaller.dtype, smaller.rank, smaller.dims);
    t->data = base_arena_alloc_aligned(arena, base_tensor_bytes(t) + 1, 64);
    if (!t->data) return base_no_memory(err, "inputs");
    TRY(td_cut_value(cut, &dense, t->data, &smaller, err));
  }
  return TD_OK;
}

static size_t count_kept(const td_cut *cut, size_t count) {
  size_t n = 0;
  for (size_t i = 0; i < count; i++) n += !cut->keep || cut->keep[i] != 0;
  return n;
}

static td_status fails(void *user, td_cut *cut, int32_t *same, char *output, td_error *err) {
  candidates *s = user;
  minify *m = s->m;
  minify_model part = {.path = m->candidate, .values = s->base.values};
  minify_verdict verdict;
  td_error refused;
  bool fresh;
  *same = 0;
  if (cli_save_graph(s->loaded, "imported", cut, part.path, m->args->arena, &refused) != TD_OK) return TD_OK;
  bool *answer = known_answer(s, part.path, &fresh);
  if (!fresh && !*answer) return m->known++, TD_OK;
  TRY(cut_values(m, cut, &part, err));
  m->nodes = count_kept(cut, s->count);
  TRY(minify_judge(m, &part, &verdict, err));
  *same = minify_same_way(&verdict, &m->wanted);
  if (answer) *answer = *same != 0;
  m->otherwise += !*same && verdict.kind != MINIFY_PASSES && verdict.kind != MINIFY_INVALID;
  if (!*same) return TD_OK;
  s->verdict = verdict;
  memcpy(output, verdict.output, sizeof verdict.output);
  return TD_OK;
}

static void tell(void *user, const char *strategy, size_t granularity, size_t before, size_t after) {
  const candidates *s = user;
  char text[700];
  fprintf(s->m->tell, "%-24s granularity %-5zu %5zu -> %-5zu nodes  %s\n", strategy, granularity, before, after,
          minify_describe(&s->verdict, text, sizeof text));
  fflush(s->m->tell);
}

/* ---- rounds ---- */

/* What the search has to know of the graph that has been loaded. */
static td_status describe(candidates *s, td_minify_graph *graph, td_error *err) {
  base_arena *arena = s->m->args->arena;
  const app_named_vec *values = &s->base.values;
  const size_t inputs = td_model_input_count(s->loaded);
  td_value_info *of_inputs = base_new(arena, td_value_info, inputs + 1);
  td_value_info *of_values = base_new(arena, td_value_info, (size_t)values->count + 1);
  if (!of_inputs || !of_values) return base_no_memory(err, "inputs");
  for (size_t i = 0; i < inputs; i++) {
    of_inputs[i].size = sizeof of_inputs[i];
    TRY(td_model_input(s->loaded, i, &of_inputs[i], err));
  }
  for (uint32_t i = 0; i < values->count; i++) {
    const base_tensor *t = &values->at[i].value.tensor;
    if (values->at[i].value.kind != BASE_TENSOR) continue;
    td_value_info *info = &of_values[graph->value_count++];
    *info = (td_value_info){.name = values->at[i].name, .kind = "tensor", .dtype = t->dtype, .rank = t->rank};
    memcpy(info->dims, t->dims, sizeof info->dims);
  }
  graph->node_count = s->count;
  graph->inputs = of_inputs;
  graph->input_count = inputs;
  graph->values = of_values;
  return TD_OK;
}

static td_status open_graph(void *user, uint32_t id, td_minify_graph *graph, td_error *err) {
  candidates *s = user;
  cli_args args = s->m->quiet;
  td_load_options options;
  td_model_free(s->loaded);
  s->loaded = NULL;
  s->base = s->graphs.at[id];
  s->seen_count = 0;
  s->verdict = s->m->wanted;
  args.operands = (const char *[]){s->base.path};
  TRY(cli_load_options(&args, &options, err));
  options.backend = "eager";
  options.inject = NULL;
  TRY(td_model_load(s->base.path, &options, &s->loaded, err));
  td_cut whole = {.size = sizeof whole};
  TRY(cli_save_graph(s->loaded, "imported", &whole, s->m->candidate, s->m->args->arena, err));
  s->count = whole.node_count;
  return describe(s, graph, err);
}

static td_status settle(void *user, td_cut *cut, uint32_t id, td_error *err) {
  candidates *s = user;
  base_arena *arena = s->m->args->arena;
  minify_model made = {.path = base_arena_format(arena, "%s/work/base%u.tdir", s->m->folder, id),
                       .values = s->base.values};
  if (!made.path) return base_no_memory(err, "a path");
  if (id > s->m->step) s->m->step = id;
  TRY(cli_save_graph(s->loaded, "imported", cut, made.path, arena, err));
  TRY(cut_values(s->m, cut, &made, err));
  minify_model *to = base_vec_push(arena, &s->graphs);
  if (!to) return base_no_memory(err, "graphs");
  *to = made;
  return TD_OK;
}

td_status minify_search(minify *m, minify_model *model, size_t *nodes, td_error *err) {
  candidates *s = base_new(m->args->arena, candidates, 1);
  minify_model *whole = s ? base_vec_push(m->args->arena, &s->graphs) : NULL;
  if (!whole) return base_no_memory(err, "a search");
  s->m = m;
  *whole = *model;
  td_minification search = {.size = sizeof search,
                            .user = s,
                            .open = open_graph,
                            .fails = fails,
                            .settle = settle,
                            .tell = tell,
                            .output = m->wanted.output};
  const td_status status = td_minify(&search, err);
  td_model_free(s->loaded);
  if (status == TD_OK) *model = s->graphs.at[search.graph];
  *nodes = search.nodes;
  return status;
}
