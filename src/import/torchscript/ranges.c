/* ranges.c -- where the user wrote a line: the source ranges that stand beside each source file, in *.debug_pkl. The
 * form is ("FORMAT_WITH_STRING_TABLE", (strings...), ((offset, (([pieces...], file, line), start, end), tag)...)), and
 * before PyTorch 1.12 [(offset, ((text, file, line), start, end), tag)...]. It helps people and nothing depends on it:
 * a table that is damaged is a table that is not there. */
#include <stdio.h>
#include <string.h>

#include "import/torchscript/ts_priv.h"

typedef struct range {
  uint32_t offset; /* in the archive's text, from which on it holds */
  int64_t line;
  base_str file; /* "model.py", without folders; length 0: not known */
} range;

struct ts_ranges {
  range *at; /* their offsets rise */
  uint32_t count;
};

static const fmt_object *item(const fmt_object *o, uint32_t index) {
  bool holds = o && (o->kind == FMT_OBJ_TUPLE || o->kind == FMT_OBJ_LIST);
  return holds && index < o->u.items.count ? o->u.items.at[index] : NULL;
}

static bool number(const fmt_object *o, int64_t *value) {
  if (!o || o->kind != FMT_OBJ_INT) return false;
  *value = o->u.i;
  return true;
}

/* A text, or the number of one in the table. */
static base_str text_of(const fmt_object *o, const fmt_object *strings) {
  int64_t index;
  if (number(o, &index) && index >= 0 && index <= UINT32_MAX) o = item(strings, (uint32_t)index);
  return o && o->kind == FMT_OBJ_STR ? o->u.str : (base_str){"", 0};
}

static base_str base_name(base_str path) {
  for (size_t i = path.length; i > 0; i--)
    if (path.at[i - 1] == '/' || path.at[i - 1] == '\\') return (base_str){path.at + i, path.length - i};
  return path;
}

/* A text in pieces, and how many of its lines end before `start`: neighbours lie in one text, the later one mostly
 * behind the other. */
typedef struct counted {
  const fmt_object *pieces, *strings;
  int64_t start, lines;
} counted;

static int64_t lines_between(base_str text, int64_t from, int64_t to) {
  int64_t lines = 0;
  if (to > (int64_t)text.length) to = (int64_t)text.length;
  while (from < to) {
    const char *end = memchr(text.at + from, '\n', (size_t)(to - from));
    if (!end) break;
    lines++;
    from = end + 1 - text.at;
  }
  return lines;
}

static void count_lines(counted *c, const fmt_object *pieces, int64_t start) {
  if (c->pieces != pieces || start < c->start) *c = (counted){.pieces = pieces, .strings = c->strings};
  bool whole = pieces && pieces->kind == FMT_OBJ_STR;
  int64_t before = 0; /* bytes of the pieces so far */
  for (uint32_t i = 0; before < start && (whole ? i == 0 : item(pieces, i) != NULL); i++) {
    const base_str text = whole ? pieces->u.str : text_of(item(pieces, i), c->strings);
    c->lines += lines_between(text, c->start > before ? c->start - before : 0, start - before);
    before += (int64_t)text.length;
  }
  c->start = start;
}

static range read_range(const fmt_object *o, counted *c) {
  const fmt_object *where = item(o, 1), *source = item(where, 0);
  int64_t offset = 0, start = 0;
  range r = {.file = {"", 0}};
  if (!number(item(o, 0), &offset) || offset < 0 || offset > UINT32_MAX) return r;
  r.offset = (uint32_t)offset;
  if (!number(item(where, 1), &start) || !number(item(source, 2), &r.line)) return r;
  count_lines(c, item(source, 0), start);
  if (base_add_i64(r.line, c->lines, &r.line)) r.file = base_name(text_of(item(source, 1), c->strings));
  return r;
}

/* What stays of `root`, which does not. */
static void read_ranges(ts_archive *ar, const fmt_object *root, ts_ranges *ranges) {
  const fmt_object *first = item(root, 0), *entries = root;
  counted c = {0};
  if (first && first->kind == FMT_OBJ_STR) {
    c.strings = item(root, 1);
    entries = item(root, 2);
  }
  bool holds = entries && (entries->kind == FMT_OBJ_TUPLE || entries->kind == FMT_OBJ_LIST);
  if (holds) ranges->at = base_new(ar->arena, range, entries->u.items.count);
  for (uint32_t i = 0; ranges->at && i < entries->u.items.count; i++) {
    const range *last = ranges->count ? &ranges->at[ranges->count - 1] : NULL;
    range r = read_range(entries->u.items.at[i], &c);
    if (last && r.offset < last->offset) continue; /* they rise */
    const bool same = last && base_str_equal(last->file, r.file);
    r.file.at = same ? last->file.at : base_arena_slice(ar->arena, r.file.at, r.file.length);
    if (!r.file.at) return;
    ranges->at[ranges->count++] = r;
  }
}

static ts_ranges *load_ranges(ts_archive *ar, const ts_source *source) {
  char *name = base_arena_format(ar->arena, "%s.debug_pkl", source->file);
  const fmt_zip_entry *e = name ? fmt_zip_member(&ar->zip, ar->folder, base_str_of(name)) : NULL;
  ts_ranges *ranges = base_new(ar->arena, ts_ranges, 1);
  base_arena *scratch =
      ranges && e && e->bytes / 64 <= ar->size ? base_arena_new(base_arena_allocator(ar->arena)) : NULL;
  const uint8_t *data;
  size_t at = 0;
  fmt_object *root = NULL;
  if (scratch && fmt_zip_read(scratch, &ar->zip, e, &data, NULL) == TD_OK &&
      fmt_pickle_read(scratch, data, e->bytes, &at, &root, NULL) == TD_OK)
    read_ranges(ar, root, ranges);
  base_arena_free(scratch);
  return ranges;
}

static const range *find(const ts_ranges *ranges, uint32_t offset) {
  uint32_t low = 0, high = ranges->count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (ranges->at[middle].offset <= offset) low = middle + 1;
    else high = middle;
  }
  return low && ranges->at[low - 1].file.length ? &ranges->at[low - 1] : NULL;
}

const char *ts_user_place(ts_archive *ar, ts_source *source, ts_place place, base_str function) {
  if (!source->ranges) source->ranges = load_ranges(ar, source);
  const range *r = source->ranges ? find(source->ranges, place.offset) : NULL;
  const char *in = function.length ? ", in " : "";
  if (r)
    return base_arena_format(ar->arena, "%.*s:%lld%s%.*s", (int)r->file.length, r->file.at, (long long)r->line, in,
                             (int)function.length, function.at);
  return base_arena_format(ar->arena, "%s:%u%s%.*s", source->file, place.line, in, (int)function.length, function.at);
}

/* ---- places that are looked up when somebody asks ---------------------------------------------------------------- */

/* Bytes of `text` in front of the line that holds `offset`. */
static size_t line_start(base_str text, size_t offset) {
  const char *end = offset <= text.length ? memrchr(text.at, '\n', offset) : NULL;
  return end ? (size_t)(end + 1 - text.at) : 0;
}

const char *ts_brief_place(ts_archive *ar, const ts_source *source, ts_place place, base_str function) {
  return base_arena_format(ar->arena, "%s:%u:%zu%s%.*s", source->file, place.line,
                           place.offset - line_start(source->text, place.offset), function.length ? ", in " : "",
                           (int)function.length, function.at);
}

/* What ts_brief_place has written at `at` but for the function; *end behind it. False: nothing of it. */
static bool read_brief(ts_archive *ar, const char *at, ts_source **source, ts_place *place, const char **end) {
  static const char folder[] = "code/", suffix[] = ".py:";
  const char *path = at + sizeof folder - 1, *behind = strstr(path, suffix);
  unsigned line, column;
  int used = 0;
  size_t start = 0;
  if (!behind || memchr(path, ' ', (size_t)(behind - path)) ||
      sscanf(behind + sizeof suffix - 1, "%9u:%9u%n", &line, &column, &used) < 2)
    return false;
  if (ts_archive_source(ar, (base_str){path, (size_t)(behind - path)}, source) != TD_OK || !*source) return false;
  const base_str text = (*source)->text;
  for (unsigned i = 1; i < line; i++) {
    const char *next = memchr(text.at + start, '\n', text.length - start);
    if (!next) return false;
    start = (size_t)(next + 1 - text.at);
  }
  *end = behind + sizeof suffix - 1 + used;
  *place = (ts_place){(uint32_t)(start + column), line};
  return true;
}

const char *ts_tell(ts_archive *ar, const char *text) {
  for (const char *at = text; (at = strstr(at, "code/"));) {
    ts_source *source;
    ts_place place;
    const char *end;
    if (!read_brief(ar, at, &source, &place, &end)) {
      at++;
      continue;
    }
    const char *told = ts_user_place(ar, source, place, (base_str){"", 0});
    const size_t before = (size_t)(at - text);
    char *whole = told ? base_arena_format(ar->arena, "%.*s%s%s", (int)before, text, told, end) : NULL;
    if (!whole) break;
    text = whole;
    at = whole + before + strlen(told);
  }
  return text;
}
