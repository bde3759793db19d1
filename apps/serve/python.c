/* python.c -- versions whose archive has a Python handler: batches are sent to a worker process and come back as
 * replies. A worker that ends, lies or takes too long is killed, its requests are told so, and the loader starts
 * another one in its place; while that is not there, health says so. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fmt/wire.h"
#include "worker.h"

enum { MOST_AT_ONCE = 16, MOST_PARTS = 4096, MOST_TYPE = 128 };

/* ---- starting ---- */

static bool is_stopping(serve_server *server) {
  pthread_mutex_lock(&server->lock);
  const bool stop = server->stop;
  pthread_mutex_unlock(&server->lock);
  return stop;
}

/* While a worker starts: nobody reads signals yet where that is at the server's own start. */
static bool goes_on(void *user) {
  sigset_t set;
  const bool told = sigpending(&set) == 0 && (sigismember(&set, SIGTERM) || sigismember(&set, SIGINT));
  return !told && !is_stopping(user);
}

static td_status failed(const frame *f, td_error *err) {
  const char *text = fmt_json_text(fmt_json_get(f->root, "text"));
  return base_fail(err, TD_INTERNAL, NULL, -1, "its handler cannot be started: %s", text ? text : "no reason given");
}

/* Starts a process, and has it import the handler. */
static td_status begin(serve_version *v, serve_worker **out, const worker_wait *wait, td_error *err) {
  const serve_python *p = v->python;
  base_text text = {.allocator = &base_libc_allocator};
  TRY(worker_start(v, out, err));
  base_text_print(&text, "{\"folder\":");
  base_text_quote(&text, p->folder, strlen(p->folder));
  base_text_print(&text, ",\"name\":\"%s\",\"batch_size\":%u,\"manifest\":%s}", v->name, v->batch_size, p->manifest);
  const base_str said = {text.at, text.length};
  const td_status status =
      text.failed ? base_no_memory(err, "a worker") : worker_send(*out, FRAME_LOAD, said, NULL, 0, wait, err);
  base_text_free(&text);
  return status;
}

/* Its next frame; what initialize() asks of the model is computed. `*over`: the handler is ready. */
static td_status take_first_frame(serve_worker *w, base_arena *arena, bool *over, const worker_wait *wait,
                                  td_error *err) {
  frame f;
  TRY(worker_receive(w, arena, (uint64_t)w->version->server->options.most_bytes, wait, &f, err));
  *over = f.kind == FRAME_LOADED;
  if (f.kind == FRAME_FAILED) return failed(&f, err);
  if (*over) return TD_OK;
  if (f.kind != FRAME_RUN) return base_fail(err, TD_BAD_FILE, NULL, -1, "the worker answers what nobody asked");
  return python_run_engine(w, &f, arena, wait, err);
}

/* Waits until the handler is ready; `status`: what came of the start so far. Else the process is gone, too. */
static td_status finish(serve_worker *w, td_status status, const worker_wait *wait, td_error *err) {
  bool over = false;
  while (status == TD_OK && !over) {
    base_arena *arena = base_arena_new(&base_libc_allocator);
    status = arena ? take_first_frame(w, arena, &over, wait, err) : base_no_memory(err, "a worker's frame");
    base_arena_free(arena);
  }
  if (status == TD_OK) {
    pthread_mutex_lock(&w->version->server->lock);
    w->next = w->version->python->all;
    w->version->python->all = w;
    pthread_mutex_unlock(&w->version->server->lock);
    return TD_OK;
  }
  char how[64];
  if (w && worker_has_ended(w)) {
    worker_tell_end(w, how, sizeof how);
    status = base_fail(err, TD_INTERNAL, NULL, -1, "its Python worker ended at the start: %s", how);
  } else if (status == TD_TIMED_OUT) {
    status = base_fail(err, TD_INTERNAL, NULL, -1, "its handler is not ready in time: raise startupTimeout");
  }
  worker_end(w);
  return status;
}

static td_status start(serve_version *v, serve_worker **out, td_error *err) {
  const worker_wait wait = {goes_on, v->server, sys_clock_ns() + v->start_ns};
  *out = NULL;
  const td_status status = begin(v, out, &wait, err);
  return finish(*out, status, &wait, err);
}

static void add_idle(serve_version *v, serve_worker *w) {
  pthread_mutex_lock(&v->server->lock);
  v->idle[v->idle_count++] = w;
  v->session_count++;
  pthread_cond_broadcast(&v->server->more);
  pthread_mutex_unlock(&v->server->lock);
}

static uint32_t lacks(const serve_version *v, uint32_t workers) {
  pthread_mutex_lock(&v->server->lock);
  const uint32_t count = v->session_count < workers ? workers - v->session_count : 0;
  pthread_mutex_unlock(&v->server->lock);
  return count;
}

/* As many at once as there are CPUs: importing torch takes one for seconds. */
td_status serve_python_start(serve_version *v, uint32_t workers, td_error *err) {
  td_status all = TD_OK;
  pthread_mutex_lock(&v->server->lock);
  v->batch_rows = v->batch_size;
  pthread_mutex_unlock(&v->server->lock);
  for (uint32_t missing; all == TD_OK && (missing = lacks(v, workers)) > 0;) {
    const worker_wait wait = {goes_on, v->server, sys_clock_ns() + v->start_ns};
    serve_worker *w[MOST_AT_ONCE] = {0};
    td_status begun[MOST_AT_ONCE];
    uint32_t count = missing;
    td_error own = {.offset = -1};
    if (count > (uint32_t)v->server->options.workers) count = (uint32_t)v->server->options.workers;
    if (count > MOST_AT_ONCE) count = MOST_AT_ONCE;
    for (uint32_t i = 0; i < count; i++) begun[i] = begin(v, &w[i], &wait, &own);
    for (uint32_t i = 0; i < count; i++) {
      const td_status status = finish(w[i], begun[i], &wait, &own);
      if (status == TD_OK) add_idle(v, w[i]);
      else if (all == TD_OK) all = base_fail(err, status, own.name, -1, "%s", own.text);
    }
  }
  serve_note_health(v->server);
  return all;
}

/* Under server->lock. */
static void unlink_worker(serve_python *p, serve_worker *w) {
  serve_worker **at = &p->all;
  while (*at && *at != w) at = &(*at)->next;
  if (*at) *at = w->next;
}

void serve_python_end(serve_version *v, void *session) {
  serve_worker *w = session;
  pthread_mutex_lock(&v->server->lock);
  unlink_worker(v->python, w);
  pthread_mutex_unlock(&v->server->lock);
  worker_end(w);
}

/* ---- workers that are missing ---- */

/* As TorchServe waits between its tries: 1, 1, 2, 3, 5, ... seconds, at most five minutes. */
static uint64_t pause_of(uint32_t failures) {
  uint64_t a = 1, b = 1;
  for (uint32_t i = 1; i < failures && b < 300; i++) {
    const uint64_t c = a + b;
    a = b;
    b = c;
  }
  return (b < 300 ? b : 300) * 1000000000ull;
}

/* With no worker left nobody answers what waits. */
static void refuse_all(serve_version *v) {
  serve_job *jobs = serve_take_queue(v), *next;
  for (; jobs; jobs = next) {
    next = jobs->next;
    serve_refuse(jobs, 503, "the workers of model %s have ended and cannot be started: the server's log says why",
                 v->name);
    serve_done(jobs);
  }
}

static void note_start(serve_version *v, serve_worker *w, const td_error *err) {
  serve_python *p = v->python;
  serve_server *server = v->server;
  if (w) add_idle(v, w);
  pthread_mutex_lock(&server->lock);
  if (w) {
    p->failures = 0;
    if (p->missing) p->missing--;
  } else {
    p->failures++;
    p->next_try_ns = sys_clock_ns() + pause_of(p->failures);
  }
  const bool none_left = !w && !v->session_count;
  pthread_mutex_unlock(&server->lock);
  serve_note_health(server);
  if (!w) fprintf(stderr, "treadle-serve: model %s: no worker: %s\n", v->name, err->text);
  if (none_left) refuse_all(v);
}

/* On the loader's thread: frees those that have ended, and starts as many. */
static void mend(serve_job *job) {
  serve_version *v = job->order;
  serve_python *p = v->python;
  serve_server *server = v->server;
  bool works = true;
  for (;;) {
    td_error err = {.offset = -1};
    serve_worker *w;
    pthread_mutex_lock(&server->lock);
    serve_worker *dead = p->dead;
    p->dead = NULL;
    if (v->session_count >= v->max_workers) p->missing = 0; /* it was scaled down meanwhile */
    works = works && p->missing && !p->ending && !server->stop;
    if (!dead && !works) p->mending = false;
    pthread_mutex_unlock(&server->lock);
    if (!dead && !works) return;
    while (dead) {
      serve_worker *next = dead->next;
      worker_end(dead);
      dead = next;
    }
    if (!works) continue;
    works = start(v, &w, &err) == TD_OK;
    note_start(v, works ? w : NULL, &err);
  }
}

/* Under server->lock: has the loader mend the version. */
static void order_mend(serve_version *v) {
  serve_python *p = v->python;
  if (p->mending || p->ending || v->server->stop) return;
  p->mending = true;
  p->mend = (serve_job){.server = v->server, .order = v};
  serve_order_locked(&p->mend, mend);
}

/* Under server->lock: the worker is gone, and another one is to take its place. */
static void lose(serve_version *v, serve_worker *w) {
  serve_python *p = v->python;
  unlink_worker(p, w);
  w->next = p->dead;
  p->dead = w;
  v->session_count--;
  p->missing++;
  pthread_cond_broadcast(&v->server->settled);
  serve_note_health(v->server);
}

void serve_python_watch(serve_version *v) {
  serve_python *p = v->python;
  if (!p) return;
  pthread_mutex_lock(&v->server->lock);
  for (uint32_t i = 0; i < v->idle_count;) {
    serve_worker *w = v->idle[i];
    if (!worker_has_ended(w)) {
      i++;
      continue;
    }
    fprintf(stderr, "treadle-serve: model %s: worker %d has ended by itself\n", v->name, (int)atomic_load(&w->pid));
    v->idle[i] = v->idle[--v->idle_count];
    lose(v, w);
  }
  if (p->dead || (p->missing && sys_clock_ns() >= p->next_try_ns)) order_mend(v);
  pthread_mutex_unlock(&v->server->lock);
}

bool serve_python_works(const serve_version *v) {
  pthread_mutex_lock(&v->server->lock);
  const bool works = v->session_count || (v->python->missing && !v->python->failures);
  pthread_mutex_unlock(&v->server->lock);
  return works;
}

static uint64_t memory_of(int pid) {
  char path[64];
  unsigned long long pages = 0;
  snprintf(path, sizeof path, "/proc/%d/statm", pid);
  FILE *file = fopen(path, "re");
  if (file && fscanf(file, "%*u %llu", &pages) != 1) pages = 0;
  if (file) fclose(file);
  return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

int serve_python_process(const serve_version *v, uint32_t index, uint64_t *memory) {
  const serve_worker *w = v->python->all;
  while (w && index--) w = w->next;
  const int pid = w ? (int)atomic_load(&w->pid) : 0;
  *memory = pid ? memory_of(pid) : 0;
  return pid;
}

void serve_python_forget_missing(serve_version *v) {
  pthread_mutex_lock(&v->server->lock);
  v->python->missing = 0;
  v->python->failures = 0;
  pthread_mutex_unlock(&v->server->lock);
  serve_note_health(v->server);
}

/* ---- a batch ---- */

typedef struct batch {
  serve_job **all; /* NULL: they have been given back, since nobody waits any more */
  uint32_t all_count;
  serve_job *jobs[SERVE_MOST_BATCH]; /* of these, those that the worker has */
  uint32_t count;
  serve_version *version;
  bool is_cancelled; /* the worker has been told so */
} batch;

static bool is_waited_for(const serve_job *job, uint64_t now) {
  return !__atomic_load_n(&job->cancel, __ATOMIC_RELAXED) && now <= job->deadline_ns;
}

/* Gives the jobs back once nobody waits for any of them; the worker may still finish what it does. */
static bool keep_waiting(void *user) {
  batch *b = user;
  const uint64_t now = sys_clock_ns();
  const td_error err = {.offset = -1};
  if (is_stopping(b->version->server)) return false;
  bool waited = !b->all;
  for (uint32_t i = 0; b->all && i < b->count; i++) waited = waited || is_waited_for(b->jobs[i], now);
  if (waited) return true;
  for (uint32_t i = 0; i < b->count; i++)
    serve_fail(b->jobs[i], __atomic_load_n(&b->jobs[i]->cancel, __ATOMIC_RELAXED) ? TD_CANCELLED : TD_TIMED_OUT, &err);
  for (uint32_t i = 0; i < b->all_count; i++) serve_done(b->all[i]);
  b->all = NULL;
  return true;
}

/* While the batch is sent its bytes are read: the jobs stay. */
static bool keep_sending(void *user) { return !is_stopping(((const batch *)user)->version->server); }

static void refuse_batch(batch *b, int32_t status, const char *text) {
  for (uint32_t i = 0; b->all && i < b->count; i++)
    serve_refuse_as(b->jobs[i], status, "InternalServerException", "%s", text);
}

/* Out of memory, or `kept` was of the bytes that requests may hold together. */
static void refuse_for_memory(batch *b, const serve_job *kept) {
  refuse_batch(b, kept->is_over ? 503 : 507,
               kept->is_over ? "the server holds as many bytes of requests as it may (--most-held): try again later"
                             : "out of memory");
  for (uint32_t i = 0; b->all && i < b->count; i++) b->jobs[i]->is_over = kept->is_over;
}

/* A part of a request: its bytes, and what the text says of it. */
static void add_part(base_text *text, base_str *parts, uint32_t *count, base_str name, base_str value) {
  parts[(*count)++] = value;
  base_text_print(text, "{\"name\":");
  base_text_quote(text, name.at, name.length);
  base_text_print(text, ",\"bytes\":%zu}", value.length);
}

/* The inputs of gRPC's PredictionsRequest. False: they are damaged, or too many. */
static bool add_inputs(const serve_job *job, base_text *text, base_str *parts, uint32_t *count) {
  const uint32_t before = *count;
  for (fmt_wire w = fmt_wire_of(job->body, job->count); fmt_wire_more(&w);) {
    fmt_field f, inner;
    base_str key = {"", 0}, value = {"", 0};
    if (fmt_wire_next(&w, &f, NULL) != TD_OK) return false;
    if (f.number != 3 || f.type != FMT_BYTES) continue;
    for (fmt_wire entry = f.bytes; fmt_wire_more(&entry);) {
      if (fmt_wire_next(&entry, &inner, NULL) != TD_OK) return false;
      if (inner.type != FMT_BYTES) continue;
      *(inner.number == 1 ? &key : &value) = (base_str){(const char *)inner.bytes.at, fmt_wire_left(&inner.bytes)};
    }
    if (*count - before == MOST_PARTS / SERVE_MOST_BATCH) return false;
    if (*count > before) base_text_print(text, ",");
    add_part(text, parts, count, key, value);
  }
  return true;
}

static bool add_request(const serve_job *job, base_text *text, base_str *parts, uint32_t *count) {
  base_text_print(text, "{\"headers\":{%s", job->explains ? "\"explain\":\"True\"" : "");
  bool first = !job->explains;
  if (job->sequence_id.at) { /* of gRPC; REST has it as such a field */
    base_text_print(text, "%s\"" SERVE_SEQUENCE_ID "\":", first ? "" : ",");
    base_text_quote(text, job->sequence_id.at, job->sequence_id.length);
    first = false;
  }
  for (uint32_t i = 0; i < job->field_count; i++) {
    const http_field *f = &job->fields[i];
    if (f->name.length == 13 && strncasecmp(f->name.at, "authorization", 13) == 0) continue; /* the server's own */
    bool again = false;
    for (uint32_t j = 0; j < i; j++)
      again = again || (job->fields[j].name.length == f->name.length &&
                        strncasecmp(job->fields[j].name.at, f->name.at, f->name.length) == 0);
    if (again) continue;
    base_text_print(text, first ? "" : ",");
    first = false;
    base_text_quote(text, f->name.at, f->name.length);
    base_text_print(text, ":");
    base_text_quote(text, f->value.at, f->value.length);
  }
  base_text_print(text, "},\"parts\":[");
  if (job->is_grpc) {
    if (!add_inputs(job, text, parts, count)) return false;
  } else if (job->named) {
    for (uint32_t i = 0; i < job->named_count; i++) {
      if (i) base_text_print(text, ",");
      add_part(text, parts, count, job->named[i].name, job->named[i].value);
    }
  } else {
    add_part(text, parts, count, BASE_STR("body"), (base_str){job->body ? job->body : "", job->count});
  }
  base_text_print(text, "],\"is_raw\":%s,\"query\":", job->is_grpc || job->is_raw ? "true" : "false");
  base_text_quote(text, job->query.at, job->query.length);
  base_text_print(text, "}");
  return true;
}

/* Those that somebody waits for, in front; the others are refused. How many there are. */
static uint32_t sort_out(serve_job **jobs, uint32_t count, serve_job **todo) {
  const uint64_t now = sys_clock_ns();
  const td_error err = {.offset = -1};
  uint32_t left = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (is_waited_for(jobs[i], now)) todo[left++] = jobs[i];
    else if (jobs[i]->cancel) serve_fail(jobs[i], TD_CANCELLED, &err);
    else serve_refuse(jobs[i], 504, "the request waited too long for its turn");
  }
  return left;
}

/* `kept` counts what the arena has; where there is no room the batch is refused, and is empty then. */
static td_status send_batch(serve_worker *w, batch *b, const serve_job *kept, const worker_wait *wait, td_error *err) {
  base_text text = {.allocator = kept->arena ? base_arena_allocator(kept->arena) : NULL};
  base_str *parts = kept->arena ? base_new(kept->arena, base_str, MOST_PARTS) : NULL;
  uint32_t count = 0, told = 0;
  if (!parts) {
    refuse_for_memory(b, kept);
    b->count = 0;
    return TD_OK;
  }
  base_text_print(&text, "{\"requests\":[");
  for (uint32_t i = 0; i < b->count; i++) {
    const size_t before = text.length;
    const uint32_t parts_before = count;
    if (told) base_text_print(&text, ",");
    if (add_request(b->jobs[i], &text, parts, &count)) {
      b->jobs[told++] = b->jobs[i];
      continue;
    }
    text.length = before;
    count = parts_before;
    serve_refuse(b->jobs[i], 400, "the message is damaged");
  }
  base_text_print(&text, "]}");
  b->count = told;
  td_status status = TD_OK;
  if (text.failed) {
    refuse_for_memory(b, kept);
    b->count = 0;
  } else if (told) status = worker_send(w, FRAME_PREDICT, (base_str){text.at, text.length}, parts, count, wait, err);
  base_text_free(&text);
  return status;
}

/* A Content-Type that may stand in a head; else NULL. */
static const char *checked_type(const serve_job *job, const char *type) {
  const size_t length = type ? strlen(type) : 0;
  if (!length || length > MOST_TYPE) return NULL;
  for (size_t i = 0; i < length; i++)
    if (type[i] < ' ' || type[i] > '~') return NULL;
  return base_arena_text(job->arena, type);
}

/* The bodies of `list`, one for each request, which are all that the frame has. */
static td_status take_bodies(const batch *b, frame *f, const char *list, base_str *body, td_error *err) {
  const fmt_json *items = fmt_json_get(f->root, list);
  if (fmt_json_count(items) != b->count)
    return base_fail(err, TD_BAD_FILE, NULL, -1, "the worker gives other %s than it was asked for", list);
  for (uint32_t i = 0; i < b->count; i++) TRY(frame_take(f, fmt_json_at(items, i), &body[i], err));
  return frame_end(f, err);
}

static td_status take_replies(batch *b, frame *f, td_error *err) {
  const fmt_json *replies = fmt_json_get(f->root, "replies");
  base_str body[SERVE_MOST_BATCH];
  TRY(take_bodies(b, f, "replies", body, err));
  for (uint32_t i = 0; b->all && i < b->count; i++) {
    const fmt_json *reply = fmt_json_at(replies, i), *status = fmt_json_get(reply, "status");
    serve_job *job = b->jobs[i];
    const char *type = checked_type(job, fmt_json_text(fmt_json_get(reply, "type")));
    job->status =
        fmt_json_is(status, FMT_JSON_INT) && status->u.i >= 200 && status->u.i < 600 ? (int32_t)status->u.i : 500;
    if (type && !job->is_parted) job->type = type;
    base_text_add(&job->reply, body[i].at, body[i].length);
  }
  return TD_OK;
}

/* What a handler gives of each reply before the rest: send_intermediate_predict_response. */
static td_status take_parts(batch *b, frame *f, td_error *err) {
  base_str body[SERVE_MOST_BATCH];
  TRY(take_bodies(b, f, "parts", body, err));
  for (uint32_t i = 0; b->all && i < b->count; i++) {
    const fmt_json *part = fmt_json_at(fmt_json_get(f->root, "parts"), i), *status = fmt_json_get(part, "status");
    serve_job *job = b->jobs[i];
    const bool is_known = fmt_json_is(status, FMT_JSON_INT) && status->u.i >= 200 && status->u.i < 300;
    const char *type = job->is_parted ? NULL : checked_type(job, fmt_json_text(fmt_json_get(part, "type")));
    serve_give_part(job, is_known ? (int32_t)status->u.i : 200, type, body[i]);
  }
  return TD_OK;
}

static void take_failure(batch *b, const frame *f) {
  const fmt_json *status = fmt_json_get(f->root, "status");
  const char *text = fmt_json_text(fmt_json_get(f->root, "text"));
  const bool known = fmt_json_is(status, FMT_JSON_INT) && status->u.i >= 400 && status->u.i < 600;
  refuse_batch(b, known ? (int32_t)status->u.i : 503, text ? text : "Prediction failed");
}

/* There was no room for a frame of that kind: the worker stays. */
static td_status pass_over(serve_worker *w, batch *b, uint32_t kind, const serve_job *kept, const worker_wait *wait,
                           td_error *err) {
  const base_str told = BASE_STR("{\"error\":\"there is no memory for the tensors\",\"unsupported\":false}");
  if (kind == FRAME_RUN) return worker_send(w, FRAME_OUTPUTS, told, NULL, 0, wait, err);
  for (uint32_t i = 0; kind == FRAME_PART && b->all && i < b->count; i++) {
    b->jobs[i]->is_over = kept->is_over;
    b->jobs[i]->reply.failed = true; /* without that part it is none */
  }
  if (kind == FRAME_PART) return TD_OK;
  refuse_for_memory(b, kept);
  return TD_OK;
}

/* Behind a part more of them may follow: nobody waits for them. */
static td_status stop_parts(serve_worker *w, batch *b, const worker_wait *wait, td_error *err) {
  keep_waiting(b);
  if (b->all || b->is_cancelled) return TD_OK;
  b->is_cancelled = true;
  return worker_send(w, FRAME_CANCEL, BASE_STR("{}"), NULL, 0, wait, err);
}

/* The next frame; `*over`: the batch has its replies by it. `kept` counts what the arena has. */
static td_status take_frame(serve_worker *w, batch *b, const serve_job *kept, bool *over, const worker_wait *wait,
                            td_error *err) {
  const uint64_t most = (uint64_t)w->version->server->options.most_bytes * b->count;
  base_arena *arena = kept->arena;
  frame f;
  const td_status status = worker_receive(w, arena, most, wait, &f, err);
  *over = f.kind == FRAME_REPLY || f.kind == FRAME_FAILED;
  if (status == TD_NO_RESOURCE && f.kind) return pass_over(w, b, f.kind, kept, wait, err);
  TRY(status);
  if (f.kind == FRAME_REPLY) return take_replies(b, &f, err);
  if (f.kind == FRAME_FAILED) take_failure(b, &f);
  else if (f.kind == FRAME_PART) {
    TRY(take_parts(b, &f, err));
    TRY(stop_parts(w, b, wait, err));
  } else if (f.kind != FRAME_RUN) return base_fail(err, TD_BAD_FILE, NULL, -1, "the worker answers what nobody asked");
  if (sys_clock_ns() > wait->until_ns) return base_fail(err, TD_TIMED_OUT, NULL, -1, "the handler takes too long");
  return f.kind != FRAME_RUN ? TD_OK : python_run_engine(w, &f, arena, wait, err);
}

/* One frame after the other until the batch has its replies. */
static td_status take_frames(serve_worker *w, batch *b, const worker_wait *wait, td_error *err) {
  bool over = false;
  td_status status = TD_OK;
  while (status == TD_OK && !over) {
    serve_job kept = {0}; /* no request: counts the frame */
    serve_begin_job(&kept, w->version->server->loops);
    kept.arena = base_arena_new(&kept.memory);
    status = kept.arena ? take_frame(w, b, &kept, &over, wait, err) : base_no_memory(err, "a worker's frame");
    base_arena_free(kept.arena);
  }
  return status;
}

/* The worker did not do what it should: it goes, and whoever waits is told what TorchServe tells. */
static void drop_worker(serve_worker *w, batch *b, td_status status, const td_error *err) {
  serve_version *v = w->version;
  serve_server *server = v->server;
  char how[64];
  const bool late = status == TD_TIMED_OUT;
  const int pid = (int)atomic_load(&w->pid);
  if (!worker_has_ended(w)) {
    w->killed = true;
    spawned_kill(w->line);
  }
  const bool by_itself = !w->killed;
  worker_tell_end(w, how, sizeof how);
  fprintf(stderr, "treadle-serve: model %s: worker %d: %s; %s\n", v->name, pid, err->text, how);
  const bool no_memory = by_itself && strstr(how, "signal 9");
  if (late) refuse_batch(b, 504, "the worker did not answer within the response time, and was ended");
  else refuse_batch(b, no_memory ? 507 : 500, no_memory ? "Out of resources: the worker was killed" : "Worker died.");
  pthread_mutex_lock(&server->lock);
  lose(v, w);
  order_mend(v);
  pthread_mutex_unlock(&server->lock);
}

bool serve_python_compute(serve_job **jobs, uint32_t *count, void *session) {
  serve_worker *w = session;
  td_error err = {.offset = -1};
  batch b = {.all = jobs, .all_count = *count, .version = w->version};
  worker_wait wait = {keep_sending, &b, sys_clock_ns() + w->version->limit_ns};
  b.count = sort_out(jobs, *count, b.jobs);
  if (!b.count) return true;
  serve_job kept = {0}; /* no request: counts the frame */
  serve_begin_job(&kept, w->version->server->loops);
  kept.arena = base_arena_new(&kept.memory);
  td_status status = send_batch(w, &b, &kept, &wait, &err);
  base_arena_free(kept.arena);
  wait.goes_on = keep_waiting;
  if (status == TD_OK && b.count) status = take_frames(w, &b, &wait, &err);
  if (!b.all) *count = 0;
  if (status != TD_OK) drop_worker(w, &b, status, &err);
  return status == TD_OK;
}

/* ---- the version's end ---- */

void serve_python_retire(serve_version *v) {
  serve_python *p = v->python;
  if (!p) return;
  pthread_mutex_lock(&v->server->lock);
  p->ending = true;
  for (serve_worker *w = p->all; w; w = w->next) spawned_kill(w->line); /* nobody waits for what they do */
  pthread_mutex_unlock(&v->server->lock);
}

void serve_python_free(serve_version *v) {
  serve_python *p = v->python;
  serve_server *server = v->server;
  if (!p) return;
  serve_python_retire(v);
  pthread_mutex_lock(&server->lock);
  while (v->idle_count < v->session_count) pthread_cond_wait(&server->settled, &server->lock);
  for (serve_worker *dead; (dead = p->dead);) {
    p->dead = dead->next;
    pthread_mutex_unlock(&server->lock);
    worker_end(dead);
    pthread_mutex_lock(&server->lock);
  }
  pthread_mutex_unlock(&server->lock);
  for (uint32_t i = 0; i < v->idle_count; i++) worker_end(v->idle[i]);
  v->idle_count = 0;
  for (python_engine *e = p->engines; e; e = e->next) td_model_free(e->model);
  if (p->folder) python_remove(p->folder);
  pthread_mutex_destroy(&p->building);
}

void serve_python_abandon(const serve_server *server) {
  for (uint32_t i = 0; i < server->model_count; i++)
    for (uint32_t j = 0; j < server->models[i]->count; j++) {
      const serve_python *p = server->models[i]->versions[j]->python;
      if (p && p->folder) python_remove(p->folder);
    }
}

/* ---- loading ---- */

/* The archive's files where its handler finds them. `file`: its serialized model, or NULL. */
td_status serve_python_open(serve_version *v, const struct fmt_zip *zip, const char *manifest, const char *file,
                            td_error *err) {
  serve_python *p = base_new(v->arena, serve_python, 1);
  if (!p) return base_no_memory(err, "a handler");
  p->manifest = manifest;
  pthread_mutex_init(&p->building, NULL);
  v->python = p;
  TRY(python_unpack(v, zip, &p->folder, err));
  if (file && *file) {
    p->file = base_arena_format(v->arena, "%s/model/%s", p->folder, file);
    if (!p->file) return base_no_memory(err, "a handler");
  }
  return TD_OK;
}
