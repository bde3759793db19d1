/* Structs of callers that were built for an older, or a newer, library. */
#include "test.h"

#include <stdio.h>
#include <unistd.h>

#include <treadle/treadle.h>

static const char net[] = "tdir 1\ninput %0 \"x\": f32[n, 3]\n%1 = aten::neg(%0)\noutput \"y\" %1\n";

static td_model *load(const void *options) {
  td_model *model = NULL;
  td_error err;
  if (td_model_load_memory(net, sizeof net - 1, options, &model, &err) != TD_OK) fail_msg("%s", err.text);
  return model;
}

/* The first version of the options ended behind `backend`: nothing behind it is read. */
static void an_older_struct_is_taken(void **state) {
  struct older {
    size_t size;
    const char *backend;
  } *options = malloc(sizeof *options); /* alone: a sanitizer sees what is read behind it */
  td_model_stats stats = {.size = sizeof stats};
  (void)state;
  assert_non_null(options);
  *options = (struct older){sizeof *options, "eager"};
  td_model *model = load(options);
  assert_int_equal(td_model_get_stats(model, &stats, NULL), TD_OK);
  assert_string_equal(stats.backend, "eager");
  td_model_free(model);
  free(options);
}

typedef struct newer {
  td_load_options known;
  char unknown[24];
} newer;

/* A newer one is taken as long as no field is set that nobody here knows. */
static void a_newer_struct_may_ask_for_nothing_new(void **state) {
  newer options = {.known = {.size = sizeof options}};
  td_model *model = load(&options);
  td_error err = {0};
  (void)state;
  td_model_free(model);
  for (size_t i = 0; i < sizeof options.unknown; i++) {
    memset(options.unknown, 0, sizeof options.unknown);
    options.unknown[i] = 1;
    assert_int_equal(td_model_load_memory(net, sizeof net - 1, &options.known, &model, &err), TD_UNSUPPORTED);
    assert_non_null(strstr(err.text, td_version()));
    assert_non_null(strstr(err.text, "leave the field zero"));
  }
}

static void a_size_is_needed(void **state) {
  td_model *model = NULL;
  td_error err = {0};
  td_value_info info = {0};
  td_tuning number = {0};
  static const size_t wrong[] = {0, 1, sizeof(size_t) - 1, (size_t)-1, (size_t)1 << 40};
  (void)state;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    const td_load_options options = {.size = wrong[i]};
    assert_int_equal(td_model_load_memory(net, sizeof net - 1, &options, &model, &err), TD_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "size"));
  }
  model = load(NULL);
  assert_int_equal(td_model_input(model, 0, &info, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_tuning_at(0, &number), 0);
  td_model_free(model);
}

/* Of structs that are filled no more is written than the caller has. */
static void no_more_is_written_than_there_is(void **state) {
  td_model *model = load(NULL);
  char room[sizeof(td_value_info)];
  td_value_info *info = (td_value_info *)(void *)room, whole = {.size = sizeof whole};
  td_tuning number = {.size = offsetof(td_tuning, value), .value = 77};
  const size_t known = offsetof(td_value_info, rank);
  (void)state;
  memset(room, 0x5a, sizeof room);
  memcpy(room, &known, sizeof known);
  assert_int_equal(td_model_input(model, 0, info, NULL), TD_OK);
  assert_string_equal(info->name, "x");
  assert_int_equal(info->dtype, TD_F32);
  for (size_t i = known; i < sizeof room; i++) assert_int_equal(room[i], 0x5a);
  assert_int_equal(td_model_input(model, 0, &whole, NULL), TD_OK);
  assert_int_equal(whole.size, sizeof whole);
  assert_int_equal(whole.rank, 2);
  assert_int_equal(td_tuning_at(0, &number), 1);
  assert_non_null(number.name);
  assert_int_equal(number.value, 77);
  td_model_free(model);
}

static void count_step(void *user, uint32_t step) {
  (void)step;
  ++*(int *)user;
}

static void observers_have_a_size(void **state) {
  td_model *model = load(NULL);
  td_session *session;
  int count = 0;
  float x[6] = {0};
  const td_tensor input = {.dtype = TD_F32, .rank = 2, .dims = {2, 3}, .data = x};
  td_observer observer = {.user = &count, .begin = count_step};
  td_error err;
  (void)state;
  assert_int_equal(td_session_new(model, NULL, &session, &err), TD_OK);
  assert_int_equal(td_session_observe(session, &observer, &err), TD_BAD_ARGUMENT);
  observer.size = offsetof(td_observer, end); /* without those that came behind `begin` */
  observer.end = (void (*)(void *, uint32_t, uint64_t))(uintptr_t)1;
  assert_int_equal(td_session_observe(session, &observer, &err), TD_OK);
  assert_int_equal(td_session_set_input(session, 0, &input, &err), TD_OK);
  assert_int_equal(td_session_run(session, &err), TD_OK);
  assert_true(count > 0);
  td_session_free(session);
  td_model_free(model);
}

/* ---- arrays ---- */

typedef struct longer_spec {
  td_input_spec known;
  int64_t unknown;
} longer_spec;

/* Elements are as far apart as the caller says; one that asks for something new is refused. */
static void arrays_have_a_stride(void **state) {
  longer_spec specs[2] = {{.known = {.name = "x", .dtype = TD_F32, .rank = 2, .dims = {-1, 3}}},
                          {.known = {.name = "other", .dtype = TD_F32, .rank = TD_MAX_RANK + 1}}};
  td_load_options options = {
      .size = sizeof options, .inputs = &specs[0].known, .input_count = 2, .input_stride = sizeof *specs};
  td_model *model = NULL;
  td_error err = {0};
  (void)state;
  assert_int_equal(td_model_load_memory(net, sizeof net - 1, &options, &model, &err), TD_BAD_ARGUMENT);
  assert_string_equal(err.name, "other"); /* the second was found where it is */
  specs[1].known.rank = 0;
  model = load(&options);
  td_model_free(model);
  specs[1].unknown = 1;
  assert_int_equal(td_model_load_memory(net, sizeof net - 1, &options, &model, &err), TD_UNSUPPORTED);
  options.input_stride = 1;
  assert_int_equal(td_model_load_memory(net, sizeof net - 1, &options, &model, &err), TD_BAD_ARGUMENT);
}

typedef struct longer_info {
  td_value_info known;
  int64_t unknown;
} longer_info;

static td_status take(void *user, const char *bytes, size_t count) {
  char *text = user;
  if (text) strncat(text, bytes, count);
  return TD_OK;
}

static void cuts_have_a_stride(void **state) {
  longer_info infos[2] = {{.known = {.name = "other"}},
                          {.known = {.name = "x", .dtype = TD_F32, .rank = 2, .dims = {4, 3}}}};
  td_model *model = load(NULL);
  td_cut cut = {.size = sizeof cut, .inputs = &infos[0].known, .input_count = 2, .input_stride = sizeof *infos};
  char text[1024] = "";
  td_error err = {0};
  (void)state;
  assert_int_equal(td_model_save_graph(model, "imported", &cut, "w", take, take, text, &err), TD_OK);
  assert_non_null(strstr(text, "f32[4, 3]"));
  infos[0].unknown = 1;
  assert_int_equal(td_model_save_graph(model, "imported", &cut, "w", take, take, text, &err), TD_UNSUPPORTED);
  cut.input_stride = 1;
  assert_int_equal(td_model_save_graph(model, "imported", &cut, "w", take, take, text, &err), TD_BAD_ARGUMENT);
  td_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_older_struct_is_taken), cmocka_unit_test(a_newer_struct_may_ask_for_nothing_new),
      cmocka_unit_test(a_size_is_needed),         cmocka_unit_test(no_more_is_written_than_there_is),
      cmocka_unit_test(observers_have_a_size),    cmocka_unit_test(arrays_have_a_stride),
      cmocka_unit_test(cuts_have_a_stride)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
