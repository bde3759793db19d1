/* builtin.c -- what the language itself calls: casts of types, tests of types, conversions, fork. Also enumerations. */
#include "import/torchscript/ts_priv.h"

typedef aten_value (*builtin_fn)(ts_frame *f, const ts_expr *e, const char *op);

/* Evaluated argument `index` (from 1), or a failure where it is not there. */
static aten_value argument(ts_frame *f, const ts_expr *e, uint32_t index) {
  if (index < e->count) return ts_eval(f, e->items[index]);
  ts_fail(f, e->place, TD_BAD_FILE, "an argument is missing");
  return ATEN_NOTHING;
}

static aten_value call(ts_frame *f, const char *op, const aten_value *v) {
  return ts_ok(f->im) ? aten_call(f->im->a, op, NULL, v, 1, NULL, 0) : ATEN_NOTHING;
}

/* annotate(T, x): a tensor becomes the number that T asks for; else it is x. */
static aten_value annotate(ts_frame *f, const ts_expr *e, const char *op) {
  static const struct {
    const char *type, *op;
  } rows[] = {{"int", "aten::IntImplicit"},
              {"float", "aten::FloatImplicit"},
              {"number", "aten::ScalarImplicit"},
              {"complex", "aten::ComplexImplicit"},
              {"bool", "aten::Bool"}};
  (void)op;
  aten_value v = argument(f, e, 2);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (v.kind == ATEN_TENSOR && ts_type_is(e->items[1], rows[i].type)) return call(f, rows[i].op, &v);
  return v;
}

static aten_value unchecked_cast(ts_frame *f, const ts_expr *e, const char *op) {
  (void)op;
  aten_value v = argument(f, e, 2);
  return ts_is_maybe(f->im, &v) ? v.u.object->slots[TS_MAYBE_VALUE] : v;
}

static aten_value uninitialized(ts_frame *f, const ts_expr *e, const char *op) {
  (void)f;
  (void)e;
  (void)op;
  return (aten_value){.kind = ATEN_UNDEFINED};
}

static aten_value get_attribute(ts_frame *f, const ts_expr *e, const char *op) {
  (void)op;
  aten_value base = argument(f, e, 1), name = argument(f, e, 2);
  if (ts_ok(f->im) && name.kind == ATEN_STR) return ts_get_attribute(f, e->place, &base, aten_str_of(&name));
  ts_fail(f, e->place, TD_BAD_FILE, "the name of an attribute is no text");
  return ATEN_NOTHING;
}

static aten_value is_instance(ts_frame *f, const ts_expr *e, const char *op) {
  (void)op;
  aten_value v = argument(f, e, 1);
  const ts_expr *type = e->count > 2 ? e->items[2] : NULL;
  bool is = false;
  if (!type) ts_fail(f, e->place, TD_BAD_FILE, "an argument is missing");
  if (!ts_ok(f->im)) return ATEN_NOTHING;
  if (ts_is_maybe(f->im, &v)) {
    ts_fail(f, e->place, TD_UNSUPPORTED, "only running can tell the type that isinstance asks for");
    return ATEN_NOTHING;
  }
  if (type->kind != TS_TUPLE && type->kind != TS_LIST) return aten_bool(ts_is_instance(f->im, &v, type));
  for (uint32_t i = 0; i < type->count; i++) is = is || ts_is_instance(f->im, &v, type->items[i]);
  return aten_bool(is);
}

static aten_value fork_task(ts_frame *f, const ts_expr *e, const char *op) {
  (void)op;
  aten_value task = argument(f, e, 1);
  if (!ts_ok(f->im)) return task;
  if (task.kind == ATEN_FUNCTION) return ts_fork(f, e->place, task.u.function);
  ts_fail(f, e->place, TD_BAD_FILE, "what is forked is no function");
  return ATEN_NOTHING;
}

static aten_value make_tuple(ts_frame *f, const ts_expr *e, const char *op) {
  (void)op;
  aten_value v = argument(f, e, 1);
  if (!ts_ok(f->im) || v.kind != ATEN_LIST || !aten_is_known(&v)) return v;
  return aten_tuple_of(f->im->a, v.u.list->items.at, v.u.list->items.count);
}

/* Operators under the names of the language. */
static aten_value operator(ts_frame *f, const ts_expr *e, const char *op) {
  ir_frame frame;
  uint32_t count = e->count - 1;
  aten_value *args = base_new(f->im->arena, aten_value, count + (size_t)1);
  if (!args) {
    ir_build_take(&f->im->build, base_no_memory(f->im->err, f->im->source->file));
    return ATEN_NOTHING;
  }
  for (uint32_t i = 0; i < count; i++) args[i] = argument(f, e, i + 1);
  if (!ts_ok(f->im)) return ATEN_NOTHING;
  if (f->im->raised || (count && args[0].kind == ATEN_UNDEFINED)) return (aten_value){.kind = ATEN_UNDEFINED};
  ir_build_enter(&f->im->build, &frame, ts_origin(f, e->place, op));
  aten_value v = aten_call(f->im->a, op, NULL, args, count, NULL, 0);
  ir_build_leave(&f->im->build);
  return v;
}

static const struct {
  const char *name;
  builtin_fn run;
  const char *op;
} builtins[] = {{"annotate", annotate, NULL}, {"unchecked_cast", unchecked_cast, NULL},
                {"uninitialized", uninitialized, NULL}, {"getattr", get_attribute, NULL},
                {"isinstance", is_instance, NULL}, {"fork", fork_task, NULL}, {"tuple", make_tuple, NULL},
                {"int", operator, "aten::Int" },
                 {"float", operator, "aten::Float" },
                  {"bool", operator, "aten::Bool" },
                   {"complex", operator, "aten::Complex" },
                    {"str", operator, "aten::str" },
                     {"sorted", operator, "aten::sorted" },
                      {"print", operator, "prim::Print" },
                       {"len", operator, "aten::len" },
                        {"list", operator, "aten::list" },
                         {"dict", operator, "aten::dict" },
                          {"abs", operator, "prim::abs" },
                           {"ord", operator, "aten::ord" },
                            {"chr", operator, "aten::chr" },
                             {"hex", operator, "aten::hex" },
                              {"oct", operator, "aten::oct" },
                               {"bin", operator, "aten::bin" },
                                {"round", operator, "aten::round" }, {"divmod", operator, "aten::divmod" } };

aten_value ts_eval_builtin(ts_frame *f, const ts_expr *e, base_str name, bool *found) {
  for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++) {
    if (!base_str_is(name, builtins[i].name)) continue;
    *found = true;
    return builtins[i].run(f, e, builtins[i].op);
  }
  *found = false;
  return ATEN_NOTHING;
}

/* ---- enumerations ------------------------------------------------------------------------------------------------ */

enum { ENUM_NAME, ENUM_VALUE, ENUM_SLOTS };

/* Members are made once, so that they can be compared by identity. */
static void make_members(ts_import *im, ts_class *class) {
  ts_frame top = {.im = im, .source = class->source, .path = "", .loop_start = UINT32_MAX};
  if (class->members) return;
  class->members = base_new(im->arena, ts_object *, class->def->fields.count + 1);
  if (!class->members) ir_build_take(&im->build, base_no_memory(im->err, im->source->file));
  for (uint32_t i = 0; i < class->def->fields.count && ts_ok(im); i++) {
    const ts_field *field = &class->def->fields.at[i];
    ts_object *o = field->value ? ts_new_object(im, class) : NULL;
    if (!o || o->base.slot_count < ENUM_SLOTS) continue;
    o->base.slots[ENUM_NAME] = aten_str(im->a, field->name);
    o->base.slots[ENUM_VALUE] = ts_eval(&top, field->value);
    class->members[i] = o;
  }
}

static aten_value find_member(ts_import *im, ts_class *class, const aten_value *wanted, uint32_t slot) {
  make_members(im, class);
  for (uint32_t i = 0; i < class->def->fields.count && ts_ok(im); i++)
    if (class->members[i] && aten_same(&class->members[i]->base.slots[slot], wanted))
      return (aten_value){.kind = ATEN_OBJECT, .u.object = &class->members[i]->base};
  if (ts_ok(im))
    ir_build_take(&im->build, base_fail(im->err, TD_BAD_FILE, im->source->file, -1, "%.*s has no such member",
                                        (int)class->name.length, class->name.at));
  return ATEN_NOTHING;
}

aten_value ts_enum_of_value(ts_import *im, ts_class *class, const aten_value *value) {
  return find_member(im, class, value, ENUM_VALUE);
}

aten_value ts_enum_of_name(ts_import *im, ts_class *class, base_str name) {
  aten_value wanted = aten_str(im->a, name);
  return find_member(im, class, &wanted, ENUM_NAME);
}
