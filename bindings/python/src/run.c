/* run.c -- inputs, execution and outputs of one run. */
#include "run.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

bool core_run_enter(pid_t process, bool *busy, const char *forked, const char *running) {
  const char *wrong = process != getpid() ? forked : *busy ? running : NULL;
  if (wrong) return core_refuse(NULL, "%s", wrong) != NULL;
  *busy = true;
  return true;
}

bool core_run_begin(core_run *r) {
  r->input_count = td_model_input_count(r->model);
  r->output_count = td_model_output_count(r->model);
  r->inputs = calloc(r->input_count + 1, sizeof *r->inputs);
  r->outputs = calloc(r->output_count + 1, sizeof *r->outputs);
  return (r->inputs && r->outputs) || PyErr_NoMemory() != NULL;
}

void core_run_end(core_run *r) {
  for (size_t i = 0; r->inputs && i < r->input_count; i++) {
    core_view_release(&r->inputs[i].view);
    for (size_t k = 0; r->inputs[i].items && k < r->inputs[i].count; k++) core_view_release(&r->inputs[i].items[k]);
    free(r->inputs[i].items);
    free(r->inputs[i].tensors);
  }
  for (size_t i = 0; r->outputs && i < r->output_count; i++) {
    core_view_release(&r->outputs[i].given);
    if (r->outputs[i].managed) core_exchange_free(r->outputs[i].managed);
    else free(r->outputs[i].memory);
  }
  free(r->inputs);
  free(r->outputs);
}

/* ---- what goes in ---- */

static bool take_list(PyObject *list, const char *name, core_run_input *input) {
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

bool core_run_take_inputs(core_run *r, PyObject *given) {
  if (PyTuple_Size(given) != (Py_ssize_t)r->input_count)
    return core_refuse(NULL, "%zd inputs were given; the model takes %zu", PyTuple_Size(given), r->input_count) != NULL;
  for (size_t i = 0; i < r->input_count; i++) {
    PyObject *object = PyTuple_GetItem(given, (Py_ssize_t)i);
    td_value_info info = {.size = sizeof info};
    if (object == Py_None) continue;
    if (td_model_input(r->model, i, &info, &r->err) != TD_OK) return core_raise(&r->err) != NULL;
    if (PyList_Check(object) || PyTuple_Check(object)) {
      if (!take_list(object, info.name, &r->inputs[i])) return false;
    } else {
      if (!core_view_of(object, info.name, false, &r->inputs[i].view)) return false;
      r->inputs[i].what = TENSOR;
    }
  }
  return true;
}

bool core_run_take_outputs(core_run *r, PyObject *given) {
  if (given == Py_None) return true;
  if (!PyTuple_Check(given) || PyTuple_Size(given) != (Py_ssize_t)r->output_count)
    return core_refuse(NULL, "out: one array or None for each of the %zu outputs", r->output_count) != NULL;
  for (size_t i = 0; i < r->output_count; i++) {
    PyObject *object = PyTuple_GetItem(given, (Py_ssize_t)i);
    td_value_info info = {.size = sizeof info};
    if (object == Py_None) continue;
    if (td_model_output(r->model, i, &info, &r->err) != TD_OK) return core_raise(&r->err) != NULL;
    if (!core_view_of(object, info.name, true, &r->outputs[i].given)) return false;
    if (!core_view_dense(&r->outputs[i].given))
      return core_refuse(info.name, "out: the memory for %s is not dense", info.name) != NULL;
    r->outputs[i].has_given = true;
  }
  return true;
}

/* ---- without Python's lock ---- */

static td_status set_input(core_run *r, size_t i) {
  const core_run_input *in = &r->inputs[i];
  if (in->what == LIST) return td_session_set_input_list(r->session, i, in->tensors, in->count, &r->err);
  if (in->what == NOT_GIVEN) return td_session_clear_input(r->session, i, &r->err);
  return td_session_set_input_strided(r->session, i, &in->view.tensor, in->view.strides, &r->err);
}

/* Large results are of large pages: the system clears their memory anew for each call, which with small ones takes
 * several times as long. */
static void *new_memory(const td_tensor *t) {
  enum { ALIGN = 64, LARGE_PAGE = 2 << 20, LARGE = 2 * LARGE_PAGE };
  size_t bytes = core_dtype_bytes(t->dtype);
  for (int32_t k = 0; k < t->rank; k++) bytes *= (size_t)t->dims[k]; /* the plan was made for them: no overflow */
  const size_t align = bytes >= LARGE ? LARGE_PAGE : ALIGN, whole = (bytes / align + 1) * align;
  void *memory = aligned_alloc(align, whole);
#if defined MADV_HUGEPAGE
  if (memory && align == LARGE_PAGE) madvise(memory, whole, MADV_HUGEPAGE);
#endif
  return memory;
}

bool core_run_new_output(core_run *r, size_t i) {
  core_run_output *out = &r->outputs[i];
  if (r->exchange) {
    out->managed = core_exchange_new(r->exchange, &out->tensor, &out->tensor.data);
    return out->managed != NULL;
  }
  out->memory = out->tensor.data = new_memory(&out->tensor);
  return out->memory != NULL;
}

static td_status bind_output(core_run *r, size_t i) {
  core_run_output *out = &r->outputs[i];
  if (out->has_given) return td_session_bind_output(r->session, i, &out->given.tensor, &r->err);
  td_status status = td_session_predict_output(r->session, i, &out->tensor, &r->err);
  if (status != TD_OK && status != TD_ANSWER_NO) return status;
  if (status == TD_ANSWER_NO || !core_dtype_bytes(out->tensor.dtype))
    return td_session_bind_output(r->session, i, NULL, &r->err);
  if (core_run_new_output(r, i)) return td_session_bind_output(r->session, i, &out->tensor, &r->err);
  r->err = (td_error){.code = TD_NO_RESOURCE, .offset = -1, .text = "out of memory for an output"};
  return TD_NO_RESOURCE;
}

td_status core_run_execute(core_run *r) {
  td_status status = TD_OK;
  for (size_t i = 0; status == TD_OK && i < r->input_count; i++) status = set_input(r, i);
  for (size_t i = 0; status == TD_OK && i < r->output_count; i++) status = bind_output(r, i);
  const td_run_options limits = {.size = sizeof limits, .deadline_ns = r->deadline_ns, .cancel = r->cancel};
  return status == TD_OK ? td_session_run_with(r->session, &limits, &r->err) : status;
}

/* ---- what comes out ---- */

static void copy_elements(const td_tensor *to, const td_tensor *from) {
  const core_view view = {.tensor = *from};
  const int64_t count = core_view_count(&view);
  if (count) memcpy(to->data, from->data, (size_t)count * core_dtype_bytes(from->dtype));
}

PyObject *core_run_copy_of(const td_tensor *from) {
  if (!core_dtype_bytes(from->dtype))
    return PyErr_Format(PyExc_NotImplementedError, "outputs of type %s cannot be given to Python",
                        td_dtype_name(from->dtype));
  td_tensor t = *from;
  t.data = new_memory(&t);
  if (!t.data) return PyErr_NoMemory();
  copy_elements(&t, from);
  return core_array_new(&t, t.data);
}

static PyObject *copy_exchanged(const core_run *r, const td_tensor *from) {
  td_tensor t = *from;
  void *managed = core_exchange_new(r->exchange, &t, &t.data);
  if (!managed) return PyErr_NoMemory();
  copy_elements(&t, from);
  return core_exchange_object(r->exchange, managed);
}

static PyObject *copy_item(core_run *r, size_t i, size_t item) {
  td_tensor t;
  if (td_session_output_item(r->session, i, item, &t, &r->err) != TD_OK) return core_raise(&r->err);
  return r->exchange && core_dtype_bytes(t.dtype) ? copy_exchanged(r, &t) : core_run_copy_of(&t);
}

static PyObject *copy_output(core_run *r, size_t i) {
  td_value_info info = {.size = sizeof info};
  size_t count;
  if (td_model_output(r->model, i, &info, &r->err) != TD_OK ||
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

PyObject *core_run_output_object(core_run *r, size_t i, PyObject *given) {
  core_run_output *out = &r->outputs[i];
  if (out->has_given) {
    PyObject *object = PyTuple_GetItem(given, (Py_ssize_t)i);
    Py_XINCREF(object);
    return object;
  }
  if (out->managed) {
    void *managed = out->managed;
    out->managed = NULL;
    return core_exchange_object(r->exchange, managed);
  }
  if (!out->memory) return copy_output(r, i);
  void *memory = out->memory;
  out->memory = NULL;
  return core_array_new(&out->tensor, memory);
}

PyObject *core_run_output_objects(core_run *r, PyObject *given) {
  PyObject *list = PyList_New((Py_ssize_t)r->output_count);
  for (size_t i = 0; list && i < r->output_count; i++) {
    PyObject *object = core_run_output_object(r, i, given);
    if (!object || PyList_SetItem(list, (Py_ssize_t)i, object) != 0) Py_CLEAR(list);
  }
  return list;
}
