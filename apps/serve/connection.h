/* connection.h -- connections and the loops that own them; what loop.c and write.c have of each other. */
#ifndef SERVE_CONNECTION_H
#define SERVE_CONNECTION_H
#include "h2.h"
#include "reply.h"

enum { LINGER_SECONDS = 2 }; /* that a client has to read the last that it is sent */

typedef struct connection {
  serve_channel channel; /* fd -1: free */
  struct loop *loop;
  enum { READ_HEAD, READ_BODY, COMPUTE, PARTS, WRITE, LINGER, STREAMS } state;
  serve_h2 *h2;             /* STREAMS: the connection speaks HTTP/2 */
  bool receiving;           /* within serve_h2_receive: replies are sent behind it */
  bool close_after, served; /* served: a request was read */
  bool refused;             /* before all of it was read: its client may still send */
  bool logged;              /* this request is in the access log */
  char client[64];          /* its address */
  size_t count, used;       /* bytes in `in`; of these, those that belong to the head */
  http_scan scan;
  http_head head;
  http_chunks chunks;
  serve_job job;
  uint32_t roles;    /* of the address that it came by */
  serve_parts parts; /* PARTS: of the reply, which may still be computed */
  char out[SERVE_REPLY_HEAD];
  size_t out_count, reply_count, sent; /* of the head and of the body; of both that were sent */
  uint64_t idle_ns, replied_ns;        /* since when no request is there; when the reply was */
  uint64_t until_ns;
  char in[HTTP_HEAD_BYTES + 4096];
} connection;

/* What loops do, by what the first one says; afterwards they return. */
typedef enum loop_phase { LOOPS_SERVE, LOOPS_CLOSE, LOOPS_END } loop_phase;

typedef struct loop {
  serve_server *server;
  serve_loop *own;        /* what other threads have of it */
  struct loop *first;     /* it accepts connections for all, and gives each to the loop that has the fewest */
  sys_thread thread;      /* of all but the first */
  int epoll, arrivals[2]; /* a pipe, by which it gets its connections; -1: not used */
  bool closing;           /* connections end when they have been answered */
  _Atomic uint32_t open;  /* connections, also those on their way to it */
  uint64_t swept_ns;      /* when all connections were looked at last */
  uint32_t told_changes;  /* of health, that listeners have heard of */
  connection *all;        /* `room` of them */
  uint32_t room;
  /* ---- of the first ---- */
  int signals, listeners[SERVE_ADDRESSES]; /* -1: not used */
  bool resting;                            /* descriptors ran out: listeners are not asked until one is free */
  serve_tls *tls;                          /* of addresses with https */
  _Atomic loop_phase phase;
} loop;

/* loop.c: asks for events, once, and no later than `until_ns` for one of them. */
void connection_watch(loop *l, connection *c, uint32_t events, uint64_t until_ns);
void connection_drop(loop *l, connection *c);
void connection_next(loop *l, connection *c); /* its reply has been sent: a request may follow */
void connection_log(connection *c);           /* when the reply is gone, or the client */
void connection_name(connection *c);          /* c->job.id */

/* write.c: sends the job's reply. connection_respond and connection_extend are those of the job (server.h). */
void connection_reply(loop *l, connection *c);
void connection_respond(serve_job *job);
void connection_extend(serve_job *job, serve_job *part);
void connection_write(loop *l, connection *c, uint32_t events); /* WRITE and PARTS: goes on, by these events */
/* The client has closed its side, or takes nothing: it waits for no reply, and its job is to come back. */
void connection_give_up(connection *c);
#endif
