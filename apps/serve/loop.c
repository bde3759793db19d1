/* loop.c -- connections: of each loop one thread, one epoll. A connection reads a request, waits for its job, writes
 * the reply; events are asked for once each time (EPOLLONESHOT), so what is computed for is not touched meanwhile. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"

enum { CONNECTIONS = 1024, IDLE_SECONDS = 75, SWEEP_MS = 200 };

void connection_watch(loop *l, connection *c, uint32_t events, uint64_t until_ns) {
  struct epoll_event event = {.events = events | EPOLLONESHOT, .data.ptr = c};
  if ((events & EPOLLIN) && serve_buffered(&c->channel)) c->channel.reads_on_write = true;
  if ((events & EPOLLIN) && c->channel.reads_on_write) event.events |= EPOLLOUT;
  c->until_ns = until_ns;
  epoll_ctl(l->epoll, EPOLL_CTL_MOD, c->channel.fd, &event);
}

/* Asked for when bytes have come, or nothing has begun. */
static uint64_t arrival_end(const connection *c) {
  const serve_job *job = &c->job;
  if (job->begun_ns) return serve_transfer_end(job->server, job->begun_ns, sys_clock_ns(), job->received);
  return c->served ? c->idle_ns + IDLE_SECONDS * (uint64_t)SECOND_NS
                   : serve_transfer_end(job->server, c->idle_ns, c->idle_ns, 0);
}

static void ask_listeners(loop *l, bool rest) {
  l->resting = rest;
  for (int i = 0; i < SERVE_ADDRESSES; i++) {
    struct epoll_event event = {.events = rest ? 0 : EPOLLIN, .data.ptr = &l->listeners[i]};
    if (l->listeners[i] >= 0) epoll_ctl(l->epoll, EPOLL_CTL_MOD, l->listeners[i], &event);
  }
}

/* What the head says that the request is for. */
static void split_target(connection *c) {
  serve_job *job = &c->job;
  const http_head *head = &c->head;
  const char *query = head->target.length ? memchr(head->target.at, '?', head->target.length) : NULL;
  job->method = head->method;
  job->path = head->target;
  job->query = (base_str){NULL, 0};
  if (!query) return;
  job->path.length = (size_t)(query - head->target.at);
  job->query = (base_str){query + 1, head->target.length - job->path.length - 1};
}

void connection_name(connection *c) {
  if (c->job.id[0]) return;
  serve_name_request(&c->job, http_find(&c->head, "x-request-id"), http_find(&c->head, "traceparent"));
}

/* When the reply is gone, or the client. */
void connection_log(connection *c) {
  if (!c->loop->server->log || c->logged || c->state == STREAMS || !c->job.begun_ns) return;
  c->logged = true;
  if (!c->job.status) { /* it left before the request was whole */
    c->job.status = 499;
    split_target(c);
  }
  connection_name(c);
  const bool in_body = c->state == WRITE && c->sent > c->out_count;
  serve_log_request(c->loop->server->log, &c->job, in_body ? c->sent - c->out_count : c->parts.bytes);
}

void connection_drop(loop *l, connection *c) {
  connection_log(c);
  serve_h2_close(c->h2);
  c->h2 = NULL;
  if (--l->open == 0 && l->closing) serve_wake(l->first->own); /* which waits for that */
  /* a process that is just being made has the socket as well: closing it alone would leave its events */
  epoll_ctl(l->epoll, EPOLL_CTL_DEL, c->channel.fd, NULL);
  serve_channel_close(&c->channel);
  serve_parts_drop(&c->parts);
  serve_free_job(&c->job);
  if (l->resting && !l->closing) ask_listeners(l, false);
}

static void refuse(loop *l, connection *c, int32_t status) {
  c->close_after = c->refused = true;
  split_target(c);
  c->job.is_torch = c->head.target.length && serve_is_torch(c->head.target);
  if (c->job.is_short) status = 507;
  if (c->job.is_over) serve_refuse_memory(&c->job);
  else serve_refuse(&c->job, status, "%s", http_reason(status));
  connection_reply(l, c);
}

/* False: the head says what cannot be, and the request is refused. */
static bool describe_request(connection *c, serve_job *job) {
  const http_head *head = &c->head;
  const base_str count = http_find(head, "inference-header-content-length");
  split_target(c);
  job->fields = head->fields;
  job->field_count = head->count;
  job->token = http_find(head, "authorization");
  job->host = http_find(head, "host");
  job->origin = http_find(head, "origin");
  job->roles = c->roles;
  job->type = "application/json";
  job->json_count = -1;
  job->is_torch = serve_is_torch(job->path);
  if (!count.at) return true;
  if (base_str_int(count, &job->json_count) && job->json_count >= 0 && (size_t)job->json_count <= job->count)
    return true;
  serve_refuse(job, 400, "Inference-Header-Content-Length is no length within the body");
  return false;
}

static void answer(loop *l, connection *c) {
  serve_job *job = &c->job;
  const base_str coding = http_find(&c->head, "content-encoding");
  c->state = COMPUTE;
  if (c->head.minor && !base_str_is(c->head.method, "HEAD"))
    job->extend = connection_extend; /* HTTP/1.0 has no chunks */
  if ((coding.at && !serve_decode(job, coding)) || !describe_request(c, job) || serve_route(job))
    connection_reply(l, c);
  else connection_watch(l, c, EPOLLRDHUP, 0); /* only whether the client goes */
}

/* Moves what is there of the body behind the head to the job. Positive: it is all there; negative: -STATUS. */
static int32_t take_body(connection *c) {
  size_t at = c->used;
  int32_t status = 0;
  if (!c->head.chunked) {
    const uint64_t left = c->head.length - c->job.count;
    const size_t there = c->count - at, part = there < left ? there : (size_t)left;
    if (!serve_add_body(&c->job, c->in + at, part, SIZE_MAX)) return -413;
    at += part;
    status = c->job.count == c->head.length;
  }
  while (c->head.chunked && status == 0) {
    size_t used;
    base_str data;
    const http_step step = http_read_chunks(&c->chunks, c->in + at, c->count - at, &used, &data);
    at += used;
    if (step == HTTP_BAD) return -400;
    if (step == HTTP_MORE) break;
    if (step == HTTP_END) status = 1;
    else if (!serve_add_body(&c->job, data.at, data.length, SIZE_MAX)) return -413;
  }
  memmove(c->in + c->used, c->in + at, c->count - at);
  c->count -= at - c->used;
  return status;
}

static void advance(loop *l, connection *c) {
  if (c->state == READ_HEAD) {
    const int32_t length = http_read_head(c->in, c->count, &c->scan, &c->head);
    if (length < 0) {
      refuse(l, c, -length);
      return;
    }
    if (length == 0) {
      connection_watch(l, c, EPOLLIN, arrival_end(c));
      return;
    }
    c->used = (size_t)length;
    c->served = true;
    c->job.arena = base_arena_new(&c->job.memory);
    if (!c->job.arena) {
      refuse(l, c, 507);
      return;
    }
    if (c->head.length > (size_t)l->server->options.most_bytes || !serve_has_room(&c->job, c->head.length)) {
      refuse(l, c, 413);
      return;
    }
    c->job.expected = c->head.length;
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (c->head.expects_continue && serve_send(&c->channel, go_on, sizeof go_on - 1, false) < 0) {
      connection_drop(l, c);
      return;
    }
    c->state = READ_BODY;
  }
  const int32_t status = take_body(c);
  if (status < 0) refuse(l, c, -status);
  else if (status > 0) answer(l, c);
  else connection_watch(l, c, EPOLLIN, arrival_end(c));
}

/* ---- HTTP/2 ---- */

static void send_streams(loop *l, connection *c) {
  const bool ends = l->closing && serve_h2_end(c->h2), was_busy = serve_h2_streams(c->h2) > 0;
  if (!serve_h2_send(c->h2)) {
    connection_drop(l, c);
    return;
  }
  const bool busy = serve_h2_streams(c->h2) > 0; /* each stream has an end of its own */
  const uint64_t patience = l->closing ? LINGER_SECONDS : IDLE_SECONDS;
  if (ends || was_busy || busy) c->idle_ns = sys_clock_ns();
  connection_watch(l, c, serve_h2_blocked(c->h2) ? EPOLLIN | EPOLLOUT : EPOLLIN,
                   busy ? UINT64_MAX : c->idle_ns + patience * SECOND_NS);
}

static void reply_ready(void *owner) {
  connection *c = owner;
  if (!c->receiving) send_streams(c->loop, c);
}

static void receive_streams(loop *l, connection *c) {
  c->receiving = true;
  const bool whole = serve_h2_receive(c->h2, c->in, c->count);
  c->receiving = false;
  c->count = 0;
  if (whole) send_streams(l, c);
  else connection_drop(l, c);
}

/* Does the client speak HTTP/2 from its first byte on? -1: too few bytes to tell. */
static int speaks_h2(const connection *c) {
  const size_t most = sizeof SERVE_H2_PREFACE - 1, count = c->count < most ? c->count : most;
  if (c->served || c->state != READ_HEAD || memcmp(c->in, SERVE_H2_PREFACE, count) != 0) return 0;
  return count == most ? 1 : -1;
}

static void begin_streams(loop *l, connection *c) {
  c->h2 = serve_h2_open(l->own, &c->channel, c->client, c->roles, reply_ready, c);
  c->state = STREAMS;
  if (c->h2) receive_streams(l, c);
  else connection_drop(l, c);
}

/* The body of a known length, straight from the socket. Positive: something came, and there is more to come; 0: it is
 * whole, or the socket has no more for now; -1: the connection has ended, or there is no room for the body. */
static int receive_body(connection *c) {
  enum { STEP = 1 << 18 }; /* of room, so that a length alone takes little */
  serve_job *job = &c->job;
  const uint64_t left = c->head.length - job->count;
  if (!left) return 0;
  if (job->count == job->cap) {
    const uint64_t most = base_max_size(job->cap * 2, STEP);
    if (!serve_grow_body(job, (size_t)(c->head.length < most ? c->head.length : most))) return -1;
  }
  const size_t room = job->cap - job->count;
  const ssize_t got = serve_receive(&c->channel, job->body + job->count, room < left ? room : (size_t)left);
  if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
  job->count += (size_t)got;
  job->received += (uint64_t)got;
  return 1;
}

static void receive(loop *l, connection *c) {
  if (c->state == READ_BODY && !c->head.chunked && c->count == c->used) {
    enum { TURNS = 16 }; /* others wait, too */
    int state = 1;
    for (int i = 0; i < TURNS && state > 0; i++) state = receive_body(c);
    if (state >= 0) advance(l, c);
    else if (c->job.is_over || c->job.is_short) refuse(l, c, 503);
    else connection_drop(l, c);
    return;
  }
  if (c->count == sizeof c->in) {
    refuse(l, c, 431);
    return;
  }
  const ssize_t got = serve_receive(&c->channel, c->in + c->count, sizeof c->in - c->count);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
    connection_drop(l, c);
    return;
  }
  if (got > 0) c->count += (size_t)got;
  if (got > 0 && !c->job.begun_ns) c->job.begun_ns = sys_clock_ns();
  const int streams = speaks_h2(c);
  if (c->state == STREAMS) receive_streams(l, c);
  else if (streams > 0) begin_streams(l, c);
  else if (streams < 0) connection_watch(l, c, EPOLLIN, arrival_end(c));
  else advance(l, c);
}

static void begin_request(connection *c) {
  serve_parts_drop(&c->parts);
  c->parts = (serve_parts){.is_chunked = true};
  serve_free_job(&c->job);
  c->job = (serve_job){.owner = c, .respond = connection_respond};
  serve_begin_job(&c->job, c->loop->own);
  c->job.client = c->client;
  c->logged = c->refused = false;
  c->idle_ns = sys_clock_ns();
  c->state = READ_HEAD;
  c->scan = (http_scan){0};
  c->chunks = (http_chunks){0};
  c->head.length = c->head.minor = c->head.count = 0;
  c->head.target = c->head.method = (base_str){NULL, 0};
  c->head.keep_alive = false;
  memmove(c->in, c->in + c->used, c->count - c->used);
  c->count -= c->used;
  c->used = 0;
  if (c->count) c->job.begun_ns = c->idle_ns; /* it was sent behind the one before it */
}

void connection_next(loop *l, connection *c) {
  begin_request(c);
  connection_watch(l, c, c->count ? EPOLLIN | EPOLLOUT : EPOLLIN, arrival_end(c)); /* pipelined: go on at once */
}

static void read_away(loop *l, connection *c) {
  const ssize_t got = recv(c->channel.fd, c->in, sizeof c->in, 0);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) connection_drop(l, c);
  else connection_watch(l, c, EPOLLIN, c->until_ns);
}

static void name_client(connection *c, const struct sockaddr_in *from) {
  char ip[INET_ADDRSTRLEN] = "";
  if (from->sin_family == AF_INET && inet_ntop(AF_INET, &from->sin_addr, ip, sizeof ip))
    snprintf(c->client, sizeof c->client, "%s:%u", ip, (unsigned)ntohs(from->sin_port));
  else snprintf(c->client, sizeof c->client, "unix");
}

/* What the first loop has accepted. */
typedef struct arrival {
  serve_channel channel;
  int listener;
  struct sockaddr_in from;
} arrival;

static void turn_away(loop *l, arrival *a) {
  serve_channel_close(&a->channel);
  l->open--;
}

/* The connection has the roles of the address that it came by. */
static void begin_connection(loop *l, arrival *a) {
  const int fd = a->channel.fd;
  connection *c = l->all;
  for (; c < l->all + l->room && c->channel.fd >= 0; c++) continue;
  struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = c};
  if (c == l->all + l->room || epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
    turn_away(l, a);
    return;
  }
  c->channel = a->channel;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int)); /* who listens to health says nothing for long */
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int){IDLE_SECONDS}, sizeof(int));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &(int){IDLE_SECONDS / 5}, sizeof(int));
  c->loop = l;
  c->roles = l->server->options.addresses[a->listener].roles;
  c->count = c->used = 0;
  c->close_after = c->served = false;
  name_client(c, &a->from);
  begin_request(c);
  c->until_ns = arrival_end(c);
}

static uint32_t count_loops(const loop *l) { return (uint32_t)l->server->options.io_threads; }

static uint32_t count_open(const loop *first) {
  uint32_t open = 0;
  for (uint32_t i = 0; i < count_loops(first); i++) open += first[i].open;
  return open;
}

/* The loop with the fewest connections; NULL: the server has as many as it may. A loop has room for its share, since
 * one that has more is never the one with the fewest. */
static loop *choose_loop(loop *first) {
  loop *fewest = NULL;
  uint32_t least = 0, all = 0;
  for (uint32_t i = 0; i < count_loops(first); i++) {
    const uint32_t open = first[i].open; /* may become less meanwhile */
    if (!fewest || open < least) {
      fewest = &first[i];
      least = open;
    }
    all += open;
  }
  return all < CONNECTIONS ? fewest : NULL;
}

static void accept_one(loop *l, int listener) {
  arrival a = {.listener = listener, .from = {.sin_family = AF_UNSPEC}};
  const int fd = accept4(l->listeners[listener], (struct sockaddr *)&a.from, &(socklen_t){sizeof a.from},
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) ask_listeners(l, true);
  if (fd < 0) return;
  loop *to = choose_loop(l);
  serve_tls *tls = l->server->options.addresses[listener].is_tls ? l->tls : NULL;
  if (!to || !serve_channel_open(&a.channel, fd, tls)) {
    close(fd);
    return;
  }
  to->open++;
  if (to == l) begin_connection(l, &a);
  else if (write(to->arrivals[1], &a, sizeof a) != sizeof a) turn_away(to, &a);
}

static void take_arrival(loop *l) {
  arrival a;
  if (read(l->arrivals[0], &a, sizeof a) == sizeof a) begin_connection(l, &a);
}

static void take_back(serve_job *job) {
  serve_server *server = job->server;
  if (job->pair || job->sequence || job->finish) {
    pthread_mutex_lock(&server->tables);
    serve_end_pair(job);
    serve_leave_sequence(job);
    if (job->finish) job = job->finish(job);
    pthread_mutex_unlock(&server->tables);
  }
  if (job) job->respond(job);
}

void serve_take_done(serve_loop *own) {
  uint64_t count;
  if (read(own->event, &count, sizeof count) < 0) return;
  pthread_mutex_lock(&own->server->lock);
  serve_job *job = own->done;
  own->done = NULL;
  pthread_mutex_unlock(&own->server->lock);
  while (job) {
    serve_job *next = job->next;
    take_back(job);
    job = next;
  }
}

static void handle(loop *l, const struct epoll_event *event) {
  connection *c = event->data.ptr;
  int *listener = event->data.ptr;
  if (listener >= l->listeners && listener < l->listeners + SERVE_ADDRESSES)
    accept_one(l, (int)(listener - l->listeners));
  else if (event->data.ptr == l->own) serve_take_done(l->own);
  else if (event->data.ptr == l->arrivals) take_arrival(l);
  else if (c->channel.fd < 0) return; /* dropped by an event before this one */
  else if (c->state == COMPUTE) connection_give_up(c);
  else if (c->state == PARTS) connection_write(l, c, event->events);
  else if (c->state == LINGER) read_away(l, c);
  else if (c->channel.reads_on_write && c->state != WRITE) receive(l, c);
  else if (c->state == STREAMS && !(event->events & (EPOLLIN | EPOLLHUP | EPOLLERR))) send_streams(l, c);
  else if (c->state == WRITE) connection_write(l, c, event->events);
  else if (c->state != STREAMS && (event->events & EPOLLOUT)) advance(l, c);
  else receive(l, c);
}

/* It took too long: a request that has begun is told so. */
static void give_out(loop *l, connection *c) {
  if (c->state == PARTS && !c->parts.is_ended) connection_give_up(c);
  else if (c->state == READ_BODY || (c->state == READ_HEAD && c->count)) refuse(l, c, 408);
  else connection_drop(l, c);
}

static void sweep_streams(loop *l, connection *c) {
  const int32_t reset = serve_h2_expire(c->h2);
  if (reset > 0) send_streams(l, c);
  else if (reset < 0) connection_drop(l, c);
}

static void sweep_tables(serve_server *server) {
  pthread_mutex_lock(&server->tables);
  for (uint32_t i = 0; i < server->model_count; i++)
    for (uint32_t j = 0; j < server->models[i]->count; j++) {
      serve_expire(server->models[i]->versions[j]);
      serve_python_watch(server->models[i]->versions[j]);
    }
  serve_sweep_sequences(server);
  serve_sweep_profiles(server);
  pthread_mutex_unlock(&server->tables);
}

/* Closes what took too long, or, when draining, waits for its next request. */
static void sweep(loop *l) {
  const uint64_t now = sys_clock_ns();
  l->swept_ns = now;
  if (l->resting && !l->closing) ask_listeners(l, false); /* others may have had the descriptors */
  if (l == l->first) sweep_tables(l->server);
  for (connection *c = l->all; c < l->all + l->room; c++) {
    if (c->channel.fd < 0 || c->state == COMPUTE) continue;
    if (l->closing && c->state == READ_HEAD && c->count == 0) connection_drop(l, c);
    else if (now > c->until_ns) give_out(l, c);
    else if (c->state == STREAMS) sweep_streams(l, c);
  }
}

static td_status listen_all(loop *l, td_error *err) {
  for (int i = 0; i < SERVE_ADDRESSES; i++) {
    serve_address *address = &l->server->options.addresses[i];
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &l->listeners[i]};
    if (!address->roles) continue;
    TRY(serve_listen(address, &l->listeners[i], err));
    if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->listeners[i], &event) != 0) return base_no_memory(err, "an address");
  }
  for (int i = 0; i < SERVE_ADDRESSES; i++)
    if (l->listeners[i] >= 0) serve_print_address(&l->server->options.addresses[i]);
  return TD_OK;
}

static void close_listeners(loop *l) {
  for (int i = 0; i < SERVE_ADDRESSES; i++) {
    if (l->listeners[i] < 0) continue;
    close(l->listeners[i]);
    if (l->server->options.addresses[i].is_unix) unlink(l->server->options.addresses[i].host);
    l->listeners[i] = -1;
  }
}

/* Whoever listens to health hears of changes since the last time. */
static void tell_health(loop *l) {
  const uint32_t changes = __atomic_load_n(&l->server->health_changes, __ATOMIC_ACQUIRE);
  if (changes == l->told_changes) return;
  l->told_changes = changes;
  for (connection *c = l->all; l->server->listeners && c < l->all + l->room; c++)
    if (c->channel.fd >= 0 && c->state == STREAMS && serve_h2_watch(c->h2)) send_streams(l, c);
}

static void turn(loop *l) {
  struct epoll_event events[64];
  const int count = epoll_wait(l->epoll, events, 64, SWEEP_MS);
  for (int i = 0; i < count; i++) handle(l, &events[i]);
  tell_health(l);
  if (sys_clock_ns() - l->swept_ns >= SWEEP_MS * 1000000ull) sweep(l);
}

/* Opens the access log anew, and reads the certificates, for connections that come: the old ones stay where the new
 * ones cannot be read. */
static void reload(loop *l) {
  const serve_options *o = &l->server->options;
  td_error err = {.offset = -1};
  serve_tls *fresh;
  serve_log_reopen(l->server->log);
  if (!l->tls) return;
  if (serve_tls_open(o->certificate, o->private_key, &fresh, &err) != TD_OK) {
    fprintf(stderr, "treadle-serve: %s: %s; the certificates from before stay\n", err.name, err.text);
    return;
  }
  serve_tls_close(l->tls);
  l->tls = fresh;
}

static bool told_to_end(loop *l) {
  struct signalfd_siginfo info;
  if (read(l->signals, &info, sizeof info) != sizeof info) return false;
  if (info.ssi_signo != SIGHUP) return true;
  reload(l);
  return false;
}

static td_status open_tls(loop *l, td_error *err) {
  const serve_options *o = &l->server->options;
  bool wanted = false;
  for (int i = 0; i < SERVE_ADDRESSES; i++) wanted = wanted || (o->addresses[i].roles && o->addresses[i].is_tls);
  if (!wanted) return TD_OK;
  if (!o->certificate || !o->private_key)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                     "an https address needs certificate_file and private_key_file (PEM) in config.properties");
  return serve_tls_open(o->certificate, o->private_key, &l->tls, err);
}

static td_status open_signals(loop *l, td_error *err) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  l->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  return l->signals < 0 ? base_no_memory(err, "signals") : TD_OK;
}

static bool listen_to(const loop *l, int fd, void *what) {
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
  return epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static td_status open_loop(loop *l, td_error *err) {
  const uint32_t loops = count_loops(l);
  l->room = (CONNECTIONS + loops - 1) / loops;
  l->epoll = epoll_create1(EPOLL_CLOEXEC);
  l->all = base_alloc(&base_libc_allocator, l->room * sizeof *l->all);
  if (!l->all || l->epoll < 0) return base_no_memory(err, "connections");
  for (uint32_t i = 0; i < l->room; i++) { /* buffers stay untouched: most are never used */
    connection *c = &l->all[i];
    c->channel = (serve_channel){.fd = -1};
    c->job = (serve_job){0};
    c->parts = (serve_parts){0};
    c->h2 = NULL;
    c->receiving = false;
  }
  if (!listen_to(l, l->own->event, l->own)) return base_no_memory(err, "an event");
  if (l == l->first) return TD_OK;
  if (pipe2(l->arrivals, O_NONBLOCK | O_CLOEXEC) != 0 || !listen_to(l, l->arrivals[0], l->arrivals))
    return base_no_memory(err, "a pipe");
  return TD_OK;
}

static void close_loop(loop *l) {
  close(l->epoll);
  for (int i = 0; i < 2; i++)
    if (l->arrivals[i] >= 0) close(l->arrivals[i]);
  base_free(&base_libc_allocator, l->all, l->room * sizeof *l->all);
}

/* Connections that wait for a request end now, the others when they have been answered. */
static void begin_closing(loop *l) {
  l->closing = true;
  sweep(l);
  tell_health(l); /* before streams of health end: there may have been no turn since */
  for (connection *c = l->all; c < l->all + l->room; c++)
    if (c->channel.fd >= 0 && c->state == STREAMS) send_streams(l, c);
}

static void run(void *user) {
  loop *l = user;
  while (l->first->phase == LOOPS_SERVE) turn(l);
  if (l->first->phase == LOOPS_CLOSE) begin_closing(l);
  while (l->first->phase != LOOPS_END) turn(l);
}

static void enter_phase(loop *first, loop_phase phase) {
  first->phase = phase;
  for (uint32_t i = 1; i < count_loops(first); i++) serve_wake(first[i].own);
}

/* Not ready from now on; who has not heard of it yet is still answered for a while, then connections end. */
static void drain(loop *l) {
  const uint64_t heard = sys_clock_ns() + (uint64_t)l->server->options.delay_s * 1000000000ull;
  const uint64_t until = heard + (uint64_t)l->server->options.drain_s * 1000000000ull;
  l->server->draining = true;
  serve_note_health(l->server);
  while (sys_clock_ns() < heard && !told_to_end(l)) turn(l);
  close_listeners(l);
  enter_phase(l, LOOPS_CLOSE);
  begin_closing(l);
  while ((count_open(l) || l->server->copies) && sys_clock_ns() < until && !told_to_end(l)) turn(l);
}

static td_status open_all(loop *all, td_error *err) {
  for (uint32_t i = 0; i < count_loops(all); i++) TRY(open_loop(&all[i], err));
  TRY(open_signals(all, err));
  return open_tls(all, err);
}

/* *started: how many loops have a thread. */
static td_status start_others(loop *all, uint32_t *started, td_error *err) {
  for (; *started < count_loops(all); ++*started) {
    loop *l = &all[*started];
    TRY(sys_thread_start(&l->thread, run, l, err));
    sys_thread_name(&l->thread, "serve/io");
  }
  return TD_OK;
}

td_status serve_run(serve_server *server, void (*ready)(serve_server *), td_error *err) {
  loop all[SERVE_MOST_LOOPS];
  uint32_t started = 1;
  for (int i = 0; i < SERVE_MOST_LOOPS; i++) {
    all[i] = (loop){.server = server, .own = &server->loops[i], .first = all, .epoll = -1, .arrivals = {-1, -1}};
    all[i].signals = -1;
    for (int j = 0; j < SERVE_ADDRESSES; j++) all[i].listeners[j] = -1;
  }
  td_status status = open_all(all, err);
  if (status == TD_OK) status = start_others(all, &started, err);
  if (status == TD_OK) status = listen_all(all, err);
  if (status == TD_OK) {
    ready(server);
    while (!told_to_end(all)) turn(all);
    drain(all);
  }
  enter_phase(all, LOOPS_END);
  for (uint32_t i = 1; i < started; i++) sys_thread_join(&all[i].thread);
  close_listeners(all);
  if (count_open(all) || server->copies) { /* who still waits has waited too long: threads may be within a run */
    serve_python_abandon(server);
    serve_log_close(server->log);
    _exit((int)status);
  }
  serve_tls_close(all->tls);
  close(all->signals);
  for (uint32_t i = 0; i < count_loops(all); i++) close_loop(&all[i]);
  return status;
}
