/* perf.h -- generated code by name for Linux's perf, by the option --perf. */
#ifndef CLI_PERF_H
#define CLI_PERF_H
#include "cli.h"

#define CLI_OPTION_PERF                                                                                             \
  {                                                                                                                 \
    "perf", "FORM",                                                                                                 \
        "name generated code, with the nodes it stands for, to Linux's perf: map makes /tmp/perf-PID.map, jitdump " \
        "./jit-PID.dump for `perf inject -j`",                                                                      \
        "map jitdump", true                                                                                         \
  }

/* Nothing without the option. */
td_status cli_tell_perf(const cli_args *args, const td_model *model, td_error *err);
#endif
