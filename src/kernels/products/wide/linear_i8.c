/* linear_i8.c -- KERN_LINEAR_I8: td::linear_i8 by dot instructions. */
#include "kernels/products/product_i8_priv.h"

td_status KERN_PART_NAME(linear_i8)(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  const int64_t k = x->dims[x->rank - 1], n = out->dims[out->rank - 1];
  i8_product p = {.call = call,
                  .s = kern_i8_scales_of(call->attrs),
                  .w = base_in(call, 1)->data,
                  .m = 1,
                  .type = x->dtype,
                  .x = x->data,
                  .x_pitch = k,
                  .out_pitch = kern_pitch(out)};
  for (int32_t i = 0; i < x->rank - 1; i++) p.m *= x->dims[i];
  if (p.m == 0 || n == 0) return TD_OK;
  if (!kern_i8_layout_of(n, k, p.s.panel, p.s.depth, &p.l))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "td::linear_i8: %lld elements a row", (long long)k);
  if (p.s.x_scale <= 0) KERN_PART_NAME(i8_find_range)(x->data, p.m * k, &p.s);
  return KERN_PART_NAME(i8_multiply)(&p);
}
