/* size.h -- checked arithmetic on sizes that come from files. Each returns false on overflow (or, where said, on a
 * negative operand) and then leaves *result unspecified. */
#ifndef BASE_SIZE_H
#define BASE_SIZE_H
#include "base/error.h"

static inline bool base_mul(size_t a, size_t b, size_t *result) { return !__builtin_mul_overflow(a, b, result); }
static inline bool base_add(size_t a, size_t b, size_t *result) { return !__builtin_add_overflow(a, b, result); }
static inline bool base_mul_i64(int64_t a, int64_t b, int64_t *result) { return !__builtin_mul_overflow(a, b, result); }
static inline bool base_add_i64(int64_t a, int64_t b, int64_t *result) { return !__builtin_add_overflow(a, b, result); }

/* Product of dims; false on overflow or a negative dim. A rank of 0 gives 1. */
bool base_numel(int32_t rank, const int64_t *dims, int64_t *result);
/* True when [offset, offset + bytes) lies inside `size` bytes. */
static inline bool base_in_range(uint64_t offset, uint64_t bytes, uint64_t size) {
  return offset <= size && bytes <= size - offset;
}
static inline size_t base_max_size(size_t a, size_t b) { return a > b ? a : b; }
static inline int64_t base_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t base_max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
/* a / b, rounded up; b > 0, and a + b within int64_t. */
static inline int64_t base_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
/* a / b of numbers from 0 on. A division of 64 bits takes 40 cycles and more, and a is mostly the smaller one. */
static inline int64_t base_quotient(int64_t a, int64_t b) { return a < b ? 0 : b == 1 ? a : a / b; }
#endif
