/* bytes.c -- checks that several readers share. */
#include "fmt/bytes_priv.h"

bool fmt_tensor_size(td_dtype dtype, int32_t rank, const int64_t *dims, int64_t *elements, size_t *bytes) {
  int64_t span = 1, bits;
  bool empty = false;
  for (int32_t i = 0; i < rank; i++) {
    if (dims[i] < 0 || !base_mul_i64(span, dims[i] ? dims[i] : 1, &span)) return false;
    empty |= dims[i] == 0;
  }
  int64_t each = dtype == TD_STRING ? 8 * (int64_t)sizeof(base_str) : base_dtype(dtype)->bits;
  if (!base_mul_i64(span, each, &bits)) return false;
  *elements = empty ? 0 : span;
  *bytes = empty ? 0 : (size_t)(bits / 8 + (bits % 8 != 0));
  return true;
}

void *fmt_bools(base_arena *arena, const void *data, size_t count) {
  const uint8_t *from = data;
  size_t i = 0;
  while (i < count && from[i] <= 1) i++;
  if (i == count) return fmt_view(data);
  uint8_t *to = base_arena_alloc(arena, count);
  if (!to) return NULL;
  for (i = 0; i < count; i++) to[i] = from[i] != 0;
  return to;
}
