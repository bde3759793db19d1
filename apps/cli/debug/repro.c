/* repro.c -- `treadle repro`: a model and how it runs, for a bug report. */
#include <string.h>

#include "bundle.h"
#include "common/kept.h"
#include "cli/engine.h"
#include "cli/faults.h"
#include "graph_file.h"

static td_status write_text(const cli_args *args, const char *folder, const char *name, const char *text,
                            td_error *err) {
  FILE *file = text ? cli_bundle_open(args->arena, folder, name, err) : NULL;
  if (!text) return base_no_memory(err, name);
  if (!file) return TD_NO_RESOURCE;
  fputs(text, file);
  return cli_bundle_close(file, folder, name, err);
}

/* The plan, or why there is none: that is what is to be reported, then. */
static td_status write_plan(const cli_args *args, const char *folder, const td_load_options *options, td_error *err) {
  td_model *model;
  td_error why;
  char *text;
  if (td_model_load(args->operands[0], options, &model, &why) != TD_OK)
    return write_text(args, folder, "plan.txt", base_arena_format(args->arena, "%s: %s\n", why.name, why.text), err);
  td_status status = td_model_print(model, "plan", "text", &text, err);
  if (status == TD_OK) {
    status = write_text(args, folder, "plan.txt", text, err);
    td_text_free(model, text);
  }
  td_model_free(model);
  return status;
}

static td_status write_script(const cli_args *args, const char *folder, const app_feed *feed, td_error *err) {
  static const char *const own[] = {"output", "drop-weights", "json", NULL};
  cli_args quiet;
  TRY(cli_bundle_args(args, &quiet, err));
  FILE *file = cli_bundle_open(args->arena, folder, "run.sh", err);
  if (!file) return TD_NO_RESOURCE;
  cli_bundle_script(file);
  cli_bundle_command(&quiet, "run", own, feed, file);
  return cli_bundle_close(file, folder, "run.sh", err);
}

static td_status write_readme(const cli_args *args, const char *folder, td_error *err) {
  const char *text = base_arena_format(
      args->arena,
      "# %s, for a bug report\n\n`sh run.sh` runs it. What to add: what you saw, and what you expected.\n\n"
      "- `graph.tdir`: the graph as it was imported; %s\n- `inputs/`: a file for each input\n"
      "- `plan.txt`: the steps that it became, or why it became none\n- `environment.txt`: version and CPU\n",
      args->operands[0],
      cli_flag(args, "drop-weights") ? "its weights were dropped: they are zeros" : "its weights are beside it");
  return write_text(args, folder, "README.md", text, err);
}

static td_status save(cli_args *args, const char *folder, td_load_options options, td_error *err) {
  const char *path = base_arena_format(args->arena, "%s/graph.tdir", folder);
  td_model *model;
  app_feed feed;
  if (!path) return base_no_memory(err, "a path");
  options.backend = "eager";
  options.inject = NULL;
  TRY(td_model_load(args->operands[0], &options, &model, err));
  td_status status = cli_feed_make(args, model, false, &feed, err);
  if (status == TD_OK) status = cli_save_graph(model, "imported", NULL, path, args->arena, err);
  if (status == TD_OK && cli_flag(args, "drop-weights")) status = cli_drop_weights(path, args->arena, err);
  if (status == TD_OK) status = cli_bundle_inputs(args->arena, folder, &feed, err);
  if (status == TD_OK) status = write_script(args, folder, &feed, err);
  td_model_free(model);
  return status;
}

td_status cli_run_repro(cli_args *args, td_error *err) {
  const char *asked = cli_value(args, "output"), *folder = asked ? asked : "repro";
  char *made = base_arena_text(args->arena, folder);
  td_load_options options;
  if (!made) return base_no_memory(err, "a path");
  app_make_folders(made);
  TRY(cli_load_options(args, &options, err));
  TRY(save(args, folder, options, err));
  TRY(write_plan(args, folder, &options, err));
  TRY(cli_bundle_environment(args->arena, folder, err));
  TRY(write_readme(args, folder, err));
  if (!cli_flag(args, "json")) {
    printf("%s/README.md\n", folder);
    return TD_OK;
  }
  json_t *root = json_object();
  app_json_set(root, "folder", app_json_text(folder));
  app_json_set(root, "command", app_json_text(base_arena_format(args->arena, "sh %s/run.sh", folder)));
  return app_print_json(root, APP_JSON, err);
}
