/* names.c -- the ONNX operators that can be imported, for those who ask: rows of the lowering tables and aliases. */
#include "import/import.h"
#include "import/onnx/onnx_priv.h"

#include <stdlib.h>
#include <string.h>

typedef BASE_VEC(const char *) name_vec;

/* "Conv", or "com.microsoft.Attention". */
static bool add_name(name_vec *names, base_arena *arena, const char *domain, const char *name) {
  const char **slot = base_vec_push(arena, names);
  if (slot) *slot = domain[0] ? base_arena_format(arena, "%s.%s", domain, name) : name;
  return slot && *slot;
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

bool import_onnx_names(const ir_opset *ops, base_arena *arena, const char ***names, uint32_t *count) {
  name_vec all = {0};
  uint32_t family_count;
  const onnx_family *families = onnx_families(&family_count);
  for (uint32_t i = 0; i < family_count; i++) {
    for (uint32_t k = 0; k < *families[i].count; k++) {
      if (!add_name(&all, arena, families[i].rows[k].domain, families[i].rows[k].name)) return false;
    }
  }
  for (uint32_t i = 0; i < ops->alias_count; i++) {
    const ir_alias *alias = ops->aliases[i].alias;
    bool standard = strcmp(alias->dialect, "onnx") == 0;
    if (!standard && !strchr(alias->dialect, '.')) continue; /* of another front end */
    if (!add_name(&all, arena, standard ? "" : alias->dialect, alias->name)) return false;
  }
  if (all.count) qsort(all.at, all.count, sizeof *all.at, by_name);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < all.count; i++) {
    if (kept == 0 || strcmp(all.at[i], all.at[kept - 1]) != 0) all.at[kept++] = all.at[i];
  }
  *names = all.at;
  *count = kept;
  return true;
}
