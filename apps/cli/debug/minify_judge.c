/* minify_judge.c -- how a candidate fails. It is run in a process of its own, first on the reference: what the
 * reference does not run is no model. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/engine.h"
#include "common/isolate.h"
#include "bundle.h"
#include "minify.h"
#include "runner.h"

/* ---- inputs ---- */

static const app_named *find_value(const minify_model *model, const char *name) {
  for (uint32_t i = 0; i < model->values.count; i++)
    if (strcmp(model->values.at[i].name, name) == 0) return &model->values.at[i];
  return NULL;
}

static td_status feed_of(minify *m, const td_model *loaded, const minify_model *model, app_feed *feed, td_error *err) {
  base_arena *arena = m->args->arena;
  const size_t count = td_model_input_count(loaded);
  *feed = (app_feed){.count = count,
                     .infos = base_new(arena, td_value_info, count + 1),
                     .values = base_new(arena, base_value, count + 1),
                     .given = base_new(arena, bool, count + 1)};
  if (!feed->infos || !feed->values || !feed->given) return base_no_memory(err, "inputs");
  for (size_t i = 0; i < count; i++) {
    td_value_info *info = &feed->infos[i];
    info->size = sizeof *info;
    TRY(td_model_input(loaded, i, info, err));
    info->name = base_arena_text(arena, info->name);
    if (!info->name) return base_no_memory(err, "inputs");
    const app_named *found = find_value(model, info->name);
    feed->given[i] = found && !info->has_default;
    if (feed->given[i]) feed->values[i] = found->value;
    else if (!info->has_default)
      return base_fail(err, TD_BAD_ARGUMENT, info->name, -1, "no value is known for this input");
  }
  return TD_OK;
}

/* The command's options with another model. */
static cli_args args_for(minify *m, const minify_model *model) {
  static const cli_option cc = CLI_OPTION_CC;
  cli_args args = m->quiet;
  if (m->interpreted) { /* there is room for one more */
    args.given = base_arena_copy(args.arena, args.given, ((size_t)args.given_count + 1) * sizeof *args.given);
    if (args.given) args.given[args.given_count++] = (cli_given){&cc, "none"};
    else args.given = m->quiet.given;
  }
  const char **operand = base_new(args.arena, const char *, 1);
  if (operand) *operand = model->path;
  args.operands = operand ? operand : m->args->operands;
  return args;
}

td_status minify_feed(minify *m, const minify_model *model, app_feed *feed, td_error *err) {
  cli_args args = args_for(m, model);
  td_load_options options;
  td_model *loaded = NULL;
  TRY(cli_load_options(&args, &options, err));
  options.backend = "eager";
  options.inject = NULL;
  TRY(td_model_load(model->path, &options, &loaded, err));
  const td_status status = feed_of(m, loaded, model, feed, err);
  td_model_free(loaded);
  return status;
}

/* ---- the child ---- */

typedef struct judging {
  minify *m;
  const minify_model *model;
} judging;

static void note_first(void *user, const td_difference *d) {
  minify_verdict *to = user;
  if (!d->fails || to->kind != MINIFY_PASSES) return;
  to->kind = d->other_type ? MINIFY_TYPE : MINIFY_WRONG;
  snprintf(to->output, sizeof to->output, "%s", d->name);
}

/* As `compare` judges. */
static td_status judge_outputs(minify *m, cli_runner *runner, const cli_trial *got, const cli_trial *expected,
                               minify_verdict *to, td_error *err) {
  td_comparison *comparison;
  td_results have, expect;
  int32_t differs;
  TRY(cli_results_of(runner->args, got, &have, err));
  TRY(cli_results_of(runner->args, expected, &expect, err));
  TRY(cli_runner_compare(runner, &m->tolerance, false, &comparison, err));
  to->kind = MINIFY_PASSES;
  const td_status status = td_comparison_outputs(comparison, &have, &expect, NULL, note_first, to, &differs, err);
  td_comparison_free(comparison);
  return status;
}

/* What the verdict is when this process ends now stands in it at every time. */
static void judge_child(void *user, void *result) {
  const judging *j = user;
  minify *m = j->m;
  minify_verdict *to = result;
  cli_args args = args_for(m, j->model);
  app_feed feed;
  cli_trial expected, got = {0};
  td_error err = {.offset = -1};
  *to = (minify_verdict){.kind = MINIFY_INVALID};
  if (minify_feed(m, j->model, &feed, &to->err) != TD_OK) return;
  cli_way truth = {.backend = "eager"}, way = cli_way_asked(&args);
  way.backend = cli_value(&args, "backend");
  if (cli_trial_run(&args, &truth, &feed, &expected, &to->err) != TD_OK) return;
  to->kind = MINIFY_SIGNAL;
  td_load_options options;
  td_model *loaded = NULL;
  td_status status = cli_load_options(&args, &options, &err);
  options.backend = way.backend;
  if (status == TD_OK) status = td_model_load(j->model->path, &options, &loaded, &err);
  td_model_free(loaded);
  const bool loads = status == TD_OK;
  if (loads) status = cli_trial_run(&args, &way, &feed, &got, &err);
  if (status != TD_OK) {
    const bool type = strstr(err.text, "element type") != NULL;
    to->kind = type ? MINIFY_TYPE : loads ? MINIFY_RUN : MINIFY_LOAD;
    to->number = type ? 0 : (int)status;
    to->err = err;
  } else {
    cli_runner runner = {.args = &args, .feed = &feed, .ways = {[TD_SIDE_JUDGED] = way}};
    if (judge_outputs(m, &runner, &got, &expected, to, &to->err) != TD_OK) to->kind = MINIFY_INVALID;
  }
  cli_trial_close(&got);
  cli_trial_close(&expected);
}

/* ---- a script ---- */

static void script_child(void *user, void *result) {
  const judging *j = user;
  minify_verdict *to = result;
  base_arena *arena = j->m->args->arena;
  const char *inputs = base_arena_format(arena, "%s/inputs", j->m->folder);
  app_feed feed;
  *to = (minify_verdict){.kind = MINIFY_INVALID};
  if (!inputs || minify_feed(j->m, j->model, &feed, &to->err) != TD_OK) return;
  if (cli_bundle_inputs(arena, j->m->folder, &feed, &to->err) != TD_OK) return;
  const char *line = base_arena_format(arena, "timeout %u sh -c '%s' minify '%s' '%s' >/dev/null 2>&1", j->m->limit_s,
                                       j->m->script, j->model->path, inputs);
  const int how = line ? system(line) : -1;
  const int code = WIFEXITED(how) ? WEXITSTATUS(how) : 127;
  enum { TIMED_OUT = 124 };
  to->number = code;
  to->kind = code == 0 ? MINIFY_PASSES : code == TIMED_OUT ? MINIFY_LATE : MINIFY_EXIT;
}

/* ---- judging ---- */

td_status minify_judge(minify *m, const minify_model *model, minify_verdict *verdict, td_error *err) {
  judging j = {m, model};
  app_end end;
  *verdict = (minify_verdict){.kind = MINIFY_INVALID};
  m->judged++;
  const unsigned limit = m->limit_s + (m->per_s ? (unsigned)(m->nodes / m->per_s) : 0);
  TRY(app_run_isolated(m->script ? script_child : judge_child, &j, verdict, sizeof *verdict,
                       limit + (m->script ? 5 : 0), &end, err));
  if (end.done || verdict->kind == MINIFY_INVALID) return TD_OK; /* the reference ended, or did not */
  verdict->kind = end.late ? MINIFY_LATE : MINIFY_SIGNAL;
  verdict->number = end.signal ? end.signal : end.exit_code;
  return TD_OK;
}

/* The beginnings of two texts, as far as they have no numbers and names. */
static bool same_words(const char *a, const char *b) {
  const size_t n = strcspn(a, "0123456789'\"("), k = strcspn(b, "0123456789'\"(");
  return n == k && memcmp(a, b, n) == 0;
}

bool minify_same_way(const minify_verdict *a, const minify_verdict *b) {
  return a->kind == b->kind && a->number == b->number &&
         (a->kind == MINIFY_TYPE || same_words(a->err.text, b->err.text));
}

const char *minify_describe(const minify_verdict *v, char *text, size_t size) {
  static const char *const words[] = {
      "passes",   "does not run on eager", "does not compile",        "fails as it runs", "crashes", "does not end",
      "is wrong", "changes a type",        "is refused by the script"};
  snprintf(text, size, "%s", words[v->kind]);
  const size_t used = strlen(text);
  if (v->kind == MINIFY_SIGNAL) snprintf(text + used, size - used, " (%s)", strsignal(v->number));
  if (v->output[0]) snprintf(text + used, size - used, " (output %s)", v->output);
  if (v->kind == MINIFY_EXIT) snprintf(text + used, size - used, " (exit status %d)", v->number);
  if (v->err.text[0])
    snprintf(text + used, size - used, " (%s%s%s)", v->err.name, v->err.name[0] ? ": " : "", v->err.text);
  return text;
}
