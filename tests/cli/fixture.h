/* fixture.h -- for tests of the command: small ONNX models and recorded values written into a folder of their own, and
 * the built `treadle` (beside the test program) run with its output caught. */
#ifndef TESTS_CLI_FIXTURE_H
#define TESTS_CLI_FIXTURE_H
#include "test.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <jansson.h>

#include "fmt/fmt.h"

typedef struct fixture {
  char start[512];   /* where the tests were started: the root of the repository */
  char folder[64];   /* removed at the end; the command runs here */
  char treadle[512]; /* the program */
  base_arena *arena;
} fixture;

/* What one run of the command did. The texts live in the fixture's arena. */
typedef struct outcome {
  int status;
  const char *out, *err;
} outcome;

static inline int fixture_open(void **state) {
  fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  assert_non_null(getcwd(f->start, sizeof f->start));
  snprintf(f->folder, sizeof f->folder, "/tmp/treadle-cli-XXXXXX");
  assert_non_null(mkdtemp(f->folder));
  f->arena = base_arena_new(&base_libc_allocator);
  assert_non_null(f->arena);
  ssize_t length = readlink("/proc/self/exe", f->treadle, sizeof f->treadle - 16);
  assert_true(length > 0);
  f->treadle[length] = 0;
  strcpy(strrchr(f->treadle, '/') + 1, "treadle");
  assert_int_equal(chdir(f->folder), 0);
  assert_int_equal(setenv("XDG_CACHE_HOME", f->folder, 1), 0);
  *state = f;
  return 0;
}

static inline int fixture_close(void **state) {
  fixture *f = *state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", f->folder);
  assert_int_equal(chdir(f->start), 0);
  assert_int_equal(system(command), 0);
  base_arena_free(f->arena);
  free(f);
  return 0;
}

static inline const char *slurp(fixture *f, const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  if (!file) fail_msg("%s: %s", path, strerror(errno));
  fseek(file, 0, SEEK_END);
  long length = ftell(file);
  rewind(file);
  char *bytes = base_arena_alloc(f->arena, (size_t)length + 1);
  assert_int_equal(fread(bytes, 1, (size_t)length, file), length);
  fclose(file);
  if (size) *size = (size_t)length;
  return bytes;
}

/* Runs `treadle ARGUMENTS` through the shell, `before` standing in front of it. */
static inline outcome run_after(fixture *f, const char *before, const char *arguments) {
  const char *command = base_arena_format(f->arena, "%s %s %s >out.txt 2>err.txt", before, f->treadle, arguments);
  int status = system(command);
  assert_true(WIFEXITED(status));
  return (outcome){WEXITSTATUS(status), slurp(f, "out.txt", NULL), slurp(f, "err.txt", NULL)};
}
/* In front of a fault that crashes: the address sanitizer does not look for the names of its stack, which takes longer
 * than all else. */
#define NO_STACK "ASAN_OPTIONS=handle_segv=0:$ASAN_OPTIONS"
static inline outcome run(fixture *f, const char *arguments) {
  return run_after(f, strstr(arguments, "--inject") ? NO_STACK : "", arguments);
}

static inline void assert_holds(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("'%s' is not in:\n%s", part, text);
}

static inline void assert_starts(const char *text, const char *start) {
  if (strncmp(text, start, strlen(start)) != 0) fail_msg("this does not start with '%s':\n%s", start, text);
}

static inline json_t *parse(const char *text) {
  json_error_t error;
  json_t *root = json_loads(text, 0, &error);
  if (!root) fail_msg("no JSON (%s):\n%s", error.text, text);
  return root;
}

/* ---- writing models ---- */

static inline void save(const char *path, const base_text *bytes) {
  assert_false(bytes->failed);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes->at, 1, bytes->length, file), bytes->length);
  assert_int_equal(fclose(file), 0);
}

static inline void save_text(const char *path, const char *text) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

/* Puts a nested message and releases it. */
static inline void put_message(base_text *out, uint32_t number, base_text *message) {
  fmt_put_bytes(out, number, message->at, message->length);
  base_text_free(message);
}

/* A ValueInfoProto of dims; a negative one is open and called "batch". */
static inline void put_value(base_text *out, uint32_t number, const char *name, td_dtype dtype, int32_t rank,
                             const int64_t *dims) {
  base_text shape = {.allocator = &base_libc_allocator}, tensor = shape, type = shape, value = shape;
  for (int32_t i = 0; i < rank; i++) {
    base_text dim = {.allocator = &base_libc_allocator};
    if (dims[i] < 0) {
      fmt_put_str(&dim, 2, "batch");
    } else {
      fmt_put_int(&dim, 1, dims[i]);
    }
    put_message(&shape, 1, &dim);
  }
  fmt_put_int(&tensor, 1, fmt_onnx_element(dtype));
  put_message(&tensor, 2, &shape);
  put_message(&type, 1, &tensor);
  fmt_put_str(&value, 1, name);
  put_message(&value, 2, &type);
  put_message(out, number, &value);
}

static inline base_text node_of(const char *op, const char *name, const char *input, const char *output) {
  base_text node = {.allocator = &base_libc_allocator};
  fmt_put_str(&node, 1, input);
  fmt_put_str(&node, 2, output);
  fmt_put_str(&node, 3, name);
  fmt_put_str(&node, 4, op);
  return node;
}

/* A ModelProto around a graph. */
static inline void save_model(const char *path, base_text *graph) {
  base_text model = {.allocator = &base_libc_allocator}, opset = model;
  fmt_put_int(&model, 1, 8);
  fmt_put_str(&opset, 1, "");
  fmt_put_int(&opset, 2, 13);
  put_message(&model, 8, &opset);
  put_message(&model, 7, graph);
  save(path, &model);
  base_text_free(&model);
}

/* One node from input `x` f32[batch, columns] to output `a/y:0` of the same type. */
static inline void save_unary(const char *path, const char *op, int64_t columns) {
  base_text graph = {.allocator = &base_libc_allocator};
  base_text node = node_of(op, "/block/one", "x", "a/y:0");
  int64_t dims[] = {-1, columns};
  put_message(&graph, 1, &node);
  fmt_put_str(&graph, 2, "g");
  put_value(&graph, 11, "x", TD_F32, 2, dims);
  put_value(&graph, 12, "a/y:0", TD_F32, 2, dims);
  save_model(path, &graph);
}

/* ---- writing values ---- */

static inline base_tensor row_of(float *values, int64_t columns) {
  return base_tensor_of(values, TD_F32, 2, (int64_t[]){1, columns});
}

static inline void save_npy(const char *path, const base_tensor *tensor) {
  base_text bytes = {.allocator = &base_libc_allocator};
  assert_int_equal(fmt_npy_write(&bytes, tensor, NULL), TD_OK);
  save(path, &bytes);
  base_text_free(&bytes);
}

static inline void save_pb(const char *path, const base_tensor *tensor) {
  base_text bytes = {.allocator = &base_libc_allocator};
  fmt_put_tensor_proto(&bytes, "v", tensor);
  save(path, &bytes);
  base_text_free(&bytes);
}

static inline base_tensor load_npy(fixture *f, const char *path) {
  size_t size;
  const char *bytes = slurp(f, path, &size);
  base_tensor tensor;
  assert_int_equal(fmt_npy_read(f->arena, bytes, size, TD_INVALID, &tensor, NULL), TD_OK);
  return tensor;
}
#endif
