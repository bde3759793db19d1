/* probe.c -- KERN_PROBE_PEAK, KERN_PROBE_READ, KERN_PROBE_COPY: loops that do nothing but what a core can do at most.
 *
 * Chains of dependent multiply-adds keep every unit busy when there are at least latency x units of them: 12 suffice
 * for all CPUs with AVX2 (4 or 5 cycles, 2 units). A wide vector that the compiler splits takes more registers: 3
 * chains then fill what there is. */
#include "kernels/simd/simd_priv.h"

enum { CHAINS = V_NATIVE || V_LANES == 1 ? 12 : 3 };
enum { STEPS = 8, STREAMS = 8 };

/* in[0]: f32[2 + CHAINS at least], a factor, an addend, where the chains start; in[1]: i64[1], rounds. out[0]: f32[1],
 * what comes out; out[1]: f64[1], the number of floating-point operations. */
td_status KERN_NAME(probe_peak)(const base_call *call) {
  const float *start = base_in(call, 0)->data;
  const int64_t rounds = *(const int64_t *)base_in(call, 1)->data;
  const vf factor = v_set(start[0]), addend = v_set(start[1]);
  vf chain[CHAINS];
  V_UNROLL
  for (int i = 0; i < CHAINS; i++) chain[i] = v_set(start[2 + i]);
  for (int64_t round = 0; round < rounds; round++) {
    V_UNROLL
    for (int step = 0; step < STEPS; step++) {
      V_UNROLL
      for (int i = 0; i < CHAINS; i++) chain[i] = v_fma(chain[i], factor, addend);
    }
  }
  V_UNROLL
  for (int i = 1; i < CHAINS; i++) chain[0] = v_add(chain[0], chain[i]);
  *(float *)base_out(call, 0)->data = v_sum(chain[0]);
  *(double *)base_out(call, 1)->data = 2.0 * (double)rounds * STEPS * CHAINS * V_LANES;
  return TD_OK;
}

/* in[0]: f32[n], of which the last elements that fill no STREAMS vectors are left out; out[0]: f32[1], the sum. */
td_status KERN_NAME(probe_read)(const base_call *call) {
  const float *from = base_in(call, 0)->data;
  const int64_t count = base_tensor_numel(base_in(call, 0)) / (STREAMS * V_LANES);
  vf sum[STREAMS];
  V_UNROLL
  for (int i = 0; i < STREAMS; i++) sum[i] = v_zero();
  for (int64_t k = 0; k < count; k++, from += STREAMS * V_LANES) {
    V_UNROLL
    for (int i = 0; i < STREAMS; i++) sum[i] = v_add(sum[i], v_load(from + i * V_LANES));
  }
  V_UNROLL
  for (int i = 1; i < STREAMS; i++) sum[0] = v_add(sum[0], sum[i]);
  *(float *)base_out(call, 0)->data = v_sum(sum[0]);
  return TD_OK;
}

/* in[0]: f32[n] to out[0]: f32[n], but for the last elements that fill no STREAMS vectors. */
td_status KERN_NAME(probe_copy)(const base_call *call) {
  const float *from = base_in(call, 0)->data;
  float *to = base_out(call, 0)->data;
  const int64_t count = base_tensor_numel(base_in(call, 0)) / (STREAMS * V_LANES);
  for (int64_t k = 0; k < count; k++, from += STREAMS * V_LANES, to += STREAMS * V_LANES) {
    V_UNROLL
    for (int i = 0; i < STREAMS; i++) v_store(to + i * V_LANES, v_load(from + i * V_LANES));
  }
  return TD_OK;
}
