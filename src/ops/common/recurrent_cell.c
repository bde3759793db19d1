/* recurrent_cell.c -- one step of an Elman, LSTM or GRU cell, as ONNX defines them; gate order i o f c and z r h. */
#include "ops/common/recurrent_priv.h"

#include <math.h>
#include <strings.h>

/* NaN stays. */
static double relu(double x, double a, double b) { return (void)a, (void)b, x <= 0 ? 0 : x; }
static double hyperbolic(double x, double a, double b) { return (void)a, (void)b, tanh(x); }
static double sigmoid(double x, double a, double b) { return (void)a, (void)b, 1 / (1 + exp(-x)); }
static double affine(double x, double a, double b) { return a * x + b; }
static double leaky_relu(double x, double a, double b) { return (void)b, x >= 0 ? x : a * x; }
static double thresholded(double x, double a, double b) { return (void)b, x >= a ? x : 0; }
static double scaled_tanh(double x, double a, double b) { return a * tanh(b * x); }
static double hard_sigmoid(double x, double a, double b) {
  const double y = a * x + b;
  return y < 0 ? 0 : y > 1 ? 1 : y;
}
static double elu(double x, double a, double b) { return (void)b, x >= 0 ? x : a * expm1(x); }
static double softsign(double x, double a, double b) { return (void)a, (void)b, x / (1 + fabs(x)); }
static double softplus(double x, double a, double b) { return (void)a, (void)b, log1p(exp(x)); }

static const struct {
  const char *name;
  activation act;
} activations[] = {
    {"Relu", {relu, 0, 0}},
    {"Tanh", {hyperbolic, 0, 0}},
    {"Sigmoid", {sigmoid, 0, 0}},
    {"Affine", {affine, 1, 0}},
    {"LeakyRelu", {leaky_relu, 0.01, 0}},
    {"ThresholdedRelu", {thresholded, 1, 0}},
    {"ScaledTanh", {scaled_tanh, 1, 1}},
    {"HardSigmoid", {hard_sigmoid, 0.2, 0.5}},
    {"Elu", {elu, 1, 0}},
    {"Softsign", {softsign, 0, 0}},
    {"Softplus", {softplus, 0, 0}},
};

bool ops_activation_find(const char *name, size_t length, activation *a) {
  for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
    if (strncasecmp(activations[i].name, name, length) != 0 || activations[i].name[length]) continue;
    *a = activations[i].act;
    return true;
  }
  return false;
}

static double activate(const recurrence *r, int which, double x) {
  const activation *a = &r->act[which];
  x = x > r->clip ? r->clip : x < -r->clip ? -r->clip : x;
  return a->f(x, a->alpha, a->beta);
}

static void rnn_step(const recurrence *r, float *x, float *h, float *state, float *memory) {
  (void)memory;
  for (int64_t k = 0; k < r->hidden; k++) state[k] = (float)activate(r, 0, (double)x[k] + (double)h[k]);
}

static void lstm_step(const recurrence *r, float *x, float *h, float *state, float *memory) {
  int64_t n = r->hidden;
  const base_f32 *p = r->peepholes;
  for (int64_t k = 0; k < n; k++) {
    double c = (double)memory[k];
    double i = activate(r, 0, (double)x[k] + (double)h[k] + (p ? (double)p[k] * c : 0));
    double f = 1 - i;
    if (!r->input_forget)
      f = activate(r, 0, (double)x[2 * n + k] + (double)h[2 * n + k] + (p ? (double)p[2 * n + k] * c : 0));
    c = f * c + i * activate(r, 1, (double)x[3 * n + k] + (double)h[3 * n + k]);
    double o = activate(r, 0, (double)x[n + k] + (double)h[n + k] + (p ? (double)p[n + k] * c : 0));
    memory[k] = (float)c;
    state[k] = (float)(o * r->act[2].f(c, r->act[2].alpha, r->act[2].beta)); /* the memory itself is not clipped */
  }
}

/* Without linear_before_reset the candidate's product needs the reset state first. */
static void gru_step(const recurrence *r, float *x, float *h, float *state, float *memory) {
  (void)memory;
  int64_t n = r->hidden;
  float *kept = r->reset, *candidate = r->linear_before_reset ? h + 2 * n : r->reset + n;
  for (int64_t k = 0; k < n; k++) {
    double reset = activate(r, 0, (double)x[n + k] + (double)h[n + k]);
    if (r->linear_before_reset)
      candidate[k] = (float)(reset * ((double)candidate[k] + (r->state_bias ? (double)r->state_bias[k] : 0)));
    else kept[k] = (float)(reset * (double)state[k]), candidate[k] = 0;
  }
  if (!r->linear_before_reset) {
    gemm_f32 g = {.m = 1,
                  .n = n,
                  .k = n,
                  .a = kept,
                  .a_row = n,
                  .a_column = 1,
                  .b = r->state_weights + 2 * n,
                  .b_row = 3 * n,
                  .b_column = 1,
                  .c = candidate,
                  .c_row = n};
    ops_gemm_f32(&g);
  }
  for (int64_t k = 0; k < n; k++) {
    double z = activate(r, 0, (double)x[k] + (double)h[k]);
    double c = activate(r, 1, (double)x[2 * n + k] + (double)candidate[k]);
    state[k] = (float)((1 - z) * c + z * (double)state[k]);
  }
}

const cell ops_cell_rnn = {1, 1, rnn_step};
const cell ops_cell_lstm = {4, 3, lstm_step};
const cell ops_cell_gru = {3, 2, gru_step};
