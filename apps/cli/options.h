/* options.h -- the parts of td_load_options, each by the options of a command that say it. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H
#include "cli.h"

/* Fills the fields for generated code: compiler, cache, warnings. The texts live as long as `args` (code.c). */
td_status cli_code_options(const cli_args *args, td_load_options *options, td_error *err);
/* With --tune: sets which nodes of the model in operand 0 are left unfused because they are faster so: found earlier on
 * this CPU, or now. The text lives as long as `args` (forms.c). */
td_status cli_tune_forms(cli_args *args, td_load_options *options, td_error *err);
/* With --debug-dir: has the model's files for people written to that folder, which is made, with the command that made
 * them; see docs/debugging.md (debug_folder.c). */
td_status cli_debug_folder(const cli_args *args, const char *folder, td_load_options *options, td_error *err);
#endif
