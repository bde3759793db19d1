/* replay.c -- `treadle replay`: runs what --debug-dir wrote, in a process of its own, as it may have been edited. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/kept.h"
#include "cli/engine.h"
#include "common/isolate.h"
#include "cli/faults.h"
#include "trial.h"

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
  app_feed feed = {0};
  char text[256];
  TRY(cli_feed_make(args, model, false, &feed, err));
  td_status status = cli_open_session(args, model, &session, err);
  if (status == TD_OK) status = app_feed_bind(&feed, session, args->arena, err);
  if (status == TD_OK) status = cli_watch_steps(args, model, session, where, err);
  if (status == TD_OK) status = td_session_run(session, err);
  for (size_t i = 0; status == TD_OK && i < td_model_output_count(model); i++) {
    td_value_info info = {.size = sizeof info};
    base_value value;
    status = td_model_output(model, i, &info, err);
    if (status == TD_OK) status = app_fetch(model, session, i, args->arena, &value, err);
    if (status != TD_OK) break;
    if (value.kind == BASE_TENSOR)
      printf("%s: %s\n", info.name, base_tensor_describe(&value.tensor, text, sizeof text));
    const char *folder = cli_value(args, "output"), *safe = app_safe_name(args->arena, info.name);
    const char *path = folder && safe ? base_arena_format(args->arena, "%s/%s.npy", folder, safe) : NULL;
    if (path && value.kind == BASE_TENSOR) status = app_write_npy(path, &value.tensor, err);
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
  if (output) app_make_folders(output);
  TRY(cli_load_options(args, &options, err));
  options.backend = read_option(args->arena, folder, "backend");
  options.disabled_passes = read_option(args->arena, folder, "disable-passes");
  options.disabled_kernels = read_option(args->arena, folder, "disable-kernels");
  options.isa = read_option(args->arena, folder, "isa");
  options.math = read_option(args->arena, folder, "math");
  options.precision = read_option(args->arena, folder, "precision");
  options.keep_f32 = read_option(args->arena, folder, "keep-f32");
  options.edited = folder;
  options.strict = 1;
  td_status status = td_model_load(path, &options, &model, err);
  if (status == TD_OK) status = run_loaded(args, model, where, err);
  td_model_free(model);
  return status;
}

static void replay_isolated(void *user, void *result) {
  cli_outcome *to = result;
  to->status = replay(user, to->where, &to->err);
}

td_status cli_run_replay(cli_args *args, td_error *err) {
  cli_outcome got = {.err = {.offset = -1}, .where = "nothing yet: it was compiled"};
  app_end end;
  TRY(app_run_isolated(replay_isolated, args, &got, sizeof got, 0, &end, err));
  if (!end.done)
    return base_fail(err, TD_INTERNAL, NULL, -1, "%s at %s", end.signal ? strsignal(end.signal) : "ended badly",
                     got.where);
  if (got.status != TD_OK) *err = got.err;
  return got.status;
}
