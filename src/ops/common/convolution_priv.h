/* convolution_priv.h -- convolution as products of the weights with blocks of image patches, for f32, f64 and integers
 * (modulo 2^64, so modulo any narrower type, too); shared by aten::convolution and the quantised forms. */
#ifndef OPS_CONVOLUTION_PRIV_H
#define OPS_CONVOLUTION_PRIV_H
#include "ops/common/gemm_priv.h"
#include "ops/common/window_priv.h"

enum { CONV_TRANSPOSED = KERN_WINDOW_ATTRS, CONV_OUTPUT_PADDING, CONV_GROUPS, CONV_OUTPUT_SIZE, CONV_ATTRS };
#define CONV_ATTR_ROWS           \
  KERN_WINDOW_LIST(OPS_ATTR_ROW) \
  ATTR_BOOL("transposed", false), ATTR_INTS("output_padding"), ATTR_INT("groups", 1), ATTR_INTS("output_size")

/* One convolution of dense tensors. x: [batch, groups * group_in, in...]; y: [batch, groups * group_out, out...].
 * w: [groups * group_out, group_in, kernel...], transposed [groups * group_in, group_out, kernel...]. */
typedef struct convolution {
  window window;
  int64_t batch, groups, group_in, group_out;
  bool transposed;
} convolution;

/* Sizes from tensor dims and attributes; x and y give their dims. */
td_status ops_convolution_make(const base_call *call, const base_tensor *x, const base_tensor *w, const base_tensor *y,
                               convolution *c);
/* y += conv(x, w): x, w and y are dense. NULL scratch fails. */
td_status ops_convolve_f32(const base_call *call, const convolution *c, const base_f32 *x, const base_f32 *w,
                           base_f32 *y);
td_status ops_convolve_f64(const base_call *call, const convolution *c, const base_f64 *x, const base_f64 *w,
                           base_f64 *y);
td_status ops_convolve_u64(const base_call *call, const convolution *c, const base_u64 *x, const base_u64 *w,
                           base_u64 *y);
/* Shape of out[0] for image operand `x` and weights operand `w`. */
td_status ops_infer_convolution(ir_infer *ctx, uint32_t x, uint32_t w, td_dtype dtype);
#endif
