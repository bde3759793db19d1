/* small.c -- nets of a few layers, each for one thing that is to be measured; sizes are fixed but for small_lstm's
 * batch. */
#include "import/builtin/builtin_priv.h"

/* (x + bias + residual) * scale + shift over [16384, 512]: bound by memory, one pass when fused. */
void builtin_fused_chain(builtin_net *n) {
  const int64_t dims[] = {16384, 512}, row[] = {1, 512};
  ir_value x = builtin_input(n, "x", TD_F32, 2, dims), residual = builtin_input(n, "residual", TD_F32, 2, dims);
  ir_value scale = builtin_param(n, "scale", 2, row, 0.5, 0.5), shift = builtin_param(n, "shift", 2, row, 0.5, 0.5);
  x = builtin_add(n, x, builtin_param(n, "bias", 2, row, 0.5, 0.5), "chain");
  x = builtin_binary(n, "aten::mul", builtin_add(n, x, residual, "chain"), scale, "chain");
  builtin_output(n, builtin_add(n, x, shift, "chain"), "y");
}

/* One convolution of many small images. */
void builtin_conv_relu(builtin_net *n) {
  const builtin_conv conv = {.kernel = 3, .stride = 2, .out = 33, .padding = BUILTIN_VALID, .bias = true};
  ir_value x = builtin_input(n, "input", TD_F32, 4, (const int64_t[]){20, 16, 50, 100});
  builtin_output(n, builtin_activation(n, builtin_convolution(n, x, &conv, "0"), "relu", "1"), "y");
}

/* PyTorch keeps the gates of an LSTM as input, forget, cell, output; td::lstm as input, output, forget, cell. */
static ir_value gates(builtin_net *n, const char *name, int32_t rank, int64_t hidden, int64_t width, double spread) {
  static const int64_t order[] = {0, 3, 1, 2};
  const int64_t dims[] = {4 * hidden, width};
  ir_value parts[4], all = builtin_param_of(n, "lstm", name, rank, dims, 0, spread);
  for (int i = 0; i < 4; i++) parts[i] = builtin_slice(n, all, 0, order[i] * hidden, (order[i] + 1) * hidden, "lstm");
  return builtin_cat(n, parts, 4, 0, "lstm");
}

/* 64 steps of a recurrent layer and a head: the overhead of a step is what is measured. */
void builtin_small_lstm(builtin_net *n) {
  enum { STEPS = 64, WIDTH = 64, GATES = 4 * WIDTH };
  const double spread = 0.125; /* 1 / sqrt(WIDTH), PyTorch's */
  ir_value in[4] = {builtin_input(n, "x", TD_F32, 3, (const int64_t[]){-1, STEPS, WIDTH})};
  in[0] = builtin_permute(n, in[0], 3, (const int64_t[]){1, 0, 2}, "lstm");
  in[1] = gates(n, "weight_ih_l0", 2, WIDTH, WIDTH, spread);
  in[1] = builtin_view(n, in[1], 3, (const int64_t[]){1, GATES, WIDTH}, "lstm");
  in[2] = gates(n, "weight_hh_l0", 2, WIDTH, WIDTH, spread);
  in[2] = builtin_view(n, in[2], 3, (const int64_t[]){1, GATES, WIDTH}, "lstm");
  const ir_value biases[] = {gates(n, "bias_ih_l0", 1, WIDTH, 0, spread), gates(n, "bias_hh_l0", 1, WIDTH, 0, spread)};
  in[3] = builtin_cat(n, biases, 2, 0, "lstm");
  in[3] = builtin_view(n, in[3], 2, (const int64_t[]){1, 2 * GATES}, "lstm");
  ir_value x = builtin_node(n, "td::lstm", in, 4, NULL, 0, "lstm", "LSTM");
  /* [steps, 1, batch, width] to [batch, steps, width] */
  x = builtin_permute(n, x, 4, (const int64_t[]){2, 0, 1, 3}, "lstm");
  x = builtin_view(n, x, 3, (const int64_t[]){0, STEPS, WIDTH}, "lstm");
  builtin_output(n, builtin_linear(n, x, 2, "head"), "y");
}
