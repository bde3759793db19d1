/* Tasks of TorchScript programs: the same bits wherever they run, errors out of their waits, what cannot be a task. The
 * programs are written by tests/models/torchscript/generate.py. */
/* ctest: threads */
#include "test.h"

#include <treadle/treadle.h>

#include "api/api_priv.h"
#include "runtime/session_priv.h"

enum { MOST_THREADS = 4, RUNS = 8, MAX_OUTPUTS = 16 };

static const td_input_spec matrix = {.name = "x", .dtype = TD_F32, .rank = 2, .dims = {-1, 3}};

static td_load_options options_for(const td_input_spec *specs, size_t count, const char *backend) {
  return (td_load_options){.size = sizeof(td_load_options), .backend = backend, .inputs = specs, .input_count = count};
}

static td_model *load(const char *path, const td_load_options *options) {
  td_model *model = NULL;
  td_error err = {0};
  if (td_model_load(path, options, &model, &err) != TD_OK) fail_msg("%s: %s", err.name, err.text);
  return model;
}

/* Every fork that can be is handed over, however small. */
static td_session *open_session(const td_model *model, uint32_t interop) {
  td_session_options options = {.size = sizeof options, .threads = 1, .interop_threads = interop};
  td_session *session = NULL;
  td_error err = {0};
  assert_int_equal(td_session_new(model, &options, &session, &err), TD_OK);
  session->run->tasks.force = true;
  return session;
}

static void feed(td_session *session, int64_t rows, float first) {
  float x[128 * 3];
  td_error err = {0};
  td_tensor in = {.dtype = TD_F32, .rank = 2, .dims = {rows, 3}, .data = x};
  for (int64_t i = 0; i < rows * 3; i++) x[i] = first + 0.125F * (float)(i % 11);
  if (td_session_set_input(session, 0, &in, &err) != TD_OK) fail_msg("%s", err.text);
  if (td_session_run(session, &err) != TD_OK) fail_msg("%s: %s", err.name, err.text);
}

typedef struct kept {
  td_tensor tensor;
  void *bytes;
} kept;

static size_t outputs_of(const td_model *model, td_session *session, td_tensor *outs) {
  td_error err = {0};
  const size_t count = td_model_output_count(model);
  assert_true(count <= MAX_OUTPUTS);
  for (size_t i = 0; i < count; i++) assert_int_equal(td_session_output(session, i, &outs[i], &err), TD_OK);
  return count;
}

static size_t bytes_of(const td_tensor *t) {
  int64_t count = 1;
  size_t bytes = 0;
  for (int32_t i = 0; i < t->rank; i++) count *= t->dims[i];
  assert_true(base_dtype_bytes(t->dtype, count, &bytes));
  return bytes;
}

static void compare(const td_model *model, td_session *session, const td_session *plain, kept *want) {
  td_tensor outs[MAX_OUTPUTS];
  const size_t count = outputs_of(model, session, outs);
  for (size_t i = 0; i < count; i++) {
    const size_t bytes = bytes_of(&outs[i]);
    if (session == plain) {
      free(want[i].bytes);
      want[i] = (kept){outs[i], malloc(bytes + 1)};
      memcpy(want[i].bytes, outs[i].data, bytes);
    }
    assert_int_equal(outs[i].rank, want[i].tensor.rank);
    assert_int_equal(bytes, bytes_of(&want[i].tensor));
    assert_memory_equal(outs[i].data, want[i].bytes, bytes);
  }
}

static void same_bits_of(const char *path, const char *backend) {
  td_load_options options = options_for(&matrix, 1, backend);
  td_model *model = load(path, &options);
  td_session *sessions[MOST_THREADS];
  kept want[MAX_OUTPUTS] = {0};
  for (uint32_t i = 0; i < MOST_THREADS; i++) sessions[i] = open_session(model, i + 1);
  for (int run = 0; run < RUNS; run++)
    for (uint32_t i = 0; i < MOST_THREADS; i++) {
      feed(sessions[i], run % 2 ? 2 : 70 + run, (float)run - 3);
      compare(model, sessions[i], sessions[0], want);
    }
  for (uint32_t i = 0; i < MOST_THREADS; i++) td_session_free(sessions[i]);
  for (size_t i = 0; i < MAX_OUTPUTS; i++) free(want[i].bytes);
  td_model_free(model);
}

static void same_bits(void **state) {
  (void)state;
  static const char *const backends[] = {"eager", "native"};
  for (size_t b = 0; b < 2; b++) {
    same_bits_of("tests/models/torchscript/forks/model.pt", backends[b]);
    same_bits_of("tests/models/torchscript/forks_loops/model.pt", backends[b]);
    same_bits_of("tests/models/torchscript/forks_all/model.pt", backends[b]);
  }
}

static void raise_with(td_session *session, float first, bool wanted, const char *says) {
  float x[3] = {first, first, first};
  td_error err = {0};
  td_tensor ins[2] = {{.dtype = TD_F32, .rank = 2, .dims = {1, 3}, .data = x}, {.dtype = TD_BOOL, .data = &wanted}};
  for (size_t i = 0; i < 2; i++) assert_int_equal(td_session_set_input(session, i, &ins[i], &err), TD_OK);
  td_status status = td_session_run(session, &err);
  assert_int_equal(status, says ? TD_BAD_ARGUMENT : TD_OK);
  if (says && !strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
}

/* A task that fails does so for those who wait for it alone. */
static void errors_come_out_of_waits(void **state) {
  (void)state;
  const td_input_spec specs[2] = {matrix, {.name = "wanted", .dtype = TD_BOOL}};
  td_load_options options = options_for(specs, 2, "native");
  td_model *model = load("tests/import/torchscript/forks_raise.pt", &options);
  for (uint32_t interop = 1; interop <= MOST_THREADS; interop++) {
    td_session *session = open_session(model, interop);
    for (int run = 0; run < RUNS; run++) {
      raise_with(session, 1, false, NULL);
      raise_with(session, 1, true, "the sum is negative");
      raise_with(session, -1, false, "the sum is negative");
      raise_with(session, 400, false, "never works");
      raise_with(session, 0, true, NULL);
    }
    td_session_free(session);
  }
  td_model_free(model);
}

/* Tasks that change what is shared run one after the other, where they are forked. */
static void state_is_counted(void **state) {
  (void)state;
  td_load_options options = options_for(&matrix, 1, "native");
  td_model *model = load("tests/import/torchscript/forks_state.pt", &options);
  td_session *session = open_session(model, MOST_THREADS);
  td_tensor outs[MAX_OUTPUTS];
  for (int64_t run = 1; run <= 3; run++) {
    feed(session, 1, 1);
    assert_int_equal(outputs_of(model, session, outs), 2);
    assert_int_equal(*(const int64_t *)outs[1].data, 3 * run);
    assert_true(((const float *)outs[0].data)[0] == (float)(1 + 3 * (3 * run - 1)));
  }
  td_session_free(session);
  td_model_free(model);
}

static void refuses(const char *path, const char *says) {
  td_load_options options = options_for(&matrix, 1, "native");
  td_model *model;
  td_error err = {0};
  assert_int_equal(td_model_load(path, &options, &model, &err), TD_UNSUPPORTED);
  if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
}

static void what_cannot_be_a_task(void **state) {
  (void)state;
  refuses("tests/import/torchscript/future_out.pt", "the result holds a future");
  refuses("tests/import/torchscript/waited_twice.pt", "is waited for more than once");
  refuses("tests/import/torchscript/waited_twice.pt", "generate.py:");
  refuses("tests/import/torchscript/written_meanwhile.pt", "may share its memory");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(same_bits),
      cmocka_unit_test(errors_come_out_of_waits),
      cmocka_unit_test(state_is_counted),
      cmocka_unit_test(what_cannot_be_a_task),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
