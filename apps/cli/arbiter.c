/* arbiter.c -- is what stands between two runs an error, or rounding? */
#include "arbiter.h"

#include <math.h>
#include <string.h>

/* ---- distances ---- */

/* Root of the mean square of a - b over elements that are finite in both; negative: not comparable. */
static double distance(const base_value *a, const base_value *b) {
  if (a->kind != BASE_TENSOR || b->kind != BASE_TENSOR || a->tensor.rank != b->tensor.rank) return -1;
  for (int32_t i = 0; i < a->tensor.rank; i++)
    if (a->tensor.dims[i] != b->tensor.dims[i]) return -1;
  base_walk w;
  const int64_t *strides[] = {a->tensor.strides, b->tensor.strides};
  double sum = 0;
  base_walk_start(&w, a->tensor.rank, a->tensor.dims, 2, strides);
  for (int64_t i = 0; i < w.count; i++, base_walk_next(&w)) {
    const double d = base_load_f64(a->tensor.dtype, a->tensor.data, w.offset[0]) -
                     base_load_f64(b->tensor.dtype, b->tensor.data, w.offset[1]);
    if (isfinite(d)) sum += d * d;
  }
  return w.count ? sqrt(sum / (double)w.count) : 0;
}

/* ---- the runs ---- */

static bool is_narrow(td_dtype dtype) { return dtype == TD_F32 || dtype == TD_F16 || dtype == TD_BF16; }

/* A copy of the value, its floats as `to` (TD_INVALID: as they are), each changed by at most `step` in relation: which
 * by how much is a fixed function of place and `salt`. */
static td_status change(base_arena *arena, const base_value *from, td_dtype to, double step, uint32_t salt,
                        base_value *made, td_error *err) {
  *made = *from;
  if (from->kind != BASE_TENSOR || !is_narrow(from->tensor.dtype)) return TD_OK;
  const base_tensor *t = &from->tensor;
  const td_dtype dtype = to ? to : t->dtype;
  size_t bytes;
  if (!base_dtype_bytes(dtype, base_tensor_numel(t), &bytes)) return base_no_memory(err, "an input");
  void *data = base_arena_alloc_aligned(arena, bytes ? bytes : 1, 64);
  if (!data) return base_no_memory(err, "an input");
  base_walk w;
  const int64_t *strides[] = {t->strides};
  uint32_t state = salt * 2654435761u + 1;
  base_walk_start(&w, t->rank, t->dims, 1, strides);
  for (int64_t i = 0; i < w.count; i++, base_walk_next(&w)) {
    state = state * 1664525u + 1013904223u;
    const double by = step * ((double)(state >> 8) / (1 << 23) - 1);
    base_store_f64(dtype, data, i, base_load_f64(t->dtype, t->data, w.offset[0]) * (1 + by));
  }
  made->tensor = base_tensor_of(data, dtype, t->rank, t->dims);
  return TD_OK;
}

static td_status change_feed(const cli_arbiter *a, td_dtype to, double step, uint32_t salt, cli_feed *made,
                             td_error *err) {
  *made = *a->feed;
  made->values = base_new(a->args->arena, base_value, made->count + 1);
  if (!made->values) return base_no_memory(err, "inputs");
  for (size_t i = 0; i < made->count; i++)
    TRY(change(a->args->arena, &a->feed->values[i], to, step, salt, &made->values[i], err));
  return TD_OK;
}

static bool run_exact(cli_arbiter *a) {
  cli_way way = a->truth;
  td_error unused;
  way.float64 = true;
  return change_feed(a, TD_F64, 0, 0, &a->wide, &unused) == TD_OK &&
         cli_trial_run(a->args, &way, &a->wide, &a->exact, &unused) == TD_OK;
}

static bool run_noise(cli_arbiter *a) {
  td_error unused;
  for (uint32_t i = 0; i < CLI_NOISE_RUNS; i++) {
    cli_feed feed;
    if (change_feed(a, TD_INVALID, 0x1p-22, i + 1, &feed, &unused) != TD_OK ||
        cli_trial_run(a->args, &a->truth, &feed, &a->noise[i], &unused) != TD_OK)
      return false;
  }
  return true;
}

void cli_arbiter_prepare(cli_arbiter *a) {
  if (a->asked) return;
  a->asked = true;
  a->has_exact = run_exact(a);
  a->has_noise = run_noise(a);
}

void cli_arbiter_close(cli_arbiter *a) {
  cli_trial_close(&a->exact);
  for (uint32_t i = 0; i < CLI_NOISE_RUNS; i++) cli_trial_close(&a->noise[i]);
}

/* ---- the rules ---- */

static bool explained_by_exact(const cli_arbiter *a, const base_value *got, const base_value *expected, size_t index,
                               const cli_metrics *m) {
  if (!a->has_exact || index >= a->exact.count) return false;
  const base_value *exact = &a->exact.values[index];
  const double by_got = distance(got, exact), by_expected = distance(expected, exact);
  const bool few = m->count < 1000 || expected->tensor.dtype != TD_F32 || a->tolerance->rtol >= 0.02;
  return by_got >= 0 && by_expected >= 0 &&
         by_got <= (few ? 3 : 2) * by_expected + a->tolerance->rtol / 10 * fmin(m->largest, 1);
}

static bool explained_by_noise(const cli_arbiter *a, const base_value *got, const base_value *expected, size_t index) {
  double most = 0;
  for (uint32_t i = 0; a->has_noise && i < CLI_NOISE_RUNS; i++)
    if (index < a->noise[i].count) most = fmax(most, distance(&a->noise[i].values[index], expected));
  const double by = distance(got, expected);
  return by >= 0 && by <= 3 * most;
}

/* Can it be rounding at all? */
static bool may_round(const cli_arbiter *a, const base_value *got, const cli_metrics *m) {
  if (a->tolerance->rtol == 0 && a->tolerance->atol == 0) return false; /* bits were asked for */
  return !m->other_type && !m->unlike && got->kind == BASE_TENSOR;
}

bool cli_is_exact_rounding(cli_arbiter *a, const cli_trial *got, const cli_trial *expected, size_t index) {
  const cli_metrics m = cli_trial_difference(got, expected, index, a->tolerance);
  if (!may_round(a, &got->values[index], &m)) return false;
  cli_arbiter_prepare(a);
  return explained_by_exact(a, &got->values[index], &expected->values[index], index, &m);
}

bool cli_is_rounding(cli_arbiter *a, const cli_trial *got, const cli_trial *expected, size_t index) {
  const cli_metrics m = cli_trial_difference(got, expected, index, a->tolerance);
  return cli_is_exact_rounding(a, got, expected, index) ||
         (may_round(a, &got->values[index], &m) &&
          explained_by_noise(a, &got->values[index], &expected->values[index], index));
}
