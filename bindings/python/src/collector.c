/* collector.c -- Collector: ranges for VTune and others that speak ITT. */
#include "core.h"

#include <treadle/experimental.h>

typedef struct collector_object {
  PyObject_HEAD;
  td_collector *collector;
} collector_object;

static td_collector *collector_of(PyObject *self) { return ((collector_object *)(void *)self)->collector; }

static PyObject *collector_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  const char *library;
  if (keywords && PyDict_Size(keywords)) return PyErr_Format(PyExc_TypeError, "Collector takes a path alone");
  if (!PyArg_ParseTuple(args, "s", &library)) return NULL;
  allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  collector_object *self = (collector_object *)(void *)alloc(type, 0);
  if (!self) return NULL;
  td_error err = {0};
  if (td_collector_open(library, &self->collector, &err) == TD_OK) return (PyObject *)self;
  Py_DECREF(self);
  return core_raise(&err);
}

static void collector_dealloc(PyObject *self) {
  td_collector_close(collector_of(self));
  core_free_object(self);
}

static PyObject *collector_push(PyObject *self, PyObject *args) {
  const char *name;
  if (!PyArg_ParseTuple(args, "s", &name)) return NULL;
  td_range_push(collector_of(self), name);
  Py_RETURN_NONE;
}

static PyObject *collector_pop(PyObject *self, PyObject *unused) {
  (void)unused;
  td_range_pop(collector_of(self));
  Py_RETURN_NONE;
}

static PyObject *collector_mark(PyObject *self, PyObject *args) {
  const char *name;
  if (!PyArg_ParseTuple(args, "s", &name)) return NULL;
  td_mark(collector_of(self), name);
  Py_RETURN_NONE;
}

static PyObject *collector_pause(PyObject *self, PyObject *unused) {
  (void)unused;
  td_collector_pause(collector_of(self));
  Py_RETURN_NONE;
}

static PyObject *collector_resume(PyObject *self, PyObject *unused) {
  (void)unused;
  td_collector_resume(collector_of(self));
  Py_RETURN_NONE;
}

PyTypeObject *core_make_collector_type(void) {
  static PyMethodDef methods[] = {{"push", collector_push, METH_VARARGS, "push(name): a range begins, on this thread."},
                                  {"pop", collector_pop, METH_NOARGS, "The range that began last ends."},
                                  {"mark", collector_mark, METH_VARARGS, "mark(name): a moment."},
                                  {"pause", collector_pause, METH_NOARGS, "It collects no more, until resume()."},
                                  {"resume", collector_resume, METH_NOARGS, "It collects again."},
                                  {0}};
  static PyType_Slot slots[] = {{Py_tp_doc, "Collector(path): a library that collects ITT ranges."},
                                {Py_tp_new, (void *)collector_new},
                                {Py_tp_dealloc, (void *)collector_dealloc},
                                {Py_tp_methods, methods},
                                {0, NULL}};
  static PyType_Spec spec = {"treadle._core.Collector", sizeof(collector_object), 0, Py_TPFLAGS_DEFAULT, slots};
  return core_type(&spec);
}
