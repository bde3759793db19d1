/* lower.c -- walks the nodes of a graph in order: looks up inputs, lowers, defines outputs. */
#include "import/onnx/state_priv.h"

#include <string.h>

/* ---- nodes that are an operator under another name ---- */

/* Our name of their attribute by "theirs=ours,...". */
static base_str rename(const char *renames, base_str name) {
  for (const char *at = renames; at && *at;) {
    const char *equals = strchr(at, '='), *end = strchr(at, ',');
    if (!equals) break;
    if (!end) end = at + strlen(at);
    if (base_str_equal(name, (base_str){at, (size_t)(equals - at)}))
      return (base_str){equals + 1, (size_t)(end - equals - 1)};
    at = *end ? end + 1 : end;
  }
  return name;
}

static const ir_attr *find_attr(const ir_op *op, base_str name) {
  for (uint32_t i = 0; i < op->attr_count; i++)
    if (base_str_is(name, op->attrs[i].name)) return &op->attrs[i];
  return NULL;
}

static base_arg read_arg(onnx_node *n, const ir_attr *ours, const char *theirs) {
  base_arg arg = {.name = ours->name, .kind = ours->kind};
  switch (ours->kind) {
    case BASE_ATTR_INT:
    case BASE_ATTR_BOOL: arg.i = onnx_attr_int(n, theirs, 0); break;
    case BASE_ATTR_DTYPE: arg.i = onnx_dtype(n, onnx_attr_int(n, theirs, 0)); break;
    case BASE_ATTR_FLOAT: arg.f = onnx_attr_float(n, theirs, 0); break;
    case BASE_ATTR_STR: arg.str = onnx_attr_str(n, theirs, ""); break;
    case BASE_ATTR_INTS: arg.ints = onnx_attr_ints(n, theirs, &arg.count); break;
    case BASE_ATTR_FLOATS: arg.floats = onnx_attr_floats(n, theirs, &arg.count); break;
    case BASE_ATTR_NONE: break;
  }
  return arg;
}

td_status onnx_lower_alias(onnx_node *n) {
  const onnx_impl *impl = &n->record->impl;
  base_arg *args = base_new(n->im->arena, base_arg, (size_t)n->attr_count + 1);
  ir_value *outs = base_new(n->im->arena, ir_value, (size_t)n->out_count + 1);
  uint32_t count = 0;
  if (!args || !outs) return base_no_memory(n->im->err, "a node");
  for (uint32_t i = 0; i < n->attr_count; i++) {
    base_str name = n->attrs[i].name;
    const ir_attr *ours = find_attr(impl->op, rename(impl->alias->renames, name));
    if (!ours && onnx_attr_harmless(n->op_type, name)) continue;
    const char *theirs = onnx_cstr(n->im, name);
    if (!theirs) return base_no_memory(n->im->err, "a name");
    if (!ours)
      onnx_fail(n, TD_BAD_FILE, "the operator has no attribute \"%s\" at operator set %lld", theirs,
                (long long)impl->version);
    else args[count++] = read_arg(n, ours, theirs);
  }
  if (impl->op->out_count != IR_VARIADIC && n->out_count > impl->op->out_count)
    onnx_fail(n, TD_BAD_FILE, "the operator has at most %u outputs, %u are asked for", impl->op->out_count,
              n->out_count);
  uint32_t wanted = n->out_count ? n->out_count : 1;
  onnx_emit_many(n, impl->op->name, n->in, n->in_count, args, count, outs, n->out_count ? wanted : 0);
  for (uint32_t i = 0; i < n->out_count; i++) onnx_out(n, i, outs[i]);
  return n->b.status;
}

/* ---- any node ---- */

static td_status find_input(onnx_node *n, uint32_t i, base_str name) {
  const uint32_t *id = onnx_lookup(n->scope, name);
  if (!id)
    return base_fail(n->im->err, TD_BAD_FILE, NULL, -1,
                     "the input \"%.*s\" is not defined: no node, input or initializer has that name", (int)name.length,
                     name.at);
  n->is_lost = *id == ONNX_LOST;
  if (*id == ONNX_LOST || *id == ONNX_NOT_MADE)
    return base_fail(n->im->err, TD_UNSUPPORTED, NULL, -1,
                     "the input \"%.*s\" is an optional output that is not supported", (int)name.length, name.at);
  n->in[i] = (ir_value){*id};
  if (*id) n->in_count = i + 1;
  return TD_OK;
}

static td_status find_inputs(onnx_node *n) {
  const onnx_record *r = n->record;
  n->in = base_new(n->im->arena, ir_value, (size_t)r->in.count + 1);
  n->in_read = base_new(n->im->arena, bool, (size_t)r->in.count + 1);
  if (!n->in || !n->in_read) return base_no_memory(n->im->err, "a node");
  for (uint32_t i = 0; i < r->in.count; i++)
    if (r->in.at[i].length) TRY(find_input(n, i, r->in.at[i]));
  return TD_OK;
}

enum { ONNX_MAX_MODULE = 1024 };

/* The innermost module around a node, "enc.0" of "['', 'enc', 'enc.0', 'linear']": the last name but one, as the last
 * is the node's own in PyTorch. Empty where nobody tells, or the node's name is a path already. */
static base_str module_of(const onnx_record *r) {
  base_str names[2] = {{"", 0}, {"", 0}};
  if (r->name.length && memchr(r->name.at, '/', r->name.length)) return names[0];
  for (size_t i = 0; i < r->scopes.length; i++) {
    const char quote = r->scopes.at[i];
    if (quote != '\'' && quote != '"') continue;
    const char *begin = r->scopes.at + i + 1, *end = memchr(begin, quote, r->scopes.length - i - 1);
    if (!end) break;
    names[0] = names[1];
    names[1] = (base_str){begin, (size_t)(end - begin)};
    i = (size_t)(end - r->scopes.at);
  }
  return names[0].length <= ONNX_MAX_MODULE ? names[0] : (base_str){"", 0};
}

static td_status name_node(onnx_node *n) {
  const onnx_record *r = n->record;
  base_arena *arena = n->im->graph->arena;
  n->op_type = base_arena_slice(arena, r->op_type.at, r->op_type.length);
  if (!n->op_type) return base_no_memory(n->im->err, "a name");
  const base_str module = module_of(r);
  if (r->name.length)
    n->label = base_arena_format(arena, "%s%.*s%s%.*s", n->scope->prefix, (int)module.length, module.at,
                                 module.length ? "/" : "", (int)r->name.length, r->name.at);
  else n->label = base_arena_format(arena, "%s%s_%u", n->scope->path, n->op_type, r->index);
  n->origin = n->label ? base_arena_format(arena, "%s (%s)", n->label, n->op_type) : NULL;
  return n->origin ? TD_OK : base_no_memory(n->im->err, "a name");
}

static td_status enter_node(onnx_node *n) {
  TRY(onnx_check_memory(n->im));
  if (n->scope->depth > ONNX_MAX_DEPTH)
    return base_fail(n->im->err, TD_BAD_FILE, NULL, -1, "functions and graphs are nested more than %d deep",
                     ONNX_MAX_DEPTH);
  n->out_count = n->record->out.count;
  n->out = base_new(n->im->arena, ir_value, (size_t)n->out_count + 1);
  n->made = base_new(n->im->arena, bool, (size_t)n->out_count + 1);
  onnx_bound *attrs;
  if (!n->out || !n->made) return base_no_memory(n->im->err, "a node");
  TRY(onnx_bind_attrs(n->im, n->scope, n->record, &attrs, &n->attr_count));
  n->attrs = attrs;
  n->attr_read = base_new(n->im->arena, bool, (size_t)n->attr_count + 1);
  if (!n->attr_read) return base_no_memory(n->im->err, "a node");
  return find_inputs(n);
}

static td_status apply(onnx_node *n) {
  const onnx_impl *impl = &n->record->impl;
  if (impl->row) {
    impl->row->lower(n);
    onnx_refuse_unread(n);
  } else onnx_take(n, impl->op ? onnx_lower_alias(n) : onnx_inline(n));
  return n->b.status;
}

static td_status define_outputs(onnx_node *n) {
  for (uint32_t i = 0; i < n->out_count; i++) {
    if (!onnx_wants(n, i)) continue;
    uint32_t otherwise = onnx_failed(n) ? ONNX_LOST : ONNX_NOT_MADE;
    bool made = n->made[i] && !onnx_failed(n);
    TRY(onnx_define(n->scope, n->record->out.at[i], made ? n->out[i] : (ir_value){otherwise}));
  }
  return TD_OK;
}

/* A node that is not supported loses its outputs, and so do its users; the walk goes on to find all such nodes. */
static td_status finish_node(onnx_node *n) {
  if (onnx_failed(n) && n->b.status != TD_UNSUPPORTED) return n->b.status;
  if (onnx_failed(n) && !n->is_lost) TRY(onnx_note_missing(n->im, n->record, n->label, n->im->err->text));
  return base_error_name(n->im->err, define_outputs(n), "node %s", n->origin);
}

/* The body of a loop is lowered again: its names are free. */
static void forget_round(ir_build *b, uint32_t first_value) {
  onnx_import *im = b->user;
  onnx_forget_names(im, first_value);
  ir_build_take(b, onnx_check_memory(im));
}

static td_status lower_node(onnx_scope *scope, onnx_record *record) {
  onnx_node n = {.im = scope->im, .scope = scope, .record = record, .b = ir_build_of(scope->im->graph, scope->im->err)};
  TRY(name_node(&n));
  n.b.block = scope->block;
  n.b.again = forget_round;
  n.b.user = scope->im;
  ir_build_enter(&n.b, &n.frame, n.origin);
  onnx_take(&n, enter_node(&n));
  if (!onnx_failed(&n)) onnx_take(&n, apply(&n));
  return finish_node(&n);
}

/* ---- graphs ---- */

td_status onnx_lower_graph(onnx_scope *scope, onnx_graph *graph) {
  TRY(onnx_sort(scope, graph));
  for (uint32_t i = 0; i < graph->nodes.count; i++) TRY(lower_node(scope, &graph->nodes.at[graph->order[i]]));
  return TD_OK;
}

td_status onnx_define_initializers(onnx_scope *scope, onnx_graph *graph) {
  onnx_import *im = scope->im;
  for (uint32_t i = 0; i < graph->initializers.count; i++) {
    onnx_tensor *t = &graph->initializers.at[i];
    ir_value value;
    if (!t->name.length)
      return base_fail(im->err, TD_BAD_FILE, im->source->file, fmt_wire_offset(&t->wire), "an initializer has no name");
    td_status status = onnx_tensor_value(im, t, &value);
    if (status == TD_OK) status = onnx_define_here(scope, t->name, value);
    if (status != TD_OK) return base_error_name(im->err, status, "initializer %.*s", (int)t->name.length, t->name.at);
  }
  return TD_OK;
}

static td_status take_results(onnx_node *n, const onnx_scope *scope, const onnx_graph *graph, ir_value *results) {
  for (uint32_t i = 0; i < graph->outputs.count; i++) {
    base_str name = graph->outputs.at[i].name;
    const uint32_t *id = onnx_lookup(scope, name);
    n->is_lost = id && *id == ONNX_LOST;
    if (n->is_lost || !id || *id == ONNX_ABSENT || *id == ONNX_NOT_MADE)
      return base_fail(n->im->err, n->is_lost ? TD_UNSUPPORTED : TD_BAD_FILE, NULL, -1,
                       "the output \"%.*s\" of its graph is not defined", (int)name.length, name.at);
    results[i] = (ir_value){*id};
  }
  return TD_OK;
}

td_status onnx_lower_body(onnx_node *n, const onnx_bound *body, ir_block block, const ir_value *params, uint32_t count,
                          ir_value *results) {
  onnx_graph *graph = body->attr->graph;
  onnx_scope *scope = base_new(n->im->arena, onnx_scope, 1);
  const char *path = base_arena_format(n->im->arena, "%s/", n->label);
  if (!scope || !path) return base_no_memory(n->im->err, "a graph");
  *scope = (onnx_scope){.im = n->im,
                        .parent = body->scope,
                        .block = block,
                        .prefix = body->scope->prefix,
                        .path = path,
                        .bound = body->scope->bound,
                        .bound_count = body->scope->bound_count,
                        .depth = n->scope->depth + 1};
  for (uint32_t i = 0; i < count; i++) TRY(onnx_define_here(scope, graph->inputs.at[i].name, params[i]));
  TRY(onnx_define_initializers(scope, graph));
  TRY(onnx_lower_graph(scope, graph));
  return take_results(n, scope, graph, results);
}
