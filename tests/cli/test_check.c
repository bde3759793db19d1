/* `treadle check`: what passes, what fails and how it is said, skip lists, crashes and endless cases. */
#include "cli/fixture.h"

enum { COLUMNS = 4 };

static void make_folder(const char *path) { assert_int_equal(mkdir(path, 0777), 0); }

/* An ONNX case of the model Identity, whose recorded output is the input plus `error` in element 2. */
static void save_case(fixture *f, const char *folder, float error) {
  float in[COLUMNS] = {1, 2, 3, 4}, out[COLUMNS] = {1, 2, 3 + error, 4};
  base_tensor x = row_of(in, COLUMNS), y = row_of(out, COLUMNS);
  make_folder(folder);
  make_folder(base_arena_format(f->arena, "%s/test_data_set_0", folder));
  save_unary(base_arena_format(f->arena, "%s/model.onnx", folder), "Identity", COLUMNS);
  save_pb(base_arena_format(f->arena, "%s/test_data_set_0/input_0.pb", folder), &x);
  save_pb(base_arena_format(f->arena, "%s/test_data_set_0/output_0.pb", folder), &y);
}

/* good passes; close passes within rtol 1e-3; wrong does not; lax says atol 1 in its data.json. */
static void save_cases(fixture *f) {
  make_folder("cases");
  make_folder("cases/sub");
  save_case(f, "cases/good", 0);
  save_case(f, "cases/close", 0.002f);
  save_case(f, "cases/sub/wrong", 0.5f);
  save_case(f, "cases/sub/lax", 0.5f);
  save_text("cases/sub/lax/data.json", "{\"atol\": 1}");
}

static void remove_cases(fixture *f) {
  assert_int_equal(system("rm -rf cases skips.txt"), 0);
  base_arena_free(f->arena);
  f->arena = base_arena_new(&base_libc_allocator);
}

static void test_verdicts(void **state) {
  fixture *f = *state;
  save_cases(f);
  outcome got = run(f, "check cases");
  assert_int_equal(got.status, 1);
  assert_string_equal(got.err, "");
  assert_string_equal(got.out,
                      "ok close\nok good\nok sub/lax\n"
                      "FAIL sub/wrong: output a/y:0: 1 of 4 elements differ; worst at [0,2]: got 3, expected 3.5, "
                      "difference 0.5\n3 passed, 1 failed, 0 skipped\n");
  assert_int_equal(run(f, "check cases/good cases/sub/lax").status, 0);
  assert_holds(run(f, "check cases/sub/wrong --atol 1").out, "ok wrong\n");
  assert_holds(run(f, "check cases/close --rtol 1e-5 --backend eager").out, "FAIL close: ");
  assert_holds(run(f, "check cases --only 'sub/*'").out, "1 passed, 1 failed, 0 skipped\n");
  remove_cases(f);
}

static void test_json(void **state) {
  fixture *f = *state;
  save_cases(f);
  outcome got = run(f, "check cases/sub --json");
  assert_int_equal(got.status, 1);
  json_t *root = parse(got.out);
  const json_t *wrong = json_array_get(json_object_get(root, "cases"), 1);
  assert_string_equal(json_string_value(json_object_get(wrong, "name")), "wrong");
  assert_string_equal(json_string_value(json_object_get(wrong, "status")), "failed");
  assert_holds(json_string_value(json_object_get(wrong, "reason")), "output a/y:0");
  assert_int_equal(json_integer_value(json_object_get(root, "passed")), 1);
  assert_int_equal(json_integer_value(json_object_get(root, "failed")), 1);
  assert_int_equal(json_integer_value(json_object_get(root, "skipped")), 0);
  json_decref(root);
  remove_cases(f);
}

static void test_skips(void **state) {
  fixture *f = *state;
  save_cases(f);
  static const struct {
    const char *list, *arguments;
    int status;
    const char *message;
  } rows[] = {
      {"# a comment\n\nsub/wr* | not yet | ops\n", "cases", 0,
       "skip sub/wrong: not yet\n3 passed, 0 failed, 1 skipped\n"},
      {"wrong|not yet|ops", "cases/sub/wrong", 0, "skip wrong: not yet\n"},
      {"cases/sub/wrong|not yet|ops", "cases/sub", 0, "skip wrong: not yet\n"},
      {"sub/* | not yet | ops\n", "cases", 1,
       "FAIL sub/lax: it passes, but skips.txt line 1 skips it: not yet\nskip sub/wrong: not yet\n2 passed, 1 failed, "
       "1 "},
      {"*rong | not yet | ops\n", "cases --verbose", 0,
       "skip sub/wrong: not yet: output a/y:0: 1 of 4 elements differ"},
      {"su?/wrong | not yet | ops\nother/wrong | no | ops\n", "cases", 0, "1 skipped\n"},
      {"other/wrong | no | ops\n", "cases", 1, "FAIL sub/wrong: output"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    save_text("skips.txt", rows[i].list);
    outcome got = run(f, base_arena_format(f->arena, "check --skips skips.txt %s", rows[i].arguments));
    assert_holds(got.out, rows[i].message);
    assert_int_equal(got.status, rows[i].status);
    assert_string_equal(got.err, "");
  }
  save_text("skips.txt", "nothing | no | ops\nwrong | not yet | ops\n");
  outcome got = run(f, "check --skips skips.txt cases --verbose");
  assert_string_equal(got.err, "treadle: skips.txt: line 1: nothing matches no case here\n");
  assert_int_equal(got.status, 0);
  static const char *const damaged[] = {"good\n", "\n good | reason\n", "good | | ops\n", "good | a | b | c\n"};
  for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
    save_text("skips.txt", damaged[i]);
    got = run(f, "check --skips skips.txt cases");
    assert_int_equal(got.status, 3);
    assert_holds(got.err,
                 base_arena_format(f->arena, "skips.txt: line %d: `name-or-glob | reason | owner`", i == 1 ? 2 : 1));
  }
  assert_int_equal(run(f, "check --skips absent.txt cases").status, 3);
  remove_cases(f);
}

/* Shape, type and count must be the recorded ones. */
static void test_kinds_of_failure(void **state) {
  fixture *f = *state;
  float values[COLUMNS] = {1, 2, 3, 4};
  double wide[COLUMNS] = {1, 2, 3, 4};
  base_tensor x = row_of(values, COLUMNS);
  save_cases(f);
  base_tensor longer = base_tensor_of(values, TD_F32, 1, (int64_t[]){COLUMNS});
  save_pb("cases/good/test_data_set_0/output_0.pb", &longer);
  assert_holds(run(f, "check cases/good").out, "FAIL good: output a/y:0: got f32[1,4], expected f32[4]\n");
  base_tensor doubles = base_tensor_of(wide, TD_F64, 2, (int64_t[]){1, COLUMNS});
  save_pb("cases/good/test_data_set_0/output_0.pb", &doubles);
  assert_holds(run(f, "check cases/good").out, "got f32[1,4], expected f64[1,4]\n");
  save_pb("cases/good/test_data_set_0/output_0.pb", &x);
  save_pb("cases/good/test_data_set_0/output_1.pb", &x);
  assert_holds(run(f, "check cases/good").out, "FAIL good: the model has 1 outputs, expected 2\n");
  save_pb("cases/close/test_data_set_0/input_1.pb", &x);
  assert_holds(run(f, "check cases/close").out, "FAIL close: the model has 1 inputs, the case 2\n");
  save_text("cases/sub/lax/test_data_set_0/input_0.pb", "\x0a\x7f");
  assert_holds(run(f, "check cases/sub/lax").out, "FAIL lax: bad file: cases/sub/lax/test_data_set_0/input_0.pb: ");
  save_unary("cases/sub/wrong/model.onnx", "NoSuchOperator", COLUMNS);
  assert_holds(run(f, "check cases/sub/wrong").out, "FAIL wrong: unsupported: ");
  outcome got = run(f, "check .");
  assert_int_equal(got.status, 1);
  assert_holds(got.out, "0 passed, 4 failed, 0 skipped\n");
  remove_cases(f);
  make_folder("cases");
  assert_int_equal(run(f, "check cases").status, 3); /* no case in it */
  remove_cases(f);
}

/* NaN is NaN, infinity is only itself. */
static void test_special_values(void **state) {
  fixture *f = *state;
  static const struct {
    float got, expected;
    bool passes;
  } rows[] = {{NAN, NAN, true},           {NAN, 1, false},      {1, NAN, false},
              {INFINITY, INFINITY, true}, {1, INFINITY, false}, {-INFINITY, INFINITY, false},
              {INFINITY, 3e38f, false}};
  save_cases(f);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    float in[COLUMNS] = {0, 0, rows[i].got, 0}, out[COLUMNS] = {0, 0, rows[i].expected, 0};
    base_tensor x = row_of(in, COLUMNS), y = row_of(out, COLUMNS);
    save_pb("cases/good/test_data_set_0/input_0.pb", &x);
    save_pb("cases/good/test_data_set_0/output_0.pb", &y);
    assert_int_equal(run(f, "check cases/good").status, !rows[i].passes);
  }
  remove_cases(f);
}

static const char case_json[] =
    "{\"file\": \"net.onnx\", \"rtol\": 0.001, \"atol\": 1e-6, \"sets\": ["
    "{\"inputs\": [{\"name\": \"x\", \"file\": \"in.npy\"}], \"outputs\": [{\"name\": \"a/y:0\", \"file\": "
    "\"out.npy\"}]},"
    "{\"inputs\": [{\"name\": \"x\", \"file\": \"in.b.npy\"}], \"outputs\": [{\"name\": \"a/y:0\", \"file\": "
    "\"out.b.npy\"}]}]}";

static void test_case_json(void **state) {
  fixture *f = *state;
  float values[2 * COLUMNS] = {1, 2, 3, 4, 5, 6, 7, 8}, wrong[2 * COLUMNS] = {1, 2, 3, 4, 5, 6, 7, 9};
  base_tensor one = row_of(values, COLUMNS), two = base_tensor_of(values, TD_F32, 2, (int64_t[]){2, COLUMNS});
  base_tensor off = base_tensor_of(wrong, TD_F32, 2, (int64_t[]){2, COLUMNS});
  make_folder("cases");
  make_folder("cases/pair");
  save_text("cases/pair/case.json", case_json);
  save_unary("cases/pair/net.onnx", "Identity", COLUMNS);
  save_npy("cases/pair/in.npy", &one);
  save_npy("cases/pair/out.npy", &one);
  save_npy("cases/pair/in.b.npy", &two);
  save_npy("cases/pair/out.b.npy", &two);
  assert_string_equal(run(f, "check cases").out, "ok pair\n1 passed, 0 failed, 0 skipped\n");
  save_npy("cases/pair/out.b.npy", &off);
  assert_holds(run(f, "check cases").out,
               "FAIL pair: set 1: output a/y:0: 1 of 8 elements differ; worst at [1,3]: got 8, ");
  static const char *const damaged[] = {"{", "{}", "{\"file\": \"net.onnx\"}", "{\"file\": \"net.onnx\", \"sets\": []}",
                                        "{\"file\": \"net.onnx\", \"outputs\": [{}]}"};
  for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
    save_text("cases/pair/case.json", damaged[i]);
    assert_holds(run(f, "check cases").out, "FAIL pair: bad file: ");
  }
  remove_cases(f);
}

/* A Loop of 2^62 turns: held -> -held. */
static void save_endless(const char *path) {
  int64_t turns = (int64_t)1 << 62, dims[] = {-1, COLUMNS};
  base_tensor trip = base_tensor_of(&turns, TD_I64, 0, NULL);
  base_text graph = {.allocator = &base_libc_allocator}, body = graph, attribute = graph, loop = graph,
            constant = graph;
  base_text node = node_of("Identity", "body/cond", "cond", "cond_out");
  put_message(&body, 1, &node);
  node = node_of("Neg", "body/keep", "held", "held_out");
  put_message(&body, 1, &node);
  fmt_put_str(&body, 2, "body");
  put_value(&body, 11, "i", TD_I64, 0, NULL);
  put_value(&body, 11, "cond", TD_BOOL, 0, NULL);
  put_value(&body, 11, "held", TD_F32, 2, dims);
  put_value(&body, 12, "cond_out", TD_BOOL, 0, NULL);
  put_value(&body, 12, "held_out", TD_F32, 2, dims);
  fmt_put_str(&attribute, 1, "body");
  put_message(&attribute, 6, &body);
  fmt_put_int(&attribute, 20, 5);
  fmt_put_str(&loop, 1, "turns");
  fmt_put_str(&loop, 1, "");
  fmt_put_str(&loop, 1, "x");
  fmt_put_str(&loop, 2, "a/y:0");
  fmt_put_str(&loop, 3, "/block/loop");
  fmt_put_str(&loop, 4, "Loop");
  put_message(&loop, 5, &attribute);
  put_message(&graph, 1, &loop);
  fmt_put_str(&graph, 2, "g");
  fmt_put_tensor_proto(&constant, "turns", &trip);
  put_message(&graph, 5, &constant);
  put_value(&graph, 11, "x", TD_F32, 2, dims);
  put_value(&graph, 12, "a/y:0", TD_F32, 2, dims);
  save_model(path, &graph);
}

/* What ends the process of a case is that case's failure, and the others are still run. */
static void test_endless_and_killed(void **state) {
  fixture *f = *state;
  save_cases(f);
  save_endless("cases/close/model.onnx");
  outcome got = run(f, "check cases --time-limit 1");
  assert_holds(got.out, "FAIL close: no resource: not done after 1 s (--time-limit)\nok good\n");
  assert_holds(got.out, "2 passed, 2 failed, 0 skipped\n");
  got = run_after(f, "ulimit -t 1;", "check cases --time-limit 60");
  assert_holds(got.out, "FAIL close: internal error: crashed: ");
  assert_holds(got.out, "ok good\n");
  assert_int_equal(got.status, 1);
  remove_cases(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_verdicts),
      cmocka_unit_test(test_json),
      cmocka_unit_test(test_skips),
      cmocka_unit_test(test_kinds_of_failure),
      cmocka_unit_test(test_special_values),
      cmocka_unit_test(test_case_json),
      cmocka_unit_test(test_endless_and_killed),
  };
  return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
