/* product_tile_priv.h -- a tile of a product whose rows of A are made of runs: an image's rows of taps, or all of k. */
#ifndef KERNELS_PRODUCT_TILE_PRIV_H
#define KERNELS_PRODUCT_TILE_PRIV_H
#include "base/base.h"

/* Rows of A times panels of B. The runs of a row stand as far from its first byte in each row; each is as many blocks,
 * whose columns of B follow one another. Dot instructions read but a[0], one word after the other. */
typedef struct product_tile {
  const void *a[2];         /* the first row of each register's rows */
  int64_t a_pitch, a_block; /* bytes from row to row, from block to block of a run */
  int64_t a_panel;          /* to what the next panel meets; 0: all meet the same. Read by amx_bf16 alone */
  const int64_t *run;       /* bytes to each */
  int64_t runs;             /* of a row */
  int64_t blocks, words;    /* of a run; words of 32 bits of a block */
  const void *b;            /* of the first panel */
  int64_t b_block, b_panel; /* bytes from block to block, from panel to panel */
  bool b_near;              /* L1 holds it until the next tile is multiplied by it */
  const void *start;        /* what sums begin with, a panel's columns of each panel; NULL: zeros */
  int64_t start_pitch;      /* bytes from row to row of that; 0: all rows begin so. Dot instructions take 0 alone */
  void *sums;               /* words: rows of sums_pitch */
  int64_t sums_pitch;
  /* ---- amx_scaled alone, of one run ---- */
  const float *scales; /* a panel's columns of each scale_blocks blocks of a panel; */
  int64_t scale_panel; /* floats from panel to panel */
  int64_t scale_blocks;
  int64_t a_low; /* bytes to the second part of A, which is added */
} product_tile;
#endif
