/* cut_value.c -- a value as the graph that is left by a cut takes it. */
#include "debug/debug.h"

void debug_cut_value(const td_cut *cut, const td_tensor *from, void *data, td_tensor *to) {
  *to = *from;
  to->data = data;
  for (int32_t d = 0; d < to->rank; d++)
    if (cut->size_from && to->dims[d] == cut->size_from) to->dims[d] = cut->size_to;
  if (cut->dtype_from && to->dtype == cut->dtype_from) to->dtype = cut->dtype_to;
  if (!data) return;
  base_tensor part = base_tensor_of(from->data, from->dtype, from->rank, from->dims);
  for (int32_t d = 0; d < to->rank; d++) part.dims[d] = to->dims[d];
  if (to->dtype == from->dtype) {
    base_tensor_pack(data, &part);
    return;
  }
  base_walk w;
  const int64_t *strides[] = {part.strides};
  base_walk_start(&w, part.rank, part.dims, 1, strides);
  for (int64_t k = 0; k < w.count; k++, base_walk_next(&w))
    base_store_f64(to->dtype, data, k, base_load_f64(from->dtype, from->data, w.offset[0]));
}
