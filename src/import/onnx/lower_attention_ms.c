/* lower_attention_ms.c -- com.microsoft's attention operators, in terms of aten::scaled_dot_product_attention. */
#include "import/onnx/fused_priv.h"

/* Elements [start, end) of `axis`. */
static ir_value part(onnx_node *n, ir_value v, int64_t axis, int64_t start, int64_t end) {
  int64_t starts[] = {start}, ends[] = {end}, axes[] = {axis};
  return ONNX_EMIT(n, "aten::slice", v, onnx_ints(n, starts, 1), onnx_ints(n, ends, 1), onnx_ints(n, axes, 1));
}

/* Element `index` of `axis`, which disappears. */
static ir_value pick(onnx_node *n, ir_value v, int64_t axis, int64_t index) {
  return ONNX_EMIT(n, "aten::squeeze", part(n, v, axis, index, index + 1), onnx_ints(n, &axis, 1));
}

static ir_value add_if(onnx_node *n, ir_value v, ir_value more) {
  if (!more.id) return v;
  return v.id ? ONNX_EMIT(n, "aten::add", v, more) : more;
}

/* How many keys there are with those of the past, [1]: k is [batch, keys, ...] or [batch, heads, keys, size]. */
static ir_value count_keys(onnx_node *n, ir_value k, ir_value past) {
  const int64_t axis = onnx_rank(n, k) == 4 ? 2 : 1;
  return add_if(n, onnx_axis_size(n, k, axis), past.id ? onnx_axis_size(n, past, 2) : past);
}

/* 1 where a key is beyond the `lengths` [batch] of its sample, else 0: [batch, keys]. */
static ir_value beyond(onnx_node *n, ir_value lengths, ir_value keys, td_dtype dtype) {
  static const int64_t last = 1;
  const ir_value positions = onnx_count_to(n, keys);
  const ir_value whole = ONNX_EMIT(n, "aten::unsqueeze", onnx_cast(n, lengths, TD_I64), onnx_ints(n, &last, 1));
  return onnx_cast(n, ONNX_EMIT(n, "aten::ge", positions, whole), dtype);
}

/* The bias on the scores that a mask stands for; none of none. `mask` is 1 where keys count: [batch, keys] or [batch,
 * rows, keys]; or [batch], the number of keys that count. Others stay finite, as in ONNX Runtime: where all are hidden
 * none is. */
static ir_value read_mask(onnx_node *n, ir_value mask, ir_value k, ir_value past, td_dtype dtype) {
  static const int64_t axes[] = {1, 2};
  if (!mask.id) return mask;
  const int32_t rank = onnx_rank(n, mask);
  if (onnx_failed(n)) return IR_NO_VALUE;
  if (rank < 1 || rank > 3) {
    onnx_fail(n, TD_UNSUPPORTED, "a mask of rank %d is not supported", rank);
    return IR_NO_VALUE;
  }
  ir_value hidden = rank == 1 ? beyond(n, mask, count_keys(n, k, past), dtype)
                              : ONNX_EMIT(n, "aten::sub", onnx_cast(n, mask, dtype), onnx_scalar(n, dtype, 1));
  const double filter = onnx_attr_float(n, "mask_filter_value", -10000);
  hidden = ONNX_EMIT(n, "aten::mul", hidden, onnx_scalar(n, dtype, rank == 1 ? filter : -filter));
  return ONNX_EMIT(n, "aten::unsqueeze", hidden, onnx_ints(n, axes, rank == 3 ? 1 : 2));
}

/* Emits attention over q, k, v with a past; `out` gets y, present keys, present values. */
static void attend(onnx_node *n, const ir_value *qkv, ir_value bias, ir_value past_k, ir_value past_v, ir_value *out,
                   uint32_t outs) {
  int64_t heads = onnx_attr_int(n, "num_heads", 1);
  double scale = onnx_attr_float(n, "scale", 0);
  bool causal = onnx_attr_int(n, "unidirectional", 0);
  ir_value in[] = {qkv[0], qkv[1], qkv[2], bias, past_k, past_v};
  base_arg args[] = {ARG_INT("heads", heads), ARG_INT("kv_heads", heads), ARG_BOOL("is_causal", causal),
                     ARG_FLOAT("scale", scale)};
  onnx_emit_many(n, "aten::scaled_dot_product_attention", in,
                 past_k.id ? 6
                 : bias.id ? 4
                           : 3,
                 args, scale != 0 ? 4 : 3, out, outs);
}

/* ---- Attention and QAttention: one product gives queries, keys and values ---- */

/* `joined` [batch, rows, q + k + v] already has its bias. past and present: keys and values along a first axis of 2. */
static void joined_attention(onnx_node *n, ir_value joined, ir_value mask, ir_value past, ir_value bias) {
  uint32_t count;
  const int64_t *sizes = onnx_attr_ints(n, "qkv_hidden_sizes", &count);
  const ir_type *t = onnx_type(n, joined);
  base_dim whole = t->rank == 3 ? t->dims[2] : BASE_DIM_NONE;
  if (count != 3 && (!base_dim_known(whole) || whole % 3 != 0))
    onnx_fail(n, TD_UNSUPPORTED, "the sizes of queries, keys and values are unknown");
  for (uint32_t i = 0; i < count; i++)
    if (sizes[i] < 0 || sizes[i] > INT32_MAX) onnx_fail(n, TD_BAD_FILE, "qkv_hidden_sizes are out of range");
  if (onnx_attr_int(n, "do_rotary", 0) || onnx_attr_int(n, "rotary_embedding_dim", 0))
    onnx_fail(n, TD_UNSUPPORTED, "do_rotary is not supported");
  if (onnx_failed(n)) return;
  int64_t q = count == 3 ? sizes[0] : whole / 3, k = count == 3 ? sizes[1] : q, v = count == 3 ? sizes[2] : q, zero = 0;
  ir_value qkv[] = {part(n, joined, 2, 0, q), part(n, joined, 2, q, q + k), part(n, joined, 2, q + k, q + k + v)};
  ir_value past_k = past.id ? pick(n, past, 0, 0) : IR_NO_VALUE, past_v = past.id ? pick(n, past, 0, 1) : IR_NO_VALUE;
  bias = add_if(n, read_mask(n, mask, qkv[1], past_k, onnx_type_dtype(n, joined)), bias);
  ir_value out[3] = {IR_NO_VALUE, IR_NO_VALUE, IR_NO_VALUE};
  bool wants = onnx_wants(n, 1);
  attend(n, qkv, bias, past_k, past_v, out, wants ? 3 : 1);
  onnx_out(n, 0, out[0]);
  if (!wants) return;
  ir_value pair[] = {ONNX_EMIT(n, "aten::unsqueeze", out[1], onnx_ints(n, &zero, 1)),
                     ONNX_EMIT(n, "aten::unsqueeze", out[2], onnx_ints(n, &zero, 1))};
  onnx_out(n, 1, ONNX_EMIT_ARGS(n, "aten::cat", pair, 2, ARG_INT("dim", 0)));
}

/* input, weights, bias, mask, past, attention bias */
static void lower_attention(onnx_node *n) {
  if (onnx_attr_int(n, "past_present_share_buffer", 0))
    onnx_fail(n, TD_UNSUPPORTED, "past_present_share_buffer is not supported");
  ir_value joined = add_if(n, ONNX_EMIT(n, "aten::matmul", onnx_in(n, 0), onnx_in(n, 1)), onnx_in(n, 2));
  joined_attention(n, joined, onnx_in(n, 3), onnx_in(n, 4), onnx_in(n, 5));
}

/* input, weights, bias, input scale, weight scale, mask, input zero, weight zero, past */
static void lower_qattention(onnx_node *n) {
  ir_value in[] = {onnx_in(n, 0), onnx_in(n, 1), onnx_in(n, 6), onnx_in(n, 7)};
  ir_value sums = onnx_emit(n, "td::matmul_integer", in, 4, NULL, 0);
  ir_value scale = ONNX_EMIT(n, "aten::mul", onnx_in(n, 3), onnx_in(n, 4));
  ir_value joined = ONNX_EMIT(n, "aten::mul", onnx_cast(n, sums, onnx_type_dtype(n, scale)), scale);
  joined_attention(n, add_if(n, joined, onnx_in(n, 2)), onnx_in(n, 5), onnx_in(n, 8), IR_NO_VALUE);
}

/* ---- MultiHeadAttention ---- */

/* Part `index` of an operand [batch, rows, heads, parts, size], as [batch, rows, heads * size]. */
static ir_value unpack(onnx_node *n, ir_value v, int64_t index) {
  static const int64_t shape[] = {0, 0, -1};
  ir_value in[] = {pick(n, v, 3, index), onnx_ints(n, shape, 3)};
  return ONNX_EMIT_ARGS(n, "aten::view", in, 2, ARG_BOOL("zero_copies", true));
}

/* The bias lists those of queries, keys and values. */
static void add_biases(onnx_node *n, ir_value *qkv, ir_value bias) {
  const ir_type *q = onnx_type(n, qkv[0]), *b = onnx_type(n, bias);
  if (q->rank != 3 || b->rank != 1 || !base_dim_known(q->dims[2]) || !base_dim_known(b->dims[0])) {
    onnx_fail(n, TD_UNSUPPORTED, "a bias needs queries of a known size");
    return;
  }
  int64_t size = q->dims[2], all = b->dims[0], two;
  if (!base_mul_i64(2, size, &two)) onnx_fail(n, TD_BAD_FILE, "queries of %lld numbers", (long long)size);
  if (onnx_failed(n)) return;
  qkv[0] = ONNX_EMIT(n, "aten::add", qkv[0], part(n, bias, 0, 0, size));
  if (onnx_rank(n, qkv[1]) == 3) qkv[1] = ONNX_EMIT(n, "aten::add", qkv[1], part(n, bias, 0, size, two));
  if (onnx_rank(n, qkv[2]) == 3) qkv[2] = ONNX_EMIT(n, "aten::add", qkv[2], part(n, bias, 0, two, all));
}

/* query, key, value, bias, key padding mask, attention bias, past key, past value */
static void lower_multi_head(onnx_node *n) {
  ir_value qkv[] = {onnx_in(n, 0), onnx_in(n, 1), onnx_in(n, 2)};
  if (!qkv[1].id) {
    for (uint32_t i = 3; i-- > 0;) qkv[i] = unpack(n, qkv[0], i);
  } else if (!qkv[2].id) {
    for (uint32_t i = 3; i-- > 1;) qkv[i] = unpack(n, qkv[1], i - 1);
  }
  if (onnx_has(n, 3)) add_biases(n, qkv, onnx_in(n, 3));
  ir_value bias = read_mask(n, onnx_in(n, 4), qkv[1], onnx_in(n, 6), onnx_type_dtype(n, qkv[0]));
  bias = add_if(n, bias, onnx_in(n, 5));
  ir_value out[3] = {IR_NO_VALUE, IR_NO_VALUE, IR_NO_VALUE};
  attend(n, qkv, bias, onnx_in(n, 6), onnx_in(n, 7), out, onnx_out_count(n) > 1 ? 3 : 1);
  for (uint32_t i = 0; i < 3; i++)
    if (onnx_wants(n, i)) onnx_out(n, i, out[i]);
}

ONNX_DECLARE(attention_ms);
const onnx_lowering onnx_lower_attention_ms[] = {
    {"com.microsoft", "Attention", 1, lower_attention},
    {"com.microsoft", "QAttention", 1, lower_qattention},
    {"com.microsoft", "MultiHeadAttention", 1, lower_multi_head},
};
ONNX_TABLE(attention_ms);
