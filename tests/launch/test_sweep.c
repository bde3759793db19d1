/* `treadle bench --sweep` and `--instances`: the settings that are measured, what is called best, and the picture. */
#include "cli/fixture.h"

#define MODEL "'builtin:layer:linear 8x256 out=256' "
#define QUICK MODEL "--min-time 0.02 "

static double real(const json_t *object, const char *key) { return json_number_value(json_object_get(object, key)); }

static void threads_are_swept(void **state) {
  fixture *f = *state;
  outcome o = run(f, "bench " QUICK "--sweep=threads --values 1-3 --svg plot.svg --json");
  if (o.status) fail_msg("%s", o.err);
  json_t *root = parse(o.out), *rows = json_object_get(root, "rows");
  assert_int_equal(json_array_size(rows), 3);
  double least = 1e9, most = 0;
  for (size_t i = 0; i < 3; i++) {
    const json_t *row = json_array_get(rows, i);
    assert_int_equal(real(row, "threads"), i + 1);
    assert_true(real(row, "p50_ms") > 0 && real(row, "p99_ms") >= real(row, "p50_ms") && real(row, "anon_kib") > 0);
    if (real(row, "p50_ms") < least) least = real(row, "p50_ms");
    if (real(row, "per_s") > most) most = real(row, "per_s");
  }
  assert_true(real(json_array_get(rows, 0), "efficiency") == 1);
  const json_t *best = json_object_get(root, "best_latency");
  assert_true(real(best, "p50_ms") == least);
  assert_true(real(json_object_get(root, "best_throughput"), "per_s") == most);
  /* The command that it names is one that runs, with that setting. */
  const char *command = json_string_value(json_object_get(best, "command"));
  assert_starts(command, "treadle bench 'builtin:layer:linear 8x256 out=256' --min-time 0.02 --threads ");
  json_t *again = parse(run(f, base_arena_format(f->arena, "%s --json", command + 8)).out);
  assert_int_equal(real(again, "threads"), real(best, "threads"));
  json_decref(again);
  json_decref(root);
  const char *svg = slurp(f, "plot.svg", NULL);
  assert_starts(svg, "<svg xmlns");
  int points = 0;
  for (const char *at = svg; (at = strstr(at, "<circle")); at++) points++;
  assert_int_equal(points, 6);
  assert_null(strstr(svg, "href"));
  assert_int_equal(system("python3 -c \"import xml.dom.minidom as m; m.parse('plot.svg')\""), 0);
}

static void instances_are_compared_with_one_alone(void **state) {
  fixture *f = *state;
  outcome o = run(f, "bench " QUICK "--instances 2 --json");
  if (o.status) fail_msg("%s", o.err);
  json_t *root = parse(o.out), *rows = json_object_get(root, "rows");
  assert_int_equal(json_array_size(rows), 2);
  const json_t *alone = json_array_get(rows, 0), *both = json_array_get(rows, 1);
  assert_int_equal(real(alone, "instances"), 1);
  assert_int_equal(real(both, "instances"), 2);
  const double efficiency = real(both, "per_s") / (2 * real(alone, "per_s"));
  assert_true(real(both, "efficiency") > 0.999 * efficiency && real(both, "efficiency") < 1.001 * efficiency);
  assert_true(real(both, "worst_p50_ms") >= real(both, "best_p50_ms"));
  assert_starts(json_string_value(json_object_get(both, "command")), "treadle launch --ninstances 2 ");
  json_decref(root);
}

static void streams_are_swept(void **state) {
  fixture *f = *state;
  outcome o = run(
      f, "bench builtin:mobilenet_v3_small --min-time 0.02 --threads 2 --batch 4 --sweep streams --values 1-2 --json");
  if (o.status) fail_msg("%s", o.err);
  json_t *root = parse(o.out);
  const char *command = json_string_value(json_object_get(json_object_get(root, "best_throughput"), "command"));
  assert_holds(command, "--batch 4 --streams ");
  assert_holds(command, "--threads 2");
  json_t *again = parse(run(f, base_arena_format(f->arena, "%s --json", command + 8)).out);
  assert_true(real(again, "streams") >= 1 && real(again, "throughput") > 0);
  json_decref(again);
  json_decref(root);
}

static void the_table_says_what_is_best(void **state) {
  fixture *f = *state;
  outcome o = run(f, "bench " QUICK "--sweep instances --values 1-2");
  if (o.status) fail_msg("%s", o.err);
  assert_holds(o.out, "instances");
  assert_holds(o.out, "best latency:    instances ");
  assert_holds(o.out, "best throughput: instances ");
  assert_holds(o.out, "################################"); /* of the best */
}

static void faults_are_passed_on(void **state) {
  fixture *f = *state;
  outcome o = run(f, "bench no-such.onnx --sweep threads --values 1");
  assert_int_not_equal(o.status, 0);
  assert_holds(o.err, "no-such.onnx");
  assert_holds(o.err, "a benchmark of the sweep failed");
  assert_int_equal(run(f, "bench " MODEL "--sweep rooms").status, TD_BAD_ARGUMENT);
  o = run(f, "bench " MODEL "--sweep threads --values 0-2");
  assert_int_equal(o.status, TD_BAD_ARGUMENT);
  assert_holds(o.err, "--values '0-2'");
  assert_holds(run(f, "bench " MODEL "--instances 0").err, "1 to 1024 are allowed");
  assert_holds(run(f, "bench " QUICK "--instances 1 --svg no/such/plot.svg").err, "cannot be written");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(threads_are_swept),    cmocka_unit_test(instances_are_compared_with_one_alone),
      cmocka_unit_test(streams_are_swept),    cmocka_unit_test(the_table_says_what_is_best),
      cmocka_unit_test(faults_are_passed_on),
  };
  return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
