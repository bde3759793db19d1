/* lower_early.c -- operators that ONNX had on trial until version 1.4 and files of that time hold: those of Core ML's
 * converters, and of PyTorch 1.1 (DynamicSlice, in lower_shape.c). */
#include "import/onnx/onnx_priv.h"

/* v * attribute `name`; v itself where that is 1. */
static ir_value times(onnx_node *n, ir_value v, const char *name) {
  double factor = onnx_attr_float(n, name, 1);
  return factor == 1 ? v : ONNX_EMIT(n, "aten::mul", v, onnx_scalar(n, onnx_type_dtype(n, v), factor));
}

static void affine(onnx_node *n) {
  ir_value x = onnx_in(n, 0), beta = onnx_scalar(n, onnx_type_dtype(n, x), onnx_attr_float(n, "beta", 0));
  onnx_out(n, 0, ONNX_EMIT(n, "aten::add", times(n, x, "alpha"), beta));
}

static void scaled_tanh(onnx_node *n) {
  onnx_out(n, 0, times(n, ONNX_EMIT(n, "aten::tanh", times(n, onnx_in(n, 0), "beta")), "alpha"));
}

static void parametric_softplus(onnx_node *n) {
  onnx_out(n, 0, times(n, ONNX_EMIT(n, "aten::softplus", times(n, onnx_in(n, 0), "beta")), "alpha"));
}

/* x [N, C, H, W] * scale + bias[C]. */
static void image_scaler(onnx_node *n) {
  ir_value x = onnx_in(n, 0);
  uint32_t count;
  const double *bias = onnx_attr_floats(n, "bias", &count);
  const int64_t dims[] = {count, 1, 1};
  float *copy = onnx_alloc(n, (count ? count : 1) * sizeof *copy);
  if (!copy) return;
  for (uint32_t i = 0; i < count; i++) copy[i] = (float)bias[i];
  base_tensor tensor = base_tensor_of(copy, TD_F32, 3, dims);
  ir_value added = onnx_cast(n, onnx_constant(n, &tensor), onnx_type_dtype(n, x));
  onnx_out(n, 0, ONNX_EMIT(n, "aten::add", times(n, x, "scale"), added));
}

/* Without `border` (left, top, right, bottom) of x [N, C, H, W]; with `scale` (height, width) that many pixels behind
 * left and top. */
static void crop(onnx_node *n) {
  uint32_t count, sizes;
  const int64_t *border = onnx_attr_ints(n, "border", &count), *size = onnx_attr_ints(n, "scale", &sizes);
  bool fits = count == 4 && (sizes == 0 || sizes == 2);
  for (uint32_t i = 0; i < count; i++) fits = fits && border[i] >= 0 && border[i] <= INT32_MAX;
  for (uint32_t i = 0; i < sizes; i++) fits = fits && size[i] > 0 && size[i] <= INT32_MAX;
  if (!fits) onnx_fail(n, TD_BAD_FILE, "border needs 4 sizes that are not negative, scale 2 that are positive");
  if (onnx_failed(n)) return;
  const int64_t axes[] = {2, 3}, starts[] = {border[1], border[0]};
  int64_t ends[2];
  for (int i = 0; i < 2; i++) ends[i] = sizes ? starts[i] + size[i] : border[3 - i] ? -border[3 - i] : INT64_MAX;
  onnx_out(n, 0,
           ONNX_EMIT(n, "aten::slice", onnx_in(n, 0), onnx_ints(n, starts, 2), onnx_ints(n, ends, 2),
                     onnx_ints(n, axes, 2)));
}

ONNX_DECLARE(early);
const onnx_lowering onnx_lower_early[] = {
    {"", "Affine", 1, affine},
    {"", "ScaledTanh", 1, scaled_tanh},
    {"", "ParametricSoftplus", 1, parametric_softplus},
    {"", "ImageScaler", 1, image_scaler},
    {"", "Crop", 1, crop},
};
ONNX_TABLE(early);
