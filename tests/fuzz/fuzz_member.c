/* A member of a JSON document that member.c finds is the one that the whole document has, if that can be read; one that
 * it does not find is not there, or written with escapes. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fmt/json.h"
#include "member.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char name[] = "parameters";
  base_arena *arena = base_arena_new(&base_libc_allocator);
  char *copy = malloc(size ? size : 1); /* of its own, so that a byte beyond it is found */
  const fmt_json *root, *alone;
  if (!arena || !copy) abort();
  if (size) memcpy(copy, data, size);
  const base_str found = serve_find_member((base_str){copy, size}, name);
  assert(!found.at || (found.at >= copy && found.length <= size - (size_t)(found.at - copy)));
  if (fmt_json_read(arena, "it", copy, size, &root, NULL) == TD_OK) {
    const fmt_json *member = fmt_json_get(root, name);
    assert(found.at ? member != NULL : !member || memchr(copy, '\\', size));
    if (found.at) {
      if (fmt_json_read(arena, "it", found.at, found.length, &alone, NULL) != TD_OK) abort();
      assert(alone->kind == member->kind && alone->count == member->count);
    }
  }
  free(copy);
  base_arena_free(arena);
  return 0;
}
