/* isa.h -- instruction sets as bits: `sys` finds those the machine has, `kernels` names those a kernel needs. */
#ifndef BASE_ISA_H
#define BASE_ISA_H
#include <stdint.h>

enum {
  BASE_ISA_AVX2 = 1 << 0,
  BASE_ISA_FMA = 1 << 1,
  BASE_ISA_F16C = 1 << 2,
  BASE_ISA_AVX512F = 1 << 3,
  BASE_ISA_AVX512BW = 1 << 4,
  BASE_ISA_AVX512VL = 1 << 5,
  BASE_ISA_AVX512DQ = 1 << 6,
  BASE_ISA_AVX512_VNNI = 1 << 7,
  BASE_ISA_AVX512_BF16 = 1 << 8,
  BASE_ISA_AMX_TILE = 1 << 9,
  BASE_ISA_AMX_INT8 = 1 << 10,
  BASE_ISA_AMX_BF16 = 1 << 11,
  BASE_ISA_VECTOR = 1 << 12,   /* the compiler's vector extensions: every machine has it, `scalar` kernels do without */
  BASE_ISA_EMULATED = 1 << 13, /* parts that check builds have for tests: chosen by name alone */
  BASE_ISA_COUNT = 14
};

/* Bits of `needs` that are missing from `has`; 0: it can run. */
static inline uint32_t base_isa_lacks(uint32_t has, uint32_t needs) {
  return needs & ~(has | BASE_ISA_VECTOR | BASE_ISA_EMULATED);
}
#endif
