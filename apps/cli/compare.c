/* compare.c -- `treadle compare`: two ways to run a model, output by output, and the first node where they part.
 *
 * Every node's result is made an output of both. Where the two then agree everywhere although they do not as they are,
 * the fault needs nodes to be fused, which outputs between them prevent: then one output at a time is added, by halves.
 * This assumes that later nodes stay wrong after the first one does. All of it happens in a process of its own, so that
 * a crash is an answer too: it names the step. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "alone.h"
#include "apart.h"
#include "chain.h"
#include "faults.h"

#include <treadle/experimental.h>

typedef struct comparison {
  cli_args *args;
  cli_way ways[2]; /* 0: expected, 1: got */
  cli_feed feed;
  cli_tolerance tolerance;
  cli_arbiter outputs, nodes; /* of runs as they are, and with every node's result kept */
  cli_trial truth;            /* eager's outputs, where others were recorded; else zeroed */
  cli_nodes nodes_of;         /* of what is held against eager */
  json_t *json;               /* NULL: text */
} comparison;

/* ---- printing ---- */

/* `rounding`: it differs, but the arbiter attributes that to rounding. */
static const char *verdict(const cli_metrics *m, bool rounding) {
  if (m->other_type) return "other type";
  if (m->unlike) return "not finite";
  return rounding ? "rounding" : m->failed ? "differs" : "same";
}

static void print_head(const char *what) {
  printf("%s%-11s %10s %10s %10s %12s %12s  %s%s\n", cli_colour_code(stdout, CLI_BOLD), "", "max abs", "max rel", "ulp",
         "cosine", "failed", what, cli_colour_code(stdout, CLI_PLAIN));
}

static void print_line(const char *name, const cli_metrics *m, bool rounding) {
  printf("%s%-11s%s %10.3g %10.3g %10.3g %12.9f %12lld  %s\n",
         cli_colour_code(stdout, !cli_parts(m) ? CLI_GREEN
                                 : rounding    ? CLI_YELLOW
                                               : CLI_RED),
         verdict(m, rounding), cli_colour_code(stdout, CLI_PLAIN), m->absolute, m->relative, m->ulp, m->cosine,
         (long long)m->failed, name);
}

static json_t *metrics_json(const char *name, const cli_metrics *m, bool rounding) {
  json_t *row = json_object();
  cli_json_set(row, "name", cli_json_text(name));
  cli_json_set(row, "verdict", cli_json_text(verdict(m, rounding)));
  cli_json_set(row, "max_abs", cli_json_real(m->absolute));
  cli_json_set(row, "max_rel", cli_json_real(m->relative));
  cli_json_set(row, "ulp", cli_json_real(m->ulp));
  cli_json_set(row, "cosine", cli_json_real(m->cosine));
  cli_json_set(row, "elements", json_integer(m->count));
  cli_json_set(row, "failed", json_integer(m->failed));
  return row;
}

/* ---- outputs ---- */

static bool show_outputs(comparison *c, const cli_trial *got, const cli_trial *expected) {
  bool parted = false;
  json_t *rows = c->json ? json_array() : NULL;
  if (!c->json) print_head("output");
  for (size_t i = 0; i < expected->count; i++) {
    const cli_metrics m = cli_trial_difference(got, expected, i, &c->tolerance);
    bool rounding;
    const bool recorded = c->truth.count > 0;
    const cli_metrics base = recorded ? cli_trial_difference(&c->truth, expected, i, &c->tolerance) : m;
    parted |= cli_output_parts(&c->nodes_of, &c->outputs, &m, got, recorded ? &c->truth : expected, i, &rounding);
    if (recorded && cli_parts(&base)) { /* the arbiter knows what eager's rounding is, not what a recording's is */
      parted |= rounding;
      rounding = false;
    }
    if (c->json) cli_json_set(rows, NULL, metrics_json(expected->names[i], &m, rounding));
    else print_line(expected->names[i], &m, rounding);
  }
  if (c->json) cli_json_set(c->json, "outputs", rows);
  return parted;
}

/* ---- nodes ---- */

typedef struct search {
  const comparison *c;
  const cli_trial *expected; /* with every node's result */
  size_t first;              /* output of the first node */
  cli_metrics metrics;       /* of the node found */
} search;

/* Is the result of node `index` another one when it alone is an output besides those of the model? */
static td_status parts_alone(search *s, size_t index, bool *parts, td_error *err) {
  cli_way way = s->c->ways[1];
  way.taps = s->expected->names[index];
  cli_feed feed = s->c->feed;
  cli_trial got;
  TRY(cli_trial_run(s->c->args, &way, &feed, &got, err));
  const base_value *value = &s->expected->values[index];
  cli_trial one = {.count = s->first + 1, .values = base_new(s->c->args->arena, base_value, s->first + 1)};
  td_status status = one.values ? TD_OK : base_no_memory(err, "a value");
  if (status == TD_OK) {
    one.values[s->first] = *value;
    s->metrics = cli_trial_difference(&got, &one, s->first, &s->c->tolerance);
    *parts = cli_parts(&s->metrics);
  }
  cli_trial_close(&got);
  return status;
}

/* The first node from s->first on that parts when it is tapped alone; expected->count: none. */
static td_status search_halves(search *s, size_t *found, td_error *err) {
  size_t low = s->first, high = s->expected->count; /* all before low agree; high parts, or is the end */
  cli_metrics last = {0};
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    bool parts;
    TRY(parts_alone(s, middle, &parts, err));
    if (parts) high = middle, last = s->metrics;
    else low = middle + 1;
  }
  *found = high;
  s->metrics = last;
  return TD_OK;
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

static void show_found(const comparison *c, const char *name, const cli_metrics *m, const char *how) {
  if (c->json) {
    json_t *row = metrics_json(name, m, false);
    cli_json_set(row, "how", cli_json_text(how));
    cli_json_set(c->json, "first_node", row);
    return;
  }
  printf("\nfirst node that differs, %s:\n", how);
  print_line(name, m, false);
  show_place(c, name);
}

/* `m` is how far the results are apart; of a node that is wrong on its own, how far it is from right. */
static bool node_parts(comparison *c, cli_metrics *m, const cli_trial *got, const cli_trial *expected, size_t i,
                       bool *rounding) {
  cli_metrics own;
  cli_alone *alone = c->nodes_of.known || cli_parts(m) ? cli_ask_nodes(&c->nodes_of) : NULL;
  const bool wrong = alone && cli_alone_parts(alone, i, &own);
  *rounding = cli_parts(m) && (alone ? !wrong : cli_is_rounding(&c->nodes, got, expected, i));
  if (wrong) *m = own;
  return cli_parts(m) && !*rounding;
}

static void show_nodes(comparison *c, const cli_trial *got, const cli_trial *expected, size_t first) {
  json_t *rows = c->json ? json_array() : NULL;
  if (!c->json) print_head("node");
  for (size_t i = first; i < expected->count; i++) {
    cli_metrics m = cli_trial_difference(got, expected, i, &c->tolerance);
    bool rounding;
    node_parts(c, &m, got, expected, i, &rounding);
    if (c->json) cli_json_set(rows, NULL, metrics_json(expected->names[i], &m, rounding));
    else print_line(expected->names[i], &m, rounding);
  }
  if (c->json) cli_json_set(c->json, "nodes", rows);
}

/* Of outputs [from, to); expected->count: none. */
static size_t first_parted(comparison *c, const cli_trial *got, const cli_trial *expected, size_t from, size_t to,
                           cli_metrics *m) {
  for (size_t i = from; i < to; i++) {
    *m = cli_trial_difference(got, expected, i, &c->tolerance);
    bool rounding;
    if (node_parts(c, m, got, expected, i, &rounding)) return i;
  }
  return expected->count;
}

static td_status look_inside(comparison *c, size_t outputs, bool parted, td_error *err) {
  cli_way ways[2] = {c->ways[0], c->ways[1]};
  ways[0].taps = ways[1].taps = "*";
  cli_trial expected, got;
  TRY(cli_trial_run(c->args, &ways[0], &c->feed, &expected, err));
  td_status status = cli_trial_run(c->args, &ways[1], &c->feed, &got, err);
  if (status != TD_OK) {
    cli_trial_close(&expected);
    return status;
  }
  cli_metrics m;
  size_t found = first_parted(c, &got, &expected, outputs, expected.count, &m);
  if (found == expected.count) found = first_parted(c, &got, &expected, 0, outputs, &m); /* what makes an output */
  if (cli_flag(c->args, "nodes")) show_nodes(c, &got, &expected, outputs);
  cli_trial_close(&got);
  if (found < expected.count) show_found(c, expected.names[found], &m, "with every node's result kept");
  else if (parted) {
    search s = {.c = c, .expected = &expected, .first = outputs};
    status = search_halves(&s, &found, err);
    if (status == TD_OK && found < expected.count)
      show_found(c, expected.names[found], &s.metrics, "which differs only when nodes are fused");
    else if (status == TD_OK)
      cli_note("no intermediate result differs when kept; only the nodes producing the outputs do");
  }
  cli_trial_close(&expected);
  return status;
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
  if (c->json) cli_json_set(c->json, "first_not_finite", found ? cli_json_text(t.names[at]) : json_null());
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
  const cli_arbiter arbiter = {
      .args = c->args, .feed = &c->feed, .truth = {.backend = "eager"}, .tolerance = &c->tolerance};
  c->outputs = c->nodes = arbiter;
  c->nodes.truth.taps = "*";
  c->nodes_of = (cli_nodes){.args = c->args, .feed = &c->feed, .tolerance = &c->tolerance, .way = c->ways[1]};
  c->nodes_of.asked = two || strcmp(c->ways[0].backend, "eager") != 0; /* nobody knows them */
  return cli_tolerance_asked(c->args, &c->tolerance, err);
}

/* Recorded outputs have the names of eager's. */
static td_status expect(comparison *c, cli_trial *expected, td_error *err) {
  const char *recorded = cli_value(c->args, "expect");
  TRY(cli_trial_run(c->args, &c->ways[0], &c->feed, expected, err));
  if (!recorded) return TD_OK;
  c->truth = *expected;
  const td_status status = cli_trial_recorded(c->args, &c->truth, recorded, expected, err);
  if (status != TD_OK) cli_trial_close(&c->truth);
  return status;
}

/* Do all outputs of `got` agree with eager's? */
static bool agrees_with_truth(const comparison *c, const cli_trial *got) {
  bool parts = c->truth.count != got->count;
  for (size_t i = 0; !parts && i < got->count; i++) {
    const cli_metrics m = cli_trial_difference(got, &c->truth, i, &c->tolerance);
    parts = cli_parts(&m);
  }
  return !parts;
}

static void tell_parted(const comparison *c, bool others) {
  const char *backend = c->ways[1].backend, *before = c->ways[0].backend;
  if (others)
    cli_note(
        "%s and %s agree, and differ from the recorded outputs: these were made with other inputs, other weights or "
        "another "
        "model",
        backend, before);
  else if (cli_value(c->args, "expect"))
    cli_note("%s and the recorded outputs differ; the nodes are those where it differs from %s", backend, before);
  else if (c->ways[1].path) cli_note("the two models differ; `treadle compare` of each shows whether its kernels do");
  else cli_note("%s and %s differ; `treadle bisect` finds the pass or kernel", before, backend);
}

static td_status compare_ways(comparison *c, td_error *err) {
  cli_trial expected, got;
  TRY(expect(c, &expected, err));
  td_status status = cli_trial_run(c->args, &c->ways[1], &c->feed, &got, err);
  const size_t outputs = expected.count;
  if (status == TD_OK && got.count != outputs)
    status = base_fail(err, TD_BAD_ARGUMENT, c->ways[1].path, -1, "has %zu outputs, not %zu", got.count, outputs);
  const bool parted = status == TD_OK && show_outputs(c, &got, &expected);
  if (status == TD_OK && !parted && !c->ways[1].path) status = cli_check_fault(c->args, got.model, got.session, err);
  const bool others = parted && cli_value(c->args, "expect") && agrees_with_truth(c, &got);
  if (status == TD_OK) cli_note_nan(c->args, got.model, &c->feed, got.names, got.values, got.count);
  cli_trial_close(&got);
  cli_trial_close(&expected);
  cli_trial_close(&c->truth);
  if (status == TD_OK && !c->ways[1].path && ((parted && !others) || cli_flag(c->args, "nodes")))
    status = look_inside(c, outputs, parted && !others, err);
  cli_nodes_close(&c->nodes_of);
  cli_arbiter_close(&c->outputs);
  cli_arbiter_close(&c->nodes);
  if (status != TD_OK || !parted) return status;
  tell_parted(c, others);
  return TD_ANSWER_NO;
}

/* What the process that compares leaves behind. */
typedef struct outcome {
  td_status status;
  td_error err;
  char where[CLI_WHERE]; /* the step that runs */
} outcome;

static void compare_apart(void *user, void *result) {
  comparison *c = user;
  outcome *to = result;
  c->ways[1].where = c->nodes_of.way.where = to->where;
  if (cli_flag(c->args, "json")) c->json = json_object();
  to->status = cli_flag(c->args, "check-nan") ? hunt_nan(c, &to->err) : compare_ways(c, &to->err);
  const bool answered = to->status == TD_OK || to->status == TD_ANSWER_NO;
  if (c->json && answered) {
    const td_status printed = cli_print_json(c->json, &to->err);
    if (printed != TD_OK) to->status = printed;
  } else json_decref(c->json);
}

td_status cli_run_compare(cli_args *args, td_error *err) {
  comparison c = {.args = args};
  outcome got = {.err = {.offset = -1}};
  cli_end end;
  int64_t limit = 0;
  TRY(read_ways(&c, err));
  TRY(cli_int(args, "time-limit", 1, 86400, &limit, err));
  args->subject = args->operands[0];
  TRY(cli_run_apart(compare_apart, &c, &got, sizeof got, (unsigned)limit, &end, err));
  if (!end.done) {
    const char *what = end.late ? "did not end" : end.signal ? strsignal(end.signal) : "ended badly";
    if (got.where[0]) printf("%s: %s at %s\n", c.ways[1].backend, what, got.where);
    return got.where[0] ? TD_ANSWER_NO : base_fail(err, TD_INTERNAL, NULL, -1, "%s: %s", c.ways[0].backend, what);
  }
  if (got.status != TD_OK && got.status != TD_ANSWER_NO) *err = got.err;
  return got.status;
}
