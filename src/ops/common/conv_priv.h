/* conv_priv.h -- what td::conv and its relatives (kernels/products/conv.h) share: attribute rows, inference, and the
 * references' way over aten::convolution's body. */
#ifndef OPS_CONV_PRIV_H
#define OPS_CONV_PRIV_H
#include "kernels/products/products.h"
#include "ops/common/epilogue_priv.h"

/* The dims of what comes out, of an x whose rank is known; checks the attributes. more: output padding of a transposed
 * one, else NULL. */
td_status ops_conv_dims(ir_infer *ctx, const int64_t *more, base_dim *dims);
/* Checks attributes (KERN_CONV_LIST) and x, and gives out[0] its type; then the epilogue's operands. Weights are the
 * operator's own business. `more`: output padding per spatial dim of a transposed convolution; NULL: not transposed.
 * `pairs`: x and the result may be bf16. */
td_status ops_infer_conv(ir_infer *ctx, const int64_t *more, bool pairs);
/* out[0] = epilogue(conv(x, w)) in plain loops; w [channels, channels in / groups, kernel...] (transposed [channels in,
 * channels / groups, kernel...]) dense. */
td_status ops_run_conv(const base_call *call, const kern_conv *c, bool transposed, const base_f32 *w);
/* Depthwise weights [taps, channels] as [channels, taps], in scratch; NULL: out of memory. */
const float *ops_plain_taps(const base_call *call, int64_t taps, int64_t channels, const base_f32 *w);
/* 2 * products of a convolution over x that makes `out`. */
double ops_flops_conv(const ir_info *const *in, const ir_info *out, const base_attrs *attrs);
#endif
