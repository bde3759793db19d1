/* vmap.c -- regions of torch.vmap, which exported programs keep: a tensor may hide axes, one for each level that it
 * varies with, in front of those that the program sees. Operators that work element by element, and look-ups by index,
 * take all of the hidden axes at once; any other is called once for each element of the outermost one. */
#include "import/aten/aten_priv.h"

#include <string.h>

enum { MAX_LEVELS = 8, MAX_CALLS = 1024 };

typedef struct levels {
  uint32_t count;
  int64_t at[MAX_LEVELS]; /* rising */
} levels;

struct aten_batch {
  levels levels;
  aten_value physical; /* with an axis for each level in front */
};

static uint32_t position(const levels *l, int64_t level) {
  uint32_t i = 0;
  while (i < l->count && l->at[i] != level) i++;
  return i;
}

static void add_level(aten_args *c, levels *l, int64_t level) {
  uint32_t i = l->count;
  if (position(l, level) < l->count) return;
  if (l->count == MAX_LEVELS) {
    aten_refuse(c, "more than %d levels of vmap", MAX_LEVELS);
    return;
  }
  for (; i > 0 && l->at[i - 1] > level; i--) l->at[i] = l->at[i - 1];
  l->at[i] = level;
  l->count++;
}

static const aten_batch *batch_of(const aten_value *v) { return v->kind == ATEN_TENSOR ? v->u.tensor->batch : NULL; }
static const aten_value *physical_of(const aten_value *v) { return batch_of(v) ? &batch_of(v)->physical : v; }
static levels levels_of(const aten_value *v) { return batch_of(v) ? batch_of(v)->levels : (levels){0}; }

/* The tensor that hides the axes of `l` of `physical`. */
static aten_value hide(aten_args *c, aten_value physical, const levels *l) {
  aten_batch *batch = aten_alloc(c->a, sizeof *batch);
  if (!l->count || !batch || physical.kind != ATEN_TENSOR) return physical;
  *batch = (aten_batch){*l, physical};
  aten_value v = aten_handle(c->a, physical.u.tensor);
  if (v.kind == ATEN_TENSOR) v.u.tensor->batch = batch;
  return v;
}

static bool is_list(const aten_value *v) { return v->kind == ATEN_LIST && aten_is_known(v); }

bool aten_is_batched(const aten_value *v) {
  if (batch_of(v)) return true;
  for (uint32_t i = 0; is_list(v) && i < v->u.list->items.count; i++)
    if (aten_is_batched(&v->u.list->items.at[i])) return true;
  return false;
}

static void gather_levels(aten_args *c, const aten_value *v, levels *l) {
  const levels own = levels_of(v);
  for (uint32_t i = 0; i < own.count; i++) add_level(c, l, own.at[i]);
  for (uint32_t i = 0; is_list(v) && i < v->u.list->items.count; i++) gather_levels(c, &v->u.list->items.at[i], l);
}

/* ---- all at once ---- */

static int32_t seen_rank(aten_args *c, const aten_value *v) {
  return aten_rank(c->a, aten_read(c->a, physical_of(v))) - (int32_t)levels_of(v).count;
}

static void most_rank(aten_args *c, const aten_value *v, int32_t *rank) {
  if (v->kind == ATEN_TENSOR) *rank = seen_rank(c, v) > *rank ? seen_rank(c, v) : *rank;
  for (uint32_t i = 0; is_list(v) && i < v->u.list->items.count; i++) most_rank(c, &v->u.list->items.at[i], rank);
}

/* With an axis, maybe of 1, for each level of `l` in front, and `rank` axes that the program sees. */
static aten_value aligned(aten_args *c, const aten_value *v, const levels *l, int32_t rank) {
  if (is_list(v)) {
    aten_value list = aten_list_of(c->a, NULL, 0);
    for (uint32_t i = 0; i < v->u.list->items.count && !ir_build_failed(c->b); i++)
      aten_list_append(c->a, list.u.list, aligned(c, &v->u.list->items.at[i], l, rank));
    return list;
  }
  if (v->kind != ATEN_TENSOR || v->u.tensor->number) return *v;
  const levels own = levels_of(v);
  ir_value x = aten_read(c->a, physical_of(v));
  for (uint32_t i = 0; i < l->count; i++)
    if (position(&own, l->at[i]) == own.count) x = aten_unsqueeze(c->a, x, i);
  for (int32_t i = seen_rank(c, v); i < rank; i++) x = aten_unsqueeze(c->a, x, l->count);
  return aten_fresh(c->a, x, ATEN_UNSURE);
}

static bool is_pointwise(const aten_args *c) {
  static const aten_lower_fn rows[] = {
      aten_lower_unary,       aten_lower_unary_float, aten_lower_sign,        aten_lower_rounding, aten_lower_binary,
      aten_lower_add,         aten_lower_mul,         aten_lower_div,         aten_lower_compare,  aten_lower_logical,
      aten_lower_bitwise,     aten_lower_pow,         aten_lower_logical_not, aten_lower_where,    aten_lower_clamp,
      aten_lower_bitwise_not, aten_lower_masked_fill, aten_lower_binary_float};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (c->row->lower == rows[i]) return true;
  return false;
}

/* Promotion asks what has axes: with tensors of several types that differ in that, hidden axes would count. */
static bool promotes_alike(aten_args *c) {
  aten_mix seen = {0}, all = {0};
  for (uint32_t i = 0; i < c->schema->count; i++) {
    const aten_value *v = &c->args[i];
    if (v->kind != ATEN_TENSOR) continue;
    if (v->u.tensor->number || aten_is_complex(v)) return false;
    const td_dtype d = aten_value_dtype(c->a, aten_read(c->a, physical_of(v)));
    td_dtype *slot = seen_rank(c, v) ? &seen.dims : &seen.zero;
    *slot = aten_promote_types(*slot, d);
    all.dims = aten_promote_types(all.dims, d);
  }
  return aten_mix_result(&seen) == aten_mix_result(&all);
}

/* index(self, indices), where the indices alone are batched and look along the first axes. */
static bool is_look_up(const aten_args *c) {
  if (c->row->lower != aten_lower_index || aten_is_batched(&c->args[0]) || !is_list(&c->args[1])) return false;
  const aten_list *list = c->args[1].u.list;
  for (uint32_t i = 0; i < list->items.count; i++)
    if (list->items.at[i].kind != ATEN_TENSOR) return false;
  return true;
}

static aten_value call_aligned(aten_args *c, uint32_t first, const levels *l) {
  aten_value args[ATEN_MAX_PARAMS];
  aten_args all = *c;
  int32_t rank = 0;
  for (uint32_t i = first; i < c->schema->count; i++) most_rank(c, &c->args[i], &rank);
  for (uint32_t i = 0; i < c->schema->count && !ir_build_failed(c->b); i++)
    args[i] = i < first ? c->args[i] : aligned(c, &c->args[i], l, rank);
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  all.args = args;
  all.all_dense = false;
  return hide(c, c->row->lower(&all), l);
}

/* ---- one by one ---- */

/* Element `at` of the level, where `v` varies with it. */
static aten_value element(aten_args *c, const aten_value *v, int64_t level, int64_t at) {
  if (is_list(v)) {
    aten_value list = aten_list_of(c->a, NULL, 0);
    for (uint32_t i = 0; i < v->u.list->items.count && !ir_build_failed(c->b); i++)
      aten_list_append(c->a, list.u.list, element(c, &v->u.list->items.at[i], level, at));
    return list;
  }
  levels own = levels_of(v);
  const uint32_t axis = position(&own, level);
  if (axis == own.count) return *v;
  ir_value x = aten_select(c->a, aten_read(c->a, physical_of(v)), axis, at);
  own.count--;
  memmove(own.at + axis, own.at + axis + 1, (own.count - axis) * sizeof *own.at);
  return hide(c, aten_fresh(c->a, x, ATEN_UNSURE), &own);
}

static int64_t level_size(aten_args *c, const aten_value *v, int64_t level) {
  const levels own = levels_of(v);
  const uint32_t axis = position(&own, level);
  for (uint32_t i = 0; is_list(v) && i < v->u.list->items.count; i++) {
    const int64_t size = level_size(c, &v->u.list->items.at[i], level);
    if (size >= 0) return size;
  }
  if (axis == own.count) return -1;
  const aten_value size = aten_size(c->a, aten_read(c->a, physical_of(v)), axis);
  return aten_is_known(&size) ? size.u.i : INT64_MAX;
}

/* Results of all elements, along a hidden axis of `level`. */
static aten_value joined(aten_args *c, const aten_value *results, uint32_t count, int64_t level) {
  if (results[0].kind == ATEN_TUPLE || is_list(&results[0])) {
    aten_value all = aten_list_of(c->a, NULL, 0), *parts = aten_alloc(c->a, count * sizeof *parts);
    for (uint32_t k = 0; parts && k < results[0].u.list->items.count && !ir_build_failed(c->b); k++) {
      for (uint32_t i = 0; i < count; i++) parts[i] = results[i].u.list->items.at[k];
      aten_list_append(c->a, all.u.list, joined(c, parts, count, level));
    }
    return results[0].kind == ATEN_TUPLE ? aten_tuple_of(c->a, all.u.list->items.at, all.u.list->items.count) : all;
  }
  if (results[0].kind != ATEN_TENSOR) {
    for (uint32_t i = 0; i < count; i++)
      if (!aten_is_known(&results[i]) || !aten_same(&results[0], &results[i]))
        aten_refuse(c, "a number that differs along an axis of vmap");
    return results[0];
  }
  levels l = levels_of(&results[0]);
  ir_value *parts = aten_alloc(c->a, count * sizeof *parts);
  for (uint32_t i = 0; parts && i < count; i++)
    parts[i] = aten_unsqueeze(c->a, aten_read(c->a, physical_of(&results[i])), 0);
  if (!parts || ir_build_failed(c->b)) return ATEN_NOTHING;
  add_level(c, &l, level); /* the outermost of those there are: it comes first */
  return hide(c, aten_fresh(c->a, aten_cat(c->a, parts, count, 0), ATEN_UNSURE), &l);
}

static aten_value call_one_by_one(aten_args *c, int64_t level) {
  int64_t size = -1;
  for (uint32_t i = 0; i < c->schema->count && size < 0; i++) size = level_size(c, &c->args[i], level);
  if (size < 1 || size > MAX_CALLS)
    aten_refuse(c, "in a region of vmap over more than %d elements, or none", MAX_CALLS);
  aten_value *results = ir_build_failed(c->b) ? NULL : aten_alloc(c->a, (size_t)size * sizeof *results);
  for (int64_t at = 0; results && at < size && !ir_build_failed(c->b); at++) {
    aten_value args[ATEN_MAX_PARAMS];
    aten_args one = *c;
    for (uint32_t i = 0; i < c->schema->count; i++) args[i] = element(c, &c->args[i], level, at);
    one.args = args;
    if (!ir_build_failed(c->b)) results[at] = aten_lower_call(&one);
  }
  return !results || ir_build_failed(c->b) ? ATEN_NOTHING : joined(c, results, (uint32_t)size, level);
}

aten_value aten_batched_call(aten_args *c) {
  levels l = {0};
  for (uint32_t i = 0; i < c->schema->count; i++) gather_levels(c, &c->args[i], &l);
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  if (is_pointwise(c) && promotes_alike(c)) return call_aligned(c, 0, &l);
  return is_look_up(c) ? call_aligned(c, 1, &l) : call_one_by_one(c, l.at[0]);
}

/* ---- the ends of a region ---- */

/* _add_batch_dim(self, batch_dim, level) */
aten_value aten_lower_add_batch_dim(aten_args *c) {
  levels l = levels_of(&c->args[0]);
  ir_value x = aten_read(c->a, physical_of(&c->args[0]));
  int64_t order[BASE_MAX_RANK], level = aten_get_int(c, 2), dim = aten_get_int(c, 1), n = 0;
  const int32_t rank = aten_rank(c->a, x);
  if (position(&l, level) < l.count) aten_refuse(c, "a level of vmap that is there already");
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  dim = (int64_t)l.count + ir_build_axis(c->b, dim, rank - (int32_t)l.count);
  add_level(c, &l, level);
  const int64_t to = position(&l, level);
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  for (int64_t i = 0; i < rank; i++) {
    if (i == to) order[n++] = dim;
    if (i != dim) order[n++] = i;
  }
  if (n < rank) order[n] = dim; /* the last one stays where it is */
  return hide(c, aten_fresh(c->a, aten_permute(c->a, x, order, (uint32_t)rank), ATEN_UNSURE), &l);
}

/* _remove_batch_dim(self, level, batch_size, out_dim) */
aten_value aten_lower_remove_batch_dim(aten_args *c) {
  levels l = levels_of(&c->args[0]);
  ir_value x = aten_read(c->a, physical_of(&c->args[0]));
  const uint32_t from = position(&l, aten_get_int(c, 1));
  const bool varies = from < l.count;
  if (!varies) x = aten_unsqueeze(c->a, x, l.count); /* the same for all */
  const int32_t rank = aten_rank(c->a, x), hidden = (int32_t)l.count - varies;
  int64_t order[BASE_MAX_RANK], n = 0, axis = varies ? from : l.count, to = aten_get_int(c, 3);
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  to = hidden + ir_build_axis(c->b, to, rank - hidden);
  for (int64_t i = 0; i < rank && !ir_build_failed(c->b); i++)
    if (i != axis) order[n++] = i;
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  memmove(order + to + 1, order + to, (size_t)(rank - 1 - to) * sizeof *order);
  order[to] = axis;
  x = aten_permute(c->a, x, order, (uint32_t)rank);
  if (varies) memmove(l.at + from, l.at + from + 1, (--l.count - from) * sizeof *l.at);
  else {
    aten_value sizes[BASE_MAX_RANK];
    for (int32_t i = 0; i < rank; i++) sizes[i] = i == to ? c->args[2] : aten_size(c->a, x, i);
    x = aten_expand(c->a, x, aten_vector(c->a, sizes, (uint32_t)rank));
  }
  return hide(c, aten_fresh(c->a, x, ATEN_UNSURE), &l);
}
