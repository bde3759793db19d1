/* expand.c -- the channels that a 1x1 convolution, as in inverted residuals, or a first layer makes for a depthwise
 * convolution alone are made where they are read:
 *
 *     depthwise_conv(conv(x))  ->  expand_depthwise(x)
 *
 * Requires: weights that are packed, f32 or pairs of bf16; the convolution without groups or any epilogue but a bias
 * and an activation, of stride 1 and without padding unless its image stands channels first; a window for which there
 * is a kernel, and sizes at which it pays (kernels/products/expand.h). Keeps: types, bits. Breaks: nothing. */
#include "kernels/products/products.h"
#include "kernels/kernels.h"
#include "passes/passes_priv.h"

#include <string.h>

static bool is_expansion(const ir_node_def *conv, int64_t panel) {
  for (uint32_t i = KERN_IN_RESIDUAL; i < conv->in_count; i++)
    if (conv->in[i].id) return false;
  return (passes_int(conv, "channels_first") ? passes_all_are(conv, "dilation", 1) : passes_is_pointwise(conv)) &&
         passes_int(conv, "groups") == 1 && passes_int(conv, "panel") == panel;
}

static int64_t element(const ir_node_def *node, const char *list, uint32_t i) {
  uint32_t count;
  const int64_t *at = passes_ints(node, list, &count);
  return i < count ? at[i] : 1;
}

/* Elements of the convolution's window. */
static int64_t depth_of(const passes_edit *e, const ir_node_def *conv) {
  base_dim channels = ir_type_of(e->graph, conv->in[0])->dims[1];
  int64_t depth = element(conv, "kernel", 0);
  bool fits = base_dim_known(channels) && base_mul_i64(depth, element(conv, "kernel", 1), &depth) &&
              base_mul_i64(depth, channels, &depth);
  return fits ? depth : INT64_MAX;
}

/* There is a kernel, and it pays, for the window over its planes. */
static bool pays(const passes_edit *e, const ir_node_def *window, const ir_node_def *conv, int64_t panel) {
  const ir_type *x = ir_type_of(e->graph, window->in[0]);
  if (x->rank != 4 || passes_int(window, "panel") != 1) return false;
  int64_t channels = passes_int(window, "channels"), size[2];
  for (uint32_t i = 0; i < 2; i++)
    if (!passes_assume_size(e->graph, x->dims[1 + i], &size[i]) ||
        !kern_expand_has(element(window, "kernel", i), element(window, "stride", i), element(window, "dilation", i),
                         channels, panel))
      return false;
  return passes_int(conv, "channels_first") ? kern_expand_pays_first(depth_of(e, conv), size[0], size[1])
                                            : kern_expand_pays(size[0], size[1]);
}

static uint32_t first_layer_args(const ir_node_def *conv, base_arg *args) {
  static const char *const lists[][2] = {
      {"kernel", "expand_kernel"}, {"stride", "expand_stride"}, {"padding", "expand_padding"}};
  uint32_t made = 0;
  for (; made < sizeof lists / sizeof *lists; made++) {
    uint32_t count;
    const int64_t *list = passes_ints(conv, lists[made][0], &count);
    args[made] = ARG_INTS(lists[made][1], list, count);
  }
  return made;
}

static td_status fuse(passes_edit *e, ir_node id, const ir_node_def *conv) {
  const ir_node_def window = *ir_node_of(e->graph, id), expansion = *conv; /* the graph's nodes move */
  ir_value in[KERN_EXPAND_END] = {expansion.in[0]}, made;
  for (uint32_t i = 1; i < window.in_count; i++) in[i] = window.in[i];
  in[KERN_IN_EXPAND_W] = expansion.in[1];
  if (expansion.in_count > KERN_IN_BIAS) in[KERN_IN_EXPAND_BIAS] = expansion.in[KERN_IN_BIAS];
  base_arg args[IR_NODE_ARGS + 6];
  uint32_t count = ir_node_args(&window, args);
  passes_arg(args, count, "groups")->i = 1;
  passes_arg(args, count, "panel")->i = passes_int(&expansion, "panel");
  args[count++] = ARG_STR("expand_act", passes_str(&expansion, "act"));
  args[count++] = ARG_FLOAT("expand_act_a", passes_float(&expansion, "act_a"));
  args[count++] = ARG_FLOAT("expand_act_b", passes_float(&expansion, "act_b"));
  if (passes_int(&expansion, "channels_first")) count += first_layer_args(&expansion, args + count);
  uint32_t in_count = in[KERN_IN_EXPAND_BIAS].id ? KERN_EXPAND_END : KERN_IN_EXPAND_BIAS;
  const ir_new_node spec = {.in = in, .in_count = in_count, .args = args, .arg_count = count};
  TRY(passes_add(e, id, OP_td_expand_depthwise, spec, &expansion, &made));
  return passes_take_place(e, id, made);
}

/* The kernel for weights as the convolution has them. */
static const kern_row *row_of(const passes_edit *e, const ir_node_def *conv) {
  const td_dtype w = ir_type_of(e->graph, conv->in[1])->dtype;
  const kern_row *row = kern_select(KERN_EXPAND_DEPTHWISE, w, e->setting->isa);
  if (!row || w != TD_BF16) return row;
  const kern_row *alone = kern_select(KERN_CONV, w, e->setting->isa);
  return passes_int(conv, "channels_first") || !alone || kern_takes_tiles(alone) ? NULL : row;
}

static td_status visit(passes_edit *e, ir_node id) {
  const ir_node_def *window = ir_node_of(e->graph, id);
  if (window->op->id != OP_td_depthwise_conv) return TD_OK;
  const ir_node_def *conv = passes_only_producer(e, window->in[0], OP_td_conv);
  const kern_row *row = conv ? row_of(e, conv) : NULL;
  if (!row || !is_expansion(conv, row->lanes) || !pays(e, window, conv, row->lanes)) return TD_OK;
  return fuse(e, id, conv);
}

td_status passes_expand(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
