/* dot_tile_priv.h -- the tile of columns that are too few for a panel: lanes go along a row of A and its column of B
 * instead of across columns, and are added up at the end.
 *
 *     C[row, column] = sum over runs, taps and k of A[run][row][tap, k] B[column][run][tap][k], then the epilogue
 *
 * How taps make up runs changes no bit. */
#ifndef KERNELS_DOT_TILE_PRIV_H
#define KERNELS_DOT_TILE_PRIV_H
#include "kernels/simd/simd_priv.h"

/* Rows that are best done at once: as many as their sums leave registers. */
#if V_REGISTERS == 32
#define DOT_TILE_EIGHT 1
enum { DOT_TILE_ROWS = 8 };
#else
#define DOT_TILE_EIGHT 0
enum { DOT_TILE_ROWS = 4 };
#endif

typedef struct dot_tile {
  const float *const *a; /* a[run * a_pitch + row]: taps of k floats */
  int64_t a_pitch, runs, taps, k;
  const float *b; /* [column][run][tap][kern_dot_pitch(k)] */
  float *c;
  int64_t c_pitch;
} dot_tile;

/* Floats from tap to tap of a column: whole vectors. What is behind a tap may hold anything finite. */
V_INLINE int64_t kern_dot_pitch(int64_t k) { return (k + V_LANES - 1) / V_LANES * V_LANES; }
/* `e` starts at the tile's first row and column. Rows and columns do not see their neighbours. */
void KERN_NAME(dot_tile)(const dot_tile *t, int64_t rows, int64_t columns, const kern_epilogue *e);
#endif
