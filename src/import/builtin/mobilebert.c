/* mobilebert.c -- MobileBERT (Sun et al. 2020), with the keys of transformers: narrow layers between linear
 * bottlenecks, four feed-forward networks in each, and a scale and a shift in place of norms. */
#include "import/builtin/builtin_priv.h"

enum {
  VOCABULARY = 30522,
  POSITIONS = 512,
  TYPES = 2,
  LENGTH = 128,
  EMBEDDED = 128,
  HIDDEN = 512,
  NARROW = 128,
  WIDE = 512,
  HEADS = 4,
  LAYERS = 24,
  NETWORKS = 4
};

static ir_value no_norm(builtin_net *n, ir_value x, const char *key) {
  const int64_t width = builtin_size(n, x, -1);
  ir_value scale = builtin_param_of(n, key, "weight", 1, &width, 1, 0.25);
  ir_value shift = builtin_param_of(n, key, "bias", 1, &width, 0, 0.1);
  return builtin_add(n, builtin_binary(n, "aten::mul", x, scale, key), shift, key);
}

/* KEY.dense, the residual where there is one, KEY.LayerNorm. */
static ir_value dense_norm(builtin_net *n, ir_value x, int64_t out, ir_value residual, const char *key) {
  x = builtin_linear(n, x, out, builtin_key(n, "%s.dense", key));
  if (residual.id) x = builtin_add(n, x, residual, key);
  return no_norm(n, x, builtin_key(n, "%s.LayerNorm", key));
}

/* Each token's embedding between those of its neighbours, zeros outside. */
static ir_value trigrams(builtin_net *n, ir_value x) {
  static const char key[] = "embeddings";
  ir_value next = builtin_pad_rows(n, builtin_slice(n, x, 1, 1, LENGTH, key), 0, 1, key);
  ir_value last = builtin_pad_rows(n, builtin_slice(n, x, 1, 0, LENGTH - 1, key), 1, 0, key);
  return builtin_cat(n, (const ir_value[]){next, x, last}, 3, 2, key);
}

static ir_value embeddings(builtin_net *n, ir_value ids) {
  const int64_t positions[] = {POSITIONS, HIDDEN}, types[] = {TYPES, HIDDEN};
  ir_value x = trigrams(n, builtin_embedding(n, ids, VOCABULARY, EMBEDDED, "embeddings.word_embeddings"));
  x = builtin_linear(n, x, HIDDEN, "embeddings.embedding_transformation");
  ir_value p = builtin_param(n, "embeddings.position_embeddings.weight", 2, positions, 0, 1);
  ir_value t = builtin_param(n, "embeddings.token_type_embeddings.weight", 2, types, 0, 1);
  x = builtin_add(n, x, builtin_slice(n, p, 0, 0, LENGTH, "embeddings.position_embeddings"), "embeddings");
  x = builtin_add(n, x, builtin_slice(n, t, 0, 0, 1, "embeddings.token_type_embeddings"), "embeddings");
  return no_norm(n, x, "embeddings.LayerNorm");
}

static ir_value network(builtin_net *n, ir_value x, const char *path) {
  const char *expand = builtin_key(n, "%s.intermediate.dense", path);
  ir_value y = builtin_activation(n, builtin_linear(n, x, WIDE, expand), "relu", expand);
  return dense_norm(n, y, NARROW, x, builtin_key(n, "%s.output", path));
}

/* Queries and keys from one bottleneck, values from the layer's input, the residual from another bottleneck. */
static ir_value layer(builtin_net *n, ir_value x, ir_value mask, const char *path) {
  ir_value narrow = dense_norm(n, x, NARROW, IR_NO_VALUE, builtin_key(n, "%s.bottleneck.input", path));
  ir_value shared = dense_norm(n, x, NARROW, IR_NO_VALUE, builtin_key(n, "%s.bottleneck.attention", path));
  const ir_value qkv[] = {builtin_linear(n, shared, NARROW, builtin_key(n, "%s.attention.self.query", path)),
                          builtin_linear(n, shared, NARROW, builtin_key(n, "%s.attention.self.key", path)),
                          builtin_linear(n, x, NARROW, builtin_key(n, "%s.attention.self.value", path))};
  ir_value y = builtin_attention(n, qkv, mask, HEADS, builtin_key(n, "%s.attention", path));
  y = dense_norm(n, y, NARROW, narrow, builtin_key(n, "%s.attention.output", path));
  for (int i = 0; i < NETWORKS - 1; i++) y = network(n, y, builtin_key(n, "%s.ffn.%d", path, i));
  y = network(n, y, path);
  return dense_norm(n, y, HIDDEN, x, builtin_key(n, "%s.output.bottleneck", path));
}

void builtin_mobilebert(builtin_net *n) {
  ir_value mask, ids = builtin_token_inputs(n, LENGTH, &mask), x = embeddings(n, ids);
  for (int i = 0; i < LAYERS; i++) x = layer(n, x, mask, builtin_key(n, "encoder.layer.%d", i));
  builtin_unused_linear(n, HIDDEN, HIDDEN, "pooler.dense");
  builtin_output(n, x, "last_hidden_state");
}
