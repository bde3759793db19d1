/* Any bytes as safetensors, directly and by way of the sniffing. */
#include "touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  base_counting counting = {.inner = &base_libc_allocator};
  td_allocator allocator = base_counting_allocator(&counting);
  fmt_state_dict *dict;
  td_error err;
  if (fmt_safetensors_open(&allocator, data, size, &dict, &err) == TD_OK) touch_dict(dict);
  check_memory(&counting, 80, size);
  if (fmt_weights_open(&allocator, data, size, &dict, &err) == TD_OK) touch_dict(dict);
  return 0;
}
