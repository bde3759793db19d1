/* linear_nbits.c -- td::linear_nbits(x [..., k], w, bias?, residual?, scale?, shift?) -> [..., n]: a product with
 * constant weights of 4 or 8 bits that have a scale (and a zero point) for each block of k, and an epilogue. Passes
 * make it; weights: kernels/products/pack_nbits.h. `pairs`, x_bits = 8: as of td::linear. */
#include "kernels/products/products.h"
#include "ops/common/epilogue_priv.h"
#include "ops/common/gemm_priv.h"

#include <math.h>
#include <string.h>

static const ir_attr attrs[] = {KERN_NBITS_LIST(OPS_ATTR_ROW) KERN_EPILOGUE_LIST(OPS_ATTR_ROW)};

static td_status infer(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type, *w = &ir_in(ctx, 1)->type;
  kern_nbits l;
  if (kern_chain_in_front(ctx->attrs)) return ir_infer_fail(ctx, "a chain in front of a product that takes none");
  const int64_t x_bits = base_attr_int(ctx->attrs, KERN_NBITS_X_BITS);
  const bool of_pairs = base_attr_int(ctx->attrs, KERN_NBITS_PAIRS), pairs = of_pairs && x_bits == 8;
  if ((x->dtype != TD_F32 && !(pairs && x->dtype == TD_BF16)) || w->dtype != TD_U8)
    return ir_infer_fail(ctx, "x must be f32, packed weights u8");
  if (x->rank == IR_UNRANKED) return ir_infer_fail(ctx, "the rank of x must be known");
  if (x->rank == 0) return ir_infer_fail(ctx, "x needs a last dimension");
  base_dim dims[BASE_MAX_RANK];
  memcpy(dims, x->dims, sizeof dims);
  const base_dim k = dims[x->rank - 1];
  if (w->rank != 1 || !kern_nbits_of(ctx->attrs, base_dim_known(k) ? k : 0, &l))
    return ir_infer_fail(ctx, "bits, blocks or columns are out of range");
  if (x_bits != 8 && x_bits != 16 && (x_bits != 32 || of_pairs))
    return ir_infer_fail(ctx, "x_bits must be 8, 16 or, but for pairs, 32");
  if (base_dim_known(k) && base_dim_known(w->dims[0]) && w->dims[0] != l.size)
    return ir_infer_fail(ctx, "packed weights of the wrong length %lld", (long long)w->dims[0]);
  dims[x->rank - 1] = l.n;
  return ops_infer_product(ctx, pairs, x->rank, dims);
}

static float as_two_bf16(float x) {
  const float high = base_round_to_bf16(x);
  return isfinite(high) ? high + base_round_to_bf16(x - high) : x;
}

typedef struct weights_form {
  kern_nbits l;
  bool rounded; /* to bf16 */
} weights_form;

static void unpack(const gemm_f32 *g, int64_t k0, int64_t kn, int64_t j0, int64_t jn, float *to) {
  const weights_form *form = g->user;
  for (int64_t k = 0; k < kn; k++)
    for (int64_t j = 0; j < jn; j++) {
      const float w = kern_nbits_weight(&form->l, (const uint8_t *)g->b, j0 + j, k0 + k);
      to[k * GEMM_COLUMNS + j] = form->rounded ? base_round_to_bf16(w) : w;
    }
}

/* One row of x as whole numbers, with a scale for each block. False: it holds something not finite. */
static bool quantise(const kern_nbits *l, int64_t x_bits, const base_f32 *x, int16_t *q, float *scales) {
  for (int64_t b = 0; b < l->blocks; b++) {
    const int64_t end = base_min_i64(l->k, (b + 1) * l->block);
    float largest = 0;
    for (int64_t k = b * l->block; k < end; k++) {
      if (!isfinite(x[k])) return false;
      largest = fmaxf(largest, fabsf(x[k]));
    }
    const float by = kern_nbits_x_scale(largest, x_bits, &scales[b]);
    for (int64_t k = b * l->block; k < end; k++) q[k] = (int16_t)nearbyintf(x[k] * by);
  }
  return true;
}

/* Of a row whose blocks are whole numbers; each block's sum is one. */
static float multiply_blocks(const kern_nbits *l, const uint8_t *w, int64_t n, const int16_t *q, const float *scales) {
  float total = 0, scale = 0;
  for (int64_t b = 0; b < l->blocks; b++) {
    const int64_t end = base_min_i64(l->k, (b + 1) * l->block);
    int64_t sum = 0;
    for (int64_t k = b * l->block; k < end; k++) sum += kern_nbits_number(l, w, n, k, &scale) * q[k];
    total = fmaf((float)sum, scales[b] * scale, total);
  }
  return total;
}

static td_status multiply_whole(const base_call *call, const kern_nbits *l, int64_t m) {
  const base_f32 *x = ops_dense_f32(call, 0);
  const int64_t x_bits = base_attr_int(call->attrs, KERN_NBITS_X_BITS);
  int16_t *q = base_call_scratch(call, (size_t)l->k, sizeof *q);
  float *scales = base_call_scratch(call, (size_t)l->blocks, sizeof *scales);
  base_f32 *out = base_out(call, 0)->data;
  const uint8_t *w = base_in(call, 1)->data;
  if (!x || !q || !scales) return base_no_memory(call->err, "scratch");
  for (int64_t i = 0; i < m; i++, x += l->k) {
    const bool finite = quantise(l, x_bits, x, q, scales);
    for (int64_t n = 0; n < l->n; n++)
      out[i * l->n + n] = finite ? multiply_blocks(l, w, n, q, scales) : kern_nbits_multiply(l, w, n, x);
  }
  return TD_OK;
}

/* x as kernels take it; NULL: there is no memory. */
static const base_f32 *taken_x(const base_call *call, bool rounded) {
  const base_f32 *x = ops_dense_f32(call, 0);
  const int64_t count = base_tensor_numel(base_in(call, 0));
  if (!x || !base_attr_int(call->attrs, KERN_NBITS_PAIRS)) return x;
  float *to = base_call_scratch(call, (size_t)count, sizeof *to);
  for (int64_t i = 0; to && i < count; i++) to[i] = rounded ? base_round_to_bf16(x[i]) : as_two_bf16(x[i]);
  return to;
}

static td_status multiply_floats(const base_call *call, const weights_form *form, float *sums, int64_t m) {
  const kern_nbits *l = &form->l;
  gemm_f32 g = {.m = m,
                .n = l->n,
                .k = l->k,
                .a = taken_x(call, form->rounded),
                .a_row = l->k,
                .a_column = 1,
                .b = base_in(call, 1)->data,
                .pack = unpack,
                .user = form,
                .c = sums,
                .c_row = l->n,
                .block = base_call_scratch(call, GEMM_BLOCK, sizeof *g.block)};
  if (!g.a || !g.block) return base_no_memory(call->err, "scratch");
  memset(sums, 0, (size_t)(m * l->n) * sizeof *sums);
  ops_gemm_f32(&g);
  return TD_OK;
}

static td_status reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  const int64_t count = base_tensor_numel(out), x_bits = base_attr_int(call->attrs, KERN_NBITS_X_BITS);
  const bool pairs = base_attr_int(call->attrs, KERN_NBITS_PAIRS);
  weights_form form = {.rounded = pairs && x_bits == 8};
  if (count == 0) return TD_OK;
  if (!kern_nbits_of(call->attrs, x->dims[x->rank - 1], &form.l))
    return ops_fail(call, "%lld elements a row", (long long)form.l.k);
  const int64_t m = count / form.l.n;
  float *sums = out->dtype == TD_F32 ? out->data : base_call_scratch(call, (size_t)count, sizeof *sums);
  if (!sums) return base_no_memory(call->err, "scratch");
  TRY(x_bits < 32 && !pairs ? multiply_whole(call, &form.l, m) : multiply_floats(call, &form, sums, m));
  return ops_apply_epilogue(call, sums);
}

static const kern_row *kernel(const ir_kernel_query *query) {
  const int64_t x_bits = base_attr_int(query->attrs, KERN_NBITS_X_BITS);
  const bool pairs = base_attr_int(query->attrs, KERN_NBITS_PAIRS), whole = x_bits < 32 && !pairs;
  const kern_row *row = whole ? kern_select(KERN_LINEAR_NBITS_I8, TD_I8, query->isa)
                              : kern_select(KERN_LINEAR_NBITS, pairs ? TD_BF16 : TD_F32, query->isa);
  kern_nbits l;
  if (!row || !kern_nbits_of(query->attrs, 0, &l) || l.panel != row->lanes) return NULL;
  return !whole || kern_nbits_has_whole(&l, x_bits, row) ? row : NULL;
}

/* ---- cases: shapes around words, blocks, panels and tiles; bits, zero points, parts of the epilogue ---- */

static uint32_t next_random(uint32_t *state) { return (*state = *state * 1664525u + 1013904223u) >> 24; }

/* All numbers that bits hold, scales of either sign and 0. */
static bool case_weights(ir_case *c, kern_nbits *l) {
  uint32_t state = (uint32_t)(l->k * 31 + l->n);
  if (!kern_nbits_layout(l)) return false;
  uint8_t *packed = base_new(c->arena, uint8_t, (size_t)l->size + 1),
          *q = base_new(c->arena, uint8_t, (size_t)l->k + 1),
          *zeros = base_new(c->arena, uint8_t, (size_t)l->blocks + 1);
  float *scales = base_new(c->arena, float, (size_t)l->blocks + 1);
  if (!packed || !q || !zeros || !scales) return false;
  const uint32_t mask = (1u << l->bits) - 1;
  for (int64_t n = 0; n < l->n; n++) {
    for (int64_t k = 0; k < l->k; k++) q[k] = (uint8_t)(next_random(&state) & mask);
    for (int64_t b = 0; b < l->blocks; b++) {
      scales[b] = ((float)next_random(&state) - 100) / (float)(64 << l->bits);
      zeros[b] = (uint8_t)(next_random(&state) & mask);
    }
    kern_nbits_pack(l, n, q, scales, zeros, packed);
  }
  c->in[c->in_count++] = base_tensor_of(packed, TD_U8, 1, &l->size);
  ops_case_arg(c, ARG_INT("n", l->n));
  ops_case_arg(c, ARG_INT("bits", l->bits));
  ops_case_arg(c, ARG_INT("block_size", l->block));
  ops_case_arg(c, ARG_INT("panel", l->panel));
  ops_case_arg(c, ARG_BOOL("zeros", l->zeros));
  return true;
}

static bool cases(ir_case *c, uint32_t number) {
  static const int64_t shapes[][4] = {{1, 1, 1, 8},      {1, 32, 16, 32},     {0, 3, 4, 16},    {3, 0, 5, 32},
                                      {4, 3, 0, 32},     {1, 37, 129, 16},    {2, 33, 65, 32},  {1, 300, 200, 128},
                                      {6, 13, 64, 8},    {7, 64, 48, 32},     {13, 45, 31, 16}, {97, 111, 53, 64},
                                      {1, 2100, 70, 32}, {5, 1030, 33, 2048}, {40, 96, 80, 32}};
  static const int64_t panels[] = {16, 8, 4};
  static const uint32_t parts[] = {0, BIAS, BIAS | RESIDUAL, SCALE | SHIFT, BIAS | CHAIN};
  static const kern_act acts[] = {KERN_ACT_none, KERN_ACT_relu, KERN_ACT_clamp, KERN_ACT_leaky_relu};
  static const struct {
    int64_t x_bits;
    bool pairs;
    uint32_t bf16;
  } kinds[] = {{32, false, 0}, {8, false, 0}, {16, false, 0},
               {8, true, 0},   {16, true, 0}, {8, true, BF16_X | BF16_RESIDUAL | BF16_RESULT}};
  enum { LAYOUTS = 12, VARIANTS = LAYOUTS * OPS_COUNT(kinds) }; /* panels, bits, zero points */
  const uint32_t which = number / VARIANTS, variant = number % VARIANTS;
  if (which >= OPS_COUNT(shapes)) return false;
  const int64_t *s = shapes[which], one[] = {s[0], s[1]}, two[] = {2, s[0], s[1]};
  const bool batched = s[0] > 1 && which % 2;
  kern_nbits l = {.n = s[2],
                  .k = s[1],
                  .bits = variant / 3 % 2 ? 4 : 8,
                  .block = s[3],
                  .panel = panels[variant % 3],
                  .zeros = variant / 6 % 2};
  int64_t y[] = {2, s[0], s[2]};
  const uint32_t some = parts[(which + variant) % OPS_COUNT(parts)];
  const uint32_t without = (some & RESIDUAL ? 0 : BF16_RESIDUAL) | (some & CHAIN ? BF16_RESULT : 0);
  ops_case_arg(c, ARG_INT("x_bits", kinds[variant / LAYOUTS].x_bits));
  ops_case_arg(c, ARG_BOOL("pairs", kinds[variant / LAYOUTS].pairs));
  return ops_case_in(c, TD_F32, batched ? 3 : 2, batched ? two : one, OPS_NORMAL, 1) && case_weights(c, &l) &&
         ops_case_epilogue(c, some, acts[variant % OPS_COUNT(acts)], false, batched ? 3 : 2, batched ? y : y + 1) &&
         ops_case_bf16(c, kinds[variant / LAYOUTS].bf16 & ~without, some);
}

OPS_DECLARE(linear_nbits);
const ir_op ops_linear_nbits[] = {
    {.id = OPERATOR(td, linear_nbits),
     .min_in = 2,
     .max_in = KERN_CHAIN_END,
     .out_count = BASE_PROGRAM_OUTS,
     .flags = IR_OP_CHAIN | IR_OP_EPILOGUE,
     .attrs = attrs,
     .attr_count = OPS_COUNT(attrs),
     .by_sample = 1 | RESIDUAL | CHAIN,
     .infer = infer,
     .reference = reference,
     .kernel = kernel,
     .flops = ops_flops_linear,
     .rtol = 1e-4f,
     .atol = 1e-4f},
};
OPS_TABLE(linear_nbits);
OPS_CASES(linear_nbits) = {
    {OP_td_linear_nbits, cases},
    {0},
};
