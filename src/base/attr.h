/* attr.h -- the constant attributes of a node as one flat block without pointers: fixed positions (the operator's
 * attribute table gives the order, every attribute is present), so that a step reads them by index and a plan can be
 * saved as bytes. */
#ifndef BASE_ATTR_H
#define BASE_ATTR_H
#include "base/text.h"

typedef enum base_attr_kind {
  BASE_ATTR_NONE, /* optional and absent */
  BASE_ATTR_INT,
  BASE_ATTR_FLOAT,
  BASE_ATTR_BOOL,
  BASE_ATTR_DTYPE,
  BASE_ATTR_STR,
  BASE_ATTR_INTS,
  BASE_ATTR_FLOATS
} base_attr_kind;

typedef struct base_attr {
  uint32_t kind;  /* base_attr_kind */
  uint32_t count; /* of INTS and FLOATS, bytes of STR */
  union {
    int64_t i;       /* INT, BOOL, DTYPE */
    double f;        /* FLOAT */
    uint64_t offset; /* INTS, FLOATS, STR: bytes from the start of the block; 8-byte aligned, STR NUL-terminated */
  } u;
} base_attr;

typedef struct base_attrs {
  uint32_t count;
  uint32_t bytes; /* of the whole block */
  base_attr at[]; /* then the payload */
} base_attrs;

/* What a builder passes: name and value. */
typedef struct base_arg {
  const char *name;
  base_attr_kind kind;
  int64_t i;
  double f;
  const int64_t *ints;
  const double *floats;
  const char *str;
  uint32_t count;
} base_arg;
#define ARG_INT(n, v) ((base_arg){.name = (n), .kind = BASE_ATTR_INT, .i = (v)})
#define ARG_BOOL(n, v) ((base_arg){.name = (n), .kind = BASE_ATTR_BOOL, .i = (v)})
#define ARG_DTYPE(n, v) ((base_arg){.name = (n), .kind = BASE_ATTR_DTYPE, .i = (v)})
#define ARG_FLOAT(n, v) ((base_arg){.name = (n), .kind = BASE_ATTR_FLOAT, .f = (v)})
#define ARG_STR(n, v) ((base_arg){.name = (n), .kind = BASE_ATTR_STR, .str = (v)})
#define ARG_INTS(n, v, c) ((base_arg){.name = (n), .kind = BASE_ATTR_INTS, .ints = (v), .count = (uint32_t)(c)})
#define ARG_FLOATS(n, v, c) ((base_arg){.name = (n), .kind = BASE_ATTR_FLOATS, .floats = (v), .count = (uint32_t)(c)})

/* A block in `arena` from values in table order. NULL: out of memory. */
base_attrs *base_attrs_make(base_arena *arena, const base_arg *args, uint32_t count);

/* Is it a block as base_attrs_make writes it, of at most `room` bytes? */
bool base_attrs_valid(const base_attrs *block, size_t room);

/* Readers: `index` is the position in the operator's table. An absent one gives 0; another kind is a defect (asserted)
 * and gives 0, too. */
static inline bool base_attr_has(const base_attrs *a, uint32_t index) {
  BASE_ASSERT(index < a->count);
  return a->at[index].kind != BASE_ATTR_NONE;
}
int64_t base_attr_int(const base_attrs *a, uint32_t index); /* INT, BOOL, DTYPE */
/* Element `i` of INTS; `absent` where the list ends before. */
int64_t base_attr_int_at(const base_attrs *a, uint32_t index, int32_t i, int64_t absent);
double base_attr_float(const base_attrs *a, uint32_t index);
const char *base_attr_str(const base_attrs *a, uint32_t index); /* "" when absent */
const int64_t *base_attr_ints(const base_attrs *a, uint32_t index, uint32_t *count);
const double *base_attr_floats(const base_attrs *a, uint32_t index, uint32_t *count);
#endif
