/* lower_skip_norm.c -- com.microsoft's normalisations: those that add a residual first, embeddings with a layer norm
 * behind them, and group norm with the channels last. */
#include "import/onnx/onnx_priv.h"

/* a + b, or the one there is. */
static ir_value add(onnx_node *n, ir_value a, ir_value b) {
  return !b.id ? a : !a.id ? b : ONNX_EMIT(n, "aten::add", a, b);
}

/* Outputs: 0 the norm, then from 1 on its statistics, and 3 the sum that was normalised. */
static void emit_skip_norm(onnx_node *n, const char *op, ir_value gamma, ir_value beta, ir_value bias,
                           uint32_t results) {
  ir_value sum = add(n, add(n, onnx_in(n, 0), onnx_in(n, 1)), bias), in[] = {sum, gamma, beta}, out[3];
  base_arg args[] = {ARG_FLOAT("eps", onnx_attr_float(n, "epsilon", 1e-12f))};
  onnx_emit_many(n, op, in, beta.id ? 3 : 2, args, 1, out, results);
  for (uint32_t i = 0; i < results; i++) onnx_out(n, i, out[i]);
  onnx_out(n, 3, sum);
}

static void skip_layer_norm(onnx_node *n) {
  emit_skip_norm(n, "aten::native_layer_norm", onnx_in(n, 2), onnx_in(n, 3), onnx_in(n, 4), 3);
}

/* Without statistics among its outputs: 1 is the mean that there is none of, 2 the inverse deviation. */
static void skip_rms_norm(onnx_node *n) {
  if (onnx_wants(n, 1) || onnx_wants(n, 2))
    onnx_fail(n, TD_UNSUPPORTED, "outputs 1 and 2, statistics of training, are not supported");
  emit_skip_norm(n, "aten::rms_norm", onnx_in(n, 2), IR_NO_VALUE, onnx_in(n, 3), 1);
}

static ir_value rows(onnx_node *n, ir_value table, ir_value ids) {
  ir_value in[] = {table, ids};
  return ONNX_EMIT_ARGS(n, "aten::index_select", in, 2, ARG_INT("dim", 0));
}

/* The first rows of the table, as many as the sequence is long. */
static ir_value positions(onnx_node *n, ir_value ids, ir_value table) {
  ir_value zero = onnx_ints(n, (int64_t[]){0}, 1);
  ir_value length = ONNX_EMIT_ARGS(n, "td::shape", &ids, 1, ARG_INT("start", 1), ARG_INT("end", 2));
  return ONNX_EMIT(n, "aten::slice", table, zero, length, zero);
}

/* Elements that the mask keeps per sequence; zeros without a mask. */
static ir_value mask_counts(onnx_node *n, ir_value ids, ir_value mask) {
  static const int64_t sequence[] = {1};
  ir_value of = mask.id ? mask : ONNX_EMIT(n, "aten::sub", ids, ids);
  return onnx_cast(n, ONNX_EMIT_ARGS(n, "aten::sum", &of, 1, ARG_INTS("dim", sequence, 1)), TD_I32);
}

static void embed_layer_norm(onnx_node *n) {
  enum { IDS, SEGMENTS, WORDS, POSITIONS, SEGMENT_TABLE, GAMMA, BETA, MASK, POSITION_IDS };
  ir_value ids = onnx_in(n, IDS), table = onnx_in(n, POSITIONS), sum = rows(n, onnx_in(n, WORDS), ids);
  const ir_value mask = onnx_in(n, MASK); /* for the counts alone */
  sum = add(n, sum, onnx_has(n, POSITION_IDS) ? rows(n, table, onnx_in(n, POSITION_IDS)) : positions(n, ids, table));
  if (onnx_has(n, SEGMENTS) && onnx_has(n, SEGMENT_TABLE))
    sum = add(n, sum, rows(n, onnx_in(n, SEGMENT_TABLE), onnx_in(n, SEGMENTS)));
  ir_value in[] = {sum, onnx_in(n, GAMMA), onnx_in(n, BETA)};
  onnx_out(
      n, 0,
      ONNX_EMIT_ARGS(n, "aten::native_layer_norm", in, 3, ARG_FLOAT("eps", onnx_attr_float(n, "epsilon", 1e-12f))));
  if (onnx_wants(n, 1)) onnx_out(n, 1, mask_counts(n, ids, mask));
  onnx_out(n, 2, sum);
}

static void emit_group_norm(onnx_node *n, ir_value x) {
  static const int64_t to_first[] = {0, 3, 1, 2}, to_last[] = {0, 2, 3, 1};
  bool last = onnx_attr_int(n, "channels_last", 1);
  if (last) x = ONNX_EMIT_ARGS(n, "aten::permute", &x, 1, ARG_INTS("dims", to_first, 4));
  ir_value in[] = {x, onnx_in(n, 1), onnx_in(n, 2)};
  ir_value y = ONNX_EMIT_ARGS(n, "aten::native_group_norm", in, 3, ARG_INT("num_groups", onnx_attr_int(n, "groups", 1)),
                              ARG_FLOAT("eps", onnx_attr_float(n, "epsilon", 1e-5f)));
  if (onnx_attr_int(n, "activation", 0)) y = ONNX_EMIT(n, "aten::silu", y);
  onnx_out(n, 0, last ? ONNX_EMIT_ARGS(n, "aten::permute", &y, 1, ARG_INTS("dims", to_last, 4)) : y);
}

static void group_norm(onnx_node *n) { emit_group_norm(n, onnx_in(n, 0)); }

/* skip may be [n, c]: one value per channel. */
static void skip_group_norm(onnx_node *n) {
  ir_value skip = onnx_in(n, 3);
  if (onnx_type(n, skip)->rank == 2) {
    static const int64_t inside[] = {1, 2}, behind[] = {2, 3};
    skip =
        ONNX_EMIT(n, "aten::unsqueeze", skip, onnx_ints(n, onnx_attr_int(n, "channels_last", 1) ? inside : behind, 2));
  }
  ir_value sum = add(n, add(n, onnx_in(n, 0), skip), onnx_in(n, 4));
  emit_group_norm(n, sum);
  onnx_out(n, 1, sum);
}

ONNX_DECLARE(skip_norm);
const onnx_lowering onnx_lower_skip_norm[] = {
    {"com.microsoft", "SkipLayerNormalization", 1, skip_layer_norm},
    {"com.microsoft", "SkipSimplifiedLayerNormalization", 1, skip_rms_norm},
    {"com.microsoft", "EmbedLayerNormalization", 1, embed_layer_norm},
    {"com.microsoft", "GroupNorm", 1, group_norm},
    {"com.microsoft", "SkipGroupNorm", 1, skip_group_norm},
};
ONNX_TABLE(skip_norm);
