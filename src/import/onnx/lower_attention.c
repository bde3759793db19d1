/* lower_attention.c -- ONNX's Attention and RotaryEmbedding. */
#include "import/onnx/onnx_priv.h"

/* q, k, v, mask, past key, past value, valid keys. */
static void lower_attention(onnx_node *n) {
  ir_value in[7], out[4] = {IR_NO_VALUE, IR_NO_VALUE, IR_NO_VALUE, IR_NO_VALUE};
  uint32_t ins = onnx_in_count(n) < 7 ? onnx_in_count(n) : 7, outs = onnx_out_count(n) < 4 ? onnx_out_count(n) : 4,
           count = 0;
  for (uint32_t i = 0; i < ins; i++) in[i] = onnx_in(n, i);
  base_arg args[8];
  if (onnx_attr_has(n, "scale")) args[count++] = ARG_FLOAT("scale", onnx_attr_float(n, "scale", 1));
  args[count++] = ARG_BOOL("is_causal", onnx_attr_int(n, "is_causal", 0) != 0);
  args[count++] = ARG_FLOAT("softcap", onnx_attr_float(n, "softcap", 0));
  args[count++] = ARG_INT("heads", onnx_attr_int(n, "q_num_heads", 0));
  args[count++] = ARG_INT("kv_heads", onnx_attr_int(n, "kv_num_heads", 0));
  args[count++] = ARG_INT("scores", onnx_attr_int(n, "qk_matmul_output_mode", 0));
  args[count++] = ARG_INT("left_window", onnx_attr_int(n, "left_window_size", -1));
  args[count++] = ARG_INT("right_window", onnx_attr_int(n, "right_window_size", -1));
  onnx_emit_many(n, "aten::scaled_dot_product_attention", in, ins, args, count, out, outs ? outs : 1);
  for (uint32_t i = 0; i < outs; i++)
    if (onnx_wants(n, i)) onnx_out(n, i, out[i]);
}

static ir_value rotate(onnx_node *n, ir_value x, ir_value cosine, ir_value sine, ir_value positions) {
  ir_value in[] = {x, cosine, sine, positions};
  return ONNX_EMIT_ARGS(n, "td::rotary_embedding", in, positions.id ? 4 : 3,
                        ARG_BOOL("interleaved", onnx_attr_int(n, "interleaved", 0) != 0),
                        ARG_INT("heads", onnx_attr_int(n, "num_heads", 0)),
                        ARG_INT("rotary_size", onnx_attr_int(n, "rotary_embedding_dim", 0)));
}

static void lower_rotary(onnx_node *n) {
  onnx_out(n, 0, rotate(n, onnx_in(n, 0), onnx_in(n, 1), onnx_in(n, 2), onnx_in(n, 3)));
}

/* com.microsoft: positions come second. Without num_heads a rank-3 x has heads twice as wide as the caches. */
static void lower_rotary_ms(onnx_node *n) {
  if (onnx_attr_int(n, "is_packed_batching", 0)) onnx_fail(n, TD_UNSUPPORTED, "is_packed_batching is not supported");
  ir_value x = onnx_in(n, 0), cosine = onnx_in(n, 2), in[] = {x, cosine, onnx_in(n, 3), onnx_in(n, 1)};
  int64_t heads = onnx_attr_int(n, "num_heads", 0), rotary = onnx_attr_int(n, "rotary_embedding_dim", 0);
  const ir_type *t = onnx_type(n, x), *c = onnx_type(n, cosine);
  if (heads == 0 && t->rank == 3 && c->rank == 2 && base_dim_known(t->dims[2]) && base_dim_known(c->dims[1]) &&
      c->dims[1] > 0)
    heads = t->dims[2] / 2 / c->dims[1];
  onnx_out(
      n, 0,
      ONNX_EMIT_ARGS(n, "td::rotary_embedding", in, 4, ARG_BOOL("interleaved", onnx_attr_int(n, "interleaved", 0) != 0),
                     ARG_INT("heads", heads), ARG_INT("rotary_size", rotary)));
}

ONNX_DECLARE(attention);
const onnx_lowering onnx_lower_attention[] = {
    {"", "Attention", 23, lower_attention},
    {"", "RotaryEmbedding", 23, lower_rotary},
    {"com.microsoft", "RotaryEmbedding", 1, lower_rotary_ms},
};
ONNX_TABLE(attention);
