/* lower.c -- every value gets a slot, every node a step. The order is the graph's own, nested blocks inlined after
 * their region, so that a step's number is also its time. */
#include "lower/lower_priv.h"
#include "base/size.h"
#include "fuse/fuse.h"

bool lower_is_planned(const lowering *l, const ir_type *type) {
  if (type->kind > IR_BOOL) return false;
  for (int32_t i = 0; i < type->rank; i++)
    if (type->dims[i] == BASE_DIM_NONE || base_dim_from_data(&l->plan->dims, type->dims[i])) return false;
  return type->rank >= 0;
}

static td_status new_slot(lowering *l, const ir_type *type, plan_place place, uint32_t *index) {
  plan_slot *s = base_vec_push(l->plan->arena, &l->plan->slots);
  if (!s) return base_no_memory(l->err, "a slot");
  *index = l->plan->slots.count - 1;
  bool tensor = type->kind <= IR_BOOL;
  *s = (plan_slot){.place = place,
                   .dtype = tensor ? type->dtype : TD_INVALID,
                   .rank = tensor ? type->rank : -1,
                   .root = *index,
                   .part_of = PLAN_NONE};
  for (int32_t i = 0; i < s->rank; i++) s->dims[i] = type->dims[i];
  if (place == PLAN_TAIL || s->dtype == TD_STRING) l->plan->needs_tail = true; /* strings are kept there */
  if (*index >= l->layout_cap) {
    uint32_t cap = l->layout_cap ? l->layout_cap * 2 : 256;
    uint8_t *layout = base_new(l->scratch, uint8_t, cap);
    if (!layout) return base_no_memory(l->err, "a slot");
    if (l->layout_cap) memcpy(layout, l->layout, l->layout_cap * sizeof *layout);
    l->layout = layout;
    l->layout_cap = cap;
  }
  return TD_OK;
}

td_status lower_slot_for(lowering *l, ir_value v, plan_place place, uint32_t *index) {
  const ir_value_def *def = ir_value_of(l->graph, v);
  TRY(new_slot(l, &def->info.type, place, index));
  l->slot_of[v.id] = *index;
  uint32_t name = plan_add_name(l->plan, def->name);
  if (name == PLAN_NONE) return base_no_memory(l->err, "a name");
  l->plan->slots.at[*index].name = name;
  return TD_OK;
}

/* The slot of a join's result, or of the value that it is made in; made when it is first needed. */
static td_status slot_for_whole(lowering *l, ir_value v, uint32_t *index) {
  *index = l->slot_of[v.id];
  return *index == PLAN_NONE ? lower_slot_for(l, v, PLAN_ARENA, index) : TD_OK;
}

/* A slot for a value of `type` that is a part of another. */
static td_status new_part(lowering *l, const lower_part *part, const ir_type *type, uint32_t *index) {
  uint32_t whole;
  TRY(slot_for_whole(l, part->whole, &whole));
  TRY(new_slot(l, type, PLAN_ARENA, index));
  plan_slot *slot = &l->plan->slots.at[*index];
  slot->root = slot->part_of = whole;
  slot->part_axis = part->axis;
  slot->part_at = part->at;
  bool dense = true;
  for (int32_t i = 0; i < part->axis; i++) dense &= type->dims[i] == 1;
  l->layout[*index] = dense ? LOWER_DENSE : LOWER_PITCHED;
  return TD_OK;
}

static td_status slot_for_part(lowering *l, ir_value v, uint32_t *index) {
  TRY(new_part(l, &l->parts[v.id], ir_type_of(l->graph, v), index));
  l->slot_of[v.id] = *index;
  uint32_t name = plan_add_name(l->plan, ir_value_of(l->graph, v)->name);
  if (name == PLAN_NONE) return base_no_memory(l->err, "a name");
  l->plan->slots.at[*index].name = name;
  return TD_OK;
}

static plan_place place_for(const lowering *l, const ir_type *type) {
  return lower_is_planned(l, type) ? PLAN_ARENA : PLAN_TAIL;
}

/* Bytes from which on a copy costs more than finding sizes at each run. */
static bool is_large(const ir_type *type) {
  enum { LARGE = 1 << 14 };
  int64_t count;
  for (int32_t i = 0; i < type->rank; i++)
    if (!base_dim_known(type->dims[i])) return false;
  return type->kind == IR_TENSOR && type->rank >= 0 && base_numel(type->rank, type->dims, &count) &&
         count >= LARGE / (int64_t)sizeof(float);
}

/* What lists of loops and tasks hold stays in the tail, where they share it, instead of being copied there. */
static void find_held(lowering *l) {
  for (uint32_t n = 1; n < l->graph->nodes.count; n++) {
    const ir_node_def *node = &l->graph->nodes.at[n];
    if (!node->op || !(node->op->flags & IR_OP_HOLDS) || node->parent.id == l->graph->top.id) continue;
    for (uint32_t i = 0; i < node->in_count; i++)
      if (node->in[i].id && is_large(ir_type_of(l->graph, node->in[i]))) l->held[node->in[i].id] = true;
  }
}

/* ---- constants ---- */

/* The plan's segment for one of the graph's, which outlives it. */
static td_status keep_segment(lowering *l, uint32_t segment, uint32_t *index) {
  const ir_segment *from = &l->graph->segments.at[segment];
  if (l->segment_of[segment] == PLAN_NONE) l->segment_of[segment] = plan_add_segment(l->plan, from->base, from->bytes);
  *index = l->segment_of[segment];
  return *index == PLAN_NONE ? base_no_memory(l->err, "a constant") : TD_OK;
}

/* Elements of strings are addresses: of bytes that are the plan's own. */
static td_status own_strings(lowering *l, td_string *strings, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (!(strings[i].at = base_arena_slice(l->plan->arena, strings[i].at, strings[i].length)))
      return base_no_memory(l->err, "a constant");
  return TD_OK;
}

/* Gives a constant memory of its own, dense and aligned. */
static td_status settle_constant(lowering *l, uint32_t index, const base_tensor *from) {
  const size_t bytes = base_tensor_bytes(from);
  void *data = base_arena_alloc_uncleared(l->graph->constants, bytes ? bytes : 1, 64);
  const uint32_t segment = data ? plan_add_segment(l->plan, data, bytes) : PLAN_NONE;
  if (segment == PLAN_NONE) return base_no_memory(l->err, "a constant");
  base_tensor_pack(data, from);
  plan_slot *slot = &l->plan->slots.at[index];
  slot->segment = segment;
  slot->offset = 0;
  base_strides(from->rank, from->dims, slot->strides);
  l->layout[index] = LOWER_DENSE;
  return from->dtype == TD_STRING ? own_strings(l, data, base_tensor_numel(from)) : TD_OK;
}

/* Constants in files stay there, and those that passes made for the plan where they are; of others it takes a copy. */
static td_status constant_slot(lowering *l, ir_value v, uint32_t *index) {
  const base_tensor *t = ir_value_of(l->graph, v)->info.constant;
  TRY(lower_slot_for(l, v, PLAN_CONST, index));
  plan_slot *slot = &l->plan->slots.at[*index];
  uint32_t segment;
  size_t offset;
  const bool dense = base_tensor_contiguous(t);
  memcpy(slot->strides, t->strides, sizeof slot->strides);
  l->layout[*index] = dense ? LOWER_DENSE : LOWER_STRIDED;
  if (ir_find_segment(l->graph, t->data, &segment, &offset) &&
      !base_arena_holds(l->graph->arena, l->graph->segments.at[segment].base)) {
    slot->offset = offset;
    return keep_segment(l, segment, &slot->segment);
  }
  if (!dense || !base_arena_holds(l->graph->constants, t->data)) return settle_constant(l, *index, t);
  slot->segment = plan_add_segment(l->plan, t->data, base_tensor_bytes(t));
  return slot->segment == PLAN_NONE ? base_no_memory(l->err, "a constant") : TD_OK;
}

/* The slot of a value that is used; constants get theirs at first use. */
td_status lower_use(lowering *l, ir_value v, uint32_t *index) {
  *index = PLAN_NONE;
  if (!v.id) return TD_OK;
  *index = l->slot_of[v.id];
  if (*index != PLAN_NONE) return TD_OK;
  if (ir_value_of(l->graph, v)->info.constant) return constant_slot(l, v, index);
  return base_fail(l->err, TD_INTERNAL, NULL, -1, "value %u is used before it is defined", v.id);
}

static td_status use_all(lowering *l, const ir_value *values, uint32_t count, uint32_t *at) {
  uint32_t *slots = base_new(l->scratch, uint32_t, count + 1);
  if (!slots) return base_no_memory(l->err, "operands");
  for (uint32_t i = 0; i < count; i++) TRY(lower_use(l, values[i], &slots[i]));
  *at = plan_add_operands(l->plan, slots, count);
  return *at == PLAN_NONE && count ? base_no_memory(l->err, "operands") : TD_OK;
}

/* ---- steps ---- */

static td_status new_step(lowering *l, const plan_step *step, uint32_t *index) {
  plan_step *to = base_vec_push(l->plan->arena, &l->plan->steps);
  if (!to) return base_no_memory(l->err, "a step");
  *to = *step;
  *index = l->plan->steps.count - 1;
  return TD_OK;
}

/* Texts of what a step calls; NULL: none. */
typedef struct callee {
  plan_role role;
  const char *op, *kernel, *code;
} callee;

static td_status add_function(lowering *l, const callee *c, uint32_t *index) {
  const plan_function f = {.op = plan_add_name(l->plan, c->op),
                           .role = c->role,
                           .kernel = plan_add_name(l->plan, c->kernel),
                           .code = plan_add_name(l->plan, c->code)};
  if (f.op == PLAN_NONE || f.kernel == PLAN_NONE || f.code == PLAN_NONE) return base_no_memory(l->err, "a function");
  return plan_add_function(l->plan, &f, l->setting->symbols, index, l->err);
}

static td_status add_call(lowering *l, plan_step *step, const callee *c, const uint32_t *out) {
  TRY(add_function(l, c, &step->function));
  step->out = plan_add_operands(l->plan, out, step->out_count);
  if (step->out_count && step->out == PLAN_NONE) return base_no_memory(l->err, "a step");
  for (uint32_t i = 0; i < step->out_count; i++)
    if (out[i] != PLAN_NONE && l->plan->slots.at[out[i]].place == PLAN_TAIL) step->defines = 1;
  uint32_t index;
  return new_step(l, step, &index);
}

static const plan_step nowhere = {.attrs = PLAN_NONE}; /* the user's model has no node for it */

/* A copy of slot `from` in slot `to`, of the same origins as the step given. */
static td_status add_move(lowering *l, uint32_t from, uint32_t to, const plan_step *origins) {
  plan_step step = *origins;
  step.kind = PLAN_CALL;
  step.attrs = PLAN_NONE;
  step.in_count = step.out_count = 1;
  step.in = plan_add_operands(l->plan, &from, 1);
  if (step.in == PLAN_NONE) return base_no_memory(l->err, "a step");
  const plan_slot *target = &l->plan->slots.at[to];
  const bool planned = target->place == PLAN_ARENA;
  const kern_row *row = l->setting->kernels && planned && target->dtype != TD_INVALID
                            ? kern_select(KERN_COPY, target->dtype, l->setting->isa)
                            : NULL;
  const callee copy = {.role = planned ? PLAN_COPY : PLAN_COPY_TAIL, .kernel = row ? row->name : NULL};
  return add_call(l, &step, &copy, &to);
}

/* A dense copy of slot `from`, which holds a value of `type`, in a slot of its own. */
static td_status add_copy(lowering *l, uint32_t from, const ir_type *type, const plan_step *origins, uint32_t *to) {
  TRY(new_slot(l, type, place_for(l, type), to));
  return add_move(l, from, *to, origins);
}

/* Can this node's result alias its first operand, and is the alias dense? */
static bool is_view(const lowering *l, const ir_node_def *node, uint32_t source, bool *strided) {
  uint32_t flags = node->op->flags;
  if (!node->op->view || source == PLAN_NONE || base_dtype(l->plan->slots.at[source].dtype)->bits < 8) return false;
  if (!(flags & IR_OP_VIEW) && (!(flags & IR_OP_VIEW_DENSE) || l->layout[source])) return false;
  *strided = !(flags & IR_OP_VIEW_DENSE) || l->layout[source];
  return true;
}

/* *step: empty, but for where it comes from. */
static td_status start_step(lowering *l, const ir_node_def *node, plan_kind kind, plan_step *step) {
  *step = (plan_step){.kind = kind, .attrs = PLAN_NONE};
  step->name = plan_add_name(l->plan, ir_node_name(node));
  step->origins = l->plan->origins.count;
  step->origin_count = node->origins.count;
  for (uint32_t i = 0; i < node->origins.count; i++) {
    uint32_t *to = base_vec_push(l->plan->arena, &l->plan->origins);
    if (!to) return base_no_memory(l->err, "origins");
    *to = plan_add_name(l->plan, node->origins.names[i]);
    if (*to == PLAN_NONE) return base_no_memory(l->err, "origins");
  }
  return step->name == PLAN_NONE ? base_no_memory(l->err, "origins") : TD_OK;
}

static td_status lower_view(lowering *l, const ir_node_def *node, plan_step *step, bool strided) {
  uint32_t source = l->plan->operands.at[step->in], out;
  const ir_type *type = ir_type_of(l->graph, node->out[0]);
  TRY(lower_slot_for(l, node->out[0], lower_is_planned(l, type) ? PLAN_VIEW : PLAN_TAIL, &out));
  l->plan->slots.at[out].root = l->plan->slots.at[source].root;
  l->layout[out] = strided ? LOWER_STRIDED : LOWER_DENSE;
  if (strided && l->layout[source] == LOWER_DENSE) TRY(lower_view_layout(l, node, &l->layout[out]));
  step->kind = PLAN_SHOW;
  const callee view = {.role = PLAN_SHOWS, .op = node->op->name};
  return add_call(l, step, &view, &out);
}

td_status lower_find_kernel(const ir_graph *graph, const lower_setting *setting, const ir_node_def *node,
                            base_arena *scratch, const kern_row **kernel, td_error *err) {
  *kernel = NULL;
  if (!setting->kernels || !node->op->kernel) return TD_OK;
  const ir_kernel_query *query = fuse_query(graph, setting->isa, scratch, node);
  if (!query) return base_no_memory(err, "a step");
  *kernel = node->op->kernel(query);
  if (*kernel && base_str_listed(setting->disabled_kernels, (*kernel)->name)) *kernel = NULL;
  BASE_ASSERT(!*kernel || node->out_count == 0 || kern_stores(*kernel, ir_type_of(graph, node->out[0])->dtype));
  return TD_OK;
}

td_status lower_kernel(lowering *l, const ir_node_def *node, const kern_row **kernel) {
  return lower_find_kernel(l->graph, l->setting, node, l->scratch, kernel, l->err);
}

static td_status find_work(lowering *l, const ir_node_def *node, plan_step *step) {
  const ir_kernel_query *query = fuse_query(l->graph, l->setting->isa, l->scratch, node);
  ir_work work;
  if (!query) return base_no_memory(l->err, "a step");
  if (!ir_cost(node->op, node->attrs, query->in, node->in_count, query->out, node->out_count, &work))
    l->open_sizes = true;
  step->flops = work.flops;
  step->bytes = work.bytes;
  return TD_OK;
}

/* Is the constant in `slot` (or what it is a view of) out of line with its elements? Bytes in a file lie anywhere. */
static bool misaligned(const lowering *l, uint32_t slot) {
  const plan_slot *root = &l->plan->slots.at[l->plan->slots.at[slot].root];
  size_t each = base_dtype(l->plan->slots.at[slot].dtype)->bits / 8;
  if (root->place != PLAN_CONST || each < 2) return false;
  return (uintptr_t)plan_constant(l->plan, root) % each != 0;
}

/* Is operand `i` a table of which a loop gathers rows? They are read at any place; a copy would be of all of it. */
static bool is_gathered(const ir_node_def *node, uint32_t i) {
  fuse_loop loop;
  base_program p;
  base_program_pick picks[BASE_PROGRAM_OPERANDS];
  return fuse_program_of(node->op, node->attrs, node->in_count, &loop) && !loop.chain &&
         !base_program_read(loop.words, loop.word_count, &p) && base_program_picks(&p, picks) && picks[i].picks;
}

static bool suits(const lowering *l, const ir_node_def *node, uint32_t i, uint32_t slot, uint32_t flags) {
  const uint32_t takes[] = {0, KERN_PITCHED_IN | KERN_STRIDED_IN, KERN_STRIDED_IN};
  return (l->layout[slot] == LOWER_DENSE || flags & takes[l->layout[slot]]) &&
         (!misaligned(l, slot) || is_gathered(node, i));
}

/* Operands that a kernel does not take as they stand are copied: constants once and for all, others in front of its
 * step. */
static td_status suit_operands(lowering *l, const ir_node_def *node, const kern_row *kernel, plan_step *step) {
  uint32_t *slots = base_new(l->scratch, uint32_t, node->in_count + 1);
  if (!slots) return base_no_memory(l->err, "operands");
  bool copied = false;
  for (uint32_t i = 0; i < node->in_count; i++) {
    slots[i] = l->plan->operands.at[step->in + i];
    if (slots[i] == PLAN_NONE || suits(l, node, i, slots[i], kernel->flags)) continue;
    if (l->plan->slots.at[slots[i]].place == PLAN_CONST) {
      TRY(settle_constant(l, slots[i], ir_value_of(l->graph, node->in[i])->info.constant));
      continue;
    }
    TRY(add_copy(l, slots[i], ir_type_of(l->graph, node->in[i]), step, &slots[i]));
    copied = true;
  }
  if (!copied) return TD_OK;
  step->in = plan_add_operands(l->plan, slots, node->in_count);
  return step->in == PLAN_NONE ? base_no_memory(l->err, "operands") : TD_OK;
}

static td_status lower_node(lowering *l, const ir_node_def *node) {
  plan_step step;
  TRY(start_step(l, node, PLAN_CALL, &step));
  step.in_count = node->in_count;
  step.out_count = node->out_count;
  step.attrs = plan_add_attrs(l->plan, node->attrs);
  TRY(use_all(l, node->in, node->in_count, &step.in));
  if (step.attrs == PLAN_NONE) return base_no_memory(l->err, "a step");
  const kern_row *kernel = NULL;
  TRY(lower_kernel(l, node, &kernel));
  TRY(find_work(l, node, &step));
  bool strided;
  if (node->in_count && node->out_count == 1 && is_view(l, node, l->plan->operands.at[step.in], &strided))
    return lower_view(l, node, &step, strided);
  if (kernel) TRY(suit_operands(l, node, kernel, &step));
  uint32_t *out = base_new(l->scratch, uint32_t, node->out_count + 1);
  if (!out) return base_no_memory(l->err, "a step");
  for (uint32_t i = 0; i < node->out_count; i++) {
    out[i] = PLAN_NONE;
    if (!l->uses[node->out[i].id] && i > 0) continue; /* nobody wants it */
    const bool last = node->op->flags & IR_OP_DEFINES || l->held[node->out[i].id];
    plan_place place = last ? PLAN_TAIL : place_for(l, ir_type_of(l->graph, node->out[i]));
    if (l->parts[node->out[i].id].made_there) TRY(slot_for_part(l, node->out[i], &out[i]));
    else TRY(lower_slot_for(l, node->out[i], place, &out[i]));
  }
  const uint32_t number = node->out_count ? l->setting->generated[ir_value_of(l->graph, node->out[0])->node.id] : 0;
  const char *code = number ? l->setting->code[number - 1] : NULL;
  if (code && (!kernel || base_str_listed(l->setting->disabled_kernels, code))) code = NULL;
  const callee c = {.role = code     ? PLAN_GENERATED
                            : kernel ? PLAN_KERNEL
                                     : PLAN_REFERENCE,
                    .op = node->op->name,
                    .kernel = kernel ? kernel->name : NULL,
                    .code = code};
  return add_call(l, &step, &c, out);
}

/* ---- joins ---- */

/* Of a join only what is not in its place already is copied there. */
static td_status lower_join(lowering *l, const ir_node_def *node) {
  ir_value v = node->out[0];
  const lower_part *own = &l->parts[v.id];
  lower_part where = {.whole = own->whole.id ? own->whole : v, .at = own->at};
  uint32_t slot, from, to;
  plan_step move;
  TRY(start_step(l, node, PLAN_CALL, &move));
  if (own->whole.id) TRY(slot_for_part(l, v, &slot));
  else TRY(slot_for_whole(l, v, &slot));
  for (uint32_t i = 0; i < node->in_count; i++) {
    const ir_type *type = ir_type_of(l->graph, node->in[i]);
    const lower_part *in = &l->parts[node->in[i].id];
    int64_t dim = base_attr_int(node->attrs, KERN_CAT_DIM);
    where.axis = (int32_t)(dim < 0 ? dim + type->rank : dim);
    if (in->whole.id != where.whole.id || in->at != where.at || in->axis != where.axis) {
      TRY(lower_use(l, node->in[i], &from));
      TRY(new_part(l, &where, type, &to));
      TRY(add_move(l, from, to, &move));
    }
    where.at += type->dims[where.axis];
  }
  return TD_OK;
}

/* Parts that were made elsewhere are copied at once: whoever needs them reads them where they belong. */
static td_status move_parts(lowering *l, const ir_node_def *node) {
  for (uint32_t i = 0; i < node->out_count; i++) {
    const ir_value v = node->out[i];
    uint32_t from = l->slot_of[v.id], to;
    if (!l->parts[v.id].whole.id || l->parts[v.id].made_there) continue;
    plan_step move;
    TRY(start_step(l, node, PLAN_CALL, &move));
    TRY(slot_for_part(l, v, &to));
    TRY(add_move(l, from, to, &move));
  }
  return TD_OK;
}

/* ---- regions ---- */

static td_status lower_block(lowering *l, ir_block block);

/* Slots of a block's results, in scratch. */
static td_status result_slots(lowering *l, const ir_block_def *block, uint32_t **slots) {
  *slots = base_new(l->scratch, uint32_t, block->results.count + 1);
  if (!*slots) return base_no_memory(l->err, "results");
  for (uint32_t i = 0; i < block->results.count; i++) TRY(lower_use(l, block->results.at[i], &(*slots)[i]));
  return TD_OK;
}

static td_status add_end(lowering *l, uint32_t region, uint32_t block, const uint32_t *results, uint32_t count) {
  plan_step end = {.kind = PLAN_END, .attrs = PLAN_NONE, .next = region, .block = block, .in_count = count};
  end.in = plan_add_operands(l->plan, results, count);
  if (end.in == PLAN_NONE && count) return base_no_memory(l->err, "results");
  uint32_t index;
  TRY(new_step(l, &end, &index));
  plan_block *b = &l->plan->blocks.at[block];
  b->end = index;
  b->results = end.in;
  b->result_count = count;
  return TD_OK;
}

static td_status new_blocks(lowering *l, uint32_t count, uint32_t *first) {
  *first = l->plan->blocks.count;
  for (uint32_t i = 0; i < count; i++) {
    const plan_block *block = base_vec_push(l->plan->arena, &l->plan->blocks);
    if (!block) return base_no_memory(l->err, "a block");
  }
  return TD_OK;
}

static td_status lower_if(lowering *l, const ir_node_def *node) {
  plan_step step;
  TRY(start_step(l, node, PLAN_IF, &step));
  step.in_count = 1;
  step.out_count = node->out_count;
  TRY(use_all(l, node->in, 1, &step.in));
  uint32_t *out = base_new(l->scratch, uint32_t, node->out_count + 1), *results, index;
  if (!out) return base_no_memory(l->err, "a branch");
  for (uint32_t i = 0; i < node->out_count; i++)
    TRY(lower_slot_for(l, node->out[i], place_for(l, ir_type_of(l->graph, node->out[i])), &out[i]));
  step.out = plan_add_operands(l->plan, out, node->out_count);
  TRY(new_blocks(l, 2, &step.block));
  TRY(new_step(l, &step, &index));
  for (uint32_t b = 0; b < 2; b++) {
    l->plan->blocks.at[step.block + b].first = l->plan->steps.count;
    TRY(lower_block(l, node->blocks[b]));
    TRY(result_slots(l, ir_block_of(l->graph, node->blocks[b]), &results));
    TRY(add_end(l, index, step.block + b, results, node->out_count));
  }
  l->plan->steps.at[index].next = l->plan->steps.count;
  return TD_OK;
}

/* A result that lies in the memory of a carried slot would be overwritten while the results are handed over: copy it.
 */
static td_status separate_results(lowering *l, const ir_block_def *block, const uint32_t *params, uint32_t *results) {
  const td_allocator *allocator = base_arena_allocator(l->scratch);
  uint32_t known = l->plan->slots.count;                          /* copies made here are never carried */
  bool *carried = base_alloc(allocator, known * sizeof *carried); /* not scratch: a graph may have many loops */
  if (!carried) return base_no_memory(l->err, "results");
  memset(carried, 0, known * sizeof *carried);
  for (uint32_t k = 0; k < block->params.count; k++)
    if (params[k] != PLAN_NONE) carried[l->plan->slots.at[params[k]].root] = true;
  td_status status = TD_OK;
  for (uint32_t i = 1; status == TD_OK && i < block->results.count; i++)
    if (results[i] != params[i] && carried[l->plan->slots.at[results[i]].root])
      status = add_copy(l, results[i], ir_type_of(l->graph, block->results.at[i]), &nowhere, &results[i]);
  base_free(allocator, carried, known * sizeof *carried);
  return status;
}

/* Parameters share their slots with the region's outputs: what is carried out is what was carried last. */
static td_status loop_slots(lowering *l, const ir_node_def *node, const ir_block_def *body, uint32_t *params) {
  for (uint32_t i = 0; i < body->params.count; i++) {
    const ir_type *type = ir_type_of(l->graph, body->params.at[i]);
    bool planned = lower_is_planned(l, type) && (i == 0 || lower_is_planned(l, ir_type_of(l->graph, node->out[i - 1])));
    TRY(lower_slot_for(l, body->params.at[i], planned ? PLAN_ARENA : PLAN_TAIL, &params[i]));
    if (i > 0) l->slot_of[node->out[i - 1].id] = params[i];
  }
  return TD_OK;
}

static td_status lower_loop(lowering *l, const ir_node_def *node) {
  const ir_block_def *body = ir_block_of(l->graph, node->blocks[0]);
  plan_step step;
  TRY(start_step(l, node, PLAN_LOOP, &step));
  step.in_count = node->in_count;
  step.out_count = body->params.count;
  TRY(use_all(l, node->in, node->in_count, &step.in));
  uint32_t *params = base_new(l->scratch, uint32_t, body->params.count + 1), *results, index;
  if (!params) return base_no_memory(l->err, "a loop");
  TRY(loop_slots(l, node, body, params));
  step.out = plan_add_operands(l->plan, params, body->params.count);
  TRY(new_blocks(l, 1, &step.block));
  TRY(new_step(l, &step, &index));
  plan_block *block = &l->plan->blocks.at[step.block];
  block->first = l->plan->steps.count;
  block->params = step.out;
  block->param_count = step.out_count;
  TRY(lower_block(l, node->blocks[0]));
  TRY(result_slots(l, body, &results));
  TRY(separate_results(l, body, params, results));
  TRY(add_end(l, index, step.block, results, body->results.count));
  l->plan->steps.at[index].next = l->plan->steps.count;
  return TD_OK;
}

/* What goes in is found when all steps are there: plan_find_captures. */
static td_status lower_fork(lowering *l, const ir_node_def *node) {
  const ir_block_def *body = ir_block_of(l->graph, node->blocks[0]);
  plan_step step;
  uint32_t out, *results, index;
  TRY(start_step(l, node, PLAN_FORK, &step));
  step.out_count = 1;
  TRY(lower_slot_for(l, node->out[0], PLAN_TAIL, &out));
  step.out = plan_add_operands(l->plan, &out, 1);
  if (step.out == PLAN_NONE) return base_no_memory(l->err, "a fork");
  TRY(new_blocks(l, 1, &step.block));
  TRY(new_step(l, &step, &index));
  l->plan->blocks.at[step.block].first = l->plan->steps.count;
  TRY(lower_block(l, node->blocks[0]));
  TRY(result_slots(l, body, &results));
  TRY(add_end(l, index, step.block, results, body->results.count));
  l->plan->steps.at[index].next = l->plan->steps.count;
  return TD_OK;
}

/* The result stays where the task has left it. */
static td_status lower_wait(lowering *l, const ir_node_def *node) {
  const bool planned = lower_is_planned(l, ir_type_of(l->graph, node->out[0]));
  plan_step step;
  uint32_t out, index;
  TRY(start_step(l, node, PLAN_WAIT, &step));
  step.in_count = step.out_count = 1;
  TRY(use_all(l, node->in, 1, &step.in));
  TRY(lower_slot_for(l, node->out[0], planned ? PLAN_VIEW : PLAN_TAIL, &out));
  step.out = plan_add_operands(l->plan, &out, 1);
  if (step.out == PLAN_NONE) return base_no_memory(l->err, "a wait");
  return new_step(l, &step, &index);
}

/* By the kind of region. */
static td_status (*const lowerings[])(lowering *, const ir_node_def *) = {[IR_REGION_NONE] = lower_node,
                                                                          [IR_REGION_IF] = lower_if,
                                                                          [IR_REGION_LOOP] = lower_loop,
                                                                          [IR_REGION_FORK] = lower_fork,
                                                                          [IR_REGION_WAIT] = lower_wait};

static td_status lower_block(lowering *l, ir_block block) {
  const ir_block_def *def = ir_block_of(l->graph, block);
  for (uint32_t i = 0; i < def->nodes.count; i++) {
    const ir_node_def *node = ir_node_of(l->graph, def->nodes.at[i]);
    bool joins = node->out_count > 0 && l->parts[node->out[0].id].joined;
    td_status status = joins ? lower_join(l, node) : lowerings[node->op->region](l, node);
    if (status == TD_OK && !joins && node->op->region == IR_REGION_NONE) status = move_parts(l, node);
    if (status != TD_OK) return base_error_name(l->err, status, "%s", ir_node_name(node));
  }
  return TD_OK;
}

/* ---- inputs and outputs ---- */

static td_status lower_input(lowering *l, uint32_t index) {
  plan_port *port = base_vec_push(l->plan->arena, &l->plan->inputs);
  if (!port) return base_no_memory(l->err, "an input");
  TRY(lower_given(l, ir_block_of(l->graph, l->graph->top)->params.at[index], port));
  const ir_value fallback = l->graph->input_defaults.at[index];
  TRY(lower_use(l, fallback, &port->fallback));
  if (port->fallback == PLAN_NONE || l->layout[port->fallback] == LOWER_DENSE) return TD_OK;
  return settle_constant(l, port->fallback, ir_value_of(l->graph, fallback)->info.constant);
}

/* An output must be dense, its own, and outlive the run. */
static td_status lower_output(lowering *l, uint32_t index) {
  ir_value v = ir_block_of(l->graph, l->graph->top)->results.at[index];
  const ir_type *type = ir_type_of(l->graph, v);
  uint32_t slot;
  TRY(lower_use(l, v, &slot));
  uint32_t place = l->plan->slots.at[l->plan->slots.at[slot].root].place;
  if (l->layout[slot] || place == PLAN_INPUT) TRY(add_copy(l, slot, type, &nowhere, &slot));
  plan_port *port = base_vec_push(l->plan->arena, &l->plan->outputs);
  if (!port) return base_no_memory(l->err, "an output");
  TRY(lower_describe_port(l, type, l->graph->output_names.at[index], port));
  port->is_complex = ir_output_is_complex(l->graph, index);
  port->slot = slot;
  return TD_OK;
}

static td_status lower_guard(lowering *l, const base_guard *guard) {
  plan_guard *to = base_vec_push(l->plan->arena, &l->plan->guards);
  uint32_t text = to ? plan_add_name(l->plan, guard->text) : PLAN_NONE;
  if (text == PLAN_NONE) return base_no_memory(l->err, "a condition of the inputs");
  *to = (plan_guard){.left = guard->left, .right = guard->right, .relation = guard->relation, .text = text};
  return TD_OK;
}

static td_status fill_plan(lowering *l) {
  l->plan->aligned_inputs = l->setting->kernels;
  TRY(lower_find_joins(l));
  find_held(l);
  for (uint32_t i = 0; i < l->graph->input_defaults.count; i++) TRY(lower_input(l, i));
  for (uint32_t i = 0; i < l->graph->states.count; i++) TRY(lower_state(l, i));
  TRY(lower_block(l, l->graph->top));
  for (uint32_t i = 0; i < l->graph->output_names.count; i++) TRY(lower_output(l, i));
  for (uint32_t i = 0; i < l->graph->states.count; i++)
    TRY(lower_use(l, ir_state_after(l->graph, i), &l->plan->states.at[i].after));
  for (uint32_t i = 0; i < l->graph->guards.count; i++) TRY(lower_guard(l, &l->graph->guards.at[i]));
  for (uint32_t i = 0; i < l->plan->steps.count; i++) {
    l->plan->flops += l->plan->steps.at[i].flops;
    l->plan->bytes += l->plan->steps.at[i].bytes;
  }
  if (l->open_sizes) l->plan->flops = l->plan->bytes = 0;
  return TD_OK;
}

td_status lower_graph(const ir_graph *graph, const lower_setting *setting, plan_exe *plan, base_arena *scratch,
                      td_error *err) {
  const size_t values = graph->values.count;
  lowering l = {.graph = graph,
                .setting = setting,
                .plan = plan,
                .scratch = scratch,
                .err = err,
                .slot_of = base_new(scratch, uint32_t, values),
                .segment_of = base_new(scratch, uint32_t, (size_t)graph->segments.count + 1),
                .parts = base_new(scratch, lower_part, values),
                .uses = base_new(scratch, uint32_t, values),
                .held = base_new(scratch, bool, values)};
  if (!l.slot_of || !l.segment_of || !l.parts || !l.uses || !l.held) return base_no_memory(err, "the plan");
  memset(l.slot_of, 0xff, values * sizeof *l.slot_of);
  memset(l.segment_of, 0xff, graph->segments.count * sizeof *l.segment_of);
  ir_count_uses(graph, l.uses);
  TRY(fill_plan(&l));
  if (!base_dims_copy(&plan->dims, plan->arena, &plan->dims)) return base_no_memory(err, "the plan");
  TRY(plan_find_captures(plan, scratch, err));
  TRY(plan_find_lifetimes(plan, scratch, err));
  return setting->kernels ? lower_find_batches(plan, scratch, err) : TD_OK;
}
