/* ctest: slow */
/* test_compile.c -- `treadle compile`, and the commands that take what it writes. */
#include "fixture.h"

enum { COLUMNS = 4 };

static void compiles_and_runs(void **state) {
  fixture *f = *state;
  float values[COLUMNS] = {-1, 2, -3, 4};
  const base_tensor x = row_of(values, COLUMNS);
  save_unary("net.onnx", "Relu", COLUMNS);
  save_npy("x.npy", &x);
  const outcome made = run(f, "compile net.onnx -o net.tdl --isa scalar,vector");
  assert_int_equal(made.status, 0);
  assert_holds(made.out, "net.tdl: 1 steps, 2 variants, ");
  assert_int_equal(run(f, "run net.onnx --input x=x.npy --output plain").status, 0);
  assert_int_equal(run(f, "run net.tdl --input x=x.npy --output saved").status, 0);
  const base_tensor plain = load_npy(f, "plain/a_y_0.npy"), saved = load_npy(f, "saved/a_y_0.npy");
  assert_int_equal(base_tensor_bytes(&plain), base_tensor_bytes(&saved));
  assert_memory_equal(plain.data, saved.data, base_tensor_bytes(&plain));
  assert_holds(run(f, "info net.tdl").out, "input  x: f32[batch,4]");
  assert_holds(run(f, "inspect net.tdl --stage plan").out, "call kern_relu_vector");
  assert_holds(run(f, "inspect net.tdl --stage plan --isa scalar").out, "call fused_relu"); /* no kernel */
  assert_int_equal(run(f, "bench net.tdl --min-time 0.01 --threads 1").status, 0);
  assert_int_equal(run(f, "profile net.tdl --runs 2 --threads 1").status, 0);
}

/* Recorded cases of a model that is a saved plan. */
static void checks_cases(void **state) {
  fixture *f = *state;
  float values[COLUMNS] = {-1, 2, -3, 4}, wanted[COLUMNS] = {0, 2, 0, 4};
  const base_tensor x = row_of(values, COLUMNS), y = row_of(wanted, COLUMNS);
  save_unary("net.onnx", "Relu", COLUMNS);
  assert_int_equal(mkdir("case", 0700), 0);
  save_npy("case/x.npy", &x);
  save_npy("case/y.npy", &y);
  assert_int_equal(run(f, "compile net.onnx -o case/net.tdl").status, 0);
  static const char text[] =
      "{\"file\": \"net.tdl\", \"inputs\": [{\"file\": \"x.npy\"}], \"outputs\": [{\"file\": \"y.npy\"}]}";
  const base_text json = {.at = (char *)(uintptr_t)text, .length = sizeof text - 1};
  save("case/case.json", &json);
  const outcome got = run(f, "check case --trusted --cc none");
  if (got.status != 0) fail_msg("%s%s", got.out, got.err);
  assert_holds(got.out, "1 passed, 0 failed");
}

/* What is found once is known the next time, for this model alone; what is no such list is made again. */
static void tunes_loops(void **state) {
  fixture *f = *state;
  save_unary("net.onnx", "Relu", COLUMNS);
  const char *command = "run builtin:fused_chain --tune --threads 1";
  outcome got = run(f, command);
  if (got.status != 0) fail_msg("%s", got.err);
  assert_holds(got.err, "loops ");
  got = run(f, command);
  assert_int_equal(got.status, 0);
  assert_null(strstr(got.err, "loops "));
  assert_holds(run(f, "run net.onnx --tune").err, "loops "); /* joined or not: only the machine knows */
  assert_int_equal(system("for i in treadle/forms-*.txt; do echo x > $i; done"), 0);
  assert_holds(run(f, command).err, "loops ");
}

static void says_what_is_wrong(void **state) {
  fixture *f = *state;
  save_unary("net.onnx", "Relu", COLUMNS);
  assert_int_equal(run(f, "compile net.onnx -o net.tdl").status, 0);
  size_t size;
  char *bytes = (char *)(uintptr_t)slurp(f, "net.tdl", &size);
  const base_text half = {.at = bytes, .length = size / 2};
  save("half.tdl", &half);
  bytes[size / 2] ^= 1;
  const base_text damaged = {.at = bytes, .length = size};
  save("damaged.tdl", &damaged);
  const struct {
    int status;
    const char *command, *text;
  } cases[] = {{2, "compile net.onnx", "say where the compiled model goes: -o OUT.tdl"},
               {2, "compile net.onnx -o", "a value is missing after '-o'"},
               {2, "compile net.onnx -o a.tdl --isa vector,neon", "no instruction set called neon"},
               {5, "compile net.onnx -o absent/net.tdl",
                "net.onnx: absent/net.tdl: cannot be written: No such file or directory\n"},
               {3, "run half.tdl", "damaged: it is cut off"},
               {3, "run damaged.tdl", "damaged.tdl"},
               {2, "inspect net.tdl --stage passes", "a saved plan has no graph"},
               {2, "run net.tdl --disable-passes fold", "when you compile it"},
               {2, "run net.tdl --backend eager", "compiled for the backend native, not eager"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const outcome got = run(f, cases[i].command);
    if (got.status != cases[i].status) fail_msg("%s: %d: %s", cases[i].command, got.status, got.err);
    assert_holds(got.err, cases[i].text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(compiles_and_runs, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(checks_cases, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(tunes_loops, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(says_what_is_wrong, fixture_open, fixture_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
