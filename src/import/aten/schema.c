/* schema.c -- parsing of schema lines, as PyTorch prints them. */
#include "import/aten/aten_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
  base_arena *arena;
  const char *at;
  bool failed;
} reader;

static void skip_space(reader *r) {
  while (*r->at == ' ') r->at++;
}
static bool take(reader *r, const char *text) {
  skip_space(r);
  size_t length = strlen(text);
  if (strncmp(r->at, text, length) != 0) return false;
  r->at += length;
  return true;
}
static void expect(reader *r, const char *text) {
  if (!take(r, text)) r->failed = true;
}
static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == ':';
}
static base_str word(reader *r) {
  skip_space(r);
  const char *from = r->at;
  while (is_word(*r->at)) r->at++;
  if (r->at == from) r->failed = true;
  return (base_str){from, (size_t)(r->at - from)};
}

base_str aten_schema_name(const char *line) {
  size_t length = strcspn(line, ".(");
  return (base_str){line, length};
}

/* ---- types ---- */

static uint8_t atom_of(base_str name) {
  static const struct {
    const char *name;
    uint8_t atom;
  } rows[] = {{"Tensor", ATEN_ATOM_TENSOR},   {"int", ATEN_ATOM_INT},       {"SymInt", ATEN_ATOM_INT},
              {"ScalarType", ATEN_ATOM_INT},  {"Layout", ATEN_ATOM_INT},    {"MemoryFormat", ATEN_ATOM_INT},
              {"QScheme", ATEN_ATOM_INT},     {"float", ATEN_ATOM_FLOAT},   {"bool", ATEN_ATOM_BOOL},
              {"complex", ATEN_ATOM_COMPLEX}, {"Scalar", ATEN_ATOM_SCALAR}, {"number", ATEN_ATOM_SCALAR},
              {"str", ATEN_ATOM_STR},         {"Device", ATEN_ATOM_DEVICE}, {"Generator", ATEN_ATOM_NEVER},
              {"Storage", ATEN_ATOM_NEVER},   {"Stream", ATEN_ATOM_NEVER},  {"Any", ATEN_ATOM_ANY},
              {"AnyEnumType", ATEN_ATOM_ANY}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (base_str_is(name, rows[i].name)) return rows[i].atom;
  if (base_str_starts(name, "__torch__")) return ATEN_ATOM_OBJECT;
  return name.length <= 2 ? ATEN_ATOM_ANY : ATEN_ATOM_NEVER; /* t, tVal: a type variable */
}

/* "(a!)", "(a -> *)", "(b|a)": says whether the operand is written. */
static void read_alias(reader *r, aten_param *p) {
  if (*r->at != '(') return;
  while (*r->at && *r->at != ')') p->is_written = p->is_written || *r->at++ == '!';
  expect(r, ")");
}

/* "(str, t)": a tuple; anything goes. */
static void skip_tuple(reader *r) {
  int depth = 0;
  do {
    depth += *r->at == '(';
    depth -= *r->at == ')';
  } while (*r->at && r->at++ && depth);
}

static void read_type(reader *r, aten_param *p) {
  skip_space(r);
  bool is_tuple = *r->at == '(';
  if (is_tuple) skip_tuple(r);
  base_str name = is_tuple ? BASE_STR("t") : word(r);
  p->atom = atom_of(name);
  if (base_str_is(name, "Dict")) {
    p->atom = ATEN_ATOM_DICT;
    expect(r, "(");
    p->key = atom_of(word(r));
    expect(r, ",");
    aten_param ignored = {0};
    read_type(r, &ignored);
    expect(r, ")");
  } else if (base_str_is(name, "Future") || base_str_is(name, "Await")) {
    p->atom = ATEN_ATOM_FUTURE;
    expect(r, "(");
    aten_param ignored = {0};
    read_type(r, &ignored);
    expect(r, ")");
  } else read_alias(r, p);
  for (;;) {
    if (*r->at == '?') {
      r->at++;
      p->is_optional = true;
    } else if (*r->at == '[') {
      if (p->is_list) p->is_nested = true;
      p->item_optional = p->item_optional || p->is_optional;
      p->is_optional = false;
      p->is_list = true;
      char *end;
      p->length = strtol(r->at + 1, &end, 10);
      r->at = end;
      expect(r, "]");
    } else break;
  }
  read_alias(r, p);
}

/* ---- defaults ---- */

static aten_value read_value(reader *r, const aten_param *p);

static aten_value read_list(reader *r, const aten_param *p) {
  aten_list *list = base_new(r->arena, aten_list, 1);
  aten_value v = {.kind = ATEN_LIST, .u.list = list};
  if (!list) r->failed = true;
  while (!r->failed && !take(r, "]")) {
    aten_value *item = base_vec_push(r->arena, &list->items);
    if (!item) r->failed = true;
    else *item = read_value(r, p);
    take(r, ",");
  }
  return v;
}

static aten_value read_number(reader *r, const aten_param *p) {
  char *end;
  double f = strtod(r->at, &end); /* takes inf and nan */
  if (end == r->at) {
    r->failed = true;
    return ATEN_NOTHING;
  }
  bool is_whole = true;
  for (const char *c = r->at; c < end; c++) is_whole = is_whole && ((*c >= '0' && *c <= '9') || *c == '-');
  int64_t i = is_whole ? strtoll(r->at, NULL, 10) : 0;
  r->at = end;
  if (is_whole && p->atom != ATEN_ATOM_FLOAT) return aten_int(i);
  return aten_float(is_whole ? (double)i : f);
}

static aten_value read_value(reader *r, const aten_param *p) {
  static const struct {
    const char *name;
    int64_t number;
  } named[] = {{"contiguous_format", 0}, {"preserve_format", 1}, {"strided", 0}, {"Mean", 1}, {"long", 4}};
  skip_space(r);
  if (take(r, "None")) return ATEN_NOTHING;
  if (take(r, "True")) return aten_bool(true);
  if (take(r, "False")) return aten_bool(false);
  if (take(r, "[")) return read_list(r, p);
  for (size_t i = 0; i < sizeof named / sizeof *named; i++)
    if (take(r, named[i].name)) return aten_int(named[i].number);
  if (take(r, "\"")) {
    const char *from = r->at, *end = strchr(from, '"');
    if (!end) r->failed = true;
    else r->at = end + 1;
    base_str *text = base_new(r->arena, base_str, 1);
    if (text) *text = (base_str){from, end ? (size_t)(end - from) : 0};
    r->failed = r->failed || !text;
    return (aten_value){.kind = ATEN_STR, .u.text = text};
  }
  return read_number(r, p);
}

/* ---- lines ---- */

static void read_param(reader *r, aten_schema *schema, aten_param *p) {
  read_type(r, p);
  p->name = word(r);
  if (!take(r, "=")) return;
  p->has_default = true;
  p->fallback = read_value(r, p);
  bool spread =
      p->is_list && !p->is_nested && p->length && p->fallback.kind != ATEN_LIST && p->fallback.kind != ATEN_NONE;
  if (!spread) return;
  aten_list *list = base_new(r->arena, aten_list, 1);
  for (int64_t i = 0; list && i < p->length; i++) {
    aten_value *item = base_vec_push(r->arena, &list->items);
    if (item) *item = p->fallback;
    else r->failed = true;
  }
  r->failed = r->failed || !list;
  p->fallback = (aten_value){.kind = ATEN_LIST, .u.list = list};
  (void)schema;
}

static uint32_t count_results(reader *r) {
  uint32_t depth = 0, count = 1;
  expect(r, "->");
  skip_space(r);
  if (strcmp(r->at, "()") == 0) return 0;
  if (*r->at != '(') return 1;
  for (const char *c = r->at; *c; c++) {
    depth += *c == '(';
    depth -= *c == ')';
    count += *c == ',' && depth == 1;
  }
  return count;
}

bool aten_parse_schema(base_arena *arena, const char *line, aten_schema *schema) {
  reader r = {.arena = arena, .at = line + aten_schema_name(line).length};
  bool keyword_only = false;
  *schema = (aten_schema){.params = base_new(arena, aten_param, ATEN_MAX_PARAMS)};
  if (!schema->params) return false;
  if (*r.at == '.') {
    r.at++;
    schema->overload = word(&r);
  }
  expect(&r, "(");
  while (!r.failed && !take(&r, ")")) {
    if (take(&r, "*")) keyword_only = true;
    else if (take(&r, "...")) schema->is_variadic = true;
    else if (schema->count == ATEN_MAX_PARAMS) r.failed = true;
    else {
      aten_param *p = &schema->params[schema->count++];
      p->keyword_only = keyword_only;
      read_param(&r, schema, p);
    }
    take(&r, ",");
  }
  schema->result_count = count_results(&r);
  return !r.failed;
}

const aten_schema *aten_schema_of(aten *a, uint32_t row) {
  if (a->schemas[row]) return a->schemas[row];
  aten_schema *schema = aten_alloc(a, sizeof *schema);
  if (!schema) return NULL;
  if (!aten_parse_schema(a->arena, a->lines[row], schema)) {
    ir_build_fail(a->b, base_arena_failed(a->arena) ? TD_NO_RESOURCE : TD_INTERNAL, "the schema %s cannot be read",
                  a->lines[row]);
    return NULL;
  }
  return a->schemas[row] = schema;
}
