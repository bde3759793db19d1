/* map.c -- files as read-only memory. What is mapped is always a regular file: the type is checked on the open
 * descriptor, so nothing can be swapped between check and use. */
#include "sys/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* O_NONBLOCK: opening a pipe without a writer must fail here, not wait. */
enum { OPEN_FILE = O_RDONLY | O_CLOEXEC | O_NONBLOCK, OPEN_FOLDER = O_RDONLY | O_CLOEXEC | O_DIRECTORY };

static td_status system_fail(td_error *err, const char *path, const char *what, int reason) {
  bool lack = reason == EMFILE || reason == ENFILE || reason == ENOMEM;
  char text[128];
  return base_fail(err, lack ? TD_NO_RESOURCE : TD_BAD_FILE, path, -1, "%s: %s", what,
                   strerror_r(reason, text, sizeof text));
}

static td_status map_descriptor(int file, const char *path, sys_mapping *mapping, td_error *err) {
  struct stat info;
  if (fstat(file, &info) != 0) return system_fail(err, path, "cannot read the size of the file", errno);
  if (S_ISDIR(info.st_mode)) return base_fail(err, TD_BAD_FILE, path, -1, "is a folder; give a file");
  if (!S_ISREG(info.st_mode)) return base_fail(err, TD_BAD_FILE, path, -1, "is not a regular file");
  *mapping = (sys_mapping){.bytes = "", .size = (size_t)info.st_size};
  if (mapping->size == 0) return TD_OK; /* mmap refuses it */
  void *bytes = mmap(NULL, mapping->size, PROT_READ, MAP_PRIVATE, file, 0);
  if (bytes == MAP_FAILED) {
    *mapping = (sys_mapping){0};
    return system_fail(err, path, "cannot map the file", errno);
  }
  mapping->bytes = bytes;
  return TD_OK;
}

td_status sys_file_map(const char *path, sys_mapping *mapping, td_error *err) {
  *mapping = (sys_mapping){0};
  int file = open(path, OPEN_FILE);
  if (file < 0) return system_fail(err, path, "cannot open the file", errno);
  td_status status = map_descriptor(file, path, mapping, err);
  close(file);
  return status;
}

void sys_unmap(sys_mapping *mapping) {
  /* The address is ours from mmap; const only keeps readers from writing. */
  if (mapping->size) munmap((void *)(uintptr_t)mapping->bytes, mapping->size);
  *mapping = (sys_mapping){0};
}

/* The name up to the next '/', copied into `name`; false when it may not be part of a location. */
static bool take_component(const char **at, char *name, size_t size) {
  size_t length = strcspn(*at, "/");
  if (length == 0 || length >= size) return false;
  memcpy(name, *at, length);
  name[length] = 0;
  *at += length + ((*at)[length] == '/');
  return strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !strchr(name, '\\');
}

static td_status check_location(const char *location, td_error *err) {
  const char *at = location;
  char name[256]; /* NAME_MAX and a NUL */
  bool fine = *at != 0 && at[strlen(at) - 1] != '/';
  while (fine && *at) fine = take_component(&at, name, sizeof name);
  if (fine) return TD_OK;
  return base_fail(err, TD_BAD_FILE, location, -1,
                   "is refused as the place of a file: it must be a path inside the model's folder, without '..'");
}

/* Opens one component after the other and never follows a link; closes `folder`. The descriptor, or -1 and errno. */
static int open_beneath(int folder, const char *location) {
  char name[256];
  while (take_component(&location, name, sizeof name)) {
    int next = openat(folder, name, (*location ? OPEN_FOLDER : OPEN_FILE) | O_NOFOLLOW);
    int reason = errno;
    close(folder);
    errno = reason;
    if (next < 0 || !*location) return next;
    folder = next;
  }
  close(folder);
  errno = EINVAL;
  return -1;
}

td_status sys_map_beneath(const char *folder, const char *location, sys_mapping *mapping, td_error *err) {
  *mapping = (sys_mapping){0};
  TRY(check_location(location, err));
  int top = open(folder, OPEN_FOLDER);
  if (top < 0) return system_fail(err, folder, "cannot open the model's folder", errno);
  int file = open_beneath(top, location);
  if (file < 0 && (errno == ELOOP || errno == ENOTDIR))
    return base_fail(err, TD_BAD_FILE, location, -1,
                     "passes a symbolic link or a file that is no folder; neither is followed");
  if (file < 0) return system_fail(err, location, "cannot open the file in the model's folder", errno);
  td_status status = map_descriptor(file, location, mapping, err);
  close(file);
  return status;
}
