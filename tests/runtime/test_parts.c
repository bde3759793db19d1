/* test_parts.c -- batches that run a few samples at a time: the same bits as all at once, on any number of threads, for
 * any number of samples; in less memory; and what stands between keeps its order. */
#include "runtime/harness.h"
#include "runtime/parts_priv.h"
#include "runtime/session_priv.h"

#include <unistd.h>

enum { CACHE = 100 * 1024 /* bytes: three values of a sample below */ };

#define LINEAR(n)            \
  "{trans_w = false, n = " n \
  ", panel = 0, act = \"relu\", act_a = 0.0, act_b = 0.0, act_late = false, in_front = false}"
#define WEIGHTS "const %1: f32[2, 2] = {0.5, -0.25, 0.125, 0.75}\n"
#define X "input %0 \"x\": f32[n, 4096, 2]\n"

/* No loop takes in another: what follows each other here is steps, and parts are made of several. */
static void open_apart(rig *r, const char *text, const char *backend) {
  sys_machine machine;
  sys_cpu_read(&machine);
  rig_open_as(
      r, text, NULL,
      &(compile_setting){
          .backend = compile_find_backend(backend), .isa = machine.isa | BASE_ISA_VECTOR, .options.alone = "*"});
}

/* Steps that follow each other, with a residual, in place and not. */
static const char chain[] = X WEIGHTS
    "%2 = td::linear(%0, %1) " LINEAR("2") "\n"
    "%3 = aten::sin(%2)\n"
    "%4 = aten::add(%3, %2)\n"
    "%5 = aten::sigmoid(%4)\n"
    "%6 = aten::mul(%5, %0)\n"
    "output \"y\" %6\n";

/* Inputs and outputs in the middle: a value from outside that is read late, one that goes out early and is read on. */
static const char ports[] = "input %9 \"z\": f32[n, 4096, 2]\n" X WEIGHTS
    "%2 = aten::sin(%0)\n"
    "%3 = td::linear(%2, %1) " LINEAR("2") "\n"
    "%4 = aten::cos(%3)\n"
    "%5 = aten::add(%4, %9)\n"
    "%6 = aten::tanh(%5)\n"
    "output \"early\" %3\n"
    "output \"late\" %6\n"
    "output \"middle\" %4\n";

/* A sum over all samples cuts the batch, and what it gives is read in whole behind it. */
static const char cut[] = X WEIGHTS "const %9: i64[1] = {0}\n"
    "%2 = aten::sin(%0)\n"
    "%3 = td::linear(%2, %1) " LINEAR("2") "\n"
    "%4 = aten::mean(%3, %9) {dim = [0], keepdim = true}\n"
    "%5 = aten::sub(%3, %4)\n"
    "%6 = aten::tanh(%5)\n"
    "%7 = aten::mul(%6, %4)\n"
    "output \"y\" %7\n";

/* Views, joins into place along another dimension, permutations, norms. */
static const char places[] = X WEIGHTS "const %9: i64[2] = {-1, 8192}\n"
    "%2 = td::linear(%0, %1) " LINEAR("2") "\n"
    "%3 = td::linear(%2, %1) " LINEAR("2") "\n"
    "%4 = aten::cat(%2, %3, %0) {dim = 2}\n"
    "%5 = aten::native_layer_norm(%4) {axis = 2}\n"
    "%6 = aten::permute(%5) {dims = [0, 2, 1]}\n"
    "%7 = aten::_softmax(%6) {dim = 1}\n"
    "%8 = td::flatten(%7) {axis = 1}\n"
    "%10 = aten::sin(%8)\n"
    "%11 = aten::cat(%8, %10) {dim = 1}\n"
    "output \"y\" %11\n"
    "output \"x\" %3\n";

/* Parts of joins that are read while others are made; slices, pieces, sums and borders along other axes. */
static const char pieces[] = X WEIGHTS
    "const %2: f32[2, 4] = {1, -1, 0, 2, 1, 3, -2, 1}\n"
    "const %3: i64[1] = {1}\nconst %4: i64[1] = {3}\nconst %5: i64[1] = {2}\n"
    "const %6: i64[6] = {0, 1, 0, 0, 2, 0}\n"
    "%7 = td::linear(%0, %1) " LINEAR("2") "\n"
    "%8 = td::linear(%7, %1) " LINEAR("2") "\n"
    "%9 = aten::cat(%7, %8) {dim = 2}\n"
    "%10 = td::linear(%9, %2) {trans_w = true, n = 2}\n"
    "%11 = aten::cat(%9, %10) {dim = 2}\n"
    "%12 = aten::slice(%11, %3, %4, %5)\n"
    "%13 = td::linear(%12, %1) " LINEAR("2") "\n"
    "%14 = td::chunk(%11) {dim = 2, parts = 3, index = 2}\n"
    "%15 = aten::mul(%13, %14)\n"
    "%16 = aten::mean(%15) {dim = [1], keepdim = true}\n"
    "%17 = aten::sub(%15, %16)\n"
    "%18 = aten::constant_pad_nd(%17, %6)\n"
    "%19 = aten::sin(%18)\n"
    "output \"y\" %19\n";

/* Windows: four rows of a value are one sample, and back; a constant is viewed in their midst, and read in whole. */
static const char windows[] = X WEIGHTS
    "const %2: i64[4] = {-1, 4, 1024, 2}\nconst %3: i64[3] = {-1, 1024, 2}\nconst %4: i64[3] = {-1, 4096, 2}\n"
    "const %5: f32[2, 1] = {0.5, -2}\n"
    "%6 = aten::sin(%0)\n"
    "%7 = aten::view(%6, %2)\n"
    "%8 = aten::permute(%7) {dims = [0, 2, 1, 3]}\n"
    "%9 = aten::view(%8, %3)\n"
    "%10 = td::linear(%9, %1) " LINEAR("2") "\n"
    "%11 = aten::permute(%5) {dims = [1, 0]}\n"
    "%12 = aten::mul(%10, %11)\n"
    "%13 = aten::cos(%12)\n"
    "%14 = aten::view(%13, %4)\n"
    "%15 = aten::mul(%14, %6)\n"
    "output \"y\" %15\n";

/* Steps that mix what stands along dimension 0: softmax, joins, permutations. */
static const char across[] = X WEIGHTS
    "%2 = aten::sin(%0)\n"
    "%3 = aten::_softmax(%2) {dim = 0}\n"
    "%4 = aten::cos(%3)\n"
    "%5 = aten::cat(%4, %2) {dim = 0}\n"
    "%6 = aten::tanh(%5)\n"
    "%7 = td::linear(%6, %1) " LINEAR("2") "\n"
    "%8 = aten::permute(%7) {dims = [1, 0, 2]}\n"
    "%9 = aten::sin(%8)\n"
    "%10 = aten::cos(%9)\n"
    "output \"y\" %10\n";

/* Sizes that data tell, in the middle of a batch and behind it. */
static const char data[] = X WEIGHTS
    "%2 = aten::sin(%0)\n"
    "%3 = td::linear(%2, %1) " LINEAR("2") "\n"
    "%4 = aten::mul(%3, %2)\n"
    "%5 = aten::nonzero(%4)\n"
    "%6 = aten::_to_copy(%5) {dtype = f32}\n"
    "%7 = aten::sin(%6)\n"
    "%8 = aten::cos(%4)\n"
    "%9 = aten::add(%8, %2)\n"
    "output \"places\" %7\n"
    "output \"y\" %9\n";

/* A batch in the body of a loop, which reads what was made before it again in each turn. */
static const char loop[] = X WEIGHTS "const %2: i64[] = {3}\nconst %3: bool[] = {1}\n"
    "%4 = aten::sin(%0)\n"
    "%5 = prim::Loop(%2, -, %0): f32[n, 4096, 2] {\n"
    "  block(%6: i64[], %7: f32[n, 4096, 2]) {\n"
    "    %8 = td::linear(%7, %1) " LINEAR("2") "\n"
    "    %9 = aten::sin(%8)\n"
    "    %10 = aten::mul(%9, %8)\n"
    "    %11 = aten::add(%10, %4)\n"
    "    yield %3, %11\n"
    "  }\n"
    "}\n"
    "%12 = aten::mul(%5, %4)\n"
    "output \"y\" %12\n";

static const char *const models[] = {chain, ports, cut, places, loop, pieces, windows, across, data};
enum { MODELS = sizeof models / sizeof *models, GAIN = 7 /* so many gain from parts */ };

typedef struct runner {
  rig r;
  run_session *session;
} runner;

static run_session *open_session(rig *r, run_pool *pool, size_t cache) {
  run_session *session;
  if (run_session_new(r->plan, &base_libc_allocator, pool, &session, &r->err) != TD_OK) fail_msg("%s", r->err.text);
  session->bounds.cache = cache;
  return session;
}

static void run_on(rig *r, run_session *session, int64_t samples) {
  for (uint32_t i = 0; i < r->plan->inputs.count; i++) {
    const int64_t dims[] = {samples, 4096, 2};
    base_tensor t = base_tensor_of(NULL, TD_F32, 3, dims);
    t.data = base_arena_alloc_aligned(r->arena, base_tensor_bytes(&t) + 1, 64);
    for (int64_t k = 0; k < base_tensor_numel(&t); k++)
      base_store_f64(TD_F32, t.data, k, (double)((k + i) % 89) / 41 - 1);
    const base_value value = {.kind = BASE_TENSOR, .tensor = t};
    assert_int_equal(run_set_input(session, i, &value, &r->err), TD_OK);
  }
  for (int run = 0; run < 2; run++)
    if (run_session_run(session, &r->err) != TD_OK) fail_msg("%s: %s", r->err.name, r->err.text);
}

static void expect_same(rig *r, run_session *a, run_session *b) {
  for (uint32_t i = 0; i < r->plan->outputs.count; i++) {
    const base_value *want, *got;
    assert_int_equal(run_output(a, i, &want, &r->err), TD_OK);
    assert_int_equal(run_output(b, i, &got, &r->err), TD_OK);
    assert_int_equal(want->tensor.rank, got->tensor.rank);
    assert_memory_equal(want->tensor.dims, got->tensor.dims, (size_t)want->tensor.rank * sizeof(int64_t));
    assert_true(base_tensor_contiguous(&got->tensor));
    assert_memory_equal(want->tensor.data, got->tensor.data, base_tensor_bytes(&want->tensor));
  }
}

static uint32_t parts_of(const run_session *session) { return session->bounds.active->binding.parts.count; }
static uint32_t shares_of(const run_session *session) { return session->bounds.active->binding.shares.count; }

/* A batch lists each value that holds its samples once. */
static void batches_list_values_once(void **state) {
  (void)state;
  for (size_t m = 0; m < MODELS; m++) {
    rig r;
    rig_open_without(&r, models[m], "native", "fuse");
    assert_true(m >= GAIN || r.plan->batches.count > 0);
    if (models[m] == pieces || models[m] == windows) { /* one from the first step to the last */
      assert_int_equal(r.plan->batches.count, 1);
      assert_int_equal(r.plan->batches.at[0].end - r.plan->batches.at[0].first, r.plan->steps.count);
    }
    for (uint32_t b = 0; b < r.plan->batches.count; b++) {
      const plan_batch *batch = &r.plan->batches.at[b];
      const uint32_t *slots = r.plan->operands.at + batch->slots;
      for (uint32_t i = 0; i < batch->slot_count; i++)
        for (uint32_t k = 0; k < i; k++) assert_int_not_equal(slots[i], slots[k]);
    }
    rig_close(&r);
  }
}

/* One session for all sizes in turn: what one binding leaves behind does not show in the next. */
static void the_same_bits(void **state) {
  (void)state;
  static const int64_t samples[] = {1, 2, 3, 5, 8, 0, 3, 17};
  for (size_t m = 0; m < MODELS; m++) {
    rig r;
    rig_open_without(&r, models[m], "native", "fuse"); /* so that steps are left to share */
    for (uint32_t threads = 1; threads <= 3; threads++) {
      run_pool *pool;
      assert_int_equal(run_pool_new(threads, 50, &base_libc_allocator, &pool, &r.err), TD_OK);
      run_session *whole = open_session(&r, NULL, 0), *parted = open_session(&r, pool, CACHE);
      for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        run_on(&r, whole, samples[i]);
        run_on(&r, parted, samples[i]);
        expect_same(&r, whole, parted);
        assert_int_equal(parts_of(whole), 0);
        if (samples[i] < 2) assert_int_equal(parts_of(parted), 0);
        if (samples[i] > 3 && m < GAIN) assert_true(parts_of(parted) > 0);
        if (samples[i] == 8 && m < GAIN) assert_int_equal(shares_of(parted) > 0, threads == 2);
      }
      run_session_free(whole);
      run_session_free(parted);
      run_pool_free(pool);
    }
    rig_close(&r);
  }
}

enum { WIDE = 256, ROWS = 16, WIDE_SAMPLES = 64 };

/* Whole samples, or as many as step `i` takes at a time. */
static int64_t part_of(const run_session *session, uint32_t i) {
  const plan_binding *b = &session->bounds.active->binding;
  return b->parts_of[i] == PLAN_NONE ? WIDE_SAMPLES : b->parts.at[b->parts_of[i]].part;
}

/* A step without weights, and one with many bytes of them, which each part reads anew: each is told by what it reads
 * and leaves as plan_choose_parts is to know it. */
static void steps_are_weighed_by_what_they_read(void **state) {
  (void)state;
  rig r;
  base_text text = {.allocator = &base_libc_allocator};
  base_text_print(&text, "input %%0 \"x\": f32[n, %d, %d]\nconst %%1: f32[%d, %d] = {0", ROWS, WIDE, WIDE, WIDE);
  for (int i = 1; i < WIDE * WIDE; i++) base_text_print(&text, ", %d", i % 3 - 1);
  base_text_print(&text, "}\n%%2 = aten::sin(%%0)\n%%3 = td::linear(%%2, %%1) {n = %d}\noutput \"y\" %%3\n", WIDE);
  const compile_setting setting = {.backend = compile_find_backend("native"),
                                   .options.disabled_passes = "prepack",
                                   .isa = BASE_ISA_VECTOR,
                                   .options.alone = "*"};
  rig_open_as(&r, text.at, NULL, &setting);
  const double each = ROWS * WIDE * sizeof(float), weights = WIDE * WIDE * sizeof(float);
  const plan_load loads[] = {{.inner = each, .outer = each},
                             {.inner = each, .outer = each, .shared = weights, .passed = each}};
  enum { COUNT = sizeof loads / sizeof *loads };
  assert_int_equal(r.plan->steps.count, COUNT);
  for (size_t cache = 32 * 1024; cache <= 1 << 20; cache *= 2) {
    int64_t expected[COUNT];
    assert_true(plan_choose_parts(r.arena, &base_speed_default, loads, COUNT, WIDE_SAMPLES, (double)cache, expected));
    run_session *session = open_session(&r, NULL, cache);
    const int64_t dims[] = {WIDE_SAMPLES, ROWS, WIDE};
    base_tensor t = base_tensor_of(NULL, TD_F32, 3, dims);
    t.data = base_arena_alloc_aligned(r.arena, base_tensor_bytes(&t), 64);
    memset(t.data, 0, base_tensor_bytes(&t));
    const base_value value = {.kind = BASE_TENSOR, .tensor = t};
    assert_int_equal(run_set_input(session, 0, &value, &r.err), TD_OK);
    rig_run(&(rig){.session = session});
    for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(part_of(session, i), expected[i]);
    run_session_free(session);
  }
  base_text_free(&text);
  rig_close(&r);
}

/* What only steps in parts use takes memory for one part. */
static void memory_for_one_part(void **state) {
  (void)state;
  rig r;
  open_apart(&r, chain, "native");
  run_session *whole = open_session(&r, NULL, 0), *parted = open_session(&r, NULL, CACHE);
  run_on(&r, whole, 64);
  run_on(&r, parted, 64);
  const size_t output = 64 * 4096 * 2 * sizeof(float);
  assert_true(run_session_stats(whole).arena_bytes >= 2 * output);
  assert_true(run_session_stats(parted).arena_bytes < output + 4 * CACHE);
  run_session_free(whole);
  run_session_free(parted);
  rig_close(&r);
}

/* A view of a square from before the batch sees a column as a sample: nothing is written over it while others run. */
static void foreign_views(void **state) {
  (void)state;
  rig r;
  open_apart(&r,
             "input %0 \"x\": f32[4, 4096, 2]\n"
             "%1 = td::flatten(%0) {axis = 1}\n"
             "%2 = aten::unflatten(%1) {dim = 1, sizes = [4, 2048]}\n"
             "%3 = aten::sin(%2)\n"
             "%4 = aten::permute(%3) {dims = [1, 0, 2]}\n"
             "%5 = aten::cos(%4)\n"
             "%6 = aten::add(%5, %3)\n"
             "%7 = aten::neg(%3)\n"
             "%8 = aten::mul(%7, %6)\n"
             "output \"y\" %8\n",
             "native");
  run_session *whole = open_session(&r, NULL, 0), *parted = open_session(&r, NULL, CACHE);
  run_on(&r, whole, 4);
  run_on(&r, parted, 4);
  expect_same(&r, whole, parted);
  run_session_free(whole);
  run_session_free(parted);
  rig_close(&r);
}

/* Threads that take shares: the memory of each is counted, and while another session has the pool, one takes them all.
 */
static void shares_of_threads(void **state) {
  (void)state;
  rig r;
  run_pool *pool;
  run_team *other;
  open_apart(&r, places, "native");
  assert_int_equal(run_pool_new(2, 50, &base_libc_allocator, &pool, &r.err), TD_OK);
  run_session *whole = open_session(&r, NULL, 0), *shared = open_session(&r, pool, CACHE);
  run_on(&r, whole, 8);
  assert_int_equal(run_team_new(pool, 0, &other, &r.err), TD_OK);
  for (int taken = 0; taken < 2; taken++) {
    if (taken) run_team_enter(other, false);
    run_on(&r, shared, 8);
    expect_same(&r, whole, shared);
    if (taken) run_team_leave(other);
  }
  assert_int_equal(run_session_stats(shared).threads, 2);
  assert_true(shares_of(shared) > 0);
  for (uint32_t i = 0; i < shares_of(shared); i++) {
    const plan_shares *s = &shared->bounds.active->binding.shares.at[i];
    assert_true(s->own_bytes > 0 && s->own_offset + 2 * s->own_bytes <= run_session_stats(shared).arena_bytes);
  }
  run_session_free(whole);
  run_session_free(shared);
  run_team_free(other);
  run_pool_free(pool);
  rig_close(&r);
}

/* A step of little work stays where its operand was made: with the caller, or on the threads of a product. */
static void light_steps_stay_with_their_operands(void **state) {
  (void)state;
  rig r;
  run_pool *pool;
  open_apart(&r,
             "input %0 \"x\": f32[8, 4096, 2]\n"
             "%1 = aten::neg(%0)\n"
             "%2 = td::flatten(%1) {axis = 1}\n"
             "%3 = aten::unflatten(%2) {dim = 1, sizes = [32, 256]}\n"
             "%4 = td::flatten(%3) {axis = 2}\n"
             "%5 = aten::matmul(%4, %4)\n"
             "%6 = aten::neg(%5)\n"
             "output \"y\" %6\n",
             "native");
  assert_int_equal(run_pool_new(2, 50, &base_libc_allocator, &pool, &r.err), TD_OK);
  run_session *session = open_session(&r, pool, 0);
  run_on(&r, session, 8);
  uint16_t threads[8], count = 0;
  for (uint32_t i = 0; i < r.plan->steps.count && count < 8; i++)
    if (r.plan->steps.at[i].kind == PLAN_CALL) threads[count++] = session->bounds.active->threads[i];
  assert_int_equal(count, 3);
  assert_int_equal(threads[0], 1);
  assert_int_equal(threads[1], 2);
  assert_int_equal(threads[2], 2);
  run_session_free(session);
  run_pool_free(pool);
  rig_close(&r);
}

/* A copy that fails on samples that begin with this. */
static const float marked = 77;
static td_status copy_unmarked(const base_call *call) {
  const base_tensor *x = base_in(call, 0);
  for (int64_t i = 0; i < x->dims[0]; i++)
    if (*(const float *)base_at(x, i * x->strides[0]) == marked)
      return base_fail(call->err, TD_UNSUPPORTED, NULL, -1, "a marked sample");
  base_tensor_copy(base_out(call, 0), x);
  return TD_OK;
}

/* Whoever comes to the sample, the step is named, and the next run is a good one. */
static void a_failing_step_is_named(void **state) {
  (void)state;
  rig r;
  run_pool *pool;
  open_apart(&r, X "%1 = aten::cos(%0)  # \"node /copy\"\n%2 = aten::sin(%1)\n%3 = aten::tanh(%2)\noutput \"y\" %3\n",
             "native");
  r.plan->here.links.at[r.plan->steps.at[0].function].run = copy_unmarked;
  assert_int_equal(run_pool_new(2, 50, &base_libc_allocator, &pool, &r.err), TD_OK);
  run_session *session = open_session(&r, pool, CACHE);
  run_on(&r, session, 8);
  assert_true(shares_of(session) > 0);
  float *x = session->given.inputs[0].tensor.data;
  for (int64_t i = 0; i < 8; i++) {
    const float before = x[i * 8192];
    x[i * 8192] = marked;
    assert_int_equal(run_session_run(session, &r.err), TD_UNSUPPORTED);
    assert_int_equal(strncmp(r.err.text, "a marked sample; step 0, graph node ", 36), 0);
    assert_string_equal(r.err.name, "node /copy");
    x[i * 8192] = before;
    assert_int_equal(run_session_run(session, &r.err), TD_OK);
  }
  run_session_free(session);
  run_pool_free(pool);
  rig_close(&r);
}

typedef struct count {
  uint32_t begun, ended;
  uint64_t ns, own_ns; /* until its end; of this, the caller's thread computing */
} count;

static void begins(void *user, uint32_t step) { ((count *)user)[step].begun++; }
static void ends(void *user, uint32_t step, uint64_t ns) {
  ((count *)user)[step].ended++;
  ((count *)user)[step].ns += ns;
}

static void counts_own(void *user, uint32_t thread, uint32_t step, uint64_t begin_ns, uint64_t end_ns) {
  if (thread == 0) ((count *)user)[step].own_ns += end_ns - begin_ns;
}

static uint64_t sum_of_times(const rig *r, const count *counts) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < r->plan->steps.count; i++) sum += counts[i].ns;
  return sum;
}

static void hears_part(void *user, uint32_t thread, uint32_t step, uint64_t begin_ns, uint64_t end_ns) {
  _Atomic uint64_t *heard = user; /* per thread: how often */
  (void)step;
  if (thread < 2 && end_ns >= begin_ns) atomic_fetch_add(&heard[thread], 1);
  usleep(200); /* the other one has its turn */
}

static void hears_run(void *user, uint64_t begin_ns, uint64_t end_ns) {
  _Atomic uint64_t *heard = user;
  if (end_ns > begin_ns) atomic_fetch_add(&heard[2], 1);
}

/* Of parts that threads run side by side the observer hears on each of them. */
static void observers_hear_every_thread(void **state) {
  (void)state;
  rig r;
  _Atomic uint64_t heard[3] = {0};
  run_pool *pool;
  open_apart(&r, chain, "native");
  assert_int_equal(run_pool_new(2, 50, &base_libc_allocator, &pool, &r.err), TD_OK);
  run_session *session = open_session(&r, pool, CACHE);
  const td_observer observer = {.size = sizeof observer, .user = heard, .part = hears_part, .run = hears_run};
  run_observe(session, &observer);
  for (int run = 0; run < 100 && !(heard[0] && heard[1]); run++) run_on(&r, session, 8);
  assert_true(heard[2] > 0);
  assert_true((heard[0] && heard[1]) || run_usable_threads() < 2); /* there OpenMP and TBB may run all on one thread */
  run_session_free(session);
  run_pool_free(pool);
  rig_close(&r);
}

/* An observer hears of a step once in a run, however many parts there are and whoever runs them; the times add up to no
 * more than what has passed, none is shorter than what the caller computed of it, and sizes are those of the whole
 * batch afterwards. */
static void observers_hear_once(void **state) {
  (void)state;
  for (uint32_t threads = 1; threads <= 2; threads++) {
    rig r;
    count counts[16] = {0};
    run_pool *pool;
    open_apart(&r, chain, "native");
    assert_int_equal(run_pool_new(threads, 50, &base_libc_allocator, &pool, &r.err), TD_OK);
    run_session *session = open_session(&r, pool, CACHE);
    const td_observer observer = {
        .size = sizeof observer, .user = counts, .begin = begins, .end = ends, .part = counts_own};
    run_observe(session, &observer);
    const uint64_t start = sys_clock_ns();
    run_on(&r, session, 8);
    assert_in_range(sum_of_times(&r, counts), 1, sys_clock_ns() - start);
    assert_true(parts_of(session) > 0);
    assert_int_equal(shares_of(session) > 0, threads == 2);
    for (uint32_t i = 0; i < r.plan->steps.count; i++) {
      const plan_step *step = &r.plan->steps.at[i];
      assert_int_equal(counts[i].begun, 2);
      assert_int_equal(counts[i].ended, 2);
      assert_true(counts[i].ns > 0 && counts[i].own_ns <= counts[i].ns);
      assert_int_equal(run_slot(session, r.plan->operands.at[step->out])->tensor.dims[0], 8);
    }
    run_session_free(session);
    run_pool_free(pool);
    rig_close(&r);
  }
}

/* Operands that do not fit together are found before any part runs, and named; the session runs on. */
static void misfits_are_named(void **state) {
  (void)state;
  rig r;
  open_apart(&r,
             "input %0 \"x\": f32[n, 4096, 2]\n"
             "input %1 \"y\": f32[n, m]\n"
             "%2 = aten::sin(%0)\n"
             "%3 = aten::_softmax(%2) {dim = 1}\n"
             "%4 = aten::mul(%2, %3)\n"
             "%5 = aten::unflatten(%1) {dim = 1, sizes = [4096, 2]}  # \"node /split\"\n"
             "%6 = aten::add(%4, %5)\n"
             "output \"z\" %6\n",
             "native");
  run_session *session = open_session(&r, NULL, CACHE);
  for (int round = 0; round < 4; round++) {
    const bool fits = round % 2;
    const int64_t x_dims[] = {8, 4096, 2}, y_dims[] = {8, fits ? 8192 : 8191};
    const base_value inputs[] = {{.kind = BASE_TENSOR, .tensor = base_tensor_of(NULL, TD_F32, 3, x_dims)},
                                 {.kind = BASE_TENSOR, .tensor = base_tensor_of(NULL, TD_F32, 2, y_dims)}};
    for (uint32_t i = 0; i < 2; i++) {
      base_value value = inputs[i];
      value.tensor.data = base_new(r.arena, float, (size_t)base_tensor_numel(&value.tensor));
      assert_int_equal(run_set_input(session, i, &value, &r.err), TD_OK);
    }
    const td_status status = run_session_run(session, &r.err);
    assert_int_equal(status == TD_OK, fits);
    assert_true(parts_of(session) > 0);
    if (!fits) assert_string_equal(r.err.name, "node /split");
  }
  run_session_free(session);
  rig_close(&r);
}

/* A quarter of L3, where that is near; else L2 of each thread. */
static void caches_count_that_are_near(void **state) {
  (void)state;
  const uint64_t mib = 1 << 20;
  const sys_machine few_cores = {.l2_bytes = mib, .l3_bytes = 32 * mib},
                    mesh = {.l2_bytes = 2 * mib, .l3_bytes = 480 * mib}, small = {.l2_bytes = mib},
                    unknown = {.l2_bytes = 0};
  assert_int_equal(run_kept_bytes(&few_cores, 1, 4), 8 * mib);
  assert_int_equal(run_kept_bytes(&few_cores, 2, 16), 16 * mib);
  assert_int_equal(run_kept_bytes(&mesh, 1, 1), 2 * mib);
  assert_int_equal(run_kept_bytes(&mesh, 1, 2), 4 * mib);
  assert_int_equal(run_kept_bytes(&small, 1, 2), 2 * mib);
  assert_int_equal(run_kept_bytes(&unknown, 1, 2), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_same_bits),
      cmocka_unit_test(steps_are_weighed_by_what_they_read),
      cmocka_unit_test(memory_for_one_part),
      cmocka_unit_test(foreign_views),
      cmocka_unit_test(observers_hear_once),
      cmocka_unit_test(observers_hear_every_thread),
      cmocka_unit_test(shares_of_threads),
      cmocka_unit_test(light_steps_stay_with_their_operands),
      cmocka_unit_test(batches_list_values_once),
      cmocka_unit_test(a_failing_step_is_named),
      cmocka_unit_test(misfits_are_named),
      cmocka_unit_test(caches_count_that_are_near),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
