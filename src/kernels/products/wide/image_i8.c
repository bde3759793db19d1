/* image_i8.c -- convolutions of bytes by tiles of dot instructions. */
#include "kernels/simd/bytes_priv.h"

enum { IMAGE_PANELS = BYTES_PANELS, IMAGE_ROWS = BYTES_ROWS, IMAGE_OVERLAPS = 0, IMAGE_RESUMES = 0, IMAGE_THREES = 1 };
#define image_tall(count) base_min_i64(count, BYTES_ROWS)
#define image_begin(rows, words) (void)0
#define image_end() (void)0
#include "kernels/products/wide/image_tiles_priv.h"
