/* product_amx.c -- tiles of AMX for products of 8-bit integers: two of rows times two panels where there are rows for
 * that, so that each tile that is loaded meets two; else one times four. Sums are those of the dot instructions. */
#include "kernels/amx_priv.h"
#include "kernels/product_i8_priv.h"

static void begin(int64_t rows, const kern_i8_layout *l) {
  if (l->blocks > 0) amx_begin(rows, l->steps / l->blocks);
}

/* Two tiles of rows times panels `p` and p + 1, or p alone. */
V_TEMPLATE void two_rows(const i8_tile *t, int64_t p, const int panels) {
  const int64_t block = t->steps / t->blocks * 4, b_block = block * V_LANES;
  const byte_x *a = t->x, *second = a + AMX_ROWS * t->x_pitch;
  const int8_t *b = t->w + p * t->panel_bytes, *next = b + t->panel_bytes;
  const int32_t *start = t->start + p * V_LANES;
  AMX_LOAD(0, start, 0);
  AMX_LOAD(2, start, 0);
  if (panels == 2) AMX_LOAD(1, start + V_LANES, 0);
  if (panels == 2) AMX_LOAD(3, start + V_LANES, 0);
  for (int64_t i = 0; i < t->blocks; i++, a += block, second += block, b += b_block, next += b_block) {
    AMX_LOAD(6, b, AMX_BYTES);
    AMX_LOAD(4, a, t->x_pitch);
    AMX_DOT_U8(0, 4, 6);
    AMX_LOAD(5, second, t->x_pitch);
    AMX_DOT_U8(2, 5, 6);
    if (panels == 1) continue;
    AMX_LOAD(7, next, AMX_BYTES);
    AMX_DOT_U8(1, 4, 7);
    AMX_DOT_U8(3, 5, 7);
  }
  int32_t *to = t->sums + p * V_LANES, *to_second = to + AMX_ROWS * BYTES_ROW;
  AMX_STORE(0, to, BYTES_ROW * sizeof *to);
  AMX_STORE(2, to_second, BYTES_ROW * sizeof *to);
  if (panels == 2) AMX_STORE(1, to + V_LANES, BYTES_ROW * sizeof *to);
  if (panels == 2) AMX_STORE(3, to_second + V_LANES, BYTES_ROW * sizeof *to);
}

V_TEMPLATE void one_row(const i8_tile *t, const int panels) {
  const int64_t block = t->steps / t->blocks * 4, b_block = block * V_LANES, panel = t->panel_bytes;
  const byte_x *a = t->x;
  const int8_t *b = t->w;
  AMX_LOAD(0, t->start, 0);
  if (panels > 1) AMX_LOAD(1, t->start + V_LANES, 0);
  if (panels > 2) AMX_LOAD(2, t->start + 2 * V_LANES, 0);
  if (panels > 3) AMX_LOAD(3, t->start + 3 * V_LANES, 0);
  for (int64_t i = 0; i < t->blocks; i++, a += block, b += b_block) {
    AMX_LOAD(4, a, t->x_pitch);
    AMX_LOAD(6, b, AMX_BYTES);
    AMX_DOT_U8(0, 4, 6);
    if (panels > 1) AMX_LOAD(7, b + panel, AMX_BYTES);
    if (panels > 1) AMX_DOT_U8(1, 4, 7);
    if (panels > 2) AMX_LOAD(6, b + 2 * panel, AMX_BYTES);
    if (panels > 2) AMX_DOT_U8(2, 4, 6);
    if (panels > 3) AMX_LOAD(7, b + 3 * panel, AMX_BYTES);
    if (panels > 3) AMX_DOT_U8(3, 4, 7);
  }
  AMX_STORE(0, t->sums, BYTES_ROW * sizeof *t->sums);
  if (panels > 1) AMX_STORE(1, t->sums + V_LANES, BYTES_ROW * sizeof *t->sums);
  if (panels > 2) AMX_STORE(2, t->sums + 2 * V_LANES, BYTES_ROW * sizeof *t->sums);
  if (panels > 3) AMX_STORE(3, t->sums + 3 * V_LANES, BYTES_ROW * sizeof *t->sums);
}

static void run(const i8_tile *t, int64_t rows, int64_t panels) {
  if (t->blocks == 0) {
    for (int64_t r = 0; r < rows; r++)
      memcpy(t->sums + r * BYTES_ROW, t->start, (size_t)(panels * V_LANES) * sizeof *t->sums);
    return;
  }
  if (rows <= AMX_ROWS && panels == 4) one_row(t, 4);
  else if (rows <= AMX_ROWS && panels == 2) one_row(t, 2);
  else if (rows <= AMX_ROWS) one_row(t, 1);
  else if (panels == 1) two_rows(t, 0, 1);
  else
    for (int64_t p = 0; p < panels; p += 2) two_rows(t, p, 2);
}

static void end(void) { amx_end(); }

static const i8_tiles tiles = {2 * AMX_ROWS, begin, run, end};

td_status KERN_PART_NAME(linear_i8_amx)(const base_call *call) { return I8_NAME(linear_i8_by)(call, &tiles); }

td_status KERN_PART_NAME(conv_i8_amx)(const base_call *call) { return I8_NAME(conv_i8_by)(call, &tiles); }
