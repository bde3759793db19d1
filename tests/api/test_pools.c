/* test_pools.c -- pools on sets of CPUs, with names and weights; sessions that share them. */
/* ctest: threads */
#include "test.h"

#include <stdio.h>

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <treadle/async.h>
#include <treadle/experimental.h>

enum { ROWS = 64, IN = 256, OUT = 128 };

static td_model *load(void) {
  td_error err;
  td_model *model;
  if (td_model_load("builtin:layer:linear 64x256 out=128", NULL, &model, &err) != TD_OK) fail_msg("%s", err.text);
  return model;
}

static uint32_t allowed(uint32_t index) {
  cpu_set_t set;
  assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
  for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &set) && index-- == 0) return cpu;
  return UINT32_MAX;
}

/* Threads of this process whose name begins so. */
static int named(const char *name) {
  int count = 0;
  DIR *folder = opendir("/proc/self/task");
  assert_non_null(folder);
  for (struct dirent *entry; (entry = readdir(folder));) {
    char path[300], text[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
    FILE *file = fopen(path, "r");
    if (file && fgets(text, sizeof text, file)) count += strncmp(text, name, strlen(name)) == 0;
    if (file) fclose(file);
  }
  closedir(folder);
  return count;
}

static td_status open_pool(const char *cpus, uint32_t threads, td_pool **pool, td_error *err) {
  const td_pool_options options = {
      .size = sizeof options, .threads = threads, .cpus = cpus, .name = "mine", .spin_us = 30};
  return td_pool_new(&options, pool, err);
}

static void cpus_are_found(void **state) {
  (void)state;
  td_error err;
  char list[32];
  uint32_t found[2] = {77, 77};
  size_t count = 0;
  snprintf(list, sizeof list, "%u", allowed(0));
  assert_int_equal(td_find_cpus(list, 0, found, 2, &count, &err), TD_OK);
  assert_int_equal(count, 1);
  assert_int_equal(found[0], allowed(0));
  assert_int_equal(found[1], 77);
  assert_int_equal(td_find_cpus(list, 0, NULL, 0, &count, &err), TD_OK);
  assert_int_equal(td_find_cpus("node 77", 1, found, 2, &count, &err), TD_BAD_ARGUMENT);
  assert_non_null(strstr(err.text, "node 77"));
  assert_int_equal(td_find_cpus(NULL, 0, found, 2, &count, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_find_cpus(list, 0, NULL, 2, &count, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_find_cpus(list, 0, found, 2, NULL, &err), TD_BAD_ARGUMENT);
}

static void pools_on_cpus(void **state) {
  (void)state;
  td_error err;
  td_pool *pool;
  char list[32];
  const uint32_t first = allowed(0), second = allowed(1);
  assert_int_equal(open_pool("8191", 0, &pool, &err), TD_BAD_ARGUMENT);
  assert_int_equal(open_pool("node 77", 0, &pool, &err), TD_BAD_ARGUMENT);
  assert_non_null(strstr(err.text, "node 77"));
  assert_int_equal(open_pool("the best", 0, &pool, &err), TD_BAD_ARGUMENT);
  assert_non_null(strstr(err.text, "\"socket 0\" do"));
  assert_int_equal(open_pool("", 0, &pool, &err), TD_BAD_ARGUMENT);
  snprintf(list, sizeof list, "%u", first);
  assert_int_equal(open_pool(list, 0, &pool, &err), TD_OK);
  assert_int_equal(named("mine/"), 0); /* the caller's thread is the only one */
  td_pool_free(pool);
  assert_int_equal(open_pool("cores 0-8191", 3, &pool, &err), TD_OK);
  assert_int_equal(named("mine/"), OWN_THREADS ? 2 : 0);
  td_pool_free(pool);
  if (second == UINT32_MAX) return;
  snprintf(list, sizeof list, "%u,%u", first, second);
  assert_int_equal(open_pool(list, 0, &pool, &err), TD_OK);
  assert_true(named("mine/") <= 1); /* a quota may leave it less */
  td_pool_free(pool);
  assert_int_equal(named("mine/"), 0);
}

typedef struct user {
  td_session *session;
  float x[ROWS * IN], y[ROWS * OUT];
  const float *want;
  int bad;
} user;

static void fill(float *x) {
  for (int i = 0; i < ROWS * IN; i++) x[i] = (float)(i * 37 % 211) / 100 - 1;
}

static td_status run(td_session *session, float *x, float *y) {
  const td_tensor in = {.dtype = TD_F32, .rank = 2, .dims = {ROWS, IN}, .data = x};
  const td_tensor out = {.dtype = TD_F32, .rank = 2, .dims = {ROWS, OUT}, .data = y};
  const td_run_options o = {.size = sizeof o, .inputs = &in, .input_count = 1, .outputs = &out, .output_count = 1};
  td_error err;
  return td_session_run_with(session, &o, &err);
}

static int same_bits(const void *a, const void *b, size_t bytes) { return memcmp(a, b, bytes) == 0; }

static void *use(void *at) {
  user *u = at;
  for (int i = 0; i < 300; i++) {
    memset(u->y, 0, sizeof u->y);
    u->bad += run(u->session, u->x, u->y) != TD_OK || !same_bits(u->y, u->want, sizeof u->y);
  }
  return NULL;
}

/* Sessions of one model, of one pool, and with threads of their own, all at once: the bits of a session alone. */
static void the_same_bits(void **state) {
  (void)state;
  enum { USERS = 6 };
  static user users[USERS];
  static float x[ROWS * IN], want[ROWS * OUT];
  td_error err;
  td_pool *pool;
  td_session *alone;
  pthread_t threads[USERS];
  td_model *model = load();
  fill(x);
  const td_session_options one = {.size = sizeof one, .threads = 1};
  assert_int_equal(td_session_new(model, &one, &alone, &err), TD_OK);
  assert_int_equal(run(alone, x, want), TD_OK);
  assert_int_equal(open_pool(NULL, 5, &pool, &err), TD_OK);
  for (int i = 0; i < USERS; i++) {
    const td_session_options options[] = {{.size = sizeof *options},
                                          {.size = sizeof *options, .pool = pool, .weight = (uint32_t)i},
                                          {.size = sizeof *options, .threads = 9}};
    memcpy(users[i].x, x, sizeof x);
    users[i].want = want;
    assert_int_equal(td_session_new(model, &options[i % 3], &users[i].session, &err), TD_OK);
  }
  for (int i = 0; i < USERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, use, &users[i]), 0);
  for (int i = 0; i < USERS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < USERS; i++) {
    assert_int_equal(users[i].bad, 0);
    td_session_free(users[i].session);
  }
  td_session_free(alone);
  td_pool_free(pool);
  td_model_free(model);
}

/* What a session computes beside a guest; how many threads it has then: tests/runtime/test_pool.c. */
static void guests(void **state) {
  (void)state;
  td_error err;
  td_pool *pool;
  td_guest *guest;
  td_session *session;
  td_model *model = load();
  float x[ROWS * IN], y[ROWS * OUT], beside[ROWS * OUT];
  assert_int_equal(td_guest_new(NULL, &guest, &err), TD_BAD_ARGUMENT);
  assert_int_equal(open_pool(NULL, 2, &pool, &err), TD_OK);
  assert_int_equal(td_guest_new(pool, NULL, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_guest_new(pool, &guest, &err), TD_OK);
  const td_session_options options = {.size = sizeof options, .pool = pool};
  assert_int_equal(td_session_new(model, &options, &session, &err), TD_OK);
  fill(x);
  assert_int_equal(run(session, x, y), TD_OK);
  td_guest_enter(guest);
  assert_int_equal(run(session, x, beside), TD_OK);
  td_guest_leave(guest);
  assert_true(same_bits(y, beside, sizeof y));
  td_guest_enter(NULL);
  td_guest_leave(NULL);
  td_guest_free(NULL);
  td_session_free(session);
  td_guest_free(guest);
  td_pool_free(pool);
  td_model_free(model);
}

/* Weights on each node of a machine of two; more about who reads which: tests/runtime/test_copies.c. */
static void weights_on_each_node(void **state) {
  (void)state;
  td_error err;
  td_model *model, *plain = load();
  const td_load_options wrong = {.size = sizeof wrong, .node_copies = "no machine"};
  const td_load_options two = {.size = sizeof two, .node_copies = "package:2 [numa] core:1 pu:1"};
  td_model_stats stats = {.size = sizeof stats}, before = {.size = sizeof before};
  assert_int_not_equal(td_model_load("builtin:layer:linear 64x256 out=128", &wrong, &model, &err), TD_OK);
  assert_int_equal(td_model_load("builtin:layer:linear 64x256 out=128", &two, &model, &err), TD_OK);
  assert_int_equal(td_model_get_stats(model, &stats, &err), TD_OK);
  assert_int_equal(td_model_get_stats(plain, &before, &err), TD_OK);
  assert_int_equal(stats.memory_nodes, 2);
  assert_in_range(stats.node_bytes, IN * OUT * sizeof(float), 2 * IN * OUT * sizeof(float));
  assert_int_equal(before.memory_nodes, 0);
  assert_int_equal(before.node_bytes, 0);
  td_model_free(model);
  td_model_free(plain);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(cpus_are_found), cmocka_unit_test(pools_on_cpus),
                                     cmocka_unit_test(guests), cmocka_unit_test(weights_on_each_node),
                                     cmocka_unit_test(the_same_bits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
