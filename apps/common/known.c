/* known.c -- the names that this build of the library knows. */
#include <string.h>

#include <treadle/experimental.h>

#include "common/json.h"
#include "common/known.h"

td_status app_known_names(base_arena *arena, const char *key, app_name_vec *names, td_error *err) {
  size_t length = 0, i;
  json_t *name;
  TRY(td_capabilities(NULL, 0, &length, err));
  char *text = base_arena_alloc(arena, length + 1);
  if (!text) return base_no_memory(err, "names");
  TRY(td_capabilities(text, length + 1, &length, err));
  json_t *all = json_loads(text, 0, NULL);
  td_status status = all ? TD_OK : base_no_memory(err, "names");
  json_array_foreach(json_object_get(all, key), i, name) {
    const char **to = base_vec_push(arena, names);
    if (to) *to = base_arena_text(arena, json_string_value(name));
    if (!to || !*to) status = base_no_memory(err, "names");
  }
  json_decref(all);
  return status;
}
