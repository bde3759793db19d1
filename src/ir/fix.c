/* fix.c -- a graph for particular sizes: symbols that inputs tell become numbers wherever they stand, or are less open
 * than they were, and what follows from that is inferred anew. */
#include "ir/graph_priv.h"

#include <string.h>

typedef struct fixing {
  ir_graph *g;
  base_dim *fixed; /* per expression of the graph's table, as it was: what it is now */
  bool *news;      /* per value: better known than before */
  bool contents;   /* infer contents that are not known, too */
  td_error *err;
} fixing;

static uint32_t find_symbol(const base_dims *dims, const char *name) {
  uint32_t i = 0;
  while (i < dims->symbols.count && (dims->symbols.at[i].from_data || strcmp(dims->symbols.at[i].name, name) != 0)) i++;
  return i;
}

/* What `d` has become; BASE_DIM_NONE: there is no such size. */
static base_dim fix_dim(const fixing *f, base_dim d) {
  return base_dim_known(d) || d == BASE_DIM_NONE ? d : f->fixed[d - (BASE_DIM_NONE + 1)];
}

static td_status fix_type(const fixing *f, ir_type *type, bool *news) {
  for (int32_t i = 0; type->kind == IR_TENSOR && i < type->rank; i++) {
    const base_dim d = fix_dim(f, type->dims[i]);
    if (d == BASE_DIM_NONE || (base_dim_known(d) && d < 0))
      return base_fail(f->err, TD_BAD_ARGUMENT, NULL, -1, "some results of the model have no such sizes");
    *news |= d != type->dims[i];
    type->dims[i] = d;
  }
  const uint32_t count = ir_type_elems(type);
  if (!count) return TD_OK;
  ir_type *elems = base_arena_copy(f->g->arena, type->elem, count * sizeof *elems);
  if (!elems) return base_no_memory(f->err, "types");
  type->elem = elems;
  for (uint32_t i = 0; i < count; i++) TRY(fix_type(f, &elems[i], news));
  return TD_OK;
}

/* Types and known contents of every value. */
static td_status fix_values(const fixing *f) {
  for (uint32_t v = 1; v < f->g->values.count; v++) {
    ir_info *info = &f->g->values.at[v].info;
    TRY(fix_type(f, &info->type, &f->news[v]));
    if (!info->ints) continue;
    base_dim *ints = base_new(f->g->arena, base_dim, (size_t)info->int_count + 1);
    if (!ints) return base_no_memory(f->err, "the contents of a value");
    bool sound = true;
    for (uint32_t i = 0; i < info->int_count; i++) {
      ints[i] = fix_dim(f, info->ints[i]);
      f->news[v] |= ints[i] != info->ints[i];
      sound &= ints[i] != BASE_DIM_NONE;
    }
    info->ints = sound ? ints : NULL;
  }
  return TD_OK;
}

static td_status fix_guards(const fixing *f) {
  for (uint32_t i = 0; i < f->g->guards.count; i++) {
    base_guard *guard = &f->g->guards.at[i];
    guard->left = fix_dim(f, guard->left);
    guard->right = fix_dim(f, guard->right);
    if (!base_dim_known(guard->left) || !base_dim_known(guard->right) ||
        base_relation_holds(guard->relation, guard->left, guard->right))
      continue;
    return base_fail(f->err, TD_BAD_ARGUMENT, NULL, -1, "%s; here %lld %s %lld does not hold", guard->text,
                     (long long)guard->left, base_relation_name(guard->relation), (long long)guard->right);
  }
  return TD_OK;
}

/* A number or a short list of integers of whose contents nothing is known. */
static bool lacks_contents(const ir_graph *g, const ir_node_def *node) {
  const ir_info *info = node->out_count == 1 ? &g->values.at[node->out[0].id].info : NULL;
  return info && info->type.kind == IR_TENSOR && info->type.dtype == TD_I64 && info->type.rank >= 0 &&
         info->type.rank <= 1 && !info->ints;
}

/* What data defines stays as it is: it would only get other symbols. */
static bool should_infer(const fixing *f, const ir_node_def *node) {
  if (node->op->flags & (IR_OP_REGION | IR_OP_DEFINES)) return false;
  for (uint32_t i = 0; i < node->in_count; i++)
    if (f->news[node->in[i].id]) return true;
  return f->contents && lacks_contents(f->g, node);
}

static td_status infer_block(const fixing *f, ir_block block) {
  for (uint32_t i = 0; i < ir_block_of(f->g, block)->nodes.count; i++) {
    const ir_node id = ir_block_of(f->g, block)->nodes.at[i];
    const ir_node_def *node = ir_node_of(f->g, id);
    bool changed = false;
    const td_status status = should_infer(f, node) ? ir_infer_again(f->g, id, &changed, f->err) : TD_OK;
    if (status != TD_OK) return base_error_name(f->err, status, "%s", ir_node_name(node));
    for (uint32_t k = 0; changed && k < node->out_count; k++) f->news[node->out[k].id] = true;
    for (uint32_t b = 0; b < node->block_count; b++) TRY(infer_block(f, node->blocks[b]));
  }
  return TD_OK;
}

static td_status fix(fixing *f, const ir_size *sizes, uint32_t count, base_arena *scratch) {
  base_dims *dims = &f->g->dims;
  const uint32_t nodes = dims->nodes.count;
  int64_t *values = base_new(scratch, int64_t, (size_t)dims->symbols.count + 1);
  f->fixed = base_new(scratch, base_dim, (size_t)nodes + 1);
  f->news = base_new(scratch, bool, f->g->values.count);
  if (!values || !f->fixed || !f->news) return base_no_memory(f->err, "sizes");
  for (uint32_t i = 0; i < dims->symbols.count; i++) values[i] = -1;
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t symbol = find_symbol(dims, sizes[i].name);
    if (symbol == dims->symbols.count)
      return base_fail(f->err, TD_BAD_ARGUMENT, sizes[i].name, -1, "the graph has no open size called %s",
                       sizes[i].name);
    values[symbol] = sizes[i].value;
  }
  if (!base_dims_fix(dims, values, nodes, f->fixed)) return base_no_memory(f->err, "sizes");
  TRY(fix_guards(f));
  TRY(fix_values(f));
  return infer_block(f, f->g->top);
}

static td_status fix_all(fixing *f, const ir_size *sizes, uint32_t count, uint32_t *changes) {
  base_arena *scratch = base_arena_new(base_arena_allocator(f->g->arena));
  if (!scratch) return base_no_memory(f->err, "sizes");
  const td_status status = fix(f, sizes, count, scratch);
  for (uint32_t v = 1; status == TD_OK && v < f->g->values.count; v++) *changes += f->news[v];
  base_arena_free(scratch);
  return status;
}

td_status ir_fix_sizes(ir_graph *g, const ir_size *sizes, uint32_t count, td_error *err) {
  uint32_t changes = 0;
  return fix_all(&(fixing){.g = g, .err = err}, sizes, count, &changes);
}

td_status ir_simplify_sizes(ir_graph *g, uint32_t *changes, td_error *err) {
  *changes = 0;
  return fix_all(&(fixing){.g = g, .err = err, .contents = true}, NULL, 0, changes);
}
