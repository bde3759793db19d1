/* test_threads.c -- whole models on 1 to 64 threads: the same bits, from run to run, and on a shared pool. */
/* ctest: slow */
#include "test.h"

#include <stdio.h>

#include <treadle/treadle.h>

static const uint32_t counts[] = {1, 2, 3, 4, 8, 64};
enum { COUNTS = 6, MOST_INPUTS = 4, LONGEST = 128 /* what an open dimension becomes */ };

static void check(td_status status, const td_error *err) {
  if (status != TD_OK) fail_msg("%s: %s", err->name, err->text);
}

typedef struct fixture {
  td_model *model;
  td_tensor tensors[MOST_INPUTS];
} fixture;

/* Any values will do: floats in [-1, 1), integers 0 and 1. */
static void make_input(td_tensor *t, const td_value_info *info) {
  size_t count = 1;
  *t = (td_tensor){.dtype = info->dtype, .rank = info->rank};
  for (int32_t i = 0; i < info->rank; i++) {
    t->dims[i] = info->dims[i] >= 0 ? info->dims[i] : i == 0 ? 1 : LONGEST;
    count *= (size_t)t->dims[i];
  }
  assert_true(info->dtype == TD_F32 || info->dtype == TD_I64);
  t->data = calloc(count, 8);
  assert_non_null(t->data);
  for (size_t i = 0; i < count; i++) {
    uint32_t noise = (uint32_t)i * 2654435761u >> 16;
    if (info->dtype == TD_F32) ((float *)t->data)[i] = (float)noise / 32768 - 1;
    else ((int64_t *)t->data)[i] = noise & 1;
  }
}

static void open_model(fixture *f, const char *name) {
  td_error err;
  td_value_info info = {.size = sizeof info};
  *f = (fixture){0};
  check(td_model_load(name, NULL, &f->model, &err), &err);
  assert_true(td_model_input_count(f->model) <= MOST_INPUTS);
  for (size_t i = 0; i < td_model_input_count(f->model); i++) {
    check(td_model_input(f->model, i, &info, &err), &err);
    make_input(&f->tensors[i], &info);
  }
}

static void close_model(fixture *f) {
  for (size_t i = 0; i < MOST_INPUTS; i++) free(f->tensors[i].data);
  td_model_free(f->model);
}

/* The bytes of the first output after `runs` runs, all the same. */
static void *run_model(const fixture *f, const td_session_options *options, int runs, size_t *bytes) {
  td_error err;
  td_session *session;
  td_tensor out;
  char *first = NULL;
  check(td_session_new(f->model, options, &session, &err), &err);
  for (size_t i = 0; i < td_model_input_count(f->model); i++)
    check(td_session_set_input(session, i, &f->tensors[i], &err), &err);
  for (int run = 0; run < runs; run++) {
    check(td_session_run(session, &err), &err);
    check(td_session_output(session, 0, &out, &err), &err);
    *bytes = sizeof(float);
    for (int32_t i = 0; i < out.rank; i++) *bytes *= (size_t)out.dims[i];
    if (!first) first = memcpy(malloc(*bytes), out.data, *bytes);
    else assert_memory_equal(first, out.data, *bytes);
  }
  td_session_stats stats = {.size = sizeof stats};
  check(td_session_get_stats(session, &stats, &err), &err);
  assert_true(stats.threads >= 1 && (!options->threads || stats.threads <= options->threads));
  td_session_free(session);
  return first;
}

static void on_any_number_of_threads(const char *name) {
  fixture f;
  size_t bytes, again;
  open_model(&f, name);
  void *alone = run_model(&f, &(td_session_options){.size = sizeof(td_session_options), .threads = 1}, 1, &bytes);
  for (size_t i = 0; i < COUNTS; i++) {
    td_pool *pool;
    td_error err;
    const td_pool_options of_pool = {.size = sizeof of_pool, .threads = counts[i], .spin_us = 50};
    check(td_pool_new(&of_pool, &pool, &err), &err);
    const td_session_options own = {.size = sizeof own, .threads = counts[i]};
    const td_session_options shared = {.size = sizeof shared, .pool = pool};
    void *outs[] = {run_model(&f, &own, 2, &again), run_model(&f, &shared, 1, &again)};
    for (int k = 0; k < 2; k++) {
      assert_int_equal(again, bytes);
      assert_memory_equal(outs[k], alone, bytes);
      free(outs[k]);
    }
    td_pool_free(pool);
  }
  free(alone);
  close_model(&f);
}

static void convolutions(void **state) {
  (void)state;
  on_any_number_of_threads("builtin:mobilenet_v3_small");
}
static void dense_blocks(void **state) {
  (void)state;
  on_any_number_of_threads("builtin:densenet121");
}
static void attention(void **state) {
  (void)state;
  on_any_number_of_threads("builtin:minilm_l6");
}
static void recurrence(void **state) {
  (void)state;
  on_any_number_of_threads("builtin:small_lstm");
}

static void bad_arguments(void **state) {
  (void)state;
  td_error err;
  td_pool *pool;
  assert_int_equal(td_pool_new(NULL, NULL, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_pool_new(&(td_pool_options){0}, &pool, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_pool_new(NULL, &pool, &err), TD_OK);
  td_pool_free(pool);
  td_pool_free(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(convolutions), cmocka_unit_test(dense_blocks),
                                     cmocka_unit_test(attention), cmocka_unit_test(recurrence),
                                     cmocka_unit_test(bad_arguments)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
