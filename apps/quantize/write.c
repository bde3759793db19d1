/* write.c -- see write.h. */
#include "write.h"

#include <string.h>

enum { ATTRIBUTE_INT = 2 };

static void put_attribute(base_text *node, const char *name, int64_t value) {
  base_text a = {.allocator = node->allocator};
  fmt_put_str(&a, 1, name);
  fmt_put_int(&a, 3, value);
  fmt_put_int(&a, 20, ATTRIBUTE_INT);
  fmt_put_bytes(node, 5, a.at, a.length);
  base_text_free(&a);
}

/* A node of our own, named after its first result. */
void quant_put_node(quant_writer *w, const char *op, const char *domain, const char *const *in, const char *const *out,
                    const quant_number *numbers, uint32_t count) {
  base_text node = {.allocator = w->graph.allocator};
  for (; *in; in++) fmt_put_str(&node, 1, *in);
  for (const char *const *o = out; *o; o++) fmt_put_str(&node, 2, *o);
  fmt_put_str(&node, 3, *out);
  fmt_put_str(&node, 4, op);
  for (uint32_t i = 0; i < count; i++) put_attribute(&node, numbers[i].name, numbers[i].value);
  if (*domain) fmt_put_str(&node, 7, domain);
  w->graph.failed |= node.failed;
  fmt_put_bytes(&w->graph, GRAPH_NODE, node.at, node.length);
  base_text_free(&node);
}

void quant_put_constant(quant_writer *w, const char *name, td_dtype dtype, int32_t rank, const int64_t *dims,
                        const void *data) {
  base_text t = {.allocator = w->graph.allocator};
  const base_tensor tensor = base_tensor_of((void *)(uintptr_t)data, dtype, rank, dims);
  fmt_put_tensor_proto(&t, name, &tensor);
  w->added.failed |= t.failed;
  fmt_put_bytes(&w->added, GRAPH_INITIALIZER, t.at, t.length);
  base_text_free(&t);
}

void quant_put_again(quant_writer *w, const quant_node *n, const char *const *in, const char *out) {
  base_text node = {.allocator = w->graph.allocator};
  uint32_t index = 0;
  td_error ignored;
  for (fmt_wire wire = n->bytes; fmt_wire_more(&wire);) {
    const uint8_t *from = wire.at;
    fmt_field f;
    if (fmt_wire_next(&wire, &f, &ignored) != TD_OK) break;
    const char *other = f.number == NODE_INPUT && index < n->in.count ? in[index++] : NULL;
    if (other) fmt_put_str(&node, NODE_INPUT, other);
    else if (out && f.number == NODE_OUTPUT) fmt_put_str(&node, NODE_OUTPUT, out);
    else base_text_add(&node, (const char *)from, (size_t)(wire.at - from));
  }
  if (in[n->in.count]) fmt_put_str(&node, NODE_INPUT, in[n->in.count]);
  w->graph.failed |= node.failed;
  fmt_put_bytes(&w->graph, GRAPH_NODE, node.at, node.length);
  base_text_free(&node);
}

static void copy_model(const quant_model *m, const base_text *graph, bool microsoft, base_text *out) {
  td_error ignored;
  for (fmt_wire wire = m->file; fmt_wire_more(&wire);) {
    const uint8_t *from = wire.at;
    fmt_field f;
    if (fmt_wire_next(&wire, &f, &ignored) != TD_OK) return;
    if (f.number == MODEL_GRAPH) fmt_put_bytes(out, MODEL_GRAPH, graph->at, graph->length);
    else base_text_add(out, (const char *)from, (size_t)(wire.at - from));
  }
  if (!microsoft) return;
  base_text set = {.allocator = out->allocator};
  fmt_put_str(&set, 1, "com.microsoft");
  fmt_put_int(&set, 2, 1);
  fmt_put_bytes(out, MODEL_OPSET, set.at, set.length);
  base_text_free(&set);
}

fmt_wire quant_graph(const quant_model *m) {
  td_error ignored;
  fmt_field f = {0};
  for (fmt_wire wire = m->file; fmt_wire_more(&wire);)
    if (fmt_wire_next(&wire, &f, &ignored) == TD_OK && f.number == MODEL_GRAPH) break;
  return f.bytes;
}

static const char *initializer_name(const quant_model *m, uint32_t i) {
  for (uint32_t s = 0; s < m->weights.cap; s++)
    if (m->weights.slots[s].used && m->weights.slots[s].value == i) return m->weights.slots[s].key.at;
  return "";
}

static td_status put_graph(quant_writer *w, const quant_edit *edit) {
  uint32_t node = 0, initializer = 0;
  for (fmt_wire wire = quant_graph(w->m); fmt_wire_more(&wire);) {
    const uint8_t *from = wire.at;
    fmt_field f;
    TRY(fmt_wire_next(&wire, &f, w->err));
    const bool is_weight = f.number == GRAPH_INITIALIZER;
    if (f.number == GRAPH_NODE) TRY(edit->put_node(w, edit->user, &w->m->nodes.at[node++]));
    else if (!is_weight || edit->keeps(w, edit->user, initializer_name(w->m, initializer)))
      base_text_add(&w->graph, (const char *)from, (size_t)(wire.at - from));
    initializer += is_weight;
  }
  return TD_OK;
}

td_status quant_put_model(quant_writer *w, const quant_edit *edit, bool microsoft, base_text *out) {
  td_status status = put_graph(w, edit);
  base_text_add(&w->graph, w->added.at, w->added.length);
  if (status == TD_OK && !w->unnamed) copy_model(w->m, &w->graph, microsoft, out);
  if (status == TD_OK && (w->unnamed || w->graph.failed || w->added.failed || out->failed))
    status = base_no_memory(w->err, "a model");
  base_text_free(&w->graph);
  base_text_free(&w->added);
  return status;
}

const char *quant_name(quant_writer *w, const char *tensor, const char *what) {
  const char *name = base_arena_format(w->m->arena, "%s_%s", tensor, what);
  w->unnamed |= !name;
  return name ? name : "";
}

void quant_write_tapped(const quant_model *m, const char *const *names, uint32_t count, base_text *out) {
  const fmt_wire wire = quant_graph(m);
  base_text graph = {.allocator = out->allocator};
  base_text_add(&graph, (const char *)wire.at, fmt_wire_left(&wire));
  for (uint32_t i = 0; i < count; i++) {
    base_text value = {.allocator = out->allocator};
    fmt_put_str(&value, 1, names[i]);
    graph.failed |= value.failed;
    fmt_put_bytes(&graph, GRAPH_OUTPUT, value.at, value.length);
    base_text_free(&value);
  }
  out->failed |= graph.failed;
  copy_model(m, &graph, false, out);
  base_text_free(&graph);
}
