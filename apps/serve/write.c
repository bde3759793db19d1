/* write.c -- replies on connections of HTTP/1: in one, or in parts while the rest is computed. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "connection.h"

/* Reads on for a while what is thrown away: a socket that is closed with bytes unread resets the connection, and the
 * client might not see why it was refused. */
static void linger(loop *l, connection *c) {
  c->state = LINGER;
  serve_free_job(&c->job); /* others may need the room */
  serve_channel_finish(&c->channel);
  c->channel.reads_on_write = false;
  connection_watch(l, c, EPOLLIN, sys_clock_ns() + LINGER_SECONDS * (uint64_t)SECOND_NS);
}

/* All of it has been sent. */
static void end_reply(loop *l, connection *c) {
  connection_log(c);
  if (c->close_after) {
    if (c->refused || c->count > c->used) linger(l, c); /* a request that was sent behind this one is not read */
    else connection_drop(l, c);
    return;
  }
  connection_next(l, c);
}

static void write_whole(loop *l, connection *c) {
  const size_t all = c->out_count + c->reply_count;
  while (c->sent < all) {
    const size_t of_head = c->sent < c->out_count ? c->sent : c->out_count, of_reply = c->sent - of_head;
    const base_str head = {c->out + of_head, c->out_count - of_head};
    base_str reply = {NULL, c->reply_count - of_reply};
    if (reply.length) reply.at = c->job.reply.at + of_reply;
    const ssize_t put = serve_send_both(&c->channel, head, reply);
    if (put < 0 && errno == EAGAIN) {
      connection_watch(l, c, EPOLLOUT, serve_transfer_end(l->server, c->replied_ns, sys_clock_ns(), c->sent));
      return;
    }
    if (put < 0) {
      connection_drop(l, c);
      return;
    }
    c->sent += (size_t)put;
  }
  end_reply(l, c);
}

static void count_reply(const serve_job *job) {
  job->server->replies[job->status < 300 ? 0 : job->status < 500 ? 1 : 2]++;
}

/* The head of the reply, in one or in parts, which is sent next. */
static void begin_reply(loop *l, connection *c) {
  if (l->server->draining || !c->head.keep_alive) c->close_after = true;
  connection_name(c);
  c->out_count = serve_write_head(c->out, &c->job, &c->parts, c->close_after);
  c->sent = 0;
}

void connection_reply(loop *l, connection *c) {
  serve_job *job = &c->job;
  if (job->reply.failed) { /* what fits into the head needs no memory */
    job->status = job->is_over ? 503 : 507;
    job->reply.length = 0;
  }
  begin_reply(l, c);
  count_reply(job);
  c->reply_count = base_str_is(c->head.method, "HEAD") ? 0 : job->reply.length;
  c->replied_ns = sys_clock_ns();
  c->state = WRITE;
  write_whole(l, c);
}

void connection_give_up(connection *c) {
  c->close_after = true;
  c->state = COMPUTE;
  serve_parts_drop(&c->parts);
  serve_cancel(&c->job);
}

/* The head, and then what is ready; false: the socket takes no more for now (errno). */
static bool send_parts(connection *c) {
  base_str piece;
  bool more = true;
  for (;;) {
    const bool in_head = c->sent < c->out_count;
    if (in_head) piece = (base_str){c->out + c->sent, c->out_count - c->sent};
    else if (!serve_parts_next(&c->parts, &piece, &more)) return true;
    const ssize_t put = serve_send(&c->channel, piece.at, piece.length, more);
    if (put < 0) return false;
    if (in_head) c->sent += (size_t)put;
    else serve_parts_took(&c->parts, (size_t)put);
  }
}

static void write_parts(loop *l, connection *c) {
  const serve_parts *p = &c->parts;
  const bool all = send_parts(c);
  if (all && serve_parts_over(p)) end_reply(l, c);
  else if (all) connection_watch(l, c, EPOLLRDHUP, UINT64_MAX);
  else if (errno == EAGAIN)
    connection_watch(l, c, p->is_ended ? EPOLLOUT : EPOLLOUT | EPOLLRDHUP, serve_parts_expiry(p, l->server));
  else if (p->is_ended) connection_drop(l, c);
  else connection_give_up(c);
}

/* A part of the reply: the head goes out with the first one. */
void connection_extend(serve_job *job, serve_job *part) {
  connection *c = job->owner;
  if (job->cancel) {
    serve_free_part(part);
    return;
  }
  const bool begins = c->state == COMPUTE;
  serve_parts_add(&c->parts, part);
  if (begins) begin_reply(c->loop, c);
  if (begins) c->state = PARTS;
  write_parts(c->loop, c);
}

void connection_respond(serve_job *job) {
  connection *c = job->owner;
  if (!c->parts.is_begun) {
    connection_reply(c->loop, c);
    return;
  }
  count_reply(job);
  if (job->cancel) {
    connection_drop(c->loop, c);
    return;
  }
  serve_parts_end(&c->parts, job);
  if (c->parts.is_cut || c->loop->server->draining) c->close_after = true;
  write_parts(c->loop, c);
}

void connection_write(loop *l, connection *c, uint32_t events) {
  const bool is_gone = events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
  if (c->state == WRITE) write_whole(l, c);
  else if (is_gone && !c->parts.is_ended) connection_give_up(c);
  else write_parts(l, c);
}
