/* minify_result.c -- a folder that shows the failure wherever there is a treadle. */
#include "bundle.h"
#include "cli/engine.h"
#include "graph_file.h"
#include "minify.h"

static void put_command(const minify *m, const app_feed *feed, FILE *file) {
  static const char *const of_run[] = {"accuracy", "crash", "cmd",  "output", "time-limit",
                                       "rtol",     "atol",  "json", NULL};
  static const char *const of_compare[] = {"accuracy", "crash", "cmd", "output", "time-limit", "backend", "json", NULL};
  const char *backend = cli_value(m->args, "backend");
  const bool wrong = m->wanted.output[0] || m->wanted.kind == MINIFY_TYPE;
  if (m->script) {
    fprintf(file, "sh -c");
    app_print_word(m->script, file);
    fprintf(file, " minify graph.tdir inputs\n");
    return;
  }
  const char *what = !wrong    ? "run"
                     : backend ? base_arena_format(m->args->arena, "compare --backends eager,%s", backend)
                               : "compare";
  cli_bundle_command(&m->quiet, what ? what : "compare", wrong ? of_compare : of_run, feed, file);
}

static td_status write_script(minify *m, const app_feed *feed, td_error *err) {
  FILE *file = cli_bundle_open(m->args->arena, m->folder, "run.sh", err);
  if (!file) return TD_NO_RESOURCE;
  cli_bundle_script(file);
  put_command(m, feed, file);
  return cli_bundle_close(file, m->folder, "run.sh", err);
}

static td_status write_readme(const minify *m, const app_feed *feed, size_t nodes, td_error *err) {
  FILE *file = cli_bundle_open(m->args->arena, m->folder, "README.md", err);
  char text[1024];
  if (!file) return TD_NO_RESOURCE;
  fprintf(file, "# A graph of %zu node%s that %s\n\n", nodes, nodes == 1 ? "" : "s",
          minify_describe(&m->wanted, text, sizeof text));
  fprintf(file, "`treadle minify` made it of %s. `sh run.sh` shows the failure:\n\n    ", m->args->operands[0]);
  put_command(m, feed, file);
  fprintf(
      file,
      "\n- `graph.tdir`: the graph as text, which can be edited; its constants are in `graph.tdir.weights`, if it has "
      "any of more\n  than 64 bytes\n");
  if (m->no_onnx.code == TD_OK) fprintf(file, "- `graph.onnx`: the same, for other engines\n");
  fprintf(file, "- `inputs/`: a file for each input\n- `environment.txt`: where it was seen\n");
  if (m->no_onnx.code != TD_OK)
    fprintf(file, "\nThere is no ONNX form of it: %s: %s.\n", m->no_onnx.name, m->no_onnx.text);
  return cli_bundle_close(file, m->folder, "README.md", err);
}

/* The model under its final name. */
static td_status save_final(minify *m, const minify_model *model, minify_model *final, td_error *err) {
  cli_args args = m->quiet;
  td_load_options options;
  td_model *loaded = NULL;
  *final =
      (minify_model){.path = base_arena_format(m->args->arena, "%s/graph.tdir", m->folder), .values = model->values};
  if (!final->path) return base_no_memory(err, "a path");
  args.operands = (const char *[]){model->path};
  TRY(cli_load_options(&args, &options, err));
  options.backend = "eager";
  options.inject = NULL;
  TRY(td_model_load(model->path, &options, &loaded, err));
  const char *onnx = base_arena_format(m->args->arena, "%s/graph.onnx", m->folder);
  td_status status = cli_save_graph(loaded, "imported", NULL, final->path, m->args->arena, err);
  if (status == TD_OK && !onnx) status = base_no_memory(err, "a path");
  m->no_onnx = (td_error){.code = TD_OK};
  if (status == TD_OK) status = cli_save_onnx(loaded, onnx, &m->no_onnx);
  if (m->no_onnx.code == TD_UNSUPPORTED) status = TD_OK;
  else if (m->no_onnx.code != TD_OK) *err = m->no_onnx;
  td_model_free(loaded);
  return status;
}

td_status minify_write_result(minify *m, const minify_model *model, size_t nodes, td_error *err) {
  minify_model final;
  minify_verdict verdict;
  app_feed feed;
  char text[1024];
  TRY(save_final(m, model, &final, err));
  TRY(minify_feed(m, &final, &feed, err));
  TRY(cli_bundle_inputs(m->args->arena, m->folder, &feed, err));
  TRY(write_script(m, &feed, err));
  TRY(cli_bundle_environment(m->args->arena, m->folder, err));
  TRY(write_readme(m, &feed, nodes, err));
  TRY(minify_judge(m, &final, &verdict, err));
  if (minify_same_way(&verdict, &m->wanted)) return TD_OK;
  return base_fail(err, TD_INTERNAL, final.path, -1, "the result %s, which is not how the model fails",
                   minify_describe(&verdict, text, sizeof text));
}
