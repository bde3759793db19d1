/* matrix.c -- functions of the last two dimensions: determinant and triangles.
 *
 *     aten::linalg_det  the determinant, as the product of the pivots of elimination (ONNX Det 11)
 *     aten::tril, triu  y[i, j] = x[i, j] where j - i <= diagonal, >= diagonal; else 0 (ONNX Trilu 14) */
#include "ops/common/ops_priv.h"

#include <math.h>
#include <string.h>

/* ---- aten::linalg_det over the last two dimensions: elimination with partial pivoting ---- */

static double determinant(double *m, int64_t n) {
  double det = 1;
  for (int64_t c = 0; c < n; c++) {
    int64_t pivot = c;
    for (int64_t r = c + 1; r < n; r++)
      if (fabs(m[r * n + c]) > fabs(m[pivot * n + c])) pivot = r;
    if (m[pivot * n + c] == 0) return 0;
    for (int64_t k = 0; pivot != c && k < n; k++) {
      double t = m[c * n + k];
      m[c * n + k] = m[pivot * n + k];
      m[pivot * n + k] = t;
    }
    det *= pivot == c ? m[c * n + c] : -m[c * n + c];
    for (int64_t r = c + 1; r < n; r++) {
      double factor = m[r * n + c] / m[c * n + c];
      for (int64_t k = c; k < n; k++) m[r * n + k] -= factor * m[c * n + k];
    }
  }
  return det;
}

static td_status det_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  int64_t n = x->dims[x->rank - 1], batches = base_tensor_numel(out);
  if (x->dims[x->rank - 2] != n)
    return ops_fail(call, "matrices of %lld by %lld are not square", (long long)x->dims[x->rank - 2], (long long)n);
  const void *data = ops_dense(call, 0);
  double *m = base_call_scratch(call, (size_t)(n * n), sizeof *m);
  if (!data || !m) return base_no_memory(call->err, "scratch");
  for (int64_t b = 0; b < batches; b++) {
    for (int64_t k = 0; k < n * n; k++) m[k] = base_load_f64(x->dtype, data, b * n * n + k);
    base_store_f64(out->dtype, out->data, b, determinant(m, n));
  }
  return TD_OK;
}

static td_status infer_det(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type;
  if (!base_is_float(x->dtype))
    return ir_infer_fail(ctx, "operand of %s; a floating-point type is needed", td_dtype_name(x->dtype));
  if (x->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, x->dtype);
  if (x->rank < 2) return ir_infer_fail(ctx, "operand of rank %d; matrices are needed", x->rank);
  return ir_out(ctx, 0, x->dtype, x->rank - 2, x->dims);
}

static double det_flops(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  (void)attrs;
  double n = (double)in[0]->type.dims[in[0]->type.rank - 1], count = n * n * n / 3 * 2;
  for (int32_t i = 0; i < out->type.rank; i++) count *= (double)out->type.dims[i];
  return count;
}

static bool det_cases(ir_case *c, uint32_t number) {
  if (number == 0) return ops_case_in(c, TD_F32, OPS_DIMS(2, 3, 3), OPS_NORMAL, 1);
  if (number == 1) return ops_case_in(c, TD_F64, OPS_DIMS(5, 5), OPS_NORMAL, 2);
  return number == 2 && ops_case_in(c, TD_F32, OPS_DIMS(1, 1), OPS_NORMAL, 3);
}

/* ---- aten::tril, aten::triu (x, diagonal?): zeros above or below a diagonal of the last two dimensions ---- */

static td_status triangle(const base_call *call, bool upper) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  int64_t diagonal = 0, rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1], count = base_tensor_numel(x);
  uint32_t given;
  if (base_in(call, 1)) TRY(ops_read_ints(call, 1, 1, &diagonal, &given));
  diagonal = base_min_i64(base_max_i64(diagonal, -rows), columns);
  size_t size = base_dtype(x->dtype)->bits / 8;
  const char *from = ops_dense(call, 0);
  if (!from) return base_no_memory(call->err, "scratch");
  for (int64_t at = 0; at < count; at += columns) {
    int64_t row = at / columns % rows, edge = row + diagonal + (upper ? 0 : 1); /* first kept (upper) or first zero */
    edge = base_min_i64(base_max_i64(edge, 0), columns);
    char *to = (char *)out->data + (size_t)at * size;
    memmove(to, from + (size_t)at * size, (size_t)columns * size);
    if (upper) memset(to, 0, (size_t)edge * size);
    else memset(to + (size_t)edge * size, 0, (size_t)(columns - edge) * size);
  }
  return TD_OK;
}
static td_status tril_reference(const base_call *call) { return triangle(call, false); }
static td_status triu_reference(const base_call *call) { return triangle(call, true); }

static td_status infer_triangle(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type;
  if (base_dtype(x->dtype)->bits < 8)
    return ir_infer_fail(ctx, "elements of %s are not supported", td_dtype_name(x->dtype));
  if (x->rank != IR_UNRANKED && x->rank < 2)
    return ir_infer_fail(ctx, "operand of rank %d; matrices are needed", x->rank);
  return ops_infer_same(ctx);
}

static bool triangle_cases(ir_case *c, uint32_t number) {
  static const int64_t diagonals[] = {0, 1, -1, 9, -9};
  if (number >= OPS_COUNT(diagonals)) return false;
  return ops_case_in(c, number % 2 ? TD_F32 : TD_I8, OPS_DIMS(2, 3, 5), OPS_NORMAL, number) &&
         ops_case_ints(c, &diagonals[number], 1);
}

static const ir_alias det_aliases[] = {{"onnx", "Det", 11, NULL}};

OPS_DECLARE(matrix);
const ir_op ops_matrix[] = {
    {.id = OPERATOR(aten, linalg_det),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .infer = infer_det,
     .reference = det_reference,
     .flops = det_flops,
     .rtol = 1e-4f,
     .aliases = det_aliases,
     .alias_count = OPS_COUNT(det_aliases)},
    {.id = OPERATOR(aten, tril),
     .min_in = 1,
     .max_in = 2,
     .out_count = 1,
     .infer = infer_triangle,
     .reference = tril_reference},
    {.id = OPERATOR(aten, triu),
     .min_in = 1,
     .max_in = 2,
     .out_count = 1,
     .infer = infer_triangle,
     .reference = triu_reference},
};
OPS_TABLE(matrix);
OPS_CASES(matrix) = {
    {OP_aten_linalg_det, det_cases},
    {OP_aten_tril, triangle_cases},
    {OP_aten_triu, triangle_cases},
    {0},
};
