/* list.c -- lists and optionals of the host. A list never changes: each operator makes a new one. Tensors that go into
 * a list are copied where the memory they come from is reused, and shared where it stays; those that come out are
 * shared. An optional is its element, or a value of kind BASE_NOTHING.
 *
 * List operators have no mathematics: append, insert, erase, at, len, split and stack as ONNX's SequenceInsert 11,
 * SequenceErase 11, SequenceAt 11, SequenceLength 11, SplitToSequence 11, ConcatFromSequence 11; OptionalHasElement
 * 15. */
#include "ops/common/move_priv.h"
#include "base/size.h"

#include <string.h>

enum { TUPLE_INDEX };                                        /* td::tuple_at */
enum { LIST_DTYPE };                                         /* td::list_new, td::optional_new */
enum { STACK_DIM, STACK_NEW_AXIS, STACK_DTYPE, STACK_DIMS }; /* td::stack_list */
enum { SPLIT_DIM, SPLIT_KEEPDIMS };                          /* td::split_to_list */

static const ir_attr dtype_attrs[] = {ATTR_OPTIONAL("dtype", BASE_ATTR_DTYPE)};
static const ir_attr stack_attrs[] = {{.name = "dim", .kind = BASE_ATTR_INT, .required = true},
                                      ATTR_INT("new_axis", 0),
                                      ATTR_OPTIONAL("dtype", BASE_ATTR_DTYPE),
                                      ATTR_OPTIONAL("dims", BASE_ATTR_INTS)};
static const ir_attr tuple_attrs[] = {{.name = "index", .kind = BASE_ATTR_INT, .required = true}};
static const ir_attr split_attrs[] = {ATTR_INT("dim", 0), ATTR_INT("keepdims", 1)};

/* ---- inference ---- */

/* What both types say, into *to: where tensors of one dtype differ in shape, nothing is known of the shape. An item of
 * an empty list that says no dtype gives way. */
static td_status common_type(ir_infer *ctx, const ir_type *a, const ir_type *b, ir_type *to) {
  *to = *a;
  if (ir_type_equal(a, b)) return TD_OK;
  if (a->kind == IR_TENSOR && a->dtype == TD_INVALID) {
    *to = *b;
    return TD_OK;
  }
  if (a->kind == IR_TENSOR && b->kind == IR_TENSOR) *to = ir_unranked(a->dtype);
  const uint32_t elems = ir_type_elems(a);
  if (a->kind == IR_TENSOR || a->kind != b->kind || elems != ir_type_elems(b) || !elems || !a->elem || !b->elem)
    return TD_OK;
  ir_type *joined = base_new(ctx->arena, ir_type, elems);
  if (!joined) return base_no_memory(ctx->err, "a type");
  for (uint32_t i = 0; i < elems; i++) TRY(common_type(ctx, &a->elem[i], &b->elem[i], &joined[i]));
  to->elem = joined;
  return TD_OK;
}

static td_status out_holding(ir_infer *ctx, ir_kind kind, const ir_type *elem) {
  ir_type *kept = base_new(ctx->arena, ir_type, 1);
  if (!kept) return base_no_memory(ctx->err, "a type");
  *kept = *elem;
  ctx->out[0].type = (ir_type){.kind = kind, .elem = kept};
  return TD_OK;
}

static td_dtype dtype_attr(const base_attrs *attrs, uint32_t index) {
  return base_attr_has(attrs, index) ? (td_dtype)base_attr_int(attrs, index) : TD_INVALID;
}

/* Type of the items of operand 0. */
static td_status elem_type(ir_infer *ctx, ir_kind kind, ir_type *elem) {
  const ir_type *type = &ctx->in[0]->type;
  if (type->kind != kind) return ir_infer_fail(ctx, "operand 0 is no %s", kind == IR_LIST ? "list" : "optional");
  *elem = type->elem ? *type->elem : ir_unranked(TD_INVALID);
  return TD_OK;
}

static td_status infer_new(ir_infer *ctx) {
  ir_type elem = ir_unranked(dtype_attr(ctx->attrs, LIST_DTYPE));
  for (uint32_t i = 0; i < ctx->in_count; i++) {
    if (!ir_in(ctx, i)) return ir_infer_fail(ctx, "item %u is absent", i);
    const ir_type before = elem;
    if (i) TRY(common_type(ctx, &before, &ctx->in[i]->type, &elem));
    else elem = ctx->in[i]->type;
  }
  return out_holding(ctx, IR_LIST, &elem);
}

static td_status infer_insert(ir_infer *ctx) {
  ir_type elem, joined;
  TRY(elem_type(ctx, IR_LIST, &elem));
  TRY(common_type(ctx, &elem, &ctx->in[1]->type, &joined));
  return out_holding(ctx, IR_LIST, &joined);
}

static td_status infer_erase(ir_infer *ctx) {
  ir_type elem;
  TRY(elem_type(ctx, IR_LIST, &elem));
  return ir_out_like(ctx, 0, 0, TD_INVALID);
}

static td_status infer_at(ir_infer *ctx) {
  TRY(elem_type(ctx, IR_LIST, &ctx->out[0].type));
  return TD_OK;
}

static td_status infer_tuple_at(ir_infer *ctx) {
  const ir_type *type = &ctx->in[0]->type;
  const int64_t index = base_attr_int(ctx->attrs, TUPLE_INDEX);
  if (type->kind != IR_TUPLE) return ir_infer_fail(ctx, "operand 0 is no tuple");
  if (index < 0 || index >= ir_type_elems(type))
    return ir_infer_fail(ctx, "item %lld does not exist", (long long)index);
  ctx->out[0].type = type->elem[index];
  return TD_OK;
}

static td_status infer_len(ir_infer *ctx) { return ir_out(ctx, 0, TD_I64, 0, NULL); }

/* Rank and sizes of an item, from the list's type or else from the attribute; IR_UNRANKED when neither tells. */
static ir_type item_type(ir_infer *ctx, const ir_type *elem) {
  uint32_t count;
  const int64_t *dims = base_attr_ints(ctx->attrs, STACK_DIMS, &count);
  ir_type item = *elem;
  if (item.dtype == TD_INVALID) item.dtype = dtype_attr(ctx->attrs, STACK_DTYPE);
  if (item.rank != IR_UNRANKED || !base_attr_has(ctx->attrs, STACK_DIMS) || count > BASE_MAX_RANK) return item;
  item.rank = (int32_t)count;
  for (uint32_t i = 0; i < count; i++) item.dims[i] = dims[i] < 0 ? ir_fresh(ctx) : dims[i];
  return item;
}

static td_status infer_stack(ir_infer *ctx) {
  ir_type elem;
  TRY(elem_type(ctx, IR_LIST, &elem));
  if (elem.kind != IR_TENSOR) return ir_infer_fail(ctx, "the items are no tensors");
  elem = item_type(ctx, &elem);
  if (elem.rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, elem.dtype);
  int32_t new_axis = base_attr_int(ctx->attrs, STACK_NEW_AXIS) != 0, rank = elem.rank + new_axis, axis;
  TRY(ir_axis(ctx, base_attr_int(ctx->attrs, STACK_DIM), rank, &axis));
  if (rank > BASE_MAX_RANK) return ir_out(ctx, 0, elem.dtype, rank, NULL);
  base_dim dims[BASE_MAX_RANK];
  for (int32_t i = 0, from = 0; i < rank; i++) {
    dims[i] = i == axis ? ir_fresh(ctx) : elem.dims[from];
    from += i != axis || !new_axis;
  }
  return ir_out(ctx, 0, elem.dtype, rank, dims);
}

static td_status infer_split(ir_infer *ctx) {
  ir_type elem = ctx->in[0]->type;
  if (elem.rank == IR_UNRANKED) return out_holding(ctx, IR_LIST, &elem);
  int32_t axis;
  TRY(ir_axis(ctx, base_attr_int(ctx->attrs, SPLIT_DIM), elem.rank, &axis));
  bool single = !ir_in(ctx, 1);
  if (!single) elem = ir_unranked(elem.dtype);
  else if (base_attr_int(ctx->attrs, SPLIT_KEEPDIMS)) elem.dims[axis] = 1;
  else {
    elem.rank--;
    memmove(elem.dims + axis, elem.dims + axis + 1, (size_t)(elem.rank - axis) * sizeof *elem.dims);
    elem.dims[elem.rank] = 0;
  }
  return out_holding(ctx, IR_LIST, &elem);
}

static td_status infer_optional(ir_infer *ctx) {
  ir_type elem = ir_in(ctx, 0) ? ctx->in[0]->type : ir_unranked(dtype_attr(ctx->attrs, LIST_DTYPE));
  return out_holding(ctx, IR_OPTIONAL, &elem);
}

static td_status infer_has(ir_infer *ctx) { return ir_out(ctx, 0, TD_BOOL, 0, NULL); }

static td_status infer_get(ir_infer *ctx) {
  const ir_type *type = &ctx->in[0]->type;
  ctx->out[0].type = type->kind == IR_OPTIONAL && type->elem ? *type->elem : *type;
  return TD_OK;
}

/* ---- values ---- */

/* Lists share their items, which nobody changes; what is not dense is made so. */
static td_status copy_value(const base_call *call, const base_value *from, base_value *to) {
  *to = *from;
  if (from->kind != BASE_TENSOR) return TD_OK;
  const bool dense = base_tensor_contiguous(&from->tensor);
  if (dense && call->lasts && call->lasts(call->memory, from->tensor.data)) return TD_OK;
  size_t bytes = base_tensor_bytes(&from->tensor);
  void *data = call->keep(call->memory, bytes ? bytes : 1);
  if (!data) return base_no_memory(call->err, "an item of a list");
  base_tensor_pack(data, &from->tensor);
  to->tensor = base_tensor_of(data, from->tensor.dtype, from->tensor.rank, from->tensor.dims);
  return TD_OK;
}

/* An array with room for `cap` items that shows `count`, to be filled. */
static td_status make_list(const base_call *call, int64_t count, int64_t cap, base_list *list) {
  size_t bytes;
  if (!base_mul((size_t)cap, sizeof(base_value), &bytes)) return base_no_memory(call->err, "a list");
  base_value *items = call->keep(call->memory, bytes ? bytes : 1);
  base_list_room *room = call->keep(call->memory, sizeof *room);
  if (!items || !room) return base_no_memory(call->err, "a list");
  *room = (base_list_room){count, cap};
  *list = (base_list){items, count, room};
  return TD_OK;
}

static td_status list_in(const base_call *call, const base_list **list) {
  if (!call->in[0] || call->in[0]->kind != BASE_LIST) return ops_fail(call, "operand 0 is no list");
  *list = &call->in[0]->list;
  return TD_OK;
}

static td_status new_reference(const base_call *call) {
  base_list list;
  TRY(make_list(call, call->in_count, base_max_i64(call->in_count, 4), &list));
  for (uint32_t i = 0; i < call->in_count; i++) {
    if (!call->in[i]) return ops_fail(call, "item %u is absent", i);
    TRY(copy_value(call, call->in[i], &list.items[i]));
  }
  *call->out[0] = (base_value){.kind = BASE_LIST, .list = list};
  return TD_OK;
}

static td_status append_value(const base_call *call, const base_list *list, const base_value *item) {
  base_list to = *list;
  if (!list->room || list->room->used != list->count || list->room->cap == list->count) {
    TRY(make_list(call, list->count, base_max_i64(4, list->count * 2), &to));
    if (list->count) memcpy(to.items, list->items, (size_t)list->count * sizeof *to.items);
  }
  TRY(copy_value(call, item, &to.items[to.count]));
  to.room->used = ++to.count;
  *call->out[0] = (base_value){.kind = BASE_LIST, .list = to};
  return TD_OK;
}

static td_status append_reference(const base_call *call) {
  const base_list *list = NULL;
  TRY(list_in(call, &list));
  return append_value(call, list, call->in[1]);
}

/* Operand `i` as one of `places` positions; negative ones count from the end of the list. The last when it is absent.
 */
static td_status position(const base_call *call, uint32_t i, int64_t count, int64_t places, int64_t *at) {
  int64_t value = places - 1;
  uint32_t given = 1;
  if (base_in(call, i)) TRY(ops_read_ints(call, i, 1, &value, &given));
  *at = value < 0 ? value + count : value;
  if (given == 1 && *at >= 0 && *at < places) return TD_OK;
  return ops_fail(call, "position %lld does not exist in a list of %lld items", (long long)value, (long long)count);
}

static td_status insert_reference(const base_call *call) {
  const base_list *list = NULL;
  TRY(list_in(call, &list));
  int64_t at = 0;
  TRY(position(call, 2, list->count, list->count + 1, &at));
  if (at == list->count) return append_value(call, list, call->in[1]);
  base_list to;
  TRY(make_list(call, list->count + 1, list->count + 1, &to));
  if (at) memcpy(to.items, list->items, (size_t)at * sizeof *to.items);
  TRY(copy_value(call, call->in[1], &to.items[at]));
  memcpy(to.items + at + 1, list->items + at, (size_t)(list->count - at) * sizeof *to.items);
  *call->out[0] = (base_value){.kind = BASE_LIST, .list = to};
  return TD_OK;
}

static td_status erase_reference(const base_call *call) {
  const base_list *list = NULL;
  int64_t at = 0;
  TRY(list_in(call, &list));
  TRY(position(call, 1, list->count, list->count, &at));
  base_list to;
  TRY(make_list(call, list->count - 1, list->count - 1, &to));
  if (at) memcpy(to.items, list->items, (size_t)at * sizeof *to.items);
  if (to.count > at) memcpy(to.items + at, list->items + at + 1, (size_t)(to.count - at) * sizeof *to.items);
  *call->out[0] = (base_value){.kind = BASE_LIST, .list = to};
  return TD_OK;
}

static td_status at_reference(const base_call *call) {
  const base_list *list = NULL;
  int64_t at = 0;
  TRY(list_in(call, &list));
  TRY(position(call, 1, list->count, list->count, &at));
  return copy_value(call, &list->items[at], call->out[0]);
}

static td_status tuple_at_reference(const base_call *call) {
  const base_value *tuple = call->in[0];
  const int64_t index = base_attr_int(call->attrs, TUPLE_INDEX);
  if (!tuple || tuple->kind != BASE_TUPLE || index >= tuple->list.count) return ops_fail(call, "there is no such item");
  return copy_value(call, &tuple->list.items[index], call->out[0]);
}

static td_status len_reference(const base_call *call) {
  const base_list *list = NULL;
  TRY(list_in(call, &list));
  base_store_i64(TD_I64, base_out(call, 0)->data, 0, list->count);
  return TD_OK;
}

/* ---- tensors to and from lists ---- */

/* The empty list: sizes from the attribute (open ones as 0), with none along the axis. */
static td_status stack_nothing(const base_call *call, int64_t dim, bool new_axis) {
  uint32_t count;
  const int64_t *item = base_attr_ints(call->attrs, STACK_DIMS, &count);
  int64_t rank = (int64_t)count + new_axis, axis = dim < 0 ? dim + rank : dim, dims[BASE_MAX_RANK] = {0};
  if (!base_attr_has(call->attrs, STACK_DIMS) || dtype_attr(call->attrs, STACK_DTYPE) == TD_INVALID)
    return ops_fail(call, "the list is empty: its items' type and sizes are not known");
  if (rank > BASE_MAX_RANK || axis < 0 || axis >= rank) return ops_fail(call, "axis %lld does not fit", (long long)dim);
  for (int64_t i = 0, from = 0; i < rank; i++) {
    dims[i] = i == axis || item[from] < 0 ? 0 : item[from];
    from += i != axis || !new_axis;
  }
  return base_call_define(call, 0, dtype_attr(call->attrs, STACK_DTYPE), (int32_t)rank, dims);
}

/* Item `i` as it goes into the result: with an axis of size 1 at `axis` when it is new. */
static td_status stacked_item(const base_call *call, const base_list *list, int64_t i, int32_t axis, bool new_axis,
                              base_tensor *item) {
  if (list->items[i].kind != BASE_TENSOR) return ops_fail(call, "item %lld is no tensor", (long long)i);
  *item = list->items[i].tensor;
  if (!new_axis) return TD_OK;
  size_t tail = (size_t)(item->rank - axis) * sizeof *item->dims;
  memmove(item->dims + axis + 1, item->dims + axis, tail);
  memmove(item->strides + axis + 1, item->strides + axis, tail);
  item->dims[axis] = 1;
  item->rank++;
  return TD_OK;
}

static td_status check_item(const base_call *call, const base_tensor *first, const base_tensor *item, int64_t i,
                            int32_t axis) {
  bool same = item->dtype == first->dtype && item->rank == first->rank;
  for (int32_t d = 0; same && d < item->rank; d++) same = d == axis || item->dims[d] == first->dims[d];
  char a[128], b[128];
  return same ? TD_OK
              : ops_fail(call, "item %lld is %s, item 0 is %s: they do not fit together", (long long)i,
                         base_tensor_describe(item, a, sizeof a), base_tensor_describe(first, b, sizeof b));
}

static td_status stack_reference(const base_call *call) {
  const base_list *list = NULL;
  TRY(list_in(call, &list));
  int64_t dim = base_attr_int(call->attrs, STACK_DIM), total = 0;
  bool new_axis = base_attr_int(call->attrs, STACK_NEW_AXIS) != 0;
  if (list->count == 0) return stack_nothing(call, dim, new_axis);
  int32_t rank = list->items[0].tensor.rank + new_axis;
  int64_t axis = dim < 0 ? dim + rank : dim;
  if (rank > BASE_MAX_RANK || axis < 0 || axis >= rank) return ops_fail(call, "axis %lld does not fit", (long long)dim);
  base_tensor first = {0}, item;
  for (int64_t i = 0; i < list->count; i++) {
    TRY(stacked_item(call, list, i, (int32_t)axis, new_axis, &item));
    if (i == 0) first = item;
    TRY(check_item(call, &first, &item, i, (int32_t)axis));
    if (!base_add_i64(total, item.dims[axis], &total)) return ops_fail(call, "the result is too large");
  }
  first.dims[axis] = total;
  TRY(base_call_define(call, 0, first.dtype, rank, first.dims));
  int64_t start = 0;
  for (int64_t i = 0; i < list->count; i++) {
    TRY(stacked_item(call, list, i, (int32_t)axis, new_axis, &item));
    ops_move_into(base_out(call, 0), (int32_t)axis, start, &item);
    start += item.dims[axis];
  }
  return TD_OK;
}

/* Sizes of the pieces along an axis of `length`: from operand 1, a size of each or one for all. */
static td_status piece_sizes(const base_call *call, int64_t length, const base_i64 **sizes, int64_t *each,
                             int64_t *count) {
  const base_tensor *split = base_in(call, 1);
  *sizes = split ? ops_dense_i64(call, 1) : NULL;
  *each = 1;
  if (split && !*sizes) return base_no_memory(call->err, "scratch");
  if (split && split->rank > 0) {
    int64_t total = 0;
    *count = base_tensor_numel(split);
    for (int64_t i = 0; i < *count; i++)
      if ((*sizes)[i] < 0 || !base_add_i64(total, (*sizes)[i], &total)) return ops_fail(call, "a piece has a bad size");
    return total == length
               ? TD_OK
               : ops_fail(call, "the pieces add up to %lld, the axis has %lld", (long long)total, (long long)length);
  }
  if (split) *each = (*sizes)[0];
  *sizes = NULL;
  if (*each < 1) return ops_fail(call, "pieces of size %lld", (long long)*each);
  *count = length / *each + (length % *each != 0);
  return TD_OK;
}

static td_status split_reference(const base_call *call) {
  const base_tensor *in = base_in(call, 0);
  int64_t dim = base_attr_int(call->attrs, SPLIT_DIM), axis = dim < 0 ? dim + in->rank : dim, each = 1, count = 0,
          start = 0;
  if (axis < 0 || axis >= in->rank) return ops_fail(call, "axis %lld does not fit", (long long)dim);
  const base_i64 *sizes = NULL;
  base_list list;
  TRY(piece_sizes(call, in->dims[axis], &sizes, &each, &count));
  TRY(make_list(call, count, count, &list));
  bool drop = !base_in(call, 1) && base_attr_int(call->attrs, SPLIT_KEEPDIMS) == 0;
  for (int64_t i = 0; i < count; i++) {
    base_tensor piece = *in;
    base_value *to = &list.items[i];
    *to = (base_value){0};
    base_call one = *call;
    one.out = &to;
    one.out_count = 1;
    piece.dims[axis] = sizes ? sizes[i] : base_min_i64(each, in->dims[axis] - start);
    TRY(base_call_define(&one, 0, in->dtype, piece.rank, piece.dims));
    ops_move(&to->tensor, 0, in, start * in->strides[axis]);
    start += piece.dims[axis];
    if (!drop) continue;
    memmove(piece.dims + axis, piece.dims + axis + 1, (size_t)(piece.rank - 1 - axis) * sizeof *piece.dims);
    to->tensor = base_tensor_of(to->tensor.data, in->dtype, in->rank - 1, piece.dims);
  }
  *call->out[0] = (base_value){.kind = BASE_LIST, .list = list};
  return TD_OK;
}

/* ---- optionals ---- */

static td_status optional_reference(const base_call *call) {
  if (call->in_count && call->in[0]) return copy_value(call, call->in[0], call->out[0]);
  *call->out[0] = (base_value){.kind = BASE_NOTHING};
  return TD_OK;
}

static td_status has_reference(const base_call *call) {
  bool has = call->in_count && call->in[0] && call->in[0]->kind != BASE_NOTHING;
  base_store_i64(TD_BOOL, base_out(call, 0)->data, 0, has);
  return TD_OK;
}

static td_status get_reference(const base_call *call) {
  if (!call->in[0] || call->in[0]->kind == BASE_NOTHING) return ops_fail(call, "the optional is empty");
  return copy_value(call, call->in[0], call->out[0]);
}

static const ir_alias new_aliases[] = {{"onnx", "SequenceConstruct", 11, NULL}};
static const ir_alias insert_aliases[] = {{"onnx", "SequenceInsert", 11, NULL}};
static const ir_alias erase_aliases[] = {{"onnx", "SequenceErase", 11, NULL}};
static const ir_alias at_aliases[] = {{"onnx", "SequenceAt", 11, NULL}};
static const ir_alias len_aliases[] = {{"onnx", "SequenceLength", 11, NULL}};
static const ir_alias stack_aliases[] = {{"onnx", "ConcatFromSequence", 11, "axis=dim"}};
static const ir_alias split_aliases[] = {{"onnx", "SplitToSequence", 11, "axis=dim"}};
static const ir_alias has_aliases[] = {{"onnx", "OptionalHasElement", 15, NULL}};
static const ir_alias get_aliases[] = {{"onnx", "OptionalGetElement", 15, NULL}};

#define LIST_FLAGS (IR_OP_HOST | IR_OP_DEFINES)
OPS_DECLARE(list);
const ir_op ops_list[] = {
    /* (items...) -> list; dtype: of the items of an empty one */
    {.id = OPERATOR(td, list_new),
     .max_in = IR_VARIADIC,
     .out_count = 1,
     .flags = LIST_FLAGS | IR_OP_HOLDS,
     .attrs = dtype_attrs,
     .attr_count = OPS_COUNT(dtype_attrs),
     .infer = infer_new,
     .reference = new_reference,
     .aliases = new_aliases,
     .alias_count = OPS_COUNT(new_aliases)},
    /* (list, x) -> list */
    {.id = OPERATOR(aten, append),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .flags = LIST_FLAGS | IR_OP_HOLDS,
     .infer = infer_insert,
     .reference = append_reference},
    /* (list, x, position?) -> list; x stands at the position afterwards, at the end without one */
    {.id = OPERATOR(td, list_insert),
     .min_in = 2,
     .max_in = 3,
     .out_count = 1,
     .flags = LIST_FLAGS | IR_OP_HOLDS,
     .infer = infer_insert,
     .reference = insert_reference,
     .aliases = insert_aliases,
     .alias_count = OPS_COUNT(insert_aliases)},
    /* (list, position?) -> list; the last item without one */
    {.id = OPERATOR(td, list_erase),
     .min_in = 1,
     .max_in = 2,
     .out_count = 1,
     .flags = LIST_FLAGS,
     .infer = infer_erase,
     .reference = erase_reference,
     .aliases = erase_aliases,
     .alias_count = OPS_COUNT(erase_aliases)},
    /* (list, position) -> item */
    {.id = OPERATOR(td, list_at),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .flags = LIST_FLAGS,
     .infer = infer_at,
     .reference = at_reference,
     .aliases = at_aliases,
     .alias_count = OPS_COUNT(at_aliases)},
    /* (tuple) -> its item number `index` */
    {.id = OPERATOR(td, tuple_at),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .flags = LIST_FLAGS,
     .attrs = tuple_attrs,
     .attr_count = OPS_COUNT(tuple_attrs),
     .infer = infer_tuple_at,
     .reference = tuple_at_reference},
    /* (list) -> i64 */
    {.id = OPERATOR(td, list_len),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .flags = IR_OP_HOST,
     .infer = infer_len,
     .reference = len_reference,
     .aliases = len_aliases,
     .alias_count = OPS_COUNT(len_aliases)},
    /* (list of tensors) -> tensor: concatenated along dim, or stacked along the new axis dim. dtype and dims are those
     * of an item, for the empty list; a size of -1 is open, and 0 when the list is empty. */
    {.id = OPERATOR(td, stack_list),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .flags = LIST_FLAGS,
     .attrs = stack_attrs,
     .attr_count = OPS_COUNT(stack_attrs),
     .infer = infer_stack,
     .reference = stack_reference,
     .aliases = stack_aliases,
     .alias_count = OPS_COUNT(stack_aliases)},
    /* (x, sizes?) -> list: pieces along dim. sizes: of each piece; rank 0: of all but the last, which may be smaller;
     * absent: 1, and then keepdims 0 drops the axis. */
    {.id = OPERATOR(td, split_to_list),
     .min_in = 1,
     .max_in = 2,
     .out_count = 1,
     .flags = LIST_FLAGS,
     .attrs = split_attrs,
     .attr_count = OPS_COUNT(split_attrs),
     .infer = infer_split,
     .reference = split_reference,
     .aliases = split_aliases,
     .alias_count = OPS_COUNT(split_aliases)},
    /* (x?) -> optional; dtype: of a tensor that is absent */
    {.id = OPERATOR(td, optional_new),
     .max_in = 1,
     .out_count = 1,
     .flags = LIST_FLAGS | IR_OP_HOLDS,
     .attrs = dtype_attrs,
     .attr_count = OPS_COUNT(dtype_attrs),
     .infer = infer_optional,
     .reference = optional_reference},
    /* (optional?) -> bool */
    {.id = OPERATOR(td, optional_has),
     .max_in = 1,
     .out_count = 1,
     .flags = IR_OP_HOST,
     .infer = infer_has,
     .reference = has_reference,
     .aliases = has_aliases,
     .alias_count = OPS_COUNT(has_aliases)},
    /* (optional) -> its element; what is no optional goes through */
    {.id = OPERATOR(td, optional_get),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .flags = LIST_FLAGS,
     .infer = infer_get,
     .reference = get_reference,
     .aliases = get_aliases,
     .alias_count = OPS_COUNT(get_aliases)},
};
OPS_TABLE(list);
OPS_CASES(list) = {{0}}; /* HOST operators and regions have none */
