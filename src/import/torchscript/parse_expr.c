/* parse_expr.c -- expressions. The writer prints calls, attributes, indices and literals only; operators are read for
 * the sake of files that somebody edited, and of types of the form `A | B`. */
#include <stdio.h>

#include "import/torchscript/parse_priv.h"

td_status ts_unexpected(ts_parser *p, const char *wanted) {
  static const char *const kinds[] = {"the end of the file",
                                      "the end of the line",
                                      "a deeper indentation",
                                      "the end of the block above",
                                      "",
                                      "",
                                      "",
                                      "",
                                      "a string",
                                      ""};
  const ts_token *t = &p->lex.token;
  const char *what = kinds[t->kind];
  if (what[0]) return ts_lex_fail(&p->lex, t->place, "%s is expected here, not %s", wanted, what);
  return ts_lex_fail(&p->lex, t->place, "%s is expected here, not '%.*s'", wanted,
                     (int)(t->text.length < 60 ? t->text.length : 60), t->text.at);
}

td_status ts_enter(ts_parser *p) {
  if (++p->depth <= TS_MAX_DEPTH) return TD_OK;
  return ts_lex_fail(&p->lex, p->lex.token.place, "the program is nested more than %d deep", TS_MAX_DEPTH);
}

td_status ts_expect(ts_parser *p, const char *sign_or_word) {
  bool taken;
  char wanted[32];
  TRY(ts_accept(p, sign_or_word, &taken));
  if (taken) return TD_OK;
  snprintf(wanted, sizeof wanted, "'%s'", sign_or_word);
  return ts_unexpected(p, wanted);
}

td_status ts_expect_name(ts_parser *p, base_str *name) {
  if (p->lex.token.kind != TS_T_NAME) return ts_unexpected(p, "a name");
  *name = p->lex.token.text;
  return ts_lex_next(&p->lex);
}

static td_status no_memory(ts_parser *p) { return base_no_memory(p->lex.err, p->lex.file); }

static td_status new_expr(ts_parser *p, ts_expr_kind kind, ts_place place, ts_expr **out) {
  *out = base_arena_alloc_uncleared(p->arena, sizeof **out, _Alignof(ts_expr));
  if (!*out) return no_memory(p);
  **out = (ts_expr){.kind = kind, .place = place, .text = {"", 0}};
  return TD_OK;
}

static td_status push(ts_parser *p, ts_expr *e) {
  ts_expr **slot = base_vec_push(p->arena, &p->items);
  if (!slot) return no_memory(p);
  *slot = e;
  return TD_OK;
}

/* What was pushed since there were `first` items. */
static td_status take_items(ts_parser *p, uint32_t first, ts_expr ***items, uint32_t *count) {
  *count = p->items.count - first;
  const size_t bytes = *count * sizeof **items;
  *items = bytes ? base_arena_alloc_uncleared(p->arena, bytes, sizeof **items) : NULL;
  if (bytes && !*items) return no_memory(p);
  if (bytes) memcpy(*items, p->items.at + first, bytes);
  p->items.count = first;
  return TD_OK;
}

/* ---- literals and what brackets hold ----------------------------------------------------------------------------- */

static td_status token_literal(ts_parser *p, ts_expr_kind kind, ts_expr **out) {
  const ts_token *t = &p->lex.token;
  TRY(new_expr(p, kind, t->place, out));
  (*out)->text = t->text;
  if (kind == TS_FLOAT || kind == TS_COMPLEX) (*out)->number.f = t->f;
  if (kind == TS_INT && !base_str_int(t->text, &(*out)->number.i)) {
    if (!base_str_is(t->text, "9223372036854775808"))
      return ts_lex_fail(&p->lex, t->place, "an integer needs more than 64 bits");
    (*out)->number.i = INT64_MIN; /* its sign stands in front of it */
  }
  return ts_lex_next(&p->lex);
}

/* Pushes the expressions up to `close`, which is taken. */
static td_status items_until(ts_parser *p, const char *close, bool *trailing) {
  bool taken = false;
  *trailing = false;
  for (;;) {
    TRY(ts_accept(p, close, &taken));
    if (taken) return TD_OK;
    ts_expr *e = NULL;
    TRY(ts_parse_expr(p, &e));
    TRY(push(p, e));
    TRY(ts_accept(p, ",", trailing));
    if (!*trailing && !ts_lex_is(&p->lex, close)) return ts_unexpected(p, "a comma or a closing bracket");
  }
}

static td_status parenthesised(ts_parser *p, ts_expr **out) {
  ts_place place = p->lex.token.place;
  const uint32_t first = p->items.count;
  bool trailing;
  TRY(ts_lex_next(&p->lex));
  TRY(items_until(p, ")", &trailing));
  if (p->items.count == first + 1 && !trailing) {
    *out = p->items.at[--p->items.count];
    return TD_OK;
  }
  TRY(new_expr(p, TS_TUPLE, place, out));
  return take_items(p, first, &(*out)->items, &(*out)->count);
}

static td_status list(ts_parser *p, ts_expr **out) {
  ts_place place = p->lex.token.place;
  const uint32_t first = p->items.count;
  bool trailing;
  TRY(ts_lex_next(&p->lex));
  TRY(items_until(p, "]", &trailing));
  TRY(new_expr(p, TS_LIST, place, out));
  return take_items(p, first, &(*out)->items, &(*out)->count);
}

static td_status dictionary(ts_parser *p, ts_expr **out) {
  ts_place place = p->lex.token.place;
  const uint32_t first = p->items.count;
  bool taken;
  TRY(ts_lex_next(&p->lex));
  for (;;) {
    TRY(ts_accept(p, "}", &taken));
    if (taken) break;
    ts_expr *key = NULL, *value = NULL;
    TRY(ts_parse_expr(p, &key));
    TRY(ts_expect(p, ":"));
    TRY(ts_parse_expr(p, &value));
    TRY(push(p, key));
    TRY(push(p, value));
    TRY(ts_accept(p, ",", &taken));
    if (!taken && !ts_lex_is(&p->lex, "}")) return ts_unexpected(p, "a comma or '}'");
  }
  TRY(new_expr(p, TS_DICT, place, out));
  return take_items(p, first, &(*out)->items, &(*out)->count);
}

static td_status name(ts_parser *p, ts_expr **out) {
  static const struct {
    const char *word;
    ts_expr_kind kind;
  } words[] = {{"None", TS_NONE}, {"True", TS_TRUE}, {"False", TS_FALSE}};
  const base_str text = p->lex.token.text;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (text.at[0] == words[i].word[0] && base_str_is(text, words[i].word)) return token_literal(p, words[i].kind, out);
  return token_literal(p, TS_NAME, out);
}

static td_status primary(ts_parser *p, ts_expr **out) {
  switch (p->lex.token.kind) {
    case TS_T_NAME: return name(p, out);
    case TS_T_INT: return token_literal(p, TS_INT, out);
    case TS_T_FLOAT: return token_literal(p, TS_FLOAT, out);
    case TS_T_IMAG: return token_literal(p, TS_COMPLEX, out);
    case TS_T_STRING: return token_literal(p, TS_STRING, out);
    default: break;
  }
  if (ts_lex_is(&p->lex, "(")) return parenthesised(p, out);
  if (ts_lex_is(&p->lex, "[")) return list(p, out);
  if (ts_lex_is(&p->lex, "{")) return dictionary(p, out);
  return ts_unexpected(p, "an expression");
}

/* ---- what follows a value: .name (arguments) [index] ------------------------------------------------------------- */

static td_status push_keyword(ts_parser *p, base_str keyword) {
  base_str *slot = base_vec_push(p->arena, &p->keywords);
  if (!slot) return no_memory(p);
  *slot = keyword;
  return TD_OK;
}

/* Pushes it, and its keyword: of length 0 where it has none. */
static td_status argument(ts_parser *p) {
  ts_expr *e = NULL;
  bool taken = false;
  base_str keyword = {"", 0};
  TRY(ts_parse_expr(p, &e));
  if (e->kind == TS_NAME) TRY(ts_accept(p, "=", &taken));
  if (taken) {
    keyword = e->text;
    TRY(ts_parse_expr(p, &e));
  }
  TRY(push_keyword(p, keyword));
  return push(p, e);
}

static td_status call(ts_parser *p, ts_expr *callee, ts_expr **out) {
  const uint32_t first = p->items.count, first_keyword = p->keywords.count;
  bool taken, any = false;
  TRY(new_expr(p, TS_CALL, callee->place, out));
  TRY(ts_lex_next(&p->lex));
  TRY(push(p, callee));
  TRY(push_keyword(p, (base_str){"", 0}));
  for (;;) {
    TRY(ts_accept(p, ")", &taken));
    if (taken) break;
    TRY(argument(p));
    const bool named = p->keywords.at[p->keywords.count - 1].length != 0;
    any = any || named;
    if (any && !named)
      return ts_lex_fail(&p->lex, p->lex.token.place, "an argument without a name follows one with a name");
    TRY(ts_accept(p, ",", &taken));
    if (!taken && !ts_lex_is(&p->lex, ")")) return ts_unexpected(p, "a comma or ')'");
  }
  TRY(take_items(p, first, &(*out)->items, &(*out)->count));
  p->keywords.count = first_keyword;
  if (!any) return TD_OK;
  (*out)->keywords = base_arena_copy(p->arena, p->keywords.at + first_keyword, (*out)->count * sizeof *p->keywords.at);
  return (*out)->keywords ? TD_OK : no_memory(p);
}

/* `a`, `a:b`, `:b`, `a:`, `:` */
static td_status subscript(ts_parser *p, ts_expr **out) {
  ts_expr *bounds[2] = {NULL, NULL};
  ts_place place = p->lex.token.place;
  bool colon;
  if (!ts_lex_is(&p->lex, ":")) TRY(ts_parse_expr(p, &bounds[0]));
  TRY(ts_accept(p, ":", &colon));
  if (!colon) {
    *out = bounds[0];
    return TD_OK;
  }
  if (!ts_lex_is(&p->lex, "]") && !ts_lex_is(&p->lex, ",")) TRY(ts_parse_expr(p, &bounds[1]));
  TRY(new_expr(p, TS_SLICE, place, out));
  (*out)->items = base_arena_copy(p->arena, bounds, sizeof bounds);
  (*out)->count = 2;
  return (*out)->items ? TD_OK : no_memory(p);
}

static td_status index_of(ts_parser *p, ts_expr *base, ts_expr **out) {
  const uint32_t first = p->items.count;
  bool taken;
  TRY(new_expr(p, TS_INDEX, base->place, out));
  TRY(ts_lex_next(&p->lex));
  TRY(push(p, base));
  for (;;) {
    TRY(ts_accept(p, "]", &taken));
    if (taken) break;
    ts_expr *e = NULL;
    TRY(subscript(p, &e));
    TRY(push(p, e));
    TRY(ts_accept(p, ",", &taken));
    if (!taken && !ts_lex_is(&p->lex, "]")) return ts_unexpected(p, "a comma or ']'");
  }
  if (p->items.count < first + 2) return ts_lex_fail(&p->lex, base->place, "an index is empty");
  return take_items(p, first, &(*out)->items, &(*out)->count);
}

static td_status attribute(ts_parser *p, ts_expr *base, ts_expr **out) {
  TRY(new_expr(p, TS_ATTRIBUTE, base->place, out));
  TRY(ts_lex_next(&p->lex));
  (*out)->place = p->lex.token.place;
  TRY(ts_expect_name(p, &(*out)->text));
  (*out)->items = base_arena_copy(p->arena, &base, sizeof base);
  (*out)->count = 1;
  return (*out)->items ? TD_OK : no_memory(p);
}

static td_status postfix(ts_parser *p, ts_expr **out) {
  ts_expr *e = NULL;
  uint32_t links = 0;
  TRY(primary(p, &e));
  for (;; links++) {
    ts_expr *base = e;
    if (links > TS_MAX_DEPTH)
      return ts_lex_fail(&p->lex, p->lex.token.place, "more than %d links in a chain", TS_MAX_DEPTH);
    if (ts_lex_is(&p->lex, ".")) TRY(attribute(p, base, &e));
    else if (ts_lex_is(&p->lex, "(")) TRY(call(p, base, &e));
    else if (ts_lex_is(&p->lex, "[")) TRY(index_of(p, base, &e));
    else break;
  }
  *out = e;
  return TD_OK;
}

/* ---- operators --------------------------------------------------------------------------------------------------- */

static td_status unary(ts_parser *p, ts_expr **out) {
  ts_place place = p->lex.token.place;
  base_str sign = p->lex.token.text;
  if (!ts_lex_is(&p->lex, "-") && !ts_lex_is(&p->lex, "~") && !ts_lex_is(&p->lex, "not")) return postfix(p, out);
  ts_expr *e = NULL;
  TRY(ts_enter(p));
  TRY(ts_lex_next(&p->lex));
  TRY(unary(p, &e));
  p->depth--;
  if (base_str_is(sign, "-") && (e->kind == TS_INT || e->kind == TS_FLOAT || e->kind == TS_COMPLEX)) {
    if (e->kind != TS_INT) e->number.f = -e->number.f;
    else if (e->number.i != INT64_MIN) e->number.i = -e->number.i;
    *out = e;
    return TD_OK;
  }
  TRY(new_expr(p, TS_UNARY, place, out));
  (*out)->text = sign;
  (*out)->items = base_arena_copy(p->arena, &e, sizeof e);
  (*out)->count = 1;
  return (*out)->items ? TD_OK : no_memory(p);
}

/* Binding power of the current token as an operator; 0: it is none. */
static int power(const ts_parser *p) {
  static const struct {
    const char *sign;
    int power;
  } rows[] = {{"or", 1}, {"and", 2}, {"==", 3}, {"!=", 3}, {"<", 3}, {"<=", 3}, {">", 3},
              {">=", 3}, {"is", 3},  {"|", 4},  {"^", 5},  {"&", 6}, {"+", 7},  {"-", 7},
              {"*", 8},  {"/", 8},   {"//", 8}, {"%", 8},  {"@", 8}, {"**", 9}};
  const ts_token *t = &p->lex.token;
  if (t->kind != TS_T_SIGN && t->kind != TS_T_NAME) return 0;
  if (t->text.length == 1 && strchr(",)].:=(}", t->text.at[0])) return 0; /* as nearly always */
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (ts_lex_is(&p->lex, rows[i].sign)) return rows[i].power;
  return 0;
}

static td_status binary(ts_parser *p, int floor, ts_expr **out) {
  TRY(unary(p, out));
  for (uint32_t links = 0;; links++) {
    ts_expr *pair[2] = {*out, NULL};
    int strength = power(p);
    if (strength <= floor) return TD_OK;
    if (links > TS_MAX_DEPTH)
      return ts_lex_fail(&p->lex, p->lex.token.place, "more than %d links in a chain", TS_MAX_DEPTH);
    ts_place place = p->lex.token.place;
    base_str sign = p->lex.token.text;
    TRY(ts_lex_next(&p->lex));
    TRY(binary(p, strength, &pair[1]));
    TRY(new_expr(p, TS_BINARY, place, out));
    (*out)->text = sign;
    (*out)->items = base_arena_copy(p->arena, pair, sizeof pair);
    (*out)->count = 2;
    if (!(*out)->items) return no_memory(p);
  }
}

td_status ts_parse_expr(ts_parser *p, ts_expr **out) {
  TRY(ts_enter(p));
  TRY(binary(p, 0, out));
  p->depth--;
  return TD_OK;
}

td_status ts_parse_list(ts_parser *p, ts_expr ***items, uint32_t *count, bool *trailing) {
  const uint32_t first = p->items.count;
  do {
    ts_expr *e = NULL;
    *trailing = false;
    TRY(ts_parse_expr(p, &e));
    TRY(push(p, e));
    TRY(ts_accept(p, ",", trailing));
  } while (*trailing && !ts_lex_is(&p->lex, "=") && p->lex.token.kind != TS_T_NEWLINE);
  return take_items(p, first, items, count);
}
