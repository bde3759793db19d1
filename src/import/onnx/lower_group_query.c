/* lower_group_query.c -- com.microsoft's GroupQueryAttention: td::group_query_attention, which owns its cache, over the
 * whole sequence or over a window of it. */
#include "import/onnx/fused_priv.h"

#include <string.h>

enum { QUERY, KEY, VALUE, PAST_KEY, PAST_VALUE, LAST, TOTAL, COS, SIN, POSITIONS, BIAS, SINK, INPUTS };

/* Results: y, present keys, present values. */
static void attend(onnx_node *n, const ir_value *in, ir_value *out, uint32_t outs) {
  uint32_t count = INPUTS;
  while (count > TOTAL + 1 && !in[count - 1].id) count--;
  const base_arg args[] = {ARG_INT("heads", onnx_attr_int(n, "num_heads", 1)),
                           ARG_INT("kv_heads", onnx_attr_int(n, "kv_num_heads", 1)),
                           ARG_FLOAT("scale", onnx_attr_float(n, "scale", 0)),
                           ARG_FLOAT("softcap", onnx_attr_float(n, "softcap", 0)),
                           ARG_BOOL("rotary", onnx_attr_int(n, "do_rotary", 0) != 0),
                           ARG_BOOL("interleaved", onnx_attr_int(n, "rotary_interleaved", 0) != 0),
                           ARG_INT("window", onnx_attr_int(n, "local_window_size", -1)),
                           ARG_BOOL("smooth", onnx_attr_int(n, "smooth_softmax", 0) > 0)};
  onnx_emit_many(n, "td::group_query_attention", in, count, args, 8, out, outs);
}

/* ---- a cache of the last positions alone ---- */

/* Row i of a cache of C rows is position T - L + i, of T in all, with L = T - G max(0, floor((T - W) / G)), W the
 * window and G = C - W + 1: the window stays, and G rows leave at once. com.microsoft GroupQueryAttention 1, "Windowed
 * KV Cache". Counts are [1] or [batch], i64. */
typedef struct window_cache {
  ir_value rows, capacity; /* of this step; of the past */
  ir_value before;         /* positions in front of this step */
  ir_value kept;           /* of them in the cache */
  ir_value after;          /* rows that leave the cache behind this step */
} window_cache;

static ir_value whole(onnx_node *n, int64_t v) { return onnx_scalar(n, TD_I64, (double)v); }

/* L of `total` positions. */
static ir_value resident(onnx_node *n, ir_value total, ir_value capacity, int64_t window) {
  const ir_value gap =
      ONNX_EMIT(n, "aten::maximum", ONNX_EMIT(n, "aten::sub", capacity, whole(n, window - 1)), whole(n, 1));
  ir_value beyond[] = {ONNX_EMIT(n, "aten::maximum", ONNX_EMIT(n, "aten::sub", total, whole(n, window)), whole(n, 0)),
                       gap};
  const ir_value times = ONNX_EMIT_ARGS(n, "aten::div", beyond, 2, ARG_STR("rounding_mode", "floor"));
  return ONNX_EMIT(n, "aten::sub", total, ONNX_EMIT(n, "aten::mul", times, gap));
}

static window_cache read_cache(onnx_node *n, const ir_value *in, int64_t window) {
  window_cache c = {.rows = onnx_axis_size(n, in[QUERY], 1), .capacity = onnx_axis_size(n, in[PAST_KEY], 2)};
  const ir_value total = ONNX_EMIT(n, "aten::add", onnx_cast(n, in[LAST], TD_I64), whole(n, 1));
  c.before = ONNX_EMIT(n, "aten::maximum", ONNX_EMIT(n, "aten::sub", total, c.rows), whole(n, 0));
  c.kept = resident(n, c.before, c.capacity, window);
  const ir_value step = ONNX_EMIT(n, "aten::sub", total, c.before);
  c.after = ONNX_EMIT(n, "aten::sub", ONNX_EMIT(n, "aten::add", c.kept, step), resident(n, total, c.capacity, window));
  return c;
}

/* Rows [after, after + capacity) of each sample's cache of capacity + rows; behind its end, its last one. */
static ir_value leave_rows(onnx_node *n, const window_cache *c, ir_value past, ir_value all) {
  static const int64_t sample[] = {1, 2}, row[] = {3};
  const ir_value last = ONNX_EMIT(n, "aten::sub", ONNX_EMIT(n, "aten::add", c->capacity, c->rows), whole(n, 1));
  ir_value at = ONNX_EMIT(n, "aten::unsqueeze", c->after, onnx_ints(n, sample, 2));
  at = ONNX_EMIT(n, "aten::minimum", ONNX_EMIT(n, "aten::add", at, onnx_count_to(n, c->capacity)), last);
  at = ONNX_EMIT(n, "aten::expand", at,
                 ONNX_EMIT_ARGS(n, "td::shape", &past, 1, ARG_INT("start", 0), ARG_INT("end", 3)));
  const ir_value in[] = {all, ONNX_EMIT(n, "aten::unsqueeze", at, onnx_ints(n, row, 1))};
  return ONNX_EMIT_ARGS(n, "td::gather_nd", in, 2, ARG_INT("batch_dims", 2));
}

/* Attention over the rows that are kept and the new ones behind them, which need know how far apart they are alone;
 * then what the window has left behind leaves. */
static void attend_window(onnx_node *n, ir_value *in, ir_value *out, uint32_t outs) {
  const int64_t window = onnx_attr_int(n, "local_window_size", -1), each = 1;
  if (window < 1) onnx_fail(n, TD_BAD_FILE, "sliding_window_cache needs a local_window_size");
  if (in[BIAS].id || !in[PAST_KEY].id || !in[PAST_VALUE].id)
    onnx_fail(n, TD_UNSUPPORTED, "sliding_window_cache with a bias, or without a past, is not supported");
  if (onnx_failed(n)) return;
  const window_cache c = read_cache(n, in, window);
  const ir_value one = whole(n, 1);
  if (!in[POSITIONS].id && onnx_attr_int(n, "do_rotary", 0))
    in[POSITIONS] = ONNX_EMIT(n, "aten::add", ONNX_EMIT(n, "aten::unsqueeze", c.before, onnx_ints(n, &each, 1)),
                              onnx_count_to(n, c.rows));
  in[LAST] = ONNX_EMIT(n, "aten::sub", ONNX_EMIT(n, "aten::add", c.kept, c.rows), one);
  in[TOTAL] = ONNX_EMIT(n, "aten::add", c.capacity, c.rows);
  attend(n, in, out, 3);
  for (uint32_t i = 1; i < outs; i++) out[i] = leave_rows(n, &c, in[i == 1 ? PAST_KEY : PAST_VALUE], out[i]);
}

static void lower_group_query(onnx_node *n) {
  ir_value in[INPUTS], out[3] = {IR_NO_VALUE, IR_NO_VALUE, IR_NO_VALUE};
  const char *const caches[] = {onnx_attr_str(n, "k_quant_type", "NONE"), onnx_attr_str(n, "v_quant_type", "NONE")};
  if (onnx_in_count(n) > INPUTS || strcmp(caches[0], "NONE") != 0 || strcmp(caches[1], "NONE") != 0)
    onnx_fail(n, TD_UNSUPPORTED, "quantised caches, norms of queries and keys, and padded queries are not supported");
  if (!onnx_attr_int(n, "causal", 1)) onnx_fail(n, TD_UNSUPPORTED, "causal = 0 is not supported");
  if (onnx_attr_int(n, "qk_output", 0)) onnx_fail(n, TD_UNSUPPORTED, "qk_output is not supported");
  for (uint32_t i = 0; i < INPUTS; i++) in[i] = onnx_in(n, i);
  const uint32_t outs = onnx_out_count(n) > 1 ? 3 : 1;
  if (onnx_attr_int(n, "sliding_window_cache", 0)) attend_window(n, in, out, outs);
  else attend(n, in, out, outs);
  for (uint32_t i = 0; i < 3; i++)
    if (onnx_wants(n, i)) onnx_out(n, i, out[i]);
}

ONNX_DECLARE(group_query);
const onnx_lowering onnx_lower_group_query[] = {
    {"com.microsoft", "GroupQueryAttention", 1, lower_group_query},
};
ONNX_TABLE(group_query);
