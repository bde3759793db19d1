/* check.c -- `treadle check`: recorded cases, one line each, and a count at the end. */
#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "check.h"
#include "cli/faults.h"
#include "cli/options.h"

typedef enum verdict { PASSED, FAILED, SKIPPED } verdict;

static const struct {
  const char *word, *json;
  app_colour colour;
} verdicts[] = {{"ok", "passed", APP_GREEN}, {"FAIL", "failed", APP_RED}, {"skip", "skipped", APP_YELLOW}};

typedef struct check_run {
  cli_args *args;
  check_settings settings;
  check_skip_vec skips;
  const char *skips_path;
  bool verbose;
  json_t *cases; /* NULL: print lines */
  uint32_t counts[3];
} check_run;

/* "unsupported: node x (Y): what happened (at byte 7)" in the arena. */
static const char *reason_text(const check_run *run, const check_result *result) {
  const td_error *err = &result->err;
  bool differs = result->status == TD_ANSWER_NO;
  char offset[40] = "";
  if (err->offset >= 0) snprintf(offset, sizeof offset, " (at byte %lld)", (long long)err->offset);
  const char *text = base_arena_format(run->args->arena, "%s%s%s%s%s%s", differs ? "" : td_status_name(result->status),
                                       differs ? "" : ": ", err->name, err->name[0] ? ": " : "", err->text, offset);
  return text ? text : "out of memory";
}

static verdict judge(check_run *run, const check_found *found, const check_result *result, const char **reason) {
  const check_skip *skip = check_find_skip(&run->skips, found->folder);
  *reason = "";
  if (result->status == TD_OK && !skip) return PASSED;
  if (!skip) {
    *reason = reason_text(run, result);
    return FAILED;
  }
  if (result->status == TD_OK) {
    const char *text = base_arena_format(run->args->arena, "it passes, but %s line %u skips it: %s", run->skips_path,
                                         skip->line, skip->reason);
    *reason = text ? text : "it passes, but is skipped";
    return FAILED;
  }
  const char *text = base_arena_format(run->args->arena, "%s%s%s", skip->reason, run->verbose ? ": " : "",
                                       run->verbose ? reason_text(run, result) : "");
  *reason = text ? text : skip->reason;
  return SKIPPED;
}

static void report(check_run *run, const check_found *found, verdict v, const char *reason, double ms) {
  run->counts[v]++;
  if (run->cases) {
    json_t *entry = json_object();
    app_json_set(entry, "name", app_json_text(found->name));
    app_json_set(entry, "status", app_json_text(verdicts[v].json));
    if (reason[0]) app_json_set(entry, "reason", app_json_text(reason));
    app_json_set(entry, "ms", app_json_real(ms));
    app_json_set(run->cases, NULL, entry);
    return;
  }
  printf("%s%s%s %s%s%s", app_colour_code(stdout, verdicts[v].colour), verdicts[v].word,
         app_colour_code(stdout, APP_PLAIN), found->name, reason[0] ? ": " : "", reason);
  if (run->verbose) printf(" [%.1f ms]", ms);
  printf("\n");
}

static td_status prepare(check_run *run, check_found_vec *found, td_error *err) {
  cli_args *args = run->args;
  int64_t limit = 300;
  run->settings = (check_settings){.backend = cli_value(args, "backend"),
                                   .disabled_passes = cli_value(args, "disable-passes"),
                                   .isa = cli_value(args, "isa"),
                                   .math = cli_value(args, "math"),
                                   .precision = cli_value(args, "precision"),
                                   .rtol = NAN,
                                   .atol = NAN};
  TRY(cli_code_options(args, &run->settings.code, err));
  TRY(cli_real(args, "rtol", 0, HUGE_VAL, &run->settings.rtol, err));
  TRY(cli_real(args, "atol", 0, HUGE_VAL, &run->settings.atol, err));
  TRY(cli_int(args, "time-limit", 1, 86400, &limit, err));
  run->settings.limit_s = (unsigned)limit;
  run->verbose = cli_flag(args, "verbose");
  run->skips_path = cli_value(args, "skips");
  if (run->skips_path) TRY(check_read_skips(run->skips_path, args->arena, &run->skips, err));
  for (uint32_t i = 0; i < args->operand_count; i++) {
    uint32_t before = found->count;
    TRY(check_find(args->operands[i], args->arena, found, err));
    if (found->count == before) {
      return base_fail(err, TD_BAD_FILE, args->operands[i], -1,
                       "holds no recorded case: a folder with case.json, or model.onnx and test_data_set_*");
    }
  }
  return TD_OK;
}

static void note_unused_skips(const check_run *run) {
  for (uint32_t i = 0; i < run->skips.count; i++) {
    const check_skip *skip = &run->skips.at[i];
    if (!skip->used) app_note("%s: line %u: %s matches no case here", run->skips_path, skip->line, skip->pattern);
  }
}

static td_status finish(const check_run *run, td_error *err) {
  if (run->verbose) note_unused_skips(run);
  if (run->cases) {
    json_t *root = json_object();
    app_json_set(root, "cases", json_incref(run->cases));
    for (size_t i = 0; i < 3; i++) app_json_set(root, verdicts[i].json, json_integer(run->counts[i]));
    TRY(app_print_json(root, APP_JSON, err));
  } else {
    printf("%u passed, %u failed, %u skipped\n", run->counts[PASSED], run->counts[FAILED], run->counts[SKIPPED]);
  }
  return run->counts[FAILED] ? TD_ANSWER_NO : TD_OK;
}

td_status cli_run_check(cli_args *args, td_error *err) {
  check_run run = {.args = args};
  check_found_vec found = {0};
  TRY(prepare(&run, &found, err));
  if (cli_flag(args, "json") && !(run.cases = json_array())) return base_no_memory(err, "JSON");
  const char *only = cli_value(args, "only");
  bool progress = run.cases && app_is_terminal(stderr);
  for (uint32_t i = 0; i < found.count; i++) {
    const check_found *one = &found.at[i];
    if (only && fnmatch(only, one->name, 0) != 0) continue;
    if (progress) fprintf(stderr, "\r\033[K%u/%u %s", i + 1, found.count, one->name);
    check_result result;
    const char *reason;
    check_case_isolated(one->folder, &run.settings, &result);
    verdict v = judge(&run, one, &result, &reason);
    report(&run, one, v, reason, result.ms);
  }
  if (progress) fprintf(stderr, "\r\033[K");
  td_status status = finish(&run, err);
  json_decref(run.cases);
  return status;
}
