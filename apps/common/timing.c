/* timing.c -- whole runs of a warm session, timed one by one. */
#include <math.h>
#include <stdlib.h>

#include "common/measure.h"
#include "common/print.h"
#include "common/timing.h"

enum { WARM_RUNS = 3, ENOUGH_RUNS = 20, LEAST_RUNS = 2, BAR_CELLS = 24 };
static const double longest_factor = 5, bar_period_ms = 100;

td_status app_time_run(td_session *session, double *ms, td_error *err) {
  double start = app_now_ms();
  TRY(td_session_run(session, err));
  *ms = app_now_ms() - start;
  return TD_OK;
}

static td_status time_one(const app_timed *what, double *ms, td_error *err) {
  if (!what->streams) return app_time_run(what->session, ms, err);
  const double start = app_now_ms();
  TRY(td_streams_run(what->streams, &what->batch, err));
  *ms = app_now_ms() - start;
  return TD_OK;
}

static td_status warm_up(const app_timed *what, double min_ms, td_error *err) {
  double start = app_now_ms(), ms;
  for (int i = 0; i < WARM_RUNS && app_now_ms() - start < min_ms / 4; i++) TRY(time_one(what, &ms, err));
  return TD_OK;
}

static void show_bar(uint32_t runs, double passed_ms, double min_ms) {
  char cells[BAR_CELLS + 1];
  double part = passed_ms < min_ms ? passed_ms / min_ms : 1;
  for (int i = 0; i < BAR_CELLS; i++) cells[i] = i < part * BAR_CELLS ? '#' : '.';
  cells[BAR_CELLS] = 0;
  fprintf(stderr, "\r\033[K[%s] %3.0f %%  %u runs, %.3g ms each", cells, 100 * part, runs, passed_ms / runs);
}

static int by_value(const void *a, const void *b) {
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

td_status app_time_runs(const app_timed *what, base_arena *arena, double min_ms, app_times *times, td_error *err) {
  TRY(warm_up(what, min_ms, err));
  double start = app_now_ms(), passed = 0, shown = 0, sum = 0;
  uint32_t count = 0;
  while (count < LEAST_RUNS || passed < min_ms || (count < ENOUGH_RUNS && passed < longest_factor * min_ms)) {
    double *ms = base_vec_push(arena, &times->runs);
    if (!ms) return base_no_memory(err, "times");
    TRY(time_one(what, ms, err));
    sum += *ms;
    count++;
    passed = app_now_ms() - start;
    if (passed - shown < bar_period_ms || !app_is_terminal(stderr)) continue;
    shown = passed;
    show_bar(count, passed, min_ms);
  }
  if (shown > 0) fprintf(stderr, "\r\033[K");
  times->mean = sum / count;
  qsort(times->runs.at, count, sizeof(double), by_value);
  return TD_OK;
}

double app_percentile(const app_times *times, double part) {
  double rank = ceil(part * times->runs.count);
  return times->runs.at[rank < 1 ? 0 : (uint32_t)rank - 1];
}
