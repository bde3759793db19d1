/* join.c -- joins that cost nothing: values that stand side by side in the result of an aten::cat are made where the
 * result is. Each becomes a part of the slot of the whole: a view at an offset, rows at the pitch of the whole. A
 * join of values that lie side by side already (dense blocks join what they joined before, and one more) is a part
 * itself.
 *
 *     cat(a, b)      whole 1   |a|b|           parts 1 of 2   |a|b|·|
 *     cat(a, b, c)   whole 2   |a|b|c|    ->   whole 2        |a|b|c|
 *
 * Nothing in between may mind: a part is dense where all dimensions before the joined one are 1; else it must be joined
 * along its last dimension, be written by a kernel that can write such rows (or copied once, where it is defined) and
 * be read by steps that take them as they are. Blocks are walked backwards, so that the largest join comes first. */
#include "lower/lower_priv.h"

enum { JOIN_DIM }; /* the attribute of an operator that joins */

typedef struct joining {
  lowering *l;
  uint32_t *unsuited; /* per value: steps that would need a copy of it, were its rows pitched */
} joining;

static bool placeable(const lowering *l, ir_value v) {
  const ir_value_def *def = ir_value_of(l->graph, v);
  return v.id && !def->info.constant && lower_is_planned(l, &def->info.type) &&
         base_dtype(def->info.type.dtype)->bits >= 8 && def->info.type.dtype != TD_STRING;
}

/* Does the node join operands whose places along *axis are known? */
static bool is_join(const lowering *l, const ir_node_def *node, int32_t *axis) {
  if (!(node->op->flags & IR_OP_JOIN) || !placeable(l, node->out[0])) return false;
  const int32_t rank = ir_type_of(l->graph, node->out[0])->rank;
  int64_t dim = base_attr_int(node->attrs, JOIN_DIM);
  *axis = (int32_t)(dim < 0 ? dim + rank : dim);
  for (uint32_t i = 0; i < node->in_count; i++)
    if (!lower_is_planned(l, ir_type_of(l->graph, node->in[i])) ||
        !base_dim_known(ir_type_of(l->graph, node->in[i])->dims[*axis]))
      return false;
  return true;
}

/* Parts of this type, joined along `axis`, are dense. */
static bool parts_are_dense(const ir_type *type, int32_t axis) {
  for (int32_t i = 0; i < axis; i++)
    if (type->dims[i] != 1) return false;
  return true;
}

/* ---- who needs dense rows ---- */

static td_status count_unsuited(joining *j, const ir_node_def *node) {
  const kern_row *kernel = NULL;
  if (node->block_count || node->op->flags & IR_OP_JOIN) return TD_OK;
  TRY(lower_kernel(j->l, node, &kernel));
  bool minds =
      kernel ? !(kernel->flags & (KERN_STRIDED_IN | KERN_PITCHED_IN)) : (node->op->flags & IR_OP_VIEW_DENSE) != 0;
  for (uint32_t i = 0; i < node->in_count; i++) j->unsuited[node->in[i].id] += minds;
  return TD_OK;
}

/* ---- one join ---- */

/* The operand can be made (or copied when it is made) as a part of the whole. */
static bool can_be_part(const joining *j, const ir_node_def *join, ir_value v, bool dense) {
  const lowering *l = j->l;
  const ir_value_def *def = ir_value_of(l->graph, v);
  if (!def->node.id || !placeable(l, v) || l->parts[v.id].whole.id) return false;
  const ir_node_def *maker = ir_node_of(l->graph, def->node);
  return maker->parent.id == join->parent.id && maker->op->region == IR_REGION_NONE &&
         (dense || j->unsuited[v.id] == 0);
}

/* The operand's own step can write the part. */
static td_status is_made_there(const joining *j, ir_value v, int32_t axis, bool dense, bool *there) {
  const ir_node_def *maker = ir_node_of(j->l->graph, ir_value_of(j->l->graph, v)->node);
  const kern_row *kernel = NULL;
  int32_t own;
  *there = false;
  if (maker->op->flags & (IR_OP_VIEW | IR_OP_VIEW_DENSE | IR_OP_DEFINES)) return TD_OK;
  if (maker->out_count != 1 && !dense) return TD_OK;
  if (maker->op->flags & IR_OP_JOIN) {
    *there = is_join(j->l, maker, &own) && own == axis;
    return TD_OK;
  }
  if (!dense) TRY(lower_kernel(j->l, maker, &kernel));
  *there = dense || (kernel && kernel->flags & KERN_PITCHED_OUT);
  return TD_OK;
}

/* Do all operands stand in one whole already, one after the other? Then so does the join. */
static bool stands_already(joining *j, const ir_node_def *node, int32_t axis) {
  const lowering *l = j->l;
  const lower_part *first = &l->parts[node->in[0].id];
  int64_t at = first->at;
  if (!first->whole.id || first->axis != axis) return false;
  for (uint32_t i = 0; i < node->in_count; i++) {
    const lower_part *p = &l->parts[node->in[i].id];
    if (p->whole.id != first->whole.id || p->at != at || p->axis != axis) return false;
    at += ir_type_of(l->graph, node->in[i])->dims[axis];
  }
  l->parts[node->out[0].id] =
      (lower_part){.whole = first->whole, .at = first->at, .axis = axis, .joined = true, .made_there = true};
  return true;
}

/* Makes operands parts of `whole`, the join's result or what that is part of, which begins at `at`. */
static td_status place_operands(joining *j, const ir_node_def *node, lower_part where, bool dense) {
  lowering *l = j->l;
  for (uint32_t i = 0; i < node->in_count; i++) {
    ir_value v = node->in[i];
    if (can_be_part(j, node, v, dense)) {
      l->parts[v.id] = where;
      TRY(is_made_there(j, v, where.axis, dense, &l->parts[v.id].made_there));
    }
    where.at += ir_type_of(l->graph, v)->dims[where.axis];
  }
  return TD_OK;
}

/* It pays when most operands need no copy. */
static td_status does_pay(const joining *j, const ir_node_def *node, int32_t axis, bool dense, bool *pays) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < node->in_count; i++) {
    bool there = false;
    if (can_be_part(j, node, node->in[i], dense)) TRY(is_made_there(j, node->in[i], axis, dense, &there));
    count += there;
  }
  *pays = 2 * count >= node->in_count && count > 0;
  return TD_OK;
}

static td_status place_join(joining *j, const ir_node_def *node) {
  lowering *l = j->l;
  int32_t axis;
  bool pays = false;
  if (!is_join(l, node, &axis)) return TD_OK;
  const ir_type *type = ir_type_of(l->graph, node->out[0]);
  const bool dense = parts_are_dense(type, axis);
  if (!dense && axis != type->rank - 1) return TD_OK;
  lower_part *own = &l->parts[node->out[0].id];
  if (own->whole.id) { /* part of a later join, which counts on it */
    if (own->axis != axis) return TD_OK;
    own->joined = true;
    return place_operands(j, node, (lower_part){.whole = own->whole, .at = own->at, .axis = axis}, dense);
  }
  if (j->unsuited[node->out[0].id] <= 1 && stands_already(j, node, axis)) return TD_OK;
  TRY(does_pay(j, node, axis, dense, &pays));
  if (!pays) return TD_OK;
  own->joined = true;
  return place_operands(j, node, (lower_part){.whole = node->out[0], .axis = axis}, dense);
}

td_status lower_find_joins(lowering *l) {
  const ir_graph *g = l->graph;
  bool any = false;
  for (uint32_t i = 1; i < g->nodes.count; i++) any |= g->nodes.at[i].op && g->nodes.at[i].op->flags & IR_OP_JOIN;
  if (!any || !l->setting->kernels) return TD_OK;
  joining j = {.l = l, .unsuited = base_new(l->scratch, uint32_t, g->values.count)};
  if (!j.unsuited) return base_no_memory(l->err, "the joins");
  for (uint32_t i = 1; i < g->nodes.count; i++)
    if (g->nodes.at[i].op) TRY(count_unsuited(&j, &g->nodes.at[i]));
  for (uint32_t b = 1; b < g->blocks.count; b++)
    for (uint32_t i = g->blocks.at[b].nodes.count; i-- > 0;)
      TRY(place_join(&j, ir_node_of(g, g->blocks.at[b].nodes.at[i])));
  return TD_OK;
}
