/* test_tier.c -- answers at once, and machine code that takes over as it comes: the same bits, on any thread, at any
 * time, and nothing left behind when the plan goes first. */
/* ctest: threads */
#include <sys/stat.h>

#include "codegen/small_model.h"
#include "sys/sys.h"

enum { LOOPS = 9, THREADS = 3, ROUNDS = 4, COLUMNS = 24 };

/* Loops of different programs over different spaces, enough for some files. */
static char *many_loops(base_arena *arena) {
  base_text text = {.allocator = base_arena_allocator(arena)};
  for (int i = 0; i < LOOPS; i++)
    base_text_print(&text,
                    "input %%%d \"x%d\": f32[n, %d]\nconst %%%d: f32[] = {%d}\n%%%d = aten::mul(%%%d, %%%d)\n"
                    "%%%d = aten::sigmoid(%%%d)\n%%%d = aten::add(%%%d, %%%d)\noutput \"y%d\" %%%d\n",
                    i, i, COLUMNS + i, 80 + i, i + 2, 20 + i, i, 80 + i, 40 + i, 20 + i, 60 + i, 40 + i, i, i, 60 + i);
  char *kept = base_arena_text(arena, text.at);
  base_text_free(&text);
  return kept;
}

typedef struct bench {
  base_arena *arena;
  char *folder, script[96], cache[96];
  plan_exe *plan;
  uint32_t warnings;
  td_allocator allocator;
  base_counting counting;
} bench;

static void count_warning(void *user, const char *text) {
  (void)text;
  ((bench *)user)->warnings++;
}

/* `body`: what the compiler does, of the shell, with $cc for a true one. */
static void bench_open(bench *b, const char *body) {
  char text[512];
  td_error err = {0};
  *b = (bench){.counting = {.inner = &base_libc_allocator}, .arena = base_arena_new(&base_libc_allocator)};
  b->allocator = base_counting_allocator(&b->counting);
  b->folder = chains_cache();
  snprintf(b->script, sizeof b->script, "%s/cc", b->folder);
  snprintf(b->cache, sizeof b->cache, "%s/made", b->folder);
  snprintf(text, sizeof text, "#!/bin/sh\ncc=%s\n%s\n", chains_compiler(), body);
  assert_int_equal(sys_write_file(b->script, text, strlen(text), &err), TD_OK);
  assert_int_equal(chmod(b->script, 0700), 0);
  ir_graph *graph = parse_graph(b->arena, many_loops(b->arena), &base_libc_allocator);
  sys_machine machine;
  sys_machine_read(&machine);
  const compile_setting setting = {.backend = compile_find_backend("native"),
                                   .isa = machine.isa | BASE_ISA_VECTOR,
                                   .options.cc = b->script,
                                   .options.cache = b->cache,
                                   .options.tiered = true,
                                   .options.warn = count_warning,
                                   .options.warn_user = b};
  if (compile_graph(graph, &setting, &b->allocator, NULL, &b->plan, &err) != TD_OK) fail_msg("%s", err.text);
  ir_graph_free(graph);
}

static void bench_close(bench *b) {
  plan_free(b->plan);
  assert_int_equal(b->counting.live, 0);
  base_arena_free(b->arena);
  chains_remove(b->folder);
}

static uint32_t waiting(const bench *b) { return atomic_load(&b->plan->here.tier->waiting); }

static run_session *open_session(const bench *b, float *memory) {
  run_session *session = NULL;
  td_error err;
  assert_int_equal(run_session_new(b->plan, &b->allocator, NULL, &session, &err), TD_OK);
  for (int i = 0; i < LOOPS; i++) {
    const int64_t dims[] = {ROUNDS, COLUMNS + i};
    float *at = memory + (size_t)i * ROUNDS * (COLUMNS + LOOPS);
    for (int k = 0; k < ROUNDS * (COLUMNS + i); k++) at[k] = (float)(k % 13 - 6) * 0.37f + (float)i;
    const base_value value = {.kind = BASE_TENSOR, .tensor = base_tensor_of(at, TD_F32, 2, dims)};
    assert_int_equal(run_set_input(session, (uint32_t)i, &value, &err), TD_OK);
  }
  return session;
}

/* A number for all bits of all outputs of a run. */
static uint64_t answer_of(run_session *session) {
  td_error err;
  uint64_t sum = 1;
  if (run_session_run(session, &err) != TD_OK) return 0;
  for (uint32_t i = 0; i < LOOPS; i++) {
    const base_value *value;
    if (run_output(session, i, &value, &err) != TD_OK) return 0;
    const uint8_t *at = value->tensor.data;
    for (size_t k = 0; k < base_tensor_bytes(&value->tensor); k++) sum = (sum ^ at[k]) * 0x100000001b3;
  }
  return sum;
}

typedef struct runner {
  const bench *b;
  uint64_t answer;
  bool same;
  uint32_t runs;
} runner;

/* Runs until all code is there, and some more. */
static void run_along(void *user) {
  runner *r = user;
  float *memory = calloc((size_t)LOOPS * ROUNDS * (COLUMNS + LOOPS), sizeof *memory);
  run_session *session = open_session(r->b, memory);
  r->answer = answer_of(session);
  r->same = r->answer != 0;
  while (waiting(r->b)) r->same &= answer_of(session) == r->answer, r->runs++;
  for (uint32_t i = 0; i < ROUNDS; i++) r->same &= answer_of(session) == r->answer;
  run_session_free(session);
  free(memory);
}

static void code_comes_while_threads_run(void **state) {
  (void)state;
  if (!chains_compiler()) skip();
  bench b;
  runner runners[THREADS] = {0};
  sys_thread threads[THREADS];
  td_error err;
  bench_open(&b, "sleep 0.2; exec $cc \"$@\"");
  assert_int_equal(waiting(&b), LOOPS);
  for (uint32_t i = 0; i < THREADS; i++) {
    runners[i].b = &b;
    assert_int_equal(sys_thread_start(&threads[i], run_along, &runners[i], &err), TD_OK);
  }
  for (uint32_t i = 0; i < THREADS; i++) sys_thread_join(&threads[i]);
  for (uint32_t i = 0; i < THREADS; i++) {
    assert_true(runners[i].same);
    assert_true(runners[i].runs > 0);
    assert_int_equal(runners[i].answer, runners[0].answer);
  }
  uint32_t taken = 0;
  for (uint32_t i = 0; i < b.plan->functions.count; i++) taken += atomic_load(&b.plan->here.tier->at[i]) != NULL;
  assert_int_equal(taken, LOOPS);
  assert_int_equal(b.warnings, 0);
  bench_close(&b);
}

/* Nobody waits for a compiler that hangs. */
static void plan_goes_first(void **state) {
  (void)state;
  bench b;
  float *memory = calloc((size_t)LOOPS * ROUNDS * (COLUMNS + LOOPS), sizeof *memory);
  bench_open(&b, "exec sleep 1000");
  run_session *session = open_session(&b, memory);
  assert_int_not_equal(answer_of(session), 0);
  assert_int_equal(waiting(&b), LOOPS);
  run_session_free(session);
  bench_close(&b);
  free(memory);
}

static void compilers_that_fail(void **state) {
  (void)state;
  bench b;
  float *memory = calloc((size_t)LOOPS * ROUNDS * (COLUMNS + LOOPS), sizeof *memory);
  bench_open(&b, "exit 1");
  run_session *session = open_session(&b, memory);
  const uint64_t answer = answer_of(session);
  while (waiting(&b)) sys_sleep_ms(1);
  assert_int_equal(answer_of(session), answer);
  run_session_free(session);
  plan_exe *plan = b.plan;
  b.plan = NULL;
  plan_free(plan); /* ends the thread: then all that it has to say is said */
  assert_int_equal(b.warnings, 1);
  bench_close(&b);
  free(memory);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(code_comes_while_threads_run), cmocka_unit_test(plan_goes_first),
                                     cmocka_unit_test(compilers_that_fail)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
