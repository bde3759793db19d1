/* product_amx.c -- KERN_LINEAR_I8 and KERN_CONV_I8 by tiles of AMX. Rows of a matrix are windows of one pixel. Sums are
 * finished as those of dot instructions. */
#include "kernels/simd/amx_priv.h"
#include "kernels/products/wide/bytes_image_priv.h"

_Static_assert((int)AMX_WIDTH == (int)BYTES_ROW, "rows of sums are as long");

/* A row; behind the last one, which a last block shorter than the others has no rows for, zeros. */
static void quantise_line(const image_product *image, const char *from, int64_t phase, void *to) {
  const bytes_image *p = (const bytes_image *)image;
  (void)phase;
  if (from) I8_NAME(i8_quantise)(&p->i8.s, (const float *)from, image->c.group_in, to);
  else fill(p, image->c.group_in, to);
}

static td_status multiply(const base_call *call, bytes_image *p) {
  const bool merged = KERN_PART_NAME(image_merge_lines)(&p->image.c);
  p->image.gathered = must_gather(&p->image.c.axis[2]);
  p->image.multiply = KERN_PART_NAME(amx_u8);
  if (p->i8.type == TD_F32) p->image.take = quantise_line;
  return multiply_image(call, p, merged);
}

td_status KERN_PART_NAME(linear_i8_amx)(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  const int64_t k = x->dims[x->rank - 1], n = out->dims[out->rank - 1];
  const kern_conv_axis one = {1, 1, 1, 1, 0, 1};
  bytes_image p = {
      .i8 = product_of(call),
      .image.c = {
          .axis = {one, one, one}, .batch = 1, .groups = 1, .group_in = k, .group_out = n, .taps = 1, .out_size = 1}};
  for (int32_t i = 0; i < x->rank - 1; i++) p.image.c.out_size *= x->dims[i];
  if (p.image.c.out_size == 0 || n == 0) return TD_OK;
  if (!kern_i8_layout_of(n, k, p.i8.s.panel, p.i8.s.depth, &p.i8.l))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "td::linear_i8: %lld elements a row", (long long)k);
  if (p.i8.s.x_scale <= 0) I8_NAME(i8_find_range)(x->data, p.image.c.out_size * k, &p.i8.s);
  return multiply(call, &p);
}

td_status KERN_PART_NAME(conv_i8_amx)(const base_call *call) {
  bytes_image p = {.i8 = product_of(call)};
  bool depthwise;
  TRY(kern_conv_sizes(call, &p.image.c));
  if (base_tensor_numel(base_out(call, 0)) == 0) return TD_OK;
  TRY(layout_window(&p.image.c, &p.i8, &depthwise));
  if (!depthwise) TRY(find_scales(&p, false));
  return depthwise ? I8_NAME(conv_i8)(call) : multiply(call, &p);
}
