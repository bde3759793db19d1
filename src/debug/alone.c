/* alone.c -- each node of a model on its own: what eager makes of the operands that another run had. */
#include <math.h>
#include <string.h>

#include "debug/compare_priv.h"

/* The model's inputs, and behind them all that `got` has. */
static td_status operands(td_comparison *c, const td_results *got, td_way *way, td_error *err) {
  const size_t own = c->options.input_count;
  td_named_value *values = base_new(c->arena, td_named_value, own + got->count + 1);
  if (!values) return base_no_memory(err, "inputs");
  if (own) memcpy(values, c->options.inputs, own * sizeof *values);
  if (got->count) memcpy(values + own, got->values, got->count * sizeof *values);
  way->inputs = values;
  way->input_count = own + got->count;
  way->own_count = own;
  return TD_OK;
}

static td_status run_alone(td_comparison *c, debug_alone *a, td_error *err) {
  const td_way tapped = {.size = sizeof tapped, .side = TD_SIDE_JUDGED, .taps = "*"};
  a->tolerance = c->tolerance;
  a->arbiter = (debug_arbiter){.c = c, .truth = {.size = sizeof(td_way), .taps = "*", .tapped_inputs = 1}};
  a->arbiter.tolerance = &a->tolerance;
  TRY(debug_run(c, &tapped, &a->got, err));
  TRY(operands(c, &a->got, &a->arbiter.truth, err));
  TRY(debug_run(c, &a->arbiter.truth, &a->expected, err));
  if (a->expected.count == a->got.count) return TD_OK;
  return base_fail(err, TD_UNSUPPORTED, NULL, -1, "the two runs keep other results");
}

debug_alone *debug_ask_nodes(td_comparison *c) {
  debug_alone *a = &c->alone;
  if (!a->asked) {
    td_error unused;
    a->asked = true;
    a->known = run_alone(c, a, &unused) == TD_OK;
  }
  return a->known ? a : NULL;
}

/* Numbers of 8 bits that were rounded to may fall on either side of a half: few, and by one. */
static bool only_flips(const td_named_value *got, const td_difference *d) {
  if (!debug_is_tensor(got) || (got->items->dtype != TD_U8 && got->items->dtype != TD_I8)) return false;
  return d->absolute <= 1 && d->failed <= 1 + d->count / 1000;
}

bool debug_alone_differs(debug_alone *a, size_t index, td_difference *d) {
  const debug_tolerance asked = a->arbiter.c->tolerance;
  const td_named_value *got = &a->got.values[index], *expected = &a->expected.values[index];
  a->tolerance.atol = asked.atol;
  *d = debug_difference(got, expected, &a->tolerance);
  a->tolerance.atol = fmin(asked.atol, asked.rtol * d->largest); /* small results, such as scales, decide about large */
  *d = debug_difference(got, expected, &a->tolerance);
  if (!debug_differs(d)) return false;
  if (d->other_type) return true;
  return !only_flips(got, d) && !debug_is_rounding(&a->arbiter, &a->got, &a->expected, index);
}

void debug_alone_close(td_comparison *c) {
  debug_alone *a = &c->alone;
  debug_release(c, &a->got);
  debug_release(c, &a->expected);
  if (a->arbiter.c) debug_arbiter_close(&a->arbiter);
}

/* ---- outputs ---- */

typedef enum nodes_are { NODES_UNKNOWN, NODES_RIGHT, NODES_WRONG } nodes_are;

/* Of the nodes that made `got`. They are known to be right where they give the same outputs with every result kept. */
static nodes_are judge_nodes(td_comparison *c, const td_results *got) {
  debug_alone *alone = debug_ask_nodes(c);
  td_difference d;
  if (!alone) return NODES_UNKNOWN;
  for (size_t i = 0; i < alone->got.count; i++)
    if (debug_alone_differs(alone, i, &d)) return NODES_WRONG;
  for (size_t i = 0; i < got->count; i++) {
    d = debug_difference(&alone->got.values[i], &got->values[i], &c->tolerance);
    if (debug_differs(&d)) return NODES_UNKNOWN;
  }
  return NODES_RIGHT;
}

bool debug_output_differs(td_comparison *c, const td_difference *d, const td_results *got, const td_results *expected,
                          size_t index, bool *rounding) {
  *rounding = debug_differs(d) && debug_is_exact_rounding(&c->outputs, got, expected, index);
  if (!debug_differs(d) || *rounding || d->other_type || d->unlike) return debug_differs(d) && !*rounding;
  const nodes_are nodes = judge_nodes(c, got);
  *rounding = nodes == NODES_RIGHT || (nodes == NODES_UNKNOWN && debug_is_rounding(&c->outputs, got, expected, index));
  return !*rounding;
}
