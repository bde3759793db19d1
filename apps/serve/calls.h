/* calls.h -- one gRPC stream that takes messages as they come, or gives several: each message is a job of its own, and
 * replies go out in the order of the requests. On its loop's thread alone; knows nothing of HTTP/2. */
#ifndef SERVE_CALLS_H
#define SERVE_CALLS_H
#include "server.h"

typedef struct serve_calls serve_calls;

/* What a stream is, by its method. */
enum { SERVE_TAKES_MANY = 1, SERVE_GIVES_MANY = 2 };

/* `stream`: the stream's own job, whose body collects what comes and whose head all calls share; borrowed. `kind`: of
 * the above. `is_packed`: messages may be gzip. ready(owner): something is to be sent, or none is computed any more.
 * NULL: out of memory. */
serve_calls *serve_calls_open(serve_job *stream, uint32_t kind, bool is_packed, void (*ready)(void *owner),
                              void *owner);
void serve_calls_add(serve_calls *c, const void *bytes, size_t count); /* bytes that have come */
void serve_calls_finish(serve_calls *c);                               /* no more will come */
void serve_calls_stop(serve_calls *c);   /* the server ends: what has begun is answered, and no more */
void serve_calls_cancel(serve_calls *c); /* the client has gone: nothing is sent any more */
/* Begins calls for what has come, as many as there is room for. How many. */
uint32_t serve_calls_begin(serve_calls *c);
bool serve_calls_has_room(const serve_calls *c); /* false: its client is not to send more for now */
/* Takes what is ready to be sent, at most `room` bytes. */
size_t serve_calls_read(serve_calls *c, uint8_t *to, size_t room);
/* The status of gRPC with which the stream ends when all has been read, and its text; -1: it does not end yet. */
int32_t serve_calls_status(const serve_calls *c, const char **text);
/* When the message that is arriving, or the reply that is not taken, began, and its bytes so far; 0: there is none. */
uint64_t serve_calls_moving(const serve_calls *c, uint64_t *bytes);
bool serve_calls_idle(const serve_calls *c); /* none is computed */
void serve_calls_free(serve_calls *c);       /* it is idle; NULL is allowed */
#endif
