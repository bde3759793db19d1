/* exec.c -- statements. */
#include "import/torchscript/ts_priv.h"

static void no_memory(ts_import *im) { ir_build_take(&im->build, base_no_memory(im->err, im->source->file)); }

/* ---- assignment -------------------------------------------------------------------------------------------------- */

static void assign_parallel(ts_frame *f, const ts_stmt *s) {
  aten_value *values = base_new(f->im->arena, aten_value, s->value_count);
  if (!values) no_memory(f->im);
  for (uint32_t i = 0; i < s->value_count && ts_ok(f->im); i++) values[i] = ts_eval(f, s->values[i]);
  for (uint32_t i = 0; i < s->target_count && ts_ok(f->im); i++) ts_set_local(f, s->targets[i]->text, values[i]);
}

static aten_value part(ts_frame *f, const aten_value *v, uint32_t i) {
  if (v->kind == ATEN_OBJECT) return v->u.object->slots[i];
  if (v->kind != ATEN_LIST || !v->u.list->graph.id) return v->u.list->items.at[i];
  aten_value pair[2] = {*v, aten_int(i)};
  return aten_call(f->im->a, "aten::__getitem__", NULL, pair, 2, NULL, 0);
}

/* One value for several names: a tuple, a list, or the results of an operator. */
static void assign_unpacked(ts_frame *f, const ts_stmt *s) {
  aten_value v = ts_eval(f, s->values[0]);
  uint32_t count = 0;
  bool open = v.kind == ATEN_LIST && v.u.list->graph.id;
  if (!ts_ok(f->im)) return;
  if (v.kind == ATEN_TUPLE || v.kind == ATEN_LIST) count = v.u.list->items.count;
  else if (v.kind == ATEN_OBJECT && ts_class_of(v.u.object)->kind == TS_CLASS_TUPLE) count = v.u.object->slot_count;
  if (v.kind == ATEN_UNDEFINED) {
    for (uint32_t i = 0; i < s->target_count; i++) ts_set_local(f, s->targets[i]->text, v);
    return;
  }
  if (count != s->target_count && !open) {
    ts_fail(f, s->place, TD_UNSUPPORTED, "a %s of %u parts is unpacked into %u", aten_kind_name(&v), count,
            s->target_count);
    return;
  }
  for (uint32_t i = 0; i < s->target_count; i++) ts_set_local(f, s->targets[i]->text, part(f, &v, i));
}

static void exec_assign(ts_frame *f, const ts_stmt *s) {
  if (s->value_count == 1 && (s->unpack || s->target_count > 1)) assign_unpacked(f, s);
  else assign_parallel(f, s);
}

static void store_attribute(ts_frame *f, const ts_stmt *s, const aten_value *base, aten_value value) {
  const ts_expr *target = s->targets[0];
  if (base->kind == ATEN_UNDEFINED) return;
  const uint32_t *slot =
      base->kind == ATEN_OBJECT ? base_map_get(&ts_class_of(base->u.object)->slots, target->text) : NULL;
  if (slot) aten_object_set(f->im->a, base->u.object, *slot, value);
  else
    ts_fail(f, s->place, TD_BAD_FILE, "%.*s is no attribute that can be set", (int)target->text.length,
            target->text.at);
}

static void exec_store(ts_frame *f, const ts_stmt *s) {
  const ts_expr *target = s->targets[0];
  aten_value args[3] = {ts_eval(f, target->items[0])};
  if (!ts_ok(f->im)) return;
  if (target->kind == TS_ATTRIBUTE) {
    aten_value value = ts_eval(f, s->values[0]);
    if (ts_ok(f->im) && !f->im->raised) store_attribute(f, s, &args[0], value);
    return;
  }
  args[1] = ts_eval(f, target->items[1]);
  args[2] = ts_eval(f, s->values[0]);
  if (ts_ok(f->im)) aten_call(f->im->a, "aten::_set_item", NULL, args, 3, NULL, 0);
}

/* ---- the others -------------------------------------------------------------------------------------------------- */

static void exec_return(ts_frame *f, const ts_stmt *s) {
  if (s->value_count == 0) f->result = ATEN_NOTHING;
  if (s->value_count == 1) f->result = ts_eval(f, s->values[0]);
  if (s->value_count > 1) {
    aten_value *items = base_new(f->im->arena, aten_value, s->value_count);
    if (!items) no_memory(f->im);
    for (uint32_t i = 0; i < s->value_count && ts_ok(f->im); i++) items[i] = ts_eval(f, s->values[i]);
    if (ts_ok(f->im)) f->result = aten_tuple_of(f->im->a, items, s->value_count);
  }
  f->returned = true;
}

static aten_value call_method(ts_frame *f, const ts_stmt *s, const aten_value *self, base_str name,
                              const aten_value *args, uint32_t count) {
  aten_value method = ts_get_attribute(f, s->place, self, name);
  if (!ts_ok(f->im)) return method;
  if (method.kind == ATEN_FUNCTION) return ts_call(f, s->place, method.u.function, args, count, NULL, 0);
  ts_fail(f, s->place, TD_BAD_FILE, "%.*s is no method", (int)name.length, name.at);
  return ATEN_NOTHING;
}

static void exec_with(ts_frame *f, const ts_stmt *s) {
  aten_value self = ts_eval(f, s->values[0]), nothing[3] = {ATEN_NOTHING, ATEN_NOTHING, ATEN_NOTHING};
  if (!ts_ok(f->im)) return;
  aten_value entered = call_method(f, s, &self, BASE_STR("__enter__"), NULL, 0);
  if (s->target_count && ts_ok(f->im)) ts_set_local(f, s->targets[0]->text, entered);
  ts_exec_block(f, &s->body);
  if (ts_ok(f->im) && !f->im->raised) call_method(f, s, &self, BASE_STR("__exit__"), nothing, 3);
}

static void exec_def(ts_frame *f, const ts_stmt *s) {
  ts_callable *c = base_new(f->im->arena, ts_callable, 1);
  if (!c) {
    no_memory(f->im);
    return;
  }
  *c = (ts_callable){.function = s->function, .source = f->source, .outer = f};
  ts_set_local(f, s->function->name, (aten_value){.kind = ATEN_FUNCTION, .u.function = c});
}

static void exec_expr(ts_frame *f, const ts_stmt *s) { ts_eval(f, s->values[0]); }

static void exec_pass(ts_frame *f, const ts_stmt *s) {
  (void)f;
  (void)s;
}

static void (*const statements[])(ts_frame *f, const ts_stmt *s) = {
    [TS_ASSIGN] = exec_assign, [TS_STORE] = exec_store, [TS_EXPR] = exec_expr,  [TS_RETURN] = exec_return,
    [TS_PASS] = exec_pass,     [TS_IF] = ts_exec_if,    [TS_FOR] = ts_exec_for, [TS_WHILE] = ts_exec_while,
    [TS_WITH] = exec_with,     [TS_DEF] = exec_def};

void ts_exec_block(ts_frame *f, const ts_block *block) {
  for (uint32_t i = 0; i < block->count && ts_ok(f->im) && !f->returned && !f->im->raised; i++) {
    const ts_stmt *s = &block->at[i];
    if (!ts_enter_depth(f, s->place)) return;
    statements[s->kind](f, s);
    f->im->depth--;
  }
}
