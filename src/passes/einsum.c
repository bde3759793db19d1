/* einsum.c -- sums of products over named axes that are products of matrices:
 *
 *     einsum("bnd,bmd->bnm", a, b)  ->  matmul(a, permute(b))
 *     einsum("bnd,bd,bn->bn", a, b, c)  ->  mul(squeeze(matmul(a, unsqueeze(b))), c)
 *
 * Factors are taken from left to right, in pairs. Of a pair, any axes that both have and that are still needed stand in
 * front; at most one is of each factor's own, and at most one is summed; permutations bring them into that order. What
 * has nothing to sum is a plain product. Requires: a verified graph; f32, no ellipsis, no letter twice in a factor.
 * Keeps: types. Breaks: bit equality: sums are taken in another order. */
#include "passes/passes_priv.h"

#include <string.h>

enum { MAX_FACTORS = 8 };
typedef char term[BASE_MAX_RANK + 1];

/* The letters of "ab,bc->ac"; the last term is the result. */
typedef struct equation {
  uint32_t factors;
  term terms[MAX_FACTORS + 1];
} equation;

static bool add_letter(char *to, char c) {
  size_t n = strlen(to);
  bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  if (!letter || n == BASE_MAX_RANK || strchr(to, c)) return false;
  to[n] = c;
  return true;
}

/* False: another form. */
static bool read_equation(const char *text, uint32_t factors, equation *eq) {
  uint32_t at = 0;
  memset(eq, 0, sizeof *eq);
  eq->factors = factors;
  for (; *text; text++) {
    bool ends = text[0] == '-' && text[1] == '>';
    if (*text == ' ') continue;
    if (*text == ',' || ends) {
      if ((++at == factors) != ends || at > factors) return false;
      text += ends;
    } else if (!add_letter(eq->terms[at], *text)) return false;
  }
  return at == factors;
}

/* One product: what the axes of the result and the sum are, in the order of the factors' letters. */
typedef struct roles {
  term shared, out; /* by both factors and the result; the result as it is made */
  char own[2][2], summed[2];
} roles;

/* Does a factor behind `done` of them, or the result, have this axis? */
static bool is_needed(const equation *eq, uint32_t done, char c) {
  for (uint32_t i = done; i <= eq->factors; i++)
    if (strchr(eq->terms[i], c)) return true;
  return false;
}

/* Of what the factors before `second` make and of that one. False: two axes of a kind, or a sum within a factor. */
static bool find_roles(const equation *eq, const char *first, uint32_t second, roles *r) {
  const char *const factors[] = {first, eq->terms[second]};
  memset(r, 0, sizeof *r);
  for (uint32_t f = 0; f < 2; f++)
    for (const char *c = factors[f]; *c; c++) {
      bool other = strchr(factors[1 - f], *c), kept = is_needed(eq, second + 1, *c);
      if (!other && !kept) return false;
      char *to = other && kept ? r->shared : other ? r->summed : r->own[f];
      if (f && other) continue;
      if (to != r->shared && *to) return false;
      to[strlen(to)] = *c;
    }
  if (strlen(r->shared) + strlen(r->own[0]) + strlen(r->own[1]) > BASE_MAX_RANK - 2) return false;
  strcpy(r->out, r->shared);
  strcat(r->out, r->own[0]);
  strcat(r->out, r->own[1]);
  return true;
}

/* All products of the equation. */
static bool plan(const equation *eq, roles *steps) {
  const char *first = eq->terms[0];
  for (uint32_t i = 1; i < eq->factors; i++) {
    if (!find_roles(eq, first, i, &steps[i])) return false;
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
  const base_arg arg = ARG_INTS("dims", order, rank);
  return passes_add(e, at, "aten::permute", (ir_new_node){.in = &v, .in_count = 1, .args = &arg, .arg_count = 1}, NULL,
                    out);
}

/* A size of 1 at each of the places, or away with it. */
static td_status resize(passes_edit *e, ir_node at, const char *op, const int64_t *places, uint32_t count,
                        ir_value *v) {
  ir_value in[] = {*v, IR_NO_VALUE};
  if (count == 0) return TD_OK;
  TRY(ir_add_ints(e->graph, places, count, &in[1], e->err));
  return passes_add(e, at, op, (ir_new_node){.in = in, .in_count = 2}, NULL, v);
}

/* `v` as a factor: [shared, own, summed], or [shared, summed, own] of the second one; an absent one has size 1. */
static td_status bring(passes_edit *e, ir_node at, const roles *r, uint32_t f, const char *from, ir_value *v) {
  term to;
  int64_t places[2];
  uint32_t count = 0;
  const char *const inner[] = {f ? r->summed : r->own[0], f ? r->own[1] : r->summed};
  strcpy(to, r->shared);
  for (uint32_t i = 0; i < 2; i++) {
    strcat(to, inner[i]);
    if (!*inner[i]) places[count++] = (int64_t)strlen(r->shared) + i;
  }
  TRY(reorder(e, at, *v, from, to, v));
  return resize(e, at, "aten::unsqueeze", places, count, v);
}

/* *v times another factor, whose axes are called `from`. */
static td_status multiply(passes_edit *e, ir_node at, const roles *r, const char *first, const char *from,
                          ir_value factor, ir_value *v) {
  int64_t gone[2];
  uint32_t count = 0;
  ir_value in[] = {*v, factor};
  TRY(bring(e, at, r, 0, first, &in[0]));
  TRY(bring(e, at, r, 1, from, &in[1]));
  TRY(passes_add(e, at, *r->summed ? "aten::matmul" : "aten::mul", (ir_new_node){.in = in, .in_count = 2}, NULL, v));
  for (uint32_t f = 0; f < 2; f++)
    if (!*r->own[f]) gone[count++] = (int64_t)strlen(r->shared) + f;
  return resize(e, at, "aten::squeeze", gone, count, v);
}

/* Types of f32 in which a letter has one size: sizes of 1 broadcast to others. */
static bool fits(const passes_edit *e, const ir_node_def *node, const equation *eq) {
  for (uint32_t f = 0; f < eq->factors; f++) {
    const ir_type *t = ir_type_of(e->graph, node->in[f]);
    if (t->rank != (int32_t)strlen(eq->terms[f]) || t->dtype != TD_F32) return false;
    for (uint32_t g = 0; g < f; g++)
      for (const char *c = eq->terms[f]; *c; c++) {
        const char *other = strchr(eq->terms[g], *c);
        if (other && ir_type_of(e->graph, node->in[g])->dims[other - eq->terms[g]] != t->dims[c - eq->terms[f]])
          return false;
      }
  }
  return true;
}

static td_status visit(passes_edit *e, ir_node id) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  const uint32_t factors = node->in_count;
  equation eq;
  roles steps[MAX_FACTORS];
  if (strcmp(node->op->name, "aten::einsum") != 0 || factors < 2 || factors > MAX_FACTORS ||
      !read_equation(passes_str(node, "equation"), factors, &eq) || !plan(&eq, steps) || !fits(e, node, &eq))
    return TD_OK;
  ir_value in[MAX_FACTORS];
  memcpy(in, node->in, factors * sizeof *in);
  ir_value made = in[0];
  const char *first = eq.terms[0];
  for (uint32_t i = 1; i < factors; i++) {
    TRY(multiply(e, id, &steps[i], first, eq.terms[i], in[i], &made));
    first = steps[i].out;
  }
  TRY(reorder(e, id, made, first, eq.terms[factors], &made));
  return passes_take_place(e, id, made);
}

td_status passes_einsum(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
