/* bound.c -- Bound: which arguments of a graph of torch.compile are parameters that a model was made of, and which are
 * its inputs. PyTorch's tensors are read and made through the functions for C that their type carries. */
#include "run.h"

#include <stdlib.h>
#include <string.h>

/* A parameter as the model has it. */
typedef struct parameter {
  Py_ssize_t at; /* among the arguments */
  PyObject *tensor;
  const void *data;
  long long version; /* PyTorch counts what is written in place */
} parameter;

typedef struct input {
  Py_ssize_t at;
  td_dtype number; /* of a number of Python's; TD_INVALID: a tensor */
} input;

typedef enum result { NO_RESULT, TENSOR_RESULT, NUMBER_RESULT } result;

typedef struct bound_object {
  PyObject_HEAD;
  PyObject *capsule;
  const core_exchange *exchange; /* in the capsule */
  PyObject *version;             /* the name of the attribute */
  parameter *parameters;
  input *inputs;
  unsigned char *results; /* of the graph; each but NO_RESULT is an output of the model */
  Py_ssize_t parameter_count, input_count, result_count;
} bound_object;

static bound_object *bound_of(PyObject *self) { return (bound_object *)(void *)self; }

static void dealloc(PyObject *self) {
  bound_object *b = bound_of(self);
  for (Py_ssize_t i = 0; b->parameters && i < b->parameter_count; i++) Py_XDECREF(b->parameters[i].tensor);
  free(b->parameters);
  free(b->inputs);
  free(b->results);
  Py_XDECREF(b->version);
  Py_XDECREF(b->capsule);
  core_free_object(self);
}

/* ---- making ---- */

static bool read_positions(bound_object *b, PyObject *positions) {
  b->parameter_count = PyTuple_Size(positions);
  b->parameters = calloc((size_t)b->parameter_count + 1, sizeof *b->parameters);
  if (!b->parameters) return PyErr_NoMemory() != NULL;
  for (Py_ssize_t i = 0; i < b->parameter_count; i++)
    b->parameters[i].at = PyLong_AsSsize_t(PyTuple_GetItem(positions, i));
  return !PyErr_Occurred();
}

/* (position, element type of a number, or None) each. */
static bool read_inputs(bound_object *b, PyObject *inputs) {
  b->input_count = PyTuple_Size(inputs);
  b->inputs = calloc((size_t)b->input_count + 1, sizeof *b->inputs);
  if (!b->inputs) return PyErr_NoMemory() != NULL;
  for (Py_ssize_t i = 0; i < b->input_count; i++) {
    const char *number;
    if (!PyArg_ParseTuple(PyTuple_GetItem(inputs, i), "nz", &b->inputs[i].at, &number)) return false;
    b->inputs[i].number = number ? core_dtype_of(number) : TD_INVALID;
  }
  return true;
}

/* "tensor", "number" or None each. */
static bool read_results(bound_object *b, PyObject *results) {
  b->result_count = PyTuple_Size(results);
  b->results = calloc((size_t)b->result_count + 1, sizeof *b->results);
  if (!b->results) return PyErr_NoMemory() != NULL;
  for (Py_ssize_t i = 0; i < b->result_count; i++) {
    PyObject *kind = PyTuple_GetItem(results, i);
    if (kind == Py_None) continue;
    b->results[i] = PyUnicode_CompareWithASCIIString(kind, "tensor") == 0 ? TENSOR_RESULT : NUMBER_RESULT;
  }
  return true;
}

static PyObject *bound_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  static char *names[] = {"exchange", "parameters", "inputs", "results", NULL};
  PyObject *capsule, *parameters, *inputs, *results;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO!O!O!", names, &capsule, &PyTuple_Type, &parameters,
                                   &PyTuple_Type, &inputs, &PyTuple_Type, &results))
    return NULL;
  const core_exchange *exchange = core_exchange_of(capsule);
  if (!exchange) return core_refuse(NULL, "this version of PyTorch has no functions for C that are known");
  allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  bound_object *b = (bound_object *)(void *)alloc(type, 0);
  if (!b) return NULL;
  b->exchange = exchange;
  b->capsule = capsule;
  Py_INCREF(capsule);
  b->version = PyUnicode_InternFromString("_version");
  if (b->version && read_positions(b, parameters) && read_inputs(b, inputs) && read_results(b, results))
    return (PyObject *)b;
  Py_DECREF(b);
  return NULL;
}

/* ---- parameters ---- */

static bool read_version(const bound_object *b, PyObject *tensor, long long *version) {
  PyObject *number = PyObject_GetAttr(tensor, b->version);
  if (!number) return false;
  *version = PyLong_AsLongLong(number);
  Py_DECREF(number);
  return !PyErr_Occurred();
}

static PyObject *bound_hold(PyObject *self, PyObject *args) {
  bound_object *b = bound_of(self);
  for (Py_ssize_t i = 0; i < b->parameter_count; i++) {
    parameter *p = &b->parameters[i];
    PyObject *tensor = PyList_GetItem(args, p->at);
    if (!tensor || !read_version(b, tensor, &p->version)) return NULL;
    p->data = core_exchange_data(b->exchange, tensor);
    if (PyErr_Occurred()) return NULL;
    Py_INCREF(tensor);
    Py_XDECREF(p->tensor);
    p->tensor = tensor;
  }
  Py_RETURN_NONE;
}

static PyObject *bound_holds(PyObject *self, PyObject *args) {
  const bound_object *b = bound_of(self);
  for (Py_ssize_t i = 0; i < b->parameter_count; i++) {
    const parameter *p = &b->parameters[i];
    PyObject *tensor = PyList_GetItem(args, p->at);
    long long version;
    if (!tensor) return NULL;
    if (tensor != p->tensor) Py_RETURN_FALSE;
    if (!read_version(b, tensor, &version)) return NULL;
    if (version != p->version || core_exchange_data(b->exchange, tensor) != p->data) {
      if (PyErr_Occurred()) return NULL;
      Py_RETURN_FALSE;
    }
  }
  Py_RETURN_TRUE;
}

/* ---- runs ---- */

static bool take_number(PyObject *object, td_dtype dtype, core_run_input *in) {
  in->view.tensor = (td_tensor){.dtype = dtype, .data = in->number};
  if (dtype == TD_F64) {
    const double value = PyFloat_AsDouble(object);
    memcpy(in->number, &value, sizeof value);
  } else if (dtype == TD_BOOL) {
    in->number[0] = PyObject_IsTrue(object) == 1;
  } else {
    const long long value = PyLong_AsLongLong(object);
    memcpy(in->number, &value, sizeof value);
  }
  return !PyErr_Occurred();
}

static bool take_inputs(const bound_object *b, PyObject *args, core_run *r) {
  if ((size_t)b->input_count != r->input_count)
    return core_refuse(NULL, "%zd inputs were bound; the model takes %zu", b->input_count, r->input_count) != NULL;
  for (size_t i = 0; i < r->input_count; i++) {
    PyObject *object = PyList_GetItem(args, b->inputs[i].at);
    if (!object) return false;
    const td_dtype number = b->inputs[i].number;
    if (number ? !take_number(object, number, &r->inputs[i])
               : !core_exchange_view(b->exchange, object, "an input", &r->inputs[i].view))
      return false;
    r->inputs[i].what = TENSOR;
  }
  return true;
}

/* A number stands in an array without dimensions. */
static PyObject *number_of(PyObject *tensor) {
  PyObject *number = tensor ? PyObject_CallMethod(tensor, "item", NULL) : NULL;
  Py_XDECREF(tensor);
  return number;
}

static PyObject *give_results(const bound_object *b, core_run *r) {
  PyObject *list = PyList_New(b->result_count);
  size_t output = 0;
  for (Py_ssize_t i = 0; list && i < b->result_count; i++) {
    PyObject *object = Py_None;
    if (b->results[i] == NO_RESULT) Py_INCREF(object);
    else if (output == r->output_count) object = core_refuse(NULL, "the model has no output for result %zd", i);
    else object = core_run_output_object(r, output++, Py_None);
    if (b->results[i] == NUMBER_RESULT) object = number_of(object);
    if (!object || PyList_SetItem(list, i, object) != 0) Py_CLEAR(list);
  }
  return list;
}

static PyObject *bound_run(PyObject *self, PyObject *args) {
  bound_object *b = bound_of(self);
  PyObject *session, *list, *results = NULL;
  if (!PyArg_ParseTuple(args, "O!O!", core_session_type, &session, &PyList_Type, &list)) return NULL;
  core_run r = {.session = core_session_take(session), .model = core_session_model(session), .exchange = b->exchange};
  if (!r.session) return NULL;
  if (core_run_begin(&r) && take_inputs(b, list, &r)) {
    td_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = core_run_execute(&r);
    Py_END_ALLOW_THREADS;
    results = status == TD_OK ? give_results(b, &r) : core_raise(&r.err);
  }
  core_session_give(session);
  core_run_end(&r);
  return results;
}

PyTypeObject *core_make_bound_type(void) {
  static PyMethodDef methods[] = {
      {"hold", bound_hold, METH_O, "hold(args): remembers the parameters among them as they are."},
      {"holds", bound_holds, METH_O, "holds(args) -> bool: are they the same, and not written since?"},
      {"run", bound_run, METH_VARARGS, "run(session, args): a list of tensors, numbers and None."},
      {0}};
  static PyType_Slot slots[] = {{Py_tp_doc, "Bound(exchange, parameters, inputs, results)"},
                                {Py_tp_new, (void *)bound_new},
                                {Py_tp_dealloc, (void *)dealloc},
                                {Py_tp_methods, methods},
                                {0, NULL}};
  static PyType_Spec spec = {"treadle._core.Bound", sizeof(bound_object), 0, Py_TPFLAGS_DEFAULT, slots};
  return core_type(&spec);
}
