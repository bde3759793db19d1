/* The server over its socket: the routes of both protocols, requests that are cut, pipelined, damaged or too large,
 * many clients at once, and its end. */
#include "serve/archive.h"

#include <math.h>
#include <sys/resource.h>
#include <zlib.h>

/* Starts the server of net.tdir and, where there is one, of an archive. */
static void start(fixture *f, const char *option, const char *value) {
  start_server(f, (const char *const[]){"serve", "--port", "0", option, value, "add=net.tdir", "colours.mar", NULL},
               &f->port, 1);
}

static const char colours[] =
    "tdir 1\n"
    "input %0 \"x\": f32[1, 3, 224, 224]\n"
    "%1 = aten::mean(%0) {dim = [2, 3], keepdim = false, noop = false}: f32[1, 3]\n"
    "output \"y\" %1\n";

/* An archive of a model whose scores are the means of red, green and blue. */
static void write_colours(const fixture *f, const char *name, const char *handler) {
  char manifest[256];
  snprintf(manifest, sizeof manifest,
           "{\"model\":{\"handler\":\"%s\",\"serializedFile\":\"net.tdir\",\"configFile\":\"config.yaml\"}}", handler);
  write_archive(
      f, name,
      (const archived[]){{"config.yaml",
                          "# numbers\nminWorkers: 1\nmaxWorkers: 3\nbatchSize: 4\nhandler:\n  batchSize: 9\n"
                          "  x: [1, 2]\n"},
                         {"net.tdir", colours},
                         {"index_to_name.json", "{\"0\":\"red\",\"1\":[\"n1\",\"gr\\\"een\"],\"2\":\"blue\"}"},
                         {"MAR-INF/MANIFEST.json", manifest},
                         {NULL, NULL}});
}

static int open_fixture(void **state) {
  fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  open_folder(f);
  write_text(f, "net.tdir", graph);
  write_colours(f, "colours.mar", "image_classifier");
  start(f, "--most-bytes", "4096");
  *state = f;
  return 0;
}

static int close_fixture(void **state) {
  fixture *f = *state;
  const int status = end(f);
  remove_folder(f);
  free(f);
  return status; /* exit 0 */
}

static const char infer[] = "/v2/models/add/infer";
#define X "{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[3],\"data\":[1,2.5,-3]}"
#define Y "{\"name\":\"y\",\"datatype\":\"FP32\",\"shape\":[3],\"data\":[[0.1],[2],[1e3]]}"

static void routes(void **state) {
  static const struct {
    const char *method, *path, *body;
    int status;
    const char *says;
  } rows[] = {
      {"GET", "/ping", "", 200, "Healthy"},
      {"GET", "/v2", "", 200, "binary_tensor_data"},
      {"GET", "/v2/health/live", "", 200, "{\"live\":true}"},
      {"GET", "/v2/health/ready", "", 200, "{\"ready\":true}"},
      {"GET", "/v2/models/add", "", 200, "{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[3]}"},
      {"GET", "/v2/models/a%64d/versions/1?q", "", 200, "\"platform\":\"treadle\""},
      {"GET", "/v2/models/add/versions/2", "", 404, "version: 2 does not exist"},
      {"GET", "/v2/models/add/versions/1/ready", "", 200, "{\"name\":\"add\",\"ready\":true}"},
      {"GET", "/v2/models/other/ready", "", 404, "Model not found: other"},
      {"GET", "/v2/models/%zz", "", 400, "damaged"},
      {"GET", "/elsewhere", "", 404, "no such route"},
      {"GET", infer, "", 405, "POST"},
      {"POST", infer, "{\"id\":\"a\\\"b\",\"inputs\":[" X "," Y "]}", 200,
       "{\"model_name\":\"add\",\"model_version\":\"1\",\"id\":\"a\\\"b\",\"outputs\":[{\"name\":\"sum\",\"shape\":[3],"
       "\"datatype\":\"FP32\",\"data\":[1.1,4.5,997.0]}]}"},
      {"POST", infer, "{\"inputs\":[" X "," Y "],\"outputs\":[{\"name\":\"sum\"}]}", 200, "997.0"},
      {"POST", infer, "{\"inputs\":[" X "," Y "],\"outputs\":[{\"name\":\"dif\"}]}", 400, "sum"},
      {"POST", infer, "{\"inputs\":[" X "]}", 400, "y"},
      {"POST", infer, "{\"inputs\":[" X "," X "," Y "]}", 400, "given twice"},
      {"POST", infer, "{\"inputs\":[" X "," Y "],\"outputs\":7}", 200, "\"outputs\":[]"},
      {"POST", infer, "{\"inputs\":[{\"name\":\"z\"}]}", 400, "z"},
      {"POST", infer, "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP31\"}]}", 400, "datatype"},
      {"POST", infer, "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"INT64\",\"shape\":[3],\"data\":[1,2,3]}]}", 400,
       "x"},
      {"POST", infer, "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[3],\"data\":[1,2]}]}", 400,
       "data"},
      {"POST", infer, "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"UINT8\",\"shape\":[1],\"data\":[256]}]}", 400,
       "data"},
      {"POST", infer,
       "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[4611686018427387904,4],\"data\":[]}]}", 400,
       "large"},
      {"POST", infer, "{\"inputs\":[" X "," Y "]", 400, "error"},
      {"POST", infer, "", 400, "error"},
      {"POST", "/predictions/add", "no picture", 400, "\"type\": \"BadRequestException\""},
      {"POST", "/predictions/other", "x", 404, "other"},
      {"POST", "/invocations?model_name=add", "x", 400, "this model takes tensors"},
      {"POST", "/invocations?model_name=other", "x", 404, "Model not found: other"},
      {"POST", "/invocations", "x", 400, "Parameter model_name is required."},
      {"PUT", "/add/predict", "x", 400, "this model takes tensors"},
      {"POST", "/add/1/predict", "x", 400, "this model takes tensors"},
      {"POST", "/add/2/predict", "x", 404, "ModelVersionNotFoundException"},
      {"POST", "/explanations/add", "x", 503, "\"message\": \"Prediction failed: the built-in handlers have no"},
      {"POST", "/explanations/add/2", "x", 404, "ModelVersionNotFoundException"},
      {"POST", "/explanations/other", "x", 404, "ModelNotFoundException"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const int status = ask_path(*state, rows[i].method, rows[i].path, rows[i].body);
    if (status != rows[i].status || !strstr(((fixture *)*state)->reply, rows[i].says))
      fail_msg("%s %s: %d %s", rows[i].path, rows[i].body, status, ((fixture *)*state)->reply);
  }
}

/* KServe's first protocol: members of each row are the inputs' rows. */
static void rows_of_json(void **state) {
  static const char path[] = "/v1/models/add:predict";
  static const struct {
    const char *method, *path, *body;
    int status;
    const char *says;
  } rows[] = {
      {"GET", "/v1/models", "", 200, "{\"models\":[\"add\",\"colours\"]}"},
      {"GET", "/v1/models/add", "", 200, "{\"name\":\"add\",\"ready\":true}"},
      {"GET", "/v1/models/other", "", 404, "{\"error\":"},
      {"POST", path, "{\"instances\":[{\"x\":1,\"y\":0.1},{\"x\":2.5,\"y\":2},{\"y\":1e3,\"x\":-3}]}", 200,
       "\r\n{\"predictions\":[1.1,4.5,997.0]}"},
      {"POST", path, "{\"instances\":[{\"x\":1,\"y\":2},{\"x\":1},{\"x\":1,\"y\":2}]}", 400, "y: has rows"},
      {"POST", path, "{\"instances\":[{\"x\":1,\"y\":2},{\"x\":[1],\"y\":2},{\"x\":1,\"y\":2}]}", 400, "x: has rows"},
      {"POST", path, "{\"instances\":[{\"x\":\"1\",\"y\":2}]}", 400, "{\"error\":"},
      {"POST", path, "{\"instances\":[{\"x\":true,\"y\":2}]}", 400, "does not hold"},
      {"POST", path, "{\"instances\":[{\"x\":1,\"y\":2}]}", 400, "{\"error\":"}, /* it takes three */
      {"POST", path, "{\"instances\":[[1,2,3]]}", 400, "x: is not among"},
      {"POST", path, "{\"instances\":[]}", 400, "instances"},
      {"POST", path, "{\"instances\":7}", 400, "instances"},
      {"POST", path, "[1", 400, "{\"error\":"},
      {"POST", path, "", 400, "the request is empty"},
      {"GET", path, "", 404, "Model not found: add:predict"},
      {"POST", "/v1/models/other:predict", "{}", 404, "{\"error\":\"Model not found: other\"}"},
      {"POST", "/v1/models/add:explain", "{}", 501, "{\"error\":\"Prediction failed"},
      {"POST", "/v1/models/add:other", "{}", 405, "GET, HEAD"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const int status = ask_path(*state, rows[i].method, rows[i].path, rows[i].body);
    if (status != rows[i].status || !strstr(((fixture *)*state)->reply, rows[i].says))
      fail_msg("%s %s: %d %s", rows[i].path, rows[i].body, status, ((fixture *)*state)->reply);
  }
}

/* The body of a request with two binary tensors; its length. */
static size_t binary_request(char *to, size_t json_extra) {
  static const char json[] =
      "{\"parameters\":{\"binary_data_output\":true},\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[3],"
      "\"parameters\":{\"binary_data_size\":12}},{\"name\":\"y\",\"datatype\":\"FP32\",\"shape\":[3],\"parameters\":"
      "{\"binary_data_size\":12}}]}";
  static const float values[6] = {1, 2, 3, 0.5f, -2, 1e30f};
  const size_t count = (size_t)sprintf(to,
                                       "POST %s HTTP/1.1\r\nHost: a\r\nInference-Header-Content-Length: %zu\r\n"
                                       "Content-Length: %zu\r\n\r\n%s",
                                       infer, sizeof json - 1 + json_extra, sizeof json - 1 + sizeof values, json);
  memcpy(to + count, values, sizeof values);
  return count + sizeof values;
}

static void binary(void **state) {
  fixture *f = *state;
  static const float sums[3] = {1.5f, 0, 1e30f};
  char text[2048];
  assert_int_equal(ask(f, text, binary_request(text, 0)), 200);
  assert_non_null(strstr(f->reply, "Inference-Header-Content-Length: "));
  assert_non_null(strstr(f->reply, "\"parameters\":{\"binary_data_size\":12}"));
  assert_memory_equal(f->reply + f->length - 12, sums, 12);
  assert_int_equal(ask(f, text, binary_request(text, 3)), 400);     /* into the tensors */
  assert_int_equal(ask(f, text, binary_request(text, 10000)), 400); /* beyond the body */
}

/* Byte by byte, then three at once, in chunks, and by HTTP/1.0: on one connection. */
static void ways_to_send(void **state) {
  fixture *f = *state;
  char text[8192];
  const int fd = connect_to(f);
  size_t count = binary_request(text, 0);
  for (size_t i = 0; i < count; i++) put(fd, text + i, 1);
  assert_int_equal(get(f, fd), 200);
  count += binary_request(text + count, 0);
  count += (size_t)sprintf(text + count, "GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n");
  put(fd, text, count);
  assert_int_equal(get(f, fd), 200);
  assert_int_equal(get(f, fd), 200);
  assert_int_equal(get(f, fd), 200);
  assert_non_null(strstr(f->reply, "live"));
  static const char body[] = "{\"inputs\":[" X "," Y "]}";
  count = (size_t)sprintf(
      text, "POST %s HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n", infer);
  put(fd, text, count);
  char go_on[25];
  assert_int_equal(recv(fd, go_on, sizeof go_on, MSG_WAITALL), sizeof go_on);
  assert_memory_equal(go_on, "HTTP/1.1 100 Continue\r\n\r\n", sizeof go_on);
  count = (size_t)sprintf(text, "5\r\n%.5s\r\n%zx\r\n%s\r\n0\r\n\r\n", body, sizeof body - 6, body + 5);
  put(fd, text, count);
  assert_int_equal(get(f, fd), 200);
  static const char old[] = "GET /ping HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
                    last[] = "GET /ping HTTP/1.0\r\n\r\n";
  put(fd, old, sizeof old - 1);
  assert_int_equal(get(f, fd), 200);
  assert_non_null(strstr(f->reply, "Connection: keep-alive"));
  put(fd, last, sizeof last - 1);
  assert_int_equal(get(f, fd), 200);
  assert_int_equal(recv(fd, go_on, 1, 0), 0);
  close(fd);
}

/* One more inference is one more in the counters and in the histogram. */
static void metrics(void **state) {
  fixture *f = *state;
  const char *const names[] = {"ts_inference_requests_total{model_name=\"add\",", "Requests2XX{",
                               "treadle_compute_seconds_count{model_name=\"add\",",
                               "treadle_decode_seconds_count{model_name=\"add\","};
  char text[2048];
  unsigned long counts[2][4];
  for (int turn = 0; turn < 2; turn++) {
    if (turn) assert_int_equal(ask(f, text, binary_request(text, 0)), 200);
    assert_int_equal(ask_path(f, "GET", "/metrics", ""), 200);
    for (int i = 0; i < 4; i++) {
      const char *line = strstr(f->reply, names[i]);
      assert_non_null(line);
      counts[turn][i] = strtoul(strstr(line, "} ") + 2, NULL, 10);
    }
  }
  assert_int_equal(counts[1][0], counts[0][0] + 1);
  assert_int_equal(counts[1][1], counts[0][1] + 2);
  assert_int_equal(counts[1][2], counts[0][2] + 1);
  assert_int_equal(counts[1][3], counts[0][3] + 1);
}

/* The machine's figures, under the names that TorchServe gives them. */
static void gauges(void **state) {
  fixture *f = *state;
  static const struct {
    const char *name;
    double low, high;
  } all[] = {{"CPUUtilization", 0, 100},    {"MemoryUsed", 1, 1e9},     {"MemoryAvailable", 0, 1e9},
             {"MemoryUtilization", 0, 100}, {"DiskAvailable", 0, 1e12}, {"DiskUsage", 0, 1e12},
             {"DiskUtilization", 0, 100}};
  char line[128];
  assert_int_equal(ask_path(f, "GET", "/metrics", ""), 200);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    snprintf(line, sizeof line, "# TYPE %s gauge\n%s{Level=\"Host\",Hostname=\"", all[i].name, all[i].name);
    const char *found = strstr(f->reply, line);
    assert_non_null(found);
    const double value = strtod(strstr(found, ",} ") + 3, NULL);
    assert_true(value >= all[i].low && value <= all[i].high);
  }
}

/* A red PNG of one pixel (red 255, green 0, blue 0): normalised, (1 - .485) / .229, -.456 / .224 and -.406 / .225. */
static void archives(void **state) {
  fixture *f = *state;
  static const char png[] =
      "\211\120\116\107\015\012\032\012\000\000\000\015\111\110\104\122\000\000\000\001\000\000\000\001\010\002"
      "\000\000\000\220\167\123\336\000\000\000\014\111\104\101\124\170\234\143\370\317\300\000\000\003\001\001"
      "\000\311\376\222\357\000\000\000\000\111\105\116\104\256\102\140\202";
  char text[1024], command[2048];
  double red, green, blue;
  const int count =
      sprintf(text, "PUT /predictions/colours HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", sizeof png - 1);
  memcpy(text + count, png, sizeof png - 1);
  assert_int_equal(ask(f, text, (size_t)count + sizeof png - 1), 200);
  const char *reply = strstr(f->reply, "\r\n\r\n") + 4;
  assert_int_equal(sscanf(reply, "{ \"red\": %lf, \"blue\": %lf, \"gr\\\"een\": %lf }", &red, &blue, &green), 3);
  assert_true(fabs(red - 0.9697977) < 1e-6 && fabs(blue - 0.0168396) < 1e-6 && fabs(green - 0.0133627) < 1e-6);
  assert_int_equal(ask_path(f, "GET", "/models/colours", ""), 200);
  assert_non_null(strstr(f->reply, "\"minWorkers\": 1,\n    \"maxWorkers\": 3,\n    \"batchSize\": 4,"));
  snprintf(text, sizeof text, "%s/other.mar", f->folder);
  write_colours(f, "other.mar", "handler.py");
  snprintf(command, sizeof command, "%s serve --port 0 %s 2>&1 | grep -q 'handler is handler.py'", f->program, text);
  assert_int_equal(system(command), 0);
}

/* A body of `json` as gzip, with `extra` spaces behind the JSON. */
static size_t packed_request(char *to, size_t room, const char *json, size_t extra) {
  uint8_t *plain = malloc(strlen(json) + extra + 1), packed[4096];
  z_stream z = {.next_in = plain, .next_out = packed, .avail_out = sizeof packed};
  assert_non_null(plain);
  z.avail_in = (uInt)(strlen(json) + extra);
  memcpy(plain, json, strlen(json));
  memset(plain + strlen(json), ' ', extra);
  assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
  deflateEnd(&z);
  free(plain);
  const int head =
      snprintf(to, room, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: %zu\r\n\r\n", infer,
               z.total_out);
  memcpy(to + head, packed, z.total_out);
  return (size_t)head + z.total_out;
}

/* What is packed is read; what is damaged, goes on behind its end, or grows beyond the bound of bodies is refused. */
static void packed(void **state) {
  fixture *f = *state;
  char text[8192];
  size_t count = packed_request(text, sizeof text, "{\"inputs\":[" X "," Y "]}", 0);
  assert_int_equal(ask(f, text, count), 200);
  assert_non_null(strstr(f->reply, "997.0"));
  text[count - 5] ^= 1; /* its checksum */
  assert_int_equal(ask(f, text, count), 400);
  count = packed_request(text, sizeof text, "{\"inputs\":[" X "," Y "]}", 1000000);
  assert_int_equal(ask(f, text, count), 413);
}

static void limits(void **state) {
  fixture *f = *state;
  static const char large[] = "POST /ping HTTP/1.1\r\nHost: a\r\nContent-Length: 4097\r\n\r\n";
  static const char chunk[] = "POST /ping HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1001\r\n";
  static const char packed[] = "POST /ping HTTP/1.1\r\nHost: a\r\nContent-Encoding: br\r\nContent-Length: 0\r\n\r\n";
  static const char both[] =
      "POST /ping HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
  char text[8192];
  assert_int_equal(ask(f, large, sizeof large - 1), 413);
  assert_non_null(strstr(f->reply, "Connection: close"));
  assert_int_equal(ask(f, packed, sizeof packed - 1), 415);
  assert_int_equal(ask(f, both, sizeof both - 1), 400);
  const size_t count = (size_t)sprintf(text, "%s%04097d", chunk, 0);
  assert_int_equal(ask(f, text, count), 413);
}

static unsigned long held(fixture *f) {
  assert_int_equal(ask_path(f, "GET", "/metrics", ""), 200);
  const char *line = strstr(f->reply, "\ntreadle_held_bytes ");
  assert_non_null(line);
  return strtoul(line + sizeof "\ntreadle_held_bytes", NULL, 10);
}

/* Until the server has read what was sent. */
static void wait_held(fixture *f, unsigned long least, unsigned long most) {
  for (int i = 0; i < 1000; i++, usleep(10000)) {
    const unsigned long now = held(f);
    if (now >= least && now <= most) return;
  }
  fail_msg("never %lu to %lu bytes are held", least, most);
}

/* It may no longer do what a server has no use for (sandbox.h). */
static void closed_calls(void **state) {
  const fixture *f = *state;
  char path[64], text[4096] = "";
  snprintf(path, sizeof path, "/proc/%d/status", (int)f->child);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  assert_true(fread(text, 1, sizeof text - 1, file) > 0);
  fclose(file);
  assert_non_null(strstr(text, "NoNewPrivs:\t1\n"));
  assert_non_null(strstr(text, "Seccomp:\t2\n"));
}

/* All requests together hold no more than their budget; who is refused may come again, and probes are answered. */
static void budget(void **state) {
  fixture f = *(fixture *)*state;
  enum { FIRST = 180000, SECOND = 100000 };
  static const char zeros[FIRST];
  static const char known[] = "POST /ping HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";
  static const char chunk[] = "POST /ping HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n186a0\r\n";
  static const char alone[] = "POST /ping HTTP/1.1\r\nHost: a\r\nContent-Length: 262145\r\n\r\n";
  static const char first[] = "POST /ping HTTP/1.1\r\nHost: a\r\nContent-Length: 180000\r\n\r\n";
  const char *const refused[] = {known, chunk};
  start(&f, "--most-held", "262144");
  const int fd = connect_to(&f), late = connect_to(&f);
  put(late, first, sizeof first - 1);
  put(late, zeros, 1);
  wait_held(&f, 4096, 65536); /* it would fit, as things are */
  put(fd, first, sizeof first - 1);
  put(fd, zeros, FIRST - 1);
  wait_held(&f, FIRST, 262144);
  for (int sent = 1; sent < FIRST && send(late, zeros, 10000, MSG_NOSIGNAL) > 0; sent += 10000) continue;
  assert_int_equal(get(&f, late), 503);
  close(late);
  for (int i = 0; i < 2; i++) {
    const int other = connect_to(&f);
    put(other, refused[i], strlen(refused[i]));
    for (int sent = 0; sent < SECOND && send(other, zeros, 10000, MSG_NOSIGNAL) > 0; sent += 10000) continue;
    assert_int_equal(get(&f, other), 503);
    assert_non_null(strstr(f.reply, "Retry-After: 1\r\n"));
    assert_non_null(strstr(f.reply, "--most-held): try again later"));
    close(other);
  }
  assert_int_equal(ask(&f, alone, sizeof alone - 1), 413);
  assert_int_equal(ask_path(&f, "GET", "/ping", ""), 200);
  put(fd, zeros, 1);
  assert_int_equal(get(&f, fd), 405);
  close(fd);
  wait_held(&f, 0, 65536);
  const int again = connect_to(&f);
  put(again, known, sizeof known - 1);
  put(again, zeros, SECOND);
  assert_int_equal(get(&f, again), 405);
  close(again);
  assert_int_equal(end(&f), 0);
}

/* Clients that open and say nothing, half a request, or leave before the answer do not keep others waiting. */
static void many(void **state) {
  fixture *f = *state;
  int idle[300];
  char text[2048];
  const size_t count = binary_request(text, 0);
  for (int i = 0; i < 300; i++) {
    idle[i] = connect_to(f);
    put(idle[i], text, (size_t)i);
  }
  for (int i = 0; i < 50; i++) {
    const int fd = connect_to(f);
    put(fd, text, count);
    close(fd);
    assert_int_equal(ask(f, text, count), 200);
  }
  put(idle[299], text + 299, count - 299);
  assert_int_equal(get(f, idle[299]), 200);
  for (int i = 0; i < 300; i++) close(idle[i]);
}

/* Who comes while the server has no descriptor left waits, and is answered when there is one: whether connections of
 * its own were closed, or somebody else had them. */
static void descriptors(void **state) {
  fixture f = *(fixture *)*state;
  static const char ping[] = "GET /ping HTTP/1.1\r\nHost: a\r\n\r\n";
  struct rlimit before, few;
  int fds[60];
  start(&f, "--drain", "1");
  assert_int_equal(prlimit(f.child, RLIMIT_NOFILE, NULL, &before), 0);
  few = (struct rlimit){3, before.rlim_max}; /* fewer than it has */
  assert_int_equal(prlimit(f.child, RLIMIT_NOFILE, &few, NULL), 0);
  int fd = connect_to(&f);
  put(fd, ping, sizeof ping - 1);
  usleep(300000); /* the listener was asked, and no connection can tell when to ask again */
  assert_int_equal(recv(fd, f.reply, 1, MSG_DONTWAIT), -1);
  few.rlim_cur = 32;
  assert_int_equal(prlimit(f.child, RLIMIT_NOFILE, &few, NULL), 0);
  assert_int_equal(get(&f, fd), 200);
  for (int i = 0; i < 60; i++) fds[i] = connect_to(&f);
  put(fds[59], ping, sizeof ping - 1);
  for (int i = 0; i < 59; i++) close(fds[i]);
  assert_int_equal(get(&f, fds[59]), 200);
  close(fds[59]);
  close(fd);
  assert_int_equal(end(&f), 0);
}

/* What was asked before SIGTERM is answered; idle connections are closed; the exit status is 0. */
static void drains(void **state) {
  fixture f = *(fixture *)*state;
  char text[2048];
  start(&f, "--drain", "20");
  const int fd = connect_to(&f), idle = connect_to(&f);
  const size_t count = binary_request(text, 0);
  assert_int_equal(ask_path(&f, "GET", "/ping", ""), 200);
  put(fd, text, count - 1);
  usleep(50000); /* it is read */
  kill(f.child, SIGTERM);
  assert_int_equal(recv(idle, f.reply, 1, 0), 0);
  put(fd, text + count - 1, 1);
  assert_int_equal(get(&f, fd), 200);
  assert_non_null(strstr(f.reply, "Connection: close"));
  int status;
  assert_int_equal(waitpid(f.child, &status, 0), f.child);
  assert_int_equal(status, 0);
  close(fd);
  close(idle);
}

/* HEAD is GET without the body; what another method would be answered says which the route has. */
static void methods(void **state) {
  fixture *f = *state;
  static const char two[] =
      "HEAD /ping HTTP/1.1\r\nHost: a\r\n\r\nGET /v2/health/live HTTP/1.1\r\nHost: a\r\n"
      "Connection: close\r\n\r\n";
  const int fd = connect_to(f);
  put(fd, two, sizeof two - 1);
  const ssize_t count = recv(fd, f->reply, sizeof f->reply - 1, MSG_WAITALL);
  assert_true(count > 0);
  f->reply[count] = 0;
  const char *second = strstr(f->reply, "\r\n\r\n");
  assert_memory_equal(f->reply, "HTTP/1.1 200 OK\r\n", 17);
  assert_null(strstr(f->reply, "Content-Length: 0"));
  assert_non_null(second);
  assert_memory_equal(second + 4, "HTTP/1.1 200 OK\r\n", 17);
  close(fd);
  assert_int_equal(ask_path(f, "DELETE", "/predictions/add", ""), 405);
  assert_non_null(strstr(f->reply, "\r\nAllow: POST, PUT, OPTIONS\r\n"));
}

/* Who is refused while it still sends reads why, and no reset. */
static void refused_while_sending(void **state) {
  fixture *f = *state;
  static const char head[] = "POST /ping HTTP/1.1\r\nHost: a\r\nContent-Length: 16777216\r\n\r\n";
  static const char part[65536];
  const int fd = connect_to(f);
  put(fd, head, sizeof head - 1);
  for (int i = 0; i < 256 && send(fd, part, sizeof part, MSG_NOSIGNAL) > 0; i++) continue;
  assert_int_equal(get(f, fd), 413);
  close(fd);
}

/* A request that comes byte by byte is told that it takes too long, be it in its head or in its body. */
static void slow(void **state) {
  fixture f = *(fixture *)*state;
  static const char head[] = "GET /ping HTTP/1.1\r\nHost: a\r\nX: ";
  static const char body[] = "POST /ping HTTP/1.1\r\nHost: a\r\nContent-Length: 4000\r\n\r\n";
  static const char *const begins[] = {head, body};
  start(&f, "--transfer-timeout", "1");
  for (int i = 0; i < 2; i++) {
    const int fd = connect_to(&f);
    char seen;
    put(fd, begins[i], strlen(begins[i]));
    for (int sent = 0; sent < 200 && recv(fd, &seen, 1, MSG_PEEK | MSG_DONTWAIT) < 0; sent++) {
      put(fd, "a", 1);
      usleep(50000);
    }
    assert_int_equal(get(&f, fd), 408);
    assert_non_null(strstr(f.reply, "Connection: close"));
    assert_int_equal(ask_path(&f, "GET", "/ping", ""), 200);
    close(fd);
  }
  assert_int_equal(end(&f), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(routes),
                                     cmocka_unit_test(rows_of_json),
                                     cmocka_unit_test(binary),
                                     cmocka_unit_test(ways_to_send),
                                     cmocka_unit_test(archives),
                                     cmocka_unit_test(metrics),
                                     cmocka_unit_test(gauges),
                                     cmocka_unit_test(packed),
                                     cmocka_unit_test(limits),
                                     cmocka_unit_test(budget),
                                     cmocka_unit_test(closed_calls),
                                     cmocka_unit_test(many),
                                     cmocka_unit_test(drains),
                                     cmocka_unit_test(descriptors),
                                     cmocka_unit_test(slow),
                                     cmocka_unit_test(methods),
                                     cmocka_unit_test(refused_while_sending)};
  return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
