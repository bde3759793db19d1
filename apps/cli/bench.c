/* bench.c -- `treadle bench`: the time of a warm inference.
 *
 * Warm-up: a few runs, at most a quarter of --min-time. Then runs are timed one by one until --min-time has passed and
 * there are enough of them for the percentiles, or five times --min-time has passed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "sys/sys.h"

enum { WARM_RUNS = 3, ENOUGH_RUNS = 20, LEAST_RUNS = 2 };
static const double longest_factor = 5;

typedef struct bench_times {
  BASE_VEC(double) runs; /* ms, sorted when done */
  double mean;
} bench_times;

typedef struct bench_state {
  cli_args *args;
  td_model *model;
  td_session *session;
  cli_feed feed;
  cli_figures figures;
  double min_ms;
  int64_t batch; /* samples per run, for the throughput */
  bench_times times;
  const char *isa;
} bench_state;

static td_status time_run(td_session *session, double *ms, td_error *err) {
  double start = cli_now_ms();
  TRY(td_session_run(session, err));
  *ms = cli_now_ms() - start;
  return TD_OK;
}

static void progress(const bench_state *s, double passed_ms, double *shown_ms) {
  if (passed_ms - *shown_ms < 200 || !cli_is_terminal(stderr)) return;
  *shown_ms = passed_ms;
  fprintf(stderr, "\r\033[K%u runs, %.1f of %.1f s", s->times.runs.count, passed_ms / 1e3, s->min_ms / 1e3);
}

static td_status warm_up(bench_state *s, td_error *err) {
  double start = cli_now_ms(), ms;
  for (int i = 0; i < WARM_RUNS && cli_now_ms() - start < s->min_ms / 4; i++) TRY(time_run(s->session, &ms, err));
  return TD_OK;
}

static int by_value(const void *a, const void *b) {
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

static td_status time_runs(bench_state *s, td_error *err) {
  double start = cli_now_ms(), passed = 0, shown = 0, sum = 0;
  uint32_t count = 0;
  while (count < LEAST_RUNS || passed < s->min_ms || (count < ENOUGH_RUNS && passed < longest_factor * s->min_ms)) {
    double *ms = base_vec_push(s->args->arena, &s->times.runs);
    if (!ms) return base_no_memory(err, "times");
    TRY(time_run(s->session, ms, err));
    sum += *ms;
    count++;
    passed = cli_now_ms() - start;
    progress(s, passed, &shown);
  }
  if (shown > 0) fprintf(stderr, "\r\033[K");
  s->times.mean = sum / count;
  qsort(s->times.runs.at, count, sizeof(double), by_value);
  return TD_OK;
}

/* Nearest rank: the smallest time that at least `part` of the runs do not exceed. */
static double percentile(const bench_times *times, double part) {
  double rank = ceil(part * times->runs.count);
  return times->runs.at[rank < 1 ? 0 : (uint32_t)rank - 1];
}

static double throughput(const bench_state *s) { return (double)s->batch / s->times.mean * 1e3; }

static td_status print_json(const bench_state *s, td_error *err) {
  const cli_figures *f = &s->figures;
  json_t *root = json_object(), *latency = json_object();
  cli_json_set(latency, "mean", cli_json_real(s->times.mean));
  cli_json_set(latency, "min", cli_json_real(s->times.runs.at[0]));
  cli_json_set(latency, "p50", cli_json_real(percentile(&s->times, 0.50)));
  cli_json_set(latency, "p90", cli_json_real(percentile(&s->times, 0.90)));
  cli_json_set(latency, "p99", cli_json_real(percentile(&s->times, 0.99)));
  cli_json_set(root, "model", cli_json_text(s->args->subject));
  cli_json_set(root, "backend", cli_json_text(f->model.backend));
  cli_json_set(root, "threads", json_integer(f->session.threads));
  cli_json_set(root, "isa", cli_json_text(s->isa));
  cli_json_set(root, "batch", json_integer(s->batch));
  cli_json_set(root, "load_ms", cli_json_real(f->model.load_ms));
  cli_json_set(root, "compile_ms", cli_json_real(f->model.compile_ms));
  cli_json_set(root, "first_ms", cli_json_real(f->first_ms));
  cli_json_set(root, "runs", json_integer(s->times.runs.count));
  cli_json_set(root, "latency_ms", latency);
  cli_json_set(root, "throughput", cli_json_real(throughput(s)));
  cli_json_set(root, "peak_rss_kib", json_integer((json_int_t)f->memory.peak_rss_kib));
  cli_json_set(root, "anon_peak_kib", json_integer((json_int_t)f->memory.anon_peak_kib));
  cli_json_set(root, "arena_bytes", json_integer((json_int_t)f->session.arena_bytes));
  cli_json_set(root, "weights_bytes", json_integer((json_int_t)f->model.weights_bytes));
  cli_json_set(root, "gflop", f->model.gflop > 0 ? cli_json_real(f->model.gflop) : json_null());
  /* There is no measured roofline yet to hold the time against. */
  cli_json_set(root, "limit_ms", json_null());
  cli_json_set(root, "percent_of_limit", json_null());
  return cli_print_json(root, err);
}

static void print_text(const bench_state *s) {
  const cli_figures *f = &s->figures;
  char arena[24], weights[24], resident[24];
  uint32_t threads = f->session.threads;
  printf("%s: %s%.4g ms%s mean of %u runs on %u thread%s (%s)\n", s->args->subject, cli_colour_code(stdout, CLI_BOLD),
         s->times.mean, cli_colour_code(stdout, CLI_PLAIN), s->times.runs.count, threads, threads == 1 ? "" : "s",
         s->isa);
  printf("  min %.4g  p50 %.4g  p90 %.4g  p99 %.4g ms; %.4g per second", s->times.runs.at[0],
         percentile(&s->times, 0.50), percentile(&s->times, 0.90), percentile(&s->times, 0.99), throughput(s));
  if (f->model.gflop > 0) printf("; %.4g GFLOP, %.4g GFLOP/s", f->model.gflop, f->model.gflop / s->times.mean * 1e3);
  printf("\n  load %.3g ms, compile %.3g ms, first inference %.3g ms\n", f->model.load_ms, f->model.compile_ms,
         f->first_ms);
  printf("  arena %s, weights %s, resident memory at its peak %s\n",
         cli_bytes_text(arena, sizeof arena, f->session.arena_bytes),
         cli_bytes_text(weights, sizeof weights, f->model.weights_bytes),
         cli_bytes_text(resident, sizeof resident, f->memory.peak_rss_kib * 1024));
}

static td_status bench_steps(bench_state *s, td_error *err) {
  double min_s = 1;
  TRY(cli_real(s->args, "min-time", 0, 1e6, &min_s, err));
  s->min_ms = min_s * 1e3;
  s->batch = 1;
  TRY(cli_int(s->args, "batch", 1, INT32_MAX, &s->batch, err));
  TRY(cli_open_model(s->args, &s->model, err));
  TRY(cli_feed_make(s->args, s->model, false, &s->feed, err));
  TRY(cli_open_session(s->args, s->model, &s->session, err));
  TRY(cli_feed_bind(&s->feed, s->session, s->args->arena, err));
  TRY(time_run(s->session, &s->figures.first_ms, err));
  TRY(warm_up(s, err));
  TRY(time_runs(s, err));
  s->figures.latency_ms = s->times.mean;
  sys_machine machine;
  sys_machine_read(&machine);
  s->isa = cli_isa_name(machine.isa);
  cli_memory_sample(&s->figures.memory);
  TRY(cli_read_figures(s->model, s->session, &s->figures, err));
  if (cli_flag(s->args, "json")) return print_json(s, err);
  print_text(s);
  return TD_OK;
}

static td_status run_bench(cli_args *args, td_error *err) {
  bench_state s = {.args = args};
  td_status status = bench_steps(&s, err);
  td_session_free(s.session);
  td_model_free(s.model);
  return status;
}

static const cli_option bench_options[] = {
    CLI_OPTION_THREADS,
    {"batch", "N", "size of an open first dimension", NULL, false},
    CLI_OPTION_SHAPE,
    {"input", "[NAME=]FILE", "an input, as `run` takes it; the others are random", NULL, true},
    {"min-time", "SECONDS", "time runs for at least as long; default 1", NULL, false},
    CLI_OPTION_BACKEND,
    CLI_OPTION_PASSES,
    CLI_OPTION_ISA,
    CLI_OPTION_EXACT,
    CLI_OPTION_WEIGHTS,
    CLI_OPTION_PREPROCESS,
    CLI_OPTION_SEED,
    CLI_OPTION_JSON,
};

const cli_command cli_bench = {
    .name = "bench",
    .operands = "MODEL",
    .summary = "measure the time of a warm inference",
    .text =
        "MODEL is a file or builtin:NAME. The model is loaded, compiled and run once, warmed up, and then timed run\n"
        "by run for --min-time seconds, longer where that gives few runs.",
    .examples =
        "treadle bench net.onnx --threads 1\n"
        "treadle bench builtin:efficientnet_lite0 --min-time 5 --json\n"
        "treadle bench net.onnx --batch 8",
    .options = bench_options,
    .option_count = sizeof bench_options / sizeof *bench_options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_bench,
};
