/* linear.c -- td::linear(x [..., k], w, bias?, residual?, scale?, shift?) -> [..., n]: a matrix product with constant
 * weights, and an epilogue. w is a matrix, or (panel > 0) panels as kernels/products/pack.h lays them out, which may be
 * bf16 or f16: they are widened as they are read. `pairs`: they are pairs of bf16, and x is rounded to bf16, too; x,
 * the residual and the result may be bf16 then. `strassen`: the kernel may take fewer multiplications than the
 * definition has, where the sizes of a sample make that pay. */
#include "kernels/kernels.h"
#include "kernels/products/products.h"
#include "ops/common/epilogue_priv.h"
#include "ops/common/gemm_priv.h"

#include <string.h>

static const ir_attr attrs[] = {KERN_LINEAR_LIST(OPS_ATTR_ROW) KERN_EPILOGUE_LIST(OPS_ATTR_ROW)};

static td_status infer_weights(ir_infer *ctx, base_dim k, int64_t n, int64_t panel) {
  const ir_type *w = &ir_in(ctx, 1)->type;
  if (w->rank == IR_UNRANKED) return TD_OK;
  if (panel > 0) {
    size_t count, columns;
    if (w->rank != 1) return ir_infer_fail(ctx, "packed weights must be a vector");
    if (!base_dim_known(k) || !base_dim_known(w->dims[0])) return TD_OK;
    const bool pairs = base_attr_int(ctx->attrs, KERN_LINEAR_PAIRS);
    bool fits = kern_pack_count(k, n, panel, &count) && (pairs || (uint64_t)w->dims[0] == count);
    if (pairs && fits)
      fits = kern_pack_count(1, n, panel, &columns) && kern_pairs_stored(k, (int64_t)columns, w->dims[0]) >= 0;
    return fits ? TD_OK : ir_infer_fail(ctx, "packed weights of the wrong length %lld", (long long)w->dims[0]);
  }
  if (w->rank != 2) return ir_infer_fail(ctx, "weights must be a matrix, not of rank %d", w->rank);
  bool trans = base_attr_int(ctx->attrs, KERN_LINEAR_TRANS_W);
  base_dim wk = w->dims[trans], wn = w->dims[!trans];
  if (ops_dims_differ(k, wk))
    return ir_infer_fail(ctx, "inner sizes %lld and %lld differ", (long long)k, (long long)wk);
  if (ops_dims_differ(wn, n))
    return ir_infer_fail(ctx, "weights have %lld columns, not %lld", (long long)wn, (long long)n);
  return TD_OK;
}

static td_status infer(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type;
  int64_t n = base_attr_int(ctx->attrs, KERN_LINEAR_COLUMNS), panel = base_attr_int(ctx->attrs, KERN_LINEAR_PANEL);
  if (n < 0 || panel < 0 || panel > KERN_MAX_PANEL) return ir_infer_fail(ctx, "n or panel is out of range");
  const td_dtype w = ir_in(ctx, 1)->type.dtype;
  const bool pairs = base_attr_int(ctx->attrs, KERN_LINEAR_PAIRS);
  if ((x->dtype != TD_F32 && !(pairs && x->dtype == TD_BF16)) ||
      (w != TD_F32 && (panel == 0 || (w != TD_BF16 && w != TD_F16))))
    return ir_infer_fail(ctx, "operands must be f32, packed weights that or of 16 bits");
  if (pairs && w != TD_BF16) return ir_infer_fail(ctx, "pairs must be bf16");
  if (x->rank == IR_UNRANKED) return ops_out_unranked_sums(ctx);
  if (x->rank == 0) return ir_infer_fail(ctx, "x needs a last dimension");
  base_dim dims[BASE_MAX_RANK];
  memcpy(dims, x->dims, sizeof dims);
  TRY(infer_weights(ctx, dims[x->rank - 1], n, panel));
  dims[x->rank - 1] = n;
  return ops_infer_product(ctx, pairs, x->rank, dims);
}

typedef struct weights_form {
  int64_t panel, together; /* together: neighbours along k side by side */
  int64_t stored;          /* rows of a panel */
} weights_form;

static weights_form form_of(const base_call *call, int64_t k, int64_t n) {
  const base_tensor *w = base_in(call, 1);
  weights_form form = {base_attr_int(call->attrs, KERN_LINEAR_PANEL), 1, k};
  if (!base_attr_int(call->attrs, KERN_LINEAR_PAIRS)) return form;
  form.together = 2;
  form.stored = kern_pairs_stored(k, (n + form.panel - 1) / form.panel * form.panel, w->dims[0]);
  return form;
}

/* Rows of panels as rows of the matrix they hold. */
static void unpack(const gemm_f32 *g, int64_t k0, int64_t kn, int64_t j0, int64_t jn, float *to) {
  const weights_form *p = g->user;
  const int64_t rows = p->stored / p->together;
  for (int64_t k = k0; k < k0 + kn; k++)
    for (int64_t j = 0; j < jn; j++) {
      const int64_t column = j0 + j, row = column / p->panel * rows + k / p->together;
      to[(k - k0) * GEMM_COLUMNS + j] = g->b[(row * p->panel + column % p->panel) * p->together + k % p->together];
    }
}

/* x, rounded to bf16 where the product takes that. */
static const base_f32 *rounded_x(const base_call *call, bool pairs) {
  return pairs ? ops_rounded_f32(call, 0) : ops_dense_f32(call, 0);
}

static td_status reference(const base_call *call) {
  ops_front front;
  TRY(ops_run_front(&call, &front));
  const base_tensor *x = base_in(call, 0), *w = base_in(call, 1), *out = base_out(call, 0);
  const int64_t panel = base_attr_int(call->attrs, KERN_LINEAR_PANEL);
  const int64_t n = base_attr_int(call->attrs, KERN_LINEAR_COLUMNS);
  bool trans = base_attr_int(call->attrs, KERN_LINEAR_TRANS_W);
  int64_t k = x->dims[x->rank - 1], m = 1, count = base_tensor_numel(out);
  for (int32_t i = 0; i < x->rank - 1; i++) m *= x->dims[i];
  if (count == 0) return TD_OK;
  const weights_form form = form_of(call, k, n);
  const base_f32 *dense_x = rounded_x(call, form.together > 1), *dense_w = panel ? ops_dense_f32(call, 1) : w->data;
  float *sums = out->dtype == TD_F32 ? out->data : base_call_scratch(call, (size_t)count, sizeof *sums);
  if (!dense_x || !dense_w || !sums) return base_no_memory(call->err, "scratch");
  gemm_f32 g = {.m = m,
                .n = n,
                .k = k,
                .a = dense_x,
                .a_row = k,
                .a_column = 1,
                .b = dense_w,
                .b_row = panel ? 0 : w->strides[trans],
                .b_column = panel ? 0 : w->strides[!trans],
                .pack = panel ? unpack : NULL,
                .user = &form,
                .c = sums,
                .c_row = n};
  if (panel) g.block = base_call_scratch(call, GEMM_BLOCK, sizeof *g.block);
  bool ready = panel ? g.block != NULL : ops_gemm_matrix_f32(call, &g);
  if (!ready) return base_no_memory(call->err, "scratch");
  memset(sums, 0, (size_t)count * sizeof *sums);
  ops_gemm_f32(&g);
  return ops_apply_epilogue(call, sums);
}

/* Are pairs of this query stored as the row takes them? */
static bool takes_stored(const ir_kernel_query *query, const kern_row *row) {
  const ir_type *x = &query->in[0]->type, *w = &query->in[1]->type;
  const int64_t n = base_attr_int(query->attrs, KERN_LINEAR_COLUMNS);
  if (x->rank < 1 || !base_dim_known(x->dims[x->rank - 1]) || !base_dim_known(w->dims[0])) return false;
  const int64_t k = x->dims[x->rank - 1], columns = (n + row->lanes - 1) / row->lanes * row->lanes;
  return kern_pairs_stored(k, columns, w->dims[0]) == kern_pairs_depth_of(row, k);
}

static const kern_row *kernel(const ir_kernel_query *query) {
  const bool pairs = base_attr_int(query->attrs, KERN_LINEAR_PAIRS);
  const kern_row *row = kern_select(KERN_LINEAR, pairs ? TD_BF16 : TD_F32, query->isa);
  int64_t panel = base_attr_int(query->attrs, KERN_LINEAR_PANEL);
  if (!row || (panel && panel != row->lanes)) return NULL;
  if (pairs) return takes_stored(query, row) ? row : NULL;
  return query->in[1]->type.dtype == TD_F32 || kern_takes_halves(row) ? row : NULL;
}

double ops_flops_linear(const ir_info *const *in, const ir_info *out, const base_attrs *a) {
  (void)a;
  const ir_type *x = &in[0]->type;
  if (x->rank < 1 || out->type.rank < 1 || !base_dim_known(x->dims[x->rank - 1])) return 0;
  double total = 2 * (double)x->dims[x->rank - 1];
  for (int32_t i = 0; i < out->type.rank; i++)
    total *= base_dim_known(out->type.dims[i]) ? (double)out->type.dims[i] : 1;
  return total;
}

/* ---- cases: shapes around the tiles of all levels without an epilogue, then epilogues on three shapes ---- */

typedef struct shape {
  int64_t m, k, n;
} shape;
static const shape shapes[] = {{1, 1, 1},    {0, 3, 4},    {3, 0, 5},    {4, 3, 0},     {1, 7, 129}, {1, 64, 64},
                               {2, 5, 33},   {3, 16, 47},  {4, 17, 16},  {5, 31, 65},   {6, 13, 64}, {7, 8, 48},
                               {8, 24, 49},  {11, 7, 17},  {12, 16, 32}, {13, 5, 31},   {23, 9, 16}, {24, 4, 15},
                               {25, 33, 8},  {49, 40, 80}, {53, 19, 96}, {97, 11, 113}, {31, 1, 63}, {6, 300, 23},
                               {50, 70, 24}, {26, 2, 128}, {193, 3, 40}, {7, 1031, 37}, {37, 64, 2}, {18, 320, 3}};
static const int64_t panels[] = {0, 0, 16, 8, 4, 1}; /* the first with trans_w */
/* Where Strassen's recursion pays, and just does not. */
static const shape halved[] = {{64, 192, 192}, {65, 224, 256}, {403, 192, 224}, {64, 192, 208}, {63, 192, 192}};
enum { VARIANTS_OF_PARTS = 10 };
enum { PLAIN_CASES = OPS_COUNT(shapes) * OPS_COUNT(panels), HALVED_CASES = OPS_COUNT(halved) * 4 };
enum { FRONT_CASES = 4 * 3 * 2 }; /* shapes, panels, chains */
enum { HALF_KINDS = 17 };         /* types, panels, pairs, pairs for tiles and others with values of bf16 */
enum { HALF_CASES = OPS_COUNT(shapes) * HALF_KINDS };

/* x [2?, m, k] and w; out_dims gets the rank of x. */
static bool case_product(ir_case *c, shape s, uint32_t layout, bool batched, bool strassen, int64_t *out_dims,
                         int32_t *rank) {
  int64_t panel = panels[layout], dims[] = {2, s.m, s.k};
  bool trans = layout == 0;
  size_t count;
  ops_case_arg(c, ARG_BOOL("trans_w", trans));
  ops_case_arg(c, ARG_INT("n", s.n));
  ops_case_arg(c, ARG_INT("panel", panel));
  ops_case_arg(c, ARG_BOOL("strassen", strassen));
  *rank = batched ? 3 : 2;
  memcpy(out_dims, batched ? dims : dims + 1, 3 * sizeof *dims - (batched ? 0 : sizeof *dims));
  if (!ops_case_in(c, TD_F32, *rank, out_dims, OPS_NORMAL, 1)) return false;
  out_dims[*rank - 1] = s.n;
  if (panel == 0) {
    const int64_t w[] = {trans ? s.n : s.k, trans ? s.k : s.n};
    return ops_case_in(c, TD_F32, 2, w, OPS_NORMAL, 2);
  }
  if (!kern_pack_count(s.k, s.n, panel, &count)) return false;
  const int64_t w[] = {s.k, s.n}, packed[] = {(int64_t)count};
  if (!ops_case_in(c, TD_F32, 2, w, OPS_NORMAL, 2)) return false;
  base_tensor *t = &c->in[c->in_count - 1];
  float *to = base_new(c->arena, float, count + 1);
  if (!to) return false;
  kern_pack(to, &(kern_matrix){t->data, s.k, s.n, s.n, 1}, NULL, panel, 0, (s.n + panel - 1) / panel);
  *t = base_tensor_of(to, TD_F32, 1, packed);
  return true;
}

/* Each part alone, all of them, chains behind none and all, chains in front, and each activation behind a bias alone
 * (early) and behind all parts (late). */
static bool case_epilogue(ir_case *c, uint32_t variant, int32_t rank, const int64_t *dims) {
  static const uint32_t parts[VARIANTS_OF_PARTS] = {BIAS,          RESIDUAL,
                                                    SCALE,         SHIFT,
                                                    SCALE | SHIFT, BIAS | RESIDUAL | SCALE | SHIFT,
                                                    CHAIN,         BIAS | RESIDUAL | CHAIN,
                                                    BIAS | FRONT,  FRONT_ROWS};
  if (variant < OPS_COUNT(parts)) return ops_case_epilogue(c, parts[variant], KERN_ACT_none, false, rank, dims);
  bool late = variant % 2;
  kern_act act = (kern_act)((variant - OPS_COUNT(parts)) / 2 + 1);
  return ops_case_epilogue(c, (late ? 15u : 3u) << KERN_IN_BIAS, act, late, rank, dims);
}

/* Packed weights of 16 bits. */
static bool case_halves(ir_case *c, uint32_t number, int64_t *dims, int32_t *rank) {
  static const uint32_t bf16[HALF_KINDS] = {
      [9] = BF16_X,  [10] = BF16_RESULT, [11] = BF16_X | BF16_RESULT,   [12] = BF16_X | BF16_RESIDUAL | BF16_RESULT,
      [13] = BF16_X, [14] = BF16_RESULT, [15] = BF16_X | BF16_RESIDUAL, [16] = BF16_X | BF16_RESIDUAL | BF16_RESULT};
  const uint32_t kind = number % HALF_KINDS;
  const bool tiles = kind >= 8 && kind < 13, pairs = kind >= 8 || kind % 4 == 3;
  const td_dtype dtype = pairs || kind % 2 ? TD_BF16 : TD_F16;
  const shape s = shapes[number / HALF_KINDS];
  const uint32_t width = kind > 3 && kind < 8 ? 3 : 2;
  if (!case_product(c, s, width, number % 3 == 0, false, dims, rank)) return false;
  base_tensor *w = &c->in[1];
  const int64_t panel = panels[width], wide = (s.n + panel - 1) / panel;
  const int64_t stored = tiles ? kern_tiles_depth(s.k) : pairs ? kern_pairs_depth(s.k) : s.k;
  const int64_t count = stored * wide * panel;
  uint16_t *to = base_new(c->arena, uint16_t, (size_t)count + 1);
  if (!to) return false;
  if (pairs) kern_pack_pairs(w->data, s.k, wide, panel, stored, to);
  else base_convert(dtype, to, TD_F32, w->data, count, false);
  if (pairs) ops_case_arg(c, ARG_BOOL("pairs", true));
  *w = base_tensor_of(to, dtype, 1, &count);
  const uint32_t parts = (number % 3 ? BIAS : 0) | (bf16[kind] & BF16_RESIDUAL ? RESIDUAL : 0);
  const kern_act act = number % 5 == 0 ? KERN_ACT_relu : bf16[kind] && number % 5 == 1 ? KERN_ACT_gelu : KERN_ACT_none;
  return ops_case_epilogue(c, parts, act, bf16[kind] && number % 2, *rank, dims) && ops_case_bf16(c, bf16[kind], parts);
}

/* Whose rows come in several chunks, their columns too. */
static const shape behind_front[] = {{403, 96, 150}, {97, 1100, 33}, {0, 5, 7}, {5, 0, 7}};

static bool cases(ir_case *c, uint32_t number) {
  static const shape with_epilogue[] = {{7, 5, 83}, {1, 9, 20}, {19, 96, 2}};
  enum { VARIANTS = VARIANTS_OF_PARTS + 2 * (KERN_ACT_COUNT - 1), LAYOUTS = 5 };
  int64_t dims[3];
  int32_t rank;
  if (number < PLAIN_CASES)
    return case_product(c, shapes[number / OPS_COUNT(panels)], number % OPS_COUNT(panels),
                        number / OPS_COUNT(panels) % 2, false, dims, &rank);
  number -= PLAIN_CASES;
  if (number < HALVED_CASES) return case_product(c, halved[number / 4], 2 + number % 4, true, true, dims, &rank);
  number -= HALVED_CASES;
  if (number < HALF_CASES) return case_halves(c, number, dims, &rank);
  number -= HALF_CASES;
  if (number < FRONT_CASES)
    return case_product(c, behind_front[number / 2 / 3], number / 2 % 3, true, false, dims, &rank) &&
           ops_case_epilogue(c, number % 2 ? FRONT_ROWS : BIAS | FRONT, KERN_ACT_relu, false, rank, dims);
  number -= FRONT_CASES;
  uint32_t variant = number / LAYOUTS % VARIANTS, which = number / LAYOUTS / VARIANTS;
  if (which >= OPS_COUNT(with_epilogue)) return false;
  return case_product(c, with_epilogue[which], number % LAYOUTS, true, false, dims, &rank) &&
         case_epilogue(c, variant, rank, dims);
}

OPS_DECLARE(linear);
const ir_op ops_linear[] = {
    {.id = OPERATOR(td, linear),
     .min_in = 2,
     .max_in = KERN_CHAIN_END,
     .out_count = BASE_PROGRAM_OUTS,
     .flags = IR_OP_CHAIN | IR_OP_EPILOGUE | IR_OP_FRONT,
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
OPS_TABLE(linear);
OPS_CASES(linear) = {
    {OP_td_linear, cases},
    {0},
};
