/* attention_mask.c -- constant masks of attention in the order in which its kernel takes them: a vector of queries for
 * each key. They are made once, with the model; what exporters write lies the other way, or with heads side by side
 * (a table of which rows were gathered), and would be transposed for each block of queries of each head and sample. And
 * masks that only repeat rows, which become views of one. */
#include "passes/passes_priv.h"

enum { MOST_BYTES = 32 << 20, RANK = 4 };

/* The constant [..., keys, queries], what the mask repeats left out; none where it would be too large. */
static td_status make(passes_edit *e, base_tensor *t, ir_value *transposed) {
  int64_t count = 1;
  size_t bytes;
  *transposed = IR_NO_VALUE;
  for (int32_t i = 0; i < t->rank; i++) {
    if (t->strides[i] == 0) t->dims[i] = 1;
    if (__builtin_mul_overflow(count, t->dims[i], &count)) return TD_OK;
  }
  if (!base_dtype_bytes(TD_F32, count, &bytes) || bytes > MOST_BYTES || bytes == 0) return TD_OK;
  const int32_t q = t->rank - 2, k = t->rank - 1;
  const int64_t queries = t->dims[q], step = t->strides[q];
  t->dims[q] = t->dims[k], t->strides[q] = t->strides[k];
  t->dims[k] = queries, t->strides[k] = step;
  float *data = base_arena_alloc_uncleared(e->graph->constants, bytes, 64);
  if (!data) return base_no_memory(e->err, "a mask");
  base_tensor_pack(data, t);
  const base_tensor packed = base_tensor_of(data, TD_F32, t->rank, t->dims);
  return ir_add_constant(e->graph, &packed, NULL, transposed, e->err);
}

static td_status show(passes_edit *e, ir_node at, ir_value transposed, ir_value *to) {
  const int32_t rank = ir_type_of(e->graph, transposed)->rank;
  int64_t order[RANK] = {0, 1, 2, 3};
  order[rank - 2] = rank - 1, order[rank - 1] = rank - 2;
  const base_arg dims = ARG_INTS("dims", order, rank);
  return passes_add(e, at, OP_aten_permute,
                    (ir_new_node){.in = &transposed, .in_count = 1, .args = &dims, .arg_count = 1}, NULL, to);
}

td_status passes_transpose_mask(passes_edit *e, ir_node at, ir_value mask, passes_masks *seen, ir_value *to) {
  base_tensor t;
  ir_value transposed;
  *to = mask;
  for (uint32_t i = 0; i < seen->count; i++)
    if (seen->at[i].from.id == mask.id) return show(e, at, seen->at[i].transposed, to);
  if (!passes_shown(e->graph, mask, &t) || t.dtype != TD_F32 || t.rank < 2 || t.rank > RANK) return TD_OK;
  if (t.dims[t.rank - 2] == 1 || t.dims[t.rank - 1] == 1 || t.strides[t.rank - 2] <= 1) return TD_OK;
  TRY(make(e, &t, &transposed));
  if (!transposed.id) return TD_OK;
  passes_mask *slot = base_vec_push(e->scratch, seen);
  if (!slot) return base_no_memory(e->err, "a mask");
  *slot = (passes_mask){mask, transposed};
  return show(e, at, transposed, to);
}

/* ---- masks that repeat rows ---- */

/* expand(v) to the type of output 0 of `at`, whose place it takes. */
static td_status repeat_instead(passes_edit *e, ir_node at, ir_value v) {
  const ir_value old = ir_node_of(e->graph, at)->out[0];
  const ir_type t = *ir_type_of(e->graph, old);
  ir_value in[2] = {v}, out;
  TRY(ir_add_ints(e->graph, t.dims, (uint32_t)t.rank, &in[1], e->err));
  TRY(passes_add(e, at, OP_aten_expand, (ir_new_node){.in = in, .in_count = 2}, NULL, &out));
  return ir_type_equal(ir_type_of(e->graph, out), ir_type_of(e->graph, old)) ? passes_take_place(e, at, out) : TD_OK;
}

static bool all_true(const base_tensor *t) {
  if (!t || t->dtype != TD_BOOL || !base_tensor_contiguous(t)) return false;
  const uint8_t *at = t->data;
  for (int64_t i = 0; i < base_tensor_numel(t); i++)
    if (!at[i]) return false;
  return true;
}

td_status passes_mask_and(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_type *t = ir_type_of(e->graph, node->out[0]);
  if (ir_known_count(t) < 1) return TD_OK;
  for (uint32_t i = 0; i < 2; i++)
    if (all_true(passes_constant(e, node, i)) && ir_type_of(e->graph, node->in[1 - i])->dtype == TD_BOOL)
      return repeat_instead(e, id, node->in[1 - i]);
  return TD_OK;
}

td_status passes_mask_where(passes_edit *e, ir_node id, const ir_node_def *node) {
  double number;
  const ir_node_def *repeated = passes_producer(e, node->in[0], OP_aten_expand);
  if (!repeated || !passes_number(e, node->in[1], &number) || !passes_number(e, node->in[2], &number)) return TD_OK;
  if (ir_known_count(ir_type_of(e->graph, node->out[0])) < 1) return TD_OK;
  ir_value in[3] = {repeated->in[0], node->in[1], node->in[2]}, chosen;
  TRY(passes_add(e, id, OP_aten_where, (ir_new_node){.in = in, .in_count = 3}, NULL, &chosen));
  return repeat_instead(e, id, chosen);
}
