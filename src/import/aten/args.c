/* args.c -- what lowerings read of a call, and the small pieces they build with. */
#include "import/aten/aten_priv.h"

#include <string.h>

/* ---- arguments ---- */

static const aten_value nothing = {.kind = ATEN_NONE};
static const aten_value *arg(const aten_args *c, uint32_t i) { return i < c->schema->count ? &c->args[i] : &nothing; }
static const char *param_name(const aten_args *c, uint32_t i, int *length) {
  base_str name = i < c->schema->count ? c->schema->params[i].name : BASE_STR("an argument");
  *length = (int)name.length;
  return name.at;
}

void aten_refuse(aten_args *c, const char *format, ...) {
  if (ir_build_failed(c->b)) return;
  td_error why;
  va_list args;
  va_start(args, format);
  (void)base_vfail(&why, TD_UNSUPPORTED, NULL, -1, format, args);
  va_end(args);
  ir_build_fail(c->b, TD_UNSUPPORTED, "%s: %.1500s", c->name, why.text);
}

static void refuse_unknown(aten_args *c, uint32_t i) {
  int length;
  const char *name = param_name(c, i, &length);
  aten_refuse(c, "\"%.*s\" must be known before the model runs", length, name);
}

int64_t aten_position(const aten_args *c, const char *name) {
  for (uint32_t i = 0; i < c->schema->count; i++)
    if (base_str_is(c->schema->params[i].name, name)) return i;
  return -1;
}

bool aten_has(const aten_args *c, uint32_t i) { return arg(c, i)->kind != ATEN_NONE; }

ir_value aten_in(aten_args *c, uint32_t i) {
  if (!aten_has(c, i)) return IR_NO_VALUE;
  const aten_value *v = arg(c, i);
  if (v->kind == ATEN_TENSOR && (v->u.tensor->is_complex || v->u.tensor->quant))
    aten_refuse(
        c, v->u.tensor->quant ? "quantised tensors are not supported here" : "complex tensors are not supported here");
  return aten_read(c->a, v);
}

int64_t aten_get_int(aten_args *c, uint32_t i) {
  const aten_value *v = arg(c, i);
  if (ir_build_failed(c->b)) return 0;
  if (!aten_is_known(v)) refuse_unknown(c, i);
  return v->kind == ATEN_INT ? v->u.i : v->kind == ATEN_BOOL ? v->u.b : v->kind == ATEN_FLOAT ? aten_whole(v->u.f) : 0;
}
bool aten_get_bool(aten_args *c, uint32_t i) { return aten_get_int(c, i) != 0; }

double aten_get_float(aten_args *c, uint32_t i) {
  const aten_value *v = arg(c, i);
  if (v->kind == ATEN_FLOAT && aten_is_known(v)) return v->u.f;
  return (double)aten_get_int(c, i);
}

const char *aten_get_str(aten_args *c, uint32_t i) {
  const aten_value *v = arg(c, i);
  if (v->kind != ATEN_STR) return "";
  if (!aten_is_known(v)) {
    refuse_unknown(c, i);
    return "";
  }
  const base_str s = aten_str_of(v);
  char *text = aten_alloc(c->a, s.length + 1);
  if (text && s.length) memcpy(text, s.at, s.length);
  return text ? text : "";
}

ir_value aten_get_number(aten_args *c, uint32_t i, td_dtype dtype) { return aten_number_value(c->a, arg(c, i), dtype); }
ir_value aten_int_value(aten_args *c, uint32_t i) { return aten_number_value(c->a, arg(c, i), TD_I64); }

uint32_t aten_list_count(aten_args *c, uint32_t i) {
  const aten_value *v = arg(c, i);
  if (v->kind != ATEN_LIST && v->kind != ATEN_TUPLE) return 0;
  if (!aten_is_known(v)) {
    refuse_unknown(c, i);
    return 0;
  }
  return v->u.list->items.count;
}

const aten_value *aten_items(aten_args *c, uint32_t i) {
  return aten_list_count(c, i) ? arg(c, i)->u.list->items.at : &nothing;
}

bool aten_known_list(const aten_value *v) {
  if ((v->kind != ATEN_LIST && v->kind != ATEN_TUPLE) || !aten_is_known(v)) return false;
  for (uint32_t i = 0; i < v->u.list->items.count; i++) {
    const aten_value *item = &v->u.list->items.at[i];
    bool is_number = item->kind == ATEN_INT || item->kind == ATEN_FLOAT || item->kind == ATEN_BOOL;
    if (!is_number || item->graph.id) return false;
  }
  return true;
}

const int64_t *aten_get_ints(aten_args *c, uint32_t i, uint32_t *count) {
  const aten_value *v = arg(c, i);
  *count = 0;
  if (!aten_has(c, i) || ir_build_failed(c->b)) return NULL;
  if (!aten_known_list(v)) {
    refuse_unknown(c, i);
    return NULL;
  }
  uint32_t items = v->u.list->items.count;
  int64_t *ints = ir_build_alloc(c->b, (size_t)items * sizeof *ints);
  for (uint32_t k = 0; ints && k < items; k++) {
    const aten_value *item = &v->u.list->items.at[k];
    ints[k] = item->kind == ATEN_INT ? item->u.i : item->kind == ATEN_BOOL ? item->u.b : aten_whole(item->u.f);
  }
  *count = ints ? items : 0;
  return ints;
}

ir_value aten_ints_value(aten_args *c, uint32_t i) {
  const aten_value *v = arg(c, i);
  if (v->kind == ATEN_LIST && !aten_is_known(v))
    return IR_EMIT_ARGS(c->b, "td::stack_list", &v->u.list->graph, 1, ARG_INT("dim", 0), ARG_INT("new_axis", 1));
  return aten_vector(c->a, aten_items(c, i), aten_list_count(c, i));
}

ir_value *aten_get_tensors(aten_args *c, uint32_t i, uint32_t *count) {
  const aten_value *items = aten_items(c, i);
  for (uint32_t k = 0; k < aten_list_count(c, i); k++)
    if (aten_is_complex(&items[k])) aten_refuse(c, "complex tensors are not supported here");
  *count = aten_list_count(c, i);
  ir_value *values = ir_build_alloc(c->b, ((size_t)*count + 1) * sizeof *values);
  for (uint32_t k = 0; values && k < *count; k++)
    values[k] = items[k].kind == ATEN_NONE ? IR_NO_VALUE : aten_read(c->a, &items[k]);
  if (!values) *count = 0;
  return values;
}

td_dtype aten_get_dtype(aten_args *c, uint32_t i, td_dtype fallback) {
  return aten_has(c, i) ? aten_dtype(c->a, aten_get_int(c, i)) : fallback;
}
td_dtype aten_dtype_in(aten_args *c, uint32_t i) { return aten_value_dtype(c->a, aten_read(c->a, arg(c, i))); }
int32_t aten_rank_in(aten_args *c, uint32_t i) { return ir_build_rank(c->b, aten_read(c->a, arg(c, i))); }

/* ---- results ---- */

aten_value aten_ret(aten_args *c, ir_value v) { return aten_fresh(c->a, v, c->all_dense ? ATEN_DENSE : ATEN_UNSURE); }
aten_value aten_ret_strided(aten_args *c, ir_value v) { return aten_fresh(c->a, v, ATEN_UNSURE); }
aten_value aten_ret_many(aten_args *c, const ir_value *v, uint32_t count) {
  aten_value tuple = aten_tuple_of(c->a, NULL, 0);
  for (uint32_t i = 0; i < count; i++) aten_list_append(c->a, tuple.u.list, aten_ret(c, v[i]));
  return tuple;
}

/* ---- pieces ---- */

td_dtype aten_value_dtype(aten *a, ir_value v) { return ir_build_dtype(a->b, v); }
int32_t aten_rank(aten *a, ir_value v) { return ir_build_rank(a->b, v); }

ir_value aten_reshape(aten *a, ir_value v, const int64_t *dims, uint32_t count) {
  return IR_EMIT(a->b, "aten::view", v, ir_build_ints(a->b, dims, count));
}

ir_value aten_vector(aten *a, const aten_value *items, uint32_t count) {
  bool known = true;
  int64_t *ints = aten_alloc(a, (size_t)count * sizeof *ints);
  ir_value *parts = aten_alloc(a, (size_t)count * sizeof *parts);
  if (!ints || !parts) return IR_NO_VALUE;
  for (uint32_t i = 0; i < count; i++) {
    known = known && items[i].kind == ATEN_INT && aten_is_known(&items[i]);
    ints[i] = known ? items[i].u.i : 0;
  }
  if (known) return ir_build_ints(a->b, ints, count);
  for (uint32_t i = 0; i < count; i++)
    parts[i] = aten_reshape(a, aten_number_value(a, &items[i], TD_I64), (int64_t[]){1}, 1);
  return aten_cat(a, parts, count, 0);
}

aten_value aten_size(aten *a, ir_value v, int64_t dim) {
  const ir_type *type = ir_build_type(a->b, v);
  if (ir_build_failed(a->b)) return aten_int(0);
  if (type->rank != IR_UNRANKED) {
    int64_t axis = ir_build_axis(a->b, dim, type->rank);
    if (ir_build_failed(a->b)) return aten_int(0);
    if (base_dim_known(type->dims[axis])) return aten_int(type->dims[axis]);
    dim = axis;
  }
  ir_value one =
      IR_EMIT_ARGS(a->b, "td::shape", &v, 1, ARG_INT("start", dim), ARG_INT("end", dim == -1 ? INT64_MAX : dim + 1));
  return aten_number(a, aten_reshape(a, one, NULL, 0));
}

ir_value aten_shape(aten *a, ir_value v) {
  const ir_type *type = ir_build_type(a->b, v);
  if (!ir_build_failed(a->b) && ir_known_count(type) >= 0) {
    int64_t dims[BASE_MAX_RANK];
    memcpy(dims, type->dims, sizeof dims);
    return ir_build_ints(a->b, dims, (uint32_t)type->rank);
  }
  return IR_EMIT(a->b, "td::shape", v);
}

ir_value aten_numel(aten *a, ir_value v) {
  int64_t count = ir_build_failed(a->b) ? -1 : ir_known_count(ir_build_type(a->b, v));
  return count >= 0 ? ir_build_int(a->b, count) : IR_EMIT(a->b, "aten::sym_numel", v);
}

bool aten_is_empty(aten *a, ir_value v) {
  return !ir_build_failed(a->b) && ir_known_count(ir_build_type(a->b, v)) == 0;
}

ir_value aten_permute(aten *a, ir_value v, const int64_t *dims, uint32_t count) {
  return IR_EMIT_ARGS(a->b, "aten::permute", &v, 1, ARG_INTS("dims", dims, count));
}

ir_value aten_swap(aten *a, ir_value v, int64_t d0, int64_t d1) {
  int64_t order[BASE_MAX_RANK];
  int32_t rank = aten_rank(a, v);
  if (rank == 0 || ir_build_failed(a->b)) return v;
  d0 = ir_build_axis(a->b, d0, rank);
  d1 = ir_build_axis(a->b, d1, rank);
  for (int32_t i = 0; i < rank; i++) order[i] = i == d0 ? d1 : i == d1 ? d0 : i;
  return aten_permute(a, v, order, (uint32_t)rank);
}

ir_value aten_unsqueeze(aten *a, ir_value v, int64_t dim) {
  return IR_EMIT(a->b, "aten::unsqueeze", v, ir_build_ints(a->b, &dim, 1));
}
ir_value aten_squeeze(aten *a, ir_value v, int64_t dim) {
  return IR_EMIT(a->b, "aten::squeeze", v, ir_build_ints(a->b, &dim, 1));
}
ir_value aten_slice(aten *a, ir_value v, int64_t dim, int64_t start, int64_t end, int64_t step) {
  return IR_EMIT(a->b, "aten::slice", v, ir_build_ints(a->b, &start, 1), ir_build_ints(a->b, &end, 1),
                 ir_build_ints(a->b, &dim, 1), ir_build_ints(a->b, &step, 1));
}
ir_value aten_select(aten *a, ir_value v, int64_t dim, int64_t index) {
  return aten_squeeze(a, aten_slice(a, v, dim, index, index == -1 ? INT64_MAX : index + 1, 1), dim);
}
ir_value aten_expand(aten *a, ir_value v, ir_value shape) { return IR_EMIT(a->b, "aten::expand", v, shape); }
ir_value aten_cat(aten *a, const ir_value *v, uint32_t count, int64_t dim) {
  return count == 1 ? v[0] : IR_EMIT_ARGS(a->b, "aten::cat", v, count, ARG_INT("dim", dim));
}
ir_value aten_scalar_like(aten *a, ir_value like, double number) {
  return ir_build_scalar(a->b, aten_value_dtype(a, like), number);
}
ir_value aten_full(aten *a, ir_value shape, ir_value number) { return IR_EMIT(a->b, "aten::full", shape, number); }
ir_value aten_binary(aten *a, const char *op, ir_value x, ir_value y) { return IR_EMIT(a->b, op, x, y); }
ir_value aten_with_scalar(aten *a, const char *op, ir_value x, double y) {
  return IR_EMIT(a->b, op, x, aten_scalar_like(a, x, y));
}
