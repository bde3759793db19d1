/* pack_i8.h -- weights of products of 8-bit integers, as one constant of bytes:
 *
 *     i32 sums[columns]     of each column's weights: times the zero point of x, it is what x's offset adds to a sum
 *     f32 scales[columns]   of each column
 *     i8  panels            [panel][k / depth][column of the panel][depth]
 *
 * `columns` counts those of whole panels; k is padded to a multiple of depth; what is padded is zero. A group's columns
 * begin with a new panel. Dot instructions take `depth` elements of k at once: 4 with VNNI, else 2. */
#ifndef KERNELS_PACK_I8_H
#define KERNELS_PACK_I8_H
#include "kernels/kernels.h"

enum { KERN_I8_MAX_K = 65536 }; /* 255 * 128 * k is within i32 */

typedef struct kern_i8_layout {
  int64_t groups, n, k;            /* of a group: columns and rows */
  int64_t panel, depth;            /* lanes of a panel; 2 or 4 */
  int64_t group_panels, columns;   /* whole panels of a group; lanes of all of them */
  int64_t steps;                   /* k / depth, rounded up */
  int64_t panel_bytes, data, size; /* bytes of a panel, in front of the first, of all */
} kern_i8_layout;

/* False: the numbers are out of range. */
bool kern_i8_layout_of(int64_t groups, int64_t n, int64_t k, int64_t panel, int64_t depth, kern_i8_layout *l);
/* Of dense weights [groups * n][k], and a scale for each of these columns, or (`shared`) one for all. `to`: l->size
 * bytes. */
void kern_pack_i8(const kern_i8_layout *l, const int8_t *w, const float *scales, bool shared, uint8_t *to);
/* The weight of a group's column and row. */
int8_t kern_i8_weight(const kern_i8_layout *l, const uint8_t *packed, int64_t group, int64_t column, int64_t k);
/* That a row's kernels read. */
int64_t kern_i8_depth(const kern_row *row);

/* The scales of a call: its attributes (attrs.h). */
typedef struct kern_i8_scales {
  int64_t panel, depth;
  float x_scale, x_zero; /* as it is added to x / x_scale */
  float y_scale, y_zero; /* y_scale 0: the result is f32 */
  float least, most;     /* of the result */
} kern_i8_scales;
kern_i8_scales kern_i8_scales_of(const base_attrs *attrs);
/* The scale and zero point of u8 that ONNX's DynamicQuantizeLinear gives values in [low, high], which holds 0. */
void kern_i8_range(float low, float high, kern_i8_scales *s);
#endif
