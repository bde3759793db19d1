/* sort.c -- topk, sort, unique, mode. One stable merge sort of positions: equal elements keep their order, NaN counts
 * as the largest value, and -0 equals 0.
 *
 *     aten::topk  the k largest or least values, in order, and their indices (ONNX TopK 10)
 *     aten::sort  all values in order, and their indices (PyTorch sort)
 *     td::unique  the distinct values, first indices, inverse, counts (ONNX Unique 11)
 *     aten::mode  the most frequent value and an index of it (PyTorch mode) */
#include "kernels/data/data.h"
#include "ops/common/kernel_priv.h"
#include "ops/common/move_priv.h"
#include "ops/common/sort_priv.h"
#include "base/size.h"

#include <math.h>
#include <string.h>

enum { TOPK_SORTED = KERN_ORDER_ATTRS };
enum { UNIQUE_DIM, UNIQUE_SORTED, UNIQUE_CONSECUTIVE };
enum { MODE_DIM };

static const ir_attr topk_attrs[] = {KERN_TOPK_LIST(OPS_ATTR_ROW) ATTR_INT("sorted", 1)};
static const ir_attr sort_attrs[] = {KERN_SORT_LIST(OPS_ATTR_ROW)};
static const ir_attr unique_attrs[] = {ATTR_OPTIONAL("dim", BASE_ATTR_INT), ATTR_INT("sorted", 1),
                                       ATTR_BOOL("consecutive", 0)};
static const ir_attr mode_attrs[] = {ATTR_INT("dim", -1)};

/* ---- sorting ---- */

/* Items are runs of `length` elements; item i begins at element base + i * step. */
typedef struct items {
  td_dtype dtype;
  const void *data;
  int64_t base, step, length;
  bool descending;
} items;

static int compare_strings(const td_string *a, const td_string *b) {
  size_t shorter = a->length < b->length ? a->length : b->length;
  int order = shorter ? memcmp(a->at, b->at, shorter) : 0;
  return order ? order : (a->length > b->length) - (a->length < b->length);
}

static int compare_elements(td_dtype dtype, const void *data, int64_t a, int64_t b) {
  if (base_is_float(dtype)) {
    double x = base_load_f64(dtype, data, a), y = base_load_f64(dtype, data, b);
    if (isnan(x) || isnan(y)) return (isnan(x) != 0) - (isnan(y) != 0);
    return (x > y) - (x < y);
  }
  if (dtype == TD_U64) {
    uint64_t x = ((const base_u64 *)data)[a], y = ((const base_u64 *)data)[b];
    return (x > y) - (x < y);
  }
  if (dtype == TD_STRING) {
    td_string x, y;
    memcpy(&x, (const char *)data + (size_t)a * sizeof x, sizeof x);
    memcpy(&y, (const char *)data + (size_t)b * sizeof y, sizeof y);
    return compare_strings(&x, &y);
  }
  int64_t x = base_load_i64(dtype, data, a), y = base_load_i64(dtype, data, b);
  return (x > y) - (x < y);
}

static int compare_items(const void *user, int64_t a, int64_t b) {
  const items *t = user;
  int order = 0;
  for (int64_t k = 0; k < t->length && !order; k++)
    order = compare_elements(t->dtype, t->data, t->base + a * t->step + k, t->base + b * t->step + k);
  return t->descending ? -order : order;
}

void ops_sort_positions(int64_t *order, int64_t *spare, int64_t count, ops_compare compare, const void *user) {
  int64_t *from = order, *to = spare;
  for (int64_t width = 1; width < count; width *= 2) {
    for (int64_t low = 0; low < count; low += 2 * width) {
      int64_t middle = base_min_i64(low + width, count), high = base_min_i64(low + 2 * width, count), a = low,
              b = middle;
      for (int64_t i = low; i < high; i++) {
        bool left = a < middle && (b >= high || compare(user, from[a], from[b]) <= 0);
        to[i] = left ? from[a++] : from[b++];
      }
    }
    int64_t *swap = from;
    from = to;
    to = swap;
  }
  if (from != order && count) memcpy(order, from, (size_t)count * sizeof *order);
}

/* ---- topk, sort ---- */

static td_status infer_both(ir_infer *ctx, const ir_type *type) {
  TRY(ir_out(ctx, 0, type->dtype, type->rank, type->dims));
  return ir_out(ctx, 1, TD_I64, type->rank, type->dims);
}

static td_status infer_topk(ir_infer *ctx) {
  ir_type type = ctx->in[0]->type;
  const base_dim *k;
  uint32_t count;
  int32_t axis;
  if (type.rank == IR_UNRANKED) {
    TRY(ir_out_unranked(ctx, 0, type.dtype));
    return ir_out_unranked(ctx, 1, TD_I64);
  }
  TRY(ir_axis(ctx, base_attr_int(ctx->attrs, KERN_ORDER_DIM), type.rank, &axis));
  bool known = ir_in_ints(ctx, 1, &k, &count);
  if (known && count != 1) return ir_infer_fail(ctx, "k has %u elements, not 1", count);
  if (known && base_dim_known(k[0]) && base_dim_known(type.dims[axis]) && (k[0] < 0 || k[0] > type.dims[axis]))
    return ir_infer_fail(ctx, "the %lld largest of %lld elements", (long long)k[0], (long long)type.dims[axis]);
  type.dims[axis] = known ? k[0] : ir_fresh(ctx);
  return infer_both(ctx, &type);
}

static td_status infer_sort(ir_infer *ctx) {
  int32_t axis;
  if (ctx->in[0]->type.rank > 0)
    TRY(ir_axis(ctx, base_attr_int(ctx->attrs, KERN_ORDER_DIM), ctx->in[0]->type.rank, &axis));
  TRY(ir_out_like(ctx, 0, 0, TD_INVALID));
  return ir_out_like(ctx, 1, 0, TD_I64);
}

/* The first `k` in order along `axis`, into whichever outputs are wanted. */
static td_status sort_along(const base_call *call, int32_t axis, int64_t k, bool descending) {
  const base_tensor *x = base_in(call, 0), *values = base_out(call, 0), *positions = base_out(call, 1);
  int64_t size = x->rank ? x->dims[axis] : 1, outer = 1, inner = 1;
  if (k < 0 || k > size) return ops_fail(call, "the first %lld of %lld elements", (long long)k, (long long)size);
  if (base_tensor_numel(x) == 0 || k == 0) return TD_OK;
  for (int32_t i = 0; i < x->rank; i++) {
    if (i < axis) outer *= x->dims[i];
    if (i > axis) inner *= x->dims[i];
  }
  const void *data = ops_dense(call, 0);
  int64_t *order = base_call_scratch(call, (size_t)size, sizeof *order);
  int64_t *spare = base_call_scratch(call, (size_t)size, sizeof *spare);
  if (!data || !order || !spare) return base_no_memory(call->err, "scratch");
  for (int64_t row = 0; row < outer * inner; row++) {
    int64_t o = row / inner, i = row % inner;
    items t = {x->dtype, data, o * size * inner + i, inner, 1, descending};
    for (int64_t j = 0; j < size; j++) order[j] = j;
    ops_sort_positions(order, spare, size, compare_items, &t);
    for (int64_t j = 0; j < k; j++) {
      int64_t to = (o * k + j) * inner + i;
      if (values) ops_move_run(x->dtype, values->data, to, data, t.base + order[j] * inner, 1);
      if (positions) base_store_i64(TD_I64, positions->data, to, order[j]);
    }
  }
  return TD_OK;
}

static td_status topk_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0);
  int64_t k, dim = base_attr_int(call->attrs, KERN_ORDER_DIM), axis = dim < 0 ? dim + x->rank : dim;
  uint32_t count;
  TRY(ops_read_ints(call, 1, 1, &k, &count));
  if (count != 1) return ops_fail(call, "k is missing");
  const base_tensor *out = base_out(call, 0) ? base_out(call, 0) : base_out(call, 1);
  if (out && out->dims[axis] != k)
    return ops_fail(call, "k is %lld where %lld was expected", (long long)k, (long long)out->dims[axis]);
  return sort_along(call, (int32_t)axis, k, base_attr_int(call->attrs, KERN_ORDER_LARGEST) != 0);
}

static td_status sort_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0);
  int64_t dim = base_attr_int(call->attrs, KERN_ORDER_DIM), axis = x->rank == 0 ? 0 : dim < 0 ? dim + x->rank : dim;
  return sort_along(call, (int32_t)axis, x->rank ? x->dims[axis] : 1,
                    base_attr_int(call->attrs, KERN_ORDER_LARGEST) != 0);
}

static const kern_row *order_kernel(const ir_kernel_query *query) {
  return query->in[0]->type.dtype == TD_F32 ? kern_select(KERN_ORDER, TD_F32, query->isa) : NULL;
}

static double sort_flops(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  (void)out;
  (void)attrs;
  double n = 1;
  for (int32_t i = 0; i < in[0]->type.rank; i++) n *= (double)in[0]->type.dims[i];
  return n * log2(n + 1);
}

/* ---- unique ---- */

static td_status infer_unique(ir_infer *ctx) {
  ir_type type = ctx->in[0]->type;
  bool flat = !base_attr_has(ctx->attrs, UNIQUE_DIM);
  base_dim groups = ir_fresh(ctx), all = ir_fresh(ctx);
  int32_t axis = 0;
  if (!flat && type.rank != IR_UNRANKED) {
    TRY(ir_axis(ctx, base_attr_int(ctx->attrs, UNIQUE_DIM), type.rank, &axis));
    all = type.dims[axis];
    type.dims[axis] = groups;
    TRY(ir_out(ctx, 0, type.dtype, type.rank, type.dims));
  } else if (flat) {
    if (type.rank != IR_UNRANKED) all = ir_numel(ctx, &type);
    TRY(ir_out(ctx, 0, type.dtype, 1, &groups));
  } else {
    TRY(ir_out_unranked(ctx, 0, type.dtype));
  }
  TRY(ir_out(ctx, 1, TD_I64, 1, &groups));
  TRY(ir_out(ctx, 2, TD_I64, 1, &all));
  return ir_out(ctx, 3, TD_I64, 1, &groups);
}

/* Equal items of one tensor. */
typedef struct groups {
  int64_t items, count;
  int64_t *first;   /* per group: its first item */
  int64_t *members; /* per group: how many */
  int64_t *group;   /* per item */
} groups;

/* `consecutive`: equal neighbours alone, in the order in which they stand. */
static td_status find_groups(const base_call *call, const items *t, int64_t count, bool consecutive, groups *g) {
  size_t room = (size_t)count;
  int64_t *order = base_call_scratch(call, room, sizeof *order), *spare = base_call_scratch(call, room, sizeof *spare);
  *g = (groups){count, 0, base_call_scratch(call, room, sizeof(int64_t)),
                base_call_scratch(call, room, sizeof(int64_t)), base_call_scratch(call, room, sizeof(int64_t))};
  if (!order || !spare || !g->first || !g->members || !g->group) return base_no_memory(call->err, "scratch");
  for (int64_t i = 0; i < count; i++) order[i] = i;
  if (!consecutive) ops_sort_positions(order, spare, count, compare_items, t);
  for (int64_t i = 0; i < count; i++) {
    if (i == 0 || compare_items(t, order[i - 1], order[i]) != 0) {
      g->first[g->count] = order[i]; /* the sort is stable: the first of its kind */
      g->members[g->count++] = 0;
    }
    g->members[g->count - 1]++;
    g->group[order[i]] = g->count - 1;
  }
  return TD_OK;
}

/* Numbers the groups by their first item instead of by value. */
static td_status order_by_first(const base_call *call, groups *g) {
  size_t room = (size_t)g->items;
  int64_t *number = base_call_scratch(call, room, sizeof *number),
          *members = base_call_scratch(call, room, sizeof *members);
  if (!number || !members) return base_no_memory(call->err, "scratch");
  int64_t next = 0;
  for (int64_t i = 0; i < g->items; i++)
    if (g->first[g->group[i]] == i) number[g->group[i]] = next++;
  for (int64_t k = 0; k < g->count; k++) members[number[k]] = g->members[k];
  for (int64_t i = 0; i < g->items; i++) g->group[i] = number[g->group[i]];
  for (int64_t i = g->items; i-- > 0;) g->first[g->group[i]] = i;
  g->members = members;
  return TD_OK;
}

static td_status put_vector(const base_call *call, uint32_t output, const int64_t *from, int64_t count) {
  TRY(base_call_define(call, output, TD_I64, 1, &count));
  if (base_out(call, output) && count) memcpy(base_out(call, output)->data, from, (size_t)count * sizeof *from);
  return TD_OK;
}

/* Items dense one after the other: the elements, or the slices along an axis. */
static td_status gather_items(const base_call *call, int32_t axis, bool flat, base_tensor *dense, items *t) {
  const base_tensor *x = base_in(call, 0);
  int64_t dims[BASE_MAX_RANK] = {0};
  base_tensor from = *x;
  *t = (items){x->dtype, ops_dense(call, 0), 0, 1, 1, false};
  if (!t->data) return base_no_memory(call->err, "scratch");
  if (base_tensor_numel(x) == 0) t->length = 0;
  if (flat || t->length == 0) return TD_OK;
  for (int32_t i = 0; i < x->rank; i++) {
    int32_t source = i == 0 ? axis : i <= axis ? i - 1 : i;
    dims[i] = from.dims[i] = x->dims[source];
    from.strides[i] = x->strides[source];
    if (i) t->length *= dims[i];
  }
  size_t bytes;
  if (!base_dtype_bytes(x->dtype, base_tensor_numel(x), &bytes)) return ops_fail(call, "the input is too large");
  *dense = base_tensor_of(base_call_scratch(call, bytes, 1), x->dtype, x->rank, dims);
  if (!dense->data) return base_no_memory(call->err, "scratch");
  ops_move(dense, 0, &from, 0);
  t->data = dense->data;
  t->step = t->length;
  return TD_OK;
}

static td_status unique_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0);
  bool flat = !base_attr_has(call->attrs, UNIQUE_DIM);
  int64_t dim = flat ? 0 : base_attr_int(call->attrs, UNIQUE_DIM), axis = dim < 0 ? dim + x->rank : dim;
  if (!flat && (axis < 0 || axis >= x->rank)) return ops_fail(call, "axis %lld does not fit", (long long)dim);
  base_tensor dense;
  items t;
  groups g;
  TRY(gather_items(call, (int32_t)axis, flat, &dense, &t));
  bool consecutive = base_attr_int(call->attrs, UNIQUE_CONSECUTIVE);
  TRY(find_groups(call, &t, flat ? base_tensor_numel(x) : x->dims[axis], consecutive, &g));
  if (!base_attr_int(call->attrs, UNIQUE_SORTED) && !consecutive) TRY(order_by_first(call, &g));
  int64_t dims[BASE_MAX_RANK];
  for (int32_t i = 0; i < x->rank; i++) dims[i] = i == axis ? g.count : x->dims[i];
  TRY(base_call_define(call, 0, x->dtype, flat ? 1 : x->rank, flat ? &g.count : dims));
  const base_tensor *out = base_out(call, 0);
  for (int64_t k = 0; out && k < g.count; k++) {
    if (flat) {
      ops_move_run(x->dtype, out->data, k, t.data, g.first[k], 1);
      continue;
    }
    base_tensor slice = *x;
    slice.dims[axis] = 1;
    base_tensor to = *out;
    to.dims[axis] = 1;
    ops_move(&to, k * out->strides[axis], &slice, g.first[k] * x->strides[axis]);
  }
  TRY(put_vector(call, 1, g.first, g.count));
  TRY(put_vector(call, 2, g.group, g.items));
  return put_vector(call, 3, g.members, g.count);
}

/* ---- mode ---- */

static td_status mode_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *values = base_out(call, 0), *positions = base_out(call, 1);
  int64_t dim = base_attr_int(call->attrs, MODE_DIM), axis = x->rank == 0 ? 0 : dim < 0 ? dim + x->rank : dim;
  int64_t size = x->rank ? x->dims[axis] : 1, inner = 1, lanes = values ? base_tensor_numel(values) : 0;
  if (!lanes && positions) lanes = base_tensor_numel(positions);
  if (lanes && !size) return ops_fail(call, "no element to choose from");
  for (int32_t i = (int32_t)axis + 1; i < x->rank; i++) inner *= x->dims[i];
  const void *data = ops_dense(call, 0);
  int64_t *order = base_call_scratch(call, (size_t)size, 2 * sizeof *order);
  if (!data || !order) return base_no_memory(call->err, "scratch");
  for (int64_t lane = 0; lane < lanes; lane++) {
    items t = {x->dtype, data, lane / inner * size * inner + lane % inner, inner, 1, false};
    int64_t best = 0, most = 0, run = 0;
    for (int64_t j = 0; j < size; j++) order[j] = j;
    ops_sort_positions(order, order + size, size, compare_items, &t);
    for (int64_t j = 0; j < size; j++) {
      run = j && compare_items(&t, order[j - 1], order[j]) == 0 ? run + 1 : 1;
      if (run <= most) continue;
      most = run;
      best = order[j];
    }
    if (values) ops_move_run(x->dtype, values->data, lane, data, t.base + best * inner, 1);
    if (positions) base_store_i64(TD_I64, positions->data, lane, best);
  }
  return TD_OK;
}
static td_status infer_mode(ir_infer *ctx) {
  ir_type type = ctx->in[0]->type;
  int32_t axis = 0;
  if (type.rank == IR_UNRANKED) {
    TRY(ir_out_unranked(ctx, 0, type.dtype));
    return ir_out_unranked(ctx, 1, TD_I64);
  }
  if (type.rank > 0) TRY(ir_axis(ctx, base_attr_int(ctx->attrs, MODE_DIM), type.rank, &axis));
  if (type.rank > 0) type.dims[axis] = 1;
  return infer_both(ctx, &type);
}

/* ---- cases ---- */

/* Rows and columns of 131 numbers, many of them equal or special: a few of them, half, and all. */
static bool many_cases(ir_case *c, uint32_t number, int64_t dim) {
  ops_case_arg(c, ARG_INT("dim", dim));
  if (!ops_case_in(c, TD_F32, OPS_DIMS(3, dim == 1 ? 131 : 5, dim == 1 ? 5 : 131),
                   number & 4 ? OPS_SPECIAL : OPS_NORMAL, number))
    return false;
  float *x = c->in[0].data;
  for (int64_t i = 0; !(number & 4) && i < base_tensor_numel(&c->in[0]); i++) x[i] = rintf(2 * x[i]);
  return true;
}

static bool topk_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F16, TD_I64, TD_U8};
  static const int64_t counts[] = {3, 0, 5, 1}, of_many[] = {9, 60, 131, 1};
  if (number >= 24) return false;
  if (number >= 8) {
    ops_case_arg(c, ARG_INT("largest", number / 2 % 2));
    return many_cases(c, number, number % 2 ? 1 : -1) && ops_case_ints(c, &of_many[(number - 8) / 4], 1);
  }
  ops_case_arg(c, ARG_INT("dim", (int64_t)(number % 3) - 1));
  ops_case_arg(c, ARG_INT("largest", number % 2));
  return ops_case_in(c, dtypes[number % 4], OPS_DIMS(5, 7), number < 4 ? OPS_NORMAL : OPS_SPECIAL, number) &&
         ops_case_ints(c, &counts[number % 4], 1);
}

static bool sort_cases(ir_case *c, uint32_t number) {
  if (number >= 8) return false;
  if (number >= 4) {
    ops_case_arg(c, ARG_INT("descending", number % 2));
    return many_cases(c, number & 2 ? 4 : 0, number % 2 ? 1 : -1);
  }
  ops_case_arg(c, ARG_INT("dim", (int64_t)(number % 2)));
  ops_case_arg(c, ARG_INT("descending", number / 2));
  return ops_case_in(c, TD_F32, OPS_DIMS(13, 3), OPS_SPECIAL, number);
}

static bool unique_cases(ir_case *c, uint32_t number) {
  if (number >= 9) return false;
  if (number % 3) ops_case_arg(c, ARG_INT("dim", (int64_t)(number % 3) - 2));
  ops_case_arg(c, ARG_INT("sorted", number / 3 == 1));
  ops_case_arg(c, ARG_BOOL("consecutive", number / 3 == 2));
  return ops_case_in(c, number % 2 ? TD_I32 : TD_F32, OPS_DIMS(13, 1 + 2 * (number == 0)), OPS_NORMAL, number);
}

static bool mode_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_I64, TD_U8, TD_BF16};
  if (number >= 8) return false;
  ops_case_arg(c, ARG_INT("dim", (int64_t)(number % 3) - 1));
  return ops_case_in(c, dtypes[number % 4], OPS_DIMS(13, 5), number < 4 ? OPS_NORMAL : OPS_SPECIAL, number);
}

static const ir_alias unique_aliases[] = {{"onnx", "Unique", 11, "axis=dim"}};

OPS_DECLARE(sort);
const ir_op ops_sort[] = {
    /* (x, k) -> values, positions: the k largest (or smallest) along dim, always in order; of equal ones the first */
    {.id = OPERATOR(aten, topk),
     .min_in = 2,
     .max_in = 2,
     .out_count = 2,
     .attrs = topk_attrs,
     .attr_count = OPS_COUNT(topk_attrs),
     .infer = infer_topk,
     .reference = topk_reference,
     .kernel = order_kernel,
     .flops = sort_flops},
    /* (x) -> values, positions; stable */
    {.id = OPERATOR(aten, sort),
     .min_in = 1,
     .max_in = 1,
     .out_count = 2,
     .attrs = sort_attrs,
     .attr_count = OPS_COUNT(sort_attrs),
     .infer = infer_sort,
     .reference = sort_reference,
     .kernel = order_kernel,
     .flops = sort_flops},
    /* (x) -> the different elements (slices along dim, where there is one), position of the first of each, for each
     * item the number of its kind, members of each kind. sorted: by value, else by first position. consecutive: each
     * run of equal neighbours is a kind. */
    {.id = OPERATOR(td, unique),
     .min_in = 1,
     .max_in = 1,
     .out_count = 4,
     .strings = 1,
     .flags = IR_OP_DEFINES,
     .attrs = unique_attrs,
     .attr_count = OPS_COUNT(unique_attrs),
     .infer = infer_unique,
     .reference = unique_reference,
     .flops = sort_flops,
     .aliases = unique_aliases,
     .alias_count = OPS_COUNT(unique_aliases)},
    /* (x) -> values, positions: the most frequent element along dim, which stays with one element; of equally frequent
     * ones the least, of equal ones the last */
    {.id = OPERATOR(aten, mode),
     .min_in = 1,
     .max_in = 1,
     .out_count = 2,
     .attrs = mode_attrs,
     .attr_count = OPS_COUNT(mode_attrs),
     .infer = infer_mode,
     .reference = mode_reference,
     .flops = sort_flops},
};
OPS_TABLE(sort);
OPS_CASES(sort) = {
    {OP_aten_topk, topk_cases},
    {OP_aten_sort, sort_cases},
    {OP_td_unique, unique_cases},
    {OP_aten_mode, mode_cases},
    {0},
};
