/* system.c -- TorchServe's gauges of the machine: CPUs, memory and the disk of the root. What the system does not tell
 * has no line. Units are TorchServe's: per cent, mebibytes, gibibytes. */
#include <stdio.h>
#include <sys/statvfs.h>

#include "server.h"

enum { GIB = 1 << 30, MIB = 1 << 20 };

static void gauge(base_text *to, const char *name, const char *host, double value) {
  /* the comma is TorchServe's, as in metrics.c */
  base_text_print(to, "# TYPE %s gauge\n%s{Level=\"Host\",Hostname=\"%s\",} %.3f\n", name, name, host, value);
}

/* The share of all CPUs' time since the call before; since the machine's start on the first one. */
static void print_cpus(base_text *to, const char *host, uint64_t *idle_before, uint64_t *all_before) {
  FILE *file = fopen("/proc/stat", "r");
  char line[256] = "";
  unsigned long long t[8] = {0}; /* user, nice, system, idle, iowait, irq, softirq, steal */
  uint64_t all = 0;
  if (!file) return;
  const bool there =
      fgets(line, sizeof line, file) && sscanf(line, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2],
                                               &t[3], &t[4], &t[5], &t[6], &t[7]) >= 4;
  fclose(file);
  if (!there) return;
  for (int i = 0; i < 8; i++) all += t[i];
  const uint64_t idle = t[3] + t[4];
  const double passed = (double)(all - *all_before), rested = idle < *idle_before ? 0 : (double)(idle - *idle_before);
  gauge(to, "CPUUtilization", host, passed > 0 && rested < passed ? 100 * (1 - rested / passed) : 0);
  *idle_before = idle;
  *all_before = all;
}

static void print_memory(base_text *to, const char *host) {
  FILE *file = fopen("/proc/meminfo", "r");
  char line[256];
  unsigned long long kib, all = 0, available = 0;
  if (!file) return;
  while (fgets(line, sizeof line, file)) {
    if (sscanf(line, "MemTotal: %llu", &kib) == 1) all = kib << 10;
    if (sscanf(line, "MemAvailable: %llu", &kib) == 1) available = kib << 10;
  }
  fclose(file);
  if (!all || !available || available > all) return;
  gauge(to, "MemoryUsed", host, (double)(all - available) / MIB);
  gauge(to, "MemoryAvailable", host, (double)available / MIB);
  gauge(to, "MemoryUtilization", host, 100.0 * (double)(all - available) / (double)all);
}

/* Of what others than root may use. */
static void print_disk(base_text *to, const char *host) {
  struct statvfs disk;
  if (statvfs("/", &disk) != 0 || !disk.f_blocks) return;
  const double block = (double)disk.f_frsize / GIB, used = (double)(disk.f_blocks - disk.f_bfree) * block;
  const double left = (double)disk.f_bavail * block;
  gauge(to, "DiskAvailable", host, left);
  gauge(to, "DiskUsage", host, used);
  if (used + left > 0) gauge(to, "DiskUtilization", host, 100 * used / (used + left));
}

void serve_print_system(base_text *to, serve_server *server, const char *host) {
  print_cpus(to, host, &server->idle_ticks, &server->all_ticks);
  print_memory(to, host);
  print_disk(to, host);
}
