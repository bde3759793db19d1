/* counters.c -- perf_event_open. */
#include "sys/counters.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_event(void *user, const sys_event *event, int leader) {
  struct perf_event_attr attr;
  (void)user;
  memset(&attr, 0, sizeof attr);
  attr.size = sizeof attr;
  attr.type = event->type;
  attr.config = event->config;
  attr.disabled = leader < 0;
  attr.exclude_kernel = attr.exclude_hv = 1;
  attr.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  const long handle = syscall(SYS_perf_event_open, &attr, 0, -1, leader, PERF_FLAG_FD_CLOEXEC);
  return handle < 0 ? -errno : (int)handle;
}

static bool set_group(void *user, int leader, bool on) {
  (void)user;
  if (on && ioctl(leader, PERF_EVENT_IOC_RESET, PERF_IOC_FLAG_GROUP) != 0) return false;
  return ioctl(leader, on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP) == 0;
}

enum { MOST = 16, HEAD = 3 };

static bool read_group(void *user, int leader, uint64_t *counts, uint32_t count, double *share) {
  uint64_t words[HEAD + MOST]; /* number, time enabled, time running, counts */
  (void)user;
  if (count > MOST || read(leader, words, sizeof words) < (ssize_t)((HEAD + count) * sizeof *words)) return false;
  if (words[0] != count) return false;
  *share = words[1] ? (double)words[2] / (double)words[1] : 0;
  memcpy(counts, words + HEAD, count * sizeof *counts);
  return true;
}

static void close_event(void *user, int handle) {
  (void)user;
  close(handle);
}

static bool read_number(const char *path, int *value) {
  FILE *file = fopen(path, "re");
  if (!file) return false;
  const bool found = fscanf(file, "%d", value) == 1;
  fclose(file);
  return found;
}

sys_counters sys_counters_here(void) {
  struct stat pmu;
  int smt = 0;
  sys_counters c = {
      .open = open_event, .set = set_group, .read = read_group, .close = close_event, .paranoid = INT32_MIN};
  read_number("/proc/sys/kernel/perf_event_paranoid", &c.paranoid);
  c.smt = read_number("/sys/devices/system/cpu/smt/active", &smt) && smt;
  c.has_pmu = stat("/sys/bus/event_source/devices/cpu", &pmu) == 0;
  return c;
}
