/* nonfinite.h -- two ways to run a graph give the same numbers; what is NaN or infinite in one is so in the other, and
 * nowhere else. */
#ifndef TESTS_PASSES_NONFINITE_H
#define TESTS_PASSES_NONFINITE_H
#include "runtime/harness.h"

#include <math.h>

/* What is not finite among the elements of one input: `value` at element `at`, or at all (-1). */
typedef struct special {
  uint32_t input;
  int64_t at;
  double value;
} special;

enum { OPEN_SIZE = 4, FEW_ELEMENTS = 1 << 16 }; /* what sizes are that a graph leaves open; of an input */

/* Numbers between -1 and 1, the last of each fifth hidden; `odd` (may be NULL) among them. Whole numbers are 0 and 1,
 * to be indices, too. NULL data: the graph does not say what it takes, or it would be too much. */
static inline base_tensor numbers_of(rig *r, uint32_t input, const special *odd) {
  const plan_slot *slot = &r->plan->slots.at[r->plan->inputs.at[input].slot];
  int64_t count = 1, dims[BASE_MAX_RANK];
  if (slot->rank < 0 || slot->dtype == TD_INVALID) return (base_tensor){0};
  for (int32_t d = 0; d < slot->rank; d++) {
    dims[d] = base_dim_known(slot->dims[d]) ? slot->dims[d] : OPEN_SIZE;
    if (dims[d] > FEW_ELEMENTS || (count *= dims[d]) > FEW_ELEMENTS) return (base_tensor){0};
  }
  base_tensor t = base_tensor_of(base_arena_alloc(r->arena, (size_t)count * 16 + 1), slot->dtype, slot->rank, dims);
  for (int64_t k = 0; k < count; k++) {
    double x = (double)((k * 37 + input * 11 + 5) % 41) / 20 - 1;
    if (odd && odd->input == input && (odd->at < 0 || odd->at == k)) x = odd->value;
    if (slot->dtype == TD_BOOL) x = isnan(x) || k % 5 == 4;
    if (base_is_int(slot->dtype)) x = (double)(k % 2);
    base_store_f64(slot->dtype, t.data, k, x);
  }
  return t;
}

static inline bool try_numbers(rig *r, const special *odd) {
  for (uint32_t i = 0; i < r->plan->inputs.count; i++) {
    base_value value = {.kind = BASE_TENSOR, .tensor = numbers_of(r, i, odd)};
    if (!value.tensor.data || run_set_input(r->session, i, &value, &r->err) != TD_OK) return false;
  }
  return run_session_run(r->session, &r->err) == TD_OK;
}

/* Close to each other, or neither is finite: which of the two it is depends on the order of sums. */
static inline bool same_number(double x, double y) {
  const double size = fmax(fmax(fabs(x), fabs(y)), 1);
  return isfinite(x) && isfinite(y) ? fabs(x - y) <= 1e-5 * size : isfinite(x) == isfinite(y);
}

static inline void expect_same_elements(const base_tensor *a, const base_tensor *b, const special *odd,
                                        const char *text) {
  assert_int_equal(base_tensor_numel(a), base_tensor_numel(b));
  for (int64_t i = 0; i < base_tensor_numel(a); i++) {
    double x = base_load_f64(a->dtype, a->data, i), y = base_load_f64(b->dtype, b->data, i);
    if (same_number(x, y)) continue;
    if (odd) printf("input %u has %g at %lld\n", odd->input, odd->value, (long long)odd->at);
    fail_msg("element %lld: %g, not %g:\n%s", (long long)i, y, x, text);
  }
}

/* What both gave in their last runs. */
static inline void expect_same_results(rig *plain, rig *fast, const special *odd, const char *text) {
  assert_int_equal(plain->plan->outputs.count, fast->plan->outputs.count);
  for (uint32_t i = 0; i < plain->plan->outputs.count; i++)
    if (rig_value(plain, i)->kind == BASE_TENSOR)
      expect_same_elements(rig_output(plain, i), rig_output(fast, i), odd, text);
}

/* Each input in turn has NaN and infinities at some of its elements, and at all. False: the graph's own numbers are
 * needed to run it. */
static inline bool expect_same_rigs(rig *plain, rig *fast, const char *text, bool odd) {
  static const double values[] = {NAN, INFINITY, -INFINITY};
  if (!try_numbers(plain, NULL)) return false;
  if (!try_numbers(fast, NULL)) fail_msg("%s: %s:\n%s", fast->err.name, fast->err.text, text);
  expect_same_results(plain, fast, NULL, text);
  for (uint32_t i = 0; odd && i < plain->plan->inputs.count; i++) {
    const td_dtype dtype = plain->plan->slots.at[plain->plan->inputs.at[i].slot].dtype;
    if (dtype != TD_F32 && dtype != TD_BOOL) continue;
    for (uint32_t v = 0; v < sizeof values / sizeof *values; v++)
      for (int64_t at = -1; at < 12; at += 3) {
        const special s = {i, at, values[v]};
        if (!try_numbers(plain, &s) || !try_numbers(fast, &s)) fail_msg("%s%s", plain->err.text, fast->err.text);
        expect_same_results(plain, fast, &s, text);
      }
  }
  return true;
}
#endif
