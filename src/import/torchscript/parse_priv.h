/* parse_priv.h -- between the parser's expressions and its statements. */
#ifndef IMPORT_TORCHSCRIPT_PARSE_PRIV_H
#define IMPORT_TORCHSCRIPT_PARSE_PRIV_H
#include "import/torchscript/token_priv.h"

typedef struct ts_parser {
  ts_lexer lex;
  base_arena *arena;
  uint32_t depth;
  /* Of what is open, innermost last: moved to its own memory when it is closed. */
  BASE_VEC(ts_expr *) items;
  BASE_VEC(base_str) keywords;
  BASE_VEC(ts_stmt) statements;
} ts_parser;

td_status ts_parse_expr(ts_parser *p, ts_expr **out);
/* `a`, `a, b` or `a, b,`: *trailing tells of the comma at the end. Stops at "=", ":" or the line's end. */
td_status ts_parse_list(ts_parser *p, ts_expr ***items, uint32_t *count, bool *trailing);
td_status ts_expect(ts_parser *p, const char *sign_or_word);
/* Takes the token if it is this one. */
static inline td_status ts_accept(ts_parser *p, const char *sign_or_word, bool *taken) {
  *taken = ts_lex_is(&p->lex, sign_or_word);
  return *taken ? ts_lex_next(&p->lex) : TD_OK;
}
td_status ts_expect_name(ts_parser *p, base_str *name);
td_status ts_unexpected(ts_parser *p, const char *wanted);
td_status ts_enter(ts_parser *p); /* fails when too deep; p->depth-- when done */
#endif
