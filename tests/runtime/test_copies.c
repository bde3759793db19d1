/* test_copies.c -- weights on each memory node: who reads which, results, bytes. */
/* ctest: threads */
#include <sched.h>

#include "base/lack.h"
#include "runtime/harness.h"
#include "runtime/copies_priv.h"

enum { ROWS = 48, WIDTH = 64 };

/* Two CPUs of this machine, as if each had memory of its own. */
static char two_nodes[128];
static uint32_t cpus[2];

static const char graph[] =
    "input %0 \"x\": f32[n, 64]\n"
    "const %1: f32[64, 64] = @0+0\n"
    "const %2: f32[64] = @0+16384\n"
    "%3 = aten::matmul(%0, %1)\n"
    "%4 = aten::add(%3, %2)\n"
    "output \"y\" %4\n";

static float weights[WIDTH * WIDTH + WIDTH], x[ROWS * WIDTH];

static void open_rig(rig *r) {
  static const ir_segment segment = {.base = weights, .bytes = sizeof weights};
  for (int i = 0; i < WIDTH * WIDTH + WIDTH; i++) weights[i] = (float)(i * 37 % 101) / 50 - 1;
  for (int i = 0; i < ROWS * WIDTH; i++) x[i] = (float)(i * 29 % 157) / 60 - 1;
  rig_open_over(r, graph, &segment, "native", NULL);
}

static bool go_to(uint32_t cpu) {
  const sys_thread self = {.handle = pthread_self()};
  return sys_thread_move(&self, cpu);
}

static void go_to_both(void) {
  const sys_thread self = {.handle = pthread_self()};
  assert_true(sys_thread_keep(&self, cpus, 2));
}

static bool two_cpus(void) {
  uint32_t allowed[RUN_MOST_THREADS];
  if (sys_allowed_cpus(allowed, RUN_MOST_THREADS) < 2) return false;
  cpus[0] = allowed[0];
  cpus[1] = allowed[1];
  const uint32_t low = cpus[0] < cpus[1] ? cpus[0] : cpus[1], high = cpus[0] + cpus[1] - low;
  /* core 0 .. high - 1 of node 0, `high` first of node 1 */
  snprintf(two_nodes, sizeof two_nodes, "package:2 [numa] core:%u pu:1; allowed %u,%u", high, low, high);
  cpus[0] = low;
  cpus[1] = high;
  return true;
}

static void run(rig *r, run_session *session, float *y) {
  base_value in = {.kind = BASE_TENSOR, .tensor = base_tensor_of(x, TD_F32, 2, (int64_t[]){ROWS, WIDTH})};
  const base_value *out;
  assert_int_equal(run_set_input(session, 0, &in, &r->err), TD_OK);
  assert_int_equal(run_session_run(session, &r->err), TD_OK);
  assert_int_equal(run_output(session, 0, &out, &r->err), TD_OK);
  memcpy(y, out->tensor.data, sizeof(float) * ROWS * WIDTH);
}

static void poison(run_copies *c) {
  for (uint32_t i = 0; i < c->node_count; i++)
    if (c->nodes[i].memory) memset(c->nodes[i].memory, 0, c->bytes);
}

static void each_reads_its_own(void **state) {
  (void)state;
  static float plain[ROWS * WIDTH], y[ROWS * WIDTH];
  rig r;
  run_copies *c;
  if (!two_cpus()) skip();
  open_rig(&r);
  run(&r, r.session, plain);
  assert_true(go_to(cpus[0]));
  assert_int_equal(run_copies_new(r.plan, two_nodes, &r.allocator, &c, &r.err), TD_OK);
  r.plan->here.copies = c;
  assert_int_equal(run_copies_nodes(c), 2);
  assert_in_range(run_copies_bytes(c), sizeof weights, 4 * sizeof weights); /* the bias of some bytes, too */
  for (int i = 0; i < 2; i++) {
    assert_true(go_to(cpus[i]));
    run(&r, r.session, y);
    assert_memory_equal(y, plain, sizeof y);
  }
  poison(c);
  run(&r, r.session, y); /* on the second */
  assert_memory_not_equal(y, plain, sizeof y);
  assert_true(go_to(cpus[0]));
  run(&r, r.session, y);
  assert_memory_equal(y, plain, sizeof y);
  r.plan->here.copies = NULL;
  run_copies_free(c);
  rig_close(&r);
  go_to_both();
}

/* Worker and caller on CPUs of two nodes. */
static void on_threads(void **state) {
  (void)state;
  static float plain[ROWS * WIDTH], y[ROWS * WIDTH];
  rig r;
  run_copies *c;
  run_pool *pool;
  run_session *session;
  if (!two_cpus()) skip();
  open_rig(&r);
  run(&r, r.session, plain);
  assert_int_equal(run_copies_new(r.plan, two_nodes, &r.allocator, &c, &r.err), TD_OK);
  r.plan->here.copies = c;
  assert_int_equal(run_pool_new(2, 50, &r.allocator, &pool, &r.err), TD_OK);
  assert_int_equal(run_session_new(r.plan, &r.allocator, pool, &session, &r.err), TD_OK);
  for (int i = 0; i < 50; i++) {
    run(&r, session, y);
    assert_memory_equal(y, plain, sizeof y);
  }
  run_session_free(session);
  run_pool_free(pool);
  r.plan->here.copies = NULL;
  run_copies_free(c);
  rig_close(&r);
}

static void machines(void **state) {
  (void)state;
  rig r;
  run_copies *c;
  open_rig(&r);
  assert_int_equal(run_copies_new(r.plan, "package:1 core:4 pu:1", &r.allocator, &c, &r.err), TD_OK);
  assert_int_equal(run_copies_nodes(c), 1);
  assert_int_equal(run_copies_bytes(c), 0);
  run_copies_free(c);
  assert_int_equal(run_copies_new(r.plan, "here", &r.allocator, &c, &r.err), TD_OK);
  assert_true(run_copies_nodes(c) >= 1);
  run_copies_free(c);
  const char *four = "package:4 [numa] core:1 pu:1; allowed 0-2";
  assert_int_equal(run_copies_new(r.plan, four, &r.allocator, &c, &r.err), TD_OK);
  assert_int_equal(run_copies_nodes(c), 3);
  assert_int_equal(run_copies_bytes(c), 2 * c->bytes);
  run_copies_free(c);
  assert_int_not_equal(run_copies_new(r.plan, "package:none", &r.allocator, &c, &r.err), TD_OK);
  rig_close(&r);
}

static td_status within(const td_allocator *allocator, void *user) {
  const rig *r = user;
  run_copies *c = NULL;
  td_error err;
  const td_status status = run_copies_new(r->plan, "package:2 [numa] core:1 pu:1", allocator, &c, &err);
  run_copies_free(c);
  return status;
}

static void lack_of_memory(void **state) {
  (void)state;
  rig r;
  open_rig(&r);
  assert_true(fail_each_allocation(within, &r, true) >= 4);
  rig_close(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_reads_its_own), cmocka_unit_test(on_threads),
                                     cmocka_unit_test(machines), cmocka_unit_test(lack_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
