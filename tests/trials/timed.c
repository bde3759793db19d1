/* timed.c -- the least time of some runs of a model on one thread, in ms, with the defaults that the header gives. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <treadle/defaults.h>
#include <treadle/treadle.h>

static double now_ms(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

int main(int count, char **words) {
  td_load_options options = {.size = sizeof options};
  td_session_options one = {.size = sizeof one, .threads = 1};
  td_defaults defaults;
  td_error err;
  td_model *model;
  td_session *session;
  td_value_info info = {.size = sizeof info};
  td_load_defaults(&options, &defaults);
  if (count < 2 || td_model_load(words[1], &options, &model, &err) != TD_OK) return 1;
  if (td_session_new(model, &one, &session, &err) != TD_OK || td_model_input(model, 0, &info, &err) != TD_OK) return 2;
  td_tensor input = {.dtype = info.dtype, .rank = info.rank};
  size_t elements = 1;
  for (int i = 0; i < info.rank; i++) {
    input.dims[i] = info.dims[i] < 0 ? 1 : info.dims[i];
    elements *= (size_t)input.dims[i];
  }
  input.data = calloc(elements, sizeof(float));
  if (!input.data || td_session_set_input(session, 0, &input, &err) != TD_OK) return 3;
  double best = 1e9;
  for (int i = 0; i < 40; i++) {
    const double start = now_ms();
    if (td_session_run(session, &err) != TD_OK) return 4;
    if (now_ms() - start < best) best = now_ms() - start;
  }
  printf("%.6f\n", best);
  td_session_free(session);
  td_model_free(model);
  free(input.data);
  return 0;
}
