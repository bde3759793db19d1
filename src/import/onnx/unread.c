/* unread.c -- attributes and inputs that a lowering never asked for: a number that may mean something is refused, not
 * passed over in silence. */
#include "import/onnx/state_priv.h"

#include <string.h>

/* Attributes that change no result of an inference, or that the operands tell as well. */
static const struct {
  const char *op, *attr; /* op "": any */
} harmless[] = {
    {"", "consumed_inputs"},
    {"BatchNormalization", "is_test"},
    {"BatchNormalization", "momentum"},
    {"BiasSoftmax", "is_inner_broadcast"}, /* the shape of the bias tells */
    {"Dropout", "is_test"},
    {"Dropout", "ratio"},
    {"Dropout", "seed"},
    {"EmbedLayerNormalization", "mask_index_type"},
    {"Gemm", "broadcast"},
    {"GroupQueryAttention", "kv_cache_bit_width"}, /* of inputs that are refused, like the next three */
    {"GroupQueryAttention", "k_norm_epsilon"},
    {"GroupQueryAttention", "q_norm_epsilon"},
    {"GroupQueryAttention", "qk_norm_epsilon"},
    {"LinearAttention", "chunk_size"}, /* how a kernel cuts its work */
    {"MatMulBnb4", "training_mode"},
    {"Optional", "type"},
    {"QuantizeLinear", "precision"}, /* at least that of the scale */
    {"Attention", "softmax_precision"},
    {"Range", "stash_type"},
};

bool onnx_attr_harmless(const char *op, base_str attr) {
  for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
    if (base_str_is(attr, harmless[i].attr) && (!*harmless[i].op || !strcmp(harmless[i].op, op))) return true;
  return false;
}

void onnx_refuse_unread(onnx_node *n) {
  for (uint32_t i = 0; i < n->attr_count && !onnx_failed(n); i++) {
    const base_str name = n->attrs[i].name;
    if (!n->attr_read[i] && !onnx_attr_harmless(n->op_type, name))
      onnx_fail(n, TD_UNSUPPORTED, "the attribute \"%.*s\" is not supported here", (int)name.length, name.at);
  }
  for (uint32_t i = 0; i < n->in_count && !onnx_failed(n); i++)
    if (n->in[i].id && !n->in_read[i]) onnx_fail(n, TD_UNSUPPORTED, "input %u is not supported here", i);
}
