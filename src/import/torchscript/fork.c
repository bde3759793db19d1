/* fork.c -- fork and wait. What is forked becomes the block of a prim::fork, which a task runs, and its results are the
 * leaves of what it gives. A task sees what is there when it is forked: that is one of the orders that PyTorch may
 * take. One that changes what others see (a list, an attribute, a tensor from before) is no task: it runs where it is
 * forked, which is another of these orders. */
#include "import/torchscript/ts_priv.h"

static aten_value undefined(void) { return (aten_value){.kind = ATEN_UNDEFINED}; }
static void no_memory(ts_import *im) { ir_build_take(&im->build, base_no_memory(im->err, im->source->file)); }

void ts_raise(ts_frame *f, ts_place place, const char *message) {
  if (f->im->regions == 0) ts_fail(f, place, TD_BAD_ARGUMENT, "the model raises: %s", message ? message : "");
  f->im->raise_text = message;
  f->im->raised = true;
}

/* ---- promises ---------------------------------------------------------------------------------------------------- */

static const ts_promise *promise_of(const aten_promise *p) { return (const ts_promise *)(const void *)p; }

static bool meet(const aten_promise *x, const aten_promise *y) {
  const ts_promise *p = promise_of(x), *q = promise_of(y);
  return !p->raises && !q->raises && ts_shape_meet(p->im, p->shape, q->shape);
}

static aten_object *new_mark(ts_import *im) {
  aten_object *o = base_new(im->arena, aten_object, 1);
  aten_value *slot = base_new(im->arena, aten_value, 1);
  if (!o || !slot) {
    no_memory(im);
    return NULL;
  }
  *slot = aten_bool(false);
  *o = (aten_object){.type = im->maybe, .slots = slot, .slot_count = 1, .born = aten_stamp(im->a)};
  return o;
}

/* ---- fork -------------------------------------------------------------------------------------------------------- */

typedef struct task {
  ir_block block;
  ts_promise *promise;
  ir_value *leaves;
  uint32_t count;
  bool shows; /* it changes what others see, or gives what cannot go through a future */
} task;

static bool changes_older(ts_import *im, aten_mark mark) {
  aten_place *places = NULL;
  const uint32_t count = aten_changed(im->a, mark, &places);
  for (uint32_t i = 0; i < count; i++)
    if (aten_place_older(im->a, &places[i], mark)) return true;
  return false;
}

/* What the task gives, as results of its block. */
static void give(ts_import *im, task *t, const aten_value *v, aten_mark mark) {
  const char *why = NULL;
  t->promise->shape = ts_shape_given(im, v, mark, &why);
  t->shows |= !t->promise->shape;
  if (t->shows || !ts_ok(im)) return;
  t->count = ts_shape_leaves(t->promise->shape);
  t->leaves = ir_build_alloc(&im->build, (t->count + (size_t)1) * sizeof *t->leaves);
  if (t->leaves) ts_flatten(im, t->promise->shape, v, t->leaves);
  if (t->count == 0 && ts_ok(im)) t->leaves[0] = ir_build_scalar(&im->build, TD_BOOL, 0); /* that it has ended */
  if (ts_shape_can_change(t->promise->shape)) t->promise->waited = new_mark(im);
}

static void build_task(ts_frame *f, ts_place place, const ts_callable *callee, task *t, aten_mark mark) {
  ts_import *im = f->im;
  const ir_block outer = im->build.block;
  const uint32_t facts = im->facts.count;
  t->block = ir_build_block(&im->build);
  im->build.block = t->block;
  im->regions++;
  aten_value v = ts_call(f, place, callee, NULL, 0, NULL, 0);
  t->shows = ts_ok(im) && changes_older(im, mark);
  if (im->raised) {
    t->promise->raises = im->raise_text ? im->raise_text : "an exception";
    v = ATEN_NOTHING;
  }
  im->raised = false;
  if (ts_ok(im)) give(im, t, &v, mark);
  for (uint32_t i = 0; ts_ok(im) && !t->shows && i < (t->count ? t->count : 1); i++)
    ir_build_result(&im->build, t->block, t->leaves[i]);
  im->regions--;
  im->facts.count = facts;
  im->build.block = outer;
}

static aten_value emit_fork(ts_import *im, const task *t) {
  ir_build *b = &im->build;
  const uint32_t count = t->count ? t->count : 1;
  ir_type *elems = ir_build_alloc(b, count * sizeof *elems), *whole = ir_build_alloc(b, sizeof *whole);
  ir_value out = IR_NO_VALUE;
  if (!elems || !whole) return undefined();
  for (uint32_t i = 0; i < count; i++) elems[i] = *ir_build_type(b, t->leaves[i]);
  *whole = count == 1 ? elems[0] : (ir_type){.kind = IR_TUPLE, .elem = elems, .count = count};
  const ir_type type = {.kind = IR_FUTURE, .elem = whole};
  ir_build_region(b, "prim::fork", (ir_new_node){.out_types = &type, .out_count = 1}, &t->block, 1, &out);
  return (aten_value){.kind = ATEN_FUTURE, .graph = out, .u.promise = &t->promise->base};
}

aten_value ts_fork(ts_frame *f, ts_place place, const ts_callable *callee) {
  ts_import *im = f->im;
  if (!callee->function || callee->function->runs_inline) return ts_call(f, place, callee, NULL, 0, NULL, 0);
  task t = {.promise = base_new(im->arena, ts_promise, 1)};
  ir_frame frame;
  if (!t.promise) {
    no_memory(im);
    return undefined();
  }
  *t.promise = (ts_promise){.base = {meet}, .im = im};
  aten_mark mark = aten_mark_now(im->a);
  ir_build_enter(&im->build, &frame, ts_origin(f, place, "fork"));
  build_task(f, place, callee, &t, mark);
  aten_value future = ts_ok(im) && !t.shows ? emit_fork(im, &t) : undefined();
  ir_build_leave(&im->build);
  if (!t.shows) {
    aten_commit(im->a, mark);
    return future;
  }
  aten_rollback(im->a, mark);
  ir_build_discard(&im->build, t.block);
  callee->function->runs_inline = true;
  return ts_call(f, place, callee, NULL, 0, NULL, 0);
}

/* ---- wait -------------------------------------------------------------------------------------------------------- */

/* What can be changed is one thing for all who wait; a future gives a new one each time. */
static void note_wait(ts_frame *f, ts_place place, const ts_promise *p) {
  if (!p->waited) return;
  const aten_value *was = &p->waited->slots[0];
  if (!aten_is_known(was) || was->u.b)
    ts_fail(f, place, TD_UNSUPPORTED,
            "a task gives a list, dictionary or object, and is waited for more than once: keep what wait gives");
  aten_object_set(f->im->a, p->waited, 0, aten_bool(true));
}

static aten_value take(ts_import *im, const ts_promise *p, ir_value given) {
  ir_build *b = &im->build;
  const uint32_t count = ts_shape_leaves(p->shape);
  ir_value *leaves = ir_build_alloc(b, (count + (size_t)1) * sizeof *leaves);
  for (uint32_t i = 0; i < count && ts_ok(im); i++)
    leaves[i] = count == 1 ? given : IR_EMIT_ARGS(b, "td::tuple_at", &given, 1, ARG_INT("index", i));
  return ts_ok(im) ? ts_unflatten(im, p->shape, leaves) : undefined();
}

aten_value ts_wait(ts_frame *f, ts_place place, const aten_value *v) {
  ts_import *im = f->im;
  if (v->kind != ATEN_FUTURE) return *v; /* it ran where it was forked */
  const ts_promise *p = promise_of(v->u.promise);
  ir_value given = IR_EMIT(&im->build, "prim::wait", v->graph);
  if (p->raises) {
    ts_raise(f, place, p->raises);
    return undefined();
  }
  if (ts_ok(im)) ts_shape_check(im, p->shape);
  if (ts_ok(im)) note_wait(f, place, p);
  return ts_ok(im) ? take(im, p, given) : undefined();
}
