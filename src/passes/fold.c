/* fold.c -- constant folding: a node whose operands are all constants, or whose small integer result inference already
 * knows, becomes a constant.
 * Types are inferred anew on the way: a size that was computed from constants is a number afterwards.
 * Requires: a verified graph. Keeps: names of values. Breaks: nothing. Weights are left in their mapping: a large view
 * becomes a constant in the same place where it is dense, and else, since it costs nothing at run time, stays. Results
 * larger than what they are made from and than FOLD_BYTES take memory for time: up to GROWN_BYTES each, and in all.
 * Weights of 8 bits that no product of these took (int8, nbits) become what f32 has: each run would make them anew.
 * Products for which plain loops would take long, as those of tables of positions, are done by their kernels. */
#include "fuse/fuse.h"
#include "ir/cost.h"
#include "kernels/kernels.h"
#include "passes/passes_priv.h"

#include <string.h>

enum { FOLD_BYTES = 1 << 16, GROWN_BYTES = 4 << 20, ALL_GROWN_BYTES = 64 << 20, MAX_OPERANDS = 64, MAX_RESULTS = 16 };
/* Of a matrix that is transposed: larger ones are transposed while they are packed. */
enum { TRANSPOSED_BYTES = 1 << 12 };
enum { VIEWS = 4, MORE_VIEWS = 12, VIEW_OPERANDS = 8 }; /* one of the other, of a constant; operands of one */
/* Floating-point operations: of a node by plain loops, half a second of them; of all nodes by kernels, a tenth to one.
 */
static const double MOST_WORK = 5e8, MOST_KERNEL_WORK = 2e10;

static const base_tensor *constant_of(const ir_graph *g, ir_value v) { return ir_value_of(g, v)->info.constant; }

static bool show_view(const ir_graph *g, ir_value v, int depth, base_tensor *shown);

/* What `v` is: a constant, or views of one that were left as they are. *bytes: of that constant. */
static bool is_known(const ir_graph *g, ir_value v, int depth, base_tensor *t) {
  const base_tensor *constant = constant_of(g, v);
  if (constant) *t = *constant;
  return constant || (depth > 0 && show_view(g, v, depth, t));
}

static bool all_known(const ir_graph *g, const ir_node_def *node, int depth, base_value *in, const base_value **at) {
  if (node->in_count > MAX_OPERANDS) return false;
  for (uint32_t i = 0; i < node->in_count; i++) {
    at[i] = node->in[i].id ? &in[i] : NULL;
    in[i] = (base_value){.kind = BASE_TENSOR};
    if (at[i] && !is_known(g, node->in[i], depth, &in[i].tensor)) return false;
  }
  return true;
}

static bool has_known_size(const ir_type *type) {
  return type->kind == IR_TENSOR && type->rank != IR_UNRANKED && ir_known_count(type) >= 0;
}

/* What a view of known operands shows, in their memory. */
static bool show_view(const ir_graph *g, ir_value v, int depth, base_tensor *shown) {
  const ir_node made_by = ir_value_of(g, v)->node;
  const ir_node_def *node = made_by.id ? ir_node_of(g, made_by) : NULL;
  base_value in[VIEW_OPERANDS];
  const base_value *at[VIEW_OPERANDS];
  td_error ignored;
  if (!node || !node->op || !(node->op->flags & IR_OP_VIEW) || node->out_count != 1 || node->in_count > VIEW_OPERANDS ||
      !has_known_size(ir_type_of(g, v)) || base_dtype(ir_type_of(g, v)->dtype)->bits < 8 ||
      !all_known(g, node, depth - 1, in, at))
    return false;
  return ir_show(node->op, node->attrs, at, node->in_count, g->arena, ir_type_of(g, v), shown, &ignored) == TD_OK;
}

bool passes_shown(const ir_graph *g, ir_value v, base_tensor *t) { return is_known(g, v, MORE_VIEWS, t); }

/* Bytes of a result of known size; SIZE_MAX when it is not known. */
static size_t result_bytes(const ir_type *type) {
  size_t bytes;
  return base_dtype_bytes(type->dtype, ir_known_count(type), &bytes) ? bytes : SIZE_MAX;
}

/* Bytes that an operand takes, as a view those of what it shows once. */
static size_t operand_bytes(const ir_graph *g, ir_value v) {
  while (!constant_of(g, v)) v = ir_node_of(g, ir_value_of(g, v)->node)->in[0];
  return base_tensor_bytes(constant_of(g, v));
}

/* Floating-point operations; 0: unknown. */
static double flops_of(const ir_graph *g, const ir_node_def *node) {
  const ir_info *in[MAX_OPERANDS];
  ir_info out[MAX_RESULTS];
  ir_work work;
  for (uint32_t i = 0; i < node->in_count; i++) in[i] = node->in[i].id ? &ir_value_of(g, node->in[i])->info : NULL;
  for (uint32_t i = 0; i < node->out_count; i++) out[i] = ir_value_of(g, node->out[i])->info;
  return ir_cost(node->op, node->attrs, in, node->in_count, out, node->out_count, &work) ? work.flops : 0;
}

/* Is a node of known operands, the first as it lies in `x`, to be computed now? *grown: bytes that this takes. */
static bool should_fold(const ir_graph *g, const ir_node_def *node, const base_value *x, size_t *grown) {
  size_t operands = 0, results = 0;
  *grown = 0;
  for (uint32_t i = 0; i < node->in_count; i++)
    if (node->in[i].id) operands += operand_bytes(g, node->in[i]);
  for (uint32_t i = 0; i < node->out_count; i++) {
    const ir_type *type = ir_type_of(g, node->out[i]);
    size_t bytes = node->op->flags & IR_OP_DEFINES && type->kind == IR_TENSOR ? 0 : result_bytes(type);
    if (bytes == SIZE_MAX || __builtin_add_overflow(results, bytes, &results)) return false;
  }
  const bool copies = x && node->op->flags & IR_OP_VIEW_DENSE && !base_tensor_contiguous(&x->tensor);
  const bool view = !copies && node->op->flags & (IR_OP_VIEW | IR_OP_VIEW_DENSE);
  if (view && ir_type_of(g, node->out[0])->rank == 2 && results > TRANSPOSED_BYTES && results == operands) return false;
  if (results <= FOLD_BYTES) return operands <= 16 * (size_t)FOLD_BYTES || results < operands / 16 || !view;
  *grown = (copies || results > operands) && node->op->id != OP_td_dequantize_linear ? results : 0;
  return !view && *grown <= GROWN_BYTES;
}

/* Replaces result `i` of `node` by a constant of `tensor`. */
static td_status become(ir_graph *g, ir_node id, uint32_t i, const base_tensor *tensor, td_error *err) {
  ir_value old = ir_node_of(g, id)->out[i], fresh;
  TRY(ir_add_constant(g, tensor, ir_value_of(g, old)->name, &fresh, err));
  return ir_replace_value(g, old, fresh, err);
}

/* A view of constants that is dense: the same memory. */
static td_status show(ir_graph *g, ir_node id, const base_value *const *at, bool *folded, td_error *err) {
  const ir_node_def *node = ir_node_of(g, id);
  const ir_type *type = ir_type_of(g, node->out[0]);
  base_tensor shown;
  td_error ignored;
  *folded = false;
  if (!node->op->view || node->out_count != 1 || !has_known_size(type) || base_dtype(type->dtype)->bits < 8 || !at[0] ||
      !base_tensor_contiguous(&at[0]->tensor))
    return TD_OK;
  td_status status = ir_show(node->op, node->attrs, at, node->in_count, g->arena, type, &shown, &ignored);
  if (status == TD_NO_RESOURCE) return base_no_memory(err, "constant folding");
  *folded = status == TD_OK && base_tensor_contiguous(&shown);
  return *folded ? become(g, id, 0, &shown, err) : TD_OK;
}

/* By `by`, or plain loops where it is NULL. */
static td_status evaluate(ir_graph *g, ir_node id, const kern_row *by, const base_value *const *at, bool *folded,
                          td_error *err) {
  const ir_node_def *node = ir_node_of(g, id);
  base_value out[MAX_RESULTS];
  td_error ignored;
  ir_op op = *node->op;
  if (by) op.reference = by->run;
  /* A node that fails (an index out of range in a branch that never runs) fails when it runs. */
  td_status status = ir_evaluate(&op, node->attrs, at, node->in_count, g->arena, out, node->out_count, &ignored);
  if (status == TD_NO_RESOURCE) return base_no_memory(err, "constant folding");
  *folded = status == TD_OK;
  for (uint32_t i = 0; *folded && i < node->out_count; i++) *folded = out[i].kind == BASE_TENSOR;
  for (uint32_t i = 0; *folded && i < ir_node_of(g, id)->out_count; i++) TRY(become(g, id, i, &out[i].tensor, err));
  return TD_OK;
}

/* A result that inference knows in full, such as the shape of a value of fixed size. */
static td_status from_contents(ir_graph *g, ir_node id, bool *folded, td_error *err) {
  const ir_node_def *node = ir_node_of(g, id);
  *folded = false;
  if (node->out_count != 1 || node->op->flags & (IR_OP_REGION | IR_OP_RANDOM | IR_OP_EFFECT)) return TD_OK;
  base_tensor t;
  TRY(ir_tensor_of_ints(g->arena, &ir_value_of(g, node->out[0])->info, &t, folded, err));
  return *folded ? become(g, id, 0, &t, err) : TD_OK;
}

/* Values that are better known than when their users were inferred. */
typedef struct folding {
  ir_graph *g;
  const passes_setting *setting;
  base_arena *scratch;
  bool *news; /* per value that there was at the start; later ones are constants, which are news */
  uint32_t count;
  size_t grown; /* bytes of results that are larger than what they were made from */
  double flops; /* that kernels did */
  td_error *err;
} folding;

static bool has_news(const folding *f, const ir_node_def *node) {
  for (uint32_t i = 0; i < node->in_count; i++)
    if (node->in[i].id >= f->count || f->news[node->in[i].id]) return true;
  return false;
}

static td_status update(folding *f, ir_node id) {
  bool changed;
  if (!has_news(f, ir_node_of(f->g, id))) return TD_OK;
  td_error ignored;
  td_status status = ir_infer_again(f->g, id, &changed, &ignored);
  if (status == TD_NO_RESOURCE) return base_no_memory(f->err, "constant folding");
  if (status != TD_OK) return TD_OK; /* a node that cannot work fails when it runs, if ever */
  const ir_node_def *node = ir_node_of(f->g, id);
  for (uint32_t i = 0; changed && i < node->out_count; i++) f->news[node->out[i].id] = true;
  return TD_OK;
}

/* The kernel of a node that does so many floating-point operations on constants of any strides; NULL: there is none, or
 * they would be too many. */
static const kern_row *quick_kernel(const folding *f, const ir_node_def *node, double flops) {
  if (!node->op->kernel || f->flops + flops > MOST_KERNEL_WORK) return NULL;
  const ir_kernel_query *query = fuse_query(f->g, f->setting->isa, f->scratch, node); /* NULL: out of memory, too */
  const kern_row *kernel = query ? node->op->kernel(query) : NULL;
  return kernel && kernel->lanes > 1 && kernel->flags & KERN_STRIDED_IN ? kernel : NULL;
}

static td_status compute(folding *f, ir_node id, bool *folded) {
  const ir_node_def *node = ir_node_of(f->g, id);
  base_value in[MAX_OPERANDS];
  const base_value *at[MAX_OPERANDS];
  size_t grown;
  *folded = false;
  if (node->op->flags & (IR_OP_REGION | IR_OP_RANDOM | IR_OP_HOST | IR_OP_EFFECT) || !node->op->reference ||
      node->out_count > MAX_RESULTS || !all_known(f->g, node, VIEWS, in, at))
    return TD_OK;
  const double flops = flops_of(f->g, node);
  const kern_row *by = flops > MOST_WORK ? quick_kernel(f, node, flops) : NULL;
  if ((flops > MOST_WORK && !by) || !should_fold(f->g, node, at[0], &grown) || grown > ALL_GROWN_BYTES - f->grown)
    return show(f->g, id, at, folded, f->err);
  TRY(evaluate(f->g, id, by, at, folded, f->err));
  f->grown += *folded ? grown : 0;
  f->flops += by ? flops : 0;
  return TD_OK;
}

static td_status visit(folding *f, ir_block block, uint32_t *changes) {
  ir_graph *g = f->g;
  for (uint32_t i = 0; i < ir_block_of(g, block)->nodes.count; i++) {
    ir_node id = ir_block_of(g, block)->nodes.at[i];
    bool folded;
    ir_refresh(g, id);
    TRY(update(f, id));
    TRY(from_contents(g, id, &folded, f->err));
    if (!folded) TRY(compute(f, id, &folded));
    for (uint32_t b = 0; !folded && b < ir_node_of(g, id)->block_count; b++)
      TRY(visit(f, ir_node_of(g, id)->blocks[b], changes));
    if (!folded) continue;
    ir_remove_node(g, id);
    ++*changes;
  }
  return TD_OK;
}

td_status passes_fold(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  base_arena *scratch = base_arena_new(base_arena_allocator(graph->arena));
  folding f = {.g = graph, .setting = setting, .scratch = scratch, .count = graph->values.count, .err = err};
  f.news = scratch ? base_new(scratch, bool, f.count) : NULL;
  td_status status = f.news ? visit(&f, graph->top, changes) : base_no_memory(err, "constant folding");
  if (status == TD_OK) ir_settle(graph);
  base_arena_free(scratch);
  return status;
}
