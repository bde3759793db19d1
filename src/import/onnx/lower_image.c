/* lower_image.c -- ONNX's Resize and Upsample in all their versions. */
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
  onnx_out(n, 0, ONNX_EMIT_ARGS(n, "td::resize", in, 3, ARG_STR("mode", linear_name(onnx_attr_str(n, "mode", "nearest"))),
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

ONNX_DECLARE(image);
const onnx_lowering onnx_lower_image[] = {
    {"", "Upsample", 7, lower_upsample7},
    {"", "Upsample", 9, lower_resize10},
    {"", "Resize", 10, lower_resize10},
    {"", "Resize", 11, lower_resize},
};
ONNX_TABLE(image);
