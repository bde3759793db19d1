/* select.c -- the table of kernels, the levels, and the choice among them. */
#include "kernels/kernels_priv.h"

#include <string.h>

#define KERNEL(family, bits, isa, flags, lanes, function) {#function, function, isa, family, bits, flags, lanes},
#define LEVEL(family, flags, function, level, lanes) \
  KERNEL(family, 32, KERN_NEEDS_##level, flags, lanes, kern_##function##_##level)
#define WIDER(family, flags, function)    \
  LEVEL(family, flags, function, avx2, 8) \
  LEVEL(family, flags, function, avx512, 16)
#define VECTORS(family, flags, function)                        \
  LEVEL(family, flags, function, vector, KERN_VECTOR_BYTES / 4) \
  WIDER(family, flags, function)
#if defined KERN_VECTOR_ALL
#define RARE VECTORS
#else
#define RARE WIDER
#endif
#define WIDE(family, flags, function)       \
  LEVEL(family, flags, function, scalar, 1) \
  VECTORS(family, flags, function)
#define BYTES(family, flags, function)                                 \
  KERNEL(family, 8, KERN_NEEDS_avx2, flags, 8, kern_##function##_avx2) \
  KERNEL(family, 8, KERN_NEEDS_avx512_vnni, flags, 16, kern_##function##_avx512_vnni)
static const kern_row rows[] = {
#include "kernels/kernels.def"
};
#undef KERNEL
#undef LEVEL
#undef WIDER
#undef VECTORS
#undef RARE
#undef WIDE
#undef BYTES

enum { ROW_COUNT = sizeof rows / sizeof *rows };

const kern_row *kern_rows(uint32_t *count) {
  *count = ROW_COUNT;
  return rows;
}

const kern_row *kern_find(const char *name) {
  for (uint32_t i = 0; i < ROW_COUNT; i++)
    if (strcmp(rows[i].name, name) == 0) return &rows[i];
  return NULL;
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

bool kern_find_math(const char *name, kern_math *math) {
  static const char *const names[] = {
      [KERN_MATH_DEFAULT] = "default", [KERN_MATH_EXACT] = "exact", [KERN_MATH_FAST] = "fast"};
  *math = KERN_MATH_DEFAULT;
  if (!name) return true;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i], name) == 0) {
      *math = (kern_math)i;
      return true;
    }
  return false;
}

static const kern_level levels[] = {{"scalar", KERN_NEEDS_scalar},
                                    {"vector", KERN_NEEDS_vector},
                                    {"avx2", KERN_NEEDS_avx2},
                                    {"avx512", KERN_NEEDS_avx512},
                                    {"avx512_vnni", KERN_NEEDS_avx512_vnni}};
enum { LEVEL_COUNT = sizeof levels / sizeof *levels };

const kern_level *kern_levels(uint32_t *count) {
  *count = LEVEL_COUNT;
  return levels;
}

uint32_t kern_level_mask(const char *name, uint32_t machine, bool *known) {
  machine |= BASE_ISA_VECTOR;
  *known = true;
  if (!name) return machine;
  for (uint32_t i = 0; i < LEVEL_COUNT; i++)
    if (strcmp(levels[i].name, name) == 0 && (levels[i].isa & ~machine) == 0) return levels[i].isa;
  *known = false;
  return 0;
}
