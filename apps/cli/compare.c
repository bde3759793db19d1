/* compare.c -- `treadle compare`: two ways to run a model, output by output, and the first node where they part.
 *
 * Every node's result is made an output of both. Where the two then agree everywhere although they do not as they are,
 * the fault needs nodes to be fused, which outputs between them prevent: then one output at a time is added, by halves.
 * That takes it that what has parted stays so further on. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trial.h"

typedef struct comparison {
  cli_args *args;
  cli_way ways[2]; /* 0: expected, 1: got */
  cli_feed feed;
  cli_tolerance tolerance;
  json_t *json; /* NULL: text */
} comparison;

/* ---- printing ---- */

static const char *verdict(const cli_metrics *m) {
  if (m->other_type) return "other type";
  if (m->unlike) return "not finite";
  return m->failed ? "parts" : "same";
}

static void print_head(const char *what) {
  printf("%s%-11s %10s %10s %10s %12s %12s  %s%s\n", cli_colour_code(stdout, CLI_BOLD), "", "max abs", "max rel", "ulp",
         "cosine", "failed", what, cli_colour_code(stdout, CLI_PLAIN));
}

static void print_line(const char *name, const cli_metrics *m) {
  printf("%s%-11s%s %10.3g %10.3g %10.3g %12.9f %12lld  %s\n",
         cli_colour_code(stdout, cli_parts(m) ? CLI_RED : CLI_GREEN), verdict(m), cli_colour_code(stdout, CLI_PLAIN),
         m->absolute, m->relative, m->ulp, m->cosine, (long long)m->failed, name);
}

static json_t *metrics_json(const char *name, const cli_metrics *m) {
  json_t *row = json_object();
  cli_json_set(row, "name", cli_json_text(name));
  cli_json_set(row, "verdict", cli_json_text(verdict(m)));
  cli_json_set(row, "max_abs", cli_json_real(m->absolute));
  cli_json_set(row, "max_rel", cli_json_real(m->relative));
  cli_json_set(row, "ulp", cli_json_real(m->ulp));
  cli_json_set(row, "cosine", cli_json_real(m->cosine));
  cli_json_set(row, "elements", json_integer(m->count));
  cli_json_set(row, "failed", json_integer(m->failed));
  return row;
}

/* ---- outputs ---- */

static bool show_outputs(const comparison *c, const cli_trial *got, const cli_trial *expected) {
  bool parted = false;
  json_t *rows = c->json ? json_array() : NULL;
  if (!c->json) print_head("output");
  for (size_t i = 0; i < expected->count; i++) {
    const cli_metrics m = cli_trial_difference(got, expected, i, &c->tolerance);
    parted |= cli_parts(&m);
    if (c->json) cli_json_set(rows, NULL, metrics_json(expected->names[i], &m));
    else print_line(expected->names[i], &m);
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

static void show_found(const comparison *c, const char *name, const cli_metrics *m, const char *how) {
  if (c->json) {
    json_t *row = metrics_json(name, m);
    cli_json_set(row, "how", cli_json_text(how));
    cli_json_set(c->json, "first_node", row);
    return;
  }
  printf("\nfirst node that parts, %s:\n", how);
  print_line(name, m);
}

static void show_nodes(const comparison *c, const cli_trial *got, const cli_trial *expected, size_t first) {
  json_t *rows = c->json ? json_array() : NULL;
  if (!c->json) print_head("node");
  for (size_t i = first; i < expected->count; i++) {
    const cli_metrics m = cli_trial_difference(got, expected, i, &c->tolerance);
    if (c->json) cli_json_set(rows, NULL, metrics_json(expected->names[i], &m));
    else print_line(expected->names[i], &m);
  }
  if (c->json) cli_json_set(c->json, "nodes", rows);
}

static size_t first_parted(const comparison *c, const cli_trial *got, const cli_trial *expected, size_t from,
                           cli_metrics *m) {
  size_t i = from;
  for (; i < expected->count; i++) {
    *m = cli_trial_difference(got, expected, i, &c->tolerance);
    if (cli_parts(m)) break;
  }
  return i;
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
  size_t found = first_parted(c, &got, &expected, outputs, &m);
  if (cli_flag(c->args, "nodes")) show_nodes(c, &got, &expected, outputs);
  cli_trial_close(&got);
  if (found < expected.count) show_found(c, expected.names[found], &m, "with every node's result kept");
  else if (parted) {
    search s = {.c = c, .expected = &expected, .first = outputs};
    status = search_halves(&s, &found, err);
    if (status == TD_OK && found < expected.count)
      show_found(c, expected.names[found], &s.metrics, "which only parts where nodes are fused");
    else if (status == TD_OK)
      cli_note("no node inside parts when its result is looked at: only what makes the outputs themselves does");
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

/* The first node whose result holds NaN or an infinity. */
static td_status hunt_nan(comparison *c, td_error *err) {
  cli_way way = c->ways[1];
  way.taps = "*";
  cli_trial t;
  TRY(cli_trial_run(c->args, &way, &c->feed, &t, err));
  cli_trial plain;
  cli_way untapped = c->ways[1];
  td_status status = cli_trial_run(c->args, &untapped, &c->feed, &plain, err);
  const size_t outputs = plain.count;
  cli_trial_close(&plain);
  size_t at = t.count;
  for (size_t i = 0; status == TD_OK && i < t.count; i++) {
    const size_t index = (i + outputs) % t.count; /* nodes, then outputs */
    if (finite_values(&t.values[index])) continue;
    at = index;
    break;
  }
  if (status == TD_OK && at < t.count) {
    printf("%s is the first whose result holds NaN or an infinity, on %s\n", t.names[at],
           way.backend ? way.backend : "native");
    status = TD_ANSWER_NO;
  } else if (status == TD_OK) printf("every result of every node is finite\n");
  cli_trial_close(&t);
  return status;
}

/* ---- the command ---- */

static td_status read_ways(comparison *c, td_error *err) {
  const char *names = cli_value(c->args, "backends");
  c->ways[0] = c->ways[1] = cli_way_asked(c->args);
  if (!names) names = "eager,native";
  const char *comma = strchr(names, ',');
  if (!comma)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "--backends takes two names, \"eager,native\", not '%s'", names);
  c->ways[0].backend = base_arena_slice(c->args->arena, names, (size_t)(comma - names));
  c->ways[1].backend = comma + 1;
  return c->ways[0].backend ? TD_OK : base_no_memory(err, "a name");
}

static td_status compare_ways(comparison *c, td_error *err) {
  cli_trial expected, got;
  TRY(cli_trial_run(c->args, &c->ways[0], &c->feed, &expected, err));
  td_status status = cli_trial_run(c->args, &c->ways[1], &c->feed, &got, err);
  const size_t outputs = expected.count;
  const bool parted = status == TD_OK && show_outputs(c, &got, &expected);
  if (status == TD_OK) cli_trial_close(&got);
  cli_trial_close(&expected);
  if (status == TD_OK && (parted || cli_flag(c->args, "nodes"))) status = look_inside(c, outputs, parted, err);
  if (status != TD_OK || !parted) return status;
  cli_note("%s and %s part; `treadle bisect` finds the pass or kernel", c->ways[0].backend, c->ways[1].backend);
  return TD_ANSWER_NO;
}

static td_status run_compare(cli_args *args, td_error *err) {
  comparison c = {.args = args, .json = cli_flag(args, "json") ? json_object() : NULL};
  td_status status = read_ways(&c, err);
  if (status == TD_OK) status = cli_tolerance_asked(args, &c.tolerance, err);
  if (status == TD_OK) status = cli_flag(args, "check-nan") ? hunt_nan(&c, err) : compare_ways(&c, err);
  if (c.json && (status == TD_OK || status == TD_ANSWER_NO)) {
    const td_status printed = cli_print_json(c.json, status == TD_OK ? err : NULL);
    return status == TD_OK ? printed : status;
  }
  json_decref(c.json);
  return status;
}

static const cli_option compare_options[] = {
    {"backends", "A,B", "what is expected, and what is held against it; default eager,native", NULL, false},
    CLI_OPTION_RTOL,
    CLI_OPTION_ATOL,
    {"nodes", NULL, "show every node, also where the outputs agree", NULL, false},
    {"check-nan", NULL, "instead: find the first node of B whose result holds NaN or an infinity", NULL, false},
    {"input", "[NAME=]FILE", "an input, as `run` takes it; the others are random", NULL, true},
    CLI_OPTION_SHAPE,
    CLI_OPTION_METHOD,
    {"batch", "N", "size of an open first dimension", NULL, false},
    CLI_OPTION_PREPROCESS,
    CLI_OPTION_PASSES,
    CLI_OPTION_KERNELS,
    CLI_OPTION_ISA,
    CLI_OPTION_MATH,
    CLI_OPTION_CC,
    CLI_OPTION_STRICT,
    CLI_OPTION_TUNED,
    CLI_OPTION_THREADS,
    CLI_OPTION_WEIGHTS,
    CLI_OPTION_SEED,
    CLI_OPTION_JSON,
};

const cli_command cli_compare = {
    .name = "compare",
    .operands = "MODEL",
    .summary = "hold two ways to run a model against each other",
    .text =
        "Runs MODEL on two backends with the same inputs and shows, per output, the largest difference, absolute,\n"
        "relative and in units of the last place, and the cosine. Where they part, every node's result is looked at\n"
        "and the first one that parts is named; where that hides the fault, because it needs nodes to be fused, nodes\n"
        "are looked at one at a time.",
    .examples =
        "treadle compare net.onnx\n"
        "treadle compare net.onnx --backends aot_eager,native --input x.npy\n"
        "treadle compare net.onnx --nodes --rtol 1e-5\n"
        "treadle compare net.onnx --check-nan",
    .options = compare_options,
    .option_count = sizeof compare_options / sizeof *compare_options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_compare,
};
