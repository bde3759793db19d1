/* passes_priv.h -- the passes by name, and what a pass that rewrites node by node stands on. */
#ifndef PASSES_PASSES_PRIV_H
#define PASSES_PASSES_PRIV_H
#include "passes/passes.h"

#define PASS(name, purpose, when) \
  td_status passes_##name(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err);
#include "passes/passes.def"
#undef PASS

/* batchnorm.c: makes the elements of graph->scaled[i], `graph` an ir_graph. */
void passes_scale(void *graph, uint32_t i);
/* What the weights `w` are to be made of; NULL: they have their elements. Of several the first one holds. */
const ir_scaled *passes_scaled_of(const ir_graph *graph, const base_tensor *w);

/* ---- rewriting (edit.c) ---- */

typedef struct passes_edit {
  ir_graph *graph;
  const passes_setting *setting;
  base_arena *scratch; /* until the pass ends */
  BASE_VEC(uint32_t) uses;
  uint32_t *changes;
  td_error *err;
  void *user; /* of the pass */
} passes_edit;

/* Calls `visit` for every node there is when the pass begins, blocks in turn, each in its order; a node's operands are
 * up to date by then. Then settles the graph. Nodes that visits add are not visited. */
td_status passes_each(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err,
                      td_status (*visit)(passes_edit *e, ir_node node));
/* The same over an edit with graph, setting, changes, err and user set; `finish` (may be NULL) comes before the graph
 * settles. */
td_status passes_walk(passes_edit *e, td_status (*visit)(passes_edit *e, ir_node node),
                      td_status (*finish)(passes_edit *e));
/* What a pass does with the nodes of one operator. */
typedef struct passes_rule {
  ir_op_id op;
  td_status (*visit)(passes_edit *e, ir_node id, const ir_node_def *node);
} passes_rule;
/* Of products of matrices, as models spell them. */
#define PASSES_PRODUCTS(matmul, gemm) \
  {OP_aten_matmul, matmul}, { OP_td_gemm, gemm }
/* Visits the node by the rule of its operator; *found (may be NULL): there is one. */
td_status passes_apply(passes_edit *e, ir_node id, const passes_rule *rules, size_t count, bool *found);
/* Calls task(arg, i) for every i < count: on several threads where the setting lends some, else in turn. */
void passes_share(const passes_setting *setting, uint32_t count, void (*task)(void *arg, uint32_t i), void *arg);
/* Uses of a value, as edits leave them. */
uint32_t passes_uses(const passes_edit *e, ir_value v);
/* The node called `op` that gives `v` as its output 0, its operands up to date; NULL: something else does. Valid until
 * a node is added. */
ir_node_def *passes_producer(passes_edit *e, ir_value v, ir_op_id op);
/* The same, where `v` has no other use. */
ir_node_def *passes_only_producer(passes_edit *e, ir_value v, ir_op_id op);
/* The same of any product that has an epilogue. */
ir_node_def *passes_only_product(passes_edit *e, ir_value v);
/* Operand `i` if it is a constant tensor, or NULL. */
const base_tensor *passes_constant(const passes_edit *e, const ir_node_def *node, uint32_t i);
/* `v` if it is a constant tensor, or NULL. */
const base_tensor *passes_constant_value(const passes_edit *e, ir_value v);
/* What `v` is where it is a constant, or views of one that folding left as they are (fold.c). */
bool passes_shown(const ir_graph *g, ir_value v, base_tensor *t);
/* The number that `v` is where it is a constant of one element. False: it is not. */
bool passes_number(const passes_edit *e, ir_value v, double *number);
/* Adds the node of `spec` (its op given by `op` name) in front of `at`, with the origins of `at` and those of `also`
 * (NULL: none). Its operands' uses grow. *out: its first output; may be one of the operands of `spec`. */
td_status passes_add(passes_edit *e, ir_node at, ir_op_id op, ir_new_node spec, const ir_node_def *also, ir_value *out);
/* In front of `at`: `v` in an element type, itself where it has that; elements [first, end) of `v` along `axis`. *out
 * may be what `v` is. */
td_status passes_cast(passes_edit *e, ir_node at, ir_value v, td_dtype dtype, ir_value *out);
td_status passes_slice(passes_edit *e, ir_node at, ir_value v, int64_t axis, int64_t first, int64_t end, ir_value *out);
/* In front of `at`: `v`, whose rank is known, with its axes in this order. */
td_status passes_permute(passes_edit *e, ir_node at, ir_value v, const int64_t *order, ir_value *out);
/* In front of `at`: the elements of `v` along `axis` that `index` names. */
td_status passes_select(passes_edit *e, ir_node at, ir_value v, int64_t axis, ir_value index, ir_value *out);
/* The matrix that `v` is the transposed one of by a node of its own; IR_NO_VALUE: there is none. */
ir_value passes_transposed(passes_edit *e, ir_value v);
/* The sizes of `to` as aten::view takes them where its operand has those of `from`: one that is open is -1; of several,
 * those that stand in the same place of `from` are 0, copied. False: there is no saying it so, or a size is 0. */
bool passes_view_sizes(const ir_type *from, const ir_type *to, int64_t *sizes);
/* `v`, dense, viewed with the dims of `to`, in front of `at`; none: passes_view_sizes does not have them. */
td_status passes_view(passes_edit *e, ir_node at, ir_value v, const ir_type *to, ir_value *out);
/* The node that makes `v` of numbers with a scale, as passes_producer; NULL: another one does. */
ir_node_def *passes_dequantised(passes_edit *e, ir_value v);
/* The orders that put channels, axis 1 of [N, C, spatial...], last, and back. */
void passes_order_last(int32_t rank, int64_t *order);
void passes_order_first(int32_t rank, int64_t *order);
/* Of channels_last and windows. The tensor with channels last that `v` shows with channels first; none: it does not
 * come from one. `v` with channels last, in front of `at`: what it came from, or permuted. `made`, with channels last,
 * takes the place of `node`. */
ir_value passes_source_last(passes_edit *e, ir_value v);
td_status passes_to_last(passes_edit *e, ir_node at, ir_value v, ir_value *out);
td_status passes_take_last(passes_edit *e, ir_node node, ir_value made);
/* What a convolution that is not transposed pads each of its axes with, all begins, then all ends: `padding`, or what
 * `auto_pad` makes of the sizes. False: these are open. */
bool passes_find_padding(const passes_edit *e, const ir_node_def *node, const int64_t *kernel, uint32_t spatial,
                         int64_t *padding);
td_status passes_convolution_last(passes_edit *e, ir_node id, const ir_node_def *node);
td_status passes_image_last(passes_edit *e, ir_node id, const ir_node_def *node); /* pools, group norm */
/* `with` takes the place of output 0 of `node`, which goes, with whatever was there for it alone. Counts one change. */
td_status passes_take_place(passes_edit *e, ir_node node, ir_value with);
/* Removes the node that gives `v`, and what was there for it alone, where nobody uses it. */
void passes_drop(passes_edit *e, ir_value v);
/* `with` takes the place of `old`, uses and all. */
td_status passes_replace(passes_edit *e, ir_value old, ir_value with);
/* That of the setting, unless the node is among those that it leaves as they are. */
kern_precision passes_precision(const passes_edit *e, const ir_node_def *node);
/* Attributes by name; the operator must have them. */
uint32_t passes_attr(const ir_op *op, const char *name);
int64_t passes_int(const ir_node_def *node, const char *name);
double passes_float(const ir_node_def *node, const char *name);
const char *passes_str(const ir_node_def *node, const char *name);
const int64_t *passes_ints(const ir_node_def *node, const char *name, uint32_t *count);
/* Element `i` of a list of numbers that may be shorter. */
int64_t passes_int_at(const ir_node_def *node, const char *name, uint32_t i, int64_t absent);
/* All of the list are `value`; true of an empty one. */
bool passes_all_are(const ir_node_def *node, const char *name, int64_t value);
/* A size, to choose the faster of two forms by, both right for any: of an open one, what it is where every open size of
 * the inputs is that of a usual picture. False: there is no telling, since data define it. */
bool passes_assume_size(const ir_graph *g, base_dim size, int64_t *assumed);
/* Does a kernel compute the node as it is? */
bool passes_has_kernel(const passes_edit *e, const ir_node_def *node);
/* Is every pixel of a convolution made of the one pixel in its place? */
bool passes_is_pointwise(const ir_node_def *conv);
/* The axes of an aten::permute of `rank` axes, made non-negative. False: it lists another number of them. */
bool passes_order(const ir_node_def *permute, int32_t rank, int64_t *order);

/* prepack.c: the type of 16 bits that has all numbers of the weights `w`, which are f32, where there are so many that
 * they are stored in it; TD_F32: there is none. */
td_dtype passes_half_of(const base_tensor *w);

/* pairs.c: the kernel of the family that rounds its operands to bf16, where it is no slower than that of f32: it has
 * the same vectors. NULL: there is none. */
const kern_row *passes_pairs_row(const passes_setting *setting, kern_family family);
/* Does it take a matmul or a td::mix of these sizes? */
bool passes_takes_pairs(const passes_edit *e, const ir_node_def *node);

/* ---- ranges (range.c) ---- */

/* What no element of `v` exceeds in magnitude, but for rounding in f32, where the elements of all it is made of are
 * finite; INFINITY: not known. */
double passes_largest(passes_edit *e, ir_value v);

/* ---- masks of attention (attention_mask.c) ---- */

/* Masks that were transposed, as constants that layers share. */
typedef struct passes_mask {
  ir_value from, transposed;
} passes_mask;
typedef BASE_VEC(passes_mask) passes_masks;
/* In front of `at`: a constant mask [..., queries, keys] as the kernel reads it best, a view of one that lies as
 * [..., keys, queries]; any other one, and too large ones, as they are. */
td_status passes_transpose_mask(passes_edit *e, ir_node at, ir_value mask, passes_masks *seen, ir_value *to);
/* and(v, a constant that is true everywhere) -> expand(v) */
td_status passes_mask_and(passes_edit *e, ir_node id, const ir_node_def *node);
/* where(expand(c), number, number) -> expand(where(c, number, number)) */
td_status passes_mask_where(passes_edit *e, ir_node id, const ir_node_def *node);

/* ---- batch norms (batchnorm.c) ---- */

/* An inference batch norm as x * vectors[0] + vectors[1]: f32, one element per channel, in the graph's arena. *fits:
 * its parameters are constants of so many channels; else nothing is made. */
td_status passes_norm_vectors(passes_edit *e, const ir_node_def *norm, int64_t channels, base_tensor *vectors,
                              bool *fits);
/* x * vectors[0] + vectors[1], of any dims that broadcast, in front of `at`. */
td_status passes_affine(passes_edit *e, ir_node at, ir_value x, const base_tensor *vectors, ir_value *out);
#endif
