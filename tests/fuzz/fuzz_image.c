/* Any bytes as a picture file, and what decodes as a network's input. */
#include "fmt/fmt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  fmt_image image;
  base_tensor tensor;
  td_error err;
  const int64_t dims[] = {1, 9, 5, size % 2 ? 3 : 1};
  const fmt_image_input inputs[] = {{TD_F32, 4, dims}, {TD_U8, 3, dims + 1}};
  if (!arena) return 0;
  if (fmt_image_decode(arena, data, size, 1 << 20, &image, &err) == TD_OK)
    for (size_t i = 0; fmt_image_preset_name(i); i++)
      for (size_t k = 0; k < 3; k++)
        fmt_image_preprocess(arena, &image, fmt_image_preset_name(i), k < 2 ? &inputs[k] : NULL, &tensor, &err);
  base_arena_free(arena);
  return 0;
}
