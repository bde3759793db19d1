/* order.h -- f32 put in order as whole numbers. A key holds the value in its upper half and the place in its lower one,
 * so that the least key comes first, and of equal values the first. NaN counts as the largest value, and -0 equals 0.
 */
#ifndef KERNELS_ORDER_H
#define KERNELS_ORDER_H
#include "kernels/attrs.h"
#include "base/base.h"

#include <string.h>

static inline uint64_t kern_order_key(float value, uint32_t place, bool largest) {
  uint32_t bits;
  value += 0.0f; /* -0 becomes 0 */
  memcpy(&bits, &value, sizeof bits);
  bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  if (value != value) bits = UINT32_MAX;
  return (uint64_t)(largest ? ~bits : bits) << 32 | place;
}
static inline uint32_t kern_order_place(uint64_t key) { return (uint32_t)key; }

/* Keys whose places rise, by their values; `spare` has room for as many. */
void kern_order_sort(uint64_t *keys, uint64_t *spare, int64_t count);
#endif
