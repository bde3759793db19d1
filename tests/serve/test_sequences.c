/* Sequences of requests to a scripted module that writes its buffers, to a recurrent cell, and to a cache that grows:
 * interleaved, each gets to the bit what a session of its own gives, run by run. */
#include "serve/client.h"

#include <treadle/treadle.h>

static const char cell[] =
    "tdir 1\n"
    "const %5: f32[1, 4] = {0.1, -0.2, 0.3, 0.5}\n"
    "const %6: f32[4, 4] = {0.3, -0.1, 0.7, 0.2, 0.9, 0.4, -0.6, 0.1, -0.8, 0.3, 0.2, 0.5, 0.1, 0.6, -0.4, -0.9}\n"
    "input %0 \"x\": f32[1, 4]\n"
    "state %1 \"hidden\": f32[1, 4] = %5\n"
    "%2 = aten::matmul(%1, %6): f32[1, 4]\n"
    "%3 = aten::add(%2, %0): f32[1, 4]\n"
    "%4 = aten::tanh(%3): f32[1, 4]\n"
    "output \"y\" %4\n"
    "store %1 = %4\n";
static const char growing[] =
    "tdir 1\n"
    "const %5: f32[1, 0] = {}\n"
    "input %0 \"x\": f32[1, n]\n"
    "state %1 \"cache\": f32[1, past] = %5\n"
    "%6 = aten::cat(%1, %0) {dim = 1}\n"
    "%7 = aten::sin(%6)\n"
    "output \"y\" %7\n"
    "store %1 = %6\n";

typedef struct model {
  const char *name, *file, *shape;
  size_t count; /* elements of the input */
} model;

static const model models[] = {
    {"cell", "cell.tdir", "1,4", 4}, {"growing", "growing.tdir", "1,2", 2}, {"kept", "kept.tdl", "2", 2}};

/* Of a scripted module the types of its inputs are known once it is compiled. */
static void compile_kept(const fixture *f) {
  const td_input_spec vector = {.name = "x", .dtype = TD_F32, .rank = 1, .dims = {2}};
  const td_load_options options = {.size = sizeof options, .inputs = &vector, .input_count = 1};
  char path[128];
  td_model *kept;
  td_error err = {.offset = -1};
  snprintf(path, sizeof path, "%s/kept.tdl", f->folder);
  if (td_model_load("tests/import/torchscript/kept.pt", &options, &kept, &err) != TD_OK) fail_msg("%s", err.text);
  assert_true(td_model_state_count(kept) > 0);
  if (td_model_save((const td_model *const[]){kept}, 1, path, &err) != TD_OK) fail_msg("%s", err.text);
  td_model_free(kept);
}

static int open_fixture(void **state) {
  fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  open_folder(f);
  write_text(f, "cell.tdir", cell);
  write_text(f, "growing.tdir", growing);
  compile_kept(f);
  *state = f;
  return 0;
}

static int close_fixture(void **state) {
  fixture *f = *state;
  remove_folder(f);
  free(f);
  return 0;
}

static void start(fixture *f, const char *workers, const char *per_model) {
  write_text(f, "config.properties",
             "inference_address=http://127.0.0.1:0\nmanagement_address=http://127.0.0.1:0\n"
             "metrics_address=http://127.0.0.1:0\ngrpc_inference_port=0\ngrpc_management_port=0\n");
  FILE *more;
  char path[128];
  uint16_t ports[5];
  snprintf(path, sizeof path, "%s/config.properties", f->folder);
  more = fopen(path, "a");
  assert_non_null(more);
  fprintf(more, "default_workers_per_model=%s\ndisable_token_authorization=true\n", per_model);
  fclose(more);
  start_server(f,
               (const char *const[]){"serve", "--workers", workers, "--ts-config", "config.properties", "cell.tdir",
                                     "growing.tdir", "kept.tdl", NULL},
               ports, 5);
  f->port = ports[0];
}

static void fill(float *x, size_t count, int sequence, int turn) {
  for (size_t i = 0; i < count; i++) x[i] = (float)((sequence * 7 + turn * 3 + (int)i * 5) % 11 - 5) * 0.25f;
}

/* The output that the server gives for the turn; how many elements. */
static size_t ask_turn(fixture *f, const model *m, int sequence, int turn, int last, float *y, size_t room) {
  char body[512];
  float x[4];
  fill(x, m->count, sequence, turn);
  int length = snprintf(body, sizeof body,
                        "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[%s],\"data\":[", m->shape);
  for (size_t i = 0; i < m->count; i++) length += sprintf(body + length, "%s%.9g", i ? "," : "", (double)x[i]);
  sprintf(body + length, "]}],\"parameters\":{\"sequence_id\":%d,\"sequence_start\":%s,\"sequence_end\":%s}}",
          sequence + 1, turn ? "false" : "true", turn == last ? "true" : "false");
  char path[64];
  snprintf(path, sizeof path, "/v2/models/%s/infer", m->name);
  const int status = ask_path(f, "POST", path, body);
  if (status != 200) fail_msg("%s, sequence %d, turn %d: %s", m->name, sequence, turn, f->reply);
  const char *at = strstr(f->reply, "\"data\":[");
  assert_non_null(at);
  at += 8;
  size_t count = 0;
  for (char *end; *at != ']' && count < room; at = *end == ',' ? end + 1 : end) y[count++] = strtof(at, &end);
  return count;
}

static void expect_turn(td_session *session, const model *m, int sequence, int turn, const float *got, size_t count) {
  float x[4];
  td_tensor in = {.dtype = TD_F32, .rank = m->name[0] == 'k' ? 1 : 2, .dims = {1}, .data = x}, out;
  td_error err = {.offset = -1};
  int64_t all = 1;
  in.dims[in.rank - 1] = (int64_t)m->count;
  fill(x, m->count, sequence, turn);
  assert_int_equal(td_session_set_input(session, 0, &in, &err), TD_OK);
  if (td_session_run(session, &err) != TD_OK) fail_msg("%s: %s", m->name, err.text);
  assert_int_equal(td_session_output(session, 0, &out, &err), TD_OK);
  for (int32_t d = 0; d < out.rank; d++) all *= out.dims[d];
  assert_int_equal(all, count);
  assert_memory_equal(out.data, got, count * sizeof *got);
}

enum { SEQUENCES = 3, TURNS = 12 };

static void check_model(fixture *f, const model *m) {
  char path[128];
  td_model *loaded;
  td_session *sessions[SEQUENCES];
  td_error err = {.offset = -1};
  float y[2 * TURNS];
  snprintf(path, sizeof path, "%s/%s", f->folder, m->file);
  if (td_model_load(path, NULL, &loaded, &err) != TD_OK) fail_msg("%s", err.text);
  for (int s = 0; s < SEQUENCES; s++) assert_int_equal(td_session_new(loaded, NULL, &sessions[s], &err), TD_OK);
  for (int turn = 0; turn < TURNS; turn++)
    for (int s = 0; s < SEQUENCES; s++) {
      const size_t count = ask_turn(f, m, s, turn, TURNS - 1, y, sizeof y / sizeof *y);
      expect_turn(sessions[s], m, s, turn, y, count);
    }
  for (int s = 0; s < SEQUENCES; s++) td_session_free(sessions[s]);
  td_model_free(loaded);
}

static void equal_to_sessions(void **state) {
  fixture *f = *state;
  start(f, "2", "2");
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) check_model(f, &models[i]);
  assert_int_equal(end(f), 0);
}

/* Workers with several threads each: sequences take turns with theirs. */
static void with_threads(void **state) {
  fixture *f = *state;
  start(f, "4", "2");
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) check_model(f, &models[i]);
  assert_int_equal(end(f), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(equal_to_sessions), cmocka_unit_test(with_threads)};
  return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
