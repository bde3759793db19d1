/* ctest: slow */
/* The profiler as users meet it: `treadle profile` on built-in models, its rows, its files, and how they agree. */
#include "fixture.h"

static double number(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  if (!json_is_number(value)) fail_msg("there is no number %s", key);
  return json_number_value(value);
}

static void assert_near(double a, double b, double part) {
  if (fabs(a - b) > part * fabs(b)) fail_msg("%g is not within %g %% of %g", a, 100 * part, b);
}

static json_t *load(fixture *f, const char *path) { return parse(slurp(f, path, NULL)); }

/* Nanoseconds of the caller's parts of steps in a trace. */
static double caller_ns(const json_t *trace) {
  double ns = 0;
  size_t i;
  const json_t *event;
  json_array_foreach(json_object_get(trace, "traceEvents"), i, event) {
    const char *cat = json_string_value(json_object_get(event, "cat"));
    if (cat && strcmp(cat, "cpu_op") == 0 && number(event, "tid") == 1) ns += 1e3 * number(event, "dur");
  }
  return ns;
}

/* The rows, and what stands beside them, add up to the time that passed; the trace's slices say the same. */
static void rows_add_up(void **state) {
  fixture *f = *state;
  static const char *const models[] = {"builtin:small_lstm", "builtin:fused_chain", "builtin:conv_relu"};
  for (size_t m = 0; m < 3; m++)
    for (int threads = 1; threads <= 2; threads++) {
      outcome o =
          run(f, base_arena_format(f->arena, "profile %s --threads %d --runs 20 --no-limits --json --trace t.json",
                                   models[m], threads));
      assert_int_equal(o.status, 0);
      json_t *root = parse(o.out), *trace = load(f, "t.json");
      const json_t *row;
      double self_ns = 0;
      size_t i;
      json_array_foreach(json_object_get(root, "rows"), i, row) self_ns += number(row, "self_ns");
      assert_near(self_ns * 1e-6 + number(root, "wait_ms") + number(root, "between_ms"), number(root, "run_ms"), 0.01);
      assert_near(caller_ns(trace), self_ns, 0.01);
      assert_int_equal(number(root, "runs"), 20);
      json_decref(root);
      json_decref(trace);
    }
}

static void overhead_is_shown(void **state) {
  fixture *f = *state;
  json_t *root = parse(run(f, "bench builtin:small_lstm --threads 1 --min-time 0.01 --overhead --json").out);
  assert_true(json_is_real(json_object_get(root, "recording_percent")));
  json_decref(root);
  assert_holds(run(f, "bench builtin:small_lstm --threads 1 --min-time 0.01 --overhead").out, "recording a profile: ");
}

/* VTune sets a variable; what stands there is loaded, and hears of every step on the thread that computes it. */
static void collectors_hear_steps(void **state) {
  fixture *f = *state;
  const char *folder = base_arena_format(f->arena, "%.*s", (int)(strrchr(f->treadle, '/') - f->treadle), f->treadle);
  const char *before = base_arena_format(f->arena, "COLLECTED=c.txt INTEL_LIBITTNOTIFY64=%s/itt_collector.so", folder);
  outcome o = run_after(f, before, "profile builtin:conv_relu --threads 2 --runs 2 --no-limits --itt shapes");
  assert_int_equal(o.status, 0);
  const char *heard = slurp(f, "c.txt", NULL);
  assert_holds(heard, " domain Treadle\n");
  assert_holds(heard, " begin treadle profile\n");
  assert_holds(heard, " begin td::conv [[");
  assert_holds(heard, " fini ");
  if (OWN_THREADS) assert_null(strstr(heard, " wrong ")); /* TBB tells the collector of tasks of its own */
  assert_int_equal(unlink("c.txt"), 0);
  assert_int_equal(run_after(f, before, "run builtin:conv_relu --threads 1 --repeat 2 --itt names").status, 0);
  assert_holds(slurp(f, "c.txt", NULL), " begin td::conv\n");
  assert_int_equal(unlink("c.txt"), 0);
  assert_int_equal(run_after(f, before, "run builtin:conv_relu --threads 1 --itt names").status, 0);
  assert_holds(slurp(f, "c.txt", NULL), " begin td::conv\n"); /* the first run, too */
  o = run_after(f, before, "run builtin:conv_relu --threads 1 --itt shapes");
  assert_int_equal(o.status, 2);
  assert_holds(o.err, "--repeat 2");
  o = run_after(f, "INTEL_LIBITTNOTIFY64=", "profile builtin:conv_relu --runs 2 --no-limits --itt names");
  assert_int_equal(o.status, 2);
  assert_holds(o.err, "INTEL_LIBITTNOTIFY64");
  o = run_after(f, "INTEL_LIBITTNOTIFY64=nowhere.so", "profile builtin:conv_relu --runs 2 --no-limits --itt names");
  assert_int_equal(o.status, 5);
  assert_holds(o.err, "nowhere.so");
}

/* Fused kernels name their nodes; by origin, their time goes to these and still adds up. */
static void nodes_of_kernels(void **state) {
  fixture *f = *state;
  static const char *const groups[] = {"node", "origin", "module", "class"};
  double self_ns[4] = {0};
  bool several = false;
  for (size_t g = 0; g < 4; g++) {
    json_t *root = parse(run(f, base_arena_format(f->arena,
                                                  "profile builtin:fused_chain --threads 1 --runs 5 --no-limits --json "
                                                  "--group-by %s",
                                                  groups[g]))
                             .out);
    const json_t *row;
    size_t i;
    json_array_foreach(json_object_get(root, "rows"), i, row) {
      self_ns[g] += number(row, "self_ns");
      several |= g == 0 && json_array_size(json_object_get(row, "nodes")) >= 2;
    }
    assert_near(self_ns[g] * 1e-6 + number(root, "between_ms"), number(root, "run_ms"), 0.01);
    json_decref(root);
  }
  assert_true(several);
}

static void backends_side_by_side(void **state) {
  fixture *f = *state;
  const char *command = "profile builtin:fused_chain --threads 1 --min-time 0.01 --compare-backend aot_eager";
  json_t *root = parse(run(f, base_arena_format(f->arena, "%s --json", command)).out);
  const json_t *row;
  size_t i;
  double nodes = 0, kernels = 0, ms[2] = {0};
  json_array_foreach(json_object_get(root, "classes"), i, row) {
    nodes += number(row, "nodes");
    kernels += number(row, "kernels");
    ms[0] += number(row, "before_ms");
    ms[1] += number(row, "after_ms");
  }
  assert_true(nodes == number(root, "nodes") && kernels == number(root, "kernels"));
  assert_true(nodes > kernels && kernels > 0);
  assert_true(ms[0] <= number(root, "before_run_ms") && ms[1] <= number(root, "after_run_ms"));
  json_decref(root);
  const outcome o = run(f, command);
  assert_holds(o.out, "speed-up");
  assert_holds(o.out, "nodes one by one, native ");
}

static void save_profile(const char *path, const char *rows) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file, "{\"runs\": 100, \"run_ms\": 10, \"rows\": [%s]}", rows);
  assert_int_equal(fclose(file), 0);
}

#define ROW(name, us, least, spread)                                                        \
  "{\"name\": \"" name "\", \"kernel\": \"k\", \"ns\": " #us "00000, \"least_ns\": " #least \
  "000, \"spread_ns\": " #spread "000}"

/* What only scatters, or got longer by interference alone, has not changed. */
static void profiles_are_compared(void **state) {
  fixture *f = *state;
  save_profile("a.json",
               ROW("same", 50, 45, 9) "," ROW("slow", 10, 9, 1) "," ROW("noisy", 20, 15, 9) "," ROW("gone", 5, 5, 1));
  save_profile("b.json",
               ROW("same", 51, 46, 9) "," ROW("slow", 15, 14, 1) "," ROW("noisy", 30, 15, 9) "," ROW("new", 6, 5, 1));
  const outcome o = run(f, "compare-profiles a.json b.json");
  assert_int_equal(o.status, 0);
  assert_holds(o.out, "+5.00  +50.0%");
  assert_holds(o.out, "gone");
  assert_holds(o.out, "2 rows changed no more than they scatter");
  json_t *root = parse(run(f, "compare-profiles a.json b.json --json").out);
  assert_int_equal(json_array_size(json_object_get(root, "changed")), 3);
  json_decref(root);
  save_profile("c.json", "");
  save_text("d.json", "{}");
  save_text("e.json", "{\"runs");
  assert_int_equal(run(f, "compare-profiles c.json a.json").status, 0);
  assert_int_equal(run(f, "compare-profiles d.json a.json").status, 3);
  assert_int_equal(run(f, "compare-profiles a.json e.json").status, 3);
  assert_string_equal(run(f, "compare-profiles a.json absent.json").err,
                      "treadle: compare-profiles: absent.json: cannot open the file: No such file or directory\n");
}

static void schedules(void **state) {
  fixture *f = *state;
  static const char *const good[][2] = {{"1,1,3,2", "6"}, {"0,0,1,1,5", "1"}, {"1,1,2", "4"}};
  static const char *const bad[] = {"1,1", "1,1,0", "1,x,2", "1,1,2,1,0,7", "1,1,2,", "-1,1,2"};
  for (size_t i = 0; i < 3; i++) {
    json_t *root =
        parse(run(f, base_arena_format(f->arena,
                                       "profile builtin:small_lstm --threads 1 --no-limits --json --schedule "
                                       "%s %s",
                                       good[i][0], i == 2 ? "--runs 8" : ""))
                  .out);
    assert_int_equal(number(root, "runs"), atoi(good[i][1]));
    json_decref(root);
  }
  for (size_t i = 0; i < 6; i++) {
    const outcome o =
        run(f, base_arena_format(f->arena, "profile builtin:small_lstm --threads 1 --no-limits --schedule=%s", bad[i]));
    assert_int_equal(o.status, 2);
    assert_holds(o.err, bad[i]);
  }
}

/* Counters, or the exact reason why there are none, and no failure. */
static void counters_or_reasons(void **state) {
  fixture *f = *state;
  const outcome o = run(f, "profile builtin:small_lstm --threads 1 --runs 5 --no-limits --level tma");
  assert_int_equal(o.status, 0);
  assert_true(strstr(o.out, "# top-down analysis on ") || strstr(o.out, "instead of top-down analysis: "));
  assert_int_equal(run(f, "profile builtin:small_lstm --runs 5 --no-limits --level all").status, 2);
}

/* After a warm-up runs allocate nothing; the arena's map and the page of a plan are there. */
static void memory_is_shown(void **state) {
  fixture *f = *state;
  const outcome o = run(f, "profile builtin:conv_relu --threads 1 --runs 3 --no-limits --memory");
  assert_int_equal(o.status, 0);
  assert_holds(o.out, "allocations while runs were recorded: 0, of 0 bytes");
  assert_holds(o.out, "page faults in a run: ");
  assert_holds(o.out, "peak: ");
  const outcome page = run(f, "inspect builtin:conv_relu --stage plan --format html");
  assert_int_equal(page.status, 0);
  assert_holds(page.out, "\"memory\": [");
  assert_int_equal(run(f, "inspect builtin:conv_relu --stage passes --format html").status, 2);
}

/* The files by which perf names generated code; where there is no compiler they name nothing. */
static void perf_is_told(void **state) {
  fixture *f = *state;
  outcome o = run(f, "run builtin:fused_chain --perf jitdump --perf map");
  if (o.status != 0) fail_msg("%s", o.err);
  unsigned long pid = 0, mapped = 0;
  const char *line = strstr(o.err, "jit-"), *map = strstr(o.err, "/tmp/perf-");
  assert_true(line && sscanf(line, "jit-%lu.dump", &pid) == 1);
  assert_true(map && sscanf(map, "/tmp/perf-%lu.map", &mapped) == 1 && mapped == pid);
  size_t size;
  const char *dump = slurp(f, base_arena_format(f->arena, "jit-%lu.dump", pid), &size);
  const char *path = base_arena_format(f->arena, "/tmp/perf-%lu.map", pid), *names = slurp(f, path, NULL);
  assert_int_equal(unlink(path), 0);
  assert_true(size >= 40 && memcmp(dump, "DTiJ", 4) == 0);
  if (system("command -v cc >/dev/null") != 0) return;
  assert_true(size > 200);
  assert_holds(names, " fused_");
  assert_holds(names, " +");
  assert_int_equal(run(f, "run builtin:fused_chain --perf loud").status, 2);
}

/* How many threads a process has; 0: it is not there any more. */
static long threads_of(fixture *f, pid_t process) {
  FILE *file = fopen(base_arena_format(f->arena, "/proc/%ld/status", (long)process), "r");
  char line[256];
  long count = 0;
  while (file && fgets(line, sizeof line, file)) sscanf(line, "Threads: %ld", &count);
  if (file) fclose(file);
  return count;
}

/* What a model forks is run by as many threads as are asked for, the caller's included: while it runs, the process has
 * so many. (The pass `forks` leaves small tasks to the thread that forks them.) */
static void threads_of_forked_tasks(void **state) {
  fixture *f = *state;
  const char *model = base_arena_format(f->arena, "%s/tests/models/torchscript/forks/model.pt", f->start);
  for (long wanted = 3; wanted <= 5; wanted += 2) {
    const char *number = base_arena_format(f->arena, "%ld", wanted);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      if (!freopen("/dev/null", "w", stdout)) _exit(1);
      execl(f->treadle, "treadle", "profile", model, "--shape", "x=2x3", "--threads", "1", "--interop-threads", number,
            "--disable-passes", "forks", "--no-limits", "--min-time", "600", (char *)NULL);
      _exit(1);
    }
    long have = 1;
    for (int as_wanted = 0; have && as_wanted < 50; usleep(1000)) { /* threads that compile are gone by then */
      have = threads_of(f, child);
      as_wanted = have == wanted ? as_wanted + 1 : 0;
      if (waitpid(child, NULL, WNOHANG) == child) have = 0;
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_int_equal(have, wanted);
  }
  assert_int_equal(run(f, "profile builtin:small_lstm --interop-threads 0").status, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(rows_add_up, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(overhead_is_shown, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(collectors_hear_steps, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(nodes_of_kernels, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(backends_side_by_side, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(schedules, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(counters_or_reasons, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(perf_is_told, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(memory_is_shown, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(profiles_are_compared, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(threads_of_forked_tasks, fixture_open, fixture_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
