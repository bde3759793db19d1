/* debug_folder.c -- --debug-dir: what the library tells of a model on its way, as files. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/kept.h"
#include "options.h"

/* A variant's files are in a folder of their own: "h=224,w=224/plan.txt". */
static td_status append(void *user, const char *name, const char *bytes, size_t count) {
  char path[1024];
  const char *folder = user, *slash = strchr(name, '/');
  if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path) return TD_BAD_ARGUMENT;
  if (slash) {
    path[strlen(folder) + 1 + (size_t)(slash - name)] = 0;
    mkdir(path, 0777);
    path[strlen(path)] = '/';
  }
  FILE *file = fopen(path, "ab");
  const bool done = file && fwrite(bytes, 1, count, file) == count;
  if ((file && fclose(file) != 0) || !done) {
    app_note("%s cannot be written: %s", path, strerror(errno));
    return TD_NO_RESOURCE;
  }
  return TD_OK;
}

static bool is_ours(const char *name) {
  static const char *const starts[] = {"graph.", "generated.", "plan.", "loops.txt", "timings.txt", "options.txt"};
  bool ours = false;
  for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) ours |= strncmp(name, starts[i], strlen(starts[i])) == 0;
  return ours;
}

/* Files of a model that was here before, and of its variants. */
static void remove_old(const char *folder, bool variants) {
  DIR *dir = opendir(folder);
  for (struct dirent *entry; dir && (entry = readdir(dir));) {
    char path[1300];
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (is_ours(entry->d_name)) unlink(path);
    if (!variants || !strchr(entry->d_name, '=')) continue;
    remove_old(path, false);
    rmdir(path);
  }
  if (dir) closedir(dir);
}

/* The options by which the graph has become what it is, a line each. */
static td_status write_options(const cli_args *args, const char *folder, td_error *err) {
  static const char *const names[] = {"backend", "disable-passes", "disable-kernels", "isa",
                                      "math",    "precision",      "keep-f32",        "state",
                                      "cc",      "seed",           "specialise",      "inject"};
  const char *path = base_arena_format(args->arena, "%s/options.txt", folder);
  FILE *file = path ? fopen(path, "w") : NULL;
  if (!file) return base_fail(err, TD_NO_RESOURCE, folder, -1, "no file can be written there: %s", strerror(errno));
  fprintf(file, "model %s\n", args->operands[0]);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (cli_value(args, names[i])) fprintf(file, "%s %s\n", names[i], cli_value(args, names[i]));
  fclose(file);
  return TD_OK;
}

td_status cli_debug_folder(const cli_args *args, const char *folder, td_load_options *options, td_error *err) {
  char *made = base_arena_text(args->arena, folder);
  if (!made) return base_no_memory(err, "a path");
  app_make_folders(made);
  remove_old(folder, true);
  options->dump = append;
  options->dump_user = made;
  return write_options(args, folder, err);
}
