/* types.c -- what a written type says of a value. Types steer little here, since values know what they are. */
#include "import/torchscript/ts_priv.h"

bool ts_type_is(const ts_expr *type, const char *name) {
  return type && type->kind == TS_NAME && base_str_is(type->text, name);
}

const ts_expr *ts_type_argument(const ts_expr *type, const char *name, uint32_t index) {
  if (!type || type->kind != TS_INDEX || !ts_type_is(type->items[0], name) || index + 1 >= type->count) return NULL;
  return type->items[index + 1];
}

static bool dotted_length(const ts_expr *e, size_t *length) {
  for (*length = 0; e->kind == TS_ATTRIBUTE; e = e->items[0]) *length += e->text.length + 1;
  *length += e->text.length;
  return e->kind == TS_NAME;
}

base_str ts_dotted(ts_import *im, const ts_expr *e) {
  size_t length;
  if (!dotted_length(e, &length)) return (base_str){"", 0};
  if (e->kind == TS_NAME) return e->text;
  char *text = base_arena_alloc(im->arena, length + 1);
  if (!text) {
    ir_build_take(&im->build, base_no_memory(im->err, im->source->file));
    return (base_str){"", 0};
  }
  for (size_t at = length; e; e = e->kind == TS_ATTRIBUTE ? e->items[0] : NULL) {
    at -= e->text.length;
    for (size_t i = 0; i < e->text.length; i++) text[at + i] = e->text.at[i];
    if (at > 0) text[--at] = '.';
  }
  return (base_str){text, length};
}

static bool is_class(ts_import *im, const aten_value *v, const ts_expr *type) {
  base_str name = ts_dotted(im, type);
  return v->kind == ATEN_OBJECT && base_str_equal(ts_class_of(v->u.object)->name, name);
}

static bool all_are(ts_import *im, const aten_value *items, uint32_t count, const ts_expr *type) {
  for (uint32_t i = 0; i < count; i++)
    if (!ts_is_instance(im, &items[i], type)) return false;
  return true;
}

static bool is_tuple(ts_import *im, const aten_value *v, const ts_expr *type) {
  if (v->kind != ATEN_TUPLE || v->u.list->items.count != type->count - 1) return false;
  for (uint32_t i = 0; i + 1 < type->count; i++)
    if (!ts_is_instance(im, &v->u.list->items.at[i], type->items[i + 1])) return false;
  return true;
}

static bool is_generic(ts_import *im, const aten_value *v, const ts_expr *type) {
  if (ts_type_argument(type, "Optional", 0))
    return v->kind == ATEN_NONE || ts_is_instance(im, v, ts_type_argument(type, "Optional", 0));
  if (ts_type_argument(type, "Union", 0)) {
    for (uint32_t i = 1; i < type->count; i++)
      if (ts_is_instance(im, v, type->items[i])) return true;
    return false;
  }
  if (ts_type_argument(type, "List", 0))
    return v->kind == ATEN_LIST && (!aten_is_known(v) || all_are(im, v->u.list->items.at, v->u.list->items.count,
                                                                 ts_type_argument(type, "List", 0)));
  if (ts_type_argument(type, "Tuple", 0)) return is_tuple(im, v, type);
  if (ts_type_argument(type, "Dict", 1))
    return v->kind == ATEN_DICT &&
           all_are(im, v->u.dict->keys.at, v->u.dict->keys.count, ts_type_argument(type, "Dict", 0)) &&
           all_are(im, v->u.dict->values.at, v->u.dict->values.count, ts_type_argument(type, "Dict", 1));
  return ts_type_argument(type, "Future", 0) && v->kind == ATEN_FUTURE;
}

bool ts_is_instance(ts_import *im, const aten_value *v, const ts_expr *type) {
  static const struct {
    const char *name;
    aten_kind kind;
  } names[] = {{"Tensor", ATEN_TENSOR}, {"int", ATEN_INT},       {"float", ATEN_FLOAT},   {"bool", ATEN_BOOL},
               {"str", ATEN_STR},       {"NoneType", ATEN_NONE}, {"Device", ATEN_DEVICE}, {"complex", ATEN_COMPLEX},
               {"list", ATEN_LIST},     {"tuple", ATEN_TUPLE},   {"dict", ATEN_DICT}};
  if (type->kind == TS_NONE) return v->kind == ATEN_NONE;
  if (type->kind == TS_INDEX) return is_generic(im, v, type);
  if (ts_type_is(type, "Any")) return true;
  if (ts_type_is(type, "number")) return v->kind == ATEN_INT || v->kind == ATEN_FLOAT || v->kind == ATEN_COMPLEX;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (ts_type_is(type, names[i].name)) return v->kind == names[i].kind;
  return is_class(im, v, type);
}
