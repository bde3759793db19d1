/* tile_amx.c -- tiles of AMX: two of rows times two panels where there are rows for that, so that each tile that is
 * loaded meets two; else one times as many panels as there are sums. The order of a row's sum follows from its runs and
 * blocks alone: of integers it is exact, the instruction for bf16 adds the pairs of a block in f32, in an order of its
 * own, and takes subnormal numbers for zero (Intel SDM vol. 2, TDPBUSD and TDPBF16PS). */
#include "kernels/simd/amx_priv.h"

#if !V_NATIVE
_Thread_local amx_registers KERN_PART_NAME(amx_registers);
#endif

#define DOT(sum, a, b)                 \
  do {                                 \
    if (bf16) AMX_DOT_BF16(sum, a, b); \
    else AMX_DOT_U8(sum, a, b);        \
  } while (0)

#define LOAD_B(tile, from)                     \
  do {                                         \
    if (near) AMX_LOAD(tile, from, AMX_BYTES); \
    else AMX_LOAD_FAR(tile, from, AMX_BYTES);  \
  } while (0)

#define START(sum, from, panel)                                                      \
  do {                                                                               \
    if (start) AMX_LOAD(sum, (from) + (int64_t)(panel)*AMX_COLUMNS, t->start_pitch); \
    else AMX_ZERO(sum);                                                              \
  } while (0)

V_TEMPLATE void two_rows(const product_tile *t, int64_t panel, const int panels, const bool bf16) {
  const bool near = t->b_near;
  const int64_t pitch = t->a_pitch, a_block = t->a_block, b_block = t->b_block;
  const int32_t *start = t->start ? (const int32_t *)t->start + panel * AMX_COLUMNS : NULL;
  const int32_t *below = start ? start + AMX_ROWS * t->start_pitch / (int64_t)sizeof *start : NULL;
  const char *b = (const char *)t->b + panel * t->b_panel, *next = b + t->b_panel;
  START(0, start, 0);
  START(2, below, 0);
  if (panels == 2) START(1, start, 1);
  if (panels == 2) START(3, below, 1);
  for (int64_t r = 0; r < t->runs; r++) {
    const char *a = (const char *)t->a[0] + t->run[r], *second = (const char *)t->a[1] + t->run[r];
    for (int64_t i = 0; i < t->blocks; i++, a += a_block, second += a_block, b += b_block, next += b_block) {
      LOAD_B(6, b);
      AMX_LOAD(4, a, pitch);
      DOT(0, 4, 6);
      AMX_LOAD(5, second, pitch);
      DOT(2, 5, 6);
      if (panels == 1) continue;
      LOAD_B(7, next);
      DOT(1, 4, 7);
      DOT(3, 5, 7);
    }
  }
  int32_t *to = (int32_t *)t->sums + panel * AMX_COLUMNS, *to_second = to + AMX_ROWS * t->sums_pitch;
  const int64_t to_pitch = t->sums_pitch * (int64_t)sizeof *to;
  AMX_STORE(0, to, to_pitch);
  AMX_STORE(2, to_second, to_pitch);
  if (panels == 2) AMX_STORE(1, to + AMX_COLUMNS, to_pitch);
  if (panels == 2) AMX_STORE(3, to_second + AMX_COLUMNS, to_pitch);
}

/* So few rows are mostly all that there are: nothing reads B again. */
V_TEMPLATE void one_row(const product_tile *t, const int panels, const bool bf16) {
  const int64_t panel = t->b_panel;
  const int32_t *start = t->start;
  const char *b = t->b;
  START(0, start, 0);
  if (panels > 1) START(1, start, 1);
  if (panels > 2) START(2, start, 2);
  if (panels > 2) START(3, start, 3);
  for (int64_t r = 0; r < t->runs; r++) {
    const char *a = (const char *)t->a[0] + t->run[r];
    for (int64_t i = 0; i < t->blocks; i++, a += t->a_block, b += t->b_block) {
      AMX_LOAD(4, a, t->a_pitch);
      AMX_LOAD_FAR(6, b, AMX_BYTES);
      DOT(0, 4, 6);
      if (panels > 1) AMX_LOAD_FAR(7, b + panel, AMX_BYTES);
      if (panels > 1) DOT(1, 4, 7);
      if (panels > 2) AMX_LOAD_FAR(6, b + 2 * panel, AMX_BYTES);
      if (panels > 2) DOT(2, 4, 6);
      if (panels > 2) AMX_LOAD_FAR(7, b + 3 * panel, AMX_BYTES);
      if (panels > 2) DOT(3, 4, 7);
    }
  }
  int32_t *to = t->sums;
  const int64_t to_pitch = t->sums_pitch * (int64_t)sizeof *to;
  AMX_STORE(0, to, to_pitch);
  if (panels > 1) AMX_STORE(1, to + AMX_COLUMNS, to_pitch);
  if (panels > 2) AMX_STORE(2, to + 2 * AMX_COLUMNS, to_pitch);
  if (panels > 2) AMX_STORE(3, to + 3 * AMX_COLUMNS, to_pitch);
}

/* Each panel meets rows of its own. */
static void each_panel(const product_tile *t, int64_t rows, int64_t panels) {
  product_tile one = *t;
  one.a_panel = 0;
  for (int64_t p = 0; p < panels; p++) {
    KERN_PART_NAME(amx_bf16)(&one, rows, 1);
    for (int i = 0; i < 2; i++) one.a[i] = (const char *)one.a[i] + t->a_panel;
    one.b = (const char *)one.b + t->b_panel;
    one.sums = (int32_t *)one.sums + AMX_COLUMNS;
    if (one.start) one.start = (const int32_t *)one.start + AMX_COLUMNS;
  }
}

V_TEMPLATE void multiply(const product_tile *t, int64_t rows, int64_t panels, const bool bf16) {
  if (rows <= AMX_ROWS && panels == AMX_PANELS) one_row(t, AMX_PANELS, bf16);
  else if (rows <= AMX_ROWS && panels == 2) one_row(t, 2, bf16);
  else if (rows <= AMX_ROWS) one_row(t, 1, bf16);
  else if (panels == 1) two_rows(t, 0, 1, bf16);
  else
    for (int64_t p = 0; p < panels; p += 2) two_rows(t, p, 2, bf16);
}

void KERN_PART_NAME(amx_u8)(const product_tile *t, int64_t rows, int64_t panels) { multiply(t, rows, panels, false); }

void KERN_PART_NAME(amx_bf16)(const product_tile *t, int64_t rows, int64_t panels) {
  if (t->a_panel) each_panel(t, rows, panels);
  else multiply(t, rows, panels, true);
}
