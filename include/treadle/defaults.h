/* treadle/defaults.h -- what the command does where its user says nothing, for C programs that want the same.
 *
 * libtreadle reads no environment, and without a C compiler and a folder for what that makes, fused loops are
 * interpreted. These functions look for both as the command does; they are compiled into the program that calls them.
 */
#ifndef TREADLE_DEFAULTS_H
#define TREADLE_DEFAULTS_H
#include <treadle/treadle.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where the options' texts are: as long as the options are in use. */
typedef struct td_defaults {
  char cc[4096], cache[4096];
} td_defaults;

/* The first program called `name` in the folders of PATH, as text in `path`; 0: there is none. */
static inline int td_find_program(const char *name, char *path, size_t size) {
  const char *at = getenv("PATH");
  while (at && *at) {
    const size_t n = strcspn(at, ":");
    const int length = snprintf(path, size, "%.*s/%s", (int)n, at, name);
    if (n && length > 0 && (size_t)length < size && access(path, X_OK) == 0) return 1;
    at += n + (at[n] == ':');
  }
  return 0;
}

/* The folder among the user's caches, $XDG_CACHE_HOME/treadle or ~/.cache/treadle, which need not be there yet, as text
 * in `folder`; 0: the user has none, or its name does not fit. */
static inline int td_cache_folder(char *folder, size_t size) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int length = -1;
  if (cache && *cache == '/') length = snprintf(folder, size, "%s/treadle", cache);
  else if (home && *home) length = snprintf(folder, size, "%s/.cache/treadle", home);
  return length >= 0 && (size_t)length < size;
}

/* Sets the options that are NULL of: `cc`, the first of cc, gcc and clang in PATH; `cache`, $TREADLE_CACHE,
 * $XDG_CACHE_HOME/treadle or ~/.cache/treadle. What is not there stays NULL, and loops are interpreted. Reads the
 * environment: not while another thread changes it. */
static inline void td_load_defaults(td_load_options *options, td_defaults *room) {
  const char *own = getenv("TREADLE_CACHE");
  if (!options->cc &&
      (td_find_program("cc", room->cc, sizeof room->cc) || td_find_program("gcc", room->cc, sizeof room->cc) ||
       td_find_program("clang", room->cc, sizeof room->cc)))
    options->cc = room->cc;
  if (options->cache) return;
  if (own && *own) {
    const int length = snprintf(room->cache, sizeof room->cache, "%s", own);
    if (length > 0 && (size_t)length < sizeof room->cache) options->cache = room->cache;
  } else if (td_cache_folder(room->cache, sizeof room->cache) && room->cache[0] == '/') {
    options->cache = room->cache;
  }
}

#ifdef __cplusplus
}
#endif
#endif
