/* i8_priv.h -- what operators of products of 8-bit integers (kernels/products/pack_i8.h) share. */
#ifndef OPS_I8_PRIV_H
#define OPS_I8_PRIV_H
#include "kernels/products/products.h"
#include "ops/common/epilogue_priv.h"

/* The scales are numbers that kernels take, x has a type that they need. *out: of the result. */
td_status ops_i8_check(ir_infer *ctx, td_dtype *out);
/* The same, and operand 1 has the type of packed weights. */
td_status ops_i8_check_packed(ir_infer *ctx, td_dtype *out);
/* As ops_infer_epilogue; a residual may be of 8 bits where all else stays in 8 bits, too. */
td_status ops_i8_infer_epilogue(ir_infer *ctx);
/* The kernel of the family whose panels are those of the packed weights. */
const kern_row *ops_i8_kernel(kern_family family, const ir_kernel_query *query);
/* x, dense, as integers of 0 to 255; sets the scales of x where a call finds them. NULL: out of memory. */
const uint8_t *ops_i8_values(const base_call *call, kern_i8_scales *s);
/* out[0] of dense sums, without their bias: scaled, through the epilogue, and quantised. */
td_status ops_i8_finish(const base_call *call, const kern_i8_layout *l, const kern_i8_scales *s, int32_t *sums);
/* The same of sums that have their bias. `by`: the scale of each column, which is overwritten. */
td_status ops_i8_finish_scaled(const base_call *call, const kern_i8_scales *s, const int32_t *sums, float *by);
/* For test cases: a residual of 8 bits instead of operand 3, of the result's dims and the type of x. */
bool ops_case_i8_residual(ir_case *c, int32_t rank, const int64_t *dims, bool rounds);
/* For test cases: random packed weights of a window, a matrix [k, n] as that of one pixel, as operand 1, and attributes
 * for `variant`: formats, and types of x and the result. `x_dims` of x, operand 0. */
bool ops_case_i8(ir_case *c, const kern_i8_window *window, int32_t rank, const int64_t *x_dims, uint32_t variant);
enum { OPS_I8_FORMS = 3, OPS_I8_VARIANTS = 6 * OPS_I8_FORMS };
#endif
