/* tune.c -- `treadle tune`: tries the numbers of td_tuning_at on this machine, one after the other, and keeps those
 * that win. Candidates of one number take turns on each layer, so that a slow moment hits all alike. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"
#include "tuning.h"
#include "values.h"

enum { CANDIDATES = 8, ROUNDS = 12, TEXT = 512 };
static const double gain = 0.985; /* of the time so far that a candidate must stay below */
static const uint64_t burst_ns = 1500000;

/* Kinds of layers that take most of the time of most models, on one thread. */
static const char *const layers[] = {"linear 128x768 out=768",
                                     "linear 128x3072 out=768",
                                     "linear 512x512 out=512",
                                     "linear 784x192 out=768",
                                     "conv 1x256x14x14 out=1024 kernel=1",
                                     "conv 1x512x28x28 out=128 kernel=1",
                                     "conv 1x256x28x28 out=256 kernel=3 stride=2",
                                     "conv 1x128x28x28 out=128 kernel=3"};
enum { LAYERS = sizeof layers / sizeof *layers };

/* ---- the file ---- */

static td_status find_place(cli_kept *k, td_error *err) {
  sys_machine m;
  sys_machine_read(&m);
  snprintf(k->key, sizeof k->key, "%s %u/%u; isa %x; treadle %s", m.cpu_name, m.cpu_family, m.cpu_model, m.isa,
           td_version());
  return cli_kept_place(k, "tuning", "txt") ? TD_OK : cli_no_cache(err);
}

td_status cli_tuning_of(const cli_args *args, const char **text, td_error *err) {
  cli_kept k;
  char numbers[TEXT];
  *text = NULL;
  if (!cli_flag(args, "tuned")) return TD_OK;
  TRY(find_place(&k, err));
  if (!cli_kept_read(&k, numbers, sizeof numbers))
    return base_fail(err, TD_BAD_FILE, NULL, -1, "nothing is known of this machine yet: run `treadle tune` first");
  *text = base_arena_text(args->arena, numbers);
  return *text ? TD_OK : base_no_memory(err, "the tuning");
}

/* ---- measuring ---- */

/* A layer under one set of numbers. */
typedef struct entrant {
  td_model *model;
  td_session *session;
  double best; /* ns of a run */
} entrant;

static td_status open_entrant(cli_args *args, const char *layer, const char *text, entrant *e, td_error *err) {
  const char *path = base_arena_format(args->arena, "builtin:layer:%s", layer);
  if (!path) return base_no_memory(err, "a layer");
  const td_load_options options = {.size = sizeof options, .isa = cli_value(args, "isa"), .tuning = text};
  const td_session_options one = {.size = sizeof one, .threads = 1};
  cli_args none = *args;
  cli_feed feed;
  none.given_count = 0;
  *e = (entrant){.best = INFINITY};
  TRY(td_model_load(path, &options, &e->model, err));
  TRY(td_session_new(e->model, &one, &e->session, err));
  TRY(cli_feed_make(&none, e->model, false, &feed, err));
  TRY(cli_feed_bind(&feed, e->session, args->arena, err));
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
static td_status compete(cli_args *args, const char *layer, char (*texts)[TEXT], uint32_t count, double *scores,
                         td_error *err) {
  entrant entrants[CANDIDATES] = {0};
  td_status status = TD_OK;
  for (uint32_t i = 0; i < count && status == TD_OK; i++)
    status = open_entrant(args, layer, texts[i], &entrants[i], err);
  for (uint32_t turn = 0; turn < ROUNDS * count && status == TD_OK; turn++)
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

/* Adds to `chosen` the best value of one number, given those chosen before. */
static td_status tune_one(cli_args *args, const td_tuning *number, char *chosen, td_error *err) {
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
  for (uint32_t i = 0; i < count; i++) TRY(add_number(texts[i], chosen, number->name, values[i], err));
  for (uint32_t l = 0; l < LAYERS; l++) TRY(compete(args, layers[l], texts, count, scores, err));
  for (uint32_t i = 1; i < count; i++)
    if (scores[i] < scores[best] && exp(scores[i]) < gain) best = i;
  printf("%-16s %8lld  %5.1f %% less time than with %lld: %s\n", number->name, (long long)values[best],
         100 * (1 - exp(scores[best])), (long long)number->value, number->what);
  strcpy(chosen, texts[best]);
  return TD_OK;
}

static td_status run_tune(cli_args *args, td_error *err) {
  cli_kept k;
  char chosen[TEXT] = "";
  td_tuning number;
  TRY(find_place(&k, err));
  for (size_t i = 0; td_tuning_at(i, &number); i++) {
    if (cli_is_terminal(stderr)) fprintf(stderr, "\rtrying %s ...\033[K\r", number.name);
    TRY(tune_one(args, &number, chosen, err));
  }
  TRY(cli_kept_write(&k, chosen, err));
  printf("kept in %s; --tuned uses it\n", k.path);
  return TD_OK;
}

static const cli_option tune_options[] = {CLI_OPTION_ISA};

const cli_command cli_tune = {
    .name = "tune",
    .operands = "",
    .summary = "find out which forms of the kernels are fastest here",
    .text =
        "Kernels choose among forms that give the same bits by a few numbers, which a table knows for families of "
        "CPUs.\n"
        "This tries others on some layers, on one thread, in about ten seconds, and keeps the winners in the cache\n"
        "folder ($XDG_CACHE_HOME/treadle or ~/.cache/treadle). Commands use them with --tuned.",
    .examples =
        "treadle tune\n"
        "treadle bench resnet50.onnx --tuned",
    .options = tune_options,
    .option_count = sizeof tune_options / sizeof *tune_options,
    .run = run_tune,
};
