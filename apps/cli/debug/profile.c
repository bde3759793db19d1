/* profile.c -- `treadle profile`: where the time of a model's runs goes. */
#include <errno.h>
#include <string.h>

#include "cli/collector.h"
#include "footprint.h"
#include "sides.h"
#include "cli/engine.h"
#include "cli/faults.h"
#include "cli/perf.h"
#include "common/measure.h"
#include "common/roofline.h"

typedef struct profile_state {
  cli_args *args;
  td_model *model;
  td_session *session;
  app_feed feed;
  td_profile *profile;
  td_collector *collector;
  cli_footprint footprint;
  int64_t runs; /* that the schedule asks for; 0: none does */
} profile_state;

/* ---- the schedule ---- */

/* --schedule WAIT,WARMUP,ACTIVE[,REPEAT[,SKIP]]. */
static td_status take_schedule(const cli_args *args, td_profile_options *options, td_error *err) {
  uint32_t *const fields[] = {&options->wait, &options->warmup, &options->active, &options->repeat, &options->skip};
  const char *text = cli_value(args, "schedule"), *at = text;
  size_t count = 0;
  while (at && count < 5) {
    const size_t n = strcspn(at, ",");
    int64_t value;
    if (!base_str_int((base_str){at, n}, &value) || value < 0 || value > INT32_MAX / 8) break;
    *fields[count++] = (uint32_t)value;
    at = at[n] ? at + n + 1 : NULL;
  }
  if (!text || (!at && count >= 3 && options->active)) return TD_OK;
  return base_fail(err, TD_BAD_ARGUMENT, "--schedule", -1,
                   "'%s' is not WAIT,WARMUP,ACTIVE[,REPEAT[,SKIP]] with at least one active run", text);
}

/* Runs until the schedule is over; 0: it has no end, or there is none. */
static int64_t scheduled_runs(const td_profile_options *o) {
  return (int64_t)o->repeat * ((int64_t)o->wait + o->warmup + o->active) + (o->repeat ? o->skip : 0);
}

/* ---- running ---- */

enum { WARM_RUNS = 3, LEAST_RUNS = 5 };

static td_status record_runs(profile_state *s, td_error *err) {
  double min_s = 1;
  int64_t runs = s->runs;
  TRY(cli_real(s->args, "min-time", 0, 1e6, &min_s, err));
  TRY(cli_int(s->args, "runs", 1, INT32_MAX, &runs, err));
  for (int i = 0; i < WARM_RUNS; i++) TRY(td_session_run(s->session, err));
  TRY(td_profile_clear(s->profile, err));
  cli_footprint_begin(&s->footprint);
  const double start = app_now_ms();
  for (int64_t i = 0; runs ? i < runs : i < LEAST_RUNS || app_now_ms() - start < 1e3 * min_s; i++)
    TRY(td_session_run(s->session, err));
  cli_footprint_end(&s->footprint);
  return TD_OK;
}

static td_status start_profile(profile_state *s, td_error *err) {
  td_profile_options options = {.size = sizeof options, .isa = cli_value(s->args, "isa")};
  td_roofline roofline;
  int64_t records = 0;
  TRY(cli_int(s->args, "records", 1, 1 << 24, &records, err));
  TRY(take_schedule(s->args, &options, err));
  s->runs = scheduled_runs(&options);
  options.records = (uint32_t)records;
  if (!cli_flag(s->args, "no-limits")) {
    TRY(app_roofline_read(0, false, &roofline, err));
    options.roofline = &roofline;
  }
  return td_profile_new(s->session, &options, &s->profile, err);
}

/* ---- writing ---- */

static td_status write_file(void *user, const char *bytes, size_t count) {
  return fwrite(bytes, 1, count, user) == count ? TD_OK : TD_NO_RESOURCE;
}

static td_status write_form(const profile_state *s, const char *form, const char *path, td_error *err) {
  int64_t limit = 40, depth = 0;
  TRY(cli_int(s->args, "limit", 0, INT32_MAX, &limit, err));
  TRY(cli_int(s->args, "depth", 1, INT32_MAX, &depth, err));
  const td_profile_view view = {.size = sizeof view,
                                .form = form,
                                .group = cli_value(s->args, "group-by"),
                                .sort = cli_value(s->args, "sort"),
                                .limit = (uint32_t)limit,
                                .depth = (uint32_t)depth,
                                .columns = cli_value(s->args, "columns")};
  FILE *file = path ? fopen(path, "w") : stdout;
  if (!file) return base_fail(err, TD_NO_RESOURCE, path, -1, "cannot be written: %s", strerror(errno));
  td_status status = td_profile_write(s->profile, &view, write_file, file, err);
  if (path && fclose(file) != 0 && status == TD_OK)
    status = base_fail(err, TD_NO_RESOURCE, path, -1, "could not be written whole: %s", strerror(errno));
  if (path && status == TD_OK) app_note("%s: %s written", path, form);
  return status;
}

static td_status print_memory(const profile_state *s, td_error *err) {
  td_profile_totals totals = {.size = sizeof totals};
  TRY(td_profile_get_totals(s->profile, &totals, err));
  cli_footprint_print(&s->footprint, totals.runs);
  return write_form(s, "memory", NULL, err);
}

/* After the recording, whose observer would be counted, too. */
static td_status count_events(const profile_state *s, td_error *err) {
  const char *level = cli_value(s->args, "level");
  td_profile_totals totals = {.size = sizeof totals};
  if (!level || strcmp(level, "time") == 0) return TD_OK;
  TRY(td_profile_get_totals(s->profile, &totals, err));
  TRY(td_session_observe(s->session, NULL, err));
  return td_session_count(s->session, level, (uint32_t)totals.runs, write_file, stdout, err);
}

static td_status write_all(const profile_state *s, td_error *err) {
  static const char *const files[] = {"trace", "html", "csv", "stacks"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    const char *path = cli_value(s->args, files[i]);
    if (path) TRY(write_form(s, files[i], path, err));
  }
  TRY(write_form(s, cli_flag(s->args, "json") ? "json" : "table", NULL, err));
  if (cli_flag(s->args, "memory")) TRY(print_memory(s, err));
  return count_events(s, err);
}

static td_status open_model(profile_state *s, td_error *err) {
  td_load_options options;
  cli_footprint_open(&s->footprint);
  TRY(cli_load_options(s->args, &options, err));
  options.allocator = &s->footprint.allocator;
  return td_model_load(s->args->operands[0], &options, &s->model, err);
}

static td_status profile_model(profile_state *s, td_error *err) {
  TRY(cli_collector_open(s->args, &s->collector, err));
  TRY(open_model(s, err));
  TRY(cli_tell_perf(s->args, s->model, err));
  TRY(cli_feed_make(s->args, s->model, false, &s->feed, err));
  TRY(cli_open_session(s->args, s->model, &s->session, err));
  TRY(app_feed_bind(&s->feed, s->session, s->args->arena, err));
  TRY(td_session_run(s->session, err));
  TRY(start_profile(s, err));
  TRY(cli_collect(s->args, s->session, s->collector, err));
  td_range_push(s->collector, "treadle profile");
  TRY(record_runs(s, err));
  td_range_pop(s->collector);
  return write_all(s, err);
}

td_status cli_run_profile(cli_args *args, td_error *err) {
  const char *before = cli_value(args, "compare-backend");
  if (before) return cli_compare_backends(args, before, err);
  profile_state s = {.args = args};
  const td_status status = profile_model(&s, err);
  td_profile_free(s.profile);
  td_session_free(s.session);
  td_model_free(s.model);
  td_collector_close(s.collector);
  return status;
}
