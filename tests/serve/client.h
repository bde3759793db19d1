/* client.h -- a server in a process of its own, and requests to it over sockets: what the tests of the server share. */
#ifndef TESTS_SERVE_CLIENT_H
#define TESTS_SERVE_CLIENT_H
#include "test.h"

#include <arpa/inet.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static const char graph[] =
    "tdir 1\n"
    "input %0 \"x\": f32[3]\n"
    "input %1 \"y\": f32[3]\n"
    "%2 = aten::add(%0, %1): f32[3]\n"
    "output \"sum\" %2\n";

typedef struct fixture {
  char folder[64], program[512];
  pid_t child;
  uint16_t port;
  char reply[1 << 16];
  size_t length; /* of the reply */
} fixture;

/* A folder of the test's own, and the command that stands beside the test. */
static void open_folder(fixture *f) {
  snprintf(f->folder, sizeof f->folder, "/tmp/treadle-serve-XXXXXX");
  assert_non_null(mkdtemp(f->folder));
  const ssize_t length = readlink("/proc/self/exe", f->program, sizeof f->program - 16);
  assert_true(length > 0);
  strcpy(strrchr(f->program, '/') + 1, "treadle");
}

static void remove_folder(const fixture *f) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", f->folder);
  assert_int_equal(system(command), 0);
}

static void write_bytes(const fixture *f, const char *name, const void *bytes, size_t count) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", f->folder, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, count, file), count);
  assert_int_equal(fclose(file), 0);
}

static inline void write_text(const fixture *f, const char *name, const char *text) {
  write_bytes(f, name, text, strlen(text));
}

/* Starts the command with `words`, which NULL ends, in the folder; ports[i]: of the address that its line i names. */
static void start_server(fixture *f, const char *const *words, uint16_t *ports, size_t count) {
  enum { MOST_WORDS = 24 };
  const char *argv[MOST_WORDS + 2] = {"treadle"};
  int pipes[2];
  char line[256];
  for (size_t i = 0; words[i]; i++) {
    assert_true(i < MOST_WORDS);
    argv[i + 1] = words[i];
  }
  assert_int_equal(pipe(pipes), 0);
  f->child = fork();
  if (f->child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves no server */
    dup2(pipes[1], 1);
    close(pipes[0]);
    close(pipes[1]);
    if (chdir(f->folder) != 0) _exit(127);
    execv(f->program, (char **)(uintptr_t)argv);
    _exit(127);
  }
  close(pipes[1]);
  FILE *out = fdopen(pipes[0], "r");
  for (size_t i = 0; i < count; i++) {
    assert_non_null(fgets(line, sizeof line, out));
    assert_int_equal(sscanf(line, "listening on %*[a-z]://127.0.0.1:%hu", &ports[i]), 1);
  }
  fclose(out);
}

static int end(fixture *f) {
  int status = -1;
  kill(f->child, SIGTERM);
  assert_int_equal(waitpid(f->child, &status, 0), f->child);
  return status;
}

static int connect_to(const fixture *f) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(f->port)};
  const struct timeval limit = {.tv_sec = 20};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
  return fd;
}

static void put(int fd, const char *bytes, size_t count) {
  assert_int_equal(send(fd, bytes, count, MSG_NOSIGNAL), count);
}

/* Reads one reply, a byte at a time: its status, and the whole text in f->reply. 0: the connection is closed. */
static int get_by(fixture *f, ssize_t (*receive)(void *connection, void *to, size_t room), void *connection) {
  size_t all = sizeof f->reply;
  int status = 0;
  for (f->length = 0; f->length < all && f->length < sizeof f->reply - 1;) {
    const ssize_t got = receive(connection, f->reply + f->length, 1);
    if (got <= 0) return 0;
    f->reply[++f->length] = 0;
    const char *head = all == sizeof f->reply ? strstr(f->reply, "\r\n\r\n") : NULL;
    if (head) all = (size_t)(head + 4 - f->reply) + (size_t)atol(strstr(f->reply, "Content-Length: ") + 16);
  }
  assert_int_equal(sscanf(f->reply, "HTTP/1.1 %d ", &status), 1);
  return status;
}

static ssize_t receive_plain(void *connection, void *to, size_t room) {
  return recv(*(const int *)connection, to, room, 0);
}

static int get(fixture *f, int fd) { return get_by(f, receive_plain, &fd); }

/* One request on a connection of its own. */
static int ask(fixture *f, const char *text, size_t count) {
  const int fd = connect_to(f);
  put(fd, text, count);
  const int status = get(f, fd);
  close(fd);
  return status;
}

static inline int ask_path(fixture *f, const char *method, const char *path, const char *body) {
  char text[2048];
  snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s", method, path,
           strlen(body), body);
  return ask(f, text, strlen(text));
}
#endif
