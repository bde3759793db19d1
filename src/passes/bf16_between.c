/* bf16_between.c -- what stands between products of bf16 alone is stored as they read it:
 *
 *     conv(x, W)  -> conv(x, W) {result = bf16}    of td::conv, td::linear and td::expand_depthwise, where kernels
 *                                                  take that (pack.h)
 *
 * All who read the result round it to bf16 anyway, as operand 0, or add it to their sums, as residual; or it is one of
 * a window of which they read the largest, which is the same rounded before or behind. No bit of the former changes; a
 * residual is rounded once more.
 *
 * Requires: packed weights; behind the pass chain, which moves loops into products. Keeps: shapes. Breaks: the types of
 * such values. */
#include "kernels/expand.h"
#include "kernels/kernels.h"
#include "kernels/pack.h"
#include "passes/passes_priv.h"

typedef struct between {
  BASE_VEC(ir_node) products, pools;
  BASE_VEC(uint32_t) reads; /* by value: uses that take bf16 */
} between;

/* A td::expand_depthwise by pairs, whose residual is f32. */
static bool is_expansion(const ir_node_def *node) { return node->op->id == OP_td_expand_depthwise; }

static bool expands_bf16(const passes_edit *e, const ir_node_def *node) {
  const ir_type *x = ir_type_of(e->graph, node->in[0]);
  return ir_type_of(e->graph, node->in[KERN_IN_EXPAND_W])->dtype == TD_BF16 && base_dim_known(x->dims[x->rank - 1]) &&
         x->dims[x->rank - 1] % 2 == 0 && passes_int(node, "channels") % 2 == 0;
}

static bool takes_bf16(const passes_edit *e, const ir_node_def *node) {
  if (is_expansion(node)) return expands_bf16(e, node);
  const bool linear = node->op->id == OP_td_linear;
  if (!linear && node->op->id != OP_td_conv) return false;
  const ir_type *w = ir_type_of(e->graph, node->in[1]);
  const kern_row *row = kern_select(linear ? KERN_LINEAR : KERN_CONV, TD_BF16, e->setting->isa);
  return w->dtype == TD_BF16 && row && kern_takes_bf16(row) && (!linear || passes_int(node, "pairs"));
}

static td_status count_read(passes_edit *e, ir_value v) {
  between *b = e->user;
  while (b->reads.count <= v.id) {
    uint32_t *more = base_vec_push(e->scratch, &b->reads);
    if (!more) return base_no_memory(e->err, "a pass");
    *more = 0;
  }
  b->reads.at[v.id]++;
  return TD_OK;
}

static bool is_maximum(const passes_edit *e, const ir_node_def *node) {
  return node->op->id == OP_td_max_pool && node->out_count == 1 && passes_int(node, "channels_last") &&
         kern_select(KERN_MAX_POOL, TD_BF16, e->setting->isa);
}

static td_status visit(passes_edit *e, ir_node id) {
  between *b = e->user;
  const ir_node_def *node = ir_node_of(e->graph, id);
  if (is_maximum(e, node)) {
    ir_node *pool = base_vec_push(e->scratch, &b->pools);
    if (!pool) return base_no_memory(e->err, "a pass");
    *pool = id;
  }
  if (!takes_bf16(e, node)) return TD_OK;
  ir_node *more = base_vec_push(e->scratch, &b->products);
  if (!more) return base_no_memory(e->err, "a pass");
  *more = id;
  if (!kern_chain_in_front(node->attrs)) TRY(count_read(e, node->in[0]));
  const bool residual = !is_expansion(node) && node->in_count > KERN_IN_RESIDUAL && node->in[KERN_IN_RESIDUAL].id;
  return residual ? count_read(e, node->in[KERN_IN_RESIDUAL]) : TD_OK;
}

static bool all_read_bf16(const passes_edit *e, ir_value v) {
  const between *b = e->user;
  return v.id < b->reads.count && b->reads.at[v.id] == passes_uses(e, v);
}

/* The result of a product of which all uses take bf16. */
static td_status store_bf16(passes_edit *e, ir_node id) {
  ir_refresh(e->graph, id);
  const ir_node_def node = *ir_node_of(e->graph, id);
  const ir_value out = node.out[0];
  const bool chain = base_attr_has(node.attrs, node.attrs->count - 1) && !kern_chain_in_front(node.attrs);
  if (chain || kern_result_type(node.attrs) != TD_F32 || node.out_count > 1 || !all_read_bf16(e, out)) return TD_OK;
  base_arg args[IR_NODE_ARGS];
  uint32_t count = ir_node_args(&node, args);
  args[count++] = ARG_DTYPE("result", TD_BF16);
  const ir_new_node spec = {.in = node.in, .in_count = node.in_count, .args = args, .arg_count = count};
  ir_value made;
  TRY(passes_add(e, id, node.op->id, spec, NULL, &made));
  return passes_take_place(e, id, made);
}

/* A pool of what is bf16 now. */
static td_status pool_bf16(passes_edit *e, ir_node id) {
  ir_refresh(e->graph, id);
  const ir_node_def node = *ir_node_of(e->graph, id);
  base_arg args[IR_NODE_ARGS];
  ir_value made;
  if (ir_type_of(e->graph, node.in[0])->dtype != TD_BF16 || ir_type_of(e->graph, node.out[0])->dtype == TD_BF16)
    return TD_OK;
  const ir_new_node spec = {.in = node.in, .in_count = 1, .args = args, .arg_count = ir_node_args(&node, args)};
  TRY(passes_add(e, id, node.op->id, spec, NULL, &made));
  return passes_take_place(e, id, made);
}

static td_status finish(passes_edit *e) {
  const between *b = e->user;
  for (uint32_t i = b->pools.count; i-- > 0;) { /* one behind another first */
    const ir_node_def *pool = ir_node_of(e->graph, b->pools.at[i]);
    if (all_read_bf16(e, pool->out[0])) TRY(count_read(e, pool->in[0]));
  }
  for (uint32_t i = 0; i < b->products.count; i++) TRY(store_bf16(e, b->products.at[i]));
  for (uint32_t i = 0; i < b->pools.count; i++) TRY(pool_bf16(e, b->pools.at[i]));
  return TD_OK;
}

td_status passes_bf16_between(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  between b = {0};
  passes_edit e = {.graph = graph, .setting = setting, .changes = changes, .err = err, .user = &b};
  return passes_walk(&e, visit, finish);
}
