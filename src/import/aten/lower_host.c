/* lower_host.c -- what programs ask of tensors (sizes, dtype), and lists, dicts and texts. */
#include "import/aten/aten_priv.h"

#include <string.h>

static const aten_value *self(const aten_args *c) { return &c->args[0]; }
static bool is_complex(const aten_args *c) { return self(c)->kind == ATEN_TENSOR && self(c)->u.tensor->is_complex; }

/* ---- tensors ---- */

static int32_t rank_of(aten_args *c) { return aten_rank(c->a, aten_read(c->a, self(c))) - (is_complex(c) ? 1 : 0); }

/* size(self), size(self, dim), sym_size */
aten_value aten_lower_size(aten_args *c) {
  ir_value x = aten_read(c->a, self(c));
  int32_t rank = rank_of(c);
  if (c->schema->count > 1) {
    int64_t dim = ir_build_axis(c->b, aten_get_int(c, 1), rank);
    return ir_build_failed(c->b) ? ATEN_NOTHING : aten_size(c->a, x, dim);
  }
  aten_value list = aten_list_of(c->a, NULL, 0);
  for (int32_t i = 0; i < rank; i++) aten_list_append(c->a, list.u.list, aten_size(c->a, x, i));
  return list;
}
aten_value aten_lower_dim(aten_args *c) { return aten_int(rank_of(c)); }
aten_value aten_lower_numel(aten_args *c) {
  ir_value x = aten_read(c->a, self(c));
  if (is_complex(c)) x = aten_select(c->a, x, -1, 0);
  return aten_number(c->a, aten_numel(c->a, x));
}
/* stride(self), stride(self, dim), of a tensor that is known to be contiguous */
aten_value aten_lower_stride(aten_args *c) {
  int32_t rank = rank_of(c);
  aten_value list = aten_list_of(c->a, NULL, 0), by = aten_int(1), all[BASE_MAX_RANK];
  if (self(c)->u.tensor->dense != ATEN_DENSE) aten_refuse(c, "the strides are not known");
  for (int32_t i = rank; i-- > 0 && !ir_build_failed(c->b);) {
    all[i] = by;
    by = aten_int_op(c->a, "mul", by, aten_size(c->a, aten_read(c->a, self(c)), i));
  }
  if (ir_build_failed(c->b)) return list;
  if (c->schema->count > 1) return all[ir_build_axis(c->b, aten_get_int(c, 1), rank)];
  for (int32_t i = 0; i < rank; i++) aten_list_append(c->a, list.u.list, all[i]);
  return list;
}

int64_t aten_tensor_scalar_type(aten *a, const aten_value *tensor) {
  if (tensor->kind != ATEN_TENSOR) return -1;
  td_dtype d = aten_value_dtype(a, aten_read(a, tensor));
  if (tensor->u.tensor->is_complex) return d == TD_F64 ? 10 : d == TD_F16 ? 8 : 9;
  if (tensor->u.tensor->quant) return d == TD_I8 ? 12 : d == TD_U8 ? 13 : 14;
  return aten_scalar_type(a, d);
}
aten_value aten_lower_dtype(aten_args *c) { return aten_int(aten_tensor_scalar_type(c->a, self(c))); }
aten_value aten_lower_device(aten_args *c) {
  if (self(c)->kind == ATEN_STR) return (aten_value){.kind = ATEN_DEVICE, .u.text = self(c)->u.text};
  return aten_device(c->a, BASE_STR("cpu"));
}
aten_value aten_lower_device_type(aten_args *c) {
  base_str s = aten_str_of(self(c));
  size_t n = 0;
  while (n < s.length && s.at[n] != ':') n++;
  return aten_str(c->a, (base_str){s.at, n});
}
/* data: "t", "f", "n": true, false, None whatever is asked */
aten_value aten_lower_constant(aten_args *c) {
  return c->row->data[0] == 'n'   ? ATEN_NOTHING
         : c->row->data[0] == '0' ? aten_int(0)
                                  : aten_bool(c->row->data[0] == 't');
}
/* data: "float", "complex", "signed", "quantised" */
aten_value aten_lower_is_kind(aten_args *c) {
  const char *what = c->row->data;
  const aten_tensor *t = self(c)->u.tensor;
  td_dtype d = aten_value_dtype(c->a, aten_read(c->a, self(c)));
  if (strcmp(what, "complex") == 0) return aten_bool(t->is_complex);
  if (strcmp(what, "quantised") == 0) return aten_bool(t->quant != NULL);
  if (strcmp(what, "signed") == 0) return aten_bool(base_dtype(d)->is_signed || base_is_float(d));
  return aten_bool(base_is_float(d) && !t->is_complex && !t->quant);
}
aten_value aten_lower_is_contiguous(aten_args *c) {
  if (self(c)->u.tensor->dense == ATEN_UNSURE) aten_refuse(c, "whether the tensor is contiguous is not known");
  return aten_bool(self(c)->u.tensor->dense == ATEN_DENSE);
}
aten_value aten_lower_result_type(aten_args *c) {
  aten_mix m = {0};
  for (uint32_t i = 0; i < 2; i++) aten_mix_value(c->a, &m, &c->args[i]);
  return aten_int(aten_scalar_type(c->a, aten_mix_result(&m)));
}
/* _shape_as_tensor */
aten_value aten_lower_shape_tensor(aten_args *c) { return aten_ret(c, aten_shape(c->a, aten_in(c, 0))); }
aten_value aten_lower_num_to_tensor(aten_args *c) {
  const aten_value *v = self(c);
  return aten_fresh(c->a,
                    aten_number_value(c->a, v,
                                      v->kind == ATEN_FLOAT  ? TD_F64
                                      : v->kind == ATEN_BOOL ? TD_BOOL
                                                             : TD_I64),
                    ATEN_DENSE);
}
/* The argument itself. */
aten_value aten_lower_same(aten_args *c) { return *self(c); }
/* Assertions that import need not make. */
aten_value aten_lower_nothing(aten_args *c) {
  (void)c;
  return ATEN_NOTHING;
}
aten_value aten_lower_equal(aten_args *c) {
  ir_value x = aten_in(c, 0), y = aten_in(c, 1);
  const ir_type p = *ir_build_type(c->b, x), q = *ir_build_type(c->b, y);
  bool differ = p.rank != q.rank;
  for (int32_t i = 0; i < p.rank && !differ; i++)
    differ = base_dim_known(p.dims[i]) && base_dim_known(q.dims[i]) && p.dims[i] != q.dims[i];
  if (differ) return aten_bool(false);
  ir_value same = aten_binary(c->a, "aten::eq", x, ir_build_cast(c->b, y, p.dtype));
  return aten_number(c->a, IR_EMIT_ARGS(c->b, "aten::all", &same, 1, ARG_BOOL("keepdim", false)));
}

/* ---- identity ---- */

/* data: "not" */
aten_value aten_lower_is(aten_args *c) {
  const aten_value *x = self(c), *y = &c->args[1];
  bool same = x->kind == ATEN_NONE || y->kind == ATEN_NONE ? x->kind == y->kind : aten_same(x, y);
  return aten_bool(same != (c->row->data != NULL));
}

/* ---- lists ---- */

static aten_list *list_of(aten_args *c, uint32_t i) {
  const aten_value *v = &c->args[i];
  if (!aten_is_known(v)) aten_refuse(c, "a list that is known only when the model runs");
  if (v->kind != ATEN_LIST && v->kind != ATEN_TUPLE)
    aten_refuse(c, "a list is needed instead of %s", aten_kind_name(v));
  return ir_build_failed(c->b) ? NULL : v->u.list;
}

/* Item `i` of a list as Python counts; -1 and failed when there is none. */
static int64_t item_at(aten_args *c, const aten_list *l, uint32_t i) {
  int64_t at = aten_get_int(c, i), n = l ? l->items.count : 0;
  if (at < 0) at += n;
  if (at >= 0 && at < n) return at;
  aten_refuse(c, "item %lld of a list of %lld", (long long)aten_get_int(c, i), (long long)n);
  return -1;
}

/* An item of a list of the graph: numbers of rank 0 and i64, f64 or bool are numbers of the program, as far as import
 * can tell them from tensors. */
static aten_value item_of(aten *a, ir_value v, const aten_promise *promise) {
  const ir_type *type = ir_build_type(a->b, v);
  if (type->kind == IR_FUTURE && promise) return (aten_value){.kind = ATEN_FUTURE, .graph = v, .u.promise = promise};
  bool number = type->rank == 0 && (type->dtype == TD_I64 || type->dtype == TD_F64 || type->dtype == TD_BOOL);
  return number ? aten_number(a, v) : aten_fresh(a, v, ATEN_UNSURE);
}

static aten_value graph_item(aten_args *c) {
  ir_value in[] = {self(c)->u.list->graph, aten_int_value(c, 1)};
  return item_of(c->a, IR_EMIT(c->b, "td::list_at", in[0], in[1]), self(c)->u.list->promise);
}

/* An item whose number only running knows: of a list of numbers, or of tensors of one shape. */
static aten_value computed_item(aten_args *c, const aten_list *l) {
  bool numbers = l && l->items.count > 0, tensors = numbers;
  const aten_promise *promise = NULL;
  for (uint32_t i = 0; l && i < l->items.count; i++) {
    aten_kind kind = l->items.at[i].kind;
    numbers = numbers && (kind == ATEN_INT || kind == ATEN_FLOAT || kind == ATEN_BOOL);
    tensors = tensors && (kind == ATEN_TENSOR || kind == ATEN_FUTURE);
    promise = aten_promise_with(c->a, promise, &l->items.at[i]);
  }
  ir_value index = aten_reshape(c->a, aten_int_value(c, 1), (int64_t[]){1}, 1);
  if (numbers) {
    td_dtype d = l->items.at[0].kind == ATEN_FLOAT ? TD_F64 : l->items.at[0].kind == ATEN_BOOL ? TD_BOOL : TD_I64;
    ir_value *v = aten_alloc(c->a, l->items.count * sizeof *v);
    for (uint32_t i = 0; v && i < l->items.count; i++)
      v[i] = aten_reshape(c->a, aten_number_value(c->a, &l->items.at[i], d), (int64_t[]){1}, 1);
    if (!v) return ATEN_NOTHING;
    ir_value all = aten_cat(c->a, v, l->items.count, 0);
    ir_value one = IR_EMIT_ARGS(c->b, "aten::index_select", ((ir_value[]){all, index}), 2, ARG_INT("dim", 0));
    return aten_number(c->a, aten_reshape(c->a, one, NULL, 0));
  }
  if (tensors) {
    aten_value v = aten_list_graph(c->a, aten_graph_value(c->a, self(c)), promise);
    aten_args inner = *c;
    aten_value args[] = {v, c->args[1]};
    inner.args = args;
    return graph_item(&inner);
  }
  aten_refuse(c, "an item that is known only when the model runs");
  return ATEN_NOTHING;
}
aten_value aten_lower_list_get(aten_args *c) {
  if (!aten_is_known(self(c))) return graph_item(c);
  aten_list *l = list_of(c, 0);
  if (l && !aten_is_known(&c->args[1])) return computed_item(c, l);
  int64_t at = item_at(c, l, 1);
  return at < 0 ? ATEN_NOTHING : l->items.at[at];
}
aten_value aten_lower_list_set(aten_args *c) {
  aten_list *l = list_of(c, 0);
  int64_t at = item_at(c, l, 1);
  if (at >= 0) aten_list_set(c->a, l, (uint32_t)at, c->args[2]);
  return *self(c);
}
aten_value aten_lower_list_append(aten_args *c) {
  aten_list_append(c->a, self(c)->u.list, c->args[1]);
  return *self(c);
}
/* `to`, which the graph may hold, with the items of list `i` behind its own. */
static aten_value with_items(aten_args *c, aten_value to, uint32_t i) {
  const aten_list *more = list_of(c, i);
  const uint32_t count = more ? more->items.count : 0; /* a list may be added to itself */
  for (uint32_t k = 0; k < count && !ir_build_failed(c->b); k++) aten_list_append(c->a, to.u.list, more->items.at[k]);
  return to;
}
aten_value aten_lower_list_extend(aten_args *c) { return with_items(c, *self(c), 1); }
/* Makes `l` hold what stands in `from` (which may be of the same memory). */
static void assign(aten_args *c, aten_list *l, const aten_value *from, uint32_t count) {
  aten_place place = {.kind = ATEN_PLACE_LIST, .at = l};
  aten_value v = aten_list_of(c->a, from, count);
  if (!ir_build_failed(c->b)) aten_place_set(c->a, &place, &v);
}
/* The list without item `at`. */
static void remove_at(aten_args *c, aten_list *l, uint32_t at) {
  aten_value v = aten_list_of(c->a, NULL, 0);
  for (uint32_t i = 0; i < l->items.count; i++)
    if (i != at) aten_list_append(c->a, v.u.list, l->items.at[i]);
  if (!ir_build_failed(c->b)) assign(c, l, v.u.list->items.at, v.u.list->items.count);
}
/* td::list_at and td::list_erase of a list of the graph. */
static aten_value graph_pop(aten_args *c) {
  aten_list *l = self(c)->u.list;
  aten_value item = graph_item(c);
  ir_value in[] = {l->graph, aten_int_value(c, 1)};
  ir_value rest = ir_emit(c->b, "td::list_erase", in, 2, NULL, 0);
  if (ir_build_failed(c->b)) return item;
  aten_save_list(c->a, l);
  l->graph = rest;
  return item;
}
aten_value aten_lower_list_pop(aten_args *c) {
  if (!aten_is_known(self(c))) return graph_pop(c);
  aten_list *l = list_of(c, 0);
  int64_t at = item_at(c, l, 1);
  if (at < 0) return ATEN_NOTHING;
  aten_value v = l->items.at[at];
  remove_at(c, l, (uint32_t)at);
  return v;
}
aten_value aten_lower_list_delete(aten_args *c) {
  (void)aten_lower_list_pop(c);
  return ATEN_NOTHING;
}
aten_value aten_lower_list_insert(aten_args *c) {
  aten_list *l = list_of(c, 0);
  aten_value v = aten_list_of(c->a, NULL, 0);
  int64_t at = aten_get_int(c, 1), n = l ? l->items.count : 0;
  at = at < 0 ? base_max_i64(at + n, 0) : base_min_i64(at, n);
  for (int64_t i = 0; l && i <= n; i++) {
    if (i == at) aten_list_append(c->a, v.u.list, c->args[2]);
    if (i < n) aten_list_append(c->a, v.u.list, l->items.at[i]);
  }
  if (!ir_build_failed(c->b)) assign(c, l, v.u.list->items.at, v.u.list->items.count);
  return ATEN_NOTHING;
}
aten_value aten_lower_list_clear(aten_args *c) {
  aten_list *l = list_of(c, 0);
  if (l) assign(c, l, NULL, 0);
  return ATEN_NOTHING;
}
aten_value aten_lower_list_reverse(aten_args *c) {
  aten_list *l = list_of(c, 0);
  aten_value v = aten_list_of(c->a, NULL, 0);
  for (uint32_t i = l ? l->items.count : 0; i-- > 0;) aten_list_append(c->a, v.u.list, l->items.at[i]);
  if (!ir_build_failed(c->b)) assign(c, l, v.u.list->items.at, v.u.list->items.count);
  return ATEN_NOTHING;
}
aten_value aten_lower_list_copy(aten_args *c) {
  if (!aten_is_known(self(c))) return aten_list_graph(c->a, self(c)->u.list->graph, self(c)->u.list->promise);
  if (self(c)->kind == ATEN_STR) {
    aten_value v = aten_list_of(c->a, NULL, 0);
    const base_str s = aten_str_of(self(c));
    for (size_t i = 0; i < s.length; i++) aten_list_append(c->a, v.u.list, aten_str(c->a, (base_str){s.at + i, 1}));
    return v;
  }
  aten_list *l = list_of(c, 0);
  return l ? aten_list_of(c->a, l->items.at, l->items.count) : ATEN_NOTHING;
}
/* data: "in place": into the first one */
aten_value aten_lower_list_add(aten_args *c) {
  const aten_value v = c->row->data ? *self(c) : aten_lower_list_copy(c);
  return ir_build_failed(c->b) ? ATEN_NOTHING : with_items(c, v, 1);
}
enum { MAX_ITEMS = 1 << 20 };
aten_value aten_lower_list_mul(aten_args *c) {
  bool swapped = self(c)->kind == ATEN_INT;
  aten_list *l = list_of(c, swapped ? 1 : 0);
  int64_t n = aten_get_int(c, swapped ? 0 : 1);
  aten_value v = aten_list_of(c->a, NULL, 0);
  if (l && n > 0 && (int64_t)l->items.count > MAX_ITEMS / n) aten_refuse(c, "a list of too many items");
  for (int64_t k = 0; l && k < n && l->items.count && !ir_build_failed(c->b); k++)
    for (uint32_t i = 0; i < l->items.count; i++) aten_list_append(c->a, v.u.list, l->items.at[i]);
  return v;
}

/* Where a bound of a slice with `step` stands among `n` things: before the first, or behind the last, at most. */
static int64_t bound(aten_args *c, uint32_t i, int64_t n, int64_t step, int64_t fallback) {
  if (!aten_has(c, i)) return fallback;
  const int64_t least = step < 0 ? -1 : 0, given = aten_get_int(c, i);
  return base_max_i64(least, base_min_i64(given < 0 ? given + n : given, n + least));
}
int64_t aten_slice_bounds(aten_args *c, int64_t n, int64_t *from, int64_t *step) {
  *step = base_max_i64(aten_get_int(c, 3), -INT64_MAX);
  if (*step == 0) aten_refuse(c, "a step of 0");
  if (ir_build_failed(c->b)) return 0;
  *from = bound(c, 1, n, *step, *step < 0 ? n - 1 : 0);
  const int64_t to = bound(c, 2, n, *step, *step < 0 ? -1 : n);
  const int64_t way = *step < 0 ? *from - to : to - *from, size = *step < 0 ? -*step : *step;
  return way > 0 ? (way - 1) / size + 1 : 0;
}
aten_value aten_lower_list_slice(aten_args *c) {
  aten_list *l = list_of(c, 0);
  aten_value v = aten_list_of(c->a, NULL, 0);
  if (!l) return v;
  int64_t at = 0, step = 1, count = aten_slice_bounds(c, l->items.count, &at, &step);
  for (int64_t i = 0; i < count && !ir_build_failed(c->b); i++)
    aten_list_append(c->a, v.u.list, l->items.at[at + i * step]);
  return v;
}

/* The dict, of which argument 1 is a key. */
static aten_dict *keyed_dict(aten_args *c) {
  if (!aten_is_known(&c->args[1])) aten_refuse(c, "a key that is known only when the model runs");
  return self(c)->u.dict;
}
aten_value aten_lower_contains(aten_args *c) {
  if (self(c)->kind == ATEN_DICT) return aten_bool(aten_dict_get(keyed_dict(c), &c->args[1]) != NULL);
  const aten_list *l = list_of(c, 0);
  return l ? aten_is_among(c->a, l, &c->args[1]) : aten_bool(false);
}
/* index, count (data), remove (data) of an item */
aten_value aten_lower_list_find(aten_args *c) {
  aten_list *l = list_of(c, 0);
  int64_t found = 0;
  for (uint32_t i = 0; l && i < l->items.count; i++) {
    if (!aten_is_known(&l->items.at[i]) || !aten_is_known(&c->args[1]))
      aten_refuse(c, "items that are known only when the model runs");
    if (!aten_same(&l->items.at[i], &c->args[1])) continue;
    if (c->row->data && c->row->data[0] == 'c') found++;
    else if (c->row->data) {
      remove_at(c, l, i);
      return ATEN_NOTHING;
    } else return aten_int(i);
  }
  if (c->row->data && c->row->data[0] == 'c') return aten_int(found);
  aten_refuse(c, "the item is not in the list");
  return ATEN_NOTHING;
}

static bool before(const aten_value *x, const aten_value *y) {
  if (x->kind == ATEN_STR && y->kind == ATEN_STR) {
    const base_str s = aten_str_of(x), t = aten_str_of(y);
    size_t n = s.length < t.length ? s.length : t.length;
    int order = n ? memcmp(s.at, t.at, n) : 0;
    return order ? order < 0 : s.length < t.length;
  }
  double p = x->kind == ATEN_FLOAT ? x->u.f : x->kind == ATEN_BOOL ? x->u.b : (double)x->u.i;
  double q = y->kind == ATEN_FLOAT ? y->u.f : y->kind == ATEN_BOOL ? y->u.b : (double)y->u.i;
  return x->kind == ATEN_INT && y->kind == ATEN_INT ? x->u.i < y->u.i : p < q;
}
/* sort(self, reverse) in place; sorted(self) (data) a copy */
aten_value aten_lower_list_sort(aten_args *c) {
  aten_list *l = list_of(c, 0);
  bool reverse = c->schema->count > 1 && aten_get_bool(c, 1);
  if (!l) return ATEN_NOTHING;
  aten_value v = aten_list_of(c->a, l->items.at, l->items.count);
  if (ir_build_failed(c->b)) return v;
  aten_value *at = v.u.list->items.at;
  for (uint32_t i = 0; i < l->items.count; i++) {
    bool fine =
        (at[i].kind == ATEN_STR || at[i].kind == ATEN_INT || at[i].kind == ATEN_FLOAT || at[i].kind == ATEN_BOOL) &&
        aten_is_known(&at[i]);
    if (!fine) aten_refuse(c, "items that are known only when the model runs");
  }
  for (uint32_t i = 1; i < l->items.count && !ir_build_failed(c->b); i++) { /* stable */
    aten_value item = at[i];
    uint32_t k = i;
    for (; k > 0 && (reverse ? before(&at[k - 1], &item) : before(&item, &at[k - 1])); k--) at[k] = at[k - 1];
    at[k] = item;
  }
  if (c->row->data) return v;
  assign(c, l, at, l->items.count);
  return ATEN_NOTHING;
}
/* unbind of a tuple: TupleIndex, TupleUnpack give what is there */
aten_value aten_lower_tuple_get(aten_args *c) {
  aten_list *l = list_of(c, 0);
  int64_t at = item_at(c, l, 1);
  return at < 0 ? ATEN_NOTHING : l->items.at[at];
}

aten_value aten_lower_len(aten_args *c) {
  const aten_value *v = self(c);
  if (!aten_is_known(v)) return aten_number(c->a, IR_EMIT(c->b, "td::list_len", v->u.list->graph));
  if (v->kind == ATEN_LIST || v->kind == ATEN_TUPLE) return aten_int(v->u.list->items.count);
  if (v->kind == ATEN_DICT) return aten_int(v->u.dict->keys.count);
  if (v->kind == ATEN_STR) return aten_int((int64_t)aten_str_of(v).length);
  return aten_size(c->a, aten_read(c->a, v), 0);
}

enum { MAX_TOLIST = 4096 };

/* Numbers of `v` (rank `rank` under `dim`) as nested lists. */
static aten_value nested(aten_args *c, ir_value v, int32_t rank) {
  if (rank == 0) return aten_number(c->a, v);
  aten_value list = aten_list_of(c->a, NULL, 0);
  aten_value size = aten_size(c->a, v, 0);
  for (int64_t i = 0; i < size.u.i && !ir_build_failed(c->b); i++)
    aten_list_append(c->a, list.u.list, nested(c, aten_select(c->a, v, 0, i), rank - 1));
  return list;
}
aten_value aten_lower_tolist(aten_args *c) {
  ir_value v = aten_in(c, 0);
  const ir_type *type = ir_build_type(c->b, v);
  int64_t count = ir_build_failed(c->b) ? -1 : ir_known_count(type);
  if (count < 0 || count > MAX_TOLIST) {
    aten_refuse(c, "a tensor of more than %d elements, or of open sizes", MAX_TOLIST);
    return ATEN_NOTHING;
  }
  return nested(c, v, type->rank);
}

/* ---- dicts ---- */

static aten_dict *dict_of(aten_args *c) { return self(c)->u.dict; }

/* get(self, key, default?) gives the default; __getitem__ (data) fails */
aten_value aten_lower_dict_get(aten_args *c) {
  const aten_value *v = aten_dict_get(keyed_dict(c), &c->args[1]);
  if (v) return *v;
  if (!c->row->data) return c->schema->count > 2 ? c->args[2] : ATEN_NOTHING;
  base_text key = {.allocator = base_arena_allocator(c->a->arena)};
  aten_print(&c->args[1], &key);
  aten_refuse(c, "the dict has no key %s", key.at ? key.at : "");
  base_text_free(&key);
  return ATEN_NOTHING;
}
aten_value aten_lower_dict_set(aten_args *c) {
  aten_dict_set(c->a, keyed_dict(c), c->args[1], c->args[2]);
  return ATEN_NOTHING;
}
aten_value aten_lower_dict_setdefault(aten_args *c) {
  const aten_value *v = aten_dict_get(keyed_dict(c), &c->args[1]);
  if (v) return *v;
  aten_dict_set(c->a, keyed_dict(c), c->args[1], c->args[2]);
  return c->args[2];
}
/* data: "k" keys, "v" values, "i" pairs */
aten_value aten_lower_dict_items(aten_args *c) {
  aten_dict *d = dict_of(c);
  aten_value list = aten_list_of(c->a, NULL, 0);
  for (uint32_t i = 0; i < d->keys.count; i++) {
    aten_value pair[] = {d->keys.at[i], d->values.at[i]};
    char what = c->row->data[0];
    aten_list_append(c->a, list.u.list, what == 'k' ? pair[0] : what == 'v' ? pair[1] : aten_tuple_of(c->a, pair, 2));
  }
  return list;
}
static void put_all(aten_args *c, aten_dict *to, const aten_dict *from) {
  for (uint32_t i = 0; i < from->keys.count; i++) aten_dict_set(c->a, to, from->keys.at[i], from->values.at[i]);
}
aten_value aten_lower_dict_update(aten_args *c) {
  put_all(c, dict_of(c), c->args[1].u.dict);
  return ATEN_NOTHING;
}
/* dict(), dict(a dict), dict(pairs), copy */
aten_value aten_lower_dict_new(aten_args *c) {
  aten_value v = aten_dict_of(c->a);
  if (!c->schema->count || ir_build_failed(c->b)) return v;
  if (self(c)->kind == ATEN_DICT) put_all(c, v.u.dict, dict_of(c));
  else {
    aten_list *l = list_of(c, 0);
    for (uint32_t i = 0; l && i < l->items.count; i++) {
      const aten_value *pair = &l->items.at[i];
      if (pair->kind == ATEN_TUPLE && pair->u.list->items.count == 2)
        aten_dict_set(c->a, v.u.dict, pair->u.list->items.at[0], pair->u.list->items.at[1]);
      else aten_refuse(c, "pairs are needed");
    }
  }
  return v;
}
/* The dict without a key; pop gives the value, Delete (data) nothing. */
aten_value aten_lower_dict_pop(aten_args *c) {
  aten_dict *d = keyed_dict(c);
  const aten_value *found = aten_dict_get(d, &c->args[1]);
  if (!found) {
    if (c->schema->count > 2) return c->args[2];
    aten_refuse(c, "the dict does not have the key");
    return ATEN_NOTHING;
  }
  aten_value v = *found, rest = aten_dict_of(c->a);
  aten_place place = {.kind = ATEN_PLACE_DICT, .at = d};
  for (uint32_t i = 0; i < d->keys.count && !ir_build_failed(c->b); i++)
    if (!aten_same(&d->keys.at[i], &c->args[1])) aten_dict_set(c->a, rest.u.dict, d->keys.at[i], d->values.at[i]);
  if (!ir_build_failed(c->b)) aten_place_set(c->a, &place, &rest);
  return c->row->data ? ATEN_NOTHING : v;
}
aten_value aten_lower_dict_clear(aten_args *c) {
  aten_place place = {.kind = ATEN_PLACE_DICT, .at = dict_of(c)};
  aten_value empty = aten_dict_of(c->a);
  if (!ir_build_failed(c->b)) aten_place_set(c->a, &place, &empty);
  return ATEN_NOTHING;
}

/* ---- values as values of the graph ---- */

ir_value aten_item_value(aten *a, const aten_value *v) {
  if (aten_is_complex(v))
    ir_build_fail(a->b, TD_UNSUPPORTED,
                  "a list that only running knows cannot hold complex tensors; it can hold their "
                  "view_as_real");
  return aten_graph_value(a, v);
}

ir_value aten_graph_value(aten *a, const aten_value *v) {
  if (ir_build_failed(a->b)) return IR_NO_VALUE;
  if (!aten_is_known(v)) return v->kind == ATEN_LIST ? v->u.list->graph : v->graph;
  if (v->kind == ATEN_TENSOR) return aten_read(a, v);
  if (v->kind == ATEN_INT) return aten_number_value(a, v, TD_I64);
  if (v->kind == ATEN_FLOAT) return aten_number_value(a, v, TD_F64);
  if (v->kind == ATEN_BOOL) return aten_number_value(a, v, TD_BOOL);
  if (v->kind == ATEN_LIST && v->u.list->items.count) {
    uint32_t count = v->u.list->items.count;
    ir_value *items = aten_alloc(a, count * sizeof *items);
    for (uint32_t i = 0; items && i < count; i++) items[i] = aten_item_value(a, &v->u.list->items.at[i]);
    return items ? ir_emit(a->b, "td::list_new", items, count, NULL, 0) : IR_NO_VALUE;
  }
  ir_build_fail(a->b, TD_UNSUPPORTED, "a value of type %s cannot be computed when the model runs", aten_kind_name(v));
  return IR_NO_VALUE;
}
