/* probe_i8.c -- KERN_PROBE_PEAK on 8 bits: dot instructions alone (probe.c). */
#include "kernels/simd/bytes_priv.h"

enum { CHAINS = 10, STEPS = 3 };

td_status KERN_PART_NAME(probe_peak_i8)(const base_call *call) {
  const int64_t rounds = *(const int64_t *)base_in(call, 1)->data;
  vi chain[CHAINS], x = vi_set(0x01010101), w = x;
  V_FOR(i, CHAINS) chain[i] = vi_set(i);
  for (int64_t round = 0; round < rounds; round++) V_FOR(i, STEPS * CHAINS) {
      b_opaque(x); /* else levels that take two instructions would take one of them once */
      chain[i % CHAINS] = b_dot(chain[i % CHAINS], x, w);
    }
  V_FOR(i, CHAINS - 1) chain[0] = vi_add(chain[0], chain[i + 1]);
  int32_t lanes[V_LANES];
  b_store_i32(lanes, chain[0]);
  *(float *)base_out(call, 0)->data = (float)lanes[0];
  *(double *)base_out(call, 1)->data = 2.0 * (double)rounds * STEPS * CHAINS * V_LANES * BYTES_DEPTH;
  return TD_OK;
}
