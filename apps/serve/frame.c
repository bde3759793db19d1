/* frame.c -- frames to and from processes with Python handlers: heads, and what a text says of the bytes behind it. */
#include "frame.h"

#include <string.h>

static td_status bad(td_error *err, const char *text) {
  return base_fail(err, TD_BAD_FILE, NULL, -1, "the worker's frame %s", text);
}

static void put(uint8_t *to, uint64_t value, int count) {
  for (int i = 0; i < count; i++) to[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *from, int count) {
  uint64_t value = 0;
  for (int i = 0; i < count; i++) value |= (uint64_t)from[i] << 8 * i;
  return value;
}

void frame_write_head(uint8_t to[FRAME_HEAD], const frame_head *head) {
  memcpy(to, "TPY", 3);
  to[3] = (uint8_t)head->kind;
  put(to + 4, head->text, 4);
  put(to + 8, head->bytes, 8);
}

td_status frame_read_head(const uint8_t from[FRAME_HEAD], uint64_t most, frame_head *head, td_error *err) {
  *head = (frame_head){from[3], (uint32_t)get(from + 4, 4), get(from + 8, 8)};
  if (memcmp(from, "TPY", 3) != 0 || head->kind < FRAME_LOADED || head->kind > FRAME_PART)
    return bad(err, "has no head");
  if (head->text > FRAME_MOST_TEXT) return bad(err, "has a text of more than 16 MiB");
  if (head->bytes > most)
    return base_fail(err, TD_BAD_FILE, NULL, -1, "the worker's frame has %llu bytes; %llu are allowed (--most-bytes)",
                     (unsigned long long)head->bytes, (unsigned long long)most);
  return TD_OK;
}

td_status frame_read(base_arena *arena, const frame_head *head, const char *text, const char *bytes, frame *out,
                     td_error *err) {
  *out = (frame){.kind = head->kind, .at = bytes, .left = (size_t)head->bytes};
  TRY(fmt_json_read(arena, "the worker's frame", text, head->text, &out->root, err));
  return fmt_json_is(out->root, FMT_JSON_OBJECT) ? TD_OK : bad(err, "has a text that is no object");
}

td_status frame_take(frame *f, const fmt_json *item, base_str *part, td_error *err) {
  const fmt_json *count = fmt_json_get(item, "bytes");
  if (!fmt_json_is(count, FMT_JSON_INT) || count->u.i < 0 || (uint64_t)count->u.i > f->left)
    return bad(err, "says more bytes than it has");
  *part = (base_str){f->at, (size_t)count->u.i};
  if (part->length) f->at += part->length; /* of no bytes there may be no address */
  f->left -= part->length;
  return TD_OK;
}

td_status frame_take_tensor(frame *f, const fmt_json *item, td_tensor *t, td_error *err) {
  const fmt_json *shape = fmt_json_get(item, "shape");
  const char *dtype = fmt_json_text(fmt_json_get(item, "dtype"));
  base_str part;
  int64_t count;
  size_t bytes;
  *t = (td_tensor){.dtype = dtype ? base_dtype_from_name(base_str_of(dtype)) : TD_INVALID};
  if (t->dtype == TD_INVALID || t->dtype == TD_STRING) return bad(err, "has a tensor of no known element type");
  if (!fmt_json_is(shape, FMT_JSON_ARRAY) || fmt_json_count(shape) > TD_MAX_RANK)
    return bad(err, "has a tensor without a shape");
  t->rank = (int32_t)fmt_json_count(shape);
  for (int32_t d = 0; d < t->rank; d++) {
    const fmt_json *size = fmt_json_at(shape, (size_t)d);
    if (!fmt_json_is(size, FMT_JSON_INT) || size->u.i < 0) return bad(err, "has a shape of no sizes");
    t->dims[d] = size->u.i;
  }
  TRY(frame_take(f, item, &part, err));
  if (!base_numel(t->rank, t->dims, &count) || !base_dtype_bytes(t->dtype, count, &bytes) || bytes != part.length)
    return bad(err, "has a tensor whose bytes are not those of its shape");
  t->data = (void *)(uintptr_t)part.at;
  return TD_OK;
}

td_status frame_end(const frame *f, td_error *err) {
  return f->left ? bad(err, "has bytes that belong to nothing") : TD_OK;
}
