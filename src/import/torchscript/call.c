/* call.c -- calls: operators, functions, methods, constructors. Functions are run where they are called. */
#include <stdio.h>
#include <string.h>

#include "import/torchscript/ts_priv.h"

enum { MAX_OP_NAME = 128 };

typedef struct arguments {
  aten_value *values;
  uint32_t count;
  aten_keyword *keywords;
  uint32_t keyword_count;
} arguments;

static void no_memory(ts_import *im) { ir_build_take(&im->build, base_no_memory(im->err, im->source->file)); }

static bool eval_arguments(ts_frame *f, const ts_expr *e, arguments *out) {
  out->values = base_new(f->im->arena, aten_value, e->count + 1);
  out->keywords = e->keywords ? base_new(f->im->arena, aten_keyword, e->count + 1) : NULL;
  out->count = out->keyword_count = 0;
  if (!out->values || (e->keywords && !out->keywords)) no_memory(f->im);
  for (uint32_t i = 1; i < e->count && ts_ok(f->im); i++) {
    aten_value v = ts_eval(f, e->items[i]);
    if (e->keywords && e->keywords[i].length) out->keywords[out->keyword_count++] = (aten_keyword){e->keywords[i], v};
    else out->values[out->count++] = v;
  }
  return ts_ok(f->im) && !f->im->raised;
}

/* ---- operators --------------------------------------------------------------------------------------------------- */

static aten_value undefined(void) { return (aten_value){.kind = ATEN_UNDEFINED}; }

/* Is it there? Of what may be None. */
static aten_value is_there(ts_frame *f, const aten_value *v) {
  if (!ts_is_maybe(f->im, v)) return aten_bool(v->kind != ATEN_NONE);
  return ts_with_facts(f->im, v->u.object->slots[TS_MAYBE_HAS]);
}

static aten_value is_different(ts_frame *f, const arguments *a) {
  const aten_value *x = &a->values[0], *y = &a->values[1];
  if (x->kind == ATEN_UNDEFINED || y->kind == ATEN_UNDEFINED) return undefined();
  if (y->kind == ATEN_NONE) return is_there(f, x);
  if (x->kind == ATEN_NONE) return is_there(f, y);
  return aten_bool(!aten_same(x, y));
}

static aten_value op_is_not(ts_frame *f, ts_place place, const arguments *a) {
  (void)place;
  return is_different(f, a);
}

static aten_value op_is(ts_frame *f, ts_place place, const arguments *a) {
  (void)place;
  aten_value differs = is_different(f, a);
  return differs.kind == ATEN_BOOL ? aten_call(f->im->a, "aten::__not__", NULL, &differs, 1, NULL, 0) : differs;
}

static aten_value op_device(ts_frame *f, ts_place place, const arguments *a) {
  if (a->count && a->values[0].kind == ATEN_STR)
    return (aten_value){.kind = ATEN_DEVICE, .u.text = a->values[0].u.text};
  ts_fail(f, place, TD_UNSUPPORTED, "torch.device of what is no text");
  return ATEN_NOTHING;
}

static aten_value op_wait(ts_frame *f, ts_place place, const arguments *a) { return ts_wait(f, place, &a->values[0]); }

/* "ValueError" of "builtins.ValueError". */
static base_str last_part(base_str path) {
  size_t dot = path.length;
  while (dot > 0 && path.at[dot - 1] != '.') dot--;
  return (base_str){path.at + dot, path.length - dot};
}

/* The program ends here: outright, or where the region that is built is taken. */
static aten_value op_raise(ts_frame *f, ts_place place, const arguments *a) {
  base_str text = a->count && a->values[0].kind == ATEN_STR && aten_is_known(&a->values[0]) ? aten_str_of(&a->values[0])
                                                                                            : BASE_STR("an exception");
  base_str kind =
      a->count > 1 && a->values[1].kind == ATEN_STR ? last_part(aten_str_of(&a->values[1])) : (base_str){"", 0};
  const char *message =
      base_arena_format(f->im->arena, "%.*s%s%.*s", (int)kind.length, kind.at, kind.length ? ": " : "",
                        (int)(text.length < 400 ? text.length : 400), text.at);
  if (!message) no_memory(f->im);
  if (f->im->regions > 0)
    aten_call(f->im->a, "prim::RaiseException", NULL, a->values, a->count, a->keywords, a->keyword_count);
  ts_raise(f, place, message);
  return undefined();
}

/* Operators on what only this room knows. `operands`: at least so many arguments; `objects`: only where one of the
 * first two is an object or None. */
static const struct {
  const char *name;
  uint32_t operands;
  bool objects;
  aten_value (*run)(ts_frame *f, ts_place place, const arguments *a);
} own[] = {{"aten::__is__", 2, false, op_is},
           {"aten::__isnot__", 2, false, op_is_not},
           {"aten::eq", 2, true, op_is},
           {"aten::ne", 2, true, op_is_not},
           {"aten::device", 1, false, op_device},
           {"aten::wait", 1, false, op_wait},
           {"prim::RaiseException", 0, false, op_raise}};

static bool has_object(const arguments *a) {
  for (uint32_t i = 0; i < a->count && i < 2; i++)
    if (a->values[i].kind == ATEN_OBJECT || a->values[i].kind == ATEN_NONE) return true;
  return false;
}

static aten_value run_operator(ts_frame *f, ts_place place, const char *name, const arguments *a) {
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (strcmp(own[i].name, name) == 0 && a->count >= own[i].operands && (!own[i].objects || has_object(a)))
      return own[i].run(f, place, a);
  return aten_call(f->im->a, name, NULL, a->values, a->count, a->keywords, a->keyword_count);
}

static bool is_own(const char *name) {
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (strcmp(own[i].name, name) == 0) return true;
  return false;
}

static bool is_undefined(const aten_value *v) {
  if (v->kind != ATEN_LIST || !aten_is_known(v)) return v->kind == ATEN_UNDEFINED;
  for (uint32_t i = 0; i < v->u.list->items.count; i++)
    if (v->u.list->items.at[i].kind == ATEN_UNDEFINED) return true;
  return false;
}

static bool has_undefined(const arguments *a) {
  for (uint32_t i = 0; i < a->count; i++)
    if (is_undefined(&a->values[i])) return true;
  for (uint32_t i = 0; i < a->keyword_count; i++)
    if (is_undefined(&a->keywords[i].value)) return true;
  return false;
}

/* What is not supported is noted, and the program goes on, so that all of it comes out at once. */
static aten_value call_operator(ts_frame *f, ts_place place, const char *name, const arguments *a) {
  ir_frame frame;
  if (!is_own(name) && !aten_supports(f->im->a, name, NULL)) {
    const char *where = ts_user_place(f->im->archive, f->source, place, (base_str){"", 0});
    const bool is_packed = strcmp(name, "prim::ConstantMKLDNNTensor") == 0;
    aten_note_missing(f->im->a, name, where ? where : "",
                      is_packed ? "save the model before optimize_for_inference" : NULL);
    return undefined();
  }
  if (strcmp(name, "prim::RaiseException") != 0 && has_undefined(a)) return undefined();
  for (uint32_t i = 0; i < a->count; i++)
    if (ts_is_maybe(f->im, &a->values[i]) && !strstr(name, "__is"))
      a->values[i] = a->values[i].u.object->slots[TS_MAYBE_VALUE];
  ir_build_enter(&f->im->build, &frame, ts_origin(f, place, name));
  aten_value v = run_operator(f, place, name, a);
  ir_build_leave(&f->im->build);
  return v;
}

/* "torch.X" is aten::X, "ops.NS.X" is NS::X. False: no operator. */
static bool operator_name(base_str path, char *name) {
  if (path.length >= MAX_OP_NAME) return false;
  if (base_str_starts(path, "torch.")) {
    snprintf(name, MAX_OP_NAME, "aten::%.*s", (int)path.length - 6, path.at + 6);
    return true;
  }
  if (!base_str_starts(path, "ops.")) return false;
  snprintf(name, MAX_OP_NAME, "%.*s", (int)path.length - 4, path.at + 4);
  char *dot = strchr(name, '.');
  if (!dot) return false;
  memmove(dot + 2, dot + 1, strlen(dot));
  dot[0] = dot[1] = ':';
  return true;
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

static bool bind_parameter(ts_frame *caller, ts_frame *f, ts_place place, const ts_param *p, const arguments *a,
                           uint32_t *next) {
  for (uint32_t k = 0; k < a->keyword_count; k++) {
    if (!base_str_equal(a->keywords[k].name, p->name)) continue;
    ts_set_local(f, p->name, a->keywords[k].value);
    return true;
  }
  if (*next < a->count) {
    ts_set_local(f, p->name, a->values[(*next)++]);
  } else if (p->fallback) {
    ts_set_local(f, p->name, ts_eval(f, p->fallback));
  } else {
    ts_fail(caller, place, TD_BAD_FILE, "argument %.*s is not given", (int)p->name.length, p->name.at);
  }
  return ts_ok(f->im);
}

static aten_value run_function(ts_frame *caller, ts_place place, const ts_callable *c, const arguments *a) {
  ts_import *im = caller->im;
  ts_frame f = {.im = im, .outer = c->outer, .function = c->function, .source = c->source, .loop_start = UINT32_MAX};
  f.path = c->self && c->self->path ? c->self->path : caller->path;
  uint32_t first = 0, next = 0;
  if (c->self && c->function->param_count) {
    ts_set_local(&f, c->function->params[0].name, (aten_value){.kind = ATEN_OBJECT, .u.object = &c->self->base});
    first = 1;
  }
  for (uint32_t i = first; i < c->function->param_count; i++)
    if (!bind_parameter(caller, &f, place, &c->function->params[i], a, &next)) return ATEN_NOTHING;
  if (next < a->count) {
    ts_fail(caller, place, TD_BAD_FILE, "%.*s is given %u arguments too many", (int)c->function->name.length,
            c->function->name.at, a->count - next);
    return ATEN_NOTHING;
  }
  ts_exec_block(&f, &c->function->body);
  return im->raised ? undefined() : f.result;
}

static aten_value construct(ts_frame *f, ts_place place, ts_class *class, const arguments *a) {
  if (class->kind == TS_CLASS_ENUM && a->count == 1) return ts_enum_of_value(f->im, class, &a->values[0]);
  ts_object *o = ts_new_object(f->im, class);
  if (!o) return ATEN_NOTHING;
  aten_value value = {.kind = ATEN_OBJECT, .u.object = &o->base};
  ts_function *init = ts_find_method(class, BASE_STR("__init__"));
  if (class->kind != TS_CLASS_TUPLE) {
    ts_callable c = {.function = init, .source = class->source, .class = class, .self = o};
    if (init) run_function(f, place, &c, a);
    return value;
  }
  if (a->count > o->base.slot_count) {
    ts_fail(f, place, TD_BAD_FILE, "a named tuple is given too many fields");
    return value;
  }
  for (uint32_t i = 0; i < a->count; i++) o->base.slots[i] = a->values[i];
  for (uint32_t k = 0; k < a->keyword_count; k++) {
    const uint32_t *slot = base_map_get(&class->slots, a->keywords[k].name);
    if (slot) o->base.slots[*slot] = a->keywords[k].value;
  }
  return value;
}

aten_value ts_call(ts_frame *f, ts_place place, const ts_callable *c, const aten_value *args, uint32_t count,
                   const aten_keyword *keywords, uint32_t keyword_count) {
  aten_value *values = base_new(f->im->arena, aten_value, count + 1);
  if (!values) {
    no_memory(f->im);
    return ATEN_NOTHING;
  }
  if (!ts_enter_depth(f, place)) return ATEN_NOTHING;
  if (count) memcpy(values, args, count * sizeof *values);
  arguments a = {.values = values, .count = count, .keyword_count = keyword_count};
  a.keywords = (aten_keyword *)(uintptr_t)keywords;
  aten_value v = c->op          ? call_operator(f, place, c->op, &a)
                 : !c->function ? construct(f, place, c->class, &a)
                                : run_function(f, place, c, &a);
  f->im->depth--;
  return v;
}

/* ---- dotted names ------------------------------------------------------------------------------------------------ */

static aten_value make_callable(ts_import *im, ts_callable callable) {
  ts_callable *c = base_new(im->arena, ts_callable, 1);
  if (!c) {
    no_memory(im);
    return ATEN_NOTHING;
  }
  *c = callable;
  return (aten_value){.kind = ATEN_FUNCTION, .u.function = c};
}

static aten_value constant(ts_frame *f, const ts_expr *e, base_str name) {
  int64_t index = -1;
  const fmt_objects *all = &f->im->archive->constant_tuple->u.items;
  if (name.length > 1 && name.at[0] == 'c' && base_str_int((base_str){name.at + 1, name.length - 1}, &index) &&
      index >= 0 && index < all->count)
    return ts_load_object(f->im, all->at[index], true, "");
  ts_fail(f, e->place, TD_BAD_FILE, "the archive has no constant %.*s", (int)name.length, name.at);
  return ATEN_NOTHING;
}

static aten_value user_path(ts_frame *f, const ts_expr *e, base_str path) {
  ts_import *im = f->im;
  ts_class *class = NULL;
  ts_function *function = NULL;
  ts_source *source = NULL;
  ir_build_take(&im->build, ts_find_class(im, path, &class));
  if (ts_ok(im) && class) return make_callable(im, (ts_callable){.class = class, .source = class->source});
  if (ts_ok(im)) ir_build_take(&im->build, ts_find_function(im, path, &function, &source));
  if (ts_ok(im) && function) return make_callable(im, (ts_callable){.function = function, .source = source});
  size_t dot = path.length;
  while (dot > 0 && path.at[dot - 1] != '.') dot--;
  if (ts_ok(im) && dot > 1) ir_build_take(&im->build, ts_find_class(im, (base_str){path.at, dot - 1}, &class));
  if (ts_ok(im) && class && class->kind == TS_CLASS_ENUM)
    return ts_enum_of_name(im, class, (base_str){path.at + dot, path.length - dot});
  if (ts_ok(im))
    ts_fail(f, e->place, TD_BAD_FILE, "the archive has nothing called %.*s",
            (int)(path.length < 300 ? path.length : 300), path.at);
  return ATEN_NOTHING;
}

aten_value ts_eval_path(ts_frame *f, const ts_expr *e, base_str path) {
  char name[MAX_OP_NAME + 8];
  if (!ts_ok(f->im)) return ATEN_NOTHING;
  if (base_str_starts(path, "CONSTANTS.")) return constant(f, e, (base_str){path.at + 10, path.length - 10});
  if (base_str_starts(path, "__torch__.")) return user_path(f, e, path);
  if (operator_name(path, name)) {
    const char *op = base_arena_text(f->im->arena, name);
    if (!op) no_memory(f->im);
    return make_callable(f->im, (ts_callable){.op = op});
  }
  ts_fail(f, e->place, TD_BAD_FILE, "nothing is called %.*s here", (int)(path.length < 300 ? path.length : 300),
          path.at);
  return ATEN_NOTHING;
}

/* ---- call expressions -------------------------------------------------------------------------------------------- */

static bool is_free(ts_frame *f, const ts_expr *e) {
  while (e->kind == TS_ATTRIBUTE) e = e->items[0];
  return e->kind == TS_NAME && !ts_find_local(f, e->text);
}

/* `T.__new__(T)` */
static aten_value new_instance(ts_frame *f, const ts_expr *e, base_str path) {
  ts_class *class = NULL;
  ir_build_take(&f->im->build, ts_find_class(f->im, (base_str){path.at, path.length - 8}, &class));
  if (ts_ok(f->im) && !class)
    ts_fail(f, e->place, TD_BAD_FILE, "the archive has no class %.*s", (int)(path.length - 8), path.at);
  ts_object *o = ts_ok(f->im) ? ts_new_object(f->im, class) : NULL;
  return o ? (aten_value){.kind = ATEN_OBJECT, .u.object = &o->base} : ATEN_NOTHING;
}

/* A method of what is no object: an operator with it as the first operand. */
static aten_value operator_method(ts_frame *f, const ts_expr *e, const aten_value *self, base_str method) {
  char name[MAX_OP_NAME];
  arguments a;
  if (!eval_arguments(f, e, &a)) return undefined();
  memmove(a.values + 1, a.values, a.count * sizeof *a.values); /* there is room: items[0] is the callee */
  a.values[0] = *self;
  a.count++;
  snprintf(name, sizeof name, "%s::%.*s", base_str_is(method, "tolist") ? "prim" : "aten",
           (int)(method.length < 100 ? method.length : 100), method.at);
  return call_operator(f, e->place, name, &a);
}

static aten_value call_value(ts_frame *f, const ts_expr *e, const aten_value *callee) {
  arguments a;
  if (callee->kind != ATEN_FUNCTION) {
    ts_fail(f, e->place, TD_BAD_FILE, "a %s is called, which is no function", aten_kind_name(callee));
    return ATEN_NOTHING;
  }
  if (!eval_arguments(f, e, &a)) return undefined();
  return ts_call(f, e->place, callee->u.function, a.values, a.count, a.keywords, a.keyword_count);
}

/* PyTorch takes a constant without dimensions for a number where it is the second operand of these: so it has no say in
 * their type, which it would have as a tensor. */
static void take_number(ts_frame *f, const ts_expr *e, const char *name, arguments *a) {
  static const char *const ops[] = {"add", "sub", "mul", "div"};
  const ts_expr *second = e->count > 2 ? e->items[2] : NULL;
  const aten_value *v = &a->values[1];
  const base_str called = base_str_of(name);
  bool is = false;
  if (!second || a->count < 2 || second->kind != TS_ATTRIBUTE || v->kind != ATEN_TENSOR || aten_is_complex(v)) return;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    is = is || (base_str_starts(called, "aten::") && strncmp(name + 6, ops[i], 3) == 0 &&
                (called.length == 9 || (called.length == 10 && name[9] == '_')));
  if (!is || !base_str_starts(ts_dotted(f->im, second), "CONSTANTS.")) return;
  ir_build *b = &f->im->build;
  ir_value number = aten_read(f->im->a, v);
  const td_dtype d = ts_ok(f->im) ? ir_build_type(b, number)->dtype : TD_INVALID;
  if (d != TD_INVALID && ir_build_rank(b, number) == 0)
    a->values[1] = aten_number(f->im->a, ir_build_cast(b, number,
                                                       base_is_float(d) ? TD_F64
                                                       : d == TD_BOOL   ? d
                                                                        : TD_I64));
}

static aten_value call_named(ts_frame *f, const ts_expr *e, const char *name) {
  arguments a;
  if (!eval_arguments(f, e, &a)) return undefined();
  take_number(f, e, name, &a);
  return call_operator(f, e->place, name, &a);
}

aten_value ts_eval_call(ts_frame *f, const ts_expr *e) {
  const ts_expr *callee = e->items[0];
  char name[MAX_OP_NAME + 8];
  bool found = false;
  if (callee->kind == TS_NAME && is_free(f, callee)) {
    aten_value v = ts_eval_builtin(f, e, callee->text, &found);
    if (found || !ts_ok(f->im)) return v;
  }
  if (callee->kind == TS_ATTRIBUTE && is_free(f, callee)) {
    base_str path = ts_dotted(f->im, callee);
    if (operator_name(path, name)) return call_named(f, e, name);
    if (base_str_ends(path, ".__new__")) return new_instance(f, e, path);
    aten_value v = ts_eval_path(f, callee, path);
    return ts_ok(f->im) ? call_value(f, e, &v) : v;
  }
  if (callee->kind != TS_ATTRIBUTE) {
    aten_value v = ts_eval(f, callee);
    return ts_ok(f->im) && !f->im->raised ? call_value(f, e, &v) : undefined();
  }
  aten_value self = ts_eval(f, callee->items[0]);
  if (!ts_ok(f->im) || f->im->raised || self.kind == ATEN_UNDEFINED) return undefined();
  if (self.kind != ATEN_OBJECT) return operator_method(f, e, &self, callee->text);
  aten_value method = ts_get_attribute(f, callee->place, &self, callee->text);
  return ts_ok(f->im) ? call_value(f, e, &method) : method;
}
