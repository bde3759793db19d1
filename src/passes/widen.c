/* widen.c -- products and pools of half precision are taken in f32, where kernels are:
 *
 *     matmul(x, W)    of f16 or bf16 -> _to_copy(matmul(_to_copy(x), W in f32))
 *
 * Requires: a verified graph. Keeps: types. Breaks: nothing: each result is rounded once, as before, and sums are those
 * of f32. */
#include "passes/passes_priv.h"

#include <string.h>

enum { MAX_OPERANDS = 8 };

static bool is_half(td_dtype dtype) { return dtype == TD_F16 || dtype == TD_BF16; }

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

static td_status widen(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_node_def product = *node;
  const td_dtype dtype = ir_type_of(e->graph, product.out[0])->dtype;
  base_arg args[IR_NODE_ARGS];
  ir_value in[MAX_OPERANDS], out;
  if (!is_half(dtype) || product.out_count != 1 || product.in_count > MAX_OPERANDS) return TD_OK;
  memcpy(in, product.in, product.in_count * sizeof *in);
  for (uint32_t i = 0; i < product.in_count; i++) {
    if (!in[i].id || ir_type_of(e->graph, in[i])->dtype != dtype) continue;
    const base_tensor *t = passes_constant_value(e, in[i]);
    if (t && base_tensor_contiguous(t)) TRY(widen_constant(e, t, &in[i]));
    else TRY(passes_cast(e, id, in[i], TD_F32, &in[i]));
  }
  const ir_new_node spec = {
      .in = in, .in_count = product.in_count, .args = args, .arg_count = ir_node_args(&product, args)};
  TRY(passes_add(e, id, product.op->id, spec, NULL, &out));
  TRY(passes_cast(e, id, out, dtype, &out));
  return passes_take_place(e, id, out);
}

static td_status visit(passes_edit *e, ir_node id) {
  static const passes_rule rules[] = {{OP_aten_matmul, widen},
                                      {OP_td_gemm, widen},
                                      {OP_aten_convolution, widen},
                                      {OP_td_max_pool, widen},
                                      {OP_td_avg_pool, widen}};
  return passes_apply(e, id, rules, sizeof rules / sizeof *rules, NULL);
}

td_status passes_widen(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
