/* faults.c -- calls of the server that fail when a test says so (faults.h): linked into treadle-serve-faulty in place
 * of the C library's (--wrap). Processes that the server forks are left alone. Calls that cannot fail for lack of
 * anything stay as they are: a change of what epoll watches, and numbers read from and written to an eventfd. */
#include "serve/faults.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <nghttp2/nghttp2.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>

static fault_plan *plan;
enum { EVENTS = 64 };
static bool is_event[EVENTS]; /* the server's eventfds, by their numbers */

static void forget(void) { plan = NULL; }

__attribute__((constructor)) static void take_plan(void) {
  const char *descriptor = getenv(FAULTS_ENVIRONMENT);
  void *at =
      descriptor ? mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(descriptor), 0) : MAP_FAILED;
  pthread_atfork(NULL, NULL, forget);
  if (at != MAP_FAILED) plan = at;
}

static bool strikes(uint32_t kind, const char *name) {
  if (!plan || !(atomic_load(&plan->kinds) & kind)) return false;
  const uint64_t number = atomic_fetch_add(&plan->made, 1) + 1, at = atomic_load(&plan->at);
  if (number < at || (number > at && !atomic_load(&plan->lasts))) return false;
  strncpy(plan->struck, name, sizeof plan->struck - 1);
  return true;
}

/* A call that leaves `code` in errno and returns `failed`. */
#define FAULTY(kind, code, failed, result, name, parameters, arguments) \
  result __real_##name parameters;                                      \
  result __wrap_##name parameters;                                      \
  result __wrap_##name parameters {                                     \
    if (!strikes(kind, #name)) return __real_##name arguments;          \
    errno = code;                                                       \
    return failed;                                                      \
  }

FAULTY(FAULT_MEMORY, ENOMEM, NULL, void *, malloc, (size_t size), (size))
FAULTY(FAULT_MEMORY, ENOMEM, NULL, void *, calloc, (size_t count, size_t size), (count, size))
FAULTY(FAULT_MEMORY, ENOMEM, NULL, void *, realloc, (void *old, size_t size), (old, size))
FAULTY(FAULT_MEMORY, ENOMEM, NULL, void *, aligned_alloc, (size_t align, size_t size), (align, size))
FAULTY(FAULT_MEMORY, ENOMEM, NULL, char *, strdup, (const char *text), (text))
FAULTY(FAULT_MEMORY, ENOMEM, NULL, char *, realpath, (const char *path, char *to), (path, to))
FAULTY(FAULT_MEMORY, ENOMEM, MAP_FAILED, void *, mmap,
       (void *at, size_t size, int may, int flags, int fd, off_t offset), (at, size, may, flags, fd, offset))
FAULTY(FAULT_ACCEPT, EMFILE, -1, int, accept4, (int fd, struct sockaddr *from, socklen_t *size, int flags),
       (fd, from, size, flags))
FAULTY(FAULT_DESCRIPTORS, EMFILE, -1, int, socket, (int family, int type, int protocol), (family, type, protocol))
FAULTY(FAULT_DESCRIPTORS, EMFILE, -1, int, socketpair, (int family, int type, int protocol, int *ends),
       (family, type, protocol, ends))
FAULTY(FAULT_DESCRIPTORS, EMFILE, -1, int, pipe2, (int *ends, int flags), (ends, flags))
FAULTY(FAULT_DESCRIPTORS, EMFILE, -1, int, memfd_create, (const char *name, unsigned flags), (name, flags))
FAULTY(FAULT_DESCRIPTORS, EMFILE, -1, int, epoll_create1, (int flags), (flags))
FAULTY(FAULT_DESCRIPTORS, EMFILE, -1, int, signalfd, (int fd, const void *set, int flags), (fd, set, flags))
FAULTY(FAULT_DESCRIPTORS, EMFILE, NULL, FILE *, fopen, (const char *path, const char *mode), (path, mode))
FAULTY(FAULT_DESCRIPTORS, EMFILE, NULL, DIR *, opendir, (const char *path), (path))
FAULTY(FAULT_TRANSFERS, ENOMEM, -1, ssize_t, recv, (int fd, void *to, size_t room, int flags), (fd, to, room, flags))
FAULTY(FAULT_TRANSFERS, ENOMEM, -1, ssize_t, recvmsg, (int fd, struct msghdr *to, int flags), (fd, to, flags))
FAULTY(FAULT_TRANSFERS, ENOBUFS, -1, ssize_t, send, (int fd, const void *from, size_t count, int flags),
       (fd, from, count, flags))
FAULTY(FAULT_TRANSFERS, ENOBUFS, -1, ssize_t, sendmsg, (int fd, const struct msghdr *from, int flags),
       (fd, from, flags))
FAULTY(FAULT_THREADS, EAGAIN, EAGAIN, int, pthread_create,
       (pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *), void *user),
       (thread, attributes, run, user))
FAULTY(FAULT_HTTP2, 0, NGHTTP2_ERR_NOMEM, int, nghttp2_session_server_new2,
       (nghttp2_session * *session, const nghttp2_session_callbacks *calls, void *user, const nghttp2_option *option),
       (session, calls, user, option))
FAULTY(FAULT_HTTP2, 0, NGHTTP2_ERR_NOMEM, ssize_t, nghttp2_session_mem_recv,
       (nghttp2_session * session, const uint8_t *bytes, size_t count), (session, bytes, count))
FAULTY(FAULT_HTTP2, 0, NGHTTP2_ERR_NOMEM, int, nghttp2_session_send, (nghttp2_session * session), (session))
FAULTY(FAULT_HTTP2, 0, NGHTTP2_ERR_NOMEM, int, nghttp2_submit_settings,
       (nghttp2_session * session, uint8_t flags, const nghttp2_settings_entry *rows, size_t count),
       (session, flags, rows, count))
FAULTY(FAULT_HTTP2, 0, NGHTTP2_ERR_NOMEM, int, nghttp2_submit_response,
       (nghttp2_session * session, int32_t id, const nghttp2_nv *fields, size_t count,
        const nghttp2_data_provider *body),
       (session, id, fields, count, body))
FAULTY(FAULT_HTTP2, 0, NGHTTP2_ERR_NOMEM, int, nghttp2_submit_trailer,
       (nghttp2_session * session, int32_t id, const nghttp2_nv *fields, size_t count), (session, id, fields, count))

FAULTY(FAULT_TLS, 0, NULL, SSL_CTX *, SSL_CTX_new, (const SSL_METHOD *method), (method))
FAULTY(FAULT_TLS, 0, NULL, SSL *, SSL_new, (SSL_CTX * context), (context))
FAULTY(FAULT_TLS, 0, 0, int, SSL_set_fd, (SSL * tls, int fd), (tls, fd))

/* SSL_get_error looks for the reason among the thread's errors. */
static bool strikes_tls(const char *name) {
  if (!strikes(FAULT_TLS, name)) return false;
  ERR_raise(ERR_LIB_SSL, ERR_R_MALLOC_FAILURE);
  return true;
}

int __real_SSL_read(SSL *tls, void *to, int room);
int __wrap_SSL_read(SSL *tls, void *to, int room);
int __wrap_SSL_read(SSL *tls, void *to, int room) {
  return strikes_tls("SSL_read") ? -1 : __real_SSL_read(tls, to, room);
}

int __real_SSL_write(SSL *tls, const void *from, int count);
int __wrap_SSL_write(SSL *tls, const void *from, int count);
int __wrap_SSL_write(SSL *tls, const void *from, int count) {
  return strikes_tls("SSL_write") ? -1 : __real_SSL_write(tls, from, count);
}

int __real_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags) {
  if (strikes(FAULT_DESCRIPTORS, "eventfd")) {
    errno = EMFILE;
    return -1;
  }
  const int fd = __real_eventfd(count, flags);
  if (fd >= 0 && fd < EVENTS) is_event[fd] = true;
  return fd;
}

static bool counts(int fd) { return fd >= 0 && fd < EVENTS && is_event[fd]; }

ssize_t __real_read(int fd, void *to, size_t room);
ssize_t __wrap_read(int fd, void *to, size_t room);
ssize_t __wrap_read(int fd, void *to, size_t room) {
  if (counts(fd) || !strikes(FAULT_TRANSFERS, "read")) return __real_read(fd, to, room);
  errno = EIO;
  return -1;
}

ssize_t __real_write(int fd, const void *from, size_t count);
ssize_t __wrap_write(int fd, const void *from, size_t count);
ssize_t __wrap_write(int fd, const void *from, size_t count) {
  if (counts(fd) || !strikes(FAULT_TRANSFERS, "write")) return __real_write(fd, from, count);
  errno = ENOSPC;
  return -1;
}

int __real_epoll_ctl(int epoll, int what, int fd, struct epoll_event *events);
int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *events);
int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *events) {
  if (what != EPOLL_CTL_ADD || !strikes(FAULT_TRANSFERS, "epoll_ctl")) return __real_epoll_ctl(epoll, what, fd, events);
  errno = ENOSPC;
  return -1;
}

/* The mode that a file is made with stands behind the flags. */
static mode_t mode_of(int flags, va_list rest) { return flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(rest, int) : 0; }

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  if (!strikes(FAULT_DESCRIPTORS, "open")) return __real_open(path, flags, mode);
  errno = EMFILE;
  return -1;
}

int __real_openat(int folder, const char *path, int flags, ...);
int __wrap_openat(int folder, const char *path, int flags, ...);
int __wrap_openat(int folder, const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  if (!strikes(FAULT_DESCRIPTORS, "openat")) return __real_openat(folder, path, flags, mode);
  errno = EMFILE;
  return -1;
}
