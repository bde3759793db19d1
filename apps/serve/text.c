/* text.c -- TorchServe's text_classifier: a text becomes the words and pairs of words of a vocabulary, for a model of
 * EmbeddingBag's form (tokens, offsets); the answer has the probability of each class. The vocabulary is JSON
 * (source_vocab.json, word to number): TorchServe's is a pickle, which is never executed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fmt/json.h"
#include "server.h"

static td_status bad(td_error *err, const char *text) { return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "%s", text); }

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_small(char c) { return c >= 'a' && c <= 'z'; }
static char small(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }
static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f); }

/* ---- cleaning: each step works in place, what it leaves is never longer but for contractions ---- */

/* The length of a tag or a character reference at the front; 0: none is there. A tag ends on its line. */
static size_t markup(const char *at, const char *end) {
  const char *p = at + 1;
  if (*at == '<') {
    while (p < end && *p != '>' && *p != '\n') p++;
    return p < end && *p == '>' ? (size_t)(p + 1 - at) : 0;
  }
  if (*at != '&') return 0;
  const bool number = p < end && *p == '#', hexadecimal = number && p + 1 < end && p[1] == 'x';
  p += number + hexadecimal;
  const char *first = p;
  while (p < end && (is_digit(*p) || (hexadecimal && *p >= 'a' && *p <= 'f') || (!number && is_small(*p)))) p++;
  const bool fits = p > first && (!number || p - first <= 6);
  return fits && p < end && *p == ';' ? (size_t)(p + 1 - at) : 0;
}

static void remove_markup(char *text, size_t *length) {
  const char *end = text + *length;
  char *to = text;
  for (const char *at = text; at < end;) {
    const size_t skip = markup(at, end);
    if (!skip) *to++ = *at;
    at += skip ? skip : 1;
  }
  *length = (size_t)(to - text);
}

static const struct contraction {
  const char *from, *to;
} contractions[] = {
#define C(from, to) {from, to},
#include "contractions.def"
#undef C
};
enum { CONTRACTIONS = sizeof contractions / sizeof *contractions };

/* The text in small letters, contractions written out; in the arena. */
static td_status expand(base_arena *arena, const char *from, size_t length, char **text, size_t *count, td_error *err) {
  base_text out = {.allocator = &base_libc_allocator};
  char *low = base_arena_slice(arena, from, length);
  if (!low) return base_no_memory(err, "a text");
  for (size_t i = 0; i < length; i++) low[i] = small(low[i]);
  for (size_t i = 0, plain = 0; i <= length;) {
    const struct contraction *c = contractions;
    while (c < contractions + CONTRACTIONS &&
           (length - i < strlen(c->from) || memcmp(low + i, c->from, strlen(c->from)) != 0))
      c++;
    const bool found = c < contractions + CONTRACTIONS;
    if (!found && i < length) {
      i++;
      continue;
    }
    base_text_add(&out, low + plain, i - plain);
    if (!found) break;
    base_text_add(&out, low + i, 1); /* its first letter, and of the words all but theirs */
    base_text_print(&out, "%s", c->to + 1);
    i += strlen(c->from);
    plain = i;
  }
  *text = out.failed ? NULL : base_arena_slice(arena, out.at ? out.at : "", out.length);
  *count = out.length;
  base_text_free(&out);
  return *text ? TD_OK : base_no_memory(err, "a text");
}

typedef struct accent {
  uint16_t code;
  char text[6];
} accent;

static const accent accents[] = {
#define A(code, text) {code, text},
#include "accents.def"
#undef A
};
enum { ACCENTS = sizeof accents / sizeof *accents };

static int by_code(const void *key, const void *row) {
  const uint32_t code = *(const uint32_t *)key;
  return code < ((const accent *)row)->code ? -1 : code > ((const accent *)row)->code;
}

/* To ASCII without punctuation. UTF-8's characters are as long as what is left of them, but for a few: those are cut to
 * their room, which no word of a vocabulary depends on. */
static td_status reduce(char *text, size_t *length, td_error *err) {
  const uint8_t *at = (const uint8_t *)text, *end = at + *length;
  char *to = text;
  while (at < end) {
    uint32_t code;
    if (!base_utf8_next(&at, end, &code)) return bad(err, "the text is no UTF-8");
    if (code < 0x80) {
      const char c = small((char)code);
      if (is_small(c) || is_digit(c) || (c && c <= ' ') || c == 0x7f) *to++ = c;
      continue;
    }
    const accent *found = bsearch(&code, accents, ACCENTS, sizeof *accents, by_code);
    for (const char *s = found ? found->text : ""; *s && to < (const char *)at; s++) *to++ = *s;
  }
  *length = (size_t)(to - text);
  return TD_OK;
}

/* ---- words ---- */

typedef struct words {
  char *text;      /* with a NUL behind each word */
  int64_t *tokens; /* of each word, then of each pair */
  int64_t count;
} words;

static td_status look_up(const serve_version *v, const char *word, int64_t *token, td_error *err) {
  const fmt_json *found = fmt_json_get(v->vocabulary, word);
  if (!found) found = fmt_json_get(v->vocabulary, "<unk>");
  if (!fmt_json_is(found, FMT_JSON_INT))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "the vocabulary has neither '%.100s' nor <unk>", word);
  *token = found->u.i;
  return TD_OK;
}

/* Words are what stands between spaces. Pairs have one space between them, as they had words have a NUL. */
static td_status take_words(serve_job *job, char *text, size_t length, words *w, td_error *err) {
  const char **starts = base_new(job->arena, const char *, length / 2 + 2);
  char *clean = base_arena_slice(job->arena, text, length);
  int64_t count = 0;
  if (!starts || !clean) return base_no_memory(err, "words");
  size_t to = 0;
  for (size_t i = 0; i < length;) {
    while (i < length && is_space(text[i])) i++;
    if (i == length) break;
    starts[count++] = clean + to;
    while (i < length && !is_space(text[i])) clean[to++] = text[i++];
    clean[to++] = 0;
  }
  w->count = count ? 2 * count - 1 : 0;
  w->tokens = base_new(job->arena, int64_t, (size_t)w->count + 1);
  if (!w->tokens) return base_no_memory(err, "words");
  for (int64_t i = 0; i < count; i++) TRY(look_up(job->version, starts[i], &w->tokens[i], err));
  for (int64_t i = 0; i + 1 < count; i++) {
    char *gap = clean + (starts[i + 1] - clean) - 1;
    *gap = ' ';
    TRY(look_up(job->version, starts[i], &w->tokens[count + i], err));
    *gap = 0;
  }
  return count ? TD_OK : bad(err, "the text has no words");
}

static td_status read_text(serve_job *job, td_error *err) {
  words w = {0};
  size_t length = job->count;
  char *text = job->count ? base_arena_slice(job->arena, job->body, job->count) : NULL;
  if (td_model_input_count(job->version->model) != 2)
    return base_fail(err, TD_UNSUPPORTED, NULL, -1, "this model does not take tokens and offsets");
  if (!text) return job->count ? base_no_memory(err, "a text") : bad(err, "the request has no text");
  remove_markup(text, &length);
  TRY(expand(job->arena, text, length, &text, &length, err));
  TRY(reduce(text, &length, err));
  TRY(take_words(job, text, length, &w, err));
  int64_t *offset = base_new(job->arena, int64_t, 1);
  if (!offset) return base_no_memory(err, "a text");
  job->inputs[0] = (td_tensor){.dtype = TD_I64, .rank = 1, .dims = {w.count}, .data = w.tokens};
  job->inputs[1] = (td_tensor){.dtype = TD_I64, .rank = 1, .dims = {1}, .data = offset};
  return TD_OK;
}

static td_status write_text(serve_job *job, const td_tensor *outputs, td_error *err) {
  const td_tensor *t = &outputs[0];
  if (!base_is_float(t->dtype) || t->rank != 2 || t->dims[0] != 1)
    return base_fail(err, TD_UNSUPPORTED, NULL, -1, "this model does not classify: POST to /v2/models/NAME/infer");
  return serve_print_classes(job, t, 0, err);
}

const serve_protocol serve_text = {read_text, write_text};
