/* pool_first.c -- a mean over windows commutes with what maps each pixel's channels linearly, and leaves it fewer
 * pixels:
 *
 *     avg_pool(conv 1x1 (x))  ->  conv 1x1 (avg_pool(x))        windows without padding, larger than their overlap
 *
 * Requires: channels last; the convolution's result used by the pool alone, no activation and no residual on it. Keeps:
 * types. Breaks: bit equality: sums are taken in another order. */
#include "passes/passes_priv.h"
#include "kernels/kernels.h"

#include <string.h>

static bool is_plain_pointwise(const ir_node_def *conv) {
  return passes_is_pointwise(conv) && !passes_int(conv, "channels_first") &&
         strcmp(passes_str(conv, "act"), "none") == 0 &&
         (conv->in_count <= KERN_IN_RESIDUAL || !conv->in[KERN_IN_RESIDUAL].id);
}

/* Each window lies inside the image, and there are fewer windows than pixels. */
static bool is_plain_mean(const passes_edit *e, const ir_node_def *pool) {
  const ir_type *x = ir_type_of(e->graph, pool->in[0]), *y = ir_type_of(e->graph, pool->out[0]);
  for (int32_t i = 1; i < x->rank - 1; i++)
    if (!base_dim_known(x->dims[i]) || !base_dim_known(y->dims[i]) || y->dims[i] >= x->dims[i]) return false;
  return passes_int(pool, "channels_last") && passes_all_are(pool, "padding", 0) && !*passes_str(pool, "auto_pad") &&
         !passes_int(pool, "ceil_mode");
}

static td_status visit(passes_edit *e, ir_node id) {
  const ir_node_def *pool = ir_node_of(e->graph, id);
  if (pool->op->id != OP_td_avg_pool || !is_plain_mean(e, pool)) return TD_OK;
  const ir_node_def *found = passes_only_producer(e, pool->in[0], OP_td_conv);
  if (!found || !is_plain_pointwise(found)) return TD_OK;
  const ir_node_def conv = *found; /* the graph's nodes move */
  ir_value in[KERN_EPILOGUE_END], made;
  base_arg args[IR_NODE_ARGS];
  uint32_t count = ir_node_args(pool, args);
  memcpy(in, conv.in, conv.in_count * sizeof *in);
  const ir_new_node mean = {.in = in, .in_count = 1, .args = args, .arg_count = count};
  TRY(passes_add(e, id, pool->op->id, mean, NULL, &made));
  in[0] = made;
  count = ir_node_args(&conv, args);
  const ir_new_node product = {.in = in, .in_count = conv.in_count, .args = args, .arg_count = count};
  TRY(passes_add(e, id, conv.op->id, product, &conv, &made));
  return passes_take_place(e, id, made);
}

td_status passes_pool_first(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
