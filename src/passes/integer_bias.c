/* integer_bias.c -- a bias that is added to the sums of a product of integers, in their unit, is added behind the
 * scale:
 *
 *     mul(_to_copy(add(conv_integer(q, W, zero), b)), scale)
 *  -> add(mul(_to_copy(conv_integer(q, W, zero)), scale), mul(_to_copy(b), scale))      matmul_integer the same
 *
 * ONNX Runtime's tools wrote convolutions so that are quantised when they run, until 1.8. What is left in front of the
 * sum is what the pass int8 takes.
 *
 * Requires: a verified graph; comes before int8. Keeps: types. Breaks: rounding; and where the scale itself overflows,
 * infinities of a sum and of a bias may cancel. */
#include "passes/passes_priv.h"

/* f32(v) times the scale. */
static td_status scaled(passes_edit *e, ir_node at, const ir_node_def *cast, ir_value v, ir_value scale,
                        ir_value *out) {
  base_arg args[IR_NODE_ARGS];
  ir_value in[] = {v, scale};
  const ir_new_node copy = {.in = in, .in_count = 1, .args = args, .arg_count = ir_node_args(cast, args)};
  TRY(passes_add(e, at, cast->op->id, copy, NULL, &in[0]));
  return passes_add(e, at, OP_aten_mul, (ir_new_node){.in = in, .in_count = 2}, NULL, out);
}

/* The operand of the sum that is a product of integers, nobody else's; 2: none is. */
static uint32_t product_of(passes_edit *e, const ir_node_def *sum) {
  uint32_t i = 0;
  while (i < 2 && !passes_only_producer(e, sum->in[i], OP_td_conv_integer) &&
         !passes_only_producer(e, sum->in[i], OP_td_matmul_integer))
    i++;
  return i;
}

static td_status visit_mul(passes_edit *e, ir_node id, const ir_node_def *def) {
  const ir_node_def mul = *def;
  for (uint32_t side = 0; side < 2; side++) {
    const ir_node_def *to = passes_only_producer(e, mul.in[side], OP_aten__to_copy);
    const ir_node_def *sum = to ? passes_only_producer(e, to->in[0], OP_aten_add) : NULL;
    const uint32_t which = sum ? product_of(e, sum) : 2;
    if (which == 2 || ir_type_of(e->graph, mul.in[side])->dtype != TD_F32) continue;
    const ir_node_def cast = *to;
    const ir_value sums = sum->in[which], bias = sum->in[1 - which], scale = mul.in[1 - side];
    ir_value in[2], out;
    TRY(scaled(e, id, &cast, sums, scale, &in[0]));
    TRY(scaled(e, id, &cast, bias, scale, &in[1]));
    TRY(passes_add(e, id, OP_aten_add, (ir_new_node){.in = in, .in_count = 2}, NULL, &out));
    return passes_take_place(e, id, out);
  }
  return TD_OK;
}

static td_status visit(passes_edit *e, ir_node id) {
  static const passes_rule rules[] = {{OP_aten_mul, visit_mul}};
  return passes_apply(e, id, rules, sizeof rules / sizeof *rules, NULL);
}

td_status passes_integer_bias(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return kern_select(KERN_LINEAR_I8, TD_I8, setting->isa) ? passes_each(graph, setting, changes, err, visit) : TD_OK;
}
