/* test_streams.c -- batches over streams: the results of the whole batch, whatever the sizes; the model of how many. */
/* ctest: threads */
#include <sched.h>

#include "base/lack.h"
#include "runtime/harness.h"

enum { WIDTH = 40, MOST = 13 };

/* Two rows of the second output for each sample; "w" goes to every stream. */
static const char graph[] =
    "input %0 \"x\": f32[n, 40]\n"
    "input %1 \"w\": f32[40]\n"
    "const %2: i64[2] = {-1, 20}\n"
    "%3 = aten::mul(%0, %1)\n"
    "%4 = aten::sigmoid(%3)\n"
    "%5 = aten::view(%4, %2)\n"
    "%6 = aten::add(%5, %5)\n"
    "output \"y\" %4\n"
    "output \"z\" %6\n";

static float x[MOST * WIDTH], w[WIDTH], y[MOST * WIDTH], z[MOST * WIDTH];

static void fill(void) {
  for (int i = 0; i < MOST * WIDTH; i++) x[i] = (float)(i * 29 % 157) / 60 - 1;
  for (int i = 0; i < WIDTH; i++) w[i] = (float)(i % 7) - 3;
}

typedef struct batch {
  base_value inputs[2];
  base_tensor outputs[2];
  run_batch run;
} batch;

static void make_batch(batch *b, int64_t samples) {
  b->inputs[0] = (base_value){.kind = BASE_TENSOR, .tensor = base_tensor_of(x, TD_F32, 2, (int64_t[]){samples, WIDTH})};
  b->inputs[1] = (base_value){.kind = BASE_TENSOR, .tensor = base_tensor_of(w, TD_F32, 1, (int64_t[]){WIDTH})};
  b->outputs[0] = base_tensor_of(y, TD_F32, 2, (int64_t[]){samples, WIDTH});
  b->outputs[1] = base_tensor_of(z, TD_F32, 2, (int64_t[]){2 * samples, WIDTH / 2});
  b->run = (run_batch){.inputs = b->inputs, .input_count = 2, .whole = 2, .outputs = b->outputs, .output_count = 2};
}

/* Of the whole batch, on one thread. */
static void want(rig *r, batch *b, float *first, float *second) {
  const base_value *value;
  for (uint32_t i = 0; i < 2; i++) assert_int_equal(run_set_input(r->session, i, &b->inputs[i], &r->err), TD_OK);
  assert_int_equal(run_session_run(r->session, &r->err), TD_OK);
  assert_int_equal(run_output(r->session, 0, &value, &r->err), TD_OK);
  memcpy(first, value->tensor.data, base_tensor_bytes(&value->tensor));
  assert_int_equal(run_output(r->session, 1, &value, &r->err), TD_OK);
  memcpy(second, value->tensor.data, base_tensor_bytes(&value->tensor));
}

static void batches_of_any_size(void **state) {
  (void)state;
  static float first[MOST * WIDTH], second[MOST * WIDTH];
  rig r;
  fill();
  rig_open(&r, graph, "native");
  for (uint32_t threads = 1; threads <= 5; threads++) {
    run_pool *pool;
    run_streams *s;
    assert_int_equal(run_pool_new(threads, 50, &r.allocator, &pool, &r.err), TD_OK);
    assert_int_equal(run_streams_new(r.plan, pool, 0, &r.allocator, &s, &r.err), TD_OK);
    for (int64_t samples = 0; samples <= MOST; samples++) {
      batch b;
      uint32_t best;
      make_batch(&b, samples);
      if (samples) want(&r, &b, first, second);
      for (int turn = 0; turn < 2; turn++) {
        memset(y, 0, sizeof y);
        memset(z, 0, sizeof z);
        assert_int_equal(run_streams_run(s, &b.run, &r.err), TD_OK);
        assert_memory_equal(y, first, (size_t)samples * WIDTH * sizeof *y);
        assert_memory_equal(z, second, (size_t)samples * WIDTH * sizeof *z);
        if (turn == 0 && samples % 4 == 3) assert_int_equal(run_streams_tune(s, &b.run, &best, &r.err), TD_OK);
      }
      if (samples % 4 == 3) assert_int_equal(run_streams_count(s, samples), best);
    }
    run_streams_free(s);
    run_pool_free(pool);
  }
  rig_close(&r);
}

static void how_many(void **state) {
  (void)state;
  rig r;
  run_pool *pool;
  run_streams *s;
  rig_open(&r, graph, "native");
  assert_int_equal(run_pool_new(8, 50, &r.allocator, &pool, &r.err), TD_OK);
  if (run_pool_threads(pool) < 8) skip();
  assert_int_equal(run_streams_new(r.plan, pool, 0, &r.allocator, &s, &r.err), TD_OK);
  assert_int_equal(run_streams_count(s, 0), 1);
  assert_int_equal(run_streams_count(s, 1), 1);
  assert_int_equal(run_streams_count(s, 2), 2);
  assert_int_equal(run_streams_count(s, 4), 4);
  assert_int_equal(run_streams_count(s, 8), 8);
  assert_int_equal(run_streams_count(s, 64), 8);
  assert_int_not_equal(run_streams_count(s, 9), 8); /* seven would wait for the one with two samples */
  run_streams_free(s);
  assert_int_equal(run_streams_new(r.plan, pool, 3, &r.allocator, &s, &r.err), TD_OK);
  assert_int_equal(run_streams_count(s, 64), 3);
  assert_int_equal(run_streams_count(s, 2), 2);
  run_streams_free(s);
  run_pool_free(pool);
  rig_close(&r);
}

static td_status tell_nobody(const td_model *model, td_status status, td_error *err) {
  (void)model, (void)err;
  return status;
}

/* Before a run; what a batch leaves out is not what an earlier one had. */
static void sizes_and_what_is_left_out(void **state) {
  (void)state;
  rig r;
  run_pool *pool;
  run_streams *s;
  rig_open(&r, graph, "native");
  assert_int_equal(run_pool_new(3, 50, &r.allocator, &pool, &r.err), TD_OK);
  assert_int_equal(run_streams_new(r.plan, pool, 0, &r.allocator, &s, &r.err), TD_OK);
  for (int64_t samples = 0; samples <= MOST; samples++) {
    batch b;
    base_tensor tensor;
    bool known;
    make_batch(&b, samples);
    assert_int_equal(run_streams_predict(s, &b.run, 1, &tensor, &known, &r.err), TD_OK);
    assert_true(known && tensor.rank == 2 && tensor.dims[0] == 2 * samples && tensor.dims[1] == WIDTH / 2);
    assert_int_equal(run_streams_predict(s, &b.run, 2, &tensor, &known, &r.err), TD_BAD_ARGUMENT);
    assert_int_equal(run_streams_run(s, &b.run, &r.err), TD_OK);
    b.run.input_count = 1;
    assert_int_equal(run_streams_run(s, &b.run, &r.err), TD_BAD_ARGUMENT);
    b.run.input_count = 2;
    b.inputs[1].kind = BASE_NOTHING;
    assert_int_equal(run_streams_run(s, &b.run, &r.err), TD_BAD_ARGUMENT);
    b.run.input_count = 3;
    assert_int_equal(run_streams_run(s, &b.run, &r.err), TD_BAD_ARGUMENT);
  }
  run_streams_free(s);
  run_pool_free(pool);
  rig_close(&r);
}

typedef struct seen {
  cpu_set_t cpus;
} seen;

static void look(void *user, td_status status, const td_error *err) {
  (void)status, (void)err;
  seen *s = user;
  sched_getaffinity(0, sizeof s->cpus, &s->cpus);
}

/* A thread of a queue or stream is as much the pool's as its workers are. */
static void kept_on_named_cpus(void **state) {
  (void)state;
  rig r;
  run_pool *pool;
  run_session *session;
  run_queue *queue;
  run_request *request;
  run_cpus cpus = {.count = 1};
  seen s;
  uint32_t allowed[RUN_MOST_THREADS];
  const uint32_t count = sys_allowed_cpus(allowed, RUN_MOST_THREADS);
  rig_open(&r, graph, "native");
  if (count < 2) skip();
  cpus.at[0] = allowed[count - 1];
  const run_pool_options options = {.cpus = &cpus};
  assert_int_equal(run_pool_new_on(&options, &r.allocator, &pool, &r.err), TD_OK);
  assert_int_equal(run_session_new(r.plan, &r.allocator, pool, &session, &r.err), TD_OK);
  assert_int_equal(run_queue_new(session, tell_nobody, NULL, &queue, &r.err), TD_OK);
  run_future *f = run_queue_take(queue, &request);
  assert_non_null(f);
  request->done = look;
  request->user = &s;
  run_queue_put(f);
  run_future_wait(f, 0, &r.err);
  assert_int_equal(CPU_COUNT(&s.cpus), 1);
  assert_true(CPU_ISSET(cpus.at[0], &s.cpus));
  run_future_free(f);
  run_queue_free(queue);
  run_session_free(session);
  run_pool_free(pool);
  rig_close(&r);
}

static void mistakes(void **state) {
  (void)state;
  rig r;
  run_pool *pool;
  run_streams *s;
  batch b;
  const int32_t cancelled = 1;
  rig_open(&r, graph, "native");
  assert_int_equal(run_pool_new(2, 50, &r.allocator, &pool, &r.err), TD_OK);
  assert_int_equal(run_streams_new(r.plan, pool, 0, &r.allocator, &s, &r.err), TD_OK);
  make_batch(&b, 4);
  b.run.whole = 0; /* "w" has 40 rows, "x" 4 */
  assert_int_equal(run_streams_run(s, &b.run, &r.err), TD_BAD_ARGUMENT);
  assert_non_null(strstr(r.err.text, "input 1 has 40 samples"));
  make_batch(&b, 4);
  b.outputs[1].dims[0] = 7;
  assert_int_equal(run_streams_run(s, &b.run, &r.err), TD_BAD_ARGUMENT);
  make_batch(&b, 4);
  b.run.output_count = 1;
  assert_int_equal(run_streams_run(s, &b.run, &r.err), TD_BAD_ARGUMENT);
  make_batch(&b, 4);
  b.inputs[0].tensor.dtype = TD_I32; /* found by each stream */
  assert_int_equal(run_streams_run(s, &b.run, &r.err), TD_BAD_ARGUMENT);
  assert_non_null(strstr(r.err.text, "takes f32"));
  make_batch(&b, 4);
  b.run.until.cancel[0] = &cancelled;
  assert_int_equal(run_streams_run(s, &b.run, &r.err), TD_CANCELLED);
  make_batch(&b, 4);
  assert_int_equal(run_streams_run(s, &b.run, &r.err), TD_OK);
  run_streams_free(s);
  run_pool_free(pool);
  rig_close(&r);
}

typedef struct lacking {
  const plan_exe *plan;
  run_pool *pool;
} lacking;

static td_status within(const td_allocator *allocator, void *user) {
  const lacking *l = user;
  run_streams *s = NULL;
  td_error err;
  batch b;
  make_batch(&b, 4);
  base_tensor tensor;
  bool known;
  td_status status = run_streams_new(l->plan, l->pool, 0, allocator, &s, &err);
  if (status == TD_OK) status = run_streams_predict(s, &b.run, 0, &tensor, &known, &err);
  if (status == TD_OK) status = run_streams_run(s, &b.run, &err);
  run_streams_free(s);
  return status;
}

static void lack_of_memory(void **state) {
  (void)state;
  rig r;
  lacking l;
  rig_open(&r, graph, "native");
  assert_int_equal(run_pool_new(2, 50, &r.allocator, &l.pool, &r.err), TD_OK);
  l.plan = r.plan;
  assert_true(fail_each_allocation(within, &l, false) >= 4);
  run_pool_free(l.pool);
  rig_close(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batches_of_any_size), cmocka_unit_test(how_many), cmocka_unit_test(sizes_and_what_is_left_out),
      cmocka_unit_test(kept_on_named_cpus),  cmocka_unit_test(mistakes), cmocka_unit_test(lack_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
