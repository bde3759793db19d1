/* pairs.c -- where products are to be taken in bf16, those of two activations, and of constant weights from the left,
 * are, too, where a kernel gains by it:
 *
 *     matmul(a, b)  -> matmul(a, b) {pairs = true}    of aten::matmul and td::mix
 *
 * Sizes of a sample alone decide, so that what becomes of one does not follow from how many come.
 *
 * Requires: a verified graph. Keeps: types. Breaks: operands are rounded to bf16. */
#include "kernels/products/products.h"
#include "passes/passes_priv.h"

enum {
  TILE_LEAST = 16,  /* rows, columns and numbers of a row: half of a tile */
  LEAST = 32,       /* the same without tiles: less takes longer to round than it gains */
  LEAST_B = 1 << 12 /* and numbers of B then */
};

const kern_row *passes_pairs_row(const passes_setting *setting, kern_family family) {
  const kern_row *pairs = kern_select(family, TD_BF16, setting->isa),
                 *plain = kern_select(family, TD_F32, setting->isa);
  return pairs && plain && pairs->lanes == plain->lanes ? pairs : NULL;
}

bool passes_takes_pairs(const passes_edit *e, const ir_node_def *node) {
  const ir_type *a = ir_type_of(e->graph, node->in[0]), *b = ir_type_of(e->graph, node->in[1]),
                *out = ir_type_of(e->graph, node->out[0]);
  const kern_row *row = passes_pairs_row(e->setting, KERN_MATMUL);
  if (!row || out->dtype != TD_F32 || a->rank < (node->op->id == OP_td_mix ? 2 : 3) || b->rank < 2) return false;
  int64_t rows, k, columns;
  if (!passes_assume_size(e->graph, a->dims[a->rank - 2], &rows) ||
      !passes_assume_size(e->graph, a->dims[a->rank - 1], &k) ||
      !passes_assume_size(e->graph, b->dims[b->rank - 1], &columns))
    return false;
  const bool tiles = kern_takes_tiles(row);
  const int64_t least = tiles ? TILE_LEAST : LEAST;
  return rows >= least && columns >= least && k >= least && (tiles || k >= base_ceil_div(LEAST_B, columns));
}

static td_status visit(passes_edit *e, ir_node id) {
  const ir_node_def node = *ir_node_of(e->graph, id);
  if ((node.op->id != OP_td_mix && node.op->id != OP_aten_matmul) ||
      passes_precision(e, &node) != KERN_PRECISION_BF16 || !passes_takes_pairs(e, &node))
    return TD_OK;
  base_arg args[IR_NODE_ARGS];
  uint32_t count = ir_node_args(&node, args);
  if (passes_find_arg(args, count, "pairs")) return TD_OK;
  args[count++] = ARG_BOOL("pairs", true);
  const ir_new_node spec = {.in = node.in, .in_count = node.in_count, .args = args, .arg_count = count};
  ir_value made;
  TRY(passes_add(e, id, node.op->id, spec, NULL, &made));
  return passes_take_place(e, id, made);
}

td_status passes_pairs(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
