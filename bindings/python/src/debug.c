/* debug.c -- the searches of <treadle/debug.h>, whose callbacks are Python's. Python's lock is held all the while: they
 * run the model. What a callback raises ends the search, or is for the search to judge: a run that cannot be had. */
#include "run.h"

#include <stdlib.h>
#include <string.h>
#include <treadle/debug.h>
#include <treadle/experimental.h>

/* ---- callbacks ---- */

/* What was raised last: only where the search ends with it the caller sees it. */
typedef struct raised {
  PyObject *type, *value, *trace;
} raised;

static td_status keep_raised(raised *r, td_error *err) {
  Py_XDECREF(r->type);
  Py_XDECREF(r->value);
  Py_XDECREF(r->trace);
  PyErr_Fetch(&r->type, &r->value, &r->trace);
  *err = (td_error){.code = TD_INTERNAL, .offset = -1, .text = "a callback has raised an exception"};
  return TD_INTERNAL;
}

/* After a search: True where its exception, or its error, is set. */
static bool is_failure(raised *r, td_status status, const td_error *err) {
  const bool failed = status != TD_OK && status != TD_ANSWER_NO;
  if (failed && r->type) PyErr_Restore(r->type, r->value, r->trace);
  else {
    Py_XDECREF(r->type);
    Py_XDECREF(r->value);
    Py_XDECREF(r->trace);
    if (failed) core_raise(err);
  }
  *r = (raised){0};
  return failed;
}

/* ---- values ---- */

/* A list of (name, array, list of arrays or None), as values of the library. */
typedef struct value_list {
  PyObject *objects; /* names live in it */
  core_view *views;
  td_tensor *tensors;
  td_named_value *values;
  size_t count, view_count;
} value_list;

static void free_list(value_list *l) {
  for (size_t i = 0; i < l->view_count; i++) core_view_release(&l->views[i]);
  free(l->views);
  free(l->tensors);
  free(l->values);
  Py_XDECREF(l->objects);
  *l = (value_list){0};
}

static bool take_item(value_list *l, PyObject *object, const char *name) {
  if (!core_view_of(object, name, false, &l->views[l->view_count])) return false;
  const core_view *view = &l->views[l->view_count];
  l->tensors[l->view_count++] = view->tensor;
  return core_view_dense(view) || core_refuse(name, "values that are compared must be dense");
}

static bool take_value(value_list *l, PyObject *pair, td_named_value *to) {
  PyObject *object;
  if (!PyArg_ParseTuple(pair, "sO", &to->name, &object)) return false;
  to->items = &l->tensors[l->view_count];
  to->is_list = PyList_Check(object) || object == Py_None;
  to->count = to->is_list ? 0 : 1;
  if (!to->is_list) return take_item(l, object, to->name);
  for (Py_ssize_t i = 0; object != Py_None && i < PyList_Size(object); i++, to->count++)
    if (!take_item(l, PyList_GetItem(object, i), to->name)) return false;
  return true;
}

/* How many arrays there are, in lists too. */
static size_t count_items(PyObject *list) {
  size_t count = 0;
  for (Py_ssize_t i = 0; i < PyList_Size(list); i++) {
    PyObject *pair = PyList_GetItem(list, i);
    PyObject *object = PyTuple_Check(pair) && PyTuple_Size(pair) == 2 ? PyTuple_GetItem(pair, 1) : Py_None;
    count += PyList_Check(object) ? (size_t)PyList_Size(object) : 1;
  }
  return count;
}

static bool take_list(PyObject *list, value_list *to) {
  *to = (value_list){0};
  if (!PyList_Check(list)) return PyErr_Format(PyExc_TypeError, "a list of names and arrays is needed") != NULL;
  const size_t items = count_items(list);
  Py_INCREF(list);
  to->objects = list;
  to->count = (size_t)PyList_Size(list);
  to->views = calloc(items + 1, sizeof *to->views);
  to->tensors = calloc(items + 1, sizeof *to->tensors);
  to->values = calloc(to->count + 1, sizeof *to->values);
  bool taken = to->views && to->tensors && to->values;
  if (!taken) PyErr_NoMemory();
  for (size_t i = 0; taken && i < to->count; i++)
    taken = take_value(to, PyList_GetItem(list, (Py_ssize_t)i), &to->values[i]);
  if (!taken) free_list(to);
  return taken;
}

static PyObject *object_of(const td_named_value *value) {
  if (!value->is_list) return core_run_copy_of(value->items);
  PyObject *list = PyList_New((Py_ssize_t)value->count);
  for (size_t i = 0; list && i < value->count; i++) {
    PyObject *item = core_run_copy_of(&value->items[i]);
    if (!item || PyList_SetItem(list, (Py_ssize_t)i, item) != 0) Py_CLEAR(list);
  }
  return list;
}

/* [(name, array or list), ...] of those that came as values; None where there are none. */
static PyObject *objects_of(const td_named_value *values, size_t count) {
  if (!values) Py_RETURN_NONE;
  PyObject *list = PyList_New((Py_ssize_t)count);
  for (size_t i = 0; list && i < count; i++) {
    PyObject *object = object_of(&values[i]);
    PyObject *pair = object ? Py_BuildValue("(sN)", values[i].name, object) : NULL;
    if (!pair || PyList_SetItem(list, (Py_ssize_t)i, pair) != 0) Py_CLEAR(list);
  }
  return list;
}

/* ---- compare ---- */

typedef struct comparing {
  PyObject *run;
  raised raised;
} comparing;

static td_status run_way(void *user, const td_way *way, td_results *results, td_error *err) {
  static const char *const sides[] = {"eager", "expected", "judged"};
  comparing *c = user;
  value_list *list = calloc(1, sizeof *list);
  PyObject *inputs = list ? objects_of(way->inputs, way->input_count) : PyErr_NoMemory();
  PyObject *made =
      inputs ? PyObject_CallFunction(c->run, "szOOOn", sides[way->side], way->taps, way->float64 ? Py_True : Py_False,
                                     way->tapped_inputs ? Py_True : Py_False, inputs, (Py_ssize_t)way->own_count)
             : NULL;
  const bool taken = made && take_list(made, list);
  Py_XDECREF(inputs);
  Py_XDECREF(made);
  if (!taken) {
    free(list);
    return keep_raised(&c->raised, err);
  }
  results->values = list->values;
  results->count = list->count;
  results->owner = list;
  return TD_OK;
}

static void release_way(void *user, td_results *results) {
  (void)user;
  free_list(results->owner);
  free(results->owner);
}

static PyObject *row_of(const td_difference *d) {
  return Py_BuildValue("{sssssNsdsdsdsdsLsL}", "name", d->name, "verdict", d->verdict, "fails",
                       PyBool_FromLong(d->fails), "max_abs", d->absolute, "max_rel", d->relative, "ulp", d->ulp,
                       "cosine", d->cosine, "elements", (long long)d->count, "failed", (long long)d->failed);
}

/* An exception stays set: nothing else is asked of Python before the search has ended. */
static void add_row(void *user, const td_difference *d) {
  PyObject *row = row_of(d);
  if (row) PyList_Append(user, row);
  Py_XDECREF(row);
}

typedef struct answer {
  PyObject *outputs, *nodes, *first;
  int32_t differs, fused;
  bool others; /* the two ways agree, and differ from what was recorded */
} answer;

static td_status compare_runs(comparing *c, td_comparison *comparison, const td_results *recorded, bool all_nodes,
                              answer *a, td_error *err) {
  td_results expected = {.size = sizeof expected}, got = expected;
  int32_t apart = 0;
  td_status status = run_way(c, &(td_way){.size = sizeof(td_way), .side = TD_SIDE_EXPECTED}, &expected, err);
  if (status != TD_OK) return status;
  const size_t outputs = expected.count;
  status = run_way(c, &(td_way){.size = sizeof(td_way), .side = TD_SIDE_JUDGED}, &got, err);
  if (status == TD_OK) {
    status = td_comparison_outputs(comparison, &got, &expected, recorded, add_row, a->outputs, &a->differs, err);
    if (status == TD_OK && a->differs && recorded) {
      status = td_comparison_outputs(comparison, &got, &expected, NULL, NULL, NULL, &apart, err);
      a->others = !apart;
    }
    release_way(c, &got);
  }
  release_way(c, &expected);
  const bool inside = a->differs && !a->others;
  if (status != TD_OK || !(inside || all_nodes)) return status;
  td_difference found;
  status =
      td_comparison_nodes(comparison, outputs, inside, all_nodes ? add_row : NULL, a->nodes, &found, &a->fused, err);
  if (status == TD_OK) a->first = row_of(&found);
  return status;
}

/* compare(run, inputs, recorded, rtol, atol, nodes) -> dict */
PyObject *core_compare(PyObject *module, PyObject *args) {
  (void)module;
  comparing c = {0};
  value_list inputs, recorded = {0};
  PyObject *given, *known;
  int all_nodes;
  td_comparison_options options = {.size = sizeof options, .user = &c, .run = run_way, .release = release_way};
  if (!PyArg_ParseTuple(args, "OOOddp", &c.run, &given, &known, &options.rtol, &options.atol, &all_nodes)) return NULL;
  if (!take_list(given, &inputs)) return NULL;
  if (known != Py_None && !take_list(known, &recorded)) {
    free_list(&inputs);
    return NULL;
  }
  const td_results others = {.size = sizeof others, .values = recorded.values, .count = recorded.count};
  options.inputs = inputs.values;
  options.input_count = inputs.count;
  answer a = {PyList_New(0), PyList_New(0), NULL, 0, 0, false};
  td_comparison *comparison = NULL;
  td_error err = {0};
  td_status status = td_comparison_new(&options, &comparison, &err);
  if (status == TD_OK)
    status = compare_runs(&c, comparison, recorded.values ? &others : NULL, all_nodes != 0, &a, &err);
  td_comparison_free(comparison);
  free_list(&inputs);
  free_list(&recorded);
  PyObject *result = NULL;
  if (!is_failure(&c.raised, status, &err) && !PyErr_Occurred())
    result = Py_BuildValue("{sNsOsOsOsNsN}", "differs", PyBool_FromLong(a.differs), "outputs", a.outputs, "nodes",
                           a.nodes, "first", a.first ? a.first : Py_None, "fused", PyBool_FromLong(a.fused),
                           "recorded_differs", PyBool_FromLong(a.others));
  Py_XDECREF(a.outputs);
  Py_XDECREF(a.nodes);
  Py_XDECREF(a.first);
  return result;
}

/* ---- bisect ---- */

static td_status ask_differs(void *user, const char *passes, const char *kernels, int32_t *differs, td_error *err) {
  comparing *c = user;
  PyObject *said = PyObject_CallFunction(c->run, "zz", passes, kernels);
  *differs = said ? PyObject_IsTrue(said) : -1;
  Py_XDECREF(said);
  return *differs < 0 ? keep_raised(&c->raised, err) : TD_OK;
}

/* bisect(differs, passes, kernels, disabled_passes, disabled_kernels) -> (pass, kernels, trials), or None */
PyObject *core_bisect(PyObject *module, PyObject *args) {
  (void)module;
  comparing c = {0};
  td_bisection b = {.size = sizeof b, .user = &c, .differs = ask_differs};
  td_error err = {0};
  if (!PyArg_ParseTuple(args, "Osszz", &c.run, &b.passes, &b.kernels, &b.disabled_passes, &b.disabled_kernels))
    return NULL;
  b.pass = malloc(strlen(b.passes) + 1);
  b.culprits = malloc(strlen(b.kernels) + 1);
  td_status status = TD_OK;
  PyObject *result = NULL;
  if (!b.pass || !b.culprits) PyErr_NoMemory();
  else {
    status = td_bisect(&b, &err);
    if (!is_failure(&c.raised, status, &err)) {
      result = status == TD_ANSWER_NO ? Py_None : Py_BuildValue("(ssI)", b.pass, b.culprits, b.trials);
      if (result == Py_None) Py_INCREF(result);
    }
  }
  free(b.pass);
  free(b.culprits);
  return result;
}

/* ---- minify ---- */

typedef struct minifying {
  PyObject *open, *fails, *settle, *tell;
  raised raised;
  td_value_info *infos; /* of the graph that is open: first the inputs, then all values */
  PyObject *names;
} minifying;

static const char cut_name[] = "td_cut";

static bool read_info(PyObject *row, td_value_info *to) {
  const char *dtype;
  PyObject *dims;
  if (!PyArg_ParseTuple(row, "ssO!", &to->name, &dtype, &PyTuple_Type, &dims)) return false;
  to->kind = "tensor";
  to->dtype = core_dtype_of(dtype);
  to->rank = (int32_t)PyTuple_Size(dims);
  if (to->rank > TD_MAX_RANK) return PyErr_Format(PyExc_ValueError, "%s has too many dimensions", to->name) != NULL;
  for (int32_t i = 0; i < to->rank; i++) {
    to->dims[i] = PyLong_AsLongLong(PyTuple_GetItem(dims, i));
    if (PyErr_Occurred()) return false;
  }
  return true;
}

/* open(id) -> (nodes, [(name, dtype, dims), ...] of the inputs, the same of all values) */
static bool open_with(minifying *m, uint32_t id, td_minify_graph *graph) {
  Py_ssize_t nodes;
  PyObject *inputs, *values;
  Py_XDECREF(m->names);
  m->names = PyObject_CallFunction(m->open, "I", id);
  if (!m->names || !PyArg_ParseTuple(m->names, "nO!O!", &nodes, &PyList_Type, &inputs, &PyList_Type, &values))
    return false;
  const Py_ssize_t first = PyList_Size(inputs), count = PyList_Size(values);
  free(m->infos);
  m->infos = calloc((size_t)(first + count) + 1, sizeof *m->infos);
  if (!m->infos) return PyErr_NoMemory() != NULL;
  for (Py_ssize_t i = 0; i < first + count; i++)
    if (!read_info(i < first ? PyList_GetItem(inputs, i) : PyList_GetItem(values, i - first), &m->infos[i]))
      return false;
  graph->node_count = (size_t)nodes;
  graph->inputs = m->infos;
  graph->input_count = (size_t)first;
  graph->values = m->infos + first;
  graph->value_count = (size_t)count;
  return true;
}

static td_status open_graph(void *user, uint32_t id, td_minify_graph *graph, td_error *err) {
  minifying *m = user;
  return open_with(m, id, graph) ? TD_OK : keep_raised(&m->raised, err);
}

/* fails(cut) -> None, or the name of the first wrong output, "" where it is not known */
static td_status part_fails(void *user, td_cut *cut, int32_t *same, char *output, td_error *err) {
  minifying *m = user;
  const char *name = NULL;
  PyObject *capsule = PyCapsule_New(cut, cut_name, NULL);
  PyObject *said = capsule ? PyObject_CallFunctionObjArgs(m->fails, capsule, NULL) : NULL;
  const bool read = said && (said == Py_None || PyArg_Parse(said, "s", &name));
  *same = name != NULL;
  if (name) PyOS_snprintf(output, 256, "%s", name);
  Py_XDECREF(said);
  Py_XDECREF(capsule);
  return read ? TD_OK : keep_raised(&m->raised, err);
}

static td_status settle(void *user, td_cut *cut, uint32_t id, td_error *err) {
  minifying *m = user;
  PyObject *capsule = PyCapsule_New(cut, cut_name, NULL);
  PyObject *none = capsule ? PyObject_CallFunction(m->settle, "OI", capsule, id) : NULL;
  Py_XDECREF(capsule);
  if (!none) return keep_raised(&m->raised, err);
  Py_DECREF(none);
  return TD_OK;
}

static void tell(void *user, const char *strategy, size_t granularity, size_t before, size_t after) {
  minifying *m = user;
  PyObject *none =
      PyObject_CallFunction(m->tell, "snnn", strategy, (Py_ssize_t)granularity, (Py_ssize_t)before, (Py_ssize_t)after);
  if (!none) PyErr_WriteUnraisable(m->tell);
  Py_XDECREF(none);
}

/* minify(open, fails, settle, tell, output) -> (graph, nodes) */
PyObject *core_minify(PyObject *module, PyObject *args) {
  (void)module;
  minifying m = {0};
  td_minification search = {
      .size = sizeof search, .user = &m, .open = open_graph, .fails = part_fails, .settle = settle, .tell = tell};
  td_error err = {0};
  if (!PyArg_ParseTuple(args, "OOOOs", &m.open, &m.fails, &m.settle, &m.tell, &search.output)) return NULL;
  const td_status status = td_minify(&search, &err);
  free(m.infos);
  Py_XDECREF(m.names);
  if (is_failure(&m.raised, status, &err)) return NULL;
  return Py_BuildValue("(In)", search.graph, (Py_ssize_t)search.nodes);
}

/* cut_value(array, cut) -> Array: as the part takes it; of None a copy */
PyObject *core_cut_value(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *object, *capsule;
  core_view view;
  td_tensor to;
  td_error err = {0};
  if (!PyArg_ParseTuple(args, "OO", &object, &capsule)) return NULL;
  const td_cut none = {.size = sizeof none};
  const td_cut *cut = capsule == Py_None ? &none : PyCapsule_GetPointer(capsule, cut_name);
  if (!cut || !core_view_of(object, "a value", false, &view)) return NULL;
  PyObject *made = NULL;
  if (!core_view_dense(&view)) core_refuse(NULL, "a value that is cut must be dense");
  else if (td_cut_value(cut, &view.tensor, NULL, &to, &err) != TD_OK) core_raise(&err);
  else {
    const core_view part = {.tensor = to};
    void *memory = calloc((size_t)core_view_count(&part) * core_dtype_bytes(to.dtype) + 1, 1);
    if (!memory) PyErr_NoMemory();
    else if (td_cut_value(cut, &view.tensor, memory, &to, &err) == TD_OK) made = core_array_new(&to, memory);
    else free(memory), core_raise(&err);
  }
  core_view_release(&view);
  return made;
}

/* ---- graphs as text ---- */

/* Of two: the text stands first. */
static td_status append_weights(void *user, const char *bytes, size_t count) {
  return core_add_bytes((core_bytes *)user + 1, bytes, count);
}

/* Model.save_graph(weights, cut=None) -> (text, weights, nodes of the whole, [is it kept?, ...]) */
PyObject *core_save_graph(PyObject *self, PyObject *args) {
  const char *weights;
  PyObject *capsule = Py_None, *result = NULL;
  core_bytes rooms[2] = {{0}};
  td_cut whole = {.size = sizeof whole}, *cut = &whole;
  td_error err = {0};
  if (!PyArg_ParseTuple(args, "s|O", &weights, &capsule)) return NULL;
  if (capsule != Py_None && !(cut = PyCapsule_GetPointer(capsule, cut_name))) return NULL;
  const td_status status = td_model_save_graph(((core_model *)(void *)self)->model, "imported", cut, weights,
                                               core_add_bytes, append_weights, rooms, &err);
  if (status == TD_OK) {
    size_t kept = 0;
    for (size_t i = 0; cut->keep && i < cut->keep_count; i++) kept += cut->keep[i] != 0;
    result = Py_BuildValue("(y#y#nn)", rooms[0].at ? rooms[0].at : "", (Py_ssize_t)rooms[0].length,
                           rooms[1].at ? rooms[1].at : "", (Py_ssize_t)rooms[1].length, (Py_ssize_t)cut->node_count,
                           (Py_ssize_t)kept);
  } else core_raise(&err);
  free(rooms[0].at);
  free(rooms[1].at);
  return result;
}

PyObject *core_capabilities(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  size_t length = 0;
  td_error err = {0};
  if (td_capabilities(NULL, 0, &length, &err) != TD_OK) return core_raise(&err);
  char *text = malloc(length + 1);
  PyObject *made = NULL;
  if (!text) PyErr_NoMemory();
  else if (td_capabilities(text, length + 1, &length, &err) != TD_OK) core_raise(&err);
  else made = PyUnicode_FromStringAndSize(text, (Py_ssize_t)length);
  free(text);
  return made;
}
