/* call.c -- what a reference asks of its caller: outputs of sizes it has found out, and scratch. */
#include "base/call.h"
#include "base/size.h"

td_status base_call_define(const base_call *call, uint32_t output, td_dtype dtype, int32_t rank, const int64_t *dims) {
  if (output >= call->out_count || !call->out[output]) return TD_OK;
  int64_t count;
  size_t bytes;
  if (rank < 0 || rank > BASE_MAX_RANK)
    return base_fail(call->err, TD_UNSUPPORTED, NULL, -1, "an output of rank %d; at most %d is supported", rank,
                     BASE_MAX_RANK);
  if (!base_numel(rank, dims, &count) || !base_dtype_bytes(dtype, count, &bytes))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "the size of output %u overflows", output);
  void *data = call->keep(call->memory, bytes ? bytes : 1);
  if (!data) return base_no_memory(call->err, "an output whose size depends on data");
  *call->out[output] = (base_value){.kind = BASE_TENSOR, .tensor = base_tensor_of(data, dtype, rank, dims)};
  return TD_OK;
}

void *base_call_scratch(const base_call *call, size_t count, size_t each) {
  size_t bytes;
  if (!base_mul(count, each, &bytes)) return NULL;
  return call->scratch(call->memory, bytes ? bytes : 1);
}
