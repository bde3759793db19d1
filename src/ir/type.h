/* type.h -- what is known of a value before it exists. */
#ifndef IR_TYPE_H
#define IR_TYPE_H
#include "base/base.h"

typedef enum ir_kind {
  IR_TENSOR,
  IR_INT,
  IR_FLOAT,
  IR_BOOL,
  IR_STR,
  IR_NONE,
  IR_LIST,
  IR_TUPLE,
  IR_OPTIONAL,
  IR_DICT,
  IR_FUTURE,
  IR_CLASS,
  IR_KIND_COUNT
} ir_kind;

enum { IR_UNRANKED = -1 };

/* A value: compared with ir_type_equal, copied freely; what it points to lives in the graph's arena. int, float and
 * bool are tensors of rank 0 at run time; an optional is its element or nothing. */
typedef struct ir_type {
  ir_kind kind;
  td_dtype dtype;      /* of a tensor */
  int32_t rank;        /* of a tensor; IR_UNRANKED: only running can tell */
  int32_t likely_rank; /* of an unranked tensor: what it has where it is not an empty vector; 0: nobody knows. A
                          hint for front ends, which is neither compared nor printed */
  base_dim dims[BASE_MAX_RANK]; /* of a ranked tensor */
  /* LIST, OPTIONAL, FUTURE: what it holds; DICT: key, value; TUPLE, CLASS: `count` of them. NULL: nothing is known, or
   * there is none. */
  const struct ir_type *elem;
  uint32_t count;           /* of a TUPLE's or CLASS's elements */
  const char *name;         /* of a CLASS */
  const char *const *names; /* of a CLASS's attributes; of a TUPLE's fields, or NULL */
} ir_type;

/* How many types `elem` points to. */
uint32_t ir_type_elems(const ir_type *type);
/* "f32", "list": the element type of a tensor, the kind of anything else. */
const char *ir_type_name(const ir_type *type);
bool ir_type_equal(const ir_type *a, const ir_type *b);
static inline ir_type ir_unranked(td_dtype dtype) {
  return (ir_type){.kind = IR_TENSOR, .dtype = dtype, .rank = IR_UNRANKED};
}
ir_type ir_tensor(td_dtype dtype, int32_t rank, const base_dim *dims);
/* Can its elements be the parts of complex numbers, along a last axis of 2? */
bool ir_holds_pairs(const ir_type *type);
/* likely_rank of what is x or y: an empty vector, f32[0], often stands for "nothing yet". */
int32_t ir_likely_rank(const ir_type *x, const ir_type *y);
/* "f32[batch, 768]", "list(i64[?])", "tuple(f32[2], int)", "dict(str, f32[...])", "class "m.Box"("low": int)" */
void ir_type_print(const base_dims *dims, const ir_type *type, base_text *text);

/* Do the sizes that are numbers, but for 0, multiply to one? No graph holds a type of which they do not, so that
 * whatever computes with some sizes of one type need not fear their product. */
bool ir_is_countable(const ir_type *type);
/* Elements of a tensor type whose sizes are all numbers; -1 when one is not, or their product overflows. */
int64_t ir_known_count(const ir_type *type);

/* What is known of a value: its type, and where it helps other operators to know their sizes, its contents. */
typedef struct ir_info {
  ir_type type;
  /* Elements, row-major, of an integer (or bool) tensor of at most IR_MAX_INTS elements, as sizes. NULL: not known. */
  const base_dim *ints;
  uint32_t int_count;
  const base_tensor *constant; /* the whole value, when it is one */
} ir_info;
enum { IR_MAX_INTS = 1024 };
/* The tensor that `info->ints` spells out, dense, in `arena`. *known: all its contents and sizes are numbers; else
 * *tensor is left alone. */
td_status ir_tensor_of_ints(base_arena *arena, const ir_info *info, base_tensor *tensor, bool *known, td_error *err);
#endif
