/* module.c -- the module: its functions and types. */
#include "core.h"

static PyMethodDef functions[] = {
    {"load", (PyCFunction)(void (*)(void))core_load, METH_VARARGS | METH_KEYWORDS,
     "load(source, **options) -> Model: from a path (str) or an object with the buffer protocol."},
    {"load_graph", (PyCFunction)(void (*)(void))core_load_graph, METH_VARARGS | METH_KEYWORDS,
     "load_graph(program, [(name, array), ...], **options) -> Model: JSON of torch.export; arrays are kept, not "
     "copied."},
    {"save", core_save, METH_VARARGS, "save([model, ...], path as bytes): a .tdl with a variant for each."},
    {"view", core_view_address, METH_VARARGS,
     "view(address, dtype, shape, strides, owner, readonly) -> Array: memory that owner keeps alive."},
    {"type_of", core_type_of, METH_O, "type_of(array) -> (dtype, dims)"},
    {"compare", core_compare, METH_VARARGS, "compare(run, inputs, recorded, rtol, atol, nodes) -> dict"},
    {"bisect", core_bisect, METH_VARARGS,
     "bisect(differs, passes, kernels, disabled_passes, disabled_kernels) -> (pass, kernels, trials), or None."},
    {"minify", core_minify, METH_VARARGS, "minify(open, fails, settle, tell, output) -> (graph, nodes)"},
    {"cut_value", core_cut_value, METH_VARARGS, "cut_value(array, cut) -> Array: what the part takes."},
    {"capabilities", core_capabilities, METH_NOARGS, "What this build has, as JSON."},
    {"find_cpus", core_find_cpus, METH_VARARGS, "find_cpus(\"node 1\") -> [number, ...]: all hardware threads."},
    {"zeros", core_zeros, METH_VARARGS, "zeros(dtype, shape) -> Array"},
    {0}};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "treadle._core", .m_size = -1,
                                 .m_methods = functions};

static bool add_type(PyObject *module, const char *name, PyTypeObject *type) {
  if (!type) return false;
  Py_INCREF(type); /* PyModule_AddObject takes one, the variable keeps the other */
  return PyModule_AddObject(module, name, (PyObject *)type) == 0;
}

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) {
  PyObject *module = core_find_errors() ? PyModule_Create(&definition) : NULL;
  if (!module) return NULL;
  PyObject *kinds = core_option_kinds();
  if (!kinds || PyModule_AddObject(module, "options", kinds) != 0) {
    Py_XDECREF(kinds);
    Py_DECREF(module);
    return NULL;
  }
  if (add_type(module, "Array", core_array_type = core_make_array_type()) &&
      add_type(module, "Model", core_model_type = core_make_model_type()) &&
      add_type(module, "Pool", core_pool_type = core_make_pool_type()) &&
      add_type(module, "Session", core_session_type = core_make_session_type()) &&
      add_type(module, "Bound", core_make_bound_type()) && add_type(module, "Profile", core_make_profile_type()) &&
      add_type(module, "Collector", core_make_collector_type()) &&
      add_type(module, "Streams", core_make_streams_type()) &&
      PyModule_AddStringConstant(module, "version", td_version()) == 0)
    return module;
  Py_DECREF(module);
  return NULL;
}
