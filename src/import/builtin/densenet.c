/* densenet.c -- DenseNet-121 (Huang et al. 2017), with the keys of torchvision: every layer reads what all layers of
 * its block have written. */
#include "import/builtin/builtin_priv.h"

enum { GROWTH = 32, BOTTLENECK = 4 * GROWTH, BLOCKS = 4, MOST_LAYERS = 24 };
static const int layers[BLOCKS] = {6, 12, 24, 16};
static const double eps = 1e-5;

static ir_value norm_relu(builtin_net *n, ir_value x, const char *key) {
  return builtin_activation(n, builtin_batch_norm(n, x, eps, key), "relu", key);
}

static ir_value layer(builtin_net *n, ir_value x, const char *path) {
  x = norm_relu(n, x, builtin_key(n, "%s.norm1", path));
  x = builtin_convolution(n, x, &(builtin_conv){.kernel = 1, .stride = 1, .out = BOTTLENECK},
                          builtin_key(n, "%s.conv1", path));
  x = norm_relu(n, x, builtin_key(n, "%s.norm2", path));
  return builtin_convolution(n, x, &(builtin_conv){.kernel = 3, .stride = 1, .out = GROWTH},
                             builtin_key(n, "%s.conv2", path));
}

static ir_value block(builtin_net *n, ir_value x, int number) {
  ir_value parts[MOST_LAYERS + 1] = {x};
  const char *path = builtin_key(n, "features.denseblock%d", number);
  for (int i = 0; i < layers[number - 1]; i++) {
    ir_value all = i ? builtin_cat(n, parts, (uint32_t)i + 1, 1, path) : x;
    parts[i + 1] = layer(n, all, builtin_key(n, "%s.denselayer%d", path, i + 1));
  }
  return builtin_cat(n, parts, (uint32_t)layers[number - 1] + 1, 1, path);
}

static ir_value transition(builtin_net *n, ir_value x, int number) {
  const builtin_conv half = {.kernel = 1, .stride = 1, .out = builtin_size(n, x, 1) / 2};
  const char *path = builtin_key(n, "features.transition%d", number);
  x = norm_relu(n, x, builtin_key(n, "%s.norm", path));
  x = builtin_convolution(n, x, &half, builtin_key(n, "%s.conv", path));
  return builtin_pool(n, x, "td::avg_pool", 2, 2, 0, builtin_key(n, "%s.pool", path));
}

void builtin_densenet121(builtin_net *n) {
  ir_value x = builtin_image_input(n, 224);
  x = builtin_conv_norm(n, x, &(builtin_conv){.kernel = 7, .stride = 2, .out = 64}, "features.conv0", "features.norm0",
                        eps, "relu");
  x = builtin_pool(n, x, "td::max_pool", 3, 2, 1, "features.pool0");
  for (int i = 1; i <= BLOCKS; i++) {
    x = block(n, x, i);
    if (i < BLOCKS) x = transition(n, x, i);
  }
  x = builtin_global_mean(n, norm_relu(n, x, "features.norm5"), "avgpool");
  builtin_output(n, builtin_linear(n, x, 1000, "classifier"), "logits");
}
