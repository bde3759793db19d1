/* attention_tokens.c -- td::attention and td::cached_attention, what the native passes make of attention in all its
 * spellings: heads lie side by side in the features of a token, as a linear gives them.
 *
 *     q [batch, queries, heads, size], k [batch, keys, groups, size], v [batch, keys, groups, values]
 *     out[b, i, h] = sum over j of softmax over j(scale q[b, i, h] . k[b, j, g] + masks[b, h, i, j]) v[b, j, g]
 *
 * with g = h * groups / heads. Masks, up to two (a bias of each head, and what windows hide), broadcast; one of fewer
 * samples, which divide those of q, stands for each so many of them in turn, as the windows of an image do. `causal`
 * hides key j from query i where j > i. kernels/attrs.h has what `safe` says of rows that are no
 * numbers, and `replaces` of masks that stand in the place of scores.
 *
 * td::cached_attention has two operands more. `last` [batch], integers: the last key of each sample that is in use;
 * `sinks` [heads]: scores that take part in a softmax and have no value.
 * Query i of `queries` stands in the place of key max(last + 1 - queries, 0) + i; so it is hidden from those behind. */
#include "kernels/kernels.h"
#include "ops/common/attention_priv.h"

enum { Q, K, V, MASK, MORE, LAST, SINKS };
enum { BATCH, ROWS, HEADS, SIZE }; /* dimensions of q, k and v */
static const ir_attr attention_attrs[] = {KERN_ATTENTION_LIST(OPS_ATTR_ROW)};

/* Fails where both sizes are known and differ. */
static td_status same_size(ir_infer *ctx, uint32_t a, uint32_t b, int dim) {
  base_dim x = ir_in(ctx, a)->type.dims[dim], y = ir_in(ctx, b)->type.dims[dim];
  if (!ops_dims_differ(x, y)) return TD_OK;
  return ir_infer_fail(ctx, "operands %u and %u have sizes %lld and %lld in dimension %d", a, b, (long long)x,
                       (long long)y, dim);
}

static td_status check_mask(ir_infer *ctx, uint32_t operand, const base_dim *scores) {
  const ir_info *mask = ir_in(ctx, operand);
  if (!mask || mask->type.rank == IR_UNRANKED) return TD_OK;
  if (mask->type.rank > 4) return ir_infer_fail(ctx, "a mask of rank %d; at most 4 is supported", mask->type.rank);
  for (int32_t i = 0; i < mask->type.rank; i++) {
    base_dim size = mask->type.dims[i], wanted = scores[4 - mask->type.rank + i];
    const bool repeats = mask->type.rank == 4 && i == BATCH && size > 0 && base_dim_known(wanted) && wanted % size == 0;
    if (size != 1 && !repeats && ops_dims_differ(size, wanted))
      return ir_infer_fail(ctx, "a mask of %lld in dimension %d for %lld scores", (long long)size, i,
                           (long long)wanted);
  }
  return TD_OK;
}

static td_status check_last(ir_infer *ctx) {
  const ir_info *last = ir_in(ctx, LAST);
  if (!last) return TD_OK;
  if (last->type.dtype != TD_I32 && last->type.dtype != TD_I64)
    return ir_infer_fail(ctx, "last keys of %s; i32 or i64 is needed", td_dtype_name(last->type.dtype));
  if (last->type.rank == IR_UNRANKED ||
      (last->type.rank == 1 && !ops_dims_differ(last->type.dims[0], ir_in(ctx, Q)->type.dims[BATCH])))
    return TD_OK;
  return ir_infer_fail(ctx, "there is not one last key for each sample");
}

static td_status infer_attention(ir_infer *ctx) {
  for (uint32_t i = 0; i < ctx->in_count; i++)
    if (i != LAST && ir_in(ctx, i) && ir_in(ctx, i)->type.dtype != TD_F32)
      return ir_infer_fail(ctx, "operand %u is %s; f32 is needed", i, td_dtype_name(ir_in(ctx, i)->type.dtype));
  for (uint32_t i = Q; i <= V; i++) {
    int32_t rank = ir_in(ctx, i)->type.rank;
    if (rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, TD_F32);
    if (rank != 4) return ir_infer_fail(ctx, "operand %u has rank %d instead of 4", i, rank);
  }
  TRY(same_size(ctx, Q, K, BATCH));
  TRY(same_size(ctx, K, V, BATCH));
  TRY(same_size(ctx, K, V, ROWS));
  TRY(same_size(ctx, K, V, HEADS));
  TRY(same_size(ctx, Q, K, SIZE));
  const base_dim *q = ir_in(ctx, Q)->type.dims, *k = ir_in(ctx, K)->type.dims, *v = ir_in(ctx, V)->type.dims;
  if (base_dim_known(q[HEADS]) && base_dim_known(k[HEADS]) && (k[HEADS] == 0 ? q[HEADS] : q[HEADS] % k[HEADS]) != 0)
    return ir_infer_fail(ctx, "%lld query heads do not share %lld key heads evenly", (long long)q[HEADS],
                         (long long)k[HEADS]);
  const ir_info *sinks = ir_in(ctx, SINKS);
  TRY(check_last(ctx));
  if (sinks && (sinks->type.rank != 1 || ops_dims_differ(sinks->type.dims[0], q[HEADS])))
    return ir_infer_fail(ctx, "there is not one sink for each head");
  for (uint32_t i = MASK; i <= MORE; i++) TRY(check_mask(ctx, i, (base_dim[]){q[BATCH], q[HEADS], q[ROWS], k[ROWS]}));
  return ir_out(ctx, 0, TD_F32, 4, (base_dim[]){q[BATCH], q[ROWS], q[HEADS], v[SIZE]});
}

static head_rows rows_of(const base_call *call, uint32_t i) {
  const int64_t *dims = base_in(call, i)->dims;
  union {
    const base_f32 *from;
    base_f32 *to;
  } p = {ops_dense_f32(call, i)}; /* read only: the loop does not write through q, k and v */
  return (head_rows){p.to, dims[ROWS] * dims[HEADS] * dims[SIZE], dims[SIZE], dims[HEADS] * dims[SIZE]};
}

/* Keys in use, and the place of each sample's first query among them. */
static td_status read_last(const base_call *call, attention *a) {
  const base_i64 *last = base_in(call, LAST) ? ops_dense_i64(call, LAST) : NULL;
  if (!base_in(call, LAST)) return TD_OK;
  int64_t *lengths = base_call_scratch(call, (size_t)a->batch, 2 * sizeof *lengths), *offsets = lengths + a->batch;
  if (!last || !lengths) return base_no_memory(call->err, "scratch");
  if (base_tensor_numel(base_in(call, LAST)) != a->batch)
    return ops_fail(call, "there is not one last key for each sample");
  for (int64_t b = 0; b < a->batch; b++) {
    if (last[b] < -1 || last[b] >= a->keys)
      return ops_fail(call, "key %lld of sample %lld is outside of %lld keys", (long long)last[b], (long long)b,
                      (long long)a->keys);
    lengths[b] = last[b] + 1;
    offsets[b] = base_max_i64(lengths[b] - a->queries, 0);
  }
  a->lengths = lengths;
  a->offsets = offsets;
  return TD_OK;
}

static td_status attention_reference(const base_call *call) {
  const int64_t *q = base_in(call, Q)->dims, *k = base_in(call, K)->dims, *v = base_in(call, V)->dims;
  base_tensor *y = base_out(call, 0);
  if (base_tensor_numel(y) == 0) return TD_OK;
  attention a = {.batch = q[BATCH],
                 .heads = q[HEADS],
                 .kv_heads = k[HEADS],
                 .queries = q[ROWS],
                 .keys = k[ROWS],
                 .size = q[SIZE],
                 .value_size = v[SIZE],
                 .q = rows_of(call, Q),
                 .k = rows_of(call, K),
                 .v = rows_of(call, V),
                 .y = {y->data, q[ROWS] * q[HEADS] * v[SIZE], v[SIZE], q[HEADS] * v[SIZE]},
                 .scale = (float)base_attr_float(call->attrs, KERN_ATTENTION_SCALE),
                 .causal = base_attr_int(call->attrs, KERN_ATTENTION_CAUSAL),
                 .rows = base_attr_int(call->attrs, KERN_ATTENTION_ROWS),
                 .left = base_min_i64(base_attr_int(call->attrs, KERN_ATTENTION_LEFT), INT32_MAX),
                 .right = -1,
                 .mask_keys = k[ROWS]};
  if (!a.q.at || !a.k.at || !a.v.at) return base_no_memory(call->err, "scratch");
  TRY(read_last(call, &a));
  a.softcap = (float)base_attr_float(call->attrs, KERN_ATTENTION_SOFTCAP);
  a.sinks = base_in(call, SINKS) ? ops_dense_f32(call, SINKS) : NULL;
  if (base_in(call, SINKS) && !a.sinks) return base_no_memory(call->err, "scratch");
  const int64_t scores[] = {q[BATCH], q[HEADS], q[ROWS], k[ROWS]},
                replaces = base_attr_int(call->attrs, KERN_ATTENTION_REPLACES);
  for (uint32_t i = 0; i < ATTENTION_MASKS; i++) {
    attention_mask *mask = &a.masks[i];
    mask->at = base_in(call, MASK + i);
    mask->replaces = replaces >> i & 1;
    if (!mask->at) continue;
    ops_broadcast_strides(mask->at, 4, scores, mask->strides);
    if (mask->at->rank < 4 || mask->at->dims[BATCH] < 1) continue;
    mask->samples = mask->at->dims[BATCH];
    mask->strides[BATCH] = mask->at->strides[BATCH];
  }
  return ops_attend(call, &a);
}

static const struct kern_row *attention_kernel(const ir_kernel_query *query) {
  const kern_row *pairs = kern_select(KERN_ATTENTION, TD_BF16, query->isa);
  return pairs && base_attr_int(query->attrs, KERN_ATTENTION_PAIRS) ? pairs
                                                                    : kern_select(KERN_ATTENTION, TD_F32, query->isa);
}

static double attention_flops(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  (void)attrs;
  const ir_type *q = &in[Q]->type, *k = &in[K]->type;
  if (q->rank != 4 || k->rank != 4 || out->type.rank != 4) return 0;
  double flops = 2;
  for (int i = 0; i < 3; i++) flops *= base_dim_known(q->dims[i]) ? (double)q->dims[i] : 1;
  double sizes = (base_dim_known(q->dims[SIZE]) ? (double)q->dims[SIZE] : 1) +
                 (base_dim_known(out->type.dims[SIZE]) ? (double)out->type.dims[SIZE] : 1);
  return flops * sizes * (base_dim_known(k->dims[ROWS]) ? (double)k->dims[ROWS] : 1);
}

/* Sizes in the order batch, queries, keys, heads, groups, size, values; those of the masks, all 0: none. */
typedef struct token_case {
  int64_t sizes[7], masks[8];
  bool causal;
  ops_fill fill;
  int64_t replaces;
} token_case;

/* Keys of a cache: sizes as above, the last key of each of up to three samples. */
static bool cached_cases(ir_case *c, uint32_t number) {
  static const struct {
    int64_t sizes[7], last[3], left;
    bool causal, sinks;
    double softcap;
  } rows[] = {
      {{3, 1, 70, 8, 2, 16, 16}, {0, 33, 69}, -1, true, false, 0}, /* a token each */
      {{3, 1, 70, 8, 2, 16, 24}, {-1, 33, 69}, 20, true, false, 0},
      {{2, 1, 1200, 4, 4, 8, 8}, {3, 1130}, -1, false, false, 0}, /* in several blocks */
      {{2, 1, 1200, 4, 1, 8, 8}, {1199, 1130}, 700, true, false, 0},
      {{3, 5, 40, 4, 2, 16, 16}, {2, 4, 39}, -1, true, false, 0}, /* a prompt that is padded, whole, behind others */
      {{2, 130, 200, 2, 1, 8, 8}, {129, 199}, -1, true, false, 0},
      {{2, 130, 200, 2, 1, 8, 8}, {20, 150}, 9, true, false, 0}, /* rows that see nothing */
      {{2, 130, 700, 2, 2, 8, 8}, {129, 690}, 540, true, false, 0},
      {{1, 80, 80, 2, 2, 8, 8}, {79}, 3, false, false, 0},
      {{3, 1, 70, 8, 2, 16, 16}, {-1, 33, 69}, -1, true, true, 0},
      {{2, 1, 1200, 6, 1, 8, 8}, {1199, 1130}, 700, true, true, 1.5},
      {{2, 130, 700, 2, 1, 8, 8}, {20, 690}, 9, true, true, 0},
      {{2, 5, 40, 4, 2, 16, 16}, {4, 39}, -1, true, false, 2},
  };
  if (number >= OPS_COUNT(rows)) return false;
  const int64_t *n = rows[number].sizes;
  ops_case_arg(c, ARG_FLOAT("scale", 0.25));
  ops_case_arg(c, ARG_BOOL("causal", rows[number].causal));
  ops_case_arg(c, ARG_INT("safe", KERN_ATTENTION_SAFE));
  ops_case_arg(c, ARG_INT("left", rows[number].left));
  ops_case_arg(c, ARG_FLOAT("softcap", rows[number].softcap));
  return ops_case_in(c, TD_F32, OPS_DIMS(n[0], n[1], n[3], n[5]), OPS_NORMAL, 2 * number) &&
         ops_case_in(c, TD_F32, OPS_DIMS(n[0], n[2], n[4], n[5]), OPS_NORMAL, 2 * number + 1) &&
         ops_case_in(c, TD_F32, OPS_DIMS(n[0], n[2], n[4], n[6]), OPS_NORMAL, 2 * number + 2) && ops_case_absent(c) &&
         ops_case_absent(c) && ops_case_ints(c, rows[number].last, (uint32_t)n[0]) &&
         (!rows[number].sinks || ops_case_in(c, TD_F32, OPS_DIMS(n[3]), OPS_NORMAL, 2 * number + 3));
}

static bool attention_cases(ir_case *c, uint32_t number) {
  static const token_case rows[] = {
      {{1, 1, 1, 1, 1, 1, 1}, {0}, false, OPS_NORMAL, 0},
      {{2, 5, 7, 3, 3, 4, 6}, {0}, false, OPS_NORMAL, 0},
      {{1, 67, 67, 2, 2, 32, 32}, {1, 1, 1, 67}, false, OPS_NORMAL, 0}, /* padding, as BERT hides it */
      {{2, 17, 31, 4, 2, 16, 16}, {2, 1, 1, 31}, false, OPS_NORMAL, 0},
      {{2, 17, 31, 4, 1, 7, 13}, {2, 1, 17, 31}, false, OPS_NORMAL, 0},
      {{1, 33, 50, 3, 3, 64, 64}, {1, 3, 33, 50}, false, OPS_NORMAL, 0}, /* a bias by relative position, as in T5 */
      {{2, 9, 5, 2, 2, 8, 8}, {1, 2, 9, 1}, false, OPS_NORMAL, 0},
      {{2, 9, 5, 2, 2, 8, 8}, {1, 1, 1, 1}, false, OPS_NORMAL, 0},
      {{1, 130, 130, 2, 2, 8, 24}, {0}, true, OPS_NORMAL, 0},
      {{1, 70, 40, 2, 1, 16, 5}, {1, 1, 70, 40}, true, OPS_NORMAL, 0},
      {{1, 40, 70, 2, 1, 5, 16}, {0}, true, OPS_NORMAL, 0},
      {{1, 197, 197, 1, 1, 64, 64}, {0}, false, OPS_NORMAL, 0},
      {{1, 3, 1100, 2, 2, 8, 8}, {1, 1, 1, 1100}, false, OPS_NORMAL, 0}, /* keys in several blocks */
      {{1, 1050, 1050, 1, 1, 4, 4}, {0}, true, OPS_NORMAL, 0},
      {{1, 4, 6, 1, 1, 3, 3}, {1, 1, 4, 6}, false, OPS_SPECIAL, 0},
      {{4, 49, 49, 3, 3, 8, 8}, {1, 3, 49, 49, 4, 1, 49, 49}, false, OPS_NORMAL, 0}, /* shifted windows */
      {{6, 49, 49, 3, 3, 8, 8}, {1, 3, 49, 49, 3, 1, 49, 49}, false, OPS_NORMAL, 0}, /* of two images */
      {{6, 20, 31, 2, 1, 8, 8}, {2, 1, 1, 31, 3, 2, 20, 31}, false, OPS_NORMAL, 1},
      {{2, 1, 33, 2, 2, 4, 4}, {1, 2, 1, 33, 2, 1, 1, 1}, true, OPS_NORMAL, 0},
      /* masks in the place of scores: a row for all queries, one for each, special ones, among what is added */
      {{2, 17, 31, 4, 2, 16, 16}, {2, 1, 1, 31}, false, OPS_SPECIAL, 1},
      {{1, 70, 600, 2, 1, 16, 5}, {1, 1, 70, 600}, true, OPS_NORMAL, 1},
      {{2, 9, 31, 2, 2, 8, 8}, {1, 2, 1, 31, 2, 1, 1, 31}, false, OPS_SPECIAL, 1},
      {{2, 9, 31, 2, 2, 8, 8}, {1, 2, 1, 31, 2, 1, 9, 31}, false, OPS_SPECIAL, 2},
      {{2, 70, 31, 2, 2, 8, 8}, {1, 2, 70, 31, 2, 1, 1, 31}, false, OPS_SPECIAL, 3},
      {{1, 3, 0, 2, 2, 4, 4}, {0}, false, OPS_NORMAL, 0}, /* nothing to see */
      {{1, 0, 3, 2, 2, 4, 4}, {0}, false, OPS_NORMAL, 0},
      {{0, 3, 3, 2, 2, 4, 4}, {0}, false, OPS_NORMAL, 0},
      {{1, 3, 3, 2, 2, 0, 4}, {0}, false, OPS_NORMAL, 0},
      {{1, 3, 3, 2, 2, 4, 0}, {0}, false, OPS_NORMAL, 0},
  };
  if (number >= OPS_COUNT(rows)) return false;
  const token_case *row = &rows[number];
  const int64_t *n = row->sizes;
  ops_case_arg(c, ARG_FLOAT("scale", number % 2 ? 0.5 : 0.125));
  ops_case_arg(c, ARG_BOOL("causal", row->causal));
  ops_case_arg(c, ARG_INT("safe", number % 3));
  ops_case_arg(c, ARG_INT("replaces", row->replaces));
  ops_case_arg(c, ARG_FLOAT("softcap", number % 5 == 3 ? 0.75 : 0));
  return ops_case_in(c, TD_F32, OPS_DIMS(n[0], n[1], n[3], n[5]), OPS_NORMAL, 2 * number) &&
         ops_case_in(c, TD_F32, OPS_DIMS(n[0], n[2], n[4], n[5]), OPS_NORMAL, 2 * number + 1) &&
         ops_case_in(c, TD_F32, OPS_DIMS(n[0], n[2], n[4], n[6]), OPS_NORMAL, 2 * number + 2) &&
         (row->masks[0] == 0 || ops_case_in(c, TD_F32, 4, row->masks, row->fill, 2 * number + 3)) &&
         (row->masks[4] == 0 || ops_case_in(c, TD_F32, 4, row->masks + 4, row->fill, 2 * number + 4));
}

OPS_DECLARE(attention_tokens);
const ir_op ops_attention_tokens[] = {
    {.id = OPERATOR(td, attention),
     .min_in = 3,
     .max_in = 5,
     .out_count = 1,
     .attrs = attention_attrs,
     .attr_count = OPS_COUNT(attention_attrs),
     .by_sample = 1 << Q | 1 << K | 1 << V | 1 << MASK | 1 << MORE,
     .infer = infer_attention,
     .reference = attention_reference,
     .kernel = attention_kernel,
     .flops = attention_flops,
     .rtol = 1e-4f,
     .atol = 1e-5f},
    {.id = OPERATOR(td, cached_attention),
     .min_in = 3,
     .max_in = 7,
     .out_count = 1,
     .attrs = attention_attrs,
     .attr_count = OPS_COUNT(attention_attrs),
     .infer = infer_attention,
     .reference = attention_reference,
     .kernel = attention_kernel,
     .flops = attention_flops,
     .rtol = 1e-4f,
     .atol = 1e-5f},
};
OPS_TABLE(attention_tokens);
OPS_CASES(attention_tokens) = {
    {OP_td_attention, attention_cases},
    {OP_td_cached_attention, cached_cases},
    {0},
};
