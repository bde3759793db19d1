/* branch.c -- `if`. A known condition runs one branch. Else both are built, each into a block of a prim::If, and what
 * either of them changed (locals that are read later, lists, attributes, contents of tensors) becomes its results. */
#include <string.h>

#include "import/torchscript/ts_priv.h"

/* A branch, built. */
typedef struct way {
  ir_block block;
  bool raised;
  aten_value *locals; /* frozen, by position in the frame; of UNDEFINED: not set */
  uint32_t local_count;
  aten_place *places;
  aten_value *place_values; /* frozen; of UNDEFINED: cannot be read any more, says `broken` */
  const char **broken;
  uint32_t place_count;
} way;

typedef struct merge {
  ts_frame *f;
  const ts_stmt *s;
  aten_value cond;
  aten_value *before; /* of the locals */
  uint32_t before_count;
  aten_mark start; /* before both */
  way ways[2];
  BASE_VEC(ts_cargo) cargo;
} merge;

static void no_memory(ts_import *im) { ir_build_take(&im->build, base_no_memory(im->err, im->source->file)); }

static void *room(ts_import *im, size_t count, size_t each) {
  void *p = base_arena_array(im->arena, count + 1, each);
  if (!p) no_memory(im);
  return p;
}

/* ---- facts ------------------------------------------------------------------------------------------------------- */

void ts_note_fact(ts_import *im, ir_value value, bool holds) {
  for (bool negated = true; value.id && ts_ok(im) && negated; holds = !holds) {
    ts_fact *fact = base_vec_push(im->arena, &im->facts);
    if (!fact) {
      no_memory(im);
      return;
    }
    *fact = (ts_fact){value.id, holds};
    const ir_node node = ir_value_of(im->graph, value)->node;
    const ir_node_def *def = node.id ? ir_node_of(im->graph, node) : NULL;
    negated = def && def->op && strcmp(def->op->name, "aten::logical_not") == 0;
    if (negated) value = def->in[0];
  }
}

aten_value ts_with_facts(const ts_import *im, aten_value flag) {
  for (uint32_t i = im->facts.count; flag.kind == ATEN_BOOL && flag.graph.id && i > 0; i--)
    if (im->facts.at[i - 1].value == flag.graph.id) return aten_bool(im->facts.at[i - 1].holds);
  return flag;
}

/* ---- one branch -------------------------------------------------------------------------------------------------- */

static uint32_t end_of(const ts_block *block, uint32_t from) {
  for (uint32_t i = 0; i < block->count; i++) {
    const ts_stmt *s = &block->at[i];
    if (s->place.offset > from) from = s->place.offset;
    for (uint32_t j = 0; j < s->value_count; j++)
      if (s->values[j]->place.offset > from) from = s->values[j]->place.offset;
    from = end_of(&s->other, end_of(&s->body, from));
  }
  return from;
}

static void restore_locals(merge *m) {
  for (uint32_t i = 0; i < m->f->locals.count; i++) {
    ts_local *l = &m->f->locals.at[i];
    l->set = i < m->before_count && m->before[i].kind != ATEN_UNDEFINED;
    if (l->set) l->value = m->before[i];
  }
}

static void save_locals(merge *m) {
  m->before_count = m->f->locals.count;
  m->before = room(m->f->im, m->before_count, sizeof *m->before);
  if (!m->before) m->before_count = 0; /* out of memory */
  for (uint32_t i = 0; m->before && i < m->before_count; i++) {
    const ts_local *l = &m->f->locals.at[i];
    m->before[i] = l->set ? l->value : (aten_value){.kind = ATEN_UNDEFINED};
  }
}

/* What the branch leaves, before it is rolled back. */
static void take_results(merge *m, way *w, aten_mark mark) {
  ts_import *im = m->f->im;
  w->local_count = m->f->locals.count;
  w->locals = room(im, w->local_count, sizeof *w->locals);
  w->place_count = w->raised ? 0 : aten_changed(im->a, mark, &w->places);
  w->place_values = room(im, w->place_count, sizeof *w->place_values);
  w->broken = room(im, w->place_count, sizeof *w->broken);
  if (!ts_ok(im)) return;
  uint32_t kept = 0, end = end_of(&m->s->other, end_of(&m->s->body, m->s->place.offset));
  for (uint32_t i = 0; i < w->local_count; i++) {
    const ts_local *l = &m->f->locals.at[i];
    bool live = l->set && !w->raised && ts_is_live(m->f, l->name, end + 1);
    w->locals[i] = live ? ts_freeze(im, &l->value, i < m->before_count ? &m->before[i] : NULL)
                        : (aten_value){.kind = ATEN_UNDEFINED};
  }
  for (uint32_t i = 0; i < w->place_count; i++) {
    if (!aten_place_older(im->a, &w->places[i], m->start)) continue;
    w->places[kept] = w->places[i];
    w->broken[kept] = aten_place_broken(&w->places[i]);
    aten_value v = w->broken[kept] ? (aten_value){.kind = ATEN_UNDEFINED} : aten_place_get(im->a, &w->places[i]);
    w->place_values[kept++] = ts_freeze(im, &v, NULL);
  }
  w->place_count = kept;
}

static void build_way(merge *m, uint32_t which, const ts_block *body) {
  ts_import *im = m->f->im;
  way *w = &m->ways[which];
  uint32_t facts = im->facts.count;
  ts_note_fact(im, m->cond.graph, which == 0);
  ir_block outer = im->build.block;
  aten_mark mark = aten_mark_now(im->a);
  w->block = ir_build_block(&im->build);
  im->build.block = w->block;
  im->regions++;
  ts_exec_block(m->f, body);
  if (m->f->returned) ts_fail(m->f, m->s->place, TD_UNSUPPORTED, "a branch returns from the function");
  w->raised = im->raised;
  take_results(m, w, mark);
  im->raised = false;
  im->regions--;
  im->build.block = outer;
  im->facts.count = facts;
  aten_rollback(im->a, mark);
  restore_locals(m);
}

/* ---- what both leave --------------------------------------------------------------------------------------------- */

static const aten_value never = {.kind = ATEN_UNDEFINED};

static const aten_value *local_of(const merge *m, uint32_t which, uint32_t index) {
  const way *w = &m->ways[which];
  return index < w->local_count ? &w->locals[index] : &never;
}

/* Position of the place among those that the branch changed; place_count: it did not. */
static uint32_t find_place(const way *w, const aten_place *p) {
  uint32_t i = 0;
  while (i < w->place_count &&
         (w->places[i].at != p->at || w->places[i].slot != p->slot || w->places[i].kind != p->kind))
    i++;
  return i;
}

static const aten_value *place_of(const merge *m, uint32_t which, const ts_cargo *c) {
  const way *w = &m->ways[which];
  if (w->raised) return &never;
  const uint32_t i = find_place(w, &c->place);
  return i < w->place_count ? &w->place_values[i] : &c->before;
}

/* Why the place cannot be read behind the region; NULL: it can. */
static const char *broken_by(const merge *m, const ts_cargo *c) {
  const char *why = NULL;
  for (uint32_t which = 0; which < 2 && !why; which++) {
    const way *w = &m->ways[which];
    const uint32_t i = find_place(w, &c->place);
    if (i < w->place_count) why = w->broken[i];
  }
  return why;
}

static const aten_value *value_of(const merge *m, uint32_t which, const ts_cargo *c) {
  return c->is_place ? place_of(m, which, c) : local_of(m, which, c->index);
}

static ts_cargo *add_cargo(merge *m) {
  ts_cargo *c = base_vec_push(m->f->im->arena, &m->cargo);
  if (!c) no_memory(m->f->im);
  return c;
}

static void add_places(merge *m, const way *w) {
  for (uint32_t i = 0; i < w->place_count && ts_ok(m->f->im); i++) {
    bool known = false;
    for (uint32_t j = 0; j < m->cargo.count && !known; j++)
      known = m->cargo.at[j].is_place && m->cargo.at[j].place.at == w->places[i].at &&
              m->cargo.at[j].place.slot == w->places[i].slot && m->cargo.at[j].place.kind == w->places[i].kind;
    ts_cargo *c = known ? NULL : add_cargo(m);
    if (!c) continue;
    c->is_place = true;
    c->place = w->places[i];
    c->before = aten_place_get(m->f->im->a, &c->place);
    c->before = ts_freeze(m->f->im, &c->before, NULL);
  }
}

static void collect_cargo(merge *m) {
  ts_import *im = m->f->im;
  for (uint32_t i = 0; i < m->f->locals.count && ts_ok(im); i++) {
    const aten_value *x = local_of(m, 0, i), *y = local_of(m, 1, i);
    if (x->kind == ATEN_UNDEFINED && y->kind == ATEN_UNDEFINED) continue;
    ts_cargo *c = add_cargo(m);
    if (c) c->index = i;
  }
  for (uint32_t i = 0; i < 2 && ts_ok(im); i++) add_places(m, &m->ways[i]);
  for (uint32_t i = 0; i < m->cargo.count && ts_ok(im); i++) {
    ts_cargo *c = &m->cargo.at[i];
    if (c->is_place && (c->why = broken_by(m, c)) != NULL) continue;
    c->shape = ts_shape_join(im, value_of(m, 0, c), value_of(m, 1, c), &c->why);
    if (!c->shape && ts_ok(im) && c->is_place)
      ts_fail(m->f, m->s->place, TD_UNSUPPORTED, "what a branch changes: %s", c->why);
  }
}

/* ---- the region -------------------------------------------------------------------------------------------------- */

/* Leaves of all cargo as branch `which` gives them. */
static void flatten_way(merge *m, uint32_t which, ir_value *leaves) {
  ts_import *im = m->f->im;
  ir_block outer = im->build.block;
  im->build.block = m->ways[which].block;
  for (uint32_t i = 0; i < m->cargo.count && ts_ok(im); i++) {
    const ts_cargo *c = &m->cargo.at[i];
    if (!c->shape) continue;
    ts_flatten(im, c->shape, value_of(m, which, c), leaves);
    leaves += ts_shape_leaves(c->shape);
  }
  im->build.block = outer;
}

static bool is_listed(const ts_uneven *u, const ts_stmt *s, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (u->found.at[i] == s) return true;
  return false;
}

static void note_ranks(merge *m, const ir_type *x, const ir_type *y) {
  ts_import *im = m->f->im;
  const bool ranked = x->kind == IR_TENSOR && y->kind == IR_TENSOR && x->rank != IR_UNRANKED && y->rank != IR_UNRANKED;
  if (!ranked || x->rank == y->rank || is_listed(im->uneven, m->s, im->uneven->found.count)) return;
  const ts_stmt **slot = base_vec_push(im->archive->arena, &im->uneven->found);
  if (slot) *slot = m->s;
  else no_memory(im);
}

/* Leaves that one branch does not set get something of the other's type; types are what both say. */
static void fill(merge *m, ir_value *leaves[2], ir_type *types, uint32_t count) {
  ir_build *b = &m->f->im->build;
  ir_block outer = b->block;
  for (uint32_t i = 0; i < count && !ir_build_failed(b); i++) {
    for (uint32_t which = 0; which < 2; which++) {
      ir_type other = *ir_build_type(b, leaves[!which][i]);
      b->block = m->ways[which].block;
      if (leaves[which][i].id == 0) leaves[which][i] = ts_something(m->f->im, &other);
      b->block = outer;
    }
    ir_type x = *ir_build_type(b, leaves[0][i]), y = *ir_build_type(b, leaves[1][i]);
    types[i] = ir_build_join(b, &x, &y);
    note_ranks(m, &x, &y);
  }
  for (uint32_t which = 0; which < 2; which++)
    for (uint32_t i = 0; i < count && !ir_build_failed(b); i++)
      ir_build_result(b, m->ways[which].block, leaves[which][i]);
}

static void apply(merge *m, const ir_value *outs) {
  ts_import *im = m->f->im;
  for (uint32_t i = 0; i < m->cargo.count && ts_ok(im); i++) {
    const ts_cargo *c = &m->cargo.at[i];
    aten_value v = c->shape ? ts_unflatten(im, c->shape, outs) : never;
    if (c->shape) outs += ts_shape_leaves(c->shape);
    if (c->is_place) {
      if (c->shape) aten_place_set(im->a, &c->place, &v);
      else aten_place_break(im->a, &c->place, c->why);
      continue;
    }
    ts_local *l = &m->f->locals.at[c->index];
    l->value = v;
    l->set = c->shape != NULL;
    l->spoiled = c->why;
  }
}

static void emit_region(merge *m) {
  ts_import *im = m->f->im;
  ir_build *b = &im->build;
  uint32_t count = 0;
  for (uint32_t i = 0; i < m->cargo.count; i++)
    if (m->cargo.at[i].shape) count += ts_shape_leaves(m->cargo.at[i].shape);
  ir_value *leaves[2] = {room(im, count, sizeof **leaves), room(im, count, sizeof **leaves)};
  ir_value *outs = room(im, count, sizeof *outs), cond = aten_graph_value(im->a, &m->cond);
  ir_type *types = room(im, count, sizeof *types);
  ir_block blocks[2] = {m->ways[0].block, m->ways[1].block};
  if (!ts_ok(im)) return;
  for (uint32_t i = 0; i < 2; i++) flatten_way(m, i, leaves[i]);
  if (ts_ok(im)) fill(m, leaves, types, count);
  if (ts_ok(im))
    ir_build_region(b, "prim::If", (ir_new_node){.in = &cond, .in_count = 1, .out_types = types, .out_count = count},
                    blocks, 2, outs);
  if (ts_ok(im)) apply(m, outs);
}

/* A branch that raises gives nothing: the other one is what follows, outside of the region. */
static void emit_check(merge *m, uint32_t raising, const ts_block *other) {
  ts_import *im = m->f->im;
  ir_value cond = aten_graph_value(im->a, &m->cond);
  if (m->ways[!raising].block.id) ir_build_discard(&im->build, m->ways[!raising].block);
  ir_block empty = ir_build_block(&im->build), blocks[2];
  blocks[raising] = m->ways[raising].block;
  blocks[!raising] = empty;
  ir_build_region(&im->build, "prim::If", (ir_new_node){.in = &cond, .in_count = 1}, blocks, 2, NULL);
  ts_note_fact(im, m->cond.graph, raising == 1); /* for all that follows in this block */
  ts_exec_block(m->f, other);
}

/* Does it surely raise? */
static bool raises(const ts_block *block) {
  for (uint32_t i = 0; i < block->count; i++) {
    const ts_stmt *s = &block->at[i];
    const ts_expr *e = s->kind == TS_EXPR ? s->values[0] : NULL;
    if (e && e->kind == TS_CALL && e->items[0]->kind == TS_ATTRIBUTE &&
        base_str_is(e->items[0]->text, "RaiseException"))
      return true;
  }
  return false;
}

static uint32_t statements(const ts_block *block) {
  uint32_t count = block->count;
  for (uint32_t i = 0; i < block->count; i++) count += statements(&block->at[i].body) + statements(&block->at[i].other);
  return count;
}

/* The longer way alone (special cases are short); a run that would take the other one ends. */
static void exec_one(ts_frame *f, const ts_stmt *s, const aten_value *cond) {
  ir_build *b = &f->im->build;
  const bool body = statements(&s->body) >= statements(&s->other);
  ir_frame frame;
  ir_build_enter(b, &frame, ts_origin(f, s->place, "if"));
  const ir_value holds = aten_graph_value(f->im->a, cond);
  const ir_value other = body ? IR_EMIT(b, "aten::logical_not", holds) : holds;
  IR_EMIT_ARGS(b, "td::refuse", &other, 1,
               ARG_STR("message",
                       "values have another number of dimensions on this way of the program, which is not "
                       "supported"));
  ir_build_leave(b);
  ts_note_fact(f->im, cond->graph, body);
  ts_exec_block(f, body ? &s->body : &s->other);
}

static void exec_both(ts_frame *f, const ts_stmt *s, const aten_value *cond) {
  merge m = {.f = f, .s = s, .cond = *cond, .start = {.number = aten_stamp(f->im->a) + 1}}; /* as the first mark's */
  const ts_block *bodies[2] = {&s->body, &s->other};
  ir_frame frame;
  ir_build_enter(&f->im->build, &frame, ts_origin(f, s->place, "if"));
  save_locals(&m);
  for (uint32_t i = 0; i < 2 && ts_ok(f->im); i++)
    if (raises(bodies[i]) || !raises(bodies[!i])) build_way(&m, i, bodies[i]);
  ir_build_leave(&f->im->build);
  for (uint32_t i = 0; i < 2 && ts_ok(f->im); i++) {
    if (!m.ways[i].raised || m.ways[!i].raised) continue;
    emit_check(&m, i, bodies[!i]);
    return;
  }
  if (!ts_ok(f->im)) return;
  collect_cargo(&m);
  if (!ts_ok(f->im)) return;
  if (m.ways[0].raised && m.ways[1].raised && f->im->regions == 0) {
    ts_raise(f, s->place, f->im->raise_text);
    return;
  }
  emit_region(&m);
  f->im->raised = m.ways[0].raised && m.ways[1].raised;
}

aten_value ts_truth(ts_import *im, aten_value v) {
  return v.kind == ATEN_BOOL ? v : aten_call(im->a, "aten::Bool", NULL, &v, 1, NULL, 0);
}

void ts_exec_if(ts_frame *f, const ts_stmt *s) {
  aten_value cond = ts_eval(f, s->values[0]);
  if (!ts_ok(f->im) || f->im->raised) return;
  if (cond.kind != ATEN_UNDEFINED) cond = ts_truth(f->im, cond);
  if (!ts_ok(f->im)) return;
  cond = ts_with_facts(f->im, cond);
  if (cond.kind == ATEN_UNDEFINED) {
    aten_report_missing(f->im->a); /* perhaps why */
    ts_fail(f, s->place, TD_UNSUPPORTED, "the condition is a value that is not set");
  } else if (aten_is_known(&cond)) {
    ts_exec_block(f, cond.u.b ? &s->body : &s->other);
  } else if (is_listed(f->im->uneven, s, f->im->uneven->taken)) {
    exec_one(f, s, &cond);
  } else {
    exec_both(f, s, &cond);
  }
}
