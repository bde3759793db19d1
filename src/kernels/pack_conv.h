/* pack_conv.h -- weights of convolutions as kernels read them: per group panels of `panel` output channels,
 *
 *     packed[group][channel / panel][tap][channel in][channel % panel]
 *
 * taps in row-major order of the kernel. The last panel of each group is padded with zeros. Small groups share a panel:
 *
 *     packed[group / shared][tap][channel in][group % shared * (channels of a group) + channel] */
#ifndef KERNELS_PACK_CONV_H
#define KERNELS_PACK_CONV_H
#include "kernels/pack.h"

/* How many groups share a panel; 1: none. Those of transposed convolutions do not. */
int64_t kern_conv_shared(bool transposed, int64_t groups, int64_t group_out, int64_t group_in, int64_t panel);
/* Floats of the packed form. False: overflow, or a size that is negative. */
bool kern_conv_packed_size(bool transposed, int64_t groups, int64_t group_out, int64_t taps, int64_t group_in,
                           int64_t panel, int64_t *count);
/* Channels in of a group as packed weights of `dtype` have them: bf16 comes in pairs (kern_pack_pairs), tap by tap. */
static inline int64_t kern_conv_stored_channels(td_dtype dtype, int64_t group_in) {
  return dtype == TD_BF16 ? kern_pairs_depth(group_in) : group_in;
}
/* Packs w [groups * group_out, group_in, kernel...], or transposed [groups * group_in, group_out, kernel...]: f32 of
 * any strides; w[c] times scale[c], where that is not NULL (never of a transposed one). `to` has kern_conv_packed_size
 * floats. */
void kern_pack_conv(const base_tensor *w, const base_f32 *scale, bool transposed, int64_t groups, int64_t panel,
                    float *to);
#endif
