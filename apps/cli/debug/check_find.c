/* check_find.c -- the folders that hold recorded cases. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

enum { MAX_DEPTH = 24 };

static int by_name(const void *a, const void *b) {
  const char *const *x = a, *const *y = b;
  return strverscmp(*x, *y);
}

td_status check_list(const char *folder, const char *prefix, base_arena *arena, const char ***names, size_t *count,
                     td_error *err) {
  BASE_VEC(const char *) found = {0};
  DIR *dir = opendir(folder);
  if (!dir) return base_fail(err, TD_BAD_FILE, folder, -1, "the folder cannot be read: %s", strerror(errno));
  bool failed = false;
  for (struct dirent *entry; !failed && (entry = readdir(dir));) {
    if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0) continue;
    const char **slot = base_vec_push(arena, &found);
    if (slot) *slot = base_arena_text(arena, entry->d_name);
    failed = !slot || !*slot;
  }
  closedir(dir);
  if (failed) return base_no_memory(err, "a list of files");
  if (found.count) qsort(found.at, found.count, sizeof *found.at, by_name);
  *names = found.at;
  *count = found.count;
  return TD_OK;
}

static bool exists(base_arena *arena, const char *folder, const char *name) {
  const char *path = base_arena_format(arena, "%s/%s", folder, name);
  return path && access(path, F_OK) == 0;
}

static td_status is_case(const char *folder, base_arena *arena, bool *yes, td_error *err) {
  *yes = exists(arena, folder, "case.json");
  if (*yes || !exists(arena, folder, "model.onnx")) return TD_OK;
  const char **sets;
  size_t count;
  TRY(check_list(folder, "test_data_set_", arena, &sets, &count, err));
  *yes = count > 0;
  return TD_OK;
}

static bool is_folder(const char *path) {
  struct stat info;
  return lstat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static td_status search(const char *folder, const char *name, int depth, base_arena *arena, check_found_vec *found,
                        td_error *err) {
  bool yes;
  TRY(is_case(folder, arena, &yes, err));
  if (yes) {
    const char *last = strrchr(folder, '/');
    check_found *slot = base_vec_push(arena, found);
    if (!slot) return base_no_memory(err, "the cases");
    *slot = (check_found){folder, name[0] ? name : last ? last + 1 : folder};
    return TD_OK;
  }
  const char **names;
  size_t count;
  TRY(check_list(folder, "", arena, &names, &count, err));
  for (size_t i = 0; i < count && depth < MAX_DEPTH; i++) {
    if (names[i][0] == '.') continue;
    const char *below = base_arena_format(arena, "%s/%s", folder, names[i]);
    const char *below_name = base_arena_format(arena, "%s%s%s", name, name[0] ? "/" : "", names[i]);
    if (!below || !below_name) return base_no_memory(err, "the cases");
    if (is_folder(below)) TRY(search(below, below_name, depth + 1, arena, found, err));
  }
  return TD_OK;
}

td_status check_find(const char *folder, base_arena *arena, check_found_vec *found, td_error *err) {
  size_t length = strlen(folder);
  while (length > 1 && folder[length - 1] == '/') length--;
  char *root = base_arena_slice(arena, folder, length);
  if (!root) return base_no_memory(err, "the cases");
  return search(root, "", 0, arena, found, err);
}
