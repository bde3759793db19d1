/* lower_attention.c -- ONNX's Attention, and rotary embeddings. */
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

/* Which of the angles come from stream `stream` of the positions: sections behind each other, or every third of the
 * first ones. */
static ir_value stream_mask(onnx_node *n, const int64_t *sections, int64_t stream, int64_t half) {
  const bool interleaved = onnx_attr_int(n, "mrope_layout", 0);
  const int64_t begin = stream == 2 ? sections[0] + sections[1] : sections[0];
  uint8_t *mask = onnx_alloc(n, (size_t)half + 1);
  for (int64_t i = 0; mask && i < half; i++)
    mask[i] = interleaved ? i % 3 == stream && i < 3 * sections[stream] : i >= begin && i < begin + sections[stream];
  const base_tensor t = base_tensor_of(mask, TD_BOOL, 1, &half);
  return mask ? onnx_constant_in_place(n, &t) : IR_NO_VALUE;
}

/* Rows of a cache at the positions [3, batch, rows] of time, height and width: [batch, rows, half]. */
static ir_value mix_streams(onnx_node *n, ir_value cache, ir_value positions, const ir_value *masks) {
  static const int64_t axis = 0;
  const ir_value in[] = {cache, positions}, rows = ONNX_EMIT_ARGS(n, "aten::index_select", in, 2, ARG_INT("dim", 0));
  ir_value mixed = IR_NO_VALUE;
  for (int64_t s = 0; s < 3; s++) {
    const int64_t end = s + 1;
    ir_value own =
        ONNX_EMIT(n, "aten::slice", rows, onnx_ints(n, &s, 1), onnx_ints(n, &end, 1), onnx_ints(n, &axis, 1));
    own = ONNX_EMIT(n, "aten::squeeze", own, onnx_ints(n, &axis, 1));
    mixed = s ? ONNX_EMIT(n, "aten::where", masks[s], own, mixed) : own;
  }
  return mixed;
}

/* x, positions [3, batch, rows], cos, sin */
static void lower_multimodal_rotary(onnx_node *n) {
  uint32_t count;
  const int64_t *sections = onnx_attr_ints(n, "mrope_section", &count);
  const ir_type *c = onnx_type(n, onnx_in(n, 2));
  if (onnx_attr_int(n, "is_packed_batching", 0)) onnx_fail(n, TD_UNSUPPORTED, "is_packed_batching is not supported");
  if (c->rank != 2 || !base_dim_known(c->dims[1])) onnx_fail(n, TD_UNSUPPORTED, "a cache of an open size");
  if (onnx_failed(n)) return;
  for (uint32_t i = 0; i < count; i++)
    if (sections[i] < 0 || sections[i] > c->dims[1]) count = 0;
  if (count != 3) onnx_fail(n, TD_BAD_FILE, "mrope_section has not three sizes within the caches");
  if (onnx_failed(n)) return;
  const ir_value masks[] = {IR_NO_VALUE, stream_mask(n, sections, 1, c->dims[1]),
                            stream_mask(n, sections, 2, c->dims[1])};
  onnx_out(n, 0,
           rotate(n, onnx_in(n, 0), mix_streams(n, onnx_in(n, 2), onnx_in(n, 1), masks),
                  mix_streams(n, onnx_in(n, 3), onnx_in(n, 1), masks), IR_NO_VALUE));
}

ONNX_DECLARE(attention);
const onnx_lowering onnx_lower_attention[] = {
    {"", "Attention", 23, lower_attention},
    {"", "RotaryEmbedding", 23, lower_rotary},
    {"com.microsoft", "RotaryEmbedding", 1, lower_rotary_ms},
    {"com.microsoft", "MRotaryEmbedding", 1, lower_multimodal_rotary},
};
ONNX_TABLE(attention);
