/* bf16_between.c -- what stands between products of bf16 alone is stored as they read it:
 *
 *     conv(x, W)  -> conv(x, W) {result = bf16}    of td::conv, td::linear, td::linear_nbits, td::expand_depthwise,
 *                                                  td::depthwise_conv and aten::native_group_norm, where kernels
 *                                                  take that (pack.h)
 *     add(x, y)    -> td::fused(x, y)              of large images: loops, and operators that can be such
 *
 * All who read the result round it to bf16 anyway, as operand 0, or add it to their sums, as residual; or it is one of
 * a window of which they read the largest, or a part of what they read of a concatenation, or they read some of its
 * channels, or of its pixels more than once, which is the same rounded before or behind. No bit of the former changes;
 * a residual, and the image of a depthwise convolution, a norm or a loop, is rounded once more.
 *
 * Requires: packed weights; behind the pass chain, which moves loops into products. Keeps: shapes. Breaks: the types of
 * such values. */
#include "fuse/fuse.h"
#include "kernels/products/products.h"
#include "kernels/kernels.h"
#include "passes/passes_priv.h"

#include <math.h>

/* A pool, a concatenation, a slice, a border or a resize. */
typedef struct mover {
  ir_node node;
  bool reads_bf16;
} mover;

typedef struct between {
  BASE_VEC(ir_node) products;
  BASE_VEC(ir_node) loops;
  BASE_VEC(mover) movers;
  BASE_VEC(uint32_t) reads; /* by value: uses that take bf16 */
} between;

/* Does a product multiply pairs, by a kernel? It takes x, a residual and a result of bf16, then. */
static bool is_product(const passes_edit *e, const ir_node_def *node) {
  const bool linear = node->op->id == OP_td_linear;
  if (node->op->id == OP_td_linear_nbits)
    return passes_int(node, "pairs") && passes_int(node, "x_bits") == 8 &&
           kern_select(KERN_LINEAR_NBITS, TD_BF16, e->setting->isa);
  if (!linear && node->op->id != OP_td_conv) return false;
  const ir_type *w = ir_type_of(e->graph, node->in[1]);
  return w->dtype == TD_BF16 && kern_select(linear ? KERN_LINEAR : KERN_CONV, TD_BF16, e->setting->isa) &&
         (!linear || passes_int(node, "pairs"));
}

static bool is_expansion(const ir_node_def *node) { return node->op->id == OP_td_expand_depthwise; }

/* Floats of an image of a sample from which on reading or writing them takes longer than making them of bf16, or that
 * of them. */
enum { FAR_FLOATS = 1 << 18 };

/* Samples do not count: what becomes of one must not follow from how many come. */
static bool is_far(const passes_edit *e, const ir_type *t) {
  int64_t floats, sizes[BASE_MAX_RANK];
  for (int32_t i = 1; i < t->rank; i++)
    if (!passes_assume_size(e->graph, t->dims[i], &sizes[i - 1])) return false;
  return base_numel(t->rank - 1, sizes, &floats) && floats >= FAR_FLOATS;
}

/* A depthwise convolution that may read or store bf16. */
static bool is_depthwise(const passes_edit *e, const ir_node_def *node) {
  return node->op->id == OP_td_depthwise_conv && passes_int(node, "panel") == 1 &&
         passes_precision(e, node) == KERN_PRECISION_BF16 && kern_depthwise_takes_bf16(node->attrs) &&
         kern_select(KERN_DEPTHWISE, TD_BF16, e->setting->isa);
}

/* A group norm between products, in which sums are f32. */
static bool is_norm(const passes_edit *e, const ir_node_def *node) {
  return node->op->id == OP_aten_native_group_norm && passes_int(node, "channels_last") &&
         ir_type_of(e->graph, node->in[0])->dtype == TD_F32 && passes_precision(e, node) == KERN_PRECISION_BF16 &&
         !base_attr_has(node->attrs, KERN_GROUP_NORM_RESULT) && kern_select(KERN_GROUP_NORM, TD_BF16, e->setting->isa);
}

/* Numbers of an image that a loop may as well have in bf16. */
static bool may_be_narrow(const passes_edit *e, ir_value v) {
  const ir_type *t = v.id ? ir_type_of(e->graph, v) : NULL;
  return t && t->kind == IR_TENSOR && t->dtype == TD_F32 && t->rank > 1 && is_far(e, t);
}

/* A loop over large images alone, where products take tiles. One that also reads a number of each channel goes pixel
 * by pixel, where rounding takes as long as memory. */
static bool is_loop(const passes_edit *e, const ir_node_def *node) {
  const kern_row *row = kern_select(KERN_CONV, TD_BF16, e->setting->isa);
  double number;
  bool far = node->in_count > 0;
  if (!row || !kern_takes_tiles(row) || passes_precision(e, node) != KERN_PRECISION_BF16) return false;
  for (uint32_t k = 0; k < node->in_count && far; k++)
    far = may_be_narrow(e, node->in[k]) || passes_number(e, node->in[k], &number);
  return far && fuse_may_narrow(e->graph, e->setting->isa, e->scratch, node);
}

static bool is_even(base_dim dim) { return base_dim_known(dim) && dim % 2 == 0; }

/* An expansion by pairs reads whole ones. */
static bool expands_pairs(const passes_edit *e, const ir_node_def *node) {
  if (!is_expansion(node)) return false;
  const ir_type *x = ir_type_of(e->graph, node->in[0]);
  return ir_type_of(e->graph, node->in[KERN_IN_EXPAND_W])->dtype == TD_BF16 && is_even(x->dims[x->rank - 1]);
}

/* Could a node store its result as bf16? */
static bool may_store(const passes_edit *e, const ir_node_def *node) {
  const bool expansion = is_expansion(node) && kern_select(KERN_EXPAND_DEPTHWISE, TD_BF16, e->setting->isa);
  const bool depthwise = is_depthwise(e, node), norm = is_norm(e, node);
  if (is_loop(e, node)) return may_be_narrow(e, node->out[0]);
  if ((depthwise || norm) && !is_far(e, ir_type_of(e->graph, node->out[0]))) return false;
  if (norm) return true;
  const bool window = (expansion || depthwise) && passes_int(node, "channels") % 2 == 0;
  if (!window && !is_product(e, node)) return false;
  const bool chain = base_attr_has(node->attrs, node->attrs->count - 1) && !kern_chain_in_front(node->attrs);
  return !chain && node->out_count == 1 && kern_result_type(node->attrs) == TD_F32;
}

static bool is_maximum(const passes_edit *e, const ir_node_def *node) {
  return node->op->id == OP_td_max_pool && node->out_count == 1 && passes_int(node, "channels_last") &&
         kern_select(KERN_MAX_POOL, TD_BF16, e->setting->isa);
}

static bool is_join(const ir_node_def *node) { return node->op->id == OP_aten_cat; }

/* A slice whose rows begin with whole pairs. */
static bool is_slice(const passes_edit *e, const ir_node_def *node) {
  double axis = 0, first = 0;
  if (node->op->id != OP_aten_slice || node->in_count != 4 || !passes_number(e, node->in[1], &first) ||
      !passes_number(e, node->in[3], &axis))
    return false;
  const ir_type *x = ir_type_of(e->graph, node->in[0]), *out = ir_type_of(e->graph, node->out[0]);
  const bool last = axis == -1 || axis == x->rank - 1;
  return !last || (fmod(first, 2) == 0 && is_even(x->dims[x->rank - 1]) && is_even(out->dims[x->rank - 1]));
}

/* A border of pixels that are there, or an image enlarged by them, for which there is a kernel of bf16. */
static bool is_repetition(const passes_edit *e, const ir_node_def *node) {
  static const ir_op_id repetitions[] = {OP_aten_reflection_pad, OP_aten_replication_pad, OP_td_resize};
  enum { OPERANDS = 4, COUNT = sizeof repetitions / sizeof *repetitions };
  uint32_t which = 0;
  while (which < COUNT && repetitions[which] != node->op->id) which++;
  if (which == COUNT || node->in_count > OPERANDS) return false;
  ir_info x = ir_value_of(e->graph, node->in[0])->info, out = ir_value_of(e->graph, node->out[0])->info;
  const ir_info *in[OPERANDS] = {&x};
  for (uint32_t i = 1; i < node->in_count; i++)
    in[i] = node->in[i].id ? &ir_value_of(e->graph, node->in[i])->info : NULL;
  x.type.dtype = out.type.dtype = TD_BF16;
  const ir_kernel_query query = {
      .attrs = node->attrs, .in = in, .in_count = node->in_count, .out = &out, .out_count = 1, .isa = e->setting->isa};
  return node->op->kernel(&query) != NULL;
}

static bool is_mover(const passes_edit *e, const ir_node_def *node) {
  return is_maximum(e, node) || is_join(node) || is_slice(e, node) || is_repetition(e, node);
}

/* Operands of a mover that move; others say where. */
static uint32_t moved(const ir_node_def *node) { return is_join(node) ? node->in_count : 1; }

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

static td_status visit(passes_edit *e, ir_node id) {
  between *b = e->user;
  const ir_node_def *node = ir_node_of(e->graph, id);
  const bool moves = is_mover(e, node), product = is_product(e, node);
  if (is_loop(e, node)) {
    ir_node *more = base_vec_push(e->scratch, &b->loops);
    if (!more) return base_no_memory(e->err, "a pass");
    *more = id;
    for (uint32_t k = 0; k < node->in_count; k++)
      if (may_be_narrow(e, node->in[k])) TRY(count_read(e, node->in[k]));
    return TD_OK;
  }
  if (moves) {
    mover *more = base_vec_push(e->scratch, &b->movers);
    if (!more) return base_no_memory(e->err, "a pass");
    *more = (mover){.node = id};
  } else if (may_store(e, node)) {
    ir_node *more = base_vec_push(e->scratch, &b->products);
    if (!more) return base_no_memory(e->err, "a pass");
    *more = id;
  }
  const bool window = (is_depthwise(e, node) || is_norm(e, node)) && is_far(e, ir_type_of(e->graph, node->in[0]));
  if ((product && !kern_chain_in_front(node->attrs)) || expands_pairs(e, node) || window)
    TRY(count_read(e, node->in[0]));
  const bool residual = product && node->in_count > KERN_IN_RESIDUAL && node->in[KERN_IN_RESIDUAL].id;
  return residual ? count_read(e, node->in[KERN_IN_RESIDUAL]) : TD_OK;
}

static bool all_read_bf16(const passes_edit *e, ir_value v) {
  const between *b = e->user;
  return v.id < b->reads.count && b->reads.at[v.id] == passes_uses(e, v);
}

/* Is a value bf16 when all that read it take that? */
static bool comes_as_bf16(const passes_edit *e, ir_value v) {
  const ir_value_def *def = ir_value_of(e->graph, v);
  const ir_node_def *from = def->node.id && def->index == 0 ? ir_node_of(e->graph, def->node) : NULL;
  if (!from || !from->op || !all_read_bf16(e, v)) return false;
  if (is_join(from)) return true;
  return is_mover(e, from) ? comes_as_bf16(e, from->in[0]) : may_store(e, from);
}

static void take_back(between *b, const ir_node_def *node) {
  b->reads.at[node->out[0].id] = 0; /* it is not bf16 */
  for (uint32_t k = 0; k < moved(node); k++) b->reads.at[node->in[k].id]--;
}

/* Movers of which all is read as bf16 read so themselves, the last ones first; but for those with an operand that stays
 * f32. What such a one takes back another may have counted on. */
static td_status count_movers(passes_edit *e) {
  between *b = e->user;
  for (uint32_t i = b->movers.count; i-- > 0;) {
    mover *m = &b->movers.at[i];
    const ir_node_def *node = ir_node_of(e->graph, m->node);
    m->reads_bf16 = all_read_bf16(e, node->out[0]);
    for (uint32_t k = 0; k < moved(node) && m->reads_bf16; k++) TRY(count_read(e, node->in[k]));
  }
  for (bool again = true; again;) {
    again = false;
    for (uint32_t i = 0; i < b->movers.count; i++) {
      mover *m = &b->movers.at[i];
      const ir_node_def *node = ir_node_of(e->graph, m->node);
      bool all = m->reads_bf16 && all_read_bf16(e, node->out[0]);
      for (uint32_t k = 0; k < moved(node) && all; k++) all = comes_as_bf16(e, node->in[k]);
      if (all || !m->reads_bf16) continue;
      m->reads_bf16 = false;
      take_back(b, node);
      again = true;
    }
  }
  return TD_OK;
}

/* The result of a product of which all uses take bf16. That of a norm is of x's type where it does not say which, and x
 * is bf16 by now, or will be. */
static td_status store_bf16(passes_edit *e, ir_node id) {
  ir_refresh(e->graph, id);
  const ir_node_def node = *ir_node_of(e->graph, id);
  base_arg args[IR_NODE_ARGS];
  ir_value made;
  const bool all = all_read_bf16(e, node.out[0]);
  const bool reads = ir_type_of(e->graph, node.in[0])->dtype == TD_BF16 || all_read_bf16(e, node.in[0]);
  if (!all && !(reads && node.op->id == OP_aten_native_group_norm)) return TD_OK;
  uint32_t count = ir_node_args(&node, args);
  args[count++] = ARG_DTYPE("result", all ? TD_BF16 : TD_F32);
  const ir_new_node spec = {.in = node.in, .in_count = node.in_count, .args = args, .arg_count = count};
  TRY(passes_add(e, id, node.op->id, spec, NULL, &made));
  return passes_take_place(e, id, made);
}

/* A loop of which all that read a result take bf16; or an operator whose kernel takes none, and operands will be. */
static td_status narrow_loop(passes_edit *e, ir_node id) {
  ir_refresh(e->graph, id);
  const ir_node_def *node = ir_node_of(e->graph, id);
  uint32_t narrow = 0;
  bool reads = false;
  for (uint32_t i = 0; i < node->out_count; i++)
    narrow |= (uint32_t)(may_be_narrow(e, node->out[i]) && all_read_bf16(e, node->out[i])) << i;
  for (uint32_t k = 0; k < node->in_count && !(node->op->flags & IR_OP_LOOP); k++)
    reads |= node->in[k].id && (ir_type_of(e->graph, node->in[k])->dtype == TD_BF16 || comes_as_bf16(e, node->in[k]));
  if (!narrow && !reads) return TD_OK;
  fuse_narrowed loop;
  ir_value made;
  TRY(fuse_narrow(e->graph, e->setting->isa, e->scratch, node, narrow, &loop, e->err));
  const base_arg args[] = {ARG_INTS("program", loop.words, loop.word_count),
                           ARG_INTS("from", loop.from, loop.from_count)};
  const ir_new_node spec = {.in = loop.in,
                            .in_count = loop.in_count,
                            .out_count = node->out_count,
                            .args = args,
                            .arg_count = loop.from_count ? 2 : 1};
  TRY(passes_add(e, id, loop.op, spec, NULL, &made));
  const ir_node by = ir_value_of(e->graph, made)->node;
  for (uint32_t i = 1; i < spec.out_count; i++)
    TRY(passes_replace(e, ir_node_of(e->graph, id)->out[i], ir_node_of(e->graph, by)->out[i]));
  return passes_take_place(e, id, made);
}

/* A mover whose operands are bf16 now. */
static td_status move_bf16(passes_edit *e, ir_node id) {
  ir_refresh(e->graph, id);
  const ir_node_def node = *ir_node_of(e->graph, id);
  base_arg args[IR_NODE_ARGS];
  ir_value made;
  const ir_new_node spec = {
      .in = node.in, .in_count = node.in_count, .args = args, .arg_count = ir_node_args(&node, args)};
  TRY(passes_add(e, id, node.op->id, spec, NULL, &made));
  return passes_take_place(e, id, made);
}

static td_status finish(passes_edit *e) {
  const between *b = e->user;
  TRY(count_movers(e));
  for (uint32_t i = 0; i < b->products.count; i++) TRY(store_bf16(e, b->products.at[i]));
  for (uint32_t i = 0; i < b->loops.count; i++) TRY(narrow_loop(e, b->loops.at[i]));
  for (uint32_t i = 0; i < b->movers.count; i++)
    if (b->movers.at[i].reads_bf16) TRY(move_bf16(e, b->movers.at[i].node));
  return TD_OK;
}

td_status passes_bf16_between(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  between b = {0};
  passes_edit e = {.graph = graph, .setting = setting, .changes = changes, .err = err, .user = &b};
  return passes_walk(&e, visit, finish);
}
