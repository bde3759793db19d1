/* bench.c -- `treadle bench`: the time of a warm inference, and how near it is to what the machine can do. */
#include "bench.h"
#include "cli/engine.h"
#include "cli/faults.h"
#include "cli/perf.h"
#include "common/measure.h"
#include "suite.h"
#include "sys/sys.h"

typedef struct bench_state {
  cli_args *args;
  td_model *model;
  td_session *session;
  app_feed feed;
  app_figures figures;
  double min_ms;
  int64_t batch;   /* samples per run, for the throughput */
  int64_t streams; /* that share a batch; 0: the session runs it whole */
  app_timed timed;
  app_times times;
  cli_layers profile; /* of one run, or with --layers of many */
  cli_recording recording;
  const char *isa;
} bench_state;

static double throughput(const bench_state *s) { return (double)s->batch / s->times.mean * 1e3; }
static double recording_percent(const bench_state *s) {
  return 100 * (s->recording.recorded_ms / s->recording.plain_ms - 1);
}
static double percent_of_limit(const bench_state *s) { return 100 * s->profile.limit_ms / s->times.mean; }

static void set_memory(json_t *root, const app_figures *f) {
  app_json_set(root, "peak_rss_kib", json_integer((json_int_t)f->memory.peak_rss_kib));
  app_json_set(root, "anon_peak_kib", json_integer((json_int_t)f->memory.anon_peak_kib));
  app_json_set(root, "arena_bytes", json_integer((json_int_t)f->session.arena_bytes));
  app_json_set(root, "arena_lower_bytes", json_integer((json_int_t)f->session.arena_lower));
  app_json_set(root, "weights_bytes", json_integer((json_int_t)f->model.weights_bytes));
}

static td_status print_json(const bench_state *s, td_error *err) {
  const app_figures *f = &s->figures;
  json_t *root = json_object(), *latency = json_object();
  app_json_set(latency, "mean", app_json_real(s->times.mean));
  app_json_set(latency, "min", app_json_real(s->times.runs.at[0]));
  app_json_set(latency, "p50", app_json_real(app_percentile(&s->times, 0.50)));
  app_json_set(latency, "p90", app_json_real(app_percentile(&s->times, 0.90)));
  app_json_set(latency, "p99", app_json_real(app_percentile(&s->times, 0.99)));
  app_json_set(root, "model", app_json_text(s->args->subject));
  app_json_set(root, "backend", app_json_text(f->model.backend));
  app_json_set(root, "threads", json_integer(f->session.threads));
  app_json_set(root, "isa", app_json_text(s->isa));
  app_json_set(root, "batch", json_integer(s->batch));
  if (s->streams) app_json_set(root, "streams", json_integer(s->streams));
  app_json_set(root, "load_ms", app_json_real(f->model.load_ms));
  app_json_set(root, "compile_ms", app_json_real(f->model.compile_ms));
  app_json_set(root, "first_ms", app_json_real(f->first_ms));
  app_json_set(root, "runs", json_integer(s->times.runs.count));
  app_json_set(root, "latency_ms", latency);
  app_json_set(root, "throughput", app_json_real(throughput(s)));
  set_memory(root, f);
  app_json_set(root, "gflop", app_json_real(s->profile.flops * 1e-9));
  app_json_set(root, "limit_ms", app_json_real(s->profile.limit_ms));
  app_json_set(root, "percent_of_limit", app_json_real(percent_of_limit(s)));
  if (cli_flag(s->args, "overhead")) app_json_set(root, "recording_percent", app_json_real(recording_percent(s)));
  if (cli_flag(s->args, "layers")) app_json_set(root, "layers", cli_layers_json(&s->profile));
  return app_print_json(root, APP_JSON, err);
}

static void print_text(const bench_state *s) {
  const app_figures *f = &s->figures;
  char arena[24], lower[24], weights[24], resident[24];
  uint32_t threads = f->session.threads;
  printf("%s: %s%.4g ms%s mean of %u runs on %u thread%s (%s)\n", s->args->subject, app_colour_code(stdout, APP_BOLD),
         s->times.mean, app_colour_code(stdout, APP_PLAIN), s->times.runs.count, threads, threads == 1 ? "" : "s",
         s->isa);
  printf("  min %.4g  p50 %.4g  p90 %.4g  p99 %.4g ms; %.4g per second\n", s->times.runs.at[0],
         app_percentile(&s->times, 0.50), app_percentile(&s->times, 0.90), app_percentile(&s->times, 0.99),
         throughput(s));
  printf("  %.4g GFLOP, %.4g GFLOP/s; limit by roofline %.4g ms, %.1f %% of it reached\n", s->profile.flops * 1e-9,
         s->profile.flops / s->times.mean * 1e-6, s->profile.limit_ms, percent_of_limit(s));
  printf("  load %.3g ms, compile %.3g ms, first inference %.3g ms\n", f->model.load_ms, f->model.compile_ms,
         f->first_ms);
  printf("  arena %s (lower bound %s), weights %s, resident memory at its peak %s\n",
         app_bytes_text(arena, sizeof arena, f->session.arena_bytes),
         app_bytes_text(lower, sizeof lower, f->session.arena_lower),
         app_bytes_text(weights, sizeof weights, f->model.weights_bytes),
         app_bytes_text(resident, sizeof resident, f->memory.peak_rss_kib * 1024));
  if (cli_flag(s->args, "overhead"))
    printf("  recording a profile: %.4g ms instead of %.4g ms in the median, %+.2f %%\n", s->recording.recorded_ms,
           s->recording.plain_ms, recording_percent(s));
  if (cli_flag(s->args, "layers")) cli_layers_print(&s->profile);
}

static td_status time_model(bench_state *s, td_error *err) {
  double min_s = 1;
  TRY(cli_real(s->args, "min-time", 0, 1e6, &min_s, err));
  s->min_ms = min_s * 1e3;
  s->batch = 1;
  TRY(cli_int(s->args, "batch", 1, INT32_MAX, &s->batch, err));
  TRY(cli_int(s->args, "streams", 1, 1024, &s->streams, err));
  TRY(cli_open_model(s->args, &s->model, err));
  TRY(cli_tell_perf(s->args, s->model, err));
  TRY(cli_feed_make(s->args, s->model, false, &s->feed, err));
  TRY(cli_open_session(s->args, s->model, &s->session, err));
  TRY(app_feed_bind(&s->feed, s->session, s->args->arena, err));
  TRY(app_time_run(s->session, &s->figures.first_ms, err));
  s->timed.session = s->session;
  if (s->streams) TRY(cli_open_streams(s->args, s->model, &s->feed, s->batch, s->streams, &s->timed, err));
  TRY(app_time_runs(&s->timed, s->args->arena, s->min_ms, &s->times, err));
  s->figures.latency_ms = s->times.mean;
  if (cli_flag(s->args, "overhead")) TRY(cli_time_recording(s->session, s->min_ms, s->args->arena, &s->recording, err));
  app_memory_sample(&s->figures.memory);
  return app_read_figures(s->model, s->session, &s->figures, err);
}

static td_status profile_within(bench_state *s, const td_roofline *roofline, td_error *err) {
  const td_limits limits = td_limits_of(roofline, cli_value(s->args, "isa"), s->figures.session.threads);
  return cli_time_layers(s->session, s->model, &limits, cli_flag(s->args, "layers") ? s->min_ms : 0, s->args->arena,
                         &s->profile, err);
}

/* After all that is timed: measuring the roofline takes memory that is no model's. */
static td_status hold_against_limits(bench_state *s, td_error *err) {
  td_roofline roofline;
  sys_machine machine;
  sys_machine_read(&machine);
  s->isa = cli_value(s->args, "isa");
  if (!s->isa) s->isa = app_isa_name(machine.isa & ~machine.slow_isa);
  TRY(app_roofline_read(0, false, &roofline, err));
  TRY(profile_within(s, &roofline, err));
  bool raised = false;
  if (s->profile.impossible) TRY(app_roofline_again(0, &roofline, &raised, err));
  return raised ? profile_within(s, &roofline, err) : TD_OK;
}

static td_status bench_model(bench_state *s, td_error *err) {
  TRY(time_model(s, err));
  TRY(hold_against_limits(s, err));
  if (cli_flag(s->args, "json")) return print_json(s, err);
  print_text(s);
  return TD_OK;
}

td_status cli_run_bench(cli_args *args, td_error *err) {
  bool suite = cli_value(args, "suite") != NULL;
  if (suite == (args->operand_count == 1))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "one of MODEL and --suite is needed; see `treadle help bench`");
  if (suite) return suite_run(args, err);
  if (cli_value(args, "sweep") || cli_value(args, "instances")) return cli_become("treadle-sweep", args->words, err);
  bench_state s = {.args = args};
  td_status status = bench_model(&s, err);
  td_streams_free(s.timed.streams);
  td_session_free(s.session);
  td_model_free(s.model);
  return status;
}
