/* lower_flex_attention.c -- FlexAttention of ai.onnx.preview: attention whose scores and probabilities pass through
 * graphs of the model. Without such graphs it is the attention of every other model. */
#include "import/onnx/state_priv.h"

#include <math.h>

/* Head h of the queries uses head h / group of `v` [batch, heads, rows, size]: each, `group` times. */
static ir_value repeat_heads(onnx_node *n, ir_value v, int64_t query_heads) {
  const int64_t heads = onnx_type(n, v)->dims[1], group = query_heads / heads;
  if (group == 1) return v;
  int64_t *of = onnx_alloc(n, (size_t)query_heads * sizeof *of);
  for (int64_t i = 0; of && i < query_heads; i++) of[i] = i / group;
  const ir_value in[] = {v, of ? onnx_ints(n, of, (uint32_t)query_heads) : IR_NO_VALUE};
  return ONNX_EMIT_ARGS(n, "aten::index_select", in, 2, ARG_INT("dim", 1));
}

/* `v` through the graph attribute `name`, where it is given: one input, one output of the same size. */
static ir_value through(onnx_node *n, const char *name, ir_value v) {
  const onnx_bound *body = onnx_attr_has(n, name) ? onnx_attr_graph(n, name) : NULL;
  ir_value out = v;
  if (!body) return v;
  if (body->attr->graph->inputs.count != 1 || body->attr->graph->outputs.count != 1)
    onnx_fail(n, TD_BAD_FILE, "the graph %s must have one input and one output", name);
  else onnx_take(n, onnx_lower_body(n, body, n->b.block, &v, 1, &out));
  return out;
}

static bool heads_known(onnx_node *n, const ir_value *qkv) {
  enum { MOST_HEADS = 1 << 16 };
  const ir_type *q = onnx_type(n, qkv[0]), *k = onnx_type(n, qkv[1]), *v = onnx_type(n, qkv[2]);
  if (onnx_failed(n)) return false;
  if (q->rank != 4 || k->rank != 4 || v->rank != 4) {
    onnx_fail(n, TD_BAD_FILE, "queries, keys and values must have rank 4");
    return false;
  }
  if (!base_dim_known(q->dims[1]) || !base_dim_known(k->dims[1]) || !base_dim_known(q->dims[3])) {
    onnx_fail(n, TD_UNSUPPORTED, "heads of open sizes are not supported");
    return false;
  }
  if (k->dims[1] < 1 || q->dims[1] > MOST_HEADS || q->dims[1] % k->dims[1] != 0 || k->dims[1] != v->dims[1] ||
      q->dims[3] < 1) {
    onnx_fail(n, TD_BAD_FILE, "%lld heads of queries and %lld of keys", (long long)q->dims[1], (long long)k->dims[1]);
    return false;
  }
  return true;
}

static void flex_attention(onnx_node *n) {
  ir_value qkv[] = {onnx_in(n, 0), onnx_in(n, 1), onnx_in(n, 2)};
  if (!heads_known(n, qkv)) return;
  const ir_type *q = onnx_type(n, qkv[0]);
  const td_dtype dtype = q->dtype, usual = dtype == TD_F64 ? TD_F64 : TD_F32;
  const int64_t heads = q->dims[1];
  const double scale = onnx_attr_float(n, "scale", 1 / sqrt((double)q->dims[3]));
  const td_dtype precise =
      onnx_attr_has(n, "softmax_precision") ? onnx_dtype(n, onnx_attr_int(n, "softmax_precision", 1)) : usual;
  if (!onnx_attr_has(n, "score_mod") && !onnx_attr_has(n, "prob_mod")) {
    onnx_out(n, 0, ONNX_EMIT_ARGS(n, "aten::scaled_dot_product_attention", qkv, 3, ARG_FLOAT("scale", scale)));
    return;
  }
  for (int i = 1; i < 3; i++) qkv[i] = repeat_heads(n, qkv[i], heads);
  const ir_value keys = ONNX_EMIT_ARGS(n, "aten::permute", &qkv[1], 1, ARG_INTS("dims", ((int64_t[]){0, 1, 3, 2}), 4));
  ir_value scores = onnx_cast(n, ONNX_EMIT(n, "aten::matmul", qkv[0], keys), precise);
  scores = through(n, "score_mod", ONNX_EMIT(n, "aten::mul", scores, onnx_scalar(n, precise, scale)));
  ir_value probs = ONNX_EMIT_ARGS(n, "aten::_softmax", &scores, 1, ARG_INT("dim", -1));
  probs = onnx_cast(n, through(n, "prob_mod", probs), dtype);
  onnx_out(n, 0, ONNX_EMIT(n, "aten::matmul", probs, qkv[2]));
}

ONNX_DECLARE(flex_attention);
const onnx_lowering onnx_lower_flex_attention[] = {
    {"ai.onnx.preview", "FlexAttention", 1, flex_attention},
};
ONNX_TABLE(flex_attention);
