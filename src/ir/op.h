/* op.h -- the operator descriptor. An operator is a definition: what it takes, what comes out, and a plain-loop
 * reference that says what it means. Its ONNX (or other) spellings that need no code are strings here. */
#ifndef IR_OP_H
#define IR_OP_H
#include "ir/type.h"

typedef struct ir_op ir_op;
typedef struct ir_infer ir_infer;

/* Which operator a node applies: OP_aten_add. */
typedef enum ir_op_id {
  OP_NONE, /* one that is not of the set, which nothing looks for */
#define OP(space, name) OP_##space##_##name,
#include "ir/operators.def"
#undef OP
  OP_COUNT
} ir_op_id;
/* Of a descriptor: .id = OPERATOR(aten, add) is its name, too. */
#define OPERATOR(space, op) OP_##space##_##op, .name = #space "::" #op

enum {
  IR_VARIADIC = 255, /* as max_in or out_count: any number */
  /* flags */
  IR_OP_ELEMENTWISE = 1, /* out[i] depends on element i of its (broadcast) operands alone */
  IR_OP_IN_PLACE = 2,    /* the reference allows out[0] to be the memory of an operand of equal dtype and dims */
  IR_OP_COMMUTATIVE = 4,
  IR_OP_VIEW = 8,        /* out[0] can alias in[0] at any strides: `view` says how */
  IR_OP_VIEW_DENSE = 16, /* the same, but only where in[0] is contiguous */
  IR_OP_DEFINES = 32,    /* output sizes depend on data: the reference calls base_call_define itself */
  IR_OP_RANDOM = 64,     /* may not be folded or shared */
  IR_OP_REGION = 128,    /* has blocks, no reference: `region` says which kind */
  IR_OP_HOST = 256,      /* lists, strings, optionals: for the host; never a candidate for kernels */
  IR_OP_LOOKUP = 512,    /* reads of operand 0 only what comes out: gather, embedding */
  IR_OP_JOIN = 1024,     /* out[0] is the operands side by side along the dimension that attribute 0 names */
  IR_OP_EFFECT = 2048,   /* runs even where nobody uses its outputs: it may end the run with a message */
  IR_OP_HOLDS = 4096,    /* its result references its operands, so they must outlive it */
  IR_OP_FRONT = 8192,    /* its chain may stand in front of operand 0: kernels/epilogue.h */
  IR_OP_LOOP = 16384,    /* a fused loop: attribute 0 is its program (base/program.h) */
  IR_OP_CHAIN = 32768,   /* its last attribute may hold a program that its results go through: kernels/epilogue.h */
  IR_OP_EPILOGUE = 65536 /* a product with the operands and the activation of kernels/epilogue.h */
};

/* What a region's blocks are to it; see graph.h for each one's operands, parameters and results. WAIT has none: it ends
 * what a FORK began. */
typedef enum ir_region_kind {
  IR_REGION_NONE,
  IR_REGION_IF,
  IR_REGION_LOOP,
  IR_REGION_FORK,
  IR_REGION_WAIT
} ir_region_kind;

/* An attribute: a constant given when the node is built. Attributes have fixed positions: a reference reads them by
 * index (base_attr_int(call->attrs, AXIS)). kind NONE as default: required unless `optional`. */
typedef struct ir_attr {
  const char *name;
  base_attr_kind kind;
  bool required; /* no default */
  bool optional; /* may be absent: base_attr_has tells */
  union {
    int64_t i; /* default of INT, BOOL, DTYPE; INTS and FLOATS default to an empty list */
    double f;
    const char *str; /* NULL: "" */
  };
} ir_attr;

/* A front-end name that means exactly this operator: operands in order, attributes of equal name, but for `renames`
 * ("alpha=negative_slope,axis=dim": theirs=ours). */
typedef struct ir_alias {
  const char *dialect; /* "onnx" (domain ""), "com.microsoft", ... */
  const char *name;
  int since;           /* first operator-set version at which this holds */
  const char *renames; /* or NULL */
} ir_alias;

/* One generated test case: operand tensors and attributes. */
enum { IR_CASE_OPERANDS = 12 };
typedef struct ir_case {
  base_arena *arena;
  base_arg args[24];
  uint32_t arg_count;
  base_tensor in[IR_CASE_OPERANDS]; /* contiguous; data in the arena */
  bool absent[IR_CASE_OPERANDS];    /* optional operand left out */
  uint32_t in_count;
} ir_case;
/* Fills case `number` of an operator; false past the last or out of memory. */
typedef bool (*ir_cases)(ir_case *c, uint32_t number);

/* What a kernel is chosen by. Operands and outputs as they are known when the plan is made. */
typedef struct ir_kernel_query {
  const base_attrs *attrs;
  const ir_info *const *in; /* NULL: absent */
  uint32_t in_count;
  const ir_info *out;
  uint32_t out_count;
  uint32_t isa; /* BASE_ISA_* that may be used */
} ir_kernel_query;
struct kern_row;   /* of kernels, which this room does not see */
struct loop_build; /* of loop, likewise */

/* A node that is asked whether samples stay apart in it. */
typedef struct ir_samples_query {
  const base_attrs *attrs;
  int32_t rank; /* of operand 0 */
  uint32_t count;
  const base_tensor *const *constants; /* `count` operands; NULL: it is absent, or no constant */
} ir_samples_query;

struct ir_op {
  const char *name;       /* "aten::add" */
  uint8_t min_in, max_in; /* operands; those past min_in are optional */
  uint8_t out_count;      /* most outputs, or IR_VARIADIC */
  uint8_t strings; /* bit i: operand i may hold strings; bit 7: operand 7 and all behind it. Else it is refused */
  uint8_t region;  /* ir_region_kind, of a REGION */
  uint32_t flags;
  uint16_t id; /* ir_op_id */
  const ir_attr *attrs;
  uint8_t attr_count;
  /* Fills ctx->out[*].type (dtype always; rank and dims as far as they are known) and, where cheap, .ints. Runs while
   * the graph is built, with symbols; and again at run time, with numbers alone, where a size could not be known
   * before: then ctx->dims is NULL, every operand's `constant` is its real value, and the result must be all numbers.
   */
  td_status (*infer)(ir_infer *ctx);
  base_call_fn reference; /* plain loops; the definition */
  /* The kernel that takes the reference's place on a backend with kernels; NULL (the pointer, or what it gives): there
   * is none for these operands. */
  const struct kern_row *(*kernel)(const ir_kernel_query *query);
  /* What the operator computes, as values of a fused loop over its operands broadcast together: gives b->out from
   * b->in. Operands and result are of types that base_type_of knows. False: not for these. NULL: never. */
  bool (*lower)(const ir_kernel_query *query, struct loop_build *b);
  base_call_fn view; /* of VIEW and VIEW_DENSE: sets out[0]'s data and strides to alias in[0] */
  /* Samples stand along dimension 0. Sample r of every output depends, of the operands named here, on sample r alone
   * (or on one that is broadcast), and on others in whole: bit i is operand i, bit 7 also all behind it. 0: it is not
   * so, or nobody has said. An ELEMENTWISE operator is so in all operands. Where it takes more than that,
   * `keeps_samples` says whether the node is such. */
  uint8_t by_sample;
  bool (*keeps_samples)(const ir_samples_query *query);
  /* in: operands that are absent, those at the end too, are NULL. NULL: one per output element of an elementwise
   * operator, else none. */
  double (*flops)(const ir_info *const *in, const ir_info *out, const base_attrs *attrs);
  float rtol, atol; /* of f32 results against another order of evaluation; 0: exact */
  float rounded;    /* atol where an operand is bf16 or the attribute `quantise` is set, if kernels round what they made
                       themselves there; 0: they do not */
  const ir_alias *aliases;
  uint8_t alias_count;
};

/* ---- the inference context --------------------------------------------------------------------------------------- */

struct ir_infer {
  const ir_op *op;
  const base_attrs *attrs;
  const ir_info *const *in; /* NULL: an absent optional operand */
  uint32_t in_count;
  ir_info *out; /* zeroed */
  uint32_t out_count;
  base_dims *dims;   /* NULL at run time */
  base_arena *arena; /* for ints and elem; NULL at run time */
  td_error *err;
  /* Room for ir_in_ints at run time, where there is no arena. */
  base_dim run_ints[64];
  uint32_t run_ints_used;
};

/* Operand `i` or NULL. */
static inline const ir_info *ir_in(const ir_infer *ctx, uint32_t i) { return i < ctx->in_count ? ctx->in[i] : NULL; }
/* Contents of a small integer operand. False: not known (only before run time) or no integers. */
bool ir_in_ints(ir_infer *ctx, uint32_t i, const base_dim **ints, uint32_t *count);
/* A single known number in operand `i` (rank 0, or one element). */
bool ir_in_int(ir_infer *ctx, uint32_t i, int64_t *value);
/* Room for `count` contents of output `i`; NULL when nobody wants them (run time, too many). */
base_dim *ir_out_ints(ir_infer *ctx, uint32_t i, uint32_t count);
/* A size that only running can tell: a new symbol, or BASE_DIM_NONE at run time. */
base_dim ir_fresh(ir_infer *ctx);
/* Runs ctx->op->infer. Operators that are not for the host get tensors alone, and strings only where they take them. */
td_status ir_infer_outputs(ir_infer *ctx);
/* Fails naming the operator: "aten::cat: ..." */
td_status ir_infer_fail(ir_infer *ctx, const char *format, ...) BASE_PRINTF(2, 3);
/* Output `i` is a tensor. */
td_status ir_out(ir_infer *ctx, uint32_t i, td_dtype dtype, int32_t rank, const base_dim *dims);
td_status ir_out_unranked(ir_infer *ctx, uint32_t i, td_dtype dtype);
/* Output `i` has the type of operand `in`, with `dtype` (TD_INVALID: its own). */
td_status ir_out_like(ir_infer *ctx, uint32_t i, uint32_t in, td_dtype dtype);
/* numel of a ranked type; BASE_DIM_NONE on overflow. */
base_dim ir_numel(ir_infer *ctx, const ir_type *type);
/* `axis` in [-rank, rank) made non-negative; fails otherwise. */
td_status ir_axis(ir_infer *ctx, int64_t axis, int32_t rank, int32_t *result);

/* ---- sets -------------------------------------------------------------------------------------------------------- */

typedef struct ir_alias_row {
  const ir_alias *alias;
  const ir_op *op;
} ir_alias_row;

typedef struct ir_opset {
  const ir_op *const *ops; /* that with id i at i - 1, which sorts them by name */
  uint32_t count;
  const ir_alias_row *aliases; /* sorted by dialect, name, since */
  uint32_t alias_count;
} ir_opset;
/* Fills the aliases of a set whose operators are sorted. False: out of memory. */
bool ir_opset_index(ir_opset *set, base_arena *arena);
static inline const ir_op *ir_opset_at(const ir_opset *set, ir_op_id id) {
  return id != OP_NONE ? set->ops[id - 1] : NULL;
}
const ir_op *ir_opset_find(const ir_opset *set, const char *name);
/* The operator that has this alias for the highest `since` <= version; *alias gets the row. NULL: none. */
const ir_op *ir_opset_alias(const ir_opset *set, const char *dialect, base_str name, int64_t version,
                            const ir_alias **alias);
#endif
