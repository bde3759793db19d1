/* build.h -- ONNX models of a few nodes, and samples for them. */
#ifndef TESTS_QUANTIZE_BUILD_H
#define TESTS_QUANTIZE_BUILD_H
#include "cli/fixture.h"

/* From -0.5 to 0.5. */
static inline float noise(uint32_t *seed) {
  *seed = *seed * 1664525 + 1013904223;
  return (float)(*seed >> 8) / (1 << 24) - 0.5F;
}

static inline void put_weight(base_text *graph, const char *name, float *values, int32_t rank, const int64_t *dims) {
  base_text t = {.allocator = &base_libc_allocator};
  const base_tensor tensor = base_tensor_of(values, TD_F32, rank, dims);
  fmt_put_tensor_proto(&t, name, &tensor);
  put_message(graph, 5, &t);
}

#define IN(...) ((const char *const[]){__VA_ARGS__, NULL})
/* A node named after its result. */
static inline base_text step_of(const char *op, const char *const *in, const char *out) {
  base_text node = {.allocator = &base_libc_allocator};
  for (; *in; in++) fmt_put_str(&node, 1, *in);
  fmt_put_str(&node, 2, out);
  fmt_put_str(&node, 3, out);
  fmt_put_str(&node, 4, op);
  return node;
}

static inline void put_step(base_text *graph, const char *op, const char *const *in, const char *out) {
  base_text node = step_of(op, in, out);
  put_message(graph, 1, &node);
}

static inline void put_int_attribute(base_text *node, const char *name, int64_t value) {
  base_text attribute = {.allocator = &base_libc_allocator};
  fmt_put_str(&attribute, 1, name);
  fmt_put_int(&attribute, 3, value);
  fmt_put_int(&attribute, 20, 2);
  put_message(node, 5, &attribute);
}

static inline void save_graph(const char *path, base_text *graph, int64_t version) {
  base_text model = {.allocator = &base_libc_allocator}, opset = model;
  fmt_put_int(&model, 1, 8);
  fmt_put_str(&opset, 1, "");
  fmt_put_int(&opset, 2, version);
  put_message(&model, 8, &opset);
  put_message(&model, 7, graph);
  save(path, &model);
  base_text_free(&model);
}

/* samples/0.npy, ... of noise. */
static inline void write_samples(int samples, int32_t rank, const int64_t *dims) {
  static float x[4096];
  uint32_t seed = 11;
  assert_int_equal(system("mkdir -p samples"), 0);
  for (int s = 0; s < samples; s++) {
    char path[32];
    snprintf(path, sizeof path, "samples/%d.npy", s);
    const base_tensor t = base_tensor_of(x, TD_F32, rank, dims);
    assert_true(base_tensor_numel(&t) <= 4096);
    for (int64_t i = 0; i < base_tensor_numel(&t); i++) x[i] = 4 * noise(&seed);
    save_npy(path, &t);
  }
}
#endif
