/* view.c -- where the elements of a Python object lie. */
#include "core.h"

#include <string.h>

size_t core_dtype_bytes(td_dtype dtype) {
  static const unsigned char bytes[TD_DTYPE_COUNT] = {
      [TD_F64] = 8,  [TD_F32] = 4,      [TD_F16] = 2,        [TD_BF16] = 2,   [TD_I64] = 8,        [TD_I32] = 4,
      [TD_I16] = 2,  [TD_I8] = 1,       [TD_U64] = 8,        [TD_U32] = 4,    [TD_U16] = 2,        [TD_U8] = 1,
      [TD_BOOL] = 1, [TD_F8E4M3FN] = 1, [TD_F8E4M3FNUZ] = 1, [TD_F8E5M2] = 1, [TD_F8E5M2FNUZ] = 1, [TD_F8E8M0] = 1};
  return dtype > TD_INVALID && dtype < TD_DTYPE_COUNT ? bytes[dtype] : 0;
}

void core_dense_strides(int32_t rank, const int64_t *dims, int64_t *strides) {
  int64_t step = 1;
  for (int32_t i = rank; i-- > 0;) {
    strides[i] = step;
    if (__builtin_mul_overflow(step, dims[i] > 1 ? dims[i] : 1, &step)) step = 0; /* refused when it is set */
  }
}

int64_t core_view_count(const core_view *v) {
  int64_t count = 1;
  for (int32_t i = 0; i < v->tensor.rank; i++) count *= v->tensor.dims[i];
  return count;
}

bool core_view_dense(const core_view *v) {
  int64_t strides[TD_MAX_RANK];
  core_dense_strides(v->tensor.rank, v->tensor.dims, strides);
  for (int32_t i = 0; i < v->tensor.rank; i++)
    if (v->tensor.dims[i] == 0) return true;
  for (int32_t i = 0; i < v->tensor.rank; i++)
    if (v->tensor.dims[i] > 1 && v->strides[i] != strides[i]) return false;
  return true;
}

void core_view_release(core_view *v) {
  if (v->has_buffer) PyBuffer_Release(&v->buffer);
  Py_XDECREF(v->owner);
  memset(v, 0, sizeof *v);
}

/* ---- element types ---- */

/* A kind as in array interfaces (f, i, u, b) and a size. */
static td_dtype dtype_of_kind(char kind, size_t bytes) {
  static const struct {
    char kind;
    unsigned char bytes, dtype;
  } rows[] = {{'f', 4, TD_F32}, {'f', 8, TD_F64}, {'f', 2, TD_F16}, {'i', 8, TD_I64},
              {'i', 4, TD_I32}, {'i', 2, TD_I16}, {'i', 1, TD_I8},  {'u', 8, TD_U64},
              {'u', 4, TD_U32}, {'u', 2, TD_U16}, {'u', 1, TD_U8},  {'b', 1, TD_BOOL}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].kind == kind && rows[i].bytes == bytes) return (td_dtype)rows[i].dtype;
  return TD_INVALID;
}

/* A format of the struct module: one native element. */
static td_dtype dtype_of_format(const char *format, size_t bytes) {
  if (!format) return TD_U8;
  if (*format == '@' || *format == '=' || *format == '<') format++;
  if (!format[0] || format[1]) return TD_INVALID;
  const char kind = strchr("efd", *format)      ? 'f'
                    : strchr("bhilqn", *format) ? 'i'
                    : strchr("BHILQN", *format) ? 'u'
                    : *format == '?'            ? 'b'
                                                : 0;
  return kind ? dtype_of_kind(kind, bytes) : TD_INVALID;
}

/* ---- the buffer protocol ---- */

static bool take_strides(const char *name, int32_t rank, const Py_ssize_t *strides, Py_ssize_t bytes, core_view *view) {
  for (int32_t i = 0; i < rank; i++) {
    if (strides[i] % bytes != 0 && view->tensor.dims[i] > 1) {
      core_refuse(name, "%s: elements are %zd bytes, but %zd bytes apart", name, bytes, strides[i]);
      return false;
    }
    view->strides[i] = strides[i] / bytes;
  }
  return true;
}

static bool buffer_view(PyObject *object, const char *name, bool writable, core_view *view) {
  Py_buffer *b = &view->buffer;
  if (PyObject_GetBuffer(object, b, PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0)) != 0) return false;
  view->has_buffer = true;
  td_tensor *t = &view->tensor;
  t->dtype = dtype_of_format(b->format, (size_t)b->itemsize);
  if (t->dtype == TD_INVALID || b->suboffsets) {
    core_refuse(name, "%s: elements of format '%s' (struct module) are not supported", name,
                b->format ? b->format : "B");
    return false;
  }
  if (b->ndim > TD_MAX_RANK) {
    core_refuse(name, "%s: %d dimensions; at most %d are supported", name, b->ndim, TD_MAX_RANK);
    return false;
  }
  t->rank = b->ndim;
  t->data = b->buf;
  view->readonly = b->readonly != 0;
  for (int32_t i = 0; i < t->rank; i++) t->dims[i] = b->shape ? b->shape[i] : b->len / b->itemsize;
  if (b->strides) return take_strides(name, t->rank, b->strides, b->itemsize, view);
  core_dense_strides(t->rank, t->dims, view->strides);
  return true;
}

/* ---- __array_interface__ ---- */

/* Ints of a tuple into `to`; the number of them, or -1. */
static int32_t read_tuple(PyObject *tuple, int64_t *to) {
  const Py_ssize_t count = PyTuple_Check(tuple) ? PyTuple_Size(tuple) : -1;
  if (count > TD_MAX_RANK) return -1;
  for (Py_ssize_t i = 0; i < count; i++) {
    to[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
    if (to[i] == -1 && PyErr_Occurred()) return -1;
  }
  return (int32_t)count;
}

static bool read_interface(PyObject *dict, const char *name, core_view *view) {
  PyObject *shape = PyDict_GetItemString(dict, "shape"), *type = PyDict_GetItemString(dict, "typestr");
  PyObject *data = PyDict_GetItemString(dict, "data"), *strides = PyDict_GetItemString(dict, "strides");
  td_tensor *t = &view->tensor;
  char text[8] = "";
  PyObject *bytes = type && PyUnicode_Check(type) ? PyUnicode_AsUTF8String(type) : NULL;
  if (bytes) snprintf(text, sizeof text, "%s", PyBytes_AsString(bytes));
  Py_XDECREF(bytes);
  if (text[0] && text[0] != '>' && text[2] >= '1' && text[2] <= '8' && !text[3])
    t->dtype = dtype_of_kind(text[1], (size_t)(text[2] - '0'));
  t->rank = shape ? read_tuple(shape, t->dims) : -1;
  if (t->dtype == TD_INVALID || t->rank < 0 || !data || !PyTuple_Check(data) || PyTuple_Size(data) != 2) {
    if (!PyErr_Occurred()) core_refuse(name, "%s: an array of type '%s' that is not supported", name, text);
    return false;
  }
  t->data = PyLong_AsVoidPtr(PyTuple_GetItem(data, 0));
  view->readonly = PyObject_IsTrue(PyTuple_GetItem(data, 1)) != 0;
  if (PyErr_Occurred()) return false;
  core_dense_strides(t->rank, t->dims, view->strides);
  if (!strides || strides == Py_None) return true;
  int64_t in_bytes[TD_MAX_RANK];
  Py_ssize_t steps[TD_MAX_RANK];
  if (read_tuple(strides, in_bytes) != t->rank) {
    if (!PyErr_Occurred()) core_refuse(name, "%s: an array without a stride per dimension", name);
    return false;
  }
  for (int32_t i = 0; i < t->rank; i++) steps[i] = (Py_ssize_t)in_bytes[i];
  return take_strides(name, t->rank, steps, text[2] - '0', view);
}

static bool interface_view(PyObject *object, const char *name, core_view *view) {
  PyObject *dict = PyObject_GetAttrString(object, "__array_interface__");
  if (!dict) return false;
  view->owner = PyTuple_Pack(2, object, dict);
  const bool done = view->owner && PyDict_Check(dict) && read_interface(dict, name, view);
  Py_DECREF(dict);
  if (!done && !PyErr_Occurred()) core_refuse(name, "%s: __array_interface__ is no dict", name);
  return done;
}

/* ---- all of them ---- */

static bool find_view(PyObject *object, const char *name, bool writable, core_view *view) {
  if (Py_TYPE(object) == core_array_type) {
    const core_view *from = &((core_array *)(void *)object)->view;
    *view = (core_view){.tensor = from->tensor, .readonly = from->readonly, .owner = object};
    memcpy(view->strides, from->strides, sizeof view->strides);
    Py_INCREF(object);
    return true;
  }
  if (PyObject_CheckBuffer(object)) return buffer_view(object, name, writable, view);
  if (PyObject_HasAttrString(object, "__dlpack__")) return core_dlpack_view(object, name, writable, view);
  if (PyObject_HasAttrString(object, "__array_interface__")) return interface_view(object, name, view);
  PyErr_Format(PyExc_TypeError,
               "%s: %R has neither the buffer protocol nor __dlpack__ nor __array_interface__: give an array", name,
               (PyObject *)Py_TYPE(object));
  return false;
}

bool core_view_of(PyObject *object, const char *name, bool writable, core_view *view) {
  *view = (core_view){0};
  bool done = find_view(object, name, writable, view);
  if (done && writable && view->readonly) {
    core_refuse(name, "%s: the memory is read-only", name);
    done = false;
  }
  if (!done) core_view_release(view);
  return done;
}
