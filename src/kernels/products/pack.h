/* pack.h -- weights in panels, as the wide matrix kernels read them: `panel` columns side by side, row after row,
 *
 *     w[n / panel * k_count * panel + k * panel + n % panel]
 *
 * with zeros behind the last column. A panel is as wide as a vector of its level (kern_row.lanes). */
#ifndef KERNELS_PACK_H
#define KERNELS_PACK_H
#include "kernels/kernels.h"

#include <math.h>

enum { KERN_MAX_PANEL = 64 };

/* A matrix of any strides, in elements. */
typedef struct kern_matrix {
  const float *data; /* of any alignment, where it comes from a model */
  int64_t k, n;      /* rows and columns */
  int64_t k_stride, n_stride;
} kern_matrix;

/* Subnormal weights, scaled ones too, become zeros when they are packed. Trained layers have them in channels that no
 * longer do anything; each product with one takes a hundred times as long as another, for at most 2^-126 |x|.
 * Instructions of bf16 take them for zeros, too. */
static inline float kern_normal(float w) { return fabsf(w) < 0x1p-126F ? copysignf(0, w) : w; }

/* Floats in the packed form of a [k, n] matrix; false on overflow. */
bool kern_pack_count(int64_t k, int64_t n, int64_t panel, size_t *count);
/* Writes panels [first, last) of m, column n times scale[n] (NULL: 1), to their places in `to`, which is the start of
 * all panels: callers may share out the panels. */
void kern_pack(float *to, const kern_matrix *m, const base_f32 *scale, int64_t panel, int64_t first, int64_t last);
/* Panels of k rows each as pairs of bf16: pairs of rows, of each column two neighbours along k side by side, and behind
 * them zeros up to `stored` rows. These are k, made even; or, for kernels that take blocks of up to KERN_TILE_PAIRS
 * pairs at once (tiles of AMX), as few blocks of one size as hold them. */
enum { KERN_TILE_PAIRS = 16 };
static inline int64_t kern_pairs_depth(int64_t k) { return k + k % 2; }
int64_t kern_tiles_depth(int64_t k);
/* How much faster the kernel of a row multiplies pairs than that of its level does f32. */
double kern_pairs_speed(const kern_row *row);
/* Which of the two the kernel of a row takes. */
int64_t kern_pairs_depth_of(const kern_row *row, int64_t k);
/* Does the kernel of a row that takes pairs take blocks of them at once? */
bool kern_takes_tiles(const kern_row *row);
void kern_pack_pairs(const float *from, int64_t k, int64_t panels, int64_t panel, int64_t stored, uint16_t *to);
/* `stored` of `count` elements of whole panels with `columns` columns; -1: they are none of the two. */
int64_t kern_pairs_stored(int64_t k, int64_t columns, int64_t count);
/* Does the row of LINEAR take panels of bf16 and f16? */
bool kern_takes_halves(const kern_row *row);
/* Is one step of Strassen's recursion likely to be faster for `rows` rows of a sample times a packed [k, n] matrix?
 * From sizes alone, as measured on one core: the bits of a sample depend on nothing else. */
bool kern_strassen_pays(int64_t rows, int64_t n, int64_t k, int64_t panel);
#endif
