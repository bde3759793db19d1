/* between_i8.h -- what stands between products of 8-bit integers: what the levels of rows/wide/between_i8.c, and the
 * operators' references, have in common. Bytes are numbers of 0 to 255: those of i8 with `flip`, 128, flipped. */
#ifndef KERNELS_BETWEEN_I8_H
#define KERNELS_BETWEEN_I8_H
#include "base/base.h"
#include "kernels/attrs.h"
#include "kernels/rows/pool.h"

/* td::add_i8 and td::mul_i8. by: of a product by[0] alone; y_zero, least and most as the result's type has them. */
typedef struct kern_binary_i8 {
  bool adds;
  uint8_t flip[2], y_flip;
  float zero[2], by[2];
  int y_zero, least, most;
} kern_binary_i8;
kern_binary_i8 kern_binary_i8_of(const base_call *call, bool adds);

enum { KERN_BETWEEN_MOST = 64 }; /* elements that a level takes at once: an operand of one element is so many here */
/* n elements of operands that are step[k], 0 or 1, from one to the next. */
typedef void (*kern_binary_i8_row)(const kern_binary_i8 *b, const uint8_t *const *in, const int64_t *step, int64_t n,
                                   uint8_t *to);
td_status kern_run_binary_i8(const base_call *call, bool adds, kern_binary_i8_row row);

/* td::avg_pool_i8. */
typedef struct kern_mean_i8 {
  kern_pool_axis axis[KERN_POOL_AXES];
  int64_t channels;
  uint8_t flip, y_flip;
  int zero, y_zero;
  float x_scale, y_scale;
  bool count_padding;
} kern_mean_i8;
/* What a mean's sum is multiplied by: `count` elements that count. */
float kern_mean_i8_by(const kern_mean_i8 *m, int64_t count);
kern_mean_i8 kern_mean_i8_of(const base_call *call);
/* The mean over what a window sees of an image, of `n` channels from its element 0 on. */
typedef void (*kern_mean_i8_pixel)(const kern_mean_i8 *m, const uint8_t *image, const kern_pool_span *s, int64_t n,
                                   uint8_t *to);
/* `width`: calls are of so many channels, or of a multiple, but for the last ones. */
td_status kern_run_mean_i8(const base_call *call, int64_t width, kern_mean_i8_pixel pixel);
#endif
