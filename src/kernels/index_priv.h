/* index_priv.h -- what kernels share that find elements by index. */
#ifndef KERNELS_INDEX_PRIV_H
#define KERNELS_INDEX_PRIV_H
#include "base/base.h"

/* Element `i` of integers of any type. */
static inline int64_t kern_index_at(const base_tensor *t, int64_t i) {
  return t->dtype == TD_I64 ? ((const base_i64 *)t->data)[i] : base_load_i64(t->dtype, t->data, i);
}

/* An index of an axis of `size`, negative ones counted from the end. False: it is outside. */
static inline bool kern_index_place(int64_t given, int64_t size, int64_t *where) {
  *where = given < 0 ? given + size : given;
  return *where >= 0 && *where < size;
}

/* Has the index the sizes of `like`, and along all axes but one no more than x? */
static inline bool kern_index_fits(const base_tensor *index, const base_tensor *like, const base_tensor *x,
                                   int32_t axis) {
  bool fits = x->rank > 0 && index->rank == x->rank && like->rank == x->rank;
  for (int32_t i = 0; fits && i < x->rank; i++)
    fits = index->dims[i] == like->dims[i] && (i == axis || index->dims[i] <= x->dims[i]);
  return fits;
}

static inline td_status kern_index_outside(const base_call *call, const char *op, int64_t given, int64_t size) {
  return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "%s: index %lld is outside of an axis of %lld", op,
                   (long long)given, (long long)size);
}

/* Elements [first, end) of a dimension, cut at its own length; dim < 0: all of t. */
static inline base_tensor kern_index_part(const base_tensor *t, int32_t dim, int64_t first, int64_t end) {
  base_tensor part = *t;
  if (dim < 0) return part;
  part.dims[dim] = base_max_i64(base_min_i64(end, t->dims[dim]) - first, 0);
  if (part.dims[dim]) part.data = base_at(t, first * t->strides[dim]);
  return part;
}
#endif
