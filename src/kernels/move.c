/* move.c -- see move_priv.h. */
#include "kernels/move_priv.h"

kern_move kern_move_of(const base_tensor *to, const base_tensor *from) {
  kern_move m = {.to = to->data, .from = from->data, .count = base_tensor_numel(from)};
  for (int32_t i = 0; i < from->rank; i++) {
    if (from->dims[i] == 1) continue;
    int32_t last = m.rank - 1;
    bool merges = m.rank && m.to_step[last] == to->strides[i] * from->dims[i] &&
                  m.from_step[last] == from->strides[i] * from->dims[i];
    if (!merges) last = m.rank++;
    m.dims[last] = merges ? m.dims[last] * from->dims[i] : from->dims[i];
    m.to_step[last] = to->strides[i];
    m.from_step[last] = from->strides[i];
  }
  return m;
}
