/* resize.h -- td::resize as kernels and the reference read it: where its attributes are, and the taps of each axis.
 * Every mode is separable: one axis after the other, in any order. */
#ifndef KERNELS_RESIZE_H
#define KERNELS_RESIZE_H
#include "kernels/attrs.h"
#include "base/base.h"

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
#endif
