/* call.c -- a call: find the rows of its name, resolve, lower, and write results of in-place and out= forms back. */
#include "import/aten/aten_priv.h"

#include <string.h>

/* ---- rows by name ---- */

static bool find_rows(const aten *a, base_str name, uint32_t *first, uint32_t *count) {
  const uint32_t *at = base_map_get(&a->names, name);
  if (!at) return false;
  *first = *at;
  *count = 0;
  while (*first + *count < aten_row_count && base_str_equal(aten_schema_name(a->lines[*first + *count]), name))
    ++*count;
  return true;
}

/* "aten::add_" without its underscore; names such as "__and__" have none. */
static bool functional_name(base_str name, base_str *functional) {
  if (name.length < 2 || name.at[name.length - 1] != '_' || name.at[name.length - 2] == '_') return false;
  *functional = (base_str){name.at, name.length - 1};
  return true;
}

/* Overloads that write results where `out`, `values`, ... say: those whose names do not tell it are listed. */
static bool is_out_overload(const char *overload) {
  static const char *const others[] = {"a",       "L",          "U",           "X",      "dim_max",
                                       "dim_min", "dim_values", "eigvals",     "result", "values",
                                       "inverse", "output",     "eigenvalues", "sign",   "values_stable"};
  const base_str name = base_str_of(overload);
  if (base_str_starts(name, "out") || base_str_starts(name, "Out") || base_str_ends(name, "out")) return true;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (base_str_is(name, others[i])) return true;
  return false;
}

/* Has one of the rows `overload`, or any where that is NULL? Forms that write are those of any row that has them. */
static bool has_form(aten *a, uint32_t first, uint32_t count, const char *overload, aten_form form) {
  const bool is_default = overload && (overload[0] == '\0' || strcmp(overload, "default") == 0);
  const bool any = !overload || form == ATEN_FORM_IN_PLACE || is_out_overload(overload);
  for (uint32_t i = first; i < first + count; i++) {
    const aten_schema *s = aten_schema_of(a, i);
    if (!s || !aten_rows[i].lower || (form == ATEN_FORM_IN_PLACE && aten_written_param(s) < 0)) continue;
    if (any || base_str_is(s->overload, overload) || (is_default && s->overload.length == 0)) return true;
  }
  return false;
}

bool aten_supports(aten *a, const char *name, const char *overload) {
  uint32_t first, count;
  base_str functional;
  if (find_rows(a, base_str_of(name), &first, &count) && has_form(a, first, count, overload, ATEN_FORM_PLAIN))
    return true;
  return functional_name(base_str_of(name), &functional) && find_rows(a, functional, &first, &count) &&
         has_form(a, first, count, overload, ATEN_FORM_IN_PLACE);
}

/* ---- out= ---- */

enum { MAX_OUTS = 4, MAX_KEYWORDS = 48 };

/* Takes the tensors of out= from the keywords: those that no row has a parameter for. Gives how many. */
static uint32_t take_outs(aten *a, uint32_t first, uint32_t row_count, const aten_keyword *keywords, uint32_t count,
                          aten_keyword *rest, uint32_t *rest_count, aten_value *outs) {
  uint32_t found = 0;
  *rest_count = 0;
  for (uint32_t i = 0; i < count && i < MAX_KEYWORDS; i++) {
    bool is_out = (keywords[i].value.kind == ATEN_TENSOR || keywords[i].value.kind == ATEN_LIST) && found < MAX_OUTS;
    for (uint32_t row = first; is_out && row < first + row_count; row++)
      is_out = !aten_has_param(aten_schema_of(a, row), keywords[i].name);
    if (is_out) outs[found++] = keywords[i].value;
    else rest[(*rest_count)++] = keywords[i];
  }
  return found;
}

/* An out= tensor takes the result's sizes when it shows all of its cell; lists of tensors are written one by one. */
static void write_out(aten *a, const aten_value *out, const aten_value *result) {
  if (out->kind == ATEN_LIST) {
    const bool fits = aten_is_known(out) && result->kind == ATEN_LIST && aten_is_known(result) &&
                      out->u.list->items.count == result->u.list->items.count;
    if (!fits) ir_build_fail(a->b, TD_UNSUPPORTED, "\"out\" is a list of another length than the result");
    for (uint32_t i = 0; fits && i < out->u.list->items.count && !ir_build_failed(a->b); i++)
      write_out(a, &out->u.list->items.at[i], &result->u.list->items.at[i]);
    return;
  }
  ir_value v = aten_read(a, result);
  if (ir_build_failed(a->b)) return;
  if (out->kind != ATEN_TENSOR || aten_is_complex(out) != aten_is_complex(result)) {
    ir_build_fail(a->b, TD_UNSUPPORTED, "\"out\" is no tensor of the result's kind");
    return;
  }
  const aten_tensor *t = aten_now(out).u.tensor;
  if (t->base) {
    aten_write(a, out, v);
    return;
  }
  aten_place place = {.kind = ATEN_PLACE_CELL, .at = t->cell};
  aten_value cast = aten_fresh(a, ir_build_cast(a->b, v, aten_value_dtype(a, t->cell->value)), ATEN_DENSE);
  if (!ir_build_failed(a->b)) aten_place_set(a, &place, &cast);
}

/* ---- failures ---- */

/* What a list holds is said too: a list is refused for an item of it. */
static void print_kind(const aten_value *v, base_text *text) {
  base_text_print(text, "%s", aten_kind_name(v));
  if (v->kind != ATEN_LIST || !aten_is_known(v)) return;
  for (uint32_t i = 0; i < v->u.list->items.count; i++)
    base_text_print(text, "%s%s", i ? ", " : "[", aten_kind_name(&v->u.list->items.at[i]));
  if (v->u.list->items.count) base_text_print(text, "]");
}

/* What a name means: the rows of its functional form, the one that takes the arguments (-1: none), and what it writes.
 */
typedef struct meaning {
  aten_form form;
  bool is_known;
  uint32_t first, count, out_count;
  int64_t row;
  aten_value outs[MAX_OUTS];
} meaning;

static aten_value fail_lookup(aten *a, const char *name, const meaning *m, const aten_request *r) {
  if (ir_build_failed(a->b)) return ATEN_NOTHING;
  base_text text = {.allocator = base_arena_allocator(a->arena)};
  for (uint32_t i = 0; i < r->arg_count; i++) {
    if (i) base_text_print(&text, ", ");
    print_kind(&r->args[i], &text);
  }
  for (uint32_t i = 0; i < r->keyword_count; i++) {
    base_text_print(&text, "%s%.*s=", i || r->arg_count ? ", " : "", (int)r->keywords[i].name.length,
                    r->keywords[i].name.at);
    print_kind(&r->keywords[i].value, &text);
  }
  if (!m->is_known) ir_build_fail(a->b, TD_UNSUPPORTED, "the operator %s is not supported", name);
  else {
    base_text rows = {.allocator = text.allocator};
    for (uint32_t i = m->first; i < m->first + m->count && rows.length < 700; i++)
      base_text_print(&rows, "%s%s", i > m->first ? "; " : "", a->lines[i]);
    ir_build_fail(a->b, TD_UNSUPPORTED, "no form of %s takes (%s); there are: %s", name, text.at ? text.at : "",
                  rows.at ? rows.at : "");
    base_text_free(&rows);
  }
  base_text_free(&text);
  return ATEN_NOTHING;
}

/* ---- the call ---- */

static bool all_dense(const aten_value *args, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (args[i].kind == ATEN_TENSOR && args[i].u.tensor->dense != ATEN_DENSE) return false;
    if (args[i].kind != ATEN_LIST || !aten_is_known(&args[i])) continue;
    for (uint32_t k = 0; k < args[i].u.list->items.count; k++) {
      const aten_value *item = &args[i].u.list->items.at[k];
      if (item->kind == ATEN_TENSOR && item->u.tensor->dense != ATEN_DENSE) return false;
    }
  }
  return true;
}

static aten_value as_type(aten *a, const aten_value *v, td_dtype dtype) {
  if (v->kind == ATEN_LIST && aten_is_known(v)) {
    aten_value list = aten_list_of(a, NULL, 0);
    for (uint32_t i = 0; i < v->u.list->items.count && !ir_build_failed(a->b); i++)
      aten_list_append(a, list.u.list, as_type(a, &v->u.list->items.at[i], dtype));
    return list;
  }
  if (v->kind != ATEN_TENSOR || aten_value_dtype(a, aten_read(a, v)) == dtype) return *v;
  return aten_fresh(a, aten_as(a, v, dtype), v->u.tensor->dense);
}

static void mix_tensors(aten *a, aten_mix *m, const aten_value *v) {
  if (v->kind == ATEN_TENSOR) aten_mix_value(a, m, v);
  for (uint32_t i = 0; v->kind == ATEN_LIST && aten_is_known(v) && i < v->u.list->items.count; i++)
    mix_tensors(a, m, &v->u.list->items.at[i]);
}

/* The tensors among the arguments in the type that promotion gives, or that of the first. */
static void promote(aten *a, const aten_schema *s, bool as_first, const aten_value *bound, aten_value *to) {
  aten_mix m = {0};
  for (uint32_t i = 0; i < s->count; i++)
    if (s->params[i].atom == ATEN_ATOM_TENSOR) mix_tensors(a, &m, &bound[i]);
  const td_dtype dtype = as_first ? aten_value_dtype(a, aten_read(a, &bound[0])) : aten_mix_result(&m);
  for (uint32_t i = 0; i < s->count && !ir_build_failed(a->b); i++)
    to[i] = s->params[i].atom == ATEN_ATOM_TENSOR ? as_type(a, &bound[i], dtype) : bound[i];
}

static bool is_batched_call(const aten_args *c) {
  bool is = false;
  for (uint32_t i = 0; i < c->schema->count; i++) is = is || aten_is_batched(&c->args[i]);
  return is && c->row->lower != aten_lower_add_batch_dim && c->row->lower != aten_lower_remove_batch_dim;
}

/* A tensor, or the first of a list of them that is known; NULL: it is none. */
static const aten_value *first_tensor(const aten_value *v) {
  if (v->kind == ATEN_LIST && aten_is_known(v) && v->u.list->items.count) v = &v->u.list->items.at[0];
  return v->kind == ATEN_TENSOR ? v : NULL;
}

/* The real values of a tensor, or of each of a list. */
static aten_value dequantised(aten *a, const aten_value *v) {
  if (v->kind == ATEN_TENSOR) return aten_dequantised(a, v);
  const uint32_t count = v->u.list->items.count;
  aten_value *items = aten_alloc(a, count * sizeof *items);
  for (uint32_t i = 0; items && i < count; i++) {
    const aten_value *item = &v->u.list->items.at[i];
    items[i] = item->kind == ATEN_TENSOR && item->u.tensor->quant ? aten_dequantised(a, item) : *item;
  }
  return items ? aten_list_of(a, items, count) : ATEN_NOTHING;
}

aten_value aten_lower_call(aten_args *c) {
  aten *a = c->a;
  const aten_schema *s = c->schema;
  const uint8_t forms = aten_forms[c->row - aten_rows];
  const aten_value *bound = c->args;
  if (is_batched_call(c)) return aten_batched_call(c);
  c->all_dense = all_dense(bound, s->count);
  if ((forms & (ATEN_PARTS | ATEN_PRODUCT)) && aten_has_complex(c)) return aten_complex_call(c);
  aten_value real[ATEN_MAX_PARAMS];
  if (forms & (ATEN_PROMOTES | ATEN_AS_FIRST)) {
    promote(a, s, forms & ATEN_AS_FIRST, bound, real);
    c->args = real;
  }
  const aten_value *first = s->count ? first_tensor(&bound[0]) : NULL;
  const bool quantised = first && first->u.tensor->quant, fixed = quantised && aten_is_fixed(c);
  if (!quantised || !(fixed || forms & ATEN_KEEPS_QUANT)) return c->row->lower(c);
  memcpy(real, bound, s->count * sizeof *real); /* computed on real numbers, and quantised as the operand is */
  real[0] = dequantised(a, &bound[0]);
  c->args = real;
  aten_value result = c->row->lower(c);
  if (result.kind != ATEN_TENSOR) return result;
  const ir_value y = aten_read(a, &result);
  return fixed ? aten_quantised_fixed(c, y, first) : aten_quantised_like(a, y, first);
}

static aten_value lower(aten *a, const char *name, uint32_t row, const aten_value *bound, const aten_value *args,
                        uint32_t arg_count) {
  const aten_schema *s = aten_schema_of(a, row);
  uint32_t positional = 0;
  if (!s || ir_build_failed(a->b)) return ATEN_NOTHING;
  while (positional < s->count && !s->params[positional].keyword_only) positional++;
  aten_args c = {.a = a, .b = a->b, .row = &aten_rows[row], .schema = s, .name = name, .version = a->version};
  c.args = bound;
  if (s->is_variadic && arg_count > positional) {
    c.extra = args + positional;
    c.extra_count = arg_count - positional;
  }
  if (!aten_rows[row].lower) {
    ir_build_fail(a->b, TD_UNSUPPORTED, "the operator %s is not supported in this form: %s", name, a->lines[row]);
    return ATEN_NOTHING;
  }
  a->version = 0;
  aten_value result = aten_lower_call(&c);
  a->version = c.version;
  return result;
}

/* What failed because ranks of operands are not known is tried again, where likely ones are: a run in which they are
 * not as they seemed fails. False: there are none. */
static bool rank_operands(aten *a, aten_value *bound, uint32_t count) {
  ir_value sizes[BASE_MAX_RANK];
  bool any = false;
  a->b->status = TD_OK;
  for (uint32_t i = 0; i < count && !ir_build_failed(a->b); i++) {
    if (bound[i].kind != ATEN_TENSOR || bound[i].u.tensor->batch || !aten_can_read(&bound[i])) continue;
    const ir_value v = aten_read(a, &bound[i]);
    const ir_type *type = ir_build_type(a->b, v);
    const int32_t rank = type->rank == IR_UNRANKED ? type->likely_rank : 0;
    for (int32_t k = 0; k < rank; k++) {
      const aten_value size = aten_size(a, v, k);
      sizes[k] = aten_vector(a, &size, 1);
    }
    if (rank) bound[i] = aten_view_reshape(a, &bound[i], aten_cat(a, sizes, (uint32_t)rank, 0));
    any = any || rank;
  }
  if (!any && !ir_build_failed(a->b)) a->b->status = TD_UNSUPPORTED;
  return any;
}

/* The same as memory of its own: for PyTorch's operators whose names end in _copy. */
static aten_value copied(aten *a, const aten_value *v) {
  if (v->kind == ATEN_TENSOR) {
    aten_value copy = aten_fresh(a, aten_read(a, v), ATEN_DENSE);
    if (copy.kind == ATEN_TENSOR) copy.u.tensor->is_complex = v->u.tensor->is_complex;
    return copy;
  }
  if (v->kind != ATEN_LIST || !aten_is_known(v)) return *v;
  aten_value list = aten_list_of(a, NULL, 0);
  for (uint32_t i = 0; i < v->u.list->items.count && !ir_build_failed(a->b); i++)
    aten_list_append(a, list.u.list, copied(a, &v->u.list->items.at[i]));
  return list;
}

/* The first operand after an in-place call. */
static aten_value write_self(aten *a, const aten_value *self, const aten_value *result, uint8_t forms) {
  if (!(forms & ATEN_TURNS)) aten_write(a, self, aten_read(a, result));
  else if (result->u.tensor != self->u.tensor) aten_turn(a, self->u.tensor, result->u.tensor);
  return *self;
}

/* Rows of the name itself come first, then those of its functional form: overloads of forms that write are called
 * otherwise ("pow_.Scalar" is "pow.Tensor_Scalar"), so that arguments decide where no name fits. */
static void resolve_call(aten *a, base_str name, const aten_request *asked, meaning *m, aten_value *bound) {
  aten_keyword rest[MAX_KEYWORDS];
  uint32_t rest_count;
  aten_request r = *asked;
  *m = (meaning){.form = ATEN_FORM_PLAIN, .row = -1};
  m->is_known = find_rows(a, name, &m->first, &m->count);
  r.first = m->first;
  r.count = m->count;
  if (m->is_known) m->row = aten_resolve(a, &r, bound);
  if (m->row < 0 && functional_name(name, &name) && find_rows(a, name, &r.first, &r.count)) {
    r.form = m->form = ATEN_FORM_IN_PLACE; /* add_ of lists has rows of its own */
    m->is_known = true;
    m->first = r.first;
    m->count = r.count;
    m->row = aten_resolve(a, &r, bound);
    r.overload = NULL;
    if (m->row < 0) m->row = aten_resolve(a, &r, bound);
  }
  if (m->row >= 0 || !m->is_known || m->form == ATEN_FORM_IN_PLACE) return;
  m->out_count = take_outs(a, m->first, m->count, asked->keywords, asked->keyword_count, rest, &rest_count, m->outs);
  if (!m->out_count) return;
  r = (aten_request){.first = m->first,
                     .count = m->count,
                     .form = m->form = ATEN_FORM_OUT,
                     .out_count = m->out_count,
                     .args = asked->args,
                     .arg_count = asked->arg_count,
                     .keywords = rest,
                     .keyword_count = rest_count};
  m->row = aten_resolve(a, &r, bound);
}

aten_value aten_call(aten *a, const char *name, const char *overload, const aten_value *args, uint32_t arg_count,
                     const aten_keyword *keywords, uint32_t keyword_count) {
  aten_value bound[ATEN_MAX_PARAMS];
  meaning m;
  if (ir_build_failed(a->b)) return ATEN_NOTHING;
  const aten_request asked = {.overload = overload,
                              .form = ATEN_FORM_PLAIN,
                              .args = args,
                              .arg_count = arg_count,
                              .keywords = keywords,
                              .keyword_count = keyword_count};
  resolve_call(a, base_str_of(name), &asked, &m, bound);
  if (m.row < 0) return fail_lookup(a, name, &m, &asked);
  const uint32_t row = (uint32_t)m.row;
  const aten_schema *s = aten_schema_of(a, row);
  for (uint32_t i = 0; i < s->count; i++) bound[i] = aten_now(&bound[i]);
  const uint32_t changes = a->journal.count;
  aten_value result = lower(a, name, row, bound, args, arg_count);
  if (a->b->status == TD_UNSUPPORTED && a->journal.count == changes && rank_operands(a, bound, s->count))
    result = lower(a, name, row, bound, args, arg_count);
  if (ir_build_failed(a->b)) return ATEN_NOTHING;
  if (m.form == ATEN_FORM_IN_PLACE) return write_self(a, &bound[aten_written_param(s)], &result, aten_forms[row]);
  if (m.form == ATEN_FORM_PLAIN) return base_str_ends(base_str_of(name), "_copy") ? copied(a, &result) : result;
  for (uint32_t i = 0; i < m.out_count; i++)
    write_out(a, &m.outs[i], result.kind == ATEN_TUPLE ? &result.u.list->items.at[i] : &result);
  return m.out_count == 1 ? m.outs[0] : aten_tuple_of(a, m.outs, m.out_count);
}
aten_value aten_call_of(aten_args *c, const char *name, const aten_value *args, uint32_t count) {
  return aten_call(c->a, name, NULL, args, count, NULL, 0);
}
