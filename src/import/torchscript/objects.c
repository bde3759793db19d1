/* objects.c -- pickled objects as values. What the file shares is shared: an object is made once. */
#include "import/torchscript/ts_priv.h"

enum { MAX_NESTING = 100 };

static aten_value fail(ts_import *im, td_status code, const char *what) {
  if (ts_ok(im)) ir_build_take(&im->build, base_fail(im->err, code, im->source->file, -1, "%s", what));
  return ATEN_NOTHING;
}

static aten_value no_memory(ts_import *im) {
  ir_build_take(&im->build, base_no_memory(im->err, im->source->file));
  return ATEN_NOTHING;
}

static base_str address(const fmt_object *const *object) { return (base_str){(const char *)object, sizeof *object}; }

/* Object -> value, for those that come again. */
static void remember(ts_import *im, const fmt_object *object, bool is_constant, const char *path, aten_value value) {
  const fmt_object **key = base_new(im->arena, const fmt_object *, 1);
  aten_value *slot = key ? base_vec_push(im->arena, &im->values) : NULL;
  ts_loaded *loaded = slot ? base_vec_push(im->arena, &im->objects) : NULL;
  if (loaded) {
    *key = object;
    *loaded = (ts_loaded){object, path ? path : "", is_constant};
  }
  if (!loaded || !base_map_put(&im->loaded, im->arena, address(key), im->values.count - 1, NULL)) {
    no_memory(im);
    return;
  }
  *slot = value;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static ir_value constant_of(ts_import *im, const fmt_stored_tensor *t, bool is_constant, const char *path) {
  base_tensor view;
  ir_value value = IR_NO_VALUE;
  fmt_storage_set *set = is_constant ? &im->archive->constants : &im->archive->data;
  td_status status = fmt_storage_view(set, t, &view);
  if (status != TD_OK) {
    ir_build_take(&im->build, base_error_name(im->err, status, "tensor %s", path));
    return value;
  }
  ir_build_take(&im->build, ir_add_constant(im->graph, &view, NULL, &value, im->err));
  return value;
}

static aten_value quantised(ts_import *im, const fmt_stored_tensor *t, aten_value ints, bool is_constant,
                            const char *path) {
  const fmt_quantiser *q = t->quantiser;
  if (!q->per_channel) {
    aten_value args[3] = {ints, aten_float(q->scale), aten_int(q->zero_point)};
    return aten_call(im->a, "aten::_make_per_tensor_quantized_tensor", NULL, args, 3, NULL, 0);
  }
  aten_value scales = aten_of(im->a, constant_of(im, q->scales, is_constant, path), true);
  aten_value zeros = aten_of(im->a, constant_of(im, q->zero_points, is_constant, path), true);
  aten_value args[4] = {ints, scales, zeros, aten_int(q->axis)};
  return aten_call(im->a, "aten::_make_per_channel_quantized_tensor", NULL, args, 4, NULL, 0);
}

static aten_value load_tensor(ts_import *im, const fmt_object *o, bool is_constant, const char *path) {
  const fmt_stored_tensor *t = o->u.tensor;
  ir_value value = constant_of(im, t, is_constant, path);
  if (!ts_ok(im)) return ATEN_NOTHING;
  const base_tensor *view = ir_value_of(im->graph, value)->info.constant;
  aten_value tensor = aten_of(im->a, value, !view || base_tensor_contiguous(view));
  if (t->is_complex) tensor = aten_of_complex(im->a, value);
  if (t->quantiser) tensor = quantised(im, t, tensor, is_constant, path);
  aten_mark_first(&tensor);
  return tensor;
}

/* ---- containers -------------------------------------------------------------------------------------------------- */

static aten_value load_list(ts_import *im, const fmt_object *o, bool is_constant, const char *path) {
  aten_value list = aten_list_of(im->a, NULL, 0);
  remember(im, o, is_constant, path, list);
  for (uint32_t i = 0; i < o->u.items.count && ts_ok(im); i++)
    aten_list_append(im->a, list.u.list, ts_load_object(im, o->u.items.at[i], is_constant, path));
  return list;
}

static aten_value load_tuple(ts_import *im, const fmt_object *o, bool is_constant, const char *path) {
  uint32_t count = o->u.items.count;
  aten_value *items = base_new(im->arena, aten_value, count + 1);
  if (!items) return no_memory(im);
  for (uint32_t i = 0; i < count && ts_ok(im); i++) items[i] = ts_load_object(im, o->u.items.at[i], is_constant, path);
  return aten_tuple_of(im->a, items, count);
}

static aten_value load_dict(ts_import *im, const fmt_object *o, bool is_constant, const char *path) {
  aten_value dict = aten_dict_of(im->a);
  remember(im, o, is_constant, path, dict);
  for (uint32_t i = 0; i + 1 < o->u.items.count && ts_ok(im); i += 2) {
    aten_value key = ts_load_object(im, o->u.items.at[i], is_constant, path);
    aten_value value = ts_load_object(im, o->u.items.at[i + 1], is_constant, path);
    if (ts_ok(im)) aten_dict_set(im->a, dict.u.dict, key, value);
  }
  return dict;
}

/* ---- instances --------------------------------------------------------------------------------------------------- */

static base_str class_name(ts_import *im, const fmt_object *global) {
  const fmt_global *g = global->u.global;
  char *name =
      base_arena_format(im->arena, "%.*s.%.*s", (int)g->module.length, g->module.at, (int)g->name.length, g->name.at);
  if (!name) no_memory(im);
  return base_str_of(name);
}

static const char *member_path(ts_import *im, const char *path, base_str name) {
  const char *joined = base_arena_format(im->arena, "%s%s%.*s", path, path[0] ? "." : "", (int)name.length, name.at);
  if (!joined) no_memory(im);
  return joined ? joined : "";
}

static void load_attributes(ts_import *im, ts_object *object, const fmt_object *state, bool is_constant) {
  ts_class *class = ts_class_of(&object->base);
  for (uint32_t i = 0; i + 1 < state->u.items.count && ts_ok(im); i += 2) {
    const fmt_object *key = state->u.items.at[i];
    const uint32_t *slot = key->kind == FMT_OBJ_STR ? base_map_get(&class->slots, key->u.str) : NULL;
    if (!slot) continue; /* an attribute that the program does not know, so cannot use */
    const char *path = member_path(im, object->path ? object->path : "", key->u.str);
    object->base.slots[*slot] = ts_load_object(im, state->u.items.at[i + 1], is_constant, path);
  }
}

static void run_setstate(ts_import *im, ts_object *object, ts_function *f, const fmt_object *state, bool is_constant) {
  ts_class *class = ts_class_of(&object->base);
  ts_callable c = {.function = f, .source = class->source, .class = class, .self = object};
  aten_value value = ts_load_object(im, state, is_constant, object->path);
  ts_frame caller = {.im = im, .source = class->source, .path = ""};
  ts_call(&caller, f->place, &c, &value, 1, NULL, 0);
}

static aten_value load_instance(ts_import *im, const fmt_object *o, bool is_constant, const char *path) {
  base_str name = class_name(im, o->u.items.at[0]);
  const fmt_object *state = o->u.items.count > 1 ? o->u.items.at[1] : NULL;
  ts_class *class = NULL;
  if (!ts_ok(im)) return ATEN_NOTHING;
  if (base_str_starts(name, "__torch__.torch.classes.")) return ts_load_custom(im, name, state, is_constant, path);
  ir_build_take(&im->build, ts_find_class(im, name, &class));
  if (ts_ok(im) && !class)
    ir_build_take(&im->build, base_fail(im->err, TD_BAD_FILE, im->source->file, -1, "the archive has no class %.*s",
                                        (int)name.length, name.at));
  ts_object *object = class && ts_ok(im) ? ts_new_object(im, class) : NULL;
  if (!object) return ATEN_NOTHING;
  object->record = o;
  object->path = path;
  aten_value value = {.kind = ATEN_OBJECT, .u.object = &object->base};
  remember(im, o, is_constant, path, value);
  ts_function *setstate = ts_find_method(class, BASE_STR("__setstate__"));
  if (state && setstate) run_setstate(im, object, setstate, state, is_constant);
  else if (state && state->kind == FMT_OBJ_DICT) load_attributes(im, object, state, is_constant);
  else if (state && state->kind == FMT_OBJ_TUPLE && class->kind == TS_CLASS_TUPLE)
    for (uint32_t i = 0; i < state->u.items.count && i < object->base.slot_count; i++)
      object->base.slots[i] = ts_load_object(im, state->u.items.at[i], is_constant, path);
  return value;
}

static aten_value load_enum(ts_import *im, const fmt_object *o, bool is_constant, const char *path) {
  base_str name = class_name(im, o->u.items.at[0]);
  ts_class *class = NULL;
  aten_value value = ts_load_object(im, o->u.items.at[1], is_constant, path);
  if (!ts_ok(im)) return ATEN_NOTHING;
  ir_build_take(&im->build, ts_find_class(im, name, &class));
  if (!ts_ok(im)) return ATEN_NOTHING;
  if (!class || class->kind != TS_CLASS_ENUM) return fail(im, TD_BAD_FILE, "a value is of an enumeration that is none");
  return ts_enum_of_value(im, class, &value);
}

/* ---- one object -------------------------------------------------------------------------------------------------- */

static aten_value load(ts_import *im, const fmt_object *o, bool is_constant, const char *path) {
  switch (o->kind) {
    case FMT_OBJ_NONE: return ATEN_NOTHING;
    case FMT_OBJ_BOOL: return aten_bool(o->u.i != 0);
    case FMT_OBJ_INT: return aten_int(o->u.i);
    case FMT_OBJ_FLOAT: return aten_float(o->u.f);
    case FMT_OBJ_STR: return aten_str(im->a, o->u.str);
    case FMT_OBJ_DEVICE: return aten_device(im->a, o->u.str);
    case FMT_OBJ_COMPLEX: return aten_complex(im->a, o->u.items.at[0]->u.f, o->u.items.at[1]->u.f);
    case FMT_OBJ_TENSOR: return load_tensor(im, o, is_constant, path);
    case FMT_OBJ_LIST: return load_list(im, o, is_constant, path);
    case FMT_OBJ_TUPLE: return load_tuple(im, o, is_constant, path);
    case FMT_OBJ_DICT: return load_dict(im, o, is_constant, path);
    case FMT_OBJ_INSTANCE: return load_instance(im, o, is_constant, path);
    case FMT_OBJ_ENUM: return load_enum(im, o, is_constant, path);
    case FMT_OBJ_LONG:
    case FMT_OBJ_GLOBAL:
    case FMT_OBJ_STORAGE: break;
  }
  return fail(im, TD_UNSUPPORTED, "a pickle holds an object that no program of TorchScript can use");
}

aten_value ts_load_object(ts_import *im, const fmt_object *object, bool is_constant, const char *path) {
  const uint32_t *known = base_map_get(&im->loaded, address(&object));
  if (known) return im->values.at[*known];
  if (!ts_ok(im)) return ATEN_NOTHING;
  if (im->nesting > MAX_NESTING) return fail(im, TD_BAD_FILE, "objects are nested more than 100 deep");
  im->nesting++;
  aten_value value = load(im, object, is_constant, path);
  im->nesting--;
  bool shared = object->kind == FMT_OBJ_TENSOR || object->kind == FMT_OBJ_TUPLE ||
                (object->kind == FMT_OBJ_INSTANCE && value.kind != ATEN_OBJECT);
  if (ts_ok(im) && shared) remember(im, object, is_constant, path, value);
  return value;
}
