/* private.c -- files and folders of one user. */
#include "sys/sys_priv.h"
#include "sys/code.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, LISTED = 4096 /* files looked at when a folder is trimmed */ };

static td_status refuse(const char *path, const char *why, td_error *err) {
  return base_fail(err, TD_NO_RESOURCE, path, -1, "%s: %s", path, why);
}

td_status sys_private_folder(const char *path, td_error *err) {
  char part[PATH_BYTES];
  struct stat s;
  const size_t length = strlen(path);
  if (length == 0 || length >= sizeof part) return refuse(path, "the path is empty or too long", err);
  for (size_t i = 1; i <= length; i++) {
    if (path[i] != '/' && path[i] != '\0') continue;
    memcpy(part, path, i);
    part[i] = '\0';
    if (mkdir(part, 0700) != 0 && errno != EEXIST) return refuse(part, strerror(errno), err);
  }
  if (stat(path, &s) != 0) return refuse(path, strerror(errno), err);
  if (!S_ISDIR(s.st_mode)) return refuse(path, "it is no folder", err);
  if (s.st_uid != geteuid() || s.st_mode & 022)
    return refuse(path, "it belongs to another user, or others may write to it", err);
  return TD_OK;
}

int sys_write_all(int file, const void *bytes, size_t count) {
  const char *at = bytes;
  while (count) {
    const ssize_t written = write(file, at, count);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    if (written == 0) return ENOSPC;
    at += written;
    count -= (size_t)written;
  }
  return 0;
}

td_status sys_write_parts(const char *path, const sys_part *parts, size_t count, bool shared, td_error *err) {
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, shared ? 0666 : 0600);
  if (file < 0) return refuse(path, strerror(errno), err);
  int why = 0;
  for (size_t i = 0; i < count && !why; i++) why = sys_write_all(file, parts[i].at, parts[i].bytes);
  if (close(file) != 0 && !why) why = errno;
  return why ? refuse(path, strerror(why), err) : TD_OK;
}

td_status sys_write_file(const char *path, const void *bytes, size_t count, td_error *err) {
  const sys_part whole = {bytes, count};
  return sys_write_parts(path, &whole, 1, false, err);
}

bool sys_is_private_file(const char *path) {
  struct stat s;
  return lstat(path, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid() && !(s.st_mode & 022);
}

td_status sys_rename(const char *from, const char *to, td_error *err) {
  return rename(from, to) == 0 ? TD_OK : refuse(to, strerror(errno), err);
}

void sys_remove(const char *path) { unlink(path); }

sys_lock_state sys_lock_try(const char *path, sys_lock *lock) {
  lock->file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock->file < 0) return SYS_LOCK_NONE;
  if (flock(lock->file, LOCK_EX | LOCK_NB) == 0) return SYS_LOCK_TAKEN;
  const sys_lock_state state = errno == EWOULDBLOCK || errno == EINTR ? SYS_LOCK_BUSY : SYS_LOCK_NONE;
  close(lock->file);
  lock->file = -1;
  return state;
}

void sys_lock_drop(sys_lock *lock, const char *path) {
  if (lock->file < 0) return;
  unlink(path); /* first: whoever opens it from now on has another file, and finds what was made under this one */
  close(lock->file);
  lock->file = -1;
}

void sys_sleep_ms(uint32_t ms) {
  nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000}, NULL);
}

uint64_t sys_process_id(void) { return (uint64_t)getpid(); }

uint64_t sys_file_stamp(const char *path) {
  struct stat s;
  if (stat(path, &s) != 0) return 0;
  return ((uint64_t)s.st_mtim.tv_sec * 1000003u + (uint64_t)s.st_mtim.tv_nsec) * 1000003u + (uint64_t)s.st_size + 1;
}

typedef struct listed_file {
  char name[256];
  uint64_t bytes;
  int64_t changed_ns;
} listed_file;

static int oldest_first(const void *a, const void *b) {
  const listed_file *x = a, *y = b;
  return (x->changed_ns > y->changed_ns) - (x->changed_ns < y->changed_ns);
}

void sys_trim_folder(const char *path, uint64_t bytes) {
  listed_file *files = malloc(LISTED * sizeof *files);
  DIR *folder = opendir(path);
  uint64_t total = 0;
  size_t count = 0;
  struct stat s;
  for (struct dirent *entry; files && folder && count < LISTED && (entry = readdir(folder));) {
    if (fstatat(dirfd(folder), entry->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(s.st_mode)) continue;
    listed_file *f = &files[count++];
    snprintf(f->name, sizeof f->name, "%s", entry->d_name);
    f->bytes = (uint64_t)s.st_blocks * 512;
    f->changed_ns = (int64_t)s.st_mtim.tv_sec * 1000000000 + s.st_mtim.tv_nsec;
    total += f->bytes;
  }
  if (total > bytes) qsort(files, count, sizeof *files, oldest_first);
  for (size_t i = 0; i < count && total > bytes; i++)
    if (unlinkat(dirfd(folder), files[i].name, 0) == 0) total -= files[i].bytes;
  if (folder) closedir(folder);
  free(files);
}
