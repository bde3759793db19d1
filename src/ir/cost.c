/* cost.c -- work from types alone. */
#include "ir/cost.h"

/* Bytes of a tensor of known size; negative: not known. */
static double bytes_of(const ir_type *type) {
  double bytes = base_dtype(type->dtype)->bits / 8.0;
  if (type->kind != IR_TENSOR || type->rank < 0) return -1;
  for (int32_t i = 0; i < type->rank; i++) {
    if (!base_dim_known(type->dims[i])) return -1;
    bytes *= (double)type->dims[i];
  }
  return bytes;
}

static double elements_of(const ir_type *type) {
  double bits = base_dtype(type->dtype)->bits;
  return bits > 0 ? bytes_of(type) / (bits / 8) : 0;
}

enum { OPERANDS = 32 }; /* more than any operator with `flops` has optional ones */

/* `flops` may look at each optional operand: those that the node does not have are NULL. */
static double flops_of(const ir_op *op, const base_attrs *attrs, const ir_info *const *in, uint32_t in_count,
                       const ir_info *out) {
  const ir_info *all[OPERANDS] = {0};
  if (in_count >= OPERANDS) return op->flops(in, out, attrs);
  for (uint32_t i = 0; i < in_count; i++) all[i] = in[i];
  return op->flops(all, out, attrs);
}

bool ir_cost(const ir_op *op, const base_attrs *attrs, const ir_info *const *in, uint32_t in_count, const ir_info *out,
             uint32_t out_count, ir_work *work) {
  double bytes = 0;
  *work = (ir_work){0, 0};
  if (op->flags & (IR_OP_REGION | IR_OP_HOST) || !out_count) return false;
  for (uint32_t i = 0; i < in_count + out_count; i++) {
    const ir_info *info = i < in_count ? in[i] : &out[i - in_count];
    double part = info ? bytes_of(&info->type) : 0;
    if (part < 0) return false;
    /* Of a table that is looked up, only what comes out is read. */
    bytes += i == 0 && (op->flags & IR_OP_LOOKUP) ? bytes_of(&out[0].type) : part;
  }
  if (op->flags & (IR_OP_VIEW | IR_OP_VIEW_DENSE)) return true;
  work->bytes = bytes;
  if (op->flops) work->flops = flops_of(op, attrs, in, in_count, out);
  else if (op->flags & IR_OP_ELEMENTWISE) work->flops = elements_of(&out[0].type);
  return true;
}
