/* print.c -- errors, colours, sizes and names, said in one way by every program. */
#include "common/print.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void app_print_error(const char *subject, const td_error *err) {
  fflush(stdout);
  fprintf(stderr, "treadle: ");
  if (subject) fprintf(stderr, "%s: ", subject);
  if (err->name[0] && (!subject || strcmp(subject, err->name) != 0)) fprintf(stderr, "%s: ", err->name);
  fprintf(stderr, "%s", err->text[0] ? err->text : td_status_name(err->code));
  if (err->offset >= 0) fprintf(stderr, " (at byte %lld)", (long long)err->offset);
  fprintf(stderr, "\n");
}

void app_note(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "treadle: ");
  vfprintf(stderr, format, args);
  fprintf(stderr, "\n");
  va_end(args);
}

bool app_is_terminal(FILE *stream) { return isatty(fileno(stream)) == 1; }

const char *app_colour_code(FILE *to, app_colour colour) {
  static const char *const codes[] = {"\033[0m", "\033[31m", "\033[32m", "\033[33m", "\033[1m"};
  return app_is_terminal(to) && !getenv("NO_COLOR") ? codes[colour] : "";
}

char *app_safe_name(base_arena *arena, const char *name) {
  static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  char *copy = base_arena_text(arena, name);
  for (char *at = copy; at && *at; at++) {
    if (!strchr(safe, *at)) *at = '_';
  }
  return copy;
}

char *app_bytes_text(char *text, size_t size, uint64_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = (double)bytes;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < sizeof units / sizeof *units) {
    value /= 1024;
    unit++;
  }
  snprintf(text, size, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return text;
}

void app_print_word(const char *text, FILE *to) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,@+";
  if (*text && text[strspn(text, plain)] == 0) {
    fprintf(to, " %s", text);
    return;
  }
  fputs(" '", to);
  for (; *text; text++)
    if (*text == '\'') fputs("'\\''", to);
    else fputc(*text, to);
  fputc('\'', to);
}
