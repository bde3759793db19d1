/* server.h -- what the parts of the server share: models with their queues, jobs, and the options it was started with.
 */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H
#include <treadle/treadle.h>

#include "http.h"
#include "sys/sys.h"

/* A request on its way from the socket to its reply. The loop owns it, but while it is in a queue or computed. */
typedef struct serve_job serve_job;
struct serve_job {
  serve_job *next;
  void *owner;       /* the connection */
  base_arena *arena; /* of texts and tensors of this request */
  char *body;
  size_t count, cap;    /* of the body: bytes there are, and room */
  int64_t json_count;   /* bytes of JSON in front of binary tensors; -1: the body is all JSON */
  uint64_t deadline_ns; /* when nobody waits for the reply any more */
  void (*compute)(serve_job *, td_session *);
  struct serve_model *model;
  int32_t status;    /* of the reply, and its body */
  const char *type;  /* Content-Type */
  size_t reply_json; /* bytes of JSON in front of binary tensors; 0: none are there */
  base_text reply;
};

enum { SERVE_BUCKETS = 14 };
typedef struct serve_histogram {
  uint64_t buckets[SERVE_BUCKETS], total_us, count;
} serve_histogram;

typedef struct serve_server serve_server;
typedef struct serve_model {
  const char *name;
  sys_mapping archive; /* that it came in */
  const char **labels; /* of its classes; NULL: they have none */
  size_t label_count;
  td_model *model;
  serve_server *server;
  pthread_mutex_t lock;
  pthread_cond_t more;
  serve_job *first, *last;
  uint32_t depth, workers;
  bool stop;
  serve_histogram queue_time, compute_time; /* of requests that were computed */
  sys_thread *threads;
  td_session **sessions;
} serve_model;

struct serve_server {
  td_load_options load; /* of each model: as the command compiles, and ready before machine code is made */
  serve_model *models;
  uint32_t model_count;
  uint16_t port;
  uint32_t workers, queue, drain_seconds; /* workers and waiting requests of a model */
  size_t most_bytes;                      /* of a request's body */
  uint64_t limit_ns;                      /* that a request may wait for its turn */
  bool draining;                          /* not ready any more */
  uint64_t replies[3];                    /* of 2xx, 4xx, 5xx; the loop's */
  int done_event;                         /* eventfd: there are jobs in `done` */
  pthread_mutex_t done_lock;
  serve_job *done;
};

/* worker.c: starts and ends the threads of a model; queues a job: false, where the queue is full. */
td_status serve_start_workers(serve_model *model, td_error *err);
void serve_stop_workers(serve_model *model);
bool serve_queue(serve_job *job, uint32_t most);

/* metrics.c: one duration more; all figures as text. */
void serve_count(serve_histogram *h, uint64_t ns);
void serve_print_metrics(serve_server *server, base_text *to);

/* archive.c: the model and labels of a `.mar`, which live as long as the arena and m->archive. */
td_status serve_open_archive(serve_model *m, base_arena *arena, const char *path, td_error *err);

/* loop.c: listens on the loopback address until SIGTERM or SIGINT. */
td_status serve_run(serve_server *server, td_error *err);

/* route.c: true: answered; false: it is in a queue, and comes back. */
bool serve_route(serve_server *server, const http_head *head, serve_job *job);
/* {"error":"..."} as the job's reply. */
void serve_refuse(serve_job *job, int32_t status, const char *format, ...) BASE_PRINTF(3, 4);

/* infer.c: KServe's inference, and TorchServe's prediction of a picture. Run on workers. */
void serve_infer(serve_job *job, td_session *session);
void serve_predict(serve_job *job, td_session *session);
/* "FP32", ...; NULL: the protocol has no such type. */
const char *serve_datatype(td_dtype dtype);
#endif
