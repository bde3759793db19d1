/* copy.c -- KERN_COPY, of 32 bits where there are no vectors (else data/wide/move.c), and not of bytes (copy_bytes.c):
 * rows along the last dimension, in loops per element size so that the compiler vectorises them. */
#include "kernels/kernels_priv.h"

#include <string.h>

/* `length` elements; steps count elements. */
typedef void (*copy_row)(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t length);

#define COPY_ROW(bits, type)                                                                               \
  static void row_##bits(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t length) { \
    type *y = (type *)(void *)to;                                                                          \
    const type *x = (const type *)(const void *)from;                                                      \
    if (to_step == 1 && from_step == 1) memcpy(to, from, (size_t)length * sizeof(type));                   \
    else                                                                                                   \
      for (int64_t i = 0; i < length; i++) y[i * to_step] = x[i * from_step];                              \
  }

/* Any alignment, as the integers of dtype.h. */
COPY_ROW(16, base_u16)
COPY_ROW(32, base_u32)
COPY_ROW(64, base_u64)
COPY_ROW(128, base_u128)

enum { SHORT_ROW = 16 };

/* A last axis that is short, the colours of a picture, in front of the others: rows are long then. */
static void order_axes(base_tensor *t, bool moves) {
  const int32_t last = t->rank - 1;
  if (!moves) return;
  const int64_t dim = t->dims[last], stride = t->strides[last];
  for (int32_t i = last; i > 0; i--) t->dims[i] = t->dims[i - 1], t->strides[i] = t->strides[i - 1];
  t->dims[0] = dim;
  t->strides[0] = stride;
}

static td_status copy(const base_call *call, int64_t bytes, copy_row row) {
  base_tensor source = *base_in(call, 0), result = *base_out(call, 0);
  const base_tensor *from = &source, *to = &result;
  int64_t length, step[2];
  base_walk w;
  if (base_tensor_contiguous(to) && base_tensor_contiguous(from)) {
    int64_t count = base_tensor_numel(from);
    if (count) row(to->data, 1, from->data, 1, count);
    return TD_OK;
  }
  const bool moves = from->rank > 1 && from->dims[from->rank - 1] < SHORT_ROW;
  order_axes(&source, moves);
  order_axes(&result, moves);
  base_walk_rows(&w, from->rank, from->dims, 2, (const int64_t *[]){to->strides, from->strides}, &length, step);
  if (w.count == 0) return TD_OK;
  do
    row((char *)to->data + w.offset[0] * bytes, step[0], (const char *)from->data + w.offset[1] * bytes, step[1],
        length);
  while (base_walk_next(&w));
  return TD_OK;
}

td_status kern_copy_16(const base_call *call) { return copy(call, 2, row_16); }
td_status kern_copy_32(const base_call *call) { return copy(call, 4, row_32); }
td_status kern_copy_64(const base_call *call) { return copy(call, 8, row_64); }
td_status kern_copy_128(const base_call *call) { return copy(call, 16, row_128); }

/* Tensors of packed elements are contiguous. */
td_status kern_copy_packed(const base_call *call) {
  size_t bytes = base_tensor_bytes(base_in(call, 0));
  if (bytes) memcpy(base_out(call, 0)->data, base_in(call, 0)->data, bytes);
  return TD_OK;
}

/* Where no kernel is named, and where the type is not known before the run: one that any CPU runs. */
td_status kern_copy_any(const base_call *call) {
  const kern_row *row = kern_select(KERN_COPY, base_in(call, 0)->dtype, 0);
  return row ? row->run(call) : base_fail(call->err, TD_INTERNAL, NULL, -1, "there is no kernel to copy this type");
}

td_status kern_copy_check(const base_call *call) {
  const base_tensor *from = base_in(call, 0), *to = base_out(call, 0);
  bool same = from && to && from->dtype == to->dtype && from->rank == to->rank;
  for (int32_t i = 0; same && i < from->rank; i++) same = from->dims[i] == to->dims[i];
  return same ? TD_OK : base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "a copy has another size than was planned");
}

td_status kern_copy_tail(const base_call *call) {
  const base_value *from = call->in[0];
  if (from->kind != BASE_TENSOR) {
    *call->out[0] = *from; /* lists and nothing: immutable, in the tail already */
    return TD_OK;
  }
  TRY(base_call_define(call, 0, from->tensor.dtype, from->tensor.rank, from->tensor.dims));
  return kern_copy_any(call);
}

void kern_copy_work(const base_call *call, double *flops, double *bytes) {
  const base_tensor *from = base_in(call, 0);
  *flops = 0;
  *bytes = from ? 2.0 * (double)base_tensor_bytes(from) : 0;
}
