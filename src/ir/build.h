/* build.h -- how front ends make a graph: a place to add nodes to, an origin for them, and one error.
 *
 * The error is sticky: after a failure every function here does nothing and gives zero values (no value, 0, false,
 * texts ""), so that a front end reads as straight code and checks `status` once. The pieces of a graph that are not
 * here (inputs, outputs, segments) are made with graph.h and their status goes through ir_build_take. */
#ifndef IR_BUILD_H
#define IR_BUILD_H
#include "ir/graph.h"

/* Where nodes come from: the innermost name is their origin, and the node's name in errors ("node NAME"). Frames belong
 * to the caller, usually to its C stack. */
typedef struct ir_frame {
  const char *name;
  const struct ir_frame *outer;
} ir_frame;

typedef struct ir_build ir_build;
struct ir_build {
  ir_graph *graph;
  ir_block block;        /* nodes are added to its end */
  td_status status;      /* of the first failure; TD_OK while there is none */
  td_error *err;         /* never NULL; filled with the first failure */
  const ir_frame *frame; /* the innermost origin, or NULL */
  /* The body of a loop is about to be built again: what was made of values from `first_value` on (names, a front end's
   * own tables) will not be used. May be NULL; may fail through ir_build_take, to bound the memory of a hostile model.
   */
  void (*again)(ir_build *b, uint32_t first_value);
  void *user; /* of `again` */
};

/* Starts at the end of the graph's own block. */
ir_build ir_build_of(ir_graph *graph, td_error *err);
static inline bool ir_build_failed(const ir_build *b) { return b->status != TD_OK; }
/* Takes a status of ir or base, whose error is in b->err already, into the sticky one. */
void ir_build_take(ir_build *b, td_status status);
void ir_build_fail(ir_build *b, td_status code, const char *format, ...) BASE_PRINTF(3, 4);
/* Zeroed, lives as long as the graph; NULL (and failed) when out of memory. 0 bytes give a pointer too. */
void *ir_build_alloc(ir_build *b, size_t bytes);
/* Everything built until the matching leave has the origin `name`, which must live as long. `frame` is the caller's. */
void ir_build_enter(ir_build *b, ir_frame *frame, const char *name);
void ir_build_leave(ir_build *b);

/* ---- values ---- */

/* Of no value: an unranked tensor of TD_INVALID. Valid until the next value is made. */
const ir_type *ir_build_type(const ir_build *b, ir_value v);
static inline td_dtype ir_build_dtype(const ir_build *b, ir_value v) { return ir_build_type(b, v)->dtype; }
/* Rank of v; fails where only running can tell. */
int32_t ir_build_rank(ir_build *b, ir_value v);
/* `axis` in [-rank, rank) made non-negative; fails otherwise. */
int64_t ir_build_axis(ir_build *b, int64_t axis, int32_t rank);
/* All elements of v as numbers, if they are known now and no more than some thousands. The arrays live as long as the
 * graph. */
bool ir_build_known_ints(ir_build *b, ir_value v, const int64_t **ints, uint32_t *count);
bool ir_build_known_floats(ir_build *b, ir_value v, const double **floats, uint32_t *count);
/* The one element of v, as above. */
bool ir_build_known_int(ir_build *b, ir_value v, int64_t *value);

/* ---- constants ---- */

ir_value ir_build_ints(ir_build *b, const int64_t *ints, uint32_t count); /* i64, rank 1 */
ir_value ir_build_int(ir_build *b, int64_t value);                        /* i64, rank 0 */
ir_value ir_build_scalar(ir_build *b, td_dtype dtype, double value);      /* rank 0 */
ir_value ir_build_constant(ir_build *b, const base_tensor *tensor);       /* elements are copied into the graph */

/* ---- nodes ---- */

/* Adds the operator `op` (its name, as "aten::add") and gives its first output. Absent operands at the end may be left
 * in. Attributes stand in any order; those left out take their defaults. */
ir_value ir_emit(ir_build *b, const char *op, const ir_value *in, uint32_t in_count, const base_arg *args,
                 uint32_t arg_count);
/* The same with `out_count` outputs, which `outs` gets (NULL: nobody wants them). */
void ir_emit_many(ir_build *b, const char *op, const ir_value *in, uint32_t in_count, const base_arg *args,
                  uint32_t arg_count, ir_value *outs, uint32_t out_count);
/* IR_EMIT(b, "aten::add", x, y); IR_EMIT_ARGS(b, "aten::cat", ((ir_value[]){x, y}), 2, ARG_INT("dim", 0)) */
#define IR_EMIT(b, op, ...) \
  ir_emit((b), (op), (ir_value[]){__VA_ARGS__}, sizeof((ir_value[]){__VA_ARGS__}) / sizeof(ir_value), NULL, 0)
#define IR_EMIT_ARGS(b, op, ins, in_count, ...) \
  ir_emit((b), (op), (ins), (in_count), (base_arg[]){__VA_ARGS__}, sizeof((base_arg[]){__VA_ARGS__}) / sizeof(base_arg))
ir_value ir_build_cast(ir_build *b, ir_value v, td_dtype dtype); /* v itself when it has that dtype */
/* A tensor of one element as a number or flag of rank 0; fails naming it (`what`) when it has another dtype. An absent
 * value stays absent. */
ir_value ir_build_to_scalar(ir_build *b, ir_value v, td_dtype dtype, const char *what);

/* ---- control flow ---- */

/* Builds branch `which` (0: the condition holds) into b->block, and gives as many results as the If has. */
typedef void (*ir_branch_fn)(ir_build *b, void *user, uint32_t which, ir_value *results);
/* prim::If over `cond`, one element of bool. Types of results are what both branches say: sizes that differ are open.
 * Where the condition is known, that branch alone is built, in place. */
void ir_build_if(ir_build *b, ir_value cond, ir_branch_fn branch, void *user, uint32_t count, ir_value *outs);

/* A loop to build. `body` builds one iteration into b->block: it gets the iteration's number (i64, from 0) and the
 * carried values, and fills results: [0] whether to go on (bool, rank 0; none: yes), then the next carried values, then
 * what is collected (a tensor per iteration).
 *
 * Types of carried values are a fixed point: the body is built for the types of the initial values; where a result is
 * of another type, what differs is opened (an open size, then an open rank) and the body is built again, so that `body`
 * runs several times; before each repetition b->again is called. What is collected goes through lists. */
typedef struct ir_build_loop ir_build_loop;
struct ir_build_loop {
  void (*body)(ir_build *b, ir_build_loop *l, ir_value iteration, const ir_value *carried, ir_value *results);
  void *user;
  ir_value trips, cond;    /* i64 and bool of rank 0; either may be absent: no limit, true */
  const ir_value *initial; /* as many as `carried` */
  uint32_t carried, collected;
  /* results */
  ir_value *outs; /* carried values, then lists of what was collected */
  ir_type *items; /* of what is collected: one per list */
  /* the builder's own */
  ir_type *types;
  uint16_t *open;
  ir_value *params, *results;
};
/* Adds prim::Loop to b->block and fills l->outs and l->items, which live as long as the graph. */
void ir_build_run_loop(ir_build *b, ir_build_loop *l);
/* What `l` collected as list `i`, stacked along a new axis. */
ir_value ir_build_stacked(ir_build *b, const ir_build_loop *l, uint32_t i, int64_t axis);

/* The pieces, for regions of other kinds. A block is built before the region that owns it: set b->block to it and back.
 */
ir_block ir_build_block(ir_build *b);
ir_value ir_build_param(ir_build *b, ir_block block, const ir_type *type);
void ir_build_result(ir_build *b, ir_block block, ir_value value);
/* Empties a block that will not be used; nothing outside of it may use its values. */
void ir_build_discard(ir_build *b, ir_block block);
/* Adds the region `op` to b->block, with the operands and results of `spec`, and gives it its finished blocks. */
void ir_build_region(ir_build *b, const char *op, ir_new_node spec, const ir_block *blocks, uint32_t block_count,
                     ir_value *outs);
/* What both types say: sizes that differ become new symbols (in a list, whose items may all differ: no shape at all),
 * ranks that differ unranked, a value and none an optional. Fails where the kinds or dtypes cannot meet. */
ir_type ir_build_join(ir_build *b, const ir_type *x, const ir_type *y);
#endif
