/* json.h -- JSON documents (RFC 8259) as values in an arena: what models are described with, of any size.
 *
 * Reading takes one pass over a copy of the document, in which texts are decoded where they stand; members of large
 * objects are found by a hash. Refused: nesting deeper than FMT_JSON_DEPTH, two members of one name, a NUL in a text.
 * Whole numbers that do not fit 64 bits become floats; that texts are UTF-8 is not checked. Memory: at most 80 bytes
 * per byte of the document.
 *
 * The functions that look into a value take NULL and values of any kind, and then find nothing: so that a walk over a
 * document that may have another form reads as straight code. */
#ifndef FMT_JSON_H
#define FMT_JSON_H
#include "base/base.h"

enum { FMT_JSON_DEPTH = 256 };

typedef enum fmt_json_kind {
  FMT_JSON_NULL,
  FMT_JSON_FALSE,
  FMT_JSON_TRUE,
  FMT_JSON_INT,
  FMT_JSON_FLOAT,
  FMT_JSON_TEXT,
  FMT_JSON_ARRAY,
  FMT_JSON_OBJECT
} fmt_json_kind;

typedef struct fmt_json fmt_json;
struct fmt_json {
  fmt_json_kind kind;
  uint32_t count; /* bytes of a text, items of an array, members of an object */
  union {
    int64_t i;
    double f;
    const char *text;      /* NUL-terminated */
    const fmt_json *items; /* of an object: name, value, name, value ..., and of a large one its map behind them */
    const base_map *map;
  } u;
};

/* Reads a whole document, which errors call `what`. The value lives in `arena`, and so do its texts. Errors:
 * TD_BAD_FILE with the offset in `bytes`, TD_NO_RESOURCE. */
td_status fmt_json_read(base_arena *arena, const char *what, const void *bytes, size_t size, const fmt_json **root,
                        td_error *err);

/* The member of that name of an object, the item of an array; NULL: none. */
const fmt_json *fmt_json_get(const fmt_json *object, const char *name);
const fmt_json *fmt_json_at(const fmt_json *array, size_t index);
/* Items of an array; 0 of anything else. */
size_t fmt_json_count(const fmt_json *array);
/* Members of an object in the order of the document, by number; NULL: there are no more. */
const fmt_json *fmt_json_member(const fmt_json *object, size_t index, const char **name);
/* NULL: no text. */
const char *fmt_json_text(const fmt_json *value);
static inline bool fmt_json_is(const fmt_json *value, fmt_json_kind kind) { return value && value->kind == kind; }
#endif
