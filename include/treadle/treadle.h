/* treadle.h -- the public interface of libtreadle.
 *
 * A model file becomes a td_model (mapped, verified, compiled for this CPU; immutable, shared by any number of
 * threads). A td_session is one caller's working memory over a model: set inputs, run, read outputs. Many sessions may
 * run one model at the same time; one session serves one caller at a time.
 *
 *     td_error err;
 *     td_model *model;
 *     if (td_model_load("net.onnx", NULL, &model, &err) != TD_OK) { fprintf(stderr, "%s\n", err.text); return 1; }
 *     td_session *session;
 *     td_session_new(model, NULL, &session, &err);
 *     td_session_set_input(session, 0, &tensor, &err);
 *     td_session_run(session, &err);
 *     td_tensor out;
 *     td_session_output(session, 0, &out, &err);
 *
 * ABI rules. Handles are opaque. Options are structs that begin with their own size: zero the struct, set `size` to
 * sizeof, then the fields you want; a newer library reads fields that an older caller does not have as zero, an older
 * one refuses a struct in which a field that it does not know is set (TD_UNSUPPORTED). Structs that the library fills
 * begin with their size, too: no more than that is written. Arrays of structs that may grow have a stride in the
 * options. Complete, never to grow, are td_error, td_tensor, td_named_tensor, td_string, td_allocator, td_work,
 * td_limits and the rows of td_roofline. Enumerators never change value. Functions and trailing fields are added, never
 * removed, within one TD_VERSION_MAJOR.
 *
 * Every function returns a td_status; results come through trailing pointers, and `err` (may be NULL) is filled on
 * failure only. No function aborts, prints, or reads the environment. */
#ifndef TREADLE_TREADLE_H
#define TREADLE_TREADLE_H

#include <stddef.h>
#include <stdint.h>

#define TD_VERSION_MAJOR 0
#define TD_VERSION_MINOR 1
#define TD_VERSION_PATCH 0

#if defined(_WIN32)
#define TD_API
#else
#define TD_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors ------------------------------------------------------------------------------------------------------ */

/* The numbers are the exit statuses of the `treadle` command. */
typedef enum td_status {
  TD_OK = 0,
  TD_ANSWER_NO = 1,    /* a comparison or check says no */
  TD_BAD_ARGUMENT = 2, /* the caller's mistake: a null handle, an unknown name, a shape that does not fit */
  TD_BAD_FILE = 3,     /* the file is missing, damaged, or not what it claims to be */
  TD_UNSUPPORTED = 4,  /* valid, but needs something Treadle does not have */
  TD_NO_RESOURCE = 5,  /* out of memory, address space, descriptors */
  TD_INTERNAL = 6,     /* a defect of Treadle */
  TD_CANCELLED = 7,    /* the caller has ended the run, see <treadle/async.h> */
  TD_TIMED_OUT = 8     /* the run's deadline has passed */
} td_status;

/* What went wrong, where. Owned by the caller, no pointers inside, never freed. */
typedef struct td_error {
  td_status code;
  int64_t offset;  /* bytes into the file `name`, or -1 */
  char name[256];  /* file, node ("node /conv1 (Conv)"), input or key; "" when there is none */
  char text[1792]; /* one sentence for people; says what to do where that is known */
} td_error;

/* "bad file", "unsupported", ...; never NULL. */
TD_API const char *td_status_name(td_status status);

/* "0.1.0"; the version of the library that is linked, to compare with TD_VERSION_*. */
TD_API const char *td_version(void);

/* ---- element types ----------------------------------------------------------------------------------------------- */

typedef enum td_dtype {
  TD_INVALID = 0,
  TD_F64,
  TD_F32,
  TD_F16,
  TD_BF16,
  TD_I64,
  TD_I32,
  TD_I16,
  TD_I8,
  TD_U64,
  TD_U32,
  TD_U16,
  TD_U8,
  TD_BOOL,   /* one byte, 0 or 1 */
  TD_STRING, /* host only */
  /* Storage types: cast to and from, dequantise; no arithmetic. Types of 4 and 2 bits are packed, low bits first. */
  TD_F8E4M3FN,
  TD_F8E4M3FNUZ,
  TD_F8E5M2,
  TD_F8E5M2FNUZ,
  TD_F8E8M0,
  TD_F4E2M1,
  TD_I4,
  TD_U4,
  TD_I2,
  TD_U2,
  TD_DTYPE_COUNT
} td_dtype;

/* "f32", "i64", ...; "invalid" for what is no dtype. */
TD_API const char *td_dtype_name(td_dtype dtype);

#define TD_MAX_RANK 8

/* A dense row-major tensor: elements of the last dimension are adjacent. `data` is borrowed: who owns it is said by the
 * function that takes or gives it. */
typedef struct td_tensor {
  td_dtype dtype;
  int32_t rank;
  int64_t dims[TD_MAX_RANK];
  void *data;
} td_tensor;

/* A value of a graph input or output: -1 stands for a dimension that is not fixed. */
typedef struct td_value_info {
  size_t size;      /* sizeof(td_value_info), set by the caller */
  const char *name; /* owned by the model */
  const char *kind; /* "tensor", "list", "optional" */
  td_dtype dtype;
  int32_t rank; /* -1: not fixed */
  int64_t dims[TD_MAX_RANK];
  const char *symbols[TD_MAX_RANK]; /* the name of an open dimension, or NULL */
  int32_t has_default;              /* 1: an input that need not be set: td_input_spec */
  int32_t is_complex; /* 1: an output of complex numbers, whose parts (dtype) lie along the last axis, of 2 */
} td_value_info;

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Every allocation of a model and its sessions goes through the allocator given at load. `align` is a power of two.
 * `alloc` returns NULL to say no. Both must be callable from any thread that uses the model. */
typedef struct td_allocator {
  void *user;
  void *(*alloc)(void *user, size_t bytes, size_t align);
  void (*free)(void *user, void *memory, size_t bytes);
} td_allocator;

/* ---- models ------------------------------------------------------------------------------------------------------ */

typedef struct td_model td_model;
typedef struct td_session td_session;

/* Declares inputs that the file format leaves undeclared. ONNX inputs with default values that are not named here
 * become constants; where none is named, those of a model that lists all of its weights as inputs. */
typedef struct td_input_spec {
  const char *name; /* of the graph's input; NULL: derived from its argument */
  const char *path; /* its place in the call: "argument 0[1]", "context['keys']". NULL: the argument called `name`,
                       else the next one; arguments that are lists or tuples take as many as they need */
  td_dtype dtype;
  int32_t rank;                     /* -1: not fixed */
  int64_t dims[TD_MAX_RANK];        /* -1: open */
  const char *symbols[TD_MAX_RANK]; /* the name of an open dimension: equal names are equal sizes. NULL: its own */
  int32_t
      is_complex; /* 1: complex numbers, whose parts (f32 or f64) lie along the last axis, of 2, as in all tensors */
} td_input_spec;

typedef struct td_load_options {
  size_t size;                   /* sizeof(td_load_options) */
  const char *backend;           /* "eager", "aot_eager", "interp", "native"; NULL: the default, native */
  const char *weights;           /* state_dict for a builtin: model (.pth, .safetensors), or NULL for seeded weights */
  const char *disabled_passes;   /* comma-separated names, or NULL */
  const td_allocator *allocator; /* copied; NULL: the C library's, large blocks on large pages */
  const char *format;            /* "onnx", ...; NULL: found from the bytes */
  uint64_t seed;                 /* of random weights of builtin: models */
  const char *isa;    /* widest instruction set for kernels: "scalar", "vector", "avx2", "avx512"; NULL: the CPU's */
  const char *math;   /* how sums may round: "exact", plain sums only; "default" or NULL, Winograd convolutions where
                         their errors stay small; "fast", Strassen products too: docs/performance.md */
  const char *tuning; /* kernel parameters that choose among forms with the same bits, "name=number,name=number", see
                         td_tuning_at; NULL: the known values for this CPU */
  const td_input_spec *inputs; /* `input_count` of them; copied. ONNX uses only their names (td_input_spec) */
  size_t input_count;
  const char *method;           /* the method of a TorchScript module to run; NULL: "forward" */
  const char *disabled_kernels; /* comma-separated names of kernels (td_step.kernel) whose steps run plain loops */
  const char *taps; /* comma-separated names of nodes whose results are appended to the outputs, under these names;
                       "*": all nodes. Nodes in branches and loops are excluded */
  /* Fused loops are compiled to machine code if both are given; else they are interpreted. */
  const char *cc;    /* path of a C compiler, gcc or clang */
  const char *cache; /* folder for compiled code, owned by this user alone, created if missing; processes may
                        share it */
  int32_t strict;    /* 1: a compiler failure is an error; 0: the loops it was to compile are interpreted */
  void (*warn)(void *user, const char *text); /* called at most once per model, on a compiler failure; may be NULL */
  void *warn_user;
  int32_t float64;    /* 1: all floating-point values, inputs and constants too, are f64: the arbiter of rounding, with
                         backend "eager" */
  const char *inject; /* a fault to inject, in builds with tests: docs/debugging.md */
  /* Receives graphs, loops, code and plan: append `bytes` to the file called `name`. Any result but TD_OK aborts the
   * load. Names are in docs/debugging.md; those of variants are prefixed by a folder. May be NULL. */
  td_status (*dump)(void *user, const char *name, const char *bytes, size_t count);
  void *dump_user;
  const char *edited; /* folder with loops.txt and generated code, as `dump` received them and the user edited them:
                         they replace what would be generated, and are trusted code. NULL: none */
  int32_t for_file;  /* 1: the model will be saved: machine code of fused loops is kept for the file, and `isa` may name
                          what this CPU lacks; such a model has no sessions */
  int32_t trusted;   /* 1: machine code in a saved plan is loaded: trust it as your own code. 0: it is only checked for
                          damage */
  const char *alone; /* comma-separated names of nodes that are not fused with others; "*": fuse nothing; NULL: fuse
                        what saves memory traffic. Names after "chain=" are nodes whose loops do not move into a
                        product. `treadle run --tune` finds which are faster unfused */
  int32_t tiered;    /* 1: fused loops are interpreted at first; a thread of the library compiles them, and the machine
                        code replaces them between runs; `warn` is called from that thread. Not with strict, dump,
                        edited or for_file, which need the code at once */
  uint32_t cc_limit_ms;   /* timeout of one compiler run in ms, after which it counts as failed; 0: 60000 */
  const char *specialise; /* sizes to compile plan variants for: "batch=1,8 seq=128" is each combination of these sizes
                             of the open dimensions batch and seq; ";" separates lists. A run whose sizes match uses
                             the first matching variant; others use the general plan. NULL: none */
  int32_t tapped_inputs;  /* 1: each consumer of a tensor in `taps`, or of an output, reads an extra input of that name,
                             appended to the model's inputs, so that each node runs on operands of the caller's choice.
                             Computed sizes, and tensors whose sizes depend on data, are left as they are */
  const char *precision;  /* of constant weights of matrix products: "bf16", "f16": stored in that type, and widened in
                             cache; "int8": for weights of 4 and 8 bits, quantise the other operand block by block;
                             "f32" or NULL: as the model has them. All else is f32: docs/quantization.md */
  size_t input_stride;    /* bytes from one of `inputs` to the next, sizeof(td_input_spec); 0: that of version 0.1 */
  /* Weights are copied to the memory of each NUMA node but the one that loads the model, and threads read those of
   * their own node. "here": the nodes of this machine that the process may use; else the nodes of a description, as
   * `treadle launch --machine` takes it, for tests. NULL: one copy. td_model_stats.node_bytes is what they cost. */
  const char *node_copies;
  const char *keep_f32; /* comma-separated names of nodes that `precision` leaves as they are; NULL: none. Errors:
                           TD_BAD_ARGUMENT where no node has a name */
  /* Inputs that become session state, each with the output that it is in the next run: "h0=hn,c0=cn", or with a `*` for
   * the same on both sides "past_key_values.*=present.*"; "auto": those called as decoders' caches are. They are inputs
   * and outputs no more, but td_model_state. A state begins with the input's default, else with zeros; open sizes then
   * are those behind the pairs, "auto batch=4 past=1024", else 1 where an input has them too, else 0: rows of what
   * grows with each run. Errors: TD_BAD_ARGUMENT names the input that does not fit its output. NULL: none */
  const char *state;
} td_load_options;

/* A number of td_load_options.tuning. Texts are owned by the library. */
typedef struct td_tuning {
  size_t size; /* sizeof(td_tuning), set by the caller */
  const char *name;
  const char *what;       /* a phrase that describes it */
  const char *candidates; /* the valid values, separated by blanks */
  int64_t value;          /* the known value for this CPU, or the default */
  uint32_t threads;       /* number of threads to measure it with: 2 if it decides when a second thread pays, else 1 */
} td_tuning;
/* Parameter `index`; 0: index is out of range, or no size is set. */
TD_API int32_t td_tuning_at(size_t index, td_tuning *tuning);

/* Maps and compiles the model at `path`, or `builtin:NAME`. Weights stay in the mapping. The file must not change while
 * the model lives. Thread-safe. Errors: TD_BAD_FILE with the byte offset, TD_UNSUPPORTED with every node that is. */
TD_API td_status td_model_load(const char *path, const td_load_options *options, td_model **model, td_error *err);

/* The same from memory, which must outlive the model and is not written to. External data files are refused. */
TD_API td_status td_model_load_memory(const void *bytes, size_t size, const td_load_options *options, td_model **model,
                                      td_error *err);

/* A named tensor in the caller's memory; strides count elements, as in td_session_set_input_strided, none negative. */
typedef struct td_named_tensor {
  const char *name;
  td_tensor tensor;
  int64_t strides[TD_MAX_RANK];
} td_named_tensor;

/* The program of a torch.export.ExportedProgram from memory, without an archive: `program` is the JSON document that
 * torch.export.save writes as models/model.json. Its parameters, buffers and constants are looked up by name
 * ("fc.weight") among `weights`, which are shared, not copied: program and elements must outlive the model and may not
 * change, the array of names may go. Buffers that the program writes begin with them and become state of each session.
 * Errors: TD_BAD_ARGUMENT where a weight is no tensor of numbers, and those of td_model_load. */
TD_API td_status td_model_load_graph(const void *program, size_t size, const td_named_tensor *weights, size_t count,
                                     const td_load_options *options, td_model **model, td_error *err);

/* Writes compiled models to a file at `path` (whole or not at all), which td_model_load opens as it opens others, in
 * milliseconds: plan and packed weights, which stay in the mapping, shared by all processes that have the file open.
 * `models`: `count` compilations of one model for different instruction sets (td_load_options.isa), of which the CPU
 * gets the best that it can run; weights that are packed alike are stored once. The file is for this version of the
 * library. Machine code of fused loops is in it where the models were loaded with td_load_options.for_file and a
 * compiler; td_model_load takes that with td_load_options.trusted alone, else finds or makes it as for other models.
 * Thread-safe.
 * Errors: TD_BAD_ARGUMENT where they are no variants of one model, TD_NO_RESOURCE where the file cannot be written. */
TD_API td_status td_model_save(const td_model *const *models, size_t count, const char *path, td_error *err);

/* Frees the model. Its sessions must be gone. NULL is allowed. */
TD_API void td_model_free(td_model *model);

TD_API size_t td_model_input_count(const td_model *model);
TD_API size_t td_model_output_count(const td_model *model);
/* Name, type and dimensions of input or output `index`; pointers in `info` live as long as the model. */
TD_API td_status td_model_input(const td_model *model, size_t index, td_value_info *info, td_error *err);
TD_API td_status td_model_output(const td_model *model, size_t index, td_value_info *info, td_error *err);

/* Session state: values that a model keeps from one run to the next, each session its own. */
TD_API size_t td_model_state_count(const td_model *model);
TD_API td_status td_model_state(const td_model *model, size_t index, td_value_info *info, td_error *err);

typedef struct td_model_stats {
  size_t size;            /* sizeof(td_model_stats), set by the caller */
  uint64_t weights_bytes; /* constants, mapped and owned */
  uint64_t copied_bytes;  /* of these, those that are copies in anonymous memory */
  uint32_t nodes;         /* of the compiled graph, nested blocks included */
  uint32_t steps;
  double load_ms;      /* map, read, verify */
  double compile_ms;   /* passes and plan */
  double gflop;        /* of one run at fixed shapes; 0 when shapes are open */
  const char *backend; /* the one in use; owned by the library */
  double gbyte;        /* read and written by one run at fixed shapes, each operand and result of a step once */
  uint32_t waiting;    /* fused loops whose code is still being made: td_load_options.tiered */
  uint32_t variants; /* plans for particular sizes: td_load_options.specialise. Their steps are counted in `steps`, and
                        come behind those of the general plan */
  uint64_t variant_bytes; /* of weights_bytes, what variants have beside those of the general plan */
  uint64_t node_bytes;    /* beside weights_bytes: copies on other memory nodes, td_load_options.node_copies */
  uint32_t memory_nodes;  /* nodes that these are for, the model's own included; 0: no copies were asked for */
} td_model_stats;
TD_API td_status td_model_get_stats(const td_model *model, td_model_stats *stats, td_error *err);

/* Prints the graph or plan: stage "imported", "passes" or "plan", format "text", "dot" or "json"; as text also "loops",
 * the fused loops, and "why", with the fusion decisions. The text of "passes" begins with a line "# pass NAME: N
 * changes" for each pass. `*text` is NUL-terminated, belongs to the caller, and is
 * released with td_text_free. */
TD_API td_status td_model_print(const td_model *model, const char *stage, const char *format, char **text,
                                td_error *err);
TD_API void td_text_free(const td_model *model, char *text);

/* Receives `count` bytes; any result but TD_OK stops the writing and is returned. */
typedef td_status (*td_write_fn)(void *user, const char *bytes, size_t count);

/* A part of a graph: which nodes stay, and how sizes and types change. A value that a kept node reads and a removed
 * node computed becomes an input of the same name (a constant if it is known now); results that lose all consumers
 * become outputs. Names are those of td_load_options.taps. */
typedef struct td_cut {
  size_t size;                 /* sizeof(td_cut) */
  uint8_t *keep;               /* per node of the graph's own block, in order: 0 removes it. On return: what was kept,
                                  with nodes whose lists and texts are read. NULL: keep all */
  size_t keep_count;           /* length of `keep`; must be the number of nodes */
  const char *output;          /* keep this output and the nodes it needs; NULL: all */
  size_t node_count;           /* set: the number of nodes the graph had */
  const td_value_info *inputs; /* new types of inputs, by name: dtype, rank and dims are used */
  size_t input_count;
  int32_t free_constants;        /* 1: constants over 64 bytes become inputs with these defaults; -1: the reverse */
  int64_t size_from, size_to;    /* if size_from is not 0: dimensions of this size, of inputs and constants, are cut to
                                    the smaller size_to */
  td_dtype dtype_from, dtype_to; /* if not 0: inputs, constants and attributes change from this type to that */
  size_t input_stride;           /* bytes from one of `inputs` to the next; 0: sizeof(td_value_info) of version 0.1 */
} td_cut;

/* Writes the graph of stage "imported" or "passes" as text that td_model_load reads ("tdir"; a description is in
 * docs/debugging.md) to `text`, and the elements of its constants to `bytes`, which must become a file called `weights`
 * in the same folder. `cut` may be NULL; it is for the imported graph alone, whose session state becomes inputs with
 * defaults, and outputs. Errors: TD_BAD_ARGUMENT, also where nothing is left of the graph; TD_UNSUPPORTED where state
 * is no tensor. */
TD_API td_status td_model_save_graph(const td_model *model, const char *stage, td_cut *cut, const char *weights,
                                     td_write_fn text, td_write_fn bytes, void *user, td_error *err);

/* ---- sessions ---------------------------------------------------------------------------------------------------- */

/* Compute threads. The thread that calls td_session_run takes part; the others wait for it, each pinned to its own
 * CPU. They spin while an inference runs and for a short time after it, then sleep. Outputs are the same, bit by bit,
 * on any number of threads. */
typedef struct td_pool td_pool;

typedef struct td_pool_options {
  size_t size;                   /* sizeof(td_pool_options) */
  uint32_t threads;              /* the caller's included; 0: what affinity and cgroup quota allow */
  uint32_t spin_us;              /* microseconds of spinning after a run; 0: 100 */
  const td_allocator *allocator; /* copied; NULL: the C library's */
  uint32_t interop_threads;      /* that run what a model forks (prim::fork), the caller's included; 0: as `threads` */
  /* Which CPUs the threads are kept on: "0-3,8" by the system's numbers, "cores 0-3", "node 1" or "socket 0"; of these
   * one hardware thread of each core, or with `smt` 1 all. NULL: what affinity allows, whole cores first. */
  const char *cpus;
  int32_t smt;
  const char *name; /* of its threads, for debuggers: "NAME/1"; NULL: "treadle" */
} td_pool_options;

/* The owner of as many cores as it has threads, the one that a caller brings included. Sessions that run at a time
 * share them by their weights: each has its caller's thread, and so many others that together they are never more than
 * the pool's, unless there are more callers. A session that is not running has none. Affinity and cgroup quota of the
 * process are looked at again every second while threads wait; with part of a CPU as quota no thread is kept on one.
 * Threads that the system refuses to start are done without. Errors: TD_BAD_ARGUMENT for CPUs that are not there or not
 * allowed. */
TD_API td_status td_pool_new(const td_pool_options *options, td_pool **pool, td_error *err);
/* Ends the threads. The sessions that use the pool must be gone. NULL is allowed. */
TD_API void td_pool_free(td_pool *pool);
/* Which CPUs td_pool_options.cpus and smt mean on this machine, by the system's numbers: the first `room` of them to
 * `found` (may be NULL with 0), in *count how many there are. The machine is asked at each call. Thread-safe. Errors:
 * TD_BAD_ARGUMENT for those that are not there, or that the affinity of this thread does not allow. */
TD_API td_status td_find_cpus(const char *cpus, int32_t smt, uint32_t *found, size_t room, size_t *count,
                              td_error *err);

typedef struct td_session_options {
  size_t size; /* sizeof(td_session_options) */
  /* Of its own, at most; eager and aot_eager compute on the caller's. 0, as the next and interop_threads: those that
   * all such sessions of the model share as they would a td_pool, as many as affinity and cgroup quota allow. */
  uint32_t threads;
  uint32_t spin_us; /* as in td_pool_options */
  td_pool *pool;    /* threads to share with other sessions, also of other models, instead of own ones: then `threads`
                     * is the most that it takes of them, 0 being all, and the other two say nothing */
  uint32_t interop_threads; /* as in td_pool_options */
  /* Is given what a TorchScript model prints, line by line as PyTorch would write it, while it runs: from the caller's
   * thread, or that of a forked task. `text` has `length` bytes. NULL: it is not even made. */
  void (*print)(void *user, const char *text, size_t length);
  void *print_user;
  uint32_t weight; /* of its share, while several sessions that share a pool run; 0: 1 */
} td_session_options;

TD_API td_status td_session_new(const td_model *model, const td_session_options *options, td_session **session,
                                td_error *err);
TD_API void td_session_free(td_session *session);

/* Index of the input or output called `name`; TD_BAD_ARGUMENT lists the names there are. */
TD_API td_status td_model_find_input(const td_model *model, const char *name, size_t *index, td_error *err);
TD_API td_status td_model_find_output(const td_model *model, const char *name, size_t *index, td_error *err);
TD_API td_status td_model_find_state(const td_model *model, const char *name, size_t *index, td_error *err);

/* Binds an input without copying: `tensor->data` must stay valid and unchanged until the run returns, and may have any
 * alignment. Rank, dtype and fixed dimensions are checked here; open dimensions are bound by it.
 * TD_STRING data is an array of td_string. */
TD_API td_status td_session_set_input(td_session *session, size_t index, const td_tensor *tensor, td_error *err);

/* The same for elements that do not stand in row-major order: `strides` counts elements from one to the next along each
 * of tensor->rank dimensions, and may be 0 or negative. A tensor that is dense all the same is borrowed as above;
 * others are copied into the session at every run. Types of less than a byte must be dense. */
TD_API td_status td_session_set_input_strided(td_session *session, size_t index, const td_tensor *tensor,
                                              const int64_t *strides, td_error *err);

/* Unbinds an input: its default is used again, if it has one. */
TD_API td_status td_session_clear_input(td_session *session, size_t index, td_error *err);

typedef struct td_string {
  const char *at;
  size_t length; /* bytes; no NUL needed */
} td_string;

/* Binds a sequence input (kind "list"): `count` tensors. An optional input takes a tensor, or this with NULL for none.
 */
TD_API td_status td_session_set_input_list(td_session *session, size_t index, const td_tensor *items, size_t count,
                                           td_error *err);

/* Computes every output. Allocates nothing once a shape has been seen. An input without a binding is an error unless
 * the model has a default for it. */
TD_API td_status td_session_run(td_session *session, td_error *err);

/* Has output `index` written to the caller's memory from the next run on: `tensor` says its dtype, its dimensions and
 * where (copied; NULL: to the session's own memory again). Steps write straight into it where they can; otherwise the
 * output is copied there at the end of a run, as it is where the memory overlaps an input's: an output may replace an
 * input. A cache of keys and values (GroupQueryAttention) that is bound to just the memory of its past is not copied:
 * new rows are written behind those in use, and stay there after a failed run. The memory must stay valid until it is
 * given up, and its contents are undefined after a failed run. Dtype, rank and fixed dimensions are checked here, open
 * ones at a run; TD_BAD_ARGUMENT names the output. The outputs of the last run are gone. Allocates nothing. Lists and
 * strings cannot be bound. */
TD_API td_status td_session_bind_output(td_session *session, size_t index, const td_tensor *tensor, td_error *err);

/* What output `index` will be for the inputs that are set: dtype and dimensions, `data` NULL. TD_ANSWER_NO, with `err`
 * not filled: only a run can tell (a size depends on data, or it is a list). The outputs of the last run are gone. */
TD_API td_status td_session_predict_output(td_session *session, size_t index, td_tensor *tensor, td_error *err);

/* Borrows an output of the last run: valid until the next run or td_session_free; of one that is bound, the
 * caller's memory. A list output says so in td_model_output; its items are read with td_session_output_item. */
TD_API td_status td_session_output(td_session *session, size_t index, td_tensor *tensor, td_error *err);
TD_API td_status td_session_output_count(td_session *session, size_t index, size_t *count, td_error *err);
TD_API td_status td_session_output_item(td_session *session, size_t index, size_t item, td_tensor *tensor,
                                        td_error *err);

/* Resets all state to its value before the first run. A failed run changes no state; nor does a failed reset. But for a
 * cache of keys and values (GroupQueryAttention) whose size stays: that is written in place, and rows behind those in
 * use may be the failed run's. */
TD_API td_status td_session_reset(td_session *session, td_error *err);
/* Borrows the value of a state: valid until the next run, reset or td_session_set_state. Refused where it is a list. */
TD_API td_status td_session_state(td_session *session, size_t index, td_tensor *tensor, td_error *err);
/* Sets a state; the value is copied. Rank, dtype and fixed dimensions are checked. */
TD_API td_status td_session_set_state(td_session *session, size_t index, const td_tensor *tensor, td_error *err);

typedef struct td_session_stats {
  size_t size;          /* sizeof(td_session_stats), set by the caller */
  uint64_t arena_bytes; /* planned for the shapes bound last */
  uint64_t arena_lower; /* lower bound: the most bytes that live at one step */
  uint64_t tail_bytes;  /* most that data-dependent values and scratch took */
  uint64_t runs;
  uint32_t threads;      /* most that compute a step; before the first run: that there are for it */
  uint64_t state_bytes;  /* of memory that session state has */
  uint64_t state_copied; /* of session state that the last run copied after its steps: 0 where they wrote it in place */
} td_session_stats;
TD_API td_status td_session_get_stats(const td_session *session, td_session_stats *stats, td_error *err);

/* ---- the steps of a run ------------------------------------------------------------------------------------------ */

/* Called before and after every step of a run, on the thread that called td_session_run. `ns`: duration. Steps of a
 * loop are reported once per iteration. Steps that run on a few samples of a batch at a time begin together, before
 * the first part, and end together, after the last; the time of each is the sum over its parts, divided by the number
 * of threads that run parts concurrently: the times of a run add up. After a failure some `end` may be missing.
 * Each function may be NULL. */
typedef struct td_observer {
  size_t size; /* sizeof(td_observer) */
  void *user;
  void (*begin)(void *user, uint32_t step);
  void (*end)(void *user, uint32_t step, uint64_t ns);
  /* Called after each thread's part of a step, on that thread; thread 0 called td_session_run. Nanoseconds of the
   * system's monotonic clock. Parts of one thread are in order and do not overlap. */
  void (*part)(void *user, uint32_t thread, uint32_t step, uint64_t begin_ns, uint64_t end_ns);
  /* Called after a whole run, failed or not, on the caller's thread. */
  void (*run)(void *user, uint64_t begin_ns, uint64_t end_ns);
  /* Called before each thread's part of a step, on that thread. */
  void (*enter)(void *user, uint32_t thread, uint32_t step);
} td_observer;
/* Takes effect with the next run; copied. NULL: no observer, the default. */
TD_API td_status td_session_observe(td_session *session, const td_observer *observer, td_error *err);

/* A step, and the work of one execution with the shapes of the last run. */
typedef struct td_step {
  size_t size;         /* sizeof(td_step), set by the caller */
  const char *name;    /* the user's layer it came from: "node /conv1 (Conv)". Texts are owned by the model */
  const char *op;      /* "aten::convolution"; "" for steps that only move data or control */
  const char *kernel;  /* the function that computes it */
  double flops;        /* additions and multiplications, each one */
  double const_bytes;  /* read from constants */
  double read_bytes;   /* read from other operands, each once */
  double write_bytes;  /* of results */
  size_t origins;      /* number of nodes of the user's model in it: td_session_step_origin */
  const char *variant; /* the sizes of its plan variant, "batch=8 seq=128"; "": the general plan */
  td_dtype multiplied; /* type of the numbers that its products multiply: TD_F32, TD_BF16 or TD_I8 */
} td_step;
/* Step `index` of td_model_stats.steps. The figures are 0 while shapes are unknown: the session has not run yet, or its
 * last run used another variant. */
TD_API td_status td_session_get_step(const td_session *session, size_t index, td_step *step, td_error *err);
/* Node `origin` of td_step.origins of step `index`, named as in td_step.name. NULL: out of range. */
TD_API const char *td_session_step_origin(const td_session *session, size_t index, size_t origin);

/* ---- what the machine can do ------------------------------------------------------------------------------------- */

/* Memory levels. One that the system does not report, or that is no larger than the one before, is left out. */
typedef enum td_memory_level { TD_L1, TD_L2, TD_L3, TD_DRAM } td_memory_level;

/* Arithmetic of `threads` threads together, on elements of `dtype`: TD_F32, TD_BF16 or TD_I8, where the level has
 * instructions for products of it. A multiply-add counts as two operations. */
typedef struct td_peak {
  char isa[16]; /* "scalar", "avx2", ...; see td_load_options */
  td_dtype dtype;
  uint32_t threads;
  double per_second;
} td_peak;

/* Bandwidth of `threads` threads together, each on its own memory in `level`. */
typedef struct td_bandwidth {
  td_memory_level level;
  uint32_t threads;
  uint64_t bytes;    /* of the level, for each thread */
  double read, copy; /* bytes per second; a copied byte counts twice, read and written */
} td_bandwidth;

enum { TD_ROOFLINE_ROWS = 160 };
typedef struct td_roofline {
  size_t size; /* sizeof(td_roofline), set by the caller */
  char cpu[64];
  uint32_t peak_count, bandwidth_count;
  td_peak peaks[TD_ROOFLINE_ROWS];           /* by ISA, by type, then by threads */
  td_bandwidth bandwidths[TD_ROOFLINE_ROWS]; /* by level, then by threads */
} td_roofline;

typedef struct td_roofline_options {
  size_t size;      /* sizeof(td_roofline_options) */
  uint32_t threads; /* at most; 0: what affinity and cgroup quota allow. Measured are 1, 2, 4, ... and the most */
  double seconds;   /* about how long; 0: 2 */
} td_roofline_options;

/* Measures short bursts on its own pinned threads and keeps the best. Other work on the machine makes the figures too
 * small, never too large. */
TD_API td_status td_roofline_measure(const td_roofline_options *options, td_roofline *roofline, td_error *err);

/* The roofline of one level of instruction sets and one number of threads. */
typedef struct td_limits {
  double peak, peak_bf16, peak_i8;              /* operations per second, of products of f32, bf16 and i8 */
  double read[TD_DRAM + 1], write[TD_DRAM + 1]; /* bytes per second; 0: there is no such level */
  double capacity[TD_DRAM + 1];                 /* bytes of all threads' share of the level */
} td_limits;
/* For a number of threads that was not measured, the next lower one is used. `isa` NULL: the widest. */
TD_API td_limits td_limits_of(const td_roofline *roofline, const char *isa, uint32_t threads);

/* Work, and the sizes that decide which memory level its data is in. */
typedef struct td_work {
  double flops;
  double const_bytes;   /* read from constants */
  double read, written; /* bytes of activations */
  double footprint;     /* bytes of the whole model: constants and arena */
  td_dtype multiplied;  /* td_step.multiplied; what is none of those is f32 */
} td_work;
/* Least time of the work in ms by the roofline model (Williams, Waterman, Patterson 2009): arithmetic and memory
 * overlap, so the longer of the two. Each level holds as much of the activations as fits; of the constants, the share
 * of the whole model that fits, since the whole model passes through the caches between two uses of one. */
TD_API double td_limit_ms(const td_limits *limits, const td_work *work);
/* 1: work that took `ms` is faster than its limit allows, so the limits are wrong. Not for Winograd or Strassen. */
TD_API int32_t td_beats_limit(const td_limits *limits, const td_work *work, double ms);

/* ---- profiles ---------------------------------------------------------------------------------------------------- */

/* Records the time of every step on every thread of a session's runs. During a run recording takes no lock and no
 * memory; without a profile it costs a branch. */
typedef struct td_profile td_profile;

typedef struct td_profile_options {
  size_t size;      /* sizeof(td_profile_options) */
  uint32_t records; /* parts of steps kept per thread for traces, the newest; 0: 65536 */
  /* A schedule, in runs. After `skip` runs come cycles: `wait` runs are not watched, `warmup` runs are watched and
   * discarded, `active` runs are recorded and added to those of earlier cycles. It ends after `repeat` cycles; 0:
   * never. With `active` 0 every run after `skip` is recorded. */
  uint32_t skip, wait, warmup, active, repeat;
  const td_roofline *roofline; /* copied: the source of steps' limits; NULL: the profile has no limits */
  const char *isa;             /* of the limits, as in td_load_options; NULL: the widest */
} td_profile_options;

/* Watches `session` from its next run on, replacing its observer. The session must outlive the profile, and must not be
 * running while a function of the profile is called. Errors: TD_NO_RESOURCE. */
TD_API td_status td_profile_new(td_session *session, const td_profile_options *options, td_profile **profile,
                                td_error *err);
TD_API void td_profile_free(td_profile *profile); /* NULL is allowed */
/* Discards all records; the schedule starts again. */
TD_API td_status td_profile_clear(td_profile *profile, td_error *err);

typedef struct td_profile_totals {
  size_t size;         /* sizeof(td_profile_totals), set by the caller */
  uint64_t runs;       /* that were recorded */
  uint32_t threads;    /* that took part in one of them */
  uint64_t records;    /* parts of steps that happened */
  uint64_t lost;       /* of these, overwritten by newer ones: a trace does not show them */
  double run_ms;       /* of all runs together, on the caller's clock */
  double step_ms;      /* of this, in steps; the rest is the way between steps, and interruptions */
  double busy_ms;      /* of all threads together, computing parts of steps */
  double flops, bytes; /* of all runs */
  double limit_ms;     /* of all steps of all runs; 0: no roofline was given */
  /* run_ms = self_ms + wait_ms + between_ms. */
  double self_ms;    /* the caller's thread computing */
  double wait_ms;    /* the caller's thread waiting, at the ends of steps, for threads that still compute */
  double between_ms; /* the walk of the plan, hand-overs, interruptions */
  /* threads * run_ms = busy_ms + single_ms + late_ms + early_ms + threads * between_ms, nearly. */
  double single_ms; /* other threads while the caller's alone has work */
  double late_ms;   /* threads that join a shared step late, or not at all: wake-ups */
  double early_ms;  /* threads that finish a step before others: imbalance */
} td_profile_totals;
TD_API td_status td_profile_get_totals(const td_profile *profile, td_profile_totals *totals, td_error *err);

/* Totals of one step over all runs, on the caller's clock, except for tasks that other threads run. */
typedef struct td_profile_step {
  size_t size;       /* sizeof(td_profile_step), set by the caller */
  uint64_t calls;    /* executions, those in tasks on other threads too */
  uint64_t ns;       /* from its begin to its end, of all of them */
  uint64_t self_ns;  /* of this, the caller's thread computing; in the rest it waited for others */
  uint64_t busy_ns;  /* of all threads computing */
  uint64_t least_ns; /* all its executions in one run: the minimum over the runs */
  double spread_ns;  /* the standard deviation over the runs */
} td_profile_step;
/* Step `index` of td_model_stats.steps. */
TD_API td_status td_profile_get_step(const td_profile *profile, size_t index, td_profile_step *step, td_error *err);

/* How a profile is written. */
typedef struct td_profile_view {
  size_t size;       /* sizeof(td_profile_view) */
  const char *form;  /* "table", "csv", "json", "trace" (Chrome and Perfetto), "stacks" (flame graphs), "html" */
  const char *group; /* what a row of table, csv and json stands for: "node" (default: a step with all nodes that it
                        stands for), "op", "kernel", "class" (of work), and "origin" and "module", where the time of a
                        step is dealt out among its nodes */
  const char *sort;  /* "time" (default), "mean", "calls", "flops", "bytes", "limit" (what is lost against it),
                        "memory", "order" (as the plan runs) */
  uint32_t limit;    /* most rows of a table; 0: all */
  uint32_t depth;    /* of modules' paths, in parts; 0: whole */
  /* Of a table, separated by commas: self, total, share, calls, mean, flop, bytes, gflops, gbs, limit, reach (per cent
   * of the limit), busy (threads computing), memory (of the arena, in use meanwhile), steps, op, kernel; "all"; NULL:
   * the usual ones. CSV and JSON have all figures. */
  const char *columns;
} td_profile_view;
TD_API td_status td_profile_write(const td_profile *profile, const td_profile_view *view, td_write_fn write, void *user,
                                  td_error *err);

#ifdef __cplusplus
}
#endif
#endif
