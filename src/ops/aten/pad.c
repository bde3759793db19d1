/* pad.c -- borders around a tensor. All modes share one walk over the tables of kernels/data/data.h.
 *
 * y[i] = x[i - begin] inside; outside: constant_pad_nd a number, reflection_pad mirrored at the edge element,
 * replication_pad the edge element, circular_pad i modulo the size. PyTorch's pads; ONNX Pad 2. */
#include "kernels/data/data.h"
#include "ops/common/kernel_priv.h"
#include "ops/common/move_priv.h"
#include "base/size.h"

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

/* `count` copies of one element. */
static void fill_run(const base_tensor *out, int64_t to, const void *element, int64_t count) {
  if (count > 0) ops_move_run(out->dtype, out->data, to, element, 0, 1);
  for (int64_t done = 1; done < count; done *= 2)
    ops_move_run(out->dtype, out->data, to + done, out->data, to, base_min_i64(done, count - done));
}

/* One row of the result from the row of x at element `from`: what lies inside is one run where x is dense. */
static void pad_row(const base_tensor *x, const base_tensor *out, int64_t to, int64_t from, const kern_pad_tables *t,
                    const void *fill) {
  int32_t axis = out->rank - 1;
  int64_t length = out->dims[axis], step = x->strides[axis], first = t->first[axis], last = t->last[axis];
  const int64_t *table = t->table[axis];
  if (step == 1 && first < last)
    ops_move_run(x->dtype, out->data, to + first, x->data, from + table[first], last - first);
  for (int64_t i = 0; i < length; i++) {
    if (step == 1 && i == first) i = last;
    if (i == length) break;
    bool inside = table[i] >= 0;
    ops_move_run(x->dtype, out->data, to + i, inside ? x->data : fill, inside ? from + table[i] * step : 0, 1);
  }
}

static td_status pad(const base_call *call, const kern_pad *mode) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  const base_tensor *value = mode->map ? NULL : base_in(call, KERN_PAD_VALUE);
  kern_pad_tables t;
  int64_t zero[2] = {0}; /* as large as any element: of a string, two words */
  TRY(kern_pad_read(call, mode, &t));
  if (base_tensor_numel(out) == 0) return TD_OK;
  bool given = value && base_tensor_numel(value) > 0;
  const void *fill = given ? value->data : zero;
  if (out->rank == 0) {
    ops_move_run(x->dtype, out->data, 0, x->data, 0, 1);
    return TD_OK;
  }
  base_walk w;
  const int32_t last = out->rank - 1;
  base_walk_start(&w, last, out->dims, 0, NULL);
  int64_t to = 0;
  do {
    int64_t from = 0;
    bool inside = true;
    for (int32_t d = 0; d < last && inside; d++) {
      int64_t at = t.table[d][w.index[d]];
      inside = at >= 0;
      from += at * x->strides[d];
    }
    if (inside) pad_row(x, out, to, from, &t, fill);
    else fill_run(out, to, fill, out->dims[last]);
    to += out->dims[last];
  } while (base_walk_next(&w));
  return TD_OK;
}

static td_status infer_constant(ir_infer *ctx) {
  TRY(ops_same_dtype(ctx, KERN_PAD_X, KERN_PAD_VALUE));
  return infer_pad(ctx, kern_pad_constant.axes);
}
static td_status infer_other(ir_infer *ctx) { return infer_pad(ctx, kern_pad_reflection.axes); }

/* Does the last axis stay as it is, with an even size? Kernels move pairs of bf16. */
static bool keeps_pairs(const ir_kernel_query *query) {
  const ir_type *x = &query->in[KERN_PAD_X]->type;
  const ir_info *pads = query->in_count > KERN_PAD_PADS ? query->in[KERN_PAD_PADS] : NULL;
  const bool all = x->rank > 0 && query->in_count == KERN_PAD_PADS + 1 && pads && pads->ints &&
                   pads->int_count == 2 * (uint32_t)x->rank;
  return all && base_dim_known(x->dims[x->rank - 1]) && x->dims[x->rank - 1] % 2 == 0 && pads->ints[x->rank - 1] == 0 &&
         pads->ints[2 * x->rank - 1] == 0;
}

static const kern_row *pad_kernel(const ir_kernel_query *query, kern_family family) {
  const td_dtype dtype = query->in[KERN_PAD_X] ? query->in[KERN_PAD_X]->type.dtype : TD_INVALID;
  if (dtype == TD_INVALID || (dtype == TD_BF16 && !keeps_pairs(query))) return NULL;
  return kern_select(family, dtype, query->isa);
}

#define MODE(mode, FAMILY)                                                                         \
  static td_status mode##_reference(const base_call *call) { return pad(call, &kern_pad_##mode); } \
  static const kern_row *mode##_kernel(const ir_kernel_query *query) { return pad_kernel(query, KERN_##FAMILY##_PAD); }
MODE(constant, CONSTANT)
MODE(reflection, REFLECTION)
MODE(replication, REPLICATION)
MODE(circular, CIRCULAR)

/* ---- cases ---- */

static const int64_t case_pads[][4] = {{1, 2, 0, 3}, {-1, 0, 1, -2}, {0, 7, 4, 0}};

/* Images with channels last and first, volumes, borders that are wider than what they mirror, axes between others. */
static const struct {
  int32_t rank;
  int64_t dims[5], pads[10];
} images[] = {
    {4, {2, 5, 6, 19}, {0, 2, 1, 0, 0, 1, 3, 0}},
    {4, {1, 3, 9, 33}, {0, 0, 4, 4, 0, 0, 4, 40}},
    {4, {1, 7, 6, 170}, {0, 3, 3, 0, 0, 3, 3, 0}},
    {5, {1, 2, 3, 4, 5}, {0, 0, 1, 2, 3, 0, 0, 2, 1, 0}},
    {3, {4, 3, 70}, {1, 0, -2, -1, 9, -3}},
    {3, {2, 3, 5}, {0, 0, 0, 0, 0, 0}},
    {1, {300}, {7, 99}},
};

static bool image_case(ir_case *c, uint32_t number) {
  if (number >= OPS_COUNT(images)) return false;
  return ops_case_in(c, TD_F32, images[number].rank, images[number].dims, OPS_NORMAL, number) &&
         ops_case_ints(c, images[number].pads, 2 * (uint32_t)images[number].rank);
}

static bool constant_cases(ir_case *c, uint32_t number) {
  static const int64_t axes[] = {1, -2};
  static const td_dtype dtypes[] = {TD_F32, TD_I4, TD_F64};
  if (number >= 6) return image_case(c, number - 6) && (number % 2 || ops_case_in(c, TD_F32, 0, NULL, OPS_POSITIVE, 9));
  td_dtype d = dtypes[number % 3];
  if (!ops_case_in(c, d, OPS_DIMS(3, 5), OPS_NORMAL, number) || !ops_case_ints(c, case_pads[number % 3], 4))
    return false;
  if (number < 2) return true;
  if (!ops_case_in(c, d, 0, NULL, OPS_POSITIVE, 9)) return false;
  return number < 4 || ops_case_ints(c, axes, 2);
}

/* Of bf16: pairs along the last axis; none of them; a last axis that changes, or moves. */
static bool bf16_case(ir_case *c, uint32_t number) {
  static const struct {
    int64_t dims[4], pads[8];
  } pairs[] = {
      {{2, 5, 6, 34}, {0, 2, 1, 0, 0, 1, 3, 0}},  {{1, 7, 5, 2}, {0, 3, -1, 0, 0, 3, 4, 0}},
      {{1, 5, 6, 33}, {0, 2, 1, 0, 0, 1, 3, 0}},  {{1, 5, 6, 32}, {0, 2, 1, 0, 0, 1, 3, 2}},
      {{1, 3, 4, 16}, {0, 1, 0, 2, 0, 1, 0, -2}},
  };
  if (number >= OPS_COUNT(pairs)) return false;
  return ops_case_in(c, TD_BF16, 4, pairs[number].dims, OPS_NORMAL, number) && ops_case_ints(c, pairs[number].pads, 8);
}

static bool other_cases(ir_case *c, uint32_t number) {
  static const int64_t axes[] = {1, 0};
  if (number >= 6 + OPS_COUNT(images)) return bf16_case(c, number - 6 - OPS_COUNT(images));
  if (number >= 6) return image_case(c, number - 6);
  return ops_case_in(c, TD_F32, OPS_DIMS(3, 5), OPS_NORMAL, number) && ops_case_ints(c, case_pads[number % 3], 4) &&
         (number < 3 || ops_case_ints(c, axes, 2));
}

/* A mirror is at most as wide as what it shows, less one. */
static bool reflection_cases(ir_case *c, uint32_t number) {
  if (!other_cases(c, number)) return false;
  int64_t *pads = c->in[1].data;
  const int64_t count = c->in[1].dims[0] / 2;
  for (int64_t k = 0; k < 2 * count; k++) {
    const int64_t axis = c->in_count > 2 ? 1 - k % count : k % count;
    pads[k] = base_min_i64(pads[k], c->in[0].dims[axis] - 1);
  }
  return true;
}

/* All axes are padded, the first one by nothing. */
static bool constant_keeps_samples(const ir_samples_query *query) {
  const base_tensor *pads = query->count > 1 && query->count < 4 ? query->constants[1] : NULL;
  return pads && pads->rank == 1 && pads->dims[0] == 2 * query->rank &&
         base_load_i64(pads->dtype, pads->data, 0) == 0 &&
         base_load_i64(pads->dtype, pads->data, query->rank * pads->strides[0]) == 0;
}

OPS_DECLARE(pad);
const ir_op ops_pad[] = {
    /* (x, pads, value?, axes?): pads are elements in front of each axis, then behind each; 0 without a value */
    {.id = OPERATOR(aten, constant_pad_nd),
     .min_in = 2,
     .max_in = 4,
     .out_count = 1,
     .strings = 5,
     .infer = infer_constant,
     .reference = constant_reference,
     .kernel = constant_kernel,
     .by_sample = 1,
     .keeps_samples = constant_keeps_samples},
    /* (x, pads, axes?): mirrored at the border elements; the nearest border element; from the other end */
    {.id = OPERATOR(aten, reflection_pad),
     .min_in = 2,
     .max_in = 3,
     .out_count = 1,
     .strings = 1,
     .infer = infer_other,
     .reference = reflection_reference,
     .kernel = reflection_kernel},
    {.id = OPERATOR(aten, replication_pad),
     .min_in = 2,
     .max_in = 3,
     .out_count = 1,
     .strings = 1,
     .infer = infer_other,
     .reference = replication_reference,
     .kernel = replication_kernel},
    {.id = OPERATOR(aten, circular_pad),
     .min_in = 2,
     .max_in = 3,
     .out_count = 1,
     .strings = 1,
     .infer = infer_other,
     .reference = circular_reference,
     .kernel = circular_kernel},
};
OPS_TABLE(pad);
OPS_CASES(pad) = {
    {OP_aten_constant_pad_nd, constant_cases},
    {OP_aten_reflection_pad, reflection_cases},
    {OP_aten_replication_pad, other_cases},
    {OP_aten_circular_pad, other_cases},
    {0},
};
