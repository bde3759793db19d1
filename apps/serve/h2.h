/* h2.h -- one HTTP/2 connection, over nghttp2: REST as by HTTP/1.1, and gRPC. On its loop's thread alone. */
#ifndef SERVE_H2_H
#define SERVE_H2_H
#include "channel.h"

typedef struct serve_h2 serve_h2;

/* What a client that speaks HTTP/2 at once begins with. */
#define SERVE_H2_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

/* `channel` and `client`, its address, are borrowed. `ready(owner)` is called when a reply is ready to be sent. NULL:
 * out of memory. */
serve_h2 *serve_h2_open(serve_loop *loop, serve_channel *channel, const char *client, uint32_t roles,
                        void (*ready)(void *owner), void *owner);
/* Takes bytes from the socket. False: the connection is to be closed. */
bool serve_h2_receive(serve_h2 *h, const char *bytes, size_t count);
/* Sends what it can. False: the connection is to be closed. */
bool serve_h2_send(serve_h2 *h);
bool serve_h2_blocked(const serve_h2 *h);     /* is there more to send than the socket takes? */
uint32_t serve_h2_streams(const serve_h2 *h); /* requests that are not answered in full */
/* Resets streams whose request or reply takes too long, and counts them. -1: the connection is to be closed, since
 * nobody reads. */
int32_t serve_h2_expire(serve_h2 *h);
/* No new requests (GOAWAY), and streams of health end; when all are answered and the client says that it has read that,
 * the connection is to be closed. False: it was told before. */
bool serve_h2_end(serve_h2 *h);
/* Frees it; what is still computed is thrown away when it comes back. NULL is allowed. */
void serve_h2_close(serve_h2 *h);

/* Begins to tell streams of health what has changed, and counts them. */
uint32_t serve_h2_watch(serve_h2 *h);

/* grpc.c: as serve_route, for a gRPC message at job->body. */
bool serve_grpc(serve_job *job);
/* inputs.c: of a request's protocol (server.h), the inputs of a ModelInferRequest. */
td_status serve_grpc_read(serve_job *job, td_error *err);
/* Which sequence its parameters say that it is of; false: it is refused. */
bool serve_grpc_name(serve_job *job);
/* The reply of a REST handler as the message that the method gives. */
void serve_grpc_shape(serve_job *job);
/* What job->watched is now, as grpc.health.v1 has it; and the message that says so. */
int32_t serve_grpc_health(serve_server *server, const char *service);
void serve_grpc_tell_health(serve_job *job, int32_t health);
enum { SERVE_GRPC_UNAVAILABLE = 14 }; /* with which streams end when the server does */
/* What the method takes and gives (calls.h); 0: one message each. */
uint32_t serve_grpc_kind(const serve_job *job);
/* The status of gRPC for one of HTTP. */
uint32_t serve_grpc_status(const serve_job *job);
#endif
