/* ctest: memory */
/* test_session.c -- sessions: shapes that come and go, control flow, lists, memory that is reused, errors. */
#include "runtime/harness.h"
#include "runtime/session_priv.h"

static const char *const backends[] = {"eager", "aot_eager", "native"};
#define EACH_BACKEND(b) for (size_t b = 0; b < sizeof backends / sizeof *backends; b++)

/* ---- no allocation while it runs ---- */

static const char pointwise[] =
    "input %0 \"x\": f32[n, m]\n"
    "const %1: i64[1] = {-1}\n"
    "%2 = aten::mul(%0, %0)\n"
    "%3 = aten::permute(%2) {dims = [1, 0]}\n"
    "%4 = aten::view(%3, %1)\n"
    "%5 = aten::add(%4, %4)\n"
    "output \"y\" %5\n";

static const char chosen[] =
    "input %0 \"x\": f32[n]\n"
    "const %1: f32[] = {2}\n"
    "%2 = aten::gt(%0, %1)\n"
    "%3 = aten::nonzero(%2)\n"
    "%4 = aten::cumsum(%3, %9)\n"
    "output \"y\" %4\n";

/* v = cat(v, x) while i < trips, and a list of what v was. */
static const char growing[] =
    "input %0 \"trips\": i64[]\n"
    "input %1 \"x\": f32[n]\n"
    "const %2: bool[] = {1}\n"
    "%3 = td::list_new() {dtype = f32}\n"
    "%4, %5 = prim::Loop(%0, -, %1, %3): f32[$u8], list(f32[...]) {\n"
    "  block(%6: i64[], %7: f32[$u9], %8: list(f32[...])) {\n"
    "    %9 = aten::cat(%7, %1) {dim = 0}\n"
    "    %10 = aten::append(%8, %7)\n"
    "    yield %2, %9, %10\n"
    "  }\n"
    "}\n"
    "output \"v\" %4\n"
    "output \"all\" %5\n";

static void runs_without_allocating(rig *r, const char *shape) {
  rig_run(r);
  uint64_t made = r->counting.made;
  for (int i = 0; i < 3; i++) {
    rig_feed(r, r->plan->inputs.count - 1, TD_F32, shape);
    rig_run(r);
  }
  assert_int_equal(r->counting.made, made);
}

static void allocates_nothing(void **state) {
  (void)state;
  rig r;
  char where[sizeof chosen + 40];
  snprintf(where, sizeof where, "const %%9: i64[] = {0}\n%s", chosen);
  EACH_BACKEND(b) {
    rig_open(&r, pointwise, backends[b]);
    rig_feed(&r, 0, TD_F32, "2x3: 1");
    runs_without_allocating(&r, "2x3: 1");
    expect_output(&r, 0, "6: 2 32 8 50 18 72");
    rig_close(&r);
    rig_open(&r, where, backends[b]);
    rig_feed(&r, 0, TD_F32, "4: 1 3 2 5");
    runs_without_allocating(&r, "4: 1 3 2 5");
    rig_close(&r);
    rig_open(&r, growing, backends[b]);
    rig_feed(&r, 0, TD_I64, ": 3");
    rig_feed(&r, 1, TD_F32, "2: 7");
    runs_without_allocating(&r, "2: 7");
    expect_output(&r, 0, "8: 7 8 7 8 7 8 7 8");
    assert_int_equal(rig_value(&r, 1)->list.count, 3);
    expect_tensor(&r, &rig_value(&r, 1)->list.items[1].tensor, "4: 7 8 7 8");
    rig_close(&r);
  }
}

/* ---- any alignment ---- */

/* Inputs and constants may lie at odd addresses, and constants may be turned: kernels never see it. */
static void odd_addresses(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"x\": f32[n, 3]\n"
      "const %1 \"w\": f32[3] = @0+1\n"
      "const %2 \"m\": f32[3, 2] = @0+13 strides [1, 3]\n"
      "%3 = aten::add(%0, %1)\n"
      "%4 = aten::matmul(%3, %2)\n"
      "%5 = aten::relu(%4)\n"
      "output \"y\" %5\n";
  static const float w[] = {1, 2, 3}, m[] = {1, 0, 2, -1, 1, 0}, x[] = {1, 1, 1, 2, 0, 1};
  static const int64_t dims[] = {2, 3};
  _Alignas(64) char bytes[64] = {0}, input[64];
  const ir_segment segment = {"bytes", bytes, sizeof bytes};
  memcpy(bytes + 1, w, sizeof w);
  memcpy(bytes + 13, m, sizeof m);
  EACH_BACKEND(b) for (size_t shift = 0; shift < 4; shift++) {
    rig r;
    rig_open_over(&r, text, &segment, backends[b], NULL);
    memcpy(input + shift, x, sizeof x);
    base_value value = {.kind = BASE_TENSOR, .tensor = base_tensor_of(input + shift, TD_F32, 2, dims)};
    assert_int_equal(run_set_input(r.session, 0, &value, &r.err), TD_OK);
    for (int run = 0; run < 2; run++) {
      rig_run(&r);
      expect_output(&r, 0, "2x2: 10 1 11 0");
    }
    rig_close(&r);
  }
}

/* ---- shapes ---- */

static void shapes_come_and_go(void **state) {
  (void)state;
  rig r;
  EACH_BACKEND(b) {
    rig_open(&r, pointwise, backends[b]);
    const char *const shapes[] = {"1x2: 1", "2x3: 1", "3x1: 1", "0x4:", "2x3: 1", "1x2: 1"};
    const char *const results[] = {"2: 2 8", "6: 2 32 8 50 18 72", "3: 2 8 18", "0:", "6: 2 32 8 50 18 72", "2: 2 8"};
    for (size_t i = 0; i < 6; i++) {
      rig_feed(&r, 0, TD_F32, shapes[i]);
      rig_run(&r);
      expect_output(&r, 0, results[i]);
    }
    uint64_t made = r.counting.made;
    for (size_t i = 0; i < 6; i++) {
      rig_feed(&r, 0, TD_F32, shapes[i]);
      rig_run(&r);
      expect_output(&r, 0, results[i]);
    }
    assert_int_equal(r.counting.made, made);
    rig_close(&r);
  }
}

static void more_shapes_than_are_kept(void **state) {
  (void)state;
  rig r;
  rig_open(&r, pointwise, NULL);
  for (int round = 0; round < 3; round++) {
    for (int n = 1; n <= 40; n++) {
      char shape[32], result[32];
      snprintf(shape, sizeof shape, "%dx1: 3 3 3", n);
      rig_feed(&r, 0, TD_F32, shape);
      rig_run(&r);
      snprintf(result, sizeof result, "%d:", n);
      const base_tensor *y = rig_output(&r, 0);
      assert_int_equal(y->dims[0], n);
      assert_true(base_load_f64(TD_F32, y->data, 0) == 18);
    }
  }
  assert_true(r.counting.live_bytes < 1 << 20);
  assert_int_equal(run_session_stats(r.session).runs, 120);
  rig_close(&r);
}

static void refuses_misfits(void **state) {
  (void)state;
  rig r;
  rig_open(
      &r,
      "input %0 \"x\": f32[n, 3]\ninput %1 \"y\": f32[n]\n%2 = aten::add(%0, %0)\noutput \"z\" %2\noutput \"w\" %1\n",
      NULL);
  const base_value *value;
  assert_int_equal(run_output(r.session, 0, &value, &r.err), TD_BAD_ARGUMENT);
  assert_int_equal(run_session_run(r.session, &r.err), TD_BAD_ARGUMENT);
  assert_string_equal(r.err.name, "x");
  assert_int_equal(rig_try_feed(&r, 2, TD_F32, "2x3"), TD_BAD_ARGUMENT);
  assert_int_equal(rig_try_feed(&r, 0, TD_F64, "2x3"), TD_BAD_ARGUMENT);
  assert_int_equal(rig_try_feed(&r, 0, TD_F32, "2"), TD_BAD_ARGUMENT);
  assert_int_equal(rig_try_feed(&r, 0, TD_F32, "2x4"), TD_BAD_ARGUMENT);
  base_value none = {.kind = BASE_NOTHING};
  assert_int_equal(run_set_input(r.session, 0, &none, &r.err), TD_BAD_ARGUMENT);
  rig_feed(&r, 0, TD_F32, "2x3");
  rig_feed(&r, 1, TD_F32, "4");
  assert_int_equal(run_session_run(r.session, &r.err), TD_BAD_ARGUMENT);
  assert_string_equal(r.err.name, "y");
  rig_feed(&r, 1, TD_F32, "2: 5");
  rig_run(&r);
  expect_output(&r, 0, "2x3: 2 4 6 8 10 12");
  expect_output(&r, 1, "2: 5 6");
  assert_int_equal(run_output(r.session, 2, &value, &r.err), TD_BAD_ARGUMENT);
  rig_close(&r);
}

static void defaults_stand_in(void **state) {
  (void)state;
  rig r;
  rig_open(&r, "const %1: f32[2] = {1, 2}\ninput %0 \"x\": f32[n] = %1\n%2 = aten::neg(%0)\noutput \"y\" %2\n", NULL);
  rig_run(&r);
  expect_output(&r, 0, "2: -1 -2");
  rig_feed(&r, 0, TD_F32, "3: 1");
  rig_run(&r);
  expect_output(&r, 0, "3: -1 -2 -3");
  rig_close(&r);
}

/* ---- outputs ---- */

static void outputs_of_every_kind(void **state) {
  (void)state;
  rig r;
  EACH_BACKEND(b) {
    rig_open(&r,
             "input %0 \"x\": f32[2, n]\n"
             "const %1: f32[2] = {5, 6}\n"
             "%2 = aten::permute(%0) {dims = [1, 0]}\n"
             "%3 = aten::relu(%0)\n"
             "%4 = aten::permute(%3) {dims = [1, 0]}\n"
             "output \"input\" %0\noutput \"again\" %0\noutput \"constant\" %1\noutput \"view\" %2\n"
             "output \"computed\" %3\noutput \"twice\" %3\noutput \"its view\" %4\n",
             backends[b]);
    for (int n = 3; n > 0; n--) {
      rig_feed(&r, 0, TD_F32, n == 3 ? "2x3: 1" : n == 2 ? "2x2: 1" : "2x1: 1");
      rig_run(&r);
      const char *plain = n == 3 ? "2x3: 1" : n == 2 ? "2x2: 1" : "2x1: 1";
      const char *turned = n == 3 ? "3x2: 1 4 2 5 3 6" : n == 2 ? "2x2: 1 3 2 4" : "1x2: 1 2";
      const char *const expected[] = {plain, plain, "2: 5 6", turned, plain, plain, turned};
      for (uint32_t i = 0; i < 7; i++) expect_output(&r, i, expected[i]);
    }
    rig_close(&r);
  }
}

/* ---- branches ---- */

static const char branches[] =
    "input %0 \"c\": bool[]\n"
    "input %1 \"x\": f32[2, n]\n"
    "const %2: i64[] = {0}\n"
    "%3 = prim::If(%0): f32[$u7, $u8] {\n"
    "  block() {\n"
    "    %4 = aten::nonzero(%1)\n"
    "    %5 = aten::_to_copy(%4) {dtype = f32}\n"
    "    %6 = aten::permute(%5) {dims = [1, 0]}\n"
    "    yield %6\n"
    "  }\n"
    "  block() {\n"
    "    yield %1\n"
    "  }\n"
    "}\n"
    "%7 = aten::neg(%3)\n"
    "output \"y\" %3\n"
    "output \"z\" %7\n";

/* A branch that gives a view with strides gives dense tensors outside. */
static void branches_of_other_shapes(void **state) {
  (void)state;
  rig r;
  EACH_BACKEND(b) {
    rig_open(&r, branches, backends[b]);
    for (int again = 0; again < 2; again++) {
      rig_feed(&r, 0, TD_BOOL, ": 1");
      rig_feed(&r, 1, TD_F32, "2x2: 0 1 1 1");
      rig_run(&r);
      expect_output(&r, 0, "2x3: 0 1 1 1 0 1");
      rig_feed(&r, 0, TD_BOOL, ": 0");
      rig_run(&r);
      expect_output(&r, 0, "2x2: 0 1 1 1");
      expect_output(&r, 1, "2x2: 0 -1 -1 -1");
    }
    rig_close(&r);
  }
}

/* ---- loops ---- */

static const char swap[] =
    "input %0 \"trips\": i64[]\n"
    "input %1 \"a\": f32[n]\n"
    "input %2 \"b\": f32[n]\n"
    "const %3: bool[] = {1}\n"
    "%4, %5, %6 = prim::Loop(%0, -, %1, %2, %1): f32[n], f32[n], f32[n] {\n"
    "  block(%7: i64[], %8: f32[n], %9: f32[n], %10: f32[n]) {\n"
    "    %11 = aten::add(%10, %8)\n"
    "    yield %3, %9, %8, %11\n"
    "  }\n"
    "}\n"
    "output \"a\" %4\noutput \"b\" %5\noutput \"sum\" %6\n";

static void carried_values_swap(void **state) {
  (void)state;
  rig r;
  EACH_BACKEND(b) {
    rig_open(&r, swap, backends[b]);
    rig_feed(&r, 1, TD_F32, "2: 1");
    rig_feed(&r, 2, TD_F32, "2: 10 20");
    const char *const trips[] = {": 0", ": 1", ": 2", ": 3", ": -1"};
    const char *const as[] = {"2: 1 2", "2: 10 20", "2: 1 2", "2: 10 20", "2: 1 2"};
    const char *const bs[] = {"2: 10 20", "2: 1 2", "2: 10 20", "2: 1 2", "2: 10 20"};
    const char *const sums[] = {"2: 1 2", "2: 2 4", "2: 12 24", "2: 13 26", "2: 1 2"};
    for (size_t i = 0; i < 5; i++) {
      rig_feed(&r, 0, TD_I64, trips[i]);
      rig_run(&r);
      expect_output(&r, 0, as[i]);
      expect_output(&r, 1, bs[i]);
      expect_output(&r, 2, sums[i]);
    }
    rig_close(&r);
  }
}

/* Views of carried values, planned and not, are what is carried next. */
static void carried_views(void **state) {
  (void)state;
  rig r;
  EACH_BACKEND(b) {
    rig_open(&r,
             "input %0 \"trips\": i64[]\n"
             "input %1 \"x\": f32[2, 2]\n"
             "const %2: bool[] = {1}\n"
             "%3 = aten::nonzero(%1)\n"
             "%4, %5 = prim::Loop(%0, -, %1, %3): f32[2, 2], i64[$u8, $u9] {\n"
             "  block(%6: i64[], %7: f32[2, 2], %8: i64[$u6, $u7]) {\n"
             "    %9 = aten::permute(%7) {dims = [1, 0]}\n"
             "    %10 = aten::permute(%8) {dims = [1, 0]}\n"
             "    yield %2, %9, %10\n"
             "  }\n"
             "}\n"
             "output \"x\" %4\noutput \"where\" %5\n",
             backends[b]);
    rig_feed(&r, 1, TD_F32, "2x2: 1 0 5 4");
    rig_feed(&r, 0, TD_I64, ": 1");
    rig_run(&r);
    expect_output(&r, 0, "2x2: 1 5 0 4");
    expect_output(&r, 1, "2x3: 0 1 1 0 0 1");
    rig_feed(&r, 0, TD_I64, ": 2");
    rig_run(&r);
    expect_output(&r, 0, "2x2: 1 0 5 4");
    expect_output(&r, 1, "3x2: 0 0 1 0 1 1");
    rig_close(&r);
  }
}

/* sum over i < n of (sum over k < n of (x + outer i)), the inner loop left by its condition. */
static void nested_loops(void **state) {
  (void)state;
  rig r;
  EACH_BACKEND(b) {
    rig_open(&r,
             "input %0 \"n\": i64[]\n"
             "input %1 \"x\": i64[m]\n"
             "const %2: bool[] = {1}\n"
             "const %3: i64[] = {1}\n"
             "%4 = prim::Loop(%0, %2, %1): i64[m] {\n"
             "  block(%5: i64[], %6: i64[m]) {\n"
             "    %7 = aten::add(%5, %3)\n"
             "    %8 = prim::Loop(-, %2, %6): i64[m] {\n"
             "      block(%9: i64[], %10: i64[m]) {\n"
             "        %11 = aten::add(%10, %5)\n"
             "        %12 = aten::lt(%9, %7)\n"
             "        %13 = aten::add(%11, %1)\n"
             "        yield %12, %13\n"
             "      }\n"
             "    }\n"
             "    yield %2, %8\n"
             "  }\n"
             "}\n"
             "output \"y\" %4\n",
             backends[b]);
    rig_feed(&r, 1, TD_I64, "2: 1 10");
    rig_feed(&r, 0, TD_I64, ": 3");
    rig_run(&r);
    /* the inner loop runs i + 2 times: 2 * (x + 0) + 3 * (x + 1) + 4 * (x + 2) more */
    expect_output(&r, 0, "2: 21 111");
    rig_feed(&r, 0, TD_I64, ": 0");
    rig_run(&r);
    expect_output(&r, 0, "2: 1 10");
    rig_close(&r);
  }
}

/* Far more garbage than may lie about: a value grows by one element per trip, through a megabyte of others. */
static void long_loops_tidy_up(void **state) {
  (void)state;
  rig r;
  EACH_BACKEND(b) {
    rig_open(&r, growing, backends[b]);
    enum { TRIPS = 1500 };
    rig_feed(&r, 0, TD_I64, ": 1500");
    rig_feed(&r, 1, TD_F32, "1: 3");
    rig_run(&r);
    const base_tensor *v = rig_output(&r, 0);
    assert_int_equal(v->dims[0], TRIPS + 1);
    for (int i = 0; i <= TRIPS; i++) assert_true(base_load_f64(TD_F32, v->data, i) == 3);
    const base_value *all = rig_value(&r, 1);
    assert_int_equal(all->list.count, TRIPS);
    for (int i = 0; i < TRIPS; i++) {
      assert_int_equal(all->list.items[i].tensor.dims[0], i + 1);
      assert_true(base_load_f64(TD_F32, all->list.items[i].tensor.data, i) == 3);
    }
    rig_close(&r);
  }
}

/* Only what is carried is kept: the tail stays near the size of the carried value. */
static void garbage_does_not_pile_up(void **state) {
  (void)state;
  rig r;
  rig_open(&r,
           "input %0 \"trips\": i64[]\n"
           "input %1 \"x\": f32[n]\n"
           "const %2: bool[] = {1}\n"
           "%3 = aten::nonzero(%1)\n"
           "%4 = prim::Loop(%0, -, %3): i64[$u7, $u8] {\n"
           "  block(%5: i64[], %6: i64[$u5, $u6]) {\n"
           "    %7 = aten::add(%6, %5)\n"
           "    yield %2, %7\n"
           "  }\n"
           "}\n"
           "output \"y\" %4\n",
           NULL);
  rig_feed(&r, 0, TD_I64, ": 400");
  rig_feed(&r, 1, TD_F32, "5000: 1");
  rig_run(&r);
  const base_tensor *y = rig_output(&r, 0);
  assert_int_equal(y->dims[0], 5000);
  for (int64_t i = 0; i < 5000; i++) assert_int_equal(base_load_i64(TD_I64, y->data, i), i + 400 * 399 / 2);
  assert_true(run_session_stats(r.session).tail_peak < 4 << 20);
  rig_close(&r);
}

/* What is said of a carried value in the loop and behind it may differ: where one of them is open, both are. */
static void carried_types_may_be_open(void **state) {
  (void)state;
  static const char *const types[][2] = {{"f32[2]", "f32[...]"}, {"f32[...]", "f32[2]"}, {"f32[2]", "f32[2]"}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    rig r;
    char text[512];
    snprintf(text, sizeof text,
             "input %%0 \"trips\": i64[]\n"
             "input %%1 \"x\": f32[2]\n"
             "const %%2: bool[] = {1}\n"
             "%%3 = prim::Loop(%%0, -, %%1): %s {\n"
             "  block(%%4: i64[], %%5: %s) {\n"
             "    %%6 = aten::add(%%5, %%5)\n"
             "    yield %%2, %%6\n"
             "  }\n"
             "}\n"
             "%%7 = aten::neg(%%3)\n"
             "output \"y\" %%7\n",
             types[i][0], types[i][1]);
    rig_open(&r, text, NULL);
    rig_feed(&r, 0, TD_I64, ": 3");
    rig_feed(&r, 1, TD_F32, "2: 1");
    rig_run(&r);
    expect_output(&r, 0, "2: -8 -16");
    rig_close(&r);
  }
}

/* Strings that the first trip makes are carried through a loop that tidies up: they keep their bytes. */
static void strings_are_carried(void **state) {
  (void)state;
  rig r;
  rig_open(&r,
           "input %0 \"trips\": i64[]\n"
           "input %1 \"x\": i64[n]\n"
           "const %2: bool[] = {1}\n"
           "const %3: i64[] = {0}\n"
           "%4 = aten::nonzero(%1)\n"
           "%5 = aten::_to_copy(%4) {dtype = string}\n"
           "%6 = prim::Loop(%0, -, %5): string[$u5, $u6] {\n"
           "  block(%7: i64[], %8: string[$u7, $u8]) {\n"
           "    %9 = aten::add(%4, %7)\n"
           "    %10 = aten::_to_copy(%9) {dtype = string}\n"
           "    %11 = aten::eq(%7, %3)\n"
           "    %12 = prim::If(%11): string[$u9, $u10] {\n"
           "      block() {\n"
           "        yield %10\n"
           "      }\n"
           "      block() {\n"
           "        yield %8\n"
           "      }\n"
           "    }\n"
           "    yield %2, %12\n"
           "  }\n"
           "}\n"
           "output \"s\" %6\n",
           NULL);
  rig_feed(&r, 0, TD_I64, ": 30");
  rig_feed(&r, 1, TD_I64, "3000: 1");
  rig_run(&r);
  const base_tensor *s = rig_output(&r, 0);
  for (int i = 0; i < 3000; i++) {
    char text[32];
    snprintf(text, sizeof text, "%d", i);
    base_str got = ((const base_str *)s->data)[i];
    if (!base_str_is(got, text)) fail_msg("string %d is %.*s", i, (int)got.length, got.at);
  }
  rig_close(&r);
}

/* ---- memory that is reused ---- */

/* Chains, diamonds, views, branches and loops over values that die and live on: every backend gives the same bits. */
static const char reuse[] =
    "input %0 \"x\": f32[2, n]\n"
    "input %1 \"c\": bool[]\n"
    "const %2: i64[1] = {-1}\n"
    "const %3: i64[] = {4}\n"
    "const %4: bool[] = {1}\n"
    "%5 = aten::mul(%0, %0)\n"
    "%6 = aten::add(%5, %0)\n"
    "%7 = aten::sub(%5, %6)\n"
    "%8 = aten::view(%7, %2)\n"
    "%9 = aten::neg(%7)\n"
    "%10 = aten::exp(%8)\n"
    "%11 = aten::add(%8, %10)\n"
    "%12 = aten::mul(%11, %11)\n"
    "%13 = prim::If(%1): f32[mul(2, n)] {\n"
    "  block() {\n"
    "    %14 = aten::add(%12, %11)\n"
    "    %15 = aten::neg(%14)\n"
    "    yield %15\n"
    "  }\n"
    "  block() {\n"
    "    %16 = aten::sin(%12)\n"
    "    yield %16\n"
    "  }\n"
    "}\n"
    "%17 = aten::cos(%13)\n"
    "%18, %19 = prim::Loop(%3, -, %17, %9): f32[mul(2, n)], f32[2, n] {\n"
    "  block(%20: i64[], %21: f32[mul(2, n)], %22: f32[2, n]) {\n"
    "    %23 = aten::mul(%21, %12)\n"
    "    %24 = aten::add(%23, %21)\n"
    "    %25 = aten::neg(%24)\n"
    "    %26 = aten::add(%22, %9)\n"
    "    %27 = aten::relu(%26)\n"
    "    yield %4, %25, %27\n"
    "  }\n"
    "}\n"
    "%28 = aten::add(%18, %12)\n"
    "%29 = aten::tanh(%18)\n"
    "%30 = aten::sub(%19, %6)\n"
    "output \"a\" %28\noutput \"b\" %29\noutput \"c\" %30\noutput \"d\" %17\n";

static void reuse_changes_no_bit(void **state) {
  (void)state;
  rig truth, fast;
  rig_open(&truth, reuse, "eager");
  rig_open(&fast, reuse, "aot_eager");
  for (int choice = 0; choice < 4; choice++) {
    rig *both[] = {&truth, &fast};
    for (int k = 0; k < 2; k++) {
      rig_feed(both[k], 0, TD_F32, choice < 2 ? "2x5: 0.5 -0.25 0.125 -1 1 0.75 0.3" : "2x1: 0.5 -3");
      rig_feed(both[k], 1, TD_BOOL, choice % 2 ? ": 1" : ": 0");
      rig_run(both[k]);
    }
    for (uint32_t i = 0; i < 4; i++) {
      const base_tensor *a = rig_output(&truth, i), *b = rig_output(&fast, i);
      assert_int_equal(base_tensor_bytes(a), base_tensor_bytes(b));
      assert_memory_equal(a->data, b->data, base_tensor_bytes(a));
    }
  }
  assert_true(run_session_stats(fast.session).arena_bytes <= run_session_stats(truth.session).arena_bytes);
  rig_close(&truth);
  rig_close(&fast);
}

/* ---- errors ---- */

static void errors_name_the_node(void **state) {
  (void)state;
  rig r;
  EACH_BACKEND(b) {
    rig_open(&r,
             "input %0 \"x\": f32[n]\n"
             "input %1 \"i\": i64[m]\n"
             "input %2 \"c\": bool[k]\n"
             "%3 = aten::index_select(%0, %1)  # \"node /pick (Gather)\"\n"
             "%4 = prim::If(%2): f32[m] {  # \"node /choose (If)\"\n"
             "  block() {\n"
             "    yield %3\n"
             "  }\n"
             "  block() {\n"
             "    %5 = aten::neg(%3)\n"
             "    yield %5\n"
             "  }\n"
             "}\n"
             "output \"y\" %4\n",
             backends[b]);
    rig_feed(&r, 0, TD_F32, "3: 1");
    rig_feed(&r, 1, TD_I64, "2: 0 2");
    rig_feed(&r, 2, TD_BOOL, "1: 0");
    rig_run(&r);
    expect_output(&r, 0, "2: -1 -3");
    rig_feed(&r, 1, TD_I64, "2: 0 3");
    assert_int_equal(run_session_run(r.session, &r.err), TD_BAD_ARGUMENT);
    assert_string_equal(r.err.name, "node /pick (Gather)");
    const base_value *value;
    assert_int_equal(run_output(r.session, 0, &value, &r.err), TD_BAD_ARGUMENT);
    rig_feed(&r, 1, TD_I64, "2: 0 1");
    rig_feed(&r, 2, TD_BOOL, "2: 0 1");
    assert_int_equal(run_session_run(r.session, &r.err), TD_BAD_ARGUMENT);
    assert_string_equal(r.err.name, "node /choose (If)");
    rig_feed(&r, 2, TD_BOOL, "1: 1");
    rig_run(&r);
    expect_output(&r, 0, "2: 1 2");
    rig_close(&r);
  }
}

/* The number of columns comes from the data, that of the result does not: every run compares them with the weights. */
static void sizes_from_data_misfit(void **state) {
  (void)state;
  rig r;
  EACH_BACKEND(b) {
    rig_open(&r,
             "input %0 \"x\": f32[4]\n"
             "const %1: f32[3, 2] = {1, 2, 3, 4, 5, 6}\n"
             "%2 = aten::nonzero(%0)\n"
             "%3 = aten::permute(%2) {dims = [1, 0]}\n"
             "%4 = aten::_to_copy(%3) {dtype = f32}\n"
             "%5 = aten::matmul(%4, %1)\n"
             "output \"y\" %5\n",
             backends[b]);
    for (int round = 0; round < 2; round++) {
      rig_feed(&r, 0, TD_F32, "4: 1 1 0 1");
      rig_run(&r);
      expect_output(&r, 0, "1x2: 18 22");
      rig_feed(&r, 0, TD_F32, "4: 1 1 1 1");
      assert_int_not_equal(run_session_run(r.session, &r.err), TD_OK);
    }
    rig_close(&r);
  }
}

/* As thousands of sequences of a server have: each has address space, as far as there is some to give. (The thread
 * sanitizer leaves programs 1.5 TiB.) */
static void many_stacks_at_once(void **state) {
  (void)state;
#if defined(__SANITIZE_THREAD__)
  enum { STACKS = 64 };
#else
  enum { STACKS = 3000 };
#endif
  run_stack *all = calloc(STACKS, sizeof *all);
  assert_non_null(all);
  td_error err;
  for (int i = 0; i < STACKS; i++)
    if (run_stack_open(&all[i], &err) != TD_OK) fail_msg("stack %d: %s", i, err.text);
  const size_t whole = all[0].size;
  for (int i = 0; i < STACKS; i++) {
    assert_true(all[i].size == whole);
    run_stack_close(&all[i]);
  }
  free(all);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(allocates_nothing),
      cmocka_unit_test(odd_addresses),
      cmocka_unit_test(shapes_come_and_go),
      cmocka_unit_test(more_shapes_than_are_kept),
      cmocka_unit_test(refuses_misfits),
      cmocka_unit_test(sizes_from_data_misfit),
      cmocka_unit_test(defaults_stand_in),
      cmocka_unit_test(outputs_of_every_kind),
      cmocka_unit_test(branches_of_other_shapes),
      cmocka_unit_test(carried_values_swap),
      cmocka_unit_test(carried_views),
      cmocka_unit_test(nested_loops),
      cmocka_unit_test(long_loops_tidy_up),
      cmocka_unit_test(garbage_does_not_pile_up),
      cmocka_unit_test(carried_types_may_be_open),
      cmocka_unit_test(strings_are_carried),
      cmocka_unit_test(reuse_changes_no_bit),
      cmocka_unit_test(errors_name_the_node),
      cmocka_unit_test(many_stacks_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
