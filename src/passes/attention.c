/* attention.c -- attention in the spellings of exporters becomes td::attention over tokens:
 *
 *     p = softmax(scale (q x k^T) + masks) x v        q [batch, heads, rows, size], k^T [batch, heads, size, keys]
 *     p^T = v^T x (softmax ...)^T
 *     p = scaled_dot_product_attention(q, k, v, mask)
 *  -> p = permute(td::attention(tokens(q), tokens(k), tokens(v), mask))      tokens [batch, rows, heads, size]
 *
 * Numbers that q, k or the scores are multiplied or divided by make up the scale, masks are added or chosen by where;
 * what is one number a row of scores goes into q. Further leading axes may stand there where all but two have one
 * element; what is done to scores may see them with more or fewer such axes.
 * Up to two masks stay separate, where their sum would be larger than either; constant ones are transposed
 * (attention_mask.c). What where() puts in the place of scores stands in their place here, too: a hidden score that is
 * no number stays hidden.
 * Tokens are the operands' own sources seen at strides: views that split axes or move those of one element are retold
 * by operators that take any strides, and transpositions cancel. Masks that only repeat rows are stripped to views.
 *
 * Requires: a verified graph; f32; scores used here alone. Keeps: types; what is finite. Breaks: bit equality. */
#include "passes/passes_priv.h"

#include <math.h>
#include <string.h>

enum { MAX_SHOWN = 64, MAX_CHAIN = 12, MASKS = 2, FIRST_MASK = 3, OPERANDS = FIRST_MASK + MASKS };

/* What stands for a value of a chain of views: `to` times factor, at any strides. */
typedef struct shown {
  ir_value from, to;
  double factor;
} shown;

/* One attention while it is rewritten. */
typedef struct site {
  passes_edit *e;
  ir_node at;
  ir_value q, k_transposed, v; /* as they stand; ranks 3 and up */
  int64_t lone[BASE_MAX_RANK]; /* leading axes of one element that go, where there are more than two */
  uint32_t lone_count;
  ir_value views[MAX_CHAIN]; /* of scores on their way to the softmax, that move axes of one element; the last first */
  uint32_t view_count;
  ir_value masks[MASKS]; /* or none; the first is met first, and so applied last */
  bool replaces[MASKS];  /* the mask stands in the place of scores where it is not 0 */
  ir_value row_scale;    /* of each row of scores besides; or none */
  double scale, softcap;
  bool causal;
  int64_t safe;          /* KERN_ATTENTION_...: rows that are no numbers */
  bool transposed;       /* values and result stand [.., size, keys] and [.., size, rows] */
  shown seen[MAX_SHOWN]; /* chains of q, k and v meet */
  uint32_t seen_count;
} site;

/* ---- small things ---- */

static bool is_f32(const passes_edit *e, ir_value v) {
  const ir_type *t = ir_type_of(e->graph, v);
  return t->kind == IR_TENSOR && t->dtype == TD_F32 && t->rank >= 0;
}

static bool same_type(const passes_edit *e, ir_value a, ir_value b) {
  return ir_type_equal(ir_type_of(e->graph, a), ir_type_of(e->graph, b));
}

static td_status add(site *s, ir_op_id op, const ir_value *in, uint32_t in_count, const base_arg *args,
                     uint32_t arg_count, ir_value *out) {
  const ir_new_node spec = {.in = in, .in_count = in_count, .args = args, .arg_count = arg_count};
  ir_value made; /* `out` may be an operand */
  TRY(passes_add(s->e, s->at, op, spec, NULL, &made));
  *out = made;
  return TD_OK;
}

/* op(v, ints) */
static td_status add_ints(site *s, ir_op_id op, ir_value v, const int64_t *ints, uint32_t count, ir_value *out) {
  ir_value in[2] = {v};
  if (count == 0) return *out = v, TD_OK;
  TRY(ir_add_ints(s->e->graph, ints, count, &in[1], s->e->err));
  return add(s, op, in, 2, NULL, 0, out);
}

/* permute(v, order), or what it comes to where v is permuted already. */
static td_status add_permute(site *s, ir_value v, const int64_t *order, int32_t rank, ir_value *out) {
  int64_t inner[BASE_MAX_RANK], joined[BASE_MAX_RANK];
  const ir_node_def *node = passes_producer(s->e, v, OP_aten_permute);
  bool composed = node && passes_order(node, rank, inner), identity = true;
  for (int32_t i = 0; i < rank; i++) {
    joined[i] = composed ? inner[order[i]] : order[i];
    identity = identity && joined[i] == i;
  }
  *out = composed ? node->in[0] : v;
  if (identity) return TD_OK;
  return add(s, OP_aten_permute, out, 1, (base_arg[]){ARG_INTS("dims", joined, rank)}, 1, out);
}

/* The operand of a multiplication or division by a number, which goes to *factor; none: v is no such thing. */
static ir_value unscaled(passes_edit *e, ir_value v, double *factor) {
  double number;
  const ir_node_def *node = passes_producer(e, v, OP_aten_mul);
  for (uint32_t i = 0; node && i < 2; i++)
    if (passes_number(e, node->in[i], &number) && same_type(e, v, node->in[1 - i])) {
      *factor *= number;
      return node->in[1 - i];
    }
  node = passes_producer(e, v, OP_aten_div);
  if (!node || !passes_number(e, node->in[1], &number) || number == 0 || !same_type(e, v, node->in[0]))
    return IR_NO_VALUE;
  if (*passes_str(node, "rounding_mode")) return IR_NO_VALUE;
  *factor /= number;
  return node->in[0];
}

/* The operand of a multiplication by what is one number a row, which goes to *scale; none: v is no such thing. */
static ir_value row_unscaled(passes_edit *e, ir_value v, ir_value *scale) {
  const ir_node_def *node = passes_producer(e, v, OP_aten_mul);
  for (uint32_t i = 0; node && i < 2; i++) {
    const ir_type *t = ir_type_of(e->graph, node->in[i]);
    if (t->rank < 1 || t->dims[t->rank - 1] != 1 || !same_type(e, v, node->in[1 - i])) continue;
    *scale = node->in[i];
    return node->in[1 - i];
  }
  return IR_NO_VALUE;
}

/* ---- operands at strides ---- */

/* How a view regroups axes: axes of one element go, one axis in `split` parts, axes of one element come. */
typedef struct regroup {
  int64_t gone[BASE_MAX_RANK], come[BASE_MAX_RANK];
  uint32_t gone_count, come_count;
  struct {
    int64_t axis, sizes[BASE_MAX_RANK]; /* axis of what is left when the first are gone */
    uint32_t count;
  } split[BASE_MAX_RANK];
  uint32_t split_count;
} regroup;

/* False: the view does something else. */
static bool read_regroup(const ir_type *from, const ir_type *to, regroup *r) {
  int32_t i = 0, j = 0;
  int64_t axis = 0;
  *r = (regroup){0};
  if (from->rank < 0 || to->rank < 0) return false;
  while (i < from->rank || j < to->rank) {
    if (i < from->rank && j < to->rank && from->dims[i] == to->dims[j]) {
      i++, j++, axis++;
    } else if (i < from->rank && from->dims[i] == 1) {
      r->gone[r->gone_count++] = i++;
    } else if (j < to->rank && to->dims[j] == 1) {
      r->come[r->come_count++] = j++;
    } else if (i == from->rank || j == to->rank) {
      return false;
    } else {
      base_dim whole = from->dims[i++], product = 1;
      uint32_t n = r->split_count++;
      r->split[n].axis = axis++;
      r->split[n].count = 0;
      while (j < to->rank && base_dim_known(whole) && product < whole) {
        base_dim size = to->dims[j];
        if (size == 1) r->come[r->come_count++] = j++;
        else if (!base_dim_known(size) || size < 1 || whole / product % size != 0) return false;
        else product *= r->split[n].sizes[r->split[n].count++] = to->dims[j++];
      }
      if (!base_dim_known(whole) || product != whole) return false;
    }
  }
  return true;
}

static td_status add_regroup(site *s, ir_value v, const regroup *r, ir_value *out) {
  TRY(add_ints(s, OP_aten_squeeze, v, r->gone, r->gone_count, &v));
  for (uint32_t i = r->split_count; i-- > 0;) {
    const base_arg args[] = {ARG_INT("dim", r->split[i].axis), ARG_INTS("sizes", r->split[i].sizes, r->split[i].count)};
    TRY(add(s, OP_aten_unflatten, &v, 1, args, 2, &v));
  }
  return add_ints(s, OP_aten_unsqueeze, v, r->come, r->come_count, out);
}

/* index_select by one constant index, which takes the axis away. */
static td_status add_pick(site *s, const ir_node_def *node, ir_value v, bool *done, ir_value *out) {
  const ir_type *t = ir_type_of(s->e->graph, v);
  const base_tensor *index = passes_constant(s->e, node, 1);
  int64_t dim = passes_int(node, "dim"), axis = dim < 0 ? dim + t->rank : dim;
  *done = index && index->rank == 0 && base_dim_known(t->dims[axis]);
  if (!*done) return TD_OK;
  int64_t at = base_load_i64(index->dtype, index->data, 0), first = at < 0 ? at + t->dims[axis] : at;
  *done = first >= 0 && first < t->dims[axis];
  if (!*done) return TD_OK;
  TRY(passes_slice(s->e, s->at, v, axis, first, first + 1, &v));
  return add_ints(s, OP_aten_squeeze, v, &axis, 1, out);
}

static td_status show(site *s, ir_value v, double *factor, uint32_t depth, ir_value *out);

/* The node again, on what shows its operand. *done: it is a view that any strides allow. */
static td_status show_node(site *s, ir_value v, ir_value source, bool *done, ir_value *out) {
  ir_graph *g = s->e->graph;
  const ir_node_def node = *ir_node_of(g, ir_value_of(g, v)->node);
  const uint16_t op = node.op->id;
  int64_t order[BASE_MAX_RANK];
  int32_t rank = ir_type_of(g, v)->rank;
  regroup r;
  *done = true;
  if (op == OP_aten_permute && passes_order(&node, rank, order)) return add_permute(s, source, order, rank, out);
  if (op == OP_aten_view) {
    *done = read_regroup(ir_type_of(g, source), ir_type_of(g, v), &r);
    return *done ? add_regroup(s, source, &r, out) : TD_OK;
  }
  if (op == OP_aten_index_select) return add_pick(s, &node, source, done, out);
  *done = node.op->flags & IR_OP_VIEW && node.out_count == 1;
  if (!*done || source.id == node.in[0].id) return *out = v, TD_OK;
  base_arg args[IR_NODE_ARGS];
  ir_value in[8] = {source};
  *done = node.in_count <= 8;
  for (uint32_t i = 1; *done && i < node.in_count; i++) in[i] = node.in[i];
  return *done ? add(s, op, in, node.in_count, args, ir_node_args(&node, args), out) : TD_OK;
}

static td_status show_source(site *s, ir_value v, double *factor, uint32_t depth, ir_value *out) {
  ir_graph *g = s->e->graph;
  ir_node made_by = ir_value_of(g, v)->node;
  ir_value source = factor ? unscaled(s->e, v, factor) : IR_NO_VALUE;
  *out = v;
  if (source.id) return show(s, source, factor, depth + 1, out);
  if (!made_by.id || depth == MAX_CHAIN || ir_type_of(g, v)->rank < 0) return TD_OK;
  ir_refresh(g, made_by);
  const ir_node_def *node = ir_node_of(g, made_by);
  bool view = node->op->flags & (IR_OP_VIEW | IR_OP_VIEW_DENSE), done;
  if (!view && node->op->id != OP_aten_index_select) return TD_OK;
  double own = 1;
  TRY(show(s, node->in[0], factor ? &own : NULL, depth + 1, &source));
  if (!same_type(s->e, source, ir_node_of(g, made_by)->in[0])) return TD_OK;
  TRY(show_node(s, v, source, &done, out));
  if (!done) *out = v;
  else if (factor) *factor *= own;
  return TD_OK;
}

/* What shows `v` without copies, as far as that goes; numbers that it is multiplied by on the way go to *factor (NULL:
 * they stay). */
static td_status show(site *s, ir_value v, double *factor, uint32_t depth, ir_value *out) {
  double own = 1;
  for (uint32_t i = 0; i < s->seen_count; i++)
    if (s->seen[i].from.id == v.id && (factor || s->seen[i].factor == 1)) {
      if (factor) *factor *= s->seen[i].factor;
      *out = s->seen[i].to;
      return TD_OK;
    }
  TRY(show_source(s, v, factor ? &own : NULL, depth, out));
  if (factor) *factor *= own;
  if (s->seen_count < MAX_SHOWN) s->seen[s->seen_count++] = (shown){v, *out, own};
  return TD_OK;
}

/* `v` with the axes of `order` over [batch, heads, rows, size], batch left out where v has rank 3, lone axes there. */
static td_status tokens(site *s, ir_value v, const int64_t *order, double *factor, ir_value *out) {
  const int64_t first = 0;
  TRY(show(s, v, factor, 0, &v));
  TRY(add_ints(s, OP_aten_squeeze, v, s->lone, s->lone_count, &v));
  if (ir_type_of(s->e->graph, v)->rank == 3) TRY(add_ints(s, OP_aten_unsqueeze, v, &first, 1, &v));
  return add_permute(s, v, order, 4, out);
}

/* Ends a site: what was retold on the way to something simpler goes. */
static td_status finish(site *s, ir_value out) {
  passes_edit *e = s->e;
  bool same = same_type(e, out, ir_node_of(e->graph, s->at)->out[0]);
  if (same) TRY(passes_take_place(e, s->at, out));
  for (uint32_t i = s->seen_count; i-- > 0;)
    if (s->seen[i].to.id != s->seen[i].from.id) passes_drop(e, s->seen[i].to);
  return TD_OK;
}

/* ---- the result ---- */

static const int64_t swap_heads[] = {0, 2, 1, 3}, from_keys_last[] = {0, 3, 1, 2}, to_rows_last[] = {0, 2, 3, 1};

static uint32_t mask_count(const site *s) {
  uint32_t count = 0;
  while (count < MASKS && s->masks[count].id) count++;
  return count;
}

static td_status attend(site *s, ir_value in[OPERANDS], ir_value *out) {
  const uint32_t masks = mask_count(s);
  int64_t replaces = 0;
  for (uint32_t i = 0; i < masks; i++) {
    const ir_value mask = s->masks[masks - 1 - i];
    ir_value *to = &in[FIRST_MASK + i];
    replaces |= (int64_t)s->replaces[masks - 1 - i] << i;
    TRY(passes_transpose_mask(s->e, s->at, mask, s->e->user, to));
    if (to->id != mask.id) passes_drop(s->e, mask);
  }
  const base_arg args[] = {ARG_FLOAT("scale", s->scale),  ARG_BOOL("causal", s->causal),    ARG_INT("safe", s->safe),
                           ARG_INT("replaces", replaces), ARG_FLOAT("softcap", s->softcap), ARG_BOOL("pairs", true)};
  const bool pairs = passes_precision(s->e, ir_node_of(s->e->graph, s->at)) == KERN_PRECISION_BF16 &&
                     passes_pairs_row(s->e->setting, KERN_ATTENTION);
  return add(s, OP_td_attention, in, FIRST_MASK + masks, args, pairs ? 6 : 5, out);
}

/* The mask over scores of `rank` axes without those that go. */
static td_status mask_without_lone(site *s, int32_t rank, ir_value *mask) {
  int64_t gone[BASE_MAX_RANK];
  uint32_t count = 0;
  const int32_t missing = rank - ir_type_of(s->e->graph, *mask)->rank; /* in front of the mask's axes */
  for (uint32_t i = 0; i < s->lone_count; i++)
    if (s->lone[i] >= missing) gone[count++] = s->lone[i] - missing;
  return add_ints(s, OP_aten_squeeze, *mask, gone, count, mask);
}

/* Puts td::attention in the place of the product of probabilities and values. */
static td_status rewrite(site *s) {
  passes_edit *e = s->e;
  ir_value old = ir_node_of(e->graph, s->at)->out[0], in[OPERANDS], out;
  const int64_t first = 0;
  if (s->row_scale.id) TRY(add(s, OP_aten_mul, (ir_value[]){s->q, s->row_scale}, 2, NULL, 0, &s->q));
  TRY(tokens(s, s->q, swap_heads, &s->scale, &in[0]));
  TRY(tokens(s, s->k_transposed, from_keys_last, &s->scale, &in[1]));
  TRY(tokens(s, s->v, s->transposed ? from_keys_last : swap_heads, NULL, &in[2]));
  for (int i = 0; i < MASKS && s->masks[i].id; i++)
    TRY(mask_without_lone(s, ir_type_of(e->graph, old)->rank, &s->masks[i]));
  TRY(attend(s, in, &out));
  TRY(add_permute(s, out, s->transposed ? to_rows_last : swap_heads, 4, &out));
  if (ir_type_of(e->graph, old)->rank == 3) TRY(add_ints(s, OP_aten_squeeze, out, &first, 1, &out));
  TRY(add_ints(s, OP_aten_unsqueeze, out, s->lone, s->lone_count, &out));
  return finish(s, out);
}

/* ---- masks ---- */

/* Only axes of one element go and come. */
static bool moves_lone(const ir_graph *g, ir_value from, ir_value to, regroup *r) {
  return read_regroup(ir_type_of(g, from), ir_type_of(g, to), r) && r->split_count == 0;
}

/* The first axis of four becomes two: 1; the first two of five become one: -1; else 0. So a sample becomes a window of
 * an image, and back. */
static int moves_samples(const ir_graph *g, ir_value from, ir_value to) {
  const ir_type *x = ir_type_of(g, from), *y = ir_type_of(g, to);
  enum { SAMPLES = 4, IMAGES = 5 };
  if (base_min_i64(x->rank, y->rank) != SAMPLES || base_max_i64(x->rank, y->rank) != IMAGES) return 0;
  for (int32_t i = 1; i < SAMPLES; i++)
    if (x->dims[x->rank - i] != y->dims[y->rank - i]) return 0;
  return y->rank - x->rank;
}

static bool moves_leading(const ir_graph *g, ir_value from, ir_value to) {
  regroup r;
  return moves_lone(g, from, to, &r) || moves_samples(g, from, to);
}

/* What broadcasts to the scores in front of all views as what broadcasts to them behind, or is repeated there along the
 * first axis. False: there is no such thing. */
static td_status through_views(site *s, ir_value mask, ir_value *out, bool *passes) {
  const ir_graph *g = s->e->graph;
  *passes = true;
  for (uint32_t i = s->view_count; i-- > 0 && *passes;) {
    const ir_value from = ir_node_of(g, ir_value_of(g, s->views[i])->node)->in[0];
    const int32_t rank = ir_type_of(g, from)->rank, own = ir_type_of(g, mask)->rank;
    int64_t first[BASE_MAX_RANK] = {0};
    regroup r;
    for (int32_t k = 0; k < rank - own; k++) first[k] = k;
    TRY(add_ints(s, OP_aten_unsqueeze, mask, first, (uint32_t)base_max_i64(rank - own, 0), &mask));
    if (moves_lone(g, from, s->views[i], &r)) {
      TRY(add_regroup(s, mask, &r, &mask));
      continue;
    }
    const uint16_t op = moves_samples(g, from, s->views[i]) > 0 ? OP_aten_unsqueeze : OP_aten_squeeze;
    first[0] = 0;
    *passes = ir_type_of(g, mask)->dims[0] == 1;
    if (*passes) TRY(add_ints(s, op, mask, first, 1, &mask));
  }
  return *out = mask, TD_OK;
}

/* Are these masks that are better added once than at each use? */
static bool small_sum(const site *s, ir_value a, ir_value b) {
  const ir_type *x = ir_type_of(s->e->graph, a), *y = ir_type_of(s->e->graph, b);
  return ir_type_equal(x, y) || ir_known_count(x) == 1 || ir_known_count(y) == 1;
}

/* The mask that `mask` becomes one with, or the first place for another; MASKS: there is none. One that replaces scores
 * changes places with no other. */
static uint32_t place_for(const site *s, ir_value mask, bool replaces) {
  const uint32_t count = mask_count(s);
  for (uint32_t i = 0; i < count; i++) {
    const bool last = i + 1 == count, ordered = replaces || s->replaces[0] || s->replaces[MASKS - 1];
    if (s->replaces[i] != replaces || (ordered && !last)) continue;
    if (i == MASKS - 1 || small_sum(s, s->masks[i], mask)) return i;
  }
  return count;
}

/* Where the outer mask is 0, the inner one. */
static td_status merge_choices(site *s, ir_value outer, ir_value inner, ir_value *out) {
  ir_value in[3], zero;
  TRY(ir_add_scalar(s->e->graph, TD_F32, 0, &zero, s->e->err));
  TRY(add(s, OP_aten_eq, (ir_value[]){outer, zero}, 2, NULL, 0, &in[0]));
  in[1] = inner, in[2] = outer;
  return add(s, OP_aten_where, in, 3, NULL, 0, out);
}

/* Do both have a mask for each sample, or one for all? */
static bool same_samples(const site *s, ir_value a, ir_value b) {
  const ir_type *x = ir_type_of(s->e->graph, a), *y = ir_type_of(s->e->graph, b);
  return x->rank < 4 || y->rank < 4 || x->dims[0] == 1 || y->dims[0] == 1 || x->dims[0] == y->dims[0];
}

/* mask times factor, under the masks so far. False: there are too many to keep in order. */
static td_status add_mask(site *s, ir_value mask, double factor, bool replaces, bool *fits) {
  TRY(through_views(s, mask, &mask, fits));
  ir_value in[2] = {mask};
  const uint32_t at = place_for(s, mask, replaces);
  *fits = *fits && at < MASKS && (!s->masks[at].id || same_samples(s, s->masks[at], mask));
  if (!*fits) return passes_drop(s->e, mask), TD_OK;
  if (factor != 1) {
    TRY(ir_add_scalar(s->e->graph, TD_F32, factor, &in[1], s->e->err));
    TRY(add(s, OP_aten_mul, in, 2, NULL, 0, &mask));
  }
  s->replaces[at] = replaces;
  if (!s->masks[at].id) return s->masks[at] = mask, TD_OK;
  if (replaces) return merge_choices(s, s->masks[at], mask, &s->masks[at]);
  in[0] = s->masks[at], in[1] = mask;
  return add(s, OP_aten_add, in, 2, NULL, 0, &s->masks[at]);
}

/* where(condition, 0, hidden); `where_true`: where(condition, hidden, 0). */
static td_status choose_hidden(site *s, ir_value condition, ir_value hidden, bool where_true, ir_value *mask) {
  ir_value in[3] = {condition};
  TRY(ir_add_scalar(s->e->graph, TD_F32, 0, &in[where_true ? 2 : 1], s->e->err));
  in[where_true ? 1 : 2] = hidden;
  return add(s, OP_aten_where, in, 3, NULL, 0, mask);
}

/* A number so low that what it stands for takes no part in a softmax. */
static bool hides(const passes_edit *e, ir_value v) {
  double number;
  return passes_number(e, v, &number) && number <= -1e4;
}

/* ---- scores ---- */

/* Which operand of `node` the scores go on with: the one that is a chain of such nodes down to a product. */
static bool leads_to_product(passes_edit *e, ir_value v, const ir_type *type, uint32_t depth) {
  if (depth == MAX_CHAIN || passes_uses(e, v) != 1 || !ir_type_equal(ir_type_of(e->graph, v), type)) return false;
  const ir_node_def *node = passes_producer(e, v, OP_aten_matmul);
  if (node) return !passes_constant(e, node, 1);
  double factor = 1;
  ir_value unused;
  ir_value source = unscaled(e, v, &factor);
  if (!source.id) source = row_unscaled(e, v, &unused);
  if (source.id) return leads_to_product(e, source, type, depth + 1);
  if ((node = passes_producer(e, v, OP_aten_view)) && moves_leading(e->graph, node->in[0], v))
    return leads_to_product(e, node->in[0], ir_type_of(e->graph, node->in[0]), depth + 1);
  if ((node = passes_producer(e, v, OP_aten_add)))
    return leads_to_product(e, node->in[0], type, depth + 1) || leads_to_product(e, node->in[1], type, depth + 1);
  if ((node = passes_producer(e, v, OP_aten_where)))
    return leads_to_product(e, node->in[1], type, depth + 1) || leads_to_product(e, node->in[2], type, depth + 1);
  return false;
}

/* Follows the scores up to the product of queries and keys, and gathers what is done to them on the way. */
static td_status read_scores(site *s, ir_value v, bool *matches) {
  passes_edit *e = s->e;
  ir_type type = *ir_type_of(e->graph, v);
  *matches = leads_to_product(e, v, &type, 0);
  while (*matches) {
    ir_value source = unscaled(e, v, &s->scale);
    const ir_node_def *node = passes_producer(e, v, OP_aten_matmul);
    if (node) {
      s->q = node->in[0], s->k_transposed = node->in[1];
      return TD_OK;
    }
    const double factor = s->scale; /* of all that was met before */
    ir_value row_scale;
    if (source.id) {
      v = source;
    } else if ((source = row_unscaled(e, v, &row_scale)).id) {
      v = source;
      *matches = is_f32(e, row_scale) && !s->row_scale.id;
      if (*matches) TRY(through_views(s, row_scale, &s->row_scale, matches));
    } else if ((node = passes_producer(e, v, OP_aten_view))) {
      s->views[s->view_count++] = v;
      v = node->in[0];
      type = *ir_type_of(e->graph, v);
    } else if ((node = passes_producer(e, v, OP_aten_add))) {
      uint32_t side = leads_to_product(e, node->in[0], &type, 0) ? 0 : 1;
      v = node->in[side];
      ir_value mask = node->in[1 - side];
      *matches = is_f32(e, mask) && !s->row_scale.id;
      if (*matches) TRY(add_mask(s, mask, factor, false, matches));
    } else if ((node = passes_producer(e, v, OP_aten_where))) {
      uint32_t side = leads_to_product(e, node->in[1], &type, 0) ? 1 : 2;
      v = node->in[side];
      ir_value condition = node->in[0], hidden = node->in[3 - side], mask;
      *matches = hides(e, hidden) && factor > 0 && !s->row_scale.id;
      if (!*matches) break;
      TRY(choose_hidden(s, condition, hidden, side == 2, &mask));
      TRY(add_mask(s, mask, factor, true, matches));
    } else {
      *matches = false;
    }
  }
  return TD_OK;
}

/* The softmax over the last axis under `v`, which may guard itself against rows of what is no number: *safe. */
static const ir_node_def *find_softmax(passes_edit *e, ir_value v, int64_t *safe) {
  double number;
  const ir_node_def *guard = passes_only_producer(e, v, OP_aten_where);
  uint32_t uses = 1;
  *safe = KERN_ATTENTION_PLAIN;
  if (guard && passes_number(e, guard->in[1], &number) && number == 0) {
    ir_value inner = guard->in[2];
    const ir_node_def *test = passes_producer(e, guard->in[0], OP_aten_isnan);
    if (!test || test->in[0].id != inner.id) return NULL;
    v = inner, uses = 2;
    *safe = KERN_ATTENTION_GUARDED;
  }
  const ir_node_def *softmax = passes_uses(e, v) == uses ? passes_producer(e, v, OP_aten__softmax) : NULL;
  if (!softmax || !is_f32(e, v)) return NULL;
  int64_t dim = passes_int(softmax, "dim"), rank = ir_type_of(e->graph, v)->rank;
  return dim == -1 || dim == rank - 1 ? softmax : NULL;
}

/* Leading axes of one element, as many as there are more than two. False: there are fewer. */
static bool find_lone(site *s, const ir_type *p) {
  const ir_value operands[] = {s->q, s->k_transposed, s->v};
  for (int32_t i = 0; i < p->rank - 2 && (int32_t)s->lone_count < p->rank - 4; i++) {
    bool lone = p->dims[i] == 1;
    for (uint32_t k = 0; k < 3; k++) lone &= ir_type_of(s->e->graph, operands[k])->dims[i] == 1;
    if (lone) s->lone[s->lone_count++] = i;
  }
  return p->rank <= 4 || (int32_t)s->lone_count == p->rank - 4;
}

/* Ranks, types and leading sizes allow for tokens; keys may have one head for all. */
static bool fits(site *s, ir_value probabilities) {
  const ir_graph *g = s->e->graph;
  const ir_type *p = ir_type_of(g, probabilities), *q = ir_type_of(g, s->q), *k = ir_type_of(g, s->k_transposed),
                *v = ir_type_of(g, s->v);
  if (!is_f32(s->e, s->q) || !is_f32(s->e, s->k_transposed) || !is_f32(s->e, s->v)) return false;
  for (int i = 0; i < MASKS && s->masks[i].id; i++) {
    const ir_type *mask = ir_type_of(g, s->masks[i]);
    if (mask->dtype != TD_F32 || mask->rank < 0 || mask->rank > base_max_i64(p->rank, 4)) return false;
  }
  if (s->row_scale.id && !same_samples(s, s->row_scale, s->q)) return false;
  if (p->rank < 3 || q->rank != p->rank || k->rank != p->rank || v->rank != p->rank || !find_lone(s, p)) return false;
  const int32_t rows = p->rank - 2;
  for (int32_t i = 0; i < rows; i++) {
    bool shared = i == rows - 1 && p->rank > 3 && k->dims[i] == 1;
    if (q->dims[i] != p->dims[i] || k->dims[i] != v->dims[i] || (k->dims[i] != p->dims[i] && !shared)) return false;
  }
  return q->dims[rows] == p->dims[rows] && k->dims[rows + 1] == v->dims[rows + s->transposed];
}

/* What v shows with its last two axes transposed, which nobody else reads; none: v is no such thing. */
static ir_value transposed_source(passes_edit *e, ir_value v) {
  int64_t order[BASE_MAX_RANK];
  const ir_node_def *node = passes_only_producer(e, v, OP_aten_permute);
  const int32_t rank = node ? ir_type_of(e->graph, v)->rank : 0;
  if (rank < 3 || !passes_order(node, rank, order)) return IR_NO_VALUE;
  for (int32_t i = 0; i < rank - 2; i++)
    if (order[i] != i) return IR_NO_VALUE;
  return order[rank - 1] == rank - 2 ? node->in[0] : IR_NO_VALUE;
}

/* probabilities x v, or v^T x probabilities^T. */
static td_status visit_product(passes_edit *e, ir_node id, const ir_node_def *node) {
  site s = {.e = e, .at = id, .v = node->in[1], .scale = 1};
  ir_value probabilities = node->in[0];
  const ir_node_def *softmax = find_softmax(e, probabilities, &s.safe);
  bool matches;
  if (!softmax) {
    s.transposed = true;
    s.v = probabilities;
    probabilities = transposed_source(e, node->in[1]);
    softmax = probabilities.id ? find_softmax(e, probabilities, &s.safe) : NULL;
  }
  if (!softmax) return TD_OK;
  TRY(read_scores(&s, softmax->in[0], &matches));
  if (matches && fits(&s, probabilities)) return rewrite(&s);
  for (uint32_t i = 0; i < mask_count(&s); i++) passes_drop(e, s.masks[i]); /* what was made of them */
  return TD_OK;
}

/* ---- aten::scaled_dot_product_attention ---- */

enum { SDPA_MASK = 3, SDPA_PAST = 4 };

/* [batch, rows, heads * size] split into heads; [batch, heads, rows, size] transposed. */
static td_status split_heads(site *s, ir_value v, int64_t heads, double *factor, ir_value *out) {
  const ir_type *t = ir_type_of(s->e->graph, v);
  if (t->rank == 4) return tokens(s, v, swap_heads, factor, out);
  const int64_t sizes[] = {heads, t->dims[2] / heads};
  TRY(show(s, v, factor, 0, &v));
  return add(s, OP_aten_unflatten, &v, 1, (base_arg[]){ARG_INT("dim", 2), ARG_INTS("sizes", sizes, 2)}, 2, out);
}

static bool plain_sdpa(const passes_edit *e, const ir_node_def *node) {
  for (uint32_t i = 1; i < node->out_count; i++)
    if (passes_uses(e, node->out[i])) return false;
  for (uint32_t i = SDPA_PAST; i < node->in_count; i++)
    if (node->in[i].id) return false;
  for (uint32_t i = 0; i < 3; i++) {
    const ir_type *t = ir_type_of(e->graph, node->in[i]);
    int64_t heads = passes_int(node, i ? "kv_heads" : "heads");
    if (!is_f32(e, node->in[i]) || (t->rank != 3 && t->rank != 4) || t->rank != ir_type_of(e->graph, node->in[0])->rank)
      return false;
    if (t->rank == 3 && (heads < 1 || !base_dim_known(t->dims[2]) || t->dims[2] % heads != 0)) return false;
    if (!base_dim_known(t->dims[t->rank - 1]) || t->dims[t->rank - 1] == 0) return false;
  }
  return passes_int(node, "left_window") < 0 && passes_int(node, "right_window") < 0;
}

/* A mask that hides (bool) or adds, and has a column for every key. *fits: it can be had. */
static td_status read_sdpa_mask(site *s, ir_value mask, base_dim keys, bool *fits_keys) {
  const ir_type *t = mask.id ? ir_type_of(s->e->graph, mask) : NULL;
  *fits_keys = !t || (t->rank >= 1 && t->rank <= 4 && (t->dims[t->rank - 1] == keys || t->dims[t->rank - 1] == 1) &&
                      (t->dtype == TD_F32 || t->dtype == TD_BOOL));
  if (!t || !*fits_keys) return TD_OK;
  if (t->dtype == TD_F32) return s->masks[0] = mask, TD_OK;
  ir_value hidden;
  TRY(ir_add_scalar(s->e->graph, TD_F32, -INFINITY, &hidden, s->e->err));
  return choose_hidden(s, mask, hidden, false, &s->masks[0]); /* PyTorch adds it: what is no number shows */
}

static td_status visit_sdpa(passes_edit *e, ir_node id, const ir_node_def *def) {
  const ir_node_def node = *def;
  const int64_t heads = passes_int(&node, "heads"), kv_heads = passes_int(&node, "kv_heads");
  const ir_type *q = ir_type_of(e->graph, node.in[0]), *k = ir_type_of(e->graph, node.in[1]);
  bool fits_keys;
  if (node.in_count < 3 || !plain_sdpa(e, &node)) return TD_OK;
  bool flat = q->rank == 3, given = base_attr_has(node.attrs, passes_attr(node.op, "scale"));
  int64_t size = flat ? q->dims[2] / heads : q->dims[3];
  if (size == 0) return TD_OK;
  site s = {.e = e,
            .at = id,
            .scale = given ? passes_float(&node, "scale") : 1 / sqrt((double)size),
            .softcap = passes_float(&node, "softcap"),
            .causal = passes_int(&node, "is_causal"),
            .safe = KERN_ATTENTION_SAFE};
  TRY(read_sdpa_mask(&s, node.in_count > SDPA_MASK ? node.in[SDPA_MASK] : IR_NO_VALUE, k->dims[k->rank - 2],
                     &fits_keys));
  if (!fits_keys) return TD_OK;
  ir_value in[OPERANDS] = {{0}}, out;
  TRY(split_heads(&s, node.in[0], heads, &s.scale, &in[0]));
  TRY(split_heads(&s, node.in[1], kv_heads, &s.scale, &in[1]));
  TRY(split_heads(&s, node.in[2], kv_heads, NULL, &in[2]));
  TRY(attend(&s, in, &out));
  if (flat) {
    const int64_t shape[] = {0, 0, -1};
    ir_value view[2] = {out};
    TRY(ir_add_ints(e->graph, shape, 3, &view[1], e->err));
    TRY(add(&s, OP_aten_view, view, 2, (base_arg[]){ARG_BOOL("zero_copies", true)}, 1, &out));
  } else {
    TRY(add_permute(&s, out, swap_heads, 4, &out));
  }
  return finish(&s, out);
}

static const passes_rule rules[] = {{OP_aten_matmul, visit_product},
                                    {OP_aten_scaled_dot_product_attention, visit_sdpa},
                                    {OP_aten_logical_and, passes_mask_and},
                                    {OP_aten_where, passes_mask_where}};

static td_status visit(passes_edit *e, ir_node id) {
  return passes_apply(e, id, rules, sizeof rules / sizeof *rules, NULL);
}

td_status passes_attention(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  passes_masks transposed = {0};
  passes_edit e = {.graph = graph, .setting = setting, .changes = changes, .err = err, .user = &transposed};
  return passes_walk(&e, visit, NULL);
}
