/* tail.c -- memory for what only running can size: two stacks of bytes over lazily committed reservations. Values in
 * the tail are never freed one by one; a loop compacts what it carries when the rest has grown. */
#include "runtime/runtime_priv.h"

#include <string.h>

enum { ALIGN = 64 };
static const size_t reserve_bytes = (size_t)1 << 36; /* address space, not memory */
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
  if (s->used > atomic_load_explicit(&s->peak, memory_order_relaxed))
    atomic_store_explicit(&s->peak, s->used, memory_order_relaxed);
  return s->base + start;
}

void run_stack_cut(run_stack *s, size_t used) {
  size_t warm = used > keep_warm ? used : keep_warm;
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

td_status run_keep(run_frame *f, const base_value *from, base_value *to) {
  base_value copy = *from;
  if (from->kind == BASE_TENSOR) TRY(keep_tensor(f, &from->tensor, &copy.tensor));
  if (base_holds_values(from->kind) && from->kind != BASE_FUTURE) {
    size_t bytes;
    if (__builtin_mul_overflow((size_t)from->list.count, sizeof(base_value), &bytes))
      return base_no_memory(&f->error, "a list");
    copy.list = (base_list){.items = run_stack_take(&f->tail, bytes ? bytes : 1), .count = from->list.count};
    if (!copy.list.items) return base_no_memory(&f->error, "a list");
    for (int64_t i = 0; i < from->list.count; i++) TRY(run_keep(f, &from->list.items[i], &copy.list.items[i]));
  }
  *to = copy;
  return TD_OK;
}

static void move_down(base_value *value, ptrdiff_t by) {
  if (value->kind == BASE_TENSOR) value->tensor.data = (char *)value->tensor.data - by;
  if (!base_holds_values(value->kind) || value->kind == BASE_FUTURE) return;
  value->list.items = (base_value *)(void *)((char *)value->list.items - by);
}

/* The items of a moved list still point to where they were. */
static void move_items(base_value *value, ptrdiff_t by) {
  if (!base_holds_values(value->kind) || value->kind == BASE_FUTURE) return;
  for (int64_t i = 0; i < value->list.count; i++) {
    move_down(&value->list.items[i], by);
    move_items(&value->list.items[i], by);
  }
}

/* Does anything of the value lie above the mark? A list that grew in place has items there and its array below. */
static bool above(const run_frame *f, const base_value *value, size_t mark) {
  if (value->kind == BASE_NOTHING || value->kind == BASE_FUTURE) return false;
  const char *at = value->kind == BASE_TENSOR ? value->tensor.data : (const char *)value->list.items;
  if (at >= f->tail.base + mark && at < f->tail.base + f->tail.size) return true;
  bool found = false;
  for (int64_t i = 0; base_holds_values(value->kind) && !found && i < value->list.count; i++)
    found = above(f, &value->list.items[i], mark);
  return found;
}

td_status run_compact(run_frame *f, const uint32_t *slots, uint32_t count, size_t mark) {
  size_t top = (f->tail.used + ALIGN - 1) / ALIGN * ALIGN, low = (mark + ALIGN - 1) / ALIGN * ALIGN;
  if (top <= low) return TD_OK;
  for (uint32_t i = 0; i < count; i++) {
    base_value *value = &f->values[slots[i]];
    if (f->plan->slots.at[slots[i]].place == PLAN_TAIL && above(f, value, mark)) TRY(run_keep(f, value, value));
  }
  size_t bytes = f->tail.used > top ? f->tail.used - top : 0;
  ptrdiff_t by = (ptrdiff_t)(top - low);
  if (bytes) memmove(f->tail.base + low, f->tail.base + top, bytes);
  for (uint32_t i = 0; i < count; i++) {
    base_value *value = &f->values[slots[i]];
    if (f->plan->slots.at[slots[i]].place != PLAN_TAIL || !above(f, value, top)) continue;
    move_down(value, by);
    move_items(value, by);
  }
  run_stack_cut(&f->tail, low + bytes);
  return TD_OK;
}
