/* server.h -- what the parts of the server share: options, models and their versions, jobs.
 *
 * Threads. I/O threads run loops, one each. A loop's thread owns its connections, and every job of theirs that is in no
 * queue. The first one also looks at what times out, and reads signals. Tables that loops share (models, workflows,
 * sequences, profiles, shares of traffic) are read and changed with server->tables held, which is never held around
 * sockets or while a body is read. Compute threads, as many as there are usable CPUs for all models together, take jobs
 * from the queues of versions. One loader thread loads, scales and frees versions. A job that leaves its loop's thread
 * comes back to it through serve_done. Who needs both locks takes server->tables first. */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H
#include <time.h>

#include <treadle/async.h>
#include <treadle/experimental.h>

#include "http.h"
#include "sys/sys.h"

typedef struct serve_server serve_server;
typedef struct serve_loop serve_loop;
typedef struct serve_version serve_version;
typedef struct serve_job serve_job;
typedef struct serve_log serve_log;
typedef struct serve_flight serve_flight;
typedef struct serve_workflow serve_workflow;
typedef struct serve_sequence serve_sequence;
typedef struct serve_profile serve_profile;
struct fmt_json;

/* Jobs that run as one: the run ends early when nobody waits for any of them. Under server->lock but for `cancel`. */
typedef struct serve_group {
  int32_t cancel; /* td_run_options.cancel */
  uint32_t waiting;
} serve_group;

/* How the body of a request becomes tensors, and tensors its reply. Both run on compute threads. */
typedef struct serve_protocol {
  /* Fills job->inputs, of which there is one for each input of the model; data == NULL: it was not given. */
  td_status (*read)(serve_job *job, td_error *err);
  /* `outputs`: one for each output of the model; TD_INVALID: it is no tensor. */
  td_status (*write)(serve_job *job, const td_tensor *outputs, td_error *err);
} serve_protocol;

/* One of TorchServe's built-in handlers. */
typedef struct serve_handler {
  const char *name;
  const serve_protocol *protocol; /* of /predictions */
  const char *preset;             /* how pictures are prepared (fmt/image.h) */
  td_input_spec inputs[2];        /* of a TorchScript model, which does not say them */
  size_t input_count;
} serve_handler;

/* An input of a handler by its name, where the request is more than one body. */
typedef struct serve_named {
  base_str name, value;
} serve_named;

/* A request on its way from the socket to its reply. */
struct serve_job {
  serve_job *next;
  /* On its loop's thread, with the tables held, when it comes back: the job that is to be replied to now; NULL: none
   * is. Where there is no such function, it is itself.
   */
  serve_job *(*finish)(serve_job *);
  void (*respond)(serve_job *);                 /* on its loop's thread: sends the reply */
  void (*extend)(serve_job *, serve_job *part); /* the same: a part of the reply, its own from now on; NULL: in one */
  void *owner;                                  /* the connection */
  const char *client;                           /* its address */
  serve_server *server;
  serve_loop *loop;       /* that it comes back to */
  td_allocator memory;    /* of the body, the arena and the reply: counts what the job holds */
  uint64_t held;          /* bytes of it */
  uint64_t refused_bytes; /* that it asked for last */
  uint32_t spare;         /* bytes that it may yet take although the budget is used up */
  bool is_over;           /* the budget had no room for them */
  bool is_short;          /* the system had none for its body */
  base_arena *arena;      /* of texts and tensors of this request */
  char *body;
  size_t count, cap; /* of the body: bytes there are, and room */
  uint64_t expected; /* bytes of the body, where the head says so; 0: it does not */
  base_str method, path, query, token;
  base_str host, origin;           /* header fields; at == NULL: not there */
  char id[129];                    /* of the request, as its client says or of our own; "": not named yet */
  uint64_t begun_ns;               /* when its first byte came; 0: none has */
  uint64_t received;               /* bytes of the body, as they came */
  uint64_t queued_ns, computed_ns; /* how long it waited and was computed; 0: it was not */
  uint64_t decoded_ns;             /* of computed_ns, until its body was tensors; 0: it never was */
  int32_t grpc_status;             /* of the reply, where is_grpc */
  uint32_t roles;                  /* of the address that it came by */
  bool is_torch;                   /* errors are written as TorchServe writes them, not as KServe */
  bool is_grpc;                    /* errors are their text alone */
  bool is_full;                    /* it was refused since the queue is full */
  /* Of a gRPC message around what REST would reply, or around that of a stream, errors included: KServe's,
   * TorchServe's.
   */
  enum { SERVE_PLAIN, SERVE_WRAPPED, SERVE_REPOSITORY, SERVE_STREAMED, SERVE_TALKED } shape;
  const char *order_name; /* SERVE_REPOSITORY: of the model; SERVE_STREAMED: the request's id, or NULL */
  const char *watched;    /* service whose health the stream tells, as long as its client listens; NULL: it does not */
  int32_t health;         /* that it told last */
  uint64_t limit_ns;      /* that the client waits; 0: it did not say */
  int64_t json_count;     /* bytes of JSON in front of binary tensors; -1: the body is all JSON */
  uint64_t arrived_ns;    /* in the queue */
  uint64_t deadline_ns;   /* when nobody waits for the reply any more */
  int32_t cancel;         /* td_run_options.cancel: its client has gone */
  serve_group *group;     /* that it runs in; NULL: none */
  bool is_queued;         /* in its version's queue; under server->lock */
  const serve_protocol *protocol;
  struct serve_pair *pair;  /* that it is compared in (traffic.c); NULL: none */
  bool explains;            /* of /explanations: its handler is to say why it answers so */
  bool is_parted;           /* its type is told already, with a part of the reply */
  bool is_copy;             /* for a comparison: nobody waits for its reply */
  bool is_default;          /* it named no version, and has the default one */
  bool names_version;       /* it did */
  base_str sequence_id;     /* that the request says, where its model has sequences; at == NULL: it stands alone */
  bool starts, ends;        /* it is the sequence's first one, or its last */
  bool begins;              /* it is the first one also without saying so, where no other was */
  bool has_begun;           /* a sequence, as the first one that was computed */
  serve_sequence *sequence; /* that it is in, until it comes back; NULL: none */
  serve_version *version;   /* of which it holds a reference */
  td_tensor *inputs;
  const http_field *fields; /* of the request's head */
  uint32_t field_count;
  const serve_named *named; /* what a handler gets instead of the body; NULL: the body */
  uint32_t named_count;
  bool is_raw;               /* Content-Type says nothing of what a handler gets: it came from another one */
  serve_flight *flight;      /* of a workflow (workflow.c), whose jobs end with this one; NULL: none */
  const void *asked;         /* what `read` keeps for `write` */
  void (*work)(serve_job *); /* of a job for the loader */
  void *order;               /* its own */
  int32_t status;            /* of the reply, and its body */
  const char *type;          /* Content-Type */
  const char *allow;         /* with 405, and of OPTIONS: the methods that the path has */
  const char *policy;        /* of a page: what browsers let it do (Content-Security-Policy); NULL: it is none */
  size_t reply_json;         /* bytes of JSON in front of binary tensors; 0: none are there */
  base_text reply;
};

#define SERVE_MOST_TIMEOUT_US ((int64_t)86400000000) /* of a request's own limit, as Triton's clients give it */
enum { SERVE_BUCKETS = 14, SERVE_MOST_WORKERS = 1024, SERVE_MOST_BATCH = 64, SERVE_SEQUENCE_PLACES = 1024 };
enum { SERVE_MOST_SEQUENCES = 65536, SERVE_BATCH_BUCKETS = 7 }; /* up to SERVE_MOST_BATCH */
typedef struct serve_histogram {
  uint64_t buckets[SERVE_BUCKETS], total_us, count;
} serve_histogram;

/* What became of copies of requests that a version ran beside the default one. */
typedef struct serve_compared {
  uint64_t count, failed, dropped; /* dropped: no room for the copy, or for its outputs */
  uint64_t default_us, own_us;     /* that both took, waiting included */
  double difference;               /* the largest one of two outputs' numbers */
} serve_compared;

/* One version of a model. Sessions belong to the loader and to compute threads, figures to who holds server->lock. */
struct serve_version {
  const char *name, *number, *url, *runtime;
  base_arena *arena;    /* of its texts and labels */
  sys_mapping archive;  /* that it came in */
  sys_mapping inflated; /* its model, where the archive has it deflated and it was set aside */
  const char **labels;  /* of its classes; NULL: they have none */
  size_t label_count;
  const serve_handler *handler;      /* NULL: it came without an archive */
  const struct fmt_json *vocabulary; /* of text_classifier: word to number */
  td_model *model;                   /* NULL: it has a Python handler */
  const uint8_t *state_dims;         /* of each state the one that counts sequences; NULL: they are not joined */
  struct serve_python *python;       /* its own (worker.h); NULL: none */
  serve_server *server;
  _Atomic uint32_t refs;            /* the table's, and one for each job */
  uint32_t split, shadow;           /* of 100 requests for no version: answered by it; copied for comparison; as the
                                     * next ones, under server->tables */
  uint32_t split_turn, shadow_turn; /* hundredths of the next one of these */
  serve_compared compared;
  uint32_t sequences; /* there are */
  uint64_t started_sequences, ended_sequences, timed_out_sequences;
  bool at_start;
  /* ---- under server->lock ---- */
  serve_job *first, *last; /* the queue */
  uint32_t depth, queue_limit, batch_size, min_workers, max_workers;
  uint32_t batch_rows;         /* most jobs for which joining pays, by measurement; at most batch_size */
  uint64_t limit_ns, delay_ms; /* that a request may take; TorchServe's maxBatchDelay, which is only told */
  uint64_t start_ns;           /* in which a process of a Python handler has to be ready */
  uint64_t sequence_idle_ms, sequence_limit_ms; /* that a sequence may rest, or last at all; 0: however long */
  uint32_t most_sequences, sequence_queue;      /* requests that may wait behind the one that is computed */
  uint64_t client_ms;   /* after which clients have given up, by TorchServe's clientTimeoutInMills; 0: not known */
  void **idle;          /* sessions (serve_session, serve_worker) that no thread has; room for SERVE_MOST_WORKERS */
  uint64_t first_bytes; /* of sessions: what the first one took when it was warmed */
  uint32_t idle_count, session_count;
  serve_profile *profile;      /* that counts its requests; NULL: none */
  uint32_t workers;            /* that it was given: what it weighs beside other versions */
  uint32_t threads;            /* of a process with a Python handler: the CPUs over the workers, at least 1 */
  int64_t loaded_s;            /* Unix time */
  serve_job freeing;           /* what has the loader free it */
  serve_version *next_waiting; /* of versions that have jobs */
  bool waiting;
  serve_histogram queue_time, decode_time, compute_time, total_time, batches; /* of requests; a batch's jobs, in us */
  uint64_t batch_sizes[SERVE_BATCH_BUCKETS];                                  /* batches of at most 1, 2, 4, ... jobs */
};

typedef struct serve_model {
  char *name;
  serve_version **versions;
  uint32_t count, current; /* current: the default version */
} serve_model;

/* Which routes an address answers. */
enum { SERVE_INFER = 1, SERVE_MANAGE = 2, SERVE_METRICS = 4 };

typedef struct serve_address {
  char host[108]; /* a numeric address, or the path of a UNIX socket */
  uint16_t port;
  bool is_unix, is_tls;
  uint32_t roles; /* 0: not used */
} serve_address;

enum { SERVE_ADDRESSES = 5, SERVE_KEYS = 3, SERVE_KEY_BYTES = 33, SERVE_MOST_LOOPS = 64 };

/* Header fields of each reply that tell browsers which pages may read it; without a value there is none. */
enum { SERVE_CORS = 3 };
extern const char *const serve_cors_fields[SERVE_CORS];

typedef struct serve_options {
  serve_address addresses[SERVE_ADDRESSES]; /* inference, management, metrics, gRPC: two */
  const char *model_store, *workflow_store, *models, *config, *key_file, *certificate, *private_key, *python,
      *access_log, *allowed_hosts, *launcher_args, *cors[SERVE_CORS];
  int64_t workers, queue, timeout_s, transfer_s, most_bytes, most_held, drain_s, batch, delay_ms, start_workers,
      delay_s, trust_network, io_threads, netty_threads;
  int64_t sequences, sequence_idle_ms;
  int64_t python_handlers, python_memory; /* MiB of a worker; 0: no limit */
  const char *node_copies;                /* of td_load_options; or NULL */
  int64_t start, stop, foreground, no_tokens, model_api, no_system_metrics, launcher, help, version, ignored;
} serve_options;

/* What other threads have of a loop. */
struct serve_loop {
  serve_server *server;
  int event; /* eventfd: there are jobs in `done`, or something has changed that it looks at */
  /* ---- under server->lock ---- */
  serve_job *done, *done_last;
};

struct serve_server {
  serve_options options;
  td_load_options load;  /* of each model: as the command compiles, and ready before machine code is made */
  _Atomic bool draining; /* not ready any more */
  uint64_t started_ns;   /* what ids of requests begin with */
  serve_loop loops[SERVE_MOST_LOOPS]; /* options.io_threads of them */
  _Atomic uint64_t replies[3];        /* of 2xx, 4xx, 5xx */
  _Atomic uint64_t requests;          /* that were given an id of ours */
  _Atomic uint32_t copies;            /* jobs that are copies */
  _Atomic uint32_t listeners;         /* jobs that are told of health */
  uint64_t held, kept;    /* bytes that jobs and sequences hold, and sequences alone; any thread's (memory.c) */
  serve_log *log;         /* NULL: none is kept */
  pthread_mutex_t tables; /* recursive: what holds it calls what others call without it */
  /* ---- under `tables` ---- */
  serve_model **models; /* sorted by name */
  uint32_t model_count;
  serve_workflow **workflows; /* sorted by name */
  uint32_t workflow_count;
  serve_sequence *sequences[SERVE_SEQUENCE_PLACES]; /* by their ids */
  serve_profile *profiles;                          /* of all versions */
  uint64_t idle_ticks, all_ticks;                   /* of CPUs, when /metrics was asked before */
  char keys[SERVE_KEYS][SERVE_KEY_BYTES];           /* management, inference, API; "": tokens are not asked for */
  pthread_mutex_t lock;
  /* ---- under `lock` ---- */
  pthread_cond_t more;    /* jobs for compute threads */
  serve_version *waiting; /* versions with jobs, the one that waited longest first */
  td_pool *pool;          /* of all sessions, whose callers are compute threads; NULL: there is one CPU, or no model */
  sys_thread *threads;    /* compute threads, and behind them the loader */
  uint32_t started, busy; /* threads that run; CPUs that jobs count for */
  bool stop;
  serve_job *load_first, *load_last; /* jobs for the loader */
  pthread_cond_t load_more;
  pthread_cond_t settled;  /* a session has come back: who scales down or frees a version waits for that */
  uint32_t health_changes; /* times that some model, or the server, may have become ready or not; any thread's */
};

/* What an archive or a request says of a version; -1: nothing. */
typedef struct serve_config {
  int64_t min_workers, max_workers, batch, delay_ms, timeout_s, queue, client_ms, start_s;
  int64_t sequences, sequence_queue, sequence_idle_ms, sequence_limit_ms;
} serve_config;
#define SERVE_SAYS_NOTHING \
  { -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1 }

/* yaml.c: model-config.yaml, which errors call `what`. */
td_status serve_read_yaml(const char *what, const void *bytes, size_t size, serve_config *config, td_error *err);

/* config.c: options of the command line, and of config.properties, with TorchServe's precedence. */
td_status serve_read_options(int count, char **words, base_arena *arena, serve_options *options, td_error *err);
td_status serve_read_properties(const void *bytes, size_t size, base_arena *arena, serve_options *o, td_error *err);
extern const char serve_usage[];

/* cores.c: the CPUs that cpu_launcher_args asks for, and as many workers where no number is given. */
td_status serve_use_cores(serve_options *options, base_arena *arena, td_error *err);

/* token.c: makes the keys and their file; does the job's token allow the routes of `role`? */
td_status serve_make_keys(serve_server *server, td_error *err);
bool serve_allowed(const serve_server *server, const serve_job *job, uint32_t role);
void serve_renew_key(serve_job *job); /* GET /token */

/* host.c: may it use a route by which a page from elsewhere could do harm, where no token is asked for? False: it is
 * refused. */
bool serve_knows_page(serve_job *job);

/* schedule.c: threads. */
td_status serve_start_threads(serve_server *server, base_arena *arena, td_error *err);
void serve_stop_threads(serve_server *server);
void serve_cancel(serve_job *job); /* nobody waits for it: it comes back early */

/* queue.c: what waits for a thread, and what is done. Makes the locks, and the events of all loops; closes these. */
td_status serve_open_queues(serve_server *server, td_error *err);
void serve_close_queues(serve_server *server);
void serve_limit(serve_job *job, uint64_t ns); /* it may take no longer, from its arrival on */
bool serve_queue(serve_job *job);              /* false: the version's queue is full */
void serve_expire(serve_version *v);           /* answers what waited too long in its queue */
void serve_begin_group(serve_group *group, serve_job **jobs, uint32_t count);
void serve_end_group(serve_job **jobs, uint32_t count);
void serve_order(serve_job *job, void (*call)(serve_job *));        /* has the loader call it */
void serve_order_locked(serve_job *job, void (*call)(serve_job *)); /* the same with server->lock held */
serve_job *serve_take_queue(serve_version *v);                      /* all jobs of its queue, which is empty then */
void serve_done(serve_job *job);         /* from any thread: back to its loop, in the order of the calls */
void serve_wake(const serve_loop *loop); /* from any thread */
/* From the thread that computes the job: a part of its reply, sent at once where the protocol can; else the reply
 * begins with it. `status` and `type` (NULL: none) are those of the reply. */
void serve_give_part(serve_job *job, int32_t status, const char *type, base_str bytes);
void serve_note_health(serve_server *server); /* from any thread: whoever listens to health is to be told */

/* traffic.c: shares of requests for other versions than the default one. serve_find that takes turns; serve_queue that
 * may have a copy computed beside it; what comes back from a queue ends its pair. */
typedef struct serve_pair serve_pair;
serve_version *serve_find_turn(serve_job *job, const char *name, const char *number);
bool serve_queue_shadowed(serve_job *job);
void serve_end_pair(serve_job *job);

/* sequence.c: requests of a sequence, which a model with session state answers one after the other. What a request says
 * of its sequence: in TorchServe's header fields, or as `id` (at == NULL: none). False: it is refused. */
#define SERVE_SEQUENCE_ID "ts_request_sequence_id"
#define SERVE_SEQUENCE_START "ts_request_sequence_start"
#define SERVE_SEQUENCE_END "ts_request_sequence_end"
bool serve_name_by_fields(serve_job *job);
bool serve_name_sequence(serve_job *job, base_str id, bool starts, bool ends);
bool serve_is_true(base_str text);
/* Under server->tables, before the job is queued and when it has come back. False: it is refused. */
bool serve_join_sequence(serve_job *job);
void serve_leave_sequence(serve_job *job);
void serve_sweep_sequences(serve_server *server); /* ends those that have rested for too long */
/* Of a version, or (NULL) of all: what waits is still answered. */
void serve_end_sequences(serve_server *server, const serve_version *v);

/* batch.c: computes jobs of one version, joined where they can be; each is refused or has its reply then. */
/* `guest`: of the thread, while it decodes; or NULL. */
void serve_compute(serve_job **jobs, uint32_t count, td_session *session, td_guest *guest);
/* Runs the version once on zeros, and measures for how many jobs joining pays. */
td_status serve_warm(serve_version *v, td_session *session, td_error *err);

/* python.c: versions with a Python handler, whose sessions are processes. Unpacks the archive; starts them; ends one.
 */
struct fmt_zip;
td_status serve_python_open(serve_version *v, const struct fmt_zip *zip, const char *manifest, const char *file,
                            td_error *err);
td_status serve_python_start(serve_version *v, uint32_t workers, td_error *err); /* until there are so many */
void serve_python_end(serve_version *v, void *session);
/* False: the process is gone. *count becomes 0 where the jobs have been given back already. */
bool serve_python_compute(serve_job **jobs, uint32_t *count, void *session);
void serve_python_watch(serve_version *v); /* the first loop's: notices processes that have ended, has them replaced */
void serve_python_forget_missing(serve_version *v); /* the loader's: no process is to be replaced */
bool serve_python_works(const serve_version *v);    /* there is a process, or one is about to be */
void serve_python_retire(serve_version *v);         /* nobody waits for it any more */
void serve_python_free(serve_version *v);
void serve_python_abandon(const serve_server *server); /* removes what was unpacked; no thread is waited for */
const char *serve_temporary(void); /* unpack.c: the folder where archives are unpacked: TMPDIR, else /tmp */
bool serve_write_all(int file, const void *bytes, size_t count); /* unpack.c; false: errno says why */
/* Process number `index` of those that run, and its resident bytes; 0: there are no more. Under server->lock. */
int serve_python_process(const serve_version *v, uint32_t index, uint64_t *memory);

/* memory.c: one budget of bytes for what requests hold. A job is empty before it begins. */
void serve_begin_job(serve_job *job, serve_loop *loop);
bool serve_has_room(serve_job *job, uint64_t bytes); /* for a body of so many, as things are now */
void serve_spare_figures(serve_job *job);            /* its reply tells figures, also while the budget is used up */
/* Adds to the body. `room`: bytes that may be allocated beyond what the body has. False: too large, or no memory. */
bool serve_add_body(serve_job *job, const void *bytes, size_t count, size_t room);
bool serve_grow_body(serve_job *job, size_t cap); /* false: job->is_short or job->is_over */
void serve_free_body(serve_job *job);
void serve_drop_bytes(serve_job *job, char *body, size_t cap); /* of what was its body before */
uint64_t serve_held(const serve_server *server);
uint64_t serve_kept(const serve_server *server);                        /* of that, what sequences have */
void serve_hold(serve_server *server, uint64_t bytes, uint64_t before); /* counts so many instead of those before */
void serve_keep_bytes(serve_server *server, uint64_t bytes, uint64_t before); /* the same of a sequence */

/* session.c: a session of the engine. `first`: bytes of a first run, beyond which it is counted; 0: those of its own
 * first one. serve_session_settle: behind each run, when its outputs are not needed any more; may make it anew. */
typedef struct serve_session serve_session;
td_status serve_session_new(serve_server *server, const td_model *model, uint64_t first, serve_session **out,
                            td_error *err);
/* Of a sequence: all its bytes are counted, and it is never made anew. */
td_status serve_session_new_kept(serve_version *v, serve_session **out, td_error *err);
td_session *serve_session_run(const serve_session *s);
uint64_t serve_session_first(const serve_session *s); /* 0: it has not run */
void serve_session_settle(serve_session *s);
/* Records its runs from now on, until it is not watched any more; no run is under way. */
td_status serve_session_watch(serve_session *s, td_error *err);
void serve_session_unwatch(serve_session *s);
td_profile *serve_session_profile(const serve_session *s); /* NULL: it is not watched */
void serve_session_free(serve_session *s);                 /* NULL is allowed */

/* coding.c: inflates a body that came as gzip or deflate. False: it is refused. */
bool serve_decode(serve_job *job, base_str coding);

/* models.c: the table of models; under server->tables, but for references, and serve_find for a job. */
serve_model *serve_find_model(const serve_server *server, const char *name);
serve_version *serve_find_version(const serve_server *server, const char *name, const char *number);
td_status serve_add_version(serve_server *server, serve_version *v, td_error *err); /* takes the reference */
void serve_remove_version(serve_server *server, serve_model *m, uint32_t index);
void serve_free_models(serve_server *server); /* when no thread runs any more */
void serve_keep(serve_version *v);
void serve_release(serve_version *v); /* the last one has the loader free it; NULL is allowed */
/* The version that a request names (NULL: the default one), which the job keeps from now on. NULL: it is refused. */
serve_version *serve_find(serve_job *job, const char *name, const char *number);
/* Frees what a job holds, and lets go of its version. */
void serve_free_job(serve_job *job);
bool serve_is_ready(const serve_version *v); /* by its workers */

/* load.c: on the loader's thread, or before it is started. */
td_status serve_load(serve_server *server, const char *name, const char *url, const char *path, serve_version **out,
                     td_error *err);
/* A function of the handler in a workflow's archive, "file.py:function". */
td_status serve_load_function(serve_server *server, const char *name, const char *url, const char *path,
                              const char *handler, serve_version **out, td_error *err);
void serve_configure(serve_version *v, const serve_config *config);
td_status serve_scale(serve_version *v, uint32_t workers, td_error *err);
uint32_t serve_workers(const serve_version *v); /* that it has; with server->lock */
void serve_free_version(serve_version *v);      /* NULL is allowed */
/* The path of a file of the model store; refused: names that lead out of it. NULL: out of memory, or refused. */
const char *serve_store_path(const serve_server *server, base_arena *arena, const char *url);
/* The same of the workflow store, which is the model store where there is no other. */
const char *serve_workflow_path(const serve_server *server, base_arena *arena, const char *url);
/* Where the stores lie is nobody's business: errors name their files as requests do. */
void serve_hide_store(const serve_server *server, td_error *err);
/* The file of the model store that is called as a model, with the ending of a format; NULL: there is none. */
const char *serve_find_in_store(const serve_server *server, base_arena *arena, const char *name);
td_status serve_load_start(serve_server *server, char **words, int count, base_arena *arena, td_error *err);

/* archive.c: the model, the version, its configuration, labels and, unless it is named already, the name of a `.mar`.
 * All live as long as v->arena and v->archive. */
td_status serve_open_archive(serve_version *v, const char *path, bool is_named, td_error *err);
td_status serve_open_function(serve_version *v, const char *path, const char *handler, td_error *err);

/* metrics.c: one duration more; all figures as text. */
void serve_count(serve_histogram *h, uint64_t ns);
void serve_metrics(serve_job *job);
/* system.c: TorchServe's gauges of the machine's CPUs, memory and disk; under server->tables. */
void serve_print_system(base_text *to, serve_server *server, const char *host);

/* log.c: the access log. `path`: "-" is standard output; it is borrowed. Where lines go that nothing takes:
 * serve_log_lost counts them. serve_log_close writes what waits. A log that is NULL takes nothing. */
td_status serve_log_open(const char *path, serve_log **out, td_error *err);
void serve_log_request(serve_log *log, const serve_job *job, uint64_t bytes_out);
void serve_log_reopen(serve_log *log); /* somebody has moved the file away */
uint64_t serve_log_lost(serve_log *log);
void serve_log_close(serve_log *log);
/* The line of a request; `bytes_out`: of the body that were sent. */
void serve_print_request(base_text *to, const serve_job *job, const struct timespec *when, uint64_t bytes_out);
/* A client's bytes as a JSON string of UTF-8 without control characters. */
void serve_quote(base_text *to, base_str text);
/* job->id: what X-Request-Id says, or the trace of `traceparent`, or one of our own. Both may be damaged or not there.
 */
void serve_name_request(serve_job *job, base_str id, base_str parent);

/* loop.c: listens until SIGTERM or SIGINT. `ready`: called once, when all addresses listen. */
td_status serve_run(serve_server *server, void (*ready)(serve_server *), td_error *err);
void serve_take_done(serve_loop *own); /* jobs that have come back; also when no thread runs any more */
/* listen.c: a socket that listens; `address` gets the port that was chosen. */
td_status serve_listen(serve_address *address, int *fd, td_error *err);
void serve_print_address(const serve_address *address);

/* answer.c */
/* The reply is an error, as the route's protocol writes it. `type`: TorchServe's exception; NULL: by the status. */
void serve_refuse(serve_job *job, int32_t status, const char *format, ...) BASE_PRINTF(3, 4);
void serve_refuse_as(serve_job *job, int32_t status, const char *type, const char *format, ...) BASE_PRINTF(4, 5);
/* The library's status as HTTP's. */
void serve_fail(serve_job *job, td_status status, const td_error *err);
void serve_answer(serve_job *job, int32_t status, const char *format, ...) BASE_PRINTF(3, 4);
void serve_refuse_memory(serve_job *job); /* where job->is_over */
/* A parameter of the query, decoded, in the arena; NULL: it is not there. */
const char *serve_query(const serve_job *job, const char *name);

/* route.c: does a route of the path write errors as TorchServe does? */
bool serve_is_torch(base_str path);
/* True: answered; false: it is in a queue, and comes back. */
bool serve_route(serve_job *job);
/* True where models may be registered and deleted; else the job is refused. */
bool serve_may_change(serve_job *job);
void serve_refuse_unscaled(serve_job *job); /* since its version has no workers */
/* Has the job's version compute it; as serve_route. */
bool serve_enter(serve_job *job, const serve_protocol *protocol);
bool serve_predict(serve_job *job); /* by the version's handler */
bool serve_ping(serve_job *job, char **parts);

/* manage.c: what a request says in its query or in a body of JSON (NULL: it has none). False: it is refused. */
bool serve_read_parameters(serve_job *job, const struct fmt_json **body);
const char *serve_parameter(serve_job *job, const struct fmt_json *body, const char *name); /* NULL: not there */
/* A number from `low` to `high`; `otherwise` where it is not there. */
bool serve_number(serve_job *job, const struct fmt_json *body, const char *name, int64_t low, int64_t high,
                  int64_t otherwise, int64_t *value);

/* manage.c: TorchServe's management routes; `parts`: what stands in their patterns' places. */
bool serve_register(serve_job *job, char **parts);
bool serve_scale_workers(serve_job *job, char **parts);
/* A page of a list, as the query has it: the `kind`s' names and addresses, `entry` gives those of number `i`. True: it
 * is answered. */
typedef const char *serve_entry(const serve_server *server, uint32_t i, const char **url);
bool serve_answer_page(serve_job *job, const char *kind, uint32_t count, serve_entry *entry);
bool serve_list(serve_job *job, char **parts);
bool serve_describe(serve_job *job, char **parts);
bool serve_unregister(serve_job *job, char **parts);
bool serve_set_default(serve_job *job, char **parts);
bool serve_set_traffic(serve_job *job, char **parts);
bool serve_repository(serve_job *job, char **parts);
bool serve_repository_load(serve_job *job, char **parts);
bool serve_repository_unload(serve_job *job, char **parts);

/* profile.c: where the time of a version's next requests goes. Under server->tables: the route, and the end of what
 * took too long, or whose version has gone. */
bool serve_ask_profile(serve_job *job, char **parts);
void serve_sweep_profiles(serve_server *server);
/* On a compute thread. With server->lock held: takes a session that is idle; the profile that watches it, or NULL.
 * Around what is computed: begin and count. When the session goes back, with the lock held: is it over? Then, without
 * the lock: its end. */
serve_profile *serve_profile_take(serve_version *v, void **session);
void serve_profile_begin(serve_profile *p);
void serve_profile_count(serve_profile *p, serve_job *const *jobs, uint32_t count);
bool serve_profile_give(serve_profile *p);
void serve_profile_end(serve_profile *p);
void serve_profile_lose(serve_version *v, const void *session); /* on the loader's: the session is about to go */

/* workflow.c: TorchServe's routes of workflows. */
bool serve_register_workflow(serve_job *job, char **parts);
bool serve_list_workflows(serve_job *job, char **parts);
bool serve_describe_workflow(serve_job *job, char **parts);
bool serve_unregister_workflow(serve_job *job, char **parts);
bool serve_ask_workflow(serve_job *job, char **parts);
void serve_cancel_flight(serve_flight *flight); /* nobody waits for the reply any more */
void serve_free_workflows(serve_server *server);

/* page.c: the page at the management address. */
bool serve_page(serve_job *job, char **parts);

/* v2.c, v1.c, predict.c, text.c: KServe's inference, TorchServe's image_classifier and text_classifier. */
extern const serve_protocol serve_v2, serve_v1, serve_prediction, serve_segments, serve_objects, serve_text;
enum { SERVE_MOST_JSON = 1 << 24 }; /* bytes of tensors as JSON */
/* v2.c: which sequence a request is of; false: it is refused. */
bool serve_name_v2(serve_job *job);
/* v2.c: a number of JSON as an element. False: it is none (NULL), or one that the type does not hold. */
bool serve_store_number(const td_tensor *t, int64_t index, const struct fmt_json *v);
const serve_handler *serve_find_handler(const char *name); /* handlers.c; NULL: there is no such handler */
/* A picture's file as the model's input `index`, by the preset. */
td_status serve_read_picture(serve_job *job, size_t index, base_str file, const char *preset, td_tensor *t,
                             td_error *err);
/* Labels and probabilities of [1, classes] scores: the `top` likeliest first, or with 0 all in order. */
td_status serve_print_classes(serve_job *job, const td_tensor *t, int64_t top, td_error *err);

/* strings.c: BYTES. Elements of binary data, as views; what an input gets of them; and the way back. */
td_status serve_split_strings(base_arena *arena, const char *name, base_str raw, int64_t count, td_string **items,
                              td_error *err);
td_status serve_give_strings(serve_job *job, size_t index, const td_tensor *strings, const char *preset, td_error *err);
void serve_put_strings(base_text *to, const td_tensor *t, int64_t count);
size_t serve_strings_size(const td_tensor *t, int64_t count); /* bytes that it puts */
/* "FP32", ...; NULL: the protocol has no such type. */
const char *serve_datatype(td_dtype dtype);
td_dtype serve_dtype(base_str name); /* TD_INVALID: there is no such type */
/* numbers.c: the shortest text that reads as the same number of the type; an element. False: JSON cannot say it. */
bool serve_print_float(base_text *to, double value, bool is_f64);
bool serve_print_element(base_text *to, const td_tensor *t, int64_t index);
#endif
