/* bundle.c -- a folder that shows wherever there is a treadle what a model did. */
#include "bundle.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "common/kept.h"
#include "sys/sys.h"

FILE *cli_bundle_open(base_arena *arena, const char *folder, const char *name, td_error *err) {
  const char *path = base_arena_format(arena, "%s/%s", folder, name);
  FILE *file = path ? fopen(path, "w") : NULL;
  if (!file) base_fail(err, TD_NO_RESOURCE, path ? path : name, -1, "cannot be written: %s", strerror(errno));
  return file;
}

td_status cli_bundle_close(FILE *file, const char *folder, const char *name, td_error *err) {
  const bool failed = ferror(file) != 0;
  if (fclose(file) == 0 && !failed) return TD_OK;
  return base_fail(err, TD_NO_RESOURCE, folder, -1, "%s cannot be written: %s", name, strerror(errno));
}

td_status cli_bundle_inputs(base_arena *arena, const char *folder, const app_feed *feed, td_error *err) {
  char *made = base_arena_format(arena, "%s/inputs/", folder);
  if (!made) return base_no_memory(err, "a path");
  app_make_folders(made);
  for (size_t i = 0; i < feed->count; i++) {
    const char *safe = app_safe_name(arena, feed->infos[i].name);
    const char *path = safe ? base_arena_format(arena, "%s/inputs/%s.npy", folder, safe) : NULL;
    if (!path) return base_no_memory(err, "a path");
    if (feed->given[i] && feed->values[i].kind == BASE_TENSOR) TRY(app_write_npy(path, &feed->values[i].tensor, err));
  }
  return TD_OK;
}

td_status cli_bundle_environment(base_arena *arena, const char *folder, td_error *err) {
  FILE *file = cli_bundle_open(arena, folder, "environment.txt", err);
  sys_machine machine;
  struct utsname system = {0};
  if (!file) return TD_NO_RESOURCE;
  sys_machine_read(&machine);
  uname(&system);
  fprintf(file, "treadle %s\ncpu %s (%s, family %u, model %u)\ninstruction sets 0x%x\nthreads %u\n", td_version(),
          machine.cpu_name, machine.cpu_vendor, machine.cpu_family, machine.cpu_model, machine.isa, machine.threads);
  fprintf(file, "system %s %s, C library %s, built by %s\n", system.sysname, system.release, gnu_get_libc_version(),
          __VERSION__);
  return cli_bundle_close(file, folder, "environment.txt", err);
}

void cli_bundle_command(const cli_args *args, const char *what, const char *const *without, const app_feed *feed,
                        FILE *to) {
  fprintf(to, "\"${TREADLE:-treadle}\" %s graph.tdir", what);
  cli_print_given(args, without, to);
  for (size_t i = 0; i < feed->count; i++) {
    const char *name = feed->infos[i].name, *safe = app_safe_name(args->arena, name);
    const char *value = safe ? base_arena_format(args->arena, "%s=inputs/%s.npy", name, safe) : NULL;
    if (!feed->given[i] || feed->values[i].kind != BASE_TENSOR || !value) continue;
    fprintf(to, " --input");
    app_print_word(value, to);
  }
  fputc('\n', to);
}

void cli_bundle_script(FILE *to) {
  fprintf(to, "#!/bin/sh\n# TREADLE says which program to use.\ncd \"$(dirname \"$0\")\" || exit 1\n");
  fchmod(fileno(to), 0755);
}

td_status cli_bundle_args(const cli_args *args, cli_args *quiet, td_error *err) {
  static const char *const first[] = {"input", "shape", "method", "weights", "preprocess", "batch"};
  *quiet = *args;
  quiet->given = base_new(args->arena, cli_given, (size_t)args->given_count + 1);
  quiet->given_count = 0;
  if (!quiet->given) return base_no_memory(err, "arguments");
  for (uint32_t i = 0; i < args->given_count; i++) {
    bool of_first = false;
    for (size_t k = 0; k < sizeof first / sizeof *first; k++)
      of_first |= strcmp(args->given[i].option->name, first[k]) == 0;
    if (!of_first) quiet->given[quiet->given_count++] = args->given[i];
  }
  return TD_OK;
}
