/* recurrent_i8.c -- an LSTM whose operands are rounded to 8 bits as it runs (com.microsoft DynamicQuantizeLSTM) is
 * computed in these where its weights are 8 bits:
 *
 *     lstm(x, permute(dequantize(W)), permute(dequantize(R)), bias; quantise_activations)
 *         -> lstm_packed(matmul(dequantize(quantize(x)), dequantize(W')) + bias', -, R')
 *
 * W' has the columns of W in the order of a packed layer's sums, R' is packed bytes (kernels/products/recurrent.h).
 * Requires: a verified graph; constants; comes before int8, which takes the product. Keeps: types, origins. Breaks: bit
 * equality (gates are computed in f32). */
#include "passes/int8_priv.h"
#include "passes/recurrent_priv.h"

#include <string.h>

enum { X, W, R, BIAS, GATES = 4 };

/* Bytes [directions, k, gates * hidden], whose scales and zero points are one for each direction, or (rank 3) for each
 * of its columns. */
typedef struct weights {
  const base_tensor *q, *scales, *zeros; /* zeros: NULL: none */
} weights;

static bool are_points(const base_tensor *t, const base_tensor *q) {
  if (!base_tensor_contiguous(t)) return false;
  if (t->rank < 3) return base_tensor_numel(t) == q->dims[0];
  return t->dims[0] == q->dims[0] && t->dims[1] == 1 && t->dims[2] == q->dims[2];
}

static bool find_weights(passes_edit *e, const ir_node_def *node, uint32_t operand, weights *w) {
  static const int64_t swap[] = {0, 2, 1};
  int64_t order[BASE_MAX_RANK];
  const ir_node_def *permute = passes_producer(e, node->in[operand], OP_aten_permute);
  if (!permute || !passes_order(permute, 3, order) || memcmp(order, swap, sizeof swap) != 0) return false;
  const ir_node_def *from = passes_dequantised(e, permute->in[0]);
  w->q = from ? passes_constant(e, from, 0) : NULL;
  w->scales = w->q ? passes_constant(e, from, 1) : NULL;
  return w->scales && passes_int8_find_optional(e, from, 2, &w->zeros) && passes_int8_is_bytes(w->q->dtype) &&
         w->q->rank == 3 && base_tensor_contiguous(w->q) && are_points(w->scales, w->q) &&
         (!w->zeros || are_points(w->zeros, w->q));
}

/* Of a row of td::lstm's weights: direction * gates * hidden + the column of that direction's bytes. */
static double point(const weights *w, const base_tensor *t, int64_t row) {
  const int64_t columns = w->q->dims[2];
  return passes_int8_number(t, t->rank < 3 ? row / columns : row);
}
static int64_t zero_of(const weights *w, int64_t row) { return w->zeros ? (int64_t)point(w, w->zeros, row) : 0; }

/* The byte of a row, as it is stored. */
static uint8_t byte_of(const weights *w, int64_t row, int64_t k) {
  const int64_t columns = w->q->dims[2], direction = row / columns;
  return ((const uint8_t *)w->q->data)[(direction * w->q->dims[1] + k) * columns + row % columns];
}

static bool fits(const weights *w, const kern_recurrent *layout) {
  return w->q->dims[0] == layout->directions && w->q->dims[2] == GATES * layout->hidden;
}

static td_status add_constant(passes_edit *e, void *data, td_dtype dtype, int32_t rank, const int64_t *dims,
                              ir_value *value) {
  const base_tensor t = base_tensor_of(data, dtype, rank, dims);
  return data ? ir_add_constant(e->graph, &t, NULL, value, e->err) : base_no_memory(e->err, "weights");
}

/* W as a matrix [k, columns of a packed layer's sums], with a scale and zero point for each: dequantised. */
static td_status add_matrix(passes_edit *e, ir_node id, const weights *w, const kern_recurrent *layout,
                            ir_value *value) {
  const int64_t columns = kern_recurrent_columns(layout), k = w->q->dims[1], dims[] = {k, columns};
  base_arena *arena = e->graph->constants;
  uint8_t *bytes = base_new(arena, uint8_t, (size_t)(k * columns)), *zeros = base_new(arena, uint8_t, (size_t)columns);
  float *scales = base_new(arena, float, (size_t)columns);
  const base_arg args[] = {ARG_INT("axis", 1), ARG_DTYPE("dtype", TD_F32)};
  ir_value in[3];
  for (int64_t column = 0; bytes && zeros && scales && column < columns; column++) {
    const int64_t row = kern_recurrent_row(layout, column);
    scales[column] = row < 0 ? 1 : (float)point(w, w->scales, row);
    zeros[column] = row < 0 ? 0 : (uint8_t)zero_of(w, row);
    for (int64_t i = 0; i < k; i++) bytes[i * columns + column] = row < 0 ? 0 : byte_of(w, row, i);
  }
  TRY(add_constant(e, bytes, w->q->dtype, 2, dims, &in[0]));
  TRY(add_constant(e, scales, TD_F32, 1, &columns, &in[1]));
  TRY(add_constant(e, zeros, w->q->dtype, 1, &columns, &in[2]));
  const ir_new_node spec = {.in = in, .in_count = 3, .args = args, .arg_count = 2};
  return passes_add(e, id, OP_td_dequantize_linear, spec, NULL, value);
}

/* x, rounded to 8 bits of its range. */
static td_status quantise_inputs(passes_edit *e, ir_node id, ir_value *x) {
  ir_value in[3];
  const base_arg f32 = ARG_DTYPE("dtype", TD_F32);
  TRY(passes_add(e, id, OP_td_dynamic_quantize_linear, (ir_new_node){.in = x, .in_count = 1, .out_count = 3}, NULL,
                 &in[0]));
  const ir_node_def *found = ir_node_of(e->graph, ir_value_of(e->graph, in[0])->node);
  in[1] = found->out[1];
  in[2] = found->out[2];
  const ir_new_node spec = {.in = in, .in_count = 3, .args = &f32, .arg_count = 1};
  return passes_add(e, id, OP_td_dequantize_linear, spec, NULL, x);
}

/* The sums of inputs, with both biases: `bias` f32 [directions, 2 * gates * hidden], NULL: none. */
static td_status add_inputs(passes_edit *e, ir_node id, const weights *w, const kern_recurrent *layout,
                            const base_tensor *bias, ir_value *sums) {
  const int64_t columns = kern_recurrent_columns(layout), rows = GATES * layout->hidden;
  ir_value in[2] = {ir_node_of(e->graph, id)->in[X]}, with[2];
  float *both = bias ? base_new(e->graph->constants, float, (size_t)columns) : NULL;
  for (int64_t column = 0; both && column < columns; column++) {
    const int64_t row = kern_recurrent_row(layout, column);
    const int64_t at = row / rows * 2 * rows + row % rows;
    if (row >= 0) both[column] = (float)passes_int8_number(bias, at) + (float)passes_int8_number(bias, at + rows);
  }
  TRY(quantise_inputs(e, id, &in[0]));
  TRY(add_matrix(e, id, w, layout, &in[1]));
  TRY(passes_add(e, id, OP_aten_matmul, (ir_new_node){.in = in, .in_count = 2}, NULL, sums));
  if (!bias) return TD_OK;
  with[0] = *sums;
  TRY(add_constant(e, both, TD_F32, 1, &columns, &with[1]));
  return passes_add(e, id, OP_aten_add, (ir_new_node){.in = with, .in_count = 2}, NULL, sums);
}

/* R for the kernel; bytes without a sign become such with one, and their zero points so, too. */
static td_status pack_states(passes_edit *e, const weights *w, const kern_i8_layout *l, const kern_recurrent *layout,
                             ir_value *packed) {
  const int64_t columns = l->groups * l->n, flip = w->q->dtype == TD_U8 ? 128 : 0;
  int8_t *values = base_new(e->scratch, int8_t, (size_t)(columns * l->k));
  float *scales = base_new(e->scratch, float, (size_t)columns);
  int32_t *zeros = base_new(e->scratch, int32_t, (size_t)columns);
  uint8_t *to = base_arena_alloc_uncleared(e->graph->constants, (size_t)l->size, 64);
  if (!values || !scales || !zeros || !to) return base_no_memory(e->err, "packed weights");
  for (int64_t column = 0; column < columns; column++) {
    const int64_t row = kern_recurrent_row(layout, column);
    if (row < 0) continue;
    scales[column] = (float)point(w, w->scales, row);
    zeros[column] = (int32_t)(zero_of(w, row) - flip);
    for (int64_t k = 0; k < l->k; k++) values[column * l->k + k] = (int8_t)(byte_of(w, row, k) ^ flip);
  }
  kern_pack_i8(l, values, scales, zeros, to);
  return add_constant(e, to, TD_U8, 1, &l->size, packed);
}

static td_status visit_lstm(passes_edit *e, ir_node id, const ir_node_def *node) {
  const kern_row *row = kern_select(KERN_LSTM, TD_I8, e->setting->isa);
  const base_tensor *bias;
  weights w, r;
  if (!row || !passes_int(node, "quantise_activations") || !passes_recurrent_is_plain(e, node) ||
      ir_type_of(e->graph, node->in[X])->rank != 3 || !find_weights(e, node, W, &w) || !find_weights(e, node, R, &r) ||
      !passes_int8_find_optional(e, node, BIAS, &bias))
    return TD_OK;
  const kern_recurrent layout = {r.q->dims[0], GATES, r.q->dims[1], row->lanes};
  const int64_t depth = kern_i8_depth(row);
  kern_i8_layout l;
  size_t count;
  if (!fits(&w, &layout) || !fits(&r, &layout) || layout.hidden < 1 || w.q->dims[1] < 1 ||
      !kern_recurrent_count(&layout, w.q->dims[1], &count) ||
      !kern_recurrent_bytes(&layout, layout.hidden, depth, &l) ||
      (bias && (bias->dtype != TD_F32 || !base_tensor_contiguous(bias) ||
                base_tensor_numel(bias) != 2 * layout.directions * GATES * layout.hidden)))
    return TD_OK;
  ir_value in[RECURRENT_OPERANDS] = {0};
  TRY(add_inputs(e, id, &w, &layout, bias, &in[0]));
  TRY(pack_states(e, &r, &l, &layout, &in[2]));
  return passes_recurrent_place(e, id, OP_td_lstm_packed, &layout, ARG_INT("depth", depth), in);
}

static td_status visit(passes_edit *e, ir_node id) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  return node->op->id == OP_td_lstm ? visit_lstm(e, id, node) : TD_OK;
}

td_status passes_recurrent_i8(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
