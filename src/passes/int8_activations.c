/* int8_activations.c -- products of two activations of 8 bits, of the pass int8:
 *
 *     matmul(dequantize(a), dequantize(b)) -> mul(matmul(a - a_zero, b - b_zero), a_scale * b_scale)
 *
 * where no sum can exceed what f32 counts to, 2^24: all are exact, whatever kernel takes them. So are the factors in
 * bf16, whose tiles take them where there are such. */
#include "passes/int8_priv.h"

#include <math.h>

static const double exact = 16777216;

/* How far a byte can be from its zero point. */
static double largest(const int8_activation *a) {
  const int64_t zero = passes_int8_unsigned_zero(a);
  return (double)base_max_i64(zero, UINT8_MAX - zero);
}

/* In front of `at`: the bytes less their zero point, in f32. */
static td_status centre(passes_edit *e, ir_node at, const int8_activation *a, ir_value *out) {
  ir_value in[2];
  TRY(passes_cast(e, at, a->q, TD_F32, &in[0]));
  *out = in[0];
  if (!a->zero) return TD_OK;
  TRY(ir_add_scalar(e->graph, TD_F32, (double)a->zero, &in[1], e->err));
  return passes_add(e, at, OP_aten_sub, (ir_new_node){.in = in, .in_count = 2}, NULL, out);
}

td_status passes_int8_visit_activations(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_type *type = ir_type_of(e->graph, node->in[0]);
  const base_dim k = type->rank > 0 ? type->dims[type->rank - 1] : -1;
  int8_activation a, b;
  if (!passes_int8_find_activation(e, node->in[0], &a) || !passes_int8_find_activation(e, node->in[1], &b))
    return TD_OK;
  const float scale = (float)a.scale * (float)b.scale;
  if (!base_dim_known(k) || (double)k * largest(&a) * largest(&b) > exact || !isnormal(scale)) return TD_OK;
  const base_arg pairs = ARG_BOOL("pairs", true);
  ir_value in[2], made;
  const ir_new_node spec = {.in = in, .in_count = 2, .args = &pairs, .arg_count = passes_takes_pairs(e, node)};
  TRY(centre(e, id, &a, &in[0]));
  TRY(centre(e, id, &b, &in[1]));
  TRY(passes_add(e, id, OP_aten_matmul, spec, NULL, &made));
  in[0] = made;
  TRY(ir_add_scalar(e->graph, TD_F32, (double)scale, &in[1], e->err));
  TRY(passes_add(e, id, OP_aten_mul, (ir_new_node){.in = in, .in_count = 2}, NULL, &made));
  return passes_take_place(e, id, made);
}
