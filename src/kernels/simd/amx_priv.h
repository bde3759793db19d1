/* amx_priv.h -- the vocabulary of tiles: AMX has eight registers of up to 16 rows of 64 bytes, whose sizes a thread
 * sets once for all of them (Intel SDM vol. 1 §18). A product adds rows of A times a tile of B to a tile of sums:
 *
 *     registers 0 to 3   sums, 16 columns each
 *     registers 4, 5     A: rows of at most 64 bytes
 *     registers 6, 7     B: [k / depth][column][depth], a row for each 4 bytes of A
 *
 * Instructions have a register in their name, so that these are macros of numbers. They say that they touch memory:
 * intrinsics of compilers do not. */
#ifndef KERNELS_AMX_PRIV_H
#define KERNELS_AMX_PRIV_H
#include "kernels/simd/product_tile_priv.h"
#include "kernels/simd/simd_priv.h"

enum { AMX_ROWS = 16, AMX_MOST_ROWS = 2 * AMX_ROWS, AMX_BYTES = 64, AMX_COLUMNS = 16 };

/* What ldtilecfg reads: of each tile its rows, and the bytes of one. */
enum { AMX_TILES = 8 };
typedef struct amx_sizes {
  uint8_t palette, start, reserved[14];
  uint16_t bytes[16];
  uint8_t rows[16];
} amx_sizes;

#if V_NATIVE
#define AMX_LOAD(tile, from, pitch) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(from), "r"((int64_t)(pitch)) : "memory")
/* What lies beyond L1 and is not read again soon: A, which is, stays there. */
#define AMX_LOAD_FAR(tile, from, pitch) \
  __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm" #tile : : "r"(from), "r"((int64_t)(pitch)) : "memory")
#define AMX_STORE(tile, to, pitch) \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(to), "r"((int64_t)(pitch)) : "memory")
#define AMX_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile : :)
/* u8 times i8 to i32; pairs of bf16 to f32. */
#define AMX_DOT_U8(sum, a, b) __asm__ volatile("tdpbusd %%tmm" #b ", %%tmm" #a ", %%tmm" #sum : :)
#define AMX_DOT_BF16(sum, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sum : :)
V_INLINE void amx_configure(const amx_sizes *sizes) { __asm__ volatile("ldtilecfg %0" : : "m"(*sizes)); }
V_INLINE void amx_release(void) { __asm__ volatile("tilerelease" : :); }
#else
#include "kernels/simd/amx_vector_priv.h"
#endif

/* A of `rows` rows, at most two tiles', and `words` words of 32 bits along k. With one tile of rows all sums are its.
 * A thread that is done has to release its tiles: what it saves at a switch is larger while it has some. */
V_INLINE void amx_begin(int64_t rows, int64_t words) {
  amx_sizes sizes = {.palette = 1};
  const int64_t first = base_min_i64(rows, AMX_ROWS), second = rows - first;
  for (int i = 0; i < 4; i++) {
    sizes.rows[i] = (uint8_t)(second > 0 && i >= 2 ? second : first);
    sizes.bytes[i] = AMX_COLUMNS * 4;
  }
  sizes.rows[4] = (uint8_t)first;
  sizes.rows[5] = (uint8_t)second;
  sizes.bytes[4] = (uint16_t)(words * 4);
  sizes.bytes[5] = (uint16_t)(second > 0 ? words * 4 : 0);
  sizes.rows[6] = sizes.rows[7] = (uint8_t)words;
  sizes.bytes[6] = sizes.bytes[7] = AMX_COLUMNS * 4;
  amx_configure(&sizes);
}
/* Rows of each tile, at least one, that `count` rows make: as many of all, so that the last tile may begin with rows of
 * the one before. */
V_INLINE int64_t amx_even_rows(int64_t count) { return base_ceil_div(count, base_ceil_div(count, AMX_MOST_ROWS)); }
V_INLINE void amx_end(void) { amx_release(); }

enum { AMX_PANELS = 4, AMX_WIDTH = AMX_PANELS * AMX_COLUMNS };
/* Sums of one or two registers of rows times some panels: u8 times i8 to i32, and pairs of bf16 to f32. amx_begin was
 * told of rows and words. `panels`: 1, 2, or AMX_PANELS. */
void KERN_PART_NAME(amx_u8)(const product_tile *t, int64_t rows, int64_t panels);
void KERN_PART_NAME(amx_bf16)(const product_tile *t, int64_t rows, int64_t panels);
/* The same of bf16, with scales (product_tile); no start. */
void KERN_PART_NAME(amx_scaled)(const product_tile *t, int64_t rows, int64_t panels);
#endif
