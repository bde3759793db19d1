/* onnx_build.h -- writes small ModelProtos for tests. Messages are base_texts on base_libc_allocator; a nested message
 * is consumed (freed) by what it is put into. */
#ifndef TESTS_IMPORT_ONNX_BUILD_H
#define TESTS_IMPORT_ONNX_BUILD_H
#include "test.h"

#include <stdio.h>

#include "base/lack.h"
#include "fmt/tensor_proto.h"
#include "import/import.h"
#include "ops/ops.h"

static inline base_text message(void) { return (base_text){.allocator = &base_libc_allocator}; }

static inline void put(base_text *to, uint32_t field, base_text *nested) {
  fmt_put_bytes(to, field, nested->at ? nested->at : "", nested->length);
  base_text_free(nested);
}

/* "a,b,,c" as one string field each. "" is none. */
static inline void put_names(base_text *to, uint32_t field, const char *names) {
  for (const char *at = names; *names && at;) {
    const char *comma = strchr(at, ',');
    fmt_put_bytes(to, field, at, comma ? (size_t)(comma - at) : strlen(at));
    at = comma ? comma + 1 : NULL;
  }
}

static inline void put_attr_int(base_text *attrs, const char *name, int64_t value) {
  base_text a = message();
  fmt_put_str(&a, 1, name);
  fmt_put_int(&a, 3, value);
  fmt_put_int(&a, 20, 2);
  put(attrs, 5, &a);
}

static inline void put_attr_float(base_text *attrs, const char *name, float value) {
  base_text a = message();
  fmt_put_str(&a, 1, name);
  fmt_put_float(&a, 2, value);
  fmt_put_int(&a, 20, 1);
  put(attrs, 5, &a);
}

/* The node's `name` is the function's attribute `ref`. */
static inline void put_attr_ref(base_text *attrs, const char *name, const char *ref, int64_t type) {
  base_text a = message();
  fmt_put_str(&a, 1, name);
  fmt_put_int(&a, 20, type);
  fmt_put_str(&a, 21, ref);
  put(attrs, 5, &a);
}

static inline void put_attr_graph(base_text *attrs, const char *name, base_text *graph) {
  base_text a = message();
  fmt_put_str(&a, 1, name);
  put(&a, 6, graph);
  fmt_put_int(&a, 20, 5);
  put(attrs, 5, &a);
}

static inline void put_attr_tensor(base_text *attrs, const char *name, uint32_t field, base_text *tensor) {
  base_text a = message();
  fmt_put_str(&a, 1, name);
  put(&a, field, tensor);
  fmt_put_int(&a, 20, field == 5 ? 4 : 11);
  put(attrs, 5, &a);
}

/* A node of a graph (field 1) or of a function (field 7). `attrs`: field 5 messages, consumed; or NULL. */
static inline void put_node_as(base_text *to, uint32_t field, const char *domain, const char *op, const char *name,
                               const char *in, const char *out, base_text *attrs) {
  base_text n = message();
  put_names(&n, 1, in);
  put_names(&n, 2, out);
  if (*name) fmt_put_str(&n, 3, name);
  fmt_put_str(&n, 4, op);
  if (attrs) base_text_add(&n, attrs->at, attrs->length);
  if (*domain) fmt_put_str(&n, 7, domain);
  if (attrs) base_text_free(attrs);
  put(to, field, &n);
}

static inline void put_node(base_text *graph, const char *op, const char *name, const char *in, const char *out) {
  put_node_as(graph, 1, "", op, name, in, out, NULL);
}

/* A value of f32, or of the ONNX element type given: input (11) or output (12). A dim of -1 has no size; -2 is
 * "batch", -3 "?", -4 "None"; rank -1 has no shape. */
static inline void put_value_as(base_text *graph, uint32_t field, const char *name, int64_t element, int32_t rank,
                                const int64_t *dims) {
  static const char *const names[] = {"batch", "?", "None"};
  base_text info = message(), type = message(), tensor = message(), shape = message();
  fmt_put_int(&tensor, 1, element);
  for (int32_t i = 0; i < rank; i++) {
    base_text dim = message();
    if (dims[i] >= 0) fmt_put_int(&dim, 1, dims[i]);
    if (dims[i] <= -2) fmt_put_str(&dim, 2, names[-2 - dims[i]]);
    put(&shape, 1, &dim);
  }
  if (rank >= 0) put(&tensor, 2, &shape);
  put(&type, 1, &tensor);
  fmt_put_str(&info, 1, name);
  put(&info, 2, &type);
  put(graph, field, &info);
}

static inline void put_input(base_text *graph, const char *name, int32_t rank, const int64_t *dims) {
  put_value_as(graph, 11, name, 1, rank, dims);
}
#define DIMS(...) \
  (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

static inline void put_output(base_text *graph, const char *name) { put_value_as(graph, 12, name, 1, -1, NULL); }

static inline base_text float_tensor(const char *name, uint32_t count, const float *data) {
  base_text t = message();
  fmt_put_int(&t, 1, count);
  fmt_put_int(&t, 2, 1);
  fmt_put_str(&t, 8, name);
  fmt_put_bytes(&t, 9, data, count * sizeof *data);
  return t;
}

static inline void put_floats(base_text *graph, const char *name, uint32_t count, const float *data) {
  base_text t = float_tensor(name, count, data);
  put(graph, 5, &t);
}

/* An initializer of an ONNX element type. */
static inline void put_raw(base_text *graph, const char *name, int64_t element, int32_t rank, const int64_t *dims,
                           const void *data, size_t bytes) {
  base_text t = message();
  for (int32_t i = 0; i < rank; i++) fmt_put_int(&t, 1, dims[i]);
  fmt_put_int(&t, 2, element);
  fmt_put_str(&t, 8, name);
  fmt_put_bytes(&t, 9, data, bytes);
  put(graph, 5, &t);
}

static inline void put_opset(base_text *to, uint32_t field, const char *domain, int64_t version) {
  base_text o = message();
  if (*domain) fmt_put_str(&o, 1, domain);
  fmt_put_int(&o, 2, version);
  put(to, field, &o);
}

/* A model of IR version 8 around `graph`. `functions`: field 25 messages, or NULL. Both are consumed. */
static inline base_text model_at(int64_t opset, base_text *graph, base_text *functions) {
  base_text m = message();
  fmt_put_int(&m, 1, 8);
  put(&m, 7, graph);
  put_opset(&m, 8, "", opset);
  put_opset(&m, 8, "local", 1);
  if (functions) base_text_add(&m, functions->at, functions->length);
  if (functions) base_text_free(functions);
  return m;
}

static inline base_text model_of(base_text *graph, base_text *functions) { return model_at(17, graph, functions); }

/* ---- importing ---- */

static inline td_status import_bytes(const void *bytes, size_t size, import_open open, void *user, base_arena *arena,
                                     ir_graph **graph, td_error *err) {
  import_source source = {
      .bytes = bytes, .size = size, .file = "net.onnx", .format = "onnx", .open = open, .user = user};
  const ir_opset *ops = ops_set(arena);
  assert_non_null(ops);
  *err = (td_error){0};
  td_status status = import_model(&source, ops, &base_libc_allocator, graph, err);
  assert_int_equal(status == TD_OK, *graph != NULL);
  return status;
}

/* What the model (consumed) imports as, a text to be freed. */
static inline base_text imported_text(base_text *model) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  base_text text = message();
  ir_graph *graph;
  td_error err;
  td_status status = import_bytes(model->at, model->length, NULL, NULL, arena, &graph, &err);
  if (status != TD_OK) fail_msg("%s: %s", err.name, err.text);
  assert_int_equal(ir_print(graph, &text), TD_OK);
  base_text_free(model);
  ir_graph_free(graph);
  base_arena_free(arena);
  return text;
}

/* The model (consumed) imports as exactly this text. */
static inline void expect_text(base_text *model, const char *expected) {
  base_text text = imported_text(model);
  assert_string_equal(text.at, expected);
  base_text_free(&text);
}

/* The model (consumed) is refused with `status`; name and text of the error have these parts. */
static inline void expect_error(base_text *model, td_status status, const char *name, const char *text) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph;
  td_error err;
  assert_int_equal(import_bytes(model->at, model->length, NULL, NULL, arena, &graph, &err), status);
  if (!strstr(err.name, name) || !strstr(err.text, text)) fail_msg("\"%s\": \"%s\"", err.name, err.text);
  base_text_free(model);
  base_arena_free(arena);
}

static inline td_status import_within(const td_allocator *allocator, void *user) {
  const base_text *model = user;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  const import_source source = {.bytes = model->at, .size = model->length, .file = "net.onnx", .format = "onnx"};
  ir_graph *graph = NULL;
  td_error err = {0};
  const td_status status = import_model(&source, ops_set(arena), allocator, &graph, &err);
  ir_graph_free(graph);
  base_arena_free(arena);
  return status;
}

/* The model (consumed) is imported while each allocation fails in turn. */
static inline void import_without_memory(base_text *model) {
  assert_true(fail_each_allocation(import_within, model, false) > 0);
  base_text_free(model);
}
#endif
