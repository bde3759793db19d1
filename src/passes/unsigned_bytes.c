/* unsigned_bytes.c -- activations that are quantised to bytes with a sign are, without one:
 *
 *     q = quantize(x, scale, zero), i8;   dequantize(q, scale, zero), each use of q
 *  -> q = quantize(x, scale, zero + 128), u8;   dequantize(q, scale, zero + 128)
 *
 * The numbers are the same, saturated at the same places. Products of bytes take activations without a sign and weights
 * with one: others would be flipped as they are read. td::qlinear_conv and qlinear_matmul dequantise and quantise, too.
 * Weights, made of constants alone, stay.
 *
 * Requires: a verified graph; comes before int8. Keeps: numbers. Breaks: nothing. */
#include "passes/passes_priv.h"

enum { Y_SCALE = 6, Y_ZERO }; /* of qlinear operators */

/* An operand of bytes (of what makes some: 0), those of its scale and zero point, and the one whose type the result
 * has, 0: an attribute says it. */
typedef struct quantised {
  ir_op_id op;
  uint32_t value, scale, zero, typed;
} quantised;
static const quantised reads[] = {{OP_td_dequantize_linear, 0, 1, 2, 0},
                                  {OP_td_qlinear_conv, 0, 1, 2, Y_ZERO},
                                  {OP_td_qlinear_matmul, 0, 1, 2, Y_ZERO},
                                  {OP_td_qlinear_matmul, 3, 4, 5, Y_ZERO}};
static const quantised makes[] = {{OP_td_quantize_linear, 0, 1, 2, 0},
                                  {OP_td_qlinear_conv, 0, Y_SCALE, Y_ZERO, Y_ZERO},
                                  {OP_td_qlinear_matmul, 0, Y_SCALE, Y_ZERO, Y_ZERO}};

typedef struct state {
  uint32_t count;  /* of values */
  uint32_t *met;   /* by value: operands above that are it, with a zero point that is known */
  ir_value *taken; /* by value: what it becomes without a sign */
} state;

enum { MOST_DEPTH = 4 };

static bool is_constant(passes_edit *e, ir_value v, int depth) {
  const ir_node made_by = ir_value_of(e->graph, v)->node;
  if (passes_constant_value(e, v)) return true;
  if (!made_by.id || depth > MOST_DEPTH) return false;
  const ir_node_def *node = ir_node_of(e->graph, made_by);
  for (uint32_t i = 0; i < node->in_count; i++)
    if (node->in[i].id && !is_constant(e, node->in[i], depth + 1)) return false;
  return node->in_count > 0;
}

/* The zero point, or where none is given the scale that it goes with. NULL: it is not known. */
static const base_tensor *known_zero(const passes_edit *e, const ir_node_def *node, const quantised *at, bool *given) {
  *given = at->zero < node->in_count && node->in[at->zero].id;
  if (at->typed && (at->typed >= node->in_count || !node->in[at->typed].id)) return NULL;
  const base_tensor *t = passes_constant(e, node, *given ? at->zero : at->scale);
  return t && (!*given || t->dtype == TD_I8) && base_tensor_contiguous(t) ? t : NULL;
}

static td_status shift_zero(passes_edit *e, const ir_node_def *node, const quantised *at, ir_value *shifted) {
  bool given;
  const base_tensor *like = known_zero(e, node, at, &given);
  BASE_ASSERT(like);
  const int64_t count = base_tensor_numel(like);
  uint8_t *to = base_arena_alloc(e->graph->constants, (size_t)count + 1);
  if (!to) return base_no_memory(e->err, "a zero point");
  for (int64_t i = 0; i < count; i++) to[i] = (uint8_t)(128 + (given ? ((const int8_t *)like->data)[i] : 0));
  const base_tensor t = base_tensor_of(to, TD_U8, like->rank, like->dims);
  return ir_add_constant(e->graph, &t, NULL, shifted, e->err);
}

static td_status count_reads(passes_edit *e, ir_node id) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  const state *s = e->user;
  bool given;
  for (size_t i = 0; i < sizeof reads / sizeof *reads; i++)
    if (node->op->id == reads[i].op && node->in[reads[i].value].id < s->count && known_zero(e, node, &reads[i], &given))
      s->met[node->in[reads[i].value].id]++;
  return TD_OK;
}

/* How `node` makes a value that loses its sign; NULL: it does not. */
static const quantised *made_signed(passes_edit *e, const ir_node_def *node) {
  enum { MAKES = sizeof makes / sizeof *makes };
  const state *s = e->user;
  const ir_value q = node->out[0];
  size_t i = 0;
  bool given;
  while (i < MAKES && makes[i].op != node->op->id) i++;
  if (i == MAKES || ir_type_of(e->graph, q)->dtype != TD_I8 || q.id >= s->count || !s->met[q.id]) return NULL;
  if (s->met[q.id] != passes_uses(e, q) || is_constant(e, node->in[0], 0)) return NULL;
  return known_zero(e, node, &makes[i], &given) ? &makes[i] : NULL;
}

/* A value without a sign stands beside the one with it until the last reader has changed over, which takes that one
 * along. */
static td_status visit(passes_edit *e, ir_node id) {
  enum { OPERANDS = 9 };
  const ir_node_def node = *ir_node_of(e->graph, id);
  const state *s = e->user;
  ir_value in[OPERANDS] = {IR_NO_VALUE}, made;
  base_arg args[IR_NODE_ARGS];
  if (node.in_count == 0 || node.in_count > OPERANDS || node.out_count != 1) return TD_OK;
  const quantised *result = made_signed(e, &node);
  uint32_t in_count = node.in_count;
  bool changed = result != NULL;
  for (uint32_t i = 0; i < node.in_count; i++) in[i] = node.in[i];
  if (result) TRY(shift_zero(e, &node, result, &in[result->zero]));
  for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
    const quantised *r = &reads[i];
    if (node.op->id != r->op || node.in[r->value].id >= s->count || !s->taken[node.in[r->value].id].id) continue;
    in[r->value] = s->taken[node.in[r->value].id];
    TRY(shift_zero(e, &node, r, &in[r->zero]));
    changed = true;
  }
  if (!changed) return TD_OK;
  while (in_count < OPERANDS && in[in_count].id) in_count++;
  const uint32_t arg_count = ir_node_args(&node, args);
  if (result && node.op->id == OP_td_quantize_linear) *passes_arg(args, arg_count, "dtype") = ARG_DTYPE("dtype", TD_U8);
  const ir_new_node spec = {.in = in, .in_count = in_count, .args = args, .arg_count = arg_count};
  TRY(passes_add(e, id, node.op->id, spec, NULL, &made));
  if (!result) return passes_take_place(e, id, made);
  s->taken[node.out[0].id] = made;
  return TD_OK;
}

td_status passes_unsigned_bytes(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  if (!kern_select(KERN_LINEAR_I8, TD_I8, setting->isa)) return TD_OK;
  base_arena *arena = base_arena_new_brief(base_arena_allocator(graph->arena));
  state s = {.count = graph->values.count};
  s.met = arena ? base_new(arena, uint32_t, (size_t)s.count + 1) : NULL;
  s.taken = s.met ? base_new(arena, ir_value, (size_t)s.count + 1) : NULL;
  passes_edit e = {.graph = graph, .setting = setting, .changes = changes, .err = err, .user = &s}, again = e;
  td_status status = s.taken ? passes_walk(&e, count_reads, NULL) : base_no_memory(err, "a pass");
  if (status == TD_OK) status = passes_walk(&again, visit, NULL);
  base_arena_free(arena);
  return status;
}
