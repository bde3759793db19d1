/* specs.c -- what words of the user say of a model's inputs before it is loaded: formats that do not say it themselves
 * (TorchScript) need it, and names tell an ONNX file's inputs from weights that it lists among them. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/feed.h"
#include "common/values.h"
#include "fmt/fmt.h"

enum { MAX_SPECS = 256 };

typedef struct spec_maker {
  const app_inputs *asked;
  base_arena *arena;
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

/* Is there room for one more? */
static td_status make_room(const spec_maker *m, td_error *err) {
  if (m->count < MAX_SPECS) return TD_OK;
  return base_fail(err, TD_UNSUPPORTED, m->asked->model, -1,
                   "--input and --shape describe more than %d inputs; leave out those that the model says itself, or "
                   "load it from C or Python",
                   MAX_SPECS);
}

/* The next spec, for which there is room. `name` is what the user calls it, or NULL. */
static td_input_spec *add(spec_maker *m, const char *name) {
  td_input_spec *s = &m->specs[m->count++];
  *s = (td_input_spec){.name = name && name[0] ? name : NULL, .dtype = TD_F32};
  return s;
}

td_status app_spec_of_value(const base_value *value, const char *name, td_input_spec *spec, td_error *err) {
  if (value->kind != BASE_TENSOR) return base_fail(err, TD_UNSUPPORTED, name, -1, "an input must be a tensor");
  *spec = (td_input_spec){.name = name, .dtype = value->tensor.dtype, .rank = value->tensor.rank};
  memcpy(spec->dims, value->tensor.dims, sizeof spec->dims);
  return TD_OK;
}

/* `typed`: the name as the user gave it, which must be that of an argument; else NULL, and names are hints. */
static td_status add_value(spec_maker *m, const base_value *value, const char *name, const char *typed, td_error *err) {
  TRY(make_room(m, err));
  td_input_spec *s = add(m, name);
  TRY(app_spec_of_value(value, s->name, s, err));
  s->path = typed;
  return TD_OK;
}

/* What --shape says of the input called `name`, for readers that make what the input is. False: nothing. */
static bool shape_of(const spec_maker *m, const char *name, td_value_info *info) {
  const size_t length = name ? strlen(name) : 0;
  td_error ignored;
  *info = (td_value_info){.name = name, .kind = "tensor", .dtype = TD_F32};
  for (uint32_t i = 0; name && i < m->asked->shapes.count; i++) {
    const char *text = m->asked->shapes.at[i];
    if (strncmp(text, name, length) != 0 || text[length] != '=') continue;
    const base_str dims = {text + length + 1, strcspn(text + length + 1, ":")};
    const td_dtype dtype = base_dtype_from_name(base_str_of(dims.at + dims.length + (dims.at[dims.length] == ':')));
    if (dtype != TD_INVALID) info->dtype = dtype;
    return app_open_dims(dims, m->arena, &info->rank, info->dims, info->symbols, &ignored) == TD_OK;
  }
  return false;
}

/* [NAME=]FILE or [NAME=]SHAPE:DTYPE:FILL. What cannot be read is reported later, where it is bound. */
static td_status add_input(spec_maker *m, const char *text, td_error *err) {
  const char *equals = strchr(text, '='), *rest = equals ? equals + 1 : text;
  base_arena *arena = m->arena;
  const char *name = equals ? base_arena_slice(arena, text, (size_t)(equals - text)) : NULL;
  base_value value;
  bool is_description = false;
  td_error ignored;
  td_value_info shape = {.size = sizeof shape};
  app_named_vec found = {0};
  app_read_how how = {arena, shape_of(m, name, &shape) ? &shape : NULL, m->asked->preprocess};
  td_status status = app_describe_value(base_str_of(rest), 0, arena, &value, &is_description, &ignored);
  if (!how.preprocess) how.preprocess = "imagenet";
  if (status == TD_OK && is_description) return add_value(m, &value, name, name, err);
  status = app_read_values(rest, &how, &found, err);
  const bool told = status == TD_UNSUPPORTED || access(rest, R_OK) != 0; /* else a model without sizes is to blame */
  if (status != TD_OK) return told ? status : TD_OK;
  for (uint32_t i = 0; i < found.count; i++) {
    const char *own = found.at[i].name;
    TRY(add_value(m, &found.at[i].value, name || !own[0] ? name : own, name, err));
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

/* An element type, or that of the parts of complex numbers, which get an axis of their own. */
static td_status take_type(base_str name, td_input_spec *s, td_error *err) {
  const td_dtype part = app_part_of_complex(name);
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

/* Is it the size of a dimension that another --shape names, N=8? */
static bool is_size(const spec_maker *m, const char *name, const td_input_spec *s) {
  bool is = false;
  for (uint32_t k = 0; k < m->asked->shapes.count; k++) {
    const char *text = m->asked->shapes.at[k], *dims = text + strcspn(text, "=");
    td_input_spec other = {0};
    td_error ignored;
    if (!*dims) continue;
    const base_str sizes = {dims + 1, strcspn(dims + 1, ":")};
    if (app_open_dims(sizes, m->arena, &other.rank, other.dims, other.symbols, &ignored) != TD_OK) continue;
    for (int32_t i = 0; i < other.rank; i++) is |= other.symbols[i] && strcmp(other.symbols[i], name) == 0;
  }
  return is && s->rank == 1 && s->dims[0] >= 0;
}

/* NAME=DIMS or NAME=DIMS:DTYPE; a dimension that is a name is open. */
static td_status add_shape(spec_maker *m, const char *text, td_error *err) {
  const char *equals = strchr(text, '='), *colon = equals ? strchr(equals, ':') : NULL;
  td_input_spec s = {.dtype = TD_F32};
  if (!equals) return TD_OK; /* reported where it is used */
  const char *name = base_arena_slice(m->arena, text, (size_t)(equals - text));
  size_t length = colon ? (size_t)(colon - equals) - 1 : strlen(equals + 1);
  TRY(app_open_dims((base_str){equals + 1, length}, m->arena, &s.rank, s.dims, s.symbols, err));
  if (colon) TRY(take_type(base_str_of(colon + 1), &s, err));
  for (size_t i = 0; i < m->count && name; i++)
    if (m->specs[i].name && strcmp(m->specs[i].name, name) == 0) return merge(&m->specs[i], &s, colon != NULL, err);
  if (!name || is_size(m, name, &s)) return TD_OK;
  TRY(make_room(m, err));
  s.name = s.path = name[0] ? name : NULL;
  m->specs[m->count++] = s;
  return TD_OK;
}

/* Names alone, of formats that say the rest: NAME=... */
static td_status add_names(spec_maker *m, const app_words *words, td_error *err) {
  for (uint32_t i = 0; i < words->count; i++) {
    const char *text = words->at[i];
    const size_t length = strcspn(text, "=");
    const char *name = text[length] && length ? base_arena_slice(m->arena, text, length) : NULL;
    if (!name) continue;
    TRY(make_room(m, err));
    add(m, name);
  }
  return TD_OK;
}

td_status app_make_specs(const app_inputs *asked, base_arena *arena, td_input_spec **specs, size_t *count,
                         td_error *err) {
  spec_maker m = {.asked = asked, .arena = arena};
  *specs = NULL;
  m.specs = base_new(arena, td_input_spec, MAX_SPECS);
  if (!m.specs) return base_no_memory(err, "inputs");
  *specs = m.specs;
  if (!wants_specs(asked->model)) {
    TRY(add_names(&m, &asked->values, err));
    TRY(add_names(&m, &asked->shapes, err));
    *count = m.count;
    return TD_OK;
  }
  for (uint32_t i = 0; i < asked->values.count; i++) TRY(add_input(&m, asked->values.at[i], err));
  for (uint32_t i = 0; i < asked->shapes.count; i++) TRY(add_shape(&m, asked->shapes.at[i], err));
  *count = m.count;
  return TD_OK;
}
