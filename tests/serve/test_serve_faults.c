/* The server when memory and descriptors end: each allocation and system call of a script of requests fails in turn,
 * once, then with all that follow it. A request is answered as is right, or told that it is the server's fault, or its
 * connection closes; none hangs; afterwards all is as before. Then the same over TLS, and for the calls of the server's
 * start.
 *
 * Calls are the server's and its libraries' own; what OpenSSL and libc ask for inside is not refused. The word `all`
 * has every call fail, not a sample. */
/* ctest: slow memory */
#include "serve/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>

#include <nghttp2/nghttp2.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "serve/faults.h"

enum { SAMPLE = 60, STARTS = 40, SANITIZER = 99 };

static bool every_call;
static int wrong; /* answers */

typedef struct faulty {
  fixture f;
  uint16_t ports[5];
  fault_plan *plan;
  int fd;
  SSL_CTX *tls; /* with which inference is asked for; or NULL: without */
} faulty;

enum { INFERENCE, MANAGEMENT, METRICS, GRPC };

static const char rows_graph[] =
    "tdir 1\n"
    "input %0 \"x\": f32[n, 2]\n"
    "%1 = aten::mul(%0, %0): f32[n, 2]\n"
    "output \"y\" %1\n";

/* A sanitizer's finding is told from the server's own bad end. */
static void set_options(const char *name) {
  char text[512];
  const char *old = getenv(name);
  snprintf(text, sizeof text, "%s:exitcode=%d", old ? old : "", SANITIZER);
  setenv(name, text, 1);
}

static void write_config(const faulty *s, const char *name, const char *inference) {
  char text[1024];
  snprintf(text, sizeof text, "%s%s", inference,
           "management_address=http://127.0.0.1:0\nmetrics_address=http://127.0.0.1:0\ngrpc_inference_port=0\n"
           "grpc_management_port=0\nmodel_store=.\ndefault_workers_per_model=1\nenable_model_api=true\n"
           "disable_token_authorization=true\n");
  write_text(&s->f, name, text);
}

static int open_faulty(void **state) {
  faulty *s = calloc(1, sizeof *s);
  char number[16];
  assert_non_null(s);
  open_folder(&s->f);
  strcpy(strrchr(s->f.program, '/') + 1, "treadle-serve-faulty");
  write_text(&s->f, "rows.tdir", rows_graph);
  write_text(&s->f, "net.tdir", graph);
  write_config(s, "config.properties", "inference_address=http://127.0.0.1:0\n");
  write_config(s, "secure.properties",
               "inference_address=https://127.0.0.1:0\ncertificate_file=own.pem\nprivate_key_file=own.pem\n");
  s->fd = memfd_create("faults", 0);
  assert_true(s->fd >= 0 && ftruncate(s->fd, sizeof *s->plan) == 0);
  s->plan = mmap(NULL, sizeof *s->plan, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
  assert_true(s->plan != MAP_FAILED);
  snprintf(number, sizeof number, "%d", s->fd);
  setenv(FAULTS_ENVIRONMENT, number, 1);
  set_options("ASAN_OPTIONS");
  set_options("UBSAN_OPTIONS");
  *state = s;
  return 0;
}

static int close_faulty(void **state) {
  faulty *s = *state;
  munmap(s->plan, sizeof *s->plan);
  close(s->fd);
  remove_folder(&s->f);
  free(s);
  return 0;
}

static void arm(faulty *s, uint32_t kinds, uint64_t at, bool lasts) {
  s->plan->made = 0;
  s->plan->at = at;
  s->plan->lasts = lasts;
  s->plan->kinds = kinds;
}

static void disarm(faulty *s) { s->plan->kinds = 0; }

/* ---- requests ---- */

static ssize_t receive_secure(void *connection, void *to, size_t room) { return SSL_read(connection, to, (int)room); }

/* A request and its reply over TLS: as get. */
static int exchange_securely(faulty *s, int fd, const char *text, int length) {
  SSL *tls = SSL_new(s->tls);
  assert_non_null(tls);
  assert_int_equal(SSL_set_fd(tls, fd), 1);
  const bool is_open = SSL_connect(tls) == 1 && SSL_write(tls, text, length) == length;
  const int status = is_open ? get_by(&s->f, receive_secure, tls) : 0;
  SSL_free(tls);
  return status;
}

/* The status of a reply; 0: the connection was closed. */
static int ask_softly(faulty *s, int port, const char *method, const char *path, const char *body) {
  char text[1024];
  s->f.port = s->ports[port];
  const int length = snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
                              method, path, strlen(body), body);
  const int fd = connect_to(&s->f);
  const bool is_secure = s->tls && port == INFERENCE;
  if (!is_secure) send(fd, text, (size_t)length, MSG_NOSIGNAL);
  errno = 0;
  const int status = is_secure ? exchange_securely(s, fd, text, length) : get(&s->f, fd);
  if (!status && errno == EAGAIN) fail_msg("%s %s hangs (%s failed)", method, path, s->plan->struck);
  close(fd);
  return status;
}

typedef struct frames {
  unsigned char bytes[4096];
  size_t count;
} frames;

static void add_frame(frames *to, int type, int flags, int stream, const void *bytes, size_t count) {
  const unsigned char head[] = {
      0, (unsigned char)(count >> 8), (unsigned char)count, (unsigned char)type, (unsigned char)flags, 0, 0,
      0, (unsigned char)stream};
  memcpy(to->bytes + to->count, head, sizeof head);
  memcpy(to->bytes + to->count + sizeof head, bytes, count);
  to->count += sizeof head + count;
}

/* A header field as it is, which no table keeps. */
static size_t put_field(unsigned char *to, const char *name, const char *value) {
  const size_t names = strlen(name), values = strlen(value);
  to[0] = 0;
  to[1] = (unsigned char)names;
  memcpy(to + 2, name, names);
  to[2 + names] = (unsigned char)values;
  memcpy(to + 3 + names, value, values);
  return 3 + names + values;
}

/* ModelInfer of x and y, both raw. */
static void write_call(frames *to) {
  static const char message[] =
      "\x0a\x03"
      "add"
      "\x2a\x0c\x0a\x01x\x12\x04"
      "FP32"
      "\x1a\x01\x03"
      "\x2a\x0c\x0a\x01y\x12\x04"
      "FP32"
      "\x1a\x01\x03";
  static const float values[6] = {1, 2, 3, 0.5f, -2, 8};
  unsigned char fields[256], body[256] = {0};
  size_t count = 0, at = 5;
  static const char *const pairs[][2] = {{":method", "POST"},
                                         {":scheme", "http"},
                                         {":path", "/inference.GRPCInferenceService/ModelInfer"},
                                         {":authority", "localhost"},
                                         {"content-type", "application/grpc"},
                                         {"te", "trailers"}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    count += put_field(fields + count, pairs[i][0], pairs[i][1]);
  memcpy(body + at, message, sizeof message - 1);
  at += sizeof message - 1;
  for (int i = 0; i < 2; i++) {
    memcpy(body + at, "\x3a\x0c", 2);
    memcpy(body + at + 2, values + 3 * i, 12);
    at += 14;
  }
  body[4] = (unsigned char)(at - 5);
  to->count = 0;
  memcpy(to->bytes, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
  to->count = 24;
  add_frame(to, NGHTTP2_SETTINGS, 0, 0, "", 0);
  add_frame(to, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, fields, count);
  add_frame(to, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, body, at);
}

static bool receive_whole(faulty *s, int fd, unsigned char *to, size_t count) {
  for (size_t got = 0; got < count;) {
    errno = 0;
    const ssize_t more = recv(fd, to + got, count - got, 0);
    if (more < 0 && errno == EAGAIN) fail_msg("a call hangs (%s failed)", s->plan->struck);
    if (more <= 0) return false;
    got += (size_t)more;
  }
  return true;
}

/* The value of `name` among the fields of a block, as a number; else `otherwise`. */
static int read_field(nghttp2_hd_inflater *inflater, const unsigned char *at, size_t left, const char *name,
                      int otherwise) {
  int flags = 0;
  while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
    nghttp2_nv field;
    const ssize_t used = nghttp2_hd_inflate_hd2(inflater, &field, &flags, at, left, 1);
    if (used < 0) break;
    at += used;
    left -= (size_t)used;
    if ((flags & NGHTTP2_HD_INFLATE_EMIT) && field.namelen == strlen(name) &&
        memcmp(field.name, name, field.namelen) == 0)
      otherwise = atoi((const char *)field.value);
    if (!(flags & NGHTTP2_HD_INFLATE_EMIT) && !left) break;
  }
  nghttp2_hd_inflate_end_headers(inflater);
  return otherwise;
}

/* The status of a call; -1: the stream was reset, or the connection was closed. */
static int call_softly(faulty *s, bool *is_right) {
  static const float sums[3] = {1.5f, 0, 11};
  frames request;
  unsigned char head[9], body[16384];
  int status = -1;
  bool ends = false;
  nghttp2_hd_inflater *inflater;
  s->f.port = s->ports[GRPC];
  *is_right = false;
  write_call(&request);
  assert_int_equal(nghttp2_hd_inflate_new(&inflater), 0);
  const int fd = connect_to(&s->f);
  send(fd, request.bytes, request.count, MSG_NOSIGNAL);
  while (!ends && receive_whole(s, fd, head, sizeof head)) {
    const size_t count = (size_t)head[1] << 8 | head[2];
    if (!receive_whole(s, fd, body, count)) break;
    if (head[3] == NGHTTP2_DATA) *is_right = *is_right || memmem(body, count, sums, sizeof sums) != NULL;
    if (head[3] == NGHTTP2_HEADERS) status = read_field(inflater, body, count, "grpc-status", status);
    ends = head[3] == NGHTTP2_RST_STREAM || head[3] == NGHTTP2_GOAWAY || (head[3] <= 1 && (head[4] & 1));
  }
  close(fd);
  nghttp2_hd_inflate_del(inflater);
  return status;
}

/* ---- the script ---- */

#define VALUES "\"datatype\":\"FP32\",\"shape\":[3],\"data\":"
#define SUM "{\"inputs\":[{\"name\":\"x\"," VALUES "[1,2.5,-3]},{\"name\":\"y\"," VALUES "[0.1,2,1000]}]}"
#define ROW "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,2],\"data\":[3,4]}]}"

typedef struct request {
  int port;
  const char *method, *path, *body, *says;
  bool of_more; /* of the model that is registered on the way */
} request;

static const request script[] = {
    {INFERENCE, "POST", "/v2/models/add/infer", SUM, "[1.1,4.5,997.0]", false},
    {MANAGEMENT, "POST", "/models?url=rows.tdir&model_name=more&initial_workers=1&synchronous=true", "", "registered",
     false},
    {INFERENCE, "POST", "/v2/models/more/infer", ROW, "[9.0,16.0]", true},
    {MANAGEMENT, "GET", "/models/more", "", "\"modelName\": \"more\"", true},
    {MANAGEMENT, "PUT", "/models/more?min_worker=2&synchronous=true", "", "scaled to 2", true},
    {MANAGEMENT, "DELETE", "/models/more", "", "unregistered", true},
    {METRICS, "GET", "/metrics", "", "ts_inference_requests_total", false},
};
enum { REQUESTS = sizeof script / sizeof *script };

/* What tells that it is the server that lacks something. */
static bool is_honest(int status) {
  return status == 0 || status == 429 || status == 500 || status == 503 || status == 507;
}

static void tell(const faulty *s, const char *what, int status) {
  wrong++;
  print_error("%s: %d %s\n after call %d of %d (%s) failed%s\n", what, status, status > 0 ? s->f.reply : "",
              (int)s->plan->at, (int)s->plan->made, s->plan->struck, s->plan->kinds ? "" : ", which is over");
}

/* The script, whose calls may fail: no answer is wrong, and none blames the client. */
static void run_faulty(faulty *s) {
  bool is_there = false;
  for (int i = 0; i < REQUESTS; i++) {
    const request *r = &script[i];
    const int status = ask_softly(s, r->port, r->method, r->path, r->body);
    const bool unknown = r->of_more && !is_there && (status == 404 || status == 503);
    if (status == 200 ? !strstr(s->f.reply, r->says) : !is_honest(status) && !unknown) tell(s, r->path, status);
    if (i == 1) is_there = status == 200;
  }
  bool is_right;
  const int status = call_softly(s, &is_right);
  if (status == 0 ? !is_right : status > 0 && status != 8 && status != 13 && status != 14) tell(s, "gRPC", status);
}

static void run_sound(faulty *s) {
  bool is_right;
  for (int i = 0; i < REQUESTS; i++) {
    const request *r = &script[i];
    const int status = ask_softly(s, r->port, r->method, r->path, r->body);
    if (status != 200 || !strstr(s->f.reply, r->says)) tell(s, r->path, status);
  }
  const int status = call_softly(s, &is_right);
  if (status != 0 || !is_right) tell(s, "gRPC", status);
}

static void start_faulty(faulty *s, const char *config) {
  disarm(s);
  start_server(&s->f, (const char *const[]){"--ts-config", config, "add=net.tdir", NULL}, s->ports, 5);
  run_sound(s);
}

/* How many calls of a kind the script makes: the most of some runs, as threads are not always as far. */
static uint64_t count_calls(faulty *s, uint32_t kind) {
  uint64_t most = 0;
  for (int i = 0; i < 3; i++) {
    arm(s, kind, 0, false);
    run_sound(s);
    disarm(s);
    if (s->plan->made > most) most = s->plan->made;
  }
  return most;
}

static void fail_calls(faulty *s, uint32_t kind, const char *name, bool lasts) {
  const uint64_t calls = count_calls(s, kind), step = every_call || calls <= SAMPLE ? 1 : calls / SAMPLE;
  uint64_t tries = 0;
  for (uint64_t at = 1; at <= calls; at += step, tries++) {
    arm(s, kind, at, lasts);
    run_faulty(s);
    disarm(s);
    ask_softly(s, MANAGEMENT, "DELETE", "/models/more", ""); /* where that had not been reached */
    run_sound(s);
  }
  print_message("%s: %d of %d calls failed in turn%s\n", name, (int)tries, (int)calls,
                lasts ? ", with all behind them" : "");
}

static const struct {
  uint32_t kind;
  const char *name;
} kinds[] = {{FAULT_MEMORY, "memory"},
             {FAULT_DESCRIPTORS, "descriptors"},
             {FAULT_TRANSFERS, "transfers"},
             {FAULT_HTTP2, "http2"}};

static void calls_of_requests_fail(void **state) {
  faulty *s = *state;
  start_faulty(s, "config.properties");
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    for (int lasts = 0; lasts < 2; lasts++) fail_calls(s, kinds[i].kind, kinds[i].name, lasts);
  fail_calls(s, FAULT_ACCEPT, "accept", false); /* while all fail a client waits */
  assert_int_equal(wrong, 0);
  assert_int_equal(end(&s->f), 0); /* nothing is lost: the leak checker ends with it */
}

/* ---- TLS ---- */

/* A key, and a certificate that it signs itself, in own.pem. */
static void write_certificate(const faulty *s) {
  char path[128];
  EVP_PKEY *key = EVP_EC_gen("P-256");
  X509 *own = X509_new();
  snprintf(path, sizeof path, "%s/own.pem", s->f.folder);
  FILE *file = fopen(path, "wb");
  assert_true(key && own && file);
  X509_gmtime_adj(X509_getm_notBefore(own), 0);
  X509_gmtime_adj(X509_getm_notAfter(own), 86400); /* seconds */
  X509_set_pubkey(own, key);
  assert_true(X509_sign(own, key, EVP_sha256()) > 0);
  assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
  assert_int_equal(PEM_write_X509(file, own), 1);
  assert_int_equal(fclose(file), 0);
  X509_free(own);
  EVP_PKEY_free(key);
}

static void calls_of_tls_fail(void **state) {
  faulty *s = *state;
  signal(SIGPIPE, SIG_IGN); /* OpenSSL writes to closed connections, too */
  s->tls = SSL_CTX_new(TLS_client_method());
  assert_non_null(s->tls);
  write_certificate(s);
  start_faulty(s, "secure.properties");
  for (int lasts = 0; lasts < 2; lasts++) {
    fail_calls(s, FAULT_TLS, "TLS", lasts);
    fail_calls(s, FAULT_MEMORY, "memory, over TLS", lasts);
  }
  assert_int_equal(wrong, 0);
  assert_int_equal(end(&s->f), 0);
  SSL_CTX_free(s->tls);
  s->tls = NULL;
  signal(SIGPIPE, SIG_DFL);
}

/* ---- the start ---- */

/* Starts the server: its first line, or an empty one where it has ended. */
static void try_start(faulty *s, char *line, int room) {
  int pipes[2];
  line[0] = 0;
  assert_int_equal(pipe(pipes), 0);
  s->f.child = fork();
  if (s->f.child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(pipes[1], 1);
    close(pipes[0]);
    close(pipes[1]);
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, 2);
    if (chdir(s->f.folder) != 0) _exit(127);
    execl(s->f.program, "treadle-serve", "--port", "0", "--io-threads", "3", "add=net.tdir", NULL);
    _exit(127);
  }
  close(pipes[1]);
  FILE *out = fdopen(pipes[0], "r");
  if (!fgets(line, room, out)) line[0] = 0;
  fclose(out);
}

/* It says that it cannot start, or it serves. */
static void calls_of_the_start_fail(void **state) {
  faulty *s = *state;
  char line[256];
  arm(s, FAULT_ALL, 0, false);
  try_start(s, line, sizeof line);
  assert_int_equal(sscanf(line, "listening on http://127.0.0.1:%hu", &s->ports[INFERENCE]), 1);
  const uint64_t calls = s->plan->made, step = every_call || calls <= STARTS ? 1 : calls / STARTS;
  assert_int_equal(end(&s->f), 0);
  uint64_t tries = 0, served = 0;
  for (uint64_t at = 1; at <= calls; at += step, tries++) {
    int status;
    arm(s, FAULT_ALL, at, false);
    try_start(s, line, sizeof line);
    disarm(s);
    if (sscanf(line, "listening on http://127.0.0.1:%hu", &s->ports[INFERENCE]) == 1) {
      const request *r = &script[0];
      status = ask_softly(s, r->port, r->method, r->path, r->body);
      if (status != 200 || !strstr(s->f.reply, r->says))
        fail_msg("call %d (%s) of the start failed: %d %s", (int)at, s->plan->struck, status, s->f.reply);
      status = end(&s->f);
      served++;
      if (status == 0) continue;
    } else assert_int_equal(waitpid(s->f.child, &status, 0), s->f.child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) == SANITIZER || WEXITSTATUS(status) == 0)
      fail_msg("call %d (%s) of the start failed: it ends with %#x", (int)at, s->plan->struck, status);
  }
  print_message("start: %d of %d calls failed in turn; %d times it served\n", (int)tries, (int)calls, (int)served);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(calls_of_requests_fail), cmocka_unit_test(calls_of_tls_fail),
                                     cmocka_unit_test(calls_of_the_start_fail)};
  every_call = argc > 1 && strcmp(argv[1], "all") == 0;
  return cmocka_run_group_tests(tests, open_faulty, close_faulty);
}
