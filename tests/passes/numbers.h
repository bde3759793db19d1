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

/* What is not finite among the elements of one input: `value` at element `at`, or at all (-1). */
typedef struct special {
  uint32_t input;
  int64_t at;
  double value;
} special;

/* Numbers between -1 and 1 for every input, the last of each fifth hidden; `odd` (may be NULL) among them. */
static inline void feed_with(rig *r, const special *odd) {
  for (uint32_t i = 0; i < r->plan->inputs.count; i++) {
    const plan_slot *slot = &r->plan->slots.at[r->plan->inputs.at[i].slot];
    int64_t count = 1;
    for (int32_t d = 0; d < slot->rank; d++) count *= slot->dims[d];
    base_tensor t = base_tensor_of(base_arena_alloc(r->arena, (size_t)count * 8), slot->dtype, slot->rank, slot->dims);
    for (int64_t k = 0; k < count; k++) {
      double x = (double)((k * 37 + i * 11 + 5) % 41) / 20 - 1;
      if (odd && odd->input == i && (odd->at < 0 || odd->at == k)) x = odd->value;
      base_store_f64(slot->dtype, t.data, k, slot->dtype == TD_BOOL ? isnan(x) || k % 5 == 4 : x);
    }
    base_value value = {.kind = BASE_TENSOR, .tensor = t};
    if (run_set_input(r->session, i, &value, &r->err) != TD_OK) fail_msg("%s", r->err.text);
  }
}

static inline void feed(rig *r) { feed_with(r, NULL); }

/* Close to each other, or neither is finite: which of the two it is depends on the order of sums. */
static inline bool same_number(double x, double y) {
  return isfinite(x) && isfinite(y) ? fabs(x - y) <= 1e-5 : isfinite(x) == isfinite(y);
}

static inline void expect_same_outputs(rig *plain, rig *fast, const special *odd, const char *text) {
  feed_with(plain, odd), feed_with(fast, odd);
  rig_run(plain), rig_run(fast);
  const base_tensor *a = rig_output(plain, 0), *b = rig_output(fast, 0);
  assert_int_equal(base_tensor_numel(a), base_tensor_numel(b));
  for (int64_t i = 0; i < base_tensor_numel(a); i++) {
    double x = base_load_f64(a->dtype, a->data, i), y = base_load_f64(b->dtype, b->data, i);
    if (same_number(x, y)) continue;
    if (odd) printf("input %u has %g at %lld\n", odd->input, odd->value, (long long)odd->at);
    fail_msg("element %lld: %g, not %g:\n%s", (long long)i, y, x, text);
  }
}

/* `odd`: what is not finite stays where it is, too: each input in turn has some at one element, and at all. `isa`:
 * BASE_ISA_* that kernels may use. */
static inline void expect_alike(const char *text, uint32_t isa, bool odd) {
  static const double values[] = {NAN, INFINITY, -INFINITY};
  rig plain, fast;
  rig_open(&plain, text, "eager");
  rig_open_at(&fast, text, NULL, "native", NULL, isa);
  expect_same_outputs(&plain, &fast, NULL, text);
  for (uint32_t i = 0; odd && i < plain.plan->inputs.count; i++) {
    const td_dtype dtype = plain.plan->slots.at[plain.plan->inputs.at[i].slot].dtype;
    if (dtype != TD_F32 && dtype != TD_BOOL) continue;
    for (uint32_t v = 0; v < sizeof values / sizeof *values; v++)
      for (int64_t at = -1; at < 12; at += 3) expect_same_outputs(&plain, &fast, &(special){i, at, values[v]}, text);
  }
  rig_close(&plain);
  rig_close(&fast);
}

static inline void expect_same_numbers_at(const char *text, uint32_t isa) { expect_alike(text, isa, true); }

static inline void expect_same_numbers(const char *text) {
  sys_machine machine;
  sys_machine_read(&machine);
  expect_same_numbers_at(text, machine.isa | BASE_ISA_VECTOR);
}

/* For what says otherwise where something is not finite. */
static inline void expect_same_finite_numbers(const char *text) {
  sys_machine machine;
  sys_machine_read(&machine);
  expect_alike(text, machine.isa | BASE_ISA_VECTOR, false);
}

#endif
