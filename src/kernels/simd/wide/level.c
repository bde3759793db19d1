/* level.c -- the rows of kernels.def that the level has. */
#include "kernels/simd/simd_priv.h"

#define PASTE(a, b) a##b
#define OF_LEVEL(what, level) PASTE(what, level)
#define STRING(x) #x
#define NAME(function) STRING(function)
#define ROW(family, bits, signature, flags, function) \
  {NAME(function), function, OF_LEVEL(KERN_NEEDS_, KERN_ROWS_OF), family, bits, signature, flags, KERN_LANES},
#define FLOATS(family, flags, function) \
  ROW(family, 32, (flags)&KERN_MOVES ? KERN_OF_BITS : KERN_OF_F32, flags, KERN_NAME(function))

#define KERNEL(...)
#if defined KERN_ROWS_wide
#define WIDE(family, flags, function) FLOATS(family, flags, function)
#else
#define WIDE(...)
#endif
#if defined KERN_ROWS_vectors
#define VECTORS(family, flags, function) FLOATS(family, flags, function)
#else
#define VECTORS(...)
#endif
#if defined KERN_ROWS_rare
#define RARE(family, flags, function) FLOATS(family, flags, function)
#else
#define RARE(...)
#endif
#if defined KERN_ROWS_bytes
#include "kernels/simd/bytes_priv.h"
#define BYTES(family, flags, function) \
  ROW(family, 8, BYTES_BY_FOURS ? KERN_OF_FOURS : KERN_OF_TWOS, flags, KERN_PART_NAME(function))
#else
#define BYTES(...)
#endif
#if defined KERN_ROWS_bf16
#define BF16(family, flags, function) ROW(family, 16, KERN_OF_PAIRS, flags, KERN_PART_NAME(function))
#else
#define BF16(...)
#endif
#if defined KERN_ROWS_tiles
#define TILES(family, bits, flags, function) \
  ROW(family, bits, (bits) == 8 ? KERN_OF_BYTE_TILES : KERN_OF_PAIR_TILES, flags, KERN_PART_NAME(function))
#else
#define TILES(...)
#endif
static const kern_row rows[] = {
#include "kernels/kernels.def"
};
const kern_row_list KERN_PART_NAME(row_list) = {rows, sizeof rows / sizeof *rows};
