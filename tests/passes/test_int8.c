/* Products of 8-bit integers with constant weights become those that kernels for bytes take. */
#include "passes/numbers.h"

#define DYNAMIC(type, weights, zeros, scales)      \
  "input %0 \"x\": f32[3, 2]\n"                    \
  "const %1: " type "[2, 1] = {" weights           \
  "}\n"                                            \
  "const %2: " type "[1] = {" zeros                \
  "}\n"                                            \
  "const %3: f32[1] = {" scales                    \
  "}\n"                                            \
  "%4, %5, %6 = td::dynamic_quantize_linear(%0)\n" \
  "%7 = aten::mul(%5, %3)\n"                       \
  "%8 = td::matmul_integer(%4, %1, %6, %2)\n"      \
  "%9 = aten::_to_copy(%8) {dtype = f32}\n"        \
  "%10 = aten::mul(%9, %7)\n"                      \
  "output \"y\" %10\n"

#define ZEROS_7 "0, 0, 0, 0, 0, 0, 0, "
#define ZEROS_28 ZEROS_7 ZEROS_7 ZEROS_7 ZEROS_7

/* Eight columns of which one is there: its sum, its scale, its two weights less their zero point. */
static void a_dynamic_product_takes_its_operand_in_f32(void **state) {
  (void)state;
  expect_change_at(
      level_of("avx2"), "int8", DYNAMIC("u8", "131, 124", "128", "0.5"),
      "input %0 \"x\": f32[3, 2]\n"
      "const %1: u8[112] = {255, 255, 255, 255, " ZEROS_28 "0, 0, 0, 63, " ZEROS_28 ZEROS_28
      "0, 0, 0, 0, 3, 252, " ZEROS_7
      "0, 0, 0, 0, 0, 0, 0}\n"
      "%2 = td::linear_i8(%0, %1) {n = 1, panel8 = 8, depth = 2, x_scale = 0, x_zero = 0, y_scale = 0, "
      "y_zero = 0, y_signed = false, t_scale = 0, t_zero = 0, r_scale = 0, r_zero = 0, w_shift = 0, act = \"none\", "
      "act_a = 0, act_b = 0, act_late = false, "
      "in_front = false}: f32[3, 1]\n"
      "output \"y\" %2\n",
      1);
}

/* What PyTorch's programs write: the range of x by 7 bits, or with a least scale and apart from the quantisation;
 * weights transposed, their zero point a cast. The product is that of the first test. */
#define PACKED                                                                           \
  "const %1: u8[112] = {255, 255, 255, 255, " ZEROS_28 "0, 0, 0, 63, " ZEROS_28 ZEROS_28 \
  "0, 0, 0, 0, 3, "                                                                      \
  "252, " ZEROS_7 "0, 0, 0, 0, 0, 0, 0}\n"
#define WEIGHTS_OF_PROGRAMS                                          \
  "const %1: i8[1, 2] = {3, -4}\n"                                   \
  "const %2: i64[1] = {0}\n"                                         \
  "const %3: f32[1] = {0.5}\n"                                       \
  "%4 = aten::_to_copy(%2) {dtype = i8}\n"                           \
  "%5 = td::dequantize_linear(%1, %3, %4) {axis = 0, dtype = f32}\n" \
  "%6 = aten::permute(%5) {dims = [1, 0]}\n"
static void ranged_products_of_programs_are_such(void **state) {
  (void)state;
  static const struct {
    const char *quantised, *scales;
  } forms[] = {{"%7, %8, %9 = td::dynamic_quantize_linear(%0) {reduce_range = true}\n"
                "%10 = td::dequantize_linear(%7, %8, %9) {dtype = f32}\n",
                "x_scale = 0, x_zero = 127"},
               {"%7, %8, %9 = td::dynamic_quantize_linear(%0) {least = 0.25}\nconst %12: i64[1] = {1}\n"
                "%14 = aten::view(%8, %12)\n%15 = aten::_to_copy(%9) {dtype = i64}\n"
                "%16 = aten::_to_copy(%15) {dtype = u8}\n%17 = td::quantize_linear(%0, %14, %16) {dtype = u8}\n"
                "%10 = td::dequantize_linear(%17, %14, %16) {dtype = f32}\n",
                "x_scale = -0.25, x_zero = 0"}};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    char before[2048], after[2048];
    snprintf(before, sizeof before,
             "input %%0 \"x\": f32[3, 2]\n%s%s%%18 = aten::matmul(%%10, %%6)\noutput \"y\" %%18\n", WEIGHTS_OF_PROGRAMS,
             forms[i].quantised);
    snprintf(
        after, sizeof after,
        "input %%0 \"x\": f32[3, 2]\n%s%%2 = td::linear_i8(%%0, %%1) {n = 1, panel8 = 8, depth = 2, %s, y_scale = 0, "
        "y_zero = 0, y_signed = false, t_scale = 0, t_zero = 0, r_scale = 0, r_zero = 0, w_shift = 0, act = \"none\", "
        "act_a = 0, "
        "act_b = 0, act_late = false, in_front = false}: f32[3, 1]\noutput \"y\" %%2\n",
        PACKED, forms[i].scales);
    expect_change_at(level_of("avx2"), "int8", before, after, 2);
  }
}

/* Nodes that the pass makes others of. */
static uint32_t changes_at(const char *level, const char *text) {
  const passes_setting setting = {.isa = level_of(level)};
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
  td_error err;
  uint32_t changes = 0;
  assert_int_equal(find_pass("int8")->run(graph, &setting, &changes, &err), TD_OK);
  ir_graph_free(graph);
  base_arena_free(arena);
  return changes;
}

/* 0 - 129 is no i8: the products are of weights less 128, and 1 is subtracted from each of them. */
static void weights_beyond_a_byte_have_a_shift(void **state) {
  (void)state;
  expect_change_at(level_of("avx2"), "int8", DYNAMIC("u8", "131, 0", "129", "0.5"),
                   "input %0 \"x\": f32[3, 2]\n"
                   "const %1: u8[112] = {131, 255, 255, 255, " ZEROS_28 "0, 0, 0, 63, " ZEROS_28 ZEROS_28
                   "0, 0, 0, 0, 3, 128, " ZEROS_7
                   "0, 0, 0, 0, 0, 0, 0}\n"
                   "%2 = td::linear_i8(%0, %1) {n = 1, panel8 = 8, depth = 2, x_scale = 0, x_zero = 0, y_scale = 0, "
                   "y_zero = 0, y_signed = false, t_scale = 0, t_zero = 0, r_scale = 0, r_zero = 0, w_shift = 1, "
                   "act = \"none\", act_a = 0, act_b = 0, act_late = false, in_front = false}: f32[3, 1]\n"
                   "output \"y\" %2\n",
                   1);
}

/* Columns of different zero points have no shift in common. */
static void weights_of_several_shifts_stay(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"x\": f32[3, 2]\n"
      "const %1: u8[2, 2] = {131, 3, 0, 4}\n"
      "const %2: u8[2] = {129, 3}\n"
      "const %3: f32[1] = {0.5}\n"
      "%4, %5, %6 = td::dynamic_quantize_linear(%0)\n"
      "%7 = aten::mul(%5, %3)\n"
      "%8 = td::matmul_integer(%4, %1, %6, %2)\n"
      "%9 = aten::_to_copy(%8) {dtype = f32}\n"
      "%10 = aten::mul(%9, %7)\n"
      "output \"y\" %10\n";
  assert_int_equal(changes_at("avx512_vnni", text), 0);
}

/* Scales one for each channel, or one for all; a window of one pixel, and one that overlaps the border. */
static void dynamic_convolutions_keep_their_numbers(void **state) {
  (void)state;
  static const struct {
    int kernel, padding;
    const char *type, *zero, *scales, *scale_dims;
  } forms[] = {{1, 0, "i8", "0", "0.25, 0.5, 1", "1, 3, 1, 1"},
               {3, 1, "u8", "140", "0.125", ""},
               {3, 0, "i8", "-9", "0.5, 0.25, 2", "3, 1, 1"}};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    static char text[16384];
    const int count = 3 * 5 * forms[i].kernel * forms[i].kernel, is_signed = forms[i].type[0] == 'i';
    int at = snprintf(text, sizeof text, "input %%0 \"x\": f32[2, 5, 7, 9]\nconst %%1: %s[3, 5, %d, %d] = {",
                      forms[i].type, forms[i].kernel, forms[i].kernel);
    for (int j = 0; j < count; j++)
      at += snprintf(text + at, sizeof text - (size_t)at, "%s%d", j ? ", " : "", j * 37 % 256 - 128 * is_signed);
    snprintf(text + at, sizeof text - (size_t)at,
             "}\nconst %%2: f32[%s] = {%s}\nconst %%3: %s[] = {%s}\n%%4, %%5, %%6 = td::dynamic_quantize_linear(%%0)\n"
             "%%7 = aten::mul(%%5, %%2)\n%%8 = td::conv_integer(%%4, %%1, %%6, %%3) {padding = [%d, %d, %d, %d]}\n"
             "%%9 = aten::_to_copy(%%8) {dtype = f32}\n%%10 = aten::mul(%%9, %%7)\n%%11 = aten::relu(%%10)\n"
             "output \"y\" %%11\n",
             forms[i].scale_dims, forms[i].scales, forms[i].type, forms[i].zero, forms[i].padding, 2 * forms[i].padding,
             forms[i].padding, forms[i].padding);
    expect_same_numbers_on_levels(text);
    assert_int_equal(changes_at("avx512_vnni", text), 1);
  }
}

/* Whose scale is found at each call, so that no shift is in units of it; below it, where its range is narrow. */
static void a_norm_of_a_dynamic_convolution_is_added_in_f32(void **state) {
  (void)state;
  static const char *const leasts[] = {"0", "0.25"};
  for (size_t i = 0; i < sizeof leasts / sizeof *leasts; i++) {
    char text[1024];
    snprintf(text, sizeof text,
             "input %%0 \"x\": f32[2, 3, 5, 7]\n"
             "const %%1: i8[2, 3, 1, 2] = {1, -2, 3, -4, 5, 6, -7, 8, -9, 10, -128, 127}\n"
             "const %%2: f32[2] = {0.5, 0.25}\n"
             "const %%3: f32[2] = {2, -4}\n"
             "const %%4: f32[2] = {3, -5}\n"
             "const %%5: f32[2] = {4, 1}\n"
             "%%6, %%7, %%8 = td::dynamic_quantize_linear(%%0) {least = %s}\n"
             "%%9 = td::dequantize_linear(%%6, %%7, %%8) {dtype = f32}\n"
             "%%10 = td::dequantize_linear(%%1, %%2) {axis = 0, dtype = f32}\n"
             "%%11 = aten::convolution(%%9, %%10, -)\n"
             "%%12 = aten::_native_batch_norm_legit_no_training(%%11, %%3, %%4, %%2, %%5) {eps = 0}\n"
             "output \"y\" %%12\n",
             leasts[i]);
    expect_same_numbers_on_levels(text);
    assert_int_equal(changes_at("avx512_vnni", text), 2);
  }
}

/* With and without kernels for bytes, at sizes around a vector and a chunk of rows, a scale for each column. */
static void numbers_stay(void **state) {
  (void)state;
  static const int sizes[][3] = {{1, 7, 5}, {50, 33, 17}, {3, 64, 70}};
  for (int i = 0; i < 3; i++) {
    static char text[65536];
    const int m = sizes[i][0], k = sizes[i][1], n = sizes[i][2];
    int at = snprintf(text, sizeof text, "input %%0 \"x\": f32[%d, %d]\nconst %%1: i8[%d, %d] = {", m, k, k, n);
    for (int j = 0; j < k * n; j++)
      at += snprintf(text + at, sizeof text - (size_t)at, "%s%d", j ? ", " : "", j * 37 % 256 - 128);
    at += snprintf(text + at, sizeof text - (size_t)at, "}\nconst %%2: f32[%d] = {", n);
    for (int j = 0; j < n; j++)
      at += snprintf(text + at, sizeof text - (size_t)at, "%s%g", j ? ", " : "", (1 + j % 3) / 65536.0);
    snprintf(text + at, sizeof text - (size_t)at,
             "}\n%%3, %%4, %%5 = td::dynamic_quantize_linear(%%0)\n%%6 = aten::mul(%%2, %%4)\n"
             "%%7 = td::matmul_integer(%%3, %%1, %%5)\n%%8 = aten::_to_copy(%%7) {dtype = f32}\n"
             "%%9 = aten::mul(%%6, %%8)\n%%10 = aten::relu(%%9)\noutput \"y\" %%10\n");
    expect_same_numbers_on_levels(text);
  }
}

/* A convolution between dequantisations, as exporters write it, on every level. */
static void static_products_keep_their_numbers(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"x\": f32[2, 5, 6, 7]\n"
      "const %1: f32[] = {0.0625}\n"
      "const %2: u8[] = {128}\n"
      "const %3: i8[3, 5, 1, 1] = {1, -2, 3, -4, 5, 6, -7, 8, -9, 10, -128, 127, 0, 1, 2}\n"
      "const %4: f32[3] = {0.00390625, 0.0078125, 0.015625}\n"
      "const %5: i32[3] = {7, -5, 64}\n"
      "const %6: f32[3] = {0.015625, 0.03125, 0.0625}\n"
      "const %7: f32[] = {0.000030517578125}\n"
      "const %8: i8[3] = {0, 0, 0}\n"
      "%9 = td::quantize_linear(%0, %1, %2) {dtype = u8}\n"
      "%10 = td::dequantize_linear(%9, %1, %2) {dtype = f32}\n"
      "%11 = td::dequantize_linear(%3, %4, %8) {axis = 0, dtype = f32}\n"
      "%12 = td::dequantize_linear(%5, %6) {axis = 0, dtype = f32}\n"
      "%13 = aten::convolution(%10, %11, %12) {stride = [2, 1], padding = [1, 0, 0, 2]}\n"
      "output \"y\" %13\n";
  expect_same_numbers_on_levels(text);
}

/* The quantisation behind a product becomes its scale, and dequantised weights that nobody else reads go. */
static void a_quantisation_becomes_the_scale_of_the_product(void **state) {
  (void)state;
  expect_change_at(
      level_of("avx2"), "int8",
      "input %0 \"x\": u8[3, 2]\n"
      "const %1: f32[] = {0.5}\n"
      "const %2: u8[] = {7}\n"
      "const %3: i8[2, 1] = {3, -4}\n"
      "const %4: f32[] = {0.25}\n"
      "const %5: i8[] = {-9}\n"
      "%6 = td::dequantize_linear(%0, %1, %2) {dtype = f32}\n"
      "%7 = td::dequantize_linear(%3, %1) {dtype = f32}\n"
      "%8 = aten::matmul(%6, %7)\n"
      "%9 = td::quantize_linear(%8, %4, %5) {dtype = i8}\n"
      "output \"y\" %9\n",
      "input %0 \"x\": u8[3, 2]\n"
      "const %1: u8[112] = {255, 255, 255, 255, " ZEROS_28 "0, 0, 0, 63, " ZEROS_28 ZEROS_28
      "0, 0, 0, 0, 3, 252, " ZEROS_7
      "0, 0, 0, 0, 0, 0, 0}\n"
      "%2 = td::linear_i8(%0, %1) {n = 1, panel8 = 8, depth = 2, x_scale = 0.5, x_zero = 7, "
      "y_scale = 0.25, y_zero = -9, y_signed = true, t_scale = 0, t_zero = 0, r_scale = 0, r_zero = 0, w_shift = 0, "
      "act = \"none\", act_a = 0, act_b = 0, "
      "act_late = false, in_front = false}: i8[3, 1]\n"
      "output \"y\" %2\n",
      2);
}

/* A depthwise convolution, and one whose sum with what came before is limited, pooled and joined: all in 8 bits. */
#define ACTIVATION(v, from, scale)                                                                               \
  "%" #v "0 = td::quantize_linear(%" from ", " scale ", %2) {dtype = u8}\n%" #v "1 = td::dequantize_linear(%" #v \
  "0, " scale ", %2) {dtype = f32}\n"

static void what_stands_between_products_stays_in_bytes(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"x\": f32[2, 3, 7, 9]\n"
      "const %1: f32[] = {0.0625}\n"
      "const %2: u8[] = {128}\n"
      "const %3: i8[3, 1, 2, 2] = {1, -2, 3, -4, 5, 6, -7, 8, -9, 10, -128, 127}\n"
      "const %4: i8[3, 3, 1, 1] = {9, 8, -7, 6, -5, 4, 3, -2, 1}\n"
      "const %5: f32[3] = {0.00390625, 0.0078125, 0.015625}\n"
      "const %6: i8[3] = {0, 0, 0}\n"
      "const %7: i32[3] = {7, -5, 64}\n"
      "const %8: f32[3] = {0.000244140625, 0.00048828125, 0.0009765625}\n"
      "const %9: f32[] = {0.125}\n" ACTIVATION(1, "0", "%1")
          "%20 = td::dequantize_linear(%3, %5, %6) {axis = 0, dtype = f32}\n"
          "%21 = td::dequantize_linear(%7, %8) {axis = 0, dtype = f32}\n"
          "%22 = aten::convolution(%11, %20, %21) {padding = [0, 1, 1, 0], groups = 3}\n" ACTIVATION(3, "22", "%1")
              "%40 = td::dequantize_linear(%4, %5, %6) {axis = 0, dtype = f32}\n"
              "%41 = aten::convolution(%31, %40, %21)\n" ACTIVATION(5, "41", "%9")
                  "%60 = aten::add(%51, %11)\n"
                  "%61 = aten::relu(%60)\n" ACTIVATION(7, "61", "%1")
                      "%80 = td::max_pool(%71) {kernel_size = [3, 2], stride = [2, 2]}\n" ACTIVATION(9, "80", "%1")
                          "%100 = aten::cat(%91, %91) {dim = 1}\n"
                          "output \"y\" %100\n";
  uint32_t changes = 0;
  expect_same_numbers_on_levels(text);
  const passes_setting setting = {.isa = level_of("avx2")};
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
  td_error err;
  uint32_t quantised = 0, f32 = 0;
  assert_int_equal(find_pass("int8")->run(graph, &setting, &changes, &err), TD_OK);
  for (uint32_t n = 1; n < graph->nodes.count; n++) {
    const ir_node_def *node = &graph->nodes.at[n];
    if (!node->op) continue;
    quantised += strcmp(node->op->name, "td::conv_i8") == 0;
    f32 += ir_type_of(graph, node->out[0])->dtype == TD_F32;
  }
  assert_int_equal(quantised, 2);
  assert_int_equal(f32, 1); /* the last dequantisation */
  ir_graph_free(graph);
  base_arena_free(arena);
}

/* Padding that follows from sizes, and batch norms that networks were exported with: numbers whose shifts are whole
 * units of the sums (2^-12 and so on), and one that is beyond i32 there. */
static void a_batch_norm_is_scales_and_biases(void **state) {
  (void)state;
  static const char form[] =
      "input %%0 \"x\": f32[2, 3, 7, 9]\n"
      "const %%1: f32[] = {0.0625}\n"
      "const %%2: u8[] = {128}\n"
      "const %%3: i8[2, 3, 1, 2] = {1, -2, 3, -4, 5, 6, -7, 8, -9, 10, -128, 127}\n"
      "const %%4: i8[2, 1, 3, 3] = {9, 8, -7, 6, -5, 4, 3, -2, 1, 1, 2, 3, 4, 5, 6, 7, 8, -9}\n"
      "const %%5: f32[2] = {0.00390625, 0.0078125}\n"
      "const %%6: i8[2] = {0, 0}\n"
      "const %%7: f32[2] = {2, -4}\n"
      "const %%8: f32[2] = {%s, -3.25}\n"
      "const %%9: f32[2] = {0.5, 0.75}\n"
      "const %%10: f32[2] = {4, 1}\n"
      "%%11 = td::quantize_linear(%%0, %%1, %%2) {dtype = u8}\n"
      "%%12 = td::dequantize_linear(%%11, %%1, %%2) {dtype = f32}\n"
      "%%13 = td::dequantize_linear(%%3, %%5, %%6) {axis = 0, dtype = f32}\n"
      "%%14 = aten::convolution(%%12, %%13, -) {stride = [2, 2], auto_pad = \"same_upper\"}\n"
      "%%15 = aten::_native_batch_norm_legit_no_training(%%14, %%7, %%8, %%9, %%10) {eps = 0}\n"
      "%%16 = aten::relu(%%15)\n"
      "%%17 = td::quantize_linear(%%16, %%1, %%2) {dtype = u8}\n"
      "%%18 = td::dequantize_linear(%%17, %%1, %%2) {dtype = f32}\n"
      "%%19 = td::dequantize_linear(%%4, %%5, %%6) {axis = 0, dtype = f32}\n"
      "%%20 = aten::convolution(%%18, %%19, -) {groups = 2, auto_pad = \"same_lower\"}\n"
      "%%21 = aten::_native_batch_norm_legit_no_training(%%20, %%7, -, %%9, %%10) {eps = 0}\n"
      "output \"y\" %%21\n";
  static const char *const shifts[] = {"1.5", "1e30"};
  for (size_t i = 0; i < sizeof shifts / sizeof *shifts; i++) {
    char text[sizeof form + 8];
    snprintf(text, sizeof text, form, shifts[i]);
    expect_same_numbers_on_levels(text);
    const passes_setting setting = {.isa = level_of("avx2")};
    base_arena *arena = base_arena_new(&base_libc_allocator);
    ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
    td_error err;
    uint32_t changes = 0, convolutions = 0, biased = 0, norms = 0;
    assert_int_equal(find_pass("int8")->run(graph, &setting, &changes, &err), TD_OK);
    for (uint32_t n = 1; n < graph->nodes.count; n++) {
      const ir_node_def *node = &graph->nodes.at[n];
      const bool found = node->op && node->op->id == OP_td_conv_i8;
      convolutions += found;
      biased += found && node->in_count > 2;
      norms += node->op && node->op->id == OP_aten__native_batch_norm_legit_no_training;
    }
    assert_int_equal(convolutions, 2);
    assert_int_equal(biased, i);
    assert_int_equal(norms, 0);
    ir_graph_free(graph);
    base_arena_free(arena);
  }
}

/* QLinearConv by its own reference: the arithmetic is the same, so all bits are. */
static void qlinear_nodes_become_products_of_bytes(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"x\": u8[1, 3, 5, 4]\n"
      "const %1: f32[] = {0.03}\n"
      "const %2: u8[] = {119}\n"
      "const %3: i8[2, 3, 2, 1] = {1, -2, 3, -4, 5, 6, -7, 8, -9, 10, -128, 127}\n"
      "const %4: f32[2] = {0.011, 0.007}\n"
      "const %5: i8[2] = {0, 0}\n"
      "const %6: f32[] = {0.09}\n"
      "const %7: u8[] = {101}\n"
      "const %8: i32[2] = {77, -500}\n"
      "const %9: i8[4, 3] = {1, 2, 3, 4, 5, 6, -7, 8, 9, 10, 11, 12}\n"
      "const %10: f32[] = {0.02}\n"
      "const %11: i8[] = {0}\n"
      "%12 = td::qlinear_conv(%0, %1, %2, %3, %4, %5, %6, %7, %8) {padding = [1, 0, 0, 0]}\n"
      "%13 = td::qlinear_matmul(%12, %6, %7, %9, %10, %11, %1, %2)\n"
      "output \"y\" %13\n";
  const passes_setting setting = {.isa = level_of("avx2")};
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
  td_error err;
  uint32_t changes = 0;
  assert_int_equal(find_pass("int8")->run(graph, &setting, &changes, &err), TD_OK);
  assert_int_equal(changes, 2);
  ir_graph_free(graph);
  base_arena_free(arena);
  expect_same_numbers(text);
}

/* 16,385 products of 255 * 128 and a bias of 2^29 are more than i32 holds with what is subtracted before. */
static void sums_that_i32_may_not_hold_stay(void **state) {
  (void)state;
  enum { DEPTH = 16385, TEXT = 1 << 17 };
  char *text = malloc(TEXT);
  assert_non_null(text);
  for (int depth = DEPTH - 1; depth <= DEPTH; depth++) {
    int at = snprintf(text, TEXT,
                      "input %%0 \"x\": u8[1, %d, 1, 1]\nconst %%1: f32[] = {0.5}\nconst %%2: u8[] = {3}\n"
                      "const %%3: i8[1, %d, 1, 1] = {",
                      depth, depth);
    for (int i = 0; i < depth; i++) at += snprintf(text + at, TEXT - (size_t)at, "%s%d", i ? ", " : "", i % 7 - 3);
    snprintf(text + at, TEXT - (size_t)at,
             "}\nconst %%4: f32[1] = {0.5}\nconst %%5: i8[1] = {0}\nconst %%6: i32[1] = {536870912}\n"
             "%%7 = td::qlinear_conv(%%0, %%1, %%2, %%3, %%4, %%5, %%1, %%2, %%6)\noutput \"y\" %%7\n");
    assert_int_equal(changes_at("avx2", text), depth < DEPTH);
  }
  free(text);
}

/* Products of two activations stay in bytes, or are taken between whole numbers by tiles where there are such. */
#define DEQUANTISED(a, b, z)                                                                            \
  "input %0 \"a\": u8[" a "]\ninput %1 \"b\": i8[" b "]\nconst %2: f32[] = {0.5}\nconst %3: u8[] = {" z \
  "}\n"                                                                                                 \
  "const %4: f32[] = {0.25}\n%5 = td::dequantize_linear(%0, %2, %3) {dtype = f32}\n"                    \
  "%6 = td::dequantize_linear(%1, %4) {dtype = f32}\n%7 = aten::matmul(%5, %6)\noutput \"y\" %7\n"

static void activations_are_multiplied_as_whole_numbers(void **state) {
  (void)state;
  static const char before[] = DEQUANTISED("2, 16, 17", "2, 17, 18", "7");
#define CENTRED(pairs)                                                                                              \
  "input %0 \"a\": u8[2, 16, 17]\ninput %1 \"b\": i8[2, 17, 18]\nconst %2: f32[] = {7}\n"                           \
  "const %3: f32[] = {0.125}\n%4 = aten::_to_copy(%0) {dtype = f32, saturate = true, round_mode = \"up\"}: f32[2, " \
  "16, 17]\n"                                                                                                       \
  "%5 = aten::sub(%4, %2): f32[2, 16, 17]\n%6 = aten::_to_copy(%1) {dtype = f32, saturate = true, round_mode = "    \
  "\"up\"}: f32[2, 17, 18]\n"                                                                                       \
  "%7 = aten::matmul(%5, %6)" pairs                                                                                 \
  ": f32[2, 16, 18]\n%8 = aten::mul(%7, %3): f32[2, 16, 18]\n"                                                      \
  "output \"y\" %8\n"
  expect_change_at(
      level_of("avx2"), "int8", before,
      "input %0 \"a\": u8[2, 16, 17]\ninput %1 \"b\": i8[2, 17, 18]\n"
      "%2 = td::matmul_i8(%0, %1) {w_scale = 0.25, w_zero = 128, panel8 = 8, depth = 2, x_scale = 0.5, "
      "x_zero = 7, y_scale = 0, y_zero = 0, y_signed = false, t_scale = 0, t_zero = 0, r_scale = 0, "
      "r_zero = 0, w_shift = 0, act = \"none\", act_a = 0, act_b = 0, act_late = false, in_front = false}: "
      "f32[2, 16, 18]\noutput \"y\" %2\n",
      1);
  expect_change_at(level_of("avx512_amx"), "int8", before, CENTRED(" {pairs = true}"), 1);
  expect_same_numbers_on_levels(before);
  expect_same_numbers_on_levels(DEQUANTISED("2, 16, 521", "2, 521, 18", "130"));
}

/* Is `op` in the graph that the pass int8 leaves? */
static bool becomes(const char *level, const char *text, const char *op) {
  const passes_setting setting = {.isa = level_of(level)};
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
  base_text after = {.allocator = &base_libc_allocator};
  td_error err;
  uint32_t changes = 0;
  assert_int_equal(find_pass("int8")->run(graph, &setting, &changes, &err), TD_OK);
  ir_print(graph, &after);
  const bool found = strstr(after.at, op) != NULL;
  base_text_free(&after);
  ir_graph_free(graph);
  base_arena_free(arena);
  return found;
}

/* 515 products of at most 255 and 128 are beyond 2^24, up to which tiles count; of 514, not. */
static void sums_that_f32_may_not_hold_are_bytes(void **state) {
  (void)state;
  assert_true(becomes("avx512_amx", DEQUANTISED("1, 16, 514", "1, 514, 16", "0"), "pairs = true"));
  assert_true(becomes("avx512_amx", DEQUANTISED("1, 16, 515", "1, 515, 16", "0"), "td::matmul_i8"));
  assert_true(becomes("avx512_amx", DEQUANTISED("1, 16, 515", "1, 515, 16", "128"), "pairs = true"));
}

/* 32,768 products of 255 and 255 are within i32; of open sizes, nobody knows. */
static void sums_of_activations_that_i32_may_not_hold_stay(void **state) {
  (void)state;
  assert_true(becomes("avx2", DEQUANTISED("1, 2, 32768", "1, 32768, 2", "0"), "td::matmul_i8"));
  assert_false(becomes("avx2", DEQUANTISED("1, 2, 32769", "1, 32769, 2", "0"), "td::matmul_i8"));
  assert_false(becomes("avx2", DEQUANTISED("1, 2, n", "1, n, 2", "0"), "td::matmul_i8"));
}

static void a_quantisation_takes_the_product_of_activations(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"a\": u8[2, 3, 8]\ninput %1 \"b\": i8[2, 8, 5]\nconst %2: f32[] = {0.5}\nconst %3: u8[] = {7}\n"
      "const %4: i8[] = {-9}\n%5 = td::dequantize_linear(%0, %2, %3) {dtype = f32}\n"
      "%6 = td::dequantize_linear(%1, %2, %4) {dtype = f32}\n%7 = aten::matmul(%5, %6)\n"
      "%8 = aten::relu(%7)\n%9 = td::quantize_linear(%8, %2, %3) {dtype = u8}\noutput \"y\" %9\n";
  assert_true(becomes("avx2", text, "y_scale = 0.5, y_zero = 7"));
  assert_true(becomes("avx2", text, "w_zero = 119"));
  assert_true(becomes("avx2", text, "act = \"relu\""));
  assert_false(becomes("avx2", text, "quantize_linear"));
  expect_same_numbers_on_levels(text);
}

static void qlinear_products_of_activations_are_bytes(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"a\": u8[2, 3, 8]\ninput %1 \"b\": u8[2, 8, 5]\nconst %2: f32[] = {0.5}\nconst %3: u8[] = {7}\n"
      "const %4: f32[] = {64}\n%5 = td::qlinear_matmul(%0, %2, %3, %1, %2, %3, %4, %3)\noutput \"y\" %5\n";
  assert_true(becomes("avx2", text, "td::matmul_i8"));
  expect_same_numbers_on_levels(text);
}

/* Bytes of half a step at most, 0.498 and 0.502 of it, added to one of the result's scale. */
static void what_moves_no_byte_is_not_added(void **state) {
  (void)state;
#define SUM(scale, of, result)                                                                               \
  "input %0 \"a\": u8[2, 3]\ninput %1 \"b\": u8[" of                                                         \
  "]\nconst %2: f32[] = {1}\nconst %3: u8[] = {7}\n"                                                         \
  "const %4: f32[] = {" scale "}\nconst %5: f32[] = {" result                                                \
  "}\n"                                                                                                      \
  "%6 = td::dequantize_linear(%0, %2, %3) {dtype = f32}\n%7 = td::dequantize_linear(%1, %4) {dtype = f32}\n" \
  "%8 = aten::add(%7, %6)\n%9 = td::quantize_linear(%8, %5, %3) {dtype = u8}\noutput \"y\" %9\n"
  assert_false(becomes("avx2", SUM("0.001953", "2, 3", "1"), "td::add_i8"));
  assert_false(becomes("avx2", SUM("0.001953", "3", "1"), "td::add_i8"));
  assert_true(becomes("avx2", SUM("0.001969", "2, 3", "1"), "td::add_i8"));
  assert_true(becomes("avx2", SUM("0.001953", "2, 2, 3", "1"), "td::add_i8"));
  assert_true(becomes("avx2", SUM("0.001953", "2, 3", "2"), "td::add_i8"));
  expect_same_numbers_on_levels(SUM("0.001953", "2, 3", "1"));
}

/* Of rows alone: along another axis loops do it. */
static void a_softmax_between_bytes_is_one(void **state) {
  (void)state;
#define SHARES(dim)                                                                                                \
  "input %0 \"x\": u8[2, 3, 21]\nconst %1: f32[] = {0.125}\nconst %2: u8[] = {7}\nconst %3: f32[] = {0.0078125}\n" \
  "const %4: i8[] = {-128}\n%5 = td::dequantize_linear(%0, %1, %2) {dtype = f32}\n"                                \
  "%6 = aten::_softmax(%5) {dim = " dim "}\n%7 = td::quantize_linear(%6, %3, %4) {dtype = i8}\noutput \"y\" %7\n"
  expect_change_at(level_of("avx2"), "int8", SHARES("2"),
                   "input %0 \"x\": u8[2, 3, 21]\n"
                   "%1 = td::softmax_i8(%0) {x_scale = 0.125, y_scale = 0.0078125, y_zero = -128, y_signed = true}: "
                   "i8[2, 3, 21]\noutput \"y\" %1\n",
                   1);
  assert_true(becomes("avx2", SHARES("-1"), "td::softmax_i8"));
  assert_false(becomes("avx2", SHARES("1"), "td::softmax_i8"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(activations_are_multiplied_as_whole_numbers),
                                     cmocka_unit_test(sums_that_f32_may_not_hold_are_bytes),
                                     cmocka_unit_test(sums_of_activations_that_i32_may_not_hold_stay),
                                     cmocka_unit_test(a_quantisation_takes_the_product_of_activations),
                                     cmocka_unit_test(qlinear_products_of_activations_are_bytes),
                                     cmocka_unit_test(what_moves_no_byte_is_not_added),
                                     cmocka_unit_test(a_softmax_between_bytes_is_one),
                                     cmocka_unit_test(a_dynamic_product_takes_its_operand_in_f32),
                                     cmocka_unit_test(ranged_products_of_programs_are_such),
                                     cmocka_unit_test(weights_beyond_a_byte_have_a_shift),
                                     cmocka_unit_test(weights_of_several_shifts_stay),
                                     cmocka_unit_test(dynamic_convolutions_keep_their_numbers),
                                     cmocka_unit_test(a_norm_of_a_dynamic_convolution_is_added_in_f32),
                                     cmocka_unit_test(numbers_stay),
                                     cmocka_unit_test(static_products_keep_their_numbers),
                                     cmocka_unit_test(what_stands_between_products_stays_in_bytes),
                                     cmocka_unit_test(a_batch_norm_is_scales_and_biases),
                                     cmocka_unit_test(qlinear_nodes_become_products_of_bytes),
                                     cmocka_unit_test(sums_that_i32_may_not_hold_stay),
                                     cmocka_unit_test(a_quantisation_becomes_the_scale_of_the_product)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
