/* print.h -- what programs say to people: errors, notes, colours, sizes, words for the shell. */
#ifndef COMMON_PRINT_H
#define COMMON_PRINT_H
#include <stdio.h>

#include "base/base.h"

/* `treadle: SUBJECT: NAME: TEXT`, one line to standard error. */
void app_print_error(const char *subject, const td_error *err);
void app_note(const char *format, ...) BASE_PRINTF(1, 2); /* `treadle: ...` to standard error */
/* Colour codes when `to` is a terminal, else "". */
typedef enum app_colour { APP_PLAIN, APP_RED, APP_GREEN, APP_YELLOW, APP_BOLD } app_colour;
const char *app_colour_code(FILE *to, app_colour colour);
bool app_is_terminal(FILE *stream);
/* `name` with bytes outside [A-Za-z0-9._-] replaced by '_', in `arena`. NULL: out of memory. */
char *app_safe_name(base_arena *arena, const char *name);
/* "1.5 MiB" into `text` of at least 24 bytes; returns text. */
char *app_bytes_text(char *text, size_t size, uint64_t bytes);

/* Prints ` TEXT` as one word for the shell. */
void app_print_word(const char *text, FILE *to);
#endif
