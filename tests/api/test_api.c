/* test_api.c -- the public functions: what they give, what they refuse, and sessions of one model on several threads.
 */
/* ctest: threads memory */
#include <pthread.h>
#include <stdlib.h>

#include "import/onnx_build.h"

static const char list_model[] = "tests/fuzz/corpus/onnx/loop13_seq.onnx";
static const char optional_model[] = "tests/fuzz/corpus/onnx/loop16_seq_none.onnx";

/* x: f32[batch, 3]; y = relu(x) + w, z = transpose(y). */
static base_text small_model(void) {
  static const float w[] = {1, 2, 3};
  base_text g = message();
  put_input(&g, "x", DIMS(-2, 3));
  put_floats(&g, "w", 3, w);
  put_node(&g, "Relu", "relu", "x", "a");
  put_node(&g, "Add", "add", "a,w", "y");
  put_node(&g, "Transpose", "turn", "y", "z");
  put_output(&g, "y");
  put_output(&g, "z");
  return model_of(&g, NULL);
}

typedef struct fixture {
  base_text bytes;
  td_model *model;
  td_session *session;
} fixture;

static int open_fixture(void **state) {
  fixture *f = calloc(1, sizeof *f);
  td_error err;
  f->bytes = small_model();
  /* Steps are the user's nodes, one each: nothing is fused. */
  const td_load_options options = {.size = sizeof options, .disabled_passes = "fuse"};
  if (td_model_load_memory(f->bytes.at, f->bytes.length, &options, &f->model, &err) != TD_OK) fail_msg("%s", err.text);
  assert_int_equal(td_session_new(f->model, NULL, &f->session, &err), TD_OK);
  *state = f;
  return 0;
}

static int close_fixture(void **state) {
  fixture *f = *state;
  td_session_free(f->session);
  td_model_free(f->model);
  base_text_free(&f->bytes);
  free(f);
  return 0;
}

static td_tensor rows(int64_t count, float *data) {
  for (int64_t i = 0; i < 3 * count; i++) data[i] = (float)(i - 2);
  return (td_tensor){.dtype = TD_F32, .rank = 2, .dims = {count, 3}, .data = data};
}

static void check_rows(td_session *session, int64_t count) {
  td_tensor y, z;
  td_error err;
  assert_int_equal(td_session_output(session, 0, &y, &err), TD_OK);
  assert_int_equal(td_session_output(session, 1, &z, &err), TD_OK);
  assert_true(y.rank == 2 && y.dims[0] == count && y.dims[1] == 3 && z.dims[0] == 3 && z.dims[1] == count);
  for (int64_t i = 0; i < count; i++)
    for (int64_t k = 0; k < 3; k++) {
      float in = (float)(3 * i + k - 2), want = (in > 0 ? in : 0) + (float)(k + 1);
      assert_true(((float *)y.data)[3 * i + k] == want && ((float *)z.data)[k * count + i] == want);
    }
}

static void describes(void **state) {
  fixture *f = *state;
  td_value_info info = {.size = sizeof info};
  td_error err;
  size_t index;
  assert_int_equal(td_model_input_count(f->model), 1);
  assert_int_equal(td_model_output_count(f->model), 2);
  assert_int_equal(td_model_input(f->model, 0, &info, &err), TD_OK);
  assert_string_equal(info.name, "x");
  assert_string_equal(info.kind, "tensor");
  assert_string_equal(info.symbols[0], "batch");
  assert_true(info.dtype == TD_F32 && info.rank == 2 && info.dims[0] == -1 && info.dims[1] == 3 && !info.has_default);
  assert_int_equal(td_model_output(f->model, 1, &info, &err), TD_OK);
  assert_true(info.dims[0] == 3 && info.dims[1] == -1);
  assert_int_equal(td_model_find_output(f->model, "z", &index, &err), TD_OK);
  assert_int_equal(index, 1);
  assert_int_equal(td_model_find_input(f->model, "w", &index, &err), TD_BAD_ARGUMENT);
  assert_non_null(strstr(err.text, "there are: x"));
  assert_int_equal(td_model_find_output(f->model, "", &index, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_model_input(f->model, 1, &info, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_model_output(f->model, SIZE_MAX, &info, NULL), TD_BAD_ARGUMENT);
}

static void prints(void **state) {
  fixture *f = *state;
  td_error err;
  char *text;
  static const char *const views[][3] = {
      {"imported", "text", "aten::relu"}, {"imported", "dot", "digraph"},   {"imported", "json", "\"op\""},
      {"passes", "text", "aten::relu"},   {"passes", "dot", "digraph"},     {"passes", "json", "\"op\""},
      {"plan", "text", "steps"},          {"plan", "json", "\"function\""}, {"plan", "dot", "digraph"}};
  for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
    assert_int_equal(td_model_print(f->model, views[i][0], views[i][1], &text, &err), TD_OK);
    assert_non_null(strstr(text, views[i][2]));
    td_text_free(f->model, text);
  }
  assert_int_equal(td_model_print(f->model, "plan", "html", &text, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_model_print(f->model, "loops", "dot", &text, &err), TD_BAD_ARGUMENT);
  td_text_free(f->model, NULL);
  td_text_free(NULL, NULL);
}

static void runs(void **state) {
  fixture *f = *state;
  td_error err;
  float data[30];
  for (int64_t count = 0; count < 10; count++) {
    td_tensor x = rows(count, data);
    assert_int_equal(td_session_set_input(f->session, 0, &x, &err), TD_OK);
    assert_int_equal(td_session_run(f->session, &err), TD_OK);
    check_rows(f->session, count);
  }
  size_t count;
  td_tensor y;
  assert_int_equal(td_session_output_count(f->session, 0, &count, &err), TD_OK);
  assert_int_equal(count, 1);
  assert_int_equal(td_session_output_item(f->session, 0, 0, &y, &err), TD_OK);
  assert_int_equal(td_session_output_item(f->session, 0, 1, &y, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_session_output(f->session, 2, &y, &err), TD_BAD_ARGUMENT);
}

/* Input data may have any alignment. */
static void takes_unaligned_data(void **state) {
  fixture *f = *state;
  td_error err;
  float data[6];
  char moved[sizeof data + 1];
  td_tensor x = rows(2, data);
  memcpy(moved + 1, data, sizeof data);
  x.data = moved + 1;
  assert_int_equal(td_session_set_input(f->session, 0, &x, &err), TD_OK);
  assert_int_equal(td_session_run(f->session, &err), TD_OK);
  check_rows(f->session, 2);
}

/* Columns of a wider table, backwards, into the caller's memory. */
static void strides_and_targets(void **state) {
  fixture *f = *state;
  td_error err;
  float table[12], room[6];
  for (int i = 0; i < 12; i++) table[i] = (float)i;
  const td_tensor x = {.dtype = TD_F32, .rank = 2, .dims = {2, 3}, .data = table + 3};
  td_tensor y, predicted;
  assert_int_equal(td_session_predict_output(f->session, 0, &predicted, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_session_set_input_strided(f->session, 0, &x, (int64_t[]){-1, 4}, &err), TD_OK);
  assert_int_equal(td_session_predict_output(f->session, 0, &predicted, &err), TD_OK);
  assert_true(predicted.rank == 2 && predicted.dims[0] == 2 && predicted.dims[1] == 3 && !predicted.data);
  predicted.data = room;
  assert_int_equal(td_session_bind_output(f->session, 0, &predicted, &err), TD_OK);
  assert_int_equal(td_session_run(f->session, &err), TD_OK);
  assert_int_equal(td_session_output(f->session, 0, &y, &err), TD_OK);
  assert_ptr_equal(y.data, room);
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < 3; k++) assert_true(room[3 * i + k] == table[3 - i + 4 * k] + (float)(k + 1));
  assert_int_equal(td_session_bind_output(f->session, 0, NULL, &err), TD_OK);
  assert_int_equal(td_session_output(f->session, 0, &y, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_session_set_input_strided(f->session, 0, &x, (int64_t[]){INT64_MAX, 1}, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_session_set_input_strided(f->session, 0, &x, (int64_t[]){INT64_MIN, 1}, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_session_set_input_strided(f->session, 0, &x, NULL, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_session_clear_input(f->session, 0, &err), TD_OK);
  assert_int_equal(td_session_run(f->session, &err), TD_BAD_ARGUMENT);
  assert_non_null(strstr(err.text, "was not set"));
  assert_int_equal(td_session_clear_input(f->session, 1, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_session_clear_input(NULL, 0, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_session_bind_output(f->session, 9, &predicted, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_session_bind_output(NULL, 0, &predicted, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_session_predict_output(f->session, 9, &predicted, &err), TD_BAD_ARGUMENT);
}

static void refuses_tensors(void **state) {
  fixture *f = *state;
  td_error err;
  float data[6];
  const td_tensor good = rows(2, data);
  td_tensor bad[9];
  for (size_t i = 0; i < 9; i++) bad[i] = good;
  bad[0].dtype = TD_F64;
  bad[1].rank = 1;
  bad[2].dims[1] = 4;
  bad[3].rank = TD_MAX_RANK + 1;
  bad[4].rank = -1;
  bad[5].dims[0] = -1;
  bad[6].dims[0] = INT64_MAX;
  bad[7].data = NULL;
  bad[8].dtype = TD_DTYPE_COUNT;
  for (size_t i = 0; i < 9; i++) {
    err = (td_error){0};
    assert_int_equal(td_session_set_input(f->session, 0, &bad[i], &err), TD_BAD_ARGUMENT);
    assert_true(err.code == TD_BAD_ARGUMENT && err.text[0]);
  }
  assert_int_equal(td_session_set_input(f->session, 1, &good, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_session_set_input(f->session, SIZE_MAX, &good, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_session_set_input_list(f->session, 0, &good, 1, &err), TD_BAD_ARGUMENT);
  td_tensor y;
  assert_int_equal(td_session_run(f->session, &err), TD_BAD_ARGUMENT); /* nothing was bound */
  assert_string_equal(err.name, "x");
  assert_int_equal(td_session_output(f->session, 0, &y, &err), TD_BAD_ARGUMENT);
}

static void refuses_null(void **state) {
  fixture *f = *state;
  td_error e;
  td_model *model = NULL;
  td_session *session = NULL;
  td_value_info info = {.size = sizeof info};
  td_tensor t = {0};
  size_t n;
  char *text;
  const td_status got[] = {td_model_load(NULL, NULL, &model, &e),
                           td_model_load("x", NULL, NULL, &e),
                           td_model_load_memory(NULL, 4, NULL, &model, &e),
                           td_model_load_memory("", 0, NULL, NULL, &e),
                           td_model_input(NULL, 0, &info, &e),
                           td_model_input(f->model, 0, NULL, &e),
                           td_model_output(NULL, 0, &info, &e),
                           td_model_output(f->model, 0, NULL, &e),
                           td_model_find_input(NULL, "x", &n, &e),
                           td_model_find_input(f->model, NULL, &n, &e),
                           td_model_find_output(f->model, "x", NULL, &e),
                           td_model_get_stats(NULL, NULL, &e),
                           td_model_print(NULL, "plan", "text", &text, &e),
                           td_model_print(f->model, NULL, "text", &text, &e),
                           td_session_new(NULL, NULL, &session, &e),
                           td_session_new(f->model, NULL, NULL, &e),
                           td_session_set_input(NULL, 0, &t, &e),
                           td_session_set_input(f->session, 0, NULL, &e),
                           td_session_set_input_list(NULL, 0, &t, 1, &e),
                           td_session_set_input_list(f->session, 0, NULL, 1, &e),
                           td_session_run(NULL, &e),
                           td_session_output(NULL, 0, &t, &e),
                           td_session_output(f->session, 0, NULL, &e),
                           td_session_output_count(f->session, 0, NULL, &e),
                           td_session_output_item(f->session, 0, 0, NULL, &e),
                           td_model_state(NULL, 0, &info, &e),
                           td_model_state(f->model, 0, &info, &e),
                           td_model_find_state(f->model, "h", &n, &e),
                           td_session_reset(NULL, &e),
                           td_session_state(f->session, 0, &t, &e),
                           td_session_state(f->session, 0, NULL, &e),
                           td_session_set_state(f->session, 0, &t, &e),
                           td_session_set_state(NULL, 0, &t, &e),
                           td_session_get_stats(NULL, NULL, &e)};
  for (size_t i = 0; i < sizeof got / sizeof *got; i++)
    if (got[i] != TD_BAD_ARGUMENT) fail_msg("call %d: %d", (int)i, (int)got[i]);
  assert_int_equal(td_model_load(NULL, NULL, NULL, NULL), TD_BAD_ARGUMENT);
  assert_int_equal(td_model_input_count(NULL) + td_model_output_count(NULL) + td_model_state_count(NULL), 0);
  assert_int_equal(td_model_state_count(f->model), 0);
  assert_int_equal(td_session_reset(f->session, &e), TD_OK);
  td_model_free(NULL);
  td_session_free(NULL);
}

/* Structs of callers that know fewer fields, or more; a struct without its size is a mistake. */
static void structs_of_other_sizes(void **state) {
  fixture *f = *state;
  td_error err;
  struct {
    td_load_options now;
    char later[64];
  } options = {.now = {.size = sizeof options, .backend = "eager"}};
  td_model *model;
  td_model_stats stats = {.size = sizeof stats};
  assert_int_equal(td_model_load_memory(f->bytes.at, f->bytes.length, &options.now, &model, &err), TD_OK);
  assert_int_equal(td_model_get_stats(model, &stats, &err), TD_OK);
  assert_string_equal(stats.backend, "eager");
  assert_true(stats.nodes == 3 && stats.steps == 4 && stats.weights_bytes == 12);
  td_model_free(model);
  options.now.size = offsetof(td_load_options, backend); /* an older caller: the rest is as if zero */
  assert_int_equal(td_model_load_memory(f->bytes.at, f->bytes.length, &options.now, &model, &err), TD_OK);
  stats = (td_model_stats){.size = offsetof(td_model_stats, nodes), .nodes = 77};
  assert_int_equal(td_model_get_stats(model, &stats, &err), TD_OK);
  assert_true(stats.nodes == 77 && stats.weights_bytes == 12 && stats.size == offsetof(td_model_stats, nodes));
  td_model_free(model);
  options.now.size = 0;
  assert_int_equal(td_model_load_memory(f->bytes.at, f->bytes.length, &options.now, &model, &err), TD_BAD_ARGUMENT);
  td_session_options session_options = {0};
  td_session *session;
  assert_int_equal(td_session_new(f->model, &session_options, &session, &err), TD_BAD_ARGUMENT);
  stats.size = 0;
  assert_int_equal(td_model_get_stats(f->model, &stats, &err), TD_BAD_ARGUMENT);
  td_session_stats session_stats = {.size = sizeof session_stats};
  assert_int_equal(td_session_get_stats(f->session, &session_stats, &err), TD_OK);
  assert_true(session_stats.runs == 0 && session_stats.threads >= 1);
}

static void refuses_options(void **state) {
  fixture *f = *state;
  td_error err;
  td_model *model;
  const td_load_options wrong[] = {{.size = sizeof *wrong, .backend = "fast"},
                                   {.size = sizeof *wrong, .format = "pickle"},
                                   {.size = sizeof *wrong, .disabled_passes = "folding"},
                                   {.size = sizeof *wrong, .keep_f32 = "nobody"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_int_equal(td_model_load_memory(f->bytes.at, f->bytes.length, &wrong[i], &model, &err), TD_BAD_ARGUMENT);
  const td_load_options weights = {.size = sizeof weights, .weights = "w.pth"};
  assert_int_equal(td_model_load(list_model, &weights, &model, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_model_load("tests/no such file.onnx", NULL, &model, &err), TD_BAD_FILE);
  assert_string_equal(err.name, "tests/no such file.onnx");
  assert_int_equal(td_model_load("builtin:nothing", NULL, &model, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_model_load_memory(f->bytes.at, f->bytes.length / 2, NULL, &model, &err), TD_BAD_FILE);
  assert_int_equal(td_model_load_memory("", 0, NULL, &model, &err), TD_BAD_FILE);
  /* Who does not ask why it fails is told that it does. */
  assert_int_equal(td_model_load("tests/no such file.onnx", NULL, &model, NULL), TD_BAD_FILE);
  assert_int_equal(td_model_load("builtin:nothing", NULL, &model, NULL), TD_BAD_ARGUMENT);
  assert_int_equal(td_model_load_memory(f->bytes.at, f->bytes.length / 2, NULL, &model, NULL), TD_BAD_FILE);
  assert_int_equal(td_model_load_memory(f->bytes.at, f->bytes.length, &wrong[0], &model, NULL), TD_BAD_ARGUMENT);
}

static void lists_and_optionals(void **state) {
  (void)state;
  td_error err;
  td_model *model;
  td_session *session;
  td_tensor out;
  td_value_info info = {.size = sizeof info};
  int64_t trips = 3;
  uint8_t go = 1;
  float zero = 0;
  td_tensor n = {.dtype = TD_I64, .data = &trips}, c = {.dtype = TD_BOOL, .data = &go},
            item = {.dtype = TD_F32, .data = &zero};
  td_tensor many[40], bad = {.dtype = TD_F32, .rank = -1};
  for (size_t i = 0; i < 40; i++) many[i] = i == 39 ? bad : item;
  assert_int_equal(td_model_load(list_model, NULL, &model, &err), TD_OK);
  assert_int_equal(td_model_output(model, 0, &info, &err), TD_OK);
  assert_string_equal(info.kind, "list");
  assert_int_equal(td_session_new(model, NULL, &session, &err), TD_OK);
  assert_int_equal(td_session_set_input(session, 0, &n, &err), TD_OK);
  assert_int_equal(td_session_set_input(session, 1, &c, &err), TD_OK);
  assert_int_equal(td_session_set_input(session, 2, &item, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_session_set_input_list(session, 3, NULL, 0, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_session_set_input_list(session, 2, NULL, 2, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_session_set_input_list(session, 2, many, 2, &err), TD_OK);
  assert_int_equal(td_session_set_input_list(session, 2, many, 40, &err), TD_BAD_ARGUMENT); /* the two stay bound */
  size_t count;
  assert_int_equal(td_session_run(session, &err), TD_OK);
  assert_int_equal(td_session_output_count(session, 0, &count, &err), TD_OK);
  assert_int_equal(count, 5);
  assert_int_equal(td_session_output(session, 0, &out, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_session_output_item(session, 0, 4, &out, &err), TD_OK);
  assert_true(out.rank == 1 && out.dims[0] == 3 && ((float *)out.data)[2] == 3);
  assert_int_equal(td_session_output_item(session, 0, 5, &out, &err), TD_BAD_ARGUMENT);
  many[1].dtype = TD_I32;
  assert_int_equal(td_session_set_input_list(session, 2, many, 2, &err), TD_BAD_ARGUMENT); /* and leaves none */
  assert_int_equal(td_session_run(session, &err), TD_BAD_ARGUMENT);
  assert_string_equal(err.name, "seq_empty");
  assert_int_equal(td_session_set_input_list(session, 2, NULL, 0, &err), TD_OK);
  assert_int_equal(td_session_run(session, &err), TD_OK);
  assert_int_equal(td_session_output_count(session, 0, &count, &err), TD_OK);
  assert_int_equal(count, 3);
  td_session_free(session);
  td_model_free(model);
  assert_int_equal(td_model_load(optional_model, NULL, &model, &err), TD_OK);
  assert_int_equal(td_model_input(model, 2, &info, &err), TD_OK);
  assert_string_equal(info.kind, "optional");
  assert_int_equal(td_session_new(model, NULL, &session, &err), TD_OK);
  assert_int_equal(td_session_set_input(session, 2, &item, &err), TD_BAD_ARGUMENT); /* an optional list */
  assert_int_equal(td_session_set_input_list(session, 2, &item, 1, &err), TD_OK);
  assert_int_equal(td_session_set_input_list(session, 2, NULL, 0, &err), TD_OK);
  td_session_free(session);
  td_model_free(model);
}

/* ---- threads ---- */

typedef struct worker {
  pthread_t thread;
  const td_model *model;
  int64_t rows;
  bool ok;
} worker;

static bool right(td_session *session, int64_t count) {
  td_tensor y;
  td_error err;
  if (td_session_output(session, 0, &y, &err) != TD_OK || y.dims[0] != count) return false;
  for (int64_t i = 0; i < 3 * count; i++) {
    float in = (float)(i - 2), want = (in > 0 ? in : 0) + (float)(i % 3 + 1);
    if (((float *)y.data)[i] != want) return false;
  }
  return true;
}

static void *work(void *argument) {
  worker *w = argument;
  td_session *session;
  td_error err;
  float data[300];
  char *text;
  w->ok = td_session_new(w->model, NULL, &session, &err) == TD_OK;
  for (int i = 0; w->ok && i < 200; i++) {
    int64_t count = 1 + (w->rows * 7 + i) % 50;
    td_tensor x = rows(count, data);
    w->ok = td_session_set_input(session, 0, &x, &err) == TD_OK && td_session_run(session, &err) == TD_OK &&
            right(session, count);
  }
  if (w->ok) td_session_free(session);
  if (w->ok) w->ok = td_model_print(w->model, "imported", "text", &text, &err) == TD_OK;
  if (w->ok) td_text_free(w->model, text);
  return NULL;
}

static void sessions_on_threads(void **state) {
  fixture *f = *state;
  worker workers[4];
  for (int i = 0; i < 4; i++) {
    workers[i] = (worker){.model = f->model, .rows = i};
    assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
  for (int i = 0; i < 4; i++) assert_true(workers[i].ok);
}

typedef struct heard {
  uint32_t begun[16], ended[16], open; /* by step; steps between begin and end */
} heard;

static void begins(void *user, uint32_t step) {
  heard *h = user;
  assert_true(step < 16 && h->open == 0);
  h->begun[step]++;
  h->open++;
}

static void ends(void *user, uint32_t step, uint64_t ns) {
  heard *h = user;
  assert_true(ns < 1000000000);
  assert_int_equal(h->open, 1);
  h->ended[step]++;
  h->open--;
}

static void observers_hear_of_every_step(void **state) {
  fixture *f = *state;
  float data[300];
  td_error err;
  td_tensor x = rows(2, data);
  td_model_stats stats = {.size = sizeof stats};
  heard h = {.open = 0};
  assert_int_equal(td_model_get_stats(f->model, &stats, &err), TD_OK);
  assert_true(stats.steps >= 2 && stats.steps <= 16);
  assert_int_equal(
      td_session_observe(f->session,
                         &(td_observer){.size = sizeof(td_observer), .user = &h, .begin = begins, .end = ends}, &err),
      TD_OK);
  assert_int_equal(td_session_set_input(f->session, 0, &x, &err), TD_OK);
  for (int run = 0; run < 3; run++) assert_int_equal(td_session_run(f->session, &err), TD_OK);
  assert_int_equal(td_session_observe(f->session, NULL, &err), TD_OK);
  assert_int_equal(td_session_run(f->session, &err), TD_OK);
  for (uint32_t i = 0; i < stats.steps; i++) assert_true(h.begun[i] == 3 && h.ended[i] == 3);
  check_rows(f->session, 2);
}

/* relu(x) + w for x f32[count, 3]: an operation and three floats per element at most, and w is a constant. */
static void steps_know_their_work(void **state) {
  fixture *f = *state;
  float data[300];
  td_error err;
  td_step step = {.size = sizeof step};
  assert_int_equal(td_session_get_step(f->session, 0, &step, &err), TD_OK);
  assert_true(strcmp(step.op, "aten::relu") == 0 && step.flops == 0 && step.read_bytes == 0);
  for (int64_t count = 10; count <= 100; count += 90) {
    td_tensor x = rows(count, data);
    assert_int_equal(td_session_set_input(f->session, 0, &x, &err), TD_OK);
    assert_int_equal(td_session_run(f->session, &err), TD_OK);
    assert_int_equal(td_session_get_step(f->session, 0, &step, &err), TD_OK);
    assert_string_equal(step.op, "aten::relu");
    assert_non_null(strstr(step.name, "relu (Relu)"));
    assert_true(step.flops == 3.0 * (double)count);
    assert_true(step.read_bytes == 12.0 * (double)count && step.write_bytes == 12.0 * (double)count);
    assert_true(step.const_bytes == 0);
    assert_int_equal(td_session_get_step(f->session, 1, &step, &err), TD_OK);
    assert_string_equal(step.op, "aten::add");
    assert_true(step.const_bytes == 12 && step.read_bytes == 12.0 * (double)count);
  }
  assert_int_equal(td_session_get_step(f->session, 16, &step, &err), TD_BAD_ARGUMENT);
}

static void names(void **state) {
  (void)state;
  char version[32];
  snprintf(version, sizeof version, "%d.%d.%d", TD_VERSION_MAJOR, TD_VERSION_MINOR, TD_VERSION_PATCH);
  assert_string_equal(td_version(), version);
  assert_string_equal(td_dtype_name(TD_F32), "f32");
  assert_string_equal(td_dtype_name(TD_DTYPE_COUNT), "invalid");
  for (int i = TD_OK; i <= TD_INTERNAL + 1; i++) assert_non_null(td_status_name((td_status)i));
}

#define WITH_MODEL(test) cmocka_unit_test_setup_teardown(test, open_fixture, close_fixture)

static void math_goes_by_its_names(void **state) {
  const fixture *f = *state;
  const char *const names[] = {"exact", "default", "fast", NULL};
  td_error err;
  td_load_options options = {.size = sizeof options, .math = "exactly"};
  td_model *model;
  assert_int_equal(td_model_load_memory(f->bytes.at, f->bytes.length, &options, &model, &err), TD_BAD_ARGUMENT);
  assert_non_null(strstr(err.text, "exact, default, fast"));
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    options.math = names[i];
    assert_int_equal(td_model_load_memory(f->bytes.at, f->bytes.length, &options, &model, &err), TD_OK);
    td_model_free(model);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {WITH_MODEL(describes),
                                     WITH_MODEL(prints),
                                     WITH_MODEL(runs),
                                     WITH_MODEL(takes_unaligned_data),
                                     WITH_MODEL(strides_and_targets),
                                     WITH_MODEL(refuses_tensors),
                                     WITH_MODEL(refuses_null),
                                     WITH_MODEL(structs_of_other_sizes),
                                     WITH_MODEL(refuses_options),
                                     WITH_MODEL(math_goes_by_its_names),
                                     WITH_MODEL(observers_hear_of_every_step),
                                     WITH_MODEL(steps_know_their_work),
                                     cmocka_unit_test(lists_and_optionals),
                                     WITH_MODEL(sessions_on_threads),
                                     cmocka_unit_test(names)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
