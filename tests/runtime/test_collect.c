/* A loop that collects values larger than what it may leave lying about: tidying up must keep all of the list, whose
 * array was made before the loop and whose items were made in it. */
#include <stdlib.h>

#include "import/onnx_build.h"

enum { SIZE = 300000, ROUNDS = 7 };

/* v = v + x, collected. */
static base_text collecting_loop(void) {
  base_text g = message(), body = message(), attrs = message();
  put_value_as(&body, 11, "i", 7, 0, NULL);
  put_value_as(&body, 11, "go", 9, 0, NULL);
  put_input(&body, "v", DIMS(SIZE));
  put_node(&body, "Add", "", "v,x", "w");
  put_node(&body, "Identity", "", "w", "seen");
  put_node(&body, "Identity", "", "go", "on");
  put_output(&body, "on");
  put_output(&body, "w");
  put_output(&body, "seen");
  put_attr_graph(&attrs, "body", &body);
  put_value_as(&g, 11, "n", 7, 0, NULL);
  put_input(&g, "x", DIMS(SIZE));
  put_node_as(&g, 1, "", "Loop", "grow", "n,,x", "y,all", &attrs);
  put_output(&g, "all");
  return model_of(&g, NULL);
}

static void collects_everything(void **state) {
  (void)state;
  base_text bytes = collecting_loop();
  td_model *model;
  td_session *session;
  td_error err;
  td_tensor all;
  int64_t rounds = ROUNDS;
  float *x = calloc(SIZE, sizeof *x);
  for (int i = 0; i < SIZE; i++) x[i] = (float)(i % 1000);
  td_tensor n = {.dtype = TD_I64, .data = &rounds}, in = {.dtype = TD_F32, .rank = 1, .dims = {SIZE}, .data = x};
  if (td_model_load_memory(bytes.at, bytes.length, NULL, &model, &err) != TD_OK) fail_msg("%s: %s", err.name, err.text);
  assert_int_equal(td_session_new(model, NULL, &session, &err), TD_OK);
  for (int again = 0; again < 2; again++) {
    assert_int_equal(td_session_set_input(session, 0, &n, &err), TD_OK);
    assert_int_equal(td_session_set_input(session, 1, &in, &err), TD_OK);
    if (td_session_run(session, &err) != TD_OK) fail_msg("%s: %s", err.name, err.text);
    assert_int_equal(td_session_output(session, 0, &all, &err), TD_OK);
    assert_int_equal(all.dims[0], ROUNDS);
    const float *got = all.data;
    for (int k = 0; k < ROUNDS; k++)
      for (int i = 0; i < SIZE; i += 997)
        if (got[k * SIZE + i] != (float)(k + 2) * x[i])
          fail_msg("round %d, element %d: %g", k, i, (double)got[k * SIZE + i]);
  }
  td_session_free(session);
  td_model_free(model);
  base_text_free(&bytes);
  free(x);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(collects_everything)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
