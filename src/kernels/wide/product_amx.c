/* product_amx.c -- products of 8-bit integers by tiles of AMX (tile_amx.c). */
#include "kernels/amx_priv.h"
#include "kernels/product_i8_priv.h"

_Static_assert((int)AMX_WIDTH == (int)BYTES_ROW, "rows of sums are as long");

static void begin(int64_t rows, const kern_i8_layout *l) {
  if (l->blocks > 0) amx_begin(rows, l->steps / l->blocks);
}

static void run(const i8_tile *t, int64_t rows, int64_t panels) {
  static const int64_t none[] = {0};
  if (t->blocks == 0) {
    for (int64_t r = 0; r < rows; r++)
      memcpy(t->sums + r * BYTES_ROW, t->start, (size_t)(panels * V_LANES) * sizeof *t->sums);
    return;
  }
  const int64_t block = t->steps / t->blocks * 4;
  const amx_tile tile = {.a = {t->x, t->x + AMX_ROWS * t->x_pitch},
                         .a_pitch = t->x_pitch,
                         .a_block = block,
                         .run = none,
                         .runs = 1,
                         .blocks = t->blocks,
                         .b = t->w,
                         .b_block = block * V_LANES,
                         .b_panel = t->panel_bytes,
                         .start = t->start,
                         .sums = t->sums};
  KERN_PART_NAME(amx_u8)(&tile, rows, panels);
}

static void end(void) { amx_end(); }

static const i8_tiles tiles = {2 * AMX_ROWS, begin, run, end};

td_status KERN_PART_NAME(linear_i8_amx)(const base_call *call) { return I8_NAME(linear_i8_by)(call, &tiles); }

td_status KERN_PART_NAME(conv_i8_amx)(const base_call *call) { return I8_NAME(conv_i8_by)(call, &tiles); }
