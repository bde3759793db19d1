/* widen.c -- what is of half precision is computed in f32, where kernels and the passes that follow are:
 *
 *     matmul(x, W)    of f16 or bf16 -> _to_copy(matmul(_to_copy(x), W in f32))
 *     silu(h)                        -> _to_copy(silu(_to_copy(h)))
 *     _to_copy(_to_copy(v) to f16)   -> v        where no element of v can exceed f16's range (range.c)
 *     _to_copy(_to_copy(v) to bf16)  -> v        bf16 has the range of f32
 *
 * Between two operators of half precision a value so keeps its f32 digits, unless it may be too large for f16: then it
 * is rounded as before, and becomes infinite where it did, if the next one makes another number of that: clamp does
 * not. (Of bf16 that are the numbers within 2^-8 of f32's largest one, where sums in another order overflow, too.) What
 * compares, counts or truncates gets rounded numbers, and so does what is of f32 behind a cast of the model's own from
 * f32.
 *
 * Requires: a verified graph. Keeps: types; what is finite. Breaks: bit equality: results are nearer to the exact ones.
 */
#include "passes/passes_priv.h"

#include <math.h>
#include <string.h>

enum { MAX_OPERANDS = 16, LEAST_INFINITE = 65520 }; /* from there on the nearest number of f16 is infinity */

typedef struct made_here {
  uint32_t node, value;    /* the first ones that this pass made */
  BASE_VEC(ir_value) wide; /* of constants by value id, in f32; none: not yet */
} made_here;

static bool is_half(td_dtype dtype) { return dtype == TD_F16 || dtype == TD_BF16; }

/* The constant `t`, which `v` is, in f32: once, since layers may share it. */
static td_status widen_constant(passes_edit *e, ir_value v, const base_tensor *t, ir_value *out) {
  made_here *m = e->user;
  while (m->wide.count <= v.id) {
    ir_value *more = base_vec_push(e->scratch, &m->wide);
    if (!more) return base_no_memory(e->err, "a pass");
    *more = IR_NO_VALUE;
  }
  if (m->wide.at[v.id].id) return *out = m->wide.at[v.id], TD_OK;
  base_tensor wide = base_tensor_of(NULL, TD_F32, t->rank, t->dims);
  const int64_t count = base_tensor_numel(t);
  float *to = base_arena_alloc_uncleared(e->graph->arena, base_tensor_bytes(&wide), 64);
  if (!to) return base_no_memory(e->err, "weights");
  base_convert(TD_F32, to, t->dtype, t->data, count, false);
  wide.data = to;
  TRY(ir_add_constant(e->graph, &wide, NULL, out, e->err));
  m->wide.at[v.id] = *out;
  return TD_OK;
}

static bool is_listed(const ir_node_def *node, const ir_op_id *list, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (node->op->id == list[i]) return true;
  return false;
}

/* What moves elements. */
static bool moves(const ir_node_def *node) {
  static const ir_op_id list[] = {
      OP_aten_view,    OP_aten_permute,   OP_aten_expand,       OP_aten_slice,        OP_aten_index_select,
      OP_aten_squeeze, OP_aten_unsqueeze, OP_td_flatten,        OP_aten_repeat,       OP_aten_constant_pad_nd,
      OP_aten_cat,     OP_aten_unflatten, OP_td_depth_to_space, OP_td_space_to_depth, OP_td_chunk,
      OP_aten_flip,    OP_aten_gather,    OP_aten_tril,         OP_aten_triu,
  };
  return is_listed(node, list, sizeof list / sizeof *list);
}

/* Is the f32 value `v` a constant of half precision, widened here, that was moved? */
static bool shows_constant(passes_edit *e, ir_value v) {
  while (!passes_constant_value(e, v)) {
    const ir_node made_by = ir_value_of(e->graph, v)->node;
    if (!made_by.id) return false;
    ir_refresh(e->graph, made_by);
    const ir_node_def *node = ir_node_of(e->graph, made_by);
    if (!node->op || !(node->op->flags & (IR_OP_VIEW | IR_OP_VIEW_DENSE))) return false;
    v = node->in[0];
  }
  return v.id >= ((const made_here *)e->user)->value;
}

/* May the f32 value `v` be infinite where it is rounded to `dtype`, and finite here? */
static bool may_overflow(passes_edit *e, ir_value v, td_dtype dtype) {
  return dtype == TD_F16 && !shows_constant(e, v) && passes_largest(e, v) >= LEAST_INFINITE;
}

/* The f32 value that `v` is rounded from; none. */
static ir_value unrounded(passes_edit *e, ir_value v) {
  const ir_node_def *cast = passes_producer(e, v, OP_aten__to_copy);
  return cast && ir_type_of(e->graph, cast->in[0])->dtype == TD_F32 ? cast->in[0] : IR_NO_VALUE;
}

static bool is_bounded_clamp(const passes_edit *e, const ir_node_def *node) {
  double low, high;
  return node->op->id == OP_aten_clamp && node->in_count > 2 && passes_number(e, node->in[1], &low) &&
         passes_number(e, node->in[2], &high) && isfinite(low) && isfinite(high);
}

/* Does the node make the same of what f16 has no numbers for as of infinity, and nobody else reads it? */
static bool saturates(const passes_edit *e, const ir_node_def *node) {
  static const ir_op_id list[] = {OP_aten_sigmoid, OP_aten_tanh, OP_aten_erf, OP_aten_exp};
  return (is_listed(node, list, sizeof list / sizeof *list) || is_bounded_clamp(e, node)) &&
         passes_uses(e, node->in[0]) == 1;
}

/* `v`, of half precision, in f32, in front of `at`. `saturated`: it may be finite where rounding makes it infinite. */
static td_status widened(passes_edit *e, ir_node at, ir_value v, bool saturated, ir_value *out) {
  const base_tensor *t = passes_constant_value(e, v);
  const ir_value wide = unrounded(e, v);
  if (t && base_tensor_contiguous(t)) return widen_constant(e, v, t, out);
  if (wide.id && (saturated || !may_overflow(e, wide, ir_type_of(e->graph, v)->dtype))) return *out = wide, TD_OK;
  return passes_cast(e, at, v, TD_F32, out);
}

static td_status widen(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_node_def from = *node; /* the graph's nodes move */
  const td_dtype dtype = ir_type_of(e->graph, from.out[0])->dtype;
  base_arg args[IR_NODE_ARGS];
  ir_value in[MAX_OPERANDS], first, narrow = IR_NO_VALUE;
  if (!is_half(dtype) || from.in_count > MAX_OPERANDS) return TD_OK;
  const bool saturating = saturates(e, &from);
  e->graph->has_bf16 |= dtype == TD_BF16;
  memcpy(in, from.in, from.in_count * sizeof *in);
  for (uint32_t i = 0; i < from.in_count; i++)
    if (in[i].id && ir_type_of(e->graph, in[i])->dtype == dtype)
      TRY(widened(e, id, in[i], saturating && i == 0, &in[i]));
  const ir_new_node spec = {.in = in,
                            .in_count = from.in_count,
                            .args = args,
                            .arg_count = ir_node_args(&from, args),
                            .out_count = from.out_count};
  TRY(passes_add(e, id, from.op->id, spec, NULL, &first));
  const ir_node made = ir_value_of(e->graph, first)->node;
  for (uint32_t k = from.out_count; k-- > 0;) { /* the first one last: its node goes then */
    TRY(passes_cast(e, id, ir_node_of(e->graph, made)->out[k], ir_type_of(e->graph, from.out[k])->dtype, &narrow));
    if (k > 0) TRY(passes_replace(e, from.out[k], narrow));
  }
  return passes_take_place(e, id, narrow);
}

/* What moves elements: in f32 where they come from there, or are constants that are not only looked up; else the narrow
 * ones are moved. */
static td_status widen_moved(passes_edit *e, ir_node id, const ir_node_def *node) {
  const td_dtype dtype = ir_type_of(e->graph, node->out[0])->dtype;
  const bool table = node->op->flags & IR_OP_LOOKUP;
  for (uint32_t i = 0; i < node->in_count; i++) {
    const ir_value v = node->in[i];
    if (!v.id || ir_type_of(e->graph, v)->dtype != dtype || (passes_constant_value(e, v) && !table)) continue;
    if (!unrounded(e, v).id) return TD_OK;
  }
  return widen(e, id, node);
}

/* A cast to f32 of what this pass made. */
static td_status visit_cast(passes_edit *e, ir_node id, const ir_node_def *node) {
  const made_here *first = e->user;
  const ir_value v = node->in[0], wide = unrounded(e, v);
  const td_dtype dtype = ir_type_of(e->graph, v)->dtype;
  const bool made = wide.id && ir_value_of(e->graph, v)->node.id >= first->node;
  if (!made || !is_half(dtype) || ir_type_of(e->graph, node->out[0])->dtype != TD_F32 || may_overflow(e, wide, dtype))
    return TD_OK;
  return passes_take_place(e, id, wide);
}

/* What computes, by arithmetic that is near enough in f32. */
static bool computes(const ir_node_def *node) {
  static const ir_op_id list[] = {
      OP_aten_matmul,
      OP_td_gemm,
      OP_aten_convolution,
      OP_aten_einsum,
      OP_td_max_pool,
      OP_td_avg_pool,
      OP_aten_add,
      OP_aten_sub,
      OP_aten_mul,
      OP_aten_div,
      OP_aten_neg,
      OP_aten_abs,
      OP_aten_sqrt,
      OP_aten_rsqrt,
      OP_aten_reciprocal,
      OP_aten_pow,
      OP_aten_square,
      OP_aten_exp,
      OP_aten_expm1,
      OP_aten_log,
      OP_aten_log1p,
      OP_aten_sin,
      OP_aten_cos,
      OP_aten_erf,
      OP_aten_tanh,
      OP_aten_sigmoid,
      OP_aten_relu,
      OP_aten_clamp,
      OP_aten_gelu,
      OP_aten_silu,
      OP_aten_mish,
      OP_aten_elu,
      OP_td_prelu,
      OP_aten_leaky_relu,
      OP_aten_hardswish,
      OP_td_hard_sigmoid,
      OP_aten_softplus,
      OP_td_softsign,
      OP_aten_where,
      OP_aten_maximum,
      OP_aten_minimum,
      OP_aten__softmax,
      OP_aten__log_softmax,
      OP_aten_mean,
      OP_aten_sum,
      OP_aten_amax,
      OP_aten_amin,
      OP_aten_native_layer_norm,
      OP_aten_rms_norm,
      OP_aten_native_group_norm,
      OP_aten__native_batch_norm_legit_no_training,
      OP_td_resize,
      OP_td_grid_sample,
      OP_td_lstm,
      OP_td_gru,
      OP_td_rnn,
      OP_td_rotary_embedding,
      OP_aten_scaled_dot_product_attention,
  };
  return is_listed(node, list, sizeof list / sizeof *list);
}

static td_status visit(passes_edit *e, ir_node id) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  if (node->op->id == OP_aten__to_copy) return visit_cast(e, id, node);
  return computes(node) ? widen(e, id, node) : moves(node) ? widen_moved(e, id, node) : TD_OK;
}

td_status passes_widen(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  made_here made = {.node = graph->nodes.count, .value = graph->values.count};
  passes_edit e = {.graph = graph, .setting = setting, .changes = changes, .err = err, .user = &made};
  return passes_walk(&e, visit, NULL);
}
