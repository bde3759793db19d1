/* `treadle quantize --smooth`: models some of whose channels are outliers, which 8 bits for all channels cannot hold.
 */
#include "quantize/build.h"

enum { CHANNELS = 64, ROWS = 8, SAMPLES = 3 };

/* By how much a channel of x is larger than others, and its weights smaller. */
static float size_of(int channel) { return channel == 5 || channel == 40 ? 200 : 1; }

/* What stands in front of the product, and whether the division can be folded into it. */
typedef struct front {
  const char *name;
  bool folds, is_residual; /* x is read by a sum, too */
  bool is_gemm;            /* with a transposed matrix and a bias */
} front;
static const front fronts[] = {{.name = "LayerNormalization", .folds = true},
                               {.name = "LayerNormalization", .folds = true, .is_gemm = true},
                               {.name = "LayerNormalization", .is_residual = true},
                               {.name = "affine", .folds = true},
                               {.name = "LeakyRelu"}};

static void put_front(base_text *graph, const front *f) {
  if (strcmp(f->name, "affine") == 0) {
    put_step(graph, "Tanh", IN("x"), "t");
    put_step(graph, "Mul", IN("t", "scale"), "scaled");
    put_step(graph, "Add", IN("bias", "scaled"), "h");
  } else if (strcmp(f->name, "LeakyRelu") == 0) {
    put_step(graph, "Mul", IN("x", "scale"), "scaled");
    put_step(graph, "LeakyRelu", IN("scaled"), "h");
  } else {
    put_step(graph, f->name, IN("x", "scale", "bias"), "h");
  }
}

static void write_model(const front *f) {
  static float w[CHANNELS][CHANNELS];
  float scale[CHANNELS], bias[CHANNELS];
  base_text graph = {.allocator = &base_libc_allocator};
  const int64_t square[] = {CHANNELS, CHANNELS};
  uint32_t seed = 3;
  for (int k = 0; k < CHANNELS; k++) {
    scale[k] = size_of(k);
    bias[k] = size_of(k) * noise(&seed) / 4;
    for (int n = 0; n < CHANNELS; n++) {
      float *to = f->is_gemm ? &w[n][k] : &w[k][n];
      *to = noise(&seed) / size_of(k);
    }
  }
  put_front(&graph, f);
  if (f->is_gemm) {
    base_text node = step_of("Gemm", IN("h", "w", "bias"), "y");
    put_int_attribute(&node, "transB", 1);
    put_message(&graph, 1, &node);
  } else {
    put_step(&graph, "MatMul", IN("h", "w"), f->is_residual ? "product" : "y");
  }
  if (f->is_residual) put_step(&graph, "Add", IN("h", "product"), "y");
  put_weight(&graph, "scale", scale, 1, square);
  put_weight(&graph, "bias", bias, 1, square);
  put_weight(&graph, "w", w[0], 2, square);
  put_value(&graph, 11, "x", TD_F32, 2, (int64_t[]){ROWS, CHANNELS});
  put_value(&graph, 12, "y", TD_F32, 2, (int64_t[]){ROWS, CHANNELS});
  if (f->is_residual) put_value(&graph, 12, "product", TD_F32, 2, (int64_t[]){ROWS, CHANNELS});
  save_graph("model.onnx", &graph, 17);
}

/* Of the last output, in which no residual hides the product. */
static double error_of(fixture *f, const char *words, json_t **report) {
  const outcome o =
      run(f, base_arena_format(f->arena, "quantize model.onnx --data samples -o out.onnx --json %s", words));
  if (o.status) fail_msg("%s", o.err);
  json_t *root = parse(o.out), *outputs = json_object_get(root, "outputs");
  const json_t *last = json_array_get(outputs, json_array_size(outputs) - 1);
  const double error = json_number_value(json_object_get(last, "relative_error"));
  if (report) *report = root;
  else json_decref(root);
  return error;
}

static double difference(fixture *f) {
  assert_int_equal(run(f, "run model.onnx --input samples/0.npy --output a").status, 0);
  assert_int_equal(run(f, "run out.onnx --input samples/0.npy --output b").status, 0);
  const base_tensor a = load_npy(f, "a/y.npy"), b = load_npy(f, "b/y.npy");
  double differences = 0, squares = 0;
  for (int i = 0; i < ROWS * CHANNELS; i++) {
    const double x = (double)((const float *)a.data)[i], y = (double)((const float *)b.data)[i];
    differences += (x - y) * (x - y);
    squares += x * x;
  }
  return sqrt(differences / squares);
}

static void outliers_move_into_weights(void **state) {
  fixture *f = *state;
  write_samples(SAMPLES, 2, (int64_t[]){ROWS, CHANNELS});
  for (size_t i = 0; i < sizeof fronts / sizeof *fronts; i++) {
    write_model(&fronts[i]);
    for (int mode = 0; mode < 2; mode++) {
      const char *name = mode ? "--mode dynamic" : "--mode static";
      json_t *report;
      const double plain = error_of(f, name, NULL);
      const double halved = error_of(f, base_arena_format(f->arena, "%s --smooth 0.5", name), NULL);
      const double searched = error_of(f, base_arena_format(f->arena, "%s --smooth auto", name), &report);
      if (!(halved > 0 && halved < plain / 5) || searched > halved)
        fail_msg("%s, %s: %g, smoothed %g, searched %g", fronts[i].name, name, plain, halved, searched);
      const json_t *smoothed = json_object_get(report, "smoothed");
      assert_int_equal(json_integer_value(json_object_get(smoothed, "folded")), fronts[i].folds);
      assert_int_equal(json_integer_value(json_object_get(smoothed, "by_mul")), !fronts[i].folds);
      json_decref(report);
      assert_true(fabs(difference(f)) < 0.05); /* of the file */
    }
  }
}

/* With every layer kept the file is the smoothed model of f32. */
static void smoothed_f32_is_what_it_was(void **state) {
  fixture *f = *state;
  write_samples(SAMPLES, 2, (int64_t[]){ROWS, CHANNELS});
  for (size_t i = 0; i < sizeof fronts / sizeof *fronts; i++) {
    write_model(&fronts[i]);
    json_t *report;
    assert_true(error_of(f, "--smooth 0.6 --max-loss 1e-6", &report) <= 1e-6);
    assert_int_equal(json_array_size(json_object_get(report, "kept")), 1);
    json_decref(report);
    assert_true(difference(f) <= 1e-6);
    size_t before, after;
    const char *a = slurp(f, "model.onnx", &before), *b = slurp(f, "out.onnx", &after);
    assert_false(before == after && memcmp(a, b, before) == 0);
  }
}

static void what_cannot_be_is_refused(void **state) {
  static const struct {
    const char *words, *says;
    int status;
  } rows[] = {{"--smooth much", "--smooth 'much'", 2},
              {"--smooth 1.5", "--smooth '1.5'", 2},
              {"--smooth auto --mode int4", "--mode static or dynamic", 2},
              {"--smooth auto --mode bf16", "--mode static or dynamic", 2}};
  fixture *f = *state;
  write_samples(SAMPLES, 2, (int64_t[]){ROWS, CHANNELS});
  write_model(&fronts[0]);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const outcome o =
        run(f, base_arena_format(f->arena, "quantize model.onnx --data samples -o y.onnx %s", rows[i].words));
    assert_int_equal(o.status, rows[i].status);
    assert_holds(o.err, rows[i].says);
  }
  save_unary("model.onnx", "Relu", CHANNELS);
  const outcome none = run(f, "quantize model.onnx --data samples -o y.onnx --smooth auto");
  assert_int_equal(none.status, 4);
  assert_holds(none.err, "--smooth: no node");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(outliers_move_into_weights, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(smoothed_f32_is_what_it_was, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(what_cannot_be_is_refused, fixture_open, fixture_close)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
