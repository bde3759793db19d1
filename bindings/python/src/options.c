/* options.c -- keywords as td_load_options: the texts, flags and numbers of treadle/options.def, by their names. */
#include "core.h"

#include <stddef.h>
#include <string.h>

typedef enum option_kind { TEXT_OPTION, FLAG_OPTION, NUMBER_OPTION } option_kind;

typedef struct option_row {
  const char *name;
  option_kind kind;
  size_t at, size; /* of the field */
} option_row;

#define ROW(field, kind) {#field, kind, offsetof(td_load_options, field), sizeof(((td_load_options *)0)->field)},
#define TEXT(field) ROW(field, TEXT_OPTION)
#define FLAG(field) ROW(field, FLAG_OPTION)
#define NUMBER(field) ROW(field, NUMBER_OPTION)
#define VALUE(field)
#define OTHER(field)
static const option_row rows[] = {
#include <treadle/options.def>
};
enum { ROWS = sizeof rows / sizeof *rows };

static bool read_number(const option_row *row, PyObject *value, void *to) {
  PyObject *whole = PyNumber_Index(value);
  if (!whole) return false;
  const unsigned long long number = PyLong_AsUnsignedLongLong(whole);
  Py_DECREF(whole);
  if (PyErr_Occurred()) return false;
  const uint32_t narrow = (uint32_t)number;
  if (row->size == sizeof narrow && narrow != number)
    return core_refuse(row->name, "%s is too large; there are: 0 to 4294967295", row->name) != NULL;
  if (row->size == sizeof narrow) memcpy(to, &narrow, sizeof narrow);
  else memcpy(to, &(uint64_t){number}, sizeof(uint64_t));
  return true;
}

/* None leaves the default. */
static bool read_option(const option_row *row, PyObject *value, td_load_options *options) {
  void *to = (char *)options + row->at;
  if (value == Py_None) return true;
  if (row->kind == NUMBER_OPTION) return read_number(row, value, to);
  if (row->kind == TEXT_OPTION) {
    const char *text;
    if (!PyArg_Parse(value, "s", &text)) return false;
    memcpy(to, &text, sizeof text);
    return true;
  }
  const int flag = PyObject_IsTrue(value);
  if (flag < 0) return false;
  memcpy(to, &(int32_t){flag}, sizeof(int32_t));
  return true;
}

bool core_read_options(PyObject *keywords, td_load_options *options, PyObject **inputs) {
  *options = (td_load_options){.size = sizeof *options, .warn = core_warn};
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (keywords && PyDict_Next(keywords, &at, &key, &value)) {
    size_t i = 0;
    while (i < ROWS && PyUnicode_CompareWithASCIIString(key, rows[i].name) != 0) i++;
    if (i < ROWS) {
      if (!read_option(&rows[i], value, options)) return false;
    } else if (PyUnicode_CompareWithASCIIString(key, "dump") == 0) core_take_dump(value, options);
    else if (inputs && PyUnicode_CompareWithASCIIString(key, "inputs") == 0) *inputs = value;
    else return PyErr_Format(PyExc_TypeError, "td_load_options has no field %U for Python", key) != NULL;
  }
  return true;
}

PyObject *core_option_kinds(void) {
  static const char *const kinds[] = {"text", "flag", "number"};
  PyObject *made = PyDict_New();
  for (size_t i = 0; made && i < ROWS; i++) {
    PyObject *kind = PyUnicode_FromString(kinds[rows[i].kind]);
    if (!kind || PyDict_SetItemString(made, rows[i].name, kind) != 0) Py_CLEAR(made);
    Py_XDECREF(kind);
  }
  return made;
}
