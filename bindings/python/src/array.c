/* array.c -- Array: a tensor that Python sees through the buffer protocol and DLPack, without copies. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "dimensions are shown to Python where they stand");

static core_array *array_of(PyObject *self) { return (core_array *)(void *)self; }

static core_array *new_array(const td_tensor *tensor) {
  allocfunc alloc = (allocfunc)PyType_GetSlot(core_array_type, Py_tp_alloc);
  core_array *a = (core_array *)(void *)alloc(core_array_type, 0);
  if (!a) return NULL;
  a->view = (core_view){.tensor = *tensor};
  core_dense_strides(tensor->rank, tensor->dims, a->view.strides);
  return a;
}

PyObject *core_array_new(const td_tensor *tensor, void *memory) {
  core_array *a = new_array(tensor);
  if (!a) {
    free(memory);
    return NULL;
  }
  a->memory = memory;
  return (PyObject *)a;
}

static void dealloc(PyObject *self) {
  free(array_of(self)->memory);
  core_view_release(&array_of(self)->view);
  core_free_object(self);
}

/* ---- view(address, dtype, shape, strides, owner, readonly) ---- */

static bool read_ints(PyObject *from, const char *what, int32_t rank, int64_t *to) {
  if (PySequence_Size(from) != rank) {
    if (!PyErr_Occurred())
      PyErr_Format(PyExc_ValueError, "view: %s needs one int for each of %d dimensions", what, rank);
    return false;
  }
  for (int32_t i = 0; i < rank; i++) {
    PyObject *item = PySequence_GetItem(from, i);
    if (!item) return false;
    to[i] = PyLong_AsLongLong(item);
    Py_DECREF(item);
    if (to[i] == -1 && PyErr_Occurred()) return false;
  }
  return true;
}

/* A tensor without data. */
static bool read_type(const char *dtype, PyObject *shape, td_tensor *t) {
  *t = (td_tensor){.dtype = core_dtype_of(dtype)};
  const Py_ssize_t rank = PySequence_Size(shape);
  if (rank < 0) return false;
  if (!core_dtype_bytes(t->dtype) || rank > TD_MAX_RANK)
    return PyErr_Format(PyExc_ValueError, "%s elements in %zd dimensions are not supported", dtype, rank) != NULL;
  t->rank = (int32_t)rank;
  return read_ints(shape, "shape", t->rank, t->dims);
}

PyObject *core_zeros(PyObject *module, PyObject *args) {
  (void)module;
  const char *dtype;
  PyObject *shape;
  td_tensor t;
  if (!PyArg_ParseTuple(args, "sO", &dtype, &shape) || !read_type(dtype, shape, &t)) return NULL;
  size_t bytes = core_dtype_bytes(t.dtype);
  for (int32_t i = 0; i < t.rank; i++)
    if (t.dims[i] < 0 || __builtin_mul_overflow(bytes, (size_t)t.dims[i], &bytes))
      return PyErr_Format(PyExc_ValueError, "zeros: a size that is negative or overflows");
  t.data = calloc(bytes + 1, 1);
  return t.data ? core_array_new(&t, t.data) : PyErr_NoMemory();
}

PyObject *core_view_address(PyObject *module, PyObject *args) {
  (void)module;
  unsigned long long address;
  const char *dtype;
  PyObject *shape, *strides, *owner;
  int readonly;
  td_tensor t;
  if (!PyArg_ParseTuple(args, "KsOOOp", &address, &dtype, &shape, &strides, &owner, &readonly)) return NULL;
  if (!read_type(dtype, shape, &t)) return NULL;
  t.data = (void *)(uintptr_t)address;
  core_array *a = new_array(&t);
  if (!a) return NULL;
  if (strides != Py_None && !read_ints(strides, "strides", t.rank, a->view.strides)) {
    Py_DECREF(a);
    return NULL;
  }
  Py_INCREF(owner);
  a->view.owner = owner;
  a->view.readonly = readonly != 0;
  return (PyObject *)a;
}

/* ---- the buffer protocol ---- */

static const char *format_of(td_dtype dtype) {
  static const char *const formats[TD_DTYPE_COUNT] = {
      [TD_F64] = "d", [TD_F32] = "f", [TD_F16] = "e", [TD_I64] = "l", [TD_I32] = "i", [TD_I16] = "h",
      [TD_I8] = "b",  [TD_U64] = "L", [TD_U32] = "I", [TD_U16] = "H", [TD_U8] = "B",  [TD_BOOL] = "?"};
  return formats[dtype];
}

static int refuse_buffer(Py_buffer *b, const char *why) {
  PyErr_SetString(PyExc_BufferError, why);
  b->obj = NULL;
  return -1;
}

static int get_buffer(PyObject *self, Py_buffer *b, int flags) {
  core_array *a = array_of(self);
  const td_tensor *t = &a->view.tensor;
  const char *format = format_of(t->dtype);
  const bool shaped = flags & PyBUF_ND, strided = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
  if (!format) return refuse_buffer(b, "the buffer protocol has no such element type; DLPack may");
  if (flags & PyBUF_WRITABLE && a->view.readonly) return refuse_buffer(b, "the array is read-only");
  if (!strided && !core_view_dense(&a->view)) return refuse_buffer(b, "the array is not dense");
  const Py_ssize_t bytes = (Py_ssize_t)core_dtype_bytes(t->dtype);
  Py_ssize_t *steps = NULL;
  if (strided && t->rank) {
    steps = malloc((size_t)t->rank * sizeof *steps);
    if (!steps) return refuse_buffer(b, "out of memory");
    for (int32_t i = 0; i < t->rank; i++) steps[i] = (Py_ssize_t)a->view.strides[i] * bytes;
  }
  *b = (Py_buffer){.buf = t->data,
                   .obj = self,
                   .len = (Py_ssize_t)core_view_count(&a->view) * bytes,
                   .itemsize = bytes,
                   .readonly = a->view.readonly,
                   .ndim = shaped ? t->rank : 1,
                   .format = flags & PyBUF_FORMAT ? (char *)(uintptr_t)format : NULL,
                   .shape = shaped && t->rank ? (Py_ssize_t *)(void *)a->view.tensor.dims : NULL,
                   .strides = steps,
                   .internal = steps};
  Py_INCREF(self);
  return 0;
}

static void release_buffer(PyObject *self, Py_buffer *b) {
  (void)self;
  free(b->internal);
}

/* ---- DLPack ---- */

static PyObject *dlpack(PyObject *self, PyObject *args, PyObject *keywords) {
  static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
  PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O$OOO", names, &stream, &version, &device, &copy)) return NULL;
  if (stream != Py_None || copy == Py_True) {
    PyErr_SetString(PyExc_BufferError, "an Array is in the CPU's memory: it has no streams and is never copied");
    return NULL;
  }
  bool versioned = false;
  if (version != Py_None) {
    PyObject *major = PySequence_GetItem(version, 0);
    if (!major) return NULL;
    versioned = PyLong_AsLong(major) >= 1;
    Py_DECREF(major);
    if (PyErr_Occurred()) return NULL;
  }
  const core_array *a = array_of(self);
  if (a->view.readonly && !versioned) {
    PyErr_SetString(PyExc_BufferError, "the array is read-only, which DLPack before version 1 cannot say");
    return NULL;
  }
  return core_dlpack_export(self, &a->view, versioned);
}

static PyObject *dlpack_device(PyObject *self, PyObject *unused) {
  (void)self;
  (void)unused;
  return Py_BuildValue("(ii)", 1, 0);
}

/* ---- elements as Python's own ---- */

static double half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  union {
    uint32_t bits;
    float value;
  } scale = {.bits = (uint32_t)(exponent + 112 - 10) << 23}; /* 2 to the (exponent - 25) */
  const float sign = bits >> 15 ? -1.0F : 1.0F;
  if (exponent == 31) {
    scale.bits = fraction ? 0x7FC00000U : 0x7F800000U;
    return (double)(sign * scale.value);
  }
  if (exponent == 0) return (double)(sign * (float)fraction) / 16777216.0;
  return (double)(sign * (float)(1024 + fraction) * scale.value);
}

static PyObject *element(td_dtype dtype, const void *at) {
  union {
    double f64;
    float f32;
    int64_t i64;
    int32_t i32;
    int16_t i16;
    int8_t i8;
    uint64_t u64;
    uint32_t u32;
    uint16_t u16;
    uint8_t u8;
  } v = {0};
  memcpy(&v, at, core_dtype_bytes(dtype));
  switch ((int)dtype) {
    case TD_F64: return PyFloat_FromDouble(v.f64);
    case TD_BF16: v.u32 = (uint32_t)v.u16 << 16; return PyFloat_FromDouble((double)v.f32);
    case TD_F32: return PyFloat_FromDouble((double)v.f32);
    case TD_F16: return PyFloat_FromDouble(half_value(v.u16));
    case TD_I64: return PyLong_FromLongLong(v.i64);
    case TD_I32: return PyLong_FromLong(v.i32);
    case TD_I16: return PyLong_FromLong(v.i16);
    case TD_I8: return PyLong_FromLong(v.i8);
    case TD_U64: return PyLong_FromUnsignedLongLong(v.u64);
    case TD_U32: return PyLong_FromUnsignedLong(v.u32);
    case TD_U16: return PyLong_FromLong(v.u16);
    case TD_U8: return PyLong_FromLong(v.u8);
    case TD_BOOL: return PyBool_FromLong(v.u8);
    default: return PyErr_Format(PyExc_TypeError, "Python has no numbers of type %s", td_dtype_name(dtype));
  }
}

static PyObject *list_from(const core_view *v, int32_t dim, const char *at) {
  const td_tensor *t = &v->tensor;
  if (dim == t->rank) return element(t->dtype, at);
  PyObject *list = PyList_New((Py_ssize_t)t->dims[dim]);
  const int64_t step = v->strides[dim] * (int64_t)core_dtype_bytes(t->dtype);
  for (int64_t i = 0; list && i < t->dims[dim]; i++) {
    PyObject *item = list_from(v, dim + 1, at + i * step);
    if (!item || PyList_SetItem(list, (Py_ssize_t)i, item) != 0) Py_CLEAR(list);
  }
  return list;
}

static PyObject *to_list(PyObject *self, PyObject *unused) {
  (void)unused;
  return list_from(&array_of(self)->view, 0, array_of(self)->view.tensor.data);
}

static PyObject *to_numpy(PyObject *self, PyObject *unused) {
  (void)unused;
  PyObject *numpy = PyImport_ImportModule("numpy");
  PyObject *array = numpy ? PyObject_CallMethod(numpy, "asarray", "O", self) : NULL;
  Py_XDECREF(numpy);
  return array;
}

static Py_ssize_t length(PyObject *self) {
  const td_tensor *t = &array_of(self)->view.tensor;
  if (t->rank > 0) return (Py_ssize_t)t->dims[0];
  PyErr_SetString(PyExc_TypeError, "an array of rank 0 has no length");
  return -1;
}

static PyObject *get_dtype(PyObject *self, void *unused) {
  (void)unused;
  return PyUnicode_FromString(td_dtype_name(array_of(self)->view.tensor.dtype));
}

static PyObject *get_shape(PyObject *self, void *unused) {
  (void)unused;
  return core_tuple_of(array_of(self)->view.tensor.dims, array_of(self)->view.tensor.rank);
}

static PyObject *get_bytes(PyObject *self, void *unused) {
  (void)unused;
  const core_view *v = &array_of(self)->view;
  return PyLong_FromLongLong(core_view_count(v) * (int64_t)core_dtype_bytes(v->tensor.dtype));
}

static PyObject *get_address(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromVoidPtr(array_of(self)->view.tensor.data);
}

static PyObject *repr(PyObject *self) {
  PyObject *shape = get_shape(self, NULL);
  PyObject *text = shape ? PyUnicode_FromFormat("treadle.Array(%s, shape=%R)",
                                                td_dtype_name(array_of(self)->view.tensor.dtype), shape)
                         : NULL;
  Py_XDECREF(shape);
  return text;
}

PyTypeObject *core_make_array_type(void) {
  static PyMethodDef methods[] = {
      {"__dlpack__", (PyCFunction)(void (*)(void))dlpack, METH_VARARGS | METH_KEYWORDS, "A DLPack capsule; no copy."},
      {"__dlpack_device__", dlpack_device, METH_NOARGS, "(1, 0): the CPU."},
      {"tolist", to_list, METH_NOARGS, "The elements as nested lists of Python's numbers."},
      {"numpy", to_numpy, METH_NOARGS, "The same memory as a numpy array."},
      {0}};
  static PyGetSetDef properties[] = {{"dtype", get_dtype, NULL, "element type: \"f32\", \"i64\", ...", NULL},
                                     {"shape", get_shape, NULL, "a tuple of ints", NULL},
                                     {"nbytes", get_bytes, NULL, "bytes of all elements", NULL},
                                     {"address", get_address, NULL, "where the first element is", NULL},
                                     {0}};
  static PyType_Slot slots[] = {{Py_tp_doc,
                                 "A tensor. numpy.asarray(a), torch.from_dlpack(a) and memoryview(a) see the "
                                 "same memory and keep it alive."},
                                {Py_tp_dealloc, (void *)dealloc},
                                {Py_tp_repr, (void *)repr},
                                {Py_tp_methods, methods},
                                {Py_tp_getset, properties},
                                {Py_sq_length, (void *)length},
                                {Py_bf_getbuffer, (void *)get_buffer},
                                {Py_bf_releasebuffer, (void *)release_buffer},
                                {0, NULL}};
  static PyType_Spec spec = {"treadle.Array", sizeof(core_array), 0, Py_TPFLAGS_DEFAULT, slots};
  return core_type(&spec);
}
