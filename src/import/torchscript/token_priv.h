/* token_priv.h -- source text as tokens; indentation as tokens of its own. */
#ifndef IMPORT_TORCHSCRIPT_TOKEN_PRIV_H
#define IMPORT_TORCHSCRIPT_TOKEN_PRIV_H
#include <string.h>

#include "import/torchscript/ast_priv.h"

typedef enum ts_token_kind {
  TS_T_END,
  TS_T_NEWLINE,
  TS_T_INDENT,
  TS_T_DEDENT,
  TS_T_NAME,   /* keywords too */
  TS_T_INT,    /* text: its digits */
  TS_T_FLOAT,  /* f */
  TS_T_IMAG,   /* f: "1.j" */
  TS_T_STRING, /* text: unescaped */
  TS_T_SIGN    /* text: "(", "->", "==", ... */
} ts_token_kind;

typedef struct ts_token {
  ts_token_kind kind;
  ts_place place;
  base_str text;
  double f;
} ts_token;

typedef struct ts_lexer {
  base_arena *arena;
  const char *file;
  base_str text;
  size_t at;
  uint32_t line;
  uint32_t brackets; /* open ones: newlines inside mean nothing */
  bool line_start;
  uint32_t indents[TS_MAX_DEPTH + 1], indent_count; /* columns of the open blocks, rising; the first is 0 */
  uint32_t dedents;                                 /* still to be given */
  ts_token token;                                   /* the current one */
  td_error *err;
} ts_lexer;

/* The first token becomes the current one. */
td_status ts_lex_start(ts_lexer *lexer, base_arena *arena, const char *file, base_str text, td_error *err);
td_status ts_lex_next(ts_lexer *lexer);
/* TD_BAD_FILE at a place: "code/net.py: line 7: ..." */
td_status ts_lex_fail(const ts_lexer *lexer, ts_place place, const char *format, ...) BASE_PRINTF(3, 4);
/* Is the current token this sign, or this word? */
static inline bool ts_lex_is(const ts_lexer *lexer, const char *sign_or_word) {
  const ts_token *t = &lexer->token;
  return (t->kind == TS_T_SIGN || t->kind == TS_T_NAME) && t->text.length == strlen(sign_or_word) &&
         memcmp(t->text.at, sign_or_word, t->text.length) == 0;
}
#endif
