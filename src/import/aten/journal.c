/* journal.c -- what changed since a mark. An entry notes what a place held before its first change after the innermost
 * mark; undoing goes backwards. `clock` counts marks: a place whose `saved` is the clock of now has its entry. */
#include "import/aten/aten_priv.h"

#include <string.h>

struct aten_entry {
  aten_place place;
  uint32_t born;
  union {
    struct {
      ir_value value;
      const char *broken;
    } cell;
    aten_value slot;
    aten_tensor *successor;
    struct {
      aten_value *items, *values; /* copies */
      uint32_t count;
      ir_value graph;
      const aten_promise *promise;
    } list;
  } old;
};

static struct aten_entry *push(aten *a, aten_place_kind kind, void *at, uint32_t slot, uint32_t born) {
  struct aten_entry *e = ir_build_failed(a->b) ? NULL : base_vec_push(a->arena, &a->journal);
  if (e) {
    e->place = (aten_place){kind, at, slot};
    e->born = born;
  } else if (!ir_build_failed(a->b)) {
    a->journal.count = 0; /* a vector that could not grow is gone: rolling back must find nothing */
    ir_build_take(a->b, base_no_memory(a->b->err, "the journal of changes"));
  }
  return e;
}

void aten_save_cell(aten *a, aten_cell *cell) {
  if (!a->marks || cell->saved == a->clock) return;
  struct aten_entry *e = push(a, ATEN_PLACE_CELL, cell, 0, cell->born);
  if (!e) return;
  e->old.cell.value = cell->value;
  e->old.cell.broken = cell->broken;
  cell->saved = a->clock;
}

static aten_value *copy_items(aten *a, const aten_value *items, uint32_t count) {
  aten_value *copy = aten_alloc(a, (size_t)count * sizeof *copy);
  if (copy && count) memcpy(copy, items, count * sizeof *copy);
  return copy;
}

void aten_save_list(aten *a, aten_list *list) {
  if (!a->marks || list->saved == a->clock) return;
  aten_value *items = copy_items(a, list->items.at, list->items.count);
  struct aten_entry *e = items ? push(a, ATEN_PLACE_LIST, list, 0, list->born) : NULL;
  if (!e) return;
  e->old.list.items = items;
  e->old.list.count = list->items.count;
  e->old.list.graph = list->graph;
  e->old.list.promise = list->promise;
  list->saved = a->clock;
}

void aten_save_dict(aten *a, aten_dict *dict) {
  if (!a->marks || dict->saved == a->clock) return;
  aten_value *keys = copy_items(a, dict->keys.at, dict->keys.count);
  aten_value *values = keys ? copy_items(a, dict->values.at, dict->values.count) : NULL;
  struct aten_entry *e = values ? push(a, ATEN_PLACE_DICT, dict, 0, dict->born) : NULL;
  if (!e) return;
  e->old.list.items = keys;
  e->old.list.values = values;
  e->old.list.count = dict->keys.count;
  dict->saved = a->clock;
}

void aten_object_set(aten *a, aten_object *object, uint32_t slot, aten_value value) {
  if (ir_build_failed(a->b) || slot >= object->slot_count) return;
  struct aten_entry *e = a->marks ? push(a, ATEN_PLACE_SLOT, object, slot, object->born) : NULL;
  if (ir_build_failed(a->b)) return;
  if (e) e->old.slot = object->slots[slot];
  object->slots[slot] = value;
}

void aten_turn(aten *a, aten_tensor *tensor, aten_tensor *into) {
  struct aten_entry *e = a->marks ? push(a, ATEN_PLACE_TENSOR, tensor, 0, tensor->born) : NULL;
  if (ir_build_failed(a->b)) return;
  if (e) e->old.successor = tensor->successor;
  tensor->successor = into;
}

/* ---- marks ---- */

aten_mark aten_mark_now(aten *a) {
  a->marks++;
  return (aten_mark){.entry = a->journal.count, .number = ++a->clock};
}

uint32_t aten_changed(aten *a, aten_mark mark, aten_place **places) {
  uint32_t count = 0, most = a->journal.count > mark.entry ? a->journal.count - mark.entry : 0;
  aten_place *found = aten_alloc(a, (size_t)most * sizeof *found);
  base_map seen = {0};
  for (uint32_t i = mark.entry; found && i < a->journal.count; i++) {
    const aten_place *place = &a->journal.at[i].place;
    aten_place *key = &found[count];
    memset(key, 0, sizeof *key); /* the key is its bytes */
    key->kind = place->kind;
    key->at = place->at;
    key->slot = place->slot;
    base_str bytes = {(const char *)key, sizeof *key};
    if (base_map_get(&seen, bytes)) continue;
    if (!base_map_put(&seen, a->arena, bytes, count, NULL)) {
      ir_build_take(a->b, base_no_memory(a->b->err, "the journal of changes"));
      return 0;
    }
    count++;
  }
  *places = found;
  return found ? count : 0;
}

static void restore_items(aten_value **at, uint32_t *count, const aten_value *items, uint32_t old) {
  if (old) memcpy(*at, items, old * sizeof **at); /* room never shrinks */
  *count = old;
}

static void undo(aten *a, const struct aten_entry *e) {
  aten_cell *cell = e->place.at;
  aten_list *list = e->place.at;
  aten_dict *dict = e->place.at;
  aten_object *object = e->place.at;
  switch (e->place.kind) {
    case ATEN_PLACE_CELL:
      cell->value = e->old.cell.value;
      cell->broken = e->old.cell.broken;
      cell->version = ++a->versions;
      break;
    case ATEN_PLACE_LIST:
      restore_items(&list->items.at, &list->items.count, e->old.list.items, e->old.list.count);
      list->graph = e->old.list.graph;
      list->promise = e->old.list.promise;
      break;
    case ATEN_PLACE_DICT:
      restore_items(&dict->keys.at, &dict->keys.count, e->old.list.items, e->old.list.count);
      restore_items(&dict->values.at, &dict->values.count, e->old.list.values, e->old.list.count);
      break;
    case ATEN_PLACE_SLOT: object->slots[e->place.slot] = e->old.slot; break;
    case ATEN_PLACE_TENSOR: ((aten_tensor *)e->place.at)->successor = e->old.successor; break;
  }
}

void aten_rollback(aten *a, aten_mark mark) {
  while (a->journal.count > mark.entry) undo(a, &a->journal.at[--a->journal.count]);
  a->rollbacks++;
  a->clock++;
  a->marks--;
}

void aten_commit(aten *a, aten_mark mark) {
  (void)mark;
  a->clock++;
  if (!--a->marks) a->journal.count = 0; /* else the entries stay: an outer mark may roll them back */
}

bool aten_place_older(const aten *a, const aten_place *place, aten_mark mark) {
  uint32_t born = mark.number;
  (void)a;
  switch (place->kind) {
    case ATEN_PLACE_CELL: born = ((const aten_cell *)place->at)->born; break;
    case ATEN_PLACE_LIST: born = ((const aten_list *)place->at)->born; break;
    case ATEN_PLACE_DICT: born = ((const aten_dict *)place->at)->born; break;
    case ATEN_PLACE_SLOT: born = ((const aten_object *)place->at)->born; break;
    case ATEN_PLACE_TENSOR: born = ((const aten_tensor *)place->at)->born; break;
  }
  return born < mark.number;
}

/* ---- what stands there ---- */

aten_value aten_place_get(aten *a, const aten_place *place) {
  const aten_cell *cell = place->at;
  const aten_list *list = place->at;
  const aten_dict *dict = place->at;
  aten_value v = ATEN_NOTHING;
  switch (place->kind) {
    case ATEN_PLACE_CELL: return aten_fresh(a, cell->value, ATEN_DENSE);
    case ATEN_PLACE_LIST:
      return list->graph.id ? aten_list_graph(a, list->graph, list->promise)
                            : aten_list_of(a, list->items.at, list->items.count);
    case ATEN_PLACE_DICT:
      v = aten_dict_of(a);
      for (uint32_t i = 0; i < dict->keys.count; i++) aten_dict_set(a, v.u.dict, dict->keys.at[i], dict->values.at[i]);
      return v;
    case ATEN_PLACE_SLOT: return ((const aten_object *)place->at)->slots[place->slot];
    case ATEN_PLACE_TENSOR: return (aten_value){.kind = ATEN_TENSOR, .u.tensor = place->at};
  }
  return v;
}

const char *aten_place_broken(const aten_place *place) {
  return place->kind == ATEN_PLACE_CELL ? ((const aten_cell *)place->at)->broken : NULL;
}

void aten_place_break(aten *a, const aten_place *place, const char *why) {
  aten_cell *cell = place->at;
  if (ir_build_failed(a->b)) return;
  aten_save_cell(a, cell);
  cell->broken = why;
}

void aten_place_set(aten *a, const aten_place *place, const aten_value *value) {
  aten_cell *cell = place->at;
  aten_list *list = place->at;
  aten_dict *dict = place->at;
  if (ir_build_failed(a->b)) return;
  switch (place->kind) {
    case ATEN_PLACE_CELL:
      aten_save_cell(a, cell);
      cell->value = aten_read(a, value);
      cell->version = ++a->versions;
      break;
    case ATEN_PLACE_LIST:
      aten_save_list(a, list);
      list->items.count = 0;
      list->graph = value->u.list->graph;
      list->promise = value->u.list->promise;
      for (uint32_t i = 0; i < value->u.list->items.count; i++) aten_list_append(a, list, value->u.list->items.at[i]);
      break;
    case ATEN_PLACE_DICT:
      aten_save_dict(a, dict);
      dict->keys.count = dict->values.count = 0;
      for (uint32_t i = 0; i < value->u.dict->keys.count; i++)
        aten_dict_set(a, dict, value->u.dict->keys.at[i], value->u.dict->values.at[i]);
      break;
    case ATEN_PLACE_SLOT: aten_object_set(a, place->at, place->slot, *value); break;
    case ATEN_PLACE_TENSOR:
      ir_build_fail(a->b, TD_UNSUPPORTED,
                    "the sizes of a tensor are changed in place (squeeze_, transpose_) inside a branch or a loop");
      break;
  }
}
