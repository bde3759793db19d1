/* core.c -- exceptions, types, and small helpers. */
#include "core.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

PyTypeObject *core_array_type, *core_model_type, *core_pool_type, *core_session_type;

/* treadle._errors.raise_error(status, name, text, offset) */
static PyObject *raise_error;

bool core_find_errors(void) {
  PyObject *errors = PyImport_ImportModule("treadle._errors");
  raise_error = errors ? PyObject_GetAttrString(errors, "raise_error") : NULL;
  Py_XDECREF(errors);
  return raise_error != NULL;
}

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
