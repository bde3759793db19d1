/* lower_text.c -- texts, and what speaks to people: format, raise. */
#include "import/aten/aten_priv.h"

#include <math.h>

#include <ctype.h>
#include <string.h>

static base_str text_of(aten_args *c, uint32_t i) {
  const aten_value *v = &c->args[i];
  if (v->kind == ATEN_STR && aten_is_known(v)) return aten_str_of(v);
  aten_refuse(c, "a text that is known at import is needed");
  return BASE_STR("");
}

static base_text start(aten_args *c) { return (base_text){.allocator = base_arena_allocator(c->a->arena)}; }
/* The text as a value; frees it. */
static aten_value finish(aten_args *c, base_text *text) {
  aten_value v = ATEN_NOTHING;
  if (text->failed) ir_build_take(c->b, base_no_memory(c->b->err, "a text"));
  else {
    char *copy = aten_alloc(c->a, text->length + 1);
    if (copy && text->length) memcpy(copy, text->at, text->length);
    if (copy) v = aten_str(c->a, (base_str){copy, text->length});
  }
  base_text_free(text);
  return v;
}

aten_value aten_lower_str(aten_args *c) {
  base_text text = start(c);
  aten_print(&c->args[0], &text);
  return finish(c, &text);
}

/* (self, ...): each "{}" is the next argument */
aten_value aten_lower_format(aten_args *c) {
  base_str s = text_of(c, 0);
  base_text text = start(c);
  uint32_t next = 0;
  for (size_t i = 0; i < s.length; i++) {
    if (s.at[i] == '{' && i + 1 < s.length && s.at[i + 1] == '}') {
      if (next < c->extra_count) aten_print(&c->extra[next++], &text);
      else aten_refuse(c, "there are fewer arguments than {}");
      i++;
    } else if ((s.at[i] == '{' || s.at[i] == '}') && i + 1 < s.length && s.at[i + 1] == s.at[i])
      base_text_add(&text, &s.at[i++], 1);
    else base_text_add(&text, &s.at[i], 1);
  }
  return finish(c, &text);
}
/* One value as "%d", "%f" ... say; what is not known yet is named. */
static void print_as(char key, const aten_value *v, base_text *text) {
  const bool number = aten_is_known(v) && (v->kind == ATEN_INT || v->kind == ATEN_FLOAT || v->kind == ATEN_BOOL);
  const double f = !number ? 0 : v->kind == ATEN_FLOAT ? v->u.f : v->kind == ATEN_INT ? (double)v->u.i : v->u.b;
  if (number && strchr("di", key) && v->kind == ATEN_FLOAT) base_text_print(text, "%.0f", trunc(f));
  else if (number && strchr("fF", key)) base_text_print(text, "%f", f);
  else if (number && strchr("eE", key)) base_text_print(text, "%e", f);
  else aten_print(v, text);
}
/* percentFormat(format, value or tuple of them) */
aten_value aten_lower_percent_format(aten_args *c) {
  base_str s = text_of(c, 0);
  base_text text = start(c);
  uint32_t next = 0, count = c->extra_count;
  const aten_value *values = c->extra;
  if (count == 1 && values[0].kind == ATEN_TUPLE) {
    count = values[0].u.list->items.count;
    values = values[0].u.list->items.at;
  }
  for (size_t i = 0; i < s.length; i++) {
    if (s.at[i] != '%' || i + 1 >= s.length) base_text_add(&text, &s.at[i], 1);
    else if (s.at[++i] == '%') base_text_add(&text, "%", 1);
    else if (next < count) print_as(s.at[i], &values[next++], &text);
    else aten_refuse(c, "there are fewer arguments than %%");
  }
  return finish(c, &text);
}
aten_value aten_lower_text_add(aten_args *c) {
  base_text text = start(c);
  base_str x = text_of(c, 0), y = text_of(c, 1);
  base_text_add(&text, x.at, x.length);
  base_text_add(&text, y.at, y.length);
  return finish(c, &text);
}
aten_value aten_lower_text_join(aten_args *c) {
  base_text text = start(c);
  base_str between = text_of(c, 0);
  const aten_value *items = aten_items(c, 1);
  for (uint32_t i = 0; i < aten_list_count(c, 1); i++) {
    if (i) base_text_add(&text, between.at, between.length);
    aten_print(&items[i], &text);
  }
  return finish(c, &text);
}
aten_value aten_lower_text_get(aten_args *c) {
  base_str s = text_of(c, 0);
  int64_t at = aten_get_int(c, 1);
  if (at < 0) at += (int64_t)s.length;
  if (at < 0 || at >= (int64_t)s.length) {
    aten_refuse(c, "position %lld of a text of %zu", (long long)at, s.length);
    return ATEN_NOTHING;
  }
  return aten_str(c->a, (base_str){s.at + at, 1});
}
aten_value aten_lower_text_slice(aten_args *c) {
  base_str s = text_of(c, 0);
  int64_t at = 0, step = 1, count = aten_slice_bounds(c, (int64_t)s.length, &at, &step);
  char *text = aten_alloc(c->a, (size_t)count + 1);
  for (int64_t i = 0; text && i < count; i++) text[i] = s.at[at + i * step];
  return aten_str(c->a, (base_str){text ? text : "", text ? (size_t)count : 0});
}
/* data: "s" startswith, "e" endswith, "f" find, "c" contains */
aten_value aten_lower_text_find(aten_args *c) {
  base_str s = text_of(c, 0), what = text_of(c, 1);
  char how = c->row->data[0];
  int64_t found = -1, last = (int64_t)s.length - (int64_t)what.length;
  for (int64_t i = 0; i <= last && found < 0; i++)
    if (!what.length || memcmp(s.at + i, what.at, what.length) == 0) found = i;
  if (how == 'f') return aten_int(found);
  if (how == 'c') return aten_bool(found >= 0);
  if (how == 's') return aten_bool(found == 0);
  return aten_bool(last >= 0 && (!what.length || memcmp(s.at + last, what.at, what.length) == 0));
}
/* data: "l" lower, "u" upper, "s" strip */
aten_value aten_lower_text_change(aten_args *c) {
  base_str s = text_of(c, 0);
  char how = c->row->data[0];
  base_text text = start(c);
  while (how == 's' && s.length && isspace((unsigned char)s.at[0])) s.at++, s.length--;
  while (how == 's' && s.length && isspace((unsigned char)s.at[s.length - 1])) s.length--;
  for (size_t i = 0; i < s.length; i++) {
    int ch = (unsigned char)s.at[i];
    char to = (char)(how == 'l' ? tolower(ch) : how == 'u' ? toupper(ch) : ch);
    base_text_add(&text, &to, 1);
  }
  return finish(c, &text);
}
/* split(self, separator?, max): only the simple form */
aten_value aten_lower_text_split(aten_args *c) {
  base_str s = text_of(c, 0), by = aten_has(c, 1) ? text_of(c, 1) : BASE_STR(" ");
  aten_value list = aten_list_of(c->a, NULL, 0);
  size_t from = 0;
  if (!by.length || aten_get_int(c, 2) >= 0) aten_refuse(c, "an empty separator, or a limit");
  for (size_t i = 0; by.length && i <= s.length; i++) {
    bool here = i + by.length <= s.length && memcmp(s.at + i, by.at, by.length) == 0;
    if (!here && i < s.length) continue;
    bool skip = !aten_has(c, 1) && i == from; /* runs of spaces are one */
    if (!skip) aten_list_append(c->a, list.u.list, aten_str(c->a, (base_str){s.at + from, i - from}));
    from = i + by.length;
    i += by.length - 1;
  }
  return list;
}

/* ---- to people ---- */

/* (msg, cls?): the run ends there with the message, as far as import knows it. */
aten_value aten_lower_raise(aten_args *c) {
  base_text text = start(c);
  aten_print(&c->args[0], &text);
  char *copy = ir_build_alloc(c->b, text.length + 1);
  if (copy && text.length) memcpy(copy, text.at, text.length);
  base_text_free(&text);
  base_arg arg = ARG_STR("message", copy ? copy : "");
  ir_emit(c->b, "prim::RaiseException", NULL, 0, &arg, 1);
  return ATEN_NOTHING;
}

/* ---- print ---- */

enum { PLACE_TENSOR = 1, PLACE_NUMBER = 2 }; /* see ops/aten/print.c */

typedef struct printing {
  aten *a;
  base_text text;
  BASE_VEC(ir_value) operands;
} printing;

static void print_place(printing *p, char place, ir_value v) {
  ir_value *slot = base_vec_push(p->a->arena, &p->operands);
  if (slot) *slot = v;
  else ir_build_take(p->a->b, base_no_memory(p->a->b->err, "what the model prints"));
  base_text_add(&p->text, &place, 1);
}

static void print_value(printing *p, const aten_value *v);

static void print_items(printing *p, const aten_list *list, const char *open, const char *close) {
  base_text_print(&p->text, "%s", open);
  for (uint32_t i = 0; i < list->items.count && !ir_build_failed(p->a->b); i++) {
    if (i) base_text_print(&p->text, ", ");
    print_value(p, &list->items.at[i]);
  }
  base_text_print(&p->text, "%s", close);
}

static void print_dict(printing *p, const aten_dict *dict) {
  base_text_print(&p->text, "{");
  for (uint32_t i = 0; i < dict->keys.count && !ir_build_failed(p->a->b); i++) {
    if (i) base_text_print(&p->text, ", ");
    print_value(p, &dict->keys.at[i]);
    base_text_print(&p->text, ": ");
    print_value(p, &dict->values.at[i]);
  }
  base_text_print(&p->text, "}");
}

/* Texts without the bytes that stand for operands. */
static void print_text(printing *p, base_str s) {
  for (size_t i = 0; i < s.length; i++) {
    const bool is_place = s.at[i] == PLACE_TENSOR || s.at[i] == PLACE_NUMBER || s.at[i] == 0;
    base_text_add(&p->text, is_place ? "?" : &s.at[i], 1);
  }
}

static void print_value(printing *p, const aten_value *v) {
  const bool number = v->kind == ATEN_INT || v->kind == ATEN_FLOAT || v->kind == ATEN_BOOL;
  if (v->kind == ATEN_TENSOR && !v->u.tensor->is_complex && !v->u.tensor->quant)
    print_place(p, PLACE_TENSOR, aten_read(p->a, v));
  else if (number) print_place(p, PLACE_NUMBER, aten_graph_value(p->a, v));
  else if (v->kind == ATEN_STR && aten_is_known(v)) print_text(p, aten_str_of(v));
  else if (v->kind == ATEN_LIST && aten_is_known(v)) print_items(p, v->u.list, "[", "]");
  else if (v->kind == ATEN_TUPLE) print_items(p, v->u.list, "(", v->u.list->items.count == 1 ? ",)" : ")");
  else if (v->kind == ATEN_DICT) print_dict(p, v->u.dict);
  else if (v->kind == ATEN_NONE || v->kind == ATEN_DEVICE) aten_print(v, &p->text);
  else base_text_print(&p->text, "<%s>", aten_kind_name(v));
}

/* Every argument, with blanks between them, and the end of the line. */
aten_value aten_lower_print(aten_args *c) {
  printing p = {.a = c->a, .text = start(c)};
  for (uint32_t i = 0; i < c->extra_count && !ir_build_failed(c->b); i++) {
    if (i) base_text_print(&p.text, " ");
    print_value(&p, &c->extra[i]);
  }
  base_text_print(&p.text, "\n");
  char *copy = ir_build_alloc(c->b, p.text.length + 1);
  if (copy) memcpy(copy, p.text.at, p.text.length);
  if (p.text.failed) ir_build_take(c->b, base_no_memory(c->b->err, "what the model prints"));
  base_text_free(&p.text);
  base_arg arg = ARG_STR("text", copy ? copy : "");
  ir_emit(c->b, "prim::Print", p.operands.at, p.operands.count, &arg, 1);
  return ATEN_NOTHING;
}

/* _assert_async, _assert_scalar ...: (condition, message?) -- known conditions are checked here */
aten_value aten_lower_assert(aten_args *c) {
  const aten_value *v = &c->args[0];
  bool is_number = v->kind == ATEN_BOOL || v->kind == ATEN_INT;
  if (is_number && aten_is_known(v) && !(v->kind == ATEN_BOOL ? v->u.b : v->u.i != 0)) {
    const char *message = c->schema->count > 1 ? aten_get_str(c, 1) : "";
    aten_refuse(c, "the assertion fails: %s", message);
  }
  return ATEN_NOTHING;
}
