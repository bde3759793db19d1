/* complex.c -- calls with complex operands of rows that say how that goes: done to the parts in turn (ATEN_PARTS), or
 * multiplied out over them (ATEN_PRODUCT). The lowering itself sees real tensors alone. */
#include "import/aten/aten_priv.h"

#include <string.h>

enum { MAX_FACTORS = 4 };

static bool has_complex_item(const aten_value *v) {
  if (v->kind != ATEN_LIST || !aten_is_known(v)) return false;
  for (uint32_t i = 0; i < v->u.list->items.count; i++)
    if (aten_is_complex(&v->u.list->items.at[i])) return true;
  return false;
}

bool aten_has_complex(const aten_args *c) {
  for (uint32_t i = 0; i < c->schema->count; i++)
    if (aten_is_complex(&c->args[i]) || c->args[i].kind == ATEN_COMPLEX || has_complex_item(&c->args[i])) return true;
  return false;
}

static aten_value part_of(aten_args *c, const aten_value *v, bool imaginary) {
  return aten_fresh(c->a, aten_select(c->a, aten_read(c->a, v), -1, imaginary), ATEN_UNSURE);
}

static aten_value zeros_of(aten_args *c, const aten_value *v) {
  ir_value x = aten_read(c->a, v);
  return aten_fresh(c->a, aten_full(c->a, aten_shape(c->a, x), aten_scalar_like(c->a, x, 0)), ATEN_DENSE);
}

/* Runs the row over `args`, in which nothing is complex. */
static aten_value run(aten_args *c, const aten_value *args) {
  aten_args real = *c;
  real.args = args;
  real.all_dense = false;
  return ir_build_failed(c->b) ? ATEN_NOTHING : c->row->lower(&real);
}

/* ---- part by part ---- */

/* Which elements, not what they are: these stay as they are for both parts. */
static bool is_choice(const aten_param *p) {
  static const char *const names[] = {"index", "indices", "mask", "condition", "repeats"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (base_str_is(p->name, names[i])) return true;
  return false;
}

/* An argument as one part of the call sees it; what is real has no imaginary part. */
static aten_value argument(aten_args *c, const aten_param *p, const aten_value *v, bool imaginary) {
  if (base_str_is(p->name, "dtype") && v->kind == ATEN_INT && aten_is_known(v)) {
    if (!aten_is_complex_type(v->u.i)) aten_refuse(c, "of complex numbers to real ones");
    return aten_int(aten_part_type(v->u.i));
  }
  if (v->kind == ATEN_COMPLEX) return aten_float(imaginary ? aten_complex_of(v).im : aten_complex_of(v).re);
  if (aten_is_complex(v)) return part_of(c, v, imaginary);
  if (!imaginary || is_choice(p)) return *v;
  if (v->kind == ATEN_TENSOR) return zeros_of(c, v);
  const bool is_value = p->atom == ATEN_ATOM_SCALAR || base_str_is(p->name, "value");
  return is_value && v->kind != ATEN_NONE && !base_str_is(p->name, "alpha") ? aten_int(0) : *v;
}

static aten_value list_argument(aten_args *c, const aten_param *p, const aten_value *v, bool imaginary) {
  const bool is_list = v->kind == ATEN_LIST && p->atom == ATEN_ATOM_TENSOR && aten_is_known(v);
  if (!is_list) return argument(c, p, v, imaginary);
  aten_value list = aten_list_of(c->a, NULL, 0);
  for (uint32_t i = 0; i < v->u.list->items.count && !ir_build_failed(c->b); i++)
    aten_list_append(c->a, list.u.list, argument(c, p, &v->u.list->items.at[i], imaginary));
  return list;
}

static aten_value join(aten_args *c, const aten_value *re, const aten_value *im) {
  if (re->kind == ATEN_TENSOR) return aten_joined(c, (aten_pair){aten_read(c->a, re), aten_read(c->a, im)});
  if (re->kind != ATEN_LIST && re->kind != ATEN_TUPLE) return *re;
  if (!aten_is_known(re)) aten_refuse(c, "of complex numbers");
  aten_value all = re->kind == ATEN_LIST ? aten_list_of(c->a, NULL, 0) : aten_tuple_of(c->a, NULL, 0);
  for (uint32_t i = 0; i < re->u.list->items.count && !ir_build_failed(c->b); i++)
    aten_list_append(c->a, all.u.list, join(c, &re->u.list->items.at[i], &im->u.list->items.at[i]));
  return all;
}

static aten_value by_parts(aten_args *c) {
  aten_value part[2];
  for (int k = 0; k < 2; k++) {
    aten_value args[ATEN_MAX_PARAMS];
    for (uint32_t i = 0; i < c->schema->count; i++)
      args[i] = list_argument(c, &c->schema->params[i], &c->args[i], k == 1);
    part[k] = run(c, args);
    if (ir_build_failed(c->b)) return ATEN_NOTHING;
  }
  return join(c, &part[0], &part[1]);
}

/* ---- products ---- */

/* The complex operands of a product, in place: *factors of them. A bias is none: it is added. */
static void find_factors(aten_args *c, aten_value *args, aten_value **factors, uint32_t *count, int64_t *bias) {
  *count = 0;
  *bias = aten_position(c, "bias");
  for (uint32_t i = 0; i < c->schema->count; i++) {
    args[i] = c->args[i];
    if (has_complex_item(&args[i]))
      args[i] = aten_list_of(c->a, c->args[i].u.list->items.at, c->args[i].u.list->items.count);
    const bool is_list = has_complex_item(&args[i]);
    const uint32_t items = is_list ? args[i].u.list->items.count : 1;
    for (uint32_t k = 0; k < items && (int64_t)i != *bias; k++) {
      aten_value *v = is_list ? &args[i].u.list->items.at[k] : &args[i];
      if (!aten_is_complex(v)) continue;
      if (*count == MAX_FACTORS) aten_refuse(c, "a product of more than %d complex factors", MAX_FACTORS);
      else factors[(*count)++] = v;
    }
  }
}

/* The bias of one of the products: its real part goes with that of the real parts, its imaginary part with the first
 * of those that are imaginary. */
static aten_value bias_of(aten_args *c, const aten_value *bias, uint32_t mask) {
  if (bias->kind != ATEN_TENSOR || mask > 1) return ATEN_NOTHING;
  if (aten_is_complex(bias)) return part_of(c, bias, mask == 1);
  return mask ? ATEN_NOTHING : *bias;
}

/* A sum over all ways to take one part of each factor; bit i of `mask`: the imaginary one of factor i. */
static aten_value multiplied_out(aten_args *c) {
  aten_value args[ATEN_MAX_PARAMS], *factors[MAX_FACTORS], whole[MAX_FACTORS];
  uint32_t count;
  int64_t bias;
  aten_pair sum = {IR_NO_VALUE, IR_NO_VALUE};
  find_factors(c, args, factors, &count, &bias);
  if (!count) aten_refuse(c, "of real numbers and a complex bias");
  for (uint32_t i = 0; i < count; i++) whole[i] = *factors[i];
  for (uint32_t mask = 0; mask < 1u << count && !ir_build_failed(c->b); mask++) {
    const uint32_t power = (uint32_t)__builtin_popcount(mask);
    for (uint32_t i = 0; i < count; i++) *factors[i] = part_of(c, &whole[i], mask >> i & 1);
    if (bias >= 0) args[bias] = bias_of(c, &c->args[bias], mask);
    const aten_value product = run(c, args);
    if (product.kind != ATEN_TENSOR) return ATEN_NOTHING;
    ir_value *to = power % 2 ? &sum.im : &sum.re, v = aten_read(c->a, &product);
    *to = to->id ? aten_binary(c->a, power & 2 ? "aten::sub" : "aten::add", *to, v) : v;
  }
  return ir_build_failed(c->b) ? ATEN_NOTHING : aten_joined(c, sum);
}

aten_value aten_complex_call(aten_args *c) {
  return aten_forms[c->row - aten_rows] & ATEN_PARTS ? by_parts(c) : multiplied_out(c);
}
