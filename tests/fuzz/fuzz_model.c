/* fuzz_model.c -- any bytes as a model, through the public interface and all of the compiler: imported, folded, planned
 * and printed, not run (a valid file may ask for a loop without end). Memory is limited as an administrator would limit
 * it. */
#include <stdlib.h>

#include "base/limited.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY_MAX = 256 << 20 };

static void compile(const uint8_t *data, size_t size, const char *backend) {
  limited memory = {.counting = {.inner = &base_libc_allocator}, .most = MEMORY_MAX};
  const td_allocator allocator = limited_allocator(&memory);
  td_load_options options = {.size = sizeof options, .backend = backend, .allocator = &allocator, .format = "onnx"};
  td_model *model = NULL;
  td_error err = {0};
  td_status status = td_model_load_memory(data, size, &options, &model, &err);
  if ((status == TD_OK) != (model != NULL) || (status != TD_OK && !err.text[0])) abort();
  if (model) {
    char *text = NULL;
    if (td_model_print(model, "plan", "text", &text, &err) == TD_OK) td_text_free(model, text);
    td_session *session = NULL;
    if (td_session_new(model, NULL, &session, &err) == TD_OK) td_session_free(session);
  }
  td_model_free(model);
  if (memory.counting.live != 0) abort(); /* whatever happened, everything was given back */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  compile(data, size, "aot_eager");
  compile(data, size, "native");
  return 0;
}
