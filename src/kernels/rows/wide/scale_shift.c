/* scale_shift.c -- KERN_SCALE_SHIFT of td::scale_shift: y = act(x * scale + shift), scale and shift along the last
 * dimension; rows of x may have a pitch. */
#include "kernels/simd/wide/rows_priv.h"

V_INLINE void rows_as(float *to, const float *from, int64_t pitch, int64_t rows, int64_t n, const float *scale,
                      const float *shift, bool relu) {
  for (int64_t r = 0; r < rows; r++, to += n, from += pitch) {
    int64_t i = 0;
    for (; i + V_LANES <= n; i += V_LANES) {
      vf y = v_fma(v_load(from + i), v_load(scale + i), v_load(shift + i));
      v_store(to + i, relu ? v_relu(y) : y);
    }
    if (i < n) {
      vf y = v_fma(v_load_n(from + i, n - i), v_load_n(scale + i, n - i), v_load_n(shift + i, n - i));
      v_store_n(to + i, relu ? v_relu(y) : y, n - i);
    }
  }
}

td_status KERN_NAME(scale_shift)(const base_call *call) {
  const base_tensor *x = base_in(call, 0);
  const float *scale = base_in(call, 1)->data, *shift = base_in(call, 2)->data;
  int64_t count = base_tensor_numel(x), length = x->dims[x->rank - 1], pitch = kern_pitch(x), each;
  if (count == 0) return TD_OK;
  int64_t rows = count / length;
  bool relu = kern_act_find(base_attr_str(call->attrs, KERN_SCALE_SHIFT_ACT)) == KERN_ACT_relu;
  uint32_t total = row_tasks(rows, length, call->workers, &each);
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total)) {
    int64_t first = task * each, n = base_min_i64(each, rows - first);
    float *to = (float *)base_out(call, 0)->data + first * length;
    const float *from = (const float *)x->data + first * pitch;
    if (relu) rows_as(to, from, pitch, n, length, scale, shift, true);
    else rows_as(to, from, pitch, n, length, scale, shift, false);
  }
  return TD_OK;
}
