/* sessions.c -- several sessions at once, and a batch over streams, each against one session on all threads.
 *
 *     bench_sessions MODEL [BATCH [SECONDS]]
 *
 * In turns, so that what else the machine does hits all alike: one session alone ("one"), two sessions of one pool on
 * two threads ("pool"), two with threads of their own ("own"); the batch on one session ("plain") and over streams
 * ("streams"). A line for each: runs per second, p50 and p99 in ms. bench/sessions.py puts other engines beside it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <treadle/async.h>

enum { MOST_INPUTS = 8, MOST_RUNS = 100000, TURNS = 4, THREADS = 2, OPEN_SIZE = 128 };

typedef struct client {
  td_session *session;
  double *ms;
  int runs;
  double end;
} client;

static td_tensor inputs[MOST_INPUTS], outputs[MOST_INPUTS];
static size_t input_count, output_count;

static void check(td_status status, const td_error *err) {
  if (status == TD_OK) return;
  fprintf(stderr, "%s: %s\n", err->name, err->text);
  exit((int)status);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static size_t elements(const td_tensor *t) {
  size_t count = 1;
  for (int32_t k = 0; k < t->rank; k++) count *= (size_t)t->dims[k];
  return count;
}

static void make_inputs(const td_model *model, int64_t batch) {
  td_error err;
  td_value_info info = {.size = sizeof info};
  input_count = td_model_input_count(model);
  for (size_t i = 0; i < input_count && i < MOST_INPUTS; i++) {
    check(td_model_input(model, i, &info, &err), &err);
    td_tensor *t = &inputs[i];
    *t = (td_tensor){.dtype = info.dtype, .rank = info.rank};
    for (int32_t k = 0; k < t->rank; k++) t->dims[k] = info.dims[k] >= 0 ? info.dims[k] : k ? OPEN_SIZE : batch;
    t->data = calloc(elements(t), 8);
    for (size_t e = 0; t->data && t->dtype == TD_F32 && e < elements(t); e++)
      ((float *)t->data)[e] = (float)(e * 2654435761u % 1000) / 500 - 1;
  }
}

static td_session *open_session(const td_model *model, const td_session_options *options) {
  td_error err;
  td_session *s;
  check(td_session_new(model, options, &s, &err), &err);
  for (size_t i = 0; i < input_count; i++) check(td_session_set_input(s, i, &inputs[i], &err), &err);
  check(td_session_run(s, &err), &err);
  return s;
}

static void *run_until_end(void *user) {
  client *c = user;
  td_error err;
  for (double began = now(), end; c->runs < MOST_RUNS && began < c->end; began = end) {
    check(td_session_run(c->session, &err), &err);
    end = now();
    c->ms[c->runs++] = 1e3 * (end - began);
  }
  return NULL;
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void report(const char *what, double *ms, int runs, double seconds, double samples) {
  qsort(ms, (size_t)runs, sizeof *ms, by_value);
  printf("%s %.2f %.3f %.3f\n", what, samples * runs / seconds, ms[runs / 2], ms[runs * 99 / 100]);
}

/* `count` clients at once for some seconds; what they add. */
static void side_by_side(td_session **sessions, int count, double seconds, double *ms, int *runs) {
  pthread_t threads[2];
  client clients[2];
  const double end = now() + seconds;
  for (int i = 0; i < count; i++) {
    clients[i] = (client){.session = sessions[i], .ms = calloc(MOST_RUNS, sizeof(double)), .end = end};
    pthread_create(&threads[i], NULL, run_until_end, &clients[i]);
  }
  for (int i = 0; i < count; i++) {
    pthread_join(threads[i], NULL);
    for (int k = 0; k < clients[i].runs && *runs < MOST_RUNS; k++) ms[(*runs)++] = clients[i].ms[k];
    free(clients[i].ms);
  }
}

static void measure_sessions(const td_model *model, double seconds) {
  td_error err;
  td_pool *pool;
  const td_pool_options of_pool = {.size = sizeof of_pool, .threads = THREADS};
  const td_session_options own = {.size = sizeof own, .threads = THREADS};
  static const char *const names[] = {"one", "pool", "own"};
  double *ms[3];
  int runs[3] = {0};
  check(td_pool_new(&of_pool, &pool, &err), &err);
  const td_session_options shared = {.size = sizeof shared, .pool = pool};
  td_session *one[] = {open_session(model, &own)},
             *pooled[] = {open_session(model, &shared), open_session(model, &shared)},
             *apart[] = {open_session(model, &own), open_session(model, &own)}, **all[] = {one, pooled, apart};
  for (int way = 0; way < 3; way++) ms[way] = calloc(MOST_RUNS, sizeof(double));
  for (int turn = 0; turn < TURNS; turn++)
    for (int way = 0; way < 3; way++) side_by_side(all[way], way ? 2 : 1, seconds / TURNS, ms[way], &runs[way]);
  for (int way = 0; way < 3; way++) report(names[way], ms[way], runs[way], seconds, 1);
  td_session_free(one[0]);
  for (int i = 0; i < 2; i++) td_session_free(pooled[i]), td_session_free(apart[i]);
  for (int way = 0; way < 3; way++) free(ms[way]);
  td_pool_free(pool);
}

static void make_outputs(td_session *session) {
  td_error err;
  for (size_t i = 0; i < output_count; i++) {
    check(td_session_output(session, i, &outputs[i], &err), &err);
    outputs[i].data = calloc(elements(&outputs[i]), 8);
  }
}

static void measure_streams(const td_model *model, int64_t batch, double seconds) {
  td_error err;
  td_streams *streams;
  const td_session_options own = {.size = sizeof own, .threads = THREADS};
  const td_streams_options options = {.size = sizeof options, .threads = THREADS};
  double *ms[] = {calloc(MOST_RUNS, sizeof(double)), calloc(MOST_RUNS, sizeof(double))};
  int runs[2] = {0};
  td_session *plain = open_session(model, &own);
  output_count = td_model_output_count(model);
  make_outputs(plain);
  const td_run_options run = {.size = sizeof run,
                              .inputs = inputs,
                              .input_count = input_count,
                              .outputs = outputs,
                              .output_count = output_count};
  check(td_streams_new(model, &options, &streams, &err), &err);
  check(td_streams_tune(streams, &run, &err), &err);
  const double end = now() + 2 * seconds;
  while (now() < end)
    for (int way = 0; way < 2; way++) {
      const double began = now();
      check(way ? td_streams_run(streams, &run, &err) : td_session_run_with(plain, &run, &err), &err);
      ms[way][runs[way]++] = 1e3 * (now() - began);
    }
  double sum[2] = {0};
  for (int way = 0; way < 2; way++)
    for (int i = 0; i < runs[way]; i++) sum[way] += ms[way][i] / 1e3;
  report("plain", ms[0], runs[0], sum[0], (double)batch);
  report("streams", ms[1], runs[1], sum[1], (double)batch);
  printf("count %u\n", td_streams_count(streams, batch));
  td_streams_free(streams);
  td_session_free(plain);
  for (int way = 0; way < 2; way++) free(ms[way]);
}

int main(int count, char **words) {
  td_error err;
  td_model *model;
  const int64_t batch = count > 2 ? atoll(words[2]) : 8;
  const double seconds = count > 3 ? atof(words[3]) : 4;
  if (count < 2 || batch < 1 || seconds <= 0) {
    fprintf(stderr, "usage: bench_sessions MODEL [BATCH [SECONDS]]\n");
    return TD_BAD_ARGUMENT;
  }
  check(td_model_load(words[1], NULL, &model, &err), &err);
  make_inputs(model, 1);
  measure_sessions(model, seconds);
  make_inputs(model, batch);
  measure_streams(model, batch, seconds);
  td_model_free(model);
  return 0;
}
