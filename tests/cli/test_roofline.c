/* The roofline: measured once, kept, found again; and what it says of the machine is possible. */
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_figures_are_kept),
      cmocka_unit_test(the_figures_are_possible),
      cmocka_unit_test(a_damaged_file_is_replaced),
  };
  return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
