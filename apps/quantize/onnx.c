/* onnx.c -- an ONNX file as lists of its nodes and initializers, whose bytes stay where they are. */
#include "quantize.h"

#include <string.h>

enum { MODEL_GRAPH = 7, MODEL_OPSET = 8, GRAPH_NODE = 1, GRAPH_INITIALIZER = 5, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5, NODE_DOMAIN = 7 };
enum { TENSOR_NAME = 8, TENSOR_LOCATION = 14, TENSOR_EXTERNAL = 1 };

static td_status text_of(quant_model *m, const fmt_field *field, const char **text, td_error *err) {
  base_str str;
  TRY(fmt_field_str(field, "a name", &str, err));
  *text = base_arena_slice(m->arena, str.at, str.length);
  return *text ? TD_OK : base_no_memory(err, "a model");
}

static td_status read_node(quant_model *m, fmt_wire wire, td_error *err) {
  quant_node *n = base_vec_push(m->arena, &m->nodes);
  if (!n) return base_no_memory(err, "a model");
  n->bytes = wire;
  n->name = n->op = n->domain = "";
  while (fmt_wire_more(&wire)) {
    fmt_field f;
    const char *text;
    TRY(fmt_wire_next(&wire, &f, err));
    if (f.number > NODE_OP && f.number != NODE_DOMAIN) continue;
    TRY(text_of(m, &f, &text, err));
    if (f.number == NODE_NAME) n->name = text;
    if (f.number == NODE_OP) n->op = text;
    if (f.number == NODE_DOMAIN) n->domain = text;
    if (f.number > NODE_OUTPUT) continue;
    const char **slot = f.number == NODE_INPUT ? base_vec_push(m->arena, &n->in) : base_vec_push(m->arena, &n->out);
    if (!slot) return base_no_memory(err, "a model");
    *slot = text;
    if (f.number == NODE_OUTPUT && *text &&
        !base_map_put(&m->producers, m->arena, base_str_of(text), m->nodes.count - 1, NULL))
      return base_no_memory(err, "a model");
  }
  n->label = *n->name ? n->name : n->out.count ? n->out.at[0] : n->op;
  return TD_OK;
}

/* The name in field `number` of a message. */
static td_status name_in(quant_model *m, fmt_wire wire, uint32_t number, const char **name, td_error *err) {
  *name = "";
  while (fmt_wire_more(&wire)) {
    fmt_field f;
    TRY(fmt_wire_next(&wire, &f, err));
    if (f.number == number) TRY(text_of(m, &f, name, err));
  }
  return TD_OK;
}

static td_status read_initializer(quant_model *m, fmt_wire wire, td_error *err) {
  base_tensor *slot = base_vec_push(m->arena, &m->initializers);
  const char *name;
  fmt_tensor_proto proto = {0};
  if (!slot) return base_no_memory(err, "a model");
  const td_status status = fmt_tensor_proto_read(m->arena, wire, &proto, err); /* the engine tells what is wrong */
  if (status == TD_NO_RESOURCE) return status;
  const bool is_f32 = status == TD_OK && !proto.is_external && proto.tensor.dtype == TD_F32;
  *slot = is_f32 ? proto.tensor : (base_tensor){.dtype = TD_INVALID};
  TRY(name_in(m, wire, TENSOR_NAME, &name, err));
  while (fmt_wire_more(&wire)) {
    fmt_field f;
    TRY(fmt_wire_next(&wire, &f, err));
    m->is_external |= f.number == TENSOR_LOCATION && f.value == TENSOR_EXTERNAL;
  }
  const bool put = base_map_put(&m->weights, m->arena, base_str_of(name), m->initializers.count - 1, NULL);
  return put ? TD_OK : base_no_memory(err, "a model");
}

static td_status read_graph(quant_model *m, fmt_wire wire, td_error *err) {
  while (fmt_wire_more(&wire)) {
    fmt_field f;
    TRY(fmt_wire_next(&wire, &f, err));
    if (f.number == GRAPH_NODE) TRY(read_node(m, f.bytes, err));
    if (f.number == GRAPH_OUTPUT) {
      const char **slot = base_vec_push(m->arena, &m->outputs);
      if (!slot) return base_no_memory(err, "a model");
      TRY(name_in(m, f.bytes, 1, slot, err));
    }
    if (f.number == GRAPH_INITIALIZER) TRY(read_initializer(m, f.bytes, err));
  }
  return TD_OK;
}

static td_status read_opset(quant_model *m, fmt_wire wire, td_error *err) {
  int64_t version = 0;
  bool onnx = true;
  while (fmt_wire_more(&wire)) {
    fmt_field f;
    TRY(fmt_wire_next(&wire, &f, err));
    if (f.number == 1)
      onnx = fmt_wire_left(&f.bytes) == 0 || (fmt_wire_left(&f.bytes) == 7 && !memcmp(f.bytes.at, "ai.onnx", 7));
    if (f.number == 2) TRY(fmt_field_int(&f, "a version", &version, err));
  }
  if (onnx) m->opset = version;
  return TD_OK;
}

td_status quant_read(base_arena *arena, const void *bytes, size_t size, quant_model *m, td_error *err) {
  *m = (quant_model){.arena = arena, .file = fmt_wire_of(bytes, size)};
  for (fmt_wire wire = m->file; fmt_wire_more(&wire);) {
    fmt_field f;
    TRY(fmt_wire_next(&wire, &f, err));
    if (f.number == MODEL_GRAPH) TRY(read_graph(m, f.bytes, err));
    if (f.number == MODEL_OPSET) TRY(read_opset(m, f.bytes, err));
  }
  return TD_OK;
}

bool quant_weight(const quant_model *m, const char *name, base_tensor *t) {
  const uint32_t *at = *name ? base_map_get(&m->weights, base_str_of(name)) : NULL;
  if (!at || m->initializers.at[*at].dtype != TD_F32) return false;
  *t = m->initializers.at[*at];
  return true;
}

/* The message of attribute `name`. */
static bool find_message(const quant_node *n, const char *name, fmt_wire *message) {
  td_error ignored;
  for (fmt_wire wire = n->bytes; fmt_wire_more(&wire);) {
    fmt_field f, g;
    if (fmt_wire_next(&wire, &f, &ignored) != TD_OK) return false;
    if (f.number != NODE_ATTRIBUTE || f.type != FMT_BYTES) continue;
    bool named = false;
    for (fmt_wire inner = f.bytes; fmt_wire_more(&inner) && !named;) {
      if (fmt_wire_next(&inner, &g, &ignored) != TD_OK) return false;
      if (g.number == 1) named = base_str_is((base_str){(const char *)g.bytes.at, fmt_wire_left(&g.bytes)}, name);
    }
    *message = f.bytes;
    if (named) return true;
  }
  return false;
}

/* Attribute `name` has a number in field `number`, whose bits these are. */
static bool find_attribute(const quant_node *n, const char *name, uint32_t number, uint64_t *bits) {
  td_error ignored;
  fmt_wire inner;
  fmt_field g;
  bool found = false;
  if (!find_message(n, name, &inner)) return false;
  while (fmt_wire_more(&inner) && fmt_wire_next(&inner, &g, &ignored) == TD_OK) {
    if (g.number != number) continue;
    found = true; /* of a list of small numbers: the last */
    *bits = g.type == FMT_BYTES && fmt_wire_more(&g.bytes) ? g.bytes.end[-1] : g.value;
  }
  return found;
}

bool quant_says(const quant_node *n, const char *name, const char *text) {
  enum { TEXT = 4 };
  td_error ignored;
  fmt_wire inner;
  fmt_field g;
  if (!find_message(n, name, &inner)) return false;
  while (fmt_wire_more(&inner) && fmt_wire_next(&inner, &g, &ignored) == TD_OK)
    if (g.number == TEXT) return base_str_is((base_str){(const char *)g.bytes.at, fmt_wire_left(&g.bytes)}, text);
  return false;
}

bool quant_ints(const quant_node *n, const char *name, int64_t *values, int32_t count) {
  enum { LIST = 8 };
  td_error ignored;
  fmt_wire inner, list;
  fmt_field g;
  uint64_t bits;
  int32_t read = 0;
  if (!find_message(n, name, &inner)) return false;
  while (fmt_wire_more(&inner) && fmt_wire_next(&inner, &g, &ignored) == TD_OK) {
    if (g.number != LIST || fmt_field_scalars(&g, FMT_VARINT, name, &list, &ignored) != TD_OK) continue;
    while (fmt_wire_more(&list) && fmt_wire_scalar(&list, FMT_VARINT, &bits, &ignored) == TD_OK && read < count)
      values[read++] = (int64_t)bits;
  }
  return read == count;
}

int64_t quant_int(const quant_node *n, const char *name, int64_t absent) {
  uint64_t bits;
  return find_attribute(n, name, 3, &bits) ? (int64_t)bits : absent;
}

int64_t quant_last(const quant_node *n, const char *name, int64_t absent) {
  uint64_t bits;
  return find_attribute(n, name, 8, &bits) ? (int64_t)bits : absent;
}

float quant_float(const quant_node *n, const char *name, float absent) {
  uint64_t bits;
  if (!find_attribute(n, name, 2, &bits)) return absent;
  const uint32_t low = (uint32_t)bits;
  float value;
  memcpy(&value, &low, sizeof value);
  return value;
}

const char *quant_in(const quant_node *n, uint32_t i) { return i < n->in.count ? n->in.at[i] : ""; }

bool quant_is_of(const quant_node *n, const char *const *list) {
  while (*list && strcmp(n->op, *list) != 0) list++;
  return *list && (!*n->domain || strcmp(n->domain, "ai.onnx") == 0);
}

bool quant_is_op(const quant_node *n, const char *op) { return quant_is_of(n, (const char *const[]){op, NULL}); }

bool quant_is_constant(const quant_model *m, const char *name) {
  return !*name || base_map_get(&m->weights, base_str_of(name)) != NULL;
}

uint32_t quant_readers(const quant_model *m, const char *name) {
  uint32_t readers = 0;
  for (uint32_t i = 0; i < m->outputs.count; i++) readers += strcmp(m->outputs.at[i], name) == 0;
  for (uint32_t i = 0; i < m->nodes.count; i++)
    for (uint32_t k = 0; k < m->nodes.at[i].in.count; k++) readers += strcmp(m->nodes.at[i].in.at[k], name) == 0;
  return readers;
}

const quant_node *quant_producer(const quant_model *m, const char *name) {
  const uint32_t *at = base_map_get(&m->producers, base_str_of(name));
  return at ? &m->nodes.at[*at] : NULL;
}

/* The matrix or window of a product, also behind a transposition; `axis`: of what comes out. Gemm: as a linear layer is
 * written. */
bool quant_product_weight(const quant_model *m, const quant_node *n, base_tensor *w, int32_t *axis) {
  const bool conv = quant_is_op(n, "Conv"), gemm = quant_is_op(n, "Gemm");
  if ((!conv && !gemm && !quant_is_op(n, "MatMul")) || quant_is_constant(m, quant_in(n, 0))) return false;
  if (gemm && (quant_int(n, "transA", 0) || quant_float(n, "alpha", 1) != 1 || quant_float(n, "beta", 1) != 1))
    return false;
  const bool direct = quant_weight(m, quant_in(n, 1), w);
  const quant_node *turn = direct ? NULL : quant_producer(m, quant_in(n, 1));
  const bool transposed =
      turn && quant_is_op(n, "MatMul") && quant_is_op(turn, "Transpose") && quant_last(turn, "perm", 0) == 0;
  if (!direct && !(transposed && quant_weight(m, quant_in(turn, 0), w))) return false;
  *axis = conv || transposed || (gemm && quant_int(n, "transB", 0)) ? 0 : 1;
  return base_tensor_numel(w) > 0 && (conv ? w->rank >= 3 : w->rank == 2);
}

/* [k, n] from [n, k]. */
bool quant_transpose(const quant_model *m, const base_tensor *t, base_tensor *transposed) {
  const int64_t n = t->dims[0], k = t->dims[1], dims[] = {k, n};
  float *to = base_new(m->arena, float, (size_t)(n * k));
  if (!to) return false;
  for (int64_t i = 0; i < n * k; i++) to[i % k * n + i / k] = ((const base_f32 *)t->data)[i];
  *transposed = base_tensor_of(to, TD_F32, 2, dims);
  return true;
}
