/* pad.c -- borders around a tensor. All modes share one walk: a table per axis says from which input position each
 * output position comes, or that it is outside. Negative pads crop. */
#include "ops/move_priv.h"
#include "base/size.h"

/* Input position of `at` (outside of [0, size), size > 0), or -1 for the constant. */
typedef int64_t (*pad_map)(int64_t at, int64_t size);

static int64_t wrap(int64_t at, int64_t size) { return at % size < 0 ? at % size + size : at % size; }
static int64_t map_constant(int64_t at, int64_t size) {
  (void)at;
  (void)size;
  return -1;
}
static int64_t map_edge(int64_t at, int64_t size) { return at < 0 ? 0 : size - 1; }
/* The border elements are not repeated: positions go back and forth with a period of 2 (size - 1). */
static int64_t map_reflect(int64_t at, int64_t size) {
  if (size == 1) return 0;
  int64_t folded = wrap(at, 2 * (size - 1));
  return folded < size ? folded : 2 * (size - 1) - folded;
}

typedef struct pad_ints {
  const base_dim *pads, *axes; /* begin of each axis, then end of each; axes NULL: all */
  uint32_t count;              /* axes */
} pad_ints;

/* False: not known. */
static bool read_pads(ir_infer *ctx, uint32_t axes_operand, pad_ints *p) {
  uint32_t n, axes;
  *p = (pad_ints){0};
  if (!ir_in_ints(ctx, 1, &p->pads, &n)) return false;
  if (ir_in(ctx, axes_operand) && !ir_in_ints(ctx, axes_operand, &p->axes, &axes)) return false;
  p->count = n / 2;
  return n % 2 == 0 && (!p->axes || axes == p->count);
}

static td_status infer_pad(ir_infer *ctx, uint32_t axes_operand) {
  ir_type type = ctx->in[0]->type;
  pad_ints p;
  if (type.rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, type.dtype);
  if (!read_pads(ctx, axes_operand, &p)) {
    if (!ctx->dims) return ir_infer_fail(ctx, "the pads must be two per axis");
    for (int32_t i = 0; i < type.rank; i++) type.dims[i] = ir_fresh(ctx);
    return ir_out(ctx, 0, type.dtype, type.rank, type.dims);
  }
  if (!p.axes && (int32_t)p.count != type.rank)
    return ir_infer_fail(ctx, "pads for %u axes; the input has %d", p.count, type.rank);
  for (uint32_t k = 0; k < p.count; k++) {
    int32_t axis;
    TRY(ir_axis(ctx, p.axes ? p.axes[k] : k, type.rank, &axis));
    base_dim both = base_dim_add(ctx->dims, p.pads[k], p.pads[k + p.count]);
    type.dims[axis] = base_dim_add(ctx->dims, type.dims[axis], both);
  }
  return ir_out(ctx, 0, type.dtype, type.rank, type.dims);
}

/* Elements in front per axis. */
static td_status read_begins(const base_call *call, uint32_t axes_operand, int64_t *begin) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  int64_t pads[2 * BASE_MAX_RANK], axes[BASE_MAX_RANK];
  uint32_t count, axis_count;
  TRY(ops_read_ints(call, 1, 2 * BASE_MAX_RANK, pads, &count));
  TRY(ops_read_ints(call, axes_operand, BASE_MAX_RANK, axes, &axis_count));
  bool some = base_in(call, axes_operand);
  if (count % 2 || count / 2 != (some ? axis_count : (uint32_t)x->rank))
    return ops_fail(call, "the pads must be two per axis");
  int64_t expected[BASE_MAX_RANK];
  for (int32_t i = 0; i < x->rank; i++) {
    begin[i] = 0;
    expected[i] = x->dims[i];
  }
  for (uint32_t k = 0; k < count / 2; k++) {
    int64_t axis = !some ? k : axes[k] < 0 ? axes[k] + x->rank : axes[k], end = pads[k + count / 2];
    if (axis < 0 || axis >= x->rank) return ops_fail(call, "axis %lld does not fit", (long long)axis);
    begin[axis] = pads[k];
    if (!base_add_i64(expected[axis], pads[k], &expected[axis]) || !base_add_i64(expected[axis], end, &expected[axis]))
      return ops_fail(call, "the pads are too large");
  }
  for (int32_t i = 0; i < x->rank; i++)
    if (expected[i] != out->dims[i])
      return ops_fail(call, "axis %d becomes %lld where %lld was expected", i, (long long)expected[i],
                      (long long)out->dims[i]);
  return TD_OK;
}

/* Per axis and output position, the element offset in the input, or -1. */
static td_status offset_tables(const base_call *call, pad_map map, const int64_t *begin, int64_t **table) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  for (int32_t d = 0; d < x->rank; d++) {
    table[d] = base_call_scratch(call, (size_t)out->dims[d], sizeof **table);
    if (!table[d]) return base_no_memory(call->err, "scratch");
    for (int64_t i = 0; i < out->dims[d]; i++) {
      int64_t at = i - begin[d];
      if (at >= 0 && at < x->dims[d]) table[d][i] = at;
      else if (x->dims[d] == 0 && map != map_constant)
        return ops_fail(call, "axis %d is empty: there is nothing to repeat", d);
      else table[d][i] = map(at, x->dims[d]);
    }
  }
  return TD_OK;
}

/* `count` copies of one element. */
static void fill_run(const base_tensor *out, int64_t to, const void *element, int64_t count) {
  if (count > 0) ops_move_run(out->dtype, out->data, to, element, 0, 1);
  for (int64_t done = 1; done < count; done *= 2)
    ops_move_run(out->dtype, out->data, to + done, out->data, to, base_min_i64(done, count - done));
}

/* One row of the result from the row of x at element `from`: what lies inside is one run where x is dense. */
static void pad_row(const base_tensor *x, const base_tensor *out, int64_t to, int64_t from, const int64_t *table,
                    int64_t begin, const void *fill) {
  int64_t length = out->dims[out->rank - 1], step = x->strides[x->rank - 1];
  int64_t first = base_min_i64(base_max_i64(begin, 0), length);
  int64_t last = base_max_i64(first, base_min_i64(length, begin + x->dims[x->rank - 1]));
  if (step == 1 && first < last)
    ops_move_run(x->dtype, out->data, to + first, x->data, from + table[first], last - first);
  for (int64_t i = 0; i < length; i++) {
    if (step == 1 && i == first) i = last;
    if (i == length) break;
    bool inside = table[i] >= 0;
    ops_move_run(x->dtype, out->data, to + i, inside ? x->data : fill, inside ? from + table[i] * step : 0, 1);
  }
}

static td_status pad(const base_call *call, pad_map map, uint32_t axes_operand) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  const base_tensor *value = map == map_constant ? base_in(call, 2) : NULL;
  int64_t begin[BASE_MAX_RANK], *table[BASE_MAX_RANK],
      zero[2] = {0}; /* as large as any element: of a string, two words */
  TRY(read_begins(call, axes_operand, begin));
  if (base_tensor_numel(out) == 0) return TD_OK;
  TRY(offset_tables(call, map, begin, table));
  bool given = value && base_tensor_numel(value) > 0;
  const void *fill = given ? value->data : zero;
  if (out->rank == 0) {
    ops_move_run(x->dtype, out->data, 0, x->data, 0, 1);
    return TD_OK;
  }
  base_walk w;
  int32_t last = out->rank - 1;
  base_walk_start(&w, last, out->dims, 0, NULL);
  int64_t to = 0;
  do {
    int64_t from = 0;
    bool inside = true;
    for (int32_t d = 0; d < last && inside; d++) {
      int64_t at = table[d][w.index[d]];
      inside = at >= 0;
      from += at * x->strides[d];
    }
    if (inside) pad_row(x, out, to, from, table[last], begin[last], fill);
    else fill_run(out, to, fill, out->dims[last]);
    to += out->dims[last];
  } while (base_walk_next(&w));
  return TD_OK;
}

enum { CONSTANT_AXES = 3, OTHER_AXES = 2 }; /* operand that names the axes */

static td_status infer_constant(ir_infer *ctx) {
  TRY(ops_same_dtype(ctx, 0, 2));
  return infer_pad(ctx, CONSTANT_AXES);
}
static td_status infer_other(ir_infer *ctx) { return infer_pad(ctx, OTHER_AXES); }
static td_status constant_reference(const base_call *call) { return pad(call, map_constant, CONSTANT_AXES); }
static td_status reflect_reference(const base_call *call) { return pad(call, map_reflect, OTHER_AXES); }
static td_status edge_reference(const base_call *call) { return pad(call, map_edge, OTHER_AXES); }
static td_status wrap_reference(const base_call *call) { return pad(call, wrap, OTHER_AXES); }

/* ---- cases ---- */

static const int64_t case_pads[][4] = {{1, 2, 0, 3}, {-1, 0, 1, -2}, {0, 7, 4, 0}};

static bool constant_cases(ir_case *c, uint32_t number) {
  static const int64_t axes[] = {1, -2};
  static const td_dtype dtypes[] = {TD_F32, TD_I4, TD_F64};
  if (number >= 6) return false;
  td_dtype d = dtypes[number % 3];
  if (!ops_case_in(c, d, OPS_DIMS(3, 5), OPS_NORMAL, number) || !ops_case_ints(c, case_pads[number % 3], 4))
    return false;
  if (number < 2) return true;
  if (!ops_case_in(c, d, 0, NULL, OPS_POSITIVE, 9)) return false;
  return number < 4 || ops_case_ints(c, axes, 2);
}

static bool other_cases(ir_case *c, uint32_t number) {
  static const int64_t axes[] = {1, 0};
  if (number >= 6) return false;
  return ops_case_in(c, TD_F32, OPS_DIMS(3, 5), OPS_NORMAL, number) && ops_case_ints(c, case_pads[number % 3], 4) &&
         (number < 3 || ops_case_ints(c, axes, 2));
}

OPS_DECLARE(pad);
const ir_op ops_pad[] = {
    /* (x, pads, value?, axes?): pads are elements in front of each axis, then behind each; 0 without a value */
    {.name = "aten::constant_pad_nd",
     .min_in = 2,
     .max_in = 4,
     .out_count = 1,
     .strings = 5,
     .infer = infer_constant,
     .reference = constant_reference,
     .cases = constant_cases},
    /* (x, pads, axes?): mirrored at the border elements; the nearest border element; from the other end */
    {.name = "aten::reflection_pad",
     .min_in = 2,
     .max_in = 3,
     .out_count = 1,
     .strings = 1,
     .infer = infer_other,
     .reference = reflect_reference,
     .cases = other_cases},
    {.name = "aten::replication_pad",
     .min_in = 2,
     .max_in = 3,
     .out_count = 1,
     .strings = 1,
     .infer = infer_other,
     .reference = edge_reference,
     .cases = other_cases},
    {.name = "aten::circular_pad",
     .min_in = 2,
     .max_in = 3,
     .out_count = 1,
     .strings = 1,
     .infer = infer_other,
     .reference = wrap_reference,
     .cases = other_cases},
};
OPS_TABLE(pad);
