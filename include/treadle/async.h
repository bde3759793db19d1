/* async.h -- runs that end early, runs beside their caller, and batches over streams of cores. The rules of treadle.h
 * hold.
 *
 *     td_future *future;
 *     const td_run_options run = {.size = sizeof run, .inputs = &in, .input_count = 1, .outputs = &out,
 *                                 .output_count = 1, .deadline_ns = now_ns + 50000000};
 *     td_session_run_async(session, &run, &future, &err);
 *     ...                                                     something else
 *     if (td_wait(future, 0, &err) != TD_OK) fprintf(stderr, "%s\n", err.text);
 *     td_future_free(future);
 *
 * Times are nanoseconds of the system's monotonic clock (CLOCK_MONOTONIC). */
#ifndef TREADLE_ASYNC_H
#define TREADLE_ASYNC_H
#include <treadle/treadle.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a run takes and gives, and what ends it. */
typedef struct td_run_options {
  size_t size; /* sizeof(td_run_options) */
  /* The run ends with TD_TIMED_OUT at the first step that would begin then or later, inside loops and forked tasks
   * too; 0: it has no deadline. A step that has begun is finished. */
  uint64_t deadline_ns;
  /* As the deadline: when another thread has stored something else than 0 here (atomically), the run ends with
   * TD_CANCELLED. The word must stay valid until the run is over. NULL: nobody cancels. */
  const int32_t *cancel;
  /* Tensors for the first inputs of the model, bound as by td_session_set_input. One of dtype TD_INVALID leaves its
   * input as it is. The array is copied; what `data` points to must stay valid and unchanged until the run is over. */
  const td_tensor *inputs;
  size_t input_count;
  /* Memory for the first outputs of the model, bound as by td_session_bind_output, for this run alone. One of dtype
   * TD_INVALID leaves its output to the session. The array is copied. */
  const td_tensor *outputs;
  size_t output_count;
  /* Of asynchronous runs alone: called when the run is over, on a thread of the session's, before its next run begins.
   * `err` is NULL where `status` is TD_OK. It may read outputs (td_session_output) and put further runs in line, but
   * neither wait for a run of this session nor free it. NULL: nobody is called. */
  void (*done)(void *user, td_status status, const td_error *err);
  void *done_user;
  int32_t event; /* an eventfd, to which one is added when td_wait would return at once; 0: none */
} td_run_options;

/* td_session_run within these limits, on the caller's thread. After a failed run, an early end among them, the session
 * can run again; no state has changed, and memory that outputs are bound to is undefined. */
TD_API td_status td_session_run_with(td_session *session, const td_run_options *options, td_error *err);

/* A run that was put in line. Owned by the caller; outlives its session if it must. */
typedef struct td_future td_future;

/* Puts a run in line behind those that were put before, and returns. A thread of the session's own, started by the
 * first such call, computes them one after the other, each to its end. While a run is in line or under way, functions
 * that change or run the session refuse with TD_BAD_ARGUMENT, and outputs may be read in `done` alone; afterwards
 * those of the last run can be read, if it gave no memory for outputs. `future` NULL: nobody waits. Any thread may
 * call this at any time. Allocates nothing once as many runs were in line or held by futures before. td_session_free
 * ends what is left with TD_CANCELLED.
 * Errors: TD_BAD_ARGUMENT for tensors that are none or too many, TD_NO_RESOURCE where no thread can be started; what a
 * run itself finds wrong, sizes that do not fit among it, comes from td_wait. */
TD_API td_status td_session_run_async(td_session *session, const td_run_options *options, td_future **future,
                                      td_error *err);
/* Waits for the run, `done` included, and gives its status and error. TD_ANSWER_NO, with `err` not filled: it is not
 * over yet at `until_ns` (0: waits without a limit; 1: does not wait). Thread-safe; as often as you like. */
TD_API td_status td_wait(td_future *future, uint64_t until_ns, td_error *err);
/* Has the run end with TD_CANCELLED before its next step, or when its turn comes; one that is over stays as it is.
 * Thread-safe. */
TD_API void td_future_cancel(td_future *future);
/* Gives up the future; its run goes on. NULL is allowed. */
TD_API void td_future_free(td_future *future);

/* ---- batches over streams of cores ------------------------------------------------------------------------------- */

/* Sessions of one model, which share its weights and the samples of a batch: each has some of the cores and computes
 * its samples from the first step to the last. One caller at a time. */
typedef struct td_streams td_streams;

typedef struct td_streams_options {
  size_t size;      /* sizeof(td_streams_options) */
  uint32_t streams; /* at most one for each thread; 0: as many as pays, see td_streams_count */
  uint32_t threads; /* of its own; 0: what affinity and cgroup quota allow */
  td_pool *pool;    /* whose threads the streams divide up, instead of own ones */
  uint64_t whole;   /* bit i: every stream gets all of input i; others are cut along dimension 0 */
} td_streams_options;

/* The model must outlive the streams. Errors: TD_UNSUPPORTED for a model that keeps state from run to run. */
TD_API td_status td_streams_new(const td_model *model, const td_streams_options *options, td_streams **streams,
                                td_error *err);
TD_API void td_streams_free(td_streams *streams); /* NULL is allowed */
/* Runs a batch: `inputs`, `outputs`, `deadline_ns` and `cancel` of the options count. Inputs that are cut have one
 * number of samples, their dimension 0; outputs, all of the model, as many rows for each sample. Each stream writes its
 * samples' results in their place. Results are those of the whole batch. A batch smaller than the streams runs on fewer
 * with more threads each; where it does not come out even, the first have one sample more. Errors: those of the first
 * stream that failed, TD_BAD_ARGUMENT for tensors that cannot be cut. */
TD_API td_status td_streams_run(td_streams *streams, const td_run_options *batch, td_error *err);
/* Over how many streams a batch of so many samples runs: what the options say, or by a model of what a further thread
 * is worth to the same samples, or as td_streams_tune has found. */
TD_API uint32_t td_streams_count(const td_streams *streams, int64_t samples);
/* Where the options leave it open: runs the batch over 1, 2, 4, ... and the most streams, and keeps for its size what
 * was fastest, for the 16 sizes that were measured last. */
TD_API td_status td_streams_tune(td_streams *streams, const td_run_options *batch, td_error *err);

#ifdef __cplusplus
}
#endif
#endif
