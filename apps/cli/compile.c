/* compile.c -- `treadle compile`: a model as a file that runs without being compiled, for one or more instruction sets.
 */
#include <string.h>
#include <sys/stat.h>

#include "engine.h"

enum { VARIANTS = 8 };

/* One compilation for each name in "avx2,avx512"; NULL: for this CPU. */
static td_status load_variants(cli_args *args, td_model **models, size_t *count, td_error *err) {
  td_load_options options;
  TRY(cli_load_options(args, &options, err));
  options.for_file = 1;
  const char *names = options.isa;
  do {
    const size_t length = names ? strcspn(names, ",") : 0;
    options.isa = names ? base_arena_slice(args->arena, names, length) : NULL;
    if (*count == VARIANTS)
      return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "--isa names more than %d instruction sets", VARIANTS);
    TRY(td_model_load(args->operands[0], &options, &models[*count], err));
    ++*count;
    names = names && names[length] ? names + length + 1 : NULL;
  } while (names);
  return TD_OK;
}

static td_status print_result(const cli_args *args, const char *path, const td_model *model, size_t count,
                              td_error *err) {
  td_model_stats stats = {.size = sizeof stats};
  struct stat file;
  TRY(td_model_get_stats(model, &stats, err));
  const int64_t bytes = stat(path, &file) == 0 ? (int64_t)file.st_size : 0;
  count *= 1 + stats.variants;
  if (!cli_flag(args, "json")) {
    printf("%s: %u steps, %zu variant%s, %.1f MiB\n", path, stats.steps, count, count == 1 ? "" : "s",
           (double)bytes / 1048576);
    return TD_OK;
  }
  json_t *root = json_object();
  app_json_set(root, "file", app_json_text(path));
  app_json_set(root, "steps", json_integer(stats.steps));
  app_json_set(root, "variants", json_integer((json_int_t)count));
  app_json_set(root, "bytes", json_integer(bytes));
  app_json_set(root, "load_ms", app_json_real(stats.load_ms));
  app_json_set(root, "compile_ms", app_json_real(stats.compile_ms));
  return app_print_json(root, APP_JSON, err);
}

static td_status run_compile(cli_args *args, td_error *err) {
  td_model *models[VARIANTS] = {NULL};
  size_t count = 0;
  const char *path = cli_value(args, "o");
  args->subject = args->operands[0];
  if (!path) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "say where the compiled model goes: -o OUT.tdl");
  td_status status = load_variants(args, models, &count, err);
  if (status == TD_OK) status = td_model_save((const td_model *const *)models, count, path, err);
  if (status == TD_OK) status = print_result(args, path, models[0], count, err);
  for (size_t i = 0; i < count; i++) td_model_free(models[i]);
  return status;
}

static const cli_option compile_options[] = {
    {"o", "FILE", "file to write, such as net.tdl", NULL, false},
    {"isa", "NAMES",
     "instruction sets to compile for, comma-separated, even if this CPU lacks them: scalar, vector, avx2, avx512; "
     "default: all that the CPU has",
     NULL, false},
    CLI_OPTION_CC,
    CLI_OPTION_STRICT,
    CLI_OPTION_CC_LIMIT,
    CLI_OPTION_TRUSTED,
    CLI_OPTION_TUNE,
    CLI_OPTION_BACKEND,
    CLI_OPTION_PASSES,
    CLI_OPTION_MATH,
    CLI_OPTION_PRECISION,
    CLI_OPTION_KEEP_F32,
    CLI_OPTION_STATE,
    CLI_OPTION_WEIGHTS,
    CLI_OPTION_SEED,
    CLI_OPTION_SHAPE,
    CLI_OPTION_METHOD,
    CLI_OPTION_SPECIALISE,
    CLI_OPTION_JSON,
};

const cli_command cli_compile = {
    .name = "compile",
    .operands = "MODEL",
    .summary = "save a compiled model, which opens in milliseconds",
    .text =
        "MODEL is a file or builtin:NAME. The file holds the plan and the packed weights, which are mapped:\n"
        "processes that run it share them. run, check, bench, profile, inspect, info and serve take it as a\n"
        "model. It is for this version of treadle and for CPUs with one of the named instruction sets; the best\n"
        "that the CPU has is used. With a C compiler it also holds the machine code of fused loops, which\n"
        "--trusted loads.",
    .examples =
        "treadle compile net.onnx -o net.tdl && treadle run net.tdl --input x.npy\n"
        "treadle compile net.onnx -o net.tdl --isa avx2,avx512\n"
        "treadle compile net.onnx -o net.tdl --specialise 'batch=1,8 seq=128'",
    .options = compile_options,
    .option_count = sizeof compile_options / sizeof *compile_options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_compile,
};
