/* model.c -- Model: a loaded td_model, and the bytes that it lies in. */
#include "core.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static core_model *model_of(PyObject *self) { return (core_model *)(void *)self; }

static void dealloc(PyObject *self) {
  if (model_of(self)->process == getpid()) td_model_free(model_of(self)->model);
  core_view_release(&model_of(self)->source);
  Py_XDECREF(model_of(self)->keep);
  core_free_object(self);
}

PyObject *core_model_new(td_model *model, PyObject *keep) {
  allocfunc alloc = (allocfunc)PyType_GetSlot(core_model_type, Py_tp_alloc);
  core_model *self = (core_model *)(void *)alloc(core_model_type, 0);
  if (!self) return NULL;
  Py_XINCREF(keep);
  self->model = model;
  self->keep = keep;
  self->process = getpid();
  return (PyObject *)self;
}

/* ---- load ---- */

/* A path has been made bytes by os.fsencode; anything else is the file itself. */
static bool take_source(PyObject *source, bool from_memory, const char **path, core_view *view) {
  *path = NULL;
  if (from_memory) return core_view_of(source, "the model", false, view);
  *path = PyBytes_AsString(source);
  return *path != NULL;
}

/* A name comes as bytes, which it points into. */
static bool read_dim(PyObject *dim, int64_t *size, const char **symbol) {
  *size = -1;
  if (dim == Py_None) return true;
  if (PyBytes_Check(dim)) return (*symbol = PyBytes_AsString(dim)) != NULL;
  *size = PyLong_AsLongLong(dim);
  return !PyErr_Occurred();
}

/* One (dtype, dims), (dtype, dims, is it complex) or those and a name as bytes, and whether that is a path: None among
 * the dims is an open one, and so is a name, equal ones being of equal size. */
static bool read_spec(PyObject *pair, td_input_spec *spec) {
  const char *dtype, *name = NULL;
  PyObject *dims;
  int is_complex = 0, is_path = 0;
  if (!PyArg_ParseTuple(pair, "sO!|pyp", &dtype, &PyTuple_Type, &dims, &is_complex, &name, &is_path)) return false;
  *spec = (td_input_spec){.name = is_path ? NULL : name,
                          .path = is_path ? name : NULL,
                          .dtype = core_dtype_of(dtype),
                          .rank = (int32_t)PyTuple_Size(dims),
                          .is_complex = is_complex};
  if (spec->dtype == TD_INVALID || spec->rank > TD_MAX_RANK)
    return PyErr_Format(PyExc_ValueError, "an input of %s and %zd dimensions is not supported", dtype,
                        PyTuple_Size(dims)) != NULL;
  for (int32_t i = 0; i < spec->rank; i++)
    if (!read_dim(PyTuple_GetItem(dims, i), &spec->dims[i], &spec->symbols[i])) return false;
  return true;
}

/* `*specs` is malloc's. */
static bool read_specs(PyObject *list, td_load_options *options, td_input_spec **specs) {
  *specs = NULL;
  if (list == Py_None) return true;
  const Py_ssize_t count = PyList_Size(list);
  if (count < 0) return false;
  *specs = calloc((size_t)count + 1, sizeof **specs);
  if (!*specs) return PyErr_NoMemory() != NULL;
  for (Py_ssize_t i = 0; i < count; i++)
    if (!read_spec(PyList_GetItem(list, i), &(*specs)[i])) return false;
  options->inputs = *specs;
  options->input_count = (size_t)count;
  return true;
}

static PyObject *load_from(PyObject *source, bool from_memory, const td_load_options *options) {
  const char *path;
  core_view view = {0};
  if (!take_source(source, from_memory, &path, &view)) return NULL;
  if (path == NULL && !core_view_dense(&view)) {
    core_view_release(&view);
    return core_refuse(NULL, "the bytes of a model must be dense");
  }
  const size_t size = path ? 0 : (size_t)core_view_count(&view) * core_dtype_bytes(view.tensor.dtype);
  td_model *model = NULL;
  td_error err = {0};
  td_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = path ? td_model_load(path, options, &model, &err)
                : td_model_load_memory(view.tensor.data, size, options, &model, &err);
  Py_END_ALLOW_THREADS;
  PyObject *self = status == TD_OK ? core_model_new(model, NULL) : core_raise(&err);
  if (self) {
    model_of(self)->source = view;
    return self;
  }
  td_model_free(model);
  core_view_release(&view);
  return NULL;
}

void core_warn(void *user, const char *text) {
  (void)user;
  const PyGILState_STATE held = PyGILState_Ensure();
  if (PyErr_WarnEx(PyExc_RuntimeWarning, text, 1) < 0) PyErr_WriteUnraisable(NULL); /* the loading goes on */
  PyGILState_Release(held);
}

td_status core_dump(void *user, const char *name, const char *bytes, size_t count) {
  const PyGILState_STATE held = PyGILState_Ensure();
  PyObject *none = PyObject_CallFunction(user, "sy#", name, bytes ? bytes : "", (Py_ssize_t)count);
  if (!none) PyErr_WriteUnraisable(user);
  Py_XDECREF(none);
  PyGILState_Release(held);
  return none ? TD_OK : TD_NO_RESOURCE;
}

void core_take_dump(PyObject *dump, td_load_options *options) {
  if (dump == Py_None) return;
  options->dump = core_dump;
  options->dump_user = dump;
}

PyObject *core_load(PyObject *module, PyObject *args, PyObject *keywords) {
  (void)module;
  PyObject *source, *inputs = Py_None;
  int from_memory = 0;
  td_load_options options;
  if (!PyArg_ParseTuple(args, "O|p", &source, &from_memory) || !core_read_options(keywords, &options, &inputs))
    return NULL;
  td_input_spec *specs;
  PyObject *self = read_specs(inputs, &options, &specs) ? load_from(source, from_memory != 0, &options) : NULL;
  free(specs);
  return self;
}

enum { VARIANTS = 8 };

PyObject *core_save(PyObject *module, PyObject *args) {
  (void)module;
  const td_model *models[VARIANTS];
  const char *path;
  PyObject *list;
  if (!PyArg_ParseTuple(args, "O!y", &PyList_Type, &list, &path)) return NULL;
  const Py_ssize_t count = PyList_Size(list);
  if (count > VARIANTS) return core_refuse("isa", "more than %d instruction sets", VARIANTS);
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *model = PyList_GetItem(list, i);
    if (Py_TYPE(model) != core_model_type) return PyErr_Format(PyExc_TypeError, "%R is no treadle._core.Model", model);
    models[i] = model_of(model)->model;
  }
  td_error err = {0};
  td_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = td_model_save(models, (size_t)count, path, &err);
  Py_END_ALLOW_THREADS;
  if (status != TD_OK) return core_raise(&err);
  Py_RETURN_NONE;
}

/* type_of(array) -> (dtype, dims) */
PyObject *core_type_of(PyObject *module, PyObject *object) {
  (void)module;
  core_view view;
  if (!core_view_of(object, "an input", false, &view)) return NULL;
  PyObject *dims = core_tuple_of(view.tensor.dims, view.tensor.rank);
  PyObject *type = dims ? Py_BuildValue("(sN)", td_dtype_name(view.tensor.dtype), dims) : NULL;
  core_view_release(&view);
  return type;
}

/* ---- describe ---- */

/* A tuple of ints, names, and None for what is open; None where not even the rank is fixed. */
static PyObject *dims_of(const td_value_info *info) {
  if (info->rank < 0) Py_RETURN_NONE;
  PyObject *dims = PyTuple_New(info->rank);
  for (int32_t i = 0; dims && i < info->rank; i++) {
    PyObject *dim = NULL;
    if (info->dims[i] >= 0) dim = PyLong_FromLongLong(info->dims[i]);
    else if (info->symbols[i]) dim = PyUnicode_FromString(info->symbols[i]);
    else {
      Py_INCREF(Py_None);
      dim = Py_None;
    }
    if (!dim || PyTuple_SetItem(dims, i, dim) != 0) Py_CLEAR(dims);
  }
  return dims;
}

static PyObject *describe(PyObject *self, size_t count,
                          td_status (*get)(const td_model *, size_t, td_value_info *, td_error *)) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < count; i++) {
    td_value_info info = {.size = sizeof info};
    td_error err;
    if (get(model_of(self)->model, i, &info, &err) != TD_OK) {
      Py_DECREF(list);
      return core_raise(&err);
    }
    PyObject *dims = dims_of(&info);
    PyObject *row = dims ? Py_BuildValue("(sssNNN)", info.name, info.kind,
                                         info.dtype == TD_INVALID ? "" : td_dtype_name(info.dtype), dims,
                                         PyBool_FromLong(info.has_default), PyBool_FromLong(info.is_complex))
                         : NULL;
    if (!row || PyList_Append(list, row) != 0) Py_CLEAR(list);
    Py_XDECREF(row);
  }
  return list;
}

static PyObject *inputs(PyObject *self, PyObject *unused) {
  (void)unused;
  return describe(self, td_model_input_count(model_of(self)->model), td_model_input);
}

static PyObject *outputs(PyObject *self, PyObject *unused) {
  (void)unused;
  return describe(self, td_model_output_count(model_of(self)->model), td_model_output);
}

static PyObject *states(PyObject *self, PyObject *unused) {
  (void)unused;
  return describe(self, td_model_state_count(model_of(self)->model), td_model_state);
}

static PyObject *stats(PyObject *self, PyObject *unused) {
  (void)unused;
  td_model_stats s = {.size = sizeof s};
  td_error err;
  if (td_model_get_stats(model_of(self)->model, &s, &err) != TD_OK) return core_raise(&err);
  return Py_BuildValue("{sKsKsIsIsdsdsdsdss}", "weights_bytes", (unsigned long long)s.weights_bytes, "copied_bytes",
                       (unsigned long long)s.copied_bytes, "nodes", s.nodes, "steps", s.steps, "load_ms", s.load_ms,
                       "compile_ms", s.compile_ms, "gflop", s.gflop, "gbyte", s.gbyte, "backend", s.backend);
}

static PyObject *print(PyObject *self, PyObject *args) {
  const char *stage, *format;
  char *text;
  td_error err;
  if (!PyArg_ParseTuple(args, "ss", &stage, &format)) return NULL;
  const td_model *model = model_of(self)->model;
  td_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = td_model_print(model, stage, format, &text, &err);
  Py_END_ALLOW_THREADS;
  if (status != TD_OK) return core_raise(&err);
  PyObject *result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
  td_text_free(model, text);
  return result;
}

PyTypeObject *core_make_model_type(void) {
  static PyMethodDef methods[] = {
      {"inputs", inputs, METH_NOARGS, "[(name, kind, dtype, dims or None, has_default, is_complex), ...]"},
      {"outputs", outputs, METH_NOARGS, "[(name, kind, dtype, dims or None, has_default, is_complex), ...]"},
      {"states", states, METH_NOARGS, "[(name, kind, dtype, dims or None, False), ...]"},
      {"stats", stats, METH_NOARGS, "What loading cost and the model holds, as a dict."},
      {"save_graph", core_save_graph, METH_VARARGS,
       "save_graph(weights, cut=None) -> (text, bytes of the weights, nodes of the graph, nodes kept)"},
      {"print", print, METH_VARARGS, "print(stage, format): the graph or plan as text."},
      {0}};
  static PyType_Slot slots[] = {{Py_tp_doc, "A compiled model; immutable, for any thread."},
                                {Py_tp_dealloc, (void *)dealloc},
                                {Py_tp_methods, methods},
                                {0, NULL}};
  static PyType_Spec spec = {"treadle._core.Model", sizeof(core_model), 0, Py_TPFLAGS_DEFAULT, slots};
  return core_type(&spec);
}
