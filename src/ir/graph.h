/* graph.h -- a graph and its construction. Ids are one-field structs so that one kind cannot pass for another; id 0 is
 * none. Everything of a graph lives in its arena, but for constants, which point into segments (file mappings, or
 * memory of the arena) and are never copied.
 *
 * Single assignment; a block's nodes stand in an order in which every value is defined before it is used; a nested
 * block sees the values of the blocks around it. */
#ifndef IR_GRAPH_H
#define IR_GRAPH_H
#include "ir/op.h"

typedef struct ir_value {
  uint32_t id;
} ir_value;
typedef struct ir_node {
  uint32_t id;
} ir_node;
typedef struct ir_block {
  uint32_t id;
} ir_block;
#define IR_NO_VALUE ((ir_value){0})

/* Where a node came from: names in the user's model, kept to the end. */
typedef struct ir_origins {
  const char *const *names; /* "/layer1/conv1 (Conv)" */
  uint32_t count;
} ir_origins;

/* Is one of them the name of a node as its user wrote it (base_node_name)? */
bool ir_origins_have(const ir_origins *origins, base_str name);
/* Is one of them in `list`, such names, comma-separated? NULL lists none. */
bool ir_origins_listed(const ir_origins *origins, const char *list);

typedef struct ir_value_def {
  ir_info info;
  const char *name; /* the user's, unique or NULL */
  ir_node node;     /* that defines it; none: a constant or a block's parameter */
  ir_block block;   /* whose parameter it is, or none */
  uint32_t index;   /* output or parameter number */
} ir_value_def;

typedef struct ir_node_def {
  const ir_op *op; /* NULL: removed */
  ir_value *in;    /* id 0: an absent optional operand */
  ir_value *out;
  uint32_t in_count, out_count;
  const base_attrs *attrs;
  ir_block *blocks; /* of regions */
  uint32_t block_count;
  ir_block parent;
  ir_origins origins;
  /* Until ir_settle, of nodes added with `before`: that node, and the next one of those in front of it; and of any node
   * the first of those in front of it. */
  ir_node before, next_ahead, ahead;
} ir_node_def;

typedef struct ir_block_def {
  BASE_VEC(ir_value) params;
  BASE_VEC(ir_value) results;
  BASE_VEC(ir_node) nodes;
  ir_node owner; /* none: the graph's own block */
} ir_block_def;

/* Bytes that constants may point into. */
typedef struct ir_segment {
  const char *name; /* file name, or "arena" */
  const void *base;
  size_t bytes;
} ir_segment;

/* What session state holds in the first run: a constant, or (`value` none) nothing, or a list of such. */
typedef struct ir_initial {
  ir_value value;
  bool list;
  const struct ir_initial *items; /* of a list */
  uint32_t count;
} ir_initial;

/* A constant whose elements are not there yet: f32, dense, from[c, ...] * scale[c]. */
typedef struct ir_scaled {
  float *to;
  base_tensor from;
  const float *scale;
} ir_scaled;

typedef struct ir_graph {
  base_arena *arena;
  base_arena *constants; /* where passes make large constants; the arena itself, unless whoever compiles wants to keep
                            them longer than the graph */
  const ir_opset *ops;
  base_dims dims;
  BASE_VEC(ir_value_def) values; /* [0] is none */
  BASE_VEC(ir_node_def) nodes;
  BASE_VEC(ir_block_def) blocks;
  BASE_VEC(ir_segment) segments;
  /* Its params are the inputs, then the states as they are when a run begins; its results are the outputs, then what
   * the states hold after the run. */
  ir_block top;
  BASE_VEC(const char *) output_names; /* per output, as the user calls it */
  BASE_VEC(uint32_t) complex_outputs;  /* positions of outputs of complex numbers, whose types hold pairs; ascending */
  BASE_VEC(ir_value) input_defaults;   /* per input: a constant, or none */
  BASE_VEC(ir_initial) states;
  BASE_VEC(base_guard) guards; /* what sizes of inputs must satisfy: checked when shapes are bound */
  BASE_VEC(ir_node) order;     /* room for ir_settle: as many as there are nodes, once one was added `before` */
  BASE_VEC(ir_scaled) scaled;  /* between the pass that scales weights and the one that packs them, else none */
  bool has_bf16;               /* operators of it computed in bf16, before the pass that widens them */
  BASE_VEC(ir_value) replaced; /* by value id, noted by ir_replace_value: what stands for it; id 0: itself */
} ir_graph;

ir_graph *ir_graph_new(const td_allocator *allocator, const ir_opset *ops); /* NULL: out of memory */
void ir_graph_free(ir_graph *graph);

static inline ir_value_def *ir_value_of(const ir_graph *g, ir_value v) {
  BASE_ASSERT(v.id < g->values.count);
  return &g->values.at[v.id];
}
static inline ir_node_def *ir_node_of(const ir_graph *g, ir_node n) {
  BASE_ASSERT(n.id < g->nodes.count);
  return &g->nodes.at[n.id];
}
/* What people know the node by. */
static inline const char *ir_node_name(const ir_node_def *node) {
  return node->origins.count ? node->origins.names[0] : node->op->name;
}
static inline ir_block_def *ir_block_of(const ir_graph *g, ir_block b) {
  BASE_ASSERT(b.id < g->blocks.count);
  return &g->blocks.at[b.id];
}
static inline const ir_type *ir_type_of(const ir_graph *g, ir_value v) { return &ir_value_of(g, v)->info.type; }

/* The pointers these give are stable only until the next call that adds one of the kind: use ids across calls. */
td_status ir_add_block(ir_graph *g, ir_node owner, ir_block *block, td_error *err);
td_status ir_add_param(ir_graph *g, ir_block block, const ir_type *type, const char *name, ir_value *value,
                       td_error *err);
td_status ir_add_result(ir_graph *g, ir_block block, ir_value value, td_error *err);
/* A graph input: a parameter of the top block. `fallback` (may be none) is used when the caller binds nothing. */
td_status ir_add_input(ir_graph *g, const ir_type *type, const char *name, ir_value fallback, ir_value *value,
                       td_error *err);
td_status ir_add_output(ir_graph *g, ir_value value, const char *name, td_error *err);
/* The last output that was added holds complex numbers, its parts along a last axis of 2. */
td_status ir_mark_complex(ir_graph *g, td_error *err);
bool ir_output_is_complex(const ir_graph *g, uint32_t index);
/* Asks something of the inputs' sizes; the text is copied. */
td_status ir_add_guard(ir_graph *g, const base_guard *guard, td_error *err);

/* Session state: *value is what the session has kept from its last run, in the first one `initial` (copied, items too).
 * `name` is its own among the states. Where nothing is stored it stays as it is; stored values must fit `type`. */
td_status ir_add_state(ir_graph *g, const ir_type *type, const char *name, const ir_initial *initial, ir_value *value,
                       td_error *err);
/* `with` is what the state `state` (the value that ir_add_state gave) holds after a run; the last call holds. */
td_status ir_store_state(ir_graph *g, ir_value state, ir_value with, td_error *err);
/* Input `input` becomes state, which is what output `output` was after a run: both numbers of its later neighbours fall
 * by one. The state has the input's name and is the last. */
td_status ir_keep_input(ir_graph *g, uint32_t input, uint32_t output, const ir_initial *initial, td_error *err);
/* State `index` at the beginning of a run, and after it. */
static inline ir_value ir_state_before(const ir_graph *g, uint32_t index) {
  return ir_block_of(g, g->top)->params.at[g->input_defaults.count + index];
}
static inline ir_value ir_state_after(const ir_graph *g, uint32_t index) {
  return ir_block_of(g, g->top)->results.at[g->output_names.count + index];
}
/* The segment in which `data` lies, and where in it. False: in none, that is, in the arena. */
bool ir_find_segment(const ir_graph *g, const void *data, uint32_t *index, size_t *offset);
/* A constant whose elements stay where they are; they must outlive the graph and lie in a segment or the arena.
 * Contents of small integer tensors become known to inference. `name` may be NULL. */
td_status ir_add_constant(ir_graph *g, const base_tensor *tensor, const char *name, ir_value *value, td_error *err);
/* The same, from numbers: a 1-D i64 tensor. */
td_status ir_add_ints(ir_graph *g, const int64_t *ints, uint32_t count, ir_value *value, td_error *err);
/* A rank-0 constant of `dtype`. */
td_status ir_add_scalar(ir_graph *g, td_dtype dtype, double number, ir_value *value, td_error *err);

typedef struct ir_new_node {
  const ir_op *op;
  const ir_value *in;
  uint32_t in_count;
  uint32_t out_count;   /* wanted; 0: one */
  const base_arg *args; /* by name, any order; the rest take their defaults */
  uint32_t arg_count;
  ir_origins origins;       /* copied */
  const ir_type *out_types; /* of regions (no infer): one per output */
  ir_node before;           /* of the same block: place the node in front of this one (takes effect at ir_settle) */
} ir_new_node;
/* Adds a node to `block`, at its end or `before` another: checks operand count and attributes against the descriptor,
 * infers the outputs. On failure nothing is added and err says which operator. `out` gets the first output, all are in
 * the node. */
td_status ir_add_node(ir_graph *g, ir_block block, const ir_new_node *spec, ir_node *node, ir_value *out,
                      td_error *err);

enum { IR_NODE_ARGS = 32 }; /* no operator has more attributes: a test holds the table against it */
/* The attributes of `node` as arguments for a new node, absent ones left out; `args` has room for IR_NODE_ARGS. Gives
 * their number. */
uint32_t ir_node_args(const ir_node_def *node, base_arg *args);

/* The blocks of a region are made with ir_add_block(owner = the node) after the node; their parameters and results with
 * the functions above:
 *   prim::If(cond) -> outs;                 two blocks without parameters, each with as many results as outs
 *   prim::Loop(trips, cond, carried...) -> carried...;   one block: parameters (i64 iteration, carried...), results
 *     (bool go on, carried...). `trips` i64 and `cond` bool are rank 0; either may be absent (none): no limit, true.
 *   prim::fork() -> future;                 one block without parameters, which a task runs: the future is of its
 * result, or of the tuple of its results. */

/* Edits, for passes, in constant time each: they are noted, and take effect at ir_settle, which a pass calls once at
 * its end. Until then ir_refresh brings the operands of one node up to date, and a removed node stands in its block
 * with op NULL (its nested nodes too). */
td_status ir_replace_value(ir_graph *g, ir_value old, ir_value with, td_error *err);
void ir_remove_node(ir_graph *g, ir_node node);
void ir_refresh(ir_graph *g, ir_node node);
/* Infers the outputs of a node anew, after its operands became better known. *changed: something new came out. Regions
 * keep their types. */
td_status ir_infer_again(ir_graph *g, ir_node node, bool *changed, td_error *err);
void ir_settle(ir_graph *g);
/* Takes carried value `at` out of a prim::Loop: operand, parameter, result of the body and output. Nobody may use the
 * parameter or the output; not between edits and ir_settle. */
void ir_drop_carried(ir_graph *g, ir_node loop, uint32_t at);
/* An open size of the inputs that is to be a number. */
typedef struct ir_size {
  const char *name; /* of its symbol */
  int64_t value;    /* not negative */
} ir_size;
/* Makes these sizes numbers wherever they stand, and infers anew what follows. Errors: TD_BAD_ARGUMENT where there is
 * no such size or a guard of the graph does not allow the value, and those of inference, which name the node. */
td_status ir_fix_sizes(ir_graph *g, const ir_size *sizes, uint32_t count, td_error *err);
/* Simplifies all sizes anew, after more of them became known (base_dim_at_least), and infers what follows: sizes as
 * contents of small tensors, too. *changes: values that are better known. Errors: those of inference. */
td_status ir_simplify_sizes(ir_graph *g, uint32_t *changes, td_error *err);
/* Uses of each value, by value id: `counts` has g->values.count entries; results of blocks count. */
void ir_count_uses(const ir_graph *g, uint32_t *counts);

/* Checks every invariant above; the error names the node. */
td_status ir_verify(const ir_graph *g, td_error *err);

/* Text. The same graph prints the same text; parsing it gives back a graph that prints the same.
 *
 *     input %0 "x": f32[batch, 3] = %1          a graph input; "= %1": its default
 *     state %9 "h": f32[batch, 3] = %1          session state; "= %1": at first. A list: "= [%1, %2]"; nothing: "= -"
 *     const %1 "w": f32[2] = {1, 2.5}           elements, of at most 64 bytes or in no segment
 *     const %2: f32[64, 147] = @0+4096          segment 0, byte 4096; strides follow where it is not dense
 *     %3, %4 = aten::topk(%0, %1) {dim = -1}: f32[..], i64[..]   # "node /topk (TopK)"
 *     %5 = prim::Loop(%6, -, %7): f32[2] {      "-": an absent operand
 *       block(%8: i64[], %9: f32[2]) {
 *         ...
 *         yield %10, %11
 *       }
 *     }
 *     output "y" %3
 *     guard 4 <= batch "what is asked of the inputs"
 *     store %9 = %3                             what state %9 holds after the run, unless it stays what it was
 *
 * Values are numbered in order of appearance; constants stand before the first node. Operands may stand before their
 * types are known, so the types after ":" may be left out: inference gives them. */
td_status ir_print(const ir_graph *g, base_text *text);
/* For people: of constants in no segment, such as packed weights, the first elements and ", ...". */
td_status ir_print_brief(const ir_graph *g, base_text *text);

/* Elements that texts of graphs refer to, each tensor dense and once, at multiples of IR_STORE_ALIGN bytes: what a file
 * of weights holds. Tensors are not copied: they must outlive the store, and the arena too. See store.c. */
typedef struct ir_stored {
  const base_tensor *tensor;
  size_t offset;
} ir_stored;
typedef struct ir_store {
  base_arena *arena;
  BASE_VEC(ir_stored) tensors; /* in the order of their offsets */
  size_t bytes;                /* behind the last */
} ir_store;
enum { IR_STORE_ALIGN = 64 };
/* *offset: where the tensor, which holds no strings, is from now on. False: out of memory, or too many bytes. */
bool ir_store_add(ir_store *store, const base_tensor *tensor, size_t *offset);
/* Hands the bytes from tensor `from` on to `write`, gaps before them too. */
td_status ir_store_write(const ir_store *store, uint32_t from, td_write_fn write, void *user, td_error *err);
/* ir_print with all constants of more than 64 bytes, wherever they are, in `store`, which the text calls segment 0. */
td_status ir_print_stored(const ir_graph *g, ir_store *store, base_text *text);
void ir_print_dot(const ir_graph *g, base_text *text);  /* Graphviz */
void ir_print_json(const ir_graph *g, base_text *text); /* nodes with operands, types and origins */
td_status ir_parse(const td_allocator *allocator, const ir_opset *ops, const char *text, size_t length,
                   const ir_segment *segments, uint32_t segment_count, ir_graph **graph, td_error *err);
#endif
