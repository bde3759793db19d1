/* bert.c -- BERT (Devlin et al. 2019) and DistilBERT (Sanh et al. 2019), with the keys of transformers. The output is
 * the last hidden state; the sequence has a fixed length. */
#include "import/builtin/builtin_priv.h"

static const double eps = 1e-12;
enum { VOCABULARY = 30522, POSITIONS = 512, TYPES = 2 };

/* What the parts of a layer are called. */
typedef struct dialect {
  const char *layer, *query, *key, *value, *merged, *norm, *expand, *contract, *out_norm;
} dialect;
static const dialect bert_keys = {"encoder.layer",        "attention.self.query",   "attention.self.key",
                                  "attention.self.value", "attention.output.dense", "attention.output.LayerNorm",
                                  "intermediate.dense",   "output.dense",           "output.LayerNorm"};
static const dialect distilbert_keys = {"transformer.layer", "attention.q_lin",   "attention.k_lin",
                                        "attention.v_lin",   "attention.out_lin", "sa_layer_norm",
                                        "ffn.lin1",          "ffn.lin2",          "output_layer_norm"};

typedef struct architecture {
  int layers;
  int64_t hidden, heads, wide, length;
  const dialect *keys;
  bool types; /* token types are embedded; the checkpoint has a pooler, which this output does without */
} architecture;
static const architecture bert_base = {12, 768, 12, 3072, 128, &bert_keys, true};
static const architecture bert_base_s384 = {12, 768, 12, 3072, 384, &bert_keys, true};
static const architecture minilm_l6 = {6, 384, 12, 1536, 128, &bert_keys, true};
static const architecture distilbert = {6, 768, 12, 3072, 128, &distilbert_keys, false};

static ir_value embeddings(builtin_net *n, ir_value ids, const architecture *a) {
  const int64_t positions[] = {POSITIONS, a->hidden}, types[] = {TYPES, a->hidden};
  ir_value x = builtin_embedding(n, ids, VOCABULARY, a->hidden, "embeddings.word_embeddings");
  ir_value p = builtin_param(n, "embeddings.position_embeddings.weight", 2, positions, 0, 1);
  if (a->types) { /* all tokens are of the first type */
    ir_value t = builtin_param(n, "embeddings.token_type_embeddings.weight", 2, types, 0, 1);
    x = builtin_add(n, x, builtin_slice(n, t, 0, 0, 1, "embeddings.token_type_embeddings"), "embeddings");
  }
  x = builtin_add(n, x, builtin_slice(n, p, 0, 0, a->length, "embeddings.position_embeddings"), "embeddings");
  return builtin_layer_norm(n, x, eps, "embeddings.LayerNorm");
}

static ir_value layer(builtin_net *n, ir_value x, ir_value mask, const architecture *a, const char *path) {
  const dialect *k = a->keys;
  const char *const names[] = {k->query, k->key, k->value}, *expand = builtin_key(n, "%s.%s", path, k->expand);
  ir_value qkv[3];
  for (int i = 0; i < 3; i++) qkv[i] = builtin_linear(n, x, a->hidden, builtin_key(n, "%s.%s", path, names[i]));
  ir_value y = builtin_attention(n, qkv, mask, a->heads, builtin_key(n, "%s.attention", path));
  y = builtin_linear(n, y, a->hidden, builtin_key(n, "%s.%s", path, k->merged));
  x = builtin_layer_norm(n, builtin_add(n, y, x, path), eps, builtin_key(n, "%s.%s", path, k->norm));
  y = builtin_activation(n, builtin_linear(n, x, a->wide, expand), "gelu", expand);
  y = builtin_linear(n, y, a->hidden, builtin_key(n, "%s.%s", path, k->contract));
  return builtin_layer_norm(n, builtin_add(n, y, x, path), eps, builtin_key(n, "%s.%s", path, k->out_norm));
}

static void build(builtin_net *n, const architecture *a) {
  ir_value mask, ids = builtin_token_inputs(n, a->length, &mask), x = embeddings(n, ids, a);
  for (int i = 0; i < a->layers; i++) x = layer(n, x, mask, a, builtin_key(n, "%s.%d", a->keys->layer, i));
  if (a->types) builtin_unused_linear(n, a->hidden, a->hidden, "pooler.dense");
  builtin_output(n, x, "last_hidden_state");
}

void builtin_bert_base(builtin_net *n) { build(n, &bert_base); }
void builtin_bert_base_s384(builtin_net *n) { build(n, &bert_base_s384); }
void builtin_minilm_l6(builtin_net *n) { build(n, &minilm_l6); }
void builtin_distilbert(builtin_net *n) { build(n, &distilbert); }
