/* compare.c -- `treadle compare`: two ways to run a model, output by output, and the first node where they part.
 *
 * <treadle/debug.h> judges and searches. All of it happens in a process of its own, so that a crash is an answer too:
 * it names the step. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/engine.h"
#include "common/isolate.h"
#include "chain.h"
#include "cli/faults.h"
#include "runner.h"

#include <treadle/experimental.h>

typedef struct comparison {
  cli_args *args;
  cli_way ways[2]; /* 0: expected, 1: got */
  app_feed feed;
  cli_tolerance tolerance;
  cli_runner runner;
  bool other_nodes; /* what is expected is not eager of this model */
  json_t *json;     /* NULL: text */
} comparison;

/* ---- printing ---- */

static void print_head(const char *what) {
  printf("%s%-11s %10s %10s %10s %12s %12s  %s%s\n", app_colour_code(stdout, APP_BOLD), "", "max abs", "max rel", "ulp",
         "cosine", "failed", what, app_colour_code(stdout, APP_PLAIN));
}

static void print_line(const td_difference *d) {
  const bool same = !d->failed && !d->other_type;
  printf("%s%-11s%s %10.3g %10.3g %10.3g %12.9f %12lld  %s\n",
         app_colour_code(stdout, d->fails ? APP_RED
                                 : same   ? APP_GREEN
                                          : APP_YELLOW),
         d->verdict, app_colour_code(stdout, APP_PLAIN), d->absolute, d->relative, d->ulp, d->cosine,
         (long long)d->failed, d->name);
}

static json_t *difference_json(const td_difference *d) {
  json_t *row = json_object();
  app_json_set(row, "name", app_json_text(d->name));
  app_json_set(row, "verdict", app_json_text(d->verdict));
  app_json_set(row, "max_abs", app_json_real(d->absolute));
  app_json_set(row, "max_rel", app_json_real(d->relative));
  app_json_set(row, "ulp", app_json_real(d->ulp));
  app_json_set(row, "cosine", app_json_real(d->cosine));
  app_json_set(row, "elements", json_integer(d->count));
  app_json_set(row, "failed", json_integer(d->failed));
  return row;
}

static void show_difference(void *rows, const td_difference *d) {
  if (rows) app_json_set(rows, NULL, difference_json(d));
  else print_line(d);
}

/* Rows of a table, one for each of the model's outputs, or nodes. */
static json_t *begin_rows(const comparison *c, const char *what) {
  if (!c->json) print_head(what);
  return c->json ? json_array() : NULL;
}

/* What computes the node, or the output, in the model as it is, without its result kept. */
static void show_place(const comparison *c, const char *name) {
  cli_trial t;
  td_error unused;
  size_t output, step;
  if (cli_trial_open(c->args, &c->ways[1], &t, &unused) != TD_OK) return;
  if (td_model_find_output(t.model, name, &output, &unused) != TD_OK)
    cli_print_chains(c->args->arena, t.model, t.session, NULL, name, 1);
  else if (td_model_output_step(t.model, output, &step, &unused) == TD_OK)
    cli_print_chain(c->args->arena, t.model, t.session, (uint32_t)step);
  cli_trial_close(&t);
}

static void show_found(const comparison *c, const td_difference *d, bool fused) {
  const char *how = fused ? "which differs only when nodes are fused" : "with every node's result kept";
  if (c->json) {
    json_t *row = difference_json(d);
    app_json_set(row, "how", app_json_text(how));
    app_json_set(c->json, "first_node", row);
    return;
  }
  printf("\nfirst node that differs, %s:\n", how);
  print_line(d);
  show_place(c, d->name);
}

static td_status look_inside(comparison *c, td_comparison *inner, size_t outputs, bool differ, td_error *err) {
  const bool nodes = cli_flag(c->args, "nodes");
  json_t *rows = nodes ? begin_rows(c, "node") : NULL;
  td_difference found;
  int32_t fused;
  const td_status status =
      td_comparison_nodes(inner, outputs, differ, nodes ? show_difference : NULL, rows, &found, &fused, err);
  if (rows) app_json_set(c->json, "nodes", rows);
  if (status == TD_OK) show_found(c, &found, fused != 0);
  if (status == TD_ANSWER_NO && differ)
    app_note("no intermediate result differs when kept; only the nodes producing the outputs do");
  return status == TD_ANSWER_NO ? TD_OK : status;
}

/* ---- values that are no numbers ---- */

static bool finite_values(const base_value *value) {
  if (value->kind != BASE_TENSOR || !base_is_float(value->tensor.dtype)) return true;
  base_walk w;
  const int64_t *strides[] = {value->tensor.strides};
  base_walk_start(&w, value->tensor.rank, value->tensor.dims, 1, strides);
  for (int64_t i = 0; i < w.count; i++, base_walk_next(&w))
    if (!isfinite(base_load_f64(value->tensor.dtype, value->tensor.data, w.offset[0]))) return false;
  return true;
}

/* How many outputs the model has of its own: found without a run. */
static td_status count_outputs(comparison *c, size_t *count, td_error *err) {
  td_load_options options;
  td_model *model;
  TRY(cli_load_options(c->args, &options, err));
  options.backend = "eager";
  TRY(td_model_load(c->args->operands[0], &options, &model, err));
  *count = td_model_output_count(model);
  td_model_free(model);
  return TD_OK;
}

/* The first node whose result holds NaN or an infinity, in one run of the model. */
static td_status hunt_nan(comparison *c, td_error *err) {
  cli_way way = c->ways[1];
  way.taps = "*";
  cli_trial t;
  size_t outputs;
  TRY(count_outputs(c, &outputs, err));
  TRY(cli_trial_run(c->args, &way, &c->feed, &t, err));
  size_t at = t.count;
  for (size_t i = 0; i < t.count && at == t.count; i++) {
    const size_t index = (i + outputs) % t.count; /* nodes, then outputs */
    if (!finite_values(&t.values[index])) at = index;
  }
  const bool found = at < t.count;
  const char *backend = way.backend ? way.backend : "native";
  if (c->json) app_json_set(c->json, "first_not_finite", found ? app_json_text(t.names[at]) : json_null());
  else if (found) printf("%s is the first whose result holds NaN or an infinity, on %s\n", t.names[at], backend);
  else printf("every result of every node is finite\n");
  cli_trial_close(&t);
  return found ? TD_ANSWER_NO : TD_OK;
}

/* ---- the command ---- */

static td_status read_ways(comparison *c, td_error *err) {
  const char *names = cli_value(c->args, "backends");
  const bool two = c->args->operand_count == 2;
  c->ways[0] = c->ways[1] = cli_way_asked(c->args);
  if (two) c->ways[1].path = c->args->operands[1];
  if (!names) names = two ? "native,native" : "eager,native";
  const char *comma = strchr(names, ',');
  if (!comma)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "--backends takes two names, \"eager,native\", not '%s'", names);
  c->ways[0].backend = base_arena_slice(c->args->arena, names, (size_t)(comma - names));
  c->ways[1].backend = comma + 1;
  if (!c->ways[0].backend) return base_no_memory(err, "a name");
  c->other_nodes = two || strcmp(c->ways[0].backend, "eager") != 0;
  c->runner = (cli_runner){.args = c->args, .feed = &c->feed};
  return cli_tolerance_asked(c->args, &c->tolerance, err);
}

static void tell_difference(const comparison *c, bool others) {
  const char *backend = c->ways[1].backend, *before = c->ways[0].backend;
  if (others)
    app_note(
        "%s and %s agree, and differ from the recorded outputs: these were made with other inputs, other weights or "
        "another model",
        backend, before);
  else if (cli_value(c->args, "expect"))
    app_note("%s and the recorded outputs differ; the nodes are those where it differs from %s", backend, before);
  else if (c->ways[1].path) app_note("the two models differ; `treadle compare` of each shows whether its kernels do");
  else app_note("%s and %s differ; `treadle bisect` finds the pass or kernel", before, backend);
}

/* The results of one run of each way, and what was recorded of another one. */
typedef struct both {
  cli_trial expected, got;
  td_results expect, have, recorded; /* the last: of no count, without --expect */
} both;

static td_status read_recorded(comparison *c, const cli_trial *like, td_results *recorded, td_error *err) {
  const char *folder = cli_value(c->args, "expect");
  cli_trial read;
  if (!folder) return TD_OK;
  TRY(cli_trial_recorded(c->args, like, folder, &read, err));
  return cli_results_of(c->args, &read, recorded, err);
}

static td_status run_both(comparison *c, both *b, td_error *err) {
  TRY(cli_trial_run(c->args, &c->ways[0], &c->feed, &b->expected, err));
  TRY(cli_results_of(c->args, &b->expected, &b->expect, err));
  TRY(read_recorded(c, &b->expected, &b->recorded, err));
  TRY(cli_trial_run(c->args, &c->ways[1], &c->feed, &b->got, err));
  TRY(cli_results_of(c->args, &b->got, &b->have, err));
  if (b->got.count == b->expected.count) return TD_OK;
  return base_fail(err, TD_BAD_ARGUMENT, c->ways[1].path, -1, "has %zu outputs, not %zu", b->got.count,
                   b->expected.count);
}

/* `*others`: two ways agree, and differ from what was recorded. */
static td_status show_outputs(comparison *c, td_comparison *inner, const both *b, bool *differ, bool *others,
                              td_error *err) {
  const td_results *recorded = b->recorded.size ? &b->recorded : NULL;
  json_t *rows = begin_rows(c, "output");
  int32_t differs = 0;
  const td_status status =
      td_comparison_outputs(inner, &b->have, &b->expect, recorded, show_difference, rows, &differs, err);
  if (rows) app_json_set(c->json, "outputs", rows);
  *differ = differs != 0;
  *others = recorded && *differ;
  if (status != TD_OK || !*others) return status;
  TRY(td_comparison_outputs(inner, &b->have, &b->expect, NULL, NULL, NULL, &differs, err));
  *others = !differs;
  return TD_OK;
}

static td_status compare_results(comparison *c, td_comparison *inner, both *b, bool *differ, td_error *err) {
  const bool two = c->ways[1].path != NULL;
  const size_t outputs = b->expected.count;
  bool others;
  TRY(show_outputs(c, inner, b, differ, &others, err));
  if (!*differ && !two) TRY(cli_check_fault(c->args, b->got.model, b->got.session, err));
  app_note_nan(c->args->subject, b->got.model, &c->feed, b->got.names, b->got.values, b->got.count);
  cli_trial_close(&b->got);
  cli_trial_close(&b->expected);
  if (!two && ((*differ && !others) || cli_flag(c->args, "nodes")))
    TRY(look_inside(c, inner, outputs, *differ && !others, err));
  if (*differ) tell_difference(c, others);
  return TD_OK;
}

static td_status compare_ways(comparison *c, td_error *err) {
  both b = {0};
  td_comparison *inner = NULL;
  bool differ = false;
  c->runner.ways[TD_SIDE_EXPECTED] = c->ways[0];
  c->runner.ways[TD_SIDE_JUDGED] = c->ways[1];
  td_status status = run_both(c, &b, err);
  if (status == TD_OK) status = cli_runner_compare(&c->runner, &c->tolerance, c->other_nodes, &inner, err);
  if (status == TD_OK) status = compare_results(c, inner, &b, &differ, err);
  cli_trial_close(&b.got);
  cli_trial_close(&b.expected);
  td_comparison_free(inner);
  return status == TD_OK && differ ? TD_ANSWER_NO : status;
}

static void compare_isolated(void *user, void *result) {
  comparison *c = user;
  cli_outcome *to = result;
  c->ways[1].where = to->where;
  if (cli_flag(c->args, "json")) c->json = json_object();
  to->status = cli_flag(c->args, "check-nan") ? hunt_nan(c, &to->err) : compare_ways(c, &to->err);
  const bool answered = to->status == TD_OK || to->status == TD_ANSWER_NO;
  if (c->json && answered) {
    const td_status printed = app_print_json(c->json, APP_JSON, &to->err);
    if (printed != TD_OK) to->status = printed;
  } else json_decref(c->json);
}

td_status cli_run_compare(cli_args *args, td_error *err) {
  comparison c = {.args = args};
  cli_outcome got = {.err = {.offset = -1}};
  app_end end;
  int64_t limit = 0;
  TRY(read_ways(&c, err));
  TRY(cli_int(args, "time-limit", 1, 86400, &limit, err));
  args->subject = args->operands[0];
  TRY(app_run_isolated(compare_isolated, &c, &got, sizeof got, (unsigned)limit, &end, err));
  if (!end.done) {
    const char *what = end.late ? "did not end" : end.signal ? strsignal(end.signal) : "ended badly";
    if (got.where[0]) printf("%s: %s at %s\n", c.ways[1].backend, what, got.where);
    return got.where[0] ? TD_ANSWER_NO : base_fail(err, TD_INTERNAL, NULL, -1, "%s: %s", c.ways[0].backend, what);
  }
  if (got.status != TD_OK && got.status != TD_ANSWER_NO) *err = got.err;
  return got.status;
}
