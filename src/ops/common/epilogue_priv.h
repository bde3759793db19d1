/* epilogue_priv.h -- what operators with an epilogue (kernels/epilogue.h) share: attribute rows, inference, and the
 * definition. */
#ifndef OPS_EPILOGUE_PRIV_H
#define OPS_EPILOGUE_PRIV_H
#include "kernels/kernels.h"
#include "ops/common/ops_priv.h"

/* Operands KERN_IN_BIAS to KERN_IN_SHIFT fit out[0], which is inferred, as do those of the chain, if there is one; and
 * the activation exists. All are f32, but for a residual of another type. */
td_status ops_infer_epilogue(ir_infer *ctx, td_dtype residual);
/* out[0] of a product of f32, of these dims, and its epilogue. `pairs`: x and the residual may be bf16, and so may be
 * the result, behind which no chain stands then. */
td_status ops_infer_product(ir_infer *ctx, bool pairs, int32_t rank, const base_dim *dims);
/* Of a product x [..., k] -> [..., n], sizes as far as they are known. */
double ops_flops_linear(const ir_info *const *in, const ir_info *out, const base_attrs *attrs);
/* out[0] of a product of f32 whose rank is not known, which no chain follows. */
td_status ops_out_unranked_sums(ir_infer *ctx);
/* The operands of the chain in the last attribute, behind `fixed` others, broadcast to out[0], which is inferred. The
 * chain's further results get its type. */
td_status ops_infer_chain(ir_infer *ctx, uint32_t fixed);
/* out[0], which is dense, goes through the chain in the last attribute, if there is one; it makes the other outputs. */
td_status ops_apply_chain(const base_call *call);
/* *call with operand 0 as the chain in front of it makes it, if there is one, in memory of `f`, which lasts as long. */
typedef struct ops_front {
  base_call call;
  const base_value *in[KERN_CHAIN_END];
  base_value x;
} ops_front;
td_status ops_run_front(const base_call **call, ops_front *f);
/* out[0] = epilogue(sums): both dense f32 of the same dims, which may be one memory. */
td_status ops_apply_epilogue(const base_call *call, const base_f32 *sums);
/* For test cases: adds an epilogue of these parts to a case whose operands 0 and 1 are there, and an activation, to an
 * output of these dims. */
enum {
  BIAS = 1 << KERN_IN_BIAS,
  RESIDUAL = 1 << KERN_IN_RESIDUAL,
  SCALE = 1 << KERN_IN_SCALE,
  SHIFT = 1 << KERN_IN_SHIFT,
  CHAIN = UINT8_MAX & ~((1 << KERN_EPILOGUE_END) - 1), /* operands of the chain, as ir_op.by_sample has them */
  FRONT = UINT8_MAX + 1,                               /* instead of CHAIN: one in front; one that reduces rows */
  FRONT_ROWS = 2 * FRONT
};
/* A chain and its operands: mish(t) * a - b, a of the first and last dimension, b of all but the last; mish(t)
 * is a further result. */
bool ops_case_chain(ir_case *c, int32_t rank, const int64_t *dims);
/* The same in front of operand 0: relu(x * a) + b, or (`reduces`) max(x - the mean of its row, a) + b. */
bool ops_case_front(ir_case *c, bool reduces);
bool ops_case_epilogue(ir_case *c, uint32_t parts, kern_act act, bool late, int32_t rank, const int64_t *dims);
/* Of a product of pairs, where its parts allow that: x, the residual, the result become bf16. */
enum { BF16_X = 1, BF16_RESIDUAL = 2, BF16_RESULT = 4 };
bool ops_case_bf16(ir_case *c, uint32_t which, uint32_t parts);
#endif
