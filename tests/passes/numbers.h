/* numbers.h -- that a graph given as text gives the same numbers with and without passes and kernels. */
#ifndef TESTS_PASSES_NUMBERS_H
#define TESTS_PASSES_NUMBERS_H
#include "passes/change.h"

#include <math.h>

static inline uint32_t count_of(const char *text, const char *word) {
  uint32_t count = 0;
  for (const char *at = text; (at = strstr(at, word)); at++) count++;
  return count;
}

/* Numbers between -1 and 1 for every input, the last of each fifth hidden. */
static inline void feed(rig *r) {
  for (uint32_t i = 0; i < r->plan->inputs.count; i++) {
    const plan_slot *slot = &r->plan->slots.at[r->plan->inputs.at[i].slot];
    int64_t count = 1;
    for (int32_t d = 0; d < slot->rank; d++) count *= slot->dims[d];
    base_tensor t = base_tensor_of(base_arena_alloc(r->arena, (size_t)count * 8), slot->dtype, slot->rank, slot->dims);
    for (int64_t k = 0; k < count; k++) {
      double x = (double)((k * 37 + i * 11 + 5) % 41) / 20 - 1;
      base_store_f64(slot->dtype, t.data, k, slot->dtype == TD_BOOL ? k % 5 == 4 : x);
    }
    base_value value = {.kind = BASE_TENSOR, .tensor = t};
    if (run_set_input(r->session, i, &value, &r->err) != TD_OK) fail_msg("%s", r->err.text);
  }
}

/* `isa`: BASE_ISA_* that kernels may use. */
static inline void expect_same_numbers_at(const char *text, uint32_t isa) {
  rig plain, fast;
  rig_open(&plain, text, "eager");
  rig_open_at(&fast, text, NULL, "native", NULL, isa);
  feed(&plain), feed(&fast);
  rig_run(&plain), rig_run(&fast);
  const base_tensor *a = rig_output(&plain, 0), *b = rig_output(&fast, 0);
  assert_int_equal(base_tensor_numel(a), base_tensor_numel(b));
  for (int64_t i = 0; i < base_tensor_numel(a); i++) {
    double x = base_load_f64(a->dtype, a->data, i), y = base_load_f64(b->dtype, b->data, i);
    if (!(fabs(x - y) <= 1e-5)) fail_msg("element %lld: %g, not %g:\n%s", (long long)i, y, x, text);
  }
  rig_close(&plain);
  rig_close(&fast);
}

static inline void expect_same_numbers(const char *text) {
  sys_machine machine;
  sys_machine_read(&machine);
  expect_same_numbers_at(text, machine.isa | BASE_ISA_VECTOR);
}

#endif
