/* streams.c -- Streams: batches over streams of a pool's cores, joined where they are made. */
#include "run.h"

#include <stdlib.h>
#include <unistd.h>

typedef struct streams_object {
  PyObject_HEAD;
  td_streams *streams;
  PyObject *model, *pool; /* kept alive */
  pid_t process;
  bool busy;
} streams_object;

static streams_object *streams_of(PyObject *self) { return (streams_object *)(void *)self; }

static PyObject *streams_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  static char *names[] = {"model", "pool", "streams", "whole", NULL};
  PyObject *model, *pool;
  unsigned int count = 0;
  unsigned long long whole = 0;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!O!|IK", names, core_model_type, &model, core_pool_type, &pool,
                                   &count, &whole))
    return NULL;
  allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  streams_object *self = (streams_object *)(void *)alloc(type, 0);
  if (!self) return NULL;
  const td_streams_options options = {
      .size = sizeof options, .streams = count, .pool = core_pool_of(pool), .whole = whole};
  td_error err = {0};
  self->process = getpid();
  if (td_streams_new(((core_model *)(void *)model)->model, &options, &self->streams, &err) != TD_OK) {
    Py_DECREF(self);
    return core_raise(&err);
  }
  Py_INCREF(model);
  Py_INCREF(pool);
  self->model = model;
  self->pool = pool;
  return (PyObject *)self;
}

/* In a child of fork there are no threads to end: what they held is left alone. */
static void streams_dealloc(PyObject *self) {
  td_streams *streams = streams_of(self)->process == getpid() ? streams_of(self)->streams : NULL;
  Py_BEGIN_ALLOW_THREADS;
  td_streams_free(streams);
  Py_END_ALLOW_THREADS;
  Py_XDECREF(streams_of(self)->pool);
  Py_XDECREF(streams_of(self)->model);
  core_free_object(self);
}

static bool enter(streams_object *self) {
  return core_run_enter(self->process, &self->busy,
                        "these streams were made before fork(), in another process; make some in this one",
                        "these streams are running in another thread; call them in turn");
}

/* ---- a batch ---- */

static bool take_batch(core_run *r, td_tensor *inputs) {
  for (size_t i = 0; i < r->input_count; i++) {
    td_value_info info = {.size = sizeof info};
    inputs[i] = (td_tensor){.dtype = TD_INVALID};
    if (r->inputs[i].what == NOT_GIVEN) continue;
    if (td_model_input(r->model, i, &info, &r->err) != TD_OK) return core_raise(&r->err) != NULL;
    if (r->inputs[i].what == LIST || !core_view_dense(&r->inputs[i].view))
      return core_refuse(info.name, "%s: a batch over streams takes dense arrays; make a copy that is", info.name) !=
             NULL;
    inputs[i] = r->inputs[i].view.tensor;
  }
  return true;
}

/* TD_ANSWER_NO: of some output only running can tell the sizes. Without Python's lock, as the next. */
static td_status find_outputs(streams_object *self, core_run *r, td_run_options *batch, td_tensor *outputs) {
  for (size_t i = 0; i < r->output_count; i++) {
    core_run_output *out = &r->outputs[i];
    if (out->has_given) {
      outputs[i] = out->given.tensor;
      continue;
    }
    const td_status status = td_streams_predict_output(self->streams, batch, i, &out->tensor, &r->err);
    if (status != TD_OK) return status;
    if (!core_run_new_output(r, i)) {
      r->err = (td_error){.code = TD_NO_RESOURCE, .offset = -1, .text = "out of memory for an output"};
      return TD_NO_RESOURCE;
    }
    outputs[i] = out->tensor;
  }
  batch->outputs = outputs;
  batch->output_count = r->output_count;
  return TD_OK;
}

typedef td_status (*batch_function)(td_streams *streams, const td_run_options *batch, td_error *err);

static td_status execute(streams_object *self, core_run *r, td_tensor *tensors, batch_function run) {
  td_run_options batch = {.size = sizeof batch, .inputs = tensors, .input_count = r->input_count};
  const td_status status = find_outputs(self, r, &batch, tensors + r->input_count);
  return status == TD_OK ? run(self->streams, &batch, &r->err) : status;
}

/* A list of the outputs; None: only running can tell the sizes of one. */
static PyObject *run_batch(PyObject *self, PyObject *args, batch_function run) {
  PyObject *inputs, *outs = Py_None, *result = NULL;
  streams_object *s = streams_of(self);
  if (!PyArg_ParseTuple(args, "O!|O", &PyTuple_Type, &inputs, &outs) || !enter(s)) return NULL;
  core_run r = {.model = ((core_model *)(void *)s->model)->model};
  const bool begun = core_run_begin(&r);
  td_tensor *tensors = begun ? calloc(r.input_count + r.output_count + 1, sizeof *tensors) : NULL;
  if (begun && !tensors) PyErr_NoMemory();
  if (tensors && core_run_take_inputs(&r, inputs) && core_run_take_outputs(&r, outs) && take_batch(&r, tensors)) {
    td_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = execute(s, &r, tensors, run);
    Py_END_ALLOW_THREADS;
    if (status == TD_OK) {
      result = core_run_output_objects(&r, outs);
    } else if (status == TD_ANSWER_NO) {
      result = Py_None;
      Py_INCREF(result);
    } else {
      core_raise(&r.err);
    }
  }
  s->busy = false;
  free(tensors);
  core_run_end(&r);
  return result;
}

static PyObject *streams_run(PyObject *self, PyObject *args) { return run_batch(self, args, td_streams_run); }

static PyObject *streams_tune(PyObject *self, PyObject *args) { return run_batch(self, args, td_streams_tune); }

static PyObject *streams_count(PyObject *self, PyObject *args) {
  long long samples;
  if (!PyArg_ParseTuple(args, "L", &samples)) return NULL;
  return PyLong_FromUnsignedLong(td_streams_count(streams_of(self)->streams, samples));
}

PyTypeObject *core_make_streams_type(void) {
  static PyMethodDef methods[] = {
      {"run", streams_run, METH_VARARGS,
       "run(inputs, outs=None): a tuple with a dense array or None for each input; a list of outputs. None: only "
       "running "
       "can tell the sizes of one of these."},
      {"tune", streams_tune, METH_VARARGS,
       "As run, over 1, 2, 4, ... streams: the fastest number for the size is kept."},
      {"count", streams_count, METH_VARARGS, "count(samples): the streams of such a batch."},
      {0}};
  static PyType_Slot slots[] = {
      {Py_tp_doc, "Streams(model, pool, streams=0, whole=0): bit i of whole: every stream gets all of input i."},
      {Py_tp_new, (void *)streams_new},
      {Py_tp_dealloc, (void *)streams_dealloc},
      {Py_tp_methods, methods},
      {0, NULL}};
  static PyType_Spec spec = {"treadle._core.Streams", sizeof(streams_object), 0, Py_TPFLAGS_DEFAULT, slots};
  return core_type(&spec);
}
