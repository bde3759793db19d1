/* bisect.c -- `treadle bisect`: which pass, and which kernel, makes a model's outputs wrong.
 *
 * Passes run one after the other: the fault is that of the first one with which the outputs part while all before it
 * run, and none behind it. Kernels do not depend on one another: the names in use are halved as long as one half is
 * enough to part, and what is left is tried one by one. */
#include <stdlib.h>
#include <string.h>

#include "alone.h"
#include "apart.h"
#include "chain.h"
#include "faults.h"
#include "measure.h"

#include <treadle/experimental.h>

typedef struct bisection {
  cli_args *args;
  cli_way way; /* that parts */
  cli_feed feed;
  cli_tolerance tolerance;
  cli_trial expected;
  cli_arbiter arbiter;
  unsigned limit_s; /* of one run */
  uint32_t trials;
} bisection;

/* ---- one try ---- */

typedef struct attempt {
  bisection *b;
  const cli_way *way;
} attempt;

static void try_way(void *user, void *result) {
  const attempt *a = user;
  bisection *b = a->b;
  bool *parted = result;
  cli_trial got;
  td_error err;
  *parted = true;
  if (cli_trial_run(b->args, a->way, &b->feed, &got, &err) != TD_OK) return;
  *parted = got.count != b->expected.count;
  cli_nodes nodes = {.args = b->args, .feed = &b->feed, .tolerance = &b->tolerance, .way = *a->way};
  bool rounding;
  for (size_t i = 0; !*parted && i < got.count; i++) {
    const cli_metrics m = cli_trial_difference(&got, &b->expected, i, &b->tolerance);
    *parted = cli_output_parts(&nodes, &b->arbiter, &m, &got, &b->expected, i, &rounding);
  }
  cli_nodes_close(&nodes);
  cli_trial_close(&got);
}

/* Do the outputs part that way? A model that does not load or run that way, crashes or does not end, parts, too. */
static bool parts(bisection *b, const cli_way *way) {
  attempt a = {b, way};
  bool parted = true;
  cli_end end;
  td_error unused;
  b->trials++;
  return cli_run_apart(try_way, &a, &parted, sizeof parted, b->limit_s, &end, &unused) != TD_OK || !end.done || parted;
}

/* `first`, which may be NULL, and names [from, to) of the list, separated by commas. */
static const char *joined(base_arena *arena, const char *first, const cli_name_vec *names, uint32_t from, uint32_t to) {
  const char *all = first ? first : "";
  for (uint32_t i = from; all && i < to; i++)
    all = *all ? base_arena_format(arena, "%s,%s", all, names->at[i]) : names->at[i];
  return all;
}

/* ---- passes ---- */

/* The first pass with which outputs part; passes->count: they part without any. */
static td_status find_pass(bisection *b, const cli_name_vec *passes, uint32_t *found, td_error *err) {
  uint32_t low = 0, high = passes->count; /* with the first `low` passes they agree, with `high` they part */
  cli_way way = b->way;
  way.disabled_passes = joined(b->args->arena, b->way.disabled_passes, passes, 0, passes->count);
  if (!way.disabled_passes) return base_no_memory(err, "names");
  *found = passes->count;
  if (parts(b, &way)) return TD_OK;
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    way.disabled_passes = joined(b->args->arena, b->way.disabled_passes, passes, middle, passes->count);
    if (!way.disabled_passes) return base_no_memory(err, "names");
    *(parts(b, &way) ? &high : &low) = middle;
  }
  *found = low;
  return TD_OK;
}

/* ---- kernels ---- */

static bool known(const cli_name_vec *names, const char *name) {
  for (uint32_t i = 0; i < names->count; i++)
    if (strcmp(names->at[i], name) == 0) return true;
  return false;
}

/* The kernels of the plan; of a model that has none because it does not load, all there are. */
static td_status list_kernels(bisection *b, cli_name_vec *kernels, td_error *err) {
  cli_trial t;
  td_model_stats stats = {.size = sizeof stats};
  if (cli_trial_open(b->args, &b->way, &t, err) != TD_OK)
    return cli_known_names(b->args->arena, "kernels", kernels, err);
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

/* Of kernels [0, count) of the list those that part when no other of them runs: halves, as long as one is enough. */
static td_status find_kernels(bisection *b, const cli_name_vec *all, cli_name_vec *found, td_error *err) {
  base_arena *arena = b->args->arena;
  uint32_t from = 0, to = all->count;
  cli_way way = b->way;
  while (to - from > 1) {
    const uint32_t middle = from + (to - from) / 2;
    const uint32_t halves[2][2] = {{from, middle}, {middle, to}};
    bool narrowed = false;
    for (int h = 0; h < 2 && !narrowed; h++) {
      const char *front = joined(arena, b->way.disabled_kernels, all, 0, halves[h][0]);
      way.disabled_kernels = front ? joined(arena, front, all, halves[h][1], all->count) : NULL;
      if (!way.disabled_kernels) return base_no_memory(err, "names");
      narrowed = parts(b, &way);
      if (narrowed) from = halves[h][0], to = halves[h][1];
    }
    if (!narrowed) break;
  }
  for (uint32_t i = from; i < to; i++) {
    const char **name = base_vec_push(arena, found);
    if (!name) return base_no_memory(err, "names");
    *name = all->at[i];
  }
  return TD_OK;
}

/* Does the model agree when just these kernels are left out? */
static td_status kernels_are_it(bisection *b, const cli_name_vec *all, cli_name_vec *found, bool *are, td_error *err) {
  cli_way way = b->way;
  way.disabled_kernels = joined(b->args->arena, b->way.disabled_kernels, all, 0, all->count);
  if (!way.disabled_kernels) return base_no_memory(err, "names");
  *are = all->count > 0 && !parts(b, &way);
  return *are ? find_kernels(b, all, found, err) : TD_OK;
}

/* ---- the command ---- */

/* What it is, and a command that shows it. */
static void print_answer(const bisection *b, const char *what, const char *names, const char *option) {
  const char *backend = cli_value(b->args, "backend"), *before = cli_value(b->args, option);
  printf("%s %s: without it the outputs agree\n  treadle compare", what, names);
  cli_print_word(b->args->operands[0], stdout);
  if (backend) printf(" --backends eager,%s", backend);
  cli_print_given(b->args, (const char *const[]){"json", "backend", "time-limit", option, NULL}, stdout);
  printf(" --%s %s%s%s\n", option, before ? before : "", before ? "," : "", names);
}

/* Where those kernels run in the model, as far as it loads. */
static void print_places(const bisection *b, const cli_name_vec *kernels) {
  enum { MOST = 3 };
  cli_trial t;
  td_error unused;
  if (cli_trial_open(b->args, &b->way, &t, &unused) != TD_OK) return;
  for (uint32_t i = 0; i < kernels->count; i++)
    cli_print_chains(b->args->arena, t.model, t.session, kernels->at[i], NULL, MOST);
  cli_trial_close(&t);
}

/* `parted`: do the outputs part at all? */
static td_status report(const bisection *b, bool parted, const char *pass, const cli_name_vec *kernels, td_error *err) {
  base_arena *arena = b->args->arena;
  const char *names = joined(arena, NULL, kernels, 0, kernels->count);
  if (!names) return base_no_memory(err, "names");
  if (cli_flag(b->args, "json")) {
    json_t *root = json_object();
    cli_json_set(root, "differs", json_boolean(parted));
    cli_json_set(root, "pass", pass ? cli_json_text(pass) : json_null());
    cli_json_set(root, "kernels", *names ? cli_json_text(names) : json_null());
    cli_json_set(root, "trials", json_integer(b->trials));
    return cli_print_json(root, err);
  }
  if (!parted) {
    printf("nothing to look for: the outputs agree with eager's; --rtol and --atol say how closely\n");
    return TD_OK;
  }
  if (pass) print_answer(b, "pass", pass, "disable-passes");
  if (*names) print_answer(b, "kernel", names, "disable-kernels");
  if (*names) print_places(b, kernels);
  if (!pass && !*names)
    printf(
        "neither a pass nor a kernel by itself: the outputs differ with all of them disabled; `treadle compare "
        "--backends eager,aot_eager` shows whether the references differ\n");
  printf("%u runs were made\n", b->trials);
  return TD_OK;
}

static td_status search(bisection *b, td_error *err) {
  cli_name_vec passes = {0}, kernels = {0}, found = {0};
  uint32_t pass = 0;
  bool in_kernels;
  TRY(cli_known_names(b->args->arena, "passes", &passes, err));
  TRY(find_pass(b, &passes, &pass, err));
  TRY(list_kernels(b, &kernels, err));
  TRY(kernels_are_it(b, &kernels, &found, &in_kernels, err));
  TRY(report(b, true, pass < passes.count ? passes.at[pass] : NULL, &found, err));
  return TD_ANSWER_NO;
}

static td_status bisect(bisection *b, td_error *err) {
  const cli_way truth = {.backend = "eager"};
  TRY(cli_tolerance_asked(b->args, &b->tolerance, err));
  b->way = cli_way_asked(b->args);
  b->way.backend = cli_value(b->args, "backend");
  b->arbiter = (cli_arbiter){.args = b->args, .feed = &b->feed, .truth = truth, .tolerance = &b->tolerance};
  const double start = cli_now_ms();
  TRY(cli_trial_run(b->args, &truth, &b->feed, &b->expected, err));
  int64_t limit = (int64_t)((cli_now_ms() - start) / 50) + 10; /* twenty times as long, and some more */
  TRY(cli_int(b->args, "time-limit", 1, 86400, &limit, err));
  b->limit_s = (unsigned)limit;
  td_status status = TD_OK;
  if (parts(b, &b->way)) {
    cli_arbiter_prepare(&b->arbiter); /* here: every run after this one, in its own process, has it */
    status = search(b, err);
  } else status = report(b, false, NULL, &(cli_name_vec){0}, err);
  cli_arbiter_close(&b->arbiter);
  cli_trial_close(&b->expected);
  return status;
}

td_status cli_run_bisect(cli_args *args, td_error *err) {
  bisection b = {.args = args};
  return bisect(&b, err);
}
