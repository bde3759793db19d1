/* pack.c -- panels from matrices of any strides. Blocks of rows bound the distance between what is read and written, so
 * that a transposing pack uses every line it loads while it is in L1. */
#include "kernels/kernels_priv.h"
#include "kernels/products/packing.h"

#include <string.h>

enum {
  BLOCK_ROWS = 64, /* a panel of them, and as many lines of the source, fit L1 */
  DENSE_ROWS = 8   /* that are read side by side where rows are dense: as many streams as a core follows */
};

bool kern_pack_count(int64_t k, int64_t n, int64_t panel, size_t *count) {
  if (k < 0 || n < 0 || panel <= 0 || n > INT64_MAX - panel) return false;
  return base_mul((size_t)((n + panel - 1) / panel), (size_t)k, count) && base_mul(*count, (size_t)panel, count) &&
         *count <= INT64_MAX / sizeof(float);
}

static void scale_block(float *to, const base_f32 *scale, int64_t k0, int64_t k1, int64_t columns, int64_t panel) {
  for (int64_t k = k0; k < k1; k++)
    for (int64_t n = 0; n < columns; n++) to[k * panel + n] = kern_normal(to[k * panel + n] * (scale ? scale[n] : 1));
}

/* As wide as most vectors are: without a call. */
static void copy_row(float *to, const base_f32 *from, int64_t count) {
  enum { WIDE = 16, HALF = 8 };
  if (count == WIDE) memcpy(to, from, WIDE * sizeof *to);
  else if (count == HALF) memcpy(to, from, HALF * sizeof *to);
  else memcpy(to, from, (size_t)count * sizeof *to);
}

/* Rows [k0, k1) of `columns` columns from `from`; the rest of each row of the panel is zero. */
static void pack_block(float *to, const base_f32 *from, const kern_matrix *m, int64_t k0, int64_t k1, int64_t columns,
                       int64_t panel) {
  for (int64_t k = k0; k < k1; k++) {
    float *row = to + k * panel;
    if (columns < panel) memset(row + columns, 0, (size_t)(panel - columns) * sizeof *row);
    if (m->n_stride == 1) copy_row(row, from + k * m->k_stride, columns);
  }
  if (m->n_stride == 1) return;
  for (int64_t n = 0; n < columns; n++) {
    const base_f32 *column = from + n * m->n_stride;
    for (int64_t k = k0; k < k1; k++) to[k * panel + n] = column[k * m->k_stride];
  }
}

void kern_pack(float *to, const kern_matrix *m, const base_f32 *scale, int64_t panel, int64_t first, int64_t last) {
  const int64_t rows = m->n_stride == 1 ? DENSE_ROWS : BLOCK_ROWS;
  for (int64_t k = 0; k < m->k; k += rows)
    for (int64_t p = first; p < last; p++) {
      const int64_t end = base_min_i64(k + rows, m->k), columns = base_min_i64(panel, m->n - p * panel);
      float *at = to + p * m->k * panel;
      pack_block(at, (const base_f32 *)m->data + p * panel * m->n_stride, m, k, end, columns, panel);
      scale_block(at, scale ? scale + p * panel : NULL, k, end, columns, panel);
    }
}

int64_t kern_tiles_depth(int64_t k) {
  const int64_t pairs = kern_pairs_depth(k) / 2, blocks = (pairs + KERN_TILE_PAIRS - 1) / KERN_TILE_PAIRS;
  return blocks ? (pairs + blocks - 1) / blocks * blocks * 2 : 0;
}

bool kern_takes_tiles(const kern_row *row) { return row->signature == KERN_OF_PAIR_TILES; }

double kern_pairs_speed(const kern_row *row) { return kern_takes_tiles(row) ? 8 : 2; }

int64_t kern_pairs_depth_of(const kern_row *row, int64_t k) {
  return kern_takes_tiles(row) ? kern_tiles_depth(k) : kern_pairs_depth(k);
}

void kern_pack_pairs(const float *from, int64_t k, int64_t panels, int64_t panel, int64_t stored, uint16_t *to) {
  for (int64_t p = 0; p < panels; p++)
    for (int64_t i = 0; i < stored; i++)
      for (int64_t n = 0; n < panel; n++)
        to[((p * stored + i) / 2 * panel + n) * 2 + i % 2] =
            i < k ? base_f32_to_bf16(from[(p * k + i) * panel + n]) : 0;
}

int64_t kern_pairs_stored(int64_t k, int64_t columns, int64_t count) {
  if (k < 0 || k > INT64_MAX / 4) return -1;
  const int64_t depths[] = {kern_pairs_depth(k), kern_tiles_depth(k)};
  for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
    int64_t size;
    if (base_mul_i64(columns, depths[i], &size) && size == count) return depths[i];
  }
  return -1;
}

bool kern_takes_halves(const kern_row *row) { return row->isa & BASE_ISA_AVX2; }

bool kern_strassen_pays(int64_t rows, int64_t n, int64_t k, int64_t panel) {
  return rows >= 64 && n >= 128 && k >= 192 && n % (2 * panel) == 0 && k % (2 * panel) == 0;
}

const kern_packing *kern_packing_of(uint32_t isa) {
  uint32_t i;
  const kern_level *levels = kern_levels(&i);
  do i--;
  while (!levels[i].packing || levels[i].isa & ~isa); /* the narrowest level needs nothing */
  return levels[i].packing;
}
