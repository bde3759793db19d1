/* pairs_amx.c -- KERN_REFLECTION_PAD, KERN_REPLICATION_PAD and KERN_RESIZE of bf16 between products by tiles of AMX:
 * two neighbours along the last axis, which stays as it is, move as one number of 32 bits. */
#include "kernels/data/data.h"
#include "kernels/simd/simd_priv.h"

enum { OPERANDS = 4 };

static base_value pairs_of(const base_value *v) {
  base_value pairs = *v;
  base_tensor *t = &pairs.tensor;
  t->dtype = TD_F32;
  t->dims[t->rank - 1] /= 2;
  for (int32_t i = 0; i + 1 < t->rank; i++) t->strides[i] /= 2;
  return pairs;
}

static td_status move(const base_call *call, base_call_fn of_words) {
  base_value x = pairs_of(call->in[0]), y = pairs_of(call->out[0]), *out[] = {&y};
  const base_value *in[OPERANDS] = {&x};
  base_call pairs = *call;
  pairs.in_count = call->in_count < OPERANDS ? call->in_count : OPERANDS;
  for (uint32_t i = 1; i < pairs.in_count; i++) in[i] = call->in[i];
  pairs.in = in;
  pairs.out = out;
  return of_words(&pairs);
}

td_status KERN_PART_NAME(reflection_pad_bf16_amx)(const base_call *call) {
  return move(call, KERN_NAME(reflection_pad));
}
td_status KERN_PART_NAME(replication_pad_bf16_amx)(const base_call *call) {
  return move(call, KERN_NAME(replication_pad));
}
td_status KERN_PART_NAME(resize_bf16_amx)(const base_call *call) { return move(call, KERN_NAME(resize)); }
