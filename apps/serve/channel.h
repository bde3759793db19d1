/* channel.h -- what goes over a connection's socket, in clear text or by TLS. Calls return as recv and send do: -1 with
 * EAGAIN where they would wait. */
#ifndef SERVE_CHANNEL_H
#define SERVE_CHANNEL_H
#include <sys/types.h>

#include "server.h"

typedef struct serve_tls serve_tls; /* certificates, for many connections */

typedef struct serve_channel {
  int fd;
  void *tls;           /* OpenSSL's; NULL: clear text */
  bool reads_on_write; /* reading goes on when the socket can be written to: within a handshake, or for bytes that
                        * OpenSSL has already taken from the socket */
} serve_channel;

/* Reads certificate and key (PEM). Errors name the file. */
td_status serve_tls_open(const char *certificate, const char *key, serve_tls **tls, td_error *err);
void serve_tls_close(serve_tls *tls); /* connections that are open keep it; NULL is allowed */

/* `tls` may be NULL. False: out of memory. */
bool serve_channel_open(serve_channel *c, int fd, serve_tls *tls);
void serve_channel_finish(serve_channel *c); /* there is no more to send; the other side may still send */
void serve_channel_close(serve_channel *c);
ssize_t serve_receive(serve_channel *c, void *to, size_t room);
/* `more`: there is more to come at once. */
ssize_t serve_send(serve_channel *c, const void *from, size_t count, bool more);
/* What one call takes of both, one behind the other. */
ssize_t serve_send_both(serve_channel *c, base_str first, base_str second);
bool serve_buffered(const serve_channel *c); /* are there bytes that the socket does not tell of? */
#endif
