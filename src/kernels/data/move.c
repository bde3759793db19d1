/* move.c -- see move_priv.h. */
#include "kernels/kernels.h"
#include "kernels/data/move_priv.h"

kern_move kern_move_of(const base_tensor *to, const base_tensor *from) {
  kern_move m = {.to = to->data, .from = from->data, .count = base_tensor_numel(from)};
  for (int32_t i = 0; i < from->rank; i++) {
    if (from->dims[i] == 1) continue;
    int32_t last = m.rank - 1;
    bool merges = m.rank && m.to_step[last] == to->strides[i] * from->dims[i] &&
                  m.from_step[last] == from->strides[i] * from->dims[i];
    if (!merges) last = m.rank++;
    m.dims[last] = merges ? m.dims[last] * from->dims[i] : from->dims[i];
    m.to_step[last] = to->strides[i];
    m.from_step[last] = from->strides[i];
  }
  return m;
}

static base_value merged(void *data, td_dtype dtype, const kern_move *m, const int64_t *step) {
  base_value v = {.kind = BASE_TENSOR, .tensor = {.data = data, .dtype = dtype, .rank = m->rank}};
  for (int32_t i = 0; i < m->rank; i++) {
    v.tensor.dims[i] = m->dims[i];
    v.tensor.strides[i] = step[i];
  }
  return v;
}

td_status kern_move_now(const base_call *call, const base_tensor *to, const base_tensor *from) {
  const kern_move m = kern_move_of(to, from);
  base_value source = merged(from->data, from->dtype, &m, m.from_step),
             target = merged(to->data, to->dtype, &m, m.to_step);
  const base_value *const in = &source;
  base_value *const out = &target;
  const base_call one = {.attrs = call->attrs,
                         .in = &in,
                         .out = &out,
                         .in_count = 1,
                         .out_count = 1,
                         .err = call->err,
                         .memory = call->memory,
                         .keep = call->keep,
                         .scratch = call->scratch};
  return m.count ? kern_copy_any(&one) : TD_OK;
}
