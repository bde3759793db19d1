/* info.c -- `treadle info`: what machine this is, what this build knows, and what a model takes and gives. */
#include <string.h>

#include <treadle/experimental.h>

#include "machine.h"
#include "common/measure.h"
#include "engine.h"

/* The library's own list of what it knows, as JSON. */
static td_status read_capabilities(base_arena *arena, json_t **root, td_error *err) {
  size_t length;
  TRY(td_capabilities(NULL, 0, &length, err));
  char *text = base_arena_alloc(arena, length + 1);
  if (!text) return base_no_memory(err, "the capabilities");
  TRY(td_capabilities(text, length + 1, &length, err));
  *root = json_loads(text, 0, NULL);
  return *root ? TD_OK : base_fail(err, TD_INTERNAL, NULL, -1, "the library's capabilities are no JSON");
}

typedef td_status (*describe_value)(const td_model *model, size_t index, td_value_info *info, td_error *err);

static td_status values_json(const td_model *model, size_t count, describe_value describe, json_t *array,
                             td_error *err) {
  for (size_t i = 0; i < count; i++) {
    td_value_info info = {.size = sizeof info};
    TRY(describe(model, i, &info, err));
    app_json_set(array, NULL, app_info_json(&info));
  }
  return TD_OK;
}

static td_status model_json(const td_model *model, const char *path, json_t *root, td_error *err) {
  td_model_stats stats = {.size = sizeof stats};
  TRY(td_model_get_stats(model, &stats, err));
  json_t *object = json_object(), *inputs = json_array(), *outputs = json_array(), *states = json_array();
  app_json_set(root, "model", object);
  app_json_set(object, "path", app_json_text(path));
  app_json_set(object, "inputs", inputs);
  app_json_set(object, "outputs", outputs);
  app_json_set(object, "states", states);
  app_json_set(object, "nodes", json_integer(stats.nodes));
  app_json_set(object, "steps", json_integer(stats.steps));
  app_json_set(object, "weights_bytes", json_integer((json_int_t)stats.weights_bytes));
  app_json_set(object, "variants", json_integer(stats.variants));
  app_json_set(object, "variant_bytes", json_integer((json_int_t)stats.variant_bytes));
  app_json_set(object, "memory_nodes", json_integer(stats.memory_nodes));
  app_json_set(object, "node_bytes", json_integer((json_int_t)stats.node_bytes));
  app_json_set(object, "gflop", stats.gflop > 0 ? app_json_real(stats.gflop) : json_null());
  TRY(values_json(model, td_model_input_count(model), td_model_input, inputs, err));
  TRY(values_json(model, td_model_output_count(model), td_model_output, outputs, err));
  return values_json(model, td_model_state_count(model), td_model_state, states, err);
}

/* ---- text ---- */

static void print_names(const char *key, const json_t *names) {
  printf("%s (%zu):", key, json_array_size(names));
  int column = 0;
  for (size_t i = 0; i < json_array_size(names); i++) {
    const char *name = json_string_value(json_array_get(names, i));
    int width = name ? (int)strlen(name) + 1 : 0;
    if (i == 0 || column + width > 116) column = printf("\n ") - 1;
    column += printf(" %s", name ? name : "");
  }
  printf("\n");
}

/* One name for the kernels that differ by their instruction set alone: their rows stand together. */
static td_status print_kernels(const json_t *names, td_error *err) {
  json_t *families = json_array();
  const char *last = "";
  size_t last_length = 0;
  for (size_t i = 0; i < json_array_size(names); i++) {
    const char *name = json_string_value(json_array_get(names, i));
    if (!name) continue;
    const size_t length = (size_t)(app_isa_suffix(name) - name);
    if (last_length == length && strncmp(name, last, length) == 0) continue;
    app_json_set(families, NULL, json_stringn(name, length));
    last = name;
    last_length = length;
  }
  if (!families) return base_no_memory(err, "names of kernels");
  print_names("kernels", families);
  json_decref(families);
  return TD_OK;
}

static td_status print_values(const char *what, const td_model *model, size_t count, describe_value describe,
                              td_error *err) {
  for (size_t i = 0; i < count; i++) {
    td_value_info info = {.size = sizeof info};
    char text[512];
    TRY(describe(model, i, &info, err));
    printf("  %-6s %s: %s\n", what, info.name, app_info_text(&info, text, sizeof text));
  }
  return TD_OK;
}

static td_status print_model(const td_model *model, const char *path, td_error *err) {
  td_model_stats stats = {.size = sizeof stats};
  char weights[24], own[24], copies[24];
  TRY(td_model_get_stats(model, &stats, err));
  printf("%s: %u nodes, %u steps, weights %s", path, stats.nodes, stats.steps,
         app_bytes_text(weights, sizeof weights, stats.weights_bytes));
  if (stats.gflop > 0) printf(", %.4g GFLOP", stats.gflop);
  if (stats.variants)
    printf(", %u variant%s with %s of their own", stats.variants, stats.variants == 1 ? "" : "s",
           app_bytes_text(own, sizeof own, stats.variant_bytes));
  if (stats.memory_nodes)
    printf(", for %u memory node%s with %s more", stats.memory_nodes, stats.memory_nodes == 1 ? "" : "s",
           app_bytes_text(copies, sizeof copies, stats.node_bytes));
  printf("\n");
  TRY(print_values("input", model, td_model_input_count(model), td_model_input, err));
  TRY(print_values("output", model, td_model_output_count(model), td_model_output, err));
  return print_values("state", model, td_model_state_count(model), td_model_state, err);
}

/* ---- the command ---- */

/* Lists that were asked for by their names; else how long each is. */
static td_status print_lists(const cli_args *args, json_t *root, td_error *err) {
  const char *key;
  json_t *names;
  bool asked = false;
  for (uint32_t i = 0; i < args->given_count; i++) {
    key = args->given[i].option->name;
    if (!(names = json_object_get(root, key))) continue;
    asked = true;
    if (strcmp(key, "kernels") == 0) TRY(print_kernels(names, err));
    else print_names(key, names);
  }
  if (asked) return TD_OK;
  printf("treadle %s\n", td_version());
  TRY(cli_machine_print(args, err));
  const char *before = "knows:";
  json_object_foreach(root, key, names) {
    printf("%s %zu %s", before, json_array_size(names), key);
    before = ",";
  }
  printf("\n  --NAME lists them (--backends, --operators, ...), --json has all\n");
  return TD_OK;
}

static td_status report(const cli_args *args, const td_model *model, json_t *root, td_error *err) {
  if (cli_flag(args, "json")) {
    json_t *machine;
    const td_status status = cli_machine_json(args, &machine, err);
    app_json_set(root, "version", app_json_text(td_version()));
    app_json_set(root, "machine", machine);
    TRY(status);
    if (model) TRY(model_json(model, args->subject, root, err));
    return app_print_json(json_incref(root), APP_JSON, err);
  }
  return model ? print_model(model, args->subject, err) : print_lists(args, root, err);
}

static td_status run_info(cli_args *args, td_error *err) {
  td_model *model = NULL;
  json_t *root = NULL;
  td_status status = read_capabilities(args->arena, &root, err);
  if (status == TD_OK && args->operand_count) status = cli_open_model(args, &model, err);
  if (status == TD_OK) status = report(args, model, root, err);
  td_model_free(model);
  json_decref(root);
  return status;
}

#define LIST(name) \
  { name, NULL, "list these names", NULL, false }
static const cli_option info_options[] = {
    CLI_OPTION_JSON,   CLI_OPTION_THREADS,     CLI_OPTION_BACKEND,     CLI_OPTION_WEIGHTS, CLI_OPTION_SEED,
    CLI_OPTION_SHAPE,  CLI_OPTION_METHOD,      CLI_OPTION_SPECIALISE,  CLI_OPTION_STATE,   CLI_OPTION_NODE_COPIES,
    LIST("backends"),  LIST("formats"),        LIST("builtins"),       LIST("passes"),     LIST("kernels"),
    LIST("operators"), LIST("onnx_operators"), LIST("torch_operators")};

const cli_command cli_info = {
    .name = "info",
    .operands = "[MODEL]",
    .summary = "show this machine, this build's capabilities, or a model's inputs and outputs",
    .examples =
        "treadle info\n"
        "treadle info --operators\n"
        "treadle info net.onnx\n"
        "treadle info --json",
    .options = info_options,
    .option_count = sizeof info_options / sizeof *info_options,
    .max_operands = 1,
    .run = run_info,
};
