/* Frames of processes with Python handlers: a head, then its text and bytes as far as they are there. Whatever they
 * say, parts and tensors lie within the bytes. */
#include <assert.h>
#include <stdlib.h>

#include "frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take_all(frame *f, const char *list, const char *begin, const char *end) {
  const fmt_json *items = fmt_json_get(f->root, list);
  for (size_t i = 0; i < fmt_json_count(items); i++) {
    td_error err = {.offset = -1};
    const fmt_json *item = fmt_json_at(items, i);
    td_tensor t;
    base_str part;
    size_t bytes;
    int64_t count;
    if (i % 2) {
      if (frame_take(f, item, &part, &err) == TD_OK) assert(part.at >= begin && part.at + part.length <= end);
      continue;
    }
    if (frame_take_tensor(f, item, &t, &err) != TD_OK) continue;
    const bool known = base_numel(t.rank, t.dims, &count) && base_dtype_bytes(t.dtype, count, &bytes);
    assert(known && (const char *)t.data >= begin && (const char *)t.data + bytes <= end);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  td_error err = {.offset = -1};
  frame_head head;
  frame f;
  if (size < FRAME_HEAD || frame_read_head(data, size - FRAME_HEAD, &head, &err) != TD_OK) return 0;
  if (head.text > size - FRAME_HEAD || head.bytes > size - FRAME_HEAD - head.text) return 0;
  const char *text = (const char *)data + FRAME_HEAD, *bytes = text + head.text;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  if (!arena) abort();
  if (frame_read(arena, &head, text, bytes, &f, &err) == TD_OK) {
    take_all(&f, "inputs", bytes, bytes + head.bytes);
    take_all(&f, "replies", bytes, bytes + head.bytes);
    assert((frame_end(&f, &err) == TD_OK) == (f.left == 0));
  }
  base_arena_free(arena);
  return 0;
}
