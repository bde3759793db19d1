/* data.h -- what kernels that move elements, the operators' references and passes have in common. Attributes are those
 * of kernels/attrs.h. */
#ifndef KERNELS_DATA_H
#define KERNELS_DATA_H
#include "base/base.h"
#include "kernels/attrs.h"

#include <string.h>

/* ---- blocks of pixels, in the channels and side by side ---- */

/* td::depth_to_space and td::space_to_depth are copies between tensors of six dimensions. */

/* out[0] and operand 0 of a call as tensors of equal dims. TD_BAD_ARGUMENT: sizes do not divide by the block. */
td_status kern_blocks_of(const base_call *call, bool to_space, base_tensor *to, base_tensor *from);

/* ---- borders ---- */

/* A table per axis says from which input position each output position comes, or that it is outside. Negative pads
 * crop. */

/* What an operator puts around: operands (x, pads, value?, axes?) or (x, pads, axes?). */
typedef struct kern_pad {
  const char *op;
  uint32_t axes; /* operand that names the axes; absent: all */
  /* Input position of `at` (outside of [0, size), size > 0), or -1 for the constant; NULL: always the constant. */
  int64_t (*map)(int64_t at, int64_t size);
} kern_pad;
extern const kern_pad kern_pad_constant, kern_pad_reflection, kern_pad_replication, kern_pad_circular;
enum { KERN_PAD_X, KERN_PAD_PADS, KERN_PAD_VALUE };

/* Checks that pads, axes, x and out[0] fit; table[d] (in scratch) has out's dims[d] input positions along axis d, -1
 * outside; those in [first[d], last[d]) are neighbours, as they lie in x. */
typedef struct kern_pad_tables {
  int64_t *table[BASE_MAX_RANK], first[BASE_MAX_RANK], last[BASE_MAX_RANK];
} kern_pad_tables;
td_status kern_pad_read(const base_call *call, const kern_pad *pad, kern_pad_tables *t);

/* ---- other sizes ---- */

/* td::resize: where its operands are, and the taps of each axis. Every mode is separable: one axis after the other, in
 * any order. */
enum { KERN_RESIZE_X, KERN_RESIZE_ROI, KERN_RESIZE_SCALES, KERN_RESIZE_SIZES }; /* operands; empty: absent */

/* An axis that changes. Output element o is the sum of weight[o][k] * x[index[o][k]]; what has no weight does not
 * count.
 */
typedef struct kern_resize_axis {
  int32_t axis;
  int64_t in, out, per_output;
  const int64_t *index; /* [out, per_output], all inside the axis */
  const double *weight; /* [out, per_output] */
  const bool *outside;  /* [out]: is the extrapolation value instead */
} kern_resize_axis;

/* Which axis each number of scales, sizes and roi belongs to; no axis twice. TD_BAD_FILE: they do not fit the rank. */
td_status kern_resize_list(const base_attrs *attrs, int32_t rank, int32_t *axes, uint32_t *count);
/* One scale for all axes, that of the axis it grows least (not_larger) or most. */
double kern_resize_common_scale(const char *policy, const int64_t *in, const int64_t *wanted, const int32_t *axes,
                                uint32_t count);
/* The axes of a call that change, in the order of the attribute, at most BASE_MAX_RANK; tables lie in the call's
 * scratch. x and out[0] have elements. */
td_status kern_resize_axes(const base_call *call, kern_resize_axis *made, uint32_t *made_count);

/* ---- samples of a grid ---- */

/* td::grid_sample: attributes, and the taps of a position. Every mode is separable: a position is up to four taps per
 * axis. */
enum { KERN_GRID_AXES = 3 /* at most */, KERN_GRID_TAPS = 4 /* of an axis, at most */ };

typedef enum kern_grid_mode { KERN_GRID_NEAREST, KERN_GRID_LINEAR, KERN_GRID_CUBIC } kern_grid_mode;
typedef enum kern_grid_padding { KERN_GRID_ZEROS, KERN_GRID_BORDER, KERN_GRID_REFLECTION } kern_grid_padding;

typedef struct kern_grid {
  kern_grid_mode mode;
  kern_grid_padding padding;
  bool align;
  int32_t taps; /* of an axis, at most */
  bool fine;    /* coordinates of f64: positions are not cut to f32, as they are to match engines in f32 */
} kern_grid;

/* The taps of one axis, all inside of it: padding that counts as zero is left out. */
typedef struct kern_grid_taps {
  int32_t count;
  int64_t index[KERN_GRID_TAPS];
  double weight[KERN_GRID_TAPS];
} kern_grid_taps;

/* The attributes of a call whose operands, of any strides, fit each other. The result has elements. */
td_status kern_grid_read(const base_call *call, kern_grid *grid);
/* Where `coordinate` lies, any number, on an axis of `size` >= 1 elements. */
void kern_grid_place(const kern_grid *grid, double coordinate, int64_t size, kern_grid_taps *taps);

/* ---- regions ---- */

/* td::roi_align: boxes, and where a sample lies. */
typedef struct kern_roi_box {
  double top, left, cell_height, cell_width;
  int64_t rows, columns; /* samples per cell */
} kern_roi_box;

/* The four neighbours of a sample, as offsets in its plane, and their weights, which are zero outside the image. */
typedef struct kern_roi_sample {
  int64_t at[4];
  double weight[4];
} kern_roi_sample;

/* A box of operand 1, [left, top, right, bottom]. */
td_status kern_roi_read(const base_call *call, const double *at, kern_roi_box *box);
/* Sample (i, j) of cell (row, column), in an image that has elements. */
kern_roi_sample kern_roi_place(const kern_roi_box *box, int64_t row, int64_t column, int64_t i, int64_t j,
                               int64_t height, int64_t width);
/* Do the operands, of any strides, fit each other? */
td_status kern_roi_check(const base_call *call);

/* ---- scatter ---- */

/* Is there a kernel for elements of `dtype` that are combined as `reduce` says ("none", "add", ...)? */
bool kern_scatter_has(const char *reduce, td_dtype dtype);

/* ---- order ---- */

/* f32 put in order as whole numbers. A key holds the value in its upper half and the place in its lower one, so that
 * the least key comes first, and of equal values the first. NaN counts as the largest value, and -0 equals 0. */
static inline uint64_t kern_order_key(float value, uint32_t place, bool largest) {
  uint32_t bits;
  value += 0.0f; /* -0 becomes 0 */
  memcpy(&bits, &value, sizeof bits);
  bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  if (value != value) bits = UINT32_MAX;
  return (uint64_t)(largest ? ~bits : bits) << 32 | place;
}
static inline uint32_t kern_order_place(uint64_t key) { return (uint32_t)key; }

/* Keys whose places rise, by their values; `spare` has room for as many. */
void kern_order_sort(uint64_t *keys, uint64_t *spare, int64_t count);
#endif
