/* kernels.h -- families of kernels and how one is chosen: the one header of this room. */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H
#include "base/base.h"

typedef enum kern_family {
  /* out[0] = in[0] element by element: equal dtype and dims, any strides on both sides, any alignment; an operand of
   * strides 0 fills. They must not overlap. */
  KERN_COPY,
  KERN_FAMILY_COUNT
} kern_family;

typedef struct kern_row {
  const char *name; /* of the function, for plans and profiles */
  kern_family family;
  uint32_t bits; /* per element */
  uint32_t isa;  /* BASE_ISA_* that the machine must have, all of them */
  base_call_fn run;
} kern_row;

/* The last row of `table` for the family and element size whose needs lie in `isa`; NULL: none. */
const kern_row *kern_select_from(const kern_row *table, uint32_t count, kern_family family, uint32_t bits,
                                 uint32_t isa);
/* The same from the rows of kernels.def. Not NULL for any dtype but TD_INVALID. */
const kern_row *kern_select(kern_family family, td_dtype dtype, uint32_t isa);
/* All rows; *count of them. */
const kern_row *kern_rows(uint32_t *count);
#endif
