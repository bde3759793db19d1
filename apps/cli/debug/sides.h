/* sides.h -- one model profiled on two backends: where the time went before and after. */
#ifndef CLI_SIDES_H
#define CLI_SIDES_H
#include "cli/cli.h"

/* Profiles the model of `args` on `before` and on the backend that --backend names (default native), and prints their
 * classes of work side by side. */
td_status cli_compare_backends(cli_args *args, const char *before, td_error *err);
#endif
