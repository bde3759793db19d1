/* loop.c -- `for` and `while`. Turns whose number is known, and is small, are run one after the other. Else the body
 * becomes a prim::Loop: it is run on trial until it is known what an iteration changes and which of that differs from
 * one to the next, and then built with these values carried. */
#include "import/torchscript/ts_priv.h"

enum { MAX_UNROLLED = 64, MAX_TRIALS = 16 };

typedef BASE_VEC(base_str) name_vec;

typedef struct loop {
  ts_frame *f;
  const ts_stmt *s;
  base_str index;       /* of a `for`: its variable; length 0: a `while` */
  uint32_t outer_start; /* f->loop_start before */
  aten_mark start;      /* before all trials: what is younger is reached through the cargo alone */
  aten_value *before;   /* of the locals */
  uint32_t before_count;
  BASE_VEC(ts_cargo) cargo;
  ir_type *types; /* of the leaves, on trial */
  uint32_t leaves;
} loop;

static void no_memory(ts_import *im) { ir_build_take(&im->build, base_no_memory(im->err, im->source->file)); }

static void *room(ts_import *im, size_t count, size_t each) {
  void *p = base_arena_array(im->arena, count + 1, each);
  if (!p) no_memory(im);
  return p;
}

/* ---- what a body assigns ----------------------------------------------------------------------------------------- */

static void add_name(ts_import *im, name_vec *names, base_str name) {
  for (uint32_t i = 0; i < names->count; i++)
    if (base_str_equal(names->at[i], name)) return;
  base_str *slot = base_vec_push(im->arena, names);
  if (slot) *slot = name;
  else no_memory(im);
}

static void assigned(ts_import *im, const ts_block *block, name_vec *names) {
  for (uint32_t i = 0; i < block->count; i++) {
    const ts_stmt *s = &block->at[i];
    for (uint32_t j = 0; j < s->target_count && s->kind != TS_STORE; j++) add_name(im, names, s->targets[j]->text);
    assigned(im, &s->body, names);
    assigned(im, &s->other, names);
  }
}

static void save_locals(loop *l) {
  ts_frame *f = l->f;
  l->before_count = f->locals.count;
  l->before = room(f->im, l->before_count, sizeof *l->before);
  if (!l->before) l->before_count = 0; /* out of memory */
  for (uint32_t i = 0; l->before && i < l->before_count; i++)
    l->before[i] = f->locals.at[i].set ? f->locals.at[i].value : (aten_value){.kind = ATEN_UNDEFINED};
}

static void restore_locals(loop *l) {
  for (uint32_t i = 0; i < l->f->locals.count; i++) {
    ts_local *local = &l->f->locals.at[i];
    local->set = i < l->before_count && l->before[i].kind != ATEN_UNDEFINED;
    if (local->set) local->value = l->before[i];
  }
}

static ts_shape *same_shape(ts_import *im, const aten_value *v) {
  const char *why;
  return ts_shape_join(im, v, v, &why);
}

/* Locals that are there before the loop and that an iteration assigns. */
static void first_cargo(loop *l) {
  ts_import *im = l->f->im;
  name_vec names = {0};
  assigned(im, &l->s->body, &names);
  for (uint32_t i = 0; i < names.count && ts_ok(im); i++) {
    const uint32_t *index = base_map_get(&l->f->names, names.at[i]);
    if (!index || !l->f->locals.at[*index].set) continue;
    ts_cargo *c = base_vec_push(im->arena, &l->cargo);
    if (!c) {
      no_memory(im);
      return;
    }
    c->index = *index;
    c->before = l->f->locals.at[*index].value;
    c->shape = same_shape(im, &c->before);
  }
}

/* ---- an iteration ------------------------------------------------------------------------------------------------ */

/* Puts what the leaves say into locals and places. */
static void enter_turn(loop *l, const ir_value *leaves) {
  ts_import *im = l->f->im;
  for (uint32_t i = 0; i < l->cargo.count && ts_ok(im); i++) {
    const ts_cargo *c = &l->cargo.at[i];
    aten_value v = c->shape ? ts_unflatten(im, c->shape, leaves) : (aten_value){.kind = ATEN_UNDEFINED};
    if (c->shape) leaves += ts_shape_leaves(c->shape);
    if (c->is_place) {
      if (c->shape) aten_place_set(im->a, &c->place, &v);
      else aten_place_break(im->a, &c->place, c->why);
      continue;
    }
    ts_local *local = &l->f->locals.at[c->index];
    local->value = v;
    local->set = c->shape != NULL;
    local->spoiled = c->why;
  }
}

/* Runs the body once, in b->block. Gives whether to go on. */
static aten_value run_turn(loop *l, ir_value iteration) {
  ts_import *im = l->f->im;
  ts_frame *f = l->f;
  aten_value go_on = aten_bool(true);
  uint32_t facts = im->facts.count;
  l->outer_start = f->loop_start;
  if (l->s->place.offset < f->loop_start) f->loop_start = l->s->place.offset;
  im->regions++;
  if (l->index.length) ts_set_local(f, l->index, aten_number(im->a, iteration));
  ts_exec_block(f, &l->s->body);
  if (f->returned) ts_fail(f, l->s->place, TD_UNSUPPORTED, "a loop's body returns from the function");
  if (!l->index.length && ts_ok(im) && !im->raised) go_on = ts_eval(f, l->s->values[0]);
  if (ts_ok(im) && go_on.kind != ATEN_UNDEFINED) go_on = ts_truth(im, go_on);
  im->regions--;
  f->loop_start = l->outer_start;
  im->facts.count = facts;
  if (im->raised || go_on.kind == ATEN_UNDEFINED) go_on = aten_bool(false);
  return go_on;
}

static aten_value value_now(loop *l, const ts_cargo *c) {
  if (c->is_place) return aten_place_get(l->f->im->a, &c->place);
  const ts_local *local = &l->f->locals.at[c->index];
  return local->set ? local->value : (aten_value){.kind = ATEN_UNDEFINED};
}

/* ---- trials ------------------------------------------------------------------------------------------------------ */

static ts_cargo *known_place(const loop *l, const aten_place *p) {
  for (uint32_t i = 0; i < l->cargo.count; i++) {
    ts_cargo *c = &l->cargo.at[i];
    if (c->is_place && c->place.at == p->at && c->place.slot == p->slot && c->place.kind == p->kind) return c;
  }
  return NULL;
}

/* Places from before the loop that the iteration changed, or that may share memory with what it wrote; they join the
 * cargo, the latter without a shape. True: it did not know. */
static bool new_places(loop *l, aten_mark mark) {
  ts_import *im = l->f->im;
  aten_place *places = NULL;
  uint32_t count = aten_changed(im->a, mark, &places);
  bool found = false;
  for (uint32_t i = 0; i < count && ts_ok(im); i++) {
    if (!aten_place_older(im->a, &places[i], l->start)) continue;
    const char *broken = aten_place_broken(&places[i]);
    ts_cargo *c = known_place(l, &places[i]);
    if (c && (c->why || !broken)) continue;
    if (!c) c = base_vec_push(im->arena, &l->cargo);
    if (!c) {
      no_memory(im);
      break;
    }
    *c = (ts_cargo){.is_place = true, .place = places[i], .why = broken};
    found = true;
  }
  return found;
}

/* Types of the leaves for the next trial: what the values before the loop and after an iteration both say. */
static void note_types(loop *l, const aten_value *after, ir_block trial, ir_block outer) {
  ts_import *im = l->f->im;
  ir_build *b = &im->build;
  l->leaves = 0;
  for (uint32_t i = 0; i < l->cargo.count; i++)
    if (l->cargo.at[i].shape) l->leaves += ts_shape_leaves(l->cargo.at[i].shape);
  l->types = room(im, l->leaves, sizeof *l->types);
  ir_value *first = room(im, l->leaves, sizeof *first), *then = room(im, l->leaves, sizeof *then);
  for (uint32_t i = 0, at = 0; i < l->cargo.count && ts_ok(im); i++) {
    const ts_cargo *c = &l->cargo.at[i];
    if (!c->shape) continue;
    b->block = outer;
    ts_flatten(im, c->shape, &c->before, first + at);
    b->block = trial;
    ts_flatten(im, c->shape, &after[i], then + at);
    at += ts_shape_leaves(c->shape);
  }
  b->block = outer;
  for (uint32_t i = 0; i < l->leaves && ts_ok(im); i++) {
    ir_type x = *ir_build_type(b, first[i]), y = *ir_build_type(b, then[i]);
    l->types[i] = first[i].id == 0 ? y : then[i].id == 0 ? x : ir_build_join(b, &x, &y);
  }
}

static void widen(loop *l, ts_cargo *c, const aten_value *after, bool *changed) {
  ts_import *im = l->f->im;
  if (!c->shape) return;
  c->shape = ts_shape_widen(im, c->shape, after, changed, &c->why);
  if (c->shape || !ts_ok(im)) return;
  *changed = true;
  if (c->is_place) ts_fail(l->f, l->s->place, TD_UNSUPPORTED, "what a loop changes: %s", c->why);
}

/* Runs the body once on trial. *changed: it must be run again, with what is known now. */
static void trial(loop *l, bool *changed) {
  ts_import *im = l->f->im;
  ir_build *b = &im->build;
  ir_block outer = b->block, block = ir_build_block(b);
  ir_type number = ir_tensor(TD_I64, 0, NULL);
  aten_mark mark = aten_mark_now(im->a);
  ir_value *params = room(im, l->leaves, sizeof *params), iteration = ir_build_param(b, block, &number);
  for (uint32_t i = 0; i < l->leaves && ts_ok(im); i++) params[i] = ir_build_param(b, block, &l->types[i]);
  b->block = block;
  if (ts_ok(im)) enter_turn(l, params);
  aten_mark entry = aten_mark_now(im->a);
  if (ts_ok(im)) run_turn(l, iteration);
  im->raised = false;
  bool more = ts_ok(im) && new_places(l, entry);
  aten_value *after = room(im, l->cargo.count, sizeof *after);
  for (uint32_t i = 0; i < l->cargo.count && ts_ok(im); i++) {
    const bool gone = l->cargo.at[i].is_place && l->cargo.at[i].why;
    aten_value v = gone ? (aten_value){.kind = ATEN_UNDEFINED} : value_now(l, &l->cargo.at[i]);
    after[i] = ts_freeze(im, &v, l->cargo.at[i].is_place ? NULL : &l->cargo.at[i].before);
  }
  b->block = outer;
  aten_rollback(im->a, entry);
  aten_rollback(im->a, mark);
  restore_locals(l);
  for (uint32_t i = 0; i < l->cargo.count && more && ts_ok(im); i++) {
    ts_cargo *c = &l->cargo.at[i];
    if (!c->is_place || c->shape || c->why) continue;
    c->before = aten_place_get(im->a, &c->place);
    c->before = ts_freeze(im, &c->before, NULL);
    c->shape = same_shape(im, &c->before);
  }
  *changed = more;
  for (uint32_t i = 0; i < l->cargo.count && ts_ok(im); i++) widen(l, &l->cargo.at[i], &after[i], changed);
  if (ts_ok(im) && *changed) note_types(l, after, block, outer);
  if (block.id) ir_build_discard(b, block);
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static void build_turn(ir_build *b, ir_build_loop *run, ir_value iteration, const ir_value *carried,
                       ir_value *results) {
  loop *l = run->user;
  ts_import *im = l->f->im;
  aten_mark mark = aten_mark_now(im->a);
  (void)b;
  enter_turn(l, carried);
  aten_value go_on = run_turn(l, iteration);
  im->raised = false;
  results[0] = IR_NO_VALUE;
  if (ts_ok(im) && (!aten_is_known(&go_on) || !go_on.u.b)) results[0] = aten_graph_value(im->a, &go_on);
  for (uint32_t i = 0, at = 1; i < l->cargo.count && ts_ok(im); i++) {
    const ts_cargo *c = &l->cargo.at[i];
    aten_value v = value_now(l, c);
    if (!c->shape) continue;
    ts_flatten(im, c->shape, &v, results + at);
    for (uint32_t k = ts_shape_leaves(c->shape); k > 0; k--, at++)
      if (results[at].id == 0) results[at] = carried[at - 1];
  }
  aten_rollback(im->a, mark);
  restore_locals(l);
}

static void build_loop(loop *l, ir_value trips, ir_value cond) {
  ts_import *im = l->f->im;
  ir_value *initial = room(im, l->leaves, sizeof *initial);
  for (uint32_t i = 0, at = 0; i < l->cargo.count && ts_ok(im); i++) {
    const ts_cargo *c = &l->cargo.at[i];
    if (!c->shape) continue;
    ts_flatten(im, c->shape, &c->before, initial + at);
    at += ts_shape_leaves(c->shape);
  }
  for (uint32_t i = 0; i < l->leaves && ts_ok(im); i++)
    if (initial[i].id == 0) initial[i] = ts_something(im, &l->types[i]);
  ir_build_loop run = {.body = build_turn, .user = l, .trips = trips, .cond = cond, .initial = initial};
  run.carried = l->leaves;
  if (ts_ok(im)) ir_build_run_loop(&im->build, &run);
  if (ts_ok(im)) enter_turn(l, run.outs);
}

static void exec_region(ts_frame *f, const ts_stmt *s, base_str index, const aten_value *trips,
                        const aten_value *cond) {
  ts_import *im = f->im;
  loop l = {.f = f, .s = s, .index = index, .start = {.number = aten_stamp(im->a) + 1}}; /* as the first mark's */
  ir_frame frame;
  bool changed = true;
  ir_build_enter(&im->build, &frame, ts_origin(f, s->place, "loop"));
  save_locals(&l);
  first_cargo(&l);
  for (int i = 0; changed && ts_ok(im); i++) {
    if (i == MAX_TRIALS)
      ts_fail(f, s->place, TD_UNSUPPORTED, "what the loop carries is of another kind after each of %d trial iterations",
              MAX_TRIALS);
    trial(&l, &changed);
  }
  ir_value t = trips && ts_ok(im) ? aten_graph_value(im->a, trips) : IR_NO_VALUE;
  ir_value c = cond && ts_ok(im) ? aten_graph_value(im->a, cond) : IR_NO_VALUE;
  if (ts_ok(im)) build_loop(&l, t, c);
  ir_build_leave(&im->build);
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

static bool stopped(const ts_frame *f) { return !ts_ok(f->im) || f->returned || f->im->raised; }

static void unroll(ts_frame *f, const ts_stmt *s, int64_t count) {
  for (int64_t i = 0; i < count && !stopped(f); i++) {
    ts_set_local(f, s->targets[0]->text, aten_int(i));
    ts_exec_block(f, &s->body);
  }
}

/* The writer prints `for i in range(n)` alone. */
void ts_exec_for(ts_frame *f, const ts_stmt *s) {
  const ts_expr *e = s->values[0];
  bool is_range =
      e->kind == TS_CALL && e->count == 2 && e->items[0]->kind == TS_NAME && base_str_is(e->items[0]->text, "range");
  if (!is_range) {
    ts_fail(f, s->place, TD_UNSUPPORTED, "a loop runs over something else than range(n)");
    return;
  }
  aten_value count = ts_eval(f, e->items[1]);
  if (stopped(f)) return;
  if (count.kind == ATEN_UNDEFINED) aten_report_missing(f->im->a); /* perhaps why */
  if (count.kind != ATEN_INT) {
    ts_fail(f, s->place, TD_BAD_FILE, "range is given a %s", aten_kind_name(&count));
  } else if (aten_is_known(&count) && count.u.i <= MAX_UNROLLED) {
    unroll(f, s, count.u.i);
  } else {
    exec_region(f, s, s->targets[0]->text, &count, NULL);
  }
}

void ts_exec_while(ts_frame *f, const ts_stmt *s) {
  for (int64_t iterations = 0;; iterations++) {
    aten_value cond = ts_eval(f, s->values[0]);
    if (stopped(f)) return;
    cond = ts_truth(f->im, cond);
    if (stopped(f) || (aten_is_known(&cond) && !cond.u.b)) return;
    if (!aten_is_known(&cond) || iterations == MAX_UNROLLED) {
      exec_region(f, s, (base_str){"", 0}, NULL, &cond);
      return;
    }
    ts_exec_block(f, &s->body);
  }
}
