/* worker.h -- processes that run Python handlers: one for each session of a version whose archive has one. */
#ifndef SERVE_WORKER_H
#define SERVE_WORKER_H
#include <stdatomic.h>
#include <sys/types.h>

#include "frame.h"
#include "server.h"
#include "spawner.h"

typedef struct serve_worker serve_worker;

/* The archive's model, compiled for tensors like those that a handler has given. */
typedef struct python_engine {
  struct python_engine *next;
  td_input_spec *specs; /* NULL: the model's file says them */
  size_t count;
  td_model *model;
} python_engine;

/* Of a version with a Python handler. */
typedef struct serve_python {
  char *folder;         /* of its own: `model`, the archive; `shim`, what stands in for TorchServe's packages */
  const char *manifest; /* MANIFEST.json */
  const char *file;     /* the path of the serialized model; NULL: there is none */
  pthread_mutex_t building;
  python_engine *engines;
  /* ---- under server->lock ---- */
  serve_worker *all;    /* that run, idle or not */
  uint32_t missing;     /* workers to start again */
  uint32_t failures;    /* starts that failed, one after the other */
  uint64_t next_try_ns; /* when the next one may be tried */
  bool mending, ending; /* the loader has the order `mend`; the version goes */
  serve_job mend;
  serve_worker *dead; /* to be freed by the loader */
} serve_python;

struct serve_worker {
  serve_worker *next; /* in `all`, or in `dead` */
  serve_version *version;
  _Atomic pid_t pid; /* 0: it has ended */
  int fd, line, log; /* the socket; what tells of its end; what it prints */
  sys_thread logger;
  bool logs;
  _Atomic bool stop; /* its last lines are there */
  bool timed_out, killed;
  int state; /* as waitpid gives it, or SPAWNER_ENDED */
  serve_session *session;
  const python_engine *engine; /* of the session */
};

/* Does whoever waits want to wait on? Asked some times a second. */
typedef struct worker_wait {
  bool (*goes_on)(void *user);
  void *user;
  uint64_t until_ns;
} worker_wait;

/* Starts the process; what it says first is still to be received. */
td_status worker_start(serve_version *v, serve_worker **out, td_error *err);
/* Sends a frame: its text, and `count` parts of bytes. TD_TIMED_OUT, TD_CANCELLED: as `wait` says; TD_NO_RESOURCE: the
 * process has ended. */
td_status worker_send(serve_worker *w, frame_kind kind, base_str text, const base_str *parts, size_t count,
                      const worker_wait *wait, td_error *err);
td_status worker_receive(serve_worker *w, base_arena *arena, uint64_t most, const worker_wait *wait, frame *out,
                         td_error *err);
/* Kills what it has left running, waits for its end, and frees it. NULL is allowed. */
void worker_end(serve_worker *w);
/* Has it ended by itself? */
bool worker_has_ended(const serve_worker *w);
/* How it ended, in words. */
void worker_tell_end(serve_worker *w, char *text, size_t size);

/* engine.c: computes what the frame FRAME_RUN asks for, and sends the answer. */
td_status python_run_engine(serve_worker *w, frame *asked, base_arena *arena, const worker_wait *wait, td_error *err);

/* unpack.c: the files of an archive, and the shim, into a new folder. */
td_status python_unpack(serve_version *v, const struct fmt_zip *zip, char **folder, td_error *err);
void python_remove(const char *folder);
#endif
