/* parse.c -- statements, functions, classes, files. */
#include "import/torchscript/parse_priv.h"

static td_status block(ts_parser *p, ts_block *out);
static td_status function(ts_parser *p, ts_function **out);

static td_status no_memory(ts_parser *p) { return base_no_memory(p->lex.err, p->lex.file); }

static td_status end_of_line(ts_parser *p) {
  if (p->lex.token.kind != TS_T_NEWLINE) return ts_unexpected(p, "the end of the line");
  return ts_lex_next(&p->lex);
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

static td_status check_target(ts_parser *p, const ts_expr *target, bool alone) {
  if (target->kind == TS_NAME) return TD_OK;
  if (alone && (target->kind == TS_ATTRIBUTE || target->kind == TS_INDEX)) return TD_OK;
  return ts_lex_fail(&p->lex, target->place, "nothing can be assigned to this");
}

/* `a = e`, `a, b = e, f`, `a, b, = e`, `a : T = e`, `x.y = e`, `e`. */
static td_status assignment(ts_parser *p, ts_stmt *s) {
  bool trailing = false, taken, dummy;
  TRY(ts_parse_list(p, &s->targets, &s->target_count, &trailing));
  TRY(ts_accept(p, ":", &taken));
  if (taken) TRY(ts_parse_expr(p, &s->type));
  TRY(ts_accept(p, "=", &taken));
  if (!taken) {
    if (s->type || trailing || s->target_count != 1)
      return ts_lex_fail(&p->lex, s->place, "the statement computes something and leaves it");
    s->kind = TS_EXPR;
    s->values = s->targets;
    s->value_count = 1;
    s->target_count = 0;
    return end_of_line(p);
  }
  s->kind = s->targets[0]->kind == TS_NAME ? TS_ASSIGN : TS_STORE;
  for (uint32_t i = 0; i < s->target_count; i++) TRY(check_target(p, s->targets[i], s->target_count == 1));
  s->unpack = trailing;
  TRY(ts_parse_list(p, &s->values, &s->value_count, &dummy));
  bool pairs = s->value_count == s->target_count;
  if (s->value_count != 1 && (s->unpack || !pairs))
    return ts_lex_fail(&p->lex, s->place, "%u names are assigned %u values", s->target_count, s->value_count);
  return end_of_line(p);
}

static td_status one_value(ts_parser *p, ts_stmt *s) {
  ts_expr *e = NULL;
  TRY(ts_parse_expr(p, &e));
  s->values = base_arena_copy(p->arena, &e, sizeof e);
  s->value_count = 1;
  return s->values ? TD_OK : no_memory(p);
}

static td_status one_target(ts_parser *p, ts_stmt *s) {
  ts_expr *e = NULL;
  if (p->lex.token.kind != TS_T_NAME) return ts_unexpected(p, "a name");
  e = base_new(p->arena, ts_expr, 1);
  if (!e) return no_memory(p);
  *e = (ts_expr){.kind = TS_NAME, .place = p->lex.token.place, .text = p->lex.token.text};
  s->targets = base_arena_copy(p->arena, &e, sizeof e);
  s->target_count = 1;
  if (!s->targets) return no_memory(p);
  return ts_lex_next(&p->lex);
}

static td_status return_statement(ts_parser *p, ts_stmt *s) {
  bool trailing;
  s->kind = TS_RETURN;
  if (p->lex.token.kind != TS_T_NEWLINE) TRY(ts_parse_list(p, &s->values, &s->value_count, &trailing));
  return end_of_line(p);
}

static td_status pass_statement(ts_parser *p, ts_stmt *s) {
  s->kind = TS_PASS;
  return end_of_line(p);
}

static td_status if_statement(ts_parser *p, ts_stmt *s) {
  bool taken;
  s->kind = TS_IF;
  TRY(one_value(p, s));
  TRY(block(p, &s->body));
  TRY(ts_accept(p, "else", &taken));
  return taken ? block(p, &s->other) : TD_OK;
}

static td_status while_statement(ts_parser *p, ts_stmt *s) {
  s->kind = TS_WHILE;
  TRY(one_value(p, s));
  return block(p, &s->body);
}

static td_status for_statement(ts_parser *p, ts_stmt *s) {
  s->kind = TS_FOR;
  TRY(one_target(p, s));
  TRY(ts_expect(p, "in"));
  TRY(one_value(p, s));
  return block(p, &s->body);
}

static td_status with_statement(ts_parser *p, ts_stmt *s) {
  bool taken;
  s->kind = TS_WITH;
  TRY(one_value(p, s));
  TRY(ts_accept(p, "as", &taken));
  if (taken) TRY(one_target(p, s));
  return block(p, &s->body);
}

static td_status def_statement(ts_parser *p, ts_stmt *s) {
  s->kind = TS_DEF;
  return function(p, &s->function);
}

static td_status statement(ts_parser *p, ts_stmt *s) {
  static const struct {
    const char *word;
    td_status (*read)(ts_parser *p, ts_stmt *s);
  } words[] = {{"return", return_statement}, {"pass", pass_statement}, {"if", if_statement},
               {"while", while_statement},   {"for", for_statement},   {"with", with_statement},
               {"def", def_statement}};
  s->place = p->lex.token.place;
  for (size_t i = 0; i < sizeof words / sizeof *words && p->lex.token.kind == TS_T_NAME; i++) {
    if (p->lex.token.text.at[0] != words[i].word[0] || !ts_lex_is(&p->lex, words[i].word)) continue;
    TRY(ts_lex_next(&p->lex));
    return words[i].read(p, s);
  }
  return assignment(p, s);
}

/* ':' a new line, and what is indented below it. */
static td_status open_block(ts_parser *p) {
  TRY(ts_expect(p, ":"));
  TRY(end_of_line(p));
  if (p->lex.token.kind != TS_T_INDENT) return ts_unexpected(p, "a block");
  return ts_lex_next(&p->lex);
}

static td_status block(ts_parser *p, ts_block *out) {
  const uint32_t first = p->statements.count;
  TRY(ts_enter(p));
  TRY(open_block(p));
  while (p->lex.token.kind != TS_T_DEDENT) {
    ts_stmt s = {0};
    TRY(statement(p, &s));
    ts_stmt *slot = base_vec_push(p->arena, &p->statements);
    if (!slot) return no_memory(p);
    *slot = s;
  }
  out->count = out->cap = p->statements.count - first;
  out->at = base_arena_copy(p->arena, p->statements.at + first, out->count * sizeof *out->at);
  if (!out->at) return no_memory(p);
  p->statements.count = first;
  p->depth--;
  return ts_lex_next(&p->lex);
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

static td_status parameter(ts_parser *p, ts_param *param) {
  bool taken;
  TRY(ts_expect_name(p, &param->name));
  TRY(ts_accept(p, ":", &taken));
  if (taken) TRY(ts_parse_expr(p, &param->type));
  TRY(ts_accept(p, "=", &taken));
  return taken ? ts_parse_expr(p, &param->fallback) : TD_OK;
}

static td_status parameters(ts_parser *p, ts_function *f) {
  BASE_VEC(ts_param) params = {0};
  bool taken;
  TRY(ts_expect(p, "("));
  for (;;) {
    TRY(ts_accept(p, ")", &taken));
    if (taken) break;
    TRY(ts_accept(p, "*", &taken)); /* what follows goes by name alone, which callers do anyway */
    if (taken) {
      TRY(ts_expect(p, ","));
      continue;
    }
    ts_param param = {.name = {"", 0}};
    TRY(parameter(p, &param));
    ts_param *slot = base_vec_push(p->arena, &params);
    if (!slot) return no_memory(p);
    *slot = param;
    TRY(ts_accept(p, ",", &taken));
    if (!taken && !ts_lex_is(&p->lex, ")")) return ts_unexpected(p, "a comma or ')'");
  }
  f->params = params.at;
  f->param_count = params.count;
  return TD_OK;
}

/* Behind "def". */
static td_status function(ts_parser *p, ts_function **out) {
  bool taken;
  ts_function *f = *out = base_new(p->arena, ts_function, 1);
  if (!f) return no_memory(p);
  f->place = p->lex.token.place;
  TRY(ts_expect_name(p, &f->name));
  TRY(parameters(p, f));
  TRY(ts_accept(p, "->", &taken));
  if (taken) TRY(ts_parse_expr(p, &f->result));
  return block(p, &f->body);
}

/* ---- classes ----------------------------------------------------------------------------------------------------- */

/* `__annotations__["0"] = T` names an attribute that is no identifier. */
static td_status annotation(ts_parser *p, ts_field *field) {
  TRY(ts_expect(p, "["));
  if (p->lex.token.kind != TS_T_STRING) return ts_unexpected(p, "a string");
  field->name = p->lex.token.text;
  TRY(ts_lex_next(&p->lex));
  TRY(ts_expect(p, "]"));
  TRY(ts_expect(p, "="));
  return ts_parse_expr(p, &field->type);
}

static td_status class_field(ts_parser *p, ts_class_def *c) {
  ts_field field = {.place = p->lex.token.place};
  bool taken;
  TRY(ts_expect_name(p, &field.name));
  if (base_str_is(field.name, "__annotations__") && ts_lex_is(&p->lex, "[")) {
    TRY(annotation(p, &field));
  } else {
    TRY(ts_accept(p, ":", &taken));
    if (taken) TRY(ts_parse_expr(p, &field.type));
    TRY(ts_accept(p, "=", &taken));
    if (taken) TRY(ts_parse_expr(p, &field.value));
    if (!field.type && !field.value) return ts_unexpected(p, "':' or '='");
  }
  ts_field *slot = base_vec_push(p->arena, &c->fields);
  if (!slot) return no_memory(p);
  *slot = field;
  return end_of_line(p);
}

static td_status class_body(ts_parser *p, ts_class_def *c) {
  TRY(open_block(p));
  while (p->lex.token.kind != TS_T_DEDENT) {
    bool taken;
    TRY(ts_accept(p, "def", &taken));
    if (taken) {
      ts_function **slot = base_vec_push(p->arena, &c->methods);
      if (!slot) return no_memory(p);
      TRY(function(p, slot));
      continue;
    }
    TRY(ts_accept(p, "pass", &taken));
    if (taken) TRY(end_of_line(p));
    else TRY(class_field(p, c));
  }
  return ts_lex_next(&p->lex);
}

/* Behind "class". */
static td_status class_def(ts_parser *p, ts_class_def **out) {
  bool taken;
  ts_class_def *c = *out = base_new(p->arena, ts_class_def, 1);
  if (!c) return no_memory(p);
  c->place = p->lex.token.place;
  c->base = (base_str){"", 0};
  TRY(ts_expect_name(p, &c->name));
  TRY(ts_accept(p, "(", &taken));
  if (taken) {
    TRY(ts_accept(p, ")", &taken));
    if (!taken) {
      TRY(ts_expect_name(p, &c->base));
      TRY(ts_expect(p, ")"));
    }
  }
  return class_body(p, c);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* `op_version_set = 1` and imports of very old files mean nothing here. */
static td_status skip_line(ts_parser *p) {
  while (p->lex.token.kind != TS_T_NEWLINE && p->lex.token.kind != TS_T_END) TRY(ts_lex_next(&p->lex));
  return p->lex.token.kind == TS_T_NEWLINE ? ts_lex_next(&p->lex) : TD_OK;
}

static td_status top_level(ts_parser *p, ts_source *source) {
  bool taken;
  TRY(ts_accept(p, "class", &taken));
  if (taken) {
    ts_class_def **slot = base_vec_push(p->arena, &source->classes);
    return slot ? class_def(p, slot) : no_memory(p);
  }
  TRY(ts_accept(p, "def", &taken));
  if (taken) {
    ts_function **slot = base_vec_push(p->arena, &source->functions);
    return slot ? function(p, slot) : no_memory(p);
  }
  if (ts_lex_is(&p->lex, "op_version_set") || ts_lex_is(&p->lex, "import")) return skip_line(p);
  return ts_unexpected(p, "'class' or 'def'");
}

td_status ts_parse(base_arena *arena, base_str text, ts_source *source, td_error *err) {
  ts_parser p = {.arena = arena};
  source->text = text;
  TRY(ts_lex_start(&p.lex, arena, source->file, text, err));
  while (p.lex.token.kind != TS_T_END) TRY(top_level(&p, source));
  return TD_OK;
}

td_status ts_parse_type(base_arena *arena, base_str text, const char *file, ts_expr **type, td_error *err) {
  ts_parser p = {.arena = arena};
  TRY(ts_lex_start(&p.lex, arena, file, text, err));
  TRY(ts_parse_expr(&p, type));
  return end_of_line(&p);
}
