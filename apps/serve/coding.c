/* coding.c -- bodies that came as gzip or deflate. What they grow to is bounded as other bodies are. */
#include <string.h>
#include <zlib.h>

#include "server.h"

enum { PIECE = 1 << 16, DETECT_HEADER = 32 }; /* zlib tells gzip from zlib by the first bytes */

/* Inflates into job->body anew. */
static int32_t inflate_all(serve_job *job, z_stream *z) {
  const size_t most = (size_t)job->server->options.most_bytes;
  for (int state = Z_OK; state != Z_STREAM_END;) {
    if (job->count == job->cap) {
      if (job->cap >= most) return 413;
      if (!serve_grow_body(job, job->cap ? job->cap * 2 : PIECE)) return 507;
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

bool serve_decode(serve_job *job, base_str coding) {
  z_stream z = {0};
  const bool known = base_str_is(coding, "gzip") || base_str_is(coding, "x-gzip") || base_str_is(coding, "deflate");
  int32_t status = known ? 507 : 415;
  if (base_str_is(coding, "identity")) return true;
  if (known && job->count <= UINT32_MAX && inflateInit2(&z, 15 + DETECT_HEADER) == Z_OK) {
    char *from = job->body;
    const size_t cap = job->cap;
    z.next_in = (Bytef *)from;
    z.avail_in = (uInt)job->count;
    job->body = NULL;
    job->count = job->cap = 0;
    status = from ? inflate_all(job, &z) : 400;
    inflateEnd(&z);
    serve_drop_bytes(job, from, cap);
  }
  if (status == 507 && job->is_over) serve_refuse_memory(job);
  else if (status)
    serve_refuse(job, status, "the body is no %s that can be read, or too large", known ? "gzip or deflate" : "coding");
  return status == 0;
}
