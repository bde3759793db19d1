/* linear_attention.c -- td::linear_attention: attention by a state per head instead of a cache of keys (com.microsoft
 * LinearAttention 1; Katharopoulos et al. 2020; gated delta rule: Yang et al. 2024).
 *
 * query [batch, rows, query heads * keys]; key [batch, rows, key heads * keys]; value [batch, rows, heads * values];
 * past [batch, heads, keys, values], zeros where it is absent; keep [batch, rows, heads], or also [.., heads * keys],
 * the factor by which a step keeps the state; beta [batch, rows, heads or 1], how much of what is missing a step adds.
 * For each row in turn, S the head's state, q and k those of the head or of the one that its group shares:
 *
 *     S = keep S;    S = S + k (beta (v - S^T k))^T, without beta S + k v^T;    y = scale S^T q
 *
 * Results: y [batch, rows, max(query heads, heads) * values], the state behind the last row. In f32. */
#include "ops/common/ops_priv.h"

enum { QUERY, KEY, VALUE, PAST, KEEP, BETA, OPERANDS };
static const ir_attr linear_attrs[] = {KERN_LINEAR_ATTENTION_LIST(OPS_ATTR_ROW)};

static int64_t heads_of(const base_attrs *attrs) { return base_attr_int(attrs, KERN_LINEAR_ATTENTION_HEADS); }
static int64_t query_heads_of(const base_attrs *attrs) {
  return base_attr_int(attrs, KERN_LINEAR_ATTENTION_QUERY_HEADS);
}

static td_status infer_linear(ir_infer *ctx) {
  const int64_t heads = heads_of(ctx->attrs), query_heads = query_heads_of(ctx->attrs);
  static const int32_t ranks[] = {3, 3, 3, 4, 3, 3};
  if (heads < 1 || query_heads < 1 || heads > INT32_MAX || query_heads > INT32_MAX ||
      (heads % query_heads != 0 && query_heads % heads != 0))
    return ir_infer_fail(ctx, "%lld query heads do not go with %lld heads", (long long)query_heads, (long long)heads);
  for (uint32_t i = 0; i < OPERANDS; i++) {
    const ir_info *in = ir_in(ctx, i);
    if (in && (in->type.dtype != TD_F32 || (in->type.rank != ranks[i] && in->type.rank != IR_UNRANKED)))
      return ir_infer_fail(ctx, "operand %u is not f32 of rank %d", i, ranks[i]);
  }
  const ir_type *q = &ir_in(ctx, QUERY)->type, *v = &ir_in(ctx, VALUE)->type;
  if (q->rank == IR_UNRANKED || v->rank == IR_UNRANKED) {
    for (uint32_t i = 0; i < ctx->out_count; i++) TRY(ir_out_unranked(ctx, i, TD_F32));
    return TD_OK;
  }
  const base_dim keys = base_dim_div(ctx->dims, q->dims[2], query_heads),
                 values = base_dim_div(ctx->dims, v->dims[2], heads);
  const base_dim width = base_dim_mul(ctx->dims, values, base_max_i64(heads, query_heads));
  TRY(ir_out(ctx, 0, TD_F32, 3, (base_dim[]){q->dims[0], q->dims[1], width}));
  return ctx->out_count < 2 ? TD_OK : ir_out(ctx, 1, TD_F32, 4, (base_dim[]){q->dims[0], heads, keys, values});
}

static double flops_linear(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  const ir_type *q = &in[QUERY]->type, *y = &out->type;
  if (q->rank != 3 || y->rank != 3) return 0;
  double each = 4 + (in[KEEP] ? 1 : 0) + (in[BETA] ? 2 : 0), all = 1;
  for (int32_t i = 0; i < 3; i++) all *= base_dim_known(y->dims[i]) ? (double)y->dims[i] : 0;
  return base_dim_known(q->dims[2]) ? all * each * (double)q->dims[2] / (double)query_heads_of(attrs) : 0;
}

/* ---- the reference ---- */

typedef struct linear_state {
  int64_t batch, rows, heads, query_heads, key_heads, keys, values, keep_width, beta_width;
  const base_f32 *in[OPERANDS]; /* NULL: absent */
  float scale;
} linear_state;

/* Elements of the last dimension; 0 where the operand is absent. */
static int64_t width_of(const base_call *call, uint32_t i) {
  const base_tensor *t = base_in(call, i);
  return t ? t->dims[2] : 0;
}

static td_status check_operands(const base_call *call, const linear_state *s) {
  for (uint32_t i = KEY; i < OPERANDS; i++) {
    const base_tensor *t = base_in(call, i);
    if (t && (t->dims[0] != s->batch || (i != PAST && t->dims[1] != s->rows)))
      return ops_fail(call, "operand %u has not as many samples and rows as the query", i);
  }
  const base_tensor *past = base_in(call, PAST);
  if (past && (past->dims[1] != s->heads || past->dims[2] != s->keys || past->dims[3] != s->values))
    return ops_fail(call, "the past state is not of %lld heads of %lld keys and %lld values", (long long)s->heads,
                    (long long)s->keys, (long long)s->values);
  if (s->keys * s->query_heads != width_of(call, QUERY) || s->values * s->heads != width_of(call, VALUE) ||
      s->key_heads < 1 || s->key_heads * s->keys != width_of(call, KEY) || s->heads % s->key_heads != 0)
    return ops_fail(call, "queries, keys and values do not split into heads");
  const bool keep = base_in(call, KEEP), beta = base_in(call, BETA);
  if ((keep && s->keep_width != s->heads && s->keep_width != s->heads * s->keys) ||
      (beta && s->beta_width != 1 && s->beta_width != s->heads))
    return ops_fail(call, "the factors are neither one per head nor one per key");
  return TD_OK;
}

static td_status read_operands(const base_call *call, linear_state *s) {
  const base_tensor *q = base_in(call, QUERY);
  *s = (linear_state){.batch = q->dims[0],
                      .rows = q->dims[1],
                      .heads = heads_of(call->attrs),
                      .query_heads = query_heads_of(call->attrs),
                      .keep_width = width_of(call, KEEP),
                      .beta_width = width_of(call, BETA),
                      .scale = (float)base_attr_float(call->attrs, KERN_LINEAR_ATTENTION_SCALE)};
  s->keys = q->dims[2] / s->query_heads;
  s->values = width_of(call, VALUE) / s->heads;
  s->key_heads = s->keys ? width_of(call, KEY) / s->keys : 0;
  TRY(check_operands(call, s));
  for (uint32_t i = 0; i < OPERANDS; i++) {
    s->in[i] = base_in(call, i) ? ops_dense_f32(call, i) : NULL;
    if (base_in(call, i) && !s->in[i]) return base_no_memory(call->err, "scratch");
  }
  return TD_OK;
}

/* Row `row` (of all samples) of head h: the state after it. */
static void step(const linear_state *s, int64_t row, int64_t h, base_f32 *state) {
  const base_f32 *k = s->in[KEY] + (row * s->key_heads + h / (s->heads / s->key_heads)) * s->keys;
  const base_f32 *v = s->in[VALUE] + (row * s->heads + h) * s->values;
  const base_f32 *keep = s->in[KEEP] ? s->in[KEEP] + row * s->keep_width : NULL;
  const bool each = s->keep_width > s->heads;
  const float beta = s->in[BETA] ? s->in[BETA][row * s->beta_width + (s->beta_width > 1 ? h : 0)] : 1;
  for (int64_t i = 0; keep && i < s->keys; i++)
    for (int64_t j = 0; j < s->values; j++) state[i * s->values + j] *= keep[each ? h * s->keys + i : h];
  for (int64_t j = 0; j < s->values; j++) {
    float met = 0;
    for (int64_t i = 0; s->in[BETA] && i < s->keys; i++) met += state[i * s->values + j] * k[i];
    const float add = s->in[BETA] ? beta * (v[j] - met) : v[j];
    for (int64_t i = 0; i < s->keys; i++) state[i * s->values + j] += k[i] * add;
  }
}

static td_status reference_linear(const base_call *call) {
  linear_state s;
  TRY(read_operands(call, &s));
  const int64_t size = s.keys * s.values, outs = base_max_i64(s.heads, s.query_heads), group = outs / s.heads;
  base_f32 *y = ops_take_f32(call, 0);
  base_f32 *state = base_out(call, 1) ? ops_take_f32(call, 1)
                                      : base_call_scratch(call, (size_t)(s.batch * s.heads), (size_t)size * sizeof *y);
  if (!y || !state) return base_no_memory(call->err, "scratch");
  for (int64_t i = 0; i < s.batch * s.heads * size; i++) state[i] = s.in[PAST] ? s.in[PAST][i] : 0;
  for (int64_t i = 0; i < s.batch * s.rows * s.heads; i++) {
    const int64_t h = i % s.heads, row = i / s.heads;
    base_f32 *own = state + (row / s.rows * s.heads + h) * size;
    step(&s, row, h, own);
    for (int64_t o = h * group; o < (h + 1) * group; o++) {
      const base_f32 *q = s.in[QUERY] + (row * s.query_heads + o / (outs / s.query_heads)) * s.keys;
      for (int64_t j = 0; j < s.values; j++) {
        float sum = 0;
        for (int64_t k = 0; k < s.keys; k++) sum += q[k] * own[k * s.values + j];
        y[(row * outs + o) * s.values + j] = s.scale * sum;
      }
    }
  }
  return TD_OK;
}

static const struct kern_row *kernel_linear(const ir_kernel_query *query) {
  return kern_select(KERN_LINEAR_ATTENTION, TD_F32, query->isa);
}

/* ---- cases ---- */

typedef struct linear_case {
  int64_t batch, rows, heads, query_heads, key_heads, keys, values;
  bool past;
  int64_t keep, beta; /* elements of a row; 0: absent */
} linear_case;

static const linear_case linear_cases[] = {
    {1, 1, 1, 1, 1, 1, 1, false, 0, 0},       {2, 3, 4, 4, 4, 8, 16, true, 4, 4}, /* the gated delta rule */
    {1, 5, 4, 2, 2, 16, 70, true, 4, 4},                                          /* heads share a query and a key */
    {1, 2, 2, 6, 1, 5, 130, false, 2 * 5, 0}, /* queries share a head; a factor per key */
    {2, 1, 3, 3, 3, 33, 64, true, 0, 1},      /* the delta rule, one beta for all heads */
    {1, 4, 2, 2, 2, 64, 67, true, 2 * 64, 2}, {2, 0, 2, 2, 2, 4, 4, true, 2, 2},  {0, 2, 2, 2, 2, 4, 4, false, 0, 0},
};

static bool cases_linear(ir_case *c, uint32_t number) {
  if (number >= OPS_COUNT(linear_cases)) return false;
  const linear_case *r = &linear_cases[number];
  const uint64_t seed = 10 * number;
  ops_case_arg(c, ARG_INT("heads", r->heads));
  ops_case_arg(c, ARG_INT("query_heads", r->query_heads));
  ops_case_arg(c, ARG_FLOAT("scale", 0.25));
  return ops_case_in(c, TD_F32, OPS_DIMS(r->batch, r->rows, r->query_heads * r->keys), OPS_NORMAL, seed) &&
         ops_case_in(c, TD_F32, OPS_DIMS(r->batch, r->rows, r->key_heads * r->keys), OPS_UNIT, seed + 1) &&
         ops_case_in(c, TD_F32, OPS_DIMS(r->batch, r->rows, r->heads * r->values), OPS_NORMAL, seed + 2) &&
         (r->past ? ops_case_in(c, TD_F32, OPS_DIMS(r->batch, r->heads, r->keys, r->values), OPS_NORMAL, seed + 3)
                  : ops_case_absent(c)) &&
         (r->keep ? ops_case_in(c, TD_F32, OPS_DIMS(r->batch, r->rows, r->keep), OPS_UNIT, seed + 4)
                  : ops_case_absent(c)) &&
         (r->beta ? ops_case_in(c, TD_F32, OPS_DIMS(r->batch, r->rows, r->beta), OPS_UNIT, seed + 5)
                  : ops_case_absent(c));
}

OPS_DECLARE(linear_attention);
const ir_op ops_linear_attention[] = {
    {.id = OPERATOR(td, linear_attention),
     .min_in = 3,
     .max_in = OPERANDS,
     .out_count = 2,
     .attrs = linear_attrs,
     .attr_count = OPS_COUNT(linear_attrs),
     .infer = infer_linear,
     .reference = reference_linear,
     .kernel = kernel_linear,
     .by_sample = 0x3f,
     .flops = flops_linear,
     .rtol = 1e-4f,
     .atol = 1e-5f},
};
OPS_TABLE(linear_attention);
OPS_CASES(linear_attention) = {
    {OP_td_linear_attention, cases_linear},
    {0},
};
