/* channels_last.c -- the pixels of a line with their channels side by side, by squares that are transposed in
 * registers: of V_LANES channels and, behind those, of four. */
#include "kernels/products/channels_last_priv.h"

typedef float v4 __attribute__((vector_size(16), may_alias, aligned(4)));

/* Four pixels from `at` on of four channels, to pixels `pitch` apart. */
V_INLINE void turn(const float *const from[4], int64_t at, float *to, int64_t pitch) {
  v4 a = *(const v4 *)(from[0] + at), b = *(const v4 *)(from[1] + at);
  v4 c = *(const v4 *)(from[2] + at), e = *(const v4 *)(from[3] + at);
  v4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), ce = __builtin_shufflevector(c, e, 0, 4, 1, 5);
  *(v4 *)to = __builtin_shufflevector(ab, ce, 0, 1, 4, 5);
  *(v4 *)(to + pitch) = __builtin_shufflevector(ab, ce, 2, 3, 6, 7);
  ab = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  ce = __builtin_shufflevector(c, e, 2, 6, 3, 7);
  *(v4 *)(to + 2 * pitch) = __builtin_shufflevector(ab, ce, 0, 1, 4, 5);
  *(v4 *)(to + 3 * pitch) = __builtin_shufflevector(ab, ce, 2, 3, 6, 7);
}

/* Channels from `c` to the last, four at a time. Writes up to 3 floats behind each pixel, which the next pixel or the
 * channels in front then get right: pixels go up, channels down. `to` has room for them behind the line. */
static void fours(float *to, const float *from, int64_t pitch, int64_t c, int64_t channels, int64_t pixels) {
  int64_t whole = pixels / 4 * 4;
  for (int64_t k = c + (channels - 1 - c) / 4 * 4; k >= c; k -= 4) {
    const float *rows[4];
    for (int64_t r = 0; r < 4; r++) rows[r] = from + base_min_i64(k + r, channels - 1) * pitch;
    for (int64_t i = 0; i < whole; i += 4) turn(rows, i, to + i * channels + k, channels);
  }
  for (int64_t i = whole; i < pixels; i++)
    for (int64_t k = c; k < channels; k++) to[i * channels + k] = from[k * pitch + i];
}

static void squares(float *to, const float *from, int64_t pitch, int64_t c1, int64_t channels, int64_t pixels) {
  int64_t whole = pixels / V_LANES * V_LANES;
  for (int64_t c = 0; c < c1; c += V_LANES)
    for (int64_t i = 0; i < whole; i += V_LANES)
      v_transpose_square(to + i * channels + c, channels, from + c * pitch + i, pitch);
  for (int64_t i = whole; i < pixels; i++)
    for (int64_t c = 0; c < c1; c++) to[i * channels + c] = from[c * pitch + i];
}

void KERN_NAME(channels_last)(float *to, const float *from, int64_t pitch, int64_t channels, int64_t pixels) {
  int64_t in_squares = channels / V_LANES * V_LANES;
  if (in_squares < channels) fours(to, from, pitch, in_squares, channels, pixels);
  squares(to, from, pitch, in_squares, channels, pixels);
}
