/* int8_activations.c -- products of two activations of 8 bits, of the pass int8:
 *
 *     matmul(dequantize(a), dequantize(b)) -> matmul_i8(a, b)
 *     qlinear_matmul(a, b)                 -> the same with a result of 8 bits
 *
 * and the first, where tiles take bf16 and no sum can exceed what f32 counts to, 2^24:
 *
 *     matmul(dequantize(a), dequantize(b)) -> mul(matmul(a - a_zero, b - b_zero), a_scale * b_scale)
 *
 * whose factors are exact in bf16, and whose sums are, too. */
#include "kernels/products/products.h"
#include "passes/int8_priv.h"

#include <math.h>

static const double exact = 16777216;

/* In front of `at`: the bytes less their zero point, in f32. */
static td_status centre(passes_edit *e, ir_node at, const int8_activation *a, ir_value *out) {
  ir_value in[2];
  TRY(passes_cast(e, at, a->q, TD_F32, &in[0]));
  *out = in[0];
  if (!a->zero) return TD_OK;
  TRY(ir_add_scalar(e->graph, TD_F32, (double)a->zero, &in[1], e->err));
  return passes_add(e, at, OP_aten_sub, (ir_new_node){.in = in, .in_count = 2}, NULL, out);
}

static bool takes_tiles(const passes_edit *e, const ir_node_def *node, const int8_activation *a,
                        const int8_activation *b, base_dim k) {
  const float scale = (float)a->scale * (float)b->scale;
  const kern_row *pairs = passes_pairs_row(e->setting, KERN_MATMUL);
  return pairs && kern_takes_tiles(pairs) && passes_takes_pairs(e, node) &&
         (double)k * passes_int8_largest(a) * passes_int8_largest(b) <= exact && isnormal(scale);
}

static td_status add_tiles(passes_edit *e, ir_node id, const int8_activation *a, const int8_activation *b) {
  const base_arg pairs = ARG_BOOL("pairs", true);
  ir_value in[2], made;
  TRY(centre(e, id, a, &in[0]));
  TRY(centre(e, id, b, &in[1]));
  TRY(passes_add(e, id, OP_aten_matmul, (ir_new_node){.in = in, .in_count = 2, .args = &pairs, .arg_count = 1}, NULL,
                 &made));
  in[0] = made;
  TRY(ir_add_scalar(e->graph, TD_F32, (double)((float)a->scale * (float)b->scale), &in[1], e->err));
  TRY(passes_add(e, id, OP_aten_mul, (ir_new_node){.in = in, .in_count = 2}, NULL, &made));
  return passes_take_place(e, id, made);
}

/* `y` NULL: the result is f32. */
static td_status add_product(passes_edit *e, ir_node id, const ir_node_def *node, const int8_activation *a,
                             const int8_activation *b, const int8_activation *y) {
  const kern_row *row = kern_select(KERN_MATMUL_I8, TD_I8, e->setting->isa);
  const ir_value in[2] = {a->q, b->q};
  base_arg args[2 + INT8_PRODUCT_ARGS] = {ARG_FLOAT("w_scale", b->scale),
                                          ARG_INT("w_zero", passes_int8_unsigned_zero(b))};
  const ir_new_node spec = {.in = in, .in_count = 2, .args = args, .arg_count = sizeof args / sizeof *args};
  ir_value made;
  passes_int8_product_args(row, a, y, args + 2);
  TRY(passes_add(e, id, OP_td_matmul_i8, spec, node, &made));
  return passes_take_place(e, id, made);
}

/* How many elements a row of `a` has; 0: such products are not taken. */
static base_dim inner_size(const passes_edit *e, ir_value a, ir_value b) {
  const ir_type *x = ir_type_of(e->graph, a), *w = ir_type_of(e->graph, b);
  if (x->rank < 2 || w->rank < 2) return 0;
  const base_dim k = x->dims[x->rank - 1];
  return base_dim_known(k) && k <= KERN_MATMUL_I8_MAX_K ? k : 0;
}

td_status passes_int8_visit_activations(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_node_def matmul = *node;
  int8_activation a, b;
  const base_dim k = inner_size(e, matmul.in[0], matmul.in[1]);
  if (!k || !passes_int8_find_activation(e, matmul.in[0], &a) || !passes_int8_find_activation(e, matmul.in[1], &b))
    return TD_OK;
  return takes_tiles(e, &matmul, &a, &b, k) ? add_tiles(e, id, &a, &b) : add_product(e, id, &matmul, &a, &b, NULL);
}

td_status passes_int8_visit_qlinear_activations(passes_edit *e, ir_node id, const ir_node_def *node) {
  enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, Y_SCALE, Y_ZERO, BIAS };
  const ir_node_def matmul = *node;
  const base_tensor *a_zero, *b_zero, *y_zero;
  int8_activation a, b, y;
  if ((node->in_count > BIAS && node->in[BIAS].id) || !passes_int8_find_optional(e, node, A_ZERO, &a_zero) ||
      !passes_int8_find_optional(e, node, B_ZERO, &b_zero) || !passes_int8_find_optional(e, node, Y_ZERO, &y_zero) ||
      !passes_int8_activation_of(e, node->in[A], passes_constant(e, node, A_SCALE), a_zero, &a) ||
      !passes_int8_activation_of(e, node->in[B], passes_constant(e, node, B_SCALE), b_zero, &b) ||
      !passes_int8_activation_of(e, node->out[0], passes_constant(e, node, Y_SCALE), y_zero, &y) ||
      !inner_size(e, node->in[A], node->in[B]))
    return TD_OK;
  return add_product(e, id, &matmul, &a, &b, &y);
}
