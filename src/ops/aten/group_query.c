/* group_query.c -- td::group_query_attention: attention with a cache as com.microsoft's GroupQueryAttention has it.
 * query [batch, rows, heads * size], or with keys and values packed behind; key, value [batch, rows, kv_heads * size];
 * past key, value [batch, kv_heads, room, size]; keys in use less one per sample (these rows included); total keys of
 * the longest sample; cos and sin caches [positions, half]; positions; bias; one sink score per head. Results: y like
 * the query, present key and value [batch, kv_heads, max(room, total), size]. Always causal. Computed in f32 and
 * rounded once.
 *
 * y = softmax(scale q k^T + bias) v, k and v of the head's group out of the cache. com.microsoft GroupQueryAttention
 * 1; Ainslie et al. 2023. */
#include "ops/common/attention_priv.h"

#include <math.h>

enum { QUERY, KEY, VALUE, PAST_KEY, PAST_VALUE, LAST, TOTAL, COS, SIN, POSITIONS, BIAS, SINK };
enum { HEADS, KV_HEADS, SCALE, SOFTCAP, ROTARY, INTERLEAVED, WINDOW, SMOOTH };
static const ir_attr group_attrs[] = {
    ATTR_INT("heads", 1),     ATTR_INT("kv_heads", 1),    ATTR_FLOAT("scale", 0), /* 0: 1 / sqrt(size) */
    ATTR_FLOAT("softcap", 0), ATTR_BOOL("rotary", false), ATTR_BOOL("interleaved", false),
    ATTR_INT("window", -1),   ATTR_BOOL("smooth", false)};

static td_status infer_group(ir_infer *ctx) {
  const ir_type *q = &ir_in(ctx, QUERY)->type, *past = ir_in(ctx, PAST_KEY) ? &ir_in(ctx, PAST_KEY)->type : NULL;
  int64_t heads = base_attr_int(ctx->attrs, HEADS), kv_heads = base_attr_int(ctx->attrs, KV_HEADS);
  if (q->dtype != TD_F32 && q->dtype != TD_F16 && q->dtype != TD_BF16)
    return base_fail(ctx->err, TD_UNSUPPORTED, NULL, -1, "%s: element type %s", ctx->op->name, td_dtype_name(q->dtype));
  if (!ir_in(ctx, LAST) || !ir_in(ctx, TOTAL)) return ir_infer_fail(ctx, "the numbers of keys are missing");
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0 || heads > INT32_MAX)
    return ir_infer_fail(ctx, "%lld heads do not share %lld key heads evenly", (long long)heads, (long long)kv_heads);
  if (q->rank == IR_UNRANKED || (past && past->rank == IR_UNRANKED)) {
    for (uint32_t i = 0; i < ctx->out_count; i++) TRY(ir_out_unranked(ctx, i, q->dtype));
    return TD_OK;
  }
  if (q->rank != 3 || (past && past->rank != 4)) return ir_infer_fail(ctx, "a query of rank %d", q->rank);
  bool packed = !ir_in(ctx, KEY);
  base_dim size = base_dim_div(ctx->dims, q->dims[2], packed ? heads + 2 * kv_heads : heads), total;
  const base_dim *given;
  uint32_t count;
  total = ir_in_ints(ctx, TOTAL, &given, &count) && count == 1 ? given[0] : ir_fresh(ctx);
  if (past) total = base_dim_binary(ctx->dims, BASE_DIM_MAX, past->dims[2], total);
  TRY(ir_out(ctx, 0, q->dtype, 3, (base_dim[]){q->dims[0], q->dims[1], base_dim_mul(ctx->dims, size, heads)}));
  base_dim present[] = {q->dims[0], kv_heads, total, size};
  for (uint32_t i = 1; i < ctx->out_count; i++) TRY(ir_out(ctx, i, q->dtype, 4, present));
  return TD_OK;
}

/* Sizes, and where new rows come from: element [b, s, h, k] of part p at rows[p][(b * queries + s) * row[p] + h * size
 * + k]. */
typedef struct group_state {
  int64_t batch, queries, heads, kv_heads, size, room, past_room;
  const base_f32 *rows[3];
  int64_t row[3];
  int64_t *lengths, *offsets; /* keys in use with the new rows; before them */
  bool rotary;
  const base_f32 *cosine, *sine;
  const base_i64 *positions;
  int64_t half, cached;
} group_state;

static td_status read_rows(const base_call *call, group_state *g) {
  const base_tensor *q = base_in(call, QUERY);
  bool packed = !base_in(call, KEY);
  g->heads = base_attr_int(call->attrs, HEADS);
  g->kv_heads = base_attr_int(call->attrs, KV_HEADS);
  g->batch = q->dims[0];
  g->queries = q->dims[1];
  int64_t parts = packed ? g->heads + 2 * g->kv_heads : g->heads;
  g->size = q->dims[2] / parts;
  if (q->dims[2] % parts != 0)
    return ops_fail(call, "%lld elements do not split into %lld heads", (long long)q->dims[2], (long long)parts);
  for (uint32_t i = 0; i < 3; i++) {
    const base_tensor *t = base_in(call, packed ? QUERY : i);
    if (!t) return ops_fail(call, "keys are given without values");
    if (!packed && i && base_tensor_numel(t) != g->batch * g->queries * g->kv_heads * g->size)
      return ops_fail(call, "operand %u has not the shape [batch, rows, kv heads * size]", i);
    g->rows[i] = packed && i ? g->rows[0] : ops_dense_f32(call, i);
    if (!g->rows[i]) return base_no_memory(call->err, "scratch");
    g->row[i] = packed ? q->dims[2] : (i ? g->kv_heads : g->heads) * g->size;
  }
  if (packed) g->rows[1] += g->heads * g->size, g->rows[2] += (g->heads + g->kv_heads) * g->size;
  return TD_OK;
}

static td_status read_lengths(const base_call *call, group_state *g) {
  const base_i64 *last = ops_dense_i64(call, LAST);
  const base_tensor *past = base_in(call, PAST_KEY), *past_v = base_in(call, PAST_VALUE);
  int64_t total = 0;
  uint32_t count;
  TRY(ops_read_ints(call, TOTAL, 1, &total, &count));
  g->lengths = base_call_scratch(call, (size_t)g->batch, 2 * sizeof *g->lengths);
  if (!last || !g->lengths) return base_no_memory(call->err, "scratch");
  g->offsets = g->lengths + g->batch;
  g->past_room = past ? past->dims[2] : 0;
  g->room = base_max_i64(g->past_room, total);
  if (g->room > INT32_MAX) return ops_fail(call, "%lld keys in all", (long long)g->room);
  if (past && (past->rank != 4 || past->dims[0] != g->batch || past->dims[1] != g->kv_heads ||
               past->dims[3] != g->size || !past_v || base_tensor_numel(past_v) != base_tensor_numel(past)))
    return ops_fail(call, "the past keys and values do not fit");
  if (base_tensor_numel(base_in(call, LAST)) != g->batch) return ops_fail(call, "there is not one length per sample");
  bool first = total == g->queries; /* a prompt: nothing lies before it, and shorter samples are padded at the end */
  for (int64_t b = 0; b < g->batch; b++) {
    g->lengths[b] = base_max_i64(base_min_i64(last[b], INT32_MAX), -INT32_MAX) + 1;
    g->offsets[b] = first ? 0 : g->lengths[b] - g->queries;
    if (g->offsets[b] < 0 || g->offsets[b] > g->past_room || g->lengths[b] < 0 || g->offsets[b] + g->queries > g->room)
      return ops_fail(call, "sample %lld has %lld keys, which do not fit %lld new rows and a past of %lld",
                      (long long)b, (long long)g->lengths[b], (long long)g->queries, (long long)g->past_room);
  }
  return TD_OK;
}

static td_status read_caches(const base_call *call, group_state *g) {
  const base_tensor *c = base_in(call, COS), *s = base_in(call, SIN), *p = base_in(call, POSITIONS);
  g->rotary = base_attr_int(call->attrs, ROTARY);
  if (!g->rotary) return TD_OK;
  if (!c || !s || c->rank != 2 || base_tensor_numel(c) != base_tensor_numel(s) || 2 * c->dims[1] > g->size)
    return ops_fail(call, "rotation needs cos and sin caches of at most %lld columns", (long long)g->size / 2);
  g->cached = c->dims[0];
  g->half = c->dims[1];
  g->cosine = ops_dense_f32(call, COS);
  g->sine = ops_dense_f32(call, SIN);
  g->positions = ops_dense_i64(call, POSITIONS);
  if (!g->cosine || !g->sine || (p && !g->positions)) return base_no_memory(call->err, "scratch");
  if (p && base_tensor_numel(p) != g->batch * g->queries) return ops_fail(call, "there is not one position per row");
  for (int64_t i = 0; i < g->batch * g->queries; i++) {
    int64_t at = g->positions ? g->positions[i] : g->offsets[i / g->queries] + i % g->queries;
    if (at < 0 || at >= g->cached)
      return ops_fail(call, "position %lld is outside the caches of %lld rows", (long long)at, (long long)g->cached);
  }
  return TD_OK;
}

/* New row s of head h of part p, rotated where that is asked for. */
static void put_row(const base_call *call, const group_state *g, int part, int64_t b, int64_t s, int64_t h,
                    base_f32 *to) {
  const base_f32 *from = g->rows[part] + (b * g->queries + s) * g->row[part] + h * g->size;
  if (!g->rotary || part == 2) {
    for (int64_t k = 0; k < g->size; k++) to[k] = from[k];
    return;
  }
  int64_t at = g->positions ? g->positions[b * g->queries + s] : g->offsets[b] + s;
  ops_rotate(from, g->size, g->half, base_attr_int(call->attrs, INTERLEAVED), g->cosine + at * g->half,
             g->sine + at * g->half, to);
}

/* The past of one part with the new rows behind what is in use; the rest stays zero. */
static td_status join_rows(const base_call *call, const group_state *g, int part, uint32_t past_in, base_f32 **joined) {
  size_t rows = (size_t)(g->batch * g->kv_heads * g->room), bytes = (size_t)g->size * sizeof(float);
  uint32_t out = (uint32_t)part;
  base_f32 *to = base_out(call, out) ? ops_take_f32(call, out) : base_call_scratch(call, rows, bytes);
  const base_f32 *past = base_in(call, past_in) ? ops_dense_f32(call, past_in) : NULL;
  if (!to || (base_in(call, past_in) && !past)) return base_no_memory(call->err, "scratch");
  for (int64_t i = 0; g->room * g->size > 0 && i < g->batch * g->kv_heads; i++) {
    int64_t b = i / g->kv_heads, old = g->offsets[b];
    base_f32 *head = to + i * g->room * g->size;
    for (int64_t k = 0; k < g->room * g->size; k++)
      head[k] = k < old * g->size ? past[i * g->past_room * g->size + k] : 0;
    for (int64_t s = 0; s < g->queries; s++) put_row(call, g, part, b, s, i % g->kv_heads, head + (old + s) * g->size);
  }
  if (base_out(call, out)) ops_put(call, out, TD_F32, to);
  *joined = to;
  return TD_OK;
}

static td_status take_extras(const base_call *call, attention *a) {
  const base_tensor *bias = base_in(call, BIAS), *sink = base_in(call, SINK);
  int64_t dims[] = {a->batch, a->heads, a->queries, a->keys};
  if (bias) {
    if (bias->rank != 4) return ops_fail(call, "a bias of rank %d", bias->rank);
    for (int i = 0; i < 4; i++) {
      if (bias->dims[i] != 1 && bias->dims[i] != dims[i] && !(i == 3 && bias->dims[i] < dims[i])) {
        char text[200];
        return ops_fail(call, "the bias %s does not broadcast to the scores [%lld,%lld,%lld,%lld]",
                        base_tensor_describe(bias, text, sizeof text), (long long)dims[0], (long long)dims[1],
                        (long long)dims[2], (long long)dims[3]);
      }
      a->masks[0].strides[i] = bias->dims[i] == 1 ? 0 : bias->strides[i];
    }
    a->masks[0].at = bias;
    a->mask_keys = bias->dims[3] == 1 ? a->keys : bias->dims[3];
  }
  if (!sink && !base_attr_int(call->attrs, SMOOTH)) return TD_OK;
  if (sink && base_tensor_numel(sink) != a->heads) return ops_fail(call, "there is not one sink per head");
  float *sinks = base_call_scratch(call, (size_t)a->heads, sizeof *sinks);
  const base_f32 *given = sink ? ops_dense_f32(call, SINK) : NULL;
  if (!sinks || (sink && !given)) return base_no_memory(call->err, "scratch");
  for (int64_t h = 0; h < a->heads; h++) sinks[h] = given ? given[h] : 0;
  a->sinks = sinks;
  return TD_OK;
}

static td_status group_reference(const base_call *call) {
  group_state g = {0};
  base_f32 *k = NULL, *v = NULL;
  TRY(read_rows(call, &g));
  TRY(read_lengths(call, &g));
  TRY(read_caches(call, &g));
  TRY(join_rows(call, &g, 1, PAST_KEY, &k));
  TRY(join_rows(call, &g, 2, PAST_VALUE, &v));
  int64_t wide = g.heads * g.size, head = g.room * g.size;
  float *q = base_call_scratch(call, (size_t)(g.batch * g.queries), (size_t)wide * sizeof *q);
  base_f32 *y = base_out(call, 0) ? ops_take_f32(call, 0)
                                  : base_call_scratch(call, (size_t)(g.batch * g.queries), (size_t)wide * sizeof *q);
  if (!q || !y) return base_no_memory(call->err, "scratch");
  for (int64_t i = 0; g.size > 0 && i < g.batch * g.queries * g.heads; i++)
    put_row(call, &g, 0, i / g.heads / g.queries, i / g.heads % g.queries, i % g.heads, q + i * g.size);
  double scale = base_attr_float(call->attrs, SCALE);
  int64_t window = base_attr_int(call->attrs, WINDOW); /* keys that a row sees, itself included */
  attention a = {.batch = g.batch,
                 .heads = g.heads,
                 .kv_heads = g.kv_heads,
                 .queries = g.queries,
                 .keys = g.room,
                 .size = g.size,
                 .value_size = g.size,
                 .q = {q, g.queries * wide, g.size, wide},
                 .k = {k, g.kv_heads * head, head, g.size},
                 .v = {v, g.kv_heads * head, head, g.size},
                 .y = {y, g.queries * wide, g.size, wide},
                 .scale = (float)(scale != 0 ? scale : 1 / sqrt((double)g.size)),
                 .softcap = (float)base_attr_float(call->attrs, SOFTCAP),
                 .causal = true,
                 .rows = KERN_ATTENTION_SAFE,
                 .left = window < 0 ? -1 : base_max_i64(window - 1, 0),
                 .right = -1,
                 .lengths = g.lengths,
                 .offsets = g.offsets};
  TRY(take_extras(call, &a));
  TRY(ops_attend(call, &a));
  if (base_out(call, 0)) ops_put(call, 0, TD_F32, y);
  return TD_OK;
}

static bool cases_group(ir_case *c, uint32_t number) {
  static const int64_t prompt[] = {2, 1}, step[] = {3}, three[] = {3}, four[] = {4};
  if (number >= 2) return false;
  ops_case_arg(c, ARG_INT("heads", 4));
  ops_case_arg(c, ARG_INT("kv_heads", 2));
  if (number == 0)
    return ops_case_in(c, TD_F32, OPS_DIMS(2, 3, 16), OPS_NORMAL, 1) &&
           ops_case_in(c, TD_F32, OPS_DIMS(2, 3, 8), OPS_NORMAL, 2) &&
           ops_case_in(c, TD_F32, OPS_DIMS(2, 3, 8), OPS_NORMAL, 3) && ops_case_absent(c) && ops_case_absent(c) &&
           ops_case_ints(c, prompt, 2) && ops_case_ints(c, three, 1);
  ops_case_arg(c, ARG_INT("window", 2));
  return ops_case_in(c, TD_F32, OPS_DIMS(1, 1, 32), OPS_NORMAL, 4) && ops_case_absent(c) && ops_case_absent(c) &&
         ops_case_in(c, TD_F32, OPS_DIMS(1, 2, 3, 4), OPS_NORMAL, 5) &&
         ops_case_in(c, TD_F32, OPS_DIMS(1, 2, 3, 4), OPS_NORMAL, 6) && ops_case_ints(c, step, 1) &&
         ops_case_ints(c, four, 1);
}

OPS_DECLARE(group_query);
const ir_op ops_group_query[] = {
    {.id = OPERATOR(td, group_query_attention),
     .min_in = 1,
     .max_in = 12,
     .out_count = 3,
     .attrs = group_attrs,
     .attr_count = OPS_COUNT(group_attrs),
     .infer = infer_group,
     .reference = group_reference,
     .rtol = 1e-4f,
     .atol = 1e-5f},
};
OPS_TABLE(group_query);
OPS_CASES(group_query) = {
    {OP_td_group_query_attention, cases_group},
    {0},
};
