/* resets.h -- frames of HTTP/2 on their way to nghttp2, without resets of streams that were never opened. */
#ifndef SERVE_RESETS_H
#define SERVE_RESETS_H
#include "base/base.h"

enum { SERVE_FRAME_HEAD = 9 };

/* What has come of a connection. Start zeroed, but for `left`: bytes in front of the first frame. */
typedef struct serve_frames {
  uint8_t head[SERVE_FRAME_HEAD]; /* of the frame that comes, as far as it is there */
  uint32_t head_count, left;      /* left: bytes that are still to come of what it is the head of */
  uint32_t newest, early;         /* the newest stream of the client; how many resets were left out */
  bool is_early;                  /* the frame is left out */
} serve_frames;

/* Takes some bytes from the front of `from`. `part`: what of it is to be passed on, maybe nothing; it is of `from`, or
 * of `f` until the next call. False: there are none left. */
bool serve_pass_frames(serve_frames *f, base_str *from, base_str *part);
#endif
