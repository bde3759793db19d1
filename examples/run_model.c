/* run_model.c -- libtreadle from a program: load a model, look at what it takes, give it that, read what comes out.
 *
 *     cc run_model.c $(pkg-config --cflags --libs treadle) -o run_model && ./run_model net.onnx
 *
 * Without an argument it runs a built-in network on random weights. Inputs are filled with one value, so the answer
 * means nothing; every call a real program needs is here. */
#include <stdio.h>
#include <stdlib.h>
#include <treadle/defaults.h>
#include <treadle/treadle.h>

enum { INPUTS_MAX = 16, SHOWN = 5 };

/* Says what went wrong, with the node, input or file that is to blame, and gives the exit status. */
static int complain(const td_error *err) {
  fprintf(stderr, "%s: %s%s%s\n", td_status_name(err->code), err->name, err->name[0] ? ": " : "", err->text);
  return (int)err->code;
}

/* A tensor for an input as the model declares it, with 1 for every open dimension; data is NULL when there is no memory
 * or the input is not one of floats. The caller frees data. */
static td_tensor make_input(const td_value_info *info) {
  td_tensor tensor = {.dtype = info->dtype, .rank = info->rank};
  if (info->dtype != TD_F32 || info->rank < 0) return tensor;
  size_t count = 1;
  for (int32_t i = 0; i < info->rank; i++) {
    tensor.dims[i] = info->dims[i] < 0 ? 1 : info->dims[i];
    count *= (size_t)tensor.dims[i];
  }
  float *values = malloc((count ? count : 1) * sizeof *values);
  for (size_t i = 0; values && i < count; i++) values[i] = 0.5f;
  tensor.data = values;
  return tensor;
}

/* Makes and binds input `index`. The session borrows the data until the run is over. */
static td_status give_input(td_model *model, td_session *session, size_t index, void **data, td_error *err) {
  td_value_info info = {.size = sizeof info};
  td_status status = td_model_input(model, index, &info, err);
  if (status != TD_OK) return status;
  td_tensor tensor = make_input(&info);
  *data = tensor.data;
  printf("input %s: %s of rank %d\n", info.name, td_dtype_name(info.dtype), info.rank);
  return td_session_set_input(session, index, &tensor, err);
}

/* Prints output `index`, which is borrowed until the next run. */
static td_status show_output(td_model *model, td_session *session, size_t index, td_error *err) {
  td_value_info info = {.size = sizeof info};
  td_tensor tensor;
  td_status status = td_model_output(model, index, &info, err);
  if (status == TD_OK) status = td_session_output(session, index, &tensor, err);
  if (status != TD_OK) return status;
  int64_t count = 1;
  printf("output %s: %s[", info.name, td_dtype_name(tensor.dtype));
  for (int32_t i = 0; i < tensor.rank; i++) {
    printf("%s%lld", i ? "," : "", (long long)tensor.dims[i]);
    count *= tensor.dims[i];
  }
  printf("]");
  const float *values = tensor.data;
  for (int64_t i = 0; tensor.dtype == TD_F32 && i < count && i < SHOWN; i++) printf(" %g", (double)values[i]);
  printf("\n");
  return TD_OK;
}

static td_status run(td_model *model, td_session *session, void **data, td_error *err) {
  td_status status = TD_OK;
  for (size_t i = 0; status == TD_OK && i < td_model_input_count(model); i++)
    status = give_input(model, session, i, &data[i], err);
  if (status == TD_OK) status = td_session_run(session, err);
  for (size_t i = 0; status == TD_OK && i < td_model_output_count(model); i++)
    status = show_output(model, session, i, err);
  return status;
}

int main(int argc, char **argv) {
  td_error err;
  td_model *model;
  td_session *session;
  void *data[INPUTS_MAX] = {0};
  td_load_options options = {.size = sizeof options, .seed = 1};
  td_defaults defaults; /* which the options point to while the model is loaded */
  td_load_defaults(&options, &defaults);
  if (td_model_load(argc > 1 ? argv[1] : "builtin:efficientnet_lite0", &options, &model, &err) != TD_OK)
    return complain(&err);
  if (td_model_input_count(model) > INPUTS_MAX) {
    fprintf(stderr, "more inputs than this example feeds\n");
    td_model_free(model);
    return TD_UNSUPPORTED;
  }
  td_status status = td_session_new(model, NULL, &session, &err);
  if (status == TD_OK) {
    status = run(model, session, data, &err);
    td_session_free(session);
  }
  if (status != TD_OK) complain(&err);
  td_model_free(model); /* after its sessions */
  for (size_t i = 0; i < INPUTS_MAX; i++) free(data[i]);
  return (int)status;
}
