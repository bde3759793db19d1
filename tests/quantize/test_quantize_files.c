/* What `treadle quantize` reads: older operator sets, weights in other files; and each allocation refused in turn. */
/* ctest: slow */
#include "quantize/build.h"
#include "quantize/job.h"

enum { HEIGHT = 8, FEATURES = 16, MOST = 200000 /* allocations; none makes so many */ };

/* A convolution with a bias and a batch norm, another whose result is added to what it read, and three linear layers as
 * they are written: with a bias, transposed elsewhere, plain behind a norm. */
static void put_nodes(base_text *graph, bool normed) {
  put_step(graph, "Conv", IN("x", "k", "kb"), "conv");
  put_step(graph, "BatchNormalization", IN("conv", "b", "kb", "b", "variance"), "normal");
  put_step(graph, "Relu", IN("normal"), "relu");
  put_step(graph, "Conv", IN("relu", "k1"), "second");
  put_step(graph, "Add", IN("relu", "second"), "sum");
  put_step(graph, "Relu", IN("sum"), "summed");
  put_step(graph, "GlobalAveragePool", IN("summed"), "pool");
  put_step(graph, "Flatten", IN("pool"), "flat");
  put_step(graph, "Gemm", IN("flat", "w0", "b"), "gemm");
  base_text turn = step_of("Transpose", IN("w1"), "w1t"), perm = {.allocator = &base_libc_allocator};
  fmt_put_str(&perm, 1, "perm");
  fmt_put_int(&perm, 8, 1);
  fmt_put_int(&perm, 8, 0);
  fmt_put_int(&perm, 20, 7);
  put_message(&turn, 5, &perm);
  put_message(graph, 1, &turn);
  put_step(graph, "MatMul", IN("gemm", "w1t"), "plain");
  if (normed) put_step(graph, "LayerNormalization", IN("plain", "b", "b"), "norm");
  else put_step(graph, "Tanh", IN("plain"), "norm");
  put_step(graph, "MatMul", IN("norm", "w1"), "y");
}

/* A weight of noise; with `offset` behind so many bytes of weights.bin. */
static void put_noise(base_text *graph, const char *name, int32_t rank, const int64_t *dims, int64_t *offset) {
  static float values[1024];
  static uint32_t seed = 5;
  base_tensor t = base_tensor_of(values, TD_F32, rank, dims);
  const int64_t count = base_tensor_numel(&t);
  assert_true(count <= 1024);
  for (int64_t i = 0; i < count; i++) values[i] = noise(&seed);
  if (!offset) {
    put_weight(graph, name, values, rank, dims);
    return;
  }
  base_text tensor = {.allocator = &base_libc_allocator};
  for (int32_t d = 0; d < rank; d++) fmt_put_int(&tensor, 1, dims[d]);
  fmt_put_int(&tensor, 2, 1);
  fmt_put_str(&tensor, 8, name);
  char texts[2][32];
  snprintf(texts[0], 32, "%lld", (long long)*offset);
  snprintf(texts[1], 32, "%lld", (long long)count * 4);
  const char *const entries[][2] = {{"location", "weights.bin"}, {"offset", texts[0]}, {"length", texts[1]}};
  for (int i = 0; i < 3; i++) {
    base_text entry = {.allocator = &base_libc_allocator};
    fmt_put_str(&entry, 1, entries[i][0]);
    fmt_put_str(&entry, 2, entries[i][1]);
    put_message(&tensor, 13, &entry);
  }
  fmt_put_int(&tensor, 14, 1);
  put_message(graph, 5, &tensor);
  FILE *file = fopen("weights.bin", *offset ? "ab" : "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(values, 4, (size_t)count, file), count);
  assert_int_equal(fclose(file), 0);
  *offset += count * 4;
}

static void write_model(const char *path, int64_t opset, bool external) {
  base_text graph = {.allocator = &base_libc_allocator};
  int64_t offset = 0, *const at = external ? &offset : NULL;
  put_nodes(&graph, opset >= 17);
  put_noise(&graph, "k", 4, (int64_t[]){FEATURES, 3, 3, 3}, at);
  put_noise(&graph, "kb", 1, (int64_t[]){FEATURES}, at);
  put_noise(&graph, "k1", 4, (int64_t[]){FEATURES, FEATURES, 1, 1}, at);
  put_noise(&graph, "w0", 2, (int64_t[]){FEATURES, FEATURES}, at);
  put_noise(&graph, "w1", 2, (int64_t[]){FEATURES, FEATURES}, at);
  put_noise(&graph, "b", 1, (int64_t[]){FEATURES}, at);
  float variance[FEATURES] = {1e20f}; /* of a channel that is all but silenced: its bias stays */
  for (int i = 1; i < FEATURES; i++) variance[i] = 1 + (float)i / FEATURES;
  put_weight(&graph, "variance", variance, 1, (int64_t[]){FEATURES});
  put_value(&graph, 11, "x", TD_F32, 4, (int64_t[]){1, 3, HEIGHT, HEIGHT});
  put_value(&graph, 12, "y", TD_F32, 2, (int64_t[]){1, FEATURES});
  save_graph(path, &graph, opset);
  write_samples(2, 4, (int64_t[]){1, 3, HEIGHT, HEIGHT});
}

static void older_sets_and_other_files_are_read(void **state) {
  static const struct {
    int64_t opset;
    bool external;
  } rows[] = {{11, false}, {17, true}, {11, true}};
  fixture *f = *state;
  for (int i = 0; i < 3; i++) {
    write_model("model.onnx", rows[i].opset, rows[i].external);
    const outcome o = run(f, "quantize model.onnx --data samples -o out.onnx --keep gemm --json");
    if (o.status) fail_msg("%s", o.err);
    json_t *root = parse(o.out);
    assert_int_equal(json_integer_value(json_object_get(root, "layers")), 5);
    assert_int_equal(json_array_size(json_object_get(root, "kept")), 1);
    const double error =
        json_number_value(json_object_get(json_array_get(json_object_get(root, "outputs"), 0), "relative_error"));
    assert_true(error > 0 && error < 0.05);
    json_decref(root);
    assert_int_equal(unlink("weights.bin"), rows[i].external ? 0 : -1);
    assert_int_equal(run(f, "run out.onnx --input samples/0.npy").status, 0); /* all that it needs is inside */
    const outcome passes = run(f, "inspect out.onnx");
    assert_int_equal(passes.status, 0);
    if (strstr(passes.out, "td::conv_i8(")) { /* this CPU has kernels for bytes: all but the layer that is kept is */
      assert_null(strstr(passes.out, "batch_norm"));
      assert_null(strstr(passes.out, "aten::add("));
      assert_holds(passes.out, "t_scale = 0, t_zero = 0, r_scale = 0.0");
    }
  }
  const outcome gone = run(f, "quantize model.onnx --data samples -o out.onnx");
  assert_int_equal(gone.status, 3);
  assert_holds(gone.err, "weights.bin");
}

/* What the engine cannot write anew is refused with what to do. */
static void others_are_refused(void **state) {
  fixture *f = *state;
  base_text graph = {.allocator = &base_libc_allocator};
  put_step(&graph, "LpNormalization", IN("x"), "y");
  put_value(&graph, 11, "x", TD_F32, 2, (int64_t[]){1, HEIGHT});
  put_value(&graph, 12, "y", TD_F32, 2, (int64_t[]){1, HEIGHT});
  save_graph("model.onnx", &graph, 11);
  write_samples(1, 2, (int64_t[]){1, HEIGHT});
  const outcome o = run(f, "quantize model.onnx --data samples -o out.onnx");
  assert_int_equal(o.status, 4);
  assert_holds(o.err, "its operator set is older than 13");
  assert_holds(o.err, "onnx.version_converter");
}

static void fail_each_in_turn(char **words, int count) {
  uint64_t fail_at = 0;
  td_status status;
  do {
    fail_at += fail_at < 1000   ? 1
               : fail_at < 4000 ? 13
                                : 397; /* later ones are of loads and runs, which test_oom.c fails one by one */
    base_counting counting = {.inner = &base_libc_allocator, .fail_at = fail_at, .each = true};
    const td_allocator allocator = base_counting_allocator(&counting);
    td_error err = {.offset = -1};
    FILE *to = fopen("/dev/null", "w");
    assert_non_null(to);
    status = quant_run(count, words, &allocator, to, &err);
    fclose(to);
    if (counting.live) fail_msg("allocation %d refused: %d not given back", (int)fail_at, (int)counting.live);
    if (status == TD_OK && counting.made < fail_at) break;
    if (status != TD_NO_RESOURCE || !err.text[0])
      fail_msg("%s: allocation %d refused: status %d, %s: %s", words[6], (int)fail_at, (int)status, err.name, err.text);
  } while (fail_at < MOST);
  assert_true(fail_at > 100 && fail_at < MOST);
}

/* A layer that is large enough to be stored in 16 bits. */
static void write_large(void) {
  enum { SIZE = 512 };
  static float w[SIZE * SIZE];
  base_text graph = {.allocator = &base_libc_allocator};
  uint32_t seed = 9;
  for (int i = 0; i < SIZE * SIZE; i++) w[i] = noise(&seed);
  put_step(&graph, "MatMul", IN("x", "w"), "y");
  put_weight(&graph, "w", w, 2, (int64_t[]){SIZE, SIZE});
  put_value(&graph, 11, "x", TD_F32, 2, (int64_t[]){1, SIZE});
  put_value(&graph, 12, "y", TD_F32, 2, (int64_t[]){1, SIZE});
  save_graph("model.onnx", &graph, 13);
  write_samples(1, 2, (int64_t[]){1, SIZE});
}

static void each_allocation_may_fail(void **state) {
  static const char *const ways[][4] = {{"static", "--smooth", "auto"},
                                        {"static", "--observer", "entropy"},
                                        {"dynamic", "--smooth", "0.5"},
                                        {"weights", "--max-loss", "0.001"},
                                        {"int4", "--keep", "gemm"}};
  fixture *f = *state;
  write_model("model.onnx", 17, false);
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    char *words[] = {"model.onnx",
                     "--data",
                     "samples",
                     "-o",
                     "out.onnx",
                     "--mode",
                     (char *)(uintptr_t)ways[i][0],
                     (char *)(uintptr_t)ways[i][1],
                     (char *)(uintptr_t)ways[i][2],
                     "--layers",
                     "1"};
    fail_each_in_turn(words, sizeof words / sizeof *words);
  }
  write_model("model.onnx", 11, true);
  char *words[] = {"model.onnx", "--data", "samples", "-o", "out.onnx", "--mode", "static", "--layers", "0"};
  fail_each_in_turn(words, sizeof words / sizeof *words);
  const outcome info = run(f, "info");
  assert_int_equal(info.status, 0);
  if (!strstr(info.out, "avx2")) return; /* no layer of 16 bits */
  assert_int_equal(system("rm -r samples"), 0);
  write_large();
  char *halves[] = {"model.onnx", "--data", "samples", "-o", "list.txt", "--mode", "bf16", "--max-loss", "0"};
  fail_each_in_turn(halves, sizeof halves / sizeof *halves);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(older_sets_and_other_files_are_read, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(others_are_refused, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(each_allocation_may_fail, fixture_open, fixture_close)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
