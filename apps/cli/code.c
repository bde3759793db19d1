/* code.c -- where the C compiler is, and where its work is kept: what the environment says of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "values.h"

/* "DIR/NAME" for the first folder of the search path that has it; NULL: none. */
static const char *find_program(base_arena *arena, const char *name) {
  const char *at = getenv("PATH");
  while (at && *at) {
    const size_t n = strcspn(at, ":");
    const char *path = base_arena_format(arena, "%.*s/%s", (int)n, at, name);
    if (n && path && access(path, X_OK) == 0) return path;
    at += n + (at[n] == ':');
  }
  return NULL;
}

static const char *find_compiler(const cli_args *args, base_arena *arena) {
  static const char *const names[] = {"cc", "gcc", "clang"};
  const char *given = cli_value(args, "cc"), *found = NULL;
  if (given && strcmp(given, "none") == 0) return NULL;
  if (given) return strchr(given, '/') ? given : find_program(arena, given);
  for (size_t i = 0; !found && i < sizeof names / sizeof *names; i++) found = find_program(arena, names[i]);
  return found;
}

/* Where compiled loops are kept: TREADLE_CACHE, or a folder among the user's caches. NULL: nowhere. */
static const char *find_cache(base_arena *arena) {
  const char *own = getenv("TREADLE_CACHE");
  char folder[1024];
  if (own && *own) return own;
  return cli_cache_folder(folder, sizeof folder) && folder[0] == '/' ? base_arena_text(arena, folder) : NULL;
}

static void warn(void *user, const char *text) { fprintf(stderr, "treadle: %s: %s\n", (const char *)user, text); }

td_status cli_code_options(const cli_args *args, td_load_options *options, td_error *err) {
  const char *given = cli_value(args, "cc");
  options->cc = find_compiler(args, args->arena);
  options->cache = find_cache(args->arena);
  options->trusted = cli_flag(args, "trusted");
  options->tiered = cli_flag(args, "tiered");
  options->strict = cli_flag(args, "strict");
  options->warn = warn;
  options->warn_user = (void *)(uintptr_t)(args->operand_count ? args->operands[0] : "generated code");
  if (given && strcmp(given, "none") != 0 && !options->cc)
    return base_fail(err, TD_BAD_ARGUMENT, given, -1, "there is no program called %s", given);
  return TD_OK;
}
