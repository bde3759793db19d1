/* value.c -- making, comparing and printing the values that import knows. */
#include "import/aten/aten_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

aten *aten_new(const aten_options *options) {
  aten *a = base_new(options->arena, aten, 1);
  aten_schema **schemas = base_new(options->arena, aten_schema *, (size_t)aten_row_count);
  td_error err = {0};
  const char *const *lines = aten_unpack_lines(options->arena, &err);
  if (!a || !schemas || !lines) goto no_memory;
  *a = (aten){.b = options->build,
              .arena = options->arena,
              .version = options->version,
              .squeeze = options->squeeze,
              .lines = lines,
              .schemas = schemas};
  for (uint32_t i = aten_row_count; i-- > 0;) /* backwards: the first row of a name stays */
    if (!base_map_put(&a->names, a->arena, aten_schema_name(lines[i]), i, NULL)) goto no_memory;
  a->clock = 1;
  return a;
no_memory:
  ir_build_take(options->build, base_no_memory(options->build->err, "the operators' schemas"));
  return NULL;
}

bool aten_has_open_squeeze(const aten *a) { return a->kept_open; }
uint32_t aten_stamp(const aten *a) { return a->clock; }

void *aten_alloc(aten *a, size_t bytes) {
  if (ir_build_failed(a->b)) return NULL;
  void *memory = base_arena_alloc(a->arena, bytes ? bytes : 1);
  if (!memory) ir_build_take(a->b, base_no_memory(a->b->err, "a value"));
  return memory;
}

/* ---- numbers ---- */

aten_value aten_number(aten *a, ir_value value) {
  const ir_type *type = ir_build_type(a->b, value);
  bool is_float = base_is_float(type->dtype), is_bool = type->dtype == TD_BOOL;
  aten_value v = {.kind = is_bool ? ATEN_BOOL : is_float ? ATEN_FLOAT : ATEN_INT};
  int64_t known;
  const double *real;
  uint32_t count;
  if (ir_build_failed(a->b)) return v;
  if (!is_float && ir_build_known_int(a->b, value, &known)) {
    if (is_bool) v.u.b = known != 0;
    else v.u.i = known;
    return v;
  }
  if (is_float && ir_build_known_floats(a->b, value, &real, &count) && count == 1) {
    v.u.f = real[0];
    return v;
  }
  base_tensor t;
  if (aten_evaluate(a, value, &t) && base_tensor_numel(&t) == 1) {
    if (is_float) v.u.f = base_load_f64(t.dtype, t.data, 0);
    else if (is_bool) v.u.b = base_load_i64(t.dtype, t.data, 0) != 0;
    else v.u.i = base_load_i64(t.dtype, t.data, 0);
    return v;
  }
  v.graph = ir_build_cast(a->b, value, is_bool ? TD_BOOL : is_float ? TD_F64 : TD_I64);
  return v;
}

/* Scalars of the graph have 8 bytes: integers keep all of theirs. */
static ir_value known_number(aten *a, const aten_value *v, td_dtype dtype) {
  double number = v->kind == ATEN_FLOAT ? v->u.f : v->kind == ATEN_BOOL ? v->u.b : (double)v->u.i;
  if (v->kind == ATEN_FLOAT || base_is_float(dtype)) return ir_build_scalar(a->b, dtype, number);
  int64_t whole = v->kind == ATEN_BOOL ? v->u.b : v->u.i, room = 0;
  base_tensor t = base_tensor_of(&room, dtype, 0, NULL);
  base_store_i64(dtype, &room, 0, whole);
  return ir_build_constant(a->b, &t);
}

ir_value aten_number_value(aten *a, const aten_value *v, td_dtype dtype) {
  if (ir_build_failed(a->b)) return IR_NO_VALUE;
  if (v->kind == ATEN_TENSOR) return ir_build_cast(a->b, aten_read(a, v), dtype);
  if (v->kind != ATEN_INT && v->kind != ATEN_FLOAT && v->kind != ATEN_BOOL) {
    ir_build_fail(a->b, TD_UNSUPPORTED, "a number is needed instead of %s", aten_kind_name(v));
    return IR_NO_VALUE;
  }
  return aten_is_known(v) ? known_number(a, v, dtype) : ir_build_cast(a->b, v->graph, dtype);
}

/* ---- containers ---- */

static aten_value items_of(aten *a, aten_kind kind, const aten_value *items, uint32_t count) {
  aten_value v = {.kind = kind};
  aten_list *list = aten_alloc(a, sizeof *list);
  if (!list) return ATEN_NOTHING;
  v.u.list = list;
  list->born = a->clock;
  for (uint32_t i = 0; i < count; i++) {
    aten_value *to = base_vec_push(a->arena, &list->items);
    if (!to) {
      ir_build_take(a->b, base_no_memory(a->b->err, "a list"));
      return v;
    }
    *to = items[i];
  }
  return v;
}

aten_value aten_list_of(aten *a, const aten_value *items, uint32_t count) {
  return items_of(a, ATEN_LIST, items, count);
}
aten_value aten_tuple_of(aten *a, const aten_value *items, uint32_t count) {
  return items_of(a, ATEN_TUPLE, items, count);
}

aten_value aten_list_graph(aten *a, ir_value list, const aten_promise *promise) {
  aten_value v = aten_list_of(a, NULL, 0);
  if (v.kind == ATEN_LIST) {
    v.u.list->graph = list;
    v.u.list->promise = promise;
  }
  return v;
}

const aten_promise *aten_promise_with(aten *a, const aten_promise *promise, const aten_value *item) {
  if (item->kind != ATEN_FUTURE || promise == item->u.promise) return promise;
  if (promise && !promise->meet(promise, item->u.promise))
    ir_build_fail(a->b, TD_UNSUPPORTED, "a list holds futures of tasks that give things of different kinds");
  return promise ? promise : item->u.promise;
}

aten_value aten_dict_of(aten *a) {
  aten_dict *dict = aten_alloc(a, sizeof *dict);
  if (dict) dict->born = a->clock;
  return (aten_value){.kind = ATEN_DICT, .u.dict = dict};
}

aten_value aten_text(aten *a, const char *text) {
  size_t length = strlen(text);
  char *copy = aten_alloc(a, length + 1);
  if (!copy) return ATEN_NOTHING;
  memcpy(copy, text, length);
  return aten_str(a, (base_str){copy, length});
}

static aten_value text_value(aten *a, aten_kind kind, base_str s) {
  base_str *text = aten_alloc(a, sizeof *text);
  if (!text) return ATEN_NOTHING;
  *text = s;
  return (aten_value){.kind = kind, .u.text = text};
}
aten_value aten_str(aten *a, base_str s) { return text_value(a, ATEN_STR, s); }
aten_value aten_device(aten *a, base_str s) { return text_value(a, ATEN_DEVICE, s); }
aten_value aten_complex(aten *a, double re, double im) {
  aten_complex_number *number = aten_alloc(a, sizeof *number);
  if (!number) return ATEN_NOTHING;
  *number = (aten_complex_number){re, im};
  return (aten_value){.kind = ATEN_COMPLEX, .u.complex = number};
}
base_str aten_str_of(const aten_value *v) {
  const bool text = (v->kind == ATEN_STR || v->kind == ATEN_DEVICE) && !v->graph.id && v->u.text;
  return text ? *v->u.text : (base_str){"", 0};
}
aten_complex_number aten_complex_of(const aten_value *v) {
  return v->kind == ATEN_COMPLEX ? *v->u.complex : (aten_complex_number){0, 0};
}

void aten_list_append(aten *a, aten_list *list, aten_value item) {
  if (ir_build_failed(a->b) || !list) return;
  aten_save_list(a, list);
  if (list->graph.id) {
    list->promise = aten_promise_with(a, list->promise, &item);
    list->graph = IR_EMIT(a->b, "aten::append", list->graph, aten_item_value(a, &item));
    return;
  }
  aten_value *to = base_vec_push(a->arena, &list->items);
  if (to) *to = item;
  else ir_build_take(a->b, base_no_memory(a->b->err, "a list"));
}

void aten_list_set(aten *a, aten_list *list, uint32_t index, aten_value item) {
  if (ir_build_failed(a->b) || !list || index >= list->items.count) return;
  aten_save_list(a, list);
  list->items.at[index] = item;
}

static int64_t find_key(const aten_dict *dict, const aten_value *key) {
  for (uint32_t i = 0; i < dict->keys.count; i++)
    if (aten_same(&dict->keys.at[i], key)) return i;
  return -1;
}

const aten_value *aten_dict_get(const aten_dict *dict, const aten_value *key) {
  int64_t at = find_key(dict, key);
  return at < 0 ? NULL : &dict->values.at[at];
}

void aten_dict_set(aten *a, aten_dict *dict, aten_value key, aten_value value) {
  if (ir_build_failed(a->b) || !dict) return;
  aten_save_dict(a, dict);
  int64_t at = find_key(dict, &key);
  if (at >= 0) {
    dict->values.at[at] = value;
    return;
  }
  aten_value *k = base_vec_push(a->arena, &dict->keys), *v = base_vec_push(a->arena, &dict->values);
  if (!k || !v) {
    ir_build_take(a->b, base_no_memory(a->b->err, "a dict"));
    return;
  }
  *k = key;
  *v = value;
}

/* ---- comparing ---- */

static double as_double(const aten_value *v) {
  return v->kind == ATEN_FLOAT ? v->u.f : v->kind == ATEN_BOOL ? v->u.b : (double)v->u.i;
}
static bool is_number(const aten_value *v) {
  return v->kind == ATEN_INT || v->kind == ATEN_FLOAT || v->kind == ATEN_BOOL;
}

bool aten_same(const aten_value *x, const aten_value *y) {
  if (x->graph.id || y->graph.id) return x->kind == y->kind && x->graph.id == y->graph.id;
  if (!aten_is_known(x) || !aten_is_known(y)) return x->kind == y->kind && x->u.list == y->u.list;
  if (is_number(x) && is_number(y)) {
    if (x->kind != ATEN_FLOAT && y->kind != ATEN_FLOAT)
      return (x->kind == ATEN_BOOL ? x->u.b : x->u.i) == (y->kind == ATEN_BOOL ? y->u.b : y->u.i);
    return as_double(x) == as_double(y);
  }
  if (x->kind != y->kind) return false;
  switch (x->kind) {
    case ATEN_NONE: return true;
    case ATEN_COMPLEX: return x->u.complex->re == y->u.complex->re && x->u.complex->im == y->u.complex->im;
    case ATEN_STR:
    case ATEN_DEVICE: return base_str_equal(aten_str_of(x), aten_str_of(y));
    case ATEN_TENSOR: return x->u.tensor == y->u.tensor;
    case ATEN_LIST:
    case ATEN_TUPLE:
      if (x->u.list->items.count != y->u.list->items.count) return false;
      for (uint32_t i = 0; i < x->u.list->items.count; i++)
        if (!aten_same(&x->u.list->items.at[i], &y->u.list->items.at[i])) return false;
      return true;
    case ATEN_DICT: return x->u.dict == y->u.dict;
    case ATEN_OBJECT: return x->u.object == y->u.object;
    default: return x->u.function == y->u.function;
  }
}

/* ---- printing ---- */

const char *aten_kind_name(const aten_value *v) {
  static const char *const names[] = {
      [ATEN_NONE] = "None",         [ATEN_INT] = "int",         [ATEN_FLOAT] = "float",
      [ATEN_BOOL] = "bool",         [ATEN_COMPLEX] = "complex", [ATEN_STR] = "str",
      [ATEN_DEVICE] = "Device",     [ATEN_TENSOR] = "Tensor",   [ATEN_LIST] = "List",
      [ATEN_TUPLE] = "Tuple",       [ATEN_DICT] = "Dict",       [ATEN_OBJECT] = "object",
      [ATEN_FUNCTION] = "function", [ATEN_FUTURE] = "Future",   [ATEN_UNDEFINED] = "uninitialized"};
  return names[v->kind];
}

/* The shortest decimal that reads back the same, as Python writes it. */
static void print_float(double f, base_text *text) {
  char buffer[40];
  if (isnan(f) || isinf(f)) {
    base_text_print(text, "%s", isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
    return;
  }
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(buffer, sizeof buffer, "%.*g", digits, f);
    double back = 0;
    if (sscanf(buffer, "%lf", &back) == 1 && back == f) break;
  }
  double size = fabs(f);
  if (size >= 1e16 || (size != 0 && size < 1e-4)) base_text_print(text, "%s", buffer);
  else if (strchr(buffer, 'e')) base_text_print(text, "%.1f", f);
  else base_text_print(text, "%s%s", buffer, strchr(buffer, '.') ? "" : ".0");
}

static void print_items(const aten_value *items, uint32_t count, const char *open, const char *close, base_text *text);

/* `quoted`: texts inside of containers stand in quotes. */
static void print_value(const aten_value *v, bool quoted, base_text *text) {
  if (!aten_is_known(v)) {
    base_text_print(text, "<%s>", aten_kind_name(v));
    return;
  }
  switch (v->kind) {
    case ATEN_NONE: base_text_print(text, "None"); break;
    case ATEN_INT: base_text_print(text, "%lld", (long long)v->u.i); break;
    case ATEN_FLOAT: print_float(v->u.f, text); break;
    case ATEN_BOOL: base_text_print(text, "%s", v->u.b ? "True" : "False"); break;
    case ATEN_COMPLEX: base_text_print(text, "(%g%+gj)", v->u.complex->re, v->u.complex->im); break;
    case ATEN_STR:
    case ATEN_DEVICE:
      base_text_print(text, quoted ? "'%.*s'" : "%.*s", (int)aten_str_of(v).length, aten_str_of(v).at);
      break;
    case ATEN_LIST: print_items(v->u.list->items.at, v->u.list->items.count, "[", "]", text); break;
    case ATEN_TUPLE: print_items(v->u.list->items.at, v->u.list->items.count, "(", ")", text); break;
    case ATEN_DICT:
      base_text_print(text, "{");
      for (uint32_t i = 0; i < v->u.dict->keys.count; i++) {
        if (i) base_text_print(text, ", ");
        print_value(&v->u.dict->keys.at[i], true, text);
        base_text_print(text, ": ");
        print_value(&v->u.dict->values.at[i], true, text);
      }
      base_text_print(text, "}");
      break;
    default: base_text_print(text, "<%s>", aten_kind_name(v)); break;
  }
}

static void print_items(const aten_value *items, uint32_t count, const char *open, const char *close, base_text *text) {
  base_text_print(text, "%s", open);
  for (uint32_t i = 0; i < count && text->length < 4096; i++) {
    if (i) base_text_print(text, ", ");
    print_value(&items[i], true, text);
  }
  base_text_print(text, "%s", close);
}

void aten_print(const aten_value *v, base_text *text) { print_value(v, false, text); }

/* ---- dtypes ---- */

/* c10::ScalarType. */
static const td_dtype scalar_types[] = {
    [0] = TD_U8,          [1] = TD_I8,          [2] = TD_I16,   [3] = TD_I32,     [4] = TD_I64,
    [5] = TD_F16,         [6] = TD_F32,         [7] = TD_F64,   [11] = TD_BOOL,   [12] = TD_I8,
    [13] = TD_U8,         [14] = TD_I32,        [15] = TD_BF16, [23] = TD_F8E5M2, [24] = TD_F8E4M3FN,
    [25] = TD_F8E5M2FNUZ, [26] = TD_F8E4M3FNUZ, [27] = TD_U16,  [28] = TD_U32,    [29] = TD_U64};
enum { SCALAR_TYPES = sizeof scalar_types / sizeof *scalar_types };

td_dtype aten_dtype(aten *a, int64_t scalar_type) {
  td_dtype dtype = scalar_type >= 0 && scalar_type < SCALAR_TYPES ? scalar_types[scalar_type] : TD_INVALID;
  if (dtype == TD_INVALID)
    ir_build_fail(a->b, TD_UNSUPPORTED,
                  scalar_type >= 8 && scalar_type <= 10 ? "complex numbers (dtype %lld) are not supported here"
                                                        : "the dtype number %lld is not supported",
                  (long long)scalar_type);
  return dtype;
}

int64_t aten_scalar_type(const aten *a, td_dtype dtype) {
  (void)a;
  for (int64_t i = 0; i < SCALAR_TYPES; i++)
    if (scalar_types[i] == dtype && dtype != TD_INVALID) return i;
  return -1;
}
