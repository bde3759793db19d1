/* join.c -- KERN_CAT of all widths but 32 bits (data/wide/move.c): each operand is a task, and copied as KERN_COPY does
 * it, with neighbouring dimensions merged. */
#include "kernels/kernels_priv.h"
#include "kernels/data/move_priv.h"

/* Where along the axis operand `i` begins; the end of them all for i = in_count. -1: operands do not fit the result. */
static int64_t start_of(const base_call *call, int32_t axis, uint32_t i) {
  const base_tensor *out = base_out(call, 0);
  int64_t start = 0;
  for (uint32_t k = 0; k < i; k++) {
    const base_tensor *in = base_in(call, k);
    bool fits = in && in->rank == out->rank && in->dtype == out->dtype && in->dims[axis] <= out->dims[axis] - start;
    for (int32_t d = 0; fits && d < out->rank; d++) fits = d == axis || in->dims[d] == out->dims[d];
    if (!fits) return -1;
    start += in->dims[axis];
  }
  return start;
}

td_status kern_cat_any(const base_call *call) {
  const base_tensor *out = base_out(call, 0);
  const int64_t dim = base_attr_int(call->attrs, KERN_CAT_DIM);
  const int32_t axis = (int32_t)(dim < 0 ? dim + out->rank : dim);
  if (start_of(call, axis, call->in_count) != out->dims[axis])
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "aten::cat: the operands do not fill the result");
  for (int64_t i = base_call_first(call, call->in_count); i < call->in_count;
       i = base_call_next(call, i, call->in_count)) {
    const base_tensor *in = base_in(call, (uint32_t)i);
    base_tensor part = *out;
    part.dims[axis] = in->dims[axis];
    if (base_tensor_numel(in)) part.data = base_at(out, start_of(call, axis, (uint32_t)i) * out->strides[axis]);
    TRY(kern_move_now(call, &part, in));
  }
  return TD_OK;
}
