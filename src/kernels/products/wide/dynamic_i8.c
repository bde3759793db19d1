/* dynamic_i8.c -- KERN_DYNAMIC_QUANTIZE: td::dynamic_quantize_linear, bytes of a tensor by its own range. Attributes:
 * are there 7 bits, and the least scale. Every thread looks for the range: it is soon found, and nobody waits. */
#include "kernels/products/product_i8_priv.h"

enum { REDUCE_RANGE, LEAST, PIECE = 1 << 14 /* elements of a task */ };

td_status KERN_PART_NAME(dynamic_quantize)(const base_call *call) {
  const base_tensor *y = base_out(call, 0), *y_scale = base_out(call, 1), *y_zero = base_out(call, 2);
  const float *x = base_in(call, 0)->data;
  const int64_t count = base_tensor_numel(base_in(call, 0)), tasks = base_max_i64(base_ceil_div(count, PIECE), 1);
  kern_i8_scales s = {.x_scale = -(float)base_attr_float(call->attrs, LEAST),
                      .x_zero = base_attr_int(call->attrs, REDUCE_RANGE) ? 127 : 0};
  int64_t t = base_call_first(call, tasks);
  if (t >= tasks) return TD_OK;
  KERN_PART_NAME(i8_find_range)(x, count, &s);
  for (; t < tasks; t = base_call_next(call, t, tasks)) {
    const int64_t at = t * PIECE, n = base_min_i64(PIECE, count - at);
    if (t == 0 && y_scale) *(float *)y_scale->data = s.x_scale;
    if (t == 0 && y_zero) *(uint8_t *)y_zero->data = (uint8_t)s.x_zero;
    if (y) KERN_PART_NAME(i8_to_bytes)(&s, x + at, n, (uint8_t *)y->data + at);
  }
  return TD_OK;
}
