/* debug_folder.c -- --debug-dir: what the library tells of a model on its way, as files, and `treadle replay`, which
 * runs them again. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apart.h"
#include "trial.h"

/* ---- writing ---- */

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
    cli_note("%s cannot be written: %s", path, strerror(errno));
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
  static const char *const names[] = {"backend", "disable-passes", "disable-kernels", "isa",   "math", "precision",
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
  cli_make_folders(made);
  remove_old(folder, true);
  options->dump = append;
  options->dump_user = made;
  return write_options(args, folder, err);
}

/* ---- running again ---- */

/* The value of `name` among the lines of options.txt, of a variant in the folder around it, in the arena; NULL: it is
 * not there. */
static const char *read_option(base_arena *arena, const char *folder, const char *name) {
  char line[4096];
  const char *path = base_arena_format(arena, "%s/options.txt", folder), *found = NULL;
  if (path && access(path, R_OK) != 0) path = base_arena_format(arena, "%s/../options.txt", folder);
  FILE *file = path ? fopen(path, "r") : NULL;
  const size_t length = strlen(name);
  while (file && !found && fgets(line, sizeof line, file))
    if (strncmp(line, name, length) == 0 && line[length] == ' ')
      found = base_arena_slice(arena, line + length + 1, strcspn(line + length + 1, "\n"));
  if (file) fclose(file);
  return found;
}

static td_status run_loaded(cli_args *args, td_model *model, char *where, td_error *err) {
  td_session *session = NULL;
  cli_feed feed = {0};
  char text[256];
  TRY(cli_feed_make(args, model, false, &feed, err));
  td_status status = cli_open_session(args, model, &session, err);
  if (status == TD_OK) status = cli_feed_bind(&feed, session, args->arena, err);
  if (status == TD_OK) status = cli_watch_steps(args, model, session, where, err);
  if (status == TD_OK) status = td_session_run(session, err);
  for (size_t i = 0; status == TD_OK && i < td_model_output_count(model); i++) {
    td_value_info info;
    base_value value;
    status = td_model_output(model, i, &info, err);
    if (status == TD_OK) status = cli_fetch(model, session, i, args->arena, &value, err);
    if (status != TD_OK) break;
    if (value.kind == BASE_TENSOR)
      printf("%s: %s\n", info.name, base_tensor_describe(&value.tensor, text, sizeof text));
    const char *folder = cli_value(args, "output"), *safe = cli_safe_name(args->arena, info.name);
    const char *path = folder && safe ? base_arena_format(args->arena, "%s/%s.npy", folder, safe) : NULL;
    if (path && value.kind == BASE_TENSOR) status = cli_write_npy(path, &value.tensor, err);
  }
  td_session_free(session);
  return status;
}

static td_status replay(cli_args *args, char *where, td_error *err) {
  const char *folder = args->operands[0];
  td_load_options options;
  td_model *model = NULL;
  char *path = base_arena_format(args->arena, "%s/graph.tdir", folder);
  char *output = cli_value(args, "output") ? base_arena_text(args->arena, cli_value(args, "output")) : NULL;
  if (!path) return base_no_memory(err, "a path");
  if (output) cli_make_folders(output);
  TRY(cli_load_options(args, &options, err));
  options.backend = read_option(args->arena, folder, "backend");
  options.disabled_passes = read_option(args->arena, folder, "disable-passes");
  options.disabled_kernels = read_option(args->arena, folder, "disable-kernels");
  options.isa = read_option(args->arena, folder, "isa");
  options.math = read_option(args->arena, folder, "math");
  options.precision = read_option(args->arena, folder, "precision");
  options.edited = folder;
  options.strict = 1;
  td_status status = td_model_load(path, &options, &model, err);
  if (status == TD_OK) status = run_loaded(args, model, where, err);
  td_model_free(model);
  return status;
}

/* What the process that runs leaves behind: code that a person has changed may crash. */
typedef struct replayed {
  td_status status;
  td_error err;
  char where[CLI_WHERE]; /* the step that runs */
} replayed;

static void replay_apart(void *user, void *result) {
  replayed *to = result;
  to->status = replay(user, to->where, &to->err);
}

static td_status run_replay(cli_args *args, td_error *err) {
  replayed got = {.err = {.offset = -1}, .where = "nothing yet: it was compiled"};
  cli_end end;
  TRY(cli_run_apart(replay_apart, args, &got, sizeof got, 0, &end, err));
  if (!end.done)
    return base_fail(err, TD_INTERNAL, NULL, -1, "%s at %s", end.signal ? strsignal(end.signal) : "ended badly",
                     got.where);
  if (got.status != TD_OK) *err = got.err;
  return got.status;
}

static const cli_option replay_options[] = {
    CLI_OPTION_INPUT, CLI_OPTION_SHAPE,
    CLI_OPTION_BATCH, {"output", "DIR", "write each output there, as NAME.npy", NULL, false},
    CLI_OPTION_CC,    CLI_OPTION_THREADS,
    CLI_OPTION_SEED,
};

const cli_command cli_replay = {
    .name = "replay",
    .operands = "DIR",
    .summary = "run what --debug-dir wrote, as it is or edited",
    .text =
        "Runs DIR/graph.tdir with the options of the command that wrote it. The loops are those of DIR/loops.txt.\n"
        "If DIR has a generated.N.c for them, that file is compiled instead of generated code: it is your own\n"
        "code, and trusted. A crash in it is attributed to its node.",
    .examples =
        "treadle run net.onnx --debug-dir seen\n"
        "treadle replay seen",
    .options = replay_options,
    .option_count = sizeof replay_options / sizeof *replay_options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_replay,
};
