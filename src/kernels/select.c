/* select.c -- the table of kernels, the levels, and the choice among them. */
#include "kernels/kernels_priv.h"

#include <string.h>

#define WIDE(...)
#define VECTORS(...)
#define RARE(...)
#define BYTES(...)
#define BF16(...)
#define TILES(...)
#define KERNEL(family, bits, isa, flags, lanes, function) \
  {#function, function, isa, family, bits, KERN_OF_BITS, flags, lanes},
static const kern_row rows[] = {
#include "kernels/kernels.def"
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };

#define PART(name, ...) extern const kern_row_list kern_row_list_##name;
#define LEVEL(name, ...)                                        \
  extern const struct kern_fused_level kern_fused_level_##name; \
  extern const struct kern_packing kern_packing_##name;         \
  PART(name, )
#include "base/levels.def"
#undef PART
#undef LEVEL
#define PART(name, ...) {#name, KERN_NEEDS_##name, &kern_row_list_##name, NULL, NULL},
#define LEVEL(name, ...) \
  {#name, KERN_NEEDS_##name, &kern_row_list_##name, &kern_fused_level_##name, &kern_packing_##name},
static const kern_level levels[] = {
#include "base/levels.def"
};
enum { LEVEL_COUNT = sizeof levels / sizeof *levels };

const kern_level *kern_levels(uint32_t *count) {
  *count = LEVEL_COUNT;
  return levels;
}

const kern_row *kern_row_at(uint32_t i) {
  if (i < ROW_COUNT) return &rows[i];
  i -= ROW_COUNT;
  for (uint32_t level = 0; level < LEVEL_COUNT; i -= levels[level++].rows->count)
    if (i < levels[level].rows->count) return &levels[level].rows->at[i];
  return NULL;
}

const kern_row *kern_find(const char *name) {
  const kern_row *row;
  for (uint32_t i = 0; (row = kern_row_at(i)) && strcmp(row->name, name) != 0;) i++;
  return row;
}

const kern_signature *kern_signature_of(const kern_row *row) {
#define SIGNATURE(name, x, sums, results, depth) {x, sums, depth, results},
  static const kern_signature signatures[] = {
#include "kernels/signatures.def"
  };
#undef SIGNATURE
  return &signatures[row->signature];
}

bool kern_stores(const kern_row *row, td_dtype dtype) {
  const uint32_t results = kern_signature_of(row)->results;
  return row->flags & KERN_OTHER_OUT || results == 0 || (results >> dtype & 1);
}

static bool takes(const kern_row *row, td_dtype dtype) {
  const uint8_t x = kern_signature_of(row)->x;
  return x == TD_INVALID ? row->bits == base_dtype(dtype)->bits : x == (dtype == TD_U8 ? TD_I8 : dtype);
}

const kern_row *kern_select_from(const kern_row *table, uint32_t count, kern_family family, td_dtype dtype,
                                 uint32_t isa) {
  for (uint32_t i = count; i-- > 0;)
    if (table[i].family == family && takes(&table[i], dtype) && (table[i].isa & ~isa) == 0) return &table[i];
  return NULL;
}

const kern_row *kern_select(kern_family family, td_dtype dtype, uint32_t isa) {
  for (uint32_t i = LEVEL_COUNT; i-- > 0;) {
    const kern_row_list *list = levels[i].rows;
    const kern_row *row = kern_select_from(list->at, list->count, family, dtype, isa);
    if (row) return row;
  }
  return kern_select_from(rows, ROW_COUNT, family, dtype, isa);
}

/* The place of `name` among them, 0 without one; -1: it is not there. */
static int find_name(const char *name, const char *const *names, int count) {
  int i = 0;
  if (!name) return 0;
  while (i < count && strcmp(names[i], name) != 0) i++;
  return i < count ? i : -1;
}

bool kern_find_math(const char *name, kern_math *math) {
  static const char *const names[] = {
      [KERN_MATH_DEFAULT] = "default", [KERN_MATH_EXACT] = "exact", [KERN_MATH_FAST] = "fast"};
  const int found = find_name(name, names, sizeof names / sizeof *names);
  *math = found < 0 ? KERN_MATH_DEFAULT : (kern_math)found;
  return found >= 0;
}

bool kern_find_precision(const char *name, kern_precision *precision) {
  static const char *const names[] = {[KERN_PRECISION_F32] = "f32",
                                      [KERN_PRECISION_BF16] = "bf16",
                                      [KERN_PRECISION_F16] = "f16",
                                      [KERN_PRECISION_INT8] = "int8"};
  const int found = find_name(name, names, sizeof names / sizeof *names);
  *precision = found < 0 ? KERN_PRECISION_F32 : (kern_precision)found;
  return found >= 0;
}

uint32_t kern_level_mask(const char *name, uint32_t machine, bool *known) {
  *known = true;
  if (!name) return machine | BASE_ISA_VECTOR;
  for (uint32_t i = 0; i < LEVEL_COUNT; i++)
    if (strcmp(levels[i].name, name) == 0 && !base_isa_lacks(machine, levels[i].isa)) return levels[i].isa;
  *known = false;
  return 0;
}
