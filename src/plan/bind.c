/* bind.c -- numbers for sizes: symbols from the input shapes, then every slot's dims, then which steps run in parts,
 * then the arena. */
#include "plan/plan_priv.h"
#include "base/size.h"

#include <stdio.h>
#include <string.h>

static bool is_symbol(const base_dims *dims, base_dim d, int64_t *symbol) {
  if (base_dim_known(d) || d == BASE_DIM_NONE) return false;
  const base_dim_node *n = &dims->nodes.at[d - (BASE_DIM_NONE + 1)];
  *symbol = n->a;
  return n->op == BASE_DIM_SYMBOL;
}

static td_status bind_input(const plan_exe *plan, uint32_t index, const base_tensor *t, int64_t *symbols,
                            td_error *err) {
  const plan_port *port = plan_given(plan, index);
  const plan_slot *slot = &plan->slots.at[port->slot];
  for (int32_t k = 0; k < slot->rank; k++) {
    int64_t symbol;
    if (base_dim_known(slot->dims[k])) {
      if (slot->dims[k] == t->dims[k]) continue;
      return base_fail(err, TD_BAD_ARGUMENT, plan_name(plan, port->name), -1,
                       "input %s: dimension %d is %lld, the model has %lld", plan_name(plan, port->name), k,
                       (long long)t->dims[k], (long long)slot->dims[k]);
    }
    if (!is_symbol(&plan->dims, slot->dims[k], &symbol)) continue;
    if (symbols[symbol] >= 0 && symbols[symbol] != t->dims[k])
      return base_fail(err, TD_BAD_ARGUMENT, plan_name(plan, port->name), -1,
                       "input %s: dimension %d (%s) is %lld here and %lld elsewhere", plan_name(plan, port->name), k,
                       plan->dims.symbols.at[symbol].name, (long long)t->dims[k], (long long)symbols[symbol]);
    symbols[symbol] = t->dims[k];
  }
  return TD_OK;
}

/* A size of an input that is an expression gives the symbol in it that nothing else gives, or must agree. */
static td_status solve_input(const plan_exe *plan, uint32_t index, const base_tensor *t, int64_t *symbols,
                             td_error *err) {
  const plan_port *port = plan_given(plan, index);
  const plan_slot *slot = &plan->slots.at[port->slot];
  for (int32_t k = 0; k < slot->rank; k++) {
    int64_t plain, value;
    uint32_t symbol;
    bool fits;
    base_dim d = slot->dims[k];
    if (base_dim_known(d) || is_symbol(&plan->dims, d, &plain)) continue;
    if (base_dim_eval(&plan->dims, d, symbols, &value)) fits = value == t->dims[k];
    else if (base_dim_solve(&plan->dims, d, t->dims[k], symbols, &symbol, &value, &fits)) symbols[symbol] = value;
    else continue;
    if (!fits)
      return base_fail(err, TD_BAD_ARGUMENT, plan_name(plan, port->name), -1,
                       "input %s: dimension %d is %lld, which does not fit the sizes that the model was exported for",
                       plan_name(plan, port->name), k, (long long)t->dims[k]);
  }
  return TD_OK;
}

static td_status check_guards(const plan_exe *plan, const int64_t *symbols, td_error *err) {
  for (uint32_t i = 0; i < plan->guards.count; i++) {
    const plan_guard *g = &plan->guards.at[i];
    int64_t left, right;
    if (!base_dim_eval(&plan->dims, g->left, symbols, &left) || !base_dim_eval(&plan->dims, g->right, symbols, &right))
      continue; /* about what only running can tell */
    if (base_relation_holds((base_relation)g->relation, left, right)) continue;
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "%s; here %lld %s %lld does not hold", plan_name(plan, g->text),
                     (long long)left, base_relation_name((base_relation)g->relation), (long long)right);
  }
  return TD_OK;
}

/* The step that defines `slot`; NULL: none. */
static const plan_step *step_of(const plan_exe *plan, uint32_t slot) {
  for (uint32_t i = 0; i < plan->steps.count; i++)
    for (uint32_t k = 0; k < plan->steps.at[i].out_count; k++)
      if (plan->operands.at[plan->steps.at[i].out + k] == slot) return &plan->steps.at[i];
  return NULL;
}

/* Its name, for messages. */
static const char *definer(const plan_exe *plan, uint32_t slot) {
  const plan_step *step = step_of(plan, slot);
  return step ? plan_name(plan, step->name) : "";
}

/* The result in `index` has no size: says which shapes do not go together. */
static td_status no_size(const plan_exe *plan, uint32_t index, int32_t dim, const int64_t *symbols, td_error *err) {
  const plan_step *step = step_of(plan, index);
  char text[400] = "";
  size_t at = 0;
  for (uint32_t i = 0; step && i < step->in_count && at < sizeof text; i++) {
    const uint32_t operand = plan->operands.at[step->in + i];
    if (operand == PLAN_NONE || plan->slots.at[operand].dtype == TD_INVALID) continue;
    const plan_slot *slot = &plan->slots.at[operand];
    base_tensor t = {.dtype = slot->dtype, .rank = slot->rank};
    char one[200];
    for (int32_t k = 0; k < slot->rank; k++)
      if (!base_dim_eval(&plan->dims, slot->dims[k], symbols, &t.dims[k])) t.dims[k] = -1;
    at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", *text ? " and " : "; it takes ",
                           base_tensor_describe(&t, one, sizeof one));
  }
  return base_fail(err, TD_BAD_ARGUMENT, definer(plan, index), -1,
                   "these input shapes do not fit the model: dimension %d of a result has no size%s", dim, text);
}

static td_status bind_slot(const plan_exe *plan, uint32_t index, const int64_t *symbols, base_tensor *t, size_t *bytes,
                           td_error *err) {
  const plan_slot *slot = &plan->slots.at[index];
  int64_t dims[BASE_MAX_RANK], count;
  for (int32_t k = 0; k < slot->rank; k++)
    if (!base_dim_eval(&plan->dims, slot->dims[k], symbols, &dims[k]) || dims[k] < 0)
      return no_size(plan, index, k, symbols, err);
  if (!base_numel(slot->rank, dims, &count) || !base_dtype_bytes(slot->dtype, count, bytes))
    return base_fail(err, TD_BAD_ARGUMENT, definer(plan, index), -1, "the size of a result overflows");
  *t = base_tensor_of(NULL, slot->dtype, slot->rank, dims);
  if (slot->place == PLAN_CONST) {
    memcpy(t->strides, slot->strides, sizeof t->strides);
    t->data = (void *)(uintptr_t)plan_constant(plan, slot);
  }
  return TD_OK;
}

/* A part has the strides of its whole, and begins inside it. */
static td_status place_part(const plan_exe *plan, uint32_t index, plan_binding *b, td_error *err) {
  const plan_slot *s = &plan->slots.at[index];
  const base_tensor *whole = &b->tensors[s->part_of], *part = &b->tensors[index];
  for (int32_t k = 0; k < s->rank; k++)
    if (k == s->part_axis ? s->part_at > whole->dims[k] - part->dims[k] : part->dims[k] != whole->dims[k])
      return base_fail(err, TD_BAD_ARGUMENT, definer(plan, index), -1, "a part of a result does not lie inside it");
  memcpy(b->tensors[index].strides, whole->strides, sizeof whole->strides);
  b->offsets[index] += (size_t)(s->part_at * whole->strides[s->part_axis]) * (base_dtype(s->dtype)->bits / 8u);
  return TD_OK;
}

/* The shares that `parts` is one of; NULL: none. */
static plan_shares *shares_with(const plan_binding *b, uint32_t parts) {
  for (uint32_t i = 0; parts != PLAN_NONE && i < b->shares.count; i++)
    if (parts >= b->shares.at[i].first && parts < b->shares.at[i].end) return &b->shares.at[i];
  return NULL;
}

/* The shares that alone use the memory of `root`, so that each thread has its own; NULL: none. */
static plan_shares *shares_around(const plan_binding *b, const plan_slot *root) {
  plan_shares *shares = shares_with(b, b->parts_of[root->first]);
  return shares && shares == shares_with(b, b->parts_of[root->last]) ? shares : NULL;
}

/* Steps that run in parts come again after their last: what they share with others lives as long as they do, and what
 * they alone use needs room for one part. Of shares the same holds. */
static plan_interval interval_of(const plan_slot *root, size_t bytes, const plan_binding *b) {
  plan_interval it = {.first = root->first, .last = root->last, .bytes = bytes};
  const uint32_t first = b->parts_of[it.first], last = b->parts_of[it.last];
  if (first != PLAN_NONE && first == last) {
    const plan_parts *p = &b->parts.at[first];
    it.bytes = bytes / (size_t)p->samples * (size_t)p->part;
  } else {
    const plan_shares *around = shares_around(b, root), *before = shares_with(b, first), *behind = shares_with(b, last);
    if (first != PLAN_NONE) it.first = b->parts.at[before && !around ? before->first : first].first;
    if (last != PLAN_NONE) it.last = b->parts.at[behind && !around ? behind->end - 1 : last].end - 1;
    if (around) it.bytes = bytes / (size_t)around->samples * (size_t)around->share;
  }
  if (it.bytes == 0) it.bytes = 1;
  return it;
}

/* What is placed together: the arena, or what each thread has for itself in shares. */
typedef struct placement {
  plan_interval *intervals;
  uint32_t *owner; /* per interval: the slot, or PLAN_NONE */
  uint32_t count;
  size_t bytes, lower;
} placement;

/* The slots in the arena (shares NULL), or those that `shares` alone use. */
static td_status place_roots(const plan_exe *plan, const size_t *bytes, const plan_shares *shares, base_arena *arena,
                             plan_binding *b, placement *p, td_error *err) {
  for (uint32_t i = 0; i < plan->slots.count; i++) {
    const plan_slot *s = &plan->slots.at[i];
    if (s->place != PLAN_ARENA || s->root != i || shares_around(b, s) != shares) continue;
    p->owner[p->count] = i;
    p->intervals[p->count++] = interval_of(s, bytes[i], b);
  }
  if (!plan_memory(arena, p->intervals, p->count, &p->bytes, &p->lower)) return base_no_memory(err, "the memory plan");
  for (uint32_t i = 0; i < p->count; i++)
    if (p->owner[i] != PLAN_NONE) b->offsets[p->owner[i]] = p->intervals[i].offset;
  return TD_OK;
}

enum { OWN_ALIGN = 4096 /* threads share no line, and hardly a page */ };

/* First what threads have for themselves; to the others these are one block for as long as the shares last. */
static td_status place_all_roots(const plan_exe *plan, const size_t *bytes, uint32_t threads, base_arena *arena,
                                 plan_binding *b, td_error *err) {
  const size_t most = (size_t)plan->slots.count + b->shares.count + 1;
  placement whole = {.intervals = base_new(arena, plan_interval, most), .owner = base_new(arena, uint32_t, most)};
  placement own = {.intervals = base_new(arena, plan_interval, most), .owner = base_new(arena, uint32_t, most)};
  if (!whole.intervals || !whole.owner || !own.intervals || !own.owner) return base_no_memory(err, "a binding");
  for (uint32_t i = 0; i < b->shares.count; i++) {
    plan_shares *shares = &b->shares.at[i];
    own.count = 0;
    TRY(place_roots(plan, bytes, shares, arena, b, &own, err));
    shares->own_bytes = (own.bytes + OWN_ALIGN - 1) / OWN_ALIGN * OWN_ALIGN;
    plan_interval all = {.first = b->parts.at[shares->first].first, .last = b->parts.at[shares->end - 1].end - 1};
    if (!base_mul(shares->own_bytes, threads, &all.bytes)) return base_no_memory(err, "the memory plan");
    whole.owner[whole.count] = PLAN_NONE;
    whole.intervals[whole.count++] = all;
  }
  TRY(place_roots(plan, bytes, NULL, arena, b, &whole, err));
  for (uint32_t i = 0; i < b->shares.count; i++) b->shares.at[i].own_offset = whole.intervals[i].offset;
  b->arena_bytes = whole.bytes;
  b->arena_lower = whole.lower;
  return TD_OK;
}

static td_status place_slots(const plan_exe *plan, const size_t *bytes, uint32_t threads, base_arena *arena,
                             plan_binding *b, td_error *err) {
  TRY(place_all_roots(plan, bytes, threads, arena, b, err));
  for (uint32_t i = 0; i < plan->slots.count; i++) {
    const plan_slot *s = &plan->slots.at[i];
    const plan_shares *shares = s->place == PLAN_ARENA && s->root == i ? shares_around(b, s) : NULL;
    if (shares) b->offsets[i] += shares->own_offset;
  }
  for (uint32_t i = 0; i < plan->slots.count; i++)
    if (plan->slots.at[i].place == PLAN_ARENA) b->offsets[i] = b->offsets[plan->slots.at[i].root];
  for (uint32_t i = 0; i < plan->slots.count; i++)
    if (plan->slots.at[i].place == PLAN_ARENA && plan->slots.at[i].part_of != PLAN_NONE)
      TRY(place_part(plan, i, b, err));
  return TD_OK;
}

/* *symbols: a value per symbol that the inputs tell, -1 for others. */
static td_status solve_sizes(const plan_exe *plan, const base_value *given, base_arena *arena, int64_t **symbols,
                             td_error *err) {
  const uint32_t count = plan->dims.symbols.count;
  *symbols = base_new(arena, int64_t, (size_t)count + 1);
  if (!*symbols) return base_no_memory(err, "a binding");
  for (uint32_t i = 0; i < count; i++) (*symbols)[i] = -1;
  for (uint32_t i = 0; i < plan_given_count(plan); i++)
    if (given[i].kind == BASE_TENSOR) TRY(bind_input(plan, i, &given[i].tensor, *symbols, err));
  for (uint32_t i = 0; i < plan_given_count(plan); i++)
    if (given[i].kind == BASE_TENSOR) TRY(solve_input(plan, i, &given[i].tensor, *symbols, err));
  return check_guards(plan, *symbols, err);
}

static bool has_sizes(const plan_exe *variant, const int64_t *symbols) {
  for (uint32_t i = 0; i < variant->sizes.count; i++)
    if (symbols[variant->sizes.at[i].symbol] != variant->sizes.at[i].value) return false;
  return true;
}

td_status plan_choose_variant(const plan_exe *plan, const base_value *given, base_arena *arena, uint32_t *number,
                              td_error *err) {
  int64_t *symbols;
  *number = 0;
  if (!plan->here.variants.count) return TD_OK;
  TRY(solve_sizes(plan, given, arena, &symbols, err));
  for (uint32_t i = plan->here.variants.count; i > 0; i--)
    if (has_sizes(plan->here.variants.at[i - 1], symbols)) *number = i;
  return TD_OK;
}

td_status plan_bind(const plan_exe *plan, const base_value *given, plan_means means, base_arena *arena, plan_binding *b,
                    td_error *err) {
  const uint32_t slots = plan->slots.count;
  int64_t *symbols;
  size_t *bytes = base_new(arena, size_t, (size_t)slots + 1);
  *b = (plan_binding){.tensors = base_new(arena, base_tensor, (size_t)slots + 1),
                      .offsets = base_new(arena, size_t, (size_t)slots + 1)};
  if (!bytes || !b->tensors || !b->offsets) return base_no_memory(err, "a binding");
  TRY(solve_sizes(plan, given, arena, &symbols, err));
  for (uint32_t i = 0; i < slots; i++) {
    uint32_t place = plan->slots.at[i].place;
    if (place == PLAN_CONST || place == PLAN_ARENA || (place == PLAN_VIEW && plan->slots.at[i].rank >= 0))
      TRY(bind_slot(plan, i, symbols, &b->tensors[i], &bytes[i], err));
  }
  TRY(plan_find_parts(plan, symbols, bytes, means, arena, b, err));
  return place_slots(plan, bytes, means.threads, arena, b, err);
}
