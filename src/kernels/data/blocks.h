/* blocks.h -- blocks of pixels in the channels, and side by side: td::depth_to_space and td::space_to_depth as copies
 * between tensors of six dimensions. */
#ifndef KERNELS_BLOCKS_H
#define KERNELS_BLOCKS_H
#include "kernels/attrs.h"
#include "base/base.h"

/* out[0] and operand 0 of a call as tensors of equal dims. TD_BAD_ARGUMENT: sizes do not divide by the block. */
td_status kern_blocks_of(const base_call *call, bool to_space, base_tensor *to, base_tensor *from);
#endif
