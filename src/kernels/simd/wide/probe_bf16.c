/* probe_bf16.c -- KERN_PROBE_PEAK on 16 bits: products of pairs alone (probe.c). */
#include "kernels/simd/pairs_priv.h"

enum { CHAINS = V_NATIVE ? 12 : 3, STEPS = 8 };

td_status KERN_PART_NAME(probe_peak_bf16)(const base_call *call) {
  const float *start = base_in(call, 0)->data;
  const int64_t rounds = *(const int64_t *)base_in(call, 1)->data;
  const vf x = v_set(start[0]), w = v_zero();
  vf chain[CHAINS];
  V_FOR(i, CHAINS) chain[i] = v_set(start[2 + i]);
  for (int64_t round = 0; round < rounds; round++) V_FOR(step, STEPS) V_FOR(i, CHAINS) chain[i] = p_dot(chain[i], x, w);
  V_FOR(i, CHAINS - 1) chain[0] = v_add(chain[0], chain[i + 1]);
  *(float *)base_out(call, 0)->data = v_sum(chain[0]);
  *(double *)base_out(call, 1)->data = 2.0 * (double)rounds * STEPS * CHAINS * V_LANES * 2;
  return TD_OK;
}
