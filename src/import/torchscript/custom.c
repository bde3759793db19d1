/* custom.c -- classes that PyTorch has in C++. Those of quantised layers keep packed parameters, whose pickled state is
 * unpacked; the operator that packs them is called again. */
#include <stdio.h>

#include "import/torchscript/ts_priv.h"

static aten_value bad_state(ts_import *im, base_str name) {
  if (ts_ok(im))
    ir_build_take(&im->build, base_fail(im->err, TD_BAD_FILE, im->source->file, -1,
                                        "the state of a %.*s is not what it should be", (int)name.length, name.at));
  return ATEN_NOTHING;
}

static const fmt_object *item(const fmt_object *o, uint32_t index) {
  bool holds = o && (o->kind == FMT_OBJ_TUPLE || o->kind == FMT_OBJ_LIST);
  return holds && index < o->u.items.count ? o->u.items.at[index] : NULL;
}

/* (weight, bias) */
static aten_value load_linear(ts_import *im, base_str name, const fmt_object *state, bool is_constant,
                              const char *path) {
  const fmt_object *weight = item(state, 0), *bias = item(state, 1);
  if (!weight || weight->kind != FMT_OBJ_TENSOR || !bias) return bad_state(im, name);
  aten_value args[2] = {ts_load_object(im, weight, is_constant, path), ts_load_object(im, bias, is_constant, path)};
  return aten_call(im->a, "quantized::linear_prepack", NULL, args, 2, NULL, 0);
}

enum { MAX_SPATIAL = 3, MAX_PARAMS = 1 + 4 * MAX_SPATIAL + 2 };

/* The tensor of small integers that holds a convolution's parameters. */
static bool read_params(ts_import *im, const fmt_object *o, bool is_constant, int64_t *params, int64_t *count) {
  base_tensor view;
  fmt_storage_set *set = is_constant ? &im->archive->constants : &im->archive->data;
  if (!o || o->kind != FMT_OBJ_TENSOR || o->u.tensor->quantiser || o->u.tensor->rank != 1 ||
      o->u.tensor->dims[0] > MAX_PARAMS)
    return false;
  ir_build_take(&im->build, fmt_storage_view(set, o->u.tensor, &view));
  if (!ts_ok(im) || !base_is_int(view.dtype)) return false;
  *count = view.dims[0];
  for (int64_t i = 0; i < *count; i++) params[i] = base_load_i64(view.dtype, view.data, i * view.strides[0]);
  return true;
}

static aten_value ints(ts_import *im, const int64_t *at, int64_t count) {
  aten_value items[MAX_SPATIAL];
  for (int64_t i = 0; i < count; i++) items[i] = aten_int(at[i]);
  return aten_list_of(im->a, items, (uint32_t)count);
}

/* (version "2", [parameters, weight], [bias]); parameters: spatial dimensions n, then n each of stride, padding,
 * dilation and output padding, groups, whether transposed. */
static aten_value load_conv(ts_import *im, base_str name, const fmt_object *state, bool is_constant, const char *path) {
  const fmt_object *tensors = item(state, 1), *weight = item(tensors, 1), *bias = item(item(state, 2), 0);
  int64_t p[MAX_PARAMS] = {0}, count = 0;
  if (!read_params(im, item(tensors, 0), is_constant, p, &count) || !weight || !bias) return bad_state(im, name);
  int64_t n = p[0];
  if (n < 1 || n > MAX_SPATIAL || count != 4 * n + 3) return bad_state(im, name);
  aten_value args[7];
  uint32_t used = 0;
  bool transposed = p[4 * n + 2] != 0;
  args[used++] = ts_load_object(im, weight, is_constant, path);
  args[used++] = ts_load_object(im, bias, is_constant, path);
  args[used++] = ints(im, p + 1, n);
  args[used++] = ints(im, p + 1 + n, n);
  if (transposed) args[used++] = ints(im, p + 1 + 3 * n, n);
  args[used++] = ints(im, p + 1 + 2 * n, n);
  args[used++] = aten_int(p[4 * n + 1]);
  char op[48];
  snprintf(op, sizeof op, "quantized::conv%s%dd_prepack", transposed ? "_transpose" : "", (int)n);
  return aten_call(im->a, op, NULL, args, used, NULL, 0);
}

/* ("quantized_dynamic", biases, [], [whether 7 bits], [weights of the input, of the state]): a cell of a recurrent
 * layer, whose packed weights have the biases, too. */
static aten_value load_cell(ts_import *im, base_str name, const fmt_object *state, bool is_constant, const char *path) {
  const fmt_object *kind = item(state, 0), *reduced = item(item(state, 3), 0), *params[2];
  aten_value parts[3];
  if (!kind || kind->kind != FMT_OBJ_STR || !base_str_is(kind->u.str, "quantized_dynamic") || !reduced ||
      reduced->kind != FMT_OBJ_INT)
    return bad_state(im, name);
  for (uint32_t i = 0; i < 2; i++) {
    params[i] = item(item(state, 4), i);
    if (!params[i]) return bad_state(im, name);
    parts[i] = ts_load_object(im, params[i], is_constant, path);
  }
  parts[2] = aten_bool(reduced->u.i != 0);
  return ts_ok(im) ? aten_tuple_of(im->a, parts, 3) : ATEN_NOTHING;
}

static const struct {
  const char *name;
  aten_value (*load)(ts_import *im, base_str name, const fmt_object *state, bool is_constant, const char *path);
} rows[] = {{"__torch__.torch.classes.quantized.LinearPackedParamsBase", load_linear},
            {"__torch__.torch.classes.rnn.CellParamsBase", load_cell},
            {"__torch__.torch.classes.quantized.Conv1dPackedParamsBase", load_conv},
            {"__torch__.torch.classes.quantized.Conv2dPackedParamsBase", load_conv},
            {"__torch__.torch.classes.quantized.Conv3dPackedParamsBase", load_conv}};

aten_value ts_load_custom(ts_import *im, base_str name, const fmt_object *state, bool is_constant, const char *path) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (base_str_is(name, rows[i].name)) return rows[i].load(im, name, state, is_constant, path);
  ir_build_take(
      &im->build,
      base_fail(im->err, TD_UNSUPPORTED, im->source->file, -1, "%s is of the C++ class %.*s, which is not supported%s",
                path[0] ? path : "an attribute", (int)name.length, name.at,
                base_str_ends(name, "ConstantMKLDNNTensor") ? ": save the model before optimize_for_inference" : ""));
  return ATEN_NOTHING;
}
