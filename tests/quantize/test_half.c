/* `treadle quantize --mode bf16`: which layer is to stay in f32, of models in which one is sensitive by construction.
 */
#include "quantize/build.h"

enum { LAYERS = 3, SIZE = 512, SAMPLES = 2 };
static const char *const names[LAYERS] = {"/first", "/middle", "/last"};

/* A square matrix whose columns come in pairs, so that operands do; of a sensitive layer the rows of a pair are +40 and
 * -40 beside small numbers: exactly in f32 they cancel, in 16 bits the small numbers are lost. */
static void put_matrix(base_text *graph, const char *name, bool sensitive, uint32_t *seed) {
  static float w[SIZE][SIZE];
  for (int k = 0; k < SIZE; k++)
    for (int n = 0; n < SIZE; n += 2) {
      const float small = noise(seed) / 8;
      w[k][n] = w[k][n + 1] = !sensitive ? small : (k % 2 ? -40 : 40) + small;
    }
  put_weight(graph, name, w[0], 2, (int64_t[]){SIZE, SIZE});
}

/* Products in a row; and samples whose elements come in pairs. */
static void write_case(int sensitive) {
  base_text graph = {.allocator = &base_libc_allocator};
  uint32_t seed = 7;
  for (int i = 0; i < LAYERS; i++) {
    char in[16], out[16], weight[16];
    snprintf(in, sizeof in, i ? "h%d" : "x", i);
    snprintf(out, sizeof out, i + 1 < LAYERS ? "h%d" : "y", i + 1);
    snprintf(weight, sizeof weight, "w%d", i);
    base_text node = {.allocator = &base_libc_allocator};
    fmt_put_str(&node, 1, in);
    fmt_put_str(&node, 1, weight);
    fmt_put_str(&node, 2, out);
    fmt_put_str(&node, 3, names[i]);
    fmt_put_str(&node, 4, "MatMul");
    put_message(&graph, 1, &node);
    put_matrix(&graph, weight, i == sensitive, &seed);
  }
  const int64_t dims[] = {1, SIZE};
  put_value(&graph, 11, "x", TD_F32, 2, dims);
  put_value(&graph, 12, "y", TD_F32, 2, dims);
  save_model("model.onnx", &graph);
  assert_int_equal(system("mkdir -p samples"), 0);
  for (int s = 0; s < SAMPLES; s++) {
    float x[SIZE];
    char path[32];
    for (int i = 0; i < SIZE; i += 2) x[i] = x[i + 1] = noise(&seed);
    snprintf(path, sizeof path, "samples/%d.npy", s);
    const base_tensor t = row_of(x, SIZE);
    save_npy(path, &t);
  }
}

static double number_in(const json_t *root, const char *list, size_t index, const char *key) {
  const json_t *value = json_object_get(json_array_get(json_object_get(root, list), index), key);
  assert_true(json_is_number(value));
  return json_number_value(value);
}

static const char *text_in(const json_t *root, const char *list, size_t index, const char *key) {
  return json_string_value(json_object_get(json_array_get(json_object_get(root, list), index), key));
}

/* Levels without conversions of 16 bits have no such layer. */
static bool has_halves(fixture *f) {
  const outcome info = run(f, "info");
  assert_int_equal(info.status, 0);
  return strstr(info.out, "avx2") != NULL;
}

static void the_sensitive_layer_is_named(void **state) {
  fixture *f = *state;
  for (int i = 0; i < LAYERS && has_halves(f); i++) {
    write_case(i);
    const outcome all = run(f, "quantize model.onnx --data samples --mode bf16 --json");
    if (all.status) fail_msg("%s", all.err);
    json_t *root = parse(all.out);
    assert_int_equal(json_integer_value(json_object_get(root, "layers")), LAYERS);
    assert_true(number_in(root, "outputs", 0, "relative_error") > 0.03);
    assert_string_equal(text_in(root, "costliest", 0, "name"), names[i]);
    assert_true(number_in(root, "costliest", 0, "relative_error") > 0.03);
    assert_true(number_in(root, "costliest", 1, "relative_error") < 0.01);
    assert_int_equal(json_array_size(json_object_get(root, "kept")), 0);
    json_decref(root);
    const outcome limited = run(f, "quantize model.onnx --data samples --mode bf16 --max-loss 0.01 -o list.txt --json");
    if (limited.status) fail_msg("%s", limited.err);
    root = parse(limited.out);
    assert_string_equal(json_string_value(json_object_get(root, "keep_f32")), names[i]);
    assert_true(number_in(root, "outputs", 0, "relative_error") <= 0.01);
    json_decref(root);
    assert_string_equal(slurp(f, "list.txt", NULL), base_arena_format(f->arena, "%s\n", names[i]));
  }
}

/* What is printed is what other commands take; the caller's own layers stay in the list. */
static void the_list_is_an_argument(void **state) {
  fixture *f = *state;
  if (!has_halves(f)) return;
  write_case(1);
  const outcome o = run(f, "quantize model.onnx --data samples --mode bf16 --max-loss 0.01 --keep /first --layers 2");
  assert_int_equal(o.status, 0);
  assert_holds(o.out, "layer, alone in bf16");
  assert_holds(o.out, "1 of 3 layers narrow, on 2 samples\n--precision bf16 --keep-f32 '/first,/middle'\n");
  assert_int_equal(
      run(f, "run model.onnx --input samples/0.npy --output kept --precision bf16 --keep-f32 '/first,/middle'").status,
      0);
  assert_int_equal(run(f, "run model.onnx --input samples/0.npy --output plain").status, 0);
  const base_tensor a = load_npy(f, "kept/y.npy"), b = load_npy(f, "plain/y.npy");
  double differences = 0, squares = 0;
  for (int i = 0; i < SIZE; i++) {
    const double x = (double)((const float *)a.data)[i], y = (double)((const float *)b.data)[i];
    differences += (x - y) * (x - y);
    squares += y * y;
  }
  assert_true(differences > 0 && sqrt(differences / squares) <= 0.01);
  assert_holds(run(f, "quantize model.onnx --data samples --mode f16 --layers 0").out, "--precision f16\n");
}

static void what_cannot_be_is_refused(void **state) {
  fixture *f = *state;
  write_case(0);
  const outcome none = run(f, "quantize model.onnx --data samples --mode bf16 --isa scalar");
  assert_int_equal(none.status, 4);
  assert_holds(none.err, "changes no layer here");
  if (!has_halves(f)) return;
  const outcome unknown = run(f, "quantize model.onnx --data samples --mode bf16 --keep /second");
  assert_int_equal(unknown.status, 2);
  assert_holds(unknown.err, "is called /second");
  const outcome kept = run(f, "quantize model.onnx --data samples --mode bf16 --max-loss 0 --layers 0");
  assert_int_equal(kept.status, 0);
  assert_holds(kept.out, "0 of 3 layers narrow");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(the_sensitive_layer_is_named, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(the_list_is_an_argument, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(what_cannot_be_is_refused, fixture_open, fixture_close)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
