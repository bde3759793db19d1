/* mobilenet.c -- networks of inverted residual blocks with the keys of torchvision: MobileNetV2 (Sandler et al. 2018),
 * MobileNetV3-Small (Howard et al. 2019), EfficientNet-B0 (Tan and Le 2019). */
#include "import/builtin/builtin_priv.h"

#include <string.h>

typedef struct stage {
  int64_t blocks, kernel, stride, out; /* the stride is the first block's */
  int64_t expansion;                   /* of the channels, when not 0 */
  int64_t wide;                        /* channels inside the block; 0: by the expansion */
  const char *activation;
  bool excite; /* squeeze and excite */
} stage;

typedef struct architecture {
  const stage *stages;
  uint32_t stage_count;
  int64_t stem, head, hidden; /* hidden: of the classifier, 0: none */
  double eps;
  const char *activation; /* of stem and head */
  const char *gate;       /* of squeeze and excite; its inner activation is ReLU, or SiLU where that is `activation` */
  bool staged;            /* keys are features.STAGE.BLOCK, else features.BLOCK */
  bool second;            /* MobileNetV2's keys within a block */
  const char *classifier; /* the last layer's key */
} architecture;
#define STAGES(table) table, sizeof table / sizeof *table

static const stage v2_stages[] = {
    {1, 3, 1, 16, 1, 0, "relu6", false},  {2, 3, 2, 24, 6, 0, "relu6", false}, {3, 3, 2, 32, 6, 0, "relu6", false},
    {4, 3, 2, 64, 6, 0, "relu6", false},  {3, 3, 1, 96, 6, 0, "relu6", false}, {3, 3, 2, 160, 6, 0, "relu6", false},
    {1, 3, 1, 320, 6, 0, "relu6", false},
};
static const stage v3_small_stages[] = {
    {1, 3, 2, 16, 0, 16, "relu", true},       {1, 3, 2, 24, 0, 72, "relu", false},
    {1, 3, 1, 24, 0, 88, "relu", false},      {1, 5, 2, 40, 0, 96, "hardswish", true},
    {2, 5, 1, 40, 0, 240, "hardswish", true}, {1, 5, 1, 48, 0, 120, "hardswish", true},
    {1, 5, 1, 48, 0, 144, "hardswish", true}, {1, 5, 2, 96, 0, 288, "hardswish", true},
    {2, 5, 1, 96, 0, 576, "hardswish", true},
};
static const stage b0_stages[] = {
    {1, 3, 1, 16, 1, 0, "silu", true},  {2, 3, 2, 24, 6, 0, "silu", true},  {2, 5, 2, 40, 6, 0, "silu", true},
    {3, 3, 2, 80, 6, 0, "silu", true},  {3, 5, 1, 112, 6, 0, "silu", true}, {4, 5, 2, 192, 6, 0, "silu", true},
    {1, 3, 1, 320, 6, 0, "silu", true},
};
static const architecture v2 = {STAGES(v2_stages), 32, 1280, 0, 1e-5, "relu6", NULL, false, true, "classifier.1"};
static const architecture v3_small = {STAGES(v3_small_stages), 16,    576,   1024,          1e-3, "hardswish",
                                      "hardsigmoid",           false, false, "classifier.3"};
static const architecture b0 = {STAGES(b0_stages), 32, 1280, 0, 1e-5, "silu", "sigmoid", true, false, "classifier.1"};

/* Layer `number` of a block. In MobileNetV2 the last one, which has no activation, is not wrapped. */
static ir_value conv(builtin_net *n, ir_value x, const architecture *a, builtin_conv c, const char *path, int number,
                     const char *activation) {
  const char *inside = a->second ? "conv" : "block";
  bool bare = a->second && !activation;
  const char *conv_key = builtin_key(n, bare ? "%s.%s.%d" : "%s.%s.%d.0", path, inside, number);
  const char *norm_key = builtin_key(n, bare ? "%s.%s.%d" : "%s.%s.%d.1", path, inside, number + bare);
  return builtin_conv_norm(n, x, &c, conv_key, norm_key, a->eps, activation);
}

/* A multiple of 8 near x, as MobileNet rounds channels: up from the half, and not below 90 % of x. */
static int64_t multiple_of_8(int64_t x) {
  int64_t rounded = x + 4 < 16 ? 8 : (x + 4) / 8 * 8;
  return rounded * 10 < x * 9 ? rounded + 8 : rounded;
}

static ir_value block(builtin_net *n, ir_value x, const architecture *a, const stage *s, int64_t stride,
                      const char *path) {
  const int64_t in = builtin_size(n, x, 1), wide = s->wide ? s->wide : in * s->expansion;
  const bool silu = strcmp(s->activation, "silu") == 0;
  int number = 0;
  ir_value y = x;
  if (wide != in)
    y = conv(n, y, a, (builtin_conv){.kernel = 1, .stride = 1, .out = wide}, path, number++, s->activation);
  y = conv(n, y, a, (builtin_conv){.kernel = s->kernel, .stride = stride, .out = wide, .depthwise = true}, path,
           number++, s->activation);
  if (s->excite)
    y = builtin_squeeze_excite(n, y, silu ? in / 4 : multiple_of_8(wide / 4), silu ? "silu" : "relu", a->gate,
                               builtin_key(n, "%s.block.%d", path, number++));
  y = conv(n, y, a, (builtin_conv){.kernel = 1, .stride = 1, .out = s->out}, path, number, NULL);
  return stride == 1 && in == s->out ? builtin_add(n, y, x, path) : y;
}

static void build(builtin_net *n, const architecture *a) {
  ir_value x = builtin_image_input(n, 224);
  int number = 1;
  x = builtin_conv_norm(n, x, &(builtin_conv){.kernel = 3, .stride = 2, .out = a->stem}, "features.0.0", "features.0.1",
                        a->eps, a->activation);
  for (uint32_t i = 0; i < a->stage_count; i++, number += a->staged)
    for (int b = 0; b < a->stages[i].blocks; b++, number += !a->staged) {
      const char *path =
          a->staged ? builtin_key(n, "features.%d.%d", number, b) : builtin_key(n, "features.%d", number);
      x = block(n, x, a, &a->stages[i], b ? 1 : a->stages[i].stride, path);
    }
  x = builtin_conv_norm(n, x, &(builtin_conv){.kernel = 1, .stride = 1, .out = a->head},
                        builtin_key(n, "features.%d.0", number), builtin_key(n, "features.%d.1", number), a->eps,
                        a->activation);
  x = builtin_global_mean(n, x, "avgpool");
  if (a->hidden)
    x = builtin_activation(n, builtin_linear(n, x, a->hidden, "classifier.0"), a->activation, "classifier.1");
  builtin_output(n, builtin_linear(n, x, 1000, a->classifier), "logits");
}

void builtin_mobilenet_v2(builtin_net *n) { build(n, &v2); }
void builtin_mobilenet_v3_small(builtin_net *n) { build(n, &v3_small); }
void builtin_efficientnet_b0(builtin_net *n) { build(n, &b0); }
