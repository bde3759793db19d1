/* program.h -- a fused loop nest as plain data: what a step of fused operators carries in its attributes, written by
 * `loop`, executed by `kernels`, translated by `codegen`.
 *
 * A program runs over the elements of a space: its operands' dimensions, broadcast together, aligned at the last of
 * `rank` axes. `row_axes` of them, with `behind` axes behind them, are a row: what is reduced runs along it. Values are
 * numbered in order; each is computed for every element, or (`row`) once for a row. Each has a type; types meet in
 * `cast` alone. Loads and stores convert between a type and the narrower ones in memory that it stands for
 * (base_type_of).
 *
 * Vectors hold elements of one row, or, `across`, one element of several rows: of rows that are short, or whose
 * elements lie apart. Then a row's elements are joined one behind the other.
 *
 *     0 load 0          1 reduce max 0     (row)     2 sub 0 1     3 exp_flush 2     4 reduce sum 3   (row)
 *     5 div 3 4         6 store 0 5 f32 */
#ifndef BASE_PROGRAM_H
#define BASE_PROGRAM_H
#include "base/tensor.h"

enum { BASE_PROGRAM_OPS = 96, BASE_PROGRAM_OPERANDS = 24, BASE_PROGRAM_OUTS = 8, BASE_PROGRAM_WORDS = 5 };

/* What values are computed in. Whole numbers wrap; of a BOOL all bits of 32 are 0, or 1. */
typedef enum base_type {
  BASE_TYPE_F32,
  BASE_TYPE_F64,
  BASE_TYPE_I32,
  BASE_TYPE_I64,
  BASE_TYPE_BOOL,
  BASE_TYPE_COUNT
} base_type;
const char *base_type_name(base_type type);
base_type base_type_find(base_str name); /* BASE_TYPE_COUNT: there is none */
/* What elements of `dtype` are computed in: the narrowest type that holds them all. BASE_TYPE_COUNT: none. */
base_type base_type_of(td_dtype dtype);
/* The element type that is dense in memory as loops read and write it: a byte of a BOOL. */
td_dtype base_type_dtype(base_type type);
static inline bool base_type_is_wide(base_type type) { return type == BASE_TYPE_F64 || type == BASE_TYPE_I64; }
static inline bool base_type_is_float(base_type type) { return type == BASE_TYPE_F32 || type == BASE_TYPE_F64; }

/* The functions of scalar.def. */
typedef enum base_scalar {
#define UNARY(family, function, types, work, value) BASE_SCALAR_##function,
#define BINARY(family, function, types, work, value) BASE_SCALAR_##function,
#define PURE(function, operands, types, gives, work, value) BASE_SCALAR_##function,
#define PLAIN(function, operands, types, work, value) BASE_SCALAR_##function,
#include "base/scalar.def"
  BASE_SCALAR_COUNT
} base_scalar;

typedef struct base_scalar_info {
  const char *name;
  const char *value; /* as scalar.def says it */
  uint8_t operands;
  uint8_t types;    /* bit t: takes operands of base_type t */
  uint8_t work;     /* operations of a vector, about */
  bool gives_truth; /* the result is a BOOL; else of the operands' type */
  bool plain;       /* vectors do not have it */
} base_scalar_info;
const base_scalar_info *base_scalar_of(base_scalar function);
base_scalar base_scalar_find(base_str name); /* BASE_SCALAR_COUNT: there is none */

/* Of BOOL: MAX is any, MIN is all. LOG_ADD, log(exp(a) + exp(b)), is for scans of f64 across rows. */
typedef enum base_combine {
  BASE_COMBINE_SUM,
  BASE_COMBINE_MAX,
  BASE_COMBINE_MIN,
  BASE_COMBINE_PROD,
  BASE_COMBINE_LOG_ADD,
  BASE_COMBINE_COUNT
} base_combine;
const char *base_combine_name(base_combine combine);
base_combine base_combine_find(base_str name); /* BASE_COMBINE_COUNT: there is none */
/* The function of scalar.def that joins two values of a type. */
base_scalar base_combine_scalar(base_combine combine, base_type type);

/* How a scan runs: without the element itself; from the row's last element down. */
enum { BASE_SCAN_EXCLUSIVE = 1, BASE_SCAN_REVERSE = 2 };

typedef enum base_program_kind {
  BASE_PROGRAM_LOAD, /* operand `function`; each at most once. Where in[1] is not 0 it is gathered: base_program_pick */
  BASE_PROGRAM_NUMBER, /* p[0], or `whole` of a type that is no float */
  BASE_PROGRAM_LENGTH, /* elements of a row */
  BASE_PROGRAM_SCALAR, /* function `function` of scalar.def on in[0..], with numbers p */
  BASE_PROGRAM_REDUCE, /* in[0] along the row, by base_combine `function` */
  BASE_PROGRAM_STORE,  /* in[0] becomes output `function`, of td_dtype in[2]. A row's: in[1] 0 keeps the axes of the row
                          with 1 element, 1 drops them */
  BASE_PROGRAM_SCAN,   /* of each element: in[0] from the row's first element up to it, by base_combine `function`, as
                          BASE_SCAN_* in in[1] say. What is joined with what is told by the row's length and the
                          instruction set alone */
  BASE_PROGRAM_KINDS
} base_program_kind;

typedef struct base_program_op {
  uint8_t kind; /* base_program_kind */
  uint8_t row;  /* once for a row */
  uint8_t type; /* base_type of the result; of a store that of its value */
  uint16_t function;
  uint16_t in[3];
  double p[3]; /* of F32: rounded to it */
  int64_t whole;
} base_program_op;

typedef struct base_program {
  uint8_t rank, row_axes, behind, in_count, out_count;
  bool across;
  uint32_t count;
  base_program_op ops[BASE_PROGRAM_OPS];
} base_program;

/* Is axis `axis` of the space one of the row? */
static inline bool base_program_in_row(const base_program *p, int32_t axis) {
  const int32_t end = p->rank - p->behind;
  return axis < end && axis >= end - p->row_axes;
}

/* A gathered operand. Of its load, in[0] is the operand that holds the indices; in[1] is the rank of what is gathered,
 * whose axes are the last of the space; in[2] packs the gathered axis (low byte) and the number of the space's axes
 * behind the last one of the indices (high byte). Axes of the table in front of the gathered axis come first in what is
 * gathered, those behind it last. Negative indices count from the end. */
typedef struct base_program_pick {
  bool picks, tells; /* the operand is read that way; it tells another one's places */
  uint8_t teller, axes, axis, behind;
} base_program_pick;
/* How each operand is read. False: plainly, all of them. */
bool base_program_picks(const base_program *p, base_program_pick picks[BASE_PROGRAM_OPERANDS]);
/* The axis of an operand of `rank` axes that runs along the space's axis `axis`; negative: none. */
static inline int32_t base_program_axis(const base_program *p, const base_program_pick *pick, int32_t rank,
                                        int32_t axis) {
  if (!pick->picks) return axis - (p->rank - pick->behind) < 0 ? axis - (p->rank - pick->behind) + rank : -1;
  const int32_t at = axis - (p->rank - pick->axes), after = axis - p->rank + rank;
  return at >= 0 && at < pick->axis ? at : after > pick->axis ? after : -1;
}

/* Bit by bit, numbers too: 0 is not -0, and a NaN is itself. */
bool base_program_op_equal(const base_program_op *a, const base_program_op *b);
bool base_program_equal(const base_program *a, const base_program *b);
/* Values that op `i` reads: in[0] up to this number. */
uint32_t base_program_operands(const base_program_op *op);
/* Is it computed for each element of a row? */
static inline bool base_program_computes(const base_program_op *op) {
  return (op->kind == BASE_PROGRAM_SCALAR || op->kind == BASE_PROGRAM_SCAN) && !op->row;
}
/* The type of its operands; of `where` that of the two to choose from. */
base_type base_program_operand_type(const base_program *p, const base_program_op *op);
/* Words that the program takes: a head, and BASE_PROGRAM_WORDS of each op. */
static inline uint32_t base_program_size(const base_program *p) { return 1 + p->count * BASE_PROGRAM_WORDS; }
void base_program_write(const base_program *p, int64_t *words);
/* Reads and verifies. NULL: fine; else what is wrong, one clause. */
const char *base_program_read(const int64_t *words, uint32_t count, base_program *p);
/* The rules that every program keeps: operands before users, of the types that functions take, one load of an operand,
 * one store of an output, rows made of rows alone. NULL: all hold. */
const char *base_program_check(const base_program *p);
/* The stretch of the row's loop in which each op is computed: 0 before and up to the first reduction, one more behind
 * each reduction that it needs, and behind a scan that runs the other way. Gives the number of stretches. */
uint32_t base_program_stages(const base_program *p, uint8_t stage[BASE_PROGRAM_OPS]);
/* Does stretch `at` run from the row's last element down? */
bool base_program_runs_back(const base_program *p, const uint8_t *stage, uint32_t at);
/* Bit `i`: element op `i`, which is no load, is needed in a later stage than its own, and so kept for the whole row. */
uint32_t base_program_kept(const base_program *p, const uint8_t *stage, bool kept[BASE_PROGRAM_OPS]);
#endif
