/* widen.c -- what is of half precision is computed in f32, where kernels and the passes that follow are:
 *
 *     matmul(x, W)    of f16 or bf16 -> _to_copy(matmul(_to_copy(x), W in f32))
 *     silu(h)                        -> _to_copy(silu(_to_copy(h)))
 *     _to_copy(_to_copy(v) to f16)   -> v        where no element of v can exceed f16's range (range.c)
 *
 * Between two operators of the lists a value so keeps its f32 digits, unless it may be too large for its type: then
 * it is rounded as before, and becomes infinite where it did. What compares, counts or truncates gets rounded numbers,
 * and the model's own casts stay.
 *
 * Requires: a verified graph. Keeps: types; what is finite. Breaks: bit equality: results are nearer to the exact ones.
 */
#include "passes/passes_priv.h"

#include <string.h>

enum { MAX_OPERANDS = 16 };

static bool is_half(td_dtype dtype) { return dtype == TD_F16 || dtype == TD_BF16; }

/* What rounds to no number of the type: halfway between its largest one and the next power of 2. */
static double too_large(td_dtype dtype) { return dtype == TD_F16 ? 65520 : 0x1.ffp127; }

/* The constant `t` in f32. */
static td_status widen_constant(passes_edit *e, const base_tensor *t, ir_value *out) {
  base_tensor wide = base_tensor_of(NULL, TD_F32, t->rank, t->dims);
  const int64_t count = base_tensor_numel(t);
  float *to = base_arena_alloc_uncleared(e->graph->arena, base_tensor_bytes(&wide), 64);
  if (!to) return base_no_memory(e->err, "weights");
  for (int64_t i = 0; i < count; i++) to[i] = (float)base_load_f64(t->dtype, t->data, i);
  wide.data = to;
  return ir_add_constant(e->graph, &wide, NULL, out, e->err);
}

/* The f32 value that this pass had rounded to `v`; none. The model's own casts stay what they are. */
static ir_value unrounded(passes_edit *e, ir_value v) {
  const uint32_t *first_made = e->user;
  const ir_node_def *cast = passes_producer(e, v, OP_aten__to_copy);
  return cast && ir_value_of(e->graph, v)->node.id >= *first_made ? cast->in[0] : IR_NO_VALUE;
}

/* `v`, of half precision, in f32, in front of `at`. */
static td_status widened(passes_edit *e, ir_node at, ir_value v, ir_value *out) {
  const base_tensor *t = passes_constant_value(e, v);
  const ir_value wide = unrounded(e, v);
  if (t && base_tensor_contiguous(t)) return widen_constant(e, t, out);
  if (wide.id && passes_largest(e, wide) < too_large(ir_type_of(e->graph, v)->dtype)) return *out = wide, TD_OK;
  return passes_cast(e, at, v, TD_F32, out);
}

static td_status widen(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_node_def from = *node; /* the graph's nodes move */
  const td_dtype dtype = ir_type_of(e->graph, from.out[0])->dtype;
  base_arg args[IR_NODE_ARGS];
  ir_value in[MAX_OPERANDS], out;
  if (!is_half(dtype) || from.out_count != 1 || from.in_count > MAX_OPERANDS) return TD_OK;
  memcpy(in, from.in, from.in_count * sizeof *in);
  for (uint32_t i = 0; i < from.in_count; i++)
    if (in[i].id && ir_type_of(e->graph, in[i])->dtype == dtype) TRY(widened(e, id, in[i], &in[i]));
  const ir_new_node spec = {.in = in, .in_count = from.in_count, .args = args, .arg_count = ir_node_args(&from, args)};
  TRY(passes_add(e, id, from.op->id, spec, NULL, &out));
  TRY(passes_cast(e, id, out, dtype, &out));
  return passes_take_place(e, id, out);
}

/* What moves elements: in f32 where they come from there, else the narrow ones are moved. */
static td_status widen_moved(passes_edit *e, ir_node id, const ir_node_def *node) {
  const td_dtype dtype = ir_type_of(e->graph, node->out[0])->dtype;
  for (uint32_t i = 0; i < node->in_count; i++) {
    const ir_value v = node->in[i];
    if (v.id && ir_type_of(e->graph, v)->dtype == dtype && !unrounded(e, v).id) return TD_OK;
  }
  return widen(e, id, node);
}

static bool is_listed(const ir_node_def *node, const ir_op_id *list, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (node->op->id == list[i]) return true;
  return false;
}

static td_status visit(passes_edit *e, ir_node id) {
  static const ir_op_id computing[] = {
      OP_aten_matmul,
      OP_td_gemm,
      OP_aten_convolution,
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
      OP_aten_log,
      OP_aten_erf,
      OP_aten_tanh,
      OP_aten_sigmoid,
      OP_aten_relu,
      OP_aten_clamp,
      OP_aten_gelu,
      OP_aten_silu,
      OP_aten_mish,
      OP_aten_elu,
      OP_aten_leaky_relu,
      OP_aten_hardswish,
      OP_td_hard_sigmoid,
      OP_aten_softplus,
      OP_aten_where,
      OP_aten_maximum,
      OP_aten_minimum,
      OP_aten__softmax,
      OP_aten_mean,
      OP_aten_sum,
      OP_aten_native_layer_norm,
      OP_aten_rms_norm,
      OP_aten__log_softmax,
      OP_td_resize,
      OP_td_softsign,
      OP_aten_native_group_norm,
  };
  static const ir_op_id moving[] = {
      OP_aten_view,    OP_aten_permute,   OP_aten_expand,       OP_aten_slice,        OP_aten_index_select,
      OP_aten_squeeze, OP_aten_unsqueeze, OP_td_flatten,        OP_aten_repeat,       OP_aten_constant_pad_nd,
      OP_aten_cat,     OP_aten_unflatten, OP_td_depth_to_space, OP_td_space_to_depth,
  };
  const ir_node_def *node = ir_node_of(e->graph, id);
  if (is_listed(node, computing, sizeof computing / sizeof *computing)) return widen(e, id, node);
  return is_listed(node, moving, sizeof moving / sizeof *moving) ? widen_moved(e, id, node) : TD_OK;
}

td_status passes_widen(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  uint32_t first_made = graph->nodes.count;
  passes_edit e = {.graph = graph, .setting = setting, .changes = changes, .err = err, .user = &first_made};
  return passes_walk(&e, visit, NULL);
}
