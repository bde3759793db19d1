/* fourier.c -- Fourier transforms whose length is known get the table of roots of unity that their kernels read, once,
 * as a constant operand:
 *
 *     td::dft(x, length, axis)  ->  td::dft(x, length, axis, table)
 *
 * Requires: a verified graph. Keeps: types, and every bit: a kernel without a table makes the same one for itself,
 * whenever it runs. Breaks: nothing. */
#include "kernels/rows/rows.h"
#include "passes/passes_priv.h"

#include <string.h>

enum {
  OPERANDS = KERN_STFT_TABLE + 1,
  LONGEST = 1 << 20 /* elements: longer tables would burden a model with more than they save */
};

/* The constant of a transform of n elements: equal ones become one (compile/share.c). */
static td_status make_table(passes_edit *e, int64_t n, bool half, ir_value *made) {
  const kern_fourier f = kern_fourier_of(n, half);
  float *table = base_arena_alloc_uncleared(e->graph->constants, (size_t)f.count * sizeof *table + 1, 64);
  double *room = base_new(e->scratch, double, (size_t)kern_fourier_room(&f) + 1);
  if (!table || !room) return base_no_memory(e->err, "a table of roots of unity");
  kern_fourier_fill(&f, table, room);
  const base_tensor t = base_tensor_of(table, TD_F32, 1, &f.count);
  return ir_add_constant(e->graph, &t, NULL, made, e->err);
}

static td_status give_table(passes_edit *e, ir_node id, uint32_t place, base_dim n, bool half) {
  const ir_node_def node = *ir_node_of(e->graph, id);
  const bool is_dft = place == KERN_DFT_TABLE;
  const base_arg args[] = {ARG_BOOL("onesided", passes_int(&node, "onesided") != 0),
                           ARG_BOOL("inverse", is_dft && passes_int(&node, "inverse"))};
  if (node.in_count > place || !base_dim_known(n) || n < 1 || n > LONGEST) return TD_OK;
  ir_value in[OPERANDS] = {0}, made;
  for (uint32_t i = 0; i < node.in_count; i++) in[i] = node.in[i];
  TRY(make_table(e, n, half, &in[place]));
  const ir_new_node spec = {.in = in, .in_count = place + 1, .args = args, .arg_count = is_dft ? 2 : 1};
  TRY(passes_add(e, id, node.op->id, spec, NULL, &made));
  return passes_take_place(e, id, made);
}

/* A whole number that operand `i` is; *n stays where there is none. False: the model computes it. */
static bool whole_number(const passes_edit *e, const ir_node_def *node, uint32_t i, base_dim *n) {
  double number;
  if (i >= node->in_count || !node->in[i].id) return true;
  if (!passes_number(e, node->in[i], &number)) return false;
  *n = (base_dim)number;
  return true;
}

static td_status visit_dft(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_type *x = ir_type_of(e->graph, node->in[0]), *y = ir_type_of(e->graph, node->out[0]);
  const bool inverse = passes_int(node, "inverse"), onesided = passes_int(node, "onesided");
  base_dim axis = -2;
  if (x->dtype != TD_F32 || x->rank < 2 || y->rank != x->rank || !whole_number(e, node, KERN_DFT_AXIS, &axis))
    return TD_OK;
  if (axis < 0) axis += x->rank;
  if (axis < 0 || axis >= x->rank - 1 || !base_dim_known(x->dims[x->rank - 1])) return TD_OK;
  base_dim n = inverse || !onesided ? y->dims[axis] : x->dims[axis];
  if (!whole_number(e, node, KERN_DFT_LENGTH, &n)) return TD_OK;
  return give_table(e, id, KERN_DFT_TABLE, n, kern_fourier_halves(n, x->dims[x->rank - 1], inverse, onesided));
}

static td_status visit_stft(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_type *x = ir_type_of(e->graph, node->in[0]);
  const ir_type *window = node->in_count > KERN_STFT_WINDOW && node->in[KERN_STFT_WINDOW].id
                              ? ir_type_of(e->graph, node->in[KERN_STFT_WINDOW])
                              : NULL;
  base_dim n = window && window->rank == 1 ? window->dims[0] : BASE_DIM_NONE;
  if (x->dtype != TD_F32 || (x->rank != 2 && x->rank != 3) || (x->rank == 3 && !base_dim_known(x->dims[2])))
    return TD_OK;
  if (!whole_number(e, node, KERN_STFT_LENGTH, &n)) return TD_OK;
  const bool onesided = passes_int(node, "onesided");
  return give_table(e, id, KERN_STFT_TABLE, n, kern_fourier_halves(n, x->rank == 3 ? x->dims[2] : 1, false, onesided));
}

static const passes_rule rules[] = {{OP_td_dft, visit_dft}, {OP_td_stft, visit_stft}};

static td_status visit(passes_edit *e, ir_node id) {
  return passes_apply(e, id, rules, sizeof rules / sizeof *rules, NULL);
}

td_status passes_fourier(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
