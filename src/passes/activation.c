/* activation.c -- activations that exporters spell out become one operator: GELU (by erf and by tanh), SiLU, HardSwish,
 * Mish.
 *
 * A spelling is read as p(x) + q(x) t, where p and q are polynomials and t is one function of a polynomial of x: erf,
 * tanh, sigmoid ...; orders of factors, divisions for multiplications and distributed sums all give the same p and q,
 * which are looked up. x is what the spelling uses more than once.
 *
 * Requires: a verified graph; f32. Keeps: types. Breaks: bit equality: constants are compared to 1e-5 of themselves. */
#include "passes/passes_priv.h"

#include <math.h>
#include <string.h>

enum { DEGREE = 3, TERMS = DEGREE + 1, MAX_DEPTH = 10 };

/* p(x) + q(x) t; t is the result of a node, or none. */
typedef struct form {
  double p[TERMS], q[TERMS];
  ir_value t;
} form;

typedef struct reading {
  passes_edit *e;
  ir_value root, x; /* x: none until it is met */
} reading;

static bool is_number(const form *f) {
  bool constant = !f->t.id;
  for (int i = 1; i < TERMS; i++) constant &= f->p[i] == 0;
  return constant;
}

/* c += a b; false: the degree is too high. */
static bool multiply_into(double *c, const double *a, const double *b) {
  for (int i = 0; i < TERMS; i++)
    for (int j = 0; j < TERMS; j++) {
      if (a[i] == 0 || b[j] == 0) continue;
      if (i + j > DEGREE) return false;
      c[i + j] += a[i] * b[j];
    }
  return true;
}

static bool add_forms(const form *a, const form *b, double sign, form *c) {
  if (a->t.id && b->t.id && a->t.id != b->t.id) return false;
  *c = *a;
  if (b->t.id) c->t = b->t;
  for (int i = 0; i < TERMS; i++) c->p[i] += sign * b->p[i], c->q[i] += sign * b->q[i];
  return true;
}

static bool multiply_forms(const form *a, const form *b, form *c) {
  if (a->t.id && b->t.id) return false;
  *c = (form){.t = a->t.id ? a->t : b->t};
  return multiply_into(c->p, a->p, b->p) && multiply_into(c->q, a->q, b->p) && multiply_into(c->q, a->p, b->q);
}

static bool raise(const form *a, double power, form *c) {
  if (power != 2 && power != 3) return false;
  form square;
  if (!multiply_forms(a, a, &square)) return false;
  if (power == 2) return *c = square, true;
  return multiply_forms(&square, a, c);
}

/* The functions that t may be. */
static const ir_op_id functions[] = {OP_aten_erf,        OP_aten_tanh,     OP_aten_sigmoid,
                                     OP_td_hard_sigmoid, OP_aten_softplus, OP_aten_clamp};

static bool is_function(const ir_node_def *node) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    if (node->op->id == functions[i]) return true;
  return false;
}

static bool read_form(reading *r, ir_value v, uint32_t depth, form *f);

static bool read_node(reading *r, ir_value v, const ir_node_def *node, uint32_t depth, form *f) {
  const uint16_t op = node->op->id;
  form a, b;
  if (is_function(node)) {
    *f = (form){.q = {1}, .t = v};
    return true;
  }
  if (!read_form(r, node->in[0], depth + 1, &a)) return false;
  if (op == OP_aten_square) return raise(&a, 2, f);
  if (op == OP_aten_neg) return add_forms(&(form){{0}, {0}, {0}}, &a, -1, f);
  if (!read_form(r, node->in[1], depth + 1, &b)) return false;
  if (op == OP_aten_add) return add_forms(&a, &b, 1, f);
  if (op == OP_aten_sub) return add_forms(&a, &b, -1, f);
  if (op == OP_aten_mul) return multiply_forms(&a, &b, f);
  if (!is_number(&b)) return false;
  if (op == OP_aten_pow) return raise(&a, b.p[0], f);
  form inverse = {.p = {1 / b.p[0]}}; /* aten::div */
  return b.p[0] != 0 && !*passes_str(node, "rounding_mode") && multiply_forms(&a, &inverse, f);
}

static bool is_read(const ir_node_def *node) {
  static const ir_op_id names[] = {OP_aten_add, OP_aten_sub, OP_aten_mul,   OP_aten_div,
                                   OP_aten_pow, OP_aten_neg, OP_aten_square};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (node->op->id == names[i]) return true;
  return is_function(node);
}

/* What `v` is in terms of r->x. */
static bool read_form(reading *r, ir_value v, uint32_t depth, form *f) {
  double number;
  *f = (form){{0}, {0}, {0}};
  if (depth > MAX_DEPTH || !v.id) return false;
  if (passes_number(r->e, v, &number)) return f->p[0] = number, true;
  ir_node made_by = ir_value_of(r->e->graph, v)->node;
  bool inner = v.id == r->root.id || passes_uses(r->e, v) == 1;
  if (inner && made_by.id) {
    ir_refresh(r->e->graph, made_by);
    const ir_node_def *node = ir_node_of(r->e->graph, made_by);
    if (node->op && is_read(node)) return read_node(r, v, node, depth, f);
  }
  if (r->x.id && r->x.id != v.id) return false;
  r->x = v;
  f->p[1] = 1;
  return true;
}

/* ---- what is looked up ---- */

typedef struct spelling {
  ir_op_id function;
  double argument[TERMS]; /* of the function; of the inner one where there is one */
  ir_op_id inner;         /* the argument is this function of that polynomial; OP_NONE: the polynomial itself */
  double q[TERMS], p[TERMS];
  double low, high; /* of clamp; alpha and beta of hard_sigmoid */
  ir_op_id op;
  const char *approximate;
} spelling;

#define SQRT_HALF 0.70710678118654752
#define TANH_ARGUMENT \
  { 0, 0.79788456080286536, 0, 0.035677408136300125 }
#define SIGMOID_ARGUMENT \
  { 0, 1.5957691216057308, 0, 0.07135481627260025 }

static const spelling spellings[] = {
    {OP_aten_erf, {0, SQRT_HALF}, OP_NONE, {0, 0.5}, {0, 0.5}, 0, 0, OP_aten_gelu, "none"},
    {OP_aten_tanh, TANH_ARGUMENT, OP_NONE, {0, 0.5}, {0, 0.5}, 0, 0, OP_aten_gelu, "tanh"},
    {OP_aten_sigmoid, SIGMOID_ARGUMENT, OP_NONE, {0, 1}, {0}, 0, 0, OP_aten_gelu, "tanh"},
    {OP_aten_sigmoid, {0, 1}, OP_NONE, {0, 1}, {0}, 0, 0, OP_aten_silu, NULL},
    {OP_td_hard_sigmoid, {0, 1}, OP_NONE, {0, 1}, {0}, 1.0 / 6, 0.5, OP_aten_hardswish, NULL},
    {OP_aten_clamp, {3, 1}, OP_NONE, {0, 1.0 / 6}, {0}, 0, 6, OP_aten_hardswish, NULL},
    {OP_aten_clamp, {0.5, 1.0 / 6}, OP_NONE, {0, 1}, {0}, 0, 1, OP_aten_hardswish, NULL},
    {OP_aten_tanh, {0, 1}, OP_aten_softplus, {0, 1}, {0}, 0, 0, OP_aten_mish, NULL},
};

static bool close(const double *a, const double *b) {
  for (int i = 0; i < TERMS; i++)
    if (!(fabs(a[i] - b[i]) <= 1e-5 * fabs(b[i]))) return false;
  return true;
}

/* The numbers that the function takes besides its argument. */
static bool has_parameters(const passes_edit *e, const ir_node_def *node, const spelling *s) {
  double low, high;
  if (s->function == OP_td_hard_sigmoid) {
    low = passes_float(node, "alpha"), high = passes_float(node, "beta");
  } else if (s->function == OP_aten_clamp) {
    if (node->in_count < 3 || !passes_number(e, node->in[1], &low) || !passes_number(e, node->in[2], &high))
      return false;
  } else {
    return true;
  }
  return fabs(low - s->low) <= 1e-6 && fabs(high - s->high) <= 1e-6;
}

static bool has_argument(reading *r, ir_value argument, const spelling *s) {
  form f;
  if (s->inner) {
    const ir_node_def *inner = passes_only_producer(r->e, argument, s->inner);
    if (!inner) return false;
    argument = inner->in[0];
  }
  return read_form(r, argument, 0, &f) && !f.t.id && close(f.p, s->argument);
}

static bool matches(reading *r, const form *f, const spelling *s) {
  const ir_node_def *t = passes_only_producer(r->e, f->t, s->function);
  return t && close(f->q, s->q) && close(f->p, s->p) && has_parameters(r->e, t, s) && has_argument(r, t->in[0], s);
}

static td_status visit(passes_edit *e, ir_node id) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  const uint16_t op = node->op->id;
  if (op != OP_aten_mul && op != OP_aten_div && op != OP_aten_add) return TD_OK;
  reading r = {.e = e, .root = node->out[0]};
  const ir_type *type = ir_type_of(e->graph, r.root);
  form f;
  if (type->dtype != TD_F32 || !read_form(&r, r.root, 0, &f) || !f.t.id) return TD_OK;
  for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
    const spelling *s = &spellings[i];
    if (!matches(&r, &f, s) || !ir_type_equal(ir_type_of(e->graph, r.x), type)) continue;
    const base_arg approximate = ARG_STR("approximate", s->approximate);
    ir_value made;
    TRY(passes_add(e, id, s->op,
                   (ir_new_node){.in = &r.x, .in_count = 1, .args = &approximate, .arg_count = s->approximate ? 1 : 0},
                   NULL, &made));
    return passes_take_place(e, id, made);
  }
  return TD_OK;
}

td_status passes_activation(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
