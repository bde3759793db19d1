/* test_onnx_contrib.c -- com.microsoft's normalisations, as operators of ours. */
#include "import/onnx_build.h"

static base_text contrib(base_text *graph) {
  base_text m = model_of(graph, NULL);
  put_opset(&m, 8, "com.microsoft", 1);
  return m;
}

static void put_contrib(base_text *graph, const char *op, const char *in, const char *out, base_text *attrs) {
  put_node_as(graph, 1, "com.microsoft", op, "n", in, out, attrs);
}

/* The sum that is normalised is an output too. */
static void a_residual_is_added_first(void **state) {
  (void)state;
  base_text g = message();
  put_input(&g, "x", DIMS(2, 3, 4));
  put_input(&g, "skip", DIMS(2, 3, 4));
  put_input(&g, "gamma", DIMS(4));
  put_input(&g, "beta", DIMS(4));
  put_input(&g, "bias", DIMS(4));
  put_contrib(&g, "SkipLayerNormalization", "x,skip,gamma,beta,bias", "y,,,sum", NULL);
  put_output(&g, "y");
  put_output(&g, "sum");
  base_text m = contrib(&g);
  expect_text(&m,
              "input %0 \"x\": f32[2, 3, 4]\n"
              "input %1 \"skip\": f32[2, 3, 4]\n"
              "input %2 \"gamma\": f32[4]\n"
              "input %3 \"beta\": f32[4]\n"
              "input %4 \"bias\": f32[4]\n"
              "%5 = aten::add(%0, %1): f32[2, 3, 4]  # \"n (SkipLayerNormalization)\"\n"
              "%6 = aten::add(%5, %4): f32[2, 3, 4]  # \"n (SkipLayerNormalization)\"\n"
              "%7, %8, %9 = aten::native_layer_norm(%6, %2, %3) {axis = -1, eps = 9.999999960041972e-13, stats_dtype = "
              "f32}: f32[2, 3, 4], f32[2, 3, 1], f32[2, 3, 1]  # \"n (SkipLayerNormalization)\"\n"
              "output \"y\" %7\n"
              "output \"sum\" %6\n");
}

static void root_mean_square(void **state) {
  (void)state;
  base_text g = message(), attrs = message();
  put_input(&g, "x", DIMS(2, 4));
  put_input(&g, "skip", DIMS(2, 4));
  put_input(&g, "gamma", DIMS(4));
  put_attr_float(&attrs, "epsilon", 0.5f);
  put_contrib(&g, "SkipSimplifiedLayerNormalization", "x,skip,gamma", "y", &attrs);
  put_output(&g, "y");
  base_text m = contrib(&g);
  expect_text(&m,
              "input %0 \"x\": f32[2, 4]\n"
              "input %1 \"skip\": f32[2, 4]\n"
              "input %2 \"gamma\": f32[4]\n"
              "%3 = aten::add(%0, %1): f32[2, 4]  # \"n (SkipSimplifiedLayerNormalization)\"\n"
              "%4 = aten::rms_norm(%3, %2) {axis = -1, eps = 0.5, stats_dtype = f32}: f32[2, 4]  # \"n "
              "(SkipSimplifiedLayerNormalization)\"\n"
              "output \"y\" %4\n");
}

/* A mask makes counts; where nobody asks for them it changes nothing. */
static void a_mask_without_counts_is_read(void **state) {
  (void)state;
  base_text g = message();
  put_value_as(&g, 11, "ids", 6, DIMS(1, 3));
  put_value_as(&g, 11, "mask", 6, DIMS(1, 3));
  put_input(&g, "words", DIMS(9, 4));
  put_input(&g, "places", DIMS(5, 4));
  put_input(&g, "gamma", DIMS(4));
  put_input(&g, "beta", DIMS(4));
  put_contrib(&g, "EmbedLayerNormalization", "ids,,words,places,,gamma,beta,mask", "y", NULL);
  put_output(&g, "y");
  base_text m = contrib(&g);
  expect_text(&m,
              "input %0 \"ids\": i32[1, 3]\n"
              "input %1 \"mask\": i32[1, 3]\n"
              "input %2 \"words\": f32[9, 4]\n"
              "input %3 \"places\": f32[5, 4]\n"
              "input %4 \"gamma\": f32[4]\n"
              "input %5 \"beta\": f32[4]\n"
              "const %6: i64[1] = {0}\n"
              "%7 = aten::index_select(%2, %0) {dim = 0}: f32[1, 3, 4]  # \"n (EmbedLayerNormalization)\"\n"
              "%8 = td::shape(%0) {start = 1, end = 2}: i64[1]  # \"n (EmbedLayerNormalization)\"\n"
              "%9 = aten::slice(%3, %6, %8, %6): f32[3, 4]  # \"n (EmbedLayerNormalization)\"\n"
              "%10 = aten::add(%7, %9): f32[1, 3, 4]  # \"n (EmbedLayerNormalization)\"\n"
              "%11 = aten::native_layer_norm(%10, %4, %5) {axis = -1, eps = 9.999999960041972e-13, stats_dtype = f32}: "
              "f32[1, 3, 4]  # \"n (EmbedLayerNormalization)\"\n"
              "output \"y\" %11\n");
}

static void statistics_of_training_are_refused(void **state) {
  (void)state;
  base_text g = message();
  put_input(&g, "x", DIMS(2, 4));
  put_input(&g, "gamma", DIMS(4));
  put_contrib(&g, "SkipSimplifiedLayerNormalization", "x,x,gamma", "y,mean", NULL);
  put_output(&g, "y");
  put_output(&g, "mean");
  base_text m = contrib(&g);
  expect_error(&m, TD_UNSUPPORTED, "net.onnx", "first n; outputs 1 and 2, statistics of training");
}

/* Words, segments and the first positions; the mask counted per sequence. */
static void embeddings(void **state) {
  (void)state;
  base_text g = message();
  put_value_as(&g, 11, "ids", 6, DIMS(2, 3));
  put_value_as(&g, 11, "mask", 6, DIMS(2, 3));
  put_input(&g, "words", DIMS(9, 4));
  put_input(&g, "places", DIMS(5, 4));
  put_input(&g, "kinds", DIMS(2, 4));
  put_input(&g, "gamma", DIMS(4));
  put_input(&g, "beta", DIMS(4));
  put_contrib(&g, "EmbedLayerNormalization", "ids,ids,words,places,kinds,gamma,beta,mask", "y,count", NULL);
  put_output(&g, "y");
  put_value_as(&g, 12, "count", 6, -1, NULL);
  base_text m = contrib(&g);
  expect_text(
      &m,
      "input %0 \"ids\": i32[2, 3]\n"
      "input %1 \"mask\": i32[2, 3]\n"
      "input %2 \"words\": f32[9, 4]\n"
      "input %3 \"places\": f32[5, 4]\n"
      "input %4 \"kinds\": f32[2, 4]\n"
      "input %5 \"gamma\": f32[4]\n"
      "input %6 \"beta\": f32[4]\n"
      "const %7: i64[1] = {0}\n"
      "%8 = aten::index_select(%2, %0) {dim = 0}: f32[2, 3, 4]  # \"n (EmbedLayerNormalization)\"\n"
      "%9 = td::shape(%0) {start = 1, end = 2}: i64[1]  # \"n (EmbedLayerNormalization)\"\n"
      "%10 = aten::slice(%3, %7, %9, %7): f32[3, 4]  # \"n (EmbedLayerNormalization)\"\n"
      "%11 = aten::add(%8, %10): f32[2, 3, 4]  # \"n (EmbedLayerNormalization)\"\n"
      "%12 = aten::index_select(%4, %0) {dim = 0}: f32[2, 3, 4]  # \"n (EmbedLayerNormalization)\"\n"
      "%13 = aten::add(%11, %12): f32[2, 3, 4]  # \"n (EmbedLayerNormalization)\"\n"
      "%14 = aten::native_layer_norm(%13, %5, %6) {axis = -1, eps = 9.999999960041972e-13, stats_dtype = f32}: f32[2, "
      "3, 4]  # \"n (EmbedLayerNormalization)\"\n"
      "%15 = aten::sum(%1) {dim = [1], keepdim = false, noop = false}: i32[2]  # \"n (EmbedLayerNormalization)\"\n"
      "output \"y\" %14\n"
      "output \"count\" %15\n");
}

/* Channels last unless told otherwise; a skip of [n, c] is one value per channel. */
static void groups(void **state) {
  (void)state;
  base_text g = message(), attrs = message();
  put_input(&g, "x", DIMS(1, 2, 2, 4));
  put_input(&g, "gamma", DIMS(4));
  put_input(&g, "beta", DIMS(4));
  put_input(&g, "skip", DIMS(1, 4));
  put_attr_int(&attrs, "groups", 2);
  put_attr_int(&attrs, "activation", 1);
  put_contrib(&g, "SkipGroupNorm", "x,gamma,beta,skip", "y", &attrs);
  put_output(&g, "y");
  base_text m = contrib(&g);
  expect_text(&m,
              "input %0 \"x\": f32[1, 2, 2, 4]\n"
              "input %1 \"gamma\": f32[4]\n"
              "input %2 \"beta\": f32[4]\n"
              "input %3 \"skip\": f32[1, 4]\n"
              "const %4: i64[2] = {1, 2}\n"
              "%5 = aten::unsqueeze(%3, %4): f32[1, 1, 1, 4]  # \"n (SkipGroupNorm)\"\n"
              "%6 = aten::add(%0, %5): f32[1, 2, 2, 4]  # \"n (SkipGroupNorm)\"\n"
              "%7 = aten::permute(%6) {dims = [0, 3, 1, 2]}: f32[1, 4, 2, 2]  # \"n (SkipGroupNorm)\"\n"
              "%8 = aten::native_group_norm(%7, %1, %2) {num_groups = 2, eps = 9.9999997473787516e-06, channels_last = "
              "false}: f32[1, 4, 2, "
              "2]  # \"n (SkipGroupNorm)\"\n"
              "%9 = aten::silu(%8): f32[1, 4, 2, 2]  # \"n (SkipGroupNorm)\"\n"
              "%10 = aten::permute(%9) {dims = [0, 2, 3, 1]}: f32[1, 2, 2, 4]  # \"n (SkipGroupNorm)\"\n"
              "output \"y\" %10\n");
  g = message(), attrs = message();
  put_input(&g, "x", DIMS(1, 4, 2, 2));
  put_input(&g, "gamma", DIMS(4));
  put_input(&g, "beta", DIMS(4));
  put_attr_int(&attrs, "groups", 2);
  put_attr_int(&attrs, "channels_last", 0);
  put_contrib(&g, "GroupNorm", "x,gamma,beta", "y", &attrs);
  put_output(&g, "y");
  m = contrib(&g);
  expect_text(&m,
              "input %0 \"x\": f32[1, 4, 2, 2]\n"
              "input %1 \"gamma\": f32[4]\n"
              "input %2 \"beta\": f32[4]\n"
              "%3 = aten::native_group_norm(%0, %1, %2) {num_groups = 2, eps = 9.9999997473787516e-06, channels_last = "
              "false}: f32[1, 4, 2, "
              "2]  # \"n (GroupNorm)\"\n"
              "output \"y\" %3\n");
}

/* Keys behind the length of their sample get the filter's value, as ONNX Runtime gives them: kernels take a bias. */
static void lengths_are_a_bias(void **state) {
  (void)state;
  base_text g = message(), attrs = message();
  put_input(&g, "q", DIMS(2, 3, 4));
  put_input(&g, "k", DIMS(2, 5, 4));
  put_value_as(&g, 11, "lengths", 6, DIMS(2)); /* i32 */
  put_attr_int(&attrs, "num_heads", 2);
  put_contrib(&g, "MultiHeadAttention", "q,k,k,,lengths", "y", &attrs);
  put_output(&g, "y");
  base_text m = contrib(&g);
  expect_text(
      &m,
      "input %0 \"q\": f32[2, 3, 4]\n"
      "input %1 \"k\": f32[2, 5, 4]\n"
      "input %2 \"lengths\": i32[2]\n"
      "const %3: i64[1] = {0}\n"
      "const %4: i64[] = {0}\n"
      "const %5: i64[] = {1}\n"
      "const %6: i64[1] = {1}\n"
      "const %7: f32[] = {-10000}\n"
      "const %8: i64[2] = {1, 2}\n"
      "%9 = td::shape(%1) {start = 1, end = 2}: i64[1]  # \"n (MultiHeadAttention)\"\n"
      "%10 = aten::squeeze(%9, %3): i64[]  # \"n (MultiHeadAttention)\"\n"
      "%11 = aten::arange(%4, %10, %5): i64[5]  # \"n (MultiHeadAttention)\"\n"
      "%12 = aten::_to_copy(%2) {dtype = i64, saturate = true, round_mode = \"up\"}: i64[2]  # \"n "
      "(MultiHeadAttention)\"\n"
      "%13 = aten::unsqueeze(%12, %6): i64[2, 1]  # \"n (MultiHeadAttention)\"\n"
      "%14 = aten::ge(%11, %13): bool[2, 5]  # \"n (MultiHeadAttention)\"\n"
      "%15 = aten::_to_copy(%14) {dtype = f32, saturate = true, round_mode = \"up\"}: f32[2, 5]  # \"n "
      "(MultiHeadAttention)\"\n"
      "%16 = aten::mul(%15, %7): f32[2, 5]  # \"n (MultiHeadAttention)\"\n"
      "%17 = aten::unsqueeze(%16, %8): f32[2, 1, 1, 5]  # \"n (MultiHeadAttention)\"\n"
      "%18 = aten::scaled_dot_product_attention(%0, %1, %1, %17) {is_causal = false, softcap = 0, heads = 2, kv_heads "
      "= 2, scores = 0, left_window = -1, right_window = -1}: f32[2, 3, 4]  # \"n (MultiHeadAttention)\"\n"
      "output \"y\" %18\n");
}

/* Constant weights with channels last are those that kernels pack. */
static void weights_with_channels_last(void **state) {
  (void)state;
  base_text g = message();
  put_input(&g, "x", DIMS(1, 2, 2, 2));
  base_text w = message();
  static const int64_t dims[] = {3, 1, 2, 2}; /* of features, rows, columns, channels */
  static const float data[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  for (int i = 0; i < 4; i++) fmt_put_int(&w, 1, dims[i]);
  fmt_put_int(&w, 2, 1);
  fmt_put_str(&w, 8, "w");
  fmt_put_bytes(&w, 9, data, sizeof data);
  put(&g, 5, &w);
  put_contrib(&g, "NhwcConv", "x,w", "y", NULL);
  put_output(&g, "y");
  base_text m = contrib(&g);
  expect_text(&m,
              "input %0 \"x\": f32[1, 2, 2, 2]\n"
              "const %1: f32[3, 2, 1, 2] = {1, 3, 2, 4, 5, 7, 6, 8, 9, 11, 10, 12}\n"
              "%2 = aten::permute(%0) {dims = [0, 3, 1, 2]}: f32[1, 2, 2, 2]  # \"n (NhwcConv)\"\n"
              "%3 = aten::convolution(%2, %1) {stride = [], padding = [], dilation = [], auto_pad = \"\", transposed = "
              "false, output_padding = [], groups = 1, output_size = []}: f32[1, 3, 2, 1]  # \"n (NhwcConv)\"\n"
              "%4 = aten::permute(%3) {dims = [0, 2, 3, 1]}: f32[1, 2, 1, 3]  # \"n (NhwcConv)\"\n"
              "output \"y\" %4\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_residual_is_added_first),
      cmocka_unit_test(root_mean_square),
      cmocka_unit_test(a_mask_without_counts_is_read),
      cmocka_unit_test(statistics_of_training_are_refused),
      cmocka_unit_test(embeddings),
      cmocka_unit_test(groups),
      cmocka_unit_test(lengths_are_a_bias),
      cmocka_unit_test(weights_with_channels_last),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
