/* build_control.c -- If and Loop, whose types follow from what their bodies do: a body is built into a block of its own
 * before the region that owns it exists.
 *
 * Types of carried values are a fixed point: the body is built for the types of the initial values; where a result is
 * of another type, what differs is opened (an open size, then an open rank) and the body is built again. Opening only
 * ever goes one way, so it ends; values that move from one place to the next would take as many rounds as there are
 * places, so that after a few all shapes are opened at once. */
#include "ir/build.h"

#include <string.h>

/* ---- types ---- */

static ir_type fail_types(ir_build *b, const ir_type *x, const ir_type *y) {
  ir_build_fail(b, TD_BAD_FILE, "a value is %s in one place and %s in another", ir_type_name(x), ir_type_name(y));
  return *x;
}

/* The element type of both, or TD_INVALID when they differ; TD_INVALID gives way. */
static td_dtype common_dtype(ir_build *b, const ir_type *x, const ir_type *y) {
  if (x->dtype == y->dtype || y->dtype == TD_INVALID) return x->dtype;
  if (x->dtype != TD_INVALID) fail_types(b, x, y);
  return y->dtype;
}

/* What an empty optional or list would hold when nothing says so. */
static bool is_unknown(const ir_type *t) {
  return t->kind == IR_TENSOR && t->dtype == TD_INVALID && t->rank == IR_UNRANKED;
}

static bool has_elem(const ir_type *t, ir_kind kind) { return t->kind == kind && t->elem; }

static bool is_holder(const ir_type *t) { return t->kind != IR_TENSOR && t->kind != IR_NONE && ir_type_elems(t) > 0; }

static ir_type join_types(ir_build *b, const ir_type *x, const ir_type *y, bool in_list);

/* Element by element. Those of a list may all differ; those of a tuple keep their sizes, unless it is in a list. */
static ir_type join_elems(ir_build *b, const ir_type *x, const ir_type *y, bool in_list) {
  uint32_t count = ir_type_elems(x);
  if (count != ir_type_elems(y) || (x->name && y->name && strcmp(x->name, y->name) != 0)) return fail_types(b, x, y);
  ir_type joined = *x, *elems = ir_build_alloc(b, count * sizeof *elems);
  bool differ = in_list || x->kind == IR_LIST || x->kind == IR_DICT || x->kind == IR_OPTIONAL;
  for (uint32_t i = 0; elems && i < count; i++) elems[i] = join_types(b, &x->elem[i], &y->elem[i], differ);
  if (elems) joined.elem = elems;
  return joined;
}

/* An optional and what it may hold, which may be nothing. */
static ir_type join_optional(ir_build *b, const ir_type *optional, const ir_type *y) {
  if (y->kind == IR_NONE) return *optional;
  ir_type *elem = ir_build_alloc(b, sizeof *elem);
  if (!elem) return *optional;
  *elem = join_types(b, optional->elem, y, true);
  return (ir_type){.kind = IR_OPTIONAL, .elem = elem};
}

static ir_type optional_of(ir_build *b, const ir_type *x) {
  ir_type *elem = ir_build_alloc(b, sizeof *elem);
  if (!elem) return *x;
  *elem = *x;
  return (ir_type){.kind = IR_OPTIONAL, .elem = elem};
}

static ir_type join_holders(ir_build *b, const ir_type *x, const ir_type *y, bool in_list) {
  if (x->kind == y->kind && is_holder(x) && is_holder(y)) return join_elems(b, x, y, in_list);
  if (has_elem(x, IR_OPTIONAL)) return join_optional(b, x, y);
  if (has_elem(y, IR_OPTIONAL)) return join_optional(b, y, x);
  if (x->kind == y->kind) return is_holder(x) ? *x : *y; /* an empty list: nothing says of what */
  return fail_types(b, x, y);
}

/* Of ranks that differ. */
static ir_type join_ranks(const ir_type *x, const ir_type *y, td_dtype dtype) {
  ir_type type = ir_unranked(dtype);
  type.likely_rank = ir_likely_rank(x, y);
  return type;
}

static ir_type join_types(ir_build *b, const ir_type *x, const ir_type *y, bool in_list) {
  if (ir_build_failed(b) || ir_type_equal(x, y) || is_unknown(y)) return *x;
  if (is_unknown(x)) return *y;
  if (x->kind == IR_NONE && y->kind != IR_OPTIONAL) return optional_of(b, y);
  if (y->kind == IR_NONE && x->kind != IR_OPTIONAL) return optional_of(b, x);
  if (x->kind != IR_TENSOR || y->kind != IR_TENSOR) return join_holders(b, x, y, in_list);
  td_dtype dtype = common_dtype(b, x, y);
  if (x->rank != y->rank || x->rank == IR_UNRANKED || in_list) return join_ranks(x, y, dtype);
  ir_type type = *x;
  type.dtype = dtype;
  for (int32_t i = 0; i < x->rank; i++)
    if (x->dims[i] != y->dims[i]) type.dims[i] = base_dim_fresh(&b->graph->dims);
  return type;
}

ir_type ir_build_join(ir_build *b, const ir_type *x, const ir_type *y) { return join_types(b, x, y, false); }

/* ---- If ---- */

static void build_branch(ir_build *b, ir_branch_fn branch, void *user, uint32_t which, uint32_t count, ir_block *block,
                         ir_value *results) {
  ir_block outer = b->block;
  *block = ir_build_block(b);
  if (ir_build_failed(b)) return;
  b->block = *block;
  branch(b, user, which, results);
  b->block = outer;
  for (uint32_t i = 0; i < count; i++) ir_build_result(b, *block, results[i]);
}

void ir_build_if(ir_build *b, ir_value cond, ir_branch_fn branch, void *user, uint32_t count, ir_value *outs) {
  int64_t known;
  ir_block blocks[2];
  memset(outs, 0, count * sizeof *outs);
  if (ir_build_known_int(b, cond, &known)) {
    branch(b, user, known == 0, outs);
    return;
  }
  cond = ir_build_to_scalar(b, cond, TD_BOOL, "condition");
  ir_value *results[2] = {ir_build_alloc(b, count * sizeof **results), ir_build_alloc(b, count * sizeof **results)};
  ir_type *types = ir_build_alloc(b, count * sizeof *types);
  for (uint32_t i = 0; i < 2 && !ir_build_failed(b); i++)
    build_branch(b, branch, user, i, count, &blocks[i], results[i]);
  if (ir_build_failed(b)) return;
  for (uint32_t i = 0; i < count; i++) {
    const ir_type then = *ir_build_type(b, results[0][i]), other = *ir_build_type(b, results[1][i]);
    types[i] = ir_build_join(b, &then, &other);
  }
  ir_build_region(b, "prim::If", (ir_new_node){.in = &cond, .in_count = 1, .out_types = types, .out_count = count},
                  blocks, 2, outs);
}

/* ---- Loop ---- */

enum { PRECISE_ROUNDS = 4, MAX_ROUNDS = PRECISE_ROUNDS + 3 };

/* The type of carried value `i` with symbols of its own for the open dimensions. */
static ir_type instance(ir_build *b, const ir_build_loop *l, uint32_t i) {
  ir_type type = l->types[i];
  for (int32_t d = 0; type.kind == IR_TENSOR && d < type.rank; d++)
    if (l->open[i] >> d & 1) type.dims[d] = base_dim_fresh(&b->graph->dims);
  return type;
}

/* Opens what the result of an iteration does not have in common with the carried value. True when that was nothing. */
static bool fits(ir_build *b, ir_build_loop *l, uint32_t i) {
  ir_type *type = &l->types[i];
  const ir_type result = *ir_build_type(b, l->results[1 + i]);
  if (type->kind != IR_TENSOR || result.kind != IR_TENSOR) {
    ir_type joined = ir_build_join(b, type, &result);
    bool same = ir_type_equal(&joined, type);
    *type = joined;
    return same;
  }
  td_dtype dtype = common_dtype(b, type, &result);
  bool same = dtype == type->dtype;
  type->dtype = dtype;
  if (type->rank == IR_UNRANKED) return same;
  if (type->rank != result.rank) {
    *type = join_ranks(type, &result, dtype);
    return false;
  }
  for (int32_t d = 0; d < type->rank; d++) {
    if (l->open[i] >> d & 1 || type->dims[d] == result.dims[d]) continue;
    l->open[i] = (uint16_t)(l->open[i] | 1u << d);
    same = false;
  }
  return same;
}

static void open_all(ir_build_loop *l, bool ranks) {
  for (uint32_t i = 0; i < l->carried; i++) {
    l->open[i] = (1u << BASE_MAX_RANK) - 1;
    if (ranks && l->types[i].kind == IR_TENSOR) l->types[i] = ir_unranked(l->types[i].dtype);
  }
}

static bool build_round(ir_build *b, ir_build_loop *l, ir_block *block) {
  ir_block outer = b->block;
  const ir_type number = ir_tensor(TD_I64, 0, NULL);
  *block = ir_build_block(b);
  ir_value iteration = ir_build_param(b, *block, &number);
  for (uint32_t i = 0; i < l->carried; i++) {
    ir_type type = instance(b, l, i);
    l->params[i] = ir_build_param(b, *block, &type);
  }
  memset(l->results, 0, (1 + (size_t)l->carried + l->collected) * sizeof *l->results);
  if (ir_build_failed(b)) return true;
  b->block = *block;
  l->body(b, l, iteration, l->params, l->results);
  b->block = outer;
  bool all = true;
  for (uint32_t i = 0; i < l->carried && !ir_build_failed(b); i++) all &= fits(b, l, i);
  return all;
}

/* Builds the body until its types are a fixed point. */
static ir_block settle(ir_build *b, ir_build_loop *l) {
  ir_block block = {0};
  for (uint32_t round = 0; round < MAX_ROUNDS && !ir_build_failed(b); round++) {
    uint32_t first_value = b->graph->values.count;
    if (build_round(b, l, &block)) return block;
    ir_build_discard(b, block);
    if (round >= PRECISE_ROUNDS) open_all(l, round > PRECISE_ROUNDS);
    if (b->again && !ir_build_failed(b)) b->again(b, first_value);
  }
  ir_build_fail(b, TD_UNSUPPORTED, "the types of the values that the loop carries could not be found");
  return block;
}

/* Lists grow by one item per iteration: a parameter, and a result with the item appended. */
static void add_lists(ir_build *b, ir_build_loop *l, ir_block block) {
  ir_block outer = b->block;
  b->block = block;
  for (uint32_t i = 0; i < l->collected && !ir_build_failed(b); i++) {
    ir_value item = l->results[1 + l->carried + i];
    l->items[i] = *ir_build_type(b, item);
    if (l->items[i].kind != IR_TENSOR)
      ir_build_fail(b, TD_UNSUPPORTED, "only tensors can be collected over iterations");
    ir_type *elem = ir_build_alloc(b, sizeof *elem);
    if (!elem) break;
    *elem = ir_unranked(l->items[i].dtype);
    ir_type list = {.kind = IR_LIST, .elem = elem};
    ir_value param = ir_build_param(b, block, &list);
    l->results[1 + l->carried + i] = IR_EMIT(b, "aten::append", param, item);
  }
  b->block = outer;
}

static bool prepare(ir_build *b, ir_build_loop *l) {
  size_t carried = l->carried, all = carried + l->collected;
  l->types = ir_build_alloc(b, carried * sizeof *l->types);
  l->open = ir_build_alloc(b, carried * sizeof *l->open);
  l->params = ir_build_alloc(b, carried * sizeof *l->params);
  l->results = ir_build_alloc(b, (all + 1) * sizeof *l->results);
  l->outs = ir_build_alloc(b, all * sizeof *l->outs);
  l->items = ir_build_alloc(b, l->collected * sizeof *l->items);
  for (uint32_t i = 0; i < l->carried && !ir_build_failed(b); i++) {
    if (!l->initial[i].id) ir_build_fail(b, TD_BAD_FILE, "an initial value is missing");
    l->types[i] = *ir_build_type(b, l->initial[i]);
  }
  return !ir_build_failed(b);
}

void ir_build_run_loop(ir_build *b, ir_build_loop *l) {
  if (!prepare(b, l)) return;
  uint32_t all = l->carried + l->collected;
  ir_block block = settle(b, l);
  add_lists(b, l, block);
  ir_value *in = ir_build_alloc(b, (2 + (size_t)all) * sizeof *in);
  ir_type *types = ir_build_alloc(b, all * sizeof *types);
  if (ir_build_failed(b)) return;
  ir_build_result(b, block, l->results[0].id ? l->results[0] : ir_build_scalar(b, TD_BOOL, 1));
  in[0] = l->trips;
  in[1] = l->cond;
  for (uint32_t i = 0; i < all && !ir_build_failed(b); i++) {
    bool is_list = i >= l->carried;
    ir_build_result(b, block, l->results[1 + i]);
    in[2 + i] = is_list ? IR_EMIT_ARGS(b, "td::list_new", NULL, 0, ARG_DTYPE("dtype", l->items[i - l->carried].dtype))
                        : l->initial[i];
    types[i] = is_list ? *ir_build_type(b, in[2 + i]) : instance(b, l, i);
  }
  ir_build_region(b, "prim::Loop", (ir_new_node){.in = in, .in_count = 2 + all, .out_types = types, .out_count = all},
                  &block, 1, l->outs);
}

ir_value ir_build_stacked(ir_build *b, const ir_build_loop *l, uint32_t i, int64_t axis) {
  if (ir_build_failed(b)) return IR_NO_VALUE;
  const ir_type *item = &l->items[i];
  int64_t dims[BASE_MAX_RANK];
  for (int32_t d = 0; d < item->rank; d++) dims[d] = base_dim_known(item->dims[d]) ? item->dims[d] : -1;
  base_arg args[] = {ARG_INT("dim", axis), ARG_INT("new_axis", 1), ARG_DTYPE("dtype", item->dtype),
                     ARG_INTS("dims", dims, item->rank)};
  return ir_emit(b, "td::stack_list", &l->outs[l->carried + i], 1, args, item->rank == IR_UNRANKED ? 3 : 4);
}
