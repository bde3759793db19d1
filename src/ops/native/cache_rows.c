/* cache_rows.c -- td::cache_rows and td::rotate_rows, what td::group_query_attention does before it attends.
 *
 *     rotate_rows(x [batch, rows, heads * size], last, cos, sin, positions): each row of each head rotated
 *     cache_rows(x, total, last, past [batch, heads, room, size], cos, sin, positions)
 *       -> [batch, heads, max(room, total), size]: rows of past before a sample's new ones, these, rotated where there
 *          are cos and sin, then zeros; where the result has the memory of past, what is there
 *
 * `last` [batch]: the last row of each sample in use, the new ones included; new row i stands in the place
 * max(last + 1 - rows, 0) + i. cos and sin [places, half]: those of a row's place, or of its position where `positions`
 * [batch, rows] are given. Without past there is none; it stands where residuals do, for a kernel may write over it. */
#include "kernels/kernels.h"
#include "ops/common/attention_priv.h"

enum { X, TOTAL, CACHE_LAST, PAST = KERN_IN_RESIDUAL, CACHE_TURN, CACHE_END = CACHE_TURN + 3 };
enum { ROTATE_LAST = 1, ROTATE_TURN, ROTATE_END = ROTATE_TURN + 3 };
enum { COS, SIN, POSITIONS }; /* behind ..._TURN */
static const ir_attr row_attrs[] = {KERN_ROWS_LIST(OPS_ATTR_ROW)};

/* ---- types ---- */

static bool is_integer(const ir_info *t, int32_t rank) {
  return (t->type.dtype == TD_I32 || t->type.dtype == TD_I64) && (t->type.rank == rank || t->type.rank == IR_UNRANKED);
}

static bool is_table(const ir_info *t) {
  return t->type.dtype == TD_F32 && (t->type.rank == 2 || t->type.rank == IR_UNRANKED);
}

static td_status check_rows(ir_infer *ctx, uint32_t last, uint32_t turn) {
  const ir_type *x = &ir_in(ctx, X)->type;
  const int64_t heads = base_attr_int(ctx->attrs, KERN_ROWS_HEADS);
  if (x->dtype != TD_F32 || x->rank != 3) return ir_infer_fail(ctx, "rows are f32 of rank 3");
  if (heads < 1 || (base_dim_known(x->dims[2]) && x->dims[2] % heads != 0))
    return ir_infer_fail(ctx, "%lld elements do not split into %lld heads", (long long)x->dims[2], (long long)heads);
  if (!is_integer(ir_in(ctx, last), 1)) return ir_infer_fail(ctx, "last rows are integers of rank 1");
  const ir_info *cosine = ir_in(ctx, turn + COS), *sine = ir_in(ctx, turn + SIN);
  if (!cosine != !sine || (cosine && (!is_table(cosine) || !is_table(sine))))
    return ir_infer_fail(ctx, "cos and sin are tables of f32");
  const ir_info *positions = ir_in(ctx, turn + POSITIONS);
  return positions && !is_integer(positions, 2) ? ir_infer_fail(ctx, "positions are integers of rank 2") : TD_OK;
}

static td_status infer_rotate(ir_infer *ctx) {
  TRY(check_rows(ctx, ROTATE_LAST, ROTATE_TURN));
  const ir_type *x = &ir_in(ctx, X)->type;
  return ir_out(ctx, 0, TD_F32, x->rank, x->dims);
}

static td_status infer_cache(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, X)->type;
  const int64_t heads = base_attr_int(ctx->attrs, KERN_ROWS_HEADS);
  TRY(check_rows(ctx, CACHE_LAST, CACHE_TURN));
  const base_dim *given, size = base_dim_div(ctx->dims, x->dims[2], heads);
  uint32_t count;
  base_dim room = ir_in_ints(ctx, TOTAL, &given, &count) && count == 1 ? given[0] : ir_fresh(ctx);
  const ir_info *past = ir_in(ctx, PAST);
  if (past && (past->type.dtype != TD_F32 || past->type.rank != 4))
    return ir_infer_fail(ctx, "past rows are f32 of rank 4");
  if (past && (ops_dims_differ(past->type.dims[0], x->dims[0]) || ops_dims_differ(past->type.dims[1], heads) ||
               ops_dims_differ(past->type.dims[3], size)))
    return ir_infer_fail(ctx, "past and new rows do not fit");
  if (past) room = base_dim_binary(ctx->dims, BASE_DIM_MAX, past->type.dims[2], room);
  return ir_out(ctx, 0, TD_F32, 4, (base_dim[]){x->dims[0], heads, room, size});
}

/* ---- references ---- */

typedef struct row_places {
  const base_f32 *cosine, *sine; /* NULL: rows stay as they are */
  const base_i64 *last, *positions;
  int64_t batch, queries, heads, size, half, room, places;
  bool interleaved;
} row_places;

static int64_t first_place(const row_places *p, int64_t b) { return base_max_i64(p->last[b] + 1 - p->queries, 0); }

static td_status check_places(const base_call *call, const row_places *p) {
  for (int64_t i = 0; i < p->batch * p->queries; i++) {
    const int64_t b = i / p->queries, last = p->last[b];
    if (last < -1 || last >= p->room || first_place(p, b) + p->queries > p->room)
      return ops_fail(call, "row %lld of sample %lld is outside of %lld rows", (long long)last, (long long)b,
                      (long long)p->room);
    const int64_t at = p->positions ? p->positions[i] : first_place(p, b) + i % p->queries;
    if (p->cosine && (at < 0 || at >= p->places))
      return ops_fail(call, "position %lld is outside of tables of %lld rows", (long long)at, (long long)p->places);
  }
  return TD_OK;
}

static td_status read_places(const base_call *call, uint32_t last, uint32_t turn, int64_t room, row_places *p) {
  const base_tensor *x = base_in(call, X), *cosine = base_in(call, turn + COS), *sine = base_in(call, turn + SIN);
  const base_tensor *positions = base_in(call, turn + POSITIONS);
  *p = (row_places){.last = ops_dense_i64(call, last),
                    .batch = x->dims[0],
                    .queries = x->dims[1],
                    .heads = base_attr_int(call->attrs, KERN_ROWS_HEADS),
                    .room = room,
                    .interleaved = base_attr_int(call->attrs, KERN_ROWS_INTERLEAVED)};
  p->size = x->dims[2] / p->heads;
  if (!p->last) return base_no_memory(call->err, "scratch");
  if (base_tensor_numel(base_in(call, last)) != p->batch) return ops_fail(call, "there is not one last row per sample");
  if (cosine) {
    p->places = cosine->dims[0], p->half = cosine->dims[1];
    if (sine->dims[0] != p->places || sine->dims[1] != p->half || p->half > p->size / 2)
      return ops_fail(call, "cos and sin are not two tables of at most %lld columns", (long long)p->size / 2);
    p->cosine = ops_dense_f32(call, turn + COS), p->sine = ops_dense_f32(call, turn + SIN);
    p->positions = positions ? ops_dense_i64(call, turn + POSITIONS) : NULL;
    if (!p->cosine || !p->sine || (positions && !p->positions)) return base_no_memory(call->err, "scratch");
    if (positions && base_tensor_numel(positions) != p->batch * p->queries)
      return ops_fail(call, "there is not one position per row");
  }
  return check_places(call, p);
}

/* Row i of sample b, head h, of x. */
static void put_row(const row_places *p, const base_f32 *x, int64_t b, int64_t i, int64_t h, base_f32 *to) {
  const base_f32 *from = x + ((b * p->queries + i) * p->heads + h) * p->size;
  const int64_t at = p->positions ? p->positions[b * p->queries + i] : first_place(p, b) + i;
  if (p->cosine)
    ops_rotate(from, p->size, p->half, p->interleaved, p->cosine + at * p->half, p->sine + at * p->half, to);
  for (int64_t k = 0; !p->cosine && k < p->size; k++) to[k] = from[k];
}

static td_status reference_rotate(const base_call *call) {
  row_places p;
  const base_f32 *x = ops_dense_f32(call, X);
  base_f32 *to = base_out(call, 0)->data;
  if (!x) return base_no_memory(call->err, "scratch");
  TRY(read_places(call, ROTATE_LAST, ROTATE_TURN, INT32_MAX, &p));
  for (int64_t i = 0; i < p.batch * p.queries * p.heads; i++)
    put_row(&p, x, i / p.heads / p.queries, i / p.heads % p.queries, i % p.heads, to + i * p.size);
  return TD_OK;
}

static td_status reference_cache(const base_call *call) {
  row_places p;
  const base_tensor *given = base_in(call, PAST);
  const base_f32 *x = ops_dense_f32(call, X), *past = given ? ops_dense_f32(call, PAST) : NULL;
  base_f32 *to = base_out(call, 0)->data;
  const int64_t room = base_out(call, 0)->dims[2], past_room = given ? given->dims[2] : 0;
  if (!x || (given && !past)) return base_no_memory(call->err, "scratch");
  TRY(read_places(call, CACHE_LAST, CACHE_TURN, room, &p));
  for (int64_t i = 0; i < p.batch * p.heads; i++) {
    const int64_t old = first_place(&p, i / p.heads), kept = base_min_i64(old, past_room) * p.size;
    base_f32 *head = to + i * room * p.size;
    if (old > past_room) return ops_fail(call, "%lld past rows are missing", (long long)(old - past_room));
    for (int64_t k = 0; k < room * p.size; k++) head[k] = k < kept ? past[i * past_room * p.size + k] : 0;
    for (int64_t s = 0; s < p.queries; s++) put_row(&p, x, i / p.heads, s, i % p.heads, head + (old + s) * p.size);
  }
  return TD_OK;
}

static const struct kern_row *kernel_cache(const ir_kernel_query *query) {
  return kern_select(KERN_CACHE_ROWS, TD_F32, query->isa);
}
static const struct kern_row *kernel_rotate(const ir_kernel_query *query) {
  return kern_select(KERN_ROTATE_ROWS, TD_F32, query->isa);
}

/* ---- cases ---- */

typedef struct rows_case {
  int64_t batch, rows, heads, size, half, past, total, last[3];
  bool interleaved, positions;
} rows_case;

static const rows_case row_cases[] = {
    {1, 1, 1, 4, 0, -1, 1, {0}, false, false},
    {3, 1, 2, 16, 8, 9, 9, {0, 3, 8}, false, false}, /* a token each, in place */
    {3, 1, 2, 16, 8, 8, 9, {0, 3, 8}, true, false},
    {2, 5, 3, 24, 7, -1, 5, {4, 2}, false, true}, /* a prompt; some elements stay */
    {2, 5, 3, 70, 35, 20, 6, {4, 19}, false, false},
    {2, 3, 1, 6, 3, 4, 9, {6, 2}, true, true},
    {2, 0, 1, 6, 3, 4, 4, {3, -1}, false, false},
};

static bool add_positions(ir_case *c, const rows_case *r) {
  int64_t positions[16];
  for (int64_t i = 0; i < r->batch * r->rows; i++) positions[i] = (7 * i + 3) % 30;
  if (!ops_case_ints(c, positions, (uint32_t)(r->batch * r->rows))) return false;
  base_tensor *t = &c->in[c->in_count - 1];
  *t = base_tensor_of(t->data, TD_I64, OPS_DIMS(r->batch, r->rows));
  return true;
}

static bool add_turn(ir_case *c, const rows_case *r, uint64_t seed) {
  if (r->half == 0) return true;
  return ops_case_in(c, TD_F32, OPS_DIMS(30, r->half), OPS_NORMAL, seed + 1) &&
         ops_case_in(c, TD_F32, OPS_DIMS(30, r->half), OPS_NORMAL, seed + 2) && (!r->positions || add_positions(c, r));
}

static bool add_rows(ir_case *c, const rows_case *r, uint64_t seed) {
  ops_case_arg(c, ARG_INT("heads", r->heads));
  ops_case_arg(c, ARG_BOOL("interleaved", r->interleaved));
  return ops_case_in(c, TD_F32, OPS_DIMS(r->batch, r->rows, r->heads * r->size), OPS_NORMAL, seed);
}

static bool cases_rotate(ir_case *c, uint32_t number) {
  if (number + 1 >= OPS_COUNT(row_cases)) return false;
  const rows_case *r = &row_cases[number + 1];
  return add_rows(c, r, 10 * number) && ops_case_ints(c, r->last, (uint32_t)r->batch) && add_turn(c, r, 10 * number);
}

static bool cases_cache(ir_case *c, uint32_t number) {
  if (number >= OPS_COUNT(row_cases)) return false;
  const rows_case *r = &row_cases[number];
  return add_rows(c, r, 10 * number) && ops_case_ints(c, &r->total, 1) &&
         ops_case_ints(c, r->last, (uint32_t)r->batch) &&
         (r->past < 0
              ? ops_case_absent(c)
              : ops_case_in(c, TD_F32, OPS_DIMS(r->batch, r->heads, r->past, r->size), OPS_NORMAL, 10 * number + 5)) &&
         add_turn(c, r, 10 * number);
}

OPS_DECLARE(cache_rows);
const ir_op ops_cache_rows[] = {
    {.id = OPERATOR(td, cache_rows),
     .min_in = 3,
     .max_in = CACHE_END,
     .out_count = 1,
     .attrs = row_attrs,
     .attr_count = OPS_COUNT(row_attrs),
     .infer = infer_cache,
     .reference = reference_cache,
     .kernel = kernel_cache,
     .rtol = 1e-5f,
     .atol = 1e-6f},
    {.id = OPERATOR(td, rotate_rows),
     .min_in = 4,
     .max_in = ROTATE_END,
     .out_count = 1,
     .attrs = row_attrs,
     .attr_count = OPS_COUNT(row_attrs),
     .infer = infer_rotate,
     .reference = reference_rotate,
     .kernel = kernel_rotate,
     .rtol = 1e-5f,
     .atol = 1e-6f},
};
OPS_TABLE(cache_rows);
OPS_CASES(cache_rows) = {
    {OP_td_cache_rows, cases_cache},
    {OP_td_rotate_rows, cases_rotate},
    {0},
};
