/* call.c -- what a function asks of its caller: outputs of sizes it has found out, scratch, and tasks. */
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

enum { JOB_SHIFT = 40 }; /* of a lane's word: the job above, tasks taken below */

/* The next of `count` tasks of a lane; `count` when all are taken. What an older job has left there counts for nothing,
 * so that nobody needs to clear the lanes between two jobs. */
static int64_t take_from(base_lane *lane, uint64_t job, int64_t count) {
  uint64_t word = atomic_load_explicit(&lane->word, memory_order_relaxed), taken;
  do {
    taken = word >> JOB_SHIFT == job ? word & (((uint64_t)1 << JOB_SHIFT) - 1) : 0;
    if ((int64_t)taken >= count) return count;
  } while (!atomic_compare_exchange_weak_explicit(&lane->word, &word, (job << JOB_SHIFT) + taken + 1,
                                                  memory_order_relaxed, memory_order_relaxed));
  return (int64_t)taken;
}

int64_t base_call_take(const base_call *call, int64_t total) {
  const int64_t each = total / call->workers, more = total % call->workers; /* the first `more` ranges have one more */
  uint32_t lane = call->worker;
  for (uint32_t i = 0; i < call->workers; i++) {
    const int64_t first = lane * each + (lane < more ? lane : more), count = each + (lane < more);
    const int64_t taken = take_from(&call->lanes[lane], call->job, count);
    if (taken < count) return first + taken;
    if (++lane == call->workers) lane = 0;
  }
  return total;
}
