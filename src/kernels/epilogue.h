/* epilogue.h -- what is done to a sum before it is stored, by every kernel that has sums:
 *
 *     t = sum + bias[n];  t = act(t) unless late;  t += residual[m, n];
 *     t = t * scale[n] + shift[n];  t = act(t) if late;  t = chain(t, operands...)[m, n]
 *
 * m counts the rows of the output (all dimensions but the last, merged), n its last dimension. Absent parts are
 * skipped. Operators with an epilogue take its vectors as operands 2 to 5, and the rest as attributes of these names,
 * which are the last KERN_EPILOGUE_ATTRS of their lists, in this order.
 *
 * The chain is a program (base/program.h) over the output's dimensions. Its operand 0 is t, others are the operator's
 * from KERN_EPILOGUE_END on, which broadcast to the output. Its result 0 takes t's place, further ones are the
 * operator's further outputs. Kernels call it on rows of sums that are still in a near cache.
 *
 * With `in_front` it is a prologue: a program over the dimensions of operand 0, which is its operand 0, too. Its one
 * result takes that operand's place in the product. Kernels make it for the rows that a block of the product reads, in
 * scratch that caches hold; it may reduce along a row. */
#ifndef KERNELS_EPILOGUE_H
#define KERNELS_EPILOGUE_H
#include "kernels/attrs.h"
#include "base/base.h"

/* Activations by name, in attributes and tables; parameters a and b as noted. */
typedef enum kern_act {
#define ACT(name) KERN_ACT_##name,
#include "kernels/acts.def"
#undef ACT
  KERN_ACT_COUNT
} kern_act;
/* The activation called `name` ("none", "relu", ...); KERN_ACT_COUNT: there is none. */
kern_act kern_act_find(const char *name);
const char *kern_act_name(kern_act act);
/* An activation of three attributes in turn, its name and its parameters; none where the name is absent. */
typedef struct kern_act_of {
  kern_act act;
  float a, b;
} kern_act_of;
kern_act_of kern_act_at(const base_attrs *attrs, uint32_t first);

enum { KERN_IN_BIAS = 2, KERN_IN_RESIDUAL, KERN_IN_SCALE, KERN_IN_SHIFT, KERN_EPILOGUE_END };
/* Most operands of an operator with a chain. */
enum { KERN_CHAIN_END = KERN_EPILOGUE_END + BASE_PROGRAM_OPERANDS - 1 };

/* A chain at work on one thread: see loops/loops.h. */
typedef struct kern_chain kern_chain;
/* Does the chain among the attributes of an operator that may have one stand in front of its product? */
bool kern_chain_in_front(const base_attrs *attrs);
/* The type of out[0] of a product of f32 with an epilogue. */
td_dtype kern_result_type(const base_attrs *attrs);

typedef struct kern_epilogue {
  kern_act act;
  float a, b;
  bool late;
  bool near;                                    /* results are rounded to bf16: kern_act_rows for that may be taken */
  const float *bias, *residual, *scale, *shift; /* NULL: absent */
  int64_t residual_pitch;                       /* elements from row to row */
  kern_chain *chain;                            /* NULL: absent */
  int64_t row, column;                          /* of the output, where the vectors start: for the chain */
  int64_t row_step;                             /* rows of the output from row to row */
} kern_epilogue;
/* Reads operands 2 to 5 and the last of the call's attributes, but for the chain. An operand is dense, or (the
 * residual) pitched. */
kern_epilogue kern_epilogue_of(const base_call *call);
/* Elements from row to row of a dense or pitched tensor: the stride of its last dimension but one that is not 1 long;
 * the last dimension's length where there is none. Rank 0 gives 1. */
int64_t kern_pitch(const base_tensor *t);
/* act(x), one element, in double: the definition. */
double kern_act_apply(kern_act act, double a, double b, double x);
#endif
