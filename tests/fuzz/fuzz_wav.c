/* Any bytes as a sound file. */
#include "fmt/fmt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  base_tensor samples;
  int64_t rate;
  td_error err;
  if (!arena) return 0;
  fmt_wav_read(arena, data, size, &samples, &rate, &err);
  base_arena_free(arena);
  return 0;
}
