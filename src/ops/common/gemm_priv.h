/* gemm_priv.h -- C += A B, the loop under matrix products, convolutions, recurrences and attention. A is read element
 * by element at any strides, so that weights are never copied; B comes in blocks of rows: straight from memory where
 * its rows are dense, else through a function that writes a dense block (a transposed matrix, the patches of an image).
 *
 * The order in which one element of C is accumulated depends on k alone, never on m or n: rows do not see their
 * neighbours. */
#ifndef OPS_GEMM_PRIV_H
#define OPS_GEMM_PRIV_H
#include "ops/common/ops_priv.h"

enum {
  GEMM_ROWS = 128,    /* of B in a block */
  GEMM_COLUMNS = 256, /* of B in a block: a row of accumulators stays in L1, a block in L2 */
  GEMM_BLOCK = GEMM_ROWS * GEMM_COLUMNS
};

/* T: element type; U: the same with any alignment; NAME: suffix. `pack` writes rows [k0, k0 + kn) and columns
 * [j0, j0 + jn) of B to `to`, row after row, GEMM_COLUMNS apart; it needs `block`, room for GEMM_BLOCK elements.
 * Without `pack`, `b` has dense rows, b_row apart. */
#define GEMM_DECLARE(T, U, NAME)                                                                          \
  typedef struct gemm_##NAME {                                                                            \
    int64_t m, n, k;                                                                                      \
    const U *a;                                                                                           \
    int64_t a_row, a_column;                                                                              \
    const U *b;                                                                                           \
    int64_t b_row, b_column;                                                                              \
    void (*pack)(const struct gemm_##NAME *g, int64_t k0, int64_t kn, int64_t j0, int64_t jn, T *to);     \
    const void *user;                                                                                     \
    T *block;                                                                                             \
    U *c;                                                                                                 \
    int64_t c_row;                                                                                        \
  } gemm_##NAME;                                                                                          \
  void ops_gemm_##NAME(const gemm_##NAME *g);                                                             \
  /* For a B of any strides: chooses between reading it in place and packing it. False: out of memory. */ \
  bool ops_gemm_matrix_##NAME(const base_call *call, gemm_##NAME *g)
GEMM_DECLARE(float, base_f32, f32);
GEMM_DECLARE(double, base_f64, f64);
GEMM_DECLARE(uint64_t, base_u64, u64); /* all integers: sums modulo 2^64, so modulo any narrower type too */

/* Operand `i` as a tensor of `dtype` (f32, f64 or i64): itself, strides and all, where it has that dtype, else a dense
 * converted copy in scratch. False: out of memory. */
bool ops_typed(const base_call *call, uint32_t i, td_dtype dtype, base_tensor *t);
/* Of aten::matmul and td::mix: are the operands rounded to bf16? Operand `i`, so or as ops_typed; their kernel. */
bool ops_has_pairs(const base_attrs *attrs);
bool ops_matmul_operand(const base_call *call, uint32_t i, td_dtype dtype, base_tensor *t);
const kern_row *ops_matmul_kernel(const ir_kernel_query *query);
/* The dtype in which products of `dtype` are summed: f32 for f32 and the 16-bit floats, f64, or i64 for integers. */
td_dtype ops_sum_dtype(td_dtype dtype);
/* Shape of aten::matmul of operands `a` and `b` as out[0] of `dtype`. */
td_status ops_infer_matmul(ir_infer *ctx, uint32_t a, uint32_t b, td_dtype dtype);
/* c = a b by aten::matmul's rules: a and b of one dtype (f32, f64 or i64) and any strides; c dense, of the dims of
 * `shape`. */
td_status ops_multiply(const base_call *call, const base_tensor *a, const base_tensor *b, const base_tensor *shape,
                       void *c);
/* For test cases: the dims of a product of such operands, whose rank it gives. */
int32_t ops_case_matmul_dims(int32_t a_rank, const int64_t *a, int32_t b_rank, const int64_t *b, int64_t *y);
#endif
