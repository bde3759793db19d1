/* dlpack.c -- tensors in and out through DLPack: capsules around a struct that says where the elements are, and who is
 * to be told when nobody needs them any more. Structs as the specification (version 1) lays them out. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

typedef struct dl_tensor {
  void *data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides; /* in elements; strides NULL: dense */
  uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
  dl_tensor tensor;
  void *context;
  void (*deleter)(struct dl_managed *self);
} dl_managed;

typedef struct dl_versioned {
  uint32_t major, minor;
  void *context;
  void (*deleter)(struct dl_versioned *self);
  uint64_t flags;
  dl_tensor tensor;
} dl_versioned;

enum { DL_CPU = 1, DL_READ_ONLY = 1 };

static const struct {
  td_dtype dtype;
  uint8_t code, bits;
} types[] = {{TD_F32, 2, 32},        {TD_F64, 2, 64},      {TD_F16, 2, 16},        {TD_BF16, 4, 16},
             {TD_I64, 0, 64},        {TD_I32, 0, 32},      {TD_I16, 0, 16},        {TD_I8, 0, 8},
             {TD_U64, 1, 64},        {TD_U32, 1, 32},      {TD_U16, 1, 16},        {TD_U8, 1, 8},
             {TD_BOOL, 6, 8},        {TD_F8E4M3FN, 10, 8}, {TD_F8E4M3FNUZ, 11, 8}, {TD_F8E5M2, 12, 8},
             {TD_F8E5M2FNUZ, 13, 8}, {TD_F8E8M0, 14, 8}};
enum { TYPES = sizeof types / sizeof *types };

/* ---- in ---- */

static bool read_tensor(const dl_tensor *from, const char *name, core_view *view) {
  td_tensor *t = &view->tensor;
  for (int i = 0; i < TYPES; i++)
    if (types[i].code == from->code && types[i].bits == from->bits && from->lanes == 1) t->dtype = types[i].dtype;
  if (from->device_type != DL_CPU) {
    core_refuse(name, "%s: the memory is not the CPU's (DLPack device %d)", name, from->device_type);
    return false;
  }
  if (t->dtype == TD_INVALID || from->ndim < 0 || from->ndim > TD_MAX_RANK) {
    core_refuse(name, "%s: a tensor of DLPack type %d, %d bits and %d dimensions is not supported", name, from->code,
                from->bits, from->ndim);
    return false;
  }
  t->rank = from->ndim;
  t->data = from->data ? (char *)from->data + from->byte_offset : NULL;
  for (int32_t i = 0; i < t->rank; i++) t->dims[i] = from->shape[i];
  core_dense_strides(t->rank, t->dims, view->strides);
  for (int32_t i = 0; from->strides && i < t->rank; i++) view->strides[i] = from->strides[i];
  return true;
}

/* The capsule stays as it came, and with it the duty to delete: it owns the tensor until it goes itself. */
bool core_dlpack_view(PyObject *object, const char *name, bool writable, core_view *view) {
  PyObject *capsule = PyObject_CallMethod(object, "__dlpack__", NULL);
  if (!capsule) return false;
  view->owner = capsule;
  if (PyCapsule_IsValid(capsule, "dltensor")) {
    const dl_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
    return read_tensor(&managed->tensor, name, view);
  }
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    const dl_versioned *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    view->readonly = writable && managed->flags & DL_READ_ONLY;
    if (managed->major == 1) return read_tensor(&managed->tensor, name, view);
  }
  core_refuse(name, "%s: __dlpack__ gave no DLPack tensor of a known version", name);
  return false;
}

/* ---- out ---- */

typedef struct exported {
  union {
    dl_managed old;
    dl_versioned versioned;
  } as;
  PyObject *array;
  int64_t shape[TD_MAX_RANK], strides[TD_MAX_RANK];
} exported;

/* Called by whoever took the tensor, on any thread. */
static void let_go(exported *e) {
  if (Py_IsInitialized()) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(e->array);
    PyGILState_Release(state);
  }
  free(e);
}
static void delete_old(dl_managed *self) { let_go(self->context); }
static void delete_versioned(dl_versioned *self) { let_go(self->context); }

/* A capsule that nobody took: its name says so. */
static void capsule_gone(PyObject *capsule) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (PyCapsule_IsValid(capsule, "dltensor"))
    let_go(((dl_managed *)PyCapsule_GetPointer(capsule, "dltensor"))->context);
  else if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
    let_go(((dl_versioned *)PyCapsule_GetPointer(capsule, "dltensor_versioned"))->context);
  PyErr_Restore(type, value, trace);
}

/* False: DLPack has no such elements. */
static bool fill_type(td_dtype dtype, dl_tensor *to) {
  int row = 0;
  while (row < TYPES && types[row].dtype != dtype) row++;
  if (row == TYPES) return false;
  to->code = types[row].code;
  to->bits = types[row].bits;
  to->lanes = 1;
  return true;
}

static bool fill_tensor(exported *e, const core_view *view, dl_tensor *to) {
  const td_tensor *t = &view->tensor;
  memcpy(e->shape, t->dims, sizeof e->shape);
  memcpy(e->strides, view->strides, sizeof e->strides);
  *to = (dl_tensor){.data = t->data, .device_type = DL_CPU, .ndim = t->rank, .shape = e->shape, .strides = e->strides};
  if (fill_type(t->dtype, to)) return true;
  PyErr_Format(PyExc_BufferError, "DLPack has no elements of type %s", td_dtype_name(t->dtype));
  return false;
}

PyObject *core_dlpack_export(PyObject *array, const core_view *view, bool versioned) {
  exported *e = calloc(1, sizeof *e);
  if (!e) return PyErr_NoMemory();
  if (!fill_tensor(e, view, versioned ? &e->as.versioned.tensor : &e->as.old.tensor)) {
    free(e);
    return NULL;
  }
  if (versioned) {
    e->as.versioned.major = 1;
    e->as.versioned.context = e;
    e->as.versioned.deleter = delete_versioned;
    e->as.versioned.flags = view->readonly ? DL_READ_ONLY : 0;
  } else {
    e->as.old.context = e;
    e->as.old.deleter = delete_old;
  }
  PyObject *capsule = PyCapsule_New(&e->as, versioned ? "dltensor_versioned" : "dltensor", capsule_gone);
  if (!capsule) {
    free(e);
    return NULL;
  }
  Py_INCREF(array);
  e->array = array;
  return capsule;
}

/* ---- tensors for C alone ---- */

typedef void (*set_error)(void *context, const char *kind, const char *message);

struct core_exchange {
  uint32_t major, minor;
  const core_exchange *previous; /* of an older major version, or NULL */
  int (*allocate)(dl_tensor *like, dl_versioned **tensor, void *context, set_error error);
  int (*from_object)(void *object, dl_versioned **tensor);
  int (*to_object)(dl_versioned *tensor, void **object);
  int (*show_object)(void *object, dl_tensor *tensor); /* may be NULL */
};

const core_exchange *core_exchange_of(PyObject *capsule) {
  static const char name[] = "dlpack_exchange_api";
  const core_exchange *e = PyCapsule_IsValid(capsule, name) ? PyCapsule_GetPointer(capsule, name) : NULL;
  while (e && e->major > 1) e = e->previous;
  return e && e->major == 1 && e->show_object ? e : NULL;
}

bool core_exchange_view(const core_exchange *e, PyObject *tensor, const char *name, core_view *view) {
  dl_tensor shown;
  *view = (core_view){0};
  return e->show_object(tensor, &shown) == 0 && read_tensor(&shown, name, view);
}

const void *core_exchange_data(const core_exchange *e, PyObject *tensor) {
  dl_tensor shown;
  if (e->show_object(tensor, &shown) != 0 || !shown.data) return NULL;
  return (const char *)shown.data + shown.byte_offset;
}

/* Whoever wants it is told in other words. */
static void ignore_error(void *context, const char *kind, const char *message) {
  (void)context;
  (void)kind;
  (void)message;
}

void *core_exchange_new(const core_exchange *e, const td_tensor *like, void **data) {
  dl_versioned *tensor = NULL;
  int64_t dims[TD_MAX_RANK];
  dl_tensor prototype = {.device_type = DL_CPU, .ndim = like->rank, .shape = dims};
  memcpy(dims, like->dims, sizeof dims);
  if (!fill_type(like->dtype, &prototype) || e->allocate(&prototype, &tensor, NULL, ignore_error) != 0) return NULL;
  *data = (char *)tensor->tensor.data + tensor->tensor.byte_offset;
  return tensor;
}

void core_exchange_free(void *tensor) {
  dl_versioned *t = tensor;
  if (t->deleter) t->deleter(t);
}

PyObject *core_exchange_object(const core_exchange *e, void *tensor) {
  void *object = NULL;
  return e->to_object(tensor, &object) == 0 ? object : NULL;
}
