/* resets.c -- grpcio 1.51 resets a stream that it never opened when a call is cancelled before its head is sent. By RFC
 * 9113 that ends the connection, and nghttp2 does so, with all other calls of the channel; gRPC's own servers pass over
 * it. So do we, some times: such frames do not reach nghttp2. */
#include "resets.h"

#include <string.h>

enum { MOST_EARLY = 1000, HEADERS = 1, RST_STREAM = 3, RST_STREAM_BYTES = 4 };

static void begin_frame(serve_frames *f) {
  const uint8_t *head = f->head;
  const uint32_t id = (head[5] & 0x7fu) << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 | head[8];
  f->left = (uint32_t)head[0] << 16 | (uint32_t)head[1] << 8 | head[2];
  f->head_count = 0;
  if (head[3] == HEADERS && id > f->newest) f->newest = id;
  f->is_early =
      head[3] == RST_STREAM && f->left == RST_STREAM_BYTES && id % 2 && id > f->newest && f->early < MOST_EARLY;
  f->early += f->is_early;
}

bool serve_pass_frames(serve_frames *f, base_str *from, base_str *part) {
  const bool in_frame = f->left > 0;
  const size_t wanted = in_frame ? f->left : SERVE_FRAME_HEAD - f->head_count;
  const size_t count = from->length < wanted ? from->length : wanted;
  if (!count) return false;
  *part = (base_str){from->at, in_frame && !f->is_early ? count : 0};
  if (in_frame) {
    f->left -= (uint32_t)count;
  } else {
    memcpy(f->head + f->head_count, from->at, count);
    f->head_count += (uint32_t)count;
    if (f->head_count == SERVE_FRAME_HEAD) begin_frame(f);
    if (!f->head_count && !f->is_early) *part = (base_str){(const char *)f->head, SERVE_FRAME_HEAD};
  }
  from->at += count;
  from->length -= count;
  return true;
}
