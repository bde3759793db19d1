/* convnext.c -- ConvNeXt-Tiny (Liu et al. 2022), with the keys of torchvision. Norms and linear layers are over
 * channels, between permutations. */
#include "import/builtin/builtin_priv.h"

enum { STAGES = 4 };
static const struct {
  int blocks;
  int64_t width;
} stages[STAGES] = {{3, 96}, {3, 192}, {9, 384}, {3, 768}};
static const double eps = 1e-6;
static const int64_t channels_last[] = {0, 2, 3, 1}, channels_first[] = {0, 3, 1, 2};

static ir_value norm(builtin_net *n, ir_value x, const char *key) {
  x = builtin_permute(n, x, 4, channels_last, key);
  x = builtin_layer_norm(n, x, eps, key);
  return builtin_permute(n, x, 4, channels_first, key);
}

static ir_value block(builtin_net *n, ir_value x, const char *path) {
  const int64_t width = builtin_size(n, x, 1), scale_dims[] = {width, 1, 1};
  const builtin_conv depthwise = {.kernel = 7, .stride = 1, .out = width, .depthwise = true, .bias = true};
  const char *expand = builtin_key(n, "%s.block.3", path);
  ir_value scale = builtin_param_of(n, path, "layer_scale", 3, scale_dims, 0.3, 0.1);
  ir_value y = builtin_convolution(n, x, &depthwise, builtin_key(n, "%s.block.0", path));
  y = builtin_permute(n, y, 4, channels_last, path);
  y = builtin_layer_norm(n, y, eps, builtin_key(n, "%s.block.2", path));
  y = builtin_activation(n, builtin_linear(n, y, 4 * width, expand), "gelu", expand);
  y = builtin_linear(n, y, width, builtin_key(n, "%s.block.5", path));
  y = builtin_permute(n, y, 4, channels_first, path);
  return builtin_add(n, builtin_binary(n, "aten::mul", scale, y, path), x, path);
}

void builtin_convnext_tiny(builtin_net *n) {
  ir_value x = builtin_image_input(n, 224);
  for (int i = 0; i < STAGES; i++) {
    const int64_t side = i ? 2 : 4;
    const builtin_conv patches = {
        .kernel = side, .stride = side, .out = stages[i].width, .padding = BUILTIN_VALID, .bias = true};
    if (i) x = norm(n, x, builtin_key(n, "features.%d.0", 2 * i));
    x = builtin_convolution(n, x, &patches, builtin_key(n, "features.%d.%d", 2 * i, i ? 1 : 0));
    if (!i) x = norm(n, x, "features.0.1");
    for (int b = 0; b < stages[i].blocks; b++) x = block(n, x, builtin_key(n, "features.%d.%d", 2 * i + 1, b));
  }
  x = norm(n, builtin_global_pool(n, x, "avgpool"), "classifier.0");
  x = builtin_node(n, "td::flatten", &x, 1, NULL, 0, "classifier.1", "Flatten");
  builtin_output(n, builtin_linear(n, x, 1000, "classifier.2"), "logits");
}
