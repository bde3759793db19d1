/* core.c -- the module, its exceptions, and small helpers. */
#include "core.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

PyTypeObject *core_array_type, *core_model_type, *core_pool_type, *core_session_type;

/* treadle._errors.raise_error(status, name, text, offset) */
static PyObject *raise_error;

PyObject *core_raise(const td_error *err) {
  PyObject *name = PyUnicode_DecodeUTF8(err->name, (Py_ssize_t)strlen(err->name), "replace");
  PyObject *text = PyUnicode_DecodeUTF8(err->text, (Py_ssize_t)strlen(err->text), "replace");
  if (name && text) {
    PyObject *none = PyObject_CallFunction(raise_error, "iOOL", (int)err->code, name, text, (long long)err->offset);
    Py_XDECREF(none); /* it never returns */
  }
  Py_XDECREF(name);
  Py_XDECREF(text);
  return NULL;
}

PyObject *core_refuse(const char *name, const char *format, ...) {
  td_error err = {.code = TD_BAD_ARGUMENT, .offset = -1};
  va_list args;
  va_start(args, format);
  vsnprintf(err.text, sizeof err.text, format, args);
  va_end(args);
  if (name) snprintf(err.name, sizeof err.name, "%s", name);
  return core_raise(&err);
}

PyTypeObject *core_type(PyType_Spec *spec) { return (PyTypeObject *)(void *)PyType_FromSpec(spec); }

void core_free_object(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

td_dtype core_dtype_of(const char *name) {
  for (int i = TD_INVALID + 1; i < TD_DTYPE_COUNT; i++)
    if (strcmp(td_dtype_name((td_dtype)i), name) == 0) return (td_dtype)i;
  return TD_INVALID;
}

td_status core_add_bytes(void *bytes, const char *piece, size_t count) {
  core_bytes *to = bytes;
  if (count > to->cap - to->length) {
    const size_t cap = 2 * (to->cap + count);
    char *at = realloc(to->at, cap);
    if (!at) return TD_NO_RESOURCE;
    to->at = at;
    to->cap = cap;
  }
  memcpy(to->at + to->length, piece, count);
  to->length += count;
  return TD_OK;
}

PyObject *core_tuple_of(const int64_t *values, int32_t count) {
  PyObject *tuple = PyTuple_New(count);
  for (int32_t i = 0; tuple && i < count; i++) {
    PyObject *value = PyLong_FromLongLong(values[i]);
    if (!value || PyTuple_SetItem(tuple, i, value) != 0) Py_CLEAR(tuple);
  }
  return tuple;
}

static PyMethodDef functions[] = {
    {"load", (PyCFunction)(void (*)(void))core_load, METH_VARARGS | METH_KEYWORDS,
     "load(source, **options) -> Model: from a path (str) or an object with the buffer protocol."},
    {"load_graph", (PyCFunction)(void (*)(void))core_load_graph, METH_VARARGS | METH_KEYWORDS,
     "load_graph(program, [(name, array), ...], **options) -> Model: JSON of torch.export; arrays are kept, not "
     "copied."},
    {"save", core_save, METH_VARARGS, "save([model, ...], path as bytes): a .tdl with a variant for each."},
    {"view", core_view_address, METH_VARARGS,
     "view(address, dtype, shape, strides, owner, readonly) -> Array: memory that owner keeps alive."},
    {"type_of", core_type_of, METH_O, "type_of(array) -> (dtype, dims)"},
    {"compare", core_compare, METH_VARARGS, "compare(run, inputs, recorded, rtol, atol, nodes) -> dict"},
    {"bisect", core_bisect, METH_VARARGS,
     "bisect(differs, passes, kernels, disabled_passes, disabled_kernels) -> (pass, kernels, trials), or None."},
    {"minify", core_minify, METH_VARARGS, "minify(open, fails, settle, tell, output) -> (graph, nodes)"},
    {"cut_value", core_cut_value, METH_VARARGS, "cut_value(array, cut) -> Array: what the part takes."},
    {"capabilities", core_capabilities, METH_NOARGS, "What this build has, as JSON."},
    {"zeros", core_zeros, METH_VARARGS, "zeros(dtype, shape) -> Array"},
    {0}};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "treadle._core", .m_size = -1,
                                 .m_methods = functions};

static bool add_type(PyObject *module, const char *name, PyTypeObject *type) {
  if (!type) return false;
  Py_INCREF(type); /* PyModule_AddObject takes one, the variable keeps the other */
  return PyModule_AddObject(module, name, (PyObject *)type) == 0;
}

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) {
  PyObject *errors = PyImport_ImportModule("treadle._errors");
  if (!errors) return NULL;
  raise_error = PyObject_GetAttrString(errors, "raise_error");
  Py_DECREF(errors);
  PyObject *module = raise_error ? PyModule_Create(&definition) : NULL;
  if (!module) return NULL;
  PyObject *kinds = core_option_kinds();
  if (!kinds || PyModule_AddObject(module, "options", kinds) != 0) {
    Py_XDECREF(kinds);
    Py_DECREF(module);
    return NULL;
  }
  if (add_type(module, "Array", core_array_type = core_make_array_type()) &&
      add_type(module, "Model", core_model_type = core_make_model_type()) &&
      add_type(module, "Pool", core_pool_type = core_make_pool_type()) &&
      add_type(module, "Session", core_session_type = core_make_session_type()) &&
      add_type(module, "Bound", core_make_bound_type()) && add_type(module, "Profile", core_make_profile_type()) &&
      add_type(module, "Collector", core_make_collector_type()) &&
      add_type(module, "Streams", core_make_streams_type()) &&
      PyModule_AddStringConstant(module, "version", td_version()) == 0)
    return module;
  Py_DECREF(module);
  return NULL;
}
