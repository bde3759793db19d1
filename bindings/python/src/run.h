/* run.h -- one run of a session: prepared with Python's lock held, done without it; what came out is made objects of
 * Python with it again. */
#ifndef BINDINGS_PYTHON_RUN_H
#define BINDINGS_PYTHON_RUN_H
#include "core.h"

#include <sys/types.h>

#include <treadle/async.h>

typedef struct core_run_input {
  core_view view;
  core_view *items; /* of a list */
  td_tensor *tensors;
  size_t count; /* items */
  enum { NOT_GIVEN, TENSOR, LIST } what;
  char number[8]; /* room for an element that the view shows */
} core_run_input;

typedef struct core_run_output {
  core_view given; /* the caller's memory */
  bool has_given;
  void *memory;  /* ours, the output is bound to */
  void *managed; /* the same as a tensor of `exchange` */
  td_tensor tensor;
} core_run_output;

typedef struct core_run {
  td_session *session;
  const td_model *model;
  const core_exchange *exchange; /* outputs become its tensors; NULL: Arrays */
  core_run_input *inputs;
  core_run_output *outputs;
  size_t input_count, output_count;
  uint64_t deadline_ns; /* as in td_run_options, as is the next */
  const int32_t *cancel;
  td_error err;
} core_run;

/* What has threads and runs one call at a time becomes busy. False: an exception with one of the texts is set;
 * `process` made it, and a child of fork has no such threads. */
bool core_run_enter(pid_t process, bool *busy, const char *forked, const char *running);
/* Room for the inputs, none of them given, and outputs of `r`, whose session, model and exchange are set. False: an
 * exception is set. core_run_end is due in any case. */
bool core_run_begin(core_run *r);
void core_run_end(core_run *r);
/* A tuple of views, lists of them, and None; a tuple with memory for outputs or None, or None. */
bool core_run_take_inputs(core_run *r, PyObject *given);
bool core_run_take_outputs(core_run *r, PyObject *given);
/* Memory for output `i`, of the type and sizes of its tensor. Without Python's lock. */
bool core_run_new_output(core_run *r, size_t i);
/* Without Python's lock. */
td_status core_run_execute(core_run *r);
/* Output `i` of a run that succeeded; `given`: as core_run_take_outputs had it. */
PyObject *core_run_output_object(core_run *r, size_t i, PyObject *given);
/* A list of all. */
PyObject *core_run_output_objects(core_run *r, PyObject *given);
/* A copy as an Array. */
PyObject *core_run_copy_of(const td_tensor *from);
#endif
