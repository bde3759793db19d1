/* packing.h -- weights into panels, as pack.h, pack_conv.h and pack_winograd.h say and to the same bits, with the
 * instructions of a level. */
#ifndef KERNELS_PACKING_H
#define KERNELS_PACKING_H
#include "kernels/products/pack.h"
#include "kernels/products/pack_conv.h"
#include "kernels/products/pack_winograd.h"

typedef struct kern_packing {
  __typeof__(kern_pack) *matrix;
  __typeof__(kern_pack_conv) *conv;
  __typeof__(kern_pack_winograd) *winograd;
} kern_packing;

/* That of the widest level whose needs lie in `isa`: fast for panels as wide as a vector of it. */
const kern_packing *kern_packing_of(uint32_t isa);
#endif
