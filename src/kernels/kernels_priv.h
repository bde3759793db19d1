/* kernels_priv.h -- the functions of kernels.def, and its table's levels. */
#ifndef KERNELS_KERNELS_PRIV_H
#define KERNELS_KERNELS_PRIV_H
#include "kernels/fused.h"
#include "kernels/kernels.h"
#include "kernels/packing.h"

#define KERN_NEEDS_scalar 0
#define KERN_NEEDS_vector BASE_ISA_VECTOR
#define KERN_NEEDS_avx2 (BASE_ISA_VECTOR | BASE_ISA_AVX2 | BASE_ISA_FMA | BASE_ISA_F16C)
#define KERN_NEEDS_avx512 \
  (KERN_NEEDS_avx2 | BASE_ISA_AVX512F | BASE_ISA_AVX512BW | BASE_ISA_AVX512VL | BASE_ISA_AVX512DQ)
#define KERN_NEEDS_avx512_vnni (KERN_NEEDS_avx512 | BASE_ISA_AVX512_VNNI)

#define KERNEL(family, bits, isa, flags, lanes, function) td_status function(const base_call *call);
#define VECTORS(family, flags, function)                     \
  td_status kern_##function##_vector(const base_call *call); \
  td_status kern_##function##_avx2(const base_call *call);   \
  td_status kern_##function##_avx512(const base_call *call);
#define WIDE(family, flags, function)                        \
  td_status kern_##function##_scalar(const base_call *call); \
  VECTORS(family, flags, function)
#define RARE VECTORS
#define BYTES(family, flags, function)                     \
  td_status kern_##function##_avx2(const base_call *call); \
  td_status kern_##function##_avx512_vnni(const base_call *call);
#include "kernels/kernels.def"
#undef KERNEL
#undef VECTORS
#undef RARE
#undef WIDE
#undef BYTES
extern const kern_fused_level kern_fused_level_scalar;
extern const kern_fused_level kern_fused_level_vector;
extern const kern_fused_level kern_fused_level_avx2;
extern const kern_fused_level kern_fused_level_avx512;
extern const kern_packing kern_packing_scalar;
extern const kern_packing kern_packing_vector;
extern const kern_packing kern_packing_avx2;
extern const kern_packing kern_packing_avx512;
#endif
