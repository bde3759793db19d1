/* layer.c -- the layers that architectures are put together from. */
#include "import/builtin/builtin_priv.h"

#include <math.h>
#include <stdio.h>

enum { KEY_BYTES = 128 };

ir_value builtin_image_input(builtin_net *n, int64_t side) {
  ir_value input = IR_NO_VALUE;
  base_dim batch = base_dim_symbol(&n->graph->dims, "batch");
  ir_type type = ir_tensor(TD_F32, 4, (const base_dim[]){batch, 3, base_dim_number(side), base_dim_number(side)});
  if (batch == BASE_DIM_NONE) n->status = base_no_memory(n->err, "a symbol");
  if (n->status == TD_OK) n->status = ir_add_input(n->graph, &type, "input", IR_NO_VALUE, &input, n->err);
  return input;
}

void builtin_output(builtin_net *n, ir_value x, const char *name) {
  if (n->status == TD_OK) n->status = ir_add_output(n->graph, x, name, n->err);
}

ir_value builtin_node(builtin_net *n, const char *op, const ir_value *in, uint32_t in_count, const base_arg *args,
                      uint32_t arg_count, const char *key, const char *kind) {
  char text[KEY_BYTES + 32];
  const char *origin = text;
  ir_value out = IR_NO_VALUE;
  ir_node node;
  if (n->status != TD_OK) return out;
  snprintf(text, sizeof text, "%s (%s)", key, kind);
  ir_new_node spec = {.op = ir_opset_find(n->graph->ops, op),
                      .in = in,
                      .in_count = in_count,
                      .args = args,
                      .arg_count = arg_count,
                      .origins = {&origin, 1}};
  n->status = spec.op ? ir_add_node(n->graph, n->graph->top, &spec, &node, &out, n->err)
                      : base_fail(n->err, TD_INTERNAL, NULL, -1, "there is no operator %s", op);
  if (n->status != TD_OK) base_error_name(n->err, n->status, "node %s", text);
  return out;
}

static ir_value param_of(builtin_net *n, const char *key, const char *name, int32_t rank, const int64_t *dims,
                         double center, double spread) {
  char full[KEY_BYTES];
  snprintf(full, sizeof full, "%s.%s", key, name);
  return builtin_param(n, full, rank, dims, center, spread);
}

/* Seeded weights keep the second moment of what flows through (He et al. 2015): variance `gain` / fan_in. */
static double he_spread(double gain, int64_t fan_in) { return sqrt(3 * gain / (double)fan_in); }

ir_value builtin_convolution(builtin_net *n, ir_value x, const builtin_conv *conv, const char *key) {
  const int64_t dims[] = {conv->out, conv->in / conv->groups, conv->kernel, conv->kernel};
  const int64_t stride[] = {conv->stride, conv->stride};
  const double spread = he_spread(2, dims[1] * dims[2] * dims[3]);
  const ir_value in[] = {x, param_of(n, key, "weight", 4, dims, 0, spread)};
  const base_arg args[] = {ARG_INTS("stride", stride, 2), ARG_STR("auto_pad", "same_upper"),
                           ARG_INT("groups", conv->groups)};
  return builtin_node(n, "aten::convolution", in, 2, args, 3, key, "Conv2d");
}

ir_value builtin_batch_norm(builtin_net *n, ir_value x, int64_t channels, double eps, const char *key) {
  /* One statement each: parameters are made in this order. */
  ir_value in[5] = {x};
  in[1] = param_of(n, key, "weight", 1, &channels, 1, 0.25);
  in[2] = param_of(n, key, "bias", 1, &channels, 0, 0.1);
  in[3] = param_of(n, key, "running_mean", 1, &channels, 0, 0.1);
  in[4] = param_of(n, key, "running_var", 1, &channels, 1, 0.25);
  const base_arg args[] = {ARG_FLOAT("eps", eps)};
  return builtin_node(n, "aten::_native_batch_norm_legit_no_training", in, 5, args, 1, key, "BatchNorm2d");
}

ir_value builtin_relu6(builtin_net *n, ir_value x, const char *key) {
  const ir_value in[] = {x, n->zero, n->six};
  return builtin_node(n, "aten::clamp", in, 3, NULL, 0, key, "ReLU6");
}

ir_value builtin_add(builtin_net *n, ir_value x, ir_value y, const char *key) {
  const ir_value in[] = {x, y};
  return builtin_node(n, "aten::add", in, 2, NULL, 0, key, "add");
}

ir_value builtin_global_mean(builtin_net *n, ir_value x, const char *key) {
  const int64_t axes[] = {2, 3};
  const base_arg args[] = {ARG_INTS("dim", axes, 2)};
  return builtin_node(n, "aten::mean", &x, 1, args, 1, key, "mean");
}

ir_value builtin_linear(builtin_net *n, ir_value x, int64_t in, int64_t out, const char *key) {
  const int64_t dims[] = {out, in};
  ir_value operands[3] = {x};
  operands[1] = param_of(n, key, "weight", 2, dims, 0, he_spread(1, in));
  operands[2] = param_of(n, key, "bias", 1, &out, 0, 0.1);
  const base_arg args[] = {ARG_BOOL("trans_b", true)};
  return builtin_node(n, "td::gemm", operands, 3, args, 1, key, "Linear");
}
