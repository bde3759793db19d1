/* graph.c -- load_graph: a program from memory and the tensors that it names, wherever they lie. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

typedef struct graph_source {
  core_view *views;
  td_named_tensor *weights;
  Py_ssize_t count;
} graph_source;

static void free_source(graph_source *s) {
  for (Py_ssize_t i = 0; s->views && i < s->count; i++) core_view_release(&s->views[i]);
  free(s->views);
  free(s->weights);
}

/* One (name, array) of the list. */
static bool take_weight(PyObject *pair, core_view *view, td_named_tensor *weight) {
  PyObject *array;
  if (!PyArg_ParseTuple(pair, "sO", &weight->name, &array)) return false;
  if (!core_view_of(array, weight->name, false, view)) return false;
  weight->tensor = view->tensor;
  memcpy(weight->strides, view->strides, sizeof weight->strides);
  return true;
}

static bool take_weights(PyObject *list, graph_source *s) {
  const Py_ssize_t count = PyList_Size(list);
  if (count < 0) return false;
  s->views = calloc((size_t)count + 1, sizeof *s->views);
  s->weights = calloc((size_t)count + 1, sizeof *s->weights);
  if (!s->views || !s->weights) return PyErr_NoMemory() != NULL;
  for (; s->count < count; s->count++)
    if (!take_weight(PyList_GetItem(list, s->count), &s->views[s->count], &s->weights[s->count])) return false;
  return true;
}

PyObject *core_load_graph(PyObject *module, PyObject *args, PyObject *keywords) {
  (void)module;
  PyObject *program, *weights;
  td_load_options options;
  if (!PyArg_ParseTuple(args, "SO!", &program, &PyList_Type, &weights) || !core_read_options(keywords, &options, NULL))
    return NULL;
  graph_source source = {0};
  td_model *model = NULL;
  td_error err = {0};
  td_status status = TD_INTERNAL;
  const bool taken = take_weights(weights, &source);
  const char *text = PyBytes_AsString(program);
  const size_t size = (size_t)PyBytes_Size(program);
  if (taken) {
    Py_BEGIN_ALLOW_THREADS;
    status = td_model_load_graph(text, size, source.weights, (size_t)source.count, &options, &model, &err);
    Py_END_ALLOW_THREADS;
  }
  free_source(&source); /* the lists are kept: see below */
  if (!taken) return NULL;
  if (status != TD_OK) return core_raise(&err);
  PyObject *keep = PyTuple_Pack(2, program, weights);
  PyObject *self = keep ? core_model_new(model, keep) : NULL;
  if (!self) td_model_free(model);
  Py_XDECREF(keep);
  return self;
}
