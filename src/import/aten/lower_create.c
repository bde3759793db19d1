/* lower_create.c -- tensors from sizes and numbers. */
#include "import/aten/aten_priv.h"

#include <math.h>
#include <string.h>

/* Number of the dtype that is asked for; -1: none is. */
static int64_t wanted(aten_args *c) {
  int64_t i = aten_position(c, "dtype");
  return i >= 0 && aten_has(c, (uint32_t)i) ? aten_get_int(c, (uint32_t)i) : -1;
}
/* Is a tensor of complex numbers made: asked for, or like operand 0? */
static bool makes_complex(aten_args *c) {
  return wanted(c) >= 0 ? aten_is_complex_type(wanted(c)) : aten_is_complex(&c->args[0]);
}
/* Of complex numbers that of their parts. */
static td_dtype dtype_or(aten_args *c, td_dtype fallback) {
  const int64_t number = wanted(c);
  if (number < 0) return fallback;
  return aten_dtype(c->a, aten_is_complex_type(number) ? aten_part_type(number) : number);
}
static aten_value fresh(aten_args *c, ir_value v) {
  if (makes_complex(c) && !ir_build_failed(c->b)) return aten_complex_of_real(c, v, aten_value_dtype(c->a, v));
  return aten_fresh(c->a, v, ATEN_DENSE);
}
/* Operand 0, or its real parts, where its sizes and dtype are all that counts. */
static ir_value model(aten_args *c) {
  return aten_is_complex(&c->args[0]) ? aten_parts(c, &c->args[0]).re : aten_in(c, 0);
}
/* `shape` filled with argument i, a number, as parts of `d`. */
static aten_value filled_with(aten_args *c, ir_value shape, uint32_t i, td_dtype d) {
  if (makes_complex(c) || c->args[i].kind == ATEN_COMPLEX) return aten_complex_full(c, shape, &c->args[i], d);
  return aten_fresh(c->a, aten_full(c->a, shape, aten_get_number(c, i, d)), ATEN_DENSE);
}

static td_dtype kind_dtype(const aten_value *v) {
  return v->kind == ATEN_FLOAT || v->kind == ATEN_COMPLEX ? TD_F32 : v->kind == ATEN_BOOL ? TD_BOOL : TD_I64;
}

/* ---- filled ---- */

static aten_value filled(aten_args *c, ir_value shape, td_dtype d, double number) {
  return fresh(c, aten_full(c->a, shape, ir_build_scalar(c->b, d, number)));
}

/* (size, ...) of zeros, ones (data "1"), or whatever (empty: zeros) */
aten_value aten_lower_create_filled(aten_args *c) {
  return filled(c, aten_ints_value(c, 0), dtype_or(c, TD_F32), c->row->data ? 1 : 0);
}
aten_value aten_lower_filled_like(aten_args *c) {
  ir_value x = model(c);
  return filled(c, aten_shape(c->a, x), dtype_or(c, aten_value_dtype(c->a, x)), c->row->data ? 1 : 0);
}
/* (self, size, ...) */
aten_value aten_lower_new_filled(aten_args *c) {
  return filled(c, aten_ints_value(c, 1), dtype_or(c, aten_value_dtype(c->a, model(c))), c->row->data ? 1 : 0);
}

/* (size, fill_value, ...) */
aten_value aten_lower_create_full(aten_args *c) {
  td_dtype d = kind_dtype(&c->args[1]);
  if (c->version > 0 && c->version < 5) d = TD_F32; /* upgrader */
  return filled_with(c, aten_ints_value(c, 0), 1, dtype_or(c, d));
}
aten_value aten_lower_full_like(aten_args *c) {
  ir_value x = model(c);
  return filled_with(c, aten_shape(c->a, x), 1, dtype_or(c, aten_value_dtype(c->a, x)));
}
/* (self, size, fill_value, ...) */
aten_value aten_lower_new_full(aten_args *c) {
  return filled_with(c, aten_ints_value(c, 1), 2, dtype_or(c, aten_value_dtype(c->a, model(c))));
}
/* fill(self, value): of self's sizes and dtype */
aten_value aten_lower_fill(aten_args *c) {
  ir_value x = model(c);
  if (aten_is_complex(&c->args[0]))
    return aten_complex_full(c, aten_shape(c->a, x), &c->args[1], aten_value_dtype(c->a, x));
  return aten_ret(c, aten_full(c->a, aten_shape(c->a, x), aten_as(c->a, &c->args[1], aten_value_dtype(c->a, x))));
}
aten_value aten_lower_zero(aten_args *c) {
  ir_value x = model(c);
  return fresh(c, aten_full(c->a, aten_shape(c->a, x), aten_scalar_like(c->a, x, 0)));
}

/* ---- from values ---- */

aten_value aten_lower_create_scalar(aten_args *c) {
  td_dtype d = dtype_or(c, strcmp(c->name, "aten::scalar_tensor") == 0 ? TD_F32 : kind_dtype(&c->args[0]));
  return filled_with(c, ir_build_ints(c->b, NULL, 0), 0, d);
}

enum { MAX_DEPTH = BASE_MAX_RANK };

/* The dtype that all numbers of a nested list meet in. */
static td_dtype meet(const aten_value *v, td_dtype so_far, uint32_t depth) {
  bool is_list = v->kind == ATEN_LIST || v->kind == ATEN_TUPLE;
  if (!is_list) {
    if (v->kind == ATEN_TENSOR) return so_far;
    return aten_promote_types(so_far, kind_dtype(v));
  }
  for (uint32_t i = 0; depth < MAX_DEPTH && i < v->u.list->items.count; i++)
    so_far = meet(&v->u.list->items.at[i], so_far, depth + 1);
  return so_far;
}

/* A nested list as one tensor: rows stacked. */
static ir_value stacked(aten_args *c, const aten_value *v, td_dtype d, uint32_t depth) {
  bool is_list = v->kind == ATEN_LIST || v->kind == ATEN_TUPLE;
  if (!is_list) return aten_as(c->a, v, d);
  uint32_t count = aten_is_known(v) ? v->u.list->items.count : 0;
  if (depth >= MAX_DEPTH || !aten_is_known(v))
    aten_refuse(c, "a list that is nested too deeply, or is known only when the model runs");
  ir_value *rows = aten_alloc(c->a, ((size_t)count + 1) * sizeof *rows);
  if (!rows) return IR_NO_VALUE;
  if (!count) return aten_full(c->a, ir_build_ints(c->b, (int64_t[]){0}, 1), ir_build_scalar(c->b, d, 0));
  for (uint32_t i = 0; i < count; i++)
    rows[i] = aten_unsqueeze(c->a, stacked(c, &v->u.list->items.at[i], d, depth + 1), 0);
  return aten_cat(c->a, rows, count, 0);
}

/* A list of known numbers as a constant. */
static ir_value constant_list(aten_args *c, const aten_value *v, td_dtype d) {
  uint32_t count = v->u.list->items.count;
  int64_t dims[] = {count};
  double *data = aten_alloc(c->a, ((size_t)count + 1) * sizeof *data);
  if (!data) return IR_NO_VALUE;
  for (uint32_t i = 0; i < count; i++) {
    const aten_value *item = &v->u.list->items.at[i];
    if (item->kind == ATEN_FLOAT) base_store_f64(d, data, i, item->u.f);
    else base_store_i64(d, data, i, item->kind == ATEN_BOOL ? item->u.b : item->u.i);
  }
  base_tensor t = base_tensor_of(data, d, 1, dims);
  return ir_build_constant(c->b, &t);
}

/* A copy of operand 0 in the dtype of this number; -1: in its own. */
static aten_value cast_to(aten_args *c, int64_t number) {
  const aten_value *x = &c->args[0];
  const bool to_complex = aten_is_complex_type(number);
  if (aten_is_complex(x) && (to_complex || number < 0)) {
    ir_value v = aten_read(c->a, x);
    return aten_of_complex(c->a, number < 0 ? v : ir_build_cast(c->b, v, aten_dtype(c->a, aten_part_type(number))));
  }
  ir_value v = model(c); /* PyTorch drops imaginary parts, too */
  if (to_complex) return aten_complex_of_real(c, v, aten_dtype(c->a, aten_part_type(number)));
  return aten_ret(c, ir_build_cast(c->b, v, number < 0 ? aten_value_dtype(c->a, v) : aten_dtype(c->a, number)));
}

/* (data, *, dtype, device, requires_grad) */
aten_value aten_lower_create_tensor(aten_args *c) {
  const aten_value *v = &c->args[0];
  if (v->kind == ATEN_TENSOR) return cast_to(c, wanted(c));
  td_dtype d = dtype_or(c, meet(v, TD_INVALID, 0));
  if (d == TD_INVALID) d = TD_F32;
  if (aten_known_list(v)) return fresh(c, constant_list(c, v, d));
  return fresh(c, stacked(c, v, d, 0));
}

/* ---- ranges ---- */

/* (end), (start, end), (start, end, step), ... */
aten_value aten_lower_create_arange(aten_args *c) {
  uint32_t n = 0;
  aten_value bounds[3] = {aten_int(0), aten_int(0), aten_int(1)};
  while (n < 3 && n < c->schema->count && c->schema->params[n].atom == ATEN_ATOM_SCALAR) n++;
  for (uint32_t i = 0; i < n; i++) bounds[n == 1 ? 1 : i] = c->args[i];
  bool whole = true;
  for (uint32_t i = 0; i < 3; i++) whole = whole && bounds[i].kind != ATEN_FLOAT;
  td_dtype d = dtype_or(c, whole ? TD_I64 : TD_F32), work = whole ? TD_I64 : TD_F64;
  ir_value v[3];
  for (uint32_t i = 0; i < 3; i++) v[i] = aten_number_value(c->a, &bounds[i], work);
  return fresh(c, ir_build_cast(c->b, IR_EMIT(c->b, "aten::arange", v[0], v[1], v[2]), d));
}

enum { MAX_STEPS = 1 << 24 };

/* (start, end, steps): as PyTorch counts, from both ends; data "log": powers of `base` */
aten_value aten_lower_create_linspace(aten_args *c) {
  double start = aten_get_float(c, 0), end = aten_get_float(c, 1);
  int64_t steps = aten_has(c, 2) ? aten_get_int(c, 2) : 100; /* upgrader */
  td_dtype d = dtype_or(c, TD_F32);
  bool power = c->row->data != NULL;
  double base = power ? aten_get_float(c, 3) : 0;
  if (steps < 0 || steps > MAX_STEPS) aten_refuse(c, "%lld steps", (long long)steps);
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  double *data = ir_build_alloc(c->b, ((size_t)steps + 1) * sizeof *data);
  if (!data) return ATEN_NOTHING;
  bool single = d == TD_F32;
  double step = steps > 1 ? (end - start) / (double)(steps - 1) : 0;
  if (single) step = steps > 1 ? ((float)end - (float)start) / (float)(steps - 1) : 0;
  for (int64_t i = 0; i < steps; i++) {
    bool front = i < steps / 2 || steps == 1;
    double at = front ? start + step * (double)i : end - step * (double)(steps - 1 - i);
    if (single)
      at = front ? (float)((float)start + (float)step * (float)i)
                 : (float)((float)end - (float)step * (float)(steps - 1 - i));
    if (power) at = pow(base, at);
    base_store_f64(d, data, i, base_is_int(d) ? trunc(at) : at);
  }
  base_tensor t = base_tensor_of(data, d, 1, &steps);
  return fresh(c, ir_build_constant(c->b, &t));
}

/* (n), (n, m) */
aten_value aten_lower_create_eye(aten_args *c) {
  bool both = c->schema->count > 1 && base_str_is(c->schema->params[1].name, "m");
  aten_value sides[] = {c->args[0], c->args[both ? 1 : 0]};
  ir_value zeros = aten_full(c->a, aten_vector(c->a, sides, 2), ir_build_scalar(c->b, dtype_or(c, TD_F32), 0));
  return fresh(c, IR_EMIT(c->b, "td::eye_like", zeros));
}

/* (row, col, offset, ...): positions below (data "l") or above (data "u") a diagonal, [2, n] */
aten_value aten_lower_create_triangle(aten_args *c) {
  int64_t rows = aten_get_int(c, 0), cols = aten_get_int(c, 1), offset = aten_get_int(c, 2), count = 0;
  bool lower = c->row->data[0] == 'l';
  int64_t room = 0;
  if (rows < 0 || cols < 0 || __builtin_mul_overflow(rows, cols, &room) || room > MAX_STEPS)
    aten_refuse(c, "a matrix of %lld by %lld", (long long)rows, (long long)cols);
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  int64_t *at = ir_build_alloc(c->b, ((size_t)room * 2 + 1) * sizeof *at);
  if (!at) return ATEN_NOTHING;
  for (int pass = 0; pass < 2; pass++) {
    int64_t k = 0;
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < cols; j++) {
        if (lower ? j - i > offset : j - i < offset) continue;
        if (pass) {
          at[k] = i;
          at[count + k] = j;
        }
        k++;
      }
    count = k;
  }
  base_tensor t = base_tensor_of(at, TD_I64, 2, (int64_t[]){2, count});
  return fresh(c, ir_build_cast(c->b, ir_build_constant(c->b, &t), dtype_or(c, TD_I64)));
}

/* (self, num_classes) */
aten_value aten_lower_one_hot(aten_args *c) {
  ir_value x = aten_in(c, 0), depth = aten_int_value(c, 1);
  if (aten_is_known(&c->args[1]) && c->args[1].u.i < 0) {
    ir_value most = IR_EMIT_ARGS(c->b, "aten::amax", &x, 1, ARG_BOOL("keepdim", false));
    depth = aten_with_scalar(c->a, "aten::add", most, 1);
  }
  return aten_ret(c, IR_EMIT(c->b, "td::one_hot", x, depth, ir_build_ints(c->b, (int64_t[]){0, 1}, 2)));
}

/* (window_length, periodic?, ...): data "hann", "hamming", "blackman" */
aten_value aten_lower_create_window(aten_args *c) {
  static const struct {
    const char *name;
    double a0, a1, a2;
  } rows[] = {{"hann", 0.5, 0.5, 0}, {"hamming", 0.54, 0.46, 0}, {"blackman", 0.42, 0.5, 0.08}};
  ir_value size = aten_reshape(c->a, aten_int_value(c, 0), (int64_t[]){1}, 1);
  int64_t p = aten_position(c, "periodic");
  bool periodic = p < 0 || aten_get_bool(c, (uint32_t)p);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].name, c->row->data) == 0)
      return fresh(c, IR_EMIT_ARGS(c->b, "td::window", &size, 1, ARG_BOOL("periodic", periodic),
                                   ARG_FLOAT("a0", rows[i].a0), ARG_FLOAT("a1", rows[i].a1),
                                   ARG_FLOAT("a2", rows[i].a2), ARG_DTYPE("dtype", dtype_or(c, TD_F32))));
  return ATEN_NOTHING;
}

/* ---- copies and casts ---- */

aten_value aten_lower_clone(aten_args *c) {
  aten_value v = aten_fresh(c->a, aten_read(c->a, &c->args[0]), ATEN_UNSURE);
  int64_t format = aten_position(c, "memory_format");
  if (v.kind != ATEN_TENSOR) return v;
  bool dense = format >= 0 && aten_has(c, (uint32_t)format) && aten_get_int(c, (uint32_t)format) == 0;
  v.u.tensor->dense = dense || c->all_dense ? ATEN_DENSE : ATEN_UNSURE;
  v.u.tensor->is_complex = c->args[0].u.tensor->is_complex;
  v.u.tensor->quant = c->args[0].u.tensor->quant;
  return v;
}

/* to and its relatives: the tensor itself where nothing changes (unless `copy`); data: a dtype's name */
aten_value aten_lower_to(aten_args *c) {
  const aten_value *x = &c->args[0];
  int64_t other = aten_position(c, "other"), copy = aten_position(c, "copy"), number = wanted(c);
  if (other >= 0) number = aten_tensor_scalar_type(c->a, &c->args[other]);
  if (c->row->data) number = aten_scalar_type(c->a, base_dtype_from_name(base_str_of(c->row->data)));
  if (x->u.tensor->quant && number < 0) return *x;
  if (x->u.tensor->quant) aten_refuse(c, "quantised tensors are not supported here");
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  const bool copies = copy >= 0 && aten_get_bool(c, (uint32_t)copy);
  if (!copies && (number < 0 || number == aten_tensor_scalar_type(c->a, x))) return *x;
  return cast_to(c, number);
}
/* _to_copy: never the tensor itself */
aten_value aten_lower_to_copy(aten_args *c) { return cast_to(c, wanted(c)); }
/* copy_(self, src) is this, written into self: src in self's dtype and sizes. */
aten_value aten_lower_copy(aten_args *c) {
  ir_value x = model(c);
  if (aten_is_complex(&c->args[0]))
    return aten_complex_full(c, aten_shape(c->a, x), &c->args[1], aten_value_dtype(c->a, x));
  ir_value from = aten_is_complex(&c->args[1]) ? aten_parts(c, &c->args[1]).re : aten_in(c, 1);
  return aten_ret(c, aten_expand(c->a, ir_build_cast(c->b, from, aten_value_dtype(c->a, x)), aten_shape(c->a, x)));
}

/* ---- random: a fixed generator, so that the model gives one answer ---- */

/* rand, randn of sizes; data: the operator */
aten_value aten_lower_create_random(aten_args *c) {
  ir_value shape = aten_ints_value(c, 0);
  return fresh(c, IR_EMIT_ARGS(c->b, c->row->data, &shape, 1, ARG_DTYPE("dtype", dtype_or(c, TD_F32))));
}
aten_value aten_lower_random_like(aten_args *c) {
  ir_value x = aten_in(c, 0), shape = aten_shape(c->a, x);
  return fresh(c,
               IR_EMIT_ARGS(c->b, c->row->data, &shape, 1, ARG_DTYPE("dtype", dtype_or(c, aten_value_dtype(c->a, x)))));
}

/* prims::_make_token(): what orders effects, which stand in order anyway */
aten_value aten_lower_make_token(aten_args *c) {
  return fresh(c, aten_full(c->a, ir_build_ints(c->b, (int64_t[]){0}, 1), ir_build_scalar(c->b, TD_F32, 0)));
}
