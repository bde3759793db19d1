/* Searches of <treadle/debug.h> over made-up runs: which node, which pass, which kernel, which part. No model is run.
 */
#include "test.h"

#include <math.h>
#include <stdio.h>

#include <treadle/debug.h>

/* ---- comparisons ---- */

enum { NODES = 7, ELEMENTS = 4, MOST = NODES + 1 };

/* A chain of nodes, the last of which makes the output "y"; node `wrong` adds `by`, and all behind it have that, too.
 */
typedef struct chain {
  int wrong; /* NODES: none */
  float by;
  int fused_only; /* while all results are kept nothing is wrong */
  int changed;    /* how much eager's own results change with the inputs' last places */
  double noise;   /* the most by which inputs of a run were changed, in relation */
  int lends, tells;
  float data[64][MOST][ELEMENTS];
  td_tensor tensors[64][MOST];
  td_named_value values[64][MOST];
} chain;

static const char *const node_names[NODES] = {"n0", "n1", "n2", "n3", "n4", "n5", "n6"};

static void fill(chain *c, int place, int slot, const char *name, float value) {
  td_tensor *t = &c->tensors[place][slot];
  for (int i = 0; i < ELEMENTS; i++) c->data[place][slot][i] = value;
  *t = (td_tensor){.dtype = TD_F32, .rank = 1, .dims = {ELEMENTS}, .data = c->data[place][slot]};
  c->values[place][slot] = (td_named_value){.name = name, .items = t, .count = 1};
}

static float result_of(const chain *c, const td_way *way, int node) {
  const int kept = way->taps && strcmp(way->taps, "*") == 0;
  const int sick = way->side == TD_SIDE_JUDGED && node >= c->wrong && !(kept && c->fused_only);
  return (float)node + 1 + (sick ? c->by : 0);
}

static float given[ELEMENTS] = {1, 2, 3, 4};

static void measure_noise(chain *c, const td_way *way) {
  const float *x = way->input_count ? way->inputs[0].items->data : given;
  for (int i = 0; i < ELEMENTS; i++) c->noise = fmax(c->noise, fabs(x[i] / (double)given[i] - 1));
}

static td_status run(void *user, const td_way *way, td_results *results, td_error *err) {
  chain *c = user;
  (void)err;
  if (way->tapped_inputs || way->float64) return TD_UNSUPPORTED; /* nodes cannot be run alone; no f64 */
  measure_noise(c, way);
  const int place = c->lends++ % 64;
  int count = 0;
  fill(c, place, count++, "y", result_of(c, way, NODES - 1));
  for (int i = 0; way->taps && i < NODES - 1; i++)
    if (strcmp(way->taps, "*") == 0 || strcmp(way->taps, node_names[i]) == 0)
      fill(c, place, count++, node_names[i], result_of(c, way, i));
  if (way->inputs && way->input_count && c->changed) c->data[place][0][0] += (float)c->changed;
  results->values = c->values[place];
  results->count = (size_t)count;
  return TD_OK;
}

static void release(void *user, td_results *results) {
  chain *c = user;
  assert_non_null(results->values);
  c->tells++;
}

static void note(void *user, const td_difference *d) {
  char *to = user;
  snprintf(to + strlen(to), 256 - strlen(to), "%s %s;", d->name, d->verdict);
}

static td_comparison *open_comparison(chain *c, double rtol) {
  static const td_tensor input = {.dtype = TD_F32, .rank = 1, .dims = {ELEMENTS}, .data = given};
  static const td_named_value inputs[] = {{.name = "x", .items = &input, .count = 1}};
  const td_comparison_options options = {.size = sizeof options,
                                         .user = c,
                                         .run = run,
                                         .release = release,
                                         .rtol = rtol,
                                         .atol = rtol,
                                         .inputs = inputs,
                                         .input_count = 1};
  td_comparison *made;
  assert_int_equal(td_comparison_new(&options, &made, NULL), TD_OK);
  return made;
}

/* The verdicts of the outputs, and the node that is found, "" for none. */
static const char *compare(chain *c, double rtol, char *verdicts, int32_t *fused) {
  static char name[64];
  td_comparison *comparison = open_comparison(c, rtol);
  td_results expected = {.size = sizeof expected}, got = expected;
  td_difference found;
  int32_t differs;
  td_error err;
  verdicts[0] = name[0] = 0;
  c->lends = c->tells = 0;
  run(c, &(td_way){.side = TD_SIDE_EXPECTED}, &expected, &err);
  run(c, &(td_way){.side = TD_SIDE_JUDGED}, &got, &err);
  assert_int_equal(td_comparison_outputs(comparison, &got, &expected, NULL, note, verdicts, &differs, &err), TD_OK);
  const td_status status = td_comparison_nodes(comparison, 1, differs, NULL, NULL, &found, fused, &err);
  if (status == TD_OK) snprintf(name, sizeof name, "%s", found.name);
  else assert_int_equal(status, TD_ANSWER_NO);
  td_comparison_free(comparison);
  assert_int_equal(c->tells, c->lends - 2); /* each run but ours was given back */
  return name;
}

static void the_first_wrong_node_is_named(void **state) {
  static chain c;
  char verdicts[256];
  int32_t fused;
  (void)state;
  for (int wrong = 0; wrong < NODES - 1; wrong++) {
    c = (chain){.wrong = wrong, .by = 1};
    assert_string_equal(compare(&c, 1e-3, verdicts, &fused), node_names[wrong]);
    assert_string_equal(verdicts, "y differs;");
    assert_int_equal(fused, 0);
    c.fused_only = 1;
    assert_string_equal(compare(&c, 1e-3, verdicts, &fused), node_names[wrong]);
    assert_int_equal(fused, 1);
  }
  c = (chain){.wrong = NODES - 1, .by = 1}; /* the one that makes the output */
  assert_string_equal(compare(&c, 1e-3, verdicts, &fused), "y");
  c = (chain){.wrong = NODES};
  assert_string_equal(compare(&c, 1e-3, verdicts, &fused), "");
  assert_string_equal(verdicts, "y same;");
}

/* What changed inputs do to eager explains three times as much; of bits nothing is explained. They change by 2^-22 at
 * most, and are rounded. */
static void noise_explains_rounding(void **state) {
  static chain c;
  char verdicts[256];
  int32_t fused;
  (void)state;
  c = (chain){.wrong = 0, .by = 1, .changed = 2};
  compare(&c, 1e-3, verdicts, &fused);
  assert_string_equal(verdicts, "y rounding;");
  assert_true(c.noise > 0 && c.noise <= 0x1p-22 + 0x1p-24);
  c.by = 4;
  compare(&c, 1e-3, verdicts, &fused);
  assert_string_equal(verdicts, "y differs;");
  c.by = 1;
  compare(&c, 0, verdicts, &fused);
  assert_string_equal(verdicts, "y differs;");
  c.by = 0.0f / 0.0f;
  compare(&c, 1e-3, verdicts, &fused);
  assert_string_equal(verdicts, "y not finite;");
}

/* ---- nodes on their own ---- */

/* One node that makes numbers of 8 bits, of which `flipped` are off by `by`. */
typedef struct flips {
  int64_t count;
  int flipped, by;
  uint8_t truth[2000], judged[2000];
  td_tensor tensors[2];
  td_named_value values[2];
} flips;

static td_status run_flips(void *user, const td_way *way, td_results *results, td_error *err) {
  flips *f = user;
  const int judged = way->side == TD_SIDE_JUDGED;
  (void)err;
  if (way->float64) return TD_UNSUPPORTED;
  for (int i = 0; i < f->flipped; i++) f->judged[i] = (uint8_t)f->by;
  f->tensors[judged] =
      (td_tensor){.dtype = TD_U8, .rank = 1, .dims = {f->count}, .data = judged ? f->judged : f->truth};
  f->values[judged] = (td_named_value){.name = "y", .items = &f->tensors[judged], .count = 1};
  results->values = &f->values[judged];
  results->count = 1;
  return TD_OK;
}

static void keep_flips(void *user, td_results *results) { (void)user, (void)results; }

/* A half that was rounded to the other side is no error: one element, and one more of each thousand, by one. */
static void few_flips_are_rounding(void **state) {
  static const struct {
    int64_t count;
    int flipped, by, fails;
  } cases[] = {{100, 1, 1, 0}, {100, 2, 1, 1}, {100, 1, 2, 1}, {999, 2, 1, 1}, {1000, 2, 1, 0}, {1000, 3, 1, 1}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    flips f = {.count = cases[i].count, .flipped = cases[i].flipped, .by = cases[i].by};
    const td_comparison_options options = {
        .size = sizeof options, .user = &f, .run = run_flips, .release = keep_flips, .rtol = 1e-3, .atol = 1e-3};
    td_comparison *comparison;
    td_difference found;
    int32_t fused;
    td_error err;
    assert_int_equal(td_comparison_new(&options, &comparison, &err), TD_OK);
    assert_int_equal(td_comparison_nodes(comparison, 1, 0, NULL, NULL, &found, &fused, &err),
                     cases[i].fails ? TD_OK : TD_ANSWER_NO);
    td_comparison_free(comparison);
  }
}

static void other_counts_are_refused(void **state) {
  static chain c = {.wrong = NODES};
  td_comparison *comparison = open_comparison(&c, 0);
  td_results one = {.size = sizeof one}, all = one;
  int32_t differs;
  td_error err = {0};
  (void)state;
  run(&c, &(td_way){.taps = NULL}, &one, &err);
  run(&c, &(td_way){.taps = "*"}, &all, &err);
  assert_int_equal(td_comparison_outputs(comparison, &one, &all, NULL, NULL, NULL, &differs, &err), TD_BAD_ARGUMENT);
  td_comparison_free(comparison);
  assert_int_equal(td_comparison_new(NULL, &comparison, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_comparison_new(&(td_comparison_options){.size = 1}, &comparison, &err), TD_BAD_ARGUMENT);
}

/* ---- bisection ---- */

/* Wrong while the pass runs and a kernel of these does. */
typedef struct fault {
  const char *pass, *kernels[2]; /* NULL: always */
} fault;

static int holds(const char *list, const char *name) {
  const size_t length = strlen(name);
  for (const char *at = list ? list : ""; *at;) {
    const size_t n = strcspn(at, ",");
    if (n == length && memcmp(at, name, n) == 0) return 1;
    at += n + (at[n] == ',');
  }
  return 0;
}

static td_status is_wrong(void *user, const char *passes, const char *kernels, int32_t *differs, td_error *err) {
  const fault *f = user;
  (void)err;
  *differs = !(f->pass && holds(passes, f->pass));
  for (int i = 0; i < 2; i++)
    if (f->kernels[i]) *differs &= !holds(kernels, f->kernels[i]);
  return TD_OK;
}

static td_status bisect(fault f, const char *off, char *pass, char *culprits) {
  td_bisection b = {.size = sizeof b,
                    .user = &f,
                    .differs = is_wrong,
                    .disabled_kernels = off,
                    .passes = "fold,fuse,chain,pack,last",
                    .kernels = "a,b,c,d,e,f",
                    .pass = pass,
                    .culprits = culprits};
  return td_bisect(&b, NULL);
}

static void pass_and_kernels_are_found(void **state) {
  static const char *const passes[] = {"fold", "fuse", "chain", "pack", "last"};
  static const char *const kernels[] = {"a", "b", "c", "d", "e", "f"};
  char pass[32], culprits[32];
  (void)state;
  for (size_t i = 0; i < 5; i++) {
    assert_int_equal(bisect((fault){.pass = passes[i]}, NULL, pass, culprits), TD_OK);
    assert_string_equal(pass, passes[i]);
    assert_string_equal(culprits, "");
  }
  for (size_t i = 0; i < 6; i++) {
    assert_int_equal(bisect((fault){.kernels = {kernels[i]}}, "z", pass, culprits), TD_OK);
    assert_string_equal(pass, "");
    assert_string_equal(culprits, kernels[i]);
  }
  assert_int_equal(bisect((fault){.kernels = {"a", "f"}}, NULL, pass, culprits), TD_OK); /* both at once */
  assert_string_equal(culprits, "a,b,c,d,e,f");
  assert_int_equal(bisect((fault){.kernels = {"z"}}, "z", pass, culprits), TD_ANSWER_NO);
  assert_int_equal(bisect((fault){0}, NULL, pass, culprits), TD_OK); /* whatever is off */
  assert_string_equal(pass, "");
  assert_string_equal(culprits, "");
  assert_int_equal(td_bisect(NULL, NULL), TD_BAD_ARGUMENT);
  assert_int_equal(td_bisect(&(td_bisection){.size = sizeof(td_bisection)}, NULL), TD_BAD_ARGUMENT);
}

/* ---- the smallest graph ---- */

/* A part fails while it keeps these nodes and `size` elements at least. */
typedef struct part {
  td_value_info input;
  uint32_t settled;
  size_t count; /* of nodes */
  uint8_t needs[40];
  int64_t size, least;
  int told;
} part;

static td_status open_part(void *user, uint32_t id, td_minify_graph *graph, td_error *err) {
  part *p = user;
  (void)err;
  assert_in_range(id, 0, p->settled);
  p->input = (td_value_info){.name = "x", .dtype = TD_F32, .rank = 1, .dims = {p->size}};
  graph->node_count = p->count;
  graph->inputs = graph->values = &p->input;
  graph->input_count = graph->value_count = 1;
  return TD_OK;
}

static td_status part_fails(void *user, td_cut *cut, int32_t *same, char *output, td_error *err) {
  const part *p = user;
  (void)err;
  assert_int_equal(cut->keep_count, p->count);
  *same = !cut->size_from || cut->size_to >= p->least;
  for (size_t i = 0; i < p->count; i++)
    if (p->needs[i]) *same &= cut->keep[i] != 0;
  strcpy(output, "");
  return TD_OK;
}

/* What is kept moves to the front: so do the nodes that are needed. */
static td_status settle_part(void *user, td_cut *cut, uint32_t id, td_error *err) {
  part *p = user;
  size_t to = 0;
  (void)err;
  assert_int_equal(id, p->settled + 1);
  p->settled = id;
  for (size_t i = 0; i < p->count; i++)
    if (cut->keep[i]) p->needs[to++] = p->needs[i];
  memset(p->needs + to, 0, sizeof p->needs - to);
  p->count = to;
  if (cut->size_from) p->size = cut->size_to;
  return TD_OK;
}

static void count_told(void *user, const char *strategy, size_t granularity, size_t before, size_t after) {
  (void)granularity;
  assert_non_null(strategy);
  assert_true(after <= before);
  ((part *)user)->told++;
}

static void only_what_fails_is_left(void **state) {
  static const uint8_t sets[][3] = {{0, 0, 0}, {39, 39, 39}, {3, 17, 31}, {0, 20, 39}};
  (void)state;
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
    part p = {.count = 40, .size = 64, .least = 5};
    size_t needed = 0;
    for (int k = 0; k < 3; k++) p.needs[sets[i][k]] = 1;
    for (size_t k = 0; k < p.count; k++) needed += p.needs[k];
    td_minification m = {.size = sizeof m,
                         .user = &p,
                         .open = open_part,
                         .fails = part_fails,
                         .settle = settle_part,
                         .tell = count_told};
    assert_int_equal(td_minify(&m, NULL), TD_OK);
    assert_int_equal(m.nodes, needed);
    assert_int_equal(m.graph, p.settled);
    assert_int_equal(p.size, 8); /* 64, an eighth of it; a smaller one than 5 does not fail */
    assert_true(p.told > 0);
  }
  assert_int_equal(td_minify(NULL, NULL), TD_BAD_ARGUMENT);
  assert_int_equal(td_minify(&(td_minification){.size = sizeof(td_minification)}, NULL), TD_BAD_ARGUMENT);
}

/* The first half of a dimension, as another type, from a tensor whose rows go on. */
static void values_are_cut(void **state) {
  double from[4][6], to_f64[4 * 3];
  float to_f32[4 * 3];
  const td_tensor all = {.dtype = TD_F64, .rank = 2, .dims = {4, 6}, .data = from};
  td_cut cut = {.size = sizeof cut, .size_from = 6, .size_to = 3};
  td_tensor made;
  (void)state;
  for (int i = 0; i < 24; i++) from[i / 6][i % 6] = i;
  assert_int_equal(td_cut_value(&cut, &all, NULL, &made, NULL), TD_OK);
  assert_int_equal(made.dims[0], 4);
  assert_int_equal(made.dims[1], 3);
  assert_int_equal(td_cut_value(&cut, &all, to_f64, &made, NULL), TD_OK);
  cut.dtype_from = TD_F64;
  cut.dtype_to = TD_F32;
  assert_int_equal(td_cut_value(&cut, &all, to_f32, &made, NULL), TD_OK);
  assert_int_equal(made.dtype, TD_F32);
  for (int i = 0; i < 12; i++) {
    assert_true(to_f64[i] == from[i / 3][i % 3]);
    assert_true(to_f32[i] == (float)from[i / 3][i % 3]);
  }
  assert_int_equal(td_cut_value(NULL, &all, NULL, &made, NULL), TD_BAD_ARGUMENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(few_flips_are_rounding),
                                     cmocka_unit_test(the_first_wrong_node_is_named),
                                     cmocka_unit_test(noise_explains_rounding),
                                     cmocka_unit_test(other_counts_are_refused),
                                     cmocka_unit_test(pass_and_kernels_are_found),
                                     cmocka_unit_test(only_what_fails_is_left),
                                     cmocka_unit_test(values_are_cut)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
