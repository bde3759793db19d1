/* reply.h -- replies of HTTP: the head of HTTP/1, and bodies that come in parts. On its loop's thread alone. */
#ifndef SERVE_REPLY_H
#define SERVE_REPLY_H
#include "server.h"

#define SECOND_NS 1000000000u

/* A body that is sent while the rest of it is computed. Start zeroed, but for is_chunked: each part goes out as a chunk
 * of HTTP/1.1, and behind them comes the mark that it is whole. */
typedef struct serve_parts {
  serve_job *first, *last; /* that are not sent */
  const base_text *rest;   /* behind them, borrowed; NULL: there is none, or not yet */
  size_t sent;             /* of what is in front, with its frame */
  uint64_t bytes;          /* that were sent, without frames */
  int32_t status;          /* of the head, and its Content-Type */
  const char *type;
  bool is_chunked, is_begun, is_ended;
  bool is_cut;                        /* it ends without the mark: what there is of it is no reply */
  uint64_t since_ns, moved_ns, moved; /* of what waits now: since when; when bytes of it went last, and how many */
  char head[24];
} serve_parts;

/* Takes the part; the first one's status and type are those of the head. */
void serve_parts_add(serve_parts *p, serve_job *part);
/* `job` has come back with the end of the reply, or with an error, which cuts it. */
void serve_parts_end(serve_parts *p, const serve_job *job);
/* What is to be sent next, as one piece; false: nothing is ready. *more: another one is ready behind it. */
bool serve_parts_next(serve_parts *p, base_str *piece, bool *more);
void serve_parts_took(serve_parts *p, size_t count); /* so many bytes of the piece */
bool serve_parts_over(const serve_parts *p);         /* all that will ever be there has been sent */
/* When the client has taken too long to read what waits for it; UINT64_MAX: nothing does. */
uint64_t serve_parts_expiry(const serve_parts *p, const serve_server *server);
void serve_parts_drop(serve_parts *p); /* what was not sent is thrown away */
void serve_free_part(serve_job *part);

/* The head of a reply in one, or with p->is_begun of one in parts. How many bytes it has; all of it has room: texts are
 * bounded, those of the configuration when it is read. */
enum { SERVE_REPLY_HEAD = 2048 };
size_t serve_write_head(char to[SERVE_REPLY_HEAD], const serve_job *job, const serve_parts *p, bool closes);

/* When a transfer has taken too long that began at `begin_ns`, and of which the last of `bytes` moved at `moved_ns`. */
uint64_t serve_transfer_end(const serve_server *server, uint64_t begin_ns, uint64_t moved_ns, uint64_t bytes);
#endif
