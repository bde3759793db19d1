/* fold.c -- constant folding: a node whose operands are all constants, or whose small integer result inference already
 * knows, becomes a constant.
 * Types are inferred anew on the way: a size that was computed from constants is a number afterwards.
 * Requires: a verified graph. Keeps: names of values. Breaks: nothing. Weights are left in their mapping: a large view
 * becomes a constant in the same place where it is dense, and else, since it costs nothing at run time, stays; and a
 * result larger than what it is made from and than FOLD_BYTES would only take memory. */
#include "passes/passes_priv.h"

#include <string.h>

enum { FOLD_BYTES = 1 << 16, MAX_OPERANDS = 64, MAX_RESULTS = 16 };

static const base_tensor *constant_of(const ir_graph *g, ir_value v) { return ir_value_of(g, v)->info.constant; }

static bool all_constant(const ir_graph *g, const ir_node_def *node, size_t *bytes) {
  *bytes = 0;
  for (uint32_t i = 0; i < node->in_count; i++) {
    if (!node->in[i].id) continue;
    if (!constant_of(g, node->in[i])) return false;
    *bytes += base_tensor_bytes(constant_of(g, node->in[i]));
  }
  return true;
}

/* Bytes of a result of known size; SIZE_MAX when it is not known. */
static size_t result_bytes(const ir_type *type) {
  size_t bytes;
  return base_dtype_bytes(type->dtype, ir_known_count(type), &bytes) ? bytes : SIZE_MAX;
}

static bool worth_folding(const ir_graph *g, const ir_node_def *node) {
  size_t operands, results = 0;
  if (node->op->flags & (IR_OP_REGION | IR_OP_RANDOM | IR_OP_HOST | IR_OP_EFFECT) || !node->op->reference) return false;
  if (node->in_count > MAX_OPERANDS || node->out_count > MAX_RESULTS || !all_constant(g, node, &operands)) return false;
  for (uint32_t i = 0; i < node->out_count; i++) {
    const ir_type *type = ir_type_of(g, node->out[i]);
    size_t bytes = node->op->flags & IR_OP_DEFINES && type->kind == IR_TENSOR ? 0 : result_bytes(type);
    if (bytes == SIZE_MAX || __builtin_add_overflow(results, bytes, &results)) return false;
  }
  if (results <= FOLD_BYTES) return operands <= 16 * (size_t)FOLD_BYTES || results < operands / 16;
  return !(node->op->flags & (IR_OP_VIEW | IR_OP_VIEW_DENSE)) && results <= operands;
}

/* Replaces result `i` of `node` by a constant of `tensor`. */
static td_status become(ir_graph *g, ir_node id, uint32_t i, const base_tensor *tensor, td_error *err) {
  ir_value old = ir_node_of(g, id)->out[i], fresh;
  TRY(ir_add_constant(g, tensor, ir_value_of(g, old)->name, &fresh, err));
  return ir_replace_value(g, old, fresh, err);
}

static void read_operands(const ir_graph *g, const ir_node_def *node, base_value *in, const base_value **at) {
  for (uint32_t i = 0; i < node->in_count; i++) {
    at[i] = node->in[i].id ? &in[i] : NULL;
    if (at[i]) in[i] = (base_value){.kind = BASE_TENSOR, .tensor = *constant_of(g, node->in[i])};
  }
}

static bool can_show(const ir_graph *g, const ir_node_def *node) {
  size_t bytes;
  if (!node->op->view || node->out_count != 1 || node->in_count > MAX_OPERANDS || !all_constant(g, node, &bytes))
    return false;
  const ir_type *type = ir_type_of(g, node->out[0]);
  return type->kind == IR_TENSOR && type->rank != IR_UNRANKED && ir_known_count(type) >= 0 &&
         base_dtype(type->dtype)->bits >= 8 && base_tensor_contiguous(constant_of(g, node->in[0]));
}

/* A view of constants that is dense: the same memory. */
static td_status show(ir_graph *g, ir_node id, bool *folded, td_error *err) {
  const ir_node_def *node = ir_node_of(g, id);
  base_value in[MAX_OPERANDS];
  const base_value *at[MAX_OPERANDS];
  base_tensor shown;
  td_error ignored;
  read_operands(g, node, in, at);
  td_status status =
      ir_show(node->op, node->attrs, at, node->in_count, g->arena, ir_type_of(g, node->out[0]), &shown, &ignored);
  if (status == TD_NO_RESOURCE) return base_no_memory(err, "constant folding");
  *folded = status == TD_OK && base_tensor_contiguous(&shown);
  return *folded ? become(g, id, 0, &shown, err) : TD_OK;
}

static td_status evaluate(ir_graph *g, ir_node id, bool *folded, td_error *err) {
  const ir_node_def *node = ir_node_of(g, id);
  base_value in[MAX_OPERANDS], out[MAX_RESULTS];
  const base_value *at[MAX_OPERANDS];
  read_operands(g, node, in, at);
  td_error ignored;
  /* A node that fails (an index out of range in a branch that never runs) fails when it runs. */
  td_status status = ir_evaluate(node->op, node->attrs, at, node->in_count, g->arena, out, node->out_count, &ignored);
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
  bool *news; /* per value that there was at the start; later ones are constants, which are news */
  uint32_t count;
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

static td_status visit(folding *f, ir_block block, uint32_t *changes) {
  ir_graph *g = f->g;
  for (uint32_t i = 0; i < ir_block_of(g, block)->nodes.count; i++) {
    ir_node id = ir_block_of(g, block)->nodes.at[i];
    bool folded;
    ir_refresh(g, id);
    TRY(update(f, id));
    TRY(from_contents(g, id, &folded, f->err));
    if (!folded && worth_folding(g, ir_node_of(g, id))) TRY(evaluate(g, id, &folded, f->err));
    else if (!folded && can_show(g, ir_node_of(g, id))) TRY(show(g, id, &folded, f->err));
    for (uint32_t b = 0; !folded && b < ir_node_of(g, id)->block_count; b++)
      TRY(visit(f, ir_node_of(g, id)->blocks[b], changes));
    if (!folded) continue;
    ir_remove_node(g, id);
    ++*changes;
  }
  return TD_OK;
}

td_status passes_fold(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  (void)setting;
  base_arena *scratch = base_arena_new(base_arena_allocator(graph->arena));
  folding f = {.g = graph, .count = graph->values.count, .err = err};
  f.news = scratch ? base_new(scratch, bool, f.count) : NULL;
  td_status status = f.news ? visit(&f, graph->top, changes) : base_no_memory(err, "constant folding");
  if (status == TD_OK) ir_settle(graph);
  base_arena_free(scratch);
  return status;
}
