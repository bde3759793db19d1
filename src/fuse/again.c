/* again.c -- cheap producers are recomputed in the loops of all their consumers, over the larger space of each, instead
 * of in a loop with a store and loads of its own. The bytes not moved and the step removed are compared with the
 * operations that are done more often. Every consumer must be able to recompute it: if one cannot, its result is
 * in memory anyway. */
#include "fuse/fuse_priv.h"

#include <string.h>

enum { READERS = 8 };
enum { LANES = 16, INTERPRETED = 4 /* times as dear is an operation */, APART = 250 /* of what has no vector form */ };

typedef struct repeating {
  const fuse_group *from;
  fuse_group *readers[READERS], joint[READERS];
  uint32_t count;
  double bytes, more; /* bytes less, and operations more, on elements in vectors */
} repeating;

/* ---- what it costs ---- */

/* Of an element of what the group computes. */
static double work_of(const fuse_state *f, const base_program *p) {
  double work = 0;
  for (uint32_t i = 0; i < p->count; i++) {
    if (p->ops[i].kind != BASE_PROGRAM_SCALAR) continue;
    const base_scalar_info *info = base_scalar_of((base_scalar)p->ops[i].function);
    const bool vectors = base_program_operand_type(p, &p->ops[i]) == BASE_TYPE_F32 || info->work < LANES / 2;
    work += vectors ? info->work : APART;
  }
  return f->setting->compiled ? work : work * INTERPRETED;
}

static double size_of(base_dim dim) { return base_dim_known(dim) ? (double)dim : FUSE_UNKNOWN; }

/* Elements for which `from` is computed in a loop over `space`: along the last axes, where it does not change, once for
 * a vector of them. */
static double elements_in(const fuse_group *from, const fuse_group *space) {
  double elements = 1;
  bool changes = false;
  for (int32_t a = space->rank; a-- > 0;) {
    const int32_t own = a - space->rank + from->rank;
    const bool still = own < 0 || from->dims[own] == 1;
    if (!changes && !still && a < space->rank - 1) elements = LANES;
    changes |= !still;
    if (changes) elements *= size_of(space->dims[a]);
  }
  return changes ? elements : LANES;
}

/* `built`: of the producer alone. */
static bool pays(const fuse_state *f, repeating *r, const fuse_built *built) {
  const double work = work_of(f, &built->build.program);
  r->bytes = r->from->bytes;
  r->more = -work * elements_in(r->from, r->from);
  for (uint32_t i = 0; i < r->count; i++) {
    r->bytes += r->readers[i]->bytes - r->joint[i].bytes;
    r->more += work * elements_in(r->from, r->readers[i]);
  }
  const base_speed *speed = base_speed_or_default(f->setting->speed);
  return r->more / speed->flops_per_ns < r->bytes / speed->near_per_ns + speed->loop_ns;
}

/* ---- who reads it ---- */

/* Is every member one that is computed element by element, and none excluded from fusion? */
static bool can_repeat(const fuse_state *f, const fuse_group *g) {
  bool can = g->count > 0 && !g->row_axes && !fuse_is_excluded(f, g);
  for (uint32_t i = 0; can && i < g->count; i++) {
    const uint32_t flags = ir_node_of(f->graph, (ir_node){g->members[i]})->op->flags;
    can = flags & IR_OP_ELEMENTWISE && !(flags & IR_OP_LOOKUP);
  }
  return can;
}

/* Adds the groups of those who read member `i`. False: one is no loop, or there are too many. */
static bool add_readers(const fuse_state *f, repeating *r, uint32_t i) {
  const uint32_t out = ir_node_of(f->graph, (ir_node){r->from->members[i]})->out[0].id;
  for (uint32_t u = f->first_user[out]; u < f->first_user[out + 1]; u++) {
    const uint32_t user = f->users[u];
    if (fuse_is_member(r->from, user)) continue;
    if (!user || !f->group[user]) return false;
    fuse_group *reader = f->groups.at[f->group[user] - 1];
    uint32_t k = 0;
    while (k < r->count && r->readers[k] != reader) k++;
    if (k == READERS || !reader->count || fuse_is_excluded(f, reader)) return false;
    r->readers[k] = reader;
    if (k == r->count) r->count++;
  }
  return true;
}

static bool find_readers(const fuse_state *f, repeating *r) {
  bool all = true;
  for (uint32_t i = 0; all && i < r->from->count; i++)
    if (!r->from->again[i]) all = add_readers(f, r, i);
  return all && r->count > 0;
}

/* A loop without rows that reads a product's result may become its chain (chain.c), which takes values of 4 bytes. */
static bool spoils_chain(const fuse_state *f, const fuse_group *reader, const fuse_built *built) {
  bool wide = false, chain = false;
  for (uint32_t i = 0; i < built->build.program.count; i++)
    wide |= base_type_is_wide((base_type)built->build.program.ops[i].type);
  for (uint32_t k = 0; k < built->in_count; k++) {
    const ir_node maker = ir_value_of(f->graph, built->in[k])->node;
    const ir_op *op = maker.id ? ir_node_of(f->graph, maker)->op : NULL;
    chain |= op && op->flags & IR_OP_CHAIN;
  }
  return wide && chain && !reader->row_axes;
}

/* Each reader with the producer inside. NULL: fine; else why not. */
static const char *join_readers(const fuse_state *f, repeating *r, fuse_built *built) {
  fuse_group again = *r->from;
  memset(again.again, true, sizeof again.again);
  for (uint32_t i = 0; i < r->count; i++) {
    fuse_group *joint = &r->joint[i];
    *joint = *r->readers[i];
    if (!fuse_merge_members(f, r->readers[i], &again, joint)) return "the joint loop has too many members";
    if (!fuse_find_place(f, joint)) return "another node is between its operands and its consumers";
    if (!fuse_build(f, joint, built)) return "a consuming loop cannot recompute it";
    if (fuse_runs_few_rows(f, joint, built)) return "a loop that reads it would run a few short rows at a time";
    if (spoils_chain(f, joint, built)) return "its consumer is in a product's epilogue, which takes only 4-byte values";
    joint->bytes = fuse_bytes(f, joint, built);
  }
  return NULL;
}

/* ---- moving ---- */

static void move(fuse_state *f, fuse_group *from, const repeating *r) {
  if (f->log)
    base_text_print(f->log->text, "# again: \"%s\" in %u loop%s that read it: %.0f bytes less, %.0f operations more\n",
                    fuse_name_of(f, from), r->count, r->count == 1 ? "" : "s", r->bytes, r->more);
  for (uint32_t i = 0; i < from->count; i++) f->repeated[from->members[i]] = true;
  for (uint32_t i = 0; i < r->count; i++) *r->readers[i] = r->joint[i];
  from->count = 0; /* its place stays: what it reads has to stand before it */
  f->repeats = true;
}

static void try_group(fuse_state *f, fuse_group *g, repeating *r, fuse_built *built) {
  *r = (repeating){.from = g};
  if (!can_repeat(f, g) || !find_readers(f, r)) return;
  const char *why = join_readers(f, r, built);
  if (!why && (!fuse_build(f, g, built) || !pays(f, r, built)))
    why = "computing it again in the loops that read it would cost more than it saves";
  if (why) (void)fuse_reject(f, r->readers[0], g, why);
  else move(f, g, r);
}

td_status fuse_again(fuse_state *f, fuse_built *built) {
  repeating *r = base_new(f->scratch, repeating, 1);
  fuse_group **order = base_new(f->scratch, fuse_group *, (size_t)f->groups.count + 1);
  if (!r || !order) return base_no_memory(f->err, "fused loops");
  for (uint32_t i = 0; i < f->groups.count; i++) order[i] = f->groups.at[i];
  /* What is read stands first: what is moved into a loop moves on with it. */
  fuse_sort(order, f->groups.count);
  for (uint32_t i = 0; i < f->groups.count; i++) try_group(f, order[i], r, built);
  return TD_OK;
}
