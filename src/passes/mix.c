/* mix.c -- transpose, product with constant weights, transpose back becomes a product with the weights on the
 * left, without transposes.
 *
 *     permute(linear(permute(x), W) + b)                  -> mix(W', x) + b'        the last two axes change places
 *     permute(linear(gelu(linear(permute(x), V) + a), W)) -> mix(W', gelu(mix(V', x) + a'))
 *
 * as token mixers have it. Vectors along the tokens become columns.
 * Requires: a verified graph; the values between used here alone. Keeps: types. Breaks: bit equality, for sums may be
 * in another order. Channels-first images are left alone: channels_last will transpose them anyway. */
#include "passes/passes_priv.h"

#include <string.h>

enum { MOST = 12, LEAST = 16 /* rows that were tokens' places, now columns of the product */ };

/* The nodes between, last one first; ids, for nodes move. */
typedef struct path {
  ir_node nodes[MOST];
  uint32_t operand[MOST]; /* which of its operands the path goes through */
  uint32_t count, products;
  ir_value source;
} path;

static const ir_node_def *maker_of(passes_edit *e, ir_value v, ir_node *id) {
  *id = ir_value_of(e->graph, v)->node;
  if (!id->id || !ir_node_of(e->graph, *id)->op) return NULL;
  ir_refresh(e->graph, *id);
  return ir_node_of(e->graph, *id);
}

/* Do the last two axes change places, and no others? */
static bool swaps(passes_edit *e, const ir_node_def *node) {
  int64_t order[BASE_MAX_RANK];
  if (node->op->id != OP_aten_permute) return false;
  const int32_t rank = ir_type_of(e->graph, node->in[0])->rank;
  if (rank < 3 || !passes_order(node, rank, order)) return false;
  for (int32_t i = 0; i < rank - 2; i++)
    if (order[i] != i) return false;
  return order[rank - 2] == rank - 1;
}

/* One number, or a vector along the last axis, that is constant. */
static bool is_column(passes_edit *e, ir_value v, int64_t n) {
  const base_tensor *t = passes_constant_value(e, v);
  return t && (base_tensor_numel(t) == 1 || (t->rank == 1 && t->dims[0] == n));
}

/* The one operand that is no constant, where the others are numbers or vectors. */
static bool is_pointwise(passes_edit *e, const ir_node_def *node, uint32_t *operand) {
  const ir_type *out = ir_type_of(e->graph, node->out[0]);
  uint32_t found = UINT32_MAX;
  if (!(node->op->flags & IR_OP_ELEMENTWISE) || node->out_count != 1 || node->block_count || out->dtype != TD_F32)
    return false;
  for (uint32_t i = 0; i < node->in_count; i++) {
    if (!node->in[i].id || is_column(e, node->in[i], out->dims[out->rank - 1])) continue;
    if (found != UINT32_MAX || !ir_type_equal(ir_type_of(e->graph, node->in[i]), out)) return false;
    found = i;
  }
  *operand = found;
  return found != UINT32_MAX;
}

static bool is_product(passes_edit *e, const ir_node_def *node) {
  const base_tensor *w = passes_constant(e, node, 1);
  return node->op->id == OP_td_linear && node->in_count <= 3 && w && w->rank == 2 && !passes_int(node, "panel") &&
         strcmp(passes_str(node, "act"), "none") == 0 &&
         (node->in_count < 3 || !node->in[2].id || passes_constant(e, node, 2));
}

/* Of reshaped images and of convolutions the axes are about to change. */
static bool may_be_image(passes_edit *e, ir_value v) {
  ir_node id;
  const ir_node_def *node = maker_of(e, v, &id);
  return !node || node->op->flags & IR_OP_VIEW_DENSE || node->op->id == OP_aten_convolution;
}

/* From the operand of a permutation up to another one. */
static bool find_path(passes_edit *e, ir_value v, path *p) {
  *p = (path){.count = 0};
  for (; p->count < MOST; p->count++) {
    const ir_node_def *node = maker_of(e, v, &p->nodes[p->count]);
    if (!node) return false;
    if (swaps(e, node)) {
      const ir_type *t = ir_type_of(e->graph, node->in[0]);
      p->source = node->in[0];
      return p->products > 0 && base_dim_known(t->dims[t->rank - 1]) && t->dims[t->rank - 1] >= LEAST &&
             !may_be_image(e, p->source);
    }
    if (passes_uses(e, v) != 1) return false;
    if (is_product(e, node)) p->products++;
    else if (!is_pointwise(e, node, &p->operand[p->count])) return false;
    v = node->in[p->operand[p->count]];
  }
  return false;
}

/* W as [n, k], dense. */
static td_status transpose_weights(passes_edit *e, const ir_node_def *node, ir_value *made) {
  const base_tensor *w = passes_constant(e, node, 1);
  base_tensor transposed = *w;
  *made = node->in[1];
  if (passes_int(node, "trans_w") && base_tensor_contiguous(w)) return TD_OK;
  if (!passes_int(node, "trans_w")) {
    transposed.dims[0] = w->dims[1], transposed.dims[1] = w->dims[0];
    transposed.strides[0] = w->strides[1], transposed.strides[1] = w->strides[0];
  }
  size_t bytes = base_tensor_bytes(&transposed);
  void *data = base_arena_alloc_aligned(e->graph->constants, bytes + 1, 64);
  if (!data) return base_no_memory(e->err, "transposed weights");
  base_tensor_pack(data, &transposed);
  const base_tensor dense = base_tensor_of(data, TD_F32, 2, transposed.dims);
  return ir_add_constant(e->graph, &dense, NULL, made, e->err);
}

/* A vector along the last axis, along the one before it. */
static td_status make_column(passes_edit *e, ir_value v, ir_value *made) {
  const base_tensor *t = passes_constant_value(e, v);
  base_tensor column = *t;
  *made = v;
  if (base_tensor_numel(t) == 1) return TD_OK;
  column.rank = 2;
  column.dims[1] = column.strides[1] = 1;
  return ir_add_constant(e->graph, &column, NULL, made, e->err);
}

static td_status add_product(passes_edit *e, ir_node at, const ir_node_def *node, ir_value *v) {
  ir_value in[2] = {IR_NO_VALUE, *v};
  TRY(transpose_weights(e, node, &in[0]));
  TRY(passes_add(e, at, OP_td_mix, (ir_new_node){.in = in, .in_count = 2}, node, v));
  if (node->in_count < 3 || !node->in[2].id) return TD_OK;
  in[0] = *v;
  TRY(make_column(e, node->in[2], &in[1]));
  return passes_add(e, at, OP_aten_add, (ir_new_node){.in = in, .in_count = 2}, node, v);
}

static td_status add_pointwise(passes_edit *e, ir_node at, const ir_node_def *node, uint32_t operand, ir_value *v) {
  ir_value in[IR_NODE_ARGS];
  base_arg args[IR_NODE_ARGS];
  const ir_new_node spec = {.in = in, .in_count = node->in_count, .args = args, .arg_count = ir_node_args(node, args)};
  if (node->in_count > IR_NODE_ARGS) return base_fail(e->err, TD_INTERNAL, node->op->name, -1, "too many operands");
  for (uint32_t i = 0; i < node->in_count; i++) {
    in[i] = node->in[i];
    if (i == operand) in[i] = *v;
    else if (in[i].id) TRY(make_column(e, node->in[i], &in[i]));
  }
  return passes_add(e, at, node->op->id, spec, node, v);
}

static td_status visit(passes_edit *e, ir_node id) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  path p;
  if (!swaps(e, node) || !find_path(e, node->in[0], &p)) return TD_OK;
  ir_value v = p.source;
  for (uint32_t i = p.count; i-- > 0;) {
    const ir_node_def at = *ir_node_of(e->graph, p.nodes[i]);
    if (at.op->id == OP_td_linear) TRY(add_product(e, id, &at, &v));
    else TRY(add_pointwise(e, id, &at, p.operand[i], &v));
  }
  return passes_take_place(e, id, v);
}

td_status passes_mix(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
