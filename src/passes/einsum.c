/* einsum.c -- sums of products over named axes that are products of matrices:
 *
 *     einsum("bnd,bmd->bnm", a, b)  ->  matmul(a, permute(b))
 *
 * with any axes that both factors and the result share in front, one of each factor's own, and one that is summed;
 * permutations bring them into that order. Requires: a verified graph; two factors, no ellipsis, no letter twice in one
 * of them. Keeps: types. Breaks: bit equality: sums are taken in another order. */
#include "passes/passes_priv.h"

#include <string.h>

/* The letters of "ab,bc->ac". */
typedef struct equation {
  char term[3][BASE_MAX_RANK + 1];
} equation;

static bool add_letter(char *term, char c) {
  size_t n = strlen(term);
  bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  if (!letter || n == BASE_MAX_RANK || strchr(term, c)) return false;
  term[n] = c;
  return true;
}

/* False: another form. */
static bool read_equation(const char *text, equation *eq) {
  uint32_t at = 0;
  memset(eq, 0, sizeof *eq);
  for (; *text; text++) {
    if (*text == ' ') continue;
    if (*text == ',') {
      if (at++ != 0) return false;
    } else if (text[0] == '-' && text[1] == '>') {
      if (at++ != 1) return false;
      text++;
    } else if (!add_letter(eq->term[at], *text)) return false;
  }
  return at == 2;
}

/* What the axes of the result and the sum are, in the order of the factors' letters. */
typedef struct roles {
  char shared[BASE_MAX_RANK + 1]; /* by both factors and the result */
  char own[2][2], summed[2];
} roles;

/* False: not one axis of each kind. */
static bool find_roles(const equation *eq, roles *r) {
  memset(r, 0, sizeof *r);
  for (uint32_t f = 0; f < 2; f++)
    for (const char *c = eq->term[f]; *c; c++) {
      bool other = strchr(eq->term[1 - f], *c), kept = strchr(eq->term[2], *c);
      if (!other && !kept) return false;
      char *to = other && kept ? r->shared : other ? r->summed : r->own[f];
      if (f && other) continue;
      if (to != r->shared && *to) return false;
      to[strlen(to)] = *c;
    }
  return *r->own[0] && *r->own[1] && *r->summed && strlen(eq->term[2]) == strlen(r->shared) + 2;
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

static void name(char *to, const char *shared, const char *row, const char *column) {
  strcpy(to, shared);
  strcat(to, row);
  strcat(to, column);
}

static bool fits(const passes_edit *e, const ir_node_def *node, const equation *eq, const roles *r) {
  for (uint32_t f = 0; f < 2; f++) {
    const ir_type *t = ir_type_of(e->graph, node->in[f]);
    if (t->rank != (int32_t)strlen(eq->term[f]) || t->dtype != TD_F32) return false;
  }
  const ir_type *a = ir_type_of(e->graph, node->in[0]), *b = ir_type_of(e->graph, node->in[1]);
  for (const char *c = r->shared; *c; c++) /* sizes of 1 broadcast to others: no result of the same size, then */
    if (a->dims[strchr(eq->term[0], *c) - eq->term[0]] != b->dims[strchr(eq->term[1], *c) - eq->term[1]]) return false;
  return a->dims[strchr(eq->term[0], *r->summed) - eq->term[0]] ==
         b->dims[strchr(eq->term[1], *r->summed) - eq->term[1]];
}

static td_status visit(passes_edit *e, ir_node id) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  equation eq;
  roles r;
  if (strcmp(node->op->name, "aten::einsum") != 0 || node->in_count != 2 ||
      !read_equation(passes_str(node, "equation"), &eq) || !find_roles(&eq, &r) || !fits(e, node, &eq, &r))
    return TD_OK;
  const ir_value factors[] = {node->in[0], node->in[1]};
  ir_value in[2], made;
  char a[BASE_MAX_RANK + 3], b[BASE_MAX_RANK + 3], c[BASE_MAX_RANK + 3];
  name(a, r.shared, r.own[0], r.summed);
  name(b, r.shared, r.summed, r.own[1]);
  name(c, r.shared, r.own[0], r.own[1]);
  TRY(reorder(e, id, factors[0], eq.term[0], a, &in[0]));
  TRY(reorder(e, id, factors[1], eq.term[1], b, &in[1]));
  TRY(passes_add(e, id, "aten::matmul", (ir_new_node){.in = in, .in_count = 2}, NULL, &made));
  TRY(reorder(e, id, made, c, eq.term[2], &made));
  return passes_take_place(e, id, made);
}

td_status passes_einsum(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
