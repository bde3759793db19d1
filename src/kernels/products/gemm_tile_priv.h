/* gemm_tile_priv.h -- the tile under all matrix products of wide kernels: C[rows, columns] (+)= A[rows, k] B[k,
 * columns] and an epilogue, with the sums in registers.
 *
 * A is a table of row pointers, so that a row can lie anywhere: rows of a matrix, pixels under a tap of a window, a row
 * of zeros. A product over several taps is one call: for each of `taps` the table has pointers to `k` floats, the
 * next tap's a_pitch behind. B lies in panels of V_LANES columns (pack.h): panel p starts at b + p * b_panel and has
 * taps * k rows.
 *
 *     const float *a[GEMM_MAX_ROWS] = {...};
 *     gemm_tile t = {.a = a, .taps = 1, .k = k, .b = b, .b_panel = k * V_LANES, .c = c, .c_pitch = n, .columns = n};
 *     KERN_NAME(gemm_tile)(&t, rows, panels, &epilogue);
 *
 * The panels of a strip are done together; strips of as many panels follow one another to the end of the columns.
 *
 * 1 <= panels <= GEMM_MAX_PANELS, 1 <= rows <= gemm_max_rows(panels): every number of rows has its own loop. Fewer
 * rows than the most cost little: spread rows evenly (gemm_split) instead of leaving a thin tail. A row on its
 * own can have up to GEMM_THIN_PANELS: it has sums enough to hide their latency then, and as many streams of B as keep
 * memory busy; more than 8 would crowd one set of the cache where K is a power of two.
 *
 * Each element of C is one chain of multiply-adds along the taps and k: with `more` the chain goes on from what is in
 * C, so that a product cut along k has the bits of a whole one. Rows do not see their neighbours. */
#ifndef KERNELS_GEMM_TILE_PRIV_H
#define KERNELS_GEMM_TILE_PRIV_H
#include "kernels/simd/simd_priv.h"
#include "kernels/tuning.h"

/* Sums, a row of B and an element of A fill the registers. GEMM_WHOLE_TILES: X(rows, panels) of the tile of most rows,
 * for every number of panels. */
#if V_REGISTERS == 32
enum { GEMM_MAX_PANELS = 4, GEMM_THIN_PANELS = 8, GEMM_MAX_ROWS = 12 };
#define GEMM_WHOLE_TILES(X) X(12, 1) X(12, 2) X(8, 3) X(6, 4)
#elif V_NATIVE
enum { GEMM_MAX_PANELS = 3, GEMM_THIN_PANELS = 8, GEMM_MAX_ROWS = 12 };
#define GEMM_WHOLE_TILES(X) X(12, 1) X(6, 2) X(4, 3)
#else
enum { GEMM_MAX_PANELS = 2, GEMM_THIN_PANELS = 2, GEMM_MAX_ROWS = 6 };
#define GEMM_WHOLE_TILES(X) X(6, 1) X(4, 2)
#endif

/* Rows of a tile of pairs whose two panels read their own parts of them (gemm_tile.a_panel), at most. */
enum { GEMM_PAIR_ROWS = V_REGISTERS == 32 ? 12 : 4 };

/* C and the residual of a product of pairs (pairs_priv.h) where they are bf16; pitches are elements from row to row. */
typedef struct gemm_bf16 {
  uint16_t *c; /* NULL: it is f32 */
  int64_t c_pitch;
  const uint16_t *residual; /* NULL: there is none, or the epilogue has it */
  int64_t residual_pitch;
} gemm_bf16;
/* From row `row` and column `column` on. */
V_INLINE gemm_bf16 gemm_bf16_at(const gemm_bf16 *b, int64_t row, int64_t column) {
  gemm_bf16 at = *b;
  if (b->c) at.c += row * b->c_pitch + column;
  if (b->residual) at.residual += row * b->residual_pitch + column;
  return at;
}

typedef struct gemm_tile {
  const float *const *a; /* a[tap * a_pitch + row]: k floats, from a_first on */
  int64_t a_pitch, a_first, taps, k;
  int64_t a_panel;     /* floats that a second panel of pairs reads behind the first, in each row: two groups; else 0 */
  bool a_whole;        /* behind a tile's rows are others that may be read, up to the most that a tile has */
  const float *packed; /* NULL, or the rows once more, [k][GEMM_PACKED_ROWS], which tiles that GEMM_PACKS read */
  const float *b;
  int64_t b_panel; /* floats from panel to panel */
  int64_t b_skip;  /* floats between the rows of one tap and those of the next: 0 unless taps are left out */
  float *c;
  int64_t c_pitch;
  gemm_bf16 bf16;
  int64_t columns; /* of all strips; of the last panel some may be missing */
  bool more;       /* go on from the sums in C, which are f32 */
  /* Memory that a later tile will read, fetched by each strip: one line for every row of B, `ahead_step` floats apart;
   * by large ones to the second-level cache only, as it is too much for the first. NULL: none. */
  const float *ahead;
  int64_t ahead_step;
  bool rolled;     /* one step of k in a round of the loop: kern_tuning's tile_steps */
  int64_t b_ahead; /* floats by which a longer round fetches rows of B ahead: kern_tuning's b_lines */
} gemm_tile;

/* Rows that are packed, element by element, come through one pointer and a line at a time: where their pitch is a
 * multiple of a page or nearly so, the lines of all rows would fall into one set of the first-level cache. */
enum { GEMM_PACKED_ROWS = 8, GEMM_PACKED_PANELS = 3 };
#if V_REGISTERS == 32
#define GEMM_PACKS(panels) ((panels) == GEMM_PACKED_PANELS)
#else
#define GEMM_PACKS(panels) false
#endif

/* The most rows of a tile of so many panels. */
V_INLINE int64_t gemm_max_rows(int64_t panels) {
#define ROWS(rows, panels) rows,
  static const uint8_t rows[] = {GEMM_WHOLE_TILES(ROWS)};
#undef ROWS
  return panels > GEMM_MAX_PANELS ? 1 : rows[panels - 1];
}
/* The same by this CPU's numbers. */
V_INLINE int64_t gemm_tile_rows(const kern_tuning *t, int64_t panels) {
  const int64_t most = gemm_max_rows(panels);
  return panels <= 2 ? base_min_i64(most, t->tall_rows) : most;
}
/* In how many groups to do `panels`, best in `wide` at a time: some are wider rather than narrower, as tiles allow. */
V_INLINE int64_t gemm_groups(int64_t panels, int64_t wide) {
  return base_max_i64(panels / wide, (panels + GEMM_MAX_PANELS - 1) / GEMM_MAX_PANELS);
}
/* Part `i` of `total` cut into `parts` of nearly one size: where it starts. Part `parts` is the end. */
V_INLINE int64_t gemm_split(int64_t total, int64_t parts, int64_t i) {
  return total / parts * i + base_min_i64(i, total % parts);
}
/* `e`: the epilogue, whose vectors start at the tile's first row and column (kern_epilogue_at); NULL: none yet. */
void KERN_NAME(gemm_tile)(const gemm_tile *t, int64_t rows, int64_t panels, const kern_epilogue *e);
#endif
