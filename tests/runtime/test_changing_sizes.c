/* test_changing_sizes.c -- sizes that change from call to call: each costs one binding and a look-up afterwards,
 * nothing is compiled again, and memory grows no more once the largest was seen. */
#include "codegen/chains.h"
#include "sys/code.h"

enum { SIZES = 10, FLOATS = 1 << 14 };

/* A layer as BERT has it, over any length; a network of convolutions over pictures of any size. */
static const char attention[] =
    "input %0 \"x\": f32[b, s, 8]\n"
    "const %1 \"w\": f32[8, 8] = {0.1, 0.2, -0.3, 0.4, 0.5, -0.6, 0.7, 0.8, 0.1, 0.2, 0.3, -0.4, 0.5, 0.6, 0.7, -0.8, "
    "-0.1, 0.2, 0.3, 0.4, -0.5, 0.6, 0.7, 0.8, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.1, -0.2, 0.3, 0.4, 0.5, 0.6, "
    "-0.7, 0.8, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, -0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.1, 0.2, -0.3, 0.4, "
    "0.5, 0.6, 0.7, -0.8}\n"
    "const %2 \"scale\": f32[8] = {1, 2, 3, 4, 5, 6, 7, 8}\n"
    "const %3 \"root\": f32[] = {0.35}\n"
    "%4 = aten::matmul(%0, %1)\n"
    "%5 = aten::permute(%0) {dims = [0, 2, 1]}\n"
    "%6 = aten::matmul(%4, %5)\n"
    "%7 = aten::mul(%6, %3)\n"
    "%8 = aten::_softmax(%7) {dim = 2}\n"
    "%9 = aten::matmul(%8, %0)\n"
    "%10 = aten::add(%9, %0)\n"
    "%11 = aten::native_layer_norm(%10, %2, %2) {axis = 2}\n"
    "%12 = aten::sigmoid(%11)\n"
    "%13 = aten::mul(%12, %10)\n"
    "output \"y\" %13\n";
static const char pictures[] =
    "input %0 \"x\": f32[n, 1, h, w]\n"
    "const %1 \"k\": f32[4, 1, 3, 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, "
    "9, 1, 2, 3, 4, 5, 6, 7, 8, 9}\n"
    "const %2 \"l\": f32[2, 4, 1, 1] = {1, -1, 2, -2, 3, -3, 4, -4}\n"
    "%3 = aten::convolution(%0, %1)\n"
    "%4 = aten::relu(%3)\n"
    "%5 = aten::convolution(%4, %2)\n"
    "%6 = aten::tanh(%5)\n"
    "%7 = aten::mul(%6, %5)\n"
    "%8 = aten::mean(%7) {dim = [2, 3], keepdim = false}\n"
    "output \"y\" %8\n";

typedef struct bench {
  base_arena *arena;
  char *cache;
  plan_exe *plan;
  run_session *session;
  base_counting counting; /* of the session alone */
  td_allocator allocator;
  float *memory;
} bench;

static void bench_open(bench *b, const char *text) {
  td_error err = {0};
  sys_machine machine;
  sys_machine_read(&machine);
  *b = (bench){.counting = {.inner = &base_libc_allocator, .each = true},
               .arena = base_arena_new(&base_libc_allocator),
               .cache = chains_cache(),
               .memory = calloc(FLOATS, sizeof(float))};
  b->allocator = base_counting_allocator(&b->counting);
  ir_graph *graph = parse_graph(b->arena, text, &base_libc_allocator);
  const compile_setting setting = {.backend = compile_find_backend("native"),
                                   .isa = machine.isa | BASE_ISA_VECTOR,
                                   .options.cc = chains_compiler(),
                                   .options.cache = b->cache};
  if (compile_graph(graph, &setting, &base_libc_allocator, NULL, &b->plan, &err) != TD_OK) fail_msg("%s", err.text);
  ir_graph_free(graph);
  assert_int_equal(run_session_new(b->plan, &b->allocator, NULL, &b->session, &err), TD_OK);
  for (int i = 0; i < FLOATS; i++) b->memory[i] = (float)(i % 23 - 11) * 0.1f;
}

static void bench_close(bench *b) {
  run_session_free(b->session);
  assert_int_equal(b->counting.live, 0);
  plan_free(b->plan);
  base_arena_free(b->arena);
  chains_remove(b->cache);
  free(b->memory);
}

/* A number for the result over an input of these dims. */
static uint64_t answer_of(bench *b, int32_t rank, const int64_t *dims) {
  const base_value value = {.kind = BASE_TENSOR, .tensor = base_tensor_of(b->memory, TD_F32, rank, dims)};
  const base_value *out;
  td_error err = {0};
  uint64_t sum = 1;
  if (run_set_input(b->session, 0, &value, &err) != TD_OK || run_session_run(b->session, &err) != TD_OK)
    fail_msg("%s", err.text);
  assert_int_equal(run_output(b->session, 0, &out, &err), TD_OK);
  const uint8_t *at = out->tensor.data;
  for (size_t i = 0; i < base_tensor_bytes(&out->tensor); i++) sum = (sum ^ at[i]) * 0x100000001b3;
  return sum;
}

/* Every size again and again: in the second round nothing is taken from the allocator, and all answers are the same. */
static void walk(const char *text, int32_t rank, void (*dims_of)(int64_t size, int64_t *dims), const int64_t *sizes) {
  bench b;
  uint64_t first[SIZES];
  int64_t dims[BASE_MAX_RANK];
  bench_open(&b, text);
  if (chains_compiler()) { /* what it made is there now, and nothing comes to it */
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s/*", b.cache);
    assert_int_equal(system(command), 0);
  }
  for (int i = 0; i < SIZES; i++) dims_of(sizes[i], dims), first[i] = answer_of(&b, rank, dims);
  const uint64_t made = b.counting.made, bytes = b.counting.live_bytes;
  for (int round = 0; round < 3; round++)
    for (int i = 0; i < SIZES; i++) {
      dims_of(sizes[round % 2 ? SIZES - 1 - i : i], dims);
      assert_int_equal(answer_of(&b, rank, dims), first[round % 2 ? SIZES - 1 - i : i]);
    }
  assert_int_equal(b.counting.made, made);
  assert_int_equal(b.counting.live_bytes, bytes);
  if (chains_compiler()) assert_int_equal(rmdir(b.cache), 0);
  bench_close(&b);
}

static void lengths(int64_t size, int64_t *dims) { dims[0] = 2, dims[1] = size, dims[2] = 8; }
static void pictures_of(int64_t size, int64_t *dims) {
  dims[0] = 1 + size % 2, dims[1] = 1, dims[2] = size, dims[3] = size + 3;
}

static void ten_lengths(void **state) {
  (void)state;
  static const int64_t sizes[SIZES] = {17, 1, 128, 64, 3, 0, 100, 31, 96, 127};
  walk(attention, 3, lengths, sizes);
}

static void ten_pictures(void **state) {
  (void)state;
  static const int64_t sizes[SIZES] = {3, 64, 5, 17, 40, 4, 33, 63, 8, 21};
  walk(pictures, 4, pictures_of, sizes);
}

/* Of more sizes than are kept those used last stay: what is held has a limit. */
static void more_sizes_than_are_kept(void **state) {
  (void)state;
  bench b;
  int64_t dims[BASE_MAX_RANK];
  size_t most = 0;
  bench_open(&b, attention);
  for (int64_t round = 0; round < 3; round++)
    for (int64_t size = 100; size > 0; size--) {
      lengths(size, dims);
      answer_of(&b, 3, dims);
      if (round == 0 && size == 60)
        most = b.counting.live_bytes; /* the largest, and as many bindings as there can be */
      if (most && b.counting.live_bytes > most + most / 8)
        fail_msg("%zu bytes grew to %llu", most, (unsigned long long)b.counting.live_bytes);
    }
  bench_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(ten_lengths), cmocka_unit_test(ten_pictures),
                                     cmocka_unit_test(more_sizes_than_are_kept)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
