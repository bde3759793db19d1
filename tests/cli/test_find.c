/* Looking for what is slow, and for what is wrong: profile, compare, bisect. */
#include "cli/fixture.h"

#define LAYER " 'builtin:layer:linear 64x96 out=48 act=gelu' "

static void ways_agree(void **state) {
  fixture *f = *state;
  outcome got = run(f, "compare" LAYER);
  assert_int_equal(got.status, 0);
  assert_holds(got.out, "same");
  got = run(f, "compare" LAYER "--nodes --json");
  assert_int_equal(got.status, 0);
  json_t *root = parse(got.out);
  assert_int_equal(json_array_size(json_object_get(root, "outputs")), 1);
  assert_true(json_array_size(json_object_get(root, "nodes")) >= 1);
  json_decref(root);
  got = run(f, "compare" LAYER "--check-nan");
  assert_int_equal(got.status, 0);
  assert_holds(got.out, "is finite");
}

/* Sums in another order are other bits: without any tolerance the two part, at a node that has a name. */
static void ways_part(void **state) {
  fixture *f = *state;
  outcome got = run(f, "compare" LAYER "--rtol 0 --atol 0");
  assert_int_equal(got.status, 1);
  assert_holds(got.out, "differs");
  assert_holds(got.out, "layer");
  assert_holds(got.err, "treadle bisect");
  got = run(f, "compare" LAYER "--rtol 0 --atol 0 --json");
  json_t *root = parse(got.out);
  assert_int_equal(got.status, 1);
  assert_string_equal(
      json_string_value(json_object_get(json_array_get(json_object_get(root, "outputs"), 0), "verdict")), "differs");
  json_decref(root);
  assert_int_equal(run(f, "compare" LAYER "--backends eager").status, 2);
  assert_int_equal(run(f, "compare" LAYER "--backends eager,nobody").status, 2);
}

/* An input of infinities makes results that are no numbers, and the first of them is named. */
static void nan_is_found(void **state) {
  fixture *f = *state;
  outcome got = run(f, "compare" LAYER "--check-nan --input x=64x96:f32:inf");
  assert_int_equal(got.status, 1);
  assert_holds(got.out, "NaN");
}

static void kernels_are_found(void **state) {
  fixture *f = *state;
  outcome got = run(f, "bisect" LAYER);
  assert_int_equal(got.status, 0);
  assert_holds(got.out, "nothing to look for");
  assert_int_equal(run(f, "bisect" LAYER "--cc none --strict").status, 0);
  assert_int_equal(run(f, "bisect" LAYER "--method forward").status, run(f, "compare" LAYER "--method forward").status);
  got = run(f, "bisect" LAYER "--rtol 0 --atol 0");
  assert_int_equal(got.status, 1);
  assert_holds(got.out, "runs were made");
  assert_int_equal(run(f, "compare" LAYER "--disable-kernels kern_none").status, 0);
}

static void runs_are_profiled(void **state) {
  fixture *f = *state;
  outcome got = run(f, "profile" LAYER
                       "--runs 7 --threads 1 --no-limits --json --trace t.json --html p.html --csv c.csv "
                       "--stacks s.txt");
  assert_int_equal(got.status, 0);
  json_t *root = parse(got.out), *trace = parse(slurp(f, "t.json", NULL));
  assert_int_equal(json_integer_value(json_object_get(root, "runs")), 7);
  assert_true(json_array_size(json_object_get(root, "rows")) >= 1);
  assert_true(json_number_value(json_object_get(root, "step_ms")) <=
              json_number_value(json_object_get(root, "run_ms")));
  assert_true(json_array_size(json_object_get(trace, "traceEvents")) >= 7 * 3);
  assert_holds(slurp(f, "p.html", NULL), "</html>");
  assert_holds(slurp(f, "c.csv", NULL), "layer");
  assert_starts(slurp(f, "s.txt", NULL), "model;");
  json_decref(root);
  json_decref(trace);
  got = run(f, "profile" LAYER "--runs 3 --no-limits --group-by kernel");
  assert_int_equal(got.status, 0);
  assert_holds(got.out, "between steps");
  assert_int_equal(run(f, "profile" LAYER "--group-by layer").status, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ways_agree),        cmocka_unit_test(ways_part),         cmocka_unit_test(nan_is_found),
      cmocka_unit_test(kernels_are_found), cmocka_unit_test(runs_are_profiled),
  };
  return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
