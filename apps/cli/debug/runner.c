/* runner.c -- the model of a command, run as <treadle/debug.h> asks. */
#include <string.h>

#include "runner.h"

/* ---- values ---- */

static td_status named(base_arena *arena, const char *name, const base_value *value, td_named_value *to,
                       td_error *err) {
  const bool is_list = value->kind != BASE_TENSOR;
  const size_t count = is_list ? (size_t)value->list.count : 1;
  td_tensor *items = base_new(arena, td_tensor, count + 1);
  if (!items) return base_no_memory(err, "a value");
  *to = (td_named_value){.name = name, .items = items, .count = count, .is_list = is_list};
  for (size_t i = 0; i < count; i++)
    TRY(app_dense_tensor(is_list ? &value->list.items[i].tensor : &value->tensor, arena, &items[i], err));
  return TD_OK;
}

static base_tensor view_of(const td_tensor *t) { return base_tensor_of(t->data, t->dtype, t->rank, t->dims); }

static td_status value_of(base_arena *arena, const td_named_value *from, base_value *to, td_error *err) {
  if (!from->is_list) {
    *to = (base_value){.kind = BASE_TENSOR, .tensor = view_of(from->items)};
    return TD_OK;
  }
  base_value *items = base_new(arena, base_value, from->count + 1);
  if (!items) return base_no_memory(err, "a list");
  for (size_t i = 0; i < from->count; i++)
    items[i] = (base_value){.kind = BASE_TENSOR, .tensor = view_of(&from->items[i])};
  *to = (base_value){.kind = BASE_LIST, .list = {.items = items, .count = (int64_t)from->count}};
  return TD_OK;
}

td_status cli_results_of(cli_args *args, const cli_trial *trial, td_results *results, td_error *err) {
  td_named_value *values = base_new(args->arena, td_named_value, trial->count + 1);
  if (!values) return base_no_memory(err, "outputs");
  for (size_t i = 0; i < trial->count; i++)
    TRY(named(args->arena, trial->names[i], &trial->values[i], &values[i], err));
  *results = (td_results){.size = sizeof *results, .values = values, .count = trial->count};
  return TD_OK;
}

/* ---- inputs ---- */

static const td_named_value *find(const td_way *way, size_t from, size_t to, const char *name) {
  for (size_t i = from; i < to; i++)
    if (strcmp(way->inputs[i].name, name) == 0) return &way->inputs[i];
  return NULL;
}

/* The feed with the values that the way has for it. */
static td_status own_inputs(const cli_runner *r, const td_way *way, app_feed *feed, td_error *err) {
  for (size_t i = 0; i < r->feed->count; i++) {
    const td_named_value *given = find(way, 0, way->own_count, r->feed->infos[i].name);
    if (given) TRY(value_of(r->args->arena, given, &feed->values[i], err));
  }
  return TD_OK;
}

/* Behind the model's own inputs those that its nodes became. */
static td_status tapped_inputs(const cli_runner *r, const td_way *way, const td_model *model, app_feed *feed,
                               td_error *err) {
  for (size_t i = r->feed->count; i < feed->count; i++) {
    td_value_info info = {.size = sizeof info};
    TRY(td_model_input(model, i, &info, err));
    const td_named_value *given = find(way, way->own_count, way->input_count, info.name);
    if (!given) return base_fail(err, TD_UNSUPPORTED, info.name, -1, "the run has no such result");
    feed->infos[i].name = base_arena_text(r->args->arena, info.name); /* it is for errors */
    if (!feed->infos[i].name) return base_no_memory(err, "a name");
    feed->given[i] = true;
    TRY(value_of(r->args->arena, given, &feed->values[i], err));
  }
  return TD_OK;
}

static td_status copy_feed(const cli_runner *r, size_t count, app_feed *feed, td_error *err) {
  base_arena *arena = r->args->arena;
  *feed = (app_feed){count, base_new(arena, td_value_info, count + 1), base_new(arena, base_value, count + 1),
                     base_new(arena, bool, count + 1)};
  if (!feed->infos || !feed->values || !feed->given) return base_no_memory(err, "inputs");
  if (count < r->feed->count) return base_fail(err, TD_UNSUPPORTED, NULL, -1, "that model has fewer inputs");
  for (size_t i = 0; i < r->feed->count; i++) {
    feed->infos[i] = r->feed->infos[i];
    feed->values[i] = r->feed->values[i];
    feed->given[i] = r->feed->given[i];
  }
  return TD_OK;
}

static td_status feed_for(const cli_runner *r, const td_way *asked, const cli_way *way, app_feed *feed, td_error *err) {
  cli_trial shape;
  if (!asked->tapped_inputs) {
    TRY(copy_feed(r, r->feed->count, feed, err));
    return own_inputs(r, asked, feed, err);
  }
  TRY(cli_trial_open(r->args, way, &shape, err));
  td_status status = copy_feed(r, td_model_input_count(shape.model), feed, err);
  if (status == TD_OK) status = own_inputs(r, asked, feed, err);
  if (status == TD_OK) status = tapped_inputs(r, asked, shape.model, feed, err);
  cli_trial_close(&shape);
  return status;
}

/* ---- runs ---- */

static td_status run(void *user, const td_way *asked, td_results *results, td_error *err) {
  const cli_runner *r = user;
  cli_way way = r->ways[asked->side];
  app_feed feed;
  if (asked->side == TD_SIDE_EAGER) way = (cli_way){.backend = "eager"};
  way.taps = asked->taps;
  way.float64 = asked->float64 != 0;
  way.alone = asked->tapped_inputs != 0;
  TRY(feed_for(r, asked, &way, &feed, err));
  cli_trial *trial = base_new(r->args->arena, cli_trial, 1);
  if (!trial) return base_no_memory(err, "a run");
  TRY(cli_trial_run(r->args, &way, &feed, trial, err));
  const td_status status = cli_results_of(r->args, trial, results, err);
  results->owner = trial;
  if (status != TD_OK) cli_trial_close(trial);
  return status;
}

static void release(void *user, td_results *results) {
  (void)user;
  cli_trial_close(results->owner);
}

td_status cli_runner_compare(cli_runner *r, const cli_tolerance *tolerance, bool other_nodes,
                             td_comparison **comparison, td_error *err) {
  td_comparison_options options = {.size = sizeof options,
                                   .user = r,
                                   .run = run,
                                   .release = release,
                                   .rtol = tolerance->rtol,
                                   .atol = tolerance->atol,
                                   .other_nodes = other_nodes};
  td_named_value *inputs = base_new(r->args->arena, td_named_value, r->feed->count + 1);
  if (!inputs) return base_no_memory(err, "inputs");
  for (size_t i = 0; i < r->feed->count; i++)
    if (r->feed->given[i])
      TRY(named(r->args->arena, r->feed->infos[i].name, &r->feed->values[i], &inputs[options.input_count++], err));
  options.inputs = inputs;
  return td_comparison_new(&options, comparison, err);
}
