/* print.c -- errors, colours, file names and JSON, said in one way by every sub-command. */
#include "cli.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void cli_print_error(const char *subject, const td_error *err) {
  fflush(stdout);
  fprintf(stderr, "treadle: ");
  if (subject) fprintf(stderr, "%s: ", subject);
  if (err->name[0] && (!subject || strcmp(subject, err->name) != 0)) fprintf(stderr, "%s: ", err->name);
  fprintf(stderr, "%s", err->text[0] ? err->text : td_status_name(err->code));
  if (err->offset >= 0) fprintf(stderr, " (at byte %lld)", (long long)err->offset);
  fprintf(stderr, "\n");
}

void cli_note(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "treadle: ");
  vfprintf(stderr, format, args);
  fprintf(stderr, "\n");
  va_end(args);
}

bool cli_is_terminal(FILE *stream) { return isatty(fileno(stream)) == 1; }

const char *cli_colour_code(FILE *to, cli_colour colour) {
  static const char *const codes[] = {"\033[0m", "\033[31m", "\033[32m", "\033[33m", "\033[1m"};
  return cli_is_terminal(to) && !getenv("NO_COLOR") ? codes[colour] : "";
}

char *cli_safe_name(base_arena *arena, const char *name) {
  static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  char *copy = base_arena_text(arena, name);
  for (char *at = copy; at && *at; at++) {
    if (!strchr(safe, *at)) *at = '_';
  }
  return copy;
}

json_t *cli_json_real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

json_t *cli_json_text(const char *text) {
  json_t *value = json_string(text);
  return value ? value : json_null();
}

json_t *cli_json_dims(int32_t rank, const int64_t *dims) {
  if (rank < 0) return json_null();
  json_t *array = json_array();
  for (int32_t i = 0; i < rank; i++) cli_json_set(array, NULL, dims[i] < 0 ? json_null() : json_integer(dims[i]));
  return array;
}

void cli_json_set(json_t *object, const char *key, json_t *value) {
  if (key) {
    json_object_set_new_nocheck(object, key, value);
  } else {
    json_array_append_new(object, value);
  }
}

td_status cli_print_json(json_t *root, td_error *err) {
  int failed = root ? json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : 0;
  json_decref(root);
  if (!root) return base_no_memory(err, "JSON");
  if (failed || putchar('\n') == EOF || fflush(stdout)) {
    return base_fail(err, TD_NO_RESOURCE, "standard output", -1, "cannot be written");
  }
  return TD_OK;
}

char *cli_bytes_text(char *text, size_t size, uint64_t bytes) {
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

/* ---- commands ---- */

void cli_print_word(const char *text, FILE *to) {
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

void cli_print_given(const cli_args *args, const char *const *without, FILE *to) {
  for (uint32_t i = 0; i < args->given_count; i++) {
    const cli_given *g = &args->given[i];
    size_t k = 0;
    while (without[k] && strcmp(without[k], g->option->name) != 0) k++;
    if (without[k]) continue;
    fprintf(to, " --%s", g->option->name);
    if (g->value) cli_print_word(g->value, to);
  }
}
