/* attention.c -- aten::scaled_dot_product_attention with ONNX's operands: q, k, v as [batch, heads, rows, size], or as
 * [batch, rows, heads * size] with the numbers of heads given; mask; past keys and values, put in front; valid keys per
 * sample. Results: y like q, present keys and values [batch, kv heads, past + rows, size], scores. Also
 * td::rotary_embedding. f16 and bf16 are computed in f32 and rounded once.
 *
 *     aten::scaled_dot_product_attention  softmax(scale q k^T + mask) v (ONNX Attention 23; Vaswani et al. 2017)
 *     td::rotary_embedding                (a, b) -> (a cos - b sin, a sin + b cos) of pairs ONNX RotaryEmbedding 23;
 *                                         Su et al. 2021 */
#include "ops/common/attention_priv.h"

#include <math.h>

enum { Q, K, V, MASK, PAST_K, PAST_V, LENGTHS };
enum { SCALE, CAUSAL, SOFTCAP, HEADS, KV_HEADS, SCORES, LEFT, RIGHT };
static const ir_attr sdpa_attrs[] = {
    ATTR_OPTIONAL("scale", BASE_ATTR_FLOAT), /* absent: 1 / sqrt(size) */
    ATTR_BOOL("is_causal", false),
    ATTR_FLOAT("softcap", 0),
    ATTR_INT("heads", 0),
    ATTR_INT("kv_heads", 0), /* of rank 3 */
    ATTR_INT("scores", 0),   /* what the fourth result holds: 0 raw, 1 capped, 2 masked, 3 softmax */
    ATTR_INT("left_window", -1),
    ATTR_INT("right_window", -1)};

static td_status check_floats(ir_infer *ctx) {
  td_dtype d = ir_in(ctx, 0)->type.dtype;
  if (d == TD_F32 || d == TD_F16 || d == TD_BF16) return TD_OK;
  return base_fail(ctx->err, TD_UNSUPPORTED, NULL, -1, "%s: element type %s; f32, f16 and bf16 are supported",
                   ctx->op->name, td_dtype_name(d));
}

/* An operand as [batch, heads, rows, size]. */
static td_status split_heads(ir_infer *ctx, uint32_t i, int64_t heads, base_dim *dims) {
  const ir_type *t = &ir_in(ctx, i)->type;
  if (t->rank == 4) {
    for (int k = 0; k < 4; k++) dims[k] = t->dims[k];
    return TD_OK;
  }
  if (t->rank != 3) return ir_infer_fail(ctx, "operand %u has rank %d instead of 3 or 4", i, t->rank);
  if (heads < 1) return ir_infer_fail(ctx, "operands of rank 3 need the numbers of heads");
  if (base_dim_known(t->dims[2]) && t->dims[2] % heads != 0)
    return ir_infer_fail(ctx, "%lld elements do not split into %lld heads", (long long)t->dims[2], (long long)heads);
  dims[0] = t->dims[0];
  dims[1] = heads;
  dims[2] = t->dims[1];
  dims[3] = base_dim_div(ctx->dims, t->dims[2], heads);
  return TD_OK;
}

static td_status unranked_all(ir_infer *ctx) {
  for (uint32_t i = 0; i < ctx->out_count; i++) TRY(ir_out_unranked(ctx, i, ir_in(ctx, 0)->type.dtype));
  return TD_OK;
}

/* Keys and values agree in all but the size of a head, queries with both in the batch. */
static td_status check_same_rows(ir_infer *ctx, const base_dim *q, const base_dim *k, const base_dim *v) {
  const base_dim pairs[][2] = {{q[0], k[0]}, {k[0], v[0]}, {k[1], v[1]}, {k[2], v[2]}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    if (base_dim_known(pairs[i][0]) && base_dim_known(pairs[i][1]) && pairs[i][0] != pairs[i][1])
      return ir_infer_fail(ctx, "queries, keys and values do not fit together: sizes %lld and %lld",
                           (long long)pairs[i][0], (long long)pairs[i][1]);
  return TD_OK;
}

static td_status infer_sdpa(ir_infer *ctx) {
  TRY(check_floats(ctx));
  TRY(ops_same_dtype(ctx, Q, K));
  td_dtype dtype = ir_in(ctx, Q)->type.dtype;
  for (uint32_t i = 0; i <= V; i++)
    if (ir_in(ctx, i)->type.rank == IR_UNRANKED) return unranked_all(ctx);
  if (ir_in(ctx, PAST_K) && ir_in(ctx, PAST_K)->type.rank != 4) return unranked_all(ctx);
  base_dim q[4], k[4], v[4];
  int64_t kv_heads = base_attr_int(ctx->attrs, KV_HEADS);
  TRY(split_heads(ctx, Q, base_attr_int(ctx->attrs, HEADS), q));
  TRY(split_heads(ctx, K, kv_heads, k));
  TRY(split_heads(ctx, V, kv_heads, v));
  if (base_dim_known(q[3]) && base_dim_known(k[3]) && q[3] != k[3])
    return ir_infer_fail(ctx, "heads of %lld and %lld elements", (long long)q[3], (long long)k[3]);
  if (base_dim_known(q[1]) && base_dim_known(k[1]) && (k[1] == 0 || q[1] % k[1] != 0))
    return ir_infer_fail(ctx, "%lld query heads do not share %lld key heads evenly", (long long)q[1], (long long)k[1]);
  TRY(check_same_rows(ctx, q, k, v));
  const ir_info *past = ir_in(ctx, PAST_K);
  base_dim keys = past ? base_dim_add(ctx->dims, past->type.dims[2], k[2]) : k[2];
  bool flat = ir_in(ctx, Q)->type.rank == 3;
  base_dim y3[] = {q[0], q[2], base_dim_mul(ctx->dims, q[1], v[3])}, y4[] = {q[0], q[1], q[2], v[3]};
  TRY(ir_out(ctx, 0, dtype, flat ? 3 : 4, flat ? y3 : y4));
  TRY(ir_out(ctx, 1, dtype, 4, (base_dim[]){k[0], k[1], keys, k[3]}));
  TRY(ir_out(ctx, 2, ir_in(ctx, V)->type.dtype, 4, (base_dim[]){v[0], v[1], keys, v[3]}));
  return ir_out(ctx, 3, dtype, 4, (base_dim[]){q[0], q[1], q[2], keys});
}

/* A dense f32 operand as rows of heads; sizes in `dims`. */
static head_rows rows_of(const base_f32 *at, const base_tensor *t, int64_t heads, int64_t *dims) {
  bool flat = t->rank == 3;
  dims[0] = t->dims[0];
  dims[1] = flat ? heads : t->dims[1];
  dims[2] = flat ? t->dims[1] : t->dims[2];
  dims[3] = flat ? t->dims[2] / heads : t->dims[3];
  union {
    const base_f32 *from;
    base_f32 *to;
  } p = {at}; /* read only: the loop does not write through q, k and v */
  if (flat) return (head_rows){p.to, dims[1] * dims[2] * dims[3], dims[3], dims[1] * dims[3]};
  return (head_rows){p.to, dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3]};
}

/* Keys (or values) with the past in front: in output `out` where somebody wants it, else in scratch. Without either
 * they stay where they are. *rows counts all. */
static td_status join_past(const base_call *call, uint32_t in, uint32_t past_in, uint32_t out, int64_t heads,
                           head_rows *r, int64_t *dims) {
  const base_tensor *t = base_in(call, in), *past = base_in(call, past_in);
  const base_f32 *now = ops_dense_f32(call, in), *before = past ? ops_dense_f32(call, past_in) : NULL;
  if (!now || (past && !before)) return base_no_memory(call->err, "scratch");
  *r = rows_of(now, t, heads, dims);
  if (!past && !base_out(call, out)) return TD_OK;
  if (past && (past->rank != 4 || past->dims[0] != dims[0] || past->dims[1] != dims[1] || past->dims[3] != dims[3]))
    return ops_fail(call, "the shape of operand %u (past) does not fit", past_in);
  int64_t old = past ? past->dims[2] : 0, rows = old + dims[2], size = dims[3];
  base_f32 *to = base_out(call, out)
                     ? ops_take_f32(call, out)
                     : base_call_scratch(call, (size_t)(dims[0] * dims[1] * rows), (size_t)size * sizeof(float));
  if (!to) return base_no_memory(call->err, "scratch");
  bool empty = rows == 0 || size == 0;
  for (int64_t i = 0; !empty && i < dims[0] * dims[1]; i++) {
    const base_f32 *from = r->at + i / dims[1] * r->batch + i % dims[1] * r->head;
    for (int64_t k = 0; k < old * size; k++) to[i * rows * size + k] = before[i * old * size + k];
    for (int64_t row = 0; row < dims[2]; row++)
      for (int64_t k = 0; k < size; k++) to[(i * rows + old + row) * size + k] = from[row * r->row + k];
  }
  if (base_out(call, out)) ops_put(call, out, TD_F32, to);
  dims[2] = rows;
  *r = (head_rows){to, dims[1] * rows * size, rows * size, size};
  return TD_OK;
}

static td_status take_mask(const base_call *call, attention *a) {
  const base_tensor *m = base_in(call, MASK);
  if (!m) return TD_OK;
  int64_t dims[] = {a->batch, a->heads, a->queries, a->keys};
  if (m->rank > 4 || m->rank < 1) return ops_fail(call, "a mask of rank %d", m->rank);
  a->masks[0].at = m;
  a->mask_keys = m->dims[m->rank - 1] == 1 ? a->keys : m->dims[m->rank - 1];
  for (int32_t i = 0; i < 4; i++) {
    int32_t own = i - (4 - m->rank);
    int64_t size = own < 0 ? 1 : m->dims[own];
    if (size != 1 && size != dims[i] && !(i == 3 && size < dims[i])) {
      char text[200];
      return ops_fail(call, "the mask %s does not broadcast to the scores [%lld,%lld,%lld,%lld]",
                      base_tensor_describe(m, text, sizeof text), (long long)dims[0], (long long)dims[1],
                      (long long)dims[2], (long long)dims[3]);
    }
    a->masks[0].strides[i] = size == 1 ? 0 : m->strides[own];
  }
  return TD_OK;
}

/* Causal frontiers: after the past, or with valid keys given, the last query sees the last of them. */
static td_status take_lengths(const base_call *call, attention *a, int64_t old) {
  const base_i64 *lengths = ops_dense_i64(call, LENGTHS);
  int64_t *own = base_call_scratch(call, (size_t)a->batch, 2 * sizeof *own);
  if (!own || (base_in(call, LENGTHS) && !lengths)) return base_no_memory(call->err, "scratch");
  if (lengths && base_tensor_numel(base_in(call, LENGTHS)) != a->batch)
    return ops_fail(call, "there is not one length per sample");
  for (int64_t b = 0; b < a->batch; b++) {
    own[b] = lengths ? base_max_i64(base_min_i64(lengths[b], INT32_MAX), 0) : a->keys;
    own[a->batch + b] = lengths ? own[b] - a->queries : old;
  }
  a->lengths = own;
  a->offsets = own + a->batch;
  return TD_OK;
}

static td_status sdpa_reference(const base_call *call) {
  const base_attrs *attrs = call->attrs;
  int64_t q[4], k[4], v[4], kv_heads = base_attr_int(attrs, KV_HEADS);
  attention a = {.causal = base_attr_int(attrs, CAUSAL),
                 .rows = KERN_ATTENTION_SAFE,
                 .softcap = (float)base_attr_float(attrs, SOFTCAP),
                 .left = base_min_i64(base_attr_int(attrs, LEFT), INT32_MAX),
                 .right = base_min_i64(base_attr_int(attrs, RIGHT), INT32_MAX),
                 .scores_kind = (int32_t)base_attr_int(attrs, SCORES)};
  const base_f32 *query = ops_dense_f32(call, Q);
  if (!query) return base_no_memory(call->err, "scratch");
  for (uint32_t i = 0; i <= V; i++) {
    const base_tensor *t = base_in(call, i);
    int64_t heads = i ? kv_heads : base_attr_int(attrs, HEADS);
    if ((t->rank != 3 && t->rank != 4) || (t->rank == 3 && (heads < 1 || t->dims[2] % heads != 0)))
      return ops_fail(call, "operand %u of rank %d does not split into %lld heads", i, t->rank, (long long)heads);
  }
  a.q = rows_of(query, base_in(call, Q), base_attr_int(attrs, HEADS), q);
  TRY(join_past(call, K, PAST_K, 1, kv_heads, &a.k, k));
  TRY(join_past(call, V, PAST_V, 2, kv_heads, &a.v, v));
  a.batch = q[0], a.heads = q[1], a.queries = q[2], a.size = q[3];
  a.kv_heads = k[1], a.keys = k[2], a.value_size = v[3];
  if (k[0] != q[0] || v[0] != q[0] || v[1] != k[1] || v[2] != k[2] || k[3] != q[3] || !k[1] || q[1] % k[1] != 0)
    return ops_fail(call, "the shapes of queries, keys and values do not fit");
  a.scale = base_attr_has(attrs, SCALE) ? (float)base_attr_float(attrs, SCALE) : (float)(1 / sqrt((double)a.size));
  TRY(take_mask(call, &a));
  TRY(take_lengths(call, &a, base_in(call, PAST_K) ? base_in(call, PAST_K)->dims[2] : 0));
  bool flat = base_in(call, Q)->rank == 3;
  int64_t row = flat ? a.heads * a.value_size : a.value_size;
  base_f32 *y = base_out(call, 0) ? ops_take_f32(call, 0)
                                  : base_call_scratch(call, (size_t)(a.batch * a.heads * a.queries),
                                                      (size_t)a.value_size * sizeof(float));
  a.y = (head_rows){y, a.heads * a.queries * a.value_size, flat ? a.value_size : a.queries * a.value_size, row};
  if (base_out(call, 3)) a.scores = ops_take_f32(call, 3);
  if (!y || (base_out(call, 3) && !a.scores)) return base_no_memory(call->err, "scratch");
  TRY(ops_attend(call, &a));
  if (base_out(call, 0)) ops_put(call, 0, TD_F32, y);
  if (a.scores) ops_put(call, 3, TD_F32, a.scores);
  return TD_OK;
}

static double flops_sdpa(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  (void)attrs;
  double flops = 2;
  const ir_type *q = &in[Q]->type, *k = &in[K]->type;
  if (q->rank < 3 || k->rank < 3 || out->type.rank < 3) return 0;
  for (int32_t i = 0; i < q->rank; i++) flops *= base_dim_known(q->dims[i]) ? (double)q->dims[i] : 1;
  base_dim keys = k->dims[k->rank - 2];
  return 2 * flops * (base_dim_known(keys) ? (double)keys : 1);
}

static bool cases_sdpa(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F16, TD_BF16};
  if (number >= 4 * OPS_COUNT(dtypes)) return false;
  td_dtype d = dtypes[number / 4];
  switch (number % 4) {
    case 0:
      return ops_case_in(c, d, OPS_DIMS(2, 3, 4, 8), OPS_NORMAL, 1) &&
             ops_case_in(c, d, OPS_DIMS(2, 3, 6, 8), OPS_NORMAL, 2) &&
             ops_case_in(c, d, OPS_DIMS(2, 3, 6, 5), OPS_NORMAL, 3);
    case 1:
      ops_case_arg(c, ARG_INT("heads", 4));
      ops_case_arg(c, ARG_INT("kv_heads", 2));
      ops_case_arg(c, ARG_BOOL("is_causal", true));
      ops_case_arg(c, ARG_FLOAT("softcap", 2));
      return ops_case_in(c, d, OPS_DIMS(1, 5, 32), OPS_NORMAL, 4) &&
             ops_case_in(c, d, OPS_DIMS(1, 5, 16), OPS_NORMAL, 5) &&
             ops_case_in(c, d, OPS_DIMS(1, 5, 16), OPS_NORMAL, 6);
    case 2:
      return ops_case_in(c, d, OPS_DIMS(2, 2, 1, 4), OPS_NORMAL, 7) &&
             ops_case_in(c, d, OPS_DIMS(2, 1, 2, 4), OPS_NORMAL, 8) &&
             ops_case_in(c, d, OPS_DIMS(2, 1, 2, 4), OPS_NORMAL, 9) &&
             ops_case_in(c, d, OPS_DIMS(1, 5), OPS_NORMAL, 10) &&
             ops_case_in(c, d, OPS_DIMS(2, 1, 3, 4), OPS_NORMAL, 11) &&
             ops_case_in(c, d, OPS_DIMS(2, 1, 3, 4), OPS_NORMAL, 12);
    default:
      return ops_case_in(c, d, OPS_DIMS(0, 1, 2, 4), OPS_NORMAL, 13) &&
             ops_case_in(c, d, OPS_DIMS(0, 1, 2, 4), OPS_NORMAL, 14) &&
             ops_case_in(c, d, OPS_DIMS(0, 1, 2, 4), OPS_NORMAL, 15);
  }
}

/* ---- td::rotary_embedding(x, cos, sin, [positions]) ---- */

enum { INTERLEAVED, ROTARY_HEADS, ROTARY_SIZE };
static const ir_attr rotary_attrs[] = {ATTR_BOOL("interleaved", false), ATTR_INT("heads", 0), /* of x of rank 3 */
                                       ATTR_INT("rotary_size", 0)};                           /* 0: all of a head */

static td_status infer_rotary(ir_infer *ctx) {
  TRY(check_floats(ctx));
  return ops_infer_same(ctx);
}

/* Row of the caches for position (b, s), or -1. */
static int64_t cache_row(const base_call *call, const base_i64 *positions, int64_t b, int64_t s, int64_t rows) {
  const base_tensor *p = base_in(call, 3);
  if (!p) return b * rows + s; /* the caches are [batch, rows, half] */
  int64_t at;
  if (base_tensor_numel(p) != 1) at = positions[b * rows + s];
  else if (!base_add_i64(positions[0], s, &at)) return -1;
  return at >= 0 && at < base_in(call, 1)->dims[0] ? at : -1;
}

static td_status rotary_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *c = base_in(call, 1);
  int64_t heads = base_attr_int(call->attrs, ROTARY_HEADS), dims[4];
  const base_f32 *from = ops_dense_f32(call, 0), *cosine = ops_dense_f32(call, 1), *sine = ops_dense_f32(call, 2);
  const base_i64 *positions = ops_dense_i64(call, 3);
  base_f32 *to = ops_take_f32(call, 0);
  if (!from || !cosine || !sine || !to || (base_in(call, 3) && !positions)) return base_no_memory(call->err, "scratch");
  if ((x->rank != 3 && x->rank != 4) || (x->rank == 3 && (heads < 1 || x->dims[2] % heads != 0)))
    return ops_fail(call, "x has not the shape of heads");
  head_rows r = rows_of(from, x, heads, dims);
  int64_t size = base_attr_int(call->attrs, ROTARY_SIZE) ? base_attr_int(call->attrs, ROTARY_SIZE) : dims[3],
          half = size / 2;
  if (size < 0 || size > dims[3] || c->rank < 1 || c->dims[c->rank - 1] != half ||
      base_tensor_numel(base_in(call, 2)) != base_tensor_numel(c))
    return ops_fail(call, "the caches do not hold %lld elements per row", (long long)half);
  if (positions ? c->rank != 2 || (base_tensor_numel(base_in(call, 3)) != 1 &&
                                   base_tensor_numel(base_in(call, 3)) != dims[0] * dims[2])
                : base_tensor_numel(c) != dims[0] * dims[2] * half)
    return ops_fail(call, "positions and caches do not fit x");
  for (int64_t b = 0; b < dims[0]; b++)
    for (int64_t s = 0; s < dims[2]; s++) {
      int64_t row = cache_row(call, positions, b, s, dims[2]);
      if (row < 0) return ops_fail(call, "a position is outside the %lld rows of the caches", (long long)c->dims[0]);
      for (int64_t h = 0; h < dims[1]; h++) {
        int64_t at = b * r.batch + h * r.head + s * r.row;
        ops_rotate(from + at, dims[3], half, base_attr_int(call->attrs, INTERLEAVED), cosine + row * half,
                   sine + row * half, to + at);
      }
    }
  ops_put(call, 0, TD_F32, to);
  return TD_OK;
}

static bool cases_rotary(ir_case *c, uint32_t number) {
  static const int64_t at[] = {1, 0, 3};
  if (number >= 2) return false;
  if (number) ops_case_arg(c, ARG_BOOL("interleaved", true));
  bool made = ops_case_in(c, TD_F32, OPS_DIMS(1, 2, 3, 4), OPS_NORMAL, 1);
  if (number == 0)
    return made && ops_case_in(c, TD_F32, OPS_DIMS(1, 3, 2), OPS_NORMAL, 2) &&
           ops_case_in(c, TD_F32, OPS_DIMS(1, 3, 2), OPS_NORMAL, 3);
  return made && ops_case_in(c, TD_F32, OPS_DIMS(5, 2), OPS_NORMAL, 2) &&
         ops_case_in(c, TD_F32, OPS_DIMS(5, 2), OPS_NORMAL, 3) && ops_case_ints(c, at, 3);
}

OPS_DECLARE(attention);
const ir_op ops_attention[] = {
    {.id = OPERATOR(aten, scaled_dot_product_attention),
     .min_in = 3,
     .max_in = 7,
     .out_count = 4,
     .attrs = sdpa_attrs,
     .attr_count = OPS_COUNT(sdpa_attrs),
     .infer = infer_sdpa,
     .reference = sdpa_reference,
     .flops = flops_sdpa,
     .rtol = 1e-4f,
     .atol = 1e-5f},
    {.id = OPERATOR(td, rotary_embedding),
     .min_in = 3,
     .max_in = 4,
     .out_count = 1,
     .attrs = rotary_attrs,
     .attr_count = OPS_COUNT(rotary_attrs),
     .infer = infer_rotary,
     .reference = rotary_reference,
     .rtol = 1e-5f,
     .atol = 1e-6f},
};
OPS_TABLE(attention);
OPS_CASES(attention) = {
    {OP_aten_scaled_dot_product_attention, cases_sdpa},
    {OP_td_rotary_embedding, cases_rotary},
    {0},
};
