/* tail.c -- memory for what only running can size: two stacks of bytes over lazily committed reservations. Values in
 * the tail are never freed one by one; a loop compacts what it carries when the rest has grown. */
#include "runtime/frame_priv.h"
#include "sys/sys.h"

#include <string.h>

enum { ALIGN = 64 };
static const size_t reserve_bytes = (size_t)1 << 34; /* address space, not memory: thousands of sessions share 2^47 */
static const size_t keep_warm = (size_t)16 << 20;    /* pages up to here stay committed between runs */

td_status run_stack_open(run_stack *s, td_error *err) {
  *s = (run_stack){.size = reserve_bytes};
  s->base = sys_reserve(&s->size);
  return s->base ? TD_OK : base_no_memory(err, "address space for values whose sizes depend on data");
}

void run_stack_close(run_stack *s) {
  if (s->base) sys_release(s->base, s->size);
  *s = (run_stack){0};
}

void *run_stack_take(run_stack *s, size_t bytes) {
  size_t start = (s->used + ALIGN - 1) / ALIGN * ALIGN;
  if (!s->base || start > s->size || bytes > s->size - start) return NULL;
  s->used = start + bytes;
  if (s->used > s->high) s->high = s->used;
  if (s->used > atomic_load_explicit(&s->peak, memory_order_relaxed))
    atomic_store_explicit(&s->peak, s->used, memory_order_relaxed);
  return s->base + start;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

void run_stack_begin(run_stack *s) {
  const size_t touched = larger(larger(s->used, s->warm), keep_warm), keep = larger(s->high, keep_warm);
  if (touched > keep) sys_give_back(s->base + keep, touched - keep);
  s->warm = s->high;
  s->used = s->high = 0;
}

void run_stack_cut(run_stack *s, size_t used) {
  const size_t warm = larger(used, larger(s->warm, keep_warm));
  if (s->used > warm) sys_give_back(s->base + warm, s->used - warm);
  s->used = used;
}

static td_status keep_tensor(run_frame *f, const base_tensor *from, base_tensor *to) {
  size_t bytes = base_tensor_bytes(from);
  void *data = run_stack_take(&f->tail, bytes ? bytes : 1);
  if (!data) return base_no_memory(&f->error, "a value whose size depends on data");
  *to = base_tensor_of(data, from->dtype, from->rank, from->dims);
  base_tensor_copy(to, from);
  return TD_OK;
}

static td_status new_items(run_frame *f, int64_t count, base_value **items) {
  size_t bytes;
  const bool fits = !__builtin_mul_overflow((size_t)count, sizeof(base_value), &bytes);
  *items = fits ? run_stack_take(&f->tail, bytes ? bytes : 1) : NULL;
  return *items ? TD_OK : base_no_memory(&f->error, "a list");
}

td_status run_keep(run_frame *f, const base_value *from, base_value *to) {
  base_value copy = *from;
  if (from->kind == BASE_TENSOR) TRY(keep_tensor(f, &from->tensor, &copy.tensor));
  if (base_holds_values(from->kind) && from->kind != BASE_FUTURE) {
    copy.list = (base_list){.count = from->list.count};
    TRY(new_items(f, from->list.count, &copy.list.items));
    for (int64_t i = 0; i < from->list.count; i++) TRY(run_keep(f, &from->list.items[i], &copy.list.items[i]));
  }
  *to = copy;
  return TD_OK;
}

static bool holds_items(const base_value *value) {
  return base_holds_values(value->kind) && value->kind != BASE_FUTURE;
}

static bool is_above(const run_frame *f, const void *at, size_t mark) { return run_stack_holds(&f->tail, at, mark); }

/* Does anything of the value lie above the mark? A list that grew in place has items there and its array below. */
static bool above(const run_frame *f, const base_value *value, size_t mark) {
  if (value->kind == BASE_TENSOR) return is_above(f, value->tensor.data, mark);
  if (!holds_items(value)) return false;
  bool found = is_above(f, value->list.items, mark);
  for (int64_t i = 0; !found && i < value->list.count; i++) found = above(f, &value->list.items[i], mark);
  return found;
}

/* Items that its array has room for: a list that may grow in place keeps the rest, or each iteration of a loop that
 * appends would have to make it anew. */
static int64_t room_of(const base_list *list) {
  return list->room && list->room->used == list->count ? list->room->cap : list->count;
}

static td_status new_list(run_frame *f, const base_list *from, base_list *to) {
  const int64_t cap = room_of(from);
  *to = (base_list){.count = from->count};
  TRY(new_items(f, cap, &to->items));
  if (cap == from->count) return TD_OK;
  to->room = run_stack_take(&f->tail, sizeof *to->room);
  if (!to->room) return base_no_memory(&f->error, "a list");
  *to->room = *from->room;
  return TD_OK;
}

/* Copies the parts of the value that lie above the mark; the rest stays where it is, and is shared. */
static td_status keep_above(run_frame *f, const base_value *from, size_t mark, base_value *to) {
  base_value copy = *from;
  if (!above(f, from, mark)) return *to = copy, TD_OK;
  if (from->kind == BASE_TENSOR) {
    TRY(keep_tensor(f, &from->tensor, &copy.tensor));
  } else {
    TRY(new_list(f, &from->list, &copy.list));
    for (int64_t i = 0; i < from->list.count; i++) TRY(keep_above(f, &from->list.items[i], mark, &copy.list.items[i]));
  }
  *to = copy;
  return TD_OK;
}

/* What of a value lies above `top` moves down; its items still point to where they were. */
static void move_down(const run_frame *f, base_value *value, size_t top, ptrdiff_t by) {
  if (value->kind == BASE_TENSOR && is_above(f, value->tensor.data, top))
    value->tensor.data = (char *)value->tensor.data - by;
  if (!holds_items(value) || !is_above(f, value->list.items, top)) return;
  value->list.items = (base_value *)(void *)((char *)value->list.items - by);
  if (value->list.room) value->list.room = (base_list_room *)(void *)((char *)value->list.room - by);
  for (int64_t i = 0; i < value->list.count; i++) move_down(f, &value->list.items[i], top, by);
}

/* Bytes of it above the mark. */
static size_t bytes_above(const run_frame *f, const base_value *value, size_t mark) {
  if (value->kind == BASE_TENSOR) return is_above(f, value->tensor.data, mark) ? base_tensor_bytes(&value->tensor) : 0;
  if (!holds_items(value)) return 0;
  const bool own = is_above(f, value->list.items, mark);
  size_t bytes = own ? (size_t)room_of(&value->list) * sizeof *value->list.items : 0;
  for (int64_t i = 0; i < value->list.count; i++) bytes += bytes_above(f, &value->list.items[i], mark);
  return bytes;
}

bool run_should_compact(const run_frame *f, const uint32_t *slots, uint32_t count, size_t mark) {
  size_t live = 0;
  for (uint32_t i = 0; i < count; i++)
    if (f->plan->slots.at[slots[i]].place == PLAN_TAIL) live += bytes_above(f, &f->values[slots[i]], mark);
  return live < (f->tail.used - mark) / 2;
}

td_status run_compact(run_frame *f, const uint32_t *slots, uint32_t count, size_t mark) {
  size_t top = (f->tail.used + ALIGN - 1) / ALIGN * ALIGN, low = (mark + ALIGN - 1) / ALIGN * ALIGN;
  if (top <= low) return TD_OK;
  for (uint32_t i = 0; i < count; i++) {
    base_value *value = &f->values[slots[i]];
    if (f->plan->slots.at[slots[i]].place == PLAN_TAIL && above(f, value, mark)) TRY(keep_above(f, value, mark, value));
  }
  size_t bytes = f->tail.used > top ? f->tail.used - top : 0;
  ptrdiff_t by = (ptrdiff_t)(top - low);
  if (bytes) memmove(f->tail.base + low, f->tail.base + top, bytes);
  for (uint32_t i = 0; i < count; i++) {
    base_value *value = &f->values[slots[i]];
    if (f->plan->slots.at[slots[i]].place == PLAN_TAIL) move_down(f, value, top, by);
  }
  run_stack_cut(&f->tail, low + bytes);
  return TD_OK;
}
