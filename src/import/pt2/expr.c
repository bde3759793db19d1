/* expr.c -- sizes that the document writes as text: sympy's srepr ("Mul(Integer(2), Symbol('s0', positive=True))"), its
 * str ("2*s0") in older files, and guards, which are Python over the arguments ("L['x'].size()[0] == 2*s0"). A
 * recursive descent over the characters gives a size expression of the graph. */
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "import/pt2/pt2_priv.h"

enum { MAX_EXPR_DEPTH = 64, MAX_POWER = 8 };

typedef struct expr {
  pt2 *p;
  base_dims *dims;
  const char *at;
  int depth;
  bool failed;
  bool about_argument; /* the value of one, not its size: only running can tell */
} expr;

static base_dim parse_sum(expr *e);

static base_dim fail(expr *e) {
  e->failed = true;
  return BASE_DIM_NONE;
}

static bool eat(expr *e, const char *token) {
  while (*e->at == ' ') e->at++;
  size_t length = strlen(token);
  if (strncmp(e->at, token, length) != 0) return false;
  e->at += length;
  return true;
}

static bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static base_dim binary(expr *e, base_dim_op op, base_dim x, base_dim y) {
  if (e->failed || x == BASE_DIM_NONE || y == BASE_DIM_NONE) return fail(e);
  base_dim d = base_dim_binary(e->dims, op, x, y);
  return d == BASE_DIM_NONE ? fail(e) : d;
}

static base_dim parse_number(expr *e) {
  int64_t value = 0;
  if (*e->at < '0' || *e->at > '9') return fail(e);
  for (; *e->at >= '0' && *e->at <= '9'; e->at++)
    if (!base_mul_i64(value, 10, &value) || !base_add_i64(value, *e->at - '0', &value)) return fail(e);
  return base_dim_number(value);
}

/* ---- functions ---- */

enum { MAX_ARGUMENTS = 16 };

static base_dim fold(expr *e, base_dim_op op, const base_dim *a, uint32_t n) {
  base_dim d = n ? a[0] : BASE_DIM_NONE;
  for (uint32_t i = 1; i < n; i++) d = binary(e, op, d, a[i]);
  return n ? d : fail(e);
}

static base_dim power(expr *e, const base_dim *a, uint32_t n) {
  if (n != 2 || !base_dim_known(a[1]) || a[1] < 0 || a[1] > MAX_POWER) return fail(e);
  base_dim d = base_dim_number(1);
  for (base_dim i = 0; i < a[1]; i++) d = binary(e, BASE_DIM_MUL, d, a[0]);
  return d;
}

static base_dim add(expr *e, const base_dim *a, uint32_t n) { return fold(e, BASE_DIM_ADD, a, n); }
static base_dim mul(expr *e, const base_dim *a, uint32_t n) { return fold(e, BASE_DIM_MUL, a, n); }
static base_dim least(expr *e, const base_dim *a, uint32_t n) { return fold(e, BASE_DIM_MIN, a, n); }
static base_dim most(expr *e, const base_dim *a, uint32_t n) { return fold(e, BASE_DIM_MAX, a, n); }
static base_dim floor_div(expr *e, const base_dim *a, uint32_t n) {
  return n == 2 ? binary(e, BASE_DIM_FLOORDIV, a[0], a[1]) : fail(e);
}
static base_dim ceil_div(expr *e, const base_dim *a, uint32_t n) {
  return n == 2 ? binary(e, BASE_DIM_CEILDIV, a[0], a[1]) : fail(e);
}
static base_dim mod(expr *e, const base_dim *a, uint32_t n) {
  return n == 2 ? binary(e, BASE_DIM_MOD, a[0], a[1]) : fail(e);
}
static base_dim indexing(expr *e, const base_dim *a, uint32_t n) {
  return n == 3 ? binary(e, BASE_DIM_MOD, binary(e, BASE_DIM_FLOORDIV, a[0], a[1]), a[2]) : fail(e);
}
static base_dim same(expr *e, const base_dim *a, uint32_t n) { return n == 1 ? a[0] : fail(e); }

static const struct {
  const char *name;
  base_dim (*make)(expr *e, const base_dim *a, uint32_t n);
} functions[] = {{"Add", add},          {"Mul", mul},       {"Pow", power},          {"PowByNatural", power},
                 {"Min", least},        {"Max", most},      {"FloorDiv", floor_div}, {"CleanDiv", floor_div},
                 {"CeilDiv", ceil_div}, {"Mod", mod},       {"PythonMod", mod},      {"ModularIndexing", indexing},
                 {"Integer", same},     {"Identity", same}, {"sym_max", most},       {"sym_min", least}};

/* 'name' in quotes into `name`. */
static bool parse_quoted(expr *e, char *name, size_t size) {
  char quote = *e->at == '"' ? '"' : '\'';
  size_t n = 0;
  if (!eat(e, quote == '"' ? "\"" : "'")) return false;
  while (*e->at && *e->at != quote && n + 1 < size) name[n++] = *e->at++;
  name[n] = 0;
  return n > 0 && *e->at++ == quote;
}

static base_dim symbol(expr *e, const char *name) {
  base_dim d = base_dim_symbol(e->dims, name);
  return d == BASE_DIM_NONE ? fail(e) : d;
}

/* Keywords say nothing that matters here: positive=True. */
static bool skip_keyword(expr *e) {
  const char *at = e->at;
  while (is_name(*at)) at++;
  if (at == e->at || *at != '=' || at[1] == '=') return false;
  for (at++; is_name(*at);) at++;
  e->at = at;
  return true;
}

static base_dim parse_call(expr *e, const char *name) {
  base_dim arguments[MAX_ARGUMENTS], result = BASE_DIM_NONE;
  uint32_t count = 0;
  char text[64];
  bool is_symbol = strcmp(name, "Symbol") == 0;
  if (is_symbol) result = parse_quoted(e, text, sizeof text) ? symbol(e, text) : fail(e);
  for (bool first = !is_symbol; !e->failed && !eat(e, ")"); first = false) {
    if (!first && !eat(e, ",")) return fail(e);
    while (*e->at == ' ') e->at++;
    if (skip_keyword(e)) continue;
    if (count == MAX_ARGUMENTS || is_symbol) return fail(e);
    arguments[count++] = parse_sum(e);
  }
  for (size_t i = 0; !is_symbol && !e->failed && i < sizeof functions / sizeof *functions; i++)
    if (strcmp(name, functions[i].name) == 0) return functions[i].make(e, arguments, count);
  return is_symbol ? result : fail(e);
}

/* ---- sizes of arguments, in guards ---- */

/* Arguments of *args have names of their own, "L['args_0']": guards write L['args'][0]. The length of it, or 0. */
static size_t match_variadic(const char *at, const char *path) {
  size_t i = 0, digits = 0;
  while (at[i] && at[i] == path[i]) i++;
  if (strncmp(at + i, "'][", 3) != 0 || path[i] != '_') return 0;
  const char *number = at + i + 3, *other = path + i + 1;
  while (number[digits] >= '0' && number[digits] <= '9' && number[digits] == other[digits]) digits++;
  return digits && number[digits] == ']' && strcmp(other + digits, "']") == 0 ? i + 3 + digits + 1 : 0;
}

/* L['x']...size()[0]: the argument whose path is the longest that fits. */
static base_dim parse_argument(expr *e) {
  const pt2 *p = e->p;
  const ir_block_def *top = ir_block_of(p->b.graph, p->b.graph->top);
  size_t best = 0;
  uint32_t input = 0;
  for (uint32_t i = 0; i < p->input_paths.count && i < top->params.count; i++) {
    const char *path = p->input_paths.at[i];
    size_t length = path ? strlen(path) : 0;
    if (path && strncmp(e->at, path, length) != 0) length = match_variadic(e->at, path);
    if (length > best) best = length, input = i;
  }
  e->at += best;
  bool sized = best && (eat(e, ".size()[") || eat(e, ".shape["));
  e->about_argument |= best && !sized && *e->at != '.';
  base_dim axis = sized ? parse_number(e) : fail(e);
  if (!sized || e->failed || !eat(e, "]")) return fail(e);
  const ir_type *type = ir_type_of(p->b.graph, top->params.at[input]);
  return type->kind == IR_TENSOR && axis >= 0 && axis < type->rank ? type->dims[axis] : fail(e);
}

/* ---- arithmetic ---- */

static base_dim parse_primary(expr *e) {
  char name[64];
  size_t n = 0;
  if (eat(e, "(")) {
    base_dim d = parse_sum(e);
    return eat(e, ")") ? d : fail(e);
  }
  while (*e->at == ' ') e->at++;
  if (*e->at >= '0' && *e->at <= '9') return parse_number(e);
  if (e->at[0] == 'L' && e->at[1] == '[') return parse_argument(e);
  (void)eat(e, "torch."); /* of torch.sym_max */
  while (is_name(e->at[n]) && n + 1 < sizeof name) n++;
  memcpy(name, e->at, n);
  name[n] = 0;
  e->at += n;
  if (n == 0) return fail(e);
  return eat(e, "(") ? parse_call(e, name) : symbol(e, name);
}

static base_dim parse_power(expr *e) {
  base_dim d = parse_primary(e);
  while (!e->failed && eat(e, "**")) {
    const base_dim pair[] = {d, parse_primary(e)};
    d = power(e, pair, 2);
  }
  return d;
}

static base_dim parse_unary(expr *e) {
  if (++e->depth > MAX_EXPR_DEPTH) return fail(e);
  base_dim d = eat(e, "-") ? binary(e, BASE_DIM_SUB, base_dim_number(0), parse_unary(e)) : parse_power(e);
  e->depth--;
  return d;
}

static base_dim parse_product(expr *e) {
  base_dim d = parse_unary(e);
  while (!e->failed) {
    if (eat(e, "//")) d = binary(e, BASE_DIM_FLOORDIV, d, parse_unary(e));
    else if (eat(e, "*")) d = binary(e, BASE_DIM_MUL, d, parse_unary(e));
    else if (eat(e, "%")) d = binary(e, BASE_DIM_MOD, d, parse_unary(e));
    else break;
  }
  return d;
}

static base_dim parse_sum(expr *e) {
  base_dim d = parse_product(e);
  while (!e->failed) {
    if (eat(e, "+")) d = binary(e, BASE_DIM_ADD, d, parse_product(e));
    else if (eat(e, "-")) d = binary(e, BASE_DIM_SUB, d, parse_product(e));
    else break;
  }
  return d;
}

static bool parse_whole(expr *e, base_dim *d) {
  *d = parse_sum(e);
  while (*e->at == ' ') e->at++;
  return !e->failed && !*e->at;
}

/* ---- what the document writes with them ---- */

base_dim pt2_size(pt2 *p, const fmt_json *sym_int) {
  const char *tag;
  const fmt_json *inner = pt2_union(sym_int, &tag);
  int64_t number;
  base_dim d = BASE_DIM_NONE;
  if (strcmp(tag, "as_int") == 0 && pt2_int(inner, &number)) return base_dim_number(number);
  const char *text = strcmp(tag, "as_expr") == 0 ? pt2_text(inner, "expr_str") : NULL;
  if (!text) pt2_fail(p, "a size is neither a number nor an expression");
  if (pt2_failed(p)) return BASE_DIM_NONE;
  expr e = {.p = p, .dims = &p->b.graph->dims, .at = text};
  if (!parse_whole(&e, &d)) ir_build_fail(&p->b, TD_UNSUPPORTED, "the size %.200s is not understood", text);
  return d;
}

bool pt2_is_complex(pt2 *p, const fmt_json *meta) {
  int64_t number = pt2_scalar_type(p, fmt_json_get(meta, "dtype"));
  return aten_is_complex_type(number);
}

ir_type pt2_type(pt2 *p, const fmt_json *meta) {
  const fmt_json *sizes = fmt_json_get(meta, "sizes");
  size_t rank = fmt_json_count(sizes);
  int64_t layout = 7;
  ir_type type = {.kind = IR_TENSOR, .dtype = TD_F32, .rank = IR_UNRANKED};
  if (!fmt_json_is(sizes, FMT_JSON_ARRAY)) pt2_fail(p, "the type of a tensor is missing");
  if (pt2_int(fmt_json_get(meta, "layout"), &layout) && layout != 7)
    ir_build_fail(&p->b, TD_UNSUPPORTED, "tensors that are not strided (sparse ones) are not supported");
  if (rank > BASE_MAX_RANK)
    ir_build_fail(&p->b, TD_UNSUPPORTED, "a tensor has %zu dimensions, more than %d", rank, BASE_MAX_RANK);
  if (pt2_failed(p)) return type;
  bool is_complex = pt2_is_complex(p, meta);
  if (is_complex && rank == BASE_MAX_RANK)
    ir_build_fail(&p->b, TD_UNSUPPORTED, "complex numbers of %zu dimensions", rank);
  if (pt2_failed(p)) return type;
  int64_t number = pt2_scalar_type(p, fmt_json_get(meta, "dtype"));
  type.dtype = aten_dtype(p->a, is_complex ? aten_part_type(number) : number);
  type.rank = (int32_t)rank + is_complex;
  if (is_complex) type.dims[rank] = 2;
  for (size_t i = 0; i < rank; i++) {
    type.dims[i] = pt2_size(p, fmt_json_at(sizes, i));
    if (base_dim_known(type.dims[i]) && type.dims[i] < 0) pt2_fail(p, "a size is negative");
  }
  return type;
}

/* Do its strides say that the tensor stands in the order of its sizes, without gaps? Strides that are expressions are
 * not looked at. */
bool pt2_is_dense(const fmt_json *meta) {
  const fmt_json *sizes = fmt_json_get(meta, "sizes"), *strides = fmt_json_get(meta, "strides");
  int64_t expected = 1; /* -1: an expression */
  for (size_t i = fmt_json_count(sizes); i-- > 0;) {
    const char *tag;
    int64_t size = -1, stride = -1;
    if (!pt2_int(pt2_union(fmt_json_at(sizes, i), &tag), &size)) size = -1;
    if (!pt2_int(pt2_union(fmt_json_at(strides, i), &tag), &stride)) stride = -1;
    if (size == 0) return true;
    if (size == 1) continue;
    if (stride >= 0 && expected >= 0 && stride != expected) return false;
    if (size < 0 || expected < 0 || !base_mul_i64(expected, size, &expected)) expected = -1;
  }
  return true;
}

/* ---- conditions ---- */

static void add_guard(pt2 *p, base_dim left, base_relation relation, base_dim right, const char *text) {
  base_guard guard = {.left = left, .right = right, .relation = relation, .text = text};
  if (!pt2_failed(p)) ir_build_take(&p->b, ir_add_guard(p->b.graph, &guard, p->b.err));
}

/* "input x: dimension 0 (s77)": where a symbol comes from, for people. */
static const char *place_of(pt2 *p, base_dim d, const char *symbol_name) {
  const ir_graph *g = p->b.graph;
  const ir_block_def *top = ir_block_of(g, g->top);
  for (uint32_t i = 0; i < g->input_defaults.count; i++) {
    const ir_value_def *input = ir_value_of(g, top->params.at[i]);
    for (int32_t k = 0; input->info.type.kind == IR_TENSOR && k < input->info.type.rank; k++)
      if (input->info.type.dims[k] == d)
        return pt2_format(p, "input %s: dimension %d (%s)", input->name ? input->name : "", k, symbol_name);
  }
  return pt2_format(p, "the size %s", symbol_name);
}

/* torch.export lets sizes of 0 and 1 in although it says "at least 2" of most symbols, and so does this. */
static void add_range(pt2 *p, const char *name, const fmt_json *range) {
  int64_t least = 0, most = INT64_MAX;
  base_dim d;
  bool has_least = pt2_int(fmt_json_get(range, "min_val"), &least) && least > 2;
  bool has_most = pt2_int(fmt_json_get(range, "max_val"), &most) && most < INT32_MAX;
  expr e = {.p = p, .dims = &p->b.graph->dims, .at = name};
  if ((!has_least && !has_most) || !parse_whole(&e, &d) || base_dim_known(d)) return;
  const char *place = place_of(p, d, name);
  if (has_least)
    add_guard(p, base_dim_number(least), BASE_LE, d,
              pt2_format(p, "%s must be at least %lld", place, (long long)least));
  if (has_most)
    add_guard(p, d, BASE_LE, base_dim_number(most), pt2_format(p, "%s must be at most %lld", place, (long long)most));
}

/* One comparison from e->at on. False: it is none that is understood. */
static bool parse_guard(expr *e, const char *text, base_guard *guard) {
  static const struct {
    const char *name;
    base_relation relation;
    bool swapped;
  } relations[] = {{"==", BASE_EQ, false}, {"!=", BASE_NE, false}, {"<=", BASE_LE, false},
                   {">=", BASE_LE, true},  {"<", BASE_LT, false},  {">", BASE_LT, true}};
  base_dim left = parse_sum(e);
  for (size_t i = 0; !e->failed && i < sizeof relations / sizeof *relations; i++) {
    if (!eat(e, relations[i].name)) continue;
    base_dim right = parse_sum(e);
    bool swapped = relations[i].swapped;
    *guard = (base_guard){.left = swapped ? right : left,
                          .right = swapped ? left : right,
                          .relation = relations[i].relation,
                          .text = pt2_format(e->p, "the model was exported for inputs with %s", text)};
    return !e->failed;
  }
  return false;
}

/* Anything of comparisons, and, or, not: as a size that is at most 0 where it holds. */
static base_dim parse_or(expr *e);

static base_dim margin_of(expr *e, const base_guard *g) {
  base_dim below = binary(e, BASE_DIM_SUB, g->left, g->right), above = binary(e, BASE_DIM_SUB, g->right, g->left);
  base_dim away = binary(e, BASE_DIM_MAX, below, above);
  if (g->relation == BASE_LE) return below;
  if (g->relation == BASE_LT) return binary(e, BASE_DIM_ADD, below, base_dim_number(1));
  return g->relation == BASE_EQ ? away : binary(e, BASE_DIM_SUB, base_dim_number(1), away);
}

static base_dim parse_truth(expr *e) {
  base_guard guard;
  expr start = *e;
  if (++e->depth > MAX_EXPR_DEPTH) return fail(e);
  base_dim d = BASE_DIM_NONE;
  if (eat(e, "not ")) d = binary(e, BASE_DIM_SUB, base_dim_number(1), parse_truth(e));
  else if (parse_guard(e, "", &guard)) d = margin_of(e, &guard);
  else {
    bool about = e->about_argument;
    *e = start; /* no comparison: a condition in brackets */
    e->depth++;
    e->about_argument |= about;
    d = eat(e, "(") ? parse_or(e) : fail(e);
    if (!e->failed && !eat(e, ")")) return fail(e);
  }
  e->depth--;
  return d;
}
static base_dim parse_and(expr *e) {
  base_dim d = parse_truth(e);
  while (!e->failed && eat(e, "and ")) d = binary(e, BASE_DIM_MAX, d, parse_truth(e));
  return d;
}
static base_dim parse_or(expr *e) {
  base_dim d = parse_and(e);
  while (!e->failed && eat(e, "or ")) d = binary(e, BASE_DIM_MIN, d, parse_and(e));
  return d;
}

/* False: it is none that is understood; *about_argument: since it speaks of a number among the arguments. */
static bool add_alternatives(pt2 *p, const char *text, bool *about_argument) {
  expr e = {.p = p, .dims = &p->b.graph->dims, .at = text};
  base_dim margin = parse_or(&e);
  while (*e.at == ' ') e.at++;
  *about_argument |= e.about_argument;
  if (e.failed || *e.at) return false;
  add_guard(p, margin, BASE_LE, base_dim_number(0), pt2_format(p, "the model was exported for inputs with %s", text));
  return true;
}

/* Comparisons joined by "and", each a guard of its own; of what else there is one. Those about the value of a number
 * among the arguments are left to the operators. */
static void add_condition(pt2 *p, const char *text) {
  expr e = {.p = p, .dims = &p->b.graph->dims, .at = text};
  bool about_argument = false, understood;
  if ((strstr(text, " or ") || strstr(text, "not ")) && add_alternatives(p, text, &about_argument)) return;
  do {
    base_guard guard;
    understood = parse_guard(&e, text, &guard);
    if (understood && (guard.left != guard.right || guard.relation == BASE_NE || guard.relation == BASE_LT))
      add_guard(p, guard.left, guard.relation, guard.right, guard.text);
    if (!understood || pt2_failed(p)) break;
  } while (eat(&e, "and"));
  while (*e.at == ' ') e.at++;
  if (!e.about_argument && !about_argument && (!understood || e.failed || *e.at))
    ir_build_fail(&p->b, TD_UNSUPPORTED, "the condition that the program puts on its inputs is not understood: %.300s",
                  text);
}

void pt2_add_guards(pt2 *p) {
  const char *name;
  const fmt_json *ranges = fmt_json_get(p->root, "range_constraints"), *range;
  for (size_t i = 0; (range = fmt_json_member(ranges, i, &name)); i++) add_range(p, name, range);
  const fmt_json *guards = fmt_json_get(p->root, "guards_code");
  for (size_t i = 0; i < fmt_json_count(guards) && !pt2_failed(p); i++) {
    const char *text = fmt_json_text(fmt_json_at(guards, i));
    if (text) add_condition(p, text);
  }
}
