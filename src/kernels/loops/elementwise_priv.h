/* elementwise_priv.h -- how a kernel walks the elements of its output, which is dense, and of one to three operands
 * broadcast to it, of any strides. The output may be the memory of an operand that has its layout.
 *
 * Dimensions that all operands run through alike are merged; what is left is planes of rows of elements. A body
 * computes some rows of one plane, and sees operands of steps 1 and, where it has a form for that, 0 from element to
 * element; other operands are gathered in front of it, a piece of a row at a time. Tasks are runs of whole rows, or
 * pieces of a long row, by shape alone. */
#ifndef KERNELS_ELEMENTWISE_PRIV_H
#define KERNELS_ELEMENTWISE_PRIV_H
#include "base/base.h"

enum { ELEMENTWISE_OPERANDS = 3 };
/* The space of a call: `planes` of `rows` of `length` elements, behind one another in the output. An operand is `step`
 * on from element to element, `pitch` from row to row, and from plane to plane what dims, the innermost first, and
 * stride say. */
typedef struct elementwise_space {
  int32_t rank; /* of the planes */
  int64_t dims[BASE_MAX_RANK], stride[ELEMENTWISE_OPERANDS][BASE_MAX_RANK];
  int64_t planes, rows, length;
  int64_t pitch[ELEMENTWISE_OPERANDS], step[ELEMENTWISE_OPERANDS];
} elementwise_space;
/* Of out[0] and the first `operands` operands. */
void kern_elementwise_space(const base_call *call, uint32_t operands, elementwise_space *s);
/* Where a row of a plane begins in each of them. */
void kern_elementwise_offsets(const elementwise_space *s, uint32_t operands, int64_t plane, int64_t row,
                              int64_t *offset);

/* out[r * n + i] = f(in[k][r * pitch[k] + i or, a scalar, r * pitch[k]] ...) for `rows` rows of `n` elements. `p`: the
 * parameters of the function. */
typedef void (*elementwise_rows)(float *out, const float *const *in, const int64_t *pitch, int64_t rows, int64_t n,
                                 const float *p);

/* The forms of a body: which operands are scalars, bit k for operand k; NULL: none. rows[0] takes vectors alone. */
typedef struct elementwise_body {
  uint32_t operands;
  elementwise_rows rows[4];
} elementwise_body;

/* out[0] = the body over the call's first operands. */
td_status kern_elementwise(const base_call *call, const elementwise_body *body, const float *p);
#endif
