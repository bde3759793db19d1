/* fused_priv.h -- what com.microsoft's fused operators share. */
#ifndef IMPORT_ONNX_FUSED_PRIV_H
#define IMPORT_ONNX_FUSED_PRIV_H
#include "import/onnx/onnx_priv.h"

/* The activation that the node's attribute `activation` names ("": none), applied to `v`. `params` are its parameters
 * in the order of ONNX's own attributes (alpha, beta; min, max); missing ones take ONNX's defaults. */
ir_value onnx_activate(onnx_node *n, ir_value v, const double *params, uint32_t count);
/* Channels last to channels second, and back. */
ir_value onnx_channels_second(onnx_node *n, ir_value v);
ir_value onnx_channels_last(onnx_node *n, ir_value v);
/* Between small integers and f32, one scale for all. A none `zero` is 0. */
ir_value onnx_dequantise(onnx_node *n, ir_value x, ir_value scale, ir_value zero);
ir_value onnx_quantise(onnx_node *n, ir_value x, ir_value scale, ir_value zero, td_dtype dtype);
/* The size of an axis, [1], i64; 0, 1, ... below it, [size]. */
ir_value onnx_axis_size(onnx_node *n, ir_value v, int64_t axis);
ir_value onnx_count_to(onnx_node *n, ir_value size);

/* td::matmul_nbits. zeros, bias, groups: none where absent. `accuracy`: MatMulNBits's accuracy_level. */
typedef struct onnx_nbits {
  ir_value x, weights, scales, zeros, bias, groups;
  int64_t k, n, bits, block, accuracy;
} onnx_nbits;
ir_value onnx_product_nbits(onnx_node *n, const onnx_nbits *p);
#endif
