/* table.c -- the one table of schemas and their lowerings. */
#include "import/aten/aten_priv.h"

#define ATEN_ROW(schema, lower, forms, data) {schema, aten_lower_##lower, forms, data},
#define ATEN_NONE_YET(schema) {schema, NULL, ATEN_BOTH, NULL},
const aten_row aten_rows[] = {
#include "import/aten/schemas.def"
};
#undef ATEN_ROW
#undef ATEN_NONE_YET
const uint32_t aten_row_count = sizeof aten_rows / sizeof *aten_rows;
