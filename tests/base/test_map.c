/* The hash map: against an array that is searched, with keys of any bytes, and when memory ends. */
#include "test.h"

#include "base/base.h"

enum { KEYS = 3000 };

static void finds_what_was_put(void **state) {
  (void)state;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  base_map map = {0};
  assert_null(base_map_get(&map, BASE_STR("nothing yet")));
  for (uint32_t i = 0; i < KEYS; i++) {
    bool existed = true;
    assert_true(base_map_put(&map, arena, base_str_of(base_arena_format(arena, "key %u", i)), i, &existed));
    assert_false(existed);
    assert_true(map.count == i + 1 && map.count <= map.cap / 4 * 3);
  }
  for (uint32_t i = 0; i < KEYS; i++) {
    uint32_t *value = base_map_get(&map, base_str_of(base_arena_format(arena, "key %u", i)));
    assert_non_null(value);
    assert_int_equal(*value, i);
  }
  assert_null(base_map_get(&map, BASE_STR("key 3000")));
  base_arena_free(arena);
}

static void replaces(void **state) {
  (void)state;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  base_map map = {0};
  bool existed;
  assert_true(base_map_put(&map, arena, BASE_STR("a"), 1, NULL));
  assert_true(base_map_put(&map, arena, BASE_STR("a"), 2, &existed));
  assert_true(existed);
  assert_int_equal(map.count, 1);
  assert_int_equal(*base_map_get(&map, BASE_STR("a")), 2);
  base_arena_free(arena);
}

static void keys_are_bytes(void **state) {
  (void)state;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  base_map map = {0};
  assert_true(base_map_put(&map, arena, (base_str){"\0", 1}, 1, NULL));
  assert_true(base_map_put(&map, arena, (base_str){"\0\0", 2}, 2, NULL));
  assert_true(base_map_put(&map, arena, (base_str){NULL, 0}, 3, NULL));
  assert_int_equal(*base_map_get(&map, (base_str){"\0", 1}), 1);
  assert_int_equal(*base_map_get(&map, (base_str){"\0\0", 2}), 2);
  assert_int_equal(*base_map_get(&map, BASE_STR("")), 3);
  base_arena_free(arena);
}

static void keeps_its_entries_when_memory_ends(void **state) {
  (void)state;
  base_counting counting = {.inner = &base_libc_allocator, .fail_at = 3};
  td_allocator allocator = base_counting_allocator(&counting);
  base_arena *arena = base_arena_new(&allocator);
  base_map map = {0};
  static const char keys[KEYS][1] = {{0}};
  uint32_t put = 0;
  while (put < KEYS && base_map_put(&map, arena, (base_str){(const char *)keys, put}, put, NULL)) put++;
  assert_true(put > 0 && put < KEYS);
  for (uint32_t i = 0; i < put; i++) assert_int_equal(*base_map_get(&map, (base_str){(const char *)keys, i}), i);
  assert_null(base_map_get(&map, (base_str){(const char *)keys, put}));
  base_arena_free(arena);
  assert_int_equal(counting.live, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_what_was_put),
      cmocka_unit_test(replaces),
      cmocka_unit_test(keys_are_bytes),
      cmocka_unit_test(keeps_its_entries_when_memory_ends),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
