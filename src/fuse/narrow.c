/* narrow.c -- loops of f32 that read and store bf16: those of large images, which wait for memory, between products of
 * bf16. They compute in f32 as before; a load widens, a store rounds. An element-wise operator with a kernel of its own
 * is made a loop for that. */
#include "fuse/fuse_priv.h"
#include "kernels/loops/loops.h"

static bool is_float(const ir_graph *graph, ir_value v) {
  const ir_type *t = v.id ? ir_type_of(graph, v) : NULL;
  return t && t->kind == IR_TENSOR && (t->dtype == TD_F32 || t->dtype == TD_BF16) && t->rank >= 0;
}

/* One operator as a program; what it reads goes to `in`. False: it has no such form. */
static bool build_one(const ir_graph *graph, uint32_t isa, base_arena *scratch, const ir_node_def *node, loop_build *b,
                      ir_value *in) {
  const ir_kernel_query *query = fuse_query(graph, isa, scratch, node);
  const ir_type *out = ir_type_of(graph, node->out[0]);
  uint32_t count = 0;
  if (!query || node->in_count > BASE_PROGRAM_OPERANDS || out->rank < 0) return false;
  loop_start(b, (uint8_t)out->rank, 0);
  b->in_count = node->in_count;
  b->out = LOOP_NONE;
  for (uint32_t k = 0; k < node->in_count; k++) {
    const base_tensor *constant = node->in[k].id ? ir_value_of(graph, node->in[k])->info.constant : NULL;
    b->in[k] = LOOP_NONE;
    if (!node->in[k].id) continue;
    if (!is_float(graph, node->in[k])) return false;
    if (constant && base_tensor_numel(constant) == 1) {
      b->in[k] = loop_float(b, BASE_TYPE_F32, base_load_f64(constant->dtype, constant->data, 0));
    } else {
      in[count] = node->in[k];
      b->in[k] = loop_load(b, count++, BASE_TYPE_F32, true);
    }
  }
  return node->op->lower(query, b) && !b->failed && b->out != LOOP_NONE && loop_type_of(b, b->out) == BASE_TYPE_F32;
}

static bool reads_plainly(const base_program *p) {
  base_program_pick picks[BASE_PROGRAM_OPERANDS];
  return !base_program_picks(p, picks);
}

bool fuse_may_narrow(const ir_graph *graph, uint32_t isa, base_arena *scratch, const ir_node_def *node) {
  ir_value in[BASE_PROGRAM_OPERANDS];
  base_program p;
  uint32_t count;
  if (!node->op || node->out_count == 0) return false;
  for (uint32_t i = 0; i < node->out_count; i++)
    if (!is_float(graph, node->out[i])) return false;
  if (node->op->flags & IR_OP_LOOP) {
    const int64_t *words = base_attr_ints(node->attrs, KERN_FUSED_PROGRAM, &count);
    return !base_program_read(words, count, &p) && reads_plainly(&p);
  }
  if (!(node->op->flags & IR_OP_ELEMENTWISE) || !node->op->lower || node->out_count != 1) return false;
  loop_build *b = base_new(scratch, loop_build, 1);
  return b && build_one(graph, isa, scratch, node, b, in);
}

td_status fuse_narrow(const ir_graph *graph, uint32_t isa, base_arena *scratch, const ir_node_def *node,
                      uint32_t narrow, fuse_narrowed *to, td_error *err) {
  loop_build *b = base_new(scratch, loop_build, 1);
  ir_value *in = base_new(scratch, ir_value, BASE_PROGRAM_OPERANDS);
  *to = (fuse_narrowed){.in = in};
  if (!b || !in) return base_no_memory(err, "a fused loop");
  base_program *p = &b->program;
  if (node->op->flags & IR_OP_LOOP) {
    const int64_t *words = base_attr_ints(node->attrs, KERN_FUSED_PROGRAM, &to->word_count);
    const char *wrong = base_program_read(words, to->word_count, p);
    if (wrong) return base_fail(err, TD_BAD_FILE, NULL, -1, "the program is damaged: %s", wrong);
    memcpy(in, node->in, node->in_count * sizeof *in);
    to->op = node->op->id;
    to->from = base_attr_ints(node->attrs, KERN_FUSED_FROM, &to->from_count);
  } else {
    const bool built = build_one(graph, isa, scratch, node, b, in);
    if (built) loop_store(b, b->out, TD_F32, false);
    if (!built || !loop_finish(b)) return base_fail(err, TD_INTERNAL, NULL, -1, "%s makes no loop", node->op->name);
    to->op = OP_td_fused;
  }
  for (uint32_t i = 0; i < p->count; i++)
    if (p->ops[i].kind == BASE_PROGRAM_STORE && narrow >> p->ops[i].function & 1) p->ops[i].in[2] = TD_BF16;
  int64_t *words = base_new(scratch, int64_t, base_program_size(p));
  if (!words) return base_no_memory(err, "a fused loop");
  base_program_write(p, words);
  to->words = words;
  to->word_count = base_program_size(p);
  to->in_count = p->in_count;
  return TD_OK;
}
