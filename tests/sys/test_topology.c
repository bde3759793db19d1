/* How the CPUs of a machine hang together: machines that are not here, from descriptions, XML and recorded /sys. */
#include "test.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/sys_priv.h"
#include "sys/topology.h"

static base_arena *arena;

static sys_topology machine(const char *text) {
  sys_topology t;
  td_error err = {.offset = -1};
  if (sys_topology_parse(base_str_of(text), arena, &t, &err) != TD_OK) fail_msg("%s: %s", text, err.text);
  return t;
}

/* "number:core.thread@package/node/l3", with e for efficiency cores and ! for CPUs that are not allowed. */
static const char *described(const sys_topology *t, uint32_t number) {
  const sys_cpu *c = sys_topology_find(t, number);
  if (!c) return "none";
  return base_arena_format(arena, "%u:%u.%u@%u/%u/%u%s%s", c->number, c->core, c->thread, c->package, c->node, c->l3,
                           c->efficient ? "e" : "", c->allowed ? "" : "!");
}

static void expect_counts(const sys_topology *t, const char *counts) {
  assert_string_equal(base_arena_format(arena, "%u cpus %u cores %u packages %u nodes %u l3s %u allowed %g quota",
                                        t->count, t->cores, t->packages, t->nodes, t->l3s, t->allowed, t->quota_cpus),
                      counts);
}

static void two_sockets_with_two_threads_a_core(void **state) {
  (void)state;
  sys_topology t = machine("package:2 [numa] core:28 pu:2(indexes=core:package)");
  expect_counts(&t, "112 cpus 56 cores 2 packages 2 nodes 2 l3s 112 allowed 0 quota");
  assert_string_equal(described(&t, 0), "0:0.0@0/0/0");
  assert_string_equal(described(&t, 27), "27:27.0@0/0/0");
  assert_string_equal(described(&t, 28), "28:28.0@1/1/1");
  assert_string_equal(described(&t, 56), "56:0.1@0/0/0");
  assert_string_equal(described(&t, 111), "111:55.1@1/1/1");
  assert_false(t.here);
  t = machine("pack:2 [numa(memory=192GB)] core:28 pu:2"); /* siblings side by side */
  assert_string_equal(described(&t, 1), "1:0.1@0/0/0");
  assert_string_equal(described(&t, 56), "56:28.0@1/1/1");
  t = machine("package:2 core:28 pu:2"); /* one memory for all */
  assert_int_equal(t.nodes, 1);
}

static void clusters_chiplets_and_numbers(void **state) {
  (void)state;
  sys_topology t = machine("pack:2 die:2 [numa] l3:1 core:14 pu:2(indexes=core:pack)");
  expect_counts(&t, "112 cpus 56 cores 2 packages 4 nodes 4 l3s 112 allowed 0 quota");
  assert_string_equal(described(&t, 14), "14:14.0@0/1/1");
  assert_string_equal(described(&t, 42), "42:42.0@1/3/3");
  t = machine("pack:2 [numa] l3:12(size=32MB) l2:8(size=1MB) core:1 pu:2(indexes=l2:l3:pack)");
  expect_counts(&t, "384 cpus 192 cores 2 packages 2 nodes 24 l3s 384 allowed 0 quota");
  assert_string_equal(described(&t, 8), "8:8.0@0/0/1");
  assert_string_equal(described(&t, 96), "96:96.0@1/1/12");
  assert_string_equal(described(&t, 192), "192:0.1@0/0/0");
  t = machine("package:2 [numa(indexes=1,0)] core:2 pu:2(indexes=0,4,2,6,1,5,3,7)"); /* sockets take turns */
  assert_string_equal(described(&t, 0), "0:0.0@0/1/0");
  assert_string_equal(described(&t, 1), "1:2.0@1/0/1");
  assert_string_equal(described(&t, 6), "6:1.1@0/1/0");
}

static void statements_change_a_machine(void **state) {
  (void)state;
  sys_topology t = machine("core:6 pu:2; efficient 4-11 # slow\noffline 3;;allowed 0-2,4-5 \n quota 1.5");
  expect_counts(&t, "11 cpus 6 cores 1 packages 1 nodes 1 l3s 5 allowed 1.5 quota");
  assert_string_equal(described(&t, 2), "2:1.0@0/0/0");
  assert_string_equal(described(&t, 3), "none");
  assert_string_equal(described(&t, 4), "4:2.0@0/0/0e");
  assert_string_equal(described(&t, 11), "11:5.1@0/0/0e!");
}

static void faults_are_named(void **state) {
  (void)state;
  static const char *const faults[][2] = {
      {"", "it has no CPU"},
      {"core:2", "the last level is not pu"},
      {"core:0 pu:1", "is 0 or too large"},
      {"core:9000 pu:1", "too many objects"},
      {"package:4096 pu:4", "is 0 or too large"},
      {"room:2 pu:2", "no kind of level"},
      {"core pu:2", "a number of objects is missing"},
      {"core:2 [core] pu:1", "no kind of level"},
      {"core:2 [numa pu:1", "']' is missing"},
      {"core:2 pu:2(indexes=0,1,2)", "not as many indexes"},
      {"core:2 pu:2(indexes=0,1,2,3,4)", "one too many"},
      {"core:2 pu:2(indexes=0,1,2,2)", "CPU 2 is there twice"},
      {"core:2 pu:2(indexes=numa)", "no level to count by"},
      {"core:2 pu:2(indexes=core:core)", "named twice"},
      {"core:2 pu:1; offline 0-1", "it has no CPU"},
      {"core:2 pu:1; allowed 5", "none of its CPUs is allowed"},
      {"core:2 pu:1; quota none", "'quota none' is not"},
      {"core:2 pu:1; quota 0", "'quota 0' is not"},
      {"core:2 pu:1; offline 3-1", "'offline 3-1' is not"},
      {"<topology><object type=\"PU\"/></topology>", "no os_index"},
      {"<object type=\"Machine\">", "an object does not end"},
      {"</object>", "without its beginning"},
      {"<object type=\"Machine\"", "a tag that does not end"},
  };
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    sys_topology t;
    td_error err = {.offset = -1};
    assert_int_equal(sys_topology_parse(base_str_of(faults[i][0]), arena, &t, &err), TD_BAD_FILE);
    if (!strstr(err.text, faults[i][1])) fail_msg("'%s' says '%s'", faults[i][0], err.text);
  }
}

static const char xml_machine[] =
    "<?xml version=\"1.0\"?><!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
    "<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\" cpuset=\"0x3f\" allowed_cpuset=\"0x0000002f\">\n"
    " <object type=\"Package\" os_index=\"0\" gp_index=\"2\">\n"
    "  <object type=\"NUMANode\" os_index=\"1\" cpuset=\"0x0f\"><page_type size=\"4096\" count=\"1\"/></object>\n"
    "  <object type=\"L3Cache\" cache_size=\"33554432\">\n"
    "   <object type=\"Core\" os_index=\"0\"><object type=\"PU\" os_index=\"0\"/><object type=\"PU\" os_index=\"2\"/>"
    "</object><object type=\"Core\" os_index=\"1\"><object type=\"PU\" os_index=\"1\"/><object type=\"PU\" "
    "os_index=\"3\"/></object></object></object>\n"
    " <object type=\"Package\" os_index=\"1\"><object type=\"L3Cache\"><object type=\"Core\" os_index=\"0\">"
    "<object type=\"PU\" os_index=\"4\"/></object></object>\n"
    "  <object type=\"Core\" os_index=\"1\"><object type=\"PU\" os_index=\"5\"/></object>\n"
    "  <object type=\"NUMANode\" os_index=\"0\"/></object></object>\n"
    " <cpukind cpuset=\"0x0000000f\"><info name=\"CoreType\" value=\"IntelCore\"/></cpukind>\n"
    " <cpukind cpuset=\"0x00000030\"><info name=\"CoreType\" value=\"IntelAtom\"/></cpukind></topology>\n";

static void xml_is_read(void **state) {
  (void)state;
  sys_topology t = machine(xml_machine);
  expect_counts(&t, "6 cpus 4 cores 2 packages 2 nodes 3 l3s 5 allowed 0 quota");
  assert_string_equal(described(&t, 2), "2:0.1@0/1/0");
  assert_string_equal(described(&t, 3), "3:1.1@0/1/0");
  assert_string_equal(described(&t, 4), "4:2.0@1/0/1e!");
  assert_string_equal(described(&t, 5), "5:3.0@1/0/2e");
  t = machine(
      "<topology><object type=\"Machine\" os_index=\"0\">" /* version 1: memory around its CPUs */
      "<object type=\"NUMANode\" os_index=\"0\"><object type=\"Socket\" os_index=\"3\"><object type=\"Cache\" "
      "depth=\"3\">"
      "<object type=\"Core\"><object type=\"PU\" os_index=\"7\"/></object></object></object></object>"
      "<object type=\"NUMANode\" os_index=\"1\"><object type=\"Socket\" os_index=\"4\"><object type=\"Core\">"
      "<object type=\"PU\" os_index=\"6\"/></object></object></object></object></topology>; quota 1");
  expect_counts(&t, "2 cpus 2 cores 2 packages 2 nodes 2 l3s 2 allowed 0 quota");
  assert_string_equal(described(&t, 6), "6:1.0@4/1/1");
}

/* Each beginning of `text` is read or refused, and nothing behind its end is. */
static void cut_everywhere(const char *text, uint32_t cpus) {
  for (size_t length = 0; length < strlen(text); length++) {
    char *cut = malloc(length + 1); /* of its own, so that sanitizers see a read behind it */
    memcpy(cut, text, length);
    cut[length] = 'x';
    sys_topology t;
    td_error err = {.offset = -1};
    const td_status status = sys_topology_parse((base_str){cut, length}, arena, &t, &err);
    assert_true(status == TD_BAD_FILE || (status == TD_OK && t.count <= cpus));
    free(cut);
  }
}

static void any_cut_is_refused_or_read(void **state) {
  (void)state;
  cut_everywhere(xml_machine, 6);
  cut_everywhere("package:2 [numa] core:8 pu:2(indexes=core:package); quota 1.5; offline 3; allowed 0-9", 32);
}

static char root[64];

static void put(const char *path, const char *text) {
  char full[512];
  snprintf(full, sizeof full, "%s/%s", root, path);
  for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
    *slash = 0;
    mkdir(full, 0700);
  }
  FILE *file = fopen(full, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static void put_cpu(uint32_t cpu, const char *package, const char *siblings, const char *cache) {
  char path[256];
  snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%u/topology/physical_package_id", cpu);
  put(path, package);
  snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
  put(path, siblings);
  snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%u/cache/index0/level", cpu);
  put(path, "3\n");
  snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%u/cache/index0/shared_cpu_list", cpu);
  put(path, cache);
}

static sys_topology recorded(void) {
  sys_topology t;
  td_error err = {.offset = -1};
  if (sys_topology_read(root, arena, &t, &err) != TD_OK) fail_msg("%s", err.text);
  return t;
}

static void start_tree(void) {
  snprintf(root, sizeof root, "/tmp/treadle-root-XXXXXX");
  assert_non_null(mkdtemp(root));
}

static void end_tree(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", root);
  assert_int_equal(system(command), 0);
}

static void a_recorded_system_is_read(void **state) {
  (void)state;
  start_tree();
  put("sys/devices/system/cpu/online", "0-1,4-5\n"); /* 2 and 3 are off */
  put_cpu(0, "0\n", "0,4\n", "0,4\n");
  put_cpu(4, "0\n", "0,4\n", "0,4\n");
  put_cpu(1, "1\n", "1\n", "1,5\n");
  put_cpu(5, "1\n", "5\n", "1,5\n");
  put("sys/devices/system/node/online", "0-1\n");
  put("sys/devices/system/node/node0/cpulist", "0,4\n");
  put("sys/devices/system/node/node1/cpulist", "1,5\n");
  put("sys/devices/cpu_atom/cpus", "5\n");
  put("proc/self/status", "Name:\tx\nCpus_allowed:\t3f\nCpus_allowed_list:\t0-3,5\n");
  put("proc/self/cgroup", "0::/pod/box\n");
  put("proc/self/mountinfo", "35 24 0:30 /pod /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  put("sys/fs/cgroup/box/cpu.max", "150000 100000\n");
  put("sys/fs/cgroup/cpu.max", "400000 100000\n");
  sys_topology t = recorded();
  expect_counts(&t, "4 cpus 3 cores 2 packages 2 nodes 2 l3s 3 allowed 1.5 quota");
  assert_string_equal(described(&t, 4), "4:0.1@0/0/0!");
  assert_string_equal(described(&t, 1), "1:1.0@1/1/1");
  assert_string_equal(described(&t, 5), "5:2.0@1/1/1e");
  put("sys/fs/cgroup/cpu.max", "50000 100000\n"); /* a parent allows less */
  assert_true(recorded().quota_cpus == 0.5);
  end_tree();
}

static void a_system_without_sys_is_read(void **state) {
  (void)state;
  start_tree();
  put("proc/self/status", "Cpus_allowed_list:\t2-4\n");
  sys_topology t = recorded();
  expect_counts(&t, "3 cpus 3 cores 1 packages 1 nodes 1 l3s 3 allowed 0 quota");
  end_tree();
  start_tree(); /* nothing at all */
  t = recorded();
  expect_counts(&t, "1 cpus 1 cores 1 packages 1 nodes 1 l3s 1 allowed 0 quota");
  put("proc/self/cgroup", "5:cpuset:/\n2:cpuacct,cpu:/docker/1\n"); /* version 1 */
  put("proc/self/mountinfo", "32 31 0:29 /docker/1 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  assert_true(recorded().quota_cpus == 2.5);
  end_tree();
}

static void slow_cores_are_told_by_their_capacity(void **state) {
  (void)state;
  start_tree();
  put("sys/devices/system/cpu/online", "0-3\n");
  static const char *const most[] = {"5200000\n", "5000000\n", "3800000\n", "3800000\n"};
  for (uint32_t i = 0; i < 4; i++) {
    char path[128];
    snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%u/cpufreq/cpuinfo_max_freq", i);
    put(path, most[i]);
  }
  sys_topology t = recorded();
  assert_false(sys_topology_find(&t, 1)->efficient); /* favoured cores differ by little */
  assert_true(sys_topology_find(&t, 2)->efficient && sys_topology_find(&t, 3)->efficient);
  end_tree();
}

static void this_machine_is_read(void **state) {
  (void)state;
  sys_topology t;
  td_error err = {.offset = -1};
  sys_machine m;
  assert_int_equal(sys_topology_read("", arena, &t, &err), TD_OK);
  sys_machine_read(&m);
  assert_true(t.here && t.count >= t.allowed && t.cores <= t.count && t.nodes >= 1);
  assert_int_equal(t.allowed, m.allowed_cpus);
  assert_true(t.quota_cpus == m.quota_cpus);
}

static void sets_are_lists(void **state) {
  (void)state;
  static const char *const good[][2] = {
      {"0", "0"}, {"3,1,2", "1-3"}, {" 0-3,8-9\n", "0-3,8-9"}, {"8191", "8191"}, {"63-64,1-1", "1,63-64"}};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    sys_cpu_set set = {0};
    base_text text = {.allocator = &base_libc_allocator};
    assert_true(sys_set_parse(base_str_of(good[i][0]), &set));
    sys_set_print(&set, &text);
    assert_string_equal(text.at, good[i][1]);
    base_text_free(&text);
  }
  static const char *const bad[] = {
      "", " ", "1-", "-1", "1,", "2-1", "8192", "a", "1 2", "0x1", "99999999999999999999"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    sys_cpu_set set = {0};
    if (sys_set_parse(base_str_of(bad[i]), &set)) fail_msg("'%s' is taken for a list", bad[i]);
  }
}

static void files_are_loaded(void **state) {
  (void)state;
  start_tree();
  put("machine", "# a laptop\npackage:1 core:4 pu:1\nefficient 2-3\n");
  char path[128];
  snprintf(path, sizeof path, "%s/machine", root);
  sys_topology t;
  td_error err = {.offset = -1};
  assert_int_equal(sys_topology_load(path, arena, &t, &err), TD_OK);
  assert_true(t.count == 4 && sys_topology_find(&t, 3)->efficient);
  assert_int_equal(sys_topology_load("core:3 pu:1", arena, &t, &err), TD_OK);
  assert_int_equal(sys_topology_load("pu:3", arena, &t, &err), TD_OK);
  assert_int_equal(t.cores, 3);
  assert_int_not_equal(sys_topology_load("no-such-file", arena, &t, &err), TD_OK);
  assert_non_null(strstr(err.name, "no-such-file"));
  end_tree();
}

static int open_arena(void **state) {
  (void)state;
  arena = base_arena_new(&base_libc_allocator);
  return arena ? 0 : -1;
}

static int close_arena(void **state) {
  (void)state;
  base_arena_free(arena);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_sockets_with_two_threads_a_core),
      cmocka_unit_test(clusters_chiplets_and_numbers),
      cmocka_unit_test(statements_change_a_machine),
      cmocka_unit_test(faults_are_named),
      cmocka_unit_test(xml_is_read),
      cmocka_unit_test(any_cut_is_refused_or_read),
      cmocka_unit_test(a_recorded_system_is_read),
      cmocka_unit_test(a_system_without_sys_is_read),
      cmocka_unit_test(slow_cores_are_told_by_their_capacity),
      cmocka_unit_test(this_machine_is_read),
      cmocka_unit_test(sets_are_lists),
      cmocka_unit_test(files_are_loaded),
  };
  return cmocka_run_group_tests(tests, open_arena, close_arena);
}
