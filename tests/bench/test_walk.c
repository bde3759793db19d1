/* test_walk.c -- a plan walked over a machine that is not here (bench/walk.c), by times that are made up. */
#include "test.h"

#include "bench/walk.h"

enum { CORES = 4, MOST = 16 };

/* Two nodes of two cores: the first tells the second, and the third, who tells the fourth. */
static const walk_worker workers[CORES] = {
    {.below = 1, .beside = WALK_NONE, .node = 0},
    {.below = WALK_NONE, .beside = 2, .node = 0},
    {.below = 3, .beside = WALK_NONE, .node = 1},
    {.below = WALK_NONE, .beside = WALK_NONE, .node = 1},
};
static const walk_machine free_of_cost = {.workers = workers, .count = CORES, .per_thread = 1};
static const walk_machine dear = {.workers = workers, .count = CORES, .tell_ns = 100, .line_ns = 10, .per_thread = 1};

static double all_as_long[MOST] = {1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000,
                                   1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000};

static walk_times times_of(const walk_machine *m, const walk_call *c) {
  int64_t taken[CORES];
  walk_times times;
  assert_true(walk_call_times(m, CORES, c, taken, &times));
  return times;
}

static void orders_go_down_the_tree(void **state) {
  (void)state;
  const walk_call c = {.workers = CORES, .count = 4, .task_ns = all_as_long, .before_ns = 5, .after_ns = 7};
  const walk_times t = times_of(&dear, &c);
  /* The third is told at 20, sees it at 120, tells the fourth at 130, who sees it at 230 and is through at 1242; that
   * is seen at 1342 and 1452, each time with a look. */
  assert_float_equal(t.ns, 230 + 5 + 1000 + 7 + 110 + 110, 1e-6);
  assert_float_equal(t.tasks_ns, 1000, 1e-6);
  assert_float_equal(t.busy_ns, 4000, 1e-6);
  assert_int_equal(t.least, 1);
  assert_int_equal(t.most, 1);
}

/* Who comes when all tasks are taken is not waited for, nor are those below. */
static void who_is_late_is_left_out(void **state) {
  (void)state;
  static double short_tasks[4] = {10, 10, 10, 10};
  const walk_call c = {.workers = CORES, .count = 4, .task_ns = short_tasks};
  const walk_times t = times_of(&dear, &c);
  assert_float_equal(t.ns, 20 + 40, 1e-6); /* two orders, and all tasks alone */
  assert_int_equal(t.least, 0);
  assert_int_equal(t.most, 4);
}

static void a_long_task_is_made_up_for(void **state) {
  (void)state;
  static double uneven[8] = {1000, 5000, 1000, 1000, 1000, 1000, 1000, 1000};
  const walk_call c = {.workers = CORES, .count = 8, .task_ns = uneven};
  const walk_times t = times_of(&free_of_cost, &c);
  assert_float_equal(t.ns, 6000, 1e-6); /* the first worker's own two */
  assert_int_equal(t.most, 2);
  uneven[1] = 1000;
  uneven[0] = 3000; /* what the first task takes more each worker's first does */
  assert_float_equal(times_of(&free_of_cost, &c).ns, 4000, 1e-6);
  assert_float_equal(times_of(&free_of_cost, &c).busy_ns, 16000, 1e-6);
}

static void rounds_meet(void **state) {
  (void)state;
  static double parts[CORES] = {300, 400, 300, 300};
  const walk_call c = {.workers = CORES, .rounds = 10, .count = CORES, .task_ns = parts};
  const walk_times t = times_of(&free_of_cost, &c);
  assert_float_equal(t.ns, 400, 1e-6);
  assert_int_equal(t.most, 10);
  assert_true(times_of(&dear, &c).ns >= 400 + 10 * 2 * 100);
}

static void memory_is_a_limit(void **state) {
  (void)state;
  walk_machine m = free_of_cost;
  walk_call c = {.workers = CORES, .count = 4, .task_ns = all_as_long, .bytes = 1e5};
  m.node_per_ns = 10;
  assert_float_equal(times_of(&m, &c).ns, 5000, 1e-6); /* of two nodes */
  c.workers = 2;
  assert_float_equal(times_of(&m, &c).ns, 10000, 1e-6); /* of one */
  c.workers = 1;
  assert_float_equal(times_of(&m, &c).ns, 4000, 1e-6); /* one thread's time was measured with its memory */
}

static void data_come_from_other_cores(void **state) {
  (void)state;
  walk_machine m = free_of_cost;
  walk_call c = {.workers = CORES, .count = 4, .task_ns = all_as_long, .far_bytes = 1200};
  m.far_per_ns = 12;
  assert_float_equal(times_of(&m, &c).ns, 1025, 1e-6); /* each fetches its part */
  c.workers = 1;
  assert_float_equal(times_of(&m, &c).ns, 4100, 1e-6);
}

/* Eight lines, by two workers the first and the last four. */
static void memory_is_held(void **state) {
  (void)state;
  enum { LINES = 8, L = WALK_LINE };
  static const uint16_t in_turns[LINES] = {0, 1, 0, 1, 0, 1, 0, 1};
  uint16_t holders[LINES];
  memset(holders, 0xff, sizeof holders);
  assert_float_equal(walk_read(holders, LINES, 2, false), 0, 0);         /* nobody had it */
  assert_float_equal(walk_write(holders, LINES, 2, NULL), 0, 0);         /* each its own */
  assert_float_equal(walk_read(holders, LINES, 2, false), 0, 0);         /* and of the other one nothing */
  assert_float_equal(walk_read(holders, LINES, 1, false), 4 * L, 0);     /* the second's half, */
  assert_float_equal(walk_read(holders, LINES, 1, false), 0, 0);         /* which both have now, */
  assert_float_equal(walk_write(holders, LINES, 2, NULL), 4 * L, 0);     /* so that it waits to write it */
  assert_float_equal(walk_write(holders, LINES / 2, 2, NULL), 2 * L, 0); /* less memory is dealt out otherwise */
  assert_float_equal(walk_write(holders, LINES, 1, NULL), 6 * L, 0);     /* all that the second has */
  assert_float_equal(walk_write(holders, LINES, 2, in_turns), 4 * L, 0);
  assert_float_equal(walk_read(holders, LINES, 2, false), 4 * L, 0); /* two in each half are the other's */
  assert_float_equal(walk_write(holders, LINES, 1, NULL), 6 * L, 0); /* four are both's, two the second's alone */
  assert_float_equal(walk_read(holders, LINES, 3, true), 16 * L, 0); /* by the two who have it not */
  assert_true(walk_is_across(in_turns, LINES, 2));
  assert_false(walk_is_across(holders, LINES, 2));
}

/* Of two tasks that are alike the first has found nothing in the caches, and on two workers each is a first one. */
static void both_are_first(void **state) {
  (void)state;
  static double pair[2] = {3000, 1000};
  const walk_call c = {.workers = 2, .count = 2, .task_ns = pair};
  assert_float_equal(times_of(&free_of_cost, &c).ns, 3000, 1e-6);
  assert_float_equal(times_of(&free_of_cost, &c).busy_ns, 6000, 1e-6);
}

/* ---- a plan ---- */

static const char golden[] =
    "threads        ms  speed-up  cores idle\n"
    "      1     0.028      1.00         2 %\n"
    "      2     0.018      1.55        24 %\n"
    "      4     0.014      1.98        44 %\n"
    "\n"
    "on 4 threads:\n"
    "      us  calls  tasks  workers     each   idle  speed-up  stops at\n"
    "     4.5      1     16        4      4-4    0 %       3.6         4  wide (td::conv)\n"
    "     2.5      2      3        4      0-1   25 %       2.4         4  three (td::pool)\n"
    "     5.0      1      1        1      0-1   75 %       1.0         1  one (td::sort)\n"
    "     1.4      1      4        4      1-1    0 %         -         4  shares of batch 0\n"
    "\n"
    "2 of 4 steps leave more than 15 % of 4 cores idle: 54.0 % of the time there, 40.0 % of it on one thread\n"
    "1 steps stop scaling at 1 threads: 36.0 % of the time\n"
    "3 steps scale to 4 threads\n";

static void a_plan_is_as_recorded(void **state) {
  (void)state;
  static double five[1] = {5000};
  static const char *names[] = {"wide (td::conv)", "three (td::pool)", "one (td::sort)", "shares of batch 0",
                                "never runs"};
  walk_call calls[3][5];
  walk_run runs[3];
  for (uint32_t i = 0; i < 3; i++) {
    const uint32_t threads = 1u << i;
    calls[i][0] = (walk_call){.step = 0, .workers = threads, .count = 16, .task_ns = all_as_long};
    calls[i][1] = calls[i][2] = (walk_call){.step = 1, .workers = threads, .count = 3, .task_ns = all_as_long};
    calls[i][3] = (walk_call){.step = 2, .workers = 1, .count = 1, .task_ns = five};
    calls[i][4] = (walk_call){.step = 3, .workers = threads, .count = 4, .task_ns = all_as_long};
    runs[i] = (walk_run){.threads = threads, .calls = calls[i], .count = threads < 4 ? 4 : 5}; /* shares on 4 alone */
  }
  const walk_plan p = {.names = names, .steps = 5, .runs = runs, .count = 3, .between_ns = 500};
  base_text text = {.allocator = &base_libc_allocator};
  assert_true(walk_print(&dear, &p, &text));
  assert_string_equal(text.at, golden);
  assert_float_equal(walk_run_ns(&free_of_cost, &p, &runs[0]), 27500, 1e-6);
  base_free(text.allocator, text.at, text.cap);
}

/* The first task is as long as others, though it writes most. */
static void lines_are_dealt_out(void **state) {
  (void)state;
  static double lines[6] = {4, 2, 2, 2, 2, 2};
  static const char *names[] = {"uneven (td::conv)", "once for each (td::pool)"};
  const walk_call calls[] = {{.step = 0, .workers = 4, .count = 6, .task_ns = lines},
                             {.step = 1, .workers = 4, .count = 4, .task_ns = all_as_long}};
  const walk_run run = {.threads = 4, .calls = calls, .count = 2};
  const walk_plan p = {.names = names, .steps = 2, .runs = &run, .count = 1};
  walk_machine m = free_of_cost;
  base_text text = {.allocator = &base_libc_allocator};
  m.counted = true;
  assert_true(walk_print_shares(&m, &p, &text));
  assert_string_equal(text.at,
                      "on 4 threads:\n"
                      "calls  tasks  workers     each   idle\n"
                      "    1      6        4      1-2   12 %  uneven (td::conv)\n"
                      "    1      4        4      1-1    0 %  once for each (td::pool)\n"
                      "\n"
                      "0 of 2 steps leave more than 15 % of 4 cores idle\n");
  base_free(text.allocator, text.at, text.cap);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(orders_go_down_the_tree),
      cmocka_unit_test(who_is_late_is_left_out),
      cmocka_unit_test(a_long_task_is_made_up_for),
      cmocka_unit_test(rounds_meet),
      cmocka_unit_test(memory_is_a_limit),
      cmocka_unit_test(data_come_from_other_cores),
      cmocka_unit_test(memory_is_held),
      cmocka_unit_test(both_are_first),
      cmocka_unit_test(a_plan_is_as_recorded),
      cmocka_unit_test(lines_are_dealt_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
