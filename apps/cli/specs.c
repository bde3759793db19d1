/* specs.c -- what the options say of a model's inputs before it is loaded: formats that do not say it themselves
 * (TorchScript) need it, and names tell an ONNX file's inputs from weights that it lists among them. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fmt/fmt.h"
#include "values.h"

enum { MAX_SPECS = 256 };

typedef struct spec_maker {
  const cli_args *args;
  td_input_spec *specs;
  size_t count;
} spec_maker;

/* A zip archive: no other model format that says nothing of its inputs. */
static bool wants_specs(const char *path) {
  unsigned char head[64] = {0};
  FILE *file = fopen(path, "rb");
  size_t got = file ? fread(head, 1, sizeof head, file) : 0;
  if (file) fclose(file);
  return got == sizeof head && memcmp(head, "PK\3\4", 4) == 0;
}

static td_input_spec *add(spec_maker *m, const char *name, int32_t rank, const int64_t *dims, td_dtype dtype) {
  td_input_spec *s = &m->specs[m->count++];
  *s = (td_input_spec){.name = name && name[0] ? name : NULL, .dtype = dtype, .rank = rank};
  if (rank > 0) memcpy(s->dims, dims, (size_t)rank * sizeof *dims);
  return s;
}

td_status cli_spec_of_value(const base_value *value, const char *name, td_input_spec *spec, td_error *err) {
  if (value->kind != BASE_TENSOR) return base_fail(err, TD_UNSUPPORTED, name, -1, "an input must be a tensor");
  *spec = (td_input_spec){.name = name, .dtype = value->tensor.dtype, .rank = value->tensor.rank};
  memcpy(spec->dims, value->tensor.dims, sizeof spec->dims);
  return TD_OK;
}

/* [NAME=]FILE or [NAME=]SHAPE:DTYPE:FILL. What cannot be read is reported later, where it is bound. */
static td_status add_input(spec_maker *m, const char *text, td_error *err) {
  const char *equals = strchr(text, '='), *rest = equals ? equals + 1 : text;
  base_arena *arena = m->args->arena;
  const char *name = equals ? base_arena_slice(arena, text, (size_t)(equals - text)) : NULL;
  base_value value;
  bool is_description = false;
  td_error ignored;
  cli_named_vec found = {0};
  cli_read_how how = {arena, NULL, cli_value(m->args, "preprocess")};
  td_status status = cli_describe_value(base_str_of(rest), 0, arena, &value, &is_description, &ignored);
  if (!how.preprocess) how.preprocess = "imagenet";
  if (status == TD_OK && is_description) return cli_spec_of_value(&value, name, add(m, name, 0, NULL, TD_F32), err);
  status = cli_read_values(rest, &how, &found, err);
  const bool told = status == TD_UNSUPPORTED || access(rest, R_OK) != 0; /* else a model without sizes is to blame */
  if (status != TD_OK) return told ? status : TD_OK;
  for (uint32_t i = 0; i < found.count && m->count < MAX_SPECS; i++) {
    const char *own = found.at[i].name;
    TRY(cli_spec_of_value(&found.at[i].value, name || !own[0] ? name : own, add(m, name, 0, NULL, TD_F32), err));
  }
  return TD_OK;
}

static bool is_open(const td_input_spec *s) {
  for (int32_t i = 0; i < s->rank; i++)
    if (s->dims[i] < 0) return true;
  return false;
}

/* One of two options says the sizes, and one the names of those that may change: names win. */
static td_status merge(td_input_spec *to, const td_input_spec *shape, bool typed, td_error *err) {
  if (typed) to->dtype = shape->dtype;
  if (typed) to->is_complex = shape->is_complex;
  if (!is_open(shape)) return TD_OK; /* the sizes of this run: feed.c looks at them */
  if (to->rank != shape->rank)
    return base_fail(err, TD_BAD_ARGUMENT, to->name, -1, "--shape says %d dimensions, and what is given has %d",
                     shape->rank, to->rank);
  memcpy(to->dims, shape->dims, sizeof to->dims);
  memcpy(to->symbols, shape->symbols, sizeof to->symbols);
  return TD_OK;
}

static const struct {
  const char *name;
  td_dtype part;
} complex_types[] = {{"c64", TD_F32}, {"c128", TD_F64}, {"c32", TD_F16}};
enum { COMPLEX_TYPES = sizeof complex_types / sizeof *complex_types };

td_dtype cli_part_of_complex(base_str name) {
  for (size_t i = 0; i < COMPLEX_TYPES; i++)
    if (base_str_is(name, complex_types[i].name)) return complex_types[i].part;
  return TD_INVALID;
}

const char *cli_complex_of_part(td_dtype part) {
  for (size_t i = 0; i < COMPLEX_TYPES; i++)
    if (part == complex_types[i].part) return complex_types[i].name;
  return td_dtype_name(part);
}

/* An element type, or that of the parts of complex numbers, which get an axis of their own. */
static td_status take_type(base_str name, td_input_spec *s, td_error *err) {
  const td_dtype part = cli_part_of_complex(name);
  s->dtype = part == TD_INVALID ? base_dtype_from_name(name) : part;
  if (s->dtype == TD_INVALID)
    return base_fail(err, TD_BAD_ARGUMENT, "--shape", -1, "%.*s is no element type", (int)name.length, name.at);
  if (part == TD_INVALID) return TD_OK;
  if (s->rank == TD_MAX_RANK)
    return base_fail(err, TD_UNSUPPORTED, "--shape", -1, "complex numbers of %d dimensions", s->rank);
  s->dims[s->rank++] = 2;
  s->is_complex = 1;
  return TD_OK;
}

/* NAME=DIMS or NAME=DIMS:DTYPE; a dimension that is a name is open. */
static td_status add_shape(spec_maker *m, const char *text, td_error *err) {
  const char *equals = strchr(text, '='), *colon = equals ? strchr(equals, ':') : NULL;
  td_input_spec s = {.dtype = TD_F32};
  if (!equals) return TD_OK; /* reported where it is used */
  const char *name = base_arena_slice(m->args->arena, text, (size_t)(equals - text));
  size_t length = colon ? (size_t)(colon - equals) - 1 : strlen(equals + 1);
  TRY(cli_open_dims((base_str){equals + 1, length}, m->args->arena, &s.rank, s.dims, s.symbols, err));
  if (colon) TRY(take_type(base_str_of(colon + 1), &s, err));
  for (size_t i = 0; i < m->count && name; i++)
    if (m->specs[i].name && strcmp(m->specs[i].name, name) == 0) return merge(&m->specs[i], &s, colon != NULL, err);
  s.name = name && name[0] ? name : NULL;
  m->specs[m->count++] = s;
  return TD_OK;
}

/* Names alone, of formats that say the rest: NAME=... */
static void add_names(spec_maker *m, const char *option) {
  uint32_t cursor = 0;
  for (const char *text; m->count < MAX_SPECS && (text = cli_next(m->args, option, &cursor)) != NULL;) {
    const size_t length = strcspn(text, "=");
    const char *name = text[length] && length ? base_arena_slice(m->args->arena, text, length) : NULL;
    if (name) add(m, name, 0, NULL, TD_F32);
  }
}

td_status cli_make_specs(const cli_args *args, td_input_spec **specs, size_t *count, td_error *err) {
  spec_maker m = {.args = args};
  uint32_t cursor = 0;
  *specs = NULL;
  m.specs = base_new(args->arena, td_input_spec, MAX_SPECS);
  if (!m.specs) return base_no_memory(err, "inputs");
  *specs = m.specs;
  if (!wants_specs(args->operands[0])) {
    add_names(&m, "input");
    add_names(&m, "shape");
    *count = m.count;
    return TD_OK;
  }
  for (const char *text; m.count < MAX_SPECS && (text = cli_next(args, "input", &cursor)) != NULL;)
    TRY(add_input(&m, text, err));
  cursor = 0;
  for (const char *text; m.count < MAX_SPECS && (text = cli_next(args, "shape", &cursor)) != NULL;)
    TRY(add_shape(&m, text, err));
  *count = m.count;
  return TD_OK;
}
