/* emit.c -- from a group of nodes to a node td::fused: its program, by each member's own `lower`, in the order of
 * the block; stores come last, so that a result may take the memory of an operand. */
#include "fuse/fuse_priv.h"
#include "kernels/loops/loops.h"
#include "kernels/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool fuse_is_member(const fuse_group *g, uint32_t node) {
  for (uint32_t i = 0; i < g->count; i++)
    if (g->members[i] == node) return true;
  return false;
}

ir_kernel_query *fuse_query(const ir_graph *graph, uint32_t isa, base_arena *scratch, const ir_node_def *node) {
  ir_kernel_query *query = base_new(scratch, ir_kernel_query, 1);
  const ir_info **in = base_new(scratch, const ir_info *, node->in_count + 1);
  ir_info *out = base_new(scratch, ir_info, node->out_count + 1);
  if (!query || !in || !out) return NULL;
  for (uint32_t i = 0; i < node->in_count; i++) in[i] = node->in[i].id ? &ir_value_of(graph, node->in[i])->info : NULL;
  for (uint32_t i = 0; i < node->out_count; i++) out[i] = ir_value_of(graph, node->out[i])->info;
  *query = (ir_kernel_query){node->attrs, in, node->in_count, out, node->out_count, isa};
  return query;
}

bool fuse_program_of(const ir_op *op, const base_attrs *attrs, uint32_t in_count, fuse_loop *loop) {
  base_program p;
  loop->attrs = attrs;
  loop->chain = op->flags & IR_OP_CHAIN;
  loop->front = loop->chain && kern_chain_in_front(attrs);
  if (!(op->flags & (IR_OP_CHAIN | IR_OP_LOOP))) return false;
  loop->words = base_attr_ints(attrs, loop->chain ? attrs->count - 1 : 0, &loop->word_count);
  if (!loop->word_count || base_program_read(loop->words, loop->word_count, &p)) return false;
  loop->in_count = p.in_count;
  const uint32_t own = loop->chain && !loop->front; /* operand 0 is the node's result, and not among its operands */
  return loop->chain ? p.in_count > 0 && p.in_count - own <= in_count : p.in_count == in_count;
}

/* ---- operands and results of a member ---- */

enum { CHAINED = 2048, FEW = 4096, ROWS = 256 /* elements */ };

/* How a type fits the space of the group. */
typedef enum fit {
  FIT_NONE,
  FIT_SPACE,
  FIT_KEPT,    /* 1 along the row */
  FIT_DROPPED, /* without it */
  FIT_SPREAD   /* broadcasts to it, of what is computed again */
} fit;

static fit fit_of(const fuse_group *g, const ir_type *t) {
  const bool rows = g->row_axes > 0;
  bool space = t->rank == g->rank, kept = space && rows, dropped = t->rank == g->rank - g->row_axes && rows;
  for (int32_t i = 0, left = 0; i < g->rank; i++) {
    const bool in_row = fuse_in_row(g, i);
    space = space && t->dims[i] == g->dims[i];
    kept = kept && t->dims[i] == (in_row ? 1 : g->dims[i]);
    dropped = dropped && (in_row || t->dims[left] == g->dims[i]);
    left += !in_row;
  }
  return space ? FIT_SPACE : kept ? FIT_KEPT : dropped ? FIT_DROPPED : FIT_NONE;
}

/* How member `i` fits. What is computed again is seen by others as they would read it from memory. */
static fit member_fit(const fuse_group *g, uint32_t i, const ir_type *t) {
  const fit how = fit_of(g, t);
  if (!g->again[i] || how == FIT_SPACE || how == FIT_KEPT) return how;
  bool spreads = t->rank <= g->rank;
  for (int32_t a = 0; spreads && a < t->rank; a++)
    spreads = t->dims[a] == 1 || t->dims[a] == g->dims[g->rank - t->rank + a];
  return spreads ? FIT_SPREAD : FIT_NONE;
}

typedef struct emitting {
  const fuse_state *f;
  const fuse_group *g;
  fuse_built *to;
  uint16_t value[FUSE_MEMBERS]; /* of each member, so far */
} emitting;

/* A constant of one element as a number of the program. */
static bool load_number(emitting *m, const base_tensor *t, uint16_t *value) {
  const base_type type = t && base_tensor_numel(t) == 1 ? base_type_of(t->dtype) : BASE_TYPE_COUNT;
  if (type == BASE_TYPE_COUNT) return false;
  if (base_type_is_float(type)) *value = loop_float(&m->to->build, type, base_load_f64(t->dtype, t->data, 0));
  else *value = loop_whole(&m->to->build, type, base_load_i64(t->dtype, t->data, 0));
  return true;
}

/* The member that gives `v` as its first result; FUSE_MEMBERS: none. */
static uint32_t member_of(const emitting *m, ir_value v) {
  const ir_value_def *def = ir_value_of(m->f->graph, v);
  uint32_t i = 0;
  if (!def->node.id || def->index != 0) return FUSE_MEMBERS;
  while (i < m->g->count && m->g->members[i] != def->node.id) i++;
  return i < m->g->count ? i : FUSE_MEMBERS;
}

/* The operand's type as the loop sees it. */
static ir_type seen_type(const emitting *m, ir_value v, bool dropped) {
  const ir_type *t = ir_type_of(m->f->graph, v);
  const fuse_group *g = m->g;
  ir_type seen = *t;
  if (!dropped || t->rank <= g->behind || t->rank + g->row_axes > BASE_MAX_RANK) return seen;
  const int32_t front = t->rank - g->behind;
  seen.rank = t->rank + g->row_axes;
  for (int32_t a = front; a < seen.rank; a++) seen.dims[a] = a < front + g->row_axes ? 1 : t->dims[a - g->row_axes];
  return seen;
}

/* `dropped`: as one without the row's axes. */
static bool load_outside(emitting *m, ir_value v, bool dropped, uint16_t *value) {
  const ir_type seen = seen_type(m, v, dropped), *t = &seen;
  uint32_t index = 0;
  bool row = true;
  if (t->kind > IR_BOOL || t->rank < 0 || t->rank > m->g->rank) return false;
  dropped = t->rank != ir_type_of(m->f->graph, v)->rank; /* of axes behind the row alone it is as it is */
  for (int32_t a = 0; a < t->rank; a++) row &= t->dims[a] == 1 || !fuse_in_row(m->g, a + m->g->rank - t->rank);
  while (index < m->to->in_count &&
         (m->to->in[index].id != v.id || m->to->gathered >> index & 1 || (m->to->dropped >> index & 1) != dropped))
    index++;
  if (index == BASE_PROGRAM_OPERANDS) return false;
  m->to->in[index] = v;
  m->to->dropped |= (uint32_t)dropped << index;
  if (index == m->to->in_count) m->to->in_count++;
  *value = loop_load(&m->to->build, index, base_type_of(t->dtype), row);
  return *value != LOOP_NONE;
}

/* Operand `v` of a member whose result fits the space as `how`. Axes and sizes that are known are read by its lowering,
 * not here. */
static bool operand(emitting *m, const ir_node_def *node, ir_value v, fit how, uint16_t *value) {
  *value = LOOP_NONE;
  if (!v.id) return true;
  const ir_info *info = &ir_value_of(m->f->graph, v)->info;
  const uint32_t member = member_of(m, v);
  /* What has lost the row's axes and reads such as have them, reduces them. */
  const bool reduces = how == FIT_DROPPED && fit_of(m->g, &info->type) == FIT_SPACE;
  if (member < FUSE_MEMBERS) {
    const uint32_t before = m->to->build.program.count;
    *value = fuse_rounded(m->f->graph, m->to, m->value[member], info->type.dtype);
    for (uint32_t n = before; n < m->to->build.program.count; n++) m->to->made_by[n] = (uint8_t)member;
    /* One number a row without the row's axes stands for another axis where it meets the whole space. */
    return reduces || (member_fit(m->g, member, &info->type) == FIT_DROPPED) == (how == FIT_DROPPED);
  }
  if (info->constant && base_is_int(info->type.dtype) && !(node->op->flags & IR_OP_ELEMENTWISE)) return true;
  if (load_number(m, info->constant, value)) return true;
  return load_outside(m, v, how == FIT_DROPPED && !reduces, value);
}

/* The value as elements of `dtype` hold it, where that is narrower than what loops compute in. */
static uint16_t wrapped(loop_build *b, uint16_t value, td_dtype dtype) {
  const base_type type = base_type_of(dtype);
  const uint32_t bits = base_dtype(dtype)->bits, room = base_type_is_wide(type) ? 64 : 32;
  if (value == LOOP_NONE || !base_is_int(dtype) || bits == room) return value;
  const double values = ldexp(1, (int)bits), least = base_dtype(dtype)->is_signed ? -values / 2 : 0;
  if (loop_is_within(b, value, least, least + values - 1)) return value;
  if (!base_dtype(dtype)->is_signed)
    return loop_binary(b, BASE_SCALAR_bitwise_and, value, loop_whole(b, type, (int64_t)(((uint64_t)1 << bits) - 1)));
  const uint16_t by = loop_whole(b, type, room - bits);
  return loop_binary(b, BASE_SCALAR_shift_right, loop_binary(b, BASE_SCALAR_shift_left, value, by), by);
}

/* A table and the operand that tells what is read of it, as operands of their own. Neither is made in the loop: what it
 * reads of them depends on elements that it is not over. */
static bool gather_operands(emitting *m, const ir_node_def *node, fit how) {
  loop_build *b = &m->to->build;
  if (node->in_count != 2 || how == FIT_DROPPED) return false;
  for (uint32_t k = 0; k < 2; k++) {
    const uint32_t index = m->to->in_count;
    if (index == BASE_PROGRAM_OPERANDS || member_of(m, node->in[k]) < FUSE_MEMBERS) return false;
    m->to->in[index] = node->in[k];
    m->to->gathered |= 1u << index;
    m->to->in_count++;
    b->in[k] = (uint16_t)index;
  }
  return true;
}

static bool member_operands(emitting *m, const ir_node_def *node, fit how) {
  if (node->op->flags & IR_OP_LOOKUP) return gather_operands(m, node, how);
  for (uint32_t k = 0; k < node->in_count; k++)
    if (!operand(m, node, node->in[k], how, &m->to->build.in[k])) return false;
  return true;
}

static bool lower_member(emitting *m, uint32_t i) {
  const ir_node_def *node = ir_node_of(m->f->graph, (ir_node){m->g->members[i]});
  const ir_type *out = ir_type_of(m->f->graph, node->out[0]);
  const fit how = member_fit(m->g, i, out);
  loop_build *b = &m->to->build;
  const ir_kernel_query *query = fuse_query(m->f->graph, m->f->setting->isa, m->f->scratch, node);
  if (how == FIT_NONE || !query) return false;
  b->in_count = node->in_count;
  b->out = LOOP_NONE;
  if (!member_operands(m, node, how)) return false;
  const uint32_t before = b->program.count;
  if (!node->op->lower(query, b) || b->failed || b->out == LOOP_NONE) return false;
  m->value[i] = wrapped(b, b->out, out->dtype);
  for (uint32_t n = before; n < b->program.count; n++) m->to->made_by[n] = (uint8_t)i;
  if (b->failed || loop_type_of(b, m->value[i]) != base_type_of(out->dtype)) return false;
  return how == FIT_SPACE || how == FIT_SPREAD || loop_is_row(b, m->value[i]);
}

/* Does somebody outside of the group use the value? */
static bool used_outside(const fuse_state *f, const fuse_group *g, ir_value v) {
  for (uint32_t u = f->first_user[v.id]; u < f->first_user[v.id + 1]; u++)
    if (!f->users[u] || !fuse_is_member(g, f->users[u])) return true;
  return false;
}

/* The space that the loads make is the group's. */
static bool spans(const emitting *m) {
  int32_t ranks[BASE_PROGRAM_OPERANDS];
  const base_dim *dims[BASE_PROGRAM_OPERANDS];
  ir_type types[BASE_PROGRAM_OPERANDS];
  base_dim sizes[BASE_MAX_RANK];
  for (uint32_t k = 0; k < m->to->in_count; k++) {
    types[k] = seen_type(m, m->to->in[k], m->to->dropped >> k & 1);
    ranks[k] = types[k].rank;
    dims[k] = types[k].dims;
  }
  if (!loop_space(&m->to->build.program, &m->f->graph->dims, ranks, dims, sizes)) return false;
  for (int32_t a = 0; a < m->g->rank; a++)
    if (sizes[a] != m->g->dims[a]) return false;
  return true;
}

/* Elements of a row; INT64_MAX: that is not known. */
static int64_t row_length(const fuse_group *g) {
  int64_t length = 1;
  for (int32_t a = 0; a < g->rank; a++) {
    if (!fuse_in_row(g, a)) continue;
    if (!base_dim_known(g->dims[a]) || __builtin_mul_overflow(length, g->dims[a], &length)) return INT64_MAX;
  }
  return length;
}

/* Whether vectors hold an element of several rows, which is for rows of a few elements, for those whose elements lie
 * far from each other, and for what has no other form. Long sums of f32, one element behind the other, are no good
 * ones, and those that lie so have kernels. False: there is no way. */
static bool choose_lanes(const fuse_group *g, fuse_built *built) {
  base_program *p = &built->build.program;
  const bool few = row_length(g) < KERN_FUSED_SHORT;
  bool logs = false, scans = false, reduces = false;
  for (uint32_t i = 0; i < p->count; i++) {
    scans |= p->ops[i].kind == BASE_PROGRAM_SCAN;
    reduces |= p->ops[i].kind == BASE_PROGRAM_REDUCE;
    logs |= p->ops[i].kind == BASE_PROGRAM_SCAN && p->ops[i].function == BASE_COMBINE_LOG_ADD;
  }
  p->across = g->row_axes > 0 && !built->gathered && (few || g->behind || logs);
  if (p->across) return few || (scans && !reduces);
  return !g->behind && !logs;
}

bool fuse_build(const fuse_state *f, const fuse_group *g, fuse_built *built) {
  emitting m = {.f = f, .g = g, .to = built};
  memset(built, 0, sizeof *built);
  loop_start(&built->build, (uint8_t)g->rank, (uint8_t)g->row_axes);
  built->build.program.behind = (uint8_t)g->behind;
  for (uint32_t i = 0; i < g->count; i++)
    if (!lower_member(&m, i)) return false;
  for (uint32_t i = 0; i < g->count; i++) {
    const ir_value v = ir_node_of(f->graph, (ir_node){g->members[i]})->out[0];
    const ir_type *t = ir_type_of(f->graph, v);
    if (g->again[i] || !used_outside(f, g, v)) continue;
    if (built->out_count == BASE_PROGRAM_OUTS) return false;
    built->out[built->out_count++] = v;
    loop_store(&built->build, m.value[i], t->dtype, fit_of(g, t) == FIT_DROPPED);
  }
  if (!choose_lanes(g, built)) return false;
  return built->out_count > 0 && loop_finish(&built->build) && built->build.program.in_count == built->in_count &&
         spans(&m);
}

double fuse_elements(int32_t rank, const base_dim *dims) {
  double count = 1;
  for (int32_t a = 0; a < rank; a++) count *= base_dim_known(dims[a]) ? (double)dims[a] : FUSE_UNKNOWN;
  return count;
}

double fuse_bytes(const fuse_state *f, const fuse_group *g, const fuse_built *built) {
  double total = 0;
  const double space = sizeof(float) * fuse_elements(g->rank, g->dims);
  for (uint32_t i = 0; i < built->in_count + built->out_count; i++) {
    const ir_value v = i < built->in_count ? built->in[i] : built->out[i - built->in_count];
    const ir_type *t = ir_type_of(f->graph, v);
    double bytes = base_dtype(t->dtype)->bits / 8.0 * fuse_elements(t->rank, t->dims);
    /* Of a table as much as the space has of elements, at most. */
    if (i < built->in_count && built->gathered >> i & 1 && bytes > space) bytes = space;
    total += bytes;
  }
  return total;
}

/* ---- into the graph ---- */

static td_status origins_of(const fuse_state *f, const fuse_group *g, ir_origins *to) {
  uint32_t room = 1, count = 0;
  for (uint32_t i = 0; i < g->count; i++) room += ir_node_of(f->graph, (ir_node){g->members[i]})->origins.count;
  const char **names = base_new(f->scratch, const char *, room);
  if (!names) return base_no_memory(f->err, "origins");
  for (uint32_t i = 0; i < g->count; i++) {
    const ir_origins *from = &ir_node_of(f->graph, (ir_node){g->members[i]})->origins;
    for (uint32_t n = 0; n < from->count; n++) {
      bool known = false;
      for (uint32_t k = 0; k < count && !known; k++) known = strcmp(names[k], from->names[n]) == 0;
      if (!known) names[count++] = from->names[n];
    }
  }
  *to = (ir_origins){names, count};
  return TD_OK;
}

bool fuse_is_transposed(const ir_graph *graph, ir_value v) {
  const ir_node from = v.id ? ir_value_of(graph, v)->node : (ir_node){0};
  const ir_op *op = from.id ? ir_node_of(graph, from)->op : NULL; /* NULL: of a node that was fused before */
  return op && op->id == OP_aten_permute;
}

static bool reads_transposed(const fuse_state *f, const ir_node_def *node) {
  for (uint32_t i = 0; i < node->in_count; i++)
    if (fuse_is_transposed(f->graph, node->in[i])) return true;
  return false;
}

/* Is it alone in reading the result of a product, whose chain it may be (chain.c)? To set up a chain takes as long as a
 * kernel takes for some thousand elements that are near. */
static bool follows_product(const fuse_state *f, const ir_node_def *node, bool has_kernel) {
  const ir_type *out = ir_type_of(f->graph, node->out[0]);
  if (has_kernel && fuse_elements(out->rank, out->dims) < CHAINED) return false;
  for (uint32_t i = 0; i < node->in_count; i++) {
    const uint32_t v = node->in[i].id;
    const ir_node from = ir_value_of(f->graph, node->in[i])->node;
    const ir_op *op = v && from.id ? ir_node_of(f->graph, from)->op : NULL;
    if (op && op->flags & IR_OP_CHAIN && f->first_user[v + 1] - f->first_user[v] == 1 && out->dtype == TD_F32 &&
        ir_type_equal(ir_type_of(f->graph, node->in[i]), out))
      return true;
  }
  return false;
}

/* Does a product alone read it, which can make it in front, block by block (chain.c)? */
static bool precedes_product(const fuse_state *f, const ir_node_def *node) {
  const uint32_t v = node->out[0].id, first = f->first_user[v];
  if (node->out_count != 1 || f->first_user[v + 1] - first != 1 || !f->users[first]) return false;
  const ir_node_def *product = ir_node_of(f->graph, (ir_node){f->users[first]});
  return product->op && product->op->flags & IR_OP_FRONT && product->in[0].id == v &&
         !fuse_why_no_front(f->graph, f->setting, f->scratch, product);
}

/* A few whole numbers or truths do not pay for code of their own. */
static bool is_small(const ir_type *t) {
  const int64_t elements = ir_known_count(t);
  return !base_is_float(t->dtype) && elements >= 0 && elements < FEW;
}

/* Kernels go along rows of a few elements one at a time; to set up a loop takes as long as some dozens of them. */
static bool runs_faster_across(const fuse_state *f, const fuse_group *g) {
  return g->row_axes && !g->behind && row_length(g) < KERN_FUSED_SHORT && f->setting->compiled &&
         fuse_elements(g->rank, g->dims) >= ROWS;
}

bool fuse_pays(const fuse_state *f, const fuse_group *g) {
  const ir_node_def *node = ir_node_of(f->graph, (ir_node){g->members[0]});
  if (g->count > 1) return true;
  const ir_kernel_query *query = node->op->kernel ? fuse_query(f->graph, f->setting->isa, f->scratch, node) : NULL;
  const bool has_kernel = query && node->op->kernel(query);
  const bool looks_up = has_kernel && node->op->flags & IR_OP_LOOKUP; /* which does it as well */
  if (looks_up || is_small(ir_type_of(f->graph, node->out[0]))) return false;
  if (!node->op->kernel || reads_transposed(f, node)) return true;
  if (runs_faster_across(f, g)) return true;
  if (!g->row_axes && (follows_product(f, node, has_kernel) || precedes_product(f, node))) return true;
  return query && !has_kernel;
}

/* Per op of the program, where among the node's origins the first of the member is that made it; -1: there is none. */
static int64_t *sources_of(const fuse_state *f, const fuse_group *g, const fuse_built *built, const ir_origins *all) {
  const base_program *p = &built->build.program;
  int64_t *sources = base_new(f->scratch, int64_t, (size_t)p->count + 1);
  for (uint32_t i = 0; sources && i < p->count; i++) {
    const ir_origins *own = &ir_node_of(f->graph, (ir_node){g->members[built->made_by[i]]})->origins;
    const uint8_t kind = p->ops[i].kind;
    const bool picks = kind == BASE_PROGRAM_LOAD && p->ops[i].in[1];
    const bool computes =
        picks || kind == BASE_PROGRAM_SCALAR || kind == BASE_PROGRAM_REDUCE || kind == BASE_PROGRAM_SCAN;
    sources[i] = -1;
    for (uint32_t k = 0; computes && own->count && k < all->count && sources[i] < 0; k++)
      if (strcmp(all->names[k], own->names[0]) == 0) sources[i] = k;
  }
  return sources;
}

/* What a fused node replaces must have its types. */
static bool same_types(const fuse_state *f, const fuse_built *built, ir_node made) {
  const ir_node_def *node = ir_node_of(f->graph, made);
  for (uint32_t i = 0; i < built->out_count; i++)
    if (!ir_type_equal(ir_type_of(f->graph, node->out[i]), ir_type_of(f->graph, built->out[i]))) return false;
  return true;
}

/* Gives operands that are without the row's axes 1 element along each. */
static td_status add_row_axes(fuse_state *f, const fuse_group *g, fuse_built *built, ir_node before) {
  for (uint32_t k = 0; k < built->in_count; k++) {
    if (!(built->dropped >> k & 1)) continue;
    int64_t axes[BASE_MAX_RANK];
    ir_value in[2] = {built->in[k]};
    const int32_t front = ir_type_of(f->graph, in[0])->rank - g->behind;
    for (int32_t a = 0; a < g->row_axes; a++) axes[a] = front + a;
    TRY(ir_add_ints(f->graph, axes, (uint32_t)g->row_axes, &in[1], f->err));
    const ir_new_node spec = {
        .op = ir_opset_at(f->graph->ops, OP_aten_unsqueeze), .in = in, .in_count = 2, .out_count = 1, .before = before};
    TRY(ir_add_node(f->graph, f->block, &spec, NULL, &built->in[k], f->err));
  }
  return TD_OK;
}

static td_status emit_group(fuse_state *f, fuse_group *g, fuse_built *built) {
  const base_program *p = &built->build.program;
  int64_t *words = base_new(f->scratch, int64_t, base_program_size(p));
  ir_origins origins;
  ir_node made;
  if (!words) return base_no_memory(f->err, "a fused loop");
  base_program_write(p, words);
  TRY(origins_of(f, g, &origins));
  int64_t *sources = sources_of(f, g, built, &origins);
  if (!sources) return base_no_memory(f->err, "a fused loop");
  const ir_node before = ir_block_of(f->graph, f->block)->nodes.at[(g->at + 1) / 2];
  TRY(add_row_axes(f, g, built, before));
  const base_arg args[] = {ARG_INTS("program", words, base_program_size(p)), ARG_INTS("from", sources, p->count)};
  const ir_new_node spec = {
      .op = ir_opset_at(f->graph->ops, p->row_axes || built->gathered ? OP_td_fused_rows : OP_td_fused),
      .in = built->in,
      .in_count = built->in_count,
      .out_count = built->out_count,
      .args = args,
      .arg_count = 2,
      .origins = origins,
      .before = before};
  TRY(ir_add_node(f->graph, f->block, &spec, &made, NULL, f->err));
  if (!same_types(f, built, made)) {
    ir_remove_node(f->graph, made);
    for (uint32_t k = 0; k < built->in_count; k++)
      if (built->dropped >> k & 1) ir_remove_node(f->graph, ir_value_of(f->graph, built->in[k])->node);
    g->count = 0;
    return TD_OK;
  }
  f->made++;
  for (uint32_t i = 0; i < built->out_count; i++) {
    const ir_value with = ir_node_of(f->graph, made)->out[i];
    ir_value_of(f->graph, with)->name = ir_value_of(f->graph, built->out[i])->name;
    ir_value_of(f->graph, built->out[i])->name = NULL;
    TRY(ir_replace_value(f->graph, built->out[i], with, f->err));
  }
  return TD_OK;
}

static int by_place(const void *a, const void *b) {
  const fuse_group *x = *(fuse_group *const *)a, *y = *(fuse_group *const *)b;
  return (x->at > y->at) - (x->at < y->at);
}

void fuse_sort(fuse_group **groups, uint32_t count) {
  if (count) qsort(groups, count, sizeof *groups, by_place);
}

td_status fuse_emit(fuse_state *f) {
  fuse_built *built = base_new(f->scratch, fuse_built, 1);
  if (!built) return base_no_memory(f->err, "a fused loop");
  fuse_sort(f->groups.at, f->groups.count);
  for (uint32_t i = 0; i < f->groups.count; i++) {
    fuse_group *g = f->groups.at[i];
    if (g->count && (!fuse_pays(f, g) || !fuse_build(f, g, built))) g->count = 0;
    if (g->count) TRY(emit_group(f, g, built));
  }
  for (uint32_t i = 0; i < f->groups.count; i++)
    for (uint32_t k = 0; k < f->groups.at[i]->count; k++)
      if (!f->groups.at[i]->again[k]) ir_remove_node(f->graph, (ir_node){f->groups.at[i]->members[k]});
  return TD_OK;
}
