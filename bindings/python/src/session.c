/* session.c -- Pool and Session. */
#include "run.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
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
  PyObject *print;        /* is told what the model prints, or NULL */
  PyObject *begin, *end;  /* are told of the caller's parts of steps, or NULL */
  bool profiled;          /* a Profile observes it */
  int32_t cancelled;      /* the run under way is to end; written atomically */
  pid_t process;
  bool busy;
} session_object;

static pool_object *pool_of(PyObject *self) { return (pool_object *)(void *)self; }
static session_object *session_of(PyObject *self) { return (session_object *)(void *)self; }

/* ---- pools ---- */

static PyObject *pool_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  static char *names[] = {"threads", "spin_us", "interop_threads", "cpus", NULL};
  unsigned int threads = 0, spin = 0, interop = 0;
  const char *cpus = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|IIIz", names, &threads, &spin, &interop, &cpus)) return NULL;
  const td_pool_options options = {
      .size = sizeof options, .threads = threads, .spin_us = spin, .interop_threads = interop, .cpus = cpus};
  allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  pool_object *self = (pool_object *)(void *)alloc(type, 0);
  if (!self) return NULL;
  td_error err = {0};
  self->process = getpid();
  if (td_pool_new(&options, &self->pool, &err) == TD_OK) return (PyObject *)self;
  Py_DECREF(self);
  return core_raise(&err);
}

PyObject *core_find_cpus(PyObject *module, PyObject *args) {
  enum { MOST = 1024 };
  uint32_t cpus[MOST];
  size_t count = 0;
  td_error err = {0};
  (void)module;
  const char *asked;
  if (!PyArg_ParseTuple(args, "s", &asked)) return NULL;
  if (td_find_cpus(asked, 1, cpus, MOST, &count, &err) != TD_OK) return core_raise(&err);
  if (count > MOST) count = MOST;
  PyObject *list = PyList_New((Py_ssize_t)count);
  for (size_t i = 0; list && i < count; i++) {
    PyObject *cpu = PyLong_FromUnsignedLong(cpus[i]);
    if (!cpu || PyList_SetItem(list, (Py_ssize_t)i, cpu) < 0) Py_CLEAR(list);
  }
  return list;
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
  static PyType_Slot slots[] = {{Py_tp_doc,
                                 "Pool(threads=0, spin_us=0, interop_threads=0, cpus=None): threads for any number of "
                                 "sessions, on CPUs \"0-3,8\"."},
                                {Py_tp_new, (void *)pool_new},
                                {Py_tp_dealloc, (void *)pool_dealloc},
                                {0, NULL}};
  static PyType_Spec spec = {"treadle._core.Pool", sizeof(pool_object), 0, Py_TPFLAGS_DEFAULT, slots};
  return core_type(&spec);
}

/* ---- sessions ---- */

/* What a scripted model prints, on any thread of the run, which has not got Python's lock. */
static void tell_print(void *user, const char *text, size_t length) {
  const PyGILState_STATE state = PyGILState_Ensure();
  PyObject *words = PyUnicode_DecodeUTF8(text, (Py_ssize_t)length, "replace");
  PyObject *none = words ? PyObject_CallFunctionObjArgs(user, words, NULL) : NULL;
  if (!none) PyErr_WriteUnraisable(user);
  Py_XDECREF(none);
  Py_XDECREF(words);
  PyGILState_Release(state);
}

static PyObject *session_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  static char *names[] = {"model", "threads", "spin_us", "pool", "print", "interop_threads", NULL};
  PyObject *model, *pool = Py_None, *print = Py_None;
  unsigned int threads = 0, spin = 0, interop = 0;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!|IIOOI", names, core_model_type, &model, &threads, &spin, &pool,
                                   &print, &interop))
    return NULL;
  if (pool != Py_None && Py_TYPE(pool) != core_pool_type)
    return PyErr_Format(PyExc_TypeError, "pool is no treadle._core.Pool");
  td_session_options options = {
      .size = sizeof options, .threads = threads, .spin_us = spin, .interop_threads = interop};
  if (pool != Py_None) options.pool = pool_of(pool)->pool;
  allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  session_object *self = (session_object *)(void *)alloc(type, 0);
  if (!self) return NULL;
  td_error err = {0};
  td_status status;
  self->process = getpid();
  if (print != Py_None) {
    options.print = tell_print;
    options.print_user = self->print = print;
    Py_INCREF(print);
  }
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
  Py_XDECREF(session_of(self)->print);
  Py_XDECREF(session_of(self)->begin);
  Py_XDECREF(session_of(self)->end);
  Py_XDECREF(session_of(self)->pool);
  Py_XDECREF(session_of(self)->model);
  core_free_object(self);
}

static bool enter(session_object *self) {
  return core_run_enter(self->process, &self->busy,
                        "this session was made before fork(), in another process; make one in this process",
                        "this session is running in another thread; make one session for each thread, or call the "
                        "model, which does so itself");
}

/* ---- a run ---- */

/* `seconds` from now on; 0: none. */
static uint64_t deadline_of(double seconds) {
  struct timespec now;
  if (seconds <= 0 || seconds > 1e9) return 0;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + (uint64_t)(seconds * 1e9);
}

static PyObject *session_cancel(PyObject *self, PyObject *unused) {
  (void)unused;
  __atomic_store_n(&session_of(self)->cancelled, 1, __ATOMIC_RELEASE);
  Py_RETURN_NONE;
}

static PyObject *session_run(PyObject *self, PyObject *args) {
  PyObject *inputs, *outs = Py_None, *result = NULL;
  session_object *s = session_of(self);
  double timeout = 0;
  if (!PyArg_ParseTuple(args, "O!|Od", &PyTuple_Type, &inputs, &outs, &timeout)) return NULL;
  if (!enter(s)) return NULL;
  __atomic_store_n(&s->cancelled, 0, __ATOMIC_RELEASE);
  core_run r = {.session = s->session,
                .model = ((core_model *)(void *)s->model)->model,
                .deadline_ns = deadline_of(timeout),
                .cancel = &s->cancelled};
  if (core_run_begin(&r) && core_run_take_inputs(&r, inputs) && core_run_take_outputs(&r, outs)) {
    td_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = core_run_execute(&r);
    Py_END_ALLOW_THREADS;
    result = status == TD_OK ? core_run_output_objects(&r, outs) : core_raise(&r.err);
  }
  s->busy = false;
  core_run_end(&r);
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
  return Py_BuildValue("{sKsKsKsKsIsKsK}", "arena_bytes", (unsigned long long)s.arena_bytes, "arena_lower",
                       (unsigned long long)s.arena_lower, "tail_bytes", (unsigned long long)s.tail_bytes, "runs",
                       (unsigned long long)s.runs, "threads", s.threads, "state_bytes",
                       (unsigned long long)s.state_bytes, "state_copied", (unsigned long long)s.state_copied);
}

/* ---- steps, as they run ---- */

static PyObject *session_steps(PyObject *self, PyObject *unused) {
  (void)unused;
  session_object *s = session_of(self);
  td_model_stats stats = {.size = sizeof stats};
  td_error err = {0};
  if (!enter(s)) return NULL;
  PyObject *list = PyList_New(0);
  td_status status = td_model_get_stats(core_session_model(self), &stats, &err);
  for (uint32_t i = 0; list && status == TD_OK && i < stats.steps; i++) {
    td_step step = {.size = sizeof step};
    status = td_session_get_step(s->session, i, &step, &err);
    PyObject *row = status == TD_OK ? Py_BuildValue("(sss)", step.name, step.op, step.kernel) : NULL;
    if (status == TD_OK && (!row || PyList_Append(list, row) != 0)) Py_CLEAR(list);
    Py_XDECREF(row);
  }
  s->busy = false;
  if (status == TD_OK) return list;
  Py_XDECREF(list);
  return core_raise(&err);
}

/* What a listener raises is told, and the run goes on. */
static void tell(PyObject *listener, PyObject *argument) {
  PyObject *none = PyObject_CallFunctionObjArgs(listener, argument, NULL);
  if (!none) PyErr_WriteUnraisable(listener);
  Py_XDECREF(none);
}

static void part_begins(void *user, uint32_t thread, uint32_t step) {
  if (thread != 0) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  PyObject *number = PyLong_FromUnsignedLong(step);
  if (number) tell(session_of(user)->begin, number);
  Py_XDECREF(number);
  PyGILState_Release(state);
}

static void part_ends(void *user, uint32_t thread, uint32_t step, uint64_t begin_ns, uint64_t end_ns) {
  (void)step, (void)begin_ns, (void)end_ns;
  if (thread != 0) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  tell(session_of(user)->end, NULL);
  PyGILState_Release(state);
}

/* False where a Profile has the session: that stays. */
static PyObject *session_watch(PyObject *self, PyObject *args) {
  session_object *s = session_of(self);
  PyObject *begin, *end;
  if (!PyArg_ParseTuple(args, "OO", &begin, &end)) return NULL;
  if (s->profiled) Py_RETURN_FALSE;
  if (!enter(s)) return NULL;
  const bool on = begin != Py_None;
  const td_observer observer = {.size = sizeof observer, .user = self, .enter = part_begins, .part = part_ends};
  td_error err = {0};
  const td_status status = td_session_observe(s->session, on ? &observer : NULL, &err);
  s->busy = false;
  if (status != TD_OK) return core_raise(&err);
  PyObject *old[] = {s->begin, s->end};
  Py_XINCREF(begin);
  Py_XINCREF(end);
  s->begin = begin;
  s->end = end;
  Py_XDECREF(old[0]);
  Py_XDECREF(old[1]);
  Py_RETURN_TRUE;
}

void core_session_profiled(PyObject *session, bool is) { session_of(session)->profiled = is; }

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
  PyObject *array = status == TD_OK ? core_run_copy_of(&t) : core_raise(&err);
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
       "run(inputs, outs=None, timeout=0): a tuple with an array, a list or None for each input."},
      {"cancel", session_cancel, METH_NOARGS, "Ends the run that another thread has under way, before its next step."},
      {"steps", session_steps, METH_NOARGS, "[(the user's name, operator, kernel), ...]"},
      {"watch", session_watch, METH_VARARGS,
       "watch(begin, end) -> bool: begin(step) and end() are called around the caller's parts of steps; None, None: "
       "nobody. False: a Profile has the session."},
      {"stats", session_stats, METH_NOARGS, "Memory, runs and threads, as a dict."},
      {0}};
  static PyType_Slot slots[] = {
      {Py_tp_doc, "Session(model, threads=0, spin_us=0, pool=None, print=None, interop_threads=0)"},
      {Py_tp_new, (void *)session_new},
      {Py_tp_dealloc, (void *)session_dealloc},
      {Py_tp_methods, methods},
      {0, NULL}};
  static PyType_Spec spec = {"treadle._core.Session", sizeof(session_object), 0, Py_TPFLAGS_DEFAULT, slots};
  return core_type(&spec);
}

/* ---- for profiles, bound graphs and streams ---- */

td_pool *core_pool_of(PyObject *pool) { return pool_of(pool)->pool; }

const td_model *core_session_model(PyObject *session) {
  return ((core_model *)(void *)session_of(session)->model)->model;
}
td_session *core_session_take(PyObject *session) {
  return enter(session_of(session)) ? session_of(session)->session : NULL;
}
void core_session_give(PyObject *session) { session_of(session)->busy = false; }
