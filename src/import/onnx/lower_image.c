/* lower_image.c -- ONNX's Resize and Upsample in all their versions, GridSample, and the region operators. */
#include "import/onnx/onnx_priv.h"

#include <string.h>

typedef struct resize_args {
  base_arg at[9];
  uint32_t count;
} resize_args;

static const char *linear_name(const char *mode) { return strcmp(mode, "bilinear") == 0 ? "linear" : mode; }

/* x and scales where pixels keep their corner: all of Upsample, and Resize before it could say otherwise. */
static void asymmetric(onnx_node *n, ir_value scales) {
  ir_value in[] = {onnx_in(n, 0), IR_NO_VALUE, scales};
  onnx_out(n, 0,
           ONNX_EMIT_ARGS(n, "td::resize", in, 3, ARG_STR("mode", linear_name(onnx_attr_str(n, "mode", "nearest"))),
                          ARG_STR("coordinates", "asymmetric"), ARG_STR("nearest", "floor")));
}

static void lower_resize10(onnx_node *n) { asymmetric(n, onnx_in(n, 1)); }

static void lower_upsample7(onnx_node *n) {
  uint32_t count;
  const double *scales = onnx_attr_floats(n, "scales", &count);
  int64_t dims[] = {count};
  float *copy = onnx_alloc(n, (count ? count : 1) * sizeof *copy);
  if (!copy) return;
  for (uint32_t i = 0; i < count; i++) copy[i] = (float)scales[i];
  base_tensor tensor = base_tensor_of(copy, TD_F32, 1, dims);
  asymmetric(n, onnx_constant(n, &tensor));
}

static void lower_resize(onnx_node *n) {
  ir_value in[] = {onnx_in(n, 0), onnx_in(n, 1), onnx_in(n, 2), onnx_in(n, 3)};
  resize_args a = {.count = 0};
  uint32_t axes;
  const int64_t *axis = onnx_attr_ints(n, "axes", &axes);
  a.at[a.count++] = ARG_STR("mode", onnx_attr_str(n, "mode", "nearest"));
  a.at[a.count++] = ARG_STR("coordinates", onnx_attr_str(n, "coordinate_transformation_mode", "half_pixel"));
  a.at[a.count++] = ARG_STR("nearest", onnx_attr_str(n, "nearest_mode", "round_prefer_floor"));
  a.at[a.count++] = ARG_FLOAT("cubic_a", onnx_attr_float(n, "cubic_coeff_a", -0.75));
  a.at[a.count++] = ARG_BOOL("exclude_outside", onnx_attr_int(n, "exclude_outside", 0) != 0);
  a.at[a.count++] = ARG_FLOAT("extrapolation", onnx_attr_float(n, "extrapolation_value", 0));
  a.at[a.count++] = ARG_BOOL("antialias", onnx_attr_int(n, "antialias", 0) != 0);
  a.at[a.count++] = ARG_STR("policy", onnx_attr_str(n, "keep_aspect_ratio_policy", "stretch"));
  if (axes) a.at[a.count++] = ARG_INTS("axes", axis, axes);
  onnx_out(n, 0, onnx_emit(n, "td::resize", in, onnx_in_count(n) < 4 ? onnx_in_count(n) : 4, a.at, a.count));
}

static void lower_grid_sample(onnx_node *n) {
  const char *mode = onnx_attr_str(n, "mode", "linear");
  if (strcmp(mode, "bilinear") == 0) mode = "linear";
  if (strcmp(mode, "bicubic") == 0) mode = "cubic";
  ir_value in[] = {onnx_in(n, 0), onnx_in(n, 1)};
  onnx_out(n, 0,
           ONNX_EMIT_ARGS(n, "td::grid_sample", in, 2, ARG_STR("mode", mode),
                          ARG_STR("padding", onnx_attr_str(n, "padding_mode", "zeros")),
                          ARG_BOOL("align_corners", onnx_attr_int(n, "align_corners", 0) != 0)));
}

/* Before opset 16 corners of regions were not shifted by half a pixel. */
static void lower_roi_align(onnx_node *n) {
  const char *at =
      onnx_attr_str(n, "coordinate_transformation_mode", onnx_opset(n) < 16 ? "output_half_pixel" : "half_pixel");
  ir_value in[] = {onnx_in(n, 0), onnx_in(n, 1), onnx_in(n, 2)};
  onnx_out(n, 0,
           ONNX_EMIT_ARGS(n, "td::roi_align", in, 3, ARG_INT("height", onnx_attr_int(n, "output_height", 1)),
                          ARG_INT("width", onnx_attr_int(n, "output_width", 1)),
                          ARG_INT("sampling_ratio", onnx_attr_int(n, "sampling_ratio", 0)),
                          ARG_FLOAT("spatial_scale", onnx_attr_float(n, "spatial_scale", 1)),
                          ARG_BOOL("maximum", strcmp(onnx_attr_str(n, "mode", "avg"), "max") == 0),
                          ARG_BOOL("half_pixel", strcmp(at, "half_pixel") == 0)));
}

static void lower_max_roi_pool(onnx_node *n) {
  uint32_t count;
  const int64_t *shape = onnx_attr_ints(n, "pooled_shape", &count);
  ir_value in[] = {onnx_in(n, 0), onnx_in(n, 1)};
  if (count != 2) onnx_fail(n, TD_BAD_FILE, "pooled_shape has %u sizes instead of 2", count);
  if (onnx_failed(n)) return;
  onnx_out(n, 0,
           ONNX_EMIT_ARGS(n, "td::max_roi_pool", in, 2, ARG_INT("height", shape[0]), ARG_INT("width", shape[1]),
                          ARG_FLOAT("spatial_scale", onnx_attr_float(n, "spatial_scale", 1))));
}

ONNX_DECLARE(image);
const onnx_lowering onnx_lower_image[] = {
    {"", "Upsample", 7, lower_upsample7},      {"", "Upsample", 9, lower_resize10},
    {"", "Resize", 10, lower_resize10},        {"", "Resize", 11, lower_resize},
    {"", "GridSample", 16, lower_grid_sample}, {"", "RoiAlign", 10, lower_roi_align},
    {"", "MaxRoiPool", 1, lower_max_roi_pool}, {"com.microsoft", "GridSample", 1, lower_grid_sample},
};
ONNX_TABLE(image);
