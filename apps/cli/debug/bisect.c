/* bisect.c -- `treadle bisect`: which pass, and which kernel, makes a model's outputs wrong. td_bisect searches; here
 * the model is run as it says, in processes of their own. */
#include <stdlib.h>
#include <string.h>

#include "common/known.h"
#include "common/isolate.h"
#include "chain.h"
#include "cli/faults.h"
#include "common/measure.h"
#include "runner.h"

#include <treadle/experimental.h>

typedef struct bisection {
  cli_args *args;
  cli_way way; /* that differs */
  app_feed feed;
  cli_tolerance tolerance;
  cli_trial expected;
  td_results expect; /* it */
  cli_runner runner;
  td_comparison *comparison; /* of the way as it is: its runs by which rounding is judged are those of all others */
  unsigned limit_s;          /* of one run */
  bool prepared;
} bisection;

/* ---- one try ---- */

typedef struct attempt {
  bisection *b;
  cli_way way;
} attempt;

static void try_way(void *user, void *result) {
  const attempt *a = user;
  bisection *b = a->b;
  int32_t *differs = result;
  app_feed feed = b->feed;
  cli_trial got;
  td_results have;
  td_error err;
  *differs = 1;
  b->runner.ways[TD_SIDE_JUDGED] = a->way;
  if (cli_trial_run(b->args, &a->way, &feed, &got, &err) != TD_OK) return;
  if (cli_results_of(b->args, &got, &have, &err) != TD_OK ||
      td_comparison_outputs(b->comparison, &have, &b->expect, NULL, NULL, NULL, differs, &err) != TD_OK)
    *differs = 1;
  cli_trial_close(&got);
  td_comparison_free(b->comparison); /* the process ends: its leaks would be reported */
}

/* Are the outputs other ones with these passes and kernels disabled? A model that does not load or run that way,
 * crashes or does not end, differs, too. */
static td_status differs_without(void *user, const char *passes, const char *kernels, int32_t *differs, td_error *err) {
  bisection *b = user;
  attempt a = {b, b->way};
  app_end end;
  a.way.disabled_passes = passes;
  a.way.disabled_kernels = kernels;
  *differs = 1;
  if (app_run_isolated(try_way, &a, differs, sizeof *differs, b->limit_s, &end, err) != TD_OK || !end.done)
    *differs = 1;
  if (!*differs || b->prepared) return TD_OK;
  b->prepared = true; /* here: every run after this one, in its own process, has it */
  return td_comparison_prepare(b->comparison, err);
}

/* ---- kernels ---- */

static bool known(const app_name_vec *names, const char *name) {
  for (uint32_t i = 0; i < names->count; i++)
    if (strcmp(names->at[i], name) == 0) return true;
  return false;
}

/* The kernels of the plan; of a model that has none because it does not load, all there are. */
static td_status list_kernels(bisection *b, app_name_vec *kernels, td_error *err) {
  cli_trial t;
  td_model_stats stats = {.size = sizeof stats};
  if (cli_trial_open(b->args, &b->way, &t, err) != TD_OK)
    return app_known_names(b->args->arena, "kernels", kernels, err);
  td_status status = td_model_get_stats(t.model, &stats, err);
  for (uint32_t i = 0; status == TD_OK && i < stats.steps; i++) {
    td_step step = {.size = sizeof step};
    status = td_session_get_step(t.session, i, &step, err);
    if (status != TD_OK || !*step.kernel || strcmp(step.kernel, step.op) == 0 || known(kernels, step.kernel)) continue;
    const char **to = base_vec_push(b->args->arena, kernels);
    char *copy = to ? base_arena_text(b->args->arena, step.kernel) : NULL;
    if (copy) *to = copy;
    else status = base_no_memory(err, "the names of kernels");
  }
  cli_trial_close(&t);
  return status;
}

/* The names, separated by commas; NULL: out of memory. */
static const char *joined(base_arena *arena, const app_name_vec *names) {
  const char *all = "";
  for (uint32_t i = 0; all && i < names->count; i++)
    all = *all ? base_arena_format(arena, "%s,%s", all, names->at[i]) : names->at[i];
  return all;
}

/* ---- the command ---- */

/* What it is, and a command that shows it. */
static void print_answer(const bisection *b, const char *what, const char *names, const char *option) {
  const char *backend = cli_value(b->args, "backend"), *before = cli_value(b->args, option);
  printf("%s %s: without it the outputs agree\n  treadle compare", what, names);
  app_print_word(b->args->operands[0], stdout);
  if (backend) printf(" --backends eager,%s", backend);
  cli_print_given(b->args, (const char *const[]){"json", "backend", "time-limit", option, NULL}, stdout);
  printf(" --%s %s%s%s\n", option, before ? before : "", before ? "," : "", names);
}

/* Where those kernels run in the model, as far as it loads. */
static void print_places(const bisection *b, const char *kernels) {
  enum { MOST = 3 };
  cli_trial t;
  td_error unused;
  if (cli_trial_open(b->args, &b->way, &t, &unused) != TD_OK) return;
  for (const char *at = kernels; *at;) {
    const size_t length = strcspn(at, ",");
    const char *kernel = base_arena_slice(b->args->arena, at, length);
    if (kernel) cli_print_chains(b->args->arena, t.model, t.session, kernel, NULL, MOST);
    at += length + (at[length] == ',');
  }
  cli_trial_close(&t);
}

static td_status report_json(const td_bisection *found, bool differs, td_error *err) {
  json_t *root = json_object();
  app_json_set(root, "differs", json_boolean(differs));
  app_json_set(root, "pass", *found->pass ? app_json_text(found->pass) : json_null());
  app_json_set(root, "kernels", *found->culprits ? app_json_text(found->culprits) : json_null());
  app_json_set(root, "trials", json_integer(found->trials));
  return app_print_json(root, APP_JSON, err);
}

/* `differs`: do the outputs at all? */
static td_status report(const bisection *b, const td_bisection *found, bool differs, td_error *err) {
  if (cli_flag(b->args, "json")) return report_json(found, differs, err);
  if (!differs) {
    printf("nothing to look for: the outputs agree with eager's; --rtol and --atol say how closely\n");
    return TD_OK;
  }
  if (*found->pass) print_answer(b, "pass", found->pass, "disable-passes");
  if (*found->culprits) print_answer(b, "kernel", found->culprits, "disable-kernels");
  if (*found->culprits) print_places(b, found->culprits);
  if (!*found->pass && !*found->culprits)
    printf(
        "neither a pass nor a kernel by itself: the outputs differ with all of them disabled; `treadle compare "
        "--backends eager,aot_eager` shows whether the references differ\n");
  printf("%u runs were made\n", found->trials);
  return TD_OK;
}

static td_status search(bisection *b, td_error *err) {
  base_arena *arena = b->args->arena;
  app_name_vec passes = {0}, kernels = {0};
  TRY(app_known_names(arena, "passes", &passes, err));
  TRY(list_kernels(b, &kernels, err));
  td_bisection search = {.size = sizeof search,
                         .user = b,
                         .differs = differs_without,
                         .disabled_passes = b->way.disabled_passes,
                         .disabled_kernels = b->way.disabled_kernels,
                         .passes = joined(arena, &passes),
                         .kernels = joined(arena, &kernels)};
  if (!search.passes || !search.kernels) return base_no_memory(err, "names");
  search.pass = base_arena_text(arena, search.passes);
  search.culprits = base_arena_text(arena, search.kernels);
  if (!search.pass || !search.culprits) return base_no_memory(err, "names");
  const td_status status = td_bisect(&search, err);
  if (status != TD_OK && status != TD_ANSWER_NO) return status;
  TRY(report(b, &search, status == TD_OK, err));
  return status == TD_OK ? TD_ANSWER_NO : TD_OK;
}

static td_status bisect(bisection *b, td_error *err) {
  const cli_way truth = {.backend = "eager"};
  TRY(cli_tolerance_asked(b->args, &b->tolerance, err));
  b->way = cli_way_asked(b->args);
  b->way.backend = cli_value(b->args, "backend");
  const double start = app_now_ms();
  TRY(cli_trial_run(b->args, &truth, &b->feed, &b->expected, err));
  int64_t limit = (int64_t)((app_now_ms() - start) / 50) + 10; /* twenty times as long, and some more */
  td_status status = cli_int(b->args, "time-limit", 1, 86400, &limit, err);
  b->limit_s = (unsigned)limit;
  b->runner = (cli_runner){.args = b->args, .feed = &b->feed, .ways = {[TD_SIDE_EXPECTED] = truth}};
  if (status == TD_OK) status = cli_results_of(b->args, &b->expected, &b->expect, err);
  if (status == TD_OK) status = cli_runner_compare(&b->runner, &b->tolerance, false, &b->comparison, err);
  if (status == TD_OK) status = search(b, err);
  td_comparison_free(b->comparison);
  cli_trial_close(&b->expected);
  return status;
}

td_status cli_run_bisect(cli_args *args, td_error *err) {
  bisection b = {.args = args};
  return bisect(&b, err);
}
