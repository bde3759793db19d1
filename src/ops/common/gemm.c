/* gemm.c -- C += A B for floats, doubles and integers: one body, three element types. */
#include "ops/common/gemm_priv.h"

#define GEMM_T float
#define GEMM_U base_f32
#define GEMM(name) name##_f32
#include "ops/common/gemm_body_priv.h"
#undef GEMM_T
#undef GEMM_U
#undef GEMM
#define GEMM_T double
#define GEMM_U base_f64
#define GEMM(name) name##_f64
#include "ops/common/gemm_body_priv.h"
#undef GEMM_T
#undef GEMM_U
#undef GEMM
#define GEMM_T uint64_t
#define GEMM_U base_u64
#define GEMM(name) name##_u64
#include "ops/common/gemm_body_priv.h"

bool ops_typed(const base_call *call, uint32_t i, td_dtype dtype, base_tensor *t) {
  const base_tensor *own = base_in(call, i);
  *t = *own;
  if (own->dtype == dtype) return true;
  void *packed = base_tensor_contiguous(own) ? own->data : NULL;
  int64_t count = base_tensor_numel(own);
  if (!packed) {
    packed = base_call_scratch(call, (size_t)count, base_dtype(own->dtype)->bits / 8);
    if (!packed) return false;
    base_tensor_pack(packed, own);
  }
  void *to = base_call_scratch(call, (size_t)count, base_dtype(dtype)->bits / 8);
  if (!to) return false;
  base_convert(dtype, to, own->dtype, packed, count, false);
  *t = base_tensor_of(to, dtype, own->rank, own->dims);
  return true;
}

td_dtype ops_sum_dtype(td_dtype dtype) {
  if (!base_is_float(dtype)) return TD_I64;
  return dtype == TD_F64 ? TD_F64 : TD_F32;
}
