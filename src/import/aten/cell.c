/* cell.c -- handles, cells and views: reading through a chain of views, and writing back through it.
 *
 * A cell's value is what its storage holds, as a dense tensor; a view says how it shows its base. Reading applies the
 * views from the cell on; writing goes the other way: the base with the shown part replaced becomes the base's new
 * contents. Whether two handles share a cell must be certain. Where PyTorch itself decides by strides that import does
 * not know (reshape, contiguous), the result is a cell of its own, the two are peers, and after a write to one the
 * other cannot be read any more: an error instead of a wrong number. */
#include "import/aten/aten_priv.h"

#include <string.h>

/* ---- making ---- */

aten_value aten_handle(aten *a, const aten_tensor *t) {
  aten_tensor *copy = aten_alloc(a, sizeof *copy);
  if (copy) {
    *copy = *t;
    copy->born = a->clock;
  }
  return copy ? (aten_value){.kind = ATEN_TENSOR, .u.tensor = copy} : ATEN_NOTHING;
}

aten_value aten_fresh(aten *a, ir_value value, aten_order dense) {
  aten_cell *cell = aten_alloc(a, sizeof *cell);
  if (!cell) return ATEN_NOTHING;
  *cell = (aten_cell){.value = value, .born = a->clock, .version = ++a->versions};
  cell->peers = cell;
  return aten_handle(a, &(aten_tensor){.cell = cell, .dense = dense});
}

aten_value aten_of(aten *a, ir_value value, bool is_dense) {
  return aten_fresh(a, value, is_dense ? ATEN_DENSE : ATEN_UNSURE);
}

void aten_mark_first(const aten_value *tensor) {
  if (tensor->kind == ATEN_TENSOR) tensor->u.tensor->cell->born = tensor->u.tensor->born = 0;
}

aten_value aten_of_complex(aten *a, ir_value value) {
  aten_value v = aten_fresh(a, value, ATEN_UNSURE);
  if (v.kind == ATEN_TENSOR) v.u.tensor->is_complex = true;
  return v;
}

aten_value aten_alias(aten *a, const aten_value *of) { return aten_handle(a, aten_now(of).u.tensor); }

void aten_may_share(const aten_value *x, const aten_value *y) {
  if (x->kind != ATEN_TENSOR || y->kind != ATEN_TENSOR) return;
  aten_cell *one = x->u.tensor->cell, *other = y->u.tensor->cell, *next = one->peers;
  if (one == other) return;
  for (aten_cell *peer = next; peer != one; peer = peer->peers)
    if (peer == other) return;
  one->peers = other->peers;
  other->peers = next;
}

bool aten_can_read(const aten_value *tensor) { return tensor->u.tensor->cell->broken == NULL; }
bool aten_is_quantised(const aten_value *tensor) { return tensor->u.tensor->quant != NULL; }

static bool same_scale(aten *a, ir_value x, ir_value y) {
  const double *p, *q;
  uint32_t count, other;
  return x.id == y.id || (ir_build_known_floats(a->b, x, &p, &count) && ir_build_known_floats(a->b, y, &q, &other) &&
                          count == other && memcmp(p, q, count * sizeof *p) == 0);
}

bool aten_kept_alike(aten *a, const aten_value *x, const aten_value *y) {
  const aten_quant *p = x->u.tensor->quant, *q = y->u.tensor->quant;
  if (x->u.tensor->is_complex != y->u.tensor->is_complex || !p != !q) return false;
  if (!p || p == q) return true;
  return p->axis == q->axis && same_scale(a, p->scale, q->scale) && same_scale(a, p->zero, q->zero);
}

aten_value aten_another(aten *a, const aten_value *like, ir_value value) {
  return aten_maybe_alias(a, like, value, ATEN_DENSE);
}

aten_value aten_maybe_alias(aten *a, const aten_value *of, ir_value value, aten_order dense) {
  aten_value v = aten_fresh(a, value, dense);
  if (v.kind != ATEN_TENSOR || of->kind != ATEN_TENSOR) return v;
  aten_may_share(of, &v);
  v.u.tensor->is_complex = of->u.tensor->is_complex;
  v.u.tensor->quant = of->u.tensor->quant;
  return v;
}

aten_value aten_now(const aten_value *v) {
  aten_value now = *v;
  while (now.kind == ATEN_TENSOR && now.u.tensor->successor) now.u.tensor = now.u.tensor->successor;
  return now;
}

/* ---- reading ---- */

static ir_value one_long(aten *a, ir_value v) {
  return ir_build_rank(a->b, v) ? v : aten_reshape(a, v, (int64_t[]){1}, 1);
}

static ir_value show(aten *a, const aten_tensor *t, ir_value base) {
  switch (t->kind) {
    case ATEN_VIEW_RESHAPE: return IR_EMIT(a->b, "aten::view", base, t->shape);
    case ATEN_VIEW_PERMUTE: return aten_permute(a, base, t->order, t->order_count);
    case ATEN_VIEW_EXPAND: return aten_expand(a, base, t->shape);
    case ATEN_VIEW_SLICE:
      return IR_EMIT(a->b, "aten::slice", base, one_long(a, t->start), one_long(a, t->end),
                     ir_build_ints(a->b, &t->dim, 1), one_long(a, t->step));
    default: {
      ir_value flat = aten_reshape(a, base, (int64_t[]){-1}, 1);
      return IR_EMIT_ARGS(a->b, "aten::index_select", ((ir_value[]){flat, t->start}), 2, ARG_INT("dim", 0));
    }
  }
}

static ir_value read_tensor(aten *a, aten_tensor *t) {
  if (ir_build_failed(a->b)) return IR_NO_VALUE;
  if (t->cell->broken) {
    ir_build_fail(a->b, TD_UNSUPPORTED,
                  "it reads a tensor that may share its memory with one that was written to in place (%s): whether it "
                  "does cannot be known before the model runs",
                  t->cell->broken);
    return IR_NO_VALUE;
  }
  if (!t->base) return t->cell->value;
  bool is_cached = t->cache.id && t->cached_version == t->cell->version && t->cached_rollback == a->rollbacks &&
                   t->cached_block.id == a->b->block.id;
  if (is_cached) return t->cache;
  ir_value base = read_tensor(a, t->base);
  ir_value v = show(a, t, base);
  t->cache = v;
  t->cached_version = t->cell->version;
  t->cached_rollback = a->rollbacks;
  t->cached_block = a->b->block;
  return v;
}

ir_value aten_read(aten *a, const aten_value *tensor) {
  if (ir_build_failed(a->b)) return IR_NO_VALUE;
  const bool hides = tensor->kind == ATEN_TENSOR && tensor->u.tensor->batch;
  if (tensor->kind == ATEN_TENSOR && !hides) return read_tensor(a, aten_now(tensor).u.tensor);
  if (hides) {
    ir_build_fail(a->b, TD_UNSUPPORTED, "a tensor of a region of vmap is written in place, or leaves the region");
    return IR_NO_VALUE;
  }
  ir_build_fail(a->b, TD_UNSUPPORTED, "a tensor is needed instead of %s", aten_kind_name(tensor));
  return IR_NO_VALUE;
}

/* ---- writing ---- */

static bool same_dims(const ir_type *x, const ir_type *y) {
  if (x->rank == IR_UNRANKED || x->rank != y->rank) return false;
  for (int32_t i = 0; i < x->rank; i++)
    if (x->dims[i] != y->dims[i]) return false;
  return true;
}

/* Are elements chosen by a constant index, each once at most? */
static bool all_differ(aten *a, ir_value index) {
  const base_tensor *t = ir_build_failed(a->b) ? NULL : ir_value_of(a->b->graph, index)->info.constant;
  const int64_t count = t ? base_tensor_numel(t) : 0;
  int64_t most = 0;
  for (int64_t i = 0; i < count; i++) most = base_max_i64(most, base_load_i64(t->dtype, t->data, i));
  bool *seen = t && most < 1 << 26 ? aten_alloc(a, (size_t)most + 1) : NULL;
  for (int64_t i = 0; seen && i < count; i++) {
    const int64_t at = base_load_i64(t->dtype, t->data, i);
    if (at < 0 || seen[at]) return false;
    seen[at] = true;
  }
  return seen != NULL;
}

static ir_value put_chosen(aten *a, const aten_tensor *t, ir_value base, ir_value v) {
  if (!all_differ(a, t->start)) {
    ir_build_fail(a->b, TD_UNSUPPORTED,
                  "it writes through a view whose elements may share memory (as_strided, unfold)");
    return v;
  }
  const int64_t flat[] = {-1};
  ir_value in[] = {aten_reshape(a, base, flat, 1), aten_reshape(a, t->start, flat, 1), aten_reshape(a, v, flat, 1)};
  return IR_EMIT(a->b, "aten::view", IR_EMIT_ARGS(a->b, "aten::scatter", in, 3, ARG_INT("dim", 0)),
                 aten_shape(a, base));
}

/* The base with what the view shows replaced by `v`. */
static ir_value put_back(aten *a, const aten_tensor *t, ir_value base, ir_value v) {
  int64_t inverse[BASE_MAX_RANK];
  switch (t->kind) {
    case ATEN_VIEW_RESHAPE: return IR_EMIT(a->b, "aten::view", v, aten_shape(a, base));
    case ATEN_VIEW_PERMUTE:
      for (uint32_t i = 0; i < t->order_count; i++) inverse[t->order[i]] = i;
      return aten_permute(a, v, inverse, t->order_count);
    case ATEN_VIEW_SLICE:
      return IR_EMIT_ARGS(a->b, "aten::slice_scatter",
                          ((ir_value[]){base, v, one_long(a, t->start), one_long(a, t->end), one_long(a, t->step)}), 5,
                          ARG_INT("dim", t->dim));
    case ATEN_VIEW_EXPAND:
      if (same_dims(ir_build_type(a->b, base), ir_build_type(a->b, v))) return v;
      ir_build_fail(a->b, TD_UNSUPPORTED, "it writes through an expanded view, whose elements share memory");
      return v;
    default: return put_chosen(a, t, base, v);
  }
}

static void write_tensor(aten *a, const aten_tensor *t, ir_value v) {
  if (ir_build_failed(a->b)) return;
  if (t->base) {
    ir_value base = read_tensor(a, t->base);
    write_tensor(a, t->base, put_back(a, t, base, v));
    return;
  }
  aten_cell *cell = t->cell;
  aten_save_cell(a, cell);
  cell->value = v;
  cell->version = ++a->versions;
  for (aten_cell *peer = cell->peers; peer != cell; peer = peer->peers) {
    aten_save_cell(a, peer);
    peer->broken = a->b->frame ? a->b->frame->name : "an in-place operator";
  }
}

/* Can elements of `from` be repeated to the sizes of `to`? What is not known before a run is checked in it. */
static bool fits(const ir_type *from, const ir_type *to) {
  if (from->rank == IR_UNRANKED || to->rank == IR_UNRANKED) return true;
  for (int32_t i = 1; i <= from->rank && i <= to->rank; i++) {
    const int64_t one = from->dims[from->rank - i], other = to->dims[to->rank - i];
    if (base_dim_known(one) && base_dim_known(other) && one != 1 && one != other) return false;
  }
  return from->rank <= to->rank;
}

void aten_write(aten *a, const aten_value *tensor, ir_value value) {
  ir_value now = aten_read(a, tensor);
  if (ir_build_failed(a->b)) return;
  ir_value v = ir_build_cast(a->b, value, aten_value_dtype(a, now));
  if (!ir_build_failed(a->b) && !fits(ir_build_type(a->b, v), ir_build_type(a->b, now)))
    ir_build_fail(a->b, TD_UNSUPPORTED, "the result is larger than the tensor that it is written into");
  if (ir_build_failed(a->b)) return;
  if (!same_dims(ir_build_type(a->b, now), ir_build_type(a->b, v))) v = aten_expand(a, v, aten_shape(a, now));
  const aten_tensor *t = aten_now(tensor).u.tensor;
  if (!ir_build_failed(a->b)) write_tensor(a, t, v);
}

/* ---- views ---- */

/* A view of `of`; the caller fills the rest. */
static aten_tensor view_of(const aten_value *of, aten_view_kind kind) {
  aten_tensor *base = aten_now(of).u.tensor;
  return (aten_tensor){.cell = base->cell,
                       .base = base,
                       .kind = kind,
                       .is_complex = base->is_complex,
                       .quant = base->quant,
                       .dense = ATEN_UNSURE};
}

static bool is_tensor(aten *a, const aten_value *of) {
  if (ir_build_failed(a->b)) return false;
  if (of->kind == ATEN_TENSOR) return true;
  ir_build_fail(a->b, TD_UNSUPPORTED, "a tensor is needed instead of %s", aten_kind_name(of));
  return false;
}

aten_value aten_view_reshape(aten *a, const aten_value *of, ir_value shape) {
  if (!is_tensor(a, of)) return ATEN_NOTHING;
  aten_tensor t = view_of(of, ATEN_VIEW_RESHAPE);
  t.shape = shape;
  t.dense = of->u.tensor->dense;
  return aten_handle(a, &t);
}

aten_value aten_view_permute(aten *a, const aten_value *of, const int64_t *order, uint32_t count) {
  bool is_moved = false;
  if (!is_tensor(a, of)) return ATEN_NOTHING;
  aten_tensor t = view_of(of, ATEN_VIEW_PERMUTE);
  for (uint32_t i = 0; i < count && i < BASE_MAX_RANK; i++) {
    t.order[i] = order[i];
    is_moved = is_moved || order[i] != i;
  }
  t.order_count = count;
  t.dense = is_moved ? ATEN_UNSURE : of->u.tensor->dense;
  return aten_handle(a, &t);
}

aten_value aten_view_slice(aten *a, const aten_value *of, int64_t dim, ir_value start, ir_value end, ir_value step) {
  int64_t by = 0;
  if (!is_tensor(a, of)) return ATEN_NOTHING;
  aten_tensor t = view_of(of, ATEN_VIEW_SLICE);
  t.dim = dim;
  t.start = start;
  t.end = end;
  t.step = step;
  if (dim == 0 && ir_build_known_int(a->b, step, &by) && by == 1) t.dense = of->u.tensor->dense;
  return aten_handle(a, &t);
}

aten_value aten_view_expand(aten *a, const aten_value *of, ir_value shape) {
  if (!is_tensor(a, of)) return ATEN_NOTHING;
  aten_tensor t = view_of(of, ATEN_VIEW_EXPAND);
  t.shape = shape;
  return aten_handle(a, &t);
}

aten_value aten_view_gather(aten *a, const aten_value *of, ir_value index) {
  if (!is_tensor(a, of)) return ATEN_NOTHING;
  aten_tensor t = view_of(of, ATEN_VIEW_GATHER);
  t.start = index;
  return aten_handle(a, &t);
}

aten_cell *aten_cell_of(const aten_value *tensor) { return tensor->u.tensor->cell; }
