/* suite.c -- `treadle bench --suite`: each line becomes a model of one layer, compiled as any other.
 *
 * What is held against the limit is the shortest time of the steps that compute; those that only bring the input and
 * the output into the order of their elements that the kernels want are not the layer's: inside a model there are none
 * between two layers. */
#include <string.h>

#include "cli/options.h"
#include "suite.h"
#include "common/threads.h"
#include "sys/sys.h"

static const double fails_below = 0.8;        /* of the stored share */
static const double least_recorded_ms = 1e-3; /* shorter rows are as much clock as kernel */
enum { PAGE_BYTES = 4096, PLACES = 4 };
enum { TRIES = 10 }; /* of a row that seems to fail: the machine may have been busy */

typedef struct suite_state {
  cli_args *args;
  suite_lines lines;
  suite_shares shares; /* of --expect */
  td_roofline roofline;
  td_limits limits;
  bool again;      /* the roofline has been in doubt */
  int64_t threads; /* 0: all */
  double min_ms;
  json_t *rows; /* of --json, or NULL */
  FILE *record; /* of --record, or NULL */
  uint32_t failed, unknown;
  double share_sum, limit_sum, ms_sum;
} suite_state;

typedef struct measured {
  double ms, limit_ms, flops, bytes;
  const char *kernel; /* of the longest step */
  bool impossible;    /* see cli_layers */
} measured;

static bool moves_alone(const cli_layer *l) { return !*l->step.op || strcmp(l->step.op, "aten::permute") == 0; }

/* Of layers that only move, all counts. */
static measured sum_up(const cli_layers *p) {
  measured m = {.kernel = ""};
  double longest = 0;
  bool moves = true;
  for (uint32_t i = 0; i < p->count; i++) moves = moves && moves_alone(&p->layers[i]);
  for (uint32_t i = 0; i < p->count; i++) {
    const cli_layer *l = &p->layers[i];
    if (moves_alone(l) && !moves) continue;
    m.ms += l->ms;
    m.limit_ms += l->limit_ms;
    m.flops += l->step.flops;
    m.bytes += l->step.const_bytes + l->step.read_bytes + l->step.write_bytes;
    if (l->ms > longest) longest = l->ms, m.kernel = l->step.kernel;
  }
  return m;
}

/* Copies every input to a place `shift` bytes behind a page's start. */
static td_status move_inputs(app_feed *feed, base_arena *arena, size_t shift, td_error *err) {
  for (size_t i = 0; i < feed->count; i++) {
    base_tensor *t = &feed->values[i].tensor;
    size_t bytes = base_tensor_bytes(t);
    char *room = base_arena_alloc_aligned(arena, bytes + shift, PAGE_BYTES);
    if (!room) return base_no_memory(err, "an input");
    if (bytes) memcpy(room + shift, t->data, bytes);
    t->data = room + shift;
  }
  return TD_OK;
}

/* The best of several places of the inputs: where reads and writes fall on one offset in their pages, a kernel can take
 * twice as long, by chance. */
static td_status measure_in(const suite_state *s, base_arena *arena, td_session *session, td_model *model, measured *m,
                            td_error *err) {
  cli_args args = *s->args;
  app_feed feed;
  args.arena = arena;
  args.given_count = 0; /* inputs are random: none of the command's options is for them */
  TRY(cli_feed_make(&args, model, false, &feed, err));
  for (size_t place = 0; place < PLACES; place++) {
    cli_layers profile;
    TRY(move_inputs(&feed, arena, place * PAGE_BYTES / PLACES, err));
    TRY(app_feed_bind(&feed, session, arena, err));
    TRY(td_session_run(session, err));
    TRY(cli_time_layers(session, model, &s->limits, s->min_ms / PLACES, arena, &profile, err));
    measured now = sum_up(&profile);
    now.impossible = profile.impossible;
    if (place == 0 || now.ms < m->ms) *m = now;
  }
  m->kernel = base_arena_text(s->args->arena, m->kernel);
  return m->kernel ? TD_OK : base_no_memory(err, "a row");
}

static td_status measure(const suite_state *s, const char *layer, measured *m, td_error *err) {
  td_model *model = NULL;
  td_session *session = NULL;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  const char *path = arena ? base_arena_format(arena, "builtin:layer:%s", layer) : NULL;
  td_load_options options = {.size = sizeof options,
                             .backend = cli_value(s->args, "backend"),
                             .isa = cli_value(s->args, "isa"),
                             .math = cli_value(s->args, "math"),
                             .precision = cli_value(s->args, "precision")};
  td_status status = path ? cli_code_options(s->args, &options, err) : base_no_memory(err, "a row");
  if (status == TD_OK) status = td_model_load(path, &options, &model, err);
  if (status == TD_OK) status = cli_open_session(s->args, model, &session, err);
  if (status == TD_OK) status = measure_in(s, arena, session, model, m, err);
  td_session_free(session);
  td_model_free(model);
  base_arena_free(arena);
  return status;
}

static double share_of(const measured *m) { return m->ms > 0 ? m->limit_ms / m->ms : 0; }

static void add_json(json_t *rows, const suite_line *line, const measured *m) {
  json_t *row = json_object();
  app_json_set(row, "suite", app_json_text(line->suite));
  app_json_set(row, "name", app_json_text(line->name));
  app_json_set(row, "layer", app_json_text(line->layer));
  app_json_set(row, "kernel", app_json_text(m->kernel));
  app_json_set(row, "us", app_json_real(1e3 * m->ms));
  app_json_set(row, "gflops", app_json_real(m->ms > 0 ? m->flops / m->ms * 1e-6 : 0));
  app_json_set(row, "gb_s", app_json_real(m->ms > 0 ? m->bytes / m->ms * 1e-6 : 0));
  app_json_set(row, "limit_us", app_json_real(1e3 * m->limit_ms));
  app_json_set(row, "percent_of_limit", app_json_real(100 * share_of(m)));
  app_json_set(rows, NULL, row);
}

static void print_row(const suite_line *line, const measured *m, double expected, bool failed) {
  const double ms = m->ms > 0 ? m->ms : 1e-6;
  printf("%10.2f %8.1f %8.1f %6.1f%%  %-28s %-46s %s", 1e3 * m->ms, m->flops / ms * 1e-6, m->bytes / ms * 1e-6,
         100 * share_of(m), m->kernel, line->name, line->layer);
  if (failed)
    printf("  %sbelow %.0f %% of %.1f%%%s", app_colour_code(stdout, APP_RED), 100 * fails_below, 100 * expected,
           app_colour_code(stdout, APP_PLAIN));
  printf("\n");
}

static void find_limits(suite_state *s) {
  sys_machine machine;
  sys_machine_read(&machine);
  const uint32_t threads = s->threads ? (uint32_t)s->threads : machine.threads;
  s->limits = td_limits_of(&s->roofline, cli_value(s->args, "isa"), threads);
}

/* Once a run, the roofline is measured again if a row is faster than it allows. */
static td_status measure_within(suite_state *s, const char *layer, measured *m, td_error *err) {
  bool raised;
  TRY(measure(s, layer, m, err));
  if (!m->impossible || s->again) return TD_OK;
  s->again = true;
  TRY(app_roofline_again(0, &s->roofline, &raised, err));
  find_limits(s);
  return raised ? measure(s, layer, m, err) : TD_OK;
}

/* Measures a row, again where it seems to fail: the best try counts. */
static td_status run_row(suite_state *s, const suite_line *line, td_error *err) {
  const double expected = suite_find_share(&s->shares, line);
  measured best = {.kernel = ""};
  bool failed = true;
  for (int i = 0; failed && i < (expected > 0 ? TRIES : 1); i++) {
    measured m = {.kernel = ""};
    TRY(base_error_name(err, measure_within(s, line->layer, &m, err), "%s", line->name));
    if (i == 0 || m.ms < best.ms) best = m;
    failed = share_of(&best) < fails_below * expected;
  }
  s->failed += failed;
  s->unknown += s->shares.count && expected == 0;
  s->share_sum += share_of(&best);
  s->limit_sum += best.limit_ms;
  s->ms_sum += best.ms;
  if (s->record && best.ms >= least_recorded_ms)
    fprintf(s->record, "%s %s %.2f\n", line->suite, line->name, share_of(&best));
  if (s->rows) add_json(s->rows, line, &best);
  else print_row(line, &best, expected, failed);
  return TD_OK;
}

static td_status run_rows(suite_state *s, td_error *err) {
  if (!s->rows)
    printf("%s%10s %8s %8s %7s  %-28s %-46s %s%s\n", app_colour_code(stdout, APP_BOLD), "us", "GFLOP/s", "GB/s",
           "limit", "kernel", "name", "layer", app_colour_code(stdout, APP_PLAIN));
  for (uint32_t i = 0; i < s->lines.count; i++) {
    if (app_is_terminal(stderr)) fprintf(stderr, "\r\033[K%u of %u rows\r", i, s->lines.count);
    TRY(run_row(s, &s->lines.at[i], err));
  }
  if (app_is_terminal(stderr)) fprintf(stderr, "\r\033[K");
  return TD_OK;
}

static td_status finish(suite_state *s, td_error *err) {
  const double mean = s->lines.count ? 100 * s->share_sum / s->lines.count : 0;
  const double weighted = s->ms_sum > 0 ? 100 * s->limit_sum / s->ms_sum : 0;
  if (s->rows) {
    json_t *root = json_object();
    app_json_set(root, "rows", json_incref(s->rows));
    app_json_set(root, "mean_percent_of_limit", app_json_real(mean));
    app_json_set(root, "weighted_percent_of_limit", app_json_real(weighted));
    app_json_set(root, "failed", json_integer(s->failed));
    TRY(app_print_json(root, APP_JSON, err));
  } else {
    printf("%u rows: %.1f %% of the limit in the mean, %.1f %% weighted by time\n", s->lines.count, mean, weighted);
    if (s->shares.count) printf("%u below %.0f %% of their share", s->failed, 100 * fails_below);
    if (s->shares.count) printf(", %u without one\n", s->unknown);
  }
  return s->failed ? TD_ANSWER_NO : TD_OK;
}

static td_status prepare(suite_state *s, td_error *err) {
  const char *expect = cli_value(s->args, "expect"), *record = cli_value(s->args, "record");
  double min_s = 0.05;
  s->args->subject = cli_value(s->args, "suite");
  TRY(cli_real(s->args, "min-time", 0, 1e6, &min_s, err));
  app_threads threads;
  TRY(cli_threads_of(s->args, &threads, err));
  s->threads = threads.count;
  s->min_ms = min_s * 1e3;
  TRY(suite_read(s->args->arena, s->args->subject, cli_value(s->args, "shapes"), &s->lines, err));
  if (expect) TRY(suite_read_shares(s->args->arena, expect, &s->shares, err));
  TRY(app_roofline_read(0, false, &s->roofline, err));
  find_limits(s);
  if (cli_flag(s->args, "json")) s->rows = json_array();
  s->record = record ? fopen(record, "w") : NULL;
  if (s->record) fprintf(s->record, "# SUITE NAME SHARE of the limit by roofline, for rows that take at least 1 us\n");
  if (record && !s->record) return base_fail(err, TD_BAD_ARGUMENT, record, -1, "the file cannot be written");
  return TD_OK;
}

td_status suite_run(cli_args *args, td_error *err) {
  suite_state s = {.args = args};
  td_status status = prepare(&s, err);
  if (status == TD_OK) status = run_rows(&s, err);
  if (status == TD_OK) status = finish(&s, err);
  if (s.record && fclose(s.record) != 0 && status == TD_OK)
    status = base_fail(err, TD_NO_RESOURCE, cli_value(args, "record"), -1, "the file cannot be written");
  json_decref(s.rows);
  return status;
}
