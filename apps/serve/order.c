/* order.c -- messages between the server and the processes beside it, and which of them are granted. The server is
 * where strangers' bytes are read: whoever has got hold of it can send any order, but is to have no other programs by
 * it, and none with options of his choice. */
#include "order.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- messages with descriptors ---- */

typedef union rights {
  struct cmsghdr head; /* aligns it */
  char bytes[CMSG_SPACE(2 * sizeof(int))];
} rights;

bool order_put(int to, const void *bytes, size_t count, const int *fds, size_t fd_count) {
  rights room = {.bytes = {0}};
  struct iovec part = {(void *)(uintptr_t)bytes, count};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  if (fd_count) {
    message.msg_control = room.bytes;
    message.msg_controllen = CMSG_SPACE(fd_count * sizeof *fds);
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    *c = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(fd_count * sizeof *fds)};
    memcpy(CMSG_DATA(c), fds, fd_count * sizeof *fds);
  }
  ssize_t done;
  while ((done = sendmsg(to, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR) continue;
  return done == (ssize_t)count;
}

ssize_t order_take(int from, void *to, size_t size, int fds[2]) {
  rights room = {.bytes = {0}};
  struct iovec part = {to, size};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = room.bytes, .msg_controllen = sizeof room.bytes};
  ssize_t got;
  fds[0] = fds[1] = -1;
  while ((got = recvmsg(from, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) continue;
  const struct cmsghdr *c = got >= 0 ? CMSG_FIRSTHDR(&message) : NULL;
  if (c && c->cmsg_type == SCM_RIGHTS) memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
  if (got < 0 || !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) return got;
  order_close(fds);
  fds[0] = fds[1] = -1;
  errno = EBADMSG;
  return -1;
}

void order_close(const int fds[2]) {
  for (int i = 0; i < 2; i++)
    if (fds[i] >= 0) close(fds[i]);
}

bool order_split(const char *text, size_t bytes, const char *words[ORDER_WORDS], size_t *count) {
  *count = 0;
  for (size_t at = 0; at < bytes; at += strlen(text + at) + 1) {
    if (*count == ORDER_WORDS || !memchr(text + at, 0, bytes - at)) return false;
    words[(*count)++] = text + at;
  }
  return true;
}

bool order_descriptors(int own) {
  const int nowhere = open("/dev/null", O_RDWR), kept = fcntl(own, F_DUPFD, 10);
  if (nowhere < 0 || kept < 0) return false;
  dup2(nowhere, 0);
  dup2(nowhere, 1); /* the server's may be a pipe whose end somebody waits for */
  if (dup3(kept, ORDER_DESCRIPTOR, O_CLOEXEC) < 0) return false;
  if (close_range(ORDER_DESCRIPTOR + 1, ~0u, 0) != 0)
    for (int fd = ORDER_DESCRIPTOR + 1; fd < 65536; fd++) close(fd);
  return true;
}

/* ---- what is granted ---- */

static const char digits[] = "0123456789", hexadecimal[] = "0123456789abcdef";
enum { NAME_DIGITS = 32, FOLDER_LETTERS = 6 };

/* Steps over `text`, which has to be there; NULL stays NULL. */
static const char *behind(const char *at, const char *text) {
  const size_t length = strlen(text);
  return at && strncmp(at, text, length) == 0 ? at + length : NULL;
}

/* Steps over `count` characters (0: one or more) out of `set`. */
static const char *behind_any(const char *at, const char *set, size_t count) {
  const size_t found = at ? strspn(at, set) : 0;
  return found && (!count || found == count) ? at + found : NULL;
}

static bool is_end(const char *at) { return at && !*at; }

#define LEVEL(name, architecture, needs, lanes, rows, options) options,
#define PART(...)
static const char *const levels[] = {
#include "base/levels.def"
};
#undef LEVEL
#undef PART
#define OPTION(text) text,
static const char *const always[] = {
#include "base/compiler.def"
};
#undef OPTION
enum { LEVELS = sizeof levels / sizeof *levels, ALWAYS = sizeof always / sizeof *always };

/* Are the words those options, with a blank between two, and nothing else? */
static bool are_options(const char *const *words, size_t count, const char *options) {
  const char *at = options;
  for (size_t i = 0; i < count; i++) {
    if (!*words[i] || strchr(words[i], ' ')) return false;
    if (i) at = behind(at, " ");
    at = behind(at, words[i]);
  }
  return is_end(at);
}

static bool is_compilation(const spawner_plan *plan, const char *const *words, size_t count) {
  if (!plan->compiler || !plan->cache || count < ALWAYS + 3) return false;
  for (size_t i = 0; i < ALWAYS; i++)
    if (strcmp(words[i], always[i]) != 0) return false;
  size_t level = 0;
  while (level < LEVELS && !are_options(words + ALWAYS, count - ALWAYS - 3, levels[level])) level++;
  const char *made = words[count - 2], *source = words[count - 1];
  const char *name = behind(behind(made, plan->cache), "/");
  const char *at = behind(behind_any(name, hexadecimal, NAME_DIGITS), ".");
  at = behind(behind_any(behind(behind_any(at, digits, 0), "."), hexadecimal, 0), ".tmp");
  const bool names_agree = is_end(at) && strncmp(made, source, (size_t)(name - made) + NAME_DIGITS) == 0;
  return level < LEVELS && strcmp(words[count - 3], "-o") == 0 && names_agree &&
         strcmp(source + (name - made) + NAME_DIGITS, ".c") == 0;
}

static bool is_worker(const spawner_plan *plan, const char *const *words, size_t count) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  if (!plan->python || !plan->folders || count != 2) return false;
  const char *at = behind(behind(words[0], plan->folders), "/treadle-serve-");
  return is_end(behind(behind_any(at, letters, FOLDER_LETTERS), "/shim/worker.py")) && *words[1];
}

bool order_is_allowed(const spawner_plan *plan, const char *const *words, size_t count, spawner_program program) {
  if (program == SPAWNER_COMPILER) return is_compilation(plan, words, count);
  return program == SPAWNER_WORKER && is_worker(plan, words, count);
}
