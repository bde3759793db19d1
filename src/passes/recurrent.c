/* recurrent.c -- td::lstm, td::gru and td::rnn with constant weights and ONNX's default activations (an rnn: tanh or
 * relu) become td::lstm_packed and so on, their weights packed for the kernel of this machine. With bf16 the
 * inputs' part of an LSTM, or where there are tiles of a large GRU, is a product of its own, of all steps at once:
 *
 *     lstm(x, w, r, bias)  -> lstm_packed(td::linear(x, w, bias), -, r)
 *
 * With tiles r is of bf16, too, where a step has work enough for them.
 *
 * Requires: a verified graph; f32; no clipping. Keeps: types, origins. Breaks:
 * bit equality (gates are computed in f32); the packed weights are a copy. */
#include "base/size.h"
#include "kernels/kernels.h"
#include "kernels/products/products.h"
#include "passes/recurrent_priv.h"

#include <string.h>
#include <strings.h>

enum { X, W, R, BIAS, LENGTHS, H0, C0, PEEPHOLES };

static const struct form {
  ir_op_id op, packed;
  const char *activations;
  kern_family family;
  int64_t gates;
} forms[] = {{OP_td_lstm, OP_td_lstm_packed, "Sigmoid,Tanh,Tanh", KERN_LSTM, 4},
             {OP_td_gru, OP_td_gru_packed, "Sigmoid,Tanh", KERN_GRU, 3},
             {OP_td_rnn, OP_td_rnn_packed, "Tanh", KERN_RNN, 1},
             {OP_td_rnn, OP_td_rnn_packed, "Relu", KERN_RNN, 1}};

/* `list` says `once` for each of `times` directions, or for one alone. */
static bool repeats(const char *list, const char *once, int64_t times) {
  size_t length = strlen(once);
  for (int64_t i = 0; i < times; i++) {
    if (strncasecmp(list, once, length) != 0) return false;
    list += length;
    if (!*list) return true;
    if (*list++ != ',') return false;
  }
  return false;
}

static bool has(const ir_node_def *node, uint32_t i) { return i < node->in_count && node->in[i].id; }

static const base_tensor *weights(const passes_edit *e, const ir_node_def *node, uint32_t i, int32_t rank) {
  const base_tensor *t = passes_constant(e, node, i);
  return t && t->dtype == TD_F32 && t->rank == rank ? t : NULL;
}

static int64_t directions_of(const ir_node_def *node) {
  return strcmp(passes_str(node, "direction"), "bidirectional") == 0 ? 2 : 1;
}

/* Without weights in question. */
static bool has_plain_cell(const passes_edit *e, const ir_node_def *node, const struct form *form) {
  return ir_type_of(e->graph, node->in[X])->dtype == TD_F32 && !(passes_float(node, "clip") > 0) &&
         !passes_int(node, "input_forget") &&
         repeats(passes_str(node, "activations"), form->activations, directions_of(node));
}

bool passes_recurrent_is_plain(const passes_edit *e, const ir_node_def *node) {
  return has_plain_cell(e, node, &forms[0]) && !has(node, PEEPHOLES);
}

static bool is_plain(const passes_edit *e, const ir_node_def *node, const struct form *form, int64_t directions) {
  if (!has_plain_cell(e, node, form) || passes_int(node, "quantise_activations")) return false;
  const base_tensor *w = weights(e, node, W, 3), *r = weights(e, node, R, 3), *bias = weights(e, node, BIAS, 2);
  const base_tensor *peepholes = weights(e, node, PEEPHOLES, 2);
  if (!w || !r || (has(node, BIAS) && !bias) || (has(node, PEEPHOLES) && !peepholes)) return false;
  if (base_tensor_numel(r) == 0) return false;
  int64_t hidden = r->dims[2], rows = form->gates * hidden;
  return w->dims[0] == directions && r->dims[0] == directions && w->dims[1] == rows && r->dims[1] == rows &&
         (!bias || (bias->dims[0] == directions && bias->dims[1] == 2 * rows)) &&
         (!peepholes || (peepholes->dims[0] == directions && peepholes->dims[1] == KERN_RECURRENT_PEEPHOLES * hidden));
}

/* Room for a packed constant. */
static td_status add_packed(passes_edit *e, int32_t rank, const int64_t *dims, float **data, ir_value *value) {
  int64_t count;
  size_t bytes;
  const bool fits = base_numel(rank, dims, &count) && base_mul((size_t)count, sizeof **data, &bytes);
  *data = fits ? base_arena_alloc_aligned(e->graph->constants, bytes + 1, 64) : NULL;
  if (!*data) return base_no_memory(e->err, "packed weights");
  base_tensor packed = base_tensor_of(*data, TD_F32, rank, dims);
  return ir_add_constant(e->graph, &packed, NULL, value, e->err);
}

/* The same as tiles of bf16. */
static td_status pack_tiles(passes_edit *e, const kern_recurrent *layout, const base_tensor *w, ir_value *value) {
  size_t whole, count;
  const bool fits = kern_recurrent_count(layout, w->dims[2], &whole) &&
                    kern_recurrent_tile_count(layout, w->dims[2], &count) && whole < SIZE_MAX / 8 &&
                    count < SIZE_MAX / 8;
  float *packed = fits ? base_arena_alloc_uncleared(e->scratch, whole * sizeof *packed + 1, 64) : NULL;
  uint16_t *tiles = packed ? base_arena_alloc_aligned(e->graph->constants, count * sizeof *tiles + 1, 64) : NULL;
  if (!tiles) return base_no_memory(e->err, "packed weights");
  kern_recurrent_pack(packed, layout, w);
  kern_recurrent_narrow(tiles, layout, w->dims[2], packed);
  const base_tensor t = base_tensor_of(tiles, TD_BF16, 1, &(int64_t){(int64_t)count});
  return ir_add_constant(e->graph, &t, NULL, value, e->err);
}

static td_status pack(passes_edit *e, const kern_recurrent *layout, const base_tensor *w, ir_value *value) {
  size_t count;
  float *data;
  if (!kern_recurrent_count(layout, w->dims[2], &count)) return base_no_memory(e->err, "packed weights");
  TRY(add_packed(e, 1, &(int64_t){(int64_t)count}, &data, value));
  kern_recurrent_pack(data, layout, w);
  return TD_OK;
}

static td_status pack_bias(passes_edit *e, const kern_recurrent *layout, bool separate, const base_tensor *bias,
                           float **data, ir_value *value) {
  size_t count;
  if (!kern_recurrent_bias_count(layout, &count)) return base_no_memory(e->err, "packed weights");
  TRY(add_packed(e, 1, &(int64_t){(int64_t)count}, data, value));
  kern_recurrent_pack_bias(*data, layout, separate, bias);
  return TD_OK;
}

static td_status pack_peepholes(passes_edit *e, const kern_recurrent *layout, const base_tensor *t, ir_value *value) {
  size_t count;
  float *data;
  if (!kern_recurrent_peephole_count(layout, &count)) return base_no_memory(e->err, "packed weights");
  TRY(add_packed(e, 1, &(int64_t){(int64_t)count}, &data, value));
  kern_recurrent_pack_peepholes(data, layout, t);
  return TD_OK;
}

/* Is r worth tiles, too? One sequence has a row of them, and r of f32 in the nearest caches needs none. */
static bool fills_tiles(const passes_edit *e, const ir_node_def *node, int64_t hidden) {
  enum { ALONE = 96, TOGETHER = 48 };
  const ir_type *x = ir_type_of(e->graph, node->in[X]);
  const base_dim batch = x->rank == 3 ? x->dims[passes_int(node, "batch_first") ? 0 : 1] : 1;
  const bool alone = base_dim_known(batch) && batch == 1;
  return hidden >= (alone ? ALONE : TOGETHER);
}

/* How the product with the inputs takes bf16, if it does: *tiles: r is to be tiles of that, too. A GRU's does where r
 * does. */
static bool takes_bf16(const passes_edit *e, const ir_node_def *node, const struct form *form,
                       const kern_recurrent *layout, bool *tiles) {
  const kern_row *by = kern_select(KERN_LINEAR, TD_BF16, e->setting->isa);
  const bool takes = by && by->lanes == layout->panel && passes_precision(e, node) == KERN_PRECISION_BF16;
  const kern_row *states = kern_select(form->family, TD_BF16, e->setting->isa);
  *tiles = takes && states && states->lanes == layout->panel && fills_tiles(e, node, layout->hidden);
  return takes &&
         (form->family == KERN_LSTM || (form->family == KERN_GRU && passes_int(node, "linear_before_reset") && *tiles));
}

/* What the inputs' product adds of a packed bias: of a panel a vector for each gate. */
static td_status bias_of_inputs(passes_edit *e, const kern_recurrent *layout, const float *all, ir_value *bias) {
  const int64_t columns = kern_recurrent_columns(layout), gates = layout->gates * layout->panel;
  float *own;
  if (layout->gates == KERN_RECURRENT_BIASES) return TD_OK;
  TRY(add_packed(e, 1, &columns, &own, bias));
  for (int64_t i = 0; i < columns; i += gates, all += KERN_RECURRENT_BIASES * layout->panel)
    memcpy(own + i, all, (size_t)gates * sizeof *own);
  return TD_OK;
}

/* The sums of the inputs, whose packed bias is `bias`: of id 0: none. */
static td_status add_inputs(passes_edit *e, ir_node id, const kern_recurrent *layout, ir_value bias, ir_value *sums) {
  const base_tensor *w = weights(e, ir_node_of(e->graph, id), W, 3);
  const int64_t dims[] = {w->dims[2], kern_recurrent_columns(layout)};
  ir_value in[] = {ir_node_of(e->graph, id)->in[X], {0}, bias};
  const base_arg n = ARG_INT("n", dims[1]);
  float *data;
  TRY(add_packed(e, 2, dims, &data, &in[1]));
  kern_recurrent_pack_matrix(data, layout, w);
  const ir_new_node spec = {.in = in, .in_count = bias.id ? 3 : 2, .args = &n, .arg_count = 1};
  return passes_add(e, id, OP_td_linear, spec, NULL, sums);
}

td_status passes_recurrent_place(passes_edit *e, ir_node id, ir_op_id op, const kern_recurrent *layout, base_arg own,
                                 ir_value *in) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  const bool lstm = layout->gates == 4;
  const uint32_t outputs = node->out_count;
  const uint32_t in_count = in[RECURRENT_PEEPHOLES].id ? RECURRENT_OPERANDS
                            : has(node, LENGTHS)       ? RECURRENT_PEEPHOLES
                            : lstm                     ? 6
                                                       : 5;
  const base_arg args[] = {ARG_INT("hidden", layout->hidden),
                           ARG_INT("panel", layout->panel),
                           ARG_INT("directions", layout->directions),
                           ARG_BOOL("reverse", strcmp(passes_str(node, "direction"), "reverse") == 0),
                           ARG_BOOL("batch_first", passes_int(node, "batch_first")),
                           own};
  const ir_new_node spec = {.in = in, .in_count = in_count, .out_count = outputs, .args = args, .arg_count = 6};
  ir_value first;
  if (has(node, H0)) in[4] = node->in[H0];
  if (lstm && has(node, C0)) in[5] = node->in[C0];
  if (has(node, LENGTHS)) in[RECURRENT_LENGTHS] = node->in[LENGTHS];
  TRY(passes_add(e, id, op, spec, NULL, &first));
  const ir_node_def *made = ir_node_of(e->graph, ir_value_of(e->graph, first)->node);
  node = ir_node_of(e->graph, id);
  for (uint32_t i = 1; i < outputs; i++) TRY(passes_replace(e, node->out[i], made->out[i]));
  return passes_take_place(e, id, first);
}

static td_status rewrite(passes_edit *e, ir_node id, const struct form *form, const kern_recurrent *layout) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  ir_value in[RECURRENT_OPERANDS] = {node->in[X]};
  const base_arg own = form->gates == 1   ? ARG_BOOL("relu", strcmp(form->activations, "Relu") == 0)
                       : form->gates == 3 ? ARG_BOOL("linear_before_reset", passes_int(node, "linear_before_reset"))
                                          : ARG_INT("depth", 0);
  bool tiles;
  const bool apart = takes_bf16(e, node, form, layout, &tiles);
  float *packed_bias = NULL;
  if (!apart) TRY(pack(e, layout, weights(e, node, W, 3), &in[1]));
  node = ir_node_of(e->graph, id);
  TRY((apart && tiles ? pack_tiles : pack)(e, layout, weights(e, node, R, 3), &in[2]));
  node = ir_node_of(e->graph, id);
  if (has(node, BIAS))
    TRY(pack_bias(e, layout, form->gates == 3 && passes_int(node, "linear_before_reset"), weights(e, node, BIAS, 2),
                  &packed_bias, &in[3]));
  node = ir_node_of(e->graph, id);
  if (has(node, PEEPHOLES)) TRY(pack_peepholes(e, layout, weights(e, node, PEEPHOLES, 2), &in[RECURRENT_PEEPHOLES]));
  ir_value bias = in[3];
  if (apart && bias.id) TRY(bias_of_inputs(e, layout, packed_bias, &bias));
  if (apart) TRY(add_inputs(e, id, layout, bias, &in[0]));
  if (apart && form->family == KERN_LSTM) in[3] = (ir_value){0};
  return passes_recurrent_place(e, id, form->packed, layout, own, in);
}

static td_status visit(passes_edit *e, ir_node id) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    const struct form *form = &forms[i];
    if (node->op->id != form->op) continue;
    const int64_t directions = directions_of(node);
    const kern_row *row = kern_select(form->family, TD_F32, e->setting->isa);
    if (!row || !is_plain(e, node, form, directions)) continue;
    const int64_t panel = row->lanes * (form->gates == 1 ? KERN_PLAIN_VECTORS : 1);
    const kern_recurrent layout = {directions, form->gates, passes_constant(e, node, R)->dims[2], panel};
    return rewrite(e, id, form, &layout);
  }
  return TD_OK;
}

td_status passes_recurrent(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
