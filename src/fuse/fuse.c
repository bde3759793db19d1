/* fuse.c -- which nodes run as one loop. Every node that lowers to a loop starts a group. It merges with the groups of
 * its operands, and of other consumers of them, under three conditions: they have one space; the block has a place
 * after all operands of the merged group and before all its consumers; and the program can be run. A value that only
 * members use is never in memory, and one that several read is read once: so fusing saves bytes, and nothing is
 * computed twice. Where it saves almost none, live ranges would only grow. Nodes without a lowering (products with
 * their epilogues, and what built-in kernels do better) stay as they are. */
#include "fuse/fuse_priv.h"
#include "kernels/loops/loops.h"

#include <stdio.h>
#include <string.h>

enum { SHORT = 256 /* elements */ };
enum { WORTH = 64 /* joining must save at least 1/WORTH of the bytes of the smaller group */ };

/* ---- who uses what ---- */

/* Counts uses into first_user[v + 1] (fill false), or lists them. A use in a nested block is one of its region's. */
static void note_uses(fuse_state *f, const ir_value *values, uint32_t count, uint32_t user, bool fill) {
  for (uint32_t i = 0; i < count; i++) {
    if (!values[i].id) continue;
    if (fill) f->users[f->first_user[values[i].id]++] = user;
    else f->first_user[values[i].id]++;
  }
}

static void walk_uses(fuse_state *f, ir_block block, uint32_t region, bool fill) {
  const ir_block_def *def = ir_block_of(f->graph, block);
  for (uint32_t i = 0; i < def->nodes.count; i++) {
    const ir_node_def *node = ir_node_of(f->graph, def->nodes.at[i]);
    const uint32_t user = region ? region : def->nodes.at[i].id;
    if (!node->op) continue;
    note_uses(f, node->in, node->in_count, user, fill);
    for (uint32_t b = 0; b < node->block_count; b++) walk_uses(f, node->blocks[b], user, fill);
  }
  note_uses(f, def->results.at, def->results.count, region, fill);
}

static td_status find_uses(fuse_state *f) {
  const uint32_t values = f->graph->values.count; /* with those that groups of blocks before this one made */
  f->first_user = base_new(f->scratch, uint32_t, (size_t)values + 2);
  if (!f->first_user) return base_no_memory(f->err, "uses");
  walk_uses(f, f->block, 0, false);
  uint32_t total = 0;
  for (uint32_t v = 0; v <= values; v++) {
    const uint32_t count = f->first_user[v];
    f->first_user[v] = total;
    total += count;
  }
  f->users = base_new(f->scratch, uint32_t, (size_t)total + 1);
  if (!f->users) return base_no_memory(f->err, "uses");
  walk_uses(f, f->block, 0, true);
  for (uint32_t v = values; v > 0; v--) f->first_user[v] = f->first_user[v - 1]; /* each went to its end */
  f->first_user[0] = 0;
  return TD_OK;
}

/* ---- places ---- */

/* Where the node stands, or will: see fuse_group.at. Negative: before the block. */
static int64_t place_of(const fuse_state *f, uint32_t node) {
  if (node >= f->known || !f->index[node]) return -1;
  return f->group[node] ? f->groups.at[f->group[node] - 1]->at : 2 * ((int64_t)f->index[node] - 1);
}

bool fuse_find_place(const fuse_state *f, fuse_group *g) {
  int64_t defined = -1, used = INT64_MAX, last = 2 * ((int64_t)f->index[g->members[g->count - 1]] - 1);
  for (uint32_t i = 0; i < g->count; i++) {
    const ir_node_def *node = ir_node_of(f->graph, (ir_node){g->members[i]});
    for (uint32_t k = 0; k < node->in_count; k++) {
      const uint32_t from = node->in[k].id ? ir_value_of(f->graph, node->in[k])->node.id : 0;
      if (!from || fuse_is_member(g, from)) continue;
      defined = base_max_i64(defined, place_of(f, from));
    }
    const uint32_t out = node->out[0].id;
    for (uint32_t u = f->first_user[out]; !g->again[i] && u < f->first_user[out + 1]; u++)
      if (f->users[u] && !fuse_is_member(g, f->users[u])) used = base_min_i64(used, place_of(f, f->users[u]));
  }
  g->at = used > last ? last : used - 1;
  return g->at > defined;
}

/* ---- joining ---- */

static bool same_space(const fuse_group *a, const fuse_group *b) {
  const bool same_row = a->row_axes == b->row_axes && a->behind == b->behind;
  if (a->rank != b->rank || (a->row_axes && b->row_axes && !same_row)) return false;
  return memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

/* Is b's space the rows of a's: with 1 along them, or without them? */
static bool is_rows_of(const fuse_group *a, const fuse_group *b) {
  const bool dropped = b->rank == a->rank - a->row_axes;
  if (!a->row_axes || b->row_axes || (b->rank != a->rank && !dropped)) return false;
  for (int32_t i = 0, at = 0; i < a->rank; i++) {
    const bool in_row = fuse_in_row(a, i);
    if (dropped && in_row) continue;
    if (b->dims[at++] != (in_row ? 1 : a->dims[i])) return false;
  }
  return true;
}

bool fuse_merge_members(const fuse_state *f, const fuse_group *a, const fuse_group *b, fuse_group *to) {
  uint32_t i = 0, k = 0;
  if (a->count + b->count > FUSE_MEMBERS) return false;
  to->count = 0;
  while (i < a->count || k < b->count) {
    const bool both = i < a->count && k < b->count && a->members[i] == b->members[k];
    const bool first = k == b->count || (i < a->count && f->index[a->members[i]] < f->index[b->members[k]]);
    to->again[to->count] = first ? a->again[i] : b->again[k];
    to->members[to->count++] = first ? a->members[i++] : b->members[k++];
    i += both;
  }
  return true;
}

const char *fuse_name_of(const fuse_state *f, const fuse_group *g) {
  uint32_t own = 0;
  while (own + 1 < g->count && g->again[own]) own++;
  return ir_node_name(ir_node_of(f->graph, (ir_node){g->members[own]}));
}

bool fuse_reject(const fuse_state *f, const fuse_group *a, const fuse_group *b, const char *why) {
  for (uint32_t i = 0; f->log && i < b->count; i++) f->log->why[b->members[i]] = why;
  if (f->log)
    base_text_print(f->log->text, "# not fused: \"%s\" and \"%s\": %s\n", fuse_name_of(f, a), fuse_name_of(f, b), why);
  return false;
}

/* Is one of the nodes, or "*", in the setting's list, `before` in front? */
static bool is_listed(const fuse_setting *setting, const char *before, const ir_origins *origins) {
  char name[288];
  if (!setting->alone) return false;
  snprintf(name, sizeof name, "%s*", before);
  bool listed = base_str_listed(setting->alone, name);
  for (uint32_t i = 0; i < origins->count && !listed; i++) {
    const base_str own = base_node_name(origins->names[i]);
    if (own.length >= 256) continue;
    snprintf(name, sizeof name, "%s%.*s", before, (int)own.length, own.at);
    listed = base_str_listed(setting->alone, name);
  }
  return listed;
}

bool fuse_is_excluded(const fuse_state *f, const fuse_group *g) {
  return is_listed(f->setting, "", &ir_node_of(f->graph, (ir_node){g->members[0]})->origins);
}

bool fuse_stays_loop(const fuse_setting *setting, const ir_origins *origins) {
  return is_listed(setting, "", origins) || is_listed(setting, "chain=", origins);
}

/* Is the operand there for some of the axes outside of a row, and the same along others? */
static bool repeats_outside(const fuse_group *g, const ir_type *t) {
  bool moves = false, repeats = false;
  for (int32_t a = 0; a < g->rank - g->row_axes; a++) {
    const int32_t at = a - (g->rank - t->rank);
    if (g->dims[a] == 1) continue;
    if (at < 0 || t->dims[at] == 1) repeats = true;
    else moves = true;
  }
  return moves && repeats;
}

bool fuse_runs_few_rows(const fuse_state *f, const fuse_group *g, const fuse_built *built) {
  const int32_t next = g->rank - g->row_axes - 1;
  int64_t length = 1, outside = 1;
  const bool across = built->build.program.across; /* then rows along any axis outside of theirs are one tile */
  for (int32_t a = 0; a < g->rank; a++) {
    if (!base_dim_known(g->dims[a]) || g->dims[a] > INT32_MAX) return false;
    if (across && !fuse_in_row(g, a) && g->dims[a] >= KERN_FUSED_FEW) return false;
  }
  if (g->behind) return false;
  for (int32_t a = next + 1; a < g->rank && length < KERN_FUSED_SHORT; a++) length *= g->dims[a];
  for (int32_t a = 0; a < next && outside < KERN_FUSED_FEW; a++) outside *= g->dims[a];
  if (!g->row_axes || next < 0 || length >= KERN_FUSED_SHORT || g->dims[next] >= KERN_FUSED_FEW || outside == 1)
    return false;
  for (uint32_t k = 0; k < built->in_count; k++)
    if (!(built->gathered >> k & 1) && repeats_outside(g, ir_type_of(f->graph, built->in[k]))) return true;
  return false;
}

/* Joins group `from` into group `to` where that can be and pays. */
static bool join(fuse_state *f, uint32_t from, uint32_t to, fuse_built *built) {
  fuse_group joint, *a = f->groups.at[to - 1], *b = f->groups.at[from - 1];
  if (from == to || !a->count || !b->count) return false;
  if (fuse_is_excluded(f, a) || fuse_is_excluded(f, b)) return fuse_reject(f, a, b, "it is excluded from fusion");
  if (same_space(a, b)) joint = a->row_axes ? *a : *b;
  else if (is_rows_of(a, b)) joint = *a;
  else if (is_rows_of(b, a)) joint = *b;
  else return fuse_reject(f, a, b, "its operands, or other consumers of them, have another shape");
  if (!fuse_merge_members(f, a, b, &joint)) return fuse_reject(f, a, b, "the joint loop has too many members");
  if (!fuse_find_place(f, &joint))
    return fuse_reject(f, a, b, "another node is between the joint loop's operands and its consumers");
  if (!fuse_build(f, &joint, built))
    return fuse_reject(f, a, b,
                       "the joint loop has too many operands, results or steps, or needs a value in two forms");
  if (fuse_runs_few_rows(f, &joint, built)) return fuse_reject(f, a, b, "it would run a few short rows at a time");
  joint.bytes = fuse_bytes(f, &joint, built);
  const double saved = a->bytes + b->bytes - joint.bytes;
  if (saved * WORTH < (a->bytes < b->bytes ? a->bytes : b->bytes))
    return fuse_reject(f, a, b, "fusing would save almost no bytes");
  if (f->log)
    base_text_print(f->log->text, "# joined: \"%s\" and \"%s\": %.0f bytes instead of %.0f\n", fuse_name_of(f, a),
                    fuse_name_of(f, b), joint.bytes, a->bytes + b->bytes);
  *a = joint;
  for (uint32_t i = 0; i < b->count; i++) f->group[b->members[i]] = to;
  b->count = 0;
  return true;
}

/* ---- the walk ---- */

static bool is_loop_type(const ir_type *t) {
  if (t->kind > IR_BOOL || t->rank < 0 || t->rank > BASE_MAX_RANK) return false;
  return base_type_of(t->dtype) != BASE_TYPE_COUNT;
}

/* What sizes are computed with: contents that are known while graphs are built, or one number. Loops know neither. */
static bool is_size(const ir_info *info) {
  return !base_is_float(info->type.dtype) && (info->type.rank == 0 || info->ints);
}

/* Operands and result are of types that loops compute with; only the first result is used. */
static bool has_loop_types(const fuse_state *f, const ir_node_def *node) {
  const ir_info *out = &ir_value_of(f->graph, node->out[0])->info;
  if (!is_loop_type(&out->type) || is_size(out)) return false;
  for (uint32_t i = 1; i < node->out_count; i++)
    if (f->first_user[node->out[i].id] != f->first_user[node->out[i].id + 1]) return false;
  for (uint32_t i = 0; i < node->in_count; i++) {
    const ir_info *in = node->in[i].id ? &ir_value_of(f->graph, node->in[i])->info : NULL;
    if (in && !is_loop_type(&in->type)) return false;
  }
  return node->in_count > 0 && node->in[0].id;
}

/* Interpreted, a short row costs more than it saves where the node has a kernel of its own. */
static bool is_short_row(const fuse_state *f, const fuse_group *g, const ir_node_def *node, const fuse_built *built) {
  int64_t length = 1;
  for (int32_t a = g->rank - g->row_axes; a < g->rank; a++)
    if (!base_mul_i64(length, base_dim_known(g->dims[a]) ? g->dims[a] : SHORT, &length)) length = INT64_MAX;
  if (f->setting->compiled || !g->row_axes || length >= SHORT || !node->op->kernel || built->build.program.across)
    return false;
  const ir_kernel_query *query = fuse_query(f->graph, f->setting->isa, f->scratch, node);
  return query && node->op->kernel(query);
}

/* A group of the node alone: over its result, or, where it reduces, over its first operand. */
static td_status start_group(fuse_state *f, ir_node id, fuse_built *built, bool *made) {
  const ir_node_def *node = ir_node_of(f->graph, id);
  *made = false;
  if (!node->op) return TD_OK;
  if (f->log)
    f->log->why[id.id] = !node->op->lower           ? "it has no form in loops"
                         : !has_loop_types(f, node) ? "its types are none that loops compute with"
                                                    : FUSE_NOTHING_BESIDE;
  if (!node->op->lower || !has_loop_types(f, node)) return TD_OK;
  fuse_group **slot = base_vec_push(f->scratch, &f->groups), *g = base_new(f->scratch, fuse_group, 1);
  if (!slot || !g) return base_no_memory(f->err, "a fused loop");
  *slot = g;
  const ir_type *out = ir_type_of(f->graph, node->out[0]), *in = ir_type_of(f->graph, node->in[0]);
  g->members[0] = id.id;
  g->count = 1;
  for (int32_t behind = 0; behind < in->rank || behind == 0; behind++)
    for (int32_t row_axes = behind > 0; row_axes <= in->rank - behind && !*made; row_axes++) {
      const ir_type *space = row_axes ? in : out;
      g->row_axes = row_axes;
      g->behind = behind;
      g->rank = space->rank;
      memcpy(g->dims, space->dims, sizeof g->dims);
      *made = fuse_build(f, g, built) && fuse_find_place(f, g) && !is_short_row(f, g, node, built);
    }
  g->bytes = *made ? fuse_bytes(f, g, built) : 0;
  if (*made) f->group[id.id] = f->groups.count;
  else f->groups.count--;
  if (!*made && f->log) f->log->why[id.id] = "its form in loops is not for these operands or attributes";
  return TD_OK;
}

/* Joins the node's group with those of what it reads, then with those that read the same. */
static void grow_group(fuse_state *f, ir_node id, fuse_built *built) {
  const ir_node_def *node = ir_node_of(f->graph, id);
  for (uint32_t i = 0; i < node->in_count; i++) {
    const uint32_t from = node->in[i].id ? ir_value_of(f->graph, node->in[i])->node.id : 0;
    if (from && from < f->known && f->index[from] && f->group[from]) join(f, f->group[id.id], f->group[from], built);
  }
  for (uint32_t i = 0; i < node->in_count; i++) {
    const uint32_t v = node->in[i].id;
    if (!v || ir_value_of(f->graph, node->in[i])->info.constant) continue;
    for (uint32_t u = f->first_user[v]; u < f->first_user[v + 1]; u++)
      if (f->users[u] && f->users[u] < id.id && f->group[f->users[u]])
        join(f, f->group[id.id], f->group[f->users[u]], built);
  }
}

/* Finds the groups of a block, none of which is in place yet. `built` is scratch. */
static td_status find_groups(fuse_state *f, ir_block block, fuse_built *built) {
  f->block = block;
  f->groups.count = 0;
  const uint32_t count = ir_block_of(f->graph, block)->nodes.count;
  for (uint32_t i = 0; i < count; i++) f->index[ir_block_of(f->graph, block)->nodes.at[i].id] = i + 1;
  TRY(find_uses(f));
  for (uint32_t i = 0; i < count; i++) {
    const ir_node id = ir_block_of(f->graph, block)->nodes.at[i];
    bool made;
    TRY(start_group(f, id, built, &made));
    if (made) grow_group(f, id, built);
  }
  return fuse_again(f, built);
}

/* A state for the graph; its arrays are in `scratch`. */
static td_status start(fuse_state *f, ir_graph *graph, const fuse_setting *setting, base_arena *scratch,
                       td_error *err) {
  const size_t nodes = (size_t)graph->nodes.count + 1;
  *f = (fuse_state){.graph = graph,
                    .known = (uint32_t)nodes,
                    .setting = setting,
                    .log = setting->log,
                    .scratch = scratch,
                    .err = err,
                    .index = base_new(scratch, uint32_t, nodes),
                    .group = base_new(scratch, uint32_t, nodes),
                    .repeated = base_new(scratch, bool, nodes)};
  return f->index && f->group && f->repeated ? TD_OK : base_no_memory(err, "fused loops");
}

/* Removes the nodes that were computed again in all loops that read them; `known`: nodes that may be such. */
static td_status drop_repeated(fuse_state *f, uint32_t known) {
  uint32_t *uses = base_new(f->scratch, uint32_t, (size_t)f->graph->values.count + 1);
  if (!uses) return base_no_memory(f->err, "uses");
  ir_count_uses(f->graph, uses);
  for (uint32_t b = 0; b < f->graph->blocks.count; b++) {
    const ir_block_def *block = ir_block_of(f->graph, (ir_block){b});
    for (uint32_t i = block->nodes.count; i-- > 0;) {
      const ir_node id = block->nodes.at[i];
      const ir_node_def *node = ir_node_of(f->graph, id);
      if (id.id >= known || !f->repeated[id.id] || !node->op || uses[node->out[0].id]) continue;
      for (uint32_t k = 0; k < node->in_count; k++) uses[node->in[k].id] -= node->in[k].id != 0;
      ir_remove_node(f->graph, id);
    }
  }
  ir_settle(f->graph);
  return TD_OK;
}

/* Finds the groups of each block, and replaces the members of those that pay. */
static td_status fuse_all(fuse_state *f) {
  fuse_built *built = base_new(f->scratch, fuse_built, 1);
  const uint32_t blocks = f->graph->blocks.count, known = f->graph->nodes.count;
  if (!built) return base_no_memory(f->err, "fused loops");
  for (uint32_t b = 0; b < blocks; b++) {
    const uint32_t count = ir_block_of(f->graph, (ir_block){b})->nodes.count;
    TRY(find_groups(f, (ir_block){b}, built));
    TRY(fuse_emit(f));
    for (uint32_t i = 0; i < count; i++) f->index[ir_block_of(f->graph, (ir_block){b})->nodes.at[i].id] = 0;
  }
  ir_settle(f->graph);
  return f->repeats ? drop_repeated(f, known) : TD_OK;
}

static td_status start_log(fuse_log *log, uint32_t nodes, td_error *err) {
  log->why = base_new(log->arena, const char *, nodes);
  if (!log->why) return base_no_memory(err, "fused loops");
  log->count = nodes;
  return TD_OK;
}

td_status fuse_groups(ir_graph *graph, const fuse_setting *setting, uint32_t *changes, td_error *err) {
  base_arena *scratch = base_arena_new_brief(base_arena_allocator(graph->arena));
  fuse_state f;
  td_status status = scratch ? start(&f, graph, setting, scratch, err) : base_no_memory(err, "fused loops");
  if (status == TD_OK && f.log) status = start_log(f.log, graph->nodes.count + 1, err);
  if (status == TD_OK) status = fuse_all(&f);
  if (status == TD_OK) *changes += f.made;
  base_arena_free(scratch);
  return status;
}
