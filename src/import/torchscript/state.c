/* state.c -- what a method changes of its module is kept between runs. Which attributes, lists and tensors that are is
 * known only when the method has been run: so the import is tried, what changed becomes session state, and it is done
 * again, until nothing new changes. */
#include <stdio.h>

#include "import/torchscript/ts_priv.h"

enum { WHOLE = UINT32_MAX }; /* as slot: the object itself */

/* Of a leaf of state, free of any one graph. -1: a size that a run may change. */
typedef struct leaf_type {
  ir_kind kind;
  td_dtype dtype;
  int32_t rank, likely_rank; /* as of ir_type */
  int64_t dims[BASE_MAX_RANK];
} leaf_type;

struct ts_state {
  const fmt_object *record;
  uint32_t slot;
  const char *name;
  ts_shape *shape;
  leaf_type *types;
  uint32_t leaves;
  ir_value *values; /* of this attempt: the leaves when a run begins */
};

static void *room(ts_import *im, size_t count, size_t each) {
  void *p = base_arena_array(im->arena, count + 1, each);
  if (!p) ir_build_take(&im->build, base_no_memory(im->err, im->source->file));
  return p;
}

/* ---- places and objects of the file ------------------------------------------------------------------------------ */

static bool place_is(const aten_place *p, const aten_value *v) {
  if (p->kind == ATEN_PLACE_CELL) return v->kind == ATEN_TENSOR && aten_cell_of(v) == p->at;
  if (p->kind == ATEN_PLACE_LIST) return v->kind == ATEN_LIST && v->u.list == p->at;
  if (p->kind == ATEN_PLACE_TENSOR) return v->kind == ATEN_TENSOR && v->u.tensor == p->at;
  return p->kind == ATEN_PLACE_DICT && v->kind == ATEN_DICT && v->u.dict == p->at;
}

static bool place_of(ts_import *im, const ts_state *s, aten_place *p) {
  const uint32_t *index = base_map_get(&im->loaded, (base_str){(const char *)&s->record, sizeof s->record});
  if (!index) return false;
  const aten_value *v = &im->values.at[*index];
  *p = (aten_place){.kind = ATEN_PLACE_SLOT, .slot = s->slot};
  if (s->slot != WHOLE) {
    p->at = v->u.object;
    return v->kind == ATEN_OBJECT;
  }
  *p = (aten_place){.kind = v->kind == ATEN_TENSOR ? ATEN_PLACE_CELL
                            : v->kind == ATEN_LIST ? ATEN_PLACE_LIST
                                                   : ATEN_PLACE_DICT};
  p->at = v->kind == ATEN_TENSOR ? (void *)aten_cell_of(v)
          : v->kind == ATEN_LIST ? (void *)v->u.list
                                 : (void *)v->u.dict;
  return true;
}

/* Two tensors of the file over one storage: a change of one would have to show in the other. */
static bool shares_storage(const ts_import *im, const fmt_object *record) {
  const uint32_t *index = base_map_get(&im->loaded, (base_str){(const char *)&record, sizeof record});
  for (uint32_t i = 0; index && record->kind == FMT_OBJ_TENSOR && i < im->objects.count; i++) {
    const fmt_object *o = im->objects.at[i].object; /* constants have keys of their own */
    if (o != record && o->kind == FMT_OBJ_TENSOR &&
        im->objects.at[i].is_constant == im->objects.at[*index].is_constant &&
        base_str_equal(o->u.tensor->storage->key, record->u.tensor->storage->key))
      return true;
  }
  return false;
}

/* Is it one thing that can change? `self.x += y` assigns to x what x is already. */
static bool same_thing(const aten_value *x, const aten_value *y) {
  if (x->kind != y->kind) return false;
  if (x->kind == ATEN_TENSOR) return x->u.tensor == y->u.tensor;
  if (x->kind == ATEN_DICT) return x->u.dict == y->u.dict;
  return x->kind == ATEN_LIST && x->u.list == y->u.list;
}

/* False: no object of the file (an argument of the call, which is the caller's business). */
static bool find_record(ts_import *im, const aten_place *p, ts_state *s) {
  if (p->kind == ATEN_PLACE_SLOT) {
    const ts_object *o = p->at;
    base_str attribute = ts_class_of(&o->base)->names.at[p->slot];
    if (!o->record) return false;
    *s = (ts_state){.record = o->record, .slot = p->slot};
    s->name = base_arena_format(im->archive->arena, "%s%s%.*s", o->path ? o->path : "",
                                o->path && o->path[0] ? "." : "", (int)attribute.length, attribute.at);
    return s->name != NULL;
  }
  for (uint32_t i = 0; i < im->objects.count; i++) {
    if (!place_is(p, &im->values.at[i])) continue;
    if (p->kind == ATEN_PLACE_TENSOR)
      ir_build_fail(&im->build, TD_UNSUPPORTED, "the method changes the sizes of %s in place", im->objects.at[i].path);
    *s = (ts_state){.record = im->objects.at[i].object, .slot = WHOLE};
    s->name = base_arena_text(im->archive->arena, im->objects.at[i].path);
    return s->name != NULL;
  }
  return false;
}

static ts_state *known_state(ts_import *im, const ts_state *wanted) {
  for (uint32_t i = 0; i < im->states->count; i++) {
    ts_state *s = im->states->at[i];
    if (s->record == wanted->record && s->slot == wanted->slot) return s;
  }
  return NULL;
}

/* ---- types of leaves --------------------------------------------------------------------------------------------- */

static leaf_type type_of(ts_import *im, ir_value v) {
  const ir_type *t = ir_build_type(&im->build, v);
  leaf_type l = {.kind = t->kind,
                 .dtype = t->kind == IR_LIST && t->elem ? t->elem->dtype : t->dtype,
                 .rank = t->rank,
                 .likely_rank = t->likely_rank};
  for (int32_t i = 0; i < t->rank; i++) l.dims[i] = base_dim_known(t->dims[i]) ? t->dims[i] : -1;
  return l;
}

static ir_type with_rank(const leaf_type *l) {
  ir_type t = {.rank = l->rank, .likely_rank = l->likely_rank};
  if (l->rank > 0) t.dims[0] = l->dims[0];
  return t;
}

/* What both say; true where that is not what `to` said. */
static bool merge_types(leaf_type *to, const leaf_type *other) {
  bool changed = false;
  if (to->rank != other->rank) {
    const ir_type x = with_rank(to), y = with_rank(other);
    changed = to->rank != IR_UNRANKED;
    to->likely_rank = ir_likely_rank(&x, &y);
    to->rank = IR_UNRANKED;
  }
  for (int32_t i = 0; i < to->rank; i++) {
    if (to->dims[i] == other->dims[i] || to->dims[i] == -1) continue;
    to->dims[i] = -1;
    changed = true;
  }
  return changed;
}

static ir_type ir_type_of_leaf(ts_import *im, const ts_state *s, uint32_t index) {
  const leaf_type *l = &s->types[index];
  ir_type t = ir_unranked(l->dtype);
  t.rank = l->rank;
  t.likely_rank = l->likely_rank;
  for (int32_t i = 0; i < l->rank; i++) {
    char symbol[160];
    snprintf(symbol, sizeof symbol, "%.120s.%u.%d", s->name, index, i);
    t.dims[i] = l->dims[i] >= 0 ? l->dims[i] : base_dim_symbol(&im->graph->dims, symbol);
    if (t.dims[i] == BASE_DIM_NONE) ir_build_take(&im->build, base_no_memory(im->err, s->name));
  }
  if (l->kind != IR_LIST) return t;
  ir_type *elem = ir_build_alloc(&im->build, sizeof *elem);
  if (elem) *elem = ir_unranked(l->dtype);
  return (ir_type){.kind = IR_LIST, .elem = elem, .count = 1};
}

/* ---- the beginning of an attempt --------------------------------------------------------------------------------- */

static void declare_leaf(ts_import *im, ts_state *s, uint32_t index, ir_initial *initial) {
  ir_type type = ir_type_of_leaf(im, s, index);
  const char *name = s->leaves == 1 ? base_arena_text(im->graph->arena, s->name)
                                    : base_arena_format(im->graph->arena, "%s.%u", s->name, index);
  if (!name) ir_build_take(&im->build, base_no_memory(im->err, s->name));
  if (ts_ok(im) && !initial->list && initial->value.id == 0) { /* not there at first: anything of the type */
    int64_t dims[BASE_MAX_RANK];
    static const uint64_t zero;
    for (int32_t i = 0; i < type.rank; i++) dims[i] = base_dim_known(type.dims[i]) ? type.dims[i] : 0;
    base_tensor t = base_tensor_of((void *)(uintptr_t)&zero, type.dtype, type.rank < 0 ? 0 : type.rank, dims);
    for (int32_t i = 0; i < t.rank; i++) t.strides[i] = 0;
    initial->value = ir_build_constant(&im->build, &t);
  }
  if (ts_ok(im)) ir_build_take(&im->build, ir_add_state(im->graph, &type, name, initial, &s->values[index], im->err));
}

/* In how many attributes of the file's objects the cell is. */
static uint32_t count_holders(const ts_import *im, const aten_cell *cell) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < im->values.count; i++) {
    const aten_value *v = &im->values.at[i];
    for (uint32_t k = 0; v->kind == ATEN_OBJECT && k < v->u.object->slot_count; k++)
      count += v->u.object->slots[k].kind == ATEN_TENSOR && aten_cell_of(&v->u.object->slots[k]) == cell;
  }
  return count;
}

/* A tensor of the file that is written to, and then taken out of its attribute, is written to in the first run alone:
 * which matters where it is in another attribute, too. */
static void check_holders(ts_import *im, const ts_state *s, const aten_value *first) {
  aten_place p;
  for (uint32_t i = 0; s->slot != WHOLE && first->kind == ATEN_TENSOR && i < im->states->count; i++)
    if (place_of(im, im->states->at[i], &p) && p.kind == ATEN_PLACE_CELL && p.at == aten_cell_of(first) &&
        count_holders(im, p.at) > 1)
      ir_build_fail(&im->build, TD_UNSUPPORTED,
                    "the method writes to %s and assigns another tensor to it, but it is in another attribute, too",
                    s->name);
}

void ts_declare_state(ts_import *im) {
  const uint32_t count = im->states->count;
  ir_initial **initials = room(im, count, sizeof *initials);
  aten_place *places = room(im, count, sizeof *places);
  /* All first values are the file's: one state may hold a tensor that is another state. */
  for (uint32_t i = 0; i < count && ts_ok(im); i++) {
    ts_state *s = im->states->at[i];
    if (!place_of(im, s, &places[i])) {
      ir_build_fail(&im->build, TD_INTERNAL, "state %s is not there any more", s->name);
      return;
    }
    aten_value first = aten_place_get(im->a, &places[i]);
    initials[i] = room(im, s->leaves, sizeof **initials);
    s->values = room(im, s->leaves, sizeof *s->values);
    if (ts_ok(im)) ts_initials(im, s->shape, &first, initials[i]);
    if (ts_ok(im)) check_holders(im, s, &first);
  }
  for (uint32_t i = 0; i < count && ts_ok(im); i++) {
    ts_state *s = im->states->at[i];
    for (uint32_t k = 0; k < s->leaves && ts_ok(im); k++) declare_leaf(im, s, k, &initials[i][k]);
    aten_value v = ts_unflatten(im, s->shape, s->values);
    if (ts_ok(im)) aten_place_set(im->a, &places[i], &v);
  }
}

/* ---- its end ----------------------------------------------------------------------------------------------------- */

static ts_state *new_state(ts_import *im, const ts_state *found, const aten_value *first) {
  ts_state *s = base_arena_copy(im->archive->arena, found, sizeof *found);
  ts_state **slot = s ? base_vec_push(im->archive->arena, im->states) : NULL;
  const char *why = NULL;
  if (!slot) {
    ir_build_take(&im->build, base_no_memory(im->err, im->source->file));
    return NULL;
  }
  *slot = s;
  if (shares_storage(im, s->record))
    ir_build_fail(&im->build, TD_UNSUPPORTED, "the method changes %s, which shares its memory with another tensor",
                  s->name);
  s->shape = ts_shape_open(im, first, &why);
  if (!s->shape && ts_ok(im)) ir_build_fail(&im->build, TD_UNSUPPORTED, "the method changes %s: %s", s->name, why);
  return s;
}

/* Leaves of the first value and of the last; true where the state's types must be wider than they were. */
static bool merge_leaves(ts_import *im, ts_state *s, const aten_value *first, const ir_value *last) {
  uint32_t count = ts_shape_leaves(s->shape);
  bool changed = count != s->leaves || !s->types;
  ir_value *begin = room(im, count, sizeof *begin);
  if (!ts_ok(im)) return false;
  ts_flatten(im, s->shape, first, begin);
  if (changed) {
    s->types = base_new(im->archive->arena, leaf_type, count + 1);
    s->leaves = count;
    if (!s->types) ir_build_take(&im->build, base_no_memory(im->err, s->name));
    for (uint32_t i = 0; i < count && ts_ok(im); i++) s->types[i] = type_of(im, begin[i].id ? begin[i] : last[i]);
  }
  for (uint32_t i = 0; i < count && ts_ok(im); i++) {
    leaf_type end = type_of(im, last[i]);
    if (last[i].id) changed = merge_types(&s->types[i], &end) || changed;
  }
  return changed;
}

typedef struct change {
  aten_place place;
  aten_value last; /* frozen */
  aten_value held; /* what is there, itself */
  const char *broken;
} change;

static void store(ts_import *im, const ts_state *s, const ir_value *last) {
  for (uint32_t i = 0; i < s->leaves && ts_ok(im); i++)
    if (last[i].id && s->values[i].id)
      ir_build_take(&im->build, ir_store_state(im->graph, s->values[i], last[i], im->err));
}

static bool keep(ts_import *im, const change *c) {
  ts_state found, *s;
  const char *why = NULL;
  bool changed = false;
  if (!find_record(im, &c->place, &found)) return false;
  if (c->broken) {
    ir_build_fail(&im->build, TD_UNSUPPORTED,
                  "it writes to a tensor that may share its memory with the attribute %s (%s): write to a clone, or "
                  "assign the attribute instead",
                  found.name, c->broken);
    return false;
  }
  aten_value first = aten_place_get(im->a, &c->place);
  if (c->place.kind == ATEN_PLACE_SLOT && same_thing(&first, &c->held)) return false;
  s = known_state(im, &found);
  bool is_new = !s;
  if (is_new) s = new_state(im, &found, &first);
  if (!ts_ok(im)) return false;
  s->shape = ts_shape_widen(im, s->shape, &c->last, &changed, &why);
  if (!s->shape) {
    ir_build_fail(&im->build, TD_UNSUPPORTED, "the method changes %s: %s", s->name, why ? why : "");
    return false;
  }
  ir_value *last = room(im, ts_shape_leaves(s->shape), sizeof *last);
  if (ts_ok(im)) ts_flatten(im, s->shape, &c->last, last);
  changed = (ts_ok(im) && merge_leaves(im, s, &first, last)) || changed || is_new;
  if (!changed) store(im, s, last);
  return changed;
}

/* Ends `mark`. True: there is more state than this attempt knew; the import must be done again. */
bool ts_store_state(ts_import *im, aten_mark mark) {
  aten_place *places = NULL;
  uint32_t count = aten_changed(im->a, mark, &places), kept = 0;
  change *changes = room(im, count, sizeof *changes);
  bool again = false;
  for (uint32_t i = 0; i < count && ts_ok(im); i++) {
    if (!aten_place_older(im->a, &places[i], mark)) continue;
    changes[kept].broken = aten_place_broken(&places[i]);
    aten_value v = changes[kept].broken ? (aten_value){.kind = ATEN_UNDEFINED} : aten_place_get(im->a, &places[i]);
    changes[kept].place = places[i];
    changes[kept].held = v;
    changes[kept++].last = ts_freeze(im, &v, NULL);
  }
  if (ts_ok(im)) aten_rollback(im->a, mark);
  for (uint32_t i = 0; i < kept && ts_ok(im); i++) again = keep(im, &changes[i]) || again;
  return again && ts_ok(im);
}
