/* cgroup.c -- how much CPU time and memory control groups allow. Hosts mix both versions, and limits stand on any
 * level, so every hierarchy that can have the limit is walked from our group to the top that we can see, and the least
 * counts.
 */
#include "sys/sys_priv.h"
#include "sys/topology_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The next word of a line, words ending at any of `stops`; empty at the end of the line. */
static base_str next_word(const char **at, const char *stops) {
  const char *start = *at;
  size_t length = 0;
  while (start[length] && start[length] != '\n' && !strchr(stops, start[length])) length++;
  *at = start + length + (start[length] && start[length] != '\n');
  return (base_str){start, length};
}

static bool list_has(base_str list, const char *item) {
  const char *at = list.at, *end = list.at + list.length;
  while (at < end) {
    const char *comma = memchr(at, ',', (size_t)(end - at));
    const char *stop = comma ? comma : end;
    if (base_str_is((base_str){at, (size_t)(stop - at)}, item)) return true;
    at = stop + 1;
  }
  return false;
}

static const char *next_line(const char *at) {
  const char *end = strchr(at, '\n');
  return end ? end + 1 : at + strlen(at);
}

/* Lines are hierarchy:controllers:path; v2 is hierarchy 0 with no controllers. */
static base_str own_path(const char *text, const char *v1) {
  for (; *text; text = next_line(text)) {
    const char *at = text;
    base_str hierarchy = next_word(&at, ":"), controllers = next_word(&at, ":"), path = next_word(&at, "");
    if (v1 ? list_has(controllers, v1) : base_str_is(hierarchy, "0") && controllers.length == 0) return path;
  }
  return (base_str){0};
}

typedef struct mount {
  base_str root, point, kind, options;
} mount;

/* id parent major:minor root point options [optional fields] - kind source options: see proc(5). */
static mount read_mount(const char *line) {
  mount m = {0};
  base_str word;
  for (int i = 0; i < 3; i++) next_word(&line, " ");
  m.root = next_word(&line, " ");
  m.point = next_word(&line, " ");
  do word = next_word(&line, " ");
  while (word.length && !base_str_is(word, "-"));
  m.kind = next_word(&line, " ");
  next_word(&line, " ");
  m.options = next_word(&line, " ");
  return m;
}

static void place_in(const mount *m, base_str path, sys_cgroup *place) {
  size_t root = base_str_is(m->root, "/") ? 0 : m->root.length;
  bool beneath =
      path.length > root && memcmp(path.at, m->root.at, root) == 0 && path.at[root] == '/' && path.length > root + 1;
  /* A group outside of what the mount shows (a path of "/..", another root): its top is all that can be seen. */
  if (base_str_starts(path, "/..")) beneath = false;
  int tail = beneath ? (int)(path.length - root) : 0;
  int wanted = snprintf(place->folder, sizeof place->folder, "%.*s%.*s", (int)m->point.length, m->point.at, tail,
                        beneath ? path.at + root : "");
  snprintf(place->top, sizeof place->top, "%.*s", (int)m->point.length, m->point.at);
  if (wanted >= (int)sizeof place->folder) *place = (sys_cgroup){0};
}

void sys_cgroup_find(const char *cgroup, const char *mountinfo, const char *v1, sys_cgroup *place) {
  base_str path = own_path(cgroup, v1);
  place->folder[0] = place->top[0] = 0;
  if (path.length == 0) return;
  for (; *mountinfo; mountinfo = next_line(mountinfo)) {
    mount m = read_mount(mountinfo);
    if (!base_str_is(m.kind, v1 ? "cgroup" : "cgroup2") || (v1 && !list_has(m.options, v1))) continue;
    place_in(&m, path, place);
    return;
  }
}

static double ratio(const char *quota, const char *period) {
  double q = strtod(quota, NULL), p = strtod(period, NULL);
  return q > 0 && p > 0 ? q / p : 0;
}

double sys_quota_v2(const char *cpu_max) {
  char *period;
  double quota = strtod(cpu_max, &period); /* "max": nothing is read, 0 */
  return quota > 0 ? ratio(cpu_max, period) : 0;
}

double sys_quota_v1(const char *quota_us, const char *period_us) { return ratio(quota_us, period_us); }

static void read_beside(const char *folder, const char *name, char *text, size_t size) {
  char path[2 * SYS_PATH_MAX + 32];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  sys_read_text(path, text, size);
}

static double quota_of(const char *folder, const char *v1) {
  char first[64], second[64];
  read_beside(folder, v1 ? "cpu.cfs_quota_us" : "cpu.max", first, sizeof first);
  if (!v1) return sys_quota_v2(first);
  read_beside(folder, "cpu.cfs_period_us", second, sizeof second);
  return sys_quota_v1(first, second);
}

static double bytes_of(const char *folder, const char *v1) {
  char text[64];
  read_beside(folder, v1 ? "memory.limit_in_bytes" : "memory.max", text, sizeof text);
  return strtod(text, NULL); /* "max": nothing is read, 0 */
}

static double least_of(const char *root, sys_cgroup *place, const char *v1,
                       double (*limit_of)(const char *, const char *)) {
  char folder[2 * SYS_PATH_MAX];
  double least = 0;
  size_t top = strlen(place->top);
  while (top && strlen(place->folder) >= top) {
    snprintf(folder, sizeof folder, "%s%s", root, place->folder);
    double limit = limit_of(folder, v1);
    if (limit > 0 && (least == 0 || limit < least)) least = limit;
    char *slash = strrchr(place->folder, '/');
    if (!slash) break;
    *slash = 0;
  }
  return least;
}

/* The least limit of both versions; 0: none. */
static double limit_under(const char *root, const char *controller, double (*limit_of)(const char *, const char *)) {
  char cgroup[SYS_PATH_MAX], mountinfo[SYS_TEXT_MAX];
  sys_cgroup place;
  double least = 0;
  read_beside(root, "proc/self/cgroup", cgroup, sizeof cgroup);
  read_beside(root, "proc/self/mountinfo", mountinfo, sizeof mountinfo);
  for (int v2 = 0; v2 <= 1; v2++) {
    const char *v1 = v2 ? NULL : controller;
    sys_cgroup_find(cgroup, mountinfo, v1, &place);
    double limit = least_of(root, &place, v1, limit_of);
    if (limit > 0 && (least == 0 || limit < least)) least = limit;
  }
  return least;
}

double sys_quota_read(void) { return sys_quota_under(""); }

double sys_quota_under(const char *root) { return limit_under(root, "cpu", quota_of); }

uint64_t sys_memory_limit_read(void) { return sys_memory_limit_under(""); }

uint64_t sys_memory_limit_under(const char *root) {
  char text[4096];
  double limit = limit_under(root, "memory", bytes_of);
  read_beside(root, "proc/meminfo", text, sizeof text);
  const double all = (double)sys_bytes_field(text, "MemTotal");
  return (uint64_t)(limit > 0 && (limit < all || all <= 0) ? limit : all);
}
