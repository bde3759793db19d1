/* windows.c -- convolutions and pools as kernels read them, [N, spatial..., C], where channels_last does not run: each
 * between two permutations of its own, so that layouts can be held against each other.
 *
 *     y = aten::convolution(x)   ->   y = first(td::conv(last(x)))
 *
 * Requires: a verified graph; weights and padding known. Keeps: types of what is not rewritten, numbers. Breaks:
 * nothing. */
#include "passes/passes_priv.h"

#include <string.h>

/* An input of so few channels is read by the convolution as it lies, and one of some more in whole squares. */
enum { IMAGE_CHANNELS = 4, SQUARE_CHANNELS = 8, MOST_IMAGE_CHANNELS = 16 };
/* Out of one channel: more take longer from planes, in f32. */
enum { FROM_ONE = 64 };

typedef struct window {
  uint32_t spatial;
  int64_t kernel[3], stride[3], dilation[3], padding[6];
  int64_t more[3]; /* output_padding */
} window;

/* Axis `i` of a transposed convolution whose output's size is told. False: it depends on an open one, or is more than
 * the windows reach. */
static bool place_transposed(const ir_node_def *node, base_dim in, uint32_t i, window *win) {
  const char *same = passes_str(node, "auto_pad");
  if (!base_dim_known(in) || in < 1 || in > INT32_MAX || win->kernel[i] > INT32_MAX) return false;
  const int64_t span = (in - 1) * win->stride[i]; /* attributes are within 32 bits, too */
  const int64_t whole = span + (win->kernel[i] - 1) * win->dilation[i] + 1 + win->more[i];
  const int64_t out = passes_int_at(node, "output_size", i, base_min_i64(span + win->stride[i], whole)),
                pad = whole - out;
  if (out < 1 || pad < 0) return false;
  win->padding[i] = strcmp(same, "same_upper") == 0 ? pad / 2 : pad - pad / 2;
  win->padding[win->spatial + i] = pad - win->padding[i];
  return true;
}

bool passes_find_padding(const passes_edit *e, const ir_node_def *node, const int64_t *kernel, uint32_t spatial,
                         int64_t *padding) {
  const ir_type *x = ir_type_of(e->graph, node->in[0]);
  const char *same = passes_str(node, "auto_pad");
  for (uint32_t i = 0; i < spatial; i++) {
    const int64_t stride = passes_int_at(node, "stride", i, 1), dilation = passes_int_at(node, "dilation", i, 1);
    const int64_t in = x->dims[2 + i];
    padding[i] = passes_int_at(node, "padding", i, 0);
    padding[spatial + i] = passes_int_at(node, "padding", spatial + i, 0);
    if (!*same) continue;
    const int64_t more = (kernel[i] - 1) * dilation; /* what a window sees beside its pixel: by steps of 1, all pad */
    if (stride > 1 && (!base_dim_known(in) || in < 1)) return false;
    const int64_t reach = stride > 1 ? (in - 1) / stride * stride + more + 1 - in : more;
    const int64_t pad = base_max_i64(reach, 0), less = pad / 2;
    padding[i] = strcmp(same, "same_upper") == 0 ? less : pad - less;
    padding[spatial + i] = pad - padding[i];
  }
  return true;
}

/* `auto_pad` and `output_size` resolved; false: the sizes that these take are open. */
static bool find_window(const passes_edit *e, const ir_node_def *node, const ir_type *w, window *win) {
  const ir_type *x = ir_type_of(e->graph, node->in[0]);
  const char *same = passes_str(node, "auto_pad");
  const bool transposed = passes_int(node, "transposed");
  uint32_t sized;
  passes_ints(node, "output_size", &sized);
  *win = (window){.spatial = (uint32_t)w->rank - 2};
  for (uint32_t i = 0; i < win->spatial; i++) {
    win->kernel[i] = w->dims[2 + i];
    win->stride[i] = passes_int_at(node, "stride", i, 1);
    win->dilation[i] = passes_int_at(node, "dilation", i, 1);
    win->more[i] = passes_int_at(node, "output_padding", i, 0);
    if (!transposed) continue;
    win->padding[i] = passes_int_at(node, "padding", i, 0);
    win->padding[win->spatial + i] = passes_int_at(node, "padding", win->spatial + i, 0);
    if ((*same || sized) && !place_transposed(node, x->dims[2 + i], i, win)) return false;
  }
  return transposed || passes_find_padding(e, node, win->kernel, win->spatial, win->padding);
}

static ir_op_id operator_for(const ir_node_def *node, const ir_type *w) {
  if (passes_int(node, "transposed")) return OP_td_conv_transpose;
  bool depthwise = w->dims[1] == 1 && passes_int(node, "groups") == w->dims[0] && w->dims[0] > 1;
  return depthwise ? OP_td_depthwise_conv : OP_td_conv;
}

/* Weights and bias need not be constants; their sizes are known. */
static bool is_convertible(const passes_edit *e, const ir_node_def *node) {
  const ir_type *x = ir_type_of(e->graph, node->in[0]), *w = ir_type_of(e->graph, node->in[1]);
  const bool biased = node->in_count > 2 && node->in[2].id;
  return w->dtype == TD_F32 && ir_known_count(w) > 0 && x->rank >= 3 && x->rank <= 5 && w->rank == x->rank &&
         base_dim_known(x->dims[1]) && (!biased || ir_known_count(ir_type_of(e->graph, node->in[2])) > 0);
}

/* Weights [C, 1, kernel...] that are no constants as the depthwise kernel reads them: [taps, C]. */
static td_status transpose_taps(passes_edit *e, ir_node at, const ir_type *w, ir_value *v) {
  static const int64_t swap[] = {1, 0};
  const int64_t shape[] = {w->dims[0], ir_known_count(w) / w->dims[0]};
  ir_value in[2] = {*v}, flat;
  TRY(ir_add_ints(e->graph, shape, 2, &in[1], e->err));
  TRY(passes_add(e, at, OP_aten_view, (ir_new_node){.in = in, .in_count = 2}, NULL, &flat));
  return passes_permute(e, at, flat, swap, v);
}

static bool is_image(int64_t channels) {
  return channels <= IMAGE_CHANNELS || (channels <= MOST_IMAGE_CHANNELS && channels % SQUARE_CHANNELS == 0);
}

/* Does `v` come from what the model is given, through pointwise steps alone? */
static bool is_given(const passes_edit *e, ir_value v) {
  enum { STEPS = 8 };
  for (int i = 0; i < STEPS; i++) {
    const ir_value_def *def = ir_value_of(e->graph, v);
    const ir_node_def *node = def->node.id ? ir_node_of(e->graph, def->node) : NULL;
    if (!node) return !def->info.constant;
    if (!node->op || !(node->op->flags & IR_OP_ELEMENTWISE) || node->in_count == 0) return false;
    v = node->in[0];
  }
  return false;
}

/* Is x read with channels first? So it lies, as one channel always does; or it is a picture whose few channels the
 * model is given last: for those, planes are worth a copy. `out`: channels that are made of it. */
static bool reads_planes(passes_edit *e, const ir_node_def *node, int64_t channels, int64_t out) {
  const ir_value x = node->in[0];
  const ir_value last = passes_source_last(e, x);
  if (channels == 1 && (out <= FROM_ONE || passes_precision(e, node) == KERN_PRECISION_BF16)) return true;
  return last.id ? channels <= IMAGE_CHANNELS && is_given(e, last) : is_image(channels);
}

td_status passes_convolution_last(passes_edit *e, ir_node id, const ir_node_def *node) {
  window win;
  const ir_type type = *ir_type_of(e->graph, node->in[1]), *w = &type;
  if (!is_convertible(e, node) || !find_window(e, node, w, &win)) return TD_OK;
  const ir_op_id op = operator_for(node, w);
  int64_t groups = passes_int(node, "groups");
  bool transposed = passes_int(node, "transposed");
  const bool image = !transposed && op == OP_td_conv && reads_planes(e, node, w->dims[1] * groups, w->dims[0]);
  const bool taps_first = op == OP_td_depthwise_conv && !passes_constant(e, node, 1);
  base_arg args[] = {ARG_INTS("kernel", win.kernel, win.spatial),
                     ARG_INTS("stride", win.stride, win.spatial),
                     ARG_INTS("padding", win.padding, 2 * win.spatial),
                     ARG_INTS("dilation", win.dilation, win.spatial),
                     ARG_INT("groups", groups),
                     ARG_INT("channels", transposed ? w->dims[1] * groups : w->dims[0]),
                     ARG_BOOL("channels_first", image),
                     ARG_INT("panel", taps_first),
                     ARG_INTS("output_padding", win.more, win.spatial)};
  ir_value in[3] = {node->in[0], node->in[1], node->in_count > 2 ? node->in[2] : IR_NO_VALUE}, made;
  if (taps_first) TRY(transpose_taps(e, id, w, &in[1]));
  if (!image) TRY(passes_to_last(e, id, in[0], &in[0]));
  const ir_new_node spec = {.in = in, .in_count = in[2].id ? 3 : 2, .args = args, .arg_count = transposed ? 9 : 8};
  TRY(passes_add(e, id, op, spec, NULL, &made));
  return passes_take_last(e, id, made);
}

static const passes_rule rules[] = {
    {OP_aten_convolution, passes_convolution_last},
    {OP_td_max_pool, passes_image_last},
    {OP_td_avg_pool, passes_image_last},
};

static td_status visit(passes_edit *e, ir_node id) {
  bool found;
  return passes_apply(e, id, rules, sizeof rules / sizeof *rules, &found);
}

td_status passes_windows(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  if (!base_str_listed(setting->disabled, "channels_last")) return TD_OK;
  return passes_each(graph, setting, changes, err, visit);
}
