/* The server's threads: one pool for all sessions that have several, whatever their models are; and weights copied to
 * each memory node. Replies are those of a session alone, to the bit. */
#include "serve/client.h"

#include <dirent.h>
#include <pthread.h>

#include <treadle/treadle.h>

#define LAYER "builtin:layer:linear 16x256 out=128"
enum { ROWS = 16, IN = 256, OUT = 128, CLIENTS = 4, TURNS = 20 };

static int open_fixture(void **state) {
  fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  open_folder(f);
  write_text(f, "config.properties",
             "inference_address=http://127.0.0.1:0\nmanagement_address=http://127.0.0.1:0\n"
             "metrics_address=http://127.0.0.1:0\ngrpc_inference_port=0\ngrpc_management_port=0\n"
             "default_workers_per_model=2\ndisable_token_authorization=true\n");
  *state = f;
  return 0;
}

static int close_fixture(void **state) {
  fixture *f = *state;
  remove_folder(f);
  free(f);
  return 0;
}

/* Two models, each with two sessions of three threads. */
static void start(fixture *f, const char *machine) {
  static const char one[] = "one=" LAYER, two[] = "two=" LAYER;
  uint16_t ports[5];
  start_server(f,
               (const char *const[]){"serve", "--workers", "6", "--ts-config", "config.properties", one, two,
                                     machine ? "--node-copies" : NULL, machine, NULL},
               ports, 5);
  f->port = ports[0];
}

static void fill(float *x) {
  for (int i = 0; i < ROWS * IN; i++) x[i] = (float)(i * 37 % 211) / 128 - 0.75f;
}

static void compute(float *y) {
  static float x[ROWS * IN];
  td_error err = {.offset = -1};
  td_model *model;
  td_session *session;
  td_tensor in = {.dtype = TD_F32, .rank = 2, .dims = {ROWS, IN}, .data = x}, out;
  const td_session_options alone = {.size = sizeof alone, .threads = 1};
  fill(x);
  if (td_model_load(LAYER, NULL, &model, &err) != TD_OK) fail_msg("%s", err.text);
  assert_int_equal(td_session_new(model, &alone, &session, &err), TD_OK);
  assert_int_equal(td_session_set_input(session, 0, &in, &err), TD_OK);
  if (td_session_run(session, &err) != TD_OK) fail_msg("%s", err.text);
  assert_int_equal(td_session_output(session, 0, &out, &err), TD_OK);
  memcpy(y, out.data, ROWS * OUT * sizeof *y);
  td_session_free(session);
  td_model_free(model);
}

typedef struct client {
  fixture f;
  const char *model;
  const void *want; /* the bytes of the result */
  int bad;
} client;

/* The tensors as they are in memory. */
static int ask_once(client *c, char *text, size_t room) {
  static const char rest[] =
      "\"parameters\":{\"binary_data_size\":16384}}],\"parameters\":{\"binary_data_output\":true}}";
  char json[256];
  float x[ROWS * IN];
  fill(x);
  const int json_length =
      snprintf(json, sizeof json, "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[16,256],%s", rest);
  const int head = snprintf(text, room,
                            "POST /v2/models/%s/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n"
                            "Inference-Header-Content-Length: %d\r\n\r\n%s",
                            c->model, (size_t)json_length + sizeof x, json_length, json);
  memcpy(text + head, x, sizeof x);
  if (ask(&c->f, text, (size_t)head + sizeof x) != 200) return 0;
  const size_t bytes = ROWS * OUT * sizeof(float);
  return c->f.length > bytes && memcmp(c->f.reply + c->f.length - bytes, c->want, bytes) == 0;
}

static void *use(void *at) {
  client *c = at;
  static _Thread_local char text[1 << 15];
  for (int i = 0; i < TURNS; i++) c->bad += !ask_once(c, text, sizeof text);
  return NULL;
}

static void ask_all(const fixture *f) {
  static client clients[CLIENTS];
  static float want[ROWS * OUT];
  pthread_t threads[CLIENTS];
  compute(want);
  for (int i = 0; i < CLIENTS; i++) {
    clients[i] = (client){.f = *f, .model = i % 2 ? "one" : "two", .want = want};
    assert_int_equal(pthread_create(&threads[i], NULL, use, &clients[i]), 0);
  }
  for (int i = 0; i < CLIENTS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < CLIENTS; i++)
    if (clients[i].bad) fail_msg("%d of %d replies differ: %s", clients[i].bad, TURNS, clients[i].f.reply);
}

/* Threads of the server that pools have made. */
static int count_pooled(const fixture *f) {
  char path[300];
  int count = 0;
  snprintf(path, sizeof path, "/proc/%d/task", (int)f->child);
  DIR *folder = opendir(path);
  assert_non_null(folder);
  for (struct dirent *entry; (entry = readdir(folder));) {
    char name[32] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%s/comm", (int)f->child, entry->d_name);
    FILE *file = fopen(path, "r");
    if (file && fgets(name, sizeof name, file)) count += strncmp(name, "treadle/", 8) == 0;
    if (file) fclose(file);
  }
  closedir(folder);
  return count;
}

/* Four sessions of three threads each would have eight beside those that call them; six CPUs have five. */
static void one_pool(void **state) {
  fixture *f = *state;
  start(f, NULL);
  ask_all(f);
  assert_int_equal(count_pooled(f), OWN_THREADS ? 5 : 0);
  assert_int_equal(end(f), 0);
}

static void copies_for_nodes(void **state) {
  fixture *f = *state;
  start(f, "package:2 [numa] core:3 pu:1");
  ask_all(f);
  assert_int_equal(end(f), 0);
  start(f, "here"); /* whatever that is */
  ask_all(f);
  assert_int_equal(end(f), 0);
  char command[1024];
  snprintf(command, sizeof command, "cd %s && %s serve --port 0 --node-copies 'no machine' 'one=" LAYER "' 2>err.txt",
           f->folder, f->program);
  assert_int_not_equal(system(command), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_pool), cmocka_unit_test(copies_for_nodes)};
  return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
