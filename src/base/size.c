/* size.c -- checked sizes. */
#include "base/size.h"

bool base_numel(int32_t rank, const int64_t *dims, int64_t *result) {
  int64_t product = 1;
  bool empty = false;
  for (int32_t i = 0; i < rank; i++) {
    if (dims[i] < 0) return false;
    if (dims[i] == 0) empty = true;
    else if (!base_mul_i64(product, dims[i], &product)) return false;
  }
  *result = empty ? 0 : product;
  return true;
}
