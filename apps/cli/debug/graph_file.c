/* graph_file.c -- a graph as a pair of files: FILE.tdir and, beside it, FILE.tdir.weights. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <treadle/experimental.h>

#include "graph_file.h"

typedef struct graph_files {
  const char *path, *weights;
  FILE *text, *bytes; /* of the weights: opened when there are some */
  td_error *err;
} graph_files;

static td_status put(FILE **file, const char *path, const char *at, size_t count, td_error *err) {
  if (!*file) *file = fopen(path, "wb");
  if (*file && fwrite(at, 1, count, *file) == count) return TD_OK;
  return base_fail(err, TD_NO_RESOURCE, path, -1, "cannot be written: %s", strerror(errno));
}

static td_status put_text(void *user, const char *at, size_t count) {
  graph_files *f = user;
  return put(&f->text, f->path, at, count, f->err);
}

static td_status put_bytes(void *user, const char *at, size_t count) {
  graph_files *f = user;
  return put(&f->bytes, f->weights, at, count, f->err);
}

static td_status close_file(FILE *file, const char *path, td_status status, td_error *err) {
  if (!file || fclose(file) == 0 || status != TD_OK) return status;
  return base_fail(err, TD_NO_RESOURCE, path, -1, "cannot be written: %s", strerror(errno));
}

td_status cli_save_graph(const td_model *model, const char *stage, td_cut *cut, const char *path, base_arena *arena,
                         td_error *err) {
  graph_files f = {.path = path, .weights = base_arena_format(arena, "%s.weights", path), .err = err};
  if (!f.weights) return base_no_memory(err, "a path");
  const char *slash = strrchr(f.weights, '/');
  unlink(f.weights); /* of a graph that stood there before; a process that has it mapped keeps it */
  unlink(path);
  td_status status =
      td_model_save_graph(model, stage, cut, slash ? slash + 1 : f.weights, put_text, put_bytes, &f, err);
  status = close_file(f.text, path, status, err);
  return close_file(f.bytes, f.weights, status, err);
}

td_status cli_save_onnx(const td_model *model, const char *path, td_error *err) {
  graph_files f = {.path = path, .err = err};
  unlink(path); /* of a model that stood there before; a process that has it mapped keeps it */
  const td_status status = td_model_save_onnx(model, put_text, &f, err);
  return close_file(f.text, path, status, err);
}

td_status cli_drop_weights(const char *path, base_arena *arena, td_error *err) {
  const char *weights = base_arena_format(arena, "%s.weights", path);
  struct stat old;
  if (!weights) return base_no_memory(err, "a path");
  if (stat(weights, &old) != 0) return TD_OK;
  if (truncate(weights, 0) == 0 && truncate(weights, old.st_size) == 0) return TD_OK;
  return base_fail(err, TD_NO_RESOURCE, weights, -1, "cannot be written: %s", strerror(errno));
}
