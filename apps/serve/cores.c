/* cores.c -- cpu_launcher_args: the options by which TorchServe starts each worker through a launcher. They are those
 * of `treadle launch`. Here one process has all workers, so it takes the CPUs of all instances together. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <string.h>

#include "common/launch_options.h"
#include "server.h"

enum { MOST_WORDS = 64 };
static char program[] = "treadle-serve"; /* what the launcher's grammar wants to launch */

/* The words of the text, and behind them the program. 0: there are too many. */
static int split(char *text, char **words) {
  int count = 0;
  char *rest = NULL;
  for (char *word = strtok_r(text, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
    if (count + 2 > MOST_WORDS) return 0;
    words[count++] = word;
  }
  words[count++] = program;
  return count;
}

/* The CPUs of the instances, and how many threads these have. */
static td_status lay_out(char *args, base_arena *arena, sys_cpu_set *cpus, uint32_t *threads, td_error *err) {
  char *words[MOST_WORDS];
  launch_words given;
  launch_request request;
  launch_layout layout;
  sys_topology machine;
  const int count = split(args, words);
  if (!count) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "there are too many words");
  TRY(launch_parse(count, words, arena, &given, err));
  if (given.given[LAUNCH_HELP] || given.program_count != 1)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "there are other words than options");
  TRY(launch_read_request(&given, &request, err));
  TRY(sys_topology_read("", arena, &machine, err));
  TRY(launch_lay_out(&machine, &request, arena, &layout, err));
  for (uint32_t i = 0; i < layout.count; i++) {
    *threads += layout.instances[i].threads;
    for (size_t k = 0; k < SYS_MOST_CPUS / 64; k++) cpus->words[k] |= layout.instances[i].cpus.words[k];
  }
  return TD_OK;
}

td_status serve_use_cores(serve_options *o, base_arena *arena, td_error *err) {
  sys_cpu_set cpus = {{0}};
  uint32_t threads = 0;
  if (!o->launcher || !o->launcher_args) return TD_OK;
  char *args = base_arena_text(arena, o->launcher_args);
  td_status status = args ? lay_out(args, arena, &cpus, &threads, err) : base_no_memory(err, "options");
  if (status == TD_OK && sched_setaffinity(0, sizeof cpus, (const cpu_set_t *)(const void *)&cpus) != 0)
    status = base_fail(err, TD_NO_RESOURCE, NULL, -1, "the process cannot be kept to these CPUs");
  if (status != TD_OK) return base_error_name(err, status, "cpu_launcher_args");
  if (!o->workers && threads) o->workers = threads;
  return TD_OK;
}
