/* infer.c -- what the inference of operators calls, and the operator set's look-ups. */
#include "ir/op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of a tensor as sizes, in `to`. */
static void read_ints(const base_tensor *t, uint32_t count, base_dim *to) {
  if (base_tensor_contiguous(t)) {
    for (uint32_t k = 0; k < count; k++) to[k] = base_dim_number(base_load_i64(t->dtype, t->data, k));
    return;
  }
  base_walk w;
  const int64_t *strides[] = {t->strides};
  base_walk_start(&w, t->rank, t->dims, 1, strides);
  for (uint32_t k = 0; k < count; k++, base_walk_next(&w))
    to[k] = base_dim_number(base_load_i64(t->dtype, t->data, w.offset[0]));
}

bool ir_in_ints(ir_infer *ctx, uint32_t i, const base_dim **ints, uint32_t *count) {
  const ir_info *in = ir_in(ctx, i);
  if (!in) return false;
  if (in->ints) {
    *ints = in->ints;
    *count = in->int_count;
    return true;
  }
  const base_tensor *t = in->constant;
  if (!t || base_is_float(t->dtype) || t->dtype == TD_STRING) return false;
  int64_t n = base_tensor_numel(t);
  if (n > IR_MAX_INTS) return false;
  uint32_t room = (uint32_t)(sizeof ctx->run_ints / sizeof *ctx->run_ints) - ctx->run_ints_used;
  base_dim *to = n <= room    ? ctx->run_ints + ctx->run_ints_used
                 : ctx->arena ? base_new(ctx->arena, base_dim, (size_t)n)
                              : NULL;
  if (!to) return false;
  if (n <= room) ctx->run_ints_used += (uint32_t)n;
  read_ints(t, (uint32_t)n, to);
  *ints = to;
  *count = (uint32_t)n;
  return true;
}

bool ir_in_int(ir_infer *ctx, uint32_t i, int64_t *value) {
  const base_dim *ints;
  uint32_t count;
  if (!ir_in_ints(ctx, i, &ints, &count) || count != 1 || !base_dim_known(ints[0])) return false;
  *value = ints[0];
  return true;
}

base_dim *ir_out_ints(ir_infer *ctx, uint32_t i, uint32_t count) {
  if (!ctx->arena || count > IR_MAX_INTS || i >= ctx->out_count) return NULL;
  base_dim *ints = base_new(ctx->arena, base_dim, count ? count : 1);
  if (!ints) return NULL;
  ctx->out[i].ints = ints;
  ctx->out[i].int_count = count;
  return ints;
}

base_dim ir_fresh(ir_infer *ctx) { return base_dim_fresh(ctx->dims); }

static td_status check_operand(ir_infer *ctx, uint32_t i) {
  static const char *const kinds[IR_KIND_COUNT] = {
      [IR_STR] = "a string",      [IR_NONE] = "nothing",         [IR_LIST] = "a list",     [IR_TUPLE] = "a tuple",
      [IR_DICT] = "a dictionary", [IR_OPTIONAL] = "an optional", [IR_FUTURE] = "a future", [IR_CLASS] = "an object"};
  const ir_info *in = ir_in(ctx, i);
  if (!in) return TD_OK;
  if (kinds[in->type.kind]) return ir_infer_fail(ctx, "operand %u is %s; a tensor is needed", i, kinds[in->type.kind]);
  if (in->type.dtype == TD_STRING && !(ctx->op->strings >> (i < 7 ? i : 7) & 1))
    return ir_infer_fail(ctx, "operand %u holds strings, which the operator does not take", i);
  return TD_OK;
}

td_status ir_infer_outputs(ir_infer *ctx) {
  for (uint32_t i = 0; i < ctx->in_count && !(ctx->op->flags & IR_OP_HOST); i++) TRY(check_operand(ctx, i));
  return ctx->op->infer(ctx);
}

/* Says what the operands are, too: of most failures that is the cause. */
td_status ir_infer_fail(ir_infer *ctx, const char *format, ...) {
  enum { SHOWN = 6 };
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  base_text operands = {.allocator = ctx->arena ? base_arena_allocator(ctx->arena) : &base_libc_allocator};
  for (uint32_t i = 0; i < ctx->in_count && i <= SHOWN; i++) {
    base_text_print(&operands, "%s", i == SHOWN ? ", ..." : i ? ", " : " of ");
    if (i == SHOWN) break;
    if (ir_in(ctx, i)) ir_type_print(ctx->dims, &ir_in(ctx, i)->type, &operands);
    else base_text_print(&operands, "-");
  }
  td_status status = base_fail(ctx->err, TD_BAD_FILE, NULL, -1, "%s%s: %s", ctx->op->name,
                               operands.at && !operands.failed ? operands.at : "", text);
  base_text_free(&operands);
  return status;
}

td_status ir_out(ir_infer *ctx, uint32_t i, td_dtype dtype, int32_t rank, const base_dim *dims) {
  if (i >= ctx->out_count) return TD_OK;
  if (rank > BASE_MAX_RANK)
    return base_fail(ctx->err, TD_UNSUPPORTED, NULL, -1, "%s: a result of rank %d; at most %d is supported",
                     ctx->op->name, rank, BASE_MAX_RANK);
  for (int32_t k = 0; k < rank; k++) {
    if (dims[k] == BASE_DIM_NONE)
      return ir_infer_fail(ctx, "the size of dimension %d of the result overflows or is unknown", k);
    if (base_dim_known(dims[k]) && dims[k] < 0)
      return ir_infer_fail(ctx, "dimension %d of the result has the negative size %lld", k, (long long)dims[k]);
  }
  ctx->out[i].type = ir_tensor(dtype, rank, dims);
  return ir_is_countable(&ctx->out[i].type) ? TD_OK : ir_infer_fail(ctx, "the elements of the result are too many");
}

td_status ir_out_unranked(ir_infer *ctx, uint32_t i, td_dtype dtype) {
  if (i >= ctx->out_count) return TD_OK;
  if (!ctx->dims) return ir_infer_fail(ctx, "the rank of the result stays unknown");
  ctx->out[i].type = ir_unranked(dtype);
  return TD_OK;
}

td_status ir_out_like(ir_infer *ctx, uint32_t i, uint32_t in, td_dtype dtype) {
  const ir_type *type = &ctx->in[in]->type;
  if (i >= ctx->out_count) return TD_OK;
  ctx->out[i].type = *type;
  if (dtype != TD_INVALID) ctx->out[i].type.dtype = dtype;
  return TD_OK;
}

base_dim ir_numel(ir_infer *ctx, const ir_type *type) {
  base_dim n = 1;
  for (int32_t i = 0; i < type->rank; i++) n = base_dim_mul(ctx->dims, n, type->dims[i]);
  return n;
}

td_status ir_axis(ir_infer *ctx, int64_t axis, int32_t rank, int32_t *result) {
  if (axis < -rank || axis >= rank)
    return ir_infer_fail(ctx, "axis %lld is outside [%d, %d)", (long long)axis, -rank, rank);
  *result = (int32_t)(axis < 0 ? axis + rank : axis);
  return TD_OK;
}

/* ---- sets ---- */

const ir_op *ir_opset_find(const ir_opset *set, const char *name) {
  uint32_t low = 0, high = set->count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    int order = strcmp(set->ops[middle]->name, name);
    if (order == 0) return set->ops[middle];
    if (order < 0) low = middle + 1;
    else high = middle;
  }
  return NULL;
}

static int compare_names(const char *dialect, base_str name, const ir_alias *row) {
  int order = strcmp(dialect, row->dialect);
  if (order) return order;
  size_t n = strlen(row->name), shorter = n < name.length ? n : name.length;
  order = memcmp(name.at, row->name, shorter);
  return order ? order : (name.length > n) - (name.length < n);
}

static int compare_rows(const void *a, const void *b) {
  const ir_alias *x = ((const ir_alias_row *)a)->alias, *y = ((const ir_alias_row *)b)->alias;
  int order = compare_names(x->dialect, base_str_of(x->name), y);
  return order ? order : (x->since > y->since) - (x->since < y->since);
}

bool ir_opset_index(ir_opset *set, base_arena *arena) {
  uint32_t count = 0, n = 0;
  for (uint32_t i = 0; i < set->count; i++) count += set->ops[i]->alias_count;
  ir_alias_row *rows = base_new(arena, ir_alias_row, count ? count : 1);
  if (!rows) return false;
  for (uint32_t i = 0; i < set->count; i++)
    for (uint32_t k = 0; k < set->ops[i]->alias_count; k++)
      rows[n++] = (ir_alias_row){&set->ops[i]->aliases[k], set->ops[i]};
  qsort(rows, count, sizeof *rows, compare_rows);
  set->aliases = rows;
  set->alias_count = count;
  return true;
}

const ir_op *ir_opset_alias(const ir_opset *set, const char *dialect, base_str name, int64_t version,
                            const ir_alias **alias) {
  uint32_t low = 0, high = set->alias_count; /* first row above (dialect, name, version) */
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    const ir_alias *row = set->aliases[middle].alias;
    int order = compare_names(dialect, name, row);
    if (order > 0 || (order == 0 && row->since <= version)) low = middle + 1;
    else high = middle;
  }
  if (low == 0 || compare_names(dialect, name, set->aliases[low - 1].alias) != 0) return NULL;
  *alias = set->aliases[low - 1].alias;
  return set->aliases[low - 1].op;
}
