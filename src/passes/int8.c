/* int8.c -- products of 8-bit integers are taken as such, with their scales, where a level has kernels for bytes:
 *
 *     mul(_to_copy(matmul_integer(q, W, zero)), mul(scale, s)) -> linear_i8(x, W, s)
 *     where q, scale, zero = dynamic_quantize_linear(x)
 *
 * Requires: a verified graph; comes before constants are folded, which would make f32 of quantised weights. Keeps:
 * types. Breaks: nothing but rounding: sums are exact, their scales are multiplied in one order. */
#include "kernels/pack_i8.h"
#include "passes/passes_priv.h"

#include <string.h>

enum { X, W, X_ZERO, W_ZERO };

/* A product's weights: dense [n][k] with a scale each, and where they come from. */
typedef struct weights {
  int64_t n, k;
  int8_t *values;
  float *scales;
} weights;

static const kern_row *row_of(const passes_edit *e) { return kern_select(KERN_LINEAR_I8, TD_I8, e->setting->isa); }

/* Element `i` of one or of n numbers. */
static double number_at(const base_tensor *t, int64_t i) {
  return base_load_f64(t->dtype, t->data, base_tensor_numel(t) == 1 ? 0 : i);
}

static bool is_vector(const base_tensor *t, int64_t n) {
  const int64_t count = t ? base_tensor_numel(t) : 0;
  return t && base_tensor_contiguous(t) && (count == 1 || (t->rank == 1 && count == n));
}

/* W [k, n] less its zero points, with the scales of `scales`. *fits: they are constants, and within i8. */
static td_status read_matrix(passes_edit *e, const base_tensor *t, const base_tensor *zeros, const base_tensor *scales,
                             weights *w, bool *fits) {
  *fits = t && t->rank == 2 && base_tensor_contiguous(t) && base_dtype(t->dtype)->bits == 8 && base_is_int(t->dtype) &&
          t->dims[0] > 0 && t->dims[0] <= KERN_I8_MAX_K && t->dims[1] > 0 && (!zeros || is_vector(zeros, t->dims[1])) &&
          is_vector(scales, t->dims[1]);
  if (!*fits) return TD_OK;
  *w = (weights){.k = t->dims[0], .n = t->dims[1]};
  w->values = base_new(e->scratch, int8_t, (size_t)(w->n * w->k));
  w->scales = base_new(e->scratch, float, (size_t)w->n);
  if (!w->values || !w->scales) return base_no_memory(e->err, "weights");
  for (int64_t n = 0; n < w->n; n++) {
    const double zero = zeros ? number_at(zeros, n) : 0;
    w->scales[n] = (float)number_at(scales, n);
    for (int64_t k = 0; k < w->k; k++) {
      const double value = base_load_f64(t->dtype, t->data, k * w->n + n) - zero;
      *fits &= value >= -128 && value <= 127;
      w->values[n * w->k + k] = (int8_t)(*fits ? value : 0);
    }
  }
  return TD_OK;
}

static td_status pack(passes_edit *e, const weights *w, ir_value *packed) {
  const kern_row *row = row_of(e);
  kern_i8_layout l;
  if (!kern_i8_layout_of(1, w->n, w->k, row->lanes, kern_i8_depth(row), &l))
    return base_no_memory(e->err, "packed weights");
  uint8_t *to = base_arena_alloc_uncleared(e->graph->constants, (size_t)l.size, 64);
  if (!to) return base_no_memory(e->err, "packed weights");
  kern_pack_i8(&l, w->values, w->scales, false, to);
  const base_tensor t = base_tensor_of(to, TD_U8, 1, &l.size);
  return ir_add_constant(e->graph, &t, NULL, packed, e->err);
}

/* ---- dynamic ---- */

/* The factor of `mul` that is the constant scale of the weights, where the other one is `scale`; NULL: there is none.
 */
static const base_tensor *weight_scales(passes_edit *e, ir_value v, ir_value scale) {
  const ir_node_def *mul = passes_producer(e, v, "aten::mul");
  for (uint32_t side = 0; mul && side < 2; side++)
    if (mul->in[side].id == scale.id) return passes_constant(e, mul, 1 - side);
  return NULL;
}

/* The product of integers that operand `side` of a multiplication casts, and the node that quantises its x. */
static bool find_dynamic(passes_edit *e, const ir_node_def *mul, uint32_t side, ir_node_def *product,
                         ir_node_def *quantise) {
  const ir_node_def *cast = passes_only_producer(e, mul->in[side], "aten::_to_copy");
  const ir_node_def *found = cast ? passes_only_producer(e, cast->in[0], "td::matmul_integer") : NULL;
  const ir_node_def *q = found ? passes_producer(e, found->in[X], "td::dynamic_quantize_linear") : NULL;
  if (!q || found->in_count <= X_ZERO || found->in[X_ZERO].id != q->out[2].id ||
      ir_type_of(e->graph, mul->in[side])->dtype != TD_F32 || ir_type_of(e->graph, q->in[0])->rank < 1)
    return false;
  *product = *found;
  *quantise = *q;
  return true;
}

static td_status visit_mul(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_node_def mul = *node;
  ir_node_def product, quantise;
  for (uint32_t side = 0; side < 2; side++) {
    if (!find_dynamic(e, &mul, side, &product, &quantise)) continue;
    const base_tensor *w = passes_constant(e, &product, W),
                      *scales = weight_scales(e, mul.in[1 - side], quantise.out[1]);
    const bool shifted = product.in_count > W_ZERO && product.in[W_ZERO].id;
    const base_tensor *zeros = shifted ? passes_constant(e, &product, W_ZERO) : NULL;
    weights read;
    bool fits = false;
    if (scales && (zeros || !shifted)) TRY(read_matrix(e, w, zeros, scales, &read, &fits));
    if (!fits) return TD_OK;
    ir_value in[2] = {quantise.in[0]}, made;
    TRY(pack(e, &read, &in[1]));
    const kern_row *row = row_of(e);
    const base_arg args[] = {ARG_INT("n", read.n), ARG_INT("panel8", row->lanes), ARG_INT("depth", kern_i8_depth(row))};
    const ir_new_node spec = {.in = in, .in_count = 2, .args = args, .arg_count = 3};
    TRY(passes_add(e, id, "td::linear_i8", spec, &product, &made));
    return passes_take_place(e, id, made);
  }
  return TD_OK;
}

static const passes_rule rules[] = {{"aten::mul", visit_mul}};

static td_status visit(passes_edit *e, ir_node id) {
  return passes_apply(e, id, rules, sizeof rules / sizeof *rules, NULL);
}

td_status passes_int8(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  if (!kern_select(KERN_LINEAR_I8, TD_I8, setting->isa)) return TD_OK;
  return passes_each(graph, setting, changes, err, visit);
}
