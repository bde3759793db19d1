/* `--fit`: weights that are rounded, and biases that are shifted, so that products come out as in f32. */
#include <math.h>

#include "quantize/build.h"
#include "quantize/fit.h"

enum { CHANNELS = 8, SIZE = 9, DEPTH = 3 };

/* ---- rows ---- */

static double cost_of(const double *w, const int8_t *rounded, float scale, const double *h) {
  double sum = 0;
  for (int i = 0; i < DEPTH; i++)
    for (int j = 0; j < DEPTH; j++)
      sum += (w[i] - (double)scale * rounded[i]) * (w[j] - (double)scale * rounded[j]) *
             h[i < j ? i * DEPTH + j : j * DEPTH + i];
  return sum;
}

static void errors_make_up_for_each_other(void **state) {
  static const double near_one[] = {1, 0.98, 0.97, 0, 1, 0.99, 0, 0, 1}, apart[] = {1, 0, 0, 0, 2, 0, 0, 0, 3};
  const double w[] = {0.4, 0.45, 0.45, -3.6, 1.4, 2.4};
  const float scales[] = {1, 1};
  double moments[9], room[DEPTH];
  int8_t rounded[6];
  (void)state;
  memcpy(moments, near_one, sizeof moments);
  assert_true(quant_round_rows(w, 2, DEPTH, scales, moments, room, rounded));
  const int8_t nearest[] = {0, 0, 0, -4, 1, 2};
  for (int row = 0; row < 2; row++)
    assert_true(cost_of(w + row * DEPTH, rounded + row * DEPTH, 1, near_one) <
                0.5 * cost_of(w + row * DEPTH, nearest + row * DEPTH, 1, near_one));
  memcpy(moments, apart, sizeof moments);
  assert_true(quant_round_rows(w, 2, DEPTH, scales, moments, room, rounded));
  assert_memory_equal(rounded, nearest, sizeof nearest);
}

static void rounding_stays_in_range(void **state) {
  const double w[] = {126.9, 127, 200};
  const float scale = 1;
  double moments[] = {1, 0.99, 0.99, 0, 1, 0.99, 0, 0, 1}, room[DEPTH];
  int8_t rounded[DEPTH];
  (void)state;
  assert_true(quant_round_rows(w, 1, DEPTH, &scale, moments, room, rounded));
  for (int i = 0; i < DEPTH; i++) assert_int_equal(rounded[i], 127);
}

static void what_are_no_moments_is_refused(void **state) {
  const double w[] = {1, 2, 3};
  const float scale = 1;
  double room[DEPTH];
  int8_t rounded[DEPTH];
  (void)state;
  double none[] = {1, 5, 0, 0, 1, 0, 0, 0, 1}, unknown[] = {1, 0, (double)NAN, 0, 1, 0, 0, 0, 1};
  assert_false(quant_round_rows(w, 1, DEPTH, &scale, none, room, rounded));
  assert_false(quant_round_rows(w, 1, DEPTH, &scale, unknown, room, rounded));
}

/* ---- models ---- */

typedef struct form {
  const char *op, *pad; /* auto_pad */
  int64_t spatial, kernel, groups, stride, dilation;
  int64_t pads[4]; /* in front of each dimension, then behind */
  bool has_bias;
  int64_t results[2];
} form;

static const form forms[] = {{"Conv", NULL, 2, 3, CHANNELS, 1, 1, {1, 1, 1, 1}, false, {9, 9}},
                             {"Conv", "SAME_UPPER", 2, 3, CHANNELS, 2, 1, {0}, true, {5, 5}},
                             {"Conv", "SAME_LOWER", 2, 4, CHANNELS, 1, 1, {0}, true, {9, 9}},
                             {"Conv", "VALID", 2, 3, 2, 1, 2, {0}, false, {5, 5}},
                             {"Conv", NULL, 2, 3, 1, 2, 1, {2, 0, 1, 0}, true, {5, 4}},
                             {"Conv", NULL, 1, 5, 4, 1, 1, {2, 1}, false, {8}},
                             {"Gemm", NULL, 0, 1, 1, 1, 1, {0}, false, {0}},
                             {"Gemm", NULL, 0, 1, 1, 1, 1, {0}, true, {0}},
                             {"MatMul", NULL, 0, 1, 1, 1, 1, {0}, false, {0}}};

static void put_ints(base_text *node, const char *name, const int64_t *values, int64_t count) {
  base_text attribute = {.allocator = &base_libc_allocator};
  fmt_put_str(&attribute, 1, name);
  for (int64_t i = 0; i < count; i++) fmt_put_int(&attribute, 8, values[i]);
  fmt_put_int(&attribute, 20, 7);
  put_message(node, 5, &attribute);
}

static void put_window(base_text *node, const form *f) {
  const int64_t strides[] = {f->stride, f->stride}, dilations[] = {f->dilation, f->dilation};
  put_int_attribute(node, "group", f->groups);
  put_ints(node, "strides", strides, f->spatial);
  put_ints(node, "dilations", dilations, f->spatial);
  if (!f->pad) {
    put_ints(node, "pads", f->pads, 2 * f->spatial);
    return;
  }
  base_text attribute = {.allocator = &base_libc_allocator};
  fmt_put_str(&attribute, 1, "auto_pad");
  fmt_put_str(&attribute, 4, f->pad);
  fmt_put_int(&attribute, 20, 3);
  put_message(node, 5, &attribute);
}

/* x, whose mean is far from zero, and one product. */
static void write_product(const form *f) {
  static float w[CHANNELS * CHANNELS * 16], bias[CHANNELS];
  base_text graph = {.allocator = &base_libc_allocator};
  const int64_t x[] = {f->spatial ? 1 : 4 * SIZE, CHANNELS, SIZE, SIZE};
  const int64_t y[] = {x[0], CHANNELS, f->results[0], f->results[1]};
  const int64_t window[] = {CHANNELS, f->spatial ? CHANNELS / f->groups : CHANNELS, f->kernel, f->kernel};
  const int32_t rank = 2 + (int32_t)f->spatial;
  int64_t count = 1;
  uint32_t seed = 7;
  for (int32_t d = 0; d < rank; d++) count *= window[d];
  for (int64_t i = 0; i < count; i++) w[i] = noise(&seed);
  for (int i = 0; i < CHANNELS; i++) bias[i] = noise(&seed);
  put_step(&graph, "Add", IN("x", "three"), "shifted");
  base_text node = step_of(f->op, f->has_bias ? IN("shifted", "w", "b") : IN("shifted", "w"), "y");
  if (f->spatial) put_window(&node, f);
  put_message(&graph, 1, &node);
  put_weight(&graph, "three", (float[]){3}, 0, NULL);
  put_weight(&graph, "w", w, rank, window);
  if (f->has_bias) put_weight(&graph, "b", bias, 1, (int64_t[]){CHANNELS});
  put_value(&graph, 11, "x", TD_F32, rank, x);
  put_value(&graph, 12, "y", TD_F32, rank, y);
  save_graph("model.onnx", &graph, 13);
  assert_int_equal(system("rm -rf samples"), 0);
  write_samples(8, rank, x);
}

static double error_of(fixture *f, const char *fit) {
  const outcome o =
      run(f, base_arena_format(f->arena, "quantize model.onnx --data samples -o %s.onnx --json --layers 0 --fit %s",
                               fit, fit));
  if (o.status) fail_msg("%s", o.err);
  json_t *root = parse(o.out);
  const double error =
      json_number_value(json_object_get(json_array_get(json_object_get(root, "outputs"), 0), "relative_error"));
  json_decref(root);
  return error;
}

static void products_come_out_as_in_f32(void **state) {
  fixture *f = *state;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    write_product(&forms[i]);
    const double off = error_of(f, "off"), on = error_of(f, "on");
    print_message("%d %g %g\n", (int)i, off, on);
    if (!(on > 0 && on < 0.8 * off)) fail_msg("form %d: %g, fitted %g", (int)i, off, on);
    assert_int_equal(run(f, "run on.onnx --input samples/0.npy").status, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(errors_make_up_for_each_other), cmocka_unit_test(rounding_stays_in_range),
      cmocka_unit_test(what_are_no_moments_is_refused),
      cmocka_unit_test_setup_teardown(products_come_out_as_in_f32, fixture_open, fixture_close)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
