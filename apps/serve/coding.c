/* coding.c -- bodies that came as gzip or deflate. What they grow to is bounded as other bodies are. */
#include <string.h>
#include <zlib.h>

#include "server.h"

enum { PIECE = 1 << 16, DETECT_HEADER = 32 }; /* zlib tells gzip from zlib by the first bytes */

/* Inflates into job->body anew; the old body is `from`. */
static int32_t inflate_all(serve_job *job, z_stream *z, size_t most) {
  for (int state = Z_OK; state != Z_STREAM_END;) {
    if (job->count == job->cap) {
      const size_t wanted = job->cap ? job->cap * 2 : PIECE;
      char *longer = job->cap < most ? base_alloc(&base_libc_allocator, wanted) : NULL;
      if (!longer) return job->cap < most ? 507 : 413;
      if (job->count) memcpy(longer, job->body, job->count);
      base_free(&base_libc_allocator, job->body, job->cap);
      job->body = longer;
      job->cap = wanted;
    }
    const size_t room = job->cap - job->count < PIECE ? job->cap - job->count : PIECE;
    z->next_out = (Bytef *)job->body + job->count;
    z->avail_out = (uInt)room;
    state = inflate(z, Z_NO_FLUSH);
    job->count += room - z->avail_out;
    if (job->count > most) return 413;
    if (state != Z_OK && state != Z_STREAM_END) return 400;
  }
  return z->avail_in ? 400 : 0;
}

int32_t serve_decode(serve_job *job, base_str coding, size_t most, td_error *err) {
  z_stream z = {0};
  const bool known = base_str_is(coding, "gzip") || base_str_is(coding, "x-gzip") || base_str_is(coding, "deflate");
  if (base_str_is(coding, "identity")) return 0;
  base_fail(err, TD_BAD_FILE, NULL, -1, "the body is no %.32s that can be read, or too large",
            known ? "gzip or deflate" : "coding");
  if (!known) return 415;
  if (job->count > UINT32_MAX || inflateInit2(&z, 15 + DETECT_HEADER) != Z_OK) return 507;
  char *from = job->body;
  const size_t cap = job->cap;
  z.next_in = (Bytef *)from;
  z.avail_in = (uInt)job->count;
  job->body = NULL;
  job->count = job->cap = 0;
  const int32_t status = from ? inflate_all(job, &z, most) : 400;
  inflateEnd(&z);
  base_free(&base_libc_allocator, from, cap);
  return status;
}
