/* eval.c -- expressions. */
#include <math.h>

#include "import/torchscript/ts_priv.h"

static aten_value undefined(void) { return (aten_value){.kind = ATEN_UNDEFINED}; }

/* ---- names ------------------------------------------------------------------------------------------------------- */

static bool free_name(aten *a, base_str name, aten_value *out) {
  static const struct {
    const char *name;
    double re, im;
  } numbers[] = {{"inf", HUGE_VAL, 0}, {"nan", NAN, 0}, {"infj", 0, HUGE_VAL}, {"nanj", 0, NAN}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    if (!base_str_is(name, numbers[i].name)) continue;
    *out = i < 2 ? aten_float(numbers[i].re) : aten_complex(a, numbers[i].re, numbers[i].im);
    return true;
  }
  return false;
}

static aten_value eval_name(ts_frame *f, const ts_expr *e) {
  const ts_local *local = ts_find_local(f, e->text);
  aten_value value = ATEN_NOTHING;
  if (local && local->set) return local->value;
  if (local && local->spoiled) {
    ts_fail(f, e->place, TD_UNSUPPORTED, "%.*s: %s", (int)e->text.length, e->text.at, local->spoiled);
    return value;
  }
  if (local) return undefined();
  return free_name(f->im->a, e->text, &value) ? value : ts_eval_path(f, e, e->text);
}

static bool begins_with_local(ts_frame *f, const ts_expr *e) {
  while (e->kind == TS_ATTRIBUTE) e = e->items[0];
  return e->kind != TS_NAME || ts_find_local(f, e->text) != NULL;
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static aten_value bound_method(ts_frame *f, ts_object *object, ts_function *method) {
  ts_class *class = ts_class_of(&object->base);
  ts_callable *c = base_new(f->im->arena, ts_callable, 1);
  if (!c) {
    ir_build_take(&f->im->build, base_no_memory(f->im->err, f->im->source->file));
    return ATEN_NOTHING;
  }
  *c = (ts_callable){.function = method, .source = class->source, .class = class, .self = object};
  return (aten_value){.kind = ATEN_FUNCTION, .u.function = c};
}

static aten_value object_attribute(ts_frame *f, ts_place place, aten_object *o, base_str name) {
  ts_class *class = ts_class_of(o);
  const uint32_t *slot = base_map_get(&class->slots, name);
  if (slot && o->slots[*slot].kind != ATEN_UNDEFINED) return o->slots[*slot];
  const uint32_t *constant = base_map_get(&class->constants, name);
  if (constant) {
    ts_frame top = {.im = f->im, .source = class->source, .path = "", .loop_start = UINT32_MAX};
    return ts_eval(&top, class->def->fields.at[*constant].value);
  }
  ts_function *method = ts_find_method(class, name);
  if (method) return bound_method(f, (ts_object *)(void *)o, method);
  ts_fail(f, place, slot ? TD_UNSUPPORTED : TD_BAD_FILE,
          slot ? "%.*s of a %.*s has no value yet" : "%.*s is no attribute of a %.*s", (int)name.length, name.at,
          (int)class->name.length, class->name.at);
  return ATEN_NOTHING;
}

/* `x.dtype` and the like, which the writer prints as calls of prim:: operators. */
static aten_value operator_attribute(ts_frame *f, ts_place place, const aten_value *v, base_str name) {
  static const char *const spaces[] = {"prim", "aten"};
  for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
    const char *op = base_arena_format(f->im->arena, "%s::%.*s", spaces[i], (int)name.length, name.at);
    if (op && aten_supports(f->im->a, op, NULL)) return aten_call(f->im->a, op, NULL, v, 1, NULL, 0);
  }
  ts_fail(f, place, TD_UNSUPPORTED, "a %s has no attribute %.*s", aten_kind_name(v), (int)name.length, name.at);
  return ATEN_NOTHING;
}

aten_value ts_get_attribute(ts_frame *f, ts_place place, const aten_value *v, base_str name) {
  if (!ts_ok(f->im)) return ATEN_NOTHING;
  if (v->kind == ATEN_UNDEFINED) return undefined();
  if (v->kind == ATEN_OBJECT) return object_attribute(f, place, v->u.object, name);
  return operator_attribute(f, place, v, name);
}

static aten_value eval_attribute(ts_frame *f, const ts_expr *e) {
  if (!begins_with_local(f, e)) return ts_eval_path(f, e, ts_dotted(f->im, e));
  aten_value base = ts_eval(f, e->items[0]);
  return ts_get_attribute(f, e->place, &base, e->text);
}

/* ---- containers -------------------------------------------------------------------------------------------------- */

static aten_value eval_items(ts_frame *f, const ts_expr *e) {
  aten_value *items = base_new(f->im->arena, aten_value, e->count + 1);
  if (!items) {
    ir_build_take(&f->im->build, base_no_memory(f->im->err, f->im->source->file));
    return ATEN_NOTHING;
  }
  for (uint32_t i = 0; i < e->count && ts_ok(f->im); i++) items[i] = ts_eval(f, e->items[i]);
  if (!ts_ok(f->im)) return ATEN_NOTHING;
  return e->kind == TS_TUPLE ? aten_tuple_of(f->im->a, items, e->count) : aten_list_of(f->im->a, items, e->count);
}

static aten_value eval_dict(ts_frame *f, const ts_expr *e) {
  aten_value dict = aten_dict_of(f->im->a);
  for (uint32_t i = 0; i + 1 < e->count && ts_ok(f->im); i += 2) {
    aten_value key = ts_eval(f, e->items[i]), value = ts_eval(f, e->items[i + 1]);
    if (ts_ok(f->im)) aten_dict_set(f->im->a, dict.u.dict, key, value);
  }
  return dict;
}

/* ---- indices ----------------------------------------------------------------------------------------------------- */

/* Items of a tuple or a named tuple. */
static const aten_value *tuple_items(const aten_value *v, uint32_t *count) {
  if (v->kind == ATEN_TUPLE) {
    *count = v->u.list->items.count;
    return v->u.list->items.at;
  }
  bool named = v->kind == ATEN_OBJECT && ts_class_of(v->u.object)->kind == TS_CLASS_TUPLE;
  *count = named ? v->u.object->slot_count : 0;
  return named ? v->u.object->slots : NULL;
}

static aten_value tuple_item(ts_frame *f, const ts_expr *e, const aten_value *items, uint32_t count,
                             const aten_value *index) {
  if (index->kind != ATEN_INT || !aten_is_known(index)) {
    ts_fail(f, e->place, TD_UNSUPPORTED, "a tuple's index is known only when the program runs");
    return ATEN_NOTHING;
  }
  int64_t i = index->u.i < 0 ? index->u.i + count : index->u.i;
  if (i >= 0 && i < count) return items[i];
  ts_fail(f, e->place, TD_BAD_FILE, "index %lld of a tuple of %u", (long long)index->u.i, count);
  return ATEN_NOTHING;
}

static aten_value slice(ts_frame *f, const ts_expr *e, const aten_value *base) {
  uint32_t count = 0;
  const aten_value *items = tuple_items(base, &count);
  const ts_expr *s = e->items[1];
  aten_value bounds[4] = {*base, aten_int(0), aten_int(INT64_MAX), aten_int(1)};
  for (uint32_t i = 0; i < 2; i++)
    if (s->items[i]) bounds[i + 1] = ts_eval(f, s->items[i]);
  if (!ts_ok(f->im)) return ATEN_NOTHING;
  if (!items && base->kind != ATEN_TUPLE) return aten_call(f->im->a, "aten::slice", NULL, bounds, 4, NULL, 0);
  int64_t at[2];
  for (uint32_t i = 0; i < 2; i++) {
    at[i] = bounds[i + 1].u.i < 0 ? bounds[i + 1].u.i + count : bounds[i + 1].u.i;
    at[i] = at[i] < 0 ? 0 : at[i] > count ? count : at[i];
  }
  return aten_tuple_of(f->im->a, items + at[0], at[1] > at[0] ? (uint32_t)(at[1] - at[0]) : 0);
}

static aten_value eval_index(ts_frame *f, const ts_expr *e) {
  if (e->items[0]->kind == TS_NAME && base_str_is(e->items[0]->text, "CONSTANTS") && e->count == 2)
    return ts_eval(f, e->items[1]);
  aten_value base = ts_eval(f, e->items[0]);
  if (!ts_ok(f->im)) return base;
  if (base.kind == ATEN_UNDEFINED) return undefined();
  if (e->count != 2) {
    ts_fail(f, e->place, TD_UNSUPPORTED, "an index of several parts");
    return ATEN_NOTHING;
  }
  if (e->items[1]->kind == TS_SLICE) return slice(f, e, &base);
  aten_value pair[2] = {base, ts_eval(f, e->items[1])};
  uint32_t count = 0;
  const aten_value *items = tuple_items(&base, &count);
  if (!ts_ok(f->im)) return ATEN_NOTHING;
  if (items || base.kind == ATEN_TUPLE) return tuple_item(f, e, items, count, &pair[1]);
  return aten_call(f->im->a, base.kind == ATEN_TENSOR ? "aten::select" : "aten::__getitem__", NULL,
                   base.kind == ATEN_TENSOR ? (aten_value[]){base, aten_int(0), pair[1]} : pair,
                   base.kind == ATEN_TENSOR ? 3 : 2, NULL, 0);
}

/* ---- operators, which the writer never prints -------------------------------------------------------------------- */

static aten_value eval_operator(ts_frame *f, const ts_expr *e) {
  static const struct {
    const char *sign, *op;
  } rows[] = {{"+", "aten::add"},        {"-", "aten::sub"},       {"*", "aten::mul"},       {"/", "aten::div"},
              {"**", "aten::pow"},       {"//", "aten::floordiv"}, {"%", "aten::remainder"}, {"@", "aten::matmul"},
              {"==", "aten::eq"},        {"!=", "aten::ne"},       {"<", "aten::lt"},        {"<=", "aten::le"},
              {">", "aten::gt"},         {">=", "aten::ge"},       {"&", "aten::__and__"},   {"|", "aten::__or__"},
              {"^", "aten::__xor__"},    {"and", "aten::__and__"}, {"or", "aten::__or__"},   {"not", "aten::__not__"},
              {"~", "aten::bitwise_not"}};
  aten_value args[2] = {{0}, {0}};
  for (uint32_t i = 0; i < e->count; i++) args[i] = ts_eval(f, e->items[i]);
  if (e->kind == TS_UNARY && base_str_is(e->text, "-")) return aten_call(f->im->a, "aten::neg", NULL, args, 1, NULL, 0);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (base_str_is(e->text, rows[i].sign)) return aten_call(f->im->a, rows[i].op, NULL, args, e->count, NULL, 0);
  ts_fail(f, e->place, TD_UNSUPPORTED, "operator %.*s", (int)e->text.length, e->text.at);
  return ATEN_NOTHING;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static aten_value eval(ts_frame *f, const ts_expr *e) {
  switch (e->kind) {
    case TS_NONE: return ATEN_NOTHING;
    case TS_TRUE: return aten_bool(true);
    case TS_FALSE: return aten_bool(false);
    case TS_INT: return aten_int(e->number.i);
    case TS_FLOAT: return aten_float(e->number.f);
    case TS_COMPLEX: return aten_complex(f->im->a, 0, e->number.f);
    case TS_STRING: return aten_str(f->im->a, e->text);
    case TS_NAME: return eval_name(f, e);
    case TS_ATTRIBUTE: return eval_attribute(f, e);
    case TS_CALL: return ts_eval_call(f, e);
    case TS_INDEX: return eval_index(f, e);
    case TS_TUPLE:
    case TS_LIST: return eval_items(f, e);
    case TS_DICT: return eval_dict(f, e);
    case TS_UNARY:
    case TS_BINARY: return eval_operator(f, e);
    case TS_SLICE: break;
  }
  ts_fail(f, e->place, TD_BAD_FILE, "a slice stands outside of an index");
  return ATEN_NOTHING;
}

aten_value ts_eval(ts_frame *f, const ts_expr *e) {
  if (!ts_enter_depth(f, e->place)) return ATEN_NOTHING;
  aten_value value = f->im->raised ? undefined() : eval(f, e);
  f->im->depth--;
  return value;
}
