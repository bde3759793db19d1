/* pack_i8.h -- weights of products of 8-bit integers, as one constant of bytes:
 *
 *     i32 sums[columns]     of each column's weights: times the zero point of x, it is what x's offset adds to a sum
 *     f32 scales[columns]   of each column
 *     i32 bias[columns]     added to a column's sum, in units of the scale of x times its own
 *     i8  panels            [panel][k / depth][column of the panel][depth]
 *
 * `columns` counts those of whole panels; what is padded is zero. A group's columns begin with a new panel. k is made
 * of runs: all of it, or each row of taps of a window. Dot instructions take `depth` elements of a run at once, 4 with
 * VNNI, else 2, and a run is padded to a multiple of that. A tile of AMX takes up to KERN_I8_TILE of them, in fours: a
 * run is cut into as few blocks of one size as that allows, and padded to that.
 *
 * Of a window k is tap * channels + channel. Depthwise ones (a channel in and out of each group) are packed as one
 * group with a column for each channel: k counts, for each tap of the last axis, the taps of the others, these padded
 * to a multiple of depth, so that a dot instruction takes taps that stand above one another. */
#ifndef KERNELS_PACK_I8_H
#define KERNELS_PACK_I8_H
#include "kernels/products/conv.h"
#include "kernels/kernels.h"

enum { KERN_I8_TILE = 64, KERN_I8_MAX_K = 65536 }; /* 255 * 128 * k is within i32 */
enum { KERN_I8_REDUCED_STEPS = 127 };              /* that PyTorch's kernels for x86 give the range of an activation */
enum { KERN_I8_PLANES = 4 };                       /* of f32 that a convolution quantises itself, at most */

typedef struct kern_i8_layout {
  int64_t groups, n, k;            /* of a group: columns and rows */
  int64_t panel, depth;            /* lanes of a panel; 2 or 4 */
  int64_t runs, blocks;            /* of k, of one size; of a run */
  int64_t group_panels, columns;   /* whole panels of a group; lanes of all of them */
  int64_t steps;                   /* of depth, of all runs */
  int64_t panel_bytes, data, size; /* bytes of a panel, in front of the first, of all */
} kern_i8_layout;

/* `depth`: 2, 4, or KERN_I8_TILE. False: the numbers are out of range. */
bool kern_i8_layout_of(int64_t n, int64_t k, int64_t panel, int64_t depth, kern_i8_layout *l);
/* Of a window of these sizes. *depthwise: see above. */
typedef struct kern_i8_window {
  int64_t groups, group_in, group_out;
  int64_t kernel[3]; /* missing axes in front are 1 */
} kern_i8_window;
kern_i8_window kern_i8_window_of(const kern_conv *c);
/* Its kernels quantise an image of f32, channels first, as they read it: few channels, one group, windows whose taps
 * stand side by side along the last axis. */
bool kern_i8_takes_planes(const kern_conv *c);
bool kern_i8_window_layout(const kern_i8_window *w, int64_t panel, int64_t depth, kern_i8_layout *l, bool *depthwise);
/* Of depthwise ones: where tap `tap`, of all axes, stands among the k of its channel. */
int64_t kern_i8_depthwise_k(const kern_i8_window *w, int64_t depth, int64_t tap);
/* Of dense weights [groups * n][k], and for each of these columns a scale, and (unless NULL) a bias. `to`: l->size
 * bytes. */
void kern_pack_i8(const kern_i8_layout *l, const int8_t *w, const float *scales, const int32_t *bias, uint8_t *to);
/* Where a channel stands among the columns: its sum, its scale and its bias. */
int64_t kern_i8_column(const kern_i8_layout *l, int64_t channel);
/* The weight of a group's column and row. */
int8_t kern_i8_weight(const kern_i8_layout *l, const uint8_t *packed, int64_t group, int64_t column, int64_t k);
/* 2, 4, or KERN_I8_TILE: what a row's kernels read. */
int64_t kern_i8_depth(const kern_row *row);

/* The scales of a call: its attributes (attrs.h). */
typedef struct kern_i8_scales {
  int64_t panel, depth;
  float x_scale, x_zero; /* as it is added to x / x_scale */
  float y_scale, y_zero; /* y_scale 0: the result is f32 */
  float least, most;     /* of the result */
  float t_scale, t_zero; /* of the sums where a residual of 8 bits is added to them; t_scale 0: they are not rounded */
  float r_scale, r_zero; /* of that residual, as it is subtracted from 0 to 255 */
  int32_t w_shift;       /* to be subtracted from each weight */
} kern_i8_scales;
kern_i8_scales kern_i8_scales_of(const base_attrs *attrs);
/* How sums become 8 bits where nothing of f32 stands between but a bias: no other vector, residual or chain of f32, and
 * no activation but limits. Then, in f32, with a sum that has its bias of integers,
 *
 *     s = fma(sum, x_scale * column's scale / over, bias of f32 / over)
 *     without a residual:  y = round(s) + y_zero
 *     with one, r:         t = round(s), within least_t and most_t
 *                          y = round(fma(r - r_zero, r_by, t * t_by)) + y_zero
 *     and t_scale 0:       y = round(fma(r - r_zero, r_by, s)) + y_zero
 *
 * and y within least and most. `operands`: bit i, operand i is there. False: results are f32 first (ops/common/i8.c).
 */
typedef struct kern_i8_direct {
  bool residual, rounds; /* t */
  float over;            /* y_scale or t_scale */
  float t_by, r_by, least_t, most_t;
  float least, most; /* the activation's limits, too */
} kern_i8_direct;
bool kern_i8_is_direct(const base_attrs *attrs, uint32_t operands, kern_i8_direct *d);
/* Bit i: operand i of the call is there. */
uint32_t kern_i8_operands(const base_call *call);
/* The scale and zero point of u8 that ONNX's DynamicQuantizeLinear gives values in [low, high], which holds 0: a scale
 * of no less than -s->x_scale, and of so many steps as s->x_zero says, 0: 255. */
void kern_i8_range(float low, float high, kern_i8_scales *s);
#endif
