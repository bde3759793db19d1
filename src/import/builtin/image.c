/* image.c -- layers of images [batch, channels, height, width]. */
#include "import/builtin/builtin_priv.h"

#include <math.h>

ir_value builtin_image_input(builtin_net *n, int64_t side) {
  return builtin_input(n, "input", TD_F32, 4, (const int64_t[]){-1, 3, side, side});
}

ir_value builtin_convolution(builtin_net *n, ir_value x, const builtin_conv *conv, const char *key) {
  const int64_t in_channels = builtin_size(n, x, 1), groups = conv->depthwise && in_channels ? in_channels : 1;
  const int64_t dims[] = {conv->out, in_channels / groups, conv->kernel, conv->kernel};
  const int64_t stride[] = {conv->stride, conv->stride}, half = (conv->kernel - 1) / 2;
  const int64_t padding[] = {half, half, half, half};
  /* Seeded weights keep the second moment through a ReLU (He et al. 2015): variance 2 / fan_in. */
  const double fan_in = (double)dims[1] * (double)dims[2] * (double)dims[3];
  ir_value in[3] = {x};
  in[1] = builtin_param_of(n, key, "weight", 4, dims, 0, sqrt(6 / fmax(fan_in, 1)));
  if (conv->bias) in[2] = builtin_param_of(n, key, "bias", 1, dims, 0, 0.1);
  base_arg args[] = {ARG_INTS("stride", stride, 2), ARG_INT("groups", groups), ARG_STR("auto_pad", "same_upper")};
  if (conv->padding == BUILTIN_HALF) args[2] = ARG_INTS("padding", padding, 4);
  return builtin_node(n, "aten::convolution", in, conv->bias ? 3 : 2, args, conv->padding == BUILTIN_VALID ? 2 : 3, key,
                      "Conv2d");
}

ir_value builtin_batch_norm(builtin_net *n, ir_value x, double eps, const char *key) {
  const int64_t channels = builtin_size(n, x, 1);
  /* One statement each: parameters are made in this order. */
  ir_value in[5] = {x};
  in[1] = builtin_param_of(n, key, "weight", 1, &channels, 1, 0.25);
  in[2] = builtin_param_of(n, key, "bias", 1, &channels, 0, 0.1);
  in[3] = builtin_param_of(n, key, "running_mean", 1, &channels, 0, 0.1);
  in[4] = builtin_param_of(n, key, "running_var", 1, &channels, 1, 0.25);
  const base_arg args[] = {ARG_FLOAT("eps", eps)};
  return builtin_node(n, "aten::_native_batch_norm_legit_no_training", in, 5, args, 1, key, "BatchNorm2d");
}

ir_value builtin_conv_norm(builtin_net *n, ir_value x, const builtin_conv *conv, const char *conv_key,
                           const char *norm_key, double eps, const char *activation) {
  x = builtin_convolution(n, x, conv, conv_key);
  x = builtin_batch_norm(n, x, eps, norm_key);
  return builtin_activation(n, x, activation, norm_key);
}

ir_value builtin_pool(builtin_net *n, ir_value x, const char *op, int64_t kernel, int64_t stride, int64_t padding,
                      const char *key) {
  const int64_t kernels[] = {kernel, kernel}, strides[] = {stride, stride};
  const int64_t paddings[] = {padding, padding, padding, padding};
  const base_arg args[] = {ARG_INTS("kernel_size", kernels, 2), ARG_INTS("stride", strides, 2),
                           ARG_INTS("padding", paddings, 4)};
  return builtin_node(n, op, &x, 1, args, 3, key, "pool");
}

ir_value builtin_global_pool(builtin_net *n, ir_value x, const char *key) {
  return builtin_node(n, "td::avg_pool", &x, 1, NULL, 0, key, "AdaptiveAvgPool2d");
}

ir_value builtin_global_mean(builtin_net *n, ir_value x, const char *key) {
  x = builtin_global_pool(n, x, key);
  return builtin_node(n, "td::flatten", &x, 1, NULL, 0, key, "flatten");
}

ir_value builtin_squeeze_excite(builtin_net *n, ir_value x, int64_t squeeze, const char *activation, const char *gate,
                                const char *key) {
  const builtin_conv narrow = {.kernel = 1, .stride = 1, .out = squeeze, .bias = true};
  const builtin_conv wide = {.kernel = 1, .stride = 1, .out = builtin_size(n, x, 1), .bias = true};
  const char *first = builtin_key(n, "%s.fc1", key), *second = builtin_key(n, "%s.fc2", key);
  ir_value scale = builtin_global_pool(n, x, key);
  scale = builtin_activation(n, builtin_convolution(n, scale, &narrow, first), activation, first);
  scale = builtin_activation(n, builtin_convolution(n, scale, &wide, second), gate, second);
  return builtin_binary(n, "aten::mul", scale, x, key);
}
