/* test_specialise.c -- variants of a plan for particular sizes (td_load_options.specialise): the same answers, state
 * and errors as without, whatever sizes come in turn; one copy of what they have in common. */
/* ctest: threads */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include <treadle/treadle.h>

#include "base/base.h"

enum { FLOATS = 1 << 16, MOST_STEPS = 64, REFUSALS = 20000 };

static td_error err;

/* ---- models ---- */

static void put_floats(base_text *text, uint32_t value, const char *name, const char *dims, int count) {
  base_text_print(text, "const %%%u \"%s\": f32[%s] = {", value, name, dims);
  for (int i = 0; i < count; i++) base_text_print(text, "%s%g", i ? ", " : "", 0.01 * ((i * 37 + 11) % 41 - 20));
  base_text_print(text, "}\n");
}

static base_text new_text(void) { return (base_text){.allocator = &base_libc_allocator}; }

/* A network over pictures of any size: with numbers for them 3x3 convolutions can be Winograd's. */
static base_text pictures(void) {
  base_text text = new_text();
  base_text_print(&text, "tdir 1\ninput %%0 \"x\": f32[n, 16, h, w]\n");
  put_floats(&text, 1, "first", "16, 16, 3, 3", 16 * 16 * 9);
  put_floats(&text, 2, "last", "16, 4", 64);
  base_text_print(&text,
                  "%%3 = aten::convolution(%%0, %%1) {padding = [1, 1, 1, 1]}   # \"node first (Conv)\"\n"
                  "%%4 = aten::relu(%%3)\n"
                  "%%5 = aten::mean(%%4) {dim = [2, 3], keepdim = false}\n"
                  "%%6 = aten::matmul(%%5, %%2)\n"
                  "output \"y\" %%6\n");
  return text;
}

/* A layer over any length, with a size that is computed, and what must hold of it. */
static base_text lengths(void) {
  base_text text = new_text();
  base_text_print(&text, "tdir 1\ninput %%0 \"x\": f32[b, s, 8]\n");
  put_floats(&text, 1, "w", "8, 8", 64);
  base_text_print(&text,
                  "const %%2 \"scale\": f32[8] = {1, 2, 3, 4, 5, 6, 7, 8}\n"
                  "%%4 = aten::matmul(%%0, %%1)\n"
                  "%%5 = aten::permute(%%0) {dims = [0, 2, 1]}\n"
                  "%%6 = aten::matmul(%%4, %%5)\n"
                  "%%8 = aten::_softmax(%%6) {dim = 2}\n"
                  "%%9 = aten::matmul(%%8, %%0)\n"
                  "%%10 = aten::add(%%9, %%0)\n"
                  "%%11 = aten::native_layer_norm(%%10, %%2, %%2) {axis = 2}\n"
                  "%%12 = aten::sigmoid(%%11)\n"
                  "%%13 = aten::mul(%%12, %%10)\n"
                  "output \"y\" %%13\n"
                  "guard s <= 64 \"the sequence has at most 64 words\"\n");
  return text;
}

/* What was summed up so far is kept. */
static base_text sums(void) {
  base_text text = new_text();
  base_text_print(&text,
                  "tdir 1\nconst %%9: f32[] = {0}\n"
                  "input %%0 \"x\": f32[n]\n"
                  "state %%1 \"sum\": f32[] = %%9\n"
                  "%%2 = aten::sum(%%0) {dim = [0], keepdim = false}\n"
                  "%%3 = aten::add(%%1, %%2)\n"
                  "%%4 = aten::add(%%0, %%3)\n"
                  "output \"y\" %%4\n"
                  "store %%1 = %%3\n");
  return text;
}

/* Tasks beside each other. */
static base_text tasks(void) {
  base_text text = new_text();
  base_text_print(&text,
                  "tdir 1\ninput %%0 \"x\": f32[n]\n"
                  "%%1 = aten::add(%%0, %%0)\n"
                  "%%2 = prim::fork(): future(f32[n]) {\n"
                  "  block() {\n"
                  "    %%3 = aten::mul(%%1, %%0)\n"
                  "    yield %%3\n"
                  "  }\n"
                  "}\n"
                  "%%8 = aten::mul(%%0, %%0)\n"
                  "%%11 = prim::wait(%%2)\n"
                  "%%12 = aten::add(%%11, %%8)\n"
                  "output \"y\" %%12\n");
  return text;
}

/* ---- a model in use ---- */

typedef struct bench {
  base_counting counting;
  td_allocator allocator;
  base_text text;
  td_model *model;
  td_session *session;
  float *memory;
  uint32_t heard[MOST_STEPS]; /* steps of the last run */
  uint32_t heard_count;
} bench;

static void hear(void *user, uint32_t step) {
  bench *b = user;
  if (b->heard_count < MOST_STEPS) b->heard[b->heard_count++] = step;
}

static td_status load(const base_text *text, const char *specialise, const td_allocator *allocator, td_model **model) {
  const td_load_options options = {.size = sizeof options, .specialise = specialise, .allocator = allocator};
  return td_model_load_memory(text->at, text->length, &options, model, &err);
}

static void start(bench *b, uint32_t threads) {
  const td_session_options options = {.size = sizeof options, .threads = threads};
  b->memory = malloc(FLOATS * sizeof *b->memory);
  assert_non_null(b->memory);
  for (int i = 0; i < FLOATS; i++) b->memory[i] = (float)((i * 7) % 23 - 11) * 0.1f;
  if (td_session_new(b->model, &options, &b->session, &err) != TD_OK) fail_msg("%s", err.text);
}

static void watch(bench *b) {
  const td_observer observer = {.size = sizeof observer, .user = b, .begin = hear};
  assert_int_equal(td_session_observe(b->session, &observer, &err), TD_OK);
}

static void bench_open(bench *b, base_text text, const char *specialise) {
  *b = (bench){.counting = {.inner = &base_libc_allocator}, .text = text};
  b->allocator = base_counting_allocator(&b->counting);
  if (load(&text, specialise, &b->allocator, &b->model) != TD_OK) fail_msg("%s: %s", err.name, err.text);
  start(b, 1);
}

static void bench_close(bench *b) {
  td_session_free(b->session);
  td_model_free(b->model);
  base_text_free(&b->text);
  free(b->memory);
  assert_int_equal(b->counting.live, 0);
}

static td_model_stats stats_of(const td_model *model) {
  td_model_stats stats = {.size = sizeof stats};
  assert_int_equal(td_model_get_stats(model, &stats, &err), TD_OK);
  return stats;
}

/* Output 0 over an input of these dims, in memory of its own. */
static float *run(bench *b, int32_t rank, const int64_t *dims, size_t *count) {
  td_tensor x = {.dtype = TD_F32, .rank = rank, .data = b->memory}, y;
  memcpy(x.dims, dims, (size_t)rank * sizeof *dims);
  b->heard_count = 0;
  if (td_session_set_input(b->session, 0, &x, &err) != TD_OK || td_session_run(b->session, &err) != TD_OK)
    fail_msg("%s: %s", err.name, err.text);
  assert_int_equal(td_session_output(b->session, 0, &y, &err), TD_OK);
  *count = 1;
  for (int32_t i = 0; i < y.rank; i++) *count *= (size_t)y.dims[i];
  float *copy = malloc((*count + 1) * sizeof *copy);
  assert_non_null(copy);
  if (*count) memcpy(copy, y.data, *count * sizeof *copy);
  return copy;
}

/* What the plan of the last run is for. */
static const char *variant_of(bench *b) {
  td_step step = {.size = sizeof step};
  assert_true(b->heard_count > 0);
  assert_int_equal(td_session_get_step(b->session, b->heard[0], &step, &err), TD_OK);
  assert_true(step.write_bytes > 0 || step.flops > 0 || b->heard_count > 1);
  return step.variant;
}

static void expect_same(bench *general, bench *special, int32_t rank, const int64_t *dims, double tolerance) {
  size_t counts[2];
  float *a = run(general, rank, dims, &counts[0]), *b = run(special, rank, dims, &counts[1]);
  assert_int_equal(counts[0], counts[1]);
  for (size_t i = 0; i < counts[0]; i++)
    if (!(fabs((double)a[i] - (double)b[i]) <= tolerance))
      fail_msg("element %zu: %g, %g", i, (double)a[i], (double)b[i]);
  free(a);
  free(b);
}

/* ---- tests ---- */

static void answers_are_the_same(void **state) {
  (void)state;
  static const int64_t sizes[][4] = {{1, 16, 24, 24}, {1, 16, 7, 9},   {2, 16, 24, 24}, {3, 16, 24, 25},
                                     {1, 16, 24, 24}, {0, 16, 24, 24}, {2, 16, 12, 24}};
  static const char *const expected[] = {"h=24 w=24", "", "h=24 w=24", "", "h=24 w=24", "h=24 w=24", "h=12 w=24"};
  bench general, special;
  bench_open(&general, pictures(), NULL);
  bench_open(&special, pictures(), "h=12,24 w=24");
  watch(&special);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    expect_same(&general, &special, 4, sizes[i], 1e-4);
    assert_string_equal(variant_of(&special), expected[i]);
  }
  assert_int_equal(stats_of(special.model).variants, 2);
  bench_close(&special);
  bench_close(&general);
}

/* Where kernels are the same, so are the bits; and lists stand side by side. */
static void bits_are_the_same(void **state) {
  (void)state;
  static const int64_t sizes[][3] = {{2, 16, 8}, {1, 1, 8}, {1, 0, 8}, {2, 64, 8}, {4, 5, 8}, {2, 5, 8}};
  static const char *const expected[] = {"s=16", "s=1", "s=0", "", "b=4 s=5", ""};
  bench general, special;
  bench_open(&general, lengths(), "");
  bench_open(&special, lengths(), "s=0,1,16; b=4 s=5");
  watch(&special);
  for (int round = 0; round < 3; round++)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      expect_same(&general, &special, 3, sizes[i], 0);
      assert_string_equal(variant_of(&special), expected[i]);
    }
  bench_close(&special);
  bench_close(&general);
}

/* A size that was seen takes nothing from the allocator again, and memory is that of the largest. */
static void sizes_in_turn_cost_nothing(void **state) {
  (void)state;
  bench b;
  uint64_t made = 0, bytes = 0;
  bench_open(&b, lengths(), "s=8,32");
  for (int round = 0; round < 4; round++) {
    if (round == 1) made = b.counting.made, bytes = b.counting.live_bytes;
    for (int64_t s = 40; s > 0; s -= 4) {
      size_t count;
      free(run(&b, 3, (int64_t[]){2, s, 8}, &count));
    }
  }
  assert_int_equal(b.counting.made, made);
  assert_int_equal(b.counting.live_bytes, bytes);
  bench_close(&b);
}

/* A session has one state, whichever plan runs. Sums of a few known elements add in another order than others do. */
static void state_is_the_session_s(void **state) {
  (void)state;
  static const int64_t sizes[] = {3, 4, 4, 1, 8, 3, 0, 4};
  bench general, special;
  bench_open(&general, sums(), NULL);
  bench_open(&special, sums(), "n=4,8,0");
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    td_tensor a, b;
    expect_same(&general, &special, 1, &sizes[i], 1e-6);
    assert_int_equal(td_session_state(general.session, 0, &a, &err), TD_OK);
    assert_int_equal(td_session_state(special.session, 0, &b, &err), TD_OK);
    assert_float_equal(*(float *)a.data, *(float *)b.data, 1e-6);
    if (i == 5) assert_int_equal(td_session_reset(general.session, &err), TD_OK);
    if (i == 5) assert_int_equal(td_session_reset(special.session, &err), TD_OK);
  }
  bench_close(&special);
  bench_close(&general);
}

/* A run that fails changes no state, and the next one of another size is as if it had not been. */
static void failures_leave_no_trace(void **state) {
  (void)state;
  bench b;
  size_t count;
  bench_open(&b, lengths(), "s=8");
  free(run(&b, 3, (int64_t[]){1, 8, 8}, &count));
  for (int i = 0; i < 3; i++) {
    const td_tensor x = {.dtype = TD_F32, .rank = 3, .dims = {1, 65, 8}, .data = b.memory};
    assert_int_equal(td_session_set_input(b.session, 0, &x, &err), TD_OK);
    assert_int_equal(td_session_run(b.session, &err), TD_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "at most 64 words; here 65 <= 64 does not hold"));
    free(run(&b, 3, (int64_t[]){1, 8 + i, 8}, &count));
    assert_int_equal(count, (8 + i) * 8);
  }
  bench_close(&b);
}

static void outputs_go_to_memory(void **state) {
  (void)state;
  bench b;
  float *to = calloc(4096, sizeof *to);
  bench_open(&b, lengths(), "s=8");
  for (int64_t s = 7; s < 10; s++) {
    const td_tensor x = {.dtype = TD_F32, .rank = 3, .dims = {1, s, 8}, .data = b.memory};
    const td_tensor y = {.dtype = TD_F32, .rank = 3, .dims = {1, s, 8}, .data = to};
    size_t count;
    td_tensor predicted;
    assert_int_equal(td_session_bind_output(b.session, 0, NULL, &err), TD_OK);
    float *expected = run(&b, 3, x.dims, &count);
    assert_int_equal(td_session_bind_output(b.session, 0, &y, &err), TD_OK);
    assert_int_equal(td_session_predict_output(b.session, 0, &predicted, &err), TD_OK);
    assert_int_equal(predicted.dims[1], s);
    assert_int_equal(td_session_run(b.session, &err), TD_OK);
    assert_memory_equal(to, expected, count * sizeof *to);
    free(expected);
  }
  bench_close(&b);
  free(to);
}

static void tasks_and_threads(void **state) {
  (void)state;
  bench b;
  bench_open(&b, tasks(), "n=3,5000");
  td_session_free(b.session);
  free(b.memory);
  start(&b, 3);
  for (int round = 0; round < 20; round++)
    for (int64_t n = 2; n < 10000; n = n < 6 ? n + 1 : n < 5000 ? 5000 : n * 2) {
      size_t count;
      float *y = run(&b, 1, &n, &count);
      for (size_t i = 0; i < count; i++) {
        const float x = b.memory[i];
        assert_true(fabsf(y[i] - 3 * x * x) < 1e-5f);
      }
      free(y);
    }
  bench_close(&b);
}

static void expect_refusal(base_text text, const char *specialise, td_status status, const char *part) {
  td_model *model = NULL;
  assert_int_equal(load(&text, specialise, NULL, &model), status);
  if (!strstr(err.text, part)) fail_msg("'%s' is not in: %s", part, err.text);
  base_text_free(&text);
}

static void errors_say_what_to_do(void **state) {
  (void)state;
  expect_refusal(lengths(), "q=4", TD_BAD_ARGUMENT, "no open dimension called q to specialise for; there are: b, s");
  expect_refusal(lengths(), "s=65", TD_BAD_ARGUMENT,
                 "cannot be specialised for s=65: the sequence has at most 64 words; here 65 <= 64 does not hold; "
                 "leave that out");
  static const char *const misspelt[] = {"s",      "s=",     "=4",      "s=-1", "s=4,",
                                         "s=4,,5", "s=four", "s=4 s=5", "s 4",  "s=99999999999999999999"};
  for (size_t i = 0; i < sizeof misspelt / sizeof *misspelt; i++)
    expect_refusal(lengths(), misspelt[i], TD_BAD_ARGUMENT, "write NAME=SIZE,SIZE..., as in batch=1,8 seq=128");
  expect_refusal(lengths(), "s=1,2,3,4,5,6 b=1,2,3,4,5,6", TD_BAD_ARGUMENT, "32 combinations of sizes, no more");
  base_text fixed = new_text();
  base_text_print(&fixed, "tdir 1\ninput %%0 \"x\": f32[2]\n%%1 = aten::neg(%%0)\noutput \"y\" %%1\n");
  expect_refusal(fixed, "n=2", TD_BAD_ARGUMENT, "all of its dimensions are fixed already");
  base_text narrow = new_text();
  base_text_print(&narrow,
                  "tdir 1\ninput %%0 \"x\": f32[n]\nconst %%1: f32[3] = {1, 2, 3}\n"
                  "%%2 = aten::add(%%0, %%1)   # \"node sum (Add)\"\noutput \"y\" %%2\n");
  expect_refusal(narrow, "n=2", TD_BAD_ARGUMENT, "cannot be specialised for n=2");
}

/* Weights that are packed alike are there once. */
static void weights_are_shared(void **state) {
  (void)state;
  bench one, many;
  bench_open(&one, lengths(), NULL);
  bench_open(&many, lengths(), "s=1,2,3,4,5,6,7,8");
  const td_model_stats alone = stats_of(one.model), all = stats_of(many.model);
  assert_int_equal(all.variants, 8);
  assert_true(all.variant_bytes < 1024); /* shapes */
  assert_int_equal(all.weights_bytes, alone.weights_bytes + all.variant_bytes);
  assert_true(alone.weights_bytes > 8 * 8 * sizeof(float));
  assert_true(all.steps > alone.steps);
  bench_close(&many);
  bench_close(&one);
}

static void files_hold_variants(void **state) {
  (void)state;
  char path[] = "/tmp/treadle-special-XXXXXX.tdl";
  static const int64_t sizes[][4] = {{1, 16, 24, 24}, {1, 16, 7, 9}, {2, 16, 12, 24}};
  static const char *const expected[] = {"h=24 w=24", "", "h=12 w=24"};
  close(mkstemps(path, 4));
  bench made;
  bench_open(&made, pictures(), "h=12,24 w=24");
  watch(&made);
  const td_model *models[] = {made.model};
  if (td_model_save(models, 1, path, &err) != TD_OK) fail_msg("%s", err.text);
  bench opened = {.text = new_text()};
  if (td_model_load(path, NULL, &opened.model, &err) != TD_OK) fail_msg("%s", err.text);
  start(&opened, 1);
  watch(&opened);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    expect_same(&made, &opened, 4, sizes[i], 0);
    assert_string_equal(variant_of(&opened), expected[i]);
  }
  assert_int_equal(stats_of(opened.model).variants, 2);
  assert_int_equal(stats_of(opened.model).steps, stats_of(made.model).steps);
  const td_load_options again = {.size = sizeof again, .specialise = "h=3"};
  td_model *refused = NULL;
  assert_int_equal(td_model_load(path, &again, &refused, &err), TD_BAD_ARGUMENT);
  assert_non_null(strstr(err.text, "give sizes to specialise for when you compile it"));
  bench_close(&opened);
  bench_close(&made);
  unlink(path);
}

static void texts_name_the_variant(void **state) {
  (void)state;
  bench b;
  static const char *const stages[] = {"plan", "passes", "loops"};
  bench_open(&b, pictures(), "h=24 w=24");
  for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
    char *text;
    assert_int_equal(td_model_print(b.model, stages[i], "text", &text, &err), TD_OK);
    assert_non_null(strstr(text, "# variant h=24 w=24\n"));
    td_text_free(b.model, text);
  }
  bench_close(&b);
}

/* ---- memory that is not there ---- */

static td_status use(const base_text *text, const td_allocator *allocator) {
  static float memory[16 * 24 * 24];
  td_model *model = NULL;
  td_session *session = NULL;
  TRY(load(text, "h=12,24 w=24", allocator, &model));
  td_status status = td_session_new(model, NULL, &session, &err);
  for (int i = 0; i < 3 && status == TD_OK; i++) {
    const td_tensor x = {.dtype = TD_F32, .rank = 4, .dims = {1, 16, 12 + 6 * i, 24}, .data = memory};
    status = td_session_set_input(session, 0, &x, &err);
    if (status == TD_OK) status = td_session_run(session, &err);
  }
  td_session_free(session);
  td_model_free(model);
  return status;
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  base_text text = pictures();
  uint64_t fail_at = 0;
  for (;;) {
    base_counting counting = {.inner = &base_libc_allocator, .fail_at = ++fail_at, .each = true};
    const td_allocator allocator = base_counting_allocator(&counting);
    const td_status status = use(&text, &allocator);
    if (counting.live) fail_msg("allocation %d refused: %d not given back", (int)fail_at, (int)counting.live);
    if (status == TD_OK && counting.made < fail_at) break;
    if (status != TD_NO_RESOURCE) fail_msg("allocation %d refused: %d, %s", (int)fail_at, (int)status, err.text);
    assert_true(fail_at < REFUSALS);
  }
  base_text_free(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(answers_are_the_same),       cmocka_unit_test(bits_are_the_same),
      cmocka_unit_test(sizes_in_turn_cost_nothing), cmocka_unit_test(state_is_the_session_s),
      cmocka_unit_test(failures_leave_no_trace),    cmocka_unit_test(outputs_go_to_memory),
      cmocka_unit_test(tasks_and_threads),          cmocka_unit_test(errors_say_what_to_do),
      cmocka_unit_test(weights_are_shared),         cmocka_unit_test(files_hold_variants),
      cmocka_unit_test(texts_name_the_variant),     cmocka_unit_test(every_allocation_may_fail)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
