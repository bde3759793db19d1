/* perf.c -- the files by which Linux's perf names generated code. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <treadle/experimental.h>

#include "perf.h"

static td_status failed(const char *path, td_error *err) {
  return base_fail(err, TD_NO_RESOURCE, path, -1, "cannot be written: %s", strerror(errno));
}

static td_status put(void *user, const char *bytes, size_t count) {
  const int *file = user;
  while (count) {
    const ssize_t n = write(*file, bytes, count);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return TD_NO_RESOURCE;
    bytes += n;
    count -= (size_t)n;
  }
  return TD_OK;
}

/* perf finds a jitdump file by a page of it that the process maps as code; the mapping stays as long as the process. */
static bool show_page(int file) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  return mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) != MAP_FAILED;
}

/* A map may hold other code of this process already; in /tmp nobody's link is followed. */
static td_status tell(const td_model *model, const char *form, td_error *err) {
  const bool map = strcmp(form, "map") == 0;
  char path[64];
  snprintf(path, sizeof path, map ? "/tmp/perf-%ld.map" : "jit-%ld.dump", (long)getpid());
  int file = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | (map ? O_APPEND : O_TRUNC), 0600);
  if (file < 0) return failed(path, err);
  td_status status = td_model_tell_perf(model, form, put, &file, err);
  if (status == TD_OK && !map && !show_page(file)) status = failed(path, err);
  close(file);
  if (status == TD_OK) app_note("%s: names of generated code", path);
  return status;
}

td_status cli_tell_perf(const cli_args *args, const td_model *model, td_error *err) {
  uint32_t cursor = 0;
  for (const char *form; (form = cli_next(args, "perf", &cursor));) TRY(tell(model, form, err));
  return TD_OK;
}
