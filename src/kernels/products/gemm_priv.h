/* gemm_priv.h -- a matrix product with packed B, cut into tasks: the layer between the tile (gemm_tile_priv.h) and the
 * kernels. A task is a chunk of rows times some groups of panels; a group is as wide as a tile. */
#ifndef KERNELS_GEMM_PRIV_H
#define KERNELS_GEMM_PRIV_H
#include "kernels/products/epilogue_priv.h"
#include "kernels/products/gemm_tile_priv.h"
#include "kernels/products/pack.h"
#include "kernels/products/pixel_tiles_priv.h"
#include "kernels/tuning.h"

/* How pairs of bf16 are multiplied (pairs_priv.h): an element of A is a pair then, and so is one of B's. */
typedef struct gemm_pairs {
  void (*tile)(const gemm_tile *t, int64_t rows, int64_t panels, const kern_epilogue *e); /* as that of f32 */
  /* n floats, rounded to bf16, as (n + 1) / 2 pairs; `to` may be where they are, or in front of it */
  void (*narrow)(float *to, const float *from, int64_t n);
  void (*pixels)(const struct pixel_tiles *p, int64_t panels); /* pixel_tiles_priv.h; side by side */
  /* `pixels` neighbours of so many planes, `plane` floats apart, rounded, as (planes + 1) / 2 pairs a pixel */
  void (*from_planes)(float *to, const float *from, int64_t plane, int64_t planes, int64_t pixels);
  void (*matrix)(float *to, const kern_matrix *m); /* as all panels of B, of (k + 1) / 2 pairs each */
} gemm_pairs;
/* Makes pairs of `rows` rows of `width` floats, those of a row one behind the other: rounds them. */
V_INLINE void gemm_round_rows(const gemm_pairs *pairs, float *to, const float *from, int64_t pitch, int64_t rows,
                              int64_t width) {
  if (pitch == width && width % 2 == 0) pairs->narrow(to, from, rows * width);
  else
    for (int64_t i = 0; i < rows; i++) pairs->narrow(to + i * ((width + 1) / 2), from + i * pitch, width);
}
/* The same of rows of bf16, which are copied. */
V_INLINE void gemm_copy_rows(float *to, const uint16_t *from, int64_t pitch, int64_t rows, int64_t width) {
  const int64_t pairs = (width + 1) / 2;
  for (int64_t i = 0; i < rows; i++, to += pairs, from += pitch) {
    if (width % 2) to[pairs - 1] = 0; /* the second of its last pair */
    memcpy(to, from, (size_t)width * sizeof *from);
  }
}
/* C and the residual of a call, which the epilogue loses, where they are bf16. */
V_INLINE gemm_bf16 gemm_bf16_of(const base_call *call, kern_epilogue *e) {
  const base_tensor *y = base_out(call, 0), *residual = base_in(call, KERN_IN_RESIDUAL);
  gemm_bf16 b = {0};
  if (y->dtype == TD_BF16) b.c = y->data, b.c_pitch = kern_pitch(y);
  if (!residual || residual->dtype != TD_BF16) return b;
  b.residual = residual->data;
  b.residual_pitch = e->residual_pitch;
  e->residual = NULL;
  return b;
}
/* Are pixels or rows of x, `width` numbers wide and `pitch` apart, pairs as they lie? A part of a concatenation may
 * begin between two. */
V_INLINE bool gemm_are_pairs(const base_tensor *x, int64_t width, int64_t pitch) {
  return x->dtype == TD_BF16 && width % 2 == 0 && pitch % 2 == 0 && (uintptr_t)x->data % sizeof(float) == 0;
}
extern const gemm_pairs KERN_PART_NAME(gemm_pairs);

/* Rows of A that are made: those of one chunk at a time. */
typedef struct gemm_front {
  kern_chain *chain; /* by it (kern_chain_in_front); NULL: there is none */
  bool copied;       /* and are bf16, but not whole pairs */
  int64_t width;     /* numbers of a row */
  float *rows;       /* room for those of the largest chunk, one after the other */
  int64_t chunk;     /* that they are of; -1: none yet */
} gemm_front;

/* Rows of A as gemm_tile.packed has them: tile after tile of a chunk of rows, chunks where the grid has their first
 * tile. A worker packs a chunk at the first task that it is in. */
typedef struct gemm_packed {
  float *tiles;
  bool *done; /* chunk by chunk */
} gemm_packed;

/* Rows [k0, k1) of some panels. */
typedef struct gemm_part {
  int64_t panel, panels, k0, k1;
} gemm_part;

/* B in fewer bits than f32 has: it is widened block by block, in cache, for several rows of A; for one, and where there
 * is multiply_few for few, as it is multiplied. All give the same bits: each weight is one f32. */
enum { GEMM_FEW_ROWS = 4 }; /* at once */
typedef struct gemm_narrow gemm_narrow;
struct gemm_narrow {
  const void *layout; /* of the two functions */
  const uint8_t *b;
  int64_t step;         /* k is cut at multiples of it */
  const uint8_t *lines; /* of the first panel; one has V_LANES words, which hold `line_rows` rows of k */
  int64_t line_rows;
  int64_t panel_bytes; /* from panel to panel */
  /* [panel][k][V_LANES], `pitch` floats from panel to panel; may write rows up to the next multiple of `step` */
  void (*widen)(const gemm_narrow *w, const gemm_part *part, float *to, int64_t pitch);
  /* sums[panels * V_LANES] += the row x times the part; x has elements up to the next multiple of `step` */
  void (*multiply)(const gemm_narrow *w, const gemm_part *part, const float *x, float *sums);
  /* The same of so many rows, at most GEMM_FEW_ROWS, x_pitch and part->panels * V_LANES floats apart. NULL: there is
   * none. */
  void (*multiply_few)(const gemm_narrow *w, const gemm_part *part, const float *x, int64_t x_pitch, int64_t rows,
                       float *sums);
  float *block; /* room for a widened block; NULL with so few rows */
};

/* C[m, n] = A[m, k] B[k, n] and an epilogue. */
typedef struct gemm_product {
  int64_t m, n, k;
  const float *a;         /* rows of k; pitch a_pitch */
  int64_t a_pitch, a_row; /* that `a` begins with */
  gemm_front *front;      /* NULL: `a` has all rows */
  gemm_packed *packed;    /* NULL: no row is */
  const float *b;         /* panels: pack.h */
  gemm_narrow *narrow;    /* NULL; or instead of b */
  float *c;               /* rows of n; pitch c_pitch */
  int64_t c_pitch;
  const gemm_pairs *pairs; /* NULL: elements are f32 */
  gemm_bf16 bf16;
  const kern_epilogue *e;
} gemm_product;

/* The tasks of a product, from its sizes and the tuning alone: row_chunks x column_chunks, numbered so that neighbours
 * share what is dearer to load. */
typedef struct gemm_grid {
  int64_t panels, groups, tiles; /* groups of panels; tiles of rows */
  int64_t row_chunks, column_chunks;
  bool rows_first; /* neighbours share rows of A; else columns of B */
  const kern_tuning *tuning;
} gemm_grid;
gemm_grid KERN_NAME(gemm_grid)(const base_call *call, int64_t m, int64_t n, int64_t k);
/* Makes the tasks of a chunk of rows neighbours, and chunks such as L2 holds, for rows that `front` makes; takes room
 * for them. False: out of memory. */
bool KERN_NAME(gemm_front_of)(const base_call *call, const gemm_product *g, gemm_grid *grid, gemm_front *front);
/* Where the tuning says so, takes room for packed rows and sets g->packed. False: out of memory. */
bool KERN_NAME(gemm_packed_of)(const base_call *call, gemm_product *g, const gemm_grid *grid, gemm_packed *packed);
/* The two functions, for panels of bf16 or f16; layout: k. Of levels that have them (kern_takes_halves); others do
 * nothing. */
void KERN_NAME(gemm_halves)(td_dtype dtype, gemm_narrow *to);
/* Takes room for what `narrow` widens, and lets more rows meet it where that leaves tasks enough; before rows are
 * packed or made. False: out of memory. */
bool KERN_NAME(gemm_narrow_of)(const base_call *call, const gemm_product *g, gemm_grid *grid);
/* td::linear and td::conv, their weights pairs of bf16 where `pairs` is not NULL. */
td_status KERN_NAME(linear_by)(const base_call *call, const gemm_pairs *pairs);
td_status KERN_NAME(conv_by)(const base_call *call, const gemm_pairs *pairs);
/* aten::matmul, its operands rounded to such pairs where `pairs` is not NULL. */
td_status KERN_NAME(matmul_by)(const base_call *call, const gemm_pairs *pairs);
/* td::expand_depthwise, whose expansion's weights are such pairs. */
td_status KERN_NAME(expand_depthwise_by)(const base_call *call, const gemm_pairs *pairs);
void KERN_NAME(gemm_task)(const gemm_product *g, const gemm_grid *grid, int64_t task);
/* The call's share of a product; makes or packs rows as they gain by it. */
td_status KERN_NAME(gemm_run)(const base_call *call, gemm_product *g);
/* The rows of a matrix of any strides, dense, one after the other. */
void KERN_NAME(gemm_rows)(float *to, const kern_matrix *m);
#endif
