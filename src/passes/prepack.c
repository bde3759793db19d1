/* prepack.c -- weights into the order in which kernels read them, once, as new constants: panels as wide as a vector of
 * the level in use (kernels/pack.h).
 *
 * Requires: a verified graph; the last of the passes that touch weights. Keeps: types. Breaks: sharing: the packed
 * weights are a copy (of weights used twice, two). */
#include "kernels/kernels.h"
#include "kernels/pack.h"
#include "passes/passes_priv.h"

#include <string.h>

enum { MAX_ATTRS = 24 };

/* The node as operator `op`, with `packed` for weights and `changed` attributes. */
static td_status rebuild(passes_edit *e, ir_node id, const char *op, const base_tensor *packed, const base_arg *changed,
                         uint32_t changes) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  ir_value in[KERN_EPILOGUE_END], made;
  base_arg args[MAX_ATTRS + 4];
  uint32_t count = passes_args(node, args);
  memcpy(in, node->in, node->in_count * sizeof *in);
  for (uint32_t i = 0; i < changes; i++) {
    base_arg *old = passes_arg(args, count, changed[i].name);
    if (strcmp(old->name, changed[i].name) == 0) *old = changed[i];
    else args[count++] = changed[i];
  }
  TRY(ir_add_constant(e->graph, packed, NULL, &in[1], e->err));
  const ir_new_node spec = {.in = in, .in_count = node->in_count, .args = args, .arg_count = count};
  TRY(passes_add(e, id, op, spec, NULL, &made));
  return passes_take_place(e, id, made);
}

/* Room for `count` packed floats, as a tensor of rank 1. */
static td_status new_packed(passes_edit *e, size_t count, base_tensor *packed) {
  int64_t dims[] = {(int64_t)count};
  size_t bytes;
  bool fits = !__builtin_mul_overflow(count, sizeof(float), &bytes) && count <= INT64_MAX / sizeof(float);
  float *data = fits ? base_arena_alloc_aligned(e->graph->arena, bytes + 1, 64) : NULL;
  if (!data) return base_no_memory(e->err, "packed weights");
  *packed = base_tensor_of(data, TD_F32, 1, dims);
  return TD_OK;
}

static bool is_plain(const passes_edit *e, const ir_node_def *node) {
  const base_tensor *w = passes_constant(e, node, 1);
  return w && w->dtype == TD_F32 && base_tensor_numel(w) > 0 && passes_int(node, "panel") == 0;
}

static td_status pack_linear(passes_edit *e, ir_node id, const ir_node_def *node) {
  const kern_row *row = kern_select(KERN_LINEAR, TD_F32, e->setting->isa);
  const base_tensor *w = passes_constant(e, node, 1);
  int transposed = passes_int(node, "trans_w") != 0;
  size_t count;
  base_tensor packed;
  const kern_matrix m = {.data = w->data,
                         .k = w->dims[transposed],
                         .n = w->dims[!transposed],
                         .k_stride = w->strides[transposed],
                         .n_stride = w->strides[!transposed]};
  if (!row || !kern_pack_count(m.k, m.n, row->lanes, &count)) return TD_OK;
  TRY(new_packed(e, count, &packed));
  kern_pack(packed.data, &m, row->lanes, 0, (m.n + row->lanes - 1) / row->lanes);
  const base_arg changed[] = {ARG_INT("panel", row->lanes), ARG_BOOL("trans_w", false)};
  return rebuild(e, id, "td::linear", &packed, changed, 2);
}

static const struct {
  const char *op;
  td_status (*pack)(passes_edit *e, ir_node id, const ir_node_def *node);
} rows[] = {{"td::linear", pack_linear}};

static td_status visit(passes_edit *e, ir_node id) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(node->op->name, rows[i].op) == 0 && is_plain(e, node)) return rows[i].pack(e, id, node);
  return TD_OK;
}

td_status passes_prepack(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
