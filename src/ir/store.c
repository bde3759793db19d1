/* store.c -- the elements that texts of graphs refer to. Graphs of one model in its different states share a store:
 * what a pass has left alone is in it once. Tensors are distinguished by the address of their elements, which no graph
 * ever moves. */
#include "ir/graph.h"
#include "base/size.h"

#include <string.h>

static bool same_elements(const base_tensor *a, const base_tensor *b) {
  const size_t bytes = (size_t)a->rank * sizeof *a->dims;
  return a->data == b->data && a->dtype == b->dtype && a->rank == b->rank && memcmp(a->dims, b->dims, bytes) == 0 &&
         memcmp(a->strides, b->strides, bytes) == 0;
}

bool ir_store_add(ir_store *store, const base_tensor *tensor, size_t *offset) {
  *offset = 0;
  for (uint32_t i = 0; i < store->tensors.count; i++)
    if (same_elements(store->tensors.at[i].tensor, tensor)) {
      *offset = store->tensors.at[i].offset;
      return true;
    }
  const size_t begin = (store->bytes + IR_STORE_ALIGN - 1) / IR_STORE_ALIGN * IR_STORE_ALIGN;
  size_t end;
  if (begin < store->bytes || __builtin_add_overflow(begin, base_tensor_bytes(tensor), &end)) return false;
  ir_stored *to = base_vec_push(store->arena, &store->tensors);
  if (!to) return false;
  *to = (ir_stored){tensor, begin};
  store->bytes = end;
  *offset = begin;
  return true;
}

static td_status write_tensor(const ir_store *store, const base_tensor *t, td_write_fn write, void *user,
                              td_error *err) {
  const size_t bytes = base_tensor_bytes(t);
  if (base_tensor_contiguous(t)) return write(user, t->data, bytes);
  const td_allocator *allocator = base_arena_allocator(store->arena);
  void *dense = base_alloc(allocator, bytes);
  if (!dense) return base_no_memory(err, "a constant");
  base_tensor_pack(dense, t);
  const td_status status = write(user, dense, bytes);
  base_free(allocator, dense, bytes);
  return status;
}

td_status ir_store_write(const ir_store *store, uint32_t from, td_write_fn write, void *user, td_error *err) {
  static const char gap[IR_STORE_ALIGN];
  size_t at = 0;
  if (from) at = store->tensors.at[from - 1].offset + base_tensor_bytes(store->tensors.at[from - 1].tensor);
  for (uint32_t i = from; i < store->tensors.count; i++) {
    const ir_stored *s = &store->tensors.at[i];
    if (s->offset > at) TRY(write(user, gap, s->offset - at));
    TRY(write_tensor(store, s->tensor, write, user, err));
    at = s->offset + base_tensor_bytes(s->tensor);
  }
  return TD_OK;
}
