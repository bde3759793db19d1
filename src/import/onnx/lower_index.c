/* lower_index.c -- selection, padding and creation whose ONNX form differs from the operator's. */
#include "import/onnx/onnx_priv.h"

#include <string.h>

/* Before version 10 the count is an attribute; before 11 the largest come, in order. */
static void topk(onnx_node *n) {
  int64_t k = onnx_attr_int(n, "k", 0);
  ir_value in[] = {onnx_in(n, 0), onnx_has(n, 1) ? onnx_in(n, 1) : onnx_ints(n, &k, 1)}, outs[2];
  base_arg args[] = {ARG_INT("dim", onnx_attr_int(n, "axis", -1)), ARG_INT("largest", onnx_attr_int(n, "largest", 1)),
                     ARG_INT("sorted", onnx_attr_int(n, "sorted", 1))};
  onnx_emit_many(n, "aten::topk", in, 2, args, 3, outs, 2);
  for (uint32_t i = 0; i < 2 && i < onnx_out_count(n); i++) onnx_out(n, i, outs[i]);
}

/* ONNX has a column per position, ATen a row. */
static void nonzero(onnx_node *n) {
  ir_value rows = ONNX_EMIT(n, "aten::nonzero", onnx_in(n, 0));
  onnx_out(n, 0, ONNX_EMIT_ARGS(n, "aten::permute", &rows, 1, ARG_INTS("dims", ((int64_t[]){1, 0}), 2)));
}

static void one_hot(onnx_node *n) {
  ir_value in[] = {onnx_cast(n, onnx_in(n, 0), TD_I64), onnx_cast(n, onnx_in(n, 1), TD_I64), onnx_in(n, 2)};
  onnx_out(n, 0, ONNX_EMIT_ARGS(n, "td::one_hot", in, 3, ARG_INT("dim", onnx_attr_int(n, "axis", -1))));
}

static void constant_of_shape(onnx_node *n) {
  ir_value value = onnx_attr_tensor(n, "value");
  if (!value.id) value = onnx_scalar(n, TD_F32, 0);
  onnx_out(n, 0, ONNX_EMIT(n, "aten::full", onnx_in(n, 0), value));
}

static void eye_like(onnx_node *n) {
  ir_value x = onnx_in(n, 0);
  td_dtype dtype = onnx_attr_has(n, "dtype") ? onnx_dtype(n, onnx_attr_int(n, "dtype", 0)) : onnx_type_dtype(n, x);
  onnx_out(n, 0,
           ONNX_EMIT_ARGS(n, "td::eye_like", &x, 1, ARG_DTYPE("dtype", dtype),
                          ARG_INT("diagonal", onnx_attr_int(n, "k", 0))));
}

/* com.microsoft's step is optional. The precision of stash_type does not matter: elements are computed in double. */
static void range(onnx_node *n) {
  ir_value start = onnx_in(n, 0), step = onnx_has(n, 2) ? onnx_in(n, 2) : onnx_scalar(n, onnx_type_dtype(n, start), 1);
  onnx_out(n, 0, ONNX_EMIT(n, "aten::arange", start, onnx_in(n, 1), step));
}

/* ---- Pad ---- */

static const struct pad_mode {
  const char *mode, *op;
  bool constant;
} pad_modes[] = {{"constant", "aten::constant_pad_nd", true},
                 {"reflect", "aten::reflection_pad", false},
                 {"edge", "aten::replication_pad", false},
                 {"wrap", "aten::circular_pad", false}};

static void emit_pad(onnx_node *n, ir_value pads, ir_value value, ir_value axes) {
  const char *mode = onnx_attr_str(n, "mode", "constant");
  for (size_t i = 0; i < sizeof pad_modes / sizeof *pad_modes; i++) {
    const struct pad_mode *row = &pad_modes[i];
    if (strcmp(row->mode, mode) != 0) continue;
    ir_value constant[] = {onnx_in(n, 0), pads, value, axes}, other[] = {onnx_in(n, 0), pads, axes};
    uint32_t count = axes.id ? 4 : value.id ? 3 : 2;
    onnx_out(n, 0,
             row->constant ? onnx_emit(n, row->op, constant, count, NULL, 0)
                           : onnx_emit(n, row->op, other, axes.id ? 3 : 2, NULL, 0));
    return;
  }
  onnx_fail(n, TD_UNSUPPORTED, "the padding mode \"%s\"", mode);
}

/* Attributes before version 11 (`paddings` in version 1), inputs since. */
static void pad(onnx_node *n) {
  uint32_t count;
  const int64_t *pads = onnx_attr_ints(n, onnx_attr_has(n, "paddings") ? "paddings" : "pads", &count);
  ir_value operand = onnx_has(n, 1) ? onnx_in(n, 1) : onnx_ints(n, pads, count);
  ir_value value = onnx_attr_has(n, "value")
                       ? onnx_scalar(n, onnx_type_dtype(n, onnx_in(n, 0)), onnx_attr_float(n, "value", 0))
                       : onnx_in(n, 2);
  emit_pad(n, operand, value, onnx_in(n, 3));
}

/* ---- com.microsoft ---- */

/* Uniques in the order in which they appear, the number of each element's kind, members of each kind. */
static void unique_in_order(onnx_node *n) {
  ir_value x = onnx_in(n, 0), outs[4];
  static const uint32_t from[] = {0, 2, 3};
  onnx_emit_many(n, "td::unique", &x, 1, &ARG_INT("sorted", 0), 1, outs, 4);
  for (uint32_t i = 0; i < 3 && i < onnx_out_count(n); i++) onnx_out(n, i, outs[from[i]]);
}

ONNX_DECLARE(index);
const onnx_lowering onnx_lower_index[] = {
    {"", "TopK", 1, topk},
    {"", "NonZero", 9, nonzero},
    {"", "OneHot", 9, one_hot},
    {"", "ConstantOfShape", 9, constant_of_shape},
    {"", "EyeLike", 9, eye_like},
    {"", "Range", 11, range},
    {"", "Pad", 1, pad},
    {"com.microsoft", "Pad", 1, pad},
    {"com.microsoft", "Unique", 1, unique_in_order},
    {"com.microsoft", "Range", 1, range},
};
ONNX_TABLE(index);
