/* machine.h -- what `treadle info` says of the machine: cores, threads and why that many, memory, environment. */
#ifndef CLI_MACHINE_H
#define CLI_MACHINE_H
#include "cli.h"

td_status cli_machine_print(const cli_args *args, td_error *err);
/* `*machine` is the caller's, also after an error. */
td_status cli_machine_json(const cli_args *args, json_t **machine, td_error *err);
#endif
