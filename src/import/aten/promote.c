/* promote.c -- which dtype operands meet in: PyTorch's result_type. Tensors with dimensions come first, then tensors of
 * rank 0, then numbers; a later group only counts when its category (bool, integer, float) is higher. */
#include "import/aten/aten_priv.h"

/* 0 bool, 1 integer, 2 float */
static int category(td_dtype d) { return d == TD_BOOL ? 0 : base_is_float(d) ? 2 : 1; }

static td_dtype signed_of(int bits) { return bits <= 8 ? TD_I8 : bits <= 16 ? TD_I16 : bits <= 32 ? TD_I32 : TD_I64; }

td_dtype aten_promote_types(td_dtype x, td_dtype y) {
  if (x == y || y == TD_INVALID) return x;
  if (x == TD_INVALID) return y;
  int cx = category(x), cy = category(y);
  if (cx != cy) return cx > cy ? x : y;
  const base_dtype_info *ix = base_dtype(x), *iy = base_dtype(y);
  if (cx == 2) {
    if (ix->bits != iy->bits) return ix->bits > iy->bits ? x : y;
    return TD_F32; /* f16 and bf16 */
  }
  if (ix->is_signed == iy->is_signed) return ix->bits >= iy->bits ? x : y;
  int unsigned_bits = ix->is_signed ? iy->bits : ix->bits, signed_bits = ix->is_signed ? ix->bits : iy->bits;
  return signed_of(unsigned_bits >= signed_bits ? unsigned_bits * 2 : signed_bits);
}

void aten_mix_tensor(aten *a, aten_mix *m, ir_value v) {
  const ir_type *type = ir_build_type(a->b, v);
  td_dtype *slot = type->rank == 0 ? &m->zero : &m->dims;
  *slot = aten_promote_types(*slot, type->dtype);
}

void aten_mix_value(aten *a, aten_mix *m, const aten_value *v) {
  if (v->kind == ATEN_TENSOR && v->u.tensor->number) v = v->u.tensor->number;
  if (v->kind == ATEN_TENSOR) aten_mix_tensor(a, m, aten_read(a, v));
  else if (v->kind != ATEN_NONE)
    m->wrapped = aten_promote_types(m->wrapped, v->kind == ATEN_FLOAT  ? TD_F32
                                                : v->kind == ATEN_BOOL ? TD_BOOL
                                                                       : TD_I64);
}

static td_dtype combine(td_dtype higher, td_dtype lower) {
  if (higher == TD_INVALID || lower == TD_INVALID) return higher == TD_INVALID ? lower : higher;
  if (base_is_float(higher)) return higher;
  if (higher == TD_BOOL || base_is_float(lower)) return aten_promote_types(higher, lower);
  return higher;
}

td_dtype aten_mix_result(const aten_mix *m) { return combine(m->dims, combine(m->zero, m->wrapped)); }

ir_value aten_as(aten *a, const aten_value *v, td_dtype dtype) {
  if (v->kind == ATEN_TENSOR && v->u.tensor->number) v = v->u.tensor->number;
  if (aten_is_complex(v)) ir_build_fail(a->b, TD_UNSUPPORTED, "complex tensors are not supported here");
  return v->kind == ATEN_TENSOR ? ir_build_cast(a->b, aten_read(a, v), dtype) : aten_number_value(a, v, dtype);
}
