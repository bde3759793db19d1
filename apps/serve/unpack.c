/* unpack.c -- the files of an archive with a Python handler, in a new folder that only the server's user can enter, and
 * beside them the packages that stand in for TorchServe's. No name leads out of the folder, nothing is written over,
 * and all files together are bounded by the size of the archive. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fmt/zip.h"
#include "shim.inc" /* the files of python/ one behind the other, deflated: packed_shim of SHIM_BYTES; shim_files */
#include "worker.h"

enum { MOST_FILES = 20000, MOST_GROWTH = 32, MOST_PATH = 1024, MOST_DEPTH = 32 };

static td_status bad_name(base_str name, td_error *err) {
  return base_fail(err, TD_BAD_FILE, NULL, -1, "the archive has a file '%.*s', which leads elsewhere or twice",
                   (int)(name.length < 200 ? name.length : 200), name.at);
}

/* Opens the folder that the name's file lies in, beneath `root`, and makes it. -1: it cannot be; `*file` gets the rest.
 */
static int enter(int root, base_str name, char *path, const char **file) {
  int at = dup(root), depth = 0;
  if (name.length >= MOST_PATH || memchr(name.at, 0, name.length) || memchr(name.at, '\\', name.length)) {
    close(at);
    return -1;
  }
  memcpy(path, name.at, name.length);
  path[name.length] = 0;
  for (char *part = path, *slash; at >= 0; part = slash + 1) {
    slash = strchr(part, '/');
    if (slash) *slash = 0;
    const bool leads_away = !*part || strcmp(part, ".") == 0 || strcmp(part, "..") == 0 || ++depth > MOST_DEPTH;
    *file = part;
    if (!slash && !leads_away) return at;
    int next = -1;
    if (!leads_away && (mkdirat(at, part, 0700) == 0 || errno == EEXIST))
      next = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    close(at);
    at = next;
  }
  return -1;
}

bool serve_write_all(int file, const void *bytes, size_t count) {
  for (const char *from = bytes; count;) {
    const ssize_t put = write(file, from, count);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    from += put;
    count -= (size_t)put;
  }
  return true;
}

static td_status write_file(int root, base_str name, const void *bytes, size_t count, td_error *err) {
  char path[MOST_PATH];
  const char *file;
  const int folder = enter(root, name, path, &file);
  if (folder < 0) return bad_name(name, err);
  const int fd = openat(folder, file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  close(folder);
  if (fd < 0) return bad_name(name, err);
  const td_status status =
      serve_write_all(fd, bytes, count)
          ? TD_OK
          : base_fail(err, TD_NO_RESOURCE, NULL, -1, "an archive cannot be unpacked: %s", strerror(errno));
  close(fd);
  return status;
}

static td_status write_entry(int root, const fmt_zip *zip, const fmt_zip_entry *entry, td_error *err) {
  const uint8_t *bytes;
  if (base_str_ends(entry->name, "/")) return TD_OK; /* a folder, which its files make */
  base_arena *arena = base_arena_new(&base_libc_allocator);
  if (!arena) return base_no_memory(err, "an archive's file");
  td_status status = fmt_zip_read(arena, zip, entry, &bytes, err);
  if (status == TD_OK) status = write_file(root, entry->name, bytes, (size_t)entry->bytes, err);
  base_arena_free(arena);
  return status;
}

static td_status write_archive(int root, const fmt_zip *zip, td_error *err) {
  const uint64_t most = (uint64_t)zip->size * MOST_GROWTH;
  uint64_t all = 0;
  if (zip->count > MOST_FILES) return base_fail(err, TD_BAD_FILE, NULL, -1, "the archive has too many files");
  for (uint32_t i = 0; i < zip->count; i++) {
    if (zip->entries[i].bytes > most - all)
      return base_fail(err, TD_BAD_FILE, NULL, -1, "the archive's files are more than %d times as large as it is",
                       MOST_GROWTH);
    all += zip->entries[i].bytes;
    TRY(write_entry(root, zip, &zip->entries[i], err));
  }
  return TD_OK;
}

static td_status write_shim(int root, base_arena *arena, td_error *err) {
  uint8_t *text = base_new(arena, uint8_t, SHIM_BYTES);
  size_t at = 0;
  if (!text) return base_no_memory(err, "the packages for handlers");
  TRY(fmt_inflate(packed_shim, sizeof packed_shim, text, SHIM_BYTES, err));
  for (size_t i = 0; i < sizeof shim_files / sizeof *shim_files; i++) {
    TRY(write_file(root, base_str_of(shim_files[i].name), text + at, shim_files[i].bytes, err));
    at += shim_files[i].bytes;
  }
  return TD_OK;
}

/* A folder `name` in `folder`, made and opened. */
static td_status open_folder(const char *folder, const char *name, int *fd, td_error *err) {
  char path[MOST_PATH];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  *fd = mkdir(path, 0700) == 0 ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
  return *fd >= 0 ? TD_OK : base_fail(err, TD_NO_RESOURCE, NULL, -1, "no folder for an archive: %s", strerror(errno));
}

const char *serve_temporary(void) {
  const char *folder = getenv("TMPDIR");
  return folder && *folder ? folder : "/tmp";
}

td_status python_unpack(serve_version *v, const fmt_zip *zip, char **folder, td_error *err) {
  int model = -1, shim = -1;
  char *path = base_arena_format(v->arena, "%s/treadle-serve-XXXXXX", serve_temporary());
  if (!path) return base_no_memory(err, "a folder");
  if (!mkdtemp(path))
    return base_fail(err, TD_NO_RESOURCE, NULL, -1, "no folder for an archive: %s: set TMPDIR", strerror(errno));
  char *whole = realpath(path, NULL); /* handlers run in another folder */
  *folder = whole ? base_arena_text(v->arena, whole) : path;
  free(whole);
  if (!*folder) {
    rmdir(path);
    return base_no_memory(err, "a folder");
  }
  td_status status = open_folder(*folder, "model", &model, err);
  if (status == TD_OK) status = open_folder(*folder, "shim", &shim, err);
  if (status == TD_OK) status = write_archive(model, zip, err);
  if (status == TD_OK) status = write_shim(shim, v->arena, err);
  if (model >= 0) close(model);
  if (shim >= 0) close(shim);
  return status;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where) {
  (void)about;
  (void)kind;
  (void)where;
  return remove(path) != 0 && errno != ENOENT;
}

void python_remove(const char *folder) { nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT); }
