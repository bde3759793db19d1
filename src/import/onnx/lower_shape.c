/* lower_shape.c -- operators on shapes whose attributes became inputs over the versions, or that ATen spells otherwise.
 */
#include "import/onnx/onnx_priv.h"

/* Input `i`, or the attribute of older versions as a constant; none when there is neither. */
static ir_value ints_of(onnx_node *n, uint32_t i, const char *attr) {
  if (onnx_has(n, i)) return onnx_in(n, i);
  uint32_t count;
  const int64_t *ints = onnx_attr_ints(n, attr, &count);
  return onnx_attr_has(n, attr) ? onnx_ints(n, ints, count) : IR_NO_VALUE;
}

static ir_value one_int(onnx_node *n, int64_t value) { return onnx_ints(n, &value, 1); }

static void reshape(onnx_node *n) {
  ir_value in[] = {onnx_in(n, 0), ints_of(n, 1, "shape")};
  onnx_out(n, 0, ONNX_EMIT_ARGS(n, "aten::view", in, 2, ARG_BOOL("zero_copies", !onnx_attr_int(n, "allowzero", 0))));
}

static void squeeze(onnx_node *n) {
  ir_value in[] = {onnx_in(n, 0), ints_of(n, 1, "axes")};
  onnx_out(n, 0, onnx_emit(n, "aten::squeeze", in, in[1].id ? 2 : 1, NULL, 0));
}

static void unsqueeze(onnx_node *n) {
  onnx_out(n, 0, ONNX_EMIT(n, "aten::unsqueeze", onnx_in(n, 0), ints_of(n, 1, "axes")));
}

static void slice(onnx_node *n) {
  ir_value in[] = {onnx_in(n, 0), ints_of(n, 1, "starts"), ints_of(n, 2, "ends"), ints_of(n, 3, "axes"), onnx_in(n, 4)};
  uint32_t count = in[4].id ? 5 : in[3].id ? 4 : 3;
  onnx_out(n, 0, onnx_emit(n, "aten::slice", in, count, NULL, 0));
}

static void concat(onnx_node *n) {
  uint32_t count = onnx_in_count(n);
  ir_value *in = onnx_alloc(n, count * sizeof *in);
  for (uint32_t i = 0; in && i < count; i++) in[i] = onnx_in(n, i);
  int64_t axis = onnx_attr_int(n, "axis", 1); /* the default of version 1; required since */
  onnx_out(n, 0, ONNX_EMIT_ARGS(n, "aten::cat", in, count, ARG_INT("dim", axis)));
}

/* Pieces of given sizes: each begins where the one before ends, whether the sizes are known now or not. */
static void split_by_sizes(onnx_node *n, ir_value sizes, int64_t axis) {
  ir_value at = one_int(n, 0), axes = one_int(n, axis);
  for (uint32_t i = 0; i < onnx_out_count(n); i++) {
    ir_value size = ONNX_EMIT(n, "aten::slice", sizes, one_int(n, i), one_int(n, (int64_t)i + 1));
    ir_value end = ONNX_EMIT(n, "aten::add", at, size);
    onnx_out(n, i, ONNX_EMIT(n, "aten::slice", onnx_in(n, 0), at, end, axes));
    at = end;
  }
}

static void split_known_sizes(onnx_node *n, const int64_t *sizes, uint32_t count, int64_t axis) {
  int64_t at = 0;
  for (uint32_t i = 0; i < onnx_out_count(n); i++) {
    if (i >= count || sizes[i] < 0 || at > INT64_MAX - sizes[i]) {
      onnx_fail(n, TD_BAD_FILE, "the sizes of the pieces do not fit the %u outputs", onnx_out_count(n));
      return;
    }
    int64_t end = at + sizes[i];
    onnx_out(n, i, ONNX_EMIT(n, "aten::slice", onnx_in(n, 0), one_int(n, at), one_int(n, end), one_int(n, axis)));
    at = end;
  }
}

static void split(onnx_node *n) {
  int64_t axis = onnx_attr_int(n, "axis", 0), parts = onnx_attr_int(n, "num_outputs", onnx_out_count(n));
  ir_value x = onnx_in(n, 0), sizes = ints_of(n, 1, "split");
  const int64_t *known;
  uint32_t count;
  if (sizes.id && onnx_known_ints(n, sizes, &known, &count)) {
    split_known_sizes(n, known, count, axis);
    return;
  }
  if (sizes.id) {
    split_by_sizes(n, onnx_cast(n, sizes, TD_I64), axis);
    return;
  }
  for (uint32_t i = 0; i < onnx_out_count(n); i++)
    onnx_out(n, i,
             ONNX_EMIT_ARGS(n, "td::chunk", &x, 1, ARG_INT("dim", axis), ARG_INT("parts", parts), ARG_INT("index", i),
                            ARG_BOOL("even", onnx_opset(n) < 18)));
}

/* Version 1 repeats `tiles` times along one `axis`; later ones have a number per dimension. */
static void tile(onnx_node *n) {
  ir_value x = onnx_in(n, 0), repeats = onnx_in(n, 1);
  if (onnx_opset(n) < 6) {
    const int64_t *tiles, *axis;
    uint32_t tile_count, axis_count;
    if (!onnx_known_ints(n, repeats, &tiles, &tile_count) || !onnx_known_ints(n, onnx_in(n, 2), &axis, &axis_count) ||
        tile_count != 1 || axis_count != 1) {
      onnx_fail(n, TD_UNSUPPORTED, "Tile of version 1 whose tiles or axis are computed; export with opset 6 or later");
      return;
    }
    int32_t rank = onnx_rank(n, x);
    int64_t along = onnx_axis(n, axis[0], rank), all[BASE_MAX_RANK];
    for (int32_t i = 0; i < rank; i++) all[i] = i == along ? tiles[0] : 1;
    repeats = onnx_ints(n, all, (uint32_t)rank);
  }
  onnx_out(n, 0, ONNX_EMIT(n, "aten::repeat", x, repeats));
}

ONNX_DECLARE(shape);
const onnx_lowering onnx_lower_shape[] = {
    {"", "Reshape", 1, reshape}, {"", "Squeeze", 1, squeeze},    {"", "Unsqueeze", 1, unsqueeze},
    {"", "Slice", 1, slice},     {"", "DynamicSlice", 1, slice}, {"", "Concat", 1, concat},
    {"", "Split", 1, split},     {"", "Tile", 1, tile},
};
ONNX_TABLE(shape);
