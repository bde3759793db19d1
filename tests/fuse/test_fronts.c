/* ctest: threads */
/* test_fronts.c -- loops in front of products, which their kernels make block by block: where they go, why not, and
 * that the bits are those of a loop and a product of their own, whoever runs them. */
#include "codegen/chains.h"
#include "compile/compile.h"
#include "runtime/runtime.h"

enum { ROOM = 1 << 20 };

/* ", a constant of `count` numbers" at the end of a model's text. */
static void add_constant(char *text, uint32_t id, const char *dims, uint32_t count) {
  char *at = text + strlen(text);
  at += sprintf(at, "const %%%u: f32[%s] = {", id, dims);
  for (uint32_t i = 0; i < count; i++) at += sprintf(at, "%s%g", i ? ", " : "", (double)((i * 37 + id) % 41) / 20 - 1);
  sprintf(at, "}\n");
}

/* A scale and an activation in front of a product of tokens. */
static void linear_model(char *text, const char *between) {
  strcpy(text, "input %0 \"x\": f32[n, 70, 33]\n");
  add_constant(text, 1, "33", 33);
  add_constant(text, 2, "33, 50", 33 * 50);
  sprintf(text + strlen(text), "%s%%9 = aten::matmul(%%8, %%2)\noutput \"z\" %%9\n", between);
}

/* The same in front of a convolution of one pixel, or of windows, and behind a pool, whose channels are last. */
static void conv_model(char *text, uint32_t side, const char *between) {
  strcpy(text, "input %0 \"x\": f32[n, 20, 19, 23]\n");
  add_constant(text, 1, "20, 1, 1", 20);
  add_constant(text, 2, side == 1 ? "320, 20, 1, 1" : "320, 20, 3, 3", 6400 * side * side);
  sprintf(text + strlen(text),
          "%%10 = td::max_pool(%%0) {kernel_size = [2, 2], stride = [1, 1]}\n%s"
          "%%9 = aten::convolution(%%8, %%2) {padding = [%u, %u, %u, %u], stride = [%u, %u]}\noutput \"z\" %%9\n",
          between, side / 2, side / 2, side / 2, side / 2, side / 2 + 1, side / 2 + 1);
}

static const char scaled[] = "%3 = aten::mul(%0, %1)\n%4 = aten::mish(%3)\n%8 = aten::add(%4, %1)\n";
static const char pooled[] = "%3 = aten::mul(%10, %1)\n%4 = aten::mish(%3)\n%8 = aten::add(%4, %1)\n";
static const char normed[] =
    "%3 = aten::mean(%0) {dim = [-1], keepdim = true}\n%4 = aten::sub(%0, %3)\n%8 = aten::mul(%4, %1)\n";

static compile_setting setting_of(const char *backend, const char *cache) {
  sys_machine machine;
  sys_cpu_read(&machine);
  return (compile_setting){.backend = compile_find_backend(backend),
                           .isa = machine.isa | BASE_ISA_VECTOR,
                           .options.cc = chains_compiler(),
                           .options.cache = cache,
                           .front_least = 1};
}

/* What comes out for `batch` samples, of which the first is always the same. */
static base_tensor run_model(const char *text, const compile_setting *setting, int64_t batch, uint32_t threads,
                             base_arena *arena) {
  rig r = {.counting = {.inner = &base_libc_allocator}};
  char given[64];
  rig_open_as(&r, text, NULL, setting);
  run_session_free(r.session);
  run_pool *pool = NULL;
  if (threads > 1) assert_int_equal(run_pool_new(threads, 50, &base_libc_allocator, &pool, &r.err), TD_OK);
  assert_int_equal(run_session_new(r.plan, &r.allocator, pool, &r.session, &r.err), TD_OK);
  const bool tokens = strstr(text, "matmul") != NULL;
  sprintf(given, tokens ? "%dx70x33: " : "%dx20x19x23: ", (int)batch);
  base_tensor x = tensor_from(arena, TD_F32, given);
  for (int64_t i = 0; i < base_tensor_numel(&x); i++) ((float *)x.data)[i] = (float)((i * 7919) % 1013) / 500 - 1;
  const base_value value = {.kind = BASE_TENSOR, .tensor = x};
  assert_int_equal(run_set_input(r.session, 0, &value, &r.err), TD_OK);
  for (int run = 0; run < 2; run++) rig_run(&r);
  base_tensor out = *rig_output(&r, 0);
  out.data = base_arena_copy(arena, out.data, base_tensor_bytes(&out));
  rig_close(&r);
  run_pool_free(pool);
  return out;
}

static void expect_bits(const base_tensor *want, const base_tensor *got, const char *what) {
  if (memcmp(want->data, got->data, base_tensor_bytes(want)) != 0) fail_msg("%s: other bits", what);
}

static void check_bits(const char *text, const compile_setting *setting) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  compile_setting apart = *setting;
  apart.options.disabled_passes = "chain";
  const base_tensor want = run_model(text, &apart, 3, 1, arena), got = run_model(text, setting, 3, 1, arena);
  expect_bits(&want, &got, "in front");
  for (uint32_t threads = 2; threads <= 4; threads += 2) {
    const base_tensor shared = run_model(text, setting, 3, threads, arena);
    expect_bits(&want, &shared, "threads");
  }
  const base_tensor one = run_model(text, setting, 1, 1, arena);
  expect_bits(&one, &got, "batch"); /* its first sample */
  base_arena_free(arena);
}

static void bits_are_those_of_steps_of_their_own(void **state) {
  (void)state;
  char *text = malloc(ROOM), *cache = chains_cache();
  assert_non_null(text);
  for (int native = 0; native < (chains_compiler() ? 2 : 1); native++) {
    const compile_setting setting = setting_of(native ? "native" : "interp", cache);
    linear_model(text, scaled);
    check_bits(text, &setting);
    linear_model(text, normed);
    check_bits(text, &setting);
    conv_model(text, 1, pooled);
    check_bits(text, &setting);
  }
  chains_remove(cache);
  free(text);
}

/* What --why says of a model. */
static void expect_why(const char *text, const compile_setting *setting, const char *wanted) {
  rig r = {.counting = {.inner = &base_libc_allocator}};
  base_text told = {.allocator = &base_libc_allocator};
  r.allocator = base_counting_allocator(&r.counting);
  r.arena = base_arena_new(&base_libc_allocator);
  r.graph = parse_graph(r.arena, text, &r.allocator);
  assert_int_equal(compile_explain_loops(r.graph, setting, true, &base_libc_allocator, &told, &r.err), TD_OK);
  if (!strstr(told.at, wanted)) fail_msg("no '%s' in:\n%s", wanted, told.at);
  base_text_free(&told);
  rig_close(&r);
}

static void what_goes_in_front(void **state) {
  (void)state;
  char *text = malloc(ROOM), *cache = chains_cache();
  assert_non_null(text);
  const compile_setting any = setting_of("native", cache);
  compile_setting measured = any;
  measured.front_least = 0;
  linear_model(text, scaled);
  expect_why(text, &any, "# chained: \"td::fused\" in front of \"td::linear\": 1182720 bytes less");
  expect_why(text, &measured, "small enough to stay in cache");
  linear_model(text, normed);
  expect_why(text, &any, "in front of");
  linear_model(text, "%8 = aten::hardswish(%0)\n"); /* one operator that has a kernel */
  expect_why(text, &any, "in front of");
  conv_model(text, 1, pooled);
  expect_why(text, &any, "in front of");
  conv_model(text, 3, pooled);
  expect_why(text, &any, "overlapping windows of the product after it");
  linear_model(text, scaled);
  strcat(text, "output \"between\" %8\n");
  expect_why(text, &any, "it has other consumers");
  compile_setting told = any;
  told.options.alone = "chain=*";
  linear_model(text, scaled);
  expect_why(text, &told, "it is excluded from fusion");
  chains_remove(cache);
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(bits_are_those_of_steps_of_their_own),
                                     cmocka_unit_test(what_goes_in_front)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
