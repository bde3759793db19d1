/* einsum.c -- sums of products over named axes that are products of matrices:
 *
 *     einsum("bnd,bmd->bnm", a, b)  ->  matmul(a, permute(b))
 *     einsum("bnd,bd,bn->bn", a, b, c)  ->  mul(squeeze(matmul(a, unsqueeze(b))), c)
 *     einsum("ibh,hnd->ibnd", a, W)  ->  unflatten(matmul(a, view(W)))
 *     sum(mul(a, b), 1)  ->  einsum("ab,bc->ac", squeeze(a), squeeze(b))   of a [i, j, 1], b [1, j, k]
 *
 * Factors are taken from left to right, in pairs. Of a pair, axes that both have and that are still needed stand in
 * front; of the first factor's own all but the last one, too (the second one is the same for all of them). What is
 * summed, and the second factor's own axes, are made one axis each: for nothing where they lie side by side, in memory
 * of the graph's where the factor is a constant; the second factor's own axes stand in front, too, where neither holds.
 * Permutations bring all into that order. What has nothing to sum is a plain product. The axes of "..." get letters of
 * their own, counted from the last one.
 * Requires: a verified graph; no letter twice in a factor; f32 where something is summed.
 * Keeps: types. Breaks: bit equality: sums are taken in another order. */
#include "passes/passes_priv.h"

#include <string.h>

enum { MAX_FACTORS = 8 };
typedef char term[BASE_MAX_RANK + 1];

/* The letters of "ab,bc->ac"; the last term is the result. */
typedef struct equation {
  uint32_t factors;
  term terms[MAX_FACTORS + 1];
  base_dim sizes['z' + 1]; /* by letter */
} equation;

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static bool add_letter(char *to, char c) {
  size_t n = strlen(to);
  if (!is_letter(c) || n == BASE_MAX_RANK || strchr(to, c)) return false;
  to[n] = c;
  return true;
}

/* Letters that the equation does not use. */
static void find_spare(const char *text, char *spare) {
  size_t n = 0;
  for (char c = 'A'; c <= 'z' && n < BASE_MAX_RANK; c++)
    if (is_letter(c) && !strchr(text, c)) spare[n++] = c;
}

/* The axes of "..." in a term of `rank` axes that begins at `text`; of the result, rank < 0, those of the widest. */
static bool add_others(char *to, const char *text, int32_t rank, const char *spare, int32_t *widest) {
  const int32_t room = (int32_t)strlen(spare);
  int32_t others = rank < 0 ? *widest : rank;
  for (; rank >= 0 && *text && *text != ',' && *text != '-'; text++) others -= is_letter(*text);
  if (others < 0 || others > room) return false;
  if (others > *widest) *widest = others;
  for (const char *c = spare + room - others; *c; c++)
    if (!add_letter(to, *c)) return false;
  return true;
}

/* Of factors with so many axes. False: another form. */
static bool read_equation(const char *text, const int32_t *ranks, uint32_t factors, equation *eq) {
  uint32_t at = 0;
  int32_t widest = 0;
  const char *start = text;
  term spare = {0};
  memset(eq, 0, sizeof *eq);
  for (size_t i = 0; i < sizeof eq->sizes / sizeof *eq->sizes; i++) eq->sizes[i] = BASE_DIM_NONE;
  eq->factors = factors;
  find_spare(text, spare);
  for (; *text; text++) {
    bool ends = text[0] == '-' && text[1] == '>';
    if (*text == ' ') continue;
    if (*text == ',' || ends) {
      if ((++at == factors) != ends || at > factors) return false;
      text += ends;
      start = text + 1;
    } else if (strncmp(text, "...", 3) == 0) {
      if (!add_others(eq->terms[at], start, at < factors ? ranks[at] : -1, spare, &widest)) return false;
      text += 2;
    } else if (!add_letter(eq->terms[at], *text)) return false;
  }
  return at == factors;
}

/* One product: what the axes of the result and the sum are, in the order of the factors' letters. */
typedef struct roles {
  term shared;    /* by both factors and the result */
  term front[2];  /* of one factor alone, and in front of the matrices */
  term own[2];    /* of one factor alone; made one axis */
  term summed;    /* by both factors, and not in the result; made one axis */
  term lead, out; /* the axes in front of the matrices; the result as it is made */
} roles;

/* Does a factor behind `done` of them, or the result, have this axis? */
static bool is_needed(const equation *eq, uint32_t done, char c) {
  for (uint32_t i = done; i <= eq->factors; i++)
    if (strchr(eq->terms[i], c)) return true;
  return false;
}

/* Can some of a factor's axes be made one? A view takes one open size, which then is not known to be no zero. */
static bool can_merge(const equation *eq, const char *letters) {
  int64_t all = 1, open = 0;
  for (const char *c = letters; *c; c++) {
    const base_dim size = eq->sizes[(int)*c];
    if (!base_dim_known(size)) open++;
    else if (size == 0 || __builtin_mul_overflow(all, size, &all)) return false;
  }
  return open <= 1;
}

static bool are_known(const equation *eq, const char *letters) {
  for (const char *c = letters; *c; c++)
    if (!base_dim_known(eq->sizes[(int)*c])) return false;
  return true;
}

/* All but the last of a factor's own axes go to the front. */
static void put_in_front(roles *r, uint32_t f) {
  const size_t n = strlen(r->own[f]);
  if (n < 2) return;
  memcpy(r->front[f], r->own[f], n - 1);
  r->own[f][0] = r->own[f][n - 1];
  r->own[f][1] = 0;
}

/* Sorts the letters of two factors; false: a sum within a factor. */
static bool sort_letters(const equation *eq, const char *const *factors, uint32_t done, roles *r) {
  memset(r, 0, sizeof *r);
  for (uint32_t f = 0; f < 2; f++)
    for (const char *c = factors[f]; *c; c++) {
      bool other = strchr(factors[1 - f], *c), kept = is_needed(eq, done, *c);
      if (!other && !kept) return false;
      if (f && other) continue;
      char *to = other && kept ? r->shared : other ? r->summed : r->own[f];
      to[strlen(to)] = *c;
    }
  return true;
}

/* Of what the factors before `second` make and of that one, which may be a constant. False: this makes no product. */
static bool find_roles(const equation *eq, const char *first, uint32_t second, bool constant, roles *r) {
  const char *const factors[] = {first, eq->terms[second]};
  if (!sort_letters(eq, factors, second + 1, r)) return false;
  if (strlen(r->summed) > 1 && !(can_merge(eq, factors[0]) && can_merge(eq, factors[1]))) return false;
  put_in_front(r, 0);
  bool merges = *r->summed && (constant || strstr(factors[1], r->own[1])) && are_known(eq, r->own[1]);
  if (!merges || !can_merge(eq, factors[1])) put_in_front(r, 1);
  if (strlen(r->shared) + strlen(r->front[0]) + strlen(r->front[1]) > BASE_MAX_RANK - 2) return false;
  strcpy(r->lead, r->shared);
  strcat(r->lead, r->front[1]);
  strcat(r->lead, r->front[0]);
  strcpy(r->out, r->lead);
  strcat(r->out, r->own[0]);
  if (strlen(r->out) + strlen(r->own[1]) > BASE_MAX_RANK) return false;
  strcat(r->out, r->own[1]);
  return true;
}

/* All products of the equation. */
static bool plan(const passes_edit *e, const equation *eq, const ir_value *in, roles *steps) {
  const char *first = eq->terms[0];
  for (uint32_t i = 1; i < eq->factors; i++) {
    if (!find_roles(eq, first, i, passes_constant_value(e, in[i]), &steps[i])) return false;
    first = steps[i].out;
  }
  return strlen(first) == strlen(eq->terms[eq->factors]);
}

/* `v`, whose axes are called `from`, with those of `to`. */
static td_status reorder(passes_edit *e, ir_node at, ir_value v, const char *from, const char *to, ir_value *out) {
  int64_t order[BASE_MAX_RANK];
  const uint32_t rank = (uint32_t)strlen(to);
  bool same = true;
  for (uint32_t i = 0; i < rank; i++) {
    order[i] = strchr(from, to[i]) - from;
    same &= order[i] == (int64_t)i;
  }
  *out = v;
  if (same) return TD_OK;
  return passes_permute(e, at, v, order, out);
}

/* A size of 1 at each of the places, or away with it; or other sizes. */
static td_status resize(passes_edit *e, ir_node at, ir_op_id op, const int64_t *ints, uint32_t count, ir_value *v) {
  ir_value in[] = {*v, IR_NO_VALUE};
  if (count == 0) return TD_OK;
  TRY(ir_add_ints(e->graph, ints, count, &in[1], e->err));
  return passes_add(e, at, op, (ir_new_node){.in = in, .in_count = 2}, NULL, v);
}

/* The constant `v`, its axes in the order `to`, with the sizes `dims`. */
static td_status rewrite(passes_edit *e, const char *from, const char *to, const int64_t *dims, uint32_t rank,
                         ir_value *v) {
  base_tensor view = *passes_constant_value(e, *v), dense;
  for (int32_t i = 0; i < view.rank; i++) {
    const int64_t axis = strchr(from, to[i]) - from;
    view.dims[i] = passes_constant_value(e, *v)->dims[axis];
    view.strides[i] = passes_constant_value(e, *v)->strides[axis];
  }
  dense = base_tensor_of(view.data, view.dtype, (int32_t)rank, dims);
  if (!base_tensor_contiguous(&view)) {
    dense.data = base_arena_alloc_uncleared(e->graph->arena, base_tensor_bytes(&view), 64);
    if (!dense.data) return base_no_memory(e->err, "a product's weights");
    base_tensor_pack(dense.data, &view);
  }
  return ir_add_constant(e->graph, &dense, NULL, v, e->err);
}

/* Makes the axes `group` of `v`, whose axes are called `letters`, the one called by the first of them. */
static td_status merge(passes_edit *e, ir_node at, const char *group, char *letters, ir_value *v) {
  const size_t n = strlen(group);
  term to = {0};
  int64_t dims[BASE_MAX_RANK];
  uint32_t rank = 0;
  if (n < 2) return TD_OK;
  if (strstr(letters, group)) strcpy(to, letters);
  else {
    for (const char *c = letters; *c; c++)
      if (!strchr(group, *c)) to[strlen(to)] = *c;
    strcat(to, group);
  }
  for (const char *c = to; *c; c++) {
    const base_dim size = ir_type_of(e->graph, *v)->dims[strchr(letters, *c) - letters];
    const int64_t known = base_dim_known(size) ? size : -1;
    if (*c == *group || !strchr(group, *c)) dims[rank++] = known;
    else dims[rank - 1] = dims[rank - 1] < 0 || known < 0 ? -1 : dims[rank - 1] * known;
  }
  if (passes_constant_value(e, *v)) TRY(rewrite(e, letters, to, dims, rank, v));
  else {
    TRY(reorder(e, at, *v, letters, to, v));
    TRY(resize(e, at, OP_aten_view, dims, rank, v));
  }
  char *gone = strstr(to, group) + 1;
  memmove(gone, gone + n - 1, strlen(gone + n - 1) + 1);
  strcpy(letters, to);
  return TD_OK;
}

/* `v` as a factor: [lead, own, summed], or [lead, summed, own] of the second one; an absent one has size 1, or none if
 * nothing stands in front of it. */
static td_status bring(passes_edit *e, ir_node at, const roles *r, uint32_t f, const char *from, ir_value *v) {
  term letters, to = {0};
  int64_t places[BASE_MAX_RANK];
  uint32_t count = 0, place = 0;
  const char *const inner[] = {f ? r->summed : r->own[0], f ? r->own[1] : r->summed};
  strcpy(letters, from);
  TRY(merge(e, at, r->summed, letters, v));
  TRY(merge(e, at, r->own[f], letters, v));
  for (const char *c = r->lead; *c; c++)
    if (strchr(from, *c)) to[strlen(to)] = *c, place++;
    else if (place) places[count++] = place++;
  for (uint32_t i = 0; i < 2; i++, place++)
    if (*inner[i]) to[strlen(to)] = *inner[i];
    else places[count++] = place;
  TRY(reorder(e, at, *v, letters, to, v));
  return resize(e, at, OP_aten_unsqueeze, places, count, v);
}

/* The second factor's own axes, which were made one. */
static td_status split(passes_edit *e, ir_node at, const equation *eq, const roles *r, ir_value *v) {
  int64_t sizes[BASE_MAX_RANK];
  uint32_t count = 0;
  for (const char *c = r->own[1]; *c; c++) sizes[count++] = eq->sizes[(int)*c];
  if (count < 2) return TD_OK;
  const base_arg args[] = {ARG_INT("dim", -1), ARG_INTS("sizes", sizes, count)};
  const ir_value in = *v;
  return passes_add(e, at, OP_aten_unflatten, (ir_new_node){.in = &in, .in_count = 1, .args = args, .arg_count = 2},
                    NULL, v);
}

/* *v times another factor, whose axes are called `from`. */
static td_status multiply(passes_edit *e, ir_node at, const equation *eq, const roles *r, const char *first,
                          const char *from, ir_value factor, ir_value *v) {
  int64_t gone[2];
  uint32_t count = 0;
  ir_value in[] = {*v, factor};
  TRY(bring(e, at, r, 0, first, &in[0]));
  TRY(bring(e, at, r, 1, from, &in[1]));
  TRY(passes_add(e, at, *r->summed ? OP_aten_matmul : OP_aten_mul, (ir_new_node){.in = in, .in_count = 2}, NULL, v));
  for (uint32_t f = 0; f < 2; f++)
    if (!*r->own[f]) gone[count++] = (int64_t)strlen(r->lead) + f;
  TRY(split(e, at, eq, r, v));
  return resize(e, at, OP_aten_squeeze, gone, count, v);
}

/* A letter's size is the same wherever it stands: sizes of 1 broadcast to others. */
static bool take_sizes(const passes_edit *e, const ir_value *in, equation *eq) {
  for (uint32_t f = 0; f < eq->factors; f++) {
    const ir_type *t = ir_type_of(e->graph, in[f]);
    if (t->rank != (int32_t)strlen(eq->terms[f])) return false;
    for (int32_t i = 0; i < t->rank; i++) {
      base_dim *size = &eq->sizes[(int)eq->terms[f][i]];
      if (*size != BASE_DIM_NONE && *size != t->dims[i]) return false;
      *size = t->dims[i];
    }
  }
  return true;
}

static bool sums(const roles *steps, uint32_t factors) {
  for (uint32_t i = 1; i < factors; i++)
    if (*steps[i].summed) return true;
  return false;
}

/* Weights that stand first, and whose axis is the result's last one, become the second factor. */
static void swap_factors(const passes_edit *e, equation *eq, ir_value *in) {
  const char *y = eq->terms[eq->factors];
  if (eq->factors != 2 || !*y || strchr(eq->terms[1], y[strlen(y) - 1]) || !passes_constant_value(e, in[0])) return;
  const ir_value first = in[0];
  term letters;
  strcpy(letters, eq->terms[0]);
  strcpy(eq->terms[0], eq->terms[1]);
  strcpy(eq->terms[1], letters);
  in[0] = in[1];
  in[1] = first;
}

/* `node`, which is what the equation says of its factors. *made: nothing where it makes no products. */
static td_status make_products(passes_edit *e, ir_node id, equation *eq, ir_value *in, ir_value *made) {
  roles steps[MAX_FACTORS];
  const char *first = eq->terms[0];
  *made = IR_NO_VALUE;
  if (!plan(e, eq, in, steps)) return TD_OK;
  if (sums(steps, eq->factors) && ir_type_of(e->graph, in[0])->dtype != TD_F32) return TD_OK;
  *made = in[0];
  for (uint32_t i = 1; i < eq->factors; i++) {
    TRY(multiply(e, id, eq, &steps[i], first, eq->terms[i], in[i], made));
    first = steps[i].out;
  }
  return reorder(e, id, *made, first, eq->terms[eq->factors], made);
}

static td_status visit_einsum(passes_edit *e, ir_node id, const ir_node_def *node) {
  const uint32_t factors = node->in_count;
  equation eq;
  ir_value in[MAX_FACTORS], made;
  int32_t ranks[MAX_FACTORS];
  if (factors < 2 || factors > MAX_FACTORS) return TD_OK;
  for (uint32_t i = 0; i < factors; i++) {
    ranks[i] = ir_type_of(e->graph, node->in[i])->rank;
    if (ranks[i] < 0) return TD_OK;
  }
  if (!read_equation(passes_str(node, "equation"), ranks, factors, &eq)) return TD_OK;
  memcpy(in, node->in, factors * sizeof *in);
  swap_factors(e, &eq, in);
  if (!take_sizes(e, in, &eq)) return TD_OK;
  TRY(make_products(e, id, &eq, in, &made));
  return made.id ? passes_take_place(e, id, made) : TD_OK;
}

/* ---- sums of broadcast products ---- */

/* The axes of a factor that are its own size, called after those of the product, of `rank`; places[]: the others.
 * False: their sizes are not those of the other factor. */
static bool name_axes(equation *eq, uint32_t f, const ir_type *x, int32_t rank, int64_t *places, uint32_t *count) {
  *count = 0;
  for (int32_t i = 0; i < x->rank; i++) {
    const int axis = 'a' + i + rank - x->rank;
    if (x->dims[i] == 1) {
      places[(*count)++] = i;
      continue;
    }
    eq->terms[f][strlen(eq->terms[f])] = (char)axis;
    if (eq->sizes[axis] != BASE_DIM_NONE && eq->sizes[axis] != x->dims[i]) return false;
    eq->sizes[axis] = x->dims[i];
  }
  return true;
}

/* Has each of two factors an axis that the other one lacks? Then the product has more elements than either. */
static bool spreads(const equation *eq) {
  return strspn(eq->terms[0], eq->terms[1]) < strlen(eq->terms[0]) &&
         strspn(eq->terms[1], eq->terms[0]) < strlen(eq->terms[1]);
}

/* A sum along one axis of what two factors make that broadcast against each other. */
static td_status visit_sum(passes_edit *e, ir_node id, const ir_node_def *node) {
  uint32_t count, singles[2], missing = 0;
  const int64_t *dims = passes_ints(node, "dim", &count);
  const ir_type *type = ir_type_of(e->graph, node->in[0]);
  const ir_node_def *product = passes_only_producer(e, node->in[0], OP_aten_mul);
  equation eq = {.factors = 2};
  int64_t places[2][BASE_MAX_RANK], gone[BASE_MAX_RANK];
  ir_value in[2], made;
  if (node->in_count != 1 || count != 1 || !product || product->in_count != 2 || type->dtype != TD_F32) return TD_OK;
  const int32_t rank = type->rank, summed = (int32_t)(dims[0] < 0 ? dims[0] + rank : dims[0]);
  const bool keeps = passes_int(node, "keepdim");
  for (size_t i = 0; i < sizeof eq.sizes / sizeof *eq.sizes; i++) eq.sizes[i] = BASE_DIM_NONE;
  for (uint32_t f = 0; f < 2; f++) {
    in[f] = product->in[f];
    if (!name_axes(&eq, f, ir_type_of(e->graph, in[f]), rank, places[f], &singles[f])) return TD_OK;
    if (!strchr(eq.terms[f], 'a' + summed)) return TD_OK;
  }
  for (int32_t i = 0, at = 0; i < rank; i++) { /* what neither has is unsqueezed behind */
    if (i == summed && !keeps) continue;
    if (i == summed || eq.sizes['a' + i] == BASE_DIM_NONE) gone[missing++] = at;
    else eq.terms[2][strlen(eq.terms[2])] = (char)('a' + i);
    at++;
  }
  roles unused[2];
  if (!spreads(&eq) || !plan(e, &eq, in, unused)) return TD_OK;
  for (uint32_t f = 0; f < 2; f++) TRY(resize(e, id, OP_aten_squeeze, places[f], singles[f], &in[f]));
  TRY(make_products(e, id, &eq, in, &made));
  TRY(resize(e, id, OP_aten_unsqueeze, gone, missing, &made));
  return passes_take_place(e, id, made);
}

static td_status visit(passes_edit *e, ir_node id) {
  static const passes_rule rules[] = {{OP_aten_einsum, visit_einsum}, {OP_aten_sum, visit_sum}};
  return passes_apply(e, id, rules, sizeof rules / sizeof *rules, NULL);
}

td_status passes_einsum(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
