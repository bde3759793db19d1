/* shape.c -- values of the program as values of a region, and back: results of branches, what a loop carries, state. A
 * value that may be None and whose presence only running can tell is an object of its own class: whether it is there,
 * and a value that means nothing where it is not. */
#include "import/torchscript/ts_priv.h"

typedef enum shape_kind {
  SAME,       /* known, and one thing on all ways: no leaf */
  TENSOR,     /* one leaf; all that stood there, `sample` among them, may be one storage */
  NUMBER,     /* one leaf: int, float or bool (`number`) */
  TEXT,       /* one leaf */
  FUTURE,     /* one leaf: a future like `sample` */
  GRAPH_LIST, /* one leaf: a list whose length only running can tell */
  ITEMS,      /* a list, tuple, dict or object: its parts */
  MAYBE,      /* a leaf (is it there?), then parts[0] */
  NEVER       /* UNDEFINED on all ways so far */
} shape_kind;

struct ts_shape {
  shape_kind kind;
  aten_kind number;  /* of NUMBER */
  aten_value sample; /* of SAME the value; of TENSOR one of them; of ITEMS one that has its kind, keys, class */
  ts_shape **parts;
  uint32_t count;
  td_dtype item;               /* of GRAPH_LIST: of its items, for a list that begins empty; TD_INVALID: not known */
  const aten_promise *promise; /* of GRAPH_LIST: of its futures */
};

static void no_memory(ts_import *im) { ir_build_take(&im->build, base_no_memory(im->err, im->source->file)); }

/* ---- copies ------------------------------------------------------------------------------------------------------ */

static const aten_value *part_of(const aten_value *v, uint32_t i) {
  if (!v) return NULL;
  if (v->kind == ATEN_LIST || v->kind == ATEN_TUPLE) return i < v->u.list->items.count ? &v->u.list->items.at[i] : NULL;
  if (v->kind == ATEN_DICT) return i < v->u.dict->values.count ? &v->u.dict->values.at[i] : NULL;
  return v->kind == ATEN_OBJECT && i < v->u.object->slot_count ? &v->u.object->slots[i] : NULL;
}

static uint32_t part_count(const aten_value *v) {
  if (v->kind == ATEN_LIST || v->kind == ATEN_TUPLE) return v->u.list->items.count;
  if (v->kind == ATEN_DICT) return v->u.dict->values.count;
  return v->kind == ATEN_OBJECT ? v->u.object->slot_count : 0;
}

static bool is_thing(aten_kind kind) {
  return kind == ATEN_TENSOR || kind == ATEN_LIST || kind == ATEN_TUPLE || kind == ATEN_DICT || kind == ATEN_OBJECT ||
         kind == ATEN_FUNCTION;
}

/* One and the same thing, or equal numbers. */
static bool identical(const aten_value *x, const aten_value *y) {
  if (x->kind != y->kind || x->graph.id != y->graph.id) return false;
  if (x->graph.id) return true;
  if (is_thing(x->kind)) return x->u.function == y->u.function;
  return x->kind == ATEN_UNDEFINED || x->kind == ATEN_NONE || aten_same(x, y);
}

/* A value of the kind of `sample` with these parts. */
static aten_value rebuild(ts_import *im, const aten_value *sample, const aten_value *parts, uint32_t count) {
  if (sample->kind == ATEN_LIST) return aten_list_of(im->a, parts, count);
  if (sample->kind == ATEN_TUPLE) return aten_tuple_of(im->a, parts, count);
  if (sample->kind == ATEN_DICT) {
    aten_value dict = aten_dict_of(im->a);
    for (uint32_t i = 0; i < count && ts_ok(im); i++)
      aten_dict_set(im->a, dict.u.dict, sample->u.dict->keys.at[i], parts[i]);
    return dict;
  }
  ts_object *o = ts_new_object(im, ts_class_of(sample->u.object));
  if (!o) return ATEN_NOTHING;
  if (!ts_is_maybe(im, sample)) o->path = ((const ts_object *)(const void *)sample->u.object)->path;
  for (uint32_t i = 0; i < count; i++) o->base.slots[i] = parts[i];
  return (aten_value){.kind = ATEN_OBJECT, .u.object = &o->base};
}

static bool is_module(const aten_value *v) {
  return v->kind == ATEN_OBJECT &&
         (ts_class_of(v->u.object)->kind == TS_CLASS_MODULE || ts_class_of(v->u.object)->kind == TS_CLASS_ENUM);
}

aten_value ts_freeze(ts_import *im, const aten_value *v, const aten_value *before) {
  if (!ts_ok(im) || (before && identical(v, before))) return *v;
  if (v->kind == ATEN_TENSOR) return aten_another(im->a, v, aten_read(im->a, v));
  if (v->kind == ATEN_LIST && v->u.list->graph.id) return aten_list_graph(im->a, v->u.list->graph, v->u.list->promise);
  if (is_module(v) || !is_thing(v->kind) || v->kind == ATEN_FUNCTION) return *v;
  uint32_t count = part_count(v);
  aten_value *parts = base_new(im->arena, aten_value, count + 1);
  if (!parts) {
    no_memory(im);
    return *v;
  }
  for (uint32_t i = 0; i < count; i++) parts[i] = ts_freeze(im, part_of(v, i), part_of(before, i));
  return rebuild(im, v, parts, count);
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

static ts_shape *new_shape(ts_import *im, shape_kind kind, const aten_value *sample, uint32_t count) {
  ts_shape *s = base_new(im->arena, ts_shape, 1);
  if (s && count) s->parts = base_new(im->arena, ts_shape *, count);
  if (!s || (count && !s->parts)) {
    no_memory(im);
    return NULL;
  }
  s->kind = kind;
  s->count = count;
  if (sample) s->sample = *sample;
  return s;
}

static bool is_number(const aten_value *v) {
  return v->kind == ATEN_INT || v->kind == ATEN_FLOAT || v->kind == ATEN_BOOL;
}

static ts_shape *join_parts(ts_import *im, const aten_value *x, const aten_value *y, const char **why) {
  uint32_t count = part_count(x);
  ts_shape *s = new_shape(im, ITEMS, x, count);
  for (uint32_t i = 0; s && i < count; i++) {
    s->parts[i] = ts_shape_join(im, part_of(x, i), part_of(y, i), why);
    if (!s->parts[i]) return NULL;
  }
  return s;
}

static bool same_keys(const aten_value *x, const aten_value *y) {
  if (x->u.dict->keys.count != y->u.dict->keys.count) return false;
  for (uint32_t i = 0; i < x->u.dict->keys.count; i++)
    if (!aten_same(&x->u.dict->keys.at[i], &y->u.dict->keys.at[i])) return false;
  return true;
}

static bool holds_graph(const aten_value *v) { return v->kind == ATEN_LIST && v->u.list->graph.id; }

static const aten_value *sample_item(const aten_value *x) {
  return x->kind == ATEN_LIST && !holds_graph(x) && x->u.list->items.count ? &x->u.list->items.at[0] : NULL;
}

static td_dtype item_dtype(ts_import *im, const aten_value *item) {
  if (item->kind == ATEN_TENSOR) return ir_build_dtype(&im->build, aten_read(im->a, item));
  return item->kind == ATEN_INT ? TD_I64 : item->kind == ATEN_FLOAT ? TD_F64 : TD_BOOL;
}

/* The promise of the futures in the list; NULL: it holds none. */
static const aten_promise *promise_in(const aten_value *list) {
  if (list->kind != ATEN_LIST) return NULL;
  const aten_value *item = sample_item(list);
  return item && item->kind == ATEN_FUTURE ? item->u.promise : list->u.list->promise;
}

/* The shape also holds futures as `list` does. */
static bool add_promise(ts_shape *s, const aten_value *list, const char **why) {
  const aten_promise *promise = list ? promise_in(list) : NULL;
  if (!s->promise) s->promise = promise;
  if (!promise || s->promise->meet(s->promise, promise)) return true;
  *why = "it is a list of futures of tasks that give things of different kinds";
  return false;
}

static ts_shape *graph_list(ts_import *im, const aten_value *x, const aten_value *y, const char **why) {
  const aten_value *item = sample_item(x) ? sample_item(x) : y ? sample_item(y) : NULL;
  bool plain = item && (item->kind == ATEN_TENSOR || is_number(item));
  if (item && !plain && item->kind != ATEN_UNDEFINED && item->kind != ATEN_FUTURE) {
    *why = "a list whose length only running can tell may hold tensors, numbers and futures alone";
    return NULL;
  }
  ts_shape *s = new_shape(im, GRAPH_LIST, NULL, 0);
  if (s && plain) s->item = item_dtype(im, item);
  return s && add_promise(s, x, why) && add_promise(s, y, why) ? s : NULL;
}

/* What may be None: a flag and a value. */
static ts_shape *maybe(ts_import *im, const aten_value *there, const char **why) {
  const aten_value *value = ts_is_maybe(im, there) ? &there->u.object->slots[TS_MAYBE_VALUE] : there;
  ts_shape *s = new_shape(im, MAYBE, NULL, 1);
  if (s) s->parts[0] = ts_shape_open(im, value, why);
  return s && s->parts[0] ? s : NULL;
}

/* Of one value, with every tensor and number a leaf. */
ts_shape *ts_shape_open(ts_import *im, const aten_value *v, const char **why) {
  if (v->kind == ATEN_TENSOR) return new_shape(im, TENSOR, v, 0);
  if (v->kind == ATEN_FUTURE) return new_shape(im, FUTURE, v, 0);
  if (v->kind == ATEN_STR && v->graph.id) return new_shape(im, TEXT, NULL, 0);
  if (is_number(v)) {
    ts_shape *s = new_shape(im, NUMBER, NULL, 0);
    if (s) s->number = v->kind;
    return s;
  }
  if (holds_graph(v)) return graph_list(im, v, NULL, why);
  if (ts_is_maybe(im, v)) return maybe(im, v, why);
  if (is_module(v) || !is_thing(v->kind) || v->kind == ATEN_FUNCTION) return new_shape(im, SAME, v, 0);
  uint32_t count = part_count(v);
  ts_shape *s = new_shape(im, ITEMS, v, count);
  for (uint32_t i = 0; s && i < count; i++)
    if (!(s->parts[i] = ts_shape_open(im, part_of(v, i), why))) return NULL;
  return s;
}

static ts_shape *join_things(ts_import *im, const aten_value *x, const aten_value *y, const char **why) {
  bool graph = holds_graph(x) || holds_graph(y);
  if (x->kind == ATEN_LIST && (graph || part_count(x) != part_count(y))) return graph_list(im, x, y, why);
  if (x->kind == ATEN_TUPLE && part_count(x) != part_count(y)) {
    *why = "it is a tuple of one length on one way, and of another on another";
    return NULL;
  }
  if (x->kind == ATEN_DICT && !same_keys(x, y)) {
    *why = "it is a dictionary whose keys only running can tell";
    return NULL;
  }
  if (x->kind == ATEN_OBJECT && x->u.object->type != y->u.object->type) {
    *why = "it is an object of a class that only running can tell";
    return NULL;
  }
  if (is_module(x) || x->kind == ATEN_FUNCTION) {
    *why = "only running can tell which module or function it is";
    return NULL;
  }
  return join_parts(im, x, y, why);
}

static ts_shape *join_futures(ts_import *im, const aten_value *x, const aten_value *y, const char **why) {
  if (x->u.promise->meet(x->u.promise, y->u.promise)) return ts_shape_open(im, x, why);
  *why = "it is a future of tasks that give things of different kinds";
  return NULL;
}

static bool kept_alike(ts_import *im, const aten_value *x, const aten_value *y, const char **why) {
  if (aten_kept_alike(im->a, x, y)) return true;
  *why = "it is a plain tensor on one way, and a complex or quantised one on another";
  return false;
}

ts_shape *ts_shape_join(ts_import *im, const aten_value *x, const aten_value *y, const char **why) {
  if (!ts_ok(im)) return NULL;
  if (identical(x, y)) return new_shape(im, x->kind == ATEN_UNDEFINED ? NEVER : SAME, x, 0);
  if (x->kind == ATEN_UNDEFINED) return ts_shape_open(im, y, why);
  if (y->kind == ATEN_UNDEFINED) return ts_shape_open(im, x, why);
  if (x->kind == ATEN_NONE || ts_is_maybe(im, y)) return maybe(im, y->kind == ATEN_NONE ? x : y, why);
  if (y->kind == ATEN_NONE || ts_is_maybe(im, x)) return maybe(im, x, why);
  if (x->kind != y->kind) {
    *why = base_arena_format(im->arena, "it is a %s on one way, and a %s on another", aten_kind_name(x),
                             aten_kind_name(y));
    return NULL;
  }
  if (x->kind == ATEN_FUTURE) return join_futures(im, x, y, why);
  if (x->kind == ATEN_TENSOR && !kept_alike(im, x, y, why)) return NULL;
  aten_may_share(x, y);
  if (x->kind == ATEN_TENSOR || is_number(x)) return ts_shape_open(im, x, why);
  if (x->kind == ATEN_STR) return new_shape(im, TEXT, NULL, 0);
  if (is_thing(x->kind)) return join_things(im, x, y, why);
  *why = "only running can tell what it is";
  return NULL;
}

/* ---- what tasks give --------------------------------------------------------------------------------------------- */

static bool is_older(const ts_import *im, const aten_value *v, aten_mark mark) {
  const bool list = v->kind == ATEN_LIST || v->kind == ATEN_TUPLE;
  aten_place place = {list ? ATEN_PLACE_LIST : v->kind == ATEN_DICT ? ATEN_PLACE_DICT : ATEN_PLACE_SLOT, NULL, 0};
  place.at = list ? (void *)v->u.list : v->kind == ATEN_DICT ? (void *)v->u.dict : (void *)v->u.object;
  return aten_place_older(im->a, &place, mark);
}

ts_shape *ts_shape_given(ts_import *im, const aten_value *v, aten_mark mark, const char **why) {
  const bool holder = v->kind == ATEN_LIST || v->kind == ATEN_TUPLE || v->kind == ATEN_DICT || v->kind == ATEN_OBJECT;
  if (v->kind == ATEN_TENSOR && aten_is_quantised(v)) {
    *why = "its scale may be known to the task alone";
    return NULL;
  }
  if (v->kind == ATEN_TENSOR) { /* a stand-in, which shows when another that may be its storage is written to */
    const aten_value sample = aten_another(im->a, v, aten_read(im->a, v));
    return new_shape(im, TENSOR, &sample, 0);
  }
  if (!holder && v->graph.id) return ts_shape_open(im, v, why);
  if (!holder || is_module(v) || is_older(im, v, mark)) return new_shape(im, SAME, v, 0);
  if (holds_graph(v) || ts_is_maybe(im, v)) return ts_shape_open(im, v, why);
  const uint32_t count = part_count(v);
  ts_shape *s = new_shape(im, ITEMS, v, count);
  for (uint32_t i = 0; s && i < count; i++)
    if (!(s->parts[i] = ts_shape_given(im, part_of(v, i), mark, why))) return NULL;
  return s;
}

static bool same_holder(const aten_value *x, const aten_value *y) {
  if (x->kind != y->kind || part_count(x) != part_count(y)) return false;
  return x->kind == ATEN_DICT     ? same_keys(x, y)
         : x->kind == ATEN_OBJECT ? x->u.object->type == y->u.object->type
                                  : true;
}

static bool promises_meet(const aten_promise *x, const aten_promise *y) { return x == y || (x && y && x->meet(x, y)); }

bool ts_shape_meet(ts_import *im, const ts_shape *x, const ts_shape *y) {
  if (x == y) return true;
  if (x->kind != y->kind || x->count != y->count) return false;
  if (x->kind == SAME && !identical(&x->sample, &y->sample)) return false;
  if (x->kind == NUMBER && x->number != y->number) return false;
  if (x->kind == GRAPH_LIST && (x->item != y->item || !promises_meet(x->promise, y->promise))) return false;
  if (x->kind == FUTURE && !promises_meet(x->sample.u.promise, y->sample.u.promise)) return false;
  if (x->kind == ITEMS && !same_holder(&x->sample, &y->sample)) return false;
  if (x->kind == TENSOR &&
      (!aten_kept_alike(im->a, &x->sample, &y->sample) || !aten_can_read(&x->sample) || !aten_can_read(&y->sample)))
    return false;
  if (x->kind == TENSOR) aten_may_share(&x->sample, &y->sample);
  for (uint32_t i = 0; i < x->count; i++)
    if (!ts_shape_meet(im, x->parts[i], y->parts[i])) return false;
  return true;
}

void ts_shape_check(ts_import *im, const ts_shape *s) {
  if (s->kind == TENSOR) aten_read(im->a, &s->sample);
  for (uint32_t i = 0; i < s->count; i++) ts_shape_check(im, s->parts[i]);
}

bool ts_shape_can_change(const ts_shape *s) {
  bool can = s->kind == GRAPH_LIST ||
             (s->kind == ITEMS && s->sample.kind != ATEN_TUPLE &&
              !(s->sample.kind == ATEN_OBJECT && ts_class_of(s->sample.u.object)->kind == TS_CLASS_TUPLE));
  for (uint32_t i = 0; !can && i < s->count; i++) can = ts_shape_can_change(s->parts[i]);
  return can;
}

/* ---- widening ---------------------------------------------------------------------------------------------------- */

static ts_shape *widen_items(ts_import *im, ts_shape *s, const aten_value *v, bool *changed, const char **why) {
  bool fits = v->kind == s->sample.kind && part_count(v) == s->count && !holds_graph(v) &&
              (v->kind != ATEN_DICT || same_keys(v, &s->sample)) &&
              (v->kind != ATEN_OBJECT || v->u.object->type == s->sample.u.object->type);
  if (fits) {
    for (uint32_t i = 0; i < s->count; i++)
      if (!(s->parts[i] = ts_shape_widen(im, s->parts[i], part_of(v, i), changed, why))) return NULL;
    return s;
  }
  *changed = true;
  if (v->kind == ATEN_NONE || ts_is_maybe(im, v)) {
    ts_shape *m = new_shape(im, MAYBE, NULL, 1);
    if (m) m->parts[0] = s;
    return m;
  }
  if (v->kind == ATEN_LIST && s->sample.kind == ATEN_LIST) return graph_list(im, &s->sample, v, why);
  *why = "its parts change from one iteration to the next";
  return NULL;
}

ts_shape *ts_shape_widen(ts_import *im, ts_shape *s, const aten_value *v, bool *changed, const char **why) {
  ts_shape *wider;
  if (!ts_ok(im)) return NULL;
  if (v->kind == ATEN_UNDEFINED) return s;
  switch (s->kind) {
    case NEVER:
    case SAME:
      wider = ts_shape_join(im, &s->sample, v, why);
      if (!wider || wider->kind == SAME || wider->kind == NEVER) return wider ? s : NULL;
      *changed = true;
      return wider;
    case ITEMS: return widen_items(im, s, v, changed, why);
    case MAYBE:
      if (v->kind == ATEN_NONE) return s;
      v = ts_is_maybe(im, v) ? &v->u.object->slots[TS_MAYBE_VALUE] : v;
      s->parts[0] = ts_shape_widen(im, s->parts[0], v, changed, why);
      return s->parts[0] ? s : NULL;
    case GRAPH_LIST:
      if (!add_promise(s, v, why)) return NULL;
      if (s->item == TD_INVALID && sample_item(v) && !s->promise) s->item = item_dtype(im, sample_item(v));
      return s;
    case TENSOR:
      if (v->kind == ATEN_TENSOR && !kept_alike(im, &s->sample, v, why)) return NULL;
      aten_may_share(&s->sample, v);
      break;
    case FUTURE:
      if (v->kind == ATEN_FUTURE && !join_futures(im, &s->sample, v, why)) return NULL;
      break;
    case NUMBER:
    case TEXT: break;
  }
  if (v->kind != ATEN_NONE && !ts_is_maybe(im, v)) return s;
  *changed = true;
  wider = new_shape(im, MAYBE, NULL, 1);
  if (wider) wider->parts[0] = s;
  return wider;
}

uint32_t ts_shape_leaves(const ts_shape *s) {
  uint32_t leaves = s->kind != SAME && s->kind != NEVER && s->kind != ITEMS;
  for (uint32_t i = 0; i < s->count; i++) leaves += ts_shape_leaves(s->parts[i]);
  return leaves;
}

/* ---- to leaves and back ------------------------------------------------------------------------------------------ */

static ir_value flatten_list(ts_import *im, const aten_value *v) {
  if (holds_graph(v)) return v->u.list->graph;
  if (v->kind == ATEN_LIST && v->u.list->items.count) return aten_graph_value(im->a, v);
  return ir_emit(&im->build, "td::list_new", NULL, 0, NULL, 0);
}

/* Leaves of what is not there: no value; who flattens fills them with something of the right type. */
static uint32_t absent(const ts_shape *s, ir_value *leaves) {
  uint32_t count = ts_shape_leaves(s);
  for (uint32_t i = 0; i < count; i++) leaves[i] = IR_NO_VALUE;
  return count;
}

static uint32_t flatten(ts_import *im, const ts_shape *s, const aten_value *v, ir_value *leaves) {
  uint32_t used = 0;
  if (!ts_ok(im)) return 0;
  if (v->kind == ATEN_UNDEFINED) return absent(s, leaves);
  switch (s->kind) {
    case SAME:
    case NEVER: return 0;
    case TENSOR: leaves[0] = aten_read(im->a, v); return 1;
    case NUMBER:
    case FUTURE:
    case TEXT: leaves[0] = aten_graph_value(im->a, v); return 1;
    case GRAPH_LIST: leaves[0] = flatten_list(im, v); return 1;
    case MAYBE: {
      bool is_maybe = ts_is_maybe(im, v);
      aten_value has = is_maybe ? v->u.object->slots[TS_MAYBE_HAS] : aten_bool(v->kind != ATEN_NONE);
      leaves[0] = aten_graph_value(im->a, &has);
      if (v->kind == ATEN_NONE) return 1 + absent(s->parts[0], leaves + 1);
      return 1 + flatten(im, s->parts[0], is_maybe ? &v->u.object->slots[TS_MAYBE_VALUE] : v, leaves + 1);
    }
    case ITEMS:
      for (uint32_t i = 0; i < s->count; i++) used += flatten(im, s->parts[i], part_of(v, i), leaves + used);
      return used;
  }
  return used;
}

void ts_flatten(ts_import *im, const ts_shape *shape, const aten_value *v, ir_value *leaves) {
  flatten(im, shape, v, leaves);
}

static uint32_t initials(ts_import *im, const ts_shape *s, const aten_value *v, ir_initial *out) {
  uint32_t used = 0;
  if (v->kind == ATEN_UNDEFINED || (v->kind == ATEN_NONE && s->kind != MAYBE)) return ts_shape_leaves(s);
  if (s->kind == ITEMS) {
    for (uint32_t i = 0; i < s->count; i++) used += initials(im, s->parts[i], part_of(v, i), out + used);
    return used;
  }
  if (s->kind == MAYBE) {
    aten_value has = aten_bool(v->kind != ATEN_NONE);
    out[0].value = aten_graph_value(im->a, &has);
    return 1 + initials(im, s->parts[0], v, out + 1);
  }
  if (s->kind != GRAPH_LIST) {
    ts_flatten(im, s, v, &out[0].value);
    return ts_shape_leaves(s);
  }
  uint32_t count = v->kind == ATEN_LIST ? v->u.list->items.count : 0;
  ir_initial *items = ir_build_alloc(&im->build, (count + 1) * sizeof *items);
  for (uint32_t i = 0; items && i < count; i++) items[i].value = aten_graph_value(im->a, &v->u.list->items.at[i]);
  out[0] = (ir_initial){.items = items, .count = count, .list = true};
  return 1;
}

void ts_initials(ts_import *im, const ts_shape *shape, const aten_value *v, ir_initial *out) {
  initials(im, shape, v, out);
}

static aten_value unflatten(ts_import *im, const ts_shape *s, const ir_value *leaves, uint32_t *used) {
  aten_value pair[TS_MAYBE_SLOTS], *parts;
  switch (s->kind) {
    case SAME: return s->sample;
    case NEVER: break;
    case TENSOR: return aten_another(im->a, &s->sample, leaves[(*used)++]);
    case NUMBER: return aten_number(im->a, leaves[(*used)++]);
    case TEXT: return (aten_value){.kind = ATEN_STR, .graph = leaves[(*used)++]};
    case FUTURE: return (aten_value){.kind = ATEN_FUTURE, .graph = leaves[(*used)++], .u.promise = s->sample.u.promise};
    case GRAPH_LIST: return aten_list_graph(im->a, leaves[(*used)++], s->promise);
    case MAYBE: {
      ts_object *o = ts_new_object(im, im->maybe);
      if (!o) return ATEN_NOTHING;
      pair[TS_MAYBE_HAS] = aten_number(im->a, leaves[(*used)++]);
      pair[TS_MAYBE_VALUE] = unflatten(im, s->parts[0], leaves, used);
      if (aten_is_known(&pair[TS_MAYBE_HAS])) return pair[TS_MAYBE_HAS].u.b ? pair[TS_MAYBE_VALUE] : ATEN_NOTHING;
      for (uint32_t i = 0; i < TS_MAYBE_SLOTS; i++) o->base.slots[i] = pair[i];
      return (aten_value){.kind = ATEN_OBJECT, .u.object = &o->base};
    }
    case ITEMS:
      parts = base_new(im->arena, aten_value, s->count + 1);
      if (!parts) {
        no_memory(im);
        return ATEN_NOTHING;
      }
      for (uint32_t i = 0; i < s->count; i++) parts[i] = unflatten(im, s->parts[i], leaves, used);
      return rebuild(im, &s->sample, parts, s->count);
  }
  return (aten_value){.kind = ATEN_UNDEFINED};
}

aten_value ts_unflatten(ts_import *im, const ts_shape *shape, const ir_value *leaves) {
  uint32_t used = 0;
  return ts_ok(im) ? unflatten(im, shape, leaves, &used) : ATEN_NOTHING;
}

/* ---- something of a type ----------------------------------------------------------------------------------------- */

/* Of a task that has nothing to do. */
static ir_value some_future(ts_import *im, const ir_type *type) {
  ir_build *b = &im->build;
  const ir_block outer = b->block, block = ir_build_block(b);
  const bool several = type->elem->kind == IR_TUPLE;
  const uint32_t count = several ? ir_type_elems(type->elem) : 1;
  ir_value future = IR_NO_VALUE;
  b->block = block;
  for (uint32_t i = 0; i < count && ts_ok(im); i++)
    ir_build_result(b, block, ts_something(im, several ? &type->elem->elem[i] : type->elem));
  b->block = outer;
  if (ts_ok(im)) ir_build_region(b, "prim::fork", (ir_new_node){.out_types = type, .out_count = 1}, &block, 1, &future);
  return future;
}

ir_value ts_something(ts_import *im, const ir_type *type) {
  ir_build *b = &im->build;
  if (type->kind == IR_FUTURE && type->elem) return some_future(im, type);
  if (type->kind == IR_LIST) return ir_emit(b, "td::list_new", NULL, 0, NULL, 0);
  int64_t dims[BASE_MAX_RANK];
  int32_t rank = type->rank < 0 ? 0 : type->rank;
  for (int32_t i = 0; i < rank; i++) dims[i] = base_dim_known(type->dims[i]) ? type->dims[i] : 0;
  ir_value zero = ir_build_scalar(b, type->dtype, 0);
  if (rank == 0) return zero;
  return IR_EMIT(b, "aten::expand", zero, ir_build_ints(b, dims, (uint32_t)rank));
}
