/* type.c -- types compared and printed. */
#include "ir/type.h"

#include <string.h>

bool ir_type_equal(const ir_type *a, const ir_type *b) {
  if (a->kind != b->kind || a->dtype != b->dtype || a->rank != b->rank) return false;
  for (int32_t i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return false;
  if (!a->elem || !b->elem) return a->elem == b->elem;
  return ir_type_equal(a->elem, b->elem);
}

ir_type ir_tensor(td_dtype dtype, int32_t rank, const base_dim *dims) {
  ir_type t = {.kind = IR_TENSOR, .dtype = dtype, .rank = rank};
  if (rank > 0) memcpy(t.dims, dims, (size_t)rank * sizeof *dims);
  return t;
}

static const char *const kind_names[IR_KIND_COUNT] = {"tensor", "int",   "float",    "bool", "str",   "none",
                                                      "list",   "tuple", "optional", "dict", "future"};

void ir_type_print(const base_dims *dims, const ir_type *type, base_text *text) {
  if (type->kind != IR_TENSOR) {
    base_text_print(text, "%s", kind_names[type->kind]);
    if (!type->elem) return;
    base_text_print(text, "(");
    ir_type_print(dims, type->elem, text);
    base_text_print(text, ")");
    return;
  }
  base_text_print(text, "%s[", td_dtype_name(type->dtype));
  if (type->rank == IR_UNRANKED) base_text_print(text, "...");
  for (int32_t i = 0; i < type->rank; i++) {
    if (i) base_text_print(text, ", ");
    base_dim_print(dims, type->dims[i], text);
  }
  base_text_print(text, "]");
}
