/* einsum.c -- aten::einsum: sums of products over named axes, with ellipses, repeated letters (diagonals) and the
 * implicit result. Operands are multiplied from left to right; each product packs both factors as matrices and is one
 * gemm per batch. f16 and bf16 are summed in f32; integers wrap.
 *
 * y[out] = sum over the axes that are not in the result of the product of all operands. PyTorch einsum; ONNX Einsum
 * 12. */
#include "ops/common/gemm_priv.h"

#include <string.h>

enum {
  LETTERS = 52,
  LABELS = LETTERS + BASE_MAX_RANK,
  MAX_OPERANDS = 16
}; /* labels past the letters: ellipsis axes from the right */
static const ir_attr einsum_attrs[] = {{.name = "equation", .kind = BASE_ATTR_STR, .required = true}};

typedef struct term {
  int32_t rank;
  int32_t label[BASE_MAX_RANK];
} term;

typedef struct equation {
  term in[MAX_OPERANDS], out;
  uint32_t count;
} equation;

/* ---- the equation ---- */

static int32_t label_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  return c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

/* Reads one term up to ',' '-' or the end. `ellipsis` axes stand for "...". NULL: a syntax error. */
static const char *read_term(const char *at, int32_t ellipsis, term *t) {
  bool seen = false;
  t->rank = 0;
  for (; *at && *at != ',' && *at != '-'; at++) {
    int32_t label = label_of(*at);
    if (*at == ' ') continue;
    if (label >= 0) {
      if (t->rank == BASE_MAX_RANK) return NULL;
      t->label[t->rank++] = label;
      continue;
    }
    if (seen || strncmp(at, "...", 3) != 0 || t->rank + ellipsis > BASE_MAX_RANK) return NULL;
    seen = true;
    for (int32_t k = ellipsis; k-- > 0;) t->label[t->rank++] = LETTERS + k;
    at += 2;
  }
  return at;
}

/* Letters of a term, to know how many axes its ellipsis stands for. */
static int32_t letters_in(const char *at) {
  int32_t n = 0;
  for (; *at && *at != ',' && *at != '-'; at++) n += label_of(*at) >= 0;
  return n;
}

/* Ellipsis axes, then letters that occur once, in the order of their codes. */
static bool implicit_result(equation *e, int32_t ellipsis) {
  int32_t uses[LABELS] = {0};
  for (uint32_t i = 0; i < e->count; i++)
    for (int32_t k = 0; k < e->in[i].rank; k++) uses[e->in[i].label[k]]++;
  e->out.rank = 0;
  for (int32_t k = ellipsis; k-- > 0;) e->out.label[e->out.rank++] = LETTERS + k;
  for (int32_t k = 0; k < LETTERS; k++) {
    if (uses[k] != 1) continue;
    if (e->out.rank == BASE_MAX_RANK) return false;
    e->out.label[e->out.rank++] = k;
  }
  return true;
}

/* False: the text is no equation for operands of these ranks. */
static bool read_equation(const char *text, uint32_t count, const int32_t *ranks, equation *e) {
  int32_t widest = 0;
  e->count = count;
  for (uint32_t i = 0; i < count; i++) {
    int32_t ellipsis = ranks[i] - letters_in(text);
    if (ellipsis < 0) return false;
    text = read_term(text, ellipsis, &e->in[i]);
    if (!text || e->in[i].rank != ranks[i]) return false;
    if (ellipsis > widest) widest = ellipsis;
    if (i + 1 < count && *text++ != ',') return false;
  }
  if (!*text) return implicit_result(e, widest);
  if (strncmp(text, "->", 2) != 0) return false;
  text = read_term(text + 2, widest, &e->out);
  if (!text || *text) return false;
  bool known[LABELS] = {false};
  for (uint32_t i = 0; i < count; i++)
    for (int32_t k = 0; k < e->in[i].rank; k++) known[e->in[i].label[k]] = true;
  for (int32_t k = 0; k < e->out.rank; k++) {
    if (!known[e->out.label[k]]) return false;
    known[e->out.label[k]] = false; /* twice in the result is an error too */
  }
  return true;
}

static td_status infer_einsum(ir_infer *ctx) {
  const char *text = base_attr_str(ctx->attrs, 0);
  td_dtype dtype = ir_in(ctx, 0)->type.dtype;
  int32_t ranks[MAX_OPERANDS];
  if (ctx->in_count > MAX_OPERANDS)
    return ir_infer_fail(ctx, "%u operands; at most %d are supported", ctx->in_count, MAX_OPERANDS);
  for (uint32_t i = 0; i < ctx->in_count; i++) {
    if (!ir_in(ctx, i)) return ir_infer_fail(ctx, "operand %u is missing", i);
    TRY(ops_same_dtype(ctx, 0, i));
  }
  if (ops_any_unranked(ctx)) return ir_out_unranked(ctx, 0, dtype);
  for (uint32_t i = 0; i < ctx->in_count; i++) ranks[i] = ir_in(ctx, i)->type.rank;
  equation e;
  if (!read_equation(text, ctx->in_count, ranks, &e))
    return ir_infer_fail(ctx, "the equation \"%s\" does not fit the operands", text);
  base_dim sizes[LABELS], dims[BASE_MAX_RANK];
  for (int32_t k = 0; k < LABELS; k++) sizes[k] = 1;
  for (uint32_t i = 0; i < ctx->in_count; i++)
    for (int32_t k = 0; k < e.in[i].rank; k++) {
      base_dim *size = &sizes[e.in[i].label[k]];
      *size = base_dim_binary(ctx->dims, BASE_DIM_BROADCAST, *size, ir_in(ctx, i)->type.dims[k]);
      if (*size == BASE_DIM_NONE) return ir_infer_fail(ctx, "sizes of one letter differ in \"%s\"", text);
    }
  for (int32_t k = 0; k < e.out.rank; k++) dims[k] = sizes[e.out.label[k]];
  return ir_out(ctx, 0, dtype, e.out.rank, dims);
}

/* ---- products ---- */

/* A factor: memory and its stride along each label (0: does not vary). */
typedef struct factor {
  const void *data;
  int64_t strides[LABELS];
  bool has[LABELS];
} factor;

static factor factor_of(const base_tensor *t, const term *labels) {
  factor f = {.data = t->data};
  for (int32_t k = 0; k < t->rank; k++) {
    f.has[labels->label[k]] = true;
    if (t->dims[k] != 1) f.strides[labels->label[k]] += t->strides[k];
  }
  return f;
}

/* Labels in some order, and how many elements they span. */
typedef struct group {
  int32_t label[LABELS];
  int32_t count;
  int64_t size;
} group;

static void join(group *g, int32_t label, int64_t size) {
  g->label[g->count++] = label;
  g->size *= size;
}

/* A dense copy of `f` over the labels of three groups, outermost first. */
static td_status pack(const base_call *call, const factor *f, td_dtype dtype, const int64_t *sizes,
                      const group *const *groups, void **to) {
  base_tensor view = {.data = NULL, .dtype = dtype};
  int64_t count = 1;
  union {
    const void *from;
    void *to;
  } data = {f->data}; /* a tensor of a view; only read */
  view.data = data.to;
  for (int g = 0; g < 3; g++)
    for (int32_t k = 0; k < groups[g]->count; k++) {
      int32_t label = groups[g]->label[k];
      if (sizes[label] == 1) continue;
      if (view.rank == BASE_MAX_RANK)
        return base_fail(call->err, TD_UNSUPPORTED, NULL, -1, "aten::einsum: more than %d axes at once", BASE_MAX_RANK);
      view.dims[view.rank] = sizes[label];
      view.strides[view.rank++] = f->strides[label];
      count *= sizes[label];
    }
  *to = base_call_scratch(call, (size_t)count, base_dtype(dtype)->bits / 8);
  if (!*to) return base_no_memory(call->err, "scratch");
  base_tensor_pack(*to, &view);
  return TD_OK;
}

#define GEMM_RUN(NAME, T, U)                                                                                      \
  static void run_##NAME(const void *a, const void *b, void *c, int64_t batch, int64_t m, int64_t n, int64_t k) { \
    gemm_##NAME g = {.m = m,                                                                                      \
                     .n = n,                                                                                      \
                     .k = k,                                                                                      \
                     .a = a,                                                                                      \
                     .a_row = k,                                                                                  \
                     .a_column = 1,                                                                               \
                     .b = b,                                                                                      \
                     .b_row = n,                                                                                  \
                     .b_column = 1,                                                                               \
                     .c = c,                                                                                      \
                     .c_row = n};                                                                                 \
    memset(c, 0, (size_t)(batch * m * n) * sizeof(T));                                                            \
    for (int64_t i = 0; i < batch; i++, g.a += m * k, g.b += k * n, g.c += m * n) ops_gemm_##NAME(&g);            \
  }
GEMM_RUN(f32, float, base_f32)
GEMM_RUN(f64, double, base_f64)
GEMM_RUN(u64, uint64_t, base_u64)

/* a = a * b, keeping the labels in `keep` and summing over the others. */
static td_status multiply(const base_call *call, td_dtype dtype, const int64_t *sizes, const bool *keep, factor *a,
                          const factor *b) {
  group batch = {.size = 1}, m = {.size = 1}, n = {.size = 1}, k = {.size = 1};
  for (int32_t label = 0; label < LABELS; label++) {
    if (!a->has[label] && !b->has[label]) continue;
    join(!keep[label] ? &k : a->has[label] && b->has[label] ? &batch : a->has[label] ? &m : &n, label, sizes[label]);
  }
  void *rows, *columns;
  TRY(pack(call, a, dtype, sizes, (const group *[]){&batch, &m, &k}, &rows));
  TRY(pack(call, b, dtype, sizes, (const group *[]){&batch, &k, &n}, &columns));
  void *c = base_call_scratch(call, (size_t)(batch.size * m.size), (size_t)n.size * (dtype == TD_F32 ? 4 : 8));
  if (!c) return base_no_memory(call->err, "scratch");
  if (dtype == TD_F32) run_f32(rows, columns, c, batch.size, m.size, n.size, k.size);
  else if (dtype == TD_F64) run_f64(rows, columns, c, batch.size, m.size, n.size, k.size);
  else run_u64(rows, columns, c, batch.size, m.size, n.size, k.size);
  *a = (factor){.data = c};
  const group *groups[] = {&n, &m, &batch};
  int64_t stride = 1;
  for (int g = 0; g < 3; g++)
    for (int32_t i = groups[g]->count; i-- > 0;) {
      int32_t label = groups[g]->label[i];
      a->has[label] = true;
      a->strides[label] = stride;
      stride *= sizes[label];
    }
  return TD_OK;
}

/* A sum of nothing. */
static td_status zeros(const base_call *call) {
  const base_tensor *out = base_out(call, 0);
  for (int64_t k = 0; k < base_tensor_numel(out); k++) base_store_f64(out->dtype, out->data, k, 0);
  return TD_OK;
}

static td_status einsum_reference(const base_call *call) {
  td_dtype dtype = ops_sum_dtype(base_out(call, 0)->dtype);
  base_tensor t[MAX_OPERANDS], *out = base_out(call, 0);
  int32_t ranks[MAX_OPERANDS];
  int64_t sizes[LABELS], one_dims[1] = {1};
  equation e;
  for (uint32_t i = 0; i < call->in_count; i++) {
    if (!ops_typed(call, i, dtype, &t[i])) return base_no_memory(call->err, "scratch");
    ranks[i] = t[i].rank;
  }
  if (!read_equation(base_attr_str(call->attrs, 0), call->in_count, ranks, &e))
    return ops_fail(call, "the equation does not fit");
  if (base_tensor_numel(out) == 0) return TD_OK;
  for (uint32_t i = 0; i < call->in_count; i++)
    if (base_tensor_numel(&t[i]) == 0) return zeros(call);
  for (int32_t k = 0; k < LABELS; k++) sizes[k] = 1;
  for (uint32_t i = 0; i < call->in_count; i++)
    for (int32_t k = 0; k < t[i].rank; k++)
      if (t[i].dims[k] != 1) sizes[e.in[i].label[k]] = t[i].dims[k];
  double one = 1;
  int64_t one_int = 1;
  float one_float = 1;
  void *ones = dtype == TD_F32 ? (void *)&one_float : dtype == TD_F64 ? (void *)&one : (void *)&one_int;
  base_tensor unit = base_tensor_of(ones, dtype, 0, one_dims);
  term none = {0};
  factor sum = factor_of(call->in_count > 1 ? &t[0] : &unit, call->in_count > 1 ? &e.in[0] : &none);
  for (uint32_t i = call->in_count > 1 ? 1 : 0; i < call->in_count; i++) {
    bool keep[LABELS] = {false};
    for (int32_t k = 0; k < e.out.rank; k++) keep[e.out.label[k]] = true;
    for (uint32_t later = i + 1; later < call->in_count; later++)
      for (int32_t k = 0; k < e.in[later].rank; k++) keep[e.in[later].label[k]] = true;
    factor next = factor_of(&t[i], &e.in[i]);
    TRY(multiply(call, dtype, sizes, keep, &sum, &next));
  }
  base_tensor result = base_tensor_of(NULL, dtype, out->rank, out->dims);
  group all = {.size = 1}, empty = {.size = 1};
  for (int32_t k = 0; k < e.out.rank; k++) join(&all, e.out.label[k], sizes[e.out.label[k]]);
  TRY(pack(call, &sum, dtype, sizes, (const group *[]){&all, &empty, &empty}, &result.data));
  base_convert(out->dtype, out->data, dtype, result.data, base_tensor_numel(out), false);
  return TD_OK;
}

static bool cases_einsum(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F64, TD_F16, TD_I32};
  static const char *const equations[] = {"...ij,...jk->...ik", "ii->i", "bhid,bhjd->bhij", "ij", "ba,cb,dc"};
  if (number >= 5 * OPS_COUNT(dtypes)) return false;
  td_dtype d = dtypes[number / 5];
  ops_case_arg(c, ARG_STR("equation", equations[number % 5]));
  switch (number % 5) {
    case 0:
      return ops_case_in(c, d, OPS_DIMS(2, 1, 3, 4), OPS_NORMAL, 1) &&
             ops_case_in(c, d, OPS_DIMS(5, 4, 2), OPS_NORMAL, 2);
    case 1: return ops_case_in(c, d, OPS_DIMS(4, 4), OPS_NORMAL, 3);
    case 2:
      return ops_case_in(c, d, OPS_DIMS(1, 2, 3, 4), OPS_NORMAL, 4) &&
             ops_case_in(c, d, OPS_DIMS(1, 2, 5, 4), OPS_NORMAL, 5);
    case 3: return ops_case_in(c, d, OPS_DIMS(0, 3), OPS_NORMAL, 6);
    default:
      return ops_case_in(c, d, OPS_DIMS(2, 3), OPS_NORMAL, 7) && ops_case_in(c, d, OPS_DIMS(4, 2), OPS_NORMAL, 8) &&
             ops_case_in(c, d, OPS_DIMS(5, 4), OPS_NORMAL, 9);
  }
}

static const ir_alias einsum_aliases[] = {{"onnx", "Einsum", 12, NULL}};

OPS_DECLARE(einsum);
const ir_op ops_einsum[] = {
    {.id = OPERATOR(aten, einsum),
     .min_in = 1,
     .max_in = IR_VARIADIC,
     .out_count = 1,
     .attrs = einsum_attrs,
     .attr_count = OPS_COUNT(einsum_attrs),
     .infer = infer_einsum,
     .reference = einsum_reference,
     .rtol = 1e-4f,
     .atol = 1e-5f,
     .aliases = einsum_aliases,
     .alias_count = OPS_COUNT(einsum_aliases)},
};
OPS_TABLE(einsum);
OPS_CASES(einsum) = {
    {OP_aten_einsum, cases_einsum},
    {0},
};
