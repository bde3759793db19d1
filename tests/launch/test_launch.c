/* `treadle launch`: which CPUs instances get on machines that are not here (layouts.txt), and what becomes of them. */
#include "cli/fixture.h"

#include <signal.h>
#include <time.h>

/* ---- layouts ---- */

#define PLAIN "--memory-allocator default --omp-runtime default "

/* The next line of *at, without its end; NULL: none. */
static char *next_line(fixture *f, const char **at) {
  if (!**at) return NULL;
  const size_t length = strcspn(*at, "\n");
  char *line = base_arena_slice(f->arena, *at, length);
  *at += length + ((*at)[length] == '\n');
  return line;
}

/* The lines of `text` that say who has which CPUs, and its errors, indented as in the file. */
static void keep_lines(fixture *f, base_text *kept, const char *text, bool all) {
  for (char *line; (line = next_line(f, &text));)
    if (all || strncmp(line, "instance", 8) == 0 || strncmp(line, "idle", 4) == 0)
      base_text_print(kept, "  %s\n", line);
}

static void layouts_are_as_recorded(void **state) {
  fixture *f = *state;
  const char *at = slurp(f, base_arena_format(f->arena, "%s/tests/launch/layouts.txt", f->start), NULL);
  const char *machine = "";
  int cases = 0;
  for (char *line; (line = next_line(f, &at));) {
    base_text expected = {.allocator = &base_libc_allocator}, got = expected;
    if (strncmp(line, "machine ", 8) == 0) machine = line + 8;
    if (strncmp(line, "run", 3) != 0) continue;
    while (strncmp(at, "  ", 2) == 0) base_text_print(&expected, "%s\n", next_line(f, &at));
    outcome o = run(f, base_arena_format(f->arena, "launch --dry-run " PLAIN "--machine '%s' %s", machine, line + 3));
    keep_lines(f, &got, o.out, false);
    keep_lines(f, &got, o.err, true);
    if (!got.at || !expected.at || strcmp(got.at, expected.at) != 0)
      fail_msg("%s\n%s\ngives:\n%sinstead of:\n%s", machine, line, got.at ? got.at : "",
               expected.at ? expected.at : "");
    assert_int_equal(o.status, strstr(got.at, "treadle: launch:") ? TD_BAD_ARGUMENT : 0);
    base_text_free(&expected);
    base_text_free(&got);
    cases++;
  }
  assert_true(cases > 70);
}

#define TWO_SOCKETS "--machine 'package:2 [numa] core:28 pu:2(indexes=core:package)' "

/* The notice of the original is counted after filtering, and so never printed. */
static void what_is_left_out_is_told(void **state) {
  fixture *f = *state;
  outcome o = run(f, "launch --dry-run " PLAIN TWO_SOCKETS "--ninstances 3 x");
  assert_holds(o.out, "note: 56 hyper-threads are left out; --use-logical-cores takes them\n");
  assert_holds(o.out, "note: instance 1 crosses NUMA nodes 0-1; --bind-numa-node keeps it in one\n");
  o = run(f, "launch --dry-run " PLAIN "--machine 'core:4 pu:1; efficient 2-3; quota 1.5' x");
  assert_holds(o.out, "note: 2 efficiency cores' CPUs are left out; --use-e-cores takes them\n");
  assert_holds(o.out, "note: the cgroup's quota of 1.5 CPUs leaves each instance 1 thread\n");
}

static void plans_are_json(void **state) {
  fixture *f = *state;
  outcome o = run_after(f, "env -u OMP_NUM_THREADS -u LD_PRELOAD",
                        "launch --json " PLAIN TWO_SOCKETS "--throughput-mode --on-failure restart a.py --b");
  assert_int_equal(o.status, 0);
  json_t *root = parse(o.out), *second = json_array_get(json_object_get(root, "instances"), 1);
  assert_int_equal(json_array_size(json_object_get(root, "instances")), 2);
  assert_string_equal(json_string_value(json_object_get(second, "cpu_list")), "28-55");
  assert_int_equal(json_integer_value(json_object_get(second, "threads")), 28);
  assert_int_equal(json_integer_value(json_array_get(json_object_get(second, "nodes"), 0)), 1);
  json_t *own = json_object_get(second, "environment");
  assert_string_equal(json_string_value(json_object_get(own, "OMP_NUM_THREADS")), "28");
  assert_string_equal(json_string_value(json_object_get(own, "TREADLE_NUM_THREADS")), "28");
  assert_string_equal(json_string_value(json_object_get(root, "memory")), "strict");
  assert_string_equal(json_string_value(json_object_get(root, "on_failure")), "restart");
  json_t *command = json_object_get(root, "command");
  static const char *const words[] = {"python3", "-u", "a.py", "--b"};
  for (size_t i = 0; i < 4; i++) assert_string_equal(json_string_value(json_array_get(command, i)), words[i]);
  json_decref(root);
}

/* ---- environment ---- */

static void libraries_are_found(void **state) {
  fixture *f = *state;
  assert_int_equal(system("mkdir -p env/lib && touch env/lib/libtcmalloc_minimal.so.4 env/lib/libjemalloc.so.2 "
                          "env/lib/libjemalloc.so.x env/lib/libiomp5.so"),
                   0);
  const char *before = base_arena_format(f->arena,
                                         "env -u OMP_NUM_THREADS -u MALLOC_CONF ASAN_OPTIONS=verify_asan_link_order=0 "
                                         "LD_PRELOAD=/no/such.so:libm.so.6 CONDA_PREFIX=%s/env",
                                         f->folder);
  outcome o = run_after(f, before, "launch --dry-run x");
  assert_holds(o.out, base_arena_format(
                          f->arena, "LD_PRELOAD=libm.so.6:%s/env/lib/libtcmalloc_minimal.so.4:%s/env/lib/libiomp5.so\n",
                          f->folder, f->folder));
  assert_holds(o.out, "KMP_AFFINITY=granularity=fine,compact,1,0\n");
  assert_holds(o.out, "KMP_BLOCKTIME=1\n");
  assert_holds(o.out, "note: LD_PRELOAD: /no/such.so is not there and is left out\n");
  o = run_after(f, before, "launch --dry-run --enable-jemalloc --disable-iomp x");
  assert_holds(o.out, "env/lib/libjemalloc.so.2\n");
  assert_holds(o.out, "MALLOC_CONF=oversize_threshold:1,background_thread:true,metadata_thp:auto\n");
  assert_holds(o.out, "OMP_SCHEDULE=STATIC\n");
  assert_holds(o.out, "OMP_PROC_BIND=CLOSE\n");
  o = run_after(f, before, "launch --dry-run --memory-allocator jemalloc --benchmark x");
  assert_holds(o.out, "dirty_decay_ms:-1,muzzy_decay_ms:-1\n");
  o = run_after(f, before, "launch --dry-run --enable-jemalloc --enable-tcmalloc x");
  assert_int_equal(o.status, TD_BAD_ARGUMENT);
  o = run_after(f, before, "launch --dry-run --multi-task-manager none " TWO_SOCKETS "--ninstances 2 x");
  assert_holds(o.out, "KMP_AFFINITY=granularity=fine,proclist=[28-55],explicit\n");
  assert_holds(o.out, "binding: none, memory none\n");
}

static void what_the_user_sets_stays(void **state) {
  fixture *f = *state;
  outcome o = run_after(f, "env OMP_NUM_THREADS=3", "launch " PLAIN "-- sh -c 'echo $OMP_NUM_THREADS'");
  assert_string_equal(o.out, "3\n");
  assert_holds(o.err, "treadle launch: OMP_NUM_THREADS=3 is yours and stays; else it were ");
}

static void options_come_from_a_file(void **state) {
  fixture *f = *state;
  save_text("options",
            "# two\nninstances = 2\n--ncores_per_instance 5\nmemory-allocator=default\nomp-runtime default\n");
  outcome o = run(f, "launch --options options --ninstances 1 --dry-run " TWO_SOCKETS "x");
  assert_holds(o.out, "instance 0: CPUs 0-4, node 0, 5 threads\n");
  assert_null(strstr(o.out, "instance 1"));
  save_text("options", "ninstances 2\nno-such 1\n");
  o = run(f, "launch --options options --dry-run x");
  assert_int_equal(o.status, TD_BAD_ARGUMENT);
  assert_holds(o.err, "options, line 2: unknown option 'no-such'");
}

static void faults_say_what_to_do(void **state) {
  fixture *f = *state;
  static const char *const faults[][2] = {
      {"", "a program to launch is missing"},
      {"--nnodes 2 x", "docs/scaling.md has the same layout"},
      {"--auto-ipex x", "programs are not rewritten"},
      {"--machine pu:2 x", "--machine is for --dry-run"},
      {"--dry-run --machine 'core:2' x", "the last level is not pu"},
      {"--dry-run=1 x", "--dry-run takes no value"},
      {"--on-failure panic x", "choose one of: stop continue restart"},
      {"--ninstances -2 x", "is no count"},
      {"--ninstances", "a value is missing after '--ninstances'"},
      {"--max-restarts x x", "is no count"},
      {"--options none x", "none"},
      {PLAIN "no-such-program", "instance 0 cannot run no-such-program: No such file"},
      {PLAIN "--log-dir /proc/none true", "folder of the logs cannot be made"},
  };
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    outcome o = run(f, base_arena_format(f->arena, "launch %s", faults[i][0]));
    assert_int_not_equal(o.status, 0);
    assert_holds(o.err, faults[i][1]);
  }
  outcome o = run(f, "launch --help");
  assert_int_equal(o.status, 0);
  assert_holds(o.out, "--ncores-per-instance N");
  o = run(f, "help launch");
  assert_holds(o.out, "usage: treadle launch [OPTION]... [--] PROGRAM");
}

/* ---- processes ---- */

static int cpus_here(fixture *f) {
  json_t *root = parse(run(f, "launch --json " PLAIN "x").out);
  const int count = (int)json_integer_value(json_object_get(json_object_get(root, "machine"), "allowed"));
  json_decref(root);
  return count;
}

static void instances_run_on_their_cpus(void **state) {
  fixture *f = *state;
  json_t *root = parse(run(f, "launch --json --share-cores --ninstances 2 " PLAIN "x").out);
  outcome o = run(f, "launch --share-cores --ninstances 2 " PLAIN
                     "--log-dir logs -- sh -c 'grep Cpus_allowed_list "
                     "/proc/self/status; echo $TREADLE_NUM_THREADS' ");
  assert_int_equal(o.status, 0);
  assert_string_equal(o.out, "");
  for (size_t i = 0; i < 2; i++) {
    json_t *instance = json_array_get(json_object_get(root, "instances"), i);
    const char *list = json_string_value(json_object_get(instance, "cpu_list"));
    const char *name = base_arena_format(f->arena, "cat logs/run_*_instance_%zu_cores_*.log > one.txt", i);
    assert_int_equal(system(name), 0);
    assert_string_equal(slurp(f, "one.txt", NULL),
                        base_arena_format(f->arena, "Cpus_allowed_list:\t%s\n%d\n", list,
                                          (int)json_integer_value(json_object_get(instance, "threads"))));
  }
  json_decref(root);
}

static void exit_codes_are_true(void **state) {
  fixture *f = *state;
  assert_int_equal(run(f, "launch " PLAIN "true").status, 0);
  assert_int_equal(run(f, "launch " PLAIN "-- sh -c 'exit 7'").status, 7);
  assert_int_equal(run(f, "launch " PLAIN "--log-dir logs -- sh -c 'exit 7'").status, 7); /* not that of tee */
  outcome o = run(f, "launch " PLAIN "-- sh -c 'kill -KILL $$'");
  assert_int_equal(o.status, 128 + SIGKILL);
  assert_holds(o.err, "treadle launch: instance 0 was ended by signal 9\n");
}

/* The first to make the folder fails. Each has a folder of its own: a mkdir may outlive the instance that is ended. */
#define ONE_FAILS(turn) "-- sh -c 'if mkdir " turn " 2>/dev/null; then exit 5; else %s; fi'"

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void one_failure_stops_the_others(void **state) {
  fixture *f = *state;
  const double began = seconds();
  outcome o = run(f, base_arena_format(f->arena, "launch --share-cores --ninstances 3 " PLAIN ONE_FAILS("stopped"),
                                       "exec sleep 60"));
  assert_int_equal(o.status, 5);
  assert_true(seconds() - began < 30);
  assert_int_equal(system("rmdir stopped"), 0);
  o = run(f, base_arena_format(f->arena,
                               "launch --on-failure continue --share-cores --ninstances 3 " PLAIN ONE_FAILS("others"),
                               "sleep 0.1; echo done"));
  assert_int_equal(o.status, 5);
  assert_string_equal(o.out, "done\ndone\n");
  assert_int_equal(system("rmdir others"), 0);
}

static void failures_are_started_again(void **state) {
  fixture *f = *state;
  outcome o =
      run(f, base_arena_format(f->arena, "launch --on-failure restart " PLAIN ONE_FAILS("again"), "echo again"));
  assert_int_equal(o.status, 0);
  assert_string_equal(o.out, "again\n");
  assert_holds(o.err, "instance 0 ended with status 5\n");
  assert_holds(o.err, "instance 0 starts again in 0.1 s\n");
  o = run(f, "launch --on-failure restart --max-restarts 2 " PLAIN "-- sh -c 'echo run; exit 4'");
  assert_int_equal(o.status, 4);
  assert_string_equal(o.out, "run\nrun\nrun\n");
  assert_holds(o.err, "starts again in 0.2 s\n"); /* twice as long */
  assert_holds(o.err, "failed too often");
}

static void signals_are_passed_on(void **state) {
  fixture *f = *state;
  const char *child =
      "-- sh -c 'trap \"echo usr; exit 3\" USR1; trap \"echo term; exit 0\" TERM; touch ready; while :; "
      "do sleep 0.05; done'";
  static const struct {
    const char *name;
    const char *out;
    int status;
  } signals[] = {{"USR1", "usr\n", 3}, {"TERM", "term\n", 128 + SIGTERM}};
  for (size_t i = 0; i < 2; i++) {
    const char *script = base_arena_format(f->arena,
                                           "rm -f ready; %s launch " PLAIN
                                           "%s >out.txt 2>err.txt & while [ ! -e ready ]; do sleep 0.05; done; "
                                           "kill -%s $!; wait $!",
                                           f->treadle, child, signals[i].name);
    save_text("script", script);
    const int status = system("sh script");
    assert_int_equal(WEXITSTATUS(status), signals[i].status);
    assert_string_equal(slurp(f, "out.txt", NULL), signals[i].out);
  }
}

/* Many children that end at once. */
static void storms_of_ends_lose_none(void **state) {
  fixture *f = *state;
  outcome o = run(f, "launch --share-cores --ninstances 64 " PLAIN "echo x");
  assert_int_equal(o.status, 0);
  assert_int_equal(strlen(o.out), 64 * 2);
  assert_true(cpus_here(f) >= 1);
}

/* ---- docs/scaling.md ---- */

static void expect_text(const char *command, const char *expected, const char *got) {
  if (strcmp(expected, got) != 0) fail_msg("%s\nprints:\n%s\ninstead of:\n%s", command, got, expected);
}

/* Each "$ treadle ..." is run; where a machine is named and lines follow, they are what it prints. */
static void the_walk_through_is_true(void **state) {
  fixture *f = *state;
  const char *at = slurp(f, base_arena_format(f->arena, "%s/docs/scaling.md", f->start), NULL);
  int commands = 0;
  for (char *line; (line = next_line(f, &at));) {
    base_text expected = {.allocator = &base_libc_allocator};
    if (strncmp(line, "$ treadle ", 10) != 0) continue;
    while (strncmp(at, "```", 3) != 0 && *at != '$') base_text_print(&expected, "%s\n", next_line(f, &at));
    outcome o = run_after(f, "env -u OMP_NUM_THREADS -u LD_PRELOAD -u OMP_SCHEDULE -u OMP_PROC_BIND", line + 10);
    if (expected.at) expect_text(line, expected.at, o.status ? o.err : o.out);
    else assert_int_equal(o.status, 0);
    base_text_free(&expected);
    commands++;
  }
  assert_true(commands >= 6);
}

/* What "./dev simulate" is shown to take it takes, here for a small machine and few samples. */
static void simulations_run(void **state) {
  fixture *f = *state;
  const char *at = slurp(f, base_arena_format(f->arena, "%s/docs/scaling.md", f->start), NULL);
  const char *simulate =
      base_arena_format(f->arena, "%.*s/bench_simulate", (int)(strrchr(f->treadle, '/') - f->treadle), f->treadle);
  int commands = 0;
  if (access(simulate, X_OK) != 0) skip(); /* it reads the trees of our own threads */
  for (char *line; (line = next_line(f, &at));) {
    if (strncmp(line, "$ ./dev simulate ", 17) != 0) continue;
    const char *command = base_arena_format(f->arena,
                                            "%s %s --batch 2 --seconds 0.02 --machine 'package:2 [numa] core:2 pu:1' "
                                            ">out.txt",
                                            simulate, line + 17);
    assert_int_equal(system(command), 0);
    assert_holds(slurp(f, "out.txt", NULL), "weights that a worker reads in a run:\n");
    commands++;
  }
  assert_true(commands >= 1);
}

/* Slurm's script is one for sh, and the options of all clusters are known. */
static void cluster_files_hold(void **state) {
  fixture *f = *state;
  const char *text = slurp(f, base_arena_format(f->arena, "%s/docs/scaling.md", f->start), NULL);
  const char *start = strstr(text, "```sh\n");
  assert_non_null(start);
  start += 6;
  save_text("script", base_arena_slice(f->arena, start, (size_t)(strstr(start, "```") - start)));
  assert_int_equal(system("sh -n script"), 0);
  assert_int_equal(run(f, "launch --dry-run " TWO_SOCKETS "--ncores-per-instance 4 --log-dir logs/1 x").status, 0);
  assert_int_equal(run(f, "launch --dry-run " TWO_SOCKETS "--ncores-per-instance 4 --on-failure restart x").status, 0);
  assert_int_equal(run(f, "launch --dry-run " TWO_SOCKETS "--ncores-per-instance 4 --rank 3 x").status, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layouts_are_as_recorded),
      cmocka_unit_test(what_is_left_out_is_told),
      cmocka_unit_test(plans_are_json),
      cmocka_unit_test(libraries_are_found),
      cmocka_unit_test(what_the_user_sets_stays),
      cmocka_unit_test(options_come_from_a_file),
      cmocka_unit_test(faults_say_what_to_do),
      cmocka_unit_test(instances_run_on_their_cpus),
      cmocka_unit_test(exit_codes_are_true),
      cmocka_unit_test(one_failure_stops_the_others),
      cmocka_unit_test(failures_are_started_again),
      cmocka_unit_test(signals_are_passed_on),
      cmocka_unit_test(storms_of_ends_lose_none),
      cmocka_unit_test(the_walk_through_is_true),
      cmocka_unit_test(simulations_run),
      cmocka_unit_test(cluster_files_hold),
  };
  return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
