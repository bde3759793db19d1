/* resolve.c -- which overload a call means. As PyTorch: overloads in registered order, first without and then with
 * implicit conversions; the first one that takes the arguments wins. A last round, which PyTorch does not have, lets an
 * int stand for a float: exported programs write 1 for 1.0. */
#include "import/aten/aten_priv.h"

#include <string.h>

enum { STRICT, IMPLICIT, LENIENT, ROUNDS };

static bool is_number(aten_kind kind) { return kind == ATEN_INT || kind == ATEN_FLOAT || kind == ATEN_BOOL; }

/* Kinds that an atom takes as they are, as a set of bits. */
#define BIT(kind) (1u << (kind))
static const uint32_t takes[] = {[ATEN_ATOM_TENSOR] = BIT(ATEN_TENSOR),
                                 [ATEN_ATOM_INT] = BIT(ATEN_INT),
                                 [ATEN_ATOM_FLOAT] = BIT(ATEN_FLOAT),
                                 [ATEN_ATOM_BOOL] = BIT(ATEN_BOOL),
                                 [ATEN_ATOM_COMPLEX] = BIT(ATEN_COMPLEX),
                                 [ATEN_ATOM_SCALAR] = BIT(ATEN_INT) | BIT(ATEN_FLOAT) | BIT(ATEN_COMPLEX),
                                 [ATEN_ATOM_STR] = BIT(ATEN_STR),
                                 [ATEN_ATOM_DEVICE] = BIT(ATEN_DEVICE),
                                 [ATEN_ATOM_DICT] = BIT(ATEN_DICT),
                                 [ATEN_ATOM_OBJECT] = BIT(ATEN_OBJECT) | BIT(ATEN_TUPLE),
                                 [ATEN_ATOM_FUTURE] = BIT(ATEN_FUTURE),
                                 [ATEN_ATOM_NEVER] = 0,
                                 [ATEN_ATOM_ANY] = UINT32_MAX};

static bool takes_atom(uint8_t atom, const aten_value *v, int round) {
  if (takes[atom] & BIT(v->kind)) return true;
  bool wants_number = atom == ATEN_ATOM_INT || atom == ATEN_ATOM_FLOAT || atom == ATEN_ATOM_SCALAR;
  if (round >= IMPLICIT) {
    if (wants_number && (v->kind == ATEN_TENSOR || v->kind == ATEN_BOOL)) return true;
    if (atom == ATEN_ATOM_DEVICE && v->kind == ATEN_STR) return true;
  }
  if (round < LENIENT) return false;
  if (atom == ATEN_ATOM_TENSOR)
    return is_number(v->kind) || v->kind == ATEN_COMPLEX; /* a number where a tensor is meant */
  return (atom == ATEN_ATOM_FLOAT && v->kind == ATEN_INT) || (atom == ATEN_ATOM_BOOL && v->kind == ATEN_INT) ||
         (atom == ATEN_ATOM_BOOL && v->kind == ATEN_TENSOR);
}

static bool takes_value(const aten_param *p, const aten_value *v, int round) {
  if (v->kind == ATEN_UNDEFINED) return false;
  if (v->kind == ATEN_NONE) return p->is_optional || p->atom == ATEN_ATOM_ANY || p->atom == ATEN_ATOM_NEVER;
  if (!p->is_list) {
    if (p->atom == ATEN_ATOM_DICT && v->kind == ATEN_DICT)
      return v->u.dict->keys.count == 0 || takes_atom(p->key, &v->u.dict->keys.at[0], STRICT);
    return takes_atom(p->atom, v, round);
  }
  if (v->kind == ATEN_LIST && !aten_is_known(v)) return true;
  if (v->kind == ATEN_LIST || v->kind == ATEN_TUPLE) {
    for (uint32_t i = 0; i < v->u.list->items.count; i++) {
      const aten_value *item = &v->u.list->items.at[i];
      bool is_absent = item->kind == ATEN_NONE && (p->item_optional || p->atom == ATEN_ATOM_TENSOR);
      bool is_row = p->is_nested && (item->kind == ATEN_LIST || item->kind == ATEN_TUPLE);
      if (!is_absent && !is_row && !takes_atom(p->atom, item, round)) return false;
    }
    return true;
  }
  return p->length > 0 && takes_atom(p->atom, v, round);
}

/* ---- conversions ---- */

static aten_value to_number(aten *a, uint8_t atom, const aten_value *v) {
  aten_value n = *v;
  if (v->kind == ATEN_TENSOR) {
    ir_value read = aten_read(a, v);
    n = aten_number(a, ir_build_to_scalar(a->b, read, aten_value_dtype(a, read), "a tensor read as a number"));
  }
  if (atom == ATEN_ATOM_FLOAT && n.kind != ATEN_FLOAT) {
    if (!aten_is_known(&n)) return aten_number(a, ir_build_cast(a->b, n.graph, TD_F64));
    return aten_float(n.kind == ATEN_BOOL ? n.u.b : (double)n.u.i);
  }
  if ((atom == ATEN_ATOM_INT || atom == ATEN_ATOM_SCALAR) && n.kind == ATEN_BOOL && v->kind == ATEN_BOOL) {
    if (aten_is_known(&n)) return atom == ATEN_ATOM_INT ? aten_int(n.u.b) : n;
    return atom == ATEN_ATOM_INT ? aten_number(a, ir_build_cast(a->b, n.graph, TD_I64)) : n;
  }
  if (atom == ATEN_ATOM_INT && n.kind != ATEN_INT) {
    if (!aten_is_known(&n)) return aten_number(a, ir_build_cast(a->b, n.graph, TD_I64));
    return aten_int(n.kind == ATEN_BOOL ? n.u.b : aten_whole(n.u.f));
  }
  if (atom == ATEN_ATOM_BOOL && n.kind != ATEN_BOOL) {
    if (!aten_is_known(&n)) return aten_number(a, ir_build_cast(a->b, n.graph, TD_BOOL));
    return aten_bool(n.kind == ATEN_INT ? n.u.i != 0 : n.u.f != 0);
  }
  return n;
}

static aten_value convert_atom(aten *a, uint8_t atom, const aten_value *v) {
  if (v->kind == ATEN_NONE || (takes[atom] & BIT(v->kind))) return *v;
  if (atom == ATEN_ATOM_DEVICE) return (aten_value){.kind = ATEN_DEVICE, .u.text = v->u.text};
  if (atom == ATEN_ATOM_TENSOR) {
    const aten_complex_number z = aten_complex_of(v);
    float parts[] = {(float)z.re, (float)z.im};
    base_tensor pair = base_tensor_of(parts, TD_F32, 1, (int64_t[]){2});
    if (v->kind == ATEN_COMPLEX) return aten_of_complex(a, ir_build_constant(a->b, &pair));
    td_dtype dtype = v->kind == ATEN_FLOAT ? TD_F32 : v->kind == ATEN_BOOL ? TD_BOOL : TD_I64;
    aten_value made = aten_fresh(a, aten_number_value(a, v, dtype), ATEN_DENSE),
               *number = aten_alloc(a, sizeof *number);
    if (!number || made.kind != ATEN_TENSOR) return ATEN_NOTHING;
    *number = *v;
    made.u.tensor->number = number;
    return made;
  }
  return to_number(a, atom, v);
}

static aten_value convert(aten *a, const aten_param *p, const aten_value *v) {
  if (!p->is_list || v->kind == ATEN_NONE || !aten_is_known(v)) return p->is_list ? *v : convert_atom(a, p->atom, v);
  if (v->kind != ATEN_LIST && v->kind != ATEN_TUPLE) {
    aten_value one = convert_atom(a, p->atom, v), list = aten_list_of(a, NULL, 0);
    for (int64_t i = 0; i < p->length; i++) aten_list_append(a, list.u.list, one);
    return list;
  }
  bool as_is = true;
  for (uint32_t i = 0; i < v->u.list->items.count && !p->is_nested; i++)
    as_is = as_is && (takes[p->atom] & BIT(v->u.list->items.at[i].kind)) != 0;
  if (as_is || p->atom == ATEN_ATOM_ANY) return *v;
  aten_value list = aten_list_of(a, NULL, 0);
  for (uint32_t i = 0; i < v->u.list->items.count; i++)
    aten_list_append(a, list.u.list, convert_atom(a, p->atom, &v->u.list->items.at[i]));
  return list;
}

/* ---- rows ---- */

static int64_t find_param(const aten_schema *s, base_str name) {
  for (uint32_t i = 0; i < s->count; i++)
    if (base_str_equal(s->params[i].name, name)) return i;
  /* TorchScript of old versions calls it "input"; in-place forms call "self" what their functional ones call "input" */
  const bool other = s->count && ((base_str_is(name, "input") && base_str_is(s->params[0].name, "self")) ||
                                  (base_str_is(name, "self") && base_str_is(s->params[0].name, "input")));
  return other ? 0 : -1;
}

bool aten_has_param(const aten_schema *s, base_str name) { return s && find_param(s, name) >= 0; }

int64_t aten_written_param(const aten_schema *s) {
  for (uint32_t i = 0; i < s->count && s->result_count == 1; i++) {
    const aten_param *p = &s->params[i];
    if (p->atom == ATEN_ATOM_TENSOR && !p->is_list && (i == 0 || base_str_is(p->name, "self"))) return i;
  }
  return -1;
}

/* Where positional argument `i` stands: what is written comes first in place. */
static uint32_t place_of(const aten_schema *s, aten_form form, uint32_t i) {
  const uint32_t written = form == ATEN_FORM_IN_PLACE ? (uint32_t)aten_written_param(s) : 0;
  return i == 0 ? written : i <= written ? i - 1 : i;
}

static bool fits(const aten_schema *s, const aten_request *r, int round, aten_value *bound) {
  bool given[ATEN_MAX_PARAMS] = {false};
  for (uint32_t k = 0; k < r->arg_count; k++) {
    const uint32_t i = place_of(s, r->form, k);
    if (i >= s->count || s->params[i].keyword_only) {
      if (s->is_variadic) break;
      return false;
    }
    if (!takes_value(&s->params[i], &r->args[k], round)) return false;
    given[i] = true;
    bound[i] = r->args[k];
  }
  for (uint32_t k = 0; k < r->keyword_count; k++) {
    int64_t i = find_param(s, r->keywords[k].name);
    if (i < 0 || given[i] || !takes_value(&s->params[i], &r->keywords[k].value, round)) return false;
    given[i] = true;
    bound[i] = r->keywords[k].value;
  }
  for (uint32_t i = 0; i < s->count; i++) {
    const aten_param *p = &s->params[i];
    if (given[i]) continue;
    if (!p->has_default && !p->is_optional) return false;
    bound[i] = p->has_default ? p->fallback : ATEN_NOTHING;
  }
  return true;
}

static bool is_overload(const aten_schema *s, const char *overload) {
  if (!overload) return true;
  if (s->overload.length == 0) return overload[0] == '\0' || strcmp(overload, "default") == 0;
  return base_str_is(s->overload, overload);
}

static bool has_form(const aten_schema *s, const aten_request *r) {
  if (r->form == ATEN_FORM_IN_PLACE && aten_written_param(s) < 0) return false;
  return r->form != ATEN_FORM_OUT || s->result_count == r->out_count;
}

int64_t aten_resolve(aten *a, const aten_request *r, aten_value *bound) {
  for (int round = STRICT; round < ROUNDS; round++)
    for (uint32_t row = r->first; row < r->first + r->count; row++) {
      const aten_schema *s = aten_schema_of(a, row);
      if (!s) return -1;
      if (!is_overload(s, r->overload) || !has_form(s, r) || !fits(s, r, round, bound)) continue;
      for (uint32_t i = 0; i < s->count; i++) bound[i] = convert(a, &s->params[i], &bound[i]);
      return row;
    }
  return -1;
}
