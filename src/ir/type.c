/* type.c -- types compared and printed. */
#include "ir/type.h"

#include <string.h>

uint32_t ir_type_elems(const ir_type *type) {
  static const uint8_t held[IR_KIND_COUNT] = {[IR_LIST] = 1, [IR_OPTIONAL] = 1, [IR_FUTURE] = 1, [IR_DICT] = 2};
  if (type->kind == IR_TUPLE || type->kind == IR_CLASS) return type->elem ? type->count : 0;
  return type->elem ? held[type->kind] : 0;
}

static bool same_text(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

bool ir_type_equal(const ir_type *a, const ir_type *b) {
  if (a->kind != b->kind || a->dtype != b->dtype || a->rank != b->rank) return false;
  for (int32_t i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return false;
  uint32_t count = ir_type_elems(a);
  if (count != ir_type_elems(b) || a->count != b->count || !same_text(a->name, b->name)) return false;
  for (uint32_t i = 0; i < count; i++) {
    if (!ir_type_equal(&a->elem[i], &b->elem[i])) return false;
    if (!a->names != !b->names || (a->names && strcmp(a->names[i], b->names[i]) != 0)) return false;
  }
  return true;
}

ir_type ir_tensor(td_dtype dtype, int32_t rank, const base_dim *dims) {
  ir_type t = {.kind = IR_TENSOR, .dtype = dtype, .rank = rank};
  if (rank > 0) memcpy(t.dims, dims, (size_t)rank * sizeof *dims);
  return t;
}

bool ir_holds_pairs(const ir_type *type) {
  return type->kind == IR_TENSOR && base_is_float(type->dtype) && type->rank > 0 && type->dims[type->rank - 1] == 2;
}

/* 0: nobody knows; -1: it is an empty vector. */
static int32_t known_rank(const ir_type *t) {
  if (t->rank == IR_UNRANKED) return t->likely_rank;
  return t->rank == 1 && t->dims[0] == 0 ? -1 : t->rank;
}

int32_t ir_likely_rank(const ir_type *x, const ir_type *y) {
  const int32_t p = known_rank(x), q = known_rank(y);
  if (p == q || q == -1) return p == -1 ? 0 : p;
  return p == -1 ? q : 0;
}

static const char *const kind_names[IR_KIND_COUNT] = {"tensor", "int",   "float",    "bool", "str",    "none",
                                                      "list",   "tuple", "optional", "dict", "future", "class"};

const char *ir_type_name(const ir_type *type) {
  return type->kind == IR_TENSOR ? base_dtype(type->dtype)->name : kind_names[type->kind];
}

/* The elements in brackets; a tuple has brackets even when it has no elements. */
static void print_holder(const base_dims *dims, const ir_type *type, base_text *text) {
  uint32_t count = ir_type_elems(type);
  base_text_print(text, "%s", kind_names[type->kind]);
  if (type->name) {
    base_text_print(text, " ");
    base_text_quote(text, type->name, strlen(type->name));
  }
  if (!count && type->kind != IR_TUPLE && type->kind != IR_CLASS) return;
  base_text_print(text, "(");
  for (uint32_t i = 0; i < count; i++) {
    if (i) base_text_print(text, ", ");
    if (type->names) {
      base_text_quote(text, type->names[i], strlen(type->names[i]));
      base_text_print(text, ": ");
    }
    ir_type_print(dims, &type->elem[i], text);
  }
  base_text_print(text, ")");
}

void ir_type_print(const base_dims *dims, const ir_type *type, base_text *text) {
  if (type->kind != IR_TENSOR) {
    print_holder(dims, type, text);
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
