/* TorchServe's command line, configuration and management routes: models are registered, scaled, replaced and deleted
 * while others are asked; the page; tokens; batches; what is refused. */
#include "serve/archive.h"

#include <sys/stat.h>

enum { INFERENCE, MANAGEMENT, METRICS, GRPC, GRPC_MANAGEMENT, PORTS };

typedef struct torch {
  fixture f;
  uint16_t ports[PORTS];
  char keys[2][64]; /* management, inference */
} torch;

static const char rows_graph[] =
    "tdir 1\n"
    "input %0 \"x\": f32[n, 2]\n"
    "%1 = aten::mul(%0, %0): f32[n, 2]\n"
    "output \"y\" %1\n";

/* Starts the server as TorchServe is started, in the folder. */
static void start_torch(torch *t) {
  start_server(&t->f,
               (const char *const[]){"serve", "--start", "--foreground", "--ncs", "--ts-config", "config.properties",
                                     "--models", "first=rows.tdir", "net.tdir", NULL},
               t->ports, PORTS);
}

static int open_torch(void **state) {
  torch *t = calloc(1, sizeof *t);
  assert_non_null(t);
  open_folder(&t->f);
  write_text(&t->f, "rows.tdir", rows_graph);
  write_text(&t->f, "net.tdir", graph);
  write_text(&t->f, "bad.tdir", "tdir 1\nnonsense\n");
  write_text(&t->f, "config.properties",
             "# a comment\ninference_address=http://127.0.0.1:0\nmanagement_address: http://127.0.0.1:0\n"
             "metrics_address = http://127.0.0.1:0\nmodel_store=.\nnumber_of_netty_threads=32\n"
             "grpc_inference_port=0\ngrpc_management_port=0\njob_queue_size=\\\n  "
             "1000\ndefault_workers_per_model=1\nenable_model_api=true\n"
             "disable_token_authorization=true\nallowed_host=other.example,models.example\n"
             "cors_allowed_origin=https://page.example\ncors_allowed_headers=Authorization, Content-Type\n");
  *state = t;
  start_torch(t);
  return 0;
}

static int close_torch(void **state) {
  torch *t = *state;
  const int status = end(&t->f);
  remove_folder(&t->f);
  free(t);
  return status;
}

static int ask_port(torch *t, int port, const char *method, const char *path, const char *body) {
  t->f.port = t->ports[port];
  return ask_path(&t->f, method, path, body);
}

static void expect(torch *t, int port, const char *method, const char *path, const char *body, int status,
                   const char *says) {
  const int got = ask_port(t, port, method, path, body);
  if (got != status || !strstr(t->f.reply, says)) fail_msg("%s %s: %d %s", method, path, got, t->f.reply);
}

#define ROW "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,2],\"data\":[3,4]}]}"

/* Each address answers its own routes. */
static void addresses(void **state) {
  torch *t = *state;
  expect(t, INFERENCE, "GET", "/ping", "", 200, "Healthy");
  expect(t, INFERENCE, "GET", "/models", "", 404, "\"type\": \"ResourceNotFoundException\"");
  expect(t, MANAGEMENT, "GET", "/models", "", 200, "\"modelName\": \"first\"");
  expect(t, METRICS, "GET", "/metrics", "", 200, "# TYPE ts_inference_requests_total counter");
  expect(t, MANAGEMENT, "POST", "/predictions/first", "", 404, "no such route");
  expect(t, INFERENCE, "POST", "/v2/models/first/infer", ROW, 200, "[9.0,16.0]");
  expect(t, INFERENCE, "POST", "/v1/models/first:predict", "{\"instances\":[[1,2],[3,-4],[0.5,0]]}", 200,
         "{\"predictions\":[[1.0,4.0],[9.0,16.0],[0.25,0.0]]}");
  expect(t, INFERENCE, "POST", "/v1/models/first:predict", "{\"instances\":[{\"x\":[1,2]}]}", 200, "[[1.0,4.0]]");
  expect(t, INFERENCE, "POST", "/v1/models/first:predict", "{\"instances\":[[1,2],[3],[4,5,6]]}", 400, "different");
  expect(t, INFERENCE, "POST", "/v1/models/first:predict", "{\"instances\":[[1,2],3,[4,5]]}", 400, "different");
}

static void lifecycle(void **state) {
  torch *t = *state;
  expect(t, MANAGEMENT, "POST", "/models", "", 400, "Parameter url is required.");
  expect(t, MANAGEMENT, "POST", "/models?url=none.tdir", "", 404, "none.tdir");
  expect(t, MANAGEMENT, "POST", "/models?url=bad.tdir", "", 400, "\"message\": \"bad.tdir: "); /* no path */
  expect(t, MANAGEMENT, "POST", "/models?url=http://a/rows.tdir", "", 404, "nothing is fetched");
  expect(t, MANAGEMENT, "POST", "/models?url=../rows.tdir", "", 404, "model store");
  expect(t, MANAGEMENT, "POST", "/models?url=..%2Frows.tdir", "", 404, "model store");
  expect(t, MANAGEMENT, "POST", "/models?url=rows.tdir&initial_workers=x", "", 400, "initial_workers");
  expect(t, MANAGEMENT, "POST", "/models?url=rows.tdir&runtime=python4", "", 400, "RuntimeType value: python4");
  expect(t, MANAGEMENT, "POST", "/models", "{\"url\":\"rows.tdir\",\"initial_workers\":[]}", 400, "initial_workers");
  expect(t, MANAGEMENT, "POST", "/models", "{\"url\":\"none.tdir\",\"synchronous\":false}", 404, "none.tdir");
  expect(t, MANAGEMENT, "POST", "/models",
         "{\"url\":\"rows.tdir\",\"model_name\":\"json\",\"initial_workers\":3,\"response_timeout\":\"7\"}", 200,
         "registered with 3 initial workers");
  expect(t, MANAGEMENT, "GET", "/models/json", "", 200, "\"responseTimeout\": 7");
  expect(t, MANAGEMENT, "DELETE", "/models/json", "", 200, "unregistered");
  expect(t, MANAGEMENT, "POST", "/models?url=rows.tdir&model_name=a%2Fb", "", 400, "no name for a model");
  expect(t, MANAGEMENT, "POST", "/models?url=rows.tdir&model_name=second&initial_workers=0&batch_size=4", "", 200,
         "Model \\\"second\\\" Version: 1 registered with 0 initial workers. Use scale workers");
  expect(t, MANAGEMENT, "POST", "/models?url=rows.tdir&model_name=second", "", 409, "ConflictStatusException");
  expect(t, INFERENCE, "POST", "/v2/models/second/infer", ROW, 503, "no workers");
  assert_non_null(strstr(t->f.reply, "Retry-After"));
  expect(t, MANAGEMENT, "PUT", "/models/second?min_worker=2&max_worker=1", "", 400, "max_worker");
  expect(t, MANAGEMENT, "PUT", "/models/second?min_worker=2&synchronous=true", "", 200, "Workers scaled to 2");
  expect(t, INFERENCE, "POST", "/v2/models/second/infer", ROW, 200, "[9.0,16.0]");
  expect(t, MANAGEMENT, "GET", "/models/second", "", 200, "\"batchSize\": 4");
  expect(t, MANAGEMENT, "GET", "/models/second/2", "", 404, "ModelVersionNotFoundException");
  expect(t, MANAGEMENT, "GET", "/models/third", "", 404, "ModelNotFoundException");
  expect(t, MANAGEMENT, "GET", "/models?limit=1", "", 200, "\"nextPageToken\": \"1\"");
  expect(t, MANAGEMENT, "GET", "/models/?limit=&next_page_token=", "", 200, "\"models\"");
  expect(t, MANAGEMENT, "GET", "/models//", "", 404, "no such route");
  expect(t, MANAGEMENT, "PUT", "/models/second/1/set-default", "", 200, "Default version");
  expect(t, MANAGEMENT, "PUT", "/models/second?min_worker=0&synchronous=true", "", 200, "Workers scaled to 0");
  expect(t, MANAGEMENT, "DELETE", "/models/second", "", 200, "unregistered");
  expect(t, MANAGEMENT, "DELETE", "/models/second", "", 404, "Model not found: second");
  expect(t, MANAGEMENT, "POST", "/models", "{\"url\":\"rows.tdir\",\"model_name\":\"second\"}", 200,
         "1 initial workers");
  expect(t, MANAGEMENT, "DELETE", "/models/second/1", "", 200, "unregistered");
}

/* Answered before the model is there; one that cannot be loaded stays away, and nothing else changes. */
static void register_later(void **state) {
  torch *t = *state;
  expect(t, MANAGEMENT, "POST", "/models?url=bad.tdir&model_name=worse&synchronous=false", "", 202, "Processing");
  expect(t, MANAGEMENT, "POST", "/models?url=rows.tdir&model_name=later&synchronous=false", "", 202, "Processing");
  for (int i = 0; i < 1000 && ask_port(t, MANAGEMENT, "GET", "/models/later", "") != 200; i++) usleep(10000);
  expect(t, INFERENCE, "POST", "/v2/models/later/infer", ROW, 200, "[9.0,16.0]");
  expect(t, MANAGEMENT, "GET", "/models/worse", "", 404, "ModelNotFoundException"); /* it was before the other */
  expect(t, MANAGEMENT, "DELETE", "/models/later", "", 200, "unregistered");
}

static int ask_as(torch *t, const char *fields, const char *method, const char *path) {
  char text[1024];
  t->f.port = t->ports[MANAGEMENT];
  snprintf(text, sizeof text, "%s %s HTTP/1.1\r\n%sContent-Length: 0\r\n\r\n", method, path, fields);
  return ask(&t->f, text, strlen(text));
}

/* Who asks by a name that only a page could know, or for a page from elsewhere, is refused and changes nothing. */
static void pages(void **state) {
  static const struct {
    const char *fields;
    int status;
  } rows[] = {{"Host: localhost:8081\r\n", 200},
              {"Host: LocalHost\r\n", 200},
              {"Host: 127.0.0.1:1\r\n", 200},
              {"Host: [::1]:8081\r\n", 200},
              {"Host: models.example:80\r\n", 200}, /* --allowed-host */
              {"Host: evil.example\r\n", 421},
              {"Host: 127.0.0.1.evil.example\r\n", 421},
              {"Host: localhost.evil.example:8081\r\n", 421},
              {"Host: [evil]\r\n", 421},
              {"Host: localhost:8081\r\nOrigin: http://localhost:8081\r\n", 200},
              {"Host: localhost:8081\r\nOrigin: https://models.example\r\n", 200},
              {"Host: localhost:8081\r\nOrigin: http://localhost:3000\r\n", 403},
              {"Host: localhost:8081\r\nOrigin: http://evil.example\r\n", 403},
              {"Host: localhost:8081\r\nOrigin: http://6.6.6.6\r\n", 403},
              {"Host: localhost:8081\r\nOrigin: null\r\n", 403},
              {"Host: localhost:8081\r\nOrigin: \r\n", 403}};
  torch *t = *state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const int status = ask_as(t, rows[i].fields, "GET", "/models");
    if (status != rows[i].status) fail_msg("%s: %d %s", rows[i].fields, status, t->f.reply);
    if (status != 200) assert_non_null(strstr(t->f.reply, "--allowed-host"));
  }
  assert_int_equal(ask_as(t, "Host: a\r\nOrigin: http://evil.example\r\n", "GET", "/ping"), 200); /* probes */
  assert_int_equal(ask_as(t, "Host: evil.example\r\n", "DELETE", "/models/first"), 421);
  expect(t, MANAGEMENT, "GET", "/models/first", "", 200, "first");
}

/* How often it stands in the reply. */
static int count_of(const torch *t, const char *text) {
  int count = 0;
  for (const char *at = t->f.reply; (at = strstr(at, text)); at++) count++;
  return count;
}

/* The page at the management address runs its own script alone, fetches nothing from elsewhere, and reaches inference
 * by routes of that address, which are closed to other pages as its other routes are. */
static void own_page(void **state) {
  torch *t = *state;
  static const char *const outside[] = {"src=", "@import", "url(", "href=\"http", "<iframe", "innerHTML", "eval("};
  static const char *const heads[] = {"Content-Type: text/html; charset=utf-8\r\n",
                                      "Content-Security-Policy: default-src 'none'; script-src 'sha256-",
                                      "; frame-ancestors 'none'; require-trusted-types-for 'script'\r\n",
                                      "X-Content-Type-Options: nosniff\r\n", "Referrer-Policy: no-referrer\r\n"};
  expect(t, MANAGEMENT, "GET", "/", "", 200, "<title>Treadle server</title>");
  for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) assert_int_equal(count_of(t, outside[i]), 0);
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) assert_int_equal(count_of(t, heads[i]), 1);
  assert_int_equal(count_of(t, "<script"), 1); /* the one of which the policy has the hash */
  assert_int_equal(count_of(t, "<style"), 1);
  assert_int_equal(count_of(t, "</html>"), 1);
  expect(t, MANAGEMENT, "GET", "/models", "", 200, "first");
  assert_int_equal(count_of(t, "Content-Security-Policy"), 0);
  expect(t, INFERENCE, "GET", "/", "", 405, "OPTIONS"); /* it is for the address that may know what there is */
  expect(t, INFERENCE, "POST", "/page/infer/first/1", ROW, 404, "no such route");
  expect(t, INFERENCE, "POST", "/page/wfpredict/none", ROW, 404, "no such route");
  expect(t, MANAGEMENT, "GET", "/page/metrics", "", 200, "# TYPE treadle_queue_depth gauge");
  expect(t, MANAGEMENT, "GET", "/page/models/first/1", "", 200, "\"shape\":[-1,2]");
  expect(t, MANAGEMENT, "POST", "/page/infer/first/1", ROW, 200, "[9.0,16.0]");
  expect(t, MANAGEMENT, "POST", "/page/predictions/first/1", "", 400, "picture");
  expect(t, MANAGEMENT, "POST", "/page/wfpredict/none", ROW, 404, "Workflow not found: none");
  assert_int_equal(ask_as(t, "Host: evil.example\r\n", "GET", "/page/metrics"), 421);
  assert_int_equal(ask_as(t, "Host: evil.example\r\n", "POST", "/page/infer/first/1"), 421);
  assert_int_equal(ask_as(t, "Host: localhost\r\nOrigin: http://evil.example\r\n", "POST", "/page/infer/first/1"), 403);
}

/* What there is, as TorchServe's clients and browsers ask. */
static void options(void **state) {
  torch *t = *state;
  const char *const cors = "access-control-allow-origin: https://page.example\r\n";
  expect(t, INFERENCE, "OPTIONS", "/", "", 200, "{\"openapi\":\"3.0.1\",");
  assert_non_null(strstr(t->f.reply, "\"/predictions/{model_name}/{model_version}\":{\"post\":{\"summary\":"));
  assert_null(strstr(t->f.reply, "\"/models\":"));
  expect(t, MANAGEMENT, "GET", "/api-description", "", 200, "\"/models/{model_name}\":{\"get\":");
  expect(t, INFERENCE, "OPTIONS", "/predictions/first", "", 200, "\"x-inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\"");
  expect(t, INFERENCE, "OPTIONS", "/predictions/none", "", 404, "ModelNotFoundException");
  expect(t, INFERENCE, "OPTIONS", "/v2/models/first/infer", "", 200, "\r\nAllow: POST\r\n");
  assert_non_null(strstr(t->f.reply, cors));
  assert_non_null(strstr(t->f.reply, "access-control-allow-headers: Authorization, Content-Type\r\n"));
  assert_null(strstr(t->f.reply, "access-control-allow-methods"));
  expect(t, INFERENCE, "OPTIONS", "*", "", 200, cors);
  expect(t, INFERENCE, "OPTIONS", "/nothing", "", 404, cors);
  expect(t, MANAGEMENT, "PATCH", "/models", "", 405, "\r\nAllow: POST, GET, HEAD\r\n");
  assert_int_equal(ask_as(t, "Host: localhost\r\nOrigin: https://page.example\r\n", "GET", "/models"), 200);
}

/* A version of a model that adds `extra` to the sum of both inputs. */
static void write_version(const torch *t, const char *version, const char *size, const char *extra) {
  char net[512], manifest[256], name[32];
  snprintf(net, sizeof net,
           "tdir 1\ninput %%0 \"x\": f32[n, %s]\nconst %%1: f32[] = {%s}\n%%2 = aten::add(%%0, %%1): f32[n, %s]\n"
           "output \"y\" %%2\n",
           size, extra, size);
  snprintf(manifest, sizeof manifest,
           "{\"model\":{\"modelName\":\"shared\",\"modelVersion\":\"%s\",\"handler\":\"image_classifier\","
           "\"serializedFile\":\"net.tdir\"}}",
           version);
  snprintf(name, sizeof name, "shared%s.mar", version);
  write_archive(&t->f, name, (const archived[]){{"net.tdir", net}, {"MAR-INF/MANIFEST.json", manifest}, {NULL, NULL}});
  snprintf(net, sizeof net, "/models?url=%s", name);
  expect((torch *)(uintptr_t)t, MANAGEMENT, "POST", net, "", 200, "1 initial workers");
}

/* A figure of version `version`, once it is `wanted`. */
static void wait_figure(torch *t, const char *name, const char *version, const char *wanted) {
  char begin[128], end_of[64];
  snprintf(begin, sizeof begin, "\n%s{model_name=\"shared\",model_version=\"%s\",", name, version);
  snprintf(end_of, sizeof end_of, "} %s\n", wanted);
  for (int i = 0; i < 500; i++, usleep(10000)) {
    expect(t, METRICS, "GET", "/metrics", "", 200, begin);
    const char *line = strstr(t->f.reply, begin);
    if (strncmp(strchr(line, '}'), end_of, strlen(end_of)) == 0) return;
  }
  fail_msg("%s is never %s: %s", name, wanted, strstr(t->f.reply, begin));
}

/* Of eight requests, how many version 2 answers. */
static int of_eight(torch *t) {
  int second = 0;
  for (int i = 0; i < 8; i++) {
    expect(t, INFERENCE, "POST", "/v2/models/shared/infer", ROW, 200, "\"model_version\":\"");
    const bool is_second = strstr(t->f.reply, "\"model_version\":\"2\"") != NULL;
    assert_non_null(strstr(t->f.reply, is_second ? "[3.25,4.25]" : "[3.0,4.0]"));
    second += is_second;
  }
  return second;
}

/* A share of the requests goes to another version, or copies of them do, whose answers nobody gets. */
static void traffic(void **state) {
  torch *t = *state;
  write_version(t, "1", "2", "0");
  write_version(t, "2", "2", "0.25");
  write_version(t, "3", "5", "0");
  expect(t, MANAGEMENT, "PUT", "/models/shared/1/traffic?split=10", "", 400, "is the default one");
  expect(t, MANAGEMENT, "PUT", "/models/shared/9/traffic?split=10", "", 404, "ModelVersionNotFoundException");
  expect(t, MANAGEMENT, "PUT", "/models/shared/2/traffic?split=101", "", 400, "split is no number");
  assert_int_equal(of_eight(t), 0);
  expect(t, MANAGEMENT, "PUT", "/models/shared/2/traffic?split=25", "", 200, "answers 25 % and shadows 0 %");
  expect(t, MANAGEMENT, "PUT", "/models/shared/3/traffic?split=76", "", 400, "would share 101 %");
  expect(t, MANAGEMENT, "GET", "/models/shared/2", "", 200, "\"trafficSplit\": 25");
  assert_int_equal(of_eight(t), 2);
  expect(t, INFERENCE, "POST", "/v2/models/shared/versions/1/infer", ROW, 200, "[3.0,4.0]");
  expect(t, MANAGEMENT, "PUT", "/models/shared/2?min_worker=0&synchronous=true", "", 200, "scaled to 0");
  assert_int_equal(of_eight(t), 0); /* it could answer none */
  expect(t, MANAGEMENT, "PUT", "/models/shared/2?min_worker=1&synchronous=true", "", 200, "scaled to 1");
  expect(t, MANAGEMENT, "PUT", "/models/shared/2/traffic?shadow=50", "", 200, "answers 0 % and shadows 50 %");
  assert_int_equal(of_eight(t), 0);
  wait_figure(t, "treadle_shadow_compared_total", "2", "4");
  wait_figure(t, "treadle_shadow_largest_difference", "2", "0.25");
  wait_figure(t, "treadle_shadow_failed_total", "2", "0");
  expect(t, MANAGEMENT, "PUT", "/models/shared/2/traffic", "", 200, "shadows 0 %");
  expect(t, MANAGEMENT, "PUT", "/models/shared/3/traffic?shadow=100", "", 200, "shadows 100 %");
  assert_int_equal(of_eight(t), 0);
  wait_figure(t, "treadle_shadow_failed_total", "3", "8"); /* it takes other sizes */
  wait_figure(t, "treadle_shadow_compared_total", "2", "4");
  wait_figure(t, "treadle_shadow_compared_total", "3", "0");
  expect(t, MANAGEMENT, "PUT", "/models/shared/3/set-default", "", 200, "Default version");
  expect(t, MANAGEMENT, "DELETE", "/models/shared/1", "", 200, "unregistered");
  expect(t, MANAGEMENT, "DELETE", "/models/shared/2", "", 200, "unregistered");
  expect(t, MANAGEMENT, "DELETE", "/models/shared", "", 200, "unregistered");
}

static void repository(void **state) {
  torch *t = *state;
  expect(t, MANAGEMENT, "POST", "/v2/repository/models/rows/load", "{}", 200, "\"load\":true");
  expect(t, INFERENCE, "POST", "/v2/repository/index", "{}", 200,
         "{\"name\":\"rows\",\"version\":\"1\",\"state\":\"READY\"");
  expect(t, INFERENCE, "POST", "/v2/models/rows/infer", ROW, 200, "[9.0,16.0]");
  expect(t, MANAGEMENT, "POST", "/v2/repository/models/rows/load", "{}", 200, "\"load\":true"); /* anew */
  expect(t, MANAGEMENT, "POST", "/v2/repository/models/bad/load", "{}", 400, "bad.tdir");
  expect(t, MANAGEMENT, "POST", "/v2/repository/models/rows/unload", "{}", 200, "\"unload\":true");
  expect(t, INFERENCE, "POST", "/v2/models/rows/infer", ROW, 404, "rows");
}

/* Requests that wait together are computed as one, and each gets its own rows; one that is wrong fails alone. */
static void batches(void **state) {
  torch *t = *state;
  enum { CLIENTS = 40 };
  int fds[CLIENTS];
  char text[512], wanted[64];
  expect(t, MANAGEMENT, "POST", "/models?url=rows.tdir&model_name=joined&batch_size=8", "", 200, "joined");
  t->f.port = t->ports[INFERENCE];
  for (int i = 0; i < CLIENTS; i++) {
    char body[256];
    snprintf(body, sizeof body,
             "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,%d],\"data\":[%d,1]}]}",
             i % 10 == 7 ? 3 : 2, i);
    snprintf(text, sizeof text, "POST /v2/models/joined/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n%s",
             strlen(body), body);
    fds[i] = connect_to(&t->f);
    put(fds[i], text, strlen(text));
  }
  for (int i = 0; i < CLIENTS; i++) {
    snprintf(wanted, sizeof wanted, "\"data\":[%d.0,1.0]", i * i);
    assert_int_equal(get(&t->f, fds[i]), i % 10 == 7 ? 400 : 200);
    if (i % 10 != 7 && !strstr(t->f.reply, wanted)) fail_msg("%d: %s", i, t->f.reply);
    close(fds[i]);
  }
  expect(t, MANAGEMENT, "DELETE", "/models/joined", "", 200, "unregistered");
}

/* A model is replaced again and again while it is asked: no request is lost. */
static void replaced_under_load(void **state) {
  torch *t = *state;
  char command[1024];
  expect(t, MANAGEMENT, "POST", "/v2/repository/models/rows/load", "{}", 200, "load");
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 50; i++) {
      if (ask_port(t, MANAGEMENT, "POST", "/v2/repository/models/rows/load", "{}") != 200) _exit(1);
    }
    _exit(0);
  }
  int status = -1, asked = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    expect(t, INFERENCE, "POST", "/v2/models/rows/infer", ROW, 200, "[9.0,16.0]");
    asked++;
  }
  assert_int_equal(status, 0);
  assert_true(asked > 0);
  expect(t, MANAGEMENT, "POST", "/v2/repository/models/rows/unload", "{}", 200, "unload");
  snprintf(command, sizeof command, "test -z \"$(ls %s | grep key_file)\"", t->f.folder);
  assert_int_equal(system(command), 0); /* no tokens, no file */
}

static void read_keys(torch *t) {
  char path[256], text[1024] = "";
  struct stat there;
  snprintf(path, sizeof path, "%s/key_file.json", t->f.folder);
  assert_int_equal(stat(path, &there), 0);
  assert_int_equal(there.st_mode & 0777, 0600);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  assert_true(fread(text, 1, sizeof text - 1, file) > 0);
  fclose(file);
  assert_int_equal(sscanf(strstr(text, "\"management\""), "\"management\": { \"key\": \"%32s", t->keys[0]), 1);
  assert_int_equal(sscanf(strstr(text, "\"inference\""), "\"inference\": { \"key\": \"%32s", t->keys[1]), 1);
  assert_int_equal(strlen(t->keys[0]), 32);
}

static int send_with_key(torch *t, int port, const char *method, const char *path, const char *key) {
  char text[1024];
  t->f.port = t->ports[port];
  snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nContent-Length: 0\r\n\r\n",
           method, path, key);
  return ask(&t->f, text, strlen(text));
}

static int post_with_key(torch *t, int port, const char *path, const char *key) {
  return send_with_key(t, port, "POST", path, key);
}

static int ask_with_key(torch *t, int port, const char *path, const char *key) {
  return send_with_key(t, port, port == INFERENCE ? "POST" : "GET", path, key);
}

static void tokens(void **state) {
  torch other = *(torch *)*state, *t = &other;
  write_text(
      &t->f, "config.properties",
      "inference_address=http://127.0.0.1:0\nmanagement_address=http://127.0.0.1:0\n"
      "metrics_address=http://"
      "127.0.0.1:0\ngrpc_inference_port=0\ngrpc_management_port=0\nmodel_store=.\ndefault_workers_per_model=1\n");
  start_torch(t);
  read_keys(t);
  expect(t, INFERENCE, "GET", "/ping", "", 200, "Healthy"); /* probes need none */
  expect(t, METRICS, "GET", "/metrics", "", 200, "ts_");
  expect(t, MANAGEMENT, "GET", "/models", "", 400, "InvalidKeyException");
  expect(t, INFERENCE, "POST", "/predictions/first", "", 400, "InvalidKeyException");
  expect(t, INFERENCE, "POST", "/v2/models/first/infer", ROW, 401, "Token");
  assert_int_equal(ask_with_key(t, MANAGEMENT, "/models", t->keys[0]), 200);
  assert_int_equal(ask_with_key(t, MANAGEMENT, "/models", t->keys[1]), 400);
  assert_int_equal(ask_with_key(t, INFERENCE, "/v2/models/first/infer", t->keys[1]), 400); /* the request is empty */
  expect(t, MANAGEMENT, "GET", "/", "", 200, "</html>");                                   /* the page asks for them */
  expect(t, MANAGEMENT, "POST", "/page/infer/first/1", ROW, 400, "InvalidKeyException");
  assert_int_equal(ask_with_key(t, MANAGEMENT, "/page/metrics", t->keys[0]), 200);
  assert_int_equal(ask_with_key(t, MANAGEMENT, "/page/metrics", t->keys[1]), 400);
  assert_int_equal(post_with_key(t, MANAGEMENT, "/page/predictions/none/1", t->keys[0]), 400);
  assert_int_equal(post_with_key(t, MANAGEMENT, "/page/predictions/none/1", t->keys[1]), 404); /* it got in */
  assert_int_equal(post_with_key(t, MANAGEMENT, "/page/wfpredict/none", t->keys[0]), 400);
  assert_int_equal(post_with_key(t, MANAGEMENT, "/page/wfpredict/none", t->keys[1]), 404);
  t->keys[1][31] = t->keys[1][31] == '0' ? '1' : '0';
  assert_int_equal(ask_with_key(t, INFERENCE, "/v2/models/first/infer", t->keys[1]), 401);
  expect(t, MANAGEMENT, "GET", "/token?type=inference", "", 400, "InvalidKeyException");
  assert_int_equal(end(&t->f), 0);
}

/* What is wrong in a configuration ends the start with the key and the value. */
static void configurations(void **state) {
  static const struct {
    const char *text, *says;
  } rows[] = {{"grpc_inference_port=0\ngrpc_management_port=0\njob_queue_size=many\n", "'many' is no number"},
              {"inference_address=ftp://x\n", "is no IPv4 address"},
              {"inference_address=http://0.0.0.0:0\ndisable_token_authorization=true\n", "others than this machine"},
              {"management_address=https://127.0.0.1:8443\n", "needs certificate_file"},
              {"management_address=https://127.0.0.1:8443\ncertificate_file=none.pem\nprivate_key_file=none.pem\n",
               "none.pem: cannot be used"},
              {"enable_model_api=yes\n", "true or false"},
              {"cors_allowed_origin=a\tb\n", "no value of a header field"},
              {"nonsense=1\n", "no key of config.properties"}};
  const torch *t = *state;
  char command[2048];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    write_text(&t->f, "wrong.properties", rows[i].text);
    snprintf(command, sizeof command,
             "cd %s && %s serve --start --foreground --ts-config wrong.properties net.tdir 2>&1 | grep -q \"%s\"",
             t->f.folder, t->f.program, rows[i].says);
    if (system(command) != 0) fail_msg("%s", rows[i].text);
  }
}

/* --start returns when the server listens, and --stop ends it; a UNIX socket answers too. */
static void background(void **state) {
  const torch *t = *state;
  char command[4096];
  write_text(&t->f, "unix.properties",
             "grpc_inference_port=0\ngrpc_management_port=0\ninference_address=unix:quiet.sock\nmanagement_address="
             "unix:quiet.sock\nmetrics_address=unix:quiet.sock\n");
  snprintf(
      command, sizeof command,
      "cd %s && export XDG_RUNTIME_DIR=$PWD && t=%s && o='--ts-config unix.properties --disable-token-auth' && "
      "$t serve --start $o net.tdir | grep -q 'listening on unix:quiet.sock' && test -S quiet.sock && "
      "f=$(ls *.pid) && mv $f kept && ln -s kept $f && ! $t serve --stop $o 2>/dev/null && mv kept $f && " /* a trap */
      "$t serve --stop $o | grep -q stopped && ! test -e quiet.sock && ! $t serve --stop $o 2>/dev/null && "
      "$t serve --bind 0.0.0.0 --port 0 net.tdir 2>&1 | grep -q trust-network",
      t->f.folder, t->f.program);
  assert_int_equal(system(command), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(addresses),      cmocka_unit_test(lifecycle),
                                     cmocka_unit_test(register_later), cmocka_unit_test(repository),
                                     cmocka_unit_test(pages),          cmocka_unit_test(own_page),
                                     cmocka_unit_test(options),        cmocka_unit_test(traffic),
                                     cmocka_unit_test(batches),        cmocka_unit_test(replaced_under_load),
                                     cmocka_unit_test(tokens),         cmocka_unit_test(configurations),
                                     cmocka_unit_test(background)};
  return cmocka_run_group_tests(tests, open_torch, close_torch);
}
