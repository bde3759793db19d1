/* trial.c -- one model run in several ways on the same inputs. */
#include <string.h>

#include "chain.h"
#include "cli/engine.h"
#include "trial.h"

cli_way cli_way_asked(const cli_args *args) {
  return (cli_way){.disabled_passes = cli_value(args, "disable-passes"),
                   .disabled_kernels = cli_value(args, "disable-kernels")};
}

td_status cli_tolerance_asked(const cli_args *args, cli_tolerance *tolerance, td_error *err) {
  *tolerance = (cli_tolerance){.rtol = 1e-3, .atol = 1e-4, .exact_integers = true};
  TRY(cli_real(args, "rtol", 0, 1e6, &tolerance->rtol, err));
  return cli_real(args, "atol", 0, 1e30, &tolerance->atol, err);
}

static td_status fetch_outputs(cli_args *args, cli_trial *t, td_error *err) {
  t->count = td_model_output_count(t->model);
  t->names = base_new(args->arena, const char *, t->count + 1);
  t->values = base_new(args->arena, base_value, t->count + 1);
  if (!t->names || !t->values) return base_no_memory(err, "outputs");
  for (size_t i = 0; i < t->count; i++) {
    td_value_info info = {.size = sizeof info};
    TRY(td_model_output(t->model, i, &info, err));
    t->names[i] = info.name;
    TRY(app_fetch(t->model, t->session, i, args->arena, &t->values[i], err));
  }
  return TD_OK;
}

/* ---- where a run is ---- */

typedef struct watch {
  const char **steps; /* names */
  char *where;
} watch;

static void step_begins(void *user, uint32_t step) {
  const watch *w = user;
  snprintf(w->where, CLI_WHERE, "%s", w->steps[step]);
}

td_status cli_watch_steps(cli_args *args, const td_model *model, td_session *session, char *where, td_error *err) {
  td_model_stats stats = {.size = sizeof stats};
  TRY(td_model_get_stats(model, &stats, err));
  watch *w = base_new(args->arena, watch, 1);
  if (w) *w = (watch){base_new(args->arena, const char *, (size_t)stats.steps + 1), where};
  if (!w || !w->steps) return base_no_memory(err, "the names of steps");
  for (uint32_t i = 0; i < stats.steps; i++) {
    w->steps[i] = cli_chain(args->arena, model, session, i);
    if (!w->steps[i]) return base_no_memory(err, "the names of steps");
  }
  const td_observer observer = {.size = sizeof observer, .user = w, .begin = step_begins};
  return td_session_observe(session, &observer, err);
}

/* ---- a run ---- */

/* What is given to the first model, for a second one whose format does not say what it takes. */
static td_status specs_of(cli_args *args, const app_feed *feed, td_load_options *options, td_error *err) {
  td_input_spec *specs = base_new(args->arena, td_input_spec, feed->count + 1);
  if (!specs) return base_no_memory(err, "inputs");
  options->input_count = 0;
  for (size_t i = 0; i < feed->count; i++)
    if (feed->given[i]) TRY(app_spec_of_value(&feed->values[i], NULL, &specs[options->input_count++], err));
  options->inputs = specs;
  return TD_OK;
}

/* The model, loaded that way; of another model than operand 0, for the values of `feed`. */
static td_status load(cli_args *args, const cli_way *way, const app_feed *feed, td_model **model, td_error *err) {
  td_load_options options;
  TRY(cli_load_options(args, &options, err));
  options.backend = way->backend;
  options.disabled_passes = way->disabled_passes;
  options.disabled_kernels = way->disabled_kernels;
  options.taps = way->taps;
  options.float64 = way->float64;
  options.tapped_inputs = way->alone;
  if (way->path) TRY(specs_of(args, feed, &options, err));
  return td_model_load(way->path ? way->path : args->operands[0], &options, model, err);
}

td_status cli_trial_open(cli_args *args, const cli_way *way, cli_trial *trial, td_error *err) {
  *trial = (cli_trial){0};
  td_status status = load(args, way, &(app_feed){0}, &trial->model, err);
  if (status == TD_OK) status = cli_open_session(args, trial->model, &trial->session, err);
  if (status != TD_OK) cli_trial_close(trial);
  return status;
}

/* Names outlive the model. */
static td_status make_feed(cli_args *args, const td_model *model, app_feed *feed, td_error *err) {
  TRY(cli_feed_make(args, model, false, feed, err));
  for (size_t i = 0; i < feed->count; i++) {
    feed->infos[i].name = base_arena_text(args->arena, feed->infos[i].name);
    if (!feed->infos[i].name) return base_no_memory(err, "the names of inputs");
  }
  return TD_OK;
}

static td_status run(cli_args *args, const cli_way *way, app_feed *feed, cli_trial *t, td_error *err) {
  if (way->where) snprintf(way->where, CLI_WHERE, "nothing yet: it was compiled");
  TRY(load(args, way, feed, &t->model, err));
  if (feed->count == 0) TRY(make_feed(args, t->model, feed, err));
  TRY(cli_open_session(args, t->model, &t->session, err));
  if (td_model_input_count(t->model) != feed->count)
    return base_fail(err, TD_BAD_ARGUMENT, way->path, -1, "takes %zu inputs, not %zu", td_model_input_count(t->model),
                     feed->count);
  TRY(app_feed_bind(feed, t->session, args->arena, err));
  if (way->where) TRY(cli_watch_steps(args, t->model, t->session, way->where, err));
  TRY(td_session_run(t->session, err));
  if (way->where) way->where[0] = 0;
  return fetch_outputs(args, t, err);
}

td_status cli_trial_run(cli_args *args, const cli_way *way, app_feed *feed, cli_trial *trial, td_error *err) {
  *trial = (cli_trial){0};
  const td_status status = run(args, way, feed, trial, err);
  if (status != TD_OK) cli_trial_close(trial);
  return status;
}

td_status cli_trial_recorded(cli_args *args, const cli_trial *like, const char *folder, cli_trial *trial,
                             td_error *err) {
  base_arena *arena = args->arena;
  const char **names = base_new(arena, const char *, like->count + 1);
  *trial = (cli_trial){.count = like->count, .names = names, .values = base_new(arena, base_value, like->count + 1)};
  if (!names || !trial->values) return base_no_memory(err, "outputs");
  for (size_t i = 0; i < like->count; i++) {
    names[i] = base_arena_text(arena, like->names[i]);
    const char *safe = names[i] ? app_safe_name(arena, names[i]) : NULL;
    const char *path = safe ? base_arena_format(arena, "%s/%s.npy", folder, safe) : NULL;
    app_named_vec read = {0};
    if (!path) return base_no_memory(err, "a path");
    TRY(app_read_values(path, &(app_read_how){.arena = arena}, &read, err));
    trial->values[i] = read.at[0].value;
  }
  return TD_OK;
}

void cli_trial_close(cli_trial *trial) {
  td_session_free(trial->session);
  td_model_free(trial->model);
  *trial = (cli_trial){0};
}
