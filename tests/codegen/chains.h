/* chains.h -- a compiler and a cache for tests of generated code. */
#ifndef TESTS_CODEGEN_CHAINS_H
#define TESTS_CODEGEN_CHAINS_H
#include <unistd.h>

#include "runtime/harness.h"

/* NULL: this machine has none. */
static inline const char *chains_compiler(void) {
  static const char *const paths[] = {"/usr/bin/cc", "/usr/bin/gcc", "/usr/bin/clang"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
    if (access(paths[i], X_OK) == 0) return paths[i];
  return NULL;
}

/* A new folder; give it back with chains_remove. */
static inline char *chains_cache(void) {
  char *path = strdup("/tmp/treadle_cache_XXXXXX");
  assert_non_null(path);
  assert_non_null(mkdtemp(path));
  return path;
}

static inline void chains_remove(char *path) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", path);
  assert_int_equal(system(command), 0);
  free(path);
}
#endif
