/* Which convolutions become products when their weights are packed; scales of norms that go into weights on the way. */
#include "kernels/products/products.h"
#include "passes/change.h"

#include <math.h>

enum { CHANNELS = 192 };

static const ir_node_def *maker_of_result(const ir_graph *graph) {
  const ir_value y = ir_block_of(graph, graph->top)->results.at[0];
  return ir_node_of(graph, ir_value_of(graph, y)->node);
}

/* One convolution of 192 to 192 channels; the operator in its place after prepack. */
static void expect_op(const char *input, const char *kernel, const char *rest, kern_math math, const char *op) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  base_text text = {.allocator = &base_libc_allocator};
  bool wide = strcmp(kernel, "1, 1") != 0;
  int taps = wide ? 2 : 1;
  base_text_print(&text, "input %%0 \"x\": f32[n, %s, %d]\nconst %%1: f32[%d, %d, 1, %d] = {", input, CHANNELS,
                  CHANNELS, CHANNELS, taps);
  for (int i = 0; i < CHANNELS * CHANNELS * taps; i++) base_text_print(&text, i ? ", %d" : "%d", i % 7);
  base_text_print(&text, "}\n%%2 = td::conv(%%0, %%1) {kernel = [%s], channels = %d%s}\noutput \"y\" %%2\n", kernel,
                  CHANNELS, rest);
  ir_graph *graph = parse_graph(arena, text.at, &base_libc_allocator);
  td_error err;
  uint32_t changes = 0;
  if (find_pass("prepack")->run(graph, &(passes_setting){.isa = BASE_ISA_VECTOR, .math = math}, &changes, &err) !=
          TD_OK ||
      ir_verify(graph, &err) != TD_OK)
    fail_msg("%s", err.text);
  assert_string_equal(maker_of_result(graph)->op->name, op);
  base_text_free(&text);
  ir_graph_free(graph);
  base_arena_free(arena);
}

static void pixels_times_a_matrix_are_a_product(void **state) {
  (void)state;
  expect_op("8, 8", "1, 1", ", act = \"relu\"", KERN_MATH_FAST, "td::linear");
}

static void others_stay_convolutions(void **state) {
  (void)state;
  expect_op("8, 8", "1, 1", "", KERN_MATH_DEFAULT, "td::conv");
  expect_op("8, 8", "1, 1", "", KERN_MATH_EXACT, "td::conv");
  expect_op("7, 9", "1, 1", "", KERN_MATH_FAST, "td::conv"); /* too few pixels */
  expect_op("8, m", "1, 1", "", KERN_MATH_FAST, "td::conv");
  expect_op("8, 8", "1, 2", "", KERN_MATH_FAST, "td::conv");
  expect_op("8, 8", "1, 1", ", padding = [1, 1, 1, 1]", KERN_MATH_FAST, "td::conv");
  expect_op("16, 16", "1, 1", ", stride = [2, 2]", KERN_MATH_FAST, "td::conv");
}

/* ---- weights that the pass batchnorm leaves to this one ---- */

typedef struct layer {
  const char *kernel, *more; /* of w; attributes */
  int in, out, groups;
} layer;

static void print_constant(base_text *text, int id, const char *dims, int count, int seed) {
  base_text_print(text, "const %%%d: f32[%s] = {", id, dims);
  for (int i = 0; i < count; i++)
    base_text_print(text, "%s%g", i ? ", " : "", ((i * 37 + seed * 11) % 23 - 9) * 0.0625);
  base_text_print(text, "}\n");
}

/* A convolution and `norms` batch norms of its result, whose variances are not negative. */
static void print_model(base_text *text, const layer *l, int norms) {
  char dims[64];
  int taps = 1, side[3] = {1, 1, 1};
  const int rank = sscanf(l->kernel, "%d, %d, %d", &side[0], &side[1], &side[2]);
  for (int i = 0; i < 3; i++) taps *= side[i];
  base_text_print(text, "input %%0 \"x\": f32[2, %d%s]\n", l->in,
                  rank == 1   ? ", 12"
                  : rank == 2 ? ", 12, 9"
                              : ", 5, 8, 8");
  snprintf(dims, sizeof dims, "%d, %d, %s", l->out, l->in / l->groups, l->kernel);
  print_constant(text, 1, dims, l->out * l->in / l->groups * taps, 1);
  snprintf(dims, sizeof dims, "%d", l->out);
  for (int i = 0; i < 4; i++) print_constant(text, 2 + i, dims, l->out, 2 + i);
  base_text_print(text, "%%6 = aten::mul(%%5, %%5)\n%%7 = aten::convolution(%%0, %%1) {groups = %d%s}\n", l->groups,
                  l->more);
  for (int i = 0; i < norms; i++)
    base_text_print(text, "%%%d = aten::_native_batch_norm_legit_no_training(%%%d, %%2, %%3, %%4, %%6) {eps = 0.5}\n",
                    8 + i, 7 + i);
  base_text_print(text, "%%%d = aten::relu(%%%d)\noutput \"y\" %%%d\n", 8 + norms, 7 + norms, 8 + norms);
}

static void expect_near(rig *r, const char *input, const rig *want) {
  rig_feed(r, 0, TD_F32, input);
  rig_run(r);
  const base_tensor *y = rig_output(r, 0), *right = rig_output((rig *)(uintptr_t)want, 0);
  assert_int_equal(base_tensor_numel(y), base_tensor_numel(right));
  for (int64_t i = 0; i < base_tensor_numel(y); i++) {
    const double a = ((const float *)y->data)[i], b = ((const float *)right->data)[i];
    if (!(fabs(a - b) <= 1e-3 + 1e-4 * fabs(b))) fail_msg("element %lld: %g, not %g", (long long)i, a, b);
  }
}

static const layer layers[] = {
    {"3, 3", ", padding = [1, 1, 1, 1]", 16, 32, 1},
    {"3, 3", ", padding = [1, 1, 1, 1]", 32, 48, 1},
    {"3, 3", ", padding = [1, 1, 1, 1]", 64, 96, 1},
    {"3, 3", ", stride = [2, 2]", 3, 20, 1},
    {"1, 1", "", 16, 24, 1},
    {"3, 3", ", padding = [1, 1, 1, 1]", 16, 16, 16},
    {"5, 5", "", 16, 32, 4},
    {"3, 3", ", padding = [1, 1, 1, 1]", 32, 32, 8},
    {"3", ", padding = [1, 1]", 8, 12, 1},
    {"3, 3, 3", ", padding = [1, 1, 1, 1, 1, 1]", 16, 16, 1},
};

static void norms_go_into_weights(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
    for (int norms = 1; norms < 3; norms++) {
      const bool volume = strlen(layers[i].kernel) > 4, line = strlen(layers[i].kernel) == 1;
      base_text text = {.allocator = &base_libc_allocator};
      char input[64];
      rig want, r;
      snprintf(input, sizeof input, "2x%d%s: -70", layers[i].in, volume ? "x5x8x8" : line ? "x12" : "x12x9");
      print_model(&text, &layers[i], norms);
      rig_open(&want, text.at, "eager");
      rig_feed(&want, 0, TD_F32, input);
      rig_run(&want);
      static const char *const without[] = {"", "prepack", "channels_last", "channels_last,prepack"};
      for (size_t k = 0; k < sizeof without / sizeof *without; k++) {
        rig_open_without(&r, text.at, "native", without[k]);
        expect_near(&r, input, &want);
        rig_close(&r);
      }
      rig_close(&want);
      base_text_free(&text);
    }
}

/* Sums of other kernels, of Winograd's, whose tiles see more than a window, and of groups that are one for tiles. */
static void what_is_not_finite_stays(kern_precision precision) {
  static const double values[] = {NAN, INFINITY, -INFINITY};
  sys_machine machine;
  sys_machine_read(&machine);
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    base_text text = {.allocator = &base_libc_allocator};
    const compile_setting setting = {
        .backend = compile_find_backend("native"), .precision = precision, .isa = machine.isa | BASE_ISA_VECTOR};
    rig plain, fast;
    print_model(&text, &layers[i], 1);
    rig_open(&plain, text.at, "eager");
    rig_open_as(&fast, text.at, NULL, &setting);
    for (int64_t k = 0; k < 6; k++) {
      const special odd = {0, k * 97, values[k % 3]};
      if (!try_numbers(&plain, &odd) || !try_numbers(&fast, &odd)) fail_msg("%s%s", plain.err.text, fast.err.text);
      const base_tensor *x = rig_output(&plain, 0), *y = rig_output(&fast, 0);
      for (int64_t e = 0; e < base_tensor_numel(x); e++) {
        const float a = ((const float *)x->data)[e], b = ((const float *)y->data)[e];
        if (!isfinite(a) != !isfinite(b)) fail_msg("layer %zu, element %lld: %g, not %g", i, (long long)e, b, a);
      }
    }
    rig_close(&plain);
    rig_close(&fast);
    base_text_free(&text);
  }
}

static void what_is_not_finite_stays_where_it_is(void **state) {
  (void)state;
  what_is_not_finite_stays(KERN_PRECISION_F32);
}

static void so_it_does_in_bf16(void **state) {
  (void)state;
  what_is_not_finite_stays(KERN_PRECISION_BF16);
}

/* Does a 3x3 convolution of 64 to 64 channels over such an image become Winograd's? */
static void expect_winograd(const char *sizes, bool expected) {
  base_text text = {.allocator = &base_libc_allocator};
  base_arena *arena = base_arena_new(&base_libc_allocator);
  base_text_print(&text, "input %%0 \"x\": f32[n, %s, 64]\n", sizes);
  print_constant(&text, 1, "64, 64, 3, 3", 64 * 64 * 9, 1);
  base_text_print(&text, "%%2 = td::conv(%%0, %%1) {kernel = [3, 3], channels = 64}\noutput \"y\" %%2\n");
  ir_graph *graph = parse_graph(arena, text.at, &base_libc_allocator);
  td_error err;
  uint32_t changes = 0;
  assert_int_equal(find_pass("prepack")->run(
                       graph, &(passes_setting){.isa = level_of("avx2"), .math = KERN_MATH_DEFAULT}, &changes, &err),
                   TD_OK);
  assert_string_equal(maker_of_result(graph)->op->name, expected ? "td::winograd_conv" : "td::conv");
  base_text_free(&text);
  ir_graph_free(graph);
  base_arena_free(arena);
}

/* What data define may be of any size. */
static void images_of_open_sizes_are_taken_for_usual_ones(void **state) {
  (void)state;
  if (!machine_has("avx2")) return;
  expect_winograd("h, w", true);
  expect_winograd("224, 224", true);
  expect_winograd("div(h, 75), div(w, 75)", false);
  expect_winograd("3, 3", false);
}

/* Packs %1 of `rest`, every third weight of which is subnormal: those that are left, and how many others. */
static void expect_normal_weights(const char *pass, const char *level, const char *dims, int count, const char *rest,
                                  uint32_t operand) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  base_text text = {.allocator = &base_libc_allocator};
  base_text_print(&text, "const %%1: f32[%s] = {", dims);
  for (int i = 0; i < count; i++)
    base_text_print(&text, "%s%g", i ? ", " : "", i % 3 ? i % 7 + 1 : i % 2 ? 1e-39 : -3e-42);
  base_text_print(&text, "}\n%s", rest);
  ir_graph *graph = parse_graph(arena, text.at, &base_libc_allocator);
  td_error err;
  uint32_t changes = 0;
  if (find_pass(pass)->run(graph, &(passes_setting){.isa = level_of(level), .math = KERN_MATH_DEFAULT}, &changes,
                           &err) != TD_OK)
    fail_msg("%s", err.text);
  const ir_value w = maker_of_result(graph)->in[operand];
  const base_tensor *packed = ir_value_of(graph, w)->info.constant;
  const float *at = packed->data;
  int normal = 0;
  for (int64_t i = 0; i < base_tensor_numel(packed); i++) {
    if (fpclassify(at[i]) == FP_SUBNORMAL)
      fail_msg("%s, %s: weight %lld is %g", level, rest, (long long)i, (double)at[i]);
    normal += at[i] != 0;
  }
  assert_true(changes > 0);
  assert_true(normal >= count - (count + 2) / 3);
  base_text_free(&text);
  ir_graph_free(graph);
  base_arena_free(arena);
}

/* Products with them would take a hundred times as long as others. */
static void subnormal_weights_become_zeros(void **state) {
  (void)state;
  static const char *const levels[] = {"vector", "avx2", "avx512"};
  static const struct {
    const char *pass, *dims;
    int count;
    const char *rest;
    uint32_t operand;
  } rows[] = {
      {"prepack", "40, 24", 960,
       "input %0 \"x\": f32[n, 24]\n%2 = td::linear(%0, %1) {trans_w = true, n = 40}\noutput \"y\" %2\n", 1},
      {"prepack", "24, 40", 960,
       "input %0 \"x\": f32[n, 24]\n%2 = td::linear(%0, %1) {trans_w = false, n = 40}\noutput \"y\" %2\n", 1},
      {"prepack", "20, 16, 1, 1", 320,
       "input %0 \"x\": f32[n, 7, 7, 16]\n%2 = td::conv(%0, %1) {kernel = [1, 1], channels = 20}\noutput \"y\" %2\n",
       1},
      {"prepack", "64, 64, 3, 3", 36864, /* Winograd's, where that pays */
       "input %0 \"x\": f32[n, 56, 56, 64]\n%2 = td::conv(%0, %1) {kernel = [3, 3], channels = 64}\n"
       "output \"y\" %2\n",
       1},
      {"prepack", "16, 4, 2, 2", 256,
       "input %0 \"x\": f32[n, 7, 7, 16]\n"
       "%2 = td::conv(%0, %1) {kernel = [2, 2], channels = 16, groups = 4}\noutput \"y\" %2\n",
       1},
      {"prepack", "24, 1, 3, 3", 216,
       "input %0 \"x\": f32[n, 7, 7, 24]\n%2 = td::depthwise_conv(%0, %1) {kernel = [3, 3], channels = 24, groups = "
       "24}\n"
       "output \"y\" %2\n",
       1},
      {"recurrent", "1, 48, 12", 576, "input %0 \"x\": f32[t, 1, 12]\n%3 = td::lstm(%0, %1, %1)\noutput \"y\" %3\n", 1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (size_t k = 0; k < sizeof levels / sizeof *levels; k++)
      if (machine_has(levels[k]) && (strcmp(rows[i].pass, "prepack") == 0 || k > 0)) /* of cells, from AVX2 on */
        expect_normal_weights(rows[i].pass, levels[k], rows[i].dims, rows[i].count, rows[i].rest, rows[i].operand);
}

static uint32_t constants_after_prepack(const char *text) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
  base_text printed = {.allocator = &base_libc_allocator};
  td_error err;
  uint32_t changes = 0, count = 0;
  if (find_pass("prepack")->run(graph, &(passes_setting){.isa = BASE_ISA_VECTOR}, &changes, &err) != TD_OK ||
      find_pass("dead")->run(graph, &(passes_setting){0}, &changes, &err) != TD_OK || ir_verify(graph, &err) != TD_OK)
    fail_msg("%s", err.text);
  assert_int_equal(ir_print(graph, &printed), TD_OK);
  for (const char *at = printed.at; (at = strstr(at, "const %")); at++) count++;
  base_text_free(&printed);
  ir_graph_free(graph);
  base_arena_free(arena);
  return count;
}

/* Two convolutions by constants of the same bytes: one packed form, unless their kernels differ in size or rank. */
static void equal_weights_are_packed_once(void **state) {
  (void)state;
  static const struct {
    const char *dims[2], *kernel[2];
    uint32_t constants;
  } rows[] = {{{"2, 2, 1, 2", "2, 2, 1, 2"}, {"1, 2", "1, 2"}, 1},
              {{"2, 2, 1, 2", "2, 2, 2, 1"}, {"1, 2", "2, 1"}, 2},
              {{"2, 2, 2", "2, 2, 2, 1"}, {"2", "2, 1"}, 2},
              {{"2, 2, 2, 1", "2, 2, 2"}, {"2, 1", "2"}, 2}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    base_text text = {.allocator = &base_libc_allocator};
    for (int k = 0; k < 2; k++)
      base_text_print(&text, "input %%%d \"x%d\": f32[1, %s2]\n", k, k, rows[i].kernel[k][1] ? "9, 9, " : "9, ");
    for (int k = 0; k < 2; k++)
      base_text_print(&text, "const %%%d: f32[%s] = {1, 2, 3, 4, 5, 6, 7, 8}\n", 2 + k, rows[i].dims[k]);
    for (int k = 0; k < 2; k++)
      base_text_print(&text, "%%%d = td::conv(%%%d, %%%d) {kernel = [%s], channels = 2}\n", 4 + k, k, 2 + k,
                      rows[i].kernel[k]);
    base_text_print(&text, "output \"y\" %%4\noutput \"z\" %%5\n");
    assert_int_equal(constants_after_prepack(text.at), rows[i].constants);
    base_text_free(&text);
  }
}

/* Is a product of `x`, of `k` columns, with 32x32 numbers, `weights`, taken in pairs, for kernels of `level`? */
static void expect_pairs(const char *level, const char *x, const char *k, const char *weights, int step,
                         bool expected) {
  static const char *const passes[] = {"widen", "linear", "prepack"};
  base_arena *arena = base_arena_new(&base_libc_allocator);
  base_text text = {.allocator = &base_libc_allocator};
  base_text_print(&text, "input %%0 \"x\": f32[n, 32]\ninput %%1 \"h\": bf16[n, %s]\nconst %%2: %s[32, 32] = {", k,
                  weights);
  for (int i = 0; i < 32 * 32; i++) base_text_print(&text, i ? ", %d" : "%d", i % 7 + step);
  base_text_print(&text, "}\n%%3 = aten::relu(%%1)\n%%4 = aten::matmul(%s, %%2)\noutput \"y\" %%4\noutput \"z\" %%3\n",
                  x);
  ir_graph *graph = parse_graph(arena, text.at, &base_libc_allocator);
  const passes_setting setting = {.isa = level_of(level)};
  td_error err;
  uint32_t changes = 0;
  for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
    if (find_pass(passes[i])->run(graph, &setting, &changes, &err) != TD_OK) fail_msg("%s", err.text);
  base_text after = {.allocator = &base_libc_allocator};
  assert_int_equal(ir_print(graph, &after), TD_OK);
  assert_non_null(strstr(after.at, "td::linear"));
  assert_int_equal(strstr(after.at, "pairs = true") != NULL, expected);
  base_text_free(&after);
  base_text_free(&text);
  ir_graph_free(graph);
  base_arena_free(arena);
}

/* As its own operators have it; f32 in the same model only where its weights are numbers of bf16. */
static void products_of_bf16_are_so_where_the_cpu_has_that(void **state) {
  (void)state;
  expect_pairs("avx512_bf16", "%1", "32", "bf16", 0, true);
  expect_pairs("avx512", "%1", "32", "bf16", 0, has_pairs("avx512"));
  expect_pairs("avx512_bf16", "%0", "32", "f32", 1000, false);
  expect_pairs("avx512_bf16", "%1", "k", "bf16", 0, false); /* no kernel would be chosen */
}

typedef struct window {
  int in, out, kernel, groups; /* channels of the image and of the result */
  bool channels_first;
} window;

/* The type of the packed weights of a convolution with --precision bf16; `packed`: how many there are. */
static td_dtype packed_as(const char *level, window w, base_dim *packed) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  base_text text = {.allocator = &base_libc_allocator};
  const int in = w.in / w.groups, count = w.out * in * w.kernel * w.kernel;
  base_text_print(&text,
                  w.channels_first ? "input %%0 \"x\": f32[n, %d, 32, 32]\n" : "input %%0 \"x\": f32[n, 32, 32, %d]\n",
                  w.in);
  base_text_print(&text, "const %%1: f32[%d, %d, %d, %d] = {", w.out, in, w.kernel, w.kernel);
  for (int i = 0; i < count; i++) base_text_print(&text, i ? ", %d" : "%d", i % 7);
  base_text_print(&text,
                  "}\n%%2 = td::conv(%%0, %%1) {kernel = [%d, %d], channels = %d, groups = %d, channels_first = %s}\n",
                  w.kernel, w.kernel, w.out, w.groups, w.channels_first ? "true" : "false");
  base_text_print(&text, "output \"y\" %%2\n");
  ir_graph *graph = parse_graph(arena, text.at, &base_libc_allocator);
  const passes_setting setting = {.isa = level_of(level), .precision = KERN_PRECISION_BF16};
  td_error err;
  uint32_t changes = 0;
  if (find_pass("prepack")->run(graph, &setting, &changes, &err) != TD_OK) fail_msg("%s", err.text);
  const ir_node_def *conv = maker_of_result(graph);
  const ir_type *type = &ir_value_of(graph, conv->in[1])->info.type;
  const td_dtype dtype = type->dtype;
  *packed = type->dims[0];
  base_text_free(&text);
  ir_graph_free(graph);
  base_arena_free(arena);
  return dtype;
}

static td_dtype stored_as(const char *level, window w) {
  base_dim packed;
  return packed_as(level, w, &packed);
}

static void first_layers_are_pairs_where_that_pays(void **state) {
  (void)state;
  const window large = {3, 16, 7, 1, true}, small = {3, 16, 3, 1, true};
  assert_int_equal(stored_as("avx512_bf16", large), TD_BF16);
  assert_int_equal(stored_as("avx512_bf16", small), TD_F32);
  assert_int_equal(stored_as("avx512_amx", large), TD_BF16);
  assert_int_equal(stored_as("avx512_amx", small), TD_F32);
  assert_int_equal(stored_as("avx512_amx", (window){3, 64, 3, 1, true}), TD_BF16); /* whose result is large */
  assert_int_equal(stored_as("avx512_amx", (window){3, 64, 2, 1, true}), TD_F32);
  assert_int_equal(stored_as("avx512_amx", (window){1, 32, 3, 1, true}), TD_BF16); /* beside which the image is small */
  assert_int_equal(stored_as("avx512_amx", (window){1, 16, 3, 1, true}), TD_F32);
  assert_int_equal(stored_as("avx512_bf16", (window){1, 32, 3, 1, true}), TD_F32);
  assert_int_equal(stored_as("avx512", large), has_pairs("avx512") ? TD_BF16 : TD_F32);
}

static void few_channels_out_are_pairs_where_they_fill_half_a_panel(void **state) {
  (void)state;
  static const char *const levels[] = {"avx512_amx", "avx512_bf16", "avx2"};
  for (int i = 0; i < 3; i++) {
    const kern_row *row = kern_select(KERN_CONV, TD_BF16, level_of(levels[i]));
    const bool tiles = row && kern_takes_tiles(row),
               wide = row && row->lanes == kern_select(KERN_CONV, TD_F32, level_of(levels[i]))->lanes;
    assert_int_equal(stored_as(levels[i], (window){32, 12, 3, 1, false}), wide ? TD_BF16 : TD_F32);
    assert_int_equal(stored_as(levels[i], (window){96, 12, 1, 1, false}), tiles ? TD_BF16 : TD_F32);
    assert_int_equal(stored_as(levels[i], (window){32, 8, 3, 1, false}), tiles ? TD_BF16 : TD_F32);
  }
}

static void taps_of_a_row_are_columns_of_tiles(void **state) {
  const kern_row *row = kern_select(KERN_CONV, TD_BF16, level_of("avx512_amx"));
  base_dim packed;
  (void)state;
  if (!row || !kern_takes_tiles(row)) return; /* this build has none */
  packed_as("avx512_amx", (window){32, 3, 9, 1, false}, &packed);
  assert_int_equal(packed, 2 * 16 * 9 * 32); /* 27 columns in two panels, nine rows of taps */
  packed_as("avx512_amx", (window){32, 12, 3, 1, false}, &packed);
  assert_int_equal(packed, 16 * 9 * 32); /* 36 columns would be three panels */
}

static void groups_of_whole_panels_are_pairs_and_small_ones_for_tiles(void **state) {
  const kern_row *row = kern_select(KERN_CONV, TD_BF16, level_of("avx512_amx"));
  const td_dtype small = row && kern_takes_tiles(row) ? TD_BF16 : TD_F32;
  (void)state;
  assert_int_equal(stored_as("avx512_amx", (window){48, 48, 5, 2, false}), TD_BF16);
  assert_int_equal(stored_as("avx512_bf16", (window){48, 48, 5, 2, false}), TD_BF16);
  assert_int_equal(stored_as("avx512_amx", (window){32, 32, 5, 4, false}), small);
  assert_int_equal(stored_as("avx512_bf16", (window){32, 32, 5, 4, false}), TD_F32);
  assert_int_equal(stored_as("avx512_amx", (window){12, 12, 5, 3, false}), TD_F32); /* three of four channels */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(norms_go_into_weights),
                                     cmocka_unit_test(what_is_not_finite_stays_where_it_is),
                                     cmocka_unit_test(so_it_does_in_bf16),
                                     cmocka_unit_test(images_of_open_sizes_are_taken_for_usual_ones),
                                     cmocka_unit_test(subnormal_weights_become_zeros),
                                     cmocka_unit_test(equal_weights_are_packed_once),
                                     cmocka_unit_test(pixels_times_a_matrix_are_a_product),
                                     cmocka_unit_test(others_stay_convolutions),
                                     cmocka_unit_test(products_of_bf16_are_so_where_the_cpu_has_that),
                                     cmocka_unit_test(first_layers_are_pairs_where_that_pays),
                                     cmocka_unit_test(few_channels_out_are_pairs_where_they_fill_half_a_panel),
                                     cmocka_unit_test(taps_of_a_row_are_columns_of_tiles),
                                     cmocka_unit_test(groups_of_whole_panels_are_pairs_and_small_ones_for_tiles)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
