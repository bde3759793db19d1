/* test_codegen.c -- generated code: it gives what the interpreter gives, is found again in the cache, and nothing that
 * happens to the compiler, the cache or its files changes a result. */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/digest.h"
#include "codegen/chains.h"
#include "codegen/codegen.h"
#include "loop/loop.h"
#include "sys/code.h"

typedef struct warned {
  uint32_t count;
  char text[1792];
} warned;

static void warn(void *user, const char *text) {
  warned *w = user;
  w->count++;
  snprintf(w->text, sizeof w->text, "%s", text);
}

/* Runs the model over (1, 2, 3, ...), compiled by `cc` into `cache`; gives the name of the function that ran. */
static td_status run_model(const char *cc, const char *cache, bool strict, warned *w, char name[64], td_error *err) {
  static const char text[] =
      "input %0 \"x\": f32[n, 37]\n"
      "input %1 \"y\": f32[37]\n"
      "%2 = aten::add(%0, %1)\n"
      "%3 = aten::mul(%2, %0)  # \"node /square (Mul)\"\n"
      "%4 = aten::relu(%3)\n"
      "output \"z\" %4\n";
  rig r = {.counting = {.inner = &base_libc_allocator}};
  sys_machine machine;
  sys_machine_read(&machine);
  r.allocator = base_counting_allocator(&r.counting);
  r.arena = base_arena_new(&base_libc_allocator);
  r.graph = parse_graph(r.arena, text, &r.allocator);
  const compile_setting setting = {.backend = compile_find_backend("native"),
                                   .isa = machine.isa | BASE_ISA_VECTOR,
                                   .cc = cc,
                                   .cache = cache,
                                   .strict = strict,
                                   .warn = warn,
                                   .warn_user = w};
  const td_status status = compile_graph(r.graph, &setting, &r.allocator, NULL, &r.plan, err);
  if (status == TD_OK) {
    assert_int_equal(run_session_new(r.plan, &r.allocator, NULL, &r.session, &r.err), TD_OK);
    rig_feed(&r, 0, TD_F32, "3x37: 1");
    rig_feed(&r, 1, TD_F32, "37: 1");
    rig_run(&r);
    const base_tensor *out = rig_output(&r, 0);
    for (int i = 0; i < 3 * 37; i++) {
      const float x = (float)(1 + i), y = (float)(1 + i % 37);
      assert_float_equal(((const float *)out->data)[i], (x + y) * x, 0);
    }
    snprintf(name, 64, "%s", r.plan->links.at[r.plan->steps.at[0].function].name);
  }
  rig_close(&r);
  return status;
}

/* It runs, with the function `prefix`..., and `warnings` warnings. */
static void expect_run(const char *cc, const char *cache, const char *prefix, uint32_t warnings, const char *says) {
  warned w = {0};
  char name[64];
  td_error err;
  if (run_model(cc, cache, false, &w, name, &err) != TD_OK) fail_msg("%s", err.text);
  if (strncmp(name, prefix, strlen(prefix)) != 0) fail_msg("%s ran, not %s: %s", name, prefix, w.text);
  assert_int_equal(w.count, warnings);
  if (says && !strstr(w.text, says)) fail_msg("\"%s\" does not say %s", w.text, says);
}

static void each_file(const char *cache, const char *ending, void (*what)(const char *path)) {
  char command[256], path[512];
  snprintf(command, sizeof command, "ls %s/*%s 2>/dev/null", cache, ending);
  FILE *list = popen(command, "r");
  assert_non_null(list);
  while (fgets(path, sizeof path, list)) {
    path[strcspn(path, "\n")] = '\0';
    what(path);
  }
  pclose(list);
}

static void damage(const char *path) {
  const int file = open(path, O_RDWR);
  char byte;
  assert_int_equal(pread(file, &byte, 1, 4096), 1);
  byte = (char)~byte;
  assert_int_equal(pwrite(file, &byte, 1, 4096), 1);
  close(file);
}
static void cut(const char *path) { assert_int_equal(truncate(path, 100), 0); }
static void open_to_all(const char *path) { assert_int_equal(chmod(path, 0666), 0); }
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

static void damaged_cache(void **state) {
  (void)state;
  const char *cc = chains_compiler();
  if (!cc) skip();
  void (*const harms[])(const char *path) = {damage, cut, open_to_all};
  char *cache = chains_cache();
  for (size_t i = 0; i < sizeof harms / sizeof *harms; i++) {
    expect_run(cc, cache, "fused_add_mul_relu_0", 0, NULL);
    each_file(cache, ".so", harms[i]);
    expect_run(cc, cache, "fused_add_mul_relu_0", 0, NULL);
  }
  chains_remove(cache);
}

/* The loops are interpreted, and the warning names the group, its node, and the source. */
static void broken_compilers(void **state) {
  (void)state;
  char *cache = chains_cache();
  warned w = {0};
  char name[64];
  td_error err = {0};
  expect_run(NULL, cache, "kern_fused", 0, NULL);
  expect_run(chains_compiler(), NULL, "kern_fused", 0, NULL);
  expect_run("/bin/false", cache, "kern_fused", 1, "status 1");
  expect_run("/bin/false", cache, "kern_fused", 1, "fused_add_mul_relu_0");
  expect_run("/bin/true", cache, "kern_fused", 1, NULL);
  expect_run("/nowhere/cc", cache, "kern_fused", 1, "/nowhere/cc");
  assert_int_not_equal(run_model("/bin/false", cache, true, &w, name, &err), TD_OK);
  assert_non_null(strstr(err.text, ".c"));
  chains_remove(cache);
}

static void unusable_folders(void **state) {
  (void)state;
  const char *cc = chains_compiler();
  if (!cc) skip();
  char *cache = chains_cache(), below[64];
  assert_int_equal(chmod(cache, 0777), 0);
  expect_run(cc, cache, "kern_fused", 1, "others may write");
  assert_int_equal(chmod(cache, 0700), 0);
  snprintf(below, sizeof below, "%s/a/b", cache);
  expect_run(cc, below, "fused_add_mul_relu_0", 0, NULL);
  expect_run(cc, "/proc/treadle", "kern_fused", 1, "/proc/treadle");
  chains_remove(cache);
}

static void killed_compilers(void **state) {
  (void)state;
  char *cache = chains_cache(), script[64], folder[64];
  snprintf(script, sizeof script, "%s/cc", cache);
  snprintf(folder, sizeof folder, "%s/made", cache);
  static const char *const texts[] = {"#!/bin/sh\nkill -9 $$\n", "#!/bin/sh\necho nonsense; exit 0\n"};
  for (size_t i = 0; i < 2; i++) {
    td_error err;
    assert_int_equal(sys_write_file(script, texts[i], strlen(texts[i]), &err), TD_OK);
    assert_int_equal(chmod(script, 0700), 0);
    expect_run(script, folder, "kern_fused", 1, NULL);
  }
  chains_remove(cache);
}

static void hanging_process(void **state) {
  (void)state;
  char *cache = chains_cache(), log[64];
  snprintf(log, sizeof log, "%s/log", cache);
  const char *const argv[] = {"/bin/sh", "-c", "sleep 1000", NULL};
  sys_process process;
  td_error err;
  int code = 0;
  assert_int_equal(sys_process_start(&process, argv, log, cache, &err), TD_OK);
  sys_process_wait(&process, 20, &code);
  assert_int_equal(code, -1);
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
  *status = arena ? codegen_load(&kernel, 1, &setting, arena, &code, &err) : TD_NO_RESOURCE;
  assert_true((*status == TD_OK) == (code != NULL));
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
  const struct CMUnitTest tests[] = {cmocka_unit_test(digests),          cmocka_unit_test(compiled_and_cached),
                                     cmocka_unit_test(damaged_cache),    cmocka_unit_test(broken_compilers),
                                     cmocka_unit_test(unusable_folders), cmocka_unit_test(killed_compilers),
                                     cmocka_unit_test(memory_that_ends), cmocka_unit_test(hanging_process)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
