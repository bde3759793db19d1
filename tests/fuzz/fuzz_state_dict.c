/* Any bytes as a file of torch.save, in both forms, and as a bare pickle. */
#include "touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  base_counting counting = {.inner = &base_libc_allocator};
  td_allocator allocator = base_counting_allocator(&counting);
  fmt_state_dict *dict;
  fmt_object *root;
  td_error err;
  size_t at = 0;
  base_arena *arena = base_arena_new(&allocator);
  if (!arena) return 0;
  fmt_pickle_read(arena, data, size, &at, &root, &err);
  base_arena_free(arena);
  check_memory(&counting, 100, size);
  if (fmt_state_dict_open(&allocator, data, size, &dict, &err) == TD_OK) touch_dict(dict);
  check_memory(&counting, 4 * 100 + 1032, size + (256 << 10));
  return 0;
}
