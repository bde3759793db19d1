/* fuzz_tdir.c -- any bytes as a graph in its text form: read, folded, planned, not run. Files beside it are refused. */
#include <stdlib.h>

#include "base/limited.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY_MAX = 256 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  limited memory = {.counting = {.inner = &base_libc_allocator}, .most = MEMORY_MAX};
  const td_allocator allocator = limited_allocator(&memory);
  td_load_options options = {.size = sizeof options, .backend = "aot_eager", .allocator = &allocator, .format = "tdir"};
  td_model *model = NULL;
  td_error err = {0};
  td_status status = td_model_load_memory(data, size, &options, &model, &err);
  if ((status == TD_OK) != (model != NULL) || (status != TD_OK && !err.text[0])) abort();
  td_model_free(model);
  if (memory.counting.live != 0) abort(); /* whatever happened, everything was given back */
  return 0;
}
