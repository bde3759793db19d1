/* test_profile.c -- recordings made by calling the observer as a session would, and every form of them. */
#include "test.h"

#include <math.h>
#include <jansson.h>

#include "profile/profile.h"

/* ---- a plan of four steps, and runs of it ---- */

static const td_step steps[] = {
    {sizeof(td_step), "node /block/0/conv \"a\"/Conv (Conv)", "aten::convolution", "kern_conv", 2e6, 1e3, 1e4, 1e4, 0,
     "", TD_F32},
    {sizeof(td_step), "node /block/1/conv/Conv (Conv)", "aten::convolution", "kern_conv", 4e6, 1e3, 1e4, 1e4, 0, "",
     TD_F32},
    {sizeof(td_step), "node /head/Gemm (Gemm)", "td::linear", "kern_linear", 1e5, 1e5, 1e3, 1e3, 0, "", TD_F32},
    {sizeof(td_step), "</script>&", "", "", 0, 0, 0, 0, 0, "", TD_F32},
};
enum { STEPS = sizeof steps / sizeof *steps };

static prof_recorder *recorder_of(prof_options options) {
  options.steps = STEPS;
  prof_recorder *r = prof_recorder_new(&base_libc_allocator, &options);
  assert_non_null(r);
  return r;
}

/* A run of 1000 ns from `at` on: step k takes 100 (k + 1) ns on the caller, half of it on each other thread. */
static void play(prof_recorder *r, uint32_t threads, uint64_t at) {
  const td_observer o = prof_observer(r);
  uint64_t now = at;
  for (uint32_t k = 0; k < STEPS - 1; k++) {
    const uint64_t ns = 100 * (k + 1);
    for (uint32_t t = 0; t < threads; t++) o.part(o.user, t, k, now, now + (t ? ns / 2 : ns));
    o.end(o.user, k, ns);
    now += ns;
  }
  o.run(o.user, at, at + 1000);
}

static prof_source source_of(const prof_recorder *r, const td_limits *limits) {
  return (prof_source){.recorder = r, .steps = steps, .limits = limits, .model = "net </script>", .machine = "a CPU"};
}

static td_status collect(void *user, const char *bytes, size_t count) {
  base_text_add(user, bytes, count);
  return TD_OK;
}

/* Text that the caller frees. */
static base_text written(const prof_source *source, td_profile_view view) {
  td_error err = {0};
  base_text text = {.allocator = &base_libc_allocator};
  assert_int_equal(prof_write(source, &view, &base_libc_allocator, collect, &text, &err), TD_OK);
  assert_false(text.failed);
  return text;
}

/* ---- sums ---- */

static void totals_add_up(void **state) {
  (void)state;
  prof_recorder *r = recorder_of((prof_options){.threads = 2, .records = 16});
  for (uint64_t i = 0; i < 5; i++) play(r, 2, 10000 * i);
  const prof_source source = source_of(r, NULL);
  const td_profile_totals t = prof_totals(&source);
  assert_int_equal(t.runs, 5);
  assert_int_equal(t.threads, 2);
  assert_int_equal(t.records, 2 * 5 * 3);
  assert_int_equal(t.lost, 0);
  assert_true(t.run_ms > 4.999e-3 && t.run_ms < 5.001e-3);
  assert_true(t.step_ms > 2.999e-3 && t.step_ms < 3.001e-3);
  assert_true(t.busy_ms > 4.499e-3 && t.busy_ms < 4.501e-3);
  assert_true(t.flops == 5 * (2e6 + 4e6 + 1e5));
  assert_true(t.limit_ms == 0);
  /* The caller computes in all 600 ns of steps, the worker in half of them: it is through early, never late. */
  assert_true(t.self_ms > 2.999e-3 && t.self_ms < 3.001e-3);
  assert_true(t.wait_ms == 0 && t.single_ms == 0 && t.late_ms == 0);
  assert_true(t.between_ms > 1.999e-3 && t.between_ms < 2.001e-3);
  assert_true(t.early_ms > 1.499e-3 && t.early_ms < 1.501e-3);
  prof_recorder_clear(r);
  const td_profile_totals none = prof_totals(&source);
  assert_int_equal(none.runs + none.records + none.threads, 0);
  prof_recorder_free(r);
}

/* One step of 1000 ns: the caller waits for the last 600 of them; the worker came 100 late and left 200 early. */
static void rests_are_told_apart(void **state) {
  (void)state;
  prof_recorder *r = recorder_of((prof_options){.threads = 2, .records = 16});
  const td_observer o = prof_observer(r);
  o.part(o.user, 0, 0, 0, 400);
  o.part(o.user, 1, 0, 100, 800);
  o.end(o.user, 0, 1000);
  o.part(o.user, 0, 1, 1000, 1500);
  o.end(o.user, 1, 500);
  o.run(o.user, 0, 2000);
  const prof_source source = source_of(r, NULL);
  const td_profile_totals t = prof_totals(&source);
  const double ns = 1e-6;
  assert_true(fabs(t.self_ms - 900 * ns) < ns && fabs(t.wait_ms - 600 * ns) < ns);
  assert_true(fabs(t.between_ms - 500 * ns) < ns && fabs(t.single_ms - 500 * ns) < ns);
  assert_true(fabs(t.late_ms + t.early_ms - 900 * ns) < ns);
  assert_true(fabs(t.late_ms - 900 * ns * 100 / 500) < ns);
  const td_profile_step step = prof_step(r, 0);
  assert_true(step.ns == 1000 && step.self_ns == 400 && step.busy_ns == 1100 && step.least_ns == 1000);
  prof_recorder_free(r);
}

/* Steps that tasks ran, on the caller's thread and another: each counts, with its time, but only the caller's own adds
 * up to the run. */
static void tasks_have_rows(void **state) {
  (void)state;
  prof_recorder *r = recorder_of((prof_options){.threads = 2, .crew = 1, .records = 16});
  const td_observer o = prof_observer(r);
  for (uint64_t run = 0; run < 2; run++) {
    o.part(o.user, 0, 2, 100, 600);
    o.end(o.user, 2, 500);
    o.part(o.user, 1, 2, 100, 800);
    o.part(o.user, 1, 2, 800, 1500);
    o.run(o.user, 0, 2000);
  }
  const prof_source source = source_of(r, NULL);
  base_text text = written(&source, (td_profile_view){.form = "csv"});
  assert_non_null(strstr(text.at, "\"/head/Gemm\",\"td::linear\",\"kern_linear\",1,6,3800,1000,3800,"));
  base_text_free(&text);
  const td_profile_step step = prof_step(r, 2);
  assert_true(step.calls == 6 && step.ns == 3800 && step.self_ns == 1000 && step.busy_ns == 3800);
  assert_true(step.least_ns == 1900 && step.spread_ns < 1);
  const td_profile_totals t = prof_totals(&source);
  assert_true(fabs(t.step_ms - 1e-3) < 1e-9 && fabs(t.self_ms - 1e-3) < 1e-9 && t.wait_ms == 0);
  assert_true(fabs(t.between_ms - 3e-3) < 1e-9 && t.single_ms == 0 && t.flops == 6 * 1e5);
  prof_recorder_clear(r);
  o.part(o.user, 1, 2, 100, 800); /* a schedule that ends in the midst of a task leaves nothing behind */
  prof_recorder_clear(r);
  o.run(o.user, 0, 2000);
  assert_int_equal(prof_step(r, 2).calls, 0);
  prof_recorder_free(r);
}

/* A worker that takes part in a step and runs a task is one thread, in totals and traces. */
static void workers_run_tasks(void **state) {
  (void)state;
  prof_recorder *r =
      recorder_of((prof_options){.threads = 4, .crew = 2, .records = 16}); /* two share, one runs tasks */
  const td_observer o = prof_observer(r);
  o.part(o.user, 1, 0, 100, 200);
  o.part(o.user, 0, 0, 100, 300);
  o.end(o.user, 0, 200);
  o.part(o.user, 2, 2, 300, 400);
  o.part(o.user, 3, 2, 300, 500);
  o.run(o.user, 0, 1000);
  const prof_source source = source_of(r, NULL);
  assert_int_equal(prof_totals(&source).threads, 3);
  base_text text = written(&source, (td_profile_view){.form = "trace"});
  assert_non_null(strstr(text.at, "\"worker 2\""));
  assert_null(strstr(text.at, "\"worker 3\""));
  base_text_free(&text);
  prof_recorder_free(r);
}

static void rings_keep_the_newest(void **state) {
  (void)state;
  prof_recorder *r = recorder_of((prof_options){.threads = 1, .records = 4});
  for (uint64_t i = 0; i < 3; i++) play(r, 1, 10000 * i);
  const prof_source source = source_of(r, NULL);
  assert_int_equal(prof_totals(&source).lost, 9 - 4);
  base_text text = written(&source, (td_profile_view){.form = "trace"});
  assert_null(strstr(text.at, "ProfilerStep#1\"")); /* part of it is gone */
  assert_non_null(strstr(text.at, "ProfilerStep#2\""));
  base_text_free(&text);
  prof_recorder_free(r);
}

/* Runs 0..11 by the schedule: how many are recorded. */
static void schedules(void **state) {
  (void)state;
  static const struct {
    prof_options o;
    uint64_t runs;
  } cases[] = {
      {{.skip = 0}, 12},
      {{.skip = 5}, 7},
      {{.wait = 1, .warmup = 1, .active = 2}, 6},
      {{.skip = 2, .wait = 1, .warmup = 1, .active = 3, .repeat = 1}, 3},
      {{.skip = 1, .active = 1, .repeat = 2}, 2},
      {{.skip = 20}, 0},
  };
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    prof_options o = cases[c].o;
    o.threads = 1;
    prof_recorder *r = recorder_of(o);
    for (uint64_t i = 0; i < 12; i++) play(r, 1, 10000 * i);
    const prof_source source = source_of(r, NULL);
    assert_int_equal(prof_totals(&source).runs, cases[c].runs);
    prof_recorder_free(r);
  }
}

/* What a session of another plan or pool could say is left out, not written past the end. */
static void strangers_are_left_out(void **state) {
  (void)state;
  prof_recorder *r = recorder_of((prof_options){.threads = 1, .records = 2});
  const td_observer o = prof_observer(r);
  o.part(o.user, 1, 0, 0, 1);
  o.part(o.user, 0, STEPS, 0, 1);
  o.end(o.user, STEPS, 1);
  const prof_source source = source_of(r, NULL);
  assert_int_equal(prof_totals(&source).records, 0);
  prof_recorder_free(r);
}

/* ---- forms ---- */

static json_t *parsed(const base_text *text) {
  json_error_t why;
  json_t *root = json_loadb(text->at, text->length, 0, &why);
  if (!root) fail_msg("%s at %d", why.text, why.position);
  return root;
}

static void rows_by_group(void **state) {
  (void)state;
  static const struct {
    const char *group, *first;
    size_t rows;
    json_int_t ns;
  } cases[] = {{"node", "/head/Gemm", 3, 300},
               {"op", "aten::convolution", 2, 300},
               {"kernel", "kern_conv", 2, 300},
               {"module", "head", 3, 300}};
  prof_recorder *r = recorder_of((prof_options){.threads = 1});
  play(r, 1, 0);
  const prof_source source = source_of(r, NULL);
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    base_text text = written(&source, (td_profile_view){.form = "json", .group = cases[c].group});
    json_t *root = parsed(&text), *rows = json_object_get(root, "rows"), *row = json_array_get(rows, 0);
    assert_int_equal(json_array_size(rows), cases[c].rows);
    assert_string_equal(json_string_value(json_object_get(row, "name")), cases[c].first);
    assert_int_equal(json_integer_value(json_object_get(row, "ns")), cases[c].ns);
    json_decref(root);
    base_text_free(&text);
  }
  prof_recorder_free(r);
}

static const char *origin_of(const void *user, uint32_t step, size_t origin) {
  static const char *const names[][2] = {
      {"node /a (A)", "node /b (B)"}, {"node /c (C)"}, {"node /d (D)", "node /e (E)"}};
  (void)user;
  assert_true(step < 3 && origin < 2 && names[step][origin]);
  return names[step][origin];
}

/* A row of one step has all of its nodes; one of several has none, as they are in others. */
static void rows_name_nodes(void **state) {
  (void)state;
  td_step own[STEPS];
  memcpy(own, steps, sizeof steps);
  own[0].origins = own[2].origins = 2;
  own[1].origins = 1;
  prof_recorder *r = recorder_of((prof_options){.threads = 1});
  play(r, 1, 0);
  prof_source source = source_of(r, NULL);
  source.steps = own;
  source.origin = origin_of;
  base_text text = written(&source, (td_profile_view){.form = "json", .group = "op", .sort = "order"});
  assert_non_null(strstr(text.at, "\"nodes\": []}"));
  assert_non_null(strstr(text.at, "\"nodes\": [\"/d\", \"/e\"]}"));
  base_text_free(&text);
  text = written(&source, (td_profile_view){.form = "json"});
  assert_non_null(strstr(text.at, "\"nodes\": [\"/a\", \"/b\"]}"));
  assert_non_null(strstr(text.at, "\"nodes\": [\"/c\"]}"));
  base_text_free(&text);
  prof_recorder_free(r);
}

static void orders(void **state) {
  (void)state;
  static const char *const cases[][2] = {{"time", "/head/Gemm"},
                                         {"flops", "/block/1/conv/Conv"},
                                         {"bytes", "/head/Gemm"},
                                         {"order", "/block/0/conv \"a\"/Conv"}};
  prof_recorder *r = recorder_of((prof_options){.threads = 1});
  play(r, 1, 0);
  const prof_source source = source_of(r, NULL);
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    base_text text = written(&source, (td_profile_view){.form = "json", .sort = cases[c][0]});
    json_t *root = parsed(&text);
    const json_t *row = json_array_get(json_object_get(root, "rows"), 0);
    assert_string_equal(json_string_value(json_object_get(row, "name")), cases[c][1]);
    json_decref(root);
    base_text_free(&text);
  }
  prof_recorder_free(r);
}

static double number(const json_t *event, const char *key) { return json_number_value(json_object_get(event, key)); }

/* Complete events of the trace lie in a run, and steps of one thread side by side. */
static void traces_nest(void **state) {
  (void)state;
  prof_recorder *r = recorder_of((prof_options){.threads = 3, .records = 64});
  for (uint64_t i = 0; i < 3; i++) play(r, 3, 5000 + 2000 * i);
  const prof_source source = source_of(r, NULL);
  base_text text = written(&source, (td_profile_view){.form = "trace"});
  json_t *root = parsed(&text), *events = json_object_get(root, "traceEvents"), *event;
  size_t index, parts = 0, kernels = 0, runs = 0;
  double end[3] = {0};
  json_array_foreach(events, index, event) {
    const char *cat = json_string_value(json_object_get(event, "cat"));
    if (!cat) continue;
    runs += strcmp(cat, "user_annotation") == 0;
    kernels += strcmp(cat, "kernel") == 0;
    if (strcmp(cat, "cpu_op") != 0) continue;
    parts++;
    const double thread = number(event, "tid") - 1; /* 0 is nobody's */
    assert_true(thread >= 0 && thread < 3);
    double *last = &end[(size_t)thread];
    assert_true(number(event, "ts") >= *last);
    *last = number(event, "ts") + number(event, "dur") - 1e-6;
  }
  assert_int_equal(runs, 3);
  assert_int_equal(parts, 3 * 3 * 3);
  assert_int_equal(kernels, parts);
  json_decref(root);
  base_text_free(&text);
  prof_recorder_free(r);
}

static void overlaps_are_refused(void **state) {
  (void)state;
  prof_recorder *r = recorder_of((prof_options){.threads = 1, .records = 8});
  const td_observer o = prof_observer(r);
  o.part(o.user, 0, 0, 0, 100);
  o.part(o.user, 0, 1, 50, 150);
  o.run(o.user, 0, 200);
  const prof_source source = source_of(r, NULL);
  td_error err = {0};
  base_text text = {.allocator = &base_libc_allocator};
  const td_profile_view view = {.form = "trace"};
  assert_int_equal(prof_write(&source, &view, &base_libc_allocator, collect, &text, &err), TD_INTERNAL);
  assert_non_null(strstr(err.text, "overlap"));
  base_text_free(&text);
  prof_recorder_free(r);
}

static const prof_block blocks[] = {{0, 1, 0, 640}, {1, 2, 640, 6400}, {2, 2, 0, 64}};

/* Two places that live side by side make the peak; the map and the trace's counter show them. */
static void memory_is_mapped(void **state) {
  (void)state;
  prof_recorder *r = recorder_of((prof_options){.threads = 1, .records = 16});
  play(r, 1, 0);
  prof_source source = source_of(r, NULL);
  source.blocks = blocks;
  source.block_count = 3;
  source.arena_bytes = 7040;
  base_text text = written(&source, (td_profile_view){.form = "memory"});
  assert_non_null(strstr(text.at, "peak: 7040 bytes at step 1, /block/1/conv/Conv"));
  assert_non_null(strstr(text.at, "6400        1        2  /block/1/conv/Conv"));
  assert_non_null(strstr(text.at, "     0 |######.........."));
  assert_non_null(
      strstr(text.at, "     3 |................................................................|            0"));
  base_text_free(&text);
  text = written(&source, (td_profile_view){.form = "trace"});
  assert_non_null(strstr(text.at, "\"name\": \"arena\", \"ts\": 0.100, \"args\": {\"bytes\": 7040}"));
  base_text_free(&text);
  text = written(&source, (td_profile_view){.form = "html"});
  assert_non_null(strstr(text.at, "\"memory\": [7040, 0, [0,1,0,640,1,2,640,6400,2,2,0,64]]"));
  base_text_free(&text);
  prof_recorder_free(r);
}

static void texts(void **state) {
  (void)state;
  static const struct {
    const char *form, *must[3];
  } cases[] = {{"table", {"between steps", "a run, mean of 2", "kern_conv"}},
               {"csv", {"name,op,kernel", "\"/block/0/conv \"\"a\"\"/Conv\"", "4000000"}},
               {"stacks", {"model;block;1;conv;Conv;kern_conv 0\n", "model;head;Gemm;kern_linear 1\n", "a"}},
               {"html", {"\\u003c/script\\u003e\\u0026", "const data", "</html>"}}};
  prof_recorder *r = recorder_of((prof_options){.threads = 1, .records = 64});
  play(r, 1, 0);
  play(r, 1, 5000);
  const prof_source source = source_of(r, NULL);
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    base_text text = written(&source, (td_profile_view){.form = cases[c].form});
    for (size_t k = 0; k < 3; k++)
      if (!strstr(text.at, cases[c].must[k])) fail_msg("%s lacks %s", cases[c].form, cases[c].must[k]);
    base_text_free(&text);
  }
  prof_recorder_free(r);
}

/* Columns that were asked for, and no others; the last line but one adds up to the run. */
static void columns(void **state) {
  (void)state;
  static const struct {
    const char *columns;
    uint32_t limit;
    const char *must[4];
  } cases[] = {
      {"self,share,flop,bytes,memory",
       1,
       {"   self us  share    FLOP   bytes  memory  node\n", "      0.30  30.0%    100k    102k    6464  /head/Gemm\n",
        "      0.30  30.0%      6M     42k    7040  in 2 more rows\n",
        "      1.00 100.0%    6.1M    144k    7040  a run, mean of 2\n"}},
      {"calls,mean,total,steps,op",
       0,
       {"        us  calls   mean us  steps  operator          node\n",
        "      0.30      1      0.30      1  td::linear        /head/Gemm\n",
        "      0.40                          between steps", "      1.00      3      0.33      3  a run"}},
      {"gflops,gbs,limit,reach,busy,kernel",
       0,
       {"GFLOP/s   GB/s   limit us  limit  busy  kernel      node\n",
        "  333.3  340.0          -      -  1.00  kern_linear /head/Gemm\n",
        " 6100.0  144.0          -      -  0.60  a run", "between"}}};
  prof_recorder *r = recorder_of((prof_options){.threads = 1, .records = 64});
  play(r, 1, 0);
  play(r, 1, 5000);
  prof_source source = source_of(r, NULL);
  source.blocks = blocks;
  source.block_count = 3;
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    base_text text = written(&source, (td_profile_view){.columns = cases[c].columns, .limit = cases[c].limit});
    for (size_t k = 0; k < 4; k++)
      if (!strstr(text.at, cases[c].must[k])) fail_msg("'%s' is not in:\n%s", cases[c].must[k], text.at);
    base_text_free(&text);
  }
  base_text text = written(&source, (td_profile_view){.columns = "all"});
  assert_non_null(strstr(text.at, " self us "));
  assert_non_null(strstr(text.at, " operator"));
  base_text_free(&text);
  text = written(&source, (td_profile_view){.form = "csv"});
  assert_non_null(
      strstr(text.at, ",share_percent,mean_us,gflop_per_s,gb_per_s,limit_percent,threads_busy,memory_bytes\r\n"));
  assert_non_null(strstr(text.at, ",30,0.3,333.333,340,0,1,6464\r\n"));
  base_text_free(&text);
  prof_recorder_free(r);
}

static void modules_by_depth(void **state) {
  (void)state;
  static const struct {
    uint32_t depth;
    const char *name;
    json_int_t ns;
  } cases[] = {{1, "head", 300}, {1, "block", 300}, {2, "block/1", 200}, {0, "block/1/conv", 200}};
  prof_recorder *r = recorder_of((prof_options){.threads = 1});
  play(r, 1, 0);
  const prof_source source = source_of(r, NULL);
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    base_text text = written(&source, (td_profile_view){.form = "json", .group = "module", .depth = cases[c].depth});
    json_t *root = parsed(&text), *row;
    json_int_t ns = -1;
    size_t index;
    json_array_foreach(json_object_get(root, "rows"), index,
                       row) if (strcmp(json_string_value(json_object_get(row, "name")), cases[c].name) == 0) ns =
        json_integer_value(json_object_get(row, "ns"));
    assert_int_equal(ns, cases[c].ns);
    json_decref(root);
    base_text_free(&text);
  }
  prof_recorder_free(r);
}

static td_status refuse(void *user, const char *bytes, size_t count) {
  (void)user;
  (void)bytes;
  (void)count;
  return TD_NO_RESOURCE;
}

static void failures_are_told(void **state) {
  (void)state;
  static const struct {
    td_profile_view view;
    const char *says;
  } cases[] = {{{.form = "xml"}, "table"},
               {{.form = "csv", .group = "x"}, "module"},
               {{.sort = "x"}, "limit"},
               {{.columns = "self,x"}, "memory"},
               {{.columns = ""}, "gflops"}};
  prof_recorder *r = recorder_of((prof_options){.threads = 1});
  play(r, 1, 0);
  const prof_source source = source_of(r, NULL);
  base_text text = {.allocator = &base_libc_allocator};
  td_error err;
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    assert_int_equal(prof_write(&source, &cases[c].view, &base_libc_allocator, collect, &text, &err), TD_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, cases[c].says));
  }
  const td_profile_view csv = {.form = "csv"};
  assert_int_equal(prof_write(&source, &csv, &base_libc_allocator, refuse, NULL, &err), TD_NO_RESOURCE);
  prof_recorder_free(r);
  base_text_free(&text);
}

/* Every allocation of making and writing fails in turn, with an error and without a leak. */
static void memory_may_fail(void **state) {
  (void)state;
  static const char *const forms[] = {"table", "csv", "json", "trace", "stacks", "memory", "html"};
  for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
    for (uint64_t fail_at = 1;; fail_at++) {
      assert_true(fail_at < 100);
      base_counting counting = {.inner = &base_libc_allocator, .fail_at = fail_at};
      const td_allocator allocator = base_counting_allocator(&counting);
      const prof_options options = {.steps = STEPS, .threads = 1, .records = 8};
      prof_recorder *r = prof_recorder_new(&allocator, &options);
      td_status status = TD_NO_RESOURCE;
      if (r) {
        play(r, 1, 0);
        const prof_source source = source_of(r, NULL);
        const td_profile_view view = {.form = forms[f]};
        base_text text = {.allocator = &base_libc_allocator};
        status = prof_write(&source, &view, &allocator, collect, &text, NULL);
        base_text_free(&text);
      }
      prof_recorder_free(r);
      assert_int_equal(counting.live, 0);
      if (status == TD_OK) break;
      assert_int_equal(status, TD_NO_RESOURCE);
    }
}

/* Each type has a peak of its own; where it has none, that of f32 holds. */
static void limits_know_what_is_multiplied(void **state) {
  (void)state;
  td_roofline r = {.peak_count = 3,
                   .peaks = {{"avx512", TD_F32, 1, 1e11}, {"avx512", TD_BF16, 1, 4e11}, {"avx512", TD_I8, 1, 8e11}}};
  const td_dtype types[] = {TD_F32, TD_BF16, TD_I8, TD_F64};
  const double ms[] = {1, 0.25, 0.125, 1};
  for (int narrow = 1; narrow >= 0; narrow--) {
    const td_limits limits = prof_limits_of(&r, "avx512", 1);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
      const td_work work = {.flops = 1e8, .multiplied = types[i]};
      const double want = narrow ? ms[i] : 1;
      assert_true(fabs(prof_limit_ms(&limits, &work) - want) < 1e-9);
      assert_false(prof_beats_limit(&limits, &work, want));
      assert_true(prof_beats_limit(&limits, &work, want / 2));
    }
    r.peak_count = 1;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(limits_know_what_is_multiplied),
      cmocka_unit_test(totals_add_up),
      cmocka_unit_test(rings_keep_the_newest),
      cmocka_unit_test(rests_are_told_apart),
      cmocka_unit_test(tasks_have_rows),
      cmocka_unit_test(workers_run_tasks),
      cmocka_unit_test(schedules),
      cmocka_unit_test(strangers_are_left_out),
      cmocka_unit_test(rows_by_group),
      cmocka_unit_test(rows_name_nodes),
      cmocka_unit_test(orders),
      cmocka_unit_test(traces_nest),
      cmocka_unit_test(overlaps_are_refused),
      cmocka_unit_test(texts),
      cmocka_unit_test(columns),
      cmocka_unit_test(modules_by_depth),
      cmocka_unit_test(failures_are_told),
      cmocka_unit_test(memory_may_fail),
      cmocka_unit_test(memory_is_mapped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
