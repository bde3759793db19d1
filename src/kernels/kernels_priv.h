/* kernels_priv.h -- what tables of kernels share with the kernels of levels. */
#ifndef KERNELS_KERNELS_PRIV_H
#define KERNELS_KERNELS_PRIV_H
#include "kernels/kernels.h"

#define LEVEL(name, architecture, needs, ...) enum { KERN_NEEDS_##name = needs };
#define PART LEVEL
#include "base/levels.def"
#undef LEVEL
#undef PART

#define KERNEL(family, bits, isa, flags, lanes, function) td_status function(const base_call *call);
#define WIDE(...)
#define VECTORS(...)
#define RARE(...)
#define BYTES(...)
#define BF16(...)
#define TILES(...)
#include "kernels/kernels.def"
#undef KERNEL
#undef WIDE
#undef VECTORS
#undef RARE
#undef BYTES
#undef BF16
#undef TILES

/* Of a level: simd/wide/level.c. */
typedef struct kern_row_list {
  const kern_row *at;
  uint32_t count;
} kern_row_list;
#endif
