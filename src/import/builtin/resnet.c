/* resnet.c -- ResNet (He et al. 2016) with the stride of a bottleneck in its 3x3 convolution, and the keys of
 * torchvision. */
#include "import/builtin/builtin_priv.h"

static const double eps = 1e-5;

typedef struct architecture {
  int64_t blocks[4];
  bool bottleneck; /* 1x1, 3x3, 1x1 with four times the channels; else 3x3, 3x3 */
} architecture;
static const architecture resnet18 = {{2, 2, 2, 2}, false}, resnet50 = {{3, 4, 6, 3}, true};

static ir_value conv(builtin_net *n, ir_value x, builtin_conv c, const char *path, int number, const char *activation) {
  return builtin_conv_norm(n, x, &c, builtin_key(n, "%s.conv%d", path, number), builtin_key(n, "%s.bn%d", path, number),
                           eps, activation);
}

static ir_value block(builtin_net *n, ir_value x, bool bottleneck, int64_t width, int64_t stride, const char *path) {
  const int64_t out = bottleneck ? 4 * width : width;
  ir_value y = x;
  if (bottleneck) {
    y = conv(n, y, (builtin_conv){.kernel = 1, .stride = 1, .out = width}, path, 1, "relu");
    y = conv(n, y, (builtin_conv){.kernel = 3, .stride = stride, .out = width}, path, 2, "relu");
    y = conv(n, y, (builtin_conv){.kernel = 1, .stride = 1, .out = out}, path, 3, NULL);
  } else {
    y = conv(n, y, (builtin_conv){.kernel = 3, .stride = stride, .out = width}, path, 1, "relu");
    y = conv(n, y, (builtin_conv){.kernel = 3, .stride = 1, .out = out}, path, 2, NULL);
  }
  if (stride != 1 || builtin_size(n, x, 1) != out)
    x = builtin_conv_norm(n, x, &(builtin_conv){.kernel = 1, .stride = stride, .out = out},
                          builtin_key(n, "%s.downsample.0", path), builtin_key(n, "%s.downsample.1", path), eps, NULL);
  return builtin_activation(n, builtin_add(n, y, x, path), "relu", path);
}

static void build(builtin_net *n, const architecture *a) {
  ir_value x = builtin_image_input(n, 224);
  x = builtin_conv_norm(n, x, &(builtin_conv){.kernel = 7, .stride = 2, .out = 64}, "conv1", "bn1", eps, "relu");
  x = builtin_pool(n, x, "td::max_pool", 3, 2, 1, "maxpool");
  for (int stage = 0; stage < 4; stage++)
    for (int i = 0; i < a->blocks[stage]; i++)
      x = block(n, x, a->bottleneck, (int64_t)64 << stage, stage && !i ? 2 : 1,
                builtin_key(n, "layer%d.%d", stage + 1, i));
  builtin_output(n, builtin_linear(n, builtin_global_mean(n, x, "avgpool"), 1000, "fc"), "logits");
}

void builtin_resnet18(builtin_net *n) { build(n, &resnet18); }
void builtin_resnet50(builtin_net *n) { build(n, &resnet50); }
