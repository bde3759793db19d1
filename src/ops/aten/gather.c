/* gather.c -- elements gathered by index. Indices are integers of any type; negative ones count from the end; one that
 * is outside is an error of the run.
 *
 *     aten::index_select  y[.., k, ..] = x[.., index[k], ..] (ONNX Gather 1)
 *     aten::gather        y[i] = x[i, at dim: index[i]] (ONNX GatherElements 11)
 *     td::gather_nd       y[i] = x[index[i, 0], index[i, 1], ...] (ONNX GatherND 11) */
#include "ops/common/kernel_priv.h"
#include "ops/common/lower_priv.h"
#include "ops/common/move_priv.h"
#include "base/size.h"

enum { ND_BATCH_DIMS };

static const ir_attr dim_attrs[] = {KERN_GATHER_LIST(OPS_ATTR_ROW)};
static const ir_attr nd_attrs[] = {ATTR_INT("batch_dims", 0)};

/* Dense indices of operand 1, all made non-negative and checked against `size`. NULL: *status says why. */
static const base_i64 *checked_indices(const base_call *call, int64_t size, td_status *status) {
  int64_t count = base_tensor_numel(base_in(call, 1));
  const base_i64 *given = ops_dense_i64(call, 1);
  base_i64 *indices = base_call_scratch(call, (size_t)count, sizeof *indices);
  *status = TD_OK;
  if (!given || !indices) {
    *status = base_no_memory(call->err, "scratch");
    return NULL;
  }
  for (int64_t i = 0; i < count; i++) {
    indices[i] = given[i] < 0 ? given[i] + size : given[i];
    if (indices[i] >= 0 && indices[i] < size) continue;
    *status = ops_fail(call, "index %lld is outside of an axis of %lld", (long long)given[i], (long long)size);
    return NULL;
  }
  return indices;
}

static int64_t dims_product(const base_tensor *t, int32_t from, int32_t to) {
  int64_t n = 1;
  for (int32_t i = from; i < to; i++) n *= t->dims[i];
  return n;
}

static int32_t axis_of(const base_call *call, uint32_t attr, int32_t rank) {
  int64_t axis = base_attr_int(call->attrs, attr);
  return (int32_t)(axis < 0 ? axis + rank : axis);
}

/* ---- index_select ---- */

/* Sizes gathered from a vector of sizes. */
static td_status select_contents(ir_infer *ctx) {
  const base_dim *from, *at;
  uint32_t n, count;
  if (!ctx->arena || !ctx->out_count || ctx->in[0]->type.rank != 1 || base_is_float(ctx->in[0]->type.dtype))
    return TD_OK;
  if (!ir_in_ints(ctx, 0, &from, &n) || !ir_in_ints(ctx, 1, &at, &count)) return TD_OK;
  for (uint32_t i = 0; i < count; i++) {
    if (!base_dim_known(at[i])) return TD_OK;
    if (at[i] < -(int64_t)n || at[i] >= n)
      return ir_infer_fail(ctx, "index %lld is outside of an axis of %u", (long long)at[i], n);
  }
  base_dim *to = ir_out_ints(ctx, 0, count);
  for (uint32_t i = 0; to && i < count; i++) to[i] = from[at[i] < 0 ? at[i] + n : at[i]];
  return TD_OK;
}

static td_status infer_index_select(ir_infer *ctx) {
  const ir_type *x = &ctx->in[0]->type, *at = &ctx->in[1]->type;
  if (ops_any_unranked(ctx)) return ir_out_unranked(ctx, 0, x->dtype);
  int32_t axis, rank = x->rank + at->rank - 1;
  TRY(ir_axis(ctx, base_attr_int(ctx->attrs, KERN_GATHER_DIM), x->rank, &axis));
  if (rank > BASE_MAX_RANK) return ir_out(ctx, 0, x->dtype, rank, NULL);
  base_dim dims[BASE_MAX_RANK];
  for (int32_t i = 0; i < rank; i++)
    dims[i] = i < axis ? x->dims[i] : i < axis + at->rank ? at->dims[i - axis] : x->dims[i - at->rank + 1];
  TRY(ir_out(ctx, 0, x->dtype, rank, dims));
  return select_contents(ctx);
}

/* The same without a dense copy of an operand that may be far larger than the result: a move per index. */
static void select_strided(const base_call *call, int32_t axis, const base_i64 *at, int64_t count) {
  const base_tensor *x = base_in(call, 0);
  int64_t dims[BASE_MAX_RANK];
  for (int32_t i = 0; i < x->rank; i++) dims[i] = i == axis ? count : x->dims[i];
  base_tensor to = base_tensor_of(base_out(call, 0)->data, x->dtype, x->rank, dims);
  to.dims[axis] = 1;
  for (int64_t i = 0; i < count; i++) ops_move(&to, i * to.strides[axis], x, at[i] * x->strides[axis]);
}

static td_status index_select_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0);
  if (base_tensor_numel(base_out(call, 0)) == 0) return TD_OK;
  int32_t axis = axis_of(call, KERN_GATHER_DIM, x->rank);
  int64_t outer = dims_product(x, 0, axis), size = x->dims[axis], inner = dims_product(x, axis + 1, x->rank);
  int64_t count = base_tensor_numel(base_in(call, 1));
  td_status status;
  const base_i64 *at = checked_indices(call, size, &status);
  if (!at) return status;
  if (!base_tensor_contiguous(x)) {
    select_strided(call, axis, at, count);
    return TD_OK;
  }
  const void *from = x->data;
  void *to = base_out(call, 0)->data;
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < count; i++)
      ops_move_run(x->dtype, to, (o * count + i) * inner, from, (o * size + at[i]) * inner, inner);
  return TD_OK;
}

static const kern_row *index_select_kernel(const ir_kernel_query *query) {
  const ir_type *x = query->in[0] ? &query->in[0]->type : NULL, *at = query->in[1] ? &query->in[1]->type : NULL;
  if (!x || !at || x->rank < 1 || at->rank == IR_UNRANKED) return NULL;
  return kern_select(KERN_INDEX_SELECT, x->dtype, query->isa);
}

/* The index's axes stand in the place of the gathered one. */
static bool lower_index_select(const ir_kernel_query *query, loop_build *b) {
  const ir_type *x = &query->in[0]->type, *at = &query->in[1]->type;
  const int64_t dim = base_attr_int(query->attrs, KERN_GATHER_DIM), axis = dim < 0 ? dim + x->rank : dim;
  if (x->rank < 1 || at->rank < 0) return false;
  const uint32_t axes = (uint32_t)(x->rank + at->rank - 1), behind = (uint32_t)(x->rank - 1 - axis);
  b->out = loop_pick(b, b->in[0], b->in[1], base_type_of(x->dtype), axes, (uint32_t)axis, behind);
  return axes > 0 && b->out != LOOP_NONE;
}

/* ---- gather ---- */

static td_status infer_gather(ir_infer *ctx) {
  const ir_type *x = &ctx->in[0]->type, *at = &ctx->in[1]->type;
  if (x->rank != IR_UNRANKED && at->rank != IR_UNRANKED && x->rank != at->rank)
    return ir_infer_fail(ctx, "the index has rank %d, the input %d", at->rank, x->rank);
  int32_t axis;
  if (x->rank != IR_UNRANKED) TRY(ir_axis(ctx, base_attr_int(ctx->attrs, KERN_GATHER_DIM), x->rank, &axis));
  return ir_out_like(ctx, 0, 1, x->dtype);
}

/* Where the index has the input's sizes along the other axes: each element tells its own. */
static bool lower_gather(const ir_kernel_query *query, loop_build *b) {
  const ir_type *x = &query->in[0]->type, *at = &query->in[1]->type;
  const int64_t dim = base_attr_int(query->attrs, KERN_GATHER_DIM), axis = dim < 0 ? dim + x->rank : dim;
  bool same = x->rank >= 1 && x->rank == at->rank;
  for (int32_t i = 0; same && i < x->rank; i++) same = i == axis || x->dims[i] == at->dims[i];
  if (!same) return false;
  b->out = loop_pick(b, b->in[0], b->in[1], base_type_of(x->dtype), (uint32_t)x->rank, (uint32_t)axis, 0);
  return b->out != LOOP_NONE;
}

static td_status gather_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *index = base_in(call, 1), *out = base_out(call, 0);
  int32_t axis = axis_of(call, KERN_GATHER_DIM, x->rank);
  if (index->rank != x->rank || axis < 0 || axis >= x->rank)
    return ops_fail(call, "input of rank %d, index of rank %d and axis %d do not fit", x->rank, index->rank, axis);
  for (int32_t i = 0; i < x->rank; i++)
    if (i != axis && index->dims[i] > x->dims[i])
      return ops_fail(call, "dimension %d of the index has %lld, of the input %lld", i, (long long)index->dims[i],
                      (long long)x->dims[i]);
  td_status status;
  const base_i64 *at = checked_indices(call, x->dims[axis], &status);
  if (!at) return status;
  int64_t strides[BASE_MAX_RANK];
  for (int32_t i = 0; i < x->rank; i++) strides[i] = i == axis ? 0 : x->strides[i];
  base_walk w;
  base_walk_start(&w, x->rank, index->dims, 1, (const int64_t *const[]){strides});
  if (!w.count) return TD_OK;
  int64_t i = 0;
  do {
    ops_move_run(x->dtype, out->data, i, x->data, w.offset[0] + at[i] * x->strides[axis], 1);
    i++;
  } while (base_walk_next(&w));
  return TD_OK;
}

static const kern_row *gather_kernel(const ir_kernel_query *query) {
  const ir_type *x = query->in[0] ? &query->in[0]->type : NULL, *at = query->in[1] ? &query->in[1]->type : NULL;
  return x && at && x->rank > 0 && at->rank > 0 ? kern_select(KERN_GATHER, x->dtype, query->isa) : NULL;
}

/* ---- gather_nd ---- */

static td_status infer_gather_nd(ir_infer *ctx) {
  const ir_type *x = &ctx->in[0]->type, *at = &ctx->in[1]->type;
  int64_t batch = base_attr_int(ctx->attrs, ND_BATCH_DIMS);
  if (ops_any_unranked(ctx) || (at->rank && !base_dim_known(at->dims[at->rank - 1])))
    return ir_out_unranked(ctx, 0, x->dtype);
  int64_t tuple = at->rank ? at->dims[at->rank - 1] : 0;
  if (at->rank < 1 || batch < 0 || batch >= at->rank || tuple > x->rank - batch)
    return ir_infer_fail(ctx, "tuples of %lld indices after %lld batch dimensions do not fit rank %d", (long long)tuple,
                         (long long)batch, x->rank);
  int32_t lead = at->rank - 1, rest = (int32_t)(batch + tuple), rank = lead + x->rank - rest;
  if (rank > BASE_MAX_RANK) return ir_out(ctx, 0, x->dtype, rank, NULL);
  base_dim dims[BASE_MAX_RANK];
  for (int32_t i = 0; i < rank; i++) dims[i] = i < lead ? at->dims[i] : x->dims[rest + i - lead];
  return ir_out(ctx, 0, x->dtype, rank, dims);
}

/* Element offset that a tuple of indices selects in dims of dense `strides`. */
static td_status tuple_offset(const base_call *call, const base_i64 *tuple, int64_t length, const int64_t *dims,
                              const int64_t *strides, int64_t *offset) {
  for (int64_t k = 0; k < length; k++) {
    int64_t at = tuple[k] < 0 ? tuple[k] + dims[k] : tuple[k];
    if (at < 0 || at >= dims[k])
      return ops_fail(call, "index %lld is outside of an axis of %lld", (long long)tuple[k], (long long)dims[k]);
    *offset += at * strides[k];
  }
  return TD_OK;
}

static td_status gather_nd_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *index = base_in(call, 1), *out = base_out(call, 0);
  int32_t batch = (int32_t)base_attr_int(call->attrs, ND_BATCH_DIMS);
  if (base_tensor_numel(out) == 0) return TD_OK;
  int64_t tuple = index->dims[index->rank - 1];
  for (int32_t i = 0; i < batch; i++)
    if (index->dims[i] != x->dims[i]) return ops_fail(call, "batch dimension %d differs between input and indices", i);
  int64_t batches = dims_product(x, 0, batch), block = dims_product(x, batch, x->rank);
  int64_t each = dims_product(index, batch, index->rank - 1), inner = dims_product(x, batch + (int32_t)tuple, x->rank);
  const void *from = ops_dense(call, 0);
  const base_i64 *at = ops_dense_i64(call, 1);
  if (!from || !at) return base_no_memory(call->err, "scratch");
  int64_t strides[BASE_MAX_RANK];
  base_strides(x->rank, x->dims, strides);
  for (int64_t b = 0; b < batches; b++)
    for (int64_t i = 0; i < each; i++) {
      int64_t offset = b * block, n = b * each + i;
      TRY(tuple_offset(call, at + n * tuple, tuple, x->dims + batch, strides + batch, &offset));
      ops_move_run(x->dtype, out->data, n * inner, from, offset, inner);
    }
  return TD_OK;
}

/* ---- cases ---- */

/* Slices of one element and of many, rows of them, an index of rank 2, of one element, and evenly spaced. */
static bool wide_select_case(ir_case *c, uint32_t number) {
  static const struct {
    int64_t dims[4], dim, rows, columns, at[36];
  } cases[] = {
      {{2, 3, 41, 1}, 2, 9, 4, {40, 0, 7, 7, 39, -1, 3, 12, 11, 1}},
      {{3, 9, 2, 37}, 1, 1, 5, {8, 0, -9, 3, 3}},
      {{2, 5, 150, 2}, 0, 2, 2, {1, 0, 0, 1}},
      {{2, 30, 3, 4}, 1, 3, 3, {1, 4, 7, 10, 13, 16, 19, 22, 25}},
      {{4, 3, 2, 20}, -1, 1, 1, {-3}},
      {{1, 1, 1, 70}, 3, 1, 20, {69, 0, 5}},
  };
  if (number >= OPS_COUNT(cases)) return false;
  const int64_t count = cases[number].rows * cases[number].columns;
  ops_case_arg(c, ARG_INT("dim", cases[number].dim));
  if (!ops_case_in(c, TD_F32, 4, cases[number].dims, OPS_NORMAL, number) ||
      !ops_case_in(c, TD_I64, 2, &cases[number].rows, OPS_INDEX, 1))
    return false;
  for (int64_t i = 0; i < count; i++) base_store_i64(TD_I64, c->in[1].data, i, cases[number].at[i]);
  return true;
}

static bool index_select_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_I4, TD_F64, TD_U8};
  static const int64_t at[] = {2, -1, 0, -3, 1};
  if (number >= 2 * OPS_COUNT(dtypes)) return wide_select_case(c, number - 2 * OPS_COUNT(dtypes));
  ops_case_arg(c, ARG_INT("dim", (int64_t)number % 2 ? -2 : 1));
  return ops_case_in(c, dtypes[number / 2], OPS_DIMS(2, 3, 5), OPS_NORMAL, number) &&
         ops_case_ints(c, at, number == 2 ? 0 : 5);
}

/* Every width and axis, several tasks, rows longer than are looked at at once. */
static bool part_gather_case(ir_case *c, uint32_t number) {
  static const td_dtype widths[] = {TD_F32, TD_F64, TD_F16, TD_U8};
  if (number >= 3 * OPS_COUNT(widths)) return false;
  ops_case_arg(c, ARG_INT("dim", (int64_t)(number % 3) - 3));
  return ops_case_in(c, widths[number / 3], OPS_DIMS(9, 37, 611), OPS_NORMAL, number) &&
         ops_case_in(c, number % 2 ? TD_I64 : TD_I8, OPS_DIMS(7, 30, 530), OPS_NORMAL, number);
}

/* The index has the input's sizes, but along the axis. */
static bool whole_gather_case(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F32, TD_F16, TD_I64, TD_F64, TD_U8};
  if (number >= 2 * OPS_COUNT(dtypes)) return part_gather_case(c, number - 2 * OPS_COUNT(dtypes));
  const td_dtype d = dtypes[number / 2];
  ops_case_arg(c, ARG_INT("dim", number % 2 ? -1 : 1));
  return number % 2 ? ops_case_in(c, d, OPS_DIMS(5, 3, 9), OPS_NORMAL, number) &&
                          ops_case_in(c, number % 4 == 1 ? TD_I32 : TD_I64, OPS_DIMS(5, 3, 41), OPS_NORMAL, number)
                    : ops_case_in(c, d, OPS_DIMS(2, 9, 35), OPS_NORMAL, number) &&
                          ops_case_in(c, TD_I64, OPS_DIMS(2, 7, 35), OPS_NORMAL, number);
}

static bool gather_cases(ir_case *c, uint32_t number) {
  if (number >= 3) return whole_gather_case(c, number - 3);
  ops_case_arg(c, ARG_INT("dim", (int64_t)number - 1));
  return ops_case_in(c, number ? TD_F32 : TD_I4, OPS_DIMS(9, 9), OPS_NORMAL, number) &&
         ops_case_in(c, TD_I32, OPS_DIMS(2, 3), number ? OPS_INDEX : OPS_NORMAL, number);
}

static bool gather_nd_cases(ir_case *c, uint32_t number) {
  if (number >= 3) return false;
  ops_case_arg(c, ARG_INT("batch_dims", number == 2));
  return ops_case_in(c, TD_F32, OPS_DIMS(9, 9, 3), OPS_NORMAL, number) &&
         (number == 2 ? ops_case_in(c, TD_I64, OPS_DIMS(9, 2, 1), OPS_NORMAL, 1)
                      : ops_case_in(c, TD_I64, OPS_DIMS(4, 1 + (int64_t)number), OPS_NORMAL, 2));
}

static const ir_alias select_aliases[] = {{"onnx", "Gather", 1, "axis=dim"}};
static const ir_alias gather_aliases[] = {{"onnx", "GatherElements", 11, "axis=dim"}};
static const ir_alias nd_aliases[] = {{"onnx", "GatherND", 11, NULL}, {"com.microsoft", "GatherND", 1, NULL}};

OPS_DECLARE(gather);
const ir_op ops_gather[] = {
    /* (x, index): index of any rank; its dims stand in the place of dim */
    {.id = OPERATOR(aten, index_select),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .flags = IR_OP_LOOKUP,
     .strings = 1,
     .attrs = dim_attrs,
     .attr_count = OPS_COUNT(dim_attrs),
     .infer = infer_index_select,
     .reference = index_select_reference,
     .kernel = index_select_kernel,
     .lower = lower_index_select,
     .aliases = select_aliases,
     .alias_count = OPS_COUNT(select_aliases)},
    /* (x, index): out[i][j] = x[index[i][j]][j] for dim 0; index may be smaller than x along the other axes */
    {.id = OPERATOR(aten, gather),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .flags = IR_OP_LOOKUP,
     .strings = 1,
     .attrs = dim_attrs,
     .attr_count = OPS_COUNT(dim_attrs),
     .infer = infer_gather,
     .reference = gather_reference,
     .lower = lower_gather,
     .kernel = gather_kernel,
     .aliases = gather_aliases,
     .alias_count = OPS_COUNT(gather_aliases)},
    /* (x, tuples): tuples along the last axis index the dimensions of x after batch_dims shared ones */
    {.id = OPERATOR(td, gather_nd),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .flags = IR_OP_LOOKUP,
     .strings = 1,
     .attrs = nd_attrs,
     .attr_count = OPS_COUNT(nd_attrs),
     .infer = infer_gather_nd,
     .reference = gather_nd_reference,
     .aliases = nd_aliases,
     .alias_count = OPS_COUNT(nd_aliases)},
};
OPS_TABLE(gather);
OPS_CASES(gather) = {
    {OP_aten_index_select, index_select_cases},
    {OP_aten_gather, gather_cases},
    {OP_td_gather_nd, gather_nd_cases},
    {0},
};
