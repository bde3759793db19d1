/* token.c -- the lexer: names, numbers, strings with C's escapes, signs; two-space indentation as INDENT and DEDENT. */
#include "import/torchscript/token_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

td_status ts_lex_fail(const ts_lexer *lexer, ts_place place, const char *format, ...) {
  va_list args;
  char what[512];
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  return base_fail(lexer->err, TD_BAD_FILE, lexer->file, place.offset, "line %u: %s", place.line, what);
}

static inline int peek(const ts_lexer *l, size_t ahead) {
  return l->at + ahead < l->text.length ? (unsigned char)l->text.at[l->at + ahead] : -1;
}

static inline bool is_name_start(int c) { return ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' || c >= 0x80; }
static inline bool is_digit(int c) { return c >= '0' && c <= '9'; }

/* May the byte stand in a name? A bit per ASCII character; all others may. */
static inline bool is_name(char byte) {
  static const uint64_t bits[2] = {0x03ff000000000000u, 0x07fffffe87fffffeu};
  const unsigned char c = (unsigned char)byte;
  return c >= 0x80 || bits[c >> 6] >> (c & 63) & 1;
}

static ts_place here(const ts_lexer *l) { return (ts_place){(uint32_t)l->at, l->line}; }

/* ---- lines and indentation --------------------------------------------------------------------------------------- */

static void skip_comment(ts_lexer *l) {
  while (peek(l, 0) >= 0 && peek(l, 0) != '\n') l->at++;
}

/* Spaces, comments, and where they mean nothing newlines. */
static void skip_blank(ts_lexer *l) {
  for (;;) {
    int c = peek(l, 0);
    if (c == ' ' || c == '\t' || c == '\r') {
      l->at++;
    } else if (c == '#') {
      skip_comment(l);
    } else if (c == '\\' && peek(l, 1) == '\n') {
      l->at += 2;
      l->line++;
    } else if (c == '\n' && l->brackets) {
      l->at++;
      l->line++;
    } else {
      return;
    }
  }
}

/* The column of the next line that holds anything. */
static uint32_t next_column(ts_lexer *l) {
  for (;;) {
    size_t start = l->at;
    while (peek(l, 0) == ' ') l->at++;
    uint32_t column = (uint32_t)(l->at - start);
    if (peek(l, 0) == '#') skip_comment(l);
    if (peek(l, 0) == '\r') l->at++;
    if (peek(l, 0) != '\n') return peek(l, 0) < 0 ? 0 : column;
    l->at++;
    l->line++;
  }
}

static td_status give(ts_lexer *l, ts_token_kind kind) {
  l->token = (ts_token){.kind = kind, .place = here(l), .text = {"", 0}};
  return TD_OK;
}

/* At the start of a line: INDENT, some DEDENTs, or nothing (*given false). */
static td_status indentation(ts_lexer *l, bool *given) {
  uint32_t column = next_column(l), open = l->indents[l->indent_count - 1];
  l->line_start = false;
  *given = true;
  if (column > open) {
    if (l->indent_count > TS_MAX_DEPTH)
      return ts_lex_fail(l, here(l), "blocks are nested more than %d deep", TS_MAX_DEPTH);
    l->indents[l->indent_count++] = column;
    return give(l, TS_T_INDENT);
  }
  while (l->indents[l->indent_count - 1] > column) {
    l->indent_count--;
    l->dedents++;
  }
  if (l->indents[l->indent_count - 1] != column)
    return ts_lex_fail(l, here(l), "the line is indented like no block around it");
  *given = false;
  return TD_OK;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static td_status number(ts_lexer *l) {
  char digits[64];
  size_t start = l->at, length;
  bool is_float = false;
  while (is_digit(peek(l, 0))) l->at++;
  if (peek(l, 0) == '.') {
    is_float = true;
    l->at++;
    while (is_digit(peek(l, 0))) l->at++;
  }
  if (peek(l, 0) == 'e' || peek(l, 0) == 'E') {
    size_t sign = peek(l, 1) == '+' || peek(l, 1) == '-' ? 2 : 1;
    if (!is_digit(peek(l, sign))) return ts_lex_fail(l, here(l), "a number ends in its exponent");
    is_float = true;
    l->at += sign;
    while (is_digit(peek(l, 0))) l->at++;
  }
  length = l->at - start;
  l->token = (ts_token){.kind = is_float ? TS_T_FLOAT : TS_T_INT,
                        .place = {(uint32_t)start, l->line},
                        .text = {l->text.at + start, length}};
  if (length >= sizeof digits) return ts_lex_fail(l, l->token.place, "a number has %zu characters", length);
  if (peek(l, 0) == 'j') {
    l->at++;
    l->token.kind = TS_T_IMAG;
  }
  if (l->token.kind != TS_T_INT) {
    memcpy(digits, l->text.at + start, length);
    digits[length] = 0;
    l->token.f = strtod(digits, NULL);
  }
  if (is_name_start(peek(l, 0))) return ts_lex_fail(l, here(l), "a number is followed by a letter");
  return TD_OK;
}

/* ---- strings ----------------------------------------------------------------------------------------------------- */

static int hex_digit(int c) {
  return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* What follows a backslash, into one byte; l->at goes behind it. */
static td_status escape(ts_lexer *l, char *byte) {
  static const char names[] = "n\nt\tr\ra\ab\bf\fv\v\\\\'\'\"\"";
  int c = peek(l, 0);
  if (c >= '0' && c <= '7') { /* up to three octal digits */
    int value = 0;
    for (int i = 0; i < 3 && peek(l, 0) >= '0' && peek(l, 0) <= '7'; i++)
      value = value * 8 + (peek(l, 0) - '0'), l->at++;
    *byte = (char)value;
    return TD_OK;
  }
  if (c == 'x' && hex_digit(peek(l, 1)) >= 0 && hex_digit(peek(l, 2)) >= 0) {
    *byte = (char)(hex_digit(peek(l, 1)) * 16 + hex_digit(peek(l, 2)));
    l->at += 3;
    return TD_OK;
  }
  for (size_t i = 0; names[i]; i += 2) {
    if (names[i] != c) continue;
    *byte = names[i + 1];
    l->at++;
    return TD_OK;
  }
  return ts_lex_fail(l, here(l), "a string has an escape that is none");
}

static td_status string(ts_lexer *l) {
  ts_place place = here(l);
  int quote = peek(l, 0);
  size_t start = ++l->at, length = 0;
  bool plain = true;
  while (peek(l, 0) != quote) {
    if (peek(l, 0) < 0 || peek(l, 0) == '\n') return ts_lex_fail(l, place, "a string has no end");
    plain = plain && peek(l, 0) != '\\';
    l->at += peek(l, 0) == '\\' && peek(l, 1) >= 0 && peek(l, 1) != '\n' ? 2 : 1;
  }
  size_t end = l->at;
  l->token = (ts_token){.kind = TS_T_STRING, .place = place, .text = {l->text.at + start, end - start}};
  if (!plain) {
    char *bytes = base_arena_alloc(l->arena, end - start + 1);
    if (!bytes) return base_no_memory(l->err, l->file);
    for (l->at = start; l->at < end;) {
      char byte = l->text.at[l->at++];
      if (byte == '\\') TRY(escape(l, &byte));
      bytes[length++] = byte;
    }
    l->token.text = (base_str){bytes, length};
  }
  l->at = end + 1;
  return TD_OK;
}

/* ---- signs ------------------------------------------------------------------------------------------------------- */

static td_status sign(ts_lexer *l) {
  static const char pairs[][2] = {{'-', '>'}, {'=', '='}, {'!', '='}, {'<', '='}, {'>', '='}, {'*', '*'}, {'/', '/'}};
  const int c = peek(l, 0), next = peek(l, 1);
  size_t length = c && strchr("(),.[]:={}+-*/%<>&|^~@", c) ? 1 : 0;
  const bool may_pair = next == '=' || next == '>' || next == '*' || next == '/';
  for (size_t i = 0; may_pair && i < sizeof pairs / sizeof *pairs; i++)
    if (c == pairs[i][0] && next == pairs[i][1]) length = 2;
  if (length) {
    l->token = (ts_token){.kind = TS_T_SIGN, .place = here(l), .text = {l->text.at + l->at, length}};
    l->at += length;
    l->brackets += c == '(' || c == '[' || c == '{';
    l->brackets -= (c == ')' || c == ']' || c == '}') && l->brackets;
    return TD_OK;
  }
  return c > 32 && c < 127 ? ts_lex_fail(l, here(l), "'%c' means nothing here", c)
                           : ts_lex_fail(l, here(l), "byte 0x%02x is in no program", (unsigned)c);
}

td_status ts_lex_next(ts_lexer *l) {
  bool given = false;
  if (l->line_start) {
    TRY(indentation(l, &given));
    if (given) return TD_OK;
  }
  if (l->dedents) {
    l->dedents--;
    return give(l, TS_T_DEDENT);
  }
  skip_blank(l);
  int c = peek(l, 0);
  if (c < 0) {
    if (l->token.kind != TS_T_NEWLINE && l->token.kind != TS_T_DEDENT && l->token.kind != TS_T_END)
      return give(l, TS_T_NEWLINE);
    if (l->indent_count == 1) return give(l, TS_T_END);
    l->indent_count--;
    return give(l, TS_T_DEDENT);
  }
  if (c == '\n') {
    TRY(give(l, TS_T_NEWLINE));
    l->at++;
    l->line++;
    l->line_start = true;
    return TD_OK;
  }
  if (is_digit(c) || (c == '.' && is_digit(peek(l, 1)))) return number(l);
  if (c == '"' || c == '\'') return string(l);
  if (!is_name_start(c)) return sign(l);
  ts_place place = here(l);
  while (l->at < l->text.length && is_name(l->text.at[l->at])) l->at++;
  l->token = (ts_token){.kind = TS_T_NAME, .place = place, .text = {l->text.at + place.offset, l->at - place.offset}};
  return TD_OK;
}

td_status ts_lex_start(ts_lexer *lexer, base_arena *arena, const char *file, base_str text, td_error *err) {
  *lexer = (ts_lexer){.arena = arena, .file = file, .text = text, .line = 1, .line_start = true, .err = err};
  lexer->indent_count = 1;
  lexer->token.text = (base_str){"", 0};
  if (text.length > UINT32_MAX / 2) return base_fail(err, TD_BAD_FILE, file, -1, "the source is larger than 2 GiB");
  return ts_lex_next(lexer);
}
