/* clipped_bytes.c -- limits of quantised numbers, as trained quantisation of few bits has them, are those of the
 * numbers:
 *
 *     dequantize(clamp(quantize(x, scale, zero), low, high), scale, zero)
 *  -> dequantize(quantize(clamp(x, (low - zero) scale, (high - zero) scale), scale, zero), scale, zero)
 *
 * with a relu in front merged into the limits; where bytes have no other numbers the limits go. A product takes limits
 * in its epilogue, and bytes stay between products.
 *
 * Requires: a verified graph; one scale, known; comes before int8. Keeps: numbers, but for those made of NaN. Breaks:
 * nothing. */
#include "passes/passes_priv.h"

#include <math.h>

enum { X, SCALE, ZERO };

/* The limits of the bytes that `clamp` leaves. False: they are not known. */
static bool read_limits(const passes_edit *e, const ir_node_def *clamp, td_dtype dtype, double *low, double *high) {
  const bool is_signed = base_dtype(dtype)->is_signed;
  *low = is_signed ? -128 : 0, *high = is_signed ? 127 : 255;
  for (uint32_t i = 1; i < clamp->in_count && i <= 2; i++) {
    double limit;
    if (!clamp->in[i].id) continue;
    if (!passes_number(e, clamp->in[i], &limit)) return false;
    *(i == 1 ? low : high) = i == 1 ? fmax(*low, limit) : fmin(*high, limit);
  }
  return *low <= *high;
}

/* x within limits in front of `at`; a relu that is there for it alone is one of them. */
static td_status add_limits(passes_edit *e, ir_node at, ir_value x, double low, double high, ir_value *out) {
  const ir_node_def *relu = passes_only_producer(e, x, OP_aten_relu);
  ir_value in[] = {relu ? relu->in[0] : x, IR_NO_VALUE, IR_NO_VALUE};
  TRY(ir_add_scalar(e->graph, TD_F32, relu ? fmax(low, 0) : low, &in[1], e->err));
  TRY(ir_add_scalar(e->graph, TD_F32, relu ? fmax(high, 0) : high, &in[2], e->err));
  return passes_add(e, at, OP_aten_clamp, (ir_new_node){.in = in, .in_count = 3}, NULL, out);
}

static td_status visit_clamp(passes_edit *e, ir_node id, const ir_node_def *def) {
  const ir_node_def clamp = *def;
  const ir_node_def *made = passes_only_producer(e, clamp.in[0], OP_td_quantize_linear);
  const td_dtype dtype = ir_type_of(e->graph, clamp.out[0])->dtype;
  double low, high, scale, zero = 0;
  base_arg args[IR_NODE_ARGS];
  if (!made || (dtype != TD_I8 && dtype != TD_U8) || !read_limits(e, &clamp, dtype, &low, &high)) return TD_OK;
  const ir_node_def quantize = *made;
  const bool given = quantize.in_count > ZERO && quantize.in[ZERO].id;
  const bool narrow = high - low < 255;
  if (ir_type_of(e->graph, quantize.in[X])->dtype != TD_F32 || !passes_number(e, quantize.in[SCALE], &scale) ||
      !(scale > 0) || (given && !passes_number(e, quantize.in[ZERO], &zero)))
    return TD_OK;
  if (!narrow) return passes_take_place(e, id, clamp.in[0]);
  ir_value in[] = {quantize.in[X], quantize.in[SCALE], given ? quantize.in[ZERO] : IR_NO_VALUE}, out;
  const uint32_t count = ir_node_args(&quantize, args);
  TRY(add_limits(e, id, in[X], (double)(float)((low - zero) * scale), (double)(float)((high - zero) * scale), &in[X]));
  const ir_new_node spec = {.in = in, .in_count = given ? 3 : 2, .args = args, .arg_count = count};
  TRY(passes_add(e, id, OP_td_quantize_linear, spec, &clamp, &out));
  return passes_take_place(e, id, out);
}

static td_status visit(passes_edit *e, ir_node id) {
  static const passes_rule rules[] = {{OP_aten_clamp, visit_clamp}};
  return passes_apply(e, id, rules, sizeof rules / sizeof *rules, NULL);
}

td_status passes_clipped_bytes(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return kern_select(KERN_LINEAR_I8, TD_I8, setting->isa) ? passes_each(graph, setting, changes, err, visit) : TD_OK;
}
