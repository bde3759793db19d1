/* Memory: arenas, growing arrays, and the allocator that fails on request. */
#include "test.h"

#include "base/base.h"

static int setup(void **state) {
  *state = base_arena_new(&base_libc_allocator);
  return *state ? 0 : -1;
}

static int teardown(void **state) {
  base_arena_free(*state);
  return 0;
}

static bool all_zero(const unsigned char *bytes, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (bytes[i]) return false;
  return true;
}

/* Blocks of every size up to and past a chunk: zeroed, aligned, apart from each other. */
static void blocks_are_zeroed_aligned_and_apart(void **state) {
  enum { BLOCKS = 200 };
  unsigned char *blocks[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    size_t bytes = i * i;
    blocks[i] = base_arena_alloc(*state, bytes);
    assert_non_null(blocks[i]);
    assert_int_equal((uintptr_t)blocks[i] % 16, 0);
    assert_true(all_zero(blocks[i], bytes));
    if (bytes) memset(blocks[i], (int)(i % 255) + 1, bytes);
  }
  for (size_t i = 0; i < BLOCKS; i++)
    for (size_t k = 0; k < i * i; k++)
      if (blocks[i][k] != i % 255 + 1) fail_msg("block %zu was overwritten at %zu", i, k);
  assert_true(base_arena_bytes(*state) > 2000000);
}

static void alignment_is_of_the_address(void **state) {
  for (size_t align = 1; align <= 4096; align *= 2) {
    assert_non_null(base_arena_alloc(*state, 3));
    void *block = base_arena_alloc_aligned(*state, 100, align);
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % align, 0);
    assert_true(all_zero(block, 100));
    memset(block, 1, 100);
  }
}

static void absurd_sizes_are_refused(void **state) {
  assert_null(base_arena_alloc(*state, SIZE_MAX));
  assert_null(base_arena_alloc(*state, SIZE_MAX - 8));
  assert_null(base_new(*state, int64_t, SIZE_MAX / 4));
  assert_null(base_arena_slice(*state, "", SIZE_MAX));
  assert_non_null(base_arena_alloc(*state, 1));
}

/* What is larger than a chunk leaves the room of the one in use to what comes next. */
static void large_among_small(void **state) {
  enum { LARGE = 9 << 20 };
  const char *first = base_arena_alloc(*state, 16);
  const size_t before = base_arena_bytes(*state);
  char *large = base_arena_alloc_uncleared(*state, LARGE, 64);
  const char *next = base_arena_alloc(*state, 16);
  assert_non_null(large);
  large[LARGE - 1] = 1;
  assert_true(base_arena_holds(*state, large + LARGE - 1));
  assert_ptr_equal(next, first + 16);
  assert_true(base_arena_bytes(*state) - before < LARGE + 4096);
}

static void texts_are_copied(void **state) {
  char from[] = "abcdef";
  char *whole = base_arena_text(*state, from), *part = base_arena_slice(*state, from + 1, 3);
  memset(from, 'x', sizeof from - 1);
  assert_string_equal(whole, "abcdef");
  assert_string_equal(part, "bcd");
  assert_string_equal(base_arena_format(*state, "%s-%d", "node", 7), "node-7");
  assert_string_equal(base_arena_slice(*state, NULL, 0), "");
  assert_non_null(base_arena_copy(*state, NULL, 0));
  int64_t number = 42;
  assert_int_equal(*(int64_t *)base_arena_copy(*state, &number, sizeof number), 42);
}

static void vectors_grow_and_start_zeroed(void **state) {
  BASE_VEC(uint32_t) v = {0};
  for (uint32_t i = 0; i < 1000; i++) {
    uint32_t *at = base_vec_push((base_arena *)*state, &v);
    assert_non_null(at);
    assert_int_equal(*at, 0);
    *at = i;
  }
  assert_int_equal(v.count, 1000);
  for (uint32_t i = 0; i < 1000; i++) assert_int_equal(v.at[i], i);
  uint32_t cap = UINT32_MAX / 2 + 1;
  assert_null(base_vec_grow(*state, v.at, &cap, sizeof *v.at));
}

static void nothing_is_no_allocation(void **state) {
  (void)state;
  assert_null(base_alloc(&base_libc_allocator, 0));
  base_free(&base_libc_allocator, NULL, 10);
  base_arena_free(NULL);
  void *block = base_alloc(&base_libc_allocator, 1);
  assert_int_equal((uintptr_t)block % 64, 0);
  base_free(&base_libc_allocator, block, 1);
  assert_null(base_alloc(&base_libc_allocator, SIZE_MAX));
}

/* Whatever allocation fails, the error is a NULL and nothing is lost. */
static void every_allocation_may_fail(void **state) {
  (void)state;
  uint64_t needed = 0;
  for (uint64_t fail_at = 0; fail_at == 0 || fail_at <= needed; fail_at++) {
    base_counting counting = {.inner = &base_libc_allocator, .fail_at = fail_at};
    td_allocator allocator = base_counting_allocator(&counting);
    base_arena *arena = base_arena_new(&allocator);
    bool done = arena != NULL;
    for (size_t i = 0; done && i < 10; i++) done = base_arena_alloc(arena, 3000) != NULL;
    assert_int_equal(done, fail_at == 0);
    if (fail_at == 0) {
      needed = counting.made;
      assert_true(counting.live == counting.made && counting.live_bytes >= 30000);
      assert_int_equal(base_arena_bytes(arena), counting.live_bytes);
    }
    base_arena_free(arena);
    assert_int_equal(counting.live, 0);
    assert_int_equal(counting.live_bytes, 0);
    assert_true(fail_at == 1 || counting.peak_bytes > 0);
  }
  assert_true(needed > 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(blocks_are_zeroed_aligned_and_apart, setup, teardown),
      cmocka_unit_test_setup_teardown(alignment_is_of_the_address, setup, teardown),
      cmocka_unit_test_setup_teardown(absurd_sizes_are_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(large_among_small, setup, teardown),
      cmocka_unit_test_setup_teardown(texts_are_copied, setup, teardown),
      cmocka_unit_test_setup_teardown(vectors_grow_and_start_zeroed, setup, teardown),
      cmocka_unit_test(nothing_is_no_allocation),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
