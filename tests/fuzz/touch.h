/* touch.h -- what the fuzz targets of readers share: every element of a result is read, and memory stays within the
 * multiple of the input that the reader's header states. */
#ifndef TESTS_FUZZ_TOUCH_H
#define TESTS_FUZZ_TOUCH_H
#include <stdlib.h>

#include "fmt/fmt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void touch_tensor(const base_tensor *t) {
  size_t bytes = base_tensor_bytes(t);
  void *copy = malloc(bytes + 1);
  if (copy) base_tensor_pack(copy, t);
  if (copy && t->dtype == TD_STRING)
    for (int64_t i = 0; i < base_tensor_numel(t); i++)
      base_hash(((base_str *)copy)[i].at, ((base_str *)copy)[i].length, 0);
  free(copy);
}

static inline void touch_value(const base_value *v) {
  if (v->kind == BASE_TENSOR) touch_tensor(&v->tensor);
  for (int64_t i = 0; v->kind == BASE_LIST && i < v->list.count; i++) touch_value(&v->list.items[i]);
}

static inline void touch_dict(fmt_state_dict *dict) {
  for (uint32_t i = 0; i < dict->entries.count; i++) touch_tensor(&dict->entries.at[i].tensor);
  fmt_state_dict_free(dict);
}

/* Vectors and chunks that grow by doubling take twice what they hold, and the last chunk may be nearly empty. */
static inline void check_memory(const base_counting *counting, size_t per_byte, size_t size) {
  if (counting->live != 0 || counting->peak_bytes > 2 * per_byte * size + (2 << 20)) __builtin_trap();
}
#endif
