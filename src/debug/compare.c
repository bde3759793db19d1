/* compare.c -- two ways to run a model, output by output, and the first node where they differ (treadle/debug.h). */
#include <string.h>

#include "debug/compare_priv.h"

/* ---- runs ---- */

td_status debug_run(td_comparison *c, const td_way *way, td_results *results, td_error *err) {
  *results = (td_results){.size = sizeof *results};
  const td_status status = c->options.run(c->options.user, way, results, err);
  if (status != TD_OK) *results = (td_results){0};
  return status;
}

void debug_release(td_comparison *c, td_results *results) {
  if (results->size && c->options.release) c->options.release(c->options.user, results);
  *results = (td_results){0};
}

td_status debug_comparison_new(const td_comparison_options *options, base_arena *arena, td_comparison **comparison,
                               td_error *err) {
  td_comparison *c = base_new(arena, td_comparison, 1);
  if (!c) return base_no_memory(err, "a comparison");
  const td_way truth = {.size = sizeof truth,
                        .side = TD_SIDE_EAGER,
                        .inputs = options->inputs,
                        .input_count = options->input_count,
                        .own_count = options->input_count};
  *c = (td_comparison){.arena = arena, .options = *options, .tolerance = {options->rtol, options->atol}};
  c->outputs = c->nodes = (debug_arbiter){.c = c, .truth = truth, .tolerance = &c->tolerance};
  c->nodes.truth.taps = "*";
  c->alone.asked = options->other_nodes != 0; /* nobody knows them */
  *comparison = c;
  return TD_OK;
}

base_arena *debug_comparison_close(td_comparison *c) {
  debug_alone_close(c);
  debug_arbiter_close(&c->outputs);
  debug_arbiter_close(&c->nodes);
  return c->arena;
}

void debug_comparison_prepare(td_comparison *c) { debug_arbiter_prepare(&c->outputs); }

/* ---- outputs ---- */

/* `rounding`: it differs, but the arbiter attributes that to rounding. */
static void give_verdict(td_difference *d, bool rounding) {
  d->fails = debug_differs(d) && !rounding;
  d->verdict = d->other_type ? "other type"
               : d->unlike   ? "not finite"
               : rounding    ? "rounding"
               : d->failed   ? "differs"
                             : "same";
}

/* `truth`: eager's outputs, where `expected` was recorded by somebody else; else NULL. */
static td_difference judge_output(td_comparison *c, const td_results *got, const td_results *expected,
                                  const td_results *truth, size_t i) {
  td_difference d = debug_difference(&got->values[i], &expected->values[i], &c->tolerance);
  bool rounding;
  debug_output_differs(c, &d, got, truth ? truth : expected, i, &rounding);
  if (truth) { /* the arbiter knows what eager's rounding is, not what a recording's is */
    const td_difference base = debug_difference(&truth->values[i], &expected->values[i], &c->tolerance);
    if (debug_differs(&base)) rounding = false;
  }
  give_verdict(&d, rounding);
  return d;
}

td_status debug_compare_outputs(td_comparison *c, const td_results *got, const td_results *expected,
                                const td_results *recorded, td_difference_fn tell, void *user, int32_t *differs,
                                td_error *err) {
  *differs = 0;
  if (got->count != expected->count || (recorded && recorded->count != got->count))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "has %zu outputs, not %zu: give both the same model", got->count,
                     recorded ? recorded->count : expected->count);
  for (size_t i = 0; i < got->count; i++) {
    const td_difference d = judge_output(c, got, recorded ? recorded : expected, recorded ? expected : NULL, i);
    if (tell) tell(user, &d);
    *differs |= d.fails;
  }
  return TD_OK;
}

/* ---- nodes ---- */

typedef struct search {
  td_comparison *c;
  td_results expected, got; /* with every node's result */
  size_t outputs;           /* so many of them are the model's own */
  td_error *err;
} search;

/* The difference of the results; of a node that is wrong on its own, how far it is from right. */
static td_difference judge_node(search *s, size_t i) {
  td_comparison *c = s->c;
  td_difference own, d = debug_difference(&s->got.values[i], &s->expected.values[i], &c->tolerance);
  const bool differs = debug_differs(&d);
  debug_alone *alone = c->alone.known || differs ? debug_ask_nodes(c) : NULL;
  const bool wrong = alone && debug_alone_differs(alone, i, &own);
  const bool rounding = differs && (alone ? !wrong : debug_is_rounding(&c->nodes, &s->got, &s->expected, i));
  if (wrong) {
    own.name = d.name;
    d = own;
  }
  give_verdict(&d, rounding);
  return d;
}

/* Of results [from, to); the number of results: none. */
static size_t first_that_fails(search *s, size_t from, size_t to, td_difference *found) {
  for (size_t i = from; i < to; i++) {
    *found = judge_node(s, i);
    if (found->fails) return i;
  }
  return s->expected.count;
}

/* Is the result of node `index` another one when it alone is an output besides those of the model? */
static td_status differs_tapped(search *s, size_t index, td_difference *found) {
  const td_way way = {.size = sizeof way, .side = TD_SIDE_JUDGED, .taps = s->expected.values[index].name};
  td_results got;
  TRY(debug_run(s->c, &way, &got, s->err));
  td_status status = TD_OK;
  if (got.count <= s->outputs)
    status = base_fail(s->err, TD_INTERNAL, way.taps, -1, "a run that was to keep this result has not done so");
  else *found = debug_difference(&got.values[s->outputs], &s->expected.values[index], &s->c->tolerance);
  debug_release(s->c, &got);
  give_verdict(found, false);
  return status;
}

/* The first node that differs when it is tapped alone; the number of results: none. */
static td_status search_halves(search *s, size_t *at, td_difference *found) {
  size_t low = s->outputs, high = s->expected.count; /* all before low agree; high differs, or is the end */
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    td_difference d = {0};
    TRY(differs_tapped(s, middle, &d));
    if (d.fails) high = middle, *found = d;
    else low = middle + 1;
  }
  *at = high;
  return TD_OK;
}

static td_status search_nodes(search *s, bool differs, td_difference_fn tell, void *user, td_difference *found,
                              int32_t *fused) {
  const size_t count = s->expected.count;
  size_t at = first_that_fails(s, s->outputs, count, found);
  if (at == count) at = first_that_fails(s, 0, s->outputs, found); /* what makes an output */
  for (size_t i = s->outputs; tell && i < count; i++) {
    const td_difference d = judge_node(s, i);
    tell(user, &d);
  }
  debug_release(s->c, &s->got);
  if (at == count && differs) {
    *fused = 1;
    TRY(search_halves(s, &at, found));
  }
  if (at == count) return TD_ANSWER_NO;
  found->name = base_arena_text(s->c->arena, s->expected.values[at].name);
  return found->name ? TD_OK : base_no_memory(s->err, "a name");
}

td_status debug_compare_nodes(td_comparison *c, size_t outputs, bool differs, td_difference_fn tell, void *user,
                              td_difference *found, int32_t *fused, td_error *err) {
  const td_way expected = {.size = sizeof expected, .side = TD_SIDE_EXPECTED, .taps = "*"};
  const td_way judged = {.size = sizeof judged, .side = TD_SIDE_JUDGED, .taps = "*"};
  search s = {.c = c, .outputs = outputs, .err = err};
  *fused = 0;
  TRY(debug_run(c, &expected, &s.expected, err));
  td_status status = debug_run(c, &judged, &s.got, err);
  if (status == TD_OK && (s.got.count != s.expected.count || outputs > s.got.count))
    status = base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "keeps %zu results, not %zu: give both the same model",
                       s.got.count, s.expected.count);
  if (status == TD_OK) status = search_nodes(&s, differs, tell, user, found, fused);
  debug_release(c, &s.got);
  debug_release(c, &s.expected);
  return status;
}
