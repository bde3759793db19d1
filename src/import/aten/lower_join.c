/* lower_join.c -- tensors side by side, repeated, rolled, padded, and blocks moved between dimensions. */
#include "import/aten/aten_priv.h"

#include <string.h>

/* In the dtype that they meet in. */
static void meet(aten_args *c, ir_value *v, uint32_t count) {
  aten_mix m = {0};
  for (uint32_t i = 0; i < count; i++) aten_mix_tensor(c->a, &m, v[i]);
  const td_dtype d = aten_mix_result(&m);
  for (uint32_t i = 0; i < count; i++) v[i] = ir_build_cast(c->b, v[i], d);
}
static ir_value *listed(aten_args *c, uint32_t *count) {
  ir_value *v = aten_get_tensors(c, 0, count);
  if (!*count) aten_refuse(c, "a list without tensors");
  return v;
}
/* The tensors of a list in the dtype that they meet in. */
static ir_value *together(aten_args *c, uint32_t *count) {
  ir_value *v = listed(c, count);
  meet(c, v, *count);
  return v;
}

/* A list that only running knows is stacked by the operator for lists; data as in aten_lower_cat. */
static aten_value join_list(aten_args *c, int64_t dim, bool new_axis) {
  ir_value list = c->args[0].u.list->graph;
  return aten_ret(c,
                  IR_EMIT_ARGS(c->b, "td::stack_list", &list, 1, ARG_INT("dim", dim), ARG_INT("new_axis", new_axis)));
}

/* PyTorch lets empty tensors of one dimension stand among others. */
static uint32_t drop_empty(aten_args *c, ir_value *v, uint32_t count) {
  uint32_t kept = 0, whole = 0;
  for (uint32_t i = 0; i < count; i++) {
    const ir_type *type = ir_build_type(c->b, v[i]);
    whole += !(type->rank == 1 && type->dims[0] == 0);
  }
  if (!whole) return count;
  for (uint32_t i = 0; i < count; i++) {
    const ir_type *type = ir_build_type(c->b, v[i]);
    if (!(type->rank == 1 && type->dims[0] == 0)) v[kept++] = v[i];
  }
  return kept;
}

/* A tensor among others whose rank only running can tell is of their rank, and of their sizes but along `dim`; a run in
 * which it is not fails. */
static void rank_together(aten_args *c, ir_value *v, uint32_t count, int64_t dim) {
  ir_value like = IR_NO_VALUE, sizes[BASE_MAX_RANK];
  for (uint32_t i = 0; i < count && !like.id; i++)
    if (ir_build_type(c->b, v[i])->rank != IR_UNRANKED) like = v[i];
  const int32_t rank = like.id ? aten_rank(c->a, like) : 0;
  if (rank == 0 || ir_build_failed(c->b)) return;
  dim = ir_build_axis(c->b, dim, rank);
  for (uint32_t i = 0; i < count && !ir_build_failed(c->b); i++) {
    if (ir_build_type(c->b, v[i])->rank != IR_UNRANKED) continue;
    for (int32_t k = 0; k < rank; k++) {
      const aten_value size = aten_size(c->a, k == dim ? v[i] : like, k);
      sizes[k] = aten_vector(c->a, &size, 1);
    }
    v[i] = IR_EMIT(c->b, "aten::view", v[i], aten_cat(c->a, sizes, (uint32_t)rank, 0));
  }
}

aten_value aten_lower_cat(aten_args *c) {
  uint32_t count;
  int64_t dim = aten_get_int(c, 1);
  if (!aten_is_known(&c->args[0])) return join_list(c, dim, false);
  ir_value *v = together(c, &count);
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  count = drop_empty(c, v, count);
  rank_together(c, v, count, dim);
  return aten_ret(c, aten_cat(c->a, v, count, dim));
}

static aten_value stacked(aten_args *c, int64_t dim) {
  uint32_t count;
  if (!aten_is_known(&c->args[0])) return join_list(c, dim, true);
  ir_value *v = together(c, &count);
  for (uint32_t i = 0; i < count; i++) v[i] = aten_unsqueeze(c->a, v[i], dim);
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  return aten_ret(c, aten_cat(c->a, v, count, dim));
}
aten_value aten_lower_stack(aten_args *c) { return stacked(c, aten_get_int(c, 1)); }

/* hstack, vstack, dstack, column_stack: data 'h', 'v', 'd', 'c' */
aten_value aten_lower_hstack(aten_args *c) {
  uint32_t count;
  char how = c->row->data[0];
  ir_value *v = listed(c, &count);
  int32_t first = count ? aten_rank(c->a, v[0]) : 0;
  for (uint32_t i = 0; i < count; i++) {
    int32_t rank = aten_rank(c->a, v[i]);
    if (rank == 0) v[i] = aten_reshape(c->a, v[i], (int64_t[]){1}, 1);
    if (how == 'c' && rank < 2) v[i] = aten_unsqueeze(c->a, v[i], 1);
    if ((how == 'v' || how == 'd') && rank < 2) v[i] = aten_unsqueeze(c->a, v[i], 0);
    if (how == 'd' && rank < 3) v[i] = aten_unsqueeze(c->a, v[i], 2);
  }
  meet(c, v, count); /* a number that has got axes weighs as much as the others */
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  return aten_ret(c, aten_cat(c->a, v, count, how == 'v' ? 0 : how == 'd' ? 2 : how == 'h' && first < 2 ? 0 : 1));
}

/* ---- copies ---- */

/* repeat: more counts than dimensions add dimensions in front; tile (data): fewer counts are 1 in front */
aten_value aten_lower_repeat(aten_args *c) {
  ir_value x = aten_in(c, 0), counts = aten_ints_value(c, 1);
  int32_t rank = aten_rank(c->a, x), given = (int32_t)aten_list_count(c, 1);
  if (c->row->data && given < rank) {
    int64_t ones[BASE_MAX_RANK];
    for (int32_t i = 0; i < rank - given; i++) ones[i] = 1;
    ir_value front = ir_build_ints(c->b, ones, (uint32_t)(rank - given));
    counts = given ? aten_cat(c->a, (ir_value[]){front, counts}, 2, 0) : front;
  }
  return aten_ret(c, IR_EMIT(c->b, "aten::repeat", x, counts));
}

/* 0 so often as the first of `counts` says, 1 as the second: how many running sums lie at or below each position */
static ir_value repeated(aten_args *c, ir_value counts) {
  ir_value ends = IR_EMIT(c->b, "aten::cumsum", counts, ir_build_int(c->b, 0));
  ir_value total = IR_EMIT_ARGS(c->b, "aten::sum", &counts, 1, ARG_BOOL("keepdim", false));
  ir_value at = IR_EMIT(c->b, "aten::arange", ir_build_int(c->b, 0), total, ir_build_int(c->b, 1));
  ir_value passed = aten_binary(c->a, "aten::ge", aten_unsqueeze(c->a, at, 1), aten_unsqueeze(c->a, ends, 0));
  passed = ir_build_cast(c->b, passed, TD_I64);
  return IR_EMIT_ARGS(c->b, "aten::sum", &passed, 1, ARG_INTS("dim", (int64_t[]){1}, 1), ARG_BOOL("keepdim", false));
}
aten_value aten_lower_repeated_positions(aten_args *c) {
  ir_value counts = aten_in(c, 0);
  return aten_ret(
      c, ir_build_cast(c->b, repeated(c, ir_build_cast(c->b, counts, TD_I64)), aten_value_dtype(c->a, counts)));
}
/* (self, repeats, dim?): each element so often */
aten_value aten_lower_repeat_interleave(aten_args *c) {
  ir_value x = aten_in(c, 0);
  bool flat = !aten_has(c, 2);
  if (flat) x = aten_reshape(c->a, x, (int64_t[]){-1}, 1);
  int64_t dim = flat ? 0 : ir_build_axis(c->b, aten_get_int(c, 2), aten_rank(c->a, x));
  aten_value size = aten_size(c->a, x, dim), zero = aten_int(0), one = aten_int(1);
  if (c->args[1].kind != ATEN_TENSOR) { /* positions 0 0 1 1 ...: i / repeats */
    aten_value total = aten_int_op(c->a, "mul", size, c->args[1]);
    ir_value at = IR_EMIT(c->b, "aten::arange", aten_number_value(c->a, &zero, TD_I64),
                          aten_number_value(c->a, &total, TD_I64), aten_number_value(c->a, &one, TD_I64));
    ir_value in[] = {at, aten_int_value(c, 1)};
    at = IR_EMIT_ARGS(c->b, "aten::div", in, 2, ARG_STR("rounding_mode", "floor"));
    return aten_ret(c, IR_EMIT_ARGS(c->b, "aten::index_select", ((ir_value[]){x, at}), 2, ARG_INT("dim", dim)));
  }
  ir_value counts = ir_build_cast(c->b, aten_in(c, 1), TD_I64);
  if (aten_rank(c->a, counts) == 0) counts = aten_reshape(c->a, counts, (int64_t[]){1}, 1);
  counts = aten_expand(c->a, counts, aten_vector(c->a, &size, 1));
  ir_value from = repeated(c, counts);
  return aten_ret(c, IR_EMIT_ARGS(c->b, "aten::index_select", ((ir_value[]){x, from}), 2, ARG_INT("dim", dim)));
}

/* ---- moved ---- */

static ir_value flip(aten_args *c, ir_value x, const int64_t *dims, uint32_t count) {
  return count ? IR_EMIT_ARGS(c->b, "aten::flip", &x, 1, ARG_INTS("dims", dims, count)) : x;
}
/* (self, dims); data: the axis of fliplr, flipud */
aten_value aten_lower_flip(aten_args *c) {
  uint32_t count = 1;
  int64_t one = c->row->data ? c->row->data[0] - '0' : 0;
  const int64_t *dims = c->row->data ? &one : aten_get_ints(c, 1, &count);
  ir_value x = aten_in(c, 0);
  return aten_ret(c, aten_rank(c->a, x) ? flip(c, x, dims, count) : x);
}
/* (self, k, dims) */
aten_value aten_lower_rot90(aten_args *c) {
  uint32_t count;
  ir_value x = aten_in(c, 0);
  const int64_t *dims = aten_get_ints(c, 2, &count);
  int64_t quarters = ((aten_get_int(c, 1) % 4) + 4) % 4;
  if (count != 2) aten_refuse(c, "%u axes", count);
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  if (quarters == 2) x = flip(c, x, dims, 2);
  if (quarters == 1) x = aten_swap(c->a, flip(c, x, &dims[1], 1), dims[0], dims[1]);
  if (quarters == 3) x = aten_swap(c->a, flip(c, x, &dims[0], 1), dims[0], dims[1]);
  return aten_ret(c, x);
}

/* x with its last `by` elements along dim put in front; by may be open. */
static ir_value rolled(aten_args *c, ir_value x, int64_t dim, const aten_value *by) {
  aten_value size = aten_size(c->a, x, dim);
  if (aten_is_known(&size) && aten_is_known(by)) {
    int64_t n = size.u.i, shift = n > 0 ? by->u.i % n : 0;
    if (!shift) return x;
    if (shift < 0) shift += n;
    ir_value parts[] = {aten_slice(c->a, x, dim, n - shift, INT64_MAX, 1), aten_slice(c->a, x, dim, 0, n - shift, 1)};
    return aten_cat(c->a, parts, 2, dim);
  }
  aten_value cut = aten_int_op(c->a, "sub", size, aten_int_op(c->a, "remainder", *by, size));
  ir_value at = aten_vector(c->a, &cut, 1), zero = ir_build_ints(c->b, (int64_t[]){0}, 1);
  ir_value end = ir_build_ints(c->b, (int64_t[]){INT64_MAX}, 1), axis = ir_build_ints(c->b, &dim, 1);
  ir_value parts[] = {IR_EMIT(c->b, "aten::slice", x, at, end, axis), IR_EMIT(c->b, "aten::slice", x, zero, at, axis)};
  return aten_cat(c->a, parts, 2, dim);
}
/* (self, shifts, dims) */
aten_value aten_lower_roll(aten_args *c) {
  ir_value x = aten_in(c, 0);
  uint32_t count, shifts = aten_list_count(c, 1);
  const int64_t *dims = aten_get_ints(c, 2, &count);
  if (!count) {
    ir_value flat = aten_reshape(c->a, x, (int64_t[]){-1}, 1);
    flat = shifts ? rolled(c, flat, 0, &aten_items(c, 1)[0]) : flat;
    return aten_ret(c, IR_EMIT(c->b, "aten::view", flat, aten_shape(c->a, x)));
  }
  if (shifts != count) aten_refuse(c, "%u shifts for %u axes", shifts, count);
  for (uint32_t i = 0; i < count && !ir_build_failed(c->b); i++)
    x = rolled(c, x, ir_build_axis(c->b, dims[i], aten_rank(c->a, x)), &aten_items(c, 1)[i]);
  return aten_ret(c, x);
}

/* fft_fftshift, fft_ifftshift (data "i"): axes (none: all) rolled by half their lengths, so that 0 is in the middle */
aten_value aten_lower_fft_shift(aten_args *c) {
  ir_value x = aten_in(c, 0);
  uint32_t count;
  const int64_t *dims = aten_get_ints(c, 1, &count);
  const int32_t rank = aten_rank(c->a, x);
  if (!aten_has(c, 1)) count = (uint32_t)rank;
  for (uint32_t i = 0; i < count && !ir_build_failed(c->b); i++) {
    const int64_t axis = dims ? ir_build_axis(c->b, dims[i], rank) : i;
    aten_value size = aten_size(c->a, x, axis);
    if (c->row->data) size = aten_int_op(c->a, "add", size, aten_int(1));
    const aten_value shift = aten_int_op(c->a, "floor_divide", size, aten_int(2));
    x = rolled(c, x, axis, &shift);
  }
  return aten_ret(c, x);
}

/* ---- padding ---- */

/* Pads as PyTorch lists them (last axis first, front and back of each) as ours: all fronts, then all backs, and axes.
 */
static aten_value padded(aten_args *c, const char *op, ir_value x, const aten_value *pads, uint32_t count,
                         ir_value value) {
  uint32_t axes = count / 2;
  int32_t rank = aten_rank(c->a, x);
  aten_value ordered[2 * BASE_MAX_RANK];
  int64_t axis[BASE_MAX_RANK];
  if (count % 2 || axes > (uint32_t)rank || axes > BASE_MAX_RANK) {
    aten_refuse(c, "%u pads for a tensor of rank %d", count, rank);
    return ATEN_NOTHING;
  }
  if (!axes) return aten_ret(c, x);
  for (uint32_t i = 0; i < axes; i++) {
    axis[i] = rank - 1 - (int32_t)i;
    ordered[i] = pads[2 * i];
    ordered[axes + i] = pads[2 * i + 1];
  }
  ir_value at = aten_vector(c->a, ordered, count), on = ir_build_ints(c->b, axis, axes);
  if (value.id) return aten_ret(c, IR_EMIT(c->b, op, x, at, value, on));
  return aten_ret(c, IR_EMIT(c->b, op, x, at, on));
}
/* (self, pad, value) */
aten_value aten_lower_constant_pad(aten_args *c) {
  ir_value x = aten_in(c, 0);
  ir_value value = aten_get_number(c, 2, aten_value_dtype(c->a, x));
  return padded(c, "aten::constant_pad_nd", x, aten_items(c, 1), aten_list_count(c, 1), value);
}
/* reflection_padNd, replication_padNd: (self, padding); data: the operator */
aten_value aten_lower_mirror_pad(aten_args *c) {
  return padded(c, c->row->data, aten_in(c, 0), aten_items(c, 1), aten_list_count(c, 1), IR_NO_VALUE);
}
/* (self, pad, mode, value?) */
aten_value aten_lower_pad(aten_args *c) {
  static const char *const modes[][2] = {
      {"reflect", "aten::reflection_pad"}, {"replicate", "aten::replication_pad"}, {"circular", "aten::circular_pad"}};
  const char *mode = aten_get_str(c, 2);
  ir_value x = aten_in(c, 0);
  if (strcmp(mode, "constant") == 0) {
    aten_value zero = aten_int(0);
    ir_value value = aten_number_value(c->a, aten_has(c, 3) ? &c->args[3] : &zero, aten_value_dtype(c->a, x));
    return padded(c, "aten::constant_pad_nd", x, aten_items(c, 1), aten_list_count(c, 1), value);
  }
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
    if (strcmp(mode, modes[i][0]) == 0)
      return padded(c, modes[i][1], x, aten_items(c, 1), aten_list_count(c, 1), IR_NO_VALUE);
  aten_refuse(c, "padding mode \"%s\"", mode);
  return ATEN_NOTHING;
}

/* ---- blocks ---- */

/* Leading axes [.., C, H, W] are folded to one around `op` on rank 4. */
static ir_value on_images(aten_args *c, ir_value x, const char *op, const base_arg *args, uint32_t count) {
  int32_t rank = aten_rank(c->a, x);
  if (rank == 4) return ir_emit(c->b, op, &x, 1, args, count);
  ir_value shape = aten_shape(c->a, x), lead = aten_slice(c->a, shape, 0, 0, rank - 3, 1);
  ir_value tail = aten_slice(c->a, shape, 0, rank - 3, INT64_MAX, 1), one = ir_build_ints(c->b, (int64_t[]){-1}, 1);
  ir_value y =
      ir_emit(c->b, op, (ir_value[]){IR_EMIT(c->b, "aten::view", x, aten_cat(c->a, (ir_value[]){one, tail}, 2, 0))}, 1,
              args, count);
  ir_value to = aten_slice(c->a, aten_shape(c->a, y), 0, 1, INT64_MAX, 1);
  return IR_EMIT(c->b, "aten::view", y, aten_cat(c->a, (ir_value[]){lead, to}, 2, 0));
}
/* data: td::depth_to_space, or the reverse, which leaves the sizes as they are where there are no elements */
aten_value aten_lower_pixel_shuffle(aten_args *c) {
  const bool apart = strcmp(c->row->data, "td::space_to_depth") == 0;
  if (apart && aten_is_empty(c->a, aten_in(c, 0))) return aten_ret(c, aten_in(c, 0));
  base_arg args[] = {ARG_INT("blocksize", aten_get_int(c, 1)), ARG_STR("mode", "CRD")};
  return aten_ret(c, on_images(c, aten_in(c, 0), c->row->data, args, 2));
}
/* (self, groups) */
aten_value aten_lower_channel_shuffle(aten_args *c) {
  ir_value x = aten_in(c, 0), shape = aten_shape(c->a, x);
  int64_t groups = aten_get_int(c, 1);
  int64_t order[BASE_MAX_RANK];
  int32_t rank = aten_rank(c->a, x);
  if (rank < 2 || rank >= BASE_MAX_RANK) aten_refuse(c, "a tensor of rank %d", rank);
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  ir_value parts[] = {aten_slice(c->a, shape, 0, 0, 1, 1), ir_build_ints(c->b, (int64_t[]){groups, -1}, 2),
                      aten_slice(c->a, shape, 0, 2, INT64_MAX, 1)};
  ir_value split = IR_EMIT(c->b, "aten::view", x, aten_cat(c->a, parts, rank > 2 ? 3 : 2, 0));
  for (int32_t i = 0; i <= rank; i++) order[i] = i == 1 ? 2 : i == 2 ? 1 : i;
  return aten_ret(c, IR_EMIT(c->b, "aten::view", aten_permute(c->a, split, order, (uint32_t)rank + 1), shape));
}

/* data: tril or triu; (self, diagonal) */
aten_value aten_lower_triangle(aten_args *c) {
  return aten_ret(c, IR_EMIT(c->b, c->row->data, aten_in(c, 0), aten_int_value(c, 1)));
}

/* slice_scatter, select_scatter, diagonal_scatter and other writes into a copy: a clone, its view, a write. */
static aten_value scatter_into(aten_args *c, const char *view, const aten_value *args, uint32_t count) {
  aten_value copy = aten_fresh(c->a, aten_read(c->a, &c->args[0]), ATEN_DENSE), in[6];
  in[0] = copy;
  for (uint32_t i = 0; i < count && i < 5; i++) in[i + 1] = args[i];
  aten_value part = aten_call(c->a, view, NULL, in, count + 1, NULL, 0);
  aten_write(c->a, &part, aten_in(c, 1));
  return copy;
}
aten_value aten_lower_slice_scatter(aten_args *c) { return scatter_into(c, "aten::slice", &c->args[2], 4); }
aten_value aten_lower_select_scatter(aten_args *c) { return scatter_into(c, "aten::select", &c->args[2], 2); }
aten_value aten_lower_diagonal_scatter(aten_args *c) { return scatter_into(c, "aten::diagonal", &c->args[2], 3); }
