/* overhead.c -- what recording a profile costs: runs with and without one, interleaved, so that noise of the machine
 * meets both alike. */
#include <stdlib.h>

#include "bench.h"
#include "common/measure.h"

enum { LEAST_TURNS = 5 };
static const double turn_ms = 20;

typedef struct runs {
  BASE_VEC(double) ms;
} runs;

static td_status take_turn(td_session *session, base_arena *arena, runs *to, td_error *err) {
  const double start = app_now_ms();
  do {
    double *ms = base_vec_push(arena, &to->ms);
    if (!ms) return base_no_memory(err, "times");
    TRY(app_time_run(session, ms, err));
  } while (app_now_ms() - start < turn_ms);
  return TD_OK;
}

static td_status take_recorded_turn(td_session *session, base_arena *arena, runs *to, td_error *err) {
  const td_profile_options options = {.size = sizeof options};
  td_profile *profile;
  double first;
  TRY(td_profile_new(session, &options, &profile, err));
  td_status status = app_time_run(session, &first, err); /* touches what it writes to */
  if (status == TD_OK) status = take_turn(session, arena, to, err);
  td_profile_free(profile);
  return status;
}

static int by_value(const void *a, const void *b) {
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

static double median(runs *r) {
  qsort(r->ms.at, r->ms.count, sizeof(double), by_value);
  return r->ms.at[r->ms.count / 2];
}

td_status cli_time_recording(td_session *session, double min_ms, base_arena *arena, cli_recording *r, td_error *err) {
  runs plain = {0}, recorded = {0};
  const double start = app_now_ms();
  for (int i = 0; i < LEAST_TURNS || app_now_ms() - start < min_ms; i++) {
    double unused;
    TRY(app_time_run(session, &unused, err));
    TRY(take_turn(session, arena, &plain, err));
    TRY(take_recorded_turn(session, arena, &recorded, err));
  }
  *r = (cli_recording){.plain_ms = median(&plain), .recorded_ms = median(&recorded)};
  return TD_OK;
}
