/* test_outputs.c -- outputs in the caller's memory and inputs of any strides: the same values as without, no copy where
 * none is needed, no allocation while it runs, errors by name. */
#include "runtime/harness.h"

static const char *const backends[] = {"eager", "aot_eager", "native"};
#define EACH_BACKEND(b) for (size_t b = 0; b < sizeof backends / sizeof *backends; b++)

static void bind(rig *r, uint32_t output, const base_tensor *memory) {
  if (run_bind_output(r->session, output, memory, &r->err) != TD_OK) fail_msg("%s", r->err.text);
}

static bool refused(rig *r, td_status status, const char *words) {
  if (status == TD_BAD_ARGUMENT && strstr(r->err.text, words)) return true;
  print_message("status %d: %s\n", (int)status, r->err.text);
  return false;
}

/* Where the steps of output `index` wrote. */
static const void *written_to(rig *r, uint32_t index) {
  return run_slot(r->session, r->plan->outputs.at[index].slot)->tensor.data;
}

static const char two[] =
    "input %0 \"x\": f32[n, m]\n"
    "const %1: i64[1] = {-1}\n"
    "%2 = aten::mul(%0, %0)\n"
    "%3 = aten::permute(%2) {dims = [1, 0]}\n"
    "%4 = aten::view(%3, %1)\n"
    "%5 = aten::add(%4, %4)\n"
    "output \"y\" %5\n"
    "output \"z\" %2\n";

static void writes_straight_into_memory(void **state) {
  (void)state;
  EACH_BACKEND(b) {
    rig r;
    rig_open(&r, two, backends[b]);
    base_tensor y = tensor_from(r.arena, TD_F32, "6: 0"), z = tensor_from(r.arena, TD_F32, "2x3: 0");
    rig_feed(&r, 0, TD_F32, "2x3: 1");
    bind(&r, 0, &y);
    bind(&r, 1, &z);
    rig_run(&r);
    expect_tensor(&r, &y, "6: 2 32 8 50 18 72");
    expect_tensor(&r, &z, "2x3: 1 4 9 16 25 36");
    assert_true(written_to(&r, 0) == y.data && written_to(&r, 1) == z.data);
    assert_true(rig_output(&r, 0)->data == y.data);
    uint64_t made = r.counting.made;
    base_tensor other = tensor_from(r.arena, TD_F32, "6: 0");
    bind(&r, 0, &other);
    rig_feed(&r, 0, TD_F32, "2x3: 2");
    rig_run(&r);
    expect_tensor(&r, &other, "6: 8 50 18 72 32 98");
    expect_tensor(&r, &y, "6: 2 32 8 50 18 72");
    bind(&r, 0, NULL);
    bind(&r, 1, NULL);
    rig_run(&r);
    assert_int_equal(r.counting.made, made);
    expect_output(&r, 0, "6: 8 50 18 72 32 98");
    assert_true(rig_output(&r, 0)->data != other.data && rig_output(&r, 1)->data != z.data);
    rig_close(&r);
  }
}

/* Sizes that come and go: each binding places the outputs anew. */
static void follows_the_shapes(void **state) {
  (void)state;
  EACH_BACKEND(b) {
    rig r;
    rig_open(&r, two, backends[b]);
    base_tensor small = tensor_from(r.arena, TD_F32, "2: 0"), large = tensor_from(r.arena, TD_F32, "6: 0");
    for (int turn = 0; turn < 3; turn++) {
      bind(&r, 0, &small);
      rig_feed(&r, 0, TD_F32, "1x2: 1");
      rig_run(&r);
      expect_tensor(&r, &small, "2: 2 8");
      rig_feed(&r, 0, TD_F32, "2x3: 1");
      assert_true(refused(&r, run_session_run(r.session, &r.err), "output y has 6 as dimension 0"));
      bind(&r, 0, &large);
      rig_run(&r);
      expect_tensor(&r, &large, "6: 2 32 8 50 18 72");
      expect_output(&r, 1, "2x3: 1 4 9 16 25 36");
    }
    rig_close(&r);
  }
}

/* A constant, a view of another output, an input handed through, and what only running can size. */
static const char awkward[] =
    "input %0 \"x\": f32[n]\n"
    "const %1: f32[2] = {5, 7}\n"
    "const %2: i64[2] = {1, -1}\n"
    "%3 = aten::neg(%0)\n"
    "%4 = aten::view(%3, %2)\n"
    "%5 = aten::nonzero(%0)\n"
    "output \"constant\" %1\n"
    "output \"flat\" %3\n"
    "output \"rows\" %4\n"
    "output \"same\" %0\n"
    "output \"found\" %5\n";

static void copies_where_it_must(void **state) {
  (void)state;
  static const char *const empty[] = {"2: 0 0", "3: 0", "1x3: 0", "3: 0", "2x1: 0"};
  static const char *const want[] = {"2: 5 7", "3: -1 0 -2", "1x3: -1 0 -2", "3: 1 0 2", "2x1: 0 2"};
  EACH_BACKEND(b) {
    rig r;
    rig_open(&r, awkward, backends[b]);
    base_tensor to[5];
    for (uint32_t i = 0; i < 5; i++) {
      to[i] = tensor_from(r.arena, i == 4 ? TD_I64 : TD_F32, empty[i]);
      bind(&r, i, &to[i]);
    }
    rig_feed(&r, 0, TD_F32, "3: 1 0 2");
    for (int turn = 0; turn < 2; turn++) {
      rig_run(&r);
      for (uint32_t i = 0; i < 5; i++) expect_tensor(&r, &to[i], want[i]);
    }
    rig_feed(&r, 0, TD_F32, "3: 1 3 2");
    assert_true(refused(&r, run_session_run(r.session, &r.err), "output found has 3 as dimension 0"));
    rig_close(&r);
  }
}

/* y = x + sum(x) over the memory of x: nothing of x may be lost before it is read. */
static const char feedback[] =
    "input %0 \"x\": f32[n]\n"
    "%1 = aten::neg(%0)\n"
    "%2 = aten::neg(%1)\n"
    "%3 = aten::flip(%2) {dims = [0]}\n"
    "%4 = aten::sub(%3, %0)\n"
    "output \"next\" %2\n"
    "output \"y\" %4\n";

static void may_replace_an_input(void **state) {
  (void)state;
  EACH_BACKEND(b) {
    rig r;
    rig_open(&r, feedback, backends[b]);
    base_value x = {.kind = BASE_TENSOR, .tensor = tensor_from(r.arena, TD_F32, "3: 1 2 5")};
    assert_int_equal(run_set_input(r.session, 0, &x, &r.err), TD_OK);
    bind(&r, 1, &x.tensor);
    rig_run(&r);
    expect_tensor(&r, &x.tensor, "3: 4 0 -4");
    rig_run(&r);
    expect_tensor(&r, &x.tensor, "3: -8 0 8");
    bind(&r, 0, &x.tensor);
    assert_true(refused(&r, run_session_run(r.session, &r.err), "same memory"));
    rig_close(&r);
  }
}

/* A cache of rows in the memory of its past: the new row is written there, nothing else, and nothing is copied. */
static void writes_new_rows_into_a_cache(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"x\": f32[1, 1, 2]\n"
      "input %1 \"past\": f32[1, 1, 3, 2]\n"
      "input %2 \"last\": i64[1]\n"
      "input %3 \"mask\": f32[t]\n"
      "%4 = td::shape(%3)\n"
      "%5 = td::cache_rows(%0, %4, %2, %1) {heads = 1}\n"
      "output \"present\" %5\n";
  EACH_BACKEND(b) {
    rig r;
    rig_open(&r, text, backends[b]);
    base_value cache = {.kind = BASE_TENSOR, .tensor = tensor_from(r.arena, TD_F32, "1x1x3x2: 1 2 3 4 5 6")};
    assert_int_equal(run_set_input(r.session, 1, &cache, &r.err), TD_OK);
    rig_feed(&r, 0, TD_F32, "1x1x2: 8 9");
    rig_feed(&r, 2, TD_I64, "1: 1");
    rig_feed(&r, 3, TD_F32, "2: 0");
    rig_run(&r);
    expect_output(&r, 0, "1x1x3x2: 1 2 8 9 0 0"); /* memory of its own: zeros behind */
    expect_tensor(&r, &cache.tensor, "1x1x3x2: 1 2 3 4 5 6");
    bind(&r, 0, &cache.tensor);
    rig_run(&r);
    const bool native = strcmp(backends[b], "native") == 0;
    expect_tensor(&r, &cache.tensor, native ? "1x1x3x2: 1 2 8 9 5 6" : "1x1x3x2: 1 2 8 9 0 0");
    assert_true((written_to(&r, 0) == cache.tensor.data) == native);
    rig_close(&r);
  }
}

/* What is read behind the step that would overwrite it is not. */
static void keeps_what_is_read_later(void **state) {
  (void)state;
  static const char *const texts[] = {
      "input %0 \"x\": f32[3]\n"
      "%1 = aten::exp(%0)\n"
      "%2 = aten::flip(%1) {dims = [0]}\n"
      "%3 = aten::flip(%0) {dims = [0]}\n"
      "output \"y\" %1\n"
      "output \"z\" %2\n"
      "output \"w\" %3\n",
      "input %0 \"x\": f32[3]\n"
      "const %1: i64[1] = {0}\n"
      "%2 = aten::unsqueeze(%0, %1)\n"
      "%3 = aten::exp(%0)\n"
      "output \"y\" %3\n"
      "output \"z\" %3\n"
      "output \"w\" %2\n"};
  static const char *const wanted[] = {"3: 0 0 1", "1x3: 1 0 0"};
  for (size_t i = 0; i < 2; i++) EACH_BACKEND(b) {
      rig r;
      rig_open(&r, texts[i], backends[b]);
      base_value x = {.kind = BASE_TENSOR, .tensor = tensor_from(r.arena, TD_F32, "3: 1 0 0")};
      assert_int_equal(run_set_input(r.session, 0, &x, &r.err), TD_OK);
      bind(&r, 0, &x.tensor);
      rig_run(&r);
      expect_output(&r, 2, wanted[i]);
      rig_close(&r);
    }
}

static void refuses_memory_that_does_not_fit(void **state) {
  (void)state;
  rig r;
  rig_open(&r, "input %0 \"x\": f32[n, 3]\n%1 = aten::neg(%0)\noutput \"y\" %1\n", "native");
  base_tensor wrong[] = {tensor_from(r.arena, TD_F64, "2x3: 0"), tensor_from(r.arena, TD_F32, "6: 0"),
                         tensor_from(r.arena, TD_F32, "2x4: 0")};
  static const char *const words[] = {"output y is f32", "output y has rank 2", "output y has 3 as dimension 1"};
  for (size_t i = 0; i < 3; i++) {
    assert_true(refused(&r, run_bind_output(r.session, 0, &wrong[i], &r.err), words[i]));
    assert_string_equal(r.err.name, "y");
  }
  assert_true(refused(&r, run_bind_output(r.session, 1, &wrong[0], &r.err), "there is no output 1"));
  base_tensor open = tensor_from(r.arena, TD_F32, "4x3: 0");
  bind(&r, 0, &open);
  rig_feed(&r, 0, TD_F32, "2x3: 1");
  assert_true(refused(&r, run_session_run(r.session, &r.err), "output y has 2 as dimension 0"));
  rig_close(&r);
}

/* Odd addresses are written by copy. */
static void takes_any_alignment(void **state) {
  (void)state;
  EACH_BACKEND(b) {
    rig r;
    rig_open(&r, two, backends[b]);
    base_tensor room = tensor_from(r.arena, TD_F32, "8: 0"), y = tensor_from(r.arena, TD_F32, "6: 0");
    y.data = (char *)room.data + 1;
    bind(&r, 0, &y);
    rig_feed(&r, 0, TD_F32, "2x3: 1");
    rig_run(&r);
    expect_tensor(&r, &y, "6: 2 32 8 50 18 72");
    rig_close(&r);
  }
}

static void predicts(void **state) {
  (void)state;
  EACH_BACKEND(b) {
    rig r;
    bool known;
    base_tensor t;
    rig_open(&r, awkward, backends[b]);
    assert_true(refused(&r, run_predict_output(r.session, 1, &t, &known, &r.err), "input x was not set"));
    rig_feed(&r, 0, TD_F32, "3: 1 0 2");
    assert_int_equal(run_predict_output(r.session, 2, &t, &known, &r.err), TD_OK);
    assert_true(known && t.dtype == TD_F32 && t.rank == 2 && t.dims[0] == 1 && t.dims[1] == 3 && !t.data);
    assert_int_equal(run_predict_output(r.session, 4, &t, &known, &r.err), TD_OK);
    assert_false(known);
    assert_true(refused(&r, run_predict_output(r.session, 5, &t, &known, &r.err), "there is no output 5"));
    rig_run(&r);
    expect_output(&r, 2, "1x3: -1 0 -2");
    rig_close(&r);
  }
}

/* ---- strides of inputs ---- */

static void takes_strides(void **state) {
  (void)state;
  EACH_BACKEND(b) {
    rig r;
    rig_open(&r, two, backends[b]);
    base_tensor whole = tensor_from(r.arena, TD_F32, "3x4: 1");
    base_value x = {.kind = BASE_TENSOR, .tensor = {.dtype = TD_F32, .rank = 2, .dims = {2, 3}}};
    x.tensor.data = (char *)whole.data + 3 * sizeof(float); /* element 3 = 4, columns of `whole` backwards */
    x.tensor.strides[0] = -1;
    x.tensor.strides[1] = 4;
    assert_int_equal(run_set_input(r.session, 0, &x, &r.err), TD_OK);
    rig_run(&r);
    expect_output(&r, 1, "2x3: 16 64 144 9 49 121");
    uint64_t made = r.counting.made;
    x.tensor.strides[0] = x.tensor.strides[1] = 0;
    assert_int_equal(run_set_input(r.session, 0, &x, &r.err), TD_OK);
    rig_run(&r);
    expect_output(&r, 1, "2x3: 16 16 16 16 16 16");
    assert_int_equal(r.counting.made, made);
    rig_feed(&r, 0, TD_F32, "2x3: 1");
    rig_run(&r);
    expect_output(&r, 1, "2x3: 1 4 9 16 25 36");
    rig_close(&r);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(writes_straight_into_memory),
                                     cmocka_unit_test(follows_the_shapes),
                                     cmocka_unit_test(copies_where_it_must),
                                     cmocka_unit_test(may_replace_an_input),
                                     cmocka_unit_test(writes_new_rows_into_a_cache),
                                     cmocka_unit_test(keeps_what_is_read_later),
                                     cmocka_unit_test(refuses_memory_that_does_not_fit),
                                     cmocka_unit_test(takes_any_alignment),
                                     cmocka_unit_test(predicts),
                                     cmocka_unit_test(takes_strides)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
