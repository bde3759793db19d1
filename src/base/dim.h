/* dim.h -- sizes that may be open: a base_dim is a plain number, or an expression over symbols (a handle into a
 * base_dims table, distinguished by lying below every number that shape arithmetic may use). Expressions are
 * hash-consed and simplified as they are built, so equal handles mean equal sizes.
 *
 * Arithmetic on two numbers never touches the table: with numbers alone `dims` may be NULL, which is how the inference
 * of an operator runs again at run time without allocating. BASE_DIM_NONE (a failure: overflow, out of memory, or an
 * expression where the table is NULL) goes through every operation unchanged. */
#ifndef BASE_DIM_H
#define BASE_DIM_H
#include "base/map.h"

typedef int64_t base_dim;
#define BASE_DIM_NONE INT64_MIN
#define BASE_DIM_LEAST (-((int64_t)1 << 62)) /* numbers below saturate here; expressions lie below it */

typedef enum base_dim_op {
  BASE_DIM_SYMBOL, /* a = symbol number */
  BASE_DIM_ADD,
  BASE_DIM_SUB,
  BASE_DIM_MUL,
  BASE_DIM_FLOORDIV,
  BASE_DIM_CEILDIV,
  BASE_DIM_MOD, /* floor division; the sign of mod is the divisor's */
  BASE_DIM_MIN,
  BASE_DIM_MAX,
  BASE_DIM_BROADCAST, /* a == 1 ? b : b == 1 ? a : a, which must equal b */
  BASE_DIM_OP_COUNT
} base_dim_op;

typedef struct base_dim_node {
  base_dim_op op;
  int64_t a, b;    /* operands as base_dim; of a SYMBOL its number */
  uint32_t weight; /* nodes under it, read as a tree: what evaluating it costs */
} base_dim_node;

typedef struct base_symbol {
  const char *name; /* "batch", or "u3" for one that data defines; unique */
  bool from_data;   /* known only when the operator that defines it has run */
  int64_t least;    /* it is never less */
} base_symbol;

typedef struct base_dims {
  base_arena *arena;
  BASE_VEC(base_dim_node) nodes; /* operands stand before their users */
  BASE_VEC(base_symbol) symbols;
  base_map by_node;
  base_map by_name;
} base_dims;

/* True for a number (shape arithmetic has negative ones too), false for an expression or BASE_DIM_NONE. */
static inline bool base_dim_known(base_dim d) { return d >= BASE_DIM_LEAST; }
static inline base_dim base_dim_number(int64_t value) { return value < BASE_DIM_LEAST ? BASE_DIM_LEAST : value; }
base_dim base_dim_symbol(base_dims *dims, const char *name); /* found or made; `name` is copied */
base_dim base_dim_fresh(base_dims *dims);                    /* a new symbol that data defines */
base_dim base_dim_binary(base_dims *dims, base_dim_op op, base_dim a, base_dim b);
static inline base_dim base_dim_add(base_dims *d, base_dim a, base_dim b) {
  return base_dim_binary(d, BASE_DIM_ADD, a, b);
}
static inline base_dim base_dim_sub(base_dims *d, base_dim a, base_dim b) {
  return base_dim_binary(d, BASE_DIM_SUB, a, b);
}
static inline base_dim base_dim_mul(base_dims *d, base_dim a, base_dim b) {
  return base_dim_binary(d, BASE_DIM_MUL, a, b);
}
static inline base_dim base_dim_div(base_dims *d, base_dim a, base_dim b) {
  return base_dim_binary(d, BASE_DIM_FLOORDIV, a, b);
}

/* Value of `d` given a value per symbol; false on overflow, division by zero, a negative symbol (unknown), or sizes
 * that do not broadcast. O(nodes under d). */
bool base_dim_eval(const base_dims *dims, base_dim d, const int64_t *symbols, int64_t *value);
/* The same where every symbol is `each`; false, too, if `d` needs one that data defines. */
bool base_dim_eval_alike(const base_dims *dims, base_dim d, int64_t each, int64_t *value);
/* What must hold between two sizes, for inputs to be taken. */
typedef enum base_relation { BASE_EQ, BASE_NE, BASE_LT, BASE_LE, BASE_RELATION_COUNT } base_relation;
typedef struct base_guard {
  base_dim left, right;
  base_relation relation;
  const char *text; /* a sentence for people: what is asked of the inputs */
} base_guard;
const char *base_relation_name(base_relation relation); /* "==", "!=", "<", "<=" */
bool base_relation_holds(base_relation relation, int64_t left, int64_t right);
/* Finds the one symbol of `d` that `symbols` does not know (negative) from the value of `d`, where d grows with it in
 * proportion: 2*s + 1. False: there is none such; *fits false: no whole number does. */
bool base_dim_solve(const base_dims *dims, base_dim d, int64_t value, const int64_t *symbols, uint32_t *symbol,
                    int64_t *found, bool *fits);
/* True when `d` is surely not negative, since symbols are sizes: h, or (h - 1) / 2 + 1. */
bool base_dim_not_negative(const base_dims *dims, base_dim d);
/* From now on the one symbol of `d`, which must grow with it, is never so small that `d` is less than `value`. True: it
 * may be less than was known. Expressions that stand already are not simplified again. */
bool base_dim_at_least(base_dims *dims, base_dim d, int64_t value);
/* Is `d` a whole number of times `of`, whatever sizes are open? *times, from 1. */
bool base_dim_times(const base_dims *dims, base_dim d, base_dim of, int64_t *times);
/* True when `d` needs a symbol that data defines. */
bool base_dim_from_data(const base_dims *dims, base_dim d);
/* The first `count` expressions of the table with numbers for some of its symbols (`values`: one per symbol, negative:
 * it stays open), in `fixed`; BASE_DIM_NONE for those that have no value then. False: out of memory. */
bool base_dims_fix(base_dims *dims, const int64_t *values, uint32_t count, base_dim *fixed);
/* A copy to evaluate and to print, which does not grow. False: out of memory. */
bool base_dims_copy(const base_dims *from, base_arena *arena, base_dims *to);
/* Of nodes and symbols that a stranger wrote: operands stand before their users, and no expression is longer than those
 * that are built here. Fills in the weights. */
bool base_dims_check(base_dims *dims);
/* Is it a number, or an expression of the table? */
static inline bool base_dim_in(const base_dims *dims, base_dim d) {
  return base_dim_known(d) || (d != BASE_DIM_NONE && d - (BASE_DIM_NONE + 1) < (int64_t)dims->nodes.count);
}
/* The name of a plain symbol; NULL: it is none. */
const char *base_dim_symbol_name(const base_dims *dims, base_dim d);
void base_dim_print(const base_dims *dims, base_dim d, base_text *text);
/* Parses what base_dim_print wrote; advances *at. BASE_DIM_NONE on a syntax error. */
base_dim base_dim_parse(base_dims *dims, const char **at, const char *end);
#endif
