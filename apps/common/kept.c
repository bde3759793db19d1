/* cache.c -- the user's cache folder, and small texts that are kept there. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <treadle/defaults.h>

#include "common/kept.h"

void app_make_folders(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    mkdir(path, 0777);
    *slash = '/';
  }
  mkdir(path, 0777);
}

bool app_kept_place(app_kept *k, const char *kind, const char *ending) {
  if (!td_cache_folder(k->folder, sizeof k->folder)) return false;
  snprintf(k->path, sizeof k->path, "%s/%s-%016llx.%s", k->folder, kind,
           (unsigned long long)base_hash(k->key, strlen(k->key), 0), ending);
  return true;
}

td_status app_no_cache(td_error *err) {
  return base_fail(err, TD_BAD_FILE, NULL, -1, "there is no cache folder: set XDG_CACHE_HOME or HOME");
}

bool app_kept_read(const app_kept *k, char *text, int size) {
  char key[sizeof k->key + 2];
  FILE *file = fopen(k->path, "r");
  const bool good = file && fgets(key, sizeof key, file) && fgets(text, size, file) && strchr(text, '\n');
  if (file) fclose(file);
  if (!good || strncmp(key, k->key, strlen(k->key)) != 0) return false;
  text[strcspn(text, "\n")] = 0;
  return true;
}

td_status app_kept_write(app_kept *k, const char *text, td_error *err) {
  char fresh[sizeof k->path + 8];
  snprintf(fresh, sizeof fresh, "%s.new", k->path);
  app_make_folders(k->folder);
  FILE *file = fopen(fresh, "w");
  bool written = file && fprintf(file, "%s\n%s\n", k->key, text) > 0;
  if (file) written = fclose(file) == 0 && written;
  if (written && rename(fresh, k->path) == 0) return TD_OK;
  return base_fail(err, TD_BAD_FILE, k->path, -1, "cannot be written: %s", strerror(errno));
}
