/* ctest: slow long */
/* The roofline: measured once, kept, found again, and possible; and the suites, which hold layers against it. */
#include "cli/fixture.h"

static double number(const json_t *rows, size_t row, const char *key) {
  return json_number_value(json_object_get(json_array_get(rows, row), key));
}

static void the_figures_are_kept(void **state) {
  fixture *f = *state;
  outcome measured = run(f, "roofline --threads 1 --json");
  assert_int_equal(measured.status, 0);
  assert_string_equal(measured.err, "");
  assert_string_equal(run(f, "roofline --threads 1 --json --cached").out, measured.out);
  assert_string_equal(run_after(f, "HOME=. XDG_CACHE_HOME=", "roofline --threads 1 --json --cached").err, "");
  assert_int_equal(access(".cache/treadle", F_OK), 0);
}

static void the_figures_are_possible(void **state) {
  fixture *f = *state;
  json_t *root = parse(run(f, "roofline --threads 1 --json --cached").out);
  const json_t *peaks = json_object_get(root, "peaks"), *bandwidths = json_object_get(root, "bandwidths");
  size_t levels = json_array_size(bandwidths);
  assert_true(json_array_size(peaks) >= 2);
  assert_true(levels >= 1 && levels <= 4);
  for (size_t i = 0; i < json_array_size(peaks); i++) {
    assert_true(number(peaks, i, "gflops") > 0.01);
    assert_true(number(peaks, i, "threads") == 1);
  }
  for (size_t i = 0; i < levels; i++) {
    assert_true(number(bandwidths, i, "read_gb_s") > 0.01 && number(bandwidths, i, "copy_gb_s") > 0.01);
    assert_true(i == 0 || number(bandwidths, i, "bytes") > number(bandwidths, i - 1, "bytes"));
  }
  json_decref(root);
}

/* A file that something else wrote, or that is damaged, is measured anew. */
static void a_damaged_file_is_replaced(void **state) {
  fixture *f = *state;
  run(f, "roofline --threads 1 --cached");
  assert_int_equal(system("for x in treadle/roofline-*.json; do echo '{\"key\": 1' > $x; done"), 0);
  outcome again = run(f, "roofline --threads 1 --cached");
  assert_int_equal(again.status, 0);
  assert_holds(again.out, "GB/s, read");
  assert_string_equal(run(f, "roofline --threads 1 --cached").out, again.out);
}

static const char two_layers[] =
    "# two layers\n"
    "first   linear 4x64 out=32 act=relu\n"
    "\n"
    "second  conv 1x8x12x12 out=8 kernel=3 residual\n";

static void suites_measure_layers(void **state) {
  fixture *f = *state;
  save_text("two.txt", two_layers);
  json_t *root = parse(run(f, "bench --suite all --shapes two.txt --threads 1 --min-time 0.001 --json").out);
  const json_t *rows = json_object_get(root, "rows"), *row = json_array_get(rows, 1);
  assert_int_equal(json_array_size(rows), 2);
  assert_string_equal(json_string_value(json_object_get(row, "name")), "second");
  assert_string_equal(json_string_value(json_object_get(row, "layer")), "conv 1x8x12x12 out=8 kernel=3 residual");
  for (size_t i = 0; i < 2; i++) {
    assert_true(number(rows, i, "us") > 0 && number(rows, i, "limit_us") > 0);
    assert_true(number(rows, i, "gflops") > 0 && number(rows, i, "gb_s") > 0);
  }
  json_decref(root);
  outcome built_in = run(f, "bench --suite attention --threads 1 --min-time 0.0001");
  assert_int_equal(built_in.status, 0);
  assert_holds(built_in.out, " bert_base.attention ");
}

static const char again[] = "measured again";

/* As if taken on a machine so busy that layers seem faster than it can be. */
static void impossible_layers_start_again(void **state) {
  fixture *f = *state;
  static const char bench[] = "bench --suite all --shapes one.txt --threads 1 --min-time 0.001 --json";
  static const char busy[] =
      "sed -i 's/\"gflops\": .*/\"gflops\": 0.001/; s/\"settled\".*/\"settled\": false/' "
      "treadle/roofline-*.json";
  save_text("one.txt", "large linear 64x256 out=256\n");
  for (int round = 0; round < 2; round++) {
    run(f, "roofline --cached");
    assert_int_equal(system(busy), 0);
    outcome got =
        run(f, round ? "bench 'builtin:layer:linear 64x256 out=256' --threads 1 --min-time 0.01 --json" : bench);
    assert_int_equal(got.status, 0);
    assert_holds(got.err, again);
    got = run(f, bench);
    json_t *root = parse(got.out);
    assert_true(number(json_object_get(root, "rows"), 0, "percent_of_limit") < 150);
    json_decref(root);
  }
}

/* More threads that reach less than one: once more, and for good. */
static void more_threads_do_not_lose(void **state) {
  fixture *f = *state;
  static const char busy[] =
      "sed -i '/\"threads\": 1,/!{/\"threads\"/{n;s/\"gflops\": .*/\"gflops\": 0.001/}}' "
      "treadle/roofline-*.json";
  run(f, "roofline");
  if (system("grep -q '\"threads\": 2' treadle/roofline-*.json") != 0) skip();
  assert_int_equal(system(busy), 0);
  outcome got = run(f, "roofline --cached --json");
  assert_holds(got.err, again);
  json_t *root = parse(got.out);
  const json_t *peaks = json_object_get(root, "peaks");
  for (size_t i = 0; i < json_array_size(peaks); i++) assert_true(number(peaks, i, "gflops") > 0.01);
  json_decref(root);
}

static void a_row_below_its_share_fails(void **state) {
  fixture *f = *state;
  save_text("two.txt", two_layers);
  save_text("low.txt", "two.txt first 0.000001\n");
  save_text("high.txt", "# no kernel is so fast\ntwo.txt first 0.000001\ntwo.txt second 1e9\n");
  save_text("bad.txt", "two.txt first fast\n");
  static const char line[] = "bench --suite all --shapes two.txt --min-time 0.001 --expect %s.txt";
  outcome got = run(f, base_arena_format(f->arena, line, "low"));
  assert_int_equal(got.status, 0);
  assert_holds(got.out, "0 below 80 % of their share, 1 without one\n");
  got = run(f, base_arena_format(f->arena, line, "high"));
  assert_int_equal(got.status, 1);
  assert_holds(got.out, "1 below 80 % of their share, 0 without one\n");
  got = run(f, base_arena_format(f->arena, line, "bad"));
  assert_int_equal(got.status, 3);
  assert_holds(got.err, "SUITE NAME SHARE");
}

/* A row that takes a microsecond on no machine is left out. */
static void shares_are_recorded(void **state) {
  fixture *f = *state;
  double share;
  save_text("two_sizes.txt", "tiny unary 1x1\nlarge linear 64x256 out=256\n");
  assert_int_equal(run(f, "bench --suite all --shapes two_sizes.txt --min-time 0.001 --record new.txt").status, 0);
  const char *text = slurp(f, "new.txt", NULL);
  assert_starts(text, "# SUITE NAME SHARE");
  assert_int_equal(sscanf(strchr(text, '\n'), "\ntwo_sizes.txt large %lf\n", &share), 1);
  assert_true(share > 0);
  assert_int_equal(run(f, "bench --suite all --shapes two_sizes.txt --record nowhere/new.txt").status, 2);
}

static void lines_that_are_no_layer_are_refused(void **state) {
  fixture *f = *state;
  static const struct {
    const char *layer, *message;
  } bad[] = {{"linear", "the shape is missing after 'linear'"},
             {"linear 4xy", "no shape is '4xy'"},
             {"linear 4x", "no shape is '4x'"},
             {"linear 4x0", "no shape is '4x0'"},
             {"linear 1x2x3x4x5x6x7x8x9", "no shape is"},
             {"walk 4x4", "there is no operator 'walk'"},
             {"conv 4x4", "another number of dimensions is needed by 'conv'"},
             {"unary 4x4 act=walk", "there is no activation 'walk'"},
             {"reduce 4x4 op=walk", "there is no operator aten::walk"},
             {"linear 4x4 out=a_value_that_is_far_too_long_for_a_word", "cannot read"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    outcome got = run(f, base_arena_format(f->arena, "bench 'builtin:layer:%s'", bad[i].layer));
    if (got.status != 2) fail_msg("%s: status %d", bad[i].layer, got.status);
    assert_holds(got.err, bad[i].message);
  }
  assert_int_equal(run(f, "bench").status, 2);
  assert_int_equal(run(f, "bench net.onnx --suite all").status, 2);
}

/* What is found is kept, number by number, and taken by --tuned; what cannot be is refused before it takes time. */
static void numbers_are_tuned_and_kept(void **state) {
  fixture *f = *state;
  assert_int_not_equal(run(f, "bench 'builtin:layer:linear 8x64 out=48' --min-time 0.01 --tuned").status, 0);
  outcome got = run(f, "tune b_lines thread_ns --turns 1");
  assert_int_equal(got.status, 0);
  assert_non_null(strstr(got.out, "b_lines "));
  assert_null(strstr(got.out, "block_k "));
  got = run(f, "tune block_k --turns 1");
  assert_non_null(strstr(got.out, "block_k "));
  assert_null(strstr(got.out, "b_lines "));
  assert_int_equal(run(f, "bench 'builtin:layer:linear 8x64 out=48' --min-time 0.01 --tuned").status, 0);
  got = run(f, "tune blok_k");
  assert_int_not_equal(got.status, 0);
  assert_non_null(strstr(got.err, "perhaps block_k"));
  assert_int_not_equal(run(f, "tune block_k --turns 0").status, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_figures_are_kept),
      cmocka_unit_test(the_figures_are_possible),
      cmocka_unit_test(a_damaged_file_is_replaced),
      cmocka_unit_test(suites_measure_layers),
      cmocka_unit_test(impossible_layers_start_again),
      cmocka_unit_test(more_threads_do_not_lose),
      cmocka_unit_test(a_row_below_its_share_fails),
      cmocka_unit_test(shares_are_recorded),
      cmocka_unit_test(lines_that_are_no_layer_are_refused),
      cmocka_unit_test(numbers_are_tuned_and_kept),
  };
  return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
