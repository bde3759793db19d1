/* reduce_last.c -- reductions that no kernel takes along their axes run along the last ones, as rows of loops do:
 *
 *     prod(x) {dim = [0]}    -> prod(permute(x, [1, 2, 0])) {dim = [-1]}
 *
 * Requires: a verified graph; known axes. Keeps: types, numbers (sums are taken in another order). Breaks: nothing. */
#include "kernels/loops/loops.h"
#include "passes/passes_priv.h"

#include <string.h>

static const ir_op_id reductions[] = {OP_aten_sum, OP_aten_mean, OP_aten_prod,      OP_aten_amax,     OP_aten_amin,
                                      OP_aten_any, OP_aten_all,  OP_aten_logsumexp, OP_td_square_sum, OP_td_log_sum};

/* Bit i: axis i is reduced. False: that is not known. */
static bool reduced_axes(const passes_edit *e, const ir_node_def *node, int32_t rank, uint32_t *mask) {
  uint32_t count;
  const int64_t *dims = passes_ints(node, "dim", &count);
  int64_t given[BASE_MAX_RANK];
  if (node->in_count > 1 && node->in[1].id) {
    const base_tensor *t = passes_constant(e, node, 1);
    if (!t || t->dtype != TD_I64 || t->rank > 1 || base_tensor_numel(t) > BASE_MAX_RANK) return false;
    count = (uint32_t)base_tensor_numel(t);
    for (uint32_t i = 0; i < count; i++) given[i] = base_load_i64(TD_I64, t->data, i * (t->rank ? t->strides[0] : 0));
    dims = given;
  }
  *mask = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (dims[i] < -rank || dims[i] >= rank) return false;
    *mask |= 1u << (dims[i] < 0 ? dims[i] + rank : dims[i]);
  }
  return true;
}

/* Axes that stay, then those that go; gives how many stay. */
static int32_t order_of(int32_t rank, uint32_t mask, int64_t *order) {
  int32_t stay = 0, at = 0;
  for (int32_t i = 0; i < rank; i++)
    if (!(mask >> i & 1)) order[stay++] = i;
  at = stay;
  for (int32_t i = 0; i < rank; i++)
    if (mask >> i & 1) order[at++] = i;
  return stay;
}

/* Are they neighbouring axes of so few elements that loops reduce them where they stand? */
static bool is_few(const ir_type *t, uint32_t mask) {
  int64_t elements = 1;
  const uint32_t lowest = mask & (~mask + 1);
  for (int32_t i = 0; i < t->rank; i++) {
    if (!(mask >> i & 1)) continue;
    if (!base_dim_known(t->dims[i]) || t->dims[i] >= KERN_FUSED_SHORT) return false;
    elements *= t->dims[i];
    if (elements >= KERN_FUSED_SHORT) return false;
  }
  return ((mask + lowest) & mask) == 0;
}

static td_status visit_reduction(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_node_def reduction = *node;
  const ir_type *t = ir_type_of(e->graph, node->in[0]);
  const int32_t rank = t->rank;
  int64_t order[BASE_MAX_RANK], last[BASE_MAX_RANK];
  uint32_t mask;
  if (t->kind > IR_BOOL || rank < 2 || rank > BASE_MAX_RANK || !reduced_axes(e, node, rank, &mask)) return TD_OK;
  const int32_t stay = order_of(rank, mask, order);
  if (stay == 0 || stay == rank || mask == ((1u << (rank - stay)) - 1) << stay || passes_has_kernel(e, node))
    return TD_OK;
  if (is_few(t, mask)) return TD_OK;
  ir_value permuted, v = IR_NO_VALUE;
  const base_arg axes = ARG_INTS("dims", order, (uint32_t)rank);
  const ir_new_node permute = {.in = reduction.in, .in_count = 1, .args = &axes, .arg_count = 1};
  TRY(passes_add(e, id, OP_aten_permute, permute, NULL, &permuted));
  for (int32_t i = 0; i < rank - stay; i++) last[i] = i - (rank - stay);
  const base_arg dim = ARG_INTS("dim", last, (uint32_t)(rank - stay));
  const ir_new_node spec = {.in = &permuted, .in_count = 1, .args = &dim, .arg_count = 1};
  TRY(passes_add(e, id, reduction.op->id, spec, NULL, &v));
  if (passes_int(&reduction, "keepdim")) {
    ir_value in[] = {v, IR_NO_VALUE};
    TRY(ir_add_ints(e->graph, order + stay, (uint32_t)(rank - stay), &in[1], e->err));
    TRY(passes_add(e, id, OP_aten_unsqueeze, (ir_new_node){.in = in, .in_count = 2}, NULL, &v));
  }
  return passes_take_place(e, id, v);
}

static td_status visit(passes_edit *e, ir_node id) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++)
    if (node->op->id == reductions[i]) return visit_reduction(e, id, node);
  return TD_OK;
}

td_status passes_reduce_last(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
