/* pt2_build.h -- documents of torch.export as C texts, and models of them. Single quotes stand for double ones, and
 * backticks for single ones; `quote` puts them in. */
#ifndef TESTS_IMPORT_PT2_BUILD_H
#define TESTS_IMPORT_PT2_BUILD_H
#include "test.h"

#include <stdio.h>

#include "base/lack.h"
#include <treadle/treadle.h>

#define T(name) "{'as_tensor':{'name':'" name "'}}"
#define INT(n) "{'as_int':" #n "}"
#define EXPR(text) "{'as_expr':{'expr_str':'" text "'}}"
#define ARG(name, arg) "{'name':'" name "','arg':" arg ",'kind':1}"
#define NODE(target, args, outs)                                \
  "{'target':'" target "','inputs':[" args "],'outputs':[" outs \
  "],'metadata':{'stack_trace':'File \\'/home/user/"            \
  "model.py\\', line 7, in forward','nn_module_stack':'L__self__,,M;L__self__a,a.b,N'}}"
#define VALUE(name, dtype, sizes) "'" name "':{'dtype':" dtype ",'sizes':[" sizes "],'strides':[]}"
#define F32 "7"
#define I64 "5"
#define GRAPH(ins, outs, nodes, values) \
  "{'inputs':[" ins "],'outputs':[" outs "],'nodes':[" nodes "],'tensor_values':{" values "}}"
#define PARAMETER(name, key) "{'parameter':{'arg':{'name':'" name "'},'parameter_name':'" key "'}}"
#define BUFFER(name, key) "{'buffer':{'arg':{'name':'" name "'},'buffer_name':'" key "','persistent':true}}"
#define USER(name) "{'user_input':{'arg':" T(name) "}}"
#define RESULT(name) "{'user_output':{'arg':" T(name) "}}"
#define WRITES(name, key) "{'buffer_mutation':{'arg':{'name':'" name "'},'buffer_name':'" key "'}}"
#define PROGRAM(ins, outs, nodes, values, in_specs, out_specs, more)                                    \
  "{'graph_module':{'graph':" GRAPH(                                                                    \
      ins, outs, nodes, values) ",'signature':{'input_specs':[" in_specs "],'output_specs':[" out_specs \
                                "]},'module_call_graph':[]},'schema_version':{'major':8,'minor':14}" more "}"

/* `text` with double quotes. The caller frees it. */
static inline char *quote(const char *text) {
  char *copy = malloc(strlen(text) + 1);
  assert_non_null(copy);
  strcpy(copy, text);
  for (char *c = copy; *c; c++)
    if (*c == '\'' || *c == '`') *c = *c == '`' ? '\'' : '"';
  return copy;
}

typedef struct program {
  char *text;
  td_model *model;
  td_session *session;
  td_error err;
} program;

static inline td_named_tensor weight(const char *name, float *data, int32_t rank, int64_t a, int64_t b) {
  td_named_tensor w = {.name = name, .tensor = {.dtype = TD_F32, .rank = rank, .dims = {a, b}, .data = data}};
  w.strides[0] = rank == 2 ? b : 1;
  w.strides[1] = 1;
  return w;
}

static inline td_status program_load(program *p, const char *text, const td_named_tensor *weights, size_t count,
                                     const char *backend) {
  td_load_options options = {.size = sizeof options, .backend = backend};
  *p = (program){.text = quote(text)};
  return td_model_load_graph(p->text, strlen(p->text), weights, count, &options, &p->model, &p->err);
}

static inline void program_open(program *p, const char *text, const td_named_tensor *weights, size_t count,
                                const char *backend) {
  if (program_load(p, text, weights, count, backend) != TD_OK) fail_msg("%s: %s", p->err.name, p->err.text);
  if (td_session_new(p->model, NULL, &p->session, &p->err) != TD_OK) fail_msg("%s", p->err.text);
}

static inline void program_close(program *p) {
  td_session_free(p->session);
  td_model_free(p->model);
  free(p->text);
}

/* Runs on one f32 matrix (rank 2, or rank 1 where b is 0). */
static inline td_status program_run(program *p, const float *x, int64_t a, int64_t b) {
  td_tensor t = {.dtype = TD_F32, .rank = b ? 2 : 1, .dims = {a, b}, .data = (float *)(uintptr_t)x};
  td_status status = td_session_set_input(p->session, 0, &t, &p->err);
  return status == TD_OK ? td_session_run(p->session, &p->err) : status;
}

static inline void expect_floats(program *p, size_t output, const float *expected, int64_t count) {
  td_tensor t;
  if (td_session_output(p->session, output, &t, &p->err) != TD_OK) fail_msg("%s", p->err.text);
  int64_t numel = 1;
  for (int32_t i = 0; i < t.rank; i++) numel *= t.dims[i];
  assert_int_equal(numel, count);
  for (int64_t i = 0; i < count; i++) {
    float got = t.dtype == TD_F32 ? ((const float *)t.data)[i] : (float)((const int64_t *)t.data)[i];
    if (got < expected[i] - 1e-4f || got > expected[i] + 1e-4f)
      fail_msg("output %d element %d is %g, not %g", (int)output, (int)i, (double)got, (double)expected[i]);
  }
}

/* A session of the model, which is freed: loading alone may do without memory that it only wants for its own ease. */
static inline td_status use_and_free(td_model *model, td_status status, td_error *err) {
  td_session *session = NULL;
  if (status == TD_OK) status = td_session_new(model, NULL, &session, err);
  td_session_free(session);
  td_model_free(model);
  return status;
}

static inline void expect_refusal(const char *text, td_status status, const char *says) {
  program p;
  td_status got = program_load(&p, text, NULL, 0, "eager");
  if (got != status || !strstr(p.err.text, says)) fail_msg("status %d: %s\n%.300s", (int)got, p.err.text, text);
  td_model_free(p.model);
  free(p.text);
}
#endif
