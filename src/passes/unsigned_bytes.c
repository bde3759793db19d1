/* unsigned_bytes.c -- activations that are quantised to bytes with a sign are, without one:
 *
 *     q = quantize(x, scale, zero), i8;   dequantize(q, scale, zero), each use of q
 *  -> q = quantize(x, scale, zero + 128), u8;   dequantize(q, scale, zero + 128)
 *
 * The numbers are the same, saturated at the same places. Products of bytes take activations without a sign and weights
 * with one: others would be flipped as they are read. Weights, made of constants alone, stay.
 *
 * Requires: a verified graph; comes before int8. Keeps: numbers. Breaks: nothing. */
#include "passes/passes_priv.h"

typedef struct state {
  uint32_t count;  /* of values */
  uint32_t *met;   /* by value: dequantisations that read it */
  ir_value *taken; /* by value: what it becomes without a sign */
} state;

enum { X, SCALE, ZERO, MOST_DEPTH = 4 };

static bool is_constant(passes_edit *e, ir_value v, int depth) {
  const ir_node made_by = ir_value_of(e->graph, v)->node;
  if (passes_constant_value(e, v)) return true;
  if (!made_by.id || depth > MOST_DEPTH) return false;
  const ir_node_def *node = ir_node_of(e->graph, made_by);
  for (uint32_t i = 0; i < node->in_count; i++)
    if (node->in[i].id && !is_constant(e, node->in[i], depth + 1)) return false;
  return node->in_count > 0;
}

/* The zero point without a sign. False: it is not known. */
static td_status shift_zero(passes_edit *e, const ir_node_def *node, ir_value *shifted, bool *known) {
  const bool given = node->in_count > ZERO && node->in[ZERO].id;
  const base_tensor *zero = given ? passes_constant(e, node, ZERO) : NULL,
                    *like = given ? zero : passes_constant(e, node, SCALE);
  *known = like && (!given || zero->dtype == TD_I8) && base_tensor_contiguous(like);
  if (!*known) return TD_OK;
  const int64_t count = base_tensor_numel(like);
  uint8_t *to = base_arena_alloc(e->graph->constants, (size_t)count + 1);
  if (!to) return base_no_memory(e->err, "a zero point");
  for (int64_t i = 0; i < count; i++) to[i] = (uint8_t)(128 + (zero ? ((const int8_t *)zero->data)[i] : 0));
  const base_tensor t = base_tensor_of(to, TD_U8, like->rank, like->dims);
  return ir_add_constant(e->graph, &t, NULL, shifted, e->err);
}

static td_status count_uses(passes_edit *e, ir_node id) {
  const ir_node_def *node = ir_node_of(e->graph, id);
  state *s = e->user;
  if (node->op->id == OP_td_dequantize_linear && node->in[X].id < s->count) s->met[node->in[X].id]++;
  return TD_OK;
}

/* `node` over `x`, with this zero point, of type `dtype`. */
static td_status rebuild(passes_edit *e, ir_node id, const ir_node_def *node, ir_value x, ir_value zero, td_dtype dtype,
                         ir_value *made) {
  base_arg args[IR_NODE_ARGS];
  const uint32_t count = ir_node_args(node, args);
  const ir_value in[] = {x, node->in[SCALE], zero};
  *passes_arg(args, count, "dtype") = ARG_DTYPE("dtype", dtype);
  return passes_add(e, id, node->op->id, (ir_new_node){.in = in, .in_count = 3, .args = args, .arg_count = count}, NULL,
                    made);
}

static td_status visit_quantize(passes_edit *e, ir_node id, const ir_node_def *def) {
  const ir_node_def node = *def;
  const ir_value q = node.out[0];
  state *s = e->user;
  ir_value zero;
  bool known;
  if (ir_type_of(e->graph, q)->dtype != TD_I8 || q.id >= s->count || s->met[q.id] == 0 ||
      s->met[q.id] != passes_uses(e, q) || is_constant(e, node.in[X], 0))
    return TD_OK;
  TRY(shift_zero(e, &node, &zero, &known));
  return known ? rebuild(e, id, &node, node.in[X], zero, TD_U8, &s->taken[q.id]) : TD_OK;
}

static td_status visit_dequantize(passes_edit *e, ir_node id, const ir_node_def *def) {
  const ir_node_def node = *def;
  const ir_value q = node.in[X];
  const state *s = e->user;
  ir_value zero, made;
  bool known;
  if (q.id >= s->count || !s->taken[q.id].id) return TD_OK;
  TRY(shift_zero(e, &node, &zero, &known));
  if (!known) return TD_OK;
  TRY(rebuild(e, id, &node, s->taken[q.id], zero, ir_type_of(e->graph, node.out[0])->dtype, &made));
  return passes_take_place(e, id, made); /* the last one takes the quantisation with a sign along */
}

static td_status visit(passes_edit *e, ir_node id) {
  static const passes_rule rules[] = {{OP_td_quantize_linear, visit_quantize},
                                      {OP_td_dequantize_linear, visit_dequantize}};
  return passes_apply(e, id, rules, sizeof rules / sizeof *rules, NULL);
}

td_status passes_unsigned_bytes(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  if (!kern_select(KERN_LINEAR_I8, TD_I8, setting->isa)) return TD_OK;
  base_arena *arena = base_arena_new_brief(base_arena_allocator(graph->arena));
  state s = {.count = graph->values.count};
  s.met = arena ? base_new(arena, uint32_t, (size_t)s.count + 1) : NULL;
  s.taken = s.met ? base_new(arena, ir_value, (size_t)s.count + 1) : NULL;
  passes_edit e = {.graph = graph, .setting = setting, .changes = changes, .err = err, .user = &s}, again = e;
  td_status status = s.taken ? passes_walk(&e, count_uses, NULL) : base_no_memory(err, "a pass");
  if (status == TD_OK) status = passes_walk(&again, visit, NULL);
  base_arena_free(arena);
  return status;
}
