/* attrs.h -- attributes of the operators whose kernels read them, in the order of their blocks (base/attr.h). Each list
 * stands once: here it becomes positions, and the operator's file makes its table of it (OPS_ATTR_ROW). A row is
 * X(position, kind, name and default as ATTR_kind of ops/common/ops_priv.h takes them). */
#ifndef KERNELS_ATTRS_H
#define KERNELS_ATTRS_H
#include "base/attr.h"

#define KERN_ATTR_POSITION(position, kind, ...) position,
/* An enum whose first position is `first`. */
#define KERN_ATTRS_FROM(first, before, positions) enum { before = (first)-1, positions }

/* ---- what operators share ---- */

/* The last of an operator with an epilogue (epilogue.h); positions count from the first of these. result: the type of
 * out[0] of a product of f32; absent: that. */
#define KERN_EPILOGUE_LIST(X)                                  \
  X(KERN_EPILOGUE_ACT, STR, "act", "none")                     \
  X(KERN_EPILOGUE_ACT_A, FLOAT, "act_a", 0)                    \
  X(KERN_EPILOGUE_ACT_B, FLOAT, "act_b", 0)                    \
  X(KERN_EPILOGUE_LATE, BOOL, "act_late", false)               \
  X(KERN_EPILOGUE_RESULT, OPTIONAL, "result", BASE_ATTR_DTYPE) \
  X(KERN_EPILOGUE_FRONT, BOOL, "in_front", false)              \
  X(KERN_EPILOGUE_CHAIN, OPTIONAL, "chain", BASE_ATTR_INTS)
enum { KERN_EPILOGUE_LIST(KERN_ATTR_POSITION) KERN_EPILOGUE_ATTRS };

/* Windows as models have them: lists per spatial dim, padding begins and then ends; empty: 1 and 0. auto_pad: "",
 * "same_upper", "same_lower". */
#define KERN_WINDOW_LIST(X)                 \
  X(KERN_WINDOW_STRIDE, INTS, "stride")     \
  X(KERN_WINDOW_PADDING, INTS, "padding")   \
  X(KERN_WINDOW_DILATION, INTS, "dilation") \
  X(KERN_WINDOW_AUTO_PAD, STR, "auto_pad", "")
enum { KERN_WINDOW_LIST(KERN_ATTR_POSITION) KERN_WINDOW_ATTRS };

/* ---- convolutions and pooling ---- */

/* conv.h. kernel: spatial sizes; padding as above; channels: of the output; panel: columns of a panel of packed
 * weights, 0: as the model has them; channels_first: x is [batch, channels, in...]. */
#define KERN_CONV_LIST(X)                                  \
  X(KERN_CONV_KERNEL, NEEDED, "kernel", BASE_ATTR_INTS)    \
  X(KERN_CONV_STRIDE, INTS, "stride")                      \
  X(KERN_CONV_PADDING, INTS, "padding")                    \
  X(KERN_CONV_DILATION, INTS, "dilation")                  \
  X(KERN_CONV_GROUPS, INT, "groups", 1)                    \
  X(KERN_CONV_CHANNELS, NEEDED, "channels", BASE_ATTR_INT) \
  X(KERN_CONV_PANEL, INT, "panel", 0)                      \
  X(KERN_CONV_CHANNELS_FIRST, BOOL, "channels_first", false)
enum { KERN_CONV_LIST(KERN_ATTR_POSITION) KERN_CONV_ATTRS };

/* td::winograd_conv, behind those of a convolution: 2 or 4. */
#define KERN_WINOGRAD_LIST(X) X(KERN_WINOGRAD_TILE, NEEDED, "tile", BASE_ATTR_INT)
KERN_ATTRS_FROM(KERN_CONV_ATTRS, KERN_WINOGRAD_BEFORE, KERN_WINOGRAD_LIST(KERN_ATTR_POSITION));

/* expand.h, behind those of a convolution: an activation of acts.def, its parameters; the window of a first layer,
 * kernel empty: 1x1. */
#define KERN_EXPAND_LIST(X)                      \
  X(KERN_EXPAND_ACT, STR, "expand_act", "none")  \
  X(KERN_EXPAND_ACT_A, FLOAT, "expand_act_a", 0) \
  X(KERN_EXPAND_ACT_B, FLOAT, "expand_act_b", 0) \
  X(KERN_EXPAND_KERNEL, INTS, "expand_kernel")   \
  X(KERN_EXPAND_STRIDE, INTS, "expand_stride")   \
  X(KERN_EXPAND_PADDING, INTS, "expand_padding")
KERN_ATTRS_FROM(KERN_CONV_ATTRS, KERN_EXPAND_BEFORE, KERN_EXPAND_LIST(KERN_ATTR_POSITION));

/* Pooling, behind those of a window. kernel_size empty: the whole input. What the operator adds of its own: of
 * td::avg_pool count_include_pad, of others no concern of kernels. */
#define KERN_POOL_LIST(X, ...)                \
  X(KERN_POOL_KERNEL, INTS, "kernel_size")    \
  X(KERN_POOL_CEIL, BOOL, "ceil_mode", false) \
  X(KERN_POOL_OWN, __VA_ARGS__)               \
  X(KERN_POOL_CHANNELS_LAST, BOOL, "channels_last", false)
KERN_ATTRS_FROM(KERN_WINDOW_ATTRS, KERN_POOL_BEFORE, KERN_POOL_LIST(KERN_ATTR_POSITION, BOOL, "", false));

/* ---- products ---- */

#define KERN_LINEAR_LIST(X)                          \
  X(KERN_LINEAR_TRANS_W, BOOL, "trans_w", false)     \
  X(KERN_LINEAR_COLUMNS, NEEDED, "n", BASE_ATTR_INT) \
  X(KERN_LINEAR_PANEL, INT, "panel", 0)              \
  X(KERN_LINEAR_STRASSEN, BOOL, "strassen", false)   \
  X(KERN_LINEAR_PAIRS, BOOL, "pairs", false)
enum { KERN_LINEAR_LIST(KERN_ATTR_POSITION) };

/* pack_i8.h: the form of the weights and the scales of a product of 8-bit integers, just in front of the epilogue's.
 * depth: elements of k that stand side by side. x_scale: of x; 0 or less: found from the range of x at each call, and
 * no less than -x_scale. x_zero: the integer, of 0 to 255, that stands for 0 in x (of i8: plus 128); where x_scale is
 * found, how many steps the range has, 0: 255. y_scale: of the result; 0: it is f32. y_signed: it is i8, else u8;
 * y_zero: what stands for 0 in it. t_scale, t_zero: where the residual is of 8 bits, of the sums before it is added,
 * quantised to the type of the result, 0: they are added as f32; r_scale, r_zero: of the residual, as x_scale and
 * x_zero. w_shift: what is to be subtracted from each weight, as a zero point that i8 has no room for. */
#define KERN_I8_LIST(X)                             \
  X(KERN_I8_PANEL, NEEDED, "panel8", BASE_ATTR_INT) \
  X(KERN_I8_DEPTH, NEEDED, "depth", BASE_ATTR_INT)  \
  X(KERN_I8_X_SCALE, FLOAT, "x_scale", 0)           \
  X(KERN_I8_X_ZERO, INT, "x_zero", 0)               \
  X(KERN_I8_Y_SCALE, FLOAT, "y_scale", 0)           \
  X(KERN_I8_Y_ZERO, INT, "y_zero", 0)               \
  X(KERN_I8_Y_SIGNED, BOOL, "y_signed", false)      \
  X(KERN_I8_T_SCALE, FLOAT, "t_scale", 0)           \
  X(KERN_I8_T_ZERO, INT, "t_zero", 0)               \
  X(KERN_I8_R_SCALE, FLOAT, "r_scale", 0)           \
  X(KERN_I8_R_ZERO, INT, "r_zero", 0)               \
  X(KERN_I8_W_SHIFT, INT, "w_shift", 0)
enum { KERN_I8_LIST(KERN_ATTR_POSITION) KERN_I8_ATTRS };

#define KERN_LINEAR_I8_LIST(X) X(KERN_LINEAR_I8_COLUMNS, NEEDED, "n", BASE_ATTR_INT)
enum { KERN_LINEAR_I8_LIST(KERN_ATTR_POSITION) KERN_LINEAR_I8_ATTRS };

/* td::matmul_i8: of its second operand, as x_scale and x_zero are of the first. */
#define KERN_MATMUL_I8_LIST(X)                 \
  X(KERN_MATMUL_I8_SCALE, FLOAT, "w_scale", 1) \
  X(KERN_MATMUL_I8_ZERO, INT, "w_zero", 0)
enum { KERN_MATMUL_I8_LIST(KERN_ATTR_POSITION) KERN_MATMUL_I8_MAX_K = 32768 /* 255 * 255 * k is within i32 */ };

/* td::lookup_i8: 256 bytes, eight in a number, the first the lowest. */
#define KERN_LOOKUP_I8_LIST(X)                          \
  X(KERN_LOOKUP_TABLE, NEEDED, "table", BASE_ATTR_INTS) \
  X(KERN_LOOKUP_SIGNED, BOOL, "y_signed", false)
enum { KERN_LOOKUP_I8_LIST(KERN_ATTR_POSITION) KERN_LOOKUP_NUMBERS = 32 };

/* td::add_i8, td::mul_i8: scales and zero points as x_scale and so on of KERN_I8_LIST. least, most: of the result, as
 * it is stored. */
#define KERN_BINARY_I8_LIST(X)                   \
  X(KERN_BINARY_A_SCALE, FLOAT, "a_scale", 1)    \
  X(KERN_BINARY_A_ZERO, INT, "a_zero", 0)        \
  X(KERN_BINARY_B_SCALE, FLOAT, "b_scale", 1)    \
  X(KERN_BINARY_B_ZERO, INT, "b_zero", 0)        \
  X(KERN_BINARY_Y_SCALE, FLOAT, "y_scale", 1)    \
  X(KERN_BINARY_Y_ZERO, INT, "y_zero", 0)        \
  X(KERN_BINARY_SIGNED, BOOL, "y_signed", false) \
  X(KERN_BINARY_LEAST, INT, "least", 0)          \
  X(KERN_BINARY_MOST, INT, "most", 255)
enum { KERN_BINARY_I8_LIST(KERN_ATTR_POSITION) };

/* td::softmax_i8: as in KERN_I8_LIST; of x the scale alone tells. */
#define KERN_SOFTMAX_I8_LIST(X)                   \
  X(KERN_SOFTMAX_I8_X_SCALE, FLOAT, "x_scale", 1) \
  X(KERN_SOFTMAX_I8_Y_SCALE, FLOAT, "y_scale", 1) \
  X(KERN_SOFTMAX_I8_Y_ZERO, INT, "y_zero", 0)     \
  X(KERN_SOFTMAX_I8_SIGNED, BOOL, "y_signed", false)
enum { KERN_SOFTMAX_I8_LIST(KERN_ATTR_POSITION) };

/* td::avg_pool_i8, behind those of a pool: as in KERN_I8_LIST. */
#define KERN_AVG_I8_LIST(X)                \
  X(KERN_AVG_X_SCALE, FLOAT, "x_scale", 1) \
  X(KERN_AVG_X_ZERO, INT, "x_zero", 0)     \
  X(KERN_AVG_Y_SCALE, FLOAT, "y_scale", 1) \
  X(KERN_AVG_Y_ZERO, INT, "y_zero", 0)     \
  X(KERN_AVG_SIGNED, BOOL, "y_signed", false)
KERN_ATTRS_FROM(KERN_POOL_CHANNELS_LAST + 1, KERN_AVG_I8_BEFORE, KERN_AVG_I8_LIST(KERN_ATTR_POSITION));

/* pack_nbits.h. zeros: zero points are stored; x_bits: x becomes whole numbers of 8 or 16 bits, block by block; 32: it
 * stays f32. `pairs`: of 8 bits x and the weights are rounded to bf16, of 16 x is the sum of two bf16. */
#define KERN_NBITS_LIST(X)                                 \
  X(KERN_NBITS_COLUMNS, NEEDED, "n", BASE_ATTR_INT)        \
  X(KERN_NBITS_BITS, NEEDED, "bits", BASE_ATTR_INT)        \
  X(KERN_NBITS_BLOCK, NEEDED, "block_size", BASE_ATTR_INT) \
  X(KERN_NBITS_PANEL, NEEDED, "panel", BASE_ATTR_INT)      \
  X(KERN_NBITS_ZEROS, BOOL, "zeros", false)                \
  X(KERN_NBITS_X_BITS, INT, "x_bits", 32)                  \
  X(KERN_NBITS_PAIRS, BOOL, "pairs", false)
enum { KERN_NBITS_LIST(KERN_ATTR_POSITION) };

#define KERN_GEMM_LIST(X)                      \
  X(KERN_GEMM_ALPHA, FLOAT, "alpha", 1)        \
  X(KERN_GEMM_BETA, FLOAT, "beta", 1)          \
  X(KERN_GEMM_TRANS_A, BOOL, "trans_a", false) \
  X(KERN_GEMM_TRANS_B, BOOL, "trans_b", false)
enum { KERN_GEMM_LIST(KERN_ATTR_POSITION) };

/* What becomes of a row of scores whose softmax is no number: that stays (a row that sees nothing is one, all its
 * scores being -inf); a row that sees nothing is zeros; all such rows are zeros. */
enum { KERN_ATTENTION_PLAIN, KERN_ATTENTION_SAFE, KERN_ATTENTION_GUARDED };
/* Masks are applied one after the other. Each is added to the scores, unless its bit of `replaces` is set: then, where
 * it is not 0, it stands in their place, whatever they are. `pairs`: products may be of operands rounded to bf16.
 * `left`: a query sees so many keys before its own place, and all where it is negative. `softcap`: where it is not 0, a
 * score is softcap tanh(score / softcap) before masks are applied. */
#define KERN_ATTENTION_LIST(X)                              \
  X(KERN_ATTENTION_SCALE, FLOAT, "scale", 1)                \
  X(KERN_ATTENTION_CAUSAL, BOOL, "causal", false)           \
  X(KERN_ATTENTION_ROWS, INT, "safe", KERN_ATTENTION_PLAIN) \
  X(KERN_ATTENTION_REPLACES, INT, "replaces", 0)            \
  X(KERN_ATTENTION_PAIRS, BOOL, "pairs", false)             \
  X(KERN_ATTENTION_LEFT, INT, "left", -1)                   \
  X(KERN_ATTENTION_SOFTCAP, FLOAT, "softcap", 0)
enum { KERN_ATTENTION_LIST(KERN_ATTR_POSITION) };

/* td::cache_rows, td::rotate_rows. */
#define KERN_ROWS_LIST(X)             \
  X(KERN_ROWS_HEADS, INT, "heads", 1) \
  X(KERN_ROWS_INTERLEAVED, BOOL, "interleaved", false)
enum { KERN_ROWS_LIST(KERN_ATTR_POSITION) };

/* td::linear_attention. */
#define KERN_LINEAR_ATTENTION_LIST(X)                         \
  X(KERN_LINEAR_ATTENTION_HEADS, INT, "heads", 1)             \
  X(KERN_LINEAR_ATTENTION_QUERY_HEADS, INT, "query_heads", 1) \
  X(KERN_LINEAR_ATTENTION_SCALE, FLOAT, "scale", 1)
enum { KERN_LINEAR_ATTENTION_LIST(KERN_ATTR_POSITION) };

/* td::lstm_packed and its relatives (recurrent.h); those of the last row are of one alone each. */
#define KERN_RECURRENT_LIST(X)                       \
  X(KERN_RECURRENT_HIDDEN, INT, "hidden", 0)         \
  X(KERN_RECURRENT_PANEL, INT, "panel", 0)           \
  X(KERN_RECURRENT_DIRECTIONS, INT, "directions", 1) \
  X(KERN_RECURRENT_REVERSE, BOOL, "reverse", false)  \
  X(KERN_RECURRENT_BATCH_FIRST, BOOL, "batch_first", false)
/* depth: of r of 8 bits (pack_i8.h): the state of each sequence is rounded to 8 bits of its range, as ONNX's
 * DynamicQuantizeLinear does, before it meets r. */
#define KERN_LSTM_LIST(X) X(KERN_LSTM_DEPTH, INT, "depth", 0)
#define KERN_GRU_LIST(X) X(KERN_GRU_LINEAR_BEFORE_RESET, BOOL, "linear_before_reset", false)
#define KERN_RNN_LIST(X) X(KERN_RNN_RELU, BOOL, "relu", false)
enum { KERN_RECURRENT_LIST(KERN_ATTR_POSITION) KERN_RECURRENT_ATTRS };
KERN_ATTRS_FROM(KERN_RECURRENT_ATTRS, KERN_LSTM_BEFORE, KERN_LSTM_LIST(KERN_ATTR_POSITION));
KERN_ATTRS_FROM(KERN_RECURRENT_ATTRS, KERN_GRU_BEFORE, KERN_GRU_LIST(KERN_ATTR_POSITION));
KERN_ATTRS_FROM(KERN_RECURRENT_ATTRS, KERN_RNN_BEFORE, KERN_RNN_LIST(KERN_ATTR_POSITION));

/* ---- rows: sums, norms, order ---- */

#define KERN_REDUCE_LIST(X)                      \
  X(KERN_REDUCE_DIM, INTS, "dim")                \
  X(KERN_REDUCE_KEEPDIM, BOOL, "keepdim", false) \
  X(KERN_REDUCE_NOOP, BOOL, "noop", false)
enum { KERN_REDUCE_LIST(KERN_ATTR_POSITION) KERN_REDUCE_ATTRS };

#define KERN_ARG_LIST(X)                          \
  X(KERN_ARG_DIM, OPTIONAL, "dim", BASE_ATTR_INT) \
  X(KERN_ARG_KEEPDIM, BOOL, "keepdim", false)     \
  X(KERN_ARG_LAST, BOOL, "select_last_index", false)
enum { KERN_ARG_LIST(KERN_ATTR_POSITION) };

#define KERN_SOFTMAX_LIST(X)          \
  X(KERN_SOFTMAX_DIM, INT, "dim", -1) \
  X(KERN_SOFTMAX_FLATTEN, BOOL, "flatten", false)
enum { KERN_SOFTMAX_LIST(KERN_ATTR_POSITION) };

#define KERN_LAYER_NORM_LIST(X)            \
  X(KERN_LAYER_NORM_AXIS, INT, "axis", -1) \
  X(KERN_LAYER_NORM_EPS, FLOAT, "eps", 1e-5)
enum { KERN_LAYER_NORM_LIST(KERN_ATTR_POSITION) KERN_LAYER_NORM_ATTRS };

#define KERN_ADD_NORM_LIST(X) X(KERN_ADD_NORM_EPS, FLOAT, "eps", 1e-5)
enum { KERN_ADD_NORM_LIST(KERN_ATTR_POSITION) };

/* act: what follows, of epilogue.h; absent: nothing. */
/* Of aten::matmul and td::mix. `pairs`: operands are rounded to bf16. */
#define KERN_MATMUL_LIST(X)                               \
  X(KERN_MATMUL_PAIRS, OPTIONAL, "pairs", BASE_ATTR_BOOL) \
  X(KERN_MATMUL_CHAIN, OPTIONAL, "chain", BASE_ATTR_INTS)
enum { KERN_MATMUL_LIST(KERN_ATTR_POSITION) };

#define KERN_GROUP_NORM_LIST(X)                                \
  X(KERN_GROUP_NORM_GROUPS, INT, "num_groups", 0)              \
  X(KERN_GROUP_NORM_EPS, FLOAT, "eps", 1e-5)                   \
  X(KERN_GROUP_NORM_LAST, BOOL, "channels_last", false)        \
  X(KERN_GROUP_NORM_ACT, OPTIONAL, "act", BASE_ATTR_STR)       \
  X(KERN_GROUP_NORM_ACT_A, OPTIONAL, "act_a", BASE_ATTR_FLOAT) \
  X(KERN_GROUP_NORM_ACT_B, OPTIONAL, "act_b", BASE_ATTR_FLOAT) \
  X(KERN_GROUP_NORM_RESULT, OPTIONAL, "result", BASE_ATTR_DTYPE)
enum { KERN_GROUP_NORM_LIST(KERN_ATTR_POSITION) };

/* td::group_moments. parts: of the plane, 1 or more. */
#define KERN_MOMENTS_LIST(X) X(KERN_MOMENTS_PARTS, NEEDED, "parts", BASE_ATTR_INT)
enum { KERN_MOMENTS_LIST(KERN_ATTR_POSITION) };

#define KERN_SCALE_SHIFT_LIST(X) X(KERN_SCALE_SHIFT_ACT, STR, "act", "none")
enum { KERN_SCALE_SHIFT_LIST(KERN_ATTR_POSITION) };

/* aten::topk and aten::sort have their first two at the same positions. */
#define KERN_TOPK_LIST(X)           \
  X(KERN_ORDER_DIM, INT, "dim", -1) \
  X(KERN_ORDER_LARGEST, INT, "largest", 1)
#define KERN_SORT_LIST(X)           \
  X(KERN_ORDER_DIM, INT, "dim", -1) \
  X(KERN_ORDER_LARGEST, INT, "descending", 0)
enum { KERN_TOPK_LIST(KERN_ATTR_POSITION) KERN_ORDER_ATTRS };

/* ---- elements and where they lie ---- */

#define KERN_ELU_LIST(X)               \
  X(KERN_ELU_ALPHA, FLOAT, "alpha", 1) \
  X(KERN_ELU_SCALE, FLOAT, "scale", 1) \
  X(KERN_ELU_INPUT_SCALE, FLOAT, "input_scale", 1)
enum { KERN_ELU_LIST(KERN_ATTR_POSITION) };

#define KERN_CAT_LIST(X) X(KERN_CAT_DIM, NEEDED, "dim", BASE_ATTR_INT)
enum { KERN_CAT_LIST(KERN_ATTR_POSITION) };

/* aten::gather and aten::index_select. */
#define KERN_GATHER_LIST(X) X(KERN_GATHER_DIM, INT, "dim", 0)
enum { KERN_GATHER_LIST(KERN_ATTR_POSITION) };

#define KERN_SCATTER_LIST(X)         \
  X(KERN_SCATTER_DIM, INT, "dim", 0) \
  X(KERN_SCATTER_REDUCE, STR, "reduce", "none")
enum { KERN_SCATTER_LIST(KERN_ATTR_POSITION) };

#define KERN_SCATTER_ND_LIST(X) X(KERN_SCATTER_ND_REDUCE, STR, "reduce", "none")
enum { KERN_SCATTER_ND_LIST(KERN_ATTR_POSITION) };

/* mode: DCR or CRD. */
#define KERN_BLOCKS_LIST(X)                               \
  X(KERN_BLOCKS_SIZE, NEEDED, "blocksize", BASE_ATTR_INT) \
  X(KERN_BLOCKS_MODE, STR, "mode", "DCR")
enum { KERN_BLOCKS_LIST(KERN_ATTR_POSITION) };

/* from: per op of the program, the origin that it came of (design.md §4). */
#define KERN_FUSED_LIST(X)                                 \
  X(KERN_FUSED_PROGRAM, NEEDED, "program", BASE_ATTR_INTS) \
  X(KERN_FUSED_FROM, OPTIONAL, "from", BASE_ATTR_INTS)
enum { KERN_FUSED_LIST(KERN_ATTR_POSITION) };

/* ---- images and signals ---- */

/* axes empty: all. */
#define KERN_RESIZE_LIST(X)                                      \
  X(KERN_RESIZE_MODE, STR, "mode", "nearest")                    \
  X(KERN_RESIZE_COORDINATES, STR, "coordinates", "half_pixel")   \
  X(KERN_RESIZE_NEAREST, STR, "nearest", "round_prefer_floor")   \
  X(KERN_RESIZE_CUBIC_A, FLOAT, "cubic_a", -0.75)                \
  X(KERN_RESIZE_EXCLUDE_OUTSIDE, BOOL, "exclude_outside", false) \
  X(KERN_RESIZE_EXTRAPOLATION, FLOAT, "extrapolation", 0)        \
  X(KERN_RESIZE_ANTIALIAS, BOOL, "antialias", false)             \
  X(KERN_RESIZE_POLICY, STR, "policy", "stretch")                \
  X(KERN_RESIZE_AXES, INTS, "axes")
enum { KERN_RESIZE_LIST(KERN_ATTR_POSITION) };

#define KERN_GRID_LIST(X)                       \
  X(KERN_GRID_MODE, STR, "mode", "linear")      \
  X(KERN_GRID_PADDING, STR, "padding", "zeros") \
  X(KERN_GRID_ALIGN_CORNERS, BOOL, "align_corners", false)
enum { KERN_GRID_LIST(KERN_ATTR_POSITION) };

/* aten::max_roi_pool has the first three. */
#define KERN_ROI_SIZE_LIST(X)          \
  X(KERN_ROI_HEIGHT, INT, "height", 1) \
  X(KERN_ROI_WIDTH, INT, "width", 1)   \
  X(KERN_ROI_SPATIAL_SCALE, FLOAT, "spatial_scale", 1)
#define KERN_ROI_LIST(X)                               \
  KERN_ROI_SIZE_LIST(X)                                \
  X(KERN_ROI_SAMPLING_RATIO, INT, "sampling_ratio", 0) \
  X(KERN_ROI_MAXIMUM, BOOL, "maximum", false)          \
  X(KERN_ROI_HALF_PIXEL, BOOL, "half_pixel", true)
enum { KERN_ROI_LIST(KERN_ATTR_POSITION) };

/* Boxes are centers and sizes. */
#define KERN_SUPPRESS_LIST(X) X(KERN_SUPPRESS_CENTER, INT, "center_point_box", 0)
enum { KERN_SUPPRESS_LIST(KERN_ATTR_POSITION) };

#define KERN_DFT_LIST(X)                      \
  X(KERN_DFT_INVERSE, BOOL, "inverse", false) \
  X(KERN_DFT_ONESIDED, BOOL, "onesided", false)
enum { KERN_DFT_LIST(KERN_ATTR_POSITION) };

#define KERN_STFT_LIST(X) X(KERN_STFT_ONESIDED, BOOL, "onesided", true)
enum { KERN_STFT_LIST(KERN_ATTR_POSITION) };
#endif
