/* load.h -- what the fuzz targets of whole formats share: any bytes are loaded as a model of the format, folded and
 * planned, not run. Memory is limited as an administrator would limit it. */
#ifndef TESTS_FUZZ_LOAD_H
#define TESTS_FUZZ_LOAD_H
#include <stdlib.h>

#include "base/limited.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline int load_within_memory(const uint8_t *data, size_t size, const char *format) {
  enum { MEMORY_MAX = 256 << 20 };
  limited memory = {.counting = {.inner = &base_libc_allocator}, .most = MEMORY_MAX};
  const td_allocator allocator = limited_allocator(&memory);
  td_load_options options = {.size = sizeof options, .backend = "aot_eager", .allocator = &allocator, .format = format};
  td_model *model = NULL;
  td_error err = {0};
  td_status status = td_model_load_memory(data, size, &options, &model, &err);
  if ((status == TD_OK) != (model != NULL) || (status != TD_OK && !err.text[0])) abort();
  td_model_free(model);
  if (memory.counting.live != 0) abort(); /* whatever happened, everything was given back */
  return 0;
}
#endif
