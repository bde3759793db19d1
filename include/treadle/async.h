/* async.h -- runs with deadlines, asynchronous runs, and batches over streams of cores. The rules of treadle.h
 * apply.
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

/* Inputs, outputs and limits of a run. */
typedef struct td_run_options {
  size_t size; /* sizeof(td_run_options) */
  /* The run ends with TD_TIMED_OUT before the first step that would begin at this time or later, in loops and forked
   * tasks too; 0: no deadline. A step that has begun is finished. */
  uint64_t deadline_ns;
  /* Checked like the deadline: after another thread has stored a value other than 0 here (atomically), the run ends
   * with TD_CANCELLED. The word must stay valid until the run is over. NULL: cannot be cancelled. */
  const int32_t *cancel;
  /* Tensors for the first inputs of the model, bound as by td_session_set_input. One of dtype TD_INVALID leaves its
   * input as it is. The array is copied; what `data` points to must stay valid and unchanged until the run is over. */
  const td_tensor *inputs;
  size_t input_count;
  /* Memory for the first outputs of the model, bound as by td_session_bind_output, for this run alone. One of dtype
   * TD_INVALID leaves its output to the session. The array is copied. */
  const td_tensor *outputs;
  size_t output_count;
  /* Asynchronous runs only: called when the run is over, on the session's thread, before its next run begins. `err` is
   * NULL if `status` is TD_OK. It may read outputs (td_session_output) and enqueue further runs; it must not wait for a
   * run of this session, nor free the session. May be NULL. */
  void (*done)(void *user, td_status status, const td_error *err);
  void *done_user;
  int32_t event; /* an eventfd, to which one is added when td_wait would return at once; 0: none */
} td_run_options;

/* td_session_run with these options, on the caller's thread. After a failed, cancelled or late run the session can run
 * again; no state has changed, and the contents of bound outputs are undefined. */
TD_API td_status td_session_run_with(td_session *session, const td_run_options *options, td_error *err);

/* An enqueued run. Owned by the caller; may outlive its session. */
typedef struct td_future td_future;

/* Enqueues a run and returns. A thread of the session, started by the first such call, computes runs in order, each to
 * its end. While a run is queued or running, functions that change or run the session fail with TD_BAD_ARGUMENT, and
 * outputs may be read only in `done`; afterwards those of the last run can be read, unless it had memory for outputs
 * of its own. `future` may be NULL. Thread-safe, at any time. Allocates nothing once as many runs have been queued or
 * held by futures before. td_session_free cancels what is left: TD_CANCELLED.
 *
 * Errors: TD_BAD_ARGUMENT for invalid or too many tensors, TD_NO_RESOURCE if no thread can be started; errors of the
 * run itself, such as sizes that do not fit, come from td_wait. */
TD_API td_status td_session_run_async(td_session *session, const td_run_options *options, td_future **future,
                                      td_error *err);
/* Waits for the run, including `done`, and returns its status and error. TD_ANSWER_NO, with `err` not filled: it is not
 * over at `until_ns` (0: no limit; 1: does not wait). Thread-safe; may be called repeatedly. */
TD_API td_status td_wait(td_future *future, uint64_t until_ns, td_error *err);
/* Cancels the run: it ends with TD_CANCELLED before its next step, or when it would start. A finished run is not
 * affected. Thread-safe. */
TD_API void td_future_cancel(td_future *future);
/* Frees the future; its run continues. NULL is allowed. */
TD_API void td_future_free(td_future *future);

/* ---- batches over streams of cores ------------------------------------------------------------------------------- */

/* Sessions of one model that share its weights and split a batch: each has some of the cores, and computes its samples
 * from the first step to the last. One caller at a time. */
typedef struct td_streams td_streams;

typedef struct td_streams_options {
  size_t size;      /* sizeof(td_streams_options) */
  uint32_t streams; /* at most one per thread; 0: chosen by td_streams_count */
  uint32_t threads; /* its own threads; 0: what affinity and cgroup quota allow */
  td_pool *pool;    /* threads to divide among the streams, instead of its own */
  uint64_t whole;   /* bit i: every stream gets all of input i; others are split along dimension 0 */
} td_streams_options;

/* The model must outlive the streams. Errors: TD_UNSUPPORTED for a model that keeps state from run to run. */
TD_API td_status td_streams_new(const td_model *model, const td_streams_options *options, td_streams **streams,
                                td_error *err);
TD_API void td_streams_free(td_streams *streams); /* NULL is allowed */
/* Runs a batch with `inputs`, `outputs`, `deadline_ns` and `cancel` of the options. Inputs that are split have the same
 * number of samples, dimension 0; those not given have their defaults. All outputs must be given, with the same number
 * of rows per sample. Each stream writes its samples' results in place. Results equal those of the whole batch. A batch
 * smaller than the number of streams runs on fewer, with more threads each; a remainder gives the first streams one
 * more sample. Errors: those of the first stream that failed, TD_BAD_ARGUMENT for tensors that cannot be split. */
TD_API td_status td_streams_run(td_streams *streams, const td_run_options *batch, td_error *err);
/* What output `index` of a batch with these inputs will be: dtype and dims, no data. TD_ANSWER_NO: only running can
 * tell. Errors: as above. */
TD_API td_status td_streams_predict_output(td_streams *streams, const td_run_options *batch, size_t index,
                                           td_tensor *tensor, td_error *err);
/* The number of streams for a batch of `samples`: as the options say, or by a model of the gain from one more thread,
 * or as td_streams_tune measured. */
TD_API uint32_t td_streams_count(const td_streams *streams, int64_t samples);
/* If the options leave the number open: runs the batch over 1, 2, 4, ... and the most streams, and keeps the fastest
 * for its size; the last 16 sizes are kept. */
TD_API td_status td_streams_tune(td_streams *streams, const td_run_options *batch, td_error *err);

#ifdef __cplusplus
}
#endif
#endif
