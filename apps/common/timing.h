/* timing.h -- whole runs of a warm session, timed one by one. */
#ifndef COMMON_TIMING_H
#define COMMON_TIMING_H
#include <treadle/async.h>

#include "base/base.h"

typedef struct app_times {
  BASE_VEC(double) runs; /* ms, sorted */
  double mean;
} app_times;

td_status app_time_run(td_session *session, double *ms, td_error *err);
/* What is timed: a session, or streams with a batch. */
typedef struct app_timed {
  td_session *session;
  td_streams *streams; /* NULL: the session alone */
  td_run_options batch;
} app_timed;
/* Warms up and times runs one by one until `min_ms` have passed and there are enough of them for the percentiles, or
 * five times min_ms have passed; at least two. A bar on a terminal shows how far it is. */
td_status app_time_runs(const app_timed *what, base_arena *arena, double min_ms, app_times *times, td_error *err);
/* Nearest rank: the smallest time that at least `part` of the runs do not exceed. */
double app_percentile(const app_times *times, double part);
#endif
