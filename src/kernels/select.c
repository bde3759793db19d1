/* select.c -- the table of kernels, and the choice among them. */
#include "kernels/kernels.h"

#define KERNEL(family, bits, isa, function) td_status function(const base_call *call);
#include "kernels/kernels.def"
#undef KERNEL

#define KERNEL(family, bits, isa, function) {#function, family, bits, isa, function},
static const kern_row rows[] = {
#include "kernels/kernels.def"
};
#undef KERNEL

enum { ROW_COUNT = sizeof rows / sizeof *rows };

const kern_row *kern_rows(uint32_t *count) {
  *count = ROW_COUNT;
  return rows;
}

const kern_row *kern_select_from(const kern_row *table, uint32_t count, kern_family family, uint32_t bits,
                                 uint32_t isa) {
  for (uint32_t i = count; i-- > 0;)
    if (table[i].family == family && table[i].bits == bits && (table[i].isa & ~isa) == 0) return &table[i];
  return NULL;
}

const kern_row *kern_select(kern_family family, td_dtype dtype, uint32_t isa) {
  return kern_select_from(rows, ROW_COUNT, family, base_dtype(dtype)->bits, isa);
}
