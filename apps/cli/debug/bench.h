/* bench.h -- timing runs of a session step by step and over streams. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H
#include "cli/open.h"
#include "common/roofline.h"
#include "common/timing.h"

/* ---- batches over streams (streams.c) ---- */

/* `count` streams for `what->session`, which has run: its inputs of `samples` samples are cut, others whole. Memory for
 * outputs comes from the arena. */
td_status cli_open_streams(const cli_args *args, const td_model *model, const app_feed *feed, int64_t samples,
                           int64_t count, app_timed *what, td_error *err);

/* ---- what a profile costs (overhead.c) ---- */

typedef struct cli_recording {
  double plain_ms, recorded_ms; /* medians of runs without and with a profile */
} cli_recording;
/* For about `min_ms`. */
td_status cli_time_recording(td_session *session, double min_ms, base_arena *arena, cli_recording *recording,
                             td_error *err);

/* ---- step by step (layers.c) ---- */

/* One step of the plan in one run, all its executions together. */
typedef struct cli_layer {
  td_step step;
  double ms; /* in the run where it was shortest */
  double limit_ms;
  uint32_t calls; /* in a run; the others count for one execution */
} cli_layer;

typedef struct cli_layers {
  cli_layer *layers; /* those that were executed, in the order of the plan */
  uint32_t count;
  double ms, flops, limit_ms; /* sums */
  bool impossible;            /* some layer is faster than a machine of these limits can be */
} cli_layers;

/* Runs the session (which has run before, so that its sizes are known) until `min_ms` have passed and some runs are
 * done, or once where min_ms is 0, and times every step. */
td_status cli_time_layers(td_session *session, const td_model *model, const td_limits *limits, double min_ms,
                          base_arena *arena, cli_layers *layers, td_error *err);
/* Steps that do no work -- views, control -- are left out of the table; slowest first. */
void cli_layers_print(const cli_layers *profile);
json_t *cli_layers_json(const cli_layers *profile);
#endif
