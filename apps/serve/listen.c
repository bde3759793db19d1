/* listen.c -- sockets that listen: IPv4 addresses, and UNIX sockets that only their owner can use. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "server.h"

enum { BACKLOG = 512 };

static td_status fail(const serve_address *a, int fd, td_error *err) {
  const char *why = strerror(errno);
  if (fd >= 0) close(fd);
  if (a->is_unix) return base_fail(err, TD_NO_RESOURCE, a->host, -1, "cannot listen on this socket: %s", why);
  return base_fail(err, TD_NO_RESOURCE, NULL, -1, "cannot listen on %s:%u: %s", a->host, a->port, why);
}

static td_status listen_unix(const serve_address *a, int *fd, td_error *err) {
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  struct stat there;
  memcpy(at.sun_path, a->host, strlen(a->host));
  if (lstat(a->host, &there) == 0 && S_ISSOCK(there.st_mode)) unlink(a->host); /* of a server that was killed */
  *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const mode_t before = umask(0177);
  const bool bound = *fd >= 0 && bind(*fd, (struct sockaddr *)&at, sizeof at) == 0;
  umask(before);
  return bound && listen(*fd, BACKLOG) == 0 ? TD_OK : fail(a, *fd, err);
}

td_status serve_listen(serve_address *a, int *fd, td_error *err) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(a->port)};
  socklen_t size = sizeof at;
  if (a->is_unix) return listen_unix(a, fd, err);
  inet_pton(AF_INET, a->host, &at.sin_addr);
  *fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (*fd < 0) return fail(a, *fd, err);
  setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
  if (bind(*fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(*fd, BACKLOG) != 0 ||
      getsockname(*fd, (struct sockaddr *)&at, &size) != 0)
    return fail(a, *fd, err);
  a->port = ntohs(at.sin_port);
  return TD_OK;
}

void serve_print_address(const serve_address *a) {
  if (a->is_unix) printf("listening on unix:%s\n", a->host);
  else printf("listening on http%s://%s:%u\n", a->is_tls ? "s" : "", a->host, a->port);
  fflush(stdout);
}
