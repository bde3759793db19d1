/* vit.c -- ViT-B/16 (Dosovitskiy et al. 2021), with the keys of torchvision. */
#include "import/builtin/builtin_priv.h"

enum { SIDE = 224, PATCH = 16, WIDTH = 768, HEADS = 12, LAYERS = 12, TOKENS = SIDE / PATCH * (SIDE / PATCH) + 1 };
static const double eps = 1e-6;

/* A class token before those of the patches, and a learned position added to each. */
static ir_value tokens(builtin_net *n, ir_value x) {
  const builtin_conv patches = {.kernel = PATCH, .stride = PATCH, .out = WIDTH, .padding = BUILTIN_VALID, .bias = true};
  const int64_t one[] = {1, 1, WIDTH}, all[] = {1, TOKENS, WIDTH};
  ir_value parts[2] = {builtin_param(n, "class_token", 3, one, 0, 1)};
  x = builtin_convolution(n, x, &patches, "conv_proj");
  x = builtin_view(n, x, 3, (const int64_t[]){0, WIDTH, TOKENS - 1}, "conv_proj");
  x = builtin_permute(n, x, 3, (const int64_t[]){0, 2, 1}, "conv_proj");
  /* Zeros of the batch's size make the token one for each image. */
  ir_value zeros = builtin_slice(n, x, 1, 0, 1, "class_token");
  zeros = builtin_binary(n, "aten::sub", zeros, zeros, "class_token");
  parts[0] = builtin_add(n, parts[0], zeros, "class_token");
  parts[1] = x;
  x = builtin_cat(n, parts, 2, 1, "class_token");
  return builtin_add(n, x, builtin_param(n, "encoder.pos_embedding", 3, all, 0, 0.02), "encoder.pos_embedding");
}

static ir_value attention(builtin_net *n, ir_value x, const char *path) {
  ir_value qkv[3];
  x = builtin_linear_of(n, x, 3 * WIDTH, builtin_key(n, "%s.in_proj_weight", path),
                        builtin_key(n, "%s.in_proj_bias", path), path);
  for (int64_t i = 0; i < 3; i++) qkv[i] = builtin_slice(n, x, 2, i * WIDTH, (i + 1) * WIDTH, path);
  x = builtin_attention(n, qkv, IR_NO_VALUE, HEADS, path);
  return builtin_linear(n, x, WIDTH, builtin_key(n, "%s.out_proj", path));
}

static ir_value layer(builtin_net *n, ir_value x, const char *path) {
  const char *expand = builtin_key(n, "%s.mlp.0", path);
  ir_value y = builtin_layer_norm(n, x, eps, builtin_key(n, "%s.ln_1", path));
  x = builtin_add(n, attention(n, y, builtin_key(n, "%s.self_attention", path)), x, path);
  y = builtin_layer_norm(n, x, eps, builtin_key(n, "%s.ln_2", path));
  y = builtin_activation(n, builtin_linear(n, y, 4 * WIDTH, expand), "gelu", expand);
  return builtin_add(n, builtin_linear(n, y, WIDTH, builtin_key(n, "%s.mlp.3", path)), x, path);
}

void builtin_vit_b_16(builtin_net *n) {
  ir_value x = tokens(n, builtin_image_input(n, SIDE));
  for (int i = 0; i < LAYERS; i++) x = layer(n, x, builtin_key(n, "encoder.layers.encoder_layer_%d", i));
  x = builtin_layer_norm(n, x, eps, "encoder.ln");
  x = builtin_view(n, builtin_slice(n, x, 1, 0, 1, "encoder"), 2, (const int64_t[]){0, WIDTH}, "encoder");
  builtin_output(n, builtin_linear(n, x, 1000, "heads.head"), "logits");
}
