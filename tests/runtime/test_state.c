/* test_state.c -- session state: kept from run to run, apart for each session, and all or none of it changed. */
#include "runtime/harness.h"

static const char *const backends[] = {"eager", "aot_eager", "native"};
#define EACH_BACKEND(b) for (size_t b = 0; b < sizeof backends / sizeof *backends; b++)

static void expect_state(rig *r, run_session *session, uint32_t index, const char *expected) {
  const base_value *value;
  assert_int_equal(run_state_value(session, index, &value, &r->err), TD_OK);
  assert_int_equal(value->kind, BASE_TENSOR);
  expect_tensor(r, &value->tensor, expected);
}

/* A counter, two values that change places, a window that moves on, and one that nobody changes. */
static const char kept[] =
    "const %9: i64[] = {5}\n"
    "const %8: i64[] = {1}\n"
    "const %7: f32[2] = {1, 2}\n"
    "const %6: f32[2] = {3, 4}\n"
    "const %5: f32[4] = {0, 0, 0, 0}\n"
    "input %0 \"x\": f32[1]\n"
    "state %1 \"count\": i64[] = %9\n"
    "state %2 \"a\": f32[2] = %7\n"
    "state %3 \"b\": f32[2] = %6\n"
    "state %4 \"window\": f32[4] = %5\n"
    "state %10 \"still\": f32[2] = %7\n"
    "const %14: i64[1] = {1}\n"
    "const %18: i64[1] = {5}\n"
    "const %19: i64[1] = {0}\n"
    "%11 = aten::add(%1, %8)\n"
    "%12 = aten::cat(%4, %0) {dim = 0}\n"
    "%13 = aten::slice(%12, %14, %18, %19)\n"
    "%15 = aten::add(%2, %10)\n"
    "output \"before\" %1\n"
    "output \"sum\" %15\n"
    "output \"a\" %2\n"
    "store %1 = %11\n"
    "store %2 = %3\n"
    "store %3 = %2\n"
    "store %4 = %13\n";

static void keeps(void **state) {
  (void)state;
  EACH_BACKEND(b) {
    rig r;
    rig_open(&r, kept, backends[b]);
    uint64_t made = 0;
    for (int run = 0; run < 5; run++) {
      char expected[32];
      rig_feed(&r, 0, TD_F32, run % 2 ? "1: 7" : "1: 8");
      rig_run(&r);
      snprintf(expected, sizeof expected, ": %d", 5 + run);
      expect_output(&r, 0, expected);
      expect_output(&r, 1, run % 2 ? "2: 4 6" : "2: 2 4");
      expect_output(&r, 2, run % 2 ? "2: 3 4" : "2: 1 2");
      if (run == 2) made = r.counting.made;
    }
    assert_int_equal(r.counting.made, made); /* no allocation */
    expect_state(&r, r.session, 0, ": 10");
    expect_state(&r, r.session, 1, "2: 3 4");
    expect_state(&r, r.session, 2, "2: 1 2");
    expect_state(&r, r.session, 3, "4: 7 8 7 8");
    expect_state(&r, r.session, 4, "2: 1 2");
    assert_int_equal(run_reset_states(r.session, &r.err), TD_OK);
    expect_state(&r, r.session, 0, ": 5");
    expect_state(&r, r.session, 3, "4: 0 0 0 0");
    rig_run(&r);
    expect_output(&r, 0, ": 5");
    rig_close(&r);
  }
}

static void sessions_are_apart(void **state) {
  (void)state;
  rig r;
  run_session *other;
  rig_open(&r, kept, NULL);
  assert_int_equal(run_session_new(r.plan, &r.allocator, NULL, &other, &r.err), TD_OK);
  rig_feed(&r, 0, TD_F32, "1: 7");
  rig_run(&r);
  rig_run(&r);
  expect_state(&r, r.session, 0, ": 7");
  expect_state(&r, other, 0, ": 5");
  expect_state(&r, other, 3, "4: 0 0 0 0");
  run_session_free(other);
  rig_close(&r);
}

static void can_be_set(void **state) {
  (void)state;
  rig r;
  rig_open(&r, kept, NULL);
  base_value value = {.kind = BASE_TENSOR, .tensor = tensor_from(r.arena, TD_F32, "2: 9 10")};
  const base_value *unused;
  assert_int_equal(run_set_state(r.session, 1, &value, &r.err), TD_OK);
  expect_state(&r, r.session, 1, "2: 9 10");
  assert_int_equal(run_set_state(r.session, 3, &value, &r.err), TD_BAD_ARGUMENT);
  assert_string_equal(r.err.name, "window");
  assert_int_equal(run_set_state(r.session, 9, &value, &r.err), TD_BAD_ARGUMENT);
  assert_int_equal(run_state_value(r.session, 5, &unused, &r.err), TD_BAD_ARGUMENT);
  rig_feed(&r, 0, TD_F32, "1: 7");
  rig_run(&r);
  expect_output(&r, 1, "2: 10 12");
  rig_close(&r);
}

/* A cache that grows with each run, a list of all there was, and an optional that is there from the first run on. */
static const char growing[] =
    "const %5: f32[2, 0] = {}\n"
    "input %0 \"x\": f32[2, n]\n"
    "state %1 \"cache\": f32[2, past] = %5\n"
    "state %2 \"all\": list(f32[...]) = [%5]\n"
    "state %3 \"last\": optional(f32[...]) = -\n"
    "%6 = aten::cat(%1, %0) {dim = 1}\n"
    "%7 = aten::append(%2, %0)\n"
    "%8 = td::optional_new(%0)\n"
    "output \"y\" %6\n"
    "output \"all\" %7\n"
    "output \"before\" %3\n"
    "store %1 = %6\n"
    "store %2 = %7\n"
    "store %3 = %8\n";

static void grows(void **state) {
  (void)state;
  EACH_BACKEND(b) {
    rig r;
    rig_open(&r, growing, backends[b]);
    for (int run = 0; run < 20; run++) {
      rig_feed(&r, 0, TD_F32, run % 2 ? "2x1: 1" : "2x2: 1");
      rig_run(&r);
      assert_int_equal(rig_value(&r, 1)->list.count, run + 2);
      assert_int_equal(rig_value(&r, 2)->kind, run ? BASE_TENSOR : BASE_NOTHING);
      if (run == 1) expect_state(&r, r.session, 0, "2x3: 1 2 1 3 4 2");
    }
    assert_int_equal(rig_output(&r, 0)->dims[1], 30);
    expect_tensor(&r, &rig_value(&r, 1)->list.items[1].tensor, "2x2: 1 2 3 4");
    expect_tensor(&r, &rig_value(&r, 1)->list.items[20].tensor, "2x1: 1 2");
    expect_tensor(&r, &rig_value(&r, 2)->tensor, "2x2: 1 2 3 4");
    assert_int_equal(run_reset_states(r.session, &r.err), TD_OK);
    rig_run(&r);
    expect_output(&r, 0, "2x1: 1 2");
    assert_int_equal(rig_value(&r, 2)->kind, BASE_NOTHING);
    rig_close(&r);
  }
}

/* A value that is an output, too, stays where its step makes it, and is copied: what a run makes before it reads the
 * state lies there in the next one. */
static void outputs_are_copied(void **state) {
  (void)state;
  static const char text[] =
      "const %5: f32[0] = {}\n"
      "input %0 \"x\": f32[n]\n"
      "state %1 \"all\": f32[past] = %5\n"
      "%2 = aten::cat(%0, %0, %0, %0) {dim = 0}\n"
      "%4 = aten::sum(%2) {dim = [0], keepdim = false}\n"
      "%6 = aten::cat(%1, %0) {dim = 0}\n"
      "output \"sum\" %4\n"
      "output \"all\" %6\n"
      "store %1 = %6\n";
  EACH_BACKEND(b) {
    rig r;
    rig_open(&r, text, backends[b]);
    rig_feed(&r, 0, TD_F32, "8: 1 2 3 4 5 6 7 8");
    rig_run(&r);
    rig_run(&r);
    expect_state(&r, r.session, 0, "16: 1 2 3 4 5 6 7 8 1 2 3 4 5 6 7 8");
    rig_feed(&r, 0, TD_F32, "1: 9");
    rig_run(&r);
    expect_state(&r, r.session, 0, "17: 1 2 3 4 5 6 7 8 1 2 3 4 5 6 7 8 9");
    rig_close(&r);
  }
}

/* A state that grows, stays, and is nothing again: where the new value is made changes with its sizes from run to run,
 * the numbers do not. */
static void sizes_come_and_go(void **state) {
  (void)state;
  static const char text[] =
      "const %9: f32[0] = {}\n"
      "const %8: f32[1] = {1}\n"
      "const %10: i64[1] = {0}\n"
      "const %11: i64[1] = {3}\n"
      "input %0 \"x\": f32[n]\n"
      "state %1 \"cache\": f32[past] = %9\n"
      "%2 = aten::cat(%1, %0) {dim = 0}\n"
      "%3 = aten::slice(%2, %10, %11, %10)\n"
      "%4 = aten::add(%3, %8)\n"
      "output \"all\" %2\n"
      "store %1 = %4\n";
  static const struct {
    const char *x, *expected;
  } runs[] = {{"2: 1 2", "2: 2 3"},      {"0:", "2: 3 4"}, {"0:", "2: 4 5"}, {"1: 7", "3: 5 6 8"}, {"1: 3", "3: 6 7 9"},
              {"0:", "3: 7 8 10"},       {NULL, "0:"},     {"0:", "0:"},     {"2: 1 1", "2: 2 2"}, {"0:", "2: 3 3"},
              {"4: 1 2 3 4", "3: 4 4 2"}};
  EACH_BACKEND(b) {
    rig r;
    rig_open(&r, text, backends[b]);
    for (size_t k = 0; k < sizeof runs / sizeof *runs; k++) {
      if (runs[k].x) {
        rig_feed(&r, 0, TD_F32, runs[k].x);
        rig_run(&r);
      } else {
        assert_int_equal(run_reset_states(r.session, &r.err), TD_OK);
      }
      expect_state(&r, r.session, 0, runs[k].expected);
    }
    rig_close(&r);
  }
}

/* The last step fails: an index that is out of range. What came before it changed nothing. */
static void failure_changes_nothing(void **state) {
  (void)state;
  static const char text[] =
      "const %5: i64[] = {0}\n"
      "const %4: i64[] = {1}\n"
      "const %6: f32[3] = {1, 2, 3}\n"
      "input %0 \"at\": i64[1]\n"
      "state %1 \"count\": i64[] = %5\n"
      "%2 = aten::add(%1, %4)\n"
      "%3 = aten::index_select(%6, %0) {dim = 0}\n"
      "output \"y\" %3\n"
      "store %1 = %2\n";
  EACH_BACKEND(b) {
    rig r;
    rig_open(&r, text, backends[b]);
    rig_feed(&r, 0, TD_I64, "1: 2");
    rig_run(&r);
    rig_feed(&r, 0, TD_I64, "1: 9");
    assert_int_equal(run_session_run(r.session, &r.err), TD_BAD_ARGUMENT);
    expect_state(&r, r.session, 0, ": 1");
    rig_feed(&r, 0, TD_I64, "1: 0");
    rig_run(&r);
    expect_state(&r, r.session, 0, ": 2");
    rig_close(&r);
  }
}

/* What is stored does not have the size that the model says. */
static void misfit_is_refused(void **state) {
  (void)state;
  static const char text[] =
      "const %5: f32[2] = {0, 0}\n"
      "const %4: i64[] = {7}\n"
      "input %0 \"x\": f32[n]\n"
      "state %2 \"count\": i64[] = %4\n"
      "state %1 \"last\": f32[2] = %5\n"
      "output \"y\" %1\n"
      "%3 = aten::add(%2, %2)\n"
      "store %2 = %3\n"
      "store %1 = %0\n";
  rig r;
  rig_open(&r, text, NULL);
  rig_feed(&r, 0, TD_F32, "3: 1");
  assert_int_equal(run_session_run(r.session, &r.err), TD_BAD_ARGUMENT);
  assert_string_equal(r.err.name, "last");
  expect_state(&r, r.session, 0, ": 7");
  rig_feed(&r, 0, TD_F32, "2: 1");
  rig_run(&r);
  expect_state(&r, r.session, 1, "2: 1 2");
  expect_output(&r, 0, "2: 0 0");
  rig_close(&r);
}

/* Refuses one allocation after the other: each time all states are what they were. */
static void lack_of_memory_changes_nothing(void **state) {
  (void)state;
  rig r;
  rig_open(&r, growing, NULL);
  rig_feed(&r, 0, TD_F32, "2x2: 1");
  for (int run = 0; run < 12; run++) {
    const base_value *cache, *all;
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
      assert_int_equal(run_state_value(r.session, 0, &cache, &r.err), TD_OK);
      assert_int_equal(run_state_value(r.session, 1, &all, &r.err), TD_OK);
      assert_int_equal(cache->tensor.dims[1], 2 * run);
      assert_int_equal(all->list.count, run + 1);
      r.counting.fail_at = r.counting.made + n;
      const td_status status = run_session_run(r.session, &r.err);
      done = status == TD_OK;
      if (!done) assert_int_equal(status, TD_NO_RESOURCE);
      r.counting.fail_at = 0;
    }
  }
  rig_close(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keeps),
      cmocka_unit_test(sessions_are_apart),
      cmocka_unit_test(can_be_set),
      cmocka_unit_test(grows),
      cmocka_unit_test(sizes_come_and_go),
      cmocka_unit_test(outputs_are_copied),
      cmocka_unit_test(failure_changes_nothing),
      cmocka_unit_test(misfit_is_refused),
      cmocka_unit_test(lack_of_memory_changes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
