/* profile.c -- Profile: where the time of a session's runs goes. */
#include "core.h"

#include <stdlib.h>

typedef struct profile_object {
  PyObject_HEAD;
  td_profile *profile;
  PyObject *session; /* kept alive */
} profile_object;

static profile_object *profile_of(PyObject *self) { return (profile_object *)(void *)self; }

static PyObject *profile_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  static char *names[] = {"session", "records", "skip", "wait", "warmup", "active", "repeat", NULL};
  td_profile_options o = {.size = sizeof o};
  PyObject *session;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!|IIIIII", names, core_session_type, &session, &o.records, &o.skip,
                                   &o.wait, &o.warmup, &o.active, &o.repeat))
    return NULL;
  allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  profile_object *self = (profile_object *)(void *)alloc(type, 0);
  if (!self) return NULL;
  td_session *native = core_session_take(session);
  if (!native) {
    Py_DECREF(self);
    return NULL;
  }
  td_error err = {0};
  const td_status status = td_profile_new(native, &o, &self->profile, &err);
  core_session_give(session);
  if (status != TD_OK) {
    Py_DECREF(self);
    return core_raise(&err);
  }
  Py_INCREF(session);
  self->session = session;
  core_session_profiled(session, true);
  return (PyObject *)self;
}

static void profile_dealloc(PyObject *self) {
  td_profile_free(profile_of(self)->profile);
  Py_XDECREF(profile_of(self)->session);
  core_free_object(self);
}

static PyObject *profile_write(PyObject *self, PyObject *args) {
  td_profile_view view = {.size = sizeof view};
  unsigned int limit = 0;
  if (!PyArg_ParseTuple(args, "s|zzI", &view.form, &view.group, &view.sort, &limit)) return NULL;
  view.limit = limit;
  if (!core_session_take(profile_of(self)->session)) return NULL;
  core_bytes t = {0};
  td_error err = {0};
  const td_status status = td_profile_write(profile_of(self)->profile, &view, core_add_bytes, &t, &err);
  core_session_give(profile_of(self)->session);
  PyObject *result =
      status == TD_OK ? PyUnicode_DecodeUTF8(t.at ? t.at : "", (Py_ssize_t)t.length, "replace") : core_raise(&err);
  free(t.at);
  return result;
}

static PyObject *profile_totals(PyObject *self, PyObject *unused) {
  (void)unused;
  td_profile_totals t = {.size = sizeof t};
  td_error err = {0};
  if (!core_session_take(profile_of(self)->session)) return NULL;
  const td_status status = td_profile_get_totals(profile_of(self)->profile, &t, &err);
  core_session_give(profile_of(self)->session);
  if (status != TD_OK) return core_raise(&err);
  return Py_BuildValue("{s:K,s:I,s:d,s:d,s:d,s:d,s:d}", "runs", (unsigned long long)t.runs, "threads", t.threads,
                       "run_ms", t.run_ms, "self_ms", t.self_ms, "wait_ms", t.wait_ms, "between_ms", t.between_ms,
                       "busy_ms", t.busy_ms);
}

/* Ends the recording, which stays to be read; what comes then is not recorded. */
static PyObject *profile_stop(PyObject *self, PyObject *unused) {
  (void)unused;
  td_session *native = core_session_take(profile_of(self)->session);
  if (!native) return NULL;
  td_session_observe(native, NULL, NULL);
  core_session_profiled(profile_of(self)->session, false);
  core_session_give(profile_of(self)->session);
  Py_RETURN_NONE;
}

PyTypeObject *core_make_profile_type(void) {
  static PyMethodDef methods[] = {
      {"write", profile_write, METH_VARARGS, "write(form, group=None, sort=None, limit=0) -> str"},
      {"totals", profile_totals, METH_NOARGS, "Runs, threads and times, as a dict."},
      {"stop", profile_stop, METH_NOARGS, "Records no more; what was recorded stays."},
      {0}};
  static PyType_Slot slots[] = {
      {Py_tp_doc, "Profile(session, records=0, skip=0, wait=0, warmup=0, active=0, repeat=0)"},
      {Py_tp_new, (void *)profile_new},
      {Py_tp_dealloc, (void *)profile_dealloc},
      {Py_tp_methods, methods},
      {0, NULL}};
  static PyType_Spec spec = {"treadle._core.Profile", sizeof(profile_object), 0, Py_TPFLAGS_DEFAULT, slots};
  return core_type(&spec);
}
