/* table.c -- the one table of schemas and their lowerings. The schemas' text is deflated, and read anew by each import.
 */
#include "fmt/zip.h"
#include "import/aten/aten_priv.h"

#include <string.h>

#define ATEN_ROW(schema, lower, forms, data) {aten_lower_##lower, data},
#define ATEN_NONE_YET(schema) {NULL, NULL},
const aten_row aten_rows[] = {
#include "import/aten/schemas.def"
};
#undef ATEN_ROW
#undef ATEN_NONE_YET
#define ATEN_ROW(schema, lower, forms, data) forms,
#define ATEN_NONE_YET(schema) 0,
const uint8_t aten_forms[] = {
#include "import/aten/schemas.def"
};
#undef ATEN_ROW
#undef ATEN_NONE_YET
const uint32_t aten_row_count = sizeof aten_rows / sizeof *aten_rows;

/* Bytes of the text: of each line and its end. */
enum {
  TEXT_BYTES = 0
#define ATEN_ROW(schema, lower, forms, data) +sizeof schema
#define ATEN_NONE_YET(schema) +sizeof schema
#include "import/aten/schemas.def"
#undef ATEN_ROW
#undef ATEN_NONE_YET
};
static const uint8_t packed[] = {
#include "import/aten/schemas.inc"
};

const char *const *aten_unpack_lines(base_arena *arena, td_error *err) {
  char *text = base_arena_alloc(arena, TEXT_BYTES);
  const char **lines = base_new(arena, const char *, (size_t)aten_row_count);
  if (!text || !lines) {
    base_no_memory(err, "the operators' schemas");
    return NULL;
  }
  if (fmt_inflate(packed, sizeof packed, (uint8_t *)text, TEXT_BYTES, err) != TD_OK) return NULL;
  for (uint32_t i = 0; i < aten_row_count; i++) { /* as many lines as rows, by the size that was checked */
    char *end = memchr(text, '\n', TEXT_BYTES);
    lines[i] = text;
    if (!end) break;
    *end = '\0';
    text = end + 1;
  }
  return lines;
}
