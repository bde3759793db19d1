/* pad.h -- borders around a tensor, as kernels and references read them: a table per axis says from which input
 * position each output position comes, or that it is outside. Negative pads crop. */
#ifndef KERNELS_PAD_H
#define KERNELS_PAD_H
#include "base/base.h"

/* What an operator puts around: operands (x, pads, value?, axes?) or (x, pads, axes?). */
typedef struct kern_pad {
  const char *op;
  uint32_t axes; /* operand that names the axes; absent: all */
  /* Input position of `at` (outside of [0, size), size > 0), or -1 for the constant; NULL: always the constant. */
  int64_t (*map)(int64_t at, int64_t size);
} kern_pad;
extern const kern_pad kern_pad_constant, kern_pad_reflection, kern_pad_replication, kern_pad_circular;
enum { KERN_PAD_X, KERN_PAD_PADS, KERN_PAD_VALUE };

/* Checks that pads, axes, x and out[0] fit; table[d] (in scratch) has out's dims[d] input positions along axis d, -1
 * outside; those in [first[d], last[d]) are neighbours, as they lie in x. */
typedef struct kern_pad_tables {
  int64_t *table[BASE_MAX_RANK], first[BASE_MAX_RANK], last[BASE_MAX_RANK];
} kern_pad_tables;
td_status kern_pad_read(const base_call *call, const kern_pad *pad, kern_pad_tables *t);
#endif
