/* cache.c -- the user's cache folder. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

bool cli_cache_folder(char *folder, size_t size) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int length = -1;
  if (cache && *cache == '/') length = snprintf(folder, size, "%s/treadle", cache);
  else if (home && *home) length = snprintf(folder, size, "%s/.cache/treadle", home);
  return length >= 0 && (size_t)length < size;
}

void cli_make_folders(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    mkdir(path, 0777);
    *slash = '/';
  }
  mkdir(path, 0777);
}
