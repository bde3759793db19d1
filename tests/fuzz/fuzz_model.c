/* fuzz_model.c -- any bytes as a model, through the public interface and all of the compiler: imported, folded, planned
 * and printed, not run (a valid file may ask for a loop without end). Memory is limited as an administrator would limit
 * it. */
#include <stdlib.h>

#include "base/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY_MAX = 256 << 20 };

static void *limited_alloc(void *user, size_t bytes, size_t align) {
  base_counting *counting = user;
  if (bytes > MEMORY_MAX || counting->live_bytes + bytes > MEMORY_MAX) return NULL;
  td_allocator inner = base_counting_allocator(counting);
  return inner.alloc(inner.user, bytes, align);
}

static void limited_free(void *user, void *memory, size_t bytes) {
  td_allocator inner = base_counting_allocator(user);
  inner.free(inner.user, memory, bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  base_counting counting = {.inner = &base_libc_allocator};
  const td_allocator allocator = {&counting, limited_alloc, limited_free};
  td_load_options options = {.size = sizeof options, .backend = "aot_eager", .allocator = &allocator, .format = "onnx"};
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
  if (counting.live != 0) abort(); /* whatever happened, everything was given back */
  return 0;
}
