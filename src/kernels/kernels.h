/* kernels.h -- families of kernels and how one is chosen. Kernels of `wide/` are written once over the vocabulary of
 * simd_priv.h and compiled once per level of instruction sets. Operands of a kernel are naturally aligned and, but
 * where its flags say otherwise, dense. */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H
#include "base/base.h"
#include "kernels/epilogue.h"
#include "kernels/tuning.h"

typedef enum kern_family {
#define FAMILY(name) KERN_##name,
#include "kernels/families.def"
#undef FAMILY
  KERN_FAMILY_COUNT
} kern_family;

/* kern_row.flags. A pitched tensor is dense along its last dimension; its other ones make up rows of one pitch. */
enum {
  KERN_PARALLEL = 1,      /* is called on several threads at once and shares out its work; else on one */
  KERN_STRIDED_IN = 2,    /* takes operands of any strides */
  KERN_PITCHED_IN = 4,    /* takes pitched operands */
  KERN_PITCHED_OUT = 8,   /* writes a pitched output */
  KERN_RESIDUAL_OUT = 16, /* the output may have the memory of a residual of its type (KERN_IN_RESIDUAL) */
  KERN_MOVES = 32,        /* elements are bits that are moved: of any type of that width */
  KERN_APPENDS = 64,      /* in the residual's memory it writes only what is not in use: run again, it gives the same */
  KERN_OTHER_OUT = 128    /* the operator says what type the result has: indices, truth values */
};

/* Types of a row's elements and how its weights lie: a row of signatures.def. */
typedef enum kern_signature_id {
#define SIGNATURE(name, ...) KERN_OF_##name,
#include "kernels/signatures.def"
#undef SIGNATURE
  KERN_SIGNATURE_COUNT
} kern_signature_id;

typedef struct kern_signature {
  uint8_t x, sums;  /* td_dtype of the operands' elements (TD_I8 for bytes of either sign) and of the sums; TD_INVALID:
                       any of the row's width, and none */
  uint8_t depth;    /* numbers of a column of packed weights that lie together; 0: tiles */
  uint32_t results; /* 1 << td_dtype of each that it may store; 0: that of its operands */
} kern_signature;

typedef struct kern_row {
  const char *name; /* of the function, for plans and profiles */
  base_call_fn run;
  uint32_t isa;      /* BASE_ISA_* that the machine must have, all of them */
  uint16_t family;   /* kern_family */
  uint8_t bits;      /* per element */
  uint8_t signature; /* kern_signature_id */
  uint8_t flags;     /* KERN_* */
  uint8_t lanes;     /* f32 in a vector of its level; also the width of its packed panels */
} kern_row;

const kern_signature *kern_signature_of(const kern_row *row);
/* May the row's kernel store a result of this type? */
bool kern_stores(const kern_row *row, td_dtype dtype);

/* The last row of `table` for the family and type whose needs are a subset of `isa`; NULL: none. */
const kern_row *kern_select_from(const kern_row *table, uint32_t count, kern_family family, td_dtype dtype,
                                 uint32_t isa);
/* The same from the rows of kernels.def. Not NULL for KERN_COPY and any dtype but TD_INVALID. */
const kern_row *kern_select(kern_family family, td_dtype dtype, uint32_t isa);
/* All rows, those for any CPU first, then level by level; NULL behind the last. */
const kern_row *kern_row_at(uint32_t i);
/* The row of this name; NULL: none. */
const kern_row *kern_find(const char *name);

/* The step that the compiler adds by itself: a dense copy of a value that must not stay where it is, to planned memory
 * or to the tail. On any CPU, of any type. */
td_status kern_copy_any(const base_call *call);
td_status kern_copy_check(const base_call *call); /* are operand and planned result alike? */
td_status kern_copy_tail(const base_call *call);
void kern_copy_work(const base_call *call, double *flops, double *bytes); /* of one that copies */

/* Algorithms that may round differently from a plain sum. Samples never affect each other; with Strassen's algorithm
 * rows of one sample do. */
typedef enum kern_math {
  KERN_MATH_DEFAULT, /* Winograd's, where its error on a layer's weights stays near (pack_winograd.h) */
  KERN_MATH_EXACT,   /* none */
  KERN_MATH_FAST     /* Winograd's and one step of Strassen's */
} kern_math;
/* "default", "exact", "fast"; NULL: the default. False: there is no such name. */
bool kern_find_math(const char *name, kern_math *math);

/* Of constant weights of matrix products: as the model has them; 16 bits; the other operand in 8 bits where weights
 * have 4 or 8. */
typedef enum kern_precision {
  KERN_PRECISION_F32,
  KERN_PRECISION_BF16,
  KERN_PRECISION_F16,
  KERN_PRECISION_INT8
} kern_precision;
/* "f32", "bf16", "f16", "int8"; NULL: f32. False: there is no such name. */
bool kern_find_precision(const char *name, kern_precision *precision);

/* A level of instruction sets, or a part of one: a row of base/levels.def. */
typedef struct kern_level {
  const char *name;
  uint32_t isa; /* all that its kernels may use */
  const struct kern_row_list *rows;
  const struct kern_fused_level *fused; /* NULL of parts, as the next */
  const struct kern_packing *packing;
} kern_level;
/* Narrowest first; *count of them. */
const kern_level *kern_levels(uint32_t *count);
/* Bits of `machine` that the level `name` may use; NULL: all. 0 and *known false: no such level, or the machine lacks
 * it. */
uint32_t kern_level_mask(const char *name, uint32_t machine, bool *known);
#endif
