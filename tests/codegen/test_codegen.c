/* test_codegen.c -- generated code: it gives what the interpreter gives, and is found again in the cache. */
#include "base/digest.h"
#include "codegen/codegen.h"
#include "codegen/small_model.h"
#include "loop/loop.h"

static void remove_file(const char *path) { assert_int_equal(unlink(path), 0); }

static void compiled_and_cached(void **state) {
  (void)state;
  const char *cc = chains_compiler();
  if (!cc) skip();
  char *cache = chains_cache();
  expect_run(cc, cache, "fused_add_mul_relu_0", 0, NULL);
  expect_run(cc, cache, "fused_add_mul_relu_0", 0, NULL);
  each_file(cache, ".c", remove_file); /* only what is not in the cache is written and compiled */
  expect_run(cc, cache, "fused_add_mul_relu_0", 0, NULL);
  char command[128];
  snprintf(command, sizeof command, "ls %s | grep -vc '[.]so$' > /dev/null", cache);
  assert_int_not_equal(system(command), 0);
  chains_remove(cache);
}

/* Makes code for a program with memory that ends at allocation `fail_at` (0: it never does); gives how many there were.
 * Nothing is left behind. */
static uint64_t load_within(const char *cc, const char *cache, uint64_t fail_at, td_status *status) {
  static const char text[] =
      "fused rank 2 row 1 {\n  %0 = load 0\n  %1 = reduce sum %0 row\n  %2 = div(%0, %1)\n"
      "  store 0 %2 f32\n}\n";
  base_counting counting = {.inner = &base_libc_allocator, .fail_at = fail_at, .each = true};
  const td_allocator allocator = base_counting_allocator(&counting);
  base_arena *arena = base_arena_new(&allocator);
  const codegen_setting setting = {.cc = cc, .cache = cache, .isa = BASE_ISA_VECTOR, .jobs = 2};
  base_program program;
  codegen_code *code = NULL;
  td_error err;
  assert_int_equal(loop_parse(text, strlen(text), &program, &err), TD_OK);
  codegen_kernel kernel = {.program = &program, .origins = (const char *const[]){"a node"}, .origin_count = 1};
  assert_true(!arena || codegen_name(&kernel, 1, arena) || fail_at);
  *status = arena && kernel.name ? codegen_load(&kernel, 1, &setting, arena, &code, &err) : TD_NO_RESOURCE;
  assert_true(*status != TD_OK || code != NULL);
  codegen_free(code);
  base_arena_free(arena);
  assert_int_equal(counting.live, 0);
  return counting.made;
}

static void memory_that_ends(void **state) {
  (void)state;
  if (!chains_compiler()) skip();
  char *cache = chains_cache();
  td_status status;
  uint64_t wanted = load_within("/bin/false", cache, 0, &status);
  for (uint64_t i = 1; i <= wanted; i++) {
    load_within("/bin/false", cache, i, &status);
    assert_int_not_equal(status, TD_OK);
  }
  load_within(chains_compiler(), cache, 0, &status);
  assert_int_equal(status, TD_OK);
  wanted = load_within(chains_compiler(), cache, 0, &status); /* of what is in the cache */
  for (uint64_t i = 1; i <= wanted; i++) {
    load_within(chains_compiler(), cache, i, &status);
    assert_int_equal(status, TD_NO_RESOURCE);
  }
  chains_remove(cache);
}

static void digests(void **state) {
  (void)state;
  uint8_t digest[BASE_DIGEST_BYTES];
  char text[BASE_DIGEST_TEXT];
  base_digest("abc", 3, digest);
  base_digest_text(digest, text);
  assert_string_equal(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  base_digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, digest);
  base_digest_text(digest, text);
  assert_string_equal(text, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(digests), cmocka_unit_test(compiled_and_cached),
                                     cmocka_unit_test(memory_that_ends)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
