/* product_i8_priv.h -- a product of 8-bit integers: rows of x, or windows of an image, times packed weights
 * (pack_i8.h), and from the sums, which are exact, to f32, through an epilogue and perhaps to 8 bits again. */
#ifndef KERNELS_PRODUCT_I8_PRIV_H
#define KERNELS_PRODUCT_I8_PRIV_H
#include "kernels/simd/bytes_priv.h"
#include "kernels/products/conv.h"
#include "kernels/products/epilogue_priv.h"
#include "kernels/products/pack_i8.h"
#include "kernels/simd/product_tile_priv.h"

typedef struct i8_product {
  const base_call *call;
  kern_i8_layout l;
  kern_i8_scales s;
  const uint8_t *w;
  int64_t m;     /* rows of x, x_pitch elements apart, where those of a matrix are multiplied */
  td_dtype type; /* of x */
  const void *x;
  int64_t x_pitch;
  int64_t out_pitch;
} i8_product;

/* The part of a level that has tiles shares all but the tiles with the part that has dot instructions. */
#define I8_NAME(function) KERN_OF(function, KERN_BYTES_OF)

/* Sums on their way out. */
typedef struct i8_finish {
  const i8_product *p;
  int32_t *start;           /* what a column's sums begin with */
  const int32_t *row_start; /* what is added to all sums of a row, of those that i8_multiply_rows is given; NULL: 0 */
  float *scales;            /* of each column: that of x times that of the weights */
  float *offsets;           /* of each column, added to that times a sum that becomes bytes at once */
  kern_epilogue e;
  bool cheap; /* the epilogue is a bias and limits */
  float limits[2];
  bool direct; /* the sums become bytes at once, as `d` says */
  kern_i8_direct d;
  b_bytes bytes;
  bool plain;    /* integers that a byte holds are the bytes, and no sum is so large that its integer overflows */
  bool whole;    /* rows are whole, and their columns in the order of b_zip_whole */
  int64_t known; /* columns of these that are written already, the first ones */
  const uint8_t *residual;
  int64_t residual_pitch;
  uint8_t residual_flip;
} i8_finish;
td_status I8_NAME(i8_finish_of)(const i8_product *p, i8_finish *f);
/* Sets what follows from p->w: that again, where other weights take their place. */
void I8_NAME(i8_columns)(i8_finish *f);
/* Rows of at most BYTES_ROW sums, BYTES_ROW apart, `row` the first, columns of a group from `column` on. */
void I8_NAME(i8_finish)(const i8_finish *f, float *sums, int64_t row, int64_t rows, int64_t group, int64_t column,
                        int64_t n);

/* Elements of f32 as integers by the scales; of 8 bits as they are: `flip` is 128 where they are signed, else 0. */
void I8_NAME(i8_quantise)(const kern_i8_scales *s, const float *from, int64_t n, byte_x *to);
/* The same as bytes. */
void I8_NAME(i8_to_bytes)(const kern_i8_scales *s, const float *from, int64_t count, uint8_t *to);
void I8_NAME(i8_copy)(uint8_t flip, const uint8_t *from, int64_t n, byte_x *to);
/* Sets the scales of x to those of its values, a dense tensor of f32. */
void I8_NAME(i8_find_range)(const float *x, int64_t count, kern_i8_scales *s);
/* Of f32, whose scales are known, x becomes u8. */
td_status I8_NAME(i8_find_bytes)(i8_product *p);
/* Of depthwise windows of u8 or i8. */
td_status I8_NAME(i8_depthwise)(const i8_product *p, const kern_conv *of, uint8_t flip);
/* Sums of at most BYTES_ROWS rows times at most BYTES_PANELS panels, in rows of BYTES_ROW. */
void I8_NAME(i8_tiles)(const product_tile *t, int64_t rows, int64_t panels);
/* Rows of x, `count` of them, the first of them row `first` of the result, times panels [panel, end). */
void I8_NAME(i8_multiply_rows)(const i8_finish *f, const byte_x *x, int64_t x_pitch, int64_t first, int64_t count,
                               int64_t panel, int64_t end);
/* Of each row of a tile, whose runs are `n` elements long, what s.w_shift adds to its sums; and that added, or other
 * numbers, one for each row. */
void I8_NAME(i8_shifts)(const i8_product *p, const product_tile *t, int64_t n, int64_t rows, int32_t *to);
void I8_NAME(i8_add_to_rows)(float *sums, const int32_t *add, int64_t rows, int64_t panels);
/* The tasks that are this worker's, of rows of a matrix, by dot instructions. */
td_status I8_NAME(i8_multiply)(const i8_product *p);
td_status I8_NAME(conv_i8)(const base_call *call);
#endif
