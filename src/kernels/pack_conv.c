/* pack_conv.c -- packing the weights of convolutions. */
#include "kernels/pack_conv.h"

bool kern_conv_packed_size(int64_t groups, int64_t group_out, int64_t taps, int64_t group_in, int64_t panel,
                           int64_t *count) {
  const int64_t sizes[] = {groups, (group_out + panel - 1) / panel, taps, group_in, panel};
  return base_numel(5, sizes, count);
}

void kern_pack_conv(const base_tensor *w, bool transposed, int64_t groups, int64_t panel, float *to) {
  int64_t taps = 1, outer = w->dims[0] / groups, inner = w->dims[1];
  int64_t group_out = transposed ? inner : outer, group_in = transposed ? outer : inner;
  for (int32_t i = 2; i < w->rank; i++) taps *= w->dims[i];
  base_walk walk;
  const int64_t *strides[] = {w->strides + 2};
  for (int64_t g = 0; g < groups; g++) {
    for (int64_t first = 0; first < group_out; first += panel) {
      base_walk_start(&walk, w->rank - 2, w->dims + 2, 1, strides);
      for (int64_t tap = 0; tap < taps; tap++, base_walk_next(&walk))
        for (int64_t c = 0; c < group_in; c++)
          for (int64_t i = 0; i < panel; i++) {
            int64_t m = first + i, row = g * outer + (transposed ? c : m), column = transposed ? m : c;
            const float *from = (const float *)w->data + walk.offset[0];
            *to++ = m < group_out ? from[row * w->strides[0] + column * w->strides[1]] : 0;
          }
    }
  }
}
