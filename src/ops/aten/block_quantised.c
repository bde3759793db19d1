/* block_quantised.c -- weights of few bits with a scale per block: td::matmul_nbits multiplies by them,
 * td::gather_nbits looks rows up. Both dequantise a block at a time, never the whole operand.
 *
 *     td::matmul_nbits  a W^T, W[n, k] = (q[n, k] - zero) scale, one pair per block of k (com.microsoft MatMulNBits
 *                       1)
 *     td::gather_nbits  rows of W by index, dequantised the same (com.microsoft GatherBlockQuantized 1) */
#include "ops/common/gemm_priv.h"

/* ---- td::matmul_nbits(a, b, scales, [zero points], [bias], [groups]) = a deq(b)^T + bias ----
 * b: u8 [n, blocks, block_size * bits / 8], packed along k, low bits first. scales: [n * blocks]. Zero points: as many
 * floats, or u8 packed per row; absent: 2^(bits - 1). groups: [k], the block whose scale and zero point each k has;
 * absent: k / block_size. x_bits: kernels may make whole numbers of so many bits of a, a block at
 * a time; 32: they may not. bf16: or that of a and the weights. */

enum { NBITS_K, NBITS_N, NBITS_BITS, NBITS_BLOCK, NBITS_X_BITS, NBITS_BF16 };
static const ir_attr nbits_attrs[] = {{.name = "k", .kind = BASE_ATTR_INT, .required = true},
                                      {.name = "n", .kind = BASE_ATTR_INT, .required = true},
                                      ATTR_INT("bits", 4),
                                      {.name = "block_size", .kind = BASE_ATTR_INT, .required = true},
                                      ATTR_INT("x_bits", 32),
                                      ATTR_BOOL("bf16", false)};

static td_status infer_nbits(ir_infer *ctx) {
  const ir_type *a = &ir_in(ctx, 0)->type;
  int64_t k = base_attr_int(ctx->attrs, NBITS_K), n = base_attr_int(ctx->attrs, NBITS_N),
          bits = base_attr_int(ctx->attrs, NBITS_BITS);
  int64_t block = base_attr_int(ctx->attrs, NBITS_BLOCK), x_bits = base_attr_int(ctx->attrs, NBITS_X_BITS);
  if (x_bits != 8 && x_bits != 16 && x_bits != 32) return ir_infer_fail(ctx, "x_bits must be 8, 16 or 32");
  if ((bits != 2 && bits != 4 && bits != 8) || block < 8 || block > (1 << 20) || block % 8 != 0 || k < 0 || n < 0 ||
      k > INT32_MAX || n > INT32_MAX)
    return ir_infer_fail(ctx, "unsupported sizes: %lld bits, blocks of %lld", (long long)bits, (long long)block);
  if (a->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, a->dtype);
  if (a->rank < 1) return ir_infer_fail(ctx, "the operand has rank 0");
  if (base_dim_known(a->dims[a->rank - 1]) && a->dims[a->rank - 1] != k)
    return ir_infer_fail(ctx, "rows of %lld elements where K is %lld", (long long)a->dims[a->rank - 1], (long long)k);
  base_dim dims[BASE_MAX_RANK];
  for (int32_t i = 0; i + 1 < a->rank; i++) dims[i] = a->dims[i];
  dims[a->rank - 1] = n;
  return ir_out(ctx, 0, a->dtype, a->rank, dims);
}

typedef struct nbits_weights {
  const uint8_t *bytes;
  const base_f32 *scales;
  const base_tensor *zeros; /* NULL: the middle */
  const base_i64 *groups;   /* NULL: blocks in order */
  int64_t blocks, block, bits;
} nbits_weights;

/* Element `index` of a row of packed numbers, low bits first. */
static uint32_t unpack(const uint8_t *row, int64_t index, int64_t bits) {
  int64_t per_byte = 8 / bits;
  return ((uint32_t)row[index / per_byte] >> (index % per_byte * bits)) & ((1u << bits) - 1);
}

static float zero_of(const nbits_weights *w, int64_t n, int64_t block) {
  if (!w->zeros) return (float)(1 << (w->bits - 1));
  if (base_is_float(w->zeros->dtype))
    return (float)base_load_f64(w->zeros->dtype, w->zeros->data, n * w->blocks + block);
  int64_t row_bytes = (w->blocks * w->bits + 7) / 8;
  return (float)unpack((const uint8_t *)w->zeros->data + n * row_bytes, block, w->bits);
}

static void pack_nbits(const gemm_f32 *g, int64_t k0, int64_t kn, int64_t j0, int64_t jn, float *to) {
  const nbits_weights *w = g->user;
  int64_t row_bytes = w->blocks * (w->block * w->bits / 8);
  for (int64_t j = 0; j < jn; j++) {
    const uint8_t *row = w->bytes + (j0 + j) * row_bytes;
    for (int64_t k = 0; k < kn; k++) {
      const int64_t block = w->groups ? w->groups[k0 + k] : (k0 + k) / w->block;
      const float scale = w->scales[(j0 + j) * w->blocks + block], zero = zero_of(w, j0 + j, block);
      to[k * GEMM_COLUMNS + j] = ((float)unpack(row, k0 + k, w->bits) - zero) * scale;
    }
  }
}

static td_status check_groups(const base_call *call, const nbits_weights *w, int64_t k) {
  if (!w->groups) return TD_OK;
  if (base_tensor_numel(base_in(call, 5)) != k) return ops_fail(call, "there is not one group for each row of B");
  for (int64_t i = 0; i < k; i++)
    if (w->groups[i] < 0 || w->groups[i] >= w->blocks)
      return ops_fail(call, "group %lld of %lld", (long long)w->groups[i], (long long)w->blocks);
  return TD_OK;
}

static td_status check_nbits(const base_call *call, const nbits_weights *w, int64_t n) {
  const base_tensor *z = w->zeros, *bias = base_in(call, 4);
  if ((int64_t)base_tensor_bytes(base_in(call, 1)) != n * w->blocks * (w->block * w->bits / 8))
    return ops_fail(call, "the packed weights have %zu bytes", base_tensor_bytes(base_in(call, 1)));
  if (base_tensor_numel(base_in(call, 2)) != n * w->blocks) return ops_fail(call, "there is not one scale per block");
  if (bias && base_tensor_numel(bias) != n) return ops_fail(call, "the bias has not one element per column");
  if (!z) return TD_OK;
  int64_t wanted = base_is_float(z->dtype) ? n * w->blocks : n * ((w->blocks * w->bits + 7) / 8);
  if (base_tensor_numel(z) != wanted) return ops_fail(call, "there is not one zero point per block");
  return TD_OK;
}

static td_status nbits_reference(const base_call *call) {
  int64_t k = base_attr_int(call->attrs, NBITS_K), n = base_attr_int(call->attrs, NBITS_N);
  base_tensor zeros, bias;
  if (!ops_dense_tensor(call, 3, &zeros) || !ops_dense_tensor(call, 4, &bias))
    return base_no_memory(call->err, "scratch");
  nbits_weights w = {.bytes = ops_dense(call, 1),
                     .scales = ops_dense_f32(call, 2),
                     .zeros = base_in(call, 3) ? &zeros : NULL,
                     .groups = base_in(call, 5) ? ops_dense_i64(call, 5) : NULL,
                     .block = base_attr_int(call->attrs, NBITS_BLOCK),
                     .bits = base_attr_int(call->attrs, NBITS_BITS)};
  w.blocks = (k + w.block - 1) / w.block;
  const base_f32 *a = ops_dense_f32(call, 0);
  base_f32 *y = ops_take_f32(call, 0);
  float *block = base_call_scratch(call, GEMM_BLOCK, sizeof *block);
  if (!w.bytes || !w.scales || !a || !y || !block || (base_in(call, 5) && !w.groups))
    return base_no_memory(call->err, "scratch");
  TRY(check_nbits(call, &w, n));
  TRY(check_groups(call, &w, k));
  int64_t m = n ? base_tensor_numel(base_out(call, 0)) / n : 0;
  if (base_tensor_numel(base_in(call, 0)) != m * k)
    return ops_fail(call, "the rows of A have not %lld elements", (long long)k);
  for (int64_t i = 0; i < m * n; i++) y[i] = bias.data ? (float)base_load_f64(bias.dtype, bias.data, i % n) : 0;
  gemm_f32 g = {.m = m,
                .n = n,
                .k = k,
                .a = a,
                .a_row = k,
                .a_column = 1,
                .pack = pack_nbits,
                .user = &w,
                .block = block,
                .c = y,
                .c_row = n};
  ops_gemm_f32(&g);
  ops_put(call, 0, TD_F32, y);
  return TD_OK;
}

static bool cases_nbits(ir_case *c, uint32_t number) {
  if (number >= 3) return false;
  int64_t bits = (int64_t)2 << number, bytes[] = {3, 2, 2 * bits};
  ops_case_arg(c, ARG_INT("k", 27));
  ops_case_arg(c, ARG_INT("n", 3));
  ops_case_arg(c, ARG_INT("bits", bits));
  ops_case_arg(c, ARG_INT("block_size", 16));
  bool made = ops_case_in(c, TD_F32, OPS_DIMS(2, 27), OPS_NORMAL, 1) &&
              ops_case_in(c, TD_U8, 3, bytes, OPS_SPECIAL, 2) &&
              ops_case_in(c, TD_F32, OPS_DIMS(3, 2), OPS_POSITIVE, 3);
  return made && (number == 0 || ops_case_in(c, TD_F32, OPS_DIMS(3, 2), OPS_NORMAL, 4));
}

/* ---- td::gather_nbits(data, indices, scales, [zero points]) ----
 * Gathers along gather_axis, then dequantises: element e of quantize_axis has scale e / block_size. u8 data of 4 bits
 * holds two elements of the last axis per byte, low first. */

enum { GATHER_AXIS, GATHER_QUANTIZE_AXIS, GATHER_BLOCK, GATHER_BITS };
static const ir_attr gather_attrs[] = {ATTR_INT("gather_axis", 0), ATTR_INT("quantize_axis", 1),
                                       ATTR_INT("block_size", 128), ATTR_INT("bits", 4)};

static int64_t per_byte(td_dtype data, const base_attrs *attrs) {
  return data == TD_U8 ? 8 / base_attr_int(attrs, GATHER_BITS) : 1;
}

static td_status infer_gather(ir_infer *ctx) {
  const ir_type *data = &ir_in(ctx, 0)->type, *at = &ir_in(ctx, 1)->type;
  td_dtype dtype = ir_in(ctx, 2)->type.dtype;
  int64_t bits = base_attr_int(ctx->attrs, GATHER_BITS);
  int64_t block = base_attr_int(ctx->attrs, GATHER_BLOCK);
  if ((bits != 2 && bits != 4 && bits != 8) || block < 1 || block > INT32_MAX)
    return ir_infer_fail(ctx, "unsupported sizes: %lld bits, blocks of %lld", (long long)bits, (long long)block);
  if (data->rank == IR_UNRANKED || at->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, dtype);
  int32_t axis, rank = 0, blocked;
  TRY(ir_axis(ctx, base_attr_int(ctx->attrs, GATHER_AXIS), data->rank, &axis));
  TRY(ir_axis(ctx, base_attr_int(ctx->attrs, GATHER_QUANTIZE_AXIS), data->rank, &blocked));
  if (axis == blocked) return ir_infer_fail(ctx, "cannot gather along the axis of the blocks");
  base_dim dims[2 * BASE_MAX_RANK];
  for (int32_t i = 0; i < data->rank; i++) {
    for (int32_t k = 0; i == axis && k < at->rank; k++) dims[rank++] = at->dims[k];
    if (i != axis)
      dims[rank++] = i == data->rank - 1 ? base_dim_mul(ctx->dims, data->dims[i], per_byte(data->dtype, ctx->attrs))
                                         : data->dims[i];
  }
  return ir_out(ctx, 0, dtype, rank, dims);
}

/* Element `at` of packed or whole data. */
static double small_at(const base_tensor *t, int64_t at, int64_t packed, int64_t bits) {
  if (packed == 1) return base_load_f64(t->dtype, t->data, at);
  return (double)unpack(t->data, at, bits);
}

static td_status gather_reference(const base_call *call) {
  base_tensor dense[4];
  for (uint32_t i = 0; i < 4; i++)
    if (!ops_dense_tensor(call, i, &dense[i])) return base_no_memory(call->err, "scratch");
  const base_tensor *data = &dense[0], *scales = &dense[2], *zeros = dense[3].data ? &dense[3] : NULL,
                    *y = base_out(call, 0);
  if (base_tensor_numel(y) == 0) return TD_OK;
  int64_t bits = base_attr_int(call->attrs, GATHER_BITS), block = base_attr_int(call->attrs, GATHER_BLOCK);
  int64_t packed = per_byte(data->dtype, call->attrs), axis = base_attr_int(call->attrs, GATHER_AXIS);
  int64_t blocked = base_attr_int(call->attrs, GATHER_QUANTIZE_AXIS), dims[BASE_MAX_RANK], before = 1, after = 1;
  if (axis < 0) axis += data->rank;
  if (blocked < 0) blocked += data->rank;
  for (int32_t i = 0; i < data->rank; i++) {
    dims[i] = data->dims[i] * (i == data->rank - 1 ? packed : 1);
    if (i < axis) before *= dims[i];
    if (i > axis) after *= dims[i];
  }
  const base_i64 *at = ops_dense_i64(call, 1);
  if (!at) return base_no_memory(call->err, "scratch");
  int64_t count = base_tensor_numel(base_in(call, 1)), inner = 1, blocks = (dims[blocked] + block - 1) / block;
  for (int32_t i = (int32_t)blocked + 1; i < data->rank; i++) inner *= dims[i];
  int64_t numbers = dims[blocked] ? base_tensor_numel(data) * packed / dims[blocked] * blocks : 0;
  if (base_tensor_numel(scales) != numbers ||
      (zeros && base_tensor_numel(zeros) * (zeros->dtype == TD_U8 ? packed : 1) < numbers))
    return ops_fail(call, "there is not one scale (and zero point) per block");
  double middle = data->dtype == TD_U8 ? (double)(1 << (bits - 1)) : 0;
  for (int64_t k = 0, run; k < before * count * after; k += run) {
    int64_t index = at[k / after % count];
    if (index < -dims[axis] || index >= dims[axis])
      return ops_fail(call, "index %lld is outside [%lld, %lld)", (long long)index, (long long)-dims[axis],
                      (long long)dims[axis]);
    int64_t from = (k / after / count * dims[axis] + (index < 0 ? index + dims[axis] : index)) * after + k % after;
    int64_t outer = from / inner / dims[blocked], element = from / inner % dims[blocked];
    int64_t number = (outer * blocks + element / block) * inner + from % inner;
    double zero = zeros ? small_at(zeros, number, zeros->dtype == TD_U8 ? packed : 1, bits) : middle;
    const double scale = base_load_f64(scales->dtype, scales->data, number);
    /* Elements side by side of a block have its numbers. */
    run = inner == 1 ? base_min_i64(block - element % block, dims[blocked] - element) : 1;
    for (int64_t i = 0; i < run; i++) {
      const double value = (small_at(data, from + i, packed, bits) - zero) * scale;
      if (y->dtype == TD_F32) ((base_f32 *)y->data)[k + i] = (float)value;
      else base_store_f64(y->dtype, y->data, k + i, value);
    }
  }
  return TD_OK;
}

static bool cases_gather(ir_case *c, uint32_t number) {
  static const int64_t at[] = {4, 0, -1};
  if (number >= 1) return false;
  ops_case_arg(c, ARG_INT("block_size", 16));
  return ops_case_in(c, TD_U8, OPS_DIMS(5, 16), OPS_SPECIAL, 1) && ops_case_ints(c, at, 3) &&
         ops_case_in(c, TD_F32, OPS_DIMS(5, 2), OPS_POSITIVE, 2);
}

OPS_DECLARE(block_quantised);
const ir_op ops_block_quantised[] = {
    {.id = OPERATOR(td, matmul_nbits),
     .min_in = 3,
     .max_in = 6,
     .out_count = 1,
     .attrs = nbits_attrs,
     .attr_count = OPS_COUNT(nbits_attrs),
     .infer = infer_nbits,
     .reference = nbits_reference,
     .rtol = 1e-4f,
     .atol = 1e-5f},
    {.id = OPERATOR(td, gather_nbits),
     .min_in = 3,
     .max_in = 4,
     .out_count = 1,
     .attrs = gather_attrs,
     .attr_count = OPS_COUNT(gather_attrs),
     .infer = infer_gather,
     .reference = gather_reference},
};
OPS_TABLE(block_quantised);
OPS_CASES(block_quantised) = {
    {OP_td_matmul_nbits, cases_nbits},
    {OP_td_gather_nbits, cases_gather},
    {0},
};
