/* tile_scaled_amx.c -- tiles of AMX whose columns of B are whole numbers with a scale for some blocks. The sum of these
 * is made in registers and added, times the scales, to that of the row in memory while registers make the next one. */
#include "kernels/simd/amx_priv.h"

enum { PAIR = 2 }; /* panels side by side */

/* Sums of one register each, as it is stored: the second rows' behind those of the first. */
typedef struct stored {
  _Alignas(64) float at[PAIR][AMX_MOST_ROWS][AMX_COLUMNS];
} stored;

/* Sums of a panel, times the scales of its columns, to those of rows. */
V_INLINE void add_scaled(const float *restrict from, const float *scales, float *restrict to, int64_t pitch,
                         int64_t rows, bool first) {
  const vf scale = v_load(scales);
  if (first)
    for (int64_t r = 0; r < rows; r++) v_store(to + r * pitch, v_mul(v_load(from + r * AMX_COLUMNS), scale));
  else
    for (int64_t r = 0; r < rows; r++, to += pitch)
      v_store(to, v_fma(v_load(from + r * AMX_COLUMNS), scale, v_load(to)));
}

static void add_group(const product_tile *t, const stored *from, int64_t rows, int64_t panel, int64_t panels,
                      int64_t group) {
  for (int64_t p = 0; p < panels; p++) {
    const float *scales = t->scales + (panel + p) * t->scale_panel + group * AMX_COLUMNS;
    add_scaled(from->at[p][0], scales, (float *)t->sums + (panel + p) * AMX_COLUMNS, t->sums_pitch, rows, group == 0);
  }
}

static void two_panels(const product_tile *t, int64_t rows, int64_t panel, int64_t panels) {
  const bool tall = rows > AMX_ROWS, wide = panels == PAIR;
  const char *a = (const char *)t->a[0] + t->run[0], *below = (const char *)t->a[1] + t->run[0];
  const char *b = (const char *)t->b + panel * t->b_panel, *next = b + t->b_panel;
  const int64_t groups = base_ceil_div(t->blocks, t->scale_blocks);
  stored sums[2];
  for (int64_t group = 0, block = 0; group < groups; group++) {
    const int64_t end = base_min_i64(block + t->scale_blocks, t->blocks);
    AMX_ZERO(0);
    if (wide) AMX_ZERO(1);
    if (tall) AMX_ZERO(2);
    if (tall && wide) AMX_ZERO(3);
    for (; block < end; block++, a += t->a_block, below += t->a_block, b += t->b_block, next += t->b_block) {
      AMX_LOAD(6, b, AMX_BYTES);
      if (wide) AMX_LOAD(7, next, AMX_BYTES);
      for (int64_t at = 0; at <= t->a_low; at += t->a_low) {
        AMX_LOAD(4, a + at, t->a_pitch);
        AMX_DOT_BF16(0, 4, 6);
        if (wide) AMX_DOT_BF16(1, 4, 7);
        if (!tall) continue;
        AMX_LOAD(5, below + at, t->a_pitch);
        AMX_DOT_BF16(2, 5, 6);
        if (wide) AMX_DOT_BF16(3, 5, 7);
      }
    }
    if (group) add_group(t, &sums[(group - 1) % 2], rows, panel, panels, group - 1);
    stored *now = &sums[group % 2];
    AMX_STORE(0, now->at[0][0], AMX_BYTES);
    if (wide) AMX_STORE(1, now->at[1][0], AMX_BYTES);
    if (tall) AMX_STORE(2, now->at[0][AMX_ROWS], AMX_BYTES);
    if (tall && wide) AMX_STORE(3, now->at[1][AMX_ROWS], AMX_BYTES);
  }
  add_group(t, &sums[(groups - 1) % 2], rows, panel, panels, groups - 1);
}

void KERN_PART_NAME(amx_scaled)(const product_tile *t, int64_t rows, int64_t panels) {
  for (int64_t p = 0; p < panels; p += PAIR) two_panels(t, rows, p, base_min_i64(panels - p, PAIR));
}
