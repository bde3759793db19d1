/* fused.c -- td::fused and td::fused_rows: what the compiler makes of operators that run as one loop. Attribute 0 is
 * the program (base/program.h); attribute 1, for people, says per op of it which of the node's origins it came of, or
 * -1. The first has no rows: each element of its results depends on that element of the
 * operands alone; the second reduces along rows. */
#include "ops/common/kernel_priv.h"
#include "ops/common/lower_priv.h"

static const ir_attr fused_attrs[] = {KERN_FUSED_LIST(OPS_ATTR_ROW)};

static td_status read_program(ir_infer *ctx, base_program *p) {
  uint32_t count;
  const int64_t *words = base_attr_ints(ctx->attrs, KERN_FUSED_PROGRAM, &count);
  const char *wrong = base_program_read(words, count, p);
  if (wrong) return ir_infer_fail(ctx, "the program is damaged: %s", wrong);
  if (p->in_count != ctx->in_count || p->out_count < ctx->out_count)
    return ir_infer_fail(ctx, "the program has %u operands and %u results, the node %u and %u", p->in_count,
                         p->out_count, ctx->in_count, ctx->out_count);
  return TD_OK;
}

/* Operands are of the types that loads have, and those of a row keep one element along it. */
static td_status check_loads(ir_infer *ctx, const base_program *p) {
  for (uint32_t i = 0; i < p->count; i++) {
    const base_program_op *op = &p->ops[i];
    if (op->kind != BASE_PROGRAM_LOAD) continue;
    const ir_type *t = &ir_in(ctx, op->function)->type;
    if (base_type_of(t->dtype) != op->type)
      return ir_infer_fail(ctx, "operand %u is of %s, where the program has %s", op->function, td_dtype_name(t->dtype),
                           base_type_name((base_type)op->type));
    if (!op->row) continue;
    for (int32_t a = 0; a < t->rank; a++)
      if (base_program_in_row(p, a + p->rank - t->rank) && t->dims[a] != 1)
        return ir_infer_fail(ctx, "operand %u changes along a row", op->function);
  }
  return TD_OK;
}

static td_status infer_fused(ir_infer *ctx) {
  base_program p;
  int32_t ranks[BASE_PROGRAM_OPERANDS], rank = 0;
  const base_dim *operand_dims[BASE_PROGRAM_OPERANDS];
  base_dim sizes[BASE_MAX_RANK], dims[BASE_MAX_RANK];
  td_dtype dtype = TD_INVALID;
  base_program_pick picks[BASE_PROGRAM_OPERANDS];
  TRY(read_program(ctx, &p));
  const bool gathers = base_program_picks(&p, picks);
  if ((p.row_axes > 0 || gathers) != !(ctx->op->flags & IR_OP_ELEMENTWISE))
    return ir_infer_fail(ctx, "the program is for the other operator");
  for (uint32_t k = 0; k < p.in_count; k++) {
    const ir_info *in = ir_in(ctx, k);
    if (!in || in->type.kind > IR_BOOL || in->type.rank < 0 || (in->type.rank > p.rank && !picks[k].picks))
      return ir_infer_fail(ctx, "operand %u is missing, or has no axes that the program knows", k);
    if (picks[k].picks && (picks[k].axis >= in->type.rank || picks[k].axes + 1 < in->type.rank))
      return ir_infer_fail(ctx, "operand %u cannot be gathered that way", k);
    if (picks[k].tells && !base_is_int(in->type.dtype))
      return ir_infer_fail(ctx, "operand %u tells places, and is of %s", k, td_dtype_name(in->type.dtype));
    ranks[k] = in->type.rank;
    operand_dims[k] = in->type.dims;
  }
  if (!loop_space(&p, ctx->dims, ranks, operand_dims, sizes)) return ir_infer_fail(ctx, "operands do not broadcast");
  TRY(check_loads(ctx, &p));
  for (uint32_t i = 0; i < ctx->out_count; i++) {
    loop_output(&p, sizes, i, &dtype, &rank, dims);
    TRY(ir_out(ctx, i, dtype, rank, dims));
  }
  return TD_OK;
}

static td_status fused_reference(const base_call *call) {
  base_program p;
  uint32_t count;
  const int64_t *words = base_attr_ints(call->attrs, KERN_FUSED_PROGRAM, &count);
  const char *wrong = base_program_read(words, count, &p);
  return wrong ? ops_fail(call, "the program is damaged: %s", wrong) : loop_run_plain(call, &p);
}

static const kern_row *fused_kernel(const ir_kernel_query *query) {
  return kern_select(KERN_FUSED, TD_F32, query->isa);
}

static double fused_flops(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  base_program p;
  uint32_t count;
  const int64_t *words = base_attr_ints(attrs, KERN_FUSED_PROGRAM, &count);
  double most = 0;
  if (base_program_read(words, count, &p)) return 0;
  base_program_pick picks[BASE_PROGRAM_OPERANDS];
  base_program_picks(&p, picks);
  for (uint32_t k = 0; k <= p.in_count; k++) {
    if (k < p.in_count && picks[k].picks) continue;
    const double elements = (double)ir_known_count(k < p.in_count ? &in[k]->type : &out[0].type);
    if (elements > most) most = elements;
  }
  return most * loop_work(&p);
}

/* A row of an operand [rows..., n] has its samples in front where the space has axes beside the row. */
static bool rows_keep_samples(const ir_samples_query *query) {
  base_program p;
  uint32_t count;
  const int64_t *words = base_attr_ints(query->attrs, KERN_FUSED_PROGRAM, &count);
  base_program_pick picks[BASE_PROGRAM_OPERANDS];
  if (base_program_read(words, count, &p) || base_program_picks(&p, picks)) return false;
  bool drops = false; /* then axes of results and operands do not stand for one another */
  for (uint32_t i = 0; i < p.count; i++) drops |= p.ops[i].kind == BASE_PROGRAM_STORE && p.ops[i].in[1];
  return !drops && p.rank == query->rank && !base_program_in_row(&p, 0);
}

/* ---- cases ---- */

static bool give_program(ir_case *c, loop_build *b) {
  if (!loop_finish(b)) return false;
  int64_t *words = base_new(c->arena, int64_t, base_program_size(&b->program));
  if (!words) return false;
  base_program_write(&b->program, words);
  ops_case_arg(c, ARG_INTS("program", words, base_program_size(&b->program)));
  return true;
}

/* relu(x * y + 2), of dims that broadcast, and whether it is below 1. */
static bool fused_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_F16, TD_BF16};
  enum { SHAPES = 9 };
  if (number >= SHAPES * OPS_COUNT(dtypes)) return false;
  const td_dtype d = dtypes[number / SHAPES];
  loop_build b;
  loop_start(&b, 3, 0);
  uint16_t x = loop_load(&b, 0, BASE_TYPE_F32, false), y = loop_load(&b, 1, BASE_TYPE_F32, false);
  x = loop_binary(&b, BASE_SCALAR_add, loop_binary(&b, BASE_SCALAR_mul, x, y), loop_number(&b, 2));
  x = loop_unary(&b, BASE_SCALAR_relu, x);
  const uint16_t below = loop_binary(&b, BASE_SCALAR_lt, x, loop_number(&b, 1));
  loop_store(&b, x, d, false);
  loop_store(&b, below, TD_BOOL, false);
  if (!give_program(c, &b)) return false;
  switch (number % SHAPES) {
    case 0:
      return ops_case_in(c, d, OPS_DIMS(3, 5, 7), OPS_SPECIAL, 1) &&
             ops_case_in(c, d, OPS_DIMS(3, 5, 7), OPS_NORMAL, 2);
    case 1:
      return ops_case_in(c, d, OPS_DIMS(2, 1, 67), OPS_NORMAL, 3) && ops_case_in(c, d, OPS_DIMS(5, 1), OPS_NORMAL, 4);
    case 2: return ops_case_in(c, d, OPS_DIMS(0, 3, 1), OPS_NORMAL, 5) && ops_case_in(c, d, 0, NULL, OPS_NORMAL, 6);
    /* short rows, which take in the next axis, or a part of it: of what repeats along either */
    case 3:
      return ops_case_in(c, d, OPS_DIMS(70, 1, 3), OPS_NORMAL, 9) && ops_case_in(c, d, OPS_DIMS(7, 3), OPS_NORMAL, 10);
    case 4:
      return ops_case_in(c, d, OPS_DIMS(6, 5, 3), OPS_NORMAL, 11) && ops_case_in(c, d, OPS_DIMS(5, 1), OPS_NORMAL, 12);
    case 5:
      return ops_case_in(c, d, OPS_DIMS(4, 1, 3), OPS_NORMAL, 13) &&
             ops_case_in(c, d, OPS_DIMS(4, 15, 1), OPS_NORMAL, 14);
    case 6:
      return ops_case_in(c, d, OPS_DIMS(10, 22, 3), OPS_NORMAL, 15) && ops_case_in(c, d, OPS_DIMS(3), OPS_NORMAL, 16);
    case 7:
      return ops_case_in(c, d, OPS_DIMS(2, 67, 5), OPS_NORMAL, 17) && ops_case_in(c, d, OPS_DIMS(1, 5), OPS_NORMAL, 18);
    default:
      return ops_case_in(c, d, OPS_DIMS(1, 2, 1031), OPS_NORMAL, 7) && ops_case_in(c, d, OPS_DIMS(1031), OPS_NORMAL, 8);
  }
}

/* Across rows of few elements, or of strided ones: sums so far from either end, with and without the element, each
 * in a stage with what needs it; what is computed once for a row; elements of 1, 2, 4 and 8 bytes; masks. */
static bool across_cases(ir_case *c, uint32_t number) {
  static const int64_t shapes[][3] = {{5, 33, 3}, {3, 7, 19}, {40, 2, 1}, {2, 1, 5}, {1, 16, 16}, {4, 0, 3}, {3, 5, 0}};
  static const td_dtype dtypes[] = {TD_F32, TD_F16, TD_F64, TD_I32, TD_I64, TD_U8};
  if (number >= 2 * OPS_COUNT(shapes) * OPS_COUNT(dtypes)) return false;
  const int64_t *dims = shapes[number / 2 % OPS_COUNT(shapes)];
  const td_dtype dtype = dtypes[number / (2 * OPS_COUNT(shapes))];
  const base_type type = base_type_of(dtype);
  const uint32_t behind = number % 2;
  loop_build b;
  loop_start(&b, 3, 1);
  b.program.behind = (uint8_t)behind;
  b.program.across = true;
  const uint16_t x = loop_load(&b, 0, type, false), z = loop_load(&b, 2, type, false);
  const uint16_t y = loop_reduce(&b, BASE_COMBINE_MIN, loop_load(&b, 1, type, false));
  const uint16_t ahead = loop_scan(&b, BASE_COMBINE_SUM, loop_binary(&b, BASE_SCALAR_add, x, z), 0);
  const uint16_t back = loop_scan(&b, BASE_COMBINE_SUM, x, BASE_SCAN_REVERSE | BASE_SCAN_EXCLUSIVE);
  const uint16_t most = loop_reduce(&b, BASE_COMBINE_MAX, ahead);
  const uint16_t above = loop_binary(&b, BASE_SCALAR_lt, y, x);
  loop_store(&b, loop_scalar(&b, BASE_SCALAR_where, above, loop_binary(&b, BASE_SCALAR_sub, back, most), x, NULL, 0),
             base_type_dtype(type), false);
  loop_store(&b, loop_binary(&b, BASE_SCALAR_mul, most, y), base_type_dtype(type), true);
  loop_store(&b, above, TD_BOOL, false);
  loop_store(&b, loop_reduce(&b, BASE_COMBINE_MIN, above), TD_BOOL, false);
  loop_store(&b, loop_scan(&b, BASE_COMBINE_MIN, x, BASE_SCAN_EXCLUSIVE), base_type_dtype(type), false);
  if (type == BASE_TYPE_F64) loop_store(&b, loop_scan(&b, BASE_COMBINE_LOG_ADD, x, BASE_SCAN_REVERSE), TD_F64, false);
  if (!give_program(c, &b)) return false;
  return ops_case_in(c, dtype, 3, dims, OPS_NORMAL, number) &&
         ops_case_in(c, dtype, OPS_DIMS(dims[0], behind ? 1 : dims[1], behind ? dims[2] : 1), OPS_NORMAL, number + 1) &&
         ops_case_in(c, dtype, OPS_DIMS(behind ? dims[1] : 1, dims[2]), OPS_NORMAL, number + 2);
}

/* Softmax of x + y along the last one or two of three axes, and its largest element. */
static bool fused_rows_cases(ir_case *c, uint32_t number) {
  if (number >= 6) return across_cases(c, number - 6);
  loop_build b;
  loop_start(&b, 3, (uint8_t)(1 + number % 2));
  uint16_t x = loop_load(&b, 0, BASE_TYPE_F32, false), y = loop_load(&b, 1, BASE_TYPE_F32, false);
  x = loop_binary(&b, BASE_SCALAR_add, x, y);
  const uint16_t most = loop_reduce(&b, BASE_COMBINE_MAX, x);
  x = loop_unary(&b, BASE_SCALAR_exp_flush, loop_binary(&b, BASE_SCALAR_sub, x, most));
  loop_store(&b, loop_binary(&b, BASE_SCALAR_div, x, loop_reduce(&b, BASE_COMBINE_SUM, x)), TD_F32, false);
  loop_store(&b, most, TD_F32, number % 3 == 0);
  if (!give_program(c, &b)) return false;
  return number < 4 ? ops_case_in(c, TD_F32, OPS_DIMS(2, 3, 37), OPS_NORMAL, 1) &&
                          ops_case_in(c, TD_F32, OPS_DIMS(3, 1), OPS_NORMAL, 2)
                    : ops_case_in(c, TD_F32, OPS_DIMS(3, 2, 600), OPS_NORMAL, 3) &&
                          ops_case_in(c, TD_F32, OPS_DIMS(600), OPS_NORMAL, 4);
}

#define PARTS                                                                                                       \
  .max_in = BASE_PROGRAM_OPERANDS, .out_count = IR_VARIADIC, .attrs = fused_attrs,                                  \
  .attr_count = OPS_COUNT(fused_attrs), .infer = infer_fused, .reference = fused_reference, .kernel = fused_kernel, \
  .flops = fused_flops, .rtol = 1e-5f, .atol = 1e-6f
OPS_DECLARE(fused);
const ir_op ops_fused[] = {
    {.id = OPERATOR(td, fused), .min_in = 0, PARTS, .flags = IR_OP_ELEMENTWISE | IR_OP_IN_PLACE | IR_OP_LOOP},
    {.id = OPERATOR(td, fused_rows),
     .min_in = 0,
     PARTS,
     .flags = IR_OP_LOOP,
     .by_sample = UINT8_MAX,
     .keeps_samples = rows_keep_samples},
};
OPS_TABLE(fused);
OPS_CASES(fused) = {
    {OP_td_fused, fused_cases},
    {OP_td_fused_rows, fused_rows_cases},
    {0},
};
