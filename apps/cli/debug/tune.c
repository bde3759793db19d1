/* tune.c -- `treadle tune`: tries the numbers of td_tuning_at on this machine, one after the other, and keeps those
 * that win. Candidates of one number take turns on each layer, so that a slow moment hits all alike. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/faults.h"
#include "cli/open.h"
#include "cli/tuning.h"
#include "sys/sys.h"

enum { CANDIDATES = 8, TURNS = 12, TEXT = CLI_TUNING_TEXT };
static const double gain = 0.985; /* of the time so far that a candidate must stay below */
static const uint64_t burst_ns = 1500000;

/* Kinds of layers that take most of the time of most models, for numbers that one thread feels; and layers of so little
 * work that a second thread may gain or lose. */
enum { LAYERS = 8, THREADS = 2 };
static const char *const layers[THREADS][LAYERS] = {
    {"linear 128x768 out=768", "linear 128x3072 out=768", "linear 512x512 out=512", "linear 784x192 out=768",
     "conv 1x256x14x14 out=1024 kernel=1", "conv 1x512x28x28 out=128 kernel=1",
     "conv 1x256x28x28 out=256 kernel=3 stride=2", "conv 1x128x28x28 out=128 kernel=3"},
    {"linear 8x128 out=128", "linear 16x256 out=128", "linear 32x128 out=128", "linear 16x256 out=512",
     "conv 1x32x14x14 out=32 kernel=1", "conv 1x64x14x14 out=64 kernel=1", "conv 1x16x28x28 out=32 kernel=1",
     "conv 1x32x14x14 out=32 kernel=3"}};

/* ---- measuring ---- */

typedef struct search {
  cli_args *args;
  uint32_t turns;       /* of each candidate on each layer */
  uint32_t done, count; /* numbers */
  uint32_t cores;
  char chosen[TEXT];
  json_t *json; /* an array of numbers; NULL: print lines */
} search;

/* A layer under one set of numbers. */
typedef struct entrant {
  td_model *model;
  td_session *session;
  double best; /* ns of a run */
} entrant;

static td_status open_entrant(cli_args *args, const char *layer, uint32_t threads, const char *text, entrant *e,
                              td_error *err) {
  const char *path = base_arena_format(args->arena, "builtin:layer:%s", layer);
  if (!path) return base_no_memory(err, "a layer");
  const td_load_options options = {.size = sizeof options, .isa = cli_value(args, "isa"), .tuning = text};
  const td_session_options session = {.size = sizeof session, .threads = threads};
  const app_inputs none = {.model = path};
  app_feed feed;
  *e = (entrant){.best = INFINITY};
  TRY(td_model_load(path, &options, &e->model, err));
  TRY(td_session_new(e->model, &session, &e->session, err));
  TRY(app_feed_make(&none, args->arena, e->model, false, &feed, err));
  TRY(app_feed_bind(&feed, e->session, args->arena, err));
  return td_session_run(e->session, err);
}

static td_status take_turn(entrant *e, td_error *err) {
  const uint64_t start = sys_clock_ns();
  for (uint64_t now = start; now - start < burst_ns;) {
    const uint64_t before = now;
    TRY(td_session_run(e->session, err));
    now = sys_clock_ns();
    e->best = fmin(e->best, (double)(now - before));
  }
  return TD_OK;
}

/* log of each text's time over that of the first, added to `scores`. */
static td_status compete(const search *s, const char *layer, uint32_t threads, char (*texts)[TEXT], uint32_t count,
                         double *scores, td_error *err) {
  entrant entrants[CANDIDATES] = {0};
  td_status status = TD_OK;
  for (uint32_t i = 0; i < count && status == TD_OK; i++)
    status = open_entrant(s->args, layer, threads, texts[i], &entrants[i], err);
  for (uint32_t turn = 0; turn < s->turns * count && status == TD_OK; turn++)
    status = take_turn(&entrants[turn % count], err);
  for (uint32_t i = 0; i < count; i++) {
    if (status == TD_OK) scores[i] += log(entrants[i].best / entrants[0].best) / LAYERS;
    td_session_free(entrants[i].session);
    td_model_free(entrants[i].model);
  }
  return status;
}

/* ---- the search ---- */

static td_status add_number(char *to, const char *before, const char *name, int64_t value, td_error *err) {
  const int length = snprintf(to, TEXT, "%s%s%s=%lld", before, *before ? "," : "", name, (long long)value);
  if (length >= 0 && length < TEXT) return TD_OK;
  return base_fail(err, TD_INTERNAL, name, -1, "the numbers take more than %d bytes of text", TEXT - 1);
}

static void show_progress(const search *s, const td_tuning *number, uint32_t layer) {
  if (app_is_terminal(stderr))
    fprintf(stderr, "\r%u of %u: %s, layer %u of %d ...\033[K\r", s->done + 1, s->count, number->name, layer + 1,
            LAYERS);
}

/* `ratio`: of the time with the best value to that with the one so far. */
static void report_number(const search *s, const td_tuning *number, int64_t best, double ratio) {
  if (!s->json) {
    printf("%-16s %8lld  %5.1f %% less time than with %lld: %s\n", number->name, (long long)best, 100 * (1 - ratio),
           (long long)number->value, number->what);
    return;
  }
  json_t *row = json_object();
  app_json_set(row, "name", app_json_text(number->name));
  app_json_set(row, "value", json_integer(best));
  app_json_set(row, "before", json_integer(number->value));
  app_json_set(row, "time_ratio", app_json_real(ratio));
  app_json_set(s->json, NULL, row);
}

/* Adds to s->chosen the best value of one number, given those chosen before. */
static td_status tune_one(search *s, const td_tuning *number, td_error *err) {
  char texts[CANDIDATES][TEXT];
  int64_t values[CANDIDATES] = {number->value};
  double scores[CANDIDATES] = {0};
  uint32_t count = 1, best = 0;
  char *end;
  for (const char *at = number->candidates; count < CANDIDATES; at = end) {
    const long long value = strtoll(at, &end, 10);
    if (end == at) break;
    if (value != number->value) values[count++] = value;
  }
  for (uint32_t i = 0; i < count; i++) TRY(add_number(texts[i], s->chosen, number->name, values[i], err));
  for (uint32_t l = 0; l < LAYERS; l++) {
    show_progress(s, number, l);
    TRY(compete(s, layers[number->threads - 1][l], number->threads, texts, count, scores, err));
  }
  for (uint32_t i = 1; i < count; i++)
    if (scores[i] < scores[best] && exp(scores[i]) < gain) best = i;
  report_number(s, number, values[best], exp(scores[best]));
  strcpy(s->chosen, texts[best]);
  s->done++;
  return TD_OK;
}

static bool is_named(const cli_args *args, const char *name, size_t length) {
  for (uint32_t i = 0; i < args->operand_count; i++)
    if (strlen(args->operands[i]) == length && memcmp(args->operands[i], name, length) == 0) return true;
  return false;
}

/* Is it to be tried? A number that a second thread feels needs a second core. */
static bool is_wanted(const search *s, const td_tuning *number) {
  return (!s->args->operand_count || is_named(s->args, number->name, strlen(number->name))) &&
         number->threads <= s->cores;
}

static td_status check_names(const cli_args *args, td_error *err) {
  for (uint32_t i = 0; i < args->operand_count; i++) {
    const char *nearest = NULL;
    td_tuning number = {.size = sizeof number};
    size_t at = 0;
    for (; td_tuning_at(at, &number) && strcmp(number.name, args->operands[i]) != 0; at++)
      cli_nearer(base_str_of(args->operands[i]), number.name, &nearest);
    if (td_tuning_at(at, &number)) continue;
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "there is no number called '%s'%s%s; without a name all are tried",
                     args->operands[i], nearest ? ", perhaps " : "", nearest ? nearest : "");
  }
  return TD_OK;
}

/* What an earlier run found of numbers that are not named now stays. */
static void keep_others(search *s, app_kept *k) {
  char kept[TEXT];
  char *to = s->chosen;
  if (!s->args->operand_count || !app_kept_read(k, kept, sizeof kept)) return;
  for (const char *word = kept; *word; word += *word == ',') {
    const size_t length = strcspn(word, ",");
    if (!is_named(s->args, word, strcspn(word, "=,"))) {
      if (to != s->chosen) *to++ = ',';
      memcpy(to, word, length);
      to += length;
    }
    word += length;
  }
  *to = '\0';
}

static td_status tune_all(search *s, td_error *err) {
  int64_t turns = TURNS;
  app_kept k;
  td_tuning number = {.size = sizeof number};
  TRY(check_names(s->args, err));
  TRY(cli_int(s->args, "turns", 1, 1000, &turns, err));
  TRY(cli_tuning_place(&k, err));
  keep_others(s, &k);
  s->turns = (uint32_t)turns;
  for (size_t i = 0; td_tuning_at(i, &number); i++) s->count += is_wanted(s, &number);
  for (size_t i = 0; td_tuning_at(i, &number); i++)
    if (is_wanted(s, &number)) TRY(tune_one(s, &number, err));
  TRY(app_kept_write(&k, s->chosen, err));
  if (!s->json) {
    printf("kept in %s; --tuned uses it\n", k.path);
    return TD_OK;
  }
  json_t *root = json_object();
  app_json_set(root, "numbers", json_incref(s->json));
  app_json_set(root, "file", app_json_text(k.path));
  return app_print_json(root, APP_JSON, err);
}

td_status cli_run_tune(cli_args *args, td_error *err) {
  search s = {.args = args, .cores = sys_threads_read()};
  if (cli_flag(args, "json") && !(s.json = json_array())) return base_no_memory(err, "JSON");
  const td_status status = tune_all(&s, err);
  json_decref(s.json);
  return status;
}
