/* tuning.h -- the numbers that `treadle tune` found for this machine, kept in a file. */
#ifndef CLI_TUNING_H
#define CLI_TUNING_H
#include "cli.h"

/* With --tuned, the numbers as td_load_options.tuning takes them, in the arena of `args`; without, NULL. TD_BAD_FILE:
 * there are none yet for this CPU and version. */
td_status cli_tuning_of(const cli_args *args, const char **text, td_error *err);
#endif
