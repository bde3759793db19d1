/* efficientnet.c -- EfficientNet-Lite (Tan and Le 2019; the Lite variants have ReLU6 and no squeeze-and-excite), with
 * the keys of efficientnet_lite_pytorch. */
#include "import/builtin/builtin_priv.h"

#include <stdio.h>

static const double eps = 1e-3; /* as trained, in TensorFlow */

/* Inverted residual blocks (Sandler et al. 2018). Stride and the change of channels are the first one's. */
typedef struct stage {
  int64_t blocks, kernel, stride, expansion, out;
} stage;

typedef struct architecture {
  int64_t side, stem, head, classes;
  const stage *stages;
  uint32_t stage_count;
} architecture;

static const stage lite0_stages[] = {
    {1, 3, 1, 1, 16},  {2, 3, 2, 6, 24},  {2, 5, 2, 6, 40},  {3, 3, 2, 6, 80},
    {3, 5, 1, 6, 112}, {4, 5, 2, 6, 192}, {1, 3, 1, 6, 320},
};
static const architecture lite0 = {224, 32, 1280, 1000, lite0_stages, sizeof lite0_stages / sizeof *lite0_stages};

/* Convolution and batch norm, with ReLU6 or linear. `path` is "" or "_blocks.N.". */
static ir_value conv_norm(builtin_net *n, ir_value x, const builtin_conv *conv, const char *path, const char *conv_name,
                          const char *norm_name, bool active) {
  char conv_key[64], norm_key[64];
  snprintf(conv_key, sizeof conv_key, "%s%s", path, conv_name);
  snprintf(norm_key, sizeof norm_key, "%s%s", path, norm_name);
  return builtin_conv_norm(n, x, conv, conv_key, norm_key, eps, active ? "relu6" : NULL);
}

static ir_value inverted_residual(builtin_net *n, ir_value x, const stage *s, int64_t in, int64_t stride, int number) {
  const int64_t wide = in * s->expansion;
  char key[32], path[40];
  ir_value y = x;
  snprintf(key, sizeof key, "_blocks.%d", number);
  snprintf(path, sizeof path, "%s.", key);
  if (s->expansion != 1)
    y = conv_norm(n, y, &(builtin_conv){1, 1, wide, BUILTIN_SAME, false, false}, path, "_expand_conv", "_bn0", true);
  y = conv_norm(n, y, &(builtin_conv){s->kernel, stride, wide, BUILTIN_SAME, true, false}, path, "_depthwise_conv",
                "_bn1", true);
  y = conv_norm(n, y, &(builtin_conv){1, 1, s->out, BUILTIN_SAME, false, false}, path, "_project_conv", "_bn2", false);
  return stride == 1 && in == s->out ? builtin_add(n, y, x, key) : y;
}

static ir_value features(builtin_net *n, ir_value x, const architecture *a) {
  int64_t channels = a->stem;
  int number = 0;
  x = conv_norm(n, x, &(builtin_conv){3, 2, a->stem, BUILTIN_SAME, false, false}, "", "_conv_stem", "_bn0", true);
  for (uint32_t i = 0; i < a->stage_count; i++)
    for (int64_t block = 0; block < a->stages[i].blocks; block++) {
      x = inverted_residual(n, x, &a->stages[i], channels, block ? 1 : a->stages[i].stride, number++);
      channels = a->stages[i].out;
    }
  return conv_norm(n, x, &(builtin_conv){1, 1, a->head, BUILTIN_SAME, false, false}, "", "_conv_head", "_bn1", true);
}

static void build(builtin_net *n, const architecture *a) {
  ir_value x = builtin_image_input(n, a->side);
  x = features(n, x, a);
  x = builtin_global_mean(n, x, "_avg_pooling");
  x = builtin_linear(n, x, a->classes, "_fc");
  builtin_output(n, x, "logits");
}

void builtin_efficientnet_lite0(builtin_net *n) { build(n, &lite0); }
