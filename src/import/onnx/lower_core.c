/* lower_core.c -- constants: no operators, but values. */
#include "import/onnx/state_priv.h"

static ir_value vector(onnx_node *n, td_dtype dtype, int32_t rank, int64_t count, void *data) {
  ir_value value = IR_NO_VALUE;
  int64_t dims[] = {count};
  base_tensor t = base_tensor_of(data, dtype, rank, dims);
  if (!onnx_failed(n)) onnx_take(n, ir_add_constant(n->im->graph, &t, NULL, &value, n->im->err));
  return value;
}

static ir_value from_tensor(onnx_node *n, const char *name) { return onnx_attr_tensor(n, name); }
static ir_value from_int(onnx_node *n, const char *name) { return onnx_int(n, onnx_attr_int(n, name, 0)); }
static ir_value from_float(onnx_node *n, const char *name) {
  return onnx_scalar(n, TD_F32, onnx_attr_float(n, name, 0));
}

static ir_value from_ints(onnx_node *n, const char *name) {
  uint32_t count;
  const int64_t *ints = onnx_attr_ints(n, name, &count);
  return onnx_failed(n) ? IR_NO_VALUE : onnx_ints(n, ints, count);
}

static ir_value from_floats(onnx_node *n, const char *name) {
  uint32_t count;
  const double *floats = onnx_attr_floats(n, name, &count);
  float *data = onnx_alloc(n, count * sizeof *data);
  for (uint32_t i = 0; data && i < count; i++) data[i] = (float)floats[i];
  return vector(n, TD_F32, 1, count, data);
}

static ir_value from_strings(onnx_node *n, const char *name) {
  base_str *slices;
  uint32_t count;
  onnx_take(n, onnx_attr_slices(n, name, &slices, &count));
  return vector(n, TD_STRING, 1, count, slices);
}

static ir_value from_string(onnx_node *n, const char *name) {
  base_str *slice = onnx_alloc(n, sizeof *slice);
  if (slice) *slice = onnx_find_bound(n, name)->attr->s;
  return vector(n, TD_STRING, 0, 1, slice);
}

/* The forms of Constant: exactly one attribute is there. */
static const struct {
  const char *name;
  ir_value (*read)(onnx_node *n, const char *name);
} forms[] = {{"value", from_tensor},        {"sparse_value", from_tensor},  {"value_int", from_int},
             {"value_float", from_float},   {"value_ints", from_ints},      {"value_floats", from_floats},
             {"value_string", from_string}, {"value_strings", from_strings}};

static void lower_constant(onnx_node *n) {
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    if (!onnx_attr_has(n, forms[i].name)) continue;
    onnx_out(n, 0, forms[i].read(n, forms[i].name));
    return;
  }
  onnx_fail(n, TD_BAD_FILE, "the constant has no value");
}

ONNX_DECLARE(core);
const onnx_lowering onnx_lower_core[] = {
    {"", "Constant", 1, lower_constant},
};
ONNX_TABLE(core);
