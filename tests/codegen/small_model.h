/* small_model.h -- a model of one loop, compiled and run against what it must give, whatever happens to the compiler or
 * the cache. */
#ifndef TESTS_CODEGEN_SMALL_MODEL_H
#define TESTS_CODEGEN_SMALL_MODEL_H
#include "codegen/chains.h"
#include "sys/code.h"

typedef struct warned {
  uint32_t limit_ms; /* that a compiler gets; 0: the default */
  uint32_t count;
  char text[1792];
} warned;

static inline void note_warning(void *user, const char *text) {
  warned *w = user;
  w->count++;
  snprintf(w->text, sizeof w->text, "%s", text);
}

/* Runs the model over (1, 2, 3, ...), compiled by `cc` into `cache`; gives the name of the function that ran. */
static inline td_status run_model(const char *cc, const char *cache, bool strict, warned *w, char name[64],
                                  td_error *err) {
  static const char text[] =
      "input %0 \"x\": f32[n, 37]\n"
      "input %1 \"y\": f32[37]\n"
      "%2 = aten::add(%0, %1)\n"
      "%3 = aten::mul(%2, %0)  # \"node /square (Mul)\"\n"
      "%4 = aten::relu(%3)\n"
      "output \"z\" %4\n";
  rig r = {.counting = {.inner = &base_libc_allocator}};
  sys_machine machine;
  sys_machine_read(&machine);
  r.allocator = base_counting_allocator(&r.counting);
  r.arena = base_arena_new(&base_libc_allocator);
  r.graph = parse_graph(r.arena, text, &r.allocator);
  const compile_setting setting = {.backend = compile_find_backend("native"),
                                   .isa = machine.isa | BASE_ISA_VECTOR,
                                   .options.cc = cc,
                                   .options.cache = cache,
                                   .options.strict = strict,
                                   .options.warn = note_warning,
                                   .options.cc_limit_ms = w->limit_ms,
                                   .options.warn_user = w};
  const td_status status = compile_graph(r.graph, &setting, &r.allocator, NULL, &r.plan, err);
  if (status == TD_OK) {
    assert_int_equal(run_session_new(r.plan, &r.allocator, NULL, &r.session, &r.err), TD_OK);
    rig_feed(&r, 0, TD_F32, "3x37: 1");
    rig_feed(&r, 1, TD_F32, "37: 1");
    rig_run(&r);
    const base_tensor *out = rig_output(&r, 0);
    for (int i = 0; i < 3 * 37; i++) {
      const float x = (float)(1 + i), y = (float)(1 + i % 37);
      assert_float_equal(((const float *)out->data)[i], (x + y) * x, 0);
    }
    snprintf(name, 64, "%s", r.plan->here.links.at[r.plan->steps.at[0].function].name);
  }
  rig_close(&r);
  return status;
}

/* It runs, with the function `prefix`..., and `warnings` warnings; a compiler gets `limit_ms`. */
static inline void expect_run_within(uint32_t limit_ms, const char *cc, const char *cache, const char *prefix,
                                     uint32_t warnings, const char *says) {
  warned w = {.limit_ms = limit_ms};
  char name[64];
  td_error err;
  if (run_model(cc, cache, false, &w, name, &err) != TD_OK) fail_msg("%s", err.text);
  if (strncmp(name, prefix, strlen(prefix)) != 0) fail_msg("%s ran, not %s: %s", name, prefix, w.text);
  assert_int_equal(w.count, warnings);
  if (says && !strstr(w.text, says)) fail_msg("\"%s\" does not say %s", w.text, says);
}

static inline void expect_run(const char *cc, const char *cache, const char *prefix, uint32_t warnings,
                              const char *says) {
  expect_run_within(0, cc, cache, prefix, warnings, says);
}

/* Calls `what` with each file of the cache whose name ends so. */
static inline void each_file(const char *cache, const char *ending, void (*what)(const char *path)) {
  char command[256], path[512];
  snprintf(command, sizeof command, "ls %s/*%s 2>/dev/null", cache, ending);
  FILE *list = popen(command, "r");
  assert_non_null(list);
  while (fgets(path, sizeof path, list)) {
    path[strcspn(path, "\n")] = '\0';
    what(path);
  }
  pclose(list);
}
#endif
