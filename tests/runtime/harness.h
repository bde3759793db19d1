/* harness.h -- a graph given as text, compiled and run: what the tests of passes, compile and runtime share. Tensors
 * are written as "2x3: 1 2 3 4 5 6" ("": rank 0); where elements are left out, counting goes on from the last one. */
#ifndef TESTS_RUNTIME_HARNESS_H
#define TESTS_RUNTIME_HARNESS_H
#include "test.h"

#include <stdio.h>

#include "compile/compile.h"
#include "ops/ops.h"
#include "runtime/runtime.h"
#include "sys/sys.h"

typedef struct rig {
  base_counting counting;
  td_allocator allocator; /* of everything but the rig's own arena */
  base_arena *arena;
  ir_graph *graph;
  plan_exe *plan;
  run_session *session;
  td_error err;
} rig;

/* `segment` (may be NULL) is what constants "@0+N" lie in. */
static inline ir_graph *parse_graph_over(base_arena *arena, const char *text, const ir_segment *segment,
                                         const td_allocator *allocator) {
  td_error err;
  ir_graph *graph = NULL;
  if (ir_parse(allocator, ops_set(arena), text, strlen(text), segment, segment != NULL, &graph, &err) != TD_OK)
    fail_msg("%s at byte %lld: %.60s", err.text, (long long)err.offset, err.offset >= 0 ? text + err.offset : "");
  return graph;
}

static inline ir_graph *parse_graph(base_arena *arena, const char *text, const td_allocator *allocator) {
  return parse_graph_over(arena, text, NULL, allocator);
}

/* `isa`: BASE_ISA_* that kernels may use. */
static inline void rig_open_as(rig *r, const char *text, const ir_segment *segment, const compile_setting *setting) {
  *r = (rig){.counting = {.inner = &base_libc_allocator}};
  r->allocator = base_counting_allocator(&r->counting);
  r->arena = base_arena_new(&base_libc_allocator);
  r->graph = parse_graph_over(r->arena, text, segment, &r->allocator);
  if (compile_graph(r->graph, setting, &r->allocator, NULL, &r->plan, &r->err) != TD_OK)
    fail_msg("%s: %s", r->err.name, r->err.text);
  if (run_session_new(r->plan, &r->allocator, NULL, &r->session, &r->err) != TD_OK) fail_msg("%s", r->err.text);
}

static inline void rig_open_at(rig *r, const char *text, const ir_segment *segment, const char *backend,
                               const char *disabled, uint32_t isa) {
  const compile_setting setting = {
      .backend = compile_find_backend(backend), .options.disabled_passes = disabled, .isa = isa};
  rig_open_as(r, text, segment, &setting);
}

static inline void rig_open_over(rig *r, const char *text, const ir_segment *segment, const char *backend,
                                 const char *disabled) {
  sys_machine machine;
  sys_machine_read(&machine);
  rig_open_at(r, text, segment, backend, disabled, machine.isa | BASE_ISA_VECTOR);
}

static inline void rig_open_without(rig *r, const char *text, const char *backend, const char *disabled) {
  rig_open_over(r, text, NULL, backend, disabled);
}

static inline void rig_open(rig *r, const char *text, const char *backend) { rig_open_without(r, text, backend, NULL); }

/* Everything came back. */
static inline void rig_close(rig *r) {
  run_session_free(r->session);
  plan_free(r->plan);
  ir_graph_free(r->graph);
  base_arena_free(r->arena);
  assert_int_equal(r->counting.live, 0);
}

static inline base_tensor tensor_from(base_arena *arena, td_dtype dtype, const char *text) {
  int64_t dims[BASE_MAX_RANK], count = 1;
  int32_t rank = 0;
  char *at = base_arena_text(arena, text);
  for (; *at && *at != ':'; at += *at == 'x') {
    dims[rank] = strtoll(at, &at, 10);
    count *= dims[rank++];
  }
  size_t bytes;
  assert_true(base_dtype_bytes(dtype, count, &bytes));
  base_tensor t = base_tensor_of(base_arena_alloc_aligned(arena, bytes + 1, 64), dtype, rank, dims);
  double value = 0;
  if (*at) at++;
  for (int64_t i = 0; i < count; i++) {
    char *stop;
    double next = strtod(at, &stop);
    value = stop > at ? next : value + 1;
    at = stop;
    base_store_f64(dtype, t.data, i, value);
  }
  return t;
}

static inline td_status rig_try_feed(rig *r, uint32_t input, td_dtype dtype, const char *text) {
  base_value value = {.kind = BASE_TENSOR, .tensor = tensor_from(r->arena, dtype, text)};
  return run_set_input(r->session, input, &value, &r->err);
}

static inline void rig_feed(rig *r, uint32_t input, td_dtype dtype, const char *text) {
  if (rig_try_feed(r, input, dtype, text) != TD_OK) fail_msg("%s", r->err.text);
}

static inline void rig_run(rig *r) {
  if (run_session_run(r->session, &r->err) != TD_OK) fail_msg("%s: %s", r->err.name, r->err.text);
}

static inline const base_value *rig_value(rig *r, uint32_t index) {
  const base_value *value;
  assert_int_equal(run_output(r->session, index, &value, &r->err), TD_OK);
  return value;
}

static inline const base_tensor *rig_output(rig *r, uint32_t index) {
  const base_value *value = rig_value(r, index);
  assert_int_equal(value->kind, BASE_TENSOR);
  assert_true(base_tensor_contiguous(&value->tensor));
  return &value->tensor;
}

static inline void expect_tensor(rig *r, const base_tensor *got, const char *expected) {
  base_tensor want = tensor_from(r->arena, got->dtype, expected);
  char have[128];
  bool same = want.rank == got->rank && memcmp(want.dims, got->dims, (size_t)want.rank * sizeof *want.dims) == 0;
  if (!same) fail_msg("%s is not %.40s", base_tensor_describe(got, have, sizeof have), expected);
  for (int64_t i = 0; i < base_tensor_numel(got); i++) {
    double a = base_load_f64(got->dtype, got->data, i), b = base_load_f64(want.dtype, want.data, i);
    if (a != b)
      fail_msg("element %lld of %s is %g, not %g", (long long)i, base_tensor_describe(got, have, sizeof have), a, b);
  }
}

static inline void expect_output(rig *r, uint32_t index, const char *expected) {
  expect_tensor(r, rig_output(r, index), expected);
}
#endif
