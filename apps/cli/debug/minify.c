/* minify.c -- `treadle minify`: the smallest model that still fails the same way.
 *
 * The imported graph is run once on eager, which has to be able to, and every node's result is kept. Candidates are
 * parts of the graph; what they read and do not make has the value it had then. */
#include <string.h>
#include <unistd.h>

#include "bundle.h"
#include "common/kept.h"
#include "cli/engine.h"
#include "cli/faults.h"
#include "graph_file.h"
#include "common/measure.h"
#include "minify.h"

static td_status add_value(minify *m, minify_model *model, const char *name, const base_value *value, td_error *err) {
  base_arena *arena = m->args->arena;
  app_named *to = base_vec_push(arena, &model->values);
  if (to) *to = (app_named){.name = base_arena_text(arena, name), .value = *value};
  if (!to || !to->name) return base_no_memory(err, "a value");
  if (value->kind != BASE_TENSOR) return TD_OK;
  const base_tensor *t = &value->tensor;
  void *data = base_arena_alloc_aligned(arena, base_tensor_bytes(t) + 1, 64);
  if (!data) return base_no_memory(err, "a value");
  base_tensor_pack(data, t);
  to->value.tensor = base_tensor_of(data, t->dtype, t->rank, t->dims);
  return TD_OK;
}

/* Inputs, and results of all nodes, as eager has them. */
static td_status record(minify *m, minify_model *model, td_error *err) {
  const cli_way way = {.backend = "eager", .taps = "*"};
  app_feed feed = {0};
  cli_trial t;
  cli_args args = *m->args;
  const double start = app_now_ms();
  TRY(cli_trial_run(&args, &way, &feed, &t, err));
  td_status status = TD_OK;
  for (size_t i = 0; status == TD_OK && i < feed.count; i++)
    if (feed.given[i]) status = add_value(m, model, feed.infos[i].name, &feed.values[i], err);
  for (size_t i = 0; status == TD_OK && i < t.count; i++) status = add_value(m, model, t.names[i], &t.values[i], err);
  cli_trial_close(&t);
  const int64_t seconds = (int64_t)((app_now_ms() - start) / 100) + 3; /* ten times as long, and some more */
  int64_t limit = seconds;
  TRY(cli_int(m->args, "time-limit", 1, 86400, &limit, err));
  m->limit_s = (unsigned)limit;
  m->per_s = cli_value(m->args, "time-limit") ? 0 : 50;
  return status;
}

static td_status make_folder(minify *m, td_error *err) {
  base_arena *arena = m->args->arena;
  const char *asked = cli_value(m->args, "output");
  m->folder = asked ? asked : "minified";
  char *work = base_arena_format(arena, "%s/work/", m->folder);
  m->candidate = base_arena_format(arena, "%s/work/candidate.tdir", m->folder);
  if (!work || !m->candidate) return base_no_memory(err, "a path");
  app_make_folders(work);
  return TD_OK;
}

/* The whole model as a file that candidates are parts of. */
static td_status save_first(minify *m, minify_model *model, td_error *err) {
  cli_args args = *m->args;
  td_load_options options;
  td_model *loaded = NULL;
  TRY(cli_load_options(&args, &options, err));
  options.backend = "eager";
  options.inject = NULL;
  TRY(td_model_load(args.operands[0], &options, &loaded, err));
  model->path = base_arena_format(m->args->arena, "%s/work/base0.tdir", m->folder);
  td_model_stats stats = {.size = sizeof stats};
  if (td_model_get_stats(loaded, &stats, err) == TD_OK) m->nodes = stats.nodes;
  const td_status status = model->path ? cli_save_graph(loaded, "imported", NULL, model->path, m->args->arena, err)
                                       : base_no_memory(err, "a path");
  td_model_free(loaded);
  return status;
}

static td_status check_failure(minify *m, const minify_model *model, td_error *err) {
  char text[1024];
  TRY(minify_judge(m, model, &m->wanted, err));
  const minify_kind kind = m->wanted.kind;
  minify_describe(&m->wanted, text, sizeof text);
  if (kind == MINIFY_INVALID || kind == MINIFY_PASSES)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "the model %s: there is nothing to look for%s", text,
                     kind != MINIFY_PASSES ? ""
                     : m->script           ? "; SCRIPT must fail for it, by its exit status"
                                           : "; --rtol and --atol say how close outputs must be");
  if (m->accuracy && !m->wanted.output[0])
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "with --accuracy outputs must be wrong, but the model %s", text);
  if (m->crash && m->wanted.output[0])
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "with --crash the model must not get to its end, but it %s", text);
  fprintf(m->tell, "the model %s\n", text);
  return TD_OK;
}

/* Compiling candidates takes most of the time: is it needed for the model to fail as it does? */
static td_status try_interpreted(minify *m, const minify_model *model, td_error *err) {
  const char *backend = cli_value(m->args, "backend");
  minify_verdict verdict;
  if (m->script || cli_value(m->args, "cc") || (backend && strcmp(backend, "native") != 0)) return TD_OK;
  m->interpreted = true;
  TRY(minify_judge(m, model, &verdict, err));
  m->interpreted = minify_same_way(&verdict, &m->wanted);
  return TD_OK;
}

/* The smallest model. Where it was searched for without generated code and does not fail with it, with it. */
static td_status find_smallest(minify *m, minify_model *model, size_t *nodes, td_error *err) {
  const minify_model whole = *model;
  minify_verdict verdict;
  TRY(try_interpreted(m, model, err));
  TRY(minify_search(m, model, nodes, err));
  if (!m->interpreted) return TD_OK;
  m->interpreted = false;
  TRY(minify_judge(m, model, &verdict, err));
  if (minify_same_way(&verdict, &m->wanted)) return TD_OK;
  *model = whole;
  return minify_search(m, model, nodes, err);
}

static void remove_graph(const minify *m, const char *path) {
  const char *weights = path ? base_arena_format(m->args->arena, "%s.weights", path) : NULL;
  if (!weights) return;
  unlink(path);
  unlink(weights);
}

static void remove_work(const minify *m) {
  base_arena *arena = m->args->arena;
  const char *work = base_arena_format(arena, "%s/work", m->folder);
  for (uint32_t i = 0; i <= m->step; i++)
    remove_graph(m, base_arena_format(arena, "%s/work/base%u.tdir", m->folder, i));
  remove_graph(m, m->candidate);
  if (work && rmdir(work) != 0) app_note("%s is left", work);
}

static td_status report(const minify *m, size_t nodes, double seconds, td_error *err) {
  if (!cli_flag(m->args, "json")) {
    printf("%zu node%s left; %u candidates were run, %u seen before, %u failed in another way; %.1f s\n%s/README.md\n",
           nodes, nodes == 1 ? " is" : "s are", m->judged, m->known, m->otherwise, seconds, m->folder);
    return TD_OK;
  }
  char text[1024];
  json_t *root = json_object();
  app_json_set(root, "failure", app_json_text(minify_describe(&m->wanted, text, sizeof text)));
  app_json_set(root, "folder", app_json_text(m->folder));
  app_json_set(root, "nodes", json_integer((json_int_t)nodes));
  app_json_set(root, "run", json_integer(m->judged));
  app_json_set(root, "seen_before", json_integer(m->known));
  app_json_set(root, "failed_otherwise", json_integer(m->otherwise));
  app_json_set(root, "seconds", app_json_real(seconds));
  return app_print_json(root, APP_JSON, err);
}

td_status cli_run_minify(cli_args *args, td_error *err) {
  minify *m = base_new(args->arena, minify, 1);
  minify_model model = {0};
  size_t nodes = 0;
  if (!m) return base_no_memory(err, "a search");
  *m = (minify){.args = args,
                .script = cli_value(args, "cmd"),
                .tell = cli_flag(args, "json") ? stderr : stdout,
                .crash = cli_flag(args, "crash"),
                .accuracy = cli_flag(args, "accuracy")};
  const double start = app_now_ms();
  TRY(cli_bundle_args(args, &m->quiet, err));
  TRY(cli_tolerance_asked(args, &m->tolerance, err));
  TRY(make_folder(m, err));
  TRY(record(m, &model, err));
  TRY(save_first(m, &model, err));
  TRY(check_failure(m, &model, err));
  TRY(find_smallest(m, &model, &nodes, err));
  TRY(minify_write_result(m, &model, nodes, err));
  remove_work(m);
  return report(m, nodes, (app_now_ms() - start) * 1e-3, err);
}
