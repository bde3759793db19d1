/* lower_vision.c -- torchvision's operators. */
#include "import/aten/aten_priv.h"

/* nms(boxes [n, 4], scores [n], iou_threshold) -> the boxes that stay, best first */
aten_value aten_lower_nms(aten_args *c) {
  ir_value boxes = ir_build_cast(c->b, aten_in(c, 0), TD_F32), scores = ir_build_cast(c->b, aten_in(c, 1), TD_F32);
  boxes = aten_unsqueeze(c->a, boxes, 0);
  scores = aten_unsqueeze(c->a, aten_unsqueeze(c->a, scores, 0), 0);
  ir_value most = ir_build_ints(c->b, (int64_t[]){INT32_MAX}, 1);
  ir_value threshold = aten_reshape(c->a, aten_get_number(c, 2, TD_F32), (int64_t[]){1}, 1);
  ir_value rows =
      IR_EMIT(c->b, "td::non_max_suppression", boxes, scores, most, threshold); /* [k, 3]: image, class, box */
  return aten_ret(c, aten_select(c->a, rows, 1, 2));
}
/* (input, rois [k, 5], spatial_scale, height, width, sampling_ratio, aligned): the image first in a row */
aten_value aten_lower_roi_align(aten_args *c) {
  ir_value rois = aten_in(c, 1), image = ir_build_cast(c->b, aten_select(c->a, rois, 1, 0), TD_I64);
  ir_value boxes = aten_slice(c->a, rois, 1, 1, INT64_MAX, 1);
  const bool known = aten_is_known(&c->args[2]);
  /* One that only running can tell scales the boxes: the same products. */
  if (!known) boxes = aten_binary(c->a, "aten::mul", boxes, aten_get_number(c, 2, aten_dtype_in(c, 1)));
  ir_value in[] = {aten_in(c, 0), boxes, image};
  int64_t ratio = aten_get_int(c, 5);
  return aten_ret(c,
                  IR_EMIT_ARGS(c->b, "td::roi_align", in, 3, ARG_INT("height", aten_get_int(c, 3)),
                               ARG_INT("width", aten_get_int(c, 4)), ARG_INT("sampling_ratio", ratio < 0 ? 0 : ratio),
                               ARG_FLOAT("spatial_scale", known ? aten_get_float(c, 2) : 1),
                               ARG_BOOL("half_pixel", aten_get_bool(c, 6))));
}
/* (input, rois, spatial_scale, height, width) -> maxima, their positions (these are not made) */
aten_value aten_lower_roi_pool(aten_args *c) {
  ir_value in[] = {aten_in(c, 0), aten_in(c, 1)};
  ir_value y = IR_EMIT_ARGS(c->b, "td::max_roi_pool", in, 2, ARG_INT("height", aten_get_int(c, 3)),
                            ARG_INT("width", aten_get_int(c, 4)), ARG_FLOAT("spatial_scale", aten_get_float(c, 2)));
  aten_value out[] = {aten_ret(c, y), {.kind = ATEN_UNDEFINED}};
  return aten_tuple_of(c->a, out, 2);
}
/* (input, weight, offset, mask, bias, stride h, w, pad h, w, dilation h, w, groups, offset_groups, use_mask) */
aten_value aten_lower_deform_conv(aten_args *c) {
  ir_value in[] = {aten_in(c, 0), aten_in(c, 1), aten_in(c, 2), aten_in(c, 4),
                   aten_get_bool(c, 13) ? aten_in(c, 3) : IR_NO_VALUE};
  int64_t stride[] = {aten_get_int(c, 5), aten_get_int(c, 6)}, pad[] = {aten_get_int(c, 7), aten_get_int(c, 8)};
  int64_t dilation[] = {aten_get_int(c, 9), aten_get_int(c, 10)}, pads[] = {pad[0], pad[1], pad[0], pad[1]};
  return aten_ret(
      c, IR_EMIT_ARGS(c->b, "td::deform_conv", in, 5, ARG_INTS("stride", stride, 2), ARG_INTS("padding", pads, 4),
                      ARG_INTS("dilation", dilation, 2), ARG_INT("groups", aten_get_int(c, 11)),
                      ARG_INT("offset_groups", aten_get_int(c, 12))));
}
