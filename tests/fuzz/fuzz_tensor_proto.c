/* Any bytes as a TensorProto, a SequenceProto and an OptionalProto. */
#include "touch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  for (fmt_value_form form = FMT_FORM_TENSOR; form <= FMT_FORM_OPTIONAL; form++) {
    base_counting counting = {.inner = &base_libc_allocator};
    td_allocator allocator = base_counting_allocator(&counting);
    base_arena *arena = base_arena_new(&allocator);
    base_value value;
    td_error err;
    if (!arena) return 0;
    if (fmt_value_proto_read(arena, fmt_wire_of(data, size), form, &value, &err) == TD_OK) touch_value(&value);
    base_arena_free(arena);
    check_memory(&counting, 96, size);
  }
  return 0;
}
