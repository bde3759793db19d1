#include "ops/common/move_priv.h"

#include <string.h>

void ops_move(const base_tensor *to, int64_t to_offset, const base_tensor *from, int64_t from_offset) {
  size_t bits = base_dtype(to->dtype)->bits;
  base_tensor source = *from, target = *to;
  source.rank = to->rank;
  for (int32_t i = 0; i < to->rank; i++) source.dims[i] = to->dims[i];
  if (bits >= 8) {
    if (base_tensor_numel(to) == 0) return;
    source.data = base_at(from, from_offset);
    target.data = base_at(to, to_offset);
    base_tensor_copy(&target, &source);
    return;
  }
  base_walk w;
  const int64_t *strides[] = {target.strides, source.strides};
  base_walk_start(&w, to->rank, to->dims, 2, strides);
  if (!w.count) return;
  do {
    double element = base_load_f64(from->dtype, from->data, from_offset + w.offset[1]);
    base_store_f64(to->dtype, to->data, to_offset + w.offset[0], element);
  } while (base_walk_next(&w));
}

void ops_move_into(const base_tensor *to, int32_t axis, int64_t start, const base_tensor *from) {
  base_tensor part = *to;
  part.dims[axis] = from->dims[axis];
  ops_move(&part, start * to->strides[axis], from, 0);
}

void ops_move_run(td_dtype dtype, void *to, int64_t to_at, const void *from, int64_t from_at, int64_t count) {
  size_t bits = base_dtype(dtype)->bits;
  if (bits >= 8) {
    size_t size = bits / 8;
    if (count)
      memcpy((char *)to + (size_t)to_at * size, (const char *)from + (size_t)from_at * size, (size_t)count * size);
    return;
  }
  for (int64_t i = 0; i < count; i++) base_store_f64(dtype, to, to_at + i, base_load_f64(dtype, from, from_at + i));
}

void ops_fill_with(const base_tensor *to, const void *from, int64_t at) {
  const size_t bits = base_dtype(to->dtype)->bits, bytes = base_tensor_bytes(to);
  const int64_t count = base_tensor_numel(to), single = bits >= 8 ? base_min_i64(count, 1) : count;
  for (int64_t i = 0; i < single; i++) ops_move_run(to->dtype, to->data, i, from, at, 1);
  for (size_t done = bits / 8, more; bits >= 8 && done < bytes; done += more) { /* what is there, again */
    more = done < bytes - done ? done : bytes - done;
    memcpy((char *)to->data + done, to->data, more);
  }
}

static td_status show_checked(const base_call *call, ops_show show, base_tensor *shown, int64_t *offset) {
  const base_tensor *out = base_out(call, 0);
  *shown = *base_in(call, 0);
  *offset = 0;
  TRY(show(call, shown, offset));
  bool same = shown->rank == out->rank;
  for (int32_t i = 0; same && i < out->rank; i++) same = shown->dims[i] == out->dims[i];
  char a[128], b[128];
  return same ? TD_OK
              : ops_fail(call, "the result is %s where %s was expected", base_tensor_describe(shown, a, sizeof a),
                         base_tensor_describe(out, b, sizeof b));
}

td_status ops_show_view(const base_call *call, ops_show show) {
  base_tensor *out = base_out(call, 0), shown;
  int64_t offset;
  TRY(show_checked(call, show, &shown, &offset));
  if (base_dtype(shown.dtype)->bits < 8) return ops_fail(call, "packed elements cannot be shown in another order");
  out->data = base_tensor_numel(&shown) ? base_at(&shown, offset) : shown.data;
  for (int32_t i = 0; i < out->rank; i++) out->strides[i] = shown.strides[i];
  return TD_OK;
}

td_status ops_show_reference(const base_call *call, ops_show show) {
  base_tensor shown;
  int64_t offset;
  TRY(show_checked(call, show, &shown, &offset));
  ops_move(base_out(call, 0), 0, &shown, offset);
  return TD_OK;
}

bool ops_type_strides(const ir_type *type, int64_t *strides) {
  for (int32_t i = 0; i < type->rank; i++)
    if (!base_dim_known(type->dims[i])) return false;
  base_strides(type->rank, type->dims, strides);
  return type->rank != IR_UNRANKED;
}

void ops_ints_shown(ir_infer *ctx, const int64_t *strides, int64_t offset) {
  const base_dim *from;
  uint32_t n;
  int64_t dense[BASE_MAX_RANK];
  if (!ctx->arena || !ctx->out_count || base_is_float(ctx->in[0]->type.dtype) || !ir_in_ints(ctx, 0, &from, &n)) return;
  if (!ops_type_strides(&ctx->out[0].type, dense)) return;
  base_dim count = ir_numel(ctx, &ctx->out[0].type);
  if (count == BASE_DIM_NONE || count > IR_MAX_INTS) return;
  base_dim *to = ir_out_ints(ctx, 0, (uint32_t)count);
  base_walk w;
  base_walk_start(&w, ctx->out[0].type.rank, ctx->out[0].type.dims, 1, &strides);
  if (!to || !w.count) return;
  do *to++ = from[offset + w.offset[0]];
  while (base_walk_next(&w));
}
