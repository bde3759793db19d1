/* ctest: memory */
/* test_oom.c -- every allocation of load, describe, session and run made to fail in turn: TD_NO_RESOURCE each time, and
 * everything is given back. */
#include "import/onnx_build.h"

enum { MOST = 20000 }; /* allocations; no model here comes near */

typedef struct feed {
  const char *name;
  td_tensor tensor;
  bool none; /* the empty optional */
} feed;

typedef struct subject {
  const char *path; /* or else bytes */
  const base_text *bytes;
  const char *backend;
  const feed *feeds;
  size_t feed_count;
  const char *state;
} subject;

static td_status set_inputs(const subject *s, const td_model *model, td_session *session, td_error *err) {
  for (size_t i = 0; i < s->feed_count; i++) {
    size_t index;
    const feed *f = &s->feeds[i];
    TRY(td_model_find_input(model, f->name, &index, err));
    TRY(f->none ? td_session_set_input_list(session, index, NULL, 0, err)
                : td_session_set_input(session, index, &f->tensor, err));
  }
  return TD_OK;
}

static td_status forget(void *user, const char *bytes, size_t count) {
  (void)user, (void)bytes, (void)count;
  return TD_OK;
}

static td_status use_model(const subject *s, const td_model *model, td_error *err) {
  char *text = NULL;
  TRY(td_model_print(model, "imported", "text", &text, err));
  td_text_free(model, text);
  TRY(td_model_print(model, "plan", "text", &text, err));
  td_text_free(model, text);
  td_cut cut = {.size = sizeof cut, .free_constants = 1};
  TRY(td_model_save_graph(model, "imported", &cut, "w", forget, forget, NULL, err));
  td_session *session;
  td_tensor out;
  TRY(td_session_new(model, NULL, &session, err));
  td_status status = set_inputs(s, model, session, err);
  if (status == TD_OK) status = td_session_run(session, err);
  if (status == TD_OK) status = td_session_output_item(session, 0, 0, &out, err);
  td_session_free(session);
  return status;
}

static td_status load_and_use(const subject *s, const td_allocator *allocator, td_error *err) {
  td_load_options options = {.size = sizeof options, .allocator = allocator, .backend = s->backend, .state = s->state};
  td_model *model = NULL;
  if (s->path) TRY(td_model_load(s->path, &options, &model, err));
  else TRY(td_model_load_memory(s->bytes->at, s->bytes->length, &options, &model, err));
  td_status status = use_model(s, model, err);
  td_model_free(model);
  return status;
}

static void fail_each_in_turn(const subject *s) {
  uint64_t fail_at = 0;
  td_status status;
  do {
    base_counting counting = {.inner = &base_libc_allocator, .fail_at = ++fail_at, .each = true};
    td_allocator allocator = base_counting_allocator(&counting);
    td_error err = {0};
    status = load_and_use(s, &allocator, &err);
    if (counting.live) fail_msg("allocation %d refused: %d not given back", (int)fail_at, (int)counting.live);
    if (status == TD_OK && counting.made < fail_at) break; /* got through without the one that is refused */
    if (status != TD_NO_RESOURCE || err.code != status || !err.text[0])
      fail_msg("allocation %d refused: status %d, %s: %s", (int)fail_at, (int)status, err.name, err.text);
  } while (fail_at < MOST);
  assert_true(fail_at > 10 && fail_at < MOST);
}

/* All backends; bytes are consumed. */
static void fail_keeping(const char *path, base_text *bytes, const feed *feeds, size_t count, const char *state) {
  static const char *const backends[] = {"eager", "aot_eager", "native"};
  for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
    fail_each_in_turn(&(subject){path, bytes, backends[i], feeds, count, state});
  if (bytes) base_text_free(bytes);
}

static void fail_everywhere(const char *path, base_text *bytes, const feed *feeds, size_t count) {
  fail_keeping(path, bytes, feeds, count, NULL);
}

/* ---- the models ---- */

/* The same in a typed field, which is copied at import. */
static void put_typed_floats(base_text *graph, const char *name, uint32_t count) {
  base_text t = message();
  fmt_put_int(&t, 1, count);
  fmt_put_int(&t, 2, 1);
  for (uint32_t i = 0; i < count; i++) fmt_put_float(&t, 4, 0.5f + (float)i);
  fmt_put_str(&t, 8, name);
  put(graph, 5, &t);
}

/* conv, batch norm, relu, flatten, gemm. */
static base_text convolutional(void) {
  base_text g = message(), attrs = message();
  float weights[64] = {0.25f, -1, 0.5f};
  int64_t to[] = {1, -1};
  put_input(&g, "x", DIMS(1, 2, 6, 6));
  put_raw(&g, "w", 1, DIMS(4, 2, 1, 1), weights, 8 * sizeof *weights);
  put_raw(&g, "dense", 1, DIMS(16, 4), weights, sizeof weights);
  put_raw(&g, "to", 7, DIMS(2), to, sizeof to);
  put_typed_floats(&g, "scale", 4);
  put_typed_floats(&g, "bias", 4);
  put_typed_floats(&g, "mean", 4);
  put_typed_floats(&g, "var", 4);
  base_text strides = message();
  fmt_put_str(&strides, 1, "strides");
  fmt_put_int(&strides, 8, 3);
  fmt_put_int(&strides, 8, 3);
  fmt_put_int(&strides, 20, 7);
  put(&attrs, 5, &strides);
  put_node_as(&g, 1, "", "Conv", "conv", "x,w", "a", &attrs);
  put_node(&g, "BatchNormalization", "norm", "a,scale,bias,mean,var", "b");
  put_node(&g, "Relu", "relu", "b", "c");
  put_node(&g, "Reshape", "flat", "c,to", "d");
  put_node(&g, "MatMul", "dense", "d,dense", "e");
  put_node(&g, "Add", "add", "e,bias", "y");
  put_output(&g, "y");
  return model_of(&g, NULL);
}

static void convolutional_model(void **state) {
  (void)state;
  static float x[72];
  base_text bytes = convolutional();
  feed feeds[] = {{"x", {.dtype = TD_F32, .rank = 4, .dims = {1, 2, 6, 6}, .data = x}, false}};
  fail_everywhere(NULL, &bytes, feeds, 1);
}

static void control_flow_and_lists(void **state) {
  (void)state;
  int64_t trips = 4;
  uint8_t go = 1;
  feed feeds[] = {{"trip_count", {.dtype = TD_I64, .data = &trips}, false},
                  {"cond", {.dtype = TD_BOOL, .data = &go}, false},
                  {"opt_seq", {0}, true}};
  fail_everywhere("tests/fuzz/corpus/onnx/loop16_seq_none.onnx", NULL, feeds, 3);
}

/* Sizes computed from open sizes: shape, gather, concat, reshape, expand, and what data decides. */
static base_text open_sizes(void) {
  base_text g = message(), axis = message();
  int64_t zero = 0, two[] = {2};
  put_input(&g, "x", DIMS(-2, -1, 2));
  put_input(&g, "y", DIMS(-2));
  put_raw(&g, "zero", 7, 0, NULL, &zero, sizeof zero);
  put_raw(&g, "first", 7, DIMS(1), &zero, sizeof zero);
  put_raw(&g, "two", 7, DIMS(1), two, sizeof two);
  put_node(&g, "Shape", "", "x", "shape");
  put_node(&g, "Gather", "", "shape,first", "batch");
  put_attr_int(&axis, "axis", 0);
  int64_t rest = -1;
  put_raw(&g, "rest", 7, DIMS(1), &rest, sizeof rest);
  put_node_as(&g, 1, "", "Concat", "", "batch,rest", "to", &axis);
  put_node(&g, "Reshape", "", "x,to", "flat");
  put_node(&g, "Transpose", "", "flat", "turned");
  put_node(&g, "Add", "", "turned,y", "sum");
  put_node(&g, "NonZero", "", "sum", "where");
  put_node(&g, "Slice", "", "where,first,two", "some");
  put_output(&g, "some");
  base_text_free(&axis);
  return model_of(&g, NULL);
}

static void open_shapes(void **state) {
  (void)state;
  static float x[24] = {1, 2, 3}, y[3] = {1, 1, 1};
  base_text bytes = open_sizes();
  feed feeds[] = {{"x", {.dtype = TD_F32, .rank = 3, .dims = {3, 4, 2}, .data = x}, false},
                  {"y", {.dtype = TD_F32, .rank = 1, .dims = {3}, .data = y}, false}};
  fail_everywhere(NULL, &bytes, feeds, 2);
}

/* A cache that grows, and a sum, as session state. */
static void kept_state(void **state) {
  (void)state;
  static float x[12] = {1, 2, 3};
  base_text g = message(), axis = message();
  put_input(&g, "x", DIMS(-2, 3, 2));
  put_input(&g, "past.0", DIMS(-2, -1, 2));
  put_input(&g, "h0", DIMS(-2, 3, 2));
  put_attr_int(&axis, "axis", 1);
  put_node_as(&g, 1, "", "Concat", "", "past.0,x", "present.0", &axis);
  put_node(&g, "Add", "", "x,h0", "hn");
  put_node(&g, "Relu", "", "present.0", "y");
  put_output(&g, "y");
  put_output(&g, "hn");
  put_output(&g, "present.0");
  base_text bytes = model_of(&g, NULL);
  feed feeds[] = {{"x", {.dtype = TD_F32, .rank = 3, .dims = {2, 3, 2}, .data = x}, false}};
  fail_keeping(NULL, &bytes, feeds, 1, "past.*=present.*,h0=hn batch=2");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(convolutional_model), cmocka_unit_test(kept_state),
                                     cmocka_unit_test(control_flow_and_lists), cmocka_unit_test(open_shapes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
