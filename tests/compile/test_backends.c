/* test_backends.c -- backends by name. */
#include "runtime/harness.h"

static void backends_are_found(void **state) {
  (void)state;
  uint32_t count;
  const compile_backend *backends = compile_backends(&count);
  for (uint32_t i = 0; i < count; i++) assert_ptr_equal(compile_find_backend(backends[i].name), &backends[i]);
  assert_null(compile_find_backend("nativ"));
  assert_ptr_equal(compile_find_backend(NULL), compile_find_backend("native"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(backends_are_found)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
