/* blocks.c -- see data.h. */
#include "kernels/data/data.h"

#include <string.h>

/* [n, c, h, w] of the deep tensor and [block, block] of the place inside a block: `deep` has c * block * block
 * channels, `wide` has sides block times as long. DCR: the place is the slow index of the channel, CRD: the fast one.
 */
td_status kern_blocks_of(const base_call *call, bool to_space, base_tensor *to, base_tensor *from) {
  const base_tensor *in = base_in(call, 0), *out = base_out(call, 0);
  const base_tensor *deep = to_space ? in : out, *wide = to_space ? out : in;
  int64_t block = base_attr_int(call->attrs, KERN_BLOCKS_SIZE), channels = wide->dims[1];
  if (deep->dims[1] != channels * block * block || wide->dims[2] != deep->dims[2] * block ||
      wide->dims[3] != deep->dims[3] * block)
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "the sizes of an image do not divide by a block of %lld",
                     (long long)block);
  bool place_first = strcmp(base_attr_str(call->attrs, KERN_BLOCKS_MODE), "DCR") == 0;
  int64_t place = place_first ? channels : 1, channel = place_first ? 1 : block * block;
  *to = *from = (base_tensor){.dtype = in->dtype, .rank = 6};
  base_tensor *d = to_space ? from : to, *w = to_space ? to : from;
  int64_t dims[6] = {deep->dims[0], channels, deep->dims[2], block, deep->dims[3], block};
  int64_t deep_strides[6] = {deep->strides[0], channel * deep->strides[1],
                             deep->strides[2], place * block * deep->strides[1],
                             deep->strides[3], place * deep->strides[1]};
  int64_t wide_strides[6] = {wide->strides[0], wide->strides[1],         block * wide->strides[2],
                             wide->strides[2], block * wide->strides[3], wide->strides[3]};
  memcpy(to->dims, dims, sizeof dims);
  memcpy(from->dims, dims, sizeof dims);
  memcpy(d->strides, deep_strides, sizeof dims);
  memcpy(w->strides, wide_strides, sizeof dims);
  d->data = deep->data;
  w->data = wide->data;
  return TD_OK;
}
