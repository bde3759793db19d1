/* Requests whose clients have gone, or whose time is up: they end in the queue, within a run, and within a batch. The
 * model runs without an end where a number is above 1, so that nothing else could end it. */
#include "serve/client.h"

static const char endless[] =
    "tdir 1\n"
    "input %0 \"x\": f32[n, 2]\n"
    "const %1: bool[] = {1}\n"
    "const %2: f32[] = {1}\n"
    "%3 = aten::gt(%0, %2): bool[n, 2]\n"
    "%4 = aten::any(%3) {dim = [0, 1], keepdim = false}: bool[]\n"
    "%5 = prim::Loop(-, %1, %0): f32[n, 2] {\n"
    "  block(%6: i64[], %7: f32[n, 2]) {\n"
    "    %8 = aten::cos(%7): f32[n, 2]\n"
    "    yield %4, %8\n"
    "  }\n"
    "}\n"
    "output \"y\" %5\n";

static void start(fixture *f, const char *cpus, const char *timeout, const char *batch) {
  start_server(f,
               (const char *const[]){"serve", "--port", "0", "--workers", cpus, "--queue", "2", "--timeout", timeout,
                                     "--batch", batch, "m=m.tdir", "other=m.tdir", NULL},
               &f->port, 1);
}

static int open_fixture(void **state) {
  fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  open_folder(f);
  write_text(f, "m.tdir", endless);
  *state = f;
  return 0;
}

static int close_fixture(void **state) {
  fixture *f = *state;
  remove_folder(f);
  free(f);
  return 0;
}

/* A connection on which a request to a model is under way; x: 2 has no end. */
static int send_to(const fixture *f, const char *model, int x, const char *parameters) {
  char text[1024], body[512];
  const int length = snprintf(
      body, sizeof body,
      "{\"parameters\":{%s},\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,2],\"data\":[0,%d]}]}",
      parameters, x);
  const int count =
      snprintf(text, sizeof text, "POST /v2/models/%s/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", model,
               length, body);
  const int fd = connect_to(f);
  put(fd, text, (size_t)count);
  return fd;
}

static int send_request(const fixture *f, int x, const char *parameters) { return send_to(f, "m", x, parameters); }

static void expect_reply(fixture *f, int fd, int status, const char *says) {
  const int got = get(f, fd);
  if (got != status || !strstr(f->reply, says)) fail_msg("%d instead of %d: %s", got, status, f->reply);
  close(fd);
}

/* The figure of a model: treadle_queue_depth, treadle_workers. */
static int figure(fixture *f, const char *name, const char *model) {
  char line[64];
  assert_int_equal(ask_path(f, "GET", "/metrics", ""), 200);
  snprintf(line, sizeof line, "\n%s{model_name=\"%s\"", name, model);
  const char *at = strstr(f->reply, line);
  assert_non_null(at);
  return atoi(strchr(at, '}') + 1);
}

/* Until the metrics say so many requests wait: then those that were sent before are where they are to be. */
static void wait_depth(fixture *f, const char *model, int depth) {
  for (int i = 0; i < 1000; i++, usleep(10000))
    if (figure(f, "treadle_queue_depth", model) == depth) return;
  fail_msg("never %d in the queue", depth);
}

static void deadlines(void **state) {
  fixture *f = *state;
  start(f, "1", "1", "1");
  expect_reply(f, send_request(f, 2, ""), 504, "time is up");
  const int running = send_request(f, 2, "");
  expect_reply(f, send_request(f, 2, "\"timeout\":1000"), 504, "too long"); /* microseconds */
  expect_reply(f, running, 504, "time is up");
  expect_reply(f, send_request(f, 1, ""), 200, "\"y\"");
  assert_int_equal(end(f), 0);
}

/* A run that nobody waits for ends, one that is in the queue leaves its place, and half a close is as good. */
static void clients_that_go(void **state) {
  fixture *f = *state;
  start(f, "1", "3600", "1");
  const int running = send_request(f, 2, "");
  wait_depth(f, "m", 0);
  const int second = send_request(f, 2, ""), third = send_request(f, 1, "");
  wait_depth(f, "m", 2);
  expect_reply(f, send_request(f, 1, ""), 503, "full");
  assert_int_equal(shutdown(second, SHUT_WR), 0);
  expect_reply(f, second, 499, "client has gone");
  const int fourth = send_request(f, 1, "");
  wait_depth(f, "m", 2);
  close(running);
  expect_reply(f, third, 200, "\"y\"");
  expect_reply(f, fourth, 200, "\"y\"");
  assert_int_equal(end(f), 0);
}

/* A batch ends when the last of its clients has gone, not before. */
static void batches(void **state) {
  fixture *f = *state;
  start(f, "1", "3600", "2");
  const int first = send_request(f, 2, "");
  wait_depth(f, "m", 0);
  const int second = send_request(f, 2, ""), third = send_request(f, 2, "");
  wait_depth(f, "m", 2);
  close(first); /* the two run as one, or one after the other */
  wait_depth(f, "m", 0);
  const int last = send_request(f, 1, "");
  close(second);
  close(third);
  expect_reply(f, last, 200, "\"y\"");
  assert_int_equal(end(f), 0);
}

/* As long as a CPU has no request, a new one is computed beside the others, however few workers there are. */
static void cpus_of_one_worker(void **state) {
  fixture *f = *state;
  start(f, "3", "3600", "1");
  assert_int_equal(ask_path(f, "PUT", "/models/m?min_worker=1&synchronous=true", ""), 200);
  assert_int_equal(figure(f, "treadle_workers", "m"), 1);
  const int first = send_request(f, 2, "");
  expect_reply(f, send_request(f, 1, ""), 200, "\"y\"");
  const int second = send_request(f, 2, "");
  expect_reply(f, send_request(f, 1, ""), 200, "\"y\"");
  const int third = send_request(f, 2, "");
  wait_depth(f, "m", 0);
  const int fourth = send_request(f, 1, "");
  wait_depth(f, "m", 1);
  close(second);
  expect_reply(f, fourth, 200, "\"y\"");
  close(first);
  close(third);
  assert_int_equal(end(f), 0);
}

/* Of two versions with as many workers the one that computes less has the next CPU, though it has not waited longest.
 */
static void workers_weigh(void **state) {
  fixture *f = *state;
  start(f, "2", "3600", "1");
  const int first = send_request(f, 2, ""), second = send_request(f, 2, "");
  wait_depth(f, "m", 0);
  const int third = send_request(f, 1, "");
  wait_depth(f, "m", 1);
  const int other = send_to(f, "other", 2, "");
  wait_depth(f, "other", 1);
  close(first);
  wait_depth(f, "other", 0);
  assert_int_equal(figure(f, "treadle_queue_depth", "m"), 1);
  close(second);
  expect_reply(f, third, 200, "\"y\"");
  close(other);
  assert_int_equal(end(f), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(deadlines), cmocka_unit_test(clients_that_go),
                                     cmocka_unit_test(batches), cmocka_unit_test(cpus_of_one_worker),
                                     cmocka_unit_test(workers_weigh)};
  return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
