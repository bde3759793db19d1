/* test_tasks.c -- forks and waits: the same bits beside the caller's thread as on it, whatever is forked where. */
/* ctest: threads */
#include <dirent.h>
#include <pthread.h>
#include <unistd.h>

#include "base/team.h"
#include "runtime/crew_priv.h"
#include "runtime/harness.h"
#include "runtime/session_priv.h"

static const char *const backends[] = {"eager", "native"};

/* How tasks run: where they stand, on 1, 2 and 3 threads beside the caller's, which are the crew's own or workers of
 * the pool. */
enum { CREWS = 4, WAYS = CREWS * CREWS };

typedef struct way {
  run_pool *pool;
  run_session *session;
} way;

/* Those of the process; one that has ended is seen for a moment longer. */
static uint32_t threads_here(void) {
  uint32_t count = 0;
  DIR *dir = opendir("/proc/self/task");
  for (struct dirent *entry; dir && (entry = readdir(dir));) count += entry->d_name[0] != '.';
  if (dir) closedir(dir);
  return count;
}

/* Threads that are there before any of ours: the main one, and what a sanitizer has started with the first other one.
 */
static uint32_t first_threads;

static void *nothing(void *user) { return user; }

static void count_first_threads(void) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, nothing, NULL), 0);
  pthread_join(thread, NULL);
  usleep(20000); /* until it is not seen any more */
  first_threads = threads_here();
}

static void open_way(way *w, const rig *r, uint32_t crew, uint32_t workers) {
  td_error err;
  *w = (way){NULL, NULL};
  assert_int_equal(run_pool_new(workers + 1, 50, &base_libc_allocator, &w->pool, &err), TD_OK);
  run_pool_set_interop(w->pool, crew + 1);
  assert_int_equal(run_session_new(r->plan, &base_libc_allocator, w->pool, &w->session, &err), TD_OK);
  w->session->tasks.force = true;
  const uint32_t tasks = run_session_crew(w->session), beside = tasks > workers ? tasks : workers;
  assert_true(tasks == crew || tasks == 0); /* the compiler may have left no tasks */
  if (!OWN_THREADS) return;                 /* how many another runtime has is its own affair */
  for (int wait = 0; wait < 2000 && threads_here() != first_threads + beside; wait++) usleep(1000);
  assert_int_equal(threads_here(), first_threads + beside); /* workers run tasks: these take no threads besides */
}

static void close_way(way *w) {
  run_session_free(w->session);
  run_pool_free(w->pool);
}

typedef void (*use_fn)(rig *r);

/* Calls `use` on every backend and way: the session of the rig is that of the way. */
static void each_way(const char *text, use_fn use) {
  for (size_t b = 0; b < sizeof backends / sizeof *backends; b++) {
    rig r;
    rig_open(&r, text, backends[b]);
    use(&r);
    run_session *own = r.session;
    for (uint32_t number = 0; number < WAYS; number++) {
      way w;
      open_way(&w, &r, number % CREWS, number / CREWS);
      r.session = w.session;
      for (int run = 0; run < 20; run++) use(&r);
      close_way(&w);
    }
    r.session = own;
    rig_close(&r);
  }
}

/* Tasks over an input, over each other's results, and over what goes on beside them. */
static const char side_by_side[] =
    "input %0 \"x\": f32[n]\n"
    "%1 = aten::add(%0, %0)\n"
    "%2 = prim::fork(): future(f32[n]) {\n"
    "  block() {\n"
    "    %3 = aten::mul(%1, %0)\n"
    "    %4 = aten::add(%3, %1)\n"
    "    yield %4\n"
    "  }\n"
    "}\n"
    "%5 = prim::fork(): future(f32[n]) {\n"
    "  block() {\n"
    "    %6 = prim::wait(%2)\n"
    "    %7 = aten::neg(%6)\n"
    "    yield %7\n"
    "  }\n"
    "}\n"
    "%8 = aten::mul(%0, %0)\n"
    "%9 = aten::mul(%8, %8)\n"
    "%10 = prim::wait(%5)\n"
    "%11 = prim::wait(%2)\n"
    "%12 = aten::add(%10, %9)\n"
    "output \"y\" %12\n"
    "output \"z\" %11\n"
    "output \"again\" %10\n";

static void use_side_by_side(rig *r) {
  rig_feed(r, 0, TD_F32, "3: 1");
  rig_run(r);
  expect_output(r, 0, "3: -3 4 57");
  expect_output(r, 1, "3: 4 12 24");
  expect_output(r, 2, "3: -4 -12 -24");
  rig_feed(r, 0, TD_F32, "1: 2");
  rig_run(r);
  expect_output(r, 1, "1: 12");
}

static void runs_side_by_side(void **state) {
  (void)state;
  each_way(side_by_side, use_side_by_side);
}

/* A list of futures from a loop, each of a task that forks another one; the loop's own value changes meanwhile. */
static const char in_loops[] =
    "input %0 \"trips\": i64[]\n"
    "input %1 \"x\": f32[2]\n"
    "const %2: bool[] = {1}\n"
    "const %23: i64[] = {51}\n"
    "%3 = prim::fork(): future(f32[2]) {\n"
    "  block() {\n"
    "    %24 = aten::sub(%1, %1)\n"
    "    yield %24\n"
    "  }\n"
    "}\n"
    "%20 = td::list_new(%3)\n"
    "%4, %5 = prim::Loop(%0, -, %1, %20): f32[2], list(future(f32[2])) {\n"
    "  block(%6: i64[], %7: f32[2], %8: list(future(f32[2]))) {\n"
    "    %9 = prim::fork(): future(f32[2]) {\n"
    "      block() {\n"
    "        %10 = aten::mul(%7, %7)\n"
    "        %11 = prim::fork(): future(f32[2]) {\n"
    "          block() {\n"
    "            %12 = aten::add(%10, %7)\n"
    "            yield %12\n"
    "          }\n"
    "        }\n"
    "        %13 = prim::wait(%11)\n"
    "        yield %13\n"
    "      }\n"
    "    }\n"
    "    %14 = aten::append(%8, %9)\n"
    "    %15 = aten::add(%7, %1)\n"
    "    yield %2, %15, %14\n"
    "  }\n"
    "}\n"
    "%16 = prim::Loop(%23, -, %1): f32[2] {\n"
    "  block(%17: i64[], %18: f32[2]) {\n"
    "    %19 = td::list_at(%5, %17)\n"
    "    %21 = prim::wait(%19)\n"
    "    %22 = aten::add(%18, %21)\n"
    "    yield %2, %22\n"
    "  }\n"
    "}\n"
    "output \"sum\" %16\n"
    "output \"last\" %4\n";

static void use_loops(rig *r) {
  rig_feed(r, 0, TD_I64, ": 50");
  rig_feed(r, 1, TD_F32, "2: 1 2");
  rig_run(r);
  /* x + sum of (k x)^2 + k x, k = 1 .. 50: 42925 x^2 + 1275 x */
  expect_output(r, 0, "2: 44201 174252");
  expect_output(r, 1, "2: 51 102");
}

static void runs_in_loops(void **state) {
  (void)state;
  each_way(in_loops, use_loops);
}

/* An error comes out of the wait, and a task that nobody waits for hurts nobody. */
static const char failing[] =
    "const %6: f32[3] = {1, 2, 3}\n"
    "input %0 \"at\": i64[1]\n"
    "%1 = prim::fork(): future(f32[1]) {\n"
    "  block() {\n"
    "    %2 = aten::index_select(%6, %0) {dim = 0}  # \"inside\"\n"
    "    yield %2\n"
    "  }\n"
    "}\n"
    "%3 = prim::wait(%1)  # \"outside\"\n"
    "output \"y\" %3\n";

static void use_failing(rig *r) {
  rig_feed(r, 0, TD_I64, "1: 2");
  rig_run(r);
  expect_output(r, 0, "1: 3");
  rig_feed(r, 0, TD_I64, "1: 7");
  assert_int_equal(run_session_run(r->session, &r->err), TD_BAD_ARGUMENT);
  assert_string_equal(r->err.name, "inside");
}

static void errors_come_out_of_waits(void **state) {
  (void)state;
  each_way(failing, use_failing);
}

/* Several results, an if around forks and waits, a wait that does not come. */
static const char branches[] =
    "input %0 \"c\": bool[]\n"
    "input %1 \"x\": f32[2, 2]\n"
    "%2 = prim::fork(): future(f32[2, 2]) {\n"
    "  block() {\n"
    "    %3 = prim::If(%0): f32[2, 2] {\n"
    "      block() {\n"
    "        %4 = aten::matmul(%1, %1)\n"
    "        yield %4\n"
    "      }\n"
    "      block() {\n"
    "        %5 = aten::permute(%1) {dims = [1, 0]}\n"
    "        yield %5\n"
    "      }\n"
    "    }\n"
    "    yield %3\n"
    "  }\n"
    "}\n"
    "%6 = prim::If(%0): f32[2, 2] {\n"
    "  block() {\n"
    "    %7 = prim::wait(%2)\n"
    "    yield %7\n"
    "  }\n"
    "  block() {\n"
    "    yield %1\n"
    "  }\n"
    "}\n"
    "output \"y\" %6\n";

static void use_branches(rig *r) {
  rig_feed(r, 0, TD_BOOL, ": 1");
  rig_feed(r, 1, TD_F32, "2x2: 1");
  rig_run(r);
  expect_output(r, 0, "2x2: 7 10 15 22");
  rig_feed(r, 0, TD_BOOL, ": 0");
  rig_run(r);
  expect_output(r, 0, "2x2: 1");
}

static void runs_in_branches(void **state) {
  (void)state;
  each_way(branches, use_branches);
}

/* Eight tasks that take a while. */
static const char many[] =
    "input %0 \"x\": f32[n]\n"
    "const %1: i64[] = {8}\n"
    "const %2: bool[] = {1}\n"
    "%3 = prim::fork(): future(f32[n]) {\n"
    "  block() {\n"
    "    %4 = aten::add(%0, %0)\n"
    "    yield %4\n"
    "  }\n"
    "}\n"
    "%5 = td::list_new(%3)\n"
    "%6, %7 = prim::Loop(%1, -, %0, %5): f32[n], list(future(f32[n])) {\n"
    "  block(%8: i64[], %9: f32[n], %10: list(future(f32[n]))) {\n"
    "    %11 = prim::fork(): future(f32[n]) {\n"
    "      block() {\n"
    "        %12 = aten::sigmoid(%9)\n"
    "        %13 = aten::tanh(%12)\n"
    "        yield %13\n"
    "      }\n"
    "    }\n"
    "    %14 = aten::append(%10, %11)\n"
    "    %15 = aten::add(%9, %0)\n"
    "    yield %2, %15, %14\n"
    "  }\n"
    "}\n"
    "%16 = prim::Loop(%1, -, %0): f32[n] {\n"
    "  block(%17: i64[], %18: f32[n]) {\n"
    "    %19 = td::list_at(%7, %17)\n"
    "    %20 = prim::wait(%19)\n"
    "    %21 = aten::add(%18, %20)\n"
    "    yield %2, %21\n"
    "  }\n"
    "}\n"
    "output \"y\" %16\n";

/* Threads besides the caller's that run tasks of a session: now, and the most so far. Their numbers are those behind
 * the ones that workers have in shared steps. */
typedef struct helpers {
  uint32_t first, last; /* numbers of such threads */
  _Atomic int now, most;
  _Atomic bool others; /* has there been one behind the last? */
} helpers;

static void begins(void *user, uint32_t thread, uint32_t step) {
  (void)step;
  helpers *h = user;
  if (thread > h->last) atomic_store(&h->others, true);
  if (thread < h->first) return;
  const int now = atomic_fetch_add(&h->now, 1) + 1;
  for (int most = atomic_load(&h->most); now > most && !atomic_compare_exchange_weak(&h->most, &most, now);) {}
}

static void ends(void *user, uint32_t thread, uint32_t step, uint64_t begin_ns, uint64_t end_ns) {
  (void)step, (void)begin_ns, (void)end_ns;
  helpers *h = user;
  if (thread >= h->first) atomic_fetch_sub(&h->now, 1);
}

static int most_helpers(rig *r, uint32_t threads, int runs, int enough) {
  helpers h = {.first = threads, .last = 2 * threads - 2};
  const td_observer observer = {.size = sizeof observer, .user = &h, .enter = begins, .part = ends};
  run_observe(r->session, &observer);
  for (int run = 0; run < runs && atomic_load(&h.most) < enough; run++) rig_run(r);
  run_observe(r->session, NULL);
  assert_false(atomic_load(&h.others));
  return atomic_load(&h.most);
}

/* Tasks have the threads of their session's team: none of those that another session has, or brings. */
static void within_the_share(void **state) {
  (void)state;
  for (uint32_t threads = 2; threads <= 4; threads++) {
    rig r;
    run_pool *pool;
    run_team *other;
    run_session *session;
    rig_open(&r, many, "native");
    assert_int_equal(run_pool_new(threads, 50, &r.allocator, &pool, &r.err), TD_OK);
    assert_int_equal(run_session_new(r.plan, &r.allocator, pool, &session, &r.err), TD_OK);
    session->tasks.force = true;
    run_session *own = r.session;
    r.session = session;
    rig_feed(&r, 0, TD_F32, "9999: 0.5");
    assert_int_equal(run_team_new(pool, 1, &other, &r.err), TD_OK);
    run_team_enter(other, false);
    rig_run(&r);
    assert_in_range(most_helpers(&r, threads, 50, 99), 0, (threads - 2 + 1) / 2); /* of what two callers leave */
    run_team_leave(other);
    run_team_free(other);
    if (OWN_THREADS) assert_in_range(most_helpers(&r, threads, 5000, 1), 1, threads - 1);
    run_session_free(session);
    run_pool_free(pool);
    r.session = own;
    rig_close(&r);
  }
}

/* Threads that are told to end before they have begun, or while they look for their first task. */
static void crews_end(void **state) {
  (void)state;
  for (int i = 0; i < 8000; i++) {
    run_crew *crew = run_crew_new(1 + (uint32_t)i % 3, 1, NULL, &base_libc_allocator);
    assert_non_null(crew);
    for (int turn = 0; turn < i % 256; turn++) base_pause();
    run_crew_free(crew);
  }
}

int main(void) {
  count_first_threads();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs_side_by_side),        cmocka_unit_test(runs_in_loops),
      cmocka_unit_test(errors_come_out_of_waits), cmocka_unit_test(runs_in_branches),
      cmocka_unit_test(within_the_share),         cmocka_unit_test(crews_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
