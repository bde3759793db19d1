/* bundle.h -- a folder that shows wherever there is a treadle what a model did: graph.tdir, inputs, run.sh,
 * environment. */
#ifndef CLI_BUNDLE_H
#define CLI_BUNDLE_H
#include "cli/open.h"

/* A file of the folder, to be written; NULL with `err` filled. */
FILE *cli_bundle_open(base_arena *arena, const char *folder, const char *name, td_error *err);
td_status cli_bundle_close(FILE *file, const char *folder, const char *name, td_error *err);
/* inputs/NAME.npy for each tensor that the feed has. */
td_status cli_bundle_inputs(base_arena *arena, const char *folder, const app_feed *feed, td_error *err);
/* Version, CPU and threads: environment.txt. */
td_status cli_bundle_environment(base_arena *arena, const char *folder, td_error *err);
/* Prints the command, `what` of treadle, on the folder's graph and inputs, with the options of `args` but for those in
 * `without`, which ends with NULL. */
void cli_bundle_command(const cli_args *args, const char *what, const char *const *without, const app_feed *feed,
                        FILE *to);
/* What opens run.sh. */
void cli_bundle_script(FILE *to);
/* The given arguments without those that tell what the first model is given: its graph, once saved, says it all. */
td_status cli_bundle_args(const cli_args *args, cli_args *quiet, td_error *err);
#endif
