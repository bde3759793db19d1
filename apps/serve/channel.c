/* channel.c -- sockets, with OpenSSL where TLS is asked for: TLS 1.2 and later, HTTP/2 and HTTP/1.1 by ALPN. */
#include "channel.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

struct serve_tls {
  SSL_CTX *context;
};

/* The client's first protocol that is spoken here. */
static int choose_protocol(SSL *ssl, const unsigned char **chosen, unsigned char *length, const unsigned char *offered,
                           unsigned count, void *user) {
  static const unsigned char spoken[] = "\x02h2\x08http/1.1";
  (void)ssl;
  (void)user;
  return SSL_select_next_proto((unsigned char **)(uintptr_t)chosen, length, spoken, sizeof spoken - 1, offered,
                               count) == OPENSSL_NPN_NEGOTIATED
             ? SSL_TLSEXT_ERR_OK
             : SSL_TLSEXT_ERR_ALERT_FATAL;
}

static td_status fail(const char *file, td_error *err) {
  const char *why = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return base_fail(err, TD_BAD_FILE, file, -1, "cannot be used for TLS: %s", why ? why : "not known why");
}

td_status serve_tls_open(const char *certificate, const char *key, serve_tls **tls, td_error *err) {
  serve_tls *t = base_alloc(&base_libc_allocator, sizeof *t);
  td_status status = TD_OK;
  if (!t) return base_no_memory(err, "TLS");
  t->context = SSL_CTX_new(TLS_server_method());
  if (!t->context || SSL_CTX_set_min_proto_version(t->context, TLS1_2_VERSION) != 1)
    status = base_no_memory(err, "TLS");
  else if (SSL_CTX_use_certificate_chain_file(t->context, certificate) != 1) status = fail(certificate, err);
  else if (SSL_CTX_use_PrivateKey_file(t->context, key, SSL_FILETYPE_PEM) != 1) status = fail(key, err);
  if (status != TD_OK) {
    serve_tls_close(t);
    return status;
  }
  SSL_CTX_set_options(t->context, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(t->context,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(t->context, choose_protocol, NULL);
  *tls = t;
  return TD_OK;
}

void serve_tls_close(serve_tls *tls) {
  if (!tls) return;
  SSL_CTX_free(tls->context); /* it counts who uses it */
  base_free(&base_libc_allocator, tls, sizeof *tls);
}

bool serve_channel_open(serve_channel *c, int fd, serve_tls *tls) {
  *c = (serve_channel){.fd = fd};
  if (!tls) return true;
  SSL *ssl = SSL_new(tls->context);
  if (!ssl || SSL_set_fd(ssl, fd) != 1) {
    SSL_free(ssl);
    c->fd = -1; /* it stays the caller's */
    return false;
  }
  SSL_set_accept_state(ssl);
  c->tls = ssl;
  return true;
}

void serve_channel_finish(serve_channel *c) {
  if (c->tls) SSL_shutdown(c->tls);
  ERR_clear_error();
  shutdown(c->fd, SHUT_WR);
}

void serve_channel_close(serve_channel *c) {
  if (c->tls) {
    SSL_shutdown(c->tls);
    SSL_free(c->tls);
    ERR_clear_error();
  } else {
    shutdown(c->fd, SHUT_WR);
  }
  close(c->fd);
  *c = (serve_channel){.fd = -1};
}

/* The result of OpenSSL's call as that of recv and send. */
static ssize_t result_of(serve_channel *c, int result, bool reading) {
  if (result > 0) return result;
  const int why = SSL_get_error(c->tls, result);
  ERR_clear_error();
  if (why == SSL_ERROR_ZERO_RETURN) return 0;
  if (why == SSL_ERROR_WANT_WRITE) c->reads_on_write = reading;
  errno = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? EAGAIN : EPROTO;
  return -1;
}

ssize_t serve_receive(serve_channel *c, void *to, size_t room) {
  c->reads_on_write = false;
  if (!c->tls) return recv(c->fd, to, room, 0);
  ERR_clear_error();
  return result_of(c, SSL_read(c->tls, to, room < INT_MAX ? (int)room : INT_MAX), true);
}

ssize_t serve_send(serve_channel *c, const void *from, size_t count, bool more) {
  if (!c->tls) return send(c->fd, from, count, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
  if (!count) return 0;
  ERR_clear_error();
  return result_of(c, SSL_write(c->tls, from, count < INT_MAX ? (int)count : INT_MAX), false);
}

ssize_t serve_send_both(serve_channel *c, base_str first, base_str second) {
  if (c->tls || !first.length || !second.length) {
    const base_str next = first.length ? first : second;
    return serve_send(c, next.at, next.length, first.length && second.length);
  }
  struct iovec both[] = {{(void *)(uintptr_t)first.at, first.length}, {(void *)(uintptr_t)second.at, second.length}};
  return sendmsg(c->fd, &(struct msghdr){.msg_iov = both, .msg_iovlen = 2}, MSG_NOSIGNAL);
}

bool serve_buffered(const serve_channel *c) { return c->tls && SSL_pending(c->tls) > 0; }
