/* lower_loss.c -- losses, said in the calls that PyTorch makes of them: so they promote, broadcast and wrap as those
 * do, and what PyTorch writes in place keeps its type.
 *
 * The rows' data are these calls in reverse Polish notation, words with spaces between them. `a2`: argument 2. `-100`:
 * an int. `x`: what `=x` has taken from the stack; h: 0.5, p: 2 pi, e: 1e-12, l: [-1]. `mul/2`: aten::mul of the last
 * two. `?3 ... ;`: these where argument 3 is given and is not false; `!3 ... ;`: else these. `r3`: the mean or sum, by
 * argument 3. `m2`: argument 2, cut to a whole number where argument 0 holds such. */
#include "import/aten/aten_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DEPTH = 8, NAMES = 32 };

typedef struct said {
  aten_args *c;
  aten_value stack[DEPTH], named[NAMES]; /* by the last five bits of a letter */
  uint32_t count;
  bool skips;
} said;

static aten_value *named(said *s, char name) { return &s->named[name & (NAMES - 1)]; }
static void push(said *s, aten_value v) {
  if (s->count < DEPTH) s->stack[s->count++] = v;
}
static aten_value pop(said *s) { return s->count ? s->stack[--s->count] : ATEN_NOTHING; }

static bool holds(aten_args *c, uint32_t i) {
  const aten_kind kind = c->args[i].kind;
  return kind != ATEN_NONE && (kind != ATEN_BOOL || aten_get_bool(c, i));
}
static aten_value whole(aten_args *c, uint32_t i) {
  const double number = aten_get_float(c, i);
  const bool cut = !base_is_float(aten_dtype_in(c, 0)) && fabs(number) < 0x1p62;
  return cut ? aten_int((int64_t)number) : c->args[i];
}
static void call(said *s, base_str word) {
  char name[64];
  const uint32_t length = (uint32_t)word.length - 2, taken = (uint32_t)(word.at[length + 1] - '0');
  snprintf(name, sizeof name, "aten::%.*s", (int)length, word.at);
  if (taken > s->count) return;
  s->count -= taken;
  push(s, aten_call_of(s->c, name, s->stack + s->count, taken));
}
static void reduce(said *s, uint32_t i) {
  const int64_t how = aten_get_int(s->c, i);
  if (how && !ir_build_failed(s->c->b)) call(s, how == 1 ? BASE_STR("mean/1") : BASE_STR("sum/1"));
}

static void take(said *s, base_str word) {
  const char kind = *word.at;
  const uint32_t i = word.length > 1 ? (uint32_t)(word.at[1] - '0') : 0;
  int64_t number;
  if (base_str_int(word, &number)) push(s, aten_int(number));
  else if (word.length == 1) push(s, *named(s, kind));
  else if (kind == '=') *named(s, word.at[1]) = pop(s);
  else if (kind == '?' || kind == '!') s->skips = holds(s->c, i) != (kind == '?');
  else if (word.length > 2) call(s, word);
  else if (kind == 'r') reduce(s, i);
  else push(s, kind == 'm' ? whole(s->c, i) : s->c->args[i]);
}

aten_value aten_lower_said(aten_args *c) {
  const aten_value last = aten_int(-1);
  said s = {.c = c};
  *named(&s, 'h') = aten_float(0.5);
  *named(&s, 'p') = aten_float(6.283185307179586);
  *named(&s, 'e') = aten_float(1e-12);
  *named(&s, 'l') = aten_list_of(c->a, &last, 1);
  for (const char *at = c->row->data; *at && !ir_build_failed(c->b);) {
    const base_str word = {at, strcspn(at, " ")};
    at += word.length + (at[word.length] == ' ');
    if (*word.at == ';') s.skips = false;
    else if (!s.skips) take(&s, word);
  }
  return pop(&s);
}
