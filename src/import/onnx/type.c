/* type.c -- TypeProto to ir_type. Sizes that are left open become symbols: by their own name, or one made from the name
 * of the value and the axis. */
#include "import/onnx/state_priv.h"

#include <ctype.h>

/* TypeProto: tensor_type 1, sequence_type 4, map_type 5, opaque_type 7, sparse_tensor_type 8, optional_type 9. */
enum { TENSOR = 1, SEQUENCE = 4, MAP = 5, OPAQUE = 7, SPARSE = 8, OPTIONAL = 9, MAX_NESTED = 8 };

/* Some exporters write "?", "-1" or "None" where a size has no name: such sizes need not be equal. */
static bool is_name(base_str s) {
  bool says = false;
  for (size_t i = 0; i < s.length; i++) says = says || isalpha((unsigned char)s.at[i]) || s.at[i] == '_';
  return says && !base_str_is(s, "None");
}

static td_status read_dim(onnx_import *im, fmt_wire w, base_str name, int32_t axis, base_dim *dim) {
  int64_t value = -1;
  base_str param = {"", 0};
  while (fmt_wire_more(&w)) {
    fmt_field f;
    TRY(fmt_wire_next(&w, &f, im->err));
    if (f.number == 1) TRY(fmt_field_int(&f, "dim_value", &value, im->err));
    if (f.number == 2) TRY(fmt_field_str(&f, "dim_param", &param, im->err));
  }
  if (value >= 0) {
    *dim = value;
    return TD_OK;
  }
  char *symbol = is_name(param) ? base_arena_slice(im->arena, param.at, param.length)
                                : base_arena_format(im->arena, "%.*s.%d", (int)name.length, name.at, axis);
  if (!symbol) return base_no_memory(im->err, "the name of a size");
  for (char *c = symbol; *c; c++) /* the text form puts names in quotes */
    if (*c == '"' || (unsigned char)*c < ' ') *c = '_';
  *dim = base_dim_symbol(&im->graph->dims, symbol);
  return *dim == BASE_DIM_NONE ? base_no_memory(im->err, "a size") : TD_OK;
}

static td_status read_shape(onnx_import *im, fmt_wire w, base_str name, ir_type *type) {
  type->rank = 0;
  while (fmt_wire_more(&w)) {
    fmt_field f;
    fmt_wire dim;
    TRY(fmt_wire_next(&w, &f, im->err));
    if (f.number != 1) continue;
    if (type->rank == BASE_MAX_RANK)
      return base_fail(im->err, TD_UNSUPPORTED, NULL, f.offset, "\"%.*s\" has more than %d dimensions",
                       (int)name.length, name.at, BASE_MAX_RANK);
    TRY(fmt_field_message(&f, "a dimension", &dim, im->err));
    TRY(read_dim(im, dim, name, type->rank, &type->dims[type->rank]));
    type->rank++;
  }
  return TD_OK;
}

/* Tensor { elem_type 1, shape 2 } */
static td_status read_tensor(onnx_import *im, fmt_wire w, base_str name, ir_type *type) {
  int64_t element = 0;
  *type = ir_unranked(TD_INVALID);
  while (fmt_wire_more(&w)) {
    fmt_field f;
    fmt_wire shape;
    TRY(fmt_wire_next(&w, &f, im->err));
    if (f.number == 1) TRY(fmt_field_int(&f, "elem_type", &element, im->err));
    if (f.number != 2) continue;
    TRY(fmt_field_message(&f, "shape", &shape, im->err));
    TRY(read_shape(im, shape, name, type));
  }
  type->dtype = fmt_onnx_dtype(element);
  if (type->dtype != TD_INVALID) return TD_OK;
  return base_fail(im->err, element ? TD_UNSUPPORTED : TD_BAD_FILE, NULL, -1,
                   "the element type of \"%.*s\" (%lld) is not supported", (int)name.length, name.at,
                   (long long)element);
}

static td_status read_type(onnx_import *im, fmt_wire w, base_str name, int depth, ir_type *type);

/* Sequence and Optional { elem_type 1 } */
static td_status read_holder(onnx_import *im, fmt_wire w, base_str name, int depth, ir_kind kind, ir_type *type) {
  ir_type *elem = base_new(im->graph->arena, ir_type, 1);
  if (!elem) return base_no_memory(im->err, "a type");
  *elem = ir_unranked(TD_INVALID);
  while (fmt_wire_more(&w)) {
    fmt_field f;
    fmt_wire inner;
    TRY(fmt_wire_next(&w, &f, im->err));
    if (f.number != 1) continue;
    TRY(fmt_field_message(&f, "elem_type", &inner, im->err));
    TRY(read_type(im, inner, name, depth + 1, elem));
  }
  /* The items of a list may differ in what their type leaves open, so their sizes are no symbols. */
  bool open = false;
  for (int32_t i = 0; kind == IR_LIST && i < elem->rank; i++) open |= !base_dim_known(elem->dims[i]);
  if (open) *elem = ir_unranked(elem->dtype);
  *type = (ir_type){.kind = kind, .elem = elem};
  return TD_OK;
}

static td_status read_type(onnx_import *im, fmt_wire w, base_str name, int depth, ir_type *type) {
  bool known = false;
  if (depth > MAX_NESTED)
    return base_fail(im->err, TD_BAD_FILE, NULL, fmt_wire_offset(&w), "the type of \"%.*s\" is nested too deep",
                     (int)name.length, name.at);
  while (fmt_wire_more(&w)) {
    fmt_field f;
    fmt_wire inner;
    TRY(fmt_wire_next(&w, &f, im->err));
    if (f.number == MAP || f.number == OPAQUE || f.number == SPARSE)
      return base_fail(im->err, TD_UNSUPPORTED, NULL, f.offset,
                       "\"%.*s\" is a map, a sparse tensor or opaque, which are not supported", (int)name.length,
                       name.at);
    if (f.number != TENSOR && f.number != SEQUENCE && f.number != OPTIONAL) continue;
    known = true;
    TRY(fmt_field_message(&f, "a type", &inner, im->err));
    if (f.number == TENSOR) TRY(read_tensor(im, inner, name, type));
    else TRY(read_holder(im, inner, name, depth, f.number == SEQUENCE ? IR_LIST : IR_OPTIONAL, type));
  }
  if (known) return TD_OK;
  return base_fail(im->err, TD_BAD_FILE, NULL, -1, "the input \"%.*s\" has no type", (int)name.length, name.at);
}

td_status onnx_read_type(onnx_import *im, fmt_wire type_proto, base_str name, ir_type *type) {
  return read_type(im, type_proto, name, 0, type);
}
