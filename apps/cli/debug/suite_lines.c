/* suite_lines.c -- the layers of the suites, built in from bench/shapes/, and files of the same form. */
#include <stdlib.h>
#include <string.h>

#include "fmt/zip.h"
#include "suite.h"
#include "sys/sys.h"

#include "suites.inc" /* the lines "SUITE LINE" of all of them, deflated: packed_suites of SUITES_BYTES */

/* The first word of *at, a copy in `arena`; *at goes behind it and the blanks after it. */
static char *next_word(base_arena *arena, const char **at) {
  size_t length = strcspn(*at, " \t");
  char *word = base_arena_slice(arena, *at, length);
  *at += length;
  *at += strspn(*at, " \t");
  return word;
}

static td_status add_line(base_arena *arena, const char *suite, const char *text, suite_lines *lines, td_error *err) {
  text += strspn(text, " \t");
  if (!*text || *text == '#') return TD_OK;
  suite_line *line = base_vec_push(arena, lines);
  if (!line) return base_no_memory(err, "a suite");
  *line = (suite_line){.suite = suite, .name = next_word(arena, &text), .layer = base_arena_text(arena, text)};
  return line->name && line->layer ? TD_OK : base_no_memory(err, "a suite");
}

/* The text of the file at `path`, NUL-terminated, in `arena`. */
static td_status read_file(base_arena *arena, const char *path, char **text, td_error *err) {
  sys_mapping mapping;
  TRY(sys_file_map(path, &mapping, err));
  *text = base_arena_slice(arena, mapping.bytes, mapping.size);
  sys_unmap(&mapping);
  return *text ? TD_OK : base_no_memory(err, path);
}

static td_status read_lines(base_arena *arena, const char *path, suite_lines *lines, td_error *err) {
  char *text, *rest = NULL;
  TRY(read_file(arena, path, &text, err));
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
    TRY(add_line(arena, path, line, lines, err));
  return TD_OK;
}

static td_status read_built_in(base_arena *arena, const char *suite, suite_lines *lines, td_error *err) {
  char *text = base_arena_alloc(arena, SUITES_BYTES + 1), *rest = NULL;
  if (!text) return base_no_memory(err, "a suite");
  TRY(fmt_inflate(packed_suites, sizeof packed_suites, (uint8_t *)text, SUITES_BYTES, err));
  text[SUITES_BYTES] = '\0';
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    const char *at = line, *name = next_word(arena, &at);
    if (!name) return base_no_memory(err, "a suite");
    if (strcmp(suite, "all") == 0 || strcmp(suite, name) == 0) TRY(add_line(arena, name, at, lines, err));
  }
  return TD_OK;
}

td_status suite_read(base_arena *arena, const char *suite, const char *path, suite_lines *lines, td_error *err) {
  return path ? read_lines(arena, path, lines, err) : read_built_in(arena, suite, lines, err);
}

td_status suite_read_shares(base_arena *arena, const char *path, suite_shares *shares, td_error *err) {
  char *text, *rest = NULL;
  TRY(read_file(arena, path, &text, err));
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    const char *at = line + strspn(line, " \t");
    if (!*at || *at == '#') continue;
    suite_share *share = base_vec_push(arena, shares);
    if (!share) return base_no_memory(err, path);
    share->suite = next_word(arena, &at);
    share->name = next_word(arena, &at);
    if (!share->suite || !share->name) return base_no_memory(err, path);
    share->share = strtod(at, NULL);
    if (share->share <= 0)
      return base_fail(err, TD_BAD_FILE, path, -1, "'%s' is no line SUITE NAME SHARE with a share above 0", line);
  }
  return TD_OK;
}

double suite_find_share(const suite_shares *shares, const suite_line *line) {
  for (uint32_t i = 0; i < shares->count; i++)
    if (strcmp(shares->at[i].suite, line->suite) == 0 && strcmp(shares->at[i].name, line->name) == 0)
      return shares->at[i].share;
  return 0;
}
