/* The access log: what a line says, whatever a client sends; names of requests; files that are moved away, pipes that
 * nobody reads, and a disk that is full. */
/* ctest: threads */
#include "test.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server.h"

static const td_allocator *const libc = &base_libc_allocator;

static void expect_quoted(const char *bytes, size_t count, const char *wanted) {
  base_text text = {.allocator = libc};
  serve_quote(&text, (base_str){bytes, count});
  assert_string_equal(text.at, wanted);
  base_text_free(&text);
}
#define QUOTED(bytes, wanted) expect_quoted(bytes, sizeof(bytes) - 1, wanted)

static void escapes(void **state) {
  (void)state;
  QUOTED("", "\"\"");
  expect_quoted(NULL, 0, "\"\""); /* the path of a request that has none */
  QUOTED("/a b", "\"/a b\"");
  QUOTED("\"\\", "\"\\\"\\\\\"");
  QUOTED("\0\n\x1b\x7f", "\"\\u0000\\u000a\\u001b\\u007f\"");
  QUOTED("\xc2\x80\xc2\x9f\xc2\xa0", "\"\\u0080\\u009f\xc2\xa0\"");
  QUOTED("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf",
         "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf\"");
  QUOTED("\x80", "\"\\ufffd\"");
  QUOTED("\xc0\xaf", "\"\\ufffd\\ufffd\"");                       /* longer than it needs to be */
  QUOTED("\xe0\x9f\xbf", "\"\\ufffd\\ufffd\\ufffd\"");            /* the same */
  QUOTED("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"");            /* half of a pair of UTF-16 */
  QUOTED("\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""); /* behind the last character */
  QUOTED("\xe2\x82", "\"\\ufffd\\ufffd\"");                       /* cut */
  QUOTED("\xe2\x82\"", "\"\\ufffd\\ufffd\\\"\"");
}

static void lines(void **state) {
  (void)state;
  serve_version v = {.name = "resnet\"18", .number = "1.0"};
  serve_job job = {.client = "127.0.0.1:5000",
                   .method = BASE_STR("POST"),
                   .path = BASE_STR("/v2/\x01\xff"),
                   .status = 404,
                   .received = 17,
                   .id = "abc"};
  const struct timespec when = {.tv_sec = 951782399, .tv_nsec = 7999999}; /* the last second before a leap day */
  base_text text = {.allocator = libc};
  char wanted[512], rest[64];
  unsigned long long duration;
  job.begun_ns = sys_clock_ns() - 5000000;
  serve_print_request(&text, &job, &when, 29);
  const char *at = strstr(text.at, "\"duration_us\":");
  assert_non_null(at);
  assert_int_equal(sscanf(at, "\"duration_us\":%llu,%63s", &duration, rest), 2);
  assert_in_range(duration, 5000, 60000000);
  assert_string_equal(rest, "\"request_id\":\"abc\"}");
  snprintf(wanted, sizeof wanted, "%.*s", (int)(at - text.at), text.at);
  assert_string_equal(wanted,
                      "{\"time\":\"2000-02-28T23:59:59.007Z\",\"client\":\"127.0.0.1:5000\",\"method\":\"POST\","
                      "\"path\":\"/v2/\\u0001\\ufffd\",\"status\":404,\"bytes_in\":17,\"bytes_out\":29,");
  job.version = &v;
  job.is_grpc = true;
  job.grpc_status = 5;
  job.queued_ns = 1500;
  job.computed_ns = 2999999;
  text.length = 0;
  serve_print_request(&text, &job, &when, 0);
  assert_non_null(strstr(text.at, ",\"status\":404,\"grpc_status\":5,\"model\":\"resnet\\\"18\",\"version\":\"1.0\","));
  assert_non_null(strstr(text.at, ",\"queue_us\":1,\"inference_us\":2999,\"request_id\":"));
  base_text_free(&text);
}

static const char *named(serve_server *server, const char *id, const char *parent) {
  static serve_job job;
  job = (serve_job){.server = server};
  serve_name_request(&job, base_str_of(id), base_str_of(parent));
  return job.id;
}

static void names(void **state) {
  (void)state;
  static const char parent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  static const char trace[] = "0af7651916cd43dd8448eb211c80319c", own[] = "00000000000000ab0000000000000001";
  static const char *const damaged[] = {
      "",
      "x",
      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
      "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      "00-00000000000000000000000000000000-b7ad6b7169203331-01",
      "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
      "00-0af7651916cd43dd8448eb211c80319cab7ad6b7169203331-01",
      "00-0af7651916cd43dd8448eb211c8031--b7ad6b7169203331-01a",
  };
  char longest[130];
  serve_server server = {.started_ns = 0xab};
  memset(longest, 'a', 129);
  longest[128] = 0;
  assert_string_equal(named(&server, "mine", parent), "mine");
  assert_string_equal(named(&server, longest, ""), longest);
  assert_string_equal(named(&server, "", parent), trace);
  assert_string_equal(named(&server, "a b", parent), trace); /* an id of the reply's header field, too */
  assert_string_equal(named(&server, "a\r\nb", parent), trace);
  assert_string_equal(named(&server, "\xc3\xa9", parent), trace);
  assert_string_equal(named(&server, NULL, NULL), own);
  longest[128] = 'a';
  longest[129] = 0;
  for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
    server.requests = 0;
    assert_string_equal(named(&server, longest, damaged[i]), own);
  }
}

/* ---- the thread ---- */

static size_t count_lines(const char *path, char *last, size_t room) {
  char line[4096];
  size_t count = 0;
  FILE *file = fopen(path, "r");
  while (file && fgets(line, sizeof line, file)) {
    snprintf(last, room, "%.*s", (int)strcspn(line, ","), line);
    assert_int_equal(line[strlen(line) - 1], '\n');
    assert_memory_equal(line + strlen(line) - 3, "\"}", 2);
    count++;
  }
  if (file) fclose(file);
  return count;
}

static void put_requests(serve_log *log, size_t count) {
  serve_server server = {0};
  serve_job job = {.server = &server, .client = "c", .method = BASE_STR("GET"), .path = BASE_STR("/"), .id = "i"};
  for (size_t i = 0; i < count; i++) serve_log_request(log, &job, 0);
}

static void a_file(void **state) {
  (void)state;
  char folder[] = "/tmp/treadle-log-XXXXXX", path[64], moved[64], last[64];
  td_error err = {.offset = -1};
  serve_log *log;
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/log", folder);
  snprintf(moved, sizeof moved, "%s/log.1", folder);
  assert_int_equal(serve_log_open(folder, &log, &err), TD_BAD_ARGUMENT); /* a folder */
  assert_non_null(strstr(err.text, "name a file"));
  assert_int_equal(serve_log_open(path, &log, &err), TD_OK);
  put_requests(log, 100);
  assert_int_equal(rename(path, moved), 0);
  serve_log_reopen(log);
  for (int i = 0; i < 10000 && access(path, F_OK) != 0; i++) usleep(1000);
  put_requests(log, 10);
  serve_log_close(log);
  assert_int_equal(count_lines(moved, last, sizeof last), 100); /* those from before are all there */
  assert_int_equal(count_lines(path, last, sizeof last), 10);
  assert_int_equal(serve_log_open(path, &log, &err), TD_OK); /* goes on behind what is there */
  put_requests(log, 1);
  assert_int_equal(serve_log_lost(log), 0);
  serve_log_close(log);
  assert_int_equal(count_lines(path, last, sizeof last), 11);
  unlink(path);
  unlink(moved);
  rmdir(folder);
}

/* A pipe that is full and that nobody reads: lines beyond the buffers are lost, and counted; nothing waits for it but
 * the end, for a second. */
static void a_stuck_reader(void **state) {
  (void)state;
  enum { LINES = 60000 };
  char folder[] = "/tmp/treadle-log-XXXXXX", path[64];
  td_error err = {.offset = -1};
  serve_log *log;
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/pipe", folder);
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_int_equal(serve_log_open(path, &log, &err), TD_BAD_ARGUMENT); /* nobody has it open: that would wait */
  FILE *reader = fopen(path, "r+");
  assert_non_null(reader);
  assert_int_equal(serve_log_open(path, &log, &err), TD_OK);
  put_requests(log, LINES);
  const uint64_t lost = serve_log_lost(log);
  assert_in_range(lost, LINES / 4, LINES - 1); /* two buffers of 1 MiB, and what the pipe holds, were taken */
  serve_log_close(log);
  fclose(reader);
  unlink(path);
  rmdir(folder);
}

static void a_full_disk(void **state) {
  (void)state;
  td_error err = {.offset = -1};
  serve_log *log;
  assert_int_equal(serve_log_open("/dev/full", &log, &err), TD_OK);
  put_requests(log, 25);
  for (int i = 0; i < 10000 && serve_log_lost(log) != 25; i++) usleep(1000);
  assert_int_equal(serve_log_lost(log), 25);
  serve_log_close(log);
}

static void none(void **state) {
  (void)state;
  put_requests(NULL, 1);
  serve_log_reopen(NULL);
  assert_int_equal(serve_log_lost(NULL), 0);
  serve_log_close(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(escapes), cmocka_unit_test(lines),          cmocka_unit_test(names),
      cmocka_unit_test(a_file),  cmocka_unit_test(a_stuck_reader), cmocka_unit_test(a_full_disk),
      cmocka_unit_test(none)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
