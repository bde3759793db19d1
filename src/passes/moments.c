/* moments.c -- group norms of large images take moments of parts of these first, so that many threads share an image:
 *
 *     native_group_norm(x, w, b) {channels_last = true} -> native_group_norm(x, w, b, group_moments(x))
 *
 * Without, a task is a block of channels: an image of few channels is one task. The parts follow from the image's size
 * alone, so that numbers do not depend on threads.
 *
 * Requires: a verified graph; known sizes of a sample. Keeps: types. Breaks: bit equality. */
#include "passes/passes_priv.h"

/* Elements of an image, and of a part; pixels of a part, whose moments take as long to join as some of these. */
enum { LEAST = 1 << 16, PART = 1 << 13, PIXELS = 64, MOST_PARTS = 64 };

/* Elements of a sample; 0: unknown. */
static int64_t sample_of(const ir_type *x) {
  int64_t count = 1;
  for (int32_t i = 1; i < x->rank; i++)
    if (!base_dim_known(x->dims[i]) || __builtin_mul_overflow(count, x->dims[i], &count)) return 0;
  return count;
}

static td_status visit(passes_edit *e, ir_node id) {
  const ir_node_def node = *ir_node_of(e->graph, id);
  if (node.op->id != OP_aten_native_group_norm || !passes_int(&node, "channels_last") || node.in_count > 3)
    return TD_OK;
  const ir_type *x = ir_type_of(e->graph, node.in[0]);
  const base_dim channels = x->dims[x->rank - 1];
  const int64_t sample = sample_of(x), pixels = sample / base_max_i64(channels, 1) / PIXELS;
  const int64_t parts = base_min_i64(base_min_i64(sample / PART, pixels), MOST_PARTS);
  if (sample < LEAST || parts < 2 || !passes_has_kernel(e, &node) ||
      !kern_select(KERN_GROUP_MOMENTS, x->dtype, e->setting->isa))
    return TD_OK;
  const base_arg arg = ARG_INT("parts", parts);
  const ir_new_node moments = {.in = node.in, .in_count = 1, .args = &arg, .arg_count = 1};
  ir_value in[] = {node.in[0], node.in_count > 1 ? node.in[1] : IR_NO_VALUE,
                   node.in_count > 2 ? node.in[2] : IR_NO_VALUE, IR_NO_VALUE};
  base_arg args[IR_NODE_ARGS];
  const uint32_t count = ir_node_args(&node, args);
  const ir_new_node norm = {.in = in, .in_count = 4, .args = args, .arg_count = count};
  ir_value made;
  TRY(passes_add(e, id, OP_td_group_moments, moments, NULL, &in[3]));
  TRY(passes_add(e, id, OP_aten_native_group_norm, norm, NULL, &made));
  return passes_take_place(e, id, made);
}

td_status passes_moments(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  passes_edit e = {.graph = graph, .setting = setting, .changes = changes, .err = err};
  return passes_walk(&e, visit, NULL);
}
