/* test_onnx_unread.c -- what a lowering did not ask for is refused; and operators whose graphs are attributes. */
#include "import/onnx_build.h"

static base_text biased_softmax(const char *in, base_text *attrs) {
  base_text g = message();
  put_input(&g, "x", DIMS(2, 4));
  put_input(&g, "bias", DIMS(2, 4));
  put_input(&g, "more", DIMS(2, 4));
  put_node_as(&g, 1, "com.microsoft", "BiasSoftmax", "n", in, "y", attrs);
  put_output(&g, "y");
  base_text m = model_of(&g, NULL);
  put_opset(&m, 8, "com.microsoft", 1);
  return m;
}

static void an_attribute_nobody_reads_is_refused(void **state) {
  (void)state;
  base_text attrs = message();
  put_attr_int(&attrs, "axis", 1);
  put_attr_int(&attrs, "temperature", 2);
  base_text m = biased_softmax("x,bias", &attrs);
  expect_error(&m, TD_UNSUPPORTED, "net.onnx", "first n; the attribute \"temperature\" is not supported here");
}

static void an_input_nobody_reads_is_refused(void **state) {
  (void)state;
  base_text m = biased_softmax("x,bias,more", NULL);
  expect_error(&m, TD_UNSUPPORTED, "net.onnx", "first n; input 2 is not supported here");
}

/* The bias's shape says what is_inner_broadcast does. */
static void an_attribute_without_effect_is_passed_over(void **state) {
  (void)state;
  base_text attrs = message();
  put_attr_int(&attrs, "is_inner_broadcast", 1);
  base_text m = biased_softmax("x,bias", &attrs);
  expect_text(&m,
              "input %0 \"x\": f32[2, 4]\n"
              "input %1 \"bias\": f32[2, 4]\n"
              "input %2 \"more\": f32[2, 4]\n"
              "%3 = aten::add(%0, %1): f32[2, 4]  # \"n (BiasSoftmax)\"\n"
              "%4 = aten::_softmax(%3) {dim = 1, flatten = true}: f32[2, 4]  # \"n (BiasSoftmax)\"\n"
              "output \"y\" %4\n");
}

static base_text recurrent(int64_t hidden) {
  base_text g = message(), attrs = message();
  put_input(&g, "x", DIMS(3, 1, 2));
  put_input(&g, "w", DIMS(1, 4, 2));
  put_input(&g, "r", DIMS(1, 4, 4));
  put_attr_int(&attrs, "hidden_size", hidden);
  put_node_as(&g, 1, "", "RNN", "n", "x,w,r", "y", &attrs);
  put_output(&g, "y");
  return model_of(&g, NULL);
}

static void a_hidden_size_is_that_of_the_weights(void **state) {
  (void)state;
  base_text right = recurrent(4), wrong = recurrent(5);
  expect_text(&right,
              "input %0 \"x\": f32[3, 1, 2]\n"
              "input %1 \"w\": f32[1, 4, 2]\n"
              "input %2 \"r\": f32[1, 4, 4]\n"
              "%3 = td::rnn(%0, %1, %2) {direction = \"forward\", activations = \"Tanh\", alpha = [], beta = [], clip "
              "= 0, batch_first = false, input_forget = false, linear_before_reset = false, quantise_activations = "
              "false}: f32[3, 1, 1, 4]  # \"n (RNN)\"\n"
              "output \"y\" %3\n");
  expect_error(&wrong, TD_BAD_FILE, "n (RNN)", "hidden_size is 5, and the recurrent weights are for 4");
}

/* ---- FlexAttention ---- */

/* A graph of one node: y = op(x, x). */
static base_text twice(const char *op, const char *out) {
  base_text body = message();
  put_input(&body, "s", 0, NULL);
  put_node(&body, op, "m", "s,s", "t");
  put_output(&body, "t");
  if (!strcmp(out, "both")) put_output(&body, "s");
  return body;
}

static base_text flexible(int64_t kv_heads, base_text *attrs) {
  base_text g = message();
  put_input(&g, "q", DIMS(1, 4, 3, 16));
  put_input(&g, "k", DIMS(1, kv_heads, 5, 16));
  put_input(&g, "v", DIMS(1, kv_heads, 5, 8));
  put_node_as(&g, 1, "ai.onnx.preview", "FlexAttention", "n", "q,k,v", "y", attrs);
  put_output(&g, "y");
  base_text m = model_of(&g, NULL);
  put_opset(&m, 8, "ai.onnx.preview", 1);
  return m;
}

static void attention_without_graphs_is_attention(void **state) {
  (void)state;
  base_text m = flexible(2, NULL);
  expect_text(
      &m,
      "input %0 \"q\": f32[1, 4, 3, 16]\n"
      "input %1 \"k\": f32[1, 2, 5, 16]\n"
      "input %2 \"v\": f32[1, 2, 5, 8]\n"
      "%3 = aten::scaled_dot_product_attention(%0, %1, %2) {scale = 0.25, is_causal = false, softcap = 0, heads = 0, "
      "kv_heads = 0, scores = 0, left_window = -1, right_window = -1}: f32[1, 4, 3, 8]  # \"n (FlexAttention)\"\n"
      "output \"y\" %3\n");
}

/* Heads of keys and values are repeated; scores and probabilities go through the model's graphs. */
static void graphs_change_scores_and_probabilities(void **state) {
  (void)state;
  base_text attrs = message(), scores = twice("Add", ""), probabilities = twice("Mul", "");
  put_attr_graph(&attrs, "score_mod", &scores);
  put_attr_graph(&attrs, "prob_mod", &probabilities);
  put_attr_float(&attrs, "scale", 0.5f);
  base_text m = flexible(2, &attrs);
  expect_text(&m,
              "input %0 \"q\": f32[1, 4, 3, 16]\n"
              "input %1 \"k\": f32[1, 2, 5, 16]\n"
              "input %2 \"v\": f32[1, 2, 5, 8]\n"
              "const %3: i64[4] = {0, 0, 1, 1}\n"
              "const %4: i64[4] = {0, 0, 1, 1}\n"
              "const %5: f32[] = {0.5}\n"
              "%6 = aten::index_select(%1, %3) {dim = 1}: f32[1, 4, 5, 16]  # \"n (FlexAttention)\"\n"
              "%7 = aten::index_select(%2, %4) {dim = 1}: f32[1, 4, 5, 8]  # \"n (FlexAttention)\"\n"
              "%8 = aten::permute(%6) {dims = [0, 1, 3, 2]}: f32[1, 4, 16, 5]  # \"n (FlexAttention)\"\n"
              "%9 = aten::matmul(%0, %8): f32[1, 4, 3, 5]  # \"n (FlexAttention)\"\n"
              "%10 = aten::mul(%9, %5): f32[1, 4, 3, 5]  # \"n (FlexAttention)\"\n"
              "%11 = aten::add(%10, %10): f32[1, 4, 3, 5]  # \"m (Add)\"\n"
              "%12 = aten::_softmax(%11) {dim = -1, flatten = false}: f32[1, 4, 3, 5]  # \"n (FlexAttention)\"\n"
              "%13 = aten::mul(%12, %12): f32[1, 4, 3, 5]  # \"m (Mul)\"\n"
              "%14 = aten::matmul(%13, %7): f32[1, 4, 3, 8]  # \"n (FlexAttention)\"\n"
              "output \"y\" %14\n");
}

static void graphs_and_heads_that_do_not_fit_are_refused(void **state) {
  (void)state;
  base_text attrs = message(), body = twice("Add", "both");
  put_attr_graph(&attrs, "score_mod", &body);
  base_text m = flexible(2, &attrs), uneven = flexible(3, NULL);
  expect_error(&m, TD_BAD_FILE, "n (FlexAttention)", "the graph score_mod must have one input and one output");
  expect_error(&uneven, TD_BAD_FILE, "n (FlexAttention)", "4 heads of queries and 3 of keys");
}

static void imports_within_memory(void **state) {
  (void)state;
  base_text attrs = message(), body = twice("Add", "");
  put_attr_graph(&attrs, "score_mod", &body);
  base_text m = flexible(2, &attrs);
  import_without_memory(&m);
}

/* ---- operators that ONNX took over from com.microsoft ---- */

static void a_convolution_with_state_is_the_same_in_both_domains(void **state) {
  (void)state;
  base_text g = message();
  put_input(&g, "x", DIMS(1, 2, 5));
  put_input(&g, "w", DIMS(2, 1, 3));
  put_node(&g, "CausalConvWithState", "n", "x,w", "y,s");
  put_output(&g, "y");
  put_output(&g, "s");
  base_text m = model_at(27, &g, NULL);
  expect_text(
      &m,
      "input %0 \"x\": f32[1, 2, 5]\n"
      "input %1 \"w\": f32[2, 1, 3]\n"
      "const %2: i64[6] = {0, 0, 2, 0, 0, 0}\n"
      "const %3: f32[] = {0}\n"
      "const %4: i64[1] = {-2}\n"
      "const %5: i64[1] = {9223372036854775807}\n"
      "const %6: i64[1] = {2}\n"
      "%7 = aten::constant_pad_nd(%0, %2, %3): f32[1, 2, 7]  # \"n (CausalConvWithState)\"\n"
      "%8 = aten::convolution(%7, %1) {stride = [], padding = [], dilation = [1], auto_pad = \"\", transposed = false, "
      "output_padding = [], groups = 2, output_size = []}: f32[1, 2, 5]  # \"n (CausalConvWithState)\"\n"
      "%9 = aten::slice(%7, %4, %5, %6): f32[1, 2, 2]  # \"n (CausalConvWithState)\"\n"
      "output \"y\" %8\n"
      "output \"s\" %9\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_attribute_nobody_reads_is_refused),
      cmocka_unit_test(an_input_nobody_reads_is_refused),
      cmocka_unit_test(an_attribute_without_effect_is_passed_over),
      cmocka_unit_test(a_hidden_size_is_that_of_the_weights),
      cmocka_unit_test(attention_without_graphs_is_attention),
      cmocka_unit_test(graphs_change_scores_and_probabilities),
      cmocka_unit_test(graphs_and_heads_that_do_not_fit_are_refused),
      cmocka_unit_test(imports_within_memory),
      cmocka_unit_test(a_convolution_with_state_is_the_same_in_both_domains),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
