/* names.c -- PyTorch's operators that can be imported, for those who ask: names of the schemas that are lowered. */
#include "import/aten/aten_priv.h"
#include "import/import.h"

#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

bool import_torch_names(base_arena *arena, const char ***names, uint32_t *count) {
  td_error err;
  const char *const *lines = aten_unpack_lines(arena, &err);
  const char **all = base_new(arena, const char *, (size_t)aten_row_count);
  if (!lines || !all) return false;
  uint32_t found = 0;
  for (uint32_t i = 0; i < aten_row_count; i++) {
    const base_str name = aten_schema_name(lines[i]);
    if (!aten_rows[i].lower || (found && base_str_is(name, all[found - 1]))) continue; /* overloads stand together */
    all[found] = base_arena_format(arena, "%.*s", (int)name.length, name.at);
    if (!all[found++]) return false;
  }
  qsort(all, found, sizeof *all, by_name);
  *names = all;
  *count = found;
  return true;
}
