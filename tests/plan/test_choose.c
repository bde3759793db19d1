/* test_choose.c -- how many samples of a batch are taken at a time. */
#include "test.h"

#include "base/lack.h"
#include "plan/bind.h"

enum { STEPS = 4, MIB = 1 << 20 };

static void choose(const plan_load *loads, uint32_t count, int64_t samples, int64_t *part) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  assert_true(plan_choose_parts(arena, &base_speed_default, loads, count, samples, 8 * MIB, part));
  base_arena_free(arena);
}

/* Steps that pass `inner` bytes per sample on to the next, and read `shared` ones. */
static void chain(plan_load *loads, uint32_t count, double inner, double shared) {
  for (uint32_t i = 0; i < count; i++)
    loads[i] = (plan_load){.inner = 2 * inner, .shared = shared, .passed = i ? inner : 0};
}

static void expect_all(const int64_t *part, uint32_t count, int64_t expected) {
  for (uint32_t i = 0; i < count; i++) assert_int_equal(part[i], expected);
}

/* What fits in the cache as a whole stays whole, as do steps whose weights are what they spend their time with, and
 * those of which even one sample does not fit. */
static void whole_where_parts_gain_nothing(void **state) {
  (void)state;
  static const double inner[] = {MIB / 16, MIB, 64 * MIB, 0}, shared[] = {MIB, 256.0 * MIB, 0, 0};
  for (size_t i = 0; i < sizeof inner / sizeof *inner; i++) {
    plan_load loads[STEPS];
    int64_t part[STEPS];
    chain(loads, STEPS, inner[i], shared[i]);
    choose(loads, STEPS, 8, part);
    expect_all(part, STEPS, 8);
  }
}

/* As many samples as the cache keeps; parts are as even as can be. */
static void as_many_as_fit(void **state) {
  (void)state;
  static const struct {
    double inner;
    int64_t samples, part;
  } rows[] = {{MIB, 8, 4}, {MIB, 32, 4}, {2 * MIB, 8, 2}, {4 * MIB, 8, 1}, {4 * MIB, 2, 1},       {2 * MIB, 5, 2},
              {MIB, 5, 3}, {MIB, 7, 4},  {MIB, 1, 1},     {MIB, 1000, 4},  {8 * 1024, 10000, 313}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    plan_load loads[STEPS];
    int64_t part[STEPS];
    chain(loads, STEPS, rows[i].inner, 1000);
    choose(loads, STEPS, rows[i].samples, part);
    expect_all(part, STEPS, rows[i].part);
  }
}

/* Large images first, large weights last. */
static void steps_differ(void **state) {
  (void)state;
  plan_load loads[2 * STEPS];
  int64_t part[2 * STEPS];
  chain(loads, STEPS, 4 * MIB, 1000);
  chain(loads + STEPS, STEPS, MIB / 8, 16.0 * MIB);
  loads[STEPS].passed = MIB / 8;
  choose(loads, 2 * STEPS, 8, part);
  expect_all(part, STEPS, 1);
  expect_all(part + STEPS, STEPS, 8);
}

/* A change costs more than it gains: what is passed on is large, and one step alone wants other parts. */
static void changes_must_pay(void **state) {
  (void)state;
  plan_load loads[STEPS];
  int64_t part[STEPS];
  chain(loads, STEPS, 4 * MIB, 1000);
  loads[2].shared = 2 * MIB;
  choose(loads, STEPS, 8, part);
  expect_all(part, STEPS, 1);
}

/* Where memory is as fast as the cache nothing is gained by parts. */
static void machines_differ(void **state) {
  (void)state;
  const struct {
    double memory_per_ns;
    int64_t part;
  } rows[] = {{base_speed_default.memory_per_ns, 4}, {1e9, 8}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    base_speed speed = base_speed_default;
    plan_load loads[STEPS];
    int64_t part[STEPS];
    base_arena *arena = base_arena_new(&base_libc_allocator);
    speed.memory_per_ns = rows[i].memory_per_ns;
    chain(loads, STEPS, MIB, 1000);
    assert_true(plan_choose_parts(arena, &speed, loads, STEPS, 8, 8 * MIB, part));
    expect_all(part, STEPS, rows[i].part);
    base_arena_free(arena);
  }
}

/* Shares are even, large as long as they are few, and none where threads had better work together: on a few samples,
 * small ones, or large weights. */
static void shares_that_pay(void **state) {
  (void)state;
  static const struct {
    double inner, shared;
    int64_t samples;
    uint32_t threads;
    int64_t share;
  } rows[] = {{MIB, 1000, 8, 2, 4},
              {MIB, 1000, 2, 2, 1},
              {MIB, 1000, 8, 1, 0},
              {MIB, 1000, 1, 2, 0},
              {MIB, 1000, 3, 2, 0},
              {MIB, 1000, 7, 4, 0},
              {MIB, 1000, 8, 4, 2},
              {MIB, 1000, 32, 2, 8},
              {MIB, 1000, 33, 2, 6},
              {MIB, 1000, 100, 3, 7},
              {MIB / 128, 1000, 8, 2, 0},
              {MIB, 16 * MIB, 8, 2, 0},
              {MIB, 8 * MIB, 8, 2, 4},
              /* many threads: some get fewer samples, or none */
              {MIB, 1000, 56, 16, 4},
              {MIB, 1000, 56, 32, 2},
              {MIB, 1000, 56, 64, 1},
              {MIB, 1000, 56, 112, 0},
              {MIB, 16 * MIB, 56, 64, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    plan_load loads[STEPS];
    chain(loads, STEPS, rows[i].inner, rows[i].shared);
    const int64_t share = plan_choose_share(loads, STEPS, rows[i].samples, rows[i].threads);
    if (share != rows[i].share) fail_msg("row %zu: shares of %d", i, (int)share);
  }
}

static td_status choose_within(const td_allocator *allocator, void *user) {
  (void)user;
  base_arena *arena = base_arena_new(allocator);
  plan_load one = {.inner = MIB};
  int64_t part;
  const bool done = arena && plan_choose_parts(arena, &base_speed_default, &one, 1, 8, 8 * MIB, &part);
  base_arena_free(arena);
  return done ? TD_OK : TD_NO_RESOURCE;
}

static void lack_of_memory(void **state) {
  (void)state;
  assert_true(fail_each_allocation(choose_within, NULL, true) >= 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(whole_where_parts_gain_nothing),
                                     cmocka_unit_test(as_many_as_fit),
                                     cmocka_unit_test(steps_differ),
                                     cmocka_unit_test(changes_must_pay),
                                     cmocka_unit_test(machines_differ),
                                     cmocka_unit_test(shares_that_pay),
                                     cmocka_unit_test(lack_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
