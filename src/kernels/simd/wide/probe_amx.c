/* probe_amx.c -- KERN_PROBE_PEAK on 8 and 16 bits: products of whole tiles alone, of zeros, in four chains (probe.c).
 */
#include "kernels/simd/amx_priv.h"

enum { STEPS = 8, SUMS = 4, PEAK_WORDS = AMX_BYTES / 4 };

#define PEAK(DOT)                                \
  for (int64_t i = 0; i < rounds * STEPS; i++) { \
    DOT(0, 4, 6);                                \
    DOT(1, 4, 7);                                \
    DOT(2, 5, 6);                                \
    DOT(3, 5, 7);                                \
  }

/* `depth`: elements of a word. */
V_TEMPLATE void probe(const base_call *call, const int depth) {
  const int64_t rounds = *(const int64_t *)base_in(call, 1)->data;
  amx_begin(2 * AMX_ROWS, PEAK_WORDS);
  AMX_ZERO(4);
  AMX_ZERO(5);
  AMX_ZERO(6);
  AMX_ZERO(7);
  if (depth == 2) PEAK(AMX_DOT_BF16)
  else PEAK(AMX_DOT_U8)
  amx_end();
  *(float *)base_out(call, 0)->data = 0;
  *(double *)base_out(call, 1)->data =
      2.0 * (double)rounds * STEPS * SUMS * AMX_ROWS * AMX_COLUMNS * PEAK_WORDS * depth;
}

td_status KERN_PART_NAME(probe_peak_i8_amx)(const base_call *call) {
  probe(call, 4);
  return TD_OK;
}

td_status KERN_PART_NAME(probe_peak_bf16_amx)(const base_call *call) {
  probe(call, 2);
  return TD_OK;
}
