/* test_containers.c -- processes in control groups of their own: quotas of 0.5, 1.5 and 2 CPUs and sets of CPUs give
 * pools the threads and the CPUs that `treadle info` tells. Where this process may make no group (most containers), the
 * test is left out; tests/sys reads recorded groups everywhere. */
#include "test.h"

#include <dirent.h>
#include <jansson.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <treadle/treadle.h>

typedef struct groups {
  char quota[128], set[128]; /* folders; that of the set is "" where it is the same (version 2) */
  uint32_t cpus[2];          /* the first that this process may use */
} groups;

static bool put(const char *folder, const char *name, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  if (!file) return false;
  const bool written = fputs(text, file) >= 0;
  return fclose(file) == 0 && written;
}

static bool make(char *folder, size_t size, const char *parent) {
  snprintf(folder, size, "%s/treadle-test-%d", parent, (int)getpid());
  return mkdir(folder, 0755) == 0;
}

static int open_groups(void **state) {
  static groups g;
  cpu_set_t set;
  char nodes[16] = "0";
  uint32_t count = 0;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return -1;
  for (uint32_t cpu = 0; cpu < CPU_SETSIZE && count < 2; cpu++)
    if (CPU_ISSET(cpu, &set)) g.cpus[count++] = cpu;
  *state = NULL;
  if (count < 2) return 0;
  if (make(g.quota, sizeof g.quota, "/sys/fs/cgroup/cpu")) {
    if (make(g.set, sizeof g.set, "/sys/fs/cgroup/cpuset") && put(g.set, "cpuset.mems", nodes)) *state = &g;
  } else if (make(g.quota, sizeof g.quota, "/sys/fs/cgroup") && put(g.quota, "cpu.max", "max 100000")) {
    *state = &g;
  }
  if (*state) return 0;
  if (*g.set) rmdir(g.set);
  if (*g.quota) rmdir(g.quota);
  return 0;
}

static int close_groups(void **state) {
  const groups *g = *state;
  if (!g) return 0;
  if (*g->set) rmdir(g->set);
  return rmdir(g->quota);
}

static bool limit(const groups *g, double quota, const char *list) {
  char text[64];
  snprintf(text, sizeof text, *g->set ? "%d" : "%d 100000", (int)(quota * 100000));
  if (quota <= 0) strcpy(text, *g->set ? "-1" : "max 100000");
  return put(g->quota, *g->set ? "cpu.cfs_quota_us" : "cpu.max", text) &&
         put(*g->set ? g->set : g->quota, "cpuset.cpus", list);
}

static bool enter(const groups *g) {
  return put(g->quota, "cgroup.procs", "0") && (!*g->set || put(g->set, "cgroup.procs", "0"));
}

/* ---- what a process in the groups finds ---- */

/* Threads of a pool, and the most CPUs that one of them may run on. */
static void look_at_pool(uint32_t asked, int *threads, int *widest) {
  td_error err;
  td_pool *pool;
  const td_pool_options options = {.size = sizeof options, .threads = asked, .name = "mine"};
  if (td_pool_new(&options, &pool, &err) != TD_OK) _exit(3);
  DIR *folder = opendir("/proc/self/task");
  *threads = 1; /* the caller's */
  *widest = 0;
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    char path[300], name[32] = "";
    cpu_set_t set;
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
    FILE *file = fopen(path, "r");
    if (file && !fgets(name, sizeof name, file)) name[0] = 0;
    if (file) fclose(file);
    if (strncmp(name, "mine/", 5) != 0) continue;
    ++*threads;
    if (sched_getaffinity(atoi(entry->d_name), sizeof set, &set) == 0 && CPU_COUNT(&set) > *widest)
      *widest = CPU_COUNT(&set);
  }
  closedir(folder);
  td_pool_free(pool);
}

static json_t *look_at_info(void) {
  char path[512], command[640];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 16);
  if (length <= 0) _exit(4);
  path[length] = 0;
  strcpy(strrchr(path, '/') + 1, "treadle");
  snprintf(command, sizeof command, "env -u TREADLE_NUM_THREADS -u OMP_NUM_THREADS -u MKL_NUM_THREADS %s info --json",
           path);
  FILE *out = popen(command, "r");
  json_t *root = out ? json_loadf(out, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
  if (!root || pclose(out) != 0) _exit(5);
  return json_object_get(root, "machine");
}

typedef struct box {
  double quota;
  int cpus, threads; /* of the set; that are usable */
  bool kept;         /* are two threads kept on a CPU each? */
} box;

static void expect(const char *what, double got, double wanted) {
  if (got == wanted) return;
  fprintf(stderr, "%s: %g instead of %g\n", what, got, wanted);
  _exit(6);
}

static void look_around(const groups *g, const box *b) {
  int threads, widest;
  if (!enter(g)) _exit(2);
  look_at_pool(0, &threads, &widest);
  expect("threads of a pool", threads, OWN_THREADS ? b->threads : 1);
  look_at_pool(2, &threads, &widest);
  if (OWN_THREADS) expect("CPUs of a thread", widest, b->kept ? 1 : b->cpus);
  const json_t *machine = look_at_info();
  const json_t *quota = json_object_get(machine, "quota_cpus");
  expect("threads of info", (double)json_integer_value(json_object_get(machine, "threads")), b->threads);
  expect("CPUs of info", (double)json_integer_value(json_object_get(machine, "allowed_cpus")), b->cpus);
  expect("quota of info", json_number_value(quota), b->quota);
  if (b->threads == 2) expect("kept by info", json_is_true(json_object_get(machine, "threads_kept")), b->kept);
  _exit(0);
}

static void quotas_and_sets(void **state) {
  const groups *g = *state;
  static const box boxes[] = {{0, 2, 2, true}, {0.5, 2, 1, false}, {1.5, 2, 1, false},
                              {2, 2, 2, true}, {0, 1, 1, false},   {1.5, 1, 1, false}};
  if (!g) skip();
  for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++) {
    char list[32];
    int status = -1;
    snprintf(list, sizeof list, boxes[i].cpus == 2 ? "%u,%u" : "%u", g->cpus[0], g->cpus[1]);
    if (!limit(g, boxes[i].quota, list)) skip(); /* a parent allows less */
    const pid_t child = fork();
    if (child == 0) look_around(g, &boxes[i]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0) fail_msg("quota %g, CPUs %s: status %x", boxes[i].quota, list, (unsigned)status);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(quotas_and_sets, open_groups, close_groups)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
