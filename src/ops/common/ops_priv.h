/* ops_priv.h -- what the operators' files share: inference rules, typed access to operands, elementwise loops, and the
 * making of test cases. */
#ifndef OPS_OPS_PRIV_H
#define OPS_OPS_PRIV_H
#include "ir/ir.h"
#include "kernels/kernels.h"

#define OPS_COUNT(array) ((uint8_t)(sizeof(array) / sizeof *(array)))
/* Ends a file's table: const ir_op ops_<file>[] = {...}; OPS_TABLE(<file>); */
#define OPS_TABLE(file) const uint32_t ops_##file##_count = sizeof ops_##file / sizeof *ops_##file
#define OPS_DECLARE(file)          \
  extern const ir_op ops_##file[]; \
  extern const uint32_t ops_##file##_count
/* The test cases of a file's operators, behind its table: OPS_CASES(<file>) = {{OP_aten_name, fills_a_case}, ..., {0}};
 * Operators do not point at them, so that the linker leaves them out where nobody tests (ops_cases). */
typedef struct ops_cases_row {
  ir_op_id op;
  ir_cases cases;
} ops_cases_row;
#define OPS_CASES(file)                            \
  extern const ops_cases_row ops_##file##_cases[]; \
  const ops_cases_row ops_##file##_cases[]
/* Attribute rows. */
#define ATTR_INT(n, d) \
  { .name = (n), .kind = BASE_ATTR_INT, .i = (d) }
#define ATTR_BOOL(n, d) \
  { .name = (n), .kind = BASE_ATTR_BOOL, .i = (d) }
#define ATTR_FLOAT(n, d) \
  { .name = (n), .kind = BASE_ATTR_FLOAT, .f = (d) }
#define ATTR_STR(n, d) \
  { .name = (n), .kind = BASE_ATTR_STR, .str = (d) }
#define ATTR_INTS(n) \
  { .name = (n), .kind = BASE_ATTR_INTS }
#define ATTR_FLOATS(n) \
  { .name = (n), .kind = BASE_ATTR_FLOATS }
#define ATTR_DTYPE(n) \
  { .name = (n), .kind = BASE_ATTR_DTYPE, .required = true }
#define ATTR_OPTIONAL(n, k) \
  { .name = (n), .kind = (k), .optional = true }

#define ATTR_NEEDED(n, k) \
  { .name = (n), .kind = (k), .required = true }
/* A row of the lists of kernels/attrs.h. */
#define OPS_ATTR_ROW(position, kind, ...) ATTR_##kind(__VA_ARGS__),

/* ---- inference --------------------------------------------------------------------------------------------------- */

td_status ops_infer_same(ir_infer *ctx);      /* out[0] like operand 0 */
td_status ops_infer_same_bool(ir_infer *ctx); /* the same dims, bool */
/* out[0]: operands [0, n) broadcast together (NumPy rules), dtype given. Absent operands are skipped. Fails naming the
 * operands when numbers do not broadcast. Unranked operands give an unranked output. */
td_status ops_infer_broadcast(ir_infer *ctx, uint32_t n, td_dtype dtype);
/* Broadcasts two shapes; false when they do not. */
bool ops_broadcast_dims(base_dims *dims, int32_t a_rank, const base_dim *a, int32_t b_rank, const base_dim *b,
                        int32_t *rank, base_dim *out);
/* Fails unless operands a and b, where both present, have one dtype. */
td_status ops_same_dtype(ir_infer *ctx, uint32_t a, uint32_t b);
/* True when any present tensor operand is unranked: then infer gives ir_out_unranked. */
bool ops_any_unranked(const ir_infer *ctx);
/* Sets out[0]'s ints from operand contents where an operator is arithmetic on sizes (add, mul, ...). */
void ops_ints_binary(ir_infer *ctx, base_dim_op op);
/* Copies operand `in`'s ints to out[0] (views of one element order: reshape, squeeze, cast). */
void ops_ints_same(ir_infer *ctx, uint32_t in);

/* ---- typed access in references ---------------------------------------------------------------------------------- */

/* Operand `i` as a dense array of double, float or int64: its own memory where it already is one (any alignment), else
 * a converted copy in scratch. NULL: out of memory. Absent operands give NULL too: test base_in first. */
const base_f64 *ops_dense_f64(const base_call *call, uint32_t i);
const base_f32 *ops_dense_f32(const base_call *call, uint32_t i);
const base_i64 *ops_dense_i64(const base_call *call, uint32_t i);
/* A copy as float, each number rounded to bf16; NULL as above. */
const base_f32 *ops_rounded_f32(const base_call *call, uint32_t i);
/* Operand `i` dense in its own dtype. */
const void *ops_dense(const base_call *call, uint32_t i);
/* The same as a tensor in *dense. False: out of memory. An absent operand gives a tensor without data. */
bool ops_dense_tensor(const base_call *call, uint32_t i, base_tensor *dense);
/* Where to compute output `i` as double, float or int64: the output itself when it has that dtype, else scratch, which
 * ops_put then converts into it. NULL: out of memory (or nobody wants the output: test base_out first). */
base_f64 *ops_take_f64(const base_call *call, uint32_t i);
base_f32 *ops_take_f32(const base_call *call, uint32_t i);
base_i64 *ops_take_i64(const base_call *call, uint32_t i);
/* Finishes ops_take_*: converts `data` of `dtype` into output `i` unless it already is the output. */
void ops_put(const base_call *call, uint32_t i, td_dtype dtype, const void *data);
/* A row of `count` elements at element offset `offset`, `step` apart, as double / int64 and back. */
void ops_row_get_f64(const base_tensor *t, int64_t offset, int64_t step, int64_t count, double *to);
void ops_row_put_f64(const base_tensor *t, int64_t offset, int64_t step, int64_t count, const double *from);
void ops_row_get_i64(const base_tensor *t, int64_t offset, int64_t step, int64_t count, int64_t *to);
void ops_row_put_i64(const base_tensor *t, int64_t offset, int64_t step, int64_t count, const int64_t *from);
/* Strides of `t` read as if it had `rank` and `dims` (broadcast: 0 where it has 1 or nothing). */
void ops_broadcast_strides(const base_tensor *t, int32_t rank, const int64_t *dims, int64_t *strides);
/* Elementwise loops over operands broadcast to out[0]. `user` goes through. Floats (f16 and narrower included) go as
 * double, integers and bool as int64; operands are read in chunks, so out may alias an operand of the same layout. */
typedef void (*ops_map_f64)(const void *user, int64_t count, const double *const *in, double *out);
typedef void (*ops_map_i64)(const void *user, int64_t count, const int64_t *const *in, int64_t *out);
td_status ops_elementwise_f64(const base_call *call, uint32_t operands, ops_map_f64 map, const void *user);
td_status ops_elementwise_i64(const base_call *call, uint32_t operands, ops_map_i64 map, const void *user);
/* The same for operands and out[0] of f32 alone, computed in float: for maps that are exact there or rounded once.
 * `out` overlaps no operand. */
typedef void (*ops_map_f32)(const void *user, int64_t count, const base_f32 *const *in, base_f32 *restrict out);
td_status ops_elementwise_f32(const base_call *call, uint32_t operands, ops_map_f32 map, const void *user);
/* The reference of a VIEW or VIEW_DENSE operator: copies what its `view` shows. */
td_status ops_view_reference(const base_call *call);
/* Two sizes are known and not equal. */
static inline bool ops_dims_differ(base_dim a, base_dim b) { return base_dim_known(a) && base_dim_known(b) && a != b; }
/* Does `axis` name the first of `rank` dimensions, along which samples stand? */
static inline bool ops_is_first_dim(int64_t axis, int32_t rank) { return axis == 0 || axis == -rank; }
/* Integers of operand `i` (shape, axes, ...), at most `max`; fails when there are more. */
td_status ops_read_ints(const base_call *call, uint32_t i, uint32_t max, int64_t *ints, uint32_t *count);
td_status ops_fail(const base_call *call, const char *format, ...)
    BASE_PRINTF(2, 3); /* TD_BAD_ARGUMENT, naming the operator */

/* ---- test cases -------------------------------------------------------------------------------------------------- */

/* How generated elements are spread. */
typedef enum ops_fill {
  OPS_NORMAL,   /* mostly within ±3; small integers for integer types */
  OPS_POSITIVE, /* (0, 3] */
  OPS_UNIT,     /* [0, 1) */
  OPS_SPECIAL,  /* zeros, infinities, NaN, largest, least, halves among the rest */
  OPS_INDEX     /* 0, 1, 2, ... */
} ops_fill;
/* Adds an operand of the given dims (row of int64_t) to a case; false: out of memory. `seed` makes the values. */
bool ops_case_in(ir_case *c, td_dtype dtype, int32_t rank, const int64_t *dims, ops_fill fill, uint64_t seed);
bool ops_case_ints(ir_case *c, const int64_t *ints, uint32_t count); /* an i64 vector operand */
bool ops_case_absent(ir_case *c);
void ops_case_arg(ir_case *c, base_arg arg);
#define OPS_DIMS(...) \
  (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }
#endif
