/* engine.c -- the options of a command as those of the library, and the model that they ask for. */
#include "engine.h"

#include "options.h"
#include "tuning.h"

/* The lists of all --specialise; "" if there are none, NULL: out of memory. */
static const char *join_sizes(const cli_args *args) {
  const char *all = "", *one;
  for (uint32_t cursor = 0; all && (one = cli_next(args, "specialise", &cursor));)
    all = base_arena_format(args->arena, "%s%s%s", all, *all ? ";" : "", one);
  return all;
}

td_status cli_load_options(cli_args *args, td_load_options *options, td_error *err) {
  app_inputs inputs;
  td_input_spec *specs;
  *options = (td_load_options){.size = sizeof *options,
                               .backend = cli_value(args, "backend"),
                               .weights = cli_value(args, "weights"),
                               .disabled_passes = cli_value(args, "disable-passes"),
                               .disabled_kernels = cli_value(args, "disable-kernels"),
                               .isa = cli_value(args, "isa"),
                               .math = cli_value(args, "math"),
                               .precision = cli_value(args, "precision"),
                               .keep_f32 = cli_value(args, "keep-f32"),
                               .state = cli_value(args, "state"),
                               .method = cli_value(args, "method"),
                               .specialise = join_sizes(args),
                               .node_copies = cli_value(args, "node-copies"),
                               .inject = cli_value(args, "inject")};
  args->subject = args->operands[0];
  if (!options->specialise) return base_no_memory(err, "sizes");
  TRY(cli_inputs(args, &inputs, err));
  options->seed = inputs.seed;
  TRY(cli_tuning_of(args, &options->tuning, err));
  TRY(app_make_specs(&inputs, args->arena, &specs, &options->input_count, err));
  options->inputs = specs;
  const char *folder = cli_value(args, "debug-dir");
  if (folder) TRY(cli_debug_folder(args, folder, options, err));
  TRY(cli_code_options(args, options, err));
  return cli_flag(args, "tune") ? cli_tune_forms(args, options, err) : TD_OK;
}

td_status cli_open_model(cli_args *args, td_model **model, td_error *err) {
  td_load_options options;
  TRY(cli_load_options(args, &options, err));
  return td_model_load(args->operands[0], &options, model, err);
}
