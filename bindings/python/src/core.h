/* core.h -- treadle._core: the C part of the Python package.
 *
 * Built against the limited API of CPython 3.9, so that one wheel serves all later versions. The buffer protocol joined
 * that API with 3.11 only; its struct has had one layout since 3.3 and its functions are exported by every version, so
 * they are declared here where the headers hide them. */
#ifndef BINDINGS_PYTHON_CORE_H
#define BINDINGS_PYTHON_CORE_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <sys/types.h>
#include <treadle/treadle.h>

#if defined(Py_LIMITED_API) && Py_LIMITED_API + 0 < 0x030B0000
typedef struct {
  void *buf;
  PyObject *obj;
  Py_ssize_t len, itemsize;
  int readonly, ndim;
  char *format;
  Py_ssize_t *shape, *strides, *suboffsets;
  void *internal;
} Py_buffer;
int PyObject_CheckBuffer(PyObject *object);
int PyObject_GetBuffer(PyObject *object, Py_buffer *view, int flags);
void PyBuffer_Release(Py_buffer *view);
#define PyBUF_WRITABLE 0x0001
#define PyBUF_FORMAT 0x0004
#define PyBUF_ND 0x0008
#define PyBUF_STRIDES (0x0010 | PyBUF_ND)
#define Py_bf_getbuffer 1
#define Py_bf_releasebuffer 2
#endif

/* ---- errors (core.c) ---- */

bool core_find_errors(void); /* first of all; false: an exception is set */
/* Raises the exception of err->code; returns NULL. */
PyObject *core_raise(const td_error *err);
/* Raises treadle.BadArgument; returns NULL. */
PyObject *core_refuse(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- views of memory (view.c) ---- */

/* Elements in memory that somebody keeps alive until core_view_release. */
typedef struct core_view {
  td_tensor tensor;
  int64_t strides[TD_MAX_RANK]; /* in elements */
  bool readonly;
  bool has_buffer;
  Py_buffer buffer;
  PyObject *owner; /* or NULL */
} core_view;

/* The elements of `object`: an Array, or whatever has the buffer protocol, DLPack, or __array_interface__. False: an
 * exception is set, which speaks of `name`. */
bool core_view_of(PyObject *object, const char *name, bool writable, core_view *view);
void core_view_release(core_view *view);
bool core_view_dense(const core_view *view);
int64_t core_view_count(const core_view *view); /* elements; a view's sizes were checked when it was made */
size_t core_dtype_bytes(td_dtype dtype);        /* 0: not of whole bytes, or strings */
void core_dense_strides(int32_t rank, const int64_t *dims, int64_t *strides);

/* ---- DLPack (dlpack.c) ---- */

bool core_dlpack_view(PyObject *object, const char *name, bool writable, core_view *view);
PyObject *core_dlpack_export(PyObject *array, const core_view *view, bool versioned); /* a capsule */

/* Functions that a type of tensors has for C (its __dlpack_c_exchange_api__): no object of Python in between. */
typedef struct core_exchange core_exchange;
/* NULL: the capsule holds no version that is known here; no exception. */
const core_exchange *core_exchange_of(PyObject *capsule);
/* The elements of `tensor`, which stays the caller's and must outlive the view. */
bool core_exchange_view(const core_exchange *e, PyObject *tensor, const char *name, core_view *view);
/* Where they begin; NULL: an exception is set, or there are none. */
const void *core_exchange_data(const core_exchange *e, PyObject *tensor);
/* A tensor of the type and sizes of `like`, and where its elements are. NULL: out of memory; no exception. Python's
 * lock need not be held. Given back by core_exchange_free, or made an object, which takes it over. */
void *core_exchange_new(const core_exchange *e, const td_tensor *like, void **data);
void core_exchange_free(void *tensor);
PyObject *core_exchange_object(const core_exchange *e, void *tensor);

/* ---- types ---- */

typedef struct core_array {
  PyObject_HEAD;
  core_view view;
  void *memory; /* own, from malloc; NULL: the view's owner has it */
} core_array;
extern PyTypeObject *core_array_type;
/* An Array that takes over `memory` (aligned_alloc's); `memory` is freed on failure too. */
PyObject *core_array_new(const td_tensor *tensor, void *memory);
PyTypeObject *core_make_array_type(void);
PyObject *core_view_address(PyObject *module,
                            PyObject *args); /* view(address, dtype, shape, strides, owner, readonly) */

PyObject *core_zeros(PyObject *module, PyObject *args); /* zeros(dtype, shape) */

typedef struct core_model {
  PyObject_HEAD;
  td_model *model;
  core_view source; /* bytes that the model lies in */
  PyObject *keep;   /* what else must outlive the model, or NULL */
  pid_t process;    /* whose threads it may have: in a child of fork there are none to end */
} core_model;
extern PyTypeObject *core_model_type;
PyTypeObject *core_make_model_type(void);
/* An object that owns `model` and a reference to `keep` (NULL: to nothing); NULL: `model` is the caller's still. */
PyObject *core_model_new(td_model *model, PyObject *keep);
/* Gives what the library warns of to Python's warnings. Needs no lock of the interpreter. */
void core_warn(void *user, const char *text);
/* Of td_load_options: `user` is a callable of a name and bytes. Needs no lock of the interpreter. */
td_status core_dump(void *user, const char *name, const char *bytes, size_t count);
void core_take_dump(PyObject *dump, td_load_options *options); /* None: nobody is told */
/* Keywords as options, by the names of treadle/options.def; "inputs", where it may be one, is the caller's to read.
 * Texts are the keywords' own. False: an exception is set. */
bool core_read_options(PyObject *keywords, td_load_options *options, PyObject **inputs);
PyObject *core_option_kinds(void); /* {name: "text", "flag" or "number"} */
PyObject *core_save(PyObject *module, PyObject *args);
PyObject *core_load_graph(PyObject *module, PyObject *args, PyObject *keywords); /* graph.c */
PyObject *core_type_of(PyObject *module, PyObject *object);
PyObject *core_load(PyObject *module, PyObject *args, PyObject *keywords);

extern PyTypeObject *core_pool_type, *core_session_type;
PyTypeObject *core_make_pool_type(void);
PyObject *core_find_cpus(PyObject *module, PyObject *args);
PyTypeObject *core_make_session_type(void);
PyTypeObject *core_make_profile_type(void);   /* profile.c */
PyTypeObject *core_make_collector_type(void); /* collector.c */
PyTypeObject *core_make_bound_type(void);     /* bound.c */
PyTypeObject *core_make_streams_type(void);   /* streams.c */
td_pool *core_pool_of(PyObject *pool);
const td_model *core_session_model(PyObject *session);
/* A session's handle, which nobody else uses until core_session_give. NULL: an exception is set. */
td_session *core_session_take(PyObject *session);
void core_session_give(PyObject *session);
void core_session_profiled(PyObject *session, bool is); /* a Profile observes it */

/* ---- searches for faults (debug.c) ---- */

PyObject *core_compare(PyObject *module, PyObject *args);
PyObject *core_bisect(PyObject *module, PyObject *args);
PyObject *core_minify(PyObject *module, PyObject *args);
PyObject *core_cut_value(PyObject *module, PyObject *args);
PyObject *core_save_graph(PyObject *self, PyObject *args); /* of Model */
PyObject *core_capabilities(PyObject *module, PyObject *unused);

/* ---- small helpers (core.c) ---- */

PyTypeObject *core_type(PyType_Spec *spec);
void core_free_object(PyObject *self);    /* the object's memory and its reference to its type */
td_dtype core_dtype_of(const char *name); /* TD_INVALID: there is none */
/* A tuple of `count` ints. */
PyObject *core_tuple_of(const int64_t *values, int32_t count);
/* Bytes that the library writes by pieces; `at`, which may be NULL, is the caller's to free. */
typedef struct core_bytes {
  char *at;
  size_t length, cap;
} core_bytes;
td_status core_add_bytes(void *bytes, const char *piece, size_t count);
#endif
