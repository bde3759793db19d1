/* check_skips.c -- the list of cases that are known to fail, each with a reason and an owner. */
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* The next field of a line, without blanks around it; cut off in place. */
static char *take_field(char **line) {
  char *field = *line;
  char *bar = strchr(field, '|');
  *line = bar ? bar + 1 : field + strlen(field);
  if (bar) *bar = 0;
  field += strspn(field, " \t");
  size_t length = strlen(field);
  while (length && strchr(" \t\r\n", field[length - 1])) field[--length] = 0;
  return field;
}

static td_status take_line(char *text, const char *path, uint32_t number, base_arena *arena, check_skip_vec *skips,
                           td_error *err) {
  char *line = base_arena_text(arena, text);
  if (!line) return base_no_memory(err, path);
  const char *pattern = take_field(&line);
  if (!pattern[0] || pattern[0] == '#') return TD_OK;
  check_skip skip = {.pattern = pattern, .line = number};
  skip.reason = take_field(&line);
  skip.owner = take_field(&line);
  if (!skip.reason[0] || !skip.owner[0] || line[0]) {
    return base_fail(err, TD_BAD_FILE, path, -1, "line %u: `name-or-glob | reason | owner` is needed", number);
  }
  check_skip *slot = base_vec_push(arena, skips);
  if (!slot) return base_no_memory(err, path);
  *slot = skip;
  return TD_OK;
}

td_status check_read_skips(const char *path, base_arena *arena, check_skip_vec *skips, td_error *err) {
  FILE *file = fopen(path, "r");
  if (!file) return base_fail(err, TD_BAD_FILE, path, -1, "the skip list cannot be read: %s", strerror(errno));
  char *line = NULL;
  size_t size = 0;
  td_status status = TD_OK;
  for (uint32_t number = 1; status == TD_OK && getline(&line, &size, file) >= 0; number++) {
    status = take_line(line, path, number, arena, skips, err);
  }
  if (status == TD_OK && ferror(file)) status = base_fail(err, TD_BAD_FILE, path, -1, "the skip list cannot be read");
  free(line);
  fclose(file);
  return status;
}

/* The last parts of `folder`, as many as `pattern` has. */
static const char *last_parts(const char *folder, const char *pattern) {
  size_t slashes = 0;
  for (const char *at = pattern; *at; at++) slashes += *at == '/';
  const char *at = folder + strlen(folder);
  while (at > folder && (at[-1] != '/' || slashes-- > 0)) at--;
  return at;
}

check_skip *check_find_skip(check_skip_vec *skips, const char *folder) {
  for (uint32_t i = 0; i < skips->count; i++) {
    check_skip *skip = &skips->at[i];
    if (fnmatch(skip->pattern, last_parts(folder, skip->pattern), FNM_PATHNAME) != 0) continue;
    skip->used = true;
    return skip;
  }
  return NULL;
}
