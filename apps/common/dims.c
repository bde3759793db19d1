/* dims.c -- the words for shapes and for types of complex numbers. */
#include <ctype.h>

#include "common/values.h"

/* A name of letters, digits and _ that begins with no digit. */
static bool is_name(base_str text) {
  bool is = text.length > 0 && !isdigit((unsigned char)text.at[0]);
  for (size_t i = 0; i < text.length && is; i++) is = isalnum((unsigned char)text.at[i]) || text.at[i] == '_';
  return is;
}

/* A number, or (`symbol` not NULL) the name of an open dimension: -1. */
static bool take_dim(base_str text, base_arena *arena, int64_t *dim, const char **symbol) {
  if (base_str_int(text, dim)) return *dim >= 0;
  if (!symbol || !is_name(text)) return false;
  *dim = -1;
  *symbol = base_arena_slice(arena, text.at, text.length);
  return *symbol != NULL;
}

td_status app_open_dims(base_str text, base_arena *arena, int32_t *rank, int64_t *dims, const char **symbols,
                        td_error *err) {
  int64_t known[TD_MAX_RANK], elements;
  *rank = 0;
  for (size_t at = 0; at < text.length;) {
    size_t length = 0;
    while (at + length < text.length && text.at[at + length] != 'x') length++;
    const int32_t i = *rank;
    bool ends_in_x = at + length + 1 == text.length;
    if (ends_in_x || i == TD_MAX_RANK ||
        !take_dim((base_str){text.at + at, length}, arena, &dims[i], symbols ? &symbols[i] : NULL)) {
      return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                       "'%.*s' is no shape: at most %d dimensions separated by x are needed, as in 1x3x224x224%s",
                       (int)text.length, text.at, TD_MAX_RANK,
                       symbols ? ", or Nx3x224x224 where N may have any size" : "");
    }
    known[i] = dims[i] < 0 ? 1 : dims[i];
    (*rank)++;
    at += length + 1;
  }
  if (!base_numel(*rank, known, &elements)) {
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "'%.*s' has too many elements", (int)text.length, text.at);
  }
  return TD_OK;
}

td_status app_dims(base_str text, int32_t *rank, int64_t *dims, td_error *err) {
  return app_open_dims(text, NULL, rank, dims, NULL, err);
}

static const struct {
  const char *name;
  td_dtype part;
} complex_types[] = {{"c64", TD_F32}, {"c128", TD_F64}, {"c32", TD_F16}};
enum { COMPLEX_TYPES = sizeof complex_types / sizeof *complex_types };

td_dtype app_part_of_complex(base_str name) {
  for (size_t i = 0; i < COMPLEX_TYPES; i++)
    if (base_str_is(name, complex_types[i].name)) return complex_types[i].part;
  return TD_INVALID;
}

const char *app_complex_of_part(td_dtype part) {
  for (size_t i = 0; i < COMPLEX_TYPES; i++)
    if (part == complex_types[i].part) return complex_types[i].name;
  return td_dtype_name(part);
}
