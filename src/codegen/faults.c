/* faults.c -- what is said when loops cannot be compiled. A complaint about a line of C is followed to the loop that
 * the line is in, and to the node that it came of: function and line carry both in their text, which a person may have
 * changed. */
#include "codegen/codegen_priv.h"
#include "sys/sys.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMED = 6 /* nodes of a loop, and loops, that are named */ };

/* ---- which loops ---- */

static void add(char *text, size_t room, const char *format, ...) BASE_PRINTF(3, 4);
static void add(char *text, size_t room, const char *format, ...) {
  const size_t used = strlen(text);
  va_list list;
  va_start(list, format);
  if (used < room) vsnprintf(text + used, room - used, format, list);
  va_end(list);
}

static void add_kernel(char *text, size_t room, const codegen_kernel *k) {
  add(text, room, "%s of", k->name);
  for (uint32_t i = 0; i < k->origin_count && i < NAMED; i++)
    add(text, room, "%s \"%.96s\"", i ? "," : "", k->origins[i]);
  if (k->origin_count > NAMED) add(text, room, " and %u more", k->origin_count - NAMED);
}

td_status codegen_fail(const codegen_unit *u, td_status status, const char *what, td_error *err) {
  char loops[700] = "";
  for (uint32_t i = 0; i < u->count && i < NAMED; i++) {
    if (i) add(loops, sizeof loops, "; ");
    add_kernel(loops, sizeof loops, &u->kernels[i]);
  }
  const codegen_kernel *first = &u->kernels[0];
  return base_fail(err, status, first->origin_count ? first->origins[0] : NULL, -1,
                   "%.900s; for %u fused loop%s: %s%s; source: %s%s", what, u->count, u->count > 1 ? "s" : "", loops,
                   u->count > NAMED ? "; ..." : "", u->stem, u->written ? ".c" : ".c, which could not be written");
}

/* ---- which line ---- */

/* "STEM.c:LINE:COLUMN: error: WORDS", the first of its kind. False: there is none. */
static bool find_complaint(base_str log, const char *stem, uint32_t *line, base_str *words) {
  const char *at = log.at, *end = log.at + log.length;
  const size_t length = strlen(stem);
  while (at < end) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    if (!stop) stop = end;
    const char *error = memmem(at, (size_t)(stop - at), "error: ", 7);
    const char *number = memmem(at, (size_t)(stop - at), stem, length);
    if (error && number && number + length + 3 < error && memcmp(number + length, ".c:", 3) == 0) {
      *line = (uint32_t)strtoul(number + length + 3, NULL, 10);
      *words = (base_str){error, (size_t)(stop - error)};
      return *line > 0;
    }
    at = stop + 1;
  }
  return false;
}

static bool find_line(const base_text *text, uint32_t number, base_str *line) {
  const char *at = text->at;
  for (uint32_t i = 1; at && i < number; i++) {
    at = strchr(at, '\n');
    if (at) at++;
  }
  if (!at) return false;
  while (*at == ' ') at++;
  *line = (base_str){at, strcspn(at, "\n")};
  return true;
}

/* The kernel whose function has the line: the last that begins in front of it. NULL: none does. */
static const codegen_kernel *kernel_at(const codegen_unit *u, const char *line) {
  const codegen_kernel *found = NULL;
  const char *begins = NULL;
  for (uint32_t i = 0; i < u->count; i++) {
    char head[96];
    snprintf(head, sizeof head, "void %s_rows(", u->kernels[i].name);
    const char *at = strstr(u->text.at, head);
    if (at && at <= line && at > begins) begins = at, found = &u->kernels[i];
  }
  return found;
}

/* The comment that ends a line: the node it came of. */
static base_str comment_of(base_str line) {
  const char *open = memmem(line.at, line.length, "/* ", 3);
  const char *close = open ? memmem(open, (size_t)(line.at + line.length - open), " */", 3) : NULL;
  return close && close > open + 3 ? (base_str){open + 3, (size_t)(close - open - 3)} : (base_str){0};
}

void codegen_read_log(const codegen_unit *u, const char *log_path, char *text, size_t room, base_str *node) {
  sys_mapping log;
  td_error unused;
  base_str words, line;
  uint32_t number;
  text[0] = '\0';
  if (sys_file_map(log_path, &log, &unused) != TD_OK) return;
  const base_str said = {log.bytes, log.size};
  if (find_complaint(said, u->stem, &number, &words) && find_line(&u->text, number, &line)) {
    const codegen_kernel *k = kernel_at(u, line.at);
    *node = comment_of(line);
    add(text, room, "%.*s, at line %u, \"%.*s\"", (int)words.length, words.at, number, (int)line.length, line.at);
    if (k) add(text, room, ", of ");
    if (k) add_kernel(text, room, k);
    if (!node->length && k && k->origin_count) *node = base_str_of(k->origins[0]);
  } else {
    snprintf(text, room, "%.*s", (int)(said.length < 400 ? said.length : 400), said.at);
    for (char *c = text; *c; c++)
      if (!isprint((unsigned char)*c) && *c != '\n') *c = '.';
  }
  sys_unmap(&log);
}
