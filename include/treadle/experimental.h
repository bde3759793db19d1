/* experimental.h -- functions of libtreadle without an ABI promise: they may change or go. Otherwise the rules of
 * treadle.h apply. */
#ifndef TREADLE_EXPERIMENTAL_H
#define TREADLE_EXPERIMENTAL_H
#include <treadle/treadle.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The capabilities of this build, as one JSON object of arrays of names: "backends" (what td_load_options.backend
 * takes), "formats", "builtins" (what stands after builtin:), "passes", "kernels", "operators" (of the graph),
 * "onnx_operators", "torch_operators".
 * Writes at most `size` bytes into `text`, NUL included, as snprintf does; `*length` is the length of the whole text
 * without the NUL. `text` may be NULL when `size` is 0. */
TD_API td_status td_capabilities(char *text, size_t size, size_t *length, td_error *err);

/* The class of work of an operator (td_step.op): "convolution", "matrix product", "pointwise", ... For summaries. */
TD_API const char *td_class_of(const char *op);

/* A thread that computes something of its own on one of a pool's cores, such as decoding what a session is to be given.
 * Between enter and leave the sessions of the pool that run have one thread less, from their next shared step on. A
 * guest is one thread's at a time; it does not call a session of the pool meanwhile. The pool must outlive it. Errors
 * of td_guest_new: TD_BAD_ARGUMENT, TD_NO_RESOURCE. NULL is allowed for the others. */
typedef struct td_guest td_guest;
TD_API td_status td_guest_new(td_pool *pool, td_guest **guest, td_error *err);
TD_API void td_guest_enter(td_guest *guest);
TD_API void td_guest_leave(td_guest *guest);
TD_API void td_guest_free(td_guest *guest);

/* Writes the imported graph as an ONNX file, for other engines. Errors: TD_UNSUPPORTED naming the first node that ONNX
 * has no operator for, and what `write` returns. */
TD_API td_status td_model_save_onnx(const td_model *model, td_write_fn write, void *user, td_error *err);

/* The first weight (or other constant) of the imported graph that has a NaN: writes its name, or its consumer's, to
 * `name`, at most `size` bytes. TD_ANSWER_NO, with `err` not filled: there is none. Errors: TD_BAD_ARGUMENT for a saved
 * plan, which has no graph. */
TD_API td_status td_model_nan_weight(const td_model *model, char *name, size_t size, td_error *err);

/* The operands and results of step `index` in the last run, "f32[64,48] f32[48] -> f32[64,48]", into `text`: at most
 * `size` bytes, what does not fit is cut off; "-" for what is no tensor, absent, or not known. */
TD_API td_status td_session_step_shapes(const td_session *session, size_t index, char *text, size_t size,
                                        td_error *err);

/* Runs the session `runs` times for each group of hardware counters and writes the counts: of whole runs on the calling
 * thread, and of parts of steps by thread and by class of work. `level` "tma": top-down analysis, if this CPU is
 * known; "tma1" to "tma3": only its first levels, which take fewer runs; "ipc": instructions per cycle, and caches.
 * Removes the session's observer. If a level is not available, the reason and its remedy are written and the next
 * lower level is used; without counters nothing else is written. Errors: those of a run, and
 * what `write` returns. */
TD_API td_status td_session_count(td_session *session, const char *level, uint32_t runs, td_write_fn write, void *user,
                                  td_error *err);

/* ---- generated code ---------------------------------------------------------------------------------------------- */

/* Machine code of a fused loop. Texts are owned by the model. */
typedef struct td_code {
  size_t size;      /* sizeof(td_code), set by the caller */
  const char *name; /* td_step.kernel */
  const void *address;
  size_t bytes;
  const char *source; /* path of its C text in the folder td_load_options.cache; the file may have been deleted since */
  uint32_t line;      /* where it begins there; 0: unknown */
} td_code;
/* The code of step `index` of td_model_stats.steps. TD_ANSWER_NO, with `err` not filled: it has no generated code. */
TD_API td_status td_model_code(const td_model *model, size_t index, td_code *code, td_error *err);

/* The step that makes output `index`. TD_ANSWER_NO, with `err` not filled: none does, it is an input or a constant. */
TD_API td_status td_model_output_step(const td_model *model, size_t index, size_t *step, td_error *err);

/* Writes the symbols of a model's generated code, with its nodes, for Linux's perf. `form` "map": lines to append to
 * /tmp/perf-PID.map. "jitdump": a whole file, to be named jit-PID.dump; perf finds it when the process maps a page of
 * it as code while `perf record -k 1` is running, and `perf inject -j` reads it afterwards. Its times are of the
 * monotonic clock. */
TD_API td_status td_model_tell_perf(const td_model *model, const char *form, td_write_fn write, void *user,
                                    td_error *err);

/* ---- ranges for external profilers ------------------------------------------------------------------------------- */

/* A collector of ITT ranges, such as VTune's: a shared library whose path is in INTEL_LIBITTNOTIFY64 when the profiler
 * started the process. Applications read that variable and pass the path. */
typedef struct td_collector td_collector;
/* Errors: TD_NO_RESOURCE with the loader's reason, TD_UNSUPPORTED for a library that collects nothing. */
TD_API td_status td_collector_open(const char *library, td_collector **collector, td_error *err);
/* Its sessions must be gone, or told to stop (td_session_collect). NULL is allowed. */
TD_API void td_collector_close(td_collector *collector);

/* A range named `name` from here to td_range_pop, on the calling thread; ranges nest. td_mark: a moment. Without a
 * collector (NULL) they cost a branch. Thread-safe. */
TD_API void td_range_push(td_collector *collector, const char *name);
TD_API void td_range_pop(td_collector *collector);
TD_API void td_mark(td_collector *collector, const char *name);
/* Pauses collection in the whole process until td_collector_resume. No effect if the collector does not support it.
 * NULL is allowed. Thread-safe. */
TD_API void td_collector_pause(td_collector *collector);
TD_API void td_collector_resume(td_collector *collector);

/* From the next run on, every part of a step is a range on the thread that computes it, named after the operator
 * ("aten::convolution") or, for fused loops, the kernel; `shapes` appends the operands' sizes. An observer of the
 * session stays. NULL collector: stops, and removes the observer. With `shapes` the session must
 * have run, else TD_BAD_ARGUMENT. */
TD_API td_status td_session_collect(td_session *session, td_collector *collector, int32_t shapes, td_error *err);

#ifdef __cplusplus
}
#endif
#endif
