/* test_memory.c -- the memory planner on integer records. */
#include "test.h"

#include <stdio.h>

#include "base/lack.h"
#include "plan/bind.h"

enum { MOST = 200, ALIGN = 64 };

static size_t rounded(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

static uint32_t next(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

/* Most bytes alive at one step, by looking at every step. */
static size_t most_alive(const plan_interval *at, uint32_t count, uint32_t steps) {
  size_t most = 0;
  for (uint32_t step = 0; step < steps; step++) {
    size_t now = 0;
    for (uint32_t i = 0; i < count; i++) now += at[i].first <= step && step <= at[i].last ? rounded(at[i].bytes) : 0;
    if (now > most) most = now;
  }
  return most;
}

static void check_plan(plan_interval *at, uint32_t count, uint32_t steps, size_t *total, size_t *lower) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  assert_true(plan_memory(arena, at, count, total, lower));
  base_arena_free(arena);
  assert_int_equal(*lower, most_alive(at, count, steps));
  assert_true(*total >= *lower);
  for (uint32_t i = 0; i < count; i++) {
    assert_int_equal(at[i].offset % ALIGN, 0);
    assert_true(at[i].offset + at[i].bytes <= *total);
    for (uint32_t k = 0; k < i; k++) {
      bool together = at[i].first <= at[k].last && at[k].first <= at[i].last;
      bool apart = at[i].offset + at[i].bytes <= at[k].offset || at[k].offset + at[k].bytes <= at[i].offset;
      if (together && !apart) fail_msg("intervals %u and %u overlap", k, i);
    }
  }
}

static void random_intervals(void **state) {
  (void)state;
  uint32_t seed = 1;
  for (int round = 0; round < 300; round++) {
    plan_interval at[MOST];
    uint32_t count = 1 + next(&seed) % MOST, steps = 1 + next(&seed) % 60;
    for (uint32_t i = 0; i < count; i++) {
      uint32_t first = next(&seed) % steps, length = next(&seed) % 8;
      uint32_t last = first + length < steps ? first + length : steps - 1;
      at[i] =
          (plan_interval){.first = first, .last = last, .bytes = 1 + next(&seed) % (next(&seed) % 4 ? 300 : 100000)};
    }
    size_t total, lower;
    check_plan(at, count, steps, &total, &lower);
    assert_true(total <= 2 * lower); /* far from a bound of the method, near enough to see it broken */
  }
}

/* Each value lives until the next is made: two live at a time. */
static void chains_reach_the_bound(void **state) {
  (void)state;
  for (uint32_t count = 1; count < 40; count++) {
    plan_interval at[40];
    for (uint32_t i = 0; i < count; i++) at[i] = (plan_interval){.first = i, .last = i + 1, .bytes = 1000};
    size_t total, lower;
    check_plan(at, count, count + 1, &total, &lower);
    assert_int_equal(total, lower);
    assert_int_equal(total, count == 1 ? 1024 : 2048);
  }
}

static void stacks_reach_the_bound(void **state) {
  (void)state;
  plan_interval at[20];
  for (uint32_t i = 0; i < 20; i++) at[i] = (plan_interval){.first = i, .last = 40 - i, .bytes = 64 * (i + 1)};
  size_t total, lower;
  check_plan(at, 20, 41, &total, &lower);
  assert_int_equal(total, lower);
}

/* What lives long and is born late is in the way of an order of births; largest first finds room for it. */
static void the_better_way_is_taken(void **state) {
  (void)state;
  plan_interval at[] = {{.first = 0, .last = 1, .bytes = 64},
                        {.first = 1, .last = 3, .bytes = 64},
                        {.first = 2, .last = 4, .bytes = 128},
                        {.first = 4, .last = 5, .bytes = 192}};
  size_t total, lower;
  check_plan(at, 4, 6, &total, &lower);
  assert_int_equal(total, lower);
}

static void many_take_little_time(void **state) {
  (void)state;
  enum { MANY = 50000 };
  plan_interval *at = calloc(MANY, sizeof *at);
  base_arena *arena = base_arena_new(&base_libc_allocator);
  assert_non_null(at);
  for (uint32_t i = 0; i < MANY; i++) at[i] = (plan_interval){.first = i, .last = i + 1 + i % 5, .bytes = 64 + i % 999};
  size_t total, lower;
  assert_true(plan_memory(arena, at, MANY, &total, &lower));
  assert_true(total >= lower && total < 2 * lower);
  for (uint32_t i = 0; i < MANY; i++)
    for (uint32_t k = i + 1; k < MANY && at[k].first <= at[i].last; k++)
      assert_true(at[i].offset + at[i].bytes <= at[k].offset || at[k].offset + at[k].bytes <= at[i].offset);
  base_arena_free(arena);
  free(at);
}

static void few_and_empty(void **state) {
  (void)state;
  size_t total = 1, lower = 1;
  plan_interval none[1], some[] = {{.first = 0, .last = 3, .bytes = 0}, {.first = 1, .last = 2, .bytes = 0}};
  check_plan(none, 0, 1, &total, &lower);
  assert_int_equal(total, 0);
  check_plan(some, 2, 4, &total, &lower);
  assert_int_equal(total, 0);
}

static void overflow_is_refused(void **state) {
  (void)state;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  size_t total, lower;
  plan_interval large[] = {{.first = 0, .last = 0, .bytes = SIZE_MAX / 2},
                           {.first = 1, .last = 1, .bytes = SIZE_MAX / 2},
                           {.first = 2, .last = 2, .bytes = SIZE_MAX / 2}};
  assert_false(plan_memory(arena, large, 3, &total, &lower));
  large[0].bytes = SIZE_MAX;
  assert_false(plan_memory(arena, large, 1, &total, &lower));
  base_arena_free(arena);
}

static td_status place_within(const td_allocator *allocator, void *user) {
  (void)user;
  base_arena *arena = base_arena_new(allocator);
  plan_interval one = {.bytes = 1};
  size_t total, lower;
  const bool done = arena && plan_memory(arena, &one, 1, &total, &lower);
  base_arena_free(arena);
  return done ? TD_OK : TD_NO_RESOURCE;
}

static void lack_of_memory(void **state) {
  (void)state;
  assert_true(fail_each_allocation(place_within, NULL, true) >= 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_intervals),       cmocka_unit_test(chains_reach_the_bound),
      cmocka_unit_test(stacks_reach_the_bound), cmocka_unit_test(the_better_way_is_taken),
      cmocka_unit_test(many_take_little_time),  cmocka_unit_test(few_and_empty),
      cmocka_unit_test(overflow_is_refused),    cmocka_unit_test(lack_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
