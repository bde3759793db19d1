/* test_held.c -- what lists hold, tasks give and loops carry on: shared, and written in its place, where nobody can
 * tell; the same values as of copies. */
/* ctest: threads */
#include "runtime/harness.h"
#include "runtime/session_priv.h"

#include <time.h>

static bool is_output_of(const rig *r, const plan_step *s, uint32_t slot) {
  for (uint32_t k = 0; k < s->out_count; k++)
    if (r->plan->operands.at[s->out + k] == slot) return true;
  return false;
}

/* Values that the only loop carries which its turns write in their place. */
static uint32_t renewed(const rig *r) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < r->plan->steps.count; i++) {
    const plan_step *s = &r->plan->steps.at[i];
    if (s->kind != PLAN_LOOP) continue;
    const plan_block *b = &r->plan->blocks.at[s->block];
    for (uint32_t k = 1; k < b->param_count; k++) {
      const uint32_t slot = r->plan->operands.at[b->results + k];
      for (uint32_t t = b->first; t < b->end; t++)
        count += is_output_of(r, &r->plan->steps.at[t], slot) &&
                 r->plan->slots.at[slot].root == r->plan->operands.at[b->params + k];
    }
  }
  return count;
}

/* Runs `text` on eager and native with `trips` turns and x = 1, 2, 3, ...; leaves the native one in *r. */
static void run_both(rig *r, const char *text, const char *trips, const char *x) {
  rig truth;
  rig_open(&truth, text, "eager");
  rig_open(r, text, "native");
  for (int run = 0; run < 3; run++) {
    rig_feed(&truth, 0, TD_I64, trips);
    rig_feed(&truth, 1, TD_F32, x);
    rig_feed(r, 0, TD_I64, trips);
    rig_feed(r, 1, TD_F32, x);
    rig_run(&truth);
    rig_run(r);
    for (uint32_t i = 0; i < r->plan->outputs.count; i++) {
      if (rig_value(r, i)->kind != BASE_TENSOR) continue;
      const base_tensor *want = rig_output(&truth, i), *got = rig_output(r, i);
      assert_int_equal(base_tensor_bytes(want), base_tensor_bytes(got));
      assert_memory_equal(want->data, got->data, base_tensor_bytes(want)); /* integers: exact */
    }
  }
  rig_close(&truth);
}

/* Each turn appends what it made, and reads what the first one made; the value that it goes on with is another. */
static const char appends[] =
    "input %0 \"trips\": i64[]\n"
    "input %1 \"x\": f32[128, 64]\n"
    "const %2: bool[] = {1}\n"
    "const %3: i64[] = {0}\n"
    "%4 = td::list_new(%1)\n"
    "%5, %6 = prim::Loop(%0, -, %1, %4): f32[128, 64], list(f32[128, 64]) {\n"
    "  block(%7: i64[], %8: f32[128, 64], %9: list(f32[128, 64])) {\n"
    "    %10 = td::list_at(%9, %3)\n"
    "    %11 = aten::add(%8, %10)\n"
    "    %12 = aten::neg(%11)\n"
    "    %13 = aten::append(%9, %12)\n"
    "    yield %2, %11, %13\n"
    "  }\n"
    "}\n"
    "%14 = td::stack_list(%6) {dim = 0, new_axis = 1}\n"
    "%15 = td::list_at(%6, %0)\n"
    "output \"all\" %14\n"
    "output \"last\" %5\n"
    "output \"list\" %6\n"
    "output \"item\" %15\n";

static void lists_share_what_they_hold(void **state) {
  (void)state;
  static const char *const trips[] = {": 0", ": 1", ": 7", ": 90"}; /* 90 are 3 MB: more than a loop leaves untidied */
  for (size_t i = 0; i < sizeof trips / sizeof *trips; i++) {
    rig r;
    run_both(&r, appends, trips[i], "128x64: 1");
    const base_list *list = &rig_value(&r, 2)->list;
    assert_ptr_equal(rig_output(&r, 3)->data, list->items[list->count - 1].tensor.data);
    rig_close(&r);
  }
}

/* A list that begins anew at each turn: what it held is garbage soon, and is tidied up. */
static void garbage_is_tidied_up(void **state) {
  (void)state;
  rig r;
  run_both(&r,
           "input %0 \"trips\": i64[]\n"
           "input %1 \"x\": f32[128, 64]\n"
           "const %2: bool[] = {1}\n"
           "const %3: i64[] = {0}\n"
           "%4 = td::list_new(%1)\n"
           "%6 = prim::Loop(%0, -, %4): list(f32[128, 64]) {\n"
           "  block(%7: i64[], %9: list(f32[128, 64])) {\n"
           "    %10 = td::list_at(%9, %3)\n"
           "    %11 = aten::add(%10, %1)\n"
           "    %12 = aten::neg(%11)\n"
           "    %13 = td::list_new(%12, %11)\n"
           "    yield %2, %13\n"
           "  }\n"
           "}\n"
           "%15 = td::list_at(%6, %3)\n"
           "output \"y\" %15\n",
           ": 300", "128x64: 1");
  assert_true(run_session_stats(r.session).tail_peak < (size_t)8 << 20); /* 300 turns make 19 MB */
  rig_close(&r);
}

/* A cache of which each turn writes a row. */
static const char cache[] =
    "input %0 \"trips\": i64[]\n"
    "input %1 \"x\": f32[16, 32]\n"
    "const %2: bool[] = {1}\n"
    "const %3: i64[] = {1}\n"
    "const %4: f32[1, 32] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, "
    "4, 5}\n"
    "%5, %6 = prim::Loop(%0, -, %1, %4): f32[16, 32], f32[1, 32] {\n"
    "  block(%7: i64[], %8: f32[16, 32], %9: f32[1, 32]) {\n"
    "    %10 = aten::add(%7, %3)\n"
    "    %11 = aten::slice_scatter(%8, %9, %7, %10) {dim = 0}\n"
    "    %12 = aten::sum(%%s) {dim = [0], keepdim = true}\n"
    "    yield %2, %11, %12\n"
    "  }\n"
    "}\n"
    "output \"cache\" %5\n"
    "output \"row\" %6\n";

static void caches_are_written_in_place(void **state) {
  (void)state;
  static const struct {
    const char *read; /* by the sum behind the write: what was written, or what was there before */
    uint32_t renewed;
  } cases[] = {{"%11", 1}, {"%8", 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[sizeof cache + 8], *hole;
    strcpy(text, cache);
    hole = strstr(text, "%%s");
    memmove(hole + strlen(cases[i].read), hole + 3, strlen(hole + 3) + 1);
    memcpy(hole, cases[i].read, strlen(cases[i].read));
    rig r;
    run_both(&r, text, ": 5", "16x32: 1");
    assert_int_equal(renewed(&r), cases[i].renewed);
    rig_close(&r);
  }
}

/* Two values that change places, and one that is made of both: none is written over before it was read. */
/* A slice that is all of what it goes into, and dies there too: the result is made in its place. */
static void a_whole_slice_is_the_result(void **state) {
  (void)state;
  rig r;
  run_both(&r,
           "input %0 \"start\": i64[]\n"
           "input %1 \"x\": f32[4, 32]\n"
           "const %2: i64[] = {4}\n"
           "%3 = aten::flip(%1) {dims = [0]}\n"
           "%5 = aten::cumsum(%1, %0)\n"
           "%6 = aten::slice_scatter(%3, %5, %0, %2) {dim = 0}\n"
           "%7 = aten::flip(%6) {dims = [1]}\n"
           "output \"y\" %7\n",
           ": 0", "4x32: 1");
  rig_close(&r);
}

static void values_that_change_places(void **state) {
  (void)state;
  rig r;
  run_both(&r,
           "input %0 \"trips\": i64[]\n"
           "input %1 \"x\": f32[4]\n"
           "const %2: bool[] = {1}\n"
           "%3 = aten::neg(%1)\n"
           "%4, %5, %6 = prim::Loop(%0, -, %1, %3, %1): f32[4], f32[4], f32[4] {\n"
           "  block(%7: i64[], %8: f32[4], %9: f32[4], %10: f32[4]) {\n"
           "    %11 = aten::add(%8, %1)\n"
           "    %12 = aten::add(%10, %8)\n"
           "    yield %2, %9, %11, %12\n"
           "  }\n"
           "}\n"
           "output \"a\" %4\n"
           "output \"b\" %5\n"
           "output \"c\" %6\n",
           ": 6", "4: 1");
  rig_close(&r);
}

/* Tasks in a loop whose results are large: made where they stay, on one thread or on several. */
static const char tasks[] =
    "input %0 \"trips\": i64[]\n"
    "input %1 \"x\": f32[128, 160]\n"
    "const %2: bool[] = {1}\n"
    "%4 = td::list_new(%1)\n"
    "%5, %6 = prim::Loop(%0, -, %1, %4): f32[128, 160], list(f32[128, 160]) {\n"
    "  block(%7: i64[], %8: f32[128, 160], %9: list(f32[128, 160])) {\n"
    "    %10 = prim::fork(): future(f32[128, 160]) {\n"
    "      block() {\n"
    "        %11 = aten::add(%8, %1)\n"
    "        %12 = aten::neg(%11)\n"
    "        yield %12\n"
    "      }\n"
    "    }\n"
    "    %13 = aten::add(%8, %8)\n"
    "    %14 = aten::sub(%13, %1)\n"
    "    %15 = prim::wait(%10)\n"
    "    %16 = aten::append(%9, %15)\n"
    "    yield %2, %14, %16\n"
    "  }\n"
    "}\n"
    "%17 = td::stack_list(%6) {dim = 0, new_axis = 1}\n"
    "output \"all\" %17\n";

static void large_results_of_tasks(void **state) {
  (void)state;
  rig r;
  run_both(&r, tasks, ": 9", "128x160: 1");
  const base_tensor *want = rig_output(&r, 0);
  const size_t bytes = base_tensor_bytes(want);
  void *kept = malloc(bytes);
  assert_non_null(kept);
  memcpy(kept, want->data, bytes);
  run_session *own = r.session;
  for (uint32_t threads = 1; threads < 4; threads++) {
    run_pool *pool;
    assert_int_equal(run_pool_new(1, 50, &base_libc_allocator, &pool, &r.err), TD_OK);
    run_pool_set_interop(pool, threads);
    assert_int_equal(run_session_new(r.plan, &base_libc_allocator, pool, &r.session, &r.err), TD_OK);
    r.session->tasks.force = true;
    for (int run = 0; run < 5; run++) {
      rig_feed(&r, 0, TD_I64, ": 9");
      rig_feed(&r, 1, TD_F32, "128x160: 1");
      rig_run(&r);
      assert_memory_equal(rig_output(&r, 0)->data, kept, bytes);
    }
    run_session_free(r.session);
    run_pool_free(pool);
  }
  r.session = own;
  free(kept);
  rig_close(&r);
}

/* Each turn leaves something behind and appends to a list. */
static const char grows[] =
    "input %0 \"turns\": i64[]\n"
    "input %1 \"x\": f32[16]\n"
    "const %2: bool[] = {1}\n"
    "const %3: f32[] = {0.5}\n"
    "const %4: i64[1] = {0}\n"
    "const %5: i64[1] = {16}\n"
    "const %6: i64[1] = {1}\n"
    "%7 = td::list_new() {dtype = f32}\n"
    "%8 = prim::Loop(%0, %2, %7): list(f32[...]) {\n"
    "  block(%9: i64[], %10: list(f32[...])) {\n"
    "    %11 = aten::_to_copy(%9) {dtype = f32}\n"
    "    %12 = aten::mul(%1, %11)\n"
    "    %13 = aten::gt(%12, %3)\n"
    "    %14 = aten::nonzero(%13)\n"
    "    %15 = aten::add(%12, %3)\n"
    "    %16 = aten::append(%10, %15)\n"
    "    yield %2, %16\n"
    "  }\n"
    "}\n"
    "%17 = td::stack_list(%8) {dim = 0, new_axis = 1}\n"
    "output \"all\" %17\n";

/* A turn costs what it does, however much the loop carries: 16 times the turns, 16 times the time and some. */
static void turns_copy_nothing(void **state) {
  (void)state;
  double seconds[3];
  rig r;
  rig_open(&r, grows, "native");
  rig_feed(&r, 1, TD_F32, "16: 1");
  for (int i = 0; i < 3; i++) {
    static const char *const turns[] = {": 1024", ": 4096", ": 16384"};
    rig_feed(&r, 0, TD_I64, turns[i]);
    const clock_t began = clock();
    rig_run(&r);
    seconds[i] = (double)(clock() - began) / CLOCKS_PER_SEC;
    const base_tensor *all = rig_output(&r, 0);
    const int64_t last = all->dims[0] - 1;
    assert_int_equal(all->dims[0], 1024 << 2 * i);
    for (int64_t k = 0; k < 16; k++)
      assert_true(((const float *)all->data)[last * 16 + k] == (float)((k + 1) * last) + 0.5f);
  }
  if (seconds[2] > 0.05 + 64 * seconds[0])
    fail_msg("%g, %g and %g ms for 1024, 4096 and 16384 turns", seconds[0] * 1e3, seconds[1] * 1e3, seconds[2] * 1e3);
  rig_close(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_share_what_they_hold),  cmocka_unit_test(garbage_is_tidied_up),
      cmocka_unit_test(caches_are_written_in_place), cmocka_unit_test(values_that_change_places),
      cmocka_unit_test(large_results_of_tasks),      cmocka_unit_test(a_whole_slice_is_the_result),
      cmocka_unit_test(turns_copy_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
