/* Any bytes as .npy, and what was read written and read again. */
#include "touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const td_dtype raw[] = {TD_INVALID, TD_BF16, TD_I4};
  for (size_t i = 0; i < sizeof raw / sizeof *raw; i++) {
    base_counting counting = {.inner = &base_libc_allocator};
    td_allocator allocator = base_counting_allocator(&counting);
    base_arena *arena = base_arena_new(&allocator);
    base_tensor tensor, again;
    base_text text = {.allocator = &base_libc_allocator};
    td_error err;
    if (!arena) return 0;
    if (fmt_npy_read(arena, data, size, raw[i], &tensor, &err) == TD_OK) {
      touch_tensor(&tensor);
      if (fmt_npy_write(&text, &tensor, &err) != TD_OK) __builtin_trap();
      if (fmt_npy_read(arena, text.at, text.length, raw[i], &again, &err) != TD_OK) __builtin_trap();
    }
    base_text_free(&text);
    base_arena_free(arena);
    check_memory(&counting, 1, size);
  }
  return 0;
}
