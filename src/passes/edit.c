/* edit.c -- the common ground of passes that rewrite node by node. Use counts are kept true through every edit, so that
 * "nobody else uses this" may be asked at any time. */
#include "passes/passes_priv.h"
#include "fuse/fuse.h"

#include <string.h>

static uint32_t *uses_of(passes_edit *e, ir_value v) {
  while (e->uses.count <= v.id) {
    uint32_t *more = base_vec_push(e->scratch, &e->uses);
    if (!more) return NULL;
    *more = 0;
  }
  return &e->uses.at[v.id];
}

/* One use fewer; what is left. */
static uint32_t take_use(passes_edit *e, ir_value v) {
  BASE_ASSERT(v.id < e->uses.count && e->uses.at[v.id] > 0);
  return --e->uses.at[v.id];
}

/* The counts are those of the settled graph. Nobody asks in builds without assertions. */
__attribute__((unused)) static bool uses_are_true(passes_edit *e) {
  uint32_t *uses = base_new(e->scratch, uint32_t, (size_t)e->graph->values.count + 1);
  if (!uses) return true;
  ir_count_uses(e->graph, uses);
  for (uint32_t v = 1; v < e->graph->values.count && v < e->uses.count; v++)
    if (uses[v] != e->uses.at[v]) return false;
  return true;
}

static td_status walk(passes_edit *e, td_status (*visit)(passes_edit *e, ir_node node)) {
  ir_graph *g = e->graph;
  if (!uses_of(e, (ir_value){g->values.count})) return base_no_memory(e->err, "a pass");
  ir_count_uses(g, e->uses.at);
  for (uint32_t b = 1, blocks = g->blocks.count; b < blocks; b++) {
    for (uint32_t i = 0, count = g->blocks.at[b].nodes.count; i < count; i++) {
      ir_node node = g->blocks.at[b].nodes.at[i];
      if (!ir_node_of(g, node)->op) continue;
      ir_refresh(g, node);
      TRY(visit(e, node));
    }
  }
  return TD_OK;
}

td_status passes_each(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err,
                      td_status (*visit)(passes_edit *e, ir_node node)) {
  passes_edit e = {.graph = graph, .setting = setting, .changes = changes, .err = err};
  return passes_walk(&e, visit, NULL);
}

td_status passes_walk(passes_edit *e, td_status (*visit)(passes_edit *e, ir_node node),
                      td_status (*finish)(passes_edit *e)) {
  e->scratch = base_arena_new_brief(base_arena_allocator(e->graph->arena));
  td_status status = e->scratch ? walk(e, visit) : base_no_memory(e->err, "a pass");
  if (status == TD_OK && finish) status = finish(e);
  if (status == TD_OK) ir_settle(e->graph);
  BASE_ASSERT(status != TD_OK || uses_are_true(e));
  base_arena_free(e->scratch);
  return status;
}

td_status passes_apply(passes_edit *e, ir_node id, const passes_rule *rules, size_t count, bool *found) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  size_t i = 0;
  while (i < count && node->op->id != rules[i].op) i++;
  if (found) *found = i < count;
  return i < count ? rules[i].visit(e, id, node) : TD_OK;
}

void passes_share(const passes_setting *setting, uint32_t count, void (*task)(void *arg, uint32_t i), void *arg) {
  if (setting->share) {
    setting->share(count, task, arg);
    return;
  }
  for (uint32_t i = 0; i < count; i++) task(arg, i);
}

uint32_t passes_uses(const passes_edit *e, ir_value v) { return v.id < e->uses.count ? e->uses.at[v.id] : 0; }

/* The node that gives `v` as its output 0; NULL: none. */
static ir_node_def *made_by(passes_edit *e, ir_value v) {
  if (!v.id) return NULL;
  const ir_value_def *def = ir_value_of(e->graph, v);
  ir_node_def *node = def->node.id && def->index == 0 ? ir_node_of(e->graph, def->node) : NULL;
  return node && node->op ? node : NULL;
}

ir_node_def *passes_producer(passes_edit *e, ir_value v, ir_op_id op) {
  ir_node_def *node = made_by(e, v);
  if (!node || node->op->id != op) return NULL;
  ir_refresh(e->graph, ir_value_of(e->graph, v)->node);
  return node;
}

ir_node_def *passes_only_product(passes_edit *e, ir_value v) {
  ir_node_def *node = passes_uses(e, v) == 1 ? made_by(e, v) : NULL;
  if (!node || !(node->op->flags & IR_OP_EPILOGUE)) return NULL;
  ir_refresh(e->graph, ir_value_of(e->graph, v)->node);
  return node;
}

ir_node_def *passes_only_producer(passes_edit *e, ir_value v, ir_op_id op) {
  return passes_uses(e, v) == 1 ? passes_producer(e, v, op) : NULL;
}

const base_tensor *passes_constant_value(const passes_edit *e, ir_value v) {
  return v.id ? ir_value_of(e->graph, v)->info.constant : NULL;
}

const base_tensor *passes_constant(const passes_edit *e, const ir_node_def *node, uint32_t i) {
  return i < node->in_count ? passes_constant_value(e, node->in[i]) : NULL;
}

bool passes_number(const passes_edit *e, ir_value v, double *number) {
  const base_tensor *t = passes_constant_value(e, v);
  if (!t || t->dtype == TD_STRING || base_tensor_numel(t) != 1) return false;
  *number = base_load_f64(t->dtype, t->data, 0);
  return true;
}

static td_status merge_origins(passes_edit *e, const ir_node_def *first, const ir_node_def *second, ir_origins *to) {
  uint32_t count = first ? first->origins.count : 0;
  const char **names = base_new(e->scratch, const char *, count + second->origins.count + 1);
  if (!names) return base_no_memory(e->err, "origins");
  for (uint32_t i = 0; i < count; i++) names[i] = first->origins.names[i];
  for (uint32_t i = 0; i < second->origins.count; i++) {
    bool known = false;
    for (uint32_t k = 0; k < count && !known; k++) known = names[k] == second->origins.names[i];
    if (!known) names[count++] = second->origins.names[i];
  }
  *to = (ir_origins){names, count};
  return TD_OK;
}

td_status passes_add(passes_edit *e, ir_node at, ir_op_id op, ir_new_node spec, const ir_node_def *also,
                     ir_value *out) {
  const ir_node_def *anchor = ir_node_of(e->graph, at);
  spec.op = ir_opset_at(e->graph->ops, op);
  spec.before = at;
  if (!spec.op) return base_fail(e->err, TD_INTERNAL, NULL, -1, "a pass adds a node like one that is not of the set");
  TRY(merge_origins(e, also, anchor, &spec.origins));
  ir_node id;
  TRY(ir_add_node(e->graph, anchor->parent, &spec, &id, out, e->err));
  if (!uses_of(e, (ir_value){e->graph->values.count})) return base_no_memory(e->err, "a pass");
  /* The node's own operands, not those of `spec`: `out` may lie among these, and values in their place by now. */
  ir_refresh(e->graph, id);
  const ir_node_def *made = ir_node_of(e->graph, id);
  for (uint32_t i = 0; i < made->in_count; i++) e->uses.at[made->in[i].id]++;
  return TD_OK;
}

td_status passes_cast(passes_edit *e, ir_node at, ir_value v, td_dtype dtype, ir_value *out) {
  const base_arg arg = ARG_DTYPE("dtype", dtype);
  if (ir_type_of(e->graph, v)->dtype == dtype) return *out = v, TD_OK;
  return passes_add(e, at, OP_aten__to_copy, (ir_new_node){.in = &v, .in_count = 1, .args = &arg, .arg_count = 1}, NULL,
                    out);
}

td_status passes_slice(passes_edit *e, ir_node at, ir_value v, int64_t axis, int64_t first, int64_t end,
                       ir_value *out) {
  const int64_t ints[] = {first, end, axis};
  ir_value in[4] = {v};
  for (uint32_t i = 0; i < 3; i++) TRY(ir_add_ints(e->graph, &ints[i], 1, &in[1 + i], e->err));
  return passes_add(e, at, OP_aten_slice, (ir_new_node){.in = in, .in_count = 4}, NULL, out);
}

td_status passes_permute(passes_edit *e, ir_node at, ir_value v, const int64_t *order, ir_value *out) {
  const base_arg arg = ARG_INTS("dims", order, ir_type_of(e->graph, v)->rank);
  return passes_add(e, at, OP_aten_permute, (ir_new_node){.in = &v, .in_count = 1, .args = &arg, .arg_count = 1}, NULL,
                    out);
}

td_status passes_select(passes_edit *e, ir_node at, ir_value v, int64_t axis, ir_value index, ir_value *out) {
  const ir_value in[2] = {v, index};
  const base_arg dim = ARG_INT("dim", axis);
  return passes_add(e, at, OP_aten_index_select, (ir_new_node){.in = in, .in_count = 2, .args = &dim, .arg_count = 1},
                    NULL, out);
}

ir_value passes_transposed(passes_edit *e, ir_value v) {
  int64_t order[BASE_MAX_RANK];
  const ir_node_def *permute = passes_producer(e, v, OP_aten_permute);
  return permute && passes_order(permute, 2, order) && order[0] == 1 ? permute->in[0] : IR_NO_VALUE;
}

ir_node_def *passes_dequantised(passes_edit *e, ir_value v) {
  return v.id ? passes_producer(e, v, OP_td_dequantize_linear) : NULL;
}

void passes_order_first(int32_t rank, int64_t *order) {
  for (int32_t i = 0; i < rank; i++) order[i] = i == 0 ? 0 : i == 1 ? rank - 1 : i - 1;
}

void passes_order_last(int32_t rank, int64_t *order) {
  for (int32_t i = 0; i < rank; i++) order[i] = i == 0 ? 0 : i == rank - 1 ? 1 : i + 1;
}

enum { DROP_DEPTH = 64 }; /* longer chains are left to the pass `dead` */

static bool is_used(const passes_edit *e, const ir_node_def *node) {
  for (uint32_t i = 0; i < node->out_count; i++)
    if (passes_uses(e, node->out[i])) return true;
  return false;
}

/* Removes a node that nobody uses any more, and what was there for it alone. */
static void drop(passes_edit *e, ir_node node, uint32_t depth) {
  const ir_node_def *def = ir_node_of(e->graph, node);
  ir_refresh(e->graph, node);
  ir_remove_node(e->graph, node);
  for (uint32_t i = 0; i < def->in_count; i++) {
    const ir_value_def *in = ir_value_of(e->graph, def->in[i]);
    bool last = def->in[i].id && take_use(e, def->in[i]) == 0;
    const ir_node_def *maker = in->node.id ? ir_node_of(e->graph, in->node) : NULL;
    if (last && maker && maker->op && !is_used(e, maker) && !maker->block_count && depth < DROP_DEPTH)
      drop(e, in->node, depth + 1);
  }
}

void passes_drop(passes_edit *e, ir_value v) {
  ir_node made_by = ir_value_of(e->graph, v)->node;
  const ir_node_def *node = made_by.id ? ir_node_of(e->graph, made_by) : NULL;
  if (node && node->op && !node->block_count && !is_used(e, node)) drop(e, made_by, 0);
}

td_status passes_replace(passes_edit *e, ir_value old, ir_value with) {
  if (!uses_of(e, old) || !uses_of(e, with)) return base_no_memory(e->err, "a pass");
  e->uses.at[with.id] += e->uses.at[old.id];
  e->uses.at[old.id] = 0;
  return ir_replace_value(e->graph, old, with, e->err);
}

td_status passes_take_place(passes_edit *e, ir_node node, ir_value with) {
  TRY(passes_replace(e, ir_node_of(e->graph, node)->out[0], with));
  drop(e, node, 0);
  ++*e->changes;
  return TD_OK;
}

uint32_t passes_attr(const ir_op *op, const char *name) {
  uint32_t i = 0;
  while (i + 1 < op->attr_count && strcmp(op->attrs[i].name, name) != 0) i++;
  BASE_ASSERT(i < op->attr_count && strcmp(op->attrs[i].name, name) == 0);
  return i;
}

kern_precision passes_precision(const passes_edit *e, const ir_node_def *node) {
  return ir_origins_listed(&node->origins, e->setting->keep_f32) ? KERN_PRECISION_F32 : e->setting->precision;
}

int64_t passes_int(const ir_node_def *node, const char *name) {
  return base_attr_int(node->attrs, passes_attr(node->op, name));
}

double passes_float(const ir_node_def *node, const char *name) {
  return base_attr_float(node->attrs, passes_attr(node->op, name));
}

const char *passes_str(const ir_node_def *node, const char *name) {
  return base_attr_str(node->attrs, passes_attr(node->op, name));
}

const int64_t *passes_ints(const ir_node_def *node, const char *name, uint32_t *count) {
  return base_attr_ints(node->attrs, passes_attr(node->op, name), count);
}

int64_t passes_int_at(const ir_node_def *node, const char *name, uint32_t i, int64_t absent) {
  uint32_t count;
  const int64_t *list = passes_ints(node, name, &count);
  return i < count ? list[i] : absent;
}

bool passes_view_sizes(const ir_type *from, const ir_type *to, int64_t *sizes) {
  uint32_t open = 0, left = 0;
  for (int32_t i = 0; i < to->rank; i++) open += !base_dim_known(to->dims[i]);
  for (int32_t i = 0; i < to->rank; i++) {
    const bool known = base_dim_known(to->dims[i]), copied = i < from->rank && from->dims[i] == to->dims[i];
    if (known && to->dims[i] == 0) return false;
    sizes[i] = known ? to->dims[i] : open > 1 && copied ? 0 : -1;
    left += sizes[i] == -1;
  }
  return to->rank >= 0 && left <= 1;
}

td_status passes_view(passes_edit *e, ir_node at, ir_value v, const ir_type *to, ir_value *out) {
  int64_t sizes[BASE_MAX_RANK];
  ir_value in[2] = {v};
  bool copies = false;
  *out = IR_NO_VALUE;
  if (!passes_view_sizes(ir_type_of(e->graph, v), to, sizes)) return TD_OK;
  for (int32_t i = 0; i < to->rank; i++) copies |= sizes[i] == 0;
  const base_arg zero = ARG_BOOL("zero_copies", true);
  TRY(ir_add_ints(e->graph, sizes, (uint32_t)to->rank, &in[1], e->err));
  const ir_new_node spec = {.in = in, .in_count = 2, .args = &zero, .arg_count = copies};
  return passes_add(e, at, OP_aten_view, spec, NULL, out);
}

enum { USUAL_SIZE = 224 }; /* pixels along an axis */

bool passes_assume_size(const ir_graph *g, base_dim size, int64_t *assumed) {
  return base_dim_eval_alike(&g->dims, size, USUAL_SIZE, assumed) && *assumed > 0;
}

bool passes_all_are(const ir_node_def *node, const char *name, int64_t value) {
  uint32_t count;
  const int64_t *list = passes_ints(node, name, &count);
  for (uint32_t i = 0; i < count; i++)
    if (list[i] != value) return false;
  return true;
}

bool passes_has_kernel(const passes_edit *e, const ir_node_def *node) {
  const ir_kernel_query *query =
      node->op->kernel ? fuse_query(e->graph, e->setting->isa, e->scratch, node) : NULL; /* NULL: out of memory, too */
  return query && node->op->kernel(query);
}

bool passes_is_pointwise(const ir_node_def *conv) {
  return passes_all_are(conv, "kernel", 1) && passes_all_are(conv, "stride", 1) && passes_all_are(conv, "padding", 0);
}

bool passes_order(const ir_node_def *permute, int32_t rank, int64_t *order) {
  uint32_t count;
  const int64_t *dims = passes_ints(permute, "dims", &count);
  if (rank < 0 || (count != 0 && count != (uint32_t)rank)) return false;
  for (int32_t i = 0; i < rank; i++) order[i] = !count ? rank - 1 - i : dims[i] < 0 ? dims[i] + rank : dims[i];
  return true;
}

base_arg *passes_find_arg(base_arg *args, uint32_t count, const char *name) {
  for (uint32_t i = 0; i < count; i++)
    if (strcmp(args[i].name, name) == 0) return &args[i];
  return NULL;
}

base_arg *passes_arg(base_arg *args, uint32_t count, const char *name) {
  base_arg *found = passes_find_arg(args, count, name);
  BASE_ASSERT(found);
  return found;
}
