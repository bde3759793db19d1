/* Tars of archives: whatever the bytes, the zip that comes of them can be read, or is refused. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  base_text text = {.allocator = &base_libc_allocator};
  fmt_zip_writer writer = {.out = &text, .directory = {.allocator = &base_libc_allocator}};
  char *copy = malloc(size ? size : 1); /* of its own, so that a byte beyond it is found */
  td_error err = {.offset = -1};
  fmt_zip zip;
  if (!arena || !copy) abort();
  if (size) memcpy(copy, data, size);
  td_status status = bundle_add_tar(&writer, (base_str){copy, size}, arena, &err);
  if (status == TD_OK) status = fmt_zip_finish(&writer, &err);
  else base_text_free(&writer.directory);
  if (status == TD_OK) status = fmt_zip_open(arena, text.at, text.length, &zip, &err);
  assert(status == TD_OK || err.text[0]);
  free(copy);
  base_text_free(&text);
  base_arena_free(arena);
  return 0;
}
