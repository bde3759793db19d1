/* topology_synthetic.c -- hwloc's synthetic descriptions, "package:2 [numa] core:28 pu:2(indexes=core:package)": each
 * word is a level with as many objects in each object of the level before it; brackets attach memory to that one. */
#include "sys/topology_priv.h"

#include <stddef.h>
#include <string.h>

enum { MOST_LEVELS = 12 };

typedef enum level_kind { LEVEL_GROUP, LEVEL_PACKAGE, LEVEL_NODE, LEVEL_L3, LEVEL_CORE, LEVEL_PU } level_kind;

static const struct {
  const char *name;
  level_kind kind;
} kinds[] = {{"package", LEVEL_PACKAGE}, {"pack", LEVEL_PACKAGE},   {"socket", LEVEL_PACKAGE},
             {"die", LEVEL_GROUP},       {"group", LEVEL_GROUP},    {"numa", LEVEL_NODE},
             {"numanode", LEVEL_NODE},   {"node", LEVEL_NODE},      {"l5", LEVEL_GROUP},
             {"l4", LEVEL_GROUP},        {"l3", LEVEL_L3},          {"l3cache", LEVEL_L3},
             {"l2", LEVEL_GROUP},        {"l2cache", LEVEL_GROUP},  {"l1", LEVEL_GROUP},
             {"l1d", LEVEL_GROUP},       {"l1dcache", LEVEL_GROUP}, {"l1i", LEVEL_GROUP},
             {"l1icache", LEVEL_GROUP},  {"core", LEVEL_CORE},      {"pu", LEVEL_PU}};

typedef struct level {
  base_str name, indexes; /* of the objects' numbers; empty: counted from 0 */
  level_kind kind;
  uint32_t each, width; /* objects in one of the level before; in the machine */
} level;

typedef struct description {
  level levels[MOST_LEVELS];
  uint32_t count;
  base_str text;
  td_error *err;
} description;

static td_status wrong(const description *d, const char *at, const char *what) {
  const ptrdiff_t left = d->text.at + d->text.length - at;
  return base_fail(d->err, TD_BAD_FILE, "topology", at - d->text.at, "%s at '%.*s'", what, (int)(left < 20 ? left : 20),
                   at);
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

static bool same_word(base_str a, const char *b) {
  size_t i = 0;
  while (i < a.length && b[i] && lower(a.at[i]) == b[i]) i++;
  return i == a.length && !b[i];
}

static bool find_kind(base_str name, level_kind *kind) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (same_word(name, kinds[i].name)) {
      *kind = kinds[i].kind;
      return true;
    }
  return false;
}

/* "(size=32MB indexes=0,1)": only `indexes` matters here. */
static const char *take_attributes(const char *at, const char *end, base_str *indexes) {
  const char *close = at < end && *at == '(' ? memchr(at, ')', (size_t)(end - at)) : NULL;
  if (!close) return at;
  static const char key[] = "indexes=";
  for (const char *c = at + 1; c + sizeof key - 1 <= close; c++) {
    if (memcmp(c, key, sizeof key - 1) != 0) continue;
    indexes->at = c += sizeof key - 1;
    while (c < close && *c != ' ') c++;
    indexes->length = (size_t)(c - indexes->at);
    break;
  }
  return close + 1;
}

/* A level from *at on; `memory`: one in brackets, of which each object has one if no number is said. */
static td_status take_level(description *d, const char **at, const char *end, bool memory) {
  const char *start = *at, *c = start;
  level *l = &d->levels[d->count];
  if (d->count == MOST_LEVELS) return wrong(d, start, "too many levels");
  *l = (level){.each = 1};
  while (c < end && (is_letter(*c) || (c > start && *c >= '0' && *c <= '9'))) c++;
  l->name = (base_str){start, (size_t)(c - start)};
  if (!find_kind(l->name, &l->kind) || (memory && l->kind != LEVEL_NODE)) return wrong(d, start, "no kind of level");
  if (c < end && *c == ':') {
    l->each = 0;
    for (c++; c < end && *c >= '0' && *c <= '9'; c++) {
      l->each = l->each * 10 + (uint32_t)(*c - '0');
      if (l->each > SYS_MOST_CPUS) return wrong(d, start, "too many objects");
    }
  } else if (!memory) {
    return wrong(d, start, "a number of objects is missing");
  }
  c = take_attributes(c, end, &l->indexes);
  l->width = l->each * (d->count ? d->levels[d->count - 1].width : 1);
  if (l->each == 0 || l->width > SYS_MOST_CPUS) return wrong(d, start, "the number of objects is 0 or too large");
  d->count++;
  *at = c;
  return TD_OK;
}

static td_status take_levels(description *d) {
  const char *at = d->text.at, *end = at + d->text.length;
  for (;;) {
    while (at < end && (*at == ' ' || *at == '\t')) at++;
    if (at == end) break;
    const bool memory = *at == '[';
    at += memory;
    TRY(take_level(d, &at, end, memory));
    if (memory && (at == end || *at++ != ']')) return wrong(d, at - 1, "']' is missing");
    if (at < end && *at != ' ' && *at != '\t') return wrong(d, at, "a blank is missing");
  }
  if (d->count == 0 || d->levels[d->count - 1].kind != LEVEL_PU)
    return wrong(d, d->text.at, "the last level is not pu");
  return TD_OK;
}

/* ---- numbers of objects ---- */

/* The next piece of a list, up to `stop`. */
static bool next_piece(base_str *list, char stop, base_str *piece) {
  if (list->length == 0) return false;
  const char *found = memchr(list->at, stop, list->length);
  piece->at = list->at;
  piece->length = found ? (size_t)(found - list->at) : list->length;
  const size_t used = piece->length + (found != NULL);
  list->at += used;
  list->length -= used;
  return true;
}

static td_status listed_numbers(const description *d, const level *l, uint32_t *numbers) {
  base_str list = l->indexes, piece;
  uint32_t count = 0;
  for (; next_piece(&list, ',', &piece); count++) {
    int64_t number;
    if (count == l->width || !base_str_int(piece, &number) || number < 0 || number >= SYS_MOST_CPUS)
      return wrong(d, piece.at, "no number of an object, or one too many");
    numbers[count] = (uint32_t)number;
  }
  return count == l->width ? TD_OK : wrong(d, l->indexes.at, "not as many indexes as objects");
}

/* The level of that name, SIZE_MAX: none above the last. */
static size_t find_level(const description *d, base_str name) {
  level_kind kind;
  if (!find_kind(name, &kind)) return SIZE_MAX;
  for (size_t i = 0; i + 1 < d->count; i++) {
    base_str have = d->levels[i].name;
    if (d->levels[i].kind != kind) continue;
    if (kind != LEVEL_GROUP || (have.length == name.length && lower(have.at[1]) == lower(name.at[1]))) return i;
  }
  return SIZE_MAX;
}

/* "core:package": of the levels named, the first varies fastest; those below them slowest. A named level counts within
 * the nearest named one above it. */
static td_status interleaved_numbers(const description *d, const level *l, uint32_t *numbers) {
  base_str list = l->indexes, piece;
  bool named[MOST_LEVELS] = {false};
  size_t order[MOST_LEVELS], count = 0;
  while (next_piece(&list, ':', &piece)) {
    const size_t at = find_level(d, piece);
    if (at == SIZE_MAX || named[at] || d->levels[at].kind == LEVEL_NODE)
      return wrong(d, piece.at, "no level to count by, or named twice");
    named[at] = true;
    order[count++] = at;
  }
  order[count++] = d->count - 1;
  for (uint32_t i = 0; i < l->width; i++) {
    uint32_t step = 1;
    numbers[i] = 0;
    for (size_t k = 0; k < count; k++) {
      const uint32_t width = d->levels[order[k]].width;
      size_t above = order[k];
      while (above-- > 0 && !named[above]) continue;
      const uint32_t within = width / (above == SIZE_MAX ? 1 : d->levels[above].width);
      numbers[i] += i / (l->width / width) % within * step;
      step *= within;
    }
  }
  return TD_OK;
}

static td_status numbers_of(const description *d, const level *l, uint32_t *numbers) {
  for (uint32_t i = 0; i < l->width; i++) numbers[i] = i;
  if (l->indexes.length == 0) return TD_OK;
  if (!is_letter(*l->indexes.at)) return listed_numbers(d, l, numbers);
  if (l->kind != LEVEL_PU) return wrong(d, l->indexes.at, "only pu counts by levels");
  return interleaved_numbers(d, l, numbers);
}

/* ---- CPUs ---- */

td_status sys_synthetic_cpus(base_str text, base_arena *arena, sys_found_cpus *found, td_error *err) {
  description d = {.text = text, .err = err};
  uint32_t *numbers[MOST_LEVELS];
  TRY(take_levels(&d));
  for (uint32_t i = 0; i < d.count; i++) {
    numbers[i] = base_new(arena, uint32_t, d.levels[i].width);
    if (!numbers[i]) return base_no_memory(err, "a topology");
    TRY(numbers_of(&d, &d.levels[i], numbers[i]));
  }
  const uint32_t width = d.levels[d.count - 1].width;
  for (uint32_t i = 0; i < width; i++) {
    sys_found_cpu *cpu = base_vec_push(arena, found);
    if (!cpu) return base_no_memory(err, "a topology");
    cpu->core_key = i; /* where there are no cores, each CPU is one */
    cpu->allowed = true;
    bool has_cache = false;
    for (uint32_t k = 0; k < d.count; k++) {
      const uint32_t object = i / (width / d.levels[k].width);
      switch (d.levels[k].kind) {
        case LEVEL_PACKAGE:
          cpu->package = numbers[k][object];
          if (!has_cache) cpu->l3_key = object;
          break;
        case LEVEL_NODE: cpu->node = numbers[k][object]; break;
        case LEVEL_L3: cpu->l3_key = object, has_cache = true; break;
        case LEVEL_CORE: cpu->core_key = object; break;
        case LEVEL_PU: cpu->number = numbers[k][object]; break;
        case LEVEL_GROUP: break;
      }
    }
  }
  return TD_OK;
}
