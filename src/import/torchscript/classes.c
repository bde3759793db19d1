/* classes.c -- classes and functions by their qualified names, resolved when somebody asks. "__torch__.a.b.C" is class
 * C of the file code/__torch__/a/b.py. */
#include "import/torchscript/ts_priv.h"

static const struct {
  const char *base;
  ts_class_kind kind;
} kinds[] = {{"", TS_CLASS_PLAIN},    {"Module", TS_CLASS_MODULE},       {"NamedTuple", TS_CLASS_TUPLE},
             {"Enum", TS_CLASS_ENUM}, {"Interface", TS_CLASS_INTERFACE}, {"ModuleInterface", TS_CLASS_INTERFACE}};

static bool is_list_of_names(base_str name) {
  return base_str_is(name, "__parameters__") || base_str_is(name, "__buffers__") ||
         base_str_is(name, "__forward_pre_hooks__") || base_str_is(name, "__forward_hooks__") ||
         base_str_is(name, "__annotations__");
}

static td_status no_memory(ts_import *im) { return base_no_memory(im->err, im->source->file); }

static td_status add_slot(ts_import *im, ts_class *c, base_str name, const ts_expr *type) {
  base_str *slot = base_vec_push(im->arena, &c->names);
  const ts_expr **t = slot ? base_vec_push(im->arena, &c->types) : NULL;
  bool existed = false;
  if (!t || !base_map_put(&c->slots, im->arena, name, c->names.count - 1, &existed)) return no_memory(im);
  *slot = name;
  *t = type;
  return TD_OK;
}

static td_status add_field(ts_import *im, ts_class *c, uint32_t index) {
  const ts_field *f = &c->def->fields.at[index];
  if (is_list_of_names(f->name)) return TD_OK;
  bool is_final = f->value && (!f->type || f->type->kind == TS_INDEX) && c->kind != TS_CLASS_TUPLE;
  if (!is_final) return add_slot(im, c, f->name, f->type);
  return base_map_put(&c->constants, im->arena, f->name, index, NULL) ? TD_OK : no_memory(im);
}

static td_status make_class(ts_import *im, base_str name, ts_source *source, const ts_class_def *def, ts_class **out) {
  ts_class *c = *out = base_new(im->arena, ts_class, 1);
  size_t kind = 0;
  if (!c) return no_memory(im);
  *c = (ts_class){.name = name, .def = def, .source = source};
  while (kind < sizeof kinds / sizeof *kinds && !base_str_is(def->base, kinds[kind].base)) kind++;
  if (kind == sizeof kinds / sizeof *kinds)
    return base_fail(im->err, TD_UNSUPPORTED, source->file, def->place.offset, "line %u: class %.*s is made from %.*s",
                     def->place.line, (int)def->name.length, def->name.at, (int)def->base.length, def->base.at);
  c->kind = kinds[kind].kind;
  if (c->kind == TS_CLASS_ENUM) {
    TRY(add_slot(im, c, BASE_STR("name"), NULL));
    TRY(add_slot(im, c, BASE_STR("value"), NULL));
  }
  for (uint32_t i = 0; i < def->fields.count; i++) TRY(add_field(im, c, i));
  for (uint32_t i = 0; i < def->methods.count; i++)
    if (!base_map_put(&c->methods, im->arena, def->methods.at[i]->name, i, NULL)) return no_memory(im);
  return TD_OK;
}

/* The file and the last part of a qualified name. */
static td_status split(ts_import *im, base_str name, ts_source **source, base_str *last) {
  size_t dot = name.length;
  *source = NULL;
  while (dot > 0 && name.at[dot - 1] != '.') dot--;
  if (dot < 2) return TD_OK;
  *last = (base_str){name.at + dot, name.length - dot};
  return ts_archive_source(im->archive, (base_str){name.at, dot - 1}, source);
}

td_status ts_find_class(ts_import *im, base_str name, ts_class **out) {
  const uint32_t *known = base_map_get(&im->classes, name);
  base_str last = {"", 0};
  ts_source *source = NULL;
  *out = NULL;
  if (known) {
    *out = im->class_list.at[*known];
    return TD_OK;
  }
  TRY(split(im, name, &source, &last));
  for (uint32_t i = 0; source && i < source->classes.count && !*out; i++)
    if (base_str_equal(source->classes.at[i]->name, last))
      TRY(make_class(im, name, source, source->classes.at[i], out));
  if (!*out) return TD_OK;
  ts_class **slot = base_vec_push(im->arena, &im->class_list);
  char *key = base_arena_slice(im->arena, name.at, name.length);
  if (!slot || !key ||
      !base_map_put(&im->classes, im->arena, (base_str){key, name.length}, im->class_list.count - 1, NULL))
    return no_memory(im);
  (*out)->name = (base_str){key, name.length};
  *slot = *out;
  return TD_OK;
}

td_status ts_find_function(ts_import *im, base_str name, ts_function **out, ts_source **source) {
  base_str last = {"", 0};
  *out = NULL;
  TRY(split(im, name, source, &last));
  for (uint32_t i = 0; *source && i < (*source)->functions.count; i++)
    if (base_str_equal((*source)->functions.at[i]->name, last)) *out = (*source)->functions.at[i];
  return TD_OK;
}

ts_function *ts_find_method(const ts_class *class, base_str name) {
  const uint32_t *index = base_map_get(&class->methods, name);
  return index ? class->def->methods.at[*index] : NULL;
}

ts_object *ts_new_object(ts_import *im, ts_class *class) {
  ts_object *o = base_new(im->arena, ts_object, 1);
  aten_value *slots = o ? base_new(im->arena, aten_value, class->names.count + 1) : NULL;
  if (!slots) {
    ir_build_take(&im->build, no_memory(im));
    return NULL;
  }
  for (uint32_t i = 0; i < class->names.count; i++) slots[i].kind = ATEN_UNDEFINED;
  o->base = (aten_object){.type = class, .slots = slots, .slot_count = class->names.count, .born = aten_stamp(im->a)};
  return o;
}
