/* plan.h -- the executable plan.
 *
 * Steps are one sequence, numbered from 0. A region step (IF, LOOP) is followed by the steps of its blocks, each block
 * closed by an END step that hands its results over; `next` of the region is the step after all of them.
 *
 *     0 CALL  1 LOOP(next 5)  2 CALL  3 CALL  4 END  5 CALL
 *
 * A slot is a place for a value. Step numbers are also the clock of lifetimes: an arena slot is live from step `first`
 * to step `last`, both included. */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H
#include "base/base.h"
#include "base/speed.h"

#include <stdatomic.h>

enum { PLAN_NONE = UINT32_MAX };

typedef enum plan_place {
  PLAN_INPUT, /* the caller's memory, or what the session keeps as state */
  PLAN_CONST, /* segment + offset */
  PLAN_ARENA, /* planned: an offset in the session's arena */
  PLAN_VIEW,  /* shares the memory of `root`; its step says how */
  PLAN_TAIL   /* sizes (or a list) that only running can tell: memory from the session's tail */
} plan_place;

typedef struct plan_slot {
  uint32_t place; /* plan_place */
  td_dtype dtype; /* TD_INVALID: no tensor (a list, an optional) */
  int32_t rank;   /* -1: only running can tell */
  base_dim dims[BASE_MAX_RANK];
  int64_t strides[BASE_MAX_RANK]; /* of CONST */
  uint32_t segment;               /* of CONST */
  uint64_t offset;                /* of CONST: bytes */
  uint32_t root;                  /* slot whose memory this one uses: itself, or (VIEW, in-place) another */
  uint32_t part_of;               /* ARENA: the slot that this one is a part of; PLAN_NONE: none */
  int32_t part_axis;              /* the part begins at element part_at of this dimension */
  int64_t part_at;
  uint32_t first, last; /* of a root in the ARENA */
  uint32_t name;        /* offset into names; 0: none */
} plan_slot;

typedef enum plan_kind {
  PLAN_CALL,
  PLAN_SHOW, /* a view: alias, no work */
  PLAN_IF,
  PLAN_LOOP,
  PLAN_END,
  PLAN_FORK, /* a region whose block may run beside the steps behind it, as a task */
  PLAN_WAIT  /* for a task's end */
} plan_kind;

/* Which function of an operator a step calls. */
typedef enum plan_role {
  PLAN_REFERENCE, /* the operator's plain loops */
  PLAN_SHOWS,     /* the operator's view */
  PLAN_KERNEL,    /* a row of kernels.def in the reference's place */
  PLAN_GENERATED, /* machine code for a fused loop, or for a kernel's chain; where it is not at hand, the kernel
                     interprets them */
  PLAN_COPY,      /* a dense copy of a planned value, by a kernel or (none) any CPU's; no operator */
  PLAN_COPY_TAIL, /* a dense copy of what only running can tell; no operator */
  PLAN_ROLE_COUNT
} plan_role;

/* What a step may call, by names: offsets into names, 0 for none. */
typedef struct plan_function {
  uint32_t op;     /* the operator */
  uint32_t role;   /* plan_role */
  uint32_t kernel; /* of kernels.def */
  uint32_t code;   /* of GENERATED: the function's own name */
} plan_function;

/* Layouts of an operand: last dimension dense, in rows of one pitch; any strides. */
enum { PLAN_PITCHED = 1, PLAN_STRIDED = 2 };

/* The program among a step's attributes as its calls find it (base_call.program), in `arena`; NULL: it has none. */
typedef const void *(*plan_program_fn)(const base_attrs *attrs, base_arena *arena);
/* What a plan_function is in this process. `run` does the work (of a SHOW step: the aliasing). `define` gives outputs
 * in the tail their sizes and memory before `run`; NULL: `run` does it. `check` compares planned sizes with what the
 * operands' values say; called once per binding. */
typedef struct plan_link {
  const char *name; /* for people: of the code, the kernel, or the operator */
  const void *op;   /* the operator's descriptor, opaque here; NULL: it is not known, or there is none */
  base_call_fn run, define, check;
  bool parallel;           /* `run` may be called on several threads at once */
  bool tells_sources;      /* its attribute KERN_FUSED_FROM says which origin each of its operations has */
  uint32_t in_place;       /* bit i: its one result may take the place of operand i, of its type, which nothing else
                            * reads; the last bit is that of further ones, too */
  bool appends;            /* in such a place it writes only what is not in use: run again, it gives the same */
  uint32_t takes, gives;   /* PLAN_PITCHED, PLAN_STRIDED: layouts of operands and results; else dense */
  plan_program_fn program; /* of steps that have one; or NULL */
  const void *code;        /* what `run` finds as its call's code; or NULL */
  void (*work)(const base_call *call, double *flops, double *bytes); /* of a parallel one: what a call has to do */
} plan_link;

/* Functions of a process by name: passed to whoever makes or loads a plan. */
typedef struct plan_operator {
  const void *op;                              /* its descriptor, opaque here */
  base_call_fn reference, view, define, check; /* NULL: it has none */
  bool tells_sources;                          /* see plan_link */
  uint32_t in_place;
  bool shows_dense;        /* its view is of dense elements alone */
  plan_program_fn program; /* see plan_link; or NULL */
  void (*work)(const base_call *call, double *flops, double *bytes);
} plan_operator;
typedef struct plan_kernel {
  base_call_fn run;
  uint32_t isa; /* BASE_ISA_* that it uses */
  bool parallel;
  uint32_t takes, gives, in_place; /* see plan_link */
  bool appends;
} plan_kernel;
/* Machine code: `run` takes the place of the kernel; where it is NULL, the kernel gets `body` with its calls. */
typedef struct plan_generated {
  base_call_fn run;
  const void *body;
} plan_generated;
typedef struct plan_symbols {
  const void *user;
  bool knows_operators; /* else kernels run without: what their operands must be is not checked before each binding */
  bool (*find_operator)(const void *user, const char *name, plan_operator *found);
  bool (*find_kernel)(const void *user, const char *name, plan_kernel *found);  /* false: none that may run here */
  bool (*find_code)(const void *user, const char *name, plan_generated *found); /* NULL, or false: there is none */
  base_call_fn copy, copy_check, copy_tail;                                     /* see plan_role */
  void (*copy_work)(const base_call *call, double *flops, double *bytes);
} plan_symbols;

typedef struct plan_step {
  uint32_t kind;                         /* plan_kind */
  uint32_t function;                     /* of CALL, SHOW */
  uint32_t attrs;                        /* offset into params, or PLAN_NONE */
  uint32_t in, in_count, out, out_count; /* into operands: slots, PLAN_NONE for absent ones */
  uint32_t next;                         /* region: the step after it; END: its region */
  uint32_t block;                        /* region: its first block in blocks; END: its own block */
  uint32_t name;                         /* offset into names: where it came from, for people */
  uint32_t origins, origin_count;        /* into origins: all of the user's nodes that it stands for */
  uint32_t defines;                      /* 1: some output is in the tail; else 0 */
  uint32_t free;                         /* FORK, 1: no other task's result goes in: any thread may run it any time */
  double flops, bytes;                   /* of one run of it, where all sizes are known; else 0 */
} plan_step;

/* A block of a region: steps [first, end], `end` being its END step. LOOP: params are the iteration number, then the
 * carried slots, which are also the step's outputs; results are the condition, then the next carried values. IF:
 * results go to the step's outputs. FORK: the step's operands are what the block reads of the steps around it; params
 * are those of them that may change or go before the task ends, and are copied for it; results are the task's. */
typedef struct plan_block {
  uint32_t first, end;
  uint32_t params, param_count, results, result_count; /* into operands */
} plan_block;

/* Steps [first, end) that each work sample by sample: they can run on a few samples at a time, one part of the batch
 * after the other, so that what they pass on stays in a cache. The slots named hold the samples along dimension 0. */
typedef struct plan_batch {
  uint32_t first, end;
  base_dim samples;
  uint32_t slots, slot_count; /* into operands */
} plan_batch;

/* The kind of value of a port. */
typedef enum plan_port_kind {
  PLAN_TENSOR_PORT,
  PLAN_LIST_PORT,
  PLAN_OPTIONAL_PORT,
  PLAN_TUPLE_PORT,
  PLAN_DICT_PORT,
  PLAN_CLASS_PORT,
  PLAN_PORT_KIND_COUNT
} plan_port_kind;

typedef struct plan_port { /* an input, an output or a state of the model */
  uint32_t name;           /* offset into names */
  uint32_t slot;
  uint32_t fallback;   /* input: constant slot used when nothing is bound, or PLAN_NONE */
  uint32_t kind;       /* plan_port_kind */
  uint32_t takes;      /* base_kind of its values; an optional takes nothing as well */
  td_dtype dtype;      /* of the tensor, or of those in a list or optional; TD_INVALID: any, or not known */
  int32_t rank;        /* of the same; -1: any */
  uint32_t is_complex; /* output: 1: complex numbers, whose parts are the last axis, of 2; else 0 */
  base_dim dims[BASE_MAX_RANK];
} plan_port;

/* What session state is at first: a constant slot, or (PLAN_NONE) nothing, or what holds the `count` that follow, each
 * with all of its own. */
typedef struct plan_initial {
  uint32_t slot;
  uint32_t kind; /* base_kind */
  uint32_t count;
} plan_initial;

/* Where the value that a state gets is made. */
typedef enum plan_making {
  PLAN_MADE_ANYWHERE, /* it is copied when a run ends */
  PLAN_MADE_BESIDE,   /* it may have memory of the session's, but not that of the old value */
  PLAN_MADE_IN_PLACE  /* and that, if the size stays */
} plan_making;

typedef struct plan_state {
  plan_port port;   /* its value when a run begins */
  uint32_t after;   /* slot: what it is in the next run */
  uint32_t initial; /* into initials */
} plan_state;

/* What sizes of inputs must satisfy. */
typedef struct plan_guard {
  base_dim left, right;
  uint32_t relation; /* base_relation */
  uint32_t text;     /* offset into names: what is asked, for people */
} plan_guard;

/* Where machine code that was generated is: in memory, and the C text that it was compiled from. */
typedef struct plan_code {
  const void *at;
  size_t bytes;
  const char *source; /* a path; lives as long as the plan */
  uint32_t line;      /* 0: unknown */
} plan_code;

/* Machine code that is compiled while the plan runs: the compiling thread writes, sessions read when a run begins. */
typedef struct plan_tier {
  _Atomic uint32_t changes;                   /* of what follows so far */
  _Atomic uint32_t waiting;                   /* loops whose code is still being made */
  _Atomic(const struct plan_generated *) *at; /* per function: what takes the place of its link's; NULL: nothing yet */
} plan_tier;

/* Machine code of functions: a shared object. */
typedef struct plan_object {
  const void *bytes;
  size_t size;
} plan_object;

/* A size of the inputs that a variant of a plan is for. */
typedef struct plan_size {
  uint32_t symbol; /* of the general plan's dims */
  uint32_t unused; /* 0 */
  int64_t value;
} plan_size;
enum { PLAN_VARIANTS = 32 /* at most, of one plan */ };

/* Constants in a file, whose checksums are compared before they are first used: by the first session of the plan. */
typedef struct plan_unread {
  const char *file; /* for errors */
  const char *base; /* of the constants, `bytes` long, at `offset` of the file */
  uint64_t bytes, offset;
  const struct file_constant *constants; /* `count` stretches and their checksums */
  uint32_t count;
  uint32_t whole; /* 1: all of them were right; any thread may set it */
} plan_unread;

/* What a process adds to a plan, which is no part of what is saved. */
typedef struct plan_process {
  BASE_VEC(plan_link) links;    /* per function */
  BASE_VEC(const void *) bases; /* per segment: its address */
  BASE_VEC(uint32_t) renewed;   /* per output: the input whose memory it may have; PLAN_NONE; empty: none may */
  BASE_VEC(uint32_t) making;    /* per state: plan_making; empty: they are made anywhere */
  base_map known_names;         /* offsets of names, while the plan is made */
  void *code;                   /* loaded machine code that functions are part of, or NULL */
  void (*release_code)(void *code);
  bool (*locate_code)(const void *code, const char *name, plan_code *place); /* of the function called that */
  plan_unread *unread;                  /* NULL: its constants are no part of a file */
  plan_tier *tier;                      /* NULL: all of its code is there from the beginning */
  const struct kern_tuning *tuning;     /* of its kernels' calls, in the arena; NULL: their defaults */
  const base_speed *speed;              /* of this machine, in the arena or static */
  const struct run_copies *copies;      /* of the general plan: its constants for each memory node; NULL: none */
  BASE_VEC(struct plan_exe *) variants; /* of the general plan, whose own they are: for particular sizes */
  const char *label;                    /* of a variant, for people: "batch=8 seq=128"; else "" */
} plan_process;

/* The plan: what a file holds, and behind it what this process has of it. */
typedef struct plan_exe {
  base_arena *arena; /* everything below lives here */
  base_dims dims;
  BASE_VEC(plan_slot) slots;
  BASE_VEC(plan_step) steps;
  BASE_VEC(plan_block) blocks;
  BASE_VEC(plan_batch) batches; /* in the order of their steps, disjoint */
  BASE_VEC(uint32_t) operands;
  BASE_VEC(plan_function) functions;
  BASE_VEC(uint64_t) segments; /* bytes of each */
  BASE_VEC(plan_port) inputs;
  BASE_VEC(plan_port) outputs;
  BASE_VEC(plan_state) states;
  BASE_VEC(plan_initial) initials;
  BASE_VEC(plan_guard) guards;
  BASE_VEC(plan_size) sizes;  /* of a variant: where the inputs have these, it may run in the general plan's place */
  BASE_VEC(char) names;       /* NUL-terminated texts; [0] is "" */
  BASE_VEC(uint32_t) origins; /* offsets into names */
  BASE_VEC(uint64_t) params;  /* attribute blocks, 8-byte units; offsets count units */
  bool needs_tail;
  bool in_place;                 /* results take the place of operands that die at their step */
  bool aligned_inputs;           /* steps take it that elements of inputs are naturally aligned */
  double flops, bytes;           /* of one run, regions left out; 0 when some size is open */
  uint32_t isa;                  /* BASE_ISA_* that kernels were chosen from */
  uint32_t needs;                /* of these, what the kernels in it use */
  const char *level;             /* a name for that, for people; whoever links it sets it, static */
  BASE_VEC(plan_object) objects; /* machine code that is saved with it, or was; see plan_source.trusted */
  uint64_t contract;             /* of the objects with who loads them */
  uint32_t backend;              /* offset into names: that it was made by */
  plan_process here;
} plan_exe;

/* A plan and its variants, by number: 0 is the plan itself. */
static inline uint32_t plan_count(const plan_exe *p) { return 1 + p->here.variants.count; }
static inline const plan_exe *plan_at(const plan_exe *p, uint32_t i) { return i ? p->here.variants.at[i - 1] : p; }

/* Operand `i` of a step, its results after its inputs: a slot, or PLAN_NONE. */
static inline uint32_t plan_operand(const plan_exe *p, const plan_step *s, uint32_t i) {
  BASE_ASSERT(i < s->in_count + s->out_count);
  return p->operands.at[i < s->in_count ? s->in + i : s->out + (i - s->in_count)];
}
/* What a run is given: inputs, and behind them states. */
static inline uint32_t plan_given_count(const plan_exe *p) { return p->inputs.count + p->states.count; }
static inline const plan_port *plan_given(const plan_exe *p, uint32_t i) {
  return i < p->inputs.count ? &p->inputs.at[i] : &p->states.at[i - p->inputs.count].port;
}
/* Hands `variant`, whose `sizes` are set and which may lean on constants of `plan`, over to it, to go with it. Errors
 * leave it with the caller: TD_BAD_FILE where inputs, outputs or states are not those of the plan, TD_NO_RESOURCE. */
td_status plan_add_variant(plan_exe *plan, plan_exe *variant, td_error *err);
/* The same of one that is the plan's already: checks it, and labels it. */
td_status plan_check_variant(const plan_exe *plan, plan_exe *variant, td_error *err);
const char *plan_port_kind_name(const plan_port *port); /* "tensor", "list", "optional", ... */
plan_exe *plan_new(const td_allocator *allocator);      /* NULL: out of memory */
void plan_free(plan_exe *plan);
/* Appends; PLAN_NONE when out of memory. Equal names are one. */
uint32_t plan_add_name(plan_exe *plan, const char *text);
uint32_t plan_add_attrs(plan_exe *plan, const base_attrs *attrs);
uint32_t plan_add_operands(plan_exe *plan, const uint32_t *slots, uint32_t count);
/* Found or made, and linked. Errors name what is not known. */
td_status plan_add_function(plan_exe *plan, const plan_function *function, const plan_symbols *symbols, uint32_t *index,
                            td_error *err);
/* Finds out what function `index` is. */
td_status plan_link_function(plan_exe *plan, uint32_t index, const plan_symbols *symbols, td_error *err);
uint32_t plan_add_segment(plan_exe *plan, const void *base, uint64_t bytes);
static inline const char *plan_name(const plan_exe *p, uint32_t name) {
  BASE_ASSERT(name < p->names.count);
  return p->names.at + name;
}
/* Origin `i` of a step, below its origin_count. */
static inline const char *plan_origin(const plan_exe *p, const plan_step *s, uint32_t i) {
  BASE_ASSERT(i < s->origin_count && s->origins + i < p->origins.count);
  return plan_name(p, p->origins.at[s->origins + i]);
}
/* A view of a plan, in `arena`, in which origin `i` of plan->origins is called texts[i]: all else is the plan's own.
 * NULL: out of memory. */
plan_exe *plan_retold(const plan_exe *plan, base_arena *arena, const char *const *texts);
/* Where the generated code of a step is. False: it has none. */
bool plan_code_of(const plan_exe *plan, const plan_step *step, plan_code *code);
/* The address of a CONST slot's elements. */
static inline const void *plan_constant(const plan_exe *p, const plan_slot *s) {
  BASE_ASSERT(s->place == PLAN_CONST && s->segment < p->here.bases.count);
  return (const char *)p->here.bases.at[s->segment] + s->offset;
}
static inline const base_attrs *plan_attrs(const plan_exe *p, uint32_t attrs) {
  return attrs == PLAN_NONE ? NULL : (const base_attrs *)(const void *)(p->params.at + attrs);
}
/* Fills in what forks take from the steps around them: operands, and which of them are copied. Scratch is not kept. */
td_status plan_find_captures(plan_exe *plan, base_arena *scratch, td_error *err);
/* Sets first and last of arena roots; with plan->in_place, lets results take the place of operands that die at their
 * step, and finds here.renewed and here.making. Roots are those of parts and views alone before. */
td_status plan_find_lifetimes(plan_exe *plan, base_arena *scratch, td_error *err);

/* Checks everything that a run counts on, as of a plan from a stranger: indices, texts, sizes, attribute blocks, where
 * constants lie, that every value is made before it is used, what regions and ports are to be. TD_BAD_FILE names the
 * part. Whether functions suit their operands is said by who knows operators, and, of sizes, by each binding. */
td_status plan_verify(const plan_exe *plan, td_error *err);
/* For people, for tools, for Graphviz. TD_NO_RESOURCE: the text is cut off. */
td_status plan_print(const plan_exe *plan, base_text *text);
td_status plan_print_json(const plan_exe *plan, base_text *text);
td_status plan_print_dot(const plan_exe *plan, base_text *text);
#endif
