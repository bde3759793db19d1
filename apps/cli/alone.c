/* alone.c -- each node of a model on its own: what eager makes of the operands that another run had. */
#include "alone.h"

#include <math.h>
#include <string.h>

/* A value of the run for the input of this name. */
static const base_value *value_called(const cli_trial *t, const char *name) {
  for (size_t i = 0; i < t->count; i++)
    if (strcmp(t->names[i], name) == 0) return &t->values[i];
  return NULL;
}

/* The model's inputs, and behind them what `got` has for those that its nodes became. */
static td_status make_feed(cli_alone *a, cli_args *args, const td_model *model, const cli_feed *feed, td_error *err) {
  const size_t count = td_model_input_count(model);
  a->feed = (cli_feed){count, base_new(args->arena, td_value_info, count + 1),
                       base_new(args->arena, base_value, count + 1), base_new(args->arena, bool, count + 1)};
  if (!a->feed.infos || !a->feed.values || !a->feed.given) return base_no_memory(err, "inputs");
  for (size_t i = 0; i < count; i++) {
    td_value_info info;
    TRY(td_model_input(model, i, &info, err));
    const base_value *value = i < feed->count ? &feed->values[i] : value_called(&a->got, info.name);
    if (!value) return base_fail(err, TD_UNSUPPORTED, info.name, -1, "the run has no such result");
    a->feed.infos[i].name = base_arena_text(args->arena, info.name); /* it is for errors */
    a->feed.values[i] = *value;
    a->feed.given[i] = i >= feed->count || feed->given[i];
    if (!a->feed.infos[i].name) return base_no_memory(err, "a name");
  }
  return TD_OK;
}

static td_status open_apart(cli_alone *a, cli_args *args, const cli_way *way, const cli_feed *feed, td_error *err) {
  cli_way tapped = *way;
  cli_feed own = *feed;
  cli_trial shape;
  tapped.taps = "*";
  TRY(cli_trial_run(args, &tapped, &own, &a->got, err));
  TRY(cli_trial_open(args, &a->arbiter.truth, &shape, err));
  const td_status status = make_feed(a, args, shape.model, feed, err);
  cli_trial_close(&shape);
  if (status != TD_OK) return status;
  TRY(cli_trial_run(args, &a->arbiter.truth, &a->feed, &a->expected, err));
  if (a->expected.count == a->got.count) return TD_OK;
  return base_fail(err, TD_UNSUPPORTED, NULL, -1, "the two runs keep other results");
}

td_status cli_alone_open(cli_alone *a, cli_args *args, const cli_way *way, const cli_feed *feed,
                         const cli_tolerance *tolerance, td_error *err) {
  *a = (cli_alone){.rtol = tolerance->rtol, .atol = tolerance->atol, .tolerance = *tolerance};
  a->arbiter = (cli_arbiter){
      .args = args, .truth = {.backend = "eager", .taps = "*", .alone = true}, .tolerance = &a->tolerance};
  a->arbiter.feed = &a->feed;
  const td_status status = open_apart(a, args, way, feed, err);
  if (status != TD_OK) cli_alone_close(a);
  return status;
}

/* Numbers of 8 bits that were rounded to may fall on either side of a half: few, and by one. */
static bool only_flips(const cli_alone *a, size_t index, const cli_metrics *m) {
  const base_value *got = &a->got.values[index];
  if (got->kind != BASE_TENSOR || (got->tensor.dtype != TD_U8 && got->tensor.dtype != TD_I8)) return false;
  return m->absolute <= 1 && m->failed <= 1 + m->count / 1000;
}

bool cli_alone_parts(cli_alone *a, size_t index, cli_metrics *m) {
  a->tolerance.atol = a->atol;
  *m = cli_trial_difference(&a->got, &a->expected, index, &a->tolerance);
  a->tolerance.atol = fmin(a->atol, a->rtol * m->largest); /* small results, such as scales, decide about large ones */
  *m = cli_trial_difference(&a->got, &a->expected, index, &a->tolerance);
  if (!cli_parts(m)) return false;
  if (m->other_type) return true;
  return !only_flips(a, index, m) && !cli_is_rounding(&a->arbiter, &a->got, &a->expected, index);
}

void cli_alone_close(cli_alone *a) {
  cli_trial_close(&a->got);
  cli_trial_close(&a->expected);
  cli_arbiter_close(&a->arbiter);
}

/* ---- outputs ---- */

cli_alone *cli_ask_nodes(cli_nodes *n) {
  if (!n->asked) {
    td_error unused;
    n->known = cli_alone_open(&n->alone, n->args, &n->way, n->feed, n->tolerance, &unused) == TD_OK;
  }
  n->asked = true;
  return n->known ? &n->alone : NULL;
}

typedef enum nodes_are { NODES_UNKNOWN, NODES_RIGHT, NODES_WRONG } nodes_are;

/* Of the nodes that made `got`. They are known to be right where they give the same outputs with every result kept. */
static nodes_are judge_nodes(cli_nodes *n, const cli_trial *got) {
  cli_alone *alone = cli_ask_nodes(n);
  cli_metrics m;
  if (!alone) return NODES_UNKNOWN;
  for (size_t i = 0; i < alone->got.count; i++)
    if (cli_alone_parts(alone, i, &m)) return NODES_WRONG;
  for (size_t i = 0; i < got->count; i++) {
    m = cli_trial_difference(&alone->got, got, i, n->tolerance);
    if (cli_parts(&m)) return NODES_UNKNOWN;
  }
  return NODES_RIGHT;
}

bool cli_output_parts(cli_nodes *n, cli_arbiter *outputs, const cli_metrics *m, const cli_trial *got,
                      const cli_trial *expected, size_t index, bool *rounding) {
  *rounding = cli_parts(m) && cli_is_exact_rounding(outputs, got, expected, index);
  if (!cli_parts(m) || *rounding || m->other_type || m->unlike) return cli_parts(m) && !*rounding;
  const nodes_are nodes = judge_nodes(n, got);
  *rounding = nodes == NODES_RIGHT || (nodes == NODES_UNKNOWN && cli_is_rounding(outputs, got, expected, index));
  return !*rounding;
}

void cli_nodes_close(cli_nodes *n) {
  if (n->known) cli_alone_close(&n->alone);
}
