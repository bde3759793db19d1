/* test_kept_state.c -- inputs that td_load_options.state makes session state: bit for bit what passing the caches by
 * hand gives, with nothing copied that need not be; and what cannot be state. */
#include <stdlib.h>
#include <unistd.h>

#include <treadle/async.h>
#include <treadle/treadle.h>

#include "import/onnx_build.h"

enum { ROOM = 2048, SIZE = 8, HEADS = 2, WIDTH = (HEADS + 2) * SIZE, MOST = 1 << 16 };

static td_error err;

/* ---- models ---- */

static void put_ints(base_text *graph, const char *name, int32_t rank, int64_t value) {
  base_text t = message();
  if (rank) fmt_put_int(&t, 1, 1);
  fmt_put_int(&t, 2, 7);
  fmt_put_str(&t, 8, name);
  fmt_put_bytes(&t, 9, &value, sizeof value);
  put(graph, 5, &t);
}

static void put_cast(base_text *graph, const char *in, const char *out) {
  base_text to = message();
  put_attr_int(&to, "to", 6);
  put_node_as(graph, 1, "", "Cast", "", in, out, &to);
}

static base_text with_contrib(base_text *graph) {
  base_text m = model_of(graph, NULL);
  put_opset(&m, 8, "com.microsoft", 1);
  return m;
}

/* A layer of ONNX Runtime's builder: a cache of the room that it comes with, or one that grows. */
static base_text attention(void) {
  base_text g = message(), sum = message(), heads = message();
  put_input(&g, "qkv", DIMS(-2, -1, WIDTH));
  put_value_as(&g, 11, "mask", 7, DIMS(-2, -1));
  put_input(&g, "past.0.key", DIMS(-2, 1, -1, SIZE));
  put_input(&g, "past.0.value", DIMS(-2, 1, -1, SIZE));
  put_ints(&g, "axis", 1, 1);
  put_ints(&g, "one", 1, 1);
  put_ints(&g, "index", 0, 1);
  put_attr_int(&sum, "keepdims", 0);
  put_node_as(&g, 1, "", "ReduceSum", "", "mask,axis", "length", &sum);
  put_node(&g, "Sub", "", "length,one", "last64");
  put_cast(&g, "last64", "last");
  put_node(&g, "Shape", "", "mask", "shape");
  put_node(&g, "Gather", "", "shape,index", "total64");
  put_cast(&g, "total64", "total");
  put_attr_int(&heads, "num_heads", HEADS);
  put_attr_int(&heads, "kv_num_heads", 1);
  put_node_as(&g, 1, "com.microsoft", "GroupQueryAttention", "attend", "qkv,,,past.0.key,past.0.value,last,total",
              "attended,present.0.key,present.0.value", &heads);
  put_node(&g, "Relu", "behind", "attended", "y");
  put_output(&g, "y");
  put_output(&g, "present.0.key");
  put_output(&g, "present.0.value");
  return with_contrib(&g);
}

/* A cache that is a concatenation, as optimum writes it, and a sum of what there was. */
static base_text concatenation(void) {
  base_text g = message(), axis = message(), all = message();
  put_input(&g, "x", DIMS(-2, -1, SIZE));
  put_input(&g, "past_key_values.0.key", DIMS(-2, -1, SIZE));
  put_input(&g, "h0", DIMS(-2, SIZE));
  put_ints(&g, "rows", 1, 1);
  put_attr_int(&axis, "axis", 1);
  put_node_as(&g, 1, "", "Concat", "", "past_key_values.0.key,x", "present.0.key", &axis);
  put_attr_int(&all, "keepdims", 0);
  put_node_as(&g, 1, "", "ReduceSum", "", "present.0.key,rows", "y", &all);
  put_node(&g, "Add", "", "h0,y", "hn");
  put_output(&g, "y");
  put_output(&g, "hn");
  put_output(&g, "present.0.key");
  return model_of(&g, NULL);
}

static td_status try_load(const base_text *bytes, const char *state, const char *backend, td_model **model) {
  const td_load_options options = {.size = sizeof options, .state = state, .backend = backend};
  err = (td_error){0};
  return td_model_load_memory(bytes->at, bytes->length, &options, model, &err);
}

static td_model *load(const base_text *bytes, const char *state, const char *backend) {
  td_model *model;
  if (try_load(bytes, state, backend, &model) != TD_OK) fail_msg("%s: %s", err.name, err.text);
  return model;
}

static td_session *open(const td_model *model) {
  const td_session_options options = {.size = sizeof options, .threads = 1};
  td_session *session;
  assert_int_equal(td_session_new(model, &options, &session, &err), TD_OK);
  return session;
}

/* ---- steps ---- */

typedef struct pass {
  float x[MOST]; /* of the step */
  int64_t mask[ROOM];
  float past[3][MOST];
  int64_t dims[3][TD_MAX_RANK]; /* of what is passed on by hand */
} pass;

/* A step of `rows` rows in front of which are `used`; caches are attention()'s or concatenation()'s. */
static void feed(td_session *session, const td_model *model, pass *p, int64_t rows, int64_t used, bool attends) {
  const int64_t width = attends ? WIDTH : SIZE;
  size_t index;
  for (int64_t i = 0; i < rows * width; i++) p->x[i] = (float)((i * 7 + used * 5) % 23 - 11) / 8;
  for (int64_t i = 0; i < used + rows; i++) p->mask[i] = 1;
  const td_tensor x = {TD_F32, 3, {1, rows, width}, p->x}, mask = {TD_I64, 2, {1, used + rows}, p->mask};
  assert_int_equal(td_session_set_input(session, 0, &x, &err), TD_OK);
  if (attends && td_model_find_input(model, "mask", &index, &err) == TD_OK)
    assert_int_equal(td_session_set_input(session, index, &mask, &err), TD_OK);
}

static void run(td_session *session) {
  if (td_session_run(session, &err) != TD_OK) fail_msg("%s: %s", err.name, err.text);
}

static td_tensor output(td_session *session, size_t index) {
  td_tensor t;
  assert_int_equal(td_session_output(session, index, &t, &err), TD_OK);
  return t;
}

static size_t count_of(const td_tensor *t) {
  size_t count = 1;
  for (int32_t i = 0; i < t->rank; i++) count *= (size_t)t->dims[i];
  return count;
}

static void expect_same(const td_tensor *a, const td_tensor *b) {
  assert_int_equal(a->rank, b->rank);
  assert_memory_equal(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
  if (count_of(a)) assert_memory_equal(a->data, b->data, count_of(a) * sizeof(float));
}

/* Runs a step with what was passed on, and passes on: inputs [first, first + count) are outputs of these numbers. */
static void run_by_hand(td_session *session, pass *p, size_t first, size_t count, const size_t *outputs) {
  for (size_t i = 0; i < count; i++) {
    td_tensor past = {.dtype = TD_F32, .data = p->past[i]};
    while (past.rank < TD_MAX_RANK && p->dims[i][past.rank] >= 0) past.rank++;
    memcpy(past.dims, p->dims[i], sizeof past.dims);
    assert_int_equal(td_session_set_input(session, first + i, &past, &err), TD_OK);
  }
  run(session);
  for (size_t i = 0; i < count; i++) {
    const td_tensor next = output(session, outputs[i]);
    assert_true(count_of(&next) <= MOST);
    memcpy(p->past[i], next.data, count_of(&next) * sizeof(float));
    memcpy(p->dims[i], next.dims, (size_t)next.rank * sizeof *next.dims);
  }
}

static td_session_stats stats_of(const td_session *session) {
  td_session_stats stats = {.size = sizeof stats};
  assert_int_equal(td_session_get_stats(session, &stats, &err), TD_OK);
  return stats;
}

static td_tensor state_of(td_session *session, size_t index) {
  td_tensor t;
  assert_int_equal(td_session_state(session, index, &t, &err), TD_OK);
  return t;
}

/* ---- tests ---- */

static const char *const backends[] = {"eager", "aot_eager", "native"};
static pass p;

/* Steps of attention() with caches of `room` rows (0: that grow) on `kept`, against passing them by hand. */
static void follow_attention(const td_model *plain, const td_model *kept, int64_t room, bool native) {
  static const size_t outputs[] = {1, 2};
  td_session *a = open(plain), *b = open(kept);
  p = (pass){.dims = {{1, 1, room, SIZE, -1}, {1, 1, room, SIZE, -1}}};
  for (int round = 0; round < 2; round++) {
    void *first = state_of(b, 0).data;
    for (int64_t step = 0, used = 0; step < 6; step++) {
      const int64_t rows = step ? 1 : 3;
      feed(a, plain, &p, rows, used, true);
      run_by_hand(a, &p, 2, 2, outputs);
      feed(b, kept, &p, rows, used, true);
      run(b);
      const td_tensor y = output(a, 0), z = output(b, 0), key = output(a, 1), value = output(a, 2);
      const td_tensor kept_key = state_of(b, 0), kept_value = state_of(b, 1);
      expect_same(&y, &z);
      expect_same(&key, &kept_key);
      expect_same(&value, &kept_value);
      if (native) assert_int_equal(stats_of(b).state_copied, 0);
      if (native && room) assert_ptr_equal(kept_key.data, first);
      used += rows;
    }
    assert_int_equal(td_session_reset(b, &err), TD_OK);
    p = (pass){.dims = {{1, 1, room, SIZE, -1}, {1, 1, room, SIZE, -1}}};
  }
  if (native && room) assert_int_equal(stats_of(b).state_bytes, 2 * room * SIZE * (int64_t)sizeof(float));
  td_session_free(a);
  td_session_free(b);
}

static void caches_of_one_size_and_growing_ones(void **state) {
  (void)state;
  base_text bytes = attention();
  for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
    const bool native = strcmp(backends[i], "native") == 0;
    td_model *plain = load(&bytes, NULL, backends[i]);
    td_model *fixed = load(&bytes, "auto past.0.key.2=16 past.0.value.2=16", backends[i]);
    td_model *grown = load(&bytes, "past.*=present.*", backends[i]);
    follow_attention(plain, fixed, 16, native);
    follow_attention(plain, grown, 0, native);
    td_model_free(plain);
    td_model_free(fixed);
    td_model_free(grown);
  }
  base_text_free(&bytes);
}

static void a_concatenation_is_copied_by_itself_alone(void **state) {
  static const size_t outputs[] = {2, 1};
  (void)state;
  base_text bytes = concatenation();
  for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
    const bool native = strcmp(backends[i], "native") == 0;
    td_model *plain = load(&bytes, NULL, backends[i]);
    td_model *kept = load(&bytes, "past_key_values.*=present.*,h0=hn", backends[i]);
    td_session *a = open(plain), *b = open(kept);
    uint64_t most = 0, changes = 0;
    p = (pass){.dims = {{1, 0, SIZE, -1}, {1, SIZE, -1}}};
    for (int64_t step = 0; step < 600; step++) {
      feed(a, plain, &p, 1 + step % 2, step, false);
      run_by_hand(a, &p, 1, 2, outputs);
      feed(b, kept, &p, 1 + step % 2, step, false);
      run(b);
      const td_tensor y = output(a, 0), z = output(b, 0), all = output(a, 2), sum = output(a, 1);
      const td_tensor kept_all = state_of(b, 0), kept_sum = state_of(b, 1);
      expect_same(&y, &z);
      expect_same(&all, &kept_all);
      expect_same(&sum, &kept_sum);
      const td_session_stats stats = stats_of(b);
      if (native) assert_int_equal(stats.state_copied, SIZE * sizeof(float)); /* the sum */
      changes += stats.state_bytes != most;
      most = stats.state_bytes;
    }
    if (native) assert_true(changes < 40); /* memory grows by halves */
    assert_true(most < 4 * 900 * SIZE * sizeof(float));
    td_session_free(a);
    td_session_free(b);
    td_model_free(plain);
    td_model_free(kept);
  }
  base_text_free(&bytes);
}

/* Whoever cancels a run when its cache is made. */
typedef struct canceller {
  td_session *session;
  int32_t cancel;
} canceller;

static void cancel_behind_cache(void *user, uint32_t step, uint64_t ns) {
  canceller *c = user;
  td_step info = {.size = sizeof info};
  (void)ns;
  assert_int_equal(td_session_get_step(c->session, step, &info, &err), TD_OK);
  if (strcmp(info.op, "td::cache_rows") == 0) c->cancel = 1;
}

static void a_failed_run_keeps_what_is_in_use(void **state) {
  static const char *const states[] = {"auto past.0.key.2=16 past.0.value.2=16", "auto"};
  (void)state;
  base_text bytes = attention();
  for (size_t i = 0; i < 2; i++) {
    td_model *model = load(&bytes, states[i], NULL);
    td_session *a = open(model), *b = open(model);
    canceller c = {.session = a};
    const td_observer observer = {.size = sizeof observer, .user = &c, .end = cancel_behind_cache};
    float before[3 * SIZE];
    feed(a, model, &p, 3, 0, true);
    run(a);
    feed(b, model, &p, 3, 0, true);
    run(b);
    memcpy(before, state_of(a, 0).data, sizeof before);
    const td_run_options options = {.size = sizeof options, .cancel = &c.cancel};
    assert_int_equal(td_session_observe(a, &observer, &err), TD_OK);
    feed(a, model, &p, 1, 3, true);
    assert_int_equal(td_session_run_with(a, &options, &err), TD_CANCELLED);
    const td_tensor key = state_of(a, 0);
    assert_memory_equal(key.data, before, sizeof before);
    assert_int_equal(key.dims[2], i ? 3 : 16);
    if (!i)
      assert_memory_not_equal((float *)key.data + 3 * SIZE, (float[SIZE]){0}, SIZE * sizeof(float)); /* in place */
    assert_int_equal(td_session_observe(a, NULL, &err), TD_OK);
    feed(a, model, &p, 1, 3, true);
    run(a);
    feed(b, model, &p, 1, 3, true);
    run(b);
    for (size_t n = 0; n < 2; n++) {
      const td_tensor x = state_of(a, n), y = state_of(b, n);
      expect_same(&x, &y);
    }
    const td_tensor x = output(a, 0), y = output(b, 0);
    expect_same(&x, &y);
    td_session_free(a);
    td_session_free(b);
    td_model_free(model);
  }
  base_text_free(&bytes);
}

static void is_described_set_and_run_in_line(void **state) {
  (void)state;
  base_text bytes = concatenation();
  td_model *model = load(&bytes, "auto", NULL);
  td_value_info info = {.size = sizeof info};
  td_streams *streams;
  td_future *future;
  size_t index;
  assert_int_equal(td_model_input_count(model), 2);
  assert_int_equal(td_model_output_count(model), 2);
  assert_int_equal(td_model_state_count(model), 1);
  assert_int_equal(td_model_find_state(model, "past_key_values.0.key", &index, &err), TD_OK);
  assert_int_equal(td_model_state(model, index, &info, &err), TD_OK);
  assert_string_equal(info.symbols[0], "batch");
  assert_true(info.dims[1] == -1 && info.dims[2] == SIZE);
  assert_int_equal(td_model_input(model, 1, &info, &err), TD_OK);
  assert_string_equal(info.name, "h0");
  assert_int_equal(td_model_output(model, 1, &info, &err), TD_OK);
  assert_string_equal(info.name, "hn");
  assert_int_equal(td_streams_new(model, NULL, &streams, &err), TD_UNSUPPORTED);
  td_session *session = open(model);
  float past[2 * 3 * SIZE] = {1, 2}, x[2 * SIZE] = {3, 4}, h[2 * SIZE] = {0};
  const td_tensor old = {TD_F32, 3, {2, 3, SIZE}, past}, one = {TD_F32, 3, {2, 1, SIZE}, x};
  const td_tensor sums = {TD_F32, 2, {2, SIZE}, h};
  assert_int_equal(td_session_set_state(session, 0, &old, &err), TD_OK);
  assert_int_equal(td_session_set_input(session, 0, &one, &err), TD_OK);
  assert_int_equal(td_session_set_input(session, 1, &sums, &err), TD_OK);
  assert_int_equal(td_session_run_async(session, NULL, &future, &err), TD_OK);
  assert_int_equal(td_wait(future, 0, &err), TD_OK);
  td_future_free(future);
  const td_tensor y = output(session, 0), now = state_of(session, 0);
  assert_true(((float *)y.data)[0] == 4 && ((float *)y.data)[1] == 6 && now.dims[1] == 4);
  td_session_free(session);
  td_model_free(model);
  base_text_free(&bytes);
}

static void is_kept_in_files(void **state) {
  char path[] = "/tmp/treadle-kept-XXXXXX";
  const int file = mkstemp(path);
  (void)state;
  assert_true(file >= 0);
  close(file);
  base_text bytes = attention();
  td_model *plain = load(&bytes, NULL, NULL);
  td_model *kept = load(&bytes, "auto past.0.key.2=2048 past.0.value.2=2048", NULL), *saved;
  assert_int_equal(td_model_save((const td_model *const[]){kept}, 1, path, &err), TD_OK);
  FILE *written = fopen(path, "rb");
  assert_non_null(written);
  assert_int_equal(fseek(written, 0, SEEK_END), 0);
  assert_true(ftell(written) < ROOM * SIZE * (long)sizeof(float)); /* zeros take no place in it */
  fclose(written);
  assert_int_equal(td_model_load(path, NULL, &saved, &err), TD_OK);
  follow_attention(plain, saved, ROOM, true);
  td_model_free(saved);
  const td_load_options again = {.size = sizeof again, .state = "auto"};
  assert_int_equal(td_model_load(path, &again, &saved, &err), TD_BAD_ARGUMENT);
  assert_non_null(strstr(err.text, "session state"));
  td_model_free(kept);
  td_model_free(plain);
  unlink(path);
  base_text_free(&bytes);
}

/* Types and names that do not fit, and sizes that nobody can guess. */
static base_text misfits(void) {
  base_text g = message();
  put_input(&g, "x", DIMS(-2, 4));
  put_input(&g, "past.rank", DIMS(-2, 4, 1));
  put_value_as(&g, 11, "past.dtype", 11, DIMS(-2, 4));
  put_input(&g, "past.size", DIMS(-2, 3));
  put_input(&g, "past.open", DIMS(-1, 4));
  put_input(&g, "past.fit", DIMS(-2, 4));
  put_node(&g, "Relu", "", "x", "present.rank");
  put_node(&g, "Neg", "", "x", "present.dtype");
  put_node(&g, "Abs", "", "x", "present.size");
  put_node(&g, "Neg", "", "past.open", "present.open");
  put_node(&g, "Add", "", "x,past.fit", "present.fit");
  put_output(&g, "present.rank");
  put_output(&g, "present.dtype");
  put_output(&g, "present.size");
  put_output(&g, "present.open");
  put_output(&g, "present.fit");
  return model_of(&g, NULL);
}

static void what_cannot_be_state(void **state) {
  static const struct {
    const char *state, *name, *text;
  } rows[] = {
      {"past.rank=present.rank", "past.rank", "f32[batch, 4, 1] and output present.rank is f32[batch, 4]"},
      {"past.dtype=present.dtype", "past.dtype", "f64[batch, 4] and output"},
      {"past.size=present.size", "past.size", "need the same element type and rank"},
      {"past.open=present.open", "past.open", "past.open.0: say which, as in past.open.0=1024"},
      {"auto", "past.rank", "need the same"},
      {"past.fit=present.none", "past.fit", "no output is called present.none; there are: present.rank, "},
      {"past.*=present.*.0", "past.rank", "no output is called present.rank.0"},
      {"past.fit=present.fit,x=present.fit", "x", "cannot renew both inputs past.fit and x"},
      {"pest.*=present.*", "", "no input is called pest.*, which is to be state; there are: x, past.rank, "},
      {"past.fit=present.fit rows=4", "", "no state has a size called rows; there are: batch"},
      {"past.fit=present.fit batch=-1", "", "'batch=-1' says no state"},
      {"past.fit=present.fit batch", "", "'batch' says no state"},
      {"past.fit=present.fit batch=4611686018427387904", "past.fit", "the size of state past.fit overflows"},
      {"past.*=present.fit", "", "'past.*=present.fit' says no state"},
      {"past.fit=present.*", "", "says no state"},
      {"p*t.*=p*t.*", "", "says no state"},
      {"past.fit", "", "'past.fit' says no state"},
      {"=present.fit", "", "says no state"},
      {"past.fit=", "", "says no state"},
      {" ", "", "says no state"},
  };
  td_model *model;
  (void)state;
  base_text bytes = misfits(), plain = message(), g = message();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    assert_int_equal(try_load(&bytes, rows[i].state, NULL, &model), TD_BAD_ARGUMENT);
    if (strcmp(err.name, rows[i].name) != 0 || !strstr(err.text, rows[i].text))
      fail_msg("%s: %s: %s", rows[i].state, err.name, err.text);
  }
  td_model_free(load(&bytes, "past.fit=present.fit,past.open=present.open past.open.0=2  batch=3", NULL));
  base_text_free(&bytes);
  put_input(&g, "x", DIMS(1));
  put_node(&g, "Neg", "", "x", "y");
  put_output(&g, "y");
  plain = model_of(&g, NULL);
  assert_int_equal(try_load(&plain, "auto", NULL, &model), TD_BAD_ARGUMENT);
  assert_non_null(strstr(err.text, "past_key_values.*=present.*"));
  assert_non_null(strstr(err.text, "the inputs are: x"));
  base_text_free(&plain);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(caches_of_one_size_and_growing_ones),
                                     cmocka_unit_test(a_concatenation_is_copied_by_itself_alone),
                                     cmocka_unit_test(a_failed_run_keeps_what_is_in_use),
                                     cmocka_unit_test(is_described_set_and_run_in_line),
                                     cmocka_unit_test(is_kept_in_files),
                                     cmocka_unit_test(what_cannot_be_state)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
