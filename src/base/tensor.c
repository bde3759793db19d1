/* tensor.c -- strides, walks and copies of tensors of any strides. */
#include "base/tensor.h"
#include "base/size.h"

#include <stdio.h>
#include <string.h>

int64_t base_tensor_numel(const base_tensor *t) {
  uint64_t n = 1; /* may wrap where another dimension is 0 */
  for (int32_t i = 0; i < t->rank; i++) n *= (uint64_t)t->dims[i];
  return (int64_t)n;
}

size_t base_tensor_bytes(const base_tensor *t) {
  size_t bytes = 0;
  base_dtype_bytes(t->dtype, base_tensor_numel(t), &bytes);
  return bytes;
}

bool base_tensor_contiguous(const base_tensor *t) {
  int64_t expected = 1;
  for (int32_t i = t->rank; i-- > 0;) {
    if (t->dims[i] == 0) return true;
    if (t->dims[i] != 1 && t->strides[i] != expected) return false;
    if (!base_mul_i64(expected, t->dims[i], &expected)) expected = 0; /* only where there are no elements */
  }
  return true;
}

void base_strides(int32_t rank, const int64_t *dims, int64_t *strides) {
  int64_t stride = 1;
  for (int32_t i = rank; i-- > 0;) {
    strides[i] = stride;
    if (!base_mul_i64(stride, dims[i] > 0 ? dims[i] : 1, &stride)) stride = 0; /* only where there are no elements */
  }
}

base_tensor base_tensor_of(void *data, td_dtype dtype, int32_t rank, const int64_t *dims) {
  base_tensor t = {.data = data, .dtype = dtype, .rank = rank};
  if (rank) memcpy(t.dims, dims, (size_t)rank * sizeof *dims);
  base_strides(rank, t.dims, t.strides);
  return t;
}

static void walk_set(base_walk *w, int32_t rank, const int64_t *dims, int32_t tensors, const int64_t *const *strides) {
  *w = (base_walk){.rank = rank, .tensors = tensors, .count = 1};
  for (int32_t d = 0; d < rank; d++) {
    w->dims[d] = dims[d];
    w->count *= dims[d];
    for (int32_t k = 0; k < tensors; k++) w->strides[k][d] = strides[k][d];
  }
}

void base_walk_start(base_walk *w, int32_t rank, const int64_t *dims, int32_t tensors, const int64_t *const *strides) {
  walk_set(w, rank, dims, tensors, strides);
}

void base_walk_rows(base_walk *w, int32_t rank, const int64_t *dims, int32_t tensors, const int64_t *const *strides,
                    int64_t *length, int64_t *step) {
  int32_t outer = rank ? rank - 1 : 0;
  *length = rank ? dims[outer] : 1;
  for (int32_t k = 0; k < tensors; k++) step[k] = rank ? strides[k][outer] : 0;
  walk_set(w, outer, dims, tensors, strides);
  if (*length == 0) w->count = 0;
}

bool base_walk_next(base_walk *w) {
  for (int32_t d = w->rank; d-- > 0;) {
    if (++w->index[d] < w->dims[d]) {
      for (int32_t k = 0; k < w->tensors; k++) w->offset[k] += w->strides[k][d];
      return true;
    }
    w->index[d] = 0;
    for (int32_t k = 0; k < w->tensors; k++) w->offset[k] -= w->strides[k][d] * (w->dims[d] - 1);
  }
  return false;
}

/* One row of equal-size elements; the common sizes get their own loop so that the compiler can vectorise it. */
static void copy_row(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count, size_t size) {
  if (to_step == 1 && from_step == 1) {
    memcpy(to, from, (size_t)count * size);
    return;
  }
  if (size == 4) {
    for (int64_t i = 0; i < count; i++) ((base_u32 *)to)[i * to_step] = ((const base_u32 *)from)[i * from_step];
    return;
  }
  for (int64_t i = 0; i < count; i++)
    memcpy(to + i * to_step * (int64_t)size, from + i * from_step * (int64_t)size, size);
}

void base_tensor_copy(const base_tensor *to, const base_tensor *from) {
  size_t bits = base_dtype(from->dtype)->bits;
  if (bits < 8 || (base_tensor_contiguous(to) && base_tensor_contiguous(from))) {
    size_t bytes = base_tensor_bytes(from);
    if (bytes) memmove(to->data, from->data, bytes);
    return;
  }
  base_walk w;
  int64_t length, step[2];
  const int64_t *strides[] = {to->strides, from->strides};
  base_walk_rows(&w, from->rank, from->dims, 2, strides, &length, step);
  if (!w.count) return;
  size_t size = bits / 8;
  do {
    copy_row((char *)to->data + w.offset[0] * (int64_t)size, step[0],
             (const char *)from->data + w.offset[1] * (int64_t)size, step[1], length, size);
  } while (base_walk_next(&w));
}

void base_tensor_pack(void *to, const base_tensor *from) {
  base_tensor dense = base_tensor_of(to, from->dtype, from->rank, from->dims);
  base_tensor_copy(&dense, from);
}

char *base_tensor_describe(const base_tensor *t, char *text, size_t size) {
  int n = snprintf(text, size, "%s[", td_dtype_name(t->dtype));
  for (int32_t i = 0; i < t->rank && n > 0 && (size_t)n < size; i++)
    n += snprintf(text + n, size - (size_t)n, "%s%lld", i ? "," : "", (long long)t->dims[i]);
  if (n > 0 && (size_t)n < size) snprintf(text + n, size - (size_t)n, "]");
  return text;
}

bool base_tensor_pitched(const base_tensor *t) {
  int64_t expected = 0;
  if (t->rank < 2 || (t->dims[t->rank - 1] != 1 && t->strides[t->rank - 1] != 1)) return false;
  for (int32_t i = t->rank - 1; i-- > 0;) {
    if (t->dims[i] == 1) continue;
    if (expected && t->strides[i] != expected) return false;
    if (t->strides[i] <= 0 || !base_mul_i64(t->strides[i], t->dims[i], &expected)) return false;
  }
  return true;
}
