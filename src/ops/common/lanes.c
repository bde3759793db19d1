/* lanes.c -- see lanes_priv.h. */
#include "ops/common/lanes_priv.h"

#include <math.h>

/* Dimensions [axis, end) make up one lane. */
td_status ops_lanes_start(const base_call *call, int64_t axis, int64_t end, ops_lanes *l) {
  const base_tensor *in = base_in(call, 0);
  l->data = NULL;
  l->dtype = in->dtype;
  l->outer = l->length = l->inner = 1;
  for (int32_t i = 0; i < in->rank; i++) *(i < axis ? &l->outer : i < end ? &l->length : &l->inner) *= in->dims[i];
  if (base_tensor_numel(in) == 0) return TD_OK;
  l->data = ops_dense(call, 0);
  return l->data ? TD_OK : base_no_memory(call->err, "scratch");
}

bool ops_float_wins(double a, double b, bool largest, bool last) {
  if (isnan(a)) return last && isnan(b);
  if (isnan(b) || (largest ? b > a : b < a)) return true;
  return last && a == b;
}
