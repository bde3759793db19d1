/* TorchScript programs that write to what their module holds: each session keeps it, as PyTorch's module does. The
 * programs are written by tests/models/torchscript/generate.py. */
#include "test.h"

#include <treadle/treadle.h>

static const td_input_spec vector = {.name = "x", .dtype = TD_F32, .rank = 1, .dims = {2}};

static td_load_options options_for(const char *backend, const char *method) {
  return (td_load_options){
      .size = sizeof(td_load_options), .backend = backend, .method = method, .inputs = &vector, .input_count = 1};
}

typedef struct kept {
  const char *path, *method;
  float turns[3]; /* the first element of the result, turn by turn */
} kept;

static void check_turns(const kept *k, const char *backend) {
  const td_load_options options = options_for(backend, k->method);
  static float x[2] = {1, 2};
  const td_tensor in = {.dtype = TD_F32, .rank = 1, .dims = {2}, .data = x};
  td_model *model;
  td_session *session;
  td_tensor out;
  td_error err = {0};
  if (td_model_load(k->path, &options, &model, &err) != TD_OK) fail_msg("%s: %s: %s", k->method, err.name, err.text);
  assert_int_equal(td_session_new(model, NULL, &session, &err), TD_OK);
  for (int i = 0; i < 6; i++) {
    if (i == 3) assert_int_equal(td_session_reset(session, &err), TD_OK);
    assert_int_equal(td_session_set_input(session, 0, &in, &err), TD_OK);
    if (td_session_run(session, &err) != TD_OK) fail_msg("%s: %s: %s", k->method, err.name, err.text);
    assert_int_equal(td_session_output(session, 0, &out, &err), TD_OK);
    const float *got = out.data;
    if (got[0] != k->turns[i % 3] || got[1] != 2 * k->turns[i % 3])
      fail_msg("%s on %s, turn %d: %g %g", k->method, backend, i, (double)got[0], (double)got[1]);
  }
  td_session_free(session);
  td_model_free(model);
}

#define KEPT "tests/import/torchscript/kept.pt"

static void written_in_place(void **state) {
  (void)state;
  static const kept rows[] = {
      {KEPT, "forward", {2, 4, 6}},   {KEPT, "counted", {1, 3, 6}},
      {KEPT, "listed", {1, 2, 3}},    {KEPT, "branched", {1, 2, 3}},
      {KEPT, "replaced", {2, 6, 14}}, {"tests/import/torchscript/kept_traced.pt", "forward", {2, 4, 6}}};
  static const char *const backends[] = {"eager", "aot_eager", "interp", "native"};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (size_t b = 0; b < sizeof backends / sizeof *backends; b++) check_turns(&rows[i], backends[b]);
}

/* Only the first run would show the write in the other attribute. */
static void written_and_replaced(void **state) {
  (void)state;
  const td_load_options options = options_for("native", "replaced_elsewhere");
  td_model *model;
  td_error err = {0};
  assert_int_equal(td_model_load(KEPT, &options, &model, &err), TD_UNSUPPORTED);
  assert_non_null(strstr(err.text, "it is in another attribute"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(written_in_place), cmocka_unit_test(written_and_replaced)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
