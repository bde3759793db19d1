/* ranges.c -- where the user wrote a line: the source ranges that stand beside each source file, in *.debug_pkl. The
 * form is ("FORMAT_WITH_STRING_TABLE", (strings...), ((offset, (([pieces...], file, line), start, end), tag)...)), and
 * before PyTorch 1.12 [(offset, ((text, file, line), start, end), tag)...]. It helps people and nothing depends on it:
 * a table that is damaged is a table that is not there. */
#include "import/torchscript/ts_priv.h"

typedef struct range {
  uint32_t offset; /* in the archive's text, from which on it holds */
  base_str file;   /* "model.py", without folders; length 0: not known */
  int64_t line;
} range;

struct ts_ranges {
  range *at;
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

/* Lines in the first *left bytes of a piece of text; *left becomes what is to be looked at behind it. */
static int64_t lines_in(base_str text, int64_t *left) {
  int64_t lines = 0, length = (int64_t)text.length < *left ? (int64_t)text.length : *left;
  for (int64_t i = 0; i < length; i++) lines += text.at[i] == '\n';
  *left -= length;
  return lines;
}

static range read_range(const fmt_object *o, const fmt_object *strings) {
  const fmt_object *where = item(o, 1), *source = item(where, 0), *pieces = item(source, 0);
  int64_t offset = 0, start = 0, line = 0;
  range r = {.file = {"", 0}};
  if (!number(item(o, 0), &offset) || offset < 0 || offset > UINT32_MAX) return r;
  r.offset = (uint32_t)offset;
  if (!number(item(where, 1), &start) || !number(item(source, 2), &line)) return r;
  r.file = base_name(text_of(item(source, 1), strings));
  if (pieces && pieces->kind == FMT_OBJ_STR) line += lines_in(pieces->u.str, &start);
  for (uint32_t i = 0; item(pieces, i) && start > 0; i++) line += lines_in(text_of(item(pieces, i), strings), &start);
  r.line = line;
  return r;
}

static ts_ranges *read_ranges(ts_archive *ar, const fmt_object *root) {
  const fmt_object *first = item(root, 0), *strings = NULL, *entries = root;
  ts_ranges *ranges = base_new(ar->arena, ts_ranges, 1);
  if (first && first->kind == FMT_OBJ_STR) {
    strings = item(root, 1);
    entries = item(root, 2);
  }
  bool holds = entries && (entries->kind == FMT_OBJ_TUPLE || entries->kind == FMT_OBJ_LIST);
  if (!ranges || !holds) return ranges;
  ranges->at = base_new(ar->arena, range, entries->u.items.count);
  for (uint32_t i = 0; ranges->at && i < entries->u.items.count; i++) {
    range r = read_range(entries->u.items.at[i], strings);
    if (ranges->count && r.offset < ranges->at[ranges->count - 1].offset) continue; /* they rise */
    ranges->at[ranges->count++] = r;
  }
  return ranges;
}

static ts_ranges *load_ranges(ts_archive *ar, const ts_source *source) {
  char *name = base_arena_format(ar->arena, "%s.debug_pkl", source->file);
  const fmt_zip_entry *e = name ? fmt_zip_member(&ar->zip, ar->folder, base_str_of(name)) : NULL;
  const uint8_t *data;
  size_t at = 0;
  fmt_object *root = NULL;
  bool sane = e && e->bytes / 64 <= ar->size;
  if (!sane || fmt_zip_read(ar->arena, &ar->zip, e, &data, NULL) != TD_OK ||
      fmt_pickle_read(ar->arena, data, e->bytes, &at, &root, NULL) != TD_OK)
    return base_new(ar->arena, ts_ranges, 1);
  return read_ranges(ar, root);
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

const char *ts_user_place(ts_archive *ar, const ts_source *source, ts_place place, base_str function) {
  const range *r = NULL;
  for (uint32_t i = 0; i < ar->files.count; i++) {
    if (ar->files.at[i] != source) continue;
    if (!ar->ranges.at[i]) ar->ranges.at[i] = load_ranges(ar, source);
    if (ar->ranges.at[i]) r = find(ar->ranges.at[i], place.offset);
  }
  const char *in = function.length ? ", in " : "";
  if (r)
    return base_arena_format(ar->arena, "%.*s:%lld%s%.*s", (int)r->file.length, r->file.at, (long long)r->line, in,
                             (int)function.length, function.at);
  return base_arena_format(ar->arena, "%s:%u%s%.*s", source->file, place.line, in, (int)function.length, function.at);
}
