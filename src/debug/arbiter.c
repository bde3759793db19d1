/* arbiter.c -- is what stands between two runs an error, or rounding? */
#include <math.h>

#include "debug/compare_priv.h"

/* ---- the runs ---- */

static bool is_narrow(td_dtype dtype) { return dtype == TD_F32 || dtype == TD_F16 || dtype == TD_BF16; }

/* A copy of the value, its floats as `to` (TD_INVALID: as they are), each changed by at most `step` in relation: which
 * by how much is a fixed function of place and `salt`. */
static td_status change(base_arena *arena, const td_named_value *from, td_dtype to, double step, uint32_t salt,
                        td_named_value *made, td_error *err) {
  *made = *from;
  if (!debug_is_tensor(from) || !is_narrow(from->items->dtype)) return TD_OK;
  td_tensor *t = base_new(arena, td_tensor, 1);
  if (!t) return base_no_memory(err, "an input");
  *t = *from->items;
  if (to) t->dtype = to;
  const base_tensor view = base_tensor_of(NULL, t->dtype, t->rank, t->dims);
  t->data = base_arena_alloc_aligned(arena, base_tensor_bytes(&view) + 1, 64);
  if (!t->data) return base_no_memory(err, "an input");
  uint32_t state = salt * 2654435761u + 1;
  for (int64_t i = 0, count = base_tensor_numel(&view); i < count; i++) {
    state = state * 1664525u + 1013904223u;
    const double by = step * ((double)(state >> 8) / (1 << 23) - 1);
    base_store_f64(t->dtype, t->data, i, base_load_f64(from->items->dtype, from->items->data, i) * (1 + by));
  }
  made->items = t;
  return TD_OK;
}

/* The truth's way with changed inputs. */
static td_status changed_way(const debug_arbiter *a, td_dtype to, double step, uint32_t salt, td_way *way,
                             td_error *err) {
  *way = a->truth;
  td_named_value *made = base_new(a->c->arena, td_named_value, way->input_count + 1);
  if (!made) return base_no_memory(err, "inputs");
  for (size_t i = 0; i < way->input_count; i++)
    TRY(change(a->c->arena, &way->inputs[i], to, step, salt, &made[i], err));
  way->inputs = made;
  return TD_OK;
}

static bool run_exact(debug_arbiter *a) {
  td_way way;
  td_error unused;
  if (changed_way(a, TD_F64, 0, 0, &way, &unused) != TD_OK) return false;
  way.float64 = 1;
  return debug_run(a->c, &way, &a->exact, &unused) == TD_OK;
}

static bool run_noise(debug_arbiter *a) {
  td_error unused;
  for (uint32_t i = 0; i < DEBUG_NOISE_RUNS; i++) {
    td_way way;
    if (changed_way(a, TD_INVALID, 0x1p-22, i + 1, &way, &unused) != TD_OK ||
        debug_run(a->c, &way, &a->noise[i], &unused) != TD_OK)
      return false;
  }
  return true;
}

void debug_arbiter_prepare(debug_arbiter *a) {
  if (a->asked) return;
  a->asked = true;
  a->has_exact = run_exact(a);
  a->has_noise = run_noise(a);
}

void debug_arbiter_close(debug_arbiter *a) {
  debug_release(a->c, &a->exact);
  for (uint32_t i = 0; i < DEBUG_NOISE_RUNS; i++) debug_release(a->c, &a->noise[i]);
}

/* ---- the rules ---- */

static bool explained_by_exact(const debug_arbiter *a, const td_named_value *got, const td_named_value *expected,
                               size_t index, const td_difference *d) {
  if (!a->has_exact || index >= a->exact.count) return false;
  const td_named_value *exact = &a->exact.values[index];
  const double by_got = debug_distance(got, exact), by_expected = debug_distance(expected, exact);
  const bool few = d->count < 1000 || expected->items->dtype != TD_F32 || a->tolerance->rtol >= 0.02;
  return by_got >= 0 && by_expected >= 0 &&
         by_got <= (few ? 3 : 2) * by_expected + a->tolerance->rtol / 10 * fmin(d->largest, 1);
}

static bool explained_by_noise(const debug_arbiter *a, const td_named_value *got, const td_named_value *expected,
                               size_t index) {
  double most = 0;
  for (uint32_t i = 0; a->has_noise && i < DEBUG_NOISE_RUNS; i++)
    if (index < a->noise[i].count) most = fmax(most, debug_distance(&a->noise[i].values[index], expected));
  const double by = debug_distance(got, expected);
  return by >= 0 && by <= 3 * most;
}

/* Can it be rounding at all? */
static bool may_round(const debug_arbiter *a, const td_named_value *got, const td_difference *d) {
  if (a->tolerance->rtol == 0 && a->tolerance->atol == 0) return false; /* bits were asked for */
  return !d->other_type && !d->unlike && debug_is_tensor(got);
}

bool debug_is_exact_rounding(debug_arbiter *a, const td_results *got, const td_results *expected, size_t index) {
  const td_named_value *mine = &got->values[index], *other = &expected->values[index];
  const td_difference d = debug_difference(mine, other, a->tolerance);
  if (!may_round(a, mine, &d)) return false;
  debug_arbiter_prepare(a);
  return explained_by_exact(a, mine, other, index, &d);
}

bool debug_is_rounding(debug_arbiter *a, const td_results *got, const td_results *expected, size_t index) {
  const td_named_value *mine = &got->values[index], *other = &expected->values[index];
  const td_difference d = debug_difference(mine, other, a->tolerance);
  return debug_is_exact_rounding(a, got, expected, index) ||
         (may_round(a, mine, &d) && explained_by_noise(a, mine, other, index));
}
