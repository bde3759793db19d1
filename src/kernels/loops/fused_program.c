/* fused_program.c -- programs with what running them asks for: read from attributes and verified once for all calls of
 * a step. */
#include "kernels/loops/loops.h"

#include <stddef.h>
#include <string.h>

/* 4 bytes each, of an element. */
static uint32_t words_of(uint8_t type) { return base_type_is_wide((base_type)type) ? 2 : 1; }

/* Slots for blocks of values: loads have one each, other values one until their last use. */
static void find_slots(kern_fused_program *f) {
  const base_program *p = &f->p;
  uint32_t last[BASE_PROGRAM_OPS] = {0}, kept = 0, used = 0;
  bool taken[BASE_PROGRAM_OPS] = {0};
  for (uint32_t i = 0; i < p->count; i++) {
    for (uint32_t k = 0; k < 3; k++)
      if (p->ops[i].in[k] < i) last[p->ops[i].in[k]] = i;
    if (p->ops[i].kind == BASE_PROGRAM_LOAD) f->slot[i] = (uint8_t)used, taken[used++] = true;
    if (p->ops[i].kind != BASE_PROGRAM_STORE) f->last_work = i;
    f->wide |= base_type_is_wide((base_type)p->ops[i].type);
  }
  for (uint32_t s = 0; s < f->stages; s++)
    for (uint32_t i = 0; i < p->count; i++) {
      const base_program_op *op = &p->ops[i];
      uint32_t slot = 0;
      if (f->stage[i] != s || !base_program_computes(op)) continue;
      if (f->kept[i]) {
        f->slot[i] = (uint8_t)kept;
        kept += words_of(op->type);
      } else {
        while (taken[slot]) slot++;
        taken[slot] = true;
        f->slot[i] = (uint8_t)slot;
      }
      for (uint32_t k = 0; k < 3; k++) {
        const uint32_t from = op->in[k];
        if (from >= i || last[from] != i) continue; /* what is no operand may be any number */
        if (base_program_computes(&p->ops[from]) && !f->kept[from]) taken[f->slot[from]] = false;
      }
    }
  f->kept_words = kept;
}

static void lay_out(kern_fused_program *f) {
  f->stages = base_program_stages(&f->p, f->stage);
  base_program_kept(&f->p, f->stage, f->kept);
  for (uint32_t s = 0; s < f->stages; s++) f->back[s] = base_program_runs_back(&f->p, f->stage, s);
  find_slots(f);
}

static bool is_sums(const base_program_op *op) { return op->kind == BASE_PROGRAM_LOAD && op->function == 0; }

const char *kern_chain_read(const int64_t *words, uint32_t count, bool front, base_program *p) {
  const char *wrong = base_program_read(words, count, p);
  if (wrong) return wrong;
  if (p->in_count < 1 || p->out_count < 1) return "it is no chain: results of at least one operand";
  if (front && p->out_count > 1) return "it has several results";
  base_program_pick picks[BASE_PROGRAM_OPERANDS];
  if (base_program_picks(p, picks)) return "it gathers, which may fail";
  for (uint32_t i = 0; i < p->count; i++) {
    const base_program_op *op = &p->ops[i];
    const bool of_result = is_sums(op);
    if (base_type_is_wide(op->type) || (of_result && op->type != BASE_TYPE_F32))
      return "it is of values that are no f32";
    if (op->kind == BASE_PROGRAM_STORE && (op->row || op->in[2] != TD_F32)) return "its result is no f32 of the space";
    if (of_result && op->row) return "the product's result is one of rows";
    if (op->kind == BASE_PROGRAM_STORE && is_sums(&p->ops[op->in[0]])) return "it stores the product's result as it is";
  }
  if (front) return p->row_axes > 1 || p->behind || p->across ? "its rows are no product's" : NULL;
  return p->row_axes ? "it reduces along rows" : NULL;
}

const char *kern_fused_read(const base_attrs *attrs, bool chain, kern_fused_program *f) {
  uint32_t count;
  const int64_t *words = base_attr_ints(attrs, chain ? attrs->count - 1 : KERN_FUSED_PROGRAM, &count);
  memset(f, 0, offsetof(kern_fused_program, p));
  const char *wrong =
      chain ? kern_chain_read(words, count, kern_chain_in_front(attrs), &f->p) : base_program_read(words, count, &f->p);
  if (!wrong) lay_out(f);
  return wrong;
}

const kern_fused_program *kern_fused_ready(const base_attrs *attrs, bool chain, base_arena *arena) {
  kern_fused_program f;
  if (kern_fused_read(attrs, chain, &f)) return NULL;
  return base_arena_copy(arena, &f, offsetof(kern_fused_program, p.ops) + f.p.count * sizeof f.p.ops[0]);
}
