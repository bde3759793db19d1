/* json.c -- reading JSON. Values of open arrays and objects stand on a stack, and move into the arena together when
 * theirs is closed. */
#include "fmt/json.h"

#include <stdlib.h>
#include <string.h>

enum {
  FEW = 12, /* members that are found by looking at each */
  AHEAD = 8 /* zeros behind the document */
};

typedef struct reader {
  base_arena *arena, *scratch;
  char *at, *end, *start;   /* *end is 0 */
  BASE_VEC(fmt_json) stack; /* in `scratch` */
  const char *wrong;        /* what is, at `at`; NULL: nothing so far */
  bool no_memory;
} reader;

static bool fail(reader *r, const char *why) {
  if (!r->wrong) r->wrong = why;
  return false;
}

static bool lack(reader *r) {
  r->no_memory = true;
  return fail(r, "out of memory");
}

static void skip_space(reader *r) {
  while (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t') r->at++;
}

/* ---- texts ---- */

/* Four hexadecimal digits behind *at, which goes behind them; -1: they are none. */
static long read_code(char **at) {
  long code = 0;
  for (int i = 0; i < 4; i++) {
    const char c = (*at)[i];
    const int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
    if (digit < 0) return -1;
    code = code * 16 + digit;
  }
  *at += 4;
  return code;
}

/* The character that stands at *at behind \u, with its other half where it has one; <= 0: there is none. */
static long read_character(char **at) {
  const long code = read_code(at);
  if (code < 0xd800 || code > 0xdfff) return code;
  if (code > 0xdbff || (*at)[0] != '\\' || (*at)[1] != 'u') return -1;
  *at += 2;
  const long other = read_code(at);
  return other < 0xdc00 || other > 0xdfff ? -1 : 0x10000 + ((code - 0xd800) << 10) + (other - 0xdc00);
}

static char *put_utf8(char *to, long c) {
  static const struct {
    long below;
    int more, mark;
  } forms[] = {{0x80, 0, 0}, {0x800, 1, 0xc0}, {0x10000, 2, 0xe0}, {0x110000, 3, 0xf0}};
  int form = 0;
  while (c >= forms[form].below) form++;
  *to++ = (char)(forms[form].mark | c >> 6 * forms[form].more);
  for (int i = forms[form].more; i-- > 0;) *to++ = (char)(0x80 | (c >> 6 * i & 0x3f));
  return to;
}

/* What stands behind a backslash, to `to`, which is never behind it; NULL: nothing that may. */
static char *read_escape(reader *r, char *to) {
  static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
  const char c = *r->at++;
  const char *found = c ? strchr(names, c) : NULL;
  if (found) {
    *to++ = meanings[found - names];
    return to;
  }
  const long code = c == 'u' ? read_character(&r->at) : 0;
  return code > 0 ? put_utf8(to, code) : NULL;
}

/* Does one of eight bytes end what stands in a text as it is: a quote, a backslash, a control character? */
static bool ends_plain(uint64_t bytes) {
  const uint64_t each = UINT64_MAX / 255, quotes = bytes ^ each * '"', slashes = bytes ^ each * '\\';
  const uint64_t below = ((quotes - each) & ~quotes) | ((slashes - each) & ~slashes) | ((bytes - each * ' ') & ~bytes);
  return below & each * 0x80;
}

/* The first byte that is not plain; there is one, and AHEAD bytes behind it may be read. */
static char *skip_plain(char *at) {
  uint64_t bytes;
  for (;; at += sizeof bytes) {
    memcpy(&bytes, at, sizeof bytes);
    if (ends_plain(bytes)) break;
  }
  while (*at != '"' && *at != '\\' && (unsigned char)*at >= ' ') at++;
  return at;
}

/* From behind the opening quote; decoded in place. */
static bool read_text(reader *r, fmt_json *v) {
  char *const text = r->at, *to = text;
  for (;;) {
    char *const from = r->at;
    r->at = skip_plain(from);
    if (to != from) memmove(to, from, (size_t)(r->at - from));
    to += r->at - from;
    if (*r->at == '"') break;
    if (*r->at != '\\') return fail(r, r->at == r->end ? "an unterminated string" : "a control character in a string");
    r->at++;
    to = read_escape(r, to);
    if (!to) return fail(r, "there is no such escape in a text");
  }
  *v = (fmt_json){.kind = FMT_JSON_TEXT, .count = (uint32_t)(to - text), .u.text = text};
  r->at++;
  *to = 0;
  return true;
}

/* ---- numbers and words ---- */

static bool skip_digits(reader *r) {
  const char *from = r->at;
  while (*r->at >= '0' && *r->at <= '9') r->at++;
  return r->at > from || fail(r, "a digit is missing");
}

static bool read_number(reader *r, fmt_json *v) {
  char *const from = r->at;
  r->at += *r->at == '-';
  const bool zero = *r->at == '0';
  char *const digits = r->at;
  bool whole = true;
  if (!skip_digits(r)) return false;
  if (zero && r->at - digits > 1) return fail(r, "a number begins with 0");
  if (*r->at == '.') {
    whole = false;
    r->at++;
    if (!skip_digits(r)) return false;
  }
  if (*r->at == 'e' || *r->at == 'E') {
    whole = false;
    r->at++;
    r->at += *r->at == '-' || *r->at == '+';
    if (!skip_digits(r)) return false;
  }
  *v = (fmt_json){.kind = FMT_JSON_INT};
  if (whole && base_str_int((base_str){from, (size_t)(r->at - from)}, &v->u.i)) return true;
  *v = (fmt_json){.kind = FMT_JSON_FLOAT, .u.f = strtod(from, NULL)};
  return true;
}

static bool read_word(reader *r, fmt_json *v) {
  static const struct {
    const char *word;
    fmt_json_kind kind;
  } words[] = {{"null", FMT_JSON_NULL}, {"true", FMT_JSON_TRUE}, {"false", FMT_JSON_FALSE}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    const size_t length = strlen(words[i].word);
    if (strncmp(r->at, words[i].word, length) != 0) continue;
    r->at += length;
    *v = (fmt_json){.kind = words[i].kind};
    return true;
  }
  return fail(r, "a value is expected here");
}

/* ---- arrays and objects ---- */

static bool push(reader *r, const fmt_json *v) {
  fmt_json *slot = base_vec_push(r->scratch, &r->stack);
  if (!slot) return lack(r);
  *slot = *v;
  return true;
}

static bool same_text(const fmt_json *v, const char *text, size_t length) {
  return v->count == length && memcmp(v->u.text, text, length) == 0;
}

/* Are the names of the `count` members at `items` all different? Those of a large object get a map. */
static bool check_names(reader *r, const fmt_json *items, uint32_t count, base_map **map) {
  static const char twice[] = "two members of an object have the same name";
  *map = count > FEW ? base_new(r->arena, base_map, 1) : NULL;
  if (count > FEW && !*map) return lack(r);
  for (uint32_t i = 0; i < count; i++) {
    const fmt_json *name = &items[2 * (size_t)i];
    bool existed = false;
    if (*map && !base_map_put(*map, r->arena, (base_str){name->u.text, name->count}, i, &existed)) return lack(r);
    for (uint32_t j = 0; !*map && j < i; j++) existed |= same_text(&items[2 * (size_t)j], name->u.text, name->count);
    if (existed) return fail(r, twice);
  }
  return true;
}

/* What stands on the stack from `base` on becomes the array or object *v. */
static bool close(reader *r, uint32_t base, fmt_json *v) {
  const uint32_t values = r->stack.count - base;
  fmt_json *items = base_arena_alloc_uncleared(r->arena, (values + (size_t)1) * sizeof *items, 16);
  if (!items) return lack(r);
  if (values) memcpy(items, r->stack.at + base, values * sizeof *items);
  r->stack.count = base;
  v->count = values;
  v->u.items = items;
  if (v->kind == FMT_JSON_ARRAY) return true;
  base_map *map;
  v->count = values / 2;
  if (!check_names(r, items, v->count, &map)) return false;
  items[values] = (fmt_json){.u.map = map};
  return true;
}

static bool read_value(reader *r, uint32_t depth, fmt_json *v);

static bool read_member(reader *r, uint32_t depth, bool named) {
  fmt_json v;
  if (named) {
    if (*r->at != '"') return fail(r, "a member has no name");
    r->at++;
    if (!read_text(r, &v) || !push(r, &v)) return false;
    skip_space(r);
    if (*r->at != ':') return fail(r, "a colon is missing");
    r->at++;
  }
  return read_value(r, depth, &v) && push(r, &v);
}

/* From behind the opening bracket. */
static bool read_many(reader *r, uint32_t depth, fmt_json_kind kind, fmt_json *v) {
  const char closing = kind == FMT_JSON_ARRAY ? ']' : '}';
  const uint32_t base = r->stack.count;
  *v = (fmt_json){.kind = kind};
  if (depth == FMT_JSON_DEPTH) return fail(r, "it is nested too deeply");
  skip_space(r);
  for (bool first = true; *r->at != closing || !first; first = false) {
    if (!read_member(r, depth + 1, kind == FMT_JSON_OBJECT)) return false;
    skip_space(r);
    if (*r->at == closing) break;
    if (*r->at != ',') return fail(r, "a comma is missing");
    r->at++;
    skip_space(r);
  }
  r->at++;
  return close(r, base, v);
}

static bool read_value(reader *r, uint32_t depth, fmt_json *v) {
  skip_space(r);
  const char c = *r->at;
  if (c == '-' || (c >= '0' && c <= '9')) return read_number(r, v);
  if (c != '"' && c != '[' && c != '{') return read_word(r, v);
  r->at++;
  if (c == '"') return read_text(r, v);
  return read_many(r, depth, c == '[' ? FMT_JSON_ARRAY : FMT_JSON_OBJECT, v);
}

static td_status say(const reader *r, const char *what, const char *bytes, td_error *err) {
  unsigned line = 1;
  if (r->no_memory) return base_no_memory(err, what);
  const char *const wrong = bytes + ((r->at < r->end ? r->at : r->end) - r->start);
  for (const char *at = bytes; at < wrong; at++) line += *at == '\n';
  return base_fail(err, TD_BAD_FILE, NULL, wrong - bytes, "%s is no JSON: line %u: %s", what, line, r->wrong);
}

td_status fmt_json_read(base_arena *arena, const char *what, const void *bytes, size_t size, const fmt_json **root,
                        td_error *err) {
  reader r = {.arena = arena};
  fmt_json *value = base_new(arena, fmt_json, 1);
  *root = NULL;
  if (size > UINT32_MAX / 2) return base_fail(err, TD_UNSUPPORTED, NULL, -1, "%s is larger than 2 GiB", what);
  r.start = r.at = base_arena_alloc_uncleared(arena, size + AHEAD, 16);
  r.scratch = value && r.start ? base_arena_new(base_arena_allocator(arena)) : NULL;
  if (!r.scratch) return base_no_memory(err, what);
  memcpy(r.start, bytes, size);
  r.end = r.start + size;
  memset(r.end, 0, AHEAD);
  if (read_value(&r, 0, value)) {
    skip_space(&r);
    if (r.at != r.end) fail(&r, "text after its end");
  }
  base_arena_free(r.scratch);
  if (r.wrong) return say(&r, what, bytes, err);
  *root = value;
  return TD_OK;
}

/* ---- looking into values ---- */

const fmt_json *fmt_json_get(const fmt_json *object, const char *name) {
  if (!fmt_json_is(object, FMT_JSON_OBJECT)) return NULL;
  const size_t length = strlen(name);
  if (object->count > FEW) {
    const uint32_t *at = base_map_get(object->u.items[2 * (size_t)object->count].u.map, (base_str){name, length});
    return at ? &object->u.items[2 * (size_t)*at + 1] : NULL;
  }
  for (size_t i = 0; i < object->count; i++)
    if (same_text(&object->u.items[2 * i], name, length)) return &object->u.items[2 * i + 1];
  return NULL;
}

const fmt_json *fmt_json_at(const fmt_json *array, size_t index) {
  return index < fmt_json_count(array) ? &array->u.items[index] : NULL;
}

size_t fmt_json_count(const fmt_json *array) { return fmt_json_is(array, FMT_JSON_ARRAY) ? array->count : 0; }

const fmt_json *fmt_json_member(const fmt_json *object, size_t index, const char **name) {
  if (!fmt_json_is(object, FMT_JSON_OBJECT) || index >= object->count) return NULL;
  *name = object->u.items[2 * index].u.text;
  return &object->u.items[2 * index + 1];
}

const char *fmt_json_text(const fmt_json *value) { return fmt_json_is(value, FMT_JSON_TEXT) ? value->u.text : NULL; }
