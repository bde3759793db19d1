/* session.c -- Pool and Session. A run is prepared with Python's lock held, done without it, and its outputs are made
 * Arrays with it again. */
#include "core.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct pool_object {
  PyObject_HEAD;
  td_pool *pool;
  pid_t process;
} pool_object;

typedef struct session_object {
  PyObject_HEAD;
  td_session *session;
  PyObject *model, *pool; /* kept alive */
  pid_t process;
  bool busy;
} session_object;

static pool_object *pool_of(PyObject *self) { return (pool_object *)(void *)self; }
static session_object *session_of(PyObject *self) { return (session_object *)(void *)self; }

/* ---- pools ---- */

static PyObject *pool_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  static char *names[] = {"threads", "spin_us", NULL};
  unsigned int threads = 0, spin = 0;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|II", names, &threads, &spin)) return NULL;
  const td_pool_options options = {.size = sizeof options, .threads = threads, .spin_us = spin};
  allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  pool_object *self = (pool_object *)(void *)alloc(type, 0);
  if (!self) return NULL;
  td_error err = {0};
  self->process = getpid();
  if (td_pool_new(&options, &self->pool, &err) == TD_OK) return (PyObject *)self;
  Py_DECREF(self);
  return core_raise(&err);
}

/* In a child of fork there are no threads to end: what they held is left alone. */
static void pool_dealloc(PyObject *self) {
  td_pool *pool = pool_of(self)->process == getpid() ? pool_of(self)->pool : NULL;
  Py_BEGIN_ALLOW_THREADS;
  td_pool_free(pool);
  Py_END_ALLOW_THREADS;
  core_free_object(self);
}

PyTypeObject *core_make_pool_type(void) {
  static PyType_Slot slots[] = {{Py_tp_doc, "Pool(threads=0, spin_us=0): threads for any number of sessions."},
                                {Py_tp_new, (void *)pool_new},
                                {Py_tp_dealloc, (void *)pool_dealloc},
                                {0, NULL}};
  static PyType_Spec spec = {"treadle._core.Pool", sizeof(pool_object), 0, Py_TPFLAGS_DEFAULT, slots};
  return core_type(&spec);
}

/* ---- sessions ---- */

static PyObject *session_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  static char *names[] = {"model", "threads", "spin_us", "pool", NULL};
  PyObject *model, *pool = Py_None;
  unsigned int threads = 0, spin = 0;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!|IIO", names, core_model_type, &model, &threads, &spin, &pool))
    return NULL;
  if (pool != Py_None && Py_TYPE(pool) != core_pool_type)
    return PyErr_Format(PyExc_TypeError, "pool is no treadle._core.Pool");
  td_session_options options = {.size = sizeof options, .threads = threads, .spin_us = spin};
  if (pool != Py_None) options.pool = pool_of(pool)->pool;
  allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  session_object *self = (session_object *)(void *)alloc(type, 0);
  if (!self) return NULL;
  td_error err = {0};
  td_status status;
  self->process = getpid();
  const td_model *native = ((core_model *)(void *)model)->model;
  Py_BEGIN_ALLOW_THREADS;
  status = td_session_new(native, &options, &self->session, &err);
  Py_END_ALLOW_THREADS;
  if (status != TD_OK) {
    Py_DECREF(self);
    return core_raise(&err);
  }
  Py_INCREF(model);
  Py_INCREF(pool);
  self->model = model;
  self->pool = pool;
  return (PyObject *)self;
}

static void session_dealloc(PyObject *self) {
  td_session *session = session_of(self)->process == getpid() ? session_of(self)->session : NULL;
  Py_BEGIN_ALLOW_THREADS;
  td_session_free(session);
  Py_END_ALLOW_THREADS;
  Py_XDECREF(session_of(self)->pool);
  Py_XDECREF(session_of(self)->model);
  core_free_object(self);
}

/* ---- a run ---- */

typedef struct run_input {
  core_view view;
  core_view *items; /* of a list */
  td_tensor *tensors;
  size_t count; /* items */
  enum { NOT_GIVEN, TENSOR, LIST } what;
} run_input;

typedef struct run_output {
  core_view given; /* the caller's memory */
  bool has_given;
  void *memory; /* ours, the output was bound to */
  td_tensor tensor;
} run_output;

typedef struct run {
  td_session *session;
  run_input *inputs;
  run_output *outputs;
  size_t input_count, output_count;
  td_error err;
} run;

static void end_run(run *r) {
  for (size_t i = 0; r->inputs && i < r->input_count; i++) {
    core_view_release(&r->inputs[i].view);
    for (size_t k = 0; r->inputs[i].items && k < r->inputs[i].count; k++) core_view_release(&r->inputs[i].items[k]);
    free(r->inputs[i].items);
    free(r->inputs[i].tensors);
  }
  for (size_t i = 0; r->outputs && i < r->output_count; i++) {
    core_view_release(&r->outputs[i].given);
    free(r->outputs[i].memory);
  }
  free(r->inputs);
  free(r->outputs);
}

static bool take_list(PyObject *list, const char *name, run_input *input) {
  const Py_ssize_t count = PySequence_Size(list);
  if (count < 0) return false;
  input->what = LIST;
  input->items = calloc((size_t)count + 1, sizeof *input->items);
  input->tensors = calloc((size_t)count + 1, sizeof *input->tensors);
  if (!input->items || !input->tensors) return PyErr_NoMemory() != NULL;
  input->count = (size_t)count;
  for (Py_ssize_t k = 0; k < count; k++) {
    PyObject *item = PySequence_GetItem(list, k);
    const bool done = item && core_view_of(item, name, false, &input->items[k]);
    Py_XDECREF(item);
    if (!done) return false;
    input->tensors[k] = input->items[k].tensor;
    if (!core_view_dense(&input->items[k])) return core_refuse(name, "%s: item %zd of the list is not dense", name, k);
  }
  return true;
}

static bool take_inputs(run *r, const td_model *model, PyObject *given) {
  r->input_count = td_model_input_count(model);
  r->inputs = calloc(r->input_count + 1, sizeof *r->inputs);
  if (!r->inputs) return PyErr_NoMemory() != NULL;
  if (PyTuple_Size(given) != (Py_ssize_t)r->input_count)
    return core_refuse(NULL, "%zd inputs were given; the model takes %zu", PyTuple_Size(given), r->input_count) != NULL;
  for (size_t i = 0; i < r->input_count; i++) {
    PyObject *object = PyTuple_GetItem(given, (Py_ssize_t)i);
    td_value_info info;
    if (object == Py_None) continue;
    if (td_model_input(model, i, &info, &r->err) != TD_OK) return core_raise(&r->err) != NULL;
    if (PyList_Check(object) || PyTuple_Check(object)) {
      if (!take_list(object, info.name, &r->inputs[i])) return false;
    } else {
      if (!core_view_of(object, info.name, false, &r->inputs[i].view)) return false;
      r->inputs[i].what = TENSOR;
    }
  }
  return true;
}

static bool take_outputs(run *r, const td_model *model, PyObject *given) {
  r->output_count = td_model_output_count(model);
  r->outputs = calloc(r->output_count + 1, sizeof *r->outputs);
  if (!r->outputs) return PyErr_NoMemory() != NULL;
  if (given == Py_None) return true;
  if (!PyTuple_Check(given) || PyTuple_Size(given) != (Py_ssize_t)r->output_count)
    return core_refuse(NULL, "out: one array or None for each of the %zu outputs", r->output_count) != NULL;
  for (size_t i = 0; i < r->output_count; i++) {
    PyObject *object = PyTuple_GetItem(given, (Py_ssize_t)i);
    td_value_info info;
    if (object == Py_None) continue;
    if (td_model_output(model, i, &info, &r->err) != TD_OK) return core_raise(&r->err) != NULL;
    if (!core_view_of(object, info.name, true, &r->outputs[i].given)) return false;
    if (!core_view_dense(&r->outputs[i].given))
      return core_refuse(info.name, "out: the memory for %s is not dense", info.name) != NULL;
    r->outputs[i].has_given = true;
  }
  return true;
}

/* ---- without Python's lock ---- */

static td_status set_input(run *r, size_t i) {
  const run_input *in = &r->inputs[i];
  if (in->what == LIST) return td_session_set_input_list(r->session, i, in->tensors, in->count, &r->err);
  if (in->what == NOT_GIVEN) return td_session_clear_input(r->session, i, &r->err);
  return td_session_set_input_strided(r->session, i, &in->view.tensor, in->view.strides, &r->err);
}

static void *new_memory(const td_tensor *t) {
  enum { ALIGN = 64 };
  size_t bytes = core_dtype_bytes(t->dtype);
  for (int32_t k = 0; k < t->rank; k++) bytes *= (size_t)t->dims[k]; /* the plan was made for them: no overflow */
  return aligned_alloc(ALIGN, (bytes / ALIGN + 1) * ALIGN);
}

static td_status bind_output(run *r, size_t i) {
  run_output *out = &r->outputs[i];
  if (out->has_given) return td_session_bind_output(r->session, i, &out->given.tensor, &r->err);
  td_status status = td_session_predict_output(r->session, i, &out->tensor, &r->err);
  if (status != TD_OK && status != TD_ANSWER_NO) return status;
  if (status == TD_ANSWER_NO || !core_dtype_bytes(out->tensor.dtype))
    return td_session_bind_output(r->session, i, NULL, &r->err);
  out->memory = out->tensor.data = new_memory(&out->tensor);
  if (out->memory) return td_session_bind_output(r->session, i, &out->tensor, &r->err);
  r->err = (td_error){.code = TD_NO_RESOURCE, .offset = -1, .text = "out of memory for an output"};
  return TD_NO_RESOURCE;
}

static td_status execute(run *r) {
  td_status status = TD_OK;
  for (size_t i = 0; status == TD_OK && i < r->input_count; i++) status = set_input(r, i);
  for (size_t i = 0; status == TD_OK && i < r->output_count; i++) status = bind_output(r, i);
  return status == TD_OK ? td_session_run(r->session, &r->err) : status;
}

/* ---- what came out ---- */

static PyObject *copy_of(const td_tensor *from) {
  const size_t bytes = core_dtype_bytes(from->dtype);
  if (!bytes)
    return PyErr_Format(PyExc_NotImplementedError, "outputs of type %s cannot be given to Python",
                        td_dtype_name(from->dtype));
  td_tensor t = *from;
  t.data = new_memory(&t);
  if (!t.data) return PyErr_NoMemory();
  const core_view view = {.tensor = t};
  if (core_view_count(&view)) memcpy(t.data, from->data, (size_t)core_view_count(&view) * bytes);
  return core_array_new(&t, t.data);
}

static PyObject *copy_item(run *r, size_t i, size_t item) {
  td_tensor t;
  return td_session_output_item(r->session, i, item, &t, &r->err) == TD_OK ? copy_of(&t) : core_raise(&r->err);
}

static PyObject *copy_output(run *r, const td_model *model, size_t i) {
  td_value_info info;
  size_t count;
  if (td_model_output(model, i, &info, &r->err) != TD_OK ||
      td_session_output_count(r->session, i, &count, &r->err) != TD_OK)
    return core_raise(&r->err);
  if (strcmp(info.kind, "list") != 0) {
    if (count) return copy_item(r, i, 0);
    Py_RETURN_NONE; /* the empty optional */
  }
  PyObject *list = PyList_New((Py_ssize_t)count);
  for (size_t k = 0; list && k < count; k++) {
    PyObject *item = copy_item(r, i, k);
    if (!item || PyList_SetItem(list, (Py_ssize_t)k, item) != 0) Py_CLEAR(list);
  }
  return list;
}

static PyObject *make_output(run *r, const td_model *model, size_t i, PyObject *given) {
  run_output *out = &r->outputs[i];
  if (out->has_given) {
    PyObject *object = PyTuple_GetItem(given, (Py_ssize_t)i);
    Py_XINCREF(object);
    return object;
  }
  if (!out->memory) return copy_output(r, model, i);
  void *memory = out->memory;
  out->memory = NULL;
  return core_array_new(&out->tensor, memory);
}

static PyObject *make_outputs(run *r, const td_model *model, PyObject *given) {
  PyObject *list = PyList_New((Py_ssize_t)r->output_count);
  for (size_t i = 0; list && i < r->output_count; i++) {
    PyObject *object = make_output(r, model, i, given);
    if (!object || PyList_SetItem(list, (Py_ssize_t)i, object) != 0) Py_CLEAR(list);
  }
  return list;
}

static bool enter(session_object *self) {
  if (self->process != getpid())
    return core_refuse(NULL, "this session was made before fork(), in another process; make one in this process") !=
           NULL;
  if (self->busy)
    return core_refuse(NULL,
                       "this session is running in another thread; make one session for each thread, or call the "
                       "model, which does so itself") != NULL;
  self->busy = true;
  return true;
}

static PyObject *session_run(PyObject *self, PyObject *args) {
  PyObject *inputs, *outs = Py_None, *result = NULL;
  session_object *s = session_of(self);
  if (!PyArg_ParseTuple(args, "O!|O", &PyTuple_Type, &inputs, &outs)) return NULL;
  if (!enter(s)) return NULL;
  const td_model *model = ((core_model *)(void *)s->model)->model;
  run r = {.session = s->session};
  if (take_inputs(&r, model, inputs) && take_outputs(&r, model, outs)) {
    td_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = execute(&r);
    Py_END_ALLOW_THREADS;
    result = status == TD_OK ? make_outputs(&r, model, outs) : core_raise(&r.err);
  }
  s->busy = false;
  end_run(&r);
  return result;
}

static PyObject *session_stats(PyObject *self, PyObject *unused) {
  (void)unused;
  if (!enter(session_of(self))) return NULL;
  td_session_stats s = {.size = sizeof s};
  td_error err;
  const td_status status = td_session_get_stats(session_of(self)->session, &s, &err);
  session_of(self)->busy = false;
  if (status != TD_OK) return core_raise(&err);
  return Py_BuildValue("{sKsKsKsKsI}", "arena_bytes", (unsigned long long)s.arena_bytes, "arena_lower",
                       (unsigned long long)s.arena_lower, "tail_bytes", (unsigned long long)s.tail_bytes, "runs",
                       (unsigned long long)s.runs, "threads", s.threads);
}

/* ---- state ---- */

static PyObject *done(session_object *s, td_status status, const td_error *err) {
  s->busy = false;
  if (status != TD_OK) return core_raise(err);
  Py_RETURN_NONE;
}

static PyObject *session_reset(PyObject *self, PyObject *unused) {
  (void)unused;
  td_error err;
  if (!enter(session_of(self))) return NULL;
  return done(session_of(self), td_session_reset(session_of(self)->session, &err), &err);
}

static PyObject *session_state(PyObject *self, PyObject *args) {
  session_object *s = session_of(self);
  Py_ssize_t index;
  td_error err;
  td_tensor t;
  if (!PyArg_ParseTuple(args, "n", &index) || !enter(s)) return NULL;
  const td_status status = td_session_state(s->session, (size_t)index, &t, &err);
  PyObject *array = status == TD_OK ? copy_of(&t) : core_raise(&err);
  s->busy = false;
  return array;
}

static PyObject *session_set_state(PyObject *self, PyObject *args) {
  session_object *s = session_of(self);
  Py_ssize_t index;
  PyObject *object;
  td_error err;
  core_view view;
  if (!PyArg_ParseTuple(args, "nO", &index, &object)) return NULL;
  if (!core_view_of(object, "the state", false, &view)) return NULL;
  if (!core_view_dense(&view)) {
    core_view_release(&view);
    return core_refuse(NULL, "the value of a state must be dense");
  }
  if (!enter(s)) {
    core_view_release(&view);
    return NULL;
  }
  const td_status status = td_session_set_state(s->session, (size_t)index, &view.tensor, &err);
  core_view_release(&view);
  return done(s, status, &err);
}

PyTypeObject *core_make_session_type(void) {
  static PyMethodDef methods[] = {
      {"reset", session_reset, METH_NOARGS, "All state as before the first run."},
      {"state", session_state, METH_VARARGS, "state(index): a copy of the value of a state."},
      {"set_state", session_set_state, METH_VARARGS, "set_state(index, value): a copy of value."},
      {"run", session_run, METH_VARARGS,
       "run(inputs, outs=None): a tuple with an array, a list or None for each input."},
      {"stats", session_stats, METH_NOARGS, "Memory, runs and threads, as a dict."},
      {0}};
  static PyType_Slot slots[] = {{Py_tp_doc, "Session(model, threads=0, spin_us=0, pool=None)"},
                                {Py_tp_new, (void *)session_new},
                                {Py_tp_dealloc, (void *)session_dealloc},
                                {Py_tp_methods, methods},
                                {0, NULL}};
  static PyType_Spec spec = {"treadle._core.Session", sizeof(session_object), 0, Py_TPFLAGS_DEFAULT, slots};
  return core_type(&spec);
}

/* ---- for profiles ---- */

td_session *core_session_take(PyObject *session) {
  return enter(session_of(session)) ? session_of(session)->session : NULL;
}
void core_session_give(PyObject *session) { session_of(session)->busy = false; }
