/* artifact.h -- models saved and loaded again through the public interface, and what they answer. */
#ifndef TESTS_API_ARTIFACT_H
#define TESTS_API_ARTIFACT_H
#include "test.h"

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include <sys/wait.h>

#include <treadle/experimental.h>
#include <treadle/treadle.h>

static td_error err;

typedef struct folder {
  char path[64], file[96];
} folder;

static inline int open_folder(void **state) {
  folder *f = calloc(1, sizeof *f);
  assert_non_null(f);
  strcpy(f->path, "/tmp/treadle-artifact-XXXXXX");
  assert_non_null(mkdtemp(f->path));
  snprintf(f->file, sizeof f->file, "%s/net.tdl", f->path);
  *state = f;
  return 0;
}

static inline int close_folder(void **state) {
  folder *f = *state;
  unlink(f->file);
  assert_int_equal(rmdir(f->path), 0);
  free(f);
  return 0;
}

static inline td_model *load(const char *path, const char *isa) {
  const td_load_options options = {.size = sizeof options, .isa = isa};
  td_model *model = NULL;
  if (td_model_load(path, &options, &model, &err) != TD_OK) fail_msg("%s: %s", path, err.text);
  return model;
}

static inline size_t element_bytes(td_dtype dtype) {
  static const uint8_t bytes[TD_DTYPE_COUNT] = {[TD_F32] = 4, [TD_F64] = 8, [TD_I64] = 8, [TD_I32] = 4, [TD_BOOL] = 1,
                                                [TD_U8] = 1,  [TD_I8] = 1,  [TD_F16] = 2, [TD_BF16] = 2};
  return bytes[dtype];
}

/* Something for every input; false: of a kind that is not made here. */
static inline bool feed(const td_model *model, td_session *session, void **memory) {
  for (size_t i = 0; i < td_model_input_count(model); i++) {
    td_value_info info = {.size = sizeof info};
    assert_int_equal(td_model_input(model, i, &info, &err), TD_OK);
    if (info.has_default) continue;
    td_tensor t = {.dtype = info.dtype, .rank = info.rank};
    size_t count = 1;
    if (strcmp(info.kind, "tensor") != 0 || info.rank < 0 || !element_bytes(info.dtype)) return false;
    for (int32_t k = 0; k < info.rank; k++) count *= (size_t)(t.dims[k] = info.dims[k] < 0 ? 2 : info.dims[k]);
    t.data = memory[i] = calloc(count + 1, element_bytes(info.dtype));
    for (size_t k = 0; info.dtype == TD_F32 && k < count; k++) ((float *)t.data)[k] = (float)(k % 17) * 0.25f - 1;
    if (td_session_set_input(session, i, &t, &err) != TD_OK) return false;
  }
  return true;
}

/* A number for all bits of all outputs; 0 where the model does not run on such inputs. */
static inline uint64_t answer_of(const td_model *model) {
  enum { MOST = 64 };
  void *memory[MOST] = {NULL};
  td_session *session = NULL;
  const td_session_options options = {.size = sizeof options, .threads = 1};
  uint64_t sum = 1;
  assert_true(td_model_input_count(model) <= MOST);
  assert_int_equal(td_session_new(model, &options, &session, &err), TD_OK);
  if (!feed(model, session, memory) || td_session_run(session, &err) != TD_OK) sum = 0;
  for (size_t i = 0; sum && i < td_model_output_count(model); i++) {
    td_tensor t;
    if (td_session_output(session, i, &t, &err) != TD_OK || !element_bytes(t.dtype)) continue;
    size_t bytes = element_bytes(t.dtype);
    for (int32_t k = 0; k < t.rank; k++) bytes *= (size_t)t.dims[k];
    for (size_t k = 0; k < bytes; k++) sum = (sum ^ ((const unsigned char *)t.data)[k]) * 0x100000001b3;
    sum += bytes + 1;
  }
  td_session_free(session);
  for (size_t i = 0; i < MOST; i++) free(memory[i]);
  return sum;
}

static inline uint64_t round_trip(const char *path, const char *file) {
  td_model *model = load(path, NULL);
  const uint64_t answer = answer_of(model);
  if (td_model_save((const td_model *const *)&model, 1, file, &err) != TD_OK) fail_msg("%s: %s", path, err.text);
  td_model *again = load(file, NULL);
  if (answer_of(again) != answer) fail_msg("%s: another answer when it is loaded again", path);
  td_model_stats stats = {.size = sizeof stats};
  assert_int_equal(td_model_get_stats(again, &stats, &err), TD_OK);
  assert_int_equal(stats.copied_bytes, 0);
  td_model_free(again);
  td_model_free(model);
  return answer;
}
#endif
