/* The HTTP parser: what is a request, what is refused and how, cut into any parts. */
#include "test.h"

#include <stdio.h>

#include "http.h"

static int32_t read_all(const char *text, http_head *head) {
  http_scan scan = {0};
  return http_read_head(text, strlen(text), &scan, head);
}

static void requests(void **state) {
  static const char text[] = "\r\nPOST /a%20b?c HTTP/1.1\r\nHost: x\r\nContent-Length:  7 \r\nX-Y:\t z z\t\r\n\r\n";
  http_head head;
  (void)state;
  assert_int_equal(read_all(text, &head), sizeof text - 1);
  assert_true(base_str_is(head.method, "POST") && base_str_is(head.target, "/a%20b?c"));
  assert_true(head.keep_alive && head.has_length && !head.chunked && head.length == 7);
  assert_true(base_str_is(http_find(&head, "x-y"), "z z"));
  assert_null(http_find(&head, "x-z").at);
  assert_true(read_all("GET http://h:1/p HTTP/1.0\r\nConnection: x, Keep-Alive\r\n\r\n", &head) > 0);
  assert_true(base_str_is(head.target, "/p") && head.keep_alive && head.minor == 0);
  assert_true(read_all("GET HTTPS://[::1]:8/p?q=/r HTTP/1.1\r\nHost: [::1]:8\r\n\r\n", &head) > 0);
  assert_true(base_str_is(head.target, "/p?q=/r"));
  assert_true(read_all("GET / HTTP/1.0\r\n\r\n", &head) > 0 && !head.keep_alive);
  assert_true(read_all("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", &head) > 0 && !head.keep_alive);
  assert_true(read_all("POST / HTTP/1.1\r\nHost:\r\nTransfer-Encoding: Chunked\r\n\r\n", &head) > 0 && head.chunked);
}

static void refusals(void **state) {
  static const struct {
    const char *text;
    int32_t status;
  } rows[] = {
      {"GET / HTTP/1.1\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n\r\n", 400}, /* no Host */
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},
      {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400},
      {"GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"G@T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
      {"GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505},
      {"GET / HTTP/1.x\r\nHost: a\r\n\r\n", 400},
      {"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET http://h?q=/models HTTP/1.1\r\nHost: a\r\n\r\n", 400}, /* whose path is empty */
      {"GET http:///models HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET http://:80/models HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET http://me@h/models HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a^b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nnothing\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 01\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501},
      {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nExpect: more\r\n\r\n", 417},
  };
  http_head head;
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (read_all(rows[i].text, &head) != -rows[i].status) fail_msg("%s: not %d", rows[i].text, rows[i].status);
}

static void limits(void **state) {
  static char text[HTTP_HEAD_BYTES + 2048];
  http_head head;
  http_scan scan = {0};
  (void)state;
  memset(text, 'a', sizeof text);
  memcpy(text, "GET /", 5);
  assert_int_equal(http_read_head(text, sizeof text, &scan, &head), -414);
  size_t at = (size_t)sprintf(text, "GET / HTTP/1.1\r\nHost: a\r\n");
  for (int i = 0; i < HTTP_FIELDS; i++) at += (size_t)sprintf(text + at, "a: b\r\n");
  sprintf(text + at, "\r\n");
  assert_int_equal(read_all(text, &head), -431);
  at = (size_t)sprintf(text, "GET / HTTP/1.1\r\n");
  while (at < HTTP_HEAD_BYTES + 32) at += (size_t)sprintf(text + at, "a: %0900d\r\n", 1);
  scan = (http_scan){0};
  assert_int_equal(http_read_head(text, HTTP_HEAD_BYTES + 1, &scan, &head), -431);
}

static void parts(void **state) {
  static const char text[] = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n";
  http_head head;
  http_scan scan = {0};
  (void)state;
  for (size_t count = 0; count < sizeof text - 1; count++)
    assert_int_equal(http_read_head(text, count, &scan, &head), 0);
  assert_int_equal(http_read_head(text, sizeof text - 1, &scan, &head), sizeof text - 1);
}

/* What a body in chunks holds, given `step` bytes at a time; NULL: refused. */
static const char *body(const char *text, size_t step, char *to) {
  http_chunks c = {0};
  size_t size = strlen(text), at = 0;
  *to = 0;
  while (at < size) {
    size_t used, count = step < size - at ? step : size - at;
    base_str part = {0};
    const http_step got = http_read_chunks(&c, text + at, count, &used, &part);
    at += used;
    if (got == HTTP_BAD) return NULL;
    if (got == HTTP_DATA) strncat(to, part.at, part.length);
    if (got == HTTP_END) return at == size ? to : NULL;
  }
  return NULL;
}

static void chunks(void **state) {
  char to[256];
  (void)state;
  for (size_t step = 1; step < 60; step++) {
    assert_null(body("3\r\nabc\r\n00a ;x=y\r\n", step, to)); /* a blank behind a size */
    const char *got = body("3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nT: u\r\n\r\n", step, to);
    assert_non_null(got);
    assert_string_equal(got, "abc0123456789");
    assert_null(body("3\r\nabcd\r\n0\r\n\r\n", step, to));
    assert_null(body("3\nabc\r\n0\r\n\r\n", step, to));
    assert_null(body("-3\r\nabc\r\n0\r\n\r\n", step, to));
    assert_null(body("1000000000000000\r\nabc", step, to));
    assert_null(body("\r\n", step, to));
    assert_null(body("1;a\177\r\nx\r\n0\r\n\r\n", step, to));
    assert_null(body("0\r\nGET / HTTP/1.1\r\n\r\n", step, to)); /* no trailer */
    assert_null(body("0\r\nT\r\n\r\n", step, to));
    assert_null(body("0\r\nT: \001\r\n\r\n", step, to));
  }
}

static void escapes(void **state) {
  char text[] = "a%20b%2Fc", bad[] = "a%2", nul[] = "%00";
  size_t length = strlen(text);
  (void)state;
  assert_true(http_unescape(text, &length) && length == 5 && memcmp(text, "a b/c", 5) == 0);
  length = strlen(bad);
  assert_false(http_unescape(bad, &length));
  length = strlen(nul);
  assert_false(http_unescape(nul, &length));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(requests), cmocka_unit_test(refusals), cmocka_unit_test(limits),
                                     cmocka_unit_test(parts),    cmocka_unit_test(chunks),   cmocka_unit_test(escapes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
