/* scatter.c -- a copy of the first operand with some elements replaced, or combined with updates. Updates are applied
 * in row-major order, so that with equal indices the last one stays. Float updates are combined in double and rounded
 * each.
 *
 *     aten::scatter       y = x; y[i, at dim: index[i]] becomes updates[i], or their sum, product, min, max (ONNX
 *                         ScatterElements 11)
 *     td::scatter_nd      y = x; y[index[i, 0], index[i, 1], ...] likewise (ONNX ScatterND 11)
 *     td::tensor_scatter  y = x; y[n, start[n] + k] = updates[n, k] (ONNX TensorScatter 24) */
#include "kernels/kernels.h"
#include "kernels/data/data.h"
#include "ops/common/move_priv.h"
#include "base/size.h"

#include <math.h>
#include <string.h>

enum { TENSOR_AXIS, TENSOR_MODE };

static const ir_attr scatter_attrs[] = {KERN_SCATTER_LIST(OPS_ATTR_ROW)};
static const ir_attr nd_attrs[] = {KERN_SCATTER_ND_LIST(OPS_ATTR_ROW)};
static const ir_attr tensor_attrs[] = {ATTR_INT("axis", -2), ATTR_STR("mode", "linear")};

/* ---- reductions ---- */

typedef struct reduction {
  const char *name;
  double (*f)(double a, double b);
  int64_t (*i)(int64_t a, int64_t b);
  uint64_t (*u)(uint64_t a, uint64_t b); /* of u64, where the sign matters */
} reduction;

static double add_f(double a, double b) { return a + b; }
static double mul_f(double a, double b) { return a * b; }
static double max_f(double a, double b) { return isnan(a) || a > b ? a : b; }
static double min_f(double a, double b) { return isnan(a) || a < b ? a : b; }
static int64_t add_i(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static int64_t mul_i(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static int64_t max_i(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t min_i(int64_t a, int64_t b) { return a < b ? a : b; }
static uint64_t add_u(uint64_t a, uint64_t b) { return a + b; }
static uint64_t mul_u(uint64_t a, uint64_t b) { return a * b; }
static uint64_t max_u(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t min_u(uint64_t a, uint64_t b) { return a < b ? a : b; }

static const reduction reductions[] = {{"none", NULL, NULL, NULL},
                                       {"add", add_f, add_i, add_u},
                                       {"mul", mul_f, mul_i, mul_u},
                                       {"max", max_f, max_i, max_u},
                                       {"min", min_f, min_i, min_u}};

static const reduction *find_reduction(const char *name) {
  for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++)
    if (strcmp(reductions[i].name, name) == 0) return &reductions[i];
  return NULL;
}

/* to[to_at + k] = to[to_at + k] (reduction) from[from_at + k] */
static void combine_run(const reduction *r, td_dtype dtype, void *to, int64_t to_at, const void *from, int64_t from_at,
                        int64_t count) {
  if (!r->f) {
    ops_move_run(dtype, to, to_at, from, from_at, count);
    return;
  }
  for (int64_t k = 0; k < count; k++) {
    if (base_is_float(dtype))
      base_store_f64(dtype, to, to_at + k,
                     r->f(base_load_f64(dtype, to, to_at + k), base_load_f64(dtype, from, from_at + k)));
    else if (dtype == TD_U64)
      ((base_u64 *)to)[to_at + k] = r->u(((base_u64 *)to)[to_at + k], ((const base_u64 *)from)[from_at + k]);
    else
      base_store_i64(dtype, to, to_at + k,
                     r->i(base_load_i64(dtype, to, to_at + k), base_load_i64(dtype, from, from_at + k)));
  }
}

static td_status check_reduction(ir_infer *ctx, uint32_t attr) {
  const char *name = base_attr_str(ctx->attrs, attr);
  const reduction *r = find_reduction(name);
  if (!r) return ir_infer_fail(ctx, "there is no reduction \"%s\"", name);
  if (r->f && ctx->in[0]->type.dtype == TD_STRING) return ir_infer_fail(ctx, "strings cannot be combined");
  return TD_OK;
}

/* ---- scatter ---- */

static td_status infer_scatter(ir_infer *ctx) {
  int32_t axis;
  TRY(ops_same_dtype(ctx, 0, 2));
  TRY(check_reduction(ctx, KERN_SCATTER_REDUCE));
  if (ctx->in[0]->type.rank != IR_UNRANKED)
    TRY(ir_axis(ctx, base_attr_int(ctx->attrs, KERN_SCATTER_DIM), ctx->in[0]->type.rank, &axis));
  return ir_out_like(ctx, 0, 0, TD_INVALID);
}

static td_status check_scatter(const base_call *call, int32_t axis) {
  const base_tensor *x = base_in(call, 0), *index = base_in(call, 1), *updates = base_in(call, 2);
  bool fits = index->rank == x->rank && updates->rank == x->rank;
  for (int32_t i = 0; fits && i < x->rank; i++)
    fits = index->dims[i] == updates->dims[i] && (i == axis || index->dims[i] <= x->dims[i]);
  char a[128], b[128], c[128];
  return fits ? TD_OK
              : ops_fail(call, "indices %s, updates %s and input %s do not fit",
                         base_tensor_describe(index, a, sizeof a), base_tensor_describe(updates, b, sizeof b),
                         base_tensor_describe(x, c, sizeof c));
}

static td_status scatter_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *index = base_in(call, 1), *out = base_out(call, 0);
  int64_t dim = base_attr_int(call->attrs, KERN_SCATTER_DIM), size;
  int32_t axis = (int32_t)(dim < 0 ? dim + x->rank : dim);
  const reduction *r = find_reduction(base_attr_str(call->attrs, KERN_SCATTER_REDUCE));
  TRY(check_scatter(call, axis));
  const base_i64 *at = ops_dense_i64(call, 1);
  const void *updates = ops_dense(call, 2);
  if (!at || !updates) return base_no_memory(call->err, "scratch");
  base_tensor_pack(out->data, x);
  size = x->dims[axis];
  int64_t strides[BASE_MAX_RANK];
  for (int32_t i = 0; i < out->rank; i++) strides[i] = i == axis ? 0 : out->strides[i];
  base_walk w;
  base_walk_start(&w, index->rank, index->dims, 1, (const int64_t *const[]){strides});
  if (!w.count) return TD_OK;
  int64_t i = 0;
  do {
    int64_t where = at[i] < 0 ? at[i] + size : at[i];
    if (where < 0 || where >= size)
      return ops_fail(call, "index %lld is outside of an axis of %lld", (long long)at[i], (long long)size);
    combine_run(r, out->dtype, out->data, w.offset[0] + where * out->strides[axis], updates, i++, 1);
  } while (base_walk_next(&w));
  return TD_OK;
}

static const kern_row *kernel_for(const ir_kernel_query *query, uint32_t attr, kern_family family) {
  const ir_type *x = query->in[0] ? &query->in[0]->type : NULL, *index = query->in[1] ? &query->in[1]->type : NULL;
  if (!x || !index || x->rank < 1 || index->rank < 1) return NULL;
  if (!kern_scatter_has(base_attr_str(query->attrs, attr), x->dtype)) return NULL;
  return kern_select(family, x->dtype, query->isa);
}

static const kern_row *scatter_kernel(const ir_kernel_query *query) {
  return kernel_for(query, KERN_SCATTER_REDUCE, KERN_SCATTER);
}

static const kern_row *scatter_nd_kernel(const ir_kernel_query *query) {
  return kernel_for(query, KERN_SCATTER_ND_REDUCE, KERN_SCATTER_ND);
}

/* ---- scatter_nd ---- */

static td_status infer_scatter_nd(ir_infer *ctx) {
  TRY(ops_same_dtype(ctx, 0, 2));
  TRY(check_reduction(ctx, KERN_SCATTER_ND_REDUCE));
  return ir_out_like(ctx, 0, 0, TD_INVALID);
}

static td_status scatter_nd_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *index = base_in(call, 1), *updates = base_in(call, 2),
                    *out = base_out(call, 0);
  const reduction *r = find_reduction(base_attr_str(call->attrs, KERN_SCATTER_ND_REDUCE));
  int64_t tuple = index->rank ? index->dims[index->rank - 1] : 0, count = 1, inner = 1;
  if (index->rank < 1 || tuple > x->rank)
    return ops_fail(call, "tuples of %lld indices do not fit rank %d", (long long)tuple, x->rank);
  if (base_tensor_numel(x) == 0 && base_tensor_numel(updates) == 0) return TD_OK;
  bool fits = true;
  for (int32_t i = 0; i < index->rank - 1; i++) fits = fits && base_mul_i64(count, index->dims[i], &count);
  for (int32_t i = (int32_t)tuple; i < x->rank; i++) fits = fits && base_mul_i64(inner, x->dims[i], &inner);
  int64_t expected;
  if (!fits || !base_mul_i64(count, inner, &expected) || base_tensor_numel(updates) != expected)
    return ops_fail(call, "%lld updates where %lld blocks of %lld were expected", (long long)base_tensor_numel(updates),
                    (long long)count, (long long)inner);
  const base_i64 *at = ops_dense_i64(call, 1);
  const void *from = ops_dense(call, 2);
  if (!at || !from) return base_no_memory(call->err, "scratch");
  base_tensor_pack(out->data, x);
  for (int64_t i = 0; i < count; i++) {
    int64_t offset = 0;
    for (int64_t k = 0; k < tuple; k++) {
      int64_t given = at[i * tuple + k], where = given < 0 ? given + x->dims[k] : given;
      if (where < 0 || where >= x->dims[k])
        return ops_fail(call, "index %lld is outside of an axis of %lld", (long long)given, (long long)x->dims[k]);
      offset += where * out->strides[k];
    }
    combine_run(r, out->dtype, out->data, offset, from, i * inner, inner);
  }
  return TD_OK;
}

/* ---- tensor_scatter ---- */

static td_status infer_tensor_scatter(ir_infer *ctx) {
  TRY(ops_same_dtype(ctx, 0, 1));
  const char *mode = base_attr_str(ctx->attrs, TENSOR_MODE);
  if (strcmp(mode, "linear") != 0 && strcmp(mode, "circular") != 0)
    return ir_infer_fail(ctx, "there is no mode \"%s\"", mode);
  return ir_out_like(ctx, 0, 0, TD_INVALID);
}

/* Writes one sample's updates along `axis` (of the sample) from position `start` on. */
static td_status write_sample(const base_call *call, const base_tensor *cache, const base_tensor *update, int32_t axis,
                              int64_t start, bool circular, int64_t cache_at, int64_t update_at) {
  int64_t size = cache->dims[axis], length = update->dims[axis];
  if (start < 0 || (!circular && length > size - start))
    return ops_fail(call, "%lld elements from position %lld on do not fit an axis of %lld", (long long)length,
                    (long long)start, (long long)size);
  base_tensor one = *update;
  one.dims[axis] = 1;
  base_tensor to = *cache;
  for (int32_t i = 0; i < to.rank; i++) to.dims[i] = one.dims[i];
  for (int64_t i = 0; i < length; i++)
    ops_move(&to, cache_at + (start % size + i) % size * cache->strides[axis], &one,
             update_at + i * update->strides[axis]);
  return TD_OK;
}

static td_status tensor_scatter_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *update = base_in(call, 1), *out = base_out(call, 0),
                    *starts = base_in(call, 2);
  int64_t dim = base_attr_int(call->attrs, TENSOR_AXIS), axis = dim < 0 ? dim + x->rank : dim;
  bool circular = strcmp(base_attr_str(call->attrs, TENSOR_MODE), "circular") == 0;
  bool fits = x->rank == update->rank && axis > 0 && axis < x->rank;
  for (int32_t i = 0; fits && i < x->rank; i++) fits = i == axis || x->dims[i] == update->dims[i];
  if (!fits || (starts && base_tensor_numel(starts) != x->dims[0]))
    return ops_fail(call, "the operands' shapes do not fit together");
  const base_i64 *at = starts ? ops_dense_i64(call, 2) : NULL;
  if (starts && !at) return base_no_memory(call->err, "scratch");
  base_tensor_pack(out->data, x);
  if (base_tensor_numel(out) == 0 || base_tensor_numel(update) == 0) return TD_OK;
  base_tensor cache = *out, sample = *update;
  cache.dims[0] = sample.dims[0] = 1;
  for (int64_t b = 0; b < x->dims[0]; b++)
    TRY(write_sample(call, &cache, &sample, (int32_t)axis, at ? at[b] : 0, circular, b * out->strides[0],
                     b * update->strides[0]));
  return TD_OK;
}

/* ---- cases ---- */

static bool scatter_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_I4, TD_F64, TD_I64, TD_U8};
  if (number >= OPS_COUNT(dtypes) + 10) return false;
  if (number >= OPS_COUNT(dtypes)) { /* each reduction of f32, axes of several tasks, indices that broadcast */
    const uint32_t more = number - OPS_COUNT(dtypes);
    ops_case_arg(c, ARG_STR("reduce", reductions[more % 5].name));
    ops_case_arg(c, ARG_INT("dim", more < 5 ? 0 : -1));
    return ops_case_in(c, TD_F32, OPS_DIMS(17, 5, 701), OPS_NORMAL, 1) &&
           ops_case_in(c, more % 2 ? TD_I32 : TD_I64, OPS_DIMS(9, 5, 650), OPS_NORMAL, 2) &&
           ops_case_in(c, TD_F32, OPS_DIMS(9, 5, 650), OPS_NORMAL, 3);
  }
  td_dtype d = dtypes[number];
  ops_case_arg(c, ARG_STR("reduce", reductions[d == TD_I4 ? 0 : number].name));
  ops_case_arg(c, ARG_INT("dim", (int64_t)(number % 2) - 1));
  return ops_case_in(c, d, OPS_DIMS(9, 9), OPS_NORMAL, 1) && ops_case_in(c, TD_I64, OPS_DIMS(4, 3), OPS_NORMAL, 2) &&
         ops_case_in(c, d, OPS_DIMS(4, 3), OPS_NORMAL, 3);
}

static bool scatter_nd_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F16, TD_F64, TD_I64, TD_U8};
  static const td_dtype widths[] = {TD_F32, TD_F16, TD_F64, TD_U8, TD_BOOL};
  if (number >= 2 * OPS_COUNT(dtypes) + OPS_COUNT(widths)) return false;
  if (number >= 2 * OPS_COUNT(dtypes)) { /* every width, as single elements */
    const td_dtype d = widths[number - 2 * OPS_COUNT(dtypes)];
    return ops_case_in(c, d, OPS_DIMS(9, 9), OPS_NORMAL, 1) && ops_case_in(c, TD_I64, OPS_DIMS(7, 2), OPS_NORMAL, 2) &&
           ops_case_in(c, d, OPS_DIMS(7), OPS_NORMAL, 3);
  }
  if (number >= OPS_COUNT(dtypes)) { /* blocks of several tasks */
    ops_case_arg(c, ARG_STR("reduce", reductions[number % 5].name));
    return ops_case_in(c, TD_F32, OPS_DIMS(9, 9, 40, 33), OPS_NORMAL, 1) &&
           ops_case_in(c, TD_I32, OPS_DIMS(6, 2), OPS_NORMAL, 2) &&
           ops_case_in(c, TD_F32, OPS_DIMS(6, 40, 33), OPS_NORMAL, 3);
  }
  ops_case_arg(c, ARG_STR("reduce", reductions[number].name));
  return ops_case_in(c, dtypes[number], OPS_DIMS(9, 9, 2), OPS_NORMAL, 1) &&
         ops_case_in(c, TD_I64, OPS_DIMS(5, 2), OPS_NORMAL, 2) &&
         ops_case_in(c, dtypes[number], OPS_DIMS(5, 2), OPS_NORMAL, 3);
}

static bool tensor_scatter_cases(ir_case *c, uint32_t number) {
  static const int64_t starts[][2] = {{0, 2}, {4, 3}};
  if (number >= 2) return false;
  ops_case_arg(c, ARG_STR("mode", number ? "circular" : "linear"));
  return ops_case_in(c, TD_F32, OPS_DIMS(2, 5, 3), OPS_NORMAL, 1) &&
         ops_case_in(c, TD_F32, OPS_DIMS(2, 3, 3), OPS_NORMAL, 2) && ops_case_ints(c, starts[number], 2);
}

static const ir_alias scatter_aliases[] = {{"onnx", "Scatter", 9, "axis=dim"},
                                           {"onnx", "ScatterElements", 11, "axis=dim,reduction=reduce"}};
static const ir_alias nd_aliases[] = {{"onnx", "ScatterND", 11, "reduction=reduce"}};
static const ir_alias tensor_aliases[] = {{"onnx", "TensorScatter", 24, NULL}};

OPS_DECLARE(scatter);
const ir_op ops_scatter[] = {
    /* (x, index, updates): out[index[i][j]][j] = updates[i][j] for dim 0; reduce: none, add, mul, max, min */
    {.id = OPERATOR(aten, scatter),
     .min_in = 3,
     .max_in = 3,
     .out_count = 1,
     .strings = 5,
     .attrs = scatter_attrs,
     .attr_count = OPS_COUNT(scatter_attrs),
     .infer = infer_scatter,
     .reference = scatter_reference,
     .kernel = scatter_kernel,
     .aliases = scatter_aliases,
     .alias_count = OPS_COUNT(scatter_aliases)},
    /* (x, tuples, updates): blocks of x that the tuples along the last axis select */
    {.id = OPERATOR(td, scatter_nd),
     .min_in = 3,
     .max_in = 3,
     .out_count = 1,
     .strings = 5,
     .attrs = nd_attrs,
     .attr_count = OPS_COUNT(nd_attrs),
     .infer = infer_scatter_nd,
     .reference = scatter_nd_reference,
     .kernel = scatter_nd_kernel,
     .aliases = nd_aliases,
     .alias_count = OPS_COUNT(nd_aliases)},
    /* (cache, update, starts?): each sample's updates from its own position on; circular: positions wrap */
    {.id = OPERATOR(td, tensor_scatter),
     .min_in = 2,
     .max_in = 3,
     .out_count = 1,
     .strings = 3,
     .attrs = tensor_attrs,
     .attr_count = OPS_COUNT(tensor_attrs),
     .infer = infer_tensor_scatter,
     .reference = tensor_scatter_reference,
     .aliases = tensor_aliases,
     .alias_count = OPS_COUNT(tensor_aliases)},
};
OPS_TABLE(scatter);
OPS_CASES(scatter) = {
    {OP_aten_scatter, scatter_cases},
    {OP_td_scatter_nd, scatter_nd_cases},
    {OP_td_tensor_scatter, tensor_scatter_cases},
    {0},
};
