/* inspect.c -- `treadle inspect`: the graph or plan of a model as text. */
#include <string.h>

#include "cli/engine.h"
#include "cli/faults.h"
#include "graph_file.h"
#include "outline.h"

static void print_value(const char *what, const td_value_info *info) {
  char text[512];
  printf("# %-7s %s: %s\n", what, info->name, app_info_text(info, text, sizeof text));
}

static td_status print_header(const td_model *model, const char *path, td_error *err) {
  td_value_info info = {.size = sizeof info};
  printf("# %s\n", path);
  for (size_t i = 0; i < td_model_input_count(model); i++) {
    TRY(td_model_input(model, i, &info, err));
    print_value("input", &info);
  }
  for (size_t i = 0; i < td_model_output_count(model); i++) {
    TRY(td_model_output(model, i, &info, err));
    print_value("output", &info);
  }
  return TD_OK;
}

static const char *format_of(const cli_args *args) {
  const char *format = cli_value(args, "format");
  return format ? format : cli_flag(args, "json") ? "json" : "text";
}

/* Loops are text alone: a JSON object around it. */
static td_status print_loops(const td_model *model, const char *stage, td_error *err) {
  char *text;
  TRY(td_model_print(model, stage, "text", &text, err));
  json_t *root = json_object();
  app_json_set(root, "stage", app_json_text(stage));
  app_json_set(root, "text", app_json_text(text));
  td_text_free(model, text);
  return app_print_json(root, APP_JSON, err);
}

static td_status print_stage(const cli_args *args, const td_model *model, td_error *err) {
  const char *stage = cli_value(args, "stage"), *format = format_of(args);
  if (!stage) stage = "passes";
  if (cli_flag(args, "why")) {
    if (strcmp(stage, "loops") != 0) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "--why goes with --stage loops");
    stage = "why";
  }
  if (strcmp(format, "json") == 0 && (strcmp(stage, "loops") == 0 || strcmp(stage, "why") == 0))
    return print_loops(model, stage, err);
  char *text;
  TRY(td_model_print(model, stage, format, &text, err));
  /* dot and json are for programs: nothing may stand before them. */
  td_status status = strcmp(format, "text") == 0 ? print_header(model, args->subject, err) : TD_OK;
  if (status == TD_OK) {
    size_t length = strlen(text);
    fwrite(text, 1, length, stdout);
    if (length && text[length - 1] != '\n') putchar('\n');
  }
  td_text_free(model, text);
  return status;
}

static td_status write_text(void *user, const char *bytes, size_t count) {
  return fwrite(bytes, 1, count, user) == count ? TD_OK : TD_NO_RESOURCE;
}

/* The plan's memory as a page: that of a profile before any run was recorded. Sizes are known after a run. */
static td_status draw_plan(cli_args *args, const td_model *model, td_session **session, td_error *err) {
  const td_profile_options options = {.size = sizeof options, .records = 1};
  const td_profile_view view = {.size = sizeof view, .form = "html"};
  app_feed feed;
  td_profile *profile;
  TRY(cli_feed_make(args, model, false, &feed, err));
  TRY(cli_open_session(args, model, session, err));
  TRY(app_feed_bind(&feed, *session, args->arena, err));
  TRY(td_session_run(*session, err));
  TRY(td_profile_new(*session, &options, &profile, err));
  const td_status status = td_profile_write(profile, &view, write_text, stdout, err);
  td_profile_free(profile);
  return status;
}

static td_status draw_page(cli_args *args, const td_model *model, td_error *err) {
  const char *stage = cli_value(args, "stage");
  td_session *session = NULL;
  if (!stage || strcmp(stage, "plan") != 0)
    return base_fail(err, TD_BAD_ARGUMENT, "--format html", -1, "draws the plan's memory alone: add --stage plan");
  const td_status status = draw_plan(args, model, &session, err);
  td_session_free(session);
  return status;
}

td_status cli_run_inspect(cli_args *args, td_error *err) {
  td_model *model = NULL;
  const char *path = cli_value(args, "save"), *stage = cli_value(args, "stage");
  td_status status = cli_open_model(args, &model, err);
  td_error unused;
  if (status == TD_UNSUPPORTED && !path && strcmp(format_of(args), "text") == 0)
    cli_print_outline(args->arena, args->operands[0], err->text, &unused); /* the error follows */
  if (status == TD_OK && path && base_str_ends(base_str_of(path), ".onnx"))
    status =
        stage && strcmp(stage, "imported") == 0
            ? cli_save_onnx(model, path, err)
            : base_fail(err, TD_BAD_ARGUMENT, "--save", -1, "ONNX has the imported graph alone: add --stage imported");
  else if (status == TD_OK && path)
    status = cli_save_graph(model, stage ? stage : "passes", NULL, path, args->arena, err);
  else if (status == TD_OK)
    status = strcmp(format_of(args), "html") == 0 ? draw_page(args, model, err) : print_stage(args, model, err);
  td_model_free(model);
  return status;
}
