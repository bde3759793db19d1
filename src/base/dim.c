/* dim.c -- size expressions. Canonical form: constants fold; in a product the constant stands left; sums of a common
 * base fold their constants, sums of multiples of a base are one multiple; a division by a factor of a product cancels
 * it, and one by a number is a floor that holds no multiple of it and no other division. That is enough for the sizes
 * that exporters write (views of batch*seq, halves, strides), and anything else stays a plain expression: never wrong,
 * only less equal. */
#include "base/dim.h"
#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const op_names[BASE_DIM_OP_COUNT] = {
    [BASE_DIM_SYMBOL] = "",      [BASE_DIM_ADD] = "add",         [BASE_DIM_SUB] = "sub", [BASE_DIM_MUL] = "mul",
    [BASE_DIM_FLOORDIV] = "div", [BASE_DIM_CEILDIV] = "ceildiv", [BASE_DIM_MOD] = "mod", [BASE_DIM_MIN] = "min",
    [BASE_DIM_MAX] = "max",      [BASE_DIM_BROADCAST] = "bcast"};

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/* Of b's sign, or 0. */
static int64_t floor_mod(int64_t a, int64_t b) {
  const int64_t rest = a % b;
  return rest && (rest < 0) != (b < 0) ? rest + b : rest;
}

/* a op b on numbers; false: overflow, zero divisor, or no broadcast. */
static bool compute(base_dim_op op, int64_t a, int64_t b, int64_t *r) {
  bool divides = op == BASE_DIM_FLOORDIV || op == BASE_DIM_CEILDIV || op == BASE_DIM_MOD;
  if (divides && (b == 0 || (a == INT64_MIN && b == -1))) return false;
  switch (op) {
    case BASE_DIM_ADD: return !__builtin_add_overflow(a, b, r);
    case BASE_DIM_SUB: return !__builtin_sub_overflow(a, b, r);
    case BASE_DIM_MUL: return !__builtin_mul_overflow(a, b, r);
    case BASE_DIM_FLOORDIV: *r = floor_div(a, b); return true;
    case BASE_DIM_CEILDIV: *r = floor_div(a, b) + (a % b != 0); return true;
    case BASE_DIM_MOD: *r = floor_mod(a, b); return true;
    case BASE_DIM_MIN: *r = a < b ? a : b; return true;
    case BASE_DIM_MAX: *r = a > b ? a : b; return true;
    case BASE_DIM_BROADCAST: *r = a == 1 ? b : a; return a == b || a == 1 || b == 1;
    default: return false;
  }
}

static const base_dim_node *node_of(const base_dims *dims, base_dim d) {
  return &dims->nodes.at[d - (BASE_DIM_NONE + 1)];
}

static base_dim handle(uint32_t index) { return BASE_DIM_NONE + 1 + (int64_t)index; }

static bool is_expression(base_dim d) { return d != BASE_DIM_NONE && d < BASE_DIM_LEAST; }

/* Nodes of the longest expression that is kept. Sharing makes long ones out of few operations (x + x / 2 of that ...),
 * and evaluating walks the tree: without a bound a small file could ask for more than ever ends. A longer one becomes a
 * symbol that only running can tell. */
enum { WEIGHT_MAX = 4096 };

static uint32_t weight_of(const base_dims *dims, base_dim d) { return is_expression(d) ? node_of(dims, d)->weight : 1; }

static base_dim intern(base_dims *dims, base_dim_op op, int64_t a, int64_t b) {
  if (!dims || a == BASE_DIM_NONE || b == BASE_DIM_NONE) return BASE_DIM_NONE;
  base_dim_node key = {0};
  key.op = op;
  key.a = a;
  key.b = b;
  base_str bytes = {(const char *)&key, sizeof key};
  uint32_t *found = base_map_get(&dims->by_node, bytes);
  if (found) return handle(*found);
  uint32_t weight = op == BASE_DIM_SYMBOL ? 1 : 1 + weight_of(dims, a) + weight_of(dims, b);
  if (weight > WEIGHT_MAX) return base_dim_fresh(dims);
  const char *copy = base_arena_copy(dims->arena, &key, sizeof key);
  base_dim_node *node = copy ? base_vec_push(dims->arena, &dims->nodes) : NULL;
  if (!node) return BASE_DIM_NONE;
  *node = key;
  node->weight = weight;
  uint32_t index = dims->nodes.count - 1;
  if (!base_map_put(&dims->by_node, dims->arena, (base_str){copy, sizeof key}, index, NULL)) return BASE_DIM_NONE;
  return handle(index);
}

bool base_dims_copy(const base_dims *from, base_arena *arena, base_dims *to) {
  const uint32_t nodes = from->nodes.count, symbols = from->symbols.count;
  base_dims made = {
      .arena = arena,
      .nodes = {base_arena_copy(arena, from->nodes.at, nodes * sizeof *from->nodes.at), nodes, nodes},
      .symbols = {base_arena_copy(arena, from->symbols.at, symbols * sizeof *from->symbols.at), symbols, symbols}};
  if (!made.nodes.at || !made.symbols.at) return false;
  for (uint32_t i = 0; i < symbols; i++)
    if (!(made.symbols.at[i].name = base_arena_text(arena, from->symbols.at[i].name))) return false;
  *to = made;
  return true;
}

bool base_dims_check(base_dims *dims) {
  for (uint32_t i = 0; i < dims->nodes.count; i++) {
    base_dim_node *n = &dims->nodes.at[i];
    if (n->op == BASE_DIM_SYMBOL) {
      if (n->a < 0 || n->a >= dims->symbols.count || n->b) return false;
      n->weight = 1;
      continue;
    }
    if ((uint32_t)n->op >= BASE_DIM_OP_COUNT) return false;
    for (uint32_t k = 0; k < 2; k++) {
      const base_dim d = k ? n->b : n->a;
      if (!base_dim_known(d) && (d == BASE_DIM_NONE || d >= handle(i))) return false;
    }
    n->weight = 1 + weight_of(dims, n->a) + weight_of(dims, n->b);
    if (n->weight > WEIGHT_MAX) return false;
  }
  return true;
}

static bool number_of(base_dim d, int64_t *value) {
  *value = d;
  return base_dim_known(d);
}

base_dim base_dim_symbol(base_dims *dims, const char *name) {
  uint32_t *found = base_map_get(&dims->by_name, base_str_of(name));
  if (found) return intern(dims, BASE_DIM_SYMBOL, *found, 0);
  char *copy = base_arena_text(dims->arena, name);
  base_symbol *symbol = copy ? base_vec_push(dims->arena, &dims->symbols) : NULL;
  if (!symbol) return BASE_DIM_NONE;
  symbol->name = copy;
  uint32_t index = dims->symbols.count - 1;
  if (!base_map_put(&dims->by_name, dims->arena, base_str_of(copy), index, NULL)) return BASE_DIM_NONE;
  return intern(dims, BASE_DIM_SYMBOL, index, 0);
}

base_dim base_dim_fresh(base_dims *dims) {
  if (!dims) return BASE_DIM_NONE;
  char name[24];
  uint32_t number = dims->symbols.count;
  do snprintf(name, sizeof name, "u%u", number++);
  while (base_map_get(&dims->by_name, base_str_of(name)));
  base_dim d = base_dim_symbol(dims, name);
  if (d != BASE_DIM_NONE) dims->symbols.at[dims->symbols.count - 1].from_data = true;
  return d;
}

const char *base_dim_symbol_name(const base_dims *dims, base_dim d) {
  if (!is_expression(d) || node_of(dims, d)->op != BASE_DIM_SYMBOL) return NULL;
  return dims->symbols.at[node_of(dims, d)->a].name;
}

static int sign(int64_t a, int64_t b) { return (a > b) - (a < b); }

/* One order of expressions for all tables: by what they say, never by when they were made. Numbers stand first, then
 * symbols by name, then operations. */
static int order(const base_dims *dims, base_dim x, base_dim y) {
  if (x == y) return 0;
  if (base_dim_known(x) || base_dim_known(y))
    return base_dim_known(x) && base_dim_known(y) ? sign(x, y) : base_dim_known(x) ? -1 : 1;
  const base_dim_node *a = node_of(dims, x), *b = node_of(dims, y);
  if (a->op != b->op) return sign(a->op, b->op);
  if (a->op == BASE_DIM_SYMBOL) return strcmp(dims->symbols.at[a->a].name, dims->symbols.at[b->a].name);
  int left = order(dims, a->a, b->a);
  return left ? left : order(dims, a->b, b->b);
}

static bool is_op(const base_dims *dims, base_dim d, base_dim_op op) {
  return is_expression(d) && node_of(dims, d)->op == op;
}

/* The factors of a product: its numbers as one, its other factors in rising order. */
enum { FACTORS_MAX = 32 };
typedef struct product {
  int64_t number;
  uint32_t count;
  base_dim factors[FACTORS_MAX];
} product;

/* Multiplies `d` into `p`; false on overflow or too many factors. */
static bool take_factors(const base_dims *dims, base_dim d, product *p) {
  int64_t number;
  if (number_of(d, &number)) return base_mul_i64(p->number, number, &p->number);
  if (is_op(dims, d, BASE_DIM_MUL))
    return take_factors(dims, node_of(dims, d)->a, p) && take_factors(dims, node_of(dims, d)->b, p);
  if (p->count == FACTORS_MAX) return false;
  uint32_t i = p->count++;
  for (; i > 0 && order(dims, p->factors[i - 1], d) > 0; i--) p->factors[i] = p->factors[i - 1];
  p->factors[i] = d;
  return true;
}

static base_dim product_dim(base_dims *dims, const product *p) {
  if (p->number == 0 || p->count == 0) return base_dim_number(p->number);
  base_dim d = p->factors[p->count - 1];
  for (uint32_t i = p->count - 1; i-- > 0 && d != BASE_DIM_NONE;) d = intern(dims, BASE_DIM_MUL, p->factors[i], d);
  if (p->number == 1 || d == BASE_DIM_NONE) return d;
  return intern(dims, BASE_DIM_MUL, base_dim_number(p->number), d);
}

static base_dim simplify_mul(base_dims *dims, base_dim a, base_dim b) {
  product p = {.number = 1};
  if (!take_factors(dims, a, &p) || !take_factors(dims, b, &p)) return intern(dims, BASE_DIM_MUL, a, b);
  return product_dim(dims, &p);
}

/* a / b where every factor of b is one of a; else BASE_DIM_NONE. */
static base_dim divide_exactly(base_dims *dims, base_dim a, base_dim b) {
  product from = {.number = 1}, by = {.number = 1}, left = {.number = 1};
  if (!take_factors(dims, a, &from) || !take_factors(dims, b, &by)) return BASE_DIM_NONE;
  if (by.number == 0 || from.number % by.number != 0) return BASE_DIM_NONE;
  left.number = from.number / by.number;
  uint32_t taken = 0; /* both lists have one order */
  for (uint32_t i = 0; i < from.count; i++) {
    if (taken < by.count && from.factors[i] == by.factors[taken]) taken++;
    else left.factors[left.count++] = from.factors[i];
  }
  return taken == by.count ? product_dim(dims, &left) : BASE_DIM_NONE;
}

/* k * x as k and x; any other expression is once itself. */
static base_dim without_factor(const base_dims *dims, base_dim d, int64_t *k) {
  if (is_op(dims, d, BASE_DIM_MUL) && number_of(node_of(dims, d)->a, k)) return node_of(dims, d)->b;
  *k = 1;
  return d;
}

/* a + c, where c is a number: (base + k) + c is one sum, and so is k * (base + x) + c. */
static base_dim add_number(base_dims *dims, base_dim a, int64_t c) {
  int64_t k, x, scaled;
  if (c == 0) return a;
  if (is_op(dims, a, BASE_DIM_ADD)) {
    base_dim_node n = *node_of(dims, a);
    if (number_of(n.b, &k) && !__builtin_add_overflow(k, c, &k)) return add_number(dims, n.a, k);
  }
  const base_dim factor = without_factor(dims, a, &k);
  if (factor != a && is_op(dims, factor, BASE_DIM_ADD)) {
    base_dim_node n = *node_of(dims, factor);
    if (number_of(n.b, &x) && base_mul_i64(k, x, &scaled) && base_add_i64(scaled, c, &scaled))
      return add_number(dims, base_dim_mul(dims, k, n.a), scaled);
  }
  return intern(dims, BASE_DIM_ADD, a, base_dim_number(c));
}

static base_dim simplify_add(base_dims *dims, base_dim a, base_dim b) {
  int64_t x, k;
  if (number_of(b, &x)) return add_number(dims, a, x);
  if (number_of(a, &x)) return add_number(dims, b, x);
  if (is_op(dims, a, BASE_DIM_SUB) && node_of(dims, a)->b == b) return node_of(dims, a)->a;
  if (is_op(dims, b, BASE_DIM_SUB) && node_of(dims, b)->b == a) return node_of(dims, b)->a;
  if (is_op(dims, a, BASE_DIM_ADD) && number_of(node_of(dims, a)->b, &x))
    return add_number(dims, base_dim_add(dims, node_of(dims, a)->a, b), x);
  if (is_op(dims, b, BASE_DIM_ADD) && number_of(node_of(dims, b)->b, &x))
    return add_number(dims, base_dim_add(dims, a, node_of(dims, b)->a), x);
  base_dim base = without_factor(dims, a, &x);
  if (base == without_factor(dims, b, &k) && base_add_i64(x, k, &x) && base_dim_known(x))
    return base_dim_mul(dims, x, base);
  return order(dims, a, b) < 0 ? intern(dims, BASE_DIM_ADD, a, b) : intern(dims, BASE_DIM_ADD, b, a);
}

static base_dim simplify_sub(base_dims *dims, base_dim a, base_dim b) {
  int64_t x, y;
  if (a == b) return 0;
  if (number_of(b, &x) && x != INT64_MIN) return add_number(dims, a, -x);
  if (is_op(dims, a, BASE_DIM_ADD)) {
    base_dim_node n = *node_of(dims, a);
    if (n.a == b) return n.b;
    if (n.b == b) return n.a;
    if (is_op(dims, b, BASE_DIM_ADD) && node_of(dims, b)->a == n.a && number_of(n.b, &x) &&
        number_of(node_of(dims, b)->b, &y) && !__builtin_sub_overflow(x, y, &x))
      return base_dim_number(x);
  }
  if (is_op(dims, b, BASE_DIM_ADD) && node_of(dims, b)->a == a && number_of(node_of(dims, b)->b, &y) && y != INT64_MIN)
    return base_dim_number(-y);
  if (is_op(dims, b, BASE_DIM_SUB) && node_of(dims, b)->a == a) return node_of(dims, b)->b;
  if (a == 0 && is_op(dims, b, BASE_DIM_MUL) && number_of(node_of(dims, b)->a, &x)) return base_dim_mul(dims, -1, b);
  return intern(dims, BASE_DIM_SUB, a, b);
}

/* x + c as x and c; any other expression has a c of 0. */
static base_dim without_number(const base_dims *dims, base_dim d, int64_t *c) {
  if (is_op(dims, d, BASE_DIM_ADD) && number_of(node_of(dims, d)->b, c)) return node_of(dims, d)->a;
  *c = 0;
  return d;
}

/* The smaller or larger one, where it is the same for all sizes. */
static base_dim simplify_extreme(base_dims *dims, base_dim_op op, base_dim a, base_dim b) {
  int64_t x, y;
  if (without_number(dims, a, &x) == without_number(dims, b, &y)) return (x < y) == (op == BASE_DIM_MIN) ? a : b;
  base_dim number = number_of(a, &x) ? a : b, other = number == a ? b : a;
  if (number_of(number, &x) && x <= 0 && base_dim_not_negative(dims, other)) return op == BASE_DIM_MIN ? number : other;
  return order(dims, a, b) < 0 ? intern(dims, op, a, b) : intern(dims, op, b, a);
}

/* Broadcasting x with what is already x broadcast with something, or with min(k, x) for a number k, gives no other size
 * where it is allowed. BASE_DIM_NONE: nothing to see. */
static base_dim absorb(const base_dims *dims, base_dim a, base_dim x) {
  int64_t k;
  if (!is_expression(a)) return BASE_DIM_NONE;
  const base_dim_node *n = node_of(dims, a);
  if (n->op == BASE_DIM_BROADCAST && (n->a == x || n->b == x)) return a;
  if (n->op == BASE_DIM_MIN && (n->a == x || n->b == x) && number_of(n->a == x ? n->b : n->a, &k) && k >= 1) return x;
  return BASE_DIM_NONE;
}

static base_dim simplify_broadcast(base_dims *dims, base_dim a, base_dim b) {
  if (a == 1 || b == 1) return a == 1 ? b : a;
  if (base_dim_known(a)) return a; /* the open one is 1 or the same: checked when it is bound */
  if (base_dim_known(b)) return b;
  base_dim both = absorb(dims, a, b);
  if (both == BASE_DIM_NONE) both = absorb(dims, b, a);
  if (both != BASE_DIM_NONE) return both;
  return order(dims, a, b) < 0 ? intern(dims, BASE_DIM_BROADCAST, a, b) : intern(dims, BASE_DIM_BROADCAST, b, a);
}

/* Of divisions that take another form: what is added there is less, and overflows with no size. */
enum { DIVISOR_MAX = 1 << 30 };

/* floor(a / y) for a number y > 1: what y divides leaves the division, and divisions of divisions are one, since
 * floor((floor(x / k) + c) / y) = floor((x + c * k) / (k * y)). */
static base_dim divide_by_number(base_dims *dims, base_dim a, int64_t y) {
  int64_t c, k, divisor;
  const base_dim base = without_number(dims, a, &c);
  const int64_t rest = floor_mod(c, y);
  if (rest != c) {
    const base_dim quotient = base_dim_div(dims, add_number(dims, base, rest), y);
    return quotient == BASE_DIM_NONE ? quotient : base_dim_add(dims, quotient, floor_div(c, y));
  }
  if (without_factor(dims, base, &k) != base && k % y == 0) return divide_exactly(dims, base, y);
  if (is_op(dims, base, BASE_DIM_FLOORDIV)) {
    const base_dim_node inner = *node_of(dims, base);
    if (number_of(inner.b, &k) && k > 0 && base_mul_i64(k, y, &divisor) && divisor <= DIVISOR_MAX)
      return base_dim_div(dims, base_dim_add(dims, inner.a, c * k), divisor);
  }
  return intern(dims, BASE_DIM_FLOORDIV, a, y);
}

static base_dim simplify_divide(base_dims *dims, base_dim_op op, base_dim a, base_dim b) {
  int64_t y;
  bool number = number_of(b, &y);
  if (number && y == 1) return op == BASE_DIM_MOD ? 0 : a;
  if (number && y == 0) return BASE_DIM_NONE;
  base_dim exact = divide_exactly(dims, a, b);
  if (exact != BASE_DIM_NONE) return op == BASE_DIM_MOD ? 0 : exact;
  if (!number || y < 0 || y > DIVISOR_MAX || op == BASE_DIM_MOD) return intern(dims, op, a, b);
  return divide_by_number(dims, op == BASE_DIM_CEILDIV ? base_dim_add(dims, a, y - 1) : a, y);
}

base_dim base_dim_binary(base_dims *dims, base_dim_op op, base_dim a, base_dim b) {
  if (a == BASE_DIM_NONE || b == BASE_DIM_NONE) return BASE_DIM_NONE;
  int64_t x, y, r;
  if (number_of(a, &x) && number_of(b, &y)) return compute(op, x, y, &r) ? base_dim_number(r) : BASE_DIM_NONE;
  if (!dims) return BASE_DIM_NONE;
  bool idempotent = op == BASE_DIM_MIN || op == BASE_DIM_MAX || op == BASE_DIM_BROADCAST;
  if (idempotent && a == b) return a;
  if (op == BASE_DIM_BROADCAST) return simplify_broadcast(dims, a, b);
  if (op == BASE_DIM_ADD) return simplify_add(dims, a, b);
  if (op == BASE_DIM_SUB) return simplify_sub(dims, a, b);
  if (op == BASE_DIM_MUL) return simplify_mul(dims, a, b);
  if (op == BASE_DIM_MIN || op == BASE_DIM_MAX) return simplify_extreme(dims, op, a, b);
  return simplify_divide(dims, op, a, b);
}

static base_dim fixed_of(base_dim d, const base_dim *fixed) {
  return is_expression(d) ? fixed[d - (BASE_DIM_NONE + 1)] : d;
}

bool base_dims_fix(base_dims *dims, const int64_t *values, uint32_t count, base_dim *fixed) {
  for (uint32_t i = 0; i < count; i++) {
    const base_dim_node n = dims->nodes.at[i]; /* a copy: the table grows */
    if (n.op != BASE_DIM_SYMBOL) fixed[i] = base_dim_binary(dims, n.op, fixed_of(n.a, fixed), fixed_of(n.b, fixed));
    else fixed[i] = values[n.a] < 0 ? handle(i) : base_dim_number(values[n.a]);
  }
  return !base_arena_failed(dims->arena);
}

/* Symbols are `each` where `symbols` is NULL. */
static bool eval(const base_dims *dims, base_dim d, const int64_t *symbols, int64_t each, int64_t *value) {
  if (number_of(d, value)) return true;
  if (d == BASE_DIM_NONE || !dims) return false;
  const base_dim_node *n = node_of(dims, d);
  if (n->op == BASE_DIM_SYMBOL) {
    *value = symbols ? symbols[n->a] : dims->symbols.at[n->a].from_data ? -1 : each;
    return *value >= 0;
  }
  int64_t a, b;
  return eval(dims, n->a, symbols, each, &a) && eval(dims, n->b, symbols, each, &b) && compute(n->op, a, b, value);
}

bool base_dim_eval(const base_dims *dims, base_dim d, const int64_t *symbols, int64_t *value) {
  return eval(dims, d, symbols, 0, value);
}

bool base_dim_eval_alike(const base_dims *dims, base_dim d, int64_t each, int64_t *value) {
  return eval(dims, d, NULL, each, value);
}

const char *base_relation_name(base_relation relation) {
  static const char *const names[] = {[BASE_EQ] = "==", [BASE_NE] = "!=", [BASE_LT] = "<", [BASE_LE] = "<="};
  return names[relation];
}

bool base_relation_holds(base_relation relation, int64_t left, int64_t right) {
  const bool holds[] = {
      [BASE_EQ] = left == right, [BASE_NE] = left != right, [BASE_LT] = left < right, [BASE_LE] = left <= right};
  return holds[relation];
}

/* factor * symbol + rest; a factor of 0: no symbol. */
typedef struct linear {
  uint32_t symbol;
  int64_t factor, rest;
} linear;

static bool combine(base_dim_op op, const linear *x, const linear *y, linear *out) {
  const linear *open = x->factor ? x : y;
  if (x->factor && y->factor && x->symbol != y->symbol) return false;
  *out = (linear){.symbol = open->symbol};
  if (!x->factor && !y->factor) return compute(op, x->rest, y->rest, &out->rest);
  if (op == BASE_DIM_ADD || op == BASE_DIM_SUB)
    return compute(op, x->factor, y->factor, &out->factor) && compute(op, x->rest, y->rest, &out->rest);
  if (op != BASE_DIM_MUL || (x->factor && y->factor)) return false;
  int64_t number = x->factor ? y->rest : x->rest;
  return compute(op, open->factor, number, &out->factor) && compute(op, open->rest, number, &out->rest);
}

static bool linear_of(const base_dims *dims, base_dim d, const int64_t *symbols, linear *out) {
  *out = (linear){0};
  if (number_of(d, &out->rest)) return true;
  if (d == BASE_DIM_NONE || !dims) return false;
  const base_dim_node *n = node_of(dims, d);
  linear x, y;
  if (n->op != BASE_DIM_SYMBOL)
    return linear_of(dims, n->a, symbols, &x) && linear_of(dims, n->b, symbols, &y) && combine(n->op, &x, &y, out);
  if (symbols[n->a] >= 0) out->rest = symbols[n->a];
  else *out = (linear){.symbol = (uint32_t)n->a, .factor = 1};
  return true;
}

bool base_dim_solve(const base_dims *dims, base_dim d, int64_t value, const int64_t *symbols, uint32_t *symbol,
                    int64_t *found, bool *fits) {
  linear form;
  int64_t rest;
  if (!linear_of(dims, d, symbols, &form) || form.factor == 0) return false;
  *symbol = form.symbol;
  *fits = compute(BASE_DIM_SUB, value, form.rest, &rest) && rest % form.factor == 0 && rest / form.factor >= 0;
  *found = *fits ? rest / form.factor : 0;
  return true;
}

/* A number that `d` is never less than, where symbols are sizes; INT64_MIN: none is known. */
static int64_t least(const base_dims *dims, base_dim d) {
  int64_t number, divisor = 0, r;
  if (number_of(d, &number)) return number;
  if (d == BASE_DIM_NONE) return INT64_MIN;
  const base_dim_node *n = node_of(dims, d);
  if (n->op == BASE_DIM_SYMBOL) return dims->symbols.at[n->a].least;
  const int64_t a = least(dims, n->a), b = least(dims, n->b);
  const bool divides = number_of(n->b, &divisor) && divisor > 0;
  switch (n->op) {
    case BASE_DIM_ADD: return a != INT64_MIN && b != INT64_MIN && compute(BASE_DIM_ADD, a, b, &r) ? r : INT64_MIN;
    case BASE_DIM_SUB:
      return a != INT64_MIN && number_of(n->b, &number) && compute(BASE_DIM_SUB, a, number, &r) ? r : INT64_MIN;
    case BASE_DIM_MUL: return a >= 0 && b >= 0 ? compute(BASE_DIM_MUL, a, b, &r) ? r : 0 : INT64_MIN;
    case BASE_DIM_FLOORDIV:
    case BASE_DIM_CEILDIV:
      return divides && a != INT64_MIN && compute(n->op, a, divisor, &r) ? r : a >= 0 && b >= 0 ? 0 : INT64_MIN;
    case BASE_DIM_MOD: return b >= 0 ? 0 : INT64_MIN;
    case BASE_DIM_MAX: return a > b ? a : b;
    default: return a < b ? a : b; /* MIN, BROADCAST */
  }
}

bool base_dim_not_negative(const base_dims *dims, base_dim d) { return least(dims, d) >= 0; }

bool base_dim_times(const base_dims *dims, base_dim d, base_dim of, int64_t *times) {
  int64_t a = d, b = of;
  if (d == BASE_DIM_NONE || of == BASE_DIM_NONE || base_dim_known(d) != base_dim_known(of)) return false;
  if (!base_dim_known(d) && without_factor(dims, d, &a) != without_factor(dims, of, &b)) return false;
  if (a < 1 || b < 1 || a % b != 0) return false;
  *times = a / b;
  return true;
}

/* The one symbol of inputs that `d` holds and never falls with. False: it is none such. */
static bool grows_with(const base_dims *dims, base_dim d, int64_t *symbol) {
  int64_t number;
  if (number_of(d, &number)) return true;
  if (d == BASE_DIM_NONE) return false;
  const base_dim_node *n = node_of(dims, d);
  if (n->op == BASE_DIM_SYMBOL) {
    const bool same = *symbol < 0 || *symbol == n->a;
    *symbol = n->a;
    return same && !dims->symbols.at[n->a].from_data;
  }
  const bool scales = n->op == BASE_DIM_FLOORDIV, keeps = n->op == BASE_DIM_ADD || n->op == BASE_DIM_MAX;
  if (scales ? !number_of(n->b, &number) || number <= 0 : !keeps) return false;
  return grows_with(dims, n->a, symbol) && grows_with(dims, n->b, symbol);
}

bool base_dim_at_least(base_dims *dims, base_dim d, int64_t value) {
  enum { FARTHEST = 1 << 24 }; /* no window asks for more */
  int64_t symbol = -1, got, low, high = FARTHEST;
  if (base_dim_known(d) || !grows_with(dims, d, &symbol) || symbol < 0) return false;
  base_symbol *s = &dims->symbols.at[symbol];
  low = s->least;
  if (!base_dim_eval_alike(dims, d, high, &got) || got < value) return false;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (base_dim_eval_alike(dims, d, middle, &got) && got >= value) high = middle;
    else low = middle + 1;
  }
  if (high <= s->least) return false;
  s->least = high;
  return true;
}

bool base_dim_from_data(const base_dims *dims, base_dim d) {
  int64_t number;
  if (number_of(d, &number) || d == BASE_DIM_NONE) return false;
  const base_dim_node *n = node_of(dims, d);
  if (n->op == BASE_DIM_SYMBOL) return dims->symbols.at[n->a].from_data;
  return base_dim_from_data(dims, n->a) || base_dim_from_data(dims, n->b);
}

/* Symbols print in quotes when they are not plain words; operations as calls: mul(2, batch). */
static bool plain_word(const char *name) {
  if (!*name || (*name >= '0' && *name <= '9')) return false;
  for (; *name; name++)
    if (!((*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') || (*name >= '0' && *name <= '9') ||
          *name == '_'))
      return false;
  return true;
}

void base_dim_print(const base_dims *dims, base_dim d, base_text *text) {
  int64_t number;
  if (d == BASE_DIM_NONE) base_text_print(text, "?");
  else if (number_of(d, &number)) base_text_print(text, "%lld", (long long)number);
  else if (node_of(dims, d)->op == BASE_DIM_SYMBOL) {
    const base_symbol *s = &dims->symbols.at[node_of(dims, d)->a];
    if (s->from_data) base_text_add(text, "$", 1);
    if (plain_word(s->name)) base_text_add(text, s->name, strlen(s->name));
    else base_text_quote(text, s->name, strlen(s->name));
  } else {
    const base_dim_node *n = node_of(dims, d);
    base_text_print(text, "%s(", op_names[n->op]);
    base_dim_print(dims, n->a, text);
    base_text_print(text, ", ");
    base_dim_print(dims, n->b, text);
    base_text_print(text, ")");
  }
}

static void skip_spaces(const char **at, const char *end) {
  while (*at < end && (**at == ' ' || **at == '\t')) ++*at;
}

static base_dim parse_symbol(base_dims *dims, base_str word, bool from_data) {
  char *name = base_arena_slice(dims->arena, word.at, word.length);
  if (!name || !word.length || strlen(name) != word.length) return BASE_DIM_NONE;
  bool is_new = !base_map_get(&dims->by_name, word);
  base_dim d = base_dim_symbol(dims, name);
  if (d != BASE_DIM_NONE && is_new) dims->symbols.at[dims->symbols.count - 1].from_data = from_data;
  return d;
}

static bool eat(const char **at, const char *end, char c) {
  skip_spaces(at, end);
  if (*at == end || **at != c) return false;
  ++*at;
  return true;
}

static base_dim parse_call(base_dims *dims, base_str word, const char **at, const char *end, int depth);

static base_dim parse(base_dims *dims, const char **at, const char *end, int depth) {
  if (depth > 64) return BASE_DIM_NONE;
  skip_spaces(at, end);
  const char *start = *at;
  bool from_data = eat(at, end, '$');
  if (eat(at, end, '"')) {
    size_t length;
    const char *name = base_text_unquote(dims->arena, at, end, &length);
    return name ? parse_symbol(dims, (base_str){name, length}, from_data) : BASE_DIM_NONE;
  }
  if (from_data) start = *at;
  while (*at < end && (**at == '_' || **at == '-' || (**at >= '0' && **at <= '9') || (**at >= 'a' && **at <= 'z') ||
                       (**at >= 'A' && **at <= 'Z')))
    ++*at;
  base_str word = {start, (size_t)(*at - start)};
  int64_t number;
  if (base_str_int(word, &number)) return base_dim_number(number);
  if (*at < end && **at == '(') return parse_call(dims, word, at, end, depth);
  return parse_symbol(dims, word, from_data);
}

static base_dim parse_call(base_dims *dims, base_str word, const char **at, const char *end, int depth) {
  for (int op = BASE_DIM_ADD; op < BASE_DIM_OP_COUNT; op++) {
    if (!base_str_is(word, op_names[op])) continue;
    eat(at, end, '(');
    base_dim a = parse(dims, at, end, depth + 1);
    if (!eat(at, end, ',')) return BASE_DIM_NONE;
    base_dim b = parse(dims, at, end, depth + 1);
    if (!eat(at, end, ')')) return BASE_DIM_NONE;
    return base_dim_binary(dims, (base_dim_op)op, a, b);
  }
  return BASE_DIM_NONE;
}

base_dim base_dim_parse(base_dims *dims, const char **at, const char *end) { return parse(dims, at, end, 0); }
