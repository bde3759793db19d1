/* Any bytes as a picture file, and what decodes as a network's input. */
#include "fmt/fmt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  fmt_image image;
  base_tensor tensor;
  td_error err;
  if (!arena) return 0;
  if (fmt_image_decode(arena, data, size, 1 << 20, &image, &err) == TD_OK)
    for (size_t i = 0; fmt_image_preset_name(i); i++)
      fmt_image_preprocess(arena, &image, fmt_image_preset_name(i), &tensor, &err);
  base_arena_free(arena);
  return 0;
}
