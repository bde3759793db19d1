/* image_amx.c -- products by tiles of AMX. */
#include "kernels/simd/amx_priv.h"

enum { IMAGE_PANELS = AMX_PANELS, IMAGE_ROWS = AMX_MOST_ROWS, IMAGE_OVERLAPS = 1, IMAGE_RESUMES = 1, IMAGE_THREES = 0 };
#define image_tall amx_even_rows
#define image_begin amx_begin
#define image_end amx_end
#include "kernels/products/wide/image_tiles_priv.h"
