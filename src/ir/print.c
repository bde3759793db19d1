/* print.c -- a graph as text, for people, tests and Graphviz. */
#include "ir/graph.h"

#include <math.h>
#include <string.h>

enum { INLINE_BYTES = 64, BRIEF_ELEMENTS = 64 };

typedef struct printer {
  const ir_graph *g;
  base_text *out;
  int64_t most;     /* elements that are printed of a constant */
  uint32_t *number; /* per value id: 0 none yet, else printed number + 1 */
  uint32_t next;
  ir_store *store; /* gets the elements that are not printed; NULL: segments have them */
  bool failed;     /* there was no memory for that */
} printer;

static uint32_t number(printer *p, ir_value v) {
  if (!p->number[v.id]) p->number[v.id] = ++p->next;
  return p->number[v.id] - 1;
}

static void print_name(base_text *out, const char *name) {
  base_text_add(out, " ", 1);
  base_text_quote(out, name, strlen(name));
}

static void print_indent(base_text *out, int depth) { base_text_print(out, "%*s", 2 * depth, ""); }

static void print_float(base_text *out, double v) {
  if (isnan(v)) base_text_print(out, "nan");
  else if (isinf(v)) base_text_print(out, v < 0 ? "-inf" : "inf");
  else base_text_print(out, "%.17g", v);
}

static void print_element(base_text *out, const base_tensor *t, int64_t at) {
  if (t->dtype == TD_STRING) {
    const td_string *s = (const td_string *)t->data + at;
    base_text_quote(out, s->at, s->length);
  } else if (base_is_float(t->dtype)) print_float(out, base_load_f64(t->dtype, t->data, at));
  else if (t->dtype == TD_U64) base_text_print(out, "%llu", (unsigned long long)base_load_i64(t->dtype, t->data, at));
  else base_text_print(out, "%lld", (long long)base_load_i64(t->dtype, t->data, at));
}

static void print_elements(base_text *out, const base_tensor *t, int64_t most) {
  base_walk w;
  const int64_t *strides[] = {t->strides};
  base_walk_start(&w, t->rank, t->dims, 1, strides);
  base_text_print(out, "{");
  for (int64_t i = 0; i < w.count && i < most; i++, base_walk_next(&w)) {
    if (i) base_text_print(out, ", ");
    print_element(out, t, w.offset[0]);
  }
  base_text_print(out, w.count > most ? ", ...}" : "}");
}

/* Where the elements are when they are not printed. False: they are printed. */
static bool print_place(printer *p, const base_tensor *t) {
  uint32_t segment = 0;
  size_t offset;
  if (base_tensor_bytes(t) <= INLINE_BYTES) return false;
  if (p->store) {
    if (t->dtype == TD_STRING) return false;
    p->failed |= !ir_store_add(p->store, t, &offset);
    base_text_print(p->out, "@0+%zu", offset);
    return true;
  }
  if (!ir_find_segment(p->g, t->data, &segment, &offset)) return false;
  base_text_print(p->out, "@%u+%zu", segment, offset);
  for (int32_t i = 0; !base_tensor_contiguous(t) && i < t->rank; i++)
    base_text_print(p->out, "%s%lld%s", i ? ", " : " strides [", (long long)t->strides[i], i == t->rank - 1 ? "]" : "");
  return true;
}

static void print_constant(printer *p, ir_value v) {
  const ir_value_def *def = ir_value_of(p->g, v);
  base_text_print(p->out, "const %%%u", number(p, v));
  if (def->name) print_name(p->out, def->name);
  base_text_print(p->out, ": ");
  ir_type_print(&p->g->dims, &def->info.type, p->out);
  base_text_print(p->out, " = ");
  if (!print_place(p, def->info.constant)) print_elements(p->out, def->info.constant, p->most);
  base_text_print(p->out, "\n");
}

static void print_constant_once(printer *p, ir_value v) {
  if (v.id && ir_value_of(p->g, v)->info.constant && !ir_value_of(p->g, v)->node.id && !p->number[v.id])
    print_constant(p, v);
}

static void print_constants(printer *p, ir_block block) {
  const ir_block_def *def = ir_block_of(p->g, block);
  for (uint32_t i = 0; i < def->nodes.count; i++) {
    const ir_node_def *node = ir_node_of(p->g, def->nodes.at[i]);
    for (uint32_t k = 0; k < node->in_count; k++) print_constant_once(p, node->in[k]);
    for (uint32_t b = 0; b < node->block_count; b++) print_constants(p, node->blocks[b]);
  }
  for (uint32_t i = 0; i < def->results.count; i++) print_constant_once(p, def->results.at[i]);
}

static void print_attr(base_text *out, const base_attrs *attrs, uint32_t i) {
  uint32_t count;
  const uint32_t kind = attrs->at[i].kind;
  if (kind == BASE_ATTR_INT) base_text_print(out, "%lld", (long long)base_attr_int(attrs, i));
  if (kind == BASE_ATTR_BOOL) base_text_print(out, base_attr_int(attrs, i) ? "true" : "false");
  if (kind == BASE_ATTR_DTYPE) base_text_print(out, "%s", td_dtype_name((td_dtype)base_attr_int(attrs, i)));
  if (kind == BASE_ATTR_FLOAT) print_float(out, base_attr_float(attrs, i));
  if (kind == BASE_ATTR_STR) base_text_quote(out, base_attr_str(attrs, i), strlen(base_attr_str(attrs, i)));
  if (kind == BASE_ATTR_INTS) {
    const int64_t *ints = base_attr_ints(attrs, i, &count);
    for (uint32_t k = 0; k < count; k++) base_text_print(out, "%s%lld", k ? ", " : "[", (long long)ints[k]);
    base_text_print(out, count ? "]" : "[]");
  }
  if (kind == BASE_ATTR_FLOATS) {
    const double *floats = base_attr_floats(attrs, i, &count);
    base_text_print(out, "[");
    for (uint32_t k = 0; k < count; k++) {
      if (k) base_text_print(out, ", ");
      print_float(out, floats[k]);
    }
    base_text_print(out, "]");
  }
}

static void print_attrs(base_text *out, const ir_node_def *node) {
  bool any = false;
  for (uint32_t i = 0; node->attrs && i < node->attrs->count; i++) {
    if (!base_attr_has(node->attrs, i)) continue;
    base_text_print(out, "%s%s = ", any ? ", " : " {", node->op->attrs[i].name);
    print_attr(out, node->attrs, i);
    any = true;
  }
  if (any) base_text_print(out, "}");
}

static void print_values(printer *p, const ir_value *values, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (i) base_text_print(p->out, ", ");
    if (values[i].id) base_text_print(p->out, "%%%u", number(p, values[i]));
    else base_text_print(p->out, "-");
  }
}

static void print_block(printer *p, ir_block block, int depth);

static void print_node(printer *p, const ir_node_def *node, int depth) {
  print_indent(p->out, depth);
  print_values(p, node->out, node->out_count);
  base_text_print(p->out, "%s%s(", node->out_count ? " = " : "", node->op->name);
  print_values(p, node->in, node->in_count);
  base_text_print(p->out, ")");
  print_attrs(p->out, node);
  for (uint32_t i = 0; i < node->out_count; i++) {
    base_text_print(p->out, i ? ", " : ": ");
    ir_type_print(&p->g->dims, ir_type_of(p->g, node->out[i]), p->out);
  }
  if (node->block_count) base_text_print(p->out, " {");
  for (uint32_t i = 0; i < node->origins.count; i++) {
    base_text_print(p->out, i ? "" : "  #");
    print_name(p->out, node->origins.names[i]);
  }
  base_text_print(p->out, "\n");
  for (uint32_t b = 0; b < node->block_count; b++) print_block(p, node->blocks[b], depth + 1);
  if (!node->block_count) return;
  print_indent(p->out, depth);
  base_text_print(p->out, "}\n");
}

static void print_block(printer *p, ir_block block, int depth) {
  const ir_block_def *def = ir_block_of(p->g, block);
  print_indent(p->out, depth);
  base_text_print(p->out, "block(");
  for (uint32_t i = 0; i < def->params.count; i++) {
    base_text_print(p->out, "%s%%%u: ", i ? ", " : "", number(p, def->params.at[i]));
    ir_type_print(&p->g->dims, ir_type_of(p->g, def->params.at[i]), p->out);
  }
  base_text_print(p->out, ") {\n");
  for (uint32_t i = 0; i < def->nodes.count; i++) print_node(p, ir_node_of(p->g, def->nodes.at[i]), depth + 1);
  print_indent(p->out, depth + 1);
  base_text_print(p->out, "yield%s", def->results.count ? " " : "");
  print_values(p, def->results.at, def->results.count);
  base_text_print(p->out, "\n");
  print_indent(p->out, depth);
  base_text_print(p->out, "}\n");
}

/* "input %0 "x": f32[2]" */
static void print_param(printer *p, const char *what, ir_value v) {
  const ir_value_def *def = ir_value_of(p->g, v);
  base_text_print(p->out, "%s %%%u", what, number(p, v));
  if (def->name) print_name(p->out, def->name);
  base_text_print(p->out, ": ");
  ir_type_print(&p->g->dims, &def->info.type, p->out);
}

static void print_initial_constants(printer *p, const ir_initial *initial) {
  print_constant_once(p, initial->value);
  for (uint32_t i = 0; i < initial->count; i++) print_initial_constants(p, &initial->items[i]);
}

static void print_initial(printer *p, const ir_initial *initial) {
  if (!initial->list) {
    print_values(p, &initial->value, 1);
    return;
  }
  base_text_print(p->out, "[");
  for (uint32_t i = 0; i < initial->count; i++) {
    if (i) base_text_print(p->out, ", ");
    print_initial(p, &initial->items[i]);
  }
  base_text_print(p->out, "]");
}

static void print_params(printer *p, const ir_block_def *top) {
  const ir_graph *g = p->g;
  for (uint32_t i = 0; i < top->params.count; i++) number(p, top->params.at[i]);
  for (uint32_t i = 0; i < g->input_defaults.count; i++) print_constant_once(p, g->input_defaults.at[i]);
  for (uint32_t i = 0; i < g->states.count; i++) print_initial_constants(p, &g->states.at[i]);
  for (uint32_t i = 0; i < g->input_defaults.count; i++) {
    print_param(p, "input", top->params.at[i]);
    if (g->input_defaults.at[i].id) base_text_print(p->out, " = %%%u", number(p, g->input_defaults.at[i]));
    base_text_print(p->out, "\n");
  }
  for (uint32_t i = 0; i < g->states.count; i++) {
    print_param(p, "state", ir_state_before(g, i));
    base_text_print(p->out, " = ");
    print_initial(p, &g->states.at[i]);
    base_text_print(p->out, "\n");
  }
}

static void print_graph(printer *p) {
  const ir_graph *g = p->g;
  const ir_block_def *top = ir_block_of(g, g->top);
  print_params(p, top);
  print_constants(p, g->top);
  for (uint32_t i = 0; i < top->nodes.count; i++) print_node(p, ir_node_of(g, top->nodes.at[i]), 0);
  for (uint32_t i = 0; i < g->output_names.count; i++) {
    base_text_print(p->out, "output");
    print_name(p->out, g->output_names.at[i]);
    base_text_print(p->out, " %%%u%s\n", number(p, top->results.at[i]), ir_output_is_complex(g, i) ? " complex" : "");
  }
  for (uint32_t i = 0; i < g->states.count; i++) {
    const ir_value before = ir_state_before(g, i), after = ir_state_after(g, i);
    if (after.id != before.id) base_text_print(p->out, "store %%%u = %%%u\n", number(p, before), number(p, after));
  }
  for (uint32_t i = 0; i < g->guards.count; i++) {
    const base_guard *guard = &g->guards.at[i];
    base_text_print(p->out, "guard ");
    base_dim_print(&g->dims, guard->left, p->out);
    base_text_print(p->out, " %s ", base_relation_name(guard->relation));
    base_dim_print(&g->dims, guard->right, p->out);
    print_name(p->out, guard->text);
    base_text_print(p->out, "\n");
  }
}

static td_status print_most(const ir_graph *g, int64_t most, ir_store *store, base_text *text) {
  size_t bytes = g->values.count * sizeof(uint32_t);
  printer p = {.g = g, .out = text, .most = most, .store = store, .number = base_alloc(text->allocator, bytes)};
  if (!p.number) return TD_NO_RESOURCE;
  memset(p.number, 0, bytes);
  print_graph(&p);
  base_free(text->allocator, p.number, bytes);
  return text->failed || p.failed ? TD_NO_RESOURCE : TD_OK;
}

td_status ir_print(const ir_graph *g, base_text *text) { return print_most(g, INT64_MAX, NULL, text); }
td_status ir_print_brief(const ir_graph *g, base_text *text) { return print_most(g, BRIEF_ELEMENTS, NULL, text); }
td_status ir_print_stored(const ir_graph *g, ir_store *store, base_text *text) {
  return print_most(g, INT64_MAX, store, text);
}

/* ---- Graphviz and JSON ---- */

void ir_print_dot(const ir_graph *g, base_text *text) {
  base_text_print(text, "digraph model {\n  node [shape=box];\n");
  for (uint32_t n = 1; n < g->nodes.count; n++) {
    const ir_node_def *node = &g->nodes.at[n];
    if (!node->op) continue;
    base_text_print(text, "  n%u [label=", n);
    base_text_quote(text, ir_node_name(node), strlen(ir_node_name(node)));
    base_text_print(text, ", tooltip=\"%s\"];\n", node->op->name);
    for (uint32_t i = 0; i < node->in_count; i++) {
      ir_node from = node->in[i].id ? ir_value_of(g, node->in[i])->node : (ir_node){0};
      if (from.id) base_text_print(text, "  n%u -> n%u;\n", from.id, n);
    }
  }
  base_text_print(text, "}\n");
}

static void json_values(const ir_value *values, uint32_t count, const char *key, base_text *text) {
  base_text_print(text, ", \"%s\": [", key);
  for (uint32_t i = 0; i < count; i++) base_text_print(text, "%s%u", i ? ", " : "", values[i].id);
  base_text_print(text, "]");
}

static void json_node(const ir_graph *g, uint32_t n, bool first, base_text *text) {
  const ir_node_def *node = &g->nodes.at[n];
  base_text_print(text, "%s\n    {\"id\": %u, \"op\": \"%s\"", first ? "" : ",", n, node->op->name);
  json_values(node->in, node->in_count, "inputs", text);
  json_values(node->out, node->out_count, "outputs", text);
  base_text_print(text, ", \"types\": [");
  for (uint32_t i = 0; i < node->out_count; i++) {
    base_text type = {.allocator = text->allocator};
    ir_type_print(&g->dims, ir_type_of(g, node->out[i]), &type);
    if (i) base_text_print(text, ", ");
    base_text_quote(text, type.at ? type.at : "", type.length);
    base_text_free(&type);
  }
  base_text_print(text, "], \"origins\": [");
  for (uint32_t i = 0; i < node->origins.count; i++) {
    if (i) base_text_print(text, ", ");
    base_text_quote(text, node->origins.names[i], strlen(node->origins.names[i]));
  }
  base_text_print(text, "]}");
}

void ir_print_json(const ir_graph *g, base_text *text) {
  bool first = true;
  base_text_print(text, "{\"nodes\": [");
  for (uint32_t n = 1; n < g->nodes.count; n++) {
    if (!g->nodes.at[n].op) continue;
    json_node(g, n, first, text);
    first = false;
  }
  base_text_print(text, "\n  ]}\n");
}
