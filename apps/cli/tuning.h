/* tuning.h -- the numbers that `treadle tune` found for this machine, kept in a file. */
#ifndef CLI_TUNING_H
#define CLI_TUNING_H
#include "cli.h"
#include "common/kept.h"

enum { CLI_TUNING_TEXT = 512 /* most bytes of the numbers as a text, with its end */ };
/* Where the text is kept. */
td_status cli_tuning_place(app_kept *k, td_error *err);

/* With --tuned, the numbers as td_load_options.tuning takes them, in the arena of `args`; without, NULL. TD_BAD_FILE:
 * there are none yet for this CPU and version. */
td_status cli_tuning_of(const cli_args *args, const char **text, td_error *err);
#endif
