/* Any bytes as a zip archive, every entry read; and as npz. */
#include "touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  base_counting counting = {.inner = &base_libc_allocator};
  td_allocator allocator = base_counting_allocator(&counting);
  base_arena *arena = base_arena_new(&allocator);
  fmt_zip zip;
  td_error err;
  fmt_state_dict *dict;
  if (!arena) return 0;
  if (fmt_zip_open(arena, data, size, &zip, &err) == TD_OK)
    for (uint32_t i = 0; i < zip.count; i++) {
      const uint8_t *bytes;
      if (fmt_zip_read(arena, &zip, &zip.entries[i], &bytes, &err) == TD_OK) base_hash(bytes, zip.entries[i].bytes, 0);
    }
  base_arena_free(arena);
  if (fmt_npz_open(&allocator, data, size, TD_BF16, &dict, &err) == TD_OK) touch_dict(dict);
  check_memory(&counting, 12 + 2 * 1032, size);
  return 0;
}
