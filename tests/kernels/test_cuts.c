/* How work is cut for many workers (kernels/tasks_priv.h). */
#include "test.h"

#include "kernels/tasks_priv.h"

enum { MANY = 112 };

static int64_t longest(const kern_cuts *c, int64_t cuts, int64_t workers) {
  const int64_t rows = base_ceil_div(c->size, cuts), tasks = base_ceil_div(c->maps * cuts, workers);
  return tasks * (rows * c->row + base_ceil_div(rows, c->tile));
}

/* The classifier of 56 samples: 21 groups of columns, which 7 tiles of rows would make 147 tasks. */
static void a_second_round_is_saved(void **state) {
  (void)state;
  const kern_cuts c = {.maps = 21, .size = 56, .tile = 8, .row = 1, .least = 1, .most = 7, .cuts = 7};
  assert_int_equal(kern_even_cuts(&c, MANY), 5);
}

/* Six pairs of channels of 56 samples: four blocks are of two pairs, or of one. */
static void pieces_become_even(void **state) {
  (void)state;
  const kern_cuts c = {.maps = 56, .size = 6, .tile = 6, .row = 8, .least = 4, .most = 6, .cuts = 4};
  assert_int_equal(kern_even_cuts(&c, MANY), 6);
}

static void what_gains_little_stays(void **state) {
  (void)state;
  const kern_cuts c = {.maps = 1, .size = 5488, .tile = 6, .row = 1, .least = 1, .most = 915, .cuts = 336};
  assert_int_equal(kern_even_cuts(&c, MANY), 336);
  assert_true(longest(&c, MANY, MANY) < longest(&c, 336, MANY));
}

static void few_workers_cut_as_ever(void **state) {
  (void)state;
  const kern_cuts c = {.maps = 3, .size = 56, .tile = 8, .row = 1, .least = 1, .most = 7, .cuts = 7};
  for (uint32_t workers = 0; workers <= KERN_FEW_WORKERS; workers++)
    assert_int_equal(kern_even_cuts(&c, workers), c.cuts);
}

/* Whatever the sizes are: in bounds, and nobody waits longer. */
static void no_cut_is_worse(void **state) {
  (void)state;
  for (int64_t size = 1; size < 200; size += 3)
    for (int64_t maps = 0; maps < 120; maps += 7)
      for (int64_t least = 1; least <= 3 && least <= size; least++)
        for (uint32_t workers = KERN_FEW_WORKERS + 1; workers < 130; workers += 11) {
          const kern_cuts c = {
              .maps = maps, .size = size, .tile = 6, .row = 2, .least = least, .most = size, .cuts = least};
          const int64_t cuts = kern_even_cuts(&c, workers);
          assert_in_range(cuts, least, size);
          assert_true(longest(&c, cuts, workers) <= longest(&c, least, workers));
        }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_second_round_is_saved), cmocka_unit_test(pieces_become_even),
      cmocka_unit_test(what_gains_little_stays), cmocka_unit_test(few_workers_cut_as_ever),
      cmocka_unit_test(no_cut_is_worse),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
