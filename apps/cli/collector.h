/* collector.h -- ranges for the profilers of others, by the option --itt. */
#ifndef CLI_COLLECTOR_H
#define CLI_COLLECTOR_H
#include <treadle/experimental.h>

#include "cli.h"

#define CLI_OPTION_ITT                                                                                             \
  {                                                                                                                \
    "itt", "WHAT", "ranges per step for VTune and others that set INTEL_LIBITTNOTIFY64: with names or shapes too", \
        "names shapes", false                                                                                      \
  }

/* *collector stays as it is without --itt. */
td_status cli_collector_open(const cli_args *args, td_collector **collector, td_error *err);
/* Ranges of the session's steps, from the next run on; nothing without a collector. */
td_status cli_collect(const cli_args *args, td_session *session, td_collector *collector, td_error *err);
#endif
