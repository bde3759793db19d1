/* test_codegen.c -- generated code: it gives what the interpreter gives, and is found again in the cache. */
#include "base/digest.h"
#include "codegen/codegen.h"
#include "codegen/small_model.h"
#include "loop/loop.h"

#include <math.h>

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

/* The result of a loop that sums rows of `n`, interpreted where there is no `cache`. */
static float *sum_of_rows(const char *cache, float *x, int64_t n, int64_t rows) {
  static const char text[] =
      "input %0 \"x\": f32[r, n]\n%1 = aten::exp(%0)\n"
      "%2 = aten::sum(%1) {dim = [1], keepdim = true}\n%3 = aten::div(%1, %2)\n"
      "output \"y\" %3\n";
  rig r;
  sys_machine machine;
  sys_machine_read(&machine);
  const compile_setting setting = {.backend = compile_find_backend("native"),
                                   .isa = machine.isa | BASE_ISA_VECTOR,
                                   .options.cc = cache ? chains_compiler() : NULL,
                                   .options.cache = cache,
                                   .options.strict = cache != NULL};
  const base_value value = {.kind = BASE_TENSOR, .tensor = base_tensor_of(x, TD_F32, 2, (int64_t[]){rows, n})};
  float *y = malloc((size_t)(rows * n) * sizeof *y);
  assert_non_null(y);
  rig_open_as(&r, text, NULL, &setting);
  assert_int_equal(r.plan->steps.count, 1);
  assert_int_equal(run_set_input(r.session, 0, &value, &r.err), TD_OK);
  rig_run(&r);
  memcpy(y, rig_output(&r, 0)->data, (size_t)(rows * n) * sizeof *y);
  rig_close(&r);
  return y;
}

/* Code may replace the interpreter between two runs of a model, which must not show; and sums of long rows are as
 * accurate as those of short ones. */
static void long_rows_have_the_bits_of_the_interpreter(void **state) {
  (void)state;
  if (!chains_compiler()) skip();
  static const int64_t lengths[] = {20, 512, 513, 1000, 1024 + 31, 65536};
  enum { ROWS = 2 };
  char *cache = chains_cache();
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    const int64_t n = lengths[i];
    float *x = malloc((size_t)(ROWS * n) * sizeof *x);
    assert_non_null(x);
    for (int64_t k = 0; k < ROWS * n; k++) x[k] = (float)(k * 7919 % 1013) / 300 - 2;
    float *interpreted = sum_of_rows(NULL, x, n, ROWS), *compiled = sum_of_rows(cache, x, n, ROWS);
    if (memcmp(interpreted, compiled, (size_t)(ROWS * n) * sizeof *x) != 0) fail_msg("rows of %lld", (long long)n);
    double sum = 0, all = 0;
    for (int64_t k = 0; k < n; k++) sum += exp((double)x[k]);
    for (int64_t k = 0; k < n; k++)
      all += fabs((double)compiled[k] - exp((double)x[k]) / sum) / (exp((double)x[k]) / sum);
    assert_true(all / (double)n < 2e-7);
    free(x);
    free(interpreted);
    free(compiled);
  }
  chains_remove(cache);
}

/* The operands that code takes as one number a row stand at its end. */
static td_status find_scalars(void *user, const char *name, const char *bytes, size_t count) {
  static const char mark[] = "_rows, 0x";
  const char *at = strstr(name, ".sh") ? NULL : memmem(bytes, count, mark, strlen(mark));
  if (at) *(uint64_t *)user = strtoull(at + strlen(mark), NULL, 16);
  return TD_OK;
}

/* Rows of loops shorter than KERN_FUSED_SHORT take in what is outside of them, so that what changes there changes along
 * a row; those of chains, which a product's columns are, do not. Dimensions of 1 are no rows. */
static void operands_that_stand_still(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint64_t scalars;
  } cases[] = {
      {"input %0 \"x\": f32[n, 4, 8]\ninput %1 \"y\": f32[n, 4, 1]\ninput %2 \"z\": f32[n, 1, 1]\n"
       "%3 = aten::add(%0, %1)\n%4 = aten::mul(%3, %2)\noutput \"y\" %4\n",
       4},
      {"input %0 \"x\": f32[n, 4, 32, 1]\ninput %1 \"y\": f32[n, 4, 1, 1]\ninput %2 \"z\": f32[32, 1]\n"
       "%3 = aten::add(%0, %1)\n%4 = aten::mul(%3, %2)\noutput \"y\" %4\n",
       2},
      {"input %0 \"x\": f32[n, 4, 8]\ninput %1 \"y\": f32[n, 4, 1]\ninput %2 \"z\": f32[n, 4, 8]\n"
       "const %5: f32[8, 8] = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, "
       "6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}\n"
       "%6 = td::linear(%0, %5) {n = 8}\n%3 = aten::mul(%6, %1)\n%4 = aten::mul(%3, %2)\noutput \"y\" %4\n",
       2}};
  if (!chains_compiler()) skip();
  char *cache = chains_cache();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    rig r;
    uint64_t scalars = UINT64_MAX;
    sys_machine machine;
    sys_machine_read(&machine);
    const compile_setting setting = {.backend = compile_find_backend("native"),
                                     .isa = machine.isa | BASE_ISA_VECTOR,
                                     .coded = find_scalars,
                                     .seen_user = &scalars,
                                     .options.cc = chains_compiler(),
                                     .options.cache = cache,
                                     .options.strict = true};
    rig_open_as(&r, cases[i].text, NULL, &setting);
    if (scalars != cases[i].scalars) fail_msg("graph %zu: %llx", i, (unsigned long long)scalars);
    rig_close(&r);
  }
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
                                     cmocka_unit_test(long_rows_have_the_bits_of_the_interpreter),
                                     cmocka_unit_test(operands_that_stand_still), cmocka_unit_test(memory_that_ends)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
