/* merge_linear.c -- the products that give an attention its queries, keys and values from one input become one:
 *
 *     attention(views of linear(x, Wq), views of linear(x, Wk), views of linear(x, Wv))
 *  -> y = linear(x, [Wq Wk Wv]), attention(views of slice(y), ...)
 *
 * One product of three times the width has fewer steps and longer rows of tasks, and attention reads its parts at
 * strides. The weights are packed on the way (kernels/products/pack.h), straight from where they lie: panels of one
 * product stand behind those of the other. What scales and shifts a part alone goes into its weights and bias. Of 16
 * bits weights stay separate: prepack makes them so from f32.
 *
 * Requires: a verified graph; parts used by this attention alone, through views of any strides; features in whole
 * panels; before prepack. Keeps: types. Breaks: bit equality where a scale is folded. */
#include "kernels/kernels.h"
#include "kernels/products/products.h"
#include "passes/passes_priv.h"

#include <string.h>

enum { MAX_PARTS = 3 };

/* Filling the panels of one part. */
typedef struct job {
  const kern_packing *by;
  kern_matrix w;
  const base_f32 *scale; /* of n; NULL: none */
  float *to;
  int64_t panel;
} job;

typedef struct merging {
  BASE_VEC(uint32_t) place; /* by node id: when it was visited */
  uint32_t visited;
  BASE_VEC(job) jobs;
} merging;

/* Products with one input, in the order of q, k and v. */
typedef struct group {
  ir_node node[MAX_PARTS];
  uint32_t count, first; /* first: which of them stands first */
  int64_t k, n[MAX_PARTS], width;
} group;

static const base_f32 *vector(const passes_edit *e, const ir_node_def *node, uint32_t i) {
  const base_tensor *t = passes_constant(e, node, i);
  return t && t->dtype == TD_F32 && t->rank == 1 && base_tensor_contiguous(t) ? t->data : NULL;
}

/* A product whose parts of an epilogue can all be put into weights and bias. */
static bool is_plain(const passes_edit *e, const ir_node_def *node, int64_t panel) {
  const base_tensor *w = passes_constant(e, node, 1);
  if (!w || w->dtype != TD_F32 || w->rank != 2 || passes_int(node, "panel") != 0) return false;
  if (strcmp(passes_str(node, "act"), "none") != 0 || passes_half_of(w) != TD_F32) return false;
  for (uint32_t i = KERN_IN_BIAS; i < node->in_count; i++)
    if (node->in[i].id && (i == KERN_IN_RESIDUAL || !vector(e, node, i))) return false;
  int64_t n = passes_int(node, "n");
  return n > 0 && n % panel == 0 && base_tensor_numel(w) > 0;
}

/* The product that operand `v` of an attention shows, through views that nobody else uses; none. */
static ir_node find_product(passes_edit *e, ir_value v, int64_t panel) {
  for (;;) {
    ir_node made_by = ir_value_of(e->graph, v)->node;
    if (!made_by.id || passes_uses(e, v) != 1) return (ir_node){0};
    ir_refresh(e->graph, made_by);
    const ir_node_def *node = ir_node_of(e->graph, made_by);
    if (!node->op) return (ir_node){0};
    if (node->op->id == OP_td_linear) return is_plain(e, node, panel) ? made_by : (ir_node){0};
    if (!(node->op->flags & IR_OP_VIEW) || node->out_count != 1) return (ir_node){0};
    v = node->in[0];
  }
}

/* The products behind q, k and v that share the input of the `from`-th. */
static void read_group(passes_edit *e, const ir_node *parts, uint32_t from, group *g) {
  const merging *m = e->user;
  *g = (group){0};
  for (uint32_t i = from; i < MAX_PARTS && parts[from].id; i++) {
    if (!parts[i].id) continue;
    const ir_node_def *node = ir_node_of(e->graph, parts[i]), *first = ir_node_of(e->graph, parts[from]);
    if (node->in[0].id != first->in[0].id || node->parent.id != first->parent.id) continue;
    uint32_t at = g->count++;
    g->node[at] = parts[i];
    g->n[at] = passes_int(node, "n");
    g->k = passes_constant(e, node, 1)->dims[passes_int(node, "trans_w") ? 1 : 0];
    g->width += g->n[at];
    if (m->place.at[parts[i].id] < m->place.at[g->node[g->first].id]) g->first = at;
  }
}

/* One bias for all, in *bias; none where no part adds anything. */
static td_status join_bias(passes_edit *e, const group *g, ir_value *bias) {
  float *to = base_new(e->graph->arena, float, (size_t)g->width + 1), *at = to;
  bool any = false;
  if (!to) return base_no_memory(e->err, "a bias");
  for (uint32_t i = 0; i < g->count; at += g->n[i++]) {
    const ir_node_def *node = ir_node_of(e->graph, g->node[i]);
    const base_f32 *b = vector(e, node, KERN_IN_BIAS), *scale = vector(e, node, KERN_IN_SCALE),
                   *shift = vector(e, node, KERN_IN_SHIFT);
    for (int64_t k = 0; k < g->n[i]; k++) at[k] = (b ? b[k] : 0) * (scale ? scale[k] : 1) + (shift ? shift[k] : 0);
    any = any || b || shift;
  }
  base_tensor t = base_tensor_of(to, TD_F32, 1, &g->width);
  return any ? ir_add_constant(e->graph, &t, NULL, bias, e->err) : TD_OK;
}

/* One matrix of panels for all: a constant now, filled at the end. */
static td_status join_weights(passes_edit *e, const group *g, int64_t panel, ir_value *weights) {
  merging *m = e->user;
  size_t count;
  float *to = NULL;
  if (kern_pack_count(g->k, g->width, panel, &count) && count <= INT64_MAX / sizeof *to)
    to = base_arena_alloc_uncleared(e->graph->constants, count * sizeof *to, 64);
  if (!to) return base_no_memory(e->err, "packed weights");
  int64_t length = (int64_t)count, done = 0;
  for (uint32_t i = 0; i < g->count; done += g->n[i++]) {
    const ir_node_def *node = ir_node_of(e->graph, g->node[i]);
    const base_tensor *w = passes_constant(e, node, 1);
    bool transposed = passes_int(node, "trans_w");
    job *j = base_vec_push(e->scratch, &m->jobs);
    if (!j) return base_no_memory(e->err, "packed weights");
    *j = (job){.by = kern_packing_of(e->setting->isa),
               .w = {w->data, g->k, g->n[i], w->strides[transposed], w->strides[!transposed]},
               .scale = vector(e, node, KERN_IN_SCALE),
               .to = to + done * g->k,
               .panel = panel};
  }
  base_tensor t = base_tensor_of(to, TD_F32, 1, &length);
  return ir_add_constant(e->graph, &t, NULL, weights, e->err);
}

/* Features [start, start + count) of `v`, in front of `at`. */
static td_status add_part(passes_edit *e, ir_node at, ir_value v, int64_t start, int64_t count, ir_value *out) {
  return passes_slice(e, at, v, ir_type_of(e->graph, v)->rank - 1, start, start + count, out);
}

static td_status merge(passes_edit *e, const group *g, int64_t panel) {
  const ir_node first = g->node[g->first];
  const ir_node_def node = *ir_node_of(e->graph, first);
  ir_value in[3] = {node.in[0]}, whole, part[MAX_PARTS];
  int64_t start = 0;
  TRY(join_weights(e, g, panel, &in[1]));
  TRY(join_bias(e, g, &in[2]));
  const base_arg args[] = {ARG_INT("n", g->width), ARG_INT("panel", panel)};
  const ir_new_node spec = {.in = in, .in_count = in[2].id ? 3 : 2, .args = args, .arg_count = 2};
  TRY(passes_add(e, first, OP_td_linear, spec, NULL, &whole));
  for (uint32_t i = 0; i < g->count; start += g->n[i++]) TRY(add_part(e, first, whole, start, g->n[i], &part[i]));
  for (uint32_t i = 0; i < g->count; i++) TRY(passes_take_place(e, g->node[i], part[i]));
  return TD_OK;
}

static td_status visit(passes_edit *e, ir_node id) {
  merging *m = e->user;
  while (m->place.count <= id.id) {
    uint32_t *slot = base_vec_push(e->scratch, &m->place);
    if (!slot) return base_no_memory(e->err, "a pass");
    *slot = 0;
  }
  m->place.at[id.id] = m->visited++;
  const ir_node_def node = *ir_node_of(e->graph, id);
  const kern_row *row = kern_select(KERN_LINEAR, TD_F32, e->setting->isa);
  if (node.op->id != OP_td_attention || !row) return TD_OK;
  ir_node parts[MAX_PARTS];
  for (uint32_t i = 0; i < MAX_PARTS; i++) {
    parts[i] = find_product(e, node.in[i], row->lanes);
    if (parts[i].id >= m->place.count) parts[i].id = 0; /* not visited: of a block that comes later */
  }
  group g;
  read_group(e, parts, 0, &g);
  if (g.count < 2) read_group(e, parts, 1, &g);
  return g.count < 2 ? TD_OK : merge(e, &g, row->lanes);
}

static void do_job(void *jobs, uint32_t i) {
  const job *j = &((job *)jobs)[i];
  j->by->matrix(j->to, &j->w, j->scale, j->panel, 0, j->w.n / j->panel);
}

static td_status finish(passes_edit *e) {
  const merging *m = e->user;
  passes_share(e->setting, m->jobs.count, do_job, m->jobs.at);
  return TD_OK;
}

td_status passes_merge_linear(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  merging m = {.visited = 0};
  passes_edit e = {.graph = graph, .setting = setting, .changes = changes, .err = err, .user = &m};
  const bool halves = setting->precision == KERN_PRECISION_BF16 || setting->precision == KERN_PRECISION_F16;
  return halves ? TD_OK : passes_walk(&e, visit, finish);
}
